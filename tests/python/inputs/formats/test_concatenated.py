"""Files that were put together: all of them are read, or the rest is named; no byte is passed over unseen."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from campaign import tries
from conftest import sentence
from containers import CONTAINERS, zstd

import fastpack

if TYPE_CHECKING:
    from pathlib import Path

FIRST = [{"text": sentence(number, 5), "n": number} for number in range(30)]
SECOND = [{"text": sentence(number, 7), "n": number} for number in range(40, 60)]


def report(path: Path, tokenizer: Path, **options: Any) -> fastpack.Report:
    return fastpack.Report.of(fastpack.pack_files(path, tokenizer, max_length=512, **options))


@pytest.mark.parametrize("name", ["stream.arrow", "jsonl", "cbor"])
@pytest.mark.parametrize("compress", [None, gzip.compress, zstd, bz2.compress, lzma.compress])
def test_all_of_what_was_put_together_is_read(name, compress, tmp_path, tokenizer_dir):
    ending = {None: "", gzip.compress: ".gz", zstd: ".zst", bz2.compress: ".bz2", lzma.compress: ".xz"}[
        compress
    ]
    parts = [CONTAINERS[name](records) for records in (FIRST, SECOND, FIRST)]
    path = tmp_path / f"data.{name}{ending}"
    path.write_bytes(b"".join(compress(part) if compress else part for part in parts))
    single = tmp_path / "data.jsonl"
    single.write_bytes(CONTAINERS["jsonl"](FIRST + SECOND + FIRST))
    rows = fastpack.pack_files(path, tokenizer_dir, max_length=512)
    assert rows.to_pydict() == fastpack.pack_files(single, tokenizer_dir, max_length=512).to_pydict()


def test_a_stream_of_other_columns_behind_a_stream_is_damage(tmp_path, tokenizer_dir):
    path = tmp_path / "data.arrow"
    other = [{"text": record["text"]} for record in SECOND]
    path.write_bytes(CONTAINERS["stream.arrow"](FIRST) + CONTAINERS["stream.arrow"](other))
    with pytest.raises(fastpack.RecordError, match="other columns") as caught:
        report(path, tokenizer_dir)
    assert (caught.value.line, caught.value.reason) == (31, "damaged")
    assert report(path, tokenizer_dir, on_bad_record="skip", max_lost="100%").documents == (31, 30, 1)


@pytest.mark.parametrize(
    "name", ["arrow", "polars.arrow", "feather", "parquet", "zstd.parquet", "polars.parquet"]
)
@pytest.mark.parametrize("same", [True, False])
def test_files_that_are_read_from_their_end_are_damaged_where_another_lies_before(
    name, same, tmp_path, tokenizer_dir
):
    path = tmp_path / f"data.{name}"
    path.write_bytes(CONTAINERS[name](FIRST) + CONTAINERS[name](FIRST if same else SECOND))
    with pytest.raises(fastpack.RecordError, match="apart") as caught:
        report(path, tokenizer_dir)
    assert (caught.value.path, caught.value.reason) == (str(path), "damaged")


@pytest.mark.parametrize(
    "name", ["arrow", "parquet", "stream.arrow", "jsonl.gz", "jsonl.zst", "jsonl.bz2", "jsonl.xz", "json"]
)
def test_bytes_behind_the_end_are_damage(name, tmp_path, tokenizer_dir):
    data = CONTAINERS[name](FIRST)
    path = tmp_path / f"data.{name}"
    for count in tries([1, 2, 3, 4, 7, 16], range(1, 21)):
        for behind in (b"\x00" * count, b"\xff" * count, b"{" * count, data[:count]):
            path.write_bytes(data + behind)
            found = report(path, tokenizer_dir, on_bad_record="skip", max_lost="100%")
            lost = {reason: it.documents for reason, it in found.dropped.items()}
            # Zeros may stand behind gzip, and in fours behind xz.
            is_padded = name == "jsonl.gz" or (name == "jsonl.xz" and count % 4 == 0)
            padding = is_padded and behind == b"\x00" * count
            assert lost in ([{}] if padding else [{"damaged": 1}, {"invalid_json": 1}]), (count, behind)


def test_a_lie_about_the_length_of_a_buffer_is_damage(tmp_path, tokenizer_dir):
    table = pa.table({"text": ["a river " * 40] * 50})
    for codec in ("lz4", "zstd"):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(
            sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)
        ) as writer:
            writer.write_table(table)
        data = sink.getvalue().to_pybytes()
        length = len("a river " * 40 * 50)
        told = length.to_bytes(8, "little")
        at = next(at for at in range(0, len(data), 8) if data[at : at + 8] == told)
        path = tmp_path / "data.arrow"
        for lie in (length + 1, length - 1, 1 << 40, 1 << 62, (1 << 63) - 1, 0):
            path.write_bytes(data[:at] + lie.to_bytes(8, "little") + data[at + 8 :])
            with pytest.raises(fastpack.RecordError) as caught:
                report(path, tokenizer_dir)
            assert (caught.value.path, caught.value.reason) == (str(path), "damaged")


def test_texts_that_expand_a_thousandfold_are_read(tmp_path, tokenizer_dir):
    # 80 MB of one letter: the length in a buffer is believed if it is true.
    table = pa.table({"text": ["a" * 1000] * 80_000})
    sink = pa.OSFile(os.fspath(tmp_path / "data.arrow"), "wb")
    with (
        sink,
        pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer,
    ):
        writer.write_table(table)
    seen = 0

    def count(batch: Any) -> list[bool]:
        nonlocal seen
        first = seen == 0
        seen += batch.num_rows
        return [first and row == 0 for row in range(batch.num_rows)]

    report(tmp_path / "data.arrow", tokenizer_dir, filter=count)
    assert seen == 80_000
