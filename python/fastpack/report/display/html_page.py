"""Pages for a browser: one file each, with nothing from the network."""

from __future__ import annotations

import html
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastpack.arguments.checks import local_path
from fastpack.arguments.plural import counted
from fastpack.errors import FastpackError, StorageError
from fastpack.report.display.charts import Bin, bins, histogram, named_bars
from fastpack.report.display.markup import STYLE, escaped, listed, section, table
from fastpack.report.display.notebook import (
    choices_table,
    left_out_table,
    losses_table,
    report_tiles,
    row_body,
    scan_fits,
    scan_losses,
    scan_tiles,
    turns_table,
)
from fastpack.report.display.pages import shown_lengths
from fastpack.report.display.rows import row_title
from fastpack.storage.removal import Temporary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastpack.dataset.folder import Folder
    from fastpack.dataset.inspection import PackedRow
    from fastpack.dataset.row_facts import RowFacts, RowLengthFacts
    from fastpack.report.report import Report
    from fastpack.report.scan import ScanReport
    from fastpack.types import StrPath

__all__ = ["report_html", "row_html", "scan_html", "write_html"]

_BODY: Final = b'<body class="fastpack">'
"""The mark of a page that fastpack wrote, and may replace."""

_TEXT: Final = 1_500
"""The most characters of a document that a page shows."""

