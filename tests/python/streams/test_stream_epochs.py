"""Ranks end a finite stream at the same step, and the size of an epoch is known before."""

from __future__ import annotations

import itertools
import json
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from conftest import sentence
from nested import flat, place

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LANES = 12
PADDING = 1
"""The tokens of a row of padding without `pad_to`."""


@pytest.fixture(scope="module")
def loaded(tokenizer_dir: Path) -> fastpack.Tokenizer:
    return fastpack.Tokenizer(tokenizer_dir)


@pytest.fixture
def texts(write_jsonl: Callable[..., Path]) -> Path:
    """Documents that differ, of many lengths."""
    return write_jsonl([{"text": f"{number} {sentence(number, 3 + number % 50)}"} for number in range(400)])


class Ranks:
    """An all-reduce of threads that stand for ranks."""

    def __init__(self, world: int) -> None:
        self.barrier = threading.Barrier(world)
        self.given: list[int] = [0] * world

    def of(self, rank: int) -> Callable[[int], int]:
        def greatest(number: int) -> int:
            self.given[rank] = number
            self.barrier.wait(20)
            found = max(self.given)
            self.barrier.wait(20)
            return found

        return greatest


def tables_of_ranks(world: int, make: Callable[[int], fastpack.PackStream]) -> list[list[Any]]:
    """The tables of each rank, which run at the same time."""
    found: list[list[Any]] = [[] for _ in range(world)]
    errors: list[BaseException] = []

    def run(rank: int) -> None:
        try:
            found[rank] = list(make(rank))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors, errors
    return found


def documents_of(tables: Iterator[Any] | list[Any]) -> Counter[tuple[int, ...]]:
    """The documents in some tables; padding is none."""
    found: Counter[tuple[int, ...]] = Counter()
    for table in tables:
        for ids, lengths, labels in zip(
            table["input_ids"].to_pylist(),
            table["seq_lengths"].to_pylist(),
            table["labels"].to_pylist(),
            strict=True,
        ):
            start = 0
            for length in lengths:
                if set(labels[start : start + length]) != {-100}:
                    found[tuple(ids[start : start + length])] += 1
                start += length
    return found


@pytest.mark.parametrize("agreement", ["cache_dir", "all_reduce"])
@pytest.mark.parametrize("on_end", ["pad", "drop", "repeat", None])
@pytest.mark.parametrize("world", [2, 3])
def test_ranks_end_at_the_same_step(
    world: int,
    on_end: Any,
    agreement: str,
    texts: Path,
    loaded: fastpack.Tokenizer,
    tmp_path: Path,
) -> None:
    options: dict[str, Any] = {
        "max_length": 64,
        "batch_size": 2,
        "lanes": LANES,
        "strategy": fastpack.BestFit(open_rows=4),
    }
    ranks = Ranks(world)

    def make(rank: int) -> fastpack.PackStream:
        together: dict[str, Any] = (
            {"cache_dir": tmp_path} if agreement == "cache_dir" else {"all_reduce": ranks.of(rank)}
        )
        return flat.stream(texts, loaded, on_end=on_end, rank=rank, world_size=world, **options, **together)

    found = tables_of_ranks(world, make)
    assert len({len(tables) for tables in found}) == 1
    assert all(table.num_rows == 2 for tables in found for table in tables)
    seen = documents_of(itertools.chain.from_iterable(found))
    whole = documents_of(list(flat.stream(texts, loaded, **options)))
    assert sum(whole.values()) == 400
    if on_end == "drop":
        assert 0 < sum((whole - seen).values()) < 120
        assert not seen - whole
    elif on_end == "repeat":
        assert not whole - seen
        assert set(seen) == set(whole)
        assert sum(seen.values()) > 400
    else:
        assert seen == whole


