"""`rank_of`: the rank of this process in a training run."""

from __future__ import annotations

import os
from typing import Final, NamedTuple

from fastpack.errors import OptionError

__all__ = ["Rank", "rank_of"]

_VARIABLES: Final = (
    ("RANK", "WORLD_SIZE", None),
    # The script of a Slurm batch job is not a task of a step, even though these variables are set there.
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_ID"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", None),
    ("PMI_RANK", "PMI_SIZE", None),
)
"""The environment variables of torchrun, Slurm and two kinds of MPI: rank, world size, and one more required."""


class Rank(NamedTuple):
    """A rank of a training run.

    Attributes:
        rank: Its number, from 0.
        world_size: The number of ranks.
        source: The environment variables that were read; `None` if the caller gave the rank, or none is set.
    """

    rank: int
    world_size: int
    source: str | None


def rank_of(rank: int | None, world_size: int | None) -> Rank:
    """The rank given in a call, or else the one in the environment."""
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
