"""`pack_table` and `pack_records`: records in memory become the rows that a file of them becomes."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from conftest import conversation, sentence

import fastpack

SHAPES = {
    "conversations": [conversation(number) for number in range(30)],
    "from_value": [
        {
            "conversations": [
                {"from": "human", "value": sentence(n, 5)},
                {"from": "gpt", "value": sentence(n, 9)},
            ]
        }
        for n in range(30)
    ],
    "prompt_completion": [{"prompt": sentence(n, 4), "completion": sentence(n, 7)} for n in range(30)],
    "instruction": [
        {"instruction": sentence(n, 4), "input": sentence(n, 2) if n % 2 else "", "output": sentence(n, 7)}
        for n in range(30)
    ],
    "question_answer": [{"question": sentence(n, 4), "answer": sentence(n, 7)} for n in range(30)],
    "text": [{"text": sentence(n, 12)} for n in range(30)],
    "tokens": [{"input_ids": list(range(3, 9 + n)), "labels": [-100, *range(4, 9 + n)]} for n in range(30)],
}


def rows(table):
    return table.to_pylist()


@pytest.fixture(params=SHAPES, name="records")
def records_of_each_shape(request):
    return SHAPES[request.param]


@pytest.fixture
def expected(records, write_jsonl, tokenizer_dir):
    return rows(fastpack.pack_files(write_jsonl(records), tokenizer_dir, max_length=128))


def hands_over_arrow(records):
    """The records as tables of every supported library."""
    import datasets
    import duckdb
    import polars as pl

    table = pa.Table.from_pylist(records)
    yield "pyarrow", table
    yield "chunks", pa.concat_tables([table.slice(0, 7), table.slice(7)])
    yield "reader", table.to_reader(max_chunksize=4)
    yield "polars", pl.from_arrow(table)
    yield "duckdb", duckdb.from_arrow(table)
    yield "datasets", datasets.Dataset(table)


def test_a_table_packs_as_the_file_of_its_records(records, expected, tokenizer_dir):
    for name, table in hands_over_arrow(records):
        assert rows(fastpack.pack_table(table, tokenizer_dir, max_length=128)) == expected, name


def test_an_iterable_packs_as_the_file_of_its_records(records, expected, tokenizer_dir):
    for iterable in (records, tuple(records), iter(records), (record for record in records)):
        assert rows(fastpack.pack_records(iterable, tokenizer_dir, max_length=128)) == expected


def test_a_data_set_keeps_its_selection_and_its_order(write_jsonl, tokenizer_dir):
    datasets = pytest.importorskip("datasets")
    records = [{"text": sentence(number, 12)} for number in range(40)]
    dataset = datasets.Dataset.from_list(records)
    options = {"max_length": 64, "strategy": "sequential"}
    for chosen in (dataset.select([5, 3, 30, 3]), dataset.shuffle(seed=3), dataset.select(range(10, 20))):
        packed = fastpack.pack_table(chosen, tokenizer_dir, **options)
        path = write_jsonl(list(chosen))
        assert rows(packed) == rows(fastpack.pack_files(path, tokenizer_dir, **options))


def test_a_tokenized_data_set_needs_no_tokenizer():
    datasets = pytest.importorskip("datasets")
    dataset = datasets.Dataset.from_dict({"input_ids": [[1, 2, 3], [4, 5], [6, 7]]}).select([2, 0])
    packed = fastpack.pack_table(dataset, max_length=8, strategy="sequential")
    assert packed["input_ids"].to_pylist() == [[6, 7, 1, 2, 3]]


def test_the_values_of_python_read_as_their_json(tokenizer_dir, write_jsonl):
    template = "{% for m in messages %}{{ m | tojson }}{% endfor %}{{ messages[0].n }}"
    values = [
        1, -7, 2**80, 1.5, 1e300, 1e-7, -0.0, float("nan"), float("inf"), True, False, None, "",
        '"\\\n\t\x01\x7f é 🙂', [], {}, [[1, [2]]], {"a": {"b": [None]}}, (1, 2),
    ]  # fmt: skip
    records = [{"messages": [{"role": "user", "content": "x", "n": value}]} for value in values]
    options = {
        "max_length": 512,
        "chat_template": template,
        "train_on": "all",
        "strategy": "none",
        "order": "input",
    }
    path = write_jsonl([json.dumps(record).encode() for record in records])
    from_file = fastpack.pack_files(path, tokenizer_dir, **options)
    assert rows(fastpack.pack_records(records, tokenizer_dir, **options)) == rows(from_file)


def test_arrays_and_numbers_of_numpy_are_lists_and_numbers(tokenizer_dir):
    plain = [{"input_ids": [5, 6, 7], "labels": [-100, 6, 7]}]
    arrays = [
        {
            "input_ids": np.array([5, 6, 7], dtype=np.int32),
            "labels": [np.int64(-100), np.int32(6), np.uint8(7)],
        }
    ]
    packed = fastpack.pack_records(arrays, tokenizer_dir, max_length=8)
    assert rows(packed) == rows(fastpack.pack_records(plain, tokenizer_dir, max_length=8))


def test_a_field_that_is_no_json_is_left_out(tokenizer_dir):
    records = [{"text": "a river", "when": dt.date(2026, 1, 1)}]
    assert fastpack.pack_records(records, tokenizer_dir, max_length=16).num_rows == 1


def test_a_value_inside_that_is_no_json_is_named(tokenizer_dir):
    records = [{"text": "a river"}, {"text": ["a", b"\xff"]}]
    with pytest.raises(
        fastpack.RecordError, match=r"<records>:2: `text` holds a `bytes`, which is no JSON"
    ) as caught:
        fastpack.pack_records(records, tokenizer_dir, max_length=16)
    assert (caught.value.path, caught.value.line, caught.value.reason) == ("<records>", 2, "wrong_type")


def test_padding_of_tokenized_rows_is_left_out():
    padded = {
        "input_ids": [[0, 0, 5, 6], [7, 8, 9, 0], [0, 0], [5, 6]],
        "attention_mask": [[0, 0, 1, 1], [1, 1, 1, 0], [0, 0], [1, 1]],
    }
    options = {"max_length": 8, "strategy": "none", "columns": ["input_ids", "labels", "loss_weights"]}
    weights = {"loss_weights": [[1.0, 1.0, 1.0, 0.5], [0.5, 1.0, 0.25, 1.0], [1.0, 1.0], [1.0, 0.5]]}
    packed = fastpack.pack_table(pa.table({**padded, **weights}), **options)
    assert packed["input_ids"].to_pylist() == [[5, 6], [7, 8, 9], [5, 6]]
    assert packed["labels"].to_pylist() == [[-100, 6], [-100, 8, 9], [-100, 6]]
    assert packed["loss_weights"].to_pylist() == [[0, 0.5], [0, 1, 0.25], [0, 0.5]]
    assert fastpack.Report.of(packed).dropped["empty"].documents == 1
    for mask, said in (
        ([[1, 0, 1]], "between others"),
        ([[1, 1]], "2 entries for 3"),
        ([["a"]], "list of whole numbers, found a string"),
    ):
        with pytest.raises(fastpack.RecordError, match=rf"<table>:1: `attention_mask`.*{said}"):
            fastpack.pack_table(pa.table({"input_ids": [[1, 2, 3]], "attention_mask": mask}), max_length=8)


def test_a_data_set_whose_rows_a_function_makes_is_refused(tokenizer_dir):
    datasets = pytest.importorskip("datasets")
    made = datasets.Dataset.from_list([{"text": "a"}]).with_transform(
        lambda rows: {"text": ["the river"] * len(rows["text"])}
    )
    with pytest.raises(fastpack.OptionError, match=r"`set_transform`.*`pack_records`"):
        fastpack.pack_table(made, tokenizer_dir, max_length=8)
    packed = fastpack.pack_records(made, tokenizer_dir, max_length=64)
    assert (
        fastpack.Tokenizer(tokenizer_dir).decode(packed["input_ids"][0].as_py()) == "the river<|endoftext|>"
    )


@pytest.mark.parametrize("rows", [pl.Series("text", ["a"]), pa.chunked_array([["a"]])])
def test_a_column_alone_is_no_table(rows, tokenizer_dir):
    for tokenizer in (tokenizer_dir, None):
        with pytest.raises(fastpack.OptionError, match="`table`: has no columns") as refused:
            fastpack.pack_table(rows, tokenizer, max_length=8)
        assert refused.value.option == "table"


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ("a text", "not_an_object"),
        ({"text": 5}, "wrong_type"),
        ({"text": "\ud800"}, "lone_surrogate"),
        ({"other": "x"}, "no_content"),
        ({1: "x"}, "wrong_type"),
    ],
)
def test_a_bad_record_is_an_error_or_is_counted(record, reason, tokenizer_dir):
    records = [{"text": "a river"}, record, {"text": "a boat"}]
    with pytest.raises(fastpack.RecordError, match="<records>:2: ") as caught:
        fastpack.pack_records(records, tokenizer_dir, max_length=16)
    assert caught.value.reason == reason
    table = fastpack.pack_records(records, tokenizer_dir, max_length=16, on_bad_record="skip")
    report = fastpack.Report.of(table)
    assert (report.documents, set(report.dropped)) == ((3, 2, 1), {reason})


def test_the_report_says_where_records_came_from(tokenizer_dir):
    packed = fastpack.pack_records([{"text": "a river"}], tokenizer_dir, max_length=16)
    assert str(fastpack.Report.of(packed).inputs[0]) == "1 records: text (text)"
    packed = fastpack.pack_table(pa.table({"text": ["a river"]}), tokenizer_dir, max_length=16)
    assert str(fastpack.Report.of(packed).inputs[0]) == "1 table: text (text)"


def test_an_exception_of_an_iterable_reaches_the_caller_as_it_is(tokenizer_dir):
    class UnpluggedError(Exception):
        pass

    def broken():
        yield {"text": "a river"}
        message = "the wire is out"
        raise UnpluggedError(message)

    with pytest.raises(UnpluggedError, match="the wire is out"):
        fastpack.pack_records(broken(), tokenizer_dir, max_length=16)


def test_an_iterable_is_read_on_the_thread_of_the_call(tokenizer_dir):
    import threading

    seen = set()

    def records():
        for _ in range(5):
            seen.add(threading.get_ident())
            yield {"text": "a river"}

    fastpack.pack_records(records(), tokenizer_dir, max_length=16, threads=3)
    assert seen == {threading.get_ident()}


def test_the_rows_do_not_depend_on_threads(tokenizer_dir):
    records = [conversation(number) for number in range(2000)]
    one, four = (
        fastpack.pack_records(records, tokenizer_dir, max_length=256, threads=threads) for threads in (1, 4)
    )
    assert one.equals(four)


def test_nothing_to_pack_is_a_table_without_rows(tokenizer_dir):
    assert fastpack.pack_records([], tokenizer_dir, max_length=16).num_rows == 0
    empty = pa.table({"text": pa.array([], pa.string())})
    assert fastpack.pack_table(empty, tokenizer_dir, max_length=16).num_rows == 0


def test_what_is_no_table_is_refused_with_the_way_out(tokenizer_dir):
    datasets = pytest.importorskip("datasets")
    with pytest.raises(fastpack.OptionTypeError, match="`pack_records` takes iterables"):
        fastpack.pack_table([{"text": "a"}], tokenizer_dir, max_length=16)
    splits = datasets.DatasetDict({"train": datasets.Dataset.from_dict({"text": ["a"]})})
    with pytest.raises(fastpack.OptionError, match='holds several data sets; take one of "train"'):
        fastpack.pack_table(splits, tokenizer_dir, max_length=16)
    with pytest.raises(fastpack.OptionTypeError, match="must be an iterable of dicts, not a `str`"):
        fastpack.pack_records("data.jsonl", tokenizer_dir, max_length=16)
    with pytest.raises(
        fastpack.OptionError, match=r"invalid option `reading\.prompt`: needs a tokenizer"
    ) as caught:
        fastpack.pack_table(
            pa.table({"input_ids": [[1]]}), max_length=16, reading=fastpack.Reading(prompt="alpaca")
        )
    assert caught.value.option == "reading.prompt"


TAKES = """
import sys, fastpack, numpy as np, pyarrow as pa
def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) // 1024
def tokens(size, rows):
    offsets = np.linspace(0, size, rows + 1).astype(np.int32)
    ids = np.arange(size, dtype=np.int32)
    ids %= 30_000
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(ids))
def texts(size, rows):
    offsets = np.linspace(0, size, rows + 1).astype(np.int32)
    letters = np.full(size, ord("a"), dtype=np.uint8)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(letters))
