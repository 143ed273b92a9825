"""Writes the licences of the crates that are linked into the extension: `THIRD_PARTY_LICENSES.txt`, which every wheel holds.

`make licences` writes; with `--check` nothing is written, and a file that would change is an error. The texts are those in
the crates' own folders; a crate without one is named with the terms that its manifest states.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).parent.parent
PLACE: Final = ROOT / "THIRD_PARTY_LICENSES.txt"
ROOT_CRATE: Final = "fastpack-python"

NAMES: Final = ("LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE")
"""The beginnings of the names of licence files."""

CODE: Final = (".rs", ".py", ".toml", ".h", ".c")
"""Suffixes of files that are no terms, whatever their names."""

HEAD: Final = """\
The extension of fastpack holds code of the crates below, each under the terms it states. fastpack itself is under the
Apache License 2.0, in LICENSE. Written by `make licences`.
"""


class Crate(NamedTuple):
    """A crate that is linked in.

    Attributes:
        name: Its name.
        version: Its version.
        terms: The licence in its manifest, an SPDX expression.
        texts: The texts of its terms.
    """

    name: str
    version: str
    terms: str
    texts: tuple[str, ...]


def main() -> int:
    """Writes or checks the file, and returns the exit code."""
    text = page(linked())
    if "--check" not in sys.argv[1:]:
        PLACE.write_text(text, encoding="utf-8")
        return 0
    if not PLACE.exists() or PLACE.read_text(encoding="utf-8") != text:
        sys.stderr.write(f"written by `make licences`, but not up to date: {PLACE.name}\n")
        return 1
    return 0


def linked() -> list[Crate]:
    """The crates of other projects that the extension is made of, build scripts and tests left out."""
    metadata = json.loads(
        subprocess.run(
            [
                "cargo",
                "metadata",
                "--format-version",
                "1",
                "--locked",
                "--offline",
                "--filter-platform",
                TARGET,
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    wanted = [next(key for key, package in packages.items() if package["name"] == ROOT_CRATE)]
    seen: set[str] = set()
    while wanted:
        key = wanted.pop()
        if key not in seen:
            seen.add(key)
            wanted += [it["pkg"] for it in nodes[key]["deps"] if is_linked(it, packages[it["pkg"]])]
    crates = [crate(packages[key]) for key in seen if packages[key]["source"]]
    return sorted(crates)


TARGET: Final = "x86_64-unknown-linux-gnu"
"""The platform whose crates are listed: the others have the same, but for those of their systems."""


def is_linked(dependency: dict[str, Any], package: dict[str, Any]) -> bool:  # type: ignore[explicit-any]  # cargo's JSON
    """True if a dependency ends in the extension: not in a test or a build script, and no macro."""
    kinds = {kind["kind"] for kind in dependency["dep_kinds"]}
    is_macro = any("proc-macro" in target["kind"] for target in package["targets"])
    return None in kinds and not is_macro


def crate(package: dict[str, Any]) -> Crate:  # type: ignore[explicit-any]  # cargo's JSON
    """A crate with the texts in its folder."""
    folder = Path(package["manifest_path"]).parent
    # A crate that holds a library in C has the terms of that in a folder of its own.
    found = [*folder.iterdir(), *folder.glob("*/*")]
    named = [file for file in found if file.name.upper().startswith(NAMES) and file.suffix not in CODE]
    files = sorted(file for file in named if file.is_file())
    texts = tuple(file.read_text(encoding="utf-8", errors="replace").strip() for file in files)
    return Crate(package["name"], package["version"], package["license"] or "see its text", texts)


def page(crates: list[Crate]) -> str:
    """The crates with their terms; then each text once, with the crates that have it."""
    holders: dict[str, list[str]] = {}
    for each in crates:
        for text in each.texts:
            holders.setdefault(" ".join(text.split()), []).append(each.name)
    texts = {" ".join(text.split()): text for each in crates for text in each.texts}
    lines = [HEAD, *(f"{it.name} {it.version}: {it.terms}" for it in crates)]
    for plain, names in holders.items():
        lines += ["", "-" * 80, ", ".join(dict.fromkeys(names)), "-" * 80, texts[plain]]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
