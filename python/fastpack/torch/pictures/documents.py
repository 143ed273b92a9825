"""The pictures of a row in a batch, by the documents that show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastpack.dataset.pictures.references import references_of
from fastpack.errors import BatchError
from fastpack.types import IMAGES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

    from fastpack.dataset.pictures.references import PictureReference

__all__ = ["documents_of", "pictures_of_row"]


def pictures_of_row(row: Mapping[str, object], number: int) -> list[PictureReference]:
    """The pictures of row `number` of a batch, in its order.

    Raises:
        BatchError: The row has no such column, or something else in it.
    """
    if IMAGES not in row:
        message = (
            f"row {number} of the batch has no column `{IMAGES}`; pack with `reading.images`, and pass "
            "remove_unused_columns=False where a Trainer has removed it"
        )
        raise BatchError(message)
    try:
        return references_of(row[IMAGES])
    except ValueError as refused:
        message = f"row {number} of the batch: {refused}"
        raise BatchError(message) from refused


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
