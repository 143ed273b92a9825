"""The processor that the rows of a packed folder were made with, as its manifest says."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fastpack.arguments.checks import shown
from fastpack.dataset.folder import Folder
from fastpack.errors import OptionError, OptionTypeError
from fastpack.hf.trainers import folders_of
from fastpack.torch.packed_dataset import PackedDataset

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastpack.types import JsonValue

__all__ = ["folders_in", "packed_processor"]


def folders_in(packed: object) -> list[Folder]:
    """The folders of a path, of a `PackedDataset` or of a data set of `fastpack.hf.load`.

    Raises:
        OptionTypeError: It is none of these.
        OptionError: It has no folder.
    """
    if packed is None:
        return []
    if isinstance(packed, (str, os.PathLike)):
        return [Folder(packed)]
    is_dataset = isinstance(packed, PackedDataset) or hasattr(packed, "features")
    if not is_dataset:
        message = f"must be a packed folder, or a data set of one, not `{shown(packed)}`"
        raise OptionTypeError(message, "packed")
    folders = packed.folders if isinstance(packed, PackedDataset) else folders_of(packed)
    if not folders:
        message = "has rows of no packed folder, so nothing says which processor made them; leave it out"
        raise OptionError(message, "packed")
    return folders


def packed_processor(folder: Folder) -> Mapping[str, JsonValue]:
    """The configuration of the processor that made the rows of a folder.

    Raises:
        OptionError: The rows were packed without pictures.
    """
    images = folder.options.get("reading.images")
    found = images.get("processor") if isinstance(images, dict) else None
    if not isinstance(found, dict):
        message = f"{folder.name} was packed without pictures; use fastpack.torch.collate, or pack with `reading.images`"
        raise OptionError(message, "packed")
    return found
