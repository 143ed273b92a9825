"""`groups`: a job cut into groups of inputs, packed by any number of processes, with the same files and one report."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys

import datasets
import pytest
from conftest import conversation
from nested import flat
from processes import FILTERED, OPTIONS, at_work, everything, kill, start
from rows import table_of

import fastpack
from fastpack.options import native
from fastpack.runtime.ranks import Rank

COLUMNS = ["input_ids", "labels", "position_ids", "seq_lengths", "source_file", "source_row"]
GROUP = 40_000
"""Bytes of a group: the twelve files below are of about 10 to 35 KB."""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Twelve files of conversations, of different sizes."""
    folder = tmp_path_factory.mktemp("inputs")
    for number in range(12):
        count = 25 + 7 * (number % 5)
        lines = [json.dumps(conversation(100 * number + record)) for record in range(count)]
        (folder / f"part-{number:02}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def pack(inputs, tokenizer_dir):
    def call(folder, files=inputs, **options):
        given = {"max_length": 256, "columns": COLUMNS, "group_size": GROUP, **options}
        return flat.pack_dir(files, folder, tokenizer=tokenizer_dir, **given)

    return call


def groups_of(inputs, size=GROUP):
    """The files of each group, by the rule that the documentation states."""
    groups, taken = [], 0
    for path in sorted(inputs.iterdir()):
        if not groups or taken + path.stat().st_size > size:
            groups.append([])
            taken = 0
        groups[-1].append(path)
        taken += path.stat().st_size
    return groups


def documents(table):
    """The documents of rows by file and line, sorted."""
    rows = table.select(["source_file", "source_row"]).to_pylist()
    return sorted(itertools.chain(*(zip(row["source_file"], row["source_row"], strict=True) for row in rows)))


def shards(folder):
    """The bytes of each shard of both splits, by its name."""
    return {path.name: path.read_bytes() for path in folder.glob("*-[0-9]*.arrow")}


def timeless(folder):
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    del report["timing"]
    return report


def balances(report):
    for counts in (report.documents, report.tokens):
        assert counts.read == counts.kept + counts.dropped
    return True


def test_a_group_is_packed_as_its_files_are_alone(inputs, pack, tokenizer_dir, tmp_path):
    groups = groups_of(inputs)
    assert len(groups) > 3
    pack(tmp_path / "out")
    columns = ["input_ids", "labels", "position_ids", "seq_lengths"]
    alone = [flat.pack_files(files, tokenizer_dir, max_length=256).to_pylist() for files in groups]
    assert table_of(tmp_path / "out").select(columns).to_pylist() == list(itertools.chain(*alone))


def test_one_group_of_everything_gives_the_files_of_a_job_without_groups(pack, tmp_path):
    for options in (
        {},
        {"validation": 30},
        {"strategy": "sequential"},
    ):
        shutil.rmtree(tmp_path, ignore_errors=True)
        pack(tmp_path / "plain", group_size=None, **options)
        pack(tmp_path / "grouped", group_size="1GB", **options)
        assert shards(tmp_path / "grouped") == shards(tmp_path / "plain")
        assert timeless(tmp_path / "grouped") == timeless(tmp_path / "plain")


def test_the_report_counts_the_whole_job(pack, tmp_path):
    whole = pack(tmp_path / "plain", group_size=None)
    report = pack(tmp_path / "out")
    assert report.documents == whole.documents
    assert report.tokens == whole.tokens
    assert report.lengths == whole.lengths
    assert report.lower_bound == whole.lower_bound
    assert report.trained_tokens == whole.trained_tokens
    assert report.inputs == whole.inputs
    assert balances(report)
    assert report.rows == table_of(tmp_path / "out").num_rows >= whole.rows
    assert report.fill == pytest.approx(report.tokens.kept / (report.rows * 256), abs=1e-6)
    manifests = [json.loads((tmp_path / name / "manifest.json").read_text()) for name in ("plain", "out")]
    assert manifests[0]["content"] == manifests[1]["content"]


def test_rows_name_the_files_of_the_job(inputs, pack, tmp_path):
    report = pack(tmp_path / "out")
    plain = pack(tmp_path / "plain", group_size=None)
    assert report.sources == plain.sources == [str(path) for path in sorted(inputs.iterdir())]
    assert documents(table_of(tmp_path / "out")) == documents(table_of(tmp_path / "plain"))


def test_shards_are_numbered_through_the_job(inputs, pack, tmp_path):
    pack(tmp_path / "out", shard_size="60KB")
    names = sorted(path.name for path in (tmp_path / "out").glob("train-*"))
    assert len(names) > len(groups_of(inputs))
    assert names == [f"train-{number:05}.arrow" for number in range(len(names))]
    assert not (tmp_path / "out/.fastpack").exists()
    assert not fastpack.verify(tmp_path / "out").problems


@pytest.mark.parametrize("validation", [1, 30, 0.25, "1%"])
def test_the_documents_set_aside_are_those_of_a_job_without_groups(validation, pack, tmp_path):
    plain = pack(tmp_path / "plain", group_size=None, validation=validation)
    report = pack(tmp_path / "out", validation=validation)
    for split in ("train", "validation"):
        found, expected = (table_of(tmp_path / name, split) for name in ("out", "plain"))
        assert documents(found) == documents(expected)
        assert report.splits[split].documents == plain.splits[split].documents
        assert report.splits[split].tokens == plain.splits[split].tokens
    assert balances(report)


def test_a_record_that_is_read_several_times_is_in_one_split(inputs, pack, tmp_path):
    sources = [{"path": str(inputs), "repeat": 3}]
    pack(tmp_path / "plain", sources, group_size=None, validation=50)
    pack(tmp_path / "out", sources, validation=50)
    for split in ("train", "validation"):
        found, expected = (table_of(tmp_path / name, split) for name in ("out", "plain"))
        assert documents(found) == documents(expected)


def test_more_documents_than_there_are_cannot_be_set_aside(pack, tmp_path):
    with pytest.raises(fastpack.OptionError, match=r"sets aside 100000 of \d+ documents"):
        pack(tmp_path / "out", validation=100_000)


def test_a_limit_holds_for_all_files_of_its_source(inputs, pack, tmp_path):
    sources = [{"path": str(inputs), "limit": 60}]
    plain = pack(tmp_path / "plain", sources, group_size=None)
    report = pack(tmp_path / "out", sources)
    assert report.documents == plain.documents
    assert report.documents.read == 60


def test_how_much_is_lost_is_counted_over_all_groups(inputs, pack, tmp_path):
    # All documents of the first group are longer than a row; of the job they are a part.
    files = tmp_path / "files"
    shutil.copytree(inputs, files)
    first = min(files.iterdir())
    long = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "boat " * 9000}]}
    first.write_text(f"{json.dumps(long)}\n", encoding="utf-8")
    report = pack(tmp_path / "out", files=files, max_lost=0.9999)
    assert report.dropped["too_long"].documents == 1
    assert balances(report)
    with pytest.raises(fastpack.LossError, match=r"more than max_lost=\"0.01%\""):
        pack(tmp_path / "other", files=files, max_lost=0.0001)
    assert not list((tmp_path / "other").glob("train-*"))
    # Nothing of the work is lost: with another limit the groups are taken as they are.
    again = pack(tmp_path / "other", files=files, max_lost=0.9999)
    assert again.documents == report.documents
    assert shards(tmp_path / "other") == shards(tmp_path / "out")


