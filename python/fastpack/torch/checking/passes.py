"""Forward passes of a model for `check`: in evaluation mode, without gradients, and the measures to compare their results."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import torch

from fastpack.errors import BatchError
from fastpack.torch.losses import logits_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["ModelResult", "evaluating", "forward", "movement", "on_device", "tolerance", "vocabulary_of"]

_EXACT: Final = 1e-3
"""The tolerance in float32: the change of other documents' logits, relative to the changed document's own.

Rounding stays below 1e-5.
"""

_HALF: Final = 3e-2
"""The tolerance in half precision, where rounding is 1e-3 (float16) or 8e-3 (bfloat16)."""

_CHUNK: Final = 1024
"""The tokens whose logits are compared at a time, so that a large vocabulary needs little memory."""

_NOT_FOR_FORWARD: Final = ("loss_weights", "num_items_in_batch", "seq_lengths")
"""The entries of a batch that only losses and checks use; models do not take them."""


class ModelResult(NamedTuple):
    """The result of a model.

    Attributes:
        logits: Its logits.
        loss: Its loss, if it computes one.
        has_more: True if the loss has a part that does not depend on labels, as that of a mixture of experts.
    """

    logits: torch.Tensor
    loss: torch.Tensor | None
    has_more: bool


@contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Turns off gradients and dropout; restores the mode of each module afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training


def on_device(value: object, model: torch.nn.Module) -> object:
    """Moves a value of the batch to the model's device."""
    if not hasattr(value, "to"):
        return value
    parameter = next(model.parameters(), None)
    return value if parameter is None else value.to(parameter.device)


def forward(model: torch.nn.Module, batch: Mapping[str, torch.Tensor]) -> ModelResult:
    """Runs the model.

    Raises:
        BatchError: It does not take the batch, or its logits are not finite.
    """
    inputs = {name: value for name, value in batch.items() if name not in _NOT_FOR_FORWARD}
    plain = inputs.get("labels")
    if isinstance(plain, torch.Tensor):
        inputs["labels"] = plain.as_subclass(torch.Tensor)
    try:
        outputs = model(**inputs)
    except TypeError as refused:
        message = f"the model cannot be called with this batch: {refused}"
        raise BatchError(message) from refused
    logits = logits_of(outputs)
    _check_finite(logits)
    loss = getattr(outputs, "loss", None)
    more = getattr(outputs, "aux_loss", None) is not None
    return ModelResult(logits, loss if isinstance(loss, torch.Tensor) else None, more)


def _check_finite(logits: torch.Tensor) -> None:
    """Refuses logits that are no numbers."""
    finite = torch.cat([part.isfinite().all(-1) for part in logits.split(_CHUNK, 1)], 1)
    if not finite.all():
        row, at = (~finite).nonzero()[0].tolist()
        values = logits[row, at]
        found = values[~values.isfinite()][0].item()
        message = (
            f"the logits at row {row}, token {at} are not finite, but {found}: look for a row of a mask that hides everything, "
            "for weights that are not finite, and for a type that is too small"
        )
        raise BatchError(message)


def movement(logits: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """The largest difference between the two logits of each token."""
    pairs = zip(logits.split(_CHUNK, 1), others.split(_CHUNK, 1), strict=True)
    return torch.cat([(one - other).abs().amax(-1).float() for one, other in pairs], 1)


def tolerance(logits: torch.Tensor) -> float:
    """The relative difference that rounding makes at most."""
    return _EXACT if logits.dtype in {torch.float32, torch.float64} else _HALF


def vocabulary_of(model: torch.nn.Module, logits: torch.Tensor) -> int:
    """The number of tokens that the model both takes and gives."""
    embedding = model.get_input_embeddings() if hasattr(model, "get_input_embeddings") else None
    width = int(logits.shape[-1])
    return min(int(getattr(embedding, "num_embeddings", width)), width)
