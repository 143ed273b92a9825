"""`StreamDataset`: the rows of a stream for a training loop, with a state that can be saved and loaded."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, NamedTuple

import torch
from torch.utils.data import IterableDataset, get_worker_info

from fastpack.arguments.checks import check_switch, check_type, shown
from fastpack.errors import BatchError, OptionError, OptionTypeError
from fastpack.options.native import value_in
from fastpack.options.work import Ranks
from fastpack.runtime.ranks import rank_of
from fastpack.streaming.repeated_errors import renewed
from fastpack.streaming.states import merge_state_dicts, opened_state, sealed_state, state_after_row
from fastpack.torch.reading.columns import Row, columns_of
from fastpack.torch.shared_numbers import SharedNumbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    import pyarrow as pa
    from torch.distributed.device_mesh import DeviceMesh
    from typing_extensions import Self

    from fastpack.streaming.connection import StreamConnection
    from fastpack.streaming.states import StateDict
    from fastpack.streaming.stream import PackStream
    from fastpack.types import JsonValue

__all__ = ["StreamDataset"]

_KIND: Final = "StreamDataset"
"""The kind of its states."""

_SHARING: Final = ("IterableDatasetShard", "DataLoaderDispatcher")
"""Classes of Accelerate and transformers that share the rows of an iterable data set among ranks."""

_AHEAD: Final = "_PrefetchDataFetcher"
"""The class of Lightning that fetches a batch early if the length of the data is unknown."""

_IN_WORKER, _ENDED, _LOADED = range(3)
"""The places of the numbers that a loader's process and its workers share: 1 if a worker reads the rows, the last load
whose stream has ended, and the number of loads."""


class _RowPosition(NamedTuple):
    """The place behind a row of a table."""

    table: pa.Table
    row: int


class StreamDataset(IterableDataset[Row]):  # type: ignore[misc]  # torch is no dependency of the type check
    """The rows of `fastpack.stream` that a rank trains on, for a `DataLoader` with `collate_fn=collate`.

    Rows are dealt one by one: at step `t`, rank `r` of `W` takes row `t * W + r` of the run. So a batch of the loader may have
    any number of rows, and the batches of all ranks together depend on the number of ranks times the rows of a batch alone. The
    `batch_size` of the stream is the number of rows that are made at once, and counts in `max_steps`.

    Each rank reads its own rows, so nothing else must share them among ranks. torchdata's `StatefulDataLoader` saves the
    place in the stream and goes on from there. Tokenizing has threads of its own: one worker or none is enough.

    Each loop over it begins at the state that was loaded last, or at the beginning once the stream has ended.
    """

    def __init__(
        self,
        stream: PackStream | StreamConnection,
        *,
        rank: int | None = None,
        world_size: int | None = None,
        mesh: DeviceMesh | None = None,
        gather: bool = False,
    ) -> None:
        """Takes a stream that has not started.

        Args:
            stream: A stream from `fastpack.stream`, or a connection from `fastpack.connect`. Each loop makes a connection of
                its own, in the process that reads: in a worker, if the `DataLoader` has one.
            rank: The data-parallel rank; if not given, that of `mesh`, of `torch.distributed`, or that of the stream.
            world_size: The number of data-parallel ranks; goes with `rank`.
            mesh: The data-parallel dimension of a `DeviceMesh`, such as `mesh["dp"]`.
            gather: True if `state_dict` joins the states of all ranks, for a trainer that saves on rank 0 alone. All
                ranks must call it then.

        Raises:
            OptionError: Only one of `rank` and `world_size` is given, or both and a mesh, or a mesh of several dimensions; or
                the lanes of the stream cannot be shared by so many ranks.
            FastpackError: The stream has started.
        """
        from fastpack.streaming.connection import StreamConnection  # noqa: PLC0415  loads the native module
        from fastpack.streaming.stream import PackStream, ranked  # noqa: PLC0415  loads the native module

        super().__init__()
        wanted = "a stream from `fastpack.stream`, or a connection from `fastpack.connect`"
        check_type("stream", stream, (PackStream, StreamConnection), wanted)
        check_switch("gather", gather)
        self._is_served = isinstance(stream, StreamConnection)
        pickled = stream.unused() if isinstance(stream, StreamConnection) else stream.__getstate__()
        found = _rank_in(rank, world_size, mesh)
        arguments: dict[str, Any] = {**pickled["given"], "by_row": True}  # type: ignore[dict-item,explicit-any]  # a mapping
        if self._is_served:
            numbers = arguments["rank"], arguments["world_size"]
        else:
            ranks = value_in(arguments, Ranks)
            numbers = ranks.rank, ranks.world_size
        self._rank, self._world_size, _ = rank_of(*(found or numbers))
        if found is not None:
            rank_and_size = {"rank": self._rank, "world_size": self._world_size}
            arguments = (
                {**arguments, **rank_and_size} if self._is_served else ranked(arguments, **rank_and_size)
            )
        self._arguments = arguments
        self._gather = gather
        self._group = None if mesh is None else mesh.get_group()
        # The stream of the caller, which knows whether its rows were counted; and the rows of this rank, if they were.
        self._stream = stream if isinstance(stream, PackStream) else None
        self._counted: int | None = None
        begun = pickled["state"] is not None
        # The states of the stream at which the next loop begins, and behind the last row; and the number of loads.
        self._origin: StateDict | None = stream.state_dict() if begun else None
        self._place: _RowPosition | StateDict | None = self._origin
        self._loads = 1
        self._shared = SharedNumbers(3)
        self._opened().close()  # refuses an invalid rank

    def __len__(self) -> int:
        """The number of rows of this rank in a whole run, where it is known.

        The stream has `max_steps`: it is `max_steps` times its `batch_size`, or the rows that there are if these were counted and are
        fewer. Or the stream has `cache_dir` and `epochs`, and its `estimate()` or `index()` was called, which counts the rows.

        Raises:
            TypeError: It is unknown, as that of a stream that is made in another process is.
        """
        length = self._length()
        if length is None:
            message = (
                "the length of a stream that another process makes is not known here; give the trainer `max_steps`, which "
                "`estimate()` of the stream tells in the process that serves it"
            )
            if not self._is_served:
                message = (
                    "a stream without `max_steps` has no length until its rows are counted: give `cache_dir` and `epochs`, and "
                    "call its `estimate()`"
                )
            raise TypeError(message)
        return length

    def _length(self) -> int | None:
        """The number of rows of this rank in a whole run; `None` if it is unknown."""
        from fastpack.streaming.stream import rows_of_rank  # noqa: PLC0415  loads the native module

        if self._counted is None and self._stream is not None and self._stream.is_counted:
            self._counted = rows_of_rank(self._arguments)
        if self._counted is not None:
            return self._counted
        steps = self._arguments.get("max_steps")
        return None if steps is None else int(steps) * int(self._arguments["batch_size"])

    def __iter__(self) -> Iterator[Row]:
        """Yields the rows of this rank, from the loaded state on.

        An error of the data, the options or a function comes again at each `next`. After an interrupt or a lost connection the next
        call goes on after the row that was returned last.

        Raises:
            BatchError: Accelerate would share them among ranks once more, several workers would give the same ones,
                Lightning would take a batch that it does not train before a checkpoint, or the states of all ranks could not be
                joined.
        """
        in_worker = get_worker_info() is not None
        try:
            self._check()
        except BatchError as refused:
            if not in_worker:
                raise
            return _RefusedLoop(refused)
        if self._shared[_ENDED] >= self._loads:
            self._origin = None
        self._shared[_IN_WORKER] = int(in_worker)
        if in_worker:
            # A loader with a living worker asks for the state of the next loop before its first row.
            self._place = self._origin
        return _Loop(self)

    def _check(self) -> None:
        """Refuses a loop that would lose or repeat rows."""
        _check_loop(sized=self._length() is not None)
        worker = get_worker_info()
        if worker is not None and worker.num_workers > 1:
            message = (
                f"{worker.num_workers} workers would give the same rows: a stream tokenizes on threads of its own; pass "
                "num_workers=0 or 1 to the DataLoader"
            )
            raise BatchError(message)
        if self._gather:
            self.check_gathering()
        if worker is not None and self._shared[_LOADED] > self._loads:
            message = (
                "a state was loaded after the worker of this loader had started, and the worker does not know it; make a new "
                "DataLoader, or pass persistent_workers=False"
            )
            raise BatchError(message)

    def _begin(self) -> PackStream | StreamConnection:
        """The stream of a loop, where it begins."""
        stream = self._opened()
        if self._origin is not None:
            stream.load_state_dict(self._origin)
        # Not before the first row is asked for: Lightning drops the loop of a loader, and asks the loader for its state then.
        self._place = self._origin
        return stream

    def _end(self) -> None:
        """Notes that a loop has given all rows."""
        self._origin = self._place = None
        self._shared[_ENDED] = self._loads

    def _opened(self) -> PackStream | StreamConnection:
        """The stream of this rank, from its beginning."""
        from fastpack.streaming.connection import StreamConnection  # noqa: PLC0415  loads the native module
        from fastpack.streaming.stream import PackStream  # noqa: PLC0415  loads the native module

        return StreamConnection(**self._arguments) if self._is_served else PackStream(self._arguments)

    def __getstate__(self) -> dict[str, object]:
        """The pickled values for workers, which cannot gather the states of ranks."""
        place = _state_of(self._place)
        self._length()  # keeps the number of rows, if they were counted
        return {**self.__dict__, "_group": None, "_place": place, "_stream": None}

    def state_dict(self) -> StateDict:
        """The state of the loop, as JSON values; with `gather=True` of all ranks, which must all call it.

        Raises:
            BatchError: A worker reads the rows, so that their place is not known here; or as in `gathered_state`.
        """
        if self._gather:
            return self.gathered_state()
        return _sealed(self._stream_state())

    def gathered_state(self) -> StateDict:
        """The states of all ranks as one, from which any number of ranks can resume; all ranks must call it.

        Raises:
            BatchError: The ranks are at different rows, or some of them are not in `torch.distributed`.
        """
        self.check_gathering()
        mine = _RankState(self._rank, self._world_size, self._stream_state())
        if not _is_distributed():
            return _joined([mine])
        found = [mine] * torch.distributed.get_world_size(self._group)
        torch.distributed.all_gather_object(found, mine, group=self._group)
        return _joined(found)

    def check_gathering(self, *, together: bool = False) -> None:
        """Refuses states of ranks that could not be joined, before the first row is trained.

        Args:
            together: True if all ranks call it, and join their states now.

        Raises:
            BatchError: A worker reads the rows, or `torch.distributed` has other processes than the ranks.
        """
        if get_worker_info() is not None:
            message = (
                "the states of all ranks cannot be joined in the worker of a DataLoader, where this rank reads its rows; pass "
                "num_workers=0"
            )
            raise BatchError(message)
        processes = torch.distributed.get_world_size(self._group) if _is_distributed() else 1
        if processes < self._world_size:
            message = (
                f"the states of {self._world_size} ranks cannot be joined: torch.distributed has {processes} of them here, "
                "and no other number of ranks could resume; begin with torch.distributed.init_process_group, or pass the "
                "`mesh` of the ranks"
            )
            raise BatchError(message)
        if together:
            self.gathered_state()

    def _stream_state(self) -> StateDict | None:
        """The state of the stream after the last row; `None` at the beginning.

        Raises:
            BatchError: A worker reads the rows.
        """
        if get_worker_info() is None and self._shared[_IN_WORKER]:
            message = (
                "the worker of a DataLoader reads the rows ahead, so the place of training is not known here; save the state of "
                "a torchdata StatefulDataLoader, or pass num_workers=0"
            )
            raise BatchError(message)
        return _state_of(self._place)

    def load_state_dict(self, state_dict: Mapping[str, JsonValue]) -> None:
        """Resumes the next loop from a state, saved with any number of ranks that the lanes allow.

        A state that was saved on one rank without `gather=True` lacks the lanes of the others: their loop raises an
        `OptionError` that names the first.

        Raises:
            OptionError: It is not a state of a `StreamDataset`, was changed since, or is of another stream.
        """
        stream = opened_state(_KIND, state_dict)["stream"]
        if isinstance(stream, dict):
            self._opened().load_state_dict(stream)  # refuses a state from which it cannot resume
            self._origin = stream
        else:
            self._origin = None
        self._place = self._origin
        self._loads = 1 + max(self._loads, self._shared[_ENDED], self._shared[_LOADED])
        if get_worker_info() is None:
            self._shared[_LOADED] = self._loads
            self._shared[_IN_WORKER] = 0


class _Loop:
    """The rows of one loop over a `StreamDataset`.

    An error of the data, the options or a function comes again at each `next`. After an interrupt or a lost connection, `next` goes on
    after the last row.
    """

    def __init__(self, dataset: StreamDataset) -> None:
        self._dataset = dataset
        self._stream: PackStream | StreamConnection | None = None
        # The stream would begin again at an `iter` behind its end.
        self._tables: Iterator[tuple[pa.Table]] = iter(())
        self._table: pa.Table | None = None
        # The rows of the table once they are made, and the number of those that were returned.
        self._rows: list[Row] | None = None
        self._returned = 0
        self._ended = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Row:
        if self._ended:
            raise StopIteration
        if self._stream is None:
            stream = self._dataset._begin()  # noqa: SLF001  of this module, here and below
            self._stream, self._tables = stream, zip(stream, strict=False)
        # No Python is run between what takes a table or a row and what notes it, so that an interrupt comes before or behind both.
        while True:
            if self._table is not None:
                if self._rows is None:
                    self._rows = _rows_of(self._table)
                if self._returned < len(self._rows):
                    row = self._rows[self._returned]
                    self._dataset._place = _RowPosition(self._table, self._returned)  # noqa: SLF001
                    self._returned += 1
                    return row
            for (table,) in self._tables:
                self._table, self._rows, self._returned = table, None, 0
                break
            else:
                self._dataset._end()  # noqa: SLF001
                self.close()
                raise StopIteration

    def close(self) -> None:
        """Ends the loop, and stops the threads of the stream."""
        self._ended = True
        if self._stream is not None:
            self._stream.close()

    def __del__(self, *, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        """Stops the threads where a loop is left early. They end with the interpreter, whose modules are gone then."""
        if not is_finalizing():
            self.close()


class _RefusedLoop:
    """A loop without rows: a worker that lives on hands its error over only where a row is asked for."""

    def __init__(self, refused: BatchError) -> None:
        self._refused = refused

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Row:
        raise renewed(self._refused)


class _RankState(NamedTuple):
    """The state of a rank, as ranks gather it."""

    rank: int
    world_size: int
    stream: StateDict | None


def _rank_in(rank: int | None, world_size: int | None, mesh: DeviceMesh | None) -> tuple[int, int] | None:
    """The rank and the number of ranks, where they are given or known from `torch.distributed`.

    Raises:
        OptionError: They contradict each other.
    """
    if (rank is None) != (world_size is None) or (rank is not None and mesh is not None):
        message = "goes with `world_size`, and without `mesh`"
        raise OptionError(message, "rank")
    if mesh is not None:
        if not all(hasattr(mesh, name) for name in ("ndim", "get_local_rank", "get_group")):
            message = f'must be a DeviceMesh, such as `mesh["dp"]`, not `{shown(mesh)}`'
            raise OptionTypeError(message, "mesh")
        if mesh.ndim != 1:
            names = ", ".join(f"`{name}`" for name in mesh.mesh_dim_names or ())
            message = f"must have one dimension, the data-parallel one, not {mesh.ndim}: take one of {names or 'them'}"
            raise OptionError(message, "mesh")
        return mesh.get_local_rank(), mesh.size()
    if rank is not None and world_size is not None:
        return rank, world_size
    if _is_distributed():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return None


def _is_distributed() -> bool:
    return bool(torch.distributed.is_available() and torch.distributed.is_initialized())


def _rows_of(table: pa.Table) -> list[Row]:
    """The rows of a table, without a copy."""
    batches = [(columns_of(batch, None), batch.num_rows) for batch in table.to_batches()]
    return [Row(columns, at) for columns, rows in batches for at in range(rows)]


def _state_of(place: _RowPosition | StateDict | None) -> StateDict | None:
    """The state of the stream at a place."""
    return state_after_row(place.table, place.row) if isinstance(place, _RowPosition) else place


def _sealed(stream: StateDict | None) -> StateDict:
    """The state of a `StreamDataset`."""
    return sealed_state(_KIND, {"stream": stream})


def _joined(states: list[_RankState]) -> StateDict:
    """The states of all ranks as one. Processes of one data-parallel rank have the same state.

    Raises:
        BatchError: The ranks are at different rows, or a rank is missing.
    """
    by_rank = {state.rank: state for state in states}
    ranks = states[0].world_size
    if any(state.world_size != ranks for state in states) or sorted(by_rank) != list(range(ranks)):
        found = ", ".join(f"{state.rank} of {state.world_size}" for state in by_rank.values())
        message = (
            f"the processes of torch.distributed have the states of the ranks {found}, which are not those of one run; give "
            "each StreamDataset its own `rank`, and the `mesh` of the ranks"
        )
        raise BatchError(message)
    rows = {0 if state.stream is None else state.stream["rows"] for state in states}
    if len(rows) > 1:
        places = " and ".join(str(row) for row in sorted(rows, key=str))
        message = (
            "the ranks have taken different numbers of rows, so their states belong to different steps: before the rows "
            f"{places} of the run; save after the same step"
        )
        raise BatchError(message)
    return merge_state_dicts([_sealed(state.stream) for _, state in sorted(by_rank.items())])


def _check_loop(*, sized: bool) -> None:
    """Refuses an iteration by a class that would share the rows of this rank again, or fetch rows untrained."""
    frame = sys._getframe(1)  # noqa: SLF001  a documented function of CPython
    while frame is not None:
        name = type(frame.f_locals.get("self")).__name__
        if name == _AHEAD and not sized:
            message = (
                "Lightning takes a batch ahead from a loader without a length, and a checkpoint would lose it; give "
                "fastpack.stream `max_steps`, or `cache_dir` and `epochs`, and call its `estimate()`"
            )
            raise BatchError(message)
        if name in _SHARING:
            message = (
                f"`{name}` of Accelerate shares the rows of this rank among all ranks once more, and most documents would "
                "never be trained; leave the loader out of `accelerator.prepare`, and pass "
                "callbacks=[fastpack.torch.StreamCallback()] to a Trainer"
            )
            raise BatchError(message)
        frame = frame.f_back  # type: ignore[assignment]  # none above the first
