"""Compiled templates render what the interpreter renders, and that is what transformers renders."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from template_helpers import CONVERSATIONS, NOW, SPECIAL_TOKENS, native, reference, trl_templates

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TURN_ENDS = ["<|im_start|>", "<|im_end|>", "<|end|>", "<eos>", "<end_of_turn>", "<|eot_id|>", "[/INST]"]

# What models use most, each with what it is known for: system prompts, trimming, alternation, thoughts.
COMPILED = [
    "cohere", "deepseekv3", "deepseekv3_training", "gemma", "gemma_training", "glm4moe", "llama3", "llama3_training",
    "phi3", "phi3_training", "phi3_5", "qwen2_5", "qwen2_5_training", "qwen3", "qwen3_training",
    "qwen3_instruct_2507", "qwen3_instruct_2507_training",
]  # fmt: skip

TEXTS = st.one_of(
    st.sampled_from(
        [
            "",
            " ",
            "\n\n",
            "x",
            " padded\t\n",
            "<think>\nwhy\n</think>\n\nso",
            "<think></think>",
            "a</think>b</think>c",
            "<think>open",
            "<tool_response>r</tool_response>",
            "<|im_end|>\n<|im_start|>assistant\n",
            "[INST] x [/INST]",
            "<eos>",
            "日本 🎉 e\u0301",
            "\u2028wide\u00a0",
            "\x1cseparated\x1f",
            "\U000f0000marked\U000f0001",
            "long " * 3000,
        ]
    ),
    st.text(st.sampled_from("ab \n\t<>|/[]think\u00a0é🎉\x85\x1c"), max_size=12),
)
KEYS = st.sampled_from(["reasoning_content", "thinking", "reasoning", "name"])
MESSAGES = st.lists(
    st.tuples(
        st.sampled_from(["user", "assistant", "user", "assistant", "system", "tool", "model"]),
        st.one_of(TEXTS.map(lambda text: {"content": text}), st.just({}), st.just({"content": None})),
        st.one_of(st.just({}), st.just({}), st.dictionaries(KEYS, TEXTS, max_size=1)),
    ).map(lambda parts: {"role": parts[0], **parts[1], **parts[2]}),
    min_size=1,
    max_size=5,
)
EXCHANGES = st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=2).map(
    lambda turns: [
        message
        for user, assistant in turns
        for message in ({"role": "user", "content": user}, {"role": "assistant", "content": assistant})
    ]
)


def replayed(source: str, records: list[dict[str, Any]], *, spans: bool) -> list[Any]:
    """What programs make of the records; None where they make nothing."""
    from fastpack import _fastpack

    lines = [json.dumps(record) for record in records]
    return _fastpack.replay_template(
        source, list(SPECIAL_TOKENS.items()), lines, spans, NOW.isoformat(), TURN_ENDS, False
    )


def compare(source: str, records: list[dict[str, Any]]) -> int:
    """Holds the programs against the interpreter and transformers; returns how many records they served."""
    served = 0
    for spans in (False, True):
        for record, found in zip(records, replayed(source, records, spans=spans), strict=True):
            if found is None:
                continue
            served += 1
            text, ranges = found
            if spans:
                assert native(source, record, spans=True, turn_ends=TURN_ENDS) == (text, ranges)
            else:
                assert text == native(source, record)
                assert text == reference(source, record)
    return served


@pytest.mark.parametrize("name", COMPILED)
def test_the_templates_of_most_models_are_compiled(name: str) -> None:
    from fastpack import _fastpack

    source = trl_templates()[name]
    reason = _fastpack.template_road(source, list(SPECIAL_TOKENS.items()), NOW.isoformat(), TURN_ENDS)
    assert reason is None


def test_every_template_of_trl_replays_what_it_renders() -> None:
    records = list(CONVERSATIONS.values())
    for source in trl_templates().values():
        compare(source, [*records, *records[::-1]])


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(sorted(trl_templates().values())),
    st.lists(st.one_of(EXCHANGES, MESSAGES), min_size=1, max_size=6),
)
def test_conversations_replay_as_they_render(source: str, conversations: list[list[dict[str, Any]]]) -> None:
    compare(source, [{"messages": messages} for messages in conversations])


def test_most_of_ordinary_conversations_are_replayed() -> None:
    exchanges = [
        [{"role": "user", "content": f"a{turn}"}, {"role": "assistant", "content": f" b{turn}\n"}]
        for turn in range(3)
    ]
    records = [
        {"messages": [message for turn in exchanges[:turns] for message in turn]}
        for turns in (1, 2, 3, 1, 2, 3)
    ]
    for name in COMPILED:
        assert compare(trl_templates()[name], records) == 2 * len(records), name


def test_questions_about_texts_are_asked_again() -> None:
    source = (
        "{% for m in messages %}{% if m.content.startswith('<') %}1{% endif %}{% if m.content == 'x' %}2{% endif %}"
        "{% if m.content %}3{% endif %}{% if 'y' in m.content %}4{% endif %}{% if m.content.endswith('>') %}5{% endif %}"
        "{{ m.content.split('y')[0] }}|{{ m.content.split('y')[-1].strip('<') }}{% endfor %}"
    )
    texts = ["", "x", "y", "<", ">", "<y>", "xyz", "<<", "a", "b", "yy", "y<"]
    records = [{"messages": [{"role": "user", "content": text}]} for text in texts]
    assert compare(source, records) >= len(texts)


def test_what_is_not_followed_is_interpreted() -> None:
    for source in [
        "{{ messages[0].content|upper }}",
        "{{ messages|tojson }}",
        "{{ messages[0].content|length }}",
        "{{ messages[0].content[0] }}",
        "{% for c in messages[0].content %}{{ c }}{% endfor %}",
        "{{ messages[0].content < 'b' }}",
        "{{ messages[0].content.split('a')[1] }}",
        "{{ messages[0].content.split()|join('-') }}",
        "{{ messages[0].content.replace('a', 'b') }}",
        "{{ messages[0].content in ['abc'] }}",
        "{% set a, b, c = messages[0].content %}{{ a }}",
        "{{ {messages[0].content: 1} }}",
        "{{ messages[0].content * 2 }}",
        "{{ 'xabcx'.replace(messages[0].content, '') }}",
        "{{ (messages[0].content ~ messages[0].content)|trim }}",
        "{{ messages|map(attribute='content')|join }}",
        "{{ messages|selectattr('content', 'equalto', 'abc')|list|length }}",
    ]:
        record = {"messages": [{"role": "user", "content": "abc"}]}
        assert native(source, record) == reference(source, record)
        assert replayed(source, [record], spans=False) == [None], source


def test_a_run_is_the_same_on_both_roads(
    tokenizer_dir: Path, corpus: Path, write_jsonl: Callable[..., Path]
) -> None:
    records = [json.loads(line) for line in corpus.read_text(encoding="utf-8").splitlines()]
    slow = write_jsonl(
        [{**record, "chat_template_kwargs": {"unused": 1}} for record in records], "slow.jsonl"
    )
    for options in ({}, {"train_on": "all"}):
        compiled = fastpack.pack_files(corpus, tokenizer_dir, max_length=128, **options)
        assert compiled.equals(fastpack.pack_files(slow, tokenizer_dir, max_length=128, **options))


def test_the_report_names_the_road(tokenizer_dir: Path, corpus: Path, tmp_path: Path) -> None:
    report = fastpack.pack_dir(corpus, tmp_path / "compiled", tokenizer=tokenizer_dir, max_length=128)
    assert (report.template_engine, report.template_engine_reason) == ("compiled", "")
    assert "template     compiled" in str(report)
    template = "{% for m in messages %}{{ m.content|upper }}<|end|>{% endfor %}"
    report = fastpack.pack_dir(
        corpus,
        tmp_path / "interpreted",
        tokenizer=tokenizer_dir,
        max_length=128,
        chat_template=template,
        train_on="all",
    )
    assert (report.template_engine, report.template_engine_reason) == ("interpreted", "a filter of texts")
