"""`Value`: an option's value that holds options of its own, such as `MaskedLM(probability=0.2)`.

A kind of value is a frozen dataclass. Its fields are options: from them follow what Python, TOML and the command line take,
the help and the page of options. What a value may be is checked where it is made, by the native module.

```text
Python        objective=MaskedLM(probability=0.2)
TOML          [objective] kind = "mlm", probability = 0.2
command line  --objective mlm --objective.probability 0.2
```
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, TypeAlias

from fastpack import types as _types
from fastpack.arguments.checks import nearest, shown
from fastpack.arguments.functions import place_of
from fastpack.errors import OptionError, OptionTypeError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "KIND",
    "Field",
    "Kind",
    "Value",
    "chosen",
    "fields_of",
    "from_table",
    "given_of",
    "parts_of",
    "to_table",
]

KIND: Final = "kind"
"""The key of the word of a value in TOML and JSON."""


Kind: TypeAlias = "type[Value]"
"""A kind of values that an option takes."""


class Value:
    """The base of the dataclasses: what they have in common.

    Attributes:
        option: The option that takes the value; empty if several do.
        kind: The word that stands for it with its defaults.
        plain: The field that another value than a word stands for; empty if there is none.
    """

    __slots__ = ()

    option: ClassVar[str] = ""
    kind: ClassVar[str]
    plain: ClassVar[str] = ""

    def __post_init__(self) -> None:
        """Makes lists tuples, so that the value hashes, and checks all fields."""
        for name in names_of(type(self)):
            if isinstance(given := getattr(self, name), list):
                object.__setattr__(self, name, tuple(given))
        self.check()

    def check(self) -> None:
        """Refuses what a field cannot be, by the name of the field."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """The call that makes it."""
        given = ", ".join(f"{name}={getattr(self, name)!r}" for name in given_of(self))
        return f"{type(self).__name__}({given})"


class Field(NamedTuple):
    """A field of some kinds of values of an option.

    Attributes:
        name: Its name in Python.
        type: Its type, resolved.
        spelled: Its type, as it is written.
        default: Its default.
        doc: What it decides.
        kinds: The words of the kinds that have it.
    """

    name: str
    type: object
    spelled: str
    default: object
    doc: str
    kinds: tuple[str, ...]

    @property
    def is_function(self) -> bool:
        """Whether its values are functions, which text names by their place."""
        return Callable in parts_of(self.type)


def parts_of(wanted: object) -> list[object]:
    """The types of a union, each without its parameters unless it is a list or a choice of words."""
    is_union = typing.get_origin(wanted) in {typing.Union, types.UnionType}
    parts = typing.get_args(wanted) if is_union else (wanted,)
    return [Callable if typing.get_origin(part) is Callable else part for part in parts]


def names_of(kind: type[Value]) -> list[str]:
    """The names of the fields of a kind of values."""
    return [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]  # every subclass is a dataclass


def given_of(value: Value) -> list[str]:
    """The names of the fields that are not at their defaults."""
    fields = dataclasses.fields(value)  # type: ignore[arg-type]  # every subclass is a dataclass
    return [field.name for field in fields if getattr(value, field.name) != field.default]


def docs_of(kind: type[Value]) -> dict[str, str]:
    """The text of each field, from the docstring of the class."""
    listed = inspect.cleandoc(kind.__doc__ or "").partition("Args:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", listed, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def fields_of(kinds: Iterable[type[Value]]) -> list[Field]:
    """The fields of some kinds of values; one that several kinds have comes once."""
    found: dict[str, Field] = {}
    for kind in kinds:
        docs = docs_of(kind)
        known = {**vars(_types), **vars(sys.modules[kind.__module__])}
        hints = typing.get_type_hints(kind, known, {"DocumentFunction": Callable})
        for field in dataclasses.fields(kind):  # type: ignore[arg-type]  # every subclass is a dataclass
            doc, before = docs.get(field.name, ""), found.get(field.name)
            words = (*(before.kinds if before else ()), kind.kind)
            found[field.name] = Field(
                field.name,
                hints[field.name],
                str(field.type),
                field.default,
                before.doc if before else doc,
                words,
            )
    return list(found.values())


def chosen(option: str, value: object, kinds: Mapping[str, Kind]) -> Value:
    """The value that a caller gave: one of the kinds, or the word of one."""
    if isinstance(value, tuple(kinds.values())):
        return typing.cast("Value", value)
    kind = kinds.get(value) if isinstance(value, str) else None
    if kind is None:
        words = ", ".join(f'"{word}"' for word in kinds)
        calls = " or ".join(sorted(f"{made.__name__}()" for made in kinds.values() if names_of(made))[:2])
        message = f"must be one of {words}, or a value such as {calls}, not `{shown(value)}`"
        raise (OptionError if isinstance(value, str) else OptionTypeError)(message, option)
    return kind()


def from_table(option: str, table: Mapping[str, object], kinds: Mapping[str, Kind]) -> Value:
    """The value that a table of TOML, an object of JSON or some flags describe."""
    only = next(iter(kinds)) if len(kinds) == 1 else None
    word = table.get(KIND, only)
    kind = kinds.get(word) if isinstance(word, str) else None
    if kind is None:
        words = ", ".join(f'"{known}"' for known in kinds)
        found = f"not `{shown(word)}`" if KIND in table else "which is missing"
        message = f"must have a `{KIND}`, one of {words}, {found}"
        raise OptionError(message, option)
    given = {name: value for name, value in table.items() if name != KIND}
    for name in given:
        known = names_of(kind)
        if name not in known:
            owners = [word for word, other in kinds.items() if name in names_of(other)]
            near = nearest(name, known)
            hint = f"; did you mean `{near}`?" if near else ""
            if owners:
                hint = "; it is one of " + ", ".join(f'"{owner}"' for owner in owners)
            message = f'is no option of "{word}"{hint}'
            raise OptionError(message, f"{option}.{name}")
    try:
        return kind(**given)
    except OptionError as refused:
        if kind.option:
            raise
        raise type(refused)(refused.reason, f"{option}.{refused.option}") from None
    except TypeError:
        missing = next(it.name for it in dataclasses.fields(kind) if it.name not in given)  # type: ignore[arg-type]
        message = "must be given"
        raise OptionError(message, f"{option}.{missing}") from None


def to_table(value: Value) -> dict[str, object]:
    """The value as a table of TOML or an object of JSON: its kind, and the fields that are not at their defaults.

    Raises:
        TypeError: A function has no place that a file could name.
    """
    fields = {name: getattr(value, name) for name in given_of(value)}
    return {
        KIND: value.kind,
        **{
            name: place_of(field) if callable(field) else list(field) if isinstance(field, tuple) else field
            for name, field in fields.items()
        },
    }
