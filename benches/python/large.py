"""Measures `pack_dir` on inputs larger than its memory budget: seconds, and the peak memory of the process.

    python benches/python/large.py [--megabytes 2000] [--repeat 1] [--memory 100MB] [--folder /tmp]

The input is a real corpus, over and over, with a number in front of each text, so that no two are the same; a seeded
one where there is none.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import fastpack._fastpack as native

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE.parent)]

import corpus  # noqa: E402

#: The script of the measured process.
RUN = """
import json, sys, time
import fastpack
files, repeat, out, tokenizer, memory, max_length = sys.argv[1:]
tokenizer = fastpack.Tokenizer(tokenizer)
started = time.perf_counter()
report = fastpack.pack_dir(
    [{"path": files, "repeat": int(repeat)}],
    output=out,
    tokenizer=tokenizer,
    max_length=int(max_length),
    memory=memory,
    columns=["input_ids"],
)
seconds = time.perf_counter() - started
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({
    "seconds": seconds,
    "peak": int(status["VmHWM"].split()[0]) * 1024,
    "tokens": report.tokens.read,
    "rows": report.rows,
    "stages": {name: time.wall for name, time in report.stages.items()},
}))
"""


def write(path: Path, megabytes: float, source: Path) -> None:
    """Write texts of `source`, numbered, until there are so many megabytes."""
    left = int(megabytes * 1e6)
    number = 0
    with path.open("wb", buffering=1 << 20) as file:
        while left > 0:
            with source.open("rb") as lines:
                for line in lines:
                    # The field is opened by `{"text": "`, behind which the number goes.
                    numbered = line.replace(b'": "', b'": "%d ' % number, 1)
                    file.write(numbered)
                    left -= len(numbered)
                    number += 1
                    if left <= 0:
                        break


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=float, default=2000, help="size of the input (default: 2000)")
    parser.add_argument("--repeat", type=int, default=1, help="how often it is read (default: 1)")
    parser.add_argument("--memory", nargs="+", default=["100MB", "16GB"], help="budgets, a run each")
    parser.add_argument("--max-length", type=int, default=4096, help="tokens of a row (default: 4096)")
    parser.add_argument("--folder", type=Path, help="where there is room")
    arguments = parser.parse_args()
    if native.build_profile != "release":
        raise SystemExit("the extension is a debug build: `make bench` builds the right one")
    shared = Path(os.environ.get("FASTPACK_DATA", ROOT.parent / "shared" / "data"))
    with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
        source, tokenizer = shared / "corpora" / "text-en.jsonl", shared / "tokenizers" / "llama3"
        if not source.exists():
            source, tokenizer = Path(scratch) / "seeded.jsonl", ROOT / "examples" / "tokenizer"
            corpus.write(source, megabytes=30, seed=0)
        files, out = Path(scratch) / "files.jsonl", Path(scratch) / "out"
        write(files, arguments.megabytes, source)
        print("| budget | input MB | Mtok | rows | seconds | MB/s | peak MB | gather MB/s |")
        print("|---|---:|---:|---:|---:|---:|---:|---:|")
        for memory in arguments.memory:
            command = [
                sys.executable,
                "-c",
                RUN,
                files,
                arguments.repeat,
                out,
                tokenizer,
                memory,
                arguments.max_length,
            ]
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise SystemExit(done.stderr)
            run = json.loads(done.stdout)
            size = arguments.repeat * files.stat().st_size / 1e6
            gathered = run["stages"]["gather"]
            # Documents in memory are not read back: looking them up takes microseconds.
            speed = f"{run['tokens'] * 4 / 1e6 / gathered:.0f}" if gathered > 0.01 else ""
            print(
                f"| {memory} | {size:.0f} | {run['tokens'] / 1e6:.0f} | {run['rows']:,} | {run['seconds']:.1f} "
                f"| {size / run['seconds']:.0f} | {run['peak'] / 1e6:.0f} "
                f"| {speed} |",
                flush=True,
            )
            shutil.rmtree(out)


if __name__ == "__main__":
    main()
