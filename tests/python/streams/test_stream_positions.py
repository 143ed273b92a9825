"""A stream enters tables in the middle, shares its input evenly among lanes, and knows its files again."""

from __future__ import annotations

import itertools
import json
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import DATA, sentence
from nested import flat

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

TEXTS = [f"{number} {sentence(number, 3 + number % 50)}" for number in range(600)]

OPTIONS: dict[str, Any] = {"max_length": 4096, "strategy": "none", "lanes": 12}


@pytest.fixture(scope="module")
def loaded(tokenizer_dir: Path) -> fastpack.Tokenizer:
    return fastpack.Tokenizer(tokenizer_dir)


def ids_of(tables: Iterable[pa.Table]) -> list[tuple[int, ...]]:
    return [tuple(ids) for table in tables for ids in table["input_ids"].to_pylist()]


def write_arrow(path: Path, kind: str, rows: int = 23) -> Path:
    """The texts as an Arrow file or stream, beside a column of numbers, in batches of `rows` rows."""
    texts: Any = pa.array(TEXTS)
    if kind.endswith("dictionaries"):
        texts = texts.dictionary_encode()
    table = pa.table({"number": pa.array(range(len(TEXTS))), "text": texts})
    codec = "zstd" if kind.startswith("compressed") else None
    options = pa.ipc.IpcWriteOptions(compression=codec)
    new = pa.ipc.new_stream if "stream" in kind else pa.ipc.new_file
    with new(path, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rows)
    return path


KINDS = ["file", "stream", "compressed file", "compressed stream", "file with dictionaries"]


@pytest.mark.parametrize("kind", [*KINDS, "stream with dictionaries"])
def test_record_batches_hold_every_document_once_and_resume_anywhere(
    kind: str, loaded: fastpack.Tokenizer, tmp_path: Path
) -> None:
    path = write_arrow(tmp_path / "a.arrow", kind)
    plain = ids_of([flat.pack_files(path, loaded, max_length=4096, strategy="none")])
    assert len(plain) == len(TEXTS)
    in_order = flat.stream(path, loaded, **(OPTIONS | {"shuffle": False, "lanes": 1}))
    assert ids_of(in_order) == plain
    with flat.stream(path, loaded, batch_size=37, **OPTIONS) as stream:
        tables = list(stream)
    assert sorted(ids_of(tables)) == sorted(plain)
    assert ids_of(tables) != plain
    for number, table in enumerate(tables[:-1]):
        again = flat.stream(path, loaded, batch_size=37, **OPTIONS)
        again.load_state_dict(fastpack.state_of(table))
        assert ids_of(again) == ids_of(tables[number + 1 :])


@pytest.mark.parametrize("kind", KINDS)
def test_record_batches_of_one_file_are_shared_by_ranks(
    kind: str, loaded: fastpack.Tokenizer, tmp_path: Path
) -> None:
    path = write_arrow(tmp_path / "a.arrow", kind)
    found = []
    for rank in range(6):
        options = OPTIONS | {"epochs": None, "rank": rank, "world_size": 6, "batch_size": 2}
        with flat.stream(path, loaded, **options) as stream:
            found.append(set(ids_of(itertools.islice(stream, 15))))
    assert all(len(ids) > 20 for ids in found)
    for one, other in itertools.combinations(found, 2):
        assert not one & other


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_rows_of_record_batches_know_their_number(
    kind: str, loaded: fastpack.Tokenizer, tmp_path: Path
) -> None:
    path = write_arrow(tmp_path / "a.arrow", kind)
    stream = flat.stream(path, loaded, columns=["input_ids", "source_row"], **OPTIONS)
    rows = [row for table in stream for row in table.to_pylist()]
    assert len(rows) == len(TEXTS)
    for row in rows:
        (number,) = row["source_row"]
        assert loaded.decode(row["input_ids"]).startswith(f"{TEXTS[number - 1]}<")


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_a_damaged_batch_is_named_and_the_others_are_read(
    kind: str, loaded: fastpack.Tokenizer, tmp_path: Path
) -> None:
    path = write_arrow(tmp_path / "a.arrow", f"compressed {kind}")
    data = bytearray(path.read_bytes())
    mark = b"\x28\xb5\x2f\xfd"
    places = [at for at in range(len(data)) if data[at : at + 4] == mark]
    at = places[len(places) // 2]
    data[at : at + 4] = b"\0\0\0\0"
    path.write_bytes(data)
    with pytest.raises(fastpack.RecordError, match=r"a\.arrow"):
        list(flat.stream(path, loaded, **OPTIONS))
    stream = flat.stream(path, loaded, on_bad_record="skip", **OPTIONS)
    assert len(TEXTS) - 2 * 23 <= len(ids_of(stream)) < len(TEXTS)


@pytest.mark.parametrize("container", ["parquet", "arrow"])
@pytest.mark.parametrize("large", [False, True])
def test_large_groups_are_warned_of_with_the_memory_they_take(
    container: str,
    large: bool,
    loaded: fastpack.Tokenizer,
    tmp_path: Path,
) -> None:
    table = pa.table({"text": [f"{number} {'word ' * 20_000}" for number in range(60)]})
    path = tmp_path / f"a.{container}"
    rows = 50 if large else 10
    if container == "parquet":
        pq.write_table(table, path, row_group_size=rows, use_dictionary=False)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=rows)
    options = {"lanes": 3, "max_length": 64, "strategy": "concat", "max_steps": 20, "batch_size": 1}
    stream = flat.stream(path, loaded, **options)
    assert len(list(stream)) == 20
    assert stream.report is not None
    told = [warning for warning in stream.report.warnings if "row groups" in warning]
    if large:
        (warning,) = told
        assert str(path) in warning
        assert "up to 5 MiB in memory" in warning
        assert "15 MiB for the 3 lanes" in warning
    else:
        assert told == []


