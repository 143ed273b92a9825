"""The examples of docs/clusters.md, each run in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from conftest import ROOT

PAGE = (ROOT / "docs" / "clusters.md").read_text(encoding="utf-8")


def examples():
    """The sections of the page with code that `make test` cannot run, and their blocks."""
    for section in PAGE.split("\n## ")[1:]:
        blocks = re.findall(r"```python\n(?!>>>)(.*?)```\n(?:\n```text\n(.*?)```)?", section, flags=re.DOTALL)
        for number, (code, output) in enumerate(blocks):
            yield pytest.param(code, output, id=f"{section.splitlines()[0]}-{number}")


@pytest.mark.parametrize(("code", "output"), examples())
def test_an_example_prints_what_the_page_shows(code, output, tmp_path):
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
    assert output, "the page shows what an example prints"
    assert done.stdout.strip().splitlines()[-len(output.splitlines()) :] == output.strip().splitlines()
