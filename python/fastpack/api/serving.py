"""`StreamServer`: serves the tables of a stream to other processes, one connection a rank.

What each rank is given next is decided by `fastpack.api.loader.protocol`; here are the sockets and threads that carry it.
Tables go as plain Arrow IPC. Arrow Flight would bring a server of gRPC into the process, and has no word for what a client
has taken: the acknowledgements, which decide where a run resumes, would be calls of our own all the same.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import socket
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from fastpack import _fastpack
from fastpack._checks import local_path
from fastpack._threads import available_threads
from fastpack.api.closing import Closing
from fastpack.api.loader.address import Address, Listener
from fastpack.api.loader.frames import (
    ACKNOWLEDGED,
    END,
    ERROR,
    HELLO,
    KEY,
    LEAVE,
    TOKEN,
    WELCOME,
    Deadline,
    error_frame,
    hello_of,
    receive,
    receive_step,
    receive_text,
    send,
    send_table,
    welcome_frame,
)
from fastpack.api.loader.place import PlaceFile
from fastpack.api.loader.protocol import START, Hello, Place, Server
from fastpack.api.states import loaded, state_text
from fastpack.api.streaming import PackStream
from fastpack.errors import ConnectionLostError, FastpackError, OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["StreamServer"]

_BUFFER: Final = 1 << 20
"""Bytes that a socket is asked to hold: a table of usual size, so that the next one is made while the client reads."""

_PATIENCE: Final = 10.0
"""Seconds in which a client must say who it is, and in which the connection before must end."""

_STRANGERS: Final = 64
"""Connections that have not said the secret yet, of which the eldest is closed for a further one."""


class _Line:
    """The connection of a rank.

    Attributes:
        peer: Its socket.
        stream: The tables of the rank.
        name: Its name, once the client was greeted.
        fault: The error that it met while it listened, which is sent to the client.
    """

    def __init__(self, peer: socket.socket, stream: PackStream, name: str) -> None:
        self.peer, self.stream, self.name = peer, stream, name
        self.fault: Exception | None = None


class StreamServer(Closing):
    """Serves a stream. Each rank has one connection, and its own `PackStream`."""

    def __init__(self, given: Mapping[str, Any], to: str, *, state: str | None = None) -> None:  # type: ignore[explicit-any]
        """Listens.

        Args:
            given: The arguments of `fastpack.stream`.
            to: `unix:PATH` or `tcp://HOST:PORT`.
            state: The file that holds the state after the last table that all ranks took. If it is there, ranks without
                a state of their own resume from it.

        Raises:
            OptionError: An option of the stream has a value that it cannot have; TCP without a secret; or `state` is no
                file of a state.
            OutputError: Another server listens there, or something of others is there.
            StorageError: The file of the state cannot be read or written.
        """
        file = None if state is None else local_path("state", state, "the path of a file")
        self._given = dict(given)
        PackStream(self._given | {"rank": 0, "world_size": 1}).close()  # refuses what cannot be
        address = Address.of(to, "to")
        self._token = os.environ.get(TOKEN)
        if address.family == socket.AF_INET and not self._token:
            message = f"is TCP, which needs a secret in the environment variable {TOKEN}"
            raise OptionError(message, "to")
        self._file = None if file is None else PlaceFile(file)
        self._protocol = Server(START if self._file is None else self._file.place, _merged)
        self._lock = threading.Condition()
        self._lines: dict[str, _Line] = {}
        self._strangers: deque[socket.socket] = deque()
        self._threads: set[threading.Thread] = set()
        self._unsaved: Exception | None = None
        self._closed = False
        self._listener = Listener(address, to)
        self.address = self._listener.address
        accepting = threading.Thread(target=self._accept, daemon=True, name="fastpack-accept")
        accepting.start()

    def _accept(self) -> None:
        """Takes connections until the server is closed."""
        while not self._closed:
            try:
                peer = self._listener.accept()
            except OSError:
                time.sleep(0.05)  # closed, or out of descriptors until a connection ends
                continue
            with self._lock:
                self._strangers.append(peer)
                eldest = self._strangers.popleft() if len(self._strangers) > _STRANGERS else None
            if eldest is not None:
                _shut(eldest)
            try:
                threading.Thread(target=self._serve, args=(peer,), daemon=True, name="fastpack-rank").start()
            except RuntimeError:  # the system starts no further thread
                self._forget(peer)
                peer.close()

    def _forget(self, peer: socket.socket) -> None:
        """Notes that a connection is no stranger any more."""
        with self._lock, contextlib.suppress(ValueError):
            self._strangers.remove(peer)

    def _serve(self, peer: socket.socket) -> None:
        """Serves one connection to its end."""
        with peer:
            try:
                line = self._greet(peer)
            except Exception as refused:  # noqa: BLE001  the client raises it
                _refuse(peer, refused)
                return
            finally:
                self._forget(peer)
            listening = threading.Thread(
                target=self._listen, args=(line,), daemon=True, name="fastpack-listen"
            )
            listening.start()
            try:
                self._deliver(line)
            except Exception as failed:  # noqa: BLE001  of the data or a function of the caller's: the client raises it
                _refuse(peer, failed)
            finally:
                # What the client still says is heard to its end, which it makes when it has read what was sent.
                listening.join(_PATIENCE)
                self._leave(line)
                line.stream.close()

    def _leave(self, line: _Line) -> None:
        """Notes the end of a connection."""
        with self._lock:
            self._lines.pop(line.name, None)
            self._protocol.leave(line.name)
            self._lock.notify_all()
        _shut(line.peer)

    def _greet(self, peer: socket.socket) -> _Line:
        """Learns which rank a client is, and where it begins."""
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
        key = bytes(_first(peer, KEY))
        if self._token and not hmac.compare_digest(key, os.fsencode(self._token)):
            message = f"the secret in the environment variable {TOKEN} is not that of the server"
            raise FastpackError(message)
        self._forget(peer)
        send(peer, KEY)
        hello = hello_of(_first(peer, HELLO))
        peer.settimeout(None)
        threads = self._given.get("threads") or max(1, available_threads() // max(1, hello.world_size))
        rank = {"rank": hello.rank, "world_size": hello.world_size, "threads": threads}
        stream = PackStream(self._given | rank)
        try:
            return self._begin(peer, hello, stream)
        except BaseException:
            stream.close()
            raise

    def _begin(self, peer: socket.socket, hello: Hello, stream: PackStream) -> _Line:
        """Begins the connection of a rank."""
        with self._lock:
            # The end of a connection before may not have been seen yet.
            self._lock.wait_for(lambda: self._closed or self._protocol.hindrance(hello) is None, _PATIENCE)
            if self._closed:
                message = "the server has ended"
                raise ConnectionLostError(message)
            welcome = self._protocol.greet(hello)
            line = _Line(peer, stream, welcome.connection)
            self._lines[line.name] = line
            for name, other in self._lines.items():
                if not self._protocol.is_current(name):
                    _shut(other.peer)  # which this one replaces
        try:
            if welcome.place.state is not None:
                stream.load_state_dict(loaded(welcome.place.state), strict=hello.strict)
            send(peer, WELCOME, welcome_frame(welcome))
        except BaseException:
            self._leave(line)
            raise
        return line

    def _deliver(self, line: _Line) -> None:
        """Sends tables until the stream or the connection ends."""
        for step, table in enumerate(line.stream, line.stream.step + 1):
            state = state_text(table)
            with self._lock:
                self._lock.wait_for(
                    lambda: line.fault or self._closed or not self._protocol.is_full(line.name)
                )
                if line.fault or self._closed or not self._protocol.send(line.name, Place(step, state)):
                    break
            send_table(line.peer, step, table)
        with self._lock:
            self._lock.wait_for(
                lambda: line.fault or self._closed or self._protocol.is_acknowledged(line.name)
            )
            if line.fault is not None:
                raise line.fault
            if self._closed or not self._protocol.is_current(line.name):
                return
            if self._protocol.end(line.name):
                self._keep()
        send(line.peer, END)

    def _listen(self, line: _Line) -> None:
        """Hears what a client has taken, until it leaves."""
        try:
            # The last acknowledgements may wait behind the error of the connection's end, of which there are at most two.
            for _ in range(3):
                with contextlib.suppress(ConnectionError):
                    while self._hear(line):
                        pass
                    break
        except Exception as failed:  # noqa: BLE001  such as a file that cannot be written: the client raises it
            with self._lock:
                line.fault = failed
                self._lock.notify_all()
            line.stream.close()
            with contextlib.suppress(OSError):
                while line.peer.recv(1 << 16):
                    pass  # so that the client hears of it before the connection ends
        else:
            self._leave(line)
            line.stream.close()

    def _hear(self, line: _Line) -> bool:
        """Receives an acknowledgement; `False` if the client has left."""
        frame = receive(line.peer, (ACKNOWLEDGED, LEAVE))
        if frame is None or frame[0] == LEAVE:
            return False
        step = receive_step(line.peer)
        with self._lock:
            if self._protocol.acknowledge(line.name, step) or self._unsaved is not None:
                self._keep()
            self._lock.notify_all()
        return True

    def _keep(self) -> None:
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
        """Ends all connections, hears what was taken, and removes the socket."""
        with self._lock:
            self._closed = True
            lines = list(self._lines.values())
            peers = [*self._strangers, *(line.peer for line in lines)]
            self._lock.notify_all()
        self._listener.close()
        for peer in peers:
            _shut(peer)
        with self._lock:
            # What the system holds of acknowledgements is read before a connection is seen to have ended.
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


def _first(peer: socket.socket, letter: bytes) -> bytearray:
    """The content of one of the first frames, within the time that they may take."""
    deadline = Deadline(_PATIENCE)
    message = "the connection did not begin as one of `fastpack.connect`"
    try:
        frame = receive(peer, (letter,), deadline)
    except FastpackError as refused:
        raise FastpackError(message) from refused
    if frame is None:
        raise FastpackError(message)
    return receive_text(peer, frame[1], deadline)


def _refuse(peer: socket.socket, error: Exception) -> None:
    """Sends an error, if there is somebody to hear it."""
    with contextlib.suppress(OSError):
        peer.settimeout(_PATIENCE)
        send(peer, ERROR, error_frame(error))


def _shut(peer: socket.socket) -> None:
    """Ends a connection: what was sent arrives, and whoever waits for it wakes."""
    with contextlib.suppress(OSError):
        peer.shutdown(socket.SHUT_RDWR)
