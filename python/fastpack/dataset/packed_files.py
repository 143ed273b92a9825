"""`files_of`: the files of a packed folder, on this machine or in remote storage, by their names."""

from __future__ import annotations

import errno
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from fastpack import _fastpack
from fastpack._fastpack import first_outside
from fastpack.arguments.checks import folder_of, regular_file, shown
from fastpack.arguments.failures import about
from fastpack.arguments.urls import is_url
from fastpack.errors import FastpackError, InputNotFoundError
from fastpack.options.storage import Storage, storage_of
from fastpack.storage.filesystem import FileSystem, choose_filesystem
from fastpack.storage.remote_options import cache_folder, choose_storage, public

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from fastpack.types import FsspecFileSystem, StrPath

__all__ = [
    "HeldFile",
    "ListedFile",
    "LocalFiles",
    "PackedFiles",
    "RemoteAccess",
    "RemoteFiles",
    "file_in",
    "files_of",
]


class ListedFile(NamedTuple):
    """A file that a manifest lists.

    Attributes:
        name: The name in the folder.
        bytes: The size; `None` where the manifest says none.
        blake3: The hash, in hexadecimal; `None` where the manifest says none.
        parts: The hashes of its parts, in hexadecimal and one behind the other; empty for a file of one part.
    """

    name: str
    bytes: int | None
    blake3: str | None
    parts: str = ""


class RemoteAccess(NamedTuple):
    """The options by which remote storage is read, as the call has them.

    Attributes:
        storage_options: Credentials, endpoints and retries.
        filesystem: The filesystem of `fsspec` that holds the folder.
        block_cache: The most bytes that are kept on the local disk.
        cache_dir: The folder that holds them.
    """

    storage_options: Mapping[str, str] | None = None
    filesystem: FsspecFileSystem | FileSystem | None = None
    block_cache: int | str | None = None
    cache_dir: StrPath | None = None

    @classmethod
    def of(
        cls, call: str, storage: Mapping[str, str] | Storage | None, cache_dir: StrPath | None = None
    ) -> RemoteAccess:
        """The access of the function `call`, from its arguments."""
        checked = storage_of(storage, call)
        return cls(checked.options, checked.filesystem, checked.block_cache, cache_dir)


class HeldFile(Protocol):
    """A file on this machine that stays there until it is released."""

    @property
    def path(self) -> Path:
        """The place of the file."""

    def release(self) -> None:
        """Allows the file to be removed."""


class PackedFiles(Protocol):
    """The files of a packed folder."""

    @property
    def name(self) -> str:
        """The path, or the URL without secrets."""

    @property
    def is_remote(self) -> bool:
        """True for a folder in remote storage."""

    def shown(self, name: str) -> str:
        """The path or URL of a file, for messages."""

    def content(self, name: str) -> bytes | None:
        """The bytes of a small file; `None` if there is none."""

    def refuse_outside(self, names: Sequence[str], listed_by: str) -> None:
        """Refuses names of files that lie outside the folder. `listed_by` is the file with the names."""

    def copy_of(self, file: ListedFile) -> AbstractContextManager[Path]:
        """A file on this machine for a while, unchecked."""

    def hold(self, files: Sequence[ListedFile]) -> list[HeldFile | None]:
        """Files on this machine, fetched if need be; `None` for one for which there is no room."""


class _LocalFile(NamedTuple):
    """A file of the local disk, which needs no hold."""

    path: Path

    def release(self) -> None:
        """Does nothing."""


class LocalFiles(NamedTuple):
    """A folder of this machine."""

    path: Path

    @property
    def name(self) -> str:
        """The path."""
        return str(self.path)

    @property
    def is_remote(self) -> bool:
        """False: the folder is on this machine."""
        return False

    def shown(self, name: str) -> str:
        """The path of a file."""
        return str(self.path / name)

    def content(self, name: str) -> bytes | None:
        """The bytes of a regular file; `None` if there is none.

        Raises:
            FastpackError: A link leads out of the folder, or the file cannot be read.
        """
        if (self.path / name).is_symlink():
            self.refuse_outside([name], name)
        return file_in(self.path / name)

    def refuse_outside(self, names: Sequence[str], listed_by: str) -> None:
        """Refuses names of files that lie outside the folder, by themselves or through a link.

        Raises:
            FastpackError: One does.
        """
        with about(self.path, "cannot be read"):
            name = first_outside(str(self.path), list(names))
        if name is not None:
            source = self.path / listed_by
            what = "is a link" if name == listed_by else f"names `{shown(name)}`, which leads"
            message = (
                f"{source} {what} out of the folder; a packed folder is read whole: copy the file into it"
            )
            raise FastpackError(message)

    @contextmanager
    def copy_of(self, file: ListedFile) -> Iterator[Path]:
        """The file itself."""
        yield self.path / file.name

    def hold(self, files: Sequence[ListedFile]) -> list[HeldFile | None]:
        """The files themselves."""
        return [_LocalFile(self.path / file.name) for file in files]


