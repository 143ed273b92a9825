"""What the command line does: its commands, their help, and how they end."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, NoReturn, TypeAlias

import fastpack
from fastpack._checks import check_choice
from fastpack._fastpack import one_line
from fastpack.cli.flags import FLAGS, Flag, Function, add_flags
from fastpack.errors import FastpackError, LossError, OptionError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import FrameType

__all__ = ["main", "parser"]

Color: TypeAlias = Literal["auto", "always", "never"]

_OK: Final = 0
_FAILED: Final = 1
_USAGE: Final = 2
_LOST: Final = 3
_INTERRUPTED: Final = 128 + signal.SIGINT
_TERMINATED: Final = 128 + signal.SIGTERM

_EXIT_CODES: Final = """\
exit codes:
  0    all is well
  1    the data, a file or the tokenizer made the run fail; one line on stderr says which and why
  2    the command line is wrong
  3    more is lost than --max-lost allows; nothing is in its place
  130  interrupted by Ctrl-C
  143  ended by SIGTERM
"""


class _Terminated(BaseException):
    """SIGTERM arrived: unwinds like Ctrl-C, so that nothing is left behind."""


class _Command(NamedTuple):
    """A command, which prints what a function returns.

    Attributes:
        help: A line for the list of commands.
        description: A sentence for its own help.
        usage: What it needs.
        examples: What one does with it, and the lines that do it.
        flags: Flags that only it has, or has in a way of its own.
        function: Loads the function, whose parameters are its options.
    """

    help: str
    description: str
    usage: str
    examples: str
    flags: tuple[Flag, ...]
    function: Callable[[], Function]


_RECIPES: Final = (
    Flag("--config", "a TOML file of options; flags win over it", metavar="FILE", beside=True),
    Flag(
        "--like",
        "a folder that was packed before: its options hold again, but for --output; flags win over them",
        metavar="DIR",
        beside=True,
    ),
)
"""Flags that name where options come from that are not on the command line."""

_COMMANDS: Final = {
    "pack": _Command(
        help="pack files into a folder",
        description="Packs files of conversations, requests or text into files of packed rows.",
        usage="[-i FILE ...] -o DIR [-t TOKENIZER] -m TOKENS [--config FILE] [--like DIR] [FLAG ...]",
        examples="""\
  pack a folder of conversations for a context of 8192 tokens
    fastpack pack -i data/ -o packed/ -t path/to/tokenizer -m 8192

  several files, cut what is too long, leave out what cannot be read
    fastpack pack -i a.jsonl 'part-{00..99}.jsonl' -o packed/ -t org/name -m 4096 \\
        --overlong truncate --on-bad-record skip

  a job as a file; and a finished job once more, with shorter rows
    fastpack pack --config recipe.toml
    fastpack pack --like packed/ -o packed-4k/ -m 4096
""",
        flags=(
            Flag(
                "-i --input", "files, folders, globs, brace lists", named="files", nargs="+", metavar="FILE"
            ),
            *_RECIPES,
        ),
        function=lambda: fastpack.pack_dir,
    ),
    "repack": _Command(
        help="pack kept tokens once more",
        description="Packs the tokens that `fastpack pack --keep-tokens` kept once more, without tokenizing.",
        usage="-i DIR -o DIR -m TOKENS [FLAG ...]",
        examples="""\
  keep the tokens, and pack them once more for a shorter context
    fastpack pack -i data/ -o packed/ -t org/name -m 8192 --keep-tokens
    fastpack repack -i packed/ -o packed-4k/ -m 4096
""",
        flags=(
            Flag(
                "-i --input",
                "a folder that `fastpack pack --keep-tokens` wrote",
                named="source",
                metavar="DIR",
            ),
        ),
        function=lambda: fastpack.repack,
    ),
    "scan": _Command(
        help="read files and pack nothing: shapes, bad records, lengths, rows",
        description="Reads files and packs nothing: says what they hold, which records are bad, and how many rows of "
        "each length they would come to.",
        usage="[FILE ...] [-t TOKENIZER] [-m TOKENS ...] [FLAG ...]",
        examples="""\
  look before packing: what the files hold, which records are bad, how rows of two lengths would do
    fastpack scan data/ -t path/to/tokenizer -m 4096 8192
