"""Only files that are proved to be fastpack's own are removed or replaced.

Files and objects of somebody else are planted under every name that could come up: the names that a job writes, those that it has
written, those of its work folders and caches. Whatever the call then says, what was planted is as it was.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys

import pytest
from campaign import tries
from cloud_stores import cloud as opened
from conftest import conversation, listing
from containers import lines
from sealing import sealed
from web_server import serving

import fastpack

FOREIGN = b"of somebody else"
OPTIONS = {"max_length": 256, "format": fastpack.Format(shard_size=3000)}
RECORDS = [conversation(number) for number in range(40)]
FEWER = RECORDS[:25]

# Names that may appear, besides the files of a finished job.
NAMES = [
    "train-00000.arrow",
    "train-00001.arrow",
    "train-00009.arrow",
    "train-00017.arrow",
    "validation-00000.arrow",
    "manifest.json",
    "report.json",
    "tokens.fastpack",
    "notes.txt",
    ".train-00000.arrow.new",
]
# In a work folder other files than those of the job make it refuse the folder.
IN_WORK = [
    ".fastpack/notes.txt",
    ".fastpack/train-00017.arrow",
    ".fastpack/validation-00017.arrow",
    ".fastpack/groups/notes.txt",
    ".fastpack/groups/00000-rows/notes.txt",
    ".fastpack/groups/00000-rows/train-00017.arrow",
    ".fastpack/groups/00000-rows/.fastpack/train-00017.arrow",
    ".fastpack/uploads/notes.txt",
    ".fastpack/uploads/job-run/train-00000.arrow",
    ".fastpack/state/notes.txt",
]


def attempt(call, *arguments, **options):
    """Makes a call that fastpack may refuse, but only for the files that lie there."""
    try:
        call(*arguments, **options)
    except fastpack.OptionError:
        raise
    except fastpack.FastpackError:
        pass


def planted(chances, names, at_most=5):
    """Some names, each with a content of somebody else's."""
    chosen = chances.sample(sorted(names), min(len(names), chances.randint(1, at_most)))
    return {name: FOREIGN + f" {chances.randrange(10**6)}".encode() for name in chosen}


