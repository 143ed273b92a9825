"""The command line: `fastpack pack`, `fastpack repack`, `fastpack scan` and `fastpack inspect`."""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import json
import os
import re
import signal
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, Protocol, get_args

from fastpack import _types
from fastpack.errors import FastpackError, LossError, OptionError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import FrameType, ModuleType

__all__ = ["main", "parser"]

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
  3    more is lost than --max-lost allows; nothing was written
  130  interrupted by Ctrl-C
  143  ended by SIGTERM
"""

_EXAMPLES: Final = """\
examples:
  look before packing: what the files hold, which records are bad, how rows of two lengths would do
    fastpack scan data/ -t path/to/tokenizer -m 4096 8192

  pack a folder of conversations for a context of 8192 tokens
    fastpack pack -i data/ -o packed/ -t path/to/tokenizer -m 8192

  several files, cut what is too long, leave out what cannot be read
    fastpack pack -i a.jsonl 'part-{00..99}.jsonl' -o packed/ -t org/name -m 4096 \\
        --overlong truncate --on-bad-record skip

  keep the tokens, and pack them once more for a shorter context
    fastpack pack -i data/ -o packed/ -t org/name -m 8192 --keep-tokens
    fastpack repack -i packed/ -o packed-4k/ -m 4096

  look at the first row: documents, boundaries, and what is trained
    fastpack inspect packed/train-00000.arrow --row 0 -t path/to/tokenizer
