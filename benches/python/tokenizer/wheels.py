"""Compares what fastpack renders with what transformers renders, for every chat template in public wheels.

    python benches/python/tokenizer/wheels.py [trl axolotl unsloth]

The wheels are downloaded, without what they depend on, and thrown away: no template of theirs enters the repository.
Ends with 1 if a text differs. What is refused is listed by template, once for each reason.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections import Counter
from pathlib import Path

sys.path[:0] = [*map(str, (Path(__file__).resolve().parents[3] / "tests" / "python").glob("support/**/"))]

from template_helpers import CONVERSATIONS, outcome  # noqa: E402

WHEELS = ["trl", "axolotl", "unsloth"]


def download(name: str, folder: Path) -> Path:
    """Fetch the newest wheel of a package."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    subprocess.run([*command, "--dest", str(folder), name], check=True)
    [wheel] = folder.glob("*.whl")
    return wheel


def templates(wheel: Path) -> dict[str, str]:
    """The templates in a wheel by name: files of Jinja that speak of messages."""
    with zipfile.ZipFile(wheel) as archive:
        names = sorted(name for name in archive.namelist() if name.endswith(".jinja"))
        sources = {Path(name).stem: archive.read(name).decode() for name in names}
    return {name: source for name, source in sources.items() if "messages" in source}


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wheels", nargs="*", default=WHEELS, help="names of packages")
    warnings.simplefilter("ignore")
    kinds = ["identical", "DIFFERENT", "both refuse", "no conversation", "refused"]
    print(f"| wheel | templates | {' | '.join(kinds)} |\n|---|{'---:|' * (len(kinds) + 1)}")
    problems, differs = Counter[str](), False
    for package in parser.parse_args().wheels:
        with tempfile.TemporaryDirectory() as folder:
            wheel = download(package, Path(folder))
            sources = templates(wheel)
        counts = Counter[str]()
        for name, source in sources.items():
            for title, record in CONVERSATIONS.items():
                kind, reason = outcome(source, record)
                if kind == "refused" and reason.startswith("`messages["):
                    kind = "no conversation"
                counts[kind] += 1
                if kind == "DIFFERENT":
                    problems[f"{name}, {title}: {reason}"] += 1
                elif kind == "refused":
                    problems[f"{name}: {reason}"] += 1
        differs |= counts["DIFFERENT"] > 0
        row = " | ".join(f"{counts[kind]:,}" for kind in kinds)
        print(f"| {'-'.join(wheel.name.split('-')[:2])} | {len(sources)} | {row} |", flush=True)
    for problem, times in problems.items():
        print(f"{times} × {problem}")
    sys.exit(differs)


if __name__ == "__main__":
    main()
