"""Files in buckets give the rows of local files, and jobs write into buckets as into folders."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from campaign import tries
from conftest import KEYS, conversation, listing, sentence
from containers import CONTAINERS, lines
from faulty_proxy import losing
from loopback import LoopbackServer, SilentHandler, running
from nested import flat

import fastpack
from fastpack._fastpack import content_hash

CONVERSATIONS = [conversation(number) for number in range(60)]


def put(client, bucket, folder):
    for path in folder.rglob("*"):
        if path.is_file():
            client.put_object(Bucket=bucket, Key=str(path.relative_to(folder)), Body=path.read_bytes())


def rows(files, tokenizer, **options):
    options = {"max_length": 512, "max_lost": "100%", **options}
    return flat.pack_files(files, tokenizer, **options).to_pydict()


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_container_gives_the_same_rows_from_a_bucket(
    container, tmp_path, tokenizer_dir, store, client, bucket
):
    (tmp_path / f"data.{container}").write_bytes(CONTAINERS[container](CONVERSATIONS))
    put(client, bucket, tmp_path)
    expected = rows(tmp_path / f"data.{container}", tokenizer_dir)
    assert rows(f"s3://{bucket}/data.{container}", tokenizer_dir, storage_options=store) == expected


@pytest.fixture
def tree(tmp_path, client, bucket):
    """Files in folders, here and in the bucket."""
    folder = tmp_path / "tree"
    for number, name in enumerate(
        [
            "a/0.jsonl",
            "a/1.jsonl",
            "a/b/2.jsonl",
            "a/b/c/3.jsonl",
            "a/.hidden.jsonl",
            "a/_SUCCESS",
            "a/README.md",
        ]
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        records = [{"text": sentence(number * 100 + at, 20)} for at in range(50)]
        (folder / name).write_bytes(b"" if name.endswith("SUCCESS") else lines(records))
    put(client, bucket, folder)
    return folder


@pytest.mark.parametrize(
    ("pattern", "options"),
    [
        ("a", {}),
        ("a/", {}),
        ("a", {"recursive": True}),
        ("a/*.jsonl", {}),
        ("a/**/*.jsonl", {}),
        ("a/?.jsonl", {}),
        ("a/[01].jsonl", {}),
        ("a/{0,1}.jsonl", {}),
        ("a/{0..1}.jsonl", {}),
        ("a/*/*.jsonl", {}),
    ],
)
def test_folders_and_globs_find_the_files_that_they_find_locally(
    pattern, options, tree, tokenizer_dir, store, bucket
):
    names = []
    for files, more in ((f"{tree}/{pattern}", {}), (f"s3://{bucket}/{pattern}", {"storage_options": store})):
        packed = flat.pack_files(
            files, tokenizer_dir, max_length=512, columns=["input_ids", "source_file"], **options, **more
        )
        listed = [name for found in fastpack.Report.of(packed).inputs for name in found.names]
        names.append([str(name).rpartition("/a/")[2] for name in listed])
        names.append(packed["input_ids"].to_pylist())
    assert names[0] == names[2]
    assert names[1] == names[3]


@pytest.mark.parametrize("name", ["none.jsonl", "none/", "*.none"])
def test_what_is_not_there_is_refused_by_its_name(name, tokenizer_dir, store, bucket):
    with pytest.raises((fastpack.InputNotFoundError, fastpack.OptionError), match=f"s3://{bucket}/"):
        rows(f"s3://{bucket}/{name}", tokenizer_dir, storage_options=store)


def test_environment_variables_open_a_bucket(tree, tokenizer_dir, store, bucket, monkeypatch):
    for name, value in store.items():
        monkeypatch.setenv(name.upper(), value)
    assert rows(f"s3://{bucket}/a/0.jsonl", tokenizer_dir) == rows(tree / "a/0.jsonl", tokenizer_dir)


def test_an_option_that_no_store_knows_is_refused(tree, tokenizer_dir, store, bucket):
    with pytest.raises(fastpack.OptionError, match="`aws_regoin`"):
        rows(f"s3://{bucket}/a", tokenizer_dir, storage_options={**store, "aws_regoin": "x"})


def test_a_bucket_with_other_keys_tells_none_of_them(tokenizer_dir, store, bucket):
    options = {**store, "aws_endpoint": "http://127.0.0.1:9", "max_retries": "0"}
    with pytest.raises(OSError, match=bucket) as refused:
        rows(f"s3://{bucket}/a.jsonl", tokenizer_dir, storage_options=options)
    assert not any(secret in str(refused.value) for secret in KEYS.values())


def test_an_output_in_a_bucket_is_no_input(tree, tokenizer_dir, store, client, bucket, tmp_path):
    flat.pack_dir(tree / "a/0.jsonl", tmp_path / "packed", tokenizer=tokenizer_dir, max_length=512)
    for path in (tmp_path / "packed").iterdir():
        if path.is_file():
            client.put_object(Bucket=bucket, Key=f"a/packed/{path.name}", Body=path.read_bytes())
    found = flat.pack_files(
        f"s3://{bucket}/a", tokenizer_dir, max_length=512, recursive=True, storage_options=store
    )
    assert sum(files.files for files in fastpack.Report.of(found).inputs) == 4
    assert rows(f"s3://{bucket}/a/packed", tokenizer_dir, storage_options=store)


def pack_dir(files, output, tokenizer, store, work, **options):
    return flat.pack_dir(
        files,
        output,
        tokenizer=tokenizer,
        storage_options=store,
        work_dir=work,
        **{"max_length": 512, **options},
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"format": "parquet"},
        {"hf_layout": True},
        {"validation": 5},
        {"keep_tokens": True, "shard_size": 5000},
    ],
    ids=str,
)
def test_a_job_writes_into_a_bucket_what_it_writes_into_a_folder(
    options, tree, tokenizer_dir, store, client, bucket, work, tmp_path
):
    report = pack_dir(tree / "a/0.jsonl", f"s3://{bucket}/packed", tokenizer_dir, store, work, **options)
    local = flat.pack_dir(
        tree / "a/0.jsonl", tmp_path / "packed", tokenizer=tokenizer_dir, max_length=512, **options
    )
    assert report.rows == local.rows
    found = listing(client, bucket)
    expected = {
        f"packed/{path.relative_to(tmp_path / 'packed')}": path.read_bytes()
        for path in (tmp_path / "packed").rglob("*")
        if path.is_file()
    }
    assert found.keys() == expected.keys()
    timed = {"packed/manifest.json", "packed/report.json"}
    assert {name: found[name] for name in found.keys() - timed} == {
        name: expected[name] for name in expected.keys() - timed
    }
    assert not [path for path in work.rglob("*") if path.is_file() and path.suffix != ".lock"]


def test_a_finished_job_is_known_again_and_another_is_refused(
    tree, tokenizer_dir, store, client, bucket, work
):
    first = pack_dir(tree / "a/0.jsonl", f"s3://{bucket}/packed", tokenizer_dir, store, work)
    before = listing(client, bucket)
    assert pack_dir(tree / "a/0.jsonl", f"s3://{bucket}/packed", tokenizer_dir, store, work) == first
    with pytest.raises(fastpack.OutputError, match=r"another job.*max_length"):
        pack_dir(tree / "a/0.jsonl", f"s3://{bucket}/packed", tokenizer_dir, store, work, max_length=256)
    assert listing(client, bucket) == before
    pack_dir(
        tree / "a/0.jsonl",
        f"s3://{bucket}/packed",
        tokenizer_dir,
        store,
        work,
        max_length=256,
        overwrite=True,
    )
    after = listing(client, bucket)
    assert after.keys() == before.keys()
    assert after != before


def test_a_changed_object_with_the_hash_of_the_old_one_is_not_replaced(
    tree, tokenizer_dir, store, client, bucket, work, tmp_path
):
    out = f"s3://{bucket}/packed"
    pack_dir(tree / "a/0.jsonl", out, tokenizer_dir, store, work, keep_tokens=True)
    before = listing(client, bucket)
    for name in ("train-00000.arrow", "tokens.fastpack"):
        content = before[f"packed/{name}"]
        spoilt = bytearray(content)
        spoilt[len(spoilt) // 2] ^= 1
        (tmp_path / "good").write_bytes(content)
        told = {"blake3": content_hash(str(tmp_path / "good"))}
        client.put_object(Bucket=bucket, Key=f"packed/{name}", Body=bytes(spoilt), Metadata=told)
        now = listing(client, bucket)
        with pytest.raises(fastpack.OutputError, match=re.escape(f"`{name}`")):
            pack_dir(tree / "a/0.jsonl", out, tokenizer_dir, store, work, max_length=256, overwrite=True)
        assert listing(client, bucket) == now
        client.put_object(Bucket=bucket, Key=f"packed/{name}", Body=content)
    pack_dir(tree / "a/0.jsonl", out, tokenizer_dir, store, work, max_length=256, overwrite=True)
    assert listing(client, bucket).keys() == before.keys() - {"packed/tokens.fastpack"}


def test_files_of_others_stay(tree, tokenizer_dir, store, client, bucket, work):
    client.put_object(Bucket=bucket, Key="packed/notes.txt", Body=b"mine")
    with pytest.raises(fastpack.OutputError, match=r"`notes\.txt`"):
        pack_dir(tree / "a/0.jsonl", f"s3://{bucket}/packed", tokenizer_dir, store, work)
    assert listing(client, bucket).keys() >= {"packed/notes.txt"}
    assert "packed/.fastpack/lock" not in listing(client, bucket)
    pack_dir(tree / "a/0.jsonl", f"s3://{bucket}/packed", tokenizer_dir, store, work, overwrite=True)
    assert listing(client, bucket)["packed/notes.txt"] == b"mine"


def test_a_large_shard_goes_up_in_parts(tokenizer_dir, store, client, bucket, work, tmp_path):
    chances = random.Random(1)
    records = [{"input_ids": [chances.randrange(300) for _ in range(2000)]} for _ in range(1500)]
    (tmp_path / "ids.jsonl").write_bytes(lines(records))
    pack_dir(tmp_path / "ids.jsonl", f"s3://{bucket}/packed", tokenizer_dir, store, work, max_length=2048)
    flat.pack_dir(tmp_path / "ids.jsonl", tmp_path / "packed", tokenizer=tokenizer_dir, max_length=2048)
    shard = (tmp_path / "packed/train-00000.arrow").read_bytes()
    assert len(shard) > 20_000_000
    assert listing(client, bucket)["packed/train-00000.arrow"] == shard


def test_a_job_that_was_killed_goes_on(tree, tokenizer_dir, store, client, bucket, work, tmp_path):
    script = (
        "import json, sys, fastpack\n"
        "store, files, output, tokenizer, work = json.loads(sys.argv[1])\n"
        "print('ready', flush=True)\n"
        "fastpack.pack_dir(files, output, tokenizer=tokenizer, storage=fastpack.Storage(store, work_dir=work), max_length=512,\n"
        "    format=fastpack.Format(shard_size=3000))\n"
    )
    given = json.dumps([store, f"{tree}/a", f"s3://{bucket}/packed", str(tokenizer_dir), str(work)])
    for wait in (0.05, 0.15, 0.3, 0.6):
        process = subprocess.Popen([sys.executable, "-c", script, given], stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"ready\n"
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        found = listing(client, bucket)
        if "packed/manifest.json" in found:
            manifest = json.loads(found["packed/manifest.json"])
            assert all(f"packed/{file['name']}" in found for file in manifest["files"])
    pack_dir(f"{tree}/a", f"s3://{bucket}/packed", tokenizer_dir, store, work, shard_size=3000)
    flat.pack_dir(f"{tree}/a", tmp_path / "packed", tokenizer=tokenizer_dir, max_length=512, shard_size=3000)
    found = listing(client, bucket)
    shards = [path for path in (tmp_path / "packed").iterdir() if path.suffix == ".arrow"]
    assert shards
    assert {path.name: found[f"packed/{path.name}"] for path in shards} == {
        path.name: path.read_bytes() for path in shards
    }
    assert len(found) == len(shards) + 2


def test_an_upload_that_fails_halfway_leaves_no_object(tokenizer_dir, store, client, bucket, work, tmp_path):
    chances = random.Random(1)
    records = [{"input_ids": [chances.randrange(300) for _ in range(2000)]} for _ in range(1500)]
    (tmp_path / "ids.jsonl").write_bytes(lines(records))
    with losing(store["aws_endpoint"], seed=0, faults=0) as proxy:
        proxy.broken = "partNumber=2"
        options = {**store, "aws_endpoint": proxy.url, "max_retries": "1"}
        with pytest.raises(OSError, match="train-00000"):
            pack_dir(
                tmp_path / "ids.jsonl", f"s3://{bucket}/packed", tokenizer_dir, options, work, max_length=2048
            )
    assert listing(client, bucket).keys() <= {"packed/.fastpack/lock", "packed/.fastpack/manifest.json"}
    assert not client.list_multipart_uploads(Bucket=bucket).get("Uploads")


@pytest.mark.parametrize("seed", range(tries(8, 40)))
def test_faults_on_the_way_give_the_same_bytes_or_one_error(
    seed, tree, tokenizer_dir, store, client, bucket, work, tmp_path
):
    faults = random.Random(seed).choice([0.05, 0.15, 0.3])
    with losing(store["aws_endpoint"], seed=seed, faults=faults) as proxy:
        options = {**store, "aws_endpoint": proxy.url, "max_retries": str(seed % 2 * 20 + 1)}
        try:
            pack_dir(
                f"s3://{bucket}/a", f"s3://{bucket}/packed", tokenizer_dir, options, work, shard_size=3000
            )
            said = None
        except OSError as error:
            said = str(error)
    found = listing(client, bucket)
    if said:
        assert seed % 2 == 0, said
        assert len(said.splitlines()) == 1
        pack_dir(f"s3://{bucket}/a", f"s3://{bucket}/packed", tokenizer_dir, store, work, shard_size=3000)
        found = listing(client, bucket)
    flat.pack_dir(f"{tree}/a", tmp_path / "packed", tokenizer=tokenizer_dir, max_length=512, shard_size=3000)
    shards = {path.name: path.read_bytes() for path in (tmp_path / "packed").glob("*.arrow")}
    assert {name: found[f"packed/{name}"] for name in shards} == shards
    assert found.keys() - {"packed/.fastpack/lock"} == {
        "packed/manifest.json",
        "packed/report.json",
        *(f"packed/{name}" for name in shards),
    }


def test_a_second_writer_is_refused_while_the_lock_is_renewed(
    tree, tokenizer_dir, store, client, bucket, work, tmp_path
):
    stop = threading.Event()

    def renew():
        number = 0
        while not stop.wait(0.2):
            number += 1
            client.put_object(
                Bucket=bucket, Key="packed/.fastpack/lock", Body=f"another\n{number}\n".encode()
            )

    client.put_object(Bucket=bucket, Key="packed/.fastpack/lock", Body=b"another\n0\n")
    thread = threading.Thread(target=renew)
    thread.start()
    try:
        with pytest.raises(fastpack.OutputError, match="another process"):
            pack_dir(tree / "a/0.jsonl", f"s3://{bucket}/packed", tokenizer_dir, store, work, wait=False)
    finally:
        stop.set()
        thread.join()
    assert listing(client, bucket).keys() == {"packed/.fastpack/lock"}


def test_repack_and_records_write_into_a_bucket(tree, tokenizer_dir, store, client, bucket, work, tmp_path):
    flat.pack_dir(
        tree / "a/0.jsonl", tmp_path / "kept", tokenizer=tokenizer_dir, max_length=512, keep_tokens=True
    )
    flat.repack(
        tmp_path / "kept", f"s3://{bucket}/again", max_length=256, storage_options=store, work_dir=work
    )
    flat.pack_records(
        CONVERSATIONS,
        tokenizer_dir,
        max_length=512,
        output=f"s3://{bucket}/records",
        storage_options=store,
        work_dir=work,
    )
    found = listing(client, bucket, "")
    assert {"again/manifest.json", "records/manifest.json"} <= found.keys()
    assert not any("secret" in content.decode("utf-8", "replace") for content in found.values())


def test_an_output_in_a_bucket_that_is_not_there_is_refused(tree, tokenizer_dir, store, work):
    with pytest.raises(fastpack.OutputError, match=r"make the bucket first: .s3://nowhere-at-all/packed"):
        pack_dir(tree / "a/0.jsonl", "s3://nowhere-at-all/packed", tokenizer_dir, store, work)


@pytest.mark.parametrize("options", [{}, {"validation": 20}, {"keep_tokens": True}])
def test_a_job_of_groups_writes_into_a_bucket_what_it_writes_into_a_folder(
    options, tree, tokenizer_dir, store, client, bucket, work, tmp_path
):
    given = {"group_size": "10KB", "recursive": True, **options}
    output = f"s3://{bucket}/packed"
    report = pack_dir(tree / "a", output, tokenizer_dir, store, work, **given)
    flat.pack_dir(tree / "a", tmp_path / "packed", tokenizer=tokenizer_dir, max_length=512, **given)
    local = {f"packed/{path.name}": path.read_bytes() for path in (tmp_path / "packed").iterdir()}
    found = listing(client, bucket)
    assert found.keys() == local.keys()
    told = {"packed/manifest.json", "packed/report.json"}
    assert {name: found[name] for name in found.keys() - told} == {
        name: local[name] for name in local.keys() - told
    }
    assert len(found) > 3
    assert pack_dir(tree / "a", output, tokenizer_dir, store, work, **given) == report
    assert not [path for path in work.rglob("*") if path.is_file() and path.suffix != ".lock"]


def test_an_output_on_a_web_server_is_refused(tree, tokenizer_dir, work):
    with pytest.raises(fastpack.OptionError, match="takes no output"):
        pack_dir(tree / "a/0.jsonl", "https://host/packed", tokenizer_dir, {}, work)


def test_an_output_that_holds_the_input_is_refused(tree, tokenizer_dir, store, bucket, work):
    with pytest.raises(fastpack.OutputError, match="holds the input"):
        pack_dir(f"s3://{bucket}/a/0.jsonl", f"s3://{bucket}/a", tokenizer_dir, store, work)


def test_a_hundred_tables_are_read_by_few_requests(tmp_path, tokenizer_dir, store, client, bucket):
    for number in range(20):
        table = pa.Table.from_pylist([{"text": sentence(number * 100 + at, 20)} for at in range(50)])
        pq.write_table(table, tmp_path / f"{number:02}.parquet")
    put(client, bucket, tmp_path)
    assert rows(f"s3://{bucket}", tokenizer_dir, storage_options=store) == rows(tmp_path, tokenizer_dir)


def test_a_bucket_that_is_not_there_is_named_in_few_words(tokenizer_dir, store):
    for files in (
        "s3://no-bucket-of-this-name/",
        "s3://no-bucket-of-this-name/*.jsonl",
        "s3://no-bucket-of-this-name/a.jsonl",
    ):
        with pytest.raises(fastpack.InputNotFoundError, match="No such") as caught:
            rows(files, tokenizer_dir, storage_options=store)
        assert "no-bucket-of-this-name" in str(caught.value)
        assert "<" not in str(caught.value)


def test_a_writer_that_slept_past_its_lease_replaces_nothing(
    tree, tokenizer_dir, store, client, bucket, work, tmp_path
):
    """Jobs that are stopped at some moment, as with a laptop: others take their outputs over, and then they go on."""
    script = (
        "import json, sys, fastpack\n"
        "store, files, output, tokenizer, work = json.loads(sys.argv[1])\n"
        "fastpack.pack_files(files, tokenizer, max_length=512, progress=False)\n"
        "print('ready', flush=True)\n"
        "try:\n"
        "    fastpack.pack_dir(files, output, tokenizer=tokenizer, storage=fastpack.Storage(store, work_dir=work),\n"
        "        max_length=512, format=fastpack.Format(shard_size=1000))\n"
        "except fastpack.OutputError as error:\n"
        "    print(error)\n"
    )
    # Seconds from when it holds the lock.
    moments = (0, 0.1, 0.2, 0.4)
    sleepers = []
    for number, wait in enumerate(moments):
        place = f"s3://{bucket}/packed/{number}"
        given = json.dumps([store, f"{tree}/a", place, str(tokenizer_dir), str(tmp_path / f"work{number}")])
        process = subprocess.Popen([sys.executable, "-c", script, given], stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "ready\n"
        while process.poll() is None and not listing(client, bucket, f"packed/{number}/.fastpack/lock"):
            time.sleep(0.005)
        time.sleep(wait)
        process.send_signal(signal.SIGSTOP)
        sleepers.append(process)
    others = {"shard_size": 1000, "max_length": 256}

    def take_over(number, overwrite=True):
        return pack_dir(
            f"{tree}/a",
            f"s3://{bucket}/packed/{number}",
            tokenizer_dir,
            store,
            work / str(number),
            overwrite=overwrite,
            **others,
        )

    with ThreadPoolExecutor(len(moments)) as pool:
        list(pool.map(take_over, range(len(moments))))
    found = listing(client, bucket)
    said = []
    for process in sleepers:
        process.send_signal(signal.SIGCONT)
        said.append(process.communicate(timeout=60)[0])
    assert [process.returncode for process in sleepers] == [0] * len(moments)
    # Unfinished uploads may still arrive, under names of their own.
    own = {key: it for key, it in listing(client, bucket).items() if "/.fastpack/" not in key}
    assert own == {key: it for key, it in found.items() if "/.fastpack/" not in key}
    for number in range(len(moments)):
        assert take_over(number, overwrite=False).finished_before
    assert listing(client, bucket) == own
    flat.pack_dir(f"{tree}/a", tmp_path / "packed", tokenizer=tokenizer_dir, **others)
    shards = {path.name: path.read_bytes() for path in (tmp_path / "packed").glob("*.arrow")}
    for number in range(len(moments)):
        assert {name: found[f"packed/{number}/{name}"] for name in shards} == shards
        assert fastpack.verify(f"s3://{bucket}/packed/{number}", storage=store, sample=0).ok
    # One that had finished has nothing to say.
    assert all(not text or "another process has taken its lock" in text for text in said), said
    assert any(said)


class ListHandler(SilentHandler):
    """Answers lists of a bucket by the pages of the server, of which the last names an earlier one as the next."""

    def do_GET(self):  # noqa: N802  as `http.server` calls it
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        self.server.answered += 1
        number = int(query.get("continuation-token", 0))
        following = number + 1 if number + 1 < len(self.server.pages) else self.server.back
        objects = "".join(
            f"<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
            f"<ETag>&quot;{key}&quot;</ETag><Size>20</Size></Contents>"
            for key in self.server.pages[number]
        )
        body = (
            "<ListBucketResult><Name>bucket</Name><Prefix>a/</Prefix><IsTruncated>true</IsTruncated>"
            f"<NextContinuationToken>{following}</NextContinuationToken>{objects}</ListBucketResult>"
        ).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.mark.parametrize("seed", range(tries(6, 200)))
def test_a_list_that_returns_to_any_earlier_page_is_refused(seed, tokenizer_dir):
    """Its last page names another as the next: itself, the first, or one between. Some pages have no object."""
    chance = random.Random(seed)
    keys = [f"a/{number}.jsonl" for number in range(9)]
    chance.shuffle(keys)
    pages = []
    while keys:
        count = chance.choice([0, 1, 1, 2, 4])
        pages.append([keys.pop() for _ in range(min(count, len(keys)))])
    server = LoopbackServer(ListHandler)
    server.pages, server.back, server.answered = pages, chance.randrange(len(pages)), 0
    files = chance.choice(["a/", "a/*.jsonl", "a/**/*.jsonl"])
    with running(server):
        options = {**KEYS, "aws_endpoint": server.url, "aws_allow_http": "true", "aws_region": "us-east-1"}
        with pytest.raises(
            fastpack.StorageError, match=r"lists `a/\d\.jsonl` twice, so its list may have no end"
        ):
            rows(f"s3://bucket/{files}", tokenizer_dir, storage_options=options)
    assert server.answered <= len(pages) + 1 + len([page for page in pages if not page])
