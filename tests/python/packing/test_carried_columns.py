"""Rows carry further columns of the table that they are packed from: values of tokens and of documents."""

from __future__ import annotations

import re

import datasets
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastpack

FORM = {"progress": False, "padding": fastpack.Padding(token_id=0), "max_lost": "100%"}


def table_of(lengths, seed=0):
    """Documents of ids, each with a value for each token that is a thousandth of the id, and a name."""
    random = np.random.default_rng(seed)
    ids = [random.integers(1, 90_000, length).tolist() for length in lengths]
    return pa.table(
        {
            "input_ids": ids,
            "reward": [[token / 1000 for token in each] for each in ids],
            "kind": [[str(token) for token in each] for each in ids],
            "name": [f"document {number}" for number in range(len(ids))],
        }
    )


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=20),
    st.sampled_from(["mix", "best_fit", "sequential", "concat", "none"]),
    st.sampled_from(["drop", "truncate", "split"]),
    st.sampled_from(["left", "right"]),
    st.sampled_from([{}, {"padding": fastpack.Padding("max_length", token_id=0)}, {"strategy": fastpack.Mix(align_to=8)}, {"padding": fastpack.Padding("max_length", side="left", token_id=0)}]),
)  # fmt: skip
def test_each_token_and_document_keeps_its_values(lengths, strategy, overlong, side, padding):
    options = {**FORM, "max_length": 16, "strategy": strategy, **padding}
    if strategy != "concat":
        options["overlong"] = fastpack.Truncate(side=side) if overlong == "truncate" else overlong
    names = ["input_ids", "reward", "kind", "name", "seq_lengths", "unpadded_lengths"]
    table = table_of(lengths)
    rows = fastpack.pack_table(table, columns=names, **options)
    assert rows.column_names == names
    whole = dict(zip(table["name"].to_pylist(), table["input_ids"].to_pylist(), strict=True))
    for row in rows.to_pylist():
        at = 0
        for length, real, name in zip(row["seq_lengths"], row["unpadded_lengths"], row["name"], strict=True):
            ids = row["input_ids"][at : at + real]
            assert row["reward"][at : at + length] == [id_ / 1000 for id_ in ids] + [None] * (length - real)
            assert row["kind"][at : at + length] == [str(id_) for id_ in ids] + [None] * (length - real)
            # The ids are a part of the document that is named, and padding has no name.
            text = f", {', '.join(map(str, whole.get(name, [])))},"
            assert (f", {', '.join(map(str, ids))}," in text) if real else name is None
            at += length


def test_the_other_columns_are_those_without_them():
    table = table_of([5, 9, 3, 12])
    plain = fastpack.pack_table(table, max_length=16, **FORM)
    rows = fastpack.pack_table(table, max_length=16, columns=[*plain.column_names, "name"], **FORM)
    assert rows.drop_columns("name").equals(plain)
    assert datasets.Dataset(rows)[0]["name"] == rows["name"][0].as_py()
    assert rows.schema.metadata[b"fastpack"]


@pytest.mark.parametrize(
    "form",
    [
        lambda table: table.to_batches()[0],
        lambda table: pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=2)),
        datasets.Dataset,
        lambda table: pa.concat_tables([table[:2], table[2:]]),
    ],
)
def test_tables_of_every_kind_carry(form):
    table = table_of([5, 9, 3, 12, 7])
    names = ["input_ids", "reward", "name"]
    expected = fastpack.pack_table(table, max_length=16, columns=names, **FORM)
    assert (
        fastpack.pack_table(form(table), max_length=16, columns=names, **FORM).to_pylist()
        == expected.to_pylist()
    )


def test_texts_carry_values_of_documents(tokenizer_dir):
    table = pa.table({"text": ["one river", "two boats on it", "three"], "source": ["a", "b", "c"]})
    rows = fastpack.pack_table(
        table,
        tokenizer=tokenizer_dir,
        max_length=64,
        columns=["input_ids", "source", "source_row"],
        progress=False,
    )
    assert sorted(rows["source"].to_pylist()[0]) == ["a", "b", "c"]
    places = [["a", "b", "c"][row - 1] for row in rows["source_row"].to_pylist()[0]]
    assert rows["source"].to_pylist()[0] == places


def test_documents_that_are_set_aside_carry_too():
    table = table_of([5] * 20)
    splits = fastpack.pack_table(table, max_length=16, validation=4, columns=["input_ids", "name"], **FORM)
    names = [name for part in splits for row in part["name"].to_pylist() for name in row]
    assert sorted(names) == sorted(table["name"].to_pylist())
    assert sum(map(len, splits.validation["name"].to_pylist())) == 4


