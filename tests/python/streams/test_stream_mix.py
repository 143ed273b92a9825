"""Sources of a stream are mixed by weight, and a mix resumes as any stream does."""

from __future__ import annotations

import bz2
import gzip
import itertools
import json
import lzma
import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from campaign import tries
from conftest import sentence
from nested import flat

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(scope="module")
def loaded(tokenizer_dir: Path) -> fastpack.Tokenizer:
    return fastpack.Tokenizer(tokenizer_dir)


@pytest.fixture
def sources(write_jsonl: Callable[..., Path]) -> dict[str, Path]:
    """Two sources whose documents are told by their lengths: short ones, and fewer that are ten times as long."""
    short = [{"text": sentence(number, 4)} for number in range(600)]
    long = [{"text": sentence(number, 40)} for number in range(200)]
    return {"short": write_jsonl(short, "short.jsonl"), "long": write_jsonl(long, "long.jsonl")}


LONG = 25
"""Tokens that no short document has, and every long one."""

OPTIONS: dict[str, Any] = {
    "max_length": 256,
    "epochs": None,
    "lanes": 8,
    "batch_size": 4,
    "overlong": "error",
}


def shares_of(stream: fastpack.PackStream, tables: int, unit: str = "tokens") -> float:
    """The share of the documents that are long, in the rows of some tables."""
    counted = {True: 0, False: 0}
    for table in itertools.islice(stream, tables):
        for row in table["seq_lengths"].to_pylist():
            for length in row:
                counted[length > LONG] += length if unit == "tokens" else 1
    return counted[True] / sum(counted.values())


@pytest.mark.parametrize("unit", ["tokens", "documents"])
@pytest.mark.parametrize("weight", [0.2, 0.5, 0.9])
def test_sources_come_by_their_weights(
    weight: float, unit: str, sources: dict[str, Path], loaded: fastpack.Tokenizer
) -> None:
    weights = {"short": 1 - weight, "long": weight}
    with flat.stream(sources, loaded, weights=weights, weight_unit=unit, **OPTIONS) as stream:
        assert shares_of(stream, 60, unit) == pytest.approx(weight, abs=0.03)
        if unit == "tokens":
            assert stream.stats().shares == pytest.approx(weights, abs=0.03)


def test_weights_change_at_their_rows(sources: dict[str, Path], loaded: fastpack.Tokenizer) -> None:
    schedule = [(0, {"short": 1.0, "long": 0.0}), (160, {"short": 0.0, "long": 1.0})]
    # Open rows of `best_fit` would hold documents from before for a while.
    options = OPTIONS | {"strategy": "sequential"}
    with flat.stream(sources, loaded, weights=schedule, **options) as stream:
        assert shares_of(stream, 40) < 0.05
        shares_of(stream, 10)
        assert shares_of(stream, 20) > 0.95


@pytest.mark.parametrize("on_exhausted", ["repeat", "stop", "drop"])
def test_what_happens_to_a_source_that_was_read(
    on_exhausted: str, sources: dict[str, Path], loaded: fastpack.Tokenizer
) -> None:
    """The long source has far more tokens: at equal weights the short one ends first."""
    options = OPTIONS | {"epochs": 1, "strategy": "none", "lanes": 1}
    weights = {"short": 1, "long": 1}
    with flat.stream(sources, loaded, weights=weights, on_exhausted=on_exhausted, **options) as stream:
        lengths = [row[0] for table in stream for row in table["seq_lengths"].to_pylist()]
    long = sum(length > LONG for length in lengths)
    short = len(lengths) - long
    assert {"repeat": short > 900, "stop": short == 600, "drop": short == 600}[on_exhausted]
    assert {"repeat": long == 200, "stop": long < 150, "drop": long == 200}[on_exhausted]


@pytest.mark.parametrize(
    "weights", [{"short": 3, "long": 1}, [(0, {"short": 1, "long": 1}), (50, {"short": 0, "long": 1})]]
)
def test_a_mix_resumes_after_every_table_on_any_number_of_ranks(
    weights: Any, sources: dict[str, Path], loaded: fastpack.Tokenizer
) -> None:
    def make(**more: Any) -> fastpack.PackStream:
        return flat.stream(sources, loaded, weights=weights, **(OPTIONS | more))

    with make() as stream:
        tables = list(itertools.islice(stream, 24))
    rows = [table["input_ids"].to_pylist() for table in tables]
    for number in range(0, 20, 3):
        with make() as again:
            again.load_state_dict(fastpack.state_of(tables[number]))
            assert [next(again)["input_ids"].to_pylist() for _ in range(3)] == rows[number + 1 : number + 4]
    ranks = [make(rank=rank, world_size=2, batch_size=2) for rank in range(2)]
    for rank in ranks:
        rank.load_state_dict(fastpack.state_of(tables[4]))
    found = [[row for rank in ranks for row in next(rank)["input_ids"].to_pylist()] for _ in range(6)]
    assert found == rows[5:11]
    for rank in ranks:
        rank.close()