kind, tokenizer = sys.argv[1:]
if kind == "tokens":
    name, made, options = "input_ids", tokens, {"max_length": 64, "max_lost": "100%"}
    small, large = (1_000, 10), (50_000_000, 50_000)
else:
    name, made, options = "text", texts, {"tokenizer": tokenizer, "max_length": 64, "max_lost": "100%", "filter": lambda batch: [False] * len(batch)}
    small, large = (1_000, 10), (200_000_000, 20_000)
fastpack.pack_table(pa.table({name: made(*small)}), **options)
table = pa.table({name: made(*large)})
before = peak()
report = fastpack.Report.of(fastpack.pack_table(table, **options))
packed = peak()
copy = np.copy(table[name].chunk(0).buffers()[-1])
print(report.documents.read, table.nbytes >> 20, packed - before, peak() - packed)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads VmHWM")
@pytest.mark.parametrize("kind", ["texts", "tokens"])
def test_a_table_is_read_where_it_lies(kind, tokenizer_dir):
    """Of 200 MB of texts of which no row is kept, no second copy is made; tokens are copied once, for the rows."""
    command = [sys.executable, "-c", TAKES, kind, tokenizer_dir]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    read, size, taken, copied = map(int, ran.stdout.split())
    assert (read, size) == ({"tokens": 50_000, "texts": 20_000}[kind], 190)
    if kind == "tokens":
        assert taken < size * 5 // 4
    else:
        assert taken < size // 2
        # The measure does show a copy.
        assert copied > size // 2
