"""The loader process: something dies, is in the way, or is faulty."""

from __future__ import annotations

import contextlib
import json
import linecache
import os
import random
import resource
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from campaign import tries
from conftest import sentence
from nested import flat, place
from pace import paced
from pyarrow import flight
from test_stream_server import OPTIONS, ids_of, texts

import fastpack
from fastpack.streaming import connection as connecting
from fastpack.streaming import server as serving
from fastpack.streaming.server import StreamServer
from fastpack.streaming.serving import exchange, service
from fastpack.streaming.serving.address import SocketFolder
from fastpack.streaming.serving.place_file import PlaceFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets")

__all__ = ["texts"]


@pytest.fixture
def given(texts: Path, tokenizer_dir: Path) -> dict[str, Any]:
    return flat.stream(texts, tokenizer_dir, **OPTIONS).arguments()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="fp-") as made:
        yield Path(made)


def steps_of(given: dict[str, Any], world: int) -> list[list[list[int]]]:
    """The rows of each step of all ranks together: those of one rank with a greater batch."""
    with flat.stream(**given | {"batch_size": given["batch_size"] * world}) as whole:
        return [ids_of(table) for table in whole]


def taken(address: str, world: int, count: int) -> list[list[list[int]]]:
    """The rows of the next steps of all ranks."""
    with contextlib.ExitStack() as opened:
        ranks = [
            opened.enter_context(fastpack.connect(address, rank=rank, world_size=world))
            for rank in range(world)
        ]
        return [[row for rank in ranks for row in ids_of(next(rank))] for _ in range(count)]


# The processes that die.


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize(("before", "after"), [(2, 1), (2, 3), (3, 2), (1, 4)])
def test_ranks_in_another_number_go_on_behind_the_last_table_that_all_took(
    before: int, after: int, is_restarted: bool, given: dict[str, Any], folder: Path
) -> None:
    given |= {"epochs": None, "batch_size": 1}
    file, address = folder / "place.json", f"unix:{folder}/s"
    rows = before * 3 + after * 2
    with flat.stream(**given) as whole:
        expected = [row for _ in range(rows) for row in ids_of(next(whole))]
    with StreamServer(given, address, state=str(file)) as server:
        found = taken(address, before, 3)
        kept = json.loads(file.read_text(encoding="utf-8"))["step"]
        if not is_restarted:
            found += taken(address, after, 2)
        assert kept == 3
    if is_restarted:
        with StreamServer(given, address, state=str(file)) as server:
            found += taken(server.address, after, 2)
    assert [row for step in found for row in step] == expected
    assert json.loads(file.read_text(encoding="utf-8"))["step"] == 5


@pytest.mark.parametrize("how", ["next", "state_dict"])
def test_a_server_that_is_killed_and_started_again_gives_each_table_once(
    how: str, given: dict[str, Any], texts: Path, tokenizer_dir: Path, folder: Path
) -> None:
    """As the error says: by asking for the next table, or with the state of the connection that was lost."""
    draw, address = random.Random(how), f"unix:{folder}/s"
    command = [
        sys.executable,
        "-m",
        "fastpack",
        "stream",
        str(texts),
        "-t",
        str(tokenizer_dir),
        "--to",
        address,
    ]
    command += [
        "-m",
        "64",
        "--batch-size",
        "2",
        "--ranks.lanes",
        "12",
        "--strategy",
        "best_fit",
        "--strategy.open-rows",
        "4",
    ]
    command += ["--state", str(folder / "place.json")]

    def start() -> subprocess.Popen[bytes]:
        server = subprocess.Popen(command, stderr=subprocess.PIPE)
        assert server.stderr is not None
        with server.stderr as said:
            assert b"serving" in said.readline()
        return server

    for _ in range(tries(1, 2)):
        found, lost = [], 0
        server = start()
        connection = fastpack.connect(address)
        number = 0
        while True:
            number += 1
            if number % tries(20, 4) == 0:
                threading.Timer(draw.random() * 0.003, server.kill).start()
            try:
                found.append(ids_of(next(connection)))
            except StopIteration:
                break
            except fastpack.ConnectionLostError:
                lost += 1
                server.wait()
                server = start()
                if how == "state_dict":
                    state = connection.state_dict() if connection.step else None
                    connection.close()
                    connection = fastpack.connect(address, state_dict=state)
        connection.close()
        server.kill()
        server.wait()
        assert lost > 0
        assert found == steps_of(given, 1)
        (folder / "place.json").unlink()