@pytest.mark.parametrize("on_exhausted", ["repeat", "stop", "drop"])
def test_a_mix_resumes_to_its_end(
    on_exhausted: Any, write_jsonl: Callable[..., Path], loaded: fastpack.Tokenizer
) -> None:
    """Also after a source has ended, and with documents of one length from several sources in the last rows."""
    texts = [f"<{number}> {sentence(number, 2 + number % 30)}" for number in range(600)]
    sources = {
        name: write_jsonl([{"text": text} for text in texts[first:]], f"{name}.jsonl")
        for name, first in (("all", 0), ("most", 200), ("few", 450))
    }
    weights = [(0, {"all": 1, "most": 2, "few": 0}), (24, {"all": 1, "most": 1, "few": 3})]

    def make() -> fastpack.PackStream:
        chosen: dict[str, Any] = {"max_length": 256, "lanes": 4, "batch_size": 1}
        return flat.stream(sources, loaded, weights=weights, on_exhausted=on_exhausted, **chosen)

    tables = list(make())
    rows = [table["input_ids"].to_pylist() for table in tables]
    for number in [*range(0, len(tables), tries(29, 5)), len(tables) - 10, len(tables) - 3]:
        again = make()
        again.load_state_dict(fastpack.state_of(tables[number]))
        assert [table["input_ids"].to_pylist() for table in again] == rows[number + 1 :], number


def test_a_source_with_fewer_records_than_lanes_is_refused(
    sources: dict[str, Path], write_jsonl: Callable[..., Path], loaded: fastpack.Tokenizer
) -> None:
    few = write_jsonl([{"text": sentence(number, 4)} for number in range(3)], "few.jsonl")
    weights = {"short": 1, "few": 1}
    stream = flat.stream({"short": sources["short"], "few": few}, loaded, weights=weights, **OPTIONS)
    with pytest.raises(fastpack.OptionError, match="has no document of it") as refused:
        list(itertools.islice(stream, 9))
    assert refused.value.option == "weights"


def refusal_of_a_share(
    web: Path, short: Path, loaded: fastpack.Tokenizer, **options: Any
) -> fastpack.OptionError:
    given = {"short": short, "web": web}
    stream = flat.stream(given, loaded, weights={"short": 1, "web": 1}, **(OPTIONS | options))
    with pytest.raises(fastpack.OptionError) as refused:
        list(itertools.islice(stream, 9))
    return refused.value


def test_a_source_that_cannot_be_divided_is_named_with_its_file(
    sources: dict[str, Path], tmp_path: Path, loaded: fastpack.Tokenizer
) -> None:
    whole = tmp_path / "whole.jsonl.gz"
    whole.write_bytes(gzip.compress(sources["long"].read_bytes()))
    refused = refusal_of_a_share(whole, sources["short"], loaded)
    assert refused.option == "weights"
    assert f"source `web` ({whole}) has a share, but lane" in refused.reason
    assert "take fewer lanes, such as ranks=Ranks(lanes=1)" in refused.reason
    options = OPTIONS | {"lanes": 1, "batch_size": 1}
    named = {"short": sources["short"], "web": whole}
    with flat.stream(named, loaded, weights={"short": 1, "web": 1}, **options) as again:
        assert len(list(itertools.islice(again, 9))) == 9


def test_fewer_lanes_are_advised_only_if_the_ranks_allow_them(
    sources: dict[str, Path], tmp_path: Path, loaded: fastpack.Tokenizer
) -> None:
    whole = tmp_path / "whole.jsonl.gz"
    whole.write_bytes(gzip.compress(sources["long"].read_bytes()))
    options = {"rank": 0, "world_size": 2, "batch_size": 8, "lanes": 64, "epochs": None}
    refused = refusal_of_a_share(whole, sources["short"], loaded, **options)
    assert "lanes, such as" not in refused.reason
    assert 'or weights=Weights(..., on_exhausted="drop")' in refused.reason
    one = flat.stream(
        {"short": sources["short"], "web": whole},
        loaded,
        weights={"short": 1, "web": 1},
        **(OPTIONS | options | {"on_exhausted": "drop"}),
    )
    with one as stream:
        assert next(stream).num_rows == 8


REMEDIES = {
    "whole.jsonl.gz": "decompress its files (`gzip -dk {path}`)",
    "whole.jsonl.bz2": "decompress its files (`bzip2 -dk {path}`)",
    "whole.jsonl.xz": "decompress its files (`xz -dk {path}`)",
    "a name.jsonl.gz": "decompress its files (`gzip -dk '{path}'`)",
    "whole.csv": "write its records as JSON Lines without compression",
    "whole.json": "write its records as JSON Lines without compression",
    "whole.parquet": "write its records as JSON Lines without compression",
    "few.jsonl": "take more records",
}


