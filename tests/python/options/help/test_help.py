"""The help pages of the command line, at 80 columns, against golden files.

`make help-pages` writes them anew. How argparse sets a page differs a little from
one Python to the next, so they are compared on the Python that wrote them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fastpack.cli.commands import COMMANDS
from fastpack.cli.flags import TOPICS
from fastpack.options import OPTIONS

PAGES = Path(__file__).parent / "pages"
WRITTEN_BY = (3, 11)
WIDTH = 80


def help_page(*arguments, topic=None):
    environment = os.environ | {"COLUMNS": str(WIDTH), "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "fastpack", *arguments, "--help", *([topic] if topic else [])],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    return done.stdout


@pytest.mark.skipif(sys.version_info[:2] != WRITTEN_BY, reason="argparse of Python 3.11 wrote the pages")
@pytest.mark.parametrize("command", ["fastpack", *COMMANDS])
def test_help_is_the_golden_page(command):
    page = help_page(*([] if command == "fastpack" else [command]))
    path = PAGES / f"{command}.txt"
    if os.environ.get("FASTPACK_WRITE_HELP"):
        path.write_text(page, encoding="utf-8")
    assert page == path.read_text(encoding="utf-8"), "help has changed: `make help-pages` writes it anew"


@pytest.mark.skipif(sys.version_info[:2] != WRITTEN_BY, reason="argparse of Python 3.11 wrote the pages")
@pytest.mark.parametrize("topic", TOPICS)
def test_the_help_of_a_topic_is_the_golden_page(topic):
    page = help_page("pack", topic=topic)
    path = PAGES / "pack" / f"{topic}.txt"
    if os.environ.get("FASTPACK_WRITE_HELP"):
        path.write_text(page, encoding="utf-8")
    assert page == path.read_text(encoding="utf-8"), "help has changed: `make help-pages` writes it anew"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_fits_on_a_screen_and_a_half(command):
    # Of 50 lines.
    assert len(help_page(command).splitlines()) <= 80


@pytest.mark.parametrize("command", ["pack", "stream"])
def test_every_flag_of_a_command_is_in_the_help_or_in_that_of_a_topic(command):
    flags = re.compile(r"^  (?:-\w [A-Z]+(?: \[[A-Z ]+\.\.\.\])?, |-\w, )?(--[\w.-]+)", re.MULTILINE)
    shown = {flag for topic in TOPICS for flag in flags.findall(help_page(command, topic=topic))}
    shown |= {*flags.findall(help_page(command))}
    assert shown == {*flags.findall(help_page(command, topic="all"))}
    assert len(shown) > 40


@pytest.mark.parametrize("page", sorted(PAGES.rglob("*.txt")), ids=lambda page: page.stem)
def test_no_line_of_help_is_wider_than_the_terminal(page):
    lines = page.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > WIDTH] == []


def test_help_tells_the_default_of_every_option():
    page = " ".join(help_page("pack", topic="all").split())
    for option in OPTIONS.values():
        if (
            option.flag is None
            or option.flag.holds
            or "pack_dir" not in option.calls
            or option.name in {"output", "max_length"}
        ):
            continue
        long = option.flag.spelling.split()[-1]
        entry = re.search(rf"{re.escape(long)}\b(?:, --no-\S+)?(.*?)(?= --?[a-z]|\Z)", page)
        assert entry, long
        assert "(default: " in page[entry.start() : entry.start() + 500], long
