"""Packed folders in remote storage are read as those of this machine, and their bytes are checked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import fsspec
import pytest
from conftest import conversation
from remote_folders import KINDS, Remote, of_cloud, of_web, tree
from sealing import seal_again
from web_server import Faults, serving

import fastpack
from fastpack.api import recipes
from fastpack.cli.main import main
from fastpack.cli.next_command import after_pack
from fastpack.dataset.folder import Folder

OPTIONS = {"max_length": 256, "format": fastpack.Format(shard_size=20_000), "progress": False}


@pytest.fixture
def packed(corpus, tokenizer_dir, tmp_path):
    """A folder of several shards and two splits, with kept tokens."""
    fastpack.pack_dir(
        corpus, tmp_path / "packed", tokenizer=tokenizer_dir, validation=20, keep_tokens=True, **OPTIONS
    )
    return tmp_path / "packed"


@pytest.fixture(params=KINDS)
def remote(request, packed, tmp_path):
    """The same folder in remote storage of each kind."""
    if request.param == "s3":
        store, client, bucket = map(request.getfixturevalue, ("store", "client", "bucket"))

        def put(name, content):
            client.put_object(Bucket=bucket, Key=f"packed/{name}", Body=content)

        for name, content in tree(packed).items():
            put(name, content)
        yield Remote(f"s3://{bucket}/packed", {"storage": store}, put)
    elif request.param == "https":
        with of_web(packed, tmp_path / "web") as found:
            yield found
    else:
        with of_cloud(request.param, packed) as found:
            yield found


@pytest.fixture
def web(packed, tmp_path):
    with of_web(packed, tmp_path / "web") as found:
        yield found


@pytest.fixture
def cache(tmp_path):
    return {"cache_dir": tmp_path / "cache"}


def cached(tmp_path):
    """The whole files in the cache."""
    return [path for path in (tmp_path / "cache" / "blocks").rglob("*.arrow") if path.is_file()]


@pytest.mark.parametrize("split", ["train", "validation"])
def test_rows_are_those_of_the_folder(remote, packed, split, cache):
    assert len(list(packed.glob("train-*.arrow"))) > 2
    expected = fastpack.read(packed, split=split)
    assert fastpack.read(remote.url, split=split, **remote.options, **cache) == expected
    some = fastpack.read(remote.url, split=split, columns=["labels"], **remote.options, **cache)
    assert some == expected.select(["labels"])


@pytest.mark.parametrize(
    "options",
    [
        {"format": fastpack.Format("parquet", shard_size=20_000)},
        {"format": fastpack.Format("jsonl", shard_size=20_000)},
        {"format": fastpack.Format(layout="compact", shard_size=20_000)},
        {"format": fastpack.Format(hf_layout=True, shard_size=20_000)},
    ],
)
def test_rows_in_other_formats_and_layouts_are_too(options, corpus, tokenizer_dir, tmp_path, cache):
    fastpack.pack_dir(
        corpus, tmp_path / "packed", tokenizer=tokenizer_dir, validation=20, **{**OPTIONS, **options}
    )
    with of_web(tmp_path / "packed", tmp_path / "web") as web:
        for split in ("train", "validation"):
            expected = fastpack.read(tmp_path / "packed", split=split)
            assert fastpack.read(web.url, split=split, **cache) == expected
            row = fastpack.inspect(web.url, row=-1, split=split, **cache)
            assert (
                row.to_dict()["documents"]
                == fastpack.inspect(tmp_path / "packed", row=-1, split=split).to_dict()["documents"]
            )


def test_a_report_and_a_row_are_those_of_the_folder(remote, packed, cache):
    assert fastpack.Report.of(remote.url, **remote.options) == fastpack.Report.of(packed)
    rows = fastpack.read(packed).num_rows
    for row in (0, rows // 2, rows - 1, -1, -rows):
        found = fastpack.inspect(remote.url, row, **remote.options, **cache)
        expected = fastpack.inspect(packed, row)
        assert (found.number, found.rows, found.documents) == (
            expected.number,
            expected.rows,
            expected.documents,
        )
    with pytest.raises(fastpack.OptionError, match=f"has rows 0 to {rows - 1}, not `{rows}`"):
        fastpack.inspect(remote.url, rows, **remote.options, **cache)


def test_a_file_of_the_folder_is_looked_into(remote, packed, cache):
    found = fastpack.inspect(f"{remote.url}/train-00001.arrow", 1, **remote.options, **cache)
    assert found.documents == fastpack.inspect(packed / "train-00001.arrow", 1).documents
    with pytest.raises(fastpack.InputNotFoundError, match="no such shard"):
        fastpack.inspect(f"{remote.url}/train-90001.arrow", 1, **remote.options, **cache)


def test_a_row_costs_its_shard_alone(web, tmp_path, cache):
    fastpack.inspect(web.url, -1, **cache)
    assert len(cached(tmp_path)) == 1
    assert len({path for _, path, _ in web.requests if path.endswith(".arrow")}) == 1


def test_verify_and_export_and_repack_take_it(remote, packed, tokenizer_dir, tmp_path):
    local = fastpack.verify(packed, tokenizer=tokenizer_dir)
    found = fastpack.verify(remote.url, tokenizer=tokenizer_dir, **remote.options)
    assert local.ok
    assert found._replace(folder="") == local._replace(folder="")
    for name, source, options in (("here", packed, {}), ("there", remote.url, remote.options)):
        fastpack.export(source, tmp_path / name, format="megatron", **options)
        fastpack.repack(
            source, tmp_path / f"{name}-again", max_length=128, validation=20, progress=False, **options
        )
    assert (tmp_path / "here.bin").read_bytes() == (tmp_path / "there.bin").read_bytes()
    again = [fastpack.read(tmp_path / f"{name}-again") for name in ("here", "there")]
    assert again[0] == again[1]


def test_the_state_of_a_finished_job_is_told(remote, packed):
    assert fastpack.status(remote.url, **remote.options) == fastpack.status(packed)


def test_shards_are_fetched_once_and_verify_reads_them_again(web, tmp_path, cache):
    fastpack.read(web.url, **cache)
    web.requests.clear()
    fastpack.read(web.url, **cache)
    assert {Path(path).name for _, path, _ in web.requests} == {"manifest.json"}
    web.put("train-00001.arrow", (tmp_path / "packed" / "train-00000.arrow").read_bytes())
    assert fastpack.read(web.url, **cache).num_rows
    problems = fastpack.verify(web.url).problems
    assert len(problems) == 1
    assert f"{web.url}/train-00001.arrow" in problems[0]


@pytest.mark.parametrize("at", [0, -1])
def test_a_shard_that_has_changed_is_refused_and_not_kept(at, web, packed, tmp_path, cache):
    content = bytearray((packed / "train-00001.arrow").read_bytes())
    content[at] ^= 1
    web.put("train-00001.arrow", bytes(content))
    with pytest.raises(fastpack.StorageError, match=r"has changed since it was written.*train-00001\.arrow"):
        fastpack.read(web.url, **cache)
    (problem,) = fastpack.verify(web.url).problems
    assert "train-00001.arrow" in problem
    assert "has changed since it was written" in problem
    web.put("train-00001.arrow", (packed / "train-00001.arrow").read_bytes())
    assert fastpack.read(web.url, **cache) == fastpack.read(packed)


def test_a_missing_shard_and_a_missing_folder_are_named(remote, packed, cache):
    shutil.copytree(packed, packed.parent / "other")
    seal_again(
        packed.parent / "other", lambda manifest: manifest["files"][1].update(name="train-77777.arrow")
    )
    remote.put("manifest.json", (packed.parent / "other" / "manifest.json").read_bytes())
    with pytest.raises(fastpack.InputNotFoundError, match=r"train-77777\.arrow"):
        fastpack.read(remote.url, **remote.options, **cache)
    assert any(
        "train-77777.arrow" in problem for problem in fastpack.verify(remote.url, **remote.options).problems
    )
    with pytest.raises(fastpack.FastpackError, match=r"holds no packed rows: no `manifest\.json`"):
        fastpack.read(f"{remote.url}-not", **remote.options, **cache)
    with pytest.raises(fastpack.InputNotFoundError, match=r"report\.json"):
        fastpack.Report.of(f"{remote.url}-not", **remote.options)


@pytest.mark.parametrize("name", ["../secret.arrow", "/etc/passwd.arrow", "a//b.arrow", "..\\x.arrow"])
def test_a_manifest_names_nothing_outside_the_folder(name, web, packed, cache):
    other = packed.parent / "other"
    shutil.copytree(packed, other)
    seal_again(other, lambda manifest: manifest["files"][0].update(name=name))
    web.put("manifest.json", (other / "manifest.json").read_bytes())
    with pytest.raises(fastpack.FastpackError, match="leads out of the folder"):
        fastpack.read(web.url, **cache)


def test_a_manifest_that_has_changed_is_refused(web, packed, cache):
    web.put("manifest.json", (packed / "manifest.json").read_bytes().replace(b'"rows"', b'"rowz"', 1))
    with pytest.raises(fastpack.FastpackError, match="has changed since fastpack wrote it"):
        fastpack.read(web.url, **cache)


def test_a_query_is_sent_with_each_name_and_told_to_nobody(packed, tmp_path, cache):
    with of_web(packed, tmp_path / "web") as web:
        table = fastpack.read(f"{web.url}?signature=s3cr3t", **cache)
        assert all(path.endswith("?signature=s3cr3t") for _, path, _ in web.requests)
        web.put("train-00000.arrow", b"other")
        shutil.rmtree(tmp_path / "cache")
        with pytest.raises(fastpack.StorageError) as refused:
            fastpack.read(f"{web.url}?signature=s3cr3t", **cache)
    assert "s3cr3t" not in str(refused.value)
    assert table == fastpack.read(packed)


def test_a_server_that_fails_at_random_gives_the_same_rows(packed, tmp_path, cache):
    faults = Faults(seed=5, status=0.2, reset=0.1, cut=0.2)
    with of_web(packed, tmp_path / "web", faults) as web:
        assert fastpack.read(web.url, **cache) == fastpack.read(packed)


def test_a_filesystem_of_fsspec_holds_it(packed, tmp_path, cache):
    files = fsspec.filesystem("memory")
    for name, content in tree(packed).items():
        files.pipe(f"/{tmp_path.name}/packed/{name}", content)
    options = {"storage": fastpack.Storage(filesystem=files)}
    folder = f"/{tmp_path.name}/packed"
    assert fastpack.read(folder, **options, **cache) == fastpack.read(packed)
    assert fastpack.Report.of(folder, **options) == fastpack.Report.of(packed)
    assert fastpack.verify(folder, sample=0, **options).ok


def test_a_cache_that_is_too_small_is_refused_with_its_remedy(web, packed, cache):
    sizes = [shard.file.bytes for shard in Folder(packed).of("train")]
    with pytest.raises(fastpack.OptionError, match=r"less than a shard of .* bytes; give more"):
        fastpack.read(web.url, storage=fastpack.Storage(block_cache=min(sizes) // 2), **cache)
    with pytest.raises(fastpack.OptionError, match=r"has no room for .*PackedDataset"):
        fastpack.read(web.url, storage=fastpack.Storage(block_cache=sum(sizes) - 1), **cache)
    assert fastpack.read(web.url, storage=fastpack.Storage(block_cache=sum(sizes)), **cache) == fastpack.read(
        packed
    )


def test_the_cache_stays_below_its_bound(web, packed, tmp_path, cache):
    sizes = [shard.file.bytes for shard in Folder(packed).shards]
    most = max(sizes) * 2
    rows = fastpack.read(packed).num_rows
    for row in range(0, rows, 2):
        fastpack.inspect(web.url, row, storage=fastpack.Storage(block_cache=most), **cache)
        assert sum(path.stat().st_size for path in cached(tmp_path)) <= most
    assert len(cached(tmp_path)) == 2


def test_many_processes_fetch_each_shard_once(web, packed, tmp_path):
    code = (
        f"import fastpack; print(fastpack.read({web.url!r}, cache_dir={str(tmp_path / 'cache')!r}).num_rows)"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    found = {process.communicate(timeout=120)[0].strip() for process in processes}
    assert found == {str(fastpack.read(packed).num_rows)}
    asked = [path for method, path, span in web.requests if path.endswith(".arrow")]
    # The first bytes tell the size of a file, and the file may be in them.
    whole = [span for _, path, span in web.requests if path.endswith(".arrow") and span != "bytes=0-4095"]
    assert len(set(asked)) == len(Folder(packed).of("train"))
    assert len(whole) == len(set(asked))


def test_a_process_that_is_killed_while_it_fetches_leaves_nothing_that_is_read(packed, tmp_path, cache):
    with of_web(packed, tmp_path / "web", Faults(delay=0.3)) as web:
        code = f"import fastpack; fastpack.read({web.url!r}, cache_dir={str(tmp_path / 'cache')!r})"
        process = subprocess.Popen([sys.executable, "-c", code])
        while not list((tmp_path / "cache").rglob("*.arrow")):
            assert process.poll() is None
        process.kill()
        process.wait()
        assert fastpack.read(web.url, **cache) == fastpack.read(packed)


def test_the_command_line_takes_it(web, packed, tmp_path, tokenizer_dir):
    def run(*arguments):
        environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "home")}
        done = subprocess.run(
            [sys.executable, "-m", "fastpack", *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert json.loads(run("report", web.url, "--json")) == json.loads(run("report", packed, "--json"))
    assert (
        run("inspect", web.url, "--ids").splitlines()[1:] == run("inspect", packed, "--ids").splitlines()[1:]
    )
    for name, source in (("here", packed), ("there", web.url)):
        run("report", source, "--html", tmp_path / f"{name}.html")
    pages = [(tmp_path / f"{name}.html").read_text(encoding="utf-8") for name in ("here", "there")]
    assert pages[0].count("<svg") == pages[1].count("<svg") > 2
    assert "all is well" in run("verify", web.url, "-t", tokenizer_dir)
    run("repack", "-i", web.url, "-o", tmp_path / "again", "-m", 128, "--validation", 20)
    assert fastpack.read(tmp_path / "again").num_rows


def test_a_large_shard_is_checked_by_its_parts(tmp_path, tokenizer_dir, write_jsonl, cache):
    records = [{"text": " ".join(map(str, conversation(number)["messages"] * 20))} for number in range(800)]
    fastpack.pack_dir(
        write_jsonl(records),
        tmp_path / "packed",
        tokenizer=tokenizer_dir,
        max_length=4096,
        overlong="split",
        progress=False,
    )
    (shard,) = Folder(tmp_path / "packed").shards
    part = 8 << 20
    assert shard.file.bytes > part
    # The hash that was made of the parts is that of the file.
    assert fastpack.verify(tmp_path / "packed", sample=0).ok
    assert len(shard.file.parts) == 64 * -(-shard.file.bytes // part)
    with of_web(tmp_path / "packed", tmp_path / "web") as web:
        assert fastpack.read(web.url, **cache) == fastpack.read(tmp_path / "packed")
        content = bytearray((tmp_path / "packed" / shard.name).read_bytes())
        content[part + 5] ^= 1
        web.put(shard.name, bytes(content))
        shutil.rmtree(tmp_path / "cache")
        with pytest.raises(fastpack.StorageError, match=f"bytes from {part} on are others"):
            fastpack.read(web.url, **cache)


def test_reindex_writes_into_a_bucket(store, client, bucket, corpus, tokenizer_dir, tmp_path):
    options = {"storage": store, "progress": False}
    local = fastpack.reindex(corpus, tmp_path / "here", progress=False)
    there = fastpack.reindex(corpus, f"s3://{bucket}/there", **options)
    assert [file.path for file in there.files] == [f"s3://{bucket}/there/corpus.jsonl.zst"]
    listed = client.list_objects_v2(Bucket=bucket)["Contents"]
    assert [entry["Key"] for entry in listed] == ["there/corpus.jsonl.zst"], "no lock and no upload is left"
    content = client.get_object(Bucket=bucket, Key="there/corpus.jsonl.zst")["Body"].read()
    assert content == Path(local.files[0].path).read_bytes()
    with pytest.raises(fastpack.OutputError, match="is there already"):
        fastpack.reindex(corpus, f"s3://{bucket}/there", **options)
    rows = fastpack.pack_files(f"s3://{bucket}/there/", tokenizer_dir, max_length=256, **options)
    assert rows == fastpack.pack_files(corpus, tokenizer_dir, max_length=256, progress=False)


def test_reindex_writes_large_files_into_a_bucket_over_no_object(
    store, client, bucket, write_jsonl, tmp_path
):
    # Random bytes, so that the file stays larger than one request writes.
    large = write_jsonl([{"text": os.urandom(9 << 20).hex()}], "large.jsonl")
    fastpack.reindex(large, f"s3://{bucket}/there", storage=store, progress=False)
    local = fastpack.reindex(large, tmp_path / "here", progress=False)
    (entry,) = client.list_objects_v2(Bucket=bucket)["Contents"]
    assert entry["Size"] == local.files[0].bytes_written > 8 << 20
    content = client.get_object(Bucket=bucket, Key=entry["Key"])["Body"].read()
    assert content == Path(local.files[0].path).read_bytes()


@pytest.mark.parametrize(
    ("output", "said"), [("hf://datasets/a/b", "is on the hub"), ("https://example.com/x", "takes no output")]
)
def test_reindex_writes_to_no_other_url(output, said, corpus, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(fastpack.OptionError, match=said):
        fastpack.reindex(corpus, output, progress=False)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(("hf", "https"))]


def test_a_data_set_of_the_hub_holds_it(packed, tmp_path):
    """The hub sends on to another server, and knows the folder by its commit."""
    files = tree(packed)
    for name, content in files.items():
        path = tmp_path / "hub" / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def about(_):
        info = {"id": "org/rows", "sha": "a" * 40, "cardData": {}, "private": False, "disabled": False}
        info |= {"siblings": [{"rfilename": f"some/packed/{name}"} for name in files]}
        info |= {"gated": False, "downloads": 0, "likes": 0, "tags": []}
        return 200, {"Content-Type": "application/json"}, json.dumps(info).encode()

    def resolve(handler):
        name = handler.path.partition("/some/packed/")[2]
        return 302, {"Location": f"/files/{name}?signature=s3cr3t"}, b""

    code = """
