"""`collate`: what a model is given of packed rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from conftest import documents, pack
from hypothesis import given
from hypothesis import strategies as st
from transformers import DataCollatorWithFlattening

from fastpack import BatchError, OptionError
from fastpack.torch import PackedDataset, collate


def documents_of(row):
    """The documents of a row, each as a sample."""
    ends = np.cumsum(row["seq_lengths"])
    return [
        {name: row[name][end - length : end] for name in ("input_ids", "labels")}
        for end, length in zip(ends, row["seq_lengths"], strict=True)
    ]


@given(
    seed=st.integers(0, 99),
    count=st.integers(1, 12),
    padding=st.sampled_from([{}, {"pad_to": "max_length"}, {"align_documents_to": 8}]),
)
def test_a_batch_is_what_transformers_makes_of_the_documents(seed, count, padding):
    options = padding and {**padding, "pad_token_id": 0}
    rows = pack(documents(count, seed=seed), **options).to_pylist()
    batch = collate(rows, seq_idx=True)
    theirs = DataCollatorWithFlattening(return_flash_attn_kwargs=True, return_seq_idx=True)(
        [document for row in rows for document in documents_of(row)]
    )
    for name, value in theirs.items():
        assert torch.equal(torch.as_tensor(batch[name]), torch.as_tensor(value)), name
    assert "attention_mask" not in batch
    assert batch["use_cache"] is False
    types = {name: value.dtype for name, value in batch.items() if isinstance(value, torch.Tensor)}
    assert types == {
        "input_ids": torch.int64,
        "labels": torch.int64,
        "position_ids": torch.int64,
        "cu_seq_lens_q": torch.int32,
        "cu_seq_lens_k": torch.int32,
        "seq_idx": torch.int32,
    }


def test_lists_arrays_tensors_and_rows_of_a_data_set_give_the_same_batch(rows, folder):
    kinds = [
        rows,
        [{name: np.array(values) for name, values in row.items()} for row in rows],
        [{name: torch.tensor(values) for name, values in row.items()} for row in rows],
        list(PackedDataset(pack(documents(12)))),
    ]
    first, *others = [collate(kind) for kind in kinds]
    for other in others:
        assert other.keys() == first.keys()
        for name, value in first.items():
            assert torch.equal(torch.as_tensor(other[name]), torch.as_tensor(value)), name


def test_a_batch_may_be_written_to_and_the_folder_stays_as_it_is(folder):
    dataset = PackedDataset(folder)
    before = dataset.table.to_pylist()
    for tensor in collate([dataset[0]]).values():
        if isinstance(tensor, torch.Tensor):
            tensor.zero_()
    assert dataset.table.to_pylist() == before


@pytest.mark.parametrize("padded", ["longest", 80])
def test_padded_rows_have_positions_that_count_up_and_a_mask_of_blocks(rows, padded):
    batch = collate(rows, padded=padded, pad_token_id=7)
    width = 80 if padded == 80 else max(len(row["input_ids"]) for row in rows)
    assert batch["input_ids"].shape == (len(rows), width)
    for number, row in enumerate(rows):
        size = len(row["input_ids"])
        assert batch["input_ids"][number].tolist() == row["input_ids"] + [7] * (width - size)
        assert batch["labels"][number].tolist() == row["labels"] + [-100] * (width - size)
        assert batch["position_ids"][number].tolist() == row["position_ids"] + list(range(width - size))
        document = [at for at, length in enumerate(row["seq_lengths"]) for _ in range(length)]
        document += [len(row["seq_lengths"])] * (width - size)
        seen = [[document[q] == document[k] and k <= q for k in range(width)] for q in range(width)]
        assert (batch["attention_mask"][number, 0] == 0).tolist() == seen


def test_a_row_of_one_document_gets_the_usual_mask():
    rows = pack(documents(5), strategy="none").to_pylist()
    batch = collate(rows, padded="longest", mask="padding")
    width = max(len(row["input_ids"]) for row in rows)
    assert batch["attention_mask"].tolist() == [
        [1] * len(row["input_ids"]) + [0] * (width - len(row["input_ids"])) for row in rows
    ]
    padded = pack(documents(5), strategy="none", pad_to="max_length", pad_token_id=0).to_pylist()
    batch = collate(padded, padded=64, mask="padding")
    assert batch["attention_mask"].sum(1).tolist() == [row["seq_lengths"][0] for row in padded]


def test_a_mask_of_zeros_and_ones_is_refused_for_rows_of_several_documents(rows):
    with pytest.raises(BatchError, match=r'holds \d+ documents, .* mask="documents"'):
        collate(rows, padded="longest", mask="padding")


def test_shifted_labels_are_those_of_rows_that_were_packed_so(rows):
    shifted = pack(documents(12), shift_labels=True).to_pylist()
    batch = collate(rows, shift_labels=True)
    assert batch["labels"][0].tolist() == [label for row in shifted for label in row["labels"]]
    assert torch.equal(collate(shifted, shift_labels=True)["labels"], batch["labels"])


def test_rows_with_shifted_labels_are_refused_where_the_model_would_shift_them_again():
    shifted = pack(documents(12), shift_labels=True).to_pylist()
    with pytest.raises(BatchError, match=r"shifted already, .* shift_labels=True"):
        collate(shifted)


def test_the_first_label_of_a_document_is_never_trained(rows):
    """TRL packs labels as they are."""
    for row in rows:
        row["labels"] = list(row["input_ids"])
    batch = collate(rows)
    starts = batch["cu_seq_lens_q"][:-1].long()
    assert (batch["labels"][0, starts] == -100).all()
    assert (batch["labels"] == -100).sum() == len(starts)


def test_loss_weights_are_given_where_they_are_asked_for():
    rows = pack(documents(12, weighted=True)).to_pylist()
    flat = [weight for row in rows for weight in row["loss_weights"]]
    batch = collate(rows, loss_weights=True)
    assert batch["loss_weights"].dtype == torch.float32
    assert batch["loss_weights"][0].tolist() == flat
    plain = collate(rows)
    assert "loss_weights" not in plain
    assert plain["labels"].loss_weights[0].tolist() == flat
    shifted = collate(rows, loss_weights=True, shift_labels=True)
    assert shifted["loss_weights"][0].tolist() == [*flat[1:], 0]


def test_rows_that_lost_their_lengths_are_refused(rows):
    kept = [{name: row[name] for name in ("input_ids", "labels", "position_ids")} for row in rows]
    with pytest.raises(BatchError, match=r"no column `seq_lengths`.* remove_unused_columns=False"):
        collate(kept)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda row: row.pop("input_ids"), "row 1 of the batch has no column `input_ids`; it has `labels`"),
        (lambda row: row.pop("labels"), "row 1 of the batch has no column `labels`, which row 0 has"),
        (
            lambda row: row["input_ids"].pop(),
            r"row 1 of the batch has \d+ values in `input_ids`, .* max_length=None",
        ),
    ],
)
def test_rows_that_contradict_themselves_are_refused_by_number_and_column(rows, spoil, message):
    spoil(rows[1])
    with pytest.raises(BatchError, match=message):
        collate(rows)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"padded": 3}, r"`padded`: a row has \d+ tokens, more than 3"),
        ({"padded": "max_length"}, '`padded`: must be a number of tokens or "longest"'),
        ({"mask": "flex"}, "`mask`: rows that are laid end to end have none"),
        ({"padded": 80, "mask": "causal"}, "`mask`: must be one of"),
        ({"seq_idx": 1}, "`seq_idx`: must be True or False"),
    ],
)
def test_options_are_refused_by_name(rows, options, message):
    with pytest.raises(OptionError, match=message):
        collate(rows, **options)


def test_no_rows_are_refused():
    with pytest.raises(BatchError, match="no rows"):
        collate([])


def test_a_row_of_nothing_but_padding_has_no_labels():
    table = pack(
        documents(9),
        order="balanced",
        balance_ranks=8,
        pad_to="max_length",
        pad_token_id=0,
        strategy="best_fit",
    )
    for row in table.to_pylist():
        batch = collate([row])
        assert int(batch["cu_seq_lens_q"][-1]) == 64
