"""`fastpack.plan`: its rows are those of the oracle and of TRL."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pytest
import reference
import rows
from hypothesis import given
from hypothesis import strategies as st
from nested import nested
from rows import members

import fastpack

sys.path.insert(0, str(Path(__file__).parents[3] / "benches"))

from lengths import RECIPES, Recipe

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

STRATEGIES = sorted(reference.STRATEGIES)


@st.composite
def packable(draw: st.DrawFn) -> tuple[int, list[int]]:
    """A row's length, and lengths that fit it: short ones, long ones, few kinds."""
    max_length = draw(st.integers(1, 20) | st.integers(60, 70) | st.integers(1, 5000))
    length = (
        st.integers(1, max_length)
        | st.integers(1, min(9, max_length))
        | st.integers(max_length // 2 + 1, max_length)
    )
    return max_length, draw(st.lists(length, max_size=120))


def plan(lengths: Sequence[int], max_length: int, **options: str | int | None) -> fastpack.Plan:
    return fastpack.plan(np.array(lengths, dtype=np.int64), max_length=max_length, **options)


def in_input_order(rows: list[list[int]]) -> list[list[int]]:
    """Rows by the first document in each."""
    return sorted(rows, key=min)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(packable())
def test_rows_are_those_of_the_oracle(strategy: str, case: tuple[int, list[int]]) -> None:
    max_length, lengths = case
    made = plan(lengths, max_length, strategy=strategy, order="input")
    assert members(made) == in_input_order(reference.STRATEGIES[strategy](lengths, max_length))
    assert made.lengths.tolist() == [lengths[document] for document in made.members]
    assert not made.starts.any()
    assert not len(made.dropped)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(packable())
def test_numbers_tell_of_the_rows(strategy: str, case: tuple[int, list[int]]) -> None:
    max_length, lengths = case
    made = plan(lengths, max_length, strategy=strategy)
    assert len(made) == len(made.offsets) - 1
    assert made.max_length == max_length
    assert -(-sum(lengths) // max_length) <= made.lower_bound <= len(made)
    assert made.fill == pytest.approx(sum(lengths) / (len(made) * max_length) if lengths else 0.0)


@given(packable())
def test_what_is_too_long_is_dropped(case: tuple[int, list[int]]) -> None:
    max_length, lengths = case
    shorter = -(-max_length // 2)
    made = plan(lengths, shorter, overlong="drop")
    assert made.dropped.tolist() == [at for at, length in enumerate(lengths) if length > shorter]
    assert sorted([*made.members, *made.dropped]) == list(range(len(lengths)))


@given(packable())
def test_what_is_too_long_is_truncated(case: tuple[int, list[int]]) -> None:
    max_length, lengths = case
    shorter = -(-max_length // 2)
    made = plan(lengths, shorter, overlong="truncate", strategy="best_fit", order="input")
    cut = [min(length, shorter) for length in lengths]
    assert members(made) == in_input_order(reference.best_fit(cut, shorter))
    assert made.lengths.tolist() == [cut[document] for document in made.members]


@st.composite
def wishes(draw: st.DrawFn) -> dict[str, str | int | None]:
    """A strategy with any constraint that it takes."""
    strategy = draw(st.sampled_from(rows.STRATEGIES))
    overlong = None if strategy == "concat" else draw(st.sampled_from([None, "drop", "truncate", "split"]))
    return {
        "strategy": strategy,
        "overlong": overlong,
        "truncation_side": draw(st.sampled_from(["left", "right"])) if overlong == "truncate" else "right",
        "drop_last": strategy == "concat" and draw(st.booleans()),
        "max_documents_per_pack": draw(st.none() | st.integers(1, 6)),
        "order": draw(st.sampled_from([None, "input", "shuffle"])),
        "seed": draw(st.integers(0, 2**64 - 1)),
    }


@given(packable(), wishes())
def test_every_kept_token_is_in_one_row_and_in_order(
    case: tuple[int, list[int]], wish: dict[str, str | int | None]
) -> None:
    max_length, lengths = case
    shorter = -(-max_length // 3)
    made = plan(lengths, shorter, **nested(wish))
    stretches = reference.stretches(
        lengths, shorter, wish["strategy"], wish["overlong"], wish["truncation_side"]
    )
    kept = [(document, token) for document, start, end in stretches for token in range(start, end)]
    pieces = zip(made.members.tolist(), made.starts.tolist(), made.lengths.tolist(), strict=True)
    packed = sorted((document, token) for document, start, n in pieces for token in range(start, start + n))
    tail = len(kept) - len(packed)
    assert packed == kept[: len(packed)]
    assert 0 <= tail < shorter if wish["drop_last"] else tail == 0
    assert made.dropped.tolist() == sorted(set(range(len(lengths))) - set(made.members.tolist()))
    assert made.tokens == len(packed)


@given(packable(), wishes())
def test_no_row_holds_more_than_it_may(
    case: tuple[int, list[int]], wish: dict[str, str | int | None]
) -> None:
    max_length, lengths = case
    shorter = -(-max_length // 3)
    made = plan(lengths, shorter, **nested(wish))
    most = wish["max_documents_per_pack"] or len(made.members)
    for row in np.split(made.lengths, made.offsets[1:-1]) if len(made) else []:
        assert 1 <= row.sum() <= shorter
        assert 1 <= len(row) <= most


@given(packable(), st.none() | st.integers(1, 6))
def test_mix_never_makes_more_rows_than_first_fit_decreasing(
    case: tuple[int, list[int]], most: int | None
) -> None:
    max_length, lengths = case
    made = plan(lengths, max_length, **nested({"max_documents_per_pack": most}))
    assert made.lower_bound <= len(made) <= len(reference.first_fit(lengths, max_length, most))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_mix_nearly_reaches_the_lower_bound_and_mixes_lengths(recipe: Recipe) -> None:
    made = fastpack.plan(recipe.lengths(200_000), max_length=recipe.max_length)
    assert len(made) <= made.lower_bound * 1.0003 + 1
    shortest = np.minimum.reduceat(made.lengths, made.offsets[:-1])
    longest = np.maximum.reduceat(made.lengths, made.offsets[:-1])
    alike = (np.diff(made.offsets) > 1) & (longest - shortest <= 0.05 * longest)
    if recipe.name != "half-full":  # where two pieces fill a row, both are half a row long
        assert alike.mean() < 0.02


def test_strategies_that_see_all_lengths_shuffle_rows_unless_told() -> None:
    lengths = [5] * 40
    numbers = list(range(40))
    for strategy in ("mix", "best_fit", "heap"):
        made = plan(lengths, 5, strategy=strategy).members.tolist()
        assert sorted(made) == numbers != made
        assert plan(lengths, 5, strategy=strategy, seed=1).members.tolist() != made
    for strategy in ("sequential", "concat", "none"):
        assert plan(lengths, 5, strategy=strategy).members.tolist() == numbers
        assert plan(lengths, 5, strategy=strategy, order="shuffle").members.tolist() != numbers


def trl_rows(module: ModuleType, lengths: Sequence[int], max_length: int, before: int = 0) -> list[list[int]]:
    """The rows of TRL's `bfd` on one batch, whose documents hold nothing but their number.

    With `before`, the batch is the rest of a table that begins with so many other documents.
    """
    import pyarrow as pa

    documents = [[-1]] * before + [[number] * length for number, length in enumerate(lengths)]
    table = pa.table({"input_ids": pa.array(documents, type=pa.list_(pa.int32()))}).slice(before)
    packed = module._pack_bfd(table, max_length)
    made = []
    for ids, sizes in zip(packed["input_ids"].to_pylist(), packed["seq_lengths"].to_pylist(), strict=True):
        firsts = np.cumsum([0, *sizes[:-1]])
        made.append([ids[first] for first in firsts])
    return made


@given(case=packable())
def test_best_fit_makes_the_rows_of_trl(trl_data_utils: ModuleType, case: tuple[int, list[int]]) -> None:
    max_length, lengths = case
    if lengths:
        made = plan(lengths, max_length, strategy="best_fit")
        assert in_input_order(members(made)) == in_input_order(trl_rows(trl_data_utils, lengths, max_length))


@pytest.mark.parametrize("max_length", [2**10 - 1, 2**10, 2**10 + 1, 1500])
def test_best_fit_packs_whatever_max_length_is_trl_3887(trl_data_utils: ModuleType, max_length: int) -> None:
    lengths = np.random.default_rng(0).normal(500, 60, 1000).clip(1, max_length).astype(int).tolist()
    made = plan(lengths, max_length, strategy="best_fit")
    assert in_input_order(members(made)) == in_input_order(trl_rows(trl_data_utils, lengths, max_length))
    assert made.fill > 0.6
    assert len(made) < 0.6 * len(lengths)


def test_a_part_of_the_lengths_is_packed_alone_trl_6669(trl_data_utils: ModuleType) -> None:
    lengths = np.random.default_rng(1).integers(1, 90, 300)
    part = lengths[100:200]
    made = fastpack.plan(part, max_length=90, strategy="best_fit")
    expected = trl_rows(trl_data_utils, part.tolist(), 90, before=100)
    assert in_input_order(members(made)) == in_input_order(expected)
    assert sorted(made.members) == list(range(100))


def test_lengths_need_not_lie_side_by_side() -> None:
    lengths = np.arange(1, 21, dtype=np.int64)
    made = fastpack.plan(lengths[::-2], max_length=40, strategy="heap", order="input")
    assert members(made) == in_input_order(reference.heap(lengths[::-2].tolist(), 40))


def test_nothing_makes_no_rows() -> None:
    made = plan([], 8)
    assert (len(made), made.offsets.tolist(), made.lower_bound, made.fill) == (0, [0], 0, 0.0)


def test_a_plan_tells_of_itself() -> None:
    assert repr(plan([5, 4, 3], 8)) == "Plan(rows=2, max_length=8, tokens=12, fill=0.7500, lower_bound=2)"


def test_arrays_have_the_types_that_index_and_cannot_be_written() -> None:
    made = plan([5, 4, 9], 8, overlong="drop")
    types = {
        name: getattr(made, name).dtype.name
        for name in ("offsets", "members", "starts", "lengths", "dropped")
    }
    assert types == {
        "offsets": "int64",
        "members": "int64",
        "starts": "int32",
        "lengths": "int32",
        "dropped": "int64",
    }
    with pytest.raises(ValueError, match="read-only"):
        made.members[0] = 1


#: Lengths of few documents that have more tokens together than 32 bits count, signed or not.
HUGE = {
    f"{bits} bits": [2**29 + 1, 2**28 - 1, 2**30, 7, 2**27, 2**28 + 9] * (1 if bits == 31 else 3)
    for bits in (31, 32)
}

#: The most tokens that a row may hold, the longest of the documents, and rows into which documents have to be cut.
LONG_ROWS = [2**31 - 1, 2**30, 2**28]


@pytest.mark.parametrize("max_length", LONG_ROWS)
@pytest.mark.parametrize("lengths", HUGE.values(), ids=HUGE)
@pytest.mark.parametrize(
    ("strategy", "overlong"),
    [
        *((strategy, cut) for strategy in (*STRATEGIES, "mix") for cut in ("split", "truncate")),
        ("concat", None),
    ],
)
def test_more_tokens_than_32_bits_count_are_counted(
    strategy: str, overlong: str | None, lengths: list[int], max_length: int
) -> None:
    made = plan(lengths, max_length, strategy=strategy, overlong=overlong, order="input")
    expected = [
        end - start for _, start, end in reference.stretches(lengths, max_length, strategy, overlong, "start")
    ]
    assert made.tokens == sum(map(int, made.lengths)) == sum(expected)
    room = [sum(map(int, part)) for part in np.split(made.lengths, made.offsets[1:-1])]
    assert max(room) <= max_length
    assert made.fill == pytest.approx(sum(expected) / (max_length * len(made)))
    assert sum(expected) / max_length <= made.lower_bound <= len(made)
    held = dict.fromkeys(range(len(lengths)), 0)
    for document, start, length in sorted(zip(made.members, made.starts, made.lengths, strict=True)):
        assert start == held[document]
        held[document] += int(length)
    assert list(held.values()) == expected


@pytest.mark.parametrize("lengths", HUGE.values(), ids=HUGE)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_rows_of_huge_documents_are_those_of_the_oracle(strategy: str, lengths: list[int]) -> None:
    made = plan(lengths, 2**31 - 1, strategy=strategy, order="input")
    assert members(made) == in_input_order(reference.STRATEGIES[strategy](lengths, 2**31 - 1))


def test_huge_documents_are_aligned_and_shared_among_ranks() -> None:
    strategy, order = fastpack.BestFit(align_to=2**20), fastpack.Balanced(4)
    made = plan(HUGE["32 bits"] * 4, 2**30, strategy=strategy, order=order)
    assert len(made) % 4 == 0
    assert made.tokens == sum(map(int, made.lengths)) == 4 * sum(HUGE["32 bits"])


@pytest.mark.parametrize(("lengths", "message"), [([3, -1], "`-1` at index 1"), ([0], "`0` at index 0")])
def test_lengths_below_one_are_refused(lengths: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=f"`lengths`.*{message}.*at least 1"):
        plan(lengths, 8)


def test_what_is_too_long_is_an_error_if_told_so() -> None:
    with pytest.raises(ValueError, match=r'`9` at index 1.*max_length=8.*overlong="drop"'):
        plan([8, 9], 8, overlong="error")


@pytest.mark.parametrize("lengths", [np.array([1.0, 2.0]), np.array([[1, 2], [3, 4]]), np.array(["1"])])
def test_what_is_no_list_of_integers_is_refused(lengths: npt.NDArray[np.generic]) -> None:
    with pytest.raises((TypeError, ValueError)):
        fastpack.plan(lengths, max_length=8)


@pytest.mark.parametrize("max_length", [0, 2**31])
def test_max_length_has_bounds(max_length: int) -> None:
    with pytest.raises(ValueError, match="max_length"):
        plan([1], max_length)


@pytest.mark.parametrize("option", ["strategy", "overlong", "order"])
def test_unknown_names_are_refused(option: str) -> None:
    with pytest.raises(ValueError, match="sideways"):
        plan([1], 8, **{option: "sideways"})
    with pytest.raises(ValueError, match="sideways"):
        fastpack.Truncate(side="sideways")
