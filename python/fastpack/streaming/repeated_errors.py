"""Repeats after an error of a stream: `renewed` exceptions, and the `RepeatedAnswers` of other ranks."""

from __future__ import annotations

import copy
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_KEPT: Final = 64
"""The number of stored answers: more than the tables that a stream makes ahead."""

__all__ = ["RepeatedAnswers", "is_passing", "renewed"]


def is_passing(raised: BaseException) -> bool:
    """Tells passing errors, after which a stream goes on (an interrupt, a lost connection, too little memory), from lasting ones."""
    return not isinstance(raised, Exception) or isinstance(
        raised, (ConnectionError, TimeoutError, MemoryError)
    )


def renewed(raised: Exception) -> Exception:
    """A new exception with the class, text, attributes, notes and cause of another, and without its traceback.

    An exception that cannot be made again is returned itself.
    """
    for make in (copy.copy, _rebuilt):
        try:
            fresh = make(raised)
            is_same = type(fresh) is type(raised) and str(fresh) == str(raised)
        except Exception:  # noqa: BLE001, S112  the class is the caller's: its own code makes it
            continue
        if is_same and fresh is not raised:
            fresh.__cause__, fresh.__suppress_context__ = raised.__cause__, raised.__suppress_context__
            if notes := getattr(raised, "__notes__", None):
                fresh.__notes__ = list(notes)
            return fresh.with_traceback(None)
    return raised.with_traceback(None)


def _rebuilt(raised: Exception) -> Exception:
    fresh = type(raised).__new__(type(raised), *raised.args)
    fresh.__dict__.update(raised.__dict__)
    return fresh


class RepeatedAnswers:
    """The answers of a function by which ranks agree, kept for a stream that makes its last tables once more.

    The other ranks have called their function once for each table, and this one must not call it again.
    """

    def __init__(self, greatest: Callable[[int], int]) -> None:
        """Asks by `greatest`."""
        self._greatest = greatest
        self._kept: deque[int] = deque(maxlen=_KEPT)
        self._answered = 0
        self._at = 0

    def begin(self, step: int, *, again: bool) -> None:
        """Begins at the table `step`; `again` where the run goes on in this process, and the kept answers are its own."""
        if not again:
            self._kept.clear()
            self._answered = step
        self._at = step

    def __call__(self, number: int) -> int:
        """The greatest number that a rank gave for the next table."""
        behind = self._answered - self._at
        if behind == 0:
            self._kept.append(self._greatest(number))
            self._answered += 1
            behind = 1
        self._at += 1
        return self._kept[-behind]
