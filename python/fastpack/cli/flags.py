"""The flags of the command line as arguments of a parser. Each sets an option of a function."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeAlias, get_args

from fastpack import types
from fastpack.cli.values import VALUES, of_type, unquoted
from fastpack.options import GROUPS, OPTIONS
from fastpack.options.option import Flag
from fastpack.options.value import (
    KIND,
    Field,
    Value,
    fields_of,
    from_table,
    is_kind,
    marked,
    nondefault_fields,
    parts_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fastpack.options.option import Option

__all__ = ["ALL", "FLAGS", "TOPICS", "Function", "add_flags", "objects_of", "with_values"]

Function: TypeAlias = "Callable[..., object]"  # type: ignore[explicit-any]  # its options are what is looked at


def add_flags(
    command: argparse.ArgumentParser,
    own: Sequence[Flag],
    function: Function,
    *,
    complete: bool,
    topic: str | None = None,
) -> None:
    """Adds a flag for each option of a command's function: the command's own flags first, then those of the table.

    Unless the command line is `complete`, none is required. The help shows the common flags, or those of a `topic`.
    """
    parameters = inspect.signature(function).parameters
    missing = {name: parameter.default for name, parameter in parameters.items()}
    missing |= {flag.option: flag.default for flag in own if flag.of_command}
    missing |= {
        flag.option: flag.default
        for flags in FLAGS.values()
        for flag in flags
        if flag.holder != flag.option and flag.holder in parameters
    }
    for title, flags in [(None, own), *FLAGS.items()]:
        known = [flag for flag in flags if flag.option in missing]
        group = command.add_argument_group(title) if title and known else command
        for flag in known:
            if flag.calls and function.__qualname__ not in flag.calls:
                continue
            is_common = title is None or flag.common
            is_shown = topic == ALL or (is_common if topic is None else TOPICS.get(topic) == title)
            _add(flag, group, missing.pop(flag.option), complete=complete, shown=is_shown)


def _add(
    flag: Flag, group: argparse._ActionsContainer, default: object, *, complete: bool, shown: bool
) -> None:
    """Adds a flag to a parser. If it is not given, the function's default applies."""
    words = get_args(getattr(types, flag.words)) if flag.words else ()
    help = flag.help + (f": {', '.join(words)}" if words else "")  # noqa: A001
    if not flag.on:
        help += _default(flag, default)  # noqa: A001
    rest: dict[str, object] = {"help": help if shown else argparse.SUPPRESS, "default": argparse.SUPPRESS}
    if flag.switch:
        rest |= {"action": argparse.BooleanOptionalAction}
    elif flag.on:
        rest |= {"action": "store_true"}
    else:
        parse = VALUES[flag.type] if flag.type else of_type(flag.parsed) if flag.parsed else None
        if parse and flag.secret:
            parse = unquoted(parse, flag.example)
        settings = {"metavar": flag.metavar, "type": parse, "nargs": flag.nargs}
        rest |= {name: value for name, value in settings.items() if value is not None}
    if flag.spelling.startswith("-"):
        required = complete and (flag.required or default is inspect.Parameter.empty)
        rest |= {"dest": flag.option, "required": required}
    action = group.add_argument(*flag.names, **rest)  # type: ignore[arg-type]
    if words:
        action.completer = lambda **_: words  # type: ignore[attr-defined]  # which argcomplete looks for


def _default(flag: Flag, default: object) -> str:
    """The text about the default in the help."""
    if default is inspect.Parameter.empty:
        return ""
    if isinstance(default, bool):
        shown = "yes" if default else "no"
    elif default is None:
        shown = flag.unset
    else:
        shown = ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
    return f" (default: {shown})" if shown else ""


_FIRST: Final = ("output", "tokenizer", "max_length")
"""The options that the help lists first, without a title."""

ALL: Final = "all"
"""The topic of the help that lists all flags."""

TOPICS: Final = dict(
    zip(("rows", "objective", "tokens", "records", "output", "storage", "work"), GROUPS, strict=True)
)
"""The titles of flags in the help, by the words that ask for them."""


def objects_of(option: Option) -> set[str]:
    """The fields that are objects of Python, and no functions, which text names by their place."""
    live = {name for kind in option.kinds.values() for name in marked(kind, "live")}
    return live - {field.name for field in fields_of(option.kinds.values()) if field.is_function}


