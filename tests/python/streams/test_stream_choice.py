"""A stream takes some records and leaves others out: by fields, by length, and for validation."""

from __future__ import annotations

import csv
import gzip
import itertools
import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import sentence
from nested import flat, place

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

Ids = tuple[int, ...]

OPTIONS: dict[str, Any] = {"max_length": 4096, "strategy": "none", "lanes": 6, "batch_size": 5}

LANGUAGES = ["en", "de", "fr"]


@pytest.fixture(scope="module")
def loaded(tokenizer_dir: Path) -> fastpack.Tokenizer:
    return fastpack.Tokenizer(tokenizer_dir)


def record(number: int) -> dict[str, Any]:
    """A record with fields of several types; some have no score."""
    score = {} if number % 7 == 0 else {"score": number / 300}
    return {
        "text": f"{number} {sentence(number, 2 + number % 40)}",
        "lang": LANGUAGES[number % 3],
        "good": number % 2 == 0,
        **score,
    }


RECORDS = [record(number) for number in range(300)]


@pytest.fixture(params=["jsonl", "parquet", "csv"])
def files(request: pytest.FixtureRequest, write_jsonl: Callable[..., Path], tmp_path: Path) -> Path:
    if request.param == "jsonl":
        return write_jsonl(RECORDS)
    columns = {name: [record.get(name) for record in RECORDS] for name in ("text", "lang", "good", "score")}
    if request.param == "parquet":
        pq.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=37)
        return tmp_path / "a.parquet"
    with (tmp_path / "a.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "lang"])
        writer.writerows([record["text"], record["lang"]] for record in RECORDS)
    return tmp_path / "a.csv"


def ids_of(tables: Iterable[pa.Table]) -> list[Ids]:
    return [tuple(ids) for table in tables for ids in table["input_ids"].to_pylist()]


def wanted_ids(
    loaded: fastpack.Tokenizer, keep: Callable[[dict[str, Any]], bool], write: Callable[..., Path]
) -> list[Ids]:
    """The documents of the records that a plain Python condition keeps."""
    path = write([record for record in RECORDS if keep(record)], "kept.jsonl")
    table = flat.pack_files(path, loaded, max_length=4096, strategy="none")
    return sorted(tuple(ids) for ids in table["input_ids"].to_pylist())


CONDITIONS: list[tuple[dict[str, Any], Callable[[dict[str, Any]], bool]]] = [
    ({"lang": "en"}, lambda it: it["lang"] == "en"),
    ({"lang": ["en", "fr"]}, lambda it: it["lang"] != "de"),
    ({"good": True, "lang": {"de"}}, lambda it: it["good"] and it["lang"] == "de"),
    ({"score": (0.5, None)}, lambda it: it.get("score", -1) >= 0.5),
    ({"score": (0.1, 0.2), "good": False}, lambda it: 0.1 <= it.get("score", -1) <= 0.2 and not it["good"]),
    ({"score": None}, lambda it: "score" not in it),
    ({"score": [None, 1 / 300]}, lambda it: it.get("score") in (None, 1 / 300)),
    ({"missing": None}, lambda _: True),
]


@pytest.mark.parametrize(
    ("where", "keep"), CONDITIONS, ids=lambda it: str(it) if isinstance(it, dict) else ""
)
def test_records_are_chosen_by_their_fields(
    where: dict[str, Any],
    keep: Callable[[dict[str, Any]], bool],
    files: Path,
    write_jsonl: Callable[..., Path],
    loaded: fastpack.Tokenizer,
) -> None:
    if files.suffix == ".csv" and not {"lang", "missing"} >= set(where):
        pytest.skip("cells of CSV are texts")
    stream = flat.stream(files, loaded, where=where, **OPTIONS)
    found = ids_of(stream)
    assert sorted(found) == wanted_ids(loaded, keep, write_jsonl)
    assert stream.report is not None
    assert stream.report.documents.read == 300
    dropped = stream.report.dropped
    assert (dropped["filtered"].documents if len(found) < 300 else 0) == 300 - len(found)


@pytest.mark.parametrize("least", [None, 20])
@pytest.mark.parametrize("most", [None, 60])
def test_documents_are_chosen_by_their_length(
    least: int | None, most: int | None, files: Path, loaded: fastpack.Tokenizer
) -> None:
    plain = ids_of(flat.stream(files, loaded, **OPTIONS))
    kept = [ids for ids in plain if (least or 0) <= len(ids) <= (most or 10**9)]
    stream = flat.stream(files, loaded, min_document_tokens=least, max_document_tokens=most, **OPTIONS)
    assert sorted(ids_of(stream)) == sorted(kept)
    assert stream.report is not None
    assert stream.report.documents.kept == len(kept)
    if len(kept) < 300:
        lost = stream.report.dropped["filtered"]
        assert lost.documents == 300 - len(kept)
        assert lost.tokens == sum(map(len, plain)) - sum(map(len, kept))


def test_validation_holds_the_same_records_out_in_every_epoch(
    files: Path, loaded: fastpack.Tokenizer
) -> None:
    plain = ids_of(flat.stream(files, loaded, **OPTIONS))
    stream = flat.stream(files, loaded, validation=0.1, epochs=3, **OPTIONS)
    trained = ids_of(stream)
    held_out = ids_of(stream.validation)
    assert 10 < len(held_out) < 60
    assert sorted(trained) == sorted(3 * [ids for ids in plain if ids not in held_out])
    assert set(held_out) <= set(plain)
    assert ids_of(stream.validation) == held_out
    other = flat.stream(files, loaded, validation=0.1, seed=1, **OPTIONS)
    assert sorted(ids_of(other.validation)) != sorted(held_out)
    assert stream.report is not None
    assert stream.report.documents.read == len(trained)


@pytest.mark.parametrize("share", [0.01, 0.2, "50%"])
def test_about_the_share_is_held_out(
    share: Any, write_jsonl: Callable[..., Path], loaded: fastpack.Tokenizer
) -> None:
    path = write_jsonl([{"text": f"{number}"} for number in range(6000)])
    stream = flat.stream(path, loaded, validation=share, **OPTIONS)
    expected = {0.01: 60, 0.2: 1200, "50%": 3000}[share]
    assert len(ids_of(stream.validation)) == pytest.approx(expected, abs=4 * expected**0.5)


def test_equal_records_are_held_out_together_wherever_they_are(
    write_jsonl: Callable[..., Path], loaded: fastpack.Tokenizer
) -> None:
    texts = [{"text": f"number {number}"} for number in range(200)]
    files = [write_jsonl(texts, "a.jsonl"), write_jsonl(texts[::-1], "b.jsonl")]
    stream = flat.stream(files, loaded, validation=0.3, **OPTIONS)
    held_out = ids_of(stream.validation)
    assert {held_out.count(ids) for ids in held_out} == {2}
    assert not set(held_out) & set(ids_of(stream))


CONTAINERS = ["jsonl", "gz", "array", "parquet", "arrow", "csv"]


def write_container(kind: str, records: list[dict[str, Any]], folder: Path, name: str) -> Path:
    """The records in a file of a kind, with a blank line between the lines of a line file."""
    columns = {"text": [record["text"] for record in records]}
    path = folder / f"{name}.{ {'gz': 'jsonl.gz', 'array': 'json'}.get(kind, kind) }"
    lines = "\n\n".join(json.dumps(record) for record in records)
    if kind == "jsonl":
        path.write_text(lines, encoding="utf-8")
    elif kind == "gz":
        path.write_bytes(gzip.compress(lines.encode()))
    elif kind == "array":
        path.write_text(json.dumps(records), encoding="utf-8")
    elif kind == "parquet":
        pq.write_table(pa.table(columns), path, row_group_size=37)
    elif kind == "arrow":
        table = pa.table(columns)
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=41)
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["text"])
            writer.writerows([record["text"]] for record in records)
    return path


