"""Editors and type checkers know the public functions: they complete, accept and reject."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys

import pytest
from conftest import ROOT

import fastpack

pytest.importorskip("mypy", reason="mypy is in the dependency group `check`")
pytest.importorskip("pyright", reason="pyright is in the dependency group `check`")

ACCEPTED = """\
from pathlib import Path

import pyarrow as pa

import fastpack

CHOSEN = fastpack.MaskedLM(probability=0.2, whole_words=True)

table: pa.Table = fastpack.pack_files("chat.jsonl", "tokenizer", max_length=512)
rows: pa.Table = fastpack.pack_files(Path("texts").glob("*.jsonl"), "tokenizer", strategy="none")
masked: pa.Table = fastpack.pack_files("text.jsonl", "tokenizer", max_length=512, objective=CHOSEN, columns=["labels"])
splits: fastpack.Splits = fastpack.pack_files("chat.jsonl", "tokenizer", max_length=512, validation=0.1)
report: fastpack.Report = fastpack.pack_dir("chat.jsonl", "packed", tokenizer="tokenizer", max_length=512)
balanced: fastpack.Report = fastpack.pack_dir(
    ["a.jsonl", {"path": "b.jsonl", "limit": 3}],
    "packed",
    tokenizer=fastpack.Tokenizer("tokenizer"),
    max_length=512,
    order=fastpack.Balanced(8, on_remainder="pad"),
    overlong=fastpack.Truncate(side="left"),
    padding=fastpack.Padding(128, side="left"),
    format=fastpack.Format("parquet", compression="snappy"),
    groups=fastpack.Groups("1GB", rank="auto", world_size="auto"),
    weights={"web": 3.0, "code": 1.0},
)
fields: pa.Table = fastpack.pack_files("a", "t", max_length=8, objective="generation", columns=["prompt"])
carried: pa.Table = fastpack.pack_table(table, max_length=8, columns=["input_ids", "my_number"])
halves: fastpack.Splits = fastpack.pack_table(table, max_length=8, validation="1%")
written: fastpack.Report = fastpack.pack_table(table, max_length=8, output="packed", keep_tokens=True)
made: pa.Table = fastpack.pack_records([{"text": "a"}], "tokenizer", max_length=8)
parts: fastpack.Splits = fastpack.pack_records([{"text": "a"}], "tokenizer", max_length=8, validation=1)
folder: fastpack.Report = fastpack.pack_records([{"text": "a"}], "tokenizer", max_length=8, output="packed", memory="1GB")
stream: fastpack.PackStream = fastpack.stream("a.jsonl", "tokenizer", max_length=8, ranks=fastpack.Ranks(rank=0, world_size=8))
found: fastpack.ScanReport = fastpack.scan("a.jsonl", "tokenizer", max_length=[8, 16], sample=100)
plan: fastpack.Plan = fastpack.plan([5, 3], max_length=8, strategy=fastpack.Heap(max_documents=2))
again: fastpack.Report = fastpack.repack("packed", "again", max_length=8, exists=fastpack.Exists("overwrite", wait=False))
"""

BEGINNING = 'import fastpack, pyarrow as pa; TABLE = pa.table({}); RECORDS = [{"text": "a"}]; LENGTHS = [3]'

GIVEN = {
    "pack_dir": '"a", "out"',
    "pack_files": '"a", "t"',
    "pack_records": "RECORDS",
    "pack_table": "TABLE",
    "plan": "LENGTHS",
    "repack": '"packed", "out"',
    "scan": '"a", "t"',
    "stream": '"a", "t"',
}
"""The arguments without a keyword."""

REJECTED = [
    *((f"fastpack.{name}({given}, max_lenght=512)", "max_lenght") for name, given in GIVEN.items()),
    *((f'fastpack.{name}({given}, max_length="512")', "max_length") for name, given in GIVEN.items()),
    *(
        (f'fastpack.{name}({given}, max_length=8, strategy="bfd")', "strategy")
        for name, given in GIVEN.items()
    ),
    # Options of other functions.
    ('fastpack.stream("a", "t", max_length=512, strategy="mix")', "strategy"),
    ('fastpack.stream("a", "t", max_length=512, order="input")', "order"),
    ('fastpack.pack_dir("a", "out", max_length=512, shuffle=True)', "shuffle"),
    ("fastpack.plan(LENGTHS, max_length=512, padding=8)", "padding"),
    ('fastpack.pack_files("a", "t", max_length=512, format="parquet")', "format"),
    (
        'fastpack.pack_dir("a", "o", tokenizer="t", max_length=512, columns=["my_number"])',
        "columns|List item",
    ),
    # Options of a folder, without one.
    ("fastpack.pack_table(TABLE, max_length=8, keep_tokens=True)", "keep_tokens"),
    ('fastpack.pack_table(TABLE, max_length=8, format="parquet", validation=1)', "format"),
    ('fastpack.pack_records(RECORDS, "t", max_length=8, exists="overwrite")', "exists"),
    # Values without a field that they need, or with one that they lack.
    ("fastpack.Balanced()", "ranks"),
    ("fastpack.MaskedLM(probabilty=0.2)", "probabilty"),
    ('fastpack.MaskedLM(probability="0.2")', "probability"),
    ("fastpack.CausalLM(probability=0.2)", "probability"),
    ("fastpack.Mix(drop_last=True)", "drop_last"),
    ('fastpack.Truncate(side="up")', "side"),
    ('fastpack.Preference(form="ppo")', "form"),
    ('fastpack.Format(name="csv")', "name"),
    # A value of another option.
    ('fastpack.pack_dir("a", "out", max_length=8, order=fastpack.Truncate())', "order"),
    ('fastpack.pack_dir("a", "out", max_length=8, order="balanced")', "order"),
    ('fastpack.pack_dir("a", "out", max_length=8, objective=fastpack.Mix())', "objective"),
    ('fastpack.pack_files("a", "t", max_length=8, strategy=fastpack.MaskedLM())', "strategy"),
    # An option without its keyword.
    ('fastpack.pack_files("a", "t", 512)', "positional"),
]


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """A program that is right, and one with a wrong call in each line."""
    folder = tmp_path_factory.mktemp("programs")
    right, wrong = folder / "right.py", folder / "wrong.py"
    # The wrong calls with their faults mended.
    mended = "".join(f"fastpack.{name}({given}, max_length=8)\n" for name, given in GIVEN.items())
    right.write_text(f"{ACCEPTED}\n{BEGINNING}\n{mended}", encoding="utf-8")
    calls = "".join(f"{call}\n" for call, _ in REJECTED)
    wrong.write_text(f"{BEGINNING}\n{calls}", encoding="utf-8")
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
    # mypy names the function alone if a value lacks a field, or too much is given.
    assert any(re.search(rf"{named}|overload|[Tt]oo many", line) for line in found), found


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


PLACES = {
    f"fastpack.{name}({given}, ": set(inspect.signature(getattr(fastpack, name)).parameters)
    - {"files", "records", "table", "lengths", "source"}
    for name, given in GIVEN.items()
} | {
    f"fastpack.{value}(": set(inspect.signature(getattr(fastpack, value)).parameters)
    for value in ("MaskedLM", "Balanced", "Format", "Ranks", "TrainOn")
}
"""The text before a cursor, and the keywords that an editor offers there."""


@pytest.fixture(scope="module")
def offered(tmp_path_factory):
    """The labels that an editor offers in each of the places."""
    folder = tmp_path_factory.mktemp("editor")
    # A cursor behind a list would be offered the words of its entries.
    lines = [BEGINNING, *PLACES]
    path = folder / "program.py"
    path.write_text(
        "".join(f"{line})\n" if line in PLACES else f"{line}\n" for line in lines), encoding="utf-8"
    )
    settings = {"extraPaths": [str(ROOT / "python")]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    server_process = subprocess.Popen(
        [sys.executable, "-m", "pyright.langserver", "--stdio"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    labels = {}
    with server_process as process:
        server = Server(process)
        folders = [{"uri": folder.as_uri(), "name": "programs"}]
        server.ask("initialize", {"processId": None, "workspaceFolders": folders, "capabilities": {}})
        server.tell("initialized", {})
        document = {"uri": path.as_uri(), "languageId": "python", "version": 1}
        server.tell("textDocument/didOpen", {"textDocument": document | {"text": path.read_text()}})
        for number, before in enumerate(PLACES, 1):
            cursor = {"line": number, "character": len(lines[number])}
            place = {"textDocument": {"uri": path.as_uri()}, "position": cursor}
            answer = server.ask("textDocument/completion", place)
            items = answer["items"] if isinstance(answer, dict) else answer
            labels[before] = {item["label"].removesuffix("=") for item in items}
        process.kill()
    return labels


@pytest.mark.parametrize("before", PLACES)
def test_an_editor_completes_every_keyword(before, offered):
    assert PLACES[before]
    assert PLACES[before] <= offered[before]
