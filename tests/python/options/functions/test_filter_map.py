"""`filter` and `map`: functions of the caller over batches of records."""

from __future__ import annotations

import importlib
import json
import pickle
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from campaign import tries
from conftest import conversation, sentence

import fastpack

RECORDS = [{"text": sentence(number, 3 + number % 9), "score": number % 5} for number in range(3000)]
OPTIONS = {"max_length": 128}


def keep_good(batch):
    return pc.greater(batch["score"], 1)


def shout(batch):
    return batch.set_column(batch.column_names.index("text"), "text", pc.utf8_upper(batch["text"]))


@pytest.fixture
def path(write_jsonl):
    return write_jsonl(RECORDS)


@pytest.fixture
def good(write_jsonl):
    return write_jsonl([record for record in RECORDS if record["score"] > 1], "good.jsonl")


def packed(path, tokenizer, **options):
    return fastpack.pack_files(path, tokenizer, **OPTIONS, **options).to_pylist()


def test_a_filter_leaves_what_a_file_of_the_chosen_records_gives(path, good, tokenizer_dir):
    assert packed(path, tokenizer_dir, filter=keep_good) == packed(good, tokenizer_dir)


def test_a_map_gives_what_a_file_of_the_made_records_gives(path, write_jsonl, tokenizer_dir):
    made = write_jsonl([{**record, "text": record["text"].upper()} for record in RECORDS], "made.jsonl")
    assert packed(path, tokenizer_dir, map=shout) == packed(made, tokenizer_dir)


def test_a_map_sees_what_a_filter_left(path, tokenizer_dir):
    def check(batch):
        assert pc.min(batch["score"]).as_py() > 1
        return batch

    assert packed(path, tokenizer_dir, filter=keep_good, map=check) == packed(
        path, tokenizer_dir, filter=keep_good
    )


def test_all_calls_take_a_filter(path, good, tokenizer_dir, tmp_path):
    expected = packed(good, tokenizer_dir)
    table = pa.Table.from_pylist(RECORDS)
    assert fastpack.pack_table(table, tokenizer_dir, **OPTIONS, filter=keep_good).to_pylist() == expected
    assert fastpack.pack_records(RECORDS, tokenizer_dir, **OPTIONS, filter=keep_good).to_pylist() == expected
    report = fastpack.pack_dir(path, tmp_path / "out", tokenizer=tokenizer_dir, **OPTIONS, filter=keep_good)
    assert report.rows == len(expected)
    streams = [
        [
            row
            for part in fastpack.stream(
                source, tokenizer_dir, **OPTIONS, **options, shuffle=False, ranks=fastpack.Ranks(lanes=1)
            )
            for row in part.to_pylist()
        ]
        for source, options in ((path, {"filter": keep_good}), (good, {}))
    ]
    assert streams[0] == streams[1]


def test_the_ledger_counts_what_a_filter_left_out(path, tokenizer_dir):
    report = fastpack.Report.of(fastpack.pack_files(path, tokenizer_dir, **OPTIONS, filter=keep_good))
    gone = sum(record["score"] <= 1 for record in RECORDS)
    assert report.documents.read == len(RECORDS)
    assert report.dropped["filtered"] == (gone, 0)


def test_functions_are_called_in_the_order_of_the_input_whatever_the_threads(path, tokenizer_dir):
    def first_of_each():
        seen = set()

        def new(batch):
            fresh = []
            for text in batch["text"].to_pylist():
                fresh.append(text not in seen)
                seen.add(text)
            return fresh

        return new

    one, three = (packed(path, tokenizer_dir, filter=first_of_each(), threads=threads) for threads in (1, 3))
    assert one == three


@pytest.mark.parametrize(
    "answer",
    [pa.array, np.array, list, lambda mask: pa.chunked_array([mask[:1], mask[1:]])],
    ids=["pyarrow", "numpy", "list", "chunks"],
)
def test_a_filter_may_answer_in_any_form(answer, path, good, tokenizer_dir):
    def choose(batch):
        return answer(keep_good(batch).to_pylist())

    assert packed(path, tokenizer_dir, filter=choose) == packed(good, tokenizer_dir)


def test_a_null_of_a_filter_is_no(write_jsonl, tokenizer_dir):
    path = write_jsonl([{"text": "a river", "score": 3}, {"text": "a boat"}])
    assert packed(path, tokenizer_dir, filter=keep_good) == packed(
        write_jsonl([{"text": "a river"}], "b"), tokenizer_dir
    )


