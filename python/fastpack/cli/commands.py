"""The commands of the command line: their help, their flags and the functions behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import fastpack
from fastpack.cli.actions import completion, inspect, pack, repack, report, scan, tokenizer, verify
from fastpack.cli.serve import index, stream
from fastpack.options.option import Flag

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastpack.cli.flags import Function

__all__ = ["COMMANDS", "RECIPES", "Command"]


class Command(NamedTuple):
    """A command, which prints the result of a function.

    Attributes:
        help: A line for the list of commands.
        description: A sentence for its own help.
        usage: The required arguments.
        examples: Uses of the command, each with its command line.
        flags: Flags that only this command has, or that differ in it.
        function: Loads the function, whose parameters are its options.
        act: Calls the function and handles flags that are not options of it; if not given, the function is called.
    """

    help: str
    description: str
    usage: str
    examples: str
    flags: tuple[Flag, ...]
    function: Callable[[], Function]
    act: Callable[[Function, dict[str, object]], object] | None = None


_JSON: Final = Flag("--json", "print the numbers as JSON, and nothing else", on=True, of_command=True)
"""The flag that every command has."""

_HTML: Final = Flag("--html", "write a page for a browser too, one file", metavar="FILE", of_command=True)
"""The flag of commands that can write a browser page."""

_VERBOSE: Final = Flag("-v --verbose", "show the time of each stage too", on=True, of_command=True)
"""The flag of commands that print a report."""

_PATHS: Final = Flag(
    "paths",
    "files, folders, globs, brace lists; NAME=FILE where there are weights",
    nargs="*",
    metavar="FILE",
    of_command=True,
)
"""The positional files."""

_SOURCES: Final = Flag(
    "files", "files, folders, globs, brace lists; NAME=FILE with --weights", nargs="*", metavar="FILE"
)
"""The positional files of a stream, which may have weights."""

_OWN: Final = Flag(
    "--sources",
    "more files, as a list of objects with path, shape, fields, prompt, limit, repeat; or its file",
    metavar="JSON",
    type="json_list_or_file",
    of_command=True,
)
"""Files with options of their own."""

_DRAWN: Final = _OWN._replace(help=_OWN.help.replace("repeat", "repeat, fraction"))
"""Sources of which a fraction may be drawn."""

RECIPES: Final = (
    Flag("--config", "a TOML file of options; flags win over it", metavar="FILE", of_command=True),
    Flag(
        "--like",
        "a folder that was packed before, also a URL of one: its options hold again, but for --output; flags win over them",
        metavar="DIR",
        of_command=True,
    ),
)
"""Flags that name a file or a folder from which further options are read."""

COMMANDS: Final = {
    "pack": Command(
        help="pack files into a folder",
        description="Packs files of conversations, requests or text into files of packed rows.",
        usage="[FILE ...] -o DIR [-t TOKENIZER] -m TOKENS [FLAG ...]",
        examples="""\
  pack a folder of conversations for a context of 8192 tokens
    fastpack pack data/ -o packed/ -t path/to/tokenizer -m 8192

  see what would be done, where and how large, and write nothing
    fastpack pack data/ -o packed/ -t path/to/tokenizer -m 8k --dry-run

  several files, cut what is too long, leave out what cannot be read
    fastpack pack a.jsonl 'part-{00..99}.jsonl' -o packed/ -t org/name -m 4096 \\
        --overlong truncate --on-bad-record skip

  a job as a file; and a finished job once more, with shorter rows
    fastpack pack --config recipe.toml
    fastpack pack --like packed/ -o packed-4k/ -m 4096
""",
        flags=(
            _PATHS,
            Flag(
                "-i --input", "files, folders, globs, brace lists", named="files", nargs="+", metavar="FILE"
            ),
            _DRAWN,
            *RECIPES,
            Flag(
                "--dry-run",
                "say what would be done, where and how large, from a sample; write nothing",
                on=True,
                of_command=True,
            ),
            _HTML,
            _VERBOSE,
            _JSON,
        ),
        function=lambda: fastpack.pack_dir,
        act=pack,
    ),
    "repack": Command(
        help="pack kept tokens once more",
        description="Packs the tokens that `fastpack pack --keep-tokens` kept once more, without tokenizing.",
        usage="-i DIR -o DIR -m TOKENS [FLAG ...]",
        examples="""\
  keep the tokens, and pack them once more for a shorter context
    fastpack pack data/ -o packed/ -t org/name -m 8192 --keep-tokens
    fastpack repack -i packed/ -o packed-4k/ -m 4096
