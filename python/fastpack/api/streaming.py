"""`PackStream`: the tables of a stream, and its state."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

from fastpack import _fastpack
from fastpack._checks import check_switch, check_type, shown
from fastpack._progress import watcher
from fastpack._ranks import rank_of
from fastpack.api.options import native_inputs, native_model, native_options
from fastpack.errors import FastpackError, OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    import pyarrow as pa

    from fastpack._tokenizer import NativeTemplate
    from fastpack._transform import NativeTransform
    from fastpack._types import JsonValue
    from fastpack.report import Report

StateDict: TypeAlias = "dict[str, JsonValue]"

__all__ = ["PackStream", "StreamStats", "merge_state_dicts", "state_of"]


class StreamStats(NamedTuple):
    """The counts of a stream so far.

    Attributes:
        step: The number of tables.
        rows: The number of rows of this rank.
        tokens: The number of tokens in these rows, without padding.
        fill: The share of the rows' room that tokens fill, from 0 to 1.
        shares: The share of each weighted source among the packed tokens, from 0 to 1.
        dropped: The number of dropped documents, by reason.
        wait_seconds: The time that this process waited for tables, in seconds.
    """

    step: int
    rows: int
    tokens: int
    fill: float
    shares: dict[str, float]
    dropped: dict[str, int]
    wait_seconds: float


class _Parts:
    """The checked arguments of a stream, in the form that the native module takes."""

    def __init__(self, given: Mapping[str, Any]) -> None:  # type: ignore[explicit-any]  # checked by the native module
        # In a stream `shuffle` is an option of the stream, not of packing.
        self.options: _fastpack.Options = native_options({**given, "shuffle": False})
        names, given = _named(given)
        self.inputs: _fastpack.Inputs = native_inputs(given)
        self.model: tuple[_fastpack.Pretrained | None, NativeTemplate, NativeTransform] = native_model(given)
        rank = rank_of(given["rank"], given["world_size"])
        self.packing = _fastpack.StreamOptions(
            batch_size=given["batch_size"],
            open_packs=given["open_packs"],
            shuffle=given["shuffle"],
            epochs=given["epochs"],
            lanes=given["lanes"],
            rank=rank.rank,
            world_size=rank.world_size,
            rank_source=rank.source,
            max_steps=given["max_steps"],
            names=names,
            weights=_weights(given["weights"], names),
            weight_unit=given["weight_unit"],
            on_exhausted=given["on_exhausted"],
        )
        self.progress = watcher(given["progress"])

    def start(self, state: str | None, *, strict: bool) -> _fastpack.StreamTables:
        """Starts the threads."""
        return _fastpack.StreamTables(
            self.inputs, self.options, *self.model, self.packing, state, strict, self.progress
        )


def _named(given: Mapping[str, Any]) -> tuple[list[str], Mapping[str, Any]]:  # type: ignore[explicit-any]
    """The names of the sources, and the arguments with the sources as a list."""
    files = given["files"]
    if not isinstance(files, Mapping):
        return [], given
    if given["sources"] is not None:
        message = "invalid option `sources`: stands in place of `files`; give one of them"
        raise OptionError(message, "sources")
    if not files or not all(isinstance(name, str) for name in files):
        message = "invalid option `files`: must name at least one source, by texts"
        raise OptionError(message, "files")
    sources = [source if isinstance(source, Mapping) else {"path": source} for source in files.values()]
    return list(files), {**given, "files": None, "sources": sources}


def _weights(weights: object, names: list[str]) -> list[tuple[int, list[float]]]:
    """The weights in the order of the sources: lists, each with the row from which it applies."""
    if weights is None:
        return []
    wanted = (
        "a dict of a weight for each source that `files` names, or a list of such dicts as (row, weights)"
    )
    schedule = [(0, weights)] if isinstance(weights, Mapping) else weights
    found: list[tuple[int, list[float]]] = []
    try:
        for row, shares in schedule:  # type: ignore[attr-defined]  # what is no list is refused below
            if not names or set(shares) != set(names):
                raise ValueError  # noqa: TRY301  one message for all
            found.append((int(row), [float(shares[name]) for name in names]))
    except (TypeError, ValueError) as refused:
        message = f"invalid option `weights`: must be {wanted}, not `{shown(weights)}`"
        raise OptionError(message, "weights") from refused
    return found


@final
class PackStream:
    """An iterator over tables of packed rows. Each table carries the state of the stream after it.

    `fastpack.stream` makes it. It starts when the first table is asked for. After its end, another loop over it starts
    again from the beginning. It can be pickled until it starts.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:  # type: ignore[explicit-any]  # checked by the native module
        """Checks the arguments of `fastpack.stream`."""
        self._given = dict(given)
        self._prepare(None, strict=True)

    def _prepare(self, state: str | None, *, strict: bool) -> None:
        self._parts = _Parts(self._given)
        self._lock = threading.Lock()
        self._tables: _fastpack.StreamTables | None = None
        self._state = state
        self._strict = strict
        self._ended = False
        self._closed = False
        self._waited = 0.0

    def __iter__(self) -> PackStream:
        """Returns the stream; one that has ended starts again from its beginning."""
        with self._lock:
            if self._ended and not self._closed:
                self._tables, self._state, self._ended = None, None, False
        return self

    def __next__(self) -> pa.Table:
        """The next table.

        Raises:
            FastpackError: The data cannot be read or packed.
        """
        with self._lock:
            if self._ended or self._closed:
                raise StopIteration
            if self._tables is None:
                self._tables = self._parts.start(self._state, strict=self._strict)
            tables = self._tables
        since = time.monotonic()
        try:
            table = next(tables)
        except StopIteration:
            self._ended = True
            raise
        self._waited += time.monotonic() - since
        self._state = _state_text(table)
        return table

    def _repr_html_(self) -> str:
        """The HTML that a notebook shows."""
        from fastpack.display.notebook import stream_fragment  # noqa: PLC0415  needed where it is shown

        return stream_fragment(self)

    def state_dict(self) -> StateDict:
        """Returns the state of the stream after its last table: JSON values of some kilobytes.

        Returns:
            The state of this rank. `merge_state_dicts` joins the states of several ranks.

        Raises:
            FastpackError: No table was given yet, and no state was loaded.
        """
        if self._state is None:
            message = (
                "this stream has given no table, so there is no state to save; a new stream starts there"
            )
            raise FastpackError(message)
        return _loaded(self._state)

    def load_state_dict(self, state_dict: Mapping[str, JsonValue], *, strict: bool = True) -> None:
        """Resumes from a state: the next table is the one that followed it.

        Args:
            state_dict: The state of a stream of the same inputs and options, of any number of ranks.
            strict: Whether a state of other inputs or options is refused. Without it the stream resumes as far as the
                documents of the open rows are found where the state names them.

        Raises:
            OptionError: It is not a state; of other inputs or options, which is found when the next table is asked for;
                or without a lane of this rank.
        """
        check_switch("strict", strict)
        text = _text(state_dict)
        _fastpack.check_state(text)
        with self._lock:
            tables, self._tables = self._tables, None
            self._state, self._strict, self._ended, self._closed = text, strict, False, False
        if tables is not None:
            tables.close()

    @property
    def step(self) -> int:
        """The number of tables so far, those before a resume included."""
        if self._state is None:
            return 0
        step = _loaded(self._state)["step"]
        return step if isinstance(step, int) else 0

    def stats(self) -> StreamStats:
        """The counts of the tables so far, those before a resume included, and the waiting time of this process.

        Returns:
            The counts; all are zero before the first table.
        """
        waited = self._waited
        if self._state is None:
            return StreamStats(0, 0, 0, 0.0, {}, {}, waited)
        state = _loaded(self._state)
        counts: Any = state["counts"]  # type: ignore[explicit-any]  # as the core writes it
        rows, tokens = counts["rows"], counts["kept"]["tokens"]
        packed = {name: share["tokens"] for name, share in counts.get("shares", {}).items()}
        whole = sum(packed.values())
        return StreamStats(
            step=self.step,
            rows=rows,
            tokens=tokens,
            fill=tokens / (rows * self._given["max_length"]) if rows else 0.0,
            shares={name: part / whole for name, part in packed.items()} if whole else {},
            dropped={reason: count["documents"] for reason, count in counts["dropped"].items()},
            wait_seconds=waited,
        )

    @property
    def report(self) -> Report | None:
        """The report of the whole stream; `None` before its end."""
        return None if self._tables is None else self._tables.report

    def close(self) -> None:
        """Stops the threads of the stream and waits for their end. It gives no table afterwards."""
        self._closed = True
        tables = self._tables
        if tables is not None:
            tables.close()

    def __enter__(self) -> PackStream:
        """The stream itself."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Closes the stream."""
        self.close()

    def __getstate__(self) -> dict[str, object]:
        """The pickled values: the arguments, and the loaded state."""
        if self._tables is not None and not self._ended:
            message = "this stream has started, and its threads cannot be pickled; pickle its `state_dict()`"
            raise FastpackError(message)
        return {"given": self._given, "state": self._state, "strict": self._strict}

    def __setstate__(self, pickled: dict[str, Any]) -> None:  # type: ignore[explicit-any]  # what was pickled
        """Makes a stream from the pickled values."""
        self._given = pickled["given"]
        self._prepare(pickled["state"], strict=pickled["strict"])


