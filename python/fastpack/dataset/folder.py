"""`Folder`: the shards of a packed folder, and their rows, read in place."""

from __future__ import annotations

import errno
import itertools
import json
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from fastpack._fastpack import line_fault
from fastpack.arguments.checks import shown
from fastpack.arguments.failures import about
from fastpack.dataset.manifest import is_of_fastpack, json_of, manifest_of
from fastpack.dataset.packed_files import ListedFile, LocalFiles, RemoteAccess, files_of
from fastpack.dataset.pictures.references import typed_pictures
from fastpack.errors import FastpackError, InputNotFoundError, OptionError
from fastpack.types import IMAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from fastpack.dataset.packed_files import RemoteFiles
    from fastpack.options.storage import Storage
    from fastpack.types import JsonValue, StrPath

__all__ = ["Folder", "Shard", "check_names", "column_differences", "read", "stored_table_of", "table_of"]

TRAIN: Final = "train"
"""The split that a folder without splits has."""

_SPLITS: Final = (TRAIN, "validation")

_STATE: Final = "state.json"
"""The file in which `datasets.save_to_disk` lists the files of rows."""

ROWS: Final = (".arrow", ".parquet", ".jsonl")
"""The endings of files of rows that can be read."""


class Shard(NamedTuple):
    """A file of rows.

    Attributes:
        file: The file, as the manifest lists it; its name alone without a manifest.
        split: The split of its rows.
        rows: The number of rows that the manifest records; `None` without a manifest.
    """

    file: ListedFile
    split: str
    rows: int | None = None

    @property
    def name(self) -> str:
        """The name in the folder."""
        return self.file.name


