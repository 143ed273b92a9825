"""A stream that was stopped and resumed anywhere, on any ranks, has the rows and the counts of one that was not."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from campaign import tries
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fastpack

if TYPE_CHECKING:
    from pathlib import Path

STEP = 6
"""The rows of all ranks together in one step."""

WORLDS = [1, 2, 3, 6]

FIRST = {"a": 100, "b": 200, "c": 300}
"""The least id of each source, and so the source of an id."""

COUNTS = (
    "documents",
    "tokens",
    "dropped",
    "truncated",
    "repeated",
    "rows",
    "trained_tokens",
    "straddling_tokens",
)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Files of ids; a fifth of the documents is longer than a row, and some records are empty, broken or untrained."""
    folder = tmp_path_factory.mktemp("sources")
    for name, first in FIRST.items():
        chance = random.Random(name)
        lines = []
        for number in range(150):
            length = chance.choice([2, 3, 5, 8, 11, 20, 25, 31, 40, 70])
            ids = [first + (number + place) % 90 for place in range(length)]
            record: dict[str, Any] = {"input_ids": ids, "kind": number % 3}
            if number % 11 == 3:
                record["labels"] = [-100] * length
            if number % 17 == 5:
                record["input_ids"] = []
            lines.append(json.dumps(record) if number % 13 != 7 else '{"input_ids": 5}')
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {name: str(folder / f"{name}.jsonl") for name in FIRST}


ALWAYS: dict[str, Any] = {
    "tokenizer": None,
    "pad_token_id": 0,
    "on_bad_record": "skip",
    "max_lost": "100%",
    "max_length": 32,
    "threads": 2,
}

PACKING = st.one_of(
    st.fixed_dictionaries({"strategy": st.just("concat"), "drop_last": st.booleans()}),
    st.fixed_dictionaries(
        {
            "strategy": st.sampled_from(["best_fit", "sequential", "none"]),
            "overlong": st.sampled_from(["drop", "truncate", "split"]),
        }
    ),
)
READING = st.fixed_dictionaries(
    {
        "shuffle": st.booleans(),
        "seed": st.integers(0, 3),
        "epochs": st.sampled_from([1, 2]),
        "on_end": st.sampled_from(["pad", "pad", "drop", "repeat"]),
        "lanes": st.just(6),
        "open_packs": st.sampled_from([1, 4, 16]),
    },
    optional={
        "where": st.just({"kind": [0, 2]}),
        "min_document_tokens": st.just(3),
        "skip": st.just(4),
        "stride": st.just(2),
        "max_steps": st.integers(2, 12),
    },
)
MIXES = st.none() | st.fixed_dictionaries(
    {
        "weights": st.sampled_from([{"a": 1, "b": 1, "c": 2}, {"a": 5, "b": 1, "c": 1}]),
        "weight_unit": st.sampled_from(["tokens", "documents", "rows"]),
        "on_exhausted": st.sampled_from(["repeat", "stop", "drop"]),
    }
)


class Ranks:
    """The streams of all ranks, which take turns."""

    def __init__(self, world: int, files: Any, options: dict[str, Any], state: Any) -> None:
        self.streams = [
            fastpack.stream(files, rank=rank, world_size=world, batch_size=STEP // world, **options)
            for rank in range(world)
        ]
        for stream in self.streams if state is not None else []:
            stream.load_state_dict(state)

    def steps(self, most: int | None) -> list[list[int]]:
        """The ids of the rows of so many steps; of all that follow if `None`."""
        rows: list[list[int]] = []
        while most is None or most > 0:
            tables = [next(stream, None) for stream in self.streams]
            if any(table is None for table in tables):
                assert all(table is None for table in tables), "the ranks end at different steps"
                break
            rows += [row for table in tables if table is not None for row in table["input_ids"].to_pylist()]
            most = None if most is None else most - 1
        return rows

    def state(self) -> Any:
        states = [stream.state_dict() for stream in self.streams]
        return fastpack.merge_state_dicts(states) if len(states) > 1 else states[0]

    def counts(self) -> Counter[str]:
        """The counts of the reports of all ranks together."""
        found: Counter[str] = Counter()

        def add(name: str, value: Any) -> None:
            if isinstance(value, dict):
                for key, inner in value.items():
                    add(f"{name} {key}", inner)
            elif value:
                found[name] += value

        for stream in self.streams:
            assert stream.report is not None
            report = stream.report.to_dict()
            for name in COUNTS:
                add(name, report[name])
        return found

    def close(self) -> None:
        for stream in self.streams:
            stream.close()


def shares_of(rows: list[list[int]]) -> dict[str, float]:
    """The share of each source among the tokens of some rows."""
    tokens = Counter(
        {name: sum(first <= it < first + 100 for row in rows for it in row) for name, first in FIRST.items()}
    )
    return {name: count / max(tokens.total(), 1) for name, count in tokens.items()}


@settings(
    max_examples=tries(25, 3000), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    packing=PACKING,
    reading=READING,
    mix=MIXES,
    plan=st.lists(st.tuples(st.sampled_from(WORLDS), st.integers(1, 6)), min_size=1, max_size=3),
    world=st.sampled_from(WORLDS),
)
def test_a_stream_that_was_stopped_has_the_rows_and_counts_of_one_that_was_not(
    packing: dict[str, Any],
    reading: dict[str, Any],
    mix: dict[str, Any] | None,
    plan: list[tuple[int, int]],
    world: int,
    sources: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    files: Any = list(sources.values()) if mix is None else sources
    folder: Path = tmp_path_factory.getbasetemp() / "counts"
    options = ALWAYS | packing | reading | (mix or {}) | {"cache_dir": str(folder)}
    whole = Ranks(1, files, options, None)
    try:
        expected = whole.steps(None)
    except fastpack.OptionError as refused:
        # A lane without a document of a source cannot keep to the weights.
        if mix is None or refused.option != "weights":
            raise
        return
    state, rows = None, []
    for ranks, steps in plan:
        run = Ranks(ranks, files, options, state)
        rows += run.steps(steps)
        state = run.state() if rows else None
        run.close()
    last = Ranks(world, files, options, state)
    rows += last.steps(None)
    assert rows == expected
    assert last.counts() == whole.counts()
    if mix is not None and rows:
        together = last.state()
        packed = {name: share["tokens"] for name, share in together["counts"]["shares"].items()}
        shares = {name: packed.get(name, 0) / max(sum(packed.values()), 1) for name in FIRST}
        assert shares == pytest.approx(shares_of(rows))
        assert whole.streams[0].stats().shares == pytest.approx(shares_of(rows))
