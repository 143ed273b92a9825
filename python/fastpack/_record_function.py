"""`Function`: a function of one record, where functions of batches are asked for."""

from __future__ import annotations

import multiprocessing
import weakref
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from fastpack._checks import check_choice, shown, whole_number
from fastpack.errors import OptionTypeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    import pyarrow as pa

    Record: TypeAlias = dict[str, object]

__all__ = ["Function"]

Made = TypeVar("Made")

Per = Literal["record"]


class Function(Generic[Made]):
    """A function of one record, for `filter`, `map` and the objective `Custom`: these take batches otherwise.

    The records of a batch become dicts, and what the function returns becomes a batch again, so it is many times slower than a
    function of batches. With `processes`, other processes call it; it must then be one that `pickle` finds by its name.

    Examples:
        >>> import fastpack
        >>> short = fastpack.Function(lambda record: len(record["text"]) < 20, per="record")
        >>> records = [{"text": "a river"}, {"text": "a river that is much longer"}]
        >>> table = fastpack.pack_records(records, "examples/tokenizer", max_length=64, filter=short)
        >>> fastpack.Report.of(table).dropped
        {'filtered': Count(documents=1, tokens=0)}
    """

    def __init__(self, function: Callable[[Record], Made], *, per: Per, processes: int = 0) -> None:
        """Wraps a function.

        Args:
            function: Takes a record as a dict. It returns a boolean for `filter`, and the record that takes its place, a dict too,
                for the others.
            per: What it takes: a `"record"`.
            processes: The processes that call it; 0 for this one.

        Raises:
            OptionTypeError: It is no function.
        """
        if not callable(function):
            message = f"must be a function of a record, not `{shown(function)}`"
            raise OptionTypeError(message, "function")
        check_choice("per", per, Per)
        self.function = function
        self.per = per
        self.processes = whole_number("processes", processes, 0)
        self._pool: ProcessPoolExecutor | None = None

    def __reduce__(self) -> tuple[object, ...]:
        """Processes are not sent along."""
        return _again, (type(self), self.function, self.per, self.processes)

    def answers(self, rows: pa.RecordBatch) -> list[bool]:
        """What the function says of each record."""
        found = list(self._results(rows.to_pylist()))
        wrong = next(
            (it for it in found if not isinstance(it, bool) and str(type(it)) not in _NUMPY_BOOLS), None
        )
        if wrong is not None:
            message = f"must return a boolean for each record, not a `{type(wrong).__qualname__}`"
            raise OptionTypeError(message, "filter")
        return [bool(it) for it in found]

    def records(self, option: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The records that the function makes; a column of which it changes no value stays as it is."""
        import pyarrow as pa  # noqa: PLC0415  slow to import

        made: list[Record] = []
        for it in self._results(rows.to_pylist()):
            if not isinstance(it, dict):
                message = f"must return a dict for each record, not a `{type(it).__qualname__}`"
                raise OptionTypeError(message, option)
            made.append(it)
        # The function may have changed the records that it was given.
        given = rows.to_pylist()
        columns: dict[str, pa.Array[pa.Scalar[pa.DataType]]] = {}
        for name in dict.fromkeys(chain(rows.schema.names, *made)):
            if made and not any(name in record for record in made):
                continue
            known = name in rows.schema.names
            if known and all(
                name in new and new[name] == old[name] for old, new in zip(given, made, strict=True)
            ):
                columns[name] = rows.column(name)
                continue
            values: list[Any] = [record.get(name) for record in made]  # type: ignore[explicit-any]  # of any column
            try:
                columns[name] = pa.array(values, type=rows.schema.field(name).type if known else None)
            except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
                columns[name] = pa.array(values)
        return pa.RecordBatch.from_pydict(columns)

    def _results(self, records: list[Record]) -> Iterator[Made]:
        if not self.processes:
            return map(self.function, records)
        if self._pool is None:
            # Others than forked ones: this process has threads.
            spawned = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.processes, mp_context=spawned)
            weakref.finalize(self, self._pool.shutdown, wait=False, cancel_futures=True)
        size = -(-len(records) // self.processes) or 1
        parts = [records[begin : begin + size] for begin in range(0, len(records), size)]
        waiting = [self._pool.submit(_results_of, self.function, part) for part in parts]
        return chain.from_iterable(it.result() for it in waiting)


_NUMPY_BOOLS = {"<class 'numpy.bool'>", "<class 'numpy.bool_'>"}
"""Booleans of NumPy, which are none of Python; it need not be imported."""


def _again(
    kind: type[Function[Made]], function: Callable[[Record], Made], per: Per, processes: int
) -> Function[Made]:
    return kind(function, per=per, processes=processes)


def _results_of(function: Callable[[Record], Made], records: list[Record]) -> list[Made]:
    return [function(record) for record in records]
