"""A stream of records that Python gives: functions, re-iterable objects and data sets of `datasets`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
import threading
import time
from typing import TYPE_CHECKING, Any

import datasets
import pytest
from campaign import tries
from conftest import sentence
from hypothesis import given, settings
from hypothesis import strategies as st
from nested import flat
from pace import paced
from test_stream_resume import OPTIONS, Run, rows_of

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LANES = 24
WORLDS = [1, 2, 3, 4, 6, 12]
COUNT = 1500


@pytest.fixture(scope="module")
def loaded(tokenizer_dir: Path) -> fastpack.Tokenizer:
    return fastpack.Tokenizer(tokenizer_dir)


def record(number: int) -> dict[str, Any]:
    return {"text": f"<{number}> {sentence(number, 2 + number % 30)}", "kind": str(number % 5)}


def records() -> Iterator[dict[str, str]]:
    return map(record, range(COUNT))


class Again:
    """An iterable that starts anew, and says nothing of its place."""

    def __iter__(self) -> Iterator[dict[str, str]]:
        return records()


class Stateful:
    """An iterable that tells its place, and counts the records that it gives."""

    def __init__(self) -> None:
        self.at = self.begin = self.given = 0

    def __iter__(self) -> Iterator[dict[str, str]]:
        self.at, self.begin = self.begin, 0
        while self.at < COUNT:
            self.at += 1
            self.given += 1
            yield record(self.at - 1)

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        self.begin = state_dict["at"]


def hub_dataset() -> Any:
    return datasets.IterableDataset.from_generator(records)


def shuffled_hub_dataset() -> Any:
    return hub_dataset().shuffle(seed=7, buffer_size=100)


def table_dataset() -> Any:
    return datasets.Dataset.from_list(list(records()))


def mapped_hub_dataset() -> Any:
    dataset = datasets.Dataset.from_list(list(records())).to_iterable_dataset(num_shards=3)
    return dataset.map(
        lambda batch: {"text": [text.upper() for text in batch["text"]]}, batched=True, batch_size=7
    )


SOURCES: dict[str, Callable[[], Any]] = {
    "function": lambda: records,
    "iterable": Again,
    "stateful": Stateful,
    "IterableDataset": hub_dataset,
    "shuffled": shuffled_hub_dataset,
    "mapped": mapped_hub_dataset,
    "Dataset": table_dataset,
}


@pytest.mark.parametrize("strategy", ["sequential", "concat", "none"])
@pytest.mark.parametrize("source", ["function", "IterableDataset", "Dataset"])
def test_one_lane_in_order_has_the_rows_of_pack_records(
    strategy: Any, source: str, loaded: fastpack.Tokenizer
) -> None:
    packed = flat.pack_records(records(), loaded, max_length=96, strategy=strategy)
    stream = flat.stream(
        SOURCES[source](), loaded, max_length=96, strategy=strategy, shuffle=False, lanes=1, batch_size=7
    )
    assert [row for table in stream for row in rows_of(table)] == rows_of(packed)


@pytest.mark.parametrize("source", SOURCES)
def test_every_epoch_has_every_record_once(source: str, loaded: fastpack.Tokenizer) -> None:
    stream = flat.stream(
        SOURCES[source](), loaded, max_length=256, strategy="none", lanes=LANES, epochs=2, batch_size=100
    )
    rows = [tuple(row[0]) for table in stream for row in rows_of(table)]
    assert len(rows) == 2 * COUNT
    assert len(set(rows)) == COUNT
    assert stream.report is not None
    assert stream.report.documents.read == stream.report.documents.kept == 2 * COUNT


@settings(max_examples=tries(4, 40))
@given(
    plan=st.lists(st.tuples(st.sampled_from(WORLDS), st.integers(1, 40)), min_size=2, max_size=4),
    options=st.sampled_from(OPTIONS),
    source=st.sampled_from(list(SOURCES)),
)
def test_the_rows_are_the_same_whatever_stops_and_ranks_there_are(
    plan: list[tuple[int, int]], options: dict[str, Any], source: str, loaded: fastpack.Tokenizer
) -> None:
    def make(**more: Any) -> fastpack.PackStream:
        chosen = {"batch_size": 2, "epochs": None, "max_length": 256, "threads": 2, "lanes": LANES}
        return flat.stream(SOURCES[source](), loaded, **(chosen | options | more))

    state, rows = None, []
    for world, steps in plan:
        run = Run(make, world, state)
        for _ in range(steps):
            rows += run.step()
        state = run.state()
        run.close()
    with make(batch_size=1) as alone:
        assert rows == [row for _ in rows for row in rows_of(next(alone))]


@pytest.mark.parametrize("source", SOURCES)
def test_the_state_after_every_table_resumes(source: str, loaded: fastpack.Tokenizer) -> None:
    """Also at the edge of an epoch."""

    def make(**more: Any) -> fastpack.PackStream:
        options: dict[str, Any] = {
            "max_length": 512,
            "lanes": 6,
            "batch_size": 9,
            "epochs": 2,
            "strategy": fastpack.BestFit(open_rows=4),
        }
        return flat.stream(SOURCES[source](), loaded, **(options | more))

    tables = list(make())
    rows = [rows_of(table) for table in tables]
    for number, table in list(enumerate(tables))[:: tries(9, 1)]:
        stream = make()
        stream.load_state_dict(fastpack.state_of(table))
        assert [rows_of(later) for later in stream] == rows[number + 1 :], number
        assert stream.report is not None
        assert stream.report.documents.read == stream.report.documents.kept == 2 * COUNT


@pytest.mark.parametrize("on_exhausted", ["repeat", "stop", "drop"])
def test_records_in_a_mix_resume_beside_files(
    on_exhausted: Any, loaded: fastpack.Tokenizer, write_jsonl: Callable[..., Path]
) -> None:
    path = write_jsonl([{"text": f"[{number}] {sentence(number, 20)}"} for number in range(400)])

    def make(**more: Any) -> fastpack.PackStream:
        sources: Any = {
            "files": path,
            "told": {"records": Stateful(), "fingerprint": "v1"},
            "counted": {"records": records, "shape": "text", "fields": {"text": "text"}},
        }
        weights = [(0, {"files": 1, "told": 2, "counted": 0}), (60, {"files": 1, "told": 1, "counted": 3})]
        options: dict[str, Any] = {"max_length": 256, "lanes": 4, "batch_size": 1}
        return flat.stream(sources, loaded, weights=weights, on_exhausted=on_exhausted, **options, **more)

    with make(epochs=None, max_steps=240) as stream:
        rows = [rows_of(table) for table in stream]
    assert all(share > 0.1 for share in stream.stats().shares.values())
    state, found = None, []
    for world, steps in ((2, 20), (1, 37), (4, 11), (1, 0), (2, 13)):
        run = Run(lambda **more: make(epochs=None, **more), world, state)
        for _ in range(steps):
            found += [[row] for row in run.step()]
        state = run.state() if steps else state
        run.close()
    assert found == rows[: len(found)]
    finite = list(make(epochs=1))
    for number in (0, 1, 2, 3, 10, 13, 20, 100, 123):
        again = make(epochs=1)
        again.load_state_dict(fastpack.state_of(finite[number]))
        assert [rows_of(table) for table in again] == [rows_of(table) for table in finite[number + 1 :]]


@pytest.mark.parametrize(
    "option",
    [
        {"skip": 100, "take": 900},
        {"stride": 3},
        {"where": {"kind": ["1", "4"]}, "skip": 3},
        {"min_document_tokens": 20},
        {"validation": 0.3},
        {
            "filter": fastpack.Function(
                lambda batch: [len(text.as_py()) % 3 > 0 for text in batch["text"]], fingerprint="v1"
            ),
        },
    ],
    ids=lambda option: next(iter(option)),
)
@pytest.mark.parametrize("source", ["function", "IterableDataset"])
def test_a_stream_resumes_at_any_offset_whatever_is_done_with_records(
    option: dict[str, Any], source: str, loaded: fastpack.Tokenizer
) -> None:
    def make() -> fastpack.PackStream:
        options: dict[str, Any] = {"max_length": 128, "lanes": 6, "batch_size": 2, "strategy": "concat"}
        return flat.stream(SOURCES[source](), loaded, **options, **option)

    tables = list(make())
    for number in (0, 1, 2, 3, 10, 13, 20, 100, 123):
        if number < len(tables):
            stream = make()
            stream.load_state_dict(fastpack.state_of(tables[number]))
            assert [rows_of(it) for it in stream] == [rows_of(it) for it in tables[number + 1 :]]


def test_skip_and_take_are_about_the_records_in_their_order(loaded: fastpack.Tokenizer) -> None:
    options: dict[str, Any] = {"max_length": 256, "strategy": "none", "lanes": 5, "batch_size": 50}

    def ids(**chosen: Any) -> list[Any]:
        tables = flat.stream(records, loaded, **options, **chosen)
        return sorted(row[0] for table in tables for row in rows_of(table))

    wanted = flat.pack_records(
        (record(number) for number in range(700, 1000, 2)), loaded, max_length=256, strategy="none"
    )
    assert ids(skip=700, take=300, stride=2) == sorted(row[0] for row in rows_of(wanted))
    assert ids(skip=COUNT + 5) == []


def test_records_held_out_for_validation_are_no_part_of_the_others(loaded: fastpack.Tokenizer) -> None:
    options: dict[str, Any] = {"max_length": 256, "strategy": "none", "validation": 0.2, "batch_size": 1}
    stream = flat.stream(hub_dataset(), loaded, **options)
    train, held = [], []
    # Both are read at the same time.
    for other, table in zip(stream.validation, stream, strict=False):
        train += rows_of(table)
        held += rows_of(other)
    train += [row for table in stream for row in rows_of(table)]
    train_ids, held_ids = {tuple(row[0]) for row in train}, {tuple(row[0]) for row in held}
    assert not train_ids & held_ids
    assert len(train_ids | held_ids) == COUNT
    assert 0.15 < len(held_ids) / COUNT < 0.25


def test_a_source_that_tells_its_place_is_not_read_from_its_beginning(loaded: fastpack.Tokenizer) -> None:
    options: dict[str, Any] = {"max_length": 128, "lanes": 4, "batch_size": 1, "strategy": "concat"}
    tables = list(flat.stream(Stateful(), loaded, **options))
    number = len(tables) * 4 // 5
    state = fastpack.state_of(tables[number])
    source = Stateful()
    stream = flat.stream(source, loaded, **options)
    stream.load_state_dict(state)
    assert [rows_of(table) for table in stream] == [rows_of(table) for table in tables[number + 1 :]]
    # The first records tell the shape.
    assert source.given < COUNT // 2
    assert len(json.dumps(state)) < 3000


def test_a_function_may_return_something_that_tells_its_place(loaded: fastpack.Tokenizer) -> None:
    options: dict[str, Any] = {
        "max_length": 128,
        "lanes": 4,
        "batch_size": 1,
        "epochs": 2,
        "strategy": "concat",
    }
    tables = list(flat.stream(Stateful, loaded, **options))
    number = len(tables) * 3 // 4
    stream = flat.stream(Stateful, loaded, **options)
    stream.load_state_dict(fastpack.state_of(tables[number]))
    assert [rows_of(table) for table in stream] == [rows_of(table) for table in tables[number + 1 :]]
    assert "saved" in fastpack.state_of(tables[number])


def test_a_data_set_is_shuffled_anew_in_each_epoch(loaded: fastpack.Tokenizer) -> None:
    options: dict[str, Any] = {
        "max_length": 256, "strategy": "none", "lanes": 1, "epochs": 2, "batch_size": COUNT, "shuffle": False,
    }  # fmt: skip
    first, second = (rows_of(table) for table in flat.stream(shuffled_hub_dataset(), loaded, **options))
    assert first != second
    assert sorted(first) == sorted(second)


@pytest.mark.parametrize("count", [0, 1, 23, 24, 25, 200])
def test_a_source_of_few_records_gives_each_lane_some(count: int, loaded: fastpack.Tokenizer) -> None:
    def few() -> Iterator[dict[str, str]]:
        return map(record, range(count))

    stream = flat.stream(few, loaded, max_length=256, strategy="none", lanes=LANES, epochs=3, batch_size=10)
    rows = [tuple(row[0]) for table in stream for row in rows_of(table)]
    assert len(rows) == 3 * count
    assert len(set(rows)) == count


def test_records_of_several_shapes_and_bad_ones_are_counted(loaded: fastpack.Tokenizer) -> None:
    def some() -> Iterator[Any]:
        for number in range(300):
            yield {"text": 5} if number % 50 == 49 else object() if number % 50 == 48 else record(number)

    def make() -> fastpack.PackStream:
        options: dict[str, Any] = {"max_length": 96, "lanes": 3, "on_bad_record": "skip", "batch_size": 5}
        return flat.stream({"some": some}, loaded, **options)

    tables = list(make())
    again = make()
    again.load_state_dict(fastpack.state_of(tables[len(tables) // 2]))
    later = [rows_of(table) for table in again]
    assert later == [rows_of(table) for table in tables[len(tables) // 2 + 1 :]]
    assert again.report is not None
    assert sum(lost.documents for lost in again.report.dropped.values()) == 12
    with pytest.raises(fastpack.RecordError, match=r"<some>.*49") as refused:
        list(flat.stream({"some": some}, loaded, max_length=96, lanes=1, shuffle=False))
    assert refused.value.line == 49


# Refusals.


def test_what_gives_its_records_only_once_is_refused(loaded: fastpack.Tokenizer) -> None:
    same = records()
    with pytest.raises(fastpack.OptionTypeError, match=r"gives them only once.*function that makes it"):
        flat.stream(records(), loaded, max_length=96)
    with pytest.raises(fastpack.OptionTypeError, match="gives its records only once"):
        flat.stream({"a": {"records": records()}}, loaded, max_length=96)
    stream = flat.stream({"a": lambda: same}, loaded, max_length=96, epochs=2)
    with pytest.raises(fastpack.OptionError, match="`a` only once: the same iterator"):
        list(stream)


@pytest.mark.parametrize(
    ("files", "options", "named"),
    [
        ({"a": records, "b": records}, {}, "weights"),
        ({"a": {"records": records, "limit": 5}}, {}, "files"),
        ({"a": {"records": 5}}, {}, "records"),
        ({"a": {"records": records, "fingerprint": 5}}, {}, "fingerprint"),
    ],
    ids=["weights", "sources", "records", "fingerprint"],
)
def test_settings_that_records_cannot_have_are_refused(
    files: Any, options: dict[str, Any], named: str, loaded: fastpack.Tokenizer
) -> None:
    with pytest.raises(fastpack.OptionError) as refused:
        list(flat.stream(files, loaded, max_length=96, **options))
    assert refused.value.option == named


def test_a_sample_of_records_is_refused_and_a_count_is_not(
    loaded: fastpack.Tokenizer, tmp_path: Path
) -> None:
    with pytest.raises(fastpack.OptionError, match="so that the rows are counted"):
        flat.stream(records, loaded, max_length=96).estimate()
    stream = flat.stream(Stateful(), loaded, max_length=96, cache_dir=tmp_path / "counts")
    size = stream.estimate()
    assert size.counted
    assert size.rows == sum(table.num_rows for table in stream)


def test_ranks_of_a_finite_run_end_at_the_same_step(loaded: fastpack.Tokenizer, tmp_path: Path) -> None:
    def make(rank: int) -> fastpack.PackStream:
        return flat.stream(
            records, loaded, max_length=128, lanes=4, batch_size=2, rank=rank, world_size=2, strategy="none",
            on_end="drop" if rank < 0 else "pad", cache_dir=tmp_path,
        )  # fmt: skip

    first, second = (list(make(rank)) for rank in range(2))
    assert len(first) == len(second)
    rows = [tuple(row[0]) for table in first + second for row in rows_of(table) if set(row[1]) != {-100}]
    assert len(rows) == len(set(rows)) == COUNT


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ({"records": records, "fingerprint": "v1"}, {"records": records, "fingerprint": "v2"}),
        (records, Again()),
        (hub_dataset(), table_dataset()),
        (table_dataset(), table_dataset().select(range(1400))),
    ],
    ids=["fingerprint", "kind", "data set", "rows"],
)
def test_a_state_of_other_records_is_refused_where_that_is_seen(
    was: Any, now: Any, loaded: fastpack.Tokenizer
) -> None:
    with flat.stream({"a": was}, loaded, max_length=96) as stream:
        next(stream)
        state = stream.state_dict()
    other = flat.stream({"a": now}, loaded, max_length=96)
    other.load_state_dict(state)
    with pytest.raises(fastpack.OptionError, match="what differs: `records of a`"):
        next(other)


def test_a_source_that_became_shorter_is_refused(loaded: fastpack.Tokenizer) -> None:
    options: dict[str, Any] = {"max_length": 96, "lanes": 2, "batch_size": 5}
    tables = list(flat.stream({"a": lambda: records()}, loaded, **options))  # noqa: PLW0108  named as the other
    other = flat.stream({"a": lambda: map(record, range(50))}, loaded, **options)
    other.load_state_dict(fastpack.state_of(tables[-5]))
    with pytest.raises(fastpack.OptionError, match="<a>` ends after 50 records"):
        next(other)


# Failures.


class BrokenError(Exception):
    """The error of a source."""


def test_what_a_source_raises_reaches_the_caller_after_the_rows_before_it(loaded: fastpack.Tokenizer) -> None:
    def some() -> Iterator[dict[str, str]]:
        yield from map(record, range(600))
        message = "no more"
        raise BrokenError(message)

    options: dict[str, Any] = {
        "max_length": 96,
        "lanes": 2,
        "batch_size": 5,
        "epochs": None,
        "strategy": "none",
    }
    with flat.stream(records, loaded, **options) as whole:
        expected = [rows_of(next(whole)) for _ in range(40)]
    stream = flat.stream({"shaky": some}, loaded, **options)
    found = []
    with pytest.raises(BrokenError, match="no more") as raised:
        found.extend(rows_of(table) for table in stream)
    assert "`<shaky>`" in str(raised.value.__notes__) or "`shaky`" in str(raised.value.__notes__)
    assert len(found) > 80
    assert found[:40] == expected


def test_a_stream_that_is_dropped_leaves_no_thread(loaded: fastpack.Tokenizer) -> None:
    before = threading.active_count()
    for taken in (0, 1, 5):
        stream = flat.stream(records, loaded, max_length=96, epochs=None)
        for _ in range(taken):
            next(stream)
        del stream
    assert threading.active_count() == before


SCRIPT = """
    import os, sys, threading, time
    import fastpack

    def records():
        for number in range(10**9):
            if number == 3000:
                {at_3000}
            yield {{"text": f"<{{number}}> the river has boats"}}

    stream = fastpack.stream(records, {tokenizer!r}, max_length=96, epochs=None, ranks=fastpack.Ranks(lanes=4))
    for _ in range(20):
        next(stream)
    {then}
