"""Writing a result to stdout: as a page, or as JSON."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

import fastpack
from fastpack.errors import StorageError
from fastpack.report.display.pages import stage_lines
from fastpack.report.display.rows import row_page
from fastpack.report.display.terminal import is_colored

if TYPE_CHECKING:
    from fastpack.dataset.inspection import PackedRow
    from fastpack.report.report import Report
    from fastpack.report.scan import ScanReport
    from fastpack.types import Color, JsonValue

__all__ = ["ShownReport", "ShownRow", "write"]


class ShownReport(NamedTuple):
    """A report or a scan, with the times of its stages if they are wanted, and the command that comes next."""

    report: Report | ScanReport
    stages: bool = False
    following: str = ""

    def to_dict(self) -> dict[str, JsonValue]:
        """The report as JSON values."""
        return self.report.to_dict()

    def __str__(self) -> str:
        """The page; the command stands on one line, to be copied."""
        stages = stage_lines(self.report) if self.stages and isinstance(self.report, fastpack.Report) else ""
        following = f"next         {self.following}" if self.following else ""
        return "\n".join(part for part in (str(self.report), stages, following) if part)


class ShownRow(NamedTuple):
    """A packed row, with its colour and text settings."""

    row: PackedRow
    color: Color
    ids: bool

    def to_dict(self) -> dict[str, JsonValue]:
        """The row as JSON values."""
        return self.row.to_dict()

    def __str__(self) -> str:
        """The row as text."""
        return row_page(self.row, color=is_colored(self.color), ids=self.ids)


def write(shown: object, *, as_json: bool) -> None:
    """Writes to stdout. After an error stdout goes to the null device, so that the flush at exit does not fail too."""
    text = _json(shown) if as_json else str(shown)
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except OSError as failed:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(failed, BrokenPipeError):
            raise
        raise StorageError(failed.errno, failed.strerror, "standard output") from failed


_UNSHOWN: Final = re.compile(r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that JSON may hold as they are, and that a terminal does not show: control characters beyond ASCII and marks
that change the direction of text."""


def _json(shown: object) -> str:
    """The result as JSON. Characters that a terminal would obey are escaped, which is the same value."""
    values, indent = shown, None
    if hasattr(shown, "to_dict"):
        values, indent = shown.to_dict(), 2
    elif hasattr(shown, "_asdict"):
        values, indent = shown._asdict(), 2
    text = json.dumps(values, indent=indent, ensure_ascii=False)
    return _UNSHOWN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
