"""`overlong="trim"`: a conversation that is too long ends after the last turn of the assistant that fits."""

from __future__ import annotations

import json
import shutil

import pyarrow as pa
import pytest
from conftest import sentence
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from rows import balanced

import fastpack


def talk(words):
    """Turns of the user and the assistant, by their numbers of words."""
    return {
        "messages": [
            {"role": ("user", "assistant")[at % 2], "content": sentence(at, count)}
            for at, count in enumerate(words)
        ]
    }


@pytest.fixture(scope="module", params=["generation", "derived"])
def folder(request, tokenizer_dir, tmp_path_factory):
    """A tokenizer whose template marks the assistant's text, and one whose does not."""
    if request.param == "generation":
        return tokenizer_dir
    folder = tmp_path_factory.mktemp("plain")
    shutil.copytree(tokenizer_dir, folder, dirs_exist_ok=True)
    text = (
        "{% for message in messages %}<|start|>{{ message.role }}\n{{ message.content }}<|end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
    )
    (folder / "chat_template.jinja").write_text(text, encoding="utf-8")
    return folder


def whole(folder, path, **options):
    """Each conversation as a row of its own."""
    table = fastpack.pack_files(path, folder, max_length=4096, strategy="none", **options)
    return table["input_ids"].to_pylist()


@example(talks=[[1, 1], [11, 12, 12]], train_on="auto")
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    talks=st.lists(st.lists(st.integers(1, 12), min_size=2, max_size=8), min_size=1, max_size=4),
    train_on=st.sampled_from(["auto", "all"]),
)
def test_what_is_left_is_the_longest_shorter_conversation_that_fits(talks, train_on, folder, write_jsonl):
    path = write_jsonl(map(talk, talks))
    options = {"train_on": train_on}
    expected = []
    for words in talks:
        # The conversation, and its rest as turns go; each as the template renders it.
        shorter = [words[:count] for count in range(len(words) - len(words) % 2, 0, -2)]
        rendered = whole(folder, write_jsonl(map(talk, [words, *shorter]), "shorter.jsonl"), **options)
        # The white space behind a turn is no part of it, and goes if it does not fit; the rest of the conversation ends with a
        # turn
        # of the assistant.
        cuts = [rendered[0], *(cut for ids in rendered[1:] for cut in (ids, ids[:-1]))]
        expected += [ids for ids in cuts if len(ids) <= 64][:1]
    table = fastpack.pack_files(path, folder, max_length=64, strategy="none", overlong="trim", **options)
    assert table["input_ids"].to_pylist() == expected
    report = fastpack.Report.of(table)
    assert balanced(report)
    assert report.documents.dropped == len(talks) - len(expected)


def test_the_tokens_cut_off_are_counted_and_labels_stay(folder, write_jsonl):
    path = write_jsonl([talk([3, 5, 3, 40])])
    (ids,) = whole(folder, path)
    (labels,) = fastpack.pack_files(path, folder, max_length=4096)["labels"].to_pylist()
    table = fastpack.pack_files(path, folder, max_length=64, overlong="trim")
    row = table.to_pylist()[0]
    kept = len(row["input_ids"])
    assert row["input_ids"] == ids[:kept]
    assert row["labels"] == labels[:kept]
    report = fastpack.Report.of(table)
    assert report.truncated == (1, len(ids) - kept)


def test_what_cannot_be_trimmed_is_dropped(folder, write_jsonl):
    texts = [{"text": sentence(1, 200)}]
    talks = [talk([60, 3, 2, 2]), {**talk([2, 2]), "messages": talk([2, 80])["messages"]}]
    paths = [write_jsonl(talks, "talks.jsonl"), write_jsonl(texts, "texts.jsonl")]
    table = fastpack.pack_files(paths, folder, max_length=64, overlong="trim", max_lost="100%")
    report = fastpack.Report.of(table)
    assert table.num_rows == 0
    assert report.dropped["too_long"].documents == 3
    assert balanced(report)


def test_only_the_last_turn_is_trained_so_nothing_is_left_to_trim(folder, write_jsonl):
    path = write_jsonl([talk([3, 5, 3, 80])])
    options = {"max_length": 64, "overlong": "trim", "max_lost": "100%"}
    table = fastpack.pack_files(path, folder, turns="last", **options)
    assert table.num_rows == 0
    assert fastpack.Report.of(table).dropped["no_trained_token"].documents == 1


def test_streams_trim_as_tables_do(folder, write_jsonl):
    path = write_jsonl([talk([3, 5, 3, at]) for at in range(1, 60, 3)])
    options = {"max_length": 64, "strategy": "sequential", "overlong": "trim"}
    table = fastpack.pack_files(path, folder, **options)
    stream = fastpack.stream(path, folder, **options, shuffle=False, ranks=fastpack.Ranks(lanes=1))
    assert pa.concat_tables(stream).to_pylist() == table.to_pylist()


def test_a_first_token_of_ours_does_not_move_the_cut(tokenizer_dir, tmp_path, write_jsonl):
    folder = tmp_path / "with-bos"
    shutil.copytree(tokenizer_dir, folder)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "bos_token": "<|endoftext|>"}))
    path = write_jsonl([talk([3, 5, 3, 40])])
    options = {"max_length": 64, "overlong": "trim"}
    plain = fastpack.pack_files(path, folder, **options).to_pylist()[0]
    begun = fastpack.pack_files(
        path, folder, **options, special_tokens=fastpack.SpecialTokens(bos=True)
    ).to_pylist()[0]
    assert begun["input_ids"] == [0, *plain["input_ids"]]


def test_lengths_alone_have_no_turns():
    assert fastpack.plan([9, 3], max_length=8, overlong="trim").dropped.tolist() == [0]