@pytest.mark.parametrize("on_end", ["pad", "drop", "repeat"])
def test_one_rank_has_the_rows_of_several(
    on_end: Any, texts: Path, loaded: fastpack.Tokenizer, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"max_length": 64, "lanes": LANES, "on_end": on_end, "cache_dir": tmp_path}
    alone = [
        row
        for table in flat.stream(texts, loaded, batch_size=6, **options)
        for row in table["input_ids"].to_pylist()
    ]
    ranks = [
        list(flat.stream(texts, loaded, batch_size=2, rank=rank, world_size=3, **options))
        for rank in range(3)
    ]
    steps = zip(*ranks, strict=True)
    assert [row for step in steps for table in step for row in table["input_ids"].to_pylist()] == alone


@pytest.mark.parametrize("on_end", ["pad", "repeat", "drop"])
def test_every_state_up_to_the_end_resumes(
    on_end: Any, texts: Path, loaded: fastpack.Tokenizer, tmp_path: Path
) -> None:
    def make(rank: int) -> fastpack.PackStream:
        return flat.stream(
            texts,
            loaded,
            max_length=64,
            batch_size=2,
            lanes=LANES,
            on_end=on_end,
            cache_dir=tmp_path,
            rank=rank,
            world_size=2,
        )

    runs = [list(make(rank)) for rank in range(2)]
    rows = [[table["input_ids"].to_pylist() for table in tables] for tables in runs]
    steps = list(zip(*runs, strict=True))
    for number in [*range(0, len(steps), 3), len(steps) - 2, len(steps) - 1]:
        state = fastpack.merge_state_dicts([fastpack.state_of(table) for table in steps[number]])
        for rank in range(2):
            stream = make(rank)
            stream.load_state_dict(state)
            assert [table["input_ids"].to_pylist() for table in stream] == rows[rank][number + 1 :]


def test_padding_is_told_and_has_no_labels(texts: Path, loaded: fastpack.Tokenizer) -> None:
    stream = flat.stream(texts, loaded, max_length=64, batch_size=5, lanes=LANES, on_end="pad")
    rows = [row for table in stream for row in table.to_pylist()]
    assert stream.report is not None
    padding = [row for row in rows if set(row["labels"]) == {-100}]
    assert all(row["seq_lengths"] == [PADDING] for row in padding)
    assert padding
    assert any(f"{len(padding)} rows are padding" in warning for warning in stream.report.warnings)
    assert stream.report.documents.read == stream.report.documents.kept == 400


def test_what_is_left_out_is_told(texts: Path, loaded: fastpack.Tokenizer, tmp_path: Path) -> None:
    options: dict[str, Any] = {"max_length": 64, "batch_size": 2, "lanes": LANES}
    whole = sum(table.num_rows for table in flat.stream(texts, loaded, **options))
    streams = [
        flat.stream(texts, loaded, on_end="drop", cache_dir=tmp_path, rank=rank, world_size=2, **options)
        for rank in range(2)
    ]
    given = [list(stream) for stream in streams]
    left_out = whole - sum(table.num_rows for tables in given for table in tables)
    seen = sum(documents_of(itertools.chain.from_iterable(given)).values())
    kept = 0
    for stream in streams:
        assert stream.report is not None
        assert any(f"{left_out} rows of all ranks" in warning for warning in stream.report.warnings)
        kept += stream.report.documents.kept
    assert kept == seen


def test_rows_are_counted_once(texts: Path, loaded: fastpack.Tokenizer, tmp_path: Path) -> None:
    options: dict[str, Any] = {"max_length": 64, "cache_dir": tmp_path / "counts"}
    stream = flat.stream(texts, loaded, **options)
    counted = stream.index()
    assert counted.counted
    tables = list(stream)
    assert counted.rows == sum(table.num_rows for table in tables)
    assert counted.tokens == stream.stats().tokens
    assert counted.steps == len(tables)
    files = sorted((tmp_path / "counts").glob("stream-*.json"))
    assert len(files) == 1
    written = json.loads(files[0].read_text(encoding="utf-8"))
    assert sum(written["counted"]["rows"]) == counted.rows
    texts.unlink()
    # The name, size and ends of the input are read: nothing is counted again.
    with pytest.raises(fastpack.InputNotFoundError):
        flat.stream(texts, loaded, **options).index()


