"""Files on web servers give the rows of local files, or one clear error."""

from __future__ import annotations

import gzip
import json
import pathlib
import random
import subprocess
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from campaign import tries
from conftest import conversation, sentence
from containers import CONTAINERS, lines
from web_server import Faults, serving

import fastpack

CONVERSATIONS = [conversation(number) for number in range(60)]
TEXTS = [{"text": sentence(number, 5 + number)} for number in range(60)]


def rows(files, tokenizer, **options):
    options = {"max_length": 512, "max_lost": "100%", **options}
    return fastpack.pack_files(files, tokenizer, **options).to_pydict()


@pytest.fixture
def texts(tmp_path):
    """Three files of lines that take several requests, and their folder."""
    folder = tmp_path / "web"
    folder.mkdir()
    for number in range(3):
        records = [{"text": sentence(number * 1000 + at, 40)} for at in range(3000)]
        (folder / f"{number}.jsonl").write_bytes(lines(records))
    return folder


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_container_gives_the_same_rows_from_a_web_server(container, tmp_path, tokenizer_dir):
    folder = tmp_path / "web"
    folder.mkdir()
    (folder / f"data.{container}").write_bytes(CONTAINERS[container](CONVERSATIONS))
    with serving(folder) as server:
        found = rows(f"{server.url}/data.{container}", tokenizer_dir)
    assert found == rows(folder / f"data.{container}", tokenizer_dir)


def test_several_urls_give_the_rows_of_their_files(texts, tokenizer_dir):
    with serving(texts) as server:
        listed = rows([f"{server.url}/{number}.jsonl" for number in range(3)], tokenizer_dir)
        braces = rows(server.url + "/{0..2}.jsonl", tokenizer_dir)
    assert listed == braces == rows(texts, tokenizer_dir)


@pytest.mark.parametrize("seed", range(tries(8, 60)))
def test_faults_give_the_same_rows(seed, texts, tokenizer_dir):
    chances = random.Random(seed)
    faults = Faults(
        seed=seed,
        status=chances.choice([0, 0.1, 0.3]),
        cut=chances.choice([0, 0.2, 0.4]),
        reset=chances.choice([0, 0.1, 0.2]),
    )
    with serving(texts, faults) as server:
        files = [f"{server.url}/{number}.jsonl" for number in range(3)]
        found = rows(files, tokenizer_dir, storage={"max_retries": "30"})
    assert found == rows(texts, tokenizer_dir)


@pytest.mark.parametrize("status", [403, 404, 500])
def test_an_answer_that_stays_wrong_is_one_error(status, texts, tokenizer_dir):
    with (
        serving(texts, Faults(always=status, only="1.jsonl")) as server,
        pytest.raises(OSError, match=r"1\.jsonl") as refused,
    ):
        rows(f"{server.url}/1.jsonl", tokenizer_dir, storage={"max_retries": "2"})
    assert len(str(refused.value).splitlines()) == 1
    if status == 404:
        assert isinstance(refused.value, fastpack.InputNotFoundError)


def test_a_body_that_always_breaks_off_early_is_one_error_and_no_damage(texts, tokenizer_dir):
    faults = Faults(reset=1.0, only="2.jsonl")
    with serving(texts, faults) as server, pytest.raises(OSError, match=r"2\.jsonl"):
        rows(
            f"{server.url}/2.jsonl",
            tokenizer_dir,
            on_bad_record="skip",
            storage={"max_retries": "1"},
        )


@pytest.mark.parametrize("name", ["0.jsonl", "0.jsonl.gz", "0.parquet"])
def test_a_file_that_changes_while_it_is_read_ends_the_run_by_its_name(name, tmp_path, tokenizer_dir):
    folder = tmp_path / "web"
    folder.mkdir()
    chances = random.Random(1)
    # Words by chance, so that compression leaves several requests.
    records = [{"text": " ".join(str(chances.random()) for _ in range(20))} for _ in range(5000)]
    data = lines(records)
    if name.endswith("gz"):
        data = gzip.compress(data)
    if name.endswith("parquet"):
        pq.write_table(pa.Table.from_pylist(records), folder / name, row_group_size=1000)
    else:
        (folder / name).write_bytes(data)
    with (
        serving(folder, Faults(changes=2)) as server,
        pytest.raises(fastpack.StorageError, match=rf"changed while it was read.*{name}"),
    ):
        rows(f"{server.url}/{name}", tokenizer_dir, on_bad_record="skip")