@pytest.mark.parametrize("on_remainder", ["pad", "drop", "repeat"])
@pytest.mark.parametrize("options", [{}, {"validation": 60}, {"overlong": "split", "max_length": 64}])
def test_ranks_share_the_rows_of_the_job_and_not_of_each_group(on_remainder, options, pack, tmp_path):
    ranks = 16
    given = {"order": fastpack.Balanced(ranks, on_remainder=on_remainder), **options}
    report = pack(tmp_path / "out", **given)
    whole = pack(tmp_path / "plain", group_size=None, **options)
    assert balances(report)
    parts = report.splits or {"train": report}
    for split, counts in parts.items():
        table = table_of(tmp_path / "out", split)
        assert table.num_rows % ranks == 0
        padding = sum(-1 in row and len(row) == 1 for row in table["source_file"].to_pylist())
        assert padding < ranks
        if on_remainder == "pad":
            assert counts.documents == (whole.splits or {"train": whole})[split].documents
        if on_remainder == "drop":
            rows = sum(lost.tokens for reason, lost in counts.dropped.items() if reason == "remainder")
            assert rows < ranks * given.get("max_length", 256)
        if on_remainder == "repeat":
            assert counts.repeated.tokens < ranks * given.get("max_length", 256)
    assert not fastpack.verify(tmp_path / "out").problems


