"""Gaps in the texts of turns, their beginnings and ends, and untrained turns are counted and told, on every road."""

from __future__ import annotations

import copy
import json
import warnings
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from campaign import tries
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nested import nested
from template_helpers import unfollowed
from test_loss_mask import ROADS
from turn_conversations import TOOLS, conversations, kinds
from turn_packing import ALONE, Loaded, Record, fixed_time, load, published
from turn_rule import THOUGHTS, Document, Rule, Turn, without_nulls
from turn_templates import KINDS, Kind

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytest.importorskip("transformers")

__all__ = ["fixed_time", "load"]

NOTES = [
    "last_reasoning_left_out",
    "earlier_reasoning_left_out",
    "calls_left_out",
    "other_openings",
    "unended_turns",
    "untrained_turns",
    "encoded_arguments",
    "printed_as_python",
]
CHOICES = ["auto", "each", "last"]


class Noting:
    """The notes on one conversation by definition: a missing part does not change the texts when it changes."""

    def __init__(self, rule: Rule, record: Record, turns: str) -> None:
        self.rule, self.choice, self.tools = rule, turns, record.get("tools")
        self.messages = without_nulls(record["messages"])

    def documents(self, messages: list[Record]) -> list[Document]:
        return self.rule.documents(messages, self.tools, self.choice)

    def is_hidden(self, at: int, change: Callable[[Record], None]) -> bool:
        """True if the texts are the same after a change of a message."""
        messages = copy.deepcopy(self.messages)
        change(messages[at])
        try:
            return [it.text for it in self.documents(messages)] == [
                it.text for it in self.documents(self.messages)
            ]
        except Exception:
            return False

    def hidden_reasoning(self, at: int) -> bool:
        message = self.messages[at]
        for name in THOUGHTS:
            if str(message.get(name, "")).strip() and self.is_hidden(
                at, lambda m, n=name: m.update({n: "Qq"})
            ):
                return True
        content = message.get("content")
        if not isinstance(content, str) or "</think>" not in content:
            return False
        thought, _, answer = content.partition("</think>")
        return self.is_hidden(at, lambda m: m.update(content=f"<think>Qq</think>{answer}")) or bool(
            answer.strip()
            and self.is_hidden(at, lambda m: m.update(content=f"{thought}</think>Qq"))
            and not self.is_hidden(at, lambda m: m.update(content="Qq"))
        )

    def hides_calls(self, at: int) -> bool:
        def change(message: Record) -> None:
            for call in message["tool_calls"]:
                arguments = call["function"]["arguments"]
                other = {"city": "Qq"}
                call["function"]["arguments"] = other if isinstance(arguments, dict) else json.dumps(other)

        return bool(self.messages[at].get("tool_calls")) and self.is_hidden(at, change)

    def encodes(self, at: int, documents: list[Document]) -> bool:
        for call in self.messages[at].get("tool_calls") or []:
            arguments = call["function"]["arguments"]
            if isinstance(arguments, str) and any(
                json.dumps(arguments, ensure_ascii=False) in it.text or f"'{arguments}'" in it.text
                for it in documents
            ):
                return True
        return False

    def prints_python(self, at: int, documents: list[Document]) -> bool:
        message = self.messages[at]
        calls = [call["function"]["arguments"] for call in message.get("tool_calls") or []]
        texts = [str(it) for it in (message.get("content"), *calls) if isinstance(it, (dict, list))]
        return any(text in it.text for text in texts if "'" in text for it in documents)

    def notes(self) -> dict[str, int]:
        """The index of the first message of each note that holds."""
        documents = self.documents(self.messages)
        spoken = [at for at, message in enumerate(self.messages) if message["role"] == "assistant"]
        found: list[Turn] = self.rule.turns(self.messages, self.tools)
        chosen = spoken[-1:] if self.choice == "last" else spoken
        said = [turn for turn in found if turn.said and set(chosen) & set(turn.messages)]
        trained = {at for turn in said for at in turn.messages}
        ends = [
            (at, it.text[first:last].rstrip())
            for it in documents
            for at, (first, last) in zip(it.messages, it.trained, strict=True)
        ]
        hidden = [at for at in spoken if self.hidden_reasoning(at)]
        held = {
            "last_reasoning_left_out": [at for at in hidden if at == spoken[-1]],
            "earlier_reasoning_left_out": [at for at in hidden if at != spoken[-1]],
            "calls_left_out": [at for at in spoken if self.hides_calls(at)],
            "other_openings": [turn.messages[-1] for turn in said if turn.opens_otherwise],
            "unended_turns": [at for at, it in ends if not it.endswith(tuple(self.rule.stops))],
            "untrained_turns": [at for at in chosen if at not in trained],
            "encoded_arguments": [at for at in spoken if self.encodes(at, documents)],
            "printed_as_python": [
                at for at in range(len(self.messages)) if self.prints_python(at, documents)
            ],
        }
        return {name: min(messages) for name, messages in held.items() if messages}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("turns", CHOICES)