def test_only_the_columns_that_are_needed_are_fetched(tmp_path, tokenizer_dir):
    folder = tmp_path / "web"
    folder.mkdir()
    chances = random.Random(1)
    table = pa.table(
        {
            "text": [sentence(at, 30) for at in range(12000)],
            "image": [chances.randbytes(2000) for _ in range(12000)],
        }
    )
    pq.write_table(table, folder / "a.parquet", row_group_size=1000, compression="none", use_dictionary=False)
    size = (folder / "a.parquet").stat().st_size
    with serving(folder) as server:
        found = rows(f"{server.url}/a.parquet", tokenizer_dir)
        fetched = server.bytes
    assert found == rows(folder / "a.parquet", tokenizer_dir)
    assert fetched < size / 3, f"{fetched} of {size} bytes"


def test_no_secret_of_a_url_is_told(texts, tokenizer_dir, tmp_path):
    with serving(texts) as server:
        host = server.url.removeprefix("http://")
        url = f"http://user:hunter22@{host}/0.jsonl?X-Amz-Signature=s3cr3t"
        options = {"aws_secret_access_key": "t0pS3cr3t"}
        report = fastpack.pack_dir(
            url, tmp_path / "packed", tokenizer=tokenizer_dir, max_length=512, storage=options
        )
        told = [str(report), repr(report)]
        with pytest.raises(fastpack.InputNotFoundError) as refused:
            rows(url.replace("0.jsonl", "none.jsonl"), tokenizer_dir, storage=options)
        told.append(str(refused.value))
        server.faults.always = 500
        with pytest.raises(OSError, match="500") as refused:
            rows(url, tokenizer_dir, storage={**options, "max_retries": "0"})
        told.append(str(refused.value))
        assert any("Signature" in path for _, path, _ in server.requests)
    with pytest.raises(OSError, match=r"0\.jsonl") as refused:
        rows(url, tokenizer_dir, storage={**options, "max_retries": "0"})
    told.append(str(refused.value))
    told += [
        path.read_bytes().decode("utf-8", "replace")
        for path in (tmp_path / "packed").rglob("*")
        if path.is_file()
    ]
    for secret in ("hunter22", "s3cr3t", "t0pS3cr3t"):
        assert not any(secret in text for text in told), secret


def test_a_job_over_the_web_is_resumed_and_known_again(texts, tokenizer_dir, tmp_path):
    with serving(texts) as server:
        url = f"{server.url}/0.jsonl?signed=1"
        first = fastpack.pack_dir(url, tmp_path / "packed", tokenizer=tokenizer_dir, max_length=512)
        before = server.bytes
        # Another signature is the same file.
        again = fastpack.pack_dir(
            f"{server.url}/0.jsonl?signed=2", tmp_path / "packed", tokenizer=tokenizer_dir, max_length=512
        )
        assert again == first
        assert server.bytes - before < 10_000
        manifest = json.loads((tmp_path / "packed" / "manifest.json").read_bytes())
        (state,) = manifest["job"]["inputs"]["files"].values()
        assert state["etag"]


def test_a_server_that_tells_no_etag_and_no_time_gives_files_that_are_not_known_again(
    texts, tokenizer_dir, tmp_path
):
    with serving(texts, Faults(etags=False, times=False)) as server:
        options = {"tokenizer": tokenizer_dir, "max_length": 512}
        report = fastpack.pack_dir(f"{server.url}/0.jsonl", tmp_path / "packed", **options)
        assert any(
            warning.startswith(
                "1 file is in storage that gives neither an ETag nor a time: a later change of it "
            )
            and "a job on it is not resumed" in warning
            and "0.jsonl" in warning
            for warning in report.warnings
        )
        with pytest.raises(fastpack.OutputError):
            fastpack.pack_dir(f"{server.url}/0.jsonl", tmp_path / "packed", **options)


def test_a_time_is_enough_to_know_a_file_again(texts, tokenizer_dir, tmp_path):
    with serving(texts, Faults(etags=False)) as server:
        options = {"tokenizer": tokenizer_dir, "max_length": 512}
        first = fastpack.pack_dir(f"{server.url}/0.jsonl", tmp_path / "packed", **options)
        assert fastpack.pack_dir(f"{server.url}/0.jsonl", tmp_path / "packed", **options) == first
    assert not first.warnings


def test_the_block_cache_answers_the_second_time(texts, tokenizer_dir, tmp_path):
    options = {"storage": fastpack.Storage(block_cache="1GB"), "cache_dir": tmp_path / "cache"}
    with serving(texts) as server:
        files = [f"{server.url}/{number}.jsonl" for number in range(3)]
        first = fastpack.pack_files(files, tokenizer_dir, max_length=512, **options)
        before = server.bytes
        again = fastpack.pack_files(files, tokenizer_dir, max_length=511, **options)
        assert server.bytes - before < 20_000
    assert first.num_rows
    assert again.num_rows
    assert any((tmp_path / "cache" / "blocks").rglob("*"))


