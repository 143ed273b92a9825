"""`rank_of`: the rank of this process among those that share a training run or a job; `greatest_of`: how ranks agree."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Final, NamedTuple

from fastpack.arguments.checks import shown
from fastpack.arguments.failures import noted
from fastpack.errors import OptionError, OptionTypeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastpack.types import RankOption

__all__ = ["Rank", "greatest_of", "machines", "rank_of"]

AUTO: Final = "auto"
"""The word for a rank that stands in the environment."""

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


def rank_of(rank: RankOption | None, world_size: RankOption | None) -> Rank:
    """The rank given in a call, or else the one in the environment, which `auto` asks for too.

    Raises:
        OptionError: One of the two is missing, or is neither a number nor `auto`.
    """
    is_auto = [isinstance(number, str) and number == AUTO for number in (rank, world_size)]
    if any(is_auto):
        if not all(auto or number is None for auto, number in zip(is_auto, (rank, world_size), strict=True)):
            name = "world_size" if is_auto[0] else "rank"
            message = 'must be "auto" too, or both numbers: `rank` and `world_size` go together'
            raise OptionError(message, name)
        return _in_environment()
    for name, number in (("rank", rank), ("world_size", world_size)):
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 0):
            message = f'must be a whole number from 0 or "auto", not `{shown(number)}`'
            raise OptionError(message, name)
    if rank is not None or world_size is not None:
        missing = "rank" if rank is None else "world_size"
        if rank is None or world_size is None:
            message = "must be given too; `rank` and `world_size` go together"
            raise OptionError(message, missing)
        return Rank(int(rank), int(world_size), None)
    return _in_environment()


def _in_environment() -> Rank:
    """The rank that torchrun, Slurm or MPI name; the only one if none does."""
    for number, count, needed in _VARIABLES:
        ranks = os.environ.get(number, ""), os.environ.get(count, "")
        if all(text.isdecimal() for text in ranks) and (needed is None or needed in os.environ):
            return Rank(int(ranks[0]), int(ranks[1]), f"{number} and {count}")
    return Rank(0, 1, None)


def greatest_of(all_reduce: object) -> Callable[[int], int] | None:
    """The caller's function by which ranks agree on the greatest number of all, with a note on its exceptions; `None` without one."""
    if all_reduce is None:
        return None
    if not callable(all_reduce):
        message = (
            "must be a function that takes a whole number and returns the greatest that a "
            f"rank gave, not `{shown(all_reduce)}`"
        )
        raise OptionTypeError(message, "all_reduce")
    return functools.partial(_greatest, all_reduce)


def _greatest(all_reduce: Callable[[int], int], number: int) -> int:
    with noted("while fastpack called `all_reduce`"):
        return all_reduce(number)


def machines() -> int:
    """The number of machines of the run, as torchrun or Slurm tell it, the same on each; 1 if they do not."""
    for name, needed in (("GROUP_WORLD_SIZE", None), ("SLURM_NNODES", "SLURM_STEP_ID")):
        text = os.environ.get(name, "")
        if text.isdecimal() and int(text) and (needed is None or needed in os.environ):
            return int(text)
    return 1