def test_an_untrained_last_message_is_not_noted(
    name: str, turns: Any, load: Callable[[Kind], Loaded]
) -> None:
    tokenizer, _ = load(KINDS[name])
    trained = [ASKED, answer("Sunny.")]
    behind = [ASKED, answer("Later, at five.", train=False)]
    found = [
        counted(packed([{"messages": it}], tokenizer, turns=turns)) for it in (trained, trained + behind)
    ]
    assert not {"last_reasoning_left_out", "earlier_reasoning_left_out"} & (set(found[1]) - set(found[0]))


def counted(report: fastpack.Report | fastpack.ScanReport) -> Counter[str]:
    return +Counter({name: getattr(report, name).records for name in NOTES})


def first_messages(report: fastpack.Report) -> dict[str, int]:
    """The index of the message that each note names first."""
    places = {name: getattr(report, name).places for name in NOTES}
    return {name: int(it[0].rsplit(", message ", 1)[1]) for name, it in places.items() if it}


def packed(records: list[Record], tokenizer: fastpack.Tokenizer, **options: Any) -> fastpack.Report:
    table = fastpack.pack_records(records, tokenizer, **nested(options, ALONE))
    return fastpack.Report.of(table)


def compare(records: list[Record], loaded: Loaded) -> None:
    """Holds the counts against the definition, one record at a time."""
    tokenizer, rule = loaded
    for turns in CHOICES:
        for record in records:
            try:
                own = Noting(rule, record, turns).notes()
            except Exception:
                continue
            report = packed([record], tokenizer, turns=turns)
            if report.documents.kept:
                found = first_messages(report)
                assert counted(report) == Counter(own.keys())
                assert found == own, (turns, found, own, json.dumps(record, ensure_ascii=False))


SOME = st.lists(conversations(), min_size=tries(2, 4), max_size=tries(2, 4))
MOST = settings(max_examples=tries(1, 40), suppress_health_check=list(HealthCheck), deadline=None)


@pytest.mark.parametrize("name", KINDS)
@MOST
@given(records=SOME)
def test_turns_are_noted_as_defined(name: str, records: list[Record], load: Callable[[Kind], Loaded]) -> None:
    compare(records, load(KINDS[name]))


@settings(max_examples=tries(3, 600), suppress_health_check=list(HealthCheck), deadline=None)
@given(kind=st.sampled_from(list(published().values())), records=SOME)
def test_turns_of_published_templates_are_noted_as_defined(
    kind: Kind, records: list[Record], load: Callable[[Kind], Loaded]
) -> None:
    compare(records, load(kind))


@settings(max_examples=tries(3, 400), suppress_health_check=list(HealthCheck), deadline=None)
@given(kind=kinds(), records=SOME)
def test_turns_of_random_templates_are_noted_as_defined(
    kind: Kind, records: list[Record], load: Callable[[Kind], Loaded]
) -> None:
    compare(records, load(kind))


def answer(content: str | None, **more: Any) -> Record:
    return {"role": "assistant", "content": content, **more}


def call(arguments: Any) -> Record:
    function = {"name": "weather", "arguments": arguments}
    return {"tool_calls": [{"id": "abcdefgh1", "type": "function", "function": function}]}


