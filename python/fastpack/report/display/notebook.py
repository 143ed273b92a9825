"""The HTML fragments that notebooks show for reports, rows, tokenizers, splits and streams."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from fastpack.arguments.plural import counted
from fastpack.report.display.markup import STYLE, escaped, listed, table, tiles
from fastpack.report.display.pages import labelled, shown_lengths, split_sentence
from fastpack.report.display.rows import heading, picture_line, row_title
from fastpack.report.display.thumbnails import thumbnails
from fastpack.report.report_facts import Count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fastpack.dataset.inspection import PackedRow
    from fastpack.report.report import Report
    from fastpack.report.scan import ScanReport
    from fastpack.streaming.stream import PackStream
    from fastpack.tokenizer.tokenizer import Tokenizer
    from fastpack.types import Splits

__all__ = [
    "choices_table",
    "losses_table",
    "report_fragment",
    "report_tiles",
    "row_body",
    "row_fragment",
    "scan_fits",
    "scan_fragment",
    "scan_losses",
    "splits_fragment",
    "stream_fragment",
    "tokenizer_fragment",
    "turns_table",
]


def fragment(*parts: str) -> str:
    """Parts of a page with their style, for a cell."""
    return f'<div class="fastpack"><style>{STYLE}</style>{"".join(parts)}</div>'


def report_fragment(report: Report) -> str:
    """A report: its main numbers, losses and warnings."""
    return fragment(
        report_tiles(report),
        table((), labelled("inputs", (it.named for it in report.inputs))),
        losses_table(report),
        left_out_table(report),
        turns_table(report, report.tokens.read),
        table((), [("lengths", shown_lengths(report.lengths)), *_splits(report)]),
        listed("warnings", report.warnings),
    )


def report_tiles(report: Report) -> str:
    """The main numbers of a report."""
    # Documents that a share did not draw are not lost.
    aside = report.dropped.get("not_drawn", Count(0, 0)).tokens
    lost = (report.tokens.dropped - aside) / max(report.tokens.read - aside, 1)
    return tiles(
        [
            ("documents", f"{report.documents.kept:,}"),
            ("tokens", f"{report.tokens.kept:,}"),
            (f"rows of {report.row_length}", f"{report.rows:,}"),
            ("fill", f"{report.fill:.2%}"),
            ("documents a row", f"{report.documents_per_row:.2f}"),
            ("trained", f"{report.trained_share:.1%}"),
            ("tokens lost", f"{lost:.2%}"),
        ]
    )


def losses_table(report: Report) -> str:
    """The losses by reason, each with its first place."""
    first = {place.reason: place for place in reversed(report.places)}
    rows = [
        (reason, f"{lost.documents:,}", f"{lost.tokens:,}", _place(first.get(reason)))
        for reason, lost in report.dropped.items()
    ]
    if report.truncated.documents:
        rows.append(
            (
                "cut to fit a row",
                f"{report.truncated.documents:,}",
                f"{report.truncated.tokens:,}",
                "",
            )
        )
    heads = ("lost", "documents", "tokens", *(["first at"] if any(row[3] for row in rows) else []))
    return table(heads, [row[: len(heads)] for row in rows], numbers=(1, 2))


def left_out_table(report: Report | ScanReport) -> str:
    """The fields that the text leaves out, with the first place of each."""
    rows = [
        (field, f"{noted.records:,}", noted.places[0] if noted.places else "")
        for field, noted in report.left_out.items()
    ]
    return table(("left out of the text", "records", "first at"), rows, numbers=(1,)) if rows else ""


def turns_table(report: Report | ScanReport, read: int) -> str:
    """The conversations that became several documents, among `read` tokens."""
    split = report.split_conversations
    return table((), [("turns", split_sentence(split, read))]) if split.records else ""


def choices_table(scan: ScanReport) -> str:
    """The documents that each choice of `turns` gives."""
    rows = [(turns, *(f"{count:,}" for count in choice)) for turns, choice in scan.turn_choices.items()]
    heads = ("turns", "documents", "tokens", "trained", "turns as the model never writes")
    return table(heads, rows, numbers=(1, 2, 3, 4)) if rows else ""


def _place(place: object) -> str:
    path, line, message = (getattr(place, name, "") for name in ("path", "line", "message"))
    return f"{path}:{line}: {message}" if path else ""


def _splits(report: Report) -> list[tuple[str, str]]:
    return [
        (
            name,
            f"{counted(split.documents.kept, 'document')} in {counted(split.rows, 'row')}, {split.fill:.2%} full",
        )
        for name, split in report.splits.items()
    ]


def scan_fragment(scan: ScanReport) -> str:
    """A scan: its main numbers, losses, and the result for each row length."""
    return fragment(
        scan_tiles(scan),
        table((), labelled("inputs", (it.named for it in scan.inputs))),
        scan_fits(scan),
        scan_losses(scan),
        left_out_table(scan),
        turns_table(scan, scan.read.tokens),
        choices_table(scan),
        table((), [("lengths", shown_lengths(scan.lengths)), ("engine", scan.engine)]),
        listed("warnings", scan.warnings),
    )


def scan_tiles(scan: ScanReport) -> str:
    """The main numbers of a scan."""
    about = "" if scan.sample is None else "about "
    return tiles(
        [
            ("records", f"{about}{scan.read.documents:,}"),
            ("documents", f"{about}{scan.documents:,}"),
            ("tokens", f"{about}{scan.read.tokens:,}"),
            ("trained", f"{scan.trained_share:.1%}"),
        ]
    )


def scan_fits(scan: ScanReport) -> str:
    """The result for each row length: the number of rows, their fill, and the losses."""

    def rows() -> Iterator[Sequence[str]]:
        for fit in scan.fits:
            reasons = [f"{count.documents:,} {reason}" for reason, count in fit.dropped.items()]
            if fit.truncated.documents:
                reasons.append(f"{fit.truncated.documents:,} cut")
            yield (
                f"{fit.max_length:,}",
                f"{fit.rows:,}",
                f"{1 - fit.fill:.2%}",
                f"{fit.lost_tokens / max(scan.read.tokens, 1):.2%}",
                ", ".join(reasons),
            )

    return table(
        ("tokens a row", "rows", "padding", "tokens lost", "documents"), rows(), numbers=(0, 1, 2, 3)
    )


def scan_losses(scan: ScanReport) -> str:
    """Records that no row can hold, by reason, with the first place."""
    return table(
        ("lost", "records", "tokens", "first at"),
        [
            (reason, f"{lost.documents:,}", f"{lost.tokens:,}", _place(lost.places[0]) if lost.places else "")
            for reason, lost in scan.lost.items()
        ],
        numbers=(1, 2),
    )


def row_fragment(row: PackedRow) -> str:
    """A packed row: each document in a box, trained tokens marked."""
    return fragment(f"<p>{escaped(row_title(row))}</p>", row_body(row))


def row_body(row: PackedRow, most: int | None = None) -> str:
    """The documents of a row; of each text, the first `most` characters."""
    parts = []
    for number, document in enumerate(row.documents):
        shown, left = [], most
        for trained, text in row.stretches(document):
            cut = text if left is None or len(text) <= left else f"{text[:left]}…"
            safe = html.escape(cut)
            shown.append(f"<mark>{safe}</mark>" if trained else safe)
            left = None if left is None else max(left - len(text), 0)
            if left == 0:
                break
        joined = ("" if row.has_text else " ").join(shown)
        titles = [heading(number, document), *map(picture_line, document.pictures)]
        above = "<br>".join(map(escaped, titles))
        small = thumbnails(document.pictures, row.picture_files)
        parts.append(f'<p class="faint">{above}</p>{small}<pre>{joined}</pre>')
    return "".join(parts)


def tokenizer_fragment(tokenizer: Tokenizer) -> str:
    """A tokenizer: its engine, its size, its special tokens and its chat templates."""
    engine = f"{tokenizer.engine}: {tokenizer.reason}" if tokenizer.reason else tokenizer.engine
    special = ", ".join(f"{name} {token}" for name, token in tokenizer.special_tokens.items())
    return fragment(
        table(
            (),
            [
                ("engine", engine),
                ("tokens", f"{tokenizer.vocab_size:,}"),
                ("special tokens", special or "none"),
                ("chat templates", ", ".join(tokenizer.chat_templates) or "none"),
            ],
        )
    )


def stream_fragment(stream: PackStream) -> str:
    """A stream: its report after its end; before, instructions for reading it."""
    if stream.report is not None:
        return report_fragment(stream.report)
    return fragment(
        "<p>A stream of packed rows: a loop over it gives tables, and its report comes at the end.</p>"
    )


def splits_fragment(splits: Splits) -> str:
    """Both tables: their rows and columns."""
    return fragment(
        table(
            ("split", "rows", "columns"),
            [
                (name, f"{rows.num_rows:,}", ", ".join(rows.column_names))
                for name, rows in zip(splits._fields, splits, strict=True)
            ],
            numbers=(1,),
        )
    )
