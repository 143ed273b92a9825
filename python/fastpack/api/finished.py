"""Tells whether a job had finished in its folder before it was called, so that nothing was done."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeAlias

from fastpack.arguments.urls import is_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastpack.report.report import Report
    from fastpack.types import StrPath

    Mark: TypeAlias = tuple[int, int, int]

__all__ = ["noting_finished"]


def noting_finished(output: StrPath, pack: Callable[[], Report]) -> Report:
    """The report of `pack`, which knows whether the job had finished in `output` before: then its manifest stays the same file."""
    before = _mark(output)
    report = pack()
    report.finished_before = before is not None and _mark(output) == before
    return report


def _mark(output: StrPath) -> Mark | None:
    """The file that is the manifest of a folder of the disk."""
    folder = os.fspath(output)
    if is_url(folder):
        return None
    try:
        found = os.stat(os.path.join(folder, "manifest.json"))  # noqa: PTH116, PTH118  a path may be anything here
    except (OSError, ValueError):
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
