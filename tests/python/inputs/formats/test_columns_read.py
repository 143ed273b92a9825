"""Tables of which only the columns are read that the shape needs: one that is broken elsewhere shows it."""

from __future__ import annotations

import gzip

import pyarrow as pa
import pytest
from conftest import sentence
from pyarrow import parquet

import fastpack

COUNT = 3_000
TEXTS = [sentence(number, 6) for number in range(COUNT)]

#: The text in the column that is not needed, in the last of its batches alone.
MARK = b"the last of the noise"


def rows(path, tokenizer_dir, **options):
    return fastpack.pack_files(path, tokenizer_dir, max_length=512, **options).to_pylist()


@pytest.fixture
def expected(write_jsonl, tokenizer_dir):
    """The rows of the texts alone."""
    return rows(write_jsonl({"text": text} for text in TEXTS), tokenizer_dir)


def table(**columns):
    """The texts between columns that nobody needs."""
    noise = ["noise"] * (COUNT - 1) + [MARK.decode()]
    return pa.table({"noise": noise, **columns, "text": TEXTS, "more": noise})


def write(path, table, new, size=1_000):
    with new(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=size)


def test_they_are_read_alone_of_a_parquet_file(tmp_path, tokenizer_dir, expected):
    path = tmp_path / "a.parquet"
    noise = [bytes([number % 251]) * 4_000 for number in range(COUNT)]
    wide = pa.table({"noise": noise, "text": TEXTS, "more": noise})
    parquet.write_table(wide, path, compression="none", use_dictionary=False, row_group_size=1_000)
    data = bytearray(path.read_bytes())
    column = parquet.ParquetFile(path).metadata.row_group(2).column(0)
    start = column.data_page_offset
    data[start : start + column.total_compressed_size] = bytes(column.total_compressed_size)
    path.write_bytes(data)
    assert rows(path, tokenizer_dir) == expected
    with pytest.raises(fastpack.RecordError):
        rows(path, tokenizer_dir, reading=fastpack.Reading(fields={"text": "noise"}))
    # A function of the caller may want any of them.
    with pytest.raises(fastpack.RecordError):
        rows(path, tokenizer_dir, filter=lambda batch: [True] * batch.num_rows)


@pytest.mark.parametrize(
    ("new", "zipped"),
    [(pa.ipc.new_file, False), (pa.ipc.new_stream, False), (pa.ipc.new_stream, True)],
    ids=["file", "stream", "compressed stream"],
)
def test_they_are_read_alone_of_arrow_ipc(new, zipped, tmp_path, tokenizer_dir, expected):
    path = tmp_path / "a.arrow"
    write(path, table(), new)
    data = path.read_bytes()
    assert data.count(MARK) == 2
    path.write_bytes(data.replace(MARK, b"\xff" * len(MARK)))
    if zipped:
        path = tmp_path / "a.arrow.gz"
        path.write_bytes(gzip.compress((tmp_path / "a.arrow").read_bytes()))
    assert rows(path, tokenizer_dir) == expected
    with pytest.raises(fastpack.RecordError) as broken:
        rows(path, tokenizer_dir, reading=fastpack.Reading(fields={"text": "noise"}))
    assert broken.value.line == 2_001
    with pytest.raises(fastpack.RecordError):
        rows(path, tokenizer_dir, filter=lambda batch: [True] * batch.num_rows)


@pytest.mark.parametrize("new", [pa.ipc.new_file, pa.ipc.new_stream])
@pytest.mark.parametrize("size", [1, 999, COUNT], ids=["rows", "batches", "one batch"])
def test_dictionaries_are_known_behind_the_first_batch(new, size, tmp_path, tokenizer_dir, expected):
    path = tmp_path / "a.arrow"
    wide = table(kind=pa.array(TEXTS).dictionary_encode())
    encoded = wide.set_column(2, "text", wide["text"].dictionary_encode().combine_chunks())
    write(path, encoded, new, size)
    assert rows(path, tokenizer_dir) == expected


def test_a_dictionary_that_grows_is_followed(tmp_path, tokenizer_dir, expected):
    path = tmp_path / "a.arrow"
    wide = table()
    parts = [wide.slice(at, 1_000) for at in range(0, COUNT, 1_000)]
    encoded = [
        part.set_column(1, "text", part["text"].combine_chunks().dictionary_encode()) for part in parts
    ]
    with pa.ipc.new_stream(path, encoded[0].schema) as writer:
        for part in encoded:
            writer.write_table(part)
    assert rows(path, tokenizer_dir) == expected


@pytest.mark.parametrize("new", [pa.ipc.new_file, pa.ipc.new_stream])
def test_a_first_batch_without_rows_shows_no_columns(new, tmp_path, tokenizer_dir, expected):
    path = tmp_path / "a.arrow"
    wide = table()
    with new(path, wide.schema) as writer:
        writer.write_batch(pa.RecordBatch.from_pylist([], schema=wide.schema))
        writer.write_table(wide)
    assert rows(path, tokenizer_dir) == expected


def test_a_first_batch_too_large_to_be_kept_is_read_once(tmp_path, tokenizer_dir, expected):
    path = tmp_path / "a.arrow"
    blob = pa.array(["x" * 70_000] * 1_000 + [""] * (COUNT - 1_000))
    write(path, table(blob=blob), pa.ipc.new_stream)
    assert path.stat().st_size > 70_000_000
    assert rows(path, tokenizer_dir) == expected
