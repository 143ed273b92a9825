"""`stream`: the rows of `pack_files`, while the input is still being read."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from campaign import campaign_only
from conftest import conversation
from nested import flat, place
from pace import paced

import fastpack


def worker_threads():
    """Threads of this process beside those that Python knows of."""
    status = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    count = next(int(line.split()[1]) for line in status if line.startswith("Threads:"))
    return count - threading.active_count()


@pytest.mark.parametrize(
    "options",
    [{}, {"strategy": "concat"}, {"strategy": fastpack.Concat(drop_last=True)}, {"strategy": "none"}],
    ids=str,
)
def test_strategies_that_never_look_back_give_the_rows_of_pack_files(options, corpus, tokenizer_dir):
    expected = flat.pack_files(corpus, tokenizer_dir, max_length=256, **{"strategy": "sequential", **options})
    in_order: dict[str, Any] = {"strategy": "sequential", "shuffle": False, "lanes": 1}
    stream = flat.stream(corpus, tokenizer_dir, max_length=256, batch_size=4, **(in_order | options))
    tables = list(stream)
    assert pa.concat_tables(tables).to_pylist() == expected.to_pylist()
    assert {table.num_rows for table in tables[:-1]} == {4}
    whole = fastpack.Report.of(expected)
    assert (stream.report.rows, stream.report.documents, stream.report.tokens) == (
        whole.rows,
        whole.documents,
        whole.tokens,
    )


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_best_fit_keeps_every_document(threads, corpus, tokenizer_dir):
    options = {"max_length": 256, "lanes": 2, "strategy": fastpack.BestFit(open_rows=8)}
    alone = flat.pack_files(corpus, tokenizer_dir, max_length=256, strategy="none")
    streamed = pa.concat_tables(flat.stream(corpus, tokenizer_dir, threads=threads, **options))
    reference = pa.concat_tables(flat.stream(corpus, tokenizer_dir, threads=3, **options))
    assert streamed.equals(reference)
    lengths = [length for row in streamed["seq_lengths"].to_pylist() for length in row]
    assert sorted(lengths) == sorted(map(len, alone["input_ids"].to_pylist()))


def test_a_stream_is_a_generator_of_tables(corpus, tokenizer_dir):
    stream = flat.stream(corpus, tokenizer_dir, max_length=256)
    assert iter(stream) is stream
    table = next(stream)
    assert isinstance(table, pa.Table)
    assert table.num_rows == 8
    stream.close()
    with pytest.raises(StopIteration):
        next(stream)


def test_the_report_comes_with_the_end(corpus, tokenizer_dir):
    stream = flat.stream(corpus, tokenizer_dir, max_length=256)
    assert stream.report is None
    rows = sum(table.num_rows for table in stream)
    assert stream.report.rows == rows
    assert stream.report.documents.read == 200


def test_errors_are_raised_from_the_loop_with_their_type(write_jsonl, tokenizer_dir):
    path = write_jsonl([*map(conversation, range(50)), b"{"])
    stream = flat.stream(path, tokenizer_dir, max_length=256, batch_size=1)
    with pytest.raises(fastpack.RecordError) as caught:
        for _ in stream:
            pass
    assert (caught.value.path, caught.value.line) == (str(path), 51)
    with pytest.raises(fastpack.RecordError) as again:
        next(stream)
    assert str(again.value) == str(caught.value)


@pytest.mark.parametrize("strategy", ["heap", "mix"])
def test_strategies_that_need_all_lengths_are_refused_at_once(strategy):
    with pytest.raises(fastpack.OptionError, match="sequential") as caught:
        flat.stream("x", "x/y/z", max_length=8, strategy=strategy)
    assert caught.value.option == "strategy"


@pytest.mark.parametrize("option", ["batch_size", "open_packs"])
def test_counts_must_be_positive(option, corpus, tokenizer_dir):
    with pytest.raises(fastpack.OptionError, match=place(option).replace(".", r"\.")):
        flat.stream(corpus, tokenizer_dir, max_length=8, **{option: 0})


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_a_dropped_stream_joins_its_threads(big_corpus, tokenizer_dir):
    tokenizer = fastpack.Tokenizer(tokenizer_dir)
    before = worker_threads()
    stream = flat.stream(big_corpus, tokenizer, max_length=256, threads=2)
    next(stream)
    assert worker_threads() > before
    del stream
    gc.collect()
    assert worker_threads() == before


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_a_with_block_joins_its_threads(big_corpus, tokenizer_dir):
    tokenizer = fastpack.Tokenizer(tokenizer_dir)
    before = worker_threads()
    with flat.stream(big_corpus, tokenizer, max_length=256) as stream:
        next(stream)
    assert worker_threads() == before


@pytest.mark.alone
def test_the_first_table_comes_long_before_the_end(big_corpus, tokenizer_dir):
    tokenizer = fastpack.Tokenizer(tokenizer_dir)
    with paced() as machine, flat.stream(big_corpus, tokenizer, max_length=1024) as stream:
        started = time.monotonic()
        next(stream)
        took = time.monotonic() - started
    assert took < 2.0 * machine.slowness


def test_threads_may_share_a_stream(corpus, tokenizer_dir):
    expected = sum(table.num_rows for table in flat.stream(corpus, tokenizer_dir, max_length=256))
    stream = flat.stream(corpus, tokenizer_dir, max_length=256, batch_size=1)
    counts = []

    def take():
        counts.append(sum(table.num_rows for table in stream))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(counts) == expected


def test_closing_wakes_a_thread_that_waits(big_corpus, tokenizer_dir):
    stream = flat.stream(big_corpus, tokenizer_dir, max_length=1 << 30)
    ended = threading.Event()

    def wait():
        assert list(stream) == []
        ended.set()

    thread = threading.Thread(target=wait)
    thread.start()
    stream.close()
    thread.join(timeout=5)
    assert ended.is_set()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads VmHWM")
def test_memory_does_not_grow_with_the_input(long_corpus, tokenizer_dir):
    code = """
