"""Looks a wheel or an sdist over, installs it into clean environments of every Python at hand, and packs with it.

`python scripts/try_built.py dist/fastpack_train-*.whl`: of several files, the one that was built last. A wheel must have at most
`LARGEST` bytes and hold its licences and its bill of materials; else the exit code is 1. Where the machine cannot run a wheel,
that is said, and the trial is skipped. An sdist is built with the profile of the tests, and in this repository's `target/`, so
that only fastpack's own crates are compiled.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from packaging.tags import sys_tags
from packaging.utils import parse_wheel_filename

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parent.parent

MINORS: Final = range(10, 15)
"""The minor versions of Python 3 that a wheel is tried on."""

LARGEST: Final = 10_000_000
"""The most bytes of a wheel."""

LICENCES: Final = ("LICENSE", "THIRD_PARTY_LICENSES.txt")
"""The files of a wheel beside the code."""

BILL: Final = ".cyclonedx.json"
"""The ending of a bill of materials, which maturin writes into `sboms/`."""

KEPT_PYTHONS: Final = ("~/.pyenv/versions/*/bin", "~/.local/share/uv/python/*/bin")
"""Folders of Pythons that are not on the path."""

BUILD: Final = {"MATURIN_PEP517_ARGS": "--profile ci --locked", "CARGO_TARGET_DIR": str(ROOT / "target")}

TRIAL: Final = """
import fastpack
table = fastpack.pack_files("examples/chat.jsonl", "examples/tokenizer", max_length=512)
assert fastpack.Report.of(table).documents.kept == 30
print(fastpack.__version__, table.num_rows, "rows")
"""


def main() -> int:
    """Looks at what was built and runs it, and returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("built", nargs="+", type=Path, help="wheels or sdists")
    parser.add_argument("--python", action="append", help="a Python to try it on, in place of all at hand")
    parser.add_argument("--look", action="store_true", help="install it nowhere")
    arguments = parser.parse_args()
    built = max(arguments.built, key=lambda path: path.stat().st_mtime)
    print(f"{built.name}: {built.stat().st_size / 1e6:.1f} MB")
    is_wheel = built.suffix == ".whl"
    wrong = list(problems(built)) if is_wheel else []
    for problem in wrong:
        print(f"{built.name} {problem}", file=sys.stderr)
    if arguments.look:
        return int(bool(wrong))
    if is_wheel and not runs_here(built.name):
        print(
            f"not tried: {built.name} is for another machine than this {platform.system()} {platform.machine()}"
        )
        return int(bool(wrong))
    for python in (arguments.python or pythons()) if is_wheel else [sys.executable]:
        print(f"{python}: {tried(built, python)}")
    return int(bool(wrong))


def problems(wheel: Path) -> Iterator[str]:
    """All that a wheel lacks or has too much of, as ends of sentences."""
    if wheel.stat().st_size > LARGEST:
        yield f"has {wheel.stat().st_size:,} bytes, and may have {LARGEST:,}; strip it, or leave a dependency out"
    with zipfile.ZipFile(wheel) as held:
        names = held.namelist()
        bills = [name for name in names if ".dist-info/sboms/" in name and name.endswith(BILL)]
        parts = [json.loads(held.read(bill)).get("components") for bill in bills]
    for licence in LICENCES:
        if not any(name.rpartition("/")[2] == licence for name in names):
            yield f"lacks {licence}"
    if not any(parts):
        has = "one that lists no component" if bills else "none"
        yield f"lacks its bill of materials (`sboms/*{BILL}`): it has {has}; build it with `make wheel`"


def runs_here(name: str) -> bool:
    """True if a wheel of this name can be installed on this machine."""
    *_, tags = parse_wheel_filename(name)
    return not tags.isdisjoint(sys_tags())


def pythons() -> list[str]:
    """Every Python at hand that a wheel is tried on, the oldest first; says which are not found."""
    found = {}
    folders = [
        *os.get_exec_path(),
        *(str(path) for kept in KEPT_PYTHONS for path in sorted(Path.home().glob(kept.removeprefix("~/")))),
    ]
    for minor in MINORS:
        for folder in folders:
            name = shutil.which(f"python3.{minor}", path=folder)
            # A shim of pyenv is there for a version that is not chosen, and fails.
            if name and subprocess.run([name, "-c", ""], check=False, capture_output=True).returncode == 0:
                found[minor] = name
                break
    if sys.version_info[1] in MINORS:
        found.setdefault(sys.version_info[1], sys.executable)
    missing = ", ".join(f"3.{minor}" for minor in MINORS if minor not in found)
    if missing:
        print(f"not tried: no Python {missing} on this machine")
    return [found[minor] for minor in sorted(found)]


def tried(built: Path, python: str) -> str:
    """Installs what was built into a new environment of a Python, packs with it, and returns what that printed."""
    with tempfile.TemporaryDirectory() as folder:
        # A PYTHONPATH of the caller would show this repository's own package.
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        subprocess.run([python, "-m", "venv", folder], check=True, env=clean)
        inside = Path(folder) / ("Scripts" if os.name == "nt" else "bin")
        install: list[str | Path] = [inside / "python", "-m", "pip", "install", "--quiet", built]
        subprocess.run(install, check=True, env=clean if built.suffix == ".whl" else clean | BUILD)
        done = subprocess.run(
            [inside / "python", "-c", TRIAL],
            cwd=ROOT,
            check=True,
            env=clean,
            stdout=subprocess.PIPE,
            text=True,
        )
        subprocess.run([inside / "fastpack", "--version"], check=True, env=clean, stdout=subprocess.DEVNULL)
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
