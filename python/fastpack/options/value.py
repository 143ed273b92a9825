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
import functools
import inspect
import numbers
import os
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple, TypeAlias, TypeGuard

from fastpack import _fastpack
from fastpack import types as _types
from fastpack.arguments.checks import nearest, shown
from fastpack.arguments.functions import place_of
from fastpack.arguments.message import Message, Setting
from fastpack.errors import OptionError, OptionTypeError
from fastpack.options.mistakes.foreign_names import meant_word

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from typing_extensions import Self

__all__ = [
    "KIND",
    "Field",
    "Kind",
    "Value",
    "as_value",
    "chosen",
    "fields_of",
    "from_table",
    "heeded_by",
    "is_kind",
    "marked",
    "nondefault_fields",
    "option_field",
    "parts_of",
    "paths_of",
    "refuse_fields",
    "required_of",
    "spelled_as_word",
    "to_table",
    "values_without_tokenizer",
    "with_field",
    "word_of",
    "words_in",
]

KIND: Final = "kind"
"""The key of the word of a value in TOML and JSON."""


Kind: TypeAlias = "type[Value]"
"""A kind of values that an option takes."""


class HashableDict(dict[str, Any]):  # type: ignore[explicit-any]  # of any JSON
    """A dict of JSON as a field of a value, which hashes."""

    __slots__ = ()

    def __hash__(self) -> int:  # type: ignore[override]  # a dict has none
        """Equal dicts hash alike: by their keys, since equal values such as 1 and 1.0 are written differently."""
        return hash(frozenset(self))


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

    def __new__(cls, *args: object, **fields: object) -> Self:
        """Refuses fields that the value does not have, by their names, before the dataclass would without a hint."""
        known = names_of(cls)
        unknown = next((name for name in fields if name not in known), None)
        if unknown is not None:
            message = f"is no option of {cls.__name__}{_known_names(unknown, known)}"
            raise OptionTypeError(message, f"{cls.option}.{unknown}" if cls.option else unknown)
        plain = [it.name for it in dataclasses.fields(cls) if not it.kw_only]  # type: ignore[arg-type]  # every subclass is a dataclass
        if len(args) > len(plain):
            taken = " and ".join(f"`{name}`" for name in plain) or "nothing"
            message = f"{cls.__name__} takes {taken} without a name; name all others"
            raise OptionTypeError(message, cls.option or cls.__name__)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        """Makes fields plain, so that the value hashes and files hold it, and checks them."""
        live, paths = marked(type(self), "live"), paths_of(type(self))
        for field in fields_of([type(self)]):
            if field.name not in live:
                value, is_free = _plain_of(getattr(self, field.name)), str in parts_of(field.type)
                if paths.get(field.name) == "always" and isinstance(value, os.PathLike):
                    value = os.fspath(value)
                spelled = value if is_free else spelled_as_word(value, words_in(field.type))
                object.__setattr__(self, field.name, spelled)
        try:
            self.check()
        except OptionError as refused:
            raise _hinted(self, refused) from None

    def check(self) -> None:
        """Refuses what a field cannot be, by the name of the field."""
        _fastpack.check_value(self.option, self)

    def check_words(self) -> None:
        """Refuses what is none of the words of a field, where it takes nothing else."""
        for field in fields_of([type(self)]):
            value, words = getattr(self, field.name), words_in(field.type)
            parts = parts_of(field.type)
            takes_dicts = any(typing.get_origin(part) is Mapping for part in parts)
            takes_others = {str, int} & {*parts} or (takes_dicts and isinstance(value, Mapping))
            takes_others = takes_others or (isinstance(value, Value) and type(value) in parts)
            is_word = isinstance(value, str) and value in words
            if words and not (is_word or takes_others or _is_same(value, field.default)):
                choices = ", ".join(f'"{word}"' for word in words)
                message = f"must be one of {choices}, not `{shown(value)}`"
                raise OptionError(message, f"{self.option}.{field.name}")

    def __repr__(self) -> str:
        """The call that makes it."""
        secret = marked(type(self), "secret")
        shown = {
            name: "..." if name in secret else repr(getattr(self, name)) for name in nondefault_fields(self)
        }
        return f"{type(self).__name__}({', '.join(f'{name}={text}' for name, text in shown.items())})"


