"""`PackedDataset`: the rows of packed folders or tables, read without a copy."""

from __future__ import annotations

import operator
import os
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from torch.utils.data import Dataset

from fastpack._fastpack import first_restart, padding_values
from fastpack.arguments.checks import check_switch, is_series, whole_number
from fastpack.arguments.plural import counted
from fastpack.dataset.folder import TRAIN, Folder, check_names, expanded, shown_columns, with_columns
from fastpack.dataset.packed_files import RemoteAccess
from fastpack.errors import OptionError
from fastpack.torch.reading.columns import Row, columns_of
from fastpack.torch.reading.repacking import Repacked, check_repackable
from fastpack.torch.reading.shards import Shards
from fastpack.torch.shared_numbers import SharedNumbers
from fastpack.types import IMAGES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastpack.options.storage import Storage
    from fastpack.types import HubDataset, Overlong, Strategy, StrPath

__all__ = ["PADDING", "PackedDataset"]

_LENGTHS: Final = "seq_lengths"

_TYPES: Final = "token_type_ids"
"""The end of the names of columns with the types of tokens."""


class RepackedRow(Mapping[str, object]):
    """A row that was gathered from others. Like `Row`, it is not a `dict`."""

    __slots__ = ("_columns",)

    def __init__(self, columns: Mapping[str, object]) -> None:
        """Keeps the columns."""
        self._columns = columns

    def __getitem__(self, name: str) -> object:
        """The value of a column."""
        return self._columns[name]

    def __contains__(self, name: object) -> bool:
        """True if there is such a column."""
        return name in self._columns

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


class PaddingRow(int):
    """The index of a row of padding: `PackedDataset` gives its first row without labels and tokens."""


PADDING: Final = PaddingRow(2**63 - 1)
"""The row of padding. No data set has so many rows."""


