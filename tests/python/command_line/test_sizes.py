"""Records as long as a buffer of the code, or a few bytes more or less, are read once each, wherever they stand."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import re
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from campaign import tries
from conftest import ROOT
from containers import CONTAINERS, SEPARATOR, TEXT_FILES, cbor, zstd
from pace import paced

import fastpack

if TYPE_CHECKING:
    from pathlib import Path

TOKENIZER = ROOT / "examples" / "tokenizer"

SOURCE = ROOT / "rust" / "core" / "src" / "source"


def sizes() -> list[int]:
    """The sizes in bytes that the code of the source reads by, from its constants."""
    found = set()
    for path in SOURCE.rglob("*.rs"):
        code = path.read_text(encoding="utf-8").split("#[cfg(test)]")[0]
        for number, shift in re.findall(r"const \w+: u(?:size|64) = (\d+) << (\d+);", code):
            found.add(int(number) << int(shift))
    # Small ones count other things, and larger ones are limits.
    return sorted(size for size in found if 1 << 10 <= size <= 4 << 20)


SIZES = sizes()

WRITERS: dict[str, Any] = {
    **{name: CONTAINERS[name] for name in ("jsonl", "index.jsonl", "json", "csv", "crlf.csv", "tsv", "cbor")},
    **{name: CONTAINERS[name] for name in ("parquet", "arrow", "stream.arrow", "feather")},
    "txt": TEXT_FILES["txt"],
    "csv.gz": lambda records: gzip.compress(CONTAINERS["csv"](records), 1),
    "jsonl.zst": lambda records: zstd(CONTAINERS["jsonl"](records)),
    "jsonl.bz2": lambda records: bz2.compress(CONTAINERS["jsonl"](records), 1),
    "csv.xz": lambda records: lzma.compress(CONTAINERS["csv"](records), preset=0),
    "json.gz": lambda records: gzip.compress(CONTAINERS["json"](records), 1),
}

ENDS_IN_NEWLINE = ("jsonl", "csv", "tsv")


def text(number: int, length: int) -> str:
    """A unique text of `length` bytes."""
    return (f"{number:06}, " + "the river " * (length // 10 + 1))[:length]


def test_the_sizes_of_the_code_are_known():
    assert 256 << 10 in SIZES
    assert 64 << 10 in SIZES


COMPRESSED = (".gz", ".zst", ".bz2", ".xz")


def offsets(name: str, size: int) -> list[int]:
    """The differences between record lengths and a size: all near it for blocks, fewer for larger sizes."""
    if size > 1 << 20:
        return [0] if name in {"jsonl", "csv", "cbor"} else []
    # Compressed files are cut by the same readers, at other places.
    if size > 256 << 10 or name.endswith(COMPRESSED):
        return tries([-1, 0], [-16, -1, 0, 1, 16])
    return tries([-16, -2, -1, 0, 1, 15], list(range(-16, 17)))


@pytest.mark.parametrize("name", WRITERS)
def test_records_around_every_size_are_read_once(name, tmp_path):
    # The text around a value in its container decides which length meets a buffer: the lengths before it are tried too.
    for size in [*SIZES, 2 * (256 << 10), 3 * (256 << 10)]:
        for offset in offsets(name, size):
            around = (
                len(WRITERS[name]([{"text": ""}])) if name in {"jsonl", "csv", "tsv", "cbor", "txt"} else 0
            )
            lengths = [size + offset, 40, size - offset - around % 64, 0, size - around % 64 + offset]
            records = [{"text": text(number, max(length, 8))} for number, length in enumerate(lengths)]
            data = WRITERS[name](records)
            if name in ENDS_IN_NEWLINE and offset % 2:
                data = data.removesuffix(b"\n")
            path = tmp_path / f"data.{name}"
            path.write_bytes(data)
            assert texts(path, name) == [record["text"] for record in records], (size, offset)


def texts(path: Path, name: str) -> list[str]:
    """The texts that are read of a file, none of which is tokenized but the shortest."""
    seen: list[str] = []

    def short(batch: Any) -> list[bool]:
        read = batch["text"].to_pylist()
        seen.extend(read)
        return [len(text) < 100 for text in read]

    options: dict[str, Any] = {"reading": fastpack.Reading(separator=SEPARATOR)} if name == "txt" else {}
    table = fastpack.pack_files(path, TOKENIZER, max_length=64, filter=short, threads=2, **options)
    report = fastpack.Report.of(table)
    assert report.documents.read == len(seen)
    return seen


@pytest.mark.parametrize("name", ["csv", "tsv", "jsonl", "json", "cbor"])
@pytest.mark.parametrize("place", ["first", "last", "only"])
def test_a_record_longer_than_a_block_is_kept_wherever_it_stands(name, place, tmp_path):
    long, small = text(1, 700_000), [text(2, 30), text(3, 40)]
    expected = {"first": [long, *small], "last": [*small, long], "only": [long]}[place]
    path = tmp_path / f"data.{name}"
    path.write_bytes(CONTAINERS[name]([{"text": it} for it in expected]))
    if place == "only":
        path.write_bytes(CONTAINERS[name]([{"text": long}]))
        table = fastpack.pack_files(path, TOKENIZER, max_length=1 << 20)
        assert fastpack.Report.of(table).documents == (1, 1, 0)
    else:
        assert texts(path, name) == expected


def test_a_header_of_many_columns_takes_no_longer_for_each(tmp_path):
    names = ["text", *(f"c{number}" for number in range(200_000))]
    path = tmp_path / "wide.csv"
    path.write_text(",".join(names) + "\n" + "a river" + "," * 200_000 + "\n")
    table = fastpack.pack_files(path, TOKENIZER, max_length=64)
    assert fastpack.Report.of(table).documents == (1, 1, 0)
    path.write_text(",".join([*names, "c7"]) + "\na\n")
    with pytest.raises(fastpack.RecordError, match="names `c7` twice"):
        fastpack.pack_files(path, TOKENIZER, max_length=64)


def test_what_is_read_of_a_table_does_not_depend_on_its_blocks(tmp_path):
    records = [{"text": text(number, 1 + number * 7919 % 120_000)} for number in range(60)]
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    expected = texts(path, "jsonl")
    for name in ("csv", "tsv", "cbor", "json"):
        other = tmp_path / f"data.{name}"
        other.write_bytes(CONTAINERS[name](records))
        assert texts(other, name) == expected


LONGEST = 1 << 30
"""Bytes that a record may have."""


def sparse(path: Path, before: bytes, hole: int, after: bytes) -> None:
    """Writes a file with zeros in the middle, which take no room on the disk."""
    with path.open("wb") as file:
        file.write(before)
        file.seek(hole, os.SEEK_CUR)
        file.write(after)


HOLE = LONGEST + 1

TOO_LONG: dict[str, tuple[bytes, bytes, int]] = {
    "jsonl": (b'{"text": "a river"}\n', b'\n{"text": "a boat"}\n', 2),
    "csv": (b"text\na river\n", b"\na boat\n", 3),
    "json": (b'[{"text": "a river"},\n"', b'",\n{"text": "a boat"}]', 2),
    "cbor": (cbor({"text": "a river"}) + b"\x7a" + HOLE.to_bytes(4, "big"), cbor({"text": "a boat"}), 2),
    "txt": (b"a river" + SEPARATOR.encode(), SEPARATOR.encode() + b"a boat", 3),
}
"""The text before and after a record that is too long, and its line."""


@pytest.mark.alone
@pytest.mark.parametrize("name", TOO_LONG)
def test_a_record_that_is_too_long_is_counted_and_those_behind_it_are_read(name, tmp_path):
    path = tmp_path / f"data.{name}"
    before, after, line = TOO_LONG[name]
    sparse(path, before, HOLE, after)
    options: dict[str, Any] = {"reading": fastpack.Reading(separator=SEPARATOR)} if name == "txt" else {}
    if name == "jsonl":
        with pytest.raises(fastpack.RecordError, match=f"more than {LONGEST} bytes") as caught:
            fastpack.pack_files(path, TOKENIZER, max_length=64, **options)
        assert (caught.value.line, caught.value.reason) == (line, "line_too_long")
    table = fastpack.pack_files(path, TOKENIZER, max_length=64, on_bad_record="skip", **options)
    report = fastpack.Report.of(table)
    assert report.documents == (3, 2, 1)
    assert [(place.line, place.reason) for place in report.places] == [(line, "line_too_long")]


READ = """
import fastpack, sys, time
print("reading", flush=True)
try:
    fastpack.pack_files(sys.argv[1], sys.argv[2], max_length=64, on_bad_record="skip")
except KeyboardInterrupt:
    print("interrupted", time.monotonic())
except fastpack.FastpackError:
    print("through")
"""


@pytest.mark.alone
@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
@pytest.mark.parametrize("name", ["jsonl", "csv", "json", "cbor"])
def test_ctrl_c_is_heard_within_a_line(name, tmp_path, python):
    path = tmp_path / f"data.{name}"
    before = {"csv": b'"', "cbor": b"\x7b" + (1 << 40).to_bytes(8, "big"), "json": b'["'}.get(name, b"")
    sparse(path, before, 1 << 36, b"\n")
    for _ in range(10):
        process = python("-c", READ, str(path), str(TOKENIZER))
        assert process.stdout.readline().strip() == "reading"
        time.sleep(0.5)
        with paced() as machine:
            sent = time.monotonic()
            process.send_signal(signal.SIGINT)
            said = process.communicate(timeout=60)[0].split()
        # Where this process waits for a processor, the other may read as much as a record may have before it is interrupted.
        if said != ["through"]:
            break
    assert said[:1] == ["interrupted"], said
    assert float(said[1]) - sent < 0.5 * machine.slowness
