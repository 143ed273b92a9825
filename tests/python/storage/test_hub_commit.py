"""`output="hf://datasets/ORG/NAME"`: one commit of the finished folder, by a server that answers as the hub does."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import pickle
import socket
import subprocess
import sys

import pytest
from conftest import conversation
from containers import lines
from web_server import serving

import fastpack

TOKEN = "hf_" + "b" * 34

COMMIT = "c" * 40


class Hub:
    """One data set of the hub: its files, its commits, and the uploads for the next one."""

    def __init__(self, server, refuses=None):
        self.server = server
        self.refuses = refuses
        self.repeats = False
        self.files, self.commits, self.uploads = {}, [], {}
        # The number of the commit that changed each file last.
        self.changed = {}
        server.pages = {
            r"/upload/\w+": self.upload,
            r"/api/repos/create": self.create,
            r"/api/validate-yaml": lambda _: self.told({"errors": [], "warnings": []}),
            r"/api/datasets/org/packed/preupload/.*": self.preupload,
            r"/datasets/org/packed.git/info/lfs/objects/batch": self.batch,
            r"/api/datasets/org/packed/commit/.*": self.commit,
            r"/api/datasets/org/packed(/revision/.*|/tree/.*|\?.*)?": self.about,
            r"/datasets/org/packed/resolve/.*": self.resolve,
        }

    def told(self, answer, status=200):
        return status, {"Content-Type": "application/json"}, json.dumps(answer).encode()

    def create(self, handler):
        if handler.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.told({"error": "Invalid username or password."}, 401)
        return self.told({"url": f"{self.server.url}/datasets/org/packed", "name": "org/packed"})

    def preupload(self, handler):
        asked = json.loads(handler.body)["files"]
        mode = {True: "lfs", False: "regular"}
        files = [
            {"path": it["path"], "uploadMode": mode[it["path"].endswith(".arrow")], "shouldIgnore": False}
            for it in asked
        ]
        return self.told({"files": files})

    def batch(self, handler):
        def uploaded(it):
            href = f"{self.server.url}/upload/{it['oid']}"
            return {"oid": it["oid"], "size": it["size"], "actions": {"upload": {"href": href}}}

        asked = json.loads(handler.body)["objects"]
        return self.told({"transfer": "basic", "objects": [uploaded(it) for it in asked]})

    def upload(self, handler):
        self.uploads[handler.path.rpartition("/")[2]] = handler.body
        return 200, {}, b""

    def commit(self, handler):
        if self.refuses:
            return self.told({"error": self.refuses}, 403)
        new = dict(self.files)
        for line in map(json.loads, handler.body.splitlines()):
            value = line["value"]
            if line["key"] == "file":
                new[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                content = self.uploads[value["oid"]]
                assert hashlib.sha256(content).hexdigest() == value["oid"]
                new[value["path"]] = content
            elif line["key"] == "deletedFile":
                del new[value["path"]]
        for name, content in new.items():
            if self.files.get(name) != content:
                self.changed[name] = len(self.commits)
        self.files = new
        self.commits.append(handler.body)
        url = f"{self.server.url}/datasets/org/packed/commit/{COMMIT}"
        return self.told({"success": True, "commitOid": COMMIT, "commitUrl": url})

    def about(self, handler):
        if "/tree/" in handler.path:
            is_expanded = "expand=true" in handler.path.lower()
            status, headers, body = self.told([self.entry(name, is_expanded) for name in self.files])
            # A list without end: its next page is the same.
            more = {"Link": f'<{self.server.url}{handler.path}>; rel="next"'} if self.repeats else {}
            return status, headers | more, body
        files = [{"rfilename": name} for name in self.files]
        return self.told({"id": "org/packed", "sha": COMMIT, "siblings": files, "private": False, "tags": []})

    def entry(self, name, is_expanded):
        entry = {"type": "file", "path": name, "size": len(self.files[name]), "oid": "0"}
        if not is_expanded:
            return entry
        number = self.changed.get(name, 0)
        last = {"id": f"{number:040}", "title": "", "date": f"2026-11-30T10:00:{number:02}.000Z"}
        return {**entry, "lastCommit": last}

    def resolve(self, handler):
        name = handler.path.partition("?")[0].split("/", 6)[6]
        if name not in self.files:
            return 404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT}, b""
        head = {"ETag": '"0"', "X-Repo-Commit": COMMIT, "Content-Length": str(len(self.files[name]))}
        return 200, head, self.files[name]


@pytest.fixture
def hub(tmp_path):
    with serving(tmp_path) as server:
        yield Hub(server)


@pytest.fixture
def chats(tmp_path):
    (tmp_path / "chats.jsonl").write_bytes(lines([conversation(number) for number in range(80)]))
    return tmp_path / "chats.jsonl"


def pack(hub, files, tokenizer, output, work, **options):
    """Packs in a process that knows the server as the hub; returns its output."""
    script = (
        "import json, pickle, sys, fastpack\n"
        "files, output, options = pickle.loads(bytes.fromhex(sys.argv[1]))\n"
        "try:\n"
        "    report = fastpack.pack_dir(files, output, **options)\n"
        "    print(json.dumps(['', str(report)]))\n"
        "except Exception as error:\n"
        "    print(json.dumps([type(error).__name__, str(error)]))\n"
    )
    environment = {
        **os.environ,
        "HF_ENDPOINT": hub.server.url,
        "HF_TOKEN": TOKEN,
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    }
    environment.pop("HF_HUB_OFFLINE", None)
    options = {
        "tokenizer": str(tokenizer),
        "max_length": 256,
        "format": fastpack.Format(shard_size="20KB"),
        "storage": fastpack.Storage(work_dir=str(work)),
        **options,
    }
    done = subprocess.run(
        [sys.executable, "-c", script, pickle.dumps([str(files), output, options]).hex()],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert TOKEN not in done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_finished_folder_is_one_commit(hub, chats, tokenizer_dir, tmp_path):
    hub.files[".gitattributes"] = b"*.arrow filter=lfs\n"
    error, said = pack(hub, chats, tokenizer_dir, "hf://datasets/org/packed", tmp_path / "work")
    assert not error, said
    assert len(hub.commits) == 1
    fastpack.pack_dir(
        chats,
        tmp_path / "here",
        tokenizer=tokenizer_dir,
        max_length=256,
        format=fastpack.Format(shard_size="20KB"),
    )
    shards = {path.name: path.read_bytes() for path in (tmp_path / "here").glob("*.arrow")}
    assert len(shards) > 1
    assert hub.files.keys() == {".gitattributes", "manifest.json", "report.json", *shards}
    assert {name: hub.files[name] for name in shards} == shards
    for name in ("manifest.json", "report.json"):
        assert TOKEN.encode() not in hub.files[name]
    # The commit holds a folder of packed rows.
    fetched = tmp_path / "fetched"
    fetched.mkdir()
    for name, content in hub.files.items():
        (fetched / name).write_bytes(content)
    assert not fastpack.verify(fetched).problems
    assert not [path for path in (tmp_path / "work").rglob("*") if path.is_file()]


def test_an_output_of_fastpack_on_the_hub_is_replaced_only_if_it_is_asked_for(
    hub, chats, tokenizer_dir, tmp_path
):
    output = "hf://datasets/org/packed/rows"
    error, said = pack(hub, chats, tokenizer_dir, output, tmp_path / "work")
    assert not error, said
    before = dict(hub.files)
    assert all(name.startswith("rows/") for name in before)
    error, said = pack(hub, chats, tokenizer_dir, output, tmp_path / "work", max_length=512)
    assert error == "OutputError"
    assert '`exists="overwrite"` replaces it' in said
    assert hub.files == before
    hub.files["notes.txt"] = b"mine"
    error, said = pack(
        hub,
        chats,
        tokenizer_dir,
        output,
        tmp_path / "work",
        max_length=512,
        format=fastpack.Format(shard_size="1GB"),
        exists="overwrite",
    )
    assert not error, said
    assert hub.files["notes.txt"] == b"mine"
    # No shard of the output that was replaced is left.
    assert {name for name in hub.files if name.endswith(".arrow")} == {"rows/train-00000.arrow"}
    assert len(hub.commits) == 2


def test_a_shard_that_was_changed_since_is_not_replaced(hub, chats, tokenizer_dir, tmp_path):
    output = "hf://datasets/org/packed"
    error, said = pack(hub, chats, tokenizer_dir, output, tmp_path / "work")
    assert not error, said
    shard = next(name for name in hub.files if name.endswith(".arrow"))
    # Somebody else's commit, of as many bytes.
    hub.files[shard] = hub.files[shard][::-1]
    hub.changed[shard] = 1
    before = dict(hub.files)
    again = {"max_length": 512, "exists": "overwrite"}
    error, said = pack(hub, chats, tokenizer_dir, output, tmp_path / "work", **again)
    assert error == "OutputError"
    assert f"that have changed since: `{shard}`" in said
    assert hub.files == before


def test_a_commit_that_the_hub_refuses_is_one_error_and_the_next_run_packs_nothing_again(
    hub, chats, tokenizer_dir, tmp_path
):
    hub.refuses = "You have no right to write here."
    error, said = pack(hub, chats, tokenizer_dir, "hf://datasets/org/packed", tmp_path / "work")
    assert error == "StorageError"
    assert "the hub takes no commit" in said
    assert "hf://datasets/org/packed" in said
    assert len(said.splitlines()) == 1
    assert not hub.files
    left = {path: path.stat().st_mtime_ns for path in (tmp_path / "work").rglob("*.arrow")}
    assert left
    hub.refuses = None
    error, said = pack(hub, chats, tokenizer_dir, "hf://datasets/org/packed", tmp_path / "work")
    assert not error, said
    assert {path.name for path in left} <= hub.files.keys()
    assert len(hub.commits) == 1


def test_after_a_refused_commit_other_options_are_packed_in_the_same_work_dir(
    hub, chats, tokenizer_dir, tmp_path
):
    hub.refuses = "You have no right to write here."
    output = "hf://datasets/org/packed"
    assert pack(hub, chats, tokenizer_dir, output, tmp_path / "work", max_length=512)[0] == "StorageError"
    hub.refuses = None
    error, said = pack(
        hub, chats, tokenizer_dir, output, tmp_path / "work", format=fastpack.Format(shard_size="1GB")
    )
    assert not error, said
    fastpack.pack_dir(chats, tmp_path / "here", tokenizer=tokenizer_dir, max_length=256)
    shards = {path.name: path.read_bytes() for path in (tmp_path / "here").glob("*.arrow")}
    assert {name: it for name, it in hub.files.items() if name.endswith(".arrow")} == shards


@pytest.mark.parametrize(
    "lost",
    [
        r"/api/repos/create",
        r"/api/datasets/org/packed(/revision/.*)?",
        r"/datasets/org/packed/resolve/.*",
    ],
)
def test_a_lost_connection_is_one_error_that_names_the_output(hub, chats, tokenizer_dir, tmp_path, lost):
    def break_off(handler):
        handler.connection.shutdown(socket.SHUT_RDWR)
        return 200, {}, b""

    # The first that matches answers.
    hub.server.pages = {lost: break_off} | {page: it for page, it in hub.server.pages.items() if page != lost}
    error, said = pack(hub, chats, tokenizer_dir, "hf://datasets/org/packed", tmp_path / "work")
    assert error == "StorageError", said
    assert "hf://datasets/org/packed" in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("output", ["hf://org/packed", "hf://datasets/packed", "hf://datasets/org/a/b?c=d"])
def test_another_form_is_refused_with_the_right_one(output, hub, chats, tokenizer_dir, tmp_path):
    error, said = pack(hub, chats, tokenizer_dir, output, tmp_path / "work")
    assert error == "OptionError"
    assert "hf://datasets/ORG/NAME" in said


def test_a_list_that_repeats_itself_is_refused(hub, chats, tokenizer_dir, tmp_path):
    output = "hf://datasets/org/packed"
    error, said = pack(hub, chats, tokenizer_dir, output, tmp_path / "work")
    assert not error, said
    before = dict(hub.files)
    hub.repeats = True
    again = {"max_length": 512, "exists": "overwrite"}
    error, said = pack(hub, chats, tokenizer_dir, output, tmp_path / "work", **again)
    assert error == "StorageError"
    assert "twice, so its list may have no end" in said
    assert output in said
    assert hub.files == before


def test_several_processes_are_refused_one_commit(hub, chats, tokenizer_dir, tmp_path):
    ranks = {"groups": fastpack.Groups("1KB", rank=0, world_size=2)}
    error, said = pack(hub, chats, tokenizer_dir, "hf://datasets/org/packed", tmp_path / "work", **ranks)
    assert error == "OptionError"
    assert "`groups.rank`: cannot be given with an output on the hub" in said
    assert not hub.files
    assert not (tmp_path / "work").exists()
