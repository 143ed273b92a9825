"""`pack_step`: columns of ranks without sequences, of tensors of any type and device, and those that are refused by name."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import torch

import fastpack
from fastpack.torch import pack_step

MASK = torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0]])


class OnDevice:
    """A tensor of a device, as far as plans look at it: numpy does not read it."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __array__(self, *_, **__):
        raise TypeError

    def detach(self):
        return self

    def cpu(self):
        return self.tensor


def test_lengths_on_a_device_are_read():
    plan = fastpack.plan_step(OnDevice(torch.tensor([3, 2])), max_length=8)
    assert plan == fastpack.plan_step([3, 2], max_length=8)


@pytest.mark.parametrize("of", [torch.tensor, list, lambda values: [torch.tensor(it) for it in values]])
def test_labels_in_tensors_are_compared_by_their_values(of):
    lengths, labels = [4] * 8, [0, 1] * 4
    wanted = fastpack.plan_step(lengths, max_length=8, ranks=2, groups=labels, kinds=labels)
    assert fastpack.plan_step(lengths, max_length=8, ranks=2, groups=of(labels), kinds=of(labels)) == wanted
    columns = {"input_ids": [[1, 2, 3, 4]] * 8}
    steps = [pack_step(columns, wanted, rank=rank, weights="group", groups=of(labels)) for rank in range(2)]
    weights = torch.cat([batch.columns["loss_weights"].flatten() for step in steps for batch in step])
    # Two groups, each with three trained tokens in four sequences.
    assert weights.sum().item() == pytest.approx(1)
    assert weights.max().item() == pytest.approx(1 / (2 * 12))


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.bfloat16, torch.float32])
def test_a_mask_of_any_type_says_what_counts(dtype):
    mask = torch.tensor([[0, 1, 1], [1, 1, 1]]).to(dtype).requires_grad_(dtype.is_floating_point)
    plan = fastpack.plan_step([2, 3], max_length=8)
    (batch,) = pack_step({"input_ids": torch.tensor([[0, 5, 6], [7, 8, 9]])}, plan, attention_mask=mask)
    assert batch.inputs["input_ids"].tolist() == [[7, 8, 9, 5, 6]]


EMPTY = {
    "lists": ({"input_ids": [], "old": [], "loss_mask": []}, {}),
    "arrow": (
        pa.table({name: pa.array([], pa.list_(pa.float32())) for name in ("input_ids", "old", "loss_mask")}),
        {},
    ),
    "nulls": (pa.table({"input_ids": [], "old": [], "loss_mask": []}), {}),
    "padded": (
        {name: torch.zeros(0, 5) for name in ("input_ids", "old", "loss_mask")},
        {"attention_mask": torch.zeros(0, 5)},
    ),
    "flat": ({"input_ids": np.empty(0, np.int64), "old": [], "loss_mask": []}, {"lengths": []}),
}


@pytest.mark.parametrize("form", EMPTY)
@pytest.mark.parametrize("weights", ["token", "sequence", "group", "constant"])
def test_a_rank_without_sequences_takes_part(form, weights):
    columns, options = EMPTY[form]
    asked = []
    plan = fastpack.plan_step([], max_length=8, mini_batches=2, all_reduce=lambda number: max(number, 2))
    step = pack_step(
        columns,
        plan,
        shifted=["old"],
        weights=weights,
        groups=[],
        constant=4.0,
        all_reduce_sum=lambda numbers: asked.append(numbers) or [3.0] * len(numbers),
        **options,
    )
    assert asked == [[0.0, 0.0]]
    assert [batch.mini_batch for batch in step] == [0, 0, 1, 1]
    for batch in step:
        assert batch.columns["old"].shape == batch.inputs["input_ids"].shape == (1, 1)
        assert batch.columns["loss_weights"].tolist() == [[0.0]]
        assert batch.inputs["labels"].tolist() == [[-100]]


def test_flat_columns_of_sequences_of_one_token():
    plan = fastpack.plan_step([1, 1], max_length=8)
    (batch,) = pack_step({"input_ids": np.array([5, 6])}, plan, lengths=[1, 1])
    assert batch.inputs["input_ids"].tolist() == [[5, 6]]


def test_a_table_of_several_chunks_is_read_where_it_lies():
    lengths = [3, 1, 2, 4, 2]
    ids = [list(range(10 * at, 10 * at + length)) for at, length in enumerate(lengths)]
    table = pa.table({"input_ids": ids, "vectors": [[[it, -it] for it in of_each] for of_each in ids]})
    table = table.append_column("rewards", pa.array([float(it) for it in lengths]))
    table = table.set_column(1, "vectors", table["vectors"].cast(pa.list_(pa.list_(pa.int64(), 2))))
    chunked = pa.concat_tables([table.slice(0, 2), table.slice(2, 0), table.slice(2, 3)])
    assert chunked["input_ids"].num_chunks > 1
    plan = fastpack.plan_step(lengths, max_length=5)
    for one, other in zip(pack_step(chunked, plan), pack_step(table.combine_chunks(), plan), strict=True):
        assert torch.equal(one.inputs["input_ids"], other.inputs["input_ids"])
        for name in ("vectors", "rewards"):
            assert torch.equal(one.columns[name], other.columns[name])


def test_numbers_of_another_byte_order_are_read():
    plan = fastpack.plan_step([2], max_length=8)
    (batch,) = pack_step(
        {"input_ids": [np.array([5, 6], dtype=">i4")], "rewards": np.array([2.5], dtype=">f4")}, plan
    )
    assert (batch.inputs["input_ids"].tolist(), batch.columns["rewards"].tolist()) == ([[5, 6]], [2.5])


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (
            {"loss_weights": [[1.0] * 3, [1.0] * 2]},
            {"weights": "token"},
            "`weights`: would replace the column",
        ),
        ({"x": np.ones(2, np.longdouble)}, {}, "column `x` holds numbers of"),
        ({"x": [np.ones(3, np.longdouble), np.ones(2, np.longdouble)]}, {}, "column `x"),
        (
            {"x": torch.zeros(2, 2)},
            {"attention_mask": MASK},
            "`attention_mask` has 4 columns; .*`completion_only`",
        ),
        ({"x": torch.zeros(2, 3)}, {"attention_mask": MASK}, "put a column of padding at its end.*`shifted`"),
        ({}, {"weights": "group"}, "`groups`: must be the group of each sequence"),
        ({}, {"weights": "group", "groups": [[1], [2]]}, "`groups`: must have values that `hash` takes"),
        ({}, {"weights": "group", "groups": [1]}, "`groups`: has 1 values for 2 sequences"),
    ],
)
def test_what_cannot_be_packed_is_refused_by_name(columns, options, message):
    plan = fastpack.plan_step([3, 2], max_length=8)
    ids = torch.zeros(2, 4, dtype=torch.int64) if "attention_mask" in options else [[1, 2, 3], [4, 5]]
    with pytest.raises((fastpack.OptionError, fastpack.BatchError), match=message):
        pack_step({"input_ids": ids} | columns, plan, **options)
