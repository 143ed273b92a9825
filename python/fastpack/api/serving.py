"""`StreamServer`: serves the tables of a stream to other processes, one connection a rank.

Tables go as plain Arrow IPC. Arrow Flight would bring a server of gRPC into the process, and has no word for what a client
has taken: the acknowledgements, which decide where a run resumes, would be calls of our own all the same.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import select
import socket
import threading
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fastpack._checks import local_path, shown
from fastpack._threads import available_threads
from fastpack.api.closing import Closing
from fastpack.api.frames import (
    ACKNOWLEDGED,
    END,
    ERROR,
    HELLO,
    LARGEST_HELLO,
    TOKEN,
    Address,
    error_frame,
    receive,
    receive_text,
    remove_stale,
    send,
    send_table,
)
from fastpack.api.states import loaded, merge_state_dicts, state_text
from fastpack.api.streaming import PackStream
from fastpack.errors import FastpackError, OptionError, StorageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastpack.api.states import StateDict

__all__ = ["StreamServer"]

_AHEAD: Final = 4
"""Tables that a client may leave unacknowledged before the server waits for it."""

_BUFFER: Final = 1 << 20
"""Bytes that a socket is asked to hold: a table of usual size, so that the next one is made while the client reads."""

_PATIENCE: Final = 10.0
"""Seconds in which a client must say who it is, and in which the connection before must end."""


class _Rank:
    """The tables that one rank has taken.

    Attributes:
        taken: The state after each table that it took, by the number of its step, from the one on that all ranks took.
            States are JSON here, which is read when it is needed.
        last: The state after the last table that it took.
        connection: The connection that it has.
    """

    def __init__(self) -> None:
        self.taken: dict[int, str] = {}
        self.last: str | None = None
        self.connection: socket.socket | None = None
        self.ended = False


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
            OptionError: An option of the stream has a value that it cannot have; or TCP without a secret.
            OutputError: Another server listens there.
        """
        self._file = None if state is None else Path(local_path("state", state, "the path of a file"))
        self._given = dict(given)
        PackStream(self._given | {"rank": 0, "world_size": 1}).close()  # refuses what cannot be
        self._begun = self._read()
        self._token = os.environ.get(TOKEN)
        address = Address.of(to, "to")
        if address.family == socket.AF_INET and not self._token:
            message = f"is TCP, which needs a secret in the environment variable {TOKEN}"
            raise OptionError(message, "to")
        self._lock = threading.Condition()
        self._ranks: dict[int, _Rank] = {}
        self._world: int | None = None
        self._failed: BaseException | None = None
        self._closed = False
        self._listening = address.open()
        self._path = None
        try:
            if address.family == socket.AF_INET:
                self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                self._listening.bind(address.place)
                host, port = self._listening.getsockname()
                self.address = f"tcp://{host}:{port}"
            else:
                self._path = Path(str(address.place))
                remove_stale(self._path)
                before = os.umask(0o177)
                try:
                    self._listening.bind(str(self._path))
                finally:
                    os.umask(before)
                self.address = f"unix:{self._path}"
            self._listening.listen()
        except OSError as failed:
            self._listening.close()
            if isinstance(failed, FastpackError):
                raise
            raise StorageError(failed.errno, failed.strerror, to) from failed
        self._accepting = threading.Thread(target=self._accept, daemon=True, name="fastpack-accept")
        self._accepting.start()

    def _read(self) -> StateDict | None:
        """The state in the file, if there is one."""
        if self._file is None or not self._file.exists():
            return None
        try:
            found = json.loads(self._file.read_text(encoding="utf-8"))
        except ValueError as refused:
            message = f"`{self._file}` holds no state: {refused}"
            raise OptionError(message, "state") from refused
        if not isinstance(found, dict):
            message = f"`{self._file}` holds no state, but `{shown(found)}`"
            raise OptionError(message, "state")
        return found

    def _accept(self) -> None:
        """Takes connections until the server is closed."""
        while True:
            try:
                peer, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(peer,), daemon=True, name="fastpack-rank").start()

    def _serve(self, peer: socket.socket) -> None:
        """Serves one connection to its end."""
        rank: _Rank | None = None
        with peer, contextlib.suppress(OSError):
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
            try:
                stream, rank = self._greet(peer)
                with stream:
                    self._deliver(stream, peer, rank)
            except FastpackError as failed:
                with contextlib.suppress(OSError):
                    send(peer, ERROR, error_frame(failed))
            except OSError:
                raise
            except Exception as failed:  # noqa: BLE001  a function of the caller's: the client raises it
                with contextlib.suppress(OSError):
                    send(peer, ERROR, error_frame(failed))
        with self._lock:
            if rank is not None and rank.connection is peer:
                rank.connection = None
            self._lock.notify_all()

    def _greet(self, peer: socket.socket) -> tuple[PackStream, _Rank]:
        """The stream that a client asks for."""
        peer.settimeout(_PATIENCE)
        frame = receive(peer, LARGEST_HELLO)
        if frame is None or frame[0] != HELLO:
            message = "the connection did not begin as one of `fastpack.connect`"
            raise FastpackError(message)
        hello = json.loads(receive_text(peer, frame[1]))
        peer.settimeout(None)
        given = str(hello.get("token") or "").encode()
        if self._token and not hmac.compare_digest(given, self._token.encode()):
            message = f"the secret in the environment variable {TOKEN} is not that of the server"
            raise FastpackError(message)
        number, world = hello["rank"], hello["world_size"]
        with self._lock:
            if self._world not in (None, world) and any(it.connection for it in self._ranks.values()):
                message = f"is {world}, but other ranks said {self._world}"
                raise OptionError(message, "world_size")
            if self._world != world:
                self._world, self._ranks = world, {}
            rank = self._ranks.setdefault(number, _Rank())
            # The end of the connection before may not have been seen yet.
            self._lock.wait_for(lambda: rank.connection is None or self._closed, _PATIENCE)
            if rank.connection is not None:
                message = f"is {number}, which has a connection already"
                raise OptionError(message, "rank")
            rank.connection, rank.ended = peer, False
            state = hello["state"] or (loaded(rank.last) if rank.last else self._begun)
            rank.taken = {}
        try:
            threads = self._given.get("threads") or max(1, available_threads() // world)
            stream = PackStream(self._given | {"rank": number, "world_size": world, "threads": threads})
            if state is not None:
                stream.load_state_dict(state, strict=hello.get("strict", True))
        except BaseException:
            with self._lock:
                rank.connection = None
            raise
        return stream, rank

    def _deliver(self, stream: PackStream, peer: socket.socket, rank: _Rank) -> None:
        """Sends tables, and keeps the states of those that the client took."""
        unacknowledged: deque[tuple[int, str]] = deque()
        try:
            self._send(stream, peer, rank, unacknowledged)
        except OSError:
            # The last acknowledgements of the client may wait to be read, behind the error of its end.
            for _ in range(2):
                with contextlib.suppress(OSError):
                    while unacknowledged:
                        self._take(peer, rank, unacknowledged)
            raise

    def _send(
        self,
        stream: PackStream,
        peer: socket.socket,
        rank: _Rank,
        unacknowledged: deque[tuple[int, str]],
    ) -> None:
        """Sends tables until the stream or the connection ends."""
        for step, table in enumerate(stream, stream.step + 1):
            unacknowledged.append((step, state_text(table)))
            send_table(peer, table)
            while unacknowledged and (len(unacknowledged) >= _AHEAD or select.select([peer], [], [], 0)[0]):
                self._take(peer, rank, unacknowledged)
        while unacknowledged:
            self._take(peer, rank, unacknowledged)
        with self._lock:
            rank.ended = True
        send(peer, END)

    def _take(self, peer: socket.socket, rank: _Rank, unacknowledged: deque[tuple[int, str]]) -> None:
        """Receives an acknowledgement."""
        if receive(peer, 0) != (ACKNOWLEDGED, 0):
            raise ConnectionResetError
        step, state = unacknowledged.popleft()
        with self._lock:
            rank.last = rank.taken[step] = state
            self._keep()

    def _keep(self) -> None:
        """Writes the state after the last table that all ranks took."""
        ranks = [self._ranks.get(number) for number in range(self._world or 0)]
        steps = [set(rank.taken) if rank else set() for rank in ranks]
        common = set.intersection(*steps) if steps else set()
        if not common:
            return
        step = max(common)
        states = [rank.taken[step] for rank in ranks if rank]
        for rank in ranks:
            if rank:
                rank.taken = {at: state for at, state in rank.taken.items() if at >= step}
        if self._file is not None and len(steps) == len(states):
            alone = len(states) == 1
            merged = states[0] if alone else json.dumps(merge_state_dicts(map(loaded, states)))
            new = self._file.with_name(self._file.name + ".new")
            new.write_text(merged, encoding="utf-8")
            new.replace(self._file)

    def wait(self) -> None:
        """Waits until all ranks have had all tables."""
        with self._lock:
            while not self._closed and not self._is_done():
                self._lock.wait(0.1)

    def _is_done(self) -> bool:
        ranks = self._ranks
        return (
            self._world is not None
            and len(ranks) == self._world
            and all(rank.ended and rank.connection is None for rank in ranks.values())
        )

    def close(self) -> None:
        """Ends all connections, and removes the socket."""
        with self._lock:
            self._closed = True
            peers = [rank.connection for rank in self._ranks.values() if rank.connection]
            self._lock.notify_all()
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for peer in peers:
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
        if self._path is not None:
            self._path.unlink(missing_ok=True)
