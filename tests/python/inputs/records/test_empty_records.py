"""A record in which there is nothing is no bad record: it is counted as `empty`, and ends and loses nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import fastpack
from fastpack import cli

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EMPTY: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "text": ({"text": ""}, {"text": "a river"}),
    "conversation": (
        {"messages": []},
        {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]},
    ),
    "answer": ({"question": "a", "answer": ""}, {"question": "a", "answer": "b"}),
    "completion": ({"prompt": "a", "completion": ""}, {"prompt": "a", "completion": "b"}),
    "ids": ({"input_ids": []}, {"input_ids": [5, 6]}),
    "padding": (
        {"input_ids": [0, 0], "attention_mask": [0, 0]},
        {"input_ids": [5, 6], "attention_mask": [1, 1]},
    ),
}


@pytest.mark.parametrize("kind", EMPTY)
@pytest.mark.parametrize("on_bad_record", ["error", "skip"])
def test_an_empty_record_ends_and_loses_nothing(
    kind: str, on_bad_record: str, write_jsonl: Callable[..., Path], tokenizer_dir: Path, tmp_path: Path
) -> None:
    empty, full = EMPTY[kind]
    records = [empty, full, empty, empty, full, empty]
    path = write_jsonl(records)
    options: dict[str, Any] = {"max_length": 64, "on_bad_record": on_bad_record, "max_lost": "0%"}
    reports = [
        fastpack.Report.of(fastpack.pack_files(path, tokenizer_dir, **options)),
        fastpack.Report.of(fastpack.pack_records(records, tokenizer_dir, **options)),
        fastpack.Report.of(fastpack.pack_table(pa.Table.from_pylist(records), tokenizer_dir, **options)),
        fastpack.pack_dir(path, tmp_path / "out", tokenizer=tokenizer_dir, **options),
        # The report of a job that was finished before is held to `max_lost` again.
        fastpack.pack_dir(path, tmp_path / "out", tokenizer=tokenizer_dir, **options),
    ]
    with fastpack.stream(path, tokenizer_dir, **options) as stream:
        assert len(list(stream)) == 1
        assert stream.report is not None
        reports.append(stream.report)
    for report in reports:
        assert report.documents == (6, 2, 4)
        assert report.dropped == {"empty": (4, 0)}
        assert report.places == []
    found = fastpack.scan(path, tokenizer_dir, max_length=64)
    assert (found.read.documents, found.documents) == (6, 2)
    assert [place.line for place in found.lost["empty"].places] == [1, 3, 4, 6]


def test_empty_records_count_for_nothing_among_those_that_are_lost(
    write_jsonl: Callable[..., Path], tokenizer_dir: Path
) -> None:
    records = [{"text": ""}] * 90 + [{"text": "a river"}] * 9 + [{"text": 7}]
    options: dict[str, Any] = {"max_length": 64, "on_bad_record": "skip"}
    path = write_jsonl(records)
    assert fastpack.pack_files(path, tokenizer_dir, **options, max_lost="10%").num_rows == 1
    with pytest.raises(fastpack.LossError, match="1 of 10 documents") as lost:
        fastpack.pack_files(path, tokenizer_dir, **options, max_lost="9%")
    assert lost.value.documents == 1


def test_a_text_of_blanks_is_a_text(write_jsonl: Callable[..., Path], tokenizer_dir: Path) -> None:
    table = fastpack.pack_files(write_jsonl([{"text": " \n"}]), tokenizer_dir, max_length=64)
    assert fastpack.Tokenizer(tokenizer_dir).decode(table["input_ids"][0].as_py()) == " \n<|endoftext|>"


@pytest.mark.parametrize("record", [{"text": None}, {"messages": None}, {"input_ids": None}], ids=str)
def test_a_null_is_no_empty_record(
    record: dict[str, Any], write_jsonl: Callable[..., Path], tokenizer_dir: Path
) -> None:
    [field] = record
    _, full = next(pair for pair in EMPTY.values() if field in pair[1])
    with pytest.raises(fastpack.RecordError, match=f"`{field}` is null") as refused:
        fastpack.pack_files(write_jsonl([full, record]), tokenizer_dir, max_length=64)
    assert (refused.value.line, refused.value.reason) == (2, "wrong_type")


def test_a_file_of_empty_texts_is_packed_on_the_command_line(
    tmp_path: Path, tokenizer_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wiki.jsonl"
    path.write_text(
        "".join(json.dumps({"text": text}) + "\n" for text in ["", " = Title = \n", "", "a river"])
    )
    arguments = [
        "pack",
        "-i",
        path,
        "-o",
        tmp_path / "out",
        "-t",
        tokenizer_dir,
        "-m",
        "64",
        "--max-lost",
        "0",
    ]
    assert cli.main([str(argument) for argument in arguments]) == 0
    assert "empty" in capsys.readouterr().out
