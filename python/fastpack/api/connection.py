"""`StreamConnection`: the tables of a stream that another process makes."""

from __future__ import annotations

import json
import os
import threading
from typing import TYPE_CHECKING, final

from fastpack._checks import check_switch
from fastpack._ranks import rank_of
from fastpack.api.closing import Closing
from fastpack.api.frames import (
    ACKNOWLEDGED,
    ADDRESS,
    END,
    ERROR,
    HELLO,
    TABLE,
    TOKEN,
    Address,
    raise_frame,
    receive,
    receive_table,
    receive_text,
    send,
)
from fastpack.api.states import loaded, state_text, text_of
from fastpack.errors import ConnectionLostError, FastpackError, OptionError

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

    import pyarrow as pa

    from fastpack._types import JsonValue
    from fastpack.api.states import StateDict

__all__ = ["StreamConnection", "connect"]


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

    A table counts as taken once it was returned. The server is told so, and it keeps at most some tables ahead.
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
        self._rank = rank_of(rank, world_size)
        self._lock = threading.Lock()
        self._state: str | None = None
        self._peer: socket.socket | None = None
        self._open(state_dict, strict=True)

    def _open(self, state: Mapping[str, JsonValue] | None, *, strict: bool) -> None:
        """Connects, and says which rank this is and where to begin."""
        place = Address.of(self._address, "address")
        hello = {
            "token": os.environ.get(TOKEN),
            "rank": self._rank.rank,
            "world_size": self._rank.world_size,
            "state": state,
            "strict": strict,
        }
        try:
            text = json.dumps(hello).encode()
        except (TypeError, ValueError) as refused:
            message = f"is none of a stream: {refused}"
            raise OptionError(message, "state") from refused
        peer = place.open()
        try:
            peer.connect(place.place)
            send(peer, HELLO, text)
        except OSError as failed:
            peer.close()
            message = f"no stream is served at `{self._address}`: {failed.strerror or failed}"
            raise ConnectionLostError(message) from failed
        self._peer = peer
        self._state = None if state is None else text_of(state)

    def __iter__(self) -> StreamConnection:
        """The connection itself."""
        return self

    def __next__(self) -> pa.Table:
        """The next table.

        Raises:
            ConnectionLostError: The server has gone.
            FastpackError: The server's stream failed.
        """
        with self._lock:
            if self._peer is None:
                raise StopIteration
            try:
                frame = receive(self._peer)
                if frame is not None and frame[0] == TABLE:
                    table = receive_table(self._peer, frame[1])
                    self._state = state_text(table)
                    send(self._peer, ACKNOWLEDGED)
                    return table
                said = receive_text(self._peer, frame[1]) if frame else b""
            except OSError as failed:
                self._hang_up()
                raise self._lost(str(failed.strerror or failed)) from failed
            self._hang_up()
            if frame is None:
                reason = "it closed the connection"
                raise self._lost(reason)
            if frame[0] == ERROR:
                raise_frame(said)
            if frame[0] != END:
                message = f"`{self._address}` sent a frame that no server sends"
                raise FastpackError(message)
            raise StopIteration

    def _lost(self, reason: str) -> ConnectionLostError:
        message = f"the stream at `{self._address}` was lost after table {self.step}: {reason}; connect again to go on"
        return ConnectionLostError(message)

    def _hang_up(self) -> None:
        peer, self._peer = self._peer, None
        if peer is not None:
            peer.close()

    def state_dict(self) -> StateDict:
        """The state after the last table, as `PackStream.state_dict` returns it.

        Raises:
            FastpackError: No table was given yet, and no state was loaded.
        """
        if self._state is None:
            message = (
                "this stream has given no table, so there is no state to save; a new stream starts there"
            )
            raise FastpackError(message)
        return loaded(self._state)

    def load_state_dict(self, state_dict: Mapping[str, JsonValue], *, strict: bool = True) -> None:
        """Resumes from a state: connects again, and the next table is the one that followed it.

        Args:
            state_dict: The state of this rank, or of all ranks.
            strict: Whether a state of other inputs or options is refused.

        Raises:
            ConnectionLostError: The server has gone.
        """
        check_switch("strict", strict)
        with self._lock:
            self._hang_up()
            self._open(state_dict, strict=strict)

    @property
    def step(self) -> int:
        """The number of tables so far, those before a resume included."""
        step = 0 if self._state is None else loaded(self._state).get("step", 0)
        return step if isinstance(step, int) else 0

    def close(self) -> None:
        """Ends the connection. Another one resumes behind the last table that was taken."""
        self._hang_up()