def cut(server: StreamServer) -> None:
    """Cuts the wires of all ranks."""
    for peer, _ in server._service._connected():
        with peer, contextlib.suppress(OSError):
            peer.shutdown(socket.SHUT_RDWR)


def taken_through_cuts(given: dict[str, Any], folder: Path, seed: int) -> tuple[list[list[Any]], int]:
    """The tables of two ranks while wires are cut by either side and the server is started again; and the lost ones."""
    draw, file, address = random.Random(seed), folder / "place.json", f"unix:{folder}/s"
    server = StreamServer(given, address, state=str(file))
    ranks = [fastpack.connect(address, rank=rank, world_size=2) for rank in range(2)]
    found: list[list[Any]] = [[], []]
    going, lost = [0, 1], 0
    while going:
        number = draw.choice(going)
        if len(found[number]) > len(found[1 - number]) + 3 and len(going) == 2:
            continue  # a rank may be ahead by some tables
        timer = threading.Timer(draw.random() * 0.003, cut if draw.random() < 0.2 else id, (server,))
        timer.start()
        event = draw.random()
        if event < 0.05:
            ranks[number]._hang_up()
        elif event < 0.1 and max(map(len, found)) < 30:  # a server that dies forgets who has ended
            server.close()
            server = StreamServer(given, address, state=str(file))
        try:
            found[number].append(ids_of(next(ranks[number])))
        except fastpack.ConnectionLostError:
            lost += 1
        except StopIteration:
            going.remove(number)
        timer.join()
    for rank in ranks:
        rank.close()
    server.close()
    return found, lost


def test_whatever_is_cut_each_table_comes_once(given: dict[str, Any], folder: Path) -> None:
    given |= {"max_steps": 30, "epochs": None}
    expected = steps_of(given, 2)
    lost = 0
    for seed in range(tries(3, 60)):
        found, more = taken_through_cuts(given, folder, seed)
        assert [first + second for first, second in zip(*found, strict=True)] == expected, seed
        assert json.loads((folder / "place.json").read_text(encoding="utf-8"))["step"] == 30, seed
        (folder / "place.json").unlink()
        lost += more
    assert lost > 3


