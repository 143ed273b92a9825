"""A packed row in words: its documents, their boundaries, and which tokens are trained."""

from __future__ import annotations

import errno
import json
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from fastpack._checks import regular_file
from fastpack._types import NOT_TRAINED
from fastpack.errors import FastpackError, InputNotFoundError, OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastpack._fastpack import Pretrained

__all__ = ["describe"]

_GREEN: Final = "\x1b[32m"
_DIM: Final = "\x1b[2m"
_PLAIN: Final = "\x1b[0m"


class _Row(NamedTuple):
    """A row as lists; a column that the file does not have is empty."""

    input_ids: list[int]
    labels: list[int]
    position_ids: list[int]
    seq_lengths: list[int]

    def boundaries(self) -> list[tuple[int, int]]:
        """Where each document begins and ends."""
        if self.seq_lengths:
            ends = [sum(self.seq_lengths[: at + 1]) for at in range(len(self.seq_lengths))]
            return list(zip([0, *ends[:-1]], ends, strict=True))
        starts = [at for at, position in enumerate(self.position_ids) if position == 0] or [0]
        return list(zip(starts, [*starts[1:], len(self.input_ids)], strict=True))


def describe(file: str, row: int, tokenizer: str | None, *, color: bool) -> Iterator[str]:
    """The lines that show row `row` of `file`.

    Trained tokens stand in colour, or between « and » where colour is not wanted. A token that begins a
    document carries no label: nothing predicts it.
    """
    path = Path(file)
    found, rows = _read(path, row)
    pretrained = _tokenizer_of(path, tokenizer)
    boundaries = found.boundaries()
    trained = sum(label != NOT_TRAINED for label in found.labels)
    share = f", {trained:,} trained" if found.labels else ""
    yield (
        f"{file}, row {row} of {rows:,}: {len(found.input_ids):,} tokens, "
        f"{len(boundaries):,} documents{share}"
    )
    for number, (start, end) in enumerate(boundaries):
        labels = found.labels[start:end]
        trained = sum(label != NOT_TRAINED for label in labels)
        share = f", {trained:,} trained" if labels else ""
        yield ""
        heading = f"── document {number}: tokens {start:,} to {end - 1:,}{share} ──"
        yield f"{_DIM}{heading}{_PLAIN}" if color else heading
        yield _text(found.input_ids[start:end], labels, pretrained, color=color)


def _text(ids: list[int], labels: list[int], pretrained: Pretrained | None, *, color: bool) -> str:
    opening, closing = (_GREEN, _PLAIN) if color else ("«", "»")
    masks = [label != NOT_TRAINED for label in labels] or [False] * len(ids)
    shown = []
    for trained, stretch in groupby(zip(masks, ids, strict=True), key=lambda pair: pair[0]):
        part = [token for _, token in stretch]
        text = pretrained.decode(part) if pretrained else " ".join(map(str, part))
        shown.append(f"{opening}{text}{closing}" if trained else text)
    return ("" if pretrained else " ").join(shown)


def _read(path: Path, row: int) -> tuple[_Row, int]:
    """The row, and how many the file has."""
    if not path.exists():
        raise InputNotFoundError(errno.ENOENT, "no such file", str(path))
    if not path.is_file():
        what = "a folder; name a file in it" if path.is_dir() else "no file that can be looked into"
        message = f"{path} is {what}, such as train-00000.arrow"
        raise FastpackError(message)
    readers = {".jsonl": _from_jsonl, ".parquet": _from_parquet, ".msgpack": _from_msgpack}
    found, rows = readers.get(path.suffix, _from_arrow)(path, row)
    if found is None:
        message = f"invalid option `row`: `{path}` has rows 0 to {rows - 1}, not `{row}`"
        raise OptionError(message, "row")
    return found, rows


def _from_arrow(path: Path, row: int) -> tuple[_Row | None, int]:
    import pyarrow as pa  # noqa: PLC0415  slow to import

    from fastpack._compact import expanded  # noqa: PLC0415  loads pyarrow

    found, rows = None, 0
    try:
        with pa.OSFile(str(path), "rb") as source, pa.ipc.open_stream(source) as reader:
            for batch in reader:
                if rows <= row < rows + batch.num_rows:
                    columns = expanded(pa.Table.from_batches([batch.slice(row - rows, 1)])).to_pydict()
                    found = _row({name: values[0] for name, values in columns.items()}, path, row)
                rows += batch.num_rows
    except pa.ArrowInvalid as refused:
        message = f"{path} is no Arrow stream file; name one that `fastpack pack` wrote"
        raise FastpackError(message) from refused
    return found, rows


def _from_parquet(path: Path, row: int) -> tuple[_Row | None, int]:
    import pyarrow as pa  # noqa: PLC0415  slow to import
    import pyarrow.parquet as pq  # noqa: PLC0415

    from fastpack._compact import expanded  # noqa: PLC0415  loads pyarrow

    found, rows = None, 0
    try:
        with pq.ParquetFile(path) as file:
            for number in range(file.num_row_groups):
                count = file.metadata.row_group(number).num_rows
                if rows <= row < rows + count:
                    group = file.read_row_group(number).replace_schema_metadata(file.schema_arrow.metadata)
                    columns = expanded(group.slice(row - rows, 1)).to_pydict()
                    found = _row({name: values[0] for name, values in columns.items()}, path, row)
                rows += count
    except pa.ArrowInvalid as refused:
        message = f"{path} is no Parquet file; name one that `fastpack pack` wrote"
        raise FastpackError(message) from refused
    return found, rows


def _from_msgpack(path: Path, _row: int) -> tuple[_Row | None, int]:
    message = f"{path}: rows in MessagePack are not shown; read them with `msgpack.Unpacker`"
    raise FastpackError(message)


def _from_jsonl(path: Path, row: int) -> tuple[_Row | None, int]:
    found, rows = None, 0
    with path.open("rb") as lines:
        for line in lines:
            if rows == row:
                try:
                    found = _row(json.loads(line), path, row)
                except ValueError as refused:
                    message = f"{path}, line {row + 1}: no JSON"
                    raise FastpackError(message) from refused
            rows += 1
    return found, rows


def _row(columns: object, path: Path, row: int) -> _Row:
    """The columns that are shown, if they are what `fastpack pack` writes."""
    if isinstance(columns, dict) and "input_ids" in columns:
        lists = [columns.get(name, []) for name in _Row._fields]
        if all(isinstance(ids, list) and all(isinstance(entry, int) for entry in ids) for ids in lists):
            return _Row(*lists)
    message = (
        f"{path}, row {row}: no packed row: `input_ids` and the columns beside it hold lists of integers"
    )
    raise FastpackError(message)


def _tokenizer_of(path: Path, given: str | None) -> Pretrained | None:
    """The tokenizer given, or the one that the report of its folder names; nothing if there is none."""
    from fastpack._tokenizer import load  # noqa: PLC0415  loads the native module

    if given is not None:
        return load(given, revision=None, token=None)
    # The files of a split may lie in a folder of their own.
    reports = [folder / "report.json" for folder in path.absolute().parents[:2]]
    try:
        report = next((report for report in reports if report.exists()), reports[0])
        named = json.loads(regular_file(report).read_text(encoding="utf-8")).get("tokenizer")
    except (OSError, ValueError):
        return None
    if not isinstance(named, str):
        return None
    try:
        return load(named, revision=None, token=None)
    except FastpackError:
        return None  # it has moved since: ids are better than nothing
