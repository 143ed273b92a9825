"""The plain Python of docs/topics/packing.md makes the rows that the library makes."""

from __future__ import annotations

import re
import sys

import pytest
from conftest import ROOT

import fastpack

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="transformers 5.24 needs Python 3.11")

PAGE = (ROOT / "docs" / "topics" / "packing.md").read_text(encoding="utf-8")


def program():
    """The one block of the page that imports transformers."""
    (block,) = [
        text for text in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "AutoTokenizer" in text
    ]
    return block


def rows_of(block):
    names = {}
    exec(compile(block, "docs/topics/packing.md", "exec"), names)
    return names["rows"]


def test_the_program_of_the_page_has_some_thirty_lines():
    lines = [line for line in program().splitlines() if line.strip() and not line.startswith("#")]
    assert 25 <= len(lines) <= 30


# Rows that hold several documents, rows that some documents are too long for, and one row for all.
@pytest.mark.parametrize("max_length", [64, 100, 512, 4096])
def test_the_program_of_the_page_makes_the_rows_of_the_library(monkeypatch, max_length):
    monkeypatch.chdir(ROOT)
    block = program().replace("max_length = 512", f"max_length = {max_length}")

    rows = rows_of(block)

    table = fastpack.pack_files(
        "examples/chat.jsonl", "examples/tokenizer", max_length=max_length, strategy="sequential"
    )
    assert f"max_length = {max_length}\n" in block
    assert table.to_pylist() == rows
    assert len(rows) > 0


def test_the_call_that_the_page_compares_with_is_the_one_that_is_compared():
    call = 'fastpack.pack_files("examples/chat.jsonl", "examples/tokenizer", max_length=512, strategy="sequential")'
    assert call in " ".join(PAGE.split())
