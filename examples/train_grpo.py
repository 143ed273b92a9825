"""Picks the prompts that fit, and trains a small model on them by the `GRPOTrainer` of TRL: `python examples/train_grpo.py`."""

from __future__ import annotations

import tempfile

import torch
from datasets import Dataset
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
from trl import GRPOConfig, GRPOTrainer

import fastpack

records = [
    {
        "prompt": [{"role": "user", "content": f"Write {number} letters. {'Take your time. ' * number}"}],
        "letters": number,
    }
    for number in range(1, 17)
]
rows = fastpack.pack_table(
    Dataset.from_list(records),
    "examples/tokenizer",
    objective="generation",
    max_length=64,
    columns=["prompt", "letters"],
    max_lost=0.9,
    progress=False,
)
print(fastpack.Report.of(rows))


def is_near(completions: list[list[dict[str, str]]], letters: list[int], **_: object) -> list[float]:
    """The reward of each answer: the nearer it is to the wanted number of letters, the higher."""
    return [
        -abs(len(answer[0]["content"]) - wanted) / wanted
        for answer, wanted in zip(completions, letters, strict=True)
    ]


torch.manual_seed(0)
sizes = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_hidden_layers": 2}
args = GRPOConfig(
    output_dir=tempfile.mkdtemp(),
    per_device_train_batch_size=4,
    num_generations=4,
    max_completion_length=16,
    max_steps=2,
    logging_steps=1,
    save_strategy="no",
    report_to=[],
    bf16=False,
)
trainer = GRPOTrainer(
    model=LlamaForCausalLM(LlamaConfig(vocab_size=4096, **sizes)),
    reward_funcs=is_near,
    args=args,
    train_dataset=Dataset(rows),
    processing_class=AutoTokenizer.from_pretrained("examples/tokenizer"),
)
trainer.train()
