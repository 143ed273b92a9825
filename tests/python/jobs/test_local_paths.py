"""A URL where a path of this machine is needed is refused by name, and nothing is written under its name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from campaign import tries
from conftest import conversation

import fastpack
from fastpack.options import OPTIONS
from fastpack.options.value import fields_of
from fastpack.streaming.server import StreamServer

if TYPE_CHECKING:
    from collections.abc import Callable

URLS = [
    "s3://user:hunter22@bucket/folder",
    "gs://bucket/folder",
    "https://host/folder?sig=hunter22",
    "hf://datasets/a/b",
    "file:///tmp/folder",
    Path("s3://bucket/folder"),
]


@pytest.fixture
def packed(write_jsonl: Callable[..., Path], tokenizer_dir: Path, tmp_path: Path) -> Path:
    path = write_jsonl([conversation(at) for at in range(4)])
    fastpack.pack_dir(path, tmp_path / "packed", tokenizer=tokenizer_dir, max_length=512, keep_tokens=True)
    return tmp_path / "packed"


CALLS: dict[str, Callable[[Any, Path, Path, Path], object]] = {
    "pack_files cache_dir": lambda url, data, tokenizer, _: fastpack.pack_files(
        data, tokenizer, max_length=64, cache_dir=url
    ),
    "pack_files block_cache": lambda url, data, tokenizer, _: fastpack.pack_files(
        data, tokenizer, max_length=64, cache_dir=url, storage=fastpack.Storage(block_cache="1GB")
    ),
    "pack_dir cache_dir": lambda url, data, tokenizer, packed: fastpack.pack_dir(
        data, packed.with_name("new"), tokenizer=tokenizer, max_length=64, cache_dir=url
    ),
    "pack_dir work_dir": lambda url, data, tokenizer, _: fastpack.pack_dir(
        data, "s3://bucket/x", tokenizer=tokenizer, max_length=64, storage=fastpack.Storage(work_dir=url)
    ),
    "pack_table cache_dir": lambda url, _, tokenizer, __: fastpack.pack_table(
        pa.table({"text": ["a"]}),
        tokenizer,
        max_length=64,
        cache_dir=url,
    ),
    "pack_records cache_dir": lambda url, _, tokenizer, __: fastpack.pack_records(
        [{"text": "a"}], tokenizer, max_length=64, cache_dir=url
    ),
    "stream cache_dir": lambda url, data, tokenizer, _: fastpack.stream(
        data, tokenizer, max_length=64, cache_dir=url
    ),
    "export output": lambda url, _, __, packed: fastpack.export(packed, url, format="numpy"),
    "read cache_dir": lambda url, *_: fastpack.read("s3://bucket/x", cache_dir=url),
    "Report.to_html": lambda url, _, __, packed: fastpack.Report.of(packed).to_html(url),
    "ScanReport.to_html": lambda url, data, tokenizer, _: fastpack.scan(
        data, tokenizer, max_length=64
    ).to_html(url),
    "hf.load": lambda url, *_: fastpack.hf.load(url),
    "load_config": lambda url, *_: fastpack.load_config(url),
    "a server's state": lambda url, data, tokenizer, packed: StreamServer(
        {"files": data, "tokenizer": tokenizer, "max_length": 64}, f"unix:{packed}.sock", state=url
    ),
}
"""Each call, with a URL in place of a path of this machine."""


@pytest.mark.parametrize("url", tries(URLS[:1], URLS), ids=str)
@pytest.mark.parametrize("call", CALLS)
def test_a_url_is_refused_by_name_where_a_path_of_this_machine_is_needed(
    call: str,
    url: Any,
    packed: Path,
    tokenizer_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    with pytest.raises(fastpack.OptionError, match="must be a path of this machine, not a URL") as refused:
        CALLS[call](url, tmp_path / "data.jsonl", tokenizer_dir, packed)
    said = str(refused.value)
    assert f"`{os.fspath(url).partition(':')[0]}://`; " in said
    assert "hunter22" not in said
    assert list(here.iterdir()) == []


LINES = [
    "pack {data} -t {tokenizer} -m 64 -o s3://bucket/x --storage.work-dir s3://bucket/y",
    "pack {data} -t {tokenizer} -m 64 -o new --cache-dir s3://bucket/y",
    "pack {data} -t {tokenizer} -m 64 -o new --html s3://bucket/y",
    "pack --config s3://bucket/recipe.toml",
    "scan {data} -t {tokenizer} -m 64 --html s3://bucket/y",
    "report {packed} --html s3://bucket/y",
    "report s3://bucket/y --card",
    "inspect {packed} --html s3://bucket/y",
    "index {data} -t {tokenizer} -m 64 --cache-dir s3://bucket/y",
    "stream {data} -t {tokenizer} -m 64 --to unix:a.sock --state s3://bucket/y",
]


@pytest.mark.parametrize("line", tries(LINES[:4], LINES))
def test_a_url_is_refused_on_the_command_line(
    line: str, packed: Path, tokenizer_dir: Path, tmp_path: Path
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    words = line.format(data=tmp_path / "data.jsonl", tokenizer=tokenizer_dir, packed=packed).split()
    done = subprocess.run(
        [sys.executable, "-m", "fastpack", *words],
        cwd=here,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "must be a path of this machine, not a URL, `s3://`" in done.stderr, done.stderr
    assert done.returncode == 2
    assert [path for path in here.rglob("*") if path.name.startswith("s3") or path.name == "y"] == []


def test_an_output_that_lost_a_slash_is_refused(
    packed: Path, tokenizer_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for call in (
        lambda: fastpack.pack_dir("data.jsonl", Path("s3://b/x"), tokenizer=tokenizer_dir, max_length=64),
        lambda: fastpack.repack(packed, Path("s3://b/x"), max_length=64),
        lambda: fastpack.status(Path("s3://b/x")),
    ):
        with pytest.raises(fastpack.OptionError, match="has lost a slash of s3://; give URLs as texts"):
            call()
    assert not (tmp_path / "s3:").exists()


def test_every_option_of_a_folder_is_tried() -> None:
    """The options that name a folder of this machine; another one belongs into the calls above."""
    fields = {f"{name}.{it.name}" for name in OPTIONS for it in fields_of(OPTIONS[name].kinds.values())}
    folders = {name for name in {*OPTIONS, *fields} if name.endswith("_dir")}
    assert folders == {"cache_dir", "storage.work_dir"}


def test_files_of_this_machine_need_no_folder_of_the_user(write_jsonl, tokenizer_dir, monkeypatch):
    """A container may run as a user without a home."""

    def homeless():
        message = "Could not determine home directory."
        raise RuntimeError(message)

    monkeypatch.setattr("fastpack.storage.remote_options._folder_of_user", homeless)
    path = write_jsonl([{"text": "one two three"}])
    assert fastpack.pack_files(path, tokenizer_dir, max_length=16).num_rows == 1
    with pytest.raises(RuntimeError, match="home"):
        fastpack.pack_files(path, tokenizer_dir, max_length=16, storage=fastpack.Storage(block_cache="1MB"))
