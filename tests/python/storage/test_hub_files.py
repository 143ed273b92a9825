"""Data sets of the hub give the rows of their files, by a server on the loopback address."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import pytest
from conftest import sentence
from containers import lines
from web_server import serving

import fastpack

TOKEN = "hf_" + "a" * 34

FILES = {
    "plain": ["data.jsonl"],
    "splits": ["train.jsonl", "data/test.jsonl"],
    "configs": ["README.md", "en/train.jsonl", "de/train.jsonl", "de/test.jsonl"],
    "script": ["script.py", "README.md"],
}

CONFIGS = [
    {"config_name": "en", "data_files": "en/*.jsonl"},
    {
        "config_name": "de",
        "data_files": [
            {"split": "train", "path": ["de/train*"]},
            {"split": "test", "path": "de/test.jsonl"},
        ],
    },
]


@pytest.fixture
def hub(tmp_path):
    """A server that answers as the hub does, for the data sets of `FILES`."""
    folder = tmp_path / "hub"
    for number, (name, files) in enumerate(FILES.items()):
        for at, file in enumerate([*files, "default/train/0000.parquet"]):
            path = folder / "files" / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            records = [{"text": sentence(number * 1000 + at * 100 + line, 15)} for line in range(30)]
            path.write_bytes(lines(records))

    def about(handler):
        name = handler.path.split("/")[4]
        if name not in FILES:
            return 404, {"X-Error-Code": "RepoNotFound"}, b""
        converted = "convert" in handler.path
        files = ["default/train/0000.parquet"] if converted else FILES[name]
        info = {
            "id": f"org/{name}",
            "sha": ("b" if converted else "a") * 40,
            "siblings": [{"rfilename": file} for file in files],
            "cardData": {"configs": CONFIGS} if name == "configs" else {},
            "private": False,
            "disabled": False,
            "gated": False,
            "downloads": 0,
            "likes": 0,
            "tags": [],
        }
        return 200, {"Content-Type": "application/json"}, json.dumps(info).encode()

    def resolve(handler):
        if handler.headers.get("Authorization") != f"Bearer {TOKEN}":
            return 401, {}, b""
        _, _, _, name, _, _, *path = handler.path.split("/")
        return 302, {"Location": f"/files/{name}/{'/'.join(path)}?signature=s3cr3t"}, b""

    with serving(folder) as server:
        server.pages = {r"/api/datasets/.*": about, r"/datasets/org/.*/resolve/.*": resolve}
        yield server


def rows(hub, files, tokenizer, **options):
    """Packs in a process that knows the server as the hub."""
    script = (
        "import json, sys, fastpack\n"
        "files, tokenizer, options = json.loads(sys.argv[1])\n"
        "try:\n"
        "    table = fastpack.pack_files(files, tokenizer, max_length=512, **options)\n"
        "    said = [table.to_pydict(), [it.names for it in fastpack.Report.of(table).inputs]]\n"
        "except Exception as error:\n"
        "    said = [type(error).__name__, str(error)]\n"
        "print(json.dumps(said))\n"
    )
    environment = {**os.environ, "HF_ENDPOINT": hub.url, "HF_TOKEN": TOKEN, "HF_HUB_DISABLE_TELEMETRY": "1"}
    environment.pop("HF_HUB_OFFLINE", None)
    done = subprocess.run(
        [sys.executable, "-c", script, json.dumps([files, str(tokenizer), options])],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("hf://datasets/org/plain", "plain/data.jsonl"),
        ("hf://datasets/org/plain@main/data.jsonl", "plain/data.jsonl"),
        ("hf://datasets/org/plain/*.jsonl", "plain/data.jsonl"),
        ("hf://datasets/org/splits?split=test", "splits/data/test.jsonl"),
        ("hf://datasets/org/splits/data", "splits/data/test.jsonl"),
        ("hf://datasets/org/configs?config=en", "configs/en/train.jsonl"),
        ("hf://datasets/org/configs?config=de&split=test", "configs/de/test.jsonl"),
    ],
)
def test_a_data_set_gives_the_rows_of_its_files(name, file, hub, tokenizer_dir):
    found, names = rows(hub, name, tokenizer_dir)
    expected = fastpack.pack_files(hub.folder / "files" / file, tokenizer_dir, max_length=512).to_pydict()
    assert found == expected
    (((first, *_),)) = names
    repository, path = file.split("/", 1)
    assert first == f"hf://datasets/org/{repository}@{'a' * 40}/{path}"


@pytest.mark.parametrize(
    "name", ["hf://datasets/org/plain", "hf://datasets/org/plain/*.jsonl", "org/tokenizer"]
)
def test_a_lost_connection_is_an_error_that_names_what_was_wanted(name, hub, tokenizer_dir):
    def break_off(handler):
        handler.connection.shutdown(socket.SHUT_RDWR)
        return 200, {}, b""

    hub.pages = {r"/.*": break_off}
    is_tokenizer = name == "org/tokenizer"
    kind, message = rows(hub, "none.jsonl" if is_tokenizer else name, name if is_tokenizer else tokenizer_dir)
    assert kind == "InputNotFoundError", message
    assert "not to be had from the hub" in message
    assert name.removesuffix("/*.jsonl") in message
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hf://datasets/org/splits", "several splits"),
        ("hf://datasets/org/splits?split=none", "no split `none`"),
        ("hf://datasets/org/configs", "several configs"),
        ("hf://datasets/org/configs?config=de", "`train`, `test`"),
        ("hf://datasets/org/none", "not to be had"),
        ("hf://datasets/org/plain/none.jsonl", "no such file"),
        ("hf://datasets/plain?what=1", "must have the form"),
    ],
)
def test_what_a_name_leaves_open_is_refused(name, said, hub, tokenizer_dir):
    kind, message = rows(hub, name, tokenizer_dir)
    assert kind in {"OptionError", "InputNotFoundError"}
    assert said in message
    assert TOKEN not in message


def test_a_data_set_that_is_a_program_is_read_from_the_branch_of_its_rows(hub, tokenizer_dir):
    kind, message = rows(hub, "hf://datasets/org/script", tokenizer_dir, on_bad_record="error")
    # The server has lines under that name, and the message is about them.
    assert kind == "RecordError"
    assert f"hf://datasets/org/script@{'b' * 40}/default/train/0000.parquet" in message


def test_a_bare_name_is_refused_with_the_right_one(tokenizer_dir):
    with pytest.raises(fastpack.InputNotFoundError, match="hf://datasets/org/name"):
        fastpack.pack_files("org/name", tokenizer_dir, max_length=512)


def streamed(hub, tokenizer, state=None):
    """The state behind the second table of a stream in a process that knows the server as the hub, or the error."""
    script = (
        "import json, sys, fastpack\n"
        "tokenizer, state = json.loads(sys.argv[1])\n"
        "stream = fastpack.stream('hf://datasets/org/plain', tokenizer, max_length=64, batch_size=1, ranks=fastpack.Ranks(lanes=1))\n"
        "try:\n"
        "    if state: stream.load_state_dict(state)\n"
        "    next(stream), next(stream)\n"
        "    said = stream.state_dict()\n"
        "except Exception as error:\n"
        "    said = [type(error).__name__, str(error)]\n"
        "print(json.dumps(said))\n"
    )
    environment = {**os.environ, "HF_ENDPOINT": hub.url, "HF_TOKEN": TOKEN, "HF_HUB_DISABLE_TELEMETRY": "1"}
    environment.pop("HF_HUB_OFFLINE", None)
    call = [sys.executable, "-c", script, json.dumps([str(tokenizer), state])]
    done = subprocess.run(call, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_file_that_changed_in_its_middle_is_noticed_when_a_stream_is_resumed(hub, tokenizer_dir, tmp_path):
    path = tmp_path / "hub" / "files" / "plain" / "data.jsonl"
    records = [{"text": sentence(number, 15)} for number in range(400)]
    path.write_bytes(lines(records))
    state = streamed(hub, tokenizer_dir)
    assert isinstance(streamed(hub, tokenizer_dir, state), dict)
    size = path.stat().st_size
    records[200], records[201] = records[201], records[200]
    path.write_bytes(lines(records))
    hub.etags.clear()
    assert path.stat().st_size == size > 3 * 4096
    kind, said = streamed(hub, tokenizer_dir, state)
    assert kind == "OptionError"
    assert "is of another run; what differs: `source 0`" in said
