"""The bytes of an output: the same for any number of threads, and those that one thread once wrote, one batch after the other."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from pathlib import Path

import pytest
from conftest import conversation

import fastpack

THREADS = [1, 2, 3, 8, 33]

GOLDEN = Path(__file__).with_name("test_bytes.json")
"""The hashes of the files, from before rows were encoded on several threads. `FASTPACK_WRITE_BYTES=1` makes them again."""

CODINGS = [
    {"format": "arrow"},
    {"format": "arrow", "compression": "lz4"},
    {"format": "arrow", "compression": "zstd"},
    {"format": "arrow", "layout": "compact"},
    {"format": "jsonl"},
    {"format": "msgpack_arrays", "columns": ["input_ids", "labels", "position_ids"]},
    {"format": "parquet"},
    {"format": "parquet", "compression": "none"},
    {"format": "parquet", "compression": "snappy"},
    {"format": "parquet", "compression": "lz4", "layout": "compact"},
]

CUTS = {
    "a row a shard": (100, {"max_length": 1024}, 1),
    "shards that cut batches": (3_000, {"max_length": 256, "strategy": "sequential"}, "700KB"),
    "two splits": (3_000, {"max_length": 512, "validation": 0.2}, "2MB"),
    "one shard": (3_000, {"max_length": 1024}, "512MB"),
    "row groups and parts": (24_000, {"max_length": 1024}, "512MB"),
}
"""The conversations that are packed, how, and the size of the shards."""


def name(coding, cut):
    return ", ".join([*(f"{key} {value}" for key, value in coding.items() if key != "columns"), cut])


@pytest.fixture(scope="module")
def kept(tokenizer_dir, tmp_path_factory):
    """A folder with the tokens of many conversations: 24,000 are more than a row group, and more than a part of a hash."""
    folder = tmp_path_factory.mktemp("bytes")

    @functools.cache
    def keep(count):
        path, out = folder / f"{count}.jsonl", folder / f"{count}"
        lines = [json.dumps(conversation(number)) for number in range(count)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        fastpack.pack_dir(path, out, tokenizer=tokenizer_dir, max_length=1024, keep_tokens=True)
        return out

    return keep


def hashes(folder):
    """The files of rows of a folder, and their hashes."""
    files = sorted(path for split in ("train", "validation") for path in folder.glob(f"{split}-*"))
    return {path.name: hashlib.blake2b(path.read_bytes(), digest_size=12).hexdigest() for path in files}


def summary(found):
    """A few files as they are, and many as one hash of their hashes."""
    if len(found) <= 4:
        return found
    return {f"{len(found)} files": hashlib.blake2b(json.dumps(found).encode(), digest_size=12).hexdigest()}


#: A few codings, in files that several threads fill.
LARGE = [coding for coding in CODINGS if coding["format"] in ("arrow", "jsonl", "msgpack_arrays")] + [
    {"format": "parquet"}
]

CASES = [(coding, cut) for cut in CUTS for coding in (LARGE if cut == "row groups and parts" else CODINGS)]


@pytest.mark.parametrize(("coding", "cut"), CASES, ids=[name(*case) for case in CASES])
def test_files_are_the_same_bytes_on_any_number_of_threads(coding, cut, kept, tmp_path):
    count, options, shard_size = CUTS[cut]
    columns = {"columns": coding["columns"]} if "columns" in coding else {}
    written = {key: coding[key] for key in ("compression", "layout") if key in coding}
    written = fastpack.Format(coding["format"], shard_size=shard_size, **written)
    writes = os.environ.get("FASTPACK_WRITE_BYTES") == "1"
    found = []
    for threads in [1] if writes else THREADS:
        out = tmp_path / str(threads)
        fastpack.repack(kept(count), out, threads=threads, format=written, **columns, **options)
        found.append(hashes(out))
    assert all(one == found[0] for one in found)
    golden = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    if writes:
        golden[name(coding, cut)] = summary(found[0])
        GOLDEN.write_text(json.dumps(golden, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    assert golden[name(coding, cut)] == summary(found[0])