class PackedDataset(Dataset[Row]):  # type: ignore[misc]  # torch is no dependency of the type check
    """The rows of packed folders or tables, for a `DataLoader` or a `Trainer`.

    Arrow shards are mapped into memory, so rows are read where they lie, and workers and ranks of a machine share
    them. Rows in the compact layout become those of the full layout one by one, as they are asked for. A data set of folders is pickled by their paths.

    Of a folder in remote storage, each process fetches the shards whose rows it reads, when it reads them and ahead of that,
    into one cache of the machine. Where the cache holds not all of them, a `PackSampler` shuffles.

    Attributes:
        folders: The folders that rows are read from; empty for a table.
        shards: The shards of folders in remote storage; `None` for rows of this machine.
    """

    def __init__(
        self,
        source: StrPath | Sequence[StrPath] | pa.Table | HubDataset | Sequence[Mapping[str, object]],
        *,
        split: str = TRAIN,
        columns: Sequence[str] | None = None,
        max_length: int | None = None,
        strategy: Strategy = "mix",
        overlong: Overlong | None = None,
        seed: int = 0,
        repack: bool = False,
        storage: Mapping[str, str] | Storage | None = None,
        cache_dir: StrPath | None = None,
    ) -> None:
        """Opens the rows, and packs rows that are not packed.

        Args:
            source: A folder that `pack_dir` wrote, also a URL of one in remote storage; several; a table of packed rows; or
                tokenized rows that are not packed, with `max_length`: a table, a `datasets.Dataset`, or a list of dicts.
            split: The split of the folders: `train` or `validation`.
            columns: The columns to read; if not given, all.
            max_length: The most tokens of a row. Packs tokenized rows as `pack_table` does.
            strategy: The packing strategy for tokenized rows.
            overlong: The handling of tokenized rows longer than `max_length`.
            seed: Random seed of packing. The same seed gives the same rows.
            repack: True if `set_epoch` packs documents anew. Needs folders that keep their tokens; only ids,
                labels, weights and origins of documents are columns then, and rows are not padded.
            storage: Options of remote storage, or a `Storage`, as for `pack_dir`.
            cache_dir: A folder that keeps what a later call would make again: here what is fetched, half of the free disk if
                `storage` has no `block_cache`. A folder of the user, if not given.

        Raises:
            InputNotFoundError: There is no such folder.
            OptionError: There is no such split or column; tokenized rows need `max_length`, packed ones have none; rows are
                packed by their `position_ids`, but have no `seq_lengths`.
            BatchError: A column holds nulls, or what is no number.
            FastpackError: A folder holds no packed rows, or folders have different columns.
        """
        self.folders: list[Folder] = []
        check_switch("repack", repack)
        self._read, self._seed = (split, columns), seed
        self._repacked: Repacked | None = None
        self._packed_here, self._epoch = False, 0
        self.shards: Shards | None = None
        self._table: pa.Table | None = None
        paths = _paths_of(source)
        if paths is None:
            table = _tabled(source)
        else:
            access = RemoteAccess.of("PackedDataset", storage, cache_dir)
            self.folders = [Folder(path, access=access) for path in paths]
            if any(folder.files.is_remote for folder in self.folders) and not repack:
                self._refuse_length(is_packed=True, max_length=max_length)
                self.shards = Shards(self.folders, split, columns)
                return
            table = _read_all(self.folders, split, columns)
        is_packed = _LENGTHS in table.column_names
        self._refuse_length(is_packed=is_packed, max_length=max_length)
        self._packed_here = max_length is not None
        if max_length is not None:
            _check_unpacked(table)
            from fastpack.api import pack_table  # noqa: PLC0415  loads the native module

            table = pack_table(
                table, max_length=max_length, strategy=strategy, overlong=overlong, seed=seed, progress=False
            )
        self._place(table)
        if repack:
            check_repackable(self.folders)
            self._repacked = Repacked(self.table)
            self._shared = SharedNumbers(1)
            self.set_epoch(0)

    @staticmethod
    def _refuse_length(*, is_packed: bool, max_length: int | None) -> None:
        """Refuses a length for rows that are packed, and none for others.

        Raises:
            OptionError: It is given, or missing.
        """
        if is_packed is (max_length is not None):
            message = (
                "the rows are packed already, so `max_length` has no use; leave it out, or repack the folder"
                if is_packed
                else "the rows have no column `seq_lengths`, so they are not packed; pass `max_length` to pack them"
            )
            raise OptionError(message, "max_length")

    @property
    def split(self) -> str:
        """The split of the folders."""
        return self._read[0]

    @property
    def table(self) -> pa.Table:
        """All rows, as the files hold them. Those of a folder in remote storage are all fetched for it."""
        return _read_all(self.folders, *self._read) if self._table is None else self._table

    @property
    def is_repacked(self) -> bool:
        """True if `set_epoch` packs documents anew."""
        return self._repacked is not None

    def set_epoch(self, epoch: int) -> None:
        """Packs the documents anew for an epoch, where `repack=True`: the same on all ranks, and nothing is written.

        Call it before the loader of the epoch is iterated over. Workers that live on follow. Without
        `repack=True` all epochs have the same rows, and nothing is done; a `Trainer` calls it in any case.

        Raises:
            OptionError: The epoch is no whole number from 0.
        """
        epoch = whole_number("epoch", epoch, 0)
        if self._repacked is not None:
            self._shared[0] = epoch
            self._pack(self._repacked, epoch)

    def _pack(self, repacked: Repacked, epoch: int) -> None:
        options = self.folders[0].options
        repacked.pack(
            max_length=cast("int | None", options.get("max_length")),
            strategy=cast("Strategy", options["strategy"]),
            most=cast("int | None", options.get("strategy.max_documents")),
            seed=self._seed,
            epoch=epoch,
        )
        self._epoch = epoch

    def _place(self, table: pa.Table) -> None:
        self._table = table
        batches = [batch for batch in table.to_batches() if batch.num_rows]
        self._ends = list(accumulate(batch.num_rows for batch in batches))
        shown = shown_columns(table.schema)
        self._columns = [columns_of(batch, shown) for batch in batches]

    def __len__(self) -> int:
        """The number of rows."""
        if self._repacked is not None:
            return self._of_epoch(self._repacked).rows
        ends = self._ends if self.shards is None else self.shards.ends
        return ends[-1] if ends else 0

    def _of_epoch(self, repacked: Repacked) -> Repacked:
        """The rows of the epoch that the process of the loader has chosen."""
        if self._shared[0] != self._epoch:
            self._pack(repacked, self._shared[0])
        return repacked

    def __getitem__(self, index: int) -> Mapping[str, object]:
        """Returns a row; a negative index counts from the end.

        Raises:
            IndexError: There is no such row.
            TypeError: The index is no whole number.
        """
        if isinstance(index, PaddingRow):
            return RepackedRow(_blank(self._any_row(), self._pad_token_id()))
        index = operator.index(index)
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            message = f"row {index} of {len(self)}"
            raise IndexError(message)
        return self._row(at) if self._repacked is None else RepackedRow(self._repacked.row(at, self._row))

    def _any_row(self) -> Mapping[str, object]:
        """A row that takes no fetching, if there is one.

        Raises:
            OptionError: Rows without labels cannot be padding.
        """
        if self.shards is None:
            return self[0]
        row = Row(*self.shards.columns_of_row(self.shards.open_row))
        if "labels" not in row:
            message = '"pad" needs rows with `labels`, since all tokens of rows without are trained'
            raise OptionError(message, "on_remainder")
        return row

    def _pad_token_id(self) -> int:
        """The id of padding in the folders; else that of `collate`."""
        found = self.folders[0].options.get("padding.token_id") if self.folders else None
        return found if isinstance(found, int) else 0

    def _row(self, at: int) -> Row:
        if self.shards is not None:
            return Row(*self.shards.columns_of_row(at))
        chunk = bisect_right(self._ends, at)
        return Row(self._columns[chunk], int(at) - (self._ends[chunk - 1] if chunk else 0))

    def __getstate__(self) -> dict[str, object]:
        """The pickled state for workers: the paths of folders, or the table."""
        state = dict(self.__dict__)
        for name in ("_ends", "_columns"):
            state.pop(name, None)
        if self.folders and not self._packed_here:
            state["_table"] = None
        return state

    def __setstate__(self, state: dict[str, object]) -> None:
        """Reads the folders again."""
        self.__dict__.update(state)
        if self.shards is None:
            self._place(self.table)

    def stats(self) -> None:
        """Prints the effect of packing: the numbers of documents and rows, and mean lengths before and after.

        Raises:
            OptionError: The rows were read without `input_ids`.
        """
        if "input_ids" not in self.table.column_names:
            message = "must have `input_ids` for the lengths of rows"
            raise OptionError(message, "columns")
        documents = pc.list_flatten(self.table[_LENGTHS]).to_numpy()
        rows = pc.list_value_length(self.table["input_ids"]).to_numpy()
        longest = (int(documents.max(initial=0)), int(rows.max(initial=0)))
        means = [float(lengths.mean()) if len(lengths) else 0.0 for lengths in (documents, rows)]
        fills = [mean / most if most else 0.0 for mean, most in zip(means, longest, strict=True)]
        print(  # noqa: T201  what it is for
            f"documents    {len(documents):,} → {counted(len(rows), 'row')}\n"
            f"mean length  {means[0]:,.1f} → {means[1]:,.1f} tokens\n"
            f"longest      {longest[0]:,} → {longest[1]:,} tokens\n"
            f"fill         {fills[0]:.1%} if padded to the longest → {fills[1]:.1%}"
        )