""",
        flags=(
            Flag("files", "files, folders, globs, brace lists", nargs="*", metavar="FILE"),
            Flag("-t --tokenizer", "a folder, a tokenizer.json, or a name on the hub; ids need none"),
            Flag(
                "-m --max-length",
                "tokens that a row holds at most, one or several lengths to try",
                type=int,
                nargs="+",
                metavar="TOKENS",
            ),
            Flag(
                "--sample",
                "read about N records all over the files, and estimate what all of them are like",
                type=int,
                metavar="N",
            ),
        ),
        function=lambda: fastpack.scan,
    ),
    "tokenizer": _Command(
        help="say what a tokenizer is, and how fast",
        description="Says which engine makes the ids of a tokenizer, and why; its components, its tokens, its chat "
        "template; and how many megabytes of text it encodes in a second on one core.",
        usage="TOKENIZER [--revision REVISION]",
        examples="""\
  which engine serves a tokenizer, and how fast
    fastpack tokenizer path/to/tokenizer
""",
        flags=(
            Flag("tokenizer", "a folder, a tokenizer.json, or a name on the hub", metavar="TOKENIZER"),
            Flag("--revision", "the branch, tag or commit of a name on the hub"),
        ),
        function=lambda: _tokenizer,
    ),
    "inspect": _Command(
        help="show a packed row in words",
        description="Shows a packed row: its documents, their boundaries, and which tokens are trained.",
        usage="FILE [-r ROW] [-t TOKENIZER] [--color WHEN]",
        examples="""\
  look at the first row: documents, boundaries, and what is trained
    fastpack inspect packed/train-00000.arrow --row 0 -t path/to/tokenizer
""",
        flags=(
            Flag("file", "a file that `fastpack pack` wrote", metavar="FILE"),
            Flag("-r --row", "the row, from 0", type=int),
            Flag(
                "-t --tokenizer",
                "turns ids to text; if not given, the one that report.json beside the file names",
            ),
            Flag(
                "--color",
                "when trained tokens are shown in colour instead of between « and »",
                words=Color,
                metavar="WHEN",
            ),
        ),
        function=lambda: _inspect,
    ),
    "verify": _Command(
        help="check a packed folder: files, rows, and a sample tokenized again",
        description="Checks a packed folder: its files against the manifest, every row, and a sample of its inputs "
        "tokenized again. Exits with 1 if anything is wrong.",
        usage="DIR [-t TOKENIZER] [--sample N]",
        examples="""\
  check files, rows and tokens before a long training run
    fastpack verify packed/ -t path/to/tokenizer
""",
        flags=(
            Flag("folder", "a folder that `fastpack pack` or another tool wrote", metavar="DIR"),
            Flag(
                "-t --tokenizer",
                "what the rows were packed with; if not given, what report.json in the folder names",
            ),
            Flag("--sample", "about how many documents are tokenized again", type=int, metavar="N"),
        ),
        function=lambda: _verify,
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code."""
    flags: list[Flag] = []
    try:
        signal.signal(signal.SIGTERM, _terminate)
        given = vars(parser(complete=not _names_recipe(arguments)).parse_args(arguments))
        command = _COMMANDS[given.pop("command")]
        flags = [*chain.from_iterable(FLAGS.values()), *command.flags]
        return _print(command.function()(**_with_recipe(given)))
    except BrokenPipeError:
        return _OK  # the reader, such as `head`, has seen enough
    except (FastpackError, OSError) as failed:
        return _complain(_in_flags(_in_one_line(failed), flags), _exit_code(failed))
    except KeyboardInterrupt:
        return _complain("interrupted", _INTERRUPTED)
    except _Terminated:
        return _complain("terminated", _TERMINATED)


def _exit_code(failed: BaseException) -> int:
    if isinstance(failed, OptionError):
        return _USAGE
    return _LOST if isinstance(failed, LossError) else _FAILED


class _Parser(argparse.ArgumentParser):
    """A parser whose errors take one line, as all others here."""

    def error(self, message: str) -> NoReturn:
        """Says what is wrong and where help is."""
        self.exit(_USAGE, f"{self.prog}: {one_line(message)}; see `{self.prog} --help`\n")


