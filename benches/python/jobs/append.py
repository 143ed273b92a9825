"""Measures `pack_dir` with `exists="append_rows"` beside the whole job: 1 % new conversations, packed into its folder.

    python benches/python/jobs/append.py [--megabytes 300 1000] [--rounds 5]

Outputs lie in memory. A job is given the tokenizer as a path, which it loads, or loaded.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import fastpack._fastpack as native

HERE = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(HERE.parent), str(HERE)]

from cores import MEMORY, Case, inputs  # noqa: E402
from run import machine  # noqa: E402

import corpus  # noqa: E402

#: The share of new conversations.
NEW = 0.01

#: The script of the measured process.
RUN = """
import json, sys, time
import fastpack
whole, new, out, tokenizer, template, loaded = sys.argv[1:]
encoder = fastpack.Tokenizer(tokenizer) if loaded == "loaded" else tokenizer
options = {"tokenizer": encoder, "max_length": 4096, "chat_template": template, "progress": False}
seconds = []
for files, exists in ((whole, "error"), (new, "append_rows")):
    since = time.perf_counter()
    fastpack.pack_dir(files, out, exists=exists, **options)
    seconds.append(time.perf_counter() - since)
print(json.dumps(seconds))
"""


def measure(files: tuple[Path, Path], model: tuple[Path, str], loaded: str) -> tuple[float, float]:
    """The seconds of the whole job, and of the new conversations behind it."""
    out = Path(tempfile.mkdtemp(dir=MEMORY)) / "out"
    command = [sys.executable, "-c", RUN, *files, out, *model, loaded]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    shutil.rmtree(out.parent)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    whole, new = json.loads(done.stdout.splitlines()[-1])
    return whole, new


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", nargs="+", type=float, default=[300, 1000], help="sizes of the input")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if native.build_profile != "release":
        raise SystemExit("the extension is a debug build: `make bench-append` builds the right one")
    with tempfile.TemporaryDirectory() as scratch:
        print(f"{machine()}, medians of {arguments.rounds} rounds\n", flush=True)
        print("| input MB | tokenizer | the whole job, s | 1 % new conversations, s | share of the whole |")
        print("|---:|---|---:|---:|---:|")
        for megabytes in arguments.megabytes:
            whole, tokenizer, template = inputs(Case(megabytes=megabytes), Path(scratch))
            new = Path(scratch) / f"new {megabytes:.0f}.jsonl"
            corpus.write(new, megabytes=megabytes * NEW, seed=1)
            for loaded in ("loaded", "a path"):
                runs = [measure((whole, new), (tokenizer, template), loaded) for _ in range(arguments.rounds)]
                job, added = (statistics.median(run[at] for run in runs) for at in (0, 1))
                print(
                    f"| {megabytes:,.0f} | {loaded} | {job:.2f} | {added:.3f} | {added / job:.1%} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
