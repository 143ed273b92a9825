"""Answers that their records judge: one to avoid is not trained as one to give, unless the caller says what the records are."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastpack

TEXTS = {"prompt": "The river has ", "completion": "two boats."}
MESSAGES = {
    "prompt": [{"role": "user", "content": "How many boats?"}],
    "completion": [{"role": "assistant", "content": "Two boats."}],
}
TEMPLATE = "{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '\n' }}{% endfor %}"


def by_lines(records, tmp_path, **options):
    path = tmp_path / "records.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return fastpack.pack_files(path, **options)


def by_parquet(records, tmp_path, **options):
    path = tmp_path / "records.parquet"
    pq.write_table(pa.Table.from_pylist(records), path)
    return fastpack.pack_files(path, **options)


def by_table(records, tmp_path, **options):
    return fastpack.pack_table(pa.Table.from_pylist(records), **options)


def by_records(records, tmp_path, **options):
    return fastpack.pack_records(records, **options)


def by_stream(records, tmp_path, **options):
    path = tmp_path / "stream.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return pa.concat_tables(fastpack.stream(path, epochs=1, ranks=fastpack.Ranks(lanes=1), **options))


WAYS = [by_lines, by_parquet, by_table, by_records, by_stream]


@pytest.fixture
def options(tokenizer_dir):
    return {
        "tokenizer": tokenizer_dir,
        "max_length": 256,
        "strategy": "sequential",
        "chat_template": TEMPLATE,
        "train_on": "all",
    }


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("record", [TEXTS, MESSAGES], ids=["texts", "messages"])
def test_an_answer_to_avoid_is_refused_by_the_name_of_its_field(way, record, options, tmp_path):
    records = [{**record, "label": True}, {**record, "label": False}]
    with pytest.raises(
        fastpack.RecordError, match="`label` is false, so the completion is one to avoid"
    ) as refused:
        way(records, tmp_path, **options)
    assert (refused.value.reason, refused.value.line) == ("other_shape", 2)
    for remedy in ("`filter`", "`preference`", "`prompt_completion`"):
        assert remedy in str(refused.value)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("record", [TEXTS, MESSAGES], ids=["texts", "messages"])
def test_an_answer_to_give_is_packed_as_one_without_a_judgement(way, record, options, tmp_path):
    judged = way([{**record, "label": True}] * 3, tmp_path, **options)
    assert judged["labels"].to_pylist() == way([record] * 3, tmp_path, **options)["labels"].to_pylist()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "reading",
    [
        "prompt_completion",
        fastpack.Reading(fields={"prompt": "prompt", "completion": "completion"}),
    ],
    ids=["shape", "fields"],
)
def test_a_caller_who_says_what_the_records_are_has_all_of_them(way, reading, options, tmp_path):
    records = [{**TEXTS, "label": True}, {**TEXTS, "label": False}]
    named = way(records, tmp_path, reading=reading, **options)
    assert named["labels"].to_pylist() == way([TEXTS] * 2, tmp_path, **options)["labels"].to_pylist()


@pytest.mark.parametrize("way", WAYS)
def test_answers_to_avoid_are_skipped_and_counted(way, options, tmp_path):
    records = [{**TEXTS, "label": number % 3 != 0} for number in range(9)]
    rows = way(records, tmp_path, on_bad_record="skip", **options)
    assert rows["labels"].to_pylist() == way([TEXTS] * 6, tmp_path, **options)["labels"].to_pylist()


def test_a_scan_names_answers_to_avoid(options, tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text(json.dumps({**TEXTS, "label": False}) + "\n" + json.dumps(TEXTS), encoding="utf-8")
    [place] = fastpack.scan(path, **options).lost["other_shape"].places
    assert (place.line, "`label` is false" in place.message) == (1, True)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("label", ["bad", "false", 0, 1, 0.0, None, [False], {"kind": False}], ids=repr)
def test_other_labels_judge_nothing(way, label, options, tmp_path):
    rows = way([{**TEXTS, "label": label}] * 2, tmp_path, **options)
    assert rows["labels"].to_pylist() == way([TEXTS] * 2, tmp_path, **options)["labels"].to_pylist()


def test_a_column_that_json_has_no_type_for_judges_nothing(options):
    table = pa.Table.from_pylist([TEXTS] * 2).append_column(
        "label", pa.array([b"\xff", b"\xfe"], pa.binary())
    )
    rows = fastpack.pack_table(table, **options)
    assert rows["labels"].to_pylist() == fastpack.pack_records([TEXTS] * 2, **options)["labels"].to_pylist()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "record",
    [
        {"text": "The river has two boats."},
        {"instruction": "Count the boats.", "output": "Two."},
        {"question": "How many boats?", "answer": "Two."},
        {"messages": [*MESSAGES["prompt"], *MESSAGES["completion"]]},
    ],
    ids=lambda record: next(iter(record)),
)
def test_a_label_of_other_records_judges_nothing(way, record, options, tmp_path):
    rows = way([{**record, "label": False}] * 2, tmp_path, **options)
    assert rows["labels"].to_pylist() == way([record] * 2, tmp_path, **options)["labels"].to_pylist()


def test_judged_answers_have_the_objective_preference(options):
    records = [{**TEXTS, "label": judgement} for judgement in (True, False)]
    options = {name: value for name, value in options.items() if name not in {"train_on", "strategy"}}
    rows = fastpack.pack_records(records, objective=fastpack.Preference(form="kto"), **options)
    assert rows["label"].to_pylist() == [True, False]


def test_a_judgement_is_no_part_of_the_content_by_which_records_are_held_out(options):
    """The same answers are held out for validation, whether they are judged or not."""
    plain = [{"prompt": f"The river has {number} ", "completion": "boats."} for number in range(40)]
    judged = [{**record, "label": True} for record in plain]
    held = [fastpack.pack_records(records, validation=0.3, **options) for records in (plain, judged)]
    assert held[0].validation.equals(held[1].validation)
    assert held[0].validation.num_rows > 0
