"""The pages of the documentation: command lines run, and what is written by commands is up to date."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys

import pytest
from conftest import ROOT

import fastpack

PAGES = [
    page
    for page in [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
    if "```console" in page.read_text(encoding="utf-8")
]


def test_there_are_pages_with_command_lines():
    assert {"first-steps", "fine-tune"} <= {page.stem for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_command_lines_of_a_page_run(page, tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    blocks = re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for line in "".join(blocks).splitlines():
        program, *arguments = shlex.split(line.removeprefix("$ "))
        assert program == "fastpack", line
        done = subprocess.run(
            [sys.executable, "-m", "fastpack", *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=os.environ | {"COLUMNS": "80"},
            check=False,
        )
        assert done.returncode == 0, (line, done.stderr)


def test_the_chart_shows_the_measured_tables():
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "chart.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_text_beside_the_chart_has_its_numbers():
    """Readers without eyes, and those of a page without pictures, are told the same."""
    bars = re.findall(r">(\d+)×<", (ROOT / "docs" / "ratios.svg").read_text(encoding="utf-8"))
    ratios = [int(bar) for bar in bars if bar != "1"]
    told = re.search(
        r"!\[.*?(\d+) to (\d+) times.*?(\d+) to (\d+) times", (ROOT / "README.md").read_text("utf-8")
    )
    assert told
    packing, tokenizing = ratios[:2], ratios[2:]
    expected = [min(packing), max(packing), min(tokenizing), max(tokenizing)]
    assert [int(number) for number in told.groups()] == expected


def test_every_public_name_is_on_the_page():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    shown = {place.rpartition(".")[2] for place in re.findall(r"::: (\S+)", page)}
    # Shown as a whole with the modules and classes that they belong to, or made by what is shown.
    elsewhere = {"Progress", "Splits", "Plan", "Verification", "__version__"}
    errors = {name for name in fastpack.__all__ if name.endswith("Error")}
    assert set(fastpack.__all__) - elsewhere - errors <= shown
    assert "errors" in shown
