"""Charts as self-contained SVG: histograms, and bars with names."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Bin", "bins", "histogram", "named_bars"]

_WIDTH: Final = 720
_HEIGHT: Final = 190
_LEFT: Final = 8
_TOP: Final = 18
_BOTTOM: Final = 24
_BINS: Final = 40
"""The number of bars of a histogram: as many as are distinct on a phone."""

_NAME_CELLS: Final = 34
"""The most characters of a bar's name."""

_LABELS: Final = 6
"""The approximate number of labels below a histogram."""


class Bin(NamedTuple):
    """The number of values from `low` to below `high`."""

    low: float
    high: float
    values: int


def bins(values: Sequence[float], low: float, high: float, *, whole: bool = False) -> list[Bin]:
    """Counts values in equal ranges; the last range has `high` too. Of whole numbers, no range is narrower than 1."""
    import numpy as np  # noqa: PLC0415  importing fastpack is to cost nothing

    wide = max(high - low, 1e-9)
    count = max(1, min(_BINS, round(wide) if whole else _BINS))
    counts, edges = np.histogram(np.asarray(values, dtype=np.float64), bins=count, range=(low, low + wide))
    return [
        Bin(float(start), float(end), int(found))
        for start, end, found in zip(edges[:-1], edges[1:], counts, strict=True)
    ]


def histogram(
    ranges: Sequence[Bin],
    *,
    title: str,
    unit: str,
    mark: tuple[float, str] | None = None,
    percent: bool = False,
) -> str:
    """A histogram.

    Args:
        ranges: The bars, in order.
        title: The description for screen readers.
        unit: The name of the counted things, for the notes of the bars.
        mark: A number that a line marks, and its name.
        percent: True if the numbers are shares.
    """
    low, high = ranges[0].low, max(ranges[-1].high, mark[0] if mark else ranges[-1].high)
    most = max(1, *(it.values for it in ranges))
    room = _HEIGHT - _TOP - _BOTTOM

    def across(value: float) -> float:
        return _LEFT + (value - low) / max(high - low, 1e-9) * (_WIDTH - 2 * _LEFT)

    def shown(value: float) -> str:
        return f"{value:.0%}" if percent else f"{value:,.0f}"

    parts = []
    for it in ranges:
        if it.values:
            height = max(1.0, it.values / most * room)
            parts.append(
                f'<rect class="bar" x="{across(it.low):.1f}" y="{_TOP + room - height:.1f}" '
                f'width="{max(across(it.high) - across(it.low) - 1, 0.5):.1f}" height="{height:.1f}">'
                f"<title>{shown(it.low)} to {shown(it.high)}: {it.values:,} {html.escape(unit)}</title></rect>"
            )
    base = _TOP + room
    parts.append(f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _LEFT}" y1="{base}" y2="{base}"/>')
    for at in range(_LABELS):
        value = low + (high - low) * at / (_LABELS - 1)
        anchor = "start" if at == 0 else "end" if at == _LABELS - 1 else "middle"
        parts.append(
            f'<text x="{across(value):.1f}" y="{base + 16}" text-anchor="{anchor}">{shown(value)}</text>'
        )
    parts.append(f'<text x="{_LEFT}" y="12">up to {most:,} {html.escape(unit)}</text>')
    if mark:
        place = across(mark[0])
        anchor = "end" if place > _WIDTH / 2 else "start"
        parts.append(f'<line class="mark" x1="{place:.1f}" x2="{place:.1f}" y1="{_TOP}" y2="{base}"/>')
        parts.append(
            f'<text class="mark" x="{place + (-4 if anchor == "end" else 4):.1f}" y="12" text-anchor="{anchor}">'
            f"{html.escape(mark[1])}</text>"
        )
    return _svg(parts, _HEIGHT, title)


def named_bars(pairs: Sequence[tuple[str, float, str]], *, title: str) -> str:
    """Bars with names: each a name, a number, and the text for the number."""
    step, name_room, text_room = 24, 250, 130
    most = max((value for _, value, _ in pairs), default=0.0) or 1.0
    parts = []
    for at, (name, value, text) in enumerate(pairs):
        middle = 8 + at * step
        wide = value / most * (_WIDTH - name_room - text_room)
        short = name if len(name) <= _NAME_CELLS else f"…{name[1 - _NAME_CELLS :]}"
        parts.append(
            f'<text x="{name_room - 8}" y="{middle + 13}" text-anchor="end">{html.escape(short)}</text>'
            f'<rect class="bar" x="{name_room}" y="{middle}" width="{max(wide, 1):.1f}" height="{step - 7}"/>'
            f'<text x="{name_room + max(wide, 1) + 6:.1f}" y="{middle + 13}">{html.escape(text)}</text>'
        )
    return _svg(parts, 12 + step * len(pairs), title)


def _svg(parts: Sequence[str], height: int, title: str) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{html.escape(title, quote=True)}">'
        f"{''.join(parts)}</svg>"
    )
