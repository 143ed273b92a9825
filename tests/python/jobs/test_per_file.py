"""`per_file=True`: an output for each input, named after it, packed by itself, with a ledger of its own."""

from __future__ import annotations

import gzip
import json
import os
import signal

import pyarrow as pa
import pytest
from conftest import conversation
from rows import balanced

import fastpack


@pytest.fixture
def files(write_jsonl):
    """Three files of conversations, two of the same name, and an empty one."""
    return [
        write_jsonl(map(conversation, range(60)), "in/x/a.jsonl"),
        write_jsonl(map(conversation, range(60, 75)), "in/y/a.jsonl"),
        write_jsonl([], "in/y/empty.jsonl"),
        write_jsonl(map(conversation, range(75, 80)), "in/z/b.jsonl"),
    ]


def pack(files, folder, tokenizer_dir, **options):
    options = {"max_length": 256, "format": fastpack.Format(per_file=True), **options}
    return fastpack.pack_dir(files, folder, tokenizer=tokenizer_dir, **options)


def rows(path):
    return pa.ipc.open_stream(path).read_all().to_pylist()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


OURS = ["manifest.json", "report.json"]


def test_each_input_has_the_rows_that_it_would_have_alone(files, tokenizer_dir, tmp_path):
    pack(files, tmp_path / "out", tokenizer_dir)
    outputs = ["x-a.arrow", "y-a.arrow", "empty.arrow", "b.arrow"]
    assert names(tmp_path / "out") == sorted([*outputs, *OURS])
    for file, output in zip(files, outputs, strict=True):
        alone = fastpack.pack_files(file, tokenizer_dir, max_length=256)
        assert rows(tmp_path / "out" / output) == alone.to_pylist()


def test_each_file_has_its_ledger_and_all_together_have_one(files, tokenizer_dir, tmp_path):
    report = pack(files, tmp_path / "out", tokenizer_dir, max_length=64)
    assert balanced(report)
    each = report.per_file
    assert list(each) == sorted(map(str, files))
    for file in files:
        alone = fastpack.Report.of(fastpack.pack_files(file, tokenizer_dir, max_length=64))
        mine = each[str(file)]
        assert balanced(mine)
        for name in ("documents", "tokens", "dropped", "rows", "lower_bound", "trained_tokens", "lengths"):
            assert getattr(mine, name) == getattr(alone, name), name
    for name in ("documents", "tokens"):
        sums = [sum(column) for column in zip(*(getattr(it, name) for it in each.values()), strict=True)]
        assert list(getattr(report, name)) == sums
    assert report.rows == sum(it.rows for it in each.values())
    assert report.dropped["too_long"].documents > 0
    again = pack(files, tmp_path / "out", tokenizer_dir, max_length=64)
    assert again.per_file == report.per_file


def test_shards_of_a_large_input_are_numbered(files, tokenizer_dir, tmp_path):
    pack(files[:1], tmp_path / "one", tokenizer_dir)
    pack(files[:1], tmp_path / "out", tokenizer_dir, format=fastpack.Format(per_file=True, shard_size="20KB"))
    shards = [name for name in names(tmp_path / "out") if name not in OURS]
    assert shards[0] == "a-00001.arrow"
    assert shards[-1] == "a.arrow"
    order = [shards[-1], *shards[:-1]]
    together = [row for name in order for row in rows(tmp_path / "out" / name)]
    assert together == rows(tmp_path / "one" / "a.arrow")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert [file["name"] for file in manifest["files"]] == order


def test_endings_of_formats_go_and_others_stay(write_jsonl, tokenizer_dir, tmp_path):
    plain = write_jsonl(map(conversation, range(3)), "talk.v2.jsonl")
    packed = tmp_path / "zipped.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    pack([plain, packed], tmp_path / "out", tokenizer_dir, format=fastpack.Format("parquet", per_file=True))
    assert names(tmp_path / "out") == [*OURS, "talk.v2.parquet", "zipped.parquet"]


def test_threads_change_nothing(files, tokenizer_dir, tmp_path):
    for threads in (1, 4):
        pack(files, tmp_path / str(threads), tokenizer_dir, threads=threads)
    for name in ("x-a.arrow", "y-a.arrow", "b.arrow"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "4" / name).read_bytes()


#: A run in a process of its own, which kills itself at a record if it is to.
RUN = """
import os, signal, sys, fastpack
out, tokenizer, files = sys.argv[1], sys.argv[2], sys.argv[3:]
def stays(rows):
    if "KILL" in os.environ and "the last one" in str(rows.column(0)[-1]):
        os.kill(os.getpid(), signal.SIGKILL)
    return [True] * rows.num_rows
fastpack.pack_dir(
    files,
    out,
    tokenizer=tokenizer,
    max_length=256,
    format=fastpack.Format(per_file=True, shard_size="200kB"),
    filter=fastpack.Function(stays, fingerprint="all"),
    threads=1,
)
"""


