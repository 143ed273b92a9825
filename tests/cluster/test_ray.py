"""`fastpack.ray` on clusters of one machine, with nodes that are killed."""

from __future__ import annotations

import importlib
import json
import os
import tempfile
import threading
import time

import boto3
import fsspec
import pytest
import ray
from canary import CANARY, NOWHERE, everything_in, urls
from conftest import shards, timeless
from fsspec.implementations.local import LocalFileSystem
from moto.server import ThreadedMotoServer
from ray.cluster_utils import Cluster

import fastpack
import fastpack.ray

OPTIONS = {
    "max_length": 256,
    "groups": "20KB",
    "columns": ["input_ids", "labels", "source_file", "source_row"],
}


class Unsent(LocalFileSystem):
    """A filesystem that stays in its process."""

    def __reduce__(self):
        message = "it holds a connection"
        raise TypeError(message)


@pytest.fixture(scope="module", autouse=True)
def two_cores():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def alone(chats, tokenizer_dir, tmp_path_factory):
    """The folders of one process without Ray, without and with documents set aside."""
    folders = {}
    for validation in (None, 30):
        folders[validation] = tmp_path_factory.mktemp("alone") / "out"
        fastpack.pack_dir(
            chats, folders[validation], tokenizer=tokenizer_dir, validation=validation, **OPTIONS
        )
    return folders


@pytest.mark.parametrize("validation", [None, 30])
def test_a_job_on_ray_writes_the_files_of_one_process(validation, chats, tokenizer_dir, alone, tmp_path):
    out, told = tmp_path / "out", []
    report = fastpack.ray.pack_dir(
        chats, out, tokenizer=tokenizer_dir, validation=validation, progress=told.append, **OPTIONS
    )
    assert shards(out) == shards(alone[validation])
    assert timeless(out) == timeless(alone[validation])
    assert report.documents == fastpack.Report.of(out).documents
    assert told[-1].bytes == told[-1].total_bytes == sum(path.stat().st_size for path in chats.iterdir())
    assert told[-1].rows == report.rows
    again = fastpack.ray.pack_dir(chats, out, tokenizer=tokenizer_dir, validation=validation, **OPTIONS)
    assert again.to_dict() == report.to_dict()


