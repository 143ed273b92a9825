"""Compiled templates render as the interpreter, and as transformers."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from campaign import tries
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from template_helpers import (
    CONVERSATIONS,
    NOW,
    SPECIAL_TOKENS,
    UNMARKED,
    native,
    reference,
    to_characters,
    trl_templates,
    unfollowed,
)

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TURN_ENDS = ["<|im_start|>", "<|im_end|>", "<|end|>", "<eos>", "<end_of_turn>", "<|eot_id|>", "[/INST]"]

# Templates that models use most, each with its special feature: system prompts, trimming, alternation, thoughts.
COMPILED = [
    "cohere", "deepseekv3", "deepseekv3_training", "gemma", "gemma_training", "glm4moe", "llama3", "llama3_training",
    "phi3", "phi3_training", "phi3_5", "qwen2_5", "qwen2_5_training", "qwen3", "qwen3_training",
    "qwen3_instruct_2507", "qwen3_instruct_2507_training",
]  # fmt: skip

# Shapes that are not among them: ChatML with a system prompt of its own, and turns between `[INST]` and `[/INST]`.
CHATML = """{% if messages[0].role != 'system' %}<|im_start|>system
Be brief.<|im_end|>
{% endif %}{% for m in messages %}{{ '<|im_start|>' ~ m.role ~ '\n' ~ m.content ~ '<|im_end|>\n' }}{% endfor %}\
{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
TAKING_TURNS = """{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}\
{{ raise_exception('users and assistants take turns') }}{% endif %}"""
LLAMA2 = f"""{{% set named = messages[0].role == 'system' %}}\
{{% set first = '<<SYS>>\n' + messages[0].content + '\n<</SYS>>\n\n' if named else '' %}}\
{{% for m in (messages[1:] if named else messages) %}}{TAKING_TURNS}{{% if m.role == 'user' %}}\
{{{{ bos_token + '[INST] ' + ((first if loop.first else '') + m.content).strip() + ' [/INST]' }}}}\
{{% else %}}{{{{ ' ' + m.content.strip() + ' ' + eos_token }}}}{{% endif %}}{{% endfor %}}"""
MISTRAL = f"""{{{{ bos_token }}}}{{% for m in messages %}}{TAKING_TURNS}{{% if m.role == 'user' %}}\
{{{{ '[INST] ' + m.content + ' [/INST]' }}}}{{% else %}}{{{{ m.content + eos_token }}}}{{% endif %}}{{% endfor %}}"""

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

NUMBERS = [0, 1, -7, 2**40, 2**70, 1.5, 1e22, 1e-7, True, False, None]
WORDS = [
    "",
    "x",
    " padded\n",
    "Größe <b>&'\"",
    "日本 🎉",
    "</think>",
    "text",
    "weather",
    "string",
    "<|im_end|>",
    "\\ \x1f",
]


def varied(value: Any, draw: random.Random) -> Any:
    """The same value with other words, numbers and lengths here and there, its messages and roles as they are."""
    if isinstance(value, dict):
        return {
            key: inner if key in ("role", "type") else varied(inner, draw) for key, inner in value.items()
        }
    if isinstance(value, list):
        messages = bool(value) and isinstance(value[0], dict) and "role" in value[0]
        kept = value if messages or not value or draw.random() < 0.8 else draw.choices(value, k=2)
        return [varied(item, draw) for item in kept]
    if draw.random() < 0.5:
        return value
    return draw.choice(NUMBERS) if isinstance(value, int | float) else draw.choice([*WORDS, value])


def relatives(record: dict[str, Any], count: int, seed: int) -> list[dict[str, Any]]:
    """A record and others with other words, but hardly another structure."""
    draw = random.Random(seed)
    return [record, *(varied(record, draw) for _ in range(count))]


# Conversations as they come with tools, parts and arguments of their own.
RICH = {
    **CONVERSATIONS,
    "text parts": {
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "text": "Look "}, {"type": "text", "text": " here"}],
            },
            {"role": "assistant", "content": [{"type": "text", "text": "Yes."}]},
        ]
    },
    "weighed": {
        "messages": [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b", "train": False},
            {"role": "user", "content": "c"},
            {"role": "assistant", "content": "d", "weight": 0.5},
        ]
    },
}


def replayed(source: str, records: list[dict[str, Any]], *, spans: bool) -> list[Any]:
    """The texts of records that programs render; None for a record that they do not."""
    from fastpack import _fastpack

    lines = [json.dumps(record) for record in records]
    return _fastpack.replay_template(
        source, list(SPECIAL_TOKENS.items()), lines, spans, NOW.isoformat(), TURN_ENDS, False
    )


