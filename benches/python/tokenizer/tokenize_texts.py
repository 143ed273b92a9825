"""Measures fastpack's engine, through Python and without, beside Hugging Face, gigatoken and fastokens, in one run.

    python benches/python/tokenizer/tokenize_texts.py [--megabytes 40] [--rounds 3] [--tokenizer NAME ...]

Real tokenizers and texts are used where `$FASTPACK_DATA` (or `../shared/data` beside the checkout) has them; else
a small tokenizer is trained on the seeded corpus. The families that have no published tokenizer there are trained on the
texts.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import fastpack._fastpack as native

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent), str(HERE)]

from engines import ENGINES  # noqa: E402
from families import train_families  # noqa: E402
from run import data, head, machine, train  # noqa: E402

import corpus  # noqa: E402

TOKENIZERS = ["llama3", "qwen", "gpt2", "o200k", "mistral-v1", "bert"]
CORPORA = ["text-en", "text-multi", "chat"]
REFERENCE = "tokenizers"

ALONE = "fastpack, the crate"
"""The engine without Python, which is another program."""

CARGO = ["cargo", "bench", "--quiet", "--locked", "-p", "fastpack-tokenize", "--bench", "alone"]


def measure(engine: str, tokenizer: Path, texts: Path, threads: int) -> dict[str, float] | str:
    """Run one engine once; what it says where it cannot."""
    if engine == ALONE:
        return measure_alone(tokenizer, texts, threads)
    command = [sys.executable, str(HERE / "engines.py"), engine, str(tokenizer), str(texts), str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return done.stderr.strip().splitlines()[-1][:60]
    return json.loads(done.stdout.splitlines()[-1])


def measure_alone(tokenizer: Path, texts: Path, threads: int) -> dict[str, float]:
    """Run the crate once, pinned as the engines are."""
    core = ["taskset", "-c", str(max(os.sched_getaffinity(0)))] if threads == 1 else []
    ids = texts.with_suffix(".ids")
    command = [*core, *CARGO, "--", str(tokenizer), str(texts), str(threads), str(ids)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=HERE.parents[2])
    digest = hashlib.blake2b(ids.read_bytes()).hexdigest()
    return {**json.loads(done.stdout.splitlines()[-1]), "digest": digest}


def cell(runs: list[dict[str, float]], reference: list[dict[str, float]], name: str) -> str:
    """MB/s, and the ratio to Hugging Face in the same run."""
    speed = statistics.median(run[name] for run in runs)
    return f"{speed:.0f} ({speed / statistics.median(run[name] for run in reference):.0f}×)"


def load(runs: list[dict[str, float]]) -> str:
    """The time of loading, in milliseconds."""
    return f"{statistics.median(run['load'] for run in runs) * 1e3:.0f}"


def rows(tokenizer: Path, name: str, texts: Path, rounds: int) -> list[str]:
    """Measure all engines in turn; a line of the table each."""
    measured: dict[tuple[str, int], list[dict[str, float]]] = {}
    refused: dict[str, str] = {}
    for _ in range(rounds):
        for engine in (*ENGINES, ALONE):
            for threads in (1, 2):
                if engine in refused or (engine == REFERENCE and threads == 2):
                    continue
                run = measure(engine, tokenizer, texts, threads)
                if isinstance(run, str):
                    refused[engine] = run
                else:
                    measured.setdefault((engine, threads), []).append(run)
    reference = measured[REFERENCE, 1]
    lines = []
    for engine in (*ENGINES, ALONE):
        if engine in refused:
            lines.append(f"| {name} | {texts.stem} | {engine} | refuses: {refused[engine]} | | | | |")
            continue
        one, two = measured[engine, 1], measured.get((engine, 2))
        same = "same" if one[0]["digest"] == reference[0]["digest"] else "**differ**"
        if two is None:
            cold, held_out = (
                f"{statistics.median(run[part] for run in one):.2f}" for part in ("cold", "held_out")
            )
            lines.append(
                f"| {name} | {texts.stem} | {engine} | {cold} | {held_out} | | {load(one)} | {same} |"
            )
            continue
        lines.append(
            f"| {name} | {texts.stem} | {engine} | {cell(one, reference, 'cold')} "
            f"| {cell(one, reference, 'held_out')} | {cell(two, reference, 'held_out')} | {load(two)} | {same} |"
        )
    return lines


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=float, default=40, help="size of a corpus (default: 40)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each engine (default: 3)")
    parser.add_argument("--tokenizer", nargs="+", default=TOKENIZERS, help="which of the real tokenizers")
    arguments = parser.parse_args()
    if native.build_profile != "release":
        raise SystemExit("the extension is a debug build: `make bench-tokenize` builds the right one")
    print(f"{machine()}, medians of {arguments.rounds} rounds in turn\n")
    print("| tokenizer | texts | engine | cold MB/s | held out MB/s | 2 threads MB/s | load ms | ids |")
    print("|---|---|---|---:|---:|---:|---:|---|", flush=True)
    subprocess.run([*CARGO, "--no-run"], check=True, cwd=HERE.parents[2])
    shared = data()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        if shared is None:
            texts = scratch / "seeded.jsonl"
            corpus.write(texts, megabytes=arguments.megabytes, seed=0)
            cases = [(train(texts, scratch / "tokenizer") / "tokenizer.json", "trained", texts)]
        else:
            parts = [
                head(shared / "corpora" / f"{part}.jsonl", scratch / f"{part}.jsonl", arguments.megabytes)
                for part in CORPORA
            ]
            cases = [
                (shared / "tokenizers" / chosen / "tokenizer.json", chosen, part)
                for chosen in arguments.tokenizer
                for part in parts
            ]
            if arguments.tokenizer == TOKENIZERS:
                trained = train_families(parts[:2], scratch)
                cases += [(path, name, part) for name, path in trained for part in parts[:2]]
        for tokenizer, chosen, texts in cases:
            print("\n".join(rows(tokenizer, chosen, texts, arguments.rounds)), flush=True)


if __name__ == "__main__":
    main()
