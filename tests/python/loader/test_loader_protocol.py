"""The promise of the loader process over a simulated transport, with deaths and losses at every message."""

from __future__ import annotations

import itertools
import random
from collections import Counter, deque
from typing import TYPE_CHECKING, Any, Final

import pytest
from campaign import tries

from fastpack import FastpackError
from fastpack.streaming.serving.protocol import START, Client, Server, StreamPosition

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROWS: Final = 12
"""The rows of the simulated stream: row `n + r` is that of rank `r` behind the first `n` rows."""


def rows_before(place: StreamPosition) -> int:
    """The rows of all ranks before a place; they are its whole state."""
    return 0 if place.state is None else int(place.state)


def merged(states: Sequence[str]) -> str:
    (state,) = set(states)
    return state


class Link:
    """A connection: messages in both directions, which are lost when it breaks."""

    def __init__(self, client: Client, rank: int) -> None:
        self.client, self.rank = client, rank
        self.up: deque[tuple[str, Any]] = deque([("hello", client.hello())])
        self.down: deque[tuple[str, Any]] = deque()
        self.name: str | None = None  # by which the server knows it
        self.known: str | None = None  # by which the client knows it
        self.place = START  # of the server's stream
        self.is_up = True  # whether the client holds it still
        self.is_down = True  # whether the server does


