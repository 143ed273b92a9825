"""`scan(sample=)`: some records, all over the files, that stand for all of them."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import random
import re
import statistics
import time
from pathlib import Path

import pyarrow as pa
import pytest
from conftest import conversation, sentence
from containers import sequence
from mds_shards import shard
from pyarrow import parquet
from web_server import serving

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


def written(path, records):
    """Writes records in the format that the ending of `path` names."""
    lines = "\n".join(map(json.dumps, records))
    if path.suffix == ".parquet":
        parquet.write_table(pa.Table.from_pylist(records), path)
    elif path.suffix == ".arrow" or path.name.endswith(".arrow.gz"):
        table, sink = pa.Table.from_pylist(records), pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=1_000)
        data = sink.getvalue().to_pybytes()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    elif path.suffix == ".cbor":
        path.write_bytes(sequence(records))
    elif path.suffix == ".json":
        path.write_text(json.dumps(records))
    elif path.suffix == ".csv":
        path.write_text("text\n" + "\n".join(record["text"] for record in records))
    else:
        compress = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}[path.suffix]
        path.write_bytes(compress(lines.encode()))
    return path


# The shortest texts are first: who looks at the beginning alone is wrong about all that follows.
@pytest.mark.parametrize(
    "ending", ["jsonl.gz", "jsonl.bz2", "jsonl.xz", "json", "parquet", "csv", "arrow", "arrow.gz", "cbor"]
)
def test_what_cannot_be_entered_is_read_through(ending, tmp_path, tokenizer_dir):
    path = written(tmp_path / f"data.{ending}", texts(30_000))
    whole = fastpack.scan(path, tokenizer_dir, max_length=256)
    found = fastpack.scan(path, tokenizer_dir, max_length=256, sample=2_000)
    # How long records are is told by the first of them, which are shorter than most here.
    assert 500 < found.sample.records < 4_000
    assert found.read.tokens == pytest.approx(whole.read.tokens, rel=0.1)
    assert found.read.documents == pytest.approx(whole.read.documents, rel=0.1)
    assert found.lengths["p50"] == pytest.approx(whole.lengths["p50"], rel=0.2)
    assert found.lengths["p99"] == pytest.approx(whole.lengths["p99"], rel=0.1)
    assert found.fits[0].rows == pytest.approx(whole.fits[0].rows, rel=0.1)
    assert "nothing is known of the rest" not in str(found)


def test_all_files_count_as_much_as_they_hold(tmp_path, write_jsonl, tokenizer_dir):
    # Records are 50 times as long in the one as in the other.
    short = write_jsonl([{"text": sentence(number, 4)} for number in range(20_000)], "short.jsonl")
    long = write_jsonl([{"text": sentence(number, 200)} for number in range(10_000)], "long.jsonl")
    few = write_jsonl([{"text": sentence(number, 4)} for number in range(200)], "few.jsonl")
    for files, records in (([short, long], 30_000), ([few, long], 10_200)):
        found = fastpack.scan(files, tokenizer_dir, max_length=256, sample=1_000)
        assert 700 < found.sample.records < 1_400
        assert found.read.documents == pytest.approx(records, rel=0.2)


@pytest.mark.alone
def test_what_takes_long_to_read_is_judged_by_its_beginning_and_the_page_says_so(tmp_path, tokenizer_dir):
    chance = random.Random(2)
    records = [{"text": chance.randbytes(20 + number // 25).hex()} for number in range(10_000)]
    path = written(tmp_path / "data.jsonl.bz2", records)
    # Ten megabytes are read on in all: a quarter of the file each time.
    times = round(40_000_000 / path.stat().st_size)
    found = fastpack.scan(
        files=[{"path": path, "repeat": times}], tokenizer=tokenizer_dir, max_length=512, sample=1_000
    )
    up_to = re.search(
        r"1 of 1 files were read up to ([\d.]+) % of each, and nothing is known of the rest", str(found)
    )
    assert float(up_to[1]) == pytest.approx(25, abs=1)
    # By bytes, a quarter is half of the records: each is longer than those before it.
    half = fastpack.scan(files=[{"path": path, "limit": 5_500}], tokenizer=tokenizer_dir, max_length=512)
    assert found.lengths["max"] <= half.lengths["max"]
    assert 500 < found.sample.records < 2_000


def in_parts(path, records, folder):
    """Writes records into a file that is entered at many places: row groups, batches, frames or records of a shard."""
    table = pa.Table.from_pylist(records)
    if path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=500)
    elif path.suffix == ".arrow":
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=500)
    elif path.suffix == ".mds":
        path.write_bytes(shard(records, {"text": "str"}))
    else:
        lines = folder / "data.jsonl"
        lines.write_text("\n".join(map(json.dumps, records)))
        (framed,) = fastpack.reindex(lines, folder / "framed", progress=False).files
        return Path(framed.path)
    return path


# The shortest texts are first, and a quarter is read: the beginning would tell nothing of the long ones.
@pytest.mark.alone
@pytest.mark.parametrize("ending", ["parquet", "arrow", "mds", "jsonl.zst"])
def test_a_file_with_parts_is_entered_at_many_places(ending, tmp_path, tokenizer_dir):
    chance = random.Random(2)
    records = [{"text": chance.randbytes(20 + number // 25).hex()} for number in range(10_000)]
    path = in_parts(tmp_path / f"data.{ending}", records, tmp_path)
    megabytes = {"parquet": 200, "arrow": 800, "mds": 800, "jsonl.zst": 400}[ending]
    times = round(megabytes * 1_000_000 / path.stat().st_size)
    whole = fastpack.scan(path, tokenizer_dir, max_length=512)
    sources = [{"path": path, "repeat": times}]
    found = fastpack.scan(files=sources, tokenizer=tokenizer_dir, max_length=512, sample=4_000)
    assert "read up to" not in str(found)
    assert 2_500 < found.sample.records < 6_000
    assert found.read.documents == pytest.approx(10_000 * times, rel=0.1)
    assert found.read.tokens == pytest.approx(whole.read.tokens * times, rel=0.1)
    assert found.lengths["p50"] == pytest.approx(whole.lengths["p50"], rel=0.1)
    assert found.lengths["p99"] == pytest.approx(whole.lengths["p99"], rel=0.1)


@pytest.mark.alone
def test_a_bad_record_of_frames_is_named_by_the_byte_of_its_frames(tmp_path, tokenizer_dir):
    chance = random.Random(3)
    lines = [
        json.dumps({"text": chance.randbytes(300).hex()}) if number % 20 else "{" for number in range(40_000)
    ]
    source = tmp_path / "data.jsonl"
    source.write_text("\n".join(lines))
    (framed,) = fastpack.reindex(source, tmp_path / "framed", progress=False).files
    path = Path(framed.path)
    sources = [{"path": path, "repeat": round(400_000_000 / path.stat().st_size)}]
    found = fastpack.scan(files=sources, tokenizer=tokenizer_dir, max_length=512, sample=2_000)
    places = found.lost["invalid_json"].places
    assert places
    for place in places:
        (byte,) = re.match(r"in the frames from byte (\d+) on: ", place.message).groups()
        # A frame of zstd begins there.
        assert path.read_bytes()[int(byte) :].startswith(bytes.fromhex("28b52ffd"))


def test_the_same_records_of_what_is_read_through_are_read_each_time(tmp_path, tokenizer_dir):
    path = written(tmp_path / "data.jsonl.gz", texts(20_000))
    once, again = (fastpack.scan(path, tokenizer_dir, sample=500, threads=threads) for threads in (1, 4))
    assert timeless(once) == timeless(again)


def test_a_bad_record_of_what_is_read_through_is_named_by_its_line(tmp_path, tokenizer_dir):
    lines = [json.dumps(record) if number % 2 else "{" for number, record in enumerate(texts(6_000))]
    path = tmp_path / "data.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    found = fastpack.scan(path, tokenizer_dir, sample=600)
    lost = found.lost["invalid_json"]
    assert lost.documents == pytest.approx(3_000, rel=0.3)
    assert all(lines[place.line - 1] == "{" for place in lost.places)


def test_rows_of_a_table_are_named_by_their_number(tmp_path, tokenizer_dir):
    rows = [{"text": None if number % 2 else "the river"} for number in range(6_000)]
    path = tmp_path / "data.parquet"
    parquet.write_table(pa.Table.from_pylist(rows), path)
    found = fastpack.scan(path, tokenizer_dir, sample=600)
    (lost,) = found.lost.values()
    assert lost.documents == pytest.approx(3_000, rel=0.3)
    assert all(rows[place.line - 1]["text"] is None for place in lost.places)


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz"])
def test_files_without_records_are_no_crash(ending, tmp_path, tokenizer_dir):
    for name, content in {"a": b"", "b": b"\n" * 3_000_000}.items():
        path = tmp_path / f"{name}.{ending}"
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
        found = fastpack.scan(path, tokenizer_dir, sample=10)
        assert (found.read.documents, found.documents) == (0, 0)


def test_records_that_begin_where_nobody_looked_for_their_length_are_read(tmp_path, tokenizer_dir):
    path = written(tmp_path / "data.jsonl.gz", texts(300))
    blank = bytes(random.Random(0).choices(b" \t\n", k=4_000_000))
    path.write_bytes(gzip.compress(blank) + path.read_bytes())
    assert fastpack.scan(path, tokenizer_dir, sample=10).read.documents == 300


@pytest.mark.parametrize("kept", [1_000, 30_000])
def test_a_file_that_is_cut_off_is_no_crash(kept, tmp_path, tokenizer_dir):
    path = written(tmp_path / "data.jsonl.gz", texts(20_000))
    path.write_bytes(path.read_bytes()[:kept])
    found = fastpack.scan(path, tokenizer_dir, sample=100)
    whole = fastpack.scan(path, tokenizer_dir)
    assert found.read.documents == pytest.approx(whole.read.documents, rel=0.5)


def worked(found):
    """Seconds of processor time: other work on the machine changes them little."""
    stages = found.to_dict()["timing"]["stages"]
    return sum(stages[stage]["cpu"] for stage in ("read", "parse", "render", "encode"))


@pytest.mark.alone
@pytest.mark.parametrize("sample", [500, 3_000])
@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz"])
def test_the_time_for_all_is_near_what_all_take(ending, sample, tmp_path, write_jsonl, tokenizer_dir):
    records = texts(30_000, longest=400)
    random.Random(1).shuffle(records)
    path = write_jsonl(records) if ending == "jsonl" else written(tmp_path / f"data.{ending}", records)
    for threads in (1, 2):
        whole = [fastpack.scan(path, tokenizer_dir, threads=threads) for _ in range(3)]
        took = statistics.median(worked(found) / threads for found in whole)
        estimates = [
            fastpack.scan(path, tokenizer_dir, sample=sample, threads=threads).sample.seconds
            for _ in range(5)
        ]
        assert took / 2 < statistics.median(estimates) < 2 * took


@pytest.mark.alone
def test_neighbours_at_the_beginning_do_not_decide_the_time(write_jsonl, tokenizer_dir):
    # Short texts first: a token of theirs takes longer, since each record takes a while by itself.
    path = write_jsonl(texts(60_000, longest=400))
    took = worked(fastpack.scan(path, tokenizer_dir, threads=1))
    found = fastpack.scan(path, tokenizer_dir, sample=3_000, threads=1)
    assert took / 2 < found.sample.seconds < 2 * took


@pytest.mark.alone
def test_the_time_of_functions_is_part_of_it(tmp_path, tokenizer_dir):
    path = written(tmp_path / "data.jsonl.gz", texts(4_000))

    def slow(batch):
        until = time.perf_counter() + batch.num_rows * 20e-6
        while time.perf_counter() < until:
            pass
        return [True] * batch.num_rows

    found = fastpack.scan(path, tokenizer_dir, sample=400, filter=slow)
    assert found.sample.seconds > 4_000 * 20e-6 * 0.8
    assert found.to_dict()["timing"]["stages"]["transform"]["wall"] > 400 * 20e-6 * 0.8


def test_what_is_read_twice_counts_twice(path, tokenizer_dir):
    sources = [{"path": path, "repeat": 2}]
    once = fastpack.scan(path, tokenizer_dir, max_length=256)
    twice = fastpack.scan(files=sources, tokenizer=tokenizer_dir, max_length=256, sample=2_000)
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
    assert f"packing takes about {found.sample.seconds:,.2f} s for all" in page
    assert "estimated" not in str(fastpack.scan(path, tokenizer_dir, max_length=256))


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "many"])
def test_a_sample_that_is_no_number_is_refused(wrong, path, tokenizer_dir):
    with pytest.raises(fastpack.OptionError, match=r"`sample`.*a whole number from 1") as refused:
        fastpack.scan(path, tokenizer_dir, sample=wrong)
    assert refused.value.option == "sample"


def test_a_sample_of_limited_sources_is_refused(path, tokenizer_dir):
    sources = [{"path": path, "limit": 10}]
    with pytest.raises(fastpack.OptionError, match=r"`sample`.*`limit`; leave one of them out"):
        fastpack.scan(files=sources, tokenizer=tokenizer_dir, sample=5)


def test_a_window_of_a_remote_file_is_read_by_one_request(tmp_path, tokenizer_dir):
    (tmp_path / "web").mkdir()
    lines = "".join(
        json.dumps({"text": f"{at} " + "the river has boats " * 20}) + "\n" for at in range(20_000)
    )
    (tmp_path / "web/a.jsonl").write_text(lines)
    with serving(tmp_path / "web") as server:
        report = fastpack.scan(f"{server.url}/a.jsonl", tokenizer_dir, max_length=256, sample=2000)
        spans = [
            tuple(map(int, span.removeprefix("bytes=").split("-"))) for *_, span in server.requests if span
        ]
    assert report.sample is not None
    # A window has eight records; sixteen more windows tell their mean size. A window that would reach beyond its part lies in two.
    windows = 2000 / 8 + 16
    assert len(spans) < 1.5 * windows
    assert sum(end - start + 1 for start, end in spans) < 4 * report.sample.bytes
