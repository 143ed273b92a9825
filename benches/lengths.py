"""Lengths to pack: six seeded recipes, like what people train on and like what packers find hard."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

__all__ = ["RECIPES", "Recipe"]


class Recipe(NamedTuple):
    """Lengths of one kind, and the length of the rows they go into."""

    name: str
    max_length: int
    draw: Callable[[np.random.Generator, int], npt.NDArray[np.float64]]

    def lengths(self, count: int, seed: int = 0) -> npt.NDArray[np.int64]:
        """Draws `count` lengths, in tokens; the same for the same seed."""
        drawn = self.draw(np.random.default_rng(seed), count)
        return np.clip(drawn, 1, self.max_length).astype(np.int64)


def _short_sft(random: np.random.Generator, count: int) -> npt.NDArray[np.float64]:
    """Mostly short instructions, one in ten long."""
    short = random.lognormal(np.log(120), 0.55, count)
    return np.where(random.random(count) < 0.1, random.lognormal(np.log(400), 0.6, count), short)


def _long_documents(random: np.random.Generator, count: int) -> npt.NDArray[np.float64]:
    """Documents that are often longer than a row and were split into full rows and a rest."""
    lengths = random.lognormal(np.log(1800), 1.4, count)
    return np.where(lengths > 8192, np.where(random.random(count) < 0.5, 8192, lengths % 8192), lengths)


RECIPES = (
    Recipe("short SFT", 2048, _short_sft),
    Recipe("chat", 8192, lambda random, count: random.lognormal(np.log(600), 1.0, count)),
    Recipe("long documents", 8192, _long_documents),
    Recipe("reasoning 32k", 32768, lambda random, count: random.lognormal(np.log(6000), 0.9, count)),
    Recipe("half-full", 8192, lambda random, count: random.normal(4096, 512, count)),
    Recipe("gamma", 512, lambda random, count: random.gamma(2.0, 50.0, count)),
)
"""Each recipe says how long documents are, not which: a seed picks those."""
