"""`scan(sample=)`: some records, all over the files, that stand for all of them."""

from __future__ import annotations

import gzip
import json
import random

import pyarrow as pa
import pytest
from conftest import conversation, sentence
from pyarrow import parquet

import fastpack


def texts(count, seed=0, longest=60):
    """Texts whose lengths differ widely, the longest of them last: no part at one end is like the whole."""
    chance = random.Random(seed)
    lengths = sorted(int(longest ** chance.uniform(0, 1)) + 1 for _ in range(count))
    return [{"text": sentence(number, length)} for number, length in enumerate(lengths)]


@pytest.fixture
def path(write_jsonl):
    return write_jsonl(texts(60_000))


def timeless(found):
    values = found.to_dict()
    del values["timing"], values["sample"]["seconds"]
    return values


def test_what_is_estimated_is_near_what_all_records_come_to(path, tokenizer_dir):
    options = {"max_length": [64, 256], "overlong": "drop"}
    whole = fastpack.scan(path, tokenizer_dir, **options)
    found = fastpack.scan(path, tokenizer_dir, sample=3_000, **options)
    assert 2_000 < found.sample.records < 4_000
    assert found.sample.share == pytest.approx(found.sample.bytes / path.stat().st_size)
    assert found.read.documents == pytest.approx(whole.read.documents, rel=0.1)
    assert found.read.tokens == pytest.approx(whole.read.tokens, rel=0.02)
    assert found.lengths["p50"] == pytest.approx(whole.lengths["p50"], rel=0.15)
    assert found.trained_share == pytest.approx(whole.trained_share, abs=0.01)
    for estimate, fit in zip(found.fits, whole.fits, strict=True):
        assert estimate.rows == pytest.approx(fit.rows, rel=0.05)
        assert estimate.fill == pytest.approx(fit.fill, abs=0.02)
        assert estimate.kept.tokens == pytest.approx(fit.kept.tokens, rel=0.05)
        assert estimate.lost_tokens == pytest.approx(fit.lost_tokens, rel=0.2)


def test_the_same_records_are_read_each_time(path, tokenizer_dir):
    once, again = (fastpack.scan(path, tokenizer_dir, sample=500, threads=threads) for threads in (1, 4))
    assert timeless(once) == timeless(again)


def test_all_files_are_read_in_proportion(write_jsonl, tokenizer_dir):
    files = [write_jsonl(texts(count, seed=count), f"{count}.jsonl") for count in (3_000, 9_000, 27_000)]
    whole = fastpack.scan(files, tokenizer_dir, max_length=256)
    found = fastpack.scan(files, tokenizer_dir, max_length=256, sample=2_000)
    assert found.inputs[0].files == 3
    assert found.read.tokens == pytest.approx(whole.read.tokens, rel=0.05)


def test_long_records_are_no_likelier_to_be_read(write_jsonl, tokenizer_dir):
    short, long = {"text": "a river"}, {"text": "the old river keeps the town " * 200}
    path = write_jsonl([record for _ in range(4_000) for record in (short, short, short, long)])
    found = fastpack.scan(path, tokenizer_dir, max_length=4096, sample=2_000)
    whole = fastpack.scan(path, tokenizer_dir, max_length=4096)
    assert found.read.documents == pytest.approx(16_000, rel=0.05)
    assert found.lengths["mean"] == pytest.approx(whole.lengths["mean"], rel=0.05)


def test_small_files_are_read_by_chance(tmp_path, tokenizer_dir):
    for number in range(400):
        (tmp_path / f"{number}.txt").write_text(sentence(number, 3 + number % 40))
    whole = fastpack.scan(tmp_path, tokenizer_dir, max_length=256)
    found = fastpack.scan(tmp_path, tokenizer_dir, max_length=256, sample=100)
    assert 60 < found.sample.records < 140
    assert found.read.documents == pytest.approx(400, rel=0.25)
    assert found.read.tokens == pytest.approx(whole.read.tokens, rel=0.05)