""",
        flags=(
            Flag(
                "-i --input",
                "a folder that `fastpack pack --keep-tokens` wrote",
                named="source",
                metavar="DIR",
            ),
            _VERBOSE,
            _JSON,
        ),
        function=lambda: fastpack.repack,
        act=repack,
    ),
    "scan": Command(
        help="read files and pack nothing: shapes, bad records, lengths, rows",
        description="Reads files and packs nothing: says what they hold, which records are bad, and how many rows of "
        "each length they would come to. Exits with 3 if rows of one of the lengths lose more than --max-lost.",
        usage="[FILE ...] [-t TOKENIZER] [-m TOKENS ...] [FLAG ...]",
        examples="""\
  look before packing: shapes, bad records, how rows of two lengths would do
    fastpack scan data/ -t path/to/tokenizer -m 4096 8192

  the same as numbers, and as a page for a browser
    fastpack scan data/ -t path/to/tokenizer -m 4k 8k --json --html scan.html
""",
        flags=(
            Flag("files", "files, folders, globs, brace lists", nargs="*", metavar="FILE"),
            _OWN,
            Flag("-t --tokenizer", "a folder, a tokenizer.json, or a name on the hub; ids need none"),
            Flag(
                "-m --max-length",
                "tokens that a row holds at most, one or several lengths to try",
                type="token_count",
                nargs="+",
                metavar="TOKENS",
            ),
            Flag(
                "--sample",
                "read about N records all over the files, and estimate what all of them are like",
                type="int",
                metavar="N",
            ),
            Flag(
                "--max-lost",
                "exit with 3 if more of the documents or tokens would be lost",
                metavar="SHARE",
                of_command=True,
            ),
            _HTML,
            _JSON,
        ),
        function=lambda: fastpack.scan,
        act=scan,
    ),
    "stream": Command(
        help="serve packed rows to a training run in another process",
        description="Packs files while others train on them, and serves the tables to one connection a rank: to "
        "`fastpack.connect` in another process, or in a trainer that is started with the address in its environment. "
        "The state file holds the place after the last table that all ranks took.",
        usage="FILE ... -m TOKENS (--to ADDRESS | -- COMMAND) [FLAG ...]",
        examples="""\
  start a trainer that calls fastpack.connect(), and end with it
    fastpack stream data/ -t path/to/tokenizer -m 4096 --state place.json \\
        -- python train.py

  serve at a socket; ranks connect, and connect again after a crash
    fastpack stream data/ -t path/to/tokenizer -m 4096 --to unix:/tmp/rows \\
        --state place.json

  plain Arrow IPC on standard output
    fastpack stream data/ -t path/to/tokenizer -m 4096 --to - > rows.arrows
""",
        flags=(
            _SOURCES,
            _OWN,
            Flag(
                "--to",
                "the address: unix:PATH, tcp://HOST:PORT on this machine, tls://HOST:PORT, or - for standard output",
                metavar="ADDRESS",
                of_command=True,
            ),
            Flag(
                "--state",
                "a file for the state after the last table that all ranks took; resumes from it if it is there",
                metavar="FILE",
                of_command=True,
            ),
            Flag(
                "--certificate", "the certificate to serve at tls://, as PEM", metavar="FILE", of_command=True
            ),
            Flag("--key", "the key of the certificate, as PEM", metavar="FILE", of_command=True),
            _JSON,
        ),
        function=lambda: fastpack.stream,
        act=stream,
    ),
    "index": Command(
        help="count the rows of a stream, so that its ranks end together",
        description="Counts the rows that each lane of a finite stream has, by reading all of its input once, and keeps "
        "their number in a folder, which the ranks of the stream are given too.",
        usage="[FILE ...] -m TOKENS --cache-dir DIR [FLAG ...]",
        examples="""\
  count once, before several ranks stream two epochs with cache_dir="counts"
    fastpack index data/ -t path/to/tokenizer -m 4096 --epochs 2 \\
        --cache-dir counts
""",
        flags=(
            _SOURCES,
            _OWN,
            _JSON,
        ),
        function=lambda: fastpack.stream,
        act=index,
    ),
    "reindex": Command(
        help="write files again so that streams enter them in the middle",
        description="Writes JSON Lines of any compression as zstd files of small frames with a seek table, and Parquet and "
        "Arrow files with small row groups and record batches. A stream enters such files in the middle.",
        usage="FILE ... -o DIR [--recursive] [FLAG ...]",
        examples="""\
  compressed files that many ranks are to share
    fastpack reindex 'data/*.jsonl.gz' -o framed/
    fastpack reindex 's3://bucket/data/*.jsonl.gz' -o s3://bucket/framed
""",
        flags=(
            Flag("files", "files, folders, globs, brace lists", nargs="+", metavar="FILE"),
            Flag("-o --output", "the folder to write to", metavar="DIR"),
            _JSON,
        ),
        function=lambda: fastpack.reindex,
    ),
    "tokenizer": Command(
        help="say what a tokenizer is, and how fast",
        description="Says which engine makes the ids of a tokenizer, and why; its components, its tokens, its chat "
        "template; and how many megabytes of text it encodes in a second on one core.",
        usage="TOKENIZER [--revision REVISION] [--json]",
        examples="""\
  which engine serves a tokenizer, and how fast
    fastpack tokenizer path/to/tokenizer
