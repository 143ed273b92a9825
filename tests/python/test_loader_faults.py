"""The loader process where something dies, is in the way, or is not what it should be."""

from __future__ import annotations

import contextlib
import json
import linecache
import os
import random
import resource
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from campaign import tries
from conftest import sentence

import fastpack
from fastpack.api import connection as connecting
from fastpack.api import serving
from fastpack.api.loader.place import PlaceFile
from fastpack.api.serving import StreamServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

pytestmark = [pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets"), pytest.mark.campaign]

OPTIONS: dict[str, Any] = {"max_length": 64, "batch_size": 2, "lanes": 12, "open_packs": 4}


@pytest.fixture
def texts(write_jsonl: Callable[..., Path]) -> Path:
    return write_jsonl([{"text": f"{number} {sentence(number, 3 + number % 50)}"} for number in range(300)])


@pytest.fixture
def given(texts: Path, tokenizer_dir: Path) -> dict[str, Any]:
    return fastpack.stream(texts, tokenizer_dir, **OPTIONS).arguments()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="fp-") as made:
        yield Path(made)


def ids_of(table: Any) -> list[list[int]]:
    return table["input_ids"].to_pylist()  # type: ignore[no-any-return]


def steps_of(given: dict[str, Any], world: int) -> list[list[list[int]]]:
    """The rows of each step of all ranks together: those of one rank with a greater batch."""
    with fastpack.stream(**given | {"batch_size": given["batch_size"] * world}) as whole:
        return [ids_of(table) for table in whole]


def taken(address: str, world: int, count: int) -> list[list[list[int]]]:
    """The rows of the next steps of all ranks."""
    with contextlib.ExitStack() as opened:
        ranks = [
            opened.enter_context(fastpack.connect(address, rank=rank, world_size=world))
            for rank in range(world)
        ]
        return [[row for rank in ranks for row in ids_of(next(rank))] for _ in range(count)]


# What dies.


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize(("before", "after"), [(2, 1), (2, 3), (3, 2), (1, 4)])
def test_ranks_in_another_number_go_on_behind_the_last_table_that_all_took(
    before: int, after: int, is_restarted: bool, given: dict[str, Any], folder: Path
) -> None:
    given |= {"epochs": None, "batch_size": 1}
    file, address = folder / "place.json", f"unix:{folder}/s"
    rows = before * 3 + after * 2
    with fastpack.stream(**given) as whole:
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
    command += ["-m", "64", "--batch-size", "2", "--lanes", "12", "--open-packs", "4"]
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


def test_a_state_counts_only_tables_that_were_returned(
    given: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server dies before it is told of a table, which the client has got in whole; or the client's `next` is interrupted."""
    address = f"unix:{folder}/s"
    expected = steps_of(given, 1)
    real = connecting.send
    for failure in (BrokenPipeError(), KeyboardInterrupt()):
        found, failing = [], [True]

        def send(
            peer: socket.socket,
            letter: bytes,
            content: bytes = b"",
            failing: list[bool] = failing,
            failure: BaseException = failure,
        ) -> None:
            if letter == b"A" and failing and connection.step % 3 == 2:
                failing.clear()
                raise failure
            if letter == b"A":
                failing.append(True)
            real(peer, letter, content)

        monkeypatch.setattr(connecting, "send", send)
        with StreamServer(given, address), fastpack.connect(address) as connection:
            while True:
                try:
                    found.append(ids_of(next(connection)))
                except StopIteration:
                    break
                except KeyboardInterrupt:
                    pass
                assert connection.state_dict()["step"] == len(found)
        assert found == expected


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
    given = fastpack.stream(path, tokenizer_dir, **OPTIONS | {"shuffle": False, "lanes": 1}).arguments()
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
        folder / name: name.encode()
        for name in ("place.json.new", ".place.json.0011aabb.new", "place.json~", "s.lock2")
    }
    for path, content in planted.items():
        path.write_bytes(content)
    with StreamServer(given, f"unix:{folder}/s", state=str(folder / "place.json")) as server:
        taken(server.address, 1, 3)
    assert {path: path.read_bytes() for path in planted} == planted
    assert set(folder.iterdir()) == {*planted, folder / "place.json"}


# The socket.


@pytest.mark.parametrize(
    "kind", ["stale", "datagram", "listening", "file", "folder", "pipe", "link", "dangling"]
)
@pytest.mark.parametrize("name", ["s", "s.lock"])
def test_what_others_left_at_the_place_of_the_socket_stays(
    kind: str, name: str, given: dict[str, Any], folder: Path
) -> None:
    path = folder / name
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
            (folder / "target").write_text("mine", encoding="utf-8") if kind == "link" else None
            path.symlink_to(folder / "target")
        before = os.lstat(path)
        with pytest.raises(fastpack.FastpackError, match="in the way") as caught:
            StreamServer(given, f"unix:{folder}/s")
        assert str(path) in str(caught.value)
        after = os.lstat(path)
        assert (before.st_ino, before.st_mtime_ns, before.st_mode) == (
            after.st_ino,
            after.st_mtime_ns,
            after.st_mode,
        )
        assert {each.name for each in folder.iterdir()} <= {name, "target"}


