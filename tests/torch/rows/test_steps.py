"""`pack_step`: each value at its token, the loss of the unpacked batch, and the way back."""

from __future__ import annotations

import json
import tracemalloc
from collections import Counter
from unittest.mock import MagicMock

import numpy as np
import pyarrow as pa
import pytest
import torch
from campaign import tries
from hypothesis import given, settings
from hypothesis import strategies as st
from ranks import run_ranks
from small_answers import Model, answers, clipped, sequences_of
from torch.utils._python_dispatch import TorchDispatchMode

import fastpack
from fastpack.torch import collate, pack_step, restore, token_log_probs

PROCESSES = [("ddp", 2), ("ddp", 3), ("fsdp", 2), ("fsdp", 3)]
DTYPES = [
    torch.float64,
    torch.float32,
    torch.bfloat16,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
]


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=40),
    ranks=st.integers(1, 4),
    multiple=st.sampled_from([1, 4]),
    dtype=st.sampled_from(DTYPES),
    width=st.sampled_from([None, 3]),
    padded=st.sampled_from([None, "longest", 40]),
    form=st.sampled_from(["list", "padded", "nested"]),
)
def test_what_is_packed_and_put_back_is_what_came_in(lengths, ranks, multiple, dtype, width, padded, form):
    ids = sequences_of(lengths)
    values = [torch.randn(length, *([width] if width else [])).to(dtype) for length in lengths]
    rewards = torch.randn(len(lengths), dtype=torch.float64)
    plan = fastpack.plan_step(lengths, max_length=40, ranks=ranks, align_to=multiple)
    steps = [
        pack_step({"input_ids": ids, "values": values, "rewards": rewards}, plan, rank=rank, padded=padded)
        for rank in range(ranks)
    ]
    for step in steps:
        for batch in step:
            tokens = batch.inputs["input_ids"]
            assert batch.columns["values"].shape[:2] == tokens.shape
            assert batch.columns["values"].dtype == dtype
            assert batch.inputs["position_ids"].shape == tokens.shape
    back = restore(
        plan, [[batch.columns["values"] for batch in step] for step in steps], form=form, padded=padded
    )
    if form == "padded":
        assert back.shape[0] == len(lengths)
        assert all(
            torch.equal(row[: len(value)], value) and not row[len(value) :].any()
            for row, value in zip(back, values, strict=True)
        )
    else:
        assert all(
            torch.equal(one, other)
            for one, other in zip(back.unbind() if form == "nested" else back, values, strict=True)
        )
    of_sequences = [[batch.columns["rewards"] for batch in step] for step in steps]
    assert torch.equal(restore(plan, of_sequences, of="sequences"), rewards)
    for step in steps:
        mine = step.restore([batch.inputs["input_ids"] for batch in step])
        assert [it.tolist() for it in mine] == [ids[at].tolist() for at in step.sequences]


