"""Reads Arrow data of other libraries through the C data interface, with errors that name the fault."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from fastpack.arguments.checks import shortened
from fastpack.errors import OptionError, OptionTypeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

__all__ = ["array_of", "named", "refused", "sound", "stream_of"]

_Named = TypeVar("_Named", "pa.RecordBatch", "pa.RecordBatchReader", "pa.Table")

_STREAM: Final = b"arrow_array_stream"
"""The name of a capsule that holds a stream."""

_FUNCTIONS: Final = ("get_schema", "get_next", "get_last_error", "release")
"""The functions that a stream begins with."""

_LONGEST_ERROR: Final = 300
"""The most characters of another library's error that a message quotes."""


class _Capsule:
    """Wraps a stream capsule, for `pyarrow` to read."""

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Returns the stream; the requested schema is ignored."""
        return self._capsule


def stream_of(table: object) -> pa.RecordBatchReader:
    """The batches of an object with `__arrow_c_stream__`. Exceptions of that method are passed on."""
    import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing

    try:
        capsule: object = table.__arrow_c_stream__()  # type: ignore[attr-defined]
    except pa.ArrowException as failed:
        raise refused(failed) from failed
    try:
        _refuse_missing_functions(capsule)
        return pa.RecordBatchReader.from_stream(_Capsule(capsule))
    except pa.ArrowInvalid as failed:
        message = (
            f"has no columns ({_error_text(failed)}); name its values, as in `pa.table({{'text': values}})`"
        )
        raise OptionTypeError(message, "table") from failed
    except (pa.ArrowException, OSError, RuntimeError, TypeError, ValueError) as failed:
        raise refused(failed) from failed


def array_of(table: object) -> pa.RecordBatch:
    """The batch of an object with `__arrow_c_array__`."""
    import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing

    try:
        return pa.record_batch(table)
    except (pa.ArrowException, TypeError, ValueError) as failed:
        raise refused(failed) from failed


def named(table: _Named) -> _Named:
    """Returns the table; refuses one with column names that are not valid text, or with dictionaries of JSON values."""
    try:
        _read_names(table.schema)
        encoded = [field.name for field in table.schema if _holds_json_dictionary(field.type)]
    except UnicodeDecodeError as failed:
        message = "has a column whose name, or that of a field in it, is not UTF-8"
        raise OptionError(message, "table") from failed
    if encoded:
        # Arrow hands over the dictionary without the type of its values: they would be texts.
        message = (
            f"holds a dictionary of JSON values in `{encoded[0]}`; decode it, as in "
            "`array.dictionary.take(array.indices)`"
        )
        raise OptionError(message, "table")
    return table


def _holds_json_dictionary(kind: pa.DataType) -> bool:
    """True if a type is a dictionary of JSON values, or has one inside."""
    import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing

    if pa.types.is_dictionary(kind):
        return getattr(kind.value_type, "extension_name", None) == "arrow.json"
    return any(
        _holds_json_dictionary(kind.field(number).type) for number in range(getattr(kind, "num_fields", 0))
    )


def _read_names(fields: Iterable[pa.Field[pa.DataType]]) -> None:
    """Reads the names of fields, and of their child fields."""
    for field in fields:
        _ = field.name, getattr(field.type, "tz", None)
        inside = getattr(field.type, "num_fields", 0)
        _read_names(field.type.field(number) for number in range(inside))
        if hasattr(field.type, "value_type"):
            _read_names([field.with_type(field.type.value_type)])


def sound(batches: Iterable[pa.RecordBatch], *broken: type[Exception]) -> Iterator[pa.RecordBatch | str]:
    """Yields the batches; for the first unreadable one, a message. `broken` are further errors of unreadable batches."""
    import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing

    iterator = iter(batches)
    while True:
        try:
            batch = next(iterator, None)
            if batch is None:
                return
            batch.validate()
        except (pa.ArrowException, UnicodeDecodeError, *broken) as failed:  # type: ignore[misc]
            yield _error_text(failed)
            return
        yield batch


def refused(failed: Exception) -> OptionError:
    """The error of a table that cannot be read at all."""
    return OptionError(f"cannot be read as Arrow: {_error_text(failed)}", "table")


def _refuse_missing_functions(capsule: object) -> None:
    """Refuses a stream that lacks one of its functions: `pyarrow` would call it and crash."""
    import ctypes  # noqa: PLC0415  importing fastpack is to cost nothing

    capsule_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    pointer_of = capsule_of(("PyCapsule_GetPointer", ctypes.pythonapi))
    functions = (ctypes.c_void_p * len(_FUNCTIONS)).from_address(pointer_of(capsule, _STREAM))
    for name, function in zip(_FUNCTIONS, functions, strict=True):
        if function is None:
            message = f"the stream has no `{name}`, or was read before"
            raise ValueError(message)


def _error_text(failed: Exception) -> str:
    """The message of an error, on one line of bounded length."""
    text = " ".join(str(failed).split()) or type(failed).__name__
    return shortened(text, _LONGEST_ERROR)
