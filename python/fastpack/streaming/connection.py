"""`StreamConnection`: the tables of a stream that another process makes."""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, Final, final

from fastpack import _fastpack
from fastpack.arguments.checks import check_switch, shown
from fastpack.errors import ConnectionLostError, FastpackError, OptionError
from fastpack.runtime.ranks import rank_of
from fastpack.streaming.context_manager import Closing
from fastpack.streaming.serving.address import Address
from fastpack.streaming.serving.exchange import Exchange
from fastpack.streaming.serving.messages import (
    ADDRESS,
    TOKEN,
    ForeignError,
    content_of,
    error_of,
    message_of,
    metadata_of,
    welcome_of,
)
from fastpack.streaming.serving.place_file import step_of
from fastpack.streaming.serving.protocol import START, Client, StreamPosition
from fastpack.streaming.states import loaded, state_text, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

    from fastpack.streaming.states import StateDict
    from fastpack.types import JsonValue

__all__ = ["StreamConnection", "connect"]

_PATIENCE: Final = 10.0
"""Seconds in which a server must answer a new connection, and keep the acknowledgements of an old one before it ends."""


def connect(
    address: str | None = None,
    *,
    rank: int | None = None,
    world_size: int | None = None,
    state_dict: Mapping[str, JsonValue] | None = None,
    certificate: str | None = None,
) -> StreamConnection:
    """Connects to a stream that `fastpack stream --to` makes in another process.

    Args:
        address: `unix:PATH`, `tcp://HOST:PORT` or `tls://HOST:PORT`; if not given, that of the environment variable
            `FASTPACK_STREAM`, which `fastpack stream ... -- python train.py` sets. A server on TCP asks for the secret in
            `FASTPACK_STREAM_TOKEN`.
        rank: The data-parallel rank, from 0; as for `stream` if not given.
        world_size: The number of data-parallel ranks.
        state_dict: The state to resume from. If not given, the server resumes after the last table that this rank took.
        certificate: The file of the certificates that vouch for a server at `tls://`, as PEM; if not given, those that the
            system trusts. A certificate that vouches for itself is its own file.

    Returns:
        An iterator of tables, each with its state, as `stream` returns it. It connects where the first table is asked for, in
        the process that asks, and `fastpack.torch.StreamDataset` takes it in place of a stream.

    Raises:
        OptionError: There is no address, or the rank or the state is none.
        ConnectionLostError: No server listens there.
    """
    found = os.environ.get(ADDRESS) if address is None else address
    if found is None:
        message = f"must be given, or stand in the environment variable {ADDRESS}"
        raise OptionError(message, "address")
    return StreamConnection(
        found, rank=rank, world_size=world_size, state_dict=state_dict, certificate=certificate
    )


