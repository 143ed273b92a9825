"""A history becomes turns, and fields with content that are not read are counted and told, on every road."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from campaign import tries
from conftest import sentence
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_loss_mask import DERIVED, OPTIONS, ROADS, by_records

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Record = dict[str, Any]
Pairs = list[list[str]]


def by_cells(records: list[Record], tokenizer: Path, folder: Path, **options: Any) -> pa.Table:
    names = list(dict.fromkeys(name for record in records for name in record))
    file = io.StringIO()
    writer = csv.DictWriter(file, names)
    writer.writeheader()
    for record in records:
        writer.writerow(
            {name: json.dumps(value) if isinstance(value, list) else value for name, value in record.items()}
        )
    (folder / "records.csv").write_text(file.getvalue())
    return fastpack.pack_files(folder / "records.csv", tokenizer, **options)


ALL_ROADS: list[Callable[..., pa.Table]] = [*ROADS, by_cells]

HISTORIES = st.lists(
    st.integers(0, 99).map(lambda at: [sentence(at, 4), sentence(at + 1, 3)]), min_size=0, max_size=3
)


def said(pairs: Pairs) -> list[Record]:
    return [
        {"role": role, "content": text}
        for pair in pairs
        for role, text in zip(("user", "assistant"), pair, strict=True)
    ]


@given(
    histories=st.lists(HISTORIES, min_size=1, max_size=4),
    as_messages=st.booleans(),
    names=st.sampled_from([("instruction", "output"), ("question", "answer"), ("prompt", "response")]),
    train_on=st.sampled_from(["auto", "assistant", "all"]),
)
@settings(
    max_examples=tries(10, 200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_history_is_turns_before_the_request(
    histories: list[Pairs],
    as_messages: bool,
    names: tuple[str, str],
    train_on: str,
    tokenizer_dir: Path,
    tmp_path: Path,
) -> None:
    asked, answered = names
    histories = [[["Who?", "I."]], *histories]
    records = [
        {
            asked: sentence(at, 5),
            answered: sentence(at + 2, 4),
            "history": said(pairs) if as_messages else pairs,
        }
        for at, pairs in enumerate(histories)
    ]
    talks = [
        {"messages": [*said(record_pairs), *said([[record[asked], record[answered]]])]}
        for record, record_pairs in zip(records, histories, strict=True)
    ]
    # Without a history, it is a request with its answer, which is trained with the text behind it.
    if train_on == "auto":
        kept = [at for at, pairs in enumerate(histories) if pairs]
        records, talks = [records[at] for at in kept], [talks[at] for at in kept]
    options = {**OPTIONS, "train_on": train_on}
    expected = by_records(talks, tokenizer_dir, tmp_path, **options)
    for road in ALL_ROADS:
        made = road(records, tokenizer_dir, tmp_path, **options)
        assert made.equals(expected), road
        assert not fastpack.Report.of(made).left_out


def test_only_the_answer_is_a_completion(tokenizer_dir: Path, tmp_path: Path) -> None:
    record = {"instruction": "b", "output": "two", "history": [["a", "one"]]}
    examples = [("x", "y")]
    for train_on, trained in [
        ("completion", "two<|end|>\n"),
        ("auto", "one<|end|>two<|end|>"),
        ("assistant", "one<|end|>two<|end|>"),
    ]:
        for given_examples in ([], examples):
            options = {**OPTIONS, "train_on": train_on, "reading": fastpack.Reading(examples=given_examples)}
            [row] = by_records([record], tokenizer_dir, tmp_path, **options).to_pylist()
            ids = [label for label in row["labels"] if label != -100]
            assert fastpack.Tokenizer(tokenizer_dir).decode(ids) == trained
            text = fastpack.Tokenizer(tokenizer_dir).decode(row["input_ids"])
            assert text.index("one") < text.index("two")


def test_flags_of_a_history_are_heeded(tokenizer_dir: Path, tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "one", "loss": False}]
    record = {"instruction": "b", "output": "two", "history": turns}
    for road in ROADS:
        [row] = road([record], tokenizer_dir, tmp_path, **OPTIONS).to_pylist()
        ids = [label for label in row["labels"] if label != -100]
        assert fastpack.Tokenizer(tokenizer_dir).decode(ids) == "two<|end|>"


@pytest.mark.parametrize(
    ("history", "named"),
    [
        ([["a"]], "`history[0]` must be a question and its answer, two texts"),
        ([["a", "b"], ["a", "b", "c"]], "`history[1]` must be a question and its answer"),
        ([{"content": "a"}], "`history[0].role` must be a string"),
        (7, "`history` must be a list of questions with their answers, or of messages"),
    ],
)
def test_a_history_of_another_form_is_refused_by_name(
    history: Any, named: str, tokenizer_dir: Path, tmp_path: Path
) -> None:
    record = {"instruction": "b", "output": "two", "history": history}
    for road in ROADS:
        with pytest.raises(fastpack.RecordError) as caught:
            road([record], tokenizer_dir, tmp_path, **OPTIONS)
        assert named in str(caught.value)


def test_a_prompt_of_words_has_no_place_for_a_history_and_says_so(
    tokenizer_dir: Path, tmp_path: Path
) -> None:
    records = [
        {"instruction": "b", "output": "two", "history": [["a", "one"]]},
        {"instruction": "b", "output": "two", "history": []},
    ]
    plain = [{"instruction": "b", "output": "two"}] * 2
    options = {**OPTIONS, "reading": fastpack.Reading(prompt="alpaca")}
    expected = by_records(plain, tokenizer_dir, tmp_path, **options)
    for road in ALL_ROADS:
        made = road(records, tokenizer_dir, tmp_path, **options)
        report = fastpack.Report.of(made)
        assert made.equals(expected)
        assert {name: noted.records for name, noted in report.left_out.items()} == {"history": 1}
        assert any("lacks the field `history`" in warning for warning in report.warnings)


CHOICES = {"text": ["a cat", "a dog"], "label": ["A", "B"]}
UNREAD: list[tuple[Record, dict[str, int]]] = [
    ({"question": "Which?", "answer": "a cat", "context": "A cat sat here."}, {"context": 1}),
    ({"question": "Which?", "answer": "a cat", "choices": CHOICES}, {"choices": 1}),
    (
        {"question": "Which?", "answer": "a cat", "options": ["a cat", "a dog"], "id": "7"},
        {"options": 1},
    ),
    # Text that the record has elsewhere is not left out.
    ({"question": "Which of a cat or a dog?", "answer": "a cat", "options": ["a cat", "a dog"]}, {}),
    ({"question": "Which?", "answer": "a cat", "context": " \n"}, {}),
    ({"problem": "One?", "answer": "1", "solution": "It is 1."}, {"solution": 1}),
    ({"instruction": "Say it.", "input": "now", "context": "Here.", "output": "it"}, {"context": 1}),
    ({"instruction": "Say it.", "context": "Here.", "output": "it"}, {}),
    ({"prompt": "a", "completion": "b", "context": "Here."}, {"context": 1}),
    ({"text": "Some words.", "context": "Others.", "url": "x"}, {"context": 1}),
    (
        {"messages": said([["Which?", "a cat"]]), "prompt": "Which?", "context": "Here.", "id": "x"},
        {"context": 1},
    ),
    ({"messages": said([["Which?", "a cat"]]), "prompt": "Which?", "answer": "a cat"}, {}),
    ({"messages": said([["Which?", "a cat"]]), "documents": [{"title": "Cats", "n": 1}]}, {"documents": 1}),
    ({"input_ids": [5, 6, 7], "text": "Some words."}, {}),
]


@pytest.mark.parametrize(("record", "expected"), UNREAD)
def test_fields_that_are_not_read_are_counted_on_every_road(
    record: Record, expected: dict[str, int], tokenizer_dir: Path, tmp_path: Path
) -> None:
    bare = {name: None if name in expected else value for name, value in record.items()}
    rows = by_records([bare] * 3, tokenizer_dir, tmp_path, **OPTIONS)
    for road in ROADS:
        made = road([bare, record, bare], tokenizer_dir, tmp_path, **OPTIONS)
        assert made.equals(rows)
        report = fastpack.Report.of(made)
        assert {name: noted.records for name, noted in report.left_out.items()} == expected, road
        assert all(noted.places[0].endswith(":2") for noted in report.left_out.values())
        told = [warning for warning in report.warnings if "lacks the field" in warning]
        assert [f"`{name}`" in warning for name, warning in zip(expected, told, strict=True)] == [True] * len(
            expected
        )


def test_scan_and_streams_count_them_too(tokenizer_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "records.parquet"
    records = [{"question": "Which?", "answer": "a cat", "context": "Here."}] * 5
    pq.write_table(pa.Table.from_pylist(records), path)
    found = fastpack.scan(path, tokenizer_dir, max_length=512, chat_template=DERIVED)
    assert found.left_out["context"].records == 5
    stream = fastpack.stream(path, tokenizer_dir, max_length=512, chat_template=DERIVED)
    list(stream)
    assert stream.report is not None
    assert stream.report.left_out["context"].records == 5


def test_what_a_model_generates_is_compared_with_answers_that_no_prompt_needs(
    tokenizer_dir: Path, tmp_path: Path
) -> None:
    record = {"prompt": said([["Which?", "a cat"]])[:1], "answer": "a dog", "context": "Here."}
    made = by_records([record], tokenizer_dir, tmp_path, max_length=512, objective="generation")
    assert set(fastpack.Report.of(made).left_out) == {"context"}


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content", "thinking", "context"])
def test_a_field_that_is_not_read_is_no_matter_of_the_chat_template(
    field: str, tokenizer_dir: Path, tmp_path: Path
) -> None:
    record = {"question": "Which?", "answer": "a cat", field: "Other words."}
    for road in ROADS:
        [told] = fastpack.Report.of(road([record], tokenizer_dir, tmp_path, **OPTIONS)).warnings
        assert f"lacks the field `{field}`" in told, road
