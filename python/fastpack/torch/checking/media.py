"""Batches with pictures under `check`: which ids stand for pictures, and which positions count tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["changed_ids", "has_media", "media_in", "token_positions"]

_ENDINGS: Final = ("_token_id", "_token_index")
"""The ends of the names under which a configuration has ids with a meaning."""

_TEXT: Final = ("pad", "bos", "eos", "sep", "cls", "decoder_start")
"""The ids of texts among them."""


def has_media(batch: Mapping[str, object]) -> bool:
    """True if a batch has pictures or other media."""
    return any(name.startswith(("pixel_", "image_", "video_")) for name in batch)


def token_positions(batch: Mapping[str, torch.Tensor]) -> torch.Tensor | None:
    """The positions that count the tokens of documents: of four dimensions the first."""
    positions = batch.get("position_ids")
    if isinstance(positions, torch.Tensor) and positions.dim() == 3 and len(positions) == 4:  # noqa: PLR2004  text, time, height, width
        return positions[0]
    return positions


def media_in(model: torch.nn.Module, ids: torch.Tensor) -> torch.Tensor:
    """True for tokens in whose place a model puts media, or which mark these."""
    to_dict = getattr(getattr(model, "config", None), "to_dict", dict)
    named: Mapping[str, object] = to_dict()
    known = [
        value
        for name, value in named.items()
        if isinstance(value, int) and name.endswith(_ENDINGS) and not name.startswith(_TEXT)
    ]
    return torch.isin(ids, torch.tensor(known, device=ids.device))


def changed_ids(model: torch.nn.Module, ids: torch.Tensor, vocabulary: int) -> torch.Tensor:
    """Another id for each token but those of media, and none of media."""
    # Half a vocabulary away, since neighbouring ids may have similar embeddings.
    changed = (ids + vocabulary // 2) % vocabulary
    for _ in range(vocabulary):
        wrong = media_in(model, changed)
        if not wrong.any():
            break
        changed = torch.where(wrong, (changed + 1) % vocabulary, changed)
    return torch.where(media_in(model, ids), ids, changed)
