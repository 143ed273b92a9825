"""`PictureReference`: the place and the size of a picture of a row; `references_of` reads those of a cell."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from fastpack._fastpack import without_secrets
from fastpack.arguments.checks import is_series, shown
from fastpack.types import IMAGES

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["PictureReference", "picture_type", "references_of", "typed_pictures"]

_BYTES: Final = "bytes"
"""The field of rows that hold the bytes of their pictures."""


class PictureReference(NamedTuple):
    """A picture of a row.

    Attributes:
        path: Its file or URL, or the file of the record that holds its bytes.
        row: The record in that file, from 1; 0 if the file is the picture.
        number: Its number among the pictures of its conversation, from 0.
        pictures: The number of pictures in its conversation, as far as its document has it.
        document: The entry of `seq_lengths` that it belongs to, from 0.
        width: Its width in pixels, after its turn.
        height: Its height.
        file_bytes: The number of its bytes; 0 if it is not known.
        content: Its bytes, if the row holds them.
    """

    path: str
    row: int
    number: int
    pictures: int
    document: int
    width: int
    height: int
    file_bytes: int
    content: bytes | None = None

    def __repr__(self) -> str:
        """The place, without the query of a URL, which may be signed; bytes by their number."""
        held = "" if self.content is None else f", content=<{len(self.content):,} bytes>"
        return f"PictureReference({', '.join(f'{name}={it!r}' for name, it in self.place.items())}{held})"

    @property
    def place(self) -> dict[str, str | int]:
        """All but its bytes, as it may be shown: a URL without its query."""
        shown = self._replace(path=without_secrets(self.path))
        return {name: value for name, value in shown._asdict().items() if name != "content"}

    def __str__(self) -> str:
        """The place of the picture, for a message."""
        if not self.row:
            return f"picture `{without_secrets(self.path)}`"
        return f"picture {self.number} in record {self.row:,} of `{without_secrets(self.path)}`"


def references_of(cell: object) -> list[PictureReference]:
    """The pictures in the cell of a row, in its order.

    Raises:
        ValueError: The cell holds something else.
    """
    if isinstance(cell, Mapping):  # a list of structs as older releases of `datasets` show it
        names = list(cell)
        cell = [dict(zip(names, each, strict=True)) for each in zip(*cell.values(), strict=True)]
    return [_reference(each) for each in cell] if is_series(cell) else [_reference(cell)]


_PLACE: Final = PictureReference._fields[:-1]
"""The fields of a picture in every row."""


def _reference(value: object) -> PictureReference:
    try:
        path, *numbers = (value[name] for name in _PLACE)  # type: ignore[index]  # fails below
        held = value.get(_BYTES)  # type: ignore[attr-defined]  # likewise
        row, number, among, document, width, height, file_bytes = map(int, numbers)
        content = None if held is None else _content_of(held)
        return PictureReference(str(path), row, number, among, document, width, height, file_bytes, content)
    except (AttributeError, TypeError, KeyError, ValueError, IndexError) as refused:
        message = f"`{IMAGES}` holds no pictures as fastpack writes them, but `{shown(value)}`"
        raise ValueError(message) from refused


def _content_of(held: object) -> bytes:
    """The bytes of a picture, which JSON holds as base64."""
    if isinstance(held, str):
        return base64.b64decode(held, validate=True)
    if not isinstance(held, bytes):
        raise TypeError
    return held


def picture_type(*, embedded: bool = False) -> pa.DataType:
    """The type of a picture in a table, with its bytes if rows hold them."""
    import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing

    wide: dict[str, pa.DataType] = {"path": pa.string(), "row": pa.int64(), "file_bytes": pa.int64()}
    fields = [(name, wide.get(name, pa.int32())) for name in _PLACE]
    return pa.struct([*fields, (_BYTES, pa.large_binary())] if embedded else fields)


def typed_pictures(read: pa.Table, at: int) -> pa.Table:
    """A table that was read from JSON, with the pictures in its column `at` as they are in the other formats.

    Raises:
        ArrowInvalid: It holds something else.
        ValueError: The bytes of a picture are no base64.
    """
    import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing

    column, kind = read.column(at), read.schema.field(at).type
    pictures = kind.value_type if pa.types.is_list(kind) else kind
    embedded = pa.types.is_struct(pictures) and pictures.get_field_index(_BYTES) >= 0
    wanted = pa.list_(picture_type(embedded=embedded))
    if not embedded:
        return read.set_column(at, IMAGES, column.cast(wanted))
    rows = [[_with_bytes(picture) for picture in row or ()] for row in column.to_pylist()]
    return read.set_column(at, IMAGES, pa.array(rows, wanted))


def _with_bytes(picture: dict[str, object]) -> dict[str, object]:
    """A picture of a row with its bytes in place of their base64."""
    held = picture[_BYTES]
    return picture if held is None else {**picture, _BYTES: _content_of(held)}
