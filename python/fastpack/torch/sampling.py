"""`PackSampler`: gives each step of all ranks one balanced group of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.utils.data import Sampler

from fastpack.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastpack.torch.rows import PackedDataset

__all__ = ["PackSampler"]


class PackSampler(Sampler[int]):  # type: ignore[misc]  # torch is no dependency of the type check
    """Rows in groups that cost as much attention, one group a step, so that no rank waits for another.

    For rows that were packed with `order="balanced"`: the groups come in a random order, and each rank reads its own row
    of each. Rows of other folders are grouped as they lie. Without ranks, all rows come in the order of the groups, as a
    `Trainer` wants them, which shares them among ranks itself.
    """

    def __init__(
        self,
        dataset: PackedDataset,
        *,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
    ) -> None:
        """Finds the groups.

        Args:
            dataset: The rows.
            num_replicas: The number of ranks; if not given, that of `torch.distributed`, or 1.
            rank: The number of this rank; if not given, that of `torch.distributed`, or 0.
            shuffle: Whether groups come in another order each epoch; else as they lie.
            seed: Random seed. The same seed and epoch give the same order on all ranks.

        Raises:
            OptionError: Ranks cannot share the groups equally.
        """
        given = torch.distributed.is_available() and torch.distributed.is_initialized()
        self._ranks = num_replicas or (torch.distributed.get_world_size() if given else 1)
        self._rank = rank if rank is not None else (torch.distributed.get_rank() if given else 0)
        self._size = _group_size(dataset) or self._ranks
        if self._size % self._ranks or not 0 <= self._rank < self._ranks:
            message = (
                f"rank {self._rank} of {self._ranks} ranks cannot share groups of {self._size} "
                f"rows equally; pack with balance_ranks={self._ranks}"
            )
            raise OptionError(message, "num_replicas")
        self._groups = len(dataset) // self._size
        self._shuffle, self._seed, self._epoch = shuffle, seed, 0

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order of an epoch; the same on all ranks."""
        self._epoch = epoch

    def __len__(self) -> int:
        """The number of rows of this rank."""
        return self._groups * (self._size // self._ranks)

    def __iter__(self) -> Iterator[int]:
        """Yields the indices of the rows of this rank."""
        order = np.arange(self._groups)
        if self._shuffle:
            np.random.default_rng([self._seed, self._epoch]).shuffle(order)
        mine = range(self._rank, self._size, self._ranks)
        return (int(group) * self._size + place for group in order for place in mine)


def _group_size(dataset: PackedDataset) -> int | None:
    """The number of rows in a group; `None` if the rows have no groups."""
    if "group" in dataset.table.column_names and len(dataset):
        sizes = np.unique(dataset.table["group"].to_numpy(), return_counts=True)[1]
        if len(set(sizes.tolist())) > 1:
            message = "its groups have different sizes; read one folder at a time"
            raise OptionError(message, "dataset")
        return int(sizes[0])
    for folder in dataset.folders:
        size = folder.options.get("balance_ranks")
        if folder.options.get("order") == "balanced" and isinstance(size, int):
            return size
    return None
