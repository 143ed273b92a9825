"""Packs a table together with further columns: values of each token, of each document or of each row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias, get_args

from fastpack.errors import OptionError
from fastpack.options.native import value_in
from fastpack.options.objective import objective_of
from fastpack.options.option import PACKED_OBJECTIVES
from fastpack.options.records import Reading
from fastpack.types import Column, Splits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from fastpack.report.report import Report

    KeywordArguments: TypeAlias = "Mapping[str, Any]"  # type: ignore[explicit-any]  # as the calls have it
    Numbers: TypeAlias = "npt.NDArray[np.int64]"
    AnyArray: TypeAlias = "pa.Array[pa.Scalar[pa.DataType]]"
    AnyColumn: TypeAlias = "pa.ChunkedArray[pa.Scalar[pa.DataType]] | AnyArray"

__all__ = ["carried_columns", "pack_carrying"]

_OURS: Final = frozenset(get_args(Column))

_PLACES: Final = ("seq_lengths", "unpadded_lengths", "source_row", "source_start")
"""The columns that locate the tokens of a row in the records of the table."""

_PLACES_OF_RECORDS: Final = ("source_row",)
"""The column that locates the record of a row that holds one document."""


def carried_columns(arguments: KeywordArguments) -> list[str]:
    """The names among `columns` that are columns of the table rather than of packed rows."""
    from fastpack.arguments.checks import is_series  # noqa: PLC0415  loads what few calls need

    columns = arguments["columns"]
    if not is_series(columns):
        return []
    return [name for name in columns if isinstance(name, str) and name not in _OURS]


def pack_carrying(
    arguments: KeywordArguments,
    carried: list[str],
    pack: Callable[[KeywordArguments], pa.Table | Splits | Report],
) -> pa.Table | Splits | Report:
    """Packs a table whose rows carry further columns.

    Raises:
        OptionError: The table has no such column, lists do not fit the tokens, or the rows go to a folder.
    """
    table = _whole(arguments["table"])
    for name in carried:
        if name not in table.column_names:
            has = ", ".join(
                f"`{column}`" for column in dict.fromkeys([*get_args(Column), *table.column_names])
            )
            message = f"neither packed rows nor the table have `{name}`; they have {has}"
            raise OptionError(message, "columns")
    if arguments.get("output") is not None:
        message = (
            f"`{carried[0]}` is a column of the table, which rows in memory carry alone; leave "
            "out `output`, and write the table that is returned"
        )
        raise OptionError(message, "columns")
    columns: list[str] = list(arguments["columns"])
    ours = [name for name in columns if name in _OURS]
    is_packed = objective_of(arguments).kind in PACKED_OBJECTIVES
    places = _PLACES if is_packed else _PLACES_OF_RECORDS
    packed = pack(
        {**arguments, "table": table, "columns": [*ours, *(name for name in places if name not in ours)]}
    )
    if is_packed:
        lists = {name: _source(table, name, arguments) for name in carried}

        def carrying(rows: pa.Table) -> pa.Table:
            return _carrying(rows, lists, columns)

    else:

        def carrying(rows: pa.Table) -> pa.Table:
            return _carrying_records(rows, table, columns)

    if isinstance(packed, Splits):
        return Splits(carrying(packed.train), carrying(packed.validation))
    return carrying(packed)  # type: ignore[arg-type]  # without `output` it is a table


def _whole(table: object) -> pa.Table:
    """The input as a table that can be read twice."""
    import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing

    from fastpack.records.memory import record_batches  # noqa: PLC0415  loads the native module

    if isinstance(table, pa.Table):
        return table
    batches = []
    for batch in record_batches(table):  # type: ignore[arg-type]  # it refuses what is no table
        if isinstance(batch, str):
            raise OptionError(str(batch), "table")
        batches.append(batch)
    return pa.Table.from_batches(batches)


def _source(table: pa.Table, name: str, arguments: KeywordArguments) -> AnyArray:
    """A column of the table as one array; lists must have a value for each id."""
    import numpy as np  # noqa: PLC0415  importing fastpack is to cost nothing
    import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing
    import pyarrow.compute as pc  # noqa: PLC0415

    column = table[name].combine_chunks()
    if pa.types.is_fixed_size_list(column.type):
        column = column.cast(pa.list_(column.type.value_type))
    if not isinstance(column, (pa.ListArray, pa.LargeListArray)):
        return column
    field = (value_in(arguments, Reading).fields or {}).get("input_ids", "input_ids")
    if field not in table.column_names or "attention_mask" in table.column_names:
        message = (
            f"`{name}` holds lists, which are carried where the records are ids without an "
            f"`attention_mask`, a value for each; the table has {', '.join(f'`{each}`' for each in table.column_names)}"
        )
        raise OptionError(message, "columns")
    sizes, wanted = (
        pc.list_value_length(each).fill_null(-1).to_numpy(zero_copy_only=False)
        for each in (column, table[field].combine_chunks())
    )
    if not np.array_equal(sizes, wanted):
        row = int((sizes != wanted).argmax())
        message = (
            f"`{name}` has {sizes[row]} values in row {row + 1} of the table, but `{field}` {wanted[row]}"
        )
        raise OptionError(message, "columns")
    return column


def _carrying(rows: pa.Table, sources: Mapping[str, AnyArray], columns: list[str]) -> pa.Table:
    """Adds the further columns to packed rows."""
    import numpy as np  # noqa: PLC0415  importing fastpack is to cost nothing
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    found = [rows[name].combine_chunks() for name in _PLACES]
    lengths, unpadded, records, starts = (pc.list_flatten(each).to_numpy().astype(np.int64) for each in found)
    documents = np.append(0, np.cumsum(pc.list_value_length(found[0]).to_numpy(), dtype=np.int64))
    tokens = np.append(0, lengths.cumsum())[documents]
    combined: dict[str, AnyColumn] = {}
    for name in columns:
        column = sources.get(name)
        if column is None:
            combined[name] = rows[name]
        elif isinstance(column, (pa.ListArray, pa.LargeListArray)):
            # The index of each token's value: the index of its record's first value, plus its place in the record.
            first = column.offsets.to_numpy().astype(np.int64)[np.maximum(records - 1, 0)] + starts
            places = np.arange(lengths.sum()) - np.repeat(lengths.cumsum() - lengths, lengths)
            taken = places + np.repeat(first, lengths), places >= np.repeat(unpadded, lengths)
            combined[name] = _lists(column.values, *taken, tokens)
        else:
            combined[name] = _lists(column, records - 1, records < 0, documents)
    return _like(rows, combined)


def _carrying_records(rows: pa.Table, table: pa.Table, columns: list[str]) -> pa.Table:
    """Adds the further columns to rows that hold one document each: the value of its record, of any type."""
    import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing
    import pyarrow.compute as pc  # noqa: PLC0415

    records = pc.subtract(pc.list_flatten(rows["source_row"].combine_chunks()), pa.scalar(1, pa.int64()))
    return _like(rows, {name: rows[name] if name in _OURS else table[name].take(records) for name in columns})


def _like(rows: pa.Table, columns: Mapping[str, AnyColumn]) -> pa.Table:
    """A table of some columns with the report of `rows`."""
    import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing

    kept = {key: value for key, value in (rows.schema.metadata or {}).items() if key != b"huggingface"}
    return pa.table(dict(columns)).replace_schema_metadata(kept)


def _lists(values: AnyArray, places: Numbers, padding: npt.NDArray[np.bool_], offsets: Numbers) -> AnyArray:
    """Lists of the values at `places`, null at padding."""
    import numpy as np  # noqa: PLC0415  importing fastpack is to cost nothing
    import pyarrow as pa  # noqa: PLC0415

    indices = pa.Array.from_pandas(np.where(padding, 0, places), mask=padding, type=pa.int64())
    ends: pa.Int32Array = pa.array(offsets.tolist(), pa.int32())
    lists: AnyArray = pa.ListArray.from_arrays(ends, values.take(indices))
    return lists