def test_a_socket_that_took_the_place_of_the_server_s_own_stays(given: dict[str, Any], folder: Path) -> None:
    path = folder / "s"
    with StreamServer(given, f"unix:{path}"), socket.socket(socket.AF_UNIX) as other:
        path.unlink()
        other.bind(str(path))
    assert path.is_socket()


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


@pytest.mark.parametrize("letter", [b"H", b"K"])
def test_strangers_take_no_memory_and_keep_nobody_out(
    letter: bytes, guarded: StreamServer, given: dict[str, Any]
) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with contextlib.ExitStack() as opened:
        for _ in range(tries(80, 400)):
            stranger = opened.enter_context(dialled(guarded))
            with contextlib.suppress(OSError):
                stranger.sendall(letter + (64 << 20).to_bytes(8, "big"))
                stranger.sendall(b"\0" * (1 << 16))
        assert len(guarded._strangers) <= 64
        assert [ids_of(table) for table in fastpack.connect(guarded.address)] == steps_of(given, 1)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 100 << 10, "kilobytes"


@pytest.mark.parametrize("said", [b"", b"K", b"K" + (9).to_bytes(8, "big")])
def test_who_says_the_secret_slowly_is_sent_away(
    said: bytes, guarded: StreamServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "_PATIENCE", 1.0)
    with dialled(guarded) as stranger:
        stranger.sendall(said)
        since = time.monotonic()
        with contextlib.suppress(OSError):
            while not select_readable(stranger):
                stranger.sendall(b"a")
            while stranger.recv(1 << 16):
                pass
        assert time.monotonic() - since < 10
    until = time.monotonic() + 10
    while (
        any(thread.name == "fastpack-rank" for thread in threading.enumerate()) and time.monotonic() < until
    ):
        time.sleep(0.05)
    assert not any(thread.name == "fastpack-rank" for thread in threading.enumerate())


def select_readable(peer: socket.socket) -> bool:
    """Whether something arrives within half a second."""
    peer.settimeout(0.5)
    try:
        return peer.recv(1, socket.MSG_PEEK) is not None
    except TimeoutError:
        return False
    finally:
        peer.settimeout(60)


def test_what_no_server_sends_is_an_error_of_ours(folder: Path) -> None:
    """A foreign program answers at the address."""
    welcome = json.dumps({"connection": "c", "place": [0, None]}).encode()
    answers = [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"K" + bytes(8),
        b"K" + bytes(8) + b"T" + (1 << 39).to_bytes(8, "big") + bytes(64),
        b"K" + bytes(8) + b"E" + (4).to_bytes(8, "big") + b"null",
        b"E" + (6).to_bytes(8, "big") + b"[" * 6,
        b"K" + bytes(8) + b"W" + (2).to_bytes(8, "big") + b"{}",
        b"K"
        + bytes(8)
        + b"W"
        + len(welcome).to_bytes(8, "big")
        + welcome
        + b"T"
        + (40).to_bytes(8, "big")
        + (1).to_bytes(8, "big")
        + bytes(32),
        b"K"
        + bytes(8)
        + b"W"
        + len(welcome).to_bytes(8, "big")
        + welcome
        + b"T"
        + (1 << 39).to_bytes(8, "big")
        + (1).to_bytes(8, "big")
        + bytes(32),
    ]
    for answer in answers:
        path = folder / "s"
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(path))
            listening.listen()

            def serve(listening: socket.socket = listening, answer: bytes = answer) -> None:
                peer, _ = listening.accept()
                with peer, contextlib.suppress(OSError):
                    peer.sendall(answer)
                    peer.shutdown(socket.SHUT_WR)
                    while peer.recv(1 << 16):
                        pass

            thread = threading.Thread(target=serve, daemon=True)
            thread.start()
            with pytest.raises(fastpack.FastpackError) as caught:
                next(fastpack.connect(f"unix:{path}"))
            assert len(str(caught.value)) < 500
            thread.join(10)
        path.unlink()


class Stopped(BaseException):
    """As Ctrl-C."""


def interrupted(connection: fastpack.StreamConnection, line: int) -> Any:
    """The next table, where the given line of all that run within it raises; `None` if it does."""
    left = line

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if "/fastpack/api/" not in frame.f_code.co_filename or frame.f_code.co_name == "_hang_up":
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