@pytest.fixture
def store():
    """The options of an S3 server on this machine."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = {
        "aws_endpoint": f"http://{host}:{port}",
        "aws_allow_http": "true",
        "aws_region": "us-east-1",
        "aws_access_key_id": "an-access-key",
        "aws_secret_access_key": "a-secret-key",
    }
    yield options
    server.stop()


@pytest.mark.parametrize("place", ["files", "output", "tokenizer"])
def test_no_job_on_ray_tells_a_secret(place, chats, tokenizer_dir, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    quick = fastpack.Storage(
        {"max_retries": "0", "timeout": "1s", "aws_endpoint": f"http://{NOWHERE}", "aws_allow_http": "true"}
    )
    usual = {
        "files": chats,
        "output": "packed",
        "tokenizer": tokenizer_dir,
        "max_length": 512,
        "storage": quick,
    }
    for url in urls().values():
        with pytest.raises((fastpack.FastpackError, OSError)) as failed:
            fastpack.ray.pack_dir(**usual | {place: url}, groups="100KB")
        assert CANARY not in everything_in(failed.value)
    assert CANARY not in "\n".join(str(path) for path in tmp_path.rglob("*"))


def test_a_job_on_ray_writes_the_same_files_into_a_bucket(chats, tokenizer_dir, alone, store, tmp_path):
    client = boto3.client(
        "s3",
        endpoint_url=store["aws_endpoint"],
        region_name=store["aws_region"],
        aws_access_key_id=store["aws_access_key_id"],
        aws_secret_access_key=store["aws_secret_access_key"],
    )
    client.create_bucket(Bucket="rows")
    report = fastpack.ray.pack_dir(
        chats,
        "s3://rows/packed",
        tokenizer=tokenizer_dir,
        storage=fastpack.Storage(store, work_dir=tmp_path / "work"),
        **OPTIONS,
    )
    assert report.documents == fastpack.Report.of(alone[None]).documents
    for name, written in shards(alone[None]).items():
        assert client.get_object(Bucket="rows", Key=f"packed/{name}")["Body"].read() == written


def test_an_error_in_a_task_is_raised_as_it_is(chats, tokenizer_dir, tmp_path):
    bad = tmp_path / "bad"
    bad.mkdir()
    for path in chats.iterdir():
        (bad / path.name).write_bytes(path.read_bytes())
    (bad / "part-05.jsonl").write_text('{"messages": 5}\n', encoding="utf-8")
    with pytest.raises(fastpack.RecordError, match=r"part-05.jsonl:1"):
        fastpack.ray.pack_dir(bad, tmp_path / "out", tokenizer=tokenizer_dir, **OPTIONS)
    assert not list((tmp_path / "out").glob("train-*"))


def test_functions_run_on_all_nodes(chats, tokenizer_dir, tmp_path):
    def short(batch):
        return [len(json.dumps(row)) < 400 for row in batch.to_pylist()]

    report = fastpack.ray.pack_dir(
        chats,
        tmp_path / "out",
        tokenizer=tokenizer_dir,
        filter=fastpack.Function(short, fingerprint="short"),
        **OPTIONS,
    )
    assert report.dropped["filtered"].documents > 0


@pytest.mark.parametrize("name", ["rank", "cache_dir", "colour"])
def test_options_that_ray_decides_are_refused(name, chats, tokenizer_dir, tmp_path):
    with pytest.raises(fastpack.OptionError, match=f"`{name}`"):
        fastpack.ray.pack_dir(chats, tmp_path, tokenizer=tokenizer_dir, **{name: 1}, **OPTIONS)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("num_cpus", value) for value in ["two", -1, 0, 1.5, None]),
        *(("max_retries", value) for value in ["two", -5, 1.5, None]),
        *(("remote_args", value) for value in [7, [1], {"no such": 1}, {1: 2}, {"num_cpus": 3}]),
        *(("groups", value) for value in ["two", -1, None, 0, [1]]),
    ],
)
def test_an_argument_that_ray_does_not_take_is_refused_by_its_name(
    name, value, chats, tokenizer_dir, tmp_path
):
    with pytest.raises(fastpack.OptionError, match=rf"`{name}(\.size)?`"):
        fastpack.ray.pack_dir(chats, tmp_path / "out", tokenizer=tokenizer_dir, **OPTIONS | {name: value})
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("num_cpus", value) for value in ["two", -1, 0, 1.5, None]),
        *(("batch_size", value) for value in ["two", 0, None]),
        *(("concurrency", value) for value in ["two", 0, (2, 1), (1, 2, 3), (1,), None]),
        *(("remote_args", value) for value in [7, [1], {"no such": 1}, {"num_cpus": 3}]),
        ("dataset", [{"text": "a river"}]),
    ],
)
def test_an_argument_that_ray_does_not_take_for_a_data_set_is_refused_by_its_name(name, value, tokenizer_dir):
    given = {"dataset": ray.data.from_items([{"text": "a river"}]), "tokenizer": tokenizer_dir, name: value}
    with pytest.raises(fastpack.OptionError, match=f"`{name}`"):
        fastpack.ray.pack_dataset(**given, max_length=64)


def test_a_data_set_of_records_becomes_one_of_rows(chats, tokenizer_dir):
    records = ray.data.read_json([str(path) for path in sorted(chats.iterdir())])
    options = {"max_length": 256, "columns": ["input_ids", "seq_lengths"]}
    rows = fastpack.ray.pack_dataset(records, tokenizer_dir, batch_size=100, concurrency=1, **options)
    found = rows.take_all()
    expected = fastpack.pack_files(chats, tokenizer_dir, **options)
    report = fastpack.Report.of(expected)
    assert sum(len(row["input_ids"]) for row in found) == report.tokens.kept
    assert sum(len(row["seq_lengths"]) for row in found) == report.documents.kept

    # The same documents, whatever row they are in.
    def documents(packed):
        for row in packed:
            start = 0
            for length in row["seq_lengths"]:
                yield tuple(int(token) for token in row["input_ids"][start : start + length])
                start += length

    assert sorted(documents(found)) == sorted(documents(expected.to_pylist()))
    with pytest.raises(fastpack.OptionError, match="`output`"):
        fastpack.ray.pack_dataset(records, tokenizer_dir, output="packed", **options)


@pytest.mark.parametrize("validation", [None, 30])
def test_a_killed_node_costs_its_groups_alone(validation, chats, tokenizer_dir, alone, tmp_path):
    ray.shutdown()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(3)]
    try:
        ray.init(address=cluster.address, log_to_driver=False)
        out, seen = tmp_path / "out", []

        def slow(batch):
            time.sleep(0.2)
            return [True] * batch.num_rows

        def kill(reading):
            seen.append(reading)
            if len(seen) == 1:
                cluster.remove_node(nodes[1], allow_graceful=False)

        options = {**OPTIONS, "validation": validation, "filter": fastpack.Function(slow, fingerprint="slow")}
        fastpack.ray.pack_dir(chats, out, tokenizer=tokenizer_dir, progress=kill, **options)
        assert len(seen) > 3
        until = time.monotonic() + 60
        while sum(node["Alive"] for node in ray.nodes()) > 3 and time.monotonic() < until:
            time.sleep(0.5)  # until the head has noticed
        assert sum(node["Alive"] for node in ray.nodes()) == 3  # the head, and two of three
        assert shards(out) == shards(alone[validation])
        report, expected = timeless(out), timeless(alone[validation])
        for name in ("documents", "tokens", "rows", "trained_tokens", "lengths", "splits"):
            assert report.get(name) == expected.get(name), name
        assert not (out / ".fastpack").exists()
    finally:
        ray.shutdown()
        cluster.shutdown()
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


def test_inputs_on_a_filesystem_of_fsspec_are_read_by_all_tasks(chats, tokenizer_dir, alone, tmp_path):
    files = fsspec.filesystem("dir", path=str(chats), fs=fsspec.filesystem("file"))
    out, here = tmp_path / "out", tmp_path / "here"
    given = {"tokenizer": tokenizer_dir, "storage": fastpack.Storage(filesystem=files), **OPTIONS}
    report = fastpack.ray.pack_dir("*.jsonl", out, **given)
    fastpack.pack_dir("*.jsonl", here, **given)
    assert shards(out) == shards(here)
    assert timeless(out) == timeless(here)
    assert report.documents == fastpack.Report.of(alone[None]).documents


def test_a_filesystem_that_cannot_be_sent_to_tasks_is_refused(chats, tokenizer_dir, tmp_path):
    files = fsspec.filesystem("dir", path=str(chats), fs=fsspec.filesystem("file", skip_instance_cache=True))
    files.open_files = threading.Lock()
    # The filesystem is made again from its arguments, and so without its content: only that is refused.
    assert fastpack.ray.pack_dir(
        "*.jsonl",
        tmp_path / "out",
        tokenizer=tokenizer_dir,
        storage=fastpack.Storage(filesystem=files),
        **OPTIONS,
    )
    unsent = fsspec.filesystem("dir", path=str(chats), fs=Unsent())
    with pytest.raises(fastpack.OptionError, match=r"`storage\.filesystem`: cannot be sent to the tasks"):
        fastpack.ray.pack_dir(
            "*.jsonl",
            tmp_path / "no",
            tokenizer=tokenizer_dir,
            storage=fastpack.Storage(filesystem=unsent),
            **OPTIONS,
        )
    assert not (tmp_path / "no").exists()


def test_what_a_function_raises_in_a_task_is_raised_as_it_is_and_at_once(tokenizer_dir, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "the river"}\n', encoding="utf-8")
    calls = tmp_path / "calls"
    calls.mkdir()

    def lost(_batch, folder=str(calls)):
        descriptor, _ = tempfile.mkstemp(dir=folder)
        os.close(descriptor)
        message = "it is the caller's"
        raise ConnectionResetError(message)

    given = {"tokenizer": tokenizer_dir, "filter": fastpack.Function(lost, fingerprint="lost"), **OPTIONS}
    with pytest.raises(ConnectionResetError) as caught:
        fastpack.ray.pack_dir(tmp_path / "a.jsonl", tmp_path / "out", **given)
    assert (type(caught.value), caught.value.args) == (ConnectionResetError, ("it is the caller's",))
    assert len(list(calls.iterdir())) == 1


#: A filesystem that loses its connection at each read in a task, as a module that tasks can import.
BROKEN = """
import os, tempfile
from fsspec.implementations.local import LocalFileSystem

