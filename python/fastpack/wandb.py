"""Packed rows in Weights & Biases: logs a folder as an artifact with tables of its text, and downloads it."""

from __future__ import annotations

import json
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastpack.arguments.checks import folder_of, is_series, regular_file
from fastpack.dataset.folder import Folder, table_of
from fastpack.dataset.inspection import inspect
from fastpack.dataset.manifest import MANIFEST, REPORT
from fastpack.errors import FastpackError
from fastpack.report.report import Report

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fastpack.types import Files, StrPath

__all__ = ["log", "use"]

try:
    import wandb
except ImportError as missing:
    _needed = "fastpack.wandb needs `wandb`: pip install 'fastpack-train[wandb]'"
    raise ImportError(_needed) from missing

_TYPE: Final = "dataset"
"""The type of the artifacts."""

_ROWS: Final = 100
"""The default number of rows or records in a table."""


def log(
    folder: StrPath,
    run: wandb.Run | None = None,
    inputs: Files | None = None,
    *,
    name: str | None = None,
    aliases: Sequence[str] = (),
    rows: int = _ROWS,
) -> wandb.Artifact:
    """Logs a packed folder as an artifact, its splits as tables with their text, and the numbers of its report.

    The artifact holds the files that the manifest lists, the manifest and the report. Its metadata has `max_seq_len`,
    `model_id` (the tokenizer, as the report names it), and the numbers of the report.

    Args:
        folder: A folder that `pack_dir` wrote.
        run: The run to log to; the one that is active, or a new one for this call, if not given.
        inputs: Files of records that are logged as tables too: lines of text or JSON, Parquet, or Arrow.
        name: The name of the artifact; the folder's if not given.
        aliases: Names of this version beside `latest`.
        rows: The number of rows and records in the tables, from the first on.

    Returns:
        The artifact.

    Raises:
        InputNotFoundError: There is no such folder.
        FastpackError: It holds no packed rows, or an input cannot be shown.
    """
    packed, report = Folder(folder), Report.of(folder)
    numbers = {key: value for key, value in report.to_dict().items() if isinstance(value, (int, float, str))}
    metadata = {
        "max_seq_len": report.max_length,
        "model_id": report.to_dict().get("tokenizer"),
        "fastpack": numbers,
    }
    with _running(run) as active:
        artifact = wandb.Artifact(name or packed.path.absolute().name, type=_TYPE, metadata=metadata)
        # Shards are read before they are added: an error of theirs names the file.
        for split in packed.splits:
            artifact.add(_split_table(packed, split, rows), f"{split}_rows")
        for path in _files(packed):
            artifact.add_file(str(path), name=path.relative_to(packed.path).as_posix())
        for path in _paths(inputs):
            artifact.add(_input_table(path, rows), f"inputs/{path.name}")
        logged = active.log_artifact(artifact, aliases=["latest", *aliases])
        active.summary.update({f"fastpack/{key}": value for key, value in numbers.items()})
    return logged


def use(name: str, run: wandb.Run | None = None, root: StrPath | None = None) -> Path:
    """Downloads a folder that `log` logged, and records that the run uses it.

    Args:
        name: The artifact, such as `packed:latest`.
        run: The run that uses it; the one that is active, or a new one for this call, if not given.
        root: The folder to write; chosen by `wandb` if not given.

    Returns:
        The folder of packed rows.

    Raises:
        FastpackError: The artifact holds no packed rows.
    """
    with _running(run) as active:
        artifact = active.use_artifact(name, type=_TYPE)
        folder = Path(artifact.download(root=None if root is None else folder_of("root", root)))
    Folder(folder)
    return folder


@contextmanager
def _running(run: wandb.Run | None) -> Iterator[wandb.Run]:
    """The run given, or the active one; otherwise a new one, which ends with the call."""
    active = run or wandb.run
    if active is not None:
        yield active
        return
    with wandb.init(job_type="fastpack") as started:
        yield started


def _files(packed: Folder) -> Iterator[Path]:
    """The shards, the manifest, the report and the dataset card."""
    for shard in packed.shards:
        yield packed.path / shard.name
    names = [name for name in (MANIFEST, REPORT, "README.md") if (packed.path / name).is_file()]
    for name in names:
        packed.files.refuse_outside([name], name)
        yield packed.path / name


def _split_table(packed: Folder, split: str, most: int) -> wandb.Table:
    """The first rows of a split: the number of documents and tokens in each, and its text with trained parts marked."""
    count = packed.read(split, ["input_ids"]).num_rows
    table = wandb.Table(columns=["row", "documents", "tokens", "trained", "text"])
    for number in range(min(count, most)):
        row = inspect(packed.path, number, split=split)
        trained = sum(document.trained for document in row.documents)
        table.add_data(number, len(row.documents), row.tokens, trained, str(row))
    return table


def _input_table(path: Path, most: int) -> wandb.Table:
    """The first records of a file, each as text."""
    table = wandb.Table(columns=["record", "text"])
    for number, text in enumerate(islice(_records(path), most), 1):
        table.add_data(number, text)
    return table


def _records(path: Path) -> Iterator[str]:
    """The records of a file as text."""
    if path.suffix in {".arrow", ".parquet"}:
        for batch in table_of(path).to_batches():
            yield from (json.dumps(record, ensure_ascii=False, default=str) for record in batch.to_pylist())
        return
    try:
        with regular_file(path).open(encoding="utf-8") as lines:
            yield from (line.rstrip("\n") for line in lines)
    except OSError as refused:
        message = f"{path} cannot be shown: {refused.strerror or refused}"
        raise FastpackError(message) from refused
    except UnicodeDecodeError as refused:
        message = f"{path} cannot be shown: it holds no text, JSON, Parquet or Arrow ({refused})"
        raise FastpackError(message) from refused


def _paths(inputs: Files | None) -> Iterable[Path]:
    if inputs is None:
        return []
    return [Path(str(path)).expanduser() for path in (inputs if is_series(inputs) else [inputs])]
