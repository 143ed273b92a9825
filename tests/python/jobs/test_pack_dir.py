"""`pack_dir`: shards, the report beside them, and the second run."""

from __future__ import annotations

import json
import time

import pytest
from campaign import tries
from pace import paced
from rows import shards, table_of

import fastpack


def test_the_shards_hold_the_rows_of_pack_files(corpus, tokenizer_dir, tmp_path):
    expected = fastpack.pack_files(corpus, tokenizer_dir, max_length=256)
    report = fastpack.pack_dir(corpus, tmp_path / "out", tokenizer=tokenizer_dir, max_length=256)
    assert table_of(tmp_path / "out").equals(expected)
    assert report.rows == expected.num_rows


def test_jsonl_holds_the_same_rows(corpus, tokenizer_dir, tmp_path):
    expected = fastpack.pack_files(corpus, tokenizer_dir, max_length=256).to_pylist()
    fastpack.pack_dir(corpus, tmp_path / "out", tokenizer=tokenizer_dir, max_length=256, format="jsonl")
    lines = [
        line
        for path in (tmp_path / "out").glob("train-*.jsonl")
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    assert [json.loads(line) for line in lines] == expected


def test_a_small_shard_size_makes_several_shards(corpus, tokenizer_dir, tmp_path):
    fastpack.pack_dir(corpus, tmp_path / "one", tokenizer=tokenizer_dir, max_length=256, strategy="none")
    fastpack.pack_dir(
        corpus,
        tmp_path / "many",
        tokenizer=tokenizer_dir,
        max_length=256,
        strategy="none",
        format=fastpack.Format(shard_size="20KB"),
    )
    assert len(shards(tmp_path / "many")) > len(shards(tmp_path / "one")) == 1
    assert table_of(tmp_path / "many").equals(table_of(tmp_path / "one"))


def test_threads_do_not_change_a_byte(corpus, tokenizer_dir, tmp_path):
    contents = []
    for threads in (1, 2, 8):
        folder = tmp_path / str(threads)
        fastpack.pack_dir(corpus, folder, tokenizer=tokenizer_dir, max_length=256, threads=threads)
        contents.append(shards(folder))
    assert contents[0] == contents[1] == contents[2]


def test_the_report_lies_beside_the_shards(corpus, tokenizer_dir, tmp_path):
    report = fastpack.pack_dir(corpus, tmp_path / "out", tokenizer=tokenizer_dir, max_length=256)
    written = fastpack.Report.from_json((tmp_path / "out" / "report.json").read_bytes())
    assert written == report


def test_a_report_prints_what_it_holds(corpus, tokenizer_dir, tmp_path):
    report = fastpack.pack_dir(corpus, tmp_path / "out", tokenizer=tokenizer_dir, max_length=100)
    page = str(report)
    for word in (
        "documents",
        "tokens",
        "too_long",
        "rows",
        "fill",
        "trained",
        "lengths",
        "steps",
        "engine",
        "tokens/s",
    ):
        assert word in page
    assert f"{report.rows:,}" in page


def test_nothing_but_the_output_is_left(corpus, tokenizer_dir, tmp_path):
    fastpack.pack_dir(corpus, tmp_path / "out", tokenizer=tokenizer_dir, max_length=256)
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"train-00000.arrow", "report.json", "manifest.json"}


@pytest.mark.alone
def test_a_second_run_returns_the_report_at_once(corpus, tokenizer_dir, tmp_path):
    first = fastpack.pack_dir(corpus, tmp_path / "out", tokenizer=tokenizer_dir, max_length=256)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    with paced() as machine:
        started = time.monotonic()
        second = fastpack.pack_dir(corpus, tmp_path / "out", tokenizer=tokenizer_dir, max_length=256)
        took = time.monotonic() - started
    assert took <= 1.0 * machine.slowness
    assert second == first
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()} == before


