"""`PlaceFile`: the file with the state behind the last table that all ranks took."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastpack import _fastpack
from fastpack.errors import AccessError, FastpackError, OptionError, OutputError, StorageError
from fastpack.streaming.serving.protocol import LARGEST, START, StreamPosition

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["PlaceFile", "step_of"]

_NO_FILE: Final = "it is no regular file"
_LINK: Final = "it is a link"
_TOO_LARGE: Final = f"it has more than {LARGEST:,} bytes"
_NO_TEXT: Final = "it is no text"


class PlaceFile:
    """The file, which holds one sealed state. It is replaced only as this object has left it."""

    def __init__(self, path: str) -> None:
        """Reads the file, if it is there, and tries whether it can be replaced.

        Raises:
            OptionError: It is no file of a state.
            StorageError: It cannot be read, or its folder not be written.
        """
        self._path = Path(path)
        self._left: tuple[int, ...] | None = None
        try:
            self.place = self._read()
            self._sweep()
            with self._new(""):
                pass
        except OSError as failed:
            raise self._named(failed) from failed

    def _sweep(self) -> None:
        """Removes the leftovers of a server that was killed while it wrote: files of such a name that hold a state."""
        for left in self._path.parent.iterdir():
            if left.name.startswith(f".{self._path.name}.") and left.name.endswith(".new"):
                with contextlib.suppress(FastpackError, OSError):
                    if self._contents(left) is not None:
                        left.unlink()

    def _read(self) -> StreamPosition:
        """The place that the file holds; the beginning if there is none."""
        found = self._contents(self._path)
        if found is None:
            return START
        place, self._left = found
        return place

    def _contents(self, path: Path) -> tuple[StreamPosition, tuple[int, ...]] | None:
        """The place in a file, and the marks that change with the file; `None` if there is none."""
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
        try:
            file = os.open(path, flags)
        except FileNotFoundError:
            return None
        except OSError as failed:
            if failed.errno == errno.ELOOP:
                raise self._refused(_LINK) from failed
            raise
        with os.fdopen(file, "rb") as opened:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                raise self._refused(_NO_FILE)
            content = opened.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise self._refused(_TOO_LARGE)
        return self._place(content), _identity(found)

    def _place(self, content: bytes) -> StreamPosition:
        """The place that the file holds."""
        try:
            text = content.decode()
            _fastpack.check_state(text)
        except OptionError as refused:
            reason = f"it {refused.reason}"
            raise self._refused(reason) from refused
        except UnicodeDecodeError as refused:
            raise self._refused(_NO_TEXT) from refused
        return StreamPosition(step_of(text), text)

    def _refused(self, reason: str) -> OptionError:
        message = f"`{self._path}` holds no state of a stream: {reason}; remove the file to begin anew"
        return OptionError(message, "state")

    def write(self, place: StreamPosition) -> None:
        """Replaces the file.

        Raises:
            OutputError: Something else has written it meanwhile.
            StorageError: It cannot be written.
        """
        try:
            if self._found() != self._left:
                message = "was changed by another process; give each server a file of its own"
                raise OutputError(errno.EEXIST, message, str(self._path))
            if place.state is None:
                self._path.unlink(missing_ok=True)
                self._left = None
                return
            with self._new(place.state) as new:
                new.replace(self._path)
            self._left = self._found()
        except OSError as failed:
            raise self._named(failed) from failed

    def _found(self) -> tuple[int, ...] | None:
        try:
            return _identity(self._path.lstat())
        except FileNotFoundError:
            return None

    @contextlib.contextmanager
    def _new(self, content: str) -> Iterator[Path]:
        """A new file beside the file, which is gone afterwards."""
        new = self._path.with_name(f".{self._path.name}.{secrets.token_hex(4)}.new")
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            with os.fdopen(file, "wb") as opened:
                opened.write(content.encode())
            yield new
        finally:
            new.unlink(missing_ok=True)  # if it was not renamed

    def _named(self, failed: OSError) -> OSError:
        """The error, with the file's name."""
        if isinstance(failed, FastpackError):
            return failed
        kind = AccessError if isinstance(failed, PermissionError) else StorageError
        return kind(failed.errno, failed.strerror or str(failed), str(self._path))


def _identity(found: os.stat_result) -> tuple[int, ...]:
    """A value that changes with the file."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def step_of(state: str) -> int:
    """The number of tables before a state."""
    step = json.loads(state)["step"]
    if isinstance(step, bool) or not isinstance(step, int):
        message = "is none of a stream: its step is no whole number"
        raise OptionError(message, "state")
    return step
