"""`StreamServer`: serves the tables of a stream to other processes, one call of Arrow Flight a rank.

What each rank is given next is decided by `fastpack.streaming.serving.protocol`; `fastpack.streaming.serving.service` carries it.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING, Any, Final

from fastpack import _fastpack
from fastpack.arguments.checks import local_path
from fastpack.errors import ConnectionLostError, FastpackError, OptionError
from fastpack.runtime.default_threads import available_threads
from fastpack.streaming.context_manager import Closing
from fastpack.streaming.serving.address import Address
from fastpack.streaming.serving.messages import (
    PIECE,
    TOKEN,
    content_of,
    error_message,
    hello_of,
    message_of,
    read_message,
    table_message,
)
from fastpack.streaming.serving.place_file import PlaceFile
from fastpack.streaming.serving.protocol import START, Hello, Server, StreamPosition
from fastpack.streaming.serving.service import Service
from fastpack.streaming.states import loaded, state_text
from fastpack.streaming.stream import PackStream, ranked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    from pyarrow import flight

__all__ = ["StreamServer"]

_PATIENCE: Final = 10.0
"""Seconds for the previous connection of a rank to end, and for all connections at the end."""

_PULSE: Final = 20.0
"""Seconds of waiting after which the server sends something, so that the system notices that a client's machine has gone."""


class _RankConnection:
    """The connection of a rank.

    Attributes:
        writer: The writer of the client's stream.
        stream: The tables of the rank.
        name: Its name.
        has_begun: True if the client knows the schema.
        fault: The error that was met while the client was heard, which is sent to it.
    """

    def __init__(self, writer: flight.MetadataRecordBatchWriter, stream: PackStream, name: str) -> None:
        self.writer, self.stream, self.name = writer, stream, name
        self.has_begun = False
        self.fault: Exception | None = None