def test_a_state_counts_only_tables_that_were_returned(
    given: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server dies before it is told of a table, which the client has got in whole; or the client's `next` is interrupted."""
    address = f"unix:{folder}/s"
    expected = steps_of(given, 1)
    real = exchange.Exchange.acknowledge
    for failure in (None, KeyboardInterrupt()):
        found, failing = [], [True]

        def acknowledge(
            call: exchange.Exchange,
            name: str,
            step: int,
            failing: list[bool] = failing,
            failure: BaseException | None = failure,
        ) -> None:
            if failing and connection.step % 3 == 2:
                failing.clear()
                if failure is not None:
                    raise failure
                call.hang_up()
                return
            failing.append(True)
            real(call, name, step)

        monkeypatch.setattr(exchange.Exchange, "acknowledge", acknowledge)
        lost = 0
        with StreamServer(given, address), fastpack.connect(address) as connection:
            while True:
                try:
                    found.append(ids_of(next(connection)))
                except StopIteration:
                    break
                except (KeyboardInterrupt, fastpack.ConnectionLostError):
                    lost += 1
                assert connection.state_dict()["step"] == len(found)
        assert found == expected
        assert lost > 3


def test_closing_waits_until_what_was_taken_is_kept(given: dict[str, Any], folder: Path) -> None:
    file, address = folder / "place.json", f"unix:{folder}/s"
    with StreamServer(given, address, state=str(file)):
        for step in range(1, 8):
            with fastpack.connect(address) as connection:
                next(connection)
            assert json.loads(file.read_text(encoding="utf-8"))["step"] == step


def test_an_error_of_the_data_comes_again_and_a_connection_that_has_ended_stays_ended(
    write_jsonl: Callable[..., Path], tokenizer_dir: Path, folder: Path
) -> None:
    path = write_jsonl(
        [{"text": f"{number} {sentence(number, 30)}"} for number in range(40)] + [b"{"], "bad.jsonl"
    )
    given = flat.stream(path, tokenizer_dir, **OPTIONS | {"shuffle": False, "lanes": 1}).arguments()
    with StreamServer(given, f"unix:{folder}/s") as server:
        connection = fastpack.connect(server.address)
        with pytest.raises(fastpack.RecordError) as first:
            list(connection)
        for _ in range(3):
            with pytest.raises(fastpack.RecordError) as again:
                next(connection)
            assert str(again.value) == str(first.value)
            assert again.value is not first.value
        connection.close()
        assert list(connection) == []


def test_what_the_server_sends_while_it_waits_is_no_table(
    given: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "_PULSE", 0.02)
    with (
        StreamServer(given, f"unix:{folder}/s") as server,
        fastpack.connect(server.address) as connection,
    ):
        found = []
        for table in connection:
            found.append(ids_of(table))
            if len(found) % 10 == 1:
                time.sleep(0.2)
    assert found == steps_of(given, 1)


def test_a_table_of_several_pieces_comes_whole(
    given: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given |= {"batch_size": 6}
    monkeypatch.setattr(serving, "PIECE", 1_000)
    with StreamServer(given, f"unix:{folder}/s") as server:
        found = list(fastpack.connect(server.address))
    local = list(flat.stream(**given))
    assert found[0].column(0).num_chunks > 1
    assert found == local
    assert [table.schema.metadata for table in found] == [table.schema.metadata for table in local]


# The file of the state.


def test_a_changed_byte_of_the_state_is_never_used(given: dict[str, Any], folder: Path) -> None:
    file = folder / "place.json"
    with StreamServer(given, f"unix:{folder}/s", state=str(file)) as server:
        taken(server.address, 1, 3)
    whole, place = file.read_bytes(), PlaceFile(str(file)).place
    draw = random.Random(0)
    for _ in range(tries(200, 3_000)):
        at = draw.randrange(len(whole))
        file.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << draw.randrange(8))]) + whole[at + 1 :])
        with contextlib.suppress(fastpack.OptionError):
            found = PlaceFile(str(file)).place
            assert json.loads(found.state or "") == json.loads(place.state or "")


def refused(given: dict[str, Any], folder: Path, file: Path, said: str | None) -> None:
    with pytest.raises(fastpack.FastpackError, match=said) as caught:
        StreamServer(given, f"unix:{folder}/s", state=str(file))
    assert str(file) in str(caught.value)
    assert len(str(caught.value)) < 1_000
    assert "\n" not in str(caught.value)


def test_what_is_no_state_is_refused_by_name_and_left_alone(given: dict[str, Any], folder: Path) -> None:
    file = folder / "place.json"
    with StreamServer(given, f"unix:{folder}/s", state=str(file)) as server:
        taken(server.address, 1, 2)
    whole = file.read_bytes()
    for content in [
        b"",
        b"{}",
        b"null",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"\xff",
        b"3",
        whole[:-2],
        b'{"step": 3}',
    ]:
        file.write_bytes(content)
        refused(given, folder, file, "holds no state of a stream")
        assert file.read_bytes() == content
    file.unlink()
    os.mkfifo(file)
    refused(given, folder, file, "no regular file")
    assert stat.S_ISFIFO(file.stat().st_mode)
    file.unlink()
    file.symlink_to(folder / "elsewhere")
    refused(given, folder, file, "a link")
    file.unlink()
    file.mkdir()
    refused(given, folder, file, None)


@pytest.mark.usefixtures("without_privileges")
def test_a_file_that_cannot_be_written_is_said_at_the_start() -> None:
    with tempfile.TemporaryDirectory(prefix="fp-") as made:
        closed = Path(made) / "closed"
        closed.mkdir(mode=0o555)
        with pytest.raises(fastpack.AccessError) as caught:
            PlaceFile(str(closed / "place.json"))
        assert caught.value.filename == str(closed / "place.json")
        with pytest.raises(fastpack.StorageError) as missing:
            PlaceFile(str(closed / "nowhere" / "place.json"))
        assert missing.value.filename == str(closed / "nowhere" / "place.json")


