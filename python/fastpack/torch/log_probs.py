"""`token_log_probs`: the log-probability of each token, at the place of that token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch.autograd.function import FunctionCtx, once_differentiable

from fastpack.arguments.checks import check_switch, check_type, shown, whole_number
from fastpack.errors import BatchError, OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastpack.torch.collation import Batch

__all__ = ["token_log_probs"]


def token_log_probs(
    logits: torch.Tensor, batch: Batch, *, chunk: int = 4096, temperature: float = 1.0, entropy: bool = False
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """The log-probability of each token, at its own place, and never across sequences.

    Logits are read in chunks, in float32, which are computed once more in the backward pass: beside the logits and their gradient,
    memory holds some copies of one chunk.

    Args:
        logits: The model's logits for the batch, `[B, T, vocabulary]`.
        batch: The inputs of the model, as `collate` and `pack_step` make them: `input_ids` and `position_ids`, `[B, T]`.
        chunk: The tokens of a chunk.
        temperature: The divisor of the logits.
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
    value: object = temperature
    if not isinstance(value, (int, float)) or not 0 < value < float("inf"):
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
    first[..., :1] = True
    # The logits of a token predict the next one. Those of the last of a row predict the first of another, and are left out.
    values = _LogProbs.apply(logits.flatten(0, -2), ids.flatten(), (size, float(temperature), entropy))
    placed = values.unflatten(1, ids.shape).masked_fill(first, 0.0)
    return (placed[0], placed[1]) if entropy else placed[0]


class _LogProbs(torch.autograd.Function):  # type: ignore[misc]  # mypy does not follow torch
    """Log-probabilities, and entropies. The backward pass writes the gradient of each chunk into its place."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, logits: torch.Tensor, ids: torch.Tensor, options: tuple[int, float, bool]
    ) -> torch.Tensor:
        """The values of all tokens, `[1 or 2, T]`; 0 at the first."""
        size, temperature, entropy = options
        values = logits.new_zeros(2 if entropy else 1, len(ids), dtype=_precise(logits.dtype))
        for begin, end in _chunks(len(ids), size):
            every = _of_chunk(logits[begin:end], temperature)
            after = slice(begin + 1, end + 1)
            values[0, after] = every.gather(-1, ids[after, None]).squeeze(-1)
            if entropy:
                values[1, after] = _entropy(every)
        ctx.save_for_backward(logits, ids)
        ctx.options = options
        return values

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]  # likewise
    def backward(ctx: FunctionCtx, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        """The gradient of the logits: of a log-probability, the chosen token minus all probabilities."""
        logits, ids = ctx.saved_tensors
        size, temperature, entropy = ctx.options
        found = torch.empty_like(logits)
        found[-1:] = 0
        for begin, end in _chunks(len(ids), size):
            every = _of_chunk(logits[begin:end], temperature)
            after = slice(begin + 1, end + 1)
            of_log_probs = gradient[0, after, None]
            scale = -of_log_probs
            if entropy:
                finite = every.clamp(min=torch.finfo(every.dtype).min)
                scale = scale - gradient[1, after, None] * (finite + _entropy(every)[:, None])
            of_chunk = every.exp_().mul_(scale)
            of_chunk.scatter_add_(-1, ids[after, None], of_log_probs.to(of_chunk.dtype))
            found[begin:end] = of_chunk.div_(temperature)
        return found, None, None


def _chunks(tokens: int, size: int) -> Iterator[tuple[int, int]]:
    """The tokens that predict another, a chunk at a time."""
    return ((begin, min(begin + size, tokens - 1)) for begin in range(0, tokens - 1, size))


def _of_chunk(logits: torch.Tensor, temperature: float) -> torch.Tensor:
    """The log-probability of each token of the vocabulary."""
    return torch.log_softmax(logits.to(_precise(logits.dtype)) / temperature, dim=-1)


def _entropy(log_probs: torch.Tensor) -> torch.Tensor:
    """The entropies; a token that a mask forbids, whose log-probability is minus infinity, adds nothing."""
    return torch.special.entr(log_probs.exp()).sum(dim=-1)


def _precise(dtype: torch.dtype) -> torch.dtype:
    """The type in which logits are read."""
    return torch.float64 if dtype == torch.float64 else torch.float32
