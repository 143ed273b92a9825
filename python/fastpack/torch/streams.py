"""`StreamDataset`: the rows of a stream for a training loop, with a state that can be saved and loaded."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, TypeAlias

import torch
from torch.utils.data import IterableDataset, get_worker_info

from fastpack._checks import check_switch
from fastpack.errors import BatchError, OptionError
from fastpack.torch.rows import Row, columns_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    import pyarrow as pa
    from torch.distributed.device_mesh import DeviceMesh

    from fastpack._types import JsonValue
    from fastpack.api.streaming import PackStream

    State: TypeAlias = "dict[str, JsonValue]"

__all__ = ["StreamDataset"]

_SHARING: Final = ("IterableDatasetShard", "DataLoaderDispatcher")
"""Classes of Accelerate and transformers that share the rows of an iterable data set among ranks."""

_AHEAD: Final = "_PrefetchDataFetcher"
"""The class of Lightning that fetches a batch early if the length of the data is unknown."""


class StreamDataset(IterableDataset[Row]):  # type: ignore[misc]  # torch is no dependency of the type check
    """The rows of `fastpack.stream` that a rank trains on, for a `DataLoader` with `collate_fn=collate`.

    Each rank reads its own rows, so nothing else must share them among ranks. torchdata's `StatefulDataLoader` saves the
    place in the stream and goes on from there. Tokenizing has threads of its own: one worker or none is enough.

    Each loop over it begins at the state that was loaded last, or at the beginning once the stream has ended.
    """

    def __init__(
        self,
        stream: PackStream,
        *,
        rank: int | None = None,
        world_size: int | None = None,
        mesh: DeviceMesh | None = None,
        gather: bool = False,
    ) -> None:
        """Takes a stream that has not started.

        Args:
            stream: A stream from `fastpack.stream`.
            rank: The data-parallel rank; if not given, that of `mesh`, of `torch.distributed`, or that of the stream.
            world_size: The number of data-parallel ranks; goes with `rank`.
            mesh: The data-parallel dimension of a `DeviceMesh`, such as `mesh["dp"]`.
            gather: Whether `state_dict` joins the states of all ranks, for a trainer that saves on rank 0 alone. All
                ranks must call it then.

        Raises:
            OptionError: Only one of `rank` and `world_size` is given, or both and a mesh, or a mesh of several dimensions.
            FastpackError: The stream has started.
        """
        super().__init__()
        check_switch("gather", gather)
        if (rank is None) != (world_size is None) or (rank is not None and mesh is not None):
            message = "goes with `world_size`, and without `mesh`"
            raise OptionError(message, "rank")
        if mesh is not None:
            if mesh.ndim != 1:
                names = ", ".join(f"`{name}`" for name in mesh.mesh_dim_names or ())
                message = (
                    f"must have one dimension, the data-parallel one, not {mesh.ndim}: take one of "
                    f"{names or 'them'}"
                )
                raise OptionError(message, "mesh")
            rank, world_size = mesh.get_local_rank(), mesh.size()
        elif rank is None and torch.distributed.is_available() and torch.distributed.is_initialized():
            rank, world_size = torch.distributed.get_rank(), torch.distributed.get_world_size()
        pickled = stream.__getstate__()
        ranked = {} if rank is None else {"rank": rank, "world_size": world_size}
        self._given: dict[str, Any] = {**pickled["given"], **ranked}  # type: ignore[dict-item,explicit-any]  # a mapping
        self._gather = gather
        self._group = None if mesh is None else mesh.get_group()
        # The start of the next loop: the state after a table, and the number of rows given since.
        begun = pickled["state"] is not None
        self._origin: State = {"stream": stream.state_dict() if begun else None, "rows": 0}
        self._place: State = dict(self._origin)
        self._opened().close()  # refuses an invalid rank

    def __len__(self) -> int:
        """The number of rows of this rank, if the stream has `max_steps`.

        Raises:
            TypeError: The stream has no `max_steps`, so the number is unknown.
        """
        steps = self._given["max_steps"]
        if steps is None:
            message = "a stream without `max_steps` has no length"
            raise TypeError(message)
        return int(steps) * int(self._given["batch_size"])

    def __iter__(self) -> Iterator[Row]:
        """Yields the rows of this rank, from the loaded state on.

        Raises:
            BatchError: Accelerate would share them among ranks once more, several workers would give the same ones, or
                Lightning would take a batch that it does not train before a checkpoint.
        """
        _check_loop(sized=self._given["max_steps"] is not None)
        worker = get_worker_info()
        if worker is not None and worker.num_workers > 1:
            message = (
                f"{worker.num_workers} workers would give the same rows: a stream tokenizes on threads of its own; pass "
                "num_workers=0 or 1 to the DataLoader"
            )
            raise BatchError(message)
        return self._rows()

    def _rows(self) -> Iterator[Row]:
        stream = self._opened()
        state, skipped = self._origin["stream"], self._origin["rows"]
        if isinstance(state, dict):
            stream.load_state_dict(state)
        self._place = dict(self._origin)
        with stream:
            for table in stream:
                behind = stream.state_dict()
                for at, row in enumerate(_rows_of(table)):
                    if isinstance(skipped, int) and at < skipped:
                        continue
                    last = at + 1 == table.num_rows
                    self._place = {"stream": behind, "rows": 0} if last else {"stream": state, "rows": at + 1}
                    yield row
                state, skipped = behind, 0
        self._origin = {"stream": None, "rows": 0}
        self._place = dict(self._origin)

    def _opened(self) -> PackStream:
        """The stream of this rank, from its beginning."""
        from fastpack.api.streaming import PackStream  # noqa: PLC0415  loads the native module

        return PackStream(self._given)

    def __getstate__(self) -> dict[str, object]:
        """The pickled state for workers, which do not gather the states of ranks."""
        return {**self.__dict__, "_group": None, "_gather": False}

    def state_dict(self) -> State:
        """The state of the loop, as JSON values; with `gather=True` of all ranks, which must all call it."""
        return self.gathered_state() if self._gather else dict(self._place)

    def gathered_state(self) -> State:
        """The states of all ranks as one, from which any number of ranks can resume; all ranks must call it.

        Raises:
            BatchError: The ranks are at different steps.
        """
        if not torch.distributed.is_available() or not torch.distributed.is_initialized():
            return dict(self._place)
        states: list[State] = [{}] * torch.distributed.get_world_size(self._group)
        torch.distributed.all_gather_object(states, self._place, group=self._group)
        return _joined(states)

    def load_state_dict(self, state_dict: Mapping[str, JsonValue]) -> None:
        """Resumes the next loop from a state, saved with any number of ranks that the lanes allow.

        A state that was saved on one rank without `gather=True` lacks the lanes of the others: their loop raises an
        `OptionError` that names the first.

        Raises:
            OptionError: It is not a state of a `StreamDataset`, or of another stream.
        """
        if not {"stream", "rows"} <= set(state_dict):
            message = "is none of a StreamDataset, which has `stream` and `rows`"
            raise OptionError(message, "state_dict")
        stream = state_dict["stream"]
        if isinstance(stream, dict):
            self._opened().load_state_dict(stream)  # refuses a state from which it cannot resume
        self._origin = {"stream": stream, "rows": state_dict["rows"]}
        self._place = dict(self._origin)


def _rows_of(table: pa.Table) -> Iterator[Row]:
    """The rows of a table, without a copy."""
    for batch in table.to_batches():
        columns = columns_of(batch, None)
        yield from (Row(columns, at) for at in range(batch.num_rows))


def _joined(states: list[State]) -> State:
    """The states of all ranks as one.

    Raises:
        BatchError: The ranks are at different steps.
    """
    from fastpack.api.states import merge_state_dicts  # noqa: PLC0415  loads the native module

    rows = {state["rows"] for state in states}
    streams = [state["stream"] for state in states]
    begun = [stream for stream in streams if isinstance(stream, dict)]
    if len(rows) > 1 or len(begun) not in {0, len(states)}:
        message = "the ranks have taken different numbers of rows, so their states belong to different steps"
        raise BatchError(message)
    return {"stream": merge_state_dicts(begun) if begun else None, "rows": states[0]["rows"]}


def _check_loop(*, sized: bool) -> None:
    """Refuses an iteration by a class that would share the rows of this rank again, or fetch rows untrained."""
    frame = sys._getframe(1)  # noqa: SLF001  a documented function of CPython
    while frame is not None:
        name = type(frame.f_locals.get("self")).__name__
        if name == _AHEAD and not sized:
            message = (
                "Lightning takes a batch ahead from a loader without a length, and a checkpoint would lose it; give "
                "fastpack.stream `max_steps`"
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