@pytest.mark.parametrize("name", ["0.jsonl", "0.jsonl.gz", "0.parquet"])
def test_a_stream_over_the_web_is_the_stream_over_files(name, tmp_path, tokenizer_dir):
    folder = tmp_path / "web"
    folder.mkdir()
    records = [{"text": sentence(at, 40)} for at in range(2000)]
    data = lines(records)
    if name.endswith("parquet"):
        pq.write_table(pa.Table.from_pylist(records), folder / name, row_group_size=300)
    else:
        (folder / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    options = {"max_length": 512, "batch_size": 4}

    def taken(files):
        with fastpack.stream(files, tokenizer_dir, **options) as stream:
            tables = [next(stream).to_pydict() for _ in range(5)]
            state = stream.state_dict()
            tables += [next(stream).to_pydict() for _ in range(5)]
        with fastpack.stream(files, tokenizer_dir, **options) as stream:
            stream.load_state_dict(state)
            resumed = [next(stream).to_pydict() for _ in range(5)]
        assert resumed == tables[5:]
        return tables

    with serving(folder) as server:
        assert taken(f"{server.url}/{name}") == taken(folder / name)


def test_ctrl_c_ends_a_call_that_waits_for_a_server(texts, tokenizer_dir):
    with serving(texts, Faults(delay=30)) as server:
        script = (
            "import sys, fastpack\n"
            "print('ready', flush=True)\n"
            "fastpack.pack_files(sys.argv[1], sys.argv[2], max_length=512)\n"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", script, f"{server.url}/0.jsonl", str(tokenizer_dir)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout.readline() == b"ready\n"
        deadline = time.monotonic() + 60
        while not server.requests and time.monotonic() < deadline:
            time.sleep(0.01)
        since = time.monotonic()
        process.send_signal(2)
        _, told = process.communicate(timeout=20)
        took = time.monotonic() - since
    assert b"KeyboardInterrupt" in told
    assert took < 5, f"it took {took:.1f} s"


def test_a_call_ends_its_threads(texts, tokenizer_dir):
    with serving(texts) as server:
        rows(f"{server.url}/0.jsonl", tokenizer_dir)
        tasks = pathlib.Path("/proc/self/task")
        names = [(task / "comm").read_text() for task in tasks.iterdir()] if tasks.is_dir() else []
    assert not [name for name in names if name.startswith("fastpack-net")]


def test_a_server_without_ranges_is_refused_for_large_files_alone(texts, tokenizer_dir, tmp_path):
    (texts / "small.jsonl").write_bytes(lines(TEXTS[:3]))
    (texts / "large.jsonl").write_bytes(lines([{"text": sentence(at, 60)} for at in range(20000)]))
    with serving(texts, Faults(ranges=False)) as server:
        assert rows(f"{server.url}/small.jsonl", tokenizer_dir)
        with pytest.raises(OSError, match="no ranges"):
            rows(f"{server.url}/large.jsonl", tokenizer_dir)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ("ftp://host/x.jsonl", "scheme `ftp`"),
        ("s3:/bucket/x.jsonl", "lost a slash"),
        ("hf://models/a/b", "must have the form"),
    ],
)
def test_a_wrong_url_is_refused_with_what_is_right(files, said, tokenizer_dir):
    with pytest.raises(fastpack.OptionError, match=said):
        rows(files, tokenizer_dir)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"storage": 3}, "must be a dict"),
        ({"storage": {"timeout": "soon"}}, "must be a time"),
        ({"storage": {"max_retries": "-1"}}, "must be a number"),
        ({"storage": fastpack.Storage(block_cache="much")}, "20GB"),
    ],
)
def test_a_wrong_option_is_refused(options, said, texts, tokenizer_dir):
    with (
        serving(texts) as server,
        pytest.raises((fastpack.OptionError, fastpack.OptionTypeError), match=said),
    ):
        rows(f"{server.url}/0.jsonl", tokenizer_dir, **options)


@pytest.mark.parametrize(
    "page", ["<!DOCTYPE HTML><title>Directory listing</title>", "\n<html><body>Log in</body></html>"]
)
def test_a_page_of_html_is_no_file_of_records(page, tmp_path, tokenizer_dir):
    """Servers send one for a folder, for a login, and for an error that they do not call one."""
    (tmp_path / "index.html").write_text(page)
    (tmp_path / "page.txt").write_text(page)
    with serving(tmp_path) as server:
        with pytest.raises(
            fastpack.OptionError, match=r"index\.html` is a page of HTML.*give the URL of each file"
        ):
            rows(f"{server.url}/index.html", tokenizer_dir)
        named_as_text = rows(f"{server.url}/page.txt", tokenizer_dir)
    assert named_as_text == rows(tmp_path / "page.txt", tokenizer_dir)
