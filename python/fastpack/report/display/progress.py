"""Progress bars: a line on a terminal, and a cell of a notebook."""

from __future__ import annotations

import html
import sys
import time
from typing import TYPE_CHECKING, Final, Protocol

from fastpack.report.display.terminal import terminal_width

if TYPE_CHECKING:
    from typing import TextIO

    from fastpack.types import Progress

__all__ = ["Bar", "NotebookBar", "TerminalBar", "in_notebook", "left", "short"]

_REDRAW_SECONDS: Final = 0.1
"""The interval at which a terminal's line is redrawn, in seconds: as often as an eye can follow."""

_NOTEBOOK_SECONDS: Final = 0.5
"""The interval at which a notebook's cell is redrawn, in seconds: each redraw is a message to a browser."""

_BAR_CELLS: Final = 24
"""The width of a terminal's bar, in cells: leaves room for the numbers on a line of 80 cells."""

_FORESEEN: Final = 0.02
"""The share of the input after which the time left is shown: earlier estimates are unstable."""


class Bar(Protocol):
    """A progress bar that is redrawn."""

    def show(self, at: Progress) -> None:
        """Draws the bar, if its interval has passed."""

    def clear(self) -> None:
        """Removes the bar."""


class TerminalBar:
    """One line of a terminal that is redrawn, and cleared at the end."""

    def __init__(self, out: TextIO) -> None:
        """Takes the stream of a terminal."""
        self._out = out
        self._started = time.monotonic()
        self._drawn = 0.0
        self._width = 0

    def show(self, at: Progress) -> None:
        """Draws the line, if its interval has passed."""
        now = time.monotonic()
        if now - self._drawn < _REDRAW_SECONDS:
            return
        self._drawn = now
        done, numbers = _reading(at, now - self._started)
        cells = round(done * _BAR_CELLS)
        self._draw(f"{at.phase:<8} |{'█' * cells}{'·' * (_BAR_CELLS - cells)}| {done:4.0%}  {numbers}")

    def clear(self) -> None:
        """Clears the line."""
        if self._width:
            self._draw("")
            self._out.write("\r")
            self._out.flush()

    def _draw(self, line: str) -> None:
        room = (terminal_width(self._out) or len(line) + 1) - 1
        shown = line[:room]
        self._out.write("\r" + shown.ljust(self._width))
        self._out.flush()
        self._width = len(shown)


class NotebookBar:
    """The output of a notebook cell that is redrawn, and removed at the end."""

    def __init__(self) -> None:
        """Makes a bar that is not shown yet."""
        from IPython.display import display  # noqa: PLC0415  there in a notebook alone

        self._handle = display(_NotebookHtml(""), display_id=True)  # type: ignore[no-untyped-call]  # as IPython has it
        self._started = time.monotonic()
        self._drawn = 0.0

    def show(self, at: Progress) -> None:
        """Draws the bar, if its interval has passed."""
        now = time.monotonic()
        if now - self._drawn < _NOTEBOOK_SECONDS or self._handle is None:
            return
        self._drawn = now
        done, numbers = _reading(at, now - self._started)
        bar = f'<progress value="{done:.3f}" max="1" style="width:20em;vertical-align:middle"></progress>'
        self._handle.update(
            _NotebookHtml(
                f"<div>{html.escape(at.phase)} {bar} {done:.0%} &nbsp; {html.escape(numbers)}</div>"
            )
        )

    def clear(self) -> None:
        """Removes the bar."""
        if self._handle is not None:
            self._handle.update(_NotebookHtml(""))


class _NotebookHtml:
    """HTML for a notebook."""

    def __init__(self, text: str) -> None:
        self._text = text

    def _repr_html_(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return ""


def in_notebook() -> bool:
    """True if this process is the kernel of a notebook, by the class of the `IPython` shell."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


def _reading(at: Progress, seconds: float) -> tuple[float, str]:
    """The share that is done, and the numbers next to the bar."""
    passed = max(seconds, 1e-9)
    done = min(at.bytes / at.total_bytes, 1.0) if at.total_bytes else 0.0
    numbers = f"{short(at.tokens)} tokens  {short(at.tokens / passed)}/s"
    if at.rows:
        numbers += f"  {short(at.rows)} rows"
    if _FORESEEN <= done < 1:
        numbers += f"  {left(passed * (1 - done) / done)} left"
    return done, numbers


def left(seconds: float) -> str:
    """A time as a clock shows it.

    >>> left(42), left(3 * 60 + 5), left(2 * 3600 + 70)
    ('0:42', '3:05', '2:01:10')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


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
