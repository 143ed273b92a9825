"""What `progress=` means: a bar on the terminal, or numbers for a callable."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from fastpack._checks import check_type
from fastpack._types import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

    from fastpack._types import ProgressOption

__all__ = ["NativeProgress", "short", "watcher", "watching"]

_REDRAW_SECONDS = 0.1
"""How often the bar is drawn: as often as an eye can follow."""

_BAR_CELLS = 24
"""Width of the bar: leaves room for the numbers on a line of 80 cells."""


class NativeProgress(Protocol):
    """What the native module calls while it waits."""

    def __call__(
        self, phase: str, bytes_: int, total_bytes: int, documents: int, tokens: int, rows: int, /
    ) -> object:
        """Takes a reading of the counters."""


def watcher(progress: ProgressOption) -> NativeProgress | None:
    """The callback for `progress`: a bar, the caller's own, or none."""
    if callable(progress):
        told = progress
        return lambda *reading: told(Progress(*reading))
    check_type("progress", progress, (bool, type(None)), "True, False or a function of a fastpack.Progress")
    if progress or (progress is None and sys.stderr is not None and sys.stderr.isatty()):
        return _Bar(sys.stderr)
    return None


@contextmanager
def watching(progress: ProgressOption) -> Iterator[NativeProgress | None]:
    """The callback for `progress`; leaves the terminal clean, whatever happens inside."""
    callback = watcher(progress)
    try:
        yield callback
    finally:
        if isinstance(callback, _Bar):
            callback.clear()


class _Bar:
    """One line that is drawn over and over, and wiped at the end: the report says what remains."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._started = time.monotonic()
        self._drawn = 0.0
        self._width = 0

    def __call__(
        self, phase: str, bytes_: int, total_bytes: int, documents: int, tokens: int, rows: int, /
    ) -> None:
        now = time.monotonic()
        if now - self._drawn < _REDRAW_SECONDS:
            return
        self._drawn = now
        self._draw(self._line(Progress(phase, bytes_, total_bytes, documents, tokens, rows), now))

    def clear(self) -> None:
        """Wipes the line."""
        if self._width:
            self._draw("")
            self._out.write("\r")
            self._out.flush()

    def _line(self, at: Progress, now: float) -> str:
        seconds = max(now - self._started, 1e-9)
        done = min(at.bytes / at.total_bytes, 1.0) if at.total_bytes else 0.0
        cells = round(done * _BAR_CELLS)
        numbers = f"{short(at.tokens)} tokens  {short(at.tokens / seconds)}/s"
        if at.rows:
            numbers += f"  {short(at.rows)} rows"
        return f"{at.phase:<8} |{'█' * cells}{'·' * (_BAR_CELLS - cells)}| {done:4.0%}  {numbers}"

    def _draw(self, line: str) -> None:
        self._out.write("\r" + line.ljust(self._width))
        self._out.flush()
        self._width = len(line)


def short(number: float) -> str:
    """A number in at most five characters.

    >>> short(950), short(12_345), short(3_400_000)
    ('950', '12.3k', '3.4M')
    """
    for unit in ("", "k", "M", "G"):
        if number < 1000 or unit == "G":  # noqa: PLR2004  a thousand is a thousand
            return f"{number:.0f}" if unit == "" else f"{number:.1f}{unit}"
        number /= 1000
    raise AssertionError
