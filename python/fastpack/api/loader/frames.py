"""The messages of the loader process over a socket: framed JSON, and tables as Arrow IPC.

A frame is a letter, a length of 8 bytes and so many bytes. The client begins with `K`, the secret, which the server answers
with an empty `K`; then `H`, its `Hello` as JSON. The server answers with `W`, its `Welcome` as JSON, and `T` frames, each the
step of a table in 8 bytes and the table with its state in the schema; then `D` at the end, or `E`: an error as JSON. The
client acknowledges tables with `A`, the step in 8 bytes, and takes its leave with `B`, upon which the server closes the
connection once all acknowledgements are kept.
"""

from __future__ import annotations

import errno
import io
import json
import os
import struct
import time
from typing import TYPE_CHECKING, Final

import fastpack.errors as known
from fastpack._checks import shown
from fastpack.api.loader.protocol import Hello, Place, Welcome
from fastpack.errors import FastpackError

if TYPE_CHECKING:
    import socket

    import pyarrow as pa
    from typing_extensions import Buffer

__all__ = [
    "ACKNOWLEDGED",
    "ADDRESS",
    "END",
    "ERROR",
    "HELLO",
    "KEY",
    "LARGEST",
    "LEAVE",
    "TABLE",
    "TOKEN",
    "WELCOME",
    "Deadline",
    "acknowledgement",
    "error_frame",
    "hello_frame",
    "hello_of",
    "raise_frame",
    "receive",
    "receive_step",
    "receive_table",
    "receive_text",
    "send",
    "send_table",
    "welcome_frame",
    "welcome_of",
]

ADDRESS: Final = "FASTPACK_STREAM"
"""The environment variable with the address of the server."""

TOKEN: Final = "FASTPACK_STREAM_TOKEN"  # noqa: S105  the name of a variable
"""The environment variable with the secret that server and clients share."""

KEY, HELLO, WELCOME, TABLE, END, ERROR, ACKNOWLEDGED, LEAVE = b"K", b"H", b"W", b"T", b"D", b"E", b"A", b"B"
"""The letters of frames."""

LARGEST: Final = {
    KEY: 1 << 16,
    HELLO: 64 << 20,
    WELCOME: 64 << 20,
    TABLE: 1 << 40,
    END: 0,
    ERROR: 1 << 20,
    ACKNOWLEDGED: 8,
    LEAVE: 0,
}
"""The most bytes of a frame: far more than a secret, a state, a table or an error takes."""

_PIECE: Final = 1 << 20
"""The bytes of a text for which memory is taken at once, so that what is announced only takes none."""

_HEAD: Final = struct.Struct(">cQ")
_STEP: Final = struct.Struct(">Q")

_MOST_PIECES: Final = 512
"""Pieces of memory that are sent at once: half of what Linux and macOS take (`IOV_MAX`)."""


def send(peer: socket.socket, letter: bytes, content: bytes = b"") -> None:
    """Sends a frame."""
    peer.sendall(_HEAD.pack(letter, len(content)) + content)


def acknowledgement(step: int) -> bytes:
    """The content of an acknowledgement."""
    return _STEP.pack(step)


class _Pieces(io.RawIOBase):
    """A file that keeps what is written to it where it lies."""

    def __init__(self) -> None:
        self.pieces: list[memoryview] = []

    def writable(self) -> bool:
        """Yes, which `pyarrow` asks before it writes."""
        return True

    def write(self, piece: Buffer, /) -> int:
        """Keeps a piece."""
        self.pieces.append(memoryview(piece))
        return len(self.pieces[-1])


def send_table(peer: socket.socket, step: int, table: pa.Table) -> None:
    """Sends a frame with the step of a table, and the table as an Arrow IPC stream, from the memory in which it lies."""
    import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing

    content = _Pieces()
    with (
        pa.PythonFile(content, mode="w") as sink,
        pa.ipc.new_stream(sink, table.schema) as writer,
    ):
        writer.write_table(table)
    length = _STEP.size + sum(map(len, content.pieces))
    pieces = [memoryview(_HEAD.pack(TABLE, length) + _STEP.pack(step)), *content.pieces]
    # A system call takes a bounded number of pieces; a table has some for each column.
    for start in range(0, len(pieces), _MOST_PIECES):
        _send_all(peer, pieces[start : start + _MOST_PIECES])


def _send_all(peer: socket.socket, pieces: list[memoryview]) -> None:
    """Sends pieces of memory, one after the other."""
    while pieces:
        sent = peer.sendmsg(pieces)
        while pieces and sent >= len(pieces[0]):
            sent -= len(pieces.pop(0))
        if pieces:
            pieces[0] = pieces[0][sent:]


class Deadline:
    """The time until which something must have arrived, however slowly it comes."""

    def __init__(self, seconds: float) -> None:
        """Begins now."""
        self._end = time.monotonic() + seconds

    def apply(self, peer: socket.socket) -> None:
        """Lets the next call of a socket end in time.

        Raises:
            TimeoutError: It is over.
        """
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
        peer.settimeout(left)


