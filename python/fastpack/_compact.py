"""Rows in the compact layout: the columns of the full layout are made of ids, runs of labels and lengths.

A file in this layout has `input_ids` and `seq_lengths`; `label_spans`, the first place of each run of labels in its row
and the place behind it (`shifted_label_spans` where a label is the token behind its place); `label_weights`, the weight of
each run; and the other columns of the rows as they are. Its metadata names the columns of the rows.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from fastpack._types import NOT_TRAINED
from fastpack.errors import FastpackError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    Numbers = npt.NDArray[np.int64]
    Values = npt.NDArray[np.int64] | npt.NDArray[np.int32] | npt.NDArray[np.float32]

__all__ = [
    "COMPACT_COLUMNS",
    "CompactRows",
    "expanded",
    "full_row",
    "is_compact",
    "shown_columns",
    "with_columns",
]

_COMPACT: Final = b"fastpack.compact"
"""The key of the metadata that lists the columns of the full layout."""

_SPANS: Final = ("label_spans", "shifted_label_spans")
"""The names of the runs of labels: unshifted and shifted."""

_WEIGHTS: Final = "label_weights"

COMPACT_COLUMNS: Final = ("input_ids", "seq_lengths", *_SPANS, _WEIGHTS)
"""The columns of which those of the full layout are made."""

_MADE: Final = ("input_ids", "labels", "position_ids", "loss_weights", "document_ids")
"""The full-layout columns with a value for each token. `CompactRows` computes all of them but `input_ids`."""


def is_compact(columns: Mapping[str, object]) -> bool:
    """Whether a row, or the columns of a table, are in the compact layout: they have runs of labels."""
    return any(name in columns for name in _SPANS)


def shown_columns(schema: pa.Schema) -> list[str] | None:
    """The full-layout columns of rows in the compact layout; `None` for rows in the full layout."""
    said = (schema.metadata or {}).get(_COMPACT)
    if said is not None:
        return [str(name) for name in json.loads(said)]
    names = schema.names
    if not is_compact(dict.fromkeys(names)):
        return None
    # `datasets` has dropped the metadata.
    labels = ("input_ids", "labels", "position_ids", "seq_lengths")
    weights = ("loss_weights",) if _WEIGHTS in names else ()
    others = (name for name in names if name not in {*labels, *_SPANS, _WEIGHTS})
    return [*labels, *weights, *others]


def with_columns(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Sets the full-layout columns of a table in the compact layout."""
    return table.replace_schema_metadata({_COMPACT: json.dumps(list(columns))})


def expanded(table: pa.Table, columns: Sequence[str] | None = None) -> pa.Table:
    """A table in the full layout, with all columns or some: a table in the compact layout is expanded in memory.

    Raises:
        FastpackError: Runs of labels or lengths contradict the tokens.
    """
    shown = shown_columns(table.schema)
    if shown is None:
        return table if columns is None else table.select(list(columns))
    names = shown if columns is None else list(columns)
    made: list[list[pa.Array[pa.Scalar[pa.DataType]]]] = [[] for _ in names]
    rows = 0
    for batch in table.to_batches():
        block = CompactRows({name: batch.column(name) for name in batch.schema.names}, rows)
        for chunks, name in zip(made, names, strict=True):
            chunks.append(block.array(name))
        rows += batch.num_rows
    arrays = [
        pa.chunked_array(chunks or [_without_rows(table, name)])
        for chunks, name in zip(made, names, strict=True)
    ]
    return pa.table(dict(zip(names, arrays, strict=True)))


