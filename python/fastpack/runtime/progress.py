"""The `progress=` option: a bar on the terminal or in a notebook, or numbers for a callable."""

from __future__ import annotations

import functools
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from fastpack.arguments.checks import check_type
from fastpack.arguments.failures import noted
from fastpack.types import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fastpack.report.display.progress import Bar
    from fastpack.types import ProgressOption

__all__ = ["NativeProgress", "watcher", "watching"]


class NativeProgress(Protocol):
    """The callback that the native module calls while it waits."""

    def __call__(
        self, phase: str, bytes_: int, total_bytes: int, documents: int, tokens: int, rows: int, /
    ) -> object:
        """Takes a reading of the counters."""


class _ProgressCallback:
    """Adapts a bar to the callback of the native module."""

    def __init__(self, bar: Bar) -> None:
        self._bar = bar

    def __call__(
        self, phase: str, bytes_: int, total_bytes: int, documents: int, tokens: int, rows: int, /
    ) -> None:
        self._bar.show(Progress(phase, bytes_, total_bytes, documents, tokens, rows))

    def clear(self) -> None:
        """Removes the bar."""
        self._bar.clear()


def watcher(progress: ProgressOption) -> NativeProgress | None:
    """The callback for `progress`: a bar, the caller's own, or none."""
    if callable(progress):
        return functools.partial(_call_progress, progress)
    check_type("progress", progress, (bool, type(None)), "True, False or a function of a fastpack.Progress")
    if progress is False:
        return None
    from fastpack.report.display.progress import NotebookBar, TerminalBar, in_notebook  # noqa: PLC0415  where one is drawn

    if in_notebook():
        return _ProgressCallback(NotebookBar())
    if sys.stderr is not None and (progress or sys.stderr.isatty()):
        return _ProgressCallback(TerminalBar(sys.stderr))
    return None


def _call_progress(progress: Callable[[Progress], object], *reading: str | int) -> None:
    """Tells a function of the caller's a reading of the counters."""
    with noted("while fastpack called `progress`"):
        progress(Progress(*reading))  # type: ignore[arg-type]  # as `NativeProgress` has them


@contextmanager
def watching(progress: ProgressOption) -> Iterator[NativeProgress | None]:
    """The callback for `progress`; removes the bar at the end, also after an error."""
    callback = watcher(progress)
    try:
        yield callback
    finally:
        if isinstance(callback, _ProgressCallback):
            callback.clear()
