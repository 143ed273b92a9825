"""The files of inputs: regular files, each found once, within the folders that were named."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from pace import paced

import fastpack

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links and pipes as POSIX has them")

TOKENIZER = ROOT / "examples" / "tokenizer"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"text": text}) + "\n")
    return path


def read(files: object, **options: Any) -> list[str]:
    """The texts that are read, in their order."""
    seen: list[str] = []

    def note(batch: Any) -> list[bool]:
        seen.extend(batch["text"].to_pylist())
        return [True] * batch.num_rows

    fastpack.pack_files(files, TOKENIZER, max_length=64, filter=note, **options)  # type: ignore[call-overload]
    return seen


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Folders with a file each, and links that lead around, out and to files that are there already."""
    for name in ("b/c", "b", "a", "z/y/x"):
        write(tmp_path / "tree" / name / "data.jsonl", name)
    write(tmp_path / "other" / "data.jsonl", "other")
    (tmp_path / "tree" / "b" / "up").symlink_to(tmp_path / "tree")
    (tmp_path / "tree" / "0").symlink_to(tmp_path / "tree" / "z")
    (tmp_path / "tree" / "a" / "out").symlink_to(tmp_path / "other")
    return tmp_path / "tree"


def test_two_stars_follow_links_but_enter_no_folder_twice(tree):
    assert read(tree / "**" / "*.jsonl") == ["a", "other", "b/c", "b", "z/y/x"]
    assert read(tree / "*" / "**" / "**" / "data.jsonl") == ["a", "other", "b/c", "b", "z/y/x"]


def test_a_folder_that_links_lead_around_in_is_read_once(tree):
    assert read(tree, reading=fastpack.Reading(recursive=True)) == ["a", "other", "b/c", "b", "z/y/x"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*/data.jsonl", ["a", "b"]),
        ("./[ab]/./data.json?", ["a", "b"]),
        ("{b,a}/data.jsonl", ["b", "a"]),
        ("a/../b/*.jsonl", ["b"]),
        ("b/c/data.jsonl", ["b/c"]),
        ("**/c/*", ["b/c"]),
        ("z/**/data.jsonl", ["z/y/x"]),
    ],
)
def test_a_pattern_gives_its_files_in_order(pattern, expected, tree, monkeypatch):
    monkeypatch.chdir(tree)
    assert read(pattern) == expected
    assert read(str(tree / pattern)) == expected


@pytest.fixture
def odd(tmp_path: Path) -> dict[str, Path]:
    """Paths of things that are not regular files, by kind."""
    os.mkfifo(tmp_path / "pipe.jsonl")
    os.mkfifo(tmp_path / "tokenizer.json")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "socket.jsonl"))
    listening.close()
    return {
        "pipe": tmp_path / "pipe.jsonl",
        "tokenizer": tmp_path / "tokenizer.json",
        "socket": tmp_path / "socket.jsonl",
        "device": Path("/dev/zero"),
        "folder": tmp_path,
    }


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
def test_what_is_no_regular_file_is_refused_as_an_input(kind, odd):
    for named in (odd[kind], [odd[kind]], str(odd[kind]).replace("e", "[e]", 1)):
        with pytest.raises(fastpack.FastpackError, match="regular file") as caught:
            read(named)
        assert odd[kind].name in str(caught.value)


@pytest.mark.timeout(20)
def test_a_pipe_in_a_folder_is_passed_over(odd, tmp_path):
    write(tmp_path / "data.jsonl", "a river")
    assert read(tmp_path) == ["a river"]


@pytest.mark.timeout(20)
def test_what_is_no_regular_file_is_refused_as_a_tokenizer(odd, tmp_path):
    data = write(tmp_path / "data.jsonl", "a river")
    for named in (odd["tokenizer"], odd["folder"], odd["device"]):
        with pytest.raises(fastpack.FastpackError, match="regular file"):
            fastpack.pack_files(data, named, max_length=64)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "tokenizer.json").write_bytes((TOKENIZER / "tokenizer.json").read_bytes())
    for name in ("tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"):
        os.mkfifo(folder / name)
        with pytest.raises(fastpack.FastpackError, match="regular file") as caught:
            fastpack.Tokenizer(folder)
        assert name in str(caught.value)
        (folder / name).unlink()


