"""`check_settings`: refuses settings of a trainer that would mix the documents of packed rows, and finds their folder."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastpack.dataset.folder import Folder
from fastpack.errors import BatchError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["SOURCE", "check_settings", "folders_of", "is_ours", "refuse_unfit_trainer"]

SOURCE: Final = "packed by fastpack: "
"""The beginning of a loaded data set's description; the path of the folder follows."""


def folders_of(dataset: object) -> list[Folder]:
    """The folder of a data set of `fastpack.hf.load`, by its description; none if it is another one."""
    said = str(getattr(getattr(dataset, "info", None), "description", ""))
    path = said.removeprefix(SOURCE)
    return [Folder(path)] if said.startswith(SOURCE) and Path(path).is_dir() else []


def check_settings(args: object, collator: object, folders: Sequence[Folder]) -> None:
    """Refuses settings that break packed rows, even if the first batch is right."""
    accelerate = getattr(args, "accelerator_config", None)
    for name in ("dispatch_batches", "split_batches"):
        if getattr(accelerate, name, None):
            message = (
                f"`{name}` of Accelerate cuts batches between ranks, and a flattened batch through its documents; leave "
                f"{name} out of accelerator_config"
            )
            raise BatchError(message)
    if getattr(args, "packing", False):
        message = (
            "packing=True packs packed rows again, and forgets where documents begin; pass packing=False"
        )
        raise BatchError(message)
    if not is_ours(collator) and getattr(args, "padding_free", None) is False:
        message = (
            "with padding_free=False the collator of TRL makes each row one document; pass padding_free=True, as "
            "fastpack.hf.sft_config does, or data_collator=fastpack.torch.collate"
        )
        raise BatchError(message)
    prepared = not (getattr(args, "dataset_kwargs", None) or {}).get("skip_prepare_dataset")
    most = getattr(args, "max_length", None)
    for folder in folders:
        packed = folder.options.get("max_length")
        if prepared and isinstance(most, int) and isinstance(packed, int) and most < packed:
            message = (
                f"max_length={most} cuts rows that were packed with max_length={packed}; pass max_length=None, as "
                "fastpack.hf.sft_config does"
            )
            raise BatchError(message)


def is_ours(collator: object) -> bool:
    """True if a collator is `fastpack.torch.collate`, if not with other options, or one of pictures. Asks without importing torch."""
    while isinstance(collator, partial):
        collator = collator.func
    batches = sys.modules.get("fastpack.torch.batches")
    if batches is not None and collator is batches.collate:
        return True
    pictures = sys.modules.get("fastpack.torch.pictures")
    return pictures is not None and isinstance(collator, pictures.PictureCollator)


def refuse_unfit_trainer(folders: Sequence[Folder]) -> None:
    """Refuses rows to an `SFTTrainer` that is being made, if its settings would mix their documents.

    Such a trainer reads the first row before anything else. It is found on the call stack, so nothing of TRL is changed.

    Raises:
        BatchError: It would; the message names the setting.
    """
    frame = sys._getframe(1)  # noqa: SLF001  a documented function of CPython
    while frame is not None:
        args = frame.f_locals.get("args") if frame.f_code.co_name == "__init__" else None
        if hasattr(args, "padding_free") and hasattr(args, "packing"):
            check_settings(args, frame.f_locals.get("data_collator"), folders)
            return
        frame = frame.f_back  # type: ignore[assignment]  # none above the first
