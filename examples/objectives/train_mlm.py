"""Trains a small BERT on masked texts that are streamed: `python examples/objectives/train_mlm.py`."""

from __future__ import annotations

import torch
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

import fastpack

tokenizer = AutoTokenizer.from_pretrained("examples/tokenizer")
tokenizer.add_special_tokens({"mask_token": "[MASK]"})
stream = fastpack.stream(
    "examples/text.jsonl",
    tokenizer,
    objective="mlm",
    max_length=64,
    strategy="none",
    padding="max_length",
    columns=["input_ids", "attention_mask", "labels"],
    epochs=None,
    max_steps=41,
)

torch.manual_seed(0)
sizes = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_hidden_layers": 2}
model = BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **sizes))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step, table in enumerate(stream):
    batch = {name: torch.tensor(table[name].to_pylist()) for name in table.column_names}
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 10 == 0:
        print(f"step {step}: loss {loss.item():.3f}")
