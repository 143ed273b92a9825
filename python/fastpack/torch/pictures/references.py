"""`PictureReference`: the place and the size of a picture of a row; `references_of` reads those of a row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from fastpack.arguments.checks import is_series, shown
from fastpack.errors import BatchError
from fastpack.types import IMAGES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

__all__ = ["PictureReference", "documents_of", "references_of"]


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


def references_of(row: Mapping[str, object], number: int) -> list[PictureReference]:
    """The pictures of a row, in its order.

    Raises:
        BatchError: The row has no such column, or something else in it.
    """
    if IMAGES not in row:
        message = (
            f"row {number} of the batch has no column `{IMAGES}`; pack with `reading.images`, and pass "
            "remove_unused_columns=False where a Trainer has removed it"
        )
        raise BatchError(message)
    value = row[IMAGES]
    if isinstance(value, Mapping):  # a list of structs as older releases of `datasets` show it
        names = list(value)
        value = [dict(zip(names, each, strict=True)) for each in zip(*value.values(), strict=True)]
    if not is_series(value):
        raise _no_pictures(value, number)
    return [_reference(each, number) for each in value]


def _reference(value: object, number: int) -> PictureReference:
    try:
        path, *numbers = (value[name] for name in PictureReference._fields)  # type: ignore[index]  # fails below
        return PictureReference(str(path), *map(int, numbers))
    except (TypeError, KeyError, ValueError, IndexError) as refused:
        raise _no_pictures(value, number) from refused


def _no_pictures(value: object, number: int) -> BatchError:
    message = f"row {number} of the batch has no list of pictures in `{IMAGES}`, but `{shown(value)}`"
    return BatchError(message)


def documents_of(
    references: Sequence[PictureReference],
    ids: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    placeholder: int,
    number: int,
) -> list[list[PictureReference]]:
    """The pictures of each document of a row.

    Args:
        references: The pictures of the row, in order.
        ids: The tokens of the row.
        lengths: The lengths of its documents.
        placeholder: The id of the tokens of pictures.
        number: The row in the batch, for messages.

    Raises:
        BatchError: The row has other pictures than its tokens tell of.
    """
    documents: list[list[PictureReference]] = [[] for _ in lengths]
    for reference in references:
        if not 0 <= reference.document < len(documents):
            message = (
                f"row {number} of the batch has no document {reference.document}, of which the {reference} is"
            )
            raise BatchError(message)
        documents[reference.document].append(reference)
    is_picture = ids == placeholder
    ends = lengths.cumsum()
    shows = [bool(is_picture[end - length : end].any()) for end, length in zip(ends, lengths, strict=True)]
    if shows != [bool(each) for each in documents]:
        message = (
            f"row {number} of the batch has pictures in {sum(map(bool, documents))} of its documents by `{IMAGES}`, but tokens "
            f"of pictures in {sum(shows)}; something has cut the row, or the processor is another one"
        )
        raise BatchError(message)
    return documents
