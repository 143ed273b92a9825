"""A stream in one process, and the training run in others."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from campaign import tries
from conftest import sentence
from nested import flat

import fastpack
from fastpack.streaming import server as serving
from fastpack.streaming.connection import StreamConnection
from fastpack.streaming.server import StreamServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets")

OPTIONS: dict[str, Any] = {
    "max_length": 64,
    "batch_size": 2,
    "lanes": 12,
    "strategy": fastpack.BestFit(open_rows=4),
}
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""The beginning of HTTP/2, of which gRPC is made."""

FLAGS = [
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


@pytest.fixture
def texts(write_jsonl: Callable[..., Path]) -> Path:
    return write_jsonl([{"text": f"{number} {sentence(number, 3 + number % 50)}"} for number in range(300)])


@pytest.fixture
def rows(texts: Path, tokenizer_dir: Path) -> list[list[list[int]]]:
    """The rows of each table of a stream in this process."""
    return [ids_of(table) for table in flat.stream(texts, tokenizer_dir, **OPTIONS)]


def ids_of(table: pa.Table) -> list[list[int]]:
    return table["input_ids"].to_pylist()  # type: ignore[no-any-return]


def arguments(texts: Path, tokenizer_dir: Path, **more: Any) -> dict[str, Any]:
    return flat.stream(texts, tokenizer_dir, **OPTIONS, **more).arguments()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[str]:
    """The address of a socket, whose path must be short."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="fp-") as folder:
        yield f"unix:{folder}/s"


def test_tables_come_through_a_socket_with_their_states(
    texts: Path, tokenizer_dir: Path, place: str, rows: list[Any]
) -> None:
    local = list(flat.stream(texts, tokenizer_dir, **OPTIONS))
    with StreamServer(arguments(texts, tokenizer_dir), place) as server:
        assert stat.S_IMODE(Path(place.removeprefix("unix:")).stat().st_mode) == 0o700
        with fastpack.connect(server.address) as connection:
            found = list(connection)
        server.wait()
    assert [ids_of(table) for table in found] == rows
    assert [fastpack.state_of(table) for table in found] == [fastpack.state_of(table) for table in local]
    assert connection.step == len(rows)
    assert connection.state_dict() == fastpack.state_of(local[-1])
    assert not Path(place.removeprefix("unix:")).exists()


def test_who_connects_again_goes_on_behind_the_last_table_that_it_took(
    texts: Path, tokenizer_dir: Path, place: str, rows: list[Any]
) -> None:
    found = []
    with StreamServer(arguments(texts, tokenizer_dir), place):
        for count in (1, 5, 2, len(rows)):
            with fastpack.connect(place) as connection:
                found += [ids_of(table) for _, table in zip(range(count), connection, strict=False)]
    assert found == rows


def test_who_brings_a_state_goes_on_from_there(
    texts: Path, tokenizer_dir: Path, place: str, rows: list[Any]
) -> None:
    local = list(flat.stream(texts, tokenizer_dir, **OPTIONS))
    with (
        StreamServer(arguments(texts, tokenizer_dir), place),
        fastpack.connect(place, state_dict=fastpack.state_of(local[6])) as connection,
    ):
        assert ids_of(next(connection)) == rows[7]
        connection.load_state_dict(fastpack.state_of(local[2]))
        assert ids_of(next(connection)) == rows[3]


@pytest.mark.parametrize("state", [None, {}, [], {"version": 1}, {"blake3": "0"}, {1, 2}, "{}", 0], ids=str)
def test_what_is_no_state_is_refused_and_the_connection_goes_on(
    state: Any, texts: Path, tokenizer_dir: Path, place: str, rows: list[Any]
) -> None:
    with StreamServer(arguments(texts, tokenizer_dir), place), fastpack.connect(place) as connection:
        assert ids_of(next(connection)) == rows[0]
        with pytest.raises(fastpack.OptionError, match=r"`state`: .*`state_dict\(\)`"):
            connection.load_state_dict(state)
        assert ids_of(next(connection)) == rows[1]
    if state is not None:
        with pytest.raises(fastpack.OptionError, match=r"`state`: .*`state_dict\(\)`"):
            fastpack.connect(place, state_dict=state)


def json_value(chance: random.Random, depth: int = 0) -> Any:
    """Any value of JSON, with names that a state has."""
    kind = chance.randrange(5 if depth > 2 else 7)
    if kind < 5:
        return chance.choice([None, True, False, 0, 1, -1, 2**63, 0.5, "", "blake3", "0" * 64, [], {}])
    inner = [json_value(chance, depth + 1) for _ in range(chance.randrange(4))]
    if kind == 5:
        return inner
    names = ["version", "blake3", "step", "counts", "lanes", "rank", "stream", "x"]
    return dict(zip(chance.sample(names, len(inner)), inner, strict=True))


def edited(state: Any, chance: random.Random) -> Any:
    """A state of which one value, anywhere in it, is another or is gone."""
    changed = place = json.loads(json.dumps(state))
    while True:
        name = chance.choice(sorted(place) if isinstance(place, dict) else range(len(place)))
        if not isinstance(place[name], (dict, list)) or not place[name] or chance.random() < 0.2:
            break
        place = place[name]
    before = json.dumps(place[name])
    if chance.random() < 0.3:
        del place[name]
    else:
        values = iter(lambda: json_value(chance), object())
        place[name] = next(value for value in values if json.dumps(value) != before)
    return changed


def test_no_value_of_json_but_a_state_is_taken_by_a_connection(
    texts: Path, tokenizer_dir: Path, place: str, rows: list[Any]
) -> None:
    chance = random.Random(0 if tries(1, 2) == 1 else None)
    with StreamServer(arguments(texts, tokenizer_dir), place), fastpack.connect(place) as connection:
        assert ids_of(next(connection)) == rows[0]
        whole = connection.state_dict()
        for _ in range(tries(200, 20_000)):
            state = edited(whole, chance) if chance.random() < 0.5 else json_value(chance)
            with pytest.raises(fastpack.OptionError, match="`state`"):
                connection.load_state_dict(state)
        assert ids_of(next(connection)) == rows[1]
        assert connection.state_dict() != whole
        connection.load_state_dict(whole)
        assert ids_of(next(connection)) == rows[1]


def test_ranks_have_a_connection_each_and_the_file_what_all_took(
    texts: Path, tokenizer_dir: Path, place: str, tmp_path: Path, rows: list[Any]
) -> None:
    file = tmp_path / "place.json"
    given = arguments(texts, tokenizer_dir, epochs=None, max_steps=8)
    single = arguments(texts, tokenizer_dir, epochs=None)
    single["batch_size"] = 4
    whole = flat.stream(**single)
    expected = [ids_of(next(whole)) for _ in range(9)]
    whole.close()
    with StreamServer(given, place, state=str(file)) as server:
        ranks = [fastpack.connect(place, rank=rank, world_size=2) for rank in range(2)]
        found: list[list[Any]] = [[], []]

        def take(rank: int) -> None:
            found[rank] = [ids_of(table) for table in ranks[rank]]

        threads = [threading.Thread(target=take, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        server.wait()
    assert [first + second for first, second in zip(*found, strict=True)] == expected[:8]
    state = json.loads(file.read_text(encoding="utf-8"))
    assert (state["step"], len(state["lane"])) == (8, 12)
    with flat.stream(**single) as alone:
        alone.load_state_dict(state)
        assert ids_of(next(alone)) == expected[8]


def test_a_rank_that_is_behind_holds_the_file_back(
    texts: Path, tokenizer_dir: Path, place: str, tmp_path: Path
) -> None:
    file = tmp_path / "place.json"
    with StreamServer(arguments(texts, tokenizer_dir, epochs=None), place, state=str(file)):
        ranks = [fastpack.connect(place, rank=rank, world_size=2) for rank in range(2)]
        for _ in range(3):
            next(ranks[0])
        assert not file.exists()
        next(ranks[1])
        until = time.monotonic() + 10
        while not file.exists() and time.monotonic() < until:
            time.sleep(0.01)
        assert json.loads(file.read_text(encoding="utf-8"))["step"] == 1
        for rank in ranks:
            rank.close()


def test_a_client_that_takes_nothing_holds_the_server_back(
    texts: Path, tokenizer_dir: Path, place: str
) -> None:
    with StreamServer(arguments(texts, tokenizer_dir, epochs=None), place) as server:
        connection = fastpack.connect(place)
        next(connection)
        time.sleep(0.5)
        (rank,) = server._protocol._ranks.values()
        assert set(rank.taken) <= {0, 1}
        for step in range(2, 30):
            next(connection)
            assert connection.step == step
        connection.close()


def test_errors_of_the_data_reach_the_client_with_their_type(
    write_jsonl: Callable[..., Path], tokenizer_dir: Path, place: str
) -> None:
    path = write_jsonl([{"text": "a river"}, b"{"])
    with StreamServer(arguments(path, tokenizer_dir, shuffle=False), place):
        with pytest.raises(fastpack.RecordError) as caught:
            list(fastpack.connect(place))
        assert (caught.value.path, caught.value.line) == (str(path), 2)


def test_a_state_of_another_run_is_refused_at_the_first_table(
    texts: Path, tokenizer_dir: Path, place: str
) -> None:
    state = fastpack.state_of(next(flat.stream(texts, tokenizer_dir, **OPTIONS, seed=7)))
    with (
        StreamServer(arguments(texts, tokenizer_dir), place),
        pytest.raises(fastpack.OptionError, match="`seed`"),
    ):
        next(fastpack.connect(place, state_dict=state))


def test_a_server_that_goes_raises_in_the_client(texts: Path, tokenizer_dir: Path, place: str) -> None:
    server = StreamServer(arguments(texts, tokenizer_dir, epochs=None), place)
    connection = fastpack.connect(place)
    next(connection)
    server.close()
    with pytest.raises(fastpack.ConnectionLostError, match="was lost after table"):
        for _ in connection:
            pass
    with pytest.raises(fastpack.ConnectionLostError, match="no stream is served"):
        fastpack.connect(place)


def test_tcp_needs_the_secret(
    texts: Path, tokenizer_dir: Path, monkeypatch: pytest.MonkeyPatch, rows: list[Any]
) -> None:
    given = arguments(texts, tokenizer_dir)
    monkeypatch.delenv("FASTPACK_STREAM_TOKEN", raising=False)
    with pytest.raises(fastpack.OptionError, match="needs a secret"):
        StreamServer(given, "tcp://127.0.0.1:0")
    monkeypatch.setenv("FASTPACK_STREAM_TOKEN", "a secret")
    with StreamServer(given, "tcp://127.0.0.1:0") as server:
        monkeypatch.setenv("FASTPACK_STREAM_TOKEN", "another")
        with pytest.raises(fastpack.FastpackError, match="is not that of the server"):
            next(fastpack.connect(server.address))
        monkeypatch.setenv("FASTPACK_STREAM_TOKEN", "a secret")
        assert [ids_of(table) for table in fastpack.connect(server.address)] == rows


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", PREFACE, b"", PREFACE + b"\xff" * 64])
def test_other_talk_ends_that_connection_only(
    said: bytes, texts: Path, tokenizer_dir: Path, place: str, rows: list[Any]
) -> None:
    with StreamServer(arguments(texts, tokenizer_dir), place):
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(f"{place.removeprefix('unix:')}/socket")
            peer.sendall(said)
            peer.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionError):
                while peer.recv(1 << 16):
                    pass
        assert [ids_of(table) for table in fastpack.connect(place)] == rows


@pytest.mark.parametrize(
    "address",
    [
        "",
        "unix:",
        "tcp://",
        "tcp://here",
        "tcp://here:99999",
        "http://x:1",
        3,
        "x",
        "unix:\ud800",
        "tcp://a..b:1",
        "tcp://\ud800:1",
        "tcp://h:\u0663",
    ],
    ids=ascii,
)
def test_what_is_no_address_is_refused(address: Any, texts: Path, tokenizer_dir: Path) -> None:
    with pytest.raises(fastpack.OptionError, match="unix:PATH or tcp://HOST:PORT"):
        fastpack.connect(address)
    with pytest.raises(fastpack.OptionError, match="unix:PATH or tcp://HOST:PORT"):
        StreamServer(arguments(texts, tokenizer_dir), address)


def leave_behind(texts: Path, tokenizer_dir: Path, place: str) -> None:
    """Leaves the socket of a server that was killed."""
    with subprocess.Popen(command(texts, tokenizer_dir, "--to", place), stderr=subprocess.PIPE) as server:
        assert server.stderr is not None
        assert b"serving" in server.stderr.readline()
        server.kill()
    assert Path(f"{place.removeprefix('unix:')}/socket").is_socket()


def test_a_socket_in_use_is_refused_and_a_stale_one_taken(
    texts: Path, tokenizer_dir: Path, place: str
) -> None:
    given = arguments(texts, tokenizer_dir)
    path = place.removeprefix("unix:")
    with StreamServer(given, place), pytest.raises(fastpack.OutputError, match="listens already"):
        StreamServer(given, place)
    leave_behind(texts, tokenizer_dir, place)
    with StreamServer(given, place):
        pass
    assert list(Path(path).parent.iterdir()) == []
    Path(path).write_text("mine", encoding="utf-8")
    with pytest.raises(fastpack.OutputError, match="in the way"):
        StreamServer(given, place)


def test_one_connection_a_rank_and_one_number_of_ranks(
    texts: Path, tokenizer_dir: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "_PATIENCE", 0.3)
    with StreamServer(arguments(texts, tokenizer_dir, epochs=None), place):
        first = fastpack.connect(place, rank=0, world_size=2)
        next(first)
        with pytest.raises(fastpack.OptionError, match="has a connection already"):
            next(fastpack.connect(place, rank=0, world_size=2))
        with pytest.raises(fastpack.OptionError, match="other ranks said 2"):
            next(fastpack.connect(place, rank=0, world_size=3))
        with pytest.raises(fastpack.OptionError, match="count from 0"):
            next(fastpack.connect(place, rank=5, world_size=2))
        next(first)
        with pytest.raises(fastpack.OptionError, match="other ranks are dealt whole tables"):
            next(StreamConnection(place, rank=1, world_size=2, by_row=True))
        first.close()
        by_row = StreamConnection(place, rank=0, world_size=2, by_row=True)
        next(by_row)
        with pytest.raises(fastpack.OptionError, match="other ranks are dealt single rows"):
            next(fastpack.connect(place, rank=1, world_size=2))
        by_row.close()


# The command line.

TRAINER = """
import fastpack, json, sys
out, most = sys.argv[1], int(sys.argv[2])
with fastpack.connect() as stream, open(out, "a") as file:
    for number, table in zip(range(most), stream):
        file.write(json.dumps(table["input_ids"].to_pylist()) + "\\n")
        file.flush()
sys.exit(7)
"""


def command(texts: Path, tokenizer_dir: Path, *more: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "fastpack",
        "stream",
        str(texts),
        "-t",
        str(tokenizer_dir),
        *FLAGS,
        *more,
    ]


def lines_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_trainer_is_started_and_goes_on_when_it_is_started_again(
    texts: Path, tokenizer_dir: Path, tmp_path: Path, rows: list[Any]
) -> None:
    state, out = tmp_path / "place.json", tmp_path / "rows.jsonl"
    for _ in range(2):
        trainer = [sys.executable, "-c", TRAINER, str(out), "4"]
        done = subprocess.run(
            [*command(texts, tokenizer_dir, "--state", str(state)), "--", *trainer],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert (done.returncode, done.stderr) == (7, "")
    assert lines_of(out) == rows[:8]


def test_plain_arrow_goes_to_standard_output(texts: Path, tokenizer_dir: Path, rows: list[Any]) -> None:
    done = subprocess.run(
        command(texts, tokenizer_dir, "--to", "-"), capture_output=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    table = pa.ipc.open_stream(done.stdout).read_all()
    assert ids_of(table) == [row for table in rows for row in table]
    assert table.schema.metadata is None


@pytest.mark.parametrize("killed", ["server", "trainer", "both"])
def test_a_killed_run_goes_on_with_the_next_table(
    killed: str, texts: Path, tokenizer_dir: Path, tmp_path: Path, place: str, rows: list[Any]
) -> None:
    state, out = tmp_path / "place.json", tmp_path / "rows.jsonl"
    serve = command(texts, tokenizer_dir, "--to", place, "--state", str(state))
    train = [sys.executable, "-c", TRAINER, str(out)]
    environment = os.environ | {"FASTPACK_STREAM": place}

    def start_server() -> subprocess.Popen[bytes]:
        process = subprocess.Popen(serve)
        until = time.monotonic() + 30
        while time.monotonic() < until:
            with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):
                probe.connect(f"{place.removeprefix('unix:')}/socket")
                return process
            time.sleep(0.05)
        raise AssertionError

    server = start_server()
    subprocess.run([*train, "5"], env=environment, check=False, timeout=120)
    until = time.monotonic() + 20
    while time.monotonic() < until and not (
        state.exists() and json.loads(state.read_text(encoding="utf-8"))["step"] == 5
    ):
        time.sleep(0.02)
    if killed in ("trainer", "both"):
        trainer = subprocess.Popen([*train, "0"], env=environment)
        trainer.send_signal(signal.SIGKILL)
        trainer.wait()
    if killed in ("server", "both"):
        server.send_signal(signal.SIGKILL)
        server.wait()
        server = start_server()
    time.sleep(0.3)
    subprocess.run([*train, "1000"], env=environment, check=False, timeout=120)
    server.wait(60)
    assert lines_of(out) == rows


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "`--to`: must be given"),
        (["--to", "-", "--state", "x"], "is standard output"),
        (["--to", "nowhere"], "`--to`: must be unix:PATH"),
        (["--to", "unix:/tmp/x", "--batch-size", "0"], "batch-size"),
        (["--"], "must be followed by a command"),
        (["--", "/no/such/trainer"], "cannot run `/no/such/trainer`"),
        (["--weights", '{"a": 1}', "--to", "-"], "NAME=FILE"),
    ],
    ids=str,
)
def test_wrong_command_lines_say_what_would_be_right(
    more: list[str], said: str, texts: Path, tokenizer_dir: Path
) -> None:
    done = subprocess.run(
        command(texts, tokenizer_dir, *more), capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_index_counts_for_the_ranks(
    texts: Path, tokenizer_dir: Path, tmp_path: Path, rows: list[Any]
) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "fastpack",
            "index",
            str(texts),
            "-t",
            str(tokenizer_dir),
            *FLAGS,
            "--cache-dir",
            str(tmp_path / "counts"),
            "--json",
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["rows"], said["steps"]) == (sum(map(len, rows)), len(rows))
    assert list((tmp_path / "counts").glob("stream-*.json"))