def receive(
    peer: socket.socket, letters: tuple[bytes, ...], deadline: Deadline | None = None
) -> tuple[bytes, int] | None:
    """Receives the letter of a frame and its length; `None` if the peer has closed the connection.

    Raises:
        FastpackError: The peer sent something else, or announces more bytes than such a frame has.
        ConnectionError: The connection broke within them.
    """
    head = bytearray(_HEAD.size)
    if not _filled(peer, memoryview(head), deadline):
        return None
    letter, length = _HEAD.unpack(head)
    if letter not in letters or length > LARGEST[letter]:
        message = "the other end of the connection is no fastpack stream"
        raise FastpackError(message)
    return letter, length


def receive_text(peer: socket.socket, length: int, deadline: Deadline | None = None) -> bytearray:
    """Receives the content of a frame."""
    content = bytearray()
    while len(content) < length:
        piece = bytearray(min(_PIECE, length - len(content)))
        if not _filled(peer, memoryview(piece), deadline):
            raise _reset()
        content += piece
    return content


def receive_step(peer: socket.socket) -> int:
    """Receives the step of a table or an acknowledgement."""
    content = bytearray(_STEP.size)
    if not _filled(peer, memoryview(content)):
        raise _reset()
    step: int = _STEP.unpack(content)[0]
    return step


def receive_table(peer: socket.socket, length: int) -> pa.Table:
    """Receives a table behind its step, in a frame of so many bytes: an Arrow IPC stream, as a table in the same memory.

    Raises:
        FastpackError: It is no table.
    """
    import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing

    try:
        # Memory of Arrow's, which uses that of tables which are gone again.
        content = pa.allocate_buffer(length - _STEP.size)
        if not _filled(peer, memoryview(content)):
            raise _reset()
        return pa.ipc.open_stream(content).read_all()
    except (pa.ArrowException, OverflowError) as refused:
        message = f"the other end of the connection sent no table: {shown(str(refused))}"
        raise FastpackError(message) from refused


def _filled(peer: socket.socket, content: memoryview, deadline: Deadline | None = None) -> bool:
    """Receives so many bytes; `False` if there are none at all."""
    got = 0
    while got < len(content):
        if deadline is not None:
            deadline.apply(peer)
        received = peer.recv_into(content[got:])
        if received == 0:
            if got == 0:
                return False
            raise _reset()
        got += received
    return True


def _reset() -> ConnectionResetError:
    return ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))


def hello_frame(hello: Hello) -> bytes:
    """The content of a client's first frame behind the secret."""
    return json.dumps(hello._asdict()).encode()


def hello_of(content: bytearray) -> Hello:
    """The `Hello` of a frame.

    Raises:
        FastpackError: It is none.
    """
    try:
        said = json.loads(content)
        place = said["place"]
        hello = Hello(
            str(said["client"]),
            _whole(said["number"]),
            _whole(said["rank"]),
            _whole(said["world_size"]),
            None if place is None else _place_of(place),
            strict=bool(said["strict"]),
        )
    except (ValueError, TypeError, LookupError, RecursionError) as refused:
        message = "the connection did not begin as one of `fastpack.connect`"
        raise FastpackError(message) from refused
    return hello


def welcome_frame(welcome: Welcome) -> bytes:
    """The content of the server's first frame behind the secret."""
    return json.dumps(welcome._asdict()).encode()


def welcome_of(content: bytearray) -> Welcome:
    """The `Welcome` of a frame.

    Raises:
        FastpackError: It is none.
    """
    try:
        said = json.loads(content)
        return Welcome(str(said["connection"]), _place_of(said["place"]))
    except (ValueError, TypeError, LookupError, RecursionError) as refused:
        message = "the other end of the connection is no fastpack stream"
        raise FastpackError(message) from refused


def _place_of(said: object) -> Place:
    """A place, as JSON has it: a list."""
    if not isinstance(said, list) or len(said) != len(Place._fields):
        raise TypeError
    step, state = said
    if state is not None and not isinstance(state, str):
        raise TypeError
    return Place(_whole(step), state)


def _whole(value: object) -> int:
    """A whole number from 0."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError
    return value


def error_frame(error: BaseException) -> bytes:
    """An error as JSON: its class and arguments."""
    arguments: list[object] = list(error.args)
    if isinstance(error, OSError):
        arguments = [error.errno, error.strerror, error.filename]
    try:
        text = json.dumps({"error": type(error).__name__, "arguments": arguments})
    except (TypeError, ValueError):
        text = json.dumps({"error": type(error).__name__, "arguments": [str(error)]})
    return text.encode()


def raise_frame(content: bytes | bytearray) -> None:
    """Raises the error of a frame, with its class where it is one of fastpack's."""
    try:
        said = json.loads(content)
        kind, arguments = str(said["error"]), list(said["arguments"])
    except (ValueError, TypeError, LookupError, RecursionError):
        kind, arguments = "the server failed", [shown(bytes(content))]
    found = getattr(known, kind, None) if kind in known.__all__ else None
    try:
        error = FastpackError(f"{kind}: {arguments}") if found is None else found(*arguments)
    except TypeError:
        error = FastpackError(f"{kind}: {arguments}")
    raise error