def _plain_of(value: object) -> object:
    """A field as it hashes and as files hold it; what is too deep or too large is left as it is, for its check to refuse."""
    try:
        return _fixed(value)
    except (OverflowError, RecursionError):
        return HashableDict(value) if isinstance(value, Mapping) else value


def _fixed(value: object) -> object:
    """A field with tuples for lists, dicts that hash, and plain texts and numbers for those of other libraries."""
    if value is None or type(value) in {bool, int, float, str}:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Mapping):
        return HashableDict({key: _copied(entry) for key, entry in value.items()})
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview, range)):
        return tuple(map(_fixed, value))
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        return int(value) if isinstance(value, numbers.Integral) else float(value)
    return _of_library(value)


def _of_library(value: object) -> object:
    """A number, text or list of NumPy, pandas or pyarrow as one of Python; any other object is returned unchanged."""
    convert = getattr(type(value), "tolist", None) or getattr(type(value), "as_py", None)
    if convert is None or isinstance(value, memoryview):
        return value
    converted = convert(value)
    # A boolean of NumPy is none of Python, and no option takes it for one.
    return value if isinstance(converted, bool) or type(converted) is type(value) else _fixed(converted)


def _copied(entry: object) -> object:
    """An entry of a dict, which the caller can no longer change. In it, a list means something else than a tuple."""
    if type(entry) is dict:
        return {key: _copied(each) for key, each in entry.items()}
    if isinstance(entry, (list, tuple)) and type(entry) in {list, tuple}:
        copied = [_copied(each) for each in entry]
        return copied if isinstance(entry, list) else tuple(copied)
    return entry


_COMPARED: Final = (str, int, float, tuple)
"""The types of values that are compared with a default."""


def _is_same(value: object, default: object) -> bool:
    """True if a value is the default; one of another kind, such as an array, is not even compared."""
    are_plain = isinstance(value, _COMPARED) and isinstance(default, _COMPARED)
    return value is default or (are_plain and value == default)


def _hinted(value: Value, refused: OptionError) -> OptionError:
    """The error of a value, with the word that was probably meant; the same one if none is near."""
    name = refused.option.rpartition(".")[2]
    fields = {field.name: field for field in fields_of([type(value)])}
    if name not in fields or "did you mean" in refused.reason:
        return refused
    hint = meant_word(refused.option, getattr(value, name), words_in(fields[name].type))
    return type(refused)(Message(refused.reason, "; ", hint), refused.option) if hint else refused


class Field(NamedTuple):
    """A field of some kinds of values of an option.

    Attributes:
        name: Its name in Python.
        type: Its type, resolved.
        spelled: Its type, as it is written.
        default: Its default.
        doc: The description, for docstrings and help.
        kinds: The words of the kinds that have it.
        calls: The functions that heed it; empty if all that take the value do.
        secret: True if no message quotes it.
    """

    name: str
    type: object
    spelled: str
    default: object
    doc: str
    kinds: tuple[str, ...]
    calls: frozenset[str] = frozenset()
    secret: bool = False

    @property
    def is_function(self) -> bool:
        """True if the values of the field are functions, which text names by their place."""
        return Callable in parts_of(self.type)


def parts_of(wanted: object) -> list[object]:
    """The types of a union, each without its parameters unless it is a list or a choice of words."""
    is_union = typing.get_origin(wanted) in {typing.Union, types.UnionType}
    parts = typing.get_args(wanted) if is_union else (wanted,)
    return [Callable if typing.get_origin(part) is Callable else part for part in parts]


def is_kind(part: object) -> TypeGuard[Kind]:
    """True if a type is a kind of values."""
    return isinstance(part, type) and issubclass(part, Value)


def words_in(wanted: object) -> list[str]:
    """The words that a type names, for a mapping those of its keys."""
    parts = [
        typing.get_args(part)[0] if typing.get_origin(part) is Mapping else part for part in parts_of(wanted)
    ]
    literals = [part for part in parts if typing.get_origin(part) is Literal]
    return [word for part in literals for word in typing.get_args(part) if isinstance(word, str)]


