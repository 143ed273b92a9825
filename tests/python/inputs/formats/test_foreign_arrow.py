"""Tables of others through the Arrow C interface, which are not as they say."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable

GOOD = pa.table({"text": ["a river", "日本語", "a boat"], "other": [["x"], [], ["y", "z"]]})
PLAIN: dict[str, Any] = {"max_length": 64, "strategy": "none"}


class Schema(ctypes.Structure):
    """`ArrowSchema`, as the interface has it."""


class Array(ctypes.Structure):
    """`ArrowArray`, as the interface has it."""


class Stream(ctypes.Structure):
    """`ArrowArrayStream`, as the interface has it."""


POINTER = ctypes.c_void_p
Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", POINTER),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(Schema))),
    ("dictionary", POINTER),
    ("release", POINTER),
    ("private_data", POINTER),
]
Array._fields_ = [
    *((name, ctypes.c_int64) for name in ("length", "null_count", "offset", "n_buffers", "n_children")),
    ("buffers", ctypes.POINTER(POINTER)),
    ("children", ctypes.POINTER(ctypes.POINTER(Array))),
    ("dictionary", POINTER),
    ("release", POINTER),
    ("private_data", POINTER),
]
GIVE_SCHEMA = ctypes.CFUNCTYPE(ctypes.c_int, POINTER, ctypes.POINTER(Schema))
GIVE_ARRAY = ctypes.CFUNCTYPE(ctypes.c_int, POINTER, ctypes.POINTER(Array))
GIVE_ERROR = ctypes.CFUNCTYPE(POINTER, POINTER)
RELEASE = ctypes.CFUNCTYPE(None, ctypes.POINTER(Stream))
Stream._fields_ = [
    ("get_schema", GIVE_SCHEMA),
    ("get_next", GIVE_ARRAY),
    ("get_last_error", GIVE_ERROR),
    ("release", RELEASE),
    ("private_data", POINTER),
]

NEW_CAPSULE = ctypes.PYFUNCTYPE(ctypes.py_object, POINTER, ctypes.c_char_p, POINTER)(
    ("PyCapsule_New", ctypes.pythonapi)
)


class Producer:
    """Hands a table over as C structs, which `spoil` may change, and fails after `batches` of its batches with `code`."""

    def __init__(
        self,
        table: pa.Table = GOOD,
        spoil: Callable[[Schema, Array], None] | None = None,
        code: int = 0,
        batches: int = 1,
        name: bytes = b"arrow_array_stream",
        without: str | None = None,
    ) -> None:
        self.batch = table.combine_chunks().to_batches()[0]
        self.spoil, self.code, self.left, self.name = spoil, code, batches, name
        self.stream = Stream(
            GIVE_SCHEMA(self.give_schema),
            GIVE_ARRAY(self.give_array),
            GIVE_ERROR(self.give_error),
            RELEASE(self.release),
            None,
        )
        if without:
            setattr(self.stream, without, type(getattr(self.stream, without))())
        # A producer of another library lives as long as its table.
        KEPT.append(self)
        self.said = ctypes.create_string_buffer(b"the wire is out\nand so is the light")

    def exported(self) -> tuple[Schema, Array]:
        schema, array = Schema(), Array()
        self.batch._export_to_c(ctypes.addressof(array), ctypes.addressof(schema))
        if self.spoil:
            self.spoil(schema, array)
        return schema, array

    def give_schema(self, _stream: object, out: Any) -> int:
        self.schema = self.exported()[0]
        ctypes.memmove(out, ctypes.byref(self.schema), ctypes.sizeof(Schema))
        return 0

    def give_array(self, _stream: object, out: Any) -> int:
        if self.left == 0:
            ctypes.memset(out, 0, ctypes.sizeof(Array))
            return self.code
        self.left -= 1
        self.array = self.exported()[1]
        ctypes.memmove(out, ctypes.byref(self.array), ctypes.sizeof(Array))
        return 0

    def give_error(self, _stream: object) -> int:
        return ctypes.addressof(self.said)

    def release(self, stream: Any) -> None:
        stream.contents.release = RELEASE()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return NEW_CAPSULE(ctypes.addressof(self.stream), self.name, None)


def column(array: Array, number: int) -> Array:
    return array.children[number].contents


def offsets(number: int, *wanted: int) -> Callable[[Schema, Array], None]:
    """Gives a column other offsets, of 32 bits."""

    def spoil(_schema: Schema, array: Array) -> None:
        made = np.array(wanted, np.int32)
        KEPT.append(made)
        column(array, number).buffers[1] = made.ctypes.data

    return spoil


KEPT: list[object] = []
"""The memory that producers point into, which must stay alive."""


def renamed(schema: Schema, _array: Array) -> None:
    schema.children[0].contents.name = b"te\xffxt"


def renamed_inside(schema: Schema, _array: Array) -> None:
    schema.children[1].contents.children[0].contents.name = b"\xff"


def without_buffers(_schema: Schema, array: Array) -> None:
    column(array, 0).buffers[1] = None
    column(array, 0).buffers[2] = None


def without_columns(_schema: Schema, array: Array) -> None:
    array.n_children = 1


def negative_length(_schema: Schema, array: Array) -> None:
    array.length = -3


def no_text(_schema: Schema, array: Array) -> None:
    made = np.frombuffer(b"a river\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8\xf7a boat", np.uint8).copy()
    KEPT.append(made)
    column(array, 0).buffers[2] = made.ctypes.data


LIES: dict[str, Callable[[], object]] = {
    "a negative first offset": lambda: Producer(spoil=offsets(0, -7, 7, 16, 22)),
    "a negative offset": lambda: Producer(spoil=offsets(0, 0, -7, 16, 22)),
    "a negative last offset": lambda: Producer(spoil=offsets(0, 0, 7, 16, -22)),
    "offsets that go back": lambda: Producer(spoil=offsets(0, 0, 20, 16, 22)),
    "an offset inside a character": lambda: Producer(spoil=offsets(0, 0, 8, 16, 22)),
    "lists with a negative offset": lambda: Producer(spoil=offsets(1, 0, -1, 1, 3)),
    "lists that end behind their values": lambda: Producer(spoil=offsets(1, 0, 1, 1, 300)),
    "bytes that are no text": lambda: Producer(spoil=no_text),
    "a name that is no text": lambda: Producer(spoil=renamed),
    "a name inside that is no text": lambda: Producer(spoil=renamed_inside),
    "buffers that are null": lambda: Producer(spoil=without_buffers),
    "a column less than the schema": lambda: Producer(spoil=without_columns),
    "a negative length": lambda: Producer(spoil=negative_length),
    "a failure of the system": lambda: Producer(code=5),
    "a failure of the argument": lambda: Producer(code=22),
    "a failure of memory": lambda: Producer(code=12),
    "a failure of what is not there": lambda: Producer(code=38),
    "a capsule of another name": lambda: Producer(name=b"arrow_schema"),
    "no get_schema": lambda: Producer(without="get_schema"),
    "no get_next": lambda: Producer(without="get_next"),
    "no get_last_error": lambda: Producer(without="get_last_error", code=5),
    "no release": lambda: Producer(without="release"),
    "nothing": lambda: Handing(None),
    "a number": lambda: Handing(7),
    "a text": lambda: Handing("arrow_array_stream"),
    "an array that is no row": lambda: pa.chunked_array([["a"]]),
}


class Handing:
    """Hands something over that is no stream."""

    def __init__(self, given: object) -> None:
        self.given = given

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.given


def test_a_stream_that_keeps_the_rules_is_packed(tokenizer_dir: Any) -> None:
    packed = fastpack.pack_table(Producer(batches=3), tokenizer_dir, **PLAIN)
    expected = fastpack.pack_table(pa.concat_tables([GOOD] * 3), tokenizer_dir, **PLAIN)
    assert packed.to_pylist() == expected.to_pylist()


@pytest.mark.parametrize("lie", LIES)
def test_a_stream_that_lies_is_one_error(lie: str, tokenizer_dir: Any, tmp_path: Any, capfd: Any) -> None:
    messages = set()
    for more in ({}, {"output": tmp_path / "out"}):
        with pytest.raises((fastpack.RecordError, fastpack.OptionError)) as refused:
            fastpack.pack_table(LIES[lie](), tokenizer_dir, **PLAIN, **more)
        error = refused.value
        if isinstance(error, fastpack.RecordError):
            assert (error.path, error.reason) == ("<table>", "damaged")
        else:
            assert error.option == "table"
        messages.add(str(error))
    [message] = messages
    assert "\n" not in message
    assert len(message) < 500
    assert capfd.readouterr().err == ""


def test_a_stream_that_fails_later_is_damaged_from_there(tokenizer_dir: Any) -> None:
    with pytest.raises(
        fastpack.RecordError, match=r"<table>:7: the wire is out and so is the light"
    ) as refused:
        fastpack.pack_table(Producer(batches=2, code=5), tokenizer_dir, **PLAIN)
    assert (refused.value.line, refused.value.reason) == (7, "damaged")
    kept = fastpack.pack_table(Producer(batches=2, code=5), tokenizer_dir, **PLAIN, on_bad_record="skip")
    assert kept.num_rows == 6
    assert fastpack.Report.of(kept).dropped == {"damaged": (1, 0)}


def test_what_a_producer_raises_reaches_the_caller_as_it_is(tokenizer_dir: Any) -> None:
    class Unplugged(Handing):
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            message = "the wire is out"
            raise LookupError(message)

    with pytest.raises(LookupError, match="the wire is out"):
        fastpack.pack_table(Unplugged(None), tokenizer_dir, **PLAIN)


def strings(*wanted: int, data: bytes = b"abcdef") -> pa.Array:
    """An array of texts with these offsets, which pyarrow does not look at."""
    buffers = [None, pa.py_buffer(np.array(wanted, np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), len(wanted) - 1, buffers)


TABLES = {
    "offsets that go back": pa.table({"text": strings(0, 5, 2, 6)}),
    "a negative offset": pa.table({"text": strings(0, -5, 2, 6)}),
    "no text": pa.table({"text": strings(0, 3, 6, data=b"abc\xff\xfed")}),
    "keys that point nowhere": pa.table(
        {"text": pa.DictionaryArray.from_arrays(pa.array([0, 9], pa.int8()), pa.array(["a"]), safe=False)}
    ),
}


@pytest.mark.parametrize("lie", TABLES)
def test_a_table_made_of_wrong_buffers_is_one_error(lie: str, tokenizer_dir: Any, tmp_path: Any) -> None:
    table = TABLES[lie]
    for form in (lambda: table, lambda: table.to_batches()[0], table.to_reader):
        for more in ({}, {"output": tmp_path / "out"}):
            with pytest.raises((fastpack.RecordError, fastpack.OptionError)):
                fastpack.pack_table(form(), tokenizer_dir, **PLAIN, **more)


@pytest.mark.parametrize("lie", TABLES)
def test_a_map_that_returns_wrong_buffers_is_refused(lie: str, tokenizer_dir: Any) -> None:
    wrong = TABLES[lie].to_batches()[0]
    records = [{"text": "a"}] * wrong.num_rows
    with pytest.raises(fastpack.OptionError) as refused:
        fastpack.pack_records(records, tokenizer_dir, map=lambda _: wrong, **PLAIN)
    assert refused.value.option == "map"


def test_what_stands_where_a_text_is_null_need_be_none(tokenizer_dir: Any) -> None:
    wrong = strings(0, 3, 6, data=b"abc\xff\xfed")
    valid = pa.py_buffer(b"\x01")
    null = pa.Array.from_buffers(pa.string(), 2, [valid, *wrong.buffers()[1:]])
    packed = fastpack.pack_table(pa.table({"text": null}), tokenizer_dir, **PLAIN, on_bad_record="skip")
    assert packed.num_rows == 1
