"""What tells a function of the caller from others, in this process and in later ones.

A job goes on, and tokens are taken from a cache, only for the same functions. So nothing may count that another process
has differently, such as an address or the order of a set, and everything that decides what a function does: its code, what
it has captured, and what it finds under the names of its module.
"""

from __future__ import annotations

import copyreg
import functools
import hashlib
import os
import sys
import sysconfig
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["identity"]

_PLAIN = (type(None), type(...), type(NotImplemented), bool, int, float, complex, str, bytes)
"""What its `repr` tells all of."""

_THIS_PROCESS = os.urandom(4).hex()
"""Tells what cannot be told from what another process has."""

_INSTALLED = tuple(
    os.path.join(path, "")  # noqa: PTH118  compared with what modules say of themselves, which is text
    for name in ("stdlib", "platstdlib", "purelib", "platlib")
    if (path := sysconfig.get_paths().get(name))
)

_OF_CLASSES = {
    "__dict__",
    "__doc__",
    "__firstlineno__",
    "__module__",
    "__static_attributes__",
    "__weakref__",
    "_abc_impl",
}
"""What stands in a class and decides nothing, or is made of the rest."""


def identity(function: object) -> str:
    """What tells a function from others.

    What has no pickle, such as a lock or a connection, cannot be told from another of its kind, and makes the function
    another one in each process; the text says so.
    """
    teller = _Teller(function)
    name = getattr(function, "__qualname__", type(function).__qualname__)
    digest = teller.digest(function).hex()[:16]
    if teller.untold:
        return f"{name} (holds a {teller.untold}, another each time) {digest}"
    return f"{name}:{digest}"


