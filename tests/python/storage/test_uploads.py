"""Finished shards go up while the next are written, and the manifest after all of them."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import time

import pytest
from cloud_stores import cloud as opened
from conftest import sentence
from containers import lines

import fastpack
from fastpack._fastpack import content_hash

TEXTS = [{"text": f"{number} {sentence(number % 100, 200)}"} for number in range(4000)]
OPTIONS = {"max_length": 512, "strategy": "concat", "format": fastpack.Format(shard_size=400_000)}
TIMED = {"manifest.json", "report.json"}

METADATA = {"gs": "x-goog-meta-", "az": "x-ms-meta-"}

# The time that an upload may take until a test fails.
PATIENCE = 60


@pytest.fixture(params=["gs", "az"])
def cloud(request):
    with opened(request.param, delay=0.005) as store:
        yield store


def shards(cloud):
    return {key: content for key, content in cloud.listing().items() if key.endswith(".arrow")}


def wait_for_shards(cloud, count):
    """Waits until some shards are there. The manifest must not be."""
    end = time.monotonic() + PATIENCE
    while len(shards(cloud)) < count:
        assert time.monotonic() < end, f"only {len(shards(cloud))} shards were uploaded while the job worked"
        time.sleep(0.01)
    assert "packed/manifest.json" not in cloud.listing()


def pack(cloud, records, tokenizer, work, **options):
    return fastpack.pack_records(
        records,
        tokenizer,
        output=cloud.url("packed"),
        storage=fastpack.Storage(cloud.options, work_dir=work),
        **{**OPTIONS, **options},
    )


def finished(folder):
    """The shards in a folder that have their size."""
    return [path for path in folder.rglob("train-0*.arrow") if path.stat().st_size > 300_000]


def assert_same_output(cloud, folder):
    found = {key.removeprefix("packed/"): content for key, content in cloud.listing().items()}
    assert found.keys() == {path.name for path in folder.iterdir()}
    for name in found.keys() - TIMED:
        assert found[name] == (folder / name).read_bytes()


def test_finished_shards_are_there_before_the_last_record_is_read(cloud, tokenizer_dir, work, tmp_path):
    def records():
        yield from TEXTS[:3000]
        wait_for_shards(cloud, 2)
        yield from TEXTS[3000:]

    pack(cloud, records(), tokenizer_dir, work)
    fastpack.pack_records(TEXTS, tokenizer_dir, output=tmp_path / "packed", **OPTIONS)
    assert_same_output(cloud, tmp_path / "packed")
    # Each shard goes up once under a name of this run, and is copied once to its own. No request asks for its bytes.
    sent = [request for request in cloud.server.requests if request.startswith("PUT") and ".arrow" in request]
    assert len(sent) == len(set(sent)) == 2 * len(shards(cloud)) > 10
    assert len([request for request in sent if "/.fastpack/uploads/" in request]) == len(shards(cloud))
    fetched = [request for request in cloud.server.requests if request.startswith(("GET", "HEAD"))]
    assert not [request for request in fetched if ".arrow" in request.partition("?")[0]]
    # The record of the names is written once, before the first has its place.
    assert sum("PUT /bucket/packed/.fastpack/manifest.json" in it for it in cloud.server.requests) == 1


def test_a_job_that_fails_takes_its_shards_away(cloud, tokenizer_dir, work):
    def records():
        yield from TEXTS[:3000]
        wait_for_shards(cloud, 1)
        yield {"text": 7}
        yield from TEXTS[3000:]

    with pytest.raises(fastpack.RecordError):
        pack(cloud, records(), tokenizer_dir, work)
    assert cloud.listing() == {}


def test_an_output_that_is_whole_stays_until_the_new_one_is_ready(cloud, tokenizer_dir, work, tmp_path):
    pack(cloud, TEXTS[:500], tokenizer_dir, work)
    before = cloud.listing()

    def records():
        yield from TEXTS
        time.sleep(0.3)
        assert {key: cloud.listing()[key] for key in before} == before

    pack(cloud, records(), tokenizer_dir, work, exists="overwrite")
    fastpack.pack_records(TEXTS, tokenizer_dir, output=tmp_path / "packed", **OPTIONS)
    assert_same_output(cloud, tmp_path / "packed")


def test_an_upload_that_fails_is_tried_again_at_the_end_and_named(cloud, tokenizer_dir, work, tmp_path):
    (tmp_path / "a.jsonl").write_bytes(lines(TEXTS))
    cloud.server.failing = r"^PUT /bucket/packed/train-00001"
    given = {"storage": fastpack.Storage(cloud.options, work_dir=work), "tokenizer": tokenizer_dir, **OPTIONS}
    with pytest.raises(fastpack.AccessError, match=r"train-00001\.arrow"):
        fastpack.pack_dir(tmp_path / "a.jsonl", cloud.url("packed"), **given)
    assert "packed/manifest.json" not in cloud.listing()
    assert "packed/train-00001.arrow" not in cloud.listing()
    cloud.server.failing = None
    fastpack.pack_dir(tmp_path / "a.jsonl", cloud.url("packed"), **given)
    fastpack.pack_dir(tmp_path / "a.jsonl", tmp_path / "packed", tokenizer=tokenizer_dir, **OPTIONS)
    assert_same_output(cloud, tmp_path / "packed")


@pytest.mark.parametrize("at", [0, 1, 3])
@pytest.mark.parametrize("in_bucket", [True, False])
def test_a_shard_that_is_damaged_before_the_job_ends_is_named_and_not_published(
    at, in_bucket, cloud, tokenizer_dir, work, tmp_path
):
    def records():
        yield from TEXTS[:3000]
        folder = work if in_bucket else tmp_path
        # Threads encode and write while the records come.
        end = time.monotonic() + PATIENCE
        while len(found := sorted(finished(folder))) <= at + 1:
            assert time.monotonic() < end, f"only {len(found)} shards were written while the job worked"
            time.sleep(0.01)
        shard = found[at]
        spoilt = bytearray(shard.read_bytes())
        spoilt[len(spoilt) // 2] ^= 1
        shard.write_bytes(spoilt)
        yield from TEXTS[3000:]

    remote = {"output": cloud.url("packed"), "storage": fastpack.Storage(cloud.options, work_dir=work)}
    options = OPTIONS | (remote if in_bucket else {"output": tmp_path / "packed"})
    with pytest.raises(OSError, match=rf"has changed since it was written.*train-0000{at}\.arrow"):
        fastpack.pack_records(records(), tokenizer_dir, **options)
    assert not [
        key for key in cloud.listing() if "manifest" in key or not key.startswith("packed/.fastpack/")
    ]
    assert not (tmp_path / "packed" / "manifest.json").exists()


@pytest.mark.parametrize("spoils", [False, True], ids=["as they are", "spoilt"])
def test_a_job_that_is_killed_while_shards_go_up_goes_on(spoils, cloud, tokenizer_dir, work, tmp_path):
    """Shards that are spoilt in the bucket meanwhile, beside the hash that they had, are uploaded again."""
    (tmp_path / "a.jsonl").write_bytes(lines(TEXTS * 3))
    script = (
        "import pickle, sys, fastpack\n"
        "files, output, options = pickle.loads(bytes.fromhex(sys.argv[1]))\n"
        "fastpack.pack_dir(files, output, **options)\n"
    )
    given = {
        "storage": fastpack.Storage(cloud.options, work_dir=str(work)),
        "tokenizer": str(tokenizer_dir),
        "threads": 1,
        **OPTIONS,
    }
    call = pickle.dumps([str(tmp_path / "a.jsonl"), cloud.url("packed"), given]).hex()
    process = subprocess.Popen([sys.executable, "-c", script, call])
    wait_for_shards(cloud, 2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    there = shards(cloud)
    assert "packed/manifest.json" not in cloud.listing()
    for key, content in there.items() if spoils else ():
        (tmp_path / "good").write_bytes(content)
        told = {f"{METADATA[cloud.scheme]}blake3": content_hash(str(tmp_path / "good"))}
        changed = content[:-1] + bytes([content[-1] ^ 1])
        cloud.server.put("bucket", key, changed, told)
    cloud.server.requests.clear()
    fastpack.pack_dir(tmp_path / "a.jsonl", cloud.url("packed"), **given)
    written = [request for request in cloud.server.requests if request.startswith("PUT")]
    uploads = [request for request in written if "/.fastpack/uploads/" in request]
    again = [name for name in there if any(name.rpartition("/")[2] in request for request in uploads)]
    assert again == (list(there) if spoils else [])
    fastpack.pack_dir(tmp_path / "a.jsonl", tmp_path / "packed", tokenizer=tokenizer_dir, **OPTIONS)
    assert_same_output(cloud, tmp_path / "packed")
