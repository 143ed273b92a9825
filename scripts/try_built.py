"""Installs a wheel or an sdist into clean environments, on the oldest and the newest Python at hand, and packs with it.

`python scripts/try_built.py dist/fastpack_train-*.whl`: says how large it is and which Pythons it ran on. An sdist is built
with the profile of the tests, and in this repository's `target/`, so that only fastpack's own crates are compiled.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent

MINORS: Final = range(10, 20)
"""The minor versions of Python that are looked for, from the oldest that fastpack runs on."""

WANTED: Final = ("LICENSE", "THIRD_PARTY_LICENSES.txt", "sboms/")
"""The files of a wheel beside the code."""

BUILD: Final = {"MATURIN_PEP517_ARGS": "--profile ci --locked", "CARGO_TARGET_DIR": str(ROOT / "target")}

TRIAL: Final = """
import fastpack
table = fastpack.pack_files("examples/chat.jsonl", "examples/tokenizer", max_length=512)
assert fastpack.Report.of(table).documents.kept == 30
print(fastpack.__version__, table.num_rows, "rows")
"""


def main() -> int:
    """Looks at what was built and runs it, and returns the exit code."""
    built = max(map(Path, sys.argv[1:]), key=lambda path: path.stat().st_mtime)
    print(f"{built.name}: {built.stat().st_size / 1e6:.1f} MB")
    if built.suffix == ".whl":
        with zipfile.ZipFile(built) as held:
            largest = max(held.infolist(), key=lambda entry: entry.file_size)
            missing = [name for name in WANTED if not any(name in entry for entry in held.namelist())]
        print(f"{largest.filename}: {largest.file_size / 1e6:.1f} MB")
        if missing:
            print(f"{built.name} lacks {', '.join(missing)}", file=sys.stderr)
            return 1
    for python in pythons() if built.suffix == ".whl" else [sys.executable]:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([python, "-m", "venv", folder], check=True)
            inside = Path(folder) / "bin"
            environment = os.environ if built.suffix == ".whl" else os.environ | BUILD
            install: list[str | Path] = [inside / "python", "-m", "pip", "install", "--quiet", built]
            subprocess.run(install, check=True, env=environment)
            done = subprocess.run(
                [inside / "python", "-c", TRIAL], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
            )
            subprocess.run([inside / "fastpack", "--version"], check=True, stdout=subprocess.DEVNULL)
        print(f"{python}: {done.stdout.strip()}")
    return 0


def pythons() -> list[str]:
    """The oldest and the newest Python at hand that runs."""
    named = (shutil.which(f"python3.{minor}") for minor in MINORS)
    found = [
        name
        for name in named
        if name and subprocess.run([name, "-c", ""], check=False, capture_output=True).returncode == 0
    ]
    return list(dict.fromkeys([found[0], found[-1]])) if found else [sys.executable]


if __name__ == "__main__":
    sys.exit(main())
