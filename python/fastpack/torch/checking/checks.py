"""`check`: checks that a model keeps the documents of a batch apart and trains on the right labels."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate, chain, combinations, count, islice, pairwise
from math import comb
from typing import TYPE_CHECKING, Final, NamedTuple

import torch

from fastpack.arguments.checks import check_type, shown
from fastpack.errors import BatchError, OptionError
from fastpack.torch.checking.labels import check_labels
from fastpack.torch.checking.media import changed_ids, has_media, media_in, token_positions
from fastpack.torch.checking.passes import evaluating, forward, movement, on_device, tolerance, vocabulary_of
from fastpack.types import NOT_TRAINED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastpack.torch.collation import Batch

__all__ = ["check"]

_ALONE: Final = 5.0
"""The factor on the tolerance for a document alone: its attention runs over other shapes."""

_TOGETHER: Final = 12
"""The passes in which documents are changed where several ranks share the model, so that all run it equally often."""


class _BatchBoundaries(NamedTuple):
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
    """Proves on a batch that a model keeps its documents apart and learns its labels, or raises an error that names the remedy.

    * Logits and loss are finite, and the lengths of documents add up to the row, but for padding.
    * Where some documents get other tokens, no logit of another moves. A document alone has the logits that it has in its row.
    * Where labels change, the loss moves by exactly the logits before them, and by no others: it is their mean, or a constant
      part of their sum. First tokens of documents have no label that counts.

    The model runs forward in evaluation mode and without gradients, and is as before afterwards: 5 times, and as often as
    documents are changed, so that either of any two is once changed without the other: 2 times for 2 documents, 4 for 6, 6 for
    20, 8 for 70, 10 for 252; where several ranks share the model, 12 times.

    Args:
        model: The model as it is trained.
        batch: The keyword arguments of the model.
        seq_lengths: The lengths of the documents in each row of the batch; if not given, `cu_seq_lens_q`,
            `seq_lengths` or `position_ids` of the batch say them.

    Raises:
        BatchError: Documents see each other, the batch was cut, the loss is not that of the labels, something is not finite,
            a token is outside the vocabulary, or a document is longer than the model's positions.

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
    check_type("model", model, torch.nn.Module, "a model of torch")
    check_type(
        "batch", batch, Mapping, "the keyword arguments of the model, as `fastpack.torch.collate` makes them"
    )
    batch = {name: value for name, value in batch.items() if name != "labels" or value is not None}
    ids = batch.get("input_ids")
    if not isinstance(ids, torch.Tensor) or ids.dim() != 2:  # noqa: PLR2004  rows and tokens
        message = "a batch has `input_ids` of the shape [rows, tokens]; give what the model is called with"
        raise BatchError(message)
    _check_shapes(batch, ids)
    boundaries = _boundaries_of(batch, ids, seq_lengths)
    _check_sizes(model, ids, boundaries)
    moved = {name: on_device(value, model) for name, value in batch.items()}
    with evaluating(model):
        result = forward(model, moved)
        logits = result.logits
        leak = _leak(model, moved, boundaries, logits)
        if leak:
            remedy = _remedy(model, moved, boundaries)
            message = f"documents in this batch see each other: {leak}; {remedy}"
            raise BatchError(message)
        _check_alone(model, moved, boundaries, logits)
        check_labels(model, moved, boundaries.documents, result)


_OF_TOKENS: Final = ("labels", "position_ids", "loss_weights", "seq_idx")
"""Parts of a batch with a value for each token."""

_ENDS: Final = ("cu_seq_lens_q", "cu_seq_lens_k")
"""Parts of a batch that say where documents end."""


