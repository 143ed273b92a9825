"""Run by torchrun: one optimizer step of packed answers for each normalisation, averaged by DDP or FSDP; prints its gradients."""

from __future__ import annotations

import json
import sys

import torch
import torch.distributed as dist
from ranks import end_rank
from small_answers import Model, answers, clipped
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import fastpack
from fastpack.torch import Step, pack_step, token_log_probs


def main(kind: str) -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    found = {weights: trained(kind, weights) for weights in ("token", "sequence", "group", "constant")}
    if rank == 0:
        print(json.dumps(found))
    end_rank()


def trained(kind: str, weights: str) -> tuple[float, dict[str, list[float]]]:
    """The loss of the step over all ranks, and the gradients by name."""
    columns, lengths, groups = answers()
    rank, ranks = dist.get_rank(), dist.get_world_size()
    plan = fastpack.plan_step(lengths, max_length=24, ranks=ranks)
    step = pack_step(
        columns, plan, rank=rank, weights=weights, groups=groups, constant=20.0, world_size=ranks
    )
    return summed(*model_of(kind), step)


def model_of(kind: str) -> tuple[Model, torch.nn.Module]:
    """A model, and the same averaged over ranks."""
    plain = Model()
    return plain, DistributedDataParallel(plain) if kind == "ddp" else fully_shard(plain)


def summed(plain: Model, model: torch.nn.Module, step: Step) -> tuple[float, dict[str, list[float]]]:
    """The loss of a step over all ranks, and the gradients by name."""
    total = torch.zeros((), dtype=torch.float64)
    for batch in step:
        told = token_log_probs(model(batch.inputs["input_ids"], batch.inputs["position_ids"]), batch.inputs)
        losses = clipped(told, batch.columns["old"], batch.columns["advantages"])
        loss = (losses * batch.columns["loss_weights"]).sum()
        loss.backward()
        total += loss.detach()
    dist.all_reduce(total)
    gradients = {}
    for name, parameter in plain.named_parameters():
        gradient = parameter.grad
        whole = gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient
        gradients[name] = whole.flatten().tolist()
    return total.item() / dist.get_world_size(), gradients


if __name__ == "__main__":
    main(sys.argv[1])
