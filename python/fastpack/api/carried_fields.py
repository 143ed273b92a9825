"""Packs files into rows of one document each, which carry fields of their records: messages, or what a reward needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, get_args

from fastpack.api.carried_columns import carried_columns
from fastpack.arguments.urls import is_url
from fastpack.errors import OptionError
from fastpack.options.objective import objective_of
from fastpack.options.option import PACKED_OBJECTIVES
from fastpack.types import Column, Splits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    import pyarrow as pa

    from fastpack.records.record_files import RecordFiles

    AnyColumn: TypeAlias = "pa.ChunkedArray[pa.Scalar[pa.DataType]] | pa.Array[pa.Scalar[pa.DataType]]"
    KeywordArguments: TypeAlias = "Mapping[str, Any]"  # type: ignore[explicit-any]  # as the calls have it

__all__ = ["carried_fields", "pack_carrying_fields"]

_ENTERED = ("jsonl", "json", "parquet", "arrow")
"""The formats in which a record is found by its number."""


def carried_fields(arguments: KeywordArguments) -> list[str]:
    """The names among `columns` that are fields of records, where rows hold one document each."""
    return [] if objective_of(arguments).kind in PACKED_OBJECTIVES else carried_columns(arguments)


def pack_carrying_fields(
    arguments: KeywordArguments, fields: list[str], pack: Callable[[KeywordArguments], pa.Table | Splits]
) -> pa.Table | Splits:
    """Packs files into rows that carry fields of their records.

    Raises:
        OptionError: No record has such a field, its values are of several types, or records of a file are not found by their number.
    """
    columns: list[str] = list(arguments["columns"])
    ours = [name for name in columns if name not in fields]
    places = [name for name in ("source_file", "source_row") if name not in ours]
    packed = pack({**arguments, "columns": [*ours, *places]})
    if isinstance(packed, Splits):
        return Splits(*(_carrying(rows, fields, columns) for rows in packed))
    return _carrying(packed, fields, columns)


def _carrying(rows: pa.Table, fields: list[str], columns: list[str]) -> pa.Table:
    """The columns of the rows, among them the fields of their records."""
    import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing

    from fastpack.records.record_files import RecordFiles  # noqa: PLC0415  loads numpy
    from fastpack.report.report import Report  # noqa: PLC0415  needed where fields are carried

    report = Report.of(rows)
    for read in report.inputs:
        if read.format not in _ENTERED:
            message = (
                f"`{fields[0]}` is a field of records, which are not found in files of the format `{read.format}`; write them "
                "as JSON Lines without compression, Parquet or Arrow, or leave it out"
            )
            raise OptionError(message, "columns")
    files, sources = RecordFiles(), report.sources
    values: dict[str, list[object]] = {name: [None] * rows.num_rows for name in fields}
    found: set[str] = set()
    places = zip(
        _numbers(rows, "source_file"), _numbers(rows, "source_row"), range(rows.num_rows), strict=True
    )
    # In the order of the files, each part of a file is read once.
    for file, row, at in sorted(places):
        record = _record(files, sources[file], row)
        for name in fields:
            if name in record:
                found.add(name)
                values[name][at] = record[name]
    for name in fields:
        if rows.num_rows and name not in found:
            has = ", ".join(f"`{column}`" for column in get_args(Column))
            message = f"neither packed rows nor the records have `{name}`; packed rows have {has}"
            raise OptionError(message, "columns")
    combined = {name: _column(name, values[name]) if name in values else rows[name] for name in columns}
    kept = {key: value for key, value in (rows.schema.metadata or {}).items() if key != b"huggingface"}
    return pa.table(combined).replace_schema_metadata(kept)


def _column(name: str, values: list[object]) -> AnyColumn:
    """A column of the values of a field."""
    import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing

    try:
        return pa.array(values)  # type: ignore[arg-type]  # the stubs know no values of any type
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        reason = str(error).splitlines()[0]
        message = f"`{name}` has values of several types, which make no column ({reason}); leave it out"
        raise OptionError(message, "columns") from error


def _numbers(rows: pa.Table, name: str) -> list[int]:
    """The only number of each row in a column of lists."""
    return [number for (number,) in rows[name].to_pylist()]  # type: ignore[misc]  # a row of one document has a list of one


def _record(files: RecordFiles, source: str, row: int) -> Mapping[str, object]:
    """A record by its file and number."""
    if is_url(source):
        message = f"names fields of records, which are found in files of the local disk; download `{source}`"
        raise OptionError(message, "columns")
    try:
        found = files.record(Path(source), row)
        record = json.loads(found) if isinstance(found, bytes) else found.to_pylist()[0]
    except ValueError as error:
        message = f"names fields of records, but record {row:,} of `{source}` is not found: {error}; write them as JSON Lines"
        raise OptionError(message, "columns") from error
    if not isinstance(record, dict):
        message = (
            f"names fields of records, but `{source}` is an array of JSON; write its records as JSON Lines"
        )
        raise OptionError(message, "columns")
    return record
