"""Trains a small T5 to fill in spans of texts that are streamed: `python examples/objectives/train_span.py`."""

from __future__ import annotations

import torch
from transformers import AutoTokenizer, T5Config, T5ForConditionalGeneration

import fastpack

tokenizer = AutoTokenizer.from_pretrained("examples/tokenizer")
sentinels = [f"<extra_id_{number}>" for number in range(100)]
tokenizer.add_special_tokens({"extra_special_tokens": sentinels})
stream = fastpack.stream(
    "examples/text.jsonl",
    tokenizer,
    objective=fastpack.SpanCorruption(max_target_length=32),
    max_length=64,
    strategy="none",
    padding="max_length",
    columns=["input_ids", "attention_mask", "labels"],
    epochs=None,
    max_steps=41,
)

torch.manual_seed(0)
start = tokenizer.pad_token_id
sizes = {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_heads": 4, "num_layers": 2}
config = T5Config(vocab_size=len(tokenizer), decoder_start_token_id=start, pad_token_id=start, **sizes)
model = T5ForConditionalGeneration(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step, table in enumerate(stream):
    batch = {name: torch.tensor(table[name].to_pylist()) for name in table.column_names}
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 10 == 0:
        print(f"step {step}: loss {loss.item():.3f}")
