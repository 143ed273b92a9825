"""The flags of the command line as arguments of a parser. Each sets an option of a function."""

from __future__ import annotations

import argparse
import inspect
from typing import TYPE_CHECKING, Final, TypeAlias, get_args

from fastpack import _types
from fastpack._checks import SECRET_OPTIONS
from fastpack.cli.values import VALUES, unquoted
from fastpack.options import GROUPS, OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fastpack.options.option import Flag, Option

__all__ = ["FLAGS", "Function", "add_flags"]

Function: TypeAlias = "Callable[..., object]"  # type: ignore[explicit-any]  # its options are what is looked at


def add_flags(
    command: argparse.ArgumentParser, own: Sequence[Flag], function: Function, *, complete: bool
) -> None:
    """Adds a flag for each option of a command's function: the command's own flags first, then those of the table.

    Unless the command line is `complete`, none is required.
    """
    missing = dict(inspect.signature(function).parameters)
    missing |= {
        flag.option: inspect.Parameter(flag.option, inspect.Parameter.KEYWORD_ONLY, default=flag.default)
        for flag in own
        if flag.beside
    }
    for title, flags in [(None, own), *FLAGS.items()]:
        known = [flag for flag in flags if flag.option in missing]
        group = command.add_argument_group(title) if title and known else command
        for flag in known:
            _add(flag, group, missing.pop(flag.option).default, complete=complete)


def _add(flag: Flag, group: argparse._ActionsContainer, default: object, *, complete: bool) -> None:
    """Adds a flag to a parser. If it is not given, the function's default applies."""
    words = get_args(getattr(_types, flag.words)) if flag.words else ()
    help = flag.help + (f": {', '.join(words)}" if words else "")  # noqa: A001
    if not flag.on:
        help += _default(flag, default)  # noqa: A001
    rest: dict[str, object] = {"help": help, "default": argparse.SUPPRESS}
    if flag.switch:
        rest |= {"action": argparse.BooleanOptionalAction}
    elif flag.on:
        rest |= {"action": "store_true"}
    else:
        parse = VALUES[flag.type] if flag.type else None
        if parse and flag.option in SECRET_OPTIONS:
            parse = unquoted(parse)
        given = {"metavar": flag.metavar, "type": parse, "nargs": flag.nargs}
        rest |= {name: value for name, value in given.items() if value is not None}
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


def _flags(options: Iterable[Option]) -> tuple[Flag, ...]:
    return tuple(option.flag for option in options if option.flag)


FLAGS: Final[dict[str | None, tuple[Flag, ...]]] = {
    None: _flags(OPTIONS[name] for name in _FIRST),
    **{
        title: _flags(option for option in options if option.name not in _FIRST)
        for title, options in GROUPS.items()
    },
}
"""The flags by their titles in the help; the first group has no title."""
