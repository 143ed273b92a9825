"""Runs in processes of their own, to be killed or waited for."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import pyarrow as pa
from conftest import ROOT
from nested import nested

import fastpack

OPTIONS = {"max_length": 256, "format": fastpack.Format(shard_size="2MB")}

#: A run in a process of its own. It stops when the first documents are made if it is asked to; with `FILTERED` within its first
#: block, so that it certainly holds a group of a job.
RUN = """
import os, pickle, signal, sys, fastpack, pyarrow
files, tokenizer, out, options, pause = sys.argv[1:]
options = pickle.loads(bytes.fromhex(options))
said = []
def stop():
    if pause and not said:
        said.append(True)
        print("working", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
def say(reading):
    if reading.documents:
        stop()
def everything(batch):
    stop()
    return pyarrow.repeat(True, len(batch))
if "filter" in options:
    options["filter"] = fastpack.Function(everything, fingerprint="everything")
try:
    report = fastpack.pack_dir([files], out, tokenizer=tokenizer, progress=say, **options)
except fastpack.FastpackError as failed:
    print(type(failed).__name__, failed, flush=True)
else:
    print("rows", report.rows, flush=True)
"""


def everything(batch):
    """A filter that leaves nothing out, as `RUN` has it with `FILTERED`."""
    return pa.repeat(True, len(batch))


#: The option of runs with a filter that leaves nothing out.
FILTERED = {"filter": "everything"}


def start(files, tokenizer, out, *, code=RUN, environment=None, pause=False, **options):
    """Starts a run in a process of its own; with `pause` it says when it is at work, and goes on once it is told.

    `code` may tell words of `pause` apart.
    """
    arguments = [
        files,
        tokenizer,
        out,
        pickle.dumps(nested(options, OPTIONS)).hex(),
        str(pause or ""),
    ]
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | (environment or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def at_work(process):
    """Waits until a run that was started with `pause` has made documents, and stopped."""
    line = process.stdout.readline().strip()
    assert line == "working", (line, *process.communicate())
    # It says so before it stops; a process that is to go on from there must not be told earlier.
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    return process


def kill_at_work(files, tokenizer, out, **how):
    """Kills a run once it has made documents."""
    kill(at_work(start(files, tokenizer, out, pause=True, **how)))


def kill(process):
    """Kills a run wherever it is."""
    process.kill()
    process.communicate()
