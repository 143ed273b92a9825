"""`order=Balanced(ranks)`: as many rows for each rank, and rows of a step that cost as much attention."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nested import flat, nested, place
from rows import STRATEGIES, balanced, documents, members

import fastpack

REMAINDERS = ["pad", "drop", "repeat"]


def costs(plan):
    """The sum of the squared lengths of each row."""
    squares = np.concatenate([[0], np.cumsum(plan.lengths.astype(np.int64) ** 2)])
    return squares[plan.offsets[1:]] - squares[plan.offsets[:-1]]


@given(
    lengths=st.lists(st.integers(1, 64), max_size=120),
    ranks=st.integers(1, 9),
    remainder=st.sampled_from(REMAINDERS),
    strategy=st.sampled_from(STRATEGIES),
)
def test_every_rank_has_as_many_rows_and_every_row_is_there(lengths, ranks, remainder, strategy):
    options = {"max_length": 64, "strategy": strategy}
    plain = fastpack.plan(lengths, **options)
    made = fastpack.plan(lengths, **options, order=fastpack.Balanced(ranks, on_remainder=remainder))
    assert len(made) % ranks == 0
    missing = -len(plain) % ranks
    if not lengths:
        assert len(made) == 0
        return
    before, after = (sorted(map(tuple, members(it))) for it in (plain, made))
    if remainder == "pad":
        assert after == [()] * missing + before
    elif remainder == "repeat":
        assert set(after) == set(before)
        assert len(after) == len(before) + missing
        assert made.tokens == plain.tokens
    else:
        assert len(before) - len(after) == len(plain) % ranks
        lost = set(before) - set(after)
        kept = {member for row in after for member in row}
        gone = sorted({member for row in lost for member in row} - kept)
        assert made.dropped.tolist() == gone


@pytest.mark.parametrize("ranks", [8, 64])
def test_ranks_wait_less_for_each_other_than_in_a_random_order(ranks):
    lengths = np.random.default_rng(0).lognormal(np.log(600), 1.0, 60_000).clip(1, 8192).astype(np.int64)
    whole = {}
    for order in ("shuffle", "balanced"):
        chosen = fastpack.Balanced(ranks, on_remainder="drop") if order == "balanced" else order
        plan = fastpack.plan(lengths, max_length=8192, order=chosen)
        cost = costs(plan)[: len(plan) // ranks * ranks].reshape(-1, ranks)
        whole[order] = (cost.max(axis=1) / cost.mean(axis=1)).mean()
    assert whole["shuffle"] > 1.5
    assert whole["balanced"] < 1.08


def test_groups_are_in_random_order_and_a_seed_decides():
    lengths = np.random.default_rng(1).integers(1, 300, 4000)
    options = {"max_length": 512, "order": "balanced", "balance_ranks": 4}
    one, two = (flat.plan(lengths, **options, seed=5) for _ in range(2))
    assert one.members.tolist() == two.members.tolist()
    steps = costs(one)[: len(one) // 4 * 4].reshape(-1, 4).sum(axis=1)
    assert abs(np.corrcoef(steps, np.arange(len(steps)))[0, 1]) < 0.2


def test_columns_name_the_step_and_the_cost():
    table = fastpack.pack_table(
        documents(6, 5, 4, 3, 2),
        max_length=8,
        strategy="none",
        order=fastpack.Balanced(2),
        padding=fastpack.Padding(token_id=0),
        columns=["input_ids", "labels", "seq_lengths", "attn_cost", "group"],
    )
    made = table.to_pylist()
    assert [row["group"] for row in made] == [0, 0, 1, 1, 2, 2]
    assert [row["attn_cost"] for row in made[:-1]] == [row["seq_lengths"][0] ** 2 for row in made[:-1]]
    assert made[-1] == {"input_ids": [0], "labels": [-100], "seq_lengths": [1], "attn_cost": 0, "group": 2}
    assert fastpack.Report.of(table).tokens == (20, 20, 0)


def shared(ranks, **options):
    """Three rows of one document each, shared among ranks."""
    options = {"max_length": 8, "order": "balanced", "strategy": "none", **options}
    return fastpack.pack_table(documents(6, 5, 4), **nested({"balance_ranks": ranks, **options}))


def test_a_row_of_padding_is_as_long_as_others_are_filled_up_to():
    table = shared(4, pad_to="max_length", pad_token_id=9)
    assert table.to_pylist()[-1] == {
        "input_ids": [9] * 8,
        "labels": [-100] * 8,
        "position_ids": list(range(8)),
        "seq_lengths": [8],
    }


def test_what_is_repeated_is_counted_and_kept_once():
    table = shared(4, on_remainder="repeat")
    report = fastpack.Report.of(table)
    assert table.num_rows == 4
    assert report.tokens == (15, 15, 0)
    assert report.repeated == (1, 4)  # the cheapest row
    assert "repeated" in str(report)
    assert balanced(report)


def test_what_ranks_cannot_share_is_counted_as_dropped():
    table = shared(2, on_remainder="drop")
    report = fastpack.Report.of(table)
    assert table.num_rows == 2
    assert report.dropped["remainder"].documents == 1
    assert balanced(report)


def test_a_split_document_of_which_a_row_is_dropped_is_kept_in_part():
    table = fastpack.pack_table(
        documents(24),
        max_length=8,
        overlong="split",
        order=fastpack.Balanced(2, on_remainder="drop"),
    )
    report = fastpack.Report.of(table)
    assert report.documents == (1, 1, 0)
    assert report.dropped == {"remainder": (0, 8)}
    assert balanced(report)


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"order": "balanced"}, "order.ranks"),
        ({"balance_ranks": None, "order": "balanced"}, "order.ranks"),
        ({"order": "balanced", "balance_ranks": 0}, "order.ranks"),
        ({"order": "balanced", "balance_ranks": 2, "on_remainder": "lose"}, "order.on_remainder"),
        ({"order": "balanced", "balance_ranks": 2}, "order.on_remainder"),
    ],
)
def test_ranks_that_cannot_be_are_refused_by_name(options, option):
    with pytest.raises(fastpack.OptionError) as caught:
        fastpack.pack_table(documents(3), max_length=8, **nested(options))
    assert caught.value.option == place(option)
