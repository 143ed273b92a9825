"""Small pictures of packed rows, for pages and notebooks."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastpack.dataset.pictures.files import PictureFiles
    from fastpack.dataset.pictures.references import PictureReference

__all__ = ["thumbnails"]

_MOST: Final = 8
"""The most pictures of a document that are shown; the lines above them name all."""


def thumbnails(pictures: Iterable[PictureReference], files: PictureFiles) -> str:
    """Small pictures as HTML. One that cannot be opened is left out, and all are without Pillow; one that is not fetched says so."""
    shown = (_thumbnail(picture, files) for _, picture in zip(range(_MOST), pictures, strict=False))
    return "".join(shown)


def _thumbnail(reference: PictureReference, files: PictureFiles) -> str:
    small = files.thumbnail(reference)
    if small is None:
        return ""
    if not small.jpeg:
        return f'<span class="faint">picture {reference.number}: not fetched</span> '
    source = f"data:image/jpeg;base64,{base64.b64encode(small.jpeg).decode()}"
    return f'<img src="{source}" width="{small.width}" height="{small.height}" alt="picture {reference.number}"> '
