"""`ShardWindows`: a random order of rows that needs some shards at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fastpack.torch.shared_numbers import SharedNumbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Rows = npt.NDArray[np.int64]

__all__ = ["ShardWindows", "windowed"]


def windowed(ends: Sequence[int], *, size: int, lanes: int, window: int, random: np.random.Generator) -> Rows:
    """An order of all rows: shards in random order, and rows in random order within a window of shards.

    The first window has one shard, so that its rows can be read at once, and each is twice as large as the one before up to
    `window` shards. Row `g` is row `g // lanes` of lane `g % lanes`, and each lane has as many rows: whoever reads some of the
    lanes needs the shards of these alone. The order does not depend on who reads it.

    Args:
        ends: The number of rows up to the end of each shard.
        size: The number of consecutive rows that stay together.
        lanes: The number of lanes.
        window: The most shards whose rows are mixed.
        random: Decides the order.
    """
    count = ends[-1] // size
    starts = np.arange(count, dtype=np.int64) * size
    shard_of = np.searchsorted(np.asarray(ends), starts, side="right")
    place_of_shard = random.permutation(len(ends))
    places = place_of_shard[shard_of]
    by_place = np.argsort(places, kind="stable")
    each = count // lanes
    numbers = [_mixed(by_place[lane * each :][:each], places, window, random) for lane in range(lanes)]
    groups = np.concatenate([np.stack(numbers, 1).reshape(-1), by_place[lanes * each :]])
    rows = (groups[:, None] * size + np.arange(size)).reshape(-1)
    return np.concatenate([rows, np.arange(count * size, ends[-1])]).astype(np.int64)


def _mixed(groups: Rows, places: Rows, window: int, random: np.random.Generator) -> Rows:
    """The groups of a lane, mixed within its windows."""
    if not len(groups):
        return groups
    since = places[groups] - places[groups[0]]
    sizes = [1]
    while sum(sizes) <= since[-1]:
        sizes.append(min(2 * sizes[-1], window))
    windows = np.searchsorted(np.cumsum(sizes), since, side="right")
    return groups[np.lexsort((random.random(len(groups)), windows))]


class _RankNeeds(NamedTuple):
    """The shards that one rank needs in an epoch.

    Attributes:
        epoch: The epoch.
        shards: The shards, in the order in which the first row of each is read.
        last_rows: The rows of this rank that come after the lanes.
    """

    epoch: int
    shards: list[int]
    last_rows: frozenset[int]


class ShardWindows:
    """The order of rows of a sampler, and the order in which one rank needs the shards.

    Attributes:
        window: The most shards whose rows are mixed.
        epoch: The epoch, which the process of a loader shares with its workers.
    """

    def __init__(
        self, ends: Sequence[int], *, size: int, lanes: int, window: int, seed: int, share: tuple[int, int]
    ) -> None:
        """Takes the parameters of the order, as for `windowed`, and the rank with the number of ranks."""
        self._ends, self._size, self._lanes, self.window = ends, size, lanes, window
        self._seed, self._share = seed, share
        self.epoch = SharedNumbers(1)
        self._known: _RankNeeds | None = None

    def rows(self) -> Rows:
        """All rows in the order of the epoch."""
        random = np.random.default_rng([self._seed, self.epoch[0]])
        return windowed(self._ends, size=self._size, lanes=self._lanes, window=self.window, random=random)

    def after(self, number: int, row: int) -> list[int]:
        """The shards that this rank needs after shard `number`, whose `row` it reads: a window of them, in that order.

        There are none after one of the last rows, behind the lanes: they are few, and may lie in shards that were read before.
        """
        epoch = self.epoch[0]
        if self._known is None or self._known.epoch != epoch:
            self._known = self._needs(epoch)
        if row in self._known.last_rows:
            return []
        shards = self._known.shards
        at = shards.index(number) + 1 if number in shards else 0
        return shards[at : at + self.window]

    def _needs(self, epoch: int) -> _RankNeeds:
        rank, ranks = self._share
        order = self.rows()
        shard_of = np.searchsorted(np.asarray(self._ends), order[rank::ranks], side="right")
        numbers, firsts = np.unique(shard_of, return_index=True)
        # The rows that fill the last step up are the first ones.
        filled = np.concatenate([order, order[: -len(order) % ranks]])
        in_lanes = len(order) // self._size // self._lanes * self._lanes * self._size
        own = np.arange(len(filled)) % ranks == rank
        own[:in_lanes] = False
        return _RankNeeds(epoch, numbers[np.argsort(firsts)].tolist(), frozenset(filled[own].tolist()))