""",
        flags=(
            Flag("tokenizer", "a folder, a tokenizer.json, or a name on the hub", metavar="TOKENIZER"),
            Flag("--revision", "the branch, tag or commit of a name on the hub"),
            _JSON,
        ),
        function=lambda: tokenizer,
    ),
    "inspect": Command(
        help="show a packed row in words",
        description="Shows a packed row: its documents, their boundaries, and which tokens are trained.",
        usage="PATH [-r ROW] [-t TOKENIZER] [--ids] [FLAG ...]",
        examples="""\
  look at the first row: documents, boundaries, and what is trained
    fastpack inspect packed/

  the last row of a file, and its ids
    fastpack inspect packed/train-00000.arrow --row -1 --ids

  a row of a folder in a bucket, of which one shard is fetched
    fastpack inspect s3://bucket/packed --row 1000
""",
        flags=(
            Flag("packed", "a folder that `fastpack pack` wrote, or a file in it", metavar="PATH"),
            Flag("-r --row", "the row, from 0; from the end if negative", type="int"),
            Flag("--split", "the split of a folder that the row is in"),
            Flag(
                "-t --tokenizer",
                "turns ids to text; if not given, the one that report.json in the folder names",
            ),
            Flag("--ids", "show ids, not text", on=True, of_command=True),
            Flag("--fetch", "fetch the pictures of --html from web servers and stores", on=True),
            Flag(
                "--color",
                "when trained tokens are shown in colour instead of between « and »",
                words="Color",
                metavar="WHEN",
                of_command=True,
                default="auto",
            ),
            _HTML,
            _JSON,
        ),
        function=lambda: fastpack.inspect,
        act=inspect,
    ),
    "verify": Command(
        help="check a packed folder: files, rows, and a sample tokenized again",
        description="Checks a packed folder: its files against the manifest, every row, and a sample of its inputs "
        "tokenized again. Exits with 1 if anything is wrong.",
        usage="DIR [-t TOKENIZER] [--sample N] [FLAG ...]",
        examples="""\
  check files, rows and tokens before a long training run
    fastpack verify packed/ -t path/to/tokenizer
    fastpack verify s3://bucket/packed -t path/to/tokenizer
""",
        flags=(
            Flag("folder", "a folder that `fastpack pack` or another tool wrote", metavar="DIR"),
            Flag(
                "-t --tokenizer",
                "what the rows were packed with; if not given, what report.json in the folder names, if it is on this disk",
            ),
            Flag("--sample", "about how many documents are tokenized again", type="int", metavar="N"),
            Flag("--pictures", "open every picture of the rows, and read all its pixels", on=True),
            _JSON,
        ),
        function=lambda: fastpack.verify,
        act=verify,
    ),
    "report": Command(
        help="show the report of a packed folder, or write it for a browser",
        description="Shows the report of a packed folder once more.",
        usage="DIR [--html FILE] [--card] [-v] [--json]",
        examples="""\
  the report again; and as a page to show, one file
    fastpack report packed/
    fastpack report packed/ --html report.html

  a dataset card, README.md in the folder, for the hub
    fastpack report packed/ --card
""",
        flags=(
            Flag("table", "a folder that `fastpack pack` wrote", metavar="DIR"),
            Flag(
                "--card",
                "write README.md, a dataset card of the hub, into the folder",
                on=True,
                of_command=True,
            ),
            _HTML,
            _VERBOSE,
            _JSON,
        ),
        function=lambda: fastpack.Report.of,
        act=report,
    ),
    "status": Command(
        help="say what is done of a job, running or failed",
        description="Says what is done of the job in a folder, running, stopped or failed, group by group. Other "
        "processes may work on it meanwhile.",
        usage="DIR [--storage JSON] [--json]",
        examples="""\
  how far a job has come that several processes share
    fastpack status packed/
    fastpack status s3://bucket/packed
""",
        flags=(Flag("folder", "the folder that `fastpack pack` writes", metavar="DIR"), _JSON),
        function=lambda: fastpack.status,
    ),
    "completion": Command(
        help="print what makes a shell complete fastpack's commands and flags",
        description="Prints a script for a shell, by `argcomplete`.",
        usage="bash|zsh|fish",
        examples="""\
  for bash, in ~/.bashrc; for fish, in ~/.config/fish/completions
    eval "$(fastpack completion bash)"
    fastpack completion fish > ~/.config/fish/completions/fastpack.fish
""",
        flags=(Flag("shell", "bash, zsh or fish", metavar="SHELL"), _JSON),
        function=lambda: completion,
    ),
}
"""The commands by name."""