class Broken(LocalFileSystem):
    cachable = False

    def __init__(self, home, calls):
        super().__init__()
        self.home, self.calls = home, calls

    def cat_file(self, path, start=None, end=None, **options):
        if os.getpid() == self.home:
            return super().cat_file(path, start=start, end=end, **options)
        descriptor, _ = tempfile.mkstemp(dir=self.calls)
        os.close(descriptor)
        raise ConnectionResetError("it is the caller's")
"""


def test_a_task_is_started_again_for_its_filesystem_and_its_exception_passes(
    tokenizer_dir, tmp_path, monkeypatch
):
    (tmp_path / "a.jsonl").write_text('{"text": "the river"}\n', encoding="utf-8")
    calls, modules = tmp_path / "calls", tmp_path / "modules"
    calls.mkdir()
    modules.mkdir()
    (modules / "broken_filesystem.py").write_text(BROKEN, encoding="utf-8")
    monkeypatch.syspath_prepend(str(modules))
    path = os.pathsep.join([str(modules), *filter(None, [os.environ.get("PYTHONPATH")])])
    filesystem = importlib.import_module("broken_filesystem").Broken(os.getpid(), str(calls))
    with pytest.raises(ConnectionResetError) as caught:
        fastpack.ray.pack_dir(
            str(tmp_path / "a.jsonl"),
            tmp_path / "out",
            tokenizer=tokenizer_dir,
            storage=fastpack.Storage(filesystem=filesystem),
            max_retries=1,
            remote_args={"runtime_env": {"env_vars": {"PYTHONPATH": path}}},
            **OPTIONS,
        )
    assert (type(caught.value), caught.value.args) == (ConnectionResetError, ("it is the caller's",))
    assert len(list(calls.iterdir())) >= 2


def test_a_filesystem_that_tasks_see_without_files_is_an_error_with_their_name(tokenizer_dir, tmp_path):
    files = fsspec.filesystem("memory")
    files.pipe_file("/chats/a.jsonl", b'{"text": "the river"}\n')
    with pytest.raises(fastpack.FastpackError, match=r"memory://chats/a\.jsonl|/chats"):
        fastpack.ray.pack_dir(
            "/chats/*.jsonl",
            tmp_path / "out",
            tokenizer=tokenizer_dir,
            storage=fastpack.Storage(filesystem=files),
            max_retries=0,
            **OPTIONS,
        )
