"""`pack_dataset`: TRL's function of this name, over whole data sets at once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from fastpack.arguments.checks import check_choice, check_type, shown, whole_number
from fastpack.errors import OptionError, OptionTypeError

if TYPE_CHECKING:
    import numpy.typing as npt
    from datasets import Dataset, DatasetDict, IterableDataset, IterableDatasetDict

    AnyDataset = TypeVar("AnyDataset", Dataset, IterableDataset, DatasetDict, IterableDatasetDict)

__all__ = ["PackingStrategy", "pack_dataset"]

PackingStrategy: TypeAlias = Literal["bfd", "bfd_split", "wrapped"]

_LENGTHS: Final = "seq_lengths"

_BATCH_BYTES: Final = 4 << 30
"""The most bytes of a data set that are packed at once: their offsets fit 32 bits, and they are in memory twice."""

_Lists: TypeAlias = "pa.ListArray[pa.Scalar[pa.DataType]] | pa.LargeListArray[pa.Scalar[pa.DataType]]"


def pack_dataset(
    dataset: AnyDataset,
    seq_length: int,
    strategy: PackingStrategy = "bfd",
    map_kwargs: Mapping[str, object] | None = None,
) -> AnyDataset:
    """Packs tokenized documents as TRL's `pack_dataset` does, but all of a `Dataset` at once instead of each thousand.

    So rows are fewer and fuller. With `map_kwargs={"batch_size": 1000}` they are those of TRL. One assignment makes a
    trainer use it: `trl.trainer.sft_trainer.pack_dataset = fastpack.hf.pack_dataset`.

    Args:
        dataset: A `Dataset`, `IterableDataset`, or a dict of either. Columns of lists have a value for each token; other
            columns a value for each document, and become lists of a row's documents.
        seq_length: Tokens that a row holds at most.
        strategy: `bfd` truncates what is longer, `bfd_split` splits it, `wrapped` lays documents end to end and cuts
            where a row is full.
        map_kwargs: Arguments for `map`, such as `num_proc` and `batch_size`.

    Returns:
        Rows of the same columns and format, and `seq_lengths` unless they are wrapped. Empty documents are left out.

    Raises:
        OptionError: The strategy is none of these, `seq_length` no number of tokens, or columns of lists have different lengths.
        OptionTypeError: No column holds lists, or the data set is none. What `map` of `datasets` raises passes unchanged.

    Examples:
        >>> from datasets import Dataset
        >>> from fastpack.hf import pack_dataset
        >>> documents = Dataset.from_dict({"input_ids": [[1, 2, 3], [4, 5, 6, 7], [8]], "file": ["a", "b", "c"]})
        >>> pack_dataset(documents, 4)[:]
        {'input_ids': [[4, 5, 6, 7], [1, 2, 3, 8]], 'file': [['b'], ['a', 'c']], 'seq_lengths': [[4], [3, 1]]}
    """
    check_choice("strategy", strategy, PackingStrategy)
    check_type("seq_length", seq_length, int, "a number of tokens")
    seq_length = whole_number("seq_length", seq_length, 1)
    check_type("map_kwargs", map_kwargs, (Mapping, type(None)), "a dict of arguments for `map`")
    if not isinstance(dataset, dict) and not (hasattr(dataset, "map") and hasattr(dataset, "with_format")):
        message = f"must be a data set of `datasets`, or a dict of them, not `{shown(dataset)}`"
        raise OptionTypeError(message, "dataset")
    if isinstance(dataset, dict):
        splits = {
            name: pack_dataset(split, seq_length, strategy, map_kwargs) for name, split in dataset.items()
        }
        return type(dataset)(splits)
    unknown = [name for name in map_kwargs or () if name not in signature(dataset.map).parameters]
    if unknown:
        message = f"has `{shown(unknown[0])}`, which `map` of the data set does not take"
        raise OptionError(message, "map_kwargs")
    format = _format_of(dataset, () if strategy == "wrapped" else (_LENGTHS,))  # noqa: A001  as `with_format` calls it
    options = {**_batches_of(dataset), **(map_kwargs or {})}
    pack = _wrapped if strategy == "wrapped" else partial(_best_fit, split=strategy == "bfd_split")
    # `datasets` gives a module-level function a stable fingerprint, so its cache is used.
    packed = dataset.with_format("arrow").map(partial(pack, seq_length=seq_length), batched=True, **options)
    return packed.with_format(**format)


def _format_of(dataset: Dataset | IterableDataset, added: tuple[str, ...]) -> dict[str, object]:
    """The arguments of `with_format` that keep the format of a data set and show more columns."""
    if not hasattr(dataset, "format"):
        return {"type": getattr(getattr(dataset, "_formatting", None), "format_type", None)}
    whole = dict(dataset.format)
    return {**whole.pop("format_kwargs", {}), **whole, "columns": [*whole["columns"], *added]}


def _batches_of(dataset: Dataset | IterableDataset) -> dict[str, object]:
    """The batch arguments of `map`: the whole data set if it is not too large; the defaults for a stream."""
    data = getattr(dataset, "data", None)
    if data is None:
        return {}
    parts = -(-data.nbytes // _BATCH_BYTES) or 1
    return {"batch_size": -(-len(dataset) // parts) or 1}


def _best_fit(table: pa.Table, seq_length: int, *, split: bool) -> pa.Table:
    """Packs documents by best fit, the longest first."""
    from fastpack.api import plan  # noqa: PLC0415  loads the native module

    lists, lengths = _checked(table)
    kept = np.flatnonzero(lengths > 0)
    document_starts = np.cumsum(lengths) - lengths
    overlong: Literal["split", "truncate"] = "split" if split else "truncate"
    found = plan(lengths[kept], max_length=seq_length, strategy="best_fit", overlong=overlong, order="input")
    documents, starts, sizes = (
        kept[found.members],
        found.starts.astype(np.int64),
        found.lengths.astype(np.int64),
    )
    rows = np.repeat(np.arange(len(found)), np.diff(found.offsets))
    # TRL's order: pieces by length, and rows by their longest piece; equal lengths keep the input order.
    order = np.lexsort((starts, documents, -sizes))
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    first = np.full(len(found), len(order))
    np.minimum.at(first, rows, rank)
    order = np.lexsort((rank, first[rows]))
    documents, starts, sizes = documents[order], starts[order], sizes[order]
    pieces = np.diff(found.offsets)[np.argsort(first)]
    ends = np.cumsum(sizes)
    tokens = np.repeat(document_starts[documents] + starts - (ends - sizes), sizes) + np.arange(
        ends[-1] if len(ends) else 0
    )
    row_ends = np.concatenate([[0], np.cumsum(pieces)])
    token_ends = np.concatenate([[0], ends])[row_ends]
    columns = {
        name: _relisted(lists[name], tokens, token_ends)
        if name in lists
        else pa.ListArray.from_arrays(pa.array(row_ends, pa.int32()), _whole(table, name).take(documents))
        for name in table.column_names
    }
    columns[_LENGTHS] = pa.ListArray.from_arrays(pa.array(row_ends, pa.int32()), pa.array(sizes, pa.int32()))
    return pa.table(columns)


def _wrapped(table: pa.Table, seq_length: int) -> pa.Table:
    """Concatenates documents, and cuts where a row is full."""
    lists, lengths = _checked(table)
    if len(lists) != table.num_columns:
        others = ", ".join(f"`{name}`" for name in table.column_names if name not in lists)
        message = (
            f'strategy="wrapped" cuts documents, which {others} has one value for each of; remove the column'
        )
        raise OptionTypeError(message, "strategy")
    total = int(lengths.sum())
    ends = np.append(np.arange(0, total, seq_length), total)
    return pa.table({name: _relisted(column, None, ends) for name, column in lists.items()})


def _checked(table: pa.Table) -> tuple[dict[str, _Lists], npt.NDArray[np.int64]]:
    """The columns of lists, and the number of values of each document, which is the same in all."""
    whole = {name: _whole(table, name) for name in table.column_names}
    lists = {
        name: column
        for name, column in whole.items()
        if isinstance(column, (pa.ListArray, pa.LargeListArray))
    }
    if not lists:
        has = ", ".join(f"`{name}` ({column.type})" for name, column in whole.items())
        message = (
            f"packing needs a column of lists, such as `input_ids`; the data set has {has or 'no columns'}"
        )
        raise OptionTypeError(message, "dataset")
    first, *others = lists
    lengths = _lengths_of(lists[first])
    for name in others:
        if not np.array_equal(_lengths_of(lists[name]), lengths):
            row = int((_lengths_of(lists[name]) != lengths).argmax())
            message = (
                f"row {row}: column `{name}` has {_lengths_of(lists[name])[row]:,} values, but `{first}` {lengths[row]:,}; "
                "all columns of lists must have the same length"
            )
            raise OptionError(message, "dataset")
    return lists, lengths


def _whole(table: pa.Table, name: str) -> pa.Array[pa.Scalar[pa.DataType]]:
    """A column as one array."""
    column = table[name].combine_chunks()
    if isinstance(column, (pa.ListArray, pa.LargeListArray)) and column.null_count:
        message = f"column `{name}` has no list in {column.null_count:,} rows; filter these out, or give empty lists"
        raise OptionError(message, "dataset")
    return column


def _lengths_of(column: _Lists) -> npt.NDArray[np.int64]:
    return np.diff(column.offsets.to_numpy()).astype(np.int64)


def _relisted(
    column: _Lists, tokens: npt.NDArray[np.int64] | None, ends: npt.NDArray[np.int64]
) -> pa.Array[pa.Scalar[pa.DataType]]:
    """Divides the values of a list column into other lists: all values, or chosen ones in an order."""
    values = column.flatten()
    if tokens is not None:
        values = values.take(tokens)
    if isinstance(column, pa.ListArray):
        divided: pa.Array[pa.Scalar[pa.DataType]] = pa.ListArray.from_arrays(
            pa.array(ends, pa.int32()), values
        )
    else:
        divided = pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), values)
    return divided.cast(column.type)
