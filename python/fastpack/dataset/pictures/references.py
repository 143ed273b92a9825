"""`PictureReference`: the place and the size of a picture of a row; `references_of` reads those of a cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from fastpack.arguments.checks import is_series, shown
from fastpack.types import IMAGES

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["PictureReference", "picture_type", "references_of"]


class PictureReference(NamedTuple):
    """A picture of a row.

    Attributes:
        path: Its file, or the file of the record that holds its bytes.
        row: The record in that file, from 1; 0 if the file is the picture.
        number: Its number among the pictures of its conversation, from 0.
        pictures: The number of pictures in its conversation, as far as its document has it.
        document: The entry of `seq_lengths` that it belongs to, from 0.
        width: Its width in pixels, after its turn.
        height: Its height.
    """

    path: str
    row: int
    number: int
    pictures: int
    document: int
    width: int
    height: int

    def __str__(self) -> str:
        """The place of the picture, for a message."""
        if not self.row:
            return f"picture `{self.path}`"
        return f"picture {self.number} in record {self.row:,} of `{self.path}`"


def references_of(cell: object) -> list[PictureReference]:
    """The pictures in the cell of a row, in its order.

    Raises:
        ValueError: The cell holds something else.
    """
    if isinstance(cell, Mapping):  # a list of structs as older releases of `datasets` show it
        names = list(cell)
        cell = [dict(zip(names, each, strict=True)) for each in zip(*cell.values(), strict=True)]
    return [_reference(each) for each in cell] if is_series(cell) else [_reference(cell)]


def _reference(value: object) -> PictureReference:
    try:
        path, *numbers = (value[name] for name in PictureReference._fields)  # type: ignore[index]  # fails below
        return PictureReference(str(path), *map(int, numbers))
    except (TypeError, KeyError, ValueError, IndexError) as refused:
        message = f"`{IMAGES}` holds no pictures as fastpack writes them, but `{shown(value)}`"
        raise ValueError(message) from refused


def picture_type() -> pa.DataType:
    """The type of a picture in a table."""
    import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing

    wide: dict[str, pa.DataType] = {"path": pa.string(), "row": pa.int64()}
    return pa.struct([(name, wide.get(name, pa.int32())) for name in PictureReference._fields])
