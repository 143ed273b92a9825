"""The arguments of the native module that a processor of pictures makes."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fastpack.errors import OptionError
from fastpack.tokenizer.pictures.processor import PictureError, PictureProcessor

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastpack import _fastpack
    from fastpack.options.records import Images

__all__ = ["CallProcessor", "NativeImages", "loaded_processor", "native_images", "texts_of"]


class NativeImages(NamedTuple):
    """The facts of a processor for the core.

    Attributes:
        marker: The text that the chat template writes for a picture.
        delimiters: The texts that it writes around that.
        adds_special_tokens: True if a rendered conversation gets the special tokens of the tokenizer.
        configuration: The processor and its options, as JSON.
        token_types: The columns with a type for each token, each with the ids that have one.
        folder: The folder of relative paths, if given.
        embed: True if rows hold the bytes of their pictures.
        depends_on_number: True if the text of a picture depends on the number of pictures in its document.
        fetch: True if pictures on web servers are fetched.
        remote: The access to pictures that lie elsewhere; `None` if none are read.
        max_images_per_pack: The most pictures of a row.
        max_image_tokens_per_pack: The most tokens of pictures in a row.
    """

    marker: str
    delimiters: tuple[str, str]
    adds_special_tokens: bool
    configuration: str
    token_types: list[tuple[str, list[tuple[int, int]]]]
    folder: str | None
    embed: bool
    depends_on_number: bool
    fetch: bool
    remote: _fastpack.RemotePictures | None
    max_images_per_pack: int | None
    max_image_tokens_per_pack: int | None


class CallProcessor:
    """The processor of one call, whose parts share it: a live one is tried once a call, since it may change between calls."""

    def __init__(self) -> None:
        """Loads nothing yet."""
        self._loaded: tuple[Images, object, PictureProcessor] | None = None

    def __reduce__(self) -> tuple[type[CallProcessor], tuple[()]]:
        """Pickles nothing: another process loads its own."""
        return CallProcessor, ()

    def load(
        self, images: Images, tokenizer: object, *, revision: str | None, token: str | bool | None
    ) -> PictureProcessor:
        """The processor, loaded and tried unless it was."""
        if self._loaded is None or self._loaded[0] != images or self._loaded[1] is not tokenizer:
            loaded = loaded_processor(images, tokenizer, revision=revision, token=token)
            self._loaded = images, tokenizer, loaded
        return self._loaded[2]


def loaded_processor(
    images: Images, tokenizer: object, *, revision: str | None, token: str | bool | None
) -> PictureProcessor:
    """The processor of a call; that of the last call if nothing has changed since."""
    if tokenizer is None:
        message = "needs the model folder of a processor as tokenizer"
        raise OptionError(message, "reading.images")
    if isinstance(tokenizer, (str, os.PathLike)):
        path = os.fspath(tokenizer)
        options = json.dumps(images.processor_kwargs, sort_keys=True)
        return _of_path(path, options, revision, token, _files(path))
    return PictureProcessor.load(tokenizer, images.processor_kwargs, revision=revision, token=token)


@functools.lru_cache(maxsize=1)
def _of_path(
    path: str, options: str, revision: str | None, token: str | bool | None, _files: tuple[object, ...]
) -> PictureProcessor:
    """The processor of a folder: several parts of a call use it."""
    return PictureProcessor.load(path, json.loads(options), revision=revision, token=token)


def _files(path: str) -> tuple[object, ...]:
    """The names, times and sizes of the files of a folder, which change with its processor."""
    folder = Path(path).expanduser()
    if not folder.is_dir():
        return ()
    found = ((entry.name, entry.stat()) for entry in sorted(folder.iterdir()))
    return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in found)


def native_images(
    images: Images, processor: PictureProcessor, remote: _fastpack.RemotePictures | None
) -> NativeImages:
    """The facts about a processor for the core, and the access to pictures that lie elsewhere."""
    types = [(name, sorted(types.items())) for name, types in processor.token_types.items()]
    folder = None if images.folder is None else os.path.expanduser(os.fspath(images.folder))
    configuration = json.dumps(processor.configuration, sort_keys=True)
    return NativeImages(
        marker=processor.marker,
        delimiters=processor.delimiters,
        adds_special_tokens=processor.adds_special_tokens,
        configuration=configuration,
        token_types=types,
        folder=folder,
        embed=images.embed,
        depends_on_number=processor.depends_on_number,
        fetch=images.fetch,
        remote=remote,
        max_images_per_pack=images.max_images_per_pack,
        max_image_tokens_per_pack=images.max_image_tokens_per_pack,
    )


def texts_of(
    processor: PictureProcessor,
) -> Callable[[list[tuple[int, int]], int], list[tuple[str | None, str]]]:
    """The function that makes the texts of pictures, or the reason that the processor refuses the size of one."""

    def texts(sizes: list[tuple[int, int]], pictures: int) -> list[tuple[str | None, str]]:
        replacements = processor.replacements(sizes, pictures)
        return [
            (None, each.reason) if isinstance(each, PictureError) else (each, "") for each in replacements
        ]

    return texts
