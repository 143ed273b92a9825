"""Losses over packed batches, with label weights and the right number of tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import torch

from fastpack.arguments.checks import check_switch, check_type
from fastpack.arguments.failures import each_of
from fastpack.errors import BatchError
from fastpack.types import NOT_TRAINED

__all__ = ["WeightedLabels", "count_trained", "logits_of", "loss"]

_UNWEIGHTED: Final = frozenset(
    {
        torch.nn.functional.cross_entropy,
        torch.nn.functional.nll_loss,
        torch.gather,
        torch.Tensor.gather,
        torch.take_along_dim,
    }
)
"""Functions that a loss without weights calls with its labels."""

_MOVES: Final = frozenset(
    {
        torch.Tensor.to,
        torch.Tensor.cpu,
        torch.Tensor.cuda,
        torch.Tensor.clone,
        torch.Tensor.contiguous,
        torch.Tensor.detach,
        torch.Tensor.pin_memory,
    }
)
"""Functions whose result has the same labels, on another device or in other memory."""


class WeightedLabels(torch.Tensor):  # type: ignore[misc]  # torch is no dependency of the type check
    """Labels that carry the weight of each to `fastpack.torch.loss`.

    `Trainer` hands a `compute_loss_func` the outputs of the model and the labels, and nothing else. A loss that does not
    use the weights is refused while gradients are recorded, instead of training as if all weights were 1.

    Attributes:
        loss_weights: The weight of each label; `None` in a part or a copy of another shape.
    """

    loss_weights: torch.Tensor | None = None

    @classmethod
    def of(cls, labels: torch.Tensor, weights: torch.Tensor) -> WeightedLabels:
        """Labels with their weights, of the same shape.

        Raises:
            BatchError: They are no tensors of one shape.
        """
        shapes = [tuple(each.shape) if isinstance(each, torch.Tensor) else None for each in (labels, weights)]
        if shapes[0] is None or shapes[0] != shapes[1]:
            message = "`labels` and their weights must be tensors of one shape; give those of `fastpack.torch.collate`"
            raise BatchError(message)
        weighted: WeightedLabels = labels.as_subclass(cls)
        weighted.loss_weights = weights
        return weighted

    @classmethod
    def __torch_function__(
        cls,
        func: object,
        types: Iterable[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        if func in _UNWEIGHTED and torch.is_grad_enabled():
            message = (
                "these rows have `loss_weights`, which this loss does not use; pass "
                "compute_loss_func=fastpack.torch.loss to the Trainer, or call fastpack.torch.loss in a loop of your own"
            )
            raise BatchError(message)
        result = super().__torch_function__(func, types, args, kwargs)
        if not isinstance(result, WeightedLabels):
            return result
        if result.dtype != torch.int64:
            return result.as_subclass(torch.Tensor)
        source = args[0] if args else None
        if func in _MOVES and isinstance(source, WeightedLabels) and source.loss_weights is not None:
            weights = source.loss_weights.to(result.device)
            result.loss_weights = weights.pin_memory() if func is torch.Tensor.pin_memory else weights
        return result


def loss(
    outputs: object,
    labels: torch.Tensor,
    num_items_in_batch: torch.Tensor | int | None = None,
    *,
    loss_weights: torch.Tensor | None = None,
    shift: bool = True,
) -> torch.Tensor:
    """The cross-entropy of the next token, each label times its weight, over the number of trained labels.

    It is additive: the sum over batches, each over the same number of labels, is what the documents give one by one.

    Args:
        outputs: The result of the model: an object or a mapping with `logits`, a tuple with the logits first, or the
            logits.
        labels: The `labels` of `collate`, which carry their weights; or any labels.
        num_items_in_batch: The divisor of the sum, as `Trainer` and `count_trained` give it; if not given, the
            number of trained labels of this batch.
        loss_weights: The weights, where `labels` do not carry them.
        shift: True if the labels stand at their tokens; False for those of `collate(shift_labels=True)`.

    Returns:
        A scalar. Without any trained label it is 0, and its gradients too.

    Raises:
        BatchError: The labels or the weights have another shape than the logits, or there are no logits.
        OptionError: The labels or the weights are no tensors.

    Examples:
        >>> import torch
        >>> from fastpack.torch import loss
        >>> logits = torch.zeros(1, 3, 2)  # two tokens, equally likely
        >>> loss(logits, torch.tensor([[-100, 1, 0]])).item() == torch.tensor(2.0).log().item()
        True
    """
    logits = logits_of(outputs)
    tensors = {"labels": labels} if loss_weights is None else {"labels": labels, "loss_weights": loss_weights}
    for option, values in tensors.items():
        check_type(option, values, torch.Tensor, "a tensor")
    check_switch("shift", shift)
    weights = getattr(labels, "loss_weights", None) if loss_weights is None else loss_weights
    plain = labels.as_subclass(torch.Tensor)
    if isinstance(labels, WeightedLabels) and weights is None:
        message = (
            "these labels are a part of weighted labels, and have lost their weights; give `loss_weights`"
        )
        raise BatchError(message)
    for name, values in {"labels": plain, "loss_weights": weights}.items():
        if values is not None and values.shape != logits.shape[:-1]:
            message = (
                f"`{name}` have the shape {list(values.shape)}, but the logits {list(logits.shape)}; "
                "give all tokens of the batch to the model and to the loss"
            )
            raise BatchError(message)
    if shift:
        logits, plain = logits[..., :-1, :], plain[..., 1:]
        weights = None if weights is None else weights[..., 1:]
    trained = plain != NOT_TRAINED
    targets = plain.to(logits.device)[trained.to(logits.device)]
    each = torch.nn.functional.cross_entropy(
        logits[trained.to(logits.device)].float(), targets, reduction="none"
    )
    if weights is not None:
        each = each * weights.to(each.device)[trained.to(each.device)].to(each.dtype)
    items = trained.sum() if num_items_in_batch is None else num_items_in_batch
    return each.sum() / torch.as_tensor(items, device=each.device).clamp(min=1)


def count_trained(batches: Iterable[Mapping[str, object]]) -> int:
    """Counts the trained labels of some batches: the divisor of the summed loss of an optimizer step.

    A plain loop that divides by each batch's own number weighs tokens of batches with few labels more. With several
    ranks, sum the numbers of all of them.

    Args:
        batches: The batches of one optimizer step, as `collate` makes them.

    Returns:
        The number of labels that are not -100. The first token of a document has none in what `collate` makes.

    Raises:
        BatchError: A batch has no tensor of labels.
        OptionError: There are no batches.

    Examples:
        >>> from fastpack.torch import collate, count_trained
        >>> row = {"input_ids": [5, 6, 7], "labels": [-100, 6, 7], "seq_lengths": [3]}
        >>> count_trained([collate([row]), collate([row, row])])
        6
    """
    total = 0
    check_type("batches", batches, Iterable, "batches of `fastpack.torch.collate`")
    untyped: Iterable[object] = batches
    for batch in each_of(untyped, "while fastpack read `batches`"):
        labels = batch.get("labels") if isinstance(batch, Mapping) else None
        if not isinstance(labels, torch.Tensor):
            message = "a batch has no tensor `labels`; give batches of `fastpack.torch.collate`"
            raise BatchError(message)
        total += int((labels != NOT_TRAINED).sum())
    return total


def logits_of(outputs: object) -> torch.Tensor:
    """The logits in the result of a model."""
    if isinstance(outputs, torch.Tensor):
        return outputs
    if isinstance(outputs, dict) and isinstance(outputs.get("logits"), torch.Tensor):
        return outputs["logits"]
    found = getattr(outputs, "logits", None)
    if found is None and isinstance(outputs, tuple) and outputs:
        found = outputs[0]
    if not isinstance(found, torch.Tensor):
        message = f"a `{type(outputs).__qualname__}` holds no logits; give what the model returned"
        raise BatchError(message)
    return found
