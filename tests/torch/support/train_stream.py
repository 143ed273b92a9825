"""Trains on a stream with a trainer, on as many ranks as it is started with: folder of files, kind, steps, output.

Each rank appends the documents of each step that it trains to `OUTPUT/trained-RANK.jsonl`. A run that finds a checkpoint
goes on from it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
from ranks import end_rank
from small_models import model_of

import fastpack
from fastpack.torch import StreamDataset, collate, count_trained, loss

RANK = int(os.environ.get("RANK", "0"))


def record(batch, out: Path) -> None:
    """Writes down the first token of each document of a batch that is trained."""
    starts = batch["cu_seq_lens_q"][:-1].long()
    with (out / f"trained-{RANK}.jsonl").open("a") as file:
        file.write(json.dumps(batch["input_ids"][0, starts].tolist()) + "\n")


def with_trainer(dataset: StreamDataset, steps: int, out: Path) -> None:
    from transformers import Trainer, TrainingArguments

    from fastpack.torch import CheckCallback, StreamCallback

    args = TrainingArguments(
        output_dir=str(out / "trainer"),
        max_steps=steps,
        per_device_train_batch_size=int(os.environ.get("BATCH", "2")),
        save_steps=3,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    callbacks = [StreamCallback()]
    if os.environ.get("CHECKED"):
        callbacks.append(CheckCallback())
    if os.environ.get("BARE"):
        callbacks = []

    class Recording(Trainer):
        def training_step(self, model, inputs, num_items_in_batch=None):
            record(inputs, out)
            return super().training_step(model, inputs, num_items_in_batch)

    trainer = Recording(
        model_of("llama"), args, train_dataset=dataset, data_collator=collate, callbacks=callbacks
    )
    trainer.train(resume_from_checkpoint=any((out / "trainer").glob("checkpoint-*")) or None)


def with_accelerate(dataset: StreamDataset, steps: int, out: Path) -> None:
    from accelerate import Accelerator
    from torchdata.stateful_dataloader import StatefulDataLoader

    accelerator = Accelerator(cpu=True)
    loader = StatefulDataLoader(dataset, batch_size=2, collate_fn=collate)
    model = model_of("llama")
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    accelerator.register_for_checkpointing(loader)
    done = 0
    if (out / "accelerate").exists():
        accelerator.load_state(str(out / "accelerate"))
        done = json.loads((out / "steps.json").read_text())
    for step, batch in enumerate(loader, start=done + 1):
        record(batch, out)
        labels = batch.pop("labels")
        accelerator.backward(loss(model(**batch), labels, count_trained([{"labels": labels}])))
        optimizer.step()
        optimizer.zero_grad()
        if step == steps:
            accelerator.save_state(str(out / "accelerate"))
            (out / "steps.json").write_text(json.dumps(step))
            break


def with_lightning(dataset: StreamDataset, steps: int, out: Path) -> None:
    import lightning
    from torchdata.stateful_dataloader import StatefulDataLoader

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = model_of("llama")

        def training_step(self, batch):
            record(batch, out)
            labels = batch.pop("labels")
            return loss(self.model(**batch), labels)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    trainer = lightning.Trainer(
        max_steps=steps,
        accelerator="cpu",
        devices=int(os.environ.get("WORLD_SIZE", "1")),
        strategy="ddp" if "WORLD_SIZE" in os.environ else "auto",
        logger=False,
        enable_progress_bar=False,
        enable_checkpointing=False,
        enable_model_summary=False,
    )
    loader = StatefulDataLoader(dataset, batch_size=2, collate_fn=collate)
    saved = out / "lightning.ckpt"
    trainer.fit(Module(), loader, ckpt_path=str(saved) if saved.exists() else None)
    trainer.save_checkpoint(saved)


def main() -> None:
    """Trains."""
    torch.set_num_threads(1)
    folder, kind, steps, place = sys.argv[1:]
    out = Path(place)
    out.mkdir(exist_ok=True)
    # Rows without end and steps with one; or one epoch, whose rows are counted.
    ends: dict[str, object] = {"epochs": None, "max_steps": None if os.environ.get("ENDLESS") else 100}
    if os.environ.get("COUNTED"):
        ends = {"epochs": 1, "cache_dir": out / "counts", "padding": fastpack.Padding(token_id=0)}
    stream = fastpack.stream(
        f"{folder}/*.jsonl",
        max_length=24,
        batch_size=int(os.environ.get("TABLE", "3")),
        ranks=fastpack.Ranks(lanes=12),
        strategy=fastpack.BestFit(open_rows=4),
        threads=1,
        seed=5,
        **ends,
    )
    if os.environ.get("COUNTED"):
        stream.estimate()
    dataset = StreamDataset(stream, gather=kind != "trainer")
    {"trainer": with_trainer, "accelerate": with_accelerate, "lightning": with_lightning}[kind](
        dataset, int(steps), out
    )
    if torch.distributed.is_initialized():
        end_rank()


if __name__ == "__main__":
    main()