"""


@pytest.mark.parametrize(
    "then",
    [
        "print('ends')",
        "sys.exit(0)",
        "del stream; print('ends')",
        "list(stream) if len(sys.argv) > 5 else None",
    ],
)
def test_a_process_ends_while_a_stream_of_records_is_open(then: str, tokenizer_dir: Path) -> None:
    script = textwrap.dedent(SCRIPT).format(tokenizer=str(tokenizer_dir), then=then, at_3000="pass")
    done = subprocess.run([sys.executable, "-c", script], timeout=60, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("slow", ["time.sleep(60)", "threading.Event().wait(60)", "exec('while True: pass')"])
def test_an_interrupt_reaches_a_slow_source(slow: str, tokenizer_dir: Path) -> None:
    at_3000 = f"print('slow', flush=True); {slow}"
    script = textwrap.dedent(SCRIPT).format(
        tokenizer=str(tokenizer_dir), then="list(stream)", at_3000=at_3000
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"slow\n"
            time.sleep(0.2)
            with paced() as machine:
                since = time.monotonic()
                process.send_signal(signal.SIGINT)
                _, errors = process.communicate(timeout=30)
                took = time.monotonic() - since
        finally:
            # It would take more and more memory.
            process.kill()
        assert took < 5 * machine.slowness
    assert b"KeyboardInterrupt" in errors


@pytest.mark.parametrize("weights", [{"files": 1, "records": 1}, {"files": 0.999, "records": 0.001}, None])
@pytest.mark.parametrize("world", tries([1, 2], [1, 2, 4]))
def test_a_mix_with_records_holds_out_what_its_sources_do(
    world: int, weights: dict[str, float] | None, loaded: fastpack.Tokenizer, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": f"/{at}/ {sentence(at, 5)}"}) + "\n" for at in range(400)))
    options: dict[str, Any] = {"max_length": 256, "strategy": "none", "validation": 0.1, "batch_size": 2}
    other = tmp_path / "b" / "b.jsonl"
    other.parent.mkdir()
    other.write_text("".join(json.dumps({"text": f"|{at}| {sentence(at, 3)}"}) + "\n" for at in range(400)))
    mixed: Any = {"files": path, "records": records if weights else other}

    def held_out(files: Any, **more: Any) -> list[tuple[int, ...]]:
        stream = flat.stream(files, loaded, epochs=1, **options, **more).validation
        found = [tuple(ids) for rows in stream for ids in rows["input_ids"].to_pylist()]
        assert stream.report is not None
        return [ids for ids in found if len(ids) > 1]

    wanted = sorted(held_out(path) + held_out(mixed["records"]))
    found = [
        ids
        for rank in range(world)
        for ids in held_out(mixed, weights=weights, rank=rank, world_size=world, cache_dir=tmp_path / "cache")
        if len(set(ids)) > 1
    ]
    assert sorted(found) == wanted