def _flags(options: Iterable[Option]) -> tuple[Flag, ...]:
    """The flags of some options, each followed by those of the options in its value."""
    found: list[Flag] = []
    for option in options:
        if option.flag:
            plain = {kind.plain for kind in option.kinds.values()}
            inner = [
                it
                for it in fields_of(option.kinds.values())
                if (len(option.kinds) > 1 or it.name not in plain) and it.name not in objects_of(option)
            ]
            found += [option.flag] if not option.flag.holds else []
            for field in inner:
                found.append(_inner_flag(option.flag, field, several=len(option.kinds) > 1))
                # The flags of a value in the value, such as `--reading.images.folder`.
                kinds = [kind for kind in parts_of(field.type) if is_kind(kind)]
                found += [_inner_flag(found[-1], it, several=False) for it in fields_of(kinds)]
    return tuple(found)


def _inner_flag(flag: Flag, field: Field, *, several: bool) -> Flag:
    """The flag of an option in the value of another one, such as `--objective.probability`."""
    return Flag(
        f"{flag.names[-1]}.{field.name.replace('_', '-')}",
        (f"of {', '.join(field.kinds)}: " if several else "") + _first_sentence(field.doc),
        metavar="VALUE",
        parsed=field.type,
        switch=field.type is bool,
        unset=_unset(field),
        calls=field.calls,
        secret=field.secret,
        default=None if field.default is dataclasses.MISSING else field.default,
    )


def _unset(field: Field) -> str:
    """The text about the default of a field that has none."""
    return "not given" if field.default is None else ""


def _first_sentence(text: str) -> str:
    """The first sentence of a description, as a help text."""
    sentence = re.split(r"[.;:] ", text + " ", maxsplit=1)[0].rstrip(".").replace("`", "").replace("%", "%%")
    return sentence[:1].lower() + sentence[1:]


def with_values(
    options: Mapping[str, object], base: Mapping[str, object] | None = None, *, call: str = "pack_dir"
) -> dict[str, object]:
    """Options with the flags of values put together: `objective` and `objective.probability` are one value.

    Where the word is not given, the value in `base` is changed, or else the default of the `call`.
    """
    plain = {name: value for name, value in options.items() if "." not in name}
    for name in dict.fromkeys(name.partition(".")[0] for name in options if "." in name):
        inner = {
            option.partition(".")[2]: value
            for option, value in options.items()
            if option.startswith(f"{name}.")
        }
        word, before = options.get(name), (base or {}).get(name)
        inner = _with_tables(inner, before)
        kinds = OPTIONS[name].kinds
        [first, *_] = kinds.values()
        if len(kinds) == 1 and (first.plain or first.kind == name):
            # The flag itself has no word, but the value that stands for a field.
            if word is None and isinstance(before, first):
                inner = {**{it: getattr(before, it) for it in nondefault_fields(before)}, **inner}
            elif (value := before if word is None else word) is not None:
                inner = {first.plain: value, **inner}
            plain[name] = from_table(name, inner, kinds)
            continue
        if isinstance(before, Value) and word in {None, before.kind}:
            word, inner = (
                before.kind,
                {**{it: getattr(before, it) for it in nondefault_fields(before)}, **inner},
            )
        elif word is None and isinstance(before, str):
            word = before
        word = word or OPTIONS[name].in_call(call).default
        plain[name] = from_table(name, {**({KIND: word} if word else {}), **inner}, kinds)
    return plain


def _with_tables(fields: Mapping[str, object], before: object) -> dict[str, object]:
    """Fields of a value, of which `images` and `images.folder` are one table. Where `images` has no word, that of the value before stays."""
    merged = {name: value for name, value in fields.items() if "." not in name}
    for holder in dict.fromkeys(name.partition(".")[0] for name in fields if "." in name):
        inner = {
            name.partition(".")[2]: value for name, value in fields.items() if name.startswith(f"{holder}.")
        }
        word, value = merged.get(holder), getattr(before, holder, None)
        if isinstance(value, Value) and word in {None, value.kind}:
            inner = {**{it: getattr(value, it) for it in nondefault_fields(value)}, **inner}
        table = word if isinstance(word, Mapping) else {KIND: word} if word is not None else {}
        merged[holder] = {**table, **inner}
    return merged


FLAGS: Final[dict[str | None, tuple[Flag, ...]]] = {
    None: _flags(OPTIONS[name] for name in _FIRST),
    **{
        title: _flags(option for option in options if option.name not in _FIRST)
        for title, options in GROUPS.items()
    },
}
"""The flags by their titles in the help; the first group has no title."""