@pytest.mark.parametrize("kind", CONTAINERS)
@pytest.mark.parametrize(
    ("skip", "take", "stride"),
    [
        (0, None, None),
        (0, 1, None),
        (0, 130, None),
        (120, None, None),
        (119, 2, None),
        (121, 300, None),
        (299, None, None),
        (300, None, None),
        (0, None, 3),
        (7, None, 1),
        (50, 200, 7),
    ],
)
def test_records_are_taken_by_their_number_in_the_input(
    kind: str,
    skip: int,
    take: int | None,
    stride: int | None,
    tmp_path: Path,
    loaded: fastpack.Tokenizer,
) -> None:
    """Of three files with 120, 1 and 179 records, as slices of Python take them."""
    parts = [RECORDS[:120], RECORDS[120:121], RECORDS[121:]]
    files = [write_container(kind, part, tmp_path, f"{at}") for at, part in enumerate(parts)]
    end = 300 if take is None else skip + take
    starts = [0, 120, 121]
    wanted = [
        record["text"]
        for part, start in zip(parts, starts, strict=True)
        for record in part[max(skip - start, 0) : max(end - start, 0)][:: stride or 1]
    ]
    for options in (
        {},
        {"shuffle": False, "lanes": 1},
        {"columns": ["input_ids", "source_row"]},
    ):
        stream = flat.stream(files, loaded, skip=skip, take=take, stride=stride, **(OPTIONS | options))
        ours = [loaded.decode(list(ids)).removesuffix("<|endoftext|>") for ids in ids_of(stream)]
        if options.get("shuffle", True):
            assert sorted(ours) == sorted(wanted)
        else:
            assert ours == wanted
        assert stream.report is not None
        assert stream.report.documents.read == len(wanted)