"""


class _Terminated(BaseException):
    """SIGTERM arrived: unwinds like Ctrl-C, so that nothing is left behind."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code."""
    try:
        signal.signal(signal.SIGTERM, _terminate)
        given = vars(parser().parse_args(arguments))
        command = given.pop("command")
        commands_of = {"pack": _pack, "repack": _repack, "scan": _scan, "inspect": _inspect}
        return commands_of[command](given)
    except (FastpackError, OSError) as failed:
        if isinstance(failed, BrokenPipeError):
            return _OK  # the reader, such as `head`, has seen enough
        return _complain(failed, _exit_code(failed))
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
        self.exit(_USAGE, f"{self.prog}: {message}; see `{self.prog} --help`\n")


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    top = _Parser(
        prog="fastpack",
        description="Packs conversations into Arrow rows of token ids, exactly as transformers makes them.",
        epilog=f"{_EXAMPLES}\n{_EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument(
        "--version", action=_Version, nargs=0, default=argparse.SUPPRESS, help="print the version and exit"
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_pack(
        commands.add_parser(
            "pack",
            help="pack files into a folder",
            description="Packs files of conversations, requests or text into files of packed rows.",
            epilog=f"{_EXAMPLES}\n{_EXIT_CODES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            argument_default=argparse.SUPPRESS,
            allow_abbrev=False,
        )
    )
    _add_repack(
        commands.add_parser(
            "repack",
            help="pack kept tokens once more",
            description="Packs the tokens that `fastpack pack --keep-tokens` kept once more, without tokenizing.",
            epilog=_EXIT_CODES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            argument_default=argparse.SUPPRESS,
            allow_abbrev=False,
        )
    )
    _add_scan(
        commands.add_parser(
            "scan",
            help="read files and pack nothing: shapes, bad records, lengths, rows",
            description="Reads files and packs nothing: says what they hold, which records are bad, and how many rows "
            "of each length they would come to.",
            epilog=f"{_EXAMPLES}\n{_EXIT_CODES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            argument_default=argparse.SUPPRESS,
            allow_abbrev=False,
        )
    )
    _add_inspect(
        commands.add_parser(
            "inspect",
            help="show a packed row in words",
            description="Shows a packed row: its documents, their boundaries, and which tokens are trained.",
            epilog=_EXIT_CODES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
    )
    return top


class _Version(argparse.Action):
    """Prints the version, which is looked up only then: the native module knows it."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        import fastpack  # noqa: PLC0415

        sys.stdout.write(f"fastpack {fastpack.__version__}\n")
        parser.exit(_OK)


class _Flag(Protocol):
    """Adds a flag to a command, unless its function has no such option."""

    def __call__(self, *names: str, help: str, option: str | None = None, **rest: object) -> None: ...  # noqa: A002


def _flags_of(command: argparse.ArgumentParser, parameters: Mapping[str, inspect.Parameter]) -> _Flag:
    """What adds a flag for an option that is among `parameters`; what is not given is left to its default there."""

    def flag(*names: str, help: str, option: str | None = None, **rest: object) -> None:  # noqa: A002
        option = option or names[-1].removeprefix("--").replace("-", "_")
        if option not in parameters:
            return
        default = parameters[option].default
        if default is inspect.Parameter.empty:
            rest["required"] = True
        elif default is not None and not isinstance(default, bool):
            shown = ",".join(map(str, default)) if isinstance(default, tuple) else default
            help = f"{help} (default: {shown})"  # noqa: A001
        command.add_argument(*names, dest=option, help=help, **rest)  # type: ignore[arg-type]

    return flag


def _add_pack(pack: argparse.ArgumentParser) -> None:
    """A flag for each option of `pack_dir`."""
    from fastpack.api import pack_dir  # noqa: PLC0415  `fastpack --version` needs none of it

    flag = _flags_of(pack, inspect.signature(pack_dir).parameters)
    flag(
        "-i", "--input", option="files", nargs="+", metavar="FILE", help="files, folders, globs, brace lists"
    )
    _add_options(flag)


def _add_repack(repack: argparse.ArgumentParser) -> None:
    """A flag for each option of `repack`."""
    from fastpack.api import repack as function  # noqa: PLC0415  `fastpack --version` needs none of it

    flag = _flags_of(repack, inspect.signature(function).parameters)
    flag(
        "-i",
        "--input",
        option="source",
        metavar="DIR",
        help="a folder that `fastpack pack --keep-tokens` wrote",
    )
    _add_options(flag)


def _add_options(flag: _Flag) -> None:
    """The flags of `pack` and `repack`: each command has those that its function knows."""
    flag("-o", "--output", required=True, metavar="DIR", help="the folder to write")
    flag("-t", "--tokenizer", help="a folder, a tokenizer.json, or a name on the hub")
    flag("-m", "--max-length", type=int, metavar="TOKENS", help="tokens that a row holds at most")
    flag("-f", "--format", help=f"file format: {_words(_types.Format)}")
    flag("--compression", help=f"how columns are compressed: {_words(_types.Compression)}")
    flag(
        "--per-file",
        action=argparse.BooleanOptionalAction,
        help="write an output for each input, named after it",
    )
    flag(
        "--validation",
        type=_count_or_text,
        metavar="DOCUMENTS",
        help="documents to set aside for validation: a number, or a share such as 0.01 or 1%%",
    )
    _add_rows(flag)
    _add_records(flag)


def _add_scan(scan: argparse.ArgumentParser) -> None:
    """A flag for each option of `scan`; the files need none."""
    from fastpack import api  # noqa: PLC0415  `fastpack --version` needs none of it

    flag = _flags_of(scan, inspect.signature(api.scan).parameters)
    scan.add_argument("files", nargs="+", metavar="FILE", help="files, folders, globs, brace lists")
    flag("-t", "--tokenizer", help="a folder, a tokenizer.json, or a name on the hub")
    flag(
        "-m",
        "--max-length",
        type=int,
        nargs="+",
        metavar="TOKENS",
        help="tokens that a row holds at most, one or several lengths to try",
    )
    _add_rows(flag)
    _add_records(flag)


def _add_records(flag: _Flag) -> None:
    """The flags that decide how records become documents, and how the work is done."""
    flag("--train-on", help=f"tokens that carry a label: {_words(_types.TrainOn)}")
    flag("--train-on-eos", help=f"ends of trained turns that carry one: {_words(_types.TrainOnEos)}")
    flag(
        "--shift-labels",
        action=argparse.BooleanOptionalAction,
        help="put each label one place before its token",
    )
    flag("--eos", type=_eos, help="whether documents end with the end-of-text token: auto, yes, no")
    flag("--bos", type=_eos, help="whether documents begin with the token that begins a text: auto, yes")
    flag("--columns", type=_list, metavar="NAMES", help="columns of the rows, separated by commas")
    flag(
        "--chat-template", metavar="TEMPLATE", help="a Jinja text, a file, or a name that the tokenizer knows"
    )
    flag("--chat-template-kwargs", type=_json, metavar="JSON", help="variables for the chat template")
    flag(
        "--template-engine", help=f"what renders templates that are refused: {_words(_types.TemplateEngine)}"
    )
    flag("--shape", help=f"what the records are, if not to be found out: {_words(_types.Shape)}")
    flag(
        "--fields",
        type=_fields,
        metavar="PART=FIELD,...",
        help="fields that hold parts of a record, such as question=query,answer=solution",
    )
    flag(
        "--prompt",
        help=f"how requests become texts: {_words(_types.NamedPrompt)}, a text with {{instruction}}, a file",
    )
    flag(
        "--examples", type=_list_of_json, metavar="JSON", help="list of [request, answer] before each request"
    )
    flag("--separator", metavar="TEXT", help="what stands between the documents of a text file")
    flag(
        "--sources",
        type=_sources,
        metavar="JSON",
        help="in place of --input: a list of objects with path, shape, fields, prompt, limit, repeat; or its file",
    )
    flag(
        "--filter",
        type=_function,
        metavar="PLACE:NAME",
        help="Python function of a pyarrow.RecordBatch that says which records stay: filters.py:good, or module:good",
    )
    flag(
        "--map",
        type=_function,
        metavar="PLACE:NAME",
        help="Python function of a pyarrow.RecordBatch that makes others of the records",
    )
    flag("--on-bad-record", help=f"records that cannot be read: {_words(_types.OnBadRecord)}")
    flag("--max-lost", metavar="SHARE", help="how much may be lost before the run fails, such as 0.1%%")
    flag("--recursive", action=argparse.BooleanOptionalAction, help="read folders inside folders too")
    flag("--shard-size", metavar="SIZE", help="size of an output file, such as 512MB or 2GiB")
    flag("--overwrite", action=argparse.BooleanOptionalAction, help="replace what lies in the folder")
    flag(
        "--keep-tokens",
        action=argparse.BooleanOptionalAction,
        help="leave the tokens in the folder, to be packed again",
    )
    flag("--memory", metavar="SIZE", help="memory for documents, such as 2GB; a quarter of all if not given")
    flag(
        "--wait",
        action=argparse.BooleanOptionalAction,
        help="wait where another process packs into the folder, rather than fail",
    )
    flag("--now", type=_moment, metavar="TIME", help="the time that templates see, such as 2026-01-31T12:00")
    flag(
        "--verify",
        type=int,
        metavar="N",
        help="documents that the Hugging Face crate encodes too, to compare",
    )
    flag(
        "--threads", type=int, metavar="N", help="worker threads; as many as the machine allows if not given"
    )
    flag(
        "--progress",
        action=argparse.BooleanOptionalAction,
        help="draw a bar; if not given, where stderr is a terminal",
    )
    flag("--revision", help="branch, tag or commit of a hub name")
    flag("--token", help="access token for a hub name; better given as $HF_TOKEN")


def _add_rows(flag: _Flag) -> None:
    """The flags that decide how documents become rows."""
    flag("-s", "--strategy", help=f"how documents are put together: {_words(_types.Strategy)}")
    flag("--overlong", help=f"documents longer than a row: {_words(_types.Overlong)}")
    flag("--keep", help=f"end of a truncated document that is kept: {_words(_types.Keep)}")
    flag("--tail", help=f"last row of concat if it is not full: {_words(_types.Tail)}")
    flag("--max-documents-per-pack", type=int, metavar="N", help="documents that a row holds at most")
    flag(
        "--align-documents-to",
        type=int,
        metavar="N",
        help="what the length of each document in a row is a multiple of, as context parallel training wants it",
    )
    flag("--order", help=f"order of the rows, if not the strategy's own: {_words(_types.Order)}")
    flag("--world-size", type=int, metavar="RANKS", help="ranks that share the rows of --order balanced")
    flag("--on-remainder", help=f"rows that they cannot share equally: {_words(_types.OnRemainder)}")
    flag("--seed", type=int, metavar="N", help="decides what is left to chance")
    flag(
        "--pad-to",
        type=_count_or_text,
        metavar="LENGTH",
        help="what rows are filled up to: max_length, or a multiple that divides it",
    )
    flag("--padding-side", help=f"end of a row at which it is filled up: {_words(_types.Side)}")
    flag("--pad-token-id", type=int, metavar="ID", help="id to fill up with, if not the tokenizer's own")


def _add_inspect(show: argparse.ArgumentParser) -> None:
    show.add_argument("file", metavar="FILE", help="a file that `fastpack pack` wrote")
    show.add_argument("-r", "--row", type=int, default=0, help="the row, from 0 (default: 0)")
    show.add_argument(
        "-t",
        "--tokenizer",
        help="turns ids to text; if not given, the one that report.json beside the file names",
    )
    show.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="show trained tokens in colour instead of between « and » (default: auto)",
    )


def _pack(given: dict[str, object]) -> int:
    from fastpack.api import pack_dir  # noqa: PLC0415

    report = pack_dir(**given)  # type: ignore[arg-type]
    return _print([str(report)])


def _repack(given: dict[str, object]) -> int:
    from fastpack.api import repack  # noqa: PLC0415

    report = repack(**given)  # type: ignore[arg-type]
    return _print([str(report)])


def _scan(given: dict[str, object]) -> int:
    from fastpack import api  # noqa: PLC0415

    return _print([str(api.scan(**given))])  # type: ignore[arg-type]


def _inspect(given: dict[str, object]) -> int:
    from fastpack._inspect import describe  # noqa: PLC0415

    wish = given.pop("color")
    terminal = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    color = wish == "always" or (wish == "auto" and terminal)
    return _print(describe(**given, color=color))  # type: ignore[arg-type]


def _print(lines: Iterable[str]) -> int:
    """Writes to stdout, and gives it up where nothing more can be written, so that Python does not try again."""
    try:
        for line in lines:
            sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    except FastpackError:
        raise
    except OSError as failed:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(failed, BrokenPipeError):
            raise
        raise StorageError(failed.errno, failed.strerror, "standard output") from failed
    return _OK


def _in_flags(message: str) -> str:
    """An error's message with options spelled as flags: `--overwrite`, not `overwrite=True`."""
    spellings: dict[str, str] = {}
    for add in (_add_pack, _add_repack, _add_scan, _add_inspect):
        command = argparse.ArgumentParser()
        add(command)
        for action in command._actions:  # noqa: SLF001  argparse has no other way to list its flags
            if isinstance(action, argparse.BooleanOptionalAction):
                spellings[f"{action.dest}=True"], spellings[f"{action.dest}=False"] = action.option_strings
            elif action.option_strings:
                flag = action.option_strings[-1]
                spellings[f"invalid option `{action.dest}`"] = f"invalid option `{flag}`"
                spellings[f'{action.dest}="'] = f'{flag} "'
    found = "|".join(rf"\b{re.escape(spelling)}" for spelling in spellings)
    return re.sub(found, lambda spelling: spellings[spelling[0]], message)


def _complain(error: BaseException | str, code: int) -> int:
    """Says in one line what went wrong."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    line = _in_flags(" ".join(text.split("\n")))
    sys.stderr.write(f"fastpack: {line}\n")
    return code


def _terminate(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise _Terminated


def _words(literal: object) -> str:
    return ", ".join(get_args(literal))


def _list(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))


def _eos(text: str) -> str | bool:
    return {"yes": True, "no": False}.get(text, text)


def _count_or_text(text: str) -> str | int:
    return int(text) if text.isdecimal() else text


def _fields(text: str) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in text.split(",")]
    if not all(equals for _, equals, _ in pairs):
        message = f"`{text}` is no list of PART=FIELD"
        raise argparse.ArgumentTypeError(message)
    return {part.strip(): field.strip() for part, _, field in pairs}


def _function(text: str) -> object:
    """The function that `file.py:name` or `module:name` stands for."""
    place, _, name = text.rpartition(":")
    if not place:
        message = f"`{text}` is no function such as filters.py:good or module:good"
        raise argparse.ArgumentTypeError(message)
    try:
        return getattr(_module(place), name)
    except (ImportError, OSError, AttributeError, SyntaxError) as refused:
        message = f"`{text}` cannot be loaded: {type(refused).__name__}: {refused}"
        raise argparse.ArgumentTypeError(message) from refused


def _module(place: str) -> ModuleType:
    if not place.endswith(".py"):
        return importlib.import_module(place)
    spec = importlib.util.spec_from_file_location("fastpack_functions", place)
    if spec is None or spec.loader is None:
        raise ImportError(place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _json(text: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except ValueError as refused:
        message = f"`{text}` is no JSON: {refused}"
        raise argparse.ArgumentTypeError(message) from refused
    if not isinstance(value, dict):
        message = f"`{text}` is no JSON object"
        raise argparse.ArgumentTypeError(message)
    return value


def _sources(text: str) -> object:
    """A list of sources, or what the file of that name holds."""
    try:
        if not text.lstrip().startswith("["):
            text = Path(text).read_text(encoding="utf-8")
        return json.loads(text)
    except (OSError, ValueError) as refused:
        message = f"`{text}` is neither a JSON list of sources nor a file of one: {refused}"
        raise argparse.ArgumentTypeError(message) from refused


def _list_of_json(text: str) -> list[object]:
    try:
        value = json.loads(text)
    except ValueError as refused:
        message = f"`{text}` is no JSON: {refused}"
        raise argparse.ArgumentTypeError(message) from refused
    if not isinstance(value, list):
        message = f"`{text}` is no JSON list"
        raise argparse.ArgumentTypeError(message)
    return value


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as refused:
        message = f"`{text}` is no time such as 2026-01-31T12:00"
        raise argparse.ArgumentTypeError(message) from refused