def saved(folder: Path, *names: str) -> Path:
    """A folder as `save_to_disk` leaves one, which names these files."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {"_data_files": [{"filename": name} for name in names], "_split": None}
    (folder / "state.json").write_text(json.dumps(state))
    return folder


@pytest.mark.parametrize(
    "name", ["../secret.jsonl", "{absolute}", "sub/../../secret.jsonl", "link.jsonl", "out/secret.jsonl"]
)
def test_a_saved_dataset_reads_nothing_outside_its_folder(name, tmp_path):
    secret = write(tmp_path / "secret.jsonl", "secret")
    folder = saved(tmp_path / "saved", name.format(absolute=secret))
    (folder / "link.jsonl").symlink_to(secret)
    (folder / "out").symlink_to(tmp_path)
    with pytest.raises(fastpack.OptionError, match="not in that folder") as caught:
        read(folder)
    assert str(folder) in str(caught.value)


def test_a_saved_dataset_in_the_cache_of_the_hub_is_read(tmp_path):
    blob = write(tmp_path / "models--a--b" / "blobs" / "5f0c", "a river")
    folder = saved(tmp_path / "models--a--b" / "snapshots" / "9c1e" / "train", "data.jsonl")
    (folder / "data.jsonl").symlink_to(os.path.relpath(blob, folder))
    assert read(folder) == ["a river"]


@pytest.mark.timeout(20)
def test_a_pipe_that_a_saved_dataset_names_is_refused(tmp_path):
    folder = saved(tmp_path / "saved", "pipe.jsonl")
    os.mkfifo(folder / "pipe.jsonl")
    with pytest.raises(fastpack.FastpackError, match="regular file"):
        read(folder)


SEARCH = """
import fastpack, sys, time
try:
    fastpack.pack_files(sys.argv[1], sys.argv[2], max_length=64)
except KeyboardInterrupt:
    print("interrupted", time.monotonic())
except fastpack.FastpackError as error:
    print("ended", time.monotonic(), error)
"""


@pytest.mark.alone
def test_ctrl_c_is_heard_while_files_are_looked_for(tmp_path):
    # Every name fits the first part, and a folder behind it is looked for in vain: no file is ever found.
    for number in range(300):
        folder = tmp_path / f"{number:03}"
        folder.mkdir()
        for other in range(100):
            (folder / f"{other:02}").mkdir()
    pattern = "/".join([str(tmp_path), "**", *["*", "..", ".."] * 6, "**", "*", "nothing.jsonl"])
    process = subprocess.Popen(
        [sys.executable, "-c", SEARCH, pattern, str(TOKENIZER)], stdout=subprocess.PIPE
    )
    time.sleep(2)
    with paced() as machine:
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=30)[0].split()
    assert said[0] == b"interrupted", said
    assert float(said[1]) - sent < 0.5 * machine.slowness


MEMORY = """
import fastpack, resource, sys
table = fastpack.pack_files(sys.argv[1], sys.argv[2], max_length=1024)
print(fastpack.Report.of(table).documents.kept, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.alone
@pytest.mark.skipif(sys.platform != "linux", reason="memory is told in KiB by Linux")
def test_a_file_takes_less_than_a_kilobyte_of_memory(tmp_path):
    taken = {}
    for count in (2_000, 12_000):
        folder = tmp_path / str(count)
        folder.mkdir()
        for number in range(count):
            (folder / f"part-{number:06}.jsonl").write_text('{"text": "a river"}\n')
        command = [sys.executable, "-c", MEMORY, str(folder), str(TOKENIZER)]
        said = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.split()
        assert int(said[0]) == count
        taken[count] = int(said[1])
    assert (taken[12_000] - taken[2_000]) * 1024 / 10_000 < 1_000


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes as POSIX has them")
@pytest.mark.parametrize(
    "arguments", [["inspect", "PIPE"], ["scan", "--sources", "PIPE"], ["pack", "--config", "PIPE"]]
)
def test_the_command_line_waits_for_no_pipe(arguments, tmp_path):
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    command = [sys.executable, "-m", "fastpack", *(str(pipe) if it == "PIPE" else it for it in arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode in {1, 2}
    assert "is no regular file" in done.stderr or "is no file that can be looked into" in done.stderr