def test_records_taken_of_one_large_file_are_shared_by_the_lanes(
    write_jsonl: Callable[..., Path], loaded: fastpack.Tokenizer
) -> None:
    path = write_jsonl([{"text": sentence(number, 12)} for number in range(20_000)])
    options = {
        "skip": 9000,
        "take": 960,
        "strategy": "none",
        "max_length": 64,
        "epochs": None,
        "world_size": 6,
    }
    for rank in range(6):
        with flat.stream(path, loaded, rank=rank, lanes=48, batch_size=8, **options) as stream:
            assert next(stream).num_rows == 8


def test_sources_with_weights_have_their_own_numbers(
    write_jsonl: Callable[..., Path], loaded: fastpack.Tokenizer
) -> None:
    one, two = write_jsonl(RECORDS[:100], "one.jsonl"), write_jsonl(RECORDS[100:], "two.jsonl")
    options = OPTIONS | {"take": 30, "lanes": 2, "on_exhausted": "drop"}
    stream = flat.stream({"one": one, "two": two}, loaded, weights={"one": 1, "two": 1}, **options)
    plain = ids_of(flat.stream([one, two], loaded, **(OPTIONS | {"shuffle": False, "lanes": 1})))
    assert sorted(ids_of(stream)) == sorted(plain[:30] + plain[100:130])


def test_a_size_is_not_estimated_where_records_are_left_out(
    write_jsonl: Callable[..., Path], loaded: fastpack.Tokenizer, tmp_path: Path
) -> None:
    path = write_jsonl(RECORDS)
    for options in ({"take": 40}, {"stride": 2}, {"where": {"lang": "en"}}, {"validation": 0.1}):
        with pytest.raises(fastpack.OptionError, match="cache_dir") as refused:
            flat.stream(path, loaded, **OPTIONS, **options).estimate()
        assert refused.value.option == place(next(iter(options)))
    counted = flat.stream(path, loaded, take=40, cache_dir=tmp_path / "counts", **OPTIONS).estimate()
    assert counted.rows == 40


# Of some choices a lane has no document in a pass.
@pytest.mark.filterwarnings("ignore:lane .* rows of padding")
@pytest.mark.parametrize("offset", [0, 1, 2, 3, 10, 13, 20, 100, 123])
@pytest.mark.parametrize(
    "options",
    [
        {"where": {"lang": ["en", "de"]}},
        {"min_document_tokens": 12, "max_document_tokens": 80},
        {"skip": 29},
        {"take": 77},
        {"stride": 3},
        {"stride": 4, "skip": 17, "take": 210, "where": {"good": True}},
        {"strategy": fastpack.Concat(drop_last=True), "max_length": 32},
        {"validation": 0.2},
        {
            "filter": fastpack.Function(
                lambda rows: [at % 2 == 0 for at in range(len(rows))], fingerprint="v1"
            )
        },
        {"map": fastpack.Function(lambda rows: rows, fingerprint="v1")},
        {"max_steps": 130},
        {"weights": {"one": 2, "two": 1}},
        {"weights": {"one": 2, "two": 1}, "weight_unit": "rows"},
        {"shuffle": False},
        {"strategy": "best_fit", "max_length": 64},
        {"strategy": "concat", "max_length": 32},
        {"on_bad_record": "skip"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_a_stream_resumes_at_any_offset_whatever_is_done_with_records(
    options: dict[str, Any], offset: int, write_jsonl: Callable[..., Path], loaded: fastpack.Tokenizer
) -> None:
    """Epochraft checks resumption at these offsets of rows."""
    bad = [b"{"] if "on_bad_record" in options else []
    lines = [json.dumps(record).encode() for record in RECORDS]
    one, two = write_jsonl([*lines[:180], *bad], "one.jsonl"), write_jsonl([*bad, *lines[180:]], "two.jsonl")
    files: Any = {"one": one, "two": two} if "weights" in options else [one, two]

    def make() -> fastpack.PackStream:
        return flat.stream(files, loaded, **(OPTIONS | {"batch_size": 1, "epochs": None} | options))

    with make() as stream:
        tables = list(itertools.islice(stream, offset + 6))
    rows = ids_of(tables)
    with make() as again:
        if offset:
            state = json.loads(json.dumps(fastpack.state_of(tables[offset - 1])))
            again.load_state_dict(state)
        assert ids_of(itertools.islice(again, 6)) == rows[offset : offset + 6]


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"where": "lang"}, "where"),
        ({"where": {"lang": {"a": 1}}}, "where"),
        ({"where": {"score": (1, 2, 3)}}, "where"),
        ({"where": {"score": ("a", "b")}}, "where"),
        ({"validation": 0}, "validation"),
        ({"validation": 1000}, "validation"),
        ({"min_document_tokens": 0}, "min_document_tokens"),
        ({"max_document_tokens": "many"}, "max_document_tokens"),
        ({"skip": -1}, "skip"),
        ({"skip": True}, "skip"),
        ({"take": 0}, "take"),
        ({"stride": 0}, "stride"),
        ({"stride": "2"}, "stride"),
    ],
    ids=str,
)
def test_a_choice_that_is_none_is_refused(
    options: dict[str, Any], option: str, write_jsonl: Callable[..., Path], loaded: fastpack.Tokenizer
) -> None:
    with pytest.raises(fastpack.OptionError) as refused:
        flat.stream(write_jsonl(RECORDS[:3]), loaded, **OPTIONS, **options)
    assert refused.value.option == place(option)


