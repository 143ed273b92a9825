"""Records that are ids: one reader for all functions and containers, and no tokenizer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from containers import CONTAINERS
from nested import nested, place
from rows import table_of

import fastpack
from fastpack import cli
from fastpack.options import GROUPS
from fastpack.options.value import fields_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

RECORDS = [
    {"input_ids": [5, 6, 7], "labels": [-100, 6, 7]},
    {"input_ids": [8, 9], "labels": [-100, 9]},
]
ROWS = [[5, 6, 7, 8, 9]]
PLAIN: dict[str, Any] = {"max_length": 8, "strategy": "sequential"}

EMPTY = fastpack.pack_records([], max_length=8)
"""A table without rows, to which those of a stream are joined."""

TABLES = ["arrow", "parquet", "feather"]
"""Containers with columns of a type."""


def packed(records: list[dict[str, Any]], tmp_path: Path, **options: Any) -> Iterator[Callable[[], pa.Table]]:
    """Each way to pack records that are ids."""
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    pq.write_table(pa.Table.from_pylist(records), tmp_path / "data.parquet")

    def given() -> dict[str, Any]:
        return nested(options, PLAIN)

    yield lambda: fastpack.pack_files(path, **given())
    yield lambda: fastpack.pack_files(tmp_path / "data.parquet", **given())
    yield lambda: fastpack.pack_records(records, **given())
    yield lambda: fastpack.pack_table(pa.Table.from_pylist(records), **given())
    yield lambda: pa.concat_tables(
        [*fastpack.stream(path, **given(), shuffle=False, ranks=fastpack.Ranks(lanes=1)), EMPTY]
    )


def test_ids_need_no_tokenizer(tmp_path: Path) -> None:
    for pack in packed(RECORDS, tmp_path):
        table = pack()
        assert table["input_ids"].to_pylist() == ROWS
        assert table["labels"].to_pylist() == [[-100, 6, 7, -100, 9]]
    report = fastpack.pack_dir(tmp_path / "data.jsonl", tmp_path / "out", keep_tokens=True, **PLAIN)
    assert (report.rows, report.engine) == (1, "none")
    assert str(report.inputs[0]) == "1 jsonl: tokens (input_ids, labels)"
    fastpack.repack(tmp_path / "out", tmp_path / "again", max_length=3, strategy="none")
    assert table_of(tmp_path / "again")["input_ids"].to_pylist() == [[5, 6, 7], [8, 9]]
    found = fastpack.scan(tmp_path / "data.jsonl", max_length=8)
    assert (found.documents, found.fits[0].rows) == (2, 1)


@pytest.mark.parametrize("container", [name for name in CONTAINERS if "." not in name])
def test_ids_of_every_container_need_no_tokenizer(container: str, tmp_path: Path) -> None:
    path = tmp_path / f"data.{container}"
    path.write_bytes(CONTAINERS[container](RECORDS))
    assert fastpack.pack_files(path, **PLAIN)["input_ids"].to_pylist() == ROWS


def test_the_command_line_packs_ids_without_a_tokenizer(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    arguments = ["pack", "-i", path, "-o", tmp_path / "out", "-m", "8", "-s", "sequential"]
    assert cli.main([str(argument) for argument in arguments]) == 0
    assert table_of(tmp_path / "out")["input_ids"].to_pylist() == ROWS
    assert cli.main(["scan", str(path), "-m", "8"]) == 0


@pytest.mark.parametrize(
    "record",
    [
        {"text": "a river"},
        {"prompt": "a", "completion": "b"},
        {"question": "a", "answer": "b"},
        {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]},
    ],
    ids=lambda record: next(iter(record)),
)
@pytest.mark.parametrize("on_bad_record", ["error", "skip"])
def test_a_record_that_needs_a_tokenizer_asks_for_it_by_name(
    record: dict[str, Any], on_bad_record: str, tmp_path: Path
) -> None:
    for pack in packed([record], tmp_path, on_bad_record=on_bad_record):
        with pytest.raises(
            fastpack.OptionError, match="invalid option `tokenizer`: must be given"
        ) as refused:
            pack()
        assert refused.value.option == "tokenizer"
        assert ":1 is a" in str(refused.value)


NEED_A_TOKENIZER = [
    ("eos", True),
    ("bos", True),
    ("special_in_text", "split"),
    ("train_on_eos", "none"),
    ("turns", "each"),
    ("verify", 3),
    ("chat_template", "{{ messages }}"),
    ("chat_template_kwargs", {"a": 1}),
    ("template_engine", "python"),
    ("template_engine", "bogus"),
    ("decode_arguments", True),
    ("prompt", "alpaca"),
    ("examples", [("a", "b")]),
    ("revision", "main"),
    ("revision", 5),
    ("token", "hf_x"),
    ("token", 5),
]
"""Options that need a tokenizer, by their flat names, each with a value that does."""

NEED_NONE = {
    "tokenizer",
    "train_on",
    "chat_template.now",
    "files",
    "reading.shape",
    "reading.fields",
    "reading.separator",
    "reading.images",
    "reading.recursive",
    "filter",
    "map",
    "on_bad_record",
    "max_lost",
    "storage.options",
    "storage.filesystem",
    "storage.block_cache",
    "storage.work_dir",
    "memory",
    "threads",
    "progress",
    "sample",
    "select",
    "batch_size",
    "weights",
    "ranks",
    "log",
    "epochs",
    "max_steps",
}
"""Options of tokens, records, storage and work that records of ids may have, or that are refused for another reason."""


def fields_without_tokenizer() -> Iterator[tuple[str, bool]]:
    """The options of tokens, records, storage and work, or their fields where some need a tokenizer; and whether they do."""
    for title in ("tokens and labels", "records", "storage", "how the work is done"):
        for option in GROUPS[title]:
            needing = option.values_without_tokenizer
            if needing.keys() <= {""}:
                yield option.name, bool(needing)
            else:
                for field in fields_of(option.kinds.values()):
                    yield f"{option.name}.{field.name}", field.name in needing


def test_it_is_known_of_each_option_whether_it_needs_a_tokenizer() -> None:
    known = dict(fields_without_tokenizer())
    assert {name for name, needs in known.items() if not needs} == NEED_NONE
    assert {name for name, needs in known.items() if needs} == {place(name) for name, _ in NEED_A_TOKENIZER}


@pytest.mark.parametrize(("option", "value"), NEED_A_TOKENIZER)
def test_an_option_that_needs_a_tokenizer_is_refused_without_one(
    option: str, value: object, tmp_path: Path
) -> None:
    for pack in packed(RECORDS, tmp_path, **{option: value}):
        with pytest.raises(fastpack.OptionError) as refused:
            pack()
        assert refused.value.option == (option if option == "chat_template" else place(option))


def outcome(pack: Callable[[], pa.Table]) -> object:
    """The rows, or the refusal."""
    try:
        return pack().to_pylist()
    except fastpack.RecordError as refused:
        return refused.line, refused.reason


def test_a_tokenizer_changes_nothing_about_ids(tokenizer_dir: Path, tmp_path: Path) -> None:
    records = [*RECORDS, {"input_ids": [], "labels": []}, {"input_ids": [3, 4], "labels": None}]
    for train_on in ("auto", "all", "assistant", "completion"):
        for on_bad_record in ("skip", "error"):
            options = {"train_on": train_on, "on_bad_record": on_bad_record, "max_lost": "100%"}
            found = []
            for tokenizer in (None, fastpack.Tokenizer(tokenizer_dir)):
                found += map(outcome, packed(records, tmp_path, tokenizer=tokenizer, **options))
            assert all(one == found[0] for one in found), options


@pytest.mark.parametrize("turns", ["each", "last", "whole"])
def test_ids_have_no_turns_to_choose(turns: str) -> None:
    with pytest.raises(fastpack.OptionError, match="invalid option `turns`: needs a tokenizer"):
        fastpack.pack_records([{"input_ids": [1, 2, 3]}], max_length=8, turns=cast("Any", turns))


def test_a_row_without_labels_among_others_is_trained_whole(tmp_path: Path) -> None:
    records = [*RECORDS, {"input_ids": [3, 4], "labels": None}]
    for pack in packed(records, tmp_path, max_length=16):
        assert pack()["labels"].to_pylist() == [[-100, 6, 7, -100, 9, -100, 4]]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "ids that are booleans": ({"input_ids": [True, False]}, r"`input_ids` must be .*a boolean"),
    "labels that are booleans": ({"labels": [True, False]}, r"`labels` must be .*a boolean"),
    "a mask of 2": ({"assistant_masks": [0, 2]}, r"`assistant_masks` has 2 at position 1"),
    "another mask of -1": ({"completion_mask": [-1, 1]}, r"`completion_mask` has -1 at position 0"),
    "padding of 3": ({"attention_mask": [3, 1]}, r"`attention_mask` has 3 at position 0"),
    "a mask behind labels": (
        {"labels": [-100, 6], "assistant_masks": [0, 7]},
        r"`assistant_masks` has 7 at position 1",
    ),
    "ids below 0": ({"input_ids": [5, -6]}, r"`input_ids` holds -6"),
    "ids past 31 bits": ({"input_ids": [5, 2**31]}, r"`input_ids` holds 2147483648"),
    "ids with a null": ({"input_ids": [5, None]}, r"`input_ids` must be .*null"),
    "fractions": ({"input_ids": [5.0, 6.5]}, r"`input_ids` must be .*a float"),
    "shifted labels": ({"labels": [6, -100]}, r"`labels` has 6 at position 0 where the token is 5"),
}


@pytest.mark.parametrize("container", [name for name in CONTAINERS if "." not in name])
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_list_is_named_by_file_row_and_column(container: str, wrong: str, tmp_path: Path) -> None:
    spoilt, said = WRONG[wrong]
    record = {"input_ids": [5, 6], **spoilt}
    path = tmp_path / f"data.{container}"
    path.write_bytes(CONTAINERS[container]([record, record]))
    with pytest.raises(fastpack.RecordError, match=said) as refused:
        fastpack.pack_files(path, **PLAIN)
    assert (refused.value.path, refused.value.reason) == (str(path), "wrong_type")
    report = fastpack.Report.of(fastpack.pack_files(path, **PLAIN, on_bad_record="skip", max_lost="100%"))
    assert report.dropped == {"wrong_type": (2, 0)}
    with pytest.raises(fastpack.RecordError, match=f"<table>:1: {said}"):
        fastpack.pack_table(pa.Table.from_pylist([record]), **PLAIN)
    with pytest.raises(fastpack.RecordError, match=f"<records>:1: {said}"):
        fastpack.pack_records([record], **PLAIN)


def test_masks_may_be_booleans(tmp_path: Path) -> None:
    records = [{"input_ids": [5, 6, 7], "assistant_masks": [False, False, True]}]
    for pack in packed(records, tmp_path):
        assert pack()["labels"].to_pylist() == [[-100, -100, 7]]


INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
LISTS: list[Callable[[pa.DataType], pa.DataType]] = [
    pa.list_,
    pa.large_list,
    lambda of: pa.list_(of, 3),
    pa.list_view,
    lambda of: pa.dictionary(pa.int8(), pa.list_(of)),
]


@pytest.mark.parametrize("integer", INTEGERS, ids=str)
@pytest.mark.parametrize("lists", range(len(LISTS)))
def test_ids_are_the_same_in_lists_of_every_type(integer: pa.DataType, lists: int) -> None:
    wanted = [[5, 6, 7], [8, 9, 10]]
    kind = LISTS[lists](integer)
    if pa.types.is_dictionary(kind):
        values = pa.array([[0, 0, 0], *wanted], kind.value_type)
        column = pa.DictionaryArray.from_arrays(pa.array([1, 2], pa.int8()), values)
    else:
        # A slice begins in the middle of its values.
        column = pa.array([[1, 2, 3], *wanted], kind).slice(1)
    packed = fastpack.pack_table(pa.table({"input_ids": column}), **PLAIN)
    assert packed["input_ids"].to_pylist() == [[5, 6, 7, 8, 9, 10]]


@pytest.mark.parametrize("container", TABLES)
def test_two_columns_of_one_name_are_refused(container: str, tokenizer_dir: Path, tmp_path: Path) -> None:
    ids, texts = pa.array([[5, 6]]), pa.array(["a river"])
    messages = pa.array([[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]])
    for name, values, beside in (
        ("input_ids", ids, {}),
        ("labels", ids, {"input_ids": ids}),
        ("text", texts, {}),
        ("messages", messages, {}),
        ("tools", pa.array([None], pa.string()), {"messages": messages}),
    ):
        columns = [*beside.items(), (name, values), (name, values)]
        table = pa.Table.from_arrays([it for _, it in columns], [name for name, _ in columns])
        path = tmp_path / f"{name}.{container}"
        if container == "parquet":
            pq.write_table(table, path)
        else:
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
        for call in (
            lambda path=path: fastpack.pack_files(path, tokenizer_dir, **PLAIN),
            lambda table=table: fastpack.pack_table(table, tokenizer_dir, **PLAIN),
            lambda table=table: fastpack.pack_table(table.to_reader(), tokenizer_dir, **PLAIN),
        ):
            with pytest.raises(fastpack.RecordError, match=f":1: `{name}` is the name of two columns"):
                call()
        # The name of a column that nothing reads says nothing.
        spare = pa.Table.from_arrays(
            [*table.columns, ids, ids], [*table.column_names[:-1], "spare", "x", "x"]
        )
        assert fastpack.pack_table(spare, tokenizer_dir, max_length=64).num_rows == 1


def test_two_fields_of_one_name_in_a_message_are_refused(tokenizer_dir: Path) -> None:
    texts = pa.array(["user", "assistant"])
    message = pa.StructArray.from_arrays([texts, texts, texts], ["role", "content", "content"])
    table = pa.table({"messages": pa.ListArray.from_arrays([0, 2], message)})
    with pytest.raises(fastpack.RecordError, match="two fields of the name `content`"):
        fastpack.pack_table(table, tokenizer_dir, max_length=64)


def test_a_data_set_gives_the_columns_that_it_shows(tokenizer_dir: Path) -> None:
    datasets = pytest.importorskip("datasets")
    columns = {"input_ids": [[5, 6, 7]], "labels": [[-100, -100, 7]], "text": ["a river"]}
    dataset = datasets.Dataset.from_dict(columns)
    for kind in ("arrow", "numpy", "pandas", "polars", None):
        shown = dataset.with_format(kind, columns=["input_ids"])
        assert fastpack.pack_table(shown, **PLAIN)["labels"].to_pylist() == [[-100, 6, 7]], kind
        text = fastpack.pack_table(dataset.with_format(kind, columns=["text"]), tokenizer_dir, max_length=64)
        assert str(fastpack.Report.of(text).inputs[0]) == "1 table: text (text)"
        every = dataset.with_format(kind, columns=["input_ids"], output_all_columns=True)
        assert fastpack.pack_table(every, **PLAIN)["labels"].to_pylist() == [[-100, -100, 7]], kind


class ListTensor:
    """A tensor that gives its values only as a list."""

    def __init__(self, values: list[int]) -> None:
        self.values = np.array(values)

    def tolist(self) -> list[int]:
        """The values."""
        return self.values.tolist()


class ArrayTensor:
    """A tensor that numpy takes."""

    def __init__(self, values: list[int]) -> None:
        self.values = np.array(values)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        """The values."""
        return self.values


class PackTensor:
    """A tensor of the DLPack protocol."""

    def __init__(self, values: list[int]) -> None:
        self.values = np.array(values)

    def __dlpack__(self, **given: Any) -> object:
        """The values."""
        return self.values.__dlpack__(**given)

    def __dlpack_device__(self) -> tuple[int, int]:
        """The device of the values."""
        return self.values.__dlpack_device__()


class MapStyle:
    """A map-style `Dataset`: a length, and items by number, of which it has more than it says."""

    def __init__(self, tensor: Callable[[list[int]], object]) -> None:
        self.tensor = tensor

    def __len__(self) -> int:
        """The number of items."""
        return len(RECORDS)

    def __getitem__(self, number: int) -> dict[str, object]:
        """One of them."""
        record = RECORDS[number % len(RECORDS)]
        return {name: self.tensor(values) for name, values in record.items()}


@pytest.mark.parametrize("tensor", [ListTensor, ArrayTensor, PackTensor])
def test_a_map_style_data_set_of_tensors_is_packed(
    tensor: Callable[[list[int]], object], tmp_path: Path
) -> None:
    packed = fastpack.pack_records(MapStyle(tensor), **PLAIN)
    assert packed["input_ids"].to_pylist() == ROWS
    assert packed["labels"].to_pylist() == [[-100, 6, 7, -100, 9]]
    report = fastpack.pack_records(MapStyle(tensor), output=tmp_path / "out", **PLAIN)
    assert report.documents == (2, 2, 0)


def test_a_mapping_that_is_no_dict_is_a_record() -> None:
    transformers = pytest.importorskip("transformers")
    records = [transformers.BatchEncoding(record) for record in RECORDS]
    assert fastpack.pack_records(records, **PLAIN)["input_ids"].to_pylist() == ROWS