def test_rows_of_prompts_carry_messages_and_whatever_a_reward_needs(tokenizer_dir):
    """The rows are a data set for `GRPOTrainer` of TRL: each has its prompt as it was, and the ids that it has there."""
    from transformers_tokenizer import transformers_tokenizer

    prompts = [[{"role": "user", "content": "a river " * number}] for number in range(1, 9)]
    table = pa.table(
        {
            "prompt": prompts,
            "answer": [{"value": number, "steps": ["a"] * number} for number in range(8)],
            "level": [None, *range(7)],
        }
    )
    template = "{% for m in messages %}{{ m.content }}|{% endfor %}{% if add_generation_prompt %}>{% endif %}"
    rows = fastpack.pack_table(
        pa.concat_tables([table[:3], table[3:]]),
        tokenizer_dir,
        objective="generation",
        chat_template=fastpack.ChatTemplate(template),
        columns=["prompt", "input_ids", "answer", "level"],
        max_length=12,
        max_lost="100%",
        progress=False,
    )
    assert rows.column_names == ["prompt", "input_ids", "answer", "level"]
    tokenizer = transformers_tokenizer(tokenizer_dir)
    ids = [
        tokenizer.apply_chat_template(
            prompt, chat_template=template, add_generation_prompt=True, return_dict=False
        )
        for prompt in prompts
    ]
    fitting = [at for at, each in enumerate(ids) if len(each) <= 12]
    assert 0 < len(fitting) < len(prompts)
    assert rows["input_ids"].to_pylist() == [ids[at] for at in fitting]
    assert rows.drop_columns("input_ids").to_pylist() == table.take(fitting).to_pylist()
    assert datasets.Dataset(rows)[1]["prompt"] == prompts[fitting[1]]


@pytest.mark.parametrize(
    ("objective", "records"),
    [
        ("generation", [{"prompt": f"river {number}"} for number in range(9)]),
        ("classification", [{"text": f"river {number}", "label": number % 2} for number in range(9)]),
        (
            "preference",
            [{"prompt": "a", "chosen": f"river {number}", "rejected": "boat"} for number in range(9)],
        ),
        (
            fastpack.Preference(form="kto"),
            [{"prompt": "a", "completion": f"river {number}", "label": True} for number in range(9)],
        ),
    ],
)
@pytest.mark.parametrize("validation", [None, 3])
def test_a_row_of_one_document_carries_its_value(objective, records, validation, tokenizer_dir):
    table = pa.Table.from_pylist([{**record, "note": [{"n": at}]} for at, record in enumerate(records)])
    options = {"objective": objective, "max_length": 64, "validation": validation, "progress": False}
    names = ["source_row", "note"]
    made = fastpack.pack_table(table, tokenizer_dir, columns=names, **options)
    found = [row for part in ([made] if validation is None else made) for row in part.to_pylist()]
    assert all(row["note"] == [{"n": row["source_row"][0] - 1}] for row in found)
    assert sorted(row["note"][0]["n"] for row in found) == list(range(9))


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        (
            {},
            {"columns": ["input_ids", "rewards"]},
            "neither packed rows nor the table have `rewards`; .* `reward`",
        ),
        ({}, {"output": "folder"}, "`reward` is a column of the table, which rows in memory carry alone"),
        ({"reward": [[1.0], [2.0]]}, {}, "`reward` has 1 values in row 1 of the table, but `input_ids` 5"),
        ({"reward": [None, [2.0] * 9]}, {}, "`reward` has -1 values in row 1"),
        ({"attention_mask": [[1] * 5, [1] * 9]}, {}, "`reward` holds lists, .* without an `attention_mask`"),
    ],
)
def test_columns_that_cannot_be_carried_are_refused(tmp_path, change, options, said):
    table = table_of([5, 9])
    for name, values in change.items():
        table = (table.drop_columns(name) if name in table.column_names else table).append_column(
            name, pa.array(values)
        )
    if "output" in options:
        options = {"output": tmp_path / "folder"}
    with pytest.raises(fastpack.OptionError, match=rf"`columns`: {said}"):
        fastpack.pack_table(
            table, **{"columns": ["input_ids", "reward"], "max_length": 16, **FORM, **options}
        )


def test_the_columns_that_there_are_are_listed_once():
    with pytest.raises(fastpack.OptionError) as refused:
        fastpack.pack_table(table_of([5]), **{"columns": ["input_ids", "rewards"], "max_length": 16, **FORM})
    listed = re.findall("`([^`]+)`", str(refused.value).partition("they have ")[2])
    assert {"input_ids", "labels", "reward"} <= {*listed}
    assert len(listed) == len({*listed})
