"""A file that is spoilt in any way gives rows with balanced books, or one error that names it."""

from __future__ import annotations

import functools
import json
import os
import random
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from campaign import tries
from conftest import ROOT, conversation, sentence
from containers import CONTAINERS, SEPARATOR, TEXT_FILES
from mutations import mutate, survive
from rows import balanced

import fastpack

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(os.name != "posix", reason="memory is bounded as POSIX has it"),
]

TOKENIZER = ROOT / "examples" / "tokenizer"

TEXTS = [{"text": sentence(number, 4 + number % 9), "n": number} for number in range(40)]
CHATS = [conversation(number) for number in range(20)]

FAULTS_OF_OURS = (fastpack.InternalError, fastpack.LedgerError, fastpack.VerificationError)
"""Exceptions that no file may lead to."""


@functools.cache
def loaded() -> fastpack.Tokenizer:
    return fastpack.Tokenizer(TOKENIZER)


@functools.cache
def written(name: str, chats: bool) -> bytes:
    """The same records in a container, as that is without a fault."""
    records: list[dict[str, Any]] = CHATS if chats else TEXTS
    if name in TEXT_FILES:
        return TEXT_FILES[name](TEXTS)
    if name == "dictionary.arrow":
        return dictionaries()
    return CONTAINERS[name](records)


def dictionaries() -> bytes:
    """A stream of texts that stand in a dictionary, and of compressed numbers."""
    texts = pa.array([record["text"] for record in TEXTS] * 9).dictionary_encode()
    table = pa.table({"text": texts, "n": list(range(len(texts)))})
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


NAMES = [*CONTAINERS, *TEXT_FILES, "dictionary.arrow"]


def spoil_input(seed: int, folder: Path) -> None:
    """Packs a container that is spoilt."""
    chance = random.Random(seed)
    name = chance.choice(NAMES)
    path = folder / f"data.{name}"
    path.write_bytes(mutate(written(name, chance.random() < 0.5), chance))
    options: dict[str, Any] = {"on_bad_record": chance.choice(["error", "skip", "skip"])}
    if name in TEXT_FILES:
        options["reading"] = fastpack.Reading(separator=SEPARATOR)
    pack(path, loaded(), str(path), **options)


def spoil_tokenizer(seed: int, folder: Path) -> None:
    """Packs a few records with a tokenizer of which one file is spoilt."""
    chance = random.Random(seed)
    home = folder / "tokenizer"
    shutil.copytree(TOKENIZER, home)
    path = chance.choice(sorted(home.iterdir()))
    path.write_bytes(mutate(path.read_bytes(), chance))
    data = folder / "data.jsonl"
    data.write_text("".join(json.dumps(record) + "\n" for record in [*CHATS[:3], *CHATS[-3:]]))
    pack(data, home, "", on_bad_record=chance.choice(["error", "skip"]))


def pack(path: Path, tokenizer: Any, named: str, **options: Any) -> None:
    """Packs a file: it must give rows with balanced books, or one error on one line, which names it."""
    said = ""
    try:
        table = fastpack.pack_files(path, tokenizer, max_length=64, threads=2, **options)
        assert balanced(fastpack.Report.of(table))
    except FAULTS_OF_OURS:
        raise
    except fastpack.FastpackError as error:
        said = f"{error} {getattr(error, 'filename', '')}"
    assert not said or named in said, said
    assert "\n" not in said, said
    assert len(said) < 2000, said


def test_a_spoilt_input_gives_rows_or_one_error():
    survive("test_mutations:spoil_input", tries(600, 2500))


def test_a_spoilt_tokenizer_gives_rows_or_one_error():
    survive("test_mutations:spoil_tokenizer", tries(120, 500))
