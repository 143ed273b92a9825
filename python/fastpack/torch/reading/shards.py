"""`Shards`: the rows of folders in remote storage, whose shards are fetched when their rows are read, and ahead of that."""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_right
from collections import OrderedDict
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

import torch
from torch.utils.data import get_worker_info

from fastpack.dataset.folder import column_differences, shown_columns
from fastpack.dataset.packed_files import RemoteFiles
from fastpack.errors import FastpackError, OptionError
from fastpack.runtime.ranks import rank_of
from fastpack.torch.reading.columns import columns_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from fastpack.dataset.folder import Folder, Shard
    from fastpack.dataset.packed_files import HeldFile
    from fastpack.torch.reading.columns import Columns
    from fastpack.torch.reading.shard_windows import ShardWindows

__all__ = ["Shards"]

_OPEN: Final = 2
"""The shards that a process keeps open where the cache holds not all of them, and no sampler says which it needs."""

_RETURNS: Final = 8
"""The times that a process may return to a shard early, before its order of rows is refused: a look at some rows is no epoch."""

_POLL: Final = 0.05
"""Seconds between two looks for room in the cache."""

_PATIENCE: Final = 60.0
"""Seconds for other processes to release a shard."""


class _FolderShard(NamedTuple):
    """A shard of one of the folders."""

    folder: Folder
    shard: Shard


class _OpenedShard(NamedTuple):
    """A shard whose rows can be read.

    Attributes:
        ends: The number of rows up to the end of each record batch.
        columns: The columns of each.
        held: The file, which stays in the cache meanwhile.
    """

    ends: list[int]
    columns: list[Columns]
    held: HeldFile


class Shards:
    """The shards of one split of several folders.

    Attributes:
        ends: The number of rows up to the end of each shard.
        sizes: The bytes of each shard.
        plan: The order in which a sampler needs the shards; `None` where there is none.
    """

    def __init__(self, folders: Sequence[Folder], split: str, columns: Sequence[str] | None) -> None:
        """Lists the shards. None is fetched.

        Raises:
            OptionError: A folder has no such split.
            FastpackError: The number of rows in a shard is not known.
        """
        self._columns = columns
        self._entries = [_FolderShard(folder, shard) for folder in folders for shard in folder.of(split)]
        for folder, shard in self._entries:
            if shard.rows is None or shard.file.bytes is None:
                message = (
                    f"{folder.shown(shard)}: no manifest says how many rows it has; read the folder alone"
                )
                raise FastpackError(message)
        self.ends = list(accumulate(entry.shard.rows or 0 for entry in self._entries))
        self.sizes = [entry.shard.file.bytes or 0 for entry in self._entries]
        self.plan: ShardWindows | None = None
        self._set_up()

    def _set_up(self) -> None:
        self._open: OrderedDict[int, _OpenedShard] = OrderedDict()
        self._first: tuple[Shard, pa.Schema] | None = None
        self._read = 0
        self._left: dict[int, int] = {}
        self._returns = 0
        self._last = -1
        self._ahead: _ShardPrefetcher | None = None
        self._process = os.getpid()

    def __getstate__(self) -> dict[str, object]:
        """The folders and the plan; open files are opened again."""
        kept = ("_columns", "_entries", "ends", "sizes", "plan")
        return {name: self.__dict__[name] for name in kept}

    def __setstate__(self, state: dict[str, object]) -> None:
        """Opens nothing yet."""
        self.__dict__.update(state)
        self._set_up()

    @property
    def room(self) -> int:
        """The bytes that the smallest of the caches may hold."""
        rooms = [files.room for files in self._remote_files()]
        return min(rooms)

    @property
    def bound(self) -> int | None:
        """The same, if the caller gave it: then it is the same on all ranks."""
        files = self._remote_files()
        return None if any(found.access.block_cache is None for found in files) else self.room

    def _remote_files(self) -> list[RemoteFiles]:
        found = {id(entry.folder): entry.folder.files for entry in self._entries}
        return [files for files in found.values() if isinstance(files, RemoteFiles)]

    @property
    def open_row(self) -> int:
        """The first row of a shard that is open; the first of all, if none is."""
        self._forget_parent()
        number = next(reversed(self._open), 0)
        return self.ends[number - 1] if number else 0

    def columns_of_row(self, at: int) -> tuple[Columns, int]:
        """The columns of the record batch that holds a row, and the place of the row in it."""
        self._forget_parent()
        number = bisect_right(self.ends, at)
        opened = self._opened(number, at)
        self._read += 1
        inside = at - (self.ends[number - 1] if number else 0)
        batch = bisect_right(opened.ends, inside)
        return opened.columns[batch], inside - (opened.ends[batch - 1] if batch else 0)

    def _fetch_ahead(self, numbers: Iterable[int]) -> None:
        """Begins to fetch shards, in order, on a thread of its own."""
        if self._ahead is None:
            self._ahead = _ShardPrefetcher()
        self._ahead.fetch([self._entries[number] for number in numbers if number not in self._open])

    def _forget_parent(self) -> None:
        """Forgets the thread of the process from which this one was forked, and the shards that it keeps in the cache."""
        if self._process != os.getpid():
            self._set_up()

    def _opened(self, number: int, at: int) -> _OpenedShard:
        """The shard of the row `at`, fetched if need be."""
        found = self._open.get(number)
        if found is not None:
            self._open.move_to_end(number)
            return found
        is_whole = self._fits
        if not is_whole and self.plan is None:
            self._refuse_returns(number)
        most = len(self._entries) if is_whole else _OPEN if self.plan is None else self.plan.window
        while len(self._open) >= most:
            self._release_files()
        opened = self._open[number] = self._read_in(number)
        if self.plan is not None:
            self._fetch_ahead(self.plan.after(number, at))
        elif number in {0, self._last + 1} and number + 1 < len(self._entries):
            self._fetch_ahead([number + 1])
        self._last = number
        return opened

    @property
    def _fits(self) -> bool:
        """True if the cache has room for all shards."""
        return sum(self.sizes) <= self.room

    def _release_files(self) -> None:
        number, opened = self._open.popitem(last=False)
        opened.held.release()
        self._left[number] = self._read

    def _refuse_returns(self, number: int) -> None:
        """Refuses an order of rows that returns to shards for which there was no room.

        Raises:
            OptionError: It does.
        """
        left = self._left.get(number)
        workers = get_worker_info()
        readers = _ranks() * (1 if workers is None else workers.num_workers)
        if left is None or self._read - left >= self.ends[-1] / readers / 2:
            return
        self._returns += 1
        if self._returns > _RETURNS:
            message = (
                f"is {self.room:,} bytes, less than the {sum(self.sizes):,} bytes of the shards, and the rows are read in an "
                "order that needs each of them again and again: pass sampler=fastpack.torch.PackSampler(dataset) in place of "
                "shuffle=True, which shuffles shards, and rows in a window of shards; or give more"
            )
            raise OptionError(message, "storage.block_cache")

    def _read_in(self, number: int) -> _OpenedShard:
        if self._ahead is not None:
            self._ahead.leave(self._entries[number])
        folder, shard = self._entries[number]
        held = self._open_file(folder, shard)
        try:
            table = folder.table_of(shard, held.path)
            folder.check_rows(shard, table)
            table = folder.selected(table, self._columns)
            shown = shown_columns(table.schema)
            self._check(folder, shard, table.schema)
        except BaseException:
            held.release()
            raise
        batches = [batch for batch in table.to_batches() if batch.num_rows]
        ends = list(accumulate(batch.num_rows for batch in batches))
        return _OpenedShard(ends, [columns_of(batch, shown) for batch in batches], held)

    def _check(self, folder: Folder, shard: Shard, schema: pa.Schema) -> None:
        """Refuses other columns than those of the first shard that was opened."""
        if "seq_lengths" not in schema.names:
            message = "must have `seq_lengths`, the lengths of documents"
            raise OptionError(message, "columns")
        schema = schema.remove_metadata()
        if self._first is None:
            self._first = shard, schema
        for difference in column_differences(schema, self._first[1]):
            message = (
                f"{folder.shown(shard)}: {difference} in {self._first[0].name}; pass `columns` that all have"
            )
            raise OptionError(message, "columns")

    def _open_file(self, folder: Folder, shard: Shard) -> HeldFile:
        """The file of a shard. Open files of this process make room for it, then files that others have let go of."""
        until = time.monotonic() + _PATIENCE
        while True:
            (held,) = folder.files.hold([shard.file])
            if held is not None:
                return held
            if self._open:
                self._release_files()
            elif time.monotonic() > until:
                message = (
                    f"is {self.room:,} bytes, and other processes of this machine hold all shards in it; give more, so that "
                    "each process that reads rows has one"
                )
                raise OptionError(message, "storage.block_cache")
            else:
                time.sleep(_POLL)


