"""Whichever function packs some records, and whatever a cache holds, rows, books and refusals are the same."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from campaign import tries
from conftest import sentence
from containers import lines
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from rows import balanced, table_of

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Records = list[dict[str, Any]]
Options = dict[str, Any]

STREAMED = ["sequential", "concat", "none"]
"""The strategies whose rows a stream gives too."""

KEPT = ["max_length", "strategy", "overlong", "columns", "max_lost", "padding"]
"""The options that `repack` takes."""

IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""The place of written folders: thousands are, and a disk would be waited for at the end of each."""

WEIGHED = ["input_ids", "labels", "loss_weights", "seq_lengths", "source_row"]


@pytest.fixture(scope="module")
def loaded(tokenizer_dir: Path) -> fastpack.Tokenizer:
    return fastpack.Tokenizer(tokenizer_dir)


# Records of every shape: good, empty, without a label, and bad in ways that a table can hold too.

SAID = st.integers(0, 40).map(lambda number: sentence(number, number % 9))
SAID_OR_NOTHING = st.sampled_from(["", " "]) | SAID | SAID

MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "assistant"]), "content": SAID_OR_NOTHING},
        optional={
            "weight": st.sampled_from([0, 1, 1.0, 0.5, -1.0]),
            "train": st.sampled_from([True, False, None]),
        },
    ),
    max_size=3,
)


@st.composite
def tokenized(draw: st.DrawFn) -> dict[str, Any]:
    """A row of ids, with whatever says which are trained."""
    ids = draw(st.lists(st.integers(0, 300), max_size=12))
    numbers = range(len(ids))
    record: dict[str, Any] = {"input_ids": ids}
    if draw(st.booleans()):
        record["labels"] = [draw(st.sampled_from([-100, ids[at]])) for at in numbers]
    if draw(st.integers(0, 3)) == 0:
        record["assistant_masks"] = [draw(st.integers(0, 1)) for _ in numbers]
    if draw(st.integers(0, 3)) == 0:
        record["loss_weights"] = [draw(st.sampled_from([0.0, 1.0, 1.0, 0.5])) for _ in numbers]
    if draw(st.integers(0, 3)) == 0:
        record["attention_mask"] = sorted(draw(st.integers(0, 1)) for _ in numbers)
    spoilt = draw(
        st.sampled_from([None, None, None, "labels", "assistant_masks", "attention_mask", "input_ids"])
    )
    if record.get(spoilt):
        record[spoilt] = draw(st.sampled_from([None, record[spoilt][1:], [-7, *record[spoilt][1:]]]))
    return record


