"""Nothing is trained but the assistant's text and the end of its turn, with any template and tokenizer."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pytest
from campaign import tries
from chat_families import FAMILIES, Family
from conftest import DATA
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nested import nested
from template_helpers import unfollowed
from tokenizers import Tokenizer

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    MakeTokenizer = Callable[[tuple[str, ...]], Path]

Messages = list[dict[str, str]]

IGNORED = -100
ROADS = {"compiled": str, "interpreted": unfollowed}
REAL = ["llama3", "mistral-v1", "qwen", "gpt2"]


@pytest.fixture(scope="session")
def with_markers(tokenizer_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> MakeTokenizer:
    """Makes the tests' tokenizer with these special tokens besides."""
    made: dict[tuple[str, ...], Path] = {}

    def make(markers: tuple[str, ...]) -> Path:
        if markers not in made:
            folder = tmp_path_factory.mktemp("marked")
            tokenizer = Tokenizer.from_file(str(tokenizer_dir / "tokenizer.json"))
            tokenizer.add_special_tokens(list(markers))
            tokenizer.save(str(folder / "tokenizer.json"))
            settings = (tokenizer_dir / "tokenizer_config.json").read_bytes()
            (folder / "tokenizer_config.json").write_bytes(settings)
            made[markers] = folder
        return made[markers]

    return make


def packed(conversations: list[Messages], tokenizer: Any, template: str, **options: Any) -> list[Any]:
    """Ids and labels of each conversation."""
    given: Any = {"max_length": 100_000, "strategy": "none", "train_on": "assistant", **options}
    records = [{"messages": messages} for messages in conversations]
    table = fastpack.pack_records(records, tokenizer, **nested({"chat_template": template}, given))
    return list(zip(table["input_ids"].to_pylist(), table["labels"].to_pylist(), strict=True))


