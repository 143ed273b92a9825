"""`PictureFiles`: opens the pictures of rows, wherever they lie now."""

from __future__ import annotations

import json
import os
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from fastpack import _fastpack
from fastpack.arguments.checks import check_type, reason_of, regular_file
from fastpack.arguments.urls import is_url, scheme_of
from fastpack.dataset.packed_files import RemoteAccess, RemoteFiles
from fastpack.options.storage import Storage
from fastpack.records.record_files import RecordFiles
from fastpack.storage.remote_pictures import remote_pictures

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from PIL.Image import Image

    from fastpack.dataset.folder import Folder
    from fastpack.dataset.pictures.references import PictureReference
    from fastpack.types import StrPath

__all__ = ["PictureFiles", "Thumbnail"]

_SIDE: Final = 96
"""The longest side of a thumbnail, in pixels."""


class NotFetchedError(ValueError):
    """A picture lies in remote storage, and the call was not asked to fetch any."""


class Thumbnail(NamedTuple):
    """A small picture, as a JPEG.

    Attributes:
        jpeg: The JPEG; empty if the picture lies in remote storage, and none is fetched.
        width: The number of its columns.
        height: The number of its rows.
    """

    jpeg: bytes = b""
    width: int = 0
    height: int = 0


class PictureFiles:
    """The files of pictures, here or in remote storage, and of records that hold pictures."""

    def __init__(
        self,
        folders: Iterable[Folder] = (),
        *,
        moved: Mapping[StrPath, StrPath] | None = None,
        fetch: bool | None = None,
        access: RemoteAccess | None = None,
        here_only: bool = False,
    ) -> None:
        """Opens nothing yet.

        Args:
            folders: The packed folders of the rows, whose manifests say how their records were read; without them, fields
                of conversations have their usual names.
            moved: The folders of pictures that lie elsewhere now: the path of each when rows were packed, and its path now.
                Either may be a URL.
            fetch: True if pictures on web servers are fetched; if not given, they are if the job of a folder did.
            access: The options of remote storage; those of the first folder in remote storage if not given.
            here_only: True if pictures in remote storage are refused, on web servers or in stores.
        """
        folders = list(folders)
        moves = {} if moved is None else dict(moved)
        pairs = [(Path(_place("moved", before)), _place("moved", now)) for before, now in moves.items()]
        # The innermost folder says where a file lies.
        self._moved = sorted(pairs, key=lambda pair: len(pair[0].parts), reverse=True)
        self._readings = _readings_of(folders)
        self._fetches = any(map(_fetches, folders)) if fetch is None else fetch
        remote = [folder.files.access for folder in folders if isinstance(folder.files, RemoteFiles)]
        self._here_only = here_only
        self._access = access or next(iter(remote), RemoteAccess())
        self._records = RecordFiles()
        self._remote: dict[bool, _fastpack.RemotePictures] = {}

    def __getstate__(self) -> dict[str, object]:
        """The pickled state: each process opens files itself."""
        return {
            name: self.__dict__[name] for name in ("_moved", "_readings", "_fetches", "_here_only", "_access")
        }

    def __setstate__(self, state: dict[str, object]) -> None:
        """Takes the state, with no file open."""
        self.__dict__.update(state)
        self._records = RecordFiles()
        self._remote = {}

    def opened(self, reference: PictureReference) -> Image:
        """A picture, upright and in RGB, as `load_image` of transformers gives it.

        Raises:
            NotFetchedError: It lies in remote storage, and none is fetched.
            ValueError: It cannot be opened, or its file or its size is another than when it was packed; the message names it.
        """
        try:
            content = self._content_of(reference)
            picture = _decoded(content)
        except (MemoryError, NotFetchedError):
            raise
        except Exception as raised:  # whatever Pillow and the file system raise
            message = f"the {reference} cannot be opened: {reason_of(raised)}; pass `moved` if it lies elsewhere now"
            raise ValueError(message) from raised
        if picture.size != (reference.width, reference.height):
            message = (
                f"the {reference} has {picture.width} x {picture.height} pixels, but had "
                f"{reference.width} x {reference.height} when it was packed; pack again"
            )
            raise ValueError(message)
        if reference.file_bytes not in {0, len(content)}:
            message = f"the {reference} has {len(content):,} bytes, but had {reference.file_bytes:,} when it was packed; pack again"
            raise ValueError(message)
        return picture

    def thumbnail(self, reference: PictureReference) -> Thumbnail | None:
        """A picture in small, for pages and notebooks; `None` if it cannot be opened, or Pillow is missing."""
        try:
            picture = self.opened(reference)
        except NotFetchedError:
            return Thumbnail()
        except ValueError:
            return None
        picture.thumbnail((_SIDE, _SIDE))
        written = BytesIO()
        picture.save(written, "JPEG")
        return Thumbnail(written.getvalue(), *picture.size)

    def _content_of(self, reference: PictureReference) -> bytes:
        """The bytes of a picture, not its path: Pillow turns some TIFFs in another way if it maps their files."""
        if reference.content is not None:
            return reference.content
        place = self._now(reference.path)
        if is_url(place):
            return self._fetched(place)
        path = regular_file(Path(place))
        if not reference.row:
            return path.read_bytes()
        record = self._records.record(path, reference.row)
        return _fastpack.held_picture(record, self._readings, reference.number)

    def _fetched(self, url: str) -> bytes:
        """The bytes of a picture in remote storage.

        Raises:
            NotFetchedError: None is fetched.
            ValueError: It is on a web server, and no job asked for such ones; or it cannot be read.
            StorageError: The connection is lost.
        """
        if self._here_only:
            message = "it is in remote storage"
            raise NotFetchedError(message)
        scheme = str(scheme_of(url)).lower()
        if scheme in {"http", "https"} and not self._fetches:
            message = (
                "it is on a web server, from which pictures are fetched only for rows of a folder that was packed with "
                "`reading.images.fetch`, or on request; pass the folder as `packed`, or fetch=True"
            )
            raise ValueError(message)
        is_on_hub = scheme == "hf"
        if is_on_hub not in self._remote:
            storage = Storage(self._access.storage_options, filesystem=self._access.filesystem)  # type: ignore[arg-type]  # it is taken as it is
            self._remote[is_on_hub] = remote_pictures(storage, hub=is_on_hub)
        return self._remote[is_on_hub].read(url)

    def _now(self, path: str) -> str:
        """The path or URL at which a file lies now."""
        there = Path(path)
        for before, now in self._moved:
            if there.is_relative_to(before):
                inside = there.relative_to(before)
                return f"{now.rstrip('/')}/{inside.as_posix()}" if is_url(now) else str(Path(now) / inside)
        return path


def _decoded(content: bytes) -> Image:
    """A picture, upright and in RGB."""
    from PIL import Image, ImageOps  # noqa: PLC0415  only pictures need Pillow

    with Image.open(BytesIO(content)) as picture:
        # Of a GIF it is the first frame.
        return ImageOps.exif_transpose(picture).convert("RGB")


def _readings_of(folders: Iterable[Folder]) -> list[str]:
    """The options by which the records of folders were read, in the JSON of their manifests, each once."""
    jobs = [folder.manifest.get("job") for folder in folders]
    sources = [job.get("sources") for job in jobs if isinstance(job, dict)]
    readings = [source["reading"] for each in sources if isinstance(each, list) for source in each]
    return list(dict.fromkeys(map(json.dumps, readings)))


def _fetches(folder: Folder) -> bool:
    """True if the job of a folder fetched pictures from web servers."""
    images = folder.options.get("reading.images")
    return isinstance(images, dict) and images.get("fetch") is True


def _place(option: str, value: StrPath) -> str:
    """A folder of this machine, or the URL of one."""
    check_type(option, value, (str, os.PathLike), "a mapping of folders to folders")
    return os.path.expanduser(os.fspath(value))
