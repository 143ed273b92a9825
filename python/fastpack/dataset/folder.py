"""`Folder`: the shards of a packed folder, and their rows, read in place."""

from __future__ import annotations

import errno
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from fastpack.arguments.checks import folder_of, shown
from fastpack.arguments.failures import about
from fastpack.dataset.manifest import is_of_fastpack, json_of, manifest_of, refuse_outside
from fastpack.errors import FastpackError, InputNotFoundError, OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from fastpack.types import JsonValue, StrPath

__all__ = ["Folder", "Shard", "column_differences", "read", "stored_table_of", "table_of"]

TRAIN: Final = "train"
"""The split that a folder without splits has."""

_SPLITS: Final = (TRAIN, "validation")

_STATE: Final = "state.json"
"""The file in which `datasets.save_to_disk` lists the files of rows."""

_KINDS: Final = (".arrow", ".parquet", ".jsonl")
"""The endings of files of rows that can be read."""


class Shard(NamedTuple):
    """A file of rows.

    Attributes:
        path: The path of the file.
        split: The split of its rows.
        bytes: The size that the manifest records; `None` without a manifest.
        blake3: The hash that the manifest records, in hexadecimal; `None` without a manifest.
        rows: The number of rows that the manifest records; `None` without a manifest.
    """

    path: Path
    split: str
    bytes: int | None = None
    blake3: str | None = None
    rows: int | None = None


