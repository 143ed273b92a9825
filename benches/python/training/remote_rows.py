"""The cost of training from a bucket beside training from a folder: the first batch, an epoch, and an epoch from the cache.

    python benches/python/training/remote_rows.py --megabytes 256

A web server in a process of its own waits 20 ms before it answers a request, and sends all it has: it stands for the latency of
a bucket, not for its bandwidth. Each figure is the median of `--rounds` runs in processes of their own, which take turns. A
batch is read by a loader without workers, collated, and its labels are counted; or a model of a few layers is trained on it, on
one thread.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

import fastpack
from fastpack._fastpack import build_profile

SERVERS = Path(__file__).parents[3] / "tests" / "python" / "support" / "servers"

READER = """
import json, sys, time
began = time.monotonic()
from torch.utils.data import DataLoader
from fastpack.torch import PackedDataset, PackSampler, collate
import torch
torch.set_num_threads(1)
url, options, window, trains = json.loads(sys.argv[1])
layers = torch.nn.Embedding(1024, 32), torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)
model = torch.nn.Sequential(*layers)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
imported = time.monotonic()
rows = PackedDataset(url, **options)
loader = DataLoader(rows, batch_size=4, sampler=PackSampler(rows, window=window), collate_fn=collate)
first, tokens = None, 0
for batch in loader:
    tokens += int((batch["labels"] != -100).sum())
    first = first or time.monotonic()
    if trains:
        model(batch["input_ids"] % 1024).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
print(json.dumps([first - imported, time.monotonic() - imported, tokens]))
"""

SERVER = """
import sys
sys.path.insert(0, sys.argv[1])
from web_server import Faults, serving
with serving(sys.argv[2], Faults(delay=float(sys.argv[3]))) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


def packed(folder: Path, megabytes: int) -> None:
    """A folder of random documents, in shards of 32 MB."""
    random = np.random.default_rng(1)
    lengths = random.integers(50, 2000, megabytes * 80)
    ends = np.append(0, np.cumsum(lengths))
    ids = pa.array(random.integers(3, 50_000, ends[-1]).astype(np.int32))
    table = pa.table({"input_ids": pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), ids)})
    fastpack.pack_table(
        table, max_length=4096, output=folder, format=fastpack.Format(shard_size="32MB"), progress=False
    )


def read(url: str, options: dict[str, str], window: int | None, *, trains: bool) -> list[float]:
    """The seconds to the first batch and to the last, and the trained tokens, of a process of its own."""
    call = json.dumps([url, options, window, trains])
    done = subprocess.run([sys.executable, "-c", READER, call], stdout=subprocess.PIPE, text=True, check=True)
    found: list[float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Writes the folder, starts the server, and measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if build_profile != "release":
        sys.exit("the extension is no release build")
    with tempfile.TemporaryDirectory() as name:
        folder, cache = Path(name, "data", "packed"), Path(name, "cache")
        packed(folder, arguments.megabytes)
        sizes = [path.stat().st_size for path in folder.glob("*.arrow")]
        print(f"{len(sizes)} shards, {sum(sizes) / 1e6:.0f} MB")
        command = [sys.executable, "-c", SERVER, str(SERVERS), str(folder.parent), "0.02"]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert server.stdin is not None
        assert server.stdout is not None
        url = f"{server.stdout.readline().strip()}/packed"
        window = len(sizes)
        kept = {"cache_dir": str(cache)}
        ways = {
            "the folder, the same order": partial(read, str(folder), {}, window),
            "20 ms away, an empty cache": partial(cold, cache, url),
            "20 ms away, a warm cache": partial(read, url, kept, None),
        }
        found: dict[str, list[list[float]]] = {way: [] for way in ways}
        trained: dict[str, list[list[float]]] = {way: [] for way in ways}
        for _ in range(arguments.rounds):
            for way, run in ways.items():
                found[way].append(run(trains=False))
                trained[way].append(run(trains=True))
        server.stdin.close()
        server.wait()
        report(found, trained)


def cold(cache: Path, url: str, *, trains: bool) -> list[float]:
    """An epoch with an empty cache."""
    shutil.rmtree(cache, ignore_errors=True)
    return read(url, {"cache_dir": str(cache)}, None, trains=trains)


def report(found: dict[str, list[list[float]]], trained: dict[str, list[list[float]]]) -> None:
    """Prints the table."""
    tokens = {int(run[2]) for measured in (found, trained) for runs in measured.values() for run in runs}
    assert len(tokens) == 1, "each way trains the same tokens"
    print("| rows | first batch, s | an epoch read, s | speed to the folder | an epoch trained, s | speed |")
    print("|---|---:|---:|---:|---:|---:|")

    def epochs(way: str) -> list[float]:
        return [statistics.median(run[1] for run in measured[way]) for measured in (found, trained)]

    local = epochs(next(iter(found)))
    for way, runs in found.items():
        first = statistics.median(run[0] for run in runs)
        columns = [f"{whole:.2f} | {of / whole:.2f}" for whole, of in zip(epochs(way), local, strict=True)]
        print(f"| {way} | {first:.2f} | {' | '.join(columns)} |")


if __name__ == "__main__":
    started = time.perf_counter()
    main()
    print(f"{time.perf_counter() - started:.0f} s in all")
