"""Measures how much of the engine's speed is left from lines of text to rows, in memory and on disk, in one run.

    python benches/python/texts.py [--megabytes 40] [--rounds 5] [--threads 2]

Real texts and tokenizers are used where `$FASTPACK_DATA` (or `../shared/data` beside the checkout) has them; else a
small tokenizer is trained on the seeded corpus. Each measurement has a tokenizer that has seen nothing.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import fastpack
import fastpack._fastpack as native

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from run import data, head, machine, train  # noqa: E402

import corpus  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_LENGTH = 4096
TOKENIZERS = ["llama3", "qwen"]
CORPORA = ["text-en", "text-multi"]


def text_of(line: str) -> str:
    """The text of a record; what a conversation says, one message a line."""
    record = json.loads(line)
    return record["text"] if "text" in record else "\n".join(it["content"] for it in record["messages"])


def texts_of(lines: Path, to: Path) -> Path:
    """The records as texts."""
    with lines.open(encoding="utf-8") as source, to.open("w", encoding="utf-8") as out:
        for line in source:
            out.write(json.dumps({"text": text_of(line)}) + "\n")
    return to


def seconds(work: Callable[[], object]) -> float:
    """The time of a call."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def measure(tokenizer: Path, lines: Path, out: Path, rounds: int, threads: int) -> str:
    """Encode the texts, pack them into memory and into a folder, in turn; a line of the table."""
    texts = pa.array([json.loads(line)["text"] for line in lines.open(encoding="utf-8")])
    size = sum(len(text.encode()) for text in texts.to_pylist())
    taken: dict[str, list[float]] = {
        name: [] for name in ("engine", "memory", "folder", "in order", "parse", "behind")
    }
    for _ in range(rounds):
        fresh = [fastpack.Tokenizer(tokenizer, threads=threads) for _ in range(4)]
        taken["engine"].append(seconds(partial(fresh[0].encode_batch, texts, add_special_tokens=False)))
        taken["memory"].append(
            seconds(partial(fastpack.pack_files, lines, fresh[1], max_length=MAX_LENGTH, threads=threads))
        )
        for name, tokenizer_of, strategy in (("in order", fresh[3], "concat"), ("folder", fresh[2], "mix")):
            shutil.rmtree(out, ignore_errors=True)
            started = time.perf_counter()
            report = fastpack.pack_dir(
                lines,
                out,
                tokenizer=tokenizer_of,
                max_length=MAX_LENGTH,
                threads=threads,
                format="arrow",
                strategy=strategy,
            )
            taken[name].append(time.perf_counter() - started)
        stages = report.stages
        taken["parse"].append(lines.stat().st_size / 1e6 / stages["parse"].cpu)
        # Planning is on one thread, and assembling goes on beside writing.
        behind = stages["plan"].wall + stages["gather"].wall
        behind += max(stages["write"].wall, stages["assemble"].wall / threads)
        taken["behind"].append(behind / taken["folder"][-1])
    of = {name: statistics.median(them) for name, them in taken.items()}
    speeds = [f"{size / of['engine'] / 1e6:.0f}"]
    speeds += [
        f"{size / of[name] / 1e6:.0f} ({of['engine'] / of[name]:.2f})"
        for name in ("memory", "folder", "in order")
    ]
    return " | ".join([*speeds, f"{of['behind']:.0%}", f"{of['parse']:,.0f}"])


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=float, default=40, help="size of a corpus (default: 40)")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each (default: 5)")
    parser.add_argument("--threads", type=int, default=2, help="worker threads (default: 2)")
    arguments = parser.parse_args()
    if native.build_profile != "release":
        raise SystemExit("the extension is a debug build: `make bench-texts` builds the right one")
    print(f"{machine()}, {arguments.threads} threads, medians of {arguments.rounds} rounds in turn\n")
    print(
        "| tokenizer | texts | engine, MB/s | to rows in memory | to rows on disk | by `concat` | behind, of wall | parse, MB/s a core |"
    )
    print("|---|---|---:|---:|---:|---:|---:|---:|", flush=True)
    shared = data()
    with tempfile.TemporaryDirectory(dir=HERE.parents[1]) as name:
        scratch = Path(name)
        if shared is None:
            lines = scratch / "chats.jsonl"
            corpus.write(lines, megabytes=arguments.megabytes, seed=0)
            cases = [
                ("trained", train(lines, scratch / "tokenizer"), texts_of(lines, scratch / "seeded.jsonl"))
            ]
        else:
            parts = [
                head(shared / "corpora" / f"{part}.jsonl", scratch / f"{part}.jsonl", arguments.megabytes)
                for part in CORPORA
            ]
            cases = [
                (chosen, shared / "tokenizers" / chosen, part) for chosen in TOKENIZERS for part in parts
            ]
        for chosen, tokenizer, lines in cases:
            row = measure(tokenizer, lines, scratch / "rows", arguments.rounds, arguments.threads)
            print(f"| {chosen} | {lines.stem} | {row} |", flush=True)


if __name__ == "__main__":
    main()
