"""`pack_table(output=)` and `pack_records(output=)`: rows from memory, into a folder as `pack_dir` writes it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading

import pyarrow as pa
import pytest
from campaign import campaign_only
from conftest import conversation
from processes import at_work, kill, start
from rows import balanced, table_of

import fastpack

RECORDS = [conversation(number) for number in range(200)]

RUN = """
import os, pickle, signal, sys, fastpack
kind, tokenizer, out, options, pause = sys.argv[1:]
sys.path.insert(0, "tests/python")
from conftest import conversation
import pyarrow as pa
def say(reading):
    if pause and not said and (reading.rows if pause == "rows" else is_kept(reading)):
        stop()
def is_kept(reading):
    # Documents are counted before their block is written.
    return reading.documents and os.path.getsize(out + "/.fastpack/blocks")
def stop():
    if pause and not said:
        said.append(True)
        print("working", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
def given():
    for number, record in enumerate(records):
        if number == 15_000:
            stop()
        yield record
said = []
records = [conversation(number) for number in range(2_000)] * 10
if kind == "dataset":
    import datasets
    records = datasets.Dataset.from_list(records)
if kind in ("table", "tokens"):
    records = pa.Table.from_pylist(records)
if kind == "tokens":
    tokenizer = None
    records = pa.table({"input_ids": [list(range(1, 90))] * 30_000})
if kind == "broken":
    records.append({"text": 3})
pack = fastpack.pack_records if kind in ("records", "broken") else fastpack.pack_table
made = given() if pack is fastpack.pack_records else records
try:
    report = pack(made, tokenizer, output=out, progress=say, **pickle.loads(bytes.fromhex(options)))
except fastpack.FastpackError as failed:
    print(type(failed).__name__, failed, flush=True)
else:
    print(report.documents.read, report.resumed_documents, flush=True)
"""


def shards(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name[0] in "dtv"}


def handed_over(records):
    """The records in each form that is packed, and whether it is known again."""
    import datasets
    import polars as pl

    table = pa.Table.from_pylist(records)
    return {
        "list": (fastpack.pack_records, lambda: records, False),
        "generator": (fastpack.pack_records, lambda: (record for record in records), False),
        "table": (fastpack.pack_table, lambda: table, True),
        "dataset": (fastpack.pack_table, lambda: datasets.Dataset.from_list(records), True),
        "polars": (fastpack.pack_table, lambda: pl.DataFrame(records), False),
        "reader": (fastpack.pack_table, lambda: table.to_reader(max_chunksize=7), False),
    }


FORMS = list(handed_over([{"text": "a"}]))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "options",
    [
        {"validation": 20, "format": fastpack.Format(shard_size="20KB")},
        {"format": fastpack.Format("parquet", compression="zstd")},
        {"format": fastpack.Format(hf_layout=True), "validation": 0.1},
        {"memory": 0, "threads": 1, "format": "jsonl"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_the_files_are_those_of_pack_dir(form, options, write_jsonl, tokenizer_dir, tmp_path):
    pack, records, _ = handed_over(RECORDS)[form]
    options = {"max_length": 256, **options}
    report = pack(records(), tokenizer_dir, output=tmp_path / "out", **options)
    expected = fastpack.pack_dir(write_jsonl(RECORDS), tmp_path / "file", tokenizer=tokenizer_dir, **options)
    assert contents(tmp_path / "out") == contents(tmp_path / "file")
    assert isinstance(report, fastpack.Report)
    assert balanced(report)
    assert (report.rows, report.tokens, report.trained_tokens) == (
        expected.rows,
        expected.tokens,
        expected.trained_tokens,
    )
    assert {name: it.rows for name, it in report.splits.items()} == {
        name: it.rows for name, it in expected.splits.items()
    }
    assert fastpack.Report.from_json((tmp_path / "out/report.json").read_bytes()) == report
    assert not (tmp_path / "out/.fastpack").exists()


def contents(folder):
    """All shards, wherever in the folder they lie."""
    known = {"report.json", "manifest.json"}
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name not in known]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.mark.parametrize("form", FORMS)
def test_what_is_known_again_is_packed_once_and_the_rest_is_refused(form, tokenizer_dir, tmp_path):
    pack, records, is_known = handed_over(RECORDS)[form]

    def job(**options):
        return pack(records(), tokenizer_dir, max_length=256, output=tmp_path / "out", **options)

    first = job()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    if is_known:
        assert job() == first
    else:
        with pytest.raises(
            fastpack.OutputError, match=r"same records cannot be told; pass exists=.overwrite."
        ):
            job()
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()} == before
    assert job(exists="overwrite").rows == first.rows


@pytest.mark.parametrize("form", ["table", "dataset"])
def test_other_records_are_another_job(form, tokenizer_dir, tmp_path):
    for number, given in enumerate((RECORDS, RECORDS[:-1], [*RECORDS[1:], RECORDS[0]])):
        pack, records, _ = handed_over(given)[form]
        if number == 0:
            pack(records(), tokenizer_dir, max_length=256, output=tmp_path)
            continue
        with pytest.raises(fastpack.OutputError, match=r"differs in `<table>\.records`"):
            pack(records(), tokenizer_dir, max_length=256, output=tmp_path)


def test_a_table_in_other_chunks_is_another_job(tokenizer_dir, tmp_path):
    table = pa.Table.from_pylist(RECORDS)
    chunks = pa.concat_tables([table.slice(0, 50), table.slice(50)])
    fastpack.pack_table(table, tokenizer_dir, max_length=256, output=tmp_path)
    with pytest.raises(fastpack.OutputError, match="differs in"):
        fastpack.pack_table(chunks, tokenizer_dir, max_length=256, output=tmp_path)
    # A slice is known by its rows, not by the table that it was cut from.
    copy = pa.Table.from_pylist(RECORDS[:50])
    for given in (table.slice(0, 50), copy):
        fastpack.pack_table(given, tokenizer_dir, max_length=256, output=tmp_path / "part")


def test_rows_that_are_tokens_are_written(tmp_path):
    table = pa.table({"input_ids": [[number + 1] * (2 + number % 9) for number in range(300)]})
    options = {"max_length": 64, "validation": 30}
    report = fastpack.pack_table(
        table, output=tmp_path / "out", format=fastpack.Format(shard_size=4096), **options
    )
    splits = fastpack.pack_table(table, **options)
    for split, rows in zip(("train", "validation"), splits, strict=True):
        assert table_of(tmp_path / "out", split).to_pylist() == rows.to_pylist()
    assert report.splits["validation"].documents.read == 30
    assert len(list((tmp_path / "out").glob("train-*"))) > 1
    assert (
        fastpack.pack_table(
            table, output=tmp_path / "out", format=fastpack.Format(shard_size=4096), **options
        )
        == report
    )
    with pytest.raises(fastpack.OutputError, match="differs in `max_length`"):
        fastpack.pack_table(
            table,
            output=tmp_path / "out",
            format=fastpack.Format(shard_size=4096),
            max_length=32,
            validation=30,
        )


def test_rows_that_are_tokens_leave_memory_as_documents_do(tmp_path):
    table = pa.table({"input_ids": [[number + 1] * (2 + number % 90) for number in range(30_000)]})
    gathering = {}
    for name, memory in {"much": None, "none": 0}.items():
        report = fastpack.pack_table(
            table,
            max_length=256,
            validation=30,
            output=tmp_path / name,
            memory=memory,
            format=fastpack.Format(shard_size="64KB"),
        )
        gathering[name] = report.stages["gather"].cpu
        assert report.stages["keep"].wall > 0
        assert not (tmp_path / name / ".fastpack").exists()
    # Documents in memory are gathered by looking them up; those in the work folder alone are read.
    assert gathering["none"] > 5 * gathering["much"]
    assert contents(tmp_path / "much") == contents(tmp_path / "none")


TOKENS = """
import sys, fastpack, pyarrow as pa, numpy as np
def peak():
    return next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("VmHWM")) // 1024