def test_an_output_that_was_put_together_in_part_is_put_together_again(pack, tmp_path):
    ranked = {"order": fastpack.Balanced(16, on_remainder="drop"), "validation": 60}
    # The rows that ranks cannot share are known to be lost only after rows of all groups were written.
    with pytest.raises(fastpack.LossError):
        pack(tmp_path / "out", max_lost=0.0, **ranked)
    pack(tmp_path / "out", max_lost=0.9999, **ranked)
    pack(tmp_path / "other", max_lost=0.9999, **ranked)
    assert shards(tmp_path / "out") == shards(tmp_path / "other")
    assert timeless(tmp_path / "out") == timeless(tmp_path / "other")


def test_data_sets_of_the_hub_see_one_data_set(pack, tmp_path):
    pack(tmp_path / "out", hf_layout=True, validation=40)
    loaded = datasets.load_from_disk(str(tmp_path / "out"))
    pack(tmp_path / "plain", validation=40)
    for split in ("train", "validation"):
        expected = table_of(tmp_path / "plain", split)
        assert loaded[split].data.to_pylist() == expected.to_pylist()


@pytest.mark.parametrize("aside", [None, 40])
def test_kept_tokens_are_packed_again_as_those_of_one_job(aside, pack, tmp_path):
    pack(tmp_path / "out", keep_tokens=True, validation=aside)
    pack(tmp_path / "plain", max_length=128, group_size=None, validation=aside)
    flat.repack(tmp_path / "out", tmp_path / "again", max_length=128, columns=COLUMNS, validation=aside)
    assert shards(tmp_path / "again") == shards(tmp_path / "plain")


