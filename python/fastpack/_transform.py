"""The options `filter=`, `map=` and `objective_function=`: functions over Arrow batches."""

from __future__ import annotations

import functools
import json
import sys
import warnings
from typing import TYPE_CHECKING, cast

from fastpack._checks import check_type, shown
from fastpack._failures import noted
from fastpack._message import Message, Setting
from fastpack.errors import OptionError, OptionTypeError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    import pyarrow as pa

    from fastpack._types import DocumentFunction, RecordFilter, RecordMap

    NativeTransform: TypeAlias = tuple[
        Callable[[pa.RecordBatch], pa.BooleanArray] | None,
        Callable[[pa.RecordBatch], pa.RecordBatch] | None,
        Callable[[pa.RecordBatch], pa.RecordBatch] | None,
        str | None,
        list[str],
    ]

__all__ = ["NativeTransform", "refuse_state_of_unknown", "transform", "warn_of_unknown"]


def transform(
    *,
    filter: RecordFilter | None,  # noqa: A002
    map: RecordMap | None,  # noqa: A002
    objective: DocumentFunction | None,
    fingerprints: Mapping[str, str | None],
    unknown: str | None = None,
    shared: bool = False,
) -> NativeTransform:
    """Wraps the functions for the core.

    A function is known by the fingerprint that the caller gives it. If `unknown` is given, adds a warning for each without
    one, with what `unknown` says of it. Such a function is refused where several ranks share the job.
    """
    functions: dict[str, object] = {"filter": filter, "map": map, "objective_function": objective}
    for option, function in functions.items():
        _check(option, function, fingerprints.get(option))
    given = {option: function for option, function in functions.items() if function is not None}
    identity, unnamed = _identity(given, fingerprints, unknown, shared=shared) if unknown else ([], [])
    return (
        None if filter is None else _masking(filter),
        None if map is None else _mapping("map", map),
        None if objective is None else _mapping("objective_function", objective),
        " ".join(identity) or None,
        unnamed,
    )


def warn_of_unknown(functions: NativeTransform) -> None:
    """Warns the caller of fastpack of each function without a fingerprint."""
    level, frame = 1, sys._getframe(1)  # noqa: SLF001  `skip_file_prefixes` came with Python 3.12
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("fastpack."):
        level, frame = level + 1, frame.f_back
    *_, unnamed = functions
    for warning in unnamed:
        warnings.warn(warning, stacklevel=level + 1)


def refuse_state_of_unknown(given: Mapping[str, object]) -> None:
    """Refuses a state of which nobody can tell whether it was made by the same functions."""
    given_ones = [it for it in ("filter", "map", "objective_function") if given[it] is not None]
    unknown = [option for option in given_ones if given[f"{option}_fingerprint"] is None]
    if unknown:
        named = ", ".join(f"`{option}`" for option in unknown)
        message = Message(
            f"may be of another {named}, which has no fingerprint; name the function with ",
            Setting(f"{unknown[0]}_fingerprint", "v1"),
            " in both runs, or resume with strict=False",
        )
        raise OptionError(message, "state")


def _check(option: str, function: object, fingerprint: object) -> None:
    """Refuses a value that is not callable, and a fingerprint without a function."""
    if function is not None and not callable(function):
        message = f"must be a function of a pyarrow.RecordBatch, not `{shown(function)}`"
        raise OptionTypeError(message, option)
    if fingerprint is None:
        return
    name = f"{option}_fingerprint"
    check_type(name, fingerprint, str, 'a text that names the function, such as "v1"')
    if not fingerprint:
        message = 'must not be empty; it names the function, such as "v1"'
        raise OptionError(message, name)
    if function is None:
        message = f"needs `{option}`, the function that it names"
        raise OptionError(message, name)


def _identity(
    functions: Mapping[str, object],
    fingerprints: Mapping[str, str | None],
    unknown: str,
    *,
    shared: bool,
) -> tuple[list[str], list[str]]:
    """What each function is known by, and a warning for each without a fingerprint."""
    identity, unnamed = [], []
    for option in functions:
        fingerprint = fingerprints.get(option)
        if fingerprint is not None:
            identity.append(f"{option} named {json.dumps(fingerprint)}")
            continue
        if shared:
            message = Message(
                "has no fingerprint, so ranks cannot tell whether they share one job; name the function with ",
                Setting(f"{option}_fingerprint", "v1"),
                ", and rename it whenever it changes",
            )
            raise OptionError(message, option)
        identity.append(f"{option} has no fingerprint")
        unnamed.append(
            f"`{option}` has no fingerprint: {unknown}; name the function with "
            f'{option}_fingerprint="v1", and rename it whenever it changes'
        )
    return identity, unnamed


def _masking(function: RecordFilter) -> Callable[[pa.RecordBatch], pa.BooleanArray]:
    @functools.wraps(function)
    def call(rows: pa.RecordBatch) -> pa.BooleanArray:
        import pyarrow as pa  # noqa: PLC0415  slow to import

        with noted("while fastpack called `filter`"):
            made: object = function(rows)
        if isinstance(made, pa.ChunkedArray):
            made = made.combine_chunks()
        try:
            mask = made if isinstance(made, pa.Array) else pa.array(made)  # type: ignore[call-overload]
        except (TypeError, ValueError, pa.ArrowInvalid):
            mask = None
        if mask is None or not (pa.types.is_boolean(mask.type) or len(mask) == 0):
            found = f"a `{type(made).__qualname__}`" if mask is None else f"an array of {mask.type}"
            message = f"must return a boolean for each row, not {found}"
            raise OptionTypeError(message, "filter")
        return cast("pa.BooleanArray", mask.cast(pa.bool_()))

    return call


def _mapping(option: str, function: RecordMap) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    @functools.wraps(function)
    def call(rows: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa  # noqa: PLC0415  slow to import

        with noted(f"while fastpack called `{option}`"):
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
        message = f"must return a pyarrow.RecordBatch, not a `{type(made).__qualname__}`"
        raise OptionTypeError(message, option)

    return call