@pytest.mark.skipif(os.name != "posix", reason="kills as POSIX does")
def test_killed_it_goes_on_behind_the_outputs_that_are_whole(write_jsonl, tokenizer_dir, tmp_path, python):
    files = [write_jsonl(map(conversation, range(count)), f"{count}.jsonl") for count in (2_000, 10, 3_000)]
    long = [*map(conversation, range(8_000)), {"messages": [{"role": "user", "content": "the last one"}]}]
    files.append(write_jsonl(long, "long.jsonl"))

    def run(out):
        process = python("-c", RUN, str(tmp_path / out), str(tokenizer_dir), *map(str, files))
        said = process.communicate()[1]
        return process.returncode, said

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KILL", "1")
        assert run("out")[0] == -signal.SIGKILL
    work = tmp_path / "out/.fastpack"
    assert names(tmp_path / "out") == [".fastpack"]
    whole = [json.loads(line)["name"] for line in (work / "shards").read_text().splitlines()]
    assert {"2000.arrow", "2000-00001.arrow", "10.arrow", "3000.arrow"} <= set(whole)
    before = {name: (work / name).stat() for name in whole}
    for out in ("out", "undisturbed"):
        assert run(out) == (0, "")
    after = {name: (tmp_path / "out" / name).stat() for name in whole}
    assert [(it.st_ino, it.st_mtime_ns) for it in after.values()] == [
        (it.st_ino, it.st_mtime_ns) for it in before.values()
    ]
    assert names(tmp_path / "out") == names(tmp_path / "undisturbed")
    for name in set(names(tmp_path / "out")) - set(OURS):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "undisturbed" / name).read_bytes()
    resumed, alone = (
        json.loads((tmp_path / out / "report.json").read_bytes())["per_file"]
        for out in ("out", "undisturbed")
    )
    assert resumed == alone


@pytest.mark.skipif(os.name != "posix", reason="kills as POSIX does")
@pytest.mark.parametrize(
    "planted", ["train-00055.arrow", "notes.arrow", "b-a.arrow", "a-00099.arrow", "a.parquet"]
)
def test_a_file_of_others_in_the_work_folder_stays(planted, write_jsonl, tokenizer_dir, tmp_path, python):
    files = [write_jsonl(map(conversation, range(3_000)), f"{name}/a.jsonl") for name in "xy"]
    long = [*map(conversation, range(8_000)), {"messages": [{"role": "user", "content": "the last one"}]}]
    files += [write_jsonl([conversation(1)], "b.jsonl"), write_jsonl(long, "long.jsonl")]

    def run():
        process = python("-c", RUN, str(tmp_path / "out"), str(tokenizer_dir), *map(str, files))
        return process.communicate()[1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KILL", "1")
        run()
    work = tmp_path / "out/.fastpack"
    assert {"x-a.arrow", "y-a.arrow", "b.arrow"} <= set(names(work))
    (work / planted).write_text("of others")
    assert f"holds `.fastpack/{planted}`, which fastpack did not write" in run()
    assert (work / planted).read_text() == "of others"
    (work / planted).unlink()
    assert run() == ""


def test_losses_are_measured_over_all_files(files, write_jsonl, tokenizer_dir, tmp_path):
    bad = write_jsonl([b"{no json", json.dumps(conversation(1)).encode()], "in/bad.jsonl")
    options = {"on_bad_record": "skip"}
    with pytest.raises(fastpack.LossError, match=rf"^1 of 82 documents.*first at {bad}:1"):
        pack([*files, bad], tmp_path / "out", tokenizer_dir, **options, max_lost="1%")
    assert not (tmp_path / "out").exists()
    pack([*files, bad], tmp_path / "out", tokenizer_dir, **options, max_lost="2%")


def test_outputs_of_an_earlier_job_are_replaced_and_other_files_stay(files, tokenizer_dir, tmp_path):
    pack(files, tmp_path / "out", tokenizer_dir)
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(fastpack.OutputError, match="per_file"):
        fastpack.pack_dir(files, tmp_path / "out", tokenizer=tokenizer_dir, max_length=256)
    fastpack.pack_dir(files, tmp_path / "out", tokenizer=tokenizer_dir, max_length=256, exists="overwrite")
    assert names(tmp_path / "out") == sorted([*OURS, "notes.txt", "train-00000.arrow"])
    pack(files, tmp_path / "out", tokenizer_dir, exists="overwrite")
    assert "train-00000.arrow" not in names(tmp_path / "out")


def test_names_that_cannot_be_told_apart_are_refused(write_jsonl, tokenizer_dir, tmp_path):
    one = write_jsonl(map(conversation, range(3)), "a.jsonl")
    other = write_jsonl(map(conversation, range(3)), "a.json")
    shard = write_jsonl(map(conversation, range(3)), "a-00001.jsonl")
    for second in (other, shard):
        with pytest.raises(fastpack.OptionError, match=f"{second}.*rename one") as caught:
            pack([one, second], tmp_path / "out", tokenizer_dir)
        assert caught.value.option == "format.per_file"
        assert not (tmp_path / "out").exists()
