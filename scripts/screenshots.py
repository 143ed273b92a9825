"""Leaves screenshots of what fastpack shows in `.build/screenshots`: reports, a notebook's cells, the site.

`make screenshots`. Each page is drawn by headless Chromium, in light and in dark, wide and narrow.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import fastpack
from fastpack.dataset.folder import Folder
from fastpack.dataset.row_facts import facts_of
from fastpack.report.display import notebook
from fastpack.report.display.html_page import report_html, row_html, scan_html

ROOT: Final = Path(__file__).parent.parent
PLACE: Final = ROOT / ".build/screenshots"
SITE: Final = ROOT / ".build/site"
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "chrome")

SIZES: Final = {"wide": "1200,2400", "narrow": "420,2400"}
THEMES: Final[dict[str, list[str]]] = {"light": [], "dark": ["--blink-settings=preferredColorScheme=0"]}

COLUMNS: Final = ("input_ids", "labels", "position_ids", "seq_lengths", "source_file", "source_row")

SITE_PAGES: Final = ("index", "start/first-steps", "topics/losses", "reference/options", "reference/api")


def main() -> int:
    """Draws all pages, and returns the exit code."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print("no Chromium on the path; `apt-get install chromium` brings one", file=sys.stderr)
        return 1
    PLACE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for page in [*write_pages(Path(folder)), *(SITE / f"{name}.html" for name in SITE_PAGES)]:
            for theme, flags in THEMES.items():
                for width, size in SIZES.items():
                    draw(browser, page, [*flags, f"--window-size={size}"], f"{page.stem}-{theme}-{width}.png")
    print(f"{len(list(PLACE.glob('*.png')))} screenshots in {PLACE}")
    return 0


def write_pages(folder: Path) -> list[Path]:
    """The pages of a report, a scan and a row, and one of what a notebook shows."""
    files, tokenizer = ROOT / "examples" / "*.jsonl", ROOT / "examples" / "tokenizer"
    report = fastpack.pack_dir(
        files, folder / "packed", tokenizer=tokenizer, max_length=256, columns=COLUMNS, progress=False
    )
    scan = fastpack.scan(files, tokenizer, max_length=[64, 128, 512], progress=False)
    row = fastpack.inspect(folder / "packed", -1)
    cells = [
        notebook.report_fragment(report),
        notebook.row_fragment(row),
        notebook.scan_fragment(scan),
        notebook.tokenizer_fragment(fastpack.Tokenizer(tokenizer)),
    ]
    shown = "<hr>".join(cells)
    pages = {
        "report": report_html(report, facts_of(Folder(folder / "packed"), report)),
        "scan": scan_html(scan),
        "row": row_html(row),
        "notebook": f'<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">{shown}',
    }
    for name, page in pages.items():
        (folder / f"{name}.html").write_text(page, encoding="utf-8")
    return [folder / f"{name}.html" for name in pages]


def draw(browser: str, page: Path, flags: list[str], name: str) -> None:
    """Draws a page into a file."""
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += [f"--user-data-dir={profile}", f"--screenshot={PLACE / name}", *flags, page.as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=120)


if __name__ == "__main__":
    sys.exit(main())
