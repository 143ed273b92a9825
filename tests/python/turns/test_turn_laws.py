"""Of every turn exactly the text that the model has to generate is trained, behind the text that it sees there, with any template."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from campaign import tries
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from rows import table_of
from template_helpers import unfollowed
from turn_conversations import FEATURES, conversations, features, kinds
from turn_packing import (
    ALONE,
    COLUMNS,
    Loaded,
    Record,
    Row,
    by_record,
    fixed_time,
    load,
    packed,
    published,
)
from turn_templates import KINDS, Kind, with_macros

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from turn_rule import Rule

pytest.importorskip("transformers")

__all__ = ["fixed_time", "load"]

CHOICES = ["auto", "each", "last"]

MOST = settings(max_examples=tries(2, 60), suppress_health_check=list(HealthCheck))


def defined(record: Record, rule: Rule, turns: str) -> list[Row]:
    """The documents by the rule; none if the template refuses the conversation."""
    try:
        documents = rule.documents(record["messages"], record.get("tools"), turns)
    except Exception:
        return []
    return rule.labelled(documents)


def compare(records: list[Record], loaded: Loaded) -> int:
    """Holds fastpack against the rule for all choices; returns the number of documents."""
    tokenizer, rule = loaded
    made = 0
    for turns in CHOICES:
        for record, found in zip(records, packed(records, tokenizer, turns=turns), strict=True):
            expected = defined(record, rule, turns)
            made += len(expected)
            assert found == expected, (turns, json.dumps(record, ensure_ascii=False))
    return made


def test_conversations_have_all_that_turns_depend_on() -> None:
    found: set[str] = set()

    @settings(
        max_examples=400,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(record=conversations(parts=True))
    def look(record: Record) -> None:
        found.update(features(record))

    look()
    assert found >= FEATURES, sorted(FEATURES - found)


SOME = st.lists(conversations(parts=True), min_size=4, max_size=4)
PLAIN = st.lists(conversations(), min_size=4, max_size=4)


@pytest.mark.parametrize("name", KINDS)
@MOST
@given(records=SOME)
def test_turns_are_trained_as_defined(
    name: str, records: list[Record], load: Callable[[Kind], Loaded]
) -> None:
    compare(records, load(KINDS[name]))


@settings(max_examples=tries(8, 1000), suppress_health_check=list(HealthCheck))
@given(kind=st.sampled_from(list(published().values())), records=PLAIN)
def test_turns_of_published_templates_are_trained_as_defined(
    kind: Kind, records: list[Record], load: Callable[[Kind], Loaded]
) -> None:
    compare(records, load(kind))


@settings(max_examples=tries(4, 600), suppress_health_check=list(HealthCheck))
@given(kind=kinds(), records=SOME)
def test_turns_of_random_templates_are_trained_as_defined(
    kind: Kind, records: list[Record], load: Callable[[Kind], Loaded]
) -> None:
    compare(records, load(kind))


CALL = {"id": "abcdefgh1", "type": "function", "function": {"name": "weather", "arguments": {"city": "Rome"}}}
AGENTIC: Record = {
    "messages": [
        {"role": "user", "content": "Weather in Rome?"},
        {"role": "assistant", "content": "", "reasoning_content": "I ask.", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "abcdefgh1", "name": "weather", "content": "sunny"},
        {"role": "assistant", "content": "Sunny.", "reasoning_content": "It says so."},
        {"role": "user", "content": "Sure?"},
        {"role": "assistant", "content": "Yes."},
    ]
}


def texts(name: str, load: Callable[[Kind], Loaded], turns: str = "auto") -> list[list[str]]:
    """The trained stretches of each document of the agentic conversation."""
    tokenizer, _ = load(KINDS[name])
    documents = []
    for ids, labels in packed([AGENTIC], tokenizer, turns=turns)[0]:
        stretches: list[list[int]] = []
        for before, token, label in zip([-100, *labels], ids, labels, strict=False):
            if label != -100 and before == -100:
                stretches.append([])
            if label != -100:
                stretches[-1].append(token)
        documents.append([tokenizer.decode(stretch) for stretch in stretches])
    return documents


def test_one_document_where_the_template_keeps_history(load: Callable[[Kind], Loaded]) -> None:
    first = '<think>I ask.</think><tool_call>{"name": "weather", "arguments": {"city": "Rome"}}</tool_call><|end|>'
    second = "<think>It says so.</think>Sunny.<|end|>"
    assert texts("keeps reasoning", load) == [[first, second, "Yes.<|end|>"]]
    assert texts("keeps reasoning", load, "each") == [[first], [second], ["Yes.<|end|>"]]
    assert texts("keeps reasoning", load, "last") == [["Yes.<|end|>"]]


def test_steps_of_tools_stay_together_where_their_reasoning_is_kept(load: Callable[[Kind], Loaded]) -> None:
    first, second, third = (
        stretch for document in texts("drops earlier reasoning", load) for stretch in document
    )
    assert [len(document) for document in texts("drops earlier reasoning", load)] == [2, 1]
    assert first.startswith("<think>\nI ask.\n</think>")
    assert second == "<think>\nIt says so.\n</think>\n\nSunny.<|end|>"
    assert third == "Yes.<|end|>"


def test_a_turn_whose_calls_are_not_printed_is_context(load: Callable[[Kind], Loaded]) -> None:
    assert texts("prints no calls", load) == [["Sunny.<|end|>", "Yes.<|end|>"]]


def test_what_stops_generation_before_the_next_message_is_trained(load: Callable[[Kind], Loaded]) -> None:
    ((first, second, third),) = texts("ends before the next", load)
    assert first.endswith("</tool_call><|observation|>")
    assert (second, third) == ("Sunny.<|user|>", "Yes.")


def test_the_end_of_a_thought_is_not_the_beginning_of_one(load: Callable[[Kind], Loaded]) -> None:
    source = (
        "{% for m in messages %}<|start|>{{ m.role }}{{ '\\n' }}"
        "{% if m.role == 'assistant' and loop.last %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}{{ said(m) }}{{ '\\n' }}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<|start|>assistant\\n<think>\\n' }}{% endif %}"
    )
    loaded = load(Kind(with_macros(source), ("<|eos|>",)))
    talk = [
        {"role": "user", "content": "river"},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": "x"},
    ]
    assert compare([{"messages": talk}], loaded) == 3


def test_blanks_that_the_template_takes_from_the_last_turn_alone_are_not_generated(
    load: Callable[[Kind], Loaded],
) -> None:
    source = (
        "{% for m in messages %}<|start|>{{ m.role }}\n"
        "{{ said(m) | trim if loop.last else said(m) }}<|end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
    )
    loaded = load(Kind(with_macros(source), ("<|end|>",)))
    answers = ["river", "river ", "river\n", "river\n\n", "river\xa0", " river", "river. ", "", "\n"]
    talks = [
        {
            "messages": [
                {"role": "user", "content": "x"},
                {"role": "assistant", "content": answer},
                {"role": "user", "content": "x"},
                {"role": "assistant", "content": "yes"},
            ]
        }
        for answer in answers
    ]
    # A document for each choice, and two where the model has generated something else than what is shown later.
    changed = sum(answer != answer.strip() for answer in answers)
    assert compare(talks, loaded) == 4 * len(answers) + changed


def test_words_that_the_generation_prompt_begins_with_are_context(load: Callable[[Kind], Loaded]) -> None:
    source = (
        "{% for m in messages %}<|start|>{{ m.role }}\n{{ said(m) }}<|end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|start|>assistant\nIt is so, because:\n{% endif %}"
    )
    loaded = load(Kind(with_macros(source), ("<|end|>",)))
    answers = [
        "Yes.",
        "It is.",
        "It was",
        "Item",
        "It is so, because:\nyes",
        "It is so, because: yes",
        " It",
        "I",
    ]
    records = [
        {
            "messages": [
                message
                for answer in order
                for message in (
                    {"role": "user", "content": "So?"},
                    {"role": "assistant", "content": answer},
                )
            ]
        }
        for order in [*([answer] for answer in answers), answers, answers[::-1]]
    ]
    assert compare(records * 2, loaded) == 2 * 3 * 8 + 2 * 2 * (1 + 8 + 1)


@pytest.mark.parametrize("name", ["plain", "drops earlier reasoning", "channels", "prompt opens a thought"])
@settings(max_examples=tries(1, 30), suppress_health_check=list(HealthCheck))
@given(records=st.lists(conversations(parts=True), min_size=12, max_size=12), seed=st.integers(0, 2**32))
def test_documents_do_not_depend_on_road_threads_and_neighbours(
    name: str, records: list[Record], seed: int, load: Callable[[Kind], Loaded]
) -> None:
    tokenizer, _ = load(KINDS[name])
    template = KINDS[name].source
    for turns in [*CHOICES, "whole"]:
        once = packed(records, tokenizer, turns=turns, threads=1)
        for options in ({"threads": 2}, {"threads": 4}, {"chat_template": unfollowed(template)}):
            assert packed(records, tokenizer, turns=turns, **options) == once, (turns, options)
        order = list(range(len(records)))
        random.Random(seed).shuffle(order)
        shuffled = packed([records[at] for at in order], tokenizer, turns=turns)
        assert shuffled == [once[at] for at in order], turns
        assert packed(records * 3, tokenizer, turns=turns) == once * 3


@pytest.mark.parametrize("turns", CHOICES)
def test_every_function_makes_the_same_documents(
    turns: str, load: Callable[[Kind], Loaded], write_jsonl: Callable[..., Path], tmp_path: Path
) -> None:
    tokenizer, _ = load(KINDS["drops earlier reasoning"])
    records = [{"messages": AGENTIC["messages"][:end]} for end in (2, 4, 6)] * 5
    path = write_jsonl(records)
    alone = packed(records, tokenizer, turns=turns)
    options: Any = {"tokenizer": tokenizer, "turns": turns, **ALONE}
    assert by_record(fastpack.pack_files(path, columns=COLUMNS, **options), records) == alone
    assert (
        by_record(fastpack.pack_table(pa.Table.from_pylist(records), columns=COLUMNS, **options), records)
        == alone
    )
    fastpack.pack_dir(path, tmp_path / "out", columns=COLUMNS, **options)
    assert by_record(table_of(tmp_path / "out"), records) == alone
    streamed = fastpack.stream(
        path, epochs=1, shuffle=False, ranks=fastpack.Ranks(lanes=1), columns=COLUMNS, **options
    )
    assert by_record(pa.concat_tables(streamed), records) == alone
    scanned = fastpack.scan(path, tokenizer=tokenizer, max_length=1 << 16, strategy="none", turns=turns)
    assert scanned.documents == sum(map(len, alone))
