"""A file that was changed in its middle, at the same size and time, is refused if rows of a state hold documents of its block."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import random
import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from campaign import tries
from containers import buffered, ipc, lines, sequence
from nested import flat

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LENGTH = 48
ROWS = 330
"""Rows of a run that are read. A small source of a mix may begin again before that."""

CHANGED = 5000
"""The number added to each token of a changed document: as many digits as before."""

SAMPLE = 4096
"""Bytes at the beginning and the end of a file by which a state knows it."""


class Document(NamedTuple):
    """The place of a document."""

    source: str
    path: Path
    line: int
    start: int
    """The offset of its line."""

    text: str


def documents(folder: Path, rng: random.Random) -> list[Document]:
    """Documents in files of two sources, each of tokens that tell its number."""
    made: list[Document] = []
    for name in ("a1", "a2", "b"):
        path, lines, start = folder / f"{name}.jsonl", [], 0
        for number in range(rng.choice([400, 700])):
            token = 1000 + len(made)
            record = {"input_ids": [token] * rng.choice([3, 9, 20, 31, 47, 120]), "note": "ab" * 9}
            if rng.random() < 0.1:
                record["input_ids"] *= 12
            lines.append(json.dumps(record))
            made.append(Document(name[0], path, number + 1, start, lines[-1]))
            start += len(lines[-1]) + 1
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return made


def options_of(rng: random.Random) -> dict[str, Any]:
    options: dict[str, Any] = {
        "tokenizer": None,
        "padding": fastpack.Padding(token_id=0),
        "max_length": LENGTH,
        "shuffle": False,
        "epochs": None,
        "lanes": rng.choice([1, 2, 4, 8]),
        "threads": rng.choice([1, 3]),
        "strategy": rng.choice(["concat", "best_fit", "sequential"]),
    }
    open_rows = rng.choice([2, 8, 16])
    if options["strategy"] == "best_fit":
        options["strategy"] = fastpack.BestFit(open_rows=open_rows)
    if options["strategy"] != "concat":
        options["overlong"] = rng.choice(["split", "truncate"])
    if rng.random() < 0.4:
        options |= {"weights": {"a": 1, "b": 1}, "weight_unit": rng.choice(["tokens", "documents", "rows"])}
    return options


def files_of(folder: Path) -> dict[str, Any]:
    return {"a": [str(folder / "a1.jsonl"), str(folder / "a2.jsonl")], "b": str(folder / "b.jsonl")}


def rows_of(stream: Iterator[Any], rows: int) -> list[list[int]]:
    return [row for table in itertools.islice(stream, rows) for row in table["input_ids"].to_pylist()]


def surely_read(rows: list[list[int]], given: int, options: dict[str, Any], made: list[Document]) -> set[int]:
    """Documents of which a part is not given, though the lane has read them: in part, or before another that is given."""
    lanes, most = options["lanes"], LENGTH if options.get("overlong") == "truncate" else sys.maxsize
    pieces: dict[int, list[int]] = {}
    left = [min(len(json.loads(document.text)["input_ids"]), most) for document in made]
    for number, row in enumerate(rows):
        for token, count in Counter(row).items():
            # The rows of the next epoch have the document again.
            if token and left[token - 1000] > 0:
                left[token - 1000] -= count
                pieces.setdefault(token - 1000, []).append(number)
    last: dict[tuple[int, str], int] = {}
    for document, places in pieces.items():
        if places[0] < given:
            key = (places[0] % lanes, made[document].source)
            last[key] = max(last.get(key, -1), document)
    return {
        document
        for document, places in pieces.items()
        if places[-1] >= given and document <= last.get((places[0] % lanes, made[document].source), -1)
    }


def change(document: Document, *, letters: bool) -> None:
    """Changes a document at the same size and time. With `letters` it may weigh more when lanes are dealt their parts."""
    record = json.loads(document.text)
    record["input_ids"] = [token + CHANGED for token in record["input_ids"]]
    record["note"] = "1(" * 9 if letters else record["note"]
    text = json.dumps(record).encode()
    assert len(text) == len(document.text)
    stat = document.path.stat()
    with document.path.open("r+b") as file:
        file.seek(document.start)
        file.write(text)
    os.utime(document.path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def check_refusal(refused: fastpack.OptionError, changed: Document, *, letters: bool) -> None:
    """A refusal names the file and a place in it, up to the changed one."""
    assert refused.option == "state"
    said = str(refused)
    # Another length in tokens deals the lanes other parts, and then only the names of the source are known.
    if letters and "other parts" in said:
        assert re.search(
            r"is of other records than \S.* now: a file was changed since it was read, at the same size, "
            r"so that the lanes would read other parts of it$",
            said,
        ), said
        return
    # The first block named may be of another file of the source, before the changed one.
    places = [(Path(file).name, int(line)) for file, line in re.findall(r"([^ ]+[.]jsonl):([0-9]+)", said)]
    assert places
    assert places[0] <= (changed.path.name, changed.line)
    if len(places) > 1:
        assert places[1][0] >= changed.path.name


@pytest.mark.parametrize("seed", range(tries(24, 600)))
def test_a_change_of_what_open_rows_hold_is_refused_by_file_and_place(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    made = documents(tmp_path, rng)
    options, files = options_of(rng), files_of(tmp_path)
    with flat.stream(files, batch_size=1, **options) as whole:
        rows = rows_of(whole, ROWS)
    given = rng.randint(2, 100)
    with flat.stream(files, batch_size=1, **options) as stream:
        assert rows_of(stream, given) == rows[:given]
        state = stream.state_dict()
    read = surely_read(rows, given, options, made)
    inside = [
        number
        for number, it in enumerate(made)
        if it.start > SAMPLE and it.start + len(it.text) < it.path.stat().st_size - SAMPLE
    ]
    open_ones = sorted(read & set(inside))
    is_open = bool(open_ones) and rng.random() < 0.75
    chosen = rng.choice(open_ones if is_open else inside)
    letters = rng.random() < 0.2
    change(made[chosen], letters=letters)
    found: list[list[int]] = []
    world = rng.choice([1, 2]) if options["lanes"] > 1 else 1
    try:
        streams = [
            flat.stream(files, batch_size=1, rank=rank, world_size=world, **options) for rank in range(world)
        ]
        for stream in streams:
            stream.load_state_dict(state)
        while len(found) < 200:
            for stream in streams:
                found += rows_of(stream, 1)
    except fastpack.OptionError as refused:
        check_refusal(refused, made[chosen], letters=letters)
        return
    assert not is_open, f"document {chosen} was read, and is another now"
    expected = [
        [token + CHANGED if token - 1000 == chosen else token for token in row]
        for row in rows[given : given + 200]
    ]
    assert found[:200] == expected[: len(found[:200])]


def test_without_strict_a_changed_file_goes_on(tmp_path: Path) -> None:
    made = documents(tmp_path, random.Random(1))
    options: dict[str, Any] = {
        "tokenizer": None, "max_length": LENGTH, "shuffle": False, "epochs": None, "lanes": 1, "strategy": "concat",
    }  # fmt: skip
    files = files_of(tmp_path)
    with flat.stream(files, batch_size=1, **options) as whole:
        rows = rows_of(whole, 300)
    given = 120
    chosen = next(iter(surely_read(rows, given, {"lanes": 1}, made)))
    with flat.stream(files, batch_size=1, **options) as stream:
        rows_of(stream, given)
        state = stream.state_dict()
    change(made[chosen], letters=False)
    with flat.stream(files, batch_size=1, **options) as stream:
        stream.load_state_dict(state)
        with pytest.raises(fastpack.OptionError, match="others now"):
            next(stream)
    with flat.stream(files, batch_size=1, **options) as stream:
        stream.load_state_dict(state, strict=False)
        after = rows_of(stream, 2)
        again = stream.state_dict()
    with flat.stream(files, batch_size=1, **options) as stream:
        stream.load_state_dict(again)
        after += rows_of(stream, 10)
    assert [len(row) for row in after] == [len(row) for row in rows[given : given + 12]]


def test_without_strict_a_state_of_longer_rows_is_refused_by_the_length(tmp_path: Path) -> None:
    documents(tmp_path, random.Random(1))
    options: dict[str, Any] = {"tokenizer": None, "epochs": None, "lanes": 1, "batch_size": 1}
    files = files_of(tmp_path)
    with flat.stream(files, max_length=8 * LENGTH, **options) as stream:
        next(stream)
        state = stream.state_dict()
    with flat.stream(files, max_length=LENGTH, **options) as stream:
        stream.load_state_dict(state, strict=False)
        with pytest.raises(
            fastpack.OptionError, match=r"holds an unfinished row of .* tokens, and rows have .* now"
        ):
            next(stream)
    with flat.stream(files, max_length=16 * LENGTH, **options) as stream:
        stream.load_state_dict(state, strict=False)
        next(stream)


def parquet(records: list[dict[str, Any]], **options: Any) -> bytes:
    """A file whose size does not depend on the tokens."""
    table = pa.Table.from_pylist(records)
    return buffered(
        lambda file: pq.write_table(
            table, file, use_dictionary=False, compression="none", write_statistics=False, **options
        )
    )


SAME_SIZE: dict[str, Callable[[list[dict[str, Any]]], bytes]] = {
    "parquet": parquet,
    "groups.parquet": lambda records: parquet(records, row_group_size=50),
    "arrow": lambda records: ipc(records, pa.ipc.new_file),
    "stream.arrow": lambda records: ipc(records, pa.ipc.new_stream),
    "arrow.gz": lambda records: gzip.compress(ipc(records, pa.ipc.new_stream), 0, mtime=0),
    "jsonl.gz": lambda records: gzip.compress(lines(records), 0, mtime=0),
    "json": lambda records: json.dumps(records, indent=1).encode(),
    "cbor": sequence,
}
"""Containers of records that are written at the same size where tokens have as many digits."""


@pytest.mark.parametrize("container", SAME_SIZE)
@pytest.mark.parametrize("seed", range(tries(4, 100)))
def test_a_change_in_any_container_is_refused_or_read_as_it_is_now(
    seed: int, container: str, tmp_path: Path
) -> None:
    """Whatever a state holds of a file is refused if it is other now; what was not read yet may be read as it is."""
    rng = random.Random(f"{container} {seed}")
    made = documents(tmp_path, rng)
    records: dict[str, list[dict[str, Any]]] = {}
    for document in made:
        name = f"{document.path.stem}.{container}"
        records.setdefault(name, []).append(json.loads(document.text))
    for name, held in records.items():
        (tmp_path / name).write_bytes(SAME_SIZE[container](held))
    options = options_of(rng)
    files = {"a": [str(tmp_path / f"{name}.{container}") for name in ("a1", "a2")]}
    files["b"] = str(tmp_path / f"b.{container}")
    # A lane reads some of these files as a whole.
    options["lanes"] = min(options["lanes"], 1 if "weights" in options else 2)
    with flat.stream(files, batch_size=1, **options) as whole:
        rows = rows_of(whole, ROWS)
    given = rng.randint(2, 100)
    with flat.stream(files, batch_size=1, **options) as stream:
        assert rows_of(stream, given) == rows[:given]
        state = stream.state_dict()
    open_ones = sorted(surely_read(rows, given, options, made))
    is_open = bool(open_ones) and rng.random() < 0.75
    chosen = rng.choice(open_ones) if is_open else rng.randrange(len(made))
    name = f"{made[chosen].path.stem}.{container}"
    path, record = tmp_path / name, records[name][made[chosen].line - 1]
    record["input_ids"] = [token + CHANGED for token in record["input_ids"]]
    stat, content = path.stat(), SAME_SIZE[container](records[name])
    assert len(content) == stat.st_size
    path.write_bytes(content)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    try:
        with flat.stream(files, batch_size=1, **options) as stream:
            stream.load_state_dict(state)
            found = rows_of(stream, 200)
    except fastpack.OptionError as refused:
        said, option = str(refused), refused.option
    else:
        assert not is_open, f"document {chosen} was read, and is another now"
        expected = [
            [token + CHANGED if token - 1000 == chosen else token for token in row]
            for row in rows[given : given + 200]
        ]
        assert found == expected[: len(found)]
        return
    assert option == "state"
    # A change in the first or last bytes, where a checksum may lie, makes it another file of the source.
    assert f".{container}" in said or re.search(
        r"of another run; what differs: `(source [ab]|files)`", said
    ), said
