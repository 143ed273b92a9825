"""Data reach a terminal escaped: no text, name or key moves the cursor, or turns the text around."""

from __future__ import annotations

import contextlib
import functools
import html
import json
import re
import shutil
import sys

import pytest
from campaign import tries
from hypothesis import given, settings
from hypothesis import strategies as st

import fastpack
from fastpack._fastpack import one_line, printable
from fastpack.cli import main, parser
from fastpack.cli.printing import _json

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\x85\u202e\u2066\u200e\u200f\u061c\r\x08\x7f\u2028"
"""Sequences that clear a terminal and set its title, in 7 and in 8 bits, and marks that turn text around."""

OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that a terminal obeys, but for the end of a line and a tab."""

COLOURS = re.compile("\x1b\\[(32|2|0)m")
"""The colours of fastpack's own."""


@pytest.fixture
def place(tmp_path, tokenizer_dir, monkeypatch):
    """A folder with hostile names, and in its files hostile texts, roles, keys and classes."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / f"in{HOSTILE}"
    folder.mkdir()
    chats = [
        {
            "messages": [
                {"role": "user", "content": HOSTILE},
                {"role": "assistant", "content": f"a {HOSTILE} b"},
            ]
        },
        {"messages": [{"role": HOSTILE, "content": "a"}]},
        {
            "messages": [{"role": "user", "content": "a", HOSTILE: HOSTILE}],
            HOSTILE: HOSTILE,
            "tools": [HOSTILE],
        },
        {HOSTILE: HOSTILE},
        {"text": f"{HOSTILE} {'a river ' * 20}"},
    ]
    lines = [json.dumps(record, ensure_ascii=number % 2 == 0) for number, record in enumerate(chats * 4)]
    (folder / f"chat{HOSTILE}.jsonl").write_text(
        "\n".join([*lines, HOSTILE, f'{{"{HOSTILE}']), encoding="utf-8"
    )
    named = tmp_path / f"tokenizer{HOSTILE}"
    shutil.copytree(tokenizer_dir, named)
    config = json.loads((named / "tokenizer_config.json").read_text())
    config |= {HOSTILE: HOSTILE, "chat_template": [{"name": HOSTILE, "template": HOSTILE}]}
    (named / "tokenizer_config.json").write_text(json.dumps(config))
    (named / "chat_template.jinja").unlink()
    (tmp_path / "recipe.toml").write_text(f"{json.dumps(HOSTILE)} = 1\n", encoding="utf-8")
    return tmp_path


def command(capsys, *arguments):
    """All that a command line prints, without fastpack's own colours."""
    with contextlib.suppress(SystemExit):
        main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return COLOURS.sub("", said.out + said.err)


def lines_of(place, tokenizer):
    """Command lines of every kind, with hostile data behind them or in them."""
    data = place / f"in{HOSTILE}"
    out = place / f"out{HOSTILE}"
    pack = ["pack", data, "-t", tokenizer, "-m", "128", "-o"]
    kept = ["--on-bad-record", "skip", "--max-lost", "100%", "--keep-tokens", "--no-progress"]
    yield "refused", [*pack, out]
    yield "dry run", [*pack, out, "--dry-run", *kept]
    yield "packed", [*pack, out, *kept]
    yield "drawn", [*pack, place / "drawn", *kept[:-1], "--progress"]
    yield "again", [*pack, out, *kept, "--seed", "1"]
    yield "columns", [*pack, place / "carried", *kept, "--columns", HOSTILE]
    for json_ in ([], ["--json"]):
        yield f"report {json_}", ["report", out, *json_]
        yield f"status {json_}", ["status", out, *json_]
        yield f"verify {json_}", ["verify", out, *json_]
        yield f"inspect {json_}", ["inspect", out, "-t", tokenizer, *json_]
        yield f"scan {json_}", ["scan", data, "-t", tokenizer, "-m", "128", *json_]
        yield f"tokenizer {json_}", ["tokenizer", place / f"tokenizer{HOSTILE}", *json_]
    for color in ("always", "never"):
        yield f"inspect {color}", ["inspect", out, "-t", tokenizer, "--color", color]
    yield "inspect ids", ["inspect", out, "--ids"]
    yield "card", ["report", out, "--card"]
    yield "repack", ["repack", "-i", out, "-o", place / f"re{HOSTILE}", "-m", "64", "--no-progress"]
    yield "like", ["pack", "--like", out, "-o", place / "like"]
    yield "config", ["pack", "--config", place / "recipe.toml"]
    yield "reindex", ["reindex", data, "-o", place / f"index{HOSTILE}"]
    yield "stream", ["stream", place / HOSTILE.replace("/", ""), "-m", "8", "--to", HOSTILE]
    for name in (
        "pack",
        "inspect",
        "scan",
        "verify",
        "report",
        "status",
        "tokenizer",
        "repack",
        "reindex",
        "stream",
    ):
        yield f"{name} nothing", [name, HOSTILE]
        yield f"{name} flag", [name, f"--{HOSTILE}"]
        yield f"{name} too many", [name, HOSTILE, HOSTILE, HOSTILE]
    yield "command", [HOSTILE]
    for flag in (
        "--strategy",
        "-m",
        "--reading.fields",
        "--seed",
        "--storage",
        "--filter",
        "--sources",
        "--chat-template.now",
        "-t",
    ):
        yield f"pack {flag}", [*pack, place / "wrong", flag, HOSTILE]