class _Teller:
    """Makes digests of values, by what they are made of."""

    def __init__(self, function: object) -> None:
        self.untold: str | None = None
        """The first kind of value that could not be told from another."""
        self._told = function
        self._known: dict[int, bytes] = {}
        self._kept: list[object] = []

    def digest(self, value: object) -> bytes:
        if type(value) in _PLAIN:
            return _hash(type(value).__name__.encode(), repr(value).encode("utf-8", "surrogatepass"))
        known = self._known.get(id(value))
        if known is None:
            # What is made of itself is told by how it was come to.
            self._known[id(value)] = _hash(b"again", str(len(self._known)).encode())
            # An address is a value's own only while that lives.
            self._kept.append(value)
            known = self._known[id(value)] = _hash(type(value).__qualname__.encode(), *self._parts(value))
        return known

    @functools.singledispatchmethod
    def _parts(self, value: object) -> Iterable[bytes]:
        """Digests of what a value is made of: if nothing else is known of it, of what it would be made of again."""
        return self._all(self._reduced(value))

    @_parts.register(set)
    @_parts.register(frozenset)
    def _set(self, value: Iterable[object]) -> Iterable[bytes]:
        return sorted(self._all(value))

    @_parts.register(dict)
    @_parts.register(MappingProxyType)
    def _dict(self, value: Mapping[object, object]) -> Iterable[bytes]:
        return self._all(item for pair in value.items() for item in pair)

    @_parts.register(functools.partial)
    def _partial(self, value: functools.partial[object]) -> Iterable[bytes]:
        return self._all((value.func, value.args, dict(sorted(value.keywords.items()))))

    @_parts.register(MethodType)
    def _method(self, value: MethodType) -> Iterable[bytes]:
        return self._all((value.__func__, value.__self__))

    @_parts.register(property)
    def _property(self, value: property) -> Iterable[bytes]:
        return self._all((value.fget, value.fset, value.fdel))

    @_parts.register(staticmethod)
    @_parts.register(classmethod)
    @_parts.register(functools.cached_property)
    @_parts.register(type(functools.lru_cache(len)))
    def _wrapper(self, value: object) -> Iterable[bytes]:
        wrapped = (getattr(value, name, None) for name in ("__wrapped__", "__func__", "func"))
        return self._all(wrapped)

    @_parts.register(ModuleType)
    def _module(self, value: ModuleType) -> Iterable[bytes]:
        return self._all((value.__name__, _state_of(value)))

    @_parts.register(BuiltinFunctionType)
    def _builtin(self, value: BuiltinFunctionType) -> Iterable[bytes]:
        owner = value.__module__ if isinstance(value.__self__, ModuleType) else value.__self__
        return self._all((value.__qualname__, owner))

    @_parts.register(list)
    @_parts.register(tuple)
    def _all(self, values: Iterable[object]) -> Iterable[bytes]:
        return (self.digest(value) for value in values)

    @_parts.register(CodeType)
    def _code(self, code: CodeType) -> Iterable[bytes]:
        shape = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        tables = (code.co_code, getattr(code, "co_exceptiontable", b""), code.co_consts)
        return self._all((*shape, *names, *tables))

    @_parts.register(FunctionType)
    def _function(self, function: FunctionType) -> Iterator[bytes]:
        if function is not self._told and _is_foreign(function.__module__):
            yield from self._named(function)
            return
        captured = [_content(cell) for cell in function.__closure__ or ()]
        yield from self._all((function.__code__, function.__defaults__, function.__kwdefaults__, captured))
        known = function.__globals__
        for name in sorted(_names(function.__code__)):
            if name in known:
                yield from self._all((name, known[name]))

    @_parts.register(type)
    def _class(self, kind: type) -> Iterator[bytes]:
        yield from self._named(kind)
        if not _is_foreign(kind.__module__):
            own = {name: it for name, it in vars(kind).items() if name not in _OF_CLASSES}
            slots = set(own.get("__slots__", ()))
            yield from self._all(kind.__bases__)
            yield from self._all(
                part for pair in sorted(own.items()) if pair[0] not in slots for part in pair
            )

    def _named(self, value: FunctionType | type) -> Iterable[bytes]:
        package = sys.modules.get(_package(value.__module__) or "")
        return self._all((value.__module__, value.__qualname__, getattr(package, "__version__", None)))

    def _reduced(self, value: object) -> Iterable[object]:
        """What a value would be made of again."""
        try:
            reduce = copyreg.dispatch_table.get(type(value))
            reduced = reduce(value) if reduce else value.__reduce_ex__(4)
        except Exception:  # noqa: BLE001  whatever a type says that has no pickle
            self.untold = self.untold or type(value).__qualname__
            return (_THIS_PROCESS, id(value))
        if isinstance(reduced, str):
            return (type(value), reduced)
        # The fourth and the fifth part are iterators: over what a list holds, and a dict.
        return (list(part) if part and at in {3, 4} else part for at, part in enumerate(reduced))


def _is_foreign(module: str | None) -> bool:
    """Whether a module is installed, so that its version tells of it, and not the caller's own."""
    if module is None or module == "__main__":
        return False
    path = getattr(sys.modules.get(module), "__file__", None)
    return path is None or path.startswith(_INSTALLED)


def _state_of(module: ModuleType) -> object:
    """The version of a package that is installed, the text of a module of the caller."""
    path = getattr(module, "__file__", None)
    if path is None or _is_foreign(module.__name__):
        return getattr(module, "__version__", None)
    try:
        return Path(path).read_bytes()
    except OSError:
        return None


def _names(code: CodeType) -> set[str]:
    """The names that a function looks up, and functions inside it."""
    inside = (part for part in code.co_consts if isinstance(part, CodeType))
    return set(code.co_names).union(*map(_names, inside))


def _content(cell: object) -> object:
    """What a function has captured; one that is defined later has captured nothing yet."""
    try:
        return cell.cell_contents  # type: ignore[attr-defined]
    except ValueError:
        return ...


def _package(module: str | None) -> str | None:
    return module.partition(".")[0] if module else None


def _hash(*parts: bytes) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()
