"""`scan`: the results of packing, beforehand."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from conftest import conversation, sentence

import fastpack

RECORDS = [conversation(number) for number in range(300)]


@pytest.fixture
def path(write_jsonl):
    return write_jsonl(RECORDS)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"strategy": "best_fit"},
        {"strategy": "sequential", "overlong": "truncate"},
        {"strategy": "concat"},
        {"strategy": "none", "overlong": "split"},
        {"strategy": fastpack.Mix(max_documents=2)},
        {"train_on": "all", "special_tokens": fastpack.SpecialTokens(eos=True)},
    ],
    ids=str,
)
def test_rows_and_losses_are_those_of_packing(options, path, tokenizer_dir):
    lengths = [48, 96, 300]
    found = fastpack.scan(path, tokenizer_dir, max_length=lengths, **options)
    for length, fit in zip(lengths, found.fits, strict=True):
        report = fastpack.Report.of(fastpack.pack_files(path, tokenizer_dir, max_length=length, **options))
        assert (fit.max_length, fit.rows, fit.fill, fit.lower_bound) == (
            length,
            report.rows,
            report.fill,
            report.lower_bound,
        )
        assert fit.kept == (report.documents.kept, report.tokens.kept)
        assert fit.dropped == report.dropped
        assert fit.truncated == report.truncated
        assert fit.lost_tokens == report.tokens.dropped
        assert found.lengths == report.lengths
        assert [str(it) for it in found.inputs] == [str(it) for it in report.inputs]


def test_bad_records_are_named_by_reason_and_end_nothing(write_jsonl, tokenizer_dir):
    lines = [json.dumps(record).encode() for record in RECORDS]
    for at in range(20):
        lines.insert(at * 7 + 3, b"{no json")
    lines += [b'{"messages": []}', b'{"other": 1}', b'{"other": 2}']
    path = write_jsonl(lines)
    found = fastpack.scan(path, tokenizer_dir, max_length=256)
    assert {reason: lost.documents for reason, lost in found.lost.items()} == {
        "invalid_json": 20,
        "empty": 1,
        "no_content": 2,
    }
    assert [place.line for place in found.lost["invalid_json"].places] == [at * 7 + 4 for at in range(20)]
    assert [(place.line, place.reason) for place in found.lost["empty"].places] == [(321, "empty")]
    assert [place.line for place in found.lost["no_content"].places] == [322, 323]
    assert all("found `other`" in place.message for place in found.lost["no_content"].places)
    for lost in found.lost.values():
        assert all(f"{path}:{place.line}: {place.message}" in str(found) for place in lost.places)
    report = fastpack.Report.of(
        fastpack.pack_files(path, tokenizer_dir, max_length=256, on_bad_record="skip")
    )
    assert found.fits[0].rows == report.rows
    assert (found.read, found.documents) == ((323, report.tokens.read), 300)


def test_what_is_trained_is_told(write_jsonl, tokenizer_dir):
    path = write_jsonl([{"text": sentence(number, 9)} for number in range(20)])
    found = fastpack.scan(path, tokenizer_dir, max_length=512)
    tokens = found.read.tokens
    assert found.trained_share == pytest.approx((tokens - 20) / tokens, abs=1e-6)


def test_documents_without_a_label_are_lost_whatever_the_length(write_jsonl, tokenizer_dir):
    path = write_jsonl([{"messages": [{"role": "user", "content": "a river"}]}, RECORDS[0]])
    found = fastpack.scan(path, tokenizer_dir, max_length=512)
    lost = found.lost["no_trained_token"]
    assert (lost.documents, found.documents) == (1, 1)
    assert [place.line for place in lost.places] == [1]


def test_the_page_says_which_way_templates_and_masks_go(path, tokenizer_dir):
    page = str(fastpack.scan(path, tokenizer_dir, max_length=256))
    assert "`default`, rendered by fastpack; it marks what the assistant writes" in page
    plain = "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}<|end|>{% endfor %}"
    page = str(fastpack.scan(path, tokenizer_dir, max_length=256, chat_template=plain))
    assert "what the assistant writes is derived from its output" in page


def test_a_scan_does_not_depend_on_threads(path, tokenizer_dir):
    pages = [fastpack.scan(path, tokenizer_dir, threads=threads).to_dict() for threads in (1, 4)]
    for page in pages:
        del page["timing"]
    assert pages[0] == pages[1]


def test_wrong_lengths_are_refused(path, tokenizer_dir):
    for wrong in (0, [], [256, -1], [512, 0]):
        with pytest.raises(fastpack.OptionError, match="max_length") as caught:
            fastpack.scan(path, tokenizer_dir, max_length=wrong)
        assert caught.value.option == "max_length"


def test_the_command_prints_the_page(path, tokenizer_dir):
    command = [sys.executable, "-m", "fastpack", "scan", path, "-t", tokenizer_dir, "-m", "64", "256"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    page = str(fastpack.scan(path, tokenizer_dir, max_length=[64, 256]))
    timeless = [
        [line for line in text.splitlines() if not line.startswith("time")] for text in (done.stdout, page)
    ]
    following = timeless[0].pop()
    assert timeless[0] == timeless[1]
    assert following.startswith("next         fastpack pack ")
