"""`check`: checks that a model keeps the documents of a batch apart and trains on the right labels."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import torch

from fastpack._types import NOT_TRAINED
from fastpack.errors import BatchError
from fastpack.torch.batches import are_shifted
from fastpack.torch.losses import logits_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fastpack.torch.batches import Batch

__all__ = ["check"]

_EXACT: Final = 1e-3
"""The tolerance in float32: the change of other documents' logits, relative to the changed document's own.

Rounding stays below 1e-5.
"""

_HALF: Final = 3e-2
"""The tolerance in half precision, where rounding is 1e-3 (float16) or 8e-3 (bfloat16)."""

_ALONE: Final = 5.0
"""The factor on the tolerance for a document alone: its attention runs over other shapes."""

_CHUNK: Final = 1024
"""The tokens whose logits are compared at a time, so that a large vocabulary needs little memory."""

_NOT_FOR_FORWARD: Final = ("loss_weights", "num_items_in_batch", "seq_lengths")
"""The entries of a batch that only losses and checks use; models do not take them."""


class _Boundaries(NamedTuple):
    """The boundaries of the documents in a batch.

    Attributes:
        documents: The row, the start and the length of each.
        known_from: The argument or entry from which they were read.
    """

    documents: list[tuple[int, int, int]]
    known_from: str


def check(
    model: torch.nn.Module,
    batch: Mapping[str, torch.Tensor],
    *,
    seq_lengths: Sequence[Sequence[int]] | None = None,
) -> None:
    """Proves on a batch that no document changes the logits of another, or raises an error that names the remedy.

    Every second document gets other tokens; the logits of the others must not move. Then the same with the others.
    A document alone must have the logits that it has in its row. Labels must not be shifted twice. The model runs four
    or five times forward, in evaluation mode and without gradients, and is as before afterwards.

    Args:
        model: The model as it is trained.
        batch: The keyword arguments of the model.
        seq_lengths: The lengths of the documents in each row of the batch; if not given, `cu_seq_lens_q`,
            `seq_lengths` or `position_ids` of the batch say them.

    Raises:
        BatchError: Documents see each other, the batch was cut, labels are shifted twice, a token is outside the
            vocabulary, or a document is longer than the model's positions.

    Examples:
        >>> from fastpack.torch import check, collate
        >>> from transformers import LlamaConfig, LlamaForCausalLM
        >>> sizes = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2}
        >>> model = LlamaForCausalLM(LlamaConfig(vocab_size=50, num_hidden_layers=2, **sizes))
        >>> rows = [{"input_ids": [5, 6, 7, 8, 9], "labels": [-100, 6, 7, -100, 9], "seq_lengths": [3, 2]}]
        >>> check(model, collate(rows))
        >>> check(model, collate(rows) | {"use_cache": True})
        Traceback (most recent call last):
        fastpack.errors.BatchError: documents in this batch see each other: ... call the model with use_cache=False
    """
    ids = batch.get("input_ids")
    if not isinstance(ids, torch.Tensor) or ids.dim() != 2:  # noqa: PLR2004  rows and tokens
        message = "a batch has `input_ids` of the shape [rows, tokens]; give what the model is called with"
        raise BatchError(message)
    _check_shapes(batch, ids)
    boundaries = _boundaries_of(batch, ids, seq_lengths)
    _check_sizes(model, ids, boundaries)
    moved = {name: _on_device(value, model) for name, value in batch.items()}
    with _evaluating(model):
        logits, own_loss = _forward(model, moved)
        leak = _leak(model, moved, boundaries, logits)
        if leak:
            remedy = _remedy(model, moved, boundaries)
            message = f"documents in this batch see each other: {leak}; {remedy}"
            raise BatchError(message)
        _check_alone(model, moved, boundaries, logits)
        if own_loss is not None:
            _check_labels(moved, logits, own_loss)


def _check_shapes(batch: Mapping[str, torch.Tensor], ids: torch.Tensor) -> None:
    """Refuses a batch whose tensors do not cover the same tokens."""
    cut = (
        "; something cut the batch after `collate`: leave dispatch_batches and split_batches of Accelerate "
        "(accelerator_config of a Trainer) at False"
    )
    for name in ("labels", "position_ids", "loss_weights", "seq_idx"):
        values = batch.get(name)
        if isinstance(values, torch.Tensor) and values.shape[-1] != ids.shape[-1]:
            message = f"`{name}` has {values.shape[-1]:,} places, but `input_ids` {ids.shape[-1]:,}{cut}"
            raise BatchError(message)
    for name in ("cu_seq_lens_q", "cu_seq_lens_k"):
        ends = batch.get(name)
        if isinstance(ends, torch.Tensor) and (
            ends.dim() != 1 or int(ends[-1]) != ids.numel() or int(ends[0])
        ):
            message = f"`{name}` ends at {int(ends.reshape(-1)[-1]):,}, but the batch has {ids.numel():,} tokens{cut}"
            raise BatchError(message)


def _boundaries_of(
    batch: Mapping[str, torch.Tensor], ids: torch.Tensor, seq_lengths: Sequence[Sequence[int]] | None
) -> _Boundaries:
    """The boundaries of the documents: as the caller gives them, or else as the batch does."""
    rows, width = ids.shape
    lengths, known_from = _lengths_of(batch, rows, width, seq_lengths)
    documents = []
    for number, row in enumerate(lengths):
        starts = accumulate(row, initial=0)
        documents += [(number, start, length) for start, length in zip(starts, row, strict=False) if length]
        if sum(row) > width or len(lengths) != rows:
            message = (
                f"`{known_from}` come to {sum(row):,} tokens in row {number} of {len(lengths):,}, but `input_ids` has the "
                f"shape {list(ids.shape)}; rows were cut: set max_length=None in a TRL trainer"
            )
            raise BatchError(message)
    return _Boundaries(documents, known_from)


def _lengths_of(
    batch: Mapping[str, torch.Tensor], rows: int, width: int, seq_lengths: Sequence[Sequence[int]] | None
) -> tuple[list[list[int]], str]:
    """The lengths of the documents of each row, and the argument or entry that holds them."""
    given = batch.get("seq_lengths") if seq_lengths is None else seq_lengths
    if given is not None:
        lengths = [list(map(int, row)) for row in given]
        return [list(chain.from_iterable(lengths))] if rows == 1 else lengths, "seq_lengths"
    if rows == 1 and batch.get("cu_seq_lens_q") is not None:
        return [batch["cu_seq_lens_q"].diff().tolist()], "cu_seq_lens_q"
    if batch.get("position_ids") is None:
        message = (
            "the batch does not say where documents begin: it has neither `cu_seq_lens_q` nor `position_ids`; use "
            "fastpack.torch.collate, or pass seq_lengths= of its rows"
        )
        raise BatchError(message)
    lengths = []
    for row in batch["position_ids"].expand(rows, -1):
        starts = [0, *((row.diff() != 1).nonzero().flatten() + 1).tolist(), width]
        lengths.append([end - start for start, end in pairwise(starts)])
    return lengths, "position_ids"


def _check_sizes(model: torch.nn.Module, ids: torch.Tensor, boundaries: _Boundaries) -> None:
    """Refuses ids outside the model's vocabulary, and documents longer than its positions."""
    embedding = model.get_input_embeddings() if hasattr(model, "get_input_embeddings") else None
    known = getattr(embedding, "num_embeddings", None)
    highest = int(ids.max())
    if known is not None and highest >= known:
        message = (
            f"column `input_ids` has the token {highest:,}, but the model's embedding has {known:,} rows; pack with the "
            "model's own tokenizer, or call model.resize_token_embeddings"
        )
        raise BatchError(message)
    positions = getattr(getattr(model, "config", None), "max_position_embeddings", None)
    longest = max(length for _, _, length in boundaries.documents)
    if isinstance(positions, int) and longest > positions > 0:
        message = (
            f"column `seq_lengths` has a document of {longest:,} tokens, but the model has {positions:,} positions; "
            f"pack with max_length={positions}"
        )
        raise BatchError(message)


