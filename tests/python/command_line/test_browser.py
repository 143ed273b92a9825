"""Pages for a browser: one file each, looked at in headless Chromium where there is one."""

from __future__ import annotations

import html.parser
import json
import re
import shutil
import subprocess
import warnings

import pytest
from conftest import ROOT

import fastpack
from fastpack.dataset.folder import Folder
from fastpack.dataset.row_facts import facts_of
from fastpack.report.display.html_page import report_html, row_html, scan_html, write_html

CHAT = ROOT / "examples" / "chat.jsonl"
TOKENIZER = ROOT / "examples" / "tokenizer"
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None
)
VOID = {"meta", "link"}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A page of each kind, by its name, with a text that a reader must see."""
    home = tmp_path_factory.mktemp("pages")
    columns = ["input_ids", "labels", "position_ids", "seq_lengths", "source_file", "source_row"]
    report = fastpack.pack_dir(
        ROOT / "examples" / "*.jsonl", home / "packed", tokenizer=TOKENIZER, max_length=256, columns=columns
    )
    scan = fastpack.scan(CHAT, TOKENIZER, max_length=[64, 512])
    texts = {
        "report": (
            report_html(report, facts_of(Folder(home / "packed"), report)),
            "What other lengths would cost",
        ),
        "scan": (scan_html(scan), "Rows of each length"),
        "row": (row_html(fastpack.inspect(home / "packed", -1)), "document 0: tokens 0 to"),
    }
    for name, (text, _) in texts.items():
        write_html(home / f"{name}.html", text)
    return {name: (home / f"{name}.html", told) for name, (_, told) in texts.items()}


class Balanced(html.parser.HTMLParser):
    """Fails where a tag is closed that is not open."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", ["report", "scan", "row"])
def test_a_page_is_one_file_with_nothing_from_the_network(name, pages):
    text = pages[name][0].read_text(encoding="utf-8")
    assert not re.search(
        r"https?:|<script|@import|url\(|src=", re.sub(r"<pre>.*?</pre>", "", text, flags=re.DOTALL)
    )
    checked = Balanced()
    checked.feed(text)
    assert checked.open == []


def test_the_page_of_a_report_has_what_a_reader_looks_for(pages):
    text = pages["report"][0].read_text(encoding="utf-8")
    assert text.count("<svg") == 5
    for told in (
        "max_length 256",
        "What was lost, and why",
        "Documents in a row",
        "Shares of sources",
        "chat.jsonl",
        "Rows as text",
        "<mark>",
        "fastpack pack --like",
        "too_long",
    ):
        assert told in text, told


def test_rows_as_long_as_the_longest_document_lose_nothing_for_certain(tmp_path):
    records = [{"text": "river " * 30}, {"text": "river " * 75}]
    folder = tmp_path / "packed"
    options = {"max_length": 64, "overlong": "drop", "max_lost": 1.0}
    report = fastpack.pack_records(records, TOKENIZER, output=folder, **options)
    longest = report.lengths["max"]
    assert longest > 64
    costs = {cost.max_length: cost for cost in facts_of(Folder(folder), report).costs}
    assert costs[64].lost > 0
    for length, cost in costs.items():
        if length >= longest:
            assert cost.lost == cost.at_most == 0, length


def test_what_the_input_holds_is_text_on_a_page(tmp_path):
    evil = "<script>alert(1)</script><b>"
    records = [{"text": evil}]
    folder = tmp_path / "<b>packed"
    report = fastpack.pack_records(records, TOKENIZER, max_length=64, output=folder)
    page = report_html(report, facts_of(Folder(folder), report))
    assert "<script" not in page
    assert "&lt;b&gt;packed" in page
    assert "<script" not in row_html(fastpack.inspect(folder))


def test_a_page_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(fastpack.FastpackError, match="nowhere"):
        write_html(tmp_path / "nowhere" / "page.html", "")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_rows_has_a_page(tmp_path):
    report = fastpack.pack_records([], TOKENIZER, max_length=64, output=tmp_path / "empty")
    assert "Nothing was lost" in report_html(report, facts_of(Folder(tmp_path / "empty"), report))


@pytest.mark.parametrize("validation", [None, 0.2])
def test_documents_that_rows_left_out_count_among_what_is_lost(validation, tmp_path):
    files = ROOT / "examples" / "*.jsonl"
    wanted = {length: fit.lost_tokens for length in (32, 64, 128, 256, 512) for fit in _fits(files, length)}
    read = fastpack.scan(files, TOKENIZER, max_length=128).read.tokens
    report = fastpack.pack_dir(
        files,
        tmp_path / "rows",
        tokenizer=TOKENIZER,
        max_length=128,
        overlong="drop",
        max_lost="100%",
        validation=validation,
    )
    assert report.dropped["too_long"].tokens == wanted[128] > 0
    facts = facts_of(Folder(tmp_path / "rows"), report)
    assert facts.too_long == tuple(report.dropped["too_long"])
    for cost in facts.costs:
        near = 0.12 if validation else 1e-9
        assert cost.lost - near <= wanted[cost.max_length] / read <= cost.at_most + near
        assert cost.max_length > 128 or cost.lost == cost.at_most
    text = report_html(report, facts)
    assert f"{wanted[128] / read:.2%}" in text
    assert f"{report.dropped['too_long'].documents:,} documents left out as too long" in text