def test_columns_are_read_in_every_form_that_frameworks_hold():
    lengths = [4, 1, 3]
    ids = sequences_of(lengths)
    values = [torch.arange(length, dtype=torch.float32) + 10 * at for at, length in enumerate(lengths)]
    mask = torch.zeros(3, 5, dtype=torch.bool)
    padded_ids, padded_values = torch.zeros(3, 5, dtype=torch.int64), torch.full((3, 5), -1.0)
    for at, length in enumerate(lengths):
        mask[at, 5 - length :] = True  # padded on the left
        padded_ids[at, 5 - length :], padded_values[at, 5 - length :] = ids[at], values[at]
    plan = fastpack.plan_step(lengths, max_length=5)
    wanted = [
        batch.columns["values"].tolist() for batch in pack_step({"input_ids": ids, "values": values}, plan)
    ]
    flat = {"input_ids": torch.cat(ids), "values": torch.cat(values).numpy()}
    table = pa.table({"input_ids": [it.tolist() for it in ids], "values": [it.tolist() for it in values]})
    forms = [
        ({"input_ids": padded_ids, "values": padded_values}, {"attention_mask": mask}),
        (
            {"input_ids": padded_ids.numpy(), "values": padded_values.tolist()},
            {"attention_mask": mask.long()},
        ),
        (flat, {"lengths": lengths}),
        ({"input_ids": [it.tolist() for it in ids], "values": [it.numpy() for it in values]}, {}),
        (
            {
                "input_ids": torch.nested.nested_tensor(ids, layout=torch.jagged),
                "values": torch.nested.as_nested_tensor(values, layout=torch.jagged),
            },
            {},
        ),
        (dict(zip(table.column_names, table.columns, strict=True)), {}),
        ({name: column.chunk(0) for name, column in zip(table.column_names, table.columns, strict=True)}, {}),
    ]
    for columns, options in forms:
        step = pack_step(columns, plan, **options)
        assert [batch.columns["values"].tolist() for batch in step] == wanted


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.complex64, torch.uint16])
def test_types_that_numpy_lacks_keep_their_values(dtype):
    ids = sequences_of([4, 1, 3])
    values = [torch.arange(len(it)).to(dtype) for it in ids]
    plan = fastpack.plan_step([4, 1, 3], max_length=5, ranks=2, align_to=5)
    steps = [pack_step({"input_ids": ids, "values": values}, plan, rank=rank) for rank in range(2)]
    back = restore(plan, [[batch.columns["values"] for batch in step] for step in steps])
    assert [it.dtype for it in back] == [dtype] * 3
    assert [it.to(torch.complex64).tolist() for it in back] == [
        it.to(torch.complex64).tolist() for it in values
    ]


def test_tables_and_what_has_keys_are_read_as_a_dict_is():
    ids, experts = [[1, 2, 3], [4, 5]], [[[7, 8], [9, 7], [8, 8]], [[1, 2], [3, 4]]]
    plan = fastpack.plan_step([3, 2], max_length=8)
    table = pa.table(
        {
            "input_ids": pa.array(ids),
            "experts": pa.array(experts, pa.list_(pa.list_(pa.int16(), 2))),
            "rewards": pa.array([0.5, -0.5], pa.float32()),
        }
    )
    objects = np.empty(2, dtype=object)
    objects[:] = [np.array(it, dtype=np.int16) for it in experts]
    columns = {"input_ids": ids, "experts": objects, "rewards": np.array([0.5, -0.5], dtype=np.float32)}

    class Keyed:  # as a TensorDict, which is no Mapping
        def keys(self):
            return columns.keys()

        def __getitem__(self, name):
            return columns[name]

    for held in (table, table.combine_chunks().to_batches()[0], columns, Keyed()):
        (batch,) = pack_step(held, plan)
        assert batch.inputs["input_ids"].tolist() == [[1, 2, 3, 4, 5]]
        assert batch.columns["experts"].dtype == torch.int16
        assert batch.columns["experts"].tolist() == [experts[0] + experts[1]]
        assert batch.columns["rewards"].tolist() == [0.5, -0.5]
    with pytest.raises(fastpack.BatchError, match="`rewards` has nulls"):
        pack_step(table.set_column(2, "rewards", pa.array([0.5, None])), plan)
    with pytest.raises(fastpack.OptionTypeError, match="`columns`: must be a dict of columns by name"):
        pack_step([1, 2], plan)


