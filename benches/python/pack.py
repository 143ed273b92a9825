"""Measures packing alone: fastpack's strategies on six recipes of lengths, and TRL beside them.

    python benches/python/pack.py [--lengths 1000000] [--rounds 5]

Times are those of one core: packing has one thread. TRL packs 100,000 of the lengths as its trainer does, in
batches of 1,000 documents, which hold tokens that it moves along; its rows are compared with those that
fastpack makes of the same 100,000.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import numpy.typing as npt

import fastpack
import fastpack._fastpack as native

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import contenders  # noqa: E402

from lengths import RECIPES, Recipe  # noqa: E402

STRATEGIES = ("mix", "best_fit", "heap")

#: TRL takes seconds for as many.
PEER_LENGTHS = 100_000


def alike(plan: fastpack.Plan) -> float:
    """The share of rows whose documents, two or more, differ in length by 5 % at most."""
    shortest = np.minimum.reduceat(plan.lengths, plan.offsets[:-1])
    longest = np.maximum.reduceat(plan.lengths, plan.offsets[:-1])
    return float(((np.diff(plan.offsets) > 1) & (longest - shortest <= 0.05 * longest)).mean())


def measure(recipe: Recipe, count: int, rounds: int) -> list[str]:
    """The rows of the table for one recipe."""
    lengths = recipe.lengths(count)
    lines = []
    for strategy in STRATEGIES:
        walls, cores = [], []
        for _ in range(rounds):
            wall, core = time.perf_counter(), time.process_time()
            plan = fastpack.plan(lengths, max_length=recipe.max_length, strategy=strategy)  # type: ignore[arg-type]
            walls.append(time.perf_counter() - wall)
            cores.append(time.process_time() - core)
        over = len(plan) / plan.lower_bound - 1
        lines.append(
            f"| {recipe.name}, {recipe.max_length} | {strategy} | {count:,} | {statistics.median(walls) * 1e3:,.0f} "
            f"| {statistics.median(cores) * 1e3:,.0f} | {len(plan):,} | {over:.4%} | {plan.fill:.3%} "
            f"| {alike(plan):.1%} |"
        )
    return [*lines, measure_trl(recipe, lengths[:PEER_LENGTHS])]


def measure_trl(recipe: Recipe, lengths: npt.NDArray[np.int64]) -> str:
    """The row of the table for TRL."""
    import datasets
    import pyarrow as pa

    datasets.disable_progress_bars()
    datasets.disable_caching()
    trl = contenders.load_trl()
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    tokens = pa.array(np.zeros(offsets[-1], dtype=np.int32))
    ids = pa.LargeListArray.from_arrays(pa.array(offsets), tokens)
    rows = datasets.Dataset(pa.table({"input_ids": ids}))
    wall, core = time.perf_counter(), time.process_time()
    packed = trl.pack_dataset(rows, recipe.max_length, "bfd")
    wall, core = time.perf_counter() - wall, time.process_time() - core
    bound = fastpack.plan(lengths, max_length=recipe.max_length).lower_bound
    fill = lengths.sum() / (len(packed) * recipe.max_length)
    return (
        f"| {recipe.name}, {recipe.max_length} | TRL `bfd` | {len(lengths):,} | {wall * 1e3:,.0f} | {core * 1e3:,.0f} "
        f"| {len(packed):,} | {len(packed) / bound - 1:.4%} | {fill:.3%} | |"
    )


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--lengths", type=int, default=1_000_000, help="lengths of each recipe (default: 1000000)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="runs of each strategy (default: 5)")
    arguments = parser.parse_args()
    if native.build_profile != "release":
        raise SystemExit("the extension is a debug build: `make bench-pack` builds the right one")
    processor = next(
        (line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), ""
    )
    print(
        f"{datetime.now(timezone.utc):%Y-%m-%d}, {processor.partition(': ')[2]}, {os.cpu_count()} cores "
        f"(load {os.getloadavg()[0]:.1f}), Python {platform.python_version()}, medians of {arguments.rounds} rounds\n"
    )
    print("| recipe, row | strategy | lengths | ms | ms of a core | rows | over the bound | fill | alike |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|")
    for recipe in RECIPES:
        print("\n".join(measure(recipe, arguments.lengths, arguments.rounds)), flush=True)


if __name__ == "__main__":
    main()
