"""Lengths to pack: six seeded recipes, like what people train on and like what packers find hard; and those of training steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

__all__ = ["BUDGET", "RECIPES", "Recipe", "steps"]

BUDGET = 32768
"""The tokens of a micro-batch of a step."""


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


def _answers(sequences: int, mean: int, seed: int, group: int = 16) -> npt.NDArray[np.int64]:
    """Answers in groups: each prompt has a usual length, and some answers are much longer."""
    random = np.random.default_rng(seed)
    usual = np.repeat(np.exp(random.normal(0, 0.9, sequences // group)), group)
    drawn = usual * np.exp(random.normal(0, 0.45, sequences))
    scale = mean / drawn.mean()
    for _ in range(60):
        lengths = BUDGET * -np.expm1(-drawn * scale / BUDGET)
        scale *= mean / lengths.mean()
    return np.maximum(lengths, 32).astype(np.int64)


def steps() -> dict[str, tuple[npt.NDArray[np.int64], int]]:
    """The lengths of training steps, and the ranks that share each."""
    random = np.random.default_rng(5)
    long = random.integers(14000, 18000, 8192)
    return {
        "tail": (_answers(2048, 3760, 1), 16),
        "tail, large": (_answers(8192, 4395, 2), 64),
        "uniform": (random.integers(100, 16000, 8192), 64),
        "bimodal": (np.where(random.random(8192) < 0.8, random.integers(200, 900, 8192), long), 64),
        "one giant": (np.append(random.integers(300, 1500, 8191), BUDGET), 64),
    }
