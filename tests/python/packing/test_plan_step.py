"""Micro-batches of a training step: every sequence once, the budget held, all ranks alike, and as even as can be."""

from __future__ import annotations

import itertools
import pickle
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from campaign import tries
from hypothesis import given, settings
from hypothesis import strategies as st

import fastpack

sys.path.insert(0, str(Path(__file__).parents[3] / "benches"))

import lengths as recipes

STEPS = recipes.steps()
LINEAR, QUADRATIC = 24576.0, 1.0
GROUPED = {"tail": 1.1, "tail, large": 1.3}
"""The most `imbalance` of a step whose answers stay with those to the same prompt."""


@st.composite
def steps(draw):
    """Lengths and options."""
    multiple = draw(st.sampled_from([1, 1, 1, 4]))
    longest = max_length = multiple * draw(st.integers(1, 400 // multiple))
    lengths = draw(st.lists(st.integers(1, longest), max_size=120))
    options = {
        "max_length": max_length,
        "ranks": draw(st.integers(1, 9)),
        "micro_batches_multiple_of": draw(st.sampled_from([1, 1, 2, 3])),
        "micro_batch_order": draw(st.sampled_from(["heaviest", "pyramid"])),
        "mini_batches": draw(st.integers(1, 4)),
        "max_documents": draw(st.none() | st.integers(1, 5)),
        "align_to": multiple,
        "cost": draw(st.sampled_from([(LINEAR, QUADRATIC), (1, 0), (0, 1)])),
    }
    by = ["order", "random"]
    if draw(st.booleans()):
        options["groups"] = [draw(st.integers(0, 7)) for _ in lengths]
        by.append("groups")
    if draw(st.booleans()):
        options["kinds"] = [draw(st.sampled_from(["text", "picture"])) for _ in lengths]
    options["mini_batch_by"] = draw(st.sampled_from(by))
    options["seed"] = draw(st.integers(0, 3))
    return lengths, options


@settings(max_examples=tries(150, 20_000), deadline=None)
@given(steps())
def test_each_sequence_is_trained_once_under_the_budget_by_ranks_that_are_alike(step):
    lengths, options = step
    plan = fastpack.plan_step(lengths, **options)
    assert sorted(plan.members.tolist()) == list(range(len(lengths)))
    assert (np.bincount(plan.mini_batches, minlength=1) % options["micro_batches_multiple_of"] == 0).all()
    multiple = plan.align_to
    sizes = -(-np.array(lengths, dtype=int) // multiple) * multiple
    for rank in range(plan.ranks):
        micro_batches = plan.micro_batches(rank)
        assert len(micro_batches) == plan.places
        assert all(sizes[members].sum() <= plan.max_length for members in micro_batches)
        assert all(len(members) <= (options["max_documents"] or len(lengths)) for members in micro_batches)
    check_costs(plan, np.array(lengths, dtype=float), options["cost"])
    check_divisions(plan, options)
    check_order(plan, options["micro_batch_order"])
    again = fastpack.plan_step(np.array(lengths, dtype=np.int64), **options)
    assert (again.members.tolist(), again.offsets.tolist()) == (plan.members.tolist(), plan.offsets.tolist())


def test_the_least_time_counts_sequences_by_the_room_that_they_take():
    """Of 17 tokens that take the room of 20, and 16 and 2 that take it too, the latter cost more."""
    plan = fastpack.plan_step([2, 16, 17, 17, 18], max_length=20, ranks=2, align_to=4, cost=(24576.0, 1.0))
    assert plan.time == 860_773
    assert plan.even_time <= plan.least_time <= plan.time


@pytest.mark.parametrize("seed", range(tries(2, 60)))
def test_as_many_as_a_hundred_thousand_sequences_keep_the_same_laws(seed):
    rng = np.random.default_rng(seed)
    most = tries(20_000, 100_000)
    count = int(np.exp(rng.uniform(np.log(1_000), np.log(most)))) if seed else most
    longest = int(rng.choice([512, 8192, recipes.BUDGET]))
    drawn = [
        rng.integers(1, longest + 1, count),
        np.exp(rng.normal(np.log(longest / 20), rng.uniform(0.3, 1.5), count)),
        np.where(rng.random(count) < 0.01, longest, rng.integers(1, 200, count)),
    ]
    lengths = np.clip(drawn[rng.integers(3)], 1, longest).astype(int)
    options = {
        "max_length": recipes.BUDGET,
        "ranks": int(rng.integers(1, 200)),
        "micro_batches_multiple_of": int(rng.choice([1, 4])),
        "mini_batches": int(rng.choice([1, 8])),
        "mini_batch_by": str(rng.choice(["order", "random"])),
        "kinds": rng.integers(0, 2, count) if rng.random() < 0.3 else None,
        "groups": np.arange(count) // 16 if rng.random() < 0.3 else None,
    }
    plan = fastpack.plan_step(lengths, **options)
    assert np.array_equal(np.sort(plan.members), np.arange(count))
    assert len(plan.offsets) == plan.places * plan.ranks + 1
    sums = np.append(0, np.cumsum(lengths[plan.members]))[plan.offsets]
    assert np.diff(sums).max() <= recipes.BUDGET
    assert not any(np.bincount(plan.mini_batches) % options["micro_batches_multiple_of"])
    check_costs(plan, lengths.astype(float), (LINEAR, QUADRATIC))
    check_divisions(plan, options)
    check_order(plan, "heaviest")
    again = fastpack.plan_step(lengths.tolist(), **options)
    assert np.array_equal(again.members, plan.members)
    assert np.array_equal(again.offsets, plan.offsets)


def check_costs(plan, lengths, cost):
    each = cost[0] * lengths + cost[1] * lengths**2
    costs = [each[plan.members[begin:end]].sum() for begin, end in itertools.pairwise(plan.offsets)]
    assert np.allclose(plan.costs, costs)
    assert np.isclose(plan.time, np.reshape(costs, (plan.places, plan.ranks)).max(axis=1).sum())
    assert plan.time >= plan.least_time * (1 - 1e-9)


def check_divisions(plan, options):
    """Sequences are in the optimizer step, with the kind, and on the rank where they belong."""
    steps, ranks_of_groups = {}, {}
    for rank, place in itertools.product(range(plan.ranks), range(plan.places)):
        for member in plan.micro_batches(rank)[place].tolist():
            steps[member] = int(plan.mini_batches[place])
            if plan.kinds is not None:
                assert options["kinds"][member] == plan.kinds[place]
            if options.get("groups") is not None:
                ranks_of_groups.setdefault(options["groups"][member], set()).add(rank)
    assert all(len(ranks) == 1 for ranks in ranks_of_groups.values())
    in_order = [steps[member] for member in sorted(steps)]
    if options["mini_batch_by"] == "groups":
        for label in set(options["groups"]):
            assert (
                len({step for step, it in zip(in_order, options["groups"], strict=True) if it == label}) == 1
            )
        return
    assert options["mini_batch_by"] == "random" or in_order == sorted(in_order)
    counts = np.bincount(in_order, minlength=options["mini_batches"])
    assert counts.max() - counts.min() <= 1


def check_order(plan, order):
    """In each optimizer step the costliest places come first, or in the middle."""
    costliest = np.reshape(plan.costs, (plan.places, plan.ranks)).max(axis=1)
    for number in set(plan.mini_batches.tolist()):
        of_step = costliest[plan.mini_batches == number]
        top = 0 if order == "heaviest" else int(of_step.argmax())
        assert (
            order == "heaviest"
            or abs(top - len(of_step) / 2) <= 1
            or len(set(of_step.tolist())) < len(of_step)
        )
        assert (np.diff(of_step[: top + 1]) >= 0).all()
        assert (np.diff(of_step[top:]) <= 0).all()


@pytest.mark.parametrize("name", list(STEPS))
def test_a_step_is_as_even_as_the_longest_sequences_let_it_be(name):
    lengths, ranks = STEPS[name]
    plan = fastpack.plan_step(lengths, max_length=recipes.BUDGET, ranks=ranks)
    assert lengths[plan.members].sum() == lengths.sum()
    assert plan.imbalance <= plan.least_imbalance + 0.005
    rows = plan.places * plan.ranks
    fewest = len(fastpack.plan(lengths, max_length=recipes.BUDGET, strategy="best_fit"))
    assert rows == -(-fewest // ranks) * ranks


@pytest.mark.parametrize("name", ["tail", "tail, large"])
def test_groups_stay_together_and_a_step_is_as_even_as_they_let_it_be(name):
    lengths, ranks = STEPS[name]
    plan = fastpack.plan_step(
        lengths, max_length=recipes.BUDGET, ranks=ranks, groups=np.arange(len(lengths)) // 16
    )
    of_rank = [
        set((members // 16).tolist())
        for rank in range(ranks)
        for members in [np.concatenate(plan.micro_batches(rank))]
    ]
    assert sum(map(len, of_rank)) == len(set.union(*of_rank))
    assert plan.imbalance <= GROUPED[name]


def test_too_long_sequences_are_refused_dropped_or_cut():
    with pytest.raises(fastpack.OptionError, match="holds `12` at index 1; more than max_length=10"):
        fastpack.plan_step([3, 12], max_length=10)
    dropped = fastpack.plan_step([3, 12], max_length=10, overlong="drop")
    assert (dropped.members.tolist(), dropped.dropped.tolist()) == ([0], [1])
    cut = fastpack.plan_step([3, 12], max_length=10, overlong="truncate")
    assert (sorted(cut.members.tolist()), cut.cut.tolist(), cut.lengths.tolist()) == ([0, 1], [1], [3, 10])


@pytest.mark.parametrize("name", ["tail", "tail, large"])
def test_groups_of_several_optimizer_steps_cost_little_more_than_they_must(name):
    lengths, ranks = STEPS[name]
    options = {"groups": np.arange(len(lengths)) // 16, "mini_batches": 4, "mini_batch_by": "random"}
    plan = fastpack.plan_step(lengths, max_length=recipes.BUDGET, ranks=ranks, **options)
    check_divisions(plan, options)
    assert plan.imbalance <= 1.15 * plan.least_imbalance


@pytest.mark.parametrize("options", [{"mini_batches": 4}, {"mini_batches": 4, "mini_batch_by": "random"}, {}])
def test_a_group_of_several_kinds_and_optimizer_steps_is_on_one_rank(options):
    rng = np.random.default_rng(8)
    count = 400
    options = {"mini_batch_by": "order", "mini_batches": 1} | options
    options |= {"groups": rng.integers(0, 30, count).tolist(), "kinds": rng.integers(0, 3, count).tolist()}
    plan = fastpack.plan_step(rng.integers(1, 500, count), max_length=1000, ranks=4, **options)
    check_divisions(plan, options)
    # Ranks have as much to do, as far as whole groups let them.
    assert plan.costs.reshape(plan.places, 4).sum(axis=0).max() < 1.1 * plan.costs.sum() / 4


def test_as_few_micro_batches_as_any_strategy_finds():
    lengths = [8, 7, 9, 8, 20, 4, 4]
    fewest = len(fastpack.plan(lengths, max_length=20, strategy="mix"))
    assert fewest == 3
    assert fastpack.plan_step(lengths, max_length=20).places == fewest


def test_the_seed_divides_sequences_among_optimizer_steps():
    def planned(seed):
        return fastpack.plan_step([5] * 40, max_length=10, mini_batches=4, mini_batch_by="random", seed=seed)

    assert planned(1) == planned(1)
    assert planned(1) != planned(2)


def test_a_plan_is_equal_to_its_pickle_alone():
    plan = fastpack.plan_step([5, 3, 2], max_length=5, ranks=2, kinds=["text", "picture", "text"])
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert plan != fastpack.plan_step([5, 3, 2], max_length=5, ranks=1, kinds=["text", "picture", "text"])
    assert plan != fastpack.plan_step([5, 3, 1], max_length=5, ranks=2, kinds=["text", "picture", "text"])
    assert plan != "plan"


def test_labels_are_compared_by_their_values():
    lengths = [4] * 8
    wanted = fastpack.plan_step(lengths, max_length=8, ranks=2, groups=[0, 1] * 4, kinds=[0, 0, 1, 1] * 2)
    scalars = [np.array(it) for it in [0, 1] * 4]
    kinds = pa.array([0, 0, 1, 1] * 2)
    assert fastpack.plan_step(lengths, max_length=8, ranks=2, groups=scalars, kinds=kinds) == wanted
    assert wanted.kinds == [0, 1]
    with pytest.raises(fastpack.OptionError, match="`groups`: has a value that is not a number"):
        fastpack.plan_step([1, 2], max_length=8, groups=[float("nan"), 1.0])


def test_ranks_that_plan_their_own_have_kinds_in_the_same_order():
    def agree(number):
        return max(number, 1 if number < 2 else 2)

    for order, mini_batches in itertools.product(["heaviest", "pyramid"], [1, 2]):
        found = {
            str(
                fastpack.plan_step(
                    lengths,
                    max_length=100,
                    kinds=[0, 1] * mini_batches,
                    all_reduce=agree,
                    micro_batch_order=order,
                    mini_batches=mini_batches,
                ).kinds
            )
            for lengths in ([90, 10] * mini_batches, [10, 90] * mini_batches)
        }
        assert found == {str([0, 1] * mini_batches)}


def keeping(numbers):
    """Keeps the numbers of a rank, and answers that another has two kinds."""
    return lambda number: numbers.append(number) or max(number, 2)


def answering(answers):
    return lambda _: next(answers)


def test_ranks_that_plan_their_own_agree():
    rng = np.random.default_rng(3)
    own = [rng.integers(1, 100, count) for count in (5, 40, 0, 17)]
    kinds = [[int(length) % 2 for length in lengths] for lengths in own]
    for options in (
        {},
        {"kinds": kinds},
        {"mini_batches": 3, "kinds": kinds, "micro_batches_multiple_of": 2},
    ):
        asked = []
        plans = []
        for rank, lengths in enumerate(own):
            given = {name: value[rank] if name == "kinds" else value for name, value in options.items()}
            numbers = []
            fastpack.plan_step(lengths, max_length=128, all_reduce=keeping(numbers), **given)
            asked.append(numbers)
        assert len({len(numbers) for numbers in asked}) == 1
        greatest = [max(numbers) for numbers in zip(*asked, strict=True)]
        for rank, lengths in enumerate(own):
            answers = iter(greatest)
            given = {name: value[rank] if name == "kinds" else value for name, value in options.items()}
            plan = fastpack.plan_step(lengths, max_length=128, all_reduce=answering(answers), **given)
            assert sorted(plan.members.tolist()) == list(range(len(lengths)))
            plans.append((plan.places, plan.kinds, plan.mini_batches.tolist()))
        assert len({str(it) for it in plans}) == 1


def max_of_two(number):
    return max(number, 2)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"lengths": [0]}, fastpack.OptionError, "holds `0` at index 0"),
        ({"lengths": [1.5]}, fastpack.OptionError, "`lengths`: must be whole numbers"),
        ({"lengths": "long"}, fastpack.OptionError, "`lengths`: must be whole numbers"),
        ({"max_length": 0}, fastpack.OptionError, "`max_length`"),
        ({"ranks": 0}, fastpack.OptionError, "`ranks`"),
        ({"cost": (0, 0)}, fastpack.OptionError, "`cost`"),
        ({"cost": (1, float("nan"))}, fastpack.OptionError, "`cost`"),
        ({"groups": [1]}, fastpack.OptionError, "has 1 values for 2 sequences"),
        ({"kinds": 3}, fastpack.OptionTypeError, "`kinds`"),
        ({"kinds": [[], []]}, fastpack.OptionTypeError, "`kinds`"),
        ({"mini_batch_by": "groups"}, fastpack.OptionError, "`groups`: must be given"),
        ({"micro_batch_order": "lightest"}, fastpack.OptionError, "`micro_batch_order`"),
        ({"all_reduce": 3}, fastpack.OptionTypeError, "`all_reduce`"),
        ({"all_reduce": lambda _: 0}, fastpack.OptionError, "`all_reduce`: must return the greatest"),
        ({"all_reduce": lambda _: 1 << 40}, fastpack.OptionError, "`all_reduce`: must return the greatest"),
        ({"all_reduce": lambda _: "a"}, fastpack.OptionError, "`all_reduce`: must be a whole number"),
        ({"all_reduce": lambda _: 1 << 30}, fastpack.OptionError, "`all_reduce`: makes more than 4194304"),
        (
            {"all_reduce": max_of_two, "ranks": 2},
            fastpack.OptionError,
            "`ranks`: must be 1 with `all_reduce`",
        ),
        ({"all_reduce": max_of_two, "kinds": [1 << 32, 0]}, fastpack.OptionError, "`kinds`: has the number"),
        ({"all_reduce": lambda _: 1 << 20, "kinds": [1, 0]}, fastpack.OptionError, "`all_reduce`: returned"),
        ({"ranks": 1 << 31}, fastpack.OptionError, "`ranks`: must be at most 65536"),
        ({"ranks": 1 << 33}, fastpack.OptionError, "`ranks`: must be at most 65536"),
        ({"mini_batches": 1 << 33}, fastpack.OptionError, "`mini_batches`: must be at most 65536"),
        (
            {"micro_batches_multiple_of": (1 << 31) - 1},
            fastpack.OptionError,
            "`micro_batches_multiple_of`: must be at most 65536",
        ),
        (
            {"ranks": 1 << 16, "micro_batches_multiple_of": 1 << 16},
            fastpack.OptionError,
            "`micro_batches_multiple_of`: makes more than 64 micro-batches of a rank",
        ),
        ({"seed": -1}, fastpack.OptionError, "`seed`"),
        (
            {"all_reduce": lambda _: 1 << 16, "kinds": [1, 0], "mini_batches": 1 << 16},
            fastpack.OptionError,
            "`kinds`: are 65536 in each optimizer step",
        ),
    ],
)
def test_what_cannot_be_planned_is_refused_by_name(options, error, message):
    given = {"lengths": [3, 4], "max_length": 8} | options
    with pytest.raises(error, match=message):
        fastpack.plan_step(**given)


def test_costs_are_numbers_of_any_type():
    cost = np.float32(2), np.int64(1)
    assert fastpack.plan_step([3], max_length=8, cost=cost).costs.tolist() == [15.0]


@pytest.mark.alone
def test_a_plan_takes_milliseconds():
    lengths, ranks = STEPS["tail, large"]
    taken = []
    for _ in range(5):
        since = time.perf_counter()
        fastpack.plan_step(lengths, max_length=recipes.BUDGET, ranks=ranks)
        taken.append(time.perf_counter() - since)
    assert min(taken) < 0.2
