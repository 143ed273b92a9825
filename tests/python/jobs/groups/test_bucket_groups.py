"""Groups of a job that several processes pack into a bucket: the files of one process in a folder, whoever is killed."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys

import pytest
from campaign import campaign_only, tries
from conftest import listing
from faulty_proxy import losing
from group_jobs import GROUP, alone, ended, inputs, is_the_same, left, packed_files
from nested import flat, nested
from processes import FILTERED, OPTIONS, at_work, everything, kill, start

import fastpack
from fastpack import _fastpack
from fastpack.options import options_of
from fastpack.options.native import native_inputs, native_model, native_options, native_output

COLUMNS = ["input_ids", "labels", "position_ids", "seq_lengths", "source_file", "source_row"]

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")

__all__ = ["alone", "inputs"]


@pytest.fixture
def given(store, work):
    """The options of all processes of a test."""
    return {"group_size": GROUP, "threads": 1, "storage_options": store, "work_dir": str(work)}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"validation": 25},
        {"keep_tokens": True},
        {"keep_tokens": True, "validation": 0.1},
        {"hf_layout": True, "shard_size": "300KB"},
        {"hf_layout": True, "validation": 25},
        {"columns": COLUMNS, "shard_size": "300KB"},
        {"order": fastpack.Balanced(16, on_remainder="pad")},
        {"order": fastpack.Balanced(16, on_remainder="drop"), "max_lost": "20%"},
        {"order": fastpack.Balanced(16, on_remainder="repeat"), "validation": 60},
        {"format": "parquet", "compression": "zstd"},
    ],
    ids=str,
)
def test_a_rank_writes_into_a_bucket_what_a_process_writes_into_a_folder(
    options, inputs, tokenizer_dir, alone, given, client, bucket, work
):
    out = f"s3://{bucket}/packed"
    options = {**OPTIONS, **options}
    report = flat.pack_dir(
        [inputs], out, tokenizer=tokenizer_dir, rank=0, world_size=2, **{**given, **options}
    )
    assert is_the_same(packed_files(client, bucket), alone(**options))
    assert not left(work)
    again = flat.pack_dir(
        [inputs], out, tokenizer=tokenizer_dir, rank=1, world_size=2, **{**given, **options}
    )
    assert again == report


def test_ranks_that_share_a_disk_write_the_same_files(
    inputs, tokenizer_dir, alone, given, client, bucket, work
):
    out = f"s3://{bucket}/packed"
    options = {**given, "validation": 25, "world_size": 3}
    ended([start(inputs, tokenizer_dir, out, rank=rank, **options) for rank in range(3)])
    assert is_the_same(packed_files(client, bucket), alone(validation=25))
    assert not left(work)


@pytest.mark.parametrize("validation", [pytest.param(None, marks=campaign_only), 25])
def test_a_killed_process_that_runs_again_takes_its_group_at_once(
    validation, inputs, tokenizer_dir, alone, given, client, bucket, work
):
    out = f"s3://{bucket}/packed"
    options = {**given, **FILTERED, "validation": validation, "world_size": 2}
    for rank in (0, 1):
        kill(at_work(start(inputs, tokenizer_dir, out, rank=rank, pause=True, **options)))
    held = [key for key in listing(client, bucket) if key.endswith(".lock")]
    assert held
    ended([start(inputs, tokenizer_dir, out, rank=0, **options)])
    assert is_the_same(packed_files(client, bucket), alone(**FILTERED, validation=validation))
    assert not left(work)


@pytest.mark.parametrize("told", [True, False], ids=["a hash is told", "no hash is told"])
@pytest.mark.parametrize("are_damaged", [True, False])
def test_an_object_is_used_by_its_bytes_alone(
    are_damaged, told, inputs, tokenizer_dir, alone, given, client, bucket, tmp_path
):
    """Objects of finished groups that another program wrote anew, of the same size: those of other bytes are made again.

    Some have a wrong hash stored with them.
    """
    out, files = f"s3://{bucket}/packed", tmp_path / "files"
    shutil.copytree(inputs, files)
    last = max(files.iterdir())
    good, times = last.read_bytes(), last.stat()
    last.write_bytes(b"{" + good[1:].replace(b"{", b"[", 1))
    os.utime(last, ns=(times.st_atime_ns, times.st_mtime_ns))
    options = {
        **OPTIONS,
        **given,
        "rank": 0,
        "world_size": 1,
        "keep_tokens": True,
        "tokenizer": tokenizer_dir,
    }
    with pytest.raises(fastpack.RecordError):
        flat.pack_dir([files], out, **options)
    last.write_bytes(good)
    os.utime(last, ns=(times.st_atime_ns, times.st_mtime_ns))
    there = {key: it for key, it in listing(client, bucket).items() if "/groups/" in key}
    assert sum(key.endswith(".arrow") for key in there) > 2
    for key, content in there.items():
        spoilt = bytearray(content)
        spoilt[len(spoilt) // 2] ^= are_damaged
        (tmp_path / "good").write_bytes(content)
        metadata = {"blake3": _fastpack.content_hash(str(tmp_path / "good"))} if told else {}
        client.put_object(Bucket=bucket, Key=key, Body=bytes(spoilt), Metadata=metadata)
    # On another machine, where no group lies on the disk.
    flat.pack_dir([files], out, **{**options, "work_dir": str(tmp_path / "elsewhere")})
    plain = tmp_path / "plain"
    flat.pack_dir([files], plain, tokenizer=tokenizer_dir, **OPTIONS, group_size=GROUP, keep_tokens=True)
    assert is_the_same(packed_files(client, bucket), plain)


@pytest.mark.parametrize("seed", range(tries(3, 30)))
def test_faults_on_the_way_cost_no_byte_of_a_group(
    seed, inputs, tokenizer_dir, alone, given, store, client, bucket
):
    out = f"s3://{bucket}/packed"
    options = {**OPTIONS, **given, "validation": 25, "rank": 0, "world_size": 1}
    faults = random.Random(seed).choice([0.02, 0.1, 0.2])
    said = ""
    with losing(store["aws_endpoint"], seed=seed, faults=faults) as proxy:
        retries = str(seed % 2 * 20 + 1)
        faulty = {**store, "aws_endpoint": proxy.url, "max_retries": retries}
        try:
            flat.pack_dir([inputs], out, tokenizer=tokenizer_dir, **{**options, "storage_options": faulty})
        except fastpack.FastpackError as error:
            said = str(error)
    assert len(said.splitlines()) <= 1
    assert not said or seed % 2 == 0
    # A run that has failed goes on, and one that has not is known again.
    flat.pack_dir([inputs], out, tokenizer=tokenizer_dir, **options)
    assert is_the_same(packed_files(client, bucket), alone(validation=25))


def test_a_job_underway_is_refused_to_another(inputs, tokenizer_dir, given, client, bucket):
    out = f"s3://{bucket}/packed"
    options = {**OPTIONS, **given, "rank": 0, "world_size": 2}
    with pytest.raises(fastpack.LossError):
        flat.pack_dir([inputs], out, tokenizer=tokenizer_dir, **{**options, "max_lost": 0, "max_length": 32})
    before = listing(client, bucket)
    assert any("/groups/" in key for key in before)
    for more in ({}, {"group_size": None, "rank": None, "world_size": None}):
        with pytest.raises(fastpack.OutputError, match=r"the groups of another job"):
            flat.pack_dir([inputs], out, tokenizer=tokenizer_dir, **{**options, **more})
    assert listing(client, bucket) == before


@pytest.mark.parametrize("validation", [None, 25])
def test_status_tells_what_is_done_and_running_in_a_bucket(
    validation, inputs, tokenizer_dir, given, client, bucket, work
):
    out = f"s3://{bucket}/packed"
    storage = given["storage_options"]
    options = {**given, **FILTERED, "validation": validation, "world_size": 2}
    other = at_work(
        start(inputs, tokenizer_dir, out, pause=True, **{**options, "rank": 0, "work_dir": f"{work}/0"})
    )
    mine = {
        **OPTIONS,
        **options,
        "filter": fastpack.Function(everything, fingerprint="everything"),
        "rank": 1,
        "wait": False,
    }
    if validation is None:
        flat.pack_dir([inputs], out, tokenizer=tokenizer_dir, **mine)
    status = flat.status(out, storage_options=storage)
    first = status.steps[0]
    assert (status.state, first.running, first.failed, status.failed) == ("running", 1, 0, {})
    assert first.done == (first.groups - 1 if validation is None else 0)
    assert [step.step for step in status.steps] == (["rows"] if validation is None else ["tokens", "rows"])
    assert (status.files, status.bytes) == (12, sum(path.stat().st_size for path in inputs.iterdir()))
    kill(other)
    ended([start(inputs, tokenizer_dir, out, **{**options, "rank": 0, "work_dir": f"{work}/0"})])
    command = [sys.executable, "-m", "fastpack", "status", out, "--json"]
    shown = subprocess.run(
        [*command, "--storage", json.dumps(storage)], check=True, capture_output=True, text=True
    )
    status = json.loads(shown.stdout)
    assert status["state"] == "finished"
    assert all(step["done"] == step["groups"] == first.groups for step in status["steps"])


def test_status_of_a_bucket_without_a_job_is_refused(given, bucket):
    with pytest.raises(fastpack.OutputError, match="holds no job of fastpack"):
        flat.status(f"s3://{bucket}/packed", storage_options=given["storage_options"])


def test_a_group_alone_is_packed_into_a_bucket_as_tasks_of_ray_do(
    inputs, tokenizer_dir, alone, given, client, bucket, work
):
    out = f"s3://{bucket}/packed"
    defaults = {option.name: option.default for option in options_of("pack_dir")}
    mine = nested({**given, "validation": 25}, OPTIONS)
    options = {**defaults, **mine, "files": [inputs], "output": out, "tokenizer": tokenizer_dir}
    sizes, steps = _fastpack.list_groups(native_inputs(options), native_output(options))
    assert steps == ["tokens", "rows"]
    for step in range(len(steps)):
        for group in range(len(sizes)):
            elsewhere = nested({"work_dir": f"{work}/{group}"}, options)
            parts = native_inputs(elsewhere), native_output(elsewhere), native_options(elsewhere)
            _fastpack.pack_group(*parts, *native_model(elsewhere), group, step)
    fastpack.pack_dir([inputs], out, tokenizer=tokenizer_dir, **mine)
    assert is_the_same(packed_files(client, bucket), alone(validation=25))
    assert not left(work)
