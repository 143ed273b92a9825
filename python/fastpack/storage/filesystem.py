"""`FileSystem`: the files of a filesystem of `fsspec`, as the native module asks for them."""

from __future__ import annotations

import errno
import re
import sys
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from fastpack._fastpack import one_line, without_secrets
from fastpack.arguments.failures import noted
from fastpack.errors import OptionError, OptionTypeError, StorageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastpack.types import FsspecFileSystem

__all__ = ["FileSystem", "choose_filesystem"]

_Facts: TypeAlias = tuple[str, int, str | None, int]
"""A file: the path behind `scheme://`, its size, its etag, and its last change in nanoseconds since 1970, or 0."""

_ETAGS: Final = ("ETag", "etag", "e_tag", "md5Hash", "content_md5", "sha", "sha256")
"""The keys of `info` for a text that changes with the content, the first that is there."""

_TIMES: Final = ("mtime", "LastModified", "last_modified", "modified", "updated", "date_time", "created")
"""The keys of `info` for the time of the last change, the first that is there."""

_NO_SCHEME: Final = re.compile(r"[^A-Za-z0-9+.-]")
"""A character that no scheme of a URL has."""


def choose_filesystem(filesystem: object) -> FileSystem | None:
    """The filesystem of a call, wrapped; `None` if it has none.

    Raises:
        OptionTypeError: It is no filesystem of `fsspec`.
        OptionError: It is one that answers to coroutines alone.
    """
    if filesystem is None or isinstance(filesystem, FileSystem):
        return filesystem
    module = sys.modules.get("fsspec")
    if module is None or not isinstance(filesystem, module.AbstractFileSystem):
        message = (
            f"must be a filesystem of `fsspec`, such as fsspec.filesystem('sftp', host=...), "
            f"not a `{type(filesystem).__qualname__}`"
        )
        raise OptionTypeError(message, "storage.filesystem")
    if getattr(filesystem, "asynchronous", False):
        message = "was made with asynchronous=True, and answers to coroutines alone; make it without"
        raise OptionError(message, "storage.filesystem")
    return FileSystem(filesystem)


class _NotedFailures(noted):
    """Adds a note of the file to an exception of a filesystem, and keeps it."""

    def __init__(self, files: FileSystem, place: str) -> None:
        super().__init__(place)
        self._files = files

    def __exit__(self, kind: object, raised: BaseException | None, traceback: object) -> None:
        if isinstance(raised, Exception):
            self._files.keep(raised)
        super().__exit__(kind, raised, traceback)


class FileSystem:
    """The files of a filesystem. Its exceptions pass, with a note of the file.

    The native module calls `file`, `files` and `read`.
    """

    def __init__(self, filesystem: FsspecFileSystem) -> None:
        """Wraps the filesystem."""
        self._filesystem = filesystem
        self._raised: list[Exception] = []
        protocol = filesystem.protocol
        first = protocol if isinstance(protocol, str) else next(iter(protocol), "")
        scheme = _NO_SCHEME.sub("-", str(first))
        self._scheme = scheme if len(scheme) > 1 and scheme[0].isalpha() else f"fs-{scheme}"

    def has_raised(self, failed: Exception) -> bool:
        """Tells an exception of this filesystem from others."""
        return any(failed is raised for raised in self._raised)

    def name_of(self, path: str) -> str:
        """The name of a path, glob or folder of the caller: `scheme://` and the path as the filesystem has it."""
        with noted(_place("read the path", path)):
            own = str(self._filesystem._strip_protocol(path))  # noqa: SLF001  fsspec has no other way
        return own if own.startswith(f"{self._scheme}://") else f"{self._scheme}://{own}"

    def file(self, path: str) -> _Facts | None:
        """The file at a path; `None` for a folder, or for nothing."""
        with self._note_failures("looked for", path):
            try:
                info = self._info(self._own(path))
            except FileNotFoundError:
                return None
        return self._facts(info) if info.get("type") == "file" else None

    def files(self, folder: str) -> list[_Facts]:
        """All files below a folder, at any depth."""
        with self._note_failures("listed", folder):
            own = self._own(folder) if folder else self._filesystem.root_marker
            try:
                found = cast("Mapping[str, Mapping[str, object]]", self._filesystem.find(own, detail=True))
            except FileNotFoundError:
                return []
        return [self._facts(info) for info in found.values() if info.get("type") == "file"]

    def read(self, facts: _Facts, start: int, end: int) -> bytes | None:
        """The bytes of a range of a file; `None` if it is not the file of these facts any more."""
        path, size, etag, modified = facts
        with self._note_failures("read", path):
            own = self._own(path)
            read = bytes(self._filesystem.cat_file(own, start=start, end=end))
            if end < size:
                return read
            # The end of a file is read once or twice: often enough to ask again for its facts.
            info = self._info(own)
        now = self._facts(info)
        is_other = now[1] != size or (
            now[2] != etag if now[2] and etag else bool(now[3] and modified and now[3] != modified)
        )
        return None if is_other else read

    def _note_failures(self, action: str, path: str) -> _NotedFailures:
        return _NotedFailures(self, _place(action, f"{self._scheme}://{path}"))

    def keep(self, raised: Exception) -> None:
        """Records an exception of the filesystem: readers side by side may fail together."""
        self._raised.append(raised)

    def _info(self, own: str) -> Mapping[str, object]:
        return cast("Mapping[str, object]", self._filesystem.info(own))

    def _own(self, path: str) -> str:
        """The path as the filesystem has it."""
        return str(self._filesystem._strip_protocol(f"{self._scheme}://{path}"))  # noqa: SLF001

    def _facts(self, info: Mapping[str, object]) -> _Facts:
        path, size = str(info.get("name")), info.get("size")
        if not isinstance(size, int):
            raise StorageError(errno.EIO, "the filesystem does not tell the size", self.name_of(path))
        etag = next((str(info[key]) for key in _ETAGS if info.get(key)), None)
        changed = next((info[key] for key in _TIMES if info.get(key)), None)
        modified = _nanoseconds(changed)
        if etag is None and not modified and changed is not None:
            etag = str(changed)
        return self.name_of(path).partition("://")[2], size, etag, modified


def _place(action: str, path: str) -> str:
    """The place of an exception of a filesystem."""
    return one_line(without_secrets(f"while fastpack {action} {path} by `filesystem`"))


def _nanoseconds(time: object) -> int:
    """A time in nanoseconds since 1970, exact to a microsecond; 0 for a value that is no time."""
    if isinstance(time, datetime):
        time = (time if time.tzinfo else time.replace(tzinfo=timezone.utc)).timestamp()
    return max(round(time * 1e6) * 1000, 0) if isinstance(time, (int, float)) else 0
