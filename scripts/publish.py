"""Uploads what lies in `dist/` to the package index, after checks: `TWINE_PASSWORD=pypi-... python scripts/publish.py dist`.

All files must be wheels or the sdist of the version in `Cargo.toml`, and no wheel may lack what `try_built.py` looks for. The
token is read from the environment by twine; so is `TWINE_REPOSITORY`, another index than PyPI.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version
from try_built import problems

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parent.parent

PROJECT: Final = "fastpack-train"

TOKEN: Final = "TWINE_PASSWORD"  # noqa: S105  a name
"""The variable of the environment that twine reads a token from."""


def main() -> int:
    """Checks all files and uploads them, and returns the exit code."""
    files = sorted(path for path in Path(sys.argv[1]).glob("*") if not path.name.startswith("."))
    refused = list(refusals(files))
    if not os.environ.get(TOKEN):
        refused.append(
            f"{TOKEN} is not set: make a token at https://pypi.org/manage/account/token/, and export it"
        )
    for reason in refused:
        print(f"publish: {reason}", file=sys.stderr)
    if refused:
        return 1
    twine = [sys.executable, "-m", "twine"]
    for command in (["check", "--strict"], ["upload", "--non-interactive"]):
        done = subprocess.run(
            [*twine, *command, *map(str, files)],
            check=False,
            env={"TWINE_USERNAME": "__token__", **os.environ},
        )
        if done.returncode:
            return done.returncode
    return 0


def refusals(files: list[Path]) -> Iterator[str]:
    """The reasons not to upload files."""
    found = re.search(r'^version = "(.+)"$', (ROOT / "Cargo.toml").read_text("utf-8"), re.MULTILINE)
    if found is None:
        yield "Cargo.toml names no version"
        return
    version = Version(found[1])
    if not any(path.suffix == ".whl" for path in files):
        yield "there is no wheel in the folder; run `make wheel`, or fetch those of the workflow"
    for path in files:
        try:
            parsed = parse_wheel_filename if path.suffix == ".whl" else parse_sdist_filename
            name, built = parsed(path.name)[:2]
        except (InvalidWheelFilename, InvalidSdistFilename):
            yield f"{path.name} is neither a wheel nor an sdist; remove it"
            continue
        if (name, built) != (PROJECT, version):
            yield f"{path.name} is of {name} {built}, and the project is {PROJECT} {version}; remove it, or build again"
        elif path.suffix == ".whl":
            yield from (f"{path.name} {problem}" for problem in problems(path))


if __name__ == "__main__":
    sys.exit(main())
