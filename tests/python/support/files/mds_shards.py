"""Writes MDS shards by the published format."""

from __future__ import annotations

import json
import struct

import numpy as np
import pyarrow as pa


def encoded(encoding, value):
    """A value as the format has it."""
    if encoding in {"str", "str_int", "str_float"}:
        return str(value).encode()
    if encoding == "json":
        return json.dumps(value).encode()
    if encoding == "int":
        return struct.pack("<q", value)
    if encoding in {
        "bytes",
        "pkl",
        "jpeg",
        "png",
        "list[jpeg]",
        "list[png]",
        "jpeg_array",
        "pil",
        "list[pil]",
    }:
        return bytes_of(encoding, value)
    if encoding.startswith("ndarray"):
        _, _, rest = encoding.partition(":")
        kind, _, shape = rest.partition(":")
        array = np.asarray(value, dtype=kind or value.dtype)
        marks = {
            "uint8": 8,
            "int8": 9,
            "uint16": 16,
            "int16": 17,
            "uint32": 32,
            "int32": 33,
            "uint64": 64,
            "int64": 65,
        }
        head = b"" if kind else bytes([marks[array.dtype.name]])
        if not shape:
            head += bytes([array.ndim << 2 | 1]) + np.array(array.shape, "<u2").tobytes()
        return head + array.tobytes()
    return np.dtype(encoding).type(value).tobytes()


def bytes_of(encoding, value):
    """A value of bytes, or a list of such values, as the format has it."""
    if not isinstance(value, list):
        return bytes(value)
    first = [] if encoding == "jpeg_array" else [0]
    return np.array([*first, len(value), *map(len, value)], "<u4").tobytes() + b"".join(value)


def pil(image):
    """A value of `pil` for a picture of Pillow."""
    mode = image.mode.encode()
    return np.array([*image.size, len(mode)], "<u4").tobytes() + mode + image.tobytes()


def fixed(encoding):
    if encoding == "int":
        return 8
    if encoding.startswith("ndarray"):
        parts = encoding.split(":")
        return int(parts[2]) * np.dtype(parts[1]).itemsize if len(parts) == 3 else None
    try:
        return np.dtype(encoding).itemsize if encoding not in {"str", "bytes"} else None
    except TypeError:
        return None


def shard(records, columns):
    """The bytes of a shard."""
    names = sorted(columns)
    sizes = [fixed(columns[name]) for name in names]
    config = json.dumps(
        {
            "column_encodings": [columns[name] for name in names],
            "column_names": names,
            "column_sizes": sizes,
            "compression": None,
            "format": "mds",
            "hashes": [],
            "size_limit": 1 << 26,
            "version": 2,
        },
        sort_keys=True,
    ).encode()
    samples = []
    for record in records:
        values = [encoded(columns[name], record[name]) for name in names]
        head = [
            struct.pack("<I", len(value)) for value, size in zip(values, sizes, strict=True) if size is None
        ]
        samples.append(b"".join([*head, *values]))
    first = 4 + 4 * (len(samples) + 1) + len(config)
    offsets = np.cumsum([first, *map(len, samples)]).astype("<u4")
    return struct.pack("<I", len(samples)) + offsets.tobytes() + config + b"".join(samples)


def write(folder, shards, columns, *, compression=None, raw=True):
    """A folder of shards with its index."""
    folder.mkdir()
    entries = []
    for number, records in enumerate(shards):
        content, name = shard(records, columns), f"shard.{number:05}.mds"
        entry = {"format": "mds", "version": 2, "samples": len(records), "compression": compression}
        entry["raw_data"] = {"basename": name, "bytes": len(content), "hashes": {}}
        entry["zip_data"] = None
        if raw:
            (folder / name).write_bytes(content)
        if compression:
            zipped = pa.Codec("zstd").compress(content, asbytes=True)
            (folder / f"{name}.zstd").write_bytes(zipped)
            entry["zip_data"] = {"basename": f"{name}.zstd", "bytes": len(zipped), "hashes": {}}
        entries.append(entry)
    (folder / "index.json").write_text(json.dumps({"version": 2, "shards": entries}), encoding="utf-8")
    return folder
