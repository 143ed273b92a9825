"""Trains one step with a `Trainer`, on as many ranks as it is started with, and prints the loss: folder, output."""

from __future__ import annotations

import json
import os
import sys

import torch
from small_models import model_of
from transformers import Trainer, TrainingArguments

from fastpack.torch import CheckCallback, PackedDataset, collate


def main() -> None:
    """Trains the step."""
    torch.set_num_threads(1)
    folder, out = sys.argv[1:]
    args = TrainingArguments(
        output_dir=out,
        max_steps=1,
        logging_steps=1,
        per_device_train_batch_size=1,
        gradient_accumulation_steps=2,
        train_sampling_strategy="sequential",
        learning_rate=0.5,
        optim="sgd",
        max_grad_norm=0.0,
        lr_scheduler_type="constant",
        report_to=[],
        use_cpu=True,
        save_strategy="no",
        disable_tqdm=True,
    )
    trainer = Trainer(
        model_of("llama"),
        args,
        train_dataset=PackedDataset(folder),
        data_collator=collate,
        callbacks=[CheckCallback()],
    )
    trainer.train()
    if os.environ.get("RANK", "0") == "0":
        weight = trainer.accelerator.unwrap_model(trainer.model).lm_head.weight.detach()
        loss = next(entry["loss"] for entry in trainer.state.log_history if "loss" in entry)
        print(json.dumps({"loss": loss, "weight": weight.flatten().tolist()}))


if __name__ == "__main__":
    main()
