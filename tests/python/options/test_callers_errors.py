"""Errors of the caller's own code pass unchanged, with a note of the place; so do interrupts and a lack of memory."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

import pytest
from campaign import tries
from conftest import conversation
from containers import CONTAINERS
from fsspec.implementations.memory import MemoryFileSystem

import fastpack

RECORDS = [conversation(number) for number in range(4)]


class _OwnError(Exception):
    """An exception of the caller's."""


RAISED = [
    _OwnError,
    ValueError,
    OSError,
    FileNotFoundError,
    PermissionError,
    TimeoutError,
    ConnectionError,
    UnicodeError,
    MemoryError,
    KeyboardInterrupt,
    SystemExit,
    StopIteration,
    RuntimeError,
]

#: Those of which a long test tries all: an error of ours alone, one that reads like an answer, one that reads like a passing
#: failure, an interrupt, and one that ends a loop.
SOME = tries([_OwnError, FileNotFoundError, TimeoutError, KeyboardInterrupt, StopIteration], RAISED)


def options(tokenizer, **more):
    return {"tokenizer": tokenizer, "max_length": 256, **more}


def streamed(files, given, **more):
    with fastpack.stream(files, epochs=1, batch_size=2, **{**given, **more}) as stream:
        return list(stream)


def records_of(failing):
    yield from RECORDS
    failing()


class First:
    """An iterable that gives no iterator."""

    def __init__(self, fail):
        self.fail = fail

    def __iter__(self):
        return self.fail()


class Iterated:
    """An iterable that fails where it is asked for an iterator."""

    def __init__(self, fail):
        self.fail, self.asked = fail, 0

    def __iter__(self):
        self.asked += 1
        if self.asked > 1:
            self.fail()
        return iter(RECORDS)


class Indexed:
    """A sequence without `__iter__`."""

    def __init__(self, fail):
        self.fail = fail

    def __len__(self):
        return 3

    def __getitem__(self, at):
        return self.fail() if at else RECORDS[0]


class Lazy(Mapping):
    """A record whose values are made when they are read."""

    def __init__(self, fail):
        self.fail = fail

    def __getitem__(self, key):
        return self.fail()

    def __iter__(self):
        return iter(["messages"])

    def __len__(self):
        return 1


class Stateful:
    """An iterable whose state cannot be told."""

    def __init__(self, fail):
        self.fail = fail

    def __iter__(self):
        return iter(RECORDS)

    def state_dict(self):
        return self.fail()

    def load_state_dict(self, state):
        pass


#: Calls that run code of the caller's, by the place that a note names.
CALLS = {
    "`filter`": lambda files, given, fail: fastpack.pack_files(files, filter=fail, progress=False, **given),
    "`map`": lambda files, given, fail: fastpack.pack_files(files, map=fail, progress=False, **given),
    "`filter` of a scan": lambda files, given, fail: fastpack.scan(
        files, tokenizer=given["tokenizer"], max_length=256, filter=fail
    ),
    "`objective.function`": lambda files, given, fail: fastpack.pack_files(
        files,
        objective=fastpack.Custom(fail, fingerprint="v1"),
        progress=False,
        **given,
    ),
    "`progress`": lambda files, given, fail: fastpack.pack_files(files, progress=fail, **given),
    "the records": lambda _, given, fail: fastpack.pack_records(records_of(fail), progress=False, **given),
    "the records of a sequence": lambda _, given, fail: fastpack.pack_records(Indexed(fail), **given),
    "the records of lazy mappings": lambda _, given, fail: fastpack.pack_records([Lazy(fail)], **given),
    "`files`": lambda _, given, fail: fastpack.pack_files(map(fail, [1]), **given),
    "an iterable": lambda _, given, fail: fastpack.pack_records(First(fail), **given),
    "`filter` of a stream": lambda files, given, fail: streamed(files, given, filter=fail),
    "`log` of a stream": lambda files, given, fail: streamed(files, given, log=fail),
    "`all_reduce` of a stream": lambda files, given, fail: streamed(
        files, given, ranks=fastpack.Ranks(rank=0, world_size=2, on_end="pad", all_reduce=fail)
    ),
    "the records of `records`": lambda _, given, fail: streamed(fail, given, shuffle=False),
    "`files` of a stream": lambda _, given, fail: streamed(Iterated(fail), given, shuffle=False),
    "the records of `records` with a state": lambda _, given, fail: streamed(
        Stateful(fail), given, shuffle=False
    ),
    "`state_dicts`": lambda _, __, fail: fastpack.merge_state_dicts(map(fail, [1])),
    "`texts`": lambda _, given, fail: given["tokenizer"].encode_batch(map(fail, [1])),
}


