"""Packs conversations and trains a small model on them by the `Trainer` of transformers: `python examples/train_trainer.py`."""

from __future__ import annotations

import tempfile

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

import fastpack
from fastpack.torch import CheckCallback, PackedDataset, collate

folder = tempfile.mkdtemp()
report = fastpack.pack_dir(
    "examples/chat.jsonl", folder, tokenizer="examples/tokenizer", max_length=256, progress=False
)
print(report)

torch.manual_seed(0)
sizes = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_hidden_layers": 2}
args = TrainingArguments(
    output_dir=tempfile.mkdtemp(),
    per_device_train_batch_size=2,
    num_train_epochs=3,
    logging_steps=1,
    save_strategy="no",
    report_to=[],
)
trainer = Trainer(
    model=LlamaForCausalLM(LlamaConfig(vocab_size=4096, **sizes)),
    args=args,
    train_dataset=PackedDataset(folder),
    data_collator=collate,
    callbacks=[CheckCallback()],
)
trainer.train()
