"""`identity`: the name and a hash of a caller's function, the same in every process.

A job is resumed, and tokens are taken from a cache, only for the same functions. So an identity is complete or there is none: it is
made of a function's code and of all that the code can reach, by value. What cannot be followed to its end, such as a file that is
read, raises `UnfollowedError`.

Nothing may count that another process has differently, such as an address or the order of a set.
"""

from __future__ import annotations

import abc
import builtins
import enum
import hashlib
import importlib.util
import logging
import re
import sys
from types import BuiltinFunctionType, FunctionType, MethodWrapperType, ModuleType
from typing import TYPE_CHECKING, Final, NoReturn

from fastpack._checks import shown
from fastpack._known import (
    forbidden,
    is_installed,
    is_installed_module,
    is_of_caller,
    is_whole,
    known,
    known_module,
    names,
    replaced,
    versions,
)
from fastpack._lookups import Import, lookups
from fastpack._parts import PLAIN, Unordered, attributes_of, has_cached, is_set, is_value, parts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["UnfollowedError", "identity"]

_MOST: Final = 100_000
"""The most values that are followed, without numbers and texts: about a second of work."""

_FEW: Final = 8
"""The most numbers and texts that are hashed one by one. Of a longer list, the `repr` is hashed."""

_HEAP_TYPE: Final = 1 << 9
"""The flag of classes that were made while the program ran (`Py_TPFLAGS_HEAPTYPE`)."""

_OF_CLASSES: Final = names(
    "__abstractmethods__ __annotate__ __annotate_func__ __annotations__ __annotations_cache__ __classdictcell__ __dict__ "
    "__doc__ __firstlineno__ __module__ __orig_bases__ __parameters__ __qualname__ __slots__ __static_attributes__ "
    "__type_params__ __weakref__"
)
"""Attributes of classes that followed code does not read, or that are derived from the others."""

_OF_ENUMS: Final = re.compile(r"_(?!missing_|new_member_|generate_next_value_)[a-z]\w*[a-z]_")
"""Attributes that an enum derives from its members."""

_WRAPPERS: Final = names("_collections_abc collections contextlib dataclasses enum functools reprlib typing")
"""Modules of the standard library whose functions return functions that only compute, and call what they captured."""

_LOGGING: Final = names("critical debug error exception info log warning")
"""Methods of a logger that return nothing."""

_BY_TEXT: Final = re.compile(r"\{[^{}]*\.__")
"""A field of `str.format` that reads a double-underscore attribute."""


class UnfollowedError(Exception):
    """A function uses something that cannot be followed; the message names it, such as "`open` in `load`"."""

    def __init__(self, thing: str, where: str | None = None) -> None:
        super().__init__(thing if where is None else f"{thing} in {_quoted(where)}")
        self.thing = thing
        self.where = where


def identity(function: object) -> str:
    """Returns the name of a function, and a hash of its code and of everything that it uses.

    Raises:
        UnfollowedError: It uses something that its code does not determine, so it has no identity.
    """
    name = getattr(function, "__qualname__", type(function).__qualname__)
    try:
        return f"{shown(name)[1:-1]}:{_digest(function)[:16]}"
    except RecursionError:
        thing = "values that are nested too deep"
        raise UnfollowedError(thing) from None
    except UnfollowedError:
        raise
    except Exception as refused:  # whatever an object raises that is looked at
        thing = f"a value that cannot be looked at ({type(refused).__name__})"
        raise UnfollowedError(thing) from refused


def _digest(value: object) -> str:
    follower = _Follower()
    follower.follow(value)
    return follower.hash.hexdigest()


