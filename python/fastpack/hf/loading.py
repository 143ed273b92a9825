"""`load`: a packed folder as a data set of `datasets`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from fastpack.arguments.failures import about
from fastpack.dataset.folder import TRAIN, Folder, expanded, shown_columns, stored_table_of, with_columns
from fastpack.errors import BatchError
from fastpack.hf.trainers import SOURCE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from datasets import Dataset, DatasetDict

    from fastpack.dataset.folder import Shard
    from fastpack.types import StrPath

__all__ = ["load"]


def load(folder: StrPath, *, split: str | None = None) -> Dataset | DatasetDict:
    """A packed folder as a data set: all shards, in order, mapped into memory.

    The manifest says which files are shards, so the `cache-*.arrow` that a trainer leaves beside them are passed
    over, and nothing is copied to a cache. Rows in Parquet or JSON Lines are read into memory. Rows in the compact layout
    are expanded as they are asked for, by a transform of the data set: pass remove_unused_columns=False to a `Trainer`.

    An `SFTTrainer` of TRL whose settings would mix documents, such as packing=True or its default ones, raises a `BatchError`
    that names the setting when it begins to read the rows, also after `shuffle`, `map`, `to_iterable_dataset` and other methods
    of `datasets`; `sft_config` makes settings that fit.

    Args:
        folder: A folder that `pack_dir` wrote.
        split: `train` or `validation`; if not given, all that there are.

    Returns:
        A `Dataset` where `split` is given or there is only `train`, else a `DatasetDict`.

    Raises:
        InputNotFoundError: There is no such folder.
        OptionError: It has no such split.
        FastpackError: It holds no packed rows.

    Examples:
        >>> import fastpack, fastpack.hf, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     report = fastpack.pack_dir(
        ...         "examples/chat.jsonl", folder, tokenizer="examples/tokenizer", max_length=512
        ...     )
        ...     rows = fastpack.hf.load(folder)
        >>> rows.num_rows == report.rows
        True
    """
    import datasets  # noqa: PLC0415  slow to import

    packed = Folder(folder)
    if split is not None:
        return _dataset_of(packed, packed.of(split))
    splits = {name: _dataset_of(packed, packed.of(name)) for name in packed.splits}
    return splits[TRAIN] if list(splits) == [TRAIN] else datasets.DatasetDict(splits)


def _dataset_of(packed: Folder, shards: list[Shard]) -> Dataset:
    """The rows of some shards."""
    import datasets  # noqa: PLC0415  slow to import

    from fastpack.hf.rows import PackedInfo  # noqa: PLC0415  likewise

    # Raises an error for shards that cannot be read, or have other columns.
    stored = packed.read_stored(shards[0].split)
    parts = []
    for shard in shards:
        path = packed.path / shard.name
        if path.suffix == ".arrow":
            with about(path, "cannot be read by datasets", "pack again"):
                parts.append(datasets.Dataset.from_file(str(path)))
        else:
            parts.append(datasets.Dataset(stored_table_of(path)))
    whole = datasets.concatenate_datasets(parts)
    info = PackedInfo(description=f"{SOURCE}{packed.path.absolute()}", features=whole.features)
    rows = datasets.Dataset(whole.data, info=info, split=whole.split)
    shown = shown_columns(stored.schema)
    if shown is not None:
        rows.set_transform(_CompactExpansion(shown, stored.schema.remove_metadata()))
    return rows


class _CompactExpansion:
    """A transform of `datasets` that expands rows in the compact layout on access."""

    def __init__(self, shown: list[str], stored: pa.Schema) -> None:
        self._shown, self._stored = shown, stored

    def __eq__(self, other: object) -> bool:
        """True if the other one expands in the same way: `concatenate_datasets` keeps a transform that all its rows have."""
        if not isinstance(other, _CompactExpansion):
            return NotImplemented
        return self._shown == other._shown and self._stored == other._stored

    __hash__ = None  # type: ignore[assignment]  # nothing asks for it

    def __call__(self, batch: Mapping[str, list[object]]) -> dict[str, list[object]]:
        """The columns of the full layout of some rows, and those that were added since."""
        for name in self._stored.names:
            if name not in batch:
                message = (
                    f"column `{name}` of rows in the compact layout is gone; pass remove_unused_columns=False where a "
                    "Trainer has removed it (a fastpack.torch.PackedDataset needs no such option)"
                )
                raise BatchError(message)
        stored = pa.table({name: batch[name] for name in self._stored.names}, schema=self._stored)
        columns: dict[str, list[object]] = expanded(with_columns(stored, self._shown)).to_pydict()
        return {
            **columns,
            **{name: values for name, values in batch.items() if name not in self._stored.names},
        }