ASKED = {"role": "user", "content": "Weather?"}
RESULT = {"role": "tool", "tool_call_id": "abcdefgh1", "name": "weather", "content": "sunny"}
EXAMPLES: list[tuple[str, list[Record], dict[str, Any], set[str]]] = [
    ("plain", [ASKED, answer("Sunny.", reasoning_content="I see.")], {}, {"last_reasoning_left_out"}),
    ("plain", [ASKED, answer("<think>I see.</think>Sunny.")], {}, set()),
    (
        "cuts inline thoughts",
        [ASKED, answer("<think>I see.</think>Sunny.")],
        {"train_on": "all"},
        {"last_reasoning_left_out"},
    ),
    (
        "cuts inline thoughts",
        [ASKED, answer("<think>I see.</think>"), ASKED, answer("Sunny.")],
        {"train_on": "all"},
        {"earlier_reasoning_left_out"},
    ),
    (
        "drops earlier reasoning",
        [ASKED, answer("<think>I see.</think>Sunny."), ASKED, answer("Sunny.")],
        {"turns": "whole"},
        {"earlier_reasoning_left_out"},
    ),
    (
        "drops earlier reasoning",
        [ASKED, answer("Sunny.", thinking="I see."), ASKED, answer("Sunny.")],
        {},
        set(),
    ),
    ("ends before the next", [ASKED, answer("Sunny.")], {}, {"other_openings", "unended_turns"}),
    ("ends before the next", [ASKED, answer("Sunny.")], {"train_on": "all"}, {"unended_turns"}),
    (
        "ends before the next",
        [ASKED, answer("Sunny.")],
        {"special_tokens": fastpack.SpecialTokens(eos=True)},
        {"other_openings"},
    ),
    (
        "ends before the next",
        [ASKED, answer("Sunny.")],
        {"special_tokens": fastpack.SpecialTokens(train_on_eos="none")},
        {"other_openings"},
    ),
    ("prompt opens a thought", [ASKED, answer("Sunny.")], {}, {"other_openings"}),
    (
        "prompt opens a thought",
        [ASKED, answer("Sunny.", loss=False), ASKED, answer("Sunny.", thinking="I see.")],
        {},
        set(),
    ),
    (
        "prints no calls",
        [ASKED, answer("", **call({"city": "Rome"})), RESULT, answer("Sunny.")],
        {},
        {"calls_left_out", "untrained_turns"},
    ),
    (
        "prints no calls",
        [ASKED, answer("", loss=False, **call({"city": "Rome"})), RESULT, answer("Sunny.")],
        {},
        {"calls_left_out"},
    ),
    (
        "plain",
        [ASKED, answer("", **call('{"city": "Rome"}')), RESULT, answer("Sunny.")],
        {},
        {"encoded_arguments"},
    ),
    ("plain", [ASKED, answer("", **call({"city": "Rome"})), RESULT, answer("Sunny.")], {}, set()),
]


@pytest.mark.parametrize(("name", "messages", "options", "expected"), EXAMPLES)
def test_every_road_counts_them_and_warns_once(
    name: str,
    messages: list[Record],
    options: dict[str, Any],
    expected: set[str],
    load: Callable[[Kind], Loaded],
    tmp_path: Path,
) -> None:
    tokenizer, _ = load(KINDS[name])
    good = {"messages": [ASKED, answer("Sunny.")]}
    source = KINDS[name].source
    plain = packed([good], tokenizer, **options)
    bad = {"messages": messages, **({"tools": TOOLS} if "tool_calls" in str(messages) else {})}
    records = [good, bad, good, bad, bad]
    own = Counter(dict.fromkeys(expected, 3))
    both = Counter({name: own[name] + 2 * counted(plain)[name] for name in NOTES})
    path = tmp_path / "talks.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    given: Any = nested(options, ALONE)
    reports: list[fastpack.Report | fastpack.ScanReport] = [
        fastpack.Report.of(road(records, tokenizer, tmp_path, **given)) for road in ROADS
    ]
    reports += [
        fastpack.Report.of(fastpack.pack_files(path, tokenizer, **nested(more, given)))
        for more in ({"threads": 1}, {"threads": 3}, {"chat_template": unfollowed(source)})
    ]
    reports.append(fastpack.pack_dir(path, tmp_path / "out", tokenizer=tokenizer, **given))
    scanned = {key: value for key, value in given.items() if key not in ("max_lost", "on_bad_record")}
    reports.append(fastpack.scan(path, tokenizer=tokenizer, **scanned))
    stream = fastpack.stream(path, tokenizer, epochs=1, **{**scanned, "strategy": "concat"})
    list(stream)
    assert stream.report is not None
    reports.append(stream.report)
    for number, report in enumerate(reports):
        assert counted(report) == +both, number
        for noted in (getattr(report, note) for note in expected if both[note] == 3):
            # A stream reads the records in another order.
            lines = sorted(place.rsplit(":", 1)[1].split(", message ") for place in noted.places)
            assert [line for line, _ in lines] == ["2", "4", "5"]
            assert len({message for _, message in lines}) == 1
        assert len({*report.warnings}) == len(report.warnings)


