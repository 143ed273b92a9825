"""Measures a whole `pack_dir` on one core and on more, in turn: how much of a job one thread does for all.

    python benches/python/cores.py [--megabytes 30 300] [--rounds 9] [--cores 1 2] [--folder .] [--only NAME ...]

Each run is a process of its own, pinned to the first cores of the machine with a thread for each. By Amdahl's law, a
job that N cores do R times as fast as one leaves the share (N/R - 1) / (N - 1) to one thread. Beside it, N jobs of one
thread run side by side, a core each: they share nothing but the machine, so no job can gain more from N cores than they
do together. The caches of the system are warm: each case is run once before it counts.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import fastpack._fastpack as native

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from large import write  # noqa: E402
from run import data, machine, templates, train  # noqa: E402

import corpus  # noqa: E402

#: The folder of outputs that stay in memory.
MEMORY = Path("/dev/shm")

#: The script of the measured process.
RUN = """
import json, resource, sys, time
import fastpack
files, out, tokenizer, template, strategy, format, compression, threads, memory = sys.argv[1:]
loaded = fastpack.Tokenizer(tokenizer)
started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
report = fastpack.pack_dir(
    files,
    out,
    tokenizer=loaded,
    max_length=4096,
    chat_template=template or None,
    strategy=strategy,
    format=fastpack.Format(format, compression=compression or None),
    threads=int(threads),
    memory=memory or None,
    progress=False,
)
seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({
    "seconds": seconds,
    "work": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
    "peak": after.ru_maxrss * 1024,
    "tokens": report.tokens.kept,
    "assembling": report.stages["assemble"].cpu,
}))
"""


@dataclass(frozen=True)
class Case:
    """The input and the options of a job."""

    corpus: str = "chats"
    tokenizer: str = "llama3"
    strategy: str = "mix"
    format: str = "arrow"
    compression: str = ""
    place: str = "memory"
    megabytes: float = 300
    #: Bytes that documents may take, such as "512MB".
    memory: str = ""

    def __str__(self) -> str:
        packed = " ".join(filter(None, (self.format, self.compression)))
        return f"{self.corpus}, {self.tokenizer}, {self.strategy}, {packed}, {self.place}, {self.megabytes:.0f} MB"


def cases(sizes: list[float]) -> list[Case]:
    """The usual job, and others that differ from it in one thing."""
    usual = Case(megabytes=max(sizes))
    changes: list[dict[str, Any]] = [
        *({"megabytes": size} for size in sizes),
        {"place": "disk"},
        {"strategy": "concat"},
        {"strategy": "best_fit"},
        {"format": "parquet", "compression": "zstd"},
        {"format": "jsonl"},
        {"tokenizer": "qwen"},
        {"corpus": "English"},
        {"corpus": "mixed languages"},
    ]
    found = list(dict.fromkeys(replace(usual, **change) for change in changes))
    return found if data() is not None else [replace(case, tokenizer="trained") for case in found[:-3]]


def inputs(case: Case, scratch: Path) -> tuple[Path, Path, str]:
    """The file, the tokenizer and the template of a case."""
    shared = data()
    corpus_file = scratch / f"{case.corpus} {case.megabytes:.0f}.jsonl"
    if not corpus_file.exists():
        if case.corpus == "chats" or shared is None:
            corpus.write(corpus_file, megabytes=case.megabytes, seed=0)
        else:
            name = "text-en.jsonl" if case.corpus == "English" else "text-multi.jsonl"
            write(corpus_file, case.megabytes, shared / "corpora" / name)
    family = {"llama3": "llama3"}.get(case.tokenizer, "qwen2_5")
    template = templates() / f"{family}_training.jinja" if case.corpus == "chats" else ""
    if shared is not None:
        return corpus_file, shared / "tokenizers" / case.tokenizer, str(template)
    trained = scratch / "tokenizer"
    return corpus_file, trained if trained.exists() else train(corpus_file, trained), str(template)


def start(
    case: Case,
    cores: range,
    files: tuple[Path, Path, str],
    folders: dict[str, Path],
    threads: int | None = None,
) -> tuple[subprocess.Popen[str], Path]:
    """Start a job on some cores, with a thread for each. Returns its process and its scratch folder."""
    scratch = Path(tempfile.mkdtemp(dir=folders[case.place]))
    pinned = ["taskset", "--cpu-list", f"{cores[0]}-{cores[-1]}", sys.executable, "-c", RUN]
    options = [case.strategy, case.format, case.compression, threads or len(cores), case.memory]
    command = [*pinned, files[0], scratch / "out", *files[1:], *options]
    words = list(map(str, command))
    return subprocess.Popen(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE), scratch


def finish(case: Case, started: tuple[subprocess.Popen[str], Path]) -> dict[str, float]:
    """Wait for a job, and return its figures."""
    process, scratch = started
    output, errors = process.communicate()
    shutil.rmtree(scratch)
    if process.returncode != 0:
        raise SystemExit(f"{case} failed:\n{errors}")
    found: dict[str, float] = json.loads(output.splitlines()[-1])
    return found


def measure(
    case: Case, cores: int, files: tuple[Path, Path, str], folders: dict[str, Path]
) -> dict[str, float]:
    """Run a case once."""
    return finish(case, start(case, range(cores), files, folders))


def side_by_side(case: Case, cores: int, files: tuple[Path, Path, str], folders: dict[str, Path]) -> float:
    """Run a case once on each core at the same time. Returns the seconds of the slowest."""
    jobs = [start(case, range(core, core + 1), files, folders) for core in range(cores)]
    return max(finish(case, job)["seconds"] for job in jobs)


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", nargs="+", type=float, default=[30, 300], help="sizes of the input")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument(
        "--cores", nargs="+", type=int, default=[1, os.cpu_count() or 1], help="1, and others"
    )
    parser.add_argument("--folder", type=Path, help="where there is room on a disk")
    parser.add_argument("--only", nargs="+", help="cases whose names contain one of these", metavar="NAME")
    arguments = parser.parse_args()
    if native.build_profile != "release":
        raise SystemExit("the extension is a debug build: `make bench-cores` builds the right one")
    counts = sorted({1, *arguments.cores})
    with (
        tempfile.TemporaryDirectory(dir=arguments.folder) as disk,
        tempfile.TemporaryDirectory(dir=MEMORY) as memory,
    ):
        folders = {"disk": Path(disk), "memory": Path(memory)}
        print(f"{machine()}, medians of {arguments.rounds} rounds in turn\n", flush=True)
        columns = "".join(f" {count} cores |" for count in counts[1:])
        print(
            f"| job | Mtok | seconds on one core |{columns} times one core | side by side | left to one thread | more work "
            "| assembled by a core, Mtok/s | peak MB |"
        )
        print(f"|---|---:|---:|{'---:|' * len(counts[1:])}---:|---:|---:|---:|---:|---:|")
        for case in cases(arguments.megabytes):
            if arguments.only and not any(name in str(case) for name in arguments.only):
                continue
            files = inputs(case, folders["disk"])
            measure(case, counts[-1], files, folders)
            runs: dict[int, list[dict[str, float]]] = {count: [] for count in counts}
            side_by_side_seconds = []
            for _ in range(arguments.rounds):
                side_by_side_seconds.append(side_by_side(case, counts[-1], files, folders))
                for count, of in runs.items():
                    of.append(measure(case, count, files, folders))
            median = {
                count: {name: statistics.median(run[name] for run in of) for name in of[0]}
                for count, of in runs.items()
            }
            one, most, count = median[1], median[counts[-1]], counts[-1]
            gain = one["seconds"] / most["seconds"]
            limit = count * one["seconds"] / statistics.median(side_by_side_seconds)
            times = "".join(f" {median[count]['seconds']:.2f} |" for count in counts[1:])
            left = f"{(count / gain - 1) / (count - 1):.1%}" if count > 1 else ""
            print(
                f"| {case} | {one['tokens'] / 1e6:.1f} | {one['seconds']:.2f} |{times} {gain:.2f} | {limit:.2f} | {left} "
                f"| {most['work'] / one['work'] - 1:+.1%} | {one['tokens'] / one['assembling'] / 1e6:.0f} "
                f"| {most['peak'] / 1e6:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
