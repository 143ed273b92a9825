"""States that travel as dicts: sealed, refused once they were changed."""

from __future__ import annotations

import copy
import json
from collections import OrderedDict
from types import MappingProxyType
from typing import Any

import pytest
from campaign import tries
from hypothesis import given, settings
from hypothesis import strategies as st

import fastpack
from fastpack.api.states import opened_state, sealed_state

_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",)), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


def places_of(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places of all values within a value, itself included."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place, *(it for name, part in inner for it in places_of(part, (*place, name)))]


@settings(max_examples=tries(100, 5000), deadline=None)
@given(state=st.dictionaries(st.text("abc", min_size=1, max_size=3), _VALUES, max_size=4), data=st.data())
def test_a_state_opens_as_it_was_and_not_once_a_value_is_another(
    state: dict[str, Any], data: st.DataObject
) -> None:
    sealed = sealed_state("Loader", state)
    order = data.draw(st.permutations(list(sealed)))
    for same in (
        sealed,
        json.loads(json.dumps(sealed, sort_keys=True)),
        MappingProxyType(sealed),
        OrderedDict((name, sealed[name]) for name in order),
    ):
        assert json.dumps(opened_state("Loader", same), sort_keys=True) == json.dumps(state, sort_keys=True)
    edited: Any = copy.deepcopy(sealed)
    *way, last = data.draw(st.sampled_from(places_of(edited)[1:]))
    holder = edited
    for name in way:
        holder = holder[name]
    if data.draw(st.booleans()):
        holder[last] = data.draw(_VALUES.filter(lambda new: json.dumps(new) != json.dumps(holder[last])))
    else:
        del holder[last]
    with pytest.raises(fastpack.OptionError, match="state_dict"):
        opened_state("Loader", edited)
    with pytest.raises(fastpack.OptionError, match="`Loader`"):
        opened_state("Sampler", sealed)


def deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"blake3": "0" * 64}
    for _ in range(levels):
        value = {"blake3": "0" * 64, "inner": value}
    return value


def deeper(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def str_of(state: Any) -> str:
    return type(state).__name__


@pytest.mark.parametrize(
    "state",
    [
        None,
        {},
        [],
        (),
        0,
        "",
        "{}",
        b"{}",
        {1, 2},
        {"rows": float("nan")},
        {"rows": {1, 2}},
        {"a": "\ud800"},
        deep(200),
        deep(5000),
        deeper(5000),
    ],
    ids=str_of,
)
def test_what_is_no_state_is_refused_by_name_on_one_line(state: Any) -> None:
    with pytest.raises(fastpack.OptionError, match="invalid option `state_dict`") as refused:
        opened_state("Loader", state)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 800
    assert refused.value.option == "state_dict"