def names_of(kind: type[Value]) -> list[str]:
    """The names of the fields of a kind of values."""
    return [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]  # every subclass is a dataclass


def with_field(option: str, kind: type[Value], field: str, held: str = "...") -> Setting:
    """An option with a value that has a field, for a message: `order=Balanced(ranks=...)`."""
    needed = "".join(f"{name}=..., " for name in required_of(kind) if name != field)
    return Setting(f"{option}.{field}", "...", f"{option}={kind.__name__}({needed}{field}={held})")


def required_of(kind: type[Value]) -> list[str]:
    """The names of the fields without a default."""
    return [field.name for field in fields_of([kind]) if field.default is dataclasses.MISSING]


def nondefault_fields(value: Value) -> list[str]:
    """The names of the fields that are not at their defaults."""
    fields = dataclasses.fields(value)  # type: ignore[arg-type]  # every subclass is a dataclass
    return [field.name for field in fields if not _is_same(getattr(value, field.name), field.default)]


def marked(kind: type[Value], mark: Literal["secret", "live", "once"]) -> frozenset[str]:
    """The fields that `option_field` was given this mark for."""
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]  # every subclass is a dataclass
    return frozenset(field.name for field in fields if field.metadata.get(mark))


def paths_of(kind: type[Value]) -> dict[str, str]:
    """The fields that are paths in a file of options: `always`, or where a file `exists`."""
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]  # every subclass is a dataclass
    return {field.name: field.metadata["path"] for field in fields if field.metadata.get("path")}


def values_without_tokenizer(kind: type[Value]) -> dict[str, tuple[object, ...]]:
    """The fields that need a tokenizer, each with the values that it may have without one: its default first."""
    return {
        field.name: (field.default, *field.metadata["without_tokenizer"])
        for field in dataclasses.fields(kind)  # type: ignore[arg-type]  # every subclass is a dataclass
        if field.metadata.get("without_tokenizer") is not None
    }