def test_values_of_answers_are_cut_where_their_sequence_is():
    plan = fastpack.plan_step([5, 2], max_length=3, overlong="truncate", align_to=3)
    columns = {
        "input_ids": [[1, 2, 3, 4, 5], [6, 7]],
        "values": [[1, 2, 3, 4, 5], [6, 7]],
        "of_answer": [[2.0, 3.0, 4.0, 5.0], [7.0]],
        "of_end": [[5.0], []],
        "of_next": [[2, 3, 4, 5, 0], [7]],
    }
    step = pack_step(
        columns, plan, completion_only=["of_answer", "of_end"], shifted=["of_next"], weights="sequence"
    )
    found = {
        int(batch.sequences[0]): {name: values.tolist() for name, values in batch.columns.items()}
        for batch in step
    }
    assert found[0] == {
        "values": [[1, 2, 3]],
        "of_answer": [[0, 2, 3]],
        "of_end": [[0, 0, 0]],
        "of_next": [[0, 2, 3]],
        "loss_weights": [[0, 0.25, 0.25]],
    }
    assert found[1] == {
        "values": [[6, 7, 0]],
        "of_answer": [[0, 7, 0]],
        "of_end": [[0, 0, 0]],
        "of_next": [[0, 7, 0]],
        "loss_weights": [[0, 0.5, 0]],
    }


def test_packing_holds_the_rows_and_no_second_copy_of_a_column():
    lengths = [500] * 2000
    random = np.random.default_rng(0)
    columns = {"input_ids": [random.integers(0, 99, length) for length in lengths]}
    columns |= {name: [random.random(length) for length in lengths] for name in ("old", "advantages")}
    columns["answer"] = [random.random(300) for _ in lengths]
    plan = fastpack.plan_step(lengths, max_length=8192)
    tracemalloc.start()
    step = pack_step(columns, plan, completion_only=["answer"], weights="token")
    held, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held > 6 * 8 * sum(lengths)
    assert len(step) == plan.places
    assert most - held < 8 * 8 * 8192


def test_shifted_values_and_values_of_answers_stand_at_their_tokens():
    lengths = [4, 3]
    plan = fastpack.plan_step(lengths, max_length=8)
    columns = {
        "input_ids": [[1, 2, 3, 4], [5, 6, 7]],
        "old": [
            [0.2, 0.3, 0.4, 9.0],
            [0.6, 0.7],
        ],  # of the next token; the last has none, or one that says nothing
        "advantages": [[1.0, 1.0], [-1.0]],
    }
    (batch,) = pack_step(columns, plan, shifted=["old"], completion_only=["advantages"])
    assert batch.sequences.tolist() == [0, 1]
    assert torch.allclose(
        batch.columns["old"], torch.tensor([[0, 0.2, 0.3, 0.4, 0, 0.6, 0.7]], dtype=torch.float64)
    )
    assert batch.columns["advantages"].tolist() == [[0, 0, 1, 1, 0, 0, -1]]


def test_a_column_of_another_length_is_refused_with_its_name_and_sequence():
    plan = fastpack.plan_step([3, 2], max_length=8)
    ids = [[1, 2, 3], [4, 5]]
    for columns, options, message in [
        (
            {"values": [[1, 2, 3], [4]]},
            {},
            r"`values` has 1 values in sequence 1 of 2 tokens; .*completion_only",
        ),
        ({"values": [[1, 2, 3]]}, {}, "`values`"),
        (
            {"values": [[1, 2, 3], [4, 5, 6]]},
            {"completion_only": ["values"]},
            "`values` has 3 values in sequence 1",
        ),
        (
            {"input_ids": [[1, 2, 3], [4]]},
            {},
            "`input_ids` has 1 tokens in sequence 1, of which 2 were planned",
        ),
        ({"values": torch.zeros(2, 3)}, {}, "attention_mask"),
        ({"values": [[1, 2, 3], 5]}, {}, "`values` of sequence `1` must hold numbers"),
        ({"values": [[1, 2, 3], None]}, {}, "`values` of sequence `1` must hold numbers"),
        ({"values": [[1, 2, 3], ["a", "b"]]}, {}, "`values` of sequence `1` must hold numbers"),
    ]:
        with pytest.raises((fastpack.BatchError, fastpack.OptionTypeError), match=message):
            pack_step({"input_ids": ids} | columns, plan, **options)
    with pytest.raises(fastpack.OptionError, match="`shifted`: names `old`"):
        pack_step({"input_ids": ids}, plan, shifted=["old"])