def _check_shapes(batch: Mapping[str, torch.Tensor], ids: torch.Tensor) -> None:
    """Refuses a batch whose tensors do not cover the same tokens."""
    cut = (
        "; something cut the batch after `collate`: leave dispatch_batches and split_batches of Accelerate "
        "(accelerator_config of a Trainer) at False"
    )
    for name in (*_OF_TOKENS, *_ENDS):
        values = batch.get(name)
        if values is not None and not (isinstance(values, torch.Tensor) and values.dim() and values.numel()):
            message = (
                f"`{name}` of a batch must be a tensor with a value for each token; give what `collate` makes"
            )
            raise BatchError(message)
    for name in ("input_ids", "labels", "position_ids", *_ENDS):
        values = batch.get(name)
        if isinstance(values, torch.Tensor) and (values.is_floating_point() or values.dtype == torch.bool):
            message = (
                f"`{name}` of a batch must hold whole numbers, not {values.dtype}; give what `collate` makes"
            )
            raise BatchError(message)
    for name in _OF_TOKENS:
        values = batch.get(name)
        if isinstance(values, torch.Tensor) and values.shape[-1] != ids.shape[-1]:
            message = f"`{name}` has {values.shape[-1]:,} places, but `input_ids` {ids.shape[-1]:,}{cut}"
            raise BatchError(message)
    for name in _ENDS:
        ends = batch.get(name)
        if isinstance(ends, torch.Tensor) and (
            ends.dim() != 1 or int(ends[-1]) != ids.numel() or int(ends[0])
        ):
            message = f"`{name}` ends at {int(ends.reshape(-1)[-1]):,}, but the batch has {ids.numel():,} tokens{cut}"
            raise BatchError(message)


def _boundaries_of(
    batch: Mapping[str, torch.Tensor], ids: torch.Tensor, seq_lengths: Sequence[Sequence[int]] | None
) -> _BatchBoundaries:
    """The boundaries of the documents: as the caller gives them, or else as the batch does."""
    rows, width = ids.shape
    lengths, known_from = _lengths_of(batch, rows, width, seq_lengths)
    documents = []
    for number, row in enumerate(lengths):
        if any(length < 0 for length in row):
            message = f"`{known_from}` of row {number} has {min(row):,}; lengths count tokens, from 0"
            raise BatchError(message)
        starts = accumulate(row, initial=0)
        documents += [(number, start, length) for start, length in zip(starts, row, strict=False) if length]
        if sum(row) > width or len(lengths) != rows:
            message = (
                f"`{known_from}` come to {sum(row):,} tokens in row {number} of {len(lengths):,}, but `input_ids` has the "
                f"shape {list(ids.shape)}; rows were cut: set max_length=None in a TRL trainer"
            )
            raise BatchError(message)
        if sum(row) < width and not _is_padding(batch, number, sum(row)):
            message = (
                f"`{known_from}` come to {sum(row):,} tokens in row {number}, but the row has {width:,}, and the others are no "
                "padding; give the lengths of all documents of the row"
            )
            raise BatchError(message)
    if not documents:
        message = f"`{known_from}` has no document"
        raise BatchError(message)
    return _BatchBoundaries(documents, known_from)


def _is_padding(batch: Mapping[str, torch.Tensor], row: int, start: int) -> bool:
    """True if the tokens of a row from `start` on are padding: without labels, and one run of positions or masked."""
    labels, positions, mask = batch.get("labels"), token_positions(batch), batch.get("attention_mask")
    if isinstance(labels, torch.Tensor) and bool(
        (labels.as_subclass(torch.Tensor)[row, start:] != NOT_TRAINED).any()
    ):
        return False
    if "cu_seq_lens_q" in batch:
        return False  # rows end to end have none
    if isinstance(mask, torch.Tensor) and mask.dim() == 2:  # noqa: PLR2004  zeros and ones, a row each
        return not bool(mask[row, start:].any())
    if not isinstance(positions, torch.Tensor):
        return mask is not None
    rest = positions.expand(len(batch["input_ids"]), -1)[row, start:]
    return bool((rest == torch.arange(len(rest), device=rest.device)).all())