def parser(*, complete: bool = True) -> argparse.ArgumentParser:
    """The parser of the whole command line; unless it is `complete`, what is required may be said elsewhere."""
    top = _Parser(
        prog="fastpack",
        description="Packs conversations into Arrow rows of token ids, exactly as transformers makes them.",
        epilog=_epilog(*_COMMANDS.values()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"fastpack {fastpack.__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in _COMMANDS.items():
        parser = commands.add_parser(
            name,
            help=command.help,
            description=command.description,
            usage=f"fastpack {name} {command.usage}",
            epilog=_epilog(command),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        add_flags(parser, command.flags, command.function(), complete=complete)
    return top


def _names_recipe(arguments: Sequence[str] | None) -> bool:
    """Whether options come from a file or a folder too."""
    given = sys.argv[1:] if arguments is None else arguments
    return any(argument.partition("=")[0] in {"--config", "--like"} for argument in given)


def _with_recipe(given: dict[str, object]) -> dict[str, object]:
    """The options of a command line, over those of the file or the folder that it names."""
    from fastpack.recipes import load_config, load_manifest  # noqa: PLC0415  few command lines name one

    config, like = given.pop("config", None), given.pop("like", None)
    options: dict[str, object] = {}
    if isinstance(like, str):
        options = load_manifest(like)
        unheld = options.pop("unheld", {})
        for name, kind in unheld.items() if isinstance(unheld, dict) else ():
            if name not in given:
                message = (
                    f"invalid option `{name}`: was {kind} in `{like}`, which no manifest holds; pass it again"
                )
                raise OptionError(message, name)
    if isinstance(config, str):
        options |= load_config(config)
    options |= given
    if config is not None or like is not None:
        for name in ("output", "max_length"):
            if name not in options:
                message = f"invalid option `{name}`: must be given"
                raise OptionError(message, name)
    return options


def _epilog(*commands: _Command) -> str:
    """What stands below the flags: examples of these commands, and exit codes."""
    examples = "\n".join(command.examples for command in commands)
    return f"examples:\n{examples}\n{_EXIT_CODES}"


def _inspect(file: str, row: int = 0, tokenizer: str | None = None, color: Color = "auto") -> str:
    """A row of a file, in words."""
    from fastpack._inspect import describe  # noqa: PLC0415  loads more than other commands need

    check_choice("color", color, Color)
    terminal = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    colored = color == "always" or (color == "auto" and terminal)
    return "\n".join(describe(file, row, tokenizer, color=colored))


def _tokenizer(tokenizer: str, revision: str | None = None) -> str:
    """A tokenizer, in words."""
    from fastpack._about_tokenizer import describe  # noqa: PLC0415  loads more than other commands need

    return "\n".join(describe(fastpack.Tokenizer(tokenizer, threads=1, revision=revision)))


def _verify(folder: str, tokenizer: str | None = None, sample: int = 100) -> fastpack.Verification:
    """What is found in a folder; an error where anything is wrong."""
    found = fastpack.verify(folder, tokenizer=tokenizer, sample=sample)
    if found.problems:
        _print(found)
        count = len(found.problems)
        message = f"{folder}: {count:,} {'problems' if count > 1 else 'problem'}, listed above"
        raise FastpackError(message)
    return found


def _print(shown: object) -> int:
    """Writes to stdout, and gives it up where nothing more can be written, so that Python does not try again."""
    try:
        sys.stdout.write(f"{shown}\n")
        sys.stdout.flush()
    except OSError as failed:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(failed, BrokenPipeError):
            raise
        raise StorageError(failed.errno, failed.strerror, "standard output") from failed
    return _OK


def _in_one_line(failed: BaseException) -> str:
    text = str(failed)
    if isinstance(failed, OSError) and failed.strerror:
        text = f"{failed.filename}: {failed.strerror}" if failed.filename else failed.strerror
    return one_line(text)


def _in_flags(message: str, flags: Iterable[Flag]) -> str:
    """An error's message with options spelled as flags: `--overwrite`, not `overwrite=True`."""
    spellings = {spoken: typed for flag in flags for spoken, typed in flag.spellings().items()}
    found = "|".join(rf"\b{re.escape(spoken)}" for spoken in spellings)
    return re.sub(found, lambda spoken: spellings[spoken[0]], message)


def _complain(message: str, code: int) -> int:
    """Says in one line what went wrong."""
    sys.stderr.write(f"fastpack: {message}\n")
    return code


def _terminate(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise _Terminated