def test_log_probabilities_stand_at_their_tokens_and_never_cross_sequences():
    torch.manual_seed(0)
    lengths = [5, 3, 1, 7]
    ids = sequences_of(lengths)
    plan = fastpack.plan_step(lengths, max_length=16)
    for padded in (None, "longest"):
        for batch in pack_step({"input_ids": ids}, plan, padded=padded):
            tokens = batch.inputs["input_ids"]
            logits = torch.randn(*tokens.shape, 50, dtype=torch.float64, requires_grad=True)
            for chunk in (1, 3, 1000):
                told, entropy = token_log_probs(logits, batch.inputs, chunk=chunk, entropy=True)
                expected, spread = torch.zeros_like(told), torch.zeros_like(told)
                every = torch.log_softmax(logits, dim=-1)
                for at in range(1, tokens.shape[1]):
                    if batch.inputs["position_ids"][0, at] != 0:
                        expected[0, at] = every[0, at - 1, tokens[0, at]]
                        spread[0, at] = -(every[0, at - 1].exp() * every[0, at - 1]).sum()
                assert torch.allclose(told, expected, atol=1e-12)
                assert torch.allclose(entropy, spread, atol=1e-12)
                for own, other in (
                    (told, expected),
                    (entropy, spread),
                    (told * 2 + entropy, expected * 2 + spread),
                ):
                    (gradient,) = torch.autograd.grad(own.sum(), logits, retain_graph=True)
                    (wanted,) = torch.autograd.grad(other.sum(), logits, retain_graph=True)
                    assert torch.allclose(gradient, wanted, atol=1e-12)


class Largest(TorchDispatchMode):
    """Counts the tensors of each number of values that are made anew."""

    def __init__(self):
        super().__init__()
        self.made = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        given = {it.untyped_storage().data_ptr() for it in args if isinstance(it, torch.Tensor)}
        if isinstance(found, torch.Tensor) and found.untyped_storage().data_ptr() not in given:
            self.made[found.numel()] += 1
        return found


@pytest.mark.parametrize("shape", [(1, 1000), (4, 250)])
def test_the_log_probabilities_need_memory_for_a_chunk_and_one_gradient(shape):
    ids = torch.zeros(shape, dtype=torch.int64)
    batch = {"input_ids": ids, "position_ids": torch.arange(shape[1]).expand(shape)}
    logits = torch.randn(*shape, 64, dtype=torch.bfloat16, requires_grad=True)
    with Largest() as forward:
        told, entropy = token_log_probs(logits, batch, chunk=16, entropy=True)
    with Largest() as backward:
        (told.sum() + entropy.sum()).backward()
    assert max(forward.made) <= told.numel() + entropy.numel()
    whole = {size: count for size, count in backward.made.items() if size > told.numel() + entropy.numel()}
    assert whole == {logits.numel(): 1}
    assert logits.grad.dtype == torch.bfloat16


def test_tokens_that_a_mask_forbids_have_no_part_in_the_entropy():
    logits = torch.zeros(1, 3, 4)
    logits[..., 2:] = float("-inf")
    logits.requires_grad_()
    batch = {"input_ids": torch.tensor([[0, 1, 0]]), "position_ids": torch.tensor([[0, 1, 2]])}
    told, entropy = token_log_probs(logits, batch, entropy=True)
    assert torch.allclose(entropy, torch.tensor([[0.0, 0.6931, 0.6931]]), atol=1e-4)
    (told.sum() + entropy.sum()).backward()
    assert logits.grad.isfinite().all()


