"""`pack_step`: the micro-batches of a rank in a training step, and the way back to the order that came in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np
import torch

from fastpack._checks import check_choice, check_type, is_series, shown, whole_number, whole_numbers
from fastpack._failures import noted
from fastpack._types import NOT_TRAINED
from fastpack.errors import BatchError, OptionError, OptionTypeError
from fastpack.step.columns import SequenceColumn, TokenColumn, column_of
from fastpack.step.plan import StepPlan
from fastpack.torch.batches import Batch, PaddedTo, collate
from fastpack.torch.restoring import Form, by_sequence, check_tensors, in_form, ordered

if TYPE_CHECKING:
    import numpy.typing as npt

    from fastpack.step.columns import Array

__all__ = ["LossWeights", "MicroBatch", "Step", "pack_step"]

LossWeights: TypeAlias = Literal["token", "sequence", "group", "constant"]

_IDS: Final = "input_ids"
_TRAINED: Final = "loss_mask"
_WEIGHTS: Final = "loss_weights"


@dataclass(frozen=True, slots=True, eq=False)
class MicroBatch:
    """Sequences that a rank trains on at once.

    Attributes:
        inputs: The keyword arguments of a model, as `collate` makes them: `labels` are the ids where `loss_mask` is not 0.
        columns: The other columns by name, each with the value of a token at the place of that token in `input_ids`, and 0 at
            padding: `[1, T]`, `[B, L]` where `padded` keeps sequences apart, with a last dimension where values are vectors; and `[B]`
            where each sequence has one.
        sequences: The numbers of the sequences (int64).
        lengths: The tokens of each (int64).
        mini_batch: The number of the optimizer step.
        kind: The kind of the sequences, if the plan has kinds.
    """

    inputs: Batch
    columns: dict[str, torch.Tensor]
    sequences: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    mini_batch: int
    kind: object = None


class Step:
    """The micro-batches of a rank, in the order in which it trains on them."""

    def __init__(self, micro_batches: Sequence[MicroBatch], plan: StepPlan, untrained: int) -> None:
        """Holds what `pack_step` made."""
        self._micro_batches = micro_batches
        self.plan = plan
        self.untrained = untrained
        """The sequences of this rank without a trained token. They count in the denominators of a loss as it defines them."""

    def __getitem__(self, place: int) -> MicroBatch:
        """The micro-batch at a place."""
        return self._micro_batches[place]

    def __iter__(self) -> Iterator[MicroBatch]:
        """The micro-batches, in the order in which the rank trains on them."""
        return iter(self._micro_batches)

    def __len__(self) -> int:
        """The number of micro-batches."""
        return len(self._micro_batches)

    @property
    def sequences(self) -> npt.NDArray[np.int64]:
        """The sequences of this rank, in the order that came in (int64)."""
        return np.sort(np.concatenate([it.sequences for it in self] or [np.empty(0, dtype=np.int64)]))

    def restore(
        self, values: Sequence[torch.Tensor], form: Form = "list"
    ) -> list[torch.Tensor] | torch.Tensor:
        """Puts values that were computed of the micro-batches back in the order of the `sequences`.

        Args:
            values: A tensor for each micro-batch: with a value for each of its tokens, in the shape of its `input_ids`, or one for each
                of its sequences.
            form: A list with a tensor for each sequence, a tensor that is padded with 0 at its end, or a nested tensor. Values of
                sequences are one tensor in any form.

        Returns:
            The values of the sequences of this rank, in the order that came in.

        Raises:
            BatchError: A tensor has another shape.

        Examples:
            >>> import fastpack
            >>> from fastpack.torch import pack_step
            >>> plan = fastpack.plan_step([3, 2, 1], max_length=4)
            >>> step = pack_step({"input_ids": [[5, 6, 7], [8, 9], [4]]}, plan)
            >>> [ids.tolist() for ids in step.restore([batch.inputs["input_ids"] for batch in step])]
            [[5, 6, 7], [8, 9], [4]]
        """
        check_choice("form", form, Form)
        return in_form(_restored(self, values), form)


def pack_step(
    columns: Mapping[str, object],
    plan: StepPlan,
    *,
    rank: int = 0,
    attention_mask: object = None,
    lengths: Sequence[int] | npt.NDArray[np.int64] | None = None,
    shifted: Sequence[str] = (),
    completion_only: Sequence[str] = (),
    weights: LossWeights | None = None,
    groups: Sequence[object] | npt.NDArray[np.int64] | None = None,
    constant: float | None = None,
    world_size: int = 1,
    all_reduce_sum: Callable[[list[float]], list[float]] | None = None,
    padded: PaddedTo | None = None,
    pad_token_id: int = 0,
) -> Step:
    """Packs the sequences of a training step into the micro-batches of a rank.

    Args:
        columns: `input_ids` and any others by name, of all sequences that were planned, in their order. A column has a value (or a
            vector) for each token, or for each sequence. It may be a list with an array for each sequence, a padded array `[B, L]`
            beside `attention_mask`, a flat one beside `lengths`, a nested tensor, or a column of a `pyarrow.Table`. `loss_mask` says
            which tokens are trained; without it, all but the first of each sequence are.
        plan: The plan of `fastpack.plan_step`.
        rank: The rank whose micro-batches are made.
        attention_mask: What counts in padded columns, `[B, L]`: padding may be at either side.
        lengths: The tokens of each sequence in flat columns.
        shifted: Columns that hold at a token what is about the next one, as logits do: they are moved by one token, and the first token
            of each sequence gets 0. They may lack a value for the last token.
        completion_only: Columns with values for the last tokens of each sequence alone, the answer: the tokens before get 0.
        weights: Adds the column `loss_weights`: the sum of the losses of all tokens times their weights, over all micro-batches
            and ranks, is the loss of the optimizer step, whose mean is over trained `"token"`s (DAPO), over `"sequence"`s of means over
            their tokens (GRPO), over `"group"`s of means over their tokens, or over sequences times a `"constant"` number of tokens
            (Dr. GRPO).
        groups: The group of each sequence, for `weights="group"`.
        constant: The number of tokens that each sequence counts for, for `weights="constant"`.
        world_size: The ranks over which gradients are averaged, as DDP and FSDP do: weights are that many times larger.
        all_reduce_sum: Where each rank planned its own sequences: a function that takes a list of numbers, one or two for each
            optimizer step, and returns their sums over all ranks. Groups must lie on one rank each.
        padded: As in `collate`: sequences of a micro-batch stay end to end, or micro-batches are padded to so many tokens.
        pad_token_id: The id that pads `input_ids`.

    Returns:
        The micro-batches. A rank that has no sequence at a place gets a micro-batch of padding, of which nothing is trained.

    Raises:
        BatchError: A column has another length than its sequences; the message names it and the sequence.
        OptionError: An option has a value that it cannot have.

    Examples:
        >>> import fastpack
        >>> from fastpack.torch import pack_step
        >>> plan = fastpack.plan_step([3, 2], max_length=8)
        >>> answers = {"input_ids": [[5, 6, 7], [8, 9]], "advantages": [[0.5, 0.5], [-1.0]]}
        >>> (batch,) = pack_step(answers, plan, completion_only=["advantages"], weights="token")
        >>> batch.inputs["input_ids"].tolist(), batch.columns["advantages"].tolist()
        ([[5, 6, 7, 8, 9]], [[0.0, 0.5, 0.5, 0.0, -1.0]])
    """
    check_type("columns", columns, Mapping, "a dict of columns by name, with `input_ids`")
    check_type("plan", plan, StepPlan, "a plan of `fastpack.plan_step`")
    whole_number("pad_token_id", pad_token_id, 0)
    _check_names(shifted=shifted, completion_only=completion_only)
    ids, others = _read(columns, plan, attention_mask, lengths)
    for option, names in (("shifted", shifted), ("completion_only", completion_only)):
        for name in names:
            if not isinstance(others.get(name), TokenColumn):
                message = f"names `{name}`, which is no column with a value for each token"
                raise OptionError(message, option)
    placed = {
        name: _placed(name, column, ids, shifted=name in shifted, at_end=name in completion_only)
        for name, column in others.items()
    }
    trained = _trained(placed.pop(_TRAINED, None), plan)
    if weights is not None:
        placed[_WEIGHTS] = _weights(trained, plan, (weights, groups, constant), world_size, all_reduce_sum)
    own = plan.micro_batches(rank)
    packed = [
        _packed(number, members, ids, placed, trained, plan, padded, pad_token_id)
        for number, members in enumerate(own)
    ]
    untrained = sum(not trained(sequence).any() for members in own for sequence in members.tolist())
    return Step(packed, plan, untrained)


def _check_names(**options: object) -> None:
    """Refuses what is no list of names of columns."""
    for option, names in options.items():
        if not is_series(names) or not all(isinstance(name, str) for name in names):
            message = f"must be a list of names of columns, not `{shown(names)}`"
            raise OptionTypeError(message, option)


def _read(
    columns: Mapping[str, object], plan: StepPlan, attention_mask: object, lengths: object
) -> tuple[TokenColumn, dict[str, TokenColumn | SequenceColumn]]:
    """The column `input_ids`, with as many tokens as were planned, and the others."""
    if _IDS not in columns:
        message = "must have `input_ids`"
        raise OptionError(message, "columns")
    mask = None
    if attention_mask is not None:
        check_type(
            "attention_mask", attention_mask, (list, np.ndarray, torch.Tensor), "an array of zeros and ones"
        )
        try:
            mask = np.asarray(attention_mask).astype(bool)
        except (TypeError, ValueError):
            mask = np.empty(0, dtype=bool)
        if mask.ndim != 2 or len(mask) != len(plan.lengths):  # noqa: PLR2004  sequences, and their tokens
            message = (
                f"must have a row for each of {len(plan.lengths)} sequences, not the shape {list(mask.shape)}"
            )
            raise OptionError(message, "attention_mask")
    of_each = None if lengths is None else whole_numbers("lengths", lengths)
    read = {
        name: column_of(name, values, len(plan.lengths), mask=mask, lengths=of_each)
        for name, values in columns.items()
    }
    ids = read.pop(_IDS)
    if not isinstance(ids, TokenColumn) or ids.empty.dtype.kind not in "iu":
        message = "column `input_ids` must have a whole number for each token"
        raise BatchError(message)
    if len(ids.lengths) != len(plan.lengths):
        message = f"column `input_ids` has {len(ids.lengths)} sequences, but {len(plan.lengths)} were planned"
        raise BatchError(message)
    cut = np.zeros(len(plan.lengths), dtype=bool)
    cut[plan.cut], cut[plan.dropped] = True, True
    wrong = np.flatnonzero((ids.lengths != plan.lengths) & ~(cut & (ids.lengths > plan.lengths)))
    if wrong.size:
        at = wrong[0]
        message = f"column `input_ids` has {ids.lengths[at]} tokens in sequence {at}, of which {plan.lengths[at]} were planned"
        raise BatchError(message)
    return ids, read


def _placed(
    name: str, column: TokenColumn | SequenceColumn, ids: TokenColumn, *, shifted: bool, at_end: bool
) -> TokenColumn | SequenceColumn:
    """A column with a value for each token of `input_ids`, at its place."""
    if isinstance(column, SequenceColumn):
        return column
    wanted = ids.lengths
    if len(column.lengths) != len(wanted):
        message = f"column `{name}` has {len(column.lengths)} sequences, but `input_ids` has {len(wanted)}"
        raise BatchError(message)
    fits = column.lengths <= wanted if at_end else column.lengths == wanted
    if shifted:
        fits |= column.lengths == wanted - 1
    wrong = np.flatnonzero(~fits)
    if wrong.size:
        at = wrong[0]
        hint = "" if at_end else f'; if it has values of the answer alone, give completion_only=["{name}"]'
        message = (
            f"column `{name}` has {column.lengths[at]} values in sequence {at} of {wanted[at]} tokens{hint}"
        )
        raise BatchError(message)

    def of(sequence: int) -> Array:
        given = column.of(sequence)
        if shifted and len(given) == wanted[sequence]:
            given = given[:-1]
        if len(given) == wanted[sequence]:
            return given
        before = wanted[sequence] - len(given)
        return np.concatenate([np.zeros((before, *given.shape[1:]), dtype=given.dtype), given])

    return TokenColumn(of, wanted, column.empty, column.is_bfloat16)


def _trained(
    mask: TokenColumn | SequenceColumn | None, plan: StepPlan
) -> Callable[[int], npt.NDArray[np.bool_]]:
    """Whether each token of a sequence is trained. The first never is: nothing predicts it."""
    if mask is not None and (isinstance(mask, SequenceColumn) or mask.empty.ndim != 1):
        message = f"column `{_TRAINED}` must have a number for each token"
        raise BatchError(message)

    def of(sequence: int) -> npt.NDArray[np.bool_]:
        length = int(plan.lengths[sequence])
        trained = np.ones(length, dtype=bool) if mask is None else mask.of(sequence)[:length] != 0
        trained[:1] = False
        return trained

    return of


def _weights(
    trained: Callable[[int], npt.NDArray[np.bool_]],
    plan: StepPlan,
    by: tuple[LossWeights, object, float | None],
    world_size: int,
    all_reduce_sum: Callable[[list[float]], list[float]] | None,
) -> TokenColumn:
    """The weight of each token in the loss of its optimizer step."""
    kind, groups, constant = by
    check_choice("weights", kind, LossWeights)
    scale = whole_number("world_size", world_size, 1)
    sequences = len(plan.lengths)
    kept = plan.lengths > 0
    tokens = np.array([np.count_nonzero(trained(sequence)) for sequence in range(sequences)], dtype=np.int64)
    steps = _mini_batches(plan)
    unit = np.arange(sequences)
    if kind == "group":
        if not is_series(groups):
            message = f'must be the group of each sequence with weights="group", not `{shown(groups)}`'
            raise OptionError(message, "groups")
        listed = groups.tolist() if isinstance(groups, np.ndarray) else list(groups)
        if len(listed) != sequences:
            message = f"has {len(listed)} values for {sequences} sequences"
            raise OptionError(message, "groups")
        numbers: dict[object, int] = {}
        unit = np.array(
            [
                numbers.setdefault((step, it), len(numbers))
                for step, it in zip(steps.tolist(), listed, strict=True)
            ]
        )
    if kind == "constant" and not _is_positive(constant):
        message = (
            'must be given with weights="constant": the tokens that each sequence counts for, more than 0'
        )
        raise OptionError(message, "constant")
    count = int(steps.max(initial=-1)) + 1
    if kind == "token":
        totals = np.bincount(steps[kept], tokens[kept], count).astype(float)
    elif kind == "group":
        first = np.zeros(sequences, dtype=bool)
        first[np.unique(np.where(kept, unit, -1), return_index=True)[1]] = True
        totals = np.bincount(steps[kept & first], minlength=count).astype(float)
    else:
        totals = np.bincount(steps[kept], minlength=count).astype(float)
    if all_reduce_sum is not None:
        totals = _summed(all_reduce_sum, totals)
    inside: npt.NDArray[np.float64] = np.ones(sequences)
    if kind == "constant":
        inside *= float(constant or 1)
    elif kind != "token":
        inside *= np.bincount(unit[kept], tokens[kept], int(unit.max(initial=-1)) + 1)[unit]
    total = totals[np.maximum(steps, 0)] if count else np.ones(sequences)
    of_sequence = scale / np.maximum(inside * total, np.finfo(float).tiny)
    return TokenColumn(
        lambda sequence: trained(sequence) * of_sequence[sequence],
        plan.lengths,
        np.empty(0, dtype=np.float64),
    )


def _is_positive(value: object) -> bool:
    return isinstance(value, (int, float)) and 0 < value < float("inf")


def _summed(all_reduce_sum: object, totals: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The sums over all ranks, by a function of the caller's."""
    if not callable(all_reduce_sum):
        message = f"must be a function that takes a list of numbers and returns their sums, not `{shown(all_reduce_sum)}`"
        raise OptionTypeError(message, "all_reduce_sum")
    with noted("while fastpack called `all_reduce_sum`"):
        given = all_reduce_sum(totals.tolist())
    sums = list(given) if is_series(given) else []
    if len(sums) != len(totals) or not all(isinstance(it, (int, float)) for it in sums):
        message = f"must return {len(totals)} numbers, not `{shown(given)}`"
        raise OptionTypeError(message, "all_reduce_sum")
    return np.array(sums, dtype=float)


