"""`collate`: the input of a model from packed rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from conftest import documents, pack
from hypothesis import given
from hypothesis import strategies as st
from transformers import DataCollatorWithFlattening

from fastpack import Balanced, BatchError, CausalLM, Mix, OptionError, Padding
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
    padding=st.sampled_from(
        [
            {},
            {"padding": Padding("max_length", token_id=0)},
            {"strategy": Mix(align_to=8), "padding": Padding(token_id=0)},
        ]
    ),
)
def test_a_batch_is_what_transformers_makes_of_the_documents(seed, count, padding):
    rows = pack(documents(count, seed=seed), **padding).to_pylist()
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
    padded = pack(documents(5), strategy="none", padding=Padding("max_length", token_id=0)).to_pylist()
    batch = collate(padded, padded=64, mask="padding")
    assert batch["attention_mask"].sum(1).tolist() == [row["seq_lengths"][0] for row in padded]


def test_a_mask_of_zeros_and_ones_is_refused_for_rows_of_several_documents(rows):
    with pytest.raises(BatchError, match=r'holds \d+ documents, .* mask="documents"'):
        collate(rows, padded="longest", mask="padding")


def test_shifted_labels_are_those_of_rows_that_were_packed_so(rows):
    shifted = pack(documents(12), objective=CausalLM(shift_labels=True)).to_pylist()
    batch = collate(rows, shift_labels=True)
    assert batch["labels"][0].tolist() == [label for row in shifted for label in row["labels"]]
    assert torch.equal(collate(shifted, shift_labels=True)["labels"], batch["labels"])


def test_rows_with_shifted_labels_are_refused_where_the_model_would_shift_them_again():
    shifted = pack(documents(12), objective=CausalLM(shift_labels=True)).to_pylist()
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
        ({"padded": True}, '`padded`: must be a number of tokens or "longest"'),
        ({"padded": 2**70}, '`padded`: must be a number of tokens or "longest"'),
        ({"pad_token_id": None}, "`pad_token_id`: must be a whole number"),
    ],
)
def test_options_are_refused_by_name(rows, options, message):
    with pytest.raises(OptionError, match=message):
        collate(rows, **options)


WRONG = {
    "lengths below 0": ("seq_lengths", [5, -2], r"has the length -2 in `seq_lengths`"),
    "lengths of fractions": (
        "seq_lengths",
        [1.5, 1.5],
        r"no list of whole numbers of 64 bits in `seq_lengths`",
    ),
    "lengths that wrap": (
        "seq_lengths",
        [2**62, 2**62, 2**62, 2**62, 3],
        r"has the length 4611686018427387904",
    ),
    "ids of fractions": ("input_ids", [5.5, 6, 7], r"no list of whole numbers of 64 bits in `input_ids`"),
    "whole floats": ("input_ids", [5.0, 6.0, 7.0], r"no list of whole numbers of 64 bits in `input_ids`"),
    "ids of 64 bits": (
        "input_ids",
        np.array([1, 2, 2**63], np.uint64),
        r"has 9223372036854775808 in `input_ids`",
    ),
    "ids of more bits": ("input_ids", [1, 2, 2**64], r"no list of whole numbers of 64 bits in `input_ids`"),
    "text": ("input_ids", "abc", r"no list of whole numbers of 64 bits in `input_ids`, but `'abc'`"),
    "a number": ("input_ids", 7, r"no list of whole numbers of 64 bits in `input_ids`, but `7`"),
    "a null": ("labels", [1, None, 3], r"no list of whole numbers of 64 bits in `labels`"),
    "truths": ("labels", [True, False, True], r"no list of whole numbers of 64 bits in `labels`"),
    "lists of lists": ("labels", [[1], [2], [3]], r"no list of whole numbers of 64 bits in `labels`"),
    "uneven lists": ("labels", [[1], [2, 3]], r"no list of whole numbers of 64 bits in `labels`"),
    "too few": ("labels", [1, 2], r"has 2 values in `labels`, but its `seq_lengths` come to 3"),
    "weights of text": ("loss_weights", ["a", "b", "c"], r"no list of numbers in `loss_weights`"),
    "no weights": (
        "loss_weights",
        [1.0, float("nan"), 1.0],
        r"a weight in `loss_weights` that is not finite",
    ),
    "a missing column": ("labels", None, r"has no column `labels`, which row [012] has"),
}


@pytest.mark.parametrize("at", range(3))
@pytest.mark.parametrize("case", WRONG)
def test_every_row_is_checked_by_type_and_sum(at, case):
    """The first, the last and one between: no row stands for the others."""
    rows = [
        {"input_ids": [5, 6, 7], "labels": [-100, 6, 7], "loss_weights": [0.0, 1, 1], "seq_lengths": [2, 1]}
        for _ in range(3)
    ]
    column, values, message = WRONG[case]
    rows[at].pop(column)
    if values is not None:
        rows[at][column] = values
    with pytest.raises(BatchError, match=f"row {at} of the batch .*{message}"):
        collate(rows)


@pytest.mark.parametrize("rows", [5, None, "rows", {"input_ids": [1], "seq_lengths": [1]}, [5], [None]])
def test_what_is_no_list_of_rows_is_refused(rows):
    with pytest.raises(OptionError, match="`rows`: must be"):
        collate(rows)


def test_numbers_of_other_widths_and_tensors_are_taken():
    row = {"input_ids": np.array([5, 6], np.uint64), "labels": torch.tensor([-100, 6], dtype=torch.int16)}
    row |= {
        "loss_weights": torch.tensor([0, 0.5], dtype=torch.bfloat16),
        "seq_lengths": np.array([2], np.uint8),
    }
    batch = collate([row], loss_weights=True)
    assert batch["input_ids"].tolist() == [[5, 6]]
    assert batch["labels"].tolist() == [[-100, 6]]
    assert batch["loss_weights"].tolist() == [[0, 0.5]]


def test_a_compact_row_is_checked_too():
    row = {"input_ids": [5, 6], "label_spans": [1, 2], "label_weights": [0.5], "seq_lengths": [2]}
    assert collate([row])["labels"].tolist() == [[-100, 6]]
    for spoilt, message in (
        ({"label_spans": [0.5, 2]}, "no list of whole numbers of 64 bits in `label_spans`"),
        ({"label_weights": [0.5, 1]}, "`label_weights` has 2 values for 1 runs"),
        ({"label_weights": [float("inf")]}, "a weight in `label_weights` that is not finite"),
    ):
        with pytest.raises(BatchError, match=message):
            collate([{**row, **spoilt}])


def test_no_rows_are_refused():
    with pytest.raises(BatchError, match="no rows"):
        collate([])


def test_a_row_of_nothing_but_padding_has_no_labels():
    table = pack(
        documents(9),
        order=Balanced(8),
        padding=Padding("max_length", token_id=0),
        strategy="best_fit",
    )
    for row in table.to_pylist():
        batch = collate([row])
        assert int(batch["cu_seq_lens_q"][-1]) == 64