def docs_of(kind: type[Value]) -> dict[str, str]:
    """The descriptions of the fields, from the docstrings of the class and of those it extends."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if issubclass(each, Value):
            found |= _docstring_fields(each)
    return found


def _docstring_fields(kind: type[Value]) -> dict[str, str]:
    """The descriptions in the docstring of one class."""
    listed = inspect.cleandoc(kind.__doc__ or "").partition("Args:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", listed, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


_WRITTEN: Final[dict[str, object]] = {
    name: {"C": Callable, "M": Mapping[str, object], "S": Sequence[object]}[alias[0]]
    for name, alias in vars(_types).items()
    if isinstance(alias, str) and alias.startswith(("Callable", "Mapping", "Sequence"))
}
"""Aliases that are written as texts, since what they name is imported for types alone."""


def fields_of(kinds: Iterable[type[Value]]) -> list[Field]:
    """The fields of some kinds of values; one that several kinds have comes once."""
    found: dict[str, Field] = {}
    for kind in kinds:
        for field in _fields_of_one(kind):  # type: ignore[arg-type]  # classes hash
            before = found.get(field.name)
            if before is not None:
                field = field._replace(doc=before.doc, kinds=(*before.kinds, kind.kind))  # noqa: PLW2901  merged
            found[field.name] = field
    return list(found.values())


@functools.cache
def _fields_of_one(kind: type[Value]) -> tuple[Field, ...]:
    """The fields of one kind of values. Their types take 0.1 ms to resolve, and each value that is made asks for them."""
    docs = docs_of(kind)
    known = {**vars(_types), **vars(sys.modules[kind.__module__])}
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]  # every subclass is a dataclass
    # Of the fields alone: Python 3.10 takes the marker `KW_ONLY` for a wrong type.
    written = types.SimpleNamespace(__annotations__={field.name: field.type for field in fields})
    hints = typing.get_type_hints(written, known, _WRITTEN)
    return tuple(
        Field(
            field.name,
            hints[field.name],
            str(field.type),
            field.default,
            docs.get(field.name, ""),
            (kind.kind,),
            field.metadata.get("calls", frozenset()),
            field.metadata.get("secret", False),
        )
        for field in fields
    )


def chosen(option: str, value: object, kinds: Mapping[str, Kind]) -> Value:
    """The value that a caller gave: one of the kinds, or the word of one."""
    if isinstance(value, tuple(kinds.values())):
        return typing.cast("Value", value)
    kind = kinds.get(value) if isinstance(value, str) and option not in kinds else None
    if kind is None and option in kinds:
        message = f"must be a `{kinds[option].__name__}`, not `{shown(value)}`"
        raise OptionTypeError(message, option)
    if kind is None:
        words = ", ".join(f'"{word}"' for word in kinds)
        calls = " or ".join(sorted(f"{each.__name__}()" for each in kinds.values() if names_of(each))[:2])
        message = f"must be one of {words}, or a value such as {calls}, not `{shown(value)}`"
        raise (OptionError if isinstance(value, str) else OptionTypeError)(message, option)
    return kind()


def spelled_as_word(value: object, words: Iterable[str]) -> object:
    """A word as fastpack spells it: `best_fit` for `best-fit` or `Best Fit`. Any other value is returned unchanged."""
    if not isinstance(value, str):
        return value
    # The plain text of a subclass, such as a member of an enumeration, is compared as text.
    text, known = str.__str__(value), list(words)
    if text in known:
        return text
    plain = re.sub(r"[-_ ]+", "_", text.strip().lower())
    return next((word for word in known if word.replace("-", "_") == plain), value)


def as_value(option: str, value: object, kinds: Mapping[str, Kind]) -> object:
    """The value of an option: a word, or what stands for a field, as the value that it means.

    An option whose only value bears its name has that one where nothing is given. What is no value is returned unchanged: words
    that have no options of their own, and what the option refuses.
    """
    only = kinds.get(option)
    if isinstance(value, tuple(kinds.values())):
        return value
    if value is None:
        return only() if only else None
    if isinstance(value, Value) or (only and not only.plain):
        return chosen(option, value, kinds)
    if only is None:
        kind = kinds.get(value) if isinstance(value, str) else None
        return _build_value(option, kind, {}) if kind else value
    try:
        return _build_value(option, only, {only.plain: value})
    except OptionError as refused:
        if refused.option != f"{option}.{only.plain}":
            raise
        raise type(refused)(refused.reason, option) from None


def word_of(value: object) -> object:
    """The word of a value; any other value, such as a word itself, is returned unchanged."""
    return value.kind if isinstance(value, Value) else value


def option_field(  # type: ignore[explicit-any]  # as `dataclasses.field`
    default: object,
    *,
    objectives: tuple[str, ...] = (),
    calls: frozenset[str] = frozenset(),
    path: str = "",
    secret: bool = False,
    live: bool = False,
    once: bool = False,
    without_tokenizer: tuple[object, ...] | None = None,
) -> Any:  # noqa: ANN401  likewise
    """A field with more to say than type and default.

    Args:
        default: Its default.
        objectives: The training objectives that heed it, if not all do.
        calls: The functions that heed it, if not all that take the value do.
        path: When files of options hold a path there: `always`, or if a file `exists`.
        secret: True if no file holds it and no message quotes it.
        once: True if it belongs to one call, so that no manifest holds it.
        live: True if it is an object of Python, which no file holds.
        without_tokenizer: The values beside its default that it may have without a tokenizer; all if not given.
    """
    metadata = {
        "objectives": objectives,
        "calls": calls,
        "path": path,
        "secret": secret,
        "live": live,
        "once": once,
        "without_tokenizer": without_tokenizer,
    }
    return dataclasses.field(default=default, metadata=metadata)


def heeded_by(value: object) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The fields of a value that are given and that only some training objectives heed, with these."""
    if isinstance(value, Value):
        changed = nondefault_fields(value)
        for field in dataclasses.fields(value):  # type: ignore[arg-type]  # every subclass is a dataclass
            if field.name in changed and field.metadata.get("objectives"):
                yield field.name, field.metadata["objectives"]