import sys, fastpack
url, folder, cache = sys.argv[1:]
assert fastpack.read(url, cache_dir=cache) == fastpack.read(folder)
assert fastpack.Report.of(url) == fastpack.Report.of(folder)
assert fastpack.status(url) == fastpack.status(folder)
assert fastpack.verify(url, sample=0).ok
"""
    with serving(tmp_path / "hub") as server:
        server.pages = {r"/api/datasets/.*": about, r"/datasets/org/.*/resolve/.*": resolve}
        environment = {**os.environ, "HF_ENDPOINT": server.url, "HF_HUB_OFFLINE": "0"}
        arguments = ["hf://datasets/org/rows/some/packed", str(packed), str(tmp_path / "cache")]
        subprocess.run([sys.executable, "-c", code, *arguments], env=environment, check=True, timeout=120)
        assert any("a" * 40 in path for _, path, _ in server.requests)


def test_a_command_packs_like_a_remote_folder(remote, corpus, tmp_path, capsys):
    storage = ["--storage", json.dumps(remote.options["storage"])] if remote.options else []
    code = main(["pack", "--like", remote.url, *storage, "-o", str(tmp_path / "again"), "--no-progress"])
    assert code == 0, capsys.readouterr().err
    again = tree(tmp_path / "again")
    assert {name: it for name, it in tree(tmp_path / "packed").items() if name.endswith(".arrow")} == {
        name: it for name, it in again.items() if name.endswith(".arrow")
    }
    with pytest.raises(fastpack.InputNotFoundError, match="no manifest of a packed folder"):
        recipes.load_manifest(f"{remote.url}-not-there", **remote.options)
    remote.put("manifest.json", b"{}")
    with pytest.raises(fastpack.OptionError, match="does not say how the folder was packed"):
        recipes.load_manifest(remote.url, **remote.options)


def test_the_next_command_is_none_where_it_would_lack_credentials():
    given = {"output": "s3://bucket/packed"}
    assert after_pack(given) == "fastpack inspect s3://bucket/packed --row 0"
    assert after_pack({**given, "storage": {"aws_region": "x"}}) == ""
    assert after_pack({**given, "storage": fastpack.Storage({"aws_region": "x"})}) == ""
    assert (
        after_pack({"output": "packed", "storage": {"aws_region": "x"}}) == "fastpack inspect packed --row 0"
    )
