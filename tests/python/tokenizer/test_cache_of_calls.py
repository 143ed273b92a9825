"""`cache_dir` of all calls that pack: the same rows and files as without, and tokens made once."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import fastpack


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def records(corpus):
    return [json.loads(line) for line in corpus.read_text(encoding="utf-8").splitlines()]


def entries(cache):
    return {path.name for path in cache.iterdir()} if cache.exists() else set()


def shards(folder):
    kept = {path for path in folder.iterdir() if path.name.startswith(("train", "validation"))}
    return {path.name: path.read_bytes() for path in sorted(kept)}


def report_of(folder):
    """The report of a folder, without its times."""
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return {name: value for name, value in report.items() if name != "timing"}


def content_of(folder):
    """The hashes of the inputs in the manifest of a folder."""
    manifest, _ = json.JSONDecoder().raw_decode((folder / "manifest.json").read_text(encoding="utf-8"))
    return manifest["content"]


@pytest.mark.parametrize("options", [{}, {"strategy": "sequential"}, {"validation": 0.2, "format": "jsonl"}])
def test_a_folder_packed_of_kept_tokens_has_the_same_files(options, corpus, tokenizer_dir, tmp_path, cache):
    options = {"tokenizer": tokenizer_dir, "max_length": 256} | options
    fastpack.pack_dir(corpus, tmp_path / "a", **options)
    for name in ("b", "c"):
        fastpack.pack_dir(corpus, tmp_path / name, cache_dir=cache, **options)
    assert shards(tmp_path / "a") == shards(tmp_path / "b") == shards(tmp_path / "c")
    assert report_of(tmp_path / "a") == report_of(tmp_path / "b") == report_of(tmp_path / "c")
    assert len(entries(cache)) == 1
    contents = [content_of(tmp_path / name) for name in "abc"]
    assert contents[0] == contents[1] == contents[2]


def test_all_calls_find_the_tokens_of_one_table(records, tokenizer_dir, tmp_path, cache):
    table = pa.Table.from_pylist(records)
    options = {"tokenizer": tokenizer_dir, "max_length": 256}
    expected = fastpack.pack_table(table, **options)
    assert fastpack.pack_table(table, **options, cache_dir=cache).equals(expected)
    assert fastpack.pack_table(table, **options, cache_dir=cache).equals(expected)
    fastpack.pack_table(table, **options, cache_dir=cache, output=tmp_path / "out")
    assert fastpack.read(tmp_path / "out").select(expected.column_names).to_pylist() == expected.to_pylist()
    assert len(entries(cache)) == 1
    longer = fastpack.pack_table(table, tokenizer_dir, max_length=512, cache_dir=cache)
    assert longer.equals(fastpack.pack_table(table, tokenizer_dir, max_length=512))
    assert len(entries(cache)) == 1
    fastpack.pack_table(table.slice(1), **options, cache_dir=cache)
    assert len(entries(cache)) == 2


def test_records_that_nothing_tells_from_others_are_packed_without_the_cache(records, tokenizer_dir, cache):
    options = {"tokenizer": tokenizer_dir, "max_length": 256}
    expected = fastpack.pack_records(iter(records), **options)
    assert fastpack.pack_records(iter(records), **options, cache_dir=cache).equals(expected)
    assert entries(cache) == set()


@pytest.mark.parametrize(
    ("option", "given"),
    [("per_file", {"format": fastpack.Format(per_file=True)}), ("keep_tokens", {"keep_tokens": True})],
)
def test_a_folder_that_keeps_or_parts_its_tokens_has_no_cache(
    option, given, corpus, tokenizer_dir, tmp_path, cache
):
    with pytest.raises(fastpack.OptionError, match=f"invalid option `cache_dir`: .*{option}=True"):
        fastpack.pack_dir(
            corpus,
            tmp_path / "out",
            tokenizer=tokenizer_dir,
            max_length=256,
            cache_dir=cache,
            **given,
        )


def test_damaged_tokens_are_made_anew_by_the_next_call(corpus, tokenizer_dir, tmp_path, cache):
    options = {"tokenizer": tokenizer_dir, "max_length": 256, "cache_dir": cache}
    fastpack.pack_dir(corpus, tmp_path / "a", **options)
    (kept,) = cache.glob("*/tokens.fastpack")
    spoiled = bytearray(kept.read_bytes())
    spoiled[len(spoiled) // 2] ^= 1
    kept.chmod(0o644)
    kept.write_bytes(spoiled)
    with pytest.raises(fastpack.OutputError, match="call again"):
        fastpack.pack_dir(corpus, tmp_path / "b", **options)
    fastpack.pack_dir(corpus, tmp_path / "b", **options)
    assert shards(tmp_path / "a") == shards(tmp_path / "b")