class Simulation:
    """A server, ranks and the messages on the wire; every step is one message or one death."""

    def __init__(self, world: int) -> None:
        self.world = world
        self.file = START
        self.server = Server(self.file, merged)
        self.ranks: list[Client | None] = [None] * world
        self.links: list[Link] = []
        self.taken: Counter[int] = Counter()
        self.recent: set[int] = set()  # since this server began, and the ranks have this number
        self.had: dict[Client, int] = {}  # the rows before the place of each client, as its own tables say
        self.ended: set[Client] = set()
        self.saved: list[StreamPosition | None] = [None] * world  # the last checkpoint of a trainer
        self.lost_acknowledgement = False
        self.went_back = False
        self.forgotten = False  # whether a server died that knew of the end of a rank

    # Events.

    def events(self) -> list[tuple[str, Any]]:
        found: list[tuple[str, Any]] = []
        for rank, client in enumerate(self.ranks):
            if client is None:
                found.append(("start", rank))
            elif client not in self.ended and not any(
                link.client is client and link.is_up for link in self.links
            ):
                found.append(("connect", rank))
        for link in self.links:
            greeting = link.up[0][1] if link.up and link.up[0][0] == "hello" else None
            waits = greeting is not None and self.server.hindrance(greeting) is not None
            if link.is_down and (link.up or not link.is_up) and not waits:
                found.append(("serve", link))
            if link.is_up and (link.down or not link.is_down):
                found.append(("take", link))
            if link.is_down and link.name and not self.server.is_full(link.name) and self.has_more(link):
                found.append(("make", link))
        return found

    def has_more(self, link: Link) -> bool:
        ended = any(message[0] == "end" for message in link.down)
        return link.place.step >= 0 and not ended and self.server.is_current(link.name or "")

    def do(self, event: tuple[str, Any]) -> None:
        kind, about = event
        getattr(self, kind)(about)
        self.links = [link for link in self.links if link.is_up or link.is_down]
        self.check_file()

    def start(self, rank: int, place: StreamPosition | None = None) -> None:
        self.ranks[rank] = Client(rank, self.world, place)
        self.connect(rank)

    def connect(self, rank: int) -> None:
        client = self.ranks[rank]
        assert client is not None
        self.links.append(Link(client, rank))

    def serve(self, link: Link) -> None:
        """The server receives a message, or the end of a connection."""
        if not link.up:
            link.is_down = False
            if link.name:
                self.server.leave(link.name)
            return
        kind, content = link.up.popleft()
        if kind == "hello":
            try:
                welcome = self.server.greet(content)
            except FastpackError:  # the client has connected again since
                link.is_down = False
                return
            link.name, link.place = welcome.connection, welcome.place
            self.check_beginning(link, content, welcome.place)
            link.down.append(("welcome", welcome))
        elif self.server.acknowledge(link.name or "", content):
            self.file = self.server.place

    def make(self, link: Link) -> None:
        """The server's stream gives a table, or ends."""
        name = link.name or ""
        before = rows_before(link.place)
        if before + self.world > ROWS:
            if self.server.is_acknowledged(name):
                if self.server.end(name):
                    self.file = self.server.place
                link.down.append(("end", None))
            return
        link.place = StreamPosition(link.place.step + 1, str(before + self.world))
        if self.server.send(name, link.place):
            link.down.append(("table", (name, link.place, before + link.rank)))

    def take(self, link: Link) -> None:
        """The client receives a message, or the end of the connection."""
        client = link.client
        if not link.down:
            link.is_up = False
            return
        kind, content = link.down.popleft()
        if kind == "welcome":
            client.welcome(content)
            self.had.setdefault(client, rows_before(content.place))
            return
        if kind == "end":
            link.is_up = False
            self.ended.add(client)
            return
        name, place, row = content
        if client.is_next(name, place.step):
            # In order, without a gap or a repetition, as long as the client lives.
            assert row == self.had[client] + link.rank
            self.had[client] += self.world
            self.taken[row] += 1
            self.recent.add(row)
            client.place = place
            if place.step % 2 == 0:
                self.saved[link.rank] = place
            if link.is_down:
                link.up.append(("acknowledged", place.step))
            else:
                self.lost_acknowledgement = True

    # Kills.

    def kill_server(self, _: object = None) -> None:
        for link in self.links:
            link.is_down = False
            link.up.clear()
        told = {link.client for link in self.links if any(message[0] == "end" for message in link.down)}
        self.forgotten |= bool((self.ended | told) & set(self.ranks))
        self.server = Server(self.file, merged)
        self.recent.clear()

    def kill_server_and_wire(self, _: object = None) -> None:
        self.kill_server()
        for link in self.links:
            link.down.clear()

    def kill_rank(self, rank: int, *, lost: bool = False, place: StreamPosition | None = None) -> None:
        client = self.ranks[rank]
        if place is not None and (client is None or place != client.place):
            self.went_back = True
        for link in self.links:
            if link.client is client:
                link.is_up = False
                link.down.clear()
                if lost and link.up:
                    self.lost_acknowledgement = True
                    link.up.clear()
        self.ranks[rank] = None
        if place is not None:
            self.start(rank, place)

    def kill_rank_and_wire(self, rank: int) -> None:
        self.kill_rank(rank, lost=True)

    def kill_rank_with_checkpoint(self, rank: int) -> None:
        self.kill_rank(rank, place=self.saved[rank])

    def cut(self, rank: int) -> None:
        for link in self.links:
            if link.rank == rank:
                self.lost_acknowledgement |= bool(link.up)
                link.is_up = link.is_down = False
                if link.name:
                    self.server.leave(link.name)

    def cut_for_the_client(self, rank: int) -> None:
        """The server does not learn of it, until it is told by the next connection."""
        for link in self.links:
            if link.rank == rank:
                link.is_up = False
                link.down.clear()

    def come_back(self, world: int) -> None:
        """All ranks are killed and come back in another number; the server hears of their end first."""
        for rank in range(self.world):
            self.kill_rank(rank)
        for link in list(self.links):
            while link.is_down:
                self.serve_what_is_left(link)
        self.links = []
        if world != self.world:
            self.recent.clear()
        self.world = world
        self.ranks = [None] * world
        self.saved = [None] * world

    def serve_what_is_left(self, link: Link) -> None:
        if link.up and link.up[0][0] == "hello":
            link.up.clear()
        self.serve(link)

    # The laws.

    def check_beginning(self, link: Link, hello: Any, place: StreamPosition) -> None:
        """A client begins at its own place, or else never before the rows that all ranks took, nor behind those that the rank took."""
        if hello.place is not None:
            assert place.step == hello.place.step
            return
        assert self.went_back or place.step >= self.server.place.step
        before = rows_before(place)
        assert all(self.taken[row] for row in range(self.common() + link.rank, before, self.world))
        if not self.lost_acknowledgement and not self.went_back and before > self.common():
            # Of a server that lives, and no acknowledgement lost: each table once.
            assert before + link.rank not in self.recent

    def common(self) -> int:
        return rows_before(self.server.place)

    def check_file(self) -> None:
        """Rows that the file counts were returned; and it never goes back but with the ranks."""
        assert all(self.taken[row] for row in range(rows_before(self.file)))
        if not self.went_back:
            assert self.file.step >= getattr(self, "_before", 0)
        self._before = self.file.step

    def finish(self, order: random.Random) -> None:
        """Without more deaths, all comes to its end: every row is returned, and the file says so."""
        for _ in range(2_000):
            events = self.events()
            if not events:
                break
            self.do(order.choice(events))
        else:
            pytest.fail("it does not end")
        assert len(self.ended & set(self.ranks)) == self.world
        if not self.forgotten:
            assert rows_before(self.file) + self.world > ROWS
            assert self.server.is_done()


