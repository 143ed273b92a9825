"""Google Cloud Storage and Azure Blob Storage, as local servers, give and take the same as folders."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
import time

import pytest
from cloud_stores import ACCOUNT_KEY, CloudHandler
from cloud_stores import cloud as opened
from conftest import conversation, sentence
from containers import CONTAINERS, lines
from nested import flat

import fastpack

CONVERSATIONS = [conversation(number) for number in range(60)]

# Several megabytes of lines: more than comes with one request.
LARGE = lines([{"text": f"{number} {sentence(number % 100, 200)}"} for number in range(5000)])


@pytest.fixture(params=["gs", "az"])
def cloud(request):
    with opened(request.param) as store:
        yield store


@pytest.fixture
def tree(tmp_path, cloud):
    """Files in folders, here and in the bucket."""
    folder = tmp_path / "tree"
    names = ["a/0.jsonl", "a/1.jsonl", "a/b/2.jsonl", "a/b/c/3 & <4>.jsonl", "a/.hidden.jsonl", "a/README.md"]
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(lines([{"text": sentence(number * 100 + at, 20)} for at in range(50)]))
    cloud.put(folder)
    return folder


def rows(files, tokenizer, **options):
    options = {"max_length": 512, "max_lost": "100%", **options}
    return flat.pack_files(files, tokenizer, **options).to_pydict()


def pack_dir(files, output, tokenizer, cloud, work, **options):
    options = {"max_length": 512, "storage_options": cloud.options, "work_dir": work, **options}
    return flat.pack_dir(files, output, tokenizer=tokenizer, **options)


TIMED = {"manifest.json", "report.json"}


def assert_same_output(found, folder):
    """True if a bucket holds the files of a folder. Manifests and reports tell times."""
    expected = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    assert {name.removeprefix("packed/") for name in found} == expected.keys()
    for name in expected.keys() - TIMED:
        assert found[f"packed/{name}"] == expected[name].read_bytes()


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_container_gives_the_same_rows(container, cloud, tmp_path, tokenizer_dir):
    (tmp_path / f"data.{container}").write_bytes(CONTAINERS[container](CONVERSATIONS))
    cloud.put(tmp_path)
    expected = rows(tmp_path / f"data.{container}", tokenizer_dir)
    assert rows(cloud.url(f"data.{container}"), tokenizer_dir, storage_options=cloud.options) == expected


@pytest.mark.parametrize(
    ("pattern", "options"),
    [
        ("a", {}),
        ("a", {"recursive": True}),
        ("a/*.jsonl", {}),
        ("a/**/*.jsonl", {}),
        ("a/{0,1}.jsonl", {}),
        ("a/*/*.jsonl", {}),
    ],
)
def test_folders_and_globs_find_the_files_that_they_find_locally(
    pattern, options, cloud, tree, tokenizer_dir
):
    more = {"max_length": 512, "columns": ["input_ids", "source_row"], **options}
    local = flat.pack_files(f"{tree}/{pattern}", tokenizer_dir, **more)
    remote = flat.pack_files(cloud.url(pattern), tokenizer_dir, storage_options=cloud.options, **more)
    assert remote.to_pydict() == local.to_pydict()
    names = [
        [str(name).rpartition("/a/")[2] for found in fastpack.Report.of(table).inputs for name in found.names]
        for table in (local, remote)
    ]
    assert names[0] == names[1]


def test_a_large_file_is_read_by_ranges_and_named_by_its_url(cloud, tmp_path, tokenizer_dir):
    (tmp_path / "large.jsonl").write_bytes(LARGE)
    cloud.put(tmp_path)
    more = {"storage_options": cloud.options, "max_length": 512}
    found = flat.pack_files(cloud.url("large.jsonl"), tokenizer_dir, **more)
    expected = flat.pack_files(tmp_path / "large.jsonl", tokenizer_dir, max_length=512)
    assert found == expected
    assert [str(name) for name in fastpack.Report.of(found).inputs[0].names] == [cloud.url("large.jsonl")]
    assert len(cloud.server.requests) > 4


def test_an_object_that_changes_ends_the_run_by_its_name(cloud, tokenizer_dir):
    cloud.server.put("bucket", "large.jsonl", LARGE)
    options = {"max_length": 512, "shuffle": False, "lanes": 1, "storage_options": cloud.options}
    tables = iter(flat.stream(cloud.url("large.jsonl"), tokenizer_dir, **options))
    next(tables)
    cloud.server.put("bucket", "large.jsonl", LARGE[::-1])
    with pytest.raises(fastpack.StorageError, match=r"changed while it was read.*large\.jsonl"):
        list(tables)


def test_a_stream_resumes(cloud, tree, tokenizer_dir):
    options = {"max_length": 128, "lanes": 3, "batch_size": 4, "storage_options": cloud.options}
    tables = list(flat.stream(cloud.url("a"), tokenizer_dir, **options))
    again = flat.stream(cloud.url("a"), tokenizer_dir, **options)
    again.load_state_dict(fastpack.state_of(tables[2]))
    rest = [row for table in again for row in table.to_pylist()]
    assert rest == [row for table in tables[3:] for row in table.to_pylist()]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"format": "parquet"},
        {"hf_layout": True},
        {"validation": 5, "shard_size": 3000},
        {"keep_tokens": True},
        {"group_size": "10KB", "recursive": True},
        # Each text comes several times, and equal ones stay together.
        {"group_size": "10KB", "recursive": True, "validation": 60, "keep_tokens": True},
    ],
    ids=str,
)
def test_a_job_writes_what_it_writes_into_a_folder(options, cloud, tree, tokenizer_dir, work, tmp_path):
    report = pack_dir(tree / "a", cloud.url("packed"), tokenizer_dir, cloud, work, **options)
    local = flat.pack_dir(tree / "a", tmp_path / "packed", tokenizer=tokenizer_dir, max_length=512, **options)
    assert report.rows == local.rows
    found = cloud.listing()
    assert_same_output(found, tmp_path / "packed")
    assert pack_dir(tree / "a", cloud.url("packed"), tokenizer_dir, cloud, work, **options) == report
    assert cloud.listing() == found


def test_another_job_is_refused_and_overwrites_when_told_to(cloud, tree, tokenizer_dir, work, tmp_path):
    pack_dir(tree / "a", cloud.url("packed"), tokenizer_dir, cloud, work, shard_size=3000)
    before = cloud.listing()
    given = {"max_length": 256}
    with pytest.raises(fastpack.OutputError, match=r"another job.*max_length"):
        pack_dir(tree / "a", cloud.url("packed"), tokenizer_dir, cloud, work, **given)
    assert cloud.listing() == before
    pack_dir(tree / "a", cloud.url("packed"), tokenizer_dir, cloud, work, overwrite=True, **given)
    flat.pack_dir(tree / "a", tmp_path / "packed", tokenizer=tokenizer_dir, **given)
    assert_same_output(cloud.listing(), tmp_path / "packed")


def test_a_job_reads_and_writes_in_the_store(cloud, tree, tokenizer_dir, work, tmp_path):
    pack_dir(cloud.url("a/*.jsonl"), cloud.url("packed"), tokenizer_dir, cloud, work)
    flat.pack_dir(f"{tree}/a/*.jsonl", tmp_path / "packed", tokenizer=tokenizer_dir, max_length=512)
    assert_same_output(cloud.listing(), tmp_path / "packed")
    packed = fastpack.verify(tmp_path / "packed")
    assert packed


@pytest.fixture
def large(tmp_path):
    chances = random.Random(1)
    records = [{"input_ids": [chances.randrange(300) for _ in range(2000)]} for _ in range(1500)]
    (tmp_path / "ids.jsonl").write_bytes(lines(records))
    return tmp_path / "ids.jsonl"


def test_a_large_shard_goes_up_in_parts(cloud, large, tokenizer_dir, work, tmp_path):
    pack_dir(large, cloud.url("packed"), tokenizer_dir, cloud, work, max_length=2048)
    flat.pack_dir(large, tmp_path / "packed", tokenizer=tokenizer_dir, max_length=2048)
    assert (tmp_path / "packed/train-00000.arrow").stat().st_size > 20_000_000
    assert_same_output(cloud.listing(), tmp_path / "packed")
    sent = [
        request for request in cloud.server.requests if "partNumber=" in request or "comp=block&" in request
    ]
    assert len(sent) >= 3


def test_an_upload_that_fails_halfway_leaves_no_object(cloud, large, tokenizer_dir, work, tmp_path):
    cloud.server.failing = "partNumber=2|comp=blocklist"
    with pytest.raises(OSError, match="train-00000"):
        pack_dir(large, cloud.url("packed"), tokenizer_dir, cloud, work, max_length=2048)
    assert cloud.listing().keys() <= {"packed/.fastpack/lock", "packed/.fastpack/manifest.json"}
    if cloud.scheme == "gs":
        assert not cloud.server.uploads
    cloud.server.failing = None
    pack_dir(large, cloud.url("packed"), tokenizer_dir, cloud, work, max_length=2048)
    flat.pack_dir(large, tmp_path / "packed", tokenizer=tokenizer_dir, max_length=2048)
    assert_same_output(cloud.listing(), tmp_path / "packed")


@pytest.mark.parametrize("options", [{"shard_size": 3000}, {"group_size": "4KB"}], ids=str)
def test_a_job_that_was_killed_goes_on(options, cloud, tree, tokenizer_dir, work, tmp_path):
    script = (
        "import json, sys, fastpack\n"
        "store, files, output, tokenizer, work, options = json.loads(sys.argv[1])\n"
        "print('ready', flush=True)\n"
        "fastpack.pack_dir(files, output, tokenizer=tokenizer, storage=fastpack.Storage(store, work_dir=work), max_length=512,\n"
        "    **options)\n"
    )
    cloud.server.delay = 0.01
    given = [cloud.options, f"{tree}/a", cloud.url("packed"), str(tokenizer_dir), str(work), options]
    for wait in (0.05, 0.15, 0.3, 0.6):
        process = subprocess.Popen([sys.executable, "-c", script, json.dumps(given)], stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"ready\n"
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        found = cloud.listing()
        if "packed/manifest.json" in found:
            manifest = json.loads(found["packed/manifest.json"])
            assert all(f"packed/{file['name']}" in found for file in manifest["files"])
    # A request of a killed process may come behind all others; the next run removes its object.
    for _ in range(2):
        pack_dir(tree / "a", cloud.url("packed"), tokenizer_dir, cloud, work, **options)
    flat.pack_dir(tree / "a", tmp_path / "packed", tokenizer=tokenizer_dir, max_length=512, **options)
    assert_same_output(cloud.listing(), tmp_path / "packed")


def test_a_second_writer_is_refused_while_the_lock_is_renewed(cloud, tree, tokenizer_dir, work):
    stop = threading.Event()

    def renew():
        number = 0
        while not stop.wait(0.2):
            number += 1
            cloud.server.put("bucket", "packed/.fastpack/lock", f"another\n{number}\n".encode())

    cloud.server.put("bucket", "packed/.fastpack/lock", b"another\n0\n")
    thread = threading.Thread(target=renew)
    thread.start()
    try:
        with pytest.raises(fastpack.OutputError, match="another process"):
            pack_dir(tree / "a", cloud.url("packed"), tokenizer_dir, cloud, work, wait=False)
    finally:
        stop.set()
        thread.join()
    assert cloud.listing().keys() == {"packed/.fastpack/lock"}


def test_wrong_credentials_are_refused_without_being_told(cloud, tree, tokenizer_dir):
    cloud.server.failing = "."
    with pytest.raises(fastpack.AccessError, match="refuses these credentials") as refused:
        rows(cloud.url("a/0.jsonl"), tokenizer_dir, storage_options=cloud.options)
    assert ACCOUNT_KEY not in str(refused.value)


def test_another_key_of_the_account_is_refused(tokenizer_dir):
    with opened("az") as store:
        options = {**store.options, "azure_storage_account_key": "b3RoZXI="}
        with pytest.raises(fastpack.AccessError, match="refuses these credentials"):
            rows("az://bucket/a.jsonl", tokenizer_dir, storage_options=options)


@pytest.mark.parametrize("name", ["none.jsonl", "none/", "*.none"])
def test_what_is_not_there_is_refused_by_its_name(name, cloud, tokenizer_dir):
    with pytest.raises((fastpack.InputNotFoundError, fastpack.OptionError), match=cloud.url()):
        rows(cloud.url(name), tokenizer_dir, storage_options=cloud.options)


def test_an_output_in_a_bucket_that_is_not_there_is_refused(cloud, tree, tokenizer_dir, work):
    with pytest.raises(fastpack.OutputError, match="make the bucket first"):
        pack_dir(tree / "a", f"{cloud.scheme}://nowhere/packed", tokenizer_dir, cloud, work)


def test_a_list_that_repeats_itself_is_refused(tree, cloud, tokenizer_dir, monkeypatch):
    """A server may answer every token with the first page: its list has no end."""
    page = CloudHandler.page

    def first_page(handler, bucket, token, start_after=""):
        found, _ = page(handler, bucket, "", start_after)
        return found, "more"

    monkeypatch.setattr(CloudHandler, "page", first_page)
    for files in ("a/", "a/*.jsonl"):
        with pytest.raises(fastpack.StorageError, match=r"lists `a/\S+` twice"):
            rows(cloud.url(files), tokenizer_dir, storage_options=cloud.options)