def test_a_file_that_can_be_written_no_more_is_said_to_the_ranks_and_where_it_waits(
    given: dict[str, Any], folder: Path
) -> None:
    file = folder / "kept" / "place.json"
    file.parent.mkdir()
    server = StreamServer(given, f"unix:{folder}/s", state=str(file))
    with fastpack.connect(server.address) as connection:
        next(connection)
        until = time.monotonic() + 10
        while not file.exists() and time.monotonic() < until:
            time.sleep(0.01)
        file.rename(folder / "moved.json")
        with pytest.raises(fastpack.OutputError, match="changed by another process") as caught:
            for _ in connection:
                pass
        assert str(file) in str(caught.value)
    with pytest.raises(fastpack.OutputError, match="changed by another process"):
        server.check()
    assert not file.exists()
    server.close()


def test_files_of_others_beside_the_state_are_left_alone(given: dict[str, Any], folder: Path) -> None:
    planted = {
        folder / name: name.encode() for name in ("place.json.new", ".place.json.0011aabb.new", "place.json~")
    }
    for path, content in planted.items():
        path.write_bytes(content)
    with StreamServer(given, f"unix:{folder}/s", state=str(folder / "place.json")) as server:
        taken(server.address, 1, 3)
    assert {path: path.read_bytes() for path in planted} == planted
    assert set(folder.iterdir()) == {*planted, folder / "place.json"}


# The socket.


KINDS = ["stale", "datagram", "listening", "file", "folder", "pipe", "link", "dangling"]


@contextlib.contextmanager
def planted(kind: str, path: Path) -> Iterator[None]:
    """Something of others at a path, which must be there and the same afterwards."""
    with contextlib.ExitStack() as opened:
        if kind in ("stale", "datagram", "listening"):
            made = opened.enter_context(
                socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM if kind == "datagram" else socket.SOCK_STREAM)
            )
            made.bind(str(path))
            if kind == "listening":
                made.listen()
        elif kind == "file":
            path.write_text("{}", encoding="utf-8")
        elif kind == "folder":
            path.mkdir()
        elif kind == "pipe":
            os.mkfifo(path)
        else:
            target = path.with_name("target")
            if kind == "link":
                target.mkdir()
            path.symlink_to(target)
        before = os.lstat(path)
        yield
        after = os.lstat(path)
        assert (before.st_ino, before.st_mtime_ns, before.st_mode) == (
            after.st_ino,
            after.st_mtime_ns,
            after.st_mode,
        )


def refused_address(given: dict[str, Any], path: Path) -> None:
    before = sorted(path.parent.rglob("*"))
    with pytest.raises(fastpack.OutputError, match="in the way") as caught:
        StreamServer(given, f"unix:{path}")
    assert str(path) in str(caught.value)
    assert sorted(path.parent.rglob("*")) == before