def _lengths_of(
    batch: Mapping[str, torch.Tensor], rows: int, width: int, seq_lengths: Sequence[Sequence[int]] | None
) -> tuple[list[list[int]], str]:
    """The lengths of the documents of each row, and the argument or entry that holds them."""
    listed = batch.get("seq_lengths") if seq_lengths is None else seq_lengths
    if listed is not None:
        try:
            lengths = [list(map(int, row)) for row in listed]
        except (TypeError, ValueError, RuntimeError, OverflowError) as refused:
            message = f"must be the lengths of the documents of each row, not `{shown(listed)}`"
            raise OptionError(message, "seq_lengths") from refused
        return [list(chain.from_iterable(lengths))] if rows == 1 else lengths, "seq_lengths"
    if rows == 1 and batch.get("cu_seq_lens_q") is not None:
        return [batch["cu_seq_lens_q"].diff().tolist()], "cu_seq_lens_q"
    positions = token_positions(batch)
    if positions is None:
        message = (
            "the batch does not say where documents begin: it has neither `cu_seq_lens_q` nor `position_ids`; use "
            "fastpack.torch.collate, or pass seq_lengths= of its rows"
        )
        raise BatchError(message)
    if positions.dim() > 2 or (positions.dim() == 2 and len(positions) not in {1, rows}):  # noqa: PLR2004  rows and tokens
        message = f"`position_ids` has the shape {list(positions.shape)}, which is none of rows; pass seq_lengths= of its rows"
        raise BatchError(message)
    lengths = []
    for number, row in enumerate(positions.expand(rows, -1)):
        end = _unmasked(batch, number, width)
        starts = [0, *((row[:end].diff() != 1).nonzero().flatten() + 1).tolist(), end]
        lengths.append([end - start for start, end in pairwise(starts)])
    return lengths, "position_ids"


def _unmasked(batch: Mapping[str, torch.Tensor], row: int, width: int) -> int:
    """The number of tokens of a row before its padding, as a mask of zeros and ones says."""
    mask = batch.get("attention_mask")
    if not isinstance(mask, torch.Tensor) or mask.dim() != 2:  # noqa: PLR2004  a row each
        return width
    kept = int(mask[row].sum())
    return width if mask[row, kept:].any() else kept


def _check_sizes(model: torch.nn.Module, ids: torch.Tensor, boundaries: _BatchBoundaries) -> None:
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


def _leak(
    model: torch.nn.Module,
    batch: Mapping[str, torch.Tensor],
    boundaries: _BatchBoundaries,
    logits: torch.Tensor,
) -> str | None:
    """Describes a leak: other tokens in some documents change the logits of the others; `None` if there is none.

    Of each two documents, either is changed in some pass in which the other is not.
    """
    ids = batch["input_ids"]
    others_ids = changed_ids(model, ids, vocabulary_of(model, logits))
    # The number of each token's document; padding, which may attend to anything, is changed in each pass.
    numbers = torch.full(ids.shape, -1, dtype=torch.long, device=ids.device)
    for number, (row, start, length) in enumerate(boundaries.documents):
        numbers[row, start : start + length] = number
    passes, codes = _codes(len(boundaries.documents))
    for part in range(passes):
        is_changed = torch.tensor([*(part in code for code in codes), True], device=ids.device)
        chosen = is_changed[numbers]
        changed = torch.where(chosen, others_ids, ids)
        perturbed = forward(model, {**batch, "input_ids": changed}).logits
        moved = movement(logits, perturbed)
        own, others = moved[chosen].max() if chosen.any() else moved.max(), torch.where(chosen, 0, moved)
        if ((changed != ids) & (numbers >= 0)).any() and not float(own):
            message = (
                "the logits of the model do not depend on its tokens, so nothing can be said of its documents; if its output "
                "begins at zero, check it after a step"
            )
            raise BatchError(message)
        if float(others.max()) > tolerance(logits) * float(own):
            row, at = divmod(int(others.argmax()), ids.shape[1])
            return (
                f"other tokens in one document move the logits of another by {float(others.max()):.3g} "
                f"at row {row}, token {at}"
            )
    return None


