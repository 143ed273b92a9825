"""The messages between a stream's server and its clients: framed JSON, and tables as Arrow IPC.

A frame is a letter, a length of 8 bytes and so many bytes. The client begins with `H`: its rank and its state as JSON.
The server answers with `T` frames, each a table with its state in the schema, then `D` at the end, or `E`: an error as
JSON. The client acknowledges each table that it took with `A`, in their order.
"""

from __future__ import annotations

import errno
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
    "TableWriter",
    "error_frame",
    "raise_frame",
    "receive",
    "receive_table",
    "receive_text",
    "remove_stale",
    "send",
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


def send(peer: socket.socket, letter: bytes, content: bytes | memoryview = b"") -> None:
    """Sends a frame."""
    peer.sendall(_HEAD.pack(letter, len(content)))
    if len(content):
        peer.sendall(content)


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


class TableWriter:
    """Writes tables as Arrow IPC streams, one after the other into the same memory."""

    def __init__(self) -> None:
        self._memory = bytearray()

    def written(self, table: pa.Table) -> memoryview:
        """A table as an Arrow IPC stream, until the next one is written."""
        import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing

        def write(sink: pa.NativeFile) -> None:
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)

        counted = pa.MockOutputStream()
        write(counted)
        if counted.size() > len(self._memory):
            self._memory = bytearray(counted.size() * 5 // 4)
        with pa.FixedSizeBufferWriter(pa.py_buffer(self._memory)) as sink:
            write(sink)
        return memoryview(self._memory)[: counted.size()]


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
