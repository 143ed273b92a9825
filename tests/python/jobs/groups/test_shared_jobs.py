"""Groups of a job that several processes pack, in a folder and in a bucket: the files of one process, whoever is killed.

The claims of both media; what one of them alone promises is in `test_groups.py` and `test_bucket_groups.py`.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess

import pytest
from campaign import campaign_only, tries
from group_jobs import GROUP, alone, ended, inputs, is_the_same, left, packed_files
from nested import flat
from processes import FILTERED, OPTIONS, at_work, everything, kill, start

import fastpack

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")

__all__ = ["alone", "inputs"]


class Folder:
    """A folder that processes share."""

    def __init__(self, request):
        self.out = request.getfixturevalue("tmp_path") / "packed"
        self.options, self.storage = {}, None

    def of(self, rank):
        """The options of a process on another machine."""
        return {}

    def files(self):
        return {
            str(path.relative_to(self.out)): path.read_bytes()
            for path in self.out.rglob("*")
            if path.is_file()
        }

    def put(self, name, content):
        (self.out / name).write_bytes(content)

    def remove(self, name):
        (self.out / name).unlink()

    def left(self):
        """The files that are left outside of the output."""
        return []


class Bucket:
    """A folder of a bucket, and a local disk for each machine."""

    def __init__(self, request):
        self.client, self.bucket, self.work, store = (
            request.getfixturevalue(name) for name in ("client", "bucket", "work", "store")
        )
        self.out = f"s3://{self.bucket}/packed"
        self.options, self.storage = {"storage_options": store, "work_dir": str(self.work)}, store

    def of(self, rank):
        return {"work_dir": f"{self.work}/{rank}"}

    def files(self):
        return packed_files(self.client, self.bucket)

    def put(self, name, content):
        self.client.put_object(Bucket=self.bucket, Key=f"packed/{name}", Body=content)

    def remove(self, name):
        self.client.delete_object(Bucket=self.bucket, Key=f"packed/{name}")

    def left(self):
        return left(self.work)


PLACES = {"folder": Folder, "bucket": Bucket}


@pytest.fixture(params=PLACES)
def place(request):
    return PLACES[request.param](request)


@pytest.fixture
def given(place):
    """The options of all processes of a test."""
    return {"group_size": GROUP, "threads": 1, **place.options}


def status(place):
    return flat.status(place.out, storage_options=place.storage)


@pytest.mark.parametrize(
    ("count", "validation"),
    [
        (2, None),
        (5, 25),
        pytest.param(2, 25, marks=campaign_only),
        pytest.param(3, None, marks=campaign_only),
        pytest.param(3, 25, marks=campaign_only),
        pytest.param(5, None, marks=campaign_only),
    ],
)
def test_any_number_of_processes_write_the_same_files(
    count, validation, inputs, tokenizer_dir, alone, place, given
):
    options = {**given, "validation": validation, "world_size": count}
    order = random.Random(count).sample(range(count), count)
    ended(
        [
            start(inputs, tokenizer_dir, place.out, **{**options, **place.of(rank), "rank": rank})
            for rank in order
        ]
    )
    assert is_the_same(place.files(), alone(validation=validation))
    assert not place.left()


@pytest.mark.parametrize("validation", [None, pytest.param(25, marks=campaign_only)])
def test_what_two_killed_processes_leave_another_takes_over(
    validation, inputs, tokenizer_dir, alone, place, given
):
    options = {**given, **FILTERED, "validation": validation, "world_size": 3}
    killed = [
        at_work(
            start(inputs, tokenizer_dir, place.out, pause=True, **{**options, **place.of(rank), "rank": rank})
        )
        for rank in (2, 1)
    ]
    found = status(place)
    # A process that is stopped as long as a lease lasts is not known to live.
    begun = found.steps[0].running + found.steps[0].stopped
    assert (found.state, begun, found.failed) == ("running", 2, {})
    for process in killed:
        kill(process)
    assert sum("-" in name and name.endswith(".lock") for name in place.files()) >= 2
    ended([start(inputs, tokenizer_dir, place.out, **{**options, **place.of(0), "rank": 0})])
    assert is_the_same(place.files(), alone(**FILTERED, validation=validation))
    assert status(place).state == "finished"


def test_killed_at_any_moment_a_job_goes_on_to_the_same_files(inputs, tokenizer_dir, alone, place, given):
    """Also while the output is put together: the kills are spread over the time of a whole run."""
    chance, seconds = random.Random(11), 1.5
    for _ in range(tries(1, 4)):
        finished = False
        while not finished:
            process = start(
                inputs, tokenizer_dir, place.out, **{**given, "validation": 25, "rank": 0, "world_size": 1}
            )
            try:
                said, _ = process.communicate(timeout=chance.uniform(0.3, 1.5) * seconds)
                assert said.startswith("rows "), said
                finished = True
            except subprocess.TimeoutExpired:
                kill(process)
                seconds *= 1.1
        assert is_the_same(place.files(), alone(validation=25))
        assert not place.left()
        for name in place.files():
            place.remove(name)


def test_a_process_that_must_not_wait_reports_what_is_done(inputs, tokenizer_dir, alone, place, given):
    options = {**given, **FILTERED, "world_size": 2}
    first = {**options, **place.of(0), "rank": 0}
    other = at_work(start(inputs, tokenizer_dir, place.out, pause=True, **first))
    mine = {**OPTIONS, **options, "filter": fastpack.Function(everything, fingerprint="everything")}
    report = flat.pack_dir([inputs], place.out, tokenizer=tokenizer_dir, rank=1, wait=False, **mine)
    assert any("groups are packed so far" in warning for warning in report.warnings)
    assert "manifest.json" not in place.files()
    found = status(place)
    assert (found.state, found.steps[0].running) == ("running", 1)
    assert found.steps[0].done == found.steps[0].groups - 1
    kill(other)
    ended([start(inputs, tokenizer_dir, place.out, **first)])
    assert is_the_same(place.files(), alone(**FILTERED))


def test_a_group_that_fails_is_named_and_packed_again(inputs, tokenizer_dir, place, given, tmp_path):
    files = tmp_path / "files"
    shutil.copytree(inputs, files)
    last = max(files.iterdir())
    good, times = last.read_bytes(), last.stat()
    last.write_bytes(b"{" + good[1:].replace(b"{", b"[", 1))
    os.utime(last, ns=(times.st_atime_ns, times.st_mtime_ns))
    options = {**OPTIONS, **given, "rank": 0, "world_size": 1}
    with pytest.raises(fastpack.RecordError):
        flat.pack_dir([files], place.out, tokenizer=tokenizer_dir, **options)
    found = status(place)
    number = found.steps[0].groups - 1
    assert (found.state, list(found.failed)) == ("stopped", [number])
    assert last.name in found.failed[number]
    assert (found.steps[0].done, found.steps[0].failed) == (number, 1)
    assert "failed" in str(found)
    # The file is mended without a trace that its size or time would show.
    last.write_bytes(good)
    os.utime(last, ns=(times.st_atime_ns, times.st_mtime_ns))
    flat.pack_dir([files], place.out, tokenizer=tokenizer_dir, **options)
    plain = tmp_path / "plain"
    flat.pack_dir([files], plain, tokenizer=tokenizer_dir, **{**OPTIONS, "group_size": GROUP})
    assert is_the_same(place.files(), plain)
    assert not place.left()


def test_a_finished_job_returns_its_report_and_another_replaces_it_alone_where_it_may(
    inputs, tokenizer_dir, alone, place, given
):
    options = {**OPTIONS, **given, "rank": 0, "world_size": 2, "tokenizer": tokenizer_dir}
    first = flat.pack_dir([inputs], place.out, **{**options, "max_length": 128})
    before = place.files()
    assert flat.pack_dir([inputs], place.out, **{**options, "max_length": 128}) == first
    with pytest.raises(fastpack.OutputError, match=r"max_length"):
        flat.pack_dir([inputs], place.out, **options)
    assert place.files() == before
    place.put("notes.txt", b"mine")
    flat.pack_dir([inputs], place.out, **options, overwrite=True)
    assert place.files()["notes.txt"] == b"mine"
    place.remove("notes.txt")
    assert is_the_same(place.files(), alone())