def test_another_choice_is_another_run(write_jsonl: Callable[..., Path], loaded: fastpack.Tokenizer) -> None:
    path = write_jsonl(RECORDS)
    with flat.stream(path, loaded, where={"lang": "en"}, **OPTIONS) as stream:
        next(stream)
        state = stream.state_dict()
    for options, named in [
        ({}, "where"),
        ({"where": {"lang": "de"}}, "where"),
        ({"min_document_tokens": 3}, "min_document_tokens"),
        ({"where": {"lang": "en"}, "skip": 2}, "skip"),
        ({"where": {"lang": "en"}, "take": 2}, "take"),
        ({"where": {"lang": "en"}, "stride": 2}, "stride"),
    ]:
        other = flat.stream(path, loaded, **OPTIONS, **options)
        other.load_state_dict(state)
        with pytest.raises(fastpack.OptionError, match=f"`{re.escape(place(named))}`"):
            next(other)


def test_there_is_no_validation_stream_without_a_share(
    write_jsonl: Callable[..., Path], loaded: fastpack.Tokenizer
) -> None:
    with pytest.raises(fastpack.OptionError, match="`validation`"):
        _ = flat.stream(write_jsonl(RECORDS), loaded, **OPTIONS).validation


NUMBERS = [
    0,
    1,
    -1,
    2**53 - 1,
    2**53,
    2**53 + 1,
    2**63 - 1,
    2**63,
    2**64 - 1,
    2**64,
    2**64 + 1,
    -(2**63),
    -(2**63) - 1,
    2**1200,
    -(2**1200),
    0.5,
    -0.5,
    float(2**53),
    2.0**63,
    2.0**64,
    -(2.0**63),
    1e300,
    float("inf"),
    float("-inf"),
]
"""Numbers around the ends of the integers that a float can tell apart, and that 64 bits hold."""


def test_numbers_are_compared_exactly_whatever_their_types(
    loaded: fastpack.Tokenizer, write_jsonl: Callable[..., Path]
) -> None:
    path = write_jsonl([{"text": sentence(at, 3 + at), "n": number} for at, number in enumerate(NUMBERS)])
    texts = [
        tuple(loaded.encode(sentence(at, 3 + at), add_special_tokens=False)) for at in range(len(NUMBERS))
    ]

    def found(where: object) -> list[int]:
        ids = ids_of(flat.stream(path, loaded, where={"n": where}, **OPTIONS))
        return sorted(next(at for at, text in enumerate(texts) if row[: len(text)] == text) for row in ids)

    for wanted in NUMBERS:
        assert found(wanted) == [at for at, number in enumerate(NUMBERS) if number == wanted], wanted
        assert found((wanted, None)) == [at for at, number in enumerate(NUMBERS) if number >= wanted], wanted
        assert found((None, wanted)) == [at for at, number in enumerate(NUMBERS) if number <= wanted], wanted


def test_unsigned_integers_and_numbers_of_numpy_are_compared_exactly(
    loaded: fastpack.Tokenizer, tmp_path: Path
) -> None:
    numbers = np.array([2**64 - 1, 2**64 - 2, 2**63, 2**63 - 1], np.uint64)
    pq.write_table(pa.table({"text": [f"{at}" for at in range(4)], "n": numbers}), tmp_path / "a.parquet")
    for wanted, most in ((numbers[1], 1), (int(numbers[1]), 1), ((numbers[2], numbers[1]), 2)):
        stream = flat.stream(tmp_path / "a.parquet", loaded, where={"n": wanted}, **OPTIONS)
        assert len(ids_of(stream)) == most