def _fits(files, length):
    return fastpack.scan(files, TOKENIZER, max_length=length, overlong="drop").fits


@pytest.mark.parametrize(
    "options",
    [
        *({"overlong": overlong} for overlong in ("truncate", "trim", "split")),
        *({"strategy": strategy} for strategy in ("concat", "none", "sequential")),
        {"files": "text"},
        {"files": "pairs"},
        {"files": "mixed"},
    ],
    ids=str,
)
def test_the_table_of_other_lengths_has_what_a_scan_says(options, tmp_path, write_jsonl):
    words = "the river has boats " * 40
    records = {
        "text": [{"text": words}] * 9,
        "pairs": [{"prompt": "say ", "completion": words}] * 9,
    }
    options = dict(options)
    kind = options.pop("files", "")
    lines = write_jsonl(records.get(kind, records["text"]))
    given = {
        "files": {"": CHAT, "mixed": [CHAT, lines]}.get(kind, lines),
        "tokenizer": TOKENIZER,
        "train_on": "all",
        **options,
    }
    report = fastpack.pack_dir(output=tmp_path / "rows", max_length=128, max_lost="100%", **given)
    costs = {cost.max_length: cost for cost in facts_of(Folder(tmp_path / "rows"), report).costs}
    for length in (64, 128, 256):
        scan = fastpack.scan(max_length=length, **given)
        [fit] = scan.fits
        lost = fit.lost_tokens / scan.read.tokens
        assert costs[length].lost - 1e-9 <= lost <= costs[length].at_most + 1e-9
        if length <= 128 and kind != "mixed" and options.get("overlong") != "trim":
            assert costs[length].lost == costs[length].at_most
            assert costs[length].rows == fit.rows
    [fit] = fastpack.scan(max_length=128, **given).fits
    assert kind == "mixed" or costs[128].at_most == pytest.approx(fit.lost_tokens / scan.read.tokens)


def test_a_folder_of_which_no_token_is_kept_has_a_page(tmp_path):
    report = fastpack.pack_dir(CHAT, tmp_path / "rows", tokenizer=TOKENIZER, max_length=128)
    nothing = {"tokens": {"read": 0, "kept": 0}, "dropped": {}}
    nothing = fastpack.Report.from_json(json.dumps(report.to_dict() | nothing))
    assert facts_of(Folder(tmp_path / "rows"), nothing).costs == []


def test_a_page_has_code_in_place_of_back_ticks(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = fastpack.pack_files(
            CHAT, TOKENIZER, max_length=256, map=lambda rows: rows, cache_dir=tmp_path / "cache"
        )
    text = report_html(fastpack.Report.of(table))
    assert "<code>map</code>" in text
    assert "`" not in text


@pytest.mark.parametrize("padding_side", ["left", "right"])
def test_padding_is_no_document_on_a_page(padding_side, tmp_path):
    folder = tmp_path / "padded"
    report = fastpack.pack_dir(
        CHAT,
        folder,
        tokenizer=TOKENIZER,
        max_length=512,
        padding=fastpack.Padding("max_length", side=padding_side),
    )
    facts = facts_of(Folder(folder), report)
    assert len(facts.lengths) == report.documents.kept
    assert int(facts.lengths.sum()) == report.tokens.kept
    assert abs(facts.fills.mean() - report.fill) < 1e-6


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the path; apt-get install chromium brings one")
@pytest.mark.parametrize("name", ["report", "scan", "row"])
@pytest.mark.parametrize(("theme", "width"), [("light", 1100), ("dark", 420)])
def test_a_browser_shows_the_page_and_no_error(name, theme, width, pages, tmp_path):
    path, told = pages[name]
    shot = tmp_path / "shot.png"
    preferred = ["--blink-settings=preferredColorScheme=0"] if theme == "dark" else []
    common = [
        CHROMIUM,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--user-data-dir={tmp_path / 'profile'}",
        f"--window-size={width},2400",
        "--enable-logging=stderr",
        "--v=0",
        *preferred,
    ]
    drawn = subprocess.run(
        [*common, f"--screenshot={shot}", path.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "CONSOLE" not in drawn.stderr
    assert shot.stat().st_size > 0
    if theme == "light":
        seen = subprocess.run(
            [*common, "--dump-dom", path.as_uri()], capture_output=True, text=True, timeout=120, check=True
        )
        assert told in seen.stdout
        assert "CONSOLE" not in seen.stderr
