"""Packs conversations that show pictures, and trains a small model on them by a `Trainer`: `python examples/pictures/train_pictures_trainer.py`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from make_pictures import conversations, small_model
from transformers import Trainer, TrainingArguments

import fastpack
from fastpack.torch import CheckCallback, PackedDataset, PictureCollator

folder = Path(tempfile.mkdtemp())
processor, model = small_model(folder / "model")
report = fastpack.pack_dir(
    conversations(folder),
    folder / "packed",
    tokenizer=folder / "model",
    max_length=256,
    reading=fastpack.Reading(images="reference"),
    progress=False,
)
print(report)

rows = PackedDataset(folder / "packed")
args = TrainingArguments(
    output_dir=str(folder / "trained"),
    per_device_train_batch_size=2,
    num_train_epochs=8,
    learning_rate=3e-3,
    dataloader_num_workers=1,
    logging_steps=1,
    save_strategy="no",
    report_to=[],
)
trainer = Trainer(
    model=model,
    args=args,
    train_dataset=rows,
    data_collator=PictureCollator(processor, model, packed=rows),
    callbacks=[CheckCallback()],
)
trainer.train()