@pytest.fixture(scope="module")
def tokenizer(tokenizer_dir):
    return fastpack.Tokenizer(tokenizer_dir)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    path = tmp_path_factory.mktemp("callers") / "data.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    return path


def fails(raised, call, place):
    """Asserts that a call raises the exception itself, with one note of the place; of a `StopIteration` the error of generators."""
    is_end = isinstance(raised, StopIteration)
    with pytest.raises(RuntimeError if is_end else type(raised)) as caught:
        call()
    if is_end:
        # It would end the loop over a stream.
        assert caught.value.__cause__ is raised
        return
    assert caught.value is raised
    assert raised.args == ("it is the caller's",)
    if sys.version_info >= (3, 11):
        notes = getattr(raised, "__notes__", [])
        assert [note for note in notes if place in note] == notes != []


@pytest.mark.parametrize("kind", RAISED)
@pytest.mark.parametrize("place", CALLS)
def test_what_the_callers_code_raises_passes_unchanged(place, kind, tokenizer, files):
    if kind is StopIteration and place in {"the records", "`files`", "`state_dicts`", "`texts`"}:
        pytest.skip("it is how an iterator ends")
    raised = kind("it is the caller's")

    def fail(*_):
        raise raised

    fails(
        raised,
        lambda: CALLS[place](files, options(tokenizer), fail),
        place.split(" of a ")[0].split(" of l")[0].split(" with ")[0],
    )


def test_a_note_of_the_callers_own_stays_beside_that_of_the_place(tokenizer, files):
    if sys.version_info < (3, 11):
        pytest.skip("no notes")

    def fail(_):
        raised = _OwnError("it is the caller's")
        raised.add_note("own")
        raise raised

    with pytest.raises(_OwnError) as caught:
        fastpack.pack_files(files, filter=fail, **options(tokenizer))
    own, place = caught.value.__notes__
    assert own == "own"
    assert place.startswith("while fastpack called `filter`")


TAKES = 'with a batch of records, a `pyarrow.RecordBatch`; `fastpack.Function(f, per="record")` takes one record, as a dict'


@pytest.mark.parametrize("option", ["filter", "map"])
def test_a_note_says_that_a_bare_function_takes_batches(option, tokenizer, files):
    if sys.version_info < (3, 11):
        pytest.skip("no notes")

    def of_records(record):
        return record["messages"]["content"]

    with pytest.raises(TypeError) as caught:
        fastpack.pack_files(files, **{option: of_records}, **options(tokenizer))
    assert caught.value.__notes__ == [f"while fastpack called `{option}` {TAKES}"]
    function = fastpack.Function(of_records, fingerprint="v1", per="record")
    with pytest.raises(TypeError) as caught:
        fastpack.pack_files(files, **{option: function}, **options(tokenizer))
    assert caught.value.__notes__ == [f"while fastpack called `{option}`"]


@pytest.mark.parametrize(("option", "answer"), [("filter", True), ("map", {"text": "a boat"})])
def test_the_answer_of_a_function_of_records_is_told_how_to_give_it(option, answer, tokenizer, files):
    with pytest.raises(
        fastpack.OptionTypeError, match=r'`fastpack\.Function\(f, per="record"\)` takes one record'
    ):
        fastpack.pack_files(files, **{option: lambda _: answer}, **options(tokenizer))