def records_of(one: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[Records]:
    """Some records of a shape, or many times the same ones, which take several blocks."""
    some = st.lists(one, min_size=1, max_size=8)
    return st.builds(lambda records, times: records * times, some, st.sampled_from([1] * 19 + [300]))


SHAPES = {
    "text": st.fixed_dictionaries({"text": SAID_OR_NOTHING | st.none()}),
    "pairs": st.fixed_dictionaries({"prompt": SAID_OR_NOTHING, "completion": SAID_OR_NOTHING}),
    "questions": st.fixed_dictionaries({"question": SAID, "answer": SAID_OR_NOTHING}),
    "conversations": st.fixed_dictionaries({"messages": MESSAGES}),
    "tokens": tokenized(),
}


@st.composite
def jobs(draw: st.DrawFn) -> tuple[Records, Options]:
    """Records and options, most of which go together."""
    shape = draw(st.sampled_from(sorted(SHAPES)))
    # Ids need no tokenizer; other records are refused without one.
    bare = draw(st.integers(0, 1 if shape == "tokens" else 9)) == 0
    options: Options = {
        "max_length": draw(st.sampled_from([4, 32, 128])),
        "strategy": draw(st.sampled_from([*STREAMED, *STREAMED, "mix", "best_fit", "heap"])),
        "on_bad_record": draw(st.sampled_from(["skip", "skip", "error"])),
        "train_on": draw(st.sampled_from(["auto", "auto", "auto", "all", "assistant", "completion"])),
        "turns": draw(st.sampled_from(["auto", "auto", "auto", "each", "last", "whole"])),
        "columns": draw(st.sampled_from([WEIGHED, ["input_ids", "labels"]])),
        "max_lost": draw(st.sampled_from([None, None, None, "0%", "30%"])),
        "tokenizer": None if bare else "tokenizer",
    }
    if options["strategy"] != "concat":
        options["overlong"] = draw(st.sampled_from([None, "drop", "truncate", "split", "error"]))
    if draw(st.integers(0, 4)) == 0:
        options |= {"padding": fastpack.Padding("max_length", token_id=0)}
    if not bare:
        options |= {
            "special_tokens": fastpack.SpecialTokens(eos=draw(st.sampled_from(["auto", "auto", True, False])))
        }
        options |= {
            "special_tokens": fastpack.SpecialTokens(
                train_on_eos=draw(st.sampled_from([None, None, None, "turn", "none"]))
            )
        }
    return draw(records_of(SHAPES[shape])), options


WHERE = re.compile(r"first at .*?:(\d+)")
"""The place of a warning: functions name the same line of files of their own."""


def books(report: fastpack.Report | None) -> dict[str, Any]:
    """The numbers of a report that inputs and options decide, and the records that it names."""
    assert report is not None
    assert balanced(report)
    told = report.to_dict()
    names = ["documents", "tokens", "dropped", "truncated", "rows", "trained_tokens", "lengths", "fill"]
    names += ["straddling_tokens", "lower_bound"]
    places = [(place.line, place.reason, place.message) for place in report.places]
    warnings = [WHERE.sub(r"first at line \1", warning) for warning in report.warnings]
    return {name: told[name] for name in names} | {"places": places, "warnings": warnings}


def refusal(refused: fastpack.FastpackError) -> tuple[Any, ...]:
    """The type and attributes of an error."""
    names = ["option", "line", "documents", "tokens"]
    if isinstance(refused, fastpack.RecordError):
        names.append("reason")  # a word; that of an option is a sentence, with the name of the file
    return (type(refused), *(getattr(refused, name, None) for name in names))


def as_table(records: Records) -> pa.Table:
    """The records as rows, with a column for each field that any of them has."""
    fields = dict.fromkeys(name for record in records for name in record)
    return pa.Table.from_pylist([{name: record.get(name) for name in fields} for record in records])


def functions(records: Records, folder: Path, options: Options) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The ways to pack the records, each of which gives rows and a report."""
    path, rows = folder / "data.jsonl", as_table(records)
    path.write_bytes(lines(records))
    pq.write_table(rows, folder / "data.parquet")
    kept = {name: options[name] for name in KEPT if name in options}

    def in_memory(pack: Callable[..., pa.Table], data: Any, **more: Any) -> tuple[pa.Table, fastpack.Report]:
        table = pack(data, **options, **more)
        return table, fastpack.Report.of(table)

    def in_folder(name: str, pack: Callable[..., fastpack.Report], data: Any, **more: Any) -> Any:
        report = pack(data, output=folder / name, **(options | more))
        return table_of(folder / name), report

    def repacked() -> Any:
        fastpack.pack_dir(path, folder / "kept", keep_tokens=True, **options)
        report = fastpack.repack(folder / "kept", folder / "again", **kept)
        return table_of(folder / "again"), report

    def streamed() -> Any:
        with fastpack.stream(
            path, **options, batch_size=3, shuffle=False, ranks=fastpack.Ranks(lanes=1)
        ) as stream:
            tables = list(stream)
            return pa.concat_tables(tables) if tables else None, stream.report

    yield "pack_files", lambda: in_memory(fastpack.pack_files, path)
    yield "pack_files of Parquet", lambda: in_memory(fastpack.pack_files, folder / "data.parquet")
    yield "pack_files, no cache yet", lambda: in_memory(fastpack.pack_files, path, cache_dir=folder / "cache")
    yield "pack_files, cached", lambda: in_memory(fastpack.pack_files, path, cache_dir=folder / "cache")
    yield "pack_dir", lambda: in_folder("dir", fastpack.pack_dir, path)
    yield "repack", repacked
    yield "pack_table", lambda: in_memory(fastpack.pack_table, rows)
    yield "pack_records", lambda: in_memory(fastpack.pack_records, iter(records))
    yield "pack_records into a folder", lambda: in_folder("written", fastpack.pack_records, records)
    if options["strategy"] in STREAMED:
        yield "stream", streamed


def outcome(pack: Callable[[], Any]) -> Any:
    """The rows and the books of a call, or its refusal."""
    try:
        rows, report = pack()
    except fastpack.FastpackError as refused:
        return refusal(refused)
    return [] if rows is None else rows.to_pylist(), books(report)


def check(records: Records, options: Options) -> Any:
    """Packs the records in every way, and returns the common outcome."""
    folder = Path(tempfile.mkdtemp(dir=IN_MEMORY))
    try:
        expected = None
        for name, pack in functions(records, folder, options):
            found = outcome(pack)
            expected = found if expected is None else expected
            assert found == expected, name
    finally:
        shutil.rmtree(folder)
    return expected


WEIGHTED = {
    "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "weight": 0.3}]
}
BAD = {"messages": [{"role": "user", "content": "a", "weight": 2.0}]}
LONG = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "river " * 90}]}
CONTROL = {"messages": [{"role": "user", "content": "a<|end|>"}, {"role": "assistant", "content": "b"}]}
PLAIN: Options = {"max_length": 64, "strategy": "sequential", "tokenizer": "tokenizer"}


@settings(max_examples=tries(80, 300), suppress_health_check=list(HealthCheck))
@given(jobs())
@example(([LONG, WEIGHTED, *[LONG] * 1100, BAD], PLAIN))
@example(([LONG, *[WEIGHTED] * 1100, BAD], {**PLAIN, "overlong": "error"}))
@example(([*[LONG] * 1100, BAD, WEIGHTED], PLAIN))
@example(([WEIGHTED, CONTROL, CONTROL], {**PLAIN, "columns": WEIGHED}))
@example(([{"text": ""}, {"text": "a river"}], {**PLAIN, "max_lost": "0%"}))
def test_every_function_gives_the_same_rows_and_books_or_refuses_alike(
    loaded: fastpack.Tokenizer, job: tuple[Records, Options]
) -> None:
    records, options = job
    tokenizer = loaded if options.get("tokenizer") else None
    check(records, options | {"tokenizer": tokenizer})


def test_a_weight_that_rows_cannot_hold_is_refused_whatever_was_done_before(
    loaded: fastpack.Tokenizer, tmp_path: Path
) -> None:
    weighed = ["input_ids", "labels", "loss_weights"]
    path, options = tmp_path / "data.jsonl", {"tokenizer": loaded, "max_length": 64}
    path.write_bytes(lines([LONG, WEIGHTED]))
    cached = {**options, "cache_dir": tmp_path / "cache"}
    fastpack.pack_files(path, columns=weighed, **cached)
    fastpack.pack_dir(path, tmp_path / "kept", columns=weighed, keep_tokens=True, **options)
    ids = fastpack.pack_files(path, columns=weighed, strategy="none", **options)
    calls: dict[str, Callable[[], Any]] = {
        "pack_files": lambda: fastpack.pack_files(path, **options),
        "pack_files, cached": lambda: fastpack.pack_files(path, **cached),
        "pack_dir": lambda: fastpack.pack_dir(path, tmp_path / "dir", **options),
        "repack": lambda: fastpack.repack(tmp_path / "kept", tmp_path / "again", max_length=64),
        "pack_records": lambda: fastpack.pack_records([LONG, WEIGHTED], **options),
        "pack_table": lambda: fastpack.pack_table(pa.Table.from_pylist([LONG, WEIGHTED]), **options),
        "stream": lambda: list(fastpack.stream(path, **options)),
        "pack_table of ids": lambda: fastpack.pack_table(ids, max_length=64),
    }
    for name, call in calls.items():
        with pytest.raises(
            fastpack.OptionError, match=r'for the weight 0\.3 that .* gives; add "loss_weights"'
        ) as refused:
            call()
        assert refused.value.option == "columns", name
        place = "<records>:2" if name == "pack_records" else "<table>:" if "table" in name else f"{path}:2"
        assert f"that {place}" in str(refused.value), name
    assert fastpack.pack_table(ids, max_length=64, train_on="all").num_rows
    found = fastpack.scan(path, loaded, max_length=64)
    assert found.documents == 2
    assert "`loss_weights`" in str(found)
