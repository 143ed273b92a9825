"""The flags of the command line. Each sets an option of a function, and comes from the table of options."""

from __future__ import annotations

import argparse
import inspect
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, get_args

from fastpack import _types
from fastpack._checks import SECRET_OPTIONS
from fastpack.cli.values import VALUES, unquoted
from fastpack.options import GROUPS, OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fastpack.options.option import Option

__all__ = ["FLAGS", "Flag", "Function", "add_flags"]

Function: TypeAlias = "Callable[..., object]"  # type: ignore[explicit-any]  # its options are what is looked at


class Flag(NamedTuple):
    """A flag, or an argument without one.

    Attributes:
        spelling: The spellings, such as `-s --strategy`; a bare word for a positional argument.
        help: The help text. The valid values and the default are appended.
        named: The name of the option, if it differs from the flag's.
        words: The `Literal` of the valid words.
        metavar: The placeholder of the value in the help.
        type: The function that parses the value.
        nargs: `+` if the flag takes several values.
        switch: Whether it is a switch with an on and an off spelling.
        required: Whether the command needs it though the function has a default.
        on: Whether it takes no value and only turns something on.
        beside: Whether it is a flag of the command, not an option of the function.
        default: Its default, if it is an option of the command.
        unset: The text about the default in the help, if the option has no default of its own.
    """

    spelling: str
    help: str
    named: str | None = None
    words: object = None
    metavar: str | None = None
    type: Callable[[str], object] | None = None
    nargs: str | None = None
    switch: bool = False
    required: bool = False
    on: bool = False
    beside: bool = False
    default: object = None
    unset: str = ""

    @property
    def names(self) -> list[str]:
        """Its spellings, the long one last."""
        return self.spelling.split()

    @property
    def option(self) -> str:
        """The name of the option that it sets."""
        return self.named or self.names[-1].removeprefix("--").replace("-", "_")

    def add_to(
        self, group: argparse._ActionsContainer, parameter: inspect.Parameter, *, complete: bool
    ) -> None:
        """Adds the flag to a parser. If it is not given, the function's default applies."""
        help, default = self.help, parameter.default  # noqa: A001
        if self.words:
            help += f": {', '.join(get_args(self.words))}"  # noqa: A001
        if not self.on:
            help += self._default(default)  # noqa: A001
        rest: dict[str, object] = {"help": help, "metavar": self.metavar, "default": argparse.SUPPRESS}
        if self.switch:
            rest = {"help": help, "default": argparse.SUPPRESS, "action": argparse.BooleanOptionalAction}
        if self.on:
            rest = {"help": help, "default": argparse.SUPPRESS, "action": "store_true"}
        rest |= {name: value for name in ("type", "nargs") if (value := getattr(self, name)) is not None}
        if self.spelling.startswith("-"):
            rest |= {
                "dest": self.option,
                "required": complete and (self.required or default is inspect.Parameter.empty),
            }
        action = group.add_argument(*self.names, **rest)  # type: ignore[arg-type]
        if self.words:
            words = get_args(self.words)
            action.completer = lambda **_: words  # type: ignore[attr-defined]  # which argcomplete looks for

    def _default(self, default: object) -> str:
        """The text about the default in the help."""
        if default is inspect.Parameter.empty:
            return ""
        if isinstance(default, bool):
            shown = "yes" if default else "no"
        elif default is None:
            shown = self.unset
        else:
            shown = ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
        return f" (default: {shown})" if shown else ""

    def spelled(self, value: object) -> str:
        """The flag with a value, as it is typed."""
        name = self.names[-1]
        if self.switch or self.on:
            return name if value else name.replace("--", "--no-", 1)
        if isinstance(value, dict):
            return f"{name} {','.join(f'{key}={entry}' for key, entry in value.items())}"
        return f"{name} {value}"


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
            flag.add_to(group, missing.pop(flag.option), complete=complete)


_FIRST: Final = ("output", "tokenizer", "max_length")
"""The options that the help lists first, without a title."""


def _flag(option: Option) -> Flag | None:
    """The flag that sets an option, if there is one."""
    if option.flag is None:
        return None
    spelling, help_, words, metavar, type_, switch, unset = option.flag
    parse = VALUES[type_] if type_ else None
    return Flag(
        spelling,
        help_,
        words=words and getattr(_types, words),
        metavar=metavar,
        type=unquoted(parse) if parse and option.name in SECRET_OPTIONS else parse,
        switch=switch,
        unset=unset,
        required=option.name == "output",
    )


def _flags(options: Iterable[Option]) -> tuple[Flag, ...]:
    return tuple(flag for flag in map(_flag, options) if flag)


FLAGS: Final[dict[str | None, tuple[Flag, ...]]] = {
    None: _flags(OPTIONS[name] for name in _FIRST),
    **{
        title: _flags(option for option in options if option.name not in _FIRST)
        for title, options in GROUPS.items()
    },
}
"""The flags by their titles in the help; the first group has no title."""
