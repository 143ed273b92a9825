"""Shards that the writer of `mosaicml-streaming` made, in an environment of its own: it refuses today's `transformers`."""

from __future__ import annotations

import json
import os
import random
import re
import struct
import subprocess

import mds_shards
import numpy as np
import pytest
from conftest import ROOT

import fastpack

PYTHON = ROOT / ".venv-mosaic" / "bin" / "python"

WRITE = """
import json, sys
import numpy as np
from streaming import MDSWriter
folder, columns, compression, size, records = json.loads(sys.stdin.read())
with MDSWriter(out=folder, columns=columns, compression=compression, size_limit=size, hashes=["sha1"]) as writer:
    for record in records:
        for name, encoding in columns.items():
            if encoding.startswith("ndarray"):
                kind = encoding.split(":")[1] if ":" in encoding else "int32"
                record[name] = np.asarray(record[name], dtype=kind)
        writer.write(record)
"""


def write(folder, columns, records, *, compression=None, size=20_000):
    """Writes records by the library's own writer."""
    given = json.dumps([str(folder), columns, compression, size, records])
    environment = os.environ | {"PYTHONPATH": "", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [PYTHON, "-c", WRITE], input=given, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(list(folder.glob("shard.*"))) > 1
    return folder


def lines(path, records):
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return path


def rows(files, tokenizer):
    return fastpack.pack_files(files, tokenizer, max_length=128).to_pylist()


@pytest.mark.parametrize("compression", [None, "zstd", "zstd:7"])
def test_prompts_and_answers_in_text_columns_are_read(compression, tokenizer_dir, tmp_path):
    chances = random.Random(1)
    records = [
        {"prompt": f"How many boats? {number}", "response": "a boat and " * chances.randrange(1, 40)}
        for number in range(300)
    ]
    columns = {"prompt": "str", "response": "str"}
    folder = write(tmp_path / "mds", columns, records, compression=compression)
    assert rows(folder, tokenizer_dir) == rows(lines(tmp_path / "lines.jsonl", records), tokenizer_dir)


def test_conversations_in_json_columns_are_read(tokenizer_dir, tmp_path):
    def conversation(number):
        turns = [
            ("user", f"What passes the town in month {number}?"),
            ("assistant", "a boat " * (number % 17 + 1)),
        ]
        return [{"role": role, "content": content} for role, content in turns]

    records = [{"messages": conversation(number), "id": number} for number in range(300)]
    folder = write(tmp_path / "mds", {"messages": "json", "id": "int"}, records)
    assert rows(folder, tokenizer_dir) == rows(lines(tmp_path / "lines.jsonl", records), tokenizer_dir)


@pytest.mark.parametrize("encoding", ["ndarray", "ndarray:uint16", "ndarray:int64", "ndarray:int32:24"])
def test_ids_in_arrays_are_read(encoding, tokenizer_dir, tmp_path):
    chances = np.random.default_rng(1)
    size = (lambda: 24) if encoding.endswith("24") else (lambda: int(chances.integers(1, 90)))
    records = [{"input_ids": chances.integers(1, 300, size()).tolist()} for _ in range(400)]
    folder = write(tmp_path / "mds", {"input_ids": encoding}, records)
    assert rows(folder, tokenizer_dir) == rows(lines(tmp_path / "lines.jsonl", records), tokenizer_dir)


def test_a_stream_goes_on_at_any_record_of_a_shard(tokenizer_dir, tmp_path):
    records = [{"text": f"the river and the boat {number}"} for number in range(300)]
    folder = write(tmp_path / "mds", {"text": "str"}, records, size=8_000)

    def stream(state=None):
        options = {"max_length": 64, "batch_size": 1, "shuffle": False, "epochs": 1}
        with fastpack.stream(folder, tokenizer_dir, **options) as tables:
            if state is not None:
                tables.load_state_dict(state)
            for table in tables:
                yield table["input_ids"].to_pylist(), tables.state_dict()

    whole = list(stream())
    assert len(whole) > 20
    for at in random.Random(2).sample(range(len(whole) - 1), 5):
        later = [row for row, _ in stream(whole[at][1])]
        assert later == [row for row, _ in whole[at + 1 :]], at


WRITE_PICTURES = """
import base64, json, sys
from io import BytesIO
from PIL import Image
from streaming import MDSWriter
folder, columns, records = json.loads(sys.stdin.read())
opened = lambda text: Image.open(BytesIO(base64.b64decode(text)))
with MDSWriter(out=folder, columns=columns) as writer:
    for record in records:
        for name, encoding in columns.items():
            if encoding.startswith("list"):
                record[name] = [opened(text) for text in record[name]]
            elif encoding in {"png", "pil"}:
                record[name] = opened(record[name])
            elif encoding == "jpeg_array":
                record[name] = [base64.b64decode(text) for text in record[name]]
            elif encoding == "bytes":
                record[name] = base64.b64decode(record[name])
        writer.write(record)
"""

PICTURE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAE0lEQVR4nGNgZGIGIgYWVjYgAgAA7QArgMV+GQAAAABJRU5ErkJggg=="
)

#: The same picture as `pil` has it.
PIXELS = struct.pack("<3I", 2, 2, 3) + b"RGB" + b"\1\2\3\1\2\3\4\5\6\4\5\6"


@pytest.mark.parametrize("encoding", ["bytes", "png", "list[png]", "jpeg_array", "pil", "list[pil]"])
def test_the_tests_write_pictures_as_the_library_does(encoding, tmp_path):
    is_list = encoding.startswith("list") or encoding == "jpeg_array"
    given = [{"text": str(at), "images": [PICTURE] * at if is_list else PICTURE} for at in range(1, 4)]
    columns = {"text": "str", "images": encoding}
    done = subprocess.run(
        [PYTHON, "-c", WRITE_PICTURES],
        input=json.dumps([str(tmp_path / "mds"), columns, given]),
        env=os.environ | {"PYTHONPATH": "", "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    written = (tmp_path / "mds" / "shard.00000.mds").read_bytes()
    files = re.findall(rb"\x89PNG.*?IEND.{4}", written, re.DOTALL)
    if "pil" in encoding:
        files = [PIXELS] * written.count(PIXELS)
    assert len(files) == (6 if is_list else 3)
    for count in range(1, 4):
        value = [files.pop(0) for _ in range(count)] if is_list else files.pop(0)
        assert mds_shards.encoded(encoding, value) in written
