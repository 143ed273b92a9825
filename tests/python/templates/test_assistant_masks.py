"""Labels equal transformers' assistant masks, token by token, save where those are known to be wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from template_helpers import trl_templates, unfollowed

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

transformers = pytest.importorskip("transformers", reason="transformers needs Python 3.11")

IGNORED = -100

CONVERSATIONS: list[list[dict[str, Any]]] = [
    [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello!"}],
    [
        {"role": "user", "content": [{"type": "text", "text": "Hi."}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Hello!"}]},
    ],
    [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "One?"},
        {"role": "assistant", "content": "1.", "reasoning_content": "The first number."},
        {"role": "user", "content": "Two?"},
        {"role": "assistant", "content": "2."},
    ],
    [
        {"role": "user", "content": "Wetter? 日本"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"type": "function", "function": {"name": "weather", "arguments": {"city": "Köln"}}}
            ],
        },
        {"role": "tool", "name": "weather", "content": "rain"},
        {"role": "assistant", "content": "It rains in Köln."},
    ],
]


@pytest.fixture(scope="module")
def reference(tokenizer_dir: Path) -> Any:
    """The tokenizer as transformers loads it."""
    return transformers.AutoTokenizer.from_pretrained(tokenizer_dir)


def labelled(path: Path, tokenizer: Path, template: str, **options: Any) -> list[tuple[list[int], list[int]]]:
    """Ids and labels of each document that fastpack keeps."""
    table = fastpack.pack_files(
        path,
        tokenizer,
        max_length=100_000,
        strategy="none",
        train_on="assistant",
        chat_template=template,
        # As transformers renders them, which keeps what a template forgets.
        turns="whole",
        **options,
    )
    return list(zip(table["input_ids"].to_pylist(), table["labels"].to_pylist(), strict=True))


def masked(reference: Any, template: str, messages: list[dict[str, Any]]) -> tuple[list[int], list[int]]:
    """Ids and labels that transformers' mask gives, the first token's label aside."""
    encoded = reference.apply_chat_template(
        messages, chat_template=template, tokenize=True, return_dict=True, return_assistant_tokens_mask=True
    )
    ids, mask = encoded["input_ids"], encoded["assistant_masks"]
    labels = [token if trained else IGNORED for token, trained in zip(ids, mask, strict=True)]
    return ids, [IGNORED, *labels[1:]]


@pytest.mark.parametrize("road", [str, unfollowed], ids=["compiled", "interpreted"])
@pytest.mark.parametrize("name", sorted(name for name in trl_templates() if name.endswith("_training")))
def test_labels_are_the_assistant_masks_of_transformers(
    name: str,
    road: Callable[[str], str],
    reference: Any,
    tokenizer_dir: Path,
    write_jsonl: Callable[..., Path],
) -> None:
    template = trl_templates()[name]
    records, expected = [], []
    for messages in CONVERSATIONS:
        try:
            expected.append(masked(reference, template, messages))
        except Exception:  # a conversation that the template refuses has no mask
            continue
        records.append({"messages": messages})
    assert records, "every template takes a plain exchange"
    assert labelled(write_jsonl(records), tokenizer_dir, road(template)) == expected


def exact(before: str, inside: str, after: str) -> str:
    """A template whose one trained span is `inside`, whatever the messages."""
    text = f"{{{{- {json.dumps(before, ensure_ascii=False)} }}}}"
    block = f"{{%- generation %}}{{{{- {json.dumps(inside, ensure_ascii=False)} }}}}{{%- endgeneration %}}"
    return text + block + f"{{{{- {json.dumps(after, ensure_ascii=False)} }}}}"


def both(
    template: str, reference: Any, tokenizer: Path, write_jsonl: Callable[..., Path]
) -> tuple[list[int], list[bool], list[bool]]:
    """The ids, which of them fastpack trains, and which of them transformers trains."""
    messages = CONVERSATIONS[0]
    ((ids, labels),) = labelled(write_jsonl([{"messages": messages}]), tokenizer, template)
    expected_ids, expected = masked(reference, template, messages)
    assert ids == expected_ids
    return ids, [label != IGNORED for label in labels], [label != IGNORED for label in expected]


def test_all_tokens_of_a_last_emoji_are_trained(
    reference: Any, tokenizer_dir: Path, write_jsonl: Callable[..., Path]
) -> None:
    ids, ours, theirs = both(exact("<|start|>", "a🦀", "<|end|>"), reference, tokenizer_dir, write_jsonl)
    assert len(ids) == 6, "the crab is three tokens"
    assert ours == theirs == [False, True, True, True, True, False]


def test_a_span_that_begins_with_a_space_is_trained(
    reference: Any, tokenizer_dir: Path, write_jsonl: Callable[..., Path]
) -> None:
    # With a post-processor that trims offsets, no token has the space.
    backend = json.loads((tokenizer_dir / "tokenizer.json").read_text(encoding="utf-8"))
    backend["post_processor"] = {
        "type": "ByteLevel",
        "add_prefix_space": True,
        "trim_offsets": True,
        "use_regex": True,
    }
    trimmed = write_jsonl([], "trimmed/empty").parent
    for file in tokenizer_dir.iterdir():
        (trimmed / file.name).write_bytes(file.read_bytes())
    (trimmed / "tokenizer.json").write_text(json.dumps(backend), encoding="utf-8")
    trimming = transformers.AutoTokenizer.from_pretrained(trimmed)
    ids, ours, theirs = both(exact("<|start|>a", " the river", "<|end|>"), trimming, trimmed, write_jsonl)
    assert sum(ours) == len(ids) - 3
    assert ours == theirs


def test_a_composed_character_at_the_edge_is_trained_once(
    reference: Any, tokenizer_dir: Path, write_jsonl: Callable[..., Path]
) -> None:
    # Under NFC `e` and a combining accent become one character; the span holds the accent alone.
    backend = json.loads((tokenizer_dir / "tokenizer.json").read_text(encoding="utf-8"))
    backend["normalizer"] = {"type": "NFC"}
    composed = write_jsonl([], "composed/empty").parent
    for file in tokenizer_dir.iterdir():
        (composed / file.name).write_bytes(file.read_bytes())
    (composed / "tokenizer.json").write_text(json.dumps(backend), encoding="utf-8")
    template = exact("<|start|>e", "\u0301b", "<|end|>")
    loaded = transformers.AutoTokenizer.from_pretrained(composed)
    ids, ours, theirs = both(template, loaded, composed, write_jsonl)
    assert ours == [False] + [True] * (len(ids) - 2) + [False]
    assert theirs == [False, False, False, True, False], "the composed character is of two tokens"


def test_an_empty_mark_trains_nothing(
    reference: Any, tokenizer_dir: Path, write_jsonl: Callable[..., Path]
) -> None:
    # transformers looks for the token of the character before the mark: here the one that the mark stands in.
    template = (
        "<|start|>the ri{% generation %}{% endgeneration %}ver<|start|>"
        "{% generation %}{{ messages[1].content }}<|end|>{% endgeneration %}"
    )
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "a"}]
    ((ids, labels),) = labelled(write_jsonl([{"messages": messages}]), tokenizer_dir, template)
    expected_ids, expected = masked(reference, template, messages)
    assert ids == expected_ids
    assert reference.convert_ids_to_tokens(ids) == ["<|start|>", "the", "Ġriver", "<|start|>", "a", "<|end|>"]
    assert [label != IGNORED for label in labels] == [False, False, False, False, True, True]
    assert [label != IGNORED for label in expected] == [False, False, True, False, True, True]
