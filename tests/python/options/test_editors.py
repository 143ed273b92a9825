"""Editors and type checkers know the public functions: they complete, accept and reject."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys

import pytest
from conftest import ROOT

import fastpack

pytest.importorskip("mypy", reason="mypy is in the dependency group `check`")
pytest.importorskip("pyright", reason="pyright is in the dependency group `check`")

ACCEPTED = """\
import pyarrow as pa

import fastpack

table: pa.Table = fastpack.pack_files("chat.jsonl", "tokenizer", max_length=512)
rows: pa.Table = fastpack.pack_files("text.jsonl", "tokenizer", strategy="none")
splits: fastpack.Splits = fastpack.pack_files("chat.jsonl", "tokenizer", max_length=512, validation=0.1)
report: fastpack.Report = fastpack.pack_dir("chat.jsonl", "packed", tokenizer="tokenizer", max_length=512)
"""

REJECTED = [
    ('fastpack.pack_files("a", "t", max_lenght=512)', "max_lenght"),
    ('fastpack.pack_files("a", "t", max_length="512")', "max_length"),
    ('fastpack.pack_dir("a", "out", tokenizer="t", max_length=512, strategy="bfd")', "strategy"),
    ('fastpack.stream("a", "t", max_length=512, strategy="mix")', "strategy"),
]


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """A program that is right, and one with a wrong call in each line."""
    folder = tmp_path_factory.mktemp("programs")
    right, wrong = folder / "right.py", folder / "wrong.py"
    right.write_text(ACCEPTED, encoding="utf-8")
    wrong.write_text("import fastpack\n" + "".join(f"{call}\n" for call, _ in REJECTED), encoding="utf-8")
    return right, wrong


@pytest.fixture(scope="module", params=["mypy", "pyright"])
def complaints(request, programs):
    """The messages of a type checker about each of both programs."""
    checkers = {
        "mypy": ["-m", "mypy"],
        "pyright": ["-m", "pyright", "--pythonpath", sys.executable],
    }
    done = subprocess.run(
        [sys.executable, *checkers[request.param], *map(str, programs)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in {0, 1}, done.stderr
    return [[line for line in done.stdout.splitlines() if f"{path.name}:" in line] for path in programs]


def test_calls_as_the_docs_have_them_are_accepted(complaints):
    assert [line for line in complaints[0] if "error" in line] == []


@pytest.mark.parametrize(("number", "named"), [(at, named) for at, (_, named) in enumerate(REJECTED, 2)])
def test_wrong_calls_are_rejected_by_the_name_of_the_option(number, named, complaints):
    found = [line for line in complaints[1] if f"wrong.py:{number}:" in line and "error" in line]
    assert found, "the checker accepts the call"
    assert any(named in line or "No overload" in line or "no-matching-overload" in line for line in found)


class Server:
    """A language server, asked over its standard input."""

    def __init__(self, process):
        self._process, self._number = process, 0

    def tell(self, method, parameters, number=None):
        message = {"jsonrpc": "2.0", "method": method, "params": parameters}
        body = json.dumps(message if number is None else message | {"id": number}).encode()
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._process.stdin.flush()

    def ask(self, method, parameters):
        self._number += 1
        self.tell(method, parameters, self._number)
        while True:
            length = 0
            while (line := self._process.stdout.readline().strip()) != b"":
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            answer = json.loads(self._process.stdout.read(length))
            if answer.get("id") == self._number and "method" not in answer:
                return answer["result"]
            if "method" in answer and "id" in answer:
                # The server asks for settings of its own; there are none.
                reply = json.dumps({"jsonrpc": "2.0", "id": answer["id"], "result": None}).encode()
                self._process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(reply), reply))
                self._process.stdin.flush()


def test_an_editor_completes_every_option(tmp_path):
    call = 'fastpack.pack_dir("a", '
    path = tmp_path / "program.py"
    path.write_text(f"import fastpack\n\n{call})\n", encoding="utf-8")
    settings = {"extraPaths": [str(ROOT / "python")]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    server_process = subprocess.Popen(
        [sys.executable, "-m", "pyright.langserver", "--stdio"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with server_process as process:
        server = Server(process)
        folders = [{"uri": tmp_path.as_uri(), "name": "programs"}]
        server.ask("initialize", {"processId": None, "workspaceFolders": folders, "capabilities": {}})
        server.tell("initialized", {})
        document = {"uri": path.as_uri(), "languageId": "python", "version": 1}
        server.tell("textDocument/didOpen", {"textDocument": document | {"text": path.read_text()}})
        place = {"textDocument": {"uri": path.as_uri()}, "position": {"line": 2, "character": len(call)}}
        offered = server.ask("textDocument/completion", place)
        process.kill()
    items = offered["items"] if isinstance(offered, dict) else offered
    labels = {item["label"].removesuffix("=") for item in items}
    assert set(inspect.signature(fastpack.pack_dir).parameters) - {"files"} <= labels
