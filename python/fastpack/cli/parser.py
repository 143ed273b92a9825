"""The parser of the command line: help at the terminal's width, and suggestions for unknown commands and flags."""

from __future__ import annotations

import argparse
import os
import textwrap
from itertools import chain
from typing import TYPE_CHECKING, Final, NoReturn

import fastpack
from fastpack._fastpack import one_line
from fastpack.arguments.checks import nearest
from fastpack.cli.commands import COMMANDS, RECIPES, Command
from fastpack.cli.flags import ALL, FLAGS, TOPICS, add_flags, objects_of
from fastpack.cli.messages import spelled
from fastpack.options import OPTIONS
from fastpack.options.mistakes.foreign_names import FOREIGN_COMMANDS, FOREIGN_OPTIONS, MOVED, OPTION_ADVICE
from fastpack.options.mistakes.suggestions import nearest_option
from fastpack.options.value import fields_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fastpack.options.option import Flag

__all__ = ["LOST", "USAGE", "flags_of", "parse", "parser"]

USAGE: Final = 2
LOST: Final = 3

_EXIT_CODES: Final = """\
exit codes:
  0    all is well
  1    the data, a file or the tokenizer made the run fail; stderr says why
  2    the command line is wrong
  3    more is lost than --max-lost allows, or no document is kept
  130  interrupted by Ctrl-C
  143  ended by SIGTERM
"""

_LINE: Final = 400
"""The most characters of a refusal, enough to list the words of any flag."""

_NEAR: Final = 0.8
"""The likeness from which on a flag is a misspelling, where it may also be the name of another program."""

_RECIPES: Final = frozenset(name for flag in RECIPES for name in flag.names)
"""Flags that name a source of options. With one of them no other flag is required."""


class _Help(argparse.HelpFormatter):
    """Wraps descriptions at the width of the terminal, and leaves examples as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "\n" in text:
            return "".join(indent + line for line in text.splitlines(keepends=True))
        return textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """The spellings of a flag; each on a line of its own where they are too long for one."""
        text = super()._format_action_invocation(action)
        if len(text) > self._width - self._current_indent:
            text = text.replace(", --", f",\n{' ' * self._current_indent}--")
        return text


class _Parser(argparse.ArgumentParser):
    """A parser whose errors take one line."""

    def error(self, message: str) -> NoReturn:
        """Prints the error and the command for help. What was typed may be long, and is cut in its middle."""
        line = one_line(message)
        if len(line) > _LINE:
            line = f"{line[: _LINE // 2]}…{line[-_LINE // 2 :]}"
        self.exit(USAGE, f"{self.prog}: {line}; see `{self.prog} --help`\n")


def flags_of(command: Command) -> list[Flag]:
    """All flags of a command, its own first."""
    return [*command.flags, *chain.from_iterable(FLAGS.values())]


def parser(*, complete: bool = True, topic: str | None = None) -> argparse.ArgumentParser:
    """Makes the parser of the whole command line; unless it is `complete`, no flag is required. The help is of a `topic`."""
    top = _Parser(
        prog="fastpack",
        description="Packs conversations into Arrow rows of token ids, exactly as transformers makes them.",
        epilog=_epilog(*COMMANDS.values()),
        formatter_class=_Help,
        allow_abbrev=False,
    )
    top.add_argument("-V", "--version", action="version", version=f"fastpack {fastpack.__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    for name, command in COMMANDS.items():
        added = commands.add_parser(
            name,
            help=command.help,
            description=command.description,
            usage=f"fastpack {name} {command.usage}",
            epilog=_epilog(command) if topic is None else None,
            formatter_class=_Help,
            allow_abbrev=False,
        )
        add_flags(added, command.flags, command.function(), complete=complete, topic=topic)
        if topic is None and (named := _topics(command)):
            added.epilog = f"{named}\nexamples:\n{command.examples}"
    return top


def parse(arguments: Sequence[str]) -> dict[str, object]:
    """Parses a command line into the command, its options, and `fallback` if no command was named."""
    words = list(arguments)
    fallback = bool(words) and words[0].startswith("-") and words[0] not in _OWN
    if fallback:
        words = ["pack", *words]
    complete = not fallback and not any(it.partition("=")[0] in _RECIPES for it in words)
    words, topic = _without_topic(words)
    top = parser(complete=complete, topic=topic)
    trainer = None
    if words[:1] == ["stream"] and "--" in words:
        at = words.index("--")
        words, trainer = words[:at], words[at + 1 :]
    _refuse_unknown_command(top, words)
    _refuse_unknown_flag(top, words)
    found, rest = top.parse_known_args(words)
    values: dict[str, object] = vars(found)
    if rest:
        _take_or_refuse(top, values, rest)
    if trainer is not None:
        if not trainer:
            top.error("`--` must be followed by a command")
        values["trainer"] = trainer
    return {**values, "fallback": True} if fallback else values


def _without_topic(words: list[str]) -> tuple[list[str], str | None]:
    """A command line without the topic of `--help TOPIC`, and the topic."""
    at = next((at for at, typed in enumerate(words) if typed in {"-h", "--help"}), len(words))
    if words[at + 1 : at + 2] and words[at + 1] in {ALL, *TOPICS}:
        return [*words[: at + 1], *words[at + 2 :]], words[at + 1]
    return words, None


_OWN: Final = frozenset({"-h", "--help", "-V", "--version"})
"""Flags that are allowed without a command."""


def _refuse_unknown_command(top: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Refuses an unknown command, and suggests the nearest one."""
    named = next(iter(words), "")
    if not named or named.startswith("-") or named in COMMANDS:
        return
    meant = FOREIGN_COMMANDS.get(named.lower()) or nearest(named.lower(), COMMANDS)
    if os.path.exists(named):
        hint = f"`{named}` is a file, no command; did you mean `fastpack pack {named} ...`?"
    elif meant:
        hint = f"`{named}` is no command; did you mean `{meant}`?"
    else:
        hint = f"`{named}` is no command; there are {', '.join(COMMANDS)}"
    top.error(hint)