class CompactRows:
    """Consecutive rows in the compact layout, whose full-layout columns are computed on demand.

    Attributes:
        rows: The number of rows.
    """

    __slots__ = ("_arrays", "_lists", "_spans", "rows")

    def __init__(self, columns: Mapping[str, pa.Array[pa.Scalar[pa.DataType]]], first_row: int = 0) -> None:
        """Checks that runs and lengths fit the tokens; messages count rows from `first_row`.

        Raises:
            FastpackError: They contradict the tokens, or a column is missing, or holds nulls.
        """
        for name in ("input_ids", "seq_lengths"):
            if not isinstance(columns.get(name), (pa.ListArray, pa.LargeListArray)):
                message = f"no lists in column `{name}`, of which rows in the compact layout are made"
                raise FastpackError(message)
        for name, column in columns.items():
            if column.null_count or (hasattr(column, "values") and column.values.null_count):
                message = f"column `{name}` has nulls, which packed rows have not"
                raise FastpackError(message)
        self._arrays = columns
        self._lists = {
            name: (column.values.to_numpy(), column.offsets.to_numpy())
            for name, column in columns.items()
            if isinstance(column, (pa.ListArray, pa.LargeListArray))
        }
        self._spans = next((name for name in _SPANS if name in columns), None)
        self.rows = len(columns["input_ids"])
        self._check(first_row)

    def array(self, name: str) -> pa.Array[pa.Scalar[pa.DataType]]:
        """A column of all rows, as in the full layout."""
        if name not in _MADE:
            return self._arrays[name]
        values = self._made(name, 0, self.rows)
        offsets = self._lists["input_ids"][1]
        return pa.ListArray.from_arrays(pa.array((offsets - offsets[0]).astype(np.int32)), pa.array(values))

    def value(self, name: str, row: int) -> object:
        """The value of a column in a row: an array, or a number."""
        if name in _MADE:
            return self._made(name, row, row + 1)
        if name in self._lists:
            return self._of(name, row, row + 1)
        return self._arrays[name].to_numpy()[row]

    def _of(self, name: str, start: int, end: int) -> Numbers:
        """The values of a stored list column in the rows from `start` to `end`, concatenated."""
        values, offsets = self._lists[name]
        found: Numbers = values[offsets[start] : offsets[end]]
        return found

    def _made(self, name: str, start: int, end: int) -> Values:
        """Computes the values of a full-layout column in the rows from `start` to `end`, concatenated."""
        if name == "input_ids":
            return self._of(name, start, end).astype(np.int32)
        if name == "position_ids":
            return positions_of(self._of("seq_lengths", start, end))
        if name == "document_ids":
            lengths, unpadded = (self._of(each, start, end) for each in ("seq_lengths", "unpadded_lengths"))
            return document_ids_of(lengths, unpadded, self._sizes("seq_lengths", start, end))
        sizes = self._sizes("input_ids", start, end)
        spans = self._places(start, end, sizes)
        if name == "labels":
            ids = self._of("input_ids", start, end)
            return labels_of(ids, spans, shifted=self._spans == _SPANS[1])
        return weights_of(spans, self._of(_WEIGHTS, start, end), int(sizes.sum()))

    def _sizes(self, name: str, start: int, end: int) -> npt.NDArray[np.int64]:
        """The number of values of each row."""
        return np.diff(self._lists[name][1][start : end + 1]).astype(np.int64)

    def _places(self, start: int, end: int, sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The label runs of the rows from `start` to `end`, as offsets into the tokens of these rows."""
        if self._spans is None:
            message = "no column `label_spans`, of which labels are made"
            raise FastpackError(message)
        spans = self._of(self._spans, start, end).astype(np.int64)
        if end - start == 1:
            return spans
        before = sizes.cumsum() - sizes
        return spans + np.repeat(before, self._sizes(self._spans, start, end))

    def _check(self, first_row: int) -> None:
        sizes = self._sizes("input_ids", 0, self.rows)
        lengths = self._of("seq_lengths", 0, self.rows).astype(np.int64)
        ends = np.append(0, lengths.cumsum())
        offsets = self._lists["seq_lengths"][1].astype(np.int64)
        totals = np.diff(ends[offsets - offsets[0]])
        self._refuse(
            totals != sizes,
            first_row,
            lambda row: (
                f"column `seq_lengths` comes to {totals[row]:,}, but `input_ids` has {sizes[row]:,} tokens"
            ),
        )
        if self._spans is None:
            return
        counts = self._sizes(self._spans, 0, self.rows)
        odd = counts % 2 != 0
        self._refuse(odd, first_row, lambda _: f"column `{self._spans}` has a run without an end")
        # Each run begins after the end of the run before it, and the last run ends inside the row.
        spans = self._of(self._spans, 0, self.rows).astype(np.int64)
        starts = np.repeat(counts.cumsum() - counts, counts)
        inside = np.arange(len(spans)) != starts
        before = np.where(inside, np.append(0, spans[:-1]), 0)
        wrong = (spans < before) | (spans > np.repeat(sizes, counts))
        broken = np.zeros(self.rows, bool)
        broken[np.repeat(np.arange(self.rows), counts)[wrong]] = True
        self._refuse(
            broken, first_row, lambda _: f"column `{self._spans}` has runs that overlap or leave the row"
        )
        if _WEIGHTS in self._lists:
            weights = self._sizes(_WEIGHTS, 0, self.rows)
            self._refuse(
                2 * weights != counts,
                first_row,
                lambda row: f"column `{_WEIGHTS}` has {weights[row]} values for {counts[row] // 2} runs",
            )

    @staticmethod
    def _refuse(broken: npt.NDArray[np.bool_], first_row: int, says: Callable[[int], str]) -> None:
        if broken.any():
            row = int(broken.argmax())
            message = f"row {first_row + row}: {says(row)}"
            raise FastpackError(message)


def full_row(row: Mapping[str, object]) -> Mapping[str, object]:
    """Expands a row in the compact layout: adds labels, positions, and weights if it has any.

    Raises:
        FastpackError: Runs of labels overlap or leave the row.
    """
    spans = next((name for name in _SPANS if name in row), None)
    if spans is None:
        return row
    ids, places = np.asarray(row["input_ids"]), np.asarray(row[spans], np.int64)
    made = {name: value for name, value in row.items() if name not in {spans, _WEIGHTS}}
    made["labels"] = labels_of(ids, places, shifted=spans == _SPANS[1])
    if _WEIGHTS in row:
        made["loss_weights"] = weights_of(places, np.asarray(row[_WEIGHTS], np.float32), len(ids))
    return {**made, "position_ids": positions_of(np.asarray(row["seq_lengths"]))}


def labels_of(ids: Numbers, spans: npt.NDArray[np.int64], *, shifted: bool) -> npt.NDArray[np.int32]:
    """The labels of tokens: inside runs the token itself, or if shifted the next token; -100 elsewhere."""
    values = np.zeros(len(spans) + 1, bool)
    values[1::2] = True
    labelled = np.repeat(values, _stretches(spans, len(ids)))
    labels = np.full(len(ids), NOT_TRAINED, np.int32)
    # No run reaches the last place of shifted labels.
    targets = np.append(ids[1:], ids[:1]) if shifted else ids
    np.copyto(labels, targets, where=labelled, casting="unsafe")
    return labels


def weights_of(spans: npt.NDArray[np.int64], weights: Numbers, tokens: int) -> npt.NDArray[np.float32]:
    """The loss weight of each token: the weight of its label run, and 0 outside of runs."""
    if 2 * len(weights) != len(spans):
        message = f"column `{_WEIGHTS}` has {len(weights)} values for {len(spans) // 2} runs"
        raise FastpackError(message)
    values = np.zeros(len(spans) + 1, np.float32)
    values[1::2] = weights
    return np.repeat(values, _stretches(spans, tokens))


def _stretches(spans: npt.NDArray[np.int64], tokens: int) -> npt.NDArray[np.int64]:
    """The lengths of the stretches outside and inside of runs, alternating."""
    stretches = np.diff(spans, prepend=0, append=tokens)
    if len(spans) % 2 or (stretches < 0).any():
        message = f"runs of labels overlap, or leave a row of {tokens:,} tokens"
        raise FastpackError(message)
    return stretches


def positions_of(lengths: Numbers) -> npt.NDArray[np.int32]:
    """The position of each token in its document, from 0."""
    sizes = lengths.astype(np.int64)
    starts = sizes.cumsum() - sizes
    positions: npt.NDArray[np.int64] = np.arange(sizes.sum()) - np.repeat(starts, sizes)
    return positions.astype(np.int32)


def document_ids_of(
    lengths: Numbers, unpadded: Numbers, documents_of_rows: npt.NDArray[np.int64]
) -> npt.NDArray[np.int32]:
    """The number of each token's document in its row, from 1; 0 for padding."""
    counts = (unpadded > 0).cumsum()
    before = np.append(0, counts)[documents_of_rows.cumsum() - documents_of_rows]
    numbers = counts - np.repeat(before, documents_of_rows)
    values = np.zeros(2 * len(lengths), np.int32)
    values[::2] = numbers
    sizes = np.empty(2 * len(lengths), np.int64)
    sizes[::2], sizes[1::2] = unpadded, lengths.astype(np.int64) - unpadded
    return np.repeat(values, sizes)


def _without_rows(table: pa.Table, name: str) -> pa.Array[pa.Scalar[pa.DataType]]:
    """A column of a table without rows."""
    number: pa.DataType = pa.float32() if name == "loss_weights" else pa.int32()
    return pa.array([], pa.list_(number) if name in _MADE else table.schema.field(name).type)
