"""What a table, a data set or an iterable in memory is to the core."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from fastpack._checks import is_series
from fastpack._fastpack import Records
from fastpack.errors import OptionError, OptionTypeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

    from fastpack._types import ArrowTable, HubDataset, JsonValue

__all__ = ["record_batches", "rows_of", "table_of", "values_of"]

_ROWS = 1000
"""Rows of a data set that are taken at once; as many as `datasets` itself takes."""


def rows_of(table: ArrowTable) -> Records:
    """The records that are the rows of a table."""
    import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing

    if isinstance(table, pa.Table):
        return Records.table(table)
    return Records.batches(record_batches(table), _fingerprint(table))


def table_of(table: ArrowTable) -> pa.Table:
    """The whole table."""
    import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing

    if isinstance(table, pa.Table):
        return table
    batches = list(record_batches(table))
    return pa.Table.from_batches(batches) if batches else pa.table({})


def values_of(records: Iterable[Mapping[str, JsonValue]]) -> Records:
    """The records that an iterable gives."""
    if not is_series(records):
        message = (
            "invalid option `records`: must be an iterable of dicts, not a "
            f"`{type(records).__qualname__}`; `pack_files` reads files, `pack_table` tables"
        )
        raise OptionTypeError(message, "records")
    return Records.values(iter(records))


def record_batches(table: ArrowTable) -> Iterator[pa.RecordBatch]:
    """The batches of anything that hands over Arrow, where they lie."""
    import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing

    if isinstance(table, pa.RecordBatch):
        return iter([table])
    if isinstance(table, pa.Table):
        return iter(table.to_batches())
    if isinstance(table, pa.RecordBatchReader):
        return iter(table)
    datasets = sys.modules.get("datasets")
    if datasets is not None and isinstance(table, datasets.Dataset):
        if table.format["type"] == "custom":
            message = (
                "invalid option `table`: has rows that a function given to `set_transform` makes when they are read; "
                "`pack_records` takes these, and `map=` does the like"
            )
            raise OptionError(message, "table")
        return _selected(table)
    if datasets is not None and isinstance(table, datasets.DatasetDict):
        splits = ", ".join(f'"{name}"' for name in table)
        message = f"invalid option `table`: holds several data sets; take one of {splits}"
        raise OptionError(message, "table")
    if hasattr(table, "__arrow_c_stream__"):
        return iter(_stream(table))
    if hasattr(table, "__arrow_c_array__"):
        return iter([pa.record_batch(table)])
    message = (
        "invalid option `table`: must be a pyarrow.Table, have `__arrow_c_stream__` or be a datasets.Dataset, "
        f"not a `{type(table).__qualname__}`; `pack_records` takes iterables"
    )
    raise OptionTypeError(message, "table")


def _stream(table: ArrowTable) -> pa.RecordBatchReader:
    """What a table hands over by `__arrow_c_stream__`."""
    import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing

    try:
        return pa.RecordBatchReader.from_stream(table)  # type: ignore[arg-type]
    except pa.ArrowInvalid as error:
        message = f"invalid option `table`: has no columns ({error}); name its values, as in `pa.table({{'text': values}})`"
        raise OptionTypeError(message, "table") from error


def _selected(dataset: HubDataset) -> Iterator[pa.RecordBatch]:
    """The rows that a data set selects, in its order."""
    for rows in dataset.with_format("arrow").iter(_ROWS):
        yield from rows.to_batches()


def _fingerprint(table: object) -> str | None:
    """What `datasets` knows a data set by, in this process and in others; other tables that are no `pa.Table` have none."""
    datasets = sys.modules.get("datasets")
    if datasets is not None and isinstance(table, datasets.Dataset):
        return f"datasets:{table._fingerprint}"  # noqa: SLF001  what its own caches go by
    return None