class Folder:
    """A folder of packed rows, of `pack_dir` or of another tool.

    The manifest lists the shards, so other files, such as the `cache-*.arrow` of `datasets`, are
    left out. Without a manifest the list of `datasets.save_to_disk` says it, or else the names.

    Attributes:
        path: The path of the folder.
        manifest: The content of `manifest.json`; empty where there is none.
        shards: The files of rows, in order.
    """

    def __init__(self, path: StrPath, *, sized: bool = True) -> None:
        """Reads the manifest.

        Args:
            path: The path of the folder.
            sized: Whether the shards must have the sizes that the manifest records.

        Raises:
            InputNotFoundError: There is no such folder.
            FastpackError: The folder holds no packed rows, its manifest has changed since fastpack wrote it or lists a
                file outside the folder, or a shard is missing or has another size.
        """
        self.path = Path(folder_of("folder", path))
        if not self.path.is_dir():
            raise InputNotFoundError(errno.ENOENT, "no such folder of packed rows", str(self.path))
        self.manifest = manifest_of(self.path)
        is_ours = is_of_fastpack(self.manifest)
        self.shards = list(self._listed() if is_ours else self._found())
        if not self.shards:
            message = (
                f"{self.path} holds no packed rows: no `manifest.json` of `pack_dir`, and no file "
                f"ending in {', '.join(_KINDS)}"
            )
            raise FastpackError(message)
        for shard in self.shards if sized and is_ours else ():
            _check_size(shard)

    def __reduce__(self) -> tuple[Callable[[str, str], Folder], tuple[str, str]]:
        """Pickles the path, and which rows lie there."""
        return _reopened, (str(self.path), self.mark_of_rows())

    def mark_of_rows(self) -> str:
        """A hash of the names, sizes and hashes of the shards; of their times, where no manifest has their hashes."""
        hasher = hashlib.sha256()
        for shard in self.shards:
            with about(shard.path, "cannot be read"):
                found = shard.path.stat()
            version = shard.blake3 or found.st_mtime_ns
            name = shard.path.relative_to(self.path).as_posix()
            hasher.update(f"{name}\n{found.st_size}\n{version}\n".encode())
        return hasher.hexdigest()

    @property
    def splits(self) -> list[str]:
        """The splits that have rows, `train` first."""
        found = dict.fromkeys(shard.split for shard in self.shards)
        return sorted(found, key=lambda split: (split != TRAIN, split))

    @property
    def options(self) -> Mapping[str, JsonValue]:
        """The options that the rows were packed with; empty without a manifest."""
        rows = self.of_job("row_options")
        packing = rows.get("packing")
        return {**self.of_job("token_options"), **rows, **(packing if isinstance(packing, dict) else {})}

    def of_job(self, part: str) -> Mapping[str, JsonValue]:
        """A part of the job's identity in the manifest; empty if it has no such part."""
        job = self.manifest.get("job")
        found = job.get(part) if isinstance(job, dict) else None
        return found if isinstance(found, dict) else {}

    @property
    def keeps_tokens(self) -> bool:
        """Whether the folder holds `tokens.fastpack`, which `keep_tokens=True` writes."""
        return bool(self.manifest.get("tokens"))

    def of(self, split: str) -> list[Shard]:
        """The shards of a split.

        Raises:
            OptionError: The folder has no such split.
        """
        found = [shard for shard in self.shards if shard.split == split]
        if not found:
            has = ", ".join(f"`{name}`" for name in self.splits)
            message = f"{self.path} has no split `{shown(split)}`; it has {has}"
            raise OptionError(message, "split")
        return found

    def read(self, split: str, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of a split, in order. Arrow shards are mapped into memory; rows in the compact layout are expanded.

        Raises:
            OptionError: There is no such split or column.
            FastpackError: A shard cannot be read, or has other columns than the first.
        """
        stored = self.read_stored(split, columns)
        try:
            return expanded(stored)
        except FastpackError as broken:
            message = f"{self.path}, split `{split}`, {broken}"
            raise FastpackError(message) from broken

    def read_stored(self, split: str, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of a split as the files hold them: those in the compact layout are not expanded.

        Raises:
            OptionError: There is no such split or column.
            FastpackError: A shard cannot be read, or has other columns than the first.
        """
        import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing

        first, *others = shards = self.of(split)
        tables = [stored_table_of(shard.path) for shard in shards]
        for shard, table in zip(others, tables[1:], strict=True):
            for difference in column_differences(table.schema, tables[0].schema):
                message = (
                    f"{shard.path}: {difference} in {first.path.name}; the shards of a folder have the same columns: pack "
                    "again, or remove the shard of another job"
                )
                raise FastpackError(message)
        for shard, table in zip(shards, tables, strict=True):
            _check_rows(shard, table)
        whole = pa.concat_tables(tables)
        if columns is None:
            return whole
        compact = shown_columns(whole.schema)
        names = whole.column_names if compact is None else compact
        for name in columns:
            if name not in names:
                has = ", ".join(f"`{name}`" for name in names)
                message = f"{first.path} has no column `{shown(name)}`; it has {has}"
                raise OptionError(message, "columns")
        return whole.select(list(columns)) if compact is None else with_columns(whole, columns)

    def _listed(self) -> Iterator[Shard]:
        """The shards of the manifest."""
        files = self.manifest["files"]
        for file in files if isinstance(files, list) else []:
            if not isinstance(file, dict):
                continue
            name, size, rows, hashed = (file.get(key) for key in ("name", "bytes", "rows", "blake3"))
            yield Shard(
                self.path / str(name),
                _split_of(str(name)),
                size if isinstance(size, int) else None,
                str(hashed) if hashed else None,
                rows if isinstance(rows, int) else None,
            )

    def _found(self) -> Iterator[Shard]:
        """The files of rows in a folder without a manifest of fastpack."""
        for folder in (self.path, *(self.path / split for split in _SPLITS)):
            if not folder.is_dir():
                continue
            state = json_of(folder / _STATE) or {}
            listed = state.get("_data_files")
            if isinstance(listed, list):
                names = [str(file.get("filename")) for file in listed if isinstance(file, dict)]
                refuse_outside(folder, names, _STATE)
            else:
                with about(folder, "cannot be listed"):
                    names = sorted(file.name for file in folder.iterdir() if _holds_rows(file))
            for name in names:
                yield Shard(folder / name, _split_of(str((folder / name).relative_to(self.path))))


def _reopened(path: str, mark: str) -> Folder:
    """A pickled folder.

    Raises:
        FastpackError: It holds other rows than when it was pickled.
    """
    folder = Folder(path)
    if folder.mark_of_rows() != mark:
        message = (
            f"{path} holds other rows than when this was pickled: it was overwritten since; open it again"
        )
        raise FastpackError(message)
    return folder


def read(folder: StrPath, *, split: str = TRAIN, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of a folder that `pack_dir` wrote, all shards as one table.

    Uncompressed Arrow shards are mapped into memory: nothing is copied, and processes that read the same folder
    share it. Rows in the compact layout are expanded in memory to those of the full layout. Other files in the folder, such as the `cache-*.arrow` of `datasets`, are left out.

    Args:
        folder: The folder.
        split: `train` or `validation`.
        columns: The columns to read; if not given, all.

    Returns:
        The rows in their order.

    Raises:
        InputNotFoundError: There is no such folder.
        OptionError: It has no such split or column.
        FastpackError: It holds no packed rows, a shard cannot be read or has another size than the manifest says, or
            shards have different columns.

    Examples:
        >>> import fastpack, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     report = fastpack.pack_dir(
        ...         "examples/chat.jsonl", folder, tokenizer="examples/tokenizer", max_length=512
        ...     )
        ...     rows = fastpack.read(folder).num_rows
        >>> rows == report.rows
        True
    """
    return Folder(folder).read(split, columns)


def table_of(path: Path) -> pa.Table:
    """The rows of a file in the full layout.

    Raises:
        InputNotFoundError: There is no such file.
        FastpackError: It cannot be read as rows.
    """
    stored = stored_table_of(path)
    try:
        return expanded(stored)
    except FastpackError as broken:
        message = f"{path}, {broken}"
        raise FastpackError(message) from broken


def shown_columns(schema: pa.Schema) -> list[str] | None:
    """The full-layout columns of rows in the compact layout; `None` for rows in the full layout."""
    from fastpack import _fastpack  # noqa: PLC0415  importing fastpack is to cost nothing

    said = (schema.metadata or {}).get(_fastpack.COMPACT_KEY.encode())
    return _fastpack.shown_columns(schema.names, said)


def with_columns(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Sets the full-layout columns of a table in the compact layout."""
    from fastpack import _fastpack  # noqa: PLC0415  importing fastpack is to cost nothing

    return table.replace_schema_metadata({_fastpack.COMPACT_KEY: json.dumps(list(columns))})


def expanded(table: pa.Table) -> pa.Table:
    """A table in the full layout: one in the compact layout is expanded in memory.

    Raises:
        FastpackError: Runs of labels or lengths contradict the tokens.
    """
    from fastpack import _fastpack  # noqa: PLC0415  importing fastpack is to cost nothing

    shown = shown_columns(table.schema)
    return table if shown is None else _fastpack.expand_rows(table, shown)


def stored_table_of(path: Path) -> pa.Table:
    """The rows of a file as it holds them; those of an uncompressed Arrow file are mapped into memory.

    Raises:
        InputNotFoundError: There is no such file.
        FastpackError: It cannot be read as rows.
    """
    if not path.is_file():
        raise InputNotFoundError(errno.ENOENT, "no such file of packed rows", str(path))
    readers = {".arrow": _from_arrow, ".parquet": _from_parquet, ".jsonl": _from_jsonl}
    reader = readers.get(path.suffix)
    if reader is None:
        message = f'{path}: rows in `{path.suffix}` files are not read; pack with format="arrow" or "parquet"'
        raise FastpackError(message)
    with about(path, f"cannot be read as {path.suffix[1:]}", "pack again"):
        table = reader(path)
        # Offsets that lead out of their column would be read as something else.
        table.validate(full=True)
    return table


def _from_arrow(path: Path) -> pa.Table:
    """An Arrow stream, as `pack_dir` and `datasets` write it, or an Arrow file."""
    import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing

    mapped = pa.memory_map(str(path))
    if mapped.read(6) == b"ARROW1":
        return pa.ipc.open_file(mapped).read_all()
    mapped.seek(0)
    return pa.ipc.open_stream(mapped).read_all()


def _from_parquet(path: Path) -> pa.Table:
    import pyarrow.parquet as pq  # noqa: PLC0415  importing fastpack is to cost nothing

    file = pq.ParquetFile(path)
    return file.read().replace_schema_metadata(file.schema_arrow.metadata)


def _from_jsonl(path: Path) -> pa.Table:
    """Lines of JSON; columns get the types that they have in the other formats."""
    import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing
    import pyarrow.json as pj  # noqa: PLC0415

    # A block holds one line at least, and a line may be long.
    read = pj.read_json(path, pj.ReadOptions(block_size=max(1 << 20, min(path.stat().st_size, 1 << 30))))
    narrow: dict[str, pa.DataType] = {"source_row": pa.int64(), "loss_weights": pa.float32()}
    for at, field in enumerate(read.schema):
        if pa.types.is_list(field.type):
            # The truths of several classes are written with a decimal point, all other numbers without.
            is_real = pa.types.is_floating(field.type.value_type)
            wanted = pa.list_(narrow.get(field.name, pa.float32() if is_real else pa.int32()))
            read = read.set_column(at, field.name, read.column(at).cast(wanted))
    return read


def column_differences(schema: pa.Schema, wanted: pa.Schema) -> Iterator[str]:
    """Describes each column that two schemas do not share: "column `labels` is missing, but list<item: int32>"."""
    for name in dict.fromkeys([*wanted.names, *schema.names]):
        here, there = (
            columns.field(name).type if name in columns.names else None for columns in (schema, wanted)
        )
        if here != there:
            yield f"column `{name}` is {here or 'missing'}, but {there or 'missing'}"


def _check_size(shard: Shard) -> None:
    """Refuses a shard that is missing or has another size than the manifest says."""
    with about(shard.path, "cannot be read"):
        if not shard.path.is_file():
            raise InputNotFoundError(errno.ENOENT, "no such file of packed rows", str(shard.path))
        size = shard.path.stat().st_size
    if shard.bytes not in {None, size}:
        message = (
            f"{shard.path}: has {size:,} bytes, but {shard.bytes or 0:,} by the manifest: it has changed since it was "
            "written; pack again, and see `fastpack verify`"
        )
        raise FastpackError(message)


def _check_rows(shard: Shard, table: pa.Table) -> None:
    """Refuses a shard with other rows than the manifest says: another job or program has written it."""
    if shard.rows in {None, table.num_rows}:
        return
    message = (
        f"{shard.path}: has {table.num_rows:,} rows, but {shard.rows or 0:,} by the manifest: it has changed since it was "
        "written; pack again, and see `fastpack verify`"
    )
    raise FastpackError(message)


def _holds_rows(file: Path) -> bool:
    """Whether a file has the name of a shard, not of the cache of `datasets`."""
    return file.suffix in _KINDS and not file.name.startswith(("cache-", ".", "tmp"))


def _split_of(name: str) -> str:
    """The split named by a shard's file name; `train` for a shard that is named after its input."""
    return next((split for split in _SPLITS if name.startswith((f"{split}/", f"{split}-"))), TRAIN)
