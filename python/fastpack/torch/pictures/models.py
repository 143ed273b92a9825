"""`part_with`: the part of a model that has a method of `transformers`, found in the model or by its configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from fastpack.arguments.checks import shown
from fastpack.errors import OptionTypeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from transformers import PreTrainedConfig

__all__ = ["ModelPart", "config_of", "part_with"]


class ModelPart(NamedTuple):
    """A part of a model.

    Attributes:
        kind: Its class.
        config: Its configuration.
    """

    kind: type[torch.nn.Module]
    config: PreTrainedConfig


def part_with(model: torch.nn.Module | PreTrainedConfig, method: str) -> ModelPart | None:
    """The innermost part of a model, or of models with a configuration, that has a method; `None` if there is none."""
    if isinstance(model, torch.nn.Module):
        parts = [part for part in model.modules() if hasattr(part, "config") and hasattr(part, method)]
        return ModelPart(type(parts[-1]), parts[-1].config) if parts else None
    kinds = [kind for kind in _classes_of(config_of(model)) if hasattr(kind, method)]
    return ModelPart(kinds[-1], model) if kinds else None


def config_of(model: torch.nn.Module | PreTrainedConfig) -> PreTrainedConfig:
    """The configuration of a model, or itself.

    Raises:
        OptionTypeError: It is neither a model of `transformers` nor a configuration.
    """
    found = model
    if isinstance(model, torch.nn.Module):
        found = next((part.config for part in model.modules() if hasattr(part, "config")), None)
    if not (hasattr(found, "model_type") and hasattr(found, "get_text_config")):
        message = f"must be a model of transformers, or its configuration, not `{shown(model)}`"
        raise OptionTypeError(message, "model")
    return found


def _classes_of(config: PreTrainedConfig) -> Iterator[type[torch.nn.Module]]:
    """The classes of `transformers` for a configuration: with a head first, then without."""
    from transformers import AutoModel, AutoModelForImageTextToText  # noqa: PLC0415  slow to import

    for auto in (AutoModelForImageTextToText, AutoModel):
        kind = auto._model_mapping.get(type(config), None)  # noqa: SLF001  the table has no public name
        if isinstance(kind, type):
            yield kind
