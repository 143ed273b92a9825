"""Makes the gradients of two ranks, of which one has no pictures, with DDP and with FSDP: processor, rows, output."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import picture_models
import torch
import torch.distributed as dist
import transformers
from ranks import end_rank
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from fastpack.torch import PictureCollator


def gradients(kind, processor, row):
    """The gradients of a step, as all ranks have them."""
    model = picture_models.model_of("qwen2_5_vl", processor)
    batch = PictureCollator(processor, model)([row])
    if kind == "fsdp":
        mesh = dist.init_device_mesh("cpu", (2,))
        for part in (*model.model.visual.blocks, *model.model.language_model.layers, model):
            fully_shard(part, mesh=mesh)
        trained = model
    else:
        trained = DistributedDataParallel(model)
    trained(**batch).loss.backward()
    return {
        name: weights.grad.full_tensor() if kind == "fsdp" else weights.grad
        for name, weights in model.named_parameters()
        if weights.grad is not None
    }


def main() -> None:
    """Makes the gradients."""
    torch.set_num_threads(1)
    folder, rows, out = sys.argv[1:]
    dist.init_process_group("gloo")
    processor = transformers.AutoProcessor.from_pretrained(folder)
    row = json.loads(Path(rows).read_text())[dist.get_rank()]
    made = {kind: gradients(kind, processor, row) for kind in ("ddp", "fsdp")}
    if dist.get_rank() == 0:
        torch.save(made, out)
    end_rank()


if __name__ == "__main__":
    main()
