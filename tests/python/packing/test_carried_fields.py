"""Rows of one document each carry fields of the records of their files: prompts as messages, for GRPO of TRL."""

from __future__ import annotations

import gzip
import json

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from transformers_tokenizer import transformers_tokenizer

import fastpack

TEMPLATE = "{% for m in messages %}{{ m.content }}|{% endfor %}{% if add_generation_prompt %}>{% endif %}"
OPTIONS = {
    "objective": "generation",
    "chat_template": fastpack.ChatTemplate(TEMPLATE),
    "max_length": 12,
    "max_lost": "100%",
    "progress": False,
}
NAMES = ["prompt", "input_ids", "answer", "level"]

RECORDS = [
    {
        "prompt": [{"role": "user", "content": "a river " * number}],
        "answer": {"value": number, "steps": ["a"] * number},
        **({"level": number} if number % 2 else {}),
    }
    for number in range(1, 9)
]


def jsonl(path, records):
    path.write_text("\n" + "".join(json.dumps(record) + "\n" for record in records))
    return path


def parquet(path, records):
    pq.write_table(pa.Table.from_pylist(records), path, row_group_size=3)
    return path


def arrow(path, records):
    table = pa.Table.from_pylist(records)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=3)
    return path


def expected(records, tokenizer_dir):
    """The rows by `transformers`: prompts that fit, each with its own fields."""
    tokenizer = transformers_tokenizer(tokenizer_dir)
    rows = []
    for record in records:
        ids = tokenizer.apply_chat_template(
            record["prompt"], chat_template=TEMPLATE, add_generation_prompt=True, return_dict=False
        )
        if len(ids) <= OPTIONS["max_length"]:
            rows.append({name: ids if name == "input_ids" else record.get(name) for name in NAMES})
    return rows


@pytest.mark.parametrize(("write", "name"), [(jsonl, "a.jsonl"), (parquet, "a.parquet"), (arrow, "a.arrow")])
def test_rows_of_prompts_carry_messages_and_whatever_a_reward_needs(write, name, tokenizer_dir, tmp_path):
    rows = fastpack.pack_files(write(tmp_path / name, RECORDS), tokenizer_dir, columns=NAMES, **OPTIONS)
    wanted = expected(RECORDS, tokenizer_dir)
    assert 0 < len(wanted) < len(RECORDS)
    assert rows.column_names == NAMES
    assert rows.to_pylist() == wanted
    assert datasets.Dataset(rows)[1]["prompt"] == wanted[1]["prompt"]
    assert fastpack.Report.of(rows).rows == len(wanted)


def test_each_row_has_the_fields_of_its_own_file(tokenizer_dir, tmp_path):
    files = [jsonl(tmp_path / "a.jsonl", RECORDS[4:]), parquet(tmp_path / "b.parquet", RECORDS[:4])]
    rows = fastpack.pack_files(files, tokenizer_dir, columns=[*NAMES, "source_row"], **OPTIONS)
    wanted = expected(RECORDS[4:] + RECORDS[:4], tokenizer_dir)
    assert rows.drop_columns("source_row").to_pylist() == wanted


def test_texts_are_carried_too_and_rows_that_are_set_aside(tokenizer_dir, tmp_path):
    records = [{"prompt": f"river {number}", "answer": number} for number in range(20)]
    file = jsonl(tmp_path / "a.jsonl", records)
    splits = fastpack.pack_files(
        file,
        tokenizer_dir,
        columns=["prompt", "answer"],
        objective="generation",
        validation=6,
        max_length=32,
        progress=False,
    )
    assert (splits.train.num_rows, splits.validation.num_rows) == (14, 6)
    found = [row for part in splits for row in part.to_pylist()]
    assert sorted(found, key=lambda row: row["answer"]) == records


def test_what_is_not_carried_is_refused_by_name(tokenizer_dir, tmp_path):
    def refused(path, names, **more):
        with pytest.raises(fastpack.OptionError) as error:
            fastpack.pack_files(path, tokenizer_dir, columns=names, **(OPTIONS | more))
        assert error.value.option == "columns"
        return str(error.value)

    file = jsonl(tmp_path / "a.jsonl", RECORDS)
    assert "neither packed rows nor the records have `reward`" in refused(file, ["prompt", "reward"])
    packed = tmp_path / "a.jsonl.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert "not found in files of the format `jsonl.gz`" in refused(packed, ["prompt"])
    array = tmp_path / "a.json"
    array.write_text(json.dumps(RECORDS))
    assert "is an array of JSON; write its records as JSON Lines" in refused(array, ["prompt"])
    array.write_text(json.dumps(RECORDS, indent=1))
    assert "write them as JSON Lines" in refused(array, ["prompt"])
    mixed = jsonl(tmp_path / "mixed.jsonl", [{"prompt": "a", "note": 1}, {"prompt": "b", "note": "two"}])
    assert "`note` has values of several types" in refused(mixed, ["note"])
    # Rows that hold several documents have no place for a field of one.
    said = refused(file, ["prompt"], objective="causal")
    assert 'must be one of "input_ids"' in said
    for call in (
        lambda: fastpack.pack_dir(
            file, tmp_path / "packed", tokenizer=tokenizer_dir, columns=["prompt"], **OPTIONS
        ),
        lambda: list(
            fastpack.stream(file, tokenizer=tokenizer_dir, columns=["prompt"], **OPTIONS, batch_size=1)
        ),
    ):
        with pytest.raises(
            fastpack.OptionError, match="rows in memory carry fields of their records: `pack_files`"
        ):
            call()
    with pytest.raises(
        fastpack.OptionError, match="rows in memory carry fields of their records: `pack_files`"
    ):
        fastpack.pack_records(RECORDS, tokenizer_dir, columns=["prompt"], **OPTIONS)
