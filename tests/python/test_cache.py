"""`pack_files(cache_dir=...)`: tokens made once, and never those of anything else."""

from __future__ import annotations

import json
from datetime import datetime

import pytest

import fastpack


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def pack(corpus, tokenizer_dir, cache):
    """Packs with the cache, and says whether that made tokens."""

    def run(files=corpus, tokenizer=tokenizer_dir, **options):
        before = set(cache.iterdir()) if cache.exists() else set()
        options = {"max_length": 256} | options
        table = fastpack.pack_files(files, tokenizer, cache_dir=cache, **options)
        assert table.equals(fastpack.pack_files(files, tokenizer, **options))
        return set(cache.iterdir()) != before

    return run


@pytest.mark.parametrize(
    "again",
    [
        {},
        {"max_length": 64, "seed": 3},
        {"strategy": "concat", "columns": ["input_ids"]},
        {"threads": 1, "pad_to": "max_length", "overlong": "truncate"},
    ],
    ids=str,
)
def test_other_rows_take_no_tokenizing(again, pack):
    assert pack()
    assert not pack(**again)


@pytest.mark.parametrize(
    "change",
    [
        {"train_on": "all"},
        {"eos": True},
        {
            "chat_template": "{% for message in messages %}{{ message.content }}{% endfor %}",
            "train_on": "all",
        },
        {"chat_template_kwargs": {"mood": "good"}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_decides_the_tokens_makes_others(change, pack):
    assert pack()
    assert pack(**change)


def test_a_renamed_file_is_found_and_a_changed_one_is_not(pack, corpus, tmp_path):
    assert pack()
    renamed = corpus.rename(tmp_path / "renamed.jsonl")
    assert not pack(renamed)
    renamed.write_bytes(renamed.read_bytes().replace(b"river", b"rover", 1))
    assert pack(renamed)


def test_a_template_that_tells_the_time_is_found_for_the_same_time_alone(pack):
    text = "{{ strftime_now('%d %B') }}{% for message in messages %}{{ message.content }}{% endfor %}"
    options = {"chat_template": text, "train_on": "all"}
    assert pack(now=datetime(2026, 1, 31), **options)  # noqa: DTZ001  templates see no zone
    assert not pack(now=datetime(2026, 1, 31), **options)  # noqa: DTZ001
    assert pack(now=datetime(2026, 2, 1), **options)  # noqa: DTZ001


def test_the_report_is_that_of_packing(corpus, tokenizer_dir, cache):
    reports = []
    for cache_dir in (None, cache, cache):
        table = fastpack.pack_files(corpus, tokenizer_dir, max_length=100, cache_dir=cache_dir)
        reports.append(fastpack.Report.of(table))
    assert reports[0] == reports[1] == reports[2]


def test_a_fault_is_raised_and_leaves_nothing(write_jsonl, tokenizer_dir, cache):
    path = write_jsonl([{"text": "the river"}, b"{"])
    for _ in range(2):
        with pytest.raises(fastpack.RecordError):
            fastpack.pack_files(path, tokenizer_dir, max_length=256, cache_dir=cache)
    assert not list(cache.iterdir())


def test_a_damaged_entry_is_refused_and_named(corpus, tokenizer_dir, cache):
    fastpack.pack_files(corpus, tokenizer_dir, max_length=256, cache_dir=cache)
    tokens = next(cache.glob("*/tokens.fastpack"))
    spoilt = bytearray(tokens.read_bytes())
    spoilt[len(spoilt) // 2] ^= 1
    tokens.write_bytes(spoilt)
    with pytest.raises(fastpack.OutputError, match="is damaged") as refused:
        fastpack.pack_files(corpus, tokenizer_dir, max_length=256, cache_dir=cache)
    assert refused.value.filename == str(tokens)


def test_an_entry_says_what_it_is_of(corpus, tokenizer_dir, cache):
    fastpack.pack_files(corpus, tokenizer_dir, max_length=256, cache_dir=cache)
    manifest = json.loads(next(cache.glob("*/manifest.json")).read_bytes())
    assert len(manifest["job"]["content"]) == 1
    assert "max_length" not in manifest["job"]["options"]
