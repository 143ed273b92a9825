"""The options `filter=`, `map=` and `objective_function=`: functions over Arrow batches."""

from __future__ import annotations

import functools
import json
import sys
import warnings
from typing import TYPE_CHECKING, Final, cast

from fastpack._checks import check_type, shown
from fastpack._failures import noted
from fastpack._message import Message, Setting
from fastpack._record_function import Function
from fastpack.errors import OptionError, OptionTypeError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    import pyarrow as pa

    BatchFunction: TypeAlias = Callable[[pa.RecordBatch], object]

    NativeTransform: TypeAlias = tuple[
        Callable[[pa.RecordBatch], pa.BooleanArray] | None,
        Callable[[pa.RecordBatch], pa.RecordBatch] | None,
        Callable[[pa.RecordBatch], pa.RecordBatch] | None,
        str | None,
        list[str],
    ]

__all__ = [
    "FUNCTIONS",
    "NativeTransform",
    "fingerprint_option",
    "refuse_state_of_unknown",
    "transform",
    "warn_of_unknown",
]

FUNCTIONS: Final = ("filter", "map", "objective_function")
"""The options that are functions, in the order in which the core takes them."""


def fingerprint_option(option: str) -> str:
    """The option that names the function of another one."""
    return f"{option}_fingerprint"


def transform(
    given: Mapping[str, object], *, unknown: str | None = None, shared: bool = False
) -> NativeTransform:
    """Wraps the functions among the given options for the core.

    A function is known by the fingerprint that the caller gives it. If `unknown` is given, adds a warning for each without
    one, with what `unknown` says of it. Such a function is refused where several ranks share the job.
    """
    for option in FUNCTIONS:
        _check(option, given[option], given[fingerprint_option(option)])
    identity, unnamed = _identities(given, unknown, shared=shared) if unknown else ([], [])
    kept, changed, objective = (given[option] for option in FUNCTIONS)
    return (
        None if kept is None else _masking(_of_batches("filter", kept)),
        None if changed is None else _mapping("map", _of_batches("map", changed)),
        None
        if objective is None
        else _mapping("objective_function", _of_batches("objective_function", objective)),
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
    unknown = _without_fingerprint(given)
    if unknown:
        named = ", ".join(f"`{option}`" for option in unknown)
        message = Message(
            f"may be of another {named}, which has no fingerprint; name the function with ",
            Setting(fingerprint_option(unknown[0]), "v1"),
            " in both runs, or resume with strict=False",
        )
        raise OptionError(message, "state")


def _check(option: str, function: object, fingerprint: object) -> None:
    """Refuses a value that is not callable, and a fingerprint without a function."""
    if function is not None and not callable(function) and not isinstance(function, Function):
        message = (
            f"must be a function of a pyarrow.RecordBatch, or a `fastpack.Function`, not `{shown(function)}`"
        )
        raise OptionTypeError(message, option)
    if fingerprint is None:
        return
    name = fingerprint_option(option)
    check_type(name, fingerprint, str, 'a text that names the function, such as "v1"')
    if not fingerprint:
        message = 'must not be empty; it names the function, such as "v1"'
        raise OptionError(message, name)
    if function is None:
        message = f"needs `{option}`, the function that it names"
        raise OptionError(message, name)


def _without_fingerprint(given: Mapping[str, object]) -> list[str]:
    """The options whose functions have no fingerprint."""
    return [
        option
        for option in FUNCTIONS
        if given[option] is not None and given[fingerprint_option(option)] is None
    ]


def _identities(given: Mapping[str, object], unknown: str, *, shared: bool) -> tuple[list[str], list[str]]:
    """The identity of each function, and a warning for each without a fingerprint."""
    unnamed = _without_fingerprint(given)
    if shared and unnamed:
        message = Message(
            "has no fingerprint, so ranks cannot tell whether they share one job; name the function with ",
            Setting(fingerprint_option(unnamed[0]), "v1"),
            ", and rename it whenever it changes",
        )
        raise OptionError(message, unnamed[0])
    identity = [
        f"{option} has no fingerprint"
        if option in unnamed
        else f"{option} named {json.dumps(given[fingerprint_option(option)])}"
        for option in FUNCTIONS
        if given[option] is not None
    ]
    warned = [
        f"`{option}` has no fingerprint: {unknown}; name the function with "
        f'{fingerprint_option(option)}="v1", and rename it whenever it changes'
        for option in unnamed
    ]
    return identity, warned


def _of_batches(option: str, function: object) -> BatchFunction:
    """A function of batches: the one that is given, or what it makes of one of records."""
    if isinstance(function, Function):
        return function.answers if option == "filter" else functools.partial(function.records, option)
    return cast("BatchFunction", function)


def _masking(function: BatchFunction) -> Callable[[pa.RecordBatch], pa.BooleanArray]:
    @functools.wraps(function)
    def call(rows: pa.RecordBatch) -> pa.BooleanArray:
        import pyarrow as pa  # noqa: PLC0415  slow to import

        with noted("while fastpack called `filter`"):
            made = function(rows)
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


def _mapping(option: str, function: BatchFunction) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    @functools.wraps(function)
    def call(rows: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa  # noqa: PLC0415  slow to import

        with noted(f"while fastpack called `{option}`"):
            made = function(rows)
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
