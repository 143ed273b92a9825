"""The cost of reading from remote storage beside reading local files: processor time, requests, and time to wait.

    python benches/python/remote.py --megabytes 64

The S3 server (`moto`) and the web server run in processes of their own, so that only the client is counted. Each figure is the best of
`--rounds` runs, which take turns.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import boto3
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).parents[2]
TOKENIZER = ROOT / "examples" / "tokenizer"
KEYS = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "aws_region": "us-east-1"}

CLIENT = """
import json, sys, time
import fastpack
name, files, tokenizer, options = json.loads(sys.argv[1])
if "storage" in options:
    options["storage"] = fastpack.Storage(**options["storage"])
began, worked = time.monotonic(), time.process_time()
if name == "stream":
    first = next(iter(fastpack.stream(files, tokenizer, max_length=2048, shuffle=False, **options)))
    print(json.dumps([time.monotonic(), time.process_time() - worked]))
else:
    fastpack.pack_files(files, tokenizer, max_length=2048, strategy="sequential", **options)
    print(json.dumps([time.monotonic() - began, time.process_time() - worked]))
"""

WEB_SERVER = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
from web_server import Faults, Server, serving

first = []
send = Server.finish_request

def finish_request(self, *given):
    first.append(time.monotonic())
    send(self, *given)

Server.finish_request = finish_request
with serving(sys.argv[2], Faults(delay=float(sys.argv[3]))) as server:
    print(server.url, flush=True)
    for _ in sys.stdin:
        print(json.dumps([len(server.requests), server.bytes, first[0] if first else 0]), flush=True)
        server.requests.clear()
        first.clear()
        server.bytes = 0
"""

S3_SERVER = """
import sys
from moto.server import ThreadedMotoServer

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print("http://{}:{}".format(*server.get_host_and_port()), flush=True)
sys.stdin.read()
"""


class Started:
    """A server in a process of its own."""

    def __init__(self, code, *arguments):
        command = [sys.executable, "-c", code, *map(str, arguments)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.url = self.process.stdout.readline().strip()

    def counts(self):
        """The requests, the bytes, and the time of the first connection since the last call."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def stop(self):
        """Ends the server."""
        self.process.stdin.close()
        self.process.wait()


def client(name, files, **options):
    """The seconds of a call, and those of the processor, in a process of its own."""
    call = json.dumps([name, files, str(TOKENIZER), options])
    done = subprocess.run([sys.executable, "-c", CLIENT, call], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def write(folder, megabytes):
    """The same conversations as lines, as compressed lines, as one compressed array and as a table."""
    chances = random.Random(1)
    words = (ROOT / "README.md").read_text(encoding="utf-8").split()
    records, size = [], 0
    while size < megabytes << 20:
        turns = [" ".join(chances.choices(words, k=chances.randrange(20, 200))) for _ in range(2)]
        records.append(
            {
                "messages": [
                    {"role": role, "content": text}
                    for role, text in zip(("user", "assistant"), turns, strict=True)
                ]
            }
        )
        size += sum(map(len, turns)) + 80
    lines = [json.dumps(record) for record in records]
    (folder / "data.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "data.json.gz").write_bytes(gzip.compress(f"[{', '.join(lines)}]".encode(), 1))
    pq.write_table(pa.Table.from_pylist(records), folder / "data.parquet", row_group_size=2000)


def main():
    """Writes the files, starts the servers, and measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "data")
        folder.mkdir()
        write(folder, arguments.megabytes)
        store = Started(S3_SERVER)
        helpers = ROOT / "tests" / "python" / "support" / "servers"
        near, far = Started(WEB_SERVER, helpers, folder, 0), Started(WEB_SERVER, helpers, folder, 0.02)
        os.environ["XDG_CACHE_HOME"] = f"{name}/cache"
        try:
            measure(folder, (store, near, far), arguments.rounds)
        finally:
            for server in (store, near, far):
                server.stop()


def measure(folder, servers, rounds):
    """Prints the table."""
    store, near, far = servers
    s3 = boto3.client(
        "s3",
        endpoint_url=store.url,
        region_name="us-east-1",
        aws_access_key_id="a",
        aws_secret_access_key="b",
    )
    s3.create_bucket(Bucket="bench")
    options = {**KEYS, "aws_endpoint": store.url, "aws_allow_http": "true"}
    print("| input | seconds | of the processor | to local | requests per GB |\n|---|---|---|---|---|")
    for file in ("data.jsonl", "data.parquet"):
        path = folder / file
        s3.upload_file(str(path), "bench", file)
        # Without `cache_dir`, in which tokens are kept too: only the blocks are.
        kept = {"storage": {"block_cache": "4GB"}}
        roads = {
            "local": (str(path), {}, None),
            "S3": (f"s3://bench/{file}", {"storage": {"options": options}}, None),
            "web": (f"{near.url}/{file}", {}, near),
            "web, 20 ms": (f"{far.url}/{file}", {}, far),
            "web, kept blocks": (f"{near.url}/{file}", kept, near),
        }
        client("pack_files", f"{near.url}/{file}", **kept)
        near.counts()
        found = {road: [] for road in roads}
        requests = {}
        for _ in range(rounds):
            for road, (files, more, server) in roads.items():
                found[road].append(client("pack_files", files, **more))
                if server is not None:
                    requests[road] = server.counts()[0] / (path.stat().st_size / 1e9)
        best = {road: [min(column) for column in zip(*runs, strict=True)] for road, runs in found.items()}
        for road, (seconds, worked) in best.items():
            ratio = worked / best["local"][1]
            per_gigabyte = f"{requests[road]:.0f}" if road in requests else ""
            print(
                f"| {file}, {road} | {seconds:.2f} | {worked:.2f} | {ratio:.2f} | {per_gigabyte} |",
                flush=True,
            )
    waits = []
    for _ in range(rounds):
        near.counts()
        first_table, _ = client("stream", f"{near.url}/data.json.gz")
        waits.append(first_table - near.counts()[2])
    size = (folder / "data.json.gz").stat().st_size / 1e6
    print(
        f"\nThe first table of a stream from a .json.gz of {size:.0f} MB: {min(waits):.2f} s after the first connection"
    )


if __name__ == "__main__":
    started = time.perf_counter()
    main()
    print(f"{time.perf_counter() - started:.0f} s in all")
