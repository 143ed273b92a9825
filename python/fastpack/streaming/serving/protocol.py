"""The promise between the server of a stream and its ranks: which table each rank takes next, whatever is killed.

Nothing here knows sockets, threads, files or tables. A transport asks what to say, hands over what arrives, and drops
connections as it likes. The rules:

* A rank stands at a `StreamPosition`: behind a table. A client that stays alive knows its own and brings it to each connection,
  so that no death of a server, and no acknowledgement that is lost, repeats a table or leaves one out.
* The server remembers behind which table each rank stands, for a client that brings no place.
* `Server.place` is behind the last table that all ranks took. It is what outlives the server, and where ranks begin that
  come in another number.
* Each server, each client and each connection has a name that none had before. What arrives with the name of an earlier
  connection is thrown away.
"""

from __future__ import annotations

import secrets
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from fastpack.errors import FastpackError, OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["LARGEST", "Client", "Hello", "Server", "StreamPosition", "Welcome"]

LARGEST: Final = 64 << 20
"""The most bytes of a message, or of the file of a state: far more than a state takes."""

_AHEAD: Final = 4
"""Tables that a client may leave unacknowledged before the server waits for it."""


class StreamPosition(NamedTuple):
    """A place in a stream, between two tables.

    Attributes:
        step: The number of tables before it.
        state: The state of the stream there, as JSON; `None` at the beginning.
    """

    step: int
    state: str | None


START: Final = StreamPosition(0, None)
"""The place before the first table."""


class Hello(NamedTuple):
    """The first message of a client.

    Attributes:
        client: The name of the client, which it keeps over its connections.
        number: The number of the connection among those of the client, from 1.
        rank: The rank.
        world_size: The number of ranks.
        place: Behind which table it stands; `None` if it leaves that to the server.
        strict: True if the place must be one of this run.
        by_row: True if the ranks are dealt rows one by one, instead of tables.
    """

    client: str
    number: int
    rank: int
    world_size: int
    place: StreamPosition | None
    strict: bool = True
    by_row: bool = False


class Welcome(NamedTuple):
    """The server's answer.

    Attributes:
        connection: The name of the connection.
        place: The place from which tables are sent.
    """

    connection: str
    place: StreamPosition


class _Rank:
    """One rank, as the server knows it.

    Attributes:
        client: The client that it was last, and the number of its last connection.
        connection: The connection that it has, if it has one.
        last: The place behind the last table that it took.
        taken: The state after each table that it took, by step, from the one on that all ranks took.
        begun: The place at which its connection began, until the client has taken a table behind it.
        strict: True if that is a place of this run.
        sent: The places behind the tables that were sent and not acknowledged.
        ended: True if it had all tables.
    """

    def __init__(self) -> None:
        self.client = ("", 0)
        self.connection: str | None = None
        self.last: StreamPosition | None = None
        self.taken: dict[int, str | None] = {}
        self.begun: StreamPosition | None = None
        self.strict = True
        self.sent: deque[StreamPosition] = deque()
        self.ended = False

    def confirm_connection(self) -> None:
        """Notes that the rank stands where its connection began: the client lives, and the stream continues from there."""
        if self.begun is None:
            return
        place, self.begun, self.last, self.ended = self.begun, None, self.begun, False
        # Tables behind the place are not taken any more.
        kept = self.taken if self.strict else {}
        self.taken = {step: state for step, state in kept.items() if step < place.step}
        if self.strict:
            self.taken[place.step] = place.state


