"""`column_of`: the values of a column by sequence, from any container, without a copy."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from fastpack.arguments.checks import is_series, shown
from fastpack.errors import BatchError, OptionTypeError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Array: TypeAlias = "npt.NDArray[np.int64] | npt.NDArray[np.float64] | npt.NDArray[np.bool_]"

__all__ = ["SequenceColumn", "TokenColumn", "column_of", "without_last"]


@dataclass(frozen=True, slots=True)
class TokenColumn:
    """A column with a value, or a vector, for each token.

    Attributes:
        of: The values of each of some sequences, by their numbers.
        lengths: The values of each sequence (int64).
        empty: No values, of the type of the column.
        bits_of: The type of PyTorch, such as bfloat16, that numpy lacks: the values are its bits.
    """

    of: Callable[[list[int]], list[Array]]
    lengths: npt.NDArray[np.int64]
    empty: Array
    bits_of: object = None


@dataclass(frozen=True, slots=True)
class SequenceColumn:
    """A column with a value for each sequence; `bits_of` as in `TokenColumn`."""

    values: Array
    bits_of: object = None

    def as_tokens(self) -> TokenColumn:
        """The column of sequences of one token each."""
        return _of_flat(self.values, np.ones(len(self.values), dtype=np.int64), self.bits_of)


def column_of(
    name: str,
    values: object,
    sequences: int,
    *,
    mask: npt.NDArray[np.bool_] | None = None,
    lengths: npt.NDArray[np.int64] | None = None,
) -> TokenColumn | SequenceColumn:
    """The column of a value that frameworks use.

    Takes a list with an array (or list, or tensor) for each sequence; a padded array or tensor `[B, L]` or `[B, L, width]`, of which
    `mask` says what counts; a flat one with the `lengths` of the sequences; a nested tensor; a list array of pyarrow; or one value
    for each of the `sequences`.

    Raises:
        BatchError: The values fit neither the sequences nor their tokens.
        OptionTypeError: It is nothing of these.
    """
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None and isinstance(values, (pyarrow.Array, pyarrow.ChunkedArray)):
        return _of_arrow(name, values)
    if getattr(values, "is_nested", False):
        values = list(values.unbind())  # type: ignore[attr-defined]  # a nested tensor of PyTorch
    if isinstance(values, np.ndarray) and values.dtype == object:
        values = list(values)  # arrays of several lengths
    if not sequences and isinstance(values, (list, tuple)) and not values:
        return _of_nothing()
    if isinstance(values, (list, tuple)) and any(_is_list(it) for it in values):
        is_padded = mask is not None and all(_is_list(it) and len(it) == mask.shape[1] for it in values)
        if not is_padded:
            return _of_each(name, values)
    array, bits_of = _array(name, values)
    if mask is not None and array.ndim > 1 and array.shape[:2] == mask.shape:
        return _of_padded(array, mask, bits_of)
    if lengths is not None and array.shape[0] == lengths.sum() and array.shape[0] != len(lengths):
        return _of_flat(array, lengths, bits_of)
    if array.shape == (sequences,):
        return SequenceColumn(array, bits_of)
    message = (
        f"column `{name}` has the shape {list(array.shape)}, which is neither a value for each of {sequences} sequences nor one for "
        f"each token; {_remedy(array.shape, mask)}"
    )
    raise BatchError(message)


def _remedy(shape: tuple[int, ...], mask: npt.NDArray[np.bool_] | None) -> str:
    """The advice for a column of another shape than its sequences."""
    if mask is None or len(shape) < 2 or shape[0] != len(mask):  # noqa: PLR2004  sequences, and their tokens
        return "padded columns need `attention_mask`, flat ones `lengths`"
    width = mask.shape[1]
    if shape[1] == width - 1:
        return f"put a column of padding at its end, as `attention_mask` has {width}, and name it in `shifted` if it is about next tokens"
    return (
        f"`attention_mask` has {width} columns; give a list with the values of each answer alone, and name the column in "
        "`completion_only`"
    )


def without_last(column: TokenColumn, tokens: npt.NDArray[np.int64]) -> TokenColumn:
    """A column without the value of the last token of a sequence, where it has as many as there are `tokens`."""

    def of(sequences: list[int]) -> list[Array]:
        pairs = zip(sequences, column.of(sequences), strict=True)
        return [values[:-1] if len(values) == tokens[sequence] else values for sequence, values in pairs]

    return replace(column, of=of)


def _is_list(value: object) -> bool:
    return is_series(value) and getattr(value, "ndim", 1) > 0


def _of_flat(values: Array, lengths: npt.NDArray[np.int64], bits_of: object = None) -> TokenColumn:
    """A column of the values of one sequence behind those of another."""
    offsets = [0, *np.cumsum(lengths).tolist()]

    def of(sequences: list[int]) -> list[Array]:
        return [values[offsets[sequence] : offsets[sequence + 1]] for sequence in sequences]

    return TokenColumn(of, lengths, values[:0], bits_of)


def _of_nothing() -> TokenColumn:
    """A column of a rank without sequences."""
    return _of_flat(np.empty(0), np.empty(0, dtype=np.int64))


def _of_padded(values: Array, mask: npt.NDArray[np.bool_], bits_of: object) -> TokenColumn:
    """A column of an array `[B, L]`, with padding at either side or in between."""
    return TokenColumn(
        lambda sequences: [_unpadded(values[sequence], mask[sequence]) for sequence in sequences],
        mask.sum(axis=1, dtype=np.int64),
        values[:1, :0].reshape(0, *values.shape[2:]),
        bits_of,
    )


def _unpadded(values: Array, mask: npt.NDArray[np.bool_]) -> Array:
    places = np.flatnonzero(mask)
    if not places.size:
        return values[:0]
    within = slice(places[0], places[-1] + 1)
    return values[within] if places.size == places[-1] + 1 - places[0] else values[mask]


def _of_each(name: str, each: list[object] | tuple[object, ...]) -> TokenColumn:
    """A column of one array for each sequence. Arrays and tensors are read when they are asked for."""

    def read(sequence: int) -> tuple[Array, object]:
        return _array(f"{name}` of sequence `{sequence}", each[sequence])

    each = [it if getattr(it, "ndim", 0) else read(at)[0] for at, it in enumerate(each)]
    lengths = np.array([len(it) for it in each], dtype=np.int64)  # type: ignore[arg-type]  # arrays and tensors
    filled = np.flatnonzero(lengths).tolist() or [0]
    # One sequence of each type and width shows the type of the column.
    kinds = {(each[at].dtype, each[at].shape[1:]): at for at in filled}  # type: ignore[attr-defined]  # likewise
    read_of_kinds = [read(at) for at in kinds.values()]
    if len({array.shape[1:] for array, _ in read_of_kinds}) > 1:
        message = f"column `{name}` has vectors of several widths"
        raise BatchError(message)
    if len({bits_of for _, bits_of in read_of_kinds}) > 1:
        odd = str(next(other for _, other in read_of_kinds if other is not None))
        message = f"column `{name}` has some tensors of {odd.removeprefix('torch.')} and others that are not"
        raise BatchError(message)
    first, bits_of = read_of_kinds[0]
    dtype = np.result_type(*(array.dtype for array, _ in read_of_kinds))
    empty = first[:0].astype(dtype)

    if all(type(it) is np.ndarray and (it.dtype, it.ndim) == (dtype, empty.ndim) for it in each):
        arrays: list[Array] = each  # type: ignore[assignment]  # the line above has looked
        return TokenColumn(lambda sequences: [arrays[it] for it in sequences], lengths, empty, bits_of)

    def values(sequence: int) -> Array:
        return read(sequence)[0].astype(dtype, copy=False) if lengths[sequence] else empty

    return TokenColumn(lambda sequences: [values(it) for it in sequences], lengths, empty, bits_of)


def _of_arrow(name: str, values: object) -> TokenColumn | SequenceColumn:
    """A column of a table of pyarrow."""
    import pyarrow as pa  # noqa: PLC0415  slow to import

    array: Any = values  # type: ignore[explicit-any]  # any array
    if isinstance(values, pa.ChunkedArray):
        if values.num_chunks > 1:
            return _of_chunks([_of_arrow(name, chunk) for chunk in values.chunks])
        array = values.chunk(0) if values.num_chunks else pa.array([], values.type)
    if array.null_count:
        message = f"column `{name}` has nulls"
        raise BatchError(message)
    if pa.types.is_null(array.type):
        return _of_nothing()
    if pa.types.is_fixed_size_list(array.type):
        lengths = np.full(len(array), array.type.list_size, dtype=np.int64)
    elif pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        lengths = np.diff(array.offsets.to_numpy()).astype(np.int64)
    else:
        return SequenceColumn(_arrow_numbers(name, array))
    return _of_flat(_arrow_numbers(name, array.flatten()), lengths)


def _of_chunks(chunks: list[TokenColumn | SequenceColumn]) -> TokenColumn | SequenceColumn:
    """A column of the columns of the chunks of a table, whose values stay where they are."""
    of_tokens = [chunk for chunk in chunks if isinstance(chunk, TokenColumn)]
    if not of_tokens:
        return SequenceColumn(np.concatenate([it.values for it in chunks if isinstance(it, SequenceColumn)]))
    lengths = np.concatenate([chunk.lengths for chunk in of_tokens])
    chunk_starts = np.cumsum([0, *(len(chunk.lengths) for chunk in of_tokens)])

    def of(sequences: list[int]) -> list[Array]:
        chunk_of_each = np.searchsorted(chunk_starts, sequences, side="right") - 1
        within = (np.asarray(sequences, dtype=np.int64) - chunk_starts[chunk_of_each]).tolist()
        return [
            of_tokens[chunk].of([at])[0] for chunk, at in zip(chunk_of_each.tolist(), within, strict=True)
        ]

    return TokenColumn(of, lengths, of_tokens[0].empty)


def _arrow_numbers(name: str, array: Any) -> Array:  # type: ignore[explicit-any]  # noqa: ANN401  any array of pyarrow
    """The numbers of an array of pyarrow; vectors of one width are rows."""
    import pyarrow as pa  # noqa: PLC0415  slow to import

    if array.null_count:
        message = f"column `{name}` has nulls"
        raise BatchError(message)
    if pa.types.is_fixed_size_list(array.type):
        inner = _arrow_numbers(name, array.flatten())
        return inner.reshape(len(array), array.type.list_size, *inner.shape[1:])
    return _array(name, array.to_numpy(zero_copy_only=False))[0]


def _array(name: str, values: object) -> tuple[Array, object]:
    """Numbers as an array, without a copy where that is possible, and the type of PyTorch whose bits they are."""
    bits_of = None
    try:
        if hasattr(values, "detach"):
            values, bits_of = _of_tensor(values)
        array = np.asarray(values)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "biufc" or not array.ndim:
        message = f"column `{name}` must hold numbers, not `{shown(values)}`"
        raise OptionTypeError(message, "columns")
    if array.dtype.char in "gG":
        message = (
            f"column `{name}` holds numbers of {array.dtype}, which tensors have not; convert it to float64"
        )
        raise OptionTypeError(message, "columns")
    return array.astype(array.dtype.newbyteorder("="), copy=False), bits_of


def _of_tensor(tensor: Any) -> tuple[object, object]:  # type: ignore[explicit-any]  # noqa: ANN401  torch is not imported here
    """A tensor as an array, or its bits and its type where numpy has no such type."""
    try:
        return tensor.numpy(force=True), None
    except TypeError:
        whole_numbers = getattr(sys.modules["torch"], f"int{8 * tensor.element_size()}")
        return tensor.detach().contiguous().view(whole_numbers).numpy(force=True), tensor.dtype