def refuse_fields(name: str, value: object) -> None:
    """Refuses the fields of a value that mean nothing to a function."""
    if not isinstance(value, Value):
        return
    changed = nondefault_fields(value)
    for field in dataclasses.fields(value):  # type: ignore[arg-type]  # every subclass is a dataclass
        calls = field.metadata.get("calls")
        if calls and field.name in changed and name not in calls:
            takers = ", ".join(f"`{call}`" for call in sorted(calls))
            message = f"means nothing to {name}; it is for {takers}"
            raise OptionError(message, f"{value.option}.{field.name}")


def from_table(option: str, table: Mapping[str, object], kinds: Mapping[str, Kind]) -> Value:
    """The value that a table of TOML, an object of JSON or some flags describe."""
    only = next(iter(kinds)) if len(kinds) == 1 else None
    word = spelled_as_word(table.get(KIND, only), kinds)
    kind = kinds.get(word) if isinstance(word, str) else None
    if kind is None and isinstance(word, str):
        _refuse_field_of_other(option, word, table, kinds)
    if kind is None:
        words = ", ".join(f'"{known}"' for known in kinds)
        found = f"not `{shown(word)}`" if KIND in table else "which is missing"
        message = f"must have a `{KIND}`, one of {words}, {found}"
        raise OptionError(message, option)
    fields = {name: value for name, value in table.items() if name != KIND}
    for name in fields:
        known = names_of(kind)
        if name not in known:
            owners = [word for word, other in kinds.items() if name in names_of(other)]
            hint = _known_names(name, known)
            if owners:
                hint = "; it is one of " + ", ".join(f'"{owner}"' for owner in owners)
            message = f'is no option of "{word}"{hint}'
            raise OptionError(message, f"{option}.{name}")
    return _build_value(option, kind, fields)


def _known_names(name: str, known: Sequence[str]) -> str:
    """The hint for a field that a kind does not have: the field that was probably meant, or all that it has."""
    near = nearest(name, known)
    return f"; did you mean `{near}`?" if near else "; it has " + ", ".join(f"`{it}`" for it in known)


def _refuse_field_of_other(
    option: str, word: str, table: Mapping[str, object], kinds: Mapping[str, Kind]
) -> None:
    """Refuses a field beside a word that has none, such as `ranks` beside `order = "shuffle"`."""
    for name in table:
        owners = ", ".join(f'"{owner}"' for owner, kind in kinds.items() if name in names_of(kind))
        if owners:
            message = f"is no option of `{shown(word)}`; it is one of {owners}"
            raise OptionError(message, f"{option}.{name}")


def _build_value(option: str, kind: Kind, fields: Mapping[str, object]) -> Value:
    """A value with these fields; errors name the fields as options."""
    try:
        return kind(**fields)
    except OptionError as refused:
        if kind.option:
            raise
        raise type(refused)(refused.reason, f"{option}.{refused.option}") from None
    except TypeError:
        missing = next(name for name in required_of(kind) if name not in fields)
        raise OptionError(
            Message("must be given: ", with_field(option, kind, missing)), f"{option}.{missing}"
        ) from None


def _plain(field: object) -> object:
    """A field as JSON and TOML have it."""
    if isinstance(field, Value):
        return to_table(field)
    if callable(field):
        return place_of(field)
    if isinstance(field, (datetime, os.PathLike)):
        return field.isoformat() if isinstance(field, datetime) else os.fspath(field)
    return list(field) if isinstance(field, tuple) else dict(field) if isinstance(field, Mapping) else field


def to_table(value: Value) -> dict[str, object]:
    """The value as a table of TOML or an object of JSON: its kind, and the fields that are not at their defaults.

    Secrets are left out.

    Raises:
        TypeError: A function has no place that a file could name.
    """
    secret = marked(type(value), "secret")
    fields = {name: getattr(value, name) for name in nondefault_fields(value) if name not in secret}
    return {
        **({} if value.kind == value.option else {KIND: value.kind}),
        **{name: _plain(field) for name, field in fields.items()},
    }
