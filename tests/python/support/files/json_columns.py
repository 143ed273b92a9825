"""Arrow arrays with values of type JSON at any depth, which `pyarrow` does not make of Python values by itself."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

JSON = pa.json_()


def array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """The values as an array of this type. JSON in it is written as JSON, an absent value is null."""
    if isinstance(kind, pa.JsonType):
        texts = [None if value is None else json.dumps(value) for value in values]
        return pa.ExtensionArray.from_storage(kind, pa.array(texts, kind.storage_type))
    mask = pa.array([value is None for value in values])
    if pa.types.is_struct(kind):
        parts = [array([(value or {}).get(part.name) for value in values], part.type) for part in kind]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=mask)
    if pa.types.is_map(kind):
        pairs = [pair for value in values for pair in (value or {}).items()]
        keys = pa.array([key for key, _ in pairs], kind.key_type)
        items = array([item for _, item in pairs], kind.item_type)
        return pa.MapArray.from_arrays(ends(values, pa.int32()), keys, items, kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inside = array([item for value in values for item in value or []], kind.value_type)
        lists = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
        offsets = pa.int64() if pa.types.is_large_list(kind) else pa.int32()
        return lists.from_arrays(ends(values, offsets), inside, type=kind)
    return pa.array(values, kind)


def ends(values: list[Any], kind: pa.DataType) -> pa.Array:
    """The offsets of lists or maps; null where there is none."""
    offsets, at = [], 0
    for value in values:
        offsets.append(None if value is None else at)
        at += len(value or [])
    return pa.array([*offsets, at], kind)


def table(records: list[dict[str, Any]], kinds: dict[str, pa.DataType]) -> pa.Table:
    """The records as a table whose columns have these types."""
    columns = {name: array([record.get(name) for record in records], kind) for name, kind in kinds.items()}
    return pa.table(columns)