def renders(render: Callable[[str, dict[str, Any]], object], source: str, record: dict[str, Any]) -> bool:
    """True if a template takes a record."""
    try:
        render(source, record)
    except Exception:
        return False
    return True


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
                expected = native(source, record, spans=True, turn_ends=TURN_ENDS)
                if (
                    expected[0] != text
                ):  # the one text that is right for the turns is not that of the conversation
                    continue
                # A turn whose calls the template does not print is context.
                if any({"train", "weight", "tool_calls"} & message.keys() for message in record["messages"]):
                    assert {(start, end) for start, end in ranges if start < end} <= set(expected[1])
                    continue
                assert expected == (text, ranges)
                if "endgeneration" in source:
                    assert reference(source, record, spans=True) == (text, to_characters(text, ranges))
            else:
                assert text == native(source, record)
                assert text == reference(source, record)
    return served


@pytest.mark.parametrize("name", COMPILED)
def test_the_templates_of_most_models_are_compiled(name: str) -> None:
    from fastpack import _fastpack

    source = trl_templates()[name]
    reason = _fastpack.template_engine_reason(
        source, list(SPECIAL_TOKENS.items()), NOW.isoformat(), TURN_ENDS
    )
    assert reason is None


@pytest.mark.parametrize("source", [CHATML, LLAMA2, MISTRAL], ids=["chatml", "llama2", "mistral"])
def test_templates_of_other_shapes_are_compiled(source: str) -> None:
    from fastpack import _fastpack

    reason = _fastpack.template_engine_reason(
        source, list(SPECIAL_TOKENS.items()), NOW.isoformat(), TURN_ENDS
    )
    assert reason is None
    system = [{"role": "system", "content": " s\n"}]
    exchange = [{"role": "user", "content": "a "}, {"role": "assistant", "content": "\nb"}]
    records = [{"messages": [*before, *exchange * turns]} for before in ([], system) for turns in (1, 2, 3)]
    records = [record for record in records if renders(reference, source, record)]
    assert compare(source, records * 2) == 4 * len(records) > 8


def test_every_template_of_trl_replays_what_it_renders() -> None:
    records = list(CONVERSATIONS.values())
    for source in trl_templates().values():
        compare(source, [*records, *records[::-1]][: tries(len(records), 2 * len(records))])


@settings(max_examples=tries(50, 150), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(sorted(trl_templates().values())),
    st.lists(st.one_of(EXCHANGES, MESSAGES), min_size=1, max_size=6),
)
def test_conversations_replay_as_they_render(source: str, conversations: list[list[dict[str, Any]]]) -> None:
    compare(source, [{"messages": messages} for messages in conversations])


def test_most_of_ordinary_conversations_are_replayed(tokenizer_dir: Path, tmp_path: Path) -> None:
    exchanges = [
        [{"role": "user", "content": f"a{turn}"}, {"role": "assistant", "content": f" b{turn}\n"}]
        for turn in range(3)
    ]
    records = [
        {"messages": [message for turn in exchanges[:turns] for message in turn]}
        for turns in (1, 2, 3, 1, 2, 3)
    ]
    seen, path = 0, tmp_path / "chats.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    for name in COMPILED:
        source = trl_templates()[name]
        compare(source, records)
        try:
            report = fastpack.pack_dir(
                path, tmp_path / name, tokenizer=tokenizer_dir, max_length=4096, chat_template=source
            )
        except fastpack.RecordError:  # it needs a token that the tokenizer does not name
            continue
        seen += 1
        assert report.compiled_conversations == len(records), name
    assert seen > 10


def test_questions_about_texts_are_asked_again() -> None:
    source = (
        "{% for m in messages %}{% if m.content.startswith('<') %}1{% endif %}{% if m.content == 'x' %}2{% endif %}"
        "{% if m.content %}3{% endif %}{% if 'y' in m.content %}4{% endif %}{% if m.content.endswith('>') %}5{% endif %}"
        "{{ m.content.split('y')[0] }}|{{ m.content.split('y')[-1].strip('<') }}{% endfor %}"
    )
    texts = ["", "x", "y", "<", ">", "<y>", "xyz", "<<", "a", "b", "yy", "y<"]
    records = [{"messages": [{"role": "user", "content": text}]} for text in texts]
    assert compare(source, records) >= len(texts)


