"""The same records in every container."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import struct
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Records = list[dict[str, Any]]


def lines(records: Records) -> bytes:
    return b"".join(json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in records)


def zstd(data: bytes) -> bytes:
    return pa.Codec("zstd").compress(data, asbytes=True)


def members(compress: Callable[[bytes], bytes]) -> Callable[[Records], bytes]:
    """Lines in three members, cut in the middle of a line."""

    def write(records: Records) -> bytes:
        data = lines(records)
        third = len(data) // 3
        return b"".join(map(compress, (data[:third], data[third : 2 * third], data[2 * third :])))

    return write


def cbor(value: Any) -> bytes:
    """Encodes a value as CBOR (RFC 8949)."""

    def head(major: int, argument: int) -> bytes:
        if argument < 24:
            return bytes([major << 5 | argument])
        size = next(size for size in range(4) if argument < 1 << (8 << size))
        return bytes([major << 5 | 24 + size]) + argument.to_bytes(1 << size, "big")

    match value:
        case None | bool():
            data = {None: b"\xf6", True: b"\xf5", False: b"\xf4"}[value]
        case int():
            data = head(0, value) if value >= 0 else head(1, -1 - value)
        case float():
            data = b"\xfb" + struct.pack(">d", value)
        case bytes():
            data = head(2, len(value)) + value
        case str():
            data = head(3, len(value.encode())) + value.encode()
        case list():
            data = head(4, len(value)) + b"".join(map(cbor, value))
        case _:
            data = head(5, len(value)) + b"".join(cbor(name) + cbor(item) for name, item in value.items())
    return data


def sequence(records: Records) -> bytes:
    return b"".join(map(cbor, records))


def indexed(records: Records) -> bytes:
    """Pairs of lines, as dumps of a search index have them."""
    index = {"index": {"_type": "_doc", "_id": "a } {\\"}}
    return b"".join(
        json.dumps(line, separators=(",", ":")).encode() + b"\n"
        for record in records
        for line in (index, record)
    )


def buffered(write: Callable[[io.BytesIO], object]) -> bytes:
    file = io.BytesIO()
    write(file)
    return file.getvalue()


def ipc(records: Records, new: Callable[..., Any], size: int = 7) -> bytes:
    table = pa.Table.from_pylist(records)

    def write(file: io.BytesIO) -> None:
        with new(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=size)

    return buffered(write)


def table_of_texts(delimiter: str, newline: str = "\n") -> Callable[[Records], bytes]:
    """A table of text cells; other values are written into cells as JSON."""

    def write(records: Records) -> bytes:
        cells = [
            {name: value if isinstance(value, str) else json.dumps(value) for name, value in record.items()}
            for record in records
        ]
        # The module quotes a carriage return of a text only where it quotes all.
        returns = any("\r" in cell for row in cells for cell in row.values())
        file = io.StringIO(newline="")
        writer = csv.DictWriter(
            file,
            list(records[0]),
            delimiter=delimiter,
            lineterminator=newline,
            quoting=csv.QUOTE_ALL if returns else csv.QUOTE_MINIMAL,
        )
        writer.writeheader()
        writer.writerows(cells)
        return file.getvalue().encode()

    return write


CONTAINERS: dict[str, Callable[[Records], bytes]] = {
    "jsonl": lines,
    "jsonl.gz": members(gzip.compress),
    "jsonl.zst": members(zstd),
    "jsonl.bz2": members(bz2.compress),
    "jsonl.xz": members(lzma.compress),
    "index.jsonl": indexed,
    "index.json.gz": lambda records: gzip.compress(indexed(records)),
    "cbor": sequence,
    "cbor.zst": lambda records: zstd(sequence(records)),
    "json": lambda records: json.dumps(records, indent=1).encode(),
    "lines.json": lines,
    "json.gz": lambda records: gzip.compress(json.dumps(records).encode()),
    "csv": table_of_texts(","),
    "crlf.csv": table_of_texts(",", "\r\n"),
    "csv.zst": lambda records: zstd(table_of_texts(",")(records)),
    "tsv": table_of_texts("\t"),
    "parquet": lambda records: buffered(
        lambda file: pa.parquet.write_table(pa.Table.from_pylist(records), file, row_group_size=17)
    ),
    "zstd.parquet": lambda records: buffered(
        lambda file: pa.parquet.write_table(pa.Table.from_pylist(records), file, compression="zstd")
    ),
    "brotli.parquet": lambda records: buffered(
        lambda file: pa.parquet.write_table(pa.Table.from_pylist(records), file, compression="brotli")
    ),
    "polars.parquet": lambda records: buffered(pl.DataFrame(records).write_parquet),
    "arrow": lambda records: ipc(records, pa.ipc.new_file),
    "stream.arrow": lambda records: ipc(records, pa.ipc.new_stream),
    "arrow.gz": lambda records: gzip.compress(ipc(records, pa.ipc.new_stream)),
    "feather": lambda records: buffered(
        lambda file: pa.feather.write_feather(pa.Table.from_pylist(records), file, compression="lz4")
    ),
    "polars.arrow": lambda records: buffered(pl.DataFrame(records).write_ipc),
}

SEPARATOR = "\n--\n"


def separated(records: Records) -> bytes:
    return SEPARATOR.join(record["text"] for record in records).encode()


TEXT_FILES = {"txt": separated, "md": separated}
"""Containers of texts alone, which are to be split at `SEPARATOR`."""

ROADS = [*CONTAINERS, "save_to_disk", "pack_table", "pack_records"]
"""All ways that records take into a table of rows: out of files, a folder of `datasets`, and memory."""


def pack_by(road: str, records: Records, folder: Path, tokenizer: Path, **options: Any) -> pa.Table:
    """Packs records that come by one of the `ROADS`, or as one of the `TEXT_FILES`; files are put into the folder."""
    if road == "pack_table":
        return fastpack.pack_table(pa.Table.from_pylist(records), tokenizer, **options)
    if road == "pack_records":
        return fastpack.pack_records(iter(records), tokenizer, **options)
    path = folder / f"data.{road}"
    if road == "save_to_disk":
        import datasets

        datasets.disable_progress_bars()
        datasets.Dataset.from_list(records).save_to_disk(path)
    elif road in TEXT_FILES:
        path.write_bytes(TEXT_FILES[road](records))
        options["reading"] = fastpack.Reading(separator=SEPARATOR)
    else:
        path.write_bytes(CONTAINERS[road](records))
    return fastpack.pack_files(path, tokenizer, **options)
