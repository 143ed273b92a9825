"""`DocumentMasks`: attention masks of packed rows, for models whose own masks are wrong for them.

In Gemma 3 the tokens of a picture see each other. `transformers` 5.24 looks them up, for layers with a sliding window, at the
positions in their documents instead of their places in the row: tokens of a later document then see what follows them,
where the first document has a picture. The masks of each document alone are right, and are put together here.
"""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Final

import torch

from fastpack.torch.pictures.models import part_with

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from transformers import PreTrainedConfig

    from fastpack.torch.pictures.models import ModelPart

__all__ = ["DocumentMasks", "LayerMasks", "document_masks_of"]

_METHOD: Final = "create_masks_for_generate"
"""The method of `transformers` that makes the masks of all kinds of layers."""

_MASKED: Final = ("sdpa", "eager")
"""The attention implementations that take a mask for each pair of tokens."""

_TRIED: Final = ((0, 1, 1, 0, 0, 0), (0, 0, 0, 1, 1, 0))
"""The types of tokens of documents on which a model's masks are tried: a picture in each, in different places."""


class LayerMasks(dict[str, torch.Tensor]):
    """The masks of a batch, [1, 1, T, T], by the kinds of layers."""

    def sum(self) -> torch.Tensor:
        """The number of tokens: trainers count them by the sum of a mask."""
        return torch.tensor(next(iter(self.values())).shape[-1])

    def to(self, *device: object, **options: object) -> LayerMasks:
        """The masks on another device, as of a tensor."""
        return LayerMasks({name: mask.to(*device, **options) for name, mask in self.items()})


class DocumentMasks:
    """The masks that a model makes for each document alone."""

    def __init__(self, part: ModelPart, column: str) -> None:
        """Takes the part of a model that has the method, and the column with the types of tokens."""
        self._part, self._column = part, column

    def of_batch(self, batch: Mapping[str, torch.Tensor], lengths: Sequence[int]) -> LayerMasks | None:
        """The masks of the documents of a batch; `None` if the model has one mask for all layers."""
        return self._of_types(batch[self._column], lengths)

    def _of_types(self, types: torch.Tensor, lengths: Sequence[int]) -> LayerMasks | None:
        alone = [self._masks_of(each) for each in types.split(list(lengths), 1)]
        if not all(isinstance(masks, dict) for masks in alone):
            return None
        return LayerMasks({name: _diagonal([masks[name] for masks in alone], lengths) for name in alone[0]})

    def errs(self) -> bool:
        """True if the model makes other masks of packed documents than of each alone."""
        types = torch.tensor([[kind for document in _TRIED for kind in document]])
        lengths = [len(document) for document in _TRIED]
        wanted = self._of_types(types, lengths)
        if wanted is None:
            return False
        packed = self._masks_of(types, torch.cat([torch.arange(length) for length in lengths])[None])
        return any(not torch.equal(packed[name], mask) for name, mask in wanted.items())

    def _masks_of(
        self, types: torch.Tensor, positions: torch.Tensor | None = None
    ) -> dict[str, torch.Tensor]:
        masks: dict[str, torch.Tensor] = getattr(self._part.kind, _METHOD)(
            config=self._part.config,
            inputs_embeds=torch.zeros(*types.shape, 1),
            attention_mask=None,
            cache=None,
            position_ids=positions,
            **{self._column: types},
        )
        return masks


def _diagonal(masks: Sequence[torch.Tensor | None], lengths: Sequence[int]) -> torch.Tensor:
    """One mask in which each document sees itself alone."""
    first = next((mask for mask in masks if mask is not None), None)
    whole, start = sum(lengths), 0
    is_added = first is not None and first.is_floating_point()
    if is_added and first is not None:
        combined = torch.full((1, 1, whole, whole), torch.finfo(first.dtype).min, dtype=first.dtype)
    else:
        combined = torch.zeros((1, 1, whole, whole), dtype=torch.bool)
    for mask, length in zip(masks, lengths, strict=True):
        seen = slice(start, start + length)
        # A document without a mask is causal.
        combined[..., seen, seen] = (
            torch.ones(length, length, dtype=torch.bool).tril() if mask is None else mask
        )
        start += length
    return combined


def document_masks_of(
    model: torch.nn.Module | PreTrainedConfig, columns: Sequence[str]
) -> DocumentMasks | None:
    """The masks of a model that errs in those of packed rows; `None` for all others.

    Args:
        model: The model or its configuration.
        columns: The columns with the types of tokens.
    """
    part = part_with(model, _METHOD)
    if part is None or (part.config.get_text_config()._attn_implementation or _MASKED[0]) not in _MASKED:  # noqa: SLF001  its only name
        return None
    taken = signature(getattr(part.kind, _METHOD)).parameters
    column = next((name for name in columns if name in taken), None)
    if column is None:
        return None
    masks = DocumentMasks(part, column)
    return masks if masks.errs() else None