@settings(max_examples=tries(40, 100), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(sorted(trl_templates().values())),
    st.sampled_from(sorted(RICH)),
    st.integers(min_value=0, max_value=2**32),
)
def test_tools_parts_and_arguments_replay_as_they_render(source: str, name: str, seed: int) -> None:
    compare(source, relatives(RICH[name], 6, seed))


def test_most_of_what_trl_renders_is_replayed() -> None:
    for name in [
        "text parts",
        "weighed",
        "tools and system",
        "call dict 'Let me look.'",
        "two calls",
        "think off",
    ]:
        records = relatives(RICH[name], 0, 0) * 2
        served = rendered = 0
        for source in trl_templates().values():
            if not renders(native, source, RICH[name]):
                continue
            rendered += len(records)
            served += sum(found is not None for found in replayed(source, records, spans=False))
        assert served >= 0.9 * rendered > 0, (name, served, rendered)


MADE_OF_TEXTS = [
    "{{ messages[0].content|upper }}",
    "{{ messages[0].content|tojson }}{{ messages[0].content|tojson|length > 6 }}",
    "{{ messages[0].content[0] }}|{{ messages[0].content[1:] }}|{{ messages[0].content[::-1] }}",
    "{{ messages[0].content < 'b' }}{{ messages[0].content in ['abc', 'b'] }}",
    "{{ messages[0].content.split('a')[1] }}",
    "{% for part in messages[0].content.split('b') %}<{{ part|trim }}>{% endfor %}",
    "{{ messages[0].content.replace('a', 'b') }}{{ messages[0].content.count('b') }}",
    "{{ (messages[0].content ~ messages[0].content)|trim }}",
    "{% if messages[0].content|length > 2 %}long{% endif %}",
    "{{ messages[0].content == messages[1].content }}{{ messages[0].content in messages[1].content }}",
    "{% set all = [messages[0].content, 'x'] %}{{ all|join('-') }}{{ '+'.join(all) }}",
    "{{ {'a': 1, 'abc': 2}[messages[0].content] }}",
    "{% for m in messages %}{% filter trim %} {{ m.content }} {% endfilter %}|{% endfor %}",
    "{% filter upper | replace('B', messages[1].content) %}b{{ messages[0].content }}{% endfilter %}",
    "{% set text | trim %} {{ messages[0].content }} {% endset %}{{ text }}{{ text|length }}",
]


def test_what_is_made_of_texts_is_made_again() -> None:
    texts = ["abc", "b", "", "a", " ab ", "bab", "abcabc", "é🎉b", "ABC", "aaa", "cba", "b b"]
    records = [
        {"messages": [{"role": "user", "content": text}, {"role": "assistant", "content": other}]}
        for text, other in zip(texts, [*texts[1:], "b b"], strict=True)
    ]
    for source in MADE_OF_TEXTS:
        kept = [record for record in records if renders(reference, source, record)]
        assert compare(source, kept) > 0, source


MADE_OF_VALUES = [
    "{{ tools|tojson }}{{ tools|length }}{{ tools[0].function.name }}{{ tools[-1].function.name|upper }}",
    "{% for t in tools %}{{ t|tojson(indent=4) }}{{ t.function.description|trim }}{% if not loop.last %},{% endif %}{% endfor %}",
    "{% for k, v in tools[0].function.parameters.properties.items() %}{{ k }}={{ v }}{% endfor %}",
    "{{ tools[0].function.parameters.required|join(', ') }}{{ 'city' in tools[0].function.parameters.required }}",
    "{{ tools[0].function.get('strict', 'no') }}{% if tools[0].function.strict is defined %}!{% endif %}",
    "{{ tools|map(attribute='function')|map(attribute='name')|join('+') }}",
    "{{ tools|selectattr('type', 'equalto', 'function')|list|length }}{{ tools == tools }}{{ tools[1:] }}",
    "{% for p in tools[0].function.parameters.properties|dictsort %}{{ p[0] }}{{ p[1].default }}{% endfor %}",
    "{% set ns = namespace(all=[]) %}{% for t in tools %}{% set ns.all = ns.all + [t.function.name] %}{% endfor %}{{ ns.all|join }}",
    (
        "{% set ns = namespace(all=[]) %}{% for t in tools %}{% if t.function.name not in ns.all %}{{ t.function.name }}{% endif %}"
        "{% set ns.all = ns.all + [t.function.name] %}{% endfor %}"
    ),
    "{{ tools[0].function.parameters.properties.keys()|first }}{{ tools[0].function.parameters.keys()|list|length }}",
    "{{ tools[0].function.parameters.properties.values()|list|last }}{{ tools[0].function|length }}",
    "{{ (tools[0].function.name ~ tools[1].function.name)|upper }}{{ tools[0].function.description.split(' ')|last }}",
    "{{ tools[0].function.parameters.properties.days.default + 1 }}",
    "{% if tools[0].function.parameters.properties.days.default > 0 %}some{% endif %}",
]


