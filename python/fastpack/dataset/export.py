"""Packed rows in the file formats of other trainers: Megatron's token files, Megatron-Bridge's Parquet, and numpy."""

from __future__ import annotations

import struct
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from fastpack.arguments.checks import check_choice, local_path
from fastpack.arguments.failures import about
from fastpack.dataset.folder import TRAIN, Folder
from fastpack.dataset.packed_files import RemoteAccess
from fastpack.errors import FastpackError, OutputError
from fastpack.storage.removal import Temporary
from fastpack.types import NOT_TRAINED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from fastpack.options.storage import Storage
    from fastpack.types import StrPath

    Numbers = npt.NDArray[np.int64]

__all__ = ["ExportFormat", "export"]

ExportFormat: TypeAlias = Literal["megatron", "megatron_bridge", "numpy"]

_INT32: Final = 4
"""Megatron's number for the type of 32-bit tokens."""

_UINT16: Final = 8
"""Megatron's number for the type of 16-bit tokens."""


def export(
    folder: StrPath,
    output: StrPath,
    *,
    format: ExportFormat,  # noqa: A002  as in `pack_dir`
    split: str = TRAIN,
    storage: Mapping[str, str] | Storage | None = None,
    cache_dir: StrPath | None = None,
) -> list[Path]:
    """Writes the rows of a packed folder in the format of another trainer.

    `megatron` writes `OUTPUT.bin` and `OUTPUT.idx`, with each document of a row as a document: the token files that
    Megatron-LM maps into memory, with 16-bit tokens where they fit. Labels are not in this format. `megatron_bridge`
    writes `OUTPUT.parquet` with `input_ids`, `loss_mask` (1 at tokens that are trained) and `seq_start_id`, a row each. `numpy` writes `OUTPUT.npz` with
    all values of `input_ids`, `labels` and `seq_lengths` end to end, and where the rows begin.

    Args:
        folder: The folder that `pack_dir` wrote; also a URL of one in remote storage.
        output: The path of the files, without their suffix.
        format: The format to write.
        split: `train` or `validation`.
        storage: Options of remote storage, or a `Storage`, as for `pack_dir`.
        cache_dir: The folder of the cache, as for `read`.

    Returns:
        The files that were written.

    Raises:
        OptionError: There is no such format or split.
        OutputError: A file is there already.
        StorageError: A file cannot be written.
        FastpackError: The rows lack a column, or cannot be read.
    """
    check_choice("format", format, ExportFormat)
    base = local_path("output", output, "a path")
    writers: dict[str, tuple[tuple[str, ...], Callable[[pa.Table, list[Path]], None]]] = {
        "megatron": ((".bin", ".idx"), _megatron),
        "megatron_bridge": ((".parquet",), _megatron_bridge),
        "numpy": ((".npz",), _numpy),
    }
    endings, write = writers[format]
    paths = [Path(base + ending) for ending in endings]
    for path in paths:
        if path.exists():
            raise OutputError(17, "is there already; remove it, or export to another path", str(path))
    packed = Folder(folder, access=RemoteAccess.of("export", storage, cache_dir))
    table = packed.read(split)
    for name in ("input_ids", "seq_lengths", *(() if format == "megatron" else ("labels",))):
        if name not in table.column_names:
            message = f"{packed.name} has no column `{name}`, which this format needs; pack with it among the columns"
            raise FastpackError(message)
    # Written under temporary names first, so that a failure leaves no partial files.
    with about(base, f"cannot be written as {format}"), ExitStack() as stack:
        parts = [stack.enter_context(Temporary(path)) for path in paths]
        write(table, [part.path for part in parts])
        for part in parts:
            part.place()
    return paths


def _values(table: pa.Table, name: str) -> tuple[Numbers, Numbers]:
    """All values of a list column, concatenated, and the offsets of the rows."""
    import numpy as np  # noqa: PLC0415  importing fastpack is to cost nothing
    import pyarrow.compute as pc  # noqa: PLC0415

    column = table[name].combine_chunks()
    values = pc.list_flatten(column)
    if column.null_count or values.null_count:
        message = f"column `{name}` has nulls, which packed rows have not"
        raise FastpackError(message)
    sizes = pc.list_value_length(column).to_numpy()
    return values.to_numpy(), np.append(0, np.cumsum(sizes, dtype=np.int64))


def _megatron(table: pa.Table, paths: list[Path]) -> None:
    import numpy as np  # noqa: PLC0415  importing fastpack is to cost nothing

    ids, _ = _values(table, "input_ids")
    sizes = _values(table, "seq_lengths")[0].astype(np.int32)
    narrow = not len(ids) or int(ids.max()) < 1 << 16
    tokens = ids.astype(np.uint16 if narrow else np.int32)
    tokens.tofile(paths[0])
    ends = sizes.cumsum(dtype=np.int64)
    pointers = (ends - sizes) * tokens.itemsize
    with paths[1].open("wb") as index:
        index.write(b"MMIDIDX\x00\x00")
        index.write(struct.pack("<QBQQ", 1, _UINT16 if narrow else _INT32, len(sizes), len(sizes) + 1))
        for values in (sizes, pointers, np.arange(len(sizes) + 1, dtype=np.int64)):
            index.write(values.tobytes())


def _megatron_bridge(table: pa.Table, paths: list[Path]) -> None:
    import numpy as np  # noqa: PLC0415  importing fastpack is to cost nothing
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    ids, row_offsets = _values(table, "input_ids")
    labels, _ = _values(table, "labels")
    lengths, rows = _values(table, "seq_lengths")
    starts = lengths.cumsum(dtype=np.int64) - lengths
    row_of = np.repeat(np.arange(table.num_rows), np.diff(rows))
    columns = {
        "input_ids": (ids.astype(np.int32), row_offsets),
        "loss_mask": ((labels != NOT_TRAINED).astype(np.int8), row_offsets),
        "seq_start_id": ((starts - row_offsets[row_of]).astype(np.int32), rows),
    }
    lists = {
        name: pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(values))
        for name, (values, ends) in columns.items()
    }
    pq.write_table(pa.table(lists), paths[0])


def _numpy(table: pa.Table, paths: list[Path]) -> None:
    import numpy as np  # noqa: PLC0415  importing fastpack is to cost nothing

    ids, row_offsets = _values(table, "input_ids")
    lengths, rows = _values(table, "seq_lengths")
    with paths[0].open("wb") as file:
        np.savez(
            file,
            input_ids=ids,
            labels=_values(table, "labels")[0],
            row_offsets=row_offsets,
            seq_lengths=lengths,
            seq_offsets=rows,
        )
