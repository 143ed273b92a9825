"""TRL's trainer packs with `fastpack.hf.pack_dataset` after one assignment."""

from __future__ import annotations

import datasets
import pytest
import trl.trainer.sft_trainer
from conftest import documents
from small_models import model_of
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

import fastpack.hf
from fastpack.torch import check


@pytest.mark.parametrize("strategy", ["bfd", "bfd_split", "wrapped"])
def test_a_trainer_packs_with_our_function(monkeypatch, tmp_path, strategy):
    monkeypatch.setattr(trl.trainer.sft_trainer, "pack_dataset", fastpack.hf.pack_dataset)
    backend = Tokenizer(models.WordLevel({"<pad>": 0, "<s>": 1, "</s>": 2}, unk_token="</s>"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", eos_token="</s>")
    columns = documents(1500)
    args = trl.SFTConfig(
        output_dir=str(tmp_path),
        packing=True,
        packing_strategy=strategy,
        max_length=64,
        max_steps=2,
        report_to=[],
        use_cpu=True,
        bf16=False,
        per_device_train_batch_size=2,
        save_strategy="no",
        disable_tqdm=True,
    )
    dataset = datasets.Dataset.from_dict({"input_ids": columns["input_ids"]})
    trainer = trl.SFTTrainer(model_of("llama"), args=args, train_dataset=dataset, processing_class=tokenizer)
    packed = trainer.train_dataset
    assert sum(map(len, packed["input_ids"])) == sum(map(len, columns["input_ids"]))
    fullest = -(-sum(map(len, columns["input_ids"])) // 64)
    assert fullest <= len(packed) <= fullest + 3
    trainer.train()
    if strategy != "wrapped":
        check(trainer.model, {**trainer.data_collator([packed[0], packed[1]]), "use_cache": False})
