"""Whatever a web server answers, the rows are those of the file, or the call fails and names it."""

from __future__ import annotations

import gzip
import random
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from campaign import tries
from conftest import sentence
from containers import lines
from loopback import running
from web_server import Faults, Handler, Server

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Odd = Callable[[Handler, bytes, int, int], None]

NAMES = ["a.jsonl", "a.jsonl.gz", "a.parquet", "a.txt"]


def rows(files: Any, tokenizer: Path, **options: Any) -> list[list[int]]:
    options = {"max_length": 512, "max_lost": "100%", "storage": {"max_retries": "1"}, **options}
    return fastpack.pack_files(files, tokenizer, **options)["input_ids"].to_pylist()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files that take several requests, and small and empty ones."""
    folder = tmp_path_factory.mktemp("web")
    chances = random.Random(1)
    # Words by chance, so that compression leaves several requests.
    records = [{"text": " ".join(str(chances.random()) for _ in range(20))} for _ in range(tries(1200, 2500))]
    (folder / "a.jsonl").write_bytes(lines(records))
    (folder / "a.jsonl.gz").write_bytes(gzip.compress(lines(records)))
    (folder / "a.txt").write_text(" ".join(record["text"] for record in records))
    pq.write_table(pa.Table.from_pylist(records), folder / "a.parquet", row_group_size=200)
    (folder / "small.jsonl").write_bytes(lines([{"text": sentence(at, 5)} for at in range(3)]))
    (folder / "empty.jsonl").write_bytes(b"")
    return folder


@contextmanager
def serving(folder: Path, faults: Faults) -> Iterator[Server]:
    """Serves files whose etag is `a`."""
    server = Server(folder, faults)
    server.etags = dict.fromkeys(folder.iterdir(), "a")
    with running(server):
        yield server


def told(handler: Handler, **headers: Any) -> dict[str, Any]:
    """The etag and time that an answer has."""
    faults = handler.server.faults
    etag = {"ETag": '"a"'} if faults.etags else {}
    return {**etag, **({"Last_Modified": "Tue, 14 Nov 2023 22:13:20 GMT"} if faults.times else {}), **headers}


def part(handler: Handler, data: bytes, start: int, end: int, **headers: Any) -> None:
    headers = told(handler, Content_Range=f"bytes {start}-{end - 1}/{len(data)}", **headers)
    handler.send_bytes(206, data[start:end], **headers)


ODD: dict[str, Odd] = {
    "empty 200": lambda it, *_: it.send_bytes(200, b"", **told(it)),
    "empty 200 without a size": lambda it, *_: it.send_bytes(
        200, b"0\r\n\r\n", Content_Length=None, Transfer_Encoding="chunked", **told(it)
    ),
    "200 without a size": lambda it, data, *_: it.send_bytes(
        200, b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data), Content_Length=None, Transfer_Encoding="chunked"
    ),
    "416 of an empty file": lambda it, *_: it.send_bytes(416, b"", Content_Range="bytes */0"),
    "416 of the file": lambda it, data, *_: it.send_bytes(416, b"", Content_Range=f"bytes */{len(data)}"),
    "416 without a size": lambda it, *_: it.send_bytes(416, b""),
    "416 of no size": lambda it, *_: it.send_bytes(416, b"", Content_Range="bytes */*"),
    "412": lambda it, *_: it.send_bytes(412, b""),
    "204": lambda it, *_: it.send_bytes(204, b"", Content_Length=None),
    "206 without a range": lambda it, data, start, end: it.send_bytes(206, data[start:end], **told(it)),
    "206 of other bytes": lambda it, data, start, end: part(it, data, start + 1, end),
    "206 of more bytes than it says": lambda it, data, start, end: it.send_bytes(
        206, data[start:end] + b"x", **told(it, Content_Range=f"bytes {start}-{end - 1}/{len(data)}")
    ),
    "206 of more bytes than there are": lambda it, data, start, end: it.send_bytes(
        206, data[start:end], **told(it, Content_Range=f"bytes {start}-{len(data) + 9}/{len(data)}")
    ),
    "206 of fewer bytes": lambda it, data, start, end: part(it, data, start, (start + end + 1) // 2),
    "206 of one half of the bytes that it says": lambda it, data, start, end: it.send_bytes(
        206,
        data[start : (start + end) // 2],
        **told(it, Content_Range=f"bytes {start}-{end - 1}/{len(data)}"),
    ),
    "206 of a longer file": lambda it, data, start, end: it.send_bytes(
        206, data[start:end], **told(it, Content_Range=f"bytes {start}-{end - 1}/{len(data) + 1}")
    ),
    "206 of a shorter file": lambda it, data, start, end: it.send_bytes(
        206, data[start:end], **told(it, Content_Range=f"bytes {start}-{end - 1}/{end}")
    ),
    "206 without a size": lambda it, data, start, end: it.send_bytes(
        206, data[start:end], **told(it, Content_Range=f"bytes {start}-{end - 1}/*")
    ),
    "206 without etag and time": lambda it, data, start, end: it.send_bytes(
        206, data[start:end], Content_Range=f"bytes {start}-{end - 1}/{len(data)}"
    ),
    "206 of another etag": lambda it, data, start, end: part(it, data, start, end, ETag='"b"'),
    "206 of another time": lambda it, data, start, end: it.send_bytes(
        206,
        data[start:end],
        Content_Range=f"bytes {start}-{end - 1}/{len(data)}",
        Last_Modified="Tue, 14 Nov 2023 22:13:21 GMT",
    ),
    "the whole": lambda it, data, *_: it.send_bytes(200, data, **told(it)),
    "a page of text": lambda it, *_: it.send_bytes(200, b"<html>wait</html>"),
}
"""Answers to a request for a range of a file of these bytes."""

HARMLESS = {"206 of fewer bytes", "206 without a size"}
"""Answers that are read as they are."""

BELIEVED = {
    "empty 200": b"",
    "416 of an empty file": b"",
    "206 of a shorter file": None,
    "a page of text": None,
}
"""The first answer alone tells of these: nothing shows that the file is another, whose content is here where it is no cut."""


def odd(answers: Callable[[int], Odd | None]) -> Callable[..., bool]:
    """Answers the requests for ranges of large files oddly, by their numbers, and the others as is usual here."""

    def answer(handler: Handler, file: Path, number: int, start: int, end: int) -> bool:
        data = file.read_bytes()
        if handler.command == "HEAD":
            handler.send_bytes(200, data, **told(handler))
        else:
            (answers(number) or part)(handler, data, start, end)
        return True

    return answer


@pytest.mark.parametrize("ids", tries(["etags", "none"], ["etags", "times", "none"]))
@pytest.mark.parametrize("first", [True, False], ids=["first", "later"])
@pytest.mark.parametrize("kind", ODD)
def test_an_odd_answer_is_read_rightly_or_named(
    kind: str, first: bool, ids: str, folder: Path, tokenizer_dir: Path
) -> None:
    faults = Faults(etags=ids == "etags", times=ids != "none")
    faults.odd = odd(lambda number: ODD[kind] if (number == 1) == first else None)
    with serving(folder, faults) as server:
        found, said = rows_or_error(f"{server.url}/a.jsonl", tokenizer_dir, on_bad_record="skip")
    if first and kind in BELIEVED:
        assert found == ([] if BELIEVED[kind] == b"" else found)
        return
    assert said or found == rows(folder / "a.jsonl", tokenizer_dir)
    assert not (said and kind in HARMLESS), said


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(tries(2, 150)))
def test_no_odd_answers_give_other_rows(seed: int, name: str, folder: Path, tokenizer_dir: Path) -> None:
    chances = random.Random(f"{seed} {name}")
    share = chances.choice([0.1, 0.3])
    kinds = list(ODD)
    drawn = [chances.choice(kinds) if chances.random() < share else None for _ in range(10_000)]
    # The first answer may break off, and be asked for again.
    drawn[:5] = [None if kind in BELIEVED else kind for kind in drawn[:5]]
    faults = Faults(etags=chances.random() < 0.6, times=chances.random() < 0.6)
    faults.odd = odd(lambda number: ODD[drawn[number] or ""] if drawn[number] else None)
    with serving(folder, faults) as server:
        found, said = rows_or_error(f"{server.url}/{name}", tokenizer_dir, on_bad_record="skip")
    assert said or found == rows(folder / name, tokenizer_dir)


def rows_or_error(url: str, tokenizer: Path, **options: Any) -> tuple[list[list[int]], str]:
    """The rows of a file, or the error that names it."""
    try:
        return rows(url, tokenizer, **options), ""
    except OSError as refused:
        said = str(refused)
    assert url.rpartition("/")[2] in said
    assert "\n" not in said
    return [], said


@pytest.mark.parametrize("name", [*NAMES, "small.jsonl"])
def test_a_size_that_a_range_does_not_tell_is_asked_for(name: str, folder: Path, tokenizer_dir: Path) -> None:
    with serving(folder, Faults(odd=odd(lambda _: ODD["206 without a size"]))) as server:
        found = rows(f"{server.url}/{name}", tokenizer_dir)
        heads = [command for command, _, _ in server.requests].count("HEAD")
    assert found == rows(folder / name, tokenizer_dir)
    assert heads == 1


@pytest.mark.parametrize("status", [200, 403, 405])
def test_a_size_that_nothing_tells_is_refused(status: int, folder: Path, tokenizer_dir: Path) -> None:
    def answer(handler: Handler, file: Path, _: int, start: int, end: int) -> bool:
        if handler.command == "HEAD":
            handler.send_bytes(status, b"", Content_Length=None)
        else:
            ODD["206 without a size"](handler, file.read_bytes(), start, end)
        return True

    with (
        serving(folder, Faults(odd=answer)) as server,
        pytest.raises(OSError, match=r"does not tell the size of a file; download.*a\.jsonl"),
    ):
        rows(f"{server.url}/a.jsonl", tokenizer_dir)


@pytest.mark.parametrize("kind", ["206", "empty 200", "416 of an empty file"])
def test_an_empty_file_is_empty(kind: str, folder: Path, tokenizer_dir: Path) -> None:
    empty = None if kind == "206" else odd(lambda _: ODD[kind])
    with serving(folder, Faults(odd=empty)) as server:
        files = [f"{server.url}/empty.jsonl", str(folder / "small.jsonl")]
        assert rows(files, tokenizer_dir) == rows(folder / "small.jsonl", tokenizer_dir)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ids", ["etags", "times"])
def test_content_that_changes_between_two_ranges_is_named(
    ids: str, name: str, folder: Path, tokenizer_dir: Path
) -> None:
    kind = "206 of another etag" if ids == "etags" else "206 of another time"
    faults = Faults(etags=ids == "etags", odd=odd(lambda number: ODD[kind] if number > 1 else None))
    with (
        serving(folder, faults) as server,
        pytest.raises(fastpack.StorageError, match=rf"changed while it was read.*{name}"),
    ):
        rows(f"{server.url}/{name}", tokenizer_dir, on_bad_record="skip")


def test_a_change_that_nothing_tells_is_told_in_the_report(folder: Path, tokenizer_dir: Path) -> None:
    with serving(folder, Faults(etags=False, times=False)) as server:
        table = fastpack.pack_files(f"{server.url}/a.jsonl", tokenizer_dir, max_length=512)
        stream = fastpack.stream(f"{server.url}/a.jsonl", tokenizer_dir, max_length=512)
        for _ in stream:
            pass
    assert stream.report is not None
    for report in (fastpack.Report.of(table), stream.report):
        assert any("a later change of it is seen by its size alone" in it for it in report.warnings)