class _ShardPrefetcher:
    """Fetches shards on a thread, which ends when there is nothing to fetch."""

    def __init__(self) -> None:
        self._wanted: list[_FolderShard] = []
        self._fetching: _FolderShard | None = None
        self._changed = threading.Condition()
        self._runs = False

    def fetch(self, entries: list[_FolderShard]) -> None:
        """Fetches these shards next, in order, and none that were wanted before."""
        with self._changed:
            self._wanted = [entry for entry in entries if entry is not self._fetching]
            if not self._runs and self._wanted:
                self._runs = True
                threading.Thread(target=self._serve, name="fastpack-shards", daemon=True).start()

    def leave(self, entry: _FolderShard) -> None:
        """Leaves a shard to its reader, who waits for it if it is being fetched.

        A thread that falls behind its reader would fetch the shard again, once the reader has read it and the cache has removed it.
        """
        with self._changed:
            self._wanted = [other for other in self._wanted if other is not entry]
            while self._fetching is entry:
                self._changed.wait(_POLL)

    def _serve(self) -> None:
        try:
            while (entry := self._next()) is not None:
                self._fetch_one(entry)
        except BaseException:
            with self._changed:
                self._fetching, self._runs = None, False
                self._changed.notify_all()
            raise

    def _fetch_one(self, entry: _FolderShard) -> None:
        try:
            (held,) = entry.folder.files.hold([entry.shard.file])
        except FastpackError:
            return  # the reader of its rows gets the error
        if held is not None:
            held.release()

    def _next(self) -> _FolderShard | None:
        """Ends the fetching of a shard, and begins that of the next; `None` if none is wanted."""
        with self._changed:
            self._fetching = self._wanted.pop(0) if self._wanted else None
            self._runs = self._fetching is not None
            self._changed.notify_all()
            return self._fetching


def _ranks() -> int:
    """The number of ranks that read rows."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return int(torch.distributed.get_world_size())
    return rank_of(None, None).world_size
