"""Templates that mark their turns are split like all others where the render of a whole conversation changes earlier turns."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from campaign import tries
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from template_helpers import trl_templates
from turn_conversations import TOOLS, conversations
from turn_packing import Loaded, Record, fixed_time, load, packed
from turn_templates import Kind, kind_of, with_macros

import fastpack

pytest.importorskip("transformers")

__all__ = ["fixed_time", "load"]

Load = Any

FORGETS = Kind(
    with_macros(
        "{%- set n = namespace(last=-1) -%}{%- for m in messages -%}{%- if m.role == 'assistant' -%}"
        "{%- set n.last = loop.index0 -%}{%- endif -%}{%- endfor -%}"
        "{% for m in messages %}<|start|>{{ m.role }}\n{% set words = said(m) %}{% if m.role == 'assistant' %}"
        "{% if loop.index0 != n.last and '</think>' in words %}"
        "{% set words = words.split('</think>')[-1].lstrip('\n') %}{% endif %}"
        "{% generation %}{{ words }}<|end|>{% endgeneration %}\n{% else %}{{ words }}<|end|>\n{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
    ),
    ("<|end|>",),
)
"""A template that prints the thought of the last turn alone, and no calls."""


def marked() -> dict[str, Kind]:
    """TRL's templates that mark their turns, and one that forgets."""
    sources = {name: source for name, source in trl_templates().items() if "endgeneration" in source}
    return {"forgets": FORGETS, **{name: kind_of(source) for name, source in sources.items()}}


def texts(loaded: Loaded, records: list[Record], turns: str) -> list[list[tuple[str, list[str]]]]:
    """The text of each document, and the texts that are trained in it."""
    tokenizer, _ = loaded

    def shown(row: tuple[list[int], list[int]]) -> tuple[str, list[str]]:
        ids, labels = row
        runs = itertools.groupby(zip(ids, labels, strict=True), lambda pair: pair[1] != -100)
        trained = [tokenizer.decode([token for token, _ in run]) for is_trained, run in runs if is_trained]
        return tokenizer.decode(ids), trained

    return [[shown(row) for row in rows] for rows in packed(records, tokenizer, turns=turns)]


def test_an_earlier_thought_stands_in_a_document_of_its_own(load: Load) -> None:
    loaded = load(FORGETS)
    said = ["<think>\nI can add.\n</think>\n\nFive.", "<think>\nOne more.\n</think>\n\nSix."]
    asked = [{"role": "user", "content": "2 + 3?"}, {"role": "user", "content": "and one?"}]
    turns = [{"role": "assistant", "content": it} for it in said]
    record = {"messages": [asked[0], turns[0], asked[1], turns[1]]}
    [documents] = texts(loaded, [record], "auto")
    assert [trained for _, trained in documents] == [[f"{it}<|end|>"] for it in said]
    assert documents == texts(loaded, [record], "each")[0]
    assert [trained for _, trained in texts(loaded, [record], "whole")[0]] == [
        ["Five.<|end|>", f"{said[1]}<|end|>"]
    ]
    # Without thoughts nothing is forgotten, and the conversation is one document.
    plain = {
        "messages": [asked[0], {**turns[0], "content": "Five."}, asked[1], {**turns[1], "content": "Six."}]
    }
    [[(_, trained)]] = texts(loaded, [plain], "auto")
    assert trained == ["Five.<|end|>", "Six.<|end|>"]
    report = fastpack.Report.of(
        fastpack.pack_records([record, plain], loaded[0], max_length=512, strategy="none", max_lost="100%")
    )
    assert report.split_conversations.records == 1
    assert (report.split_conversations.turns, report.split_conversations.rewritten_turns) == (2, 1)
    assert not any("reasoning" in warning for warning in report.warnings)


@pytest.mark.parametrize("turns", ["auto", "each", "last"])
def test_a_turn_without_its_calls_is_context(turns: str, load: Load) -> None:
    call = {"type": "function", "function": {"name": "weather", "arguments": {"city": "Lima"}}}
    asked = {"role": "user", "content": "weather?"}
    calls = {"role": "assistant", "content": "", "tool_calls": [call]}
    answer = [{"role": "tool", "content": "sunny"}, {"role": "assistant", "content": "It is sunny."}]
    records = [
        {"messages": [asked, calls, *answer], "tools": TOOLS},
        {"messages": [asked, calls], "tools": TOOLS},
    ]
    found = texts(load(FORGETS), records, turns)
    assert [trained for _, trained in found[0]] == [["It is sunny.<|end|>"]]
    assert not found[1]


@pytest.mark.parametrize("name", marked())
@settings(max_examples=tries(3, 60), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_turn_stands_behind_the_same_text_by_auto_as_by_each(
    name: str, data: st.DataObject, load: Load
) -> None:
    """Each turn is in one of the documents of `auto`, which are no more than the turns."""
    kind = marked()[name]
    loaded = load(kind)
    apart = conversations(parts=False).filter(lambda record: not in_a_row(record["messages"]))
    records = data.draw(st.lists(apart, min_size=1, max_size=3))
    each, auto = texts(loaded, records, "each"), texts(loaded, records, "auto")
    for alone, documents in zip(each, auto, strict=True):
        assert len(documents) <= len(alone)
        left = ["".join(trained) for _, trained in documents]
        for text, trained in alone:
            # A template may print more behind the last turn of all.
            stop = next((at for at in sorted(map(trained[0].find, kind.stops)) if at >= 0), len(trained[0]))
            said = trained[0][:stop]
            reached = text[: text.rindex(trained[0]) + stop]
            found = [at for at, (whole, _) in enumerate(documents) if whole.startswith(reached)]
            assert found
            at = next(at for at in found if said in left[at])
            left[at] = left[at][left[at].index(said) + len(said) :]


def in_a_row(messages: list[Record]) -> bool:
    """True if two messages of the assistant follow one another, which a template may join."""
    roles = [message["role"] for message in messages]
    return ("assistant", "assistant") in itertools.pairwise(roles)


def test_turns_that_would_take_too_much_text_are_refused(load: Load) -> None:
    """Each stands behind all before it, so their text grows with the square of their number."""
    tokenizer, _ = load(FORGETS)
    long = "a river " * 4000
    messages = [
        message
        for number in range(140)
        for message in (
            {"role": "user", "content": long},
            {"role": "assistant", "content": f"<think>\nt\n</think>\n\na{number}"},
        )
    ]
    with pytest.raises(
        fastpack.RecordError, match=r'would take more than 256 MiB.*use turns="whole" or "last"'
    ):
        fastpack.pack_records([{"messages": messages}], tokenizer, max_length=1 << 20)
    for turns in ("whole", "last"):
        packed = fastpack.pack_records([{"messages": messages}], tokenizer, max_length=1 << 22, turns=turns)
        assert packed.num_rows == 1
