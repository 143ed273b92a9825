"""Lines for a terminal: their width and colour."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, Final

from fastpack._fastpack import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO

    from fastpack.types import Color

__all__ = ["is_colored", "page", "terminal_width"]

_LABEL: Final = 12
"""The width of a page's labels, in cells: that of the longest label, and a margin."""

_NARROWEST: Final = 40
"""The narrowest width at which values stand next to their labels, in cells; below it they stand under them."""


def terminal_width(out: TextIO | None = None) -> int | None:
    """The width of the terminal in cells; `None` if the output is not a terminal, such as a file."""
    shown = sys.stdout if out is None else out
    try:
        if shown is None or not shown.isatty():
            return None
    except ValueError:  # closed
        return None
    return shutil.get_terminal_size().columns


def is_colored(when: Color, out: TextIO | None = None) -> bool:
    """True if output is coloured: by the given choice, or else on a terminal unless `NO_COLOR` is set."""
    return when == "always" or (
        when == "auto" and terminal_width(out) is not None and not os.environ.get("NO_COLOR")
    )


def page(lines: Iterable[tuple[str, str]]) -> str:
    """A page of labels and values, wrapped at the width of the terminal; file names may hold anything from the input."""
    width = terminal_width()
    return "\n".join(_line(label, one_line(value), width) for label, value in lines)


def _line(label: str, value: str, width: int | None) -> str:
    line = f"{label:<{_LABEL}} {value}"
    if width is None or len(line) <= width:
        return line
    if width < _NARROWEST:
        wrapped = textwrap.fill(
            value.lstrip(),
            max(width, 1),
            initial_indent="  ",
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        return f"{label}\n{wrapped}" if label else wrapped
    inside = len(value) - len(value.lstrip())
    return textwrap.fill(
        value.lstrip(),
        width,
        initial_indent=f"{label:<{_LABEL}} {' ' * inside}",
        subsequent_indent=" " * (_LABEL + 1 + inside + 2),
        break_long_words=False,
        break_on_hyphens=False,
    )
