"""Functions without a fingerprint: each run is a fresh one and says so at its start."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from conftest import sentence

import fastpack

RECORDS = [{"text": sentence(number, 3 + number % 9), "score": number % 5} for number in range(3000)]
OPTIONS = {"max_length": 128}


@pytest.fixture
def path(write_jsonl):
    return write_jsonl(RECORDS)


@pytest.fixture
def above(tmp_path):
    """Makes a filter that reads from a file which score is wanted, and writes that file."""
    file = str(tmp_path / "least")

    def make(least):
        Path(file).write_text(str(least), encoding="utf-8")

        def good(batch):
            with open(file, encoding="utf-8") as opened:  # noqa: PTH123  what most would write
                least = int(opened.read())
            return [score > least for score in batch["score"].to_pylist()]

        return good

    return make


def expected(least, tokenizer):
    """The rows of the records that such a filter leaves."""
    chosen = [record for record in RECORDS if record["score"] > least]
    return fastpack.pack_records(chosen, tokenizer, **OPTIONS).to_pylist()


def unnamed_pack_dir(*arguments, **options):
    with pytest.warns(UserWarning, match="has no fingerprint"):
        return fastpack.pack_dir(*arguments, **options)


def rows(folder):
    return pa.ipc.open_stream(folder / "train-00000.arrow").read_all().to_pylist()


def test_no_cache_is_used_for_one_and_the_report_says_why(path, above, tokenizer_dir, tmp_path):
    for least in (1, 3):
        with pytest.warns(UserWarning, match="no cache is used") as caught:
            table = fastpack.pack_files(
                path, tokenizer_dir, filter=above(least), cache_dir=tmp_path / "cache", **OPTIONS
            )
        assert caught[0].filename == __file__
        assert table.to_pylist() == expected(least, tokenizer_dir)
        (warning,) = fastpack.Report.of(table).warnings
        assert warning == str(caught[0].message)
        assert warning.startswith("`filter` has no fingerprint: ")
        assert 'filter=Function(..., fingerprint="v1")' in warning
    assert not (tmp_path / "cache").exists()


def test_without_a_folder_nothing_is_said(path, above, tokenizer_dir):
    table = fastpack.pack_files(path, tokenizer_dir, filter=above(1), **OPTIONS)
    assert fastpack.Report.of(table).warnings == []


def test_a_finished_folder_is_not_taken_for_that_of_the_job(path, above, tokenizer_dir, tmp_path):
    def job(least, **options):
        options |= {"tokenizer": tokenizer_dir, "filter": above(least)}
        with pytest.warns(UserWarning, match="`filter` has no fingerprint: this run cannot be resumed"):
            return fastpack.pack_dir(path, tmp_path / "out", **OPTIONS, **options)

    assert "`filter` has no fingerprint" in job(1).warnings[0]
    with pytest.raises(fastpack.OutputError, match="whether its records and functions were the same"):
        job(3)
    assert rows(tmp_path / "out") == expected(1, tokenizer_dir)
    job(3, exists="overwrite")
    assert rows(tmp_path / "out") == expected(3, tokenizer_dir)
    with pytest.raises(
        fastpack.OutputError, match="differs in `filter, map and the function of the objective`"
    ):
        fastpack.pack_dir(path, tmp_path / "out", tokenizer=tokenizer_dir, **OPTIONS)


def test_kept_tokens_of_another_run_are_packed_again(path, above, tokenizer_dir, tmp_path):
    for least in (1, 3):
        unnamed_pack_dir(
            path,
            tmp_path / "kept",
            tokenizer=tokenizer_dir,
            filter=above(least),
            keep_tokens=True,
            exists="overwrite",
            **OPTIONS,
        )
        if least == 3:
            with pytest.raises(fastpack.OutputError, match="differs in `tokens`"):
                fastpack.repack(tmp_path / "kept", tmp_path / "out", **OPTIONS)
        fastpack.repack(tmp_path / "kept", tmp_path / "out", **OPTIONS, exists="overwrite")
        assert rows(tmp_path / "out") == expected(least, tokenizer_dir)


#: Packs with a filter that reads a file, and is killed in the third batch if that says so.
KILLED = """
import json, os, signal, sys, fastpack
path, out, tokenizer, options = *sys.argv[1:4], json.loads(sys.argv[4])
calls = [0]
def good(batch):
    calls[0] += 1
    with open(path + ".least") as file: least, last = map(int, file.read().split())
    if calls[0] == last: os.kill(os.getpid(), signal.SIGKILL)
    return [score > least for score in batch["score"].to_pylist()]
