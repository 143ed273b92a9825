"""`StreamConnection`: the tables of a stream that another process makes."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from typing import TYPE_CHECKING, Final, final

from fastpack import _fastpack
from fastpack._checks import check_switch
from fastpack._ranks import rank_of
from fastpack.api.closing import Closing
from fastpack.api.loader.address import Address
from fastpack.api.loader.frames import (
    ACKNOWLEDGED,
    ADDRESS,
    END,
    ERROR,
    HELLO,
    KEY,
    LEAVE,
    TABLE,
    TOKEN,
    WELCOME,
    Deadline,
    acknowledgement,
    hello_frame,
    raise_frame,
    receive,
    receive_step,
    receive_table,
    receive_text,
    send,
    welcome_of,
)
from fastpack.api.loader.place import step_of
from fastpack.api.loader.protocol import Client, Place
from fastpack.api.states import loaded, state_text, text_of
from fastpack.errors import ConnectionLostError, FastpackError, OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from fastpack._types import JsonValue
    from fastpack.api.states import StateDict

__all__ = ["StreamConnection", "connect"]

_PATIENCE: Final = 10.0
"""Seconds in which a server must answer a new connection, and keep what was taken before an old one ends."""


def connect(
    address: str | None = None,
    *,
    rank: int | None = None,
    world_size: int | None = None,
    state_dict: Mapping[str, JsonValue] | None = None,
) -> StreamConnection:
    """Connects to a stream that `fastpack stream --to` makes in another process.

    Args:
        address: `unix:PATH` or `tcp://HOST:PORT`; if not given, that of the environment variable `FASTPACK_STREAM`, which
            `fastpack stream ... -- python train.py` sets. A server on TCP asks for the secret in `FASTPACK_STREAM_TOKEN`.
        rank: The data-parallel rank, from 0; as for `stream` if not given.
        world_size: The number of data-parallel ranks.
        state_dict: The state to resume from. If not given, the server resumes behind the last table that this rank took.

    Returns:
        An iterator of tables, each with its state, as `stream` returns it.

    Raises:
        OptionError: There is no address, or the rank or the state is none.
        ConnectionLostError: No server listens there.
    """
    found = os.environ.get(ADDRESS) if address is None else address
    if found is None:
        message = f"must be given, or stand in the environment variable {ADDRESS}"
        raise OptionError(message, "address")
    return StreamConnection(found, rank=rank, world_size=world_size, state_dict=state_dict)


@final
class StreamConnection(Closing):
    """An iterator over the tables of a stream that another process makes. `fastpack.connect` makes it.

    A table counts as taken once it was returned. The server is told so, and it keeps at most some tables ahead. Where the
    connection is lost, `next` raises `ConnectionLostError`, and the next `next` connects again and goes on behind the last
    table that was returned, whatever the server knows of it.
    """

    def __init__(
        self,
        address: str,
        *,
        rank: int | None = None,
        world_size: int | None = None,
        state_dict: Mapping[str, JsonValue] | None = None,
    ) -> None:
        """Connects, as `connect` does."""
        self._address = address
        number = rank_of(rank, world_size)
        place = None if state_dict is None else _place_of(state_dict)
        self._client = Client(number.rank, number.world_size, place)
        self._lock = threading.Lock()
        self._peer: socket.socket | None = None
        self._name: str | None = None
        self._ended = False
        self._open()

    def _open(self) -> None:
        """Connects, and says which rank this is and where to begin."""
        place = Address.of(self._address, "address")
        peer = place.open()
        try:
            peer.settimeout(_PATIENCE)
            peer.connect(place.place)
            send(peer, KEY, os.fsencode(os.environ.get(TOKEN, "")))
            deadline = Deadline(_PATIENCE)
            frame = receive(peer, (KEY, ERROR), deadline)
            if frame is None:
                raise ConnectionResetError  # noqa: TRY301  as a server that is killed
            said = receive_text(peer, frame[1], deadline)
            if frame[0] == ERROR:
                raise_frame(said)
            peer.settimeout(None)
            send(peer, HELLO, hello_frame(self._client.hello()))
        except OSError as failed:
            peer.close()
            if isinstance(failed, FastpackError):
                raise
            reason = failed.strerror or str(failed) or "it closed the connection"
            message = f"no stream is served at `{self._address}`: {reason}"
            raise ConnectionLostError(message) from failed
        except BaseException:
            peer.close()
            raise
        self._peer, self._name = peer, None

    def __iter__(self) -> StreamConnection:
        """The connection itself."""
        return self

    def __next__(self) -> pa.Table:
        """The next table.

        Raises:
            ConnectionLostError: The server has gone; the next call connects again.
            FastpackError: The server's stream failed.
        """
        before = place = self._client.place
        try:
            with self._lock:
                before = self._client.place
                table, place = self._take()
                self._client.place = place
                # The table is there, whether the server hears of it or not: the next call would notice its end.
                with contextlib.suppress(OSError):
                    send(self._now(), ACKNOWLEDGED, acknowledgement(place.step))
            return table  # noqa: TRY300  what interrupts this takes the table from the caller
        except BaseException:
            # Such as Ctrl-C: the caller does not have the table, so it comes again, over another connection.
            if place is not before and self._client.place is place:
                self._client.place = before
            self._hang_up()
            raise

    def _take(self) -> tuple[pa.Table, Place]:
        """Receives the next table, and the place behind it."""
        if self._ended:
            raise StopIteration
        if self._peer is None:
            self._open()
        try:
            return self._receive()
        except OSError as failed:
            if isinstance(failed, FastpackError):
                raise
            if self._ended:
                raise StopIteration from failed  # another thread has closed it
            raise self._lost(failed.strerror or str(failed) or "it closed the connection") from failed

    def _receive(self) -> tuple[pa.Table, Place]:
        """Receives frames up to the next table."""
        while True:
            peer = self._now()
            frame = receive(peer, (WELCOME, TABLE, END, ERROR))
            if frame is None:
                raise ConnectionResetError
            letter, length = frame
            if letter == TABLE and self._name is not None:
                step = receive_step(peer)
                table = receive_table(peer, length)
                if self._client.is_next(self._name, step):
                    return table, Place(step, state_text(table))
                continue
            said = receive_text(peer, length)
            if letter == WELCOME:
                welcome = welcome_of(said)
                self._client.welcome(welcome)
                self._name = welcome.connection
            elif letter == ERROR:
                raise_frame(said)
            elif letter == END:
                self._ended = True
                raise StopIteration
            else:
                message = f"`{self._address}` sent a table before it said where it begins"
                raise FastpackError(message)

    def _now(self) -> socket.socket:
        """The socket, which another thread may have closed."""
        peer = self._peer
        if peer is None:
            raise StopIteration
        return peer

    def _lost(self, reason: str) -> ConnectionLostError:
        message = (
            f"the stream at `{self._address}` was lost after table {self.step}: {reason}; ask for the next table to connect "
            "again, or call `fastpack.connect` with the `state_dict()` of this connection"
        )
        return ConnectionLostError(message)

    def _hang_up(self) -> None:
        peer, self._peer = self._peer, None
        if peer is not None:
            peer.close()

    def state_dict(self) -> StateDict:
        """The state after the last table that was returned, as `PackStream.state_dict` returns it.

        Before the first table it is the beginning.
        """
        place = self._client.place
        known = None if place is None else place.state
        return loaded(_fastpack.first_state(None, None) if known is None else known)

    def load_state_dict(self, state_dict: Mapping[str, JsonValue], *, strict: bool = True) -> None:
        """Resumes from a state: connects again, and the next table is the one that followed it.

        Args:
            state_dict: The state of this rank, or of all ranks.
            strict: Whether a state of other inputs or options is refused.

        Raises:
            OptionError: It is no state.
            ConnectionLostError: The server has gone.
        """
        check_switch("strict", strict)
        place = _place_of(state_dict)
        with self._lock:
            self._hang_up()
            self._client.stand_at(place, strict=strict)
            self._ended = False
            self._open()

    @property
    def step(self) -> int:
        """The number of tables so far, those before a resume included."""
        place = self._client.place
        return 0 if place is None else place.step

    def close(self) -> None:
        """Ends the connection, once the server has kept what was taken. Another one resumes behind the last table."""
        self._ended = True
        peer = self._peer
        if peer is None:
            return
        if not self._lock.acquire(blocking=False):
            # Another thread waits for a table: it wakes, and hangs up.
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
            return
        try:
            with contextlib.suppress(OSError):
                deadline = Deadline(_PATIENCE)
                send(peer, LEAVE)
                deadline.apply(peer)
                while peer.recv(1 << 16):
                    deadline.apply(peer)  # tables that were not asked for
        finally:
            self._hang_up()
            self._lock.release()


def _place_of(state_dict: object) -> Place:
    """The place of a state."""
    text = text_of(state_dict)
    _fastpack.check_state(text)
    return Place(step_of(text), text)
