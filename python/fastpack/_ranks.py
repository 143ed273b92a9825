"""Which rank of a training run this process is."""

from __future__ import annotations

import os
from typing import Final, NamedTuple

from fastpack.errors import OptionError

__all__ = ["Rank", "rank_of"]

_VARIABLES: Final = (
    ("RANK", "WORLD_SIZE", None),
    # The script of a batch job is no task of a step, whatever these say there.
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_ID"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", None),
    ("PMI_RANK", "PMI_SIZE", None),
)
"""The variables of torchrun, Slurm and two kinds of MPI: rank, ranks, and one that must be there too."""


class Rank(NamedTuple):
    """A rank of a training run.

    Attributes:
        rank: Its number, from 0.
        world_size: The ranks.
        source: The variables that say so; `None` where the caller does, or nobody.
    """

    rank: int
    world_size: int
    source: str | None


def rank_of(rank: int | None, world_size: int | None) -> Rank:
    """The rank that a call names, or else the environment."""
    if rank is not None or world_size is not None:
        missing = "rank" if rank is None else "world_size"
        if rank is None or world_size is None:
            message = f"invalid option `{missing}`: must be given too; `rank` and `world_size` go together"
            raise OptionError(message, missing)
        return Rank(rank, world_size, None)
    for number, count, needed in _VARIABLES:
        ranks = os.environ.get(number, ""), os.environ.get(count, "")
        if all(text.isdecimal() for text in ranks) and (needed is None or needed in os.environ):
            return Rank(int(ranks[0]), int(ranks[1]), f"{number} and {count}")
    return Rank(0, 1, None)
