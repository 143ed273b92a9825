"""`load`: a packed folder as a data set of `datasets`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fastpack._folder import TRAIN, Folder, table_of

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

    from fastpack._folder import Shard
    from fastpack._types import StrPath

__all__ = ["SOURCE", "load"]

SOURCE: Final = "packed by fastpack: "
"""What the description of a loaded data set begins with; the path of the folder follows."""


def load(folder: StrPath, *, split: str | None = None) -> Dataset | DatasetDict:
    """A packed folder as a data set: all shards, in order, mapped into memory.

    The manifest says which files are shards, so the `cache-*.arrow` that a trainer leaves beside them are passed
    over, and nothing is copied to a cache. Rows in Parquet or JSON Lines are read into memory.

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

    packed.read(shards[0].split)  # tells of shards that cannot be read, or have other columns
    made = []
    for shard in shards:
        if shard.path.suffix == ".arrow":
            made.append(datasets.Dataset.from_file(str(shard.path)))
        else:
            made.append(datasets.Dataset(table_of(shard.path)))
    whole = datasets.concatenate_datasets(made)
    whole.info.description = f"{SOURCE}{packed.path.absolute()}"
    return whole
