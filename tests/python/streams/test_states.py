"""States that travel as dicts: sealed, refused once they were changed."""

from __future__ import annotations

import copy
import itertools
import json
import re
from collections import OrderedDict
from types import MappingProxyType
from typing import Any

import pytest
from campaign import tries
from hypothesis import given, settings
from hypothesis import strategies as st
from nested import flat, place

import fastpack
from fastpack.streaming.states import opened_state, sealed_state

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


@pytest.fixture(scope="module")
def ids(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Documents of ids, more than fill some steps."""
    path = tmp_path_factory.mktemp("ids") / "ids.jsonl"
    lines = [
        json.dumps({"input_ids": [number % 90] * (2 + number % 9), "kind": number % 2})
        for number in range(400)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


PLAIN: dict[str, Any] = {
    "tokenizer": None,
    "max_length": 16,
    "lanes": 4,
    "batch_size": 2,
    "padding": fastpack.Padding(token_id=0),
}


def rows_of(stream: fastpack.PackStream, most: int | None = None) -> list[list[int]]:
    """The ids of the rows of `most` tables; of all that follow if `None`."""
    return [row for table in itertools.islice(stream, most) for row in table["input_ids"].to_pylist()]


@settings(max_examples=tries(60, 5000), deadline=None)
@given(data=st.data())
def test_of_an_edited_state_of_a_stream_none_is_used(ids: str, data: st.DataObject) -> None:
    with flat.stream(ids, **PLAIN) as stream:
        rows_of(stream, data.draw(st.integers(0, 6)))
        state: Any = stream.state_dict()
    *way, last = data.draw(st.sampled_from(places_of(state)[1:]))
    holder = state
    for name in way:
        holder = holder[name]
    value = holder[last]
    kinds: list[Any] = [_VALUES.filter(lambda new: json.dumps(new) != json.dumps(value))]
    if isinstance(value, str) and value:
        at = data.draw(st.integers(0, len(value) - 1))
        kinds.append(
            st.sampled_from("AB01ab_")
            .filter(lambda it: it != value[at])
            .map(lambda it: value[:at] + it + value[at + 1 :])
        )
        kinds.append(st.just(value[:at]))
    elif isinstance(value, int) and not isinstance(value, bool):
        kinds.append(st.sampled_from([value + 1, value - 1, -value - 1, value + 2**32, float(value)]))
    if data.draw(st.integers(0, 5)):
        holder[last] = data.draw(st.one_of(kinds))
    else:
        del holder[last]
    again = flat.stream(ids, **PLAIN)
    with pytest.raises(fastpack.OptionError, match="`state`"):
        again.load_state_dict(state)
    with pytest.raises(fastpack.OptionError, match="`state`"):
        fastpack.merge_state_dicts([state])


@pytest.mark.parametrize("kind", [[], {}, None, 1.5, "table"])
def test_a_state_of_a_kind_that_is_none_is_refused(ids: str, kind: Any) -> None:
    with flat.stream(ids, **PLAIN) as stream:
        state = {**stream.state_dict(), "state_of": kind}
    with pytest.raises(fastpack.OptionError, match="`state`"):
        fastpack.merge_state_dicts([state])


OTHERS: dict[str, list[Any]] = {
    "epochs": [2, None],
    "on_end": ["drop", "repeat"],
    "shuffle": [False],
    "seed": [7],
    "max_length": [17],
    "strategy": ["concat", "none"],
    "open_packs": [3],
    "overlong": ["truncate"],
    "where": [{"kind": 1}],
    "min_document_tokens": [3],
    "max_document_tokens": [9],
    "validation": [0.1],
    "skip": [1],
    "take": [300],
    "stride": [2],
    "pad_token_id": [1],
    "columns": [["input_ids"]],
    "on_bad_record": ["skip"],
}
"""Other values of options that decide rows."""

MAY_DIFFER: dict[str, list[Any]] = {
    "batch_size": [1, 4],
    "lanes": [None],
    "max_steps": [500],
    "threads": [1],
    "max_lost": ["100%"],
    "progress": [False],
    "cache_dir": ["/tmp/none-is-made-here"],
    "log": [print],
}
"""Other values of options that decide none."""


@pytest.mark.parametrize("tables", [0, 3])
def test_every_option_that_decides_rows_is_part_of_a_state(ids: str, tables: int) -> None:
    with flat.stream(ids, **PLAIN) as stream:
        rows_of(stream, tables)
        state = stream.state_dict()
        rest = rows_of(stream)
    for option, values in OTHERS.items():
        for value in values:
            other = flat.stream(ids, **(PLAIN | {option: value}))
            other.load_state_dict(state)
            # A stream has a `shuffle` of its own.
            named = re.escape(option if option == "shuffle" else place(option))
            with pytest.raises(fastpack.OptionError, match=f"what differs: .*`{named}`"):
                next(other)
    for reading in ({"limit": 300}, {"repeat": 2}) if tables else ():
        other = flat.stream(sources=[{"path": ids, **reading}], **PLAIN)
        other.load_state_dict(state)
        with pytest.raises(fastpack.OptionError, match=r"what differs: `(limit|repeat)`"):
            next(other)
    for option, values in MAY_DIFFER.items():
        for value in values:
            other = flat.stream(ids, **(PLAIN | {"cache_dir": None} | {option: value}))
            other.load_state_dict(state)
            with other:
                assert rows_of(other) == rest or (tables == 0 and option == "lanes"), option


@pytest.mark.parametrize("world", [1, 2])
def test_a_state_before_the_first_table_is_the_beginning(ids: str, world: int) -> None:
    expected = rows_of(flat.stream(ids, **PLAIN, epochs=None), 4)
    options = PLAIN | {"batch_size": 2 // world, "epochs": None}
    streams = [flat.stream(ids, **options, rank=rank, world_size=world) for rank in range(world)]
    states = [stream.state_dict() for stream in streams]
    assert [stream.step for stream in streams] == [0] * world
    assert fastpack.merge_state_dicts(states) == states[0]
    for state in [states[0], json.loads(json.dumps(states[0]))]:
        again = flat.stream(ids, **PLAIN, epochs=None)
        rows_of(again, 2)
        again.load_state_dict(state)
        assert (again.step, again.stats().rows) == (0, 0)
        assert again.state_dict() == state
        with again:
            assert rows_of(again, 4) == expected
