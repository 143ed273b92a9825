"""Flags of messages are heeded or refused by name where answers are compared, and examples are no answers to learn."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from campaign import tries
from conftest import sentence
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_loss_mask import OPTIONS, ROADS

import fastpack

if TYPE_CHECKING:
    from pathlib import Path

Record = dict[str, Any]
Flags = dict[str, Any]

MOST = settings(
    max_examples=tries(10, 600), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

FLAGS = st.sampled_from(
    [{}, {}, {}, {}, {"train": None}]
    + [{name: value} for name in ("train", "loss") for value in (True, False)]
    + [{"weight": weight} for weight in (0, 0.5, 1, 1.0, 2)]
    + [{"train": True, "weight": 1}, {"loss": False, "weight": 1}]
)


def weight_of(flags: Flags) -> float | None:
    """The weight that a message asks for, if it asks for any."""
    told = [flags[name] for name in ("train", "loss") if flags.get(name) is not None]
    if False in told:
        return 0.0
    if flags.get("weight") is not None:
        return float(flags["weight"])
    return 1.0 if told else None


@st.composite
def compared(draw: st.DrawFn) -> tuple[Record, list[str]]:
    """A preference record with flags, and the places of those that cannot be heeded."""
    refused = []

    def messages(field: str, roles: list[str], at: int, begin: int, *, is_answer: bool) -> list[Record]:
        made = []
        for number, role in enumerate(roles):
            flags = draw(FLAGS)
            weight = weight_of(flags)
            heeded = (None, 1.0) if is_answer else (None, 0.0)
            if weight not in heeded or (weight == 1.0 and role != "assistant"):
                refused.append(f"{field}[{begin + number}]")
            made.append({"role": role, "content": sentence(at + number, 3), **flags})
        return made

    prompt_roles = ["system", "user", "assistant", "user"][draw(st.integers(0, 1)) :][
        : draw(st.sampled_from([1, 3]))
    ]
    if prompt_roles[-1] != "user":
        prompt_roles.append("user")
    answer_roles = draw(st.sampled_from([["assistant"], ["assistant", "tool", "assistant"]]))
    form = draw(st.sampled_from(["own", "shared", "judged"]))
    fields = ["completion"] if form == "judged" else ["chosen", "rejected"]
    record: Record = {}
    if form == "shared":
        asked = [{"role": role, "content": sentence(at, 3)} for at, role in enumerate(prompt_roles)]
        for field in fields:
            flagged = [{**message, **draw(FLAGS)} for message in asked]
            refused += [f"{field}[{at}]" for at, m in enumerate(flagged) if weight_of(m) not in (None, 0.0)]
            record[field] = flagged
    else:
        record["prompt"] = messages("prompt", prompt_roles, 0, 0, is_answer=False)
    for number, field in enumerate(fields):
        before = record.get(field, [])
        answer = messages(field, answer_roles, 20 * (number + 1), len(before), is_answer=True)
        record[field] = [*before, *answer]
    if form == "judged":
        record["label"] = draw(st.booleans())
    return record, refused


def unflagged(record: Record) -> Record:
    def plain(message: Record) -> Record:
        return {name: message[name] for name in ("role", "content")}

    return {
        name: [plain(message) for message in value] if isinstance(value, list) else value
        for name, value in record.items()
    }


@given(made=compared())
@MOST
def test_flags_of_compared_answers_are_heeded_or_refused_by_name(
    made: tuple[Record, list[str]], tokenizer_dir: Path, tmp_path: Path
) -> None:
    record, refused = made
    form = "kto" if "label" in record else "dpo"
    options = {"objective": fastpack.Preference(form), "chat_template": OPTIONS["chat_template"]}
    expected = fastpack.pack_records([unflagged(record)], tokenizer_dir, **options)
    for road in ROADS:
        if not refused:
            assert road([record], tokenizer_dir, tmp_path, **options).equals(expected), record
            continue
        with pytest.raises(fastpack.RecordError) as found:
            road([record], tokenizer_dir, tmp_path, **options)
        assert any(f"`{place}" in str(found.value) for place in refused), (record, found.value)
        assert len(str(found.value)) < 400


EXAMPLES = [("1 + 1?", "two"), ("2 + 2?", "four")]
HISTORIES = st.lists(st.just(["Who?", "I."]), max_size=2)


@given(
    history=HISTORIES,
    count=st.integers(0, 2),
    train_on=st.sampled_from(["auto", "assistant", "completion", "all"]),
    turns=st.sampled_from(["auto", "each", "last", "whole"]),
    system=st.booleans(),
)
@MOST
def test_answers_of_examples_are_context(
    history: list[list[str]],
    count: int,
    train_on: str,
    turns: str,
    system: bool,
    tokenizer_dir: Path,
    tmp_path: Path,
) -> None:
    record: Record = {"instruction": "Where?", "output": "Here."}
    record |= {"history": history} if history else {}
    record |= {"system": "Be brief."} if system else {}
    options = {
        **OPTIONS,
        "train_on": train_on,
        "turns": turns,
        "reading": fastpack.Reading(examples=EXAMPLES[:count]),
    }
    tokenizer = fastpack.Tokenizer(tokenizer_dir)
    for road in ROADS:
        rows = road([record], tokenizer_dir, tmp_path, **options).to_pylist()
        labels = itertools.chain.from_iterable(row["labels"] for row in rows)
        trained = tokenizer.decode([label for label in labels if label != -100])
        if train_on == "all":
            assert all(answer in trained for _, answer in EXAMPLES[:count])
            continue
        own = len(history) if train_on in ("auto", "assistant") and turns != "last" else 0
        assert trained.replace("\n", "") == "I.<|end|>" * own + "Here.<|end|>", (road, trained)
