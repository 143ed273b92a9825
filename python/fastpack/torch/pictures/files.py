"""`PictureFiles`: opens the pictures of rows, wherever they lie now."""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from fastpack import _fastpack
from fastpack.arguments.checks import check_type
from fastpack.torch.pictures.records import RecordFiles

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from PIL.Image import Image

    from fastpack.torch.pictures.references import PictureReference
    from fastpack.types import StrPath

__all__ = ["PictureFiles"]


class PictureFiles:
    """The files of pictures, and of records that hold pictures."""

    def __init__(self, moved: Mapping[StrPath, StrPath] | None, readings: Sequence[str]) -> None:
        """Takes what names the pictures of rows.

        Args:
            moved: The folders that lie elsewhere now: the path of each when rows were packed, and its path now.
            readings: The options by which records were read, in the JSON of manifests.
        """
        given = {} if moved is None else dict(moved)
        pairs = [(_path("moved", before), _path("moved", now)) for before, now in given.items()]
        # The innermost folder says where a file lies.
        self._moved = sorted(pairs, key=lambda pair: len(pair[0].parts), reverse=True)
        self._readings = list(readings)
        self._records = RecordFiles()

    def __getstate__(self) -> dict[str, object]:
        """The pickled state: each process opens files itself."""
        return {"_moved": self._moved, "_readings": self._readings}

    def __setstate__(self, state: dict[str, object]) -> None:
        """Takes the state, with no file open."""
        self.__dict__.update(state)
        self._records = RecordFiles()

    def opened(self, reference: PictureReference) -> Image:
        """A picture, upright and in RGB, as `load_image` of transformers gives it.

        Raises whatever Pillow and the file system raise for what is no picture.
        """
        from PIL import Image, ImageOps  # noqa: PLC0415  importing fastpack.torch needs no Pillow

        path = self._now(reference.path)
        if reference.row:
            record = self._records.record(path, reference.row)
            source: BytesIO | Path = BytesIO(_fastpack.held_picture(record, self._readings, reference.number))
        else:
            source = path
        with Image.open(source) as picture:
            # Of a GIF it is the first frame. `convert` reads all pixels, so the file can be closed.
            return ImageOps.exif_transpose(picture).convert("RGB")

    def _now(self, path: str) -> Path:
        """The path at which a file lies now."""
        there = Path(path)
        for before, now in self._moved:
            if there.is_relative_to(before):
                return now / there.relative_to(before)
        return there


def _path(option: str, value: StrPath) -> Path:
    check_type(option, value, (str, os.PathLike), "a mapping of folders to folders")
    return Path(value).expanduser()
