"""Packs conversations that show pictures, and trains a small model on them by TRL's trainer: `python examples/pictures/train_pictures_trl.py`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from make_pictures import conversations, small_model
from trl import SFTTrainer

import fastpack
import fastpack.hf
from fastpack.torch import CheckCallback, PictureCollator

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

rows = fastpack.hf.load(folder / "packed")
args = fastpack.hf.sft_config(
    images=True,
    output_dir=str(folder / "trained"),
    per_device_train_batch_size=2,
    num_train_epochs=8,
    learning_rate=3e-3,
    logging_steps=1,
    save_strategy="no",
    report_to=[],
    bf16=False,
)
trainer = SFTTrainer(
    model=model,
    args=args,
    train_dataset=rows,
    data_collator=PictureCollator(processor, model, packed=rows),
    processing_class=processor,
    callbacks=[CheckCallback()],
)
trainer.train()
