"""Converts tables, data sets and iterables in memory to `Records` of the native module."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from fastpack._fastpack import Records
from fastpack.arguments.checks import is_series, shown
from fastpack.arguments.failures import noted
from fastpack.errors import OptionError, OptionTypeError
from fastpack.records.arrow import array_of, named, refused, sound, stream_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from fastpack.types import ArrowTable, HubDataset, JsonValue

__all__ = ["record_batches", "rows_of", "values_of"]

_ROWS = 1000
"""The rows of one batch of a data set; `datasets` uses the same number by default."""


def rows_of(table: ArrowTable) -> Records:
    """Converts a table to records, one a row."""
    import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing

    if isinstance(table, pa.Table):
        try:
            table.validate()
        except pa.ArrowInvalid as failed:
            raise refused(failed) from failed
        return Records.table(named(table))
    return Records.batches(record_batches(table), _fingerprint(table))


def values_of(records: Iterable[Mapping[str, JsonValue]]) -> Records:
    """Converts an iterable to records, or a sequence that is read by index, such as a map-style `Dataset`."""
    if not is_series(records):
        single = "; put the one record into a list" if isinstance(records, Mapping) else ""
        message = (
            "must be an iterable of dicts, not a "
            f"`{type(records).__qualname__}`{single}; `pack_files` reads files, `pack_table` tables"
        )
        raise OptionTypeError(message, "records")
    if hasattr(type(records), "__len__") and not hasattr(type(records), "__iter__"):
        # Some of these sequences raise no IndexError at their end, so `iter` would not stop.
        return Records.values(records[number] for number in range(len(records)))  # type: ignore[index,arg-type]
    with noted("while fastpack read the records"):
        return Records.values(iter(records))


def record_batches(table: ArrowTable) -> Iterator[pa.RecordBatch | str]:
    """Yields the Arrow batches of an object, without a copy; for an unreadable one, a message."""
    import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing

    if isinstance(table, pa.RecordBatch):
        return sound([named(table)])
    if isinstance(table, pa.Table):
        return sound(named(table).to_batches())
    if isinstance(table, pa.RecordBatchReader):
        return sound(named(table))
    datasets = sys.modules.get("datasets")
    if datasets is not None and isinstance(table, datasets.Dataset):
        if table.format["type"] == "custom":
            message = (
                "has rows that a function given to `set_transform` makes when they are read; "
                "`pack_records` takes these, and `map=` does the like"
            )
            raise OptionError(message, "table")
        return sound(_selected(table))
    if datasets is not None and isinstance(table, datasets.DatasetDict):
        splits = ", ".join(f'"{name}"' for name in table)
        message = f"holds several data sets; take one of {splits}"
        raise OptionError(message, "table")
    if hasattr(table, "__arrow_c_stream__"):
        return sound(named(stream_of(table)), OSError)
    if hasattr(table, "__arrow_c_array__"):
        return sound([named(array_of(table))])
    _refuse_others(table)
    message = (
        "must be a pyarrow.Table, have `__arrow_c_stream__` or be a datasets.Dataset, "
        f"not a `{type(table).__qualname__}`; `pack_records` takes iterables"
    )
    raise OptionTypeError(message, "table")


def _refuse_others(table: object) -> None:
    """Refuses objects that are almost tables; the message says how to convert them."""
    name = type(table).__name__
    remedy = {
        "LazyFrame": "is a LazyFrame, which holds no rows yet; `.collect()` it",
        "IterableDataset": "is an IterableDataset, which is read record by record; use `pack_records`",
        "str": f"is a path, `{shown(table)}`; use `pack_files`",
        "PosixPath": f"is a path, `{shown(table)}`; use `pack_files`",
    }.get(name)
    if remedy:
        raise OptionTypeError(remedy, "table")


def _selected(dataset: HubDataset) -> Iterator[pa.RecordBatch]:
    """Yields the selected rows of a data set in its order, with the columns that it shows."""
    seen = dataset.format
    columns = None if seen["output_all_columns"] else seen["columns"]
    for rows in dataset.with_format("arrow", columns=columns).iter(_ROWS):
        yield from rows.to_batches()


def _fingerprint(table: object) -> str | None:
    """The fingerprint that `datasets` gives a data set, the same in every process; `None` for other objects."""
    datasets = sys.modules.get("datasets")
    if datasets is not None and isinstance(table, datasets.Dataset):
        return f"datasets:{table._fingerprint}"  # noqa: SLF001  what its own caches go by
    return None
