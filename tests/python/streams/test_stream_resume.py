"""A stream resumes at the very document, on any number of ranks."""

from __future__ import annotations

import json
import pickle
import zlib
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from campaign import tries
from conftest import conversation, sentence
from hypothesis import given, settings
from hypothesis import strategies as st
from nested import flat

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LANES = 48
WORLDS = [1, 2, 3, 4, 6, 8, 12]
COLUMNS = ["input_ids", "labels", "seq_lengths"]


@pytest.fixture(scope="module")
def loaded(tokenizer_dir: Path) -> fastpack.Tokenizer:
    return fastpack.Tokenizer(tokenizer_dir)


@pytest.fixture(scope="module")
def mixed_files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Files of several containers, which are entered in several ways; each text begins with its number."""
    folder = tmp_path_factory.mktemp("mixed")
    texts = [f"<{number}> {sentence(number, 3 + number % 60)}" for number in range(900)]
    lines = [json.dumps({"text": text}) + "\n" for text in texts]
    (folder / "a.jsonl").write_text("".join(lines[:500]), encoding="utf-8")
    (folder / "b.jsonl").write_text("".join(lines[500:620]), encoding="utf-8")
    pq.write_table(pa.table({"text": texts[620:800]}), folder / "c.parquet", row_group_size=40)
    import gzip

    with gzip.open(folder / "d.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write("".join(lines[800:]))
    return [str(path) for path in sorted(folder.iterdir())]


def rows_of(table: pa.Table) -> list[tuple[list[int], ...]]:
    return list(zip(*(table[name].to_pylist() for name in COLUMNS), strict=True))


class Run:
    """The ranks of a run, which take turns. Their states go through JSON, as in a checkpoint."""

    def __init__(self, make: Callable[..., fastpack.PackStream], world: int, state: Any = None) -> None:
        self.streams = [make(rank=rank, world_size=world) for rank in range(world)]
        if state is not None:
            for stream in self.streams:
                stream.load_state_dict(json.loads(json.dumps(state)))

    def step(self) -> list[tuple[list[int], ...]]:
        """The rows of all ranks of one step."""
        return [row for stream in self.streams for row in rows_of(next(stream))]

    def state(self) -> Any:
        return fastpack.merge_state_dicts([stream.state_dict() for stream in self.streams])

    def close(self) -> None:
        for stream in self.streams:
            stream.close()


OPTIONS: list[dict[str, Any]] = [
    {"strategy": fastpack.BestFit(open_rows=4)},
    {"strategy": fastpack.BestFit(open_rows=4), "shuffle": False},
    {"strategy": "concat"},
    {"strategy": "sequential", "seed": 3},
    {"strategy": "none"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_state_after_every_table_resumes(
    options: dict[str, Any], mixed_files: list[str], loaded: fastpack.Tokenizer
) -> None:
    def make(**more: Any) -> fastpack.PackStream:
        chosen = {"max_length": 96, "lanes": 6, "batch_size": 29 if options["strategy"] == "none" else 11}
        return flat.stream(mixed_files, loaded, **chosen, **options, **more)

    tables = list(make())
    rows = [rows_of(table) for table in tables]
    for number, table in list(enumerate(tables))[:: tries(3, 1)]:
        stream = make()
        stream.load_state_dict(fastpack.state_of(table))
        assert stream.step == number + 1
        assert [rows_of(later) for later in stream] == rows[number + 1 :]
        if number % 5 == 0:
            assert stream.report is not None
            assert stream.report.documents.read == 900
            assert stream.report.documents.kept == 900


@settings(max_examples=12)
@given(
    plan=st.lists(st.tuples(st.sampled_from(WORLDS), st.integers(1, 3)), min_size=2, max_size=4),
    options=st.sampled_from(OPTIONS),
)
def test_the_rows_are_the_same_whatever_stops_and_ranks_there_are(
    plan: list[tuple[int, int]],
    options: dict[str, Any],
    mixed_files: list[str],
    loaded: fastpack.Tokenizer,
) -> None:
    def make(**more: Any) -> fastpack.PackStream:
        chosen = {"batch_size": 2, "epochs": None, "max_length": 64, "threads": 2, "lanes": LANES}
        return flat.stream(mixed_files[:2], loaded, **(chosen | options | more))

    state, rows = None, []
    for world, steps in plan:
        run = Run(make, world, state)
        for _ in range(steps):
            rows += run.step()
        state = run.state()
        run.close()
    with make(batch_size=1) as alone:
        assert rows == [row for _ in rows for row in rows_of(next(alone))]


@pytest.mark.parametrize("world", [2, 3])
def test_ranks_together_see_every_document_once(
    world: int, mixed_files: list[str], loaded: fastpack.Tokenizer
) -> None:
    def make(**more: Any) -> fastpack.PackStream:
        chosen: dict[str, Any] = {"strategy": "none", "max_length": 4096, "batch_size": 1, "lanes": 6}
        return flat.stream(mixed_files[:2], loaded, epochs=None, **chosen, **more)

    alone = flat.pack_files(mixed_files[:2], loaded, strategy="none", max_length=4096)
    run = Run(make, world)
    seen = [row[0] for _ in range(620 // world) for row in run.step()]
    run.close()
    wanted = {tuple(ids) for ids in alone["input_ids"].to_pylist()}
    # The lanes have about as many documents: in the time of an epoch few come a second time.
    assert len({tuple(ids) for ids in seen} & wanted) > 0.95 * len(seen)


def test_every_epoch_has_every_document_once_in_another_order(
    mixed_files: list[str], loaded: fastpack.Tokenizer
) -> None:
    options: dict[str, Any] = {"strategy": "none", "max_length": 4096, "batch_size": 1, "lanes": 1}
    texts = [
        row[0] for table in flat.stream(mixed_files, loaded, epochs=2, **options) for row in rows_of(table)
    ]
    first, second = texts[:900], texts[900:]
    plain = flat.pack_files(mixed_files, loaded, strategy="none", max_length=4096)["input_ids"].to_pylist()
    assert sorted(first) == sorted(second) == sorted(plain)
    assert first != second
    again = [row[0] for table in flat.stream(mixed_files, loaded, **options) for row in rows_of(table)]
    assert again == first
    other = [
        row[0] for table in flat.stream(mixed_files, loaded, seed=1, **options) for row in rows_of(table)
    ]
    assert other != first
    assert sorted(other) == sorted(first)


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_threads_do_not_change_the_rows(
    threads: int, mixed_files: list[str], loaded: fastpack.Tokenizer
) -> None:
    options: dict[str, Any] = {"max_length": 96, "batch_size": 5, "strategy": fastpack.BestFit(open_rows=4)}
    expected = list(flat.stream(mixed_files, loaded, threads=3, **options))
    found = list(flat.stream(mixed_files, loaded, threads=threads, **options))
    assert [rows_of(table) for table in found] == [rows_of(table) for table in expected]


def test_a_state_is_json_and_small(mixed_files: list[str], loaded: fastpack.Tokenizer) -> None:
    with flat.stream(mixed_files, loaded, max_length=512, epochs=None) as stream:
        for _ in range(40):
            next(stream)
        state = stream.state_dict()
    text = json.dumps(state)
    assert json.loads(text) == state
    assert len(zlib.compress(text.encode())) < 16_000


def test_loading_a_state_changes_it_not_and_can_be_done_twice(
    mixed_files: list[str], loaded: fastpack.Tokenizer
) -> None:
    stream = flat.stream(mixed_files, loaded, max_length=96)
    next(stream)
    state = stream.state_dict()
    before = json.dumps(state)
    expected = [rows_of(table) for table in stream]
    for _ in range(2):
        stream.load_state_dict(state)
        assert [rows_of(table) for table in stream] == expected
    assert json.dumps(state) == before


def test_a_state_belongs_to_what_was_delivered(mixed_files: list[str], loaded: fastpack.Tokenizer) -> None:
    """Torchdata #1405, #1456: prefetched items were part of the state, and lost."""
    stream = flat.stream(mixed_files, loaded, max_length=96, batch_size=3)
    taken = [next(stream) for _ in range(7)]
    assert stream.state_dict() == fastpack.state_of(taken[-1])
    assert stream.step == 7


