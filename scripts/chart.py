"""Writes the chart of README from the measured tables of `benches/results/`.

`make chart` writes; with `--check` nothing is written, and a chart that would change is an error.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parent.parent
RESULTS: Final = ROOT / "benches/results"
CHART: Final = ROOT / "docs/images/ratios.svg"

WIDTH: Final = 760
NAMES: Final = 250
"""Cells left of the bars, for their names."""

STEP: Final = 26
"""Cells from one bar to the next."""

STYLE: Final = """\
text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328 }
.head { font-weight: 600 } .faint { fill: #59636e } .peer { fill: #8c959f } .ours { fill: #0969da }
@media (prefers-color-scheme: dark) { text { fill: #f0f6fc } .faint { fill: #9198a1 } .peer { fill: #6e7681 } .ours { fill: #58a6ff } }"""


class Bar(NamedTuple):
    """A measured speed.

    Attributes:
        name: The name of the measured program.
        ratio: How many times the peer's speed.
        ours: True if it is fastpack's.
    """

    name: str
    ratio: float
    ours: bool = True


def main() -> int:
    """Writes or checks the chart, and returns the exit code."""
    drawn = chart()
    if "--check" not in sys.argv[1:]:
        CHART.write_text(drawn, encoding="utf-8")
        return 0
    if not CHART.exists() or CHART.read_text(encoding="utf-8") != drawn:
        sys.stderr.write("written by `make chart`, but not up to date: docs/images/ratios.svg\n")
        return 1
    return 0


def packing() -> list[Bar]:
    """Real conversations to rows on disk, beside TRL with as many processes."""
    page = (RESULTS / "chats.md").read_text(encoding="utf-8")
    real = page.partition("## Real conversations")[2].partition("\n## ")[0]
    found = re.findall(r"### (\w+):.*?\| fastpack, 2 threads \|([^\n]*)", real, flags=re.DOTALL)
    bars = [Bar(f"fastpack, {name} tokenizer", float(cells.split("|")[3])) for name, cells in found]
    return [Bar("TRL, 2 processes", 1, ours=False), *bars]


def tokenizing() -> list[Bar]:
    """English texts to ids at first sight on one core, beside the crate of Hugging Face."""
    page = (RESULTS / "tokenizer.md").read_text(encoding="utf-8").partition("## Through Python")[0]
    found = re.findall(r"\| ([\w-]+) \| text-en \|[^|]*\| \d+ \((\d+)×\)", page)
    bars = [Bar(f"fastpack, {name} tokenizer", float(ratio)) for name, ratio in found]
    return [Bar("tokenizers (Hugging Face)", 1, ours=False), *bars]


def chart() -> str:
    """The chart: two groups of bars, each beside its peer."""
    groups = [
        ("Chats to packed rows on disk, 2 threads: times the speed of TRL", packing()),
        ("Text to token ids, one core: times the speed of Hugging Face", tokenizing()),
    ]
    most = max(bar.ratio for _, bars in groups for bar in bars)
    parts, top = [], 0
    for title, bars in groups:
        parts.append(f'<text class="head" x="0" y="{top + 16}">{title}</text>')
        top += 26
        for bar in bars:
            wide = max(2.0, bar.ratio / most * (WIDTH - NAMES - 70))
            kind = "ours" if bar.ours else "peer"
            parts.append(
                f'<text x="{NAMES - 10}" y="{top + 14}" text-anchor="end">{bar.name}</text>'
                f'<rect class="{kind}" x="{NAMES}" y="{top + 2}" width="{wide:.1f}" height="{STEP - 9}" rx="2"/>'
                f'<text class="faint" x="{NAMES + wide + 6:.1f}" y="{top + 14}">{bar.ratio:.0f}×</text>'
            )
            top += STEP
        top += 14
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" height="{top}" role="img" '
        f'aria-label="fastpack beside TRL and Hugging Face">\n<style>{STYLE}</style>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


if __name__ == "__main__":
    sys.exit(main())