class Server:
    """The side of the server. Not safe for threads: a transport holds its lock around each call."""

    def __init__(self, place: StreamPosition, merge: Callable[[Sequence[str]], str]) -> None:
        """Begins.

        Args:
            place: The place behind the last table that all ranks took, as far as an earlier server knew.
            merge: Joins the states of all ranks after the same step.
        """
        self.place = place
        self._merge = merge
        self._name = secrets.token_hex(8)
        self._connections = 0
        self._world: int | None = None
        self._by_row = False
        self._ranks: dict[int, _Rank] = {}

    def hindrance(self, hello: Hello) -> OptionError | None:
        """The reason for which a client cannot be greeted now. It goes away when other connections end."""
        others = [rank for rank in self._ranks.values() if rank.connection and rank.client[0] != hello.client]
        if others and self._by_row != hello.by_row:
            message = (
                "other ranks are dealt whole tables"
                if hello.by_row
                else "other ranks are dealt single rows, by a StreamDataset"
            )
            return OptionError(message, "rank")
        if others and self._world != hello.world_size:
            message = f"is {hello.world_size}, but other ranks said {self._world}"
            return OptionError(message, "world_size")
        if self._ranks.get(hello.rank) in others:
            message = f"is {hello.rank}, which has a connection already"
            return OptionError(message, "rank")
        return None

    def greet(self, hello: Hello) -> Welcome:
        """Begins a connection. An earlier one of the same rank is one no more.

        Raises:
            OptionError: Another client is this rank, or there are ranks of another number.
            FastpackError: The client has connected again since.
        """
        hindrance = self.hindrance(hello)
        if hindrance is not None:
            raise hindrance
        if (self._world, self._by_row) != (hello.world_size, hello.by_row):
            # In another number, or dealt single rows, ranks have other tables.
            self._world, self._by_row, self._ranks = hello.world_size, hello.by_row, {}
        rank = self._ranks.setdefault(hello.rank, _Rank())
        name, number = rank.client
        if name == hello.client and hello.number <= number:
            message = f"rank {hello.rank} has a later connection"
            raise FastpackError(message)
        place = hello.place or rank.last or self.place
        self._connections += 1
        rank.connection = f"{self._name}-{self._connections}"
        rank.client, rank.begun, rank.strict = (hello.client, hello.number), place, hello.strict
        rank.sent.clear()
        return Welcome(rank.connection, place)

    def is_current(self, connection: str) -> bool:
        """True if a connection is one still."""
        return self._of(connection) is not None

    def is_full(self, connection: str) -> bool:
        """True if a connection has as many unacknowledged tables as it may have."""
        rank = self._of(connection)
        return rank is not None and len(rank.sent) >= _AHEAD

    def is_acknowledged(self, connection: str) -> bool:
        """True if all tables of a connection are acknowledged."""
        rank = self._of(connection)
        return rank is None or not rank.sent

    def send(self, connection: str, place: StreamPosition) -> bool:
        """Notes the table before `place` as sent; `False` if the connection is none any more, so that it must not be."""
        rank = self._of(connection)
        if rank is None:
            return False
        if rank.begun is not None and (rank.last is None or rank.begun.step > rank.last.step):
            # The stream continues from there. A place that goes back counts when the client has continued as well.
            rank.last = rank.begun
        rank.sent.append(place)
        return True

    def acknowledge(self, connection: str, step: int) -> bool:
        """Notes the tables up to `step` as taken, and moves `place`. Messages of an earlier connection are thrown away.

        Returns:
            Whether `place` is another one, which is to be kept.

        Raises:
            FastpackError: The table was not sent.
            OptionError: The states of the ranks are of several runs.
        """
        rank = self._of(connection)
        if rank is None:
            return False
        if not rank.sent or step < rank.sent[0].step:
            return False  # again
        if step > rank.sent[-1].step:
            message = f"a client acknowledged table {step}, which was not sent to it"
            raise FastpackError(message)
        rank.confirm_connection()
        while rank.sent and rank.sent[0].step <= step:
            rank.last = rank.sent.popleft()
            rank.taken[rank.last.step] = rank.last.state
        return self._move()

    def end(self, connection: str) -> bool:
        """Notes that a rank had all tables; returns whether `place` is another one now."""
        rank = self._of(connection)
        if rank is None:
            return False
        rank.confirm_connection()
        rank.ended = True
        return self._move()

    def leave(self, connection: str) -> None:
        """Notes the end of a connection."""
        rank = self._of(connection)
        if rank is not None:
            rank.connection = None
            rank.sent.clear()

    def is_done(self) -> bool:
        """True if all ranks had all tables and are gone."""
        ranks = self._ranks.values()
        return len(ranks) == self._world and all(rank.ended and rank.connection is None for rank in ranks)

    def _of(self, connection: str) -> _Rank | None:
        """The rank that has a connection; `None` for an earlier one, of this server or another."""
        return next((rank for rank in self._ranks.values() if rank.connection == connection), None)

    def _move(self) -> bool:
        """Moves `place` behind the last table that all ranks took."""
        if len(self._ranks) != self._world:
            return False
        ranks = [self._ranks[number] for number in sorted(self._ranks)]
        common = set(ranks[0].taken).intersection(*(rank.taken for rank in ranks[1:]))
        step = max(common, default=self.place.step)
        if step == self.place.step:
            return False
        states = [state for rank in ranks if (state := rank.taken[step]) is not None]
        # Before the first table there is no state, on any rank.
        self.place = StreamPosition(step, self._merge(states)) if len(states) == len(ranks) else START
        for rank in ranks:
            rank.taken = {at: state for at, state in rank.taken.items() if at >= step}
        return True


class Client:
    """The side of a rank, over all its connections.

    Attributes:
        place: The place behind the last table that it returned, or at which it began; `None` before a server told it.
    """

    def __init__(
        self, rank: int, world_size: int, place: StreamPosition | None, *, by_row: bool = False
    ) -> None:
        """Begins at a place, or where the server says."""
        self._name = secrets.token_hex(8)
        self._rank, self._world_size, self._by_row = rank, world_size, by_row
        self._strict = True
        self._connections = 0
        self._connection: str | None = None
        self.place = place

    def stand_at(self, place: StreamPosition, *, strict: bool) -> None:
        """Goes to another place: from the next connection on, tables come from there."""
        self.place, self._strict, self._connection = place, strict, None

    def hello(self) -> Hello:
        """The first message of a connection. Messages of an earlier one are thrown away from now on."""
        self._connection = None
        self._connections += 1
        return Hello(
            self._name,
            self._connections,
            self._rank,
            self._world_size,
            self.place,
            self._strict,
            self._by_row,
        )

    def welcome(self, welcome: Welcome) -> None:
        """Notes the server's answer.

        Raises:
            FastpackError: The server begins elsewhere than it was told.
        """
        if self.place is not None and welcome.place.step != self.place.step:
            message = f"the server begins after table {welcome.place.step}, but this rank stands after {self.place.step}"
            raise FastpackError(message)
        self._connection = welcome.connection
        if self.place is None:
            self.place = welcome.place

    def is_next(self, connection: str, step: int) -> bool:
        """True if a table is the next one; one of an earlier connection, or that was returned before, is thrown away.

        Raises:
            FastpackError: A table before it is missing.
        """
        if self.place is None or connection != self._connection or step <= self.place.step:
            return False
        if step != self.place.step + 1:
            message = f"the server sent table {step}, but {self.place.step + 1} is the next"
            raise FastpackError(message)
        return True
