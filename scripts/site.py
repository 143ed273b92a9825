"""The pages of the site that lie outside of `docs/`, links that lead to them, and the tables of options, for `mkdocs`."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mkdocs.structure.files import File, Files
from options_page import PLACE, tables

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parent.parent

ELSEWHERE: Final = {
    "README.md": "index.md",
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "LICENSE": "LICENSE.txt",
    **{f"benches/results/{page.name}": f"results/{page.name}" for page in ROOT.glob("benches/results/*.md")},
    **{f"examples/{file.name}": f"examples/{file.name}" for file in ROOT.glob("examples/*.*")},
}
"""The places on the site of files of the repository, by their paths in the repository."""

LINK: Final = re.compile(r"(\]\()([^)#\s]+)(#[^)\s]*)?(\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the files that lie outside of `docs/`."""
    for place, name in ELSEWHERE.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / place)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Makes links that are right in the repository right on the site, and puts the tables of options into their page."""
    if page.file.src_uri == "reference/options.md":
        markdown = markdown[: markdown.index(PLACE)] + tables()
    here = {name: place for place, name in ELSEWHERE.items()}.get(
        page.file.src_uri, f"docs/{page.file.src_uri}"
    )

    def moved(found: re.Match[str]) -> str:
        opening, target, anchor, closing = found.groups()
        if "://" in target or target.startswith("mailto:"):
            return found[0]
        place = posixpath.normpath(posixpath.join(posixpath.dirname(here), target))
        name = ELSEWHERE.get(place, place.removeprefix("docs/"))
        start = posixpath.dirname(page.file.src_uri)
        return f"{opening}{posixpath.relpath(name, start or '.')}{anchor or ''}{closing}"

    return LINK.sub(moved, markdown)