def plant(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_bytes(content)


def stay(folder, files):
    return {
        name: (folder / name).read_bytes() if (folder / name).exists() else None for name in files
    } == files


def job(chances):
    """The options and records of one of a few jobs."""
    records = chances.choice([RECORDS, FEWER])
    options = chances.choice([{}, {"seed": 1}, {"keep_tokens": True}, {"validation": 0.2}])
    return records, {**OPTIONS, **options}


@pytest.fixture(params=["gs", "az"])
def cloud(request):
    with opened(request.param) as store:
        yield store


@pytest.fixture
def pack(tokenizer_dir, tmp_path):
    """Packs records into a folder or a bucket."""
    inputs = tmp_path / "inputs"
    inputs.mkdir()

    def packs(records, output, store=None, **options):
        path = inputs / f"{len(records)}.jsonl"
        if not path.exists():
            path.write_bytes(lines(records))
        remote = {} if store is None else {"storage": fastpack.Storage(store, work_dir=tmp_path / "work")}
        return fastpack.pack_dir(path, output, tokenizer=tokenizer_dir, **remote, **{**OPTIONS, **options})

    return packs


@pytest.mark.parametrize("seed", range(tries(6, 300)))
def test_what_comes_to_lie_in_a_bucket_meanwhile_is_not_replaced(seed, cloud, pack):
    chances = random.Random(seed)
    records, options = job(chances)
    foreign = {}
    share = chances.choice([0.1, 0.4])

    def before(method, bucket, key):
        """Somebody else writes an object just before this request writes it."""
        is_final = key.startswith("packed/") and ".fastpack/" not in key
        if method in {"PUT", "POST"} and is_final and key not in foreign and chances.random() < share:
            foreign[key] = FOREIGN
            cloud.server.put(bucket, key, FOREIGN)

    if chances.random() < 0.5:
        pack(FEWER, cloud.url("packed"), cloud.options)
    cloud.server.before = before
    attempt(pack, records, cloud.url("packed"), cloud.options, **options, exists="overwrite")
    cloud.server.before = None
    attempt(pack, records, cloud.url("packed"), cloud.options, **options, exists="overwrite")
    assert {key: cloud.listing().get(key) for key in foreign} == foreign


def test_the_output_of_another_version_in_a_bucket_is_refused_by_its_version(cloud, pack):
    pack(RECORDS, cloud.url("packed"), cloud.options)
    manifest = json.loads(cloud.listing()["packed/manifest.json"])
    del manifest["blake3"]
    cloud.server.put("bucket", "packed/manifest.json", sealed({**manifest, "version": 4}))
    before = cloud.listing()
    for exists in ("error", "overwrite"):
        with pytest.raises(fastpack.OutputError, match=r"another version.*has the version 4, and this one"):
            pack(RECORDS, cloud.url("packed"), cloud.options, exists=exists)
    assert cloud.listing() == before


@pytest.mark.parametrize("seed", range(tries(6, 300)))
def test_what_was_changed_in_a_bucket_is_neither_removed_nor_replaced(seed, cloud, pack):
    chances = random.Random(seed)
    if chances.random() < 0.5:
        pack(RECORDS, cloud.url("packed"), cloud.options)
    else:
        cloud.server.failing = (
            rf"^PUT /bucket/packed/\S*{chances.choice(['train-00001', 'manifest', 'report'])}"
        )
        attempt(pack, RECORDS, cloud.url("packed"), cloud.options)
        cloud.server.failing = None
    names = {key.removeprefix("packed/") for key in cloud.listing()} - {".fastpack/lock"}
    ours = {name for name in names if name.startswith(".fastpack/")}
    foreign = planted(chances, (names | {*NAMES, *IN_WORK}) - ours)
    for name, content in foreign.items():
        cloud.server.put("bucket", f"packed/{name}", content)
    records, options = job(chances)
    attempt(
        pack,
        records,
        cloud.url("packed"),
        cloud.options,
        **options,
        exists="overwrite" if chances.random() < 0.7 else "error",
    )
    found = cloud.listing()
    assert {name: found.get(f"packed/{name}") for name in foreign} == foreign


@pytest.mark.parametrize("seed", range(tries(2, 60)))
def test_what_was_changed_on_s3_is_neither_removed_nor_replaced(seed, store, client, bucket, pack):
    chances = random.Random(seed)
    pack(RECORDS, f"s3://{bucket}/packed", store)
    names = {name.removeprefix("packed/") for name in listing(client, bucket)}
    foreign = planted(chances, names | {*NAMES, *IN_WORK})
    for name, content in foreign.items():
        client.put_object(Bucket=bucket, Key=f"packed/{name}", Body=content)
    records, options = job(chances)
    attempt(
        pack,
        records,
        f"s3://{bucket}/packed",
        store,
        **options,
        exists="overwrite" if chances.random() < 0.7 else "error",
    )
    found = listing(client, bucket)
    assert {name: found.get(f"packed/{name}") for name in foreign} == foreign


@pytest.mark.parametrize("ends", ["same job", "other job", "groups"])
@pytest.mark.parametrize("seed", range(tries(1, 20)))
def test_uploads_in_parts_that_a_killed_run_has_left_are_ended(seed, ends, store, client, bucket, pack):
    chances = random.Random(seed)
    job, run = f"{chances.randrange(16**64):064x}", f"{chances.randrange(16**16):016x}"
    ours = [f"packed/.fastpack/uploads/{job}-{run}/train-{number:05}.arrow" for number in range(3)]
    if ends == "groups":
        ours.append(f"packed/.fastpack/groups/{job}/00001-rows/train-00000.arrow")
    theirs = [
        "packed/train-00000.arrow",
        "packed/.fastpack/uploads/notes/train-00000.arrow",
        f"packed/.fastpack/uploads/{job}/train-00000.arrow",
        f"packed/.fastpack/groups/{job}/notes.txt",
        f"other/.fastpack/uploads/{job}-{run}/train-00000.arrow",
        f"packed-too/.fastpack/uploads/{job}-{run}/train-00000.arrow",
    ]
    for key in chances.sample(ours + theirs, len(ours + theirs)):
        upload = client.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
        client.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=1, Body=FOREIGN)
    options = {"groups": 2000} if ends == "groups" else {}
    if ends == "other job":
        attempt(pack, [*RECORDS, {"messages": 7}], f"s3://{bucket}/packed", store)
    pack(RECORDS, f"s3://{bucket}/packed", store, **options)
    left = client.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
    assert sorted(upload["Key"] for upload in left) == sorted(theirs)


