"""`PackedDataset`: rows of folders and tables, in workers too."""

from __future__ import annotations

import pickle

import datasets
import numpy as np
import pyarrow as pa
import pytest
import torch
from conftest import documents, pack, table_of
from torch.utils.data import DataLoader

import fastpack
from fastpack import FastpackError, OptionError
from fastpack.torch import PackedDataset, collate


def as_lists(dataset):
    return [{name: np.asarray(value).tolist() for name, value in row.items()} for row in dataset]


def test_the_rows_are_those_of_the_folder(folder):
    dataset = PackedDataset(folder)
    expected = fastpack.read(folder).to_pylist()
    assert len(dataset) == len(expected)
    assert as_lists(dataset) == expected
    assert dataset[-1]["input_ids"].tolist() == expected[-1]["input_ids"]
    with pytest.raises(IndexError):
        dataset[len(dataset)]


def test_rows_lie_in_the_mapped_file(folder):
    row = PackedDataset(folder)[0]
    assert not row["input_ids"].flags.owndata
    assert not row["input_ids"].flags.writeable


def test_a_row_is_no_dict_so_a_trainer_takes_no_columns_out(folder):
    from transformers.trainer_utils import RemoveColumnsCollator

    batch = RemoveColumnsCollator(collate, ["input_ids", "labels"])([PackedDataset(folder)[0]])
    assert "cu_seq_lens_q" in batch


def test_several_folders_are_one_after_the_other(folder, tmp_path):
    pack(documents(20, seed=5), output=tmp_path / "second")
    dataset = PackedDataset([folder, tmp_path / "second"])
    both = [*fastpack.read(folder).to_pylist(), *fastpack.read(tmp_path / "second").to_pylist()]
    assert as_lists(dataset) == both


def test_folders_with_different_columns_are_refused_by_name(folder, weighted_folder):
    with pytest.raises(OptionError, match=r"packed has no column `loss_weights`, which .*weighted has"):
        PackedDataset([folder, weighted_folder])


def test_a_data_set_is_pickled_by_its_path(folder):
    dataset = PackedDataset(folder)
    pickled = pickle.dumps(dataset)
    assert len(pickled) < 1000 < dataset.table.nbytes
    assert as_lists(pickle.loads(pickled)) == as_lists(dataset)


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_give_the_same_batches(weighted_folder, start):
    dataset = PackedDataset(weighted_folder)
    options = {"batch_size": 2, "collate_fn": collate}
    alone = list(DataLoader(dataset, **options))
    shared = list(DataLoader(dataset, **options, num_workers=2, multiprocessing_context=start))
    assert len(alone) == len(shared)
    for one, other in zip(alone, shared, strict=True):
        for name, value in one.items():
            assert torch.equal(torch.as_tensor(value), torch.as_tensor(other[name])), name
        assert torch.equal(one["labels"].loss_weights, other["labels"].loss_weights)


@pytest.mark.parametrize("kind", ["table", "dataset", "dicts"])
def test_tokenized_rows_are_packed(kind):
    columns = documents(30)
    table = table_of(columns)
    source = {"table": table, "dataset": datasets.Dataset(table), "dicts": table.to_pylist()}[kind]
    dataset = PackedDataset(source, max_length=64)
    assert as_lists(dataset) == pack(columns).to_pylist()


def test_rows_that_are_not_packed_need_a_length_and_packed_ones_have_none(folder):
    with pytest.raises(OptionError, match="`max_length`: the rows have no column `seq_lengths`"):
        PackedDataset(table_of(documents(3)))
    with pytest.raises(OptionError, match="`max_length`: the rows are packed already"):
        PackedDataset(folder, max_length=64)


def test_nothing_to_read_is_refused():
    with pytest.raises(OptionError, match="`source`: must be a folder, several, a table or rows"):
        PackedDataset([])
    with pytest.raises(OptionError, match="`source`: must be"):
        PackedDataset(3)


def test_a_column_of_texts_is_refused_by_name():
    table = pack(documents(5)).append_column("note", pa.array(["a"] * pack(documents(5)).num_rows))
    with pytest.raises(FastpackError, match="column `note` is string"):
        PackedDataset(table)


def test_stats_print_what_was_before_and_after(capsys):
    columns = documents(30)
    PackedDataset(table_of(columns), max_length=64).stats()
    lengths = [len(ids) for ids in columns["input_ids"]]
    rows = [len(ids) for ids in pack(columns)["input_ids"].to_pylist()]
    printed = capsys.readouterr().out
    assert f"documents    30 → {len(rows)} rows" in printed
    assert f"mean length  {sum(lengths) / 30:,.1f} → {sum(rows) / len(rows):,.1f} tokens" in printed
    assert f"fill         {sum(lengths) / 30 / max(lengths):.1%} if padded to the longest" in printed


def test_rows_of_several_documents_are_not_packed_as_one():
    """Their positions start again, and `seq_lengths` is gone."""
    packed = pack(documents(62)).select(["input_ids", "position_ids"])
    with pytest.raises(
        OptionError, match=r"`source`: row 0 has `position_ids` that start again, .* `seq_lengths`"
    ):
        PackedDataset(packed, max_length=128)
    alone = pack(documents(6), strategy="none").select(["input_ids", "position_ids"])
    assert sum(len(row["seq_lengths"]) for row in PackedDataset(alone, max_length=128)) == 6


@pytest.mark.parametrize("source", [[{"input_ids": [1]}, {"input_ids": "text"}], [{"input_ids": [1, "a"]}]])
def test_what_cannot_be_a_table_is_refused_by_name(source):
    with pytest.raises(OptionError, match="`source`: holds what cannot be columns of a table"):
        PackedDataset(source, max_length=8)
