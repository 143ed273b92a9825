"""Records as published data sets have them: nothing of them is lost without a line in the report, or trained wrongly."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OPTIONS: dict[str, Any] = {"max_length": 4096, "strategy": "none", "progress": False}
TOOL = {"type": "function", "function": {"name": "w", "description": "d", "parameters": {}}}
LONG = "Let me think about this problem step by step. " * 10

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content or '' }}{% for call in m.tool_calls or [] %}"
    "<call>{{ call.function.name }} {{ call.function.arguments | tojson }}</call>{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""Prints calls of tools under `tool_calls` alone."""

PLAIN = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content or '' }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""Prints contents alone, and reads no variable."""

Rows = list[str]


@pytest.fixture
def trained(
    tokenizer_dir: str, write_jsonl: Callable[..., Path]
) -> Callable[..., tuple[Rows, fastpack.Report]]:
    """Packs records, and marks the trained text of each row."""
    tokenizer = fastpack.Tokenizer(tokenizer_dir)

    def pack(*records: dict[str, Any], **options: Any) -> tuple[Rows, fastpack.Report]:
        table = fastpack.pack_files(write_jsonl(list(records)), tokenizer, **{**OPTIONS, **options})
        return [marked(tokenizer, row) for row in table.to_pylist()], fastpack.Report.of(table)

    return pack


def marked(tokenizer: fastpack.Tokenizer, row: dict[str, list[int]]) -> str:
    """The text of a row, with its trained stretches in angles."""
    text, is_trained = "", False
    for token, label in zip(row["input_ids"], row["labels"], strict=True):
        if (label != -100) != is_trained:
            is_trained = not is_trained
            text += "«" if is_trained else "»"
        text += tokenizer.decode([token])
    return text + ("»" if is_trained else "")


ASKED = {"role": "user", "content": "Weather?"}


@pytest.mark.parametrize("turns", ["whole", "auto", "each"])
def test_an_answer_without_words_trains_its_own_end(trained, turns):
    said = {"role": "assistant", "content": "20."}
    for silent in ("", None):
        messages = [ASKED, {"role": "assistant", "content": silent}, ASKED, said]
        rows, _ = trained({"messages": messages}, turns=turns, chat_template=PLAIN)
        assert rows[-1].endswith("<|im_start|>assistant\n«20.<|im_end|>»\n")
        for row in rows:
            assert re.findall("«(.*?)»", row, re.DOTALL) in (
                [["<|im_end|>", "20.<|im_end|>"]] if turns != "each" else [["<|im_end|>"], ["20.<|im_end|>"]]
            )
            assert "<|im_start|>user\nWeather?<|im_end|>" in row


@pytest.mark.parametrize(
    "call",
    [
        {"function_call": {"name": "w", "arguments": "{}"}},
        {"function_calls": "w()"},
        {"tool_calls": '[{"function": {"name": "w"}}]'},
        {"refusal": "I cannot."},
    ],
)
def test_a_turn_whose_call_is_not_printed_is_context(trained, call):
    messages = [
        ASKED,
        {"role": "assistant", "content": None, **call},
        ASKED,
        {"role": "assistant", "content": "20."},
    ]
    [row], report = trained({"messages": messages}, chat_template=PLAIN)
    assert re.findall("«(.*?)»", row, re.DOTALL) == ["20.<|im_end|>"]
    assert report.left_out.keys() == call.keys()
    assert report.untrained_turns.records == 1


def test_a_call_behind_a_thought_is_a_call(trained):
    call = '{"name": "w", "arguments": {"city": "Rome"}}'
    for said in ("", "<think>\nlook\n</think>\n\n", "I look.\n"):
        conversation = [
            {"from": "human", "value": "Weather?"},
            {"from": "function_call", "value": said + call},
            {"from": "observation", "value": "20"},
            {"from": "gpt", "value": "20."},
        ]
        [row], _ = trained({"conversations": conversation}, chat_template=CHATML)
        assert f'«{said}<call>w {{"city": "Rome"}}</call><|im_end|>»' in row


def test_a_field_that_is_named_for_one_part_is_read_as_no_other(trained):
    for field in ("input", "context"):
        reading = fastpack.Reading(fields={"instruction": field, "output": "output"})
        [row], _ = trained({field: "Translate: chat", "output": "cat"}, reading=reading, chat_template=PLAIN)
        assert row.count("Translate: chat") == 1


def test_what_texts_leave_out_is_counted(trained):
    prompt = {"prompt": "Weather?", "completion": " 20.", "tools": [TOOL]}
    assert trained(prompt)[1].left_out.keys() == {"tools"}
    solved = {
        "question": "q",
        "solution": "72",
        "attempt": LONG,
        "thinking_trajectories": [LONG],
        "source": "x" * 300,
    }
    assert trained(solved)[1].left_out.keys() == {"attempt", "thinking_trajectories"}
    shown = {
        "image": "coco/0.jpg",
        "conversations": [{"from": "human", "value": "<image>"}, {"from": "gpt", "value": "x"}],
    }
    assert trained(shown)[1].left_out.keys() == {"image"}
    # A field that repeats the text is no loss.
    assert not trained({"question": LONG, "answer": "x", "copy": LONG})[1].left_out
    # Corpora have many columns.
    assert not trained({"text": "a b c", "html": LONG})[1].left_out


def test_what_pairs_of_texts_leave_out_is_counted(tokenizer_dir, write_jsonl):
    path = write_jsonl([{"system": "Answer in French.", "prompt": "2+2?", "chosen": "4", "rejected": "5"}])
    table = fastpack.pack_files(path, tokenizer_dir, max_length=256, objective="preference", progress=False)
    assert fastpack.Report.of(table).left_out.keys() == {"system"}


def test_variables_that_no_template_reads_are_counted(trained):
    variables = {
        "custom_instructions": "Be brief.",
        "enable_thinking": False,
        "xml_tools": ["{}"],
        "python_tools": [],
    }
    record = {"messages": [ASKED, {"role": "assistant", "content": "x"}], "chat_template_kwargs": variables}
    unread = {"chat_template_kwargs.custom_instructions", "chat_template_kwargs.xml_tools"}
    # The second of two alike is replayed.
    report = trained(record, record, chat_template=PLAIN)[1]
    assert {field: noted.records for field, noted in report.left_out.items()} == dict.fromkeys(unread, 2)
    reading = "{{ custom_instructions }}" + PLAIN
    assert trained(record, chat_template=reading)[1].left_out.keys() == {"chat_template_kwargs.xml_tools"}
    asked = {"question": "q", "answer": "a", "chat_template_kwargs": variables}
    assert trained(asked, chat_template=reading)[1].left_out.keys() == unread


def test_variables_are_counted_alike_in_files_and_tables(tokenizer_dir):
    record = {
        "messages": [ASKED, {"role": "assistant", "content": "x"}],
        "chat_template_kwargs": {"custom_instructions": "Be brief."},
    }
    made = fastpack.pack_table(pa.Table.from_pylist([record]), tokenizer_dir, chat_template=PLAIN, **OPTIONS)
    assert fastpack.Report.of(made).left_out.keys() == {"chat_template_kwargs.custom_instructions"}


ITEMS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content or '' }}{% for call in m.tool_calls or [] %}"
    "{% for key, value in call.function.arguments.items() %}<{{ key }}>{{ value }}{% endfor %}{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""Takes arguments as objects alone."""

