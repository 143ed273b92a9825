"""Counts the instructions of a whole run on one thread, by function: where the time goes, without noise.

    python benches/python/instructions.py [--megabytes 5] [--lines 40] [--seeded]

Valgrind's callgrind does the counting, some fifty times slower than the run itself.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import fastpack._fastpack as native

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from run import cases  # noqa: E402


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=float, default=5, help="size of the corpus (default: 5)")
    parser.add_argument("--lines", type=int, default=40, help="functions to show (default: 40)")
    parser.add_argument("--seeded", action="store_true", help="use the seeded corpus")
    arguments = parser.parse_args()
    if native.build_profile != "release":
        raise SystemExit("the extension is a debug build: `make profile` builds the right one")
    if shutil.which("valgrind") is None:
        raise SystemExit("valgrind is not installed")
    with tempfile.TemporaryDirectory() as scratch:
        for case in cases(Path(scratch), arguments.megabytes, seeded=arguments.seeded):
            counts = Path(scratch) / "counts"
            contender = [sys.executable, str(HERE / "contenders.py"), "fastpack, 1 thread"]
            files = [str(case.corpus), str(case.tokenizer), str(case.template)]
            valgrind = ["valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={counts}"]
            # From the first byte of a run to its last; loading Python and the tokenizer is left out.
            valgrind += ["--collect-atstart=no", "--toggle-collect=*fastpack_core*pipeline*pack_dir*"]
            subprocess.run([*valgrind, *contender, *files], check=True, stdout=subprocess.DEVNULL)
            annotated = subprocess.run(
                ["callgrind_annotate", str(counts)], check=True, capture_output=True, text=True
            )
            print(f"### {case.name}\n")
            print("\n".join(line[:160] for line in annotated.stdout.splitlines()[: arguments.lines + 25]))


if __name__ == "__main__":
    main()