def test_a_stream_is_pickled_before_it_starts(mixed_files: list[str], tokenizer_dir: Path) -> None:
    stream = flat.stream(mixed_files, tokenizer_dir, max_length=96)
    copy = pickle.loads(pickle.dumps(stream))
    assert [rows_of(table) for table in copy] == [rows_of(table) for table in stream]
    stream = flat.stream(mixed_files, tokenizer_dir, max_length=96)
    next(stream)
    with pytest.raises(fastpack.FastpackError, match="has started"):
        pickle.dumps(stream)
    stream.close()


def test_a_stream_that_ended_starts_again(mixed_files: list[str], loaded: fastpack.Tokenizer) -> None:
    stream = flat.stream(mixed_files, loaded, max_length=96)
    first = [rows_of(table) for table in stream]
    assert [rows_of(table) for table in stream] == first


def test_max_steps_counts_the_tables_before_a_resume(
    mixed_files: list[str], loaded: fastpack.Tokenizer
) -> None:
    options: dict[str, Any] = {"max_length": 96, "epochs": None}
    stream = flat.stream(mixed_files, loaded, max_steps=3, **options)
    assert sum(1 for _ in stream) == 3
    later = flat.stream(mixed_files, loaded, max_steps=5, **options)
    later.load_state_dict(stream.state_dict())
    assert sum(1 for _ in later) == 2
    assert later.step == 5