def test_no_command_line_prints_what_a_terminal_obeys(place, tokenizer_dir, capsys, monkeypatch):
    # Made once: there are many command lines.
    monkeypatch.setattr(sys.modules["fastpack.cli.parser"], "parser", functools.cache(parser))
    told = []
    for name, line in lines_of(place, tokenizer_dir):
        said = command(capsys, *line)
        assert said, name
        # The bar of progress is drawn over itself.
        found = OBEYED.findall(said.replace("\r", "") if name == "drawn" else said)
        if found:
            told.append((name, found, said))
    out = place / f"out{HOSTILE}"
    for shard in out.glob("train-*"):
        shard.write_bytes(shard.read_bytes()[:-9])
    for name, line in (("verify", ["verify", out]), ("inspect", ["inspect", out])):
        said = command(capsys, *line)
        if OBEYED.search(said):
            told.append((f"{name} a cut shard", OBEYED.findall(said), said))
    assert not told, ([name for name, _, _ in told], told[0])


def test_what_is_printed_in_python_is_escaped_too(place, tokenizer_dir):
    [data] = (place / f"in{HOSTILE}").iterdir()
    options = {"max_length": 128, "on_bad_record": "skip", "max_lost": "100%", "progress": False}
    out = place / f"out{HOSTILE}"
    report = fastpack.pack_dir(data, out, tokenizer=tokenizer_dir, **options)
    scan = fastpack.scan(data, tokenizer_dir, max_length=128, progress=False)
    row = fastpack.inspect(out, tokenizer=tokenizer_dir)
    [shard] = out.glob("train-*")
    shard.write_bytes(b"")
    shown = [
        report,
        scan,
        row,
        fastpack.verify(out),
        fastpack.status(out),
        fastpack.Tokenizer(place / f"tokenizer{HOSTILE}"),
    ]
    for it in shown:
        assert not OBEYED.search(str(it)), str(it)
        assert not OBEYED.search(repr(it)), repr(it)
    assert all(not OBEYED.search(problem) for problem in fastpack.verify(out).problems)
    assert "\\x1b]0;owned" in str(row)
    for call in (
        lambda: fastpack.pack_files(data, tokenizer_dir, max_length=128, progress=False),
        lambda: fastpack.pack_files(f"{data}.no", tokenizer_dir, max_length=128),
        lambda: fastpack.pack_files(data, tokenizer_dir, max_length=HOSTILE),
        lambda: fastpack.pack_files(data, tokenizer_dir, max_length=128, chat_template=HOSTILE),
        lambda: fastpack.inspect(out),
        lambda: fastpack.Tokenizer(place / HOSTILE),
    ):
        with pytest.raises(fastpack.FastpackError) as caught:
            call()
        assert not OBEYED.search(str(caught.value)), str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_page_for_a_browser_has_no_markup_of_the_data(corpus, tokenizer_dir, tmp_path):
    markup = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>"
    folder = tmp_path / "in"
    folder.mkdir()
    data = folder / f"{markup.replace('/', '')}.jsonl"
    message = [{"role": "user", "content": markup}, {"role": "assistant", "content": markup, markup: markup}]
    data.write_text(json.dumps({"messages": message, markup: markup}) + f'\n{{"{markup}": 1}}\n')
    options = {"max_length": 256, "on_bad_record": "skip", "max_lost": "100%", "progress": False}
    report = fastpack.pack_dir(folder, tmp_path / "out", tokenizer=tokenizer_dir, **options)
    page = tmp_path / "page.html"
    report.to_html(page, packed=tmp_path / "out")
    scan = fastpack.scan(folder, tokenizer_dir, max_length=256, progress=False)
    row = fastpack.inspect(tmp_path / "out", tokenizer=tokenizer_dir)
    shown = [page.read_text(encoding="utf-8"), *(it._repr_html_() for it in (report, scan, row))]
    for text in shown:
        assert "<script>alert" not in text
        assert "<img" not in text
    assert html.escape(markup) in shown[-1]


@settings(max_examples=tries(200, 20_000))
@given(st.text())
def test_any_text_is_shown_without_what_a_terminal_obeys(text):
    assert not OBEYED.search(one_line(text))
    assert not OBEYED.search(printable(text))
    assert json.loads(_json([text])) == [text]
    assert not OBEYED.search(_json([text]))


def test_each_character_is_escaped_in_json_where_it_is_in_a_text():
    for number in [*range(0xD800), *range(0xE000, 0x3000 + 0xE000)]:
        character = chr(number)
        escaped = printable(character) != character
        assert (OBEYED.match(character) is not None) == escaped, hex(number)
        assert (_json(character) != f'"{character}"') >= escaped