def test_a_map_may_use_another_library(path, tokenizer_dir):
    polars = pytest.importorskip("polars")

    def shout_too(batch):
        return polars.from_arrow(batch).with_columns(polars.col("text").str.to_uppercase())

    assert packed(path, tokenizer_dir, map=shout_too) == packed(path, tokenizer_dir, map=shout)


def test_what_a_map_leaves_alone_stays_as_the_record_has_it(write_jsonl, tokenizer_dir):
    """Arrow has a null for each key that another record has; a template would show it."""
    template = "{% for m in messages %}{{ m | tojson }}{% endfor %}{{ tools | tojson }}"
    records = [
        {"messages": [{"role": "user", "content": "x", "name": "A"}], "id": 1, "tools": [{"a": {"b": 1}}]},
        {
            "messages": [{"role": "user", "content": "y"}],
            "id": 2,
            "tools": [{"c": [1, 2.5]}, {"a": {"d": "e"}}],
        },
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "z"}]}], "id": 3},
    ]
    options = {"chat_template": template, "train_on": "all", "strategy": "none", "order": "input"}
    path = write_jsonl(records)
    whole = packed(path, tokenizer_dir, **options)
    assert packed(path, tokenizer_dir, **options, map=lambda batch: batch.drop_columns(["id"])) == whole


def test_records_without_a_common_type_are_given_as_json(write_jsonl, tokenizer_dir):
    given = []
    records = [{"text": "a", "meta": [1]}, {"text": "b", "meta": {"k": "v"}}, {"text": "c", "meta": "plain"}]
    packed(
        write_jsonl(records), tokenizer_dir, filter=lambda batch: given.append(batch) or [True] * len(batch)
    )
    assert given[0]["meta"].to_pylist() == ["[1]", '{"k":"v"}', "plain"]


def test_batches_are_what_pyarrow_makes_of_the_records(write_jsonl, tokenizer_dir):
    given = []
    records = [
        conversation(number) | {"n": number / 2, "flag": number % 2 == 0, "none": None}
        for number in range(20)
    ]
    packed(
        write_jsonl(records), tokenizer_dir, filter=lambda batch: given.append(batch) or [True] * len(batch)
    )
    expected = pa.RecordBatch.from_pylist(records)
    assert given[0].schema.equals(expected.schema)
    assert given[0].to_pylist() == expected.to_pylist()


def test_bad_records_stay_where_they_are(write_jsonl, tokenizer_dir):
    lines = [
        json.dumps(RECORDS[4]).encode(),
        b"{no json",
        json.dumps(RECORDS[0]).encode(),
        b'["list"]',
        b"{}",
    ]
    path = write_jsonl(lines)
    with pytest.raises(fastpack.RecordError, match=r"data.jsonl:2: "):
        packed(path, tokenizer_dir, filter=keep_good, map=shout)
    table = fastpack.pack_files(
        path, tokenizer_dir, **OPTIONS, filter=keep_good, map=shout, on_bad_record="skip"
    )
    report = fastpack.Report.of(table)
    assert {reason: lost.documents for reason, lost in report.dropped.items()} == {
        "invalid_json": 1,
        "not_an_object": 1,
        "filtered": 2,
    }
    assert [place.line for place in report.places] == [2, 4]


def test_the_line_of_a_mapped_record_is_that_of_its_file(write_jsonl, tokenizer_dir):
    path = write_jsonl(RECORDS[:5])

    def spoil(batch):
        return batch.set_column(0, "text", pa.array(["x"] * (len(batch) - 1) + [None]))

    with pytest.raises(fastpack.RecordError, match=r"data.jsonl:5: `text` is null"):
        packed(path, tokenizer_dir, filter=keep_good, map=spoil)


def test_an_exception_of_a_function_reaches_the_caller_as_it_is(path, tokenizer_dir):
    class OddError(Exception):
        pass

    def fail(batch):
        message = "not this one"
        raise OddError(message)

    for options in ({"map": fail}, {"filter": fail}):
        with pytest.raises(OddError, match="not this one"):
            packed(path, tokenizer_dir, **options)
        with pytest.raises(OddError, match="not this one"):
            list(fastpack.stream(path, tokenizer_dir, **OPTIONS, **options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"filter": 3}, "invalid option `filter`: must be a function of a pyarrow.RecordBatch"),
        (
            {"filter": lambda batch: batch["text"]},
            "must return a boolean for each row, not an array of string",
        ),
        ({"filter": lambda _: None}, "must return a boolean for each row, not a `NoneType`"),
        ({"filter": lambda _: [True]}, "must return a boolean for each row that it is given, "),
        ({"map": lambda batch: batch.slice(1)}, "must return a row for each row that it is given, "),
        ({"map": lambda batch: batch.to_pylist()}, "must return a pyarrow.RecordBatch, not a `list`"),
    ],
)
def test_a_wrong_answer_is_named(options, message, path, tokenizer_dir):
    with pytest.raises(fastpack.OptionError, match=message) as caught:
        packed(path, tokenizer_dir, **options)
    assert caught.value.option in options


