"""`pack_files(cache_dir=...)`: tokens made once, and never those of anything else."""

from __future__ import annotations

import json
from datetime import datetime

import pyarrow as pa
import pytest
from conftest import conversation
from web_server import serving

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
        {"threads": 1, "padding": "max_length", "overlong": "truncate"},
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
        {"special_tokens": fastpack.SpecialTokens(eos=True)},
        {
            "chat_template": "{% for message in messages %}{{ message.content }}{% endfor %}",
            "train_on": "all",
        },
        {"chat_template": fastpack.ChatTemplate(variables={"mood": "good"})},
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

    def told(now):
        return pack(chat_template=fastpack.ChatTemplate(text, now=now), train_on="all")

    assert told(datetime(2026, 1, 31))  # noqa: DTZ001  templates see no zone
    assert not told(datetime(2026, 1, 31))  # noqa: DTZ001
    assert told(datetime(2026, 2, 1))  # noqa: DTZ001


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


@pytest.mark.parametrize("name", ["tokens.fastpack", "manifest.json", "report.json"])
@pytest.mark.parametrize("damage", ["flipped", "cut", "emptied", "missing"])
def test_a_damaged_entry_is_made_anew_and_the_report_says_so(name, damage, corpus, tokenizer_dir, cache):
    options = {"max_length": 256, "cache_dir": cache}
    expected = fastpack.pack_files(corpus, tokenizer_dir, **options)
    (entry,) = cache.iterdir()
    whole = (entry / name).read_bytes()
    spoilt = bytearray(whole)
    spoilt[len(spoilt) // 2] ^= 1
    (entry / name).write_bytes({"flipped": bytes(spoilt), "cut": whole[:-9]}.get(damage, b""))
    if damage == "missing":
        (entry / name).unlink()
    table = fastpack.pack_files(corpus, tokenizer_dir, **options)
    assert table.equals(expected)
    (warning,) = fastpack.Report.of(table).warnings
    assert warning == f"the tokens kept in `{entry}` were damaged, and were made anew"
    assert sorted(path.name for path in entry.iterdir()) == [
        "manifest.json",
        "report.json",
        "tokens.fastpack",
    ]
    assert not fastpack.Report.of(fastpack.pack_files(corpus, tokenizer_dir, **options)).warnings


def test_files_of_others_in_a_damaged_entry_stay(corpus, tokenizer_dir, cache):
    options = {"max_length": 256, "cache_dir": cache}
    expected = fastpack.pack_files(corpus, tokenizer_dir, **options)
    (entry,) = cache.iterdir()
    (entry / "notes.txt").write_text("mine")
    (entry / "tokens.fastpack").write_bytes(b"")
    assert fastpack.pack_files(corpus, tokenizer_dir, **options).equals(expected)
    assert (entry / "notes.txt").read_text() == "mine"


def test_an_entry_that_cannot_be_made_anew_is_one_error_that_says_what_to_do(corpus, tokenizer_dir, cache):
    options = {"max_length": 256, "cache_dir": cache}
    fastpack.pack_files(corpus, tokenizer_dir, **options)
    (entry,) = cache.iterdir()
    (entry / "manifest.json").unlink()
    (entry / "manifest.json").mkdir()
    with pytest.raises(fastpack.OutputError, match="remove it, or name another `cache_dir`") as refused:
        fastpack.pack_files(corpus, tokenizer_dir, **options)
    assert refused.value.filename == str(entry)
    assert "overwrite" not in str(refused.value)


def test_an_entry_says_what_it_is_of(corpus, tokenizer_dir, cache):
    fastpack.pack_files(corpus, tokenizer_dir, max_length=256, cache_dir=cache)
    manifest = json.loads(next(cache.glob("*/manifest.json")).read_bytes())
    assert len(manifest["job"]["inputs"]["content"]) == 1
    assert manifest["job"]["row_options"] is None


@pytest.mark.parametrize("pattern", ["", "**/*.js*"], ids=["folder", "glob"])
def test_a_cache_inside_the_input_is_not_read(pattern, write_jsonl, tokenizer_dir, tmp_path):
    write_jsonl(map(conversation, range(20)), "data/a/files.jsonl")
    data = tmp_path / "data"
    options = {"max_length": 256, "reading": fastpack.Reading(recursive=True)}
    expected = fastpack.pack_files(data / pattern, tokenizer_dir, **options)
    for cache in (data / "cache", data):
        for _ in range(3):
            table = fastpack.pack_files(data / pattern, tokenizer_dir, cache_dir=cache, **options)
            assert table.equals(expected)
    assert len(list(data.glob("**/tokens.fastpack"))) == 2


@pytest.mark.parametrize(
    "options", [{}, {"format": "jsonl"}, {"format": fastpack.Format(hf_layout=True)}], ids=str
)
def test_an_output_inside_the_input_is_passed_over_unless_it_is_named(
    options, write_jsonl, tokenizer_dir, tmp_path
):
    files = write_jsonl(map(conversation, range(20)), "data/a/files.jsonl")
    options = {
        "tokenizer": tokenizer_dir,
        "max_length": 256,
        "reading": fastpack.Reading(recursive=True),
        **options,
    }
    first = fastpack.pack_dir(tmp_path / "data", tmp_path / "data/packed", **options)
    assert fastpack.pack_dir(tmp_path / "data", tmp_path / "data/packed", **options) == first
    other = fastpack.pack_dir(tmp_path / "data", tmp_path / "data/other", **(options | {"max_length": 128}))
    assert other.documents.read == first.documents.read == 20
    (warning,) = (warning for warning in other.warnings if "passed over" in warning)
    assert warning.endswith(f"first `{tmp_path / 'data/packed'}`")
    assert files.exists()
    named = {"tokenizer": tokenizer_dir, "max_length": 256}
    again = fastpack.pack_dir(tmp_path / "data/packed", tmp_path / "again", **named)
    assert again.documents.read == first.rows


def test_one_folder_serves_the_caches_of_all_calls(corpus, tokenizer_dir, cache):
    with serving(corpus.parent) as server:
        files = {"here": corpus, "there": f"{server.url}/{corpus.name}"}

        def rows():
            storage = fastpack.Storage(block_cache="10MB")
            common = {"max_length": 256, "cache_dir": cache, "storage": storage}
            made = {name: fastpack.pack_files(path, tokenizer_dir, **common) for name, path in files.items()}
            ranks = fastpack.Ranks(rank=1, world_size=2, on_end="pad")
            with fastpack.stream(files["there"], tokenizer_dir, ranks=ranks, epochs=1, **common) as tables:
                made["stream"] = pa.concat_tables(tables)
            return made

        first = rows()
        entries = {path.name for path in cache.iterdir()}
        again = rows()
    assert {path.name for path in cache.iterdir()} == entries
    assert "blocks" in entries
    assert any(name.startswith("stream-") for name in entries)
    assert len(entries) > 2
    assert all(again[name].equals(table) for name, table in first.items())