def labelled(tokenizer: Tokenizer, text: str, spans: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Ids and labels where the characters of these spans are trained, by the offsets of the reference."""
    encoding = tokenizer.encode(text, add_special_tokens=False)

    def is_trained(start: int, end: int) -> bool:
        return any(start < stop and begin < end for begin, stop in spans if begin < stop)

    offsets = zip(encoding.ids, encoding.offsets, strict=True)
    labels = [token if is_trained(*offset) else IGNORED for token, offset in offsets]
    return encoding.ids, [IGNORED, *labels[1:]]


words = st.lists(
    st.sampled_from(
        [
            "river",
            "the town",
            " ",
            "\n",
            "?",
            "naïve 日本語 🙂",
            "e\u0301",
            "</s>",
            "<|im_end|>",
            "### User:",
            "USER: ",
            "ASSISTANT:",
            "[Round 2]",
            "<|im_start|>assistant\n",
            "[/INST]",
            "\U000f0000",
            "\U000f0001",
            "\U00100000",
            "###",
            "</think>",
            "<|end|>",
            "答：",
        ]
    ),
    max_size=5,
).map("".join)


@st.composite
def conversations(draw: st.DrawFn, family: Family) -> Messages:
    """A conversation as most templates take it: users and assistants in turn, perhaps behind a system text."""
    turns = draw(st.integers(1, 3))
    texts = [draw(words) for _ in range(2 * turns)]
    roles = ["user", "assistant"] * turns
    messages = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]
    if draw(st.booleans()):
        # The next question has no answer yet.
        messages.append({"role": "user", "content": draw(words)})
    if family.system is not None and draw(st.booleans()):
        messages.insert(0, {"role": "system", "content": draw(words)})
    # A document without a label is dropped.
    messages[-1 if messages[-1]["role"] == "assistant" else -2]["content"] += "end"
    return messages


@given(data=st.data())
@settings(max_examples=tries(70, 200), suppress_health_check=list(HealthCheck))
def test_no_label_stands_outside_of_a_turn_and_its_end(
    data: st.DataObject, with_markers: MakeTokenizer
) -> None:
    family = data.draw(st.sampled_from(FAMILIES))
    markers = data.draw(st.sampled_from([(), family.markers]))
    trims, prompts = data.draw(st.booleans()), data.draw(st.booleans())
    source = data.draw(st.sampled_from([str, unfollowed]))(family.template(trims=trims, prompts=prompts))
    chats = data.draw(st.lists(conversations(family), min_size=1, max_size=3))
    folder = with_markers(markers)
    reference = Tokenizer.from_file(str(folder / "tokenizer.json"))
    for messages in chats:
        text, spans, _ = family.render(messages, trims=trims, prompts=prompts)
        expected = labelled(reference, text, spans)
        assert packed([messages], folder, source) == [expected]


def real(name: str) -> Path:
    """A tokenizer of a published model."""
    folder = DATA / "tokenizers" / name
    if not folder.exists():
        pytest.skip("needs the tokenizers of published models: set FASTPACK_DATA")
    return folder


CHAT = [
    {"role": "user", "content": "2 + 2?"},
    {"role": "assistant", "content": "4"},
    {"role": "user", "content": "And\ntwice that? 日本"},
    {"role": "assistant", "content": "It is 8, or 八。"},
]


@pytest.mark.parametrize("name", REAL)
def test_the_next_header_is_not_trained_with_the_vocabularies_of_published_models(name: str) -> None:
    folder = real(name)
    reference = Tokenizer.from_file(str(folder / "tokenizer.json"))
    loaded_once = fastpack.Tokenizer(folder)
    for family in FAMILIES:
        template = family.template(trims=False, prompts=True)
        text, spans, _ = family.render(CHAT, trims=False, prompts=True)
        for road, change in ROADS.items():
            assert packed([CHAT], loaded_once, change(template)) == [labelled(reference, text, spans)], (
                family.name,
                road,
            )


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
@pytest.mark.parametrize("is_token", [False, True])
def test_ends_are_trained_as_asked_whether_or_not_they_are_tokens(
    family: Family, is_token: bool, with_markers: MakeTokenizer
) -> None:
    folder = with_markers(family.markers if is_token else ())
    reference = Tokenizer.from_file(str(folder / "tokenizer.json"))
    template = family.template(trims=False, prompts=True)
    text, spans, ends = family.render(CHAT, trims=False, prompts=True)
    words = [(start, end[0]) for (start, _), end in zip(spans, ends, strict=True)]
    for asked, expected in (("turn", spans), ("none", words), ("last", [*words[:-1], spans[-1]])):
        found = packed([CHAT], folder, template, special_tokens=fastpack.SpecialTokens(train_on_eos=asked))
        assert found == [labelled(reference, text, expected)], asked
    last = packed([CHAT], folder, template, turns="last")
    assert last == [labelled(reference, text, spans[1:])]
    weighed: list[Any] = [CHAT[0], {**CHAT[1], "train": False}, *CHAT[2:]]
    assert packed([weighed], folder, template) == [labelled(reference, text, spans[1:])]


@given(data=st.data())
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
def test_marked_turns_are_trained_as_transformers_masks_them(
    data: st.DataObject, with_markers: MakeTokenizer
) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers needs Python 3.11")
    family = data.draw(st.sampled_from([family for family in FAMILIES if family.assistant[1].strip()]))
    folder = with_markers(data.draw(st.sampled_from([(), family.markers])))
    trims = data.draw(st.booleans())
    template = family.template(trims=trims, prompts=data.draw(st.booleans()), marks=True)
    messages = data.draw(conversations(family))
    reference = loaded(transformers, folder)
    encoded = reference.apply_chat_template(
        messages,
        chat_template=template,
        tokenize=True,
        return_dict=True,
        return_assistant_tokens_mask=True,
    )
    ids, mask = encoded["input_ids"], encoded["assistant_masks"]
    labels = [token if trained else IGNORED for token, trained in zip(ids, mask, strict=True)]
    change = data.draw(st.sampled_from([str, unfollowed]))
    # The marks of these templates end with a bracket or a letter, of one token, so no known defect shows.
    assert packed([messages], folder, change(template)) == [(ids, [IGNORED, *labels[1:]])]


@functools.cache
def loaded(transformers: Any, folder: Path) -> Any:
    """The tokenizer as transformers loads it."""
    return transformers.AutoTokenizer.from_pretrained(folder)


GLM = (
    "[gMASK]<sop>{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)


def texts(conversation: Messages, tokenizer: Path, template: str, **options: Any) -> list[str]:
    """The stretches of a conversation that are trained, as text."""
    runs: list[list[int]] = [[]]
    for ids, labels in packed([conversation], tokenizer, template, **options):
        for token, label in zip(ids, labels, strict=True):
            if label == IGNORED:
                runs.append([])
            else:
                runs[-1].append(token)
    decoder = fastpack.Tokenizer(tokenizer)
    return [decoder.decode(run) for run in runs if run]


@pytest.mark.parametrize("change", ROADS.values(), ids=ROADS)
def test_without_an_end_the_token_of_the_next_speaker_ends_a_turn(
    change: Callable[[str], str], with_markers: MakeTokenizer
) -> None:
    known = with_markers(("<|user|>", "<|assistant|>"))
    assert texts(CHAT, known, change(GLM)) == ["4<|user|>", "It is 8, or 八。"]
    assert texts(CHAT, with_markers(()), change(GLM)) == ["4", "It is 8, or 八。"]


def test_the_header_of_a_second_answer_in_a_row_is_not_trained(
    with_markers: MakeTokenizer,
) -> None:
    twice = [*CHAT[:2], {"role": "assistant", "content": "four"}]
    for markers in ((), ("<|user|>", "<|assistant|>")):
        assert texts(twice, with_markers(markers), GLM) == ["4", "four"]


def test_a_turn_that_ends_otherwise_where_others_follow_is_a_document_of_its_own(
    with_markers: MakeTokenizer,
) -> None:
    template = (
        "{% for m in messages %}{% if m.role == 'user' %}USER: {{ m.content }} ASSISTANT: {% else %}"
        "{{ m.content }}{% if WHERE %}</s>{% endif %} {% endif %}{% endfor %}"
    )
    known, unknown = with_markers(("</s>",)), with_markers(())
    last, others = template.replace("WHERE", "loop.last"), template.replace("WHERE", "not loop.last")
    ends = ["4</s>", "It is 8, or 八。</s>"]
    for folder in (known, unknown):
        assert len(packed([CHAT], folder, last)) == 2
        assert texts(CHAT, folder, last) == ends
    assert texts(CHAT, known, last, turns="whole") == ["4", "It is 8, or 八。</s>"]
    assert texts(CHAT, known, others) == ["4</s>", "It is 8, or 八。"]
    assert texts(CHAT, unknown, others) == ["4", "It is 8, or 八。"]


def test_a_call_is_trained_with_what_closes_it(with_markers: MakeTokenizer) -> None:
    call = {"type": "function", "function": {"name": "add", "arguments": {"a": "2", "b": 2}}}
    messages: list[Any] = [
        {"role": "user", "content": "2 + 2?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": "add", "content": "4"},
        {"role": "assistant", "content": "It is 4."},
    ]
    template = (
        "{% for m in messages %}### {{ m.role }}:\n{{ m.content }}{% for call in m.tool_calls or [] %}"
        "<call>{{ call.function.arguments|tojson }}</call>{% endfor %}END\n\n{% endfor %}"
        "{% if add_generation_prompt %}### assistant:\n{% endif %}"
    )
    said = '<call>{"a": "2", "b": 2}</call>'
    for end in ("END", "<|end|>", ""):
        source = template.replace("END", end)
        for change in ROADS.values():
            assert texts(messages, with_markers(()), change(source)) == [said + end, "It is 4." + end]


def test_an_end_that_nothing_tells_from_a_header_is_refused(
    with_markers: MakeTokenizer,
) -> None:
    asking = (
        "<|start|>system\nx<|im_end|>\n{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
        "{% endfor %}<|start|>assistant\n"
    )
    with pytest.raises(fastpack.RecordError) as caught:
        packed([CHAT], with_markers(()), asking)
    assert caught.value.reason == "unmaskable"


PRIVATE = [chr(plane + at) for plane in (0xE000, 0xF0000, 0x100000) for at in range(4)]


@pytest.mark.parametrize("change", ROADS.values(), ids=ROADS)
def test_private_use_characters_anywhere_change_no_mask(
    change: Callable[[str], str], with_markers: MakeTokenizer
) -> None:
    folder = with_markers(())
    private = "".join(PRIVATE)
    template = (
        "{{ before }}{% for m in messages %}{{ m.name }}<|start|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
        "{{ tools|tojson if tools else '' }}{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
    )
    function = {"name": private, "description": private, "parameters": {private: private}}
    tools: Any = [{"type": "function", "function": function}]
    for content in ("4", *PRIVATE, private):
        chat = [
            {"role": role, "content": content, "name": content} for role in ("user", "assistant", private) * 2
        ]
        for kwargs in ({}, {"before": content}, {"before": private, private: [private]}):
            record = {"messages": chat, "tools": tools, "chat_template_kwargs": kwargs}
            table = fastpack.pack_records(
                [record],
                folder,
                max_length=10_000,
                strategy="none",
                chat_template=change(template),
                train_on="assistant",
            )
            (row,) = table.to_pylist()
            trained = [label for label in row["labels"] if label != IGNORED]
            assert fastpack.Tokenizer(folder).decode(trained) == f"{content}<|end|>" * 2


@pytest.mark.parametrize("before", PRIVATE)
def test_a_private_use_character_that_a_prompt_alone_has_is_no_mark(
    before: str, with_markers: MakeTokenizer
) -> None:
    template = (
        "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|start|>assistant\n{{ before }}{% endif %}"
    )
    given = {"chat_template": fastpack.ChatTemplate(variables={"before": before})}
    assert texts(CHAT, with_markers(()), template, **given) == ["4<|end|>", "It is 8, or 八。<|end|>"]


@given(data=st.data())
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
def test_template_arguments_of_any_characters_are_no_marks(
    data: st.DataObject, with_markers: MakeTokenizer
) -> None:
    family = data.draw(st.sampled_from(FAMILIES))
    template = "{{ before }}" + family.template(trims=False, prompts=True)
    before = data.draw(st.text(st.sampled_from([*PRIVATE, "a", "\n"]), max_size=8))
    folder = with_markers(())
    reference = Tokenizer.from_file(str(folder / "tokenizer.json"))
    text, spans, _ = family.render(CHAT, trims=False, prompts=True)
    moved = [(start + len(before), end + len(before)) for start, end in spans]
    found = packed(
        [CHAT], folder, template, chat_template=fastpack.ChatTemplate(variables={"before": before})
    )
    assert found == [labelled(reference, before + text, moved)]
