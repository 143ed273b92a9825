"""The only place where files of the local disk are removed or written over: those that are proved to be fastpack's."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import stat
import threading
from typing import TYPE_CHECKING, Final

from fastpack.dataset.manifest import MANIFEST
from fastpack.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from typing_extensions import Self

__all__ = ["Temporary", "remove_finished"]

_BEGIN: Final = 1 << 16
"""The most bytes at the beginning of a file that tell whether fastpack wrote it."""


class Temporary:
    """A file that this process makes beside its place, under a name of its own. It is gone after the `with` block unless it was placed."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self.path = place
        self._number: tuple[int, int] | None = None

    def __enter__(self) -> Self:
        own = f"{os.getpid()}-{threading.get_ident()}"
        for number in itertools.count():
            self.path = self._place.with_name(f".{self._place.name}.{own}-{number}.part")
            try:
                descriptor = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
            except FileExistsError:
                continue
            found = os.fstat(descriptor)
            os.close(descriptor)
            self._number = (found.st_dev, found.st_ino)
            break
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A file that cannot be removed must not hide the error.
        with contextlib.suppress(OSError):
            found = self.path.lstat()
            if self._number == (found.st_dev, found.st_ino):
                self.path.unlink()

    def place(self) -> None:
        """Brings the file to its place, where there must be none.

        Raises:
            OutputError: Something lies there.
        """
        try:
            os.link(self.path, self._place)
        except FileExistsError:
            raise self._foreign_file_error() from None
        except OSError:
            # The file system has no second names.
            if os.path.lexists(self._place):
                raise self._foreign_file_error() from None
            self.path.replace(self._place)

    def write_over(self, is_ours: Callable[[bytes], bool]) -> None:
        """Brings the file to its place, over one that fastpack wrote if there is one.

        Args:
            is_ours: True if the beginning of a file tells that fastpack wrote it.

        Raises:
            OutputError: Something lies there that fastpack did not write.
        """
        try:
            found = self._place.lstat()
        except FileNotFoundError:
            return self.place()
        if not stat.S_ISREG(found.st_mode):
            raise self._foreign_file_error()
        with self._place.open("rb") as file:
            begin = file.read(_BEGIN)
        if begin and not is_ours(begin):
            raise self._foreign_file_error()
        self.path.replace(self._place)
        return None

    def _foreign_file_error(self) -> OutputError:
        reason = "is there already, and fastpack did not write it; move it away, or write to another path"
        return OutputError(errno.EEXIST, reason, str(self._place))


def remove_finished(folder: Path) -> None:
    """Removes the files of a finished folder that are as its manifest says, and the folder if nothing else is in it.

    The manifest was written last, so none of them is newer than it.
    """
    path = folder / MANIFEST
    try:
        written = path.lstat().st_mtime_ns
        listed = json.loads(path.read_bytes())
        sizes = {str(it["name"]): it["bytes"] for kind in ("files", "beside") for it in listed.get(kind, ())}
        if listed.get("tokens"):
            sizes["tokens.fastpack"] = listed["tokens"]["bytes"]
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return
    # The manifest goes first: without it, no run takes the other files for whole.
    for name in [MANIFEST, *sizes]:
        file = folder / name
        with contextlib.suppress(OSError):
            found = file.lstat()
            is_as_written = stat.S_ISREG(found.st_mode) and found.st_mtime_ns <= written
            is_inside = file.parent in {folder, folder / "train", folder / "validation"}
            if is_inside and is_as_written and found.st_size == sizes.get(name, found.st_size):
                file.unlink()
    for empty in (folder / "train", folder / "validation", folder):
        with contextlib.suppress(OSError):
            empty.rmdir()
