"""Trains a small Llama on conversations that are streamed: `python examples/train_clm.py`."""

from __future__ import annotations

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import fastpack
from fastpack.torch import collate

stream = fastpack.stream(
    "examples/chat.jsonl", "examples/tokenizer", max_length=256, batch_size=2, epochs=None, max_steps=41
)

torch.manual_seed(0)
sizes = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_hidden_layers": 2}
model = LlamaForCausalLM(LlamaConfig(vocab_size=4096, **sizes))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step, table in enumerate(stream):
    loss = model(**collate(table.to_pylist())).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 10 == 0:
        print(f"step {step}: loss {loss.item():.3f}")