class StreamServer(Closing):
    """Serves a stream. Each rank has one connection, and its own `PackStream`."""

    def __init__(  # type: ignore[explicit-any]
        self,
        arguments: Mapping[str, Any],
        to: str,
        *,
        state: str | None = None,
        certificate: str | None = None,
        key: str | None = None,
    ) -> None:
        """Listens.

        Args:
            arguments: The arguments of `fastpack.stream`.
            to: `unix:PATH`, `tcp://HOST:PORT` or `tls://HOST:PORT`.
            state: The file that holds the state after the last table that all ranks took. If it is there, ranks without
                a state of their own resume from it.
            certificate: The file of the certificate of `tls://`, as PEM.
            key: The file of its key.

        Raises:
            OptionError: An option of the stream has a value that it cannot have; TCP without a secret; a certificate that is
                none; or `state` is no file of a state.
            OutputError: Another server listens there, or something of others is there.
            StorageError: A file cannot be read or written.
        """
        file = None if state is None else local_path("state", state, "the path of a file")
        self._arguments = dict(arguments)
        PackStream(ranked(self._arguments, 0, 1)).close()  # refuses what cannot be
        token = os.environ.get(TOKEN) or None
        address = Address.of(to, "to")
        if address.scheme != "unix" and token is None:
            message = f"is TCP, which needs a secret in the environment variable {TOKEN}"
            raise OptionError(message, "to")
        self._file = None if file is None else PlaceFile(file)
        self._protocol = Server(START if self._file is None else self._file.place, _merged)
        self._lock = threading.Condition()
        self._lines: dict[str, _RankConnection] = {}
        self._unsaved: Exception | None = None
        self._closed = False
        reason = f"the secret in the environment variable {TOKEN} is not that of the server"
        self._service = Service(address, token, reason, self._exchange, certificate=certificate, key=key)
        self.address = str(self._service.address)

    def _exchange(
        self, reader: flight.MetadataRecordBatchReader, writer: flight.MetadataRecordBatchWriter
    ) -> None:
        """Serves one connection to its end: this thread hears the acknowledgements of the client, and another one sends tables."""
        try:
            _send_message(writer, message_of("pulse"))
            line = self._greet(reader, writer)
        except Exception as refused:  # noqa: BLE001  the client raises it
            _send_message(writer, error_message(refused))
            return
        sending = threading.Thread(target=self._deliver, args=(line,), daemon=True, name="fastpack-rank")
        try:
            sending.start()
            self._listen(line, reader)
        finally:
            self._leave(line)
            line.stream.close()
            if sending.ident is not None:
                sending.join()

    def _leave(self, line: _RankConnection) -> None:
        """Notes the end of a connection."""
        with self._lock:
            self._lines.pop(line.name, None)
            self._protocol.leave(line.name)
            self._lock.notify_all()

    def _greet(
        self, reader: flight.MetadataRecordBatchReader, writer: flight.MetadataRecordBatchWriter
    ) -> _RankConnection:
        """Learns which rank a client is, and where it begins."""
        heard = _heard(reader)
        if heard is None or heard[0] != "hello":
            message = "the connection did not begin as one of `fastpack.connect`"
            raise FastpackError(message)
        hello = hello_of(heard[1])
        threads = self._arguments.get("threads") or max(1, available_threads() // max(1, hello.world_size))
        arguments = ranked(self._arguments, hello.rank, hello.world_size)
        stream = PackStream(arguments | {"threads": threads, "by_row": hello.by_row})
        try:
            return self._begin(writer, hello, stream)
        except BaseException:
            stream.close()
            raise

    def _begin(
        self, writer: flight.MetadataRecordBatchWriter, hello: Hello, stream: PackStream
    ) -> _RankConnection:
        """Begins the connection of a rank."""
        with self._lock:
            # The end of a connection before may not have been seen yet.
            self._lock.wait_for(lambda: self._closed or self._protocol.hindrance(hello) is None, _PATIENCE)
            if self._closed:
                raise _ended()
            welcome = self._protocol.greet(hello)
            line = _RankConnection(writer, stream, welcome.connection)
            self._lines[line.name] = line
            self._lock.notify_all()  # a connection that this one replaces
        try:
            if welcome.place.state is not None:
                stream.load_state_dict(loaded(welcome.place.state), strict=hello.strict)
            _send_message(writer, message_of("welcome", *welcome))
        except BaseException:
            self._leave(line)
            raise
        return line

    def _deliver(self, line: _RankConnection) -> None:
        """Sends tables until the stream or the connection ends."""
        try:
            for step, table in enumerate(line.stream, line.stream.step + 1):
                place = StreamPosition(step, state_text(table))
                with self._lock:
                    self._await(line, lambda: not self._protocol.is_full(line.name))
                    self._protocol.send(line.name, place)
                _send_table(line, step, table)
            with self._lock:
                self._await(line, lambda: self._protocol.is_acknowledged(line.name))
                if self._protocol.end(line.name):
                    self._write_state()
            _send_message(line.writer, message_of("end"))
        except Exception as failed:  # noqa: BLE001  of the data or a function of the caller's: the client raises it
            _send_message(line.writer, error_message(failed))

    def _await(self, line: _RankConnection, is_ready: Callable[[], bool]) -> None:
        """Waits until the client has taken the tables that it must have. The lock is held before and after.

        Raises:
            ConnectionLostError: The server or the connection has ended.
            Exception: The error that was met while the client was heard.
        """
        while line.fault is None and not self._closed and self._protocol.is_current(line.name):
            if is_ready():
                return
            if not self._lock.wait(_PULSE):
                self._lock.release()  # a client that reads nothing holds up nobody else
                try:
                    _send_message(line.writer, message_of("pulse"))
                finally:
                    self._lock.acquire()
        raise line.fault or _ended()

    def _listen(self, line: _RankConnection, reader: flight.MetadataRecordBatchReader) -> None:
        """Hears the acknowledgements of a client, until it leaves."""
        try:
            while (heard := _heard(reader)) is not None:
                kind, content = heard
                name, step = content_of(content, str, int)
                if kind == "acknowledged" and name == line.name:
                    self._acknowledge(line, step)
        except Exception as failed:  # noqa: BLE001  such as a file that cannot be written: the client raises it
            with self._lock:
                line.fault = failed
                self._lock.notify_all()
            line.stream.close()

    def _acknowledge(self, line: _RankConnection, step: int) -> None:
        with self._lock:
            if self._protocol.acknowledge(line.name, step) or self._unsaved is not None:
                self._write_state()
            self._lock.notify_all()

    def _write_state(self) -> None:
        """Writes the state after the last table that all ranks took."""
        if self._file is None:
            return
        try:
            self._file.write(self._protocol.place)
        except OSError as failed:
            self._unsaved = failed
            raise
        self._unsaved = None

    def wait(self) -> None:
        """Waits until all ranks have had all tables.

        Raises:
            StorageError: The file of the state could not be written.
        """
        with self._lock:
            while not self._closed and not self._protocol.is_done():
                self._lock.wait(0.1)
        self.check()

    def check(self) -> None:
        """Raises the error of the last attempt to write the file of the state, if it failed.

        Raises:
            StorageError: It could not be written.
        """
        if self._unsaved is not None:
            raise self._unsaved

    def close(self) -> None:
        """Ends all connections, hears the last acknowledgements, and removes the socket."""
        with self._lock:
            self._closed = True
            self._lock.notify_all()
        self._service.end()
        with self._lock:
            # Acknowledgements that the system still holds are read before a connection is seen to have ended.
            self._lock.wait_for(lambda: not self._lines, _PATIENCE)


def _merged(states: Sequence[str]) -> str:
    """The state of a run from those of its ranks."""
    if len(states) == 1:
        return states[0]
    try:
        return _fastpack.merge_states(list(states))
    except OptionError:
        # One may be of the whole run, from which its rank began.
        for state in states:
            with contextlib.suppress(OptionError):
                return _fastpack.merge_states([state])
        raise


def _ended() -> ConnectionLostError:
    message = "the server has ended, or the rank has another connection"
    return ConnectionLostError(message)


def _heard(reader: flight.MetadataRecordBatchReader) -> tuple[str, list[Any]] | None:  # type: ignore[explicit-any]  # of JSON
    """The next message of a client; `None` if it has left or was killed."""
    try:
        metadata = reader.read_chunk().app_metadata
    except StopIteration:
        return None
    if metadata is None:
        message = "a client sent a table"
        raise FastpackError(message)
    return read_message(metadata)


def _send_table(line: _RankConnection, step: int, table: pa.Table) -> None:
    """Sends a table as record batches, and the metadata of its schema, in which the state is."""
    writer = line.writer
    if not line.has_begun:
        line.has_begun = True
        writer.begin(table.schema.remove_metadata())
    rows = max(1, table.num_rows * PIECE // max(1, table.nbytes))
    *pieces, last = table.to_batches(max_chunksize=rows)
    for piece in pieces:
        writer.write_batch(piece)
    writer.write_with_metadata(last, table_message(line.name, step, table.schema.metadata or {}))  # type: ignore[arg-type]  # takes bytes


def _send_message(writer: flight.MetadataRecordBatchWriter, message: bytes) -> None:
    """Sends a message, if there is somebody to hear it."""
    with contextlib.suppress(Exception):
        writer.write_metadata(message)  # type: ignore[arg-type]  # takes bytes