def _mini_batches(plan: StepPlan) -> npt.NDArray[np.int64]:
    """The optimizer step of each sequence; -1 where it is dropped."""
    steps = np.full(len(plan.lengths), -1, dtype=np.int64)
    of_micro_batch = np.repeat(plan.mini_batches, plan.ranks)
    steps[plan.members] = np.repeat(of_micro_batch, np.diff(plan.offsets))
    return steps


def _packed(
    number: int,
    members: npt.NDArray[np.int64],
    ids: TokenColumn,
    placed: Mapping[str, TokenColumn | SequenceColumn],
    trained: Callable[[int], npt.NDArray[np.bool_]],
    plan: StepPlan,
    padded: PaddedTo | None,
    pad_token_id: int,
) -> MicroBatch:
    """One micro-batch."""
    lengths = plan.lengths[members]
    gaps = -lengths % plan.align_documents_to
    if not len(members):
        gaps = np.array([plan.align_documents_to])  # padding alone

    def laid(of: Callable[[int], Array], empty: Array, fill: float = 0) -> Array:
        """The values of the micro-batch, with what fills each sequence up behind it."""
        pieces = [of(sequence)[:length] for sequence, length in zip(members.tolist(), lengths, strict=True)]
        if gaps.any():
            rest = [np.full((gap, *empty.shape[1:]), fill, dtype=empty.dtype) for gap in gaps]
            pieces = [piece for pair in zip(pieces or [empty], rest, strict=True) for piece in pair]
        joined: Array = np.concatenate(pieces)  # type: ignore[assignment]  # of any numbers
        return joined

    tokens = laid(ids.of, ids.empty, pad_token_id)
    labels = np.where(laid(trained, np.empty(0, dtype=bool)), tokens.astype(np.int64), NOT_TRAINED)
    documents = np.stack([lengths, gaps], axis=1).ravel() if len(members) else gaps
    row = {_IDS: tokens, "labels": labels, "seq_lengths": documents[documents > 0]}
    inputs = collate([row], padded=padded, pad_token_id=pad_token_id)
    width = inputs[_IDS].shape[1]
    tensors = {}
    for name, column in placed.items():
        if isinstance(column, SequenceColumn):
            tensors[name] = _tensor(column.values[members], column)
            continue
        values = laid(column.of, column.empty)
        if len(values) < width:
            rest = np.zeros((width - len(values), *values.shape[1:]), dtype=values.dtype)
            values = np.concatenate([values, rest])
        tensors[name] = _tensor(values, column)[None]
    kind = None if plan.kinds is None else plan.kinds[number]
    return MicroBatch(inputs, tensors, members, lengths, int(plan.mini_batches[number]), kind)


def _tensor(values: Array, column: TokenColumn | SequenceColumn) -> torch.Tensor:
    tensor = torch.from_numpy(np.ascontiguousarray(values))
    return tensor.view(torch.bfloat16) if column.is_bfloat16 else tensor


def _restored(step: Step, values: Sequence[torch.Tensor]) -> list[torch.Tensor] | torch.Tensor:
    """The values of each sequence of a rank, in the order that came in."""
    check_tensors(values)
    are_of_tokens = []
    for batch, given in zip(step, values, strict=False):
        shape, count = batch.inputs[_IDS].shape, len(batch.sequences)
        are_of_tokens.append(given.shape[:2] == shape or given.shape[:1] == (shape.numel(),) != (count,))
    members = [batch.sequences for batch in step]
    return ordered(by_sequence(step.plan, members, values, are_of_tokens), are_of_tokens=any(are_of_tokens))
