"""Packs conversations that show pictures, and trains a small model on them in plain PyTorch: `python examples/pictures/train_pictures_torch.py`."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from make_pictures import conversations, small_model
from torch.utils.data import DataLoader

import fastpack
from fastpack.torch import PackedDataset, PictureCollator, check, loss

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
collator = PictureCollator(processor, model, packed=rows)
loader = DataLoader(rows, batch_size=2, shuffle=True, collate_fn=collator, num_workers=1)
check(model, next(iter(loader)))

optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for epoch in range(8):
    for batch in loader:
        labels = batch.pop("labels")
        step = loss(model(**batch), labels)
        step.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"epoch {epoch}: loss {step.item():.3f}")