def _codes(documents: int) -> tuple[int, list[tuple[int, ...]]]:
    """The number of passes, and for each document those in which it is changed; none is changed whenever another is."""
    passes = next(number for number in count(2) if comb(number, number // 2) >= documents)
    if _is_shared():
        passes = max(passes, _TOGETHER)
    return passes, list(islice(combinations(range(passes), passes // 2), documents))


def _is_shared() -> bool:
    """True if other ranks may run the same model."""
    return bool(torch.distributed.is_available() and torch.distributed.is_initialized())


def _remedy(model: torch.nn.Module, batch: Mapping[str, torch.Tensor], boundaries: _BatchBoundaries) -> str:
    """The remedy that keeps the documents apart, found by trials."""
    if _is_shared():
        return _WITHOUT_TRYING  # a rank alone must not run a model that all ranks share
    if has_media(batch):
        return _WITH_PICTURES
    changes = _changes(batch, boundaries)
    together = {name: value for change, _ in changes for name, value in change.items()}
    for change, words in [*changes, (together, " and ".join(words for _, words in changes))]:
        mended = {name: value for name, value in {**batch, **change}.items() if value is not None}
        if change and _separates_documents(model, mended, boundaries):
            return words
    flat, flat_boundaries = _flattened(batch, boundaries)
    if _separates_documents(model, flat, flat_boundaries):
        return (
            "lay the rows end to end, as fastpack.torch.collate does: this attention implementation does not read "
            "`position_ids` of several rows"
        )
    name = getattr(getattr(model, "config", None), "model_type", type(model).__name__)
    return (
        f"`{name}` does not read boundaries from `position_ids` with this attention implementation: pack with "
        'strategy="none" and use collate(padded="longest", mask="padding"), or take another model'
    )


_WITH_PICTURES: Final = (
    "use a fastpack.torch.PictureCollator that was made for this model, and use_cache=False; a model that ignores "
    "`position_ids` needs rows of one document each"
)

_WITHOUT_TRYING: Final = (
    "use fastpack.torch.collate, without an `attention_mask`, and use_cache=False; a model that ignores `position_ids` "
    "needs rows of one document each"
)


def _changes(batch: Mapping[str, torch.Tensor], boundaries: _BatchBoundaries) -> list[tuple[Batch, str]]:
    """Possible faults of a batch: for each, the corrected values and the remedy."""
    changes: list[tuple[Batch, str]] = []
    ids, mask, positions = batch["input_ids"], batch.get("attention_mask"), token_positions(batch)
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


def _separates_documents(
    model: torch.nn.Module, batch: Mapping[str, torch.Tensor], boundaries: _BatchBoundaries
) -> bool:
    try:
        return _leak(model, batch, boundaries, forward(model, batch).logits) is None
    except BatchError:
        return False


def _flattened(
    batch: Mapping[str, torch.Tensor], boundaries: _BatchBoundaries
) -> tuple[Batch, _BatchBoundaries]:
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
    return flat, _BatchBoundaries(documents[1:], boundaries.known_from)


def _check_alone(
    model: torch.nn.Module,
    batch: Mapping[str, torch.Tensor],
    boundaries: _BatchBoundaries,
    logits: torch.Tensor,
) -> None:
    """Refuses a batch in which a document has other logits than alone, for example because of wrong positions."""
    ids = batch["input_ids"]
    # The last document that is not alone in its row: if positions do not restart, its are the most wrong.
    found = [place for place in boundaries.documents if place[1] > 0 and place[2] > 1]
    if has_media(batch):
        # Pictures cannot be told apart here, so a document without any is taken.
        shows = media_in(model, ids)
        found = [
            (row, start, length)
            for row, start, length in found
            if not shows[row, start : start + length].any()
        ]
        if not found:
            return
    if not found and not _is_shared():
        return
    row, start, length = (found or boundaries.documents)[-1]
    piece = ids[row : row + 1, start : start + length]
    single = {
        "input_ids": piece,
        "position_ids": torch.arange(length, device=ids.device)[None],
        "use_cache": False,
    }
    if "labels" in batch:
        single["labels"] = batch["labels"].as_subclass(torch.Tensor)[row : row + 1, start : start + length]
    alone = forward(model, single).logits
    packed = logits[row : row + 1, start : start + length]
    distance = float(movement(packed, alone).max())
    spread = float(alone.float().amax() - alone.float().amin())
    if distance > _ALONE * tolerance(logits) * spread:
        causes = [words for _, words in _changes(batch, boundaries)] or [
            "`attention_mask` leaves out the sliding window of the model; leave `padded` out of `collate`"
            if batch.get("attention_mask") is not None
            else "the model looks across documents in a way that other tokens do not show; take another model"
        ]
        message = f"the document at row {row}, token {start} has other logits than alone, by {distance:.3g}: {causes[0]}"
        raise BatchError(message)