@contextmanager
def _evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Turns off gradients and dropout; restores the mode of each module afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training


def _on_device(value: object, model: torch.nn.Module) -> object:
    """Moves a value of the batch to the model's device."""
    if not hasattr(value, "to"):
        return value
    parameter = next(model.parameters(), None)
    return value if parameter is None else value.to(parameter.device)


def _forward(
    model: torch.nn.Module, batch: Mapping[str, torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Runs the model; returns the logits, and the loss if the model computes one."""
    given = {name: value for name, value in batch.items() if name not in _NOT_FOR_FORWARD}
    plain = given.get("labels")
    if isinstance(plain, torch.Tensor):
        given["labels"] = plain.as_subclass(torch.Tensor)
    try:
        outputs = model(**given)
    except TypeError as refused:
        message = f"the model cannot be called with this batch: {refused}"
        raise BatchError(message) from refused
    own_loss = getattr(outputs, "loss", None)
    return logits_of(outputs), own_loss if isinstance(own_loss, torch.Tensor) else None


def _leak(
    model: torch.nn.Module, batch: Mapping[str, torch.Tensor], boundaries: _Boundaries, logits: torch.Tensor
) -> str | None:
    """Describes a leak: other tokens in some documents change the logits of the others; `None` if there is none."""
    ids = batch["input_ids"]
    vocabulary = logits.shape[-1]
    # 0 at padding, which may attend to anything; 1 and 2 in alternating documents.
    parts = torch.zeros(ids.shape, dtype=torch.int8, device=ids.device)
    for number, (row, start, length) in enumerate(boundaries.documents):
        parts[row, start : start + length] = 1 + number % 2
    for part in (1, 2):
        chosen, unchanged = parts == part, parts == 3 - part
        if not chosen.any() or not unchanged.any():
            continue
        # Each token is replaced by one half a vocabulary away, since neighbouring ids may have similar embeddings.
        changed = torch.where(chosen, (ids + vocabulary // 2) % vocabulary, ids)
        perturbed, _ = _forward(model, {**batch, "input_ids": changed})
        movement = _movement(logits, perturbed)
        own, others = movement[chosen].max(), torch.where(unchanged, movement, 0)
        if float(others.max()) > _tolerance(logits) * float(own):
            row, at = divmod(int(others.argmax()), ids.shape[1])
            return (
                f"other tokens in one document move the logits of another by {float(others.max()):.3g} "
                f"at row {row}, token {at}"
            )
    return None


def _movement(logits: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """The largest difference between the two logits of each token."""
    pairs = zip(logits.split(_CHUNK, 1), others.split(_CHUNK, 1), strict=True)
    return torch.cat([(one - other).abs().amax(-1).float() for one, other in pairs], 1)


def _tolerance(logits: torch.Tensor) -> float:
    return _EXACT if logits.dtype in {torch.float32, torch.float64} else _HALF


def _remedy(model: torch.nn.Module, batch: Mapping[str, torch.Tensor], boundaries: _Boundaries) -> str:
    """The remedy that keeps the documents apart, found by trials."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return _WITHOUT_TRYING  # a rank alone must not run a model that all ranks share
    changes = _changes(batch, boundaries)
    together = {name: value for change, _ in changes for name, value in change.items()}
    for change, words in [*changes, (together, " and ".join(words for _, words in changes))]:
        mended = {name: value for name, value in {**batch, **change}.items() if value is not None}
        if change and _keeps_apart(model, mended, boundaries):
            return words
    flat, flat_boundaries = _flattened(batch, boundaries)
    if _keeps_apart(model, flat, flat_boundaries):
        return (
            "lay the rows end to end, as fastpack.torch.collate does: this attention implementation does not read "
            "`position_ids` of several rows"
        )
    name = getattr(getattr(model, "config", None), "model_type", type(model).__name__)
    return (
        f"`{name}` does not read boundaries from `position_ids` with this attention implementation: pack with "
        'strategy="none" and use collate(padded="longest", mask="padding"), or take another model'
    )


_WITHOUT_TRYING: Final = (
    "use fastpack.torch.collate, without an `attention_mask`, and use_cache=False; a model that ignores `position_ids` "
    "needs rows of one document each"
)


def _changes(batch: Mapping[str, torch.Tensor], boundaries: _Boundaries) -> list[tuple[Batch, str]]:
    """Possible faults of a batch: for each, the corrected values and the remedy."""
    changes: list[tuple[Batch, str]] = []
    ids, mask, positions = batch["input_ids"], batch.get("attention_mask"), batch.get("position_ids")
    if isinstance(mask, torch.Tensor) and mask.dim() == 2:  # noqa: PLR2004  zeros and ones, a row each
        words = (
            "leave out `attention_mask`, which makes a row one document: use fastpack.torch.collate (in a TRL trainer, "
            "padding_free=True)"
        )
        changes.append(({"attention_mask": None}, words))
    expected = torch.arange(ids.shape[1], device=ids.device).repeat(len(ids), 1)
    for row, start, length in boundaries.documents:
        expected[row, start : start + length] = torch.arange(length, device=ids.device)
    if not isinstance(positions, torch.Tensor) or not torch.equal(positions.expand_as(ids), expected):
        wrong = (
            "are missing"
            if positions is None
            else "do not begin at 0 in each document: a collator made others"
        )
        changes.append(
            ({"position_ids": expected}, f"`position_ids` {wrong}; use fastpack.torch.collate as it is")
        )
    if batch.get("use_cache") is not False:
        changes.append(({"use_cache": False}, "call the model with use_cache=False"))
    return changes


def _keeps_apart(model: torch.nn.Module, batch: Mapping[str, torch.Tensor], boundaries: _Boundaries) -> bool:
    logits, _ = _forward(model, batch)
    return _leak(model, batch, boundaries, logits) is None


def _flattened(batch: Mapping[str, torch.Tensor], boundaries: _Boundaries) -> tuple[Batch, _Boundaries]:
    """Concatenates the documents of a batch to one row; also returns their boundaries in it."""
    ids = batch["input_ids"]
    documents = [(0, 0, 0)]
    for _, _, length in boundaries.documents:
        documents.append((0, sum(documents[-1]), length))
    pieces = [ids[row, start : start + length] for row, start, length in boundaries.documents]
    lengths = torch.tensor([0, *map(len, pieces)], device=ids.device)
    ends = lengths.cumsum(0).int()
    flat = {
        "input_ids": torch.cat(pieces)[None],
        "position_ids": torch.cat([torch.arange(len(piece), device=ids.device) for piece in pieces])[None],
        "cu_seq_lens_q": ends,
        "cu_seq_lens_k": ends,
        "max_length_q": int(lengths.max()),
        "max_length_k": int(lengths.max()),
        "use_cache": False,
    }
    return flat, _Boundaries(documents[1:], boundaries.known_from)


def _check_alone(
    model: torch.nn.Module, batch: Mapping[str, torch.Tensor], boundaries: _Boundaries, logits: torch.Tensor
) -> None:
    """Refuses a batch in which a document has other logits than alone, for example because of wrong positions."""
    ids = batch["input_ids"]
    # The last document that is not alone in its row: if positions do not restart, its are the most wrong.
    found = [place for place in boundaries.documents if place[1] > 0 and place[2] > 1]
    if not found:
        return
    row, start, length = found[-1]
    piece = ids[row : row + 1, start : start + length]
    single = {
        "input_ids": piece,
        "position_ids": torch.arange(length, device=ids.device)[None],
        "use_cache": False,
    }
    if "labels" in batch:
        single["labels"] = batch["labels"].as_subclass(torch.Tensor)[row : row + 1, start : start + length]
    alone, _ = _forward(model, single)
    packed = logits[row : row + 1, start : start + length]
    apart = float(_movement(packed, alone).max())
    spread = float(alone.float().amax() - alone.float().amin())
    if apart > _ALONE * _tolerance(logits) * spread:
        causes = [words for _, words in _changes(batch, boundaries)] or [
            "`attention_mask` leaves out the sliding window of the model; leave `padded` out of `collate`"
            if batch.get("attention_mask") is not None
            else "the model looks across documents in a way that other tokens do not show; take another model"
        ]
        message = f"the document at row {row}, token {start} has other logits than alone, by {apart:.3g}: {causes[0]}"
        raise BatchError(message)


def _check_labels(batch: Mapping[str, torch.Tensor], logits: torch.Tensor, own_loss: torch.Tensor) -> None:
    """Refuses labels that the model's own loss shifts a second time, or does not shift at all."""
    ids, labels = batch["input_ids"], batch.get("labels")
    if not isinstance(ids, torch.Tensor) or not isinstance(labels, torch.Tensor):
        return
    labels = labels.as_subclass(torch.Tensor)
    shifted = are_shifted(ids, labels)
    as_given = _cross_entropy(logits, labels)
    shifted_by_model = _cross_entropy(logits[:, :-1], labels[:, 1:])
    right, wrong = (as_given, shifted_by_model) if shifted else (shifted_by_model, as_given)
    found = float(own_loss)
    if abs(found - wrong) < abs(found - right) and abs(right - wrong) > _EXACT * abs(right):
        what = (
            "the labels are shifted, and the model shifts them once more; leave shift_labels out"
            if shifted
            else "the model does not shift labels; pass shift_labels=True to `collate`"
        )
        message = f"the loss of the model is {found:.4g}, but {right:.4g} for the tokens that follow: {what}"
        raise BatchError(message)


def _cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> float:
    trained = labels != NOT_TRAINED
    return float(torch.nn.functional.cross_entropy(logits[trained].float(), labels[trained]))
