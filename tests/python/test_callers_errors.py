"""What the caller's own code raises passes unchanged, with a note of the place; so do interrupts and a lack of memory."""

from __future__ import annotations

import json
import sys

import pytest
from conftest import conversation

import fastpack

RECORDS = [conversation(number) for number in range(4)]


class _OwnError(Exception):
    """An exception of the caller's."""


RAISED = [_OwnError, ValueError, OSError, MemoryError, KeyboardInterrupt, StopIteration, RuntimeError]


def options(tokenizer, **more):
    return {"tokenizer": tokenizer, "max_length": 256, **more}


def streamed(files, given):
    with fastpack.stream(files, epochs=1, batch_size=2, **given) as stream:
        return list(stream)


def records_of(failing):
    yield from RECORDS
    failing()


#: Calls that run a function of the caller's, by the place that a note names.
CALLS = {
    "`filter`": lambda files, given, fail: fastpack.pack_files(files, filter=fail, progress=False, **given),
    "`map`": lambda files, given, fail: fastpack.pack_files(files, map=fail, progress=False, **given),
    "`progress`": lambda files, given, fail: fastpack.pack_files(files, progress=fail, **given),
    "the records": lambda _, given, fail: fastpack.pack_records(records_of(fail), progress=False, **given),
    "`filter` of a stream": lambda files, given, fail: streamed(files, {**given, "filter": fail}),
}


@pytest.fixture(scope="module")
def tokenizer(tokenizer_dir):
    return fastpack.Tokenizer(tokenizer_dir)


@pytest.mark.parametrize("kind", RAISED)
@pytest.mark.parametrize("place", CALLS)
def test_what_the_callers_code_raises_passes_unchanged(place, kind, tokenizer, tmp_path):
    if (place, kind) == ("the records", StopIteration):
        pytest.skip("a generator cannot raise it")
    files = tmp_path / "data.jsonl"
    files.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    raised = kind("it is the caller's")

    def fail(*_):
        raise raised

    with pytest.raises(RuntimeError if kind is StopIteration else kind) as caught:
        CALLS[place](files, options(tokenizer), fail)
    if kind is StopIteration:
        # It would end the loop over a stream; generators make the same of it.
        assert caught.value.__cause__ is raised
        return
    assert caught.value is raised
    if sys.version_info >= (3, 11) and isinstance(raised, Exception):
        assert [note for note in raised.__notes__ if place.split(" of a ")[0] in note] == raised.__notes__


def test_what_all_reduce_raises_passes_unchanged(tokenizer, tmp_path):
    files = tmp_path / "data.jsonl"
    files.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    raised = _OwnError("a rank is gone")

    def fail(_):
        raise raised

    given = options(tokenizer, rank=0, world_size=2, on_end="pad", all_reduce=fail)
    with pytest.raises(_OwnError) as caught:
        streamed(files, given)
    assert caught.value is raised
