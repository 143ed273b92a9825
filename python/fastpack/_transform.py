"""What `filter=` and `map=` mean: functions over Arrow batches of records."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, cast

from fastpack.errors import OptionTypeError

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from fastpack._types import RecordFilter, RecordMap

__all__ = ["NativeTransform", "transform"]

if TYPE_CHECKING:
    from typing import TypeAlias

    NativeTransform: TypeAlias = tuple[
        Callable[[pa.RecordBatch], pa.BooleanArray] | None,
        Callable[[pa.RecordBatch], pa.RecordBatch] | None,
        str | None,
    ]


def transform(
    *,
    filter: RecordFilter | None,  # noqa: A002
    map: RecordMap | None,  # noqa: A002
    identified: bool = False,
) -> NativeTransform:
    """The functions as the core calls them, and what tells them from others if they are `identified`."""
    for option, function in (("filter", filter), ("map", map)):
        if function is not None and not callable(function):
            message = (
                f"invalid option `{option}`: must be a function of a pyarrow.RecordBatch, not `{function!r}`"
            )
            raise OptionTypeError(message, option)
    return (
        None if filter is None else _masking(filter),
        None if map is None else _mapping(map),
        _identities(filter=filter, map=map) if identified else None,
    )


def _identities(**functions: object) -> str | None:
    from fastpack._identity import identity  # noqa: PLC0415  most calls need none of it

    given = [(name, function) for name, function in functions.items() if function is not None]
    return " ".join(f"{name}={identity(function)}" for name, function in given) or None


def _masking(function: RecordFilter) -> Callable[[pa.RecordBatch], pa.BooleanArray]:
    @functools.wraps(function)
    def call(rows: pa.RecordBatch) -> pa.BooleanArray:
        import pyarrow as pa  # noqa: PLC0415  slow to import

        made: object = function(rows)
        if isinstance(made, pa.ChunkedArray):
            made = made.combine_chunks()
        try:
            mask = made if isinstance(made, pa.Array) else pa.array(made)  # type: ignore[call-overload]
        except (TypeError, ValueError, pa.ArrowInvalid):
            mask = None
        if mask is None or not (pa.types.is_boolean(mask.type) or len(mask) == 0):
            found = f"a `{type(made).__qualname__}`" if mask is None else f"an array of {mask.type}"
            message = f"invalid option `filter`: must return a boolean for each row, not {found}"
            raise OptionTypeError(message, "filter")
        return cast("pa.BooleanArray", mask.cast(pa.bool_()))

    return call


def _mapping(function: RecordMap) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    @functools.wraps(function)
    def call(rows: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa  # noqa: PLC0415  slow to import

        made: object = function(rows)
        if isinstance(made, pa.RecordBatch):
            return made
        if hasattr(made, "__arrow_c_stream__"):
            made = pa.table(made)
        if isinstance(made, pa.Table):
            columns = [
                pa.concat_arrays(column.chunks) if column.chunks else pa.nulls(0, column.type)
                for column in made.columns
            ]
            return pa.RecordBatch.from_arrays(columns, schema=made.schema)
        message = (
            f"invalid option `map`: must return a pyarrow.RecordBatch, not a `{type(made).__qualname__}`"
        )
        raise OptionTypeError(message, "map")

    return call