def test_any_two_lanes_differ_by_less_than_a_twentieth_of_the_tokens(
    write_jsonl: Callable[..., Path], loaded: fastpack.Tokenizer
) -> None:
    """Of 64 lanes and 8 MB of records with lognormal lengths."""
    drawn = random.Random(7)
    repeats = [min(round(20 * drawn.lognormvariate(0, 1)) + 1, 400) for _ in range(12_000)]
    path = write_jsonl([{"text": "some words of a text " * repeat} for repeat in repeats])
    assert difference_of_lanes(path, loaded) < 0.05


@pytest.mark.skipif(not DATA.is_dir(), reason="no real data: set FASTPACK_DATA to a folder with corpora/")
def test_lanes_of_real_chats_differ_by_less_than_a_twentieth_of_the_tokens() -> None:
    llama3 = fastpack.Tokenizer(DATA / "tokenizers" / "llama3")
    assert difference_of_lanes(DATA / "corpora" / "chat.jsonl", llama3) < 0.05


def difference_of_lanes(path: Path, tokenizer: fastpack.Tokenizer) -> float:
    """How far apart the tokens of any two of 64 lanes are: row `g` of a stream that pads at its end is of lane `g % 64`."""
    counts = np.zeros(64, dtype=np.int64)
    options = {"max_length": 1 << 16, "strategy": "none", "lanes": 64, "batch_size": 64, "on_end": "pad"}
    for table in flat.stream(path, tokenizer, columns=["input_ids", "source_row"], **options):
        ids, rows = table["input_ids"].combine_chunks(), table["source_row"].combine_chunks()
        # A row of padding is of no record.
        counts += np.where(rows.flatten().to_numpy() < 0, 0, ids.value_lengths().to_numpy())
    assert counts.min() > 0
    return float((counts.max() - counts.min()) / counts.max())


@pytest.mark.parametrize("change", ["missing", "new", "changed"])
def test_files_that_differ_are_named_where_their_list_is_kept(
    change: str, write_jsonl: Callable[..., Path], loaded: fastpack.Tokenizer, tmp_path: Path
) -> None:
    def write(name: str, start: int) -> Path:
        return write_jsonl([{"text": text} for text in TEXTS[start : start + 40]], name)

    folder = write("a.jsonl", 0).parent
    write("b.jsonl", 40)
    options = OPTIONS | {"cache_dir": tmp_path / "index"}
    with flat.stream(f"{folder}/*.jsonl", loaded, **options) as stream:
        next(stream)
        state = json.loads(json.dumps(stream.state_dict()))
    if change == "missing":
        write("c.jsonl", 80)
        (folder / "b.jsonl").unlink()
        said = r"missing: `b\.jsonl`; new: `c\.jsonl`"
    elif change == "new":
        write("c.jsonl", 80)
        said = r"`source 0` \(new: `c\.jsonl`\)"
    else:
        write("b.jsonl", 41)
        said = r"`source 0` \(changed: `b\.jsonl`\)"
    again = flat.stream(f"{folder}/*.jsonl", loaded, **options)
    again.load_state_dict(state)
    with pytest.raises(fastpack.OptionError, match=said):
        next(again)
    without = flat.stream(f"{folder}/*.jsonl", loaded, **OPTIONS)
    without.load_state_dict(state)
    with pytest.raises(fastpack.OptionError, match="in the state"):
        next(without)


def test_the_depth_of_the_queue_is_told(write_jsonl: Callable[..., Path], loaded: fastpack.Tokenizer) -> None:
    path = write_jsonl([{"text": text} for text in TEXTS])
    stream = flat.stream(path, loaded, epochs=None, batch_size=1, **OPTIONS)
    assert stream.stats().queue_depth == 0
    with stream:
        seen = set()
        for _ in range(200):
            next(stream)
            seen.add(stream.stats().queue_depth)
    assert seen <= {0, 1, 2, 3}
    assert max(seen) > 0


def test_what_was_found_in_files_is_kept_until_they_change(
    write_jsonl: Callable[..., Path], loaded: fastpack.Tokenizer, tmp_path: Path
) -> None:
    def write(first: int) -> Path:
        # Of small files nothing is kept.
        return write_jsonl([{"text": text, "more": "more " * 600} for text in TEXTS[first:]])

    path = write(0)
    folder = tmp_path / "index"
    options = OPTIONS | {"columns": ["input_ids", "source_row"], "skip": 5, "take": 300}
    plain = [table.to_pylist() for table in flat.stream(path, loaded, **options)]
    kept = options | {"cache_dir": folder}
    for _ in range(2):
        assert [table.to_pylist() for table in flat.stream(path, loaded, **kept)] == plain
    places = sorted(folder.glob("places-*"))
    assert len(places) == 2
    for place in places:
        place.write_text("[]")
    assert [table.to_pylist() for table in flat.stream(path, loaded, **kept)] == plain
    write(100)
    changed = [table.to_pylist() for table in flat.stream(path, loaded, **options)]
    assert changed != plain
    assert [table.to_pylist() for table in flat.stream(path, loaded, **kept)] == changed


def test_a_stream_has_no_length_and_is_true(
    write_jsonl: Callable[..., Path], loaded: fastpack.Tokenizer
) -> None:
    stream = flat.stream(write_jsonl([{"text": "words"}]), loaded, **OPTIONS)
    with pytest.raises(TypeError, match=r"fastpack\.torch\.StreamDataset"):
        len(stream)
    assert stream
