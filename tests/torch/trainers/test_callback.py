"""`CheckCallback`: trainers that mix documents stop before their first step, right ones are left alone."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from conftest import documents, pack
from small_models import model_of
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast, Trainer, TrainerCallback, TrainingArguments
from trl import SFTConfig, SFTTrainer

import fastpack.hf
from fastpack import BatchError, OptionError
from fastpack.torch import CheckCallback, PackedDataset, collate, loss


@pytest.fixture(scope="module")
def tokenizer():
    backend = Tokenizer(models.WordLevel({"<pad>": 0, "<s>": 1, "</s>": 2}, unk_token="</s>"))
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", eos_token="</s>")


@pytest.fixture
def settings(tmp_path):
    return {
        "output_dir": str(tmp_path / "out"),
        "max_steps": 3,
        "logging_steps": 1,
        "per_device_train_batch_size": 2,
        "report_to": [],
        "use_cpu": True,
        "save_strategy": "no",
        "disable_tqdm": True,
        "learning_rate": 1e-3,
    }


def train(trainer):
    """The losses of the first steps."""
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def trained(settings, dataset, *, model="llama", callbacks=(), **given):
    """The losses of a `Trainer`."""
    args = TrainingArguments(**settings)
    return train(Trainer(model_of(model), args, train_dataset=dataset, callbacks=list(callbacks), **given))


def sft(settings, dataset, tokenizer, *, config=SFTConfig, **given):
    """The losses of an `SFTTrainer`."""
    args = config(**settings, bf16=False)
    given = {"callbacks": [CheckCallback()], **given}
    return train(
        SFTTrainer(model_of("llama"), args=args, train_dataset=dataset, processing_class=tokenizer, **given)
    )


def test_a_data_set_of_ours_with_default_settings_passes(settings, folder):
    assert (
        len(trained(settings, PackedDataset(folder), data_collator=collate, callbacks=[CheckCallback()])) == 3
    )


@pytest.mark.parametrize("workers", [0, 2])
def test_training_is_the_same_with_and_without_it(settings, folder, workers):
    settings |= {"dataloader_num_workers": workers, "dataloader_persistent_workers": workers > 0}
    losses = [
        trained(settings, PackedDataset(folder), model="gpt2", data_collator=collate, callbacks=callbacks)
        for callbacks in ([], [CheckCallback()])
    ]
    assert losses[0] == losses[1]


def test_a_data_set_of_datasets_that_keeps_its_columns_passes(settings, folder):
    settings["remove_unused_columns"] = False
    trained(settings, fastpack.hf.load(folder), data_collator=collate, callbacks=[CheckCallback()])


def test_padded_rows_without_a_mask_pass_with_the_collator_of_a_trainer(settings, tmp_path):
    pack(documents(40), output=tmp_path / "padded", padding=fastpack.Padding("max_length", token_id=0))
    trained(settings, fastpack.hf.load(tmp_path / "padded"), callbacks=[CheckCallback()])


def test_an_sft_trainer_with_our_settings_passes(settings, folder, tokenizer):
    sft(settings, fastpack.hf.load(folder), tokenizer, config=fastpack.hf.sft_config)


def test_weighted_rows_pass_with_our_loss(settings, weighted_folder):
    trained(
        settings,
        PackedDataset(weighted_folder),
        data_collator=collate,
        callbacks=[CheckCallback()],
        compute_loss_func=loss,
    )


def test_weighted_rows_without_our_loss_are_refused(settings, weighted_folder):
    dataset = PackedDataset(weighted_folder)
    with pytest.raises(BatchError, match=r"compute_loss_func=fastpack.torch.loss"):
        trained(settings, dataset, data_collator=collate, callbacks=[CheckCallback()])
    with pytest.raises(BatchError, match=r"compute_loss_func=fastpack.torch.loss"):
        trained(settings, dataset, data_collator=collate)  # the labels refuse such a loss themselves


def test_a_data_set_of_datasets_that_lost_its_columns_is_refused(settings, folder):
    with pytest.raises(BatchError, match="remove_unused_columns=False"):
        trained(settings, fastpack.hf.load(folder), data_collator=collate)


def test_columns_that_a_trainer_strips_are_refused_whatever_the_collator(settings, tmp_path):
    columns = ["input_ids", "labels", "seq_lengths"]
    pack(
        documents(40),
        output=tmp_path / "packed",
        padding=fastpack.Padding("max_length", token_id=0),
        columns=columns,
    )
    with pytest.raises(
        BatchError, match=r"nothing says where its documents begin; .* remove_unused_columns=False"
    ):
        trained(settings, fastpack.hf.load(tmp_path / "packed"), callbacks=[CheckCallback()])


def test_the_collator_that_a_tokenizer_brings_is_refused(settings, folder, tokenizer):
    settings["per_device_train_batch_size"] = 1
    with pytest.raises(
        BatchError, match=r"^`DataCollatorWithPadding`, .* see each other: .*; leave out `attention_mask`"
    ):
        trained(settings, fastpack.hf.load(folder), processing_class=tokenizer, callbacks=[CheckCallback()])


def test_a_collator_that_fails_is_named(settings, folder):
    for size in (1, 4):
        settings["per_device_train_batch_size"] = size
        with pytest.raises(
            BatchError, match=r"`default_data_collator`, .*; pass data_collator=fastpack.torch.collate"
        ):
            trained(settings, PackedDataset(folder), callbacks=[CheckCallback()])


def test_a_collator_that_rewrites_positions_is_refused(settings, folder):
    def rewritten(rows):
        batch = collate(rows)
        return batch | {"position_ids": torch.arange(batch["input_ids"].shape[1])[None]}

    with pytest.raises(BatchError, match="`position_ids` do not begin at 0 in each document"):
        trained(settings, PackedDataset(folder), data_collator=rewritten, callbacks=[CheckCallback()])


def test_a_collator_that_overwrites_labels_is_refused(settings, folder):
    def overwritten(rows):
        batch = collate(rows)
        return batch | {"labels": batch["input_ids"].clone()}

    with pytest.raises(BatchError, match="column `labels` of the first batch is not that of its rows"):
        trained(settings, PackedDataset(folder), data_collator=overwritten, callbacks=[CheckCallback()])


def test_a_collator_that_loses_tokens_is_refused(settings, folder):
    def truncated(rows):
        cut = [{**row, "seq_lengths": row["seq_lengths"][:1]} for row in rows]
        for row in cut:
            size = int(row["seq_lengths"][0])
            row.update({name: row[name][:size] for name in ("input_ids", "labels", "position_ids")})
        return collate(cut)

    with pytest.raises(BatchError, match="column `input_ids` of the first batch is not that of its rows"):
        trained(settings, PackedDataset(folder), data_collator=truncated, callbacks=[CheckCallback()])


def test_labels_that_are_shifted_twice_are_refused(settings, folder):
    collator = partial(collate, shift_labels=True)
    with pytest.raises(BatchError, match="the labels are shifted, and the model shifts them once more"):
        trained(settings, PackedDataset(folder), data_collator=collator, callbacks=[CheckCallback()])


@pytest.mark.parametrize("name", ["dispatch_batches", "split_batches"])
def test_settings_of_accelerate_that_cut_batches_are_refused(settings, folder, name):
    settings["accelerator_config"] = {name: True}
    with pytest.raises(BatchError, match=rf"`{name}` of Accelerate cuts batches"):
        trained(settings, PackedDataset(folder), data_collator=collate, callbacks=[CheckCallback()])


@pytest.mark.parametrize("kind", [PackedDataset, fastpack.hf.load])
def test_a_sampler_that_shuffles_balanced_rows_is_refused(settings, tmp_path, kind):
    pack(
        documents(60),
        output=tmp_path / "balanced",
        order=fastpack.Balanced(2, on_remainder="drop"),
        columns=["input_ids", "labels", "seq_lengths", "group"],
    )
    dataset = kind(tmp_path / "balanced")
    settings["remove_unused_columns"] = False
    with pytest.raises(BatchError, match=r'order=Balanced\(.* train_sampling_strategy="sequential"'):
        trained(settings, dataset, data_collator=collate, callbacks=[CheckCallback()])
    settings["train_sampling_strategy"] = "sequential"
    trained(settings, dataset, data_collator=collate, callbacks=[CheckCallback()])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"padding_free": False, "max_length": None}, "padding_free=False .* each row one document"),
        ({}, "padding_free=False"),
        ({"packing": True, "max_length": 64}, "packing=True packs packed rows again"),
    ],
)
def test_settings_of_trl_that_spoil_packed_rows_are_refused(settings, folder, tokenizer, given, message):
    with pytest.raises(BatchError, match=message):
        sft(settings | given, fastpack.hf.load(folder), tokenizer)


def test_the_default_max_length_of_trl_is_refused_for_longer_rows(settings, tmp_path, tokenizer):
    pack(documents(200), max_length=2048, output=tmp_path / "long")
    settings["remove_unused_columns"] = False
    with pytest.raises(BatchError, match=r"max_length=1024 cuts rows that were packed with max_length=2048"):
        sft(settings, fastpack.hf.load(tmp_path / "long"), tokenizer, data_collator=collate)
    settings["max_length"] = None
    sft(settings, fastpack.hf.load(tmp_path / "long"), tokenizer, data_collator=collate)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"packing": True}, "`packing`: must be False for packed rows, not `True`"),
        ({"max_length": 512}, "`max_length`: must be None for packed rows"),
        ({"padding_free": False}, "`padding_free`: must be True"),
        (
            {"dataset_kwargs": {"skip_prepare_dataset": False}},
            "`dataset_kwargs`: must have skip_prepare_dataset=True",
        ),
    ],
)
def test_our_settings_for_trl_refuse_what_spoils_packed_rows(settings, given, message):
    with pytest.raises(OptionError, match=message):
        fastpack.hf.sft_config(**settings, **given)


def test_a_model_that_ignores_positions_is_refused(settings, folder):
    with pytest.raises(BatchError, match=r"`opt` does not read"):
        trained(
            settings, PackedDataset(folder), model="opt", data_collator=collate, callbacks=[CheckCallback()]
        )


def test_a_resumed_stream_whose_batches_are_skipped_again_is_refused(settings, folder):
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(PackedDataset(folder))

        def load_state_dict(self, state):
            """As a stream that can be resumed."""

    class Resumed(TrainerCallback):
        def on_train_begin(self, args, state, control, **given):
            state.global_step = 2

    with pytest.raises(BatchError, match="ignore_data_skip=True"):
        trained(settings, Stream(), data_collator=collate, callbacks=[Resumed(), CheckCallback()])


def test_outside_of_a_trainer_it_says_what_to_call():
    with pytest.raises(BatchError, match="call fastpack"):
        CheckCallback().on_train_begin(None, None, None)


def test_a_data_set_without_rows_is_refused(settings, folder):
    dataset = PackedDataset(fastpack.read(folder)[:0])
    with pytest.raises((BatchError, ValueError), match=r"no rows|num_samples"):
        trained(settings, dataset, data_collator=collate, callbacks=[CheckCallback()])


def test_the_losses_of_a_trainer_are_those_of_documents_one_by_one(settings, folder):
    """The first loss under accumulation: over all labels of the step, not batch by batch."""
    settings |= {"gradient_accumulation_steps": 3, "per_device_train_batch_size": 1, "max_steps": 1}
    settings["train_sampling_strategy"] = "sequential"
    found = trained(settings, PackedDataset(folder), data_collator=collate, callbacks=[CheckCallback()])
    total = count = 0
    model = model_of("llama")
    for row in fastpack.read(folder).to_pylist()[:3]:
        for end, length in zip(np.cumsum(row["seq_lengths"]), row["seq_lengths"], strict=True):
            ids, labels = (torch.tensor([row[name][end - length : end]]) for name in ("input_ids", "labels"))
            trained_here = int((labels != -100).sum())
            if trained_here:
                total += model(input_ids=ids, labels=labels).loss.item() * trained_here
                count += trained_here
    assert found[0] == pytest.approx(total / count, abs=1e-4)