class Failing(MemoryFileSystem):
    """A filesystem in memory, one of whose methods raises."""

    protocol = "failing"
    cachable = False

    def __init__(self):
        super().__init__()
        self.store, self.pseudo_dirs = {}, [""]
        self.raising, self.raised = "", None
        self.spared = 0

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.removeprefix("failing://"))

    def _fail(self, method):
        if method == self.raising:
            self.spared -= 1
            if self.spared < 0:
                raise self.raised

    def info(self, path, **options):
        self._fail("info")
        return super().info(path, **options)

    def find(self, *args, **options):
        self._fail("find")
        return super().find(*args, **options)

    def cat_file(self, *args, **options):
        self._fail("cat_file")
        return super().cat_file(*args, **options)


#: Calls that read from a filesystem.
READING = {
    "pack_files": lambda files, given, _: fastpack.pack_files(files, **given),
    "pack_dir": lambda files, given, folder: fastpack.pack_dir(files, folder / "out", **given),
    "pack_dir by groups": lambda files, given, folder: fastpack.pack_dir(
        files, folder / "out", groups="1KB", **given
    ),
    "stream": lambda files, given, _: streamed(files, given),
    "estimate": lambda files, given, _: fastpack.stream(files, epochs=1, **given).estimate(),
    "scan": lambda files, given, _: fastpack.scan(files, **given),
    "a sampled scan": lambda files, given, _: fastpack.scan(files, sample=2, **given),
    "reindex": lambda files, given, folder: fastpack.reindex(files, folder / "out", storage=given["storage"]),
}


def opened(name, method, raised):
    filesystem = Failing()
    filesystem.pipe(f"/in/{name}", CONTAINERS[name.split(".", 1)[1]](RECORDS * 20))
    filesystem.raising, filesystem.raised = method, raised
    return filesystem


@pytest.mark.parametrize("kind", SOME)
@pytest.mark.parametrize("method", ["info", "find", "cat_file"])
@pytest.mark.parametrize("call", READING)
def test_what_a_filesystem_raises_passes_unchanged(call, method, kind, tokenizer, tmp_path):
    if kind is FileNotFoundError and method != "cat_file":
        pytest.skip("it says that there is no such file")
    raised = kind("it is the caller's")
    given = options(tokenizer, storage=fastpack.Storage(filesystem=opened("data.jsonl", method, raised)))
    files = "/in/*.jsonl" if method == "find" else "/in/data.jsonl"
    fails(
        raised,
        lambda: READING[call](files, given, tmp_path),
        "data.jsonl by `filesystem`" if method != "find" else "in by `filesystem`",
    )


@pytest.mark.parametrize("skipping", [False, True])
@pytest.mark.parametrize(
    "kind", tries([_OwnError, FileNotFoundError], [_OwnError, OSError, FileNotFoundError, KeyboardInterrupt])
)
@pytest.mark.parametrize("container", CONTAINERS)
def test_what_a_filesystem_raises_in_the_middle_of_a_file_passes_unchanged(
    container, kind, skipping, tokenizer, tmp_path
):
    for spared in range(4):
        raised = kind("it is the caller's")
        filesystem = opened(f"data.{container}", "cat_file", raised)
        filesystem.spared = spared
        given = options(
            tokenizer,
            storage=fastpack.Storage(filesystem=filesystem),
            on_bad_record="skip" if skipping else "error",
            max_lost="100%",
        )

        def call(given=given, folder=tmp_path / str(spared)):
            return fastpack.pack_dir(f"/in/data.{container}", folder, **given)

        caught = None
        try:
            call()
        except BaseException as other:
            caught = other
        assert caught is (raised if filesystem.spared < 0 else None)
        assert caught is None or any(
            "by `filesystem`" in note for note in getattr(raised, "__notes__", ["by `filesystem`"])
        )


def test_a_stream_goes_on_after_its_filesystem_has_failed(tokenizer):
    raised = _OwnError("it is the caller's")
    filesystem = opened("data.jsonl", "cat_file", raised)
    given = options(tokenizer, storage=fastpack.Storage(filesystem=filesystem))
    with fastpack.stream("/in/data.jsonl", epochs=1, batch_size=2, **given) as stream:
        for _ in range(2):
            with pytest.raises(_OwnError):
                next(stream)
        filesystem.raising = ""
        rows = [table.to_pylist() for table in stream]
    with fastpack.stream("/in/data.jsonl", epochs=1, batch_size=2, **given) as stream:
        assert rows == [table.to_pylist() for table in stream]
