"""Estimates a whole `pack_dir` on 1 to 64 cores, by waits in place of its work: an upper bound of what more cores give.

    python benches/python/jobs/many_cores.py [--megabytes 3000] [--check 300] [--cores 1 2 4 8 16 32 64] [--folder .] [--plot FILE.svg]

A job runs once on one thread, and the processor time of each piece of its work is recorded: pulling, tokenizing and storing each
block, assembling, encoding, hashing and writing each part of the rows. Then the threads, queues and locks of real jobs run again, and
each piece of work is a wait of ten times its time, so that what the threads do between waits hardly counts. A piece that is pulled,
handed over in order or written to a file waits while it holds the lock or the order. No more pieces wait at a time than there are
cores. Their bytes share the memory and the disk, whose rates are measured with all cores of this machine.

It is an upper bound: caches that cores share, and clocks that are slower when all cores work, are not in it. A smaller job is run in
truth on one core and on two, beside its simulation. At last a real job runs on all cores of this machine, with a thread for each and
with 64: threads that wait must cost neither time nor memory.
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
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

BENCHES = Path(__file__).resolve().parent.parent
ROOT = BENCHES.parent.parent
sys.path[:0] = [str(BENCHES.parent), str(BENCHES)]

from cores import Case, finish, inputs, start  # noqa: E402
from run import data, machine, templates  # noqa: E402

import corpus  # noqa: E402
import fastpack  # noqa: E402

#: The folder of outputs that stay in memory.
MEMORY = Path("/dev/shm")

#: How many times as long as the work a wait takes.
STRETCH = 10

#: The resources that one thread at a time can use, by the name of their time, and what they do in each phase.
ALONE = {
    "pull": {"documents": "read blocks", "rows": "pick rows"},
    "consume": {"documents": "cut and store documents", "rows": "hand rows over"},
}


def build() -> Path:
    """Build the tests of the core for speed, without optimisation across crates, and return their program."""
    environment = os.environ | {
        "CARGO_PROFILE_RELEASE_LTO": "off",
        "CARGO_TARGET_DIR": str(ROOT / "target" / "many-cores"),
    }
    command = [
        "cargo",
        "test",
        "--locked",
        "--release",
        "-p",
        "fastpack-core",
        "--lib",
        "--no-run",
        "--message-format",
        "json",
    ]
    output = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE).stdout
    programs = [json.loads(line).get("executable") for line in output.splitlines()]
    return Path(next(program for program in reversed(programs) if program))


def copied(megabytes: int) -> float:
    """Copy a large array a few times; returns the bytes a second that were read and written."""
    source = np.ones(megabytes << 20, np.uint8)
    target = np.empty_like(source)
    np.copyto(target, source)
    begun = time.perf_counter()
    for _ in range(8):
        np.copyto(target, source)
    return 8 * 2 * source.nbytes / (time.perf_counter() - begun)


def memory_rate() -> float:
    """Measure the bytes a second that all cores move in memory."""
    cores = os.cpu_count() or 1
    with ProcessPoolExecutor(cores) as processes:
        return sum(processes.map(copied, [256] * cores))


def disk_rate(folder: Path) -> float:
    """Measure the bytes a second that a file takes until it lies on the disk."""
    block = os.urandom(16 << 20)
    with tempfile.TemporaryFile(dir=folder) as file:
        begun = time.perf_counter()
        for _ in range(64):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
        return 64 * len(block) / (time.perf_counter() - begun)


class Bench:
    """The program of the simulation, and the job that it runs."""

    def __init__(self, folder: Path) -> None:
        self.program, self.folder = build(), folder
        shared = data()
        if shared is None:
            raise SystemExit("there are no published tokenizers: FASTPACK_DATA names their folder")
        self.tokenizer = shared / "tokenizers" / "llama3"
        self.template = templates() / "llama3_training.jinja"
        small = self.input(1)
        fastpack.pack_dir(
            str(small),
            str(folder / "small"),
            tokenizer=str(self.tokenizer),
            max_length=4096,
            chat_template=str(self.template),
            progress=False,
        )

    def input(self, megabytes: float) -> Path:
        """Seeded chats of this size."""
        path = self.folder / f"chats-{megabytes:g}.jsonl"
        if not path.exists():
            corpus.write(path, megabytes=megabytes, seed=0)
        return path

    def ask(self, request: dict[str, Any], cores: str | None = None) -> Any:
        """Run the program for one request, pinned to `cores`."""
        asked, answer = self.folder / "request.json", self.folder / "answer.json"
        asked.write_text(json.dumps(request))
        answer.unlink(missing_ok=True)
        paths = {"FASTPACK_MANY_CORES": str(asked), "FASTPACK_MANY_CORES_ANSWER": str(answer)}
        test = ["--exact", "pipeline::many_cores::many_cores", "--ignored", "--nocapture"]
        pinned = ["taskset", "--cpu-list", cores] if cores else []
        subprocess.run(
            [*pinned, self.program, *test], env=os.environ | paths, check=True, stdout=subprocess.DEVNULL
        )
        return json.loads(answer.read_text())

    def job(self, megabytes: float, threads: int, output: Path) -> dict[str, Any]:
        """Describe the job over an input of this size."""
        return {
            "manifest": str(self.folder / "small" / "manifest.json"),
            "input": str(self.input(megabytes)),
            "tokenizer": str(self.tokenizer),
            "template": str(self.template),
            "output": str(output),
            "threads": threads,
            "memory": 8 << 30,
        }

    def seconds(self, megabytes: float, cores: int) -> float:
        """Run a job in truth, to files in memory."""
        with tempfile.TemporaryDirectory(dir=MEMORY) as output:
            job = self.job(megabytes, cores, Path(output) / "out")
            return float(self.ask({"do": "time", **job}, f"0-{cores - 1}")["seconds"])

    def record(self, megabytes: float, place: Path) -> Path:
        """Record a job."""
        recording = self.folder / f"recording-{megabytes:g}.json"
        with tempfile.TemporaryDirectory(dir=place) as output:
            job = self.job(megabytes, 1, Path(output) / "out")
            self.ask({"do": "record", "job": job, "recording": str(recording)}, "0")
        return recording

    def simulate(self, recording: Path, cores: int, memory: float, disk: float) -> list[dict[str, Any]]:
        """Simulate a recorded job. Returns its phases."""
        rates = {"memory": memory, "disk": disk}
        request = {"do": "simulate", "recording": str(recording), "cores": cores, "stretch": STRETCH}
        phases: list[dict[str, Any]] = self.ask(request | rates)
        return phases


def many_threads(megabytes: float, rounds: int, folder: Path) -> None:
    """Print what a real job costs with a thread for each core of this machine, and with 64."""
    cores = os.cpu_count() or 1
    case = Case(megabytes=megabytes, memory="512MB")
    print(
        f"\n| {case}, {case.memory} for documents | seconds | processor seconds | peak MB |\n|---|---:|---:|---:|"
    )
    with tempfile.TemporaryDirectory(dir=MEMORY) as memory:
        folders = {"memory": Path(memory)}
        files = inputs(case, folder)
        for threads in (cores, 64):
            runs = [finish(case, start(case, range(cores), files, folders, threads)) for _ in range(rounds)]
            seconds, work, peak = (
                statistics.median(run[name] for run in runs) for name in ("seconds", "work", "peak")
            )
            print(f"| {threads} threads | {seconds:.2f} | {work:.2f} | {peak / 1e6:.0f} |", flush=True)


def limit(phase: dict[str, Any], cores: int) -> str:
    """Name what a phase uses most, with the share of the phase for which it is in use."""
    seconds, busy = phase["seconds"], phase["busy"]
    uses = {"all cores": sum(busy.values()) / cores, "memory": phase["memory"], "disk": phase["disk"]}
    for kind, names in ALONE.items():
        if phase["name"] in names:
            uses[names[phase["name"]]] = busy.get(kind, 0.0)
    name = max(uses, key=lambda name: uses[name])
    return f"{name} ({uses[name] / seconds:.0%})"


def total(phases: list[dict[str, Any]]) -> float:
    """Add up the seconds of all phases."""
    return sum(float(phase["seconds"]) for phase in phases)


def plot(gains: dict[str, dict[int, float]], path: Path) -> None:
    """Draw the times one core by the number of cores, for each place of the output."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "fastpack"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
    styles = {"memory": ("o-", "#7aa6d8"), "disk": ("s-", "#b5302a")}
    for place, gain in gains.items():
        line, color = styles[place]
        axes.plot(list(gain), list(gain.values()), line, color=color, label=f"to {place}")
    cores = list(next(iter(gains.values())))
    axes.plot(cores, cores, ":", color="#8c959f", label="as many as cores")
    axes.set(xlabel="cores, simulated", ylabel="times one core")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:.0f}")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=float, default=3000, help="size of the recorded job")
    parser.add_argument("--check", type=float, default=300, help="size of the job that is run in truth too")
    parser.add_argument("--rounds", type=int, default=3, help="runs in truth")
    parser.add_argument("--cores", nargs="+", type=int, default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument("--folder", type=Path, help="where there is room on a disk")
    parser.add_argument("--plot", type=Path, help="the file of the plot")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=arguments.folder))
    try:
        bench = Bench(folder)
        memory, disk = memory_rate(), disk_rate(folder)
        print(
            f"{machine()}; memory {memory / 1e9:.1f} GB/s, disk {disk / 1e9:.2f} GB/s, measured with all cores\n"
        )
        print(
            f"| {arguments.check:.0f} MB, to memory | seconds | simulated | difference |\n|---|---:|---:|---:|"
        )
        recording = bench.record(arguments.check, MEMORY)
        for cores in (1, 2):
            truth = statistics.median(bench.seconds(arguments.check, cores) for _ in range(arguments.rounds))
            simulated = total(bench.simulate(recording, cores, memory, 1e18))
            print(
                f"| {cores} cores | {truth:.2f} | {simulated:.2f} | {simulated / truth - 1:+.1%} |",
                flush=True,
            )
        recording = bench.record(arguments.megabytes, folder)
        gains: dict[str, dict[int, float]] = {}
        for place, rate in (("memory", 1e18), ("disk", disk)):
            print(
                f"\n| cores, {arguments.megabytes:.0f} MB, to {place} | seconds | times one | documents | limited by "
                "| rows | limited by | between |\n|---|---:|---:|---:|---|---:|---|---:|"
            )
            one = None
            for cores in arguments.cores:
                phases = bench.simulate(recording, cores, memory, rate)
                one = one or total(phases)
                gains.setdefault(place, {})[cores] = one / total(phases)
                by_name = {
                    name: [phase for phase in phases if phase["name"] == name]
                    for name in ("documents", "rows", "between")
                }
                largest = {
                    name: max(some, key=lambda phase: phase["seconds"]) for name, some in by_name.items()
                }
                cells = [
                    f"{total(by_name[name]):.2f} | {limit(largest[name], cores)}"
                    for name in ("documents", "rows")
                ]
                print(
                    f"| {cores} | {total(phases):.2f} | {one / total(phases):.1f} | {' | '.join(cells)} "
                    f"| {total(by_name['between']):.2f} |",
                    flush=True,
                )
        if arguments.plot:
            plot(gains, arguments.plot)
        many_threads(arguments.check, arguments.rounds, folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