# How many bytes of a compressed file a record takes is known by the chunk alone.
@pytest.mark.parametrize(
    ("ending", "off"), [("jsonl.gz", 0.2), ("json", 0.1), ("parquet", 0.1), ("csv", 0.1)], ids=str
)
def test_what_cannot_be_entered_is_judged_by_its_beginning(ending, off, tmp_path, tokenizer_dir):
    records = texts(30_000)
    random.Random(1).shuffle(records)
    path = tmp_path / f"data.{ending}"
    if ending == "parquet":
        parquet.write_table(pa.Table.from_pylist(records), path)
    elif ending == "jsonl.gz":
        path.write_bytes(gzip.compress("\n".join(map(json.dumps, records)).encode()))
    elif ending == "json":
        path.write_text(json.dumps(records))
    else:
        path.write_text("text\n" + "\n".join(record["text"] for record in records))
    whole = fastpack.scan(path, tokenizer_dir, max_length=256)
    found = fastpack.scan(path, tokenizer_dir, max_length=256, sample=1_000)
    assert 500 < found.sample.records < 2_000
    assert found.read.tokens == pytest.approx(whole.read.tokens, rel=off)
    assert found.fits[0].rows == pytest.approx(whole.fits[0].rows, rel=off)
    assert "1 of 1 files are judged by their beginning" in str(found)


def test_what_is_read_twice_counts_twice(path, tokenizer_dir):
    sources = [{"path": path, "repeat": 2}]
    once = fastpack.scan(path, tokenizer_dir, max_length=256)
    twice = fastpack.scan(sources=sources, tokenizer=tokenizer_dir, max_length=256, sample=2_000)
    assert twice.read.tokens == pytest.approx(2 * once.read.tokens, rel=0.05)


def test_a_bad_record_is_named_by_its_byte(write_jsonl, tokenizer_dir):
    lines = [json.dumps(record).encode() for record in texts(5_000)]
    bad = b'{"text": "' + b"a river " * 20
    path = write_jsonl([line for pair in zip(lines, [bad] * 5_000, strict=True) for line in pair])
    found = fastpack.scan(path, tokenizer_dir, max_length=256, sample=400)
    lost = found.lost["invalid_json"]
    assert lost.documents == pytest.approx(5_000, rel=0.2)
    content = path.read_bytes()
    for place in lost.places:
        at, _, _ = place.message.removeprefix("at byte ").partition(": ")
        assert content[int(at) :].startswith(bad)
        assert f"  {path}: at byte {at}: " in str(found)


def test_all_records_are_no_sample(write_jsonl, tokenizer_dir):
    path = write_jsonl(map(conversation, range(50)))
    found = fastpack.scan(path, tokenizer_dir, max_length=256, sample=1_000)
    assert found.sample is None
    whole = fastpack.scan(path, tokenizer_dir, max_length=256)
    assert (found.read, found.fits) == (whole.read, whole.fits)


def test_the_page_says_that_it_estimates(path, tokenizer_dir):
    found = fastpack.scan(path, tokenizer_dir, max_length=256, sample=300)
    page = str(found)
    records, share = found.sample.records, found.sample.share
    assert f"estimated    from {records:,} records, {share:.2%} of the bytes" in page
    assert f"packing takes about {found.sample.seconds:,.2f} for all" in page
    assert "estimated" not in str(fastpack.scan(path, tokenizer_dir, max_length=256))


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "many"])
def test_a_sample_that_is_no_number_is_refused(wrong, path, tokenizer_dir):
    with pytest.raises(fastpack.OptionError, match=r"`sample`.*a whole number from 1") as refused:
        fastpack.scan(path, tokenizer_dir, sample=wrong)
    assert refused.value.option == "sample"


def test_a_sample_of_limited_sources_is_refused(path, tokenizer_dir):
    sources = [{"path": path, "limit": 10}]
    with pytest.raises(fastpack.OptionError, match=r"`sample`.*`limit`; leave one of them out"):
        fastpack.scan(sources=sources, tokenizer=tokenizer_dir, sample=5)