class Folder:
    """A folder of packed rows, of `pack_dir` or of another tool, on this machine or in remote storage.

    The manifest lists the shards, so other files, such as the `cache-*.arrow` of `datasets`, are
    left out. Without a manifest the list of `datasets.save_to_disk` says it, or else the names; in remote storage the
    manifest has to be there.

    Attributes:
        files: The files of the folder.
        manifest: The content of `manifest.json`; empty where there is none.
        shards: The files of rows, in order.
    """

    def __init__(self, path: StrPath, *, sized: bool = True, access: RemoteAccess | None = None) -> None:
        """Reads the manifest.

        Args:
            path: The path of the folder; with `access` also a URL.
            sized: True if the shards must have the sizes that the manifest records.
            access: The options of remote storage; without them the folder is one of this machine.

        Raises:
            InputNotFoundError: There is no such folder.
            FastpackError: The folder holds no packed rows, its manifest has changed since fastpack wrote it or lists a
                file outside the folder, or a shard is missing or has another size.
        """
        self.files: LocalFiles | RemoteFiles = files_of("folder", path, access)
        self.manifest = manifest_of(self.files)
        is_ours = is_of_fastpack(self.manifest)
        if isinstance(self.files, LocalFiles):
            self.shards = list(self._listed() if is_ours else self._foreign_shards(self.files))
        else:
            self.shards = list(self._listed()) if is_ours else []
        if not self.shards:
            found = "" if self.files.is_remote else f", and no file ending in {', '.join(ROWS)}"
            message = f"{self.name} holds no packed rows: no `manifest.json` of `pack_dir`{found}"
            raise FastpackError(message)
        if sized and is_ours and isinstance(self.files, LocalFiles):
            for shard in self.shards:
                _check_size(self.files, shard)

    @property
    def name(self) -> str:
        """The path, or the URL without secrets."""
        return self.files.name

    @property
    def path(self) -> Path:
        """The path.

        Raises:
            FastpackError: The folder is in remote storage.
        """
        if isinstance(self.files, LocalFiles):
            return self.files.path
        message = f"{self.name} is in remote storage, and no folder of this machine; copy it here"
        raise FastpackError(message)

    def shown(self, shard: Shard) -> str:
        """The path or URL of a shard, for messages."""
        return self.files.shown(shard.name)

    @contextmanager
    def opened(self, shards: Sequence[Shard]) -> Iterator[list[Path]]:
        """The paths of shards on this machine; those in remote storage are fetched, and stay meanwhile.

        Raises:
            OptionError: There is no room for all of them in the cache.
            FastpackError: A shard cannot be fetched, or is not the one that the manifest lists.
        """
        held = self.files.hold([shard.file for shard in shards])
        try:
            paths = [file.path for file in held if file is not None]
            if len(paths) < len(held):
                needed = sum(shard.file.bytes or 0 for shard in shards)
                message = (
                    f"has no room for {needed:,} bytes of {self.name} at once; give more, or read the rows by a "
                    "fastpack.torch.PackedDataset, which needs some shards at a time"
                )
                raise OptionError(message, "storage.block_cache")
            yield paths
        finally:
            for file in held:
                if file is not None:
                    file.release()

    def __reduce__(
        self,
    ) -> tuple[Callable[[str | RemoteFiles, list[str]], Folder], tuple[str | RemoteFiles, list[str]]]:
        """Pickles the path or the URL with its options, and which shards lie there."""
        where = str(self.path) if isinstance(self.files, LocalFiles) else self.files
        return _reopened, (where, list(map(self.mark_of, self.shards)))

    def mark_of(self, shard: Shard) -> str:
        """The size and hash of a shard, which an append may rename; its name, size and time where no manifest has its hash."""
        if shard.file.blake3 or not isinstance(self.files, LocalFiles):
            return f"{shard.file.bytes} {shard.file.blake3 or shard.name}"
        with about(self.shown(shard), "cannot be read"):
            found = (self.files.path / shard.name).stat()
        return f"{shard.name} {found.st_size} {found.st_mtime_ns}"

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
        """True if the folder holds `tokens.fastpack`, which `keep_tokens=True` writes."""
        return bool(self.manifest.get("tokens"))

    def of(self, split: str) -> list[Shard]:
        """The shards of a split.

        Raises:
            OptionError: The folder has no such split.
        """
        found = [shard for shard in self.shards if shard.split == split]
        if not found:
            has = ", ".join(f"`{name}`" for name in self.splits)
            message = f"{self.name} has no split `{shown(split)}`; it has {has}"
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
            message = f"{self.name}, split `{split}`, {broken}"
            raise FastpackError(message) from broken

    def read_stored(self, split: str, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of a split as the files hold them: those in the compact layout are not expanded.

        Raises:
            OptionError: There is no such split or column.
            FastpackError: A shard cannot be read, or has other columns than the first.
        """
        import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing

        shards = self.of(split)
        tables: list[pa.Table] = []
        # A memory-mapped table needs all its shards at once; other formats are read a shard at a time.
        at_once = len(shards) if all(shard.name.endswith(".arrow") for shard in shards) else 1
        for start in range(0, len(shards), at_once):
            some = shards[start : start + at_once]
            with self.opened(some) as paths:
                tables += [self.table_of(shard, path) for shard, path in zip(some, paths, strict=True)]
        for shard, table in zip(shards, tables, strict=True):
            self.check_columns(shard, table.schema, (shards[0], tables[0].schema))
        for shard, table in zip(shards, tables, strict=True):
            self.check_rows(shard, table)
        whole = pa.concat_tables(tables)
        return self.selected(whole, columns)

    def table_of(self, shard: Shard, path: Path) -> pa.Table:
        """The rows of a shard that lies at `path`, as the file holds them.

        Raises:
            FastpackError: It cannot be read as rows.
        """
        return stored_table_of(path, self.shown(shard))

    def check_rows(self, shard: Shard, table: pa.Table) -> None:
        """Refuses a shard with other rows than the manifest says: another job or program has written it.

        Raises:
            FastpackError: It has others.
        """
        if shard.rows in {None, table.num_rows}:
            return
        message = (
            f"{self.shown(shard)}: has {table.num_rows:,} rows, but {shard.rows or 0:,} by the manifest: it has changed "
            "since it was written; pack again, and see `fastpack verify`"
        )
        raise FastpackError(message)

    def check_columns(self, shard: Shard, schema: pa.Schema, first: tuple[Shard, pa.Schema]) -> None:
        """Refuses a shard with other columns than the first.

        Raises:
            FastpackError: It has others.
        """
        for difference in column_differences(schema, first[1]):
            message = (
                f"{self.shown(shard)}: {difference} in {first[0].name}; the shards of a folder have the same columns: pack "
                "again, or remove the shard of another job"
            )
            raise FastpackError(message)

    def selected(self, table: pa.Table, columns: Sequence[str] | None) -> pa.Table:
        """Some columns of stored rows.

        Raises:
            OptionError: There is no such column.
        """
        if columns is None:
            return table
        compact = shown_columns(table.schema)
        names = table.column_names if compact is None else compact
        for name in columns:
            if name not in names:
                has = ", ".join(f"`{name}`" for name in names)
                message = f"{self.name} has no column `{shown(name)}`; it has {has}"
                raise OptionError(message, "columns")
        return table.select(list(columns)) if compact is None else with_columns(table, columns)

    def _listed(self) -> Iterator[Shard]:
        """The shards of the manifest."""
        files = self.manifest["files"]
        for file in files if isinstance(files, list) else []:
            if not isinstance(file, dict):
                continue
            name, size, rows = str(file.get("name")), file.get("bytes"), file.get("rows")
            hashed, parts = (str(file.get(key) or "") for key in ("blake3", "parts"))
            listed = ListedFile(name, size if isinstance(size, int) else None, hashed or None, parts)
            yield Shard(listed, _split_of(name), rows if isinstance(rows, int) else None)

    def _foreign_shards(self, files: LocalFiles) -> Iterator[Shard]:
        """The files of rows in a folder without a manifest of fastpack."""
        for folder in (files.path, *(files.path / split for split in _SPLITS)):
            if not folder.is_dir():
                continue
            state = json_of(folder / _STATE) or {}
            listed = state.get("_data_files")
            if isinstance(listed, list):
                names = [str(file.get("filename")) for file in listed if isinstance(file, dict)]
                LocalFiles(folder).refuse_outside(names, _STATE)
            else:
                with about(folder, "cannot be listed"):
                    names = sorted(file.name for file in folder.iterdir() if _holds_rows(file))
            for name in names:
                inside = (folder / name).relative_to(files.path).as_posix()
                yield Shard(ListedFile(inside, None, None), _split_of(inside))


def _reopened(where: str | RemoteFiles, marks: list[str]) -> Folder:
    """A pickled folder, with the shards that it had: others may have been appended since.

    Raises:
        FastpackError: It holds other rows than when it was pickled.
    """
    folder = Folder(where) if isinstance(where, str) else Folder(where.url, access=where.access)
    shards = {folder.mark_of(shard): shard for shard in folder.shards}
    if not shards.keys() >= set(marks):
        message = f"{folder.name} holds other rows than when this was pickled: it was overwritten since; open it again"
        raise FastpackError(message)
    folder.shards = [shards[mark] for mark in marks]
    return folder


def read(
    folder: StrPath,
    *,
    split: str = TRAIN,
    columns: Sequence[str] | None = None,
    storage: Mapping[str, str] | Storage | None = None,
    cache_dir: StrPath | None = None,
) -> pa.Table:
    """The rows of a folder that `pack_dir` wrote, all shards as one table.

    Uncompressed Arrow shards are mapped into memory: nothing is copied, and processes that read the same folder
    share it. Rows in the compact layout are expanded in memory to those of the full layout. Other files in the folder, such as the `cache-*.arrow` of `datasets`, are left out.

    Args:
        folder: The folder; also a URL of one in remote storage, whose shards are fetched into the cache.
        split: `train` or `validation`.
        columns: The columns to read; if not given, all.
        storage: Options of remote storage, or a `Storage`, as for `pack_dir`.
        cache_dir: A folder that keeps what a later call would make again: here what is fetched, half of the free disk if
            `storage` has no `block_cache`. A folder of the user, if not given.

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
    access = RemoteAccess.of("read", storage, cache_dir)
    return Folder(folder, access=access).read(split, columns)


def table_of(path: Path, named: str | None = None) -> pa.Table:
    """The rows of a file in the full layout. `named` is its name for messages, if it is not its path.

    Raises:
        InputNotFoundError: There is no such file.
        FastpackError: It cannot be read as rows.
    """
    stored = stored_table_of(path, named)
    try:
        return expanded(stored)
    except FastpackError as broken:
        message = f"{named or path}, {broken}"
        raise FastpackError(message) from broken


def shown_columns(schema: pa.Schema) -> list[str] | None:
    """The full-layout columns of rows in the compact layout; `None` for rows in the full layout."""
    from fastpack import _fastpack  # noqa: PLC0415  importing fastpack is to cost nothing

    recorded = (schema.metadata or {}).get(_fastpack.COMPACT_KEY.encode())
    return _fastpack.shown_columns(schema.names, recorded)


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


def stored_table_of(path: Path, named: str | None = None) -> pa.Table:
    """The rows of a file as it holds them; those of an uncompressed Arrow file are mapped into memory.

    Args:
        path: The file.
        named: Its name for messages, if it is not its path.

    Raises:
        InputNotFoundError: There is no such file.
        FastpackError: It cannot be read as rows.
    """
    if not path.is_file():
        raise InputNotFoundError(errno.ENOENT, "no such file of packed rows", named or str(path))
    readers = {".arrow": _from_arrow, ".parquet": _from_parquet, ".jsonl": _from_jsonl}
    reader = readers.get(path.suffix)
    if reader is None:
        message = f'{named or path}: rows in `{path.suffix}` files are not read; pack with format="arrow" or "parquet"'
        raise FastpackError(message)
    with about(named or path, f"cannot be read as {path.suffix[1:]}", "pack again"):
        table = reader(path)
        _check_metadata(table.schema)
        check_names(named or path, table.schema)
        # Offsets that lead out of their column would be read as something else.
        table.validate(full=True)
    return table


def check_names(named: StrPath, schema: pa.Schema) -> None:
    """Refuses rows of which two columns have the same name: either could be meant.

    Raises:
        FastpackError: Two have; the message names `named`, where the rows are from.
    """
    for name, count in Counter(schema.names).items():
        if count > 1:
            message = f"{named} has {count} columns `{shown(name)}`, of which none can be told from the others; pack again"
            raise FastpackError(message)


def _check_metadata(schema: pa.Schema) -> None:
    """Raises a `ValueError` for metadata that is not UTF-8: fastpack writes none, and reads none."""
    for field in [schema, *schema]:
        for word in itertools.chain.from_iterable((field.metadata or {}).items()):
            word.decode()


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

    fault = line_fault(str(path))
    if fault is not None:
        raise ValueError(fault)
    # A block holds one line at least, and a line may be long.
    read = pj.read_json(path, pj.ReadOptions(block_size=max(1 << 20, min(path.stat().st_size, 1 << 30))))
    narrow: dict[str, pa.DataType] = {"source_row": pa.int64(), "loss_weights": pa.float32()}
    for at, field in enumerate(read.schema):
        if field.name == IMAGES:
            read = typed_pictures(read, at)
        elif pa.types.is_list(field.type):
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


def _check_size(files: LocalFiles, shard: Shard) -> None:
    """Refuses a shard that is missing or has another size than the manifest says."""
    path = files.path / shard.name
    with about(path, "cannot be read"):
        if not path.is_file():
            raise InputNotFoundError(errno.ENOENT, "no such file of packed rows", str(path))
        size = path.stat().st_size
    if shard.file.bytes not in {None, size}:
        message = (
            f"{path}: has {size:,} bytes, but {shard.file.bytes or 0:,} by the manifest: it has changed since it was "
            "written; pack again, and see `fastpack verify`"
        )
        raise FastpackError(message)


def _holds_rows(file: Path) -> bool:
    """True if a file has the name of a shard, not of the cache of `datasets`."""
    return file.suffix in ROWS and not file.name.startswith(("cache-", ".", "tmp"))


def _split_of(name: str) -> str:
    """The split named by a shard's file name; `train` for a shard that is named after its input."""
    return next((split for split in _SPLITS if name.startswith((f"{split}/", f"{split}-"))), TRAIN)