@pytest.mark.parametrize("kind", KINDS)
def test_what_others_left_at_the_place_of_the_socket_stays(
    kind: str, given: dict[str, Any], folder: Path
) -> None:
    with planted(kind, folder / "s"):
        refused_address(given, folder / "s")


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("name", ["socket", "other"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_others_left_in_the_folder_of_the_socket_stays(
    kind: str, name: str, is_killed: bool, given: dict[str, Any], folder: Path
) -> None:
    """In a folder of others, or in that of a server that was killed, also in place of its socket."""
    path = folder / "s"
    if is_killed:
        left_by_a_killed_server(path)
        (path / name).unlink(missing_ok=True)
    else:
        path.mkdir(mode=0o700)
    with planted(kind, path / name):
        refused_address(given, path)


def left_by_a_killed_server(path: Path) -> None:
    """The folder, as a server leaves it that is killed."""
    made = SocketFolder(str(path))
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(f"{path}/{made.bound}")
        made.publish()
    os.close(made._folder)


def test_the_folder_of_a_killed_server_is_taken_over(given: dict[str, Any], folder: Path) -> None:
    left_by_a_killed_server(folder / "s")
    with StreamServer(given, f"unix:{folder}/s") as server:
        assert taken(server.address, 1, 2) == steps_of(given, 1)[:2]
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("kind", KINDS)
def test_what_took_the_place_of_the_server_s_own_socket_stays(
    kind: str, given: dict[str, Any], folder: Path
) -> None:
    path = folder / "s" / "socket"
    server = StreamServer(given, f"unix:{folder}/s")
    path.unlink()
    with planted(kind, path):
        server.close()
        refused_address(given, folder / "s")


@pytest.mark.parametrize("path", ["x" * 200, "a/" * 80 + "s", "s\0t"])
def test_a_path_that_no_socket_has_is_refused_by_name(path: str, given: dict[str, Any]) -> None:
    for refusing in (lambda: StreamServer(given, f"unix:{path}"), lambda: fastpack.connect(f"unix:{path}")):
        with pytest.raises(fastpack.OptionError, match=r"`(to|address)`"):
            refusing()


# Over TCP, from those who do not know the secret.


@pytest.fixture
def guarded(given: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[StreamServer]:
    monkeypatch.setenv("FASTPACK_STREAM_TOKEN", "a secret")
    with StreamServer(given, "tcp://127.0.0.1:0") as server:
        yield server


def dialled(server: StreamServer) -> socket.socket:
    host, port = server.address.removeprefix("tcp://").split(":")
    return socket.create_connection((host, int(port)), timeout=60)


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""The beginning of HTTP/2, of which gRPC is made."""

SETTINGS = bytes(3) + b"\x04" + bytes(5)
"""The first frame of HTTP/2."""


def is_open(stranger: socket.socket) -> bool:
    """True if the server holds a connection, or has yet to accept it."""
    stranger.setblocking(False)
    try:
        while stranger.recv(1 << 16):
            pass
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        stranger.settimeout(60)
    return False


@pytest.mark.parametrize(
    "said", [bytes(1 << 16), PREFACE[:3], PREFACE + SETTINGS], ids=["zeros", "begun", "greeted"]
)
def test_strangers_take_no_memory_and_keep_nobody_out(
    said: bytes, guarded: StreamServer, given: dict[str, Any]
) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with contextlib.ExitStack() as opened:
        strangers = [opened.enter_context(dialled(guarded)) for _ in range(tries(80, 400))]
        for stranger in strangers:
            with contextlib.suppress(OSError):
                stranger.sendall(said)
        until = time.monotonic() + 10
        while sum(map(is_open, strangers)) > 64 and time.monotonic() < until:
            time.sleep(0.05)
        assert sum(map(is_open, strangers)) <= 64
        assert [ids_of(table) for table in fastpack.connect(guarded.address)] == steps_of(given, 1)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 100 << 10, "kilobytes"


@pytest.mark.parametrize("said", [b"", PREFACE[:3], PREFACE + SETTINGS], ids=["", "begun", "greeted"])
def test_who_says_the_secret_slowly_is_sent_away(
    said: bytes, guarded: StreamServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "_PATIENCE", 1.0)
    with dialled(guarded) as stranger, paced() as machine:
        stranger.sendall(said)
        since = time.monotonic()
        with contextlib.suppress(OSError):
            while not select_readable(stranger):
                stranger.sendall(b"a")
            while stranger.recv(1 << 16):
                pass
        took = time.monotonic() - since
    assert took < 10 * machine.slowness
    until = time.monotonic() + 10
    while (
        any(thread.name == "fastpack-rank" for thread in threading.enumerate()) and time.monotonic() < until
    ):
        time.sleep(0.05)
    assert not any(thread.name == "fastpack-rank" for thread in threading.enumerate())


def test_who_has_said_the_secret_is_never_sent_away(
    guarded: StreamServer, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "_PATIENCE", 0.2)
    monkeypatch.setattr(service, "_LOOK", 0.05)
    with fastpack.connect(guarded.address) as connection:
        found = [ids_of(next(connection))]
        time.sleep(1)
        assert [*found, *map(ids_of, connection)] == steps_of(given, 1)


def select_readable(peer: socket.socket) -> bool:
    """True if something arrives within half a second."""
    peer.settimeout(0.5)
    try:
        return peer.recv(1, socket.MSG_PEEK) is not None
    except TimeoutError:
        return False
    finally:
        peer.settimeout(60)


@pytest.mark.parametrize(
    "answer", [None, b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", SETTINGS, SETTINGS + b"\xff" * 64]
)
def test_what_speaks_no_flight_is_an_error_of_ours(
    answer: bytes | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A foreign program answers at the address, or does not."""
    monkeypatch.setattr(connecting, "_PATIENCE", 1.0)
    (folder / "s").mkdir()
    with socket.socket(socket.AF_UNIX) as listening, contextlib.ExitStack() as opened:
        listening.bind(str(folder / "s" / "socket"))
        listening.listen()
        listening.settimeout(0.1)
        is_over = threading.Event()

        def serve() -> None:
            while not is_over.is_set():
                with contextlib.suppress(OSError):
                    peer, _ = listening.accept()
                    opened.enter_context(peer)
                    if answer is not None:
                        peer.sendall(answer)
                        if answer != SETTINGS:
                            peer.shutdown(socket.SHUT_WR)

        thread = threading.Thread(target=serve)
        thread.start()
        with paced() as machine:
            since = time.monotonic()
            with pytest.raises(fastpack.ConnectionLostError, match="no stream is served at") as caught:
                next(fastpack.connect(f"unix:{folder}/s"))
            took = time.monotonic() - since
        assert took < 5 * machine.slowness
        assert f"unix:{folder}/s" in str(caught.value)
        assert len(str(caught.value)) < 500
        is_over.set()
        thread.join()


BATCH = pa.record_batch({"input_ids": [[1, 2]]})
PULSE = b'["pulse"]'
WELCOME = b'["welcome", "c", [0, null]]'


@pytest.mark.parametrize(
    "answers",
    [
        [],
        [b"\xff"],
        [b"3"],
        [b"[" * 100_000],
        [WELCOME],
        [PULSE, b'["nothing"]'],
        [PULSE, b'["welcome", "c"]'],
        [PULSE, b'["welcome", "c", [-1, null]]'],
        [PULSE, b'["welcome", "c", [true, null]]'],
        [PULSE, b'["error", 3]'],
        [PULSE, b'["error", "Exit", ["' + b"x" * 100_000 + b'"]]'],
        [PULSE, b'["error", "RecordError", []]'],
        [PULSE, WELCOME, b'["table", "c", 1, []]\n.'],
        [PULSE, WELCOME, BATCH, b'["table", "c", 1, []]\n.'],
        [PULSE, WELCOME, BATCH, b'["table", "c", 1, [["a"]]]\n.'],
        [PULSE, WELCOME, BATCH, b'["table", "c", 1, [["a", "b"]]]\n.'],
        [PULSE, WELCOME, BATCH, b'["table", "c", 1, [[3, 1]]]\n.'],
        [PULSE, WELCOME, BATCH, b'["table", "c", 1, [["fastpack_state", 1]]]\n\xff'],
        [PULSE, WELCOME, BATCH, b'["table", "c", 2, []]\n.'],
        [PULSE, WELCOME, BATCH, b'["table", "c", 1]'],
        None,
    ],
    ids=lambda answers: ascii(answers)[:60],
)
def test_what_no_server_sends_is_an_error_of_ours(answers: list[Any] | None, folder: Path) -> None:
    """A foreign server of Flight answers at the address."""

    class Foreign(flight.FlightServerBase):
        def do_exchange(self, _: Any, __: Any, reader: Any, writer: Any) -> None:
            if answers is None:
                raise NotImplementedError
            writer.begin(BATCH.schema)
            for answer in answers:
                if isinstance(answer, bytes):
                    writer.write_metadata(answer)
                else:
                    writer.write_batch(answer)
            with contextlib.suppress(StopIteration):
                while answers:
                    reader.read_chunk()

    (folder / "s").mkdir()
    with Foreign(f"grpc+unix://{folder}/s/socket"):
        connection = fastpack.connect(f"unix:{folder}/s")
        with pytest.raises(fastpack.FastpackError) as caught:
            next(connection)
        assert len(str(caught.value)) < 1_500
        connection.close()


class Stopped(BaseException):
    """As Ctrl-C."""


def interrupted(connection: fastpack.StreamConnection, line: int) -> Any:
    """The next table, where the given line of all that run within it raises; `None` if it does."""
    left = line

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if "/fastpack/streaming/" not in frame.f_code.co_filename or frame.f_code.co_name.endswith("hang_up"):
            return None
        # A signal is not seen between the end of a `with` block and its `__exit__`; a trace is.
        code = linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip()
        if event == "line" and not code.startswith("with "):
            left -= 1
            if left == 0:
                raise Stopped
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return next(connection)
    except Stopped:
        return None
    finally:
        sys.settrace(before)


def test_a_rank_that_is_interrupted_anywhere_goes_on_with_the_next_table(
    given: dict[str, Any], folder: Path
) -> None:
    address, found, line = f"unix:{folder}/s", 0, 0
    with (
        StreamServer(given | {"epochs": None}, address, state=str(folder / "place.json")),
        fastpack.connect(address) as connection,
    ):
        while True:
            line += 1
            table = interrupted(connection, line)
            if table is None:
                assert connection.step == found
                table = next(connection)
                found += 1
                assert fastpack.state_of(table)["step"] == found
                continue
            found += 1
            assert fastpack.state_of(table)["step"] == found
            if line > 10:
                break
    assert line > 20


# Over TLS.


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files of certificates that vouch for themselves, for this machine and for another, and of their keys."""
    folder = tmp_path_factory.mktemp("certificates")
    for name, host in (("this", "IP:127.0.0.1"), ("other", "DNS:elsewhere.example")):
        command = [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
        ]
        command += ["-days", "2", "-subj", f"/CN={name}", "-addext", f"subjectAltName={host}"]
        command += ["-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.pem")]
        subprocess.run(command, check=True, capture_output=True)
    return {path.name: str(path) for path in folder.iterdir()}


def test_tables_come_over_tls(
    given: dict[str, Any], certificates: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTPACK_STREAM_TOKEN", "a secret \u00fc")
    pair = {"certificate": certificates["this.pem"], "key": certificates["this.key"]}
    with StreamServer(given, "tls://127.0.0.1:0", **pair) as server:
        assert server.address.startswith("tls://127.0.0.1:")
        trusted = fastpack.connect(server.address, certificate=certificates["this.pem"])
        assert [ids_of(table) for table in trusted] == steps_of(given, 1)
        trusted.close()
        plain = server.address.replace("tls", "tcp")
        for address, vouching in ((server.address, "other.pem"), (server.address, None), (plain, None)):
            file = None if vouching is None else certificates[vouching]
            with pytest.raises(fastpack.ConnectionLostError, match="no stream is served at") as caught:
                next(fastpack.connect(address, certificate=file))
            assert address in str(caught.value)
            assert len(str(caught.value)) < 500
        monkeypatch.setenv("FASTPACK_STREAM_TOKEN", "another")
        with pytest.raises(fastpack.FastpackError, match="is not that of the server") as caught:
            next(fastpack.connect(server.address, certificate=certificates["this.pem"]))
        assert "secret \u00fc" not in repr(caught.value)


@pytest.mark.parametrize(
    ("to", "certificate", "key", "option", "said"),
    [
        ("tls://127.0.0.1:0", None, None, "certificate", "must be given"),
        ("tls://127.0.0.1:0", "this.pem", None, "key", "must be given"),
        ("tls://127.0.0.1:0", "this.pem", "other.key", "certificate", "goes with `key`"),
        ("tls://127.0.0.1:0", "this.key", "this.key", "certificate", "holds no certificate"),
        ("tcp://127.0.0.1:0", "this.pem", "this.key", "certificate", "goes with an address of tls"),
        ("unix:{folder}/s", "this.pem", "this.key", "certificate", "goes with an address of tls"),
        ("tcp://0.0.0.0:0", None, None, "to", "leaves this machine unencrypted"),
        ("tcp://host.example:80", None, None, "to", "leaves this machine unencrypted"),
    ],
)
def test_what_makes_no_encrypted_server_is_refused_by_name(
    to: str,
    certificate: str | None,
    key: str | None,
    option: str,
    said: str,
    given: dict[str, Any],
    folder: Path,
    certificates: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FASTPACK_STREAM_TOKEN", "a secret")
    files = {"certificate": certificate, "key": key}
    named = {name: certificates[file] for name, file in files.items() if file is not None}
    with pytest.raises(fastpack.OptionError, match=said) as caught:
        StreamServer(given, to.format(folder=folder), **named)
    assert caught.value.option == place(option)
    assert list(folder.iterdir()) == []


def test_a_port_in_use_is_refused_as_the_system_says_it(guarded: StreamServer, given: dict[str, Any]) -> None:
    with pytest.raises(fastpack.StorageError, match="in use") as caught:
        StreamServer(given, guarded.address)
    assert caught.value.filename == guarded.address


# A client that does not answer, and one that is interrupted.

WAITING = """
import sys, time
import fastpack
connection = fastpack.connect(sys.argv[1], rank=0, world_size=2)
next(connection)
print("took", flush=True)
{then}
"""


def client(address: str, then: str) -> subprocess.Popen[str]:
    """A process that takes a table, and does something then."""
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING.format(then=then), address],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "took\n"
    return process


@pytest.mark.parametrize(
    "then", ["", "sys.exit(0)", "connection.close()", "connection.close(); next(connection, None)"]
)
def test_a_process_ends_quickly_and_quietly_whatever_it_leaves_open(
    then: str, given: dict[str, Any], folder: Path
) -> None:
    with StreamServer(given | {"epochs": None}, f"unix:{folder}/s") as server:
        process = client(server.address, then)
        with paced() as machine:
            since = time.monotonic()
            assert process.communicate(timeout=60) == ("", "")
            assert process.returncode == 0
            took = time.monotonic() - since
        assert took < 5 * machine.slowness


def interrupt(process: subprocess.Popen[str]) -> tuple[tuple[str, str], float]:
    """Interrupts a process. Returns all that it says, and the seconds until its end, on a machine that does nothing else."""
    with paced() as machine:
        since = time.monotonic()
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)
        took = time.monotonic() - since
    return said, took / machine.slowness


@pytest.mark.alone
def test_ctrl_c_is_heard_within_half_a_second_where_no_table_comes(
    given: dict[str, Any], folder: Path
) -> None:
    """The server is stopped, so that it answers nothing."""
    command = [sys.executable, "-c", SERVING.format(given=given), f"unix:{folder}/s"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        server.stdout.readline()
        process = client(f"unix:{folder}/s", HEARD)
        server.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        said, seconds = interrupt(process)
        assert said == ("interrupted\n", "")
        assert seconds < 0.5
        server.kill()


SERVING = """
import sys, time
from fastpack import BestFit, Ranks
from fastpack.streaming.server import StreamServer
from pathlib import PosixPath
with StreamServer({given!r} | {{"epochs": None}}, sys.argv[1]) as server:
    print("serving", flush=True)
    try:
        server.wait()
    except KeyboardInterrupt:
        pass
"""

HEARD = """
try:
    while True:
        next(connection)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.alone
@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_server_ends_within_half_a_second_of_ctrl_c_and_leaves_nothing(
    is_stopped: bool, given: dict[str, Any], folder: Path
) -> None:
    """Its client takes nothing, or is stopped and answers nothing."""
    command = [sys.executable, "-c", SERVING.format(given=given), f"unix:{folder}/s"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        server.stdout.readline()
        process = client(f"unix:{folder}/s", "time.sleep(1000)")
        if is_stopped:
            process.send_signal(signal.SIGSTOP)
        said, seconds = interrupt(server)
        assert said == ("", "")
        assert seconds < 0.5
        assert server.returncode == 0
        assert list(folder.iterdir()) == []
        process.kill()
        process.communicate()


def test_importing_fastpack_loads_no_flight() -> None:
    code = "import sys, fastpack; fastpack.connect; print([name for name in sys.modules if 'flight' in name])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