_PAGE: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}
body.fastpack {{ margin: 0 auto; padding: 1.5em 1em 4em; max-width: 60em; }}</style>
</head>
<body class="fastpack">
{body}
</body>
</html>
"""


def write_html(path: StrPath, page: str) -> None:
    """Writes a page to a temporary file, then renames it, over a page of fastpack if there is one.

    Raises:
        OutputError: There is a file that fastpack did not write.
        StorageError: It cannot be written.
    """
    place = Path(local_path("path", path, "the path of a file to write"))
    try:
        with Temporary(place) as new:
            new.path.write_text(page, encoding="utf-8")
            new.write_over(lambda begin: _BODY in begin)
    except FastpackError:
        raise
    except OSError as failed:
        raise StorageError(failed.errno, failed.strerror, str(place)) from failed


def report_html(report: Report, facts: RowFacts | None = None) -> str:
    """The page of a report; with the facts of the rows, also charts and some rows."""
    name = facts.folder.name.rstrip("/").rpartition("/")[2] if facts is not None else ""
    return _page(f"Packed rows{f': {name}' if name else ''}", *_report_parts(report, facts))


def scan_html(scan: ScanReport) -> str:
    """The page of a scan."""
    losses = [
        (f"{fit.max_length:,} tokens a row", fit.lost_tokens / max(scan.read.tokens, 1)) for fit in scan.fits
    ]
    chart = named_bars(
        [(name, share, f"{share:.2%}") for name, share in losses],
        title="Tokens lost in rows of each length",
    )
    return _page(
        "Scan: what packing would come to",
        scan_tiles(scan),
        listed("warnings", scan.warnings),
        section("Inputs", table((), [(it.named,) for it in scan.inputs])),
        section(
            "Rows of each length",
            scan_fits(scan),
            _figure(chart, "The share of the tokens that rows of each length would lose."),
        ),
        section("Lost whatever the length", scan_losses(scan), left_out_table(scan)),
        section("Documents of conversations", turns_table(scan, scan.read.tokens), choices_table(scan)),
        section("Lengths of documents, in tokens", f"<p>{escaped(shown_lengths(scan.lengths))}</p>"),
        section(
            "How it is made", table((), [("engine", scan.engine), ("template", scan.template or "none")])
        ),
    )


def row_html(row: PackedRow) -> str:
    """The page of a packed row."""
    return _page(f"Row {row.number} of {row.where}", f"<p>{escaped(row_title(row))}</p>", _KEY, row_body(row))


_KEY: Final = '<p class="faint">Tokens that are trained are <mark>marked</mark>.</p>'


def _page(title: str, *parts: str) -> str:
    body = "\n".join([f"<h1>{escaped(title)}</h1>", *(part for part in parts if part)])
    return _PAGE.format(title=escaped(title), style=STYLE, body=body)


def _figure(chart: str, caption: str) -> str:
    return f"<figure>{chart}<figcaption>{html.escape(caption)}</figcaption></figure>"


def _report_parts(report: Report, facts: RowFacts | None) -> Iterator[str]:
    yield report_tiles(report)
    yield listed("warnings", report.warnings)
    yield section("Inputs", table((), [(it.named,) for it in report.inputs]))
    yield section(
        "What was lost, and why",
        losses_table(report) or "<p>Nothing was lost.</p>",
        left_out_table(report),
        _places(report),
    )
    yield section("Documents of conversations", turns_table(report, report.tokens.read))
    if facts is not None:
        yield from _charts(report, facts)
    yield section(
        "Lengths of documents, in tokens",
        f"<p>{escaped(shown_lengths(report.lengths))}</p>",
        table(
            ("rows in a step", "steps of an epoch"),
            [(f"{rows:,}", f"{count:,}") for rows, count in report.steps_per_epoch.items()],
            numbers=(0, 1),
        ),
    )
    settings = [
        ("objective", report.objective),
        ("strategy", report.strategy),
        ("engine", report.engine),
        ("template", report.template_engine),
    ]
    yield section("How it was made", table((), [(name, value) for name, value in settings if value]))
    if facts is not None:
        yield section("Rows as text", _KEY, *(_row(row) for row in facts.rows))
        yield section("Run it again", _again(facts.folder))


def _places(report: Report) -> str:
    return table(
        ("place", "reason", "message"),
        [(f"{place.path}:{place.line}", place.reason, place.message) for place in report.places],
    )


def _charts(report: Report, facts: RowFacts) -> Iterator[str]:
    """Histograms of the rows, the shares of sources, and the costs of other row lengths."""
    if not len(facts.lengths):
        return
    longest = int(facts.lengths.max())
    most = report.max_length or longest
    ranges = bins(facts.lengths.tolist(), 0, max(longest, 1), whole=True)
    left_out, _ = facts.too_long
    if left_out:
        ranges.append(Bin(float(most), most + max(1.0, ranges[-1].high - ranges[-1].low), left_out))
    lengths = histogram(
        ranges,
        title="Lengths of documents in the rows",
        unit="documents",
        mark=(most, f"{'longest' if report.max_length is None else 'max_length'} {most:,}"),
    )
    fill = histogram(
        bins(facts.fills.tolist(), 0.0, 1.0), title="Fill of the rows", unit="rows", percent=True
    )
    counts = histogram(
        bins(facts.counts.tolist(), 0, max(int(facts.counts.max()), 1), whole=True),
        title="Documents in a row",
        unit="rows",
    )
    yield section(
        "Rows",
        _figure(
            lengths,
            "Lengths of the documents in the rows, in tokens."
            + (
                f" The last bar stands for {counted(left_out, 'document')} left out as too long."
                if left_out
                else ""
            ),
        ),
        _figure(
            named_bars(
                [(f"{cost.max_length:,} tokens a row", cost.at_most, _lost(cost)) for cost in facts.costs],
                title="Tokens lost in rows of each length",
            ),
            "The share of the tokens that rows of each length would lose.",
        ),
        _figure(fill, f"How full rows are; {report.fill:.2%} on average."),
        _figure(counts, f"Documents in a row; {report.documents_per_row:.2f} on average."),
    )
    total = max(sum(tokens for _, tokens in facts.sources), 1)
    shares = [(name, float(tokens), f"{tokens / total:.1%}") for name, tokens in facts.sources]
    if shares:
        yield section(
            "Shares of sources",
            _figure(named_bars(shares, title="Shares of sources"), "Tokens in the rows, by file."),
        )
    yield section(
        "What other lengths would cost",
        table(
            ("tokens a row", "rows", "tokens lost", "padding"),
            [
                (f"{cost.max_length:,}", f"{cost.rows:,}", _lost(cost), f"{cost.padding:.2%}")
                for cost in facts.costs
            ],
            numbers=(0, 1, 2, 3),
        ),
        '<p class="faint">Planned anew from the lengths of the documents in these rows. Lost is what no row has room for: documents '
        "longer than a row, or what is cut off them, with what these rows lost so. Whether longer rows would lose it "
        "too is not known; <code>fastpack scan</code> tells.</p>",
    )


def _lost(cost: RowLengthFacts) -> str:
    """The share of tokens that rows of a length lose, or its greatest possible value."""
    known, most = f"{cost.lost:.2%}", f"{cost.at_most:.2%}"
    return known if known == most else f"{known} to {most}"


def _row(row: PackedRow) -> str:
    return f"<h3>{escaped(row_title(row))}</h3>{row_body(row, _TEXT)}"


def _again(packed: Folder) -> str:
    """The command that repeats the job of a folder of this machine, and the options that the manifest holds."""
    folder = packed.name
    recipe = packed.manifest.get("recipe")
    command = f"fastpack pack --like {shlex.quote(folder)} -o {shlex.quote(folder.rstrip('/') + '-again')}"
    if not isinstance(recipe, dict):
        return ""
    options = json.dumps(recipe, indent=2, ensure_ascii=False)
    again = "" if packed.files.is_remote else f"<pre>{html.escape(command)}</pre>"
    return f"{again}<p>It was packed with</p><pre>{html.escape(options)}</pre>"