FAULTS: Final = (
    ("kill_server", None),
    ("kill_server_and_wire", None),
    ("kill_rank", 0),
    ("kill_rank_and_wire", 1),
    ("kill_rank_with_checkpoint", 0),
    ("cut", 0),
    ("cut_for_the_client", 1),
    ("come_back", 1),
    ("come_back", 3),
)


def run(seed: int, faults: dict[int, tuple[str, Any]]) -> Simulation:
    """One run of two ranks, with deaths before the messages of these numbers."""
    order = random.Random(seed)
    simulation = Simulation(2)
    for number in range(90):
        if number in faults:
            kind, about = faults[number]
            if not isinstance(about, int) or kind == "come_back" or about < simulation.world:
                simulation.do((kind, about))
        events = simulation.events()
        if not events:
            break
        simulation.do(order.choice(events))
    simulation.finish(order)
    return simulation


def test_every_table_is_taken_once_where_nothing_dies() -> None:
    for seed in range(20):
        assert set(run(seed, {}).taken.values()) == {1}


def places() -> Iterator[tuple[int, dict[int, tuple[str, Any]]]]:
    for seed in range(tries(1, 40)):
        for number, fault in itertools.product(range(90), FAULTS):
            yield seed, {number: fault}


def test_one_death_at_any_message_loses_and_repeats_nothing() -> None:
    for seed, faults in places():
        simulation = run(seed, faults)
        (kind, _) = next(iter(faults.values()))
        if kind in ("kill_server", "kill_server_and_wire", "cut", "cut_for_the_client", "kill_rank"):
            # Nothing but a trainer that lost its own memory together with the server's has a table again.
            assert set(simulation.taken.values()) == {1}, (seed, faults)


def test_several_deaths_at_any_messages_lose_nothing() -> None:
    draw = random.Random(0)
    for seed in range(tries(800, 40_000)):
        numbers = draw.sample(range(90), draw.randint(2, 6))
        faults = {number: draw.choice(FAULTS) for number in numbers}
        try:
            run(seed, faults)
        except AssertionError as broken:
            raise AssertionError((seed, faults)) from broken


def test_what_an_earlier_connection_left_is_thrown_away() -> None:
    server, client = Server(START, merged), Client(0, 1, None)
    first = server.greet(client.hello())
    client.welcome(first)
    server.send(first.connection, StreamPosition(1, "1"))
    second = server.greet(client.hello())
    assert not client.is_next(first.connection, 1)
    assert not server.acknowledge(first.connection, 1)
    assert not server.send(first.connection, StreamPosition(2, "2"))
    server.leave(first.connection)
    assert server.is_current(second.connection)
    assert server.place == START


def test_a_restarted_server_takes_no_acknowledgement_for_the_one_before() -> None:
    client = Client(0, 1, None)
    before, after = Server(START, merged), Server(START, merged)
    connection = before.greet(client.hello()).connection
    before.send(connection, StreamPosition(1, "1"))
    after.greet(client.hello())
    assert not after.acknowledge(connection, 1)
