"""`RopeIndex`: the positions of documents with pictures, for models whose positions have three dimensions."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Final

import torch

from fastpack.errors import OptionError
from fastpack.torch.pictures.models import config_of, part_with

if TYPE_CHECKING:
    from collections.abc import Mapping

    from transformers import PreTrainedConfig

    from fastpack.torch.pictures.models import ModelPart

__all__ = ["RopeIndex", "rope_index_of"]

_METHOD: Final = "get_rope_index"
"""The method of `transformers` that makes positions in three dimensions."""

_SECTION: Final = "mrope_section"
"""The key of a configuration's rope parameters that divides them among three dimensions."""


class RopeIndex:
    """The positions that a model gives the tokens of a document.

    It keeps the class and the configuration of the model, not its weights, so it is small when it is pickled.
    """

    def __init__(self, part: ModelPart) -> None:
        """Takes the part of a model that has the method."""
        self._part = part
        self._takes = frozenset(signature(getattr(part.kind, _METHOD)).parameters)

    def of_document(self, tokens: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The positions of one document, [3, tokens].

        Args:
            tokens: Its tokens, their types and the grids of its pictures, as the model takes them.
        """
        model: torch.nn.Module = object.__new__(self._part.kind)
        torch.nn.Module.__init__(model)
        model.config = self._part.config
        inputs = {name: value for name, value in tokens.items() if name in self._takes}
        positions: torch.Tensor = getattr(model, _METHOD)(**inputs)[0]
        return positions[:, 0]


def rope_index_of(model: torch.nn.Module | PreTrainedConfig) -> RopeIndex | None:
    """The positions of a model, or of models with a configuration; `None` if positions have one dimension.

    Raises:
        OptionError: Positions have three dimensions, and `transformers` has no method that makes them.
        OptionTypeError: It is neither a model nor a configuration.
    """
    part = part_with(model, _METHOD)
    if part is not None:
        return RopeIndex(part)
    if _SECTION in str(config_of(model).to_dict()):
        message = (
            f"has positions in three dimensions (`{_SECTION}`), but its class has no `{_METHOD}`, which makes them; "
            "use a model that has it"
        )
        raise OptionError(message, "model")
    return None