def unpacked_loss(model, columns, groups, weights, members, constant):
    """The loss of a padded batch, as trainers that do not pack have it."""
    losses, masks = [], []
    for at in members:
        ids = columns["input_ids"][at][None]
        logits = model(ids, torch.arange(ids.shape[1])[None])
        every = torch.log_softmax(logits[0, :-1], dim=-1)
        told = torch.cat([torch.zeros(1, dtype=torch.float64), every.gather(1, ids[0, 1:, None])[:, 0]])
        losses.append(clipped(told, columns["old"][at], columns["advantages"][at]))
        mask = columns["loss_mask"][at].double().clone()
        mask[0] = 0
        masks.append(mask)
    sums = [(loss * mask).sum() for loss, mask in zip(losses, masks, strict=True)]
    counts = [mask.sum() for mask in masks]
    if weights == "token":
        return sum(sums) / sum(counts)
    if weights == "sequence":
        return sum(one / count.clamp(min=1) for one, count in zip(sums, counts, strict=True)) / len(sums)
    if weights == "constant":
        return sum(sums) / (constant * len(sums))
    of_groups = {}
    for at, one, count in zip(members, sums, counts, strict=True):
        total = of_groups.setdefault(groups[at], [0, 0])
        total[0], total[1] = total[0] + one, total[1] + count
    return sum(one / count.clamp(min=1) for one, count in of_groups.values()) / len(of_groups)


@pytest.mark.parametrize("mini_batches", [1, 2])
@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("weights", ["token", "sequence", "group", "constant"])
def test_the_weighted_sum_is_the_loss_of_the_unpacked_batch(weights, ranks, mini_batches):
    columns, lengths, groups = answers()
    plan = fastpack.plan_step(
        lengths, max_length=24, ranks=ranks, mini_batches=mini_batches, mini_batch_by="random", seed=7
    )
    steps = [
        pack_step(columns, plan, rank=rank, weights=weights, groups=groups, constant=20.0, world_size=ranks)
        for rank in range(ranks)
    ]
    assert sum(step.untrained for step in steps) == 1
    for number in range(mini_batches):
        model = Model()
        members = sorted(
            at
            for step in steps
            for batch in step
            if batch.mini_batch == number
            for at in batch.sequences.tolist()
        )
        wanted = unpacked_loss(model, columns, groups, weights, members, 20.0)
        wanted.backward()
        gradients = [it.grad.clone() for it in model.parameters()]
        # Each rank has gradients of its own, which are averaged.
        total, averaged = 0.0, [torch.zeros_like(it) for it in gradients]
        for step in steps:
            model.zero_grad()
            for batch in step:
                if batch.mini_batch != number:
                    continue
                inputs = batch.inputs
                logits = model(inputs["input_ids"], inputs["position_ids"])
                told = token_log_probs(logits, inputs)
                of_tokens = clipped(told, batch.columns["old"], batch.columns["advantages"])
                loss = (of_tokens * batch.columns["loss_weights"]).sum()
                loss.backward()
                total += loss.item() / ranks
            own = [torch.zeros_like(it) if it.grad is None else it.grad for it in model.parameters()]
            averaged = [mean + gradient / ranks for mean, gradient in zip(averaged, own, strict=True)]
        assert total == pytest.approx(wanted.item(), abs=1e-9)
        assert all(
            torch.allclose(one, other, atol=1e-9) for one, other in zip(averaged, gradients, strict=True)
        )