CALLED = {"id": "c", "type": "function", "function": {"name": "w", "arguments": '{"a": 1}'}}


def test_a_template_that_takes_objects_alone_names_the_remedy(trained):
    record = {"messages": [ASKED, {"role": "assistant", "content": "", "tool_calls": [CALLED]}]}
    with pytest.raises(
        fastpack.RecordError, match=r"JSON text, and the template takes objects: `chat_template\.decode_"
    ):
        trained(record, chat_template=ITEMS)
    decoding = fastpack.ChatTemplate(ITEMS, decode_arguments=True)
    [row], _ = trained(record, chat_template=decoding)
    assert row.endswith("«<a>1<|im_end|>»\n")


def test_arguments_are_decoded_beside_contents_in_parts(trained):
    asked = {"role": "user", "content": [{"type": "text", "text": "Weather?"}]}
    record = {"messages": [asked, {"role": "assistant", "content": "", "tool_calls": [CALLED]}]}
    source = CHATML.replace("m.content or ''", "'' + (m.content or '')")
    decoding = fastpack.ChatTemplate(source, decode_arguments=True)
    [row], report = trained(record, chat_template=decoding)
    assert row.endswith('«<call>w {"a": 1}</call><|im_end|>»\n')
    assert not report.encoded_arguments.records


