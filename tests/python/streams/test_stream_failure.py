"""A stream that fails, is killed, forked or interrupted loses nothing, and never hangs."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from conftest import sentence
from nested import flat
from pace import paced

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OPTIONS: dict[str, Any] = {
    "max_length": 64,
    "batch_size": 2,
    "lanes": 12,
    "strategy": fastpack.BestFit(open_rows=4),
}


@pytest.fixture(scope="module")
def loaded(tokenizer_dir: Path) -> fastpack.Tokenizer:
    return fastpack.Tokenizer(tokenizer_dir)


@pytest.fixture
def texts(write_jsonl: Callable[..., Path]) -> Path:
    return write_jsonl([{"text": f"{number} {sentence(number, 3 + number % 50)}"} for number in range(2000)])


def ids_of(table: Any) -> list[list[int]]:
    return table["input_ids"].to_pylist()  # type: ignore[no-any-return]


KILLED = """
import fastpack, json, sys
files, tokenizer, place = sys.argv[1:]
stream = fastpack.stream(files, tokenizer, max_length=64, batch_size=2, ranks=fastpack.Ranks(lanes=12), strategy=fastpack.BestFit(open_rows=4), threads=2)
try:
    with open(place) as file:
        stream.load_state_dict(json.loads(file.read().splitlines()[-1])["state"])
except (FileNotFoundError, IndexError):
    pass
with open(place, "a") as file:
    for table in stream:
        line = {"rows": table["input_ids"].to_pylist(), "state": stream.state_dict()}
        file.write(json.dumps(line) + "\\n")
        file.flush()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_run_killed_while_it_reads_ahead_goes_on_with_the_next_table(
    texts: Path, tokenizer_dir: Path, loaded: fastpack.Tokenizer, tmp_path: Path
) -> None:
    place = tmp_path / "taken.jsonl"
    expected = [ids_of(table) for table in flat.stream(texts, loaded, **OPTIONS)]
    for tables in (3, 40, 90):
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(texts), str(tokenizer_dir), str(place)])
        until = time.monotonic() + 60
        while time.monotonic() < until and process.poll() is None:
            if place.exists() and place.read_bytes().count(b"\n") >= tables:
                break
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
        # A line that was being written was not taken.
        whole = place.read_bytes()
        place.write_bytes(whole[: whole.rfind(b"\n") + 1])
    subprocess.run(
        [sys.executable, "-c", KILLED, str(texts), str(tokenizer_dir), str(place)], check=True, timeout=120
    )
    lines = place.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["rows"] for line in lines] == expected


def lose(path: Path) -> None:
    path.unlink()


def shorten(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def change(path: Path) -> None:
    text = path.read_bytes()
    path.write_bytes(text.replace(b"0", b"1"))
    os.utime(path, (1, 1))


def grow(path: Path) -> None:
    text = path.read_bytes()
    with path.open("ab") as file:
        file.write(text)


@pytest.mark.parametrize("spoil", [lose, shorten, change, grow])
def test_a_file_that_changes_while_it_is_read_is_named(
    spoil: Callable[[Path], None], write_jsonl: Callable[..., Path], loaded: fastpack.Tokenizer
) -> None:
    files = [
        write_jsonl([{"text": f"{number} {sentence(number, 60)}"} for number in range(3000)], f"{name}.jsonl")
        for name in "ab"
    ]
    stream = flat.stream(files, loaded, max_length=64, batch_size=1, shuffle=False, lanes=1)
    next(stream)
    spoil(files[1])
    with pytest.raises((fastpack.FastpackError, OSError), match=r"b\.jsonl"):
        list(stream)


def test_a_file_cut_off_in_the_middle_is_named(
    texts: Path, loaded: fastpack.Tokenizer, tmp_path: Path
) -> None:
    path = tmp_path / "cut.jsonl.gz"
    whole = gzip.compress(texts.read_bytes())
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(fastpack.FastpackError, match=r"cut\.jsonl\.gz"):
        list(flat.stream(path, loaded, **OPTIONS))
    skipped = flat.stream(path, loaded, on_bad_record="skip", **OPTIONS)
    tables = list(skipped)
    assert skipped.report is not None
    assert skipped.report.dropped["damaged"].documents == 1
    # Skips replay alike.
    for number in (0, 5, len(tables) - 2):
        again = flat.stream(path, loaded, on_bad_record="skip", **OPTIONS)
        again.load_state_dict(fastpack.state_of(tables[number]))
        assert [ids_of(table) for table in again] == [ids_of(table) for table in tables[number + 1 :]]
        assert again.report is not None
        assert again.report.dropped == skipped.report.dropped
        assert again.report.documents == skipped.report.documents


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("started", [False, True])
def test_a_forked_child_streams_or_is_refused(started: bool, texts: Path, loaded: fastpack.Tokenizer) -> None:
    stream = flat.stream(texts, loaded, **OPTIONS)
    first = ids_of(next(flat.stream(texts, loaded, **OPTIONS)))
    if started:
        next(stream)
    child = os.fork()
    if child == 0:
        code = 3
        try:
            code = 0 if ids_of(next(stream)) == first else 1
        except fastpack.FastpackError as refused:
            code = 2 if "fork" in str(refused) else 1
        finally:
            os._exit(code)
    until = time.monotonic() + 30
    ended = (0, 0)
    while ended[0] == 0 and time.monotonic() < until:
        ended = os.waitpid(child, os.WNOHANG)
        time.sleep(0.01)
    if ended[0] == 0:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert ended[0] == child, "the child hangs"
    assert os.waitstatus_to_exitcode(ended[1]) == (2 if started else 0)
    stream.close()


INTERRUPTED = """
import fastpack, pyarrow, sys, time
def slowly(batch):
    time.sleep(0.02)
    return batch
def records():
    for number in range(10**9):
        time.sleep(0.001)
        yield {"text": f"the river has {number} boats"}
files, tokenizer = sys.argv[1:]
stream = fastpack.stream(FILES, tokenizer, epochs=None, OPTIONS)
print("waiting", flush=True)
try:
    while True:
        next(stream)
except KeyboardInterrupt:
    print(time.monotonic(), flush=True)
"""


@pytest.mark.alone
@pytest.mark.parametrize(
    ("files", "options"),
    [
        ("files", "max_length=1 << 30, ranks=fastpack.Ranks(lanes=1)"),
        ("files", "max_length=2048, batch_size=64"),
        ("files", "max_length=256, map=slowly"),
        ("records", "max_length=4096, batch_size=64"),
    ],
)
def test_ctrl_c_is_heard_within_a_fifth_of_a_second(
    files: str,
    options: str,
    big_corpus: str,
    tokenizer_dir: Path,
    python: Callable[..., subprocess.Popen[str]],
) -> None:
    code = INTERRUPTED.replace("FILES", files).replace("OPTIONS", options)
    process = python("-c", code, big_corpus, tokenizer_dir)
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "waiting"
    time.sleep(0.3)
    with paced() as machine:
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=30)
    assert stdout, stderr
    assert float(stdout) - sent <= 0.2 * machine.slowness


