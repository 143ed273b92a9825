"""`check_labels`: checks that the loss of a model is that of the labels of a batch, each by the logits before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import torch

from fastpack.errors import BatchError
from fastpack.torch.checking.passes import forward, tolerance
from fastpack.types import NOT_TRAINED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastpack.torch.checking.passes import ModelResult

__all__ = ["check_labels"]

_SHIFTS: Final = (0, 1, 2, -1, 3)
"""The places by which labels may stand before their tokens, the likely ones first."""

_CHUNK: Final = 1024
"""The labels whose logits are looked at at a time, so that a large vocabulary needs little memory."""


class _CountedLabels(NamedTuple):
    """The labels that count, and the predictions of the logits before them.

    Attributes:
        rows: The row of each.
        at: The place of each in its row.
        losses: The loss of each.
        others: Another label for each: the least likely one.
        moves: The change of the loss of each with that.
    """

    rows: torch.Tensor
    at: torch.Tensor
    losses: torch.Tensor
    others: torch.Tensor
    moves: torch.Tensor


def check_labels(
    model: torch.nn.Module,
    batch: Mapping[str, torch.Tensor],
    documents: Sequence[tuple[int, int, int]],
    result: ModelResult,
) -> None:
    """Refuses labels that do not belong to the tokens, and a loss that is not theirs.

    All labels are changed, then one alone is left, then that one is changed too. The loss must move by the difference of the
    logits before the labels each time: the mean of it, or a constant part.

    Args:
        model: The model, in evaluation mode.
        batch: Its keyword arguments.
        documents: The row, the start and the length of each document.
        result: The model's output for the batch.

    Raises:
        BatchError: They do not fit.
    """
    ids, labels = batch["input_ids"], batch.get("labels")
    if not isinstance(labels, torch.Tensor) or result.loss is None:
        return
    labels = labels.as_subclass(torch.Tensor)
    trained = labels != NOT_TRAINED
    if not trained.any():
        return
    if not result.loss.isfinite().all():
        message = f"the loss of the model is {float(result.loss)}, though its logits are finite"
        raise BatchError(message)
    shift = _shift_of(ids, labels)
    if shift not in {0, 1, None}:
        where = f"{shift} places before" if shift > 0 else "behind"
        message = (
            f"the labels stand {where} their tokens: something shifted them after packing; leave that out, or "
            "shift_labels of `collate`"
        )
        raise BatchError(message)
    first = _first_tokens(ids, documents)
    if shift == 1:
        # A label of the last token of a document is the first token of the next one.
        first = torch.nn.functional.pad(first[:, 1:], (0, 1), value=True)
    _check_first(model, batch, labels, trained & first, result)
    # Labels that are no tokens of the row, such as those of masked tokens, stand at their place or before it.
    distances = {0: (1,), 1: (0,), None: (1, 0)}[shift]
    complaint = ""
    for distance in distances:
        counted = trained & ~first if shift is not None else trained.clone()
        counted[:, :distance] = False
        complaint = _complaint(
            model, batch, labels, _places(result.logits, labels, counted, distance), result
        )
        if not complaint:
            return
    message = f"{complaint}: {_cause(result, labels, trained, distances[0])}"
    raise BatchError(message)


def _shift_of(ids: torch.Tensor, labels: torch.Tensor) -> int | None:
    """The shift of the labels before their tokens; `None` if they are other tokens."""
    width = ids.shape[1]
    for shift in _SHIFTS:
        here = labels[:, max(0, -shift) : width - max(0, shift)]
        there = ids[:, max(0, shift) : width - max(0, -shift)]
        trained = here != NOT_TRAINED
        if trained.any() and bool((here == there)[trained].all()):
            return shift
    return None


def _first_tokens(ids: torch.Tensor, documents: Sequence[tuple[int, int, int]]) -> torch.Tensor:
    """The places of the first tokens of documents, and of the tokens behind them."""
    first = torch.ones_like(ids, dtype=torch.bool)
    for row, start, length in documents:
        first[row, start + 1 : start + length] = False
    return first


def _check_first(
    model: torch.nn.Module,
    batch: Mapping[str, torch.Tensor],
    labels: torch.Tensor,
    first: torch.Tensor,
    result: ModelResult,
) -> None:
    """Refuses labels that are predicted from another document, if the loss counts them."""
    if not first.any() or result.loss is None:
        return
    changed = forward(model, {**batch, "labels": torch.where(first, NOT_TRAINED, labels)})
    if changed.loss is None or not _is_near(float(changed.loss), float(result.loss), result):
        row, at = first.nonzero()[0].tolist()
        message = (
            f"the label at row {row}, token {at} is predicted from another document, and the loss counts it; use "
            "fastpack.torch.collate, which leaves out the first tokens of documents, as it is"
        )
        raise BatchError(message)


def _places(
    logits: torch.Tensor, labels: torch.Tensor, counted: torch.Tensor, distance: int
) -> _CountedLabels:
    """The labels that count; `distance` places before each are its logits."""
    rows, at = counted.nonzero(as_tuple=True)
    found: list[tuple[torch.Tensor, ...]] = []
    for row, place in zip(rows.split(_CHUNK), at.split(_CHUNK), strict=True):
        before, wanted = logits[row, place - distance].float(), labels[row, place]
        losses = torch.nn.functional.cross_entropy(before, wanted, reduction="none")
        least, others = before.min(-1)
        moves = before.gather(-1, wanted[:, None])[:, 0] - least
        found.append((losses.double(), others, moves.double()))
    empty = torch.zeros(0, dtype=torch.double, device=logits.device)
    parts = [torch.cat(part) for part in zip(*found, strict=True)] or [empty, empty.long(), empty]
    return _CountedLabels(rows, at, *parts)


def _complaint(
    model: torch.nn.Module,
    batch: Mapping[str, torch.Tensor],
    labels: torch.Tensor,
    places: _CountedLabels,
    result: ModelResult,
) -> str:
    """The difference of the loss from that of the labels; empty if there is none."""
    number, whole = len(places.losses), float(places.losses.sum())
    found = float("nan") if result.loss is None else float(result.loss)
    if number == 0:
        return f"the loss of the model is {found:.4g}, though no label has a token of its document before it"
    changed = labels.clone()
    changed[places.rows, places.at] = places.others
    moved = _loss(model, batch, changed) - found
    wanted = float(places.moves.sum())
    # A mean over the labels, or a constant part of their sum.
    part = moved / wanted if wanted else 1 / number
    one = int(places.moves.argmax())
    row, at = int(places.rows[one]), int(places.at[one])
    single = torch.full_like(labels, NOT_TRAINED)
    single[row, at] = labels[row, at]
    alone = _loss(model, batch, single)
    single[row, at] = places.others[one]
    alone_moved = _loss(model, batch, single) - alone
    loss, move = float(places.losses[one]), float(places.moves[one])
    is_mean = _is_near(moved, wanted / number, result) and _is_near(alone_moved, move, result)
    if not is_mean and not (part > 0 and _is_near(alone_moved, part * move, result)):
        predicted = wanted / number
        return (
            f"other labels move the loss by {moved:.4g}, and the logits before them say {predicted:.4g}; one alone moves it by "
            f"{alone_moved:.4g}, and its logits say {move:.4g}"
        )
    rest, rest_alone = (
        (found - whole / number, alone - loss) if is_mean else (found - part * whole, alone - part * loss)
    )
    if not _is_near(found - rest + rest_alone, found, result):
        return f"the loss of the model is {found:.4g}, but {found - rest + rest_alone:.4g} for its labels"
    if not _is_near(found - rest, found, result) and not (result.has_more and rest > 0):
        return f"the loss of the model is {found:.4g}, but {found - rest:.4g} for its labels"
    return ""


def _loss(model: torch.nn.Module, batch: Mapping[str, torch.Tensor], labels: torch.Tensor) -> float:
    """The loss with other labels."""
    loss = forward(model, {**batch, "labels": labels}).loss
    return float("nan") if loss is None else float(loss)


def _is_near(found: float, wanted: float, result: ModelResult) -> bool:
    """True if two losses are the same but for rounding."""
    loss = result.loss
    size = 0.0 if loss is None else abs(float(loss)) * 8 * torch.finfo(loss.dtype).eps
    return abs(found - wanted) <= tolerance(result.logits) * abs(wanted) + size


def _cause(result: ModelResult, labels: torch.Tensor, trained: torch.Tensor, wanted: int) -> str:
    """The probable fault of the labels, with the remedy."""
    width = labels.shape[1]
    for distance in range(min(4, width)):
        places = trained.clone()
        places[:, :distance] = False
        losses = _places(result.logits, labels, places, distance).losses
        if result.loss is None or not len(losses) or distance == wanted:
            continue
        if not _is_near(float(result.loss), float(losses.mean()), result):
            continue
        if wanted == 0 and distance == 1:
            return "the labels are shifted, and the model shifts them once more; leave shift_labels out"
        if distance == 0:
            return "the model does not shift labels; pass shift_labels=True to `collate`"
        return (
            f"the model predicts tokens from {distance} places before them; its loss must shift labels by one"
        )
    return (
        "the loss counts other places than those of the labels, or each differently; take a loss that is the mean of "
        "`torch.nn.functional.cross_entropy` over the labels that are not -100, such as `fastpack.torch.loss`"
    )