import fastpack, sys
def peak():
    return next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("VmHWM")) // 1024
files, tokenizer = sys.argv[1:]
stream = fastpack.stream(files, tokenizer, max_length=1024, threads=2)
for _ in range(20):
    next(stream)
early = peak()
for _ in stream:
    pass
print(peak() - early)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, long_corpus, tokenizer_dir], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 100


USES = {
    "next": "next(stream)",
    "list": "list(stream)",
    "close": "stream.close()",
    "with": "stream.__exit__(None, None, None)",
}


@pytest.mark.parametrize("function", ["filter", "map", "progress"])
@pytest.mark.parametrize("use", USES)
def test_a_stream_used_in_its_own_function_is_refused(use, function, corpus, tokenizer_dir, python):
    code = f"""
import fastpack, sys, time
refused = []
def function(*given):
    try:
        {USES[use]}
    except fastpack.FastpackError as error:
        refused.append(str(error))
    if {function!r} == "progress" or not refused:
        time.sleep(0.1)
    return given[0] if {function!r} == "map" else [True] * len(given[0]) if {function!r} == "filter" else None
stream = fastpack.stream(sys.argv[1], sys.argv[2], max_length=64, ranks=fastpack.Ranks(lanes=1), {function}=function)
rows = sum(table.num_rows for table in stream)
print(rows > 0, "own `filter`" in refused[0])
"""
    process = python("-c", code, corpus, tokenizer_dir)
    stdout, stderr = process.communicate(timeout=60)
    assert stdout.split() == ["True", "True"], stderr


@campaign_only  # it is refused after ten seconds
def test_a_thread_that_a_filter_waits_for_is_refused_too(corpus, tokenizer_dir, python):
    code = """
import fastpack, sys, threading
refused = []
def other():
    try:
        next(stream)
    except fastpack.FastpackError as error:
        refused.append(str(error))
def keep(rows):
    if not refused:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    return [True] * len(rows)
stream = fastpack.stream(sys.argv[1], sys.argv[2], max_length=64, ranks=fastpack.Ranks(lanes=1), filter=keep)
rows = sum(table.num_rows for table in stream)
print(rows > 0, "must not wait" in refused[0])
"""
    process = python("-c", code, corpus, tokenizer_dir)
    stdout, stderr = process.communicate(timeout=60)
    assert stdout.split() == ["True", "True"], stderr


def test_a_stream_closed_in_a_signal_handler_of_its_reader_is_refused(big_corpus, tokenizer_dir, python):
    code = """
import fastpack, os, signal, sys
def handler(*_):
    stream.close()
signal.signal(signal.SIGUSR1, handler)
def keep(rows):
    os.kill(os.getpid(), signal.SIGUSR1)
    return [True] * len(rows)
stream = fastpack.stream(sys.argv[1], sys.argv[2], max_length=64, filter=keep)
try:
    list(stream)
except fastpack.FastpackError as error:
    print("signal handler" in str(error))
"""
    process = python("-c", code, big_corpus, tokenizer_dir)
    stdout, stderr = process.communicate(timeout=60)
    assert stdout.split() == ["True"], stderr


def test_threads_may_share_a_stream_with_a_filter(corpus, tokenizer_dir):
    expected = sum(table.num_rows for table in flat.stream(corpus, tokenizer_dir, max_length=64))
    stream = flat.stream(
        corpus, tokenizer_dir, max_length=64, batch_size=1, filter=lambda rows: [True] * len(rows)
    )
    with ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(lambda _: sum(table.num_rows for table in stream), range(4)))
    assert sum(counts) == expected
