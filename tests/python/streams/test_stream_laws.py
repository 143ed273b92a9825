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
from nested import flat

import fastpack

if TYPE_CHECKING:
    from pathlib import Path

LANES = {1: [1], 2: [1, 2], 6: [1, 2, 3, 6], 8: [1, 2, 4, 8], 12: [1, 2, 3, 6]}
"""Numbers of lanes, each with numbers of ranks that can share them."""

PLACES = 10
"""The most places of bad records in a report."""

RECORDS = [1, 9, 40, 150, 600]
"""Numbers of records of a source."""

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
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sources")


LENGTHS = {
    "mixed": [2, 3, 5, 8, 11, 20, 25, 31, 40, 70],
    "long": [70, 70, 70, 70, 70, 70, 70, 70, 70, 20],
    "dropped": [70],
    "short": [2, 3, 5, 8],
}
"""The lengths of the documents of a source: a row has 32 tokens."""


def source(folder: Path, name: str, records: int, lengths: str) -> str:
    """A file of ids, of which some are longer than a row, and some records are empty, broken or untrained."""
    path = folder / f"{name}-{records}-{lengths}.jsonl"
    if not path.exists():
        chance, first = random.Random(name), FIRST[name]
        lines = []
        for number in range(records):
            length = chance.choice(LENGTHS[lengths])
            ids = [first + (number + place) % 90 for place in range(length)]
            record: dict[str, Any] = {"input_ids": ids, "kind": number % 3}
            if number % 11 == 3:
                record["labels"] = [-100] * length
            if number % 17 == 5:
                record["input_ids"] = []
            lines.append(json.dumps(record) if number % 13 != 7 else '{"input_ids": 5}')
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


ALWAYS: dict[str, Any] = {
    "tokenizer": None,
    "padding": fastpack.Padding(token_id=0),
    "on_bad_record": "skip",
    "max_lost": "100%",
    "max_length": 32,
    "threads": 2,
}

PACKING = st.one_of(
    st.fixed_dictionaries({"strategy": st.builds(fastpack.Concat, drop_last=st.booleans())}),
    st.fixed_dictionaries(
        {
            "strategy": st.sampled_from(["sequential", "none"])
            | st.builds(fastpack.BestFit, open_rows=st.sampled_from([1, 4, 16])),
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
        "lanes": st.sampled_from(list(LANES)),
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
        # All ranks together take the same rows in a step, whatever their number.
        step = max(LANES[options["lanes"]])
        self.streams = [
            flat.stream(files, rank=rank, world_size=world, batch_size=step // world, **options)
            for rank in range(world)
        ]
        for stream in self.streams if state is not None else []:
            stream.load_state_dict(state)

    def steps(self, most: int | None) -> list[list[int]]:
        """The ids of the rows of `most` steps; of all that follow if `None`."""
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

    def places(self) -> list[tuple[str, int, str, str]]:
        """The first places of bad records in the reports of all ranks together."""
        reports = [stream.report for stream in self.streams if stream.report is not None]
        places = {
            (place["path"], place["line"], place["reason"], place["message"])
            for report in reports
            for place in report.to_dict()["places"]
        }
        return sorted(places)[:PLACES]

    def close(self) -> None:
        for stream in self.streams:
            stream.close()


def told(stream: fastpack.PackStream) -> dict[str, Any]:
    """The parts of a report on documents that are no sums over ranks."""
    assert stream.report is not None
    report = stream.report.to_dict()
    return {name: report[name] for name in ("lengths", "lower_bound", "places", *COUNTS)}


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
    data=st.tuples(*[st.tuples(st.sampled_from(RECORDS), st.sampled_from(list(LENGTHS)))] * len(FIRST)),
    plan=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 6)), min_size=1, max_size=3),
    last=st.integers(0, 3),
)
def test_a_stream_that_was_stopped_has_the_rows_and_counts_of_one_that_was_not(
    packing: dict[str, Any],
    reading: dict[str, Any],
    mix: dict[str, Any] | None,
    data: tuple[tuple[int, str], ...],
    plan: list[tuple[int, int]],
    last: int,
    folder: Path,
) -> None:
    made = zip(FIRST, data, strict=True)
    sources = {name: source(folder, name, records, lengths) for name, (records, lengths) in made}
    files: Any = list(sources.values()) if mix is None else sources
    options = ALWAYS | packing | reading | (mix or {}) | {"cache_dir": str(folder / "counts")}
    whole = Ranks(1, files, options, None)
    try:
        if "max_steps" in options:
            # Several ranks count all rows first, also those that follow the last step.
            Ranks(1, files, {name: it for name, it in options.items() if name != "max_steps"}, None).steps(
                None
            )
        expected = whole.steps(None)
    except fastpack.OptionError as refused:
        # A lane without a document of a source cannot keep to the weights.
        if mix is None or refused.option != "weights":
            raise
        return
    worlds = LANES[options["lanes"]]
    state, rows = None, []
    for ranks, steps in plan:
        run = Ranks(worlds[ranks % len(worlds)], files, options, state)
        rows += run.steps(steps)
        state = run.state() if rows else None
        run.close()
    end = Ranks(worlds[last % len(worlds)], files, options, state)
    rows += end.steps(None)
    assert rows == expected
    assert end.counts() == whole.counts()
    assert end.places() == whole.places()
    if rows:
        ended = Ranks(1, files, options, end.state())
        assert ended.steps(None) == []
        assert told(ended.streams[0]) == told(whole.streams[0])
    if mix is not None and rows:
        together = end.state()
        packed = {name: share["tokens"] for name, share in together["counts"]["shares"].items()}
        shares = {name: packed.get(name, 0) / max(sum(packed.values()), 1) for name in FIRST}
        assert shares == pytest.approx(shares_of(rows))
        assert whole.streams[0].stats().shares == pytest.approx(shares_of(rows))


