"""`column_of`: the values of a column by sequence, whatever they are held in, without a copy."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from fastpack._checks import is_series, shown
from fastpack.errors import BatchError, OptionTypeError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Array: TypeAlias = "npt.NDArray[np.int64] | npt.NDArray[np.float64] | npt.NDArray[np.bool_]"

__all__ = ["SequenceColumn", "TokenColumn", "column_of"]


@dataclass(frozen=True, slots=True)
class TokenColumn:
    """A column with a value, or a vector, for each token.

    Attributes:
        of: The values of a sequence by its number; of bfloat16, which numpy lacks, their bits.
        lengths: The values of each sequence (int64).
        empty: No values, of the type of the column.
        is_bfloat16: Whether the values are the bits of bfloat16.
    """

    of: Callable[[int], Array]
    lengths: npt.NDArray[np.int64]
    empty: Array
    is_bfloat16: bool = False


@dataclass(frozen=True, slots=True)
class SequenceColumn:
    """A column with a value for each sequence; of bfloat16, its bits."""

    values: Array
    is_bfloat16: bool = False


def column_of(
    name: str,
    values: object,
    sequences: int,
    *,
    mask: npt.NDArray[np.bool_] | None = None,
    lengths: npt.NDArray[np.int64] | None = None,
) -> TokenColumn | SequenceColumn:
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
        return _of_padded(array, mask, is_bfloat16=is_bfloat16)
    if lengths is not None and array.shape[0] == lengths.sum() and array.shape[0] != len(lengths):
        return _of_flat(array, lengths, is_bfloat16=is_bfloat16)
    if array.shape == (sequences,):
        return SequenceColumn(array, is_bfloat16)
    message = (
        f"column `{name}` has the shape {list(array.shape)}, which is neither a value for each of {sequences} sequences nor one for "
        "each token; padded columns need `attention_mask`, flat ones `lengths`"
    )
    raise BatchError(message)


def _is_list(value: object) -> bool:
    return is_series(value) and getattr(value, "ndim", 1) > 0


def _of_flat(values: Array, lengths: npt.NDArray[np.int64], *, is_bfloat16: bool = False) -> TokenColumn:
    """A column of the values of one sequence behind those of another."""
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
    return TokenColumn(
        lambda sequence: values[offsets[sequence] : offsets[sequence + 1]], lengths, values[:0], is_bfloat16
    )


def _of_padded(values: Array, mask: npt.NDArray[np.bool_], *, is_bfloat16: bool) -> TokenColumn:
    """A column of an array `[B, L]`, with padding at either side or in between."""
    return TokenColumn(
        lambda sequence: _unpadded(values[sequence], mask[sequence]),
        mask.sum(axis=1, dtype=np.int64),
        values[:1, :0].reshape(0, *values.shape[2:]),
        is_bfloat16,
    )


def _unpadded(values: Array, mask: npt.NDArray[np.bool_]) -> Array:
    places = np.flatnonzero(mask)
    if not places.size:
        return values[:0]
    within = slice(places[0], places[-1] + 1)
    return values[within] if places.size == places[-1] + 1 - places[0] else values[mask]


def _of_each(name: str, each: list[object] | tuple[object, ...]) -> TokenColumn:
    """A column of one array for each sequence. Arrays and tensors are read when they are asked for."""

    def read(sequence: int) -> tuple[Array, bool]:
        return _array(f"{name}` of sequence `{sequence}", each[sequence])

    each = [it if getattr(it, "ndim", 0) else read(at)[0] for at, it in enumerate(each)]
    lengths = np.array([len(it) for it in each], dtype=np.int64)  # type: ignore[arg-type]  # arrays and tensors
    filled = np.flatnonzero(lengths).tolist() or [0]
    # One sequence of each type and width tells what the column is.
    kinds = {(each[at].dtype, each[at].shape[1:]): at for at in filled}  # type: ignore[attr-defined]  # likewise
    read_of_kinds = [read(at) for at in kinds.values()]
    if len({array.shape[1:] for array, _ in read_of_kinds}) > 1:
        message = f"column `{name}` has vectors of several widths"
        raise BatchError(message)
    if len({is_bfloat16 for _, is_bfloat16 in read_of_kinds}) > 1:
        message = f"column `{name}` has some tensors of bfloat16 and others that are not"
        raise BatchError(message)
    first, is_bfloat16 = read_of_kinds[0]
    empty = first[:0].astype(np.result_type(*(array.dtype for array, _ in read_of_kinds)))

    def of(sequence: int) -> Array:
        return read(sequence)[0].astype(empty.dtype, copy=False) if lengths[sequence] else empty

    return TokenColumn(of, lengths, empty, is_bfloat16)


def _of_arrow(name: str, values: object) -> TokenColumn | SequenceColumn:
    """A column of a table of pyarrow."""
    import pyarrow as pa  # noqa: PLC0415  slow to import

    array = values
    if isinstance(array, pa.ChunkedArray):
        array = (
            array.chunk(0)
            if array.num_chunks == 1
            else pa.concat_arrays(array.chunks or [pa.array([], array.type)])
        )
    if not isinstance(array, pa.Array) or array.null_count:
        message = f"column `{name}` has nulls"
        raise BatchError(message)
    if not (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
        return SequenceColumn(array.to_numpy(zero_copy_only=False))
    flat = array.flatten()  # type: ignore[attr-defined]  # of lists
    if flat.null_count:
        message = f"column `{name}` has nulls"
        raise BatchError(message)
    lengths = np.diff(array.offsets.to_numpy()).astype(np.int64)  # type: ignore[attr-defined]  # likewise
    return _of_flat(flat.to_numpy(zero_copy_only=False), lengths)


def _array(name: str, values: object) -> tuple[Array, bool]:
    """Numbers as an array, without a copy where that is possible, and whether they are the bits of bfloat16."""
    is_bfloat16 = False
    if hasattr(values, "detach"):
        tensor = values.detach().cpu()
        is_bfloat16 = str(tensor.dtype) == "torch.bfloat16"
        values = tensor.contiguous().view(sys.modules["torch"].int16) if is_bfloat16 else tensor
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "biuf" or not array.ndim:
        message = f"column `{name}` must hold numbers, not `{shown(values)}`"
        raise OptionTypeError(message, "columns")
    return array, is_bfloat16