def test_training_is_a_name_of_the_flag(trained):
    for flag in ("train", "loss", "training"):
        messages = [
            ASKED,
            {"role": "assistant", "content": "no", flag: False},
            ASKED,
            {"role": "assistant", "content": "yes"},
        ]
        [row], _ = trained({"messages": messages}, chat_template=PLAIN)
        assert re.findall("«(.*?)»", row, re.DOTALL) == ["yes<|im_end|>"]
    both = [ASKED, {"role": "assistant", "content": "no", "train": True, "training": False}]
    with pytest.raises(
        fastpack.RecordError, match=r"`messages\[1\]\.train` is true, `messages\[1\]\.training` is false"
    ):
        trained({"messages": both}, chat_template=PLAIN)


@pytest.mark.parametrize(
    ("record", "fields"),
    [
        ({"id": 1, "query": "q", "tools": "[]", "answers": "[1]"}, {"answer": "answers"}),
        (
            {"problem": "p", "generated_solution": "s", "problem_source": "x"},
            {"answer": "generated_solution"},
        ),
        (
            {"Question": "q", "Complex_CoT": "c", "Response": "r"},
            {"question": "Question", "answer": "Response"},
        ),
        ({"inputs": "q", "targets": "c", "language": "en"}, {"prompt": "inputs", "completion": "targets"}),
        ({"input": "q", "output": "c"}, {"instruction": "input"}),
    ],
)
def test_a_hint_about_fields_reads_the_record(trained, record, fields):
    with pytest.raises(fastpack.RecordError) as refused:
        trained(record)
    hint = re.search(r"did you mean `reading=Reading\(fields=(.*)\)`", str(refused.value))
    assert hint
    assert json.loads(hint[1]) == fields
    rows, _ = trained(record, reading=fastpack.Reading(fields=fields))
    assert len(rows) == 1


@pytest.mark.parametrize(
    "record",
    [
        {"instance_id": "x", "trajectory": [ASKED]},
        {"message_tree_id": "x", "prompt": {"text": "q"}},
        {"systemInstruction": {}, "contents": []},
        {"version": "v1", "context": "c"},
    ],
)
def test_a_record_that_no_hint_would_read_has_none(trained, record):
    with pytest.raises(fastpack.RecordError, match="expected a conversation") as refused:
        trained(record)
    assert "did you mean" not in str(refused.value)


def test_what_tools_say_in_a_completion_is_not_trained(trained: Callable[..., Any]) -> None:
    call = {"type": "function", "function": {"name": "w", "arguments": {}}}
    record = {
        "prompt": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "yes?"},
            {"role": "user", "content": "weather"},
        ],
        "completion": [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": "sunny"},
            {"role": "assistant", "content": "It is sunny."},
        ],
    }
    template = fastpack.ChatTemplate(CHATML)
    [row], _ = trained(record, chat_template=template)
    spans = re.findall("«(.*?)»", row, re.DOTALL)
    assert "".join(spans) == "<call>w {}</call><|im_end|>It is sunny.<|im_end|>"
    masked = {**record, "loss_mask": [0, 0, 0, 0, 0, 1]}
    [row], _ = trained(masked, chat_template=template)
    assert "".join(re.findall("«(.*?)»", row, re.DOTALL)) == "It is sunny.<|im_end|>"
    [row], _ = trained(record, chat_template=template, train_on="completion")
    assert "sunny<|im_end|>" in "".join(re.findall("«(.*?)»", row, re.DOTALL))
    [row], _ = trained(record, chat_template=template, train_on="all")
    # The first token of a document has no label.
    assert row.split("»")[-1] == ""
    assert row.count("«") == 1
    [row], _ = trained(record, chat_template=template, train_on="assistant")
    turns = "".join(re.findall("«(.*?)»", row, re.DOTALL))
    assert turns == "yes?<|im_end|><call>w {}</call><|im_end|>It is sunny.<|im_end|>"
    alone = {"prompt": record["prompt"], "completion": record["completion"][-1:]}
    [row], _ = trained(alone, chat_template=template)
    assert "".join(re.findall("«(.*?)»", row, re.DOTALL)).strip() == "It is sunny.<|im_end|>"
