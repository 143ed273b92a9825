"""Arrow that others hand over: what can be read of it, or an error that says what is wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

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

_SAID: Final = 300
"""Characters of another library's error that a message repeats."""


class _Capsule:
    """A stream that was handed over, for `pyarrow`."""

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The stream, whatever schema is asked for."""
        return self._capsule


def stream_of(table: object) -> pa.RecordBatchReader:
    """The batches of an object with `__arrow_c_stream__`. What that method itself raises reaches the caller as it is."""
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
            f"invalid option `table`: has no columns ({_said(failed)}); "
            "name its values, as in `pa.table({'text': values})`"
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
    """A table again; refuses one with names that are no text."""
    try:
        _read_names(table.schema)
    except UnicodeDecodeError as failed:
        message = "invalid option `table`: has a column whose name, or that of a field in it, is not UTF-8"
        raise OptionError(message, "table") from failed
    return table


def _read_names(fields: Iterable[pa.Field[pa.DataType]]) -> None:
    """Reads the names of fields, and of those inside them."""
    for field in fields:
        _ = field.name, getattr(field.type, "tz", None)
        inside = getattr(field.type, "num_fields", 0)
        _read_names(field.type.field(number) for number in range(inside))
        if hasattr(field.type, "value_type"):
            _read_names([field.with_type(field.type.value_type)])


def sound(batches: Iterable[pa.RecordBatch], *broken: type[Exception]) -> Iterator[pa.RecordBatch | str]:
    """The batches, and in place of the first that cannot be read, why; `broken` are errors that mean so too."""
    import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing

    given = iter(batches)
    while True:
        try:
            batch = next(given, None)
            if batch is None:
                return
            batch.validate()
        except (pa.ArrowException, UnicodeDecodeError, *broken) as failed:  # type: ignore[misc]
            yield _said(failed)
            return
        yield batch


def refused(failed: Exception) -> OptionError:
    """The error of a table of which nothing can be read."""
    return OptionError(f"invalid option `table`: cannot be read as Arrow: {_said(failed)}", "table")


def _refuse_missing_functions(capsule: object) -> None:
    """Refuses a stream without one of its functions, which `pyarrow` would call."""
    import ctypes  # noqa: PLC0415  importing fastpack is to cost nothing

    capsule_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    pointer_of = capsule_of(("PyCapsule_GetPointer", ctypes.pythonapi))
    functions = (ctypes.c_void_p * len(_FUNCTIONS)).from_address(pointer_of(capsule, _STREAM))
    for name, function in zip(_FUNCTIONS, functions, strict=True):
        if function is None:
            message = f"the stream has no `{name}`, or was read before"
            raise ValueError(message)


def _said(failed: Exception) -> str:
    """What an error says, in one line of bearable length."""
    text = " ".join(str(failed).split()) or type(failed).__name__
    return text if len(text) <= _SAID else f"{text[:_SAID]}..."
