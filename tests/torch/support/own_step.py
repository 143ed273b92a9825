"""Run by torchrun: one optimizer step in which each rank plans the answers that it has; prints its loss and gradients."""

from __future__ import annotations

import json
import sys

import torch
import torch.distributed as dist
from packed_step import model_of, summed
from ranks import end_rank
from small_answers import answers

import fastpack
from fastpack.torch import pack_step


def main(kind: str) -> None:
    dist.init_process_group("gloo")
    found = {weights: trained(kind, weights) for weights in ("token", "sequence", "group", "constant")}
    if dist.get_rank() == 0:
        print(json.dumps(found))
    end_rank()


def greatest(number: int) -> int:
    value = torch.tensor(number)
    dist.all_reduce(value, dist.ReduceOp.MAX)
    return int(value)


def sums(numbers: list[float]) -> list[float]:
    values = torch.tensor(numbers, dtype=torch.float64)
    dist.all_reduce(values)
    return values.tolist()


def trained(kind: str, weights: str) -> tuple[float, dict[str, list[float]]]:
    """The loss of the step over all ranks, and the gradients by name. The last rank has no answer."""
    columns, lengths, groups = answers()
    rank, ranks = dist.get_rank(), dist.get_world_size()
    having = max(ranks - 1, 2)
    own = [at for at in range(len(lengths)) if groups[at] % having == rank]
    kinds = [int(lengths[at] > 6) for at in own]
    plan = fastpack.plan_step([lengths[at] for at in own], max_length=24, kinds=kinds, all_reduce=greatest)
    assert plan.kinds == sorted(plan.kinds)
    assert own or not len(plan.members)
    step = pack_step(
        {name: [column[at] for at in own] for name, column in columns.items()},
        plan,
        weights=weights,
        groups=[groups[at] for at in own],
        constant=20.0,
        world_size=ranks,
        all_reduce_sum=sums,
    )
    plain, model = model_of(kind)
    return summed(plain, model, step)


if __name__ == "__main__":
    main(sys.argv[1])
