"""Trains a small BERT to tell what texts are about, streamed: `python examples/objectives/train_multi_label.py`."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import torch
from transformers import BertConfig, BertForSequenceClassification

import fastpack

CLASSES = {
    "water": ("sea", "tide", "water"),
    "code": ("def ", "return"),
    "craft": ("loom", "thread", "weave"),
}

texts = [json.loads(line)["text"] for line in Path("examples/text.jsonl").read_text().splitlines()]
records = [
    {"text": text, "labels": [name for name, words in CLASSES.items() if any(word in text for word in words)]}
    for text in texts
]
data = Path(tempfile.mkdtemp()) / "texts.jsonl"
data.write_text("\n".join(map(json.dumps, records)))

stream = fastpack.stream(
    data,
    "examples/tokenizer",
    objective=fastpack.MultiLabel(list(CLASSES)),
    max_length=64,
    overlong="truncate",
    padding="max_length",
    epochs=None,
    max_steps=41,
)

torch.manual_seed(0)
sizes = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_hidden_layers": 2}
config = BertConfig(vocab_size=4096, max_position_embeddings=64, num_labels=len(CLASSES), **sizes)
config.problem_type = "multi_label_classification"
model = BertForSequenceClassification(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step, table in enumerate(stream):
    batch = {name: torch.tensor(table[name].to_pylist()) for name in table.column_names}
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 10 == 0:
        print(f"step {step}: loss {loss.item():.3f}")
