"""Records that are a little odd: they are read as others read them, or refused with the message, the key and a remedy."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nested import flat

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Record = dict[str, Any]

PLAIN = "{% for m in messages %}<|start|>{{ m['role'] + '\n' + m['content'] }}<|end|>\n{% endfor %}"
PRINTS = PLAIN.replace("+ '\n' + m['content'] }}", "}}\n{{ m['content'] }}")
STRICT = (
    "{% for m in messages %}{% if m.role not in ['user', 'assistant'] %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}{{ m.content + '|' }}{% endfor %}"
)


def refusals(records: list[Record], tokenizer: Path, folder: Path, **options: Any) -> Iterator[str]:
    """The messages of all calls about records that they refuse."""
    given: Any = {"max_length": 128, **options}
    path = folder / "records.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    table = pa.Table.from_pylist(records) if have_one_type(records) else None
    calls: list[Callable[[], object]] = [
        lambda: flat.pack_files(path, tokenizer, **given),
        lambda: flat.pack_dir(path, folder / "packed", tokenizer=tokenizer, **given),
        lambda: flat.pack_records(records, tokenizer, **given),
        *([lambda: flat.pack_table(table, tokenizer, **given)] if table else []),
        lambda: list(flat.stream(path, tokenizer, epochs=1, **given)),
    ]
    for call in calls:
        with pytest.raises(fastpack.RecordError) as refused:
            call()
        yield str(refused.value)
    scanned = flat.scan(path, tokenizer, **given)
    [lost] = scanned.lost.values()
    yield lost.places[0].message


def have_one_type(records: list[Record]) -> bool:
    """True if the messages have one type in all records."""
    contents = [message.get("content") for record in records for message in record["messages"]]
    return not any(isinstance(content, dict) for content in contents)


def talk(message: Record) -> list[Record]:
    first = [{"role": "user", "content": "the river"}, {"role": "assistant", "content": "a boat"}]
    return [{"messages": [*first, {"role": "user", **message}, {"role": "assistant", "content": "a town"}]}]


@pytest.mark.parametrize(
    ("message", "template", "told"),
    [
        ({"content": None}, PLAIN, "message 2 has null as `content`, which chat template"),
        ({}, PLAIN, "message 2 has no `content`, which chat template"),
        ({"text": "hello"}, PLAIN, "message 2 has no `content` but a `text`, of which chat template"),
        ({"text": "hello"}, PRINTS, "message 2 has no `content` but a `text`, of which chat template"),
        ({"content": None, "value": "hi"}, PRINTS, "message 2 has no `content` but a `value`"),
        ({"content": {"text": "hello"}}, PLAIN, "message 2 has an object as `content`, which chat template"),
    ],
    ids=str,
)
def test_a_message_that_says_nothing_is_named_with_its_key(
    message: Record, template: str, told: str, tokenizer_dir: Path, tmp_path: Path
) -> None:
    for said in refusals(talk(message), tokenizer_dir, tmp_path, chat_template=template):
        # A table has every key in every message, null where a record has none.
        assert told in said.replace("null as `content`,", "no `content`,") or told in said, said
        assert "a `map` can" in said
        assert "concatenate" not in said


def test_messages_of_prompts_are_named_too(tokenizer_dir: Path) -> None:
    asked, answer = [{"role": "user", "content": None}], [{"role": "assistant", "content": "b"}]
    records = [
        ({"prompt": asked, "chosen": answer, "rejected": answer}, "preference"),
        ({"messages": [*asked, *answer]}, "generation"),
    ]
    for record, objective in records:
        given: Any = {"max_length": 64, "chat_template": PLAIN, "objective": objective}
        with pytest.raises(fastpack.RecordError, match="message 0 has null as `content`"):
            flat.pack_records([record], tokenizer_dir, **given)


def test_content_that_the_template_takes_is_no_fault(tokenizer_dir: Path) -> None:
    call = {"type": "function", "function": {"name": "see", "arguments": {}}}
    messages = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "c"},
        {"role": "assistant", "content": "d", "text": "e"},
    ]
    template = (
        "{% for m in messages %}{{ m.role }}: {% if m.tool_calls %}{{ m.tool_calls | tojson }}"
        "{% else %}{{ m.content + '|' }}{% endif %}{% endfor %}"
    )
    table = flat.pack_records([{"messages": messages}], tokenizer_dir, max_length=256, chat_template=template)
    assert table.num_rows == 1


@pytest.mark.parametrize(
    ("role", "meant"),
    [
        ("gpt", "assistant"),
        ("Human", "user"),
        ("prompter", "user"),
        ("ChatGPT", "assistant"),
        ("model", "assistant"),
    ],
)
@pytest.mark.parametrize("template", [PLAIN, PRINTS, STRICT])
def test_a_role_of_another_format_is_answered_with_the_usual_one(
    role: str, meant: str, template: str, tokenizer_dir: Path, tmp_path: Path
) -> None:
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    messages[meant == "assistant"]["role"] = role
    for said in refusals([{"messages": messages}], tokenizer_dir, tmp_path, chat_template=template):
        assert f"has the role `{role}`" in said
        assert f"`{meant}` is meant?" in said


def test_a_template_that_only_tells_of_models_has_no_role_of_that_name(
    tokenizer_dir: Path, tmp_path: Path
) -> None:
    """Llama's templates write `You are a model` and end prompts with `assistant`; Gemma's end them with `model`."""
    messages = [{"role": "user", "content": "a"}, {"role": "model", "content": "b"}]
    prose = (
        "{% if tools %}You are a model with functions.{% endif %}"
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}"
    )
    for said in refusals([{"messages": messages}], tokenizer_dir, tmp_path, chat_template=prose):
        assert "`assistant` is meant?" in said
    prompts = prose.replace("<assistant>", "<model>")
    options = {"max_length": 64, "chat_template": prompts}
    assert flat.pack_records([{"messages": messages}], tokenizer_dir, **options).num_rows == 1


def test_a_content_that_is_missing_is_named_beside_another_fault(tokenizer_dir: Path, tmp_path: Path) -> None:
    """The template fails at the first of two faults, and would fail at the second too."""
    messages = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "tool_calls": [], "content": None},
        {"role": "tool", "content": "b"},
    ]
    for said in refusals([{"messages": messages}], tokenizer_dir, tmp_path, chat_template=STRICT):
        assert "message 1 has null as `content`" in said


def test_a_role_that_a_template_refuses_is_named(tokenizer_dir: Path, tmp_path: Path) -> None:
    messages = [{"role": "customer", "content": "a"}, {"role": "assistant", "content": "b"}]
    for said in refusals([{"messages": messages}], tokenizer_dir, tmp_path, chat_template=STRICT):
        assert "roles must alternate; message 0 has the role `customer`" in said


BINARY = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.dictionary(pa.int32(), pa.binary())]


@pytest.mark.parametrize("kind", BINARY, ids=str)
def test_binary_columns_of_text_are_read_as_text(kind: Any, tokenizer_dir: Path, tmp_path: Path) -> None:
    texts = ["the river", "日本語 🙂", "a town\n"]
    plain = pa.table({"text": texts})
    table = pa.table({"text": pa.array([text.encode() for text in texts], pa.binary()).cast(kind)})
    given: Any = {"max_length": 64, "strategy": "none", "columns": ["input_ids", "labels"]}
    expected = flat.pack_table(plain, tokenizer_dir, **given).to_pylist()
    assert flat.pack_table(table, tokenizer_dir, **given).to_pylist() == expected
    kept = {"filter": lambda rows: pa.array([True] * rows.num_rows)}
    assert flat.pack_table(table, tokenizer_dir, **kept, **given).to_pylist() == expected
    if kind == BINARY[2]:
        return
    pq.write_table(table, tmp_path / "texts.parquet")
    assert flat.pack_files(tmp_path / "texts.parquet", tokenizer_dir, **given).to_pylist() == expected
    stream = flat.stream(tmp_path / "texts.parquet", tokenizer_dir, epochs=1, shuffle=False, **given)
    assert [row for batch in stream for row in batch.to_pylist()] == expected


@pytest.mark.parametrize("kind", [pa.binary(9), pa.dictionary(pa.int32(), pa.binary(9))], ids=str)
def test_binary_columns_of_one_width_are_read_as_text(kind: Any, tokenizer_dir: Path, tmp_path: Path) -> None:
    texts = ["the river", "日本語", "a town\n\t "]
    assert {len(text.encode()) for text in texts} == {9}
    fixed = pa.array([text.encode() for text in texts], pa.binary(9))
    column = fixed.dictionary_encode() if pa.types.is_dictionary(kind) else fixed
    given: Any = {"max_length": 64, "strategy": "none", "columns": ["input_ids", "labels"]}
    expected = flat.pack_table(pa.table({"text": texts}), tokenizer_dir, **given).to_pylist()
    assert flat.pack_table(pa.table({"text": column}), tokenizer_dir, **given).to_pylist() == expected
    pq.write_table(pa.table({"text": fixed}), tmp_path / "texts.parquet")
    assert flat.pack_files(tmp_path / "texts.parquet", tokenizer_dir, **given).to_pylist() == expected
    broken = pa.table({"text": pa.array([b"caf\xe9 noir"], pa.binary(9))})
    with pytest.raises(fastpack.RecordError, match="byte 4 is not UTF-8"):
        flat.pack_table(broken, tokenizer_dir, **given)


def test_conversations_in_binary_are_those_in_text(tokenizer_dir: Path) -> None:
    messages = [{"role": "user", "content": "日本"}, {"role": "assistant", "content": "a boat"}]
    of = lambda kind: pa.list_(pa.struct([("role", kind), ("content", kind)]))  # noqa: E731
    expected = flat.pack_table(pa.table({"messages": [messages]}), tokenizer_dir, max_length=64)
    binary = [{key: text.encode() for key, text in message.items()} for message in messages]
    as_json = [json.dumps(messages).encode()]
    for column in (pa.array([binary], of(pa.binary())), pa.array(as_json, pa.binary())):
        packed = flat.pack_table(pa.table({"messages": column}), tokenizer_dir, max_length=64)
        assert packed["input_ids"] == expected["input_ids"]
        assert packed["labels"] == expected["labels"]


def test_binary_that_is_no_text_is_refused_with_the_remedy(tokenizer_dir: Path) -> None:
    table = pa.table({"text": pa.array([b"a river", b"caf\xe9"], pa.binary())})
    with pytest.raises(fastpack.RecordError) as refused:
        flat.pack_table(table, tokenizer_dir, max_length=64)
    assert refused.value.line == 2
    assert "`text` holds bytes that are no text: byte 4 is not UTF-8; decode them with `map`" in str(
        refused.value
    )
    assert refused.value.reason == "invalid_utf8"
    assert 'on_bad_record="skip" leaves such records out, and counts them' in str(refused.value)
    kept = flat.pack_table(table, tokenizer_dir, max_length=64, on_bad_record="skip", max_lost="100%")
    assert fastpack.Report.of(kept).dropped["invalid_utf8"].documents == 1
    decoded = flat.pack_table(
        table,
        tokenizer_dir,
        max_length=64,
        map=lambda rows: pa.record_batch({"text": [it.as_py().decode("latin-1") for it in rows["text"]]}),
    )
    texts = pa.table({"text": ["a river", "café"]})
    assert decoded["input_ids"] == flat.pack_table(texts, tokenizer_dir, max_length=64)["input_ids"]


def test_zeros_behind_the_end_of_gzip_are_padding(tokenizer_dir: Path, tmp_path: Path) -> None:
    lines = [json.dumps({"text": f"the river {number}"}).encode() + b"\n" for number in range(50)]
    path = tmp_path / "texts.jsonl.gz"
    given: Any = {"max_length": 64}
    path.write_bytes(gzip.compress(b"".join(lines)))
    expected = flat.pack_files(path, tokenizer_dir, **given)["input_ids"]
    members = gzip.compress(b"".join(lines[:20])) + gzip.compress(b"".join(lines[20:]))
    for padding in (1, 511, 300_000):
        path.write_bytes(members + bytes(padding))
        assert flat.pack_files(path, tokenizer_dir, **given)["input_ids"] == expected
        stream = flat.stream(path, tokenizer_dir, epochs=1, lanes=1, **given)
        assert sum(batch.num_rows for batch in stream) == len(expected)
    for behind in (bytes(9) + gzip.compress(lines[0]), bytes(9) + b"x", b"x"):
        path.write_bytes(members + behind)
        with pytest.raises(fastpack.RecordError) as refused:
            flat.pack_files(path, tokenizer_dir, **given)
        assert refused.value.reason == "damaged"


HALF = '{"text": "the river", "note": "x\\ud83d", "more": ["\\ud83d\\ude42", {"a": "\\udc00\\\\u"}]}'


def test_half_a_surrogate_pair_in_a_field_that_nobody_reads_costs_nothing(
    tokenizer_dir: Path, tmp_path: Path
) -> None:
    path = tmp_path / "texts.jsonl"
    given: Any = {"max_length": 64, "strategy": "none"}
    path.write_text('{"text": "the river"}\n{"text": "a town"}\n')
    expected = flat.pack_files(path, tokenizer_dir, **given)["input_ids"]
    for lines in ((HALF, '{"text": "a town"}'), (HALF, HALF.replace("the river", "a town"))):
        path.write_text("\n".join(lines))
        table = flat.pack_files(path, tokenizer_dir, **given)
        assert table["input_ids"] == expected
        assert fastpack.Report.of(table).dropped == {}
        flat.pack_dir(path, tmp_path / "packed", tokenizer=tokenizer_dir, overwrite=True, **given)
        assert fastpack.read(tmp_path / "packed")["input_ids"] == expected
        stream = flat.stream(path, tokenizer_dir, epochs=1, lanes=1, shuffle=False, **given)
        assert [ids for batch in stream for ids in batch["input_ids"].to_pylist()] == expected.to_pylist()
        assert flat.scan(path, tokenizer_dir, max_length=64).lost == {}
        records = [json.loads(line) for line in lines]
        table = flat.pack_records(records, tokenizer_dir, **given)
        assert table["input_ids"] == expected


def test_half_a_surrogate_pair_that_is_read_is_refused(tokenizer_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    given: Any = {"max_length": 64}
    read = HALF.replace("the river", "the \\ud83d")
    path.write_text('{"text": "a town"}\n' + read)
    with pytest.raises(fastpack.RecordError, match="half a surrogate pair") as refused:
        flat.pack_files(path, tokenizer_dir, **given)
    assert refused.value.line == 2
    # Functions read every field.
    path.write_text(HALF + "\n" + '{"text": "a town"}\n')
    keeps: Any = {"filter": lambda rows: pa.array([True] * rows.num_rows)}
    with pytest.raises(fastpack.RecordError, match="half a surrogate pair") as refused:
        flat.pack_files(path, tokenizer_dir, **keeps, **given)
    assert refused.value.line == 1


def test_half_a_surrogate_pair_in_a_text_that_is_left_out_is_told(
    tokenizer_dir: Path, tmp_path: Path
) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": "the river", "completion": "an answer \\ud83d"}\n')
    scanned = flat.scan(path, tokenizer_dir, max_length=64)
    assert "completion" in scanned.left_out


def test_metadata_of_a_table_that_is_no_text_is_left_out(tokenizer_dir: Path) -> None:
    table = pa.table({"text": ["the river", "a town"]})
    given: Any = {"max_length": 64}
    expected = fastpack.pack_table(table, tokenizer_dir, **given)["input_ids"]
    spoilt = table.replace_schema_metadata({b"key": b"\x93"})
    assert fastpack.pack_table(spoilt, tokenizer_dir, **given)["input_ids"] == expected
    field = pa.field("text", pa.string(), metadata={b"key": b"\x93"})
    with pytest.raises(fastpack.OptionError, match=r"`table`: cannot be taken over: .*invalid utf-8"):
        fastpack.pack_table(pa.table(table.columns, schema=pa.schema([field])), tokenizer_dir, **given)


def test_bytes_of_text_in_a_record_are_text_as_in_a_column(tokenizer_dir: Path) -> None:
    words = "déjà vu"
    rows = [
        flat.pack_records([{"text": text, "digest": b"\xff"}], tokenizer_dir, max_length=64)
        for text in (words, words.encode())
    ]
    assert rows[0]["input_ids"] == rows[1]["input_ids"]
    table = pa.table({"text": [words.encode()]})
    assert flat.pack_table(table, tokenizer_dir, max_length=64)["input_ids"] == rows[0]["input_ids"]