@final
class StreamConnection(Closing):
    """An iterator over the tables of a stream that another process makes. `fastpack.connect` makes it.

    A table counts as taken once it was returned. The server is told so, and it keeps at most some tables ahead. Where the
    connection is lost, `next` raises `ConnectionLostError`, and the next `next` connects again and goes on after the last
    table that was returned, whatever the server knows of it.
    """

    def __init__(
        self,
        address: str,
        *,
        rank: int | None = None,
        world_size: int | None = None,
        state_dict: Mapping[str, JsonValue] | None = None,
        certificate: str | None = None,
        by_row: bool = False,
    ) -> None:
        """Sees whether a server is there, as `connect` does.

        With `by_row` the ranks are dealt rows one by one, and begin at the beginning without a state.
        """
        self._arguments: dict[str, Any] = {  # type: ignore[explicit-any]
            "address": address,
            "rank": rank,
            "world_size": world_size,
            "certificate": certificate,
        }
        self._address = Address.of(address, "address")
        self._roots = None if certificate is None else self._address.certificates(certificate)
        number = rank_of(rank, world_size)
        begun = START if by_row else None
        place = begun if state_dict is None else _place_of(state_dict)
        self._client = Client(number.rank, number.world_size, place, by_row=by_row)
        self._lock = threading.Lock()
        self._exchange: Exchange | None = None
        self._parting: weakref.finalize[[], StreamConnection] | None = None
        self._name: str | None = None
        self._ended = False
        self._try_out()

    def unused(self) -> dict[str, Any]:  # type: ignore[explicit-any]
        """The arguments and the state of a connection that was not used, to make the same one in another process.

        Raises:
            FastpackError: The connection was used.
        """
        if self._exchange is not None or self._ended or self._name is not None:
            message = "this connection has started, and belongs to its process; give the one that `fastpack.connect` returned"
            raise FastpackError(message)
        place = self._client.place
        return {"given": self._arguments, "state": None if place is None else place.state}

    def _try_out(self) -> None:
        """Sees whether somebody listens."""
        try:
            self._address.try_out(listens=False, seconds=_PATIENCE)
        except OSError as failed:
            raise self._absent(failed.strerror or str(failed) or "it closed the connection") from failed

    def _open(self) -> Exchange:
        """Connects, and says which rank this is and where to begin."""
        self._try_out()
        hello = message_of("hello", *self._client.hello())
        self._name = None
        self._exchange = exchange = Exchange(self._address.location(), self._roots, hello)
        if self._parting is not None:
            self._parting.detach()
        self._parting = weakref.finalize(self, exchange.at_exit)
        try:
            kind, content, _ = exchange.next(_PATIENCE)
            if kind != "pulse":
                raise error_of(content) if kind == "error" else ForeignError  # noqa: TRY301  as below
        except Exception as failed:
            raise self._failed(failed, self._absent) from failed
        return exchange

    def _failed(self, failed: Exception, lost: Callable[[str], ConnectionLostError]) -> Exception:
        """The error for one of Flight's or of the messages."""
        from pyarrow import flight  # noqa: PLC0415  importing fastpack is to cost nothing

        if isinstance(failed, FastpackError) and not isinstance(failed, ForeignError):
            return failed
        if isinstance(failed, (ForeignError, ValueError, TypeError)):
            return FastpackError(f"what answers at `{self._address}` is no stream of fastpack")
        if isinstance(failed, flight.FlightUnauthenticatedError):
            message = f"the secret in the environment variable {TOKEN} is not that of the server at `{self._address}`"
            return FastpackError(message)
        # Such as: Flight returned unavailable error, with message: Socket closed. gRPC client debug context: ...
        text = str(failed).partition(" gRPC client debug context")[0]
        return lost(shown(text.partition("with message: ")[2] or text))

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
                table, place = self._receive_table()
                self._client.place = place
                # The table is there, whether the server hears of it or not: the next call would notice its end.
                self._now().acknowledge(str(self._name), place.step)
            return table  # noqa: TRY300  what interrupts this takes the table from the caller
        except BaseException:
            # Such as Ctrl-C: the caller does not have the table, so it comes again, over another connection.
            if place is not before and self._client.place is place:
                self._client.place = before
            self._hang_up()
            raise

    def _receive_table(self) -> tuple[pa.Table, StreamPosition]:
        """Receives the next table, and the place behind it."""
        if self._ended:
            raise StopIteration
        exchange = self._open() if self._exchange is None else self._exchange
        try:
            return self._receive(exchange)
        except StopIteration:
            raise
        except Exception as failed:
            if self._ended:
                raise StopIteration from failed  # another thread has closed it
            raise self._failed(failed, self._connection_lost) from failed

    def _receive(self, exchange: Exchange) -> tuple[pa.Table, StreamPosition]:
        """Receives messages up to the next table."""
        import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing

        while True:
            kind, content, batches = exchange.next()
            if kind == "welcome":
                welcome = welcome_of(content)
                self._client.welcome(welcome)
                self._name = welcome.connection
            elif kind == "table":
                name, step, sizes, values = content_of(content, str, int, list, bytes)
                if self._client.is_next(name, step):
                    table = pa.Table.from_batches(batches).replace_schema_metadata(metadata_of(sizes, values))
                    return table, StreamPosition(step, state_text(table))
            elif kind == "end":
                self._ended = True
                raise StopIteration
            elif kind == "error":
                error = error_of(content)
                raise self._connection_lost(str(error)) if isinstance(error, ConnectionLostError) else error
            elif kind != "pulse":
                raise ForeignError

    def _now(self) -> Exchange:
        """The exchange, which another thread may have closed."""
        exchange = self._exchange
        if exchange is None:
            raise StopIteration
        return exchange

    def _absent(self, reason: str) -> ConnectionLostError:
        message = f"no stream is served at `{self._address}`: {reason}"
        return ConnectionLostError(message)

    def _connection_lost(self, reason: str) -> ConnectionLostError:
        message = (
            f"the stream at `{self._address}` was lost after table {self.step}: {reason}; ask for the next table to connect "
            "again, or call `fastpack.connect` with the `state_dict()` of this connection"
        )
        return ConnectionLostError(message)

    def _hang_up(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.hang_up()

    def state_dict(self) -> StateDict:
        """The state after the last table that was returned, as `PackStream.state_dict` returns it.

        Before the first table it is the beginning.
        """
        place = self._client.place
        known = None if place is None else place.state
        return loaded(_fastpack.first_state(None, None) if known is None else known)

    def load_state_dict(self, state_dict: Mapping[str, JsonValue], *, strict: bool = True) -> None:
        """Resumes from a state: the next table is the one that followed it, over another connection.

        Args:
            state_dict: The state of this rank, or of all ranks.
            strict: True if a state of other inputs or options is refused.

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
            self._try_out()

    @property
    def step(self) -> int:
        """The number of tables so far, those before a resume included."""
        place = self._client.place
        return 0 if place is None else place.step

    def close(self) -> None:
        """Ends the connection, once the server has kept the acknowledgements. Another one resumes behind the last table."""
        self._ended = True
        exchange = self._exchange
        if exchange is None:
            return
        if not self._lock.acquire(blocking=False):
            exchange.hang_up()  # another thread waits for a table: it wakes
            return
        try:
            exchange.leave(_PATIENCE)
        finally:
            self._hang_up()
            self._lock.release()


def _place_of(state_dict: object) -> StreamPosition:
    """The place of a state."""
    text = text_of(state_dict)
    _fastpack.check_state(text)
    return StreamPosition(step_of(text), text)
