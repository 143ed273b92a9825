"""`plan_step`: which sequences of a step share a micro-batch, and which rank trains on it when."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from numbers import Real
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from fastpack import _fastpack
from fastpack.arguments.checks import check_choice, check_type, shown, whole_number, whole_numbers
from fastpack.errors import OptionError
from fastpack.options.native import native_packing
from fastpack.options.packing import BestFit
from fastpack.runtime.ranks import greatest_of
from fastpack.step.labels import numbered

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from fastpack.step.labels import Labels
    from fastpack.types import Lengths

__all__ = ["MicroBatchOrder", "MiniBatchBy", "StepOverlong", "StepPlan", "plan_step"]

MicroBatchOrder: TypeAlias = Literal["heaviest", "pyramid"]
MiniBatchBy: TypeAlias = Literal["order", "random", "groups"]
StepOverlong: TypeAlias = Literal["error", "drop", "truncate"]

_DENSE_7B = (24576.0, 1.0)
"""The cost of a token and of a pair of tokens in a dense model of 7 billion parameters, as verl estimates it."""

_MOST = 1 << 16
"""The most ranks, optimizer steps and micro-batches of a pipeline: more are a mistake, whose plan would fill the memory."""

_MOST_PARTS = 1 << 20
"""The most kinds of all optimizer steps that ranks agree on, one after the other."""


@dataclass(frozen=True, slots=True, eq=False)
class StepPlan:
    """The micro-batches of a training step.

    A rank trains on one micro-batch at each place; at a place all ranks have one that costs alike. The micro-batch of a rank at a
    place has the number `place * ranks + rank`.

    Attributes:
        ranks: The ranks that share the step.
        max_length: The most tokens of a micro-batch.
        align_to: The multiple of tokens that a sequence takes in its micro-batch.
        lengths: The tokens of each sequence that are trained on (int64): fewer than were given where it was cut, 0 where it was
            dropped.
        offsets: The first sequence of each micro-batch in `members`, and the number of all (int64).
        members: The sequences of all micro-batches (int64).
        costs: The cost of each micro-batch (float64).
        mini_batches: The optimizer step of each place (int64).
        kinds: The kind of each place, by its value in `kinds=`; `None` if none were given.
        dropped: The sequences that are in no micro-batch (int64).
        cut: The sequences that were cut (int64).
        time: The sum over the places of the costliest micro-batch.
        even_time: That sum if all ranks had as much to do at each place.
        least_time: The least that it can be, as far as the longest sequences tell: all ranks wait for these.
    """

    ranks: int
    max_length: int
    align_to: int
    lengths: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    members: npt.NDArray[np.int64]
    costs: npt.NDArray[np.float64]
    mini_batches: npt.NDArray[np.int64]
    kinds: list[object] | None
    dropped: npt.NDArray[np.int64]
    cut: npt.NDArray[np.int64]
    time: float
    even_time: float
    least_time: float

    @property
    def places(self) -> int:
        """The micro-batches of each rank."""
        return len(self.mini_batches)

    @property
    def imbalance(self) -> float:
        """The time of the step over that if all ranks had as much to do: 1 is perfect."""
        return self.time / self.even_time if self.even_time else 1.0

    @property
    def least_imbalance(self) -> float:
        """The least that `imbalance` can be, as far as the longest sequences tell.

        A micro-batch has one sequence of more than half of `max_length` at most. So the costliest of these, of cost *s*, is at
        one place, the one behind the `ranks` longest at another, and so on, and all ranks wait for them. Meanwhile they do at
        most *u*: the sequences that cost the most for the room that they take, until the budgets are full, or in each
        micro-batch one of the longest and as many more of its length as fit, if that is less. With *c* a rank's mean cost of the step, this is 1 + max(Σ *s* - *u* / `ranks`)
        / *c*, over the numbers of such places.
        """
        return self.least_time / self.even_time if self.even_time else 1.0

    def micro_batches(self, rank: int) -> list[npt.NDArray[np.int64]]:
        """The sequences of each micro-batch of a rank, in the order in which it trains on them.

        Raises:
            OptionError: There is no such rank.
        """
        numbers = range(self._rank(rank), self.places * self.ranks, self.ranks)
        return [self.members[self.offsets[number] : self.offsets[number + 1]] for number in numbers]

    def __eq__(self, other: object) -> bool:
        """True for a plan of the same micro-batches, made by the same options."""
        if not isinstance(other, StepPlan):
            return NotImplemented
        pairs = [(getattr(self, it.name), getattr(other, it.name)) for it in fields(self)]
        return all(
            np.array_equal(one, another) if isinstance(one, np.ndarray) else one == another
            for one, another in pairs
        )

    __hash__ = None  # type: ignore[assignment]  # it holds arrays

    def _rank(self, rank: int) -> int:
        if whole_number("rank", rank, 0) >= self.ranks:
            message = f"is {rank}, but the plan has {self.ranks} ranks, from 0"
            raise OptionError(message, "rank")
        return rank

    def __repr__(self) -> str:
        """The numbers that tell a good plan."""
        return (
            f"StepPlan(ranks={self.ranks}, places={self.places}, sequences={len(self.members)}, "
            f"imbalance={self.imbalance:.4f}, least_imbalance={self.least_imbalance:.4f})"
        )


def plan_step(
    lengths: Lengths,
    *,
    max_length: int,
    ranks: int = 1,
    cost: tuple[float, float] = _DENSE_7B,
    micro_batches_multiple_of: int = 1,
    micro_batch_order: MicroBatchOrder = "heaviest",
    groups: Labels | None = None,
    kinds: Labels | None = None,
    mini_batches: int = 1,
    mini_batch_by: MiniBatchBy = "order",
    seed: int = 0,
    max_documents: int | None = None,
    align_to: int | None = None,
    overlong: StepOverlong = "error",
    all_reduce: Callable[[int], int] | None = None,
) -> StepPlan:
    """Plans a training step: shares sequences among ranks, in micro-batches under a budget of tokens that cost alike.

    Each rank has as many micro-batches as the others: as few as best-fit decreasing needs for the sequences, or `plan(strategy="mix")`
    if these are fewer. All ranks wait for the costliest micro-batch of a place, so those of a place are made to cost alike. The same
    arguments give the same plan on every rank, so each can make it alone.

    Args:
        lengths: The tokens of each sequence.
        max_length: The most tokens of a micro-batch.
        ranks: The ranks that share the step, 65,536 at most.
        cost: What a token costs, and what a pair of tokens of a sequence costs: a sequence of `n` tokens costs
            `linear * n + quadratic * n * n`. `fastpack.torch.cost` makes it from a model's config.
        micro_batches_multiple_of: The micro-batches of a rank in an optimizer step are a multiple of this, as pipelines need it.
        micro_batch_order: The costliest micro-batches first, so that memory runs out at once or not at all; or in the middle (`"pyramid"`), so
            that the stages of a pipeline fill and drain with cheap ones.
        groups: The group of each sequence, such as its prompt: sequences of one group are trained on one rank, of whatever kind
            and in whatever optimizer step. Where groups are of several kinds or steps, that makes ranks less alike.
        kinds: The kind of each sequence, such as whether it has pictures: the micro-batches of a place are of one kind on all
            ranks, so that no rank waits in a collective that another does not call.
        mini_batches: The optimizer steps that the sequences are divided among first.
        mini_batch_by: How: in their `"order"`, at `"random"` by the seed, or by whole `"groups"`.
        seed: The seed of `mini_batch_by="random"`.
        max_documents: The most sequences of a micro-batch.
        align_to: Each sequence takes a multiple of so many tokens in its micro-batch, as context parallelism needs it; it
            divides `max_length`.
        overlong: What happens to a sequence of more than `max_length` tokens: it is refused, dropped, or its first tokens are kept.
        all_reduce: For sequences that lie on their ranks already, where each rank plans its own with `ranks=1`: a function that
            takes a whole number and returns the greatest that a rank gave. It is called once for each kind in each optimizer step,
            so that all ranks get as many micro-batches, and once before to agree on the kinds, which must be numbers from 0. In
            each optimizer step the kinds come in the order of their numbers, the same on all ranks, and `micro_batch_order` is
            that of the micro-batches of a kind.

    Returns:
        The plan.

    Raises:
        OptionError: An option has a value that it cannot have, or a sequence is too long.

    Examples:
        >>> import fastpack
        >>> plan = fastpack.plan_step([900, 800, 300, 200, 100, 100], max_length=1000, ranks=2)
        >>> plan.places
        2
        >>> [[members.tolist() for members in plan.micro_batches(rank)] for rank in range(2)]
        [[[0], [3, 5]], [[1, 4], [2]]]
    """
    sizes = whole_numbers("lengths", lengths)
    world = _at_most("ranks", ranks)
    check_choice("micro_batch_order", micro_batch_order, MicroBatchOrder)
    check_choice("mini_batch_by", mini_batch_by, MiniBatchBy)
    check_choice("overlong", overlong, StepOverlong)
    if mini_batch_by == "groups" and groups is None:
        message = 'must be given with mini_batch_by="groups": the group of each sequence'
        raise OptionError(message, "groups")
    packing = native_packing(
        {
            "max_length": max_length,
            "strategy": BestFit(max_documents=max_documents, align_to=align_to),
            "overlong": overlong,
        }
    )
    agree = _agree_of(all_reduce)
    if agree is not None and world > 1:
        message = f"must be 1 with `all_reduce`, with which each rank plans its own sequences, not {world}"
        raise OptionError(message, "ranks")
    seed = whole_number("seed", seed, 0)
    of_groups, _ = numbered("groups", groups, len(sizes))
    of_kinds, names = numbered("kinds", kinds, len(sizes), agree)
    parts = max(len(names), 1) * _at_most("mini_batches", mini_batches)
    if agree is not None and parts > _MOST_PARTS:
        message = f"are {len(names)} in each optimizer step, on which ranks agree {parts} times; {_MOST_PARTS} times is the most"
        raise OptionError(message, "kinds")
    trained, offsets, members, costs, steps, kinds_of_places, times = _fastpack.plan_step(
        sizes,
        packing,
        groups=of_groups,
        kinds=None if of_kinds is None else (of_kinds, len(names)),
        ranks=world,
        multiple_of=_at_most("micro_batches_multiple_of", micro_batches_multiple_of),
        cost=_cost_of(cost),
        pyramid=micro_batch_order == "pyramid",
        mini_batches=_at_most("mini_batches", mini_batches),
        seed=seed if mini_batch_by == "random" else None,
        by_groups=mini_batch_by == "groups",
        agree=agree,
    )
    return StepPlan(
        ranks=world,
        max_length=max_length,
        align_to=align_to or 1,
        lengths=trained,
        offsets=offsets,
        members=members,
        costs=costs,
        mini_batches=steps,
        kinds=None if of_kinds is None else [names[kind] for kind in kinds_of_places],
        dropped=np.flatnonzero(trained == 0),
        cut=np.flatnonzero((trained > 0) & (trained < sizes)),
        time=times[0],
        even_time=times[1],
        least_time=times[2],
    )


def _cost_of(cost: object) -> tuple[float, float]:
    """The cost of a token and of a pair of tokens."""
    wanted = "two numbers, the cost of a token and that of a pair of tokens"
    check_type("cost", cost, (tuple, list), wanted)
    numbers = list(cost) if isinstance(cost, (tuple, list)) else []
    are_numbers = all(isinstance(it, Real) and math.isfinite(it) and float(it) >= 0 for it in numbers)
    if len(numbers) != 2 or not are_numbers or not any(numbers):  # noqa: PLR2004  a token, and a pair of them
        message = f"must be {wanted}, not negative and not both 0, not `{shown(cost)}`"
        raise OptionError(message, "cost")
    return float(numbers[0]), float(numbers[1])


def _at_most(option: str, value: object) -> int:
    """A whole number from 1 to the most that a step may have."""
    number = whole_number(option, value, 1)
    if number > _MOST:
        message = f"must be at most {_MOST}, not {number}"
        raise OptionError(message, option)
    return number


def _agree_of(all_reduce: object) -> Callable[[int], int] | None:
    """The caller's function by which ranks agree, which is to return a whole number that is not less than its own."""
    greatest = greatest_of(all_reduce)
    if greatest is None:
        return None

    def agree(number: int) -> int:
        agreed = whole_number("all_reduce", greatest(number), 0)
        if not number <= agreed < 1 << 32:
            message = f"must return the greatest number of all ranks, not {agreed} for {number}"
            raise OptionError(message, "all_reduce")
        return agreed

    return agree
