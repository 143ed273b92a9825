"""Errors of the system and of libraries about a file, as errors of fastpack that name the file; and notes on those of the caller."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from fastpack.errors import AccessError, FastpackError, InputNotFoundError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fastpack.types import StrPath

__all__ = ["about", "each_of", "noted", "of_system"]

_Item = TypeVar("_Item")


@contextmanager
def about(path: StrPath, fault: str, remedy: str = "") -> Iterator[None]:
    """Turns an error about a file, raised by the code inside, into one that names the file.

    `MemoryError` and what fastpack raises pass unchanged.

    Args:
        path: The file.
        fault: The failed action: "cannot be read as parquet".
        remedy: The advice to the caller.
    """
    try:
        yield
    except (FastpackError, MemoryError):
        raise
    except OSError as failed:
        if failed.errno is not None:
            raise of_system(failed, path) from failed
        raise _refused(path, fault, failed, remedy) from failed
    except Exception as failed:
        # A library raises many kinds of errors for a damaged file.
        raise _refused(path, fault, failed, remedy) from failed


class noted:  # noqa: N801  as a function of `contextlib` is called
    """Adds a note of the place to an exception of the caller's code, which passes unchanged. Python 3.10 has no notes.

    A `StopIteration` becomes a `RuntimeError`, as in generators: it would end the loop over a stream as if all was read.
    `contextlib.contextmanager` lets it through.
    """

    def __init__(self, place: str) -> None:
        """Takes the place, such as "while fastpack called `filter`"."""
        self._place = place

    def __enter__(self) -> None:
        """Does nothing."""

    def __exit__(self, _kind: object, raised: BaseException | None, _traceback: object) -> None:
        """Adds the note, once."""
        if isinstance(raised, StopIteration):
            message = f"the caller's code raised StopIteration {self._place}"
            raise RuntimeError(message) from raised  # noqa: TRY004  as generators do
        if (
            raised is not None
            and sys.version_info >= (3, 11)
            and self._place not in getattr(raised, "__notes__", ())
        ):
            raised.add_note(self._place)


def each_of(items: Iterable[_Item], place: str) -> Iterator[_Item]:
    """Yields the items of an iterable of the caller; its exceptions have a note of the place."""
    with noted(place):
        yield from items


def of_system(failed: OSError, path: StrPath) -> FastpackError:
    """An error of the system about a file."""
    number, text = failed.errno, failed.strerror or str(failed)
    if isinstance(failed, FileNotFoundError):
        return InputNotFoundError(number, text, str(path))
    if isinstance(failed, PermissionError):
        return AccessError(number, text, str(path))
    return StorageError(number, text, str(path))


def _refused(path: StrPath, fault: str, failed: Exception, remedy: str) -> FastpackError:
    text = " ".join(str(failed).split()) or type(failed).__name__
    return FastpackError(f"{path} {fault}: {text}{f'; {remedy}' if remedy else ''}")
