"""Packs conversations and trains a small model on them in plain PyTorch: `python examples/train_torch.py`."""

from __future__ import annotations

import tempfile

import torch
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM

import fastpack
from fastpack.torch import PackedDataset, check, collate, count_trained, loss

folder = tempfile.mkdtemp()
report = fastpack.pack_dir(
    "examples/chat.jsonl", folder, tokenizer="examples/tokenizer", max_length=256, progress=False
)
print(report)

torch.manual_seed(0)
sizes = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_hidden_layers": 2}
model = LlamaForCausalLM(LlamaConfig(vocab_size=4096, **sizes))
dataset = PackedDataset(folder)
dataset.stats()
loader = DataLoader(dataset, batch_size=2, shuffle=True, collate_fn=collate)
check(model, next(iter(loader)))

optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for epoch in range(3):
    batches_of_epoch = list(loader)
    for first in range(0, len(batches_of_epoch), 2):  # two batches an optimizer step
        batches = batches_of_epoch[first : first + 2]
        trained = count_trained(batches)
        total = 0.0
        for batch in batches:
            labels = batch.pop("labels")
            part = loss(model(**batch), labels, num_items_in_batch=trained)
            part.backward()
            total += part.item()
        optimizer.step()
        optimizer.zero_grad()
        print(f"epoch {epoch}: loss {total:.3f} over {trained} tokens")
