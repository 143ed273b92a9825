"""Measures the same records in every container, beside JSON Lines and beside the decompressor alone, in one run.

    python benches/python/containers.py [--megabytes 20] [--rounds 3] [--threads 2]

Real chats and the llama3 tokenizer are used where `$FASTPACK_DATA` (or `../shared/data` beside the checkout) has them;
else a small tokenizer is trained on the seeded corpus.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet

import fastpack
import fastpack._fastpack as native

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from run import PAIRS, data, head, machine, templates, train  # noqa: E402

import corpus  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_LENGTH = 4096


def seconds(work: Callable[[], object]) -> tuple[float, float]:
    """The wall time and the CPU time of a call."""
    started, busy = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - started, time.process_time() - busy


def containers(lines: Path) -> dict[str, Path]:
    """Write the records into each container."""
    records = [json.loads(line) for line in lines.read_bytes().splitlines()]
    table = pa.Table.from_pylist(records)
    # A field that no shape reads costs nothing in the containers that skip it.
    wide = table.append_column("noise", pa.array([line[::-1] for line in lines.read_text().splitlines()]))
    files = {name: lines.with_name(f"data.{name}") for name in ("jsonl.gz", "parquet", "arrow", "json")}
    files |= {"jsonl": lines, "parquet, wide": lines.with_name("wide.parquet")}
    files["jsonl.gz"].write_bytes(gzip.compress(lines.read_bytes(), 6))
    files["json"].write_text(json.dumps(records), encoding="utf-8")
    pa.parquet.write_table(table, files["parquet"])
    pa.parquet.write_table(wide, files["parquet, wide"])
    with pa.ipc.new_stream(files["arrow"], table.schema) as writer:
        writer.write_table(table, max_chunksize=1_000)
    return dict(sorted(files.items(), key=lambda file: file[0] != "jsonl"))


def tokens(lines: Path, tokenizer: fastpack.Tokenizer, template: Path) -> dict[str, Path]:
    """Write the ids of the records, which leave little to do but to read them, as lines and as gzip."""
    options = {"max_length": MAX_LENGTH, "chat_template": template}
    packed = fastpack.pack_files(lines, tokenizer, **options).column("input_ids").to_pylist()
    ids = "".join(f"{json.dumps({'input_ids': row})}\n" for row in packed).encode()
    files = {name: lines.with_name(f"ids.{name}") for name in ("jsonl", "jsonl.gz")}
    files["jsonl"].write_bytes(ids)
    files["jsonl.gz"].write_bytes(gzip.compress(ids, 6))
    return files


def padded(lines: Path) -> dict[str, Path]:
    """Write the records beside a field that nobody reads: random, twice as large, and dear to unpack."""
    random = Random(0)
    files = {name: lines.with_name(f"padded.{name}") for name in ("jsonl", "jsonl.gz")}
    with files["jsonl"].open("wb") as out:
        for line in lines.read_bytes().splitlines():
            noise = base64.b64encode(random.randbytes(len(line) * 3 // 2))
            out.write(b'{"noise": "' + noise + b'", ' + line[1:] + b"\n")
    files["jsonl.gz"].write_bytes(gzip.compress(files["jsonl"].read_bytes(), 6))
    return files


def measure(files: dict[str, Path], pack: Callable[[Path], object], rounds: int) -> list[str]:
    """Pack each container in turn, and unpack the gzip file by itself; a line of the table each."""
    taken: dict[str, list[tuple[float, float]]] = {}
    for _ in range(rounds):
        for name, path in files.items():
            taken.setdefault(name, []).append(seconds(lambda path=path: pack(path)))
        taken.setdefault("gunzip alone (zlib)", []).append(
            seconds(lambda: gzip.decompress(files["jsonl.gz"].read_bytes()))
        )
    size = files["jsonl"].stat().st_size
    medians = {name: statistics.median(wall for wall, _ in of) for name, of in taken.items()}
    busy = {name: statistics.median(cpu / wall for wall, cpu in of) for name, of in taken.items()}
    return [
        f"| {name} | {median:.2f} | {busy[name]:.1f} | {size / median / 1e6:.0f} | {medians['jsonl'] / median:.2f} |"
        for name, median in medians.items()
    ]


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=float, default=20, help="size of the corpus (default: 20)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each container (default: 3)")
    parser.add_argument("--threads", type=int, default=2, help="worker threads (default: 2)")
    arguments = parser.parse_args()
    if native.build_profile != "release":
        raise SystemExit("the extension is a debug build: `make bench-containers` builds the right one")
    shared = data()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        lines = scratch / "data.jsonl"
        if shared is None:
            corpus.write(lines, megabytes=arguments.megabytes, seed=0)
            tokenizer, template = train(lines, scratch / "tokenizer"), templates() / "qwen2_5_training.jinja"
        else:
            head(shared / "corpora" / "chat.jsonl", lines, arguments.megabytes)
            [(tokenizer_name, template_name)] = PAIRS[:1]
            tokenizer, template = shared / "tokenizers" / tokenizer_name, templates() / template_name
        print(f"{machine()}, {arguments.threads} threads, medians of {arguments.rounds} rounds in turn")
        loaded = fastpack.Tokenizer(tokenizer)
        threads = arguments.threads

        def chats(path: Path) -> object:
            return fastpack.pack_files(
                path, loaded, max_length=MAX_LENGTH, chat_template=template, threads=threads
            )

        def ids(path: Path) -> object:
            return fastpack.pack_files(path, loaded, max_length=MAX_LENGTH, threads=threads)

        for what, files, pack in [
            ("chats", containers(lines), chats),
            ("ids, which are only read", tokens(lines, loaded, template), ids),
            ("chats beside a field that nobody reads", padded(lines), chats),
        ]:
            print(f"\n{what}\n\n| container | seconds | cores busy | MB/s of JSON Lines | × jsonl |")
            print("|---|---:|---:|---:|---:|")
            print("\n".join(measure(files, pack, arguments.rounds)))


if __name__ == "__main__":
    main()
