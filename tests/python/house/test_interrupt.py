"""Ctrl-C, SIGTERM, fork, and other threads while a call is under way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from pace import paced

import fastpack

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(os.name != "posix", reason="signals and fork as POSIX has them"),
]

WAIT = """
import fastpack, signal, sys, time
def started(reading):
    if reading.documents and not seen:
        seen.append(True)
        print("started", flush=True)
def endless():
    while True:
        yield {"text": "a river"}
def slow(batch):
    print("started", flush=True)
    time.sleep(30)
seen = []
files, tokenizer, out = sys.argv[1:]
try:
    CALL
except KeyboardInterrupt:
    print("interrupted", time.monotonic(), flush=True)
else:
    print("too fast", flush=True)
"""

CALLS = {
    "pack_files": "fastpack.pack_files([files], tokenizer, max_length=2048, progress=started)",
    "pack_dir": "fastpack.pack_dir([files], out, tokenizer=tokenizer, max_length=2048, progress=started)",
    "pack_records": "fastpack.pack_records(endless(), tokenizer, max_length=2048, progress=started)",
    "map": "fastpack.pack_files([files], tokenizer, max_length=2048, map=slow)",
    "stream": "list(fastpack.stream([files], tokenizer, max_length=2048, progress=started))",
}


def nothing_half_written(out):
    """True if there is no output, or only the files that the next run goes on from."""
    return not out.exists() or {path.name for path in out.iterdir()} <= {".fastpack"}


@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c_arrives_within_a_fifth_of_a_second(call, big_corpus, tokenizer_dir, tmp_path, python):
    process = python("-c", WAIT.replace("CALL", CALLS[call]), big_corpus, tokenizer_dir, tmp_path / "out")
    assert process.stdout.readline().strip() == "started", process.communicate()[1]
    with paced() as machine:
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        said = process.stdout.readline().split()
    process.communicate(timeout=30)
    assert said[0] == "interrupted"
    assert float(said[1]) - sent <= 0.2 * machine.slowness
    assert nothing_half_written(tmp_path / "out")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_command_line_ends_cleanly(number, code, big_corpus, tokenizer_dir, tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "fastpack", "pack", "--progress", "-i", big_corpus, "-o", out]
    process = subprocess.Popen(
        [*command, "-t", tokenizer_dir, "-m", "2048"], stderr=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert b"tokenize" in process.stderr.read(len("\rtokenize"))
    process.send_signal(number)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == code
    assert b"Traceback" not in stderr
    assert nothing_half_written(out)


def test_other_python_threads_run_meanwhile(long_corpus, tokenizer_dir):
    tokenizer = fastpack.Tokenizer(tokenizer_dir)
    longest, done = [0.0], threading.Event()

    def tick():
        last = time.monotonic()
        while not done.is_set():
            time.sleep(0.001)
            now = time.monotonic()
            longest[0] = max(longest[0], now - last)
            last = now

    thread = threading.Thread(target=tick)
    with paced() as machine:
        thread.start()
        started = time.monotonic()
        fastpack.pack_files(long_corpus, tokenizer, max_length=2048, threads=1)
        took = time.monotonic() - started
        done.set()
        thread.join()
    assert longest[0] < max(0.25 * machine.slowness, took / 3)


def test_another_thread_may_call_too(corpus, tokenizer_dir):
    expected = fastpack.pack_files(corpus, tokenizer_dir, max_length=256)
    tables = []
    threads = [
        threading.Thread(
            target=lambda: tables.append(fastpack.pack_files(corpus, tokenizer_dir, max_length=256))
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(table.equals(expected) for table in tables)
    assert len(tables) == 4


FORK = """
import fastpack, os, sys, signal
files, tokenizer = sys.argv[1:]
loaded = fastpack.Tokenizer(tokenizer)
table = fastpack.pack_files([files], loaded, max_length=256, threads=2)
stream = fastpack.stream([files], loaded, max_length=256)
next(stream)
child = os.fork()
if child == 0:
    signal.alarm(20)
    try:
        next(stream)
    except fastpack.FastpackError:
        pass
    del stream
    again = fastpack.pack_files([files], loaded, max_length=256, threads=2)
    os._exit(0 if again.equals(table) else 1)
_, status = os.waitpid(child, 0)
rest = sum(1 for _ in stream)
sys.exit(os.waitstatus_to_exitcode(status) or (rest == 0))
"""


def test_a_forked_child_may_call_again(corpus, tokenizer_dir, python):
    process = python("-W", "ignore", "-c", FORK, corpus, tokenizer_dir)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 0, stdout + stderr
