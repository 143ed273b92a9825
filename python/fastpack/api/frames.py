"""The messages between a stream's server and its clients: framed JSON, and tables as Arrow IPC.

A frame is a letter, a length of 8 bytes and so many bytes. The client begins with `H`: its rank and its state as JSON.
The server answers with `T` frames, each a table with its state in the schema, then `D` at the end, or `E`: an error as
JSON. The client acknowledges each table that it took with `A`, in their order.
"""

from __future__ import annotations

import errno
import io
import json
import os
import socket
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

import fastpack.errors as known
from fastpack.errors import FastpackError, OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pyarrow as pa
    from typing_extensions import Buffer

    from fastpack._types import JsonValue

__all__ = [
    "ACKNOWLEDGED",
    "ADDRESS",
    "END",
    "ERROR",
    "HELLO",
    "LARGEST_HELLO",
    "TABLE",
    "TOKEN",
    "Address",
    "error_frame",
    "raise_frame",
    "receive",
    "receive_table",
    "receive_text",
    "remove_stale",
    "send",
    "send_table",
]

ADDRESS: Final = "FASTPACK_STREAM"
"""The environment variable with the address of the server."""

TOKEN: Final = "FASTPACK_STREAM_TOKEN"  # noqa: S105  the name of a variable
"""The environment variable with the secret that server and clients share."""

HELLO, TABLE, END, ERROR, ACKNOWLEDGED = b"H", b"T", b"D", b"E", b"A"
"""The letters of frames."""

LARGEST_HELLO: Final = 64 << 20
"""The most bytes of a client's first frame: far more than a state takes."""

_HEAD: Final = struct.Struct(">cQ")

_MOST_PIECES: Final = 512
"""Pieces of memory that are sent at once: half of what Linux and macOS take (`IOV_MAX`)."""


class Address(NamedTuple):
    """The address of a server.

    Attributes:
        family: The family of its socket.
        place: What a socket binds or connects to.
    """

    family: socket.AddressFamily
    place: str | tuple[str, int]

    @classmethod
    def of(cls, text: object, option: str) -> Address:
        """Reads `unix:PATH` or `tcp://HOST:PORT`."""
        if isinstance(text, str):
            if text.startswith("unix:") and len(text) > len("unix:") and hasattr(socket, "AF_UNIX"):
                return cls(socket.AF_UNIX, text.removeprefix("unix:"))
            host, colon, port = text.removeprefix("tcp://").rpartition(":")
            if text.startswith("tcp://") and host and colon and port.isdecimal() and int(port) < 1 << 16:
                return cls(socket.AF_INET, (host, int(port)))
        message = f"must be unix:PATH or tcp://HOST:PORT, not `{text}`"
        raise OptionError(message, option)

    def open(self) -> socket.socket:
        """A socket of the family."""
        return socket.socket(self.family, socket.SOCK_STREAM)


def send(peer: socket.socket, letter: bytes, content: bytes = b"") -> None:
    """Sends a frame."""
    peer.sendall(_HEAD.pack(letter, len(content)))
    if content:
        peer.sendall(content)


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


def send_table(peer: socket.socket, table: pa.Table) -> None:
    """Sends a frame with a table as an Arrow IPC stream, from the memory in which it lies."""
    import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing

    content = _Pieces()
    with (
        pa.PythonFile(content, mode="w") as sink,
        pa.ipc.new_stream(sink, table.schema) as writer,
    ):
        writer.write_table(table)
    length = sum(map(len, content.pieces))
    pieces = [memoryview(_HEAD.pack(TABLE, length)), *content.pieces]
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


def receive(peer: socket.socket, most: int | None = None) -> tuple[bytes, int] | None:
    """Receives the letter of a frame and its length; `None` if the peer has closed the connection.

    Raises:
        FastpackError: The peer sent something else, or announces more than `most` bytes.
        ConnectionError: The connection broke within them.
    """
    head = bytearray(_HEAD.size)
    if not _filled(peer, memoryview(head)):
        return None
    letter, length = _HEAD.unpack(head)
    if letter not in (HELLO, TABLE, END, ERROR, ACKNOWLEDGED) or (most is not None and length > most):
        message = "the other end of the connection is no fastpack stream"
        raise FastpackError(message)
    return letter, length


def receive_text(peer: socket.socket, length: int) -> bytearray:
    """Receives the content of a frame."""
    content = bytearray(length)
    if not _filled(peer, memoryview(content)):
        raise _reset()
    return content


def receive_table(peer: socket.socket, length: int) -> pa.Table:
    """Receives the content of a frame, an Arrow IPC stream, as a table in the same memory."""
    import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing

    # Memory of Arrow's, which uses that of tables which are gone again.
    content = pa.allocate_buffer(length)
    if not _filled(peer, memoryview(content)):
        raise _reset()
    return pa.ipc.open_stream(content).read_all()


def _filled(peer: socket.socket, content: memoryview) -> bool:
    """Receives so many bytes; `False` if there are none at all."""
    got = 0
    while got < len(content):
        received = peer.recv_into(content[got:])
        if received == 0:
            if got == 0:
                return False
            raise _reset()
        got += received
    return True


def _reset() -> ConnectionResetError:
    return ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))


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
    said: Mapping[str, JsonValue] = json.loads(content)
    kind, arguments = str(said["error"]), said["arguments"]
    found = getattr(known, kind, None) if kind in known.__all__ else None
    if isinstance(found, type) and isinstance(arguments, list):
        try:
            error = found(*arguments)
        except TypeError:
            error = FastpackError(f"{kind}: {arguments}")
    else:
        error = FastpackError(f"{kind}: {arguments}")
    raise error


def remove_stale(path: Path) -> None:
    """Removes a socket that no server listens on.

    Raises:
        OutputError: A server listens there, or something else is there.
    """
    if not path.is_socket():
        if path.exists():
            raise known.OutputError(errno.EEXIST, "is in the way of the socket", str(path))
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink(missing_ok=True)
            return
    raise known.OutputError(errno.EADDRINUSE, "has a server that listens already", str(path))
