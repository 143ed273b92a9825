"""`Row` and `columns_of`: the columns of packed rows, read in place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from fastpack._fastpack import COMPUTED_COLUMNS, CompactRows
from fastpack.errors import BatchError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

__all__ = ["Columns", "Row", "columns_of"]

Values: TypeAlias = "npt.NDArray[np.int64 | np.float32]"

Columns: TypeAlias = "Mapping[str, _Column | _StructColumn | _ComputedColumn]"
"""The columns of a record batch by their names."""


class Row(Mapping[str, object]):
    """A packed row: its columns as arrays over the memory of the table, which are read-only.

    It is not a `dict`, so a `Trainer` removes no columns from it.
    """

    __slots__ = ("_at", "_columns")

    def __init__(self, columns: Columns, at: int) -> None:
        """Takes the columns, and the index of the row in them."""
        self._columns = columns
        self._at = at

    def __getitem__(self, name: str) -> object:
        """The value of a column: an array, a number, or a list of structs as `dict`."""
        return self._columns[name].of(self._at)

    def __contains__(self, name: object) -> bool:
        """True for the name of a column; its values are not computed."""
        return name in self._columns

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"Row({dict(self)!r})"


class _Column:
    """A column of a record batch: numbers, or lists of numbers with contiguous values."""

    __slots__ = ("_offsets", "_values")

    def __init__(self, name: str, column: pa.Array[pa.Scalar[pa.DataType]]) -> None:
        offsets = column.offsets if isinstance(column, (pa.ListArray, pa.LargeListArray)) else None
        values = column.values if isinstance(column, (pa.ListArray, pa.LargeListArray)) else column
        if column.null_count or values.null_count or not pa.types.is_primitive(values.type):
            message = (
                f"column `{name}` is {column.type} with {column.null_count:,} nulls; packed rows have numbers, or "
                "lists of numbers, and no nulls: leave the column out with `columns`"
            )
            raise BatchError(message)
        self._offsets: Values | None = None if offsets is None else offsets.to_numpy()
        self._values: Values = values.to_numpy()

    def of(self, at: int) -> object:
        if self._offsets is None:
            return self._values[at]
        return self._values[self._offsets[at] : self._offsets[at + 1]]


class _StructColumn:
    """A column of lists of structs, such as the pictures of rows: a `dict` for each."""

    __slots__ = ("_values",)

    def __init__(self, column: pa.Array[pa.Scalar[pa.DataType]]) -> None:
        self._values = column

    def of(self, at: int) -> object:
        return self._values[at].as_py()


class _ComputedColumn:
    """A full-layout column of rows in the compact layout, computed when a row is read."""

    __slots__ = ("_name", "_rows")

    def __init__(self, name: str, rows: CompactRows) -> None:
        self._name, self._rows = name, rows

    def of(self, at: int) -> object:
        return self._rows.values(self._name, at)


def columns_of(batch: pa.RecordBatch, shown: Sequence[str] | None) -> Columns:
    """The columns of a batch; `shown` names the full-layout columns of rows in the compact layout."""
    if shown is None:
        return {name: _stored(name, batch) for name in batch.schema.names}
    rows = CompactRows(batch)
    return {
        name: _ComputedColumn(name, rows) if name in COMPUTED_COLUMNS else _stored(name, batch)
        for name in shown
    }


def _stored(name: str, batch: pa.RecordBatch) -> _Column | _StructColumn:
    """A column as a batch holds it."""
    column = batch.column(name)
    is_list = isinstance(column, (pa.ListArray, pa.LargeListArray))
    return (
        _StructColumn(column)
        if is_list and pa.types.is_struct(column.type.value_type)
        else _Column(name, column)
    )
