"""A packed row as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fastpack._fastpack import one_line, printable, without_secrets
from fastpack.arguments.plural import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastpack.dataset.inspection import PackedDocument, PackedRow
    from fastpack.dataset.pictures.references import PictureReference

__all__ = ["heading", "row_page", "row_title"]

_GREEN: Final = "\x1b[32m"
_DIM: Final = "\x1b[2m"
_PLAIN: Final = "\x1b[0m"


def row_page(row: PackedRow, *, color: bool, ids: bool = False) -> str:
    """The lines that show a row.

    Trained tokens stand in colour, or between « and » where colour is not wanted. A token that begins a
    document carries no label: nothing predicts it.
    """
    return "\n".join(_lines(row, color=color, ids=ids))


def row_title(row: PackedRow) -> str:
    """The title of a row: its file and number, and its counts."""
    trained = sum(document.trained for document in row.documents)
    has_labels = any(document.labels for document in row.documents)
    share = f", {trained:,} trained" if has_labels else ""
    return (
        f"{one_line(row.where)}, row {row.number} of {row.rows:,}: {counted(row.tokens, 'token')}, "
        f"{counted(len(row.documents), 'document')}{share}"
    )


def heading(number: int, document: PackedDocument) -> str:
    """The line above a document: its place in the row, its trained tokens, and its origin."""
    end = document.start + len(document.input_ids)
    share = f", {document.trained:,} trained" if document.labels else ""
    place = f", from {one_line(document.source)}:{document.line}" if document.source else ""
    if not document.source and document.line:
        place = f", record {document.line:,}"
    names = f" ({one_line(', '.join(document.classes))})" if document.classes else ""
    label = "" if document.label is None else f", label {_shown(document.label)}{names}"
    return f"document {number}: tokens {document.start:,} to {end - 1:,}{share}{label}{place}"


def picture_line(picture: PictureReference) -> str:
    """A picture of a document: its number, its place and its size."""
    path = without_secrets(picture.path)
    place = f"{path}:{picture.row}" if picture.row else path
    return f"picture {picture.number}: {place}, {picture.width:,} x {picture.height:,}"


def _shown(label: int | bool | tuple[float, ...]) -> str:
    """The label of a document: of several classes, the numbers of those that it has."""
    if isinstance(label, tuple):
        return ", ".join(str(number) for number, truth in enumerate(label) if truth) or "none"
    return str(label)


def _lines(row: PackedRow, *, color: bool, ids: bool) -> Iterator[str]:
    opening, closing = (_GREEN, _PLAIN) if color else ("«", "»")
    yield row_title(row)
    for number, document in enumerate(row.documents):
        yield ""
        line = f"── {heading(number, document)} ──"
        yield f"{_DIM}{line}{_PLAIN}" if color else line
        for picture in document.pictures:
            yield one_line(picture_line(picture))
        stretches = row.stretches(document, ids=ids)
        # A text of others may hold characters that move the cursor of a terminal, or worse.
        texts = ((trained, printable(text)) for trained, text in stretches)
        shown = (f"{opening}{text}{closing}" if trained else text for trained, text in texts)
        yield (" " if ids or not row.has_text else "").join(shown)
