"""The actions of commands that do more than call a function: recipes, dry runs, limits of a scan, browser pages."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import fastpack
from fastpack.arguments.checks import check_choice, local_path
from fastpack.arguments.urls import is_url
from fastpack.cli.flags import with_values
from fastpack.cli.next_command import after_pack, after_scan
from fastpack.cli.sources import with_named_sources
from fastpack.errors import FastpackError, LossError, OptionError
from fastpack.types import Color

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastpack.cli.flags import Function
    from fastpack.options.storage import Storage

__all__ = ["FailedOutput", "completion", "inspect", "pack", "repack", "report", "scan", "tokenizer", "verify"]

_FALLBACK_LENGTH: Final = 8192
"""The row length of a command line without a command and a length, in tokens."""

_SHELLS: Final = ("bash", "zsh", "fish")


class FailedOutput(NamedTuple):
    """The output of a run that ends with an error.

    Attributes:
        shown: The result that is printed on stdout.
        error: The error that is printed on stderr. It decides the exit code.
    """

    shown: object
    error: FastpackError


def pack(function: Function, arguments: dict[str, object]) -> object:
    """Packs, or describes the job with `--dry-run`."""
    fallback, dry_run = arguments.pop("fallback", False), arguments.pop("dry_run", False)
    verbose = bool(arguments.pop("verbose", False))
    html = _page(arguments)
    paths, files = arguments.pop("paths", None), arguments.get("files")
    if isinstance(paths, list) and paths:
        arguments["files"] = [*paths, *(files if isinstance(files, list) else [])]
    arguments = with_named_sources(_with_recipe(arguments))
    if fallback and "max_length" not in arguments:
        arguments["max_length"] = _FALLBACK_LENGTH
        sys.stderr.write(f"fastpack: no -m given: rows hold {_FALLBACK_LENGTH:,} tokens at most\n")
    if "output" not in arguments:
        message = "must be given"
        raise OptionError(message, "output")
    if dry_run:
        from fastpack.cli.dry import foreseen  # noqa: PLC0415  few command lines ask for it

        return foreseen(arguments)
    done = function(**arguments)
    if html is not None and isinstance(done, fastpack.Report):
        output = str(arguments["output"])
        done.to_html(html, packed=None if is_url(output) else output)
    return _shown(done, verbose, after_pack(arguments))


def repack(function: Function, arguments: dict[str, object]) -> object:
    """Packs kept tokens again."""
    verbose = bool(arguments.pop("verbose", False))
    return _shown(function(**arguments), verbose, after_pack(arguments))


def scan(function: Function, arguments: dict[str, object]) -> object:
    """Scans; fails if rows of one of the lengths would lose too much."""
    most, html = arguments.pop("max_lost", None), _page(arguments)
    share = None if most is None else _share(str(most))
    found = function(**arguments)
    if not isinstance(found, fastpack.ScanReport):
        return found
    if html is not None:
        found.to_html(html)
    error = None if share is None else _too_much_lost(found, share, str(most))
    return FailedOutput(found, error) if error else _shown(found, following=after_scan(arguments, found))


def inspect(function: Function, arguments: dict[str, object]) -> object:
    """Shows a row of a folder or a file."""
    color, ids, html = arguments.pop("color", "auto"), arguments.pop("ids", False), _page(arguments)
    check_choice("color", color, Color)
    row = function(**arguments)
    if not isinstance(row, fastpack.PackedRow):
        return row
    if html is not None:
        from fastpack.report.display.html_page import row_html, write_html  # noqa: PLC0415

        write_html(html, row_html(row))
    from fastpack.cli.printing import ShownRow  # noqa: PLC0415

    return ShownRow(row, color, bool(ids))  # type: ignore[arg-type]  # checked above


def verify(function: Function, arguments: dict[str, object]) -> object:
    """Verifies a folder; fails if it has problems."""
    found = function(**arguments)
    if isinstance(found, fastpack.Verification) and not found.ok:
        count = len(found.problems)
        message = f"{found.folder}: {count:,} {'problems' if count > 1 else 'problem'}, listed above"
        return FailedOutput(found, FastpackError(message))
    return found


def report(function: Function, arguments: dict[str, object]) -> object:
    """Shows the report of a folder; also writes it as a browser page and as a dataset card."""
    html, card = _page(arguments), arguments.pop("card", False)
    verbose = bool(arguments.pop("verbose", False))
    folder = str(arguments["table"])
    if card:
        local_path("table", folder, "the folder that a card is written into")
    found = function(**arguments)
    if html is not None and isinstance(found, fastpack.Report):
        found.to_html(html, packed=folder, storage=arguments.get("storage"))  # type: ignore[arg-type]  # as parsed
    if card:
        from fastpack.dataset.card import write_card  # noqa: PLC0415

        write_card(folder)
    return _shown(found, verbose)


def tokenizer(tokenizer: str, revision: str | None = None) -> object:
    """Describes a tokenizer, and measures its speed."""
    from fastpack.report.display.tokenizer import facts_of  # noqa: PLC0415  loads more than other commands need

    return facts_of(fastpack.Tokenizer(tokenizer, threads=1, revision=revision))


def completion(shell: str) -> str:
    """The script that adds completion to a shell."""
    if shell not in _SHELLS:
        message = f"must be one of {', '.join(_SHELLS)}, not `{shell}`"
        raise OptionError(message, "shell")
    try:
        from argcomplete.shell_integration import shellcode  # noqa: PLC0415  an extra
    except ImportError:
        message = "completion needs the package `argcomplete`: pip install 'fastpack-train[completion]'"
        raise FastpackError(message) from None
    return str(shellcode(["fastpack"], shell=shell)).strip()


def _shown(found: object, verbose: bool = False, following: str = "") -> object:
    """A report as the command line shows it."""
    from fastpack.cli.printing import ShownReport  # noqa: PLC0415  loads more than other commands need

    if isinstance(found, (fastpack.Report, fastpack.ScanReport)):
        return ShownReport(found, verbose, following)
    return found


def _page(arguments: dict[str, object]) -> str | None:
    """Takes the path of the browser page out of a command line. One that cannot be written is refused before the work."""
    html = arguments.pop("html", None)
    return None if html is None else local_path("html", html, "the path of a file")


def _with_recipe(arguments: dict[str, object]) -> dict[str, object]:
    """Merges the options of a command line over those of the config file or the folder that it names."""
    from fastpack.api.recipes import load_config, load_manifest  # noqa: PLC0415  few command lines name one

    config, like = arguments.pop("config", None), arguments.pop("like", None)
    options: dict[str, object] = {}
    if isinstance(like, str):
        of_storage = {name: it for name, it in arguments.items() if name.partition(".")[0] == "storage"}
        storage = with_values(of_storage).get("storage")
        options = load_manifest(like, cast("Mapping[str, str] | Storage | None", storage))
        unheld = options.pop("unheld", {})
        for name, kind in unheld.items() if isinstance(unheld, dict) else ():
            if name not in arguments:
                message = f"was {kind} in `{like}`, which no manifest holds; pass it again"
                raise OptionError(message, name)
    if isinstance(config, str):
        options |= load_config(config)
    return options | with_values(arguments, options)


def _share(text: str) -> float:
    """Parses a share: `1%` or `0.01`."""
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        message = f'must be a share from 0 to 1, such as 0.001 or "0.1%", not `{text}`'
        raise OptionError(message, "max_lost")
    return share


def _too_much_lost(scan: fastpack.ScanReport, most: float, text: str) -> LossError | None:
    """The error of a scan whose rows would lose more than a share of its documents or tokens."""
    unread = sum(lost.documents for reason, lost in scan.lost.items() if reason not in _NO_LOSS)
    counted = scan.read.documents - sum(
        lost.documents for reason, lost in scan.lost.items() if reason in _NO_LOSS
    )
    for fit in scan.fits:
        documents = unread + sum(count.documents for count in fit.dropped.values())
        shares = documents / max(counted, 1), fit.lost_tokens / max(scan.read.tokens, 1)
        if max(shares) > most:
            message = (
                f"rows of {fit.max_length:,} tokens lose {documents:,} of {counted:,} documents and "
                f"{fit.lost_tokens:,} of {scan.read.tokens:,} tokens, more than --max-lost {text}"
            )
            return LossError(message, documents, fit.lost_tokens)
    return None


_NO_LOSS: Final = frozenset({"empty", "filtered", "not_drawn"})
"""Reasons for leaving records out that do not count as losses."""