class _Follower:
    """Hashes the parts of a value, depth first."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self._numbers: dict[int, int] = {}
        """The numbers of the followed objects, by address."""
        self._kept: list[object] = []
        """The followed objects, kept alive so that no address is reused."""
        self._spaces: dict[int, int] = {}
        """The numbers of the followed functions' global dicts, by address."""
        self._intact: set[str] = set()
        """Known modules of which no attribute was replaced."""
        self._count = 0
        self._write(*versions())

    def follow(self, value: object) -> None:
        """Hashes the parts of a value; an object that was followed before is hashed as its number."""
        kind = type(value)
        if kind in PLAIN:
            self._plain(value)
            return
        self._count += 1
        if self._count > _MOST:
            _refuse(f"more than {_MOST:,} values")
        if isinstance(value, Unordered):
            self._all(_ordered(value.values))
        elif is_value(value):
            self._write(kind.__qualname__)
            self._all(parts_of(value) or ())
        elif self._is_new(value):
            self._object(value)

    def _object(self, value: object) -> None:
        name = known(value)
        if name is not None:
            if isinstance(value, abc.ABCMeta) and any(map(is_of_caller, _registered(value))):
                _refuse(f"{_quoted(name)} (with which other classes are registered)")
            self._known(name)
        elif isinstance(value, type):
            self._class(value)
        elif type(value) is FunctionType:
            self._function(value)
        elif isinstance(value, ModuleType):
            self._module(value)
        elif isinstance(value, (BuiltinFunctionType, MethodWrapperType)):
            self._builtin(value)
        else:
            self._instance(value)

    def _write(self, *parts: str) -> None:
        for part in parts:
            text = part.encode("utf-8", "surrogatepass")
            self.hash.update(len(text).to_bytes(8, "little"))
            self.hash.update(text)

    def _is_new(self, value: object) -> bool:
        number = self._numbers.setdefault(id(value), len(self._numbers))
        is_new = number == len(self._kept)
        if is_new:
            self._kept.append(value)
        self._write("new" if is_new else f"again {number}")
        return is_new

    def _all(self, values: Iterable[object]) -> None:
        listed = list(values)
        self._write(f"{len(listed)} parts")
        if len(listed) > _FEW and all(map(PLAIN.__contains__, map(type, listed))):
            self._text(repr(listed))
            return
        for value in listed:
            self.follow(value)

    def _plain(self, value: object) -> None:
        # A long number has no `repr`.
        self._write(type(value).__name__)
        self._text(hex(value) if type(value) is int else repr(value))

    def _text(self, text: str) -> None:
        found = _BY_TEXT.search(text) if "__" in text else None
        if found is not None:
            _refuse(f"the text {_quoted(found[0])} (which finds an attribute by its name)")
        self._write(text)

    def _known(self, name: str) -> None:
        module = name.rpartition(".")[0]
        if module not in self._intact:
            other = replaced(name)
            if other is not None:
                _refuse(f"{_quoted(name)} (in whose module somebody has replaced {_quoted(other)})")
            self._intact.add(module)
        self._write("known", name)

    def _builtin(self, value: BuiltinFunctionType | MethodWrapperType) -> None:
        """Follows a bound method of a builtin type; refuses any other compiled function."""
        if value.__self__ is None or isinstance(value.__self__, ModuleType):
            _refuse(_full_name(value))
        _check(value.__name__)
        self._all((value.__name__, value.__self__))

    def _instance(self, value: object) -> None:
        kind = type(value)
        if has_cached(value):
            _refuse(f"a cached function ({_full_name(value)[1:-1]}, which has results already)")
        parts = parts_of(value)
        if parts is not None:
            self._write(kind.__module__, kind.__qualname__)
            self._all(parts)
            return
        held = attributes_of(value)
        if held is None:
            _refuse(f"a {_full_name(kind)}")
        self.follow(kind)
        self._all(held)

    def _module(self, module: ModuleType) -> None:
        """Follows a module that is used as a value, so that any attribute of it may be read."""
        if not is_whole(module):
            _refuse(f"the module {_quoted(module.__name__)} as a value")
        self._known(f"{module.__name__}.*")

    def _class(self, kind: type) -> None:
        if not kind.__flags__ & _HEAP_TYPE or is_installed_module(kind.__module__):
            _refuse(_full_name(kind))
        if isinstance(kind, abc.ABCMeta) and _registered(kind):
            _refuse(f"{_full_name(kind)} (with which other classes are registered)")
        self._write("class", kind.__module__, kind.__qualname__)
        self.follow(type(kind))
        self._all(kind.__bases__)
        own = {name: it for name, it in vars(kind).items() if name not in _OF_CLASSES}
        if isinstance(kind, abc.ABCMeta):
            own.pop("_abc_impl", None)
        if isinstance(kind, enum.EnumMeta):
            members: Mapping[str, object] = kind.__members__
            own = {
                name: it for name, it in own.items() if name not in members and not _OF_ENUMS.fullmatch(name)
            }
            self._all((name, sorted(vars(member).items())) for name, member in members.items())
        self._write(*sorted(own))
        self._all(own[name] for name in sorted(own))

    def _function(self, function: FunctionType) -> None:
        self._write("function", function.__name__, function.__qualname__)
        try:
            self._code(function)
        except UnfollowedError as found:
            raise UnfollowedError(found.thing, found.where or function.__qualname__) from None

    def _code(self, function: FunctionType) -> None:
        """Follows the code of a function and everything that the code refers to."""
        code, variables = function.__code__, function.__globals__
        if type(variables) is not dict:
            _refuse("global variables that are no dict")
        self.follow(code)
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        captured = {name: cell.cell_contents for name, cell in cells.items() if is_set(cell)}
        if is_installed(code):
            is_made = cells or "<locals>" in function.__qualname__
            if not is_made or variables.get("__name__") not in _WRAPPERS:
                _refuse(_full_name(function))
        else:
            # Other functions of a module see what one of them assigns to a module variable.
            self._write(f"of module {self._spaces.setdefault(id(variables), len(self._spaces))}")
            self._lookups(function, captured)
        # Only the attributes of a captured module that the code reads are followed.
        self._all(cell for name, cell in cells.items() if not isinstance(captured.get(name), ModuleType))
        self._all((function.__defaults__, function.__kwdefaults__, sorted(function.__dict__.items())))

    def _lookups(self, function: FunctionType, captured: Mapping[str, object]) -> None:
        """Follows the names that the code of a function looks up."""
        found = lookups(function.__code__)
        if found.unknown is not None:
            _refuse(f"the instruction `{found.unknown}`")
        for imported in found.imports:
            _module_of(imported, function)
        for attribute in found.attributes:
            _check(attribute)
        for use in dict.fromkeys(found.uses):
            self._write("use", str(use))
            if isinstance(use.root, Import):
                self._use(_module_of(use.root, function), (*use.root.path, *use.path))
            elif use.captured:
                self._use(captured.get(use.root, _MISSING), use.path)
            else:
                builtin = _builtins_of(function).get(use.root, _MISSING)
                value = function.__globals__.get(use.root, builtin)
                # Hashes differ between processes, but only dicts and sets use the result of `__hash__`.
                if value is not hash or function.__name__ != "__hash__":
                    self._use(value, use.path)

    def _use(self, value: object, path: tuple[str, ...]) -> None:
        """Follows a value whose attributes `path` are read directly; of a module only these attributes."""
        while isinstance(value, ModuleType) and path:
            name, *rest = path
            taken = _attribute_of(value, name)
            if type(taken) not in PLAIN and is_installed_module(value.__name__) and not _may_be_known(taken):
                _refuse(_quoted(f"{value.__name__}.{name}"))
            value, path = taken, tuple(rest)
        for name in path:
            _check(name)
        if not _only_logs(value, path):
            self.follow(value)


