"""The pages that the site makes: all options in tables, and in the docstrings of functions."""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
import shlex
import sys

import pytest
from conftest import ROOT

import fastpack
from fastpack import api
from fastpack.cli.flags import with_values
from fastpack.cli.parser import parse
from fastpack.options import GROUPS, OPTIONS
from fastpack.options.value import fields_of, to_table

PAGE = (ROOT / "docs" / "reference" / "options.md").read_text(encoding="utf-8")


def script(name):
    """A module of `scripts/`."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def cells(line):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_the_tables_have_every_option_and_every_option_in_a_value():
    options_page = script("options_page")
    assert PAGE.count(options_page.PLACE) == 1
    tables = options_page.tables()
    assert re.findall("^### (.*)$", tables, re.MULTILINE) == [
        title[0].upper() + title[1:] for title in GROUPS
    ]
    rows = [cells(line) for line in tables.splitlines() if line.startswith("|")]
    # A table as Markdown has it has as many cells in each row.
    assert {len(row) for row in rows} == {4, 5}
    told = {re.match(r"`(\w+)`", row[0])[1]: row for row in rows if len(row) == 4 and row[0].startswith("`")}
    assert told.keys() == OPTIONS.keys()
    assert told["output"][2] == "`pack_dir`, `pack_records`, `pack_table`, `repack`"
    assert told["turns"][1:3] == ['`"auto"`', "`pack_*`, `scan`, `stream`"]
    kinds = [kind for option in OPTIONS.values() if option.owns_kinds for kind in option.kinds.values()]
    fields = [field for kind in kinds for field in fields_of([kind])]
    shown = [row[2] for row in rows if len(row) == 5 and row[2] not in {"its option", "---", ""}]
    assert shown == [f"`{field.name}`" for field in fields]
    ranks = next(row for row in rows if len(row) == 5 and row[0] == "`Balanced`")
    assert ranks[1:4] == ["`balanced`", "`ranks`", "must be given"]


def values():
    """The values of the page, each in Python, as flags and in TOML."""
    table = PAGE.partition("## Values that hold options")[2].partition("\n## ")[0]
    rows = [re.fullmatch(r"\| `(.*)` \| `(.*)` \| `(.*)` \|", line) for line in table.splitlines()]
    return [row.groups() for row in rows if row]


def test_the_page_has_a_value_of_every_option_that_has_some():
    shown = {python.partition("=")[0] for python, _, _ in values()}
    beside = {"map", "select", "ranks"}
    assert shown | beside == {name for name, option in OPTIONS.items() if option.kinds}
    assert all(f"`{name}" in PAGE for name in beside)


@pytest.mark.parametrize(("python", "flags", "toml"), values())
def test_a_value_is_the_same_in_every_spelling(python, flags, toml, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "filters.py").write_text(PAGE.partition('title="filters.py"\n')[2].partition("```")[0])
    (tmp_path / "chat.jinja").write_text("{{ messages }}")
    (tmp_path / "job.toml").write_text(toml, encoding="utf-8")
    option = python.partition("=")[0]
    loaded = fastpack.load_config(tmp_path / "job.toml")[option]
    parsed = with_values(parse(["pack", "none", "-o", "out", "-m", "8", *shlex.split(flags)]))[option]
    names = {name: getattr(fastpack, name) for name in fastpack.__all__}
    # A function is a text outside of Python, and loaded anew each time.
    wanted = eval(f"dict({python})", names, {"good": getattr(loaded, "function", None)})[option]
    # Paths in a file are relative to it.
    shown = (json.dumps(to_table(value)) for value in (wanted, parsed, loaded))
    found = [json.loads(each.replace(f"{tmp_path}/", "")) for each in shown]
    assert found[0] == found[1] == found[2] != {}


@pytest.fixture(scope="module")
def read_by_griffe():
    griffe = pytest.importorskip("griffe", reason="griffe is in the dependency group `docs`")
    extensions = griffe.load_extensions(script("docstrings").Options)
    return griffe.load("fastpack", search_paths=[ROOT / "python"], extensions=extensions)


@pytest.mark.parametrize("name", api.__all__)
def test_the_site_shows_the_docstring_that_help_shows(name, read_by_griffe):
    shown = read_by_griffe[f"api.calls.{name}.{name}"].docstring
    assert shown.value == inspect.getdoc(getattr(fastpack, name))
    [arguments] = [part for part in shown.parse("google") if part.kind.value == "parameters"]
    assert [it.name for it in arguments.value] == [*inspect.signature(getattr(api, name)).parameters]
