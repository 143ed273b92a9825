"""A `revision` beside a tokenizer that has none is refused, in every call that takes it."""

from __future__ import annotations

import dataclasses
import inspect
import subprocess
import sys

import pytest

import fastpack

FILES = "examples/chat.jsonl"

#: Each call with a tokenizer and a revision.
CALLS = {
    "pack_files": lambda tokenizer, **given: fastpack.pack_files(FILES, tokenizer, max_length=64, **given),
    "pack_dir": lambda tokenizer, **given: fastpack.pack_dir(
        FILES, "never", tokenizer=tokenizer, max_length=64, **given
    ),
    "pack_table": lambda tokenizer, **given: fastpack.pack_table(
        __import__("pyarrow").table({"text": ["a"]}), tokenizer, max_length=64, **given
    ),
    "pack_records": lambda tokenizer, **given: fastpack.pack_records(
        [{"text": "a"}], tokenizer, max_length=64, **given
    ),
    "stream": lambda tokenizer, **given: fastpack.stream(FILES, tokenizer, max_length=64, **given),
    "repack": lambda tokenizer, **given: fastpack.repack(
        "never", "never either", tokenizer=tokenizer, max_length=64, **given
    ),
    "scan": lambda tokenizer, **given: fastpack.scan(FILES, tokenizer, max_length=64, **given),
    "Tokenizer": fastpack.Tokenizer,
}


def takes_revision(name):
    [calls] = [
        field.metadata["calls"] for field in dataclasses.fields(fastpack.Storage) if field.name == "revision"
    ]
    public = getattr(fastpack, name)
    has = callable(public) and "revision" in inspect.signature(public).parameters
    return name in calls or (has and public is not fastpack.Storage)


def test_every_call_that_takes_a_revision_is_tried():
    assert {name for name in fastpack.__all__ if takes_revision(name)} == set(CALLS)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", ["folder", "file", "loaded"])
def test_a_revision_beside_a_tokenizer_without_one_is_refused(kind, call, tokenizer_dir):
    tokenizer = {
        "folder": tokenizer_dir,
        "file": tokenizer_dir / "tokenizer.json",
        "loaded": fastpack.Tokenizer(tokenizer_dir),
    }[kind]
    said = "loaded already" if kind == "loaded" else "on this disk"
    is_tokenizer = call == "Tokenizer"
    given = {"revision": "main"} if is_tokenizer else {"storage": fastpack.Storage(revision="main")}
    with pytest.raises(fastpack.OptionError, match=said) as refused:
        CALLS[call](tokenizer, **given)
    assert refused.value.option == ("revision" if is_tokenizer else "storage.revision")


def test_the_command_line_refuses_it_too(tokenizer_dir):
    command = [sys.executable, "-m", "fastpack", "tokenizer", str(tokenizer_dir), "--revision", "main"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--revision" in done.stderr
    assert done.stderr.count("\n") == 1