# Refusals.


def ranked(files: Any, tokenizer: Any, **options: Any) -> fastpack.PackStream:
    return flat.stream(files, tokenizer, max_length=96, epochs=None, **options)


def test_ranks_that_cannot_share_the_lanes_are_told_which_can(
    mixed_files: list[str], loaded: fastpack.Tokenizer
) -> None:
    with pytest.raises(fastpack.OptionError, match=r"3 x 8 = 24.*64 lanes.*may be none") as refused:
        ranked(mixed_files, loaded, lanes=64, rank=0, world_size=3)
    assert refused.value.option == "ranks.world_size"
    with pytest.raises(
        fastpack.OptionError, match="`batch_size` may be 1, 2, 4, with batch_size=8 the ranks may be 1, 3"
    ):
        ranked(mixed_files, loaded, lanes=24, rank=0, world_size=6)


def test_a_finite_epoch_on_several_ranks_is_refused(
    mixed_files: list[str], loaded: fastpack.Tokenizer
) -> None:
    with pytest.raises(fastpack.OptionError, match="end at the same step only if") as refused:
        flat.stream(mixed_files, loaded, max_length=96, rank=0, world_size=2)
    assert refused.value.option == "epochs"


def test_a_state_without_a_lane_of_the_rank_names_it(
    mixed_files: list[str], loaded: fastpack.Tokenizer
) -> None:
    options: dict[str, Any] = {"batch_size": 1, "lanes": 4}
    with ranked(mixed_files[:2], loaded, rank=0, world_size=2, **options) as stream:
        next(stream)
        state = stream.state_dict()
    alone = ranked(mixed_files[:2], loaded, **options)
    alone.load_state_dict(state)
    with pytest.raises(fastpack.OptionError, match=r"has no lane 1.*all 2 ranks"):
        next(alone)
    with pytest.raises(fastpack.OptionError, match="has no lane 1, 3"):
        fastpack.merge_state_dicts([state])
    with pytest.raises(fastpack.OptionError, match="the same rank twice"):
        fastpack.merge_state_dicts([state, state])


@pytest.mark.parametrize(
    ("change", "named"),
    [({"max_length": 64}, "max_length"), ({"seed": 5}, "seed"), ({"shuffle": False}, "shuffle")],
    ids=str,
)
def test_a_state_of_other_options_says_what_differs(
    change: dict[str, Any], named: str, mixed_files: list[str], loaded: fastpack.Tokenizer
) -> None:
    stream = flat.stream(mixed_files, loaded, max_length=96)
    next(stream)
    other = flat.stream(mixed_files, loaded, **({"max_length": 96} | change))
    other.load_state_dict(stream.state_dict())
    with pytest.raises(fastpack.OptionError, match=f"what differs: `{named}`"):
        next(other)
    stream.close()


