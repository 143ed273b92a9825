"""The command that a scan ends with runs as it stands, and packs what the scan counted."""

from __future__ import annotations

import inspect
import json
import re
import shlex
import subprocess
import sys

import pytest
from conftest import ROOT, conversation

import fastpack
from fastpack.cli.actions import _NO_LOSS
from fastpack.cli.next_command import _COUNTED

BAD = ['{"messages": [', '{"messages": "no list"}']


def short(batch):
    return [one(record) for record in batch.to_pylist()]


def one(record):
    return str(record["messages"]).count("o") % 3 < 2


FUNCTIONS = f"""
from functools import partial

{inspect.getsource(short)}
{inspect.getsource(one)}
def same(batch):
    return batch

class Callable:
    __hash__ = None
    def __call__(self, batch):
        return short(batch)

partly, nameless = partial(short), Callable()
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with 30 conversations, an empty one, and functions."""
    lines = [json.dumps({"messages": conversation(number)["messages"]}) for number in range(30)]
    (tmp_path / "good.jsonl").write_text("\n".join([*lines, '{"messages": []}']) + "\n")
    (tmp_path / "bad.jsonl").write_text("\n".join([*lines, *BAD]) + "\n")
    (tmp_path / "filters.py").write_text(FUNCTIONS)
    return tmp_path


def scanned(folder, tokenizer_dir, *arguments):
    """The command that a scan in a folder ends with; empty if it has none."""
    command = [sys.executable, "-m", "fastpack", "scan", *arguments, "-t", str(tokenizer_dir), "-m", "256"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    found = re.search(r"^next +(.+)$", done.stdout, re.MULTILINE)
    return found[1] if found else ""


def packed(folder, following):
    """The report of what a command packs in a folder."""
    words = shlex.split(following)
    assert words[0] == "fastpack"
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return fastpack.Report.of(folder / "packed")


def test_bad_records_are_skipped_as_the_scan_counted_them(folder, tokenizer_dir):
    following = scanned(folder, tokenizer_dir, "bad.jsonl")
    assert following.endswith(" -m 256 --on-bad-record skip")
    report = packed(folder, following)
    assert (report.documents.kept, sum(count.documents for count in report.dropped.values())) == (
        30,
        len(BAD),
    )


def test_records_that_are_counted_whatever_the_option_is_skip_nothing(folder, tokenizer_dir):
    following = scanned(folder, tokenizer_dir, "good.jsonl", "--filter", "filters.py:short")
    assert "--on-bad-record" not in following
    assert packed(folder, following).dropped.keys() == {"empty", "filtered"}


@pytest.mark.parametrize(
    "flags",
    [
        "--filter filters.py:short",
        "--filter filters:short",
        "--filter filters.py:partly",
        "--filter filters.py:one --filter.per record",
        "--map filters.py:same --filter filters.py:short",
    ],
)
def test_functions_are_named_as_they_were_typed(folder, tokenizer_dir, flags, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'python'}:{folder}")
    following = scanned(folder, tokenizer_dir, "bad.jsonl", *flags.split())
    for flag, words in re.findall(r"(\S+) (\S+)", flags):
        assert f"{flag} {words}" in following
    scan = fastpack.scan(folder / "bad.jsonl", tokenizer_dir, max_length=256, filter=short)
    report = packed(folder, following)
    assert report.documents.kept == scan.documents
    assert report.dropped["filtered"].documents == scan.lost["filtered"].documents > 0


def test_a_function_that_no_text_can_be_kept_for_ends_without_a_command(folder, tokenizer_dir):
    assert scanned(folder, tokenizer_dir, "good.jsonl", "--filter", "filters.py:nameless") == ""


def test_every_reason_is_decided_by_the_option_or_counted():
    """As the page of errors lists them, which has every reason."""
    page = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8").partition("## Reasons")[2]
    table = page.partition("These are counted, and are no errors.")[2].partition("\n\nThe `line`")[0]
    rows = re.findall(r"^\| (`.+?) \|", table, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == _COUNTED
    no_loss = table.partition("`max_lost` counts all but ")[2].partition(":")[0]
    assert set(re.findall(r"`(\w+)`", no_loss)) == _NO_LOSS
