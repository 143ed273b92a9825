"""Measures plans of a training step: `fastpack.plan_step` beside what frameworks do, written anew from their descriptions.

    make bench-steps        # with verl's wheel, which is installed without its dependencies
    python benches/python/training/steps.py [--rounds 5]

The answers are seeded: groups of 16 with a long tail as reinforcement learning generates them, and uniform, bimodal and
one-giant lengths. A sequence of `n` tokens costs `24576 n + n²`, as verl estimates a dense model of 7 billion parameters.
*step* is the sum over micro-batches of the slowest rank's cost, over the mean cost of a rank; *bound* the least that it can
be, as far as the longest sequences tell. Times are those of a core, which other work on the machine changes little: medians, of
one round for the slow ones.

* "verl": the functions of verl's own wheel: sequences to ranks by cost, then those of each rank to as few micro-batches as its
  differencing finds under the budget.
* "differencing": sequences to ranks, then those of each rank to micro-batches, each by Karmarkar and Karp's largest
  differencing method on cost, as verl did before 0.9.1: it knows no budget, so some micro-batches are over it.
* "modified first fit": modified first fit decreasing, as NeMo RL has it, and rows dealt to ranks in turn.
* "first fit, split": first fit decreasing; rows are split until all ranks have as many; rows to ranks by differencing, as many for
  each. So does prime-rl, without the exchanges that it adds.
* "balanced rows": `fastpack.plan(strategy="mix", order=fastpack.Balanced(ranks))`, which fills rows to the brim.
"""

from __future__ import annotations

import argparse
import heapq
import os
import platform
import statistics
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent), str(HERE)]

import verl_plan  # noqa: E402

import fastpack  # noqa: E402
from fastpack.torch import pack_step  # noqa: E402
from lengths import BUDGET, steps  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

Lengths = npt.NDArray[np.int64]
Rows = list[list[list[int]]]
"""The sequences of the micro-batches of each rank."""


def cost_of(lengths: Lengths) -> npt.NDArray[np.float64]:
    """The cost of each sequence."""
    return 24576.0 * lengths + lengths.astype(float) ** 2


def differenced(costs: npt.NDArray[np.float64], parts: int, *, equal: bool = False) -> list[list[int]]:
    """Items in `parts` of like cost, by the largest differencing method; with `equal`, as many in each."""
    heap: list[tuple[float, int, list[tuple[float, list[int]]]]] = []
    order = np.argsort(-costs, kind="stable").tolist()
    size = parts if equal else 1
    for number, begin in enumerate(range(0, len(order), size)):
        part: list[tuple[float, list[int]]] = [(float(costs[it]), [it]) for it in order[begin : begin + size]]
        part += [(0.0, []) for _ in range(parts - len(part))]
        heap.append((part[-1][0] - part[0][0], number, part))
    heapq.heapify(heap)
    while len(heap) > 1:
        _, number, one = heapq.heappop(heap)
        _, _, other = heapq.heappop(heap)
        joined = [(a + c, b + d) for (a, b), (c, d) in zip(one, reversed(other), strict=True)]
        joined.sort(key=lambda part: -part[0])
        heapq.heappush(heap, (joined[-1][0] - joined[0][0], number, joined))
    return [members for _, members in heap[0][2]] if heap else [[] for _ in range(parts)]