ids = pa.array(np.arange(50_000_000, dtype=np.int32) % 30_000)
table = pa.table({"input_ids": pa.ListArray.from_arrays(pa.array(range(0, 50_000_001, 1000), pa.int32()), ids)})
before = peak()
report = fastpack.pack_table(table, max_length=4096, output=sys.argv[1], memory=sys.argv[2])
print(report.tokens.kept, peak() - before)
"""


@campaign_only
@pytest.mark.skipif(sys.platform != "linux", reason="reads VmHWM")
def test_rows_that_are_tokens_take_the_memory_that_they_may(tmp_path):
    took = {}
    for memory in ("20MB", "8GB"):
        command = [sys.executable, "-c", TOKENS, tmp_path / memory, memory]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        tokens, took[memory] = map(int, ran.stdout.split())
        assert tokens == 50_000_000
    # 200 MB of tokens: in memory all of them, in little more than the budget else.
    assert took["20MB"] + 100 < took["8GB"]


def test_tokens_that_are_kept_are_packed_again(tokenizer_dir, tmp_path):
    for name, (pack, records, _) in handed_over(RECORDS).items():
        options = {"validation": 20, "columns": ["input_ids", "source_file", "source_row"]}
        folder = tmp_path / name
        pack(records(), tokenizer_dir, max_length=256, output=folder / "kept", keep_tokens=True, **options)
        fastpack.repack(folder / "kept", folder / "again", max_length=128, **options)
        pack(records(), tokenizer_dir, max_length=128, output=folder / "expected", **options)
        assert shards(folder / "again") == shards(folder / "expected")


def test_nothing_makes_a_folder_without_rows(tokenizer_dir, tmp_path):
    empty = pa.table({"text": pa.array([], pa.string())})
    for number, (pack, records) in enumerate(
        (
            (fastpack.pack_records, []),
            (fastpack.pack_table, empty),
            (fastpack.pack_table, empty.to_reader()),
            (fastpack.pack_table, pa.table({})),
        )
    ):
        folder = tmp_path / str(number)
        report = pack(records, tokenizer_dir, max_length=256, output=folder)
        assert (report.rows, table_of(folder).num_rows) == (0, 0)
        assert "no document was kept" in report.warnings
        with pytest.raises(fastpack.OptionError, match="there are no documents to set aside"):
            pack(records, tokenizer_dir, max_length=256, output=tmp_path / "aside", validation=1)
        assert not (tmp_path / "aside").exists()


@pytest.mark.parametrize("form", FORMS)
def test_more_than_there_is_cannot_be_set_aside(form, tokenizer_dir, tmp_path):
    pack, records, _ = handed_over(RECORDS)[form]
    with pytest.raises(fastpack.OptionError, match="sets aside 200 of 200 documents") as refused:
        pack(records(), tokenizer_dir, max_length=256, output=tmp_path / "out", validation=200)
    assert refused.value.option == "validation"
    assert not (tmp_path / "out").exists()


def test_more_lost_than_may_be_leaves_nothing(tokenizer_dir, tmp_path):
    for pack, records, _ in handed_over(RECORDS).values():
        for folder in ({"output": tmp_path / "out"}, {}):
            with pytest.raises(fastpack.LossError, match="of 200 documents"):
                pack(records(), tokenizer_dir, max_length=32, max_lost="1%", validation=20, **folder)
    assert not (tmp_path / "out").exists()


def test_no_folder_is_refused_by_name(tokenizer_dir, tmp_path):
    file = tmp_path / "file"
    file.write_text("mine")
    for pack, records, _ in handed_over(RECORDS).values():
        with pytest.raises(fastpack.StorageError, match="not a directory"):
            pack(records(), tokenizer_dir, max_length=256, output=file)
        for wrong in (3, "", b"\xff" * 2, ["out"]):
            with pytest.raises(fastpack.OptionError) as refused:
                pack(records(), tokenizer_dir, max_length=256, output=wrong)
            assert refused.value.option == "output"
    assert file.read_text() == "mine"


def test_rows_that_are_no_tokens_leave_nothing(tmp_path):
    for given in ({"ids": [[1]]}, {"input_ids": ["a"]}, {"input_ids": [[-1]]}):
        with pytest.raises(fastpack.FastpackError):
            fastpack.pack_table(pa.table(given), max_length=8, output=tmp_path / "out")
        assert not (tmp_path / "out").exists()
    empty = pa.table({"input_ids": pa.array([], pa.list_(pa.int32()))})
    assert fastpack.pack_table(empty, max_length=8, output=tmp_path / "out").rows == 0
    assert table_of(tmp_path / "out").num_rows == 0


def test_a_job_of_files_and_one_of_records_are_not_taken_for_each_other(write_jsonl, tokenizer_dir, tmp_path):
    options = {"max_length": 256}
    fastpack.pack_dir(write_jsonl(RECORDS), tmp_path / "out", tokenizer=tokenizer_dir, **options)
    for pack, records, _ in handed_over(RECORDS).values():
        with pytest.raises(fastpack.OutputError, match="holds the output of a job that differs in"):
            pack(records(), tokenizer_dir, output=tmp_path / "out", **options)


def test_a_column_of_another_type_is_another_table(tokenizer_dir, tmp_path):
    small, large = (
        pa.table({"text": pa.array(["a", "b"], kind)}) for kind in (pa.string(), pa.large_string())
    )
    fastpack.pack_table(small, tokenizer_dir, max_length=256, output=tmp_path)
    with pytest.raises(fastpack.OutputError, match=r"differs in `<table>\.records`"):
        fastpack.pack_table(large, tokenizer_dir, max_length=256, output=tmp_path)


def test_an_error_of_the_iterable_leaves_nothing(tokenizer_dir, tmp_path):
    def records():
        yield from RECORDS
        raise LookupError("no more")  # noqa: EM101, TRY003  the caller's own

    with pytest.raises(LookupError, match="no more"):
        fastpack.pack_records(records(), tokenizer_dir, max_length=256, output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_bad_record_is_named_and_leaves_nothing(tokenizer_dir, tmp_path):
    with pytest.raises(fastpack.RecordError, match="<records>:2"):
        fastpack.pack_records(
            [{"text": "a"}, {"text": 3}], tokenizer_dir, max_length=256, output=tmp_path / "out"
        )
    assert not (tmp_path / "out").exists()


def test_a_folder_that_holds_something_else_is_refused(tokenizer_dir, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    for pack, records, _ in handed_over(RECORDS).values():
        with pytest.raises(fastpack.OutputError, match=r"is not empty: `notes\.txt`"):
            pack(records(), tokenizer_dir, max_length=256, output=tmp_path)
        report = pack(records(), tokenizer_dir, max_length=256, output=tmp_path, exists="overwrite")
        assert table_of(tmp_path).num_rows == report.rows
        assert (tmp_path / "notes.txt").read_text() == "mine"
        for path in tmp_path.iterdir():
            if path.name != "notes.txt":
                path.unlink()


@pytest.mark.parametrize(
    ("form", "pause"),
    [
        ("records", "documents"),
        pytest.param("table", "documents", marks=campaign_only),
        pytest.param("dataset", "documents", marks=campaign_only),
        ("table", "rows"),
        pytest.param("tokens", "rows", marks=campaign_only),
    ],
)
def test_killed_in_the_middle_the_same_call_ends_with_the_same_bytes(form, pause, tokenizer_dir, tmp_path):
    options = {"code": RUN, "format": fastpack.Format(shard_size="100KB"), "validation": 0.3}
    process = start(form, tokenizer_dir, tmp_path / "out", pause=pause, **options)
    kill(at_work(process))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [".fastpack"]
    said = [
        start(form, tokenizer_dir, tmp_path / name, **options).communicate()[0].split()
        for name in ("out", "alone")
    ]
    assert said[0][0] == said[1][0]
    if form in {"table", "dataset"}:
        assert int(said[0][1]) > 0
    assert shards(tmp_path / "out") == shards(tmp_path / "alone")
    assert not (tmp_path / "out/.fastpack").exists()


def test_another_call_does_not_take_what_records_left_behind(tokenizer_dir, tmp_path):
    kill(at_work(start("records", tokenizer_dir, tmp_path, code=RUN, pause="documents")))
    with pytest.raises(fastpack.OutputError, match=r"what is left of a job that differs in `max_length`"):
        fastpack.pack_records(
            RECORDS, tokenizer_dir, max_length=128, format=fastpack.Format(shard_size="2MB"), output=tmp_path
        )
    report = fastpack.pack_records(
        RECORDS, tokenizer_dir, max_length=256, format=fastpack.Format(shard_size="2MB"), output=tmp_path
    )
    assert (report.documents.read, report.resumed_documents) == (200, 0)


@pytest.mark.parametrize("form", ["table", pytest.param("dataset", marks=campaign_only)])
def test_of_two_processes_one_works_and_the_other_returns_its_report(form, tokenizer_dir, tmp_path):
    first = at_work(start(form, tokenizer_dir, tmp_path / "out", code=RUN, pause="documents"))
    second = start(form, tokenizer_dir, tmp_path / "out", code=RUN)
    refused = start(
        form, tokenizer_dir, tmp_path / "out", code=RUN, exists=fastpack.Exists(wait=False)
    ).communicate()[0]
    assert "another run is writing here" in refused
    first.send_signal(18)
    (said, failure), (other, _) = first.communicate(), second.communicate()
    assert said == other, failure
    manifest = json.loads((tmp_path / "out/manifest.json").read_bytes())
    assert sum(file["rows"] for file in manifest["files"]) == table_of(tmp_path / "out").num_rows


def test_of_two_processes_with_records_of_their_own_one_is_refused(tokenizer_dir, tmp_path):
    first = at_work(start("records", tokenizer_dir, tmp_path / "out", code=RUN, pause="documents"))
    second = start("records", tokenizer_dir, tmp_path / "out", code=RUN)
    first.send_signal(18)
    said = sorted([first.communicate()[0], second.communicate()[0]])
    assert said[0].split() == ["20000", "0"]
    assert said[1].startswith("OutputError")
    assert "same records cannot be told" in said[1]


def test_a_process_that_waits_does_not_fail_for_the_records_of_another(tokenizer_dir, tmp_path):
    first = at_work(start("broken", tokenizer_dir, tmp_path / "out", code=RUN, pause="documents"))
    second = start("records", tokenizer_dir, tmp_path / "out", code=RUN)
    first.send_signal(18)
    assert first.communicate()[0].startswith("RecordError")
    assert second.communicate()[0].split() == ["20000", "0"]


def test_a_call_that_is_interrupted_leaves_nothing_that_nobody_can_use(tokenizer_dir, tmp_path):
    stop = threading.Event()

    def records():
        for number in range(100_000):
            if number == 50_000:
                stop.set()
                raise KeyboardInterrupt
            yield {"text": f"The river {number}."}

    with pytest.raises(KeyboardInterrupt):
        fastpack.pack_records(records(), tokenizer_dir, max_length=256, output=tmp_path / "out")
    assert stop.is_set()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("format", "parquet"),
        ("format", fastpack.Format(compression="zstd")),
        ("format", fastpack.Format(hf_layout=True)),
        ("format", fastpack.Format(shard_size=1000)),
        ("memory", "1GB"),
        ("keep_tokens", True),
        ("exists", "overwrite"),
        ("exists", fastpack.Exists(wait=False)),
    ],
)
def test_options_of_a_folder_need_one(option, value, tokenizer_dir):
    for pack, given in (
        (fastpack.pack_table, pa.table({"text": ["a"]})),
        (fastpack.pack_records, [{"text": "a"}]),
    ):
        with pytest.raises(fastpack.OptionError, match=f"`{option}`: needs `output`") as refused:
            pack(given, tokenizer_dir, max_length=256, **{option: value})
        assert refused.value.option == option


def test_functions_are_told_apart(tokenizer_dir, tmp_path):
    table = pa.Table.from_pylist([{"text": f"Line {number}."} for number in range(20)])

    def job(wanted):
        def chosen(batch):
            return [wanted in text for text in batch["text"].to_pylist()]

        return fastpack.pack_table(
            table,
            tokenizer_dir,
            max_length=64,
            output=tmp_path,
            filter=fastpack.Function(chosen, fingerprint=wanted),
        )

    assert job("1") == job("1")
    with pytest.raises(
        fastpack.OutputError, match="differs in `filter, map and the function of the objective`"
    ):
        job("2")
