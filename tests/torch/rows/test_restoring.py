"""`restore`: values of tokens and of sequences back in their order, and shapes that are not those of the micro-batches refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_answers import sequences_of

import fastpack
from fastpack.torch import pack_step, restore


def packed(lengths, **options):
    plan = fastpack.plan_step(lengths, **options)
    return pack_step({"input_ids": sequences_of(lengths)}, plan)


@pytest.mark.parametrize("width", [(), (2,), (1,)])
@pytest.mark.parametrize(("lengths", "max_length"), [([3, 2, 4, 2], 8), ([3, 1, 1, 1], 3), ([5, 3], 5)])
def test_values_with_and_without_a_batch_dimension_come_back_alike(lengths, max_length, width):
    step = packed(lengths, max_length=max_length)
    rows = [torch.randn(1, batch.inputs["input_ids"].shape[1], *width) for batch in step]
    flat = [it[0] for it in rows]
    for back in (
        step.restore(rows),
        step.restore(flat),
        restore(step.plan, [rows]),
        restore(step.plan, [flat]),
    ):
        assert [it.shape for it in back] == [(length, *width) for length in lengths]
        for batch, values in zip(step, flat, strict=True):
            of_each = values.split(batch.lengths.tolist())
            for sequence, wanted in zip(batch.sequences.tolist(), of_each, strict=True):
                assert torch.equal(back[sequence], wanted)


def test_values_of_another_length_than_their_micro_batch_are_refused():
    step = packed([5, 3], max_length=5)
    as_wide = [torch.zeros(1, 5), torch.zeros(1, 5)]
    for back in (step.restore, lambda values: restore(step.plan, [values])):
        with pytest.raises(fastpack.BatchError, match=r"\[1, 5\] for micro-batch 1, which has 3 tokens"):
            back(as_wide)
        with pytest.raises(fastpack.BatchError, match=r"\[3\] for micro-batch 0"):
            back([torch.zeros(3), torch.zeros(5)])
        with pytest.raises(fastpack.BatchError):
            back([torch.zeros(1, 5), torch.zeros(3)])
    assert [len(it) for it in restore(step.plan, [as_wide], padded=5)] == [5, 3]
    with pytest.raises(fastpack.BatchError, match=r"\[1, 5\] for micro-batch 0, which has 8 tokens"):
        restore(step.plan, [as_wide], padded=8)


def test_values_of_tokens_and_of_sequences_are_not_mixed():
    step = packed([3, 1, 1, 1], max_length=3)
    assert [batch.sequences.tolist() for batch in step] == [[0], [1, 2, 3]]
    with pytest.raises(fastpack.BatchError, match=r"\[1\] for micro-batch 0, which has 3 tokens"):
        step.restore([torch.zeros(1), torch.zeros(1, 3)])
    assert step.restore([torch.tensor([7.0]), torch.tensor([8.0, 9.0, 10.0])]).tolist() == [7, 8, 9, 10]
    assert step.restore([torch.zeros(1, 3), torch.zeros(3, 3)], of="sequences").shape == (4, 3)


def test_values_that_may_be_of_tokens_or_of_sequences_are_refused():
    step = packed([1, 1, 1], max_length=2)
    values = [torch.arange(len(batch.sequences)) for batch in step]
    with pytest.raises(fastpack.OptionError, match="`values`: may be those of tokens or of sequences"):
        step.restore(values)
    assert [it.shape for it in step.restore(values, of="tokens")] == [(1,)] * 3
    assert step.restore(values, of="sequences").shape == (3,)
    with pytest.raises(fastpack.OptionError, match="`of`"):
        step.restore(values, of="rows")


@pytest.mark.parametrize("form", ["list", "padded", "nested"])
def test_gradients_flow_through_what_is_put_back(form):
    step = packed([3, 2, 4], max_length=5)
    values = [torch.randn(batch.inputs["input_ids"].shape, requires_grad=True) for batch in step]
    back = step.restore(values, form)
    total = (
        sum(it.sum() for it in back)
        if form == "list"
        else (back.values() if form == "nested" else back).sum()
    )
    total.backward()
    assert all(torch.equal(it.grad, torch.ones_like(it)) for it in values)


def test_as_many_as_a_hundred_thousand_sequences_come_back_from_three_ranks():
    lengths = np.random.default_rng(1).integers(1, 60, 100_000)
    plan = fastpack.plan_step(lengths, max_length=8192, ranks=3)
    ids = np.arange(lengths.sum())
    columns = {"input_ids": ids, "values": ids.astype(np.float64)}
    steps = [pack_step(columns, plan, rank=rank, lengths=lengths) for rank in range(3)]
    back = restore(plan, [[batch.columns["values"] for batch in step] for step in steps])
    assert torch.equal(torch.cat(back), torch.from_numpy(columns["values"]))
    assert [len(it) for it in back] == lengths.tolist()