def test_a_count_of_other_inputs_is_not_taken(
    write_jsonl: Callable[..., Path], loaded: fastpack.Tokenizer, tmp_path: Path
) -> None:
    records = [{"text": sentence(number, 9)} for number in range(60)]
    options: dict[str, Any] = {"max_length": 64, "cache_dir": tmp_path / "counts"}
    path = write_jsonl(records)
    first = flat.stream(path, loaded, **options).index()
    write_jsonl(records[:30])
    second = flat.stream(path, loaded, **options).index()
    assert second.tokens < 0.7 * first.tokens
    assert flat.stream(path, loaded, **options, seed=3).index().counted
    assert len(list((tmp_path / "counts").glob("stream-*.json"))) == 3


def test_a_damaged_count_is_made_again(texts: Path, loaded: fastpack.Tokenizer, tmp_path: Path) -> None:
    options: dict[str, Any] = {"max_length": 64, "cache_dir": tmp_path / "counts"}
    counted = flat.stream(texts, loaded, **options).index()
    (path,) = (tmp_path / "counts").glob("stream-*.json")
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("1", "2", 1), encoding="utf-8")
    assert flat.stream(texts, loaded, **options).index() == counted
    assert path.read_text(encoding="utf-8") == text


MIXES = [
    {"weights": weights, "on_exhausted": on_exhausted, "weight_unit": unit}
    for weights in ({"a": 1, "b": 1}, {"a": 1, "b": 3})
    for on_exhausted in ("repeat", "stop", "drop")
    for unit in ("tokens", "documents", "rows")
]


