"""A text ends once, whoever wrote its end, and its end is trained as it was asked for."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import fastpack

END = "<|endoftext|>"
ENDED = (
    "{% for message in messages %}<|start|>{{ message['role'] }}{{ '\n' }}{{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant{{ '\n' }}{% endif %}"
)
STRINGS = ENDED.replace("message['content']", "message['content'] + ''")
UNENDED = ENDED.replace("{{ eos_token }}", "<|end|>")
PAIRS = [
    {"question": "a river", "answer": "b"},
    {"instruction": "a river", "output": "b"},
]


def packed(records: list[dict[str, Any]], tokenizer: Any, **options: Any) -> list[tuple[str, str]]:
    """The text of each record, and its trained part."""
    given: Any = {"max_length": 512, "strategy": "none", "columns": ["input_ids", "labels"], **options}
    decoder = fastpack.Tokenizer(tokenizer)
    rows = fastpack.pack_records(records, tokenizer, **given).to_pylist()
    return [
        (decoder.decode(row["input_ids"]), decoder.decode([it for it in row["labels"] if it >= 0]))
        for row in rows
    ]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: next(iter(pair)))
@pytest.mark.parametrize("written", ["", END, f"{END}\n", f"{END} {END}"])
def test_an_answer_has_the_end_that_the_template_writes_once(pair, written, tokenizer_dir):
    *_, answer = pair
    record = {**pair, answer: pair[answer] + written}
    expected = packed([pair], tokenizer_dir, chat_template=ENDED)
    assert expected == [(f"<|start|>user\na river\n<|start|>assistant\nb{END}\n", f"b{END}\n")]
    assert packed([record], tokenizer_dir, chat_template=ENDED) == expected


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: next(iter(pair)))
def test_an_end_that_the_template_does_not_write_stays(pair, tokenizer_dir):
    *_, answer = pair
    record = {**pair, answer: pair[answer] + END}
    (text, _), *_ = packed([record], tokenizer_dir, chat_template=UNENDED)
    assert text == f"<|start|>user\na river\n<|start|>assistant\nb{END}<|end|>\n"


def test_an_answer_that_is_nothing_but_its_end_is_empty(tokenizer_dir):
    table = fastpack.pack_records(
        [{"question": "a", "answer": END}],
        tokenizer_dir,
        max_length=64,
        max_lost="100%",
        chat_template=ENDED,
    )
    assert fastpack.Report.of(table).dropped == {"empty": (1, 0)}


def test_white_space_behind_an_answer_stays(tokenizer_dir):
    (text, _), *_ = packed([{"question": "a", "answer": "b \n"}], tokenizer_dir, chat_template=ENDED)
    assert text == f"<|start|>user\na\n<|start|>assistant\nb \n{END}\n"


def test_the_end_of_a_text_is_trained_as_asked(tokenizer_dir):
    texts = [{"text": "the river"}, {"text": f"the river{END}"}]
    for asked, trained in ((None, END), ("turn", END), ("last", END), ("none", "")):
        options = {} if asked is None else {"special_tokens": fastpack.SpecialTokens(train_on_eos=asked)}
        for text, labels in packed(texts, tokenizer_dir, **options):
            assert text == f"the river{END}"
            assert labels.endswith("river" + trained)


def test_the_end_of_ids_is_trained_as_asked(tokenizer_dir):
    ids = [*map(int, fastpack.Tokenizer(tokenizer_dir).encode(f"the river{END}"))]
    silent, told = {"input_ids": ids}, {"input_ids": ids, "labels": ids}
    for record, asked, trained in ((silent, "none", ""), (silent, "turn", END), (told, "none", END)):
        ((_, labels),) = packed(
            [record], tokenizer_dir, special_tokens=fastpack.SpecialTokens(train_on_eos=asked)
        )
        assert labels.endswith("river" + trained)


def test_what_a_template_writes_behind_an_untrained_end_is_not_trained(tokenizer_dir):
    pair = [PAIRS[0]]
    for template, end in ((ENDED, END), (UNENDED, "<|end|>")):
        for asked, trained in (("none", "b"), ("last", f"b{end}\n"), ("turn", f"b{end}\n")):
            ((_, labels),) = packed(
                pair,
                tokenizer_dir,
                chat_template=template,
                special_tokens=fastpack.SpecialTokens(train_on_eos=asked),
            )
            assert labels == trained, (template, asked)


def test_parts_that_are_texts_are_joined_where_the_template_takes_no_lists(tokenizer_dir):
    parts = [{"type": "text", "text": "one "}, {"type": "text", "text": "river"}, "s"]
    record = {
        "messages": [{"role": "user", "content": parts}, {"role": "assistant", "content": parts, "name": "b"}]
    }
    joined = {"messages": [{**message, "content": "one rivers"} for message in record["messages"]]}
    assert packed([record], tokenizer_dir, chat_template=STRINGS) == packed(
        [joined], tokenizer_dir, chat_template=STRINGS
    )


def test_a_part_that_says_more_than_its_text_is_left_to_the_template(tokenizer_dir):
    parts = [{"type": "text", "text": "one", "from": "a"}]
    record = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": parts}]}
    with pytest.raises(fastpack.RecordError, match="list"):
        packed([record], tokenizer_dir, chat_template=STRINGS)


def test_a_template_that_takes_parts_gets_them(tokenizer_dir):
    listed = (
        "{% for message in messages %}{{ message['role'] }}: {% generation %}"
        "{% if message['content'] is string %}{{ message['content'] }}"
        "{% else %}{{ message['content'] | map(attribute='text') | join('|') }}{% endif %}"
        "{% endgeneration %}{{ '\n' }}{% endfor %}"
    )
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    record = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": parts}]}
    ((text, _),) = packed([record], tokenizer_dir, chat_template=listed)
    assert text == "user: a\nassistant: one|two\n"


def test_the_same_parts_are_joined_in_a_table(tokenizer_dir):
    parts = [{"type": "text", "text": "one "}, {"type": "text", "text": "river"}]
    messages = [{"role": "user", "content": parts}, {"role": "assistant", "content": parts}]
    table = pa.Table.from_pylist([{"messages": messages}])
    given: Any = {"max_length": 512, "chat_template": STRINGS}
    packed = fastpack.pack_table(table, tokenizer_dir, **given)
    assert (
        packed["input_ids"]
        == fastpack.pack_records([{"messages": messages}], tokenizer_dir, **given)["input_ids"]
    )
    assert "one river" in fastpack.Tokenizer(tokenizer_dir).decode(packed["input_ids"].to_pylist()[0])