def _paths_of(source: object) -> list[StrPath] | None:
    """The paths of folders, if the source is one or several."""
    if isinstance(source, (str, os.PathLike)):
        return [source]
    if is_series(source) and not hasattr(source, "__arrow_c_stream__") and not hasattr(source, "features"):
        paths = list(source)
        if paths and all(isinstance(path, (str, os.PathLike)) for path in paths):
            return paths  # type: ignore[return-value]  # the line above has looked
    return None


def _blank(row: Mapping[str, object], pad_token_id: int) -> dict[str, object]:
    """A row of padding: the lengths and positions of a row, without its tokens, labels and origins."""
    values = dict(padding_values(pad_token_id))
    blank = {
        name: np.full_like(value, values[name]) if name in values else value for name, value in row.items()
    }
    blank |= {name: np.zeros_like(row[name]) for name in row if name.endswith(_TYPES)}
    return {**blank, IMAGES: []} if IMAGES in row else blank


def _check_unpacked(table: pa.Table) -> None:
    """Refuses rows of several documents that only their positions tell apart.

    Raises:
        OptionError: The `position_ids` of a row start again.
    """
    if "position_ids" not in table.column_names:
        return
    row = first_restart(table.select(["position_ids"]))
    if row is not None:
        message = (
            f"row {row} has `position_ids` that start again, so it holds several documents, which `max_length` would "
            "make one; give the column `seq_lengths`, the length of each, and no `max_length`"
        )
        raise OptionError(message, "source")