def test_a_job_is_the_same_if_its_functions_are(path, tokenizer_dir, tmp_path):
    def job(number):
        return fastpack.pack_dir(
            path,
            tmp_path / "out",
            tokenizer=tokenizer_dir,
            **OPTIONS,
            filter=fastpack.Function(
                lambda batch: pc.greater(batch["score"], number), fingerprint=f"above {number}"
            ),
        )

    report = job(1)
    assert job(1) == report
    with pytest.raises(fastpack.OutputError, match="`filter, map and the function of the objective`"):
        job(2)


def test_a_stream_goes_on_from_the_state_of_the_same_functions_alone(tmp_path, tokenizer_dir):
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": f"text {at}"}) + "\n" for at in range(50)), encoding="utf-8")

    def longer(records):
        return pa.table({"text": [f"{text} and more" for text in records["text"].to_pylist()]})

    def all_of(records):
        return [True] * len(records)

    options = {"tokenizer": tokenizer_dir, "max_length": 32}
    options |= {
        "filter": fastpack.Function(all_of, fingerprint="all"),
        "map": fastpack.Function(longer, fingerprint="longer"),
    }
    state = fastpack.state_of(next(iter(fastpack.stream(path, **options))))
    again = fastpack.stream(path, **options)
    again.load_state_dict(state)
    assert next(iter(again)).num_rows > 0
    changes = [
        {"map": None},
        {"filter": fastpack.Function(lambda records: [False] * len(records), fingerprint="none")},
    ]
    for changed in changes:
        other = fastpack.stream(path, **{**options, **changed})
        other.load_state_dict(state)
        with pytest.raises(fastpack.FastpackError, match="filter, map and the function of the objective"):
            next(iter(other))


@pytest.fixture
def of_records(tmp_path, monkeypatch):
    """A module of functions of records that other processes find, too."""
    (tmp_path / "of_records.py").write_text(
        "def is_good(record):\n    return record['score'] > 1\n\n\n"
        "def shouted(record):\n    record['text'] = record['text'].upper()\n    return record\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("of_records")
    sys.modules.pop("of_records")


@pytest.mark.parametrize("processes", [0, tries(1, 2)])
def test_functions_of_one_record_give_what_those_of_batches_give(path, of_records, tokenizer_dir, processes):
    good = fastpack.Function(of_records.is_good, per="record")
    loud = fastpack.Function(of_records.shouted, per="record", processes=processes)
    wanted = packed(path, tokenizer_dir, filter=keep_good, map=shout)
    assert packed(path, tokenizer_dir, filter=good, map=loud) == wanted
    assert packed(path, tokenizer_dir, filter=pickle.loads(pickle.dumps(good)), map=shout) == wanted


def test_a_function_that_no_process_can_be_sent_is_refused():
    def inner(record):
        return bool(record)

    for function in (lambda _: True, inner, inner.__call__):
        with pytest.raises(
            fastpack.OptionError, match=r"cannot be sent the function .*at the top of a module"
        ):
            fastpack.Function(function, per="record", processes=2)
        assert fastpack.Function(function, per="record").processes == 0


def test_a_function_that_the_processes_do_not_find_is_refused(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import fastpack\n"
        "if __name__ == '__main__':\n"
        "    def good(record):\n"
        "        return True\n"
        "    function = fastpack.Function(good, per='record', processes=1)\n"
        "    records = [{'input_ids': [1, 2]}]\n"
        "    try:\n"
        "        fastpack.pack_records(records, max_length=8, filter=function)\n"
        "    except fastpack.OptionError as refused:\n"
        "        print(refused)\n"
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    said = "ended while they called the function `'good'`: they were killed, or did not find it; define it in a module"
    assert said in done.stdout, done.stderr


def test_a_function_of_one_record_may_add_leave_out_and_keep_fields(write_jsonl, tokenizer_dir):
    records = [
        {
            "messages": [
                {"role": "user", "content": "a"},
                {"role": "assistant", "content": "b", "name": None},
            ],
            "n": n,
        }
        for n in range(40)
    ]
    path = write_jsonl(records)
    seen = []

    def changed(record):
        seen.append(record["n"])
        return {
            "messages": [*record["messages"], {"role": "user", "content": "c"}],
            "more": {"n": record["n"]},
        }

    rows = packed(path, tokenizer_dir, map=fastpack.Function(changed, per="record"))
    assert seen == list(range(40))
    longer = write_jsonl([changed(record) for record in records], "longer.jsonl")
    assert rows == packed(longer, tokenizer_dir)
    same = fastpack.Function(dict, per="record")
    assert packed(path, tokenizer_dir, map=same) == packed(path, tokenizer_dir)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"filter": fastpack.Function(lambda _: 1, per="record")}, "a boolean for each record, not a `int`"),
        ({"map": fastpack.Function(lambda _: "a", per="record")}, "a dict for each record, not a `str`"),
        ({"filter": 3}, "or a `fastpack.Function`, not `3`"),
    ],
)
def test_a_wrong_answer_about_one_record_is_named(options, message, path, tokenizer_dir):
    with pytest.raises(fastpack.OptionTypeError, match=message):
        packed(path, tokenizer_dir, **options)
    with pytest.raises(fastpack.OptionTypeError, match="must be a function"):
        fastpack.Function("good", per="record")
    with pytest.raises(fastpack.OptionError, match="`per`"):
        fastpack.Function(len, per="token")


