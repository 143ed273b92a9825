"""Small pictures of packed rows, for pages and notebooks."""

from __future__ import annotations

import base64
from io import BytesIO
from typing import TYPE_CHECKING, Final

from fastpack.dataset.pictures.files import NotFetchedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastpack.dataset.pictures.files import PictureFiles
    from fastpack.dataset.pictures.references import PictureReference

__all__ = ["thumbnails"]

_SIDE: Final = 96
"""The longest side of a small picture, in pixels."""

_MOST: Final = 8
"""The most pictures of a document that are shown; the lines above them name all."""


def thumbnails(pictures: Iterable[PictureReference], files: PictureFiles) -> str:
    """Small pictures as HTML. One that cannot be opened is left out, and all are without Pillow; one that is not fetched says so."""
    shown = (_thumbnail(picture, files) for _, picture in zip(range(_MOST), pictures, strict=False))
    return "".join(shown)


def _thumbnail(reference: PictureReference, files: PictureFiles) -> str:
    try:
        picture = files.opened(reference)
    except NotFetchedError:
        return f'<span class="faint">picture {reference.number}: not fetched</span> '
    except ValueError:
        return ""
    picture.thumbnail((_SIDE, _SIDE))
    written = BytesIO()
    picture.save(written, "JPEG")
    content = base64.b64encode(written.getvalue()).decode()
    width, height = picture.size
    source = f"data:image/jpeg;base64,{content}"
    return f'<img src="{source}" width="{width}" height="{height}" alt="picture {reference.number}"> '
