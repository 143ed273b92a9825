"""`loss_weights`: weights of trained tokens with which the sum of their losses over all micro-batches is a mean, whatever the lengths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from fastpack.arguments.checks import check_choice, is_series, shown, whole_number
from fastpack.arguments.failures import noted
from fastpack.errors import OptionError, OptionTypeError
from fastpack.step.labels import labels_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from fastpack.step.plan import StepPlan

__all__ = ["LossWeights", "loss_weights"]

LossWeights: TypeAlias = Literal["token", "sequence", "group", "constant"]


def loss_weights(
    tokens: npt.NDArray[np.int64],
    plan: StepPlan,
    by: tuple[LossWeights, object, float | None],
    world_size: int,
    all_reduce_sum: Callable[[list[float]], list[float]] | None,
) -> npt.NDArray[np.float64]:
    """The weight of each trained token of a sequence in the loss of its optimizer step, from the trained tokens of each."""
    kind, groups, constant = by
    check_choice("weights", kind, LossWeights)
    scale = whole_number("world_size", world_size, 1)
    if kind == "constant" and not _is_positive(constant):
        message = (
            'must be given with weights="constant": the tokens that each sequence counts for, more than 0'
        )
        raise OptionError(message, "constant")
    kept, steps = plan.lengths > 0, _mini_batches(plan)
    units = _groups(groups, steps) if kind == "group" else np.arange(len(steps))
    # Another rank may have sequences in optimizer steps where this one has none.
    count = int(plan.mini_batches.max(initial=-1)) + 1
    if kind == "token":
        totals = np.bincount(steps[kept], tokens[kept], count).astype(float)
    else:
        firsts = np.unique(units[kept], return_index=True)[1]
        totals = np.bincount(steps[kept][firsts], minlength=count).astype(float)
    if all_reduce_sum is not None:
        totals = _summed(all_reduce_sum, totals)
    inside: npt.NDArray[np.float64] = np.ones(len(steps))
    if kind == "constant":
        inside *= float(constant or 1)
    elif kind != "token":
        inside *= np.bincount(units, np.where(kept, tokens, 0), len(steps))[units]
    total = totals[np.maximum(steps, 0)] if count else np.ones(len(steps))
    return scale / np.maximum(inside * total, np.finfo(float).tiny)


def _groups(groups: object, steps: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The number of the group of each sequence in its optimizer step."""
    if groups is None:
        message = 'must be the group of each sequence with weights="group"'
        raise OptionError(message, "groups")
    labels = zip(steps.tolist(), labels_of("groups", groups, len(steps)), strict=True)
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(it, len(numbers)) for it in labels], dtype=np.int64)


def _is_positive(value: object) -> bool:
    return isinstance(value, (int, float)) and 0 < value < float("inf")


def _summed(all_reduce_sum: object, totals: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The sums over all ranks, by a function of the caller's."""
    if not callable(all_reduce_sum):
        message = f"must be a function that takes a list of numbers and returns their sums, not `{shown(all_reduce_sum)}`"
        raise OptionTypeError(message, "all_reduce_sum")
    with noted("while fastpack called `all_reduce_sum`"):
        returned = all_reduce_sum(totals.tolist())
    sums = list(returned) if is_series(returned) else []
    if len(sums) != len(totals) or not all(isinstance(it, (int, float)) for it in sums):
        message = f"must return {len(totals)} numbers, not `{shown(returned)}`"
        raise OptionTypeError(message, "all_reduce_sum")
    return np.array(sums, dtype=float)


def _mini_batches(plan: StepPlan) -> npt.NDArray[np.int64]:
    """The optimizer step of each sequence; -1 where it is dropped."""
    steps = np.full(len(plan.lengths), -1, dtype=np.int64)
    of_micro_batch = np.repeat(plan.mini_batches, plan.ranks)
    steps[plan.members] = np.repeat(of_micro_batch, np.diff(plan.offsets))
    return steps
