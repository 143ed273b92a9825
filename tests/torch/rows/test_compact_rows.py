"""Rows in the compact layout reach a model as those of the full layout, by every way."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest
import torch
from conftest import documents, pack
from small_models import model_of
from torch.utils.data import DataLoader
from transformers import Trainer, TrainingArguments

import fastpack.hf
from fastpack import BatchError
from fastpack.torch import CheckCallback, PackedDataset, collate, loss

COLUMNS = ["labels", "input_ids", "seq_lengths", "loss_weights", "position_ids", "document_ids", "attn_cost"]


def packed(tmp_path, **options):
    """The same rows in both layouts."""
    folders = []
    for layout in ("full", "compact"):
        options = {"columns": COLUMNS, "shard_size": 3000, "keep_tokens": True, **options}
        pack(documents(80, weighted=True), output=tmp_path / layout, layout=layout, **options)
        folders.append(tmp_path / layout)
    return folders


def as_lists(dataset):
    return [{name: np.asarray(value).tolist() for name, value in row.items()} for row in dataset]


def are_same(one, other):
    """True if two batches hold the same values of the same types."""
    assert one.keys() == other.keys()
    for name, values in one.items():
        if isinstance(values, torch.Tensor):
            assert other[name].dtype == values.dtype
            assert torch.equal(other[name].as_subclass(torch.Tensor), values.as_subclass(torch.Tensor))
        else:
            assert other[name] == values
    weights = [getattr(batch["labels"], "loss_weights", None) for batch in (one, other)]
    assert (weights[0] is None) == (weights[1] is None)
    assert weights[0] is None or torch.equal(*weights)
    return True


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"objective": fastpack.CausalLM(shift_labels=True)},
        {"padding": fastpack.Padding("max_length", token_id=0)},
    ],
)
def test_a_data_set_has_the_rows_of_the_full_layout(tmp_path, kind, options):
    full, compact = (PackedDataset(folder) for folder in packed(tmp_path, format=kind, **options))
    assert as_lists(compact) == as_lists(full)
    for ours, theirs in zip(compact, full, strict=True):
        assert {name: np.asarray(value).dtype for name, value in ours.items()} == {
            name: np.asarray(value).dtype for name, value in theirs.items()
        }
        assert list(ours) == list(theirs)


def test_ids_are_read_where_they_lie(tmp_path):
    dataset = PackedDataset(packed(tmp_path)[1])
    assert dataset.table.schema.field("input_ids").type.value_type == pa.uint32()
    assert "label_spans" in dataset.table.column_names


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"loss_weights": True, "seq_idx": True},
        {"padded": "longest"},
        {"padded": 80, "shift_labels": True},
    ],
)
def test_batches_are_those_of_the_full_layout(tmp_path, given):
    full, compact = packed(tmp_path)
    batches = [
        collate([row for row, _ in zip(PackedDataset(each), range(5), strict=False)], **given)
        for each in (full, compact)
    ]
    assert are_same(*batches)
    # Rows as `datasets` gives them without the transform.
    raw = fastpack.hf.load(compact).with_format(None)
    assert "labels" not in raw[0]
    assert are_same(collate(list(raw.select(range(5))), **given), batches[0])


def test_shifted_rows_are_refused_in_both_layouts(tmp_path):
    for folder in packed(tmp_path, objective=fastpack.CausalLM(shift_labels=True)):
        with pytest.raises(BatchError, match="shifted already"):
            collate([PackedDataset(folder)[0]])
        collate([PackedDataset(folder)[0]], shift_labels=True)


def test_a_row_that_was_cut_is_refused(tmp_path):
    row = fastpack.hf.load(packed(tmp_path)[1]).with_format(None)[0]
    with pytest.raises(BatchError, match=r"row 0 of the batch: runs of labels .* leave a row of 40 tokens"):
        collate([{**row, "input_ids": row["input_ids"][:40]}])


def test_columns_are_chosen_by_their_names_in_the_full_layout(tmp_path):
    full, compact = (PackedDataset(folder, columns=["labels", "seq_lengths"]) for folder in packed(tmp_path))
    assert as_lists(compact) == as_lists(full)


def test_a_data_set_is_pickled_and_read_by_workers(tmp_path):
    full, compact = packed(tmp_path)
    dataset = PackedDataset(compact)
    assert len(pickle.dumps(dataset)) < 1500
    loaders = [
        DataLoader(PackedDataset(folder), batch_size=4, num_workers=workers, collate_fn=collate)
        for folder, workers in ((full, 0), (compact, 2))
    ]
    assert all(are_same(one, other) for one, other in zip(*loaders, strict=True))


def test_several_folders_of_both_layouts_are_one_data_set(tmp_path):
    full, compact = packed(tmp_path)
    assert as_lists(PackedDataset([compact, full])) == [*as_lists(PackedDataset(full))] * 2
    assert as_lists(PackedDataset([compact, compact])) == [*as_lists(PackedDataset(full))] * 2


def test_rows_are_packed_anew_as_those_of_the_full_layout(tmp_path):
    full, compact = (PackedDataset(folder, repack=True, seed=3) for folder in packed(tmp_path))
    for epoch in (0, 5):
        full.set_epoch(epoch)
        compact.set_epoch(epoch)
        assert as_lists(compact) == as_lists(full)


def test_a_data_set_of_datasets_has_the_rows_of_the_full_layout(tmp_path):
    full, compact = (fastpack.hf.load(folder) for folder in packed(tmp_path))
    assert compact[:] == full[:]
    assert list(compact[3]) == list(full[3])
    assert compact.select([4, 2]).shuffle(seed=1)[0] == full.select([4, 2]).shuffle(seed=1)[0]
    assert pickle.loads(pickle.dumps(compact))[1] == full[1]
    row = PackedDataset(compact)[1]
    assert {name: np.asarray(row[name]).tolist() for name in ("labels", "loss_weights")} == {
        name: full[1][name] for name in ("labels", "loss_weights")
    }


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
    }


def losses(settings, dataset):
    trainer = Trainer(
        model_of("llama"),
        TrainingArguments(**settings),
        train_dataset=dataset,
        data_collator=collate,
        callbacks=[CheckCallback()],
        compute_loss_func=loss,
    )
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def test_a_trainer_trains_as_on_the_full_layout(tmp_path, settings):
    full, compact = packed(tmp_path)
    expected = losses(settings, PackedDataset(full))
    assert losses(settings, PackedDataset(compact)) == expected
    settings["remove_unused_columns"] = False
    assert losses(settings, fastpack.hf.load(compact)) == expected


def test_a_trainer_that_removes_runs_of_labels_is_refused(tmp_path, settings):
    _, compact = packed(tmp_path)
    with pytest.raises(BatchError, match=r"compact layout is gone; pass remove_unused_columns=False"):
        losses(settings, fastpack.hf.load(compact))


def test_an_sft_trainer_trains_as_on_the_full_layout(tmp_path, settings):
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast
    from trl import SFTTrainer

    backend = Tokenizer(models.WordLevel({"<pad>": 0, "<s>": 1, "</s>": 2}, unk_token="</s>"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", eos_token="</s>")
    found = []
    for layout in ("full", "compact"):
        pack(documents(60), output=tmp_path / layout, layout=layout)
        trainer = SFTTrainer(
            model_of("llama"),
            args=fastpack.hf.sft_config(**settings, bf16=False),
            train_dataset=fastpack.hf.load(tmp_path / layout),
            processing_class=tokenizer,
            callbacks=[CheckCallback()],
        )
        trainer.train()
        found.append([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
    assert found[0] == found[1]