def test_warnings_name_what_helps(load: Callable[[Kind], Loaded]) -> None:
    tokenizer, _ = load(KINDS["ends before the next"])
    report = packed([{"messages": [ASKED, answer("Sunny.")]}] * 3, tokenizer)
    [told] = [warning for warning in report.warnings if "without an end" in warning]
    assert told.startswith("3 records have a trained turn without an end, first at ")
    assert ":1, message 1, so that" in told
    assert "SpecialTokens(eos=True) adds the end-of-text token" in told


def test_a_note_names_the_message_behind_others_of_one_form(load: Callable[[Kind], Loaded]) -> None:
    tokenizer, _ = load(KINDS["plain"])
    for count in (0, 1, 4, 9):
        messages = [ASKED, answer("Sunny.")] * count + [ASKED, answer("Rainy.", thinking="I see.")]
        records = [{"messages": messages}] * 3
        for chat_template in (None, unfollowed(KINDS["plain"].source)):
            report = packed(records, tokenizer, chat_template=chat_template)
            assert report.last_reasoning_left_out.places == tuple(
                f"<records>:{line}, message {2 * count + 1}" for line in (1, 2, 3)
            )
        same = packed([{"messages": [ASKED, answer("Sunny.", thinking="I see.")] * (count + 1)}], tokenizer)
        assert same.last_reasoning_left_out.places == (f"<records>:1, message {2 * count + 1}",)
        assert same.earlier_reasoning_left_out.places == (("<records>:1, message 1",) if count else ())


def test_calls_without_arguments_are_noted(load: Callable[[Kind], Loaded]) -> None:
    for name, expected in (("prints no calls", 1), ("plain", 0)):
        tokenizer, _ = load(KINDS[name])
        record = {"messages": [ASKED, answer("", **call({})), RESULT, answer("Sunny.")], "tools": TOOLS}
        assert packed([record], tokenizer).calls_left_out.records == expected


def test_compared_answers_are_noted(load: Callable[[Kind], Loaded]) -> None:
    tokenizer, _ = load(KINDS["plain"])
    record = {
        "prompt": [ASKED],
        "chosen": [answer("Sunny.", reasoning_content="I see.")],
        "rejected": [answer("Rainy.")],
    }
    options: Any = {"objective": "preference", "max_length": 512}
    report = fastpack.Report.of(fastpack.pack_records([record], tokenizer, **options))
    assert counted(report) == Counter(["last_reasoning_left_out"])


def test_turns_of_an_untrained_assistant_are_not_noted(load: Callable[[Kind], Loaded]) -> None:
    tokenizer, _ = load(KINDS["ends before the next"])
    record = {"messages": [ASKED, answer("Sunny.")]}
    for roles, expected in ((["user"], []), (["user", "assistant"], ["other_openings", "unended_turns"])):
        report = packed([record], tokenizer, train_on=fastpack.TrainOn(roles=roles))
        assert report.documents.kept == 1
        assert counted(report) == Counter(expected)


#: A prompt that opens a thought, before a text that is cut at the end of one.
OPENS_A_THOUGHT = Kind(
    "{% for m in messages %}<|start|>{{ m.role }}\n{% set words = m.content %}"
    "{% if m.role == 'assistant' and '</think>' in words %}{% set words = words.split('</think>')[-1] %}{% endif %}"
    "{{ words }}<|end|>\n{% endfor %}{% if add_generation_prompt %}<|start|>assistant\n<think>\n{% endif %}",
    ("<|end|>",),
)


