"""`fastpack.plan`: its rows are those of the oracle and of TRL."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

import fastpack

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


def plan(lengths: Sequence[int], max_length: int, **options: str) -> fastpack.Plan:
    return fastpack.plan(np.array(lengths, dtype=np.int64), max_length=max_length, **options)


def rows(made: fastpack.Plan) -> list[list[int]]:
    return [part.tolist() for part in np.split(made.members, made.offsets[1:-1])] if len(made) else []


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(packable())
def test_rows_are_those_of_the_oracle(strategy: str, case: tuple[int, list[int]]) -> None:
    max_length, lengths = case
    made = plan(lengths, max_length, strategy=strategy)
    assert rows(made) == reference.STRATEGIES[strategy](lengths, max_length)
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
    made = plan(lengths, shorter, overlong="truncate")
    cut = [min(length, shorter) for length in lengths]
    assert rows(made) == reference.best_fit(cut, shorter)
    assert made.lengths.tolist() == [cut[document] for document in made.members]


@pytest.fixture(scope="module")
def trl_data_utils() -> ModuleType:
    """TRL's packing, loaded by its path: importing the package takes torch and a trainer."""
    found = importlib.util.find_spec("trl")
    if found is None or not found.submodule_search_locations:
        pytest.skip("trl is not installed")
    pytest.importorskip("transformers")
    path = Path(found.submodule_search_locations[0]) / "data_utils.py"
    spec = importlib.util.spec_from_file_location("trl_data_utils", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
        assert rows(plan(lengths, max_length)) == trl_rows(trl_data_utils, lengths, max_length)


@pytest.mark.parametrize("max_length", [2**10 - 1, 2**10, 2**10 + 1, 1500])
def test_best_fit_packs_whatever_max_length_is_trl_3887(trl_data_utils: ModuleType, max_length: int) -> None:
    lengths = np.random.default_rng(0).normal(500, 60, 1000).clip(1, max_length).astype(int).tolist()
    made = plan(lengths, max_length)
    assert rows(made) == trl_rows(trl_data_utils, lengths, max_length)
    assert made.fill > 0.6
    assert len(made) < 0.6 * len(lengths)


def test_a_part_of_the_lengths_is_packed_alone_trl_6669(trl_data_utils: ModuleType) -> None:
    lengths = np.random.default_rng(1).integers(1, 90, 300)
    part = lengths[100:200]
    made = fastpack.plan(part, max_length=90)
    assert rows(made) == trl_rows(trl_data_utils, part.tolist(), 90, before=100)
    assert sorted(made.members) == list(range(100))


def test_lengths_need_not_lie_side_by_side() -> None:
    lengths = np.arange(1, 21, dtype=np.int64)
    assert rows(fastpack.plan(lengths[::-2], max_length=40)) == reference.best_fit(lengths[::-2].tolist(), 40)


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


def test_more_tokens_than_32_bits_count_are_counted() -> None:
    made = plan([2**31 - 1] * 5, 2**31 - 1)
    assert (len(made), made.tokens) == (5, 5 * (2**31 - 1))


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


@pytest.mark.parametrize("option", ["strategy", "overlong"])
def test_unknown_names_are_refused(option: str) -> None:
    with pytest.raises(ValueError, match="sideways"):
        plan([1], 8, **{option: "sideways"})