@contextlib.contextmanager
def small_files(most):
    """A disk on which no file has more than `most` bytes. A run that finds no room for more leaves its work for the next."""
    import resource

    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


# 76, 97 and 199 moved files of somebody else away with the folder of groups, 206 removed one with the name of a shard.
SEEDS = sorted({*range(tries(10, 250)), 76, 97, 199, 206})


@pytest.mark.skipif(os.name != "posix", reason="sizes of files are limited on POSIX alone")
@pytest.mark.parametrize("begun", ["finished", "stopped", "nothing", "no room"])
@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_changed_in_a_folder_is_neither_removed_nor_replaced(seed, begun, pack, tmp_path):
    chances = random.Random(seed)
    packed = tmp_path / "packed"
    grouped = {"groups": 2000} if chances.random() < 0.4 else {}
    if begun == "finished":
        pack(RECORDS, packed, **grouped)
    elif begun == "stopped":
        attempt(pack, [*RECORDS, {"messages": 7}], packed, **grouped)
    elif begun == "no room":
        pack(RECORDS, tmp_path / "whole")
        grouped["format"] = fastpack.Format(shard_size=chances.choice([3000, 12_000, 1_000_000]))
        with small_files(chances.choice([3000, 20_000, 40_000])):
            attempt(pack, RECORDS, packed, **grouped)
    names = (
        {str(path.relative_to(packed)) for path in packed.rglob("*") if path.is_file()}
        if packed.exists()
        else set()
    )
    ours = {name for name in names if name.startswith(".fastpack/")}
    foreign = planted(chances, (names | {*NAMES, *IN_WORK}) - ours)
    plant(packed, foreign)
    for _ in range(2):
        records, options = job(chances)
        attempt(
            pack,
            records,
            packed,
            **{**options, **grouped},
            exists="overwrite" if chances.random() < 0.7 else "error",
        )
    assert stay(packed, foreign)


@pytest.mark.parametrize("seed", range(tries(4, 200)))
def test_the_block_cache_removes_only_its_own_entries(seed, tmp_path, tokenizer_dir):
    chances = random.Random(seed)
    served, cache = tmp_path / "served", tmp_path / "cache"
    served.mkdir()
    (served / "a.jsonl").write_bytes(lines(RECORDS * 20))

    def read(bound):
        with serving(served) as server:
            given = {"storage": fastpack.Storage(block_cache=bound), "cache_dir": cache}
            attempt(fastpack.pack_files, f"{server.url}/a.jsonl", tokenizer_dir, max_length=256, **given)

    if chances.random() < 0.7:
        read("1MB")
    entries = {str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file()}
    own = {name for name in entries if len(name.split("/")[-1]) > 40}
    hashes = {f"blocks/{chances.randrange(256):02x}/{chances.randrange(16**62):062x}" for _ in range(3)}
    foreign = planted(chances, own | hashes | {"blocks/notes.txt", "blocks/ab/notes.txt", "blocks/ab/x.new"})
    plant(cache, foreign)
    for name in foreign:
        os.utime(cache / name, (0, 0))
    for bound in (1, 3000, "1MB"):
        read(bound)
    assert stay(cache, foreign)


