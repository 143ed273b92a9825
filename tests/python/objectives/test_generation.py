"""Prompts to be answered: their ids are those of `apply_chat_template` with a generation prompt."""

from __future__ import annotations

import pyarrow as pa
import pytest
from conftest import conversation, sentence
from nested import place
from rows import table_of
from test_preference import folder, user
from transformers_tokenizer import transformers_tokenizer

import fastpack

transformers = pytest.importorskip("transformers")


__all__ = ["folder"]


def asked(folder, messages):
    """The ids of a prompt by `transformers`."""
    tokenizer = transformers_tokenizer(folder)
    return tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)


def packed(folder, records, **options):
    return fastpack.pack_records(records, folder, objective="generation", **options)


def test_rows_are_prompts_in_input_order_with_the_line_of_each(folder, write_jsonl):
    records = [conversation(number) for number in range(30)]
    rows = fastpack.pack_files(write_jsonl(records), folder, objective="generation")
    assert rows.column_names == ["input_ids", "source_file", "source_row"]
    assert rows["input_ids"].to_pylist() == [asked(folder, record["messages"]) for record in records]
    assert rows["source_row"].to_pylist() == [[line] for line in range(1, 31)]


def test_a_prompt_is_a_text_or_messages_and_its_answer_is_not_read(folder):
    messages = [{"prompt": [user(number)], "completion": "no"} for number in range(5)]
    assert packed(folder, messages)["input_ids"].to_pylist() == [
        asked(folder, record["prompt"]) for record in messages
    ]
    tokenizer = transformers_tokenizer(folder)
    texts = [{"prompt": sentence(number, 5), "answer": 3} for number in range(5)]
    assert packed(folder, texts)["input_ids"].to_pylist() == [
        tokenizer(record["prompt"])["input_ids"] for record in texts
    ]


def test_questions_are_asked_as_the_chat_template_has_them(folder):
    records = [{"question": "the river", "answer": "a town"}, {"question": "a boat", "answer": "old"}]
    assert packed(folder, records)["input_ids"].to_pylist() == [
        asked(folder, [{"role": "user", "content": record["question"]}]) for record in records
    ]


def test_padded_rows_have_an_attention_mask(folder):
    records = [conversation(number) for number in range(12)]
    prompts = [asked(folder, record["messages"]) for record in records]
    longest = max(map(len, prompts))
    rows = packed(folder, records, max_length=longest, padding=fastpack.Padding("max_length", side="left"))
    assert rows.column_names == ["input_ids", "attention_mask", "source_file", "source_row"]
    for row, prompt in zip(rows.to_pylist(), prompts, strict=True):
        filled = longest - len(prompt)
        assert row["attention_mask"] == [0] * filled + [1] * len(prompt)
        assert row["input_ids"][filled:] == prompt


def test_prompts_that_are_too_long_are_dropped_or_cut_at_their_beginning(folder):
    records = [conversation(number) for number in range(12)]
    prompts = [asked(folder, record["messages"]) for record in records]
    limit = sorted(map(len, prompts))[6]
    rows = packed(folder, records, max_length=limit, max_lost=1.0)
    assert rows["input_ids"].to_pylist() == [prompt for prompt in prompts if len(prompt) <= limit]
    cut = packed(folder, records, max_length=limit, overlong=fastpack.Truncate(side="left"))
    assert cut["input_ids"].to_pylist() == [prompt[-limit:] for prompt in prompts]


def test_every_way_gives_the_same_rows(folder, write_jsonl, tmp_path):
    records = [conversation(number) for number in range(60)]
    path = write_jsonl(records)
    options = {"objective": "generation", "columns": ["input_ids", "source_row"]}
    wanted = fastpack.pack_files(path, folder, **options, threads=1).to_pylist()
    for threads in (2, 8):
        assert fastpack.pack_files(path, folder, **options, threads=threads).to_pylist() == wanted
    assert fastpack.pack_records(iter(records), folder, **options).to_pylist() == wanted
    assert fastpack.pack_table(pa.Table.from_pylist(records), folder, **options).to_pylist() == wanted
    fastpack.pack_dir(path, tmp_path / "out", tokenizer=folder, **options, keep_tokens=True)
    assert table_of(tmp_path / "out").to_pylist() == wanted
    assert fastpack.verify(tmp_path / "out").problems == ()
    fastpack.repack(tmp_path / "out", tmp_path / "again", **options)
    assert table_of(tmp_path / "again").to_pylist() == wanted
    streamed = fastpack.stream(path, folder, **options, shuffle=False, ranks=fastpack.Ranks(lanes=1))
    assert [row for table in streamed for row in table.to_pylist()] == wanted


def test_ids_are_taken_as_they_are():
    rows = packed(None, [{"input_ids": [5]}, {"input_ids": [1, 2, 3], "labels": [-100, -100, -100]}])
    assert rows["input_ids"].to_pylist() == [[5], [1, 2, 3]]


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"train_on": "all"}, "train_on"),
        ({"special_tokens": fastpack.SpecialTokens(eos=True)}, "eos"),
        ({"strategy": "heap"}, "strategy"),
        ({"strategy": "mix"}, "strategy"),
        ({"strategy": "best_fit"}, "strategy"),
        ({"overlong": "trim"}, "overlong"),
        ({"columns": ["labels"]}, "columns"),
        ({"reading": "preference"}, "shape"),
    ],
)
def test_an_option_that_means_nothing_is_refused(folder, options, option):
    with pytest.raises(fastpack.OptionError) as refused:
        packed(folder, [conversation(1)], **{"max_length": 64} | options)
    assert refused.value.option == place(option)