@pytest.mark.parametrize(
    ("weights", "loss_type"),
    [("token", "dapo"), ("token", "bnpo"), ("sequence", "grpo"), ("constant", "dr_grpo")],
)
def test_the_weighted_sum_is_the_loss_of_trl(weights, loss_type):
    columns, lengths, _ = answers()
    plan = fastpack.plan_step(lengths, max_length=24, ranks=2)
    model = Model()
    wanted = loss_of_trl(model, columns, lengths, loss_type)
    wanted.backward()
    gradients = [it.grad.clone() for it in model.parameters()]
    model.zero_grad()
    total = 0.0
    for rank in range(2):
        step = pack_step(columns, plan, rank=rank, weights=weights, constant=20.0, world_size=1)
        for batch in step:
            told = token_log_probs(
                model(batch.inputs["input_ids"], batch.inputs["position_ids"]), batch.inputs
            )
            of_tokens = clipped(told, batch.columns["old"], batch.columns["advantages"])
            loss = (of_tokens * batch.columns["loss_weights"]).sum()
            loss.backward()
            total += loss.item()
    assert total == pytest.approx(wanted.item(), abs=1e-9)
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        assert torch.allclose(parameter.grad, gradient, atol=1e-9)


def loss_of_trl(model, columns, lengths, loss_type):
    """The loss of TRL's trainer on the answers as a padded batch: the first token is the prompt."""
    trl = pytest.importorskip("trl.trainer.grpo_trainer")

    def padded(values):
        return torch.nn.utils.rnn.pad_sequence([value[1:] for value in values], batch_first=True)

    told = []
    for ids in columns["input_ids"]:
        logits = model(ids[None], torch.arange(len(ids))[None])[0, :-1]
        told.append(logits.log_softmax(-1).gather(-1, ids[1:, None])[:, 0])
    told = torch.nn.utils.rnn.pad_sequence(told, batch_first=True)
    trainer = MagicMock()
    trainer.configure_mock(
        _get_per_token_logps_and_entropies=lambda *_, **__: (told, torch.zeros_like(told), None),
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        importance_sampling_level="token",
        beta=0.0,
        loss_type=loss_type,
        epsilon_low=0.2,
        epsilon_high=0.2,
        use_vllm=False,
        current_gradient_accumulation_steps=1,
        max_completion_length=20,
        aux_loss_enabled=False,
    )
    trainer._entropy_bonus_enabled = False
    trainer.args.configure_mock(delta=None, steps_per_generation=1)
    trainer.accelerator.configure_mock(
        num_processes=1, reduce=lambda values, **_: values, gather=lambda values: values
    )
    mask = padded(columns["loss_mask"])
    inputs = {
        "prompt_ids": torch.stack([ids[:1] for ids in columns["input_ids"]]),
        "prompt_mask": torch.ones(len(lengths), 1, dtype=torch.int64),
        "completion_ids": padded(columns["input_ids"]),
        "completion_mask": mask,
        "advantages": padded(columns["advantages"]),
        "old_per_token_logps": padded(columns["old"]),
        "num_items_in_batch": mask.sum(),
    }
    return trl.GRPOTrainer._compute_loss(trainer, model, inputs)


@pytest.mark.parametrize("weights", ["token", "sequence", "constant", "group"])
def test_ranks_that_hold_their_own_sequences_sum_their_denominators(weights):
    columns, lengths, groups = answers()
    # Ranks as they agree on the same numbers: each sees only the sequences of its groups.
    own = [[at for at in range(12) if groups[at] % 2 == rank] for rank in range(2)]
    totals = []
    options = {"weights": weights, "constant": 20.0, "world_size": 1}

    def packed(rank, all_reduce_sum):
        mine = own[rank]
        plan = fastpack.plan_step(
            [lengths[at] for at in mine], max_length=24, all_reduce=lambda number: max(number, 5)
        )
        taken = {name: [column[at] for at in mine] for name, column in columns.items()}
        return pack_step(
            taken, plan, groups=[groups[at] for at in mine], all_reduce_sum=all_reduce_sum, **options
        )

    for rank in range(2):
        packed(rank, lambda values: totals.append(values) or values)
    summed = np.sum(totals, axis=0).tolist()
    model = Model()
    wanted = unpacked_loss(model, columns, groups, weights, range(12), 20.0).item()
    total = 0.0
    for rank in range(2):
        for batch in packed(rank, lambda _: summed):
            told = token_log_probs(
                model(batch.inputs["input_ids"], batch.inputs["position_ids"]), batch.inputs
            )
            of_tokens = clipped(told, batch.columns["old"], batch.columns["advantages"])
            total += (of_tokens * batch.columns["loss_weights"]).sum().item()
    assert total == pytest.approx(wanted, abs=1e-9)