@pytest.mark.parametrize(
    "thought",
    ["\n我先算一下。\n", "sunny", "sunny.", "sunny day", "\nsunny\n", " ", "\nI can add\nfive and one.\n"],
    ids=repr,
)
def test_a_thought_of_one_word_is_missed_like_others(thought: str, load: Callable[[Kind], Loaded]) -> None:
    tokenizer, _ = load(OPENS_A_THOUGHT)
    asked = {"role": "user", "content": "q"}
    said = answer(f"<think>{thought}</think>\n\nfive x")
    report = packed([{"messages": [asked, said]}, {"messages": [asked, said, asked, said]}], tokenizer)
    found = counted(report)
    wanted = bool(thought.strip())
    assert found["last_reasoning_left_out"] == 2 * wanted
    assert found["earlier_reasoning_left_out"] == wanted


# What a turn behind an earlier question has, and how a template prints it behind the last question alone.
HISTORY = {
    "reasoning_content": ("Thought", "[{{ m.reasoning_content }}]"),
    "tool_calls": (
        [{"type": "function", "function": {"name": "look", "arguments": {"at": "sky"}}}],
        "[{{ m.tool_calls | tojson }}]",
    ),
}


@pytest.mark.parametrize("field", HISTORY)
def test_what_another_document_of_the_conversation_has_is_not_left_out(
    field: str, tokenizer_dir: Path
) -> None:
    """The render of all messages lacks the field of the earlier turns, whose own documents have it."""
    value, printed = HISTORY[field]
    template = (
        "{% set last = namespace(user=-1) %}"
        "{% for m in messages %}{% if m.role == 'user' %}{% set last.user = loop.index0 %}{% endif %}{% endfor %}"
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}"
        f"{{% if m.{field} and loop.index0 > last.user %}}{printed}{{% endif %}}"
        "<end>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
    )
    messages = []
    for number in range(2):
        messages.append({"role": "user", "content": f"Question {number}?"})
        messages.append({"role": "assistant", "content": f"Answer {number}.", field: value})
    messages += [{"role": "user", "content": "More?"}, {"role": "assistant", "content": "No."}]
    found = {}
    for turns in ("auto", "each", "last", "whole"):
        table = fastpack.pack_records(
            [{"messages": messages}] * 3, tokenizer_dir, max_length=512, chat_template=template, turns=turns
        )
        left_out = fastpack.Report.of(table).left_out
        found[turns] = {name: noted.records for name, noted in left_out.items()}
    assert found == {"auto": {}, "each": {}, "last": {field: 3}, "whole": {field: 3}}


PRINTS = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}"
    "{% for c in m.tool_calls or [] %} {{ c.function.arguments }}{% endfor %}\n{% endfor %}"
)

JSON = PRINTS.replace("m.content", "m.content | tojson").replace("arguments", "arguments | tojson")


@pytest.mark.parametrize(
    ("template", "messages", "at"),
    [
        (PRINTS, [ASKED, answer({"city": "Rome"})], 1),
        (PRINTS, [ASKED, answer(["Rome"])], 1),
        (PRINTS, [{"role": "user", "content": [{"type": "text", "text": "Rome?"}]}, answer("Sunny.")], 0),
        (PRINTS, [ASKED, answer("", **call({"city": "Rome"})), RESULT, answer("Sunny.")], 1),
        (PRINTS, [ASKED, answer("", **call('{"city": "Rome"}')), RESULT, answer("Sunny.")], None),
        (PRINTS, [ASKED, answer("Rome's {'weather'}")], None),
        (PRINTS, [ASKED, answer({})], None),
        (JSON, [ASKED, answer({"city": "Rome"})], None),
        (JSON, [ASKED, answer("", **call({"city": "Rome"})), RESULT, answer("Sunny.")], None),
    ],
)
def test_objects_and_lists_that_a_template_prints_as_python_writes_them_are_noted(
    template: str, messages: list[Record], at: int | None, tokenizer_dir: Path
) -> None:
    records = [{"messages": messages}] * 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = fastpack.pack_records(
            records, tokenizer_dir, max_length=256, chat_template=fastpack.ChatTemplate(template)
        )
    noted = fastpack.Report.of(table).printed_as_python
    assert noted.records == (0 if at is None else 3)
    assert [place.rpartition(", message ")[2] for place in noted.places[:1]] == (
        [] if at is None else [str(at)]
    )