report = fastpack.pack_dir(path, out, tokenizer=tokenizer, max_length=128, filter=fastpack.Function(good, **options), threads=1)
print(json.dumps([report.resumed_documents, report.warnings]))
"""


@pytest.fixture
def killed(write_jsonl, tokenizer_dir, tmp_path):
    """Runs a job that is killed on the way, then once more with `behind` for the filter to read; returns the second report."""
    path = write_jsonl(RECORDS * 8)
    out = tmp_path / "out"

    def run(behind, **options):
        command = [sys.executable, "-c", KILLED, path, out, tokenizer_dir, json.dumps(options)]
        least = path.with_name(f"{path.name}.least")
        least.write_text("1 3", encoding="utf-8")
        assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
        assert (out / ".fastpack" / "blocks").stat().st_size > 0
        least.write_text(f"{behind} 0", encoding="utf-8")
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    return run


def test_a_run_that_was_killed_is_not_resumed(killed, tokenizer_dir, tmp_path):
    resumed, warnings = killed(3)
    assert (resumed, len(warnings)) == (0, 1)
    chosen = [record for record in RECORDS * 8 if record["score"] > 3]
    assert rows(tmp_path / "out") == fastpack.pack_records(chosen, tokenizer_dir, **OPTIONS).to_pylist()


def test_with_a_name_it_is_resumed(killed):
    resumed, warnings = killed(1, fingerprint="v1")
    assert warnings == []
    assert resumed > 0


def test_a_name_stands_for_the_function(path, above, tokenizer_dir, tmp_path):
    def job(least, name):
        return fastpack.pack_dir(
            path,
            tmp_path / "out",
            tokenizer=tokenizer_dir,
            filter=fastpack.Function(above(least), fingerprint=name),
            **OPTIONS,
        )

    report = job(1, "v1")
    assert report.warnings == []
    assert job(3, "v1") == report
    with pytest.raises(
        fastpack.OutputError, match=r"`filter, map and the function of the objective` .*v1.*v2"
    ):
        job(3, "v2")


def test_a_name_finds_the_cache(path, above, tokenizer_dir, tmp_path):
    def entries(least, name):
        fastpack.pack_files(
            path,
            tokenizer_dir,
            map=None,
            filter=fastpack.Function(above(least), fingerprint=name),
            cache_dir=tmp_path / "cache",
            **OPTIONS,
        )
        return len(list((tmp_path / "cache").iterdir()))

    assert [entries(1, "v1"), entries(1, "v1"), entries(3, "v2")] == [1, 1, 2]


def test_each_function_is_named_by_itself(path, above, tokenizer_dir, tmp_path):
    options = {"filter": fastpack.Function(above(1), fingerprint="v1"), "map": lambda batch: batch}
    with pytest.warns(UserWarning, match="`map` has no fingerprint") as caught:
        table = fastpack.pack_files(path, tokenizer_dir, **options, cache_dir=tmp_path / "cache", **OPTIONS)
    assert [str(it.message) for it in caught] == fastpack.Report.of(table).warnings
    assert 'map=Function(..., fingerprint="v1")' in str(caught[0].message)


def test_a_stream_warns_at_its_first_table_and_refuses_a_state(path, tokenizer_dir):
    def stream(**options):
        return fastpack.stream(path, tokenizer_dir, **OPTIONS, batch_size=2, **options)

    def every(batch):
        return [True] * len(batch)

    unnamed = stream(filter=every)
    unnamed.load_state_dict(unnamed.state_dict())  # the beginning
    with pytest.warns(UserWarning, match="`filter` has no fingerprint: no stream resumes") as caught:
        first = next(unnamed)
    assert len(caught) == 1
    rest = next(unnamed), next(unnamed)
    state = fastpack.state_of(first)
    assert "has no fingerprint" in json.dumps(state)

    again = stream(filter=every)
    with pytest.raises(
        fastpack.OptionError,
        match=r'another `filter`.*filter=Function\(..., fingerprint="v1"\).*strict=False',
    ):
        again.load_state_dict(state)
    again.load_state_dict(state, strict=False)
    with pytest.warns(UserWarning, match="has no fingerprint"):
        assert next(again) == rest[0]
    for other in ({"filter": fastpack.Function(every, fingerprint="v1")}, {}):
        named = stream(**other)
        named.load_state_dict(state)
        with pytest.raises(fastpack.OptionError, match="filter, map and the function of the objective"):
            next(named)
    named = stream(filter=fastpack.Function(every, fingerprint="v1"))
    state = fastpack.state_of(next(named))
    renamed = stream(filter=fastpack.Function(every, fingerprint="v2"))
    renamed.load_state_dict(state)
    with pytest.raises(fastpack.OptionError, match="filter, map and the function of the objective"):
        next(renamed)
    same = stream(filter=fastpack.Function(every, fingerprint="v1"))
    same.load_state_dict(state)
    assert next(same) == rest[0]


def test_a_stream_goes_on_behind_a_passing_error_without_a_fingerprint(path, tokenizer_dir):
    calls = [0]

    def failing_once(batch):
        calls[0] += 1
        if calls[0] == 30:
            raise ConnectionError
        return batch

    plain = fastpack.stream(path, tokenizer_dir, **OPTIONS, batch_size=1)
    stream = fastpack.stream(path, tokenizer_dir, **OPTIONS, batch_size=1, map=failing_once)
    tables = []
    with pytest.raises(ConnectionError), pytest.warns(UserWarning, match="has no fingerprint"):
        tables.extend(stream)
    assert [*tables, *stream] == list(plain)


def test_ranks_refuse_one_that_has_no_name(path, above, tokenizer_dir, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    for call in (
        lambda **options: fastpack.pack_dir(
            path, tmp_path / "out", tokenizer=tokenizer_dir, **OPTIONS, **options
        ),
        lambda **options: fastpack.pack_files(
            path, tokenizer_dir, cache_dir=tmp_path / "cache", **OPTIONS, **options
        ),
    ):
        with pytest.raises(
            fastpack.OptionError,
            match=r'`filter`: has no fingerprint.*filter=Function\(..., fingerprint="v1"\)',
        ) as refused:
            call(filter=above(1))
        assert refused.value.option == "filter"
        call(filter=fastpack.Function(above(1), fingerprint="v1"))


def calls(path, tokenizer, tmp_path):
    return {
        "pack_files": lambda **options: fastpack.pack_files(path, tokenizer, **OPTIONS, **options),
        "pack_dir": lambda **options: fastpack.pack_dir(
            path, tmp_path / "out", tokenizer=tokenizer, **OPTIONS, **options
        ),
        "pack_table": lambda **options: fastpack.pack_table(
            pa.Table.from_pylist(RECORDS), tokenizer, **OPTIONS, **options
        ),
        "pack_records": lambda **options: fastpack.pack_records(RECORDS, tokenizer, **OPTIONS, **options),
        "stream": lambda **options: list(fastpack.stream(path, tokenizer, **OPTIONS, **options)),
        "scan": lambda **options: fastpack.scan(path, tokenizer, **OPTIONS, **options),
    }


@pytest.mark.parametrize("name", ["pack_files", "pack_dir", "pack_table", "pack_records", "stream", "scan"])
def test_every_call_takes_a_name_and_refuses_what_is_no_function(name, path, tokenizer_dir, tmp_path):
    call = calls(path, tokenizer_dir, tmp_path)[name]

    def same(batch):
        return batch

    call(map=fastpack.Function(same, fingerprint="v1"))
    with pytest.raises(fastpack.OptionTypeError, match="must be a function") as refused:
        call(filter=1)
    assert refused.value.option == "filter"


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"function": 1}, fastpack.OptionTypeError, "must be a function"),
        ({"fingerprint": ""}, fastpack.OptionError, "must not be empty"),
        ({"fingerprint": 1}, fastpack.OptionTypeError, "must be a text that names"),
        ({"per": "token"}, fastpack.OptionError, '"record"'),
        ({"processes": -1}, fastpack.OptionError, "from 0 on"),
        ({"processes": 2}, fastpack.OptionError, 'per="record"'),
    ],
)
def test_a_function_with_what_it_cannot_have_is_refused_where_it_is_made(wrong, error, message):
    with pytest.raises(error, match=message) as refused:
        fastpack.Function(**{"function": len, **wrong})
    assert refused.value.option == next(iter(wrong))


def test_records_of_ids_take_functions_and_their_names_without_a_tokenizer(tmp_path):
    table = pa.table({"input_ids": [[1, 2], [3, 4]], "good": [True, False]})
    options = {"max_length": 4, "filter": fastpack.Function(lambda batch: batch["good"], fingerprint="v1")}
    assert fastpack.pack_table(table, **options)["input_ids"].to_pylist() == [[1, 2]]
    report = fastpack.pack_table(table, output=tmp_path / "out", **options)
    assert report.dropped["filtered"].documents == 1
    assert fastpack.pack_table(table, output=tmp_path / "out", **options) == report


def test_the_command_line_names_a_function(path, tokenizer_dir, tmp_path):
    functions = tmp_path / "choose.py"
    functions.write_text(
        "def good(batch): return [score > 1 for score in batch['score'].to_pylist()]\n", encoding="utf-8"
    )
    command = [sys.executable, "-m", "fastpack", "pack", "-i", path, "-t", tokenizer_dir, "-m", "128"]
    command += ["--filter", f"{functions}:good", "-o"]

    def done(*arguments):
        return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)

    out, named = tmp_path / "out", tmp_path / "named"
    unnamed = done(out)
    assert (unnamed.returncode, unnamed.stderr.count("fastpack: warning: `filter` has no fingerprint")) == (
        0,
        1,
    )
    assert done(out).returncode == 1
    assert done(named, "--filter.fingerprint", "v1").returncode == 0
    again = done(named, "--filter.fingerprint", "v1")
    assert (again.returncode, again.stderr) == (0, "")
