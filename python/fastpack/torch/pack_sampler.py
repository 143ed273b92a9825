"""`PackSampler`: gives each step of all ranks one balanced group of rows."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import torch
from torch.utils.data import Sampler

from fastpack.arguments.checks import check_choice, check_switch, check_type, whole_number
from fastpack.errors import OptionError
from fastpack.runtime.ranks import machines
from fastpack.torch.packed_dataset import PADDING, PackedDataset
from fastpack.torch.reading.shard_windows import ShardWindows

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from fastpack.torch.reading.shards import Shards

__all__ = ["OnRemainder", "PackSampler"]

OnRemainder: TypeAlias = Literal["repeat", "pad"]


class PackSampler(Sampler[int]):  # type: ignore[misc]  # torch is no dependency of the type check
    """Rows in groups that cost as much attention, one group a step, so that no rank waits for another.

    For rows that were packed with `order=Balanced(ranks)`: the groups come in a random order, and each rank reads its own row
    of each. Rows of other folders are grouped as they lie. Without ranks, all rows come in the order of the groups, as a
    `Trainer` wants them, which shares them among ranks itself.

    Rows of folders in remote storage are shuffled so that some shards are needed at a time: shards come in random order, and
    rows in random order within a window of shards, which is one shard at first, so that training starts when that is there. Each
    rank has lanes of its own, and fetches the shards of these alone, ahead of its loader.

    All rows are read. The rows after the last whole group come last; where ranks cannot share them equally, the last step is
    filled up, so that each rank has as many rows.

    Attributes:
        filled: The number of rows, of all ranks, that fill the last step up.
    """

    def __init__(
        self,
        dataset: PackedDataset,
        *,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        on_remainder: OnRemainder = "repeat",
        window: int | None = None,
        lanes: int | None = None,
    ) -> None:
        """Finds the groups.

        Args:
            dataset: The rows.
            num_replicas: The number of ranks; if not given, that of `torch.distributed`, or 1.
            rank: The number of this rank; if not given, that of `torch.distributed`, or 0.
            shuffle: True if groups come in another order each epoch; else as they lie.
            seed: Random seed. The same seed and epoch give the same order on all ranks.
            on_remainder: The rows that fill the last step up: `repeat` takes the first rows of the epoch once more, `pad`
                rows without labels. A batch without labels needs a loss that is divided by the labels of all ranks.
            window: The most shards whose rows are mixed; if not given, as many as `block_cache` holds twice for all ranks of
                a machine, and all rows of folders of this machine are mixed.
            lanes: The number of parts in which rows without groups are dealt to ranks; as many as ranks, if not given. The
                same number gives the same order to another number of ranks.

        Raises:
            OptionError: Ranks cannot share the groups equally.
        """
        check_type("dataset", dataset, PackedDataset, "a fastpack.torch.PackedDataset")
        check_switch("shuffle", shuffle)
        check_choice("on_remainder", on_remainder, OnRemainder)
        is_distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
        ranks = torch.distributed.get_world_size() if is_distributed else 1
        self._ranks = ranks if num_replicas is None else whole_number("num_replicas", num_replicas, 1)
        own = torch.distributed.get_rank() if is_distributed else 0
        self._rank = own if rank is None else whole_number("rank", rank, 0)
        self._dataset = dataset
        grouped = _group_size(dataset)
        self._size = grouped or self._ranks
        if self._size % self._ranks or self._rank >= self._ranks:
            message = (
                f"rank {self._rank} of {self._ranks} ranks cannot share groups of {self._size} "
                f"rows equally; pack with order=Balanced({self._ranks})"
            )
            raise OptionError(message, "num_replicas")
        if on_remainder == "pad" and dataset.shards is None and len(dataset) and "labels" not in dataset[0]:
            message = '"pad" needs rows with `labels`, since all tokens of rows without are trained'
            raise OptionError(message, "on_remainder")
        self._shuffle, self._seed, self._epoch = shuffle, whole_number("seed", seed, 0), 0
        self._on_remainder = on_remainder
        self._lanes = 1 if grouped else self._ranks if lanes is None else whole_number("lanes", lanes, 1)
        self._plan = self._planned(
            grouped or 1, None if window is None else whole_number("window", window, 1)
        )
        if dataset.shards is not None:
            dataset.shards.plan = self._plan

    def _planned(self, size: int, window: int | None) -> ShardWindows | None:
        """The order by shards; `None` where all rows are mixed, or none."""
        shards = self._dataset.shards
        if not self._shuffle or not len(self._dataset) or (window is None and shards is None):
            return None
        if window is None and shards is not None:
            window = self._usual_window(shards)
        return ShardWindows(
            _shard_ends(self._dataset),
            size=size,
            lanes=self._lanes,
            window=window or 1,
            seed=self._seed,
            share=(self._rank, self._ranks),
        )

    def _usual_window(self, shards: Shards) -> int:
        """The window for the bound of the cache, which is the same on all ranks.

        Raises:
            OptionError: The cache does not hold all shards, and the caller has not given its bound; or it is too small.
        """
        if shards.bound is None:
            if sum(shards.sizes) > shards.room:
                message = (
                    f"must be given: the shards have {sum(shards.sizes):,} bytes, and the cache of this machine would hold "
                    f"{shards.room:,}; the bound decides the order of rows, which has to be the same on all ranks"
                )
                raise OptionError(message, "storage.block_cache")
            return len(shards.sizes)
        if sum(shards.sizes) <= shards.bound:
            return len(shards.sizes)
        fits = shards.bound // max(shards.sizes)
        readers = -(-self._ranks // machines()) if self._lanes > 1 else 1
        if fits < readers:
            message = (
                f"is {shards.bound:,} bytes, which hold {fits} of the largest shards, and {readers} ranks of a machine read "
                "one each; give more, or pack with a smaller `shard_size`"
            )
            raise OptionError(message, "storage.block_cache")
        return max(fits // (2 * readers), 1)

    @property
    def filled(self) -> int:
        """The number of rows, of all ranks, that fill the last step up."""
        return -len(self._dataset) % self._ranks

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order of an epoch; the same on all ranks."""
        self._epoch = whole_number("epoch", epoch, 0)
        if self._plan is not None:
            self._plan.epoch[0] = self._epoch

    def __len__(self) -> int:
        """The number of rows of this rank."""
        return (len(self._dataset) + self.filled) // self._ranks

    def __iter__(self) -> Iterator[int]:
        """Yields the indices of the rows of this rank."""
        return iter(self._order()[self._rank :: self._ranks])

    def _order(self) -> list[int]:
        """The rows of all ranks: the first of each rank, then the second."""
        rows = len(self._dataset)
        if self._plan is not None:
            return self._filled_up(self._plan.rows().tolist())
        groups = np.arange(rows // self._size)
        if self._shuffle:
            np.random.default_rng([self._seed, self._epoch]).shuffle(groups)
        whole: npt.NDArray[np.int64] = groups[:, None] * self._size + np.arange(self._size)
        return self._filled_up([*whole.reshape(-1).tolist(), *range(len(groups) * self._size, rows)])

    def _filled_up(self, order: list[int]) -> list[int]:
        """An order of all rows with the rows that fill the last step up."""
        if self._on_remainder == "pad":
            return order + [PADDING] * self.filled if order else order
        return order + [order[at % len(order)] for at in range(self.filled)]


def _shard_ends(dataset: PackedDataset) -> list[int]:
    """The number of rows up to the end of each shard.

    Raises:
        OptionError: No manifest tells it.
    """
    if dataset.shards is not None:
        return dataset.shards.ends
    rows = [shard.rows for folder in dataset.folders for shard in folder.of(dataset.split)]
    if not rows or dataset.is_repacked or None in rows:
        message = "needs folders of `pack_dir`, whose manifests tell the rows of each shard"
        raise OptionError(message, "window")
    return list(accumulate(count or 0 for count in rows))


def _group_size(dataset: PackedDataset) -> int | None:
    """The number of rows in a group; `None` if the rows have no groups."""
    if dataset.is_repacked:
        return None
    if dataset.shards is None and "group" in dataset.table.column_names and len(dataset):
        groups = dataset.table["group"].to_numpy()
        ends = np.append(np.flatnonzero(groups[1:] != groups[:-1]) + 1, len(groups))
        sizes = np.diff(ends, prepend=0)
        # The last group of a table may have been cut.
        if len(set(sizes[:-1].tolist())) > 1 or sizes[-1] > sizes[0]:
            message = "its groups have different sizes; read one folder at a time"
            raise OptionError(message, "dataset")
        # One group may have been cut, and ranks share it in any case.
        return int(sizes[0]) if len(sizes) > 1 else None
    for folder in dataset.folders:
        size = folder.options.get("order.ranks")
        if folder.options.get("order") == "balanced" and isinstance(size, int):
            return size
    return None
