"""`pack_step`: the micro-batches of a rank in a training step, and the way back to the order that came in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import torch

from fastpack.arguments.checks import check_choice, check_type, is_series, shown, whole_number, whole_numbers
from fastpack.errors import BatchError, OptionError, OptionTypeError
from fastpack.step.columns import SequenceColumn, TokenColumn, column_of, without_last
from fastpack.step.loss_weights import LossWeights, loss_weights
from fastpack.step.micro_batch_layout import TokenPlaces
from fastpack.step.plan import StepPlan
from fastpack.torch.collation import Batch, PaddedTo, collate, end_to_end
from fastpack.torch.results_in_order import Form, ValuesOf, by_sequence, check_tensors, in_form, ordered
from fastpack.types import NOT_TRAINED

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from fastpack.step.columns import Array
    from fastpack.step.labels import Labels

__all__ = ["LossWeights", "MicroBatch", "Step", "pack_step"]

_IDS: Final = "input_ids"
_TRAINED: Final = "loss_mask"
_WEIGHTS: Final = "loss_weights"


@dataclass(frozen=True, slots=True, eq=False)
class MicroBatch:
    """Sequences that a rank trains on at once.

    Attributes:
        inputs: The keyword arguments of a model, as `collate` makes them: `labels` are the ids where `loss_mask` is not 0.
        columns: The other columns by name, each with the value of a token at the place of that token in `input_ids`, and 0 at
            padding: `[1, T]`, with a last dimension where values are vectors; and `[B]` where each sequence has one.
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
        """Holds the micro-batches of `pack_step`."""
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
        self, values: Sequence[torch.Tensor], form: Form = "list", *, of: ValuesOf | None = None
    ) -> list[torch.Tensor] | torch.Tensor:
        """Puts values that were computed of the micro-batches back in the order of the `sequences`.

        Args:
            values: A tensor for each micro-batch: with a value, or a vector, for each of its tokens, as `[1, T]` in the shape of its
                `input_ids` or as `[T]`; or a value for each of its sequences, `[B]`. All have the same of these shapes.
            form: A list with a tensor for each sequence, a tensor that is padded with 0 at its end, or a nested tensor. Values of
                sequences are one tensor in any form.
            of: The unit of the values, tokens or sequences: for vectors of sequences, and where the shapes do not tell.

        Returns:
            The values of the sequences of this rank, in the order that came in.

        Raises:
            BatchError: A tensor has another shape than its micro-batch.
            OptionError: There are as many sequences as tokens, so that the values may be those of either.

        Examples:
            >>> import fastpack
            >>> from fastpack.torch import pack_step
            >>> plan = fastpack.plan_step([3, 2, 1], max_length=4)
            >>> step = pack_step({"input_ids": [[5, 6, 7], [8, 9], [4]]}, plan)
            >>> [ids.tolist() for ids in step.restore([batch.inputs["input_ids"] for batch in step])]
            [[5, 6, 7], [8, 9], [4]]
        """
        check_choice("form", form, Form)
        if of is not None:
            check_choice("of", of, ValuesOf)
        what = of or _values_of(self, values)
        widths = [batch.inputs[_IDS].shape[1] for batch in self]
        members = [batch.sequences for batch in self]
        return in_form(ordered(by_sequence(self.plan, members, values, widths, what), what), form)


