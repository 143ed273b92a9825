"""Packs conversations and trains a small model on them by Lightning: `python examples/train_lightning.py`."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

import lightning
import torch
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM

import fastpack
from fastpack.torch import PackedDataset, check, collate, loss

if TYPE_CHECKING:
    from fastpack.torch.collation import Batch


class Model(lightning.LightningModule):  # type: ignore[misc]  # lightning is no dependency of the type check
    """A small model that is trained on packed rows."""

    def __init__(self) -> None:
        """Makes the model with random weights."""
        super().__init__()
        sizes = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4}
        self.model = LlamaForCausalLM(LlamaConfig(vocab_size=4096, num_hidden_layers=2, **sizes))

    def training_step(self, batch: Batch) -> torch.Tensor:
        """The loss of a batch."""
        labels = batch.pop("labels")
        found = loss(self.model(**batch), labels)
        print(f"step {self.global_step}: loss {found.item():.3f}")
        return found

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """The optimizer."""
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


folder = tempfile.mkdtemp()
report = fastpack.pack_dir(
    "examples/chat.jsonl", folder, tokenizer="examples/tokenizer", max_length=256, progress=False
)
print(report)

torch.manual_seed(0)
module = Model()
loader = DataLoader(PackedDataset(folder), batch_size=2, shuffle=True, collate_fn=collate)
check(module.model, next(iter(loader)))
trainer = lightning.Trainer(
    max_epochs=3,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(module, loader)