class RemoteFiles:
    """A folder of remote storage. Files are fetched into the cache of fetched bytes, and are read there."""

    is_remote = True

    def __init__(self, url: str, access: RemoteAccess) -> None:
        """Takes the URL, and the options that open it.

        Raises:
            OptionError: The URL or an option is not as it has to be.
        """
        self.url, self.access = url, access
        filesystem = choose_filesystem(access.filesystem)
        named = url if filesystem is None else filesystem.name_of(url)
        self.name = public(named)
        storage = choose_storage((), Storage(access.storage_options), filesystem=filesystem, folder=named)
        self._native = _fastpack.RemoteFolder(named, storage)
        self._cache_dir = cache_folder(access.cache_dir)
        self._room: int | None = None

    def __reduce__(self) -> tuple[type[RemoteFiles], tuple[str, RemoteAccess]]:
        """Pickles the URL and the options."""
        return RemoteFiles, (self.url, self.access)

    @property
    def room(self) -> int:
        """The most bytes that the cache may hold."""
        if self._room is None:
            self._room = _fastpack.block_cache_size(self._cache_dir, self.access.block_cache)
        return self._room

    def checked_afresh(self, cache_dir: str, most: int) -> RemoteFiles:
        """A copy with an empty cache in `cache_dir`: every file is fetched and checked again."""
        return RemoteFiles(self.url, self.access._replace(cache_dir=cache_dir, block_cache=most))

    def shown(self, name: str) -> str:
        """The URL of a file, without secrets."""
        return f"{self.name.rstrip('/')}/{name}"

    def content(self, name: str) -> bytes | None:
        """The bytes of a small file; `None` if there is none."""
        return self._native.read(name)

    def refuse_outside(self, names: Sequence[str], listed_by: str) -> None:
        """Refuses names that lead out of the folder.

        Raises:
            FastpackError: One does.
        """
        for name in names:
            if {"", ".", ".."} & set(name.split("/")) or "\\" in name:
                message = f"{self.shown(listed_by)} names `{shown(name)}`, which leads out of the folder"
                raise FastpackError(message)

    def status(self) -> str:
        """The state of the finished job in the folder, as JSON."""
        return self._native.status()

    @contextmanager
    def copy_of(self, file: ListedFile) -> Iterator[Path]:
        """A copy of a file on this machine, for a while."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, Path(file.name).name)
            self._native.copy(file.name, file.bytes or 0, path)
            yield path

    def copy(self, file: ListedFile, path: Path) -> None:
        """Writes a file to a path, where there must be none."""
        self._native.copy(file.name, file.bytes or 0, path)

    def hold(self, files: Sequence[ListedFile]) -> list[HeldFile | None]:
        """The files of the cache, fetched into it if they are not there.

        Raises:
            OptionError: A file is larger than the cache.
            StorageError: A file cannot be fetched, or is not the one that the manifest lists.
        """
        listed = [(file.name, file.bytes or 0, file.blake3 or "", file.parts) for file in files]
        return list(self._native.hold(listed, self._cache_dir, self.room))


def files_of(option: str, folder: StrPath, access: RemoteAccess | None) -> LocalFiles | RemoteFiles:
    """The files of a folder: a path of this machine; with `access` also a URL, or a path of a filesystem of `fsspec`.

    Raises:
        OptionError: It is neither.
        InputNotFoundError: There is no such folder on this machine.
    """
    if access is not None:
        text = folder_of(option, folder, takes_urls=True)
        if is_url(text) or access.filesystem is not None:
            return RemoteFiles(text.rstrip("/") if "?" not in text else text, access)
    path = Path(folder_of(option, folder))
    if not path.is_dir():
        raise InputNotFoundError(errno.ENOENT, "no such folder of packed rows", str(path))
    return LocalFiles(path)


def file_in(path: Path) -> bytes | None:
    """The bytes of a regular file; `None` if there is none."""
    with about(path, "cannot be read"):
        try:
            return regular_file(path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
