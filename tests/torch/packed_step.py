"""Run by torchrun: one optimizer step of packed answers, its gradients averaged by DDP or FSDP; the first rank prints them."""

from __future__ import annotations

import json
import os
import sys

import torch.distributed as dist
from small_answers import Model, answers, clipped
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import fastpack
from fastpack.torch import pack_step, token_log_probs


def main(kind: str, weights: str) -> None:
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    columns, lengths, groups = answers()
    plan = fastpack.plan_step(lengths, max_length=24, ranks=ranks)
    step = pack_step(
        columns, plan, rank=rank, weights=weights, groups=groups, constant=20.0, world_size=ranks
    )
    plain = Model()
    model = DistributedDataParallel(plain) if kind == "ddp" else fully_shard(plain)
    for batch in step:
        told = token_log_probs(model(batch.inputs["input_ids"], batch.inputs["position_ids"]), batch.inputs)
        losses = clipped(told, batch.columns["old"], batch.columns["advantages"])
        (losses * batch.columns["loss_weights"]).sum().backward()
    gradients = {}
    for name, parameter in plain.named_parameters():
        gradient = parameter.grad
        whole = gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient
        gradients[name] = whole.flatten().tolist()
    if rank == 0:
        print(json.dumps(gradients), flush=True)
    # The threads of gloo may outlive the interpreter, which then waits for them or aborts.
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
