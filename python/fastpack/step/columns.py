"""`Column`: the values of a column of sequences, whatever they are held in, end to end."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from fastpack._checks import is_series, shown
from fastpack.errors import BatchError, OptionTypeError

if TYPE_CHECKING:
    import numpy.typing as npt

    Array: TypeAlias = "npt.NDArray[np.int64] | npt.NDArray[np.float64] | npt.NDArray[np.bool_]"

__all__ = ["Column", "column_of"]


@dataclass(frozen=True, slots=True)
class Column:
    """The values of a column, those of one sequence behind those of another.

    Attributes:
        values: `[T]`, or `[T, width]` where each value is a vector; of bfloat16, which numpy lacks, its bits.
        lengths: The values of each sequence (int64); `None` where each sequence has one.
        is_bfloat16: Whether the values are the bits of bfloat16.
    """

    values: Array
    lengths: npt.NDArray[np.int64] | None
    is_bfloat16: bool = False

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Where the values of each sequence begin, and the number of all."""
        assert self.lengths is not None, "a value for each sequence has no offsets"  # noqa: S101
        return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(self.lengths)])


def column_of(
    name: str,
    values: object,
    sequences: int | None,
    *,
    mask: Array | None = None,
    lengths: npt.NDArray[np.int64] | None = None,
) -> Column:
    """The column of what frameworks hold.

    Takes a list with an array (or list, or tensor) for each sequence; a padded array or tensor `[B, L]` or `[B, L, width]`, of which
    `mask` says what counts; a flat one with the `lengths` of the sequences; a nested tensor; a list array of pyarrow; or one value
    for each of the `sequences`.

    Raises:
        BatchError: The values fit neither the sequences nor their tokens.
        OptionTypeError: It is nothing of these.
    """
    if hasattr(values, "combine_chunks") or hasattr(values, "value_lengths"):
        return _of_arrow(name, values)
    if getattr(values, "is_nested", False):
        values = list(values.unbind())  # type: ignore[attr-defined]  # a nested tensor of PyTorch
    if isinstance(values, (list, tuple)) and any(_is_list(it) for it in values):
        is_padded = mask is not None and all(_is_list(it) and len(it) == mask.shape[1] for it in values)
        if not is_padded:
            return _of_each(name, values)
    array, is_bfloat16 = _array(name, values)
    if mask is not None and array.ndim > 1 and array.shape[:2] == mask.shape:
        return Column(array[mask], mask.sum(axis=1, dtype=np.int64), is_bfloat16)
    if lengths is not None and array.shape[0] == lengths.sum() and array.shape[0] != len(lengths):
        return Column(array, lengths, is_bfloat16)
    if array.shape == (sequences,):
        return Column(array, None, is_bfloat16)
    message = (
        f"column `{name}` has the shape {list(array.shape)}, which is neither a value for each of {sequences} sequences nor one for "
        "each token; padded columns need `attention_mask`, flat ones `lengths`"
    )
    raise BatchError(message)


def _is_list(value: object) -> bool:
    return is_series(value) and getattr(value, "ndim", 1) > 0


def _of_each(name: str, each: list[object] | tuple[object, ...]) -> Column:
    """A column of one array for each sequence."""
    read = [_array(f"{name}` of sequence `{number}", it) for number, it in enumerate(each)]
    arrays, are_bfloat16 = [array for array, _ in read], {is_bfloat16 for _, is_bfloat16 in read}
    lengths = np.array([len(it) for it in arrays], dtype=np.int64)
    if len(are_bfloat16) > 1:
        message = f"column `{name}` has some tensors of bfloat16 and others that are not"
        raise BatchError(message)
    filled = [it for it in arrays if len(it)] or arrays[:1]
    try:
        joined: Array = np.concatenate(filled)  # type: ignore[assignment]  # of any numbers
    except ValueError as refused:
        message = f"column `{name}` has vectors of several widths: {refused}"
        raise BatchError(message) from refused
    return Column(joined, lengths, are_bfloat16 == {True})


def _of_arrow(name: str, values: object) -> Column:
    """A column of a table of pyarrow."""
    import pyarrow as pa  # noqa: PLC0415  slow to import

    array = values
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):  # without chunks
            array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], type=array.type)
    if not isinstance(array, pa.Array) or array.null_count:
        message = f"column `{name}` has nulls"
        raise BatchError(message)
    if not (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
        return Column(array.to_numpy(zero_copy_only=False), None)
    flat = array.flatten()  # type: ignore[attr-defined]  # of lists
    if flat.null_count:
        message = f"column `{name}` has nulls"
        raise BatchError(message)
    lengths = np.diff(array.offsets.to_numpy()).astype(np.int64)  # type: ignore[attr-defined]  # likewise
    return Column(flat.to_numpy(zero_copy_only=False), lengths)


def _array(name: str, values: object) -> tuple[Array, bool]:
    """Numbers as an array, without a copy where that is possible, and whether they are the bits of bfloat16."""
    is_bfloat16 = str(getattr(values, "dtype", None)) == "torch.bfloat16"
    if hasattr(values, "detach"):
        tensor = values.detach().cpu()
        values = tensor.contiguous().view(sys.modules["torch"].int16) if is_bfloat16 else tensor
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "biuf":
        message = f"column `{name}` must hold numbers, not `{shown(values)}`"
        raise OptionTypeError(message, "columns")
    return array, is_bfloat16
