"""A message's `loss` and a record's `loss_mask` choose the trained messages, on every road, or the record is refused by name."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from campaign import tries
from conftest import sentence
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Record = dict[str, Any]

DERIVED = (
    "{% for message in messages %}<|start|>{{ message['role'] }}\n{{ message['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)
OPTIONS: Record = {
    "max_length": 4096,
    "strategy": "none",
    "columns": ("input_ids", "labels", "loss_weights"),
    "max_lost": "100%",
    "chat_template": DERIVED,
}


def by_lines(records: list[Record], tokenizer: Path, folder: Path, **options: Any) -> pa.Table:
    path = folder / "records.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return fastpack.pack_files(path, tokenizer, **options)


def by_parquet(records: list[Record], tokenizer: Path, folder: Path, **options: Any) -> pa.Table:
    path = folder / "records.parquet"
    pq.write_table(pa.Table.from_pylist(records), path)
    return fastpack.pack_files(path, tokenizer, **options)


def by_table(records: list[Record], tokenizer: Path, _: Path, **options: Any) -> pa.Table:
    return fastpack.pack_table(pa.Table.from_pylist(records), tokenizer, **options)


def by_records(records: list[Record], tokenizer: Path, _: Path, **options: Any) -> pa.Table:
    return fastpack.pack_records(records, tokenizer, **options)


ROADS: list[Callable[..., pa.Table]] = [by_lines, by_parquet, by_table, by_records]


def talk(count: int) -> list[Record]:
    return [
        {"role": role, "content": sentence(2 * at + (role == "user"), 4)}
        for at in range(count)
        for role in ("user", "assistant")
    ]


MARKS = st.lists(st.booleans(), min_size=1, max_size=4)


@given(marks=st.lists(MARKS, min_size=1, max_size=6), whole=st.booleans())
@settings(
    max_examples=tries(8, 200),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_mask_says_what_the_flags_of_its_messages_say(
    marks: list[list[bool]], whole: bool, tokenizer_dir: Path, tmp_path: Path
) -> None:
    def flagged(name: str) -> list[Record]:
        talks = [(talk(len(own)), iter(own)) for own in marks]
        return [
            {"messages": [{**m, name: next(own) if m["role"] == "assistant" else None} for m in messages]}
            for messages, own in talks
        ]

    def entry(mark: bool) -> bool | int:
        return int(mark) if whole else mark

    masked = [
        {"messages": talk(len(own)), "loss_mask": [entry(m) for mark in own for m in (False, mark)]}
        for own in marks
    ]
    halves = [
        {
            "prompt": record["messages"][:-1],
            "completion": record["messages"][-1:],
            "loss_mask": record["loss_mask"],
        }
        for record in masked
    ]
    expected = by_records(flagged("train"), tokenizer_dir, tmp_path, **OPTIONS)
    for road in ROADS:
        assert road(flagged("loss"), tokenizer_dir, tmp_path, **OPTIONS).equals(expected)
        assert road(masked, tokenizer_dir, tmp_path, **OPTIONS).equals(expected)
        made = road(halves, tokenizer_dir, tmp_path, **OPTIONS, train_on="assistant")
        assert made.equals(expected)


@given(marks=st.lists(MARKS.map(lambda it: [True, *it]), min_size=1, max_size=6), names=st.booleans())
@settings(
    max_examples=tries(8, 200),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_mask_of_ids_is_read_as_the_other_masks_are(
    marks: list[list[bool]], names: bool, tmp_path: Path
) -> None:
    def records(name: str) -> list[Record]:
        return [{"input_ids": [*range(5, 5 + len(own))], name: own} for own in marks]

    options = {key: value for key, value in OPTIONS.items() if key != "chat_template"}
    expected = fastpack.pack_records(records("assistant_masks"), **options)
    name, fields = (
        ("mine", {"reading": fastpack.Reading(fields={"loss_mask": "mine"})}) if names else ("loss_mask", {})
    )
    for road in (by_lines, by_parquet, by_table, by_records):
        made = road(records(name), None, tmp_path, **options, **fields)
        assert made.equals(expected)
        both = [
            {**record, "labels": [i if m else -100 for i, m in zip(record["input_ids"], own, strict=True)]}
            for record, own in zip(records("loss_mask"), marks, strict=True)
        ]
        assert road(both, None, tmp_path, **options).equals(expected)


TALK = talk(2)
REFUSED: list[tuple[Record, str]] = [
    ({"messages": TALK, "loss_mask": [0, 1]}, "`loss_mask` has 2 entries for 4 messages"),
    ({"messages": TALK, "loss_mask": [0, 1, 0, 1, 1]}, "`loss_mask` has 5 entries for 4 messages"),
    ({"messages": TALK, "loss_mask": []}, "`loss_mask` has 0 entries for 4 messages"),
    ({"messages": TALK, "loss_mask": [0, 1, 0, 2]}, "`loss_mask[3]` must be 0 or 1"),
    ({"messages": TALK, "loss_mask": 1}, "`loss_mask` must be a list"),
    ({"messages": TALK, "loss_mask": [1, 1, 0, 1]}, "`loss_mask[0]` asks to be trained"),
    (
        {"messages": [TALK[0], {**TALK[1], "train": False}], "loss_mask": [0, 1]},
        "`loss_mask[1]` is 1, but the message's own",
    ),
    (
        {"messages": [TALK[0], {**TALK[1], "weight": 0.5}], "loss_mask": [0, 0]},
        "`loss_mask[1]` is 0, but the message's own",
    ),
    (
        {"messages": [TALK[0], {**TALK[1], "train": False, "loss": True}]},
        "`messages[1].train` is false, `messages[1].loss` is true",
    ),
    ({"messages": [TALK[0], {**TALK[1], "loss": 0.5}]}, "`messages[1].loss` must be true or false"),
    ({"text": "a", "loss_mask": [1]}, "`loss_mask` has an entry for each message"),
    ({"question": "a", "answer": "b", "loss_mask": [1]}, "`loss_mask` has an entry for each message"),
    ({"prompt": "a", "completion": "b", "loss_mask": [1]}, "`loss_mask` has an entry for each message"),
    (
        {"prompt": TALK[:3], "completion": TALK[3:], "loss_mask": [1]},
        "`loss_mask` has 1 entries for 4 messages",
    ),
    ({"input_ids": [5, 6], "loss_mask": [1]}, "`loss_mask` has 1 entries for 2 tokens"),
    ({"input_ids": [5, 6], "loss_mask": [1, 2]}, "`loss_mask` has 2 at position 1"),
    (
        {"input_ids": [5, 6], "labels": [5, -100], "loss_mask": [1, 1]},
        "`loss_mask` is 1 at position 1, where `labels` says the opposite",
    ),
    (
        {"input_ids": [5, 6], "completion_mask": [0, 1], "loss_mask": [1, 1]},
        "`loss_mask` is 1 at position 0, where `completion_mask` says the opposite",
    ),
]


@pytest.mark.parametrize(("record", "named"), REFUSED)
def test_what_a_mask_cannot_mean_is_refused_by_name_on_every_road(
    record: Record, named: str, tokenizer_dir: Path, tmp_path: Path
) -> None:
    for road in ROADS:
        with pytest.raises(fastpack.RecordError) as caught:
            road([record], tokenizer_dir, tmp_path, **OPTIONS)
        assert named in str(caught.value), road


def test_a_mask_of_null_says_nothing(tokenizer_dir: Path, tmp_path: Path) -> None:
    plain = by_records([{"messages": TALK}], tokenizer_dir, tmp_path, **OPTIONS)
    for road in ROADS:
        assert road([{"messages": TALK, "loss_mask": None}], tokenizer_dir, tmp_path, **OPTIONS).equals(plain)


def test_a_system_text_has_no_entry_of_its_own(tokenizer_dir: Path, tmp_path: Path) -> None:
    record = {"messages": TALK, "system": "Be brief.", "loss_mask": [0, 0, 0, 1]}
    flagged = [TALK[0], {**TALK[1], "train": False}, *TALK[2:]]
    expected = by_records([{"messages": flagged, "system": "Be brief."}], tokenizer_dir, tmp_path, **OPTIONS)
    for road in ROADS:
        assert road([record], tokenizer_dir, tmp_path, **OPTIONS).equals(expected)


def test_a_call_in_sharegpt_keeps_its_flags(tokenizer_dir: Path, tmp_path: Path) -> None:
    template = (
        "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}"
        "{% for call in m.tool_calls or [] %}{{ call.function.name }}{% endfor %}<|end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
    )
    asks = {"from": "human", "value": "a"}
    call = {"from": "function_call", "value": '{"name": "find", "arguments": {}}'}
    answer = {"from": "gpt", "value": "found"}
    options = {**OPTIONS, "chat_template": template}
    for name, road in itertools.product(("train", "loss"), ROADS):
        record = {"conversations": [asks, {**call, name: False}, {**answer, name: None}]}
        [row] = road([record], tokenizer_dir, tmp_path, **options).to_pylist()
        trained = [label for label in row["labels"] if label != -100]
        assert fastpack.Tokenizer(tokenizer_dir).decode(trained) == "found<|end|>"


def test_with_all_a_message_of_others_cannot_be_left_out(tokenizer_dir: Path, tmp_path: Path) -> None:
    asks = [{**TALK[0], "loss": False}, *TALK[1:]]
    for record, road in itertools.product(
        ({"messages": asks}, {"messages": TALK, "loss_mask": [0, 1, 0, 1]}), ROADS
    ):
        with pytest.raises(fastpack.RecordError, match="message 0 asks not to be trained"):
            road([record], tokenizer_dir, tmp_path, **OPTIONS, train_on="all")