@pytest.mark.parametrize("change", [{"max_length": 128}, {"strategy": "none"}, {"train_on": "all"}])
def test_another_job_into_the_same_folder_is_refused(change, corpus, tokenizer_dir, tmp_path):
    options = {"tokenizer": tokenizer_dir, "max_length": 256}
    fastpack.pack_dir(corpus, tmp_path / "out", **options)
    with pytest.raises(fastpack.OutputError, match="overwrite") as caught:
        fastpack.pack_dir(corpus, tmp_path / "out", **(options | change))
    assert caught.value.filename == str(tmp_path / "out")
    assert isinstance(caught.value, FileExistsError)


def test_a_folder_with_other_files_is_refused(corpus, tokenizer_dir, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(fastpack.OutputError):
        fastpack.pack_dir(corpus, tmp_path / "out", tokenizer=tokenizer_dir, max_length=256)
    assert (tmp_path / "out" / "thesis.txt").read_text(encoding="utf-8") == "years of work"


def test_overwrite_replaces_another_job(corpus, tokenizer_dir, tmp_path):
    fastpack.pack_dir(corpus, tmp_path / "out", tokenizer=tokenizer_dir, max_length=128)
    fastpack.pack_dir(corpus, tmp_path / "out", tokenizer=tokenizer_dir, max_length=256, exists="overwrite")
    assert table_of(tmp_path / "out").equals(fastpack.pack_files(corpus, tokenizer_dir, max_length=256))


def test_a_failed_run_leaves_nothing(write_jsonl, tokenizer_dir, tmp_path):
    path = write_jsonl([{"text": "the river"}, b"{"])
    with pytest.raises(fastpack.RecordError):
        fastpack.pack_dir(path, tmp_path / "out", tokenizer=tokenizer_dir, max_length=256)
    assert not list((tmp_path / "out").glob("*")) if (tmp_path / "out").exists() else True


def test_an_unknown_format_is_refused_before_any_work(tmp_path):
    with pytest.raises(fastpack.OptionError, match='"arrow", "jsonl"') as caught:
        fastpack.pack_dir(
            "nowhere.jsonl", tmp_path / "out", tokenizer="nowhere/at/all", max_length=8, format="xml"
        )
    assert caught.value.option == "format"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("size", ["", "12 parsecs", "-5", 0, "0", None])
def test_a_shard_size_that_is_none_is_refused(size, tmp_path):
    with pytest.raises(fastpack.OptionError, match="shard_size"):
        fastpack.pack_dir(
            "x", tmp_path / "out", tokenizer="x/y/z", max_length=8, format=fastpack.Format(shard_size=size)
        )


def test_the_report_says_what_each_stage_took(big_corpus, tokenizer_dir, tmp_path):
    report = fastpack.pack_dir(big_corpus, tmp_path, tokenizer=tokenizer_dir, max_length=512, threads=1)
    assert list(report.stages) == sorted(
        ["read", "transform", "parse", "render", "encode", "keep", "plan", "gather", "assemble", "write"]
    )
    assert all(0 <= time.cpu <= time.wall for time in report.stages.values())
    at_work = [report.stages[name].cpu for name in ("read", "parse", "encode", "keep", "assemble")]
    assert min(at_work) > 0
    assert sum(time.wall for time in report.stages.values()) <= 2 * report.seconds
    assert report.resumed_documents == 0


@pytest.mark.parametrize("options", [{}, {"groups": "500KB"}, {"validation": 0.1}])
def test_kept_tokens_are_the_same_bytes_on_any_number_of_threads(
    options, long_corpus, tokenizer_dir, tmp_path
):
    found = set()
    for number, threads in enumerate([1, 2, 4, 4, 3][: tries(4, 5)] * tries(1, 10)):
        out = tmp_path / str(number)
        fastpack.pack_dir(
            long_corpus,
            out,
            tokenizer=tokenizer_dir,
            max_length=256,
            keep_tokens=True,
            threads=threads,
            **options,
        )
        found.add((out / "tokens.fastpack").read_bytes())
    assert len(found) == 1
