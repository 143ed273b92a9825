"""The functions of the caller over Arrow batches: `filter`, `map`, and that of the objective `Custom`."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

from fastpack.arguments.failures import noted
from fastpack.errors import OptionTypeError
from fastpack.options import OPTIONS
from fastpack.options.function import FUNCTION, BatchedRecordFunction, Function, function_of
from fastpack.options.objective import Custom, objective_of
from fastpack.records.function_fingerprints import OBJECTIVE, identities_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    import pyarrow as pa

    BatchFunction: TypeAlias = Callable[[pa.RecordBatch], object]

    PictureFunction: TypeAlias = Callable[[list[tuple[int, int]], int], list[tuple[str | None, str]]]
    """Makes the text of a picture of a width and a height among several of its conversation, or says why it cannot."""


Returned = TypeVar("Returned")

__all__ = [
    "FUNCTIONS",
    "NativeTransform",
    "functions_of",
    "transform",
]


class NativeTransform(NamedTuple):
    """The functions of a call for the core.

    Attributes:
        filter: Tells which rows of a table are kept.
        map: Makes the rows that take the place of others.
        filter_record: A filter of single records, given the JSON of each. Records that are no rows of a table take it: columns
            of Arrow would change what they hold.
        map_record: A `map` of single records, likewise.
        objective: Makes the documents of the objective `custom`.
        pictures: Makes the texts of pictures.
        identity: The names of the functions; `None` if one has none.
        warnings: A warning for each function without a name.
    """

    filter: Callable[[pa.RecordBatch], pa.BooleanArray] | None
    map: Callable[[pa.RecordBatch], pa.RecordBatch] | None
    filter_record: Callable[[list[bytes]], list[bool]] | None
    map_record: Callable[[list[bytes]], list[dict[str, object]]] | None
    objective: Callable[[pa.RecordBatch], pa.RecordBatch] | None
    pictures: PictureFunction | None
    identity: str | None
    warnings: list[str]


FUNCTIONS: Final = tuple(option.name for option in OPTIONS.values() if option.kinds is FUNCTION)
"""The options that are functions, in the order in which the core takes them."""


def functions_of(arguments: Mapping[str, object]) -> dict[str, Function[object] | None]:
    """The functions of a call by their options."""
    objective = objective_of(arguments)
    custom = objective.named() if isinstance(objective, Custom) else None
    return {**{name: function_of(name, arguments.get(name)) for name in FUNCTIONS}, OBJECTIVE: custom}


def transform(
    arguments: Mapping[str, object],
    *,
    pictures: PictureFunction | None = None,
    unknown: str | None = None,
    shared: bool = False,
) -> NativeTransform:
    """Wraps the functions among the given options for the core.

    A function is known by the fingerprint that the caller gives it. If `unknown` is given, adds a warning for each without
    one, with what `unknown` says of it. Such a function is refused where several ranks share the job.
    """
    functions = functions_of(arguments)
    identity, unnamed = identities_of(functions, unknown, shared=shared) if unknown else ([], [])
    kept, changed, objective = functions.values()
    of_kept, of_changed, of_objective = (
        None if it is None or it.per == "batch" else BatchedRecordFunction(it) for it in functions.values()
    )
    return NativeTransform(
        filter=None
        if kept is None
        else _masking(_of_batches("filter", kept, of_kept), _place("filter", kept)),
        map=None
        if changed is None
        else _mapping("map", _of_batches("map", changed, of_changed), _place("map", changed)),
        filter_record=None if of_kept is None else _noted("filter", of_kept.answers_of),
        map_record=None
        if of_changed is None
        else _noted("map", functools.partial(of_changed.records_of, "map")),
        objective=None
        if objective is None
        else _mapping(
            OBJECTIVE, _of_batches(OBJECTIVE, objective, of_objective), _place(OBJECTIVE, objective)
        ),
        pictures=pictures,
        identity=" ".join(identity) or None,
        warnings=unnamed,
    )


def _of_batches(  # type: ignore[explicit-any]  # of any result
    option: str, function: Function[Any], of_records: BatchedRecordFunction[Any] | None
) -> BatchFunction:
    """A function of batches: the one that is given, or one made from a function of records."""
    if of_records is None:
        return cast("BatchFunction", function.function)
    return of_records.answers if option == "filter" else functools.partial(of_records.records, option)


def _noted(option: str, function: Callable[[list[bytes]], Returned]) -> Callable[[list[bytes]], Returned]:
    """The function; what it raises says which option it is of."""

    def call(texts: list[bytes]) -> Returned:
        with noted(f"while fastpack called `{option}`"):
            return function(texts)

    return call


_PER_RECORD: Final = '`fastpack.Function(f, per="record")` takes one record, as a dict'
"""The remedy for a function that does not take batches."""


def _place(option: str, function: Function[object]) -> str:
    """The place of what a function raises, and what it was given."""
    place = f"while fastpack called `{option}`"
    if function.per == "record":
        return place
    return f"{place} with a batch of records, a `pyarrow.RecordBatch`; {_PER_RECORD}"


def _masking(function: BatchFunction, place: str) -> Callable[[pa.RecordBatch], pa.BooleanArray]:
    @functools.wraps(function)
    def call(rows: pa.RecordBatch) -> pa.BooleanArray:
        import pyarrow as pa  # noqa: PLC0415  slow to import

        with noted(place):
            result = function(rows)
        if isinstance(result, pa.ChunkedArray):
            result = result.combine_chunks()
        try:
            mask = result if isinstance(result, pa.Array) else pa.array(result)  # type: ignore[call-overload]
        except (TypeError, ValueError, pa.ArrowInvalid):
            mask = None
        if mask is None or not (pa.types.is_boolean(mask.type) or len(mask) == 0):
            found = f"a `{type(result).__qualname__}`" if mask is None else f"an array of {mask.type}"
            message = f"must return a boolean for each row, not {found}"
            if isinstance(result, bool):
                message += f"; {_PER_RECORD}, and returns one boolean"
            raise OptionTypeError(message, "filter")
        return cast("pa.BooleanArray", mask.cast(pa.bool_()))

    return call


def _mapping(option: str, function: BatchFunction, place: str) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    @functools.wraps(function)
    def call(rows: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa  # noqa: PLC0415  slow to import

        with noted(place):
            result = function(rows)
        if isinstance(result, pa.RecordBatch):
            return result
        if hasattr(result, "__arrow_c_stream__"):
            result = pa.table(result)
        if isinstance(result, pa.Table):
            columns = [
                pa.concat_arrays(column.chunks) if column.chunks else pa.nulls(0, column.type)
                for column in result.columns
            ]
            return pa.RecordBatch.from_arrays(columns, schema=result.schema)
        message = f"must return a pyarrow.RecordBatch, not a `{type(result).__qualname__}`"
        if isinstance(result, dict):
            message += f"; {_PER_RECORD}, and returns one"
        raise OptionTypeError(message, option)

    return call
