"""How the work around groups grows with their number: listing inputs, asking for the state, putting the output together.

    python benches/python/jobs/groups.py --groups 10000
    python benches/python/jobs/groups.py --groups 10000 --s3

Packs one tiny file a group. All groups are packed first, by two processes; then what is measured is done once. With `--s3` the
output lies in a bucket of an S3 server (`moto`) in a process of its own, so that the processor time is that of the client alone.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import fastpack

ROOT = Path(__file__).parents[3]
TOKENIZER = ROOT / "examples" / "tokenizer"
OPTIONS = {"max_length": 64, "groups": 1, "threads": 1, "progress": False}

SERVER = """
import logging, os, sys, boto3
from moto.server import ThreadedMotoServer

logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
url = "http://{}:{}".format(*server.get_host_and_port())
boto3.client("s3", endpoint_url=url, region_name="us-east-1").create_bucket(Bucket="bucket")
print(url, flush=True)
sys.stdin.read()
"""

WORK = """
import sys, fastpack
files, out, tokenizer, rank = sys.argv[1:]
try:
    fastpack.pack_dir(files, out, tokenizer=tokenizer, max_length=64, threads=1, progress=False, max_lost=0,
                      groups=fastpack.Groups(1, rank=int(rank), world_size=2))
except fastpack.LossError:
    pass
"""


def timed(what, function):
    """Prints the seconds that a function takes, those of the processor apart, and returns its result."""
    began, worked = time.perf_counter(), time.process_time()
    result = function()
    taken, worked = time.perf_counter() - began, time.process_time() - worked
    print(f"| {what} | {taken:.2f} | {worked:.2f} |", flush=True)
    return result


@contextlib.contextmanager
def bucket():
    """The URL of a folder in a bucket, of a server in a process of its own."""
    os.environ |= {
        "AWS_ACCESS_KEY_ID": "an-access-key",
        "AWS_SECRET_ACCESS_KEY": "a-secret-key",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", SERVER], **pipes) as server:
        os.environ["AWS_ENDPOINT"] = server.stdout.readline().strip()
        yield "s3://bucket/out"
        server.kill()


def main():
    """Packs the groups, and measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--s3", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
        out = stack.enter_context(bucket()) if arguments.s3 else Path(folder, "out")
        measure(Path(folder, "files"), out, arguments.groups)


def measure(files, out, groups):
    """Packs groups of one file each, and measures the work around them."""
    files.mkdir()
    for number in range(groups):
        # Rows have no room for one document, so that a limit on losses stops the job before its end.
        text = "boat " * (500 if number == 0 else 10 + number % 7)
        line = f'{{"messages": [{{"role": "user", "content": "hi"}}, {{"role": "assistant", "content": "{text}"}}]}}\n'
        Path(files, f"part-{number:06}.jsonl").write_text(line, encoding="utf-8")
    print("| work | seconds | of the processor |\n|---|---|---|")

    def pack_groups():
        arguments = [sys.executable, "-c", WORK, str(files), str(out), str(TOKENIZER)]
        processes = [subprocess.Popen([*arguments, str(rank)]) for rank in range(2)]
        assert [process.wait() for process in processes] == [0, 0]

    timed(f"pack {groups:,} groups, two processes", pack_groups)
    timed("list inputs", lambda: list_inputs(files, out))
    status = timed("status", lambda: fastpack.status(out))
    assert status.steps[0].done == status.steps[0].groups == groups, status
    report = timed(
        "list inputs and put the output together",
        lambda: fastpack.pack_dir(files, out, tokenizer=str(TOKENIZER), **OPTIONS),
    )
    assert report.documents.read == groups
    timed("status of the finished job", lambda: fastpack.status(out))
    timed("the same call again", lambda: fastpack.pack_dir(files, out, tokenizer=str(TOKENIZER), **OPTIONS))


def list_inputs(files, out):
    """Lists the inputs, and cuts them into groups."""
    from fastpack import _fastpack
    from fastpack.options import options_of
    from fastpack.options.native import native_inputs, native_output

    arguments = {option.name: option.default for option in options_of("pack_dir")}
    arguments |= {**OPTIONS, "files": str(files), "output": str(out)}
    return _fastpack.list_groups(native_inputs(arguments), native_output(arguments))


if __name__ == "__main__":
    main()
