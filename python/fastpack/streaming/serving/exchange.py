"""`Exchange`: the side of a rank of a `DoExchange`, which takes the tables of a stream."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from typing import TYPE_CHECKING, Any, Final

from fastpack.errors import FastpackError
from fastpack.streaming.serving.messages import HEADER, TOKEN, message_of, read_message, token_header

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import flight

    from fastpack.types import JsonValue

__all__ = ["Exchange"]

_OPTIONS: Final = (
    # The most bytes of a message: a server sends tables in pieces of 64 MiB, and a row is never as large.
    ("grpc.max_receive_message_length", 1 << 30),
    # The time between two questions whether the server's machine is there, and that for the answer. A server of gRPC closes
    # the connection of a client that asks more often than every 5 minutes.
    ("grpc.keepalive_time_ms", 330_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # A server that listens must answer in this time.
    ("grpc.min_reconnect_backoff_ms", 10_000),
    # Each connection is a new one, and waits for no other that has failed.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)
"""The options of gRPC."""

_PARTING: Final = 1.0
"""Seconds for the thread of a cancelled call to end, at the end of the process."""


class _Process:
    """The process in which gRPC has started, which does not survive a fork."""

    number: int | None = None


class Exchange:
    """A call. A thread of its own makes the call and reads the server's messages, so that a wait for them can be interrupted."""

    def __init__(self, location: str, roots: str | None, hello: bytes) -> None:
        """Begins the call.

        Args:
            location: The server, as Flight knows it.
            roots: The certificates of PEM that vouch for a server, in place of those of the system.
            hello: The first message.

        Raises:
            FastpackError: This process was forked from one that had begun a call.
        """
        if _Process.number not in {None, os.getpid()}:
            message = (
                "this process was forked from one that had taken tables of a stream, and gRPC does not survive a fork; take them in "
                "the new process alone, or start it by `spawn`"
            )
            raise FastpackError(message)
        _Process.number = os.getpid()
        self._arrived: queue.SimpleQueue[tuple[str, list[JsonValue], list[pa.RecordBatch]] | Exception] = (
            queue.SimpleQueue()
        )
        self._writer: flight.FlightStreamWriter | None = None
        self._reader: flight.FlightStreamReader | None = None
        self._saying = threading.Lock()
        self._left = False
        self._thread = threading.Thread(
            target=self._run, args=(location, roots, hello), daemon=True, name="fastpack-take"
        )
        self._thread.start()

    def _run(self, location: str, roots: str | None, hello: bytes) -> None:
        """Makes the call, and reads to its end."""
        from pyarrow import flight  # noqa: PLC0415  importing fastpack is to cost nothing

        tls_options: dict[str, Any] = {} if roots is None else {"tls_root_certs": roots}  # type: ignore[explicit-any]
        try:
            headers: list[Any] = [(HEADER.encode(), token_header(os.environ.get(TOKEN, "")).encode())]  # type: ignore[explicit-any]
            with flight.FlightClient(location, generic_options=list(_OPTIONS), **tls_options) as client:
                called = client.do_exchange(
                    flight.FlightDescriptor.for_path("fastpack"), flight.FlightCallOptions(headers=headers)
                )
                self._writer, self._reader = called
                if self._left:
                    self._reader.cancel()
                try:
                    self._writer.write_metadata(hello)  # type: ignore[arg-type]  # takes bytes
                    self._read(self._reader)
                finally:
                    self._reader.cancel()
                    with contextlib.suppress(Exception):
                        self._writer.close()
        except Exception as failed:  # noqa: BLE001  whoever waits raises it
            self._arrived.put(failed)

    def _read(self, reader: flight.FlightStreamReader) -> None:
        """Reads to the end of the call."""
        batches: list[pa.RecordBatch] = []
        with contextlib.suppress(StopIteration):
            while True:
                chunk = reader.read_chunk()
                if chunk.data is not None:
                    batches.append(chunk.data)
                if chunk.app_metadata is not None:
                    kind, content = read_message(chunk.app_metadata)
                    self._arrived.put((kind, content, batches))
                    batches = []
                    if kind in {"end", "error"}:
                        self.say_no_more()
        self._arrived.put(ConnectionResetError("it closed the connection"))

    def next(self, seconds: float | None = None) -> tuple[str, list[JsonValue], list[pa.RecordBatch]]:
        """The next message: its kind, its content, and the record batches before it.

        Raises:
            TimeoutError: It did not come in time.
            Exception: The call has failed.
        """
        try:
            arrived = self._arrived.get(timeout=seconds)
        except queue.Empty:
            message = "it does not answer"
            raise TimeoutError(message) from None
        if isinstance(arrived, Exception):
            self._arrived.put(arrived)  # for who asks again
            raise arrived
        return arrived

    def acknowledge(self, connection: str, step: int) -> None:
        """Tells the server that a table was taken, if it is there."""
        with contextlib.suppress(Exception), self._saying:
            self._writer.write_metadata(message_of("acknowledged", connection, step))  # type: ignore[union-attr,arg-type]

    def say_no_more(self) -> None:
        """Tells the server that nothing follows, upon which it ends the call."""
        with contextlib.suppress(Exception), self._saying:
            self._writer.done_writing()  # type: ignore[union-attr]

    def leave(self, seconds: float) -> None:
        """Takes leave: waits until the server has heard all that was said."""
        if self._writer is not None:
            self.say_no_more()
            self._thread.join(seconds)

    def hang_up(self) -> None:
        """Cancels the call, and wakes the threads that wait for it."""
        if self._left or _Process.number != os.getpid():
            return
        self._left = True
        if self._reader is not None:
            self._reader.cancel()
        self._arrived.put(ConnectionResetError("it was closed"))

    def at_exit(self) -> None:
        """Cancels the call, and waits for its thread, which must not outlive the interpreter.

        The thread itself may be what lets the last reference go, and nobody can wait for himself.
        """
        if _Process.number == os.getpid():
            self.hang_up()
            if self._thread is not threading.current_thread():
                self._thread.join(_PARTING)
