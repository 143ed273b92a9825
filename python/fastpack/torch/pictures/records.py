"""Pictures whose bytes stand in a record: base64, a `data:` URL, or a cell of a Parquet or Arrow file."""

from __future__ import annotations

import base64
import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fastpack.arguments.checks import is_series

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

__all__ = ["RecordFiles", "picture_in"]

_CONVERSATIONS: Final = ("messages", "conversation", "conversations")
"""The fields of a conversation; the first that a record has is read."""

_COLUMNS: Final = ("images", "image")
"""The columns of pictures beside the messages; the first that there is holds them."""

_TYPES: Final = frozenset({"image", "image_url", "input_image"})
"""The types of parts that are pictures."""

_SOURCES: Final = ("bytes", "image", "url", "path", "base64", "image_url")
"""The keys of a picture's file or bytes, in the order in which they are asked."""

_ENCODED: Final = ("base64", "bytes")
"""The keys whose texts are base64."""

_LONGEST_PATH: Final = 4096
"""The longest path, in characters. A longer text is base64."""

_MOST_FILES: Final = 16
"""The most files that are kept open."""

_CHUNK: Final = 1 << 24
"""Bytes that are searched for line breaks at once."""


class _Records(Protocol):
    """The records of a file."""

    def record(self, row: int) -> Mapping[str, object]:
        """A record, counted from 0."""


class RecordFiles:
    """The records of files, found by their number. Each process opens a file once."""

    def __init__(self) -> None:
        """Opens nothing yet."""
        self._opened: dict[tuple[str, int, int], _Records] = {}

    def record(self, path: Path, row: int) -> Mapping[str, object]:
        """A record of a file, counted from 1.

        Raises:
            OSError: The file cannot be read.
            ValueError: It has no such record.
        """
        stat = path.stat()
        key = (str(path), stat.st_mtime_ns, stat.st_size)
        if key not in self._opened:
            while len(self._opened) >= _MOST_FILES:
                self._opened.pop(next(iter(self._opened)))
            self._opened[key] = _records_of(path)
        try:
            return self._opened[key].record(row - 1)
        except IndexError:
            message = f"the file has no record {row:,}"
            raise ValueError(message) from None


def _records_of(path: Path) -> _Records:
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

    def record(self, row: int) -> Mapping[str, object]:
        if not 0 <= row < len(self._starts) - 1:
            raise IndexError(row)
        with self._path.open("rb") as file:
            file.seek(int(self._starts[row]))
            line = file.read(int(self._starts[row + 1] - self._starts[row]))
        return _object(json.loads(line))


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

    def record(self, row: int) -> Mapping[str, object]:
        group, at = _place(self._ends, row)
        if self._kept is None or self._kept[0] != group:
            self._kept = group, self._file.read_row_group(group)
        return _object(self._kept[1].slice(at, 1).to_pylist()[0])


class _ArrowRecords:
    """The rows of an Arrow file, mapped into memory."""

    def __init__(self, path: Path, *, is_stream: bool) -> None:
        opened = pa.memory_map(str(path))
        self._batches = (
            (pa.ipc.open_stream(opened) if is_stream else pa.ipc.open_file(opened)).read_all().to_batches()
        )
        self._ends = list(accumulate(batch.num_rows for batch in self._batches))

    def record(self, row: int) -> Mapping[str, object]:
        batch, at = _place(self._ends, row)
        return _object(self._batches[batch].slice(at, 1).to_pylist()[0])


def _place(ends: list[int], row: int) -> tuple[int, int]:
    """The part of a file that holds a row, and the row's place in the part."""
    if not 0 <= row < (ends[-1] if ends else 0):
        raise IndexError(row)
    part = bisect_right(ends, row)
    return part, row - (ends[part - 1] if part else 0)


def _object(value: object) -> Mapping[str, object]:
    if isinstance(value, Mapping):
        return value
    message = "the record is no object"
    raise ValueError(message)


def picture_in(record: Mapping[str, object], number: int) -> bytes:
    """The bytes of a picture that a record holds.

    Args:
        record: The record.
        number: The picture's number in it, from 0: in the order of the messages, where parts without a file or bytes
            take those of the column beside them.

    Raises:
        ValueError: The record holds no such picture.
    """
    column = next((name for name in _COLUMNS if record.get(name) is not None), None)
    beside = [] if column is None else _listed(record[column])
    following = iter(beside)
    found: list[bytes | str | None] = [
        _source(part) or _source(next(following, None)) for part in _parts(_messages(record))
    ] or [_source(each) for each in beside]
    held = found[number] if number < len(found) else None
    if isinstance(held, bytes):
        return held
    message = f"the record has no bytes of a picture {number}"
    raise ValueError(message)


def _messages(record: Mapping[str, object]) -> list[object]:
    """The messages of a record: those of its conversation, or of a prompt and its completion.

    Where a job has named other fields, all of them are looked through.
    """
    given = [name for name in _CONVERSATIONS if record.get(name) is not None][:1]
    given = given or [name for name in ("prompt", "completion") if record.get(name) is not None]
    names = given or [name for name in record if name not in _COLUMNS]
    return [_unfolded(record[name]) for name in names]


def _unfolded(value: object) -> object:
    """A value, or what a text of JSON holds."""
    is_json = isinstance(value, str) and value.lstrip().startswith("[")
    return json.loads(value) if is_json else value  # type: ignore[arg-type]  # the line above asks


def _listed(value: object) -> list[object]:
    """The pictures in a column: a list, a text that is one, or a single picture."""
    value = _unfolded(value)
    return list(value) if is_series(value) else [value]


def _parts(value: object) -> Iterator[Mapping[str, object]]:
    """The parts of messages that are pictures, in the order of the conversation."""
    if isinstance(value, Mapping):
        if value.get("type") in _TYPES:
            yield value
            return
        for each in value.values():
            yield from _parts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _parts(each)


def _source(value: object, key: str = "") -> bytes | str | None:
    """The bytes of a picture, or its path; `None` if it has neither."""
    if isinstance(value, Mapping):
        named = next((name for name in _SOURCES if value.get(name) is not None), None)
        return None if named is None else _source(value[named], named)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if not isinstance(value, str):
        return None
    if value.startswith("data:"):
        return base64.b64decode(value.partition(";base64,")[2])
    return base64.b64decode(value) if key in _ENCODED or len(value) > _LONGEST_PATH else value