def by_differencing(lengths: Lengths, ranks: int) -> Rows:
    """As verl: to ranks by cost, then to as many micro-batches as the fullest rank needs."""
    costs = cost_of(lengths)
    of_ranks = [np.array(members) for members in differenced(costs, ranks)]
    places = max(-(-int(lengths[members].sum()) // BUDGET) for members in of_ranks)
    rows = []
    for members in of_ranks:
        parts = differenced(costs[members], places)
        parts.sort(key=lambda part: -costs[members][part].sum())
        rows.append([members[part].tolist() for part in parts])
    return rows


def by_modified_first_fit(lengths: Lengths, ranks: int) -> Rows:
    """As NeMo RL: rows for what is longer than half; then the medium, pairs of the small, whatever fits; then first fit."""
    order = np.argsort(-lengths, kind="stable").tolist()
    rows = [[it] for it in order if lengths[it] > BUDGET / 2]
    room = [BUDGET - int(lengths[row[0]]) for row in rows]
    medium = [it for it in order if BUDGET / 3 < lengths[it] <= BUDGET / 2]
    small = [it for it in order if BUDGET / 6 < lengths[it] <= BUDGET / 3]
    tiny = [it for it in order if lengths[it] <= BUDGET / 6]

    def place_longest(row: int, items: list[int]) -> bool:
        """Puts the longest of some items that fits into a row."""
        found = next((it for it in items if lengths[it] <= room[row]), None)
        if found is not None:
            items.remove(found)
            rows[row].append(found)
            room[row] -= int(lengths[found])
        return found is not None

    has_medium = [place_longest(row, medium) for row in range(len(rows))]
    for row in reversed(range(len(rows))):
        if not has_medium[row] and len(small) > 1 and lengths[small[-1]] + lengths[small[-2]] <= room[row]:
            place_longest(row, [small.pop()])
            place_longest(row, small)
    rest = [*medium, *small, *tiny]
    for row in range(len(rows)):
        while place_longest(row, rest):
            pass
    rows += first_fit(lengths, rest)
    rows += [[] for _ in range(-len(rows) % ranks)]
    return [rows[rank::ranks] for rank in range(ranks)]


def first_fit(lengths: Lengths, order: list[int]) -> list[list[int]]:
    """Each sequence in the first row that has room."""
    rows: list[list[int]] = []
    room = np.empty(0, dtype=np.int64)
    for it in order:
        fits = np.flatnonzero(room >= lengths[it])
        if not fits.size:
            rows.append([])
            room = np.append(room, BUDGET)
            fits = np.array([len(rows) - 1])
        rows[fits[0]].append(it)
        room[fits[0]] -= lengths[it]
    return rows


def by_split_first_fit(lengths: Lengths, ranks: int) -> Rows:
    """As prime-rl: first fit decreasing, rows split until they are a multiple of the ranks, and dealt by cost."""
    costs = cost_of(lengths)
    rows = first_fit(lengths, np.argsort(-lengths, kind="stable").tolist())
    while len(rows) % ranks:
        costliest = max((row for row in rows if len(row) > 1), key=lambda row: costs[row].sum(), default=None)
        if costliest is None:
            rows.append([])
            continue
        parts = differenced(costs[costliest], 2)
        rows.remove(costliest)
        rows += [[costliest[it] for it in part] for part in parts]
    of_rows = np.array([costs[row].sum() for row in rows])
    return [[rows[it] for it in part] for part in differenced(of_rows, ranks, equal=True)]


def by_balanced_rows(lengths: Lengths, ranks: int) -> Rows:
    """Rows that are full, and then sorted."""
    plan = fastpack.plan(lengths, max_length=BUDGET, strategy="mix", order=fastpack.Balanced(ranks))
    return dealt(plan, ranks)


def dealt(plan: fastpack.Plan, ranks: int) -> Rows:
    """The rows of a plan, as many for each rank."""
    rows = [plan.members[plan.offsets[at] : plan.offsets[at + 1]].tolist() for at in range(len(plan))]
    rows += [[] for _ in range(-len(rows) % ranks)]
    return [rows[rank::ranks] for rank in range(ranks)]


def by_plan_step(lengths: Lengths, ranks: int) -> Rows:
    """The plan of this package."""
    plan = fastpack.plan_step(lengths, max_length=BUDGET, ranks=ranks)
    return [[members.tolist() for members in plan.micro_batches(rank)] for rank in range(ranks)]


def contenders() -> dict[str, Callable[[Lengths, int], Rows]]:
    """The ways to plan a step, by name."""
    ways: dict[str, Callable[[Lengths, int], Rows]] = {
        "differencing": by_differencing,
        "modified first fit": by_modified_first_fit,
        "first fit, split": by_split_first_fit,
        "balanced rows": by_balanced_rows,
        "plan_step": by_plan_step,
    }
    balancing = verl_plan.functions()
    if balancing is None:
        print("without verl: `make bench-steps` installs its wheel")
        return ways
    return {"verl": lambda lengths, ranks: verl_plan.plan(balancing, lengths, ranks, BUDGET), **ways}


def clones(tensors: list[torch.Tensor]) -> float:
    """The seconds in which tensors are copied."""
    since = time.process_time()
    copies = [tensor.clone() for tensor in tensors]
    taken = time.process_time() - since
    del copies
    return taken


def whole_step(lengths: Lengths, rounds: int) -> None:
    """Prints how long a plan, the rows of six columns and the way back take, beside a copy of the same bytes."""
    random = np.random.default_rng(0)
    columns: dict[str, object] = {
        "input_ids": [random.integers(0, 30000, length, dtype=np.int32) for length in lengths],
        "loss_mask": [np.ones(length, np.uint8) for length in lengths],
    }
    for name in ("advantages", "old", "reference", "entropy"):
        columns[name] = [random.random(length, dtype=np.float32) for length in lengths]
    whole, copied, byte_count = [], [], 0
    step, back, tensors = None, None, []
    # A round before those that count: memory that is new to the process costs as much again, for a copy too.
    for number in range(rounds + 1):
        step, back, tensors = None, None, []
        since = time.process_time()
        step = pack_step(columns, fastpack.plan_step(lengths, max_length=BUDGET))
        back = step.restore([batch.columns["old"] for batch in step])
        taken = time.process_time() - since
        tensors = [
            value
            for batch in step
            for value in (*batch.inputs.values(), *batch.columns.values())
            if isinstance(value, torch.Tensor)
        ]
        byte_count = sum(tensor.nbytes for tensor in (*tensors, *back))
        cloning = clones([*tensors, *back])
        if number:
            whole.append(taken)
            copied.append(cloning)
    one, other = statistics.median(whole), statistics.median(copied)
    print(
        f"\nThe whole step of {lengths.sum() / 1e6:.1f} Mtok with six columns, {byte_count / 1e6:.0f} MB: {one:.2f} s. "
        f"A copy of the same bytes: {other:.2f} s. Ratio {one / other:.2f}"
    )


def main() -> None:
    """Prints a table for each set of lengths."""
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    print(
        f"{datetime.now(timezone.utc):%d %B %Y}, fastpack {fastpack.__version__}, {platform.machine()}, "
        f"{os.cpu_count()} cores (load {os.getloadavg()[0]:.1f}), Python {platform.python_version()}, "
        f"medians of {rounds} rounds"
    )
    ways = contenders()
    for name, (lengths, ranks) in steps().items():
        bound = fastpack.plan_step(lengths, max_length=BUDGET, ranks=ranks).least_imbalance
        millions = lengths.sum() / 1e6
        print(
            f"\n{name}: {len(lengths)} sequences, {millions:.1f} Mtok, {ranks} ranks; bound of step {bound:.4f}\n"
        )
        print(
            "| | micro-batches | over the budget | heaviest rank | step | time of a core |\n|---|---:|---:|---:|---:|---:|"
        )
        for contender, plan in ways.items():
            taken = []
            for _ in range(rounds if contender in ("balanced rows", "plan_step") else 1):
                since = time.process_time()
                rows = plan(lengths, ranks)
                taken.append(time.process_time() - since)
            costs = np.array(
                [[cost_of(lengths[row]).sum() if row else 0.0 for row in of_rank] for of_rank in rows]
            )
            over = sum(lengths[row].sum() > BUDGET for of_rank in rows for row in of_rank if row)
            mean = costs.sum() / ranks
            heaviest, step = costs.sum(axis=1).max() / mean, np.sort(costs, axis=1).max(axis=0).sum() / mean
            if contender == "plan_step":
                step = costs.max(axis=0).sum() / mean
            line = f"| {contender} | {costs.size} | {over} | {heaviest:.4f} | {step:.4f} |"
            print(f"{line} {statistics.median(taken) * 1e3:.0f} ms |")
    whole_step(steps()["tail, large"][0], rounds)


if __name__ == "__main__":
    main()
