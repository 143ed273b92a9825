"""HTML: escaped text, tables, and the style sheet of all pages and fragments."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Final

from fastpack._fastpack import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["STYLE", "escaped", "listed", "section", "table", "tiles", "worded"]

STYLE: Final = """\
.fastpack { --ink: #1b1f24; --faint: #59636e; --line: #d1d9e0; --page: #ffffff; --box: #f6f8fa; --bar: #0b66c3;
  --warn: #9a3412; --trained: #dafbe1; color: var(--ink); background: var(--page);
  overflow-wrap: break-word;
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, sans-serif; }
@media (prefers-color-scheme: dark) { .fastpack { --ink: #e6edf3; --faint: #9aa4af; --line: #3d444d; --page: #0d1117;
  --box: #151b23; --bar: #58a6ff; --warn: #ffa657; --trained: #12402a; } }
.fastpack h1 { font-size: 1.6em; margin: 0 0 .2em; overflow-wrap: anywhere; }
.fastpack h2 { font-size: 1.15em; margin: 2em 0 .5em; border-bottom: 1px solid var(--line); }
.fastpack .faint, .fastpack figcaption { color: var(--faint); font-size: .9em; }
.fastpack .tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5em, 1fr)); gap: .6em; margin: 1em 0; }
.fastpack .tile { background: var(--box); border: 1px solid var(--line); border-radius: 6px; padding: .5em .8em; }
.fastpack .tile b { display: block; font-size: 1.25em; font-weight: 600; }
.fastpack .scroll { overflow-x: auto; }
.fastpack table { border-collapse: collapse; margin: .5em 0; background: none; }
.fastpack th, .fastpack td { text-align: left; padding: .25em .8em .25em 0; border: 0; border-bottom: 1px solid var(--line);
  vertical-align: top; color: inherit; background: none; }
.fastpack th { font-weight: 600; }
.fastpack .n { text-align: right; font-variant-numeric: tabular-nums; }
.fastpack ul.warnings { color: var(--warn); padding-left: 1.2em; }
.fastpack figure { margin: .5em 0 1.5em; overflow-x: auto; }
.fastpack svg { display: block; width: 100%; height: auto; min-width: 480px; max-width: 720px; }
.fastpack svg text { fill: var(--faint); font: 12px system-ui, sans-serif; }
.fastpack svg .bar { fill: var(--bar); } .fastpack svg .axis { stroke: var(--line); }
.fastpack svg .mark { stroke: var(--warn); stroke-dasharray: 4 3; } .fastpack svg text.mark { fill: var(--warn); stroke: none; }
.fastpack pre { background: var(--box); border: 1px solid var(--line); border-radius: 6px; padding: .7em; overflow-x: auto;
  white-space: pre-wrap; overflow-wrap: anywhere; font: 13px/1.45 ui-monospace, Consolas, monospace; color: inherit; }
.fastpack code { font: .9em ui-monospace, Consolas, monospace; color: inherit; background: none; }
.fastpack mark { background: var(--trained); color: inherit; }
"""
"""The style sheet; colours follow the reader's light or dark setting."""

_RIGHT: Final = ' class="n"'

_CODE: Final = re.compile("`([^`]+)`")


def escaped(text: object) -> str:
    """A text of the input, on one line of bounded length, as HTML."""
    return html.escape(one_line(str(text)))


def worded(text: object) -> str:
    """A sentence as HTML: text between back-ticks is code."""
    return _CODE.sub(r"<code>\1</code>", escaped(text))


def section(title: str, *parts: str) -> str:
    """A heading with parts below it; empty without parts."""
    shown = "\n".join(part for part in parts if part)
    return f"<h2>{html.escape(title)}</h2>\n{shown}" if shown else ""


def tiles(pairs: Iterable[tuple[str, str]]) -> str:
    """Large numbers, each with its label."""
    shown = "".join(
        f'<div class="tile"><span class="faint">{escaped(label)}</span><b>{escaped(value)}</b></div>'
        for label, value in pairs
    )
    return f'<div class="tiles">{shown}</div>'


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[int] = ()) -> str:
    """A table; `numbers` are the columns that are right-aligned."""

    def line(kind: str, cells: Sequence[str]) -> str:
        return "".join(
            f"<{kind}{_RIGHT if at in numbers else ''}>{worded(cell)}</{kind}>"
            for at, cell in enumerate(cells)
        )

    body = "".join(f"<tr>{line('td', cells)}</tr>\n" for cells in rows)
    head = f"<thead><tr>{line('th', heads)}</tr></thead>" if heads else ""
    return f'<div class="scroll"><table>{head}<tbody>{body}</tbody></table></div>' if body else ""


def listed(kind: str, items: Iterable[str]) -> str:
    """An HTML list; an empty text if it has no items."""
    shown = "".join(f"<li>{worded(item)}</li>" for item in items)
    return f'<ul class="{kind}">{shown}</ul>' if shown else ""
