"""The pages of the documentation run from top to bottom, and files that are written by commands are up to date."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from typing import get_args

import pytest
from conftest import ROOT
from page_blocks import LEFT_OUT, PAGES, Block, Reader, blocks_of, name_of, pages_of
from page_inputs import prepare
from web_server import serving

import fastpack
from fastpack.types import Column


@pytest.fixture
def stores(tmp_path, store, client, monkeypatch):
    """Stand-ins for a bucket, the hub and a web server; the hosts of the page, and the environment of commands."""
    files = tmp_path / "files"
    (files / "chats").mkdir(parents=True)
    shutil.copy(ROOT / "examples" / "chat.jsonl", files / "chats")
    client.create_bucket(Bucket="my-bucket")
    client.put_object(
        Bucket="my-bucket", Key="chats/chat.jsonl", Body=(ROOT / "examples" / "chat.jsonl").read_bytes()
    )
    environment = {name.upper(): value for name, value in store.items()}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    def about(_):
        info = {"id": "org/chats", "sha": "a" * 40, "siblings": [{"rfilename": "chat.jsonl"}], "cardData": {}}
        info |= {"private": False, "disabled": False, "gated": False, "downloads": 0, "likes": 0, "tags": []}
        return 200, {"Content-Type": "application/json"}, json.dumps(info).encode()

    with serving(files) as server:
        server.pages = {r"/api/datasets/.*": about, r"/datasets/org/.*/resolve/.*": _moved}
        hub = {"HF_ENDPOINT": server.url, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_TELEMETRY": "1"}
        yield {"https://example.com": server.url}, environment | hub


def _moved(_):
    return 302, {"Location": "/chats/chat.jsonl"}, b""


@pytest.mark.parametrize("page", pages_of("main"), ids=name_of)
def test_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch, request):
    hosts, environment = request.getfixturevalue("stores") if page.stem == "remote" else ({}, {})
    folder = tmp_path / "page"
    folder.mkdir()
    prepare(folder)
    monkeypatch.chdir(folder)
    Reader(folder, hosts, environment).follow(page)


def test_every_block_of_every_page_runs():
    """In some of the three places; a block of a kind that no reader runs fails there."""
    blocks = [block for page in PAGES for block in blocks_of(page)]
    assert len(blocks) > 100
    assert {block.left_out for block in blocks} - {None} == set(LEFT_OUT)
    assert len(LEFT_OUT) <= 5
    places = {place: {page.name for page in pages_of(place)} for place in ("main", "torch", "cluster")}
    running = set.union(*places.values())
    assert {block.page.name for block in blocks if block.runs} == running
    assert {"fine-tune.md", "training.md", "README.md"} <= places["torch"]
    assert {"ray.md"} <= places["cluster"]


def test_blocks_are_found_whatever_their_fence_or_indentation(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```python\none\n```\n\n~~~~ sh\ntwo\n```\n~~~~\n\n    three\n\n* item\n\n  ```console\n  $ four\n  ```\n\n"
        '      no code\n\nText\n    no code\n\n``` toml title="a b.toml"\nfive\n```\n'
    )
    assert [(block.kind, block.title, block.text, block.line) for block in blocks_of(page)] == [
        ("python", "", "one\n", 2),
        ("sh", "", "two\n```\n", 6),
        ("indented", "", "three\n", 10),
        ("console", "", "$ four\n", 15),
        ("toml", "a b.toml", "five\n", 24),
    ]


@pytest.mark.parametrize("kind", ["sh", "yaml", "py", "", "json"])
def test_a_block_that_no_reader_runs_fails(kind, tmp_path):
    page = ROOT / "docs" / "none.md"
    with pytest.raises(AssertionError, match="no test runs a block of the kind"):
        Reader(tmp_path).one(Block(page, 1, kind, "", "a line\n"), "a line\n")


def test_what_a_page_shows_is_compared(tmp_path):
    reader, page = Reader(tmp_path), ROOT / "docs" / "none.md"
    reader.one(Block(page, 1, "python", "", ""), "print('a', 1)")
    reader.one(Block(page, 1, "text", "", ""), "a ...\n")
    with pytest.raises(AssertionError, match="printed"):
        reader.one(Block(page, 1, "text", "", ""), "a 2\n")
    with pytest.raises(AssertionError, match="printed"):
        reader.one(Block(page, 1, "console", "", ""), "$ echo a\nb\n")
    with pytest.raises(AssertionError):
        reader.one(Block(page, 1, "console", "", ""), "$ fastpack nothing\n")
    with pytest.raises(AssertionError):
        reader.one(Block(page, 1, "indented", "", ""), ">>> 1 + 1\n3\n")


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
    bars = re.findall(r">(\d+)×<", (ROOT / "docs" / "images" / "ratios.svg").read_text(encoding="utf-8"))
    ratios = [int(bar) for bar in bars if bar != "1"]
    told = re.search(
        r"!\[.*?(\d+) to (\d+) times.*?(\d+) to (\d+) times", (ROOT / "README.md").read_text("utf-8")
    )
    assert told
    packing, tokenizing = ratios[:2], ratios[2:]
    expected = [min(packing), max(packing), min(tokenizing), max(tokenizing)]
    assert [int(number) for number in told.groups()] == expected


def test_every_public_name_is_on_the_page():
    page = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    shown = {place.rpartition(".")[2] for place in re.findall(r"::: (\S+)", page)}
    # Shown as a whole with the modules and classes that they belong to, or made by names that are shown.
    elsewhere = {"Progress", "Splits", "Plan", "Verification", "__version__"}
    errors = {name for name in fastpack.__all__ if name.endswith("Error")}
    assert set(fastpack.__all__) - elsewhere - errors <= shown
    assert "errors" in shown


def test_every_page_is_in_the_list_of_the_readme_and_in_the_navigation():
    pages = {str(page.relative_to(ROOT / "docs")) for page in ROOT.glob("docs/**/*.md")}
    readme = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Documentation")[2]
    assert set(re.findall(r"\(docs/([a-z/-]+\.md)\)", readme)) == pages
    assert (
        set(re.findall(r": ([a-z/-]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)) >= pages
    )


def test_every_column_and_every_attribute_of_a_report_is_in_a_table():
    rows = (ROOT / "docs" / "start" / "rows.md").read_text(encoding="utf-8")
    assert set(get_args(Column)) <= set(re.findall(r"`(\w+)`", rows))
    report = (ROOT / "docs" / "reference" / "report.md").read_text(encoding="utf-8")
    attributes = {name for name in dir(fastpack.Report) if not name.startswith("_")}
    assert attributes - {"of", "from_json"} <= set(re.findall(r"`(\w+)[`(]", report))


def test_every_class_of_errors_and_every_reason_is_in_a_table():
    page = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)`", page))
    assert {name for name in fastpack.__all__ if name.endswith("Error")} - {"FastpackError"} <= named
    reasons = (ROOT / "rust" / "core" / "src" / "report" / "reason.rs").read_text(encoding="utf-8")
    assert set(re.findall(r'=> "([a-z_0-9]+)"', reasons)) <= named


def test_the_versions_on_their_page_are_those_that_tests_install():
    tomllib = pytest.importorskip("tomllib")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = [project["dependency-groups"][name] for name in ("test", "torch", "cluster", "mds")]
    installed = {}
    for group in [project["project"]["dependencies"], *groups]:
        for requirement in filter(lambda each: isinstance(each, str), group):
            name, versions = re.match(r"([\w-]+)(?:\[\w+\])?([^;]*)", requirement).groups()
            assert installed.setdefault(name, versions) == versions
    page = (ROOT / "docs" / "reference" / "versions.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"^\| `([\w-]+)` \| `([^`]+)` \|", page, re.MULTILINE))
    assert {name: installed.get(name) for name in shown} == shown
    assert {"transformers", "tokenizers", "torch", "trl", "accelerate", "lightning"} <= shown.keys()


def test_the_glossary_is_short():
    page = (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^\| \*\*(.+?)\*\* \|", page, re.MULTILINE)
    assert 10 < len(terms) <= 20
    assert terms == sorted(terms)


def test_every_file_of_the_code_that_a_page_names_is_there():
    folders = ("rust", "python", "tests", "benches", "examples", "scripts")
    code = [path.as_posix() for folder in folders for path in (ROOT / folder).rglob("*.*")]
    lost = {
        (page.name, name)
        for page in PAGES
        for name in re.findall(r"`([\w-]+(?:/[\w-]+)+\.(?:rs|py))`", page.read_text(encoding="utf-8"))
        if not any(path.endswith(f"/{name}") for path in code)
    }
    assert lost == set()