@pytest.mark.parametrize("name", REMEDIES)
def test_a_source_that_lanes_cannot_share_is_told_what_helps_its_files(
    name: str, sources: dict[str, Path], tmp_path: Path, loaded: fastpack.Tokenizer
) -> None:
    """`fastpack reindex` makes one part of so small a file."""
    records = [{"text": sentence(number, 40)} for number in range(200)]
    lines = sources["long"].read_bytes()
    path = tmp_path / name
    pq.write_table(pa.Table.from_pylist(records), tmp_path / "whole.parquet")
    contents = {
        ".gz": gzip.compress(lines),
        ".bz2": bz2.compress(lines),
        ".xz": lzma.compress(lines),
        ".csv": ("text\n" + "".join(f"{record['text']}\n" for record in records)).encode(),
        ".json": json.dumps(records).encode(),
        ".jsonl": json.dumps(records[0]).encode(),
        ".parquet": (tmp_path / "whole.parquet").read_bytes(),
    }
    path.write_bytes(contents[path.suffix])
    reason = refusal_of_a_share(path, sources["short"], loaded).reason
    assert REMEDIES[name].format(path=path) in reason
    assert "reindex" not in reason


def test_a_source_large_enough_for_its_lanes_is_told_the_command_that_divides_it(
    sources: dict[str, Path], tmp_path: Path, loaded: fastpack.Tokenizer
) -> None:
    whole = tmp_path / "whole.jsonl.gz"
    texts = [random.Random(number).randbytes(40_000).hex() for number in range(100)]
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    whole.write_bytes(gzip.compress(lines.encode(), 1))
    options = {"lanes": 3, "batch_size": 1, "overlong": "truncate"}
    refused = refusal_of_a_share(whole, sources["short"], loaded, **options)
    command = ["fastpack", "reindex", str(whole), "-o", "framed/"]
    assert f"have `{' '.join(command)}` divide its files into parts of 1 MiB" in refused.reason
    done = fastpack.reindex(whole, tmp_path / "framed")
    assert done.files[0].parts >= 3
    given = {"short": sources["short"], "web": done.files[0].path}
    with flat.stream(given, loaded, weights={"short": 1, "web": 1}, **(OPTIONS | options)) as stream:
        assert len(list(itertools.islice(stream, 9))) == 9


@pytest.mark.parametrize(
    "weights",
    [
        {"short": 1},
        {"short": 1, "long": 1, "more": 1},
        3,
        [(5, {"short": 1, "long": 1})],
        {"short": 0, "long": 0},
    ],
    ids=str,
)
def test_weights_that_are_none_are_refused(
    weights: Any, sources: dict[str, Path], loaded: fastpack.Tokenizer
) -> None:
    with pytest.raises(fastpack.OptionError) as refused:
        flat.stream(sources, loaded, weights=weights, **OPTIONS)
    assert refused.value.option == "weights"


def test_a_repeated_source_beside_weights_is_refused(
    sources: dict[str, Path], loaded: fastpack.Tokenizer
) -> None:
    named: dict[str, Any] = {"short": {"path": str(sources["short"]), "repeat": 2}, "long": sources["long"]}
    stream = flat.stream(named, loaded, weights={"short": 1, "long": 1}, **OPTIONS)
    with pytest.raises(fastpack.OptionError, match="say how often a source comes"):
        next(stream)


def test_named_sources_without_weights_are_read_as_one(
    sources: dict[str, Path], loaded: fastpack.Tokenizer
) -> None:
    options = {"max_length": 4096, "strategy": "none"}
    rows = [
        row for table in flat.stream(sources, loaded, **options) for row in table["input_ids"].to_pylist()
    ]
    plain = flat.pack_files([*sources.values()], loaded, **options)["input_ids"].to_pylist()
    assert sorted(rows) == sorted(plain)


@pytest.mark.parametrize("unit", ["tokens", "documents", "rows"])
@pytest.mark.parametrize("rare", ["short", "long"])
@pytest.mark.parametrize("weight", [1e-12, 1e-9, 5e-6])
def test_a_source_of_hardly_any_weight_gives_hardly_any_document(
    weight: float, rare: str, unit: str, sources: dict[str, Path], loaded: fastpack.Tokenizer
) -> None:
    weights = {name: weight if name == rare else 1.0 for name in sources}
    options = OPTIONS | {"lanes": 64}
    with flat.stream(sources, loaded, weights=weights, weight_unit=unit, **options) as stream:
        found = shares_of(stream, 200, "documents")
    share = found if rare == "long" else 1 - found
    # Of some thousand documents none is due yet.
    assert share == 0


def test_a_rare_source_comes_in_its_time(sources: dict[str, Path], loaded: fastpack.Tokenizer) -> None:
    weights = {"short": 1.0, "long": 7e-6}
    options = OPTIONS | {"lanes": 1, "batch_size": 64, "strategy": "sequential"}
    with flat.stream(sources, loaded, weights=weights, weight_unit="documents", **options) as stream:
        due, tables, documents = 0, 0, 0
        while not due:
            lengths = [length for row in next(stream)["seq_lengths"].to_pylist() for length in row]
            due, tables, documents = sum(it > LONG for it in lengths), tables + 1, documents + len(lengths)
    # The only lane is in the middle of the lanes: half of the first document's time.
    assert documents * 7e-6 == pytest.approx(0.5, abs=0.05)
