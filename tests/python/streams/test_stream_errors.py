"""After an error a stream raises it again, or goes on with the table behind the last one: it never ends as if all were read."""

from __future__ import annotations

import json
import random
import re
from typing import TYPE_CHECKING, Any

import pytest
from campaign import tries
from loopback import LoopbackServer, SilentHandler, running
from nested import flat

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

OPTIONS: dict[str, Any] = {
    "max_length": 16,
    "lanes": 4,
    "batch_size": 2,
    "strategy": "best_fit",
    "threads": 2,
}
COUNT = 120


class PlainError(Exception):
    """An exception of a caller."""


class KeywordError(Exception):
    """An exception that cannot be made of its arguments."""

    def __init__(self, *, place: str) -> None:
        super().__init__(f"at {place}")
        self.place = place


def raised_errors() -> list[Exception]:
    return [
        ValueError("a filter"),
        PlainError(),
        KeywordError(place="here"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
    ]


def record(number: int) -> dict[str, Any]:
    return {"input_ids": [number + 1] * (1 + number % 9)}


@pytest.fixture
def records(write_jsonl: Callable[..., Path]) -> Path:
    return write_jsonl([record(number) for number in range(COUNT)])


def rows_of(table: Any) -> list[list[int]]:
    return table["input_ids"].to_pylist()  # type: ignore[no-any-return]


class Failing:
    """A `filter`, or a source of records, that raises at some of its calls."""

    def __init__(self, failures: Mapping[int, BaseException]) -> None:
        self.failures, self.calls = failures, 0

    def __call__(self, batch: Any) -> list[bool]:
        self.fail()
        return [True] * batch.num_rows

    def records(self) -> Iterator[dict[str, Any]]:
        for number in range(COUNT):
            self.fail()
            yield record(number)

    def fail(self) -> None:
        self.calls += 1
        if (failure := self.failures.get(self.calls)) is not None:
            raise failure


def taken_by(stream: fastpack.PackStream, passing: tuple[type[BaseException], ...]) -> tuple[list[Any], int]:
    """The rows of all tables, and the number of errors that passed."""
    taken: list[Any] = []
    failures = 0
    while True:
        table, failed = next_of(stream, passing)
        if failed is None and table is None:
            return taken, failures
        failures += failed is not None
        taken += [] if table is None else [rows_of(table)]


def next_of(
    stream: fastpack.PackStream, expected: tuple[type[BaseException], ...]
) -> tuple[Any, BaseException | None]:
    """The next table, and the error that came in its place; neither at the end."""
    try:
        return next(stream, None), None
    except expected as failed:
        return None, failed


@pytest.mark.parametrize("raised", raised_errors(), ids=lambda it: type(it).__name__)
@pytest.mark.parametrize("source", [False, True])
def test_an_error_comes_again_at_each_next(raised: Exception, source: bool, records: Path) -> None:
    whole = [rows_of(table) for table in flat.stream(records, **OPTIONS)]
    for call in (1, 30):
        failing = Failing({call: raised})
        given: dict[str, Any] = (
            {"files": failing.records}
            if source
            else {"files": records, "filter": fastpack.Function(failing, fingerprint="v1")}
        )
        stream = flat.stream(**given, **OPTIONS)
        taken, said = [], []
        for _ in range(len(whole) + 4):
            table, failed = next_of(stream, (type(raised),))
            assert table is not None or failed is not None, "the stream ends as if all were read"
            taken += [] if table is None else [rows_of(table)]
            said += [] if failed is None else [failed]
        assert len(said) >= 4
        assert len({id(failed) for failed in said}) == len(said)
        assert {str(failed) for failed in said} == {str(raised)}
        assert {tuple(vars(failed)) for failed in said} == {tuple(vars(said[0]))}
        if not source:
            assert taken == whole[: len(taken)]
        # A state that is loaded is another beginning, and `close` is the end.
        if taken:
            stream.load_state_dict(stream.state_dict())
            next(stream)
        stream.close()
        with pytest.raises(StopIteration):
            next(stream)


def test_errors_of_data_and_options_come_again(records: Path, write_jsonl: Callable[..., Path]) -> None:
    bad = write_jsonl([*map(record, range(50)), b"{"], "bad.jsonl")
    stream = flat.stream(bad, shuffle=False, **OPTIONS | {"lanes": 1})
    with pytest.raises(fastpack.RecordError) as first:
        list(stream)
    for _ in range(3):
        with pytest.raises(fastpack.RecordError, match=re.escape(str(first.value))) as again:
            next(stream)
        assert again.value is not first.value
        assert (again.value.path, again.value.line) == (str(bad), 51)
    with pytest.raises(fastpack.RecordError):
        list(stream)
    mixed = flat.stream({"a": records, "b": bad}, weights={"a": 1, "b": 1}, **OPTIONS | {"lanes": 64})
    for _ in range(3):
        with pytest.raises((fastpack.OptionError, fastpack.RecordError)):
            list(mixed)


@pytest.mark.parametrize("seed", range(tries(12, 300)))
def test_an_interrupt_loses_no_table(seed: int, records: Path) -> None:
    rng = random.Random(seed)
    interrupts = {rng.randint(1, 250): KeyboardInterrupt() for _ in range(rng.randint(1, 5))}
    source = rng.random() < 0.5
    options = OPTIONS | {"epochs": rng.choice([1, 2]), "shuffle": rng.random() < 0.5}

    def make(failures: Mapping[int, BaseException]) -> fastpack.PackStream:
        failing = Failing(failures)
        given: dict[str, Any] = (
            {"files": failing.records} if source else {"files": records, "filter": failing}
        )
        return flat.stream(**given, **options)

    whole = [rows_of(table) for table in make({})]
    taken, failures = taken_by(make(interrupts), (KeyboardInterrupt,))
    assert taken == whole, (interrupts, failures)


def test_an_interrupt_asks_no_rank_twice(records: Path) -> None:
    def run(interrupts: Mapping[int, BaseException]) -> tuple[list[Any], list[int]]:
        asked: list[int] = []

        def greatest(number: int) -> int:
            asked.append(number)
            return number

        failing = Failing(interrupts)
        stream = flat.stream(
            records,
            filter=failing,
            all_reduce=greatest,
            rank=0,
            world_size=2,
            padding=fastpack.Padding(token_id=0),
            **OPTIONS,
        )
        return taken_by(stream, (KeyboardInterrupt,))[0], asked

    whole, asked = run({})
    for call in range(2, 40, tries(7, 1)):
        assert run({call: KeyboardInterrupt(), call + 9: KeyboardInterrupt()}) == (whole, asked), call


def test_an_error_of_log_loses_no_table(records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastpack.streaming.stream._LOG_SECONDS", 0.0)
    whole = [rows_of(table) for table in flat.stream(records, **OPTIONS)]
    calls = 0

    def log(_: Any) -> None:
        nonlocal calls
        calls += 1
        if calls % 5 == 2:
            raise PlainError

    taken, failures = taken_by(flat.stream(records, log=log, **OPTIONS), (PlainError,))
    assert failures > 2
    assert taken == whole


class Flaky(LoopbackServer):
    """Serves a file, and loses some of the connections."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.asked = 0
        self.lost: set[int] = set()
        super().__init__(FlakyHandler)


class FlakyHandler(SilentHandler):
    def do_GET(self) -> None:  # noqa: N802  as the library calls it
        server: Any = self.server
        server.asked += 1
        if server.asked in server.lost:
            self.reset()
            return
        first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        part = server.content[first : last + 1]
        self.send_response(206)
        self.send_header("ETag", '"one"')
        self.send_header("Content-Length", str(len(part)))
        self.send_header("Content-Range", f"bytes {first}-{first + len(part) - 1}/{len(server.content)}")
        self.end_headers()
        self.wfile.write(part)


def test_a_lost_connection_loses_no_table() -> None:
    text = "".join(json.dumps(record(number) | {"note": "x" * 3000}) + "\n" for number in range(400))
    server = Flaky(text.encode())

    def make() -> fastpack.PackStream:
        return flat.stream(f"{server.url}/data.jsonl", storage_options={"max_retries": "0"}, **OPTIONS)

    with running(server):
        whole = [rows_of(table) for table in make()]
        asked = server.asked
        assert asked > 8
        for lost in range(1, asked + 1, max(1, asked // tries(6, 60))):
            server.asked, server.lost = 0, {lost, lost + 3}
            taken, failures = taken_by(make(), (OSError,))
            assert taken == whole, lost
            assert failures, lost
