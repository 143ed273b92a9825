"""Chats in files, for the tests on a cluster."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
# Clusters start in a folder of this run: `ray.init()` connects to what a killed run left in the common one. Its path is short:
# sockets lie in it.
RAY_FOLDER = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
atexit.register(shutil.rmtree, RAY_FOLDER, ignore_errors=True)
os.environ["RAY_TMPDIR"] = RAY_FOLDER
os.environ.pop("RAY_ADDRESS", None)
# The processes of a cluster borrow the built extension, as this one does.
ROOT = Path(__file__).parents[2]
os.environ["PYTHONPATH"] = str(ROOT / "python")


@pytest.fixture(scope="session")
def tokenizer_dir():
    return str(ROOT / "examples" / "tokenizer")


@pytest.fixture(scope="session")
def chats(tmp_path_factory):
    """Twelve files of conversations, of different sizes."""
    folder = tmp_path_factory.mktemp("chats")
    for number in range(12):
        with (folder / f"part-{number:02}.jsonl").open("w", encoding="utf-8") as out:
            for record in range(40 + 20 * (number % 3)):
                question = f"How many boats pass the town of number {record} in month {number}?"
                answer = "The river carries " + " and ".join(["a boat"] * (record % 23 + 1)) + "."
                turns = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
                out.write(json.dumps({"messages": turns}) + "\n")
    return folder


def shards(folder):
    """The bytes of each shard, by its name."""
    return {path.name: path.read_bytes() for path in Path(folder).glob("*-[0-9]*.arrow")}


def timeless(folder):
    report = json.loads((Path(folder) / "report.json").read_text(encoding="utf-8"))
    del report["timing"]
    return report