@pytest.mark.parametrize("seed", range(tries(6, 300)))
def test_the_shares_of_a_mix_are_those_of_its_weights_whatever_is_dropped(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Documents longer than a row were charged to their source, which so got less than its share."""
    chance = random.Random(seed)
    folder = tmp_path_factory.mktemp("dropped")
    files = {}
    for name, first in FIRST.items():
        part = chance.choice([0.0, 0.3, 0.8])
        lengths = [
            chance.choice([40, 90]) if chance.random() < part else chance.randint(2, 30) for _ in range(800)
        ]
        lines = [
            json.dumps({"input_ids": [first + number % 90] * length}) for number, length in enumerate(lengths)
        ]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        files[name] = str(folder / f"{name}.jsonl")
    weights = {name: chance.choice([1, 2, 5]) for name in FIRST}
    options: dict[str, Any] = ALWAYS | {
        "strategy": chance.choice(["best_fit", "sequential"]),
        "overlong": chance.choice(["drop", "truncate"]),
        "lanes": chance.choice([1, 4]),
        "epochs": None,
        "weights": weights,
    }
    with flat.stream(files, batch_size=8, **options) as stream:
        # Best fit keeps many open rows in each lane: at first those of short documents wait, and long ones are told too often.
        rows = [row for _ in range(400) for row in next(stream)["input_ids"].to_pylist()]
        assert stream.stats().shares == pytest.approx(shares_of(rows))
    wanted = {name: weight / sum(weights.values()) for name, weight in weights.items()}
    assert shares_of(rows) == pytest.approx(wanted, abs=0.03)


SPOKEN = (
    "{% for m in messages %}<|{{ m.role }}|>{% generation %}{{ m.content }}{% endgeneration %}\n{% endfor %}"
)
"""A template that prints no reasoning."""


@pytest.mark.parametrize("seed", range(tries(4, 200)))
def test_what_a_resumed_stream_tells_of_records_is_what_one_that_was_not_stopped_tells(
    seed: int, tokenizer_dir: Path, tmp_path: Path
) -> None:
    """Fields that are left out, by the first of all records; the folder moves in between."""
    chance = random.Random(seed)
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    for name in "ba":
        turns = [{"role": "assistant", "content": f"answer {at}"} for at in range(60)]
        for at in chance.sample(range(60), 20):
            turns[at]["reasoning_content"] = f"because {at}"
        lines = [
            json.dumps({"messages": [{"role": "user", "content": f"question {at}"}, turn]})
            for at, turn in enumerate(turns)
        ]
        (before / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    options: dict[str, Any] = {
        "tokenizer": tokenizer_dir,
        "chat_template": SPOKEN,
        "max_length": 64,
        "lanes": 4,
        "epochs": chance.choice([1, 2]),
        "on_end": "pad",
        "cache_dir": str(tmp_path / "counts"),
    }

    def files(folder: Path) -> list[str]:
        return [str(folder / "b.jsonl"), str(folder / "a.jsonl")]

    def left_out(stream: fastpack.PackStream) -> Any:
        assert stream.report is not None
        return stream.report.to_dict()["left_out"]

    with flat.stream(files(before), batch_size=4, **options) as whole:
        steps = sum(1 for _ in whole)
        expected = left_out(whole)["reasoning_content"]
    assert expected["records"] > 3
    first = [flat.stream(files(before), rank=rank, world_size=2, batch_size=2, **options) for rank in (0, 1)]
    for _ in range(chance.randrange(1, steps)):
        for stream in first:
            next(stream)
    state = fastpack.merge_state_dicts([stream.state_dict() for stream in first])
    for stream in first:
        stream.close()
    before.rename(after)
    with flat.stream(files(after), batch_size=4, **options) as resumed:
        resumed.load_state_dict(state)
        list(resumed)
        moved = [place.replace(str(before), str(after)) for place in expected["places"]]
        assert left_out(resumed)["reasoning_content"] == expected | {"places": moved}