def test_a_finished_job_returns_its_report_and_another_is_refused(pack, tmp_path):
    report = pack(tmp_path / "out")
    before = shards(tmp_path / "out")
    assert pack(tmp_path / "out") == report
    with pytest.raises(fastpack.OutputError, match=r"differs in `groups\.size`"):
        pack(tmp_path / "out", group_size=2 * GROUP)
    with pytest.raises(fastpack.OutputError, match=r"differs in `groups\.size`"):
        pack(tmp_path / "out", group_size=None)
    assert shards(tmp_path / "out") == before
    pack(tmp_path / "out", group_size=2 * GROUP, overwrite=True)
    assert shards(tmp_path / "out") != before
    pack(tmp_path / "out", overwrite=True)
    assert shards(tmp_path / "out") == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"group_size": None, "rank": 0, "world_size": 2},
            "`groups.rank`.*without `groups.size` the job is one group",
        ),
        (
            {"rank": 2, "world_size": 2},
            "`groups.rank`: is 2, but must be below groups=Groups\\(world_size=2\\)",
        ),
        ({"rank": 0}, "`groups.world_size`: must be given too"),
        ({"rank": "auto", "world_size": 3}, '`groups.world_size`: must be "auto" too'),
        ({"rank": "first", "world_size": 3}, "`groups.rank`: must be a whole number from 0"),
        ({"group_size": "0"}, "`groups.size`: must be a number of bytes"),
        ({"group_size": "many"}, "`groups.size`: must be a number of bytes"),
        ({"per_file": True}, "`groups.size`: cannot be given with format=Format\\(per_file=True\\)"),
        ({"cache_dir": "cache"}, "`cache_dir`: cannot be given with `groups`"),
        (
            {"order": fastpack.Balanced(2), "columns": ["input_ids", "group"]},
            "`columns`: names `group`",
        ),
    ],
)
def test_what_does_not_go_with_groups_is_refused_by_name(options, message, pack, tmp_path):
    with pytest.raises(fastpack.OptionError, match=message):
        pack(tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("numbers", [{}, {"rank": "auto", "world_size": "auto"}], ids=["unset", "auto"])
def test_ranks_stand_in_the_environment(numbers, pack, tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "3")
    report = pack(tmp_path / "out", **numbers)
    assert report.rows == table_of(tmp_path / "out").num_rows
    monkeypatch.setenv("RANK", "7")
    with pytest.raises(fastpack.OptionError, match=r"is 7, but must be below groups=Groups\(world_size=3\)"):
        pack(tmp_path / "other", **numbers)


posix = pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")


LONG_GROUP = 20 * GROUP


@pytest.fixture(scope="module")
def long_inputs(inputs, tmp_path_factory):
    """The same files with their lines 20 times over: a process that packs them can be stopped at its work."""
    folder = tmp_path_factory.mktemp("long")
    for path in inputs.iterdir():
        (folder / path.name).write_text(20 * path.read_text(encoding="utf-8"), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def alone(long_inputs, tokenizer_dir, tmp_path_factory):
    """The folders of one process, without and with documents set aside."""
    folders = {}
    for validation in (None, 25):
        folders[validation] = tmp_path_factory.mktemp("alone") / "out"
        options = {**OPTIONS, "group_size": LONG_GROUP, "validation": validation}
        flat.pack_dir(long_inputs, folders[validation], tokenizer=tokenizer_dir, **options)
    return folders


@posix
def test_a_job_whose_processes_are_all_killed_goes_on_later(long_inputs, tokenizer_dir, alone, tmp_path):
    out = tmp_path / "out"
    how = {"group_size": LONG_GROUP, "threads": 1, "world_size": 2}
    for rank in (0, 1):
        kill(at_work(start(long_inputs, tokenizer_dir, out, rank=rank, pause=True, **how)))
    status = flat.status(out)
    assert (status.state, status.steps[0].stopped > 0) == ("stopped", True)
    assert start(long_inputs, tokenizer_dir, out, group_size=LONG_GROUP).communicate()[0].startswith("rows")
    assert shards(out) == shards(alone[None])


@posix
def test_a_process_that_must_not_wait_leaves_the_output_to_those_that_still_use_it(
    long_inputs, tokenizer_dir, alone, tmp_path
):
    """Also where all groups are packed, and another process has not yet given the folder free."""
    import fcntl

    out = tmp_path / "out"
    how = {"group_size": LONG_GROUP, "threads": 1, "world_size": 2}
    kill(at_work(start(long_inputs, tokenizer_dir, out, rank=0, pause=True, **how)))
    options = {**OPTIONS, "group_size": LONG_GROUP, "wait": False}
    with (out / ".fastpack/lock").open("r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        report = flat.pack_dir(long_inputs, out, tokenizer=tokenizer_dir, **options)
    assert any("groups are packed so far" in warning for warning in report.warnings)
    assert not (out / "manifest.json").exists()
    report = flat.pack_dir(long_inputs, out, tokenizer=tokenizer_dir, **options)
    assert not report.warnings
    assert shards(out) == shards(alone[None])


def test_a_group_that_was_changed_is_packed_again(long_inputs, tokenizer_dir, alone, tmp_path):
    out = tmp_path / "out"
    how = {"group_size": LONG_GROUP, "threads": 1, "world_size": 2}
    other = at_work(start(long_inputs, tokenizer_dir, out, rank=0, pause=True, **how))
    options = {**OPTIONS, "group_size": LONG_GROUP}
    flat.pack_dir(long_inputs, out, tokenizer=tokenizer_dir, rank=1, world_size=2, wait=False, **options)
    kill(other)
    done = sorted((out / ".fastpack/groups").glob("*-rows/train-*"))
    assert len(done) > 1
    done[0].write_bytes(done[0].read_bytes()[:-1])
    done[1].unlink()
    flat.pack_dir(long_inputs, out, tokenizer=tokenizer_dir, **options)
    assert shards(out) == shards(alone[None])


@posix
@pytest.mark.parametrize("placing", [False, True], ids=["whole", "placing"])
def test_a_changed_group_without_a_record_is_packed_again(
    placing, long_inputs, tokenizer_dir, alone, tmp_path
):
    """A process was killed before it had recorded the group, or while it placed its files."""
    import fcntl

    out = tmp_path / "out"
    how = {"group_size": LONG_GROUP, "threads": 1, "wait": False}
    process = at_work(start(long_inputs, tokenizer_dir, out, pause=True, **how, **FILTERED))
    (started,) = (out / ".fastpack/groups").glob("*-rows/.fastpack/started.json")
    record, group = started.read_bytes(), started.parent.parent
    with (out / ".fastpack/lock").open("r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        process.send_signal(signal.SIGCONT)
        process.communicate()
    group.with_suffix(".json").unlink()
    if placing:
        started.parent.mkdir()
        started.write_bytes(record)
        (group / "manifest.json").rename(group / ".fastpack/manifest.json")
    shard = group / "train-00000.arrow"
    shard.write_bytes(shard.read_bytes()[:-1])
    same = {**OPTIONS, "filter": fastpack.Function(everything, fingerprint="everything")}
    flat.pack_dir(long_inputs, out, tokenizer=tokenizer_dir, group_size=LONG_GROUP, **same)
    assert shards(out) == shards(alone[None])


def test_a_group_whose_folder_is_gone_is_packed_again(pack, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(fastpack.OptionError):
        pack(out, validation=100_000)
    whole = sorted(path.name for path in (out / ".fastpack/groups").iterdir())
    shutil.rmtree(next((out / ".fastpack/groups").glob("*-tokens")))
    with pytest.raises(fastpack.OptionError):
        pack(out, validation=100_000)
    assert sorted(path.name for path in (out / ".fastpack/groups").iterdir()) == whole


def test_files_of_others_in_the_work_folder_stay(pack, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(fastpack.OptionError):
        pack(out, validation=100_000)
    mine = out / ".fastpack/groups/mine.txt"
    mine.write_text("mine", encoding="utf-8")
    pack(out, overwrite=True)
    assert [path.read_text(encoding="utf-8") for path in out.rglob("mine.txt")] == ["mine"]
    assert flat.status(out).state == "finished"


def test_status_of_a_folder_without_a_job_is_refused(tmp_path):
    with pytest.raises(fastpack.OutputError, match="holds no job of fastpack"):
        flat.status(tmp_path)
    with pytest.raises(fastpack.InputNotFoundError):
        flat.status(tmp_path / "nowhere")


def test_the_command_line_packs_groups_and_tells_their_state(inputs, tokenizer_dir, tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "fastpack"]
    pack = [*command, "pack", str(inputs), "-o", str(out), "-t", str(tokenizer_dir), "-m", "256"]
    ranks = ["--groups", "40KB", "--groups.rank", "0", "--groups.world-size", "2"]
    subprocess.run([*pack, *ranks], check=True, capture_output=True)
    shown = subprocess.run([*command, "status", str(out)], check=True, capture_output=True, text=True)
    assert "finished" in shown.stdout
    as_json = subprocess.run(
        [*command, "status", str(out), "--json"], check=True, capture_output=True, text=True
    )
    status = json.loads(as_json.stdout)
    assert status["steps"][0]["done"] == status["steps"][0]["groups"] > 1
    refused = subprocess.run(
        [*pack, "--groups.rank", "0", "--groups.world-size", "2"], capture_output=True, text=True, check=False
    )
    assert refused.returncode == 2
    assert "--groups.rank" in refused.stderr
    recipe = json.loads((out / "manifest.json").read_text(encoding="utf-8"))["recipe"]
    assert recipe["groups"] == {"size": "40KB"}
    assert "ranks" not in recipe


def test_ranks_that_pack_groups_at_the_same_time_share_the_memory_of_a_machine(monkeypatch):
    whole = native._memory_of(None)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert native._memory_of(None) == native._memory_of(Rank(0, 1, None)) == whole
    assert native._memory_of(Rank(1, 8, "RANK and WORLD_SIZE")) == whole // 4
