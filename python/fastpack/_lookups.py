"""The lookups of a function: global names, captured variables, imports, and attributes of these.

They are read from the instructions, since `co_names` does not tell a global name from an attribute of that name. The
names of instructions are those of CPython 3.10 to 3.14; one that looks up a name and is none of them is reported as unknown.
"""

from __future__ import annotations

import dis
from dataclasses import dataclass, field
from itertools import takewhile
from types import CodeType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Import", "Lookups", "Use", "lookups"]

_SILENT = {"CACHE", "EXTENDED_ARG", "NOP", "PRECALL", "RESUME"}
"""Instructions without effect on the instructions around them."""

_GLOBALS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
_CELLS = {"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"}
_ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD"}
_OTHER_ATTRIBUTES = {"LOAD_SUPER_ATTR", "STORE_ATTR", "DELETE_ATTR"}
_BINDINGS = {"STORE_NAME", "STORE_GLOBAL", "DELETE_NAME", "DELETE_GLOBAL", "IMPORT_NAME", "IMPORT_FROM"}
"""Instructions with a name that bind it, or whose lookup is read from another instruction."""


class Import(NamedTuple):
    """An import inside a function."""

    module: str
    level: int
    """The number of leading dots of a relative import; 0 for an absolute one."""
    dotted: bool
    """Whether the import yields the module `a.b`, as in `from a.b import c`; `import a.b` yields `a`."""
    path: tuple[str, ...]
    """The attributes that the import reads from the module: `c`."""


class Use(NamedTuple):
    """A name or an import, and the attributes that follow it: `helpers.limits.least`."""

    root: str | Import
    captured: bool
    """Whether the name is a captured variable, rather than a global one."""
    path: tuple[str, ...]


@dataclass
class Lookups:
    """The lookups of a code object and of the code objects inside it."""

    uses: list[Use] = field(default_factory=list)
    imports: list[Import] = field(default_factory=list)
    attributes: list[str] = field(default_factory=list)
    """The attributes that are read from values known only at run time."""
    unknown: str | None = None
    """An unknown instruction that may look up a name."""


def lookups(code: CodeType) -> Lookups:
    """Finds the lookups of `code`."""
    found = Lookups()
    _read(code, {}, frozenset(), found)
    return found


class _Step(NamedTuple):
    """An instruction with its argument: a name or a value."""

    operation: str
    name: str
    value: object
    has_name: bool


def _steps(code: CodeType) -> Iterator[_Step]:
    """The instructions of `code`. One that loads two variables, or stores one and loads another, becomes two."""
    for instruction in dis.get_instructions(code):
        operation, value = instruction.opname, instruction.argval
        has_name = instruction.opcode in dis.hasname
        if operation in _SILENT:
            continue
        if not isinstance(value, tuple) or "FAST" not in operation:
            yield _Step(operation, str(value), value, has_name)
            continue
        first, last = value
        yield _Step(
            "STORE_FAST" if operation.startswith("STORE") else "LOAD_FAST", first, first, has_name=False
        )
        yield _Step(
            "STORE_FAST" if operation.endswith("STORE_FAST") else "LOAD_FAST", last, last, has_name=False
        )


def _read(code: CodeType, outer: Mapping[str, list[Import]], around: frozenset[str], found: Lookups) -> None:
    """Adds the lookups of `code` to `found`.

    `around` are the variables of the enclosing functions, and `outer` those of them that hold imports.
    """
    steps = list(_steps(code))
    own = _imports(steps, found)
    cells = {name: imports for name, imports in outer.items() if name not in code.co_cellvars}
    cells.update({name: imports for name, imports in own.items() if name in code.co_cellvars})
    around |= set(code.co_cellvars)
    local = {name: imports for name, imports in own.items() if name not in cells}
    taken = 0
    for at, step in enumerate(steps):
        roots = list(_roots(step, local, cells, around))
        if roots:
            path = tuple(it.name for it in takewhile(lambda it: it.operation in _ATTRIBUTES, steps[at + 1 :]))
            found.uses += [Use(root, captured, path) for root, captured in roots]
            taken = at + len(path)
        elif at > taken or step.operation not in _ATTRIBUTES:
            _look(step, steps[at - 1], found)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _read(constant, cells, around, found)


def _roots(
    step: _Step, local: Mapping[str, list[Import]], cells: Mapping[str, list[Import]], around: frozenset[str]
) -> Iterator[tuple[str | Import, bool]]:
    """The imports, the global or the captured name that an instruction loads; empty for other variables."""
    if step.operation in _GLOBALS:
        yield step.name, False
    elif step.operation in _CELLS:
        yield from ((imported, False) for imported in cells.get(step.name, ()))
        if step.name not in around:
            yield step.name, True
    elif step.operation.startswith("LOAD_FAST"):
        yield from ((imported, False) for imported in local.get(step.name, ()))


def _look(step: _Step, before: _Step, found: Lookups) -> None:
    """Adds the attributes that an instruction reads from a value known only at run time."""
    operation = step.operation
    if operation in _ATTRIBUTES or operation in _OTHER_ATTRIBUTES:
        found.attributes.append(step.name)
    elif operation == "MATCH_CLASS" and isinstance(before.value, tuple):
        found.attributes.extend(map(str, before.value))
    elif operation in {"MATCH_CLASS", "IMPORT_STAR"} or (step.has_name and operation not in _BINDINGS):
        found.unknown = operation


def _imports(steps: list[_Step], found: Lookups) -> dict[str, list[Import]]:
    """The variables that hold imports, each with its imports."""
    variables: dict[str, list[Import]] = {}
    for at, step in enumerate(steps):
        if step.operation == "IMPORT_NAME":
            level, names = steps[at - 2].value, steps[at - 1].value
            imported = Import(step.name, level if isinstance(level, int) else 0, dotted=bool(names), path=())
            found.imports.append(imported)
            for binding, taken in _bound(steps[at + 1 :], imported):
                if binding.operation in {"STORE_FAST", "STORE_DEREF"}:
                    variables.setdefault(binding.name, []).append(taken)
                else:
                    found.uses.append(Use(taken, captured=False, path=()))
    return variables


def _bound(after: list[_Step], imported: Import) -> Iterator[tuple[_Step, Import]]:
    """The bindings of an import, from the instructions after it: `import a`, `import a.b as c`, `from a import b, c`."""
    taken, swapped = imported, False
    for step in after:
        if step.operation == "IMPORT_FROM":
            taken = imported._replace(path=(*imported.path, step.name))
        elif step.operation in {"SWAP", "ROT_TWO"}:
            imported, swapped = taken, True
        elif step.operation == "POP_TOP" and swapped:
            swapped = False
        elif step.operation.startswith("STORE_"):
            yield step, taken
            if not taken.path:
                return
        else:
            return
