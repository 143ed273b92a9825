"""The scripts of the page about Ray, datatrove and Spark, each run in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from page_blocks import ROOT, blocks_of, pages_of


def scripts():
    """The scripts of the pages, each with its output."""
    for page in pages_of("cluster"):
        blocks = [block for block in blocks_of(page) if block.runs]
        for code, output in zip(blocks[::2], blocks[1::2], strict=True):
            assert (code.kind, output.kind) == ("python", "text"), code.name
            yield pytest.param(code.text, output.text, id=code.name)


@pytest.mark.parametrize(("code", "output"), scripts())
def test_a_script_prints_what_the_page_shows(code, output, tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    quiet = {"PYSPARK_PYTHON": sys.executable, "RAY_DEDUP_LOGS": "0", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | quiet,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().splitlines()[-len(output.splitlines()) :] == output.strip().splitlines()
