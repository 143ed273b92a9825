"""`token_log_probs`: what a model says of each token, at the place of that token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch.utils.checkpoint import checkpoint

from fastpack._checks import check_switch, check_type, shown, whole_number
from fastpack.errors import BatchError, OptionError

if TYPE_CHECKING:
    from fastpack.torch.batches import Batch

__all__ = ["token_log_probs"]


def token_log_probs(
    logits: torch.Tensor, batch: Batch, *, chunk: int = 4096, temperature: float = 1.0, entropy: bool = False
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """The log-probability of each token, at its own place, and never across sequences.

    Logits are read in chunks, in float32, which are computed once more in the backward pass: beside the logits and their gradient,
    memory holds one chunk.

    Args:
        logits: What a model gave for the batch, `[B, T, vocabulary]`.
        batch: The inputs of the model, as `collate` and `pack_step` make them: `input_ids` and `position_ids`, `[B, T]`.
        chunk: The tokens of a chunk.
        temperature: What logits are divided by.
        entropy: Adds the entropy of the distribution that each token was drawn from.

    Returns:
        `[B, T]`, in float32; 0 for the first token of each sequence, which nothing predicts. With `entropy`, that too.

    Raises:
        BatchError: The shapes do not fit.

    Examples:
        >>> import torch
        >>> from fastpack.torch import collate, token_log_probs
        >>> batch = collate([{"input_ids": [1, 0, 1], "seq_lengths": [2, 1]}])
        >>> token_log_probs(torch.zeros(1, 3, 2), batch)
        tensor([[ 0.0000, -0.6931,  0.0000]])
    """
    check_switch("entropy", entropy)
    size = whole_number("chunk", chunk, 1)
    check_type("logits", logits, torch.Tensor, "a tensor")
    check_type("batch", batch, Mapping, "the inputs of a model, as `collate` makes them")
    given: object = temperature
    if not isinstance(given, (int, float)) or not 0 < given < float("inf"):
        message = f"must be a number above 0, not `{shown(temperature)}`"
        raise OptionError(message, "temperature")
    for name in ("input_ids", "position_ids"):
        if not isinstance(batch.get(name), torch.Tensor):
            message = f"the batch lacks the tensor `{name}`, which `collate` and `pack_step` make"
            raise BatchError(message)
    ids = batch["input_ids"]
    if logits.ndim != ids.ndim + 1 or logits.shape[:-1] != ids.shape:
        message = f"logits have the shape {list(logits.shape)}, but `input_ids` {list(ids.shape)}"
        raise BatchError(message)
    first = batch["position_ids"].to(ids.device) == 0
    # The logits of a token predict the next one.
    told, ids_told = logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten()
    parts = []
    for begin in range(0, len(ids_told), size):
        part = slice(begin, begin + size)
        parts.append(
            checkpoint(
                _of_chunk, told[part], ids_told[part], float(temperature), entropy, use_reentrant=False
            )
        )
    values = (
        torch.cat(parts, dim=1) if parts else logits.new_zeros(2 if entropy else 1, 0, dtype=torch.float32)
    )
    values = (
        values.unflatten(1, (ids.shape[0], -1))
        if ids.shape[1] > 1
        else values.reshape(len(values), len(ids), 0)
    )
    placed = torch.nn.functional.pad(values, (1, 0)).masked_fill(first, 0.0)
    return (placed[0], placed[1]) if entropy else placed[0]


def _of_chunk(logits: torch.Tensor, ids: torch.Tensor, temperature: float, entropy: bool) -> torch.Tensor:
    """The log-probabilities of the tokens of a chunk, and the entropies."""
    logits = (logits if logits.dtype == torch.float64 else logits.float()) / temperature
    normaliser = logits.logsumexp(dim=-1)
    told = logits.gather(-1, ids[:, None]).squeeze(-1) - normaliser
    if not entropy:
        return told[None]
    probabilities = torch.softmax(logits, dim=-1)
    return torch.stack([told, normaliser - (probabilities * logits).sum(dim=-1)])