def _refuse_unknown_flag(top: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Refuses an unknown flag, and suggests the nearest one, before missing arguments are reported."""
    command = COMMANDS.get(next(iter(words), ""))
    if command is None:
        return
    known = {"--help", *(name for flag in flags_of(command) for name in flag.names)}
    for typed in words[1:]:
        name = typed.partition("=")[0]
        if name == "--":
            return
        if name.startswith("--") and name not in known and name.replace("--no-", "--", 1) not in known:
            top.prog = f"fastpack {words[0]}"
            top.error(f"`{name}` is no flag of `{words[0]}`{_meant(name, command)}")


def _take_or_refuse(top: argparse.ArgumentParser, values: dict[str, object], rest: Sequence[str]) -> None:
    """Takes positional files after flags; refuses an unknown flag, and suggests the nearest one."""
    name = str(values["command"])
    command = COMMANDS[name]
    listed = next((flag.option for flag in command.flags if flag.nargs == "*"), None)
    unknown = next((it for it in rest if it.startswith("-") and len(it) > 1), None)
    if unknown is None and listed is not None:
        before = values.get(listed)
        values[listed] = [*(before if isinstance(before, list) else []), *rest]
        return
    top.prog = f"fastpack {name}"
    if unknown is None:
        top.error(f"`{rest[0]}` is one argument too many")
    typed = unknown.partition("=")[0]
    top.error(f"`{typed}` is no flag of `{name}`{_meant(typed, command)}")


def _meant(typed: str, command: Command) -> str:
    """A hint for a flag that a command does not have."""
    spellings = {flag.option: flag.names[-1] for flag in flags_of(command) if flag.names[-1].startswith("-")}
    taken = {*_options(command)}
    known = {option: spelling for option, spelling in spellings.items() if option.partition(".")[0] in taken}
    plain = typed.lstrip("-").replace("-", "_").lower()
    name, _, field = MOVED.get(plain, plain).partition(".")
    of_python = name in taken and name in OPTIONS and field in objects_of(OPTIONS[name])
    if of_python or (plain in taken and plain not in spellings):
        return ", but an option of the function in Python: its value is an object, which no text names"
    within = [spelling for option, spelling in known.items() if option.endswith(f".{plain}")]
    if (plain in OPTION_ADVICE or within) and plain not in known:
        # A field that its option stands for has no flag of its own.
        moved = known.get(f"{name}.{field}") or next(iter(within), None) or (field and known.get(name))
        if moved:
            return f"; did you mean `{moved}`{_with_kind(name, field)}?"
        return f"; {spelled(OPTION_ADVICE[plain], flags_of(command))}"
    holder, _, inner = plain.partition(".")
    fields = [field.name for field in fields_of(OPTIONS[holder].kinds.values())] if holder in OPTIONS else []
    is_near = nearest(inner, fields, likeness=_NEAR) is not None
    if inner and holder in known and not is_near and (example := _example_of(holder, command)):
        return f"; options of a store are given as JSON, `{known[holder]} '{example}'`"
    meant = nearest_option(plain, known)
    if meant is None and FOREIGN_OPTIONS.get(plain) == "files":
        return "; name the files without a flag"
    return f"; did you mean `{known[meant]}`?" if meant else ""


def _example_of(option: str, command: Command) -> str:
    """The JSON that the flag of an option takes; empty if it takes no names of others."""
    return next((flag.example for flag in flags_of(command) if flag.option == option), "")


def _with_kind(name: str, field: str) -> str:
    """The word that a field needs beside it, such as `--objective mlm`, where the option has several kinds of values."""
    kinds = OPTIONS[name].kinds if name in OPTIONS else {}
    words = [word for word, kind in kinds.items() if field in {it.name for it in fields_of([kind])}]
    needs = len(kinds) > 1 and words and OPTIONS[name].default not in words
    return f" with `{' or '.join(f'--{name} {word}' for word in words)}`" if needs else ""


def _options(command: Command) -> Iterable[str]:
    """The options that a command takes."""
    import inspect  # noqa: PLC0415  a wrong command line alone

    yield from inspect.signature(command.function()).parameters
    yield from (flag.option for flag in command.flags)


def _topics(command: Command) -> str:
    """The topics of the help of a command, if it has more flags than the help lists."""
    taken = {*_options(command)}
    topics = [topic for topic, title in TOPICS.items() if any(flag.holder in taken for flag in FLAGS[title])]
    return f"more flags:\n  --help {'|'.join([*topics, ALL])}\n" if topics else ""


def _epilog(*commands: Command) -> str:
    """The text below the flags: examples of these commands, and exit codes."""
    examples = "\n".join(command.examples for command in commands)
    return f"examples:\n{examples}\n{_EXIT_CODES}"