@pytest.mark.parametrize("seed", range(tries(4, 200)))
def test_a_cache_of_tokens_removes_only_its_own_files(seed, tmp_path, tokenizer_dir):
    chances = random.Random(seed)
    cache = tmp_path / "cache"
    (tmp_path / "a.jsonl").write_bytes(lines(RECORDS))

    def pack():
        attempt(fastpack.pack_files, tmp_path / "a.jsonl", tokenizer_dir, max_length=256, cache_dir=cache)

    pack()
    names = {str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file()}
    entries = {name.split("/")[0] for name in names}
    foreign = planted(
        chances, names | {f"{it}/notes.txt" for it in entries} | {"notes.txt", "0" * 32 + "/report.json"}
    )
    plant(cache, foreign)
    pack()
    pack()
    assert stay(cache, foreign)


def test_single_files_replace_only_what_fastpack_wrote(tmp_path, pack, tokenizer_dir):
    packed = tmp_path / "packed"
    report = pack(RECORDS, packed)
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables/a.jsonl").write_bytes(lines(RECORDS))
    names = [
        "r.html",
        ".r.html.part",
        "x.bin",
        ".x.bin.part",
        ".x.idx.part",
        "packed/README.md",
        "again/.a.jsonl.zst.new",
        "again/a.jsonl.zst",
    ]
    for name in names:
        foreign = {name: FOREIGN}
        plant(tmp_path, foreign)
        attempt(report.to_html, tmp_path / "r.html")
        attempt(fastpack.export, packed, tmp_path / "x", format="megatron")
        attempt(fastpack.reindex, tmp_path / "tables/a.jsonl", tmp_path / "again")
        with contextlib.suppress(fastpack.FastpackError):
            from fastpack.dataset.card import write_card

            write_card(packed)
        assert stay(tmp_path, foreign), name
        (tmp_path / name).unlink()
        for made in ("r.html", "x.bin", "x.idx"):
            (tmp_path / made).unlink(missing_ok=True)
        shutil.rmtree(tmp_path / "again", ignore_errors=True)


def test_a_store_that_copies_over_objects_is_refused(cloud, pack):
    cloud.server.careless = True
    with pytest.raises(fastpack.OutputError, match="conditional copy"):
        pack(RECORDS, cloud.url("packed"), cloud.options)
    assert cloud.listing() == {}


def test_a_run_that_was_killed_at_the_very_end_leaves_nothing_on_the_local_disk(cloud, pack, tmp_path):
    work, kept = tmp_path / "work", tmp_path / "kept"

    def before(method, bucket, key):
        if method == "PUT" and key == "packed/manifest.json":
            shutil.copytree(work, kept)

    cloud.server.before = before
    pack(RECORDS, cloud.url("packed"), cloud.options)
    cloud.server.before = None
    shutil.rmtree(work)
    shutil.copytree(kept, work)
    assert list(work.rglob("*.arrow"))
    pack(RECORDS, cloud.url("packed"), cloud.options)
    assert not list(work.rglob("*.arrow"))


def test_a_large_file_is_copied_to_its_name_and_its_upload_removed(cloud, pack, monkeypatch):
    pack(RECORDS * 400, cloud.url("packed"), cloud.options, format=fastpack.Format(shard_size=10_000_000))
    found = cloud.listing()
    assert max(map(len, found.values())) > 8 << 20
    assert not [key for key in found if ".fastpack" in key]


@pytest.mark.skipif(os.name != "posix", reason="sizes of files are limited on POSIX alone")
def test_a_page_that_finds_no_room_leaves_nothing(tmp_path, pack):
    pack(RECORDS, tmp_path / "packed")
    script = (
        "import resource, signal, sys, fastpack\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "report = fastpack.Report.of(sys.argv[1])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "try:\n"
        "    report.to_html(sys.argv[2])\n"
        "except fastpack.StorageError:\n"
        "    sys.exit(7)\n"
    )
    pages = tmp_path / "pages"
    pages.mkdir()
    call = [sys.executable, "-c", script, str(tmp_path / "packed"), str(pages / "r.html")]
    assert subprocess.run(call, check=False).returncode == 7
    assert list(pages.iterdir()) == []
