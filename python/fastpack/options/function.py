"""`Function`: a function of the caller, with what it takes and the name that tells it from others."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import pickle
import weakref
from collections.abc import Callable  # noqa: TC003  the types of fields are looked at
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, TypeVar

from fastpack.arguments.checks import check_choice, check_type, shown, whole_number
from fastpack.arguments.functions import file_of, load_file
from fastpack.errors import OptionError, OptionTypeError
from fastpack.options.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import TypeAlias

    import pyarrow as pa

    from fastpack.options.value import Kind

    Record: TypeAlias = dict[str, object]

__all__ = ["FUNCTION", "BatchedRecordFunction", "Function", "check_fingerprint", "function_of"]

Returned = TypeVar("Returned")

Per = Literal["batch", "record"]

_MOST_PROCESSES: Final = 1024
"""As many as a run takes threads at most."""


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Function(Value, Generic[Returned]):  # type: ignore[explicit-any]  # the dataclass adds it
    """A function for `filter`, `map` or the objective `Custom`; `filter=good` is `filter=Function(good)`.

    Args:
        function: What it takes and returns is told with each of these.
        fingerprint: A name for the function, such as `"v1"`, that stands for it where a job is resumed or found in a cache;
            change it whenever the function changes. If not given, the run cannot be resumed and uses no cache, of which it
            warns.
        per: What the function takes: a `batch`, a `pyarrow.RecordBatch` of some hundred records; or a `record`, a dict, of
            which a filter returns a boolean and the others the dict that takes its place. That is many times slower.
        processes: The processes that call a function of records; 0 for this one. It must then be one that `pickle` finds by
            its name.

    Raises:
        OptionError: A value is none that the option takes.

    Examples:
        >>> import fastpack
        >>> short = fastpack.Function(
        ...     lambda record: len(record["text"]) < 20, fingerprint="short", per="record"
        ... )
        >>> records = [{"text": "a river"}, {"text": "a river that is much longer"}]
        >>> table = fastpack.pack_records(records, "examples/tokenizer", max_length=64, filter=short)
        >>> fastpack.Report.of(table).dropped
        {'filtered': Count(documents=1, tokens=0)}
    """

    kind: ClassVar[str] = "function"
    plain: ClassVar[str] = "function"

    function: Callable[..., Returned]  # type: ignore[explicit-any]  # of a batch or of a record
    _: dataclasses.KW_ONLY
    fingerprint: str | None = None
    per: Per = "batch"
    processes: int = 0

    def check(self) -> None:
        """Refuses what is no function, what names none, and processes that would not be used."""
        if not callable(self.function):
            message = f"must be a function, not `{shown(self.function)}`"
            raise OptionTypeError(message, "function")
        check_fingerprint(self.fingerprint)
        check_choice("per", self.per, Per)
        if whole_number("processes", self.processes, 0) > _MOST_PROCESSES:
            message = f"must be a whole number from 0 to {_MOST_PROCESSES}, not `{shown(self.processes)}`"
            raise OptionError(message, "processes")
        if self.processes and self.per != "record":
            message = 'call functions of records alone; pass per="record" too'
            raise OptionError(message, "processes")
        if self.processes:
            _check_sent(self.function)


def _check_sent(function: object) -> None:
    """Refuses a function that other processes cannot be sent."""
    try:
        pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError) as failed:
        message = (
            f"cannot be sent the function `{_name_of(function)}`; define it with `def` at the top of a module, or "
            "leave the processes out"
        )
        raise OptionError(message, "processes") from failed


def _name_of(function: object) -> str:
    return shown(getattr(function, "__qualname__", function))


FUNCTION: Final[Mapping[str, Kind]] = {Function.kind: Function}
"""The values of options that take a function."""


def check_fingerprint(name: object) -> None:
    """Refuses a name of a function that is none."""
    if name is None:
        return
    check_type("fingerprint", name, str, 'a text that names the function, such as "v1"')
    if not name:
        message = 'must not be empty; it names the function, such as "v1"'
        raise OptionError(message, "fingerprint")


def function_of(option: str, value: object) -> Function[object] | None:
    """The function that an option is given, if there is one."""
    if value is None or isinstance(value, Function):
        return value
    if not callable(value):
        message = (
            f"must be a function of a pyarrow.RecordBatch, or a `fastpack.Function`, not `{shown(value)}`"
        )
        raise OptionTypeError(message, option)
    return Function(value)


class BatchedRecordFunction(Generic[Returned]):
    """A function of one record as one of batches."""

    def __init__(self, function: Function[Returned]) -> None:
        """Starts no process yet."""
        self.function = function.function
        self.processes = function.processes
        self._pool: ProcessPoolExecutor | None = None

    def answers(self, rows: pa.RecordBatch) -> list[bool]:
        """The answers of a filter, one for each row of a table."""
        return self._answers(rows.to_pylist())

    def answers_of(self, texts: list[bytes]) -> list[bool]:
        """The answers of a filter, one for each record, given the JSON of each."""
        return self._answers(list(map(json.loads, texts)))

    def _answers(self, records: list[Record]) -> list[bool]:
        found = list(self._results(records))
        wrong = next(
            (it for it in found if not isinstance(it, bool) and str(type(it)) not in _NUMPY_BOOLS), None
        )
        if wrong is not None:
            message = f"must return a boolean for each record, not a `{type(wrong).__qualname__}`"
            raise OptionTypeError(message, "filter")
        return [bool(it) for it in found]

    def records_of(self, option: str, texts: list[bytes]) -> list[Record]:
        """The records that the function makes of those with this JSON."""
        return [_checked(option, it) for it in self._results(list(map(json.loads, texts)))]

    def records(self, option: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that the function makes; a column of which it changes no value stays as it is."""
        import pyarrow as pa  # noqa: PLC0415  slow to import

        results = [_checked(option, it) for it in self._results(rows.to_pylist())]
        # The function may have changed the records that it was given.
        originals = rows.to_pylist()
        columns: dict[str, pa.Array[pa.Scalar[pa.DataType]]] = {}
        for name in dict.fromkeys(chain(rows.schema.names, *results)):
            if results and not any(name in record for record in results):
                continue
            known = name in rows.schema.names
            if known and all(
                name in new and new[name] == old[name] for old, new in zip(originals, results, strict=True)
            ):
                columns[name] = rows.column(name)
                continue
            values: list[Any] = [record.get(name) for record in results]  # type: ignore[explicit-any]  # of any column
            try:
                columns[name] = pa.array(values, type=rows.schema.field(name).type if known else None)
            except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
                columns[name] = pa.array(values)
        return pa.RecordBatch.from_pydict(columns)

    def _results(self, records: list[Record]) -> Iterator[Returned]:
        if not self.processes:
            return map(self.function, records)
        if self._pool is None:
            # Others than forked ones: this process has threads.
            spawned = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(
                self.processes, mp_context=spawned, initializer=load_file, initargs=(file_of(self.function),)
            )
            weakref.finalize(self, self._pool.shutdown, wait=False, cancel_futures=True)
        size = -(-len(records) // self.processes) or 1
        parts = [records[begin : begin + size] for begin in range(0, len(records), size)]
        try:
            waiting = [self._pool.submit(_results_of, self.function, part) for part in parts]
            return chain.from_iterable([it.result() for it in waiting])
        except BrokenProcessPool as failed:
            message = (
                f"ended while they called the function `{_name_of(self.function)}`: they were killed, or did not find it; "
                "define it in a module that they can import, since of the program itself they see what is defined outside "
                'of `if __name__ == "__main__":`, and give them memory'
            )
            raise OptionError(message, "processes") from failed


def _checked(option: str, result: object) -> Record:
    """A record that a function made, which must be a dict."""
    if not isinstance(result, dict):
        message = f"must return a dict for each record, not a `{type(result).__qualname__}`"
        raise OptionTypeError(message, option)
    return result


_NUMPY_BOOLS = {"<class 'numpy.bool'>", "<class 'numpy.bool_'>"}
"""Booleans of NumPy, which are none of Python; it need not be imported."""


def _results_of(function: Callable[[Record], Returned], records: list[Record]) -> list[Returned]:
    return [function(record) for record in records]
