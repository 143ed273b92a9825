"""`RecordFiles`: finds records in files by their numbers."""

from __future__ import annotations

import threading
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

__all__ = ["RecordFiles"]

RawRecord: TypeAlias = "bytes | pa.RecordBatch"
"""A record as its file has it: a line of JSON, or a table of one row."""

_MOST_FILES: Final = 16
"""The most files that are kept open."""

_CHUNK: Final = 1 << 24
"""Bytes that are searched for line breaks at once."""


class _FileRecords(Protocol):
    """The records of a file."""

    def record(self, row: int) -> RawRecord:
        """A record, counted from 0."""


class RecordFiles:
    """The records of files, found by their number. Each process opens a file once."""

    def __init__(self) -> None:
        """Opens nothing yet."""
        self._opened: dict[tuple[str, int, int], _FileRecords] = {}
        self._lock = threading.Lock()

    def record(self, path: Path, row: int) -> RawRecord:
        """A record of a file, counted from 1.

        Raises:
            OSError: The file cannot be read.
            ValueError: It has no such record.
        """
        stat = path.stat()
        key = (str(path), stat.st_mtime_ns, stat.st_size)
        with self._lock:
            if key not in self._opened:
                while len(self._opened) >= _MOST_FILES:
                    self._opened.pop(next(iter(self._opened)))
                self._opened[key] = _records_of(path)
            try:
                return self._opened[key].record(row - 1)
            except IndexError:
                message = f"the file has no record {row:,}"
                raise ValueError(message) from None


def _records_of(path: Path) -> _FileRecords:
    with path.open("rb") as file:
        begin = file.read(6)
    if begin.startswith(b"PAR1"):
        return _ParquetRecords(path)
    if begin.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return _ArrowRecords(path, is_stream=begin[0] == 0xFF)  # noqa: PLR2004  the marker of a message
    if begin.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd")):
        message = "the file is compressed, so no record is found without reading all before it; decompress it"
        raise ValueError(message)
    return _JsonRecords(path)


class _JsonRecords:
    """The lines of a JSON Lines file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._starts = _line_starts(path)

    def record(self, row: int) -> RawRecord:
        if not 0 <= row < len(self._starts) - 1:
            raise IndexError(row)
        with self._path.open("rb") as file:
            file.seek(int(self._starts[row]))
            return file.read(int(self._starts[row + 1] - self._starts[row]))


def _line_starts(path: Path) -> npt.NDArray[np.int64]:
    """The offsets at which lines begin, and the end of the file."""
    found, reached = [np.zeros(1, np.int64)], 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            found.append(np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n")) + reached + 1)
            reached += len(chunk)
    starts = np.concatenate(found)
    return starts if starts[-1] == reached else np.append(starts, reached)


class _ParquetRecords:
    """The rows of a Parquet file. The row group that was read last is kept."""

    def __init__(self, path: Path) -> None:
        self._file = pq.ParquetFile(path, memory_map=True)
        groups = range(self._file.num_row_groups)
        self._ends = list(accumulate(self._file.metadata.row_group(group).num_rows for group in groups))
        self._kept: tuple[int, pa.Table] | None = None

    def record(self, row: int) -> RawRecord:
        group, at = _place(self._ends, row)
        if self._kept is None or self._kept[0] != group:
            self._kept = group, self._file.read_row_group(group)
        return self._kept[1].slice(at, 1).combine_chunks().to_batches()[0]


class _ArrowRecords:
    """The rows of an Arrow file, mapped into memory."""

    def __init__(self, path: Path, *, is_stream: bool) -> None:
        opened = pa.memory_map(str(path))
        self._batches = (
            (pa.ipc.open_stream(opened) if is_stream else pa.ipc.open_file(opened)).read_all().to_batches()
        )
        self._ends = list(accumulate(batch.num_rows for batch in self._batches))

    def record(self, row: int) -> RawRecord:
        batch, at = _place(self._ends, row)
        return self._batches[batch].slice(at, 1)


def _place(ends: list[int], row: int) -> tuple[int, int]:
    """The part of a file that holds a row, and the row's place in the part."""
    if not 0 <= row < (ends[-1] if ends else 0):
        raise IndexError(row)
    part = bisect_right(ends, row)
    return part, row - (ends[part - 1] if part else 0)