@pytest.mark.parametrize("mix", [{}, *MIXES], ids=str)
def test_an_estimate_is_near_the_count(
    mix: dict[str, Any],
    write_jsonl: Callable[..., Path],
    loaded: fastpack.Tokenizer,
    tmp_path: Path,
) -> None:
    short = write_jsonl([{"text": sentence(number, 4)} for number in range(900)], "a.jsonl")
    long = write_jsonl([{"text": sentence(number, 40)} for number in range(300)], "b.jsonl")
    options: dict[str, Any] = {
        "max_length": 256,
        "lanes": 1,
        "strategy": fastpack.BestFit(open_rows=2),
        **mix,
    }
    files: dict[str, Any] = {"a": short, "b": long}
    counted = flat.stream(files, loaded, cache_dir=tmp_path, **options).estimate()
    estimated = flat.stream(files, loaded, **options).estimate(sample=200)
    assert (counted.counted, estimated.counted) == (True, False)
    assert estimated.tokens == pytest.approx(counted.tokens, rel=0.15)
    assert estimated.rows == pytest.approx(counted.rows, rel=0.2)
    assert estimated.steps == -(-estimated.rows // 8)


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_an_estimate_is_the_same_on_every_rank(
    world_size: int, texts: Path, loaded: fastpack.Tokenizer, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"max_length": 64, "lanes": 12, "batch_size": 2, "world_size": world_size}
    for more in ({"cache_dir": tmp_path, "epochs": 3}, {"epochs": None}):
        sizes = {
            flat.stream(texts, loaded, rank=rank, **options, **more).estimate() for rank in range(world_size)
        }
        assert len(sizes) == 1
        assert {size.steps for size in sizes} != {0}


def test_the_number_of_epochs_is_counted_out(texts: Path, loaded: fastpack.Tokenizer, tmp_path: Path) -> None:
    one = flat.stream(texts, loaded, max_length=64, cache_dir=tmp_path).estimate()
    three = flat.stream(texts, loaded, max_length=64, cache_dir=tmp_path, epochs=3).estimate()
    # Open rows are closed at the end of the run, not of each epoch.
    assert 0.8 * one.rows < three.rows <= one.rows
    assert three.tokens == one.tokens


@pytest.mark.parametrize(
    ("options", "option", "said"),
    [
        ({"rank": 0, "world_size": 2}, "epochs", "`cache_dir`.*`ranks.all_reduce`"),
        ({"all_reduce": 3}, "all_reduce", "a function that takes a whole number"),
        ({"all_reduce": max, "cache_dir": "x"}, "all_reduce", "in place of `cache_dir`"),
        ({"on_end": "stop"}, "on_end", "pad"),
    ],
    ids=str,
)
def test_what_cannot_end_together_is_refused(
    options: dict[str, Any], option: str, said: str, texts: Path, loaded: fastpack.Tokenizer
) -> None:
    with pytest.raises(fastpack.OptionError, match=said) as refused:
        flat.stream(texts, loaded, max_length=64, **options)
    assert refused.value.option == place(option)


def test_an_index_needs_a_folder_and_an_end(texts: Path, loaded: fastpack.Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(fastpack.OptionError, match="`cache_dir`"):
        flat.stream(texts, loaded, max_length=64).index()
    with pytest.raises(fastpack.OptionError, match="has no end"):
        flat.stream(texts, loaded, max_length=64, epochs=None, cache_dir=tmp_path).index()


def test_an_error_of_the_callers_all_reduce_is_raised(texts: Path, loaded: fastpack.Tokenizer) -> None:
    def greatest(number: int) -> int:
        raise ZeroDivisionError(number)

    options: dict[str, Any] = {"max_length": 64, "batch_size": 2, "rank": 0, "world_size": 2}
    with pytest.raises(ZeroDivisionError):
        list(flat.stream(texts, loaded, all_reduce=greatest, **options))
    wrong: Any = str
    with pytest.raises(fastpack.OptionError, match="must be a function that returns the greatest"):
        list(flat.stream(texts, loaded, all_reduce=wrong, **options))


@pytest.mark.parametrize("weight", [0.25, 0.5, 0.9])
def test_rows_of_one_source_each_come_by_their_weights(
    weight: float, write_jsonl: Callable[..., Path], loaded: fastpack.Tokenizer
) -> None:
    files: dict[str, Any] = {
        "short": write_jsonl([{"text": sentence(number, 4)} for number in range(600)], "a.jsonl"),
        "long": write_jsonl([{"text": sentence(number, 40)} for number in range(200)], "b.jsonl"),
    }
    options: dict[str, Any] = {"max_length": 256, "epochs": None, "lanes": 8, "batch_size": 4}
    weights = {"short": 1 - weight, "long": weight}

    def make() -> fastpack.PackStream:
        return flat.stream(files, loaded, weights=weights, weight_unit="rows", **options)

    with make() as stream:
        tables = list(itertools.islice(stream, 60))
    kinds = [
        {length > 25 for length in lengths}
        for table in tables
        for lengths in table["seq_lengths"].to_pylist()
    ]
    assert all(len(kind) == 1 for kind in kinds)
    assert sum(kind == {True} for kind in kinds) / len(kinds) == pytest.approx(weight, abs=0.02)
    rows = [table["input_ids"].to_pylist() for table in tables]
    for number in (0, 7, 20):
        with make() as again:
            again.load_state_dict(fastpack.state_of(tables[number]))
            assert [next(again)["input_ids"].to_pylist() for _ in range(5)] == rows[number + 1 : number + 6]


@pytest.mark.parametrize("on_exhausted", ["repeat", "stop", "drop"])
def test_a_mix_by_rows_ends_as_any_mix(
    on_exhausted: Any, write_jsonl: Callable[..., Path], loaded: fastpack.Tokenizer
) -> None:
    files: dict[str, Any] = {
        "a": write_jsonl([{"text": f"{n} {sentence(n, 9)}"} for n in range(100)], "a.jsonl"),
        "b": write_jsonl([{"text": f"{n} {sentence(n, 9)} b"} for n in range(300)], "b.jsonl"),
    }
    stream = flat.stream(
        files,
        loaded,
        weights={"a": 1, "b": 1},
        weight_unit="rows",
        on_exhausted=on_exhausted,
        max_length=64,
        lanes=2,
    )
    seen = sum(documents_of(list(stream)).values())
    assert stream.report is not None
    assert {"repeat": seen >= 500, "stop": 190 <= seen <= 320, "drop": seen == 400}[on_exhausted]