def test_a_rank_without_a_sequence_trains_on_padding():
    plan = fastpack.plan_step([5], max_length=8, ranks=3)
    for rank in range(3):
        (batch,) = pack_step(
            {"input_ids": [[1, 2, 3, 4, 5]], "values": [[1.0] * 5]}, plan, rank=rank, weights="token"
        )
        trained = (batch.inputs["labels"] != -100).sum().item()
        assert trained == (4 if len(batch.sequences) else 0)
        assert batch.columns["loss_weights"].sum().item() == pytest.approx(
            1.0 if len(batch.sequences) else 0.0
        )


@pytest.mark.parametrize(
    ("script", "kind", "ranks"),
    [
        *[("packed_step.py", *it) for it in tries([("ddp", 2), ("fsdp", 3)], PROCESSES)],
        *[
            ("own_step.py", *it) for it in tries([("ddp", 2), ("fsdp", 3)], PROCESSES)
        ],  # of 3, one has no answer
    ],
)
def test_ranks_that_average_their_gradients_have_those_of_the_unpacked_batch(script, kind, ranks):
    done = run_ranks(script, kind, ranks=ranks)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    columns, _, groups = answers()
    for weights, (loss, gradients) in found.items():
        model = Model()
        wanted = unpacked_loss(model, columns, groups, weights, range(12), 20.0)
        wanted.backward()
        assert loss == pytest.approx(wanted.item(), abs=1e-6)
        for name, parameter in model.named_parameters():
            assert np.allclose(gradients[name], parameter.grad.flatten().numpy(), atol=1e-6)


@pytest.mark.parametrize("padded", [None, "longest", 24])
def test_micro_batches_are_those_of_collate(padded):
    lengths = [7, 5, 4, 9, 3]
    ids = sequences_of(lengths)
    step = pack_step(
        {"input_ids": ids}, fastpack.plan_step(lengths, max_length=16), padded=padded, pad_token_id=3
    )
    assert len(step) > 1
    for batch in step:
        of_batch = [ids[at].tolist() for at in batch.sequences]
        row = {
            "input_ids": [it for of_each in of_batch for it in of_each],
            "labels": [it for of_each in of_batch for it in (-100, *of_each[1:])],
            "seq_lengths": [len(of_each) for of_each in of_batch],
        }
        wanted = collate([row], padded=padded, pad_token_id=3)
        assert wanted.keys() == batch.inputs.keys()
        for name, value in wanted.items():
            found = batch.inputs[name]
            if isinstance(value, torch.Tensor):
                assert found.dtype == value.dtype
                assert torch.equal(found, value)
            else:
                assert found == value


def test_a_model_gives_packed_sequences_the_log_probabilities_that_they_have_alone():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=50,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        attn_implementation="sdpa",
    )
    model = transformers.LlamaForCausalLM(config).eval()
    lengths = [7, 5, 4, 9, 3]
    ids = sequences_of(lengths)
    plan = fastpack.plan_step(lengths, max_length=16)
    for padded in (None, 24):
        step = pack_step({"input_ids": ids}, plan, padded=padded)
        computed = []
        for batch in step:
            inputs = {name: value for name, value in batch.inputs.items() if name != "labels"}
            computed.append(token_log_probs(model(**inputs).logits, batch.inputs).detach())
        for found, alone in zip(step.restore(computed), ids, strict=True):
            every = model(alone[None]).logits[0, :-1].log_softmax(-1)
            wanted = every.gather(1, alone[1:, None])[:, 0]
            assert torch.allclose(found[1:], wanted, atol=1e-5)
            assert found[0] == 0
