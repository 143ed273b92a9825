"""The trained spans of templates with `{% generation %}` blocks equal those of transformers."""

from __future__ import annotations

import contextlib
import re
from typing import Any

from conftest import conversation
from template_helpers import CONVERSATIONS, native, reference, to_characters, trl_templates

import fastpack


def test_generation_spans_equal_those_of_transformers() -> None:
    compared = 0
    for name, source in trl_templates().items():
        if not name.endswith("_training"):
            continue
        for title, record in CONVERSATIONS.items():
            try:
                text, expected = reference(source, record, spans=True)
            except Exception:  # a record that transformers refuses has no mask
                continue
            try:
                found_text, found = native(source, record, spans=True)
            except ValueError:  # refused by name: test_templates.py counts these
                continue
            assert found_text == text, (name, title)
            assert to_characters(text, found) == expected, (name, title)
            compared += 1
    assert compared > 800


# TRL also trains the `<|endoftext|>` that these render once at the end of a conversation; fastpack does not.
CLOSED_TWICE = {"phi3", "phi3_5"}


def special_tokens_of(source: str) -> list[str]:
    """The special tokens of these templates' tokenizers, as far as the template shows them."""
    pattern = (
        r"<\|[^|<>{}'\"]+\|>|<(?:start|end)_of_turn>|<turn\|>|<\|turn>|</s>|<end_of_utterance>|<｜[^｜]+｜>"
    )
    return sorted({*re.findall(pattern, source), "<eos>", "<bos>"}, key=lambda token: -len(token))


def merged(text: str, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans without the line ends that follow a turn, adjacent ones joined, empty ones left out."""
    data = text.encode()
    joined: list[list[int]] = []
    for start, end in spans:
        if joined and joined[-1][1] == start:
            joined[-1][1] = end
        elif end > start:
            joined.append([start, end])
    return [(start, start + len(data[start:end].rstrip(b"\n"))) for start, end in joined]


def says_all(name: str, title: str, source: str, record: dict[str, Any]) -> bool:
    """True if the template writes the text and calls of the assistant, so that a mark is around a turn."""
    if name == "diffusion_gemma" and "call" in title:
        # Its prompt opens a turn otherwise than the turn does, and here no tokenizer tells where tokens differ.
        return False
    for at, message in enumerate(record["messages"]):
        if message["role"] != "assistant":
            continue
        before = record["messages"][:at]
        changed = {**message, "content": "other words"}
        if message.get("tool_calls"):
            changed = {key: value for key, value in message.items() if key != "tool_calls"}
        said, unsaid = ({**record, "messages": [*before, last]} for last in (message, changed))
        with contextlib.suppress(ValueError):
            if native(source, said) == native(source, unsaid):
                return False
    return True


def ends_alike(text: str, ours: list[tuple[int, int]], theirs: list[tuple[int, int]]) -> bool:
    """True if spans end alike, and ours begin no earlier but for blanks."""
    data = text.encode()
    return len(ours) == len(theirs) and all(
        end == other_end and (start >= other_start or not data[start:other_start].strip())
        for (start, end), (other_start, other_end) in zip(ours, theirs, strict=True)
    )


def test_derived_spans_equal_what_trl_marks_by_hand() -> None:
    """If TRL's own copy of a template renders the same text, its spans and ours end alike.

    Ours may begin later: what `add_generation_prompt` renders, such as `<think>`, is never the model's to write.
    """
    templates = trl_templates()
    equal = later = 0
    for name, source in templates.items():
        training = templates.get(f"{name}_training")
        if training is None:
            continue
        for title, record in CONVERSATIONS.items():
            try:
                text, expected = native(training, record, spans=True)
                found_text, found = native(source, record, spans=True, turn_ends=special_tokens_of(source))
            except ValueError:  # refused by name, or unmaskable
                continue
            if found_text != text:
                continue
            if name in CLOSED_TWICE:
                expected = [span for span in expected if text.encode()[slice(*span)] != b"<eos>"]
            if not says_all(name, title, source, record):
                continue
            ours, theirs = merged(text, found), merged(text, expected)
            assert ends_alike(text, ours, theirs), (name, title)
            if ours == theirs:
                equal += 1
            else:
                later += 1
    print(f"{equal} equal, {later} begin after the generation prompt")
    assert equal > 400
    assert equal + later > 800


def test_a_conversation_without_a_trained_token_is_counted_not_trained_on_trl_3927(
    write_jsonl, tokenizer_dir
):
    path = write_jsonl([{"messages": [{"role": "user", "content": "a river"}]}, *map(conversation, range(3))])
    table = fastpack.pack_files(path, tokenizer_dir, max_length=256, strategy="none")
    report = fastpack.Report.of(table)
    assert report.dropped["no_trained_token"].documents == 1
    assert all(any(label != -100 for label in labels) for labels in table["labels"].to_pylist())


def test_a_span_may_begin_at_the_first_token_and_end_in_white_space_transformers_47325(
    write_jsonl, tokenizer_dir
):
    template = (
        "{% for message in messages %}{% if message.role == 'assistant' %}"
        "{% generation %}{{ message.content }}{% endgeneration %}"
        "{% else %}{{ message.content }}{% endif %}{% endfor %}"
    )
    messages = [
        {"role": "assistant", "content": "a river "},
        {"role": "user", "content": "\n"},
        {"role": "assistant", "content": " "},
    ]
    path = write_jsonl([{"messages": messages}])
    row = fastpack.pack_files(path, tokenizer_dir, max_length=256, chat_template=template).to_pylist()[0]
    user = 201  # the line feed
    at = row["input_ids"].index(user)
    assert [label == -100 for label in row["labels"]] == [
        position in {0, at} for position in range(len(row["labels"]))
    ]


def test_a_token_over_the_edge_of_prompt_and_answer_is_one_token_areal_1427(write_jsonl, tokenizer_dir):
    from tokenizers import Tokenizer

    path = write_jsonl([{"prompt": "the riv", "completion": "er town"}])
    row = fastpack.pack_files(path, tokenizer_dir, max_length=256).to_pylist()[0]
    encoding = Tokenizer.from_file(str(tokenizer_dir / "tokenizer.json")).encode("the river town")
    assert row["input_ids"] == [*encoding.ids, 0]
    trained = [end > len("the riv") for _, end in encoding.offsets]
    assert [label != -100 for label in row["labels"]] == [*trained, True]
