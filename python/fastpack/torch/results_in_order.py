"""`restore`: the results of ranks, back in the order of the planned sequences."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import torch

from fastpack.arguments.checks import check_choice, check_type, shown, whole_number
from fastpack.errors import BatchError, OptionTypeError
from fastpack.step.plan import StepPlan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from fastpack.torch.collation import PaddedTo

__all__ = ["Form", "ValuesOf", "by_sequence", "check_tensors", "in_form", "ordered", "restore"]

Form: TypeAlias = Literal["list", "padded", "nested"]
ValuesOf: TypeAlias = Literal["tokens", "sequences"]


def restore(
    plan: StepPlan,
    values: Sequence[Sequence[torch.Tensor]],
    *,
    of: ValuesOf = "tokens",
    form: Form = "list",
    padded: PaddedTo | None = None,
) -> list[torch.Tensor] | torch.Tensor:
    """Puts the values that all ranks have computed back in the order of the sequences that were planned.

    Args:
        plan: The plan.
        values: The tensors of each rank: one for each of its micro-batches, as in `Step.restore`.
        of: The unit of the values: one for each token of a micro-batch, or for each of its sequences.
        form: As in `Step.restore`.
        padded: As in `pack_step`, if it padded the micro-batches.

    Returns:
        The values of all sequences but those that the plan dropped.

    Raises:
        BatchError: A tensor is missing, or has another shape than its micro-batch.
    """
    check_type("plan", plan, StepPlan, "a plan of `fastpack.plan_step`")
    check_choice("of", of, ValuesOf)
    check_choice("form", form, Form)
    width = None if padded is None or padded == "longest" else whole_number("padded", padded, 1)
    if not isinstance(values, (list, tuple)) or len(values) != plan.ranks:
        message = f"must be a list of the tensors of each of {plan.ranks} ranks, not `{shown(values)}`"
        raise OptionTypeError(message, "values")
    found: dict[int, torch.Tensor] = {}
    for rank, of_rank in enumerate(values):
        members = plan.micro_batches(rank)
        widths = [width or _tokens(plan, sequences) for sequences in members]
        found |= by_sequence(plan, members, of_rank, widths, of)
    return in_form(ordered(found, of), form)


def check_tensors(values: object, micro_batches: int) -> None:
    """Refuses a value that is no list of a tensor for each micro-batch."""
    if not isinstance(values, (list, tuple)) or not all(isinstance(it, torch.Tensor) for it in values):
        message = f"must be a list with a tensor for each micro-batch, not `{shown(values)}`"
        raise OptionTypeError(message, "values")
    if len(values) != micro_batches:
        message = f"must be a tensor for each of {micro_batches} micro-batches, not {len(values)}"
        raise BatchError(message)


def ordered(found: Mapping[int, torch.Tensor], of: ValuesOf) -> list[torch.Tensor] | torch.Tensor:
    """The values in the order of their sequences."""
    values = [found[sequence] for sequence in sorted(found)]
    return values if of == "tokens" or not values else torch.stack(values)


def by_sequence(
    plan: StepPlan,
    members: Sequence[npt.NDArray[np.int64]],
    values: Sequence[torch.Tensor],
    widths: Sequence[int],
    of: ValuesOf,
) -> dict[int, torch.Tensor]:
    """The values of each sequence of some micro-batches, which are so many tokens wide."""
    check_tensors(values, len(members))
    if of == "sequences":
        _check_shapes(values, [(len(sequences),) for sequences in members], of)
        parts = [tensor.unbind() for tensor in values]
    else:
        rows, flat = [(1, width) for width in widths], [(width,) for width in widths]
        are_rows = _fitting(values, rows) >= _fitting(values, flat)
        _check_shapes(values, rows if are_rows else flat, of)
        parts = [
            _of_tokens(plan, sequences, tensor[0] if are_rows else tensor)
            for sequences, tensor in zip(members, values, strict=True)
        ]
    found: dict[int, torch.Tensor] = {}
    for sequences, of_each in zip(members, parts, strict=True):
        found.update(zip(sequences.tolist(), of_each, strict=True))
    return found


def _fitting(values: Sequence[torch.Tensor], shapes: Sequence[tuple[int, ...]]) -> int:
    """The number of tensors until the first that has other first dimensions than these."""
    fits = (it.shape[: len(shape)] == shape for it, shape in zip(values, shapes, strict=True))
    return sum(1 for _ in itertools.takewhile(bool, fits))


def _check_shapes(values: Sequence[torch.Tensor], shapes: Sequence[tuple[int, ...]], of: ValuesOf) -> None:
    """Refuses a tensor that has other first dimensions than its micro-batch."""
    number = _fitting(values, shapes)
    if number < len(values):
        shape = list(values[number].shape)
        message = f"has the shape {shape} for micro-batch {number}, which has {shapes[number][-1]} {of}"
        raise BatchError(message)


def _tokens(plan: StepPlan, sequences: npt.NDArray[np.int64]) -> int:
    """The tokens of a micro-batch, with the padding that aligns sequences, or stands where there are none."""
    lengths = plan.lengths[sequences]
    return int((lengths + -lengths % plan.align_to).sum()) if len(sequences) else plan.align_to


def _of_tokens(
    plan: StepPlan, sequences: npt.NDArray[np.int64], values: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """The values of the tokens of each sequence of a micro-batch."""
    lengths = plan.lengths[sequences]
    ends = np.cumsum(lengths + -lengths % plan.align_to)
    starts = (ends - lengths - -lengths % plan.align_to).tolist()
    return tuple(
        values[begin : begin + length] for begin, length in zip(starts, lengths.tolist(), strict=True)
    )


def in_form(values: list[torch.Tensor] | torch.Tensor, form: Form) -> list[torch.Tensor] | torch.Tensor:
    """Values in the form that is asked for."""
    if isinstance(values, torch.Tensor) or form == "list" or not values:
        return values
    if form == "padded":
        return torch.nn.utils.rnn.pad_sequence(values, batch_first=True)
    return torch.nested.as_nested_tensor(values, layout=torch.jagged)
