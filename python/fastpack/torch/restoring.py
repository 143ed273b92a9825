"""`restore`: the results of ranks, back in the order of the planned sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import torch

from fastpack.arguments.checks import check_choice, check_type, shown
from fastpack.errors import BatchError, OptionTypeError
from fastpack.step.plan import StepPlan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

__all__ = ["Form", "by_sequence", "check_tensors", "in_form", "ordered", "restore"]

Form: TypeAlias = Literal["list", "padded", "nested"]


def restore(
    plan: StepPlan,
    values: Sequence[Sequence[torch.Tensor]],
    *,
    of: Literal["tokens", "sequences"] = "tokens",
    form: Form = "list",
) -> list[torch.Tensor] | torch.Tensor:
    """Puts the values that all ranks have computed back in the order of the sequences that were planned.

    Args:
        plan: The plan.
        values: The tensors of each rank: one for each of its micro-batches, as in `Step.restore`.
        of: Whether there is a value for each token of a micro-batch, or for each of its sequences.
        form: As in `Step.restore`.

    Returns:
        The values of all sequences but those that the plan dropped.

    Raises:
        BatchError: A tensor is missing, or has another shape.
    """
    check_type("plan", plan, StepPlan, "a plan of `fastpack.plan_step`")
    check_choice("of", of, Literal["tokens", "sequences"])
    check_choice("form", form, Form)
    if not isinstance(values, (list, tuple)) or len(values) != plan.ranks:
        message = f"must be a list of the tensors of each of {plan.ranks} ranks, not `{shown(values)}`"
        raise OptionTypeError(message, "values")
    found: dict[int, torch.Tensor] = {}
    for rank, of_rank in enumerate(values):
        members = plan.micro_batches(rank)
        found |= by_sequence(plan, members, of_rank, [of == "tokens"] * len(members))
    return in_form(ordered(found, are_of_tokens=of == "tokens"), form)


def check_tensors(values: object) -> None:
    """Refuses a value that is no list of tensors."""
    if not isinstance(values, (list, tuple)) or not all(isinstance(it, torch.Tensor) for it in values):
        message = f"must be a list with a tensor for each micro-batch, not `{shown(values)}`"
        raise OptionTypeError(message, "values")


def ordered(found: Mapping[int, torch.Tensor], *, are_of_tokens: bool) -> list[torch.Tensor] | torch.Tensor:
    """The values in the order of their sequences."""
    values = [found[sequence] for sequence in sorted(found)]
    return values if are_of_tokens or not values else torch.stack(values)


def by_sequence(
    plan: StepPlan,
    members: Sequence[npt.NDArray[np.int64]],
    values: Sequence[torch.Tensor],
    are_of_tokens: Sequence[bool],
) -> dict[int, torch.Tensor]:
    """The values of each sequence of some micro-batches."""
    check_tensors(values)
    if len(values) != len(members):
        message = f"must be a tensor for each of {len(members)} micro-batches, not {len(values)}"
        raise BatchError(message)
    found: dict[int, torch.Tensor] = {}
    for number, (sequences, given, is_of_tokens) in enumerate(
        zip(members, values, are_of_tokens, strict=True)
    ):
        lengths = plan.lengths[sequences]
        gaps = -lengths % plan.align_to
        total = int((lengths + gaps).sum())
        flat = given.flatten(0, 1) if is_of_tokens and given.ndim > 1 else given
        fits = flat.ndim > 0 and (flat.shape[0] >= total if is_of_tokens else flat.shape[0] == len(sequences))
        if not fits:
            wanted = f"{total} tokens" if is_of_tokens else f"{len(sequences)} sequences"
            message = f"has the shape {list(given.shape)} for micro-batch {number}, which has {wanted}"
            raise BatchError(message)
        parts = flat[:total].split((lengths + gaps).tolist()) if is_of_tokens else flat.unbind()
        if is_of_tokens and gaps.any():
            parts = tuple(part[:length] for part, length in zip(parts, lengths.tolist(), strict=True))
        found.update(zip(sequences.tolist(), parts, strict=True))
    return found


def in_form(values: list[torch.Tensor] | torch.Tensor, form: Form) -> list[torch.Tensor] | torch.Tensor:
    """Values in the form that is asked for."""
    if isinstance(values, torch.Tensor) or form == "list" or not values:
        return values
    if form == "padded":
        return torch.nn.utils.rnn.pad_sequence(values, batch_first=True)
    return torch.nested.nested_tensor(values, layout=torch.jagged)
