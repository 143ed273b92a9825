"""A file that grows while it is read gives the rows that it had, or an error that names it."""

from __future__ import annotations

import json
import random
import threading
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from campaign import tries
from conftest import sentence
from containers import CONTAINERS
from nested import flat

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RECORDS = [{"text": f"{number} {sentence(number, 150)}"} for number in range(700)]
"""Several blocks: a file that was read before it grew gives its rows."""

MORE = [{"text": f"more {number}"} for number in range(40)]

OPTIONS: dict[str, Any] = {"max_length": 512, "threads": 1}

Rows = list[list[int]]


def by_pack_files(path: Path, **options: Any) -> Any:
    return flat.pack_files(path, **OPTIONS, **options)["input_ids"].to_pylist()


def by_stream(path: Path, **options: Any) -> Any:
    with flat.stream(path, lanes=2, batch_size=2, epochs=2, shuffle=False, **OPTIONS, **options) as stream:
        return [row for table in stream for row in table["input_ids"].to_pylist()]


def by_scan(path: Path, **options: Any) -> Any:
    found = flat.scan(path, **OPTIONS, **options).to_dict()
    return {name: found[name] for name in ("documents", "read", "lost", "lengths", "trained_tokens", "fits")}


CALLS: dict[str, Callable[..., Any]] = {"pack_files": by_pack_files, "stream": by_stream, "scan": by_scan}


@pytest.fixture(scope="module")
def tokenizer(tokenizer_dir: Path) -> fastpack.Tokenizer:
    return fastpack.Tokenizer(tokenizer_dir)


@pytest.fixture(scope="module")
def whole(tokenizer: fastpack.Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """The rows of a file that does not grow, by call and container."""
    folder, known = tmp_path_factory.mktemp("whole"), {}

    def rows(call: str, container: str) -> Any:
        if (call, container) not in known:
            path = folder / f"data.{container}"
            path.write_bytes(CONTAINERS[container](RECORDS))
            known[call, container] = CALLS[call](path, tokenizer=tokenizer)
        return known[call, container]

    return rows


def growth(container: str, chance: random.Random) -> bytes:
    """More records of the container, a part of them, or other bytes."""
    more = CONTAINERS[container](MORE)
    return chance.choice([more, more, more[: chance.randrange(1, len(more))], b"\n", b"{", bytes(64)])


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("seed", range(tries(1, 40)))
def test_a_file_that_grows_while_it_is_read_gives_its_rows_or_is_named(
    seed: int,
    call: str,
    container: str,
    whole: Callable[..., Any],
    tokenizer: fastpack.Tokenizer,
    tmp_path: Path,
) -> None:
    chance = random.Random(f"{call} {container} {seed}")
    expected = whole(call, container)
    path = tmp_path / f"data.{container}"
    path.write_bytes(CONTAINERS[container](RECORDS))
    moment, batches = chance.choice([1, 1, 2, 3]), 0

    def grow(batch: pa.RecordBatch) -> list[bool]:
        nonlocal batches
        batches += 1
        if batches == moment:
            with path.open("ab") as file:
                file.write(growth(container, chance))
        return [True] * batch.num_rows

    given = fastpack.Function(grow, fingerprint="1")
    try:
        found = CALLS[call](path, tokenizer=tokenizer, filter=given)
    except fastpack.FastpackError as failed:
        said = f"{failed} {getattr(failed, 'filename', '')}"
    else:
        assert found == expected
        return
    assert f"data.{container}" in said, said


@pytest.mark.parametrize("container", ["jsonl", "jsonl.gz", "jsonl.zst", "jsonl.bz2"])
@pytest.mark.parametrize("seed", range(tries(2, 60)))
def test_a_file_that_grows_while_it_is_written_again_gives_whole_records_or_is_named(
    seed: int, container: str, tmp_path: Path
) -> None:
    """`reindex` calls no function of the caller, so the file grows beside it, at any moment."""
    chance = random.Random(f"{container} {seed}")
    path = tmp_path / f"data.{container}"
    path.write_bytes(CONTAINERS[container](RECORDS))
    more = [CONTAINERS[container]([record]) for record in MORE * chance.choice([1, 10, 50])]
    started, ended = threading.Event(), threading.Event()

    def grow() -> None:
        started.wait()
        for piece in more:
            if ended.is_set():
                return
            with path.open("ab") as file:
                file.write(piece)

    thread = threading.Thread(target=grow)
    thread.start()
    said = ""
    try:
        started.set()
        fastpack.reindex(path, tmp_path / "again")
    except fastpack.FastpackError as failed:
        said = f"{failed} {getattr(failed, 'filename', '')}"
    finally:
        ended.set()
        thread.join()
    if said:
        assert f"data.{container}" in said, said
        assert not list((tmp_path / "again").glob("*"))
        return
    [again] = (tmp_path / "again").glob("*")
    with pa.CompressedInputStream(pa.OSFile(str(again)), "zstd") as file:
        texts = [json.loads(line)["text"] for line in file.read().splitlines()]
    expected = [record["text"] for record in [*RECORDS, *MORE * 50]]
    assert len(texts) >= len(RECORDS)
    assert texts == expected[: len(texts)]