def test_what_is_made_of_values_is_made_again() -> None:
    for source in MADE_OF_VALUES:
        others = relatives(RICH["tools"], 40, 1)
        kept = [record for record in others if renders(native, source, record)]
        assert compare(source, [RICH["tools"], *kept]) > 0, source


NOT_FOLLOWED = [
    "{{ messages|tojson }}",
    "{% for c in messages[0].content %}{{ c }}{% endfor %}",
    "{{ messages[0].content.split()|join('-') }}",
    "{% set a, b, c = messages[0].content %}{{ a }}",
    "{{ {messages[0].content: 1} }}",
    "{{ messages[0].content * 2 }}",
    "{{ 'xabcx'.replace(messages[0].content, '') }}",
    "{{ messages|selectattr('content', 'equalto', 'abc')|list|length }}",
]


def test_what_is_not_followed_is_interpreted() -> None:
    for source in NOT_FOLLOWED:
        record = {"messages": [{"role": "user", "content": "abc" * 30}]}
        if " a, b, c " in source:
            record = {"messages": [{"role": "user", "content": "abc"}]}
        assert native(source, record) == reference(source, record)
        assert replayed(source, [record], spans=False) == [None], source


CHOICES: list[dict[str, Any]] = [
    {},
    {"train_on": "all"},
    {"turns": "last"},
    {"special_tokens": fastpack.SpecialTokens(train_on_eos="turn")},
    {"special_tokens": fastpack.SpecialTokens(train_on_eos="last"), "turns": "last"},
    {"special_tokens": fastpack.SpecialTokens(train_on_eos="none"), "overlong": "trim"},
    {"overlong": "trim"},
    {"overlong": "trim", "train_on": "all"},
    {"overlong": "trim", "turns": "last"},
]


def test_a_run_is_the_same_on_both_roads(tokenizer_dir: Path, corpus: Path) -> None:
    slow = unfollowed((tokenizer_dir / "chat_template.jinja").read_text(encoding="utf-8"))
    for options in CHOICES:
        compiled = fastpack.pack_files(corpus, tokenizer_dir, max_length=128, **options)
        interpreted = fastpack.pack_files(
            corpus, tokenizer_dir, max_length=128, chat_template=slow, **options
        )
        assert compiled.equals(interpreted), options


@pytest.mark.parametrize("name", ["qwen3_training", "qwen2_5_training", "glm4moe_training", "unmarked"])
def test_what_is_trained_of_tools_and_parts_is_the_same_on_both_roads(
    name: str, tokenizer_dir: Path, write_jsonl: Callable[..., Path]
) -> None:
    kinds = ["text parts", "weighed", "call dict 'Let me look.'", "two calls", "multi-turn", "reasoning"]
    records = [record for kind in kinds for record in relatives(RICH[kind], 4, 3)]
    path, source = write_jsonl(records), {"unmarked": UNMARKED, **trl_templates()}[name]
    columns = ["input_ids", "labels", "loss_weights"]
    for options in CHOICES:
        tables = [
            fastpack.pack_files(
                path,
                tokenizer_dir,
                max_length=256,
                chat_template=fastpack.ChatTemplate(template, now=NOW),
                on_bad_record="skip",
                columns=columns,
                **options,
            )
            for template in (source, unfollowed(source))
        ]
        assert tables[0].num_rows > 0
        assert tables[0].equals(tables[1]), options


def test_the_report_names_the_road(tokenizer_dir: Path, corpus: Path, tmp_path: Path) -> None:
    report = fastpack.pack_dir(corpus, tmp_path / "compiled", tokenizer=tokenizer_dir, max_length=128)
    assert (report.template_engine, report.template_engine_reason) == ("compiled", "")
    assert "template     compiled" in str(report)
    template = "{{ messages|tojson }}<|end|>"
    report = fastpack.pack_dir(
        corpus,
        tmp_path / "interpreted",
        tokenizer=tokenizer_dir,
        max_length=128,
        chat_template=template,
        train_on="all",
    )
    assert (report.template_engine, report.template_engine_reason) == (
        "interpreted",
        "what is done to several values",
    )