def _tabled(source: object) -> pa.Table:
    """Converts rows in memory to a table.

    Raises:
        OptionError: They are no rows, or their columns hold values of several types.
    """
    try:
        table = _table_of(source)
    except pa.ArrowException as refused:
        message = f"holds what cannot be columns of a table: {refused}"
        raise OptionError(message, "source") from refused
    check_names("the table", table.schema)
    return table


def _table_of(source: object) -> pa.Table:
    if isinstance(source, pa.Table):
        return source
    if hasattr(source, "with_format") and hasattr(source, "features"):
        whole: pa.Table = source.with_format("arrow")[:]
        return whole
    if hasattr(source, "__arrow_c_stream__"):
        return pa.table(source)
    rows = list(source) if is_series(source) else []
    if not rows or not all(isinstance(row, Mapping) for row in rows):
        message = "must be a folder, several, a table or rows, and hold one at least"
        raise OptionError(message, "source")
    return pa.Table.from_pylist([dict(row) for row in rows if isinstance(row, Mapping)])


def _read_all(folders: Sequence[Folder], split: str, columns: Sequence[str] | None) -> pa.Table:
    """The rows of several folders, one after the other."""
    stored = [folder.read_stored(split, columns) for folder in folders]
    if any(table.schema.types != stored[0].schema.types for table in stored):
        # The folders differ in the width of ids or in the layout.
        stored = [expanded(table) for table in stored]
    shown = shown_columns(stored[0].schema)
    first, *others = tables = stored
    for folder, table in zip(folders[1:], others, strict=True):
        for name in dict.fromkeys([*first.column_names, *table.column_names]):
            if name not in first.column_names or name not in table.column_names:
                has, lacks = (folder, folders[0]) if name in table.column_names else (folders[0], folder)
                message = f"{lacks.name} has no column `{name}`, which {has.name} has; pass `columns` that both have"
                raise OptionError(message, "source")
    selected = [table.select(first.column_names).replace_schema_metadata(None) for table in tables]
    for folder, table in zip(folders, selected, strict=True):
        for field, other in zip(selected[0].schema, table.schema, strict=True):
            if field.type != other.type:
                message = (
                    f"{folder.name} has the column `{field.name}` as {other.type}, but {folders[0].name} as {field.type}; pass "
                    "`columns` that both have"
                )
                raise OptionError(message, "source")
    whole = pa.concat_tables(selected)
    return whole if shown is None else with_columns(whole, shown)