def _refuse(thing: str) -> NoReturn:
    raise UnfollowedError(thing)


_MISSING: Final = NotImplemented
"""The placeholder of a name that is not defined yet."""


def _builtins_of(function: FunctionType) -> Mapping[str, object]:
    found: Mapping[str, object] = getattr(function, "__builtins__", {})
    return found


def _only_logs(value: object, path: tuple[str, ...]) -> bool:
    """Whether a logger's method is called that only writes a message and returns nothing."""
    is_logger = type(value) in {logging.Logger, logging.RootLogger}
    return is_logger and len(path) == 1 and path[0] in _LOGGING and path[0] not in vars(value)


def _check(attribute: str) -> None:
    why = forbidden(attribute)
    if why is not None:
        _refuse(f"the attribute {_quoted(attribute)} ({why})")


def _module_of(imported: Import, function: FunctionType) -> ModuleType:
    """The module of an import inside a function; it must be loaded already."""
    package = (
        function.__globals__.get("__package__")
        or str(function.__globals__.get("__name__")).rpartition(".")[0]
    )
    try:
        name = importlib.util.resolve_name("." * imported.level + imported.module, package)
    except ImportError:
        name = imported.module
    module = known_module(name) or sys.modules.get(name)
    if module is not None and not imported.dotted:
        module = sys.modules.get(name.partition(".")[0])
    if module is None:
        _refuse(f"an import of {_quoted(name)} (which is not loaded before it runs)")
    return module


def _attribute_of(module: ModuleType, name: str) -> object:
    """The attribute of a module, if it is stored in the module itself."""
    if type(module) is ModuleType and name in vars(module):
        return vars(module)[name]
    full = f"{module.__name__}.{name}"
    if known_module(full) is not None:
        return sys.modules[full]
    if known_module(module.__name__) is module and hasattr(module, name):
        return getattr(module, name)
    _refuse(_quoted(full))


def _may_be_known(value: object) -> bool:
    """Whether a value of an installed module can be followed: a module, a function that only computes, an instance of such a class."""
    return isinstance(value, ModuleType) or known(value) is not None or known(type(value)) is not None


def _ordered(values: list[object]) -> list[object]:
    """Sorts values in an order that does not depend on their addresses."""
    kinds = set(map(type, values))
    if kinds in ({str}, {bytes}):
        return sorted(values)  # type: ignore[type-var]
    if kinds <= PLAIN:
        return sorted(values, key=lambda value: (type(value).__name__, repr(value)))
    return sorted(values, key=_digest)


def _registered(kind: type) -> list[object]:
    """The classes that are registered as subclasses of an abstract class; no attribute of it lists them."""
    import _abc  # type: ignore[import-not-found]  # noqa: PLC0415  it has no types

    return [found() for found in _abc._get_dump(kind)[0] if found() is not None]  # noqa: SLF001  there is no public way


def _full_name(value: object) -> str:
    owner = getattr(value, "__self__", None)
    module = getattr(value, "__module__", None) or (owner.__name__ if isinstance(owner, ModuleType) else None)
    name = getattr(value, "__qualname__", "")
    is_short = module in {None, "builtins", "__main__"} or getattr(builtins, str(name), None) is value
    return _quoted(name if is_short else f"{module}.{name}")


def _quoted(name: object) -> str:
    """Quotes a name for a message, on one line of bounded length."""
    return f"`{shown(str(name))[1:-1]}`"
