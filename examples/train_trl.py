"""Packs conversations and trains a small model on them by the `SFTTrainer` of TRL: `python examples/train_trl.py`."""

from __future__ import annotations

import tempfile

import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
from trl import SFTTrainer

import fastpack
import fastpack.hf
from fastpack.torch import CheckCallback

folder = tempfile.mkdtemp()
report = fastpack.pack_dir(
    "examples/chat.jsonl", folder, tokenizer="examples/tokenizer", max_length=256, progress=False
)
print(report)

torch.manual_seed(0)
sizes = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_hidden_layers": 2}
args = fastpack.hf.sft_config(
    output_dir=tempfile.mkdtemp(),
    per_device_train_batch_size=2,
    num_train_epochs=3,
    logging_steps=1,
    save_strategy="no",
    report_to=[],
    bf16=False,
)
trainer = SFTTrainer(
    model=LlamaForCausalLM(LlamaConfig(vocab_size=4096, **sizes)),
    args=args,
    train_dataset=fastpack.hf.load(folder),
    processing_class=AutoTokenizer.from_pretrained("examples/tokenizer"),
    callbacks=[CheckCallback()],
)
trainer.train()