def test_a_state_of_changed_files_goes_on_where_that_is_safe(
    write_jsonl: Callable[..., Path], loaded: fastpack.Tokenizer
) -> None:
    """`strict=False`: other weights hold from the state on, and no open document is lost."""
    files: dict[str, Any] = {
        name: write_jsonl([{"text": f"{name} {n} {sentence(n, 9)}"} for n in range(200)], f"{name}.jsonl")
        for name in ("a", "b")
    }

    def make(weight: float) -> fastpack.PackStream:
        return flat.stream(
            files, loaded, weights={"a": 1 - weight, "b": weight}, max_length=64, lanes=4, epochs=None
        )

    with make(0.5) as stream:
        *_, last = itertools.islice(stream, 5)
    with make(0.9) as other:
        other.load_state_dict(fastpack.state_of(last))
        with pytest.raises(fastpack.OptionError, match="`weights`"):
            next(other)
    with make(0.9) as other:
        other.load_state_dict(fastpack.state_of(last), strict=False)
        assert other.step == 5
        for _ in range(40):
            next(other)
        shares = other.stats().shares
    assert shares["b"] > 0.7


def test_an_endless_stream_over_nothing_is_refused(
    write_jsonl: Callable[..., Path], loaded: fastpack.Tokenizer
) -> None:
    """TorchTitan #3008: an endless epoch over no documents must not spin."""
    path = write_jsonl([])
    with pytest.raises(fastpack.LossError, match="no document in the 12 lanes"):
        next(flat.stream(path, loaded, epochs=None, **OPTIONS))
    blank = write_jsonl([{"text": ""} for _ in range(20)], "blank.jsonl")
    with pytest.raises(fastpack.LossError, match="none of 20 documents"):
        list(flat.stream(blank, loaded, epochs=None, **OPTIONS))


def test_a_second_resume_goes_on_from_the_second_state(texts: Path, loaded: fastpack.Tokenizer) -> None:
    """Datasets #8308: the state stayed that of the first resume."""
    tables = list(itertools.islice(flat.stream(texts, loaded, **OPTIONS), 12))
    state: Any = fastpack.state_of(tables[2])
    for number in range(3, 12):
        stream = flat.stream(texts, loaded, **OPTIONS)
        stream.load_state_dict(state)
        assert ids_of(next(stream)) == ids_of(tables[number])
        state = stream.state_dict()
        stream.close()


def test_a_shuffled_stream_neither_loses_nor_repeats_documents_when_it_resumes(
    texts: Path, loaded: fastpack.Tokenizer
) -> None:
    """Datasets #7901: a buffer of shuffled documents was lost, and others came twice."""
    options: dict[str, Any] = OPTIONS | {"strategy": "none", "max_length": 4096, "batch_size": 7}
    seen: list[tuple[int, ...]] = []
    state: Any = None
    while True:
        stream = flat.stream(texts, loaded, **options)
        if state is not None:
            stream.load_state_dict(state)
        taken = list(itertools.islice(stream, 60))
        seen += [tuple(ids) for table in taken for ids in ids_of(table)]
        if len(taken) < 60:
            break
        state = stream.state_dict()
        stream.close()
    plain = flat.pack_files(texts, loaded, strategy="none", max_length=4096)
    assert sorted(seen) == sorted(map(tuple, ids_of(plain)))


def test_the_edge_of_an_epoch_resumes(texts: Path, loaded: fastpack.Tokenizer) -> None:
    """Verl #7401: a resume at the edge skipped an epoch."""
    options: dict[str, Any] = OPTIONS | {"strategy": "none", "max_length": 4096, "batch_size": 10, "lanes": 1}
    tables = list(flat.stream(texts, loaded, epochs=2, **options))
    assert len(tables) == 400
    for number in (198, 199, 200):
        stream = flat.stream(texts, loaded, epochs=2, **options)
        stream.load_state_dict(fastpack.state_of(tables[number]))
        assert [ids_of(table) for table in stream] == [ids_of(table) for table in tables[number + 1 :]]