def test_a_state_of_other_files_says_so_and_moved_files_are_the_same(
    write_jsonl: Callable[..., Path], loaded: fastpack.Tokenizer, tmp_path: Path
) -> None:
    records = list(map(conversation, range(200)))
    path = write_jsonl(records, "here/data.jsonl")
    stream = flat.stream(path, loaded, max_length=256)
    next(stream)
    state = stream.state_dict()
    expected = [rows_of(table) for table in stream]
    moved = write_jsonl(records, "there/data.jsonl")
    again = flat.stream(moved, loaded, max_length=256)
    again.load_state_dict(state)
    assert [rows_of(table) for table in again] == expected
    changed = write_jsonl([*records[:-1], conversation(777)], "there/data.jsonl")
    other = flat.stream(changed, loaded, max_length=256)
    other.load_state_dict(state)
    with pytest.raises(fastpack.OptionError, match="what differs: `source 0`"):
        next(other)


@pytest.mark.parametrize("state", [{}, [], {"version": 1}, None, {"blake3": "0"}, {1, 2}, "{}", 0], ids=str)
def test_what_is_no_state_is_refused(state: Any, mixed_files: list[str], loaded: fastpack.Tokenizer) -> None:
    stream = flat.stream(mixed_files, loaded, max_length=96)
    with pytest.raises(fastpack.OptionError, match=r"`state`: .*`state_dict\(\)`"):
        stream.load_state_dict(state)


def test_a_table_of_another_function_has_no_state(mixed_files: list[str], loaded: fastpack.Tokenizer) -> None:
    with pytest.raises(fastpack.OptionError, match="carries no state"):
        fastpack.state_of(flat.pack_files(mixed_files, loaded, max_length=96))


def test_the_rank_comes_from_the_environment(
    mixed_files: list[str], loaded: fastpack.Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = ranked(mixed_files[:2], loaded, rank=1, world_size=2, max_steps=3)
    expected_rows = [rows_of(table) for table in expected]
    for number, count in (("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")):
        with monkeypatch.context() as patch:
            patch.setenv(number, "1")
            patch.setenv(count, "2")
            stream = ranked(mixed_files[:2], loaded, max_steps=3)
            assert [rows_of(table) for table in stream] == expected_rows
            assert stream.report is not None
            assert any(f"{number} and {count}" in warning for warning in stream.report.warnings)


def test_extents_that_are_cut_when_they_are_entered_hold_every_document_once(
    write_jsonl: Callable[..., Path], loaded: fastpack.Tokenizer
) -> None:
    """So many lanes have more extents than are cut at the beginning, and lines longer than extents."""
    records = [{"text": f"{number} {sentence(number, 1 + 7 * number % 300)}"} for number in range(700)]
    path = write_jsonl(records)
    options: dict[str, Any] = {"max_length": 4096, "strategy": "none", "batch_size": 50}
    plain = flat.pack_files(path, loaded, max_length=4096, strategy="none")["input_ids"].to_pylist()
    tables = list(flat.stream(path, loaded, lanes=400, **options))
    assert sorted(row[0] for table in tables for row in rows_of(table)) == sorted(plain)
    for number in (0, 3, 9):
        stream = flat.stream(path, loaded, lanes=400, **options)
        stream.load_state_dict(fastpack.state_of(tables[number]))
        assert [rows_of(table) for table in stream] == [rows_of(table) for table in tables[number + 1 :]]
    in_order = flat.stream(path, loaded, lanes=400, shuffle=False, **options)
    assert sorted(row[0] for table in in_order for row in rows_of(table)) == sorted(plain)


def test_a_trainer_is_told_how_the_stream_does(
    mixed_files: list[str], loaded: fastpack.Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fastpack.streaming import stream as streaming

    told: list[Any] = []
    stream = flat.stream(mixed_files, loaded, max_length=96, log=told.append)
    tables = list(stream)
    assert [it.step for it in told] == [len(tables)]
    monkeypatch.setattr(streaming, "_LOG_SECONDS", 0.0)
    stream.load_state_dict(fastpack.state_of(tables[4]))
    list(stream)
    assert [it.step for it in told[1:]] == [*range(6, len(tables) + 1), len(tables)]
    assert told[-1].tokens == told[0].tokens
    assert 0 < told[-1].tokens_per_second < 1e9
    wrong: Any = "log"
    with pytest.raises(fastpack.OptionError, match="StreamStats"):
        flat.stream(mixed_files, loaded, max_length=96, log=wrong)