def state_of(table: pa.Table) -> StateDict:
    """Returns the state of a stream after one of its tables.

    Args:
        table: A table that a stream gave, or one with its schema metadata.

    Returns:
        The state that `state_dict()` returned when this was the last table.

    Raises:
        OptionError: The table carries no state.

    Examples:
        >>> import fastpack
        >>> stream = fastpack.stream("examples/*.jsonl", "examples/tokenizer", max_length=512)
        >>> fastpack.state_of(next(stream)) == stream.state_dict()
        True
    """
    return _loaded(_state_text(table))


def merge_state_dicts(state_dicts: Iterable[Mapping[str, JsonValue]]) -> StateDict:
    """Joins the states of all ranks after the same step into one, from which any number of ranks can resume.

    Args:
        state_dicts: The state of each rank.

    Returns:
        The state of the run.

    Raises:
        OptionError: They are of several runs or steps, or a lane is in none of them.

    Examples:
        >>> import fastpack
        >>> options = {"max_length": 512, "epochs": None, "batch_size": 2}
        >>> states = []
        >>> for rank in range(2):
        ...     with fastpack.stream(
        ...         "examples/chat.jsonl", "examples/tokenizer", rank=rank, world_size=2, **options
        ...     ) as stream:
        ...         _ = next(stream)
        ...         states.append(stream.state_dict())
        >>> with fastpack.stream("examples/chat.jsonl", "examples/tokenizer", **options) as stream:
        ...     stream.load_state_dict(fastpack.merge_state_dicts(states))
        ...     stream.step
        1
    """
    return _loaded(_fastpack.merge_states([_text(state) for state in state_dicts]))


def _state_text(table: pa.Table) -> str:
    check_type("table", table, _table_types(), "a pyarrow.Table of a stream")
    metadata = table.schema.metadata or {}
    state = metadata.get(_fastpack.STATE_KEY.encode())
    if state is None:
        message = "invalid option `table`: carries no state; only tables of `fastpack.stream` do"
        raise OptionError(message, "table")
    return state.decode()


def _table_types() -> tuple[type, ...]:
    import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing

    return (pa.Table, pa.RecordBatch)


def _text(state: object) -> str:
    """A state as JSON."""
    try:
        return json.dumps(state)
    except (TypeError, ValueError) as refused:
        message = f"invalid option `state`: is none of a stream: {refused}"
        raise OptionError(message, "state") from refused


def _loaded(text: str) -> StateDict:
    loaded: StateDict = json.loads(text)
    return loaded