def pack_step(
    columns: Mapping[str, object] | pa.Table,
    plan: StepPlan,
    *,
    rank: int = 0,
    attention_mask: object = None,
    lengths: Sequence[int] | npt.NDArray[np.int64] | None = None,
    shifted: Sequence[str] = (),
    completion_only: Sequence[str] = (),
    weights: LossWeights | None = None,
    groups: Labels | None = None,
    constant: float | None = None,
    world_size: int = 1,
    all_reduce_sum: Callable[[list[float]], list[float]] | None = None,
    padded: PaddedTo | None = None,
    pad_token_id: int = 0,
) -> Step:
    """Packs the sequences of a training step into the micro-batches of a rank.

    Args:
        columns: `input_ids` and any others by name, of all sequences that were planned, in their order: a dict, a `pyarrow.Table` or a
            `TensorDict`. A column has a value (or a vector) for each token, or for each sequence. It may be a list with an array for
            each sequence, a padded array `[B, L]` beside `attention_mask`, a flat one beside `lengths`, a nested tensor, or a column
            of a table. `loss_mask` says which tokens are trained; without it, all but the first of each sequence are. On a rank
            without sequences, an empty list is a column with a value for each token.
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
        all_reduce_sum: Where each rank planned its own sequences: a function that takes a list of numbers, one for each optimizer
            step, and returns their sums over all ranks. Groups must lie on one rank each.
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
    by_name = _by_name(columns)
    check_type("plan", plan, StepPlan, "a plan of `fastpack.plan_step`")
    whole_number("pad_token_id", pad_token_id, 0)
    _check_names(shifted=shifted, completion_only=completion_only)
    ids, others = _read(by_name, plan, attention_mask, lengths)
    for option, names in (("shifted", shifted), ("completion_only", completion_only)):
        for name in names:
            if not isinstance(others.get(name), TokenColumn):
                message = f"names `{name}`, which is no column with a value for each token"
                raise OptionError(message, option)
    for name, column in others.items():
        if isinstance(column, TokenColumn):
            is_shifted = name in shifted
            _check_lengths(name, column, ids, shifted=is_shifted, at_end=name in completion_only)
            others[name] = without_last(column, ids.lengths) if is_shifted else column
    if weights is not None and _WEIGHTS in others:
        message = f"would replace the column `{_WEIGHTS}`; give one of them"
        raise OptionError(message, "weights")
    mask = _mask_of(others.pop(_TRAINED, None))
    of_sequences = None
    if weights is not None:
        counts = _counts(mask, ids, plan)
        of_sequences = loss_weights(counts, plan, (weights, groups, constant), world_size, all_reduce_sum)
    step_columns = _StepColumns(plan, ids, others, mask, of_sequences)
    return step_columns.step(rank, padded, pad_token_id)


def _by_name(columns: object) -> Mapping[str, object]:
    """Columns by name: a dict, a table of pyarrow, or an object with `keys()`, as a `TensorDict`."""
    if hasattr(columns, "column_names") and hasattr(columns, "column"):
        return {name: columns.column(name) for name in columns.column_names}
    if not isinstance(columns, Mapping) and hasattr(columns, "keys") and hasattr(columns, "__getitem__"):
        return {name: columns[name] for name in columns.keys()}  # noqa: SIM118  no Mapping
    check_type("columns", columns, Mapping, "a dict of columns by name, with `input_ids`, or a table")
    return columns  # type: ignore[return-value]  # the line above has looked


def _check_names(**options: object) -> None:
    """Refuses a value that is no list of names of columns."""
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
        mask = _mask_array(attention_mask)
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
    if isinstance(ids, SequenceColumn) and (of_each is not None or not len(plan.lengths)):
        ids = ids.as_tokens()
    if not isinstance(ids, TokenColumn) or (len(ids.lengths) and ids.empty.dtype.kind not in "iu"):
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


def _mask_array(attention_mask: object) -> npt.NDArray[np.bool_]:
    """The attention mask as an array; an empty one for a value that is no array."""
    check_type(
        "attention_mask", attention_mask, (list, np.ndarray, torch.Tensor), "an array of zeros and ones"
    )
    if isinstance(attention_mask, torch.Tensor):
        counts: npt.NDArray[np.bool_] = (attention_mask.detach() != 0).cpu().numpy()
        return counts
    try:
        return np.asarray(attention_mask).astype(bool)
    except (TypeError, ValueError):
        return np.empty(0, dtype=bool)


def _check_lengths(name: str, column: TokenColumn, ids: TokenColumn, *, shifted: bool, at_end: bool) -> None:
    """Refuses a column with another number of values than its sequences have tokens."""
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


def _mask_of(column: TokenColumn | SequenceColumn | None) -> TokenColumn | None:
    """The column that says which tokens are trained, if there is one."""
    if isinstance(column, SequenceColumn) or (column is not None and column.empty.ndim != 1):
        message = f"column `{_TRAINED}` must have a number for each token"
        raise BatchError(message)
    return column


def _trained(mask: TokenColumn | None, ids: TokenColumn, places: TokenPlaces) -> npt.NDArray[np.bool_]:
    """True if each token of a micro-batch is trained. The first of a sequence never is: nothing predicts it."""
    trained = places.documents() if mask is None else places.lay(mask, ids.lengths) != 0
    trained[places.starts] = False
    return trained


def _counts(mask: TokenColumn | None, ids: TokenColumn, plan: StepPlan) -> npt.NDArray[np.int64]:
    """The trained tokens of each sequence."""
    counts = np.maximum(plan.lengths - 1, 0)
    if mask is not None:
        for rank in range(plan.ranks):
            for members in plan.micro_batches(rank):
                places = TokenPlaces.of(plan, members)
                counts[members] = places.sums(_trained(mask, ids, places))
    return counts


@dataclass(frozen=True, slots=True, eq=False)
class _StepColumns:
    """The columns of all sequences, for the micro-batches of a rank."""

    plan: StepPlan
    ids: TokenColumn
    columns: Mapping[str, TokenColumn | SequenceColumn]
    mask: TokenColumn | None
    weights: npt.NDArray[np.float64] | None

    def step(self, rank: int, padded: PaddedTo | None, pad_token_id: int) -> Step:
        """The micro-batches of a rank, and its sequences without a trained token."""
        micro_batches, untrained = [], 0
        for number, members in enumerate(self.plan.micro_batches(rank)):
            places = TokenPlaces.of(self.plan, members)
            trained = _trained(self.mask, self.ids, places)
            untrained += int(np.count_nonzero(places.sums(trained) == 0))
            micro_batches.append(self._micro_batch(number, places, trained, padded, pad_token_id))
        return Step(micro_batches, self.plan, untrained)

    def _micro_batch(
        self,
        number: int,
        places: TokenPlaces,
        trained: npt.NDArray[np.bool_],
        padded: PaddedTo | None,
        pad_token_id: int,
    ) -> MicroBatch:
        tokens = places.lay(self.ids, self.ids.lengths, fill=pad_token_id, dtype=np.int64).view(np.int64)
        labels = np.where(trained, tokens, NOT_TRAINED)
        lengths = places.seq_lengths()
        if padded is None:
            inputs, _, _ = end_to_end({_IDS: tokens, "labels": labels}, [lengths])
        else:
            row = {_IDS: tokens, "labels": labels, "seq_lengths": lengths}
            inputs = collate([row], padded=padded, pad_token_id=pad_token_id)
        width = inputs[_IDS].shape[1]
        tensors = {}
        for name, column in self.columns.items():
            if isinstance(column, SequenceColumn):
                tensors[name] = _tensor(column.values[places.members], column.bits_of)
            else:
                tensors[name] = _tensor(places.lay(column, self.ids.lengths, width), column.bits_of)[None]
        if self.weights is not None:
            weights = np.zeros(width)
            weights[: places.total] = places.spread(self.weights[places.members]) * trained
            tensors[_WEIGHTS] = torch.from_numpy(weights)[None]
        kind = None if self.plan.kinds is None else self.plan.kinds[number]
        mini_batch = int(self.plan.mini_batches[number])
        return MicroBatch(inputs, tensors, places.members, places.lengths, mini_batch, kind)


def _tensor(values: Array, bits_of: object) -> torch.Tensor:
    tensor = torch.from_numpy(np.ascontiguousarray(values))
    return tensor if bits_of is None else tensor.view(bits_of)


def _values_of(step: Step, values: Sequence[torch.Tensor]) -> ValuesOf:
    """The unit of the values, by the shapes of the tensors: tokens or sequences."""
    check_tensors(values, len(step))
    pairs = list(zip(step, values, strict=True))
    if not pairs or not all(tensor.shape == (len(batch.sequences),) for batch, tensor in pairs):
        return "tokens"
    if all(tensor.shape == batch.inputs[_IDS].shape[1:] for batch, tensor in pairs):
        message = 'may be those of tokens or of sequences, of which there are as many; give of="tokens" or of="sequences"'
        raise OptionError(message, "values")
    return "sequences"
