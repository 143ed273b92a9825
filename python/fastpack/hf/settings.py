"""`sft_config`: the settings with which a TRL trainer takes packed rows as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fastpack.arguments.checks import check_switch, shown
from fastpack.errors import OptionError

if TYPE_CHECKING:
    from trl import SFTConfig

__all__ = ["sft_config"]

_KEPT: Final = {
    "packing": (False, "with True, TRL packs the rows again and forgets where documents begin"),
    "max_length": (None, "with a number, TRL cuts longer rows"),
}
"""The settings that packed rows need, and the effect of another value."""

_FREE: Final = {
    False: (True, "with False, TRL's collator makes each row one document"),
    True: (False, "with True, TRL refuses a collator of one's own, and data sets with a column `images`"),
}
"""The setting `padding_free` that rows without and with pictures need, and the effect of another value."""

_PREPARED: Final = "skip_prepare_dataset"


def sft_config(*, images: bool = False, **settings: object) -> SFTConfig:
    """An `SFTConfig` of TRL for packed rows: `padding_free=True`, `packing=False`, `max_length=None`, and no preparation.

    Unless `settings` say otherwise, `remove_unused_columns` is False.

    Args:
        images: The rows have pictures: `padding_free` is False, since TRL refuses True with the collator that they need. Pass
            `data_collator=fastpack.torch.PictureCollator(...)` and the processor as `processing_class` to the trainer.
        settings: Any other settings of `SFTConfig`.

    Returns:
        The settings, for `SFTTrainer(model, args=..., train_dataset=fastpack.hf.load(folder))`.

    Raises:
        OptionError: A setting would spoil packed rows.
        TypeError: `SFTConfig` has no such setting; TRL says so itself, and raises a ValueError for values that it refuses.
    """
    from trl import SFTConfig  # noqa: PLC0415  slow to import

    check_switch("images", images)
    for name, (value, otherwise) in {"padding_free": _FREE[images], **_KEPT}.items():
        if settings.setdefault(name, value) != value:
            message = f"must be {value} for packed rows, not `{shown(settings[name])}`: {otherwise}"
            raise OptionError(message, name)
    prepared = settings.get("dataset_kwargs") or {}
    if not isinstance(prepared, dict) or prepared.get(_PREPARED, True) is not True:
        message = f"must have {_PREPARED}=True for packed rows, not `{shown(prepared)}`"
        raise OptionError(message, "dataset_kwargs")
    # A trainer that removes columns would take the runs of labels out of rows in the compact layout.
    settings.setdefault("remove_unused_columns", False)
    return SFTConfig(**{**settings, "dataset_kwargs": {**prepared, _PREPARED: True}})
