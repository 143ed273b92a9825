"""`check_settings`: refuses settings of a trainer that would mix the documents of packed rows, and finds their folder."""

from __future__ import annotations

import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from fastpack.dataset.folder import Folder
from fastpack.errors import BatchError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

__all__ = ["SOURCE", "check_settings", "folders_named", "folders_of", "is_ours", "refuse_unfit_trainer"]

SOURCE: Final = "packed by fastpack: "
"""The beginning of a loaded data set's description; the path of the folder follows."""


_CHECKED: Final[WeakKeyDictionary[object, set[str]]] = WeakKeyDictionary()
"""The descriptions of rows that fit a trainer, which may ask for each of a million rows while it is made."""


def folders_of(dataset: object) -> list[Folder]:
    """The folders of a data set of `fastpack.hf.load`, or of one made of it, by its description; none if it is another one."""
    return folders_named(str(getattr(getattr(dataset, "info", None), "description", "")))


def folders_named(description: str) -> list[Folder]:
    """The folders that a description names: one, or several where `datasets` joined those of concatenated rows."""
    paths = [
        paragraph.removeprefix(SOURCE)
        for paragraph in description.split("\n\n")
        if paragraph.startswith(SOURCE)
    ]
    return [Folder(path) for path in paths if Path(path).is_dir()]


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
    if not is_ours(collator) and any(folder.options.get("objective.shift_labels") for folder in folders):
        message = (
            "the labels of these rows are shifted already, and a model of `transformers` shifts them once more; pack "
            "without `shift_labels`"
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
    batches = sys.modules.get("fastpack.torch.collation")
    if batches is not None and collator is batches.collate:
        return True
    pictures = sys.modules.get("fastpack.torch.pictures")
    return pictures is not None and isinstance(collator, pictures.PictureCollator)


def refuse_unfit_trainer(description: str) -> None:
    """Refuses rows to an `SFTTrainer` that is being made, if its settings would mix their documents.

    Such a trainer reads the first row before anything else. It is found on the call stack, so nothing of TRL is changed.

    Args:
        description: The description of the rows, which names their folder.

    Raises:
        BatchError: It would; the message names the setting.
    """
    for innermost in (sys._getframe(1), _main_frame()):  # noqa: SLF001  a documented function of CPython
        frame: FrameType | None = innermost
        while frame is not None:
            variables = frame.f_locals if frame.f_code.co_name == "__init__" else {}
            trainer, args = variables.get("self"), variables.get("args")
            if trainer is not None and hasattr(args, "padding_free") and hasattr(args, "packing"):
                if description not in _CHECKED.setdefault(trainer, set()):
                    check_settings(args, variables.get("data_collator"), folders_named(description))
                    _CHECKED[trainer].add(description)
                return
            frame = frame.f_back


def _main_frame() -> FrameType | None:
    """The innermost frame of the main thread, seen from another one: `datasets` reads the rows of a shuffled stream in a thread."""
    main = threading.main_thread()
    is_main = threading.current_thread() is main
    return None if is_main else sys._current_frames().get(main.ident or 0)  # noqa: SLF001  likewise