def test_an_exception_of_a_function_of_one_record_reaches_the_caller(path, tokenizer_dir):
    def failing(record):
        raise LookupError(record["score"])

    with pytest.raises(LookupError):
        packed(path, tokenizer_dir, filter=fastpack.Function(failing, per="record"))


def test_functions_of_one_record_are_given_it_as_it_is(write_jsonl, tokenizer_dir, tmp_path):
    """Records of a batch do not change one another, as columns of Arrow would."""
    parts = [{"type": "text", "text": "a"}]
    answer = {"role": "assistant", "content": "b"}
    records = [
        {"messages": [{"role": "user", "content": "a"}, answer], "score": 1},
        {"messages": [{"role": "user", "content": parts}, answer], "more": {"n": 12345678901234567890}},
        {
            "messages": [{"role": "user", "content": "c"}, answer],
            "more": {"text": "\u00e9", "list": [1, 2.5]},
        },
    ]
    seen = []

    def noted(record):
        seen.append(json.loads(json.dumps(record)))
        return "score" in record or record["messages"][0]["role"] == "user"

    def shortened(record):
        return {**record, "messages": record["messages"][-2:]}

    path = write_jsonl(records)
    (tmp_path / "listed.json").write_text(json.dumps(records))
    functions = {
        "filter": fastpack.Function(noted, per="record"),
        "map": fastpack.Function(shortened, per="record"),
    }
    wanted = packed(path, tokenizer_dir)
    assert packed(path, tokenizer_dir, **functions) == wanted
    assert packed(tmp_path / "listed.json", tokenizer_dir, **functions) == wanted
    table = fastpack.pack_records(records, tokenizer_dir, progress=False, **OPTIONS, **functions)
    assert table.to_pylist() == wanted
    assert seen == records * 3


def test_what_a_function_of_one_record_makes_is_refused_at_its_record(write_jsonl, tokenizer_dir):
    path = write_jsonl([{"text": "a"}, {"text": "b"}])
    named = fastpack.Function(lambda record: {**record, "text": {1: "a"}}, per="record")
    with pytest.raises(fastpack.RecordError, match=r"data.jsonl.*:1: .*keys that are no text"):
        packed(path, tokenizer_dir, map=named)


def test_functions_of_a_file_run_in_processes(write_jsonl, tokenizer_dir, tmp_path):
    path = write_jsonl([{"text": "a boat"}, {"text": "a river"}])
    (tmp_path / "filters.py").write_text(
        "WORD = 'boat'\n\n\ndef keep(record):\n    return WORD in record['text']\n"
    )
    words = [
        sys.executable,
        "-m",
        "fastpack",
        "pack",
        str(path),
        "-o",
        "out",
        "-t",
        tokenizer_dir,
        "-m",
        "64",
    ]
    done = subprocess.run(
        [*words, "--filter", "filters.py:keep", "--filter.per", "record", "--filter.processes", "2"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert fastpack.Report.of(tmp_path / "out").documents.kept == 1
