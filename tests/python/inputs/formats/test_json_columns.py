"""Columns of type JSON hold values, wherever they are nested and whatever reads them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from campaign import tries
from conftest import sentence
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from json_columns import JSON, array, table
from rows import table_of
from template_helpers import UNMARKED

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable

Records = list[dict[str, Any]]

datasets.disable_progress_bars()

OPTIONS: dict[str, Any] = {
    "max_length": 4096,
    "strategy": "none",
    "chat_template": UNMARKED,
    "train_on": "all",
}

CALL = pa.struct({"name": pa.string(), "arguments": JSON})
TYPES: dict[str, pa.DataType] = {
    "the list": JSON,
    "the list, of large texts": pa.json_(pa.large_string()),
    "the list, of views": pa.json_(pa.string_view()),
    "each message": pa.list_(JSON),
    "each message of a large list": pa.large_list(JSON),
    "a field": pa.list_(pa.struct({"role": pa.string(), "content": JSON, "tool_calls": JSON})),
    "an item in a field": pa.list_(
        pa.struct({"role": pa.string(), "content": JSON, "tool_calls": pa.list_(JSON)})
    ),
    "a field of a field": pa.list_(
        pa.struct(
            {
                "role": pa.string(),
                "content": JSON,
                "tool_calls": pa.list_(pa.struct({"type": pa.string(), "function": CALL})),
            }
        )
    ),
    "the values of a map": pa.list_(pa.map_(pa.string(), JSON)),
}
"""Values of type JSON in a conversation."""


def parquet(store: bool) -> Callable[[pa.Table], bytes]:
    def write(rows: pa.Table) -> bytes:
        file = io.BytesIO()
        pq.write_table(rows, file, row_group_size=3, store_schema=store)
        return file.getvalue()

    return write


def ipc(new: Callable[..., Any]) -> Callable[[pa.Table], bytes]:
    def write(rows: pa.Table) -> bytes:
        file = io.BytesIO()
        with new(file, rows.schema) as writer:
            writer.write_table(rows, max_chunksize=3)
        return file.getvalue()

    return write


FILES: dict[str, Callable[[pa.Table], bytes]] = {
    "a.arrow": ipc(pa.ipc.new_file),
    "b.arrow": ipc(pa.ipc.new_stream),
    "c.parquet": parquet(store=True),
    "d.parquet": parquet(store=False),
}


def by_map(rows: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows.to_pylist(maps_as_pydicts="strict"))


def folder(rows: pa.Table, tokenizer: Path, path: Path, **options: Any) -> pa.Table:
    """The rows of a folder that is packed of them, and packed again of its documents."""
    fastpack.pack_dir(rows_file(rows, path), path / "out", tokenizer=tokenizer, keep_tokens=True, **options)
    fastpack.repack(path / "out", path / "again", max_length=4096, strategy="none")
    assert table_of(path / "again").equals(table_of(path / "out"))
    return table_of(path / "out")


def rows_file(rows: pa.Table, path: Path) -> Path:
    (path / "rows.parquet").write_bytes(FILES["d.parquet"](rows))
    return path / "rows.parquet"


def saved(rows: pa.Table, path: Path) -> Path:
    datasets.Dataset(rows).save_to_disk(path / "saved")
    return path / "saved"


CALLS: dict[str, Callable[..., pa.Table]] = {
    "pack_table": lambda rows, tokenizer, _, **more: fastpack.pack_table(rows, tokenizer, **more),
    "batches": lambda rows, tokenizer, _, **more: fastpack.pack_table(
        rows.to_reader(max_chunksize=2), tokenizer, **more
    ),
    "a data set": lambda rows, tokenizer, _, **more: fastpack.pack_table(
        datasets.Dataset(rows), tokenizer, **more
    ),
    "saved": lambda rows, tokenizer, path, **more: fastpack.pack_files(saved(rows, path), tokenizer, **more),
    "filter": lambda rows, tokenizer, _, **more: fastpack.pack_table(
        rows, tokenizer, filter=lambda batch: [True] * batch.num_rows, **more
    ),
    "map": lambda rows, tokenizer, _, **more: fastpack.pack_table(
        rows, tokenizer, map=lambda batch: batch, **more
    ),
    "map of values": lambda rows, tokenizer, path, **more: fastpack.pack_files(
        rows_file(rows, path), tokenizer, map=by_map, **more
    ),
    "stream": lambda rows, tokenizer, path, **more: pa.concat_tables(
        fastpack.stream(
            rows_file(rows, path),
            tokenizer,
            ranks=fastpack.Ranks(lanes=1),
            shuffle=False,
            batch_size=1,
            **more,
        )
    ),
    "a folder": folder,
}


OF_OTHERS = {"the list, of large texts", "the list, of views", "the values of a map"}
"""The types that `datasets` does not know."""

WAYS = [
    (kind, road)
    for kind in TYPES
    for road in [*FILES, *CALLS]
    if not (kind in OF_OTHERS and road in {"a data set", "saved"})
]


def conversation(number: int, arguments: Any, content: Any = "") -> dict[str, Any]:
    call = {"type": "function", "function": {"name": "find", "arguments": arguments}}
    asked = {"role": "user", "content": sentence(number, 3)}
    return {"messages": [asked, {"role": "assistant", "content": content, "tool_calls": [call]}]}


def expected(records: Records, tokenizer: Path, path: Path, **options: Any) -> list[list[int]]:
    """The rows of the same records as lines of JSON."""
    (path / "lines.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    table = fastpack.pack_files(path / "lines.jsonl", tokenizer, **{**OPTIONS, **options})
    return table["input_ids"].to_pylist()


ARGUMENTS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(st.sampled_from('ab"\\/{}[]\né日\u2028🙂'), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.sampled_from('xy"é'), max_size=2), inner, max_size=3)
    ),
    max_leaves=6,
)
"""Arguments of a tool."""


@settings(max_examples=tries(25, 800), suppress_health_check=list(HealthCheck))
@given(
    way=st.sampled_from(WAYS),
    arguments=st.lists(
        st.dictionaries(st.sampled_from("abc"), ARGUMENTS, max_size=3), min_size=1, max_size=7
    ),
)
def test_values_of_type_json_are_read_as_lines_of_json_are(
    way: tuple[str, str],
    arguments: list[dict[str, Any]],
    tokenizer_dir: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    (kind, road), path = way, tmp_path_factory.mktemp("json")
    records = [
        conversation(number, each, "" if number % 2 else "so") for number, each in enumerate(arguments)
    ]
    rows = table(records, {"messages": TYPES[kind]})
    if road in FILES:
        (path / road).write_bytes(FILES[road](rows))
        found = fastpack.pack_files(path / road, tokenizer_dir, **OPTIONS)
    else:
        found = CALLS[road](rows, tokenizer_dir, path, **OPTIONS)
    assert found["input_ids"].to_pylist() == expected(records, tokenizer_dir, path)


@pytest.mark.parametrize(("kind", "road"), WAYS)
def test_a_record_whose_json_is_invalid_is_refused_by_its_row(
    kind: str, road: str, tokenizer_dir: Path, tmp_path: Path
) -> None:
    records = [conversation(number, {"x": number}) for number in range(5)]
    rows = spoilt(records, TYPES[kind], 3)
    options = {**OPTIONS, "on_bad_record": "skip", "max_lost": "100%"}
    if road in FILES:
        (tmp_path / road).write_bytes(FILES[road](rows))
        calls = {
            **CALLS,
            road: lambda _, *args, **more: fastpack.pack_files(tmp_path / road, args[0], **more),
        }
    else:
        calls = CALLS
    with pytest.raises(
        fastpack.RecordError, match=r"`messages` is of type JSON but holds other text"
    ) as refused:
        calls[road](rows, tokenizer_dir, tmp_path, **OPTIONS)
    assert refused.value.line == 4
    assert "\n" not in str(refused.value)
    if road != "a folder":
        found = calls[road](rows, tokenizer_dir, tmp_path, **options)
        wanted = expected([*records[:3], records[4]], tokenizer_dir, tmp_path)
        assert found["input_ids"].to_pylist() == wanted


def spoilt(records: Records, kind: pa.DataType, row: int) -> pa.Table:
    """The records as a table, with text that is no JSON at the end of the JSON of a row."""

    def change(part: pa.Array) -> pa.Array:
        if isinstance(part.type, pa.JsonType):
            texts = part.storage.to_pylist()
            last = max(at for at, text in enumerate(texts) if text is not None)
            texts[last] += "}"
            return pa.ExtensionArray.from_storage(part.type, pa.array(texts, part.type.storage_type))
        if pa.types.is_struct(part.type):
            parts = [part.field(at) for at in range(part.type.num_fields)]
            return pa.StructArray.from_arrays([*parts[:-1], change(parts[-1])], fields=list(part.type))
        if pa.types.is_map(part.type):
            return pa.MapArray.from_arrays(part.offsets, part.keys, change(part.items), part.type)
        return type(part).from_arrays(part.offsets, change(part.values), type=part.type)

    parts = [array([record["messages"]], kind) for record in records]
    parts[row] = change(parts[row])
    return pa.table({"messages": pa.chunked_array(parts)})


def test_tools_and_arguments_for_the_template_are_values_too(tokenizer_dir: Path, tmp_path: Path) -> None:
    template = "{% for tool in tools %}{{ tool.function.name }};{% endfor %}{{ mood.x }}" + UNMARKED
    records = [
        {
            **conversation(number, {"x": 0}),
            "tools": [{"type": "function", "function": {"name": f"f{number}"}}],
            "chat_template_kwargs": {"mood": {"x": number}},
        }
        for number in range(4)
    ]
    for tools in (JSON, pa.list_(JSON)):
        rows = table(records, {"messages": JSON, "tools": tools, "chat_template_kwargs": JSON})
        found = fastpack.pack_table(rows, tokenizer_dir, **{**OPTIONS, "chat_template": template})
        assert found["input_ids"].to_pylist() == expected(
            records, tokenizer_dir, tmp_path, chat_template=template
        )


@pytest.mark.parametrize(
    "records",
    [
        [{"text": sentence(number, 4)} for number in range(5)],
        [{"input_ids": [5, 6, 7 + number], "labels": [-100, 6, -100]} for number in range(5)],
        [{"prompt": sentence(number, 2), "completion": sentence(number, 3)} for number in range(5)],
    ],
    ids=["text", "ids", "pairs"],
)
def test_records_of_other_shapes_are_values_too(
    records: Records, tokenizer_dir: Path, tmp_path: Path
) -> None:
    rows = table(records, dict.fromkeys(records[0], JSON))
    found = fastpack.pack_table(rows, tokenizer_dir, max_length=512)
    (tmp_path / "lines.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    assert found.equals(fastpack.pack_files(tmp_path / "lines.jsonl", tokenizer_dir, max_length=512))


def test_a_field_of_type_json_is_asked_for_by_its_value(tokenizer_dir: Path, tmp_path: Path) -> None:
    records = [
        {"text": sentence(number, 4), "score": [number, str(number), None][number % 3]} for number in range(9)
    ]
    rows = table(records, {"text": pa.string(), "score": JSON})
    path = rows_file(rows, tmp_path)
    options: dict[str, Any] = {
        "max_length": 512,
        "strategy": "none",
        "ranks": fastpack.Ranks(lanes=1),
        "shuffle": False,
    }
    for where, wanted in (
        ({"score": (3, None)}, [3, 6]),
        ({"score": "4"}, [4]),
        ({"score": [0, None]}, [0, 2, 5, 8]),
    ):
        found = pa.concat_tables(fastpack.stream(path, tokenizer_dir, select=where, **options))
        kept = fastpack.pack_table(
            pa.table({"text": [records[at]["text"] for at in wanted]}),
            tokenizer_dir,
            max_length=512,
            strategy="none",
        )
        assert found["input_ids"].to_pylist() == kept["input_ids"].to_pylist()


def test_a_field_that_is_asked_for_but_cannot_be_read_refuses_the_record(
    tokenizer_dir: Path, tmp_path: Path
) -> None:
    texts = [sentence(number, 4) for number in range(6)]
    invalid = pa.ExtensionArray.from_storage(JSON, pa.array(["1", "2", "{", "1", "1", "1"]))
    dates = pa.array(range(6), pa.date32())
    options: dict[str, Any] = {
        "max_length": 512,
        "strategy": "none",
        "ranks": fastpack.Ranks(lanes=1),
        "shuffle": False,
    }
    for column, row, message in ((invalid, 3, "is of type JSON"), (dates, 1, "holds a Date32")):
        path = tmp_path / "a.parquet"
        pq.write_table(pa.table({"text": texts, "score": column}), path)
        with pytest.raises(fastpack.RecordError, match=message) as refused:
            list(fastpack.stream(path, tokenizer_dir, select={"score": 1}, **options))
        assert refused.value.line == row
        assert Path(refused.value.path).name == "a.parquet"
        # Columns that nobody asks for are not read.
        assert sum(len(rows) for rows in fastpack.stream(path, tokenizer_dir, **options)) == 6


def test_a_carried_column_of_type_json_stays_one(tokenizer_dir: Path) -> None:
    records = [{"text": sentence(number, 4), "more": {"x": [number, None]}} for number in range(5)]
    rows = table(records, {"text": pa.string(), "more": JSON})
    found = fastpack.pack_table(
        rows, tokenizer_dir, max_length=64, columns=["input_ids", "seq_lengths", "source_row", "more"]
    )
    assert found.schema.field("more").type.value_type == JSON
    for sources, carried in zip(found["source_row"].to_pylist(), found["more"].to_pylist(), strict=True):
        assert [json.loads(text) for text in carried] == [records[at - 1]["more"] for at in sources]


def test_functions_see_texts_and_may_return_any(tokenizer_dir: Path, tmp_path: Path) -> None:
    records = [conversation(number, {"x": number}) for number in range(4)]
    kind = TYPES["a field of a field"]
    seen: list[Any] = []

    def shout(rows: pa.RecordBatch) -> pa.RecordBatch:
        lists = rows["messages"].to_pylist()
        for messages in lists:
            seen.append(messages[1]["tool_calls"][0]["function"]["arguments"])
            messages[0]["content"] = json.dumps(json.loads(messages[0]["content"]).upper())
        return pa.RecordBatch.from_pylist([{"messages": messages} for messages in lists])

    found = fastpack.pack_table(table(records, {"messages": kind}), tokenizer_dir, map=shout, **OPTIONS)
    for record in records:
        record["messages"][0]["content"] = record["messages"][0]["content"].upper()
    assert found["input_ids"].to_pylist() == expected(records, tokenizer_dir, tmp_path)
    assert seen == [json.dumps({"x": number}) for number in range(4)]


def test_maps_are_objects_and_their_keys_are_texts(tokenizer_dir: Path, tmp_path: Path) -> None:
    records = [conversation(number, {"x": "a", "y": "b"}) for number in range(3)]
    call = pa.struct({"name": pa.string(), "arguments": pa.map_(pa.string(), pa.string())})
    calls = pa.list_(pa.struct({"type": pa.string(), "function": call}))
    kind = pa.list_(pa.struct({"role": pa.string(), "content": pa.string(), "tool_calls": calls}))
    rows = table(records, {"messages": kind})
    found = fastpack.pack_table(rows, tokenizer_dir, **OPTIONS)
    assert found["input_ids"].to_pylist() == expected(records, tokenizer_dir, tmp_path)
    for pairs, message in (
        ([(1, "a")], "a map with keys of Int64"),
        ([("x", "a"), ("x", "b")], "a map with two keys `x`"),
    ):
        keys = pa.array([key for key, _ in pairs])
        items = pa.array([item for _, item in pairs])
        wrong = pa.MapArray.from_arrays(pa.array([0, len(pairs)], pa.int32()), keys, items)
        with pytest.raises(fastpack.RecordError, match=message):
            fastpack.pack_table(pa.table({"text": wrong}), tokenizer_dir, max_length=512)


def test_duckdb_marks_json_in_the_older_way(tokenizer_dir: Path, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    records = [conversation(number, {"x": number}) for number in range(3)]
    texts = array([json.dumps(record["messages"]) for record in records], pa.string())
    rows = pa.table({"messages": texts})  # noqa: F841  the query reads it
    path = tmp_path / "a.parquet"
    duckdb.sql(f"copy (select messages::JSON as messages from rows) to '{path}'")
    found = fastpack.pack_files(path, tokenizer_dir, **OPTIONS)
    assert found["input_ids"].to_pylist() == expected(records, tokenizer_dir, tmp_path)


def test_a_dictionary_of_json_is_refused(tokenizer_dir: Path) -> None:
    values = pa.DictionaryArray.from_arrays(pa.array([0, 0]), array(["so"], JSON))
    nested = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), values)
    for rows in (
        pa.table({"text": values}),
        pa.table({"text": nested}),
        pa.table({"text": values}).to_reader(),
    ):
        with pytest.raises(fastpack.OptionError, match="a dictionary of JSON values in `text`; decode it"):
            fastpack.pack_table(rows, tokenizer_dir, max_length=64)
    decoded = pa.table({"text": values.dictionary.take(values.indices)})
    plain = pa.table({"text": ["so", "so"]})
    assert fastpack.pack_table(decoded, tokenizer_dir, max_length=64).equals(
        fastpack.pack_table(plain, tokenizer_dir, max_length=64)
    )
