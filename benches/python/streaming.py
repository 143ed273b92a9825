"""Measures streams of packed rows: fastpack beside what else tokenizes and packs while training reads, in one run.

    python benches/python/streaming.py [--megabytes 27] [--rounds 3] [--threads 2] [--texts chat]

Each contender is a process of its own: it loads the tokenizer, then the clock starts; a peer gets 20 seconds of steady
state at most, in one round. Peers that are not installed are left out and said so. MosaicML Streaming has an environment of its own,
`.venv-mosaic`, and reads rows that fastpack tokenized and packed before its clock starts: its rate is that of reading. Real texts
and tokenizers are used where `$FASTPACK_DATA` (or `../shared/data` beside the checkout) has them.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import pickle
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

MAX_LENGTH = 4096
BATCH = 8
STEADY = 200
"""Tables of the steady state."""

LONGEST = 240
"""Seconds that a contender may take: Epochraft sometimes waits for ever."""

TEXTS = ("text-en", "chat")
"""The corpora."""


def peak() -> int:
    """The most memory that this process had, in megabytes."""
    # If the system tells it, without the memory of the process that has started this one.
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="utf-8").splitlines() if status.exists() else []
    most = [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
    return (most or [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss])[0] // 1024


def processor() -> float:
    """Seconds of processor time that this process took."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def tokens_of(table: Any) -> int:
    """The tokens in a table."""
    return len(table.column("input_ids").combine_chunks().values)


def pack_files(corpus: str, tokenizer: str, threads: int) -> dict[str, float]:
    """The same rows all at once: the speed that a stream is measured by."""
    import fastpack

    loaded = fastpack.Tokenizer(tokenizer)
    started, used = time.perf_counter(), processor()
    table = fastpack.pack_files(corpus, loaded, max_length=MAX_LENGTH, threads=threads)
    seconds, used = time.perf_counter() - started, processor() - used
    tokens = fastpack.Report.of(table).tokens.kept
    return {"rate": tokens / seconds, "work": tokens / used, "peak": peak()}


def measured(stream: Any, state: Callable[[], Any]) -> dict[str, float]:
    """The figures of a stream of tables."""
    started = time.perf_counter()
    next(stream)
    first = time.perf_counter() - started
    tokens, rows = 0, 0
    began, used = time.perf_counter(), processor()
    for _ in range(STEADY):
        table = next(stream)
        tokens += tokens_of(table)
        rows += table.num_rows
    seconds, used = time.perf_counter() - began, processor() - used
    text = json.dumps(state()).encode()
    return {
        "first": first,
        "rate": tokens / seconds,
        "work": tokens / used,
        "fill": tokens / (rows * MAX_LENGTH),
        "state": len(zlib.compress(text)),
        "peak": peak(),
    }


def fastpack_stream(corpus: str, tokenizer: str, threads: int) -> dict[str, float]:
    """A stream in this process, without end; then another that resumes from its state."""
    import fastpack

    loaded = fastpack.Tokenizer(tokenizer)

    def make() -> Any:
        return fastpack.stream(
            corpus, loaded, max_length=MAX_LENGTH, batch_size=BATCH, epochs=None, threads=threads
        )

    with make() as stream:
        found = measured(stream, stream.state_dict)
        state = stream.state_dict()
    with make() as stream:
        started = time.perf_counter()
        stream.load_state_dict(state)
        next(stream)
        found["resume"] = time.perf_counter() - started
    return found


def fastpack_socket(corpus: str, tokenizer: str, threads: int) -> dict[str, float]:
    """A stream in another process, through a Unix socket."""
    import fastpack

    with tempfile.TemporaryDirectory() as folder:
        place = f"unix:{folder}/s"
        command = [sys.executable, "-m", "fastpack", "stream", corpus, "-t", tokenizer, "-m", str(MAX_LENGTH)]
        command += ["--batch-size", str(BATCH), "--epochs", "0", "--threads", str(threads), "--to", place]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
            assert server.stderr is not None
            server.stderr.readline()
            with fastpack.connect(place) as stream:
                found = measured(stream, stream.state_dict)
            server.terminate()
    return {**found, "work": 0.0}


class Peer(NamedTuple):
    """A stream of rows of another library: the rows, its state, and the same stream resumed from a state."""

    rows: Iterator[Sequence[int]]
    state: Callable[[], Any]
    resumed: Callable[[Any], Iterator[Sequence[int]]]


def text_of(record: dict[str, Any]) -> str:
    """The text of a record, or those of its messages one below the other."""
    if "text" in record:
        return str(record["text"])
    return "\n".join(str(message["content"]) for message in record["messages"])


def mapped(corpus: str, tokenizer: str) -> Any:
    """A mapped `datasets.IterableDataset`, which a user of Hugging Face writes."""
    import datasets
    from transformers import AutoTokenizer

    loaded = AutoTokenizer.from_pretrained(tokenizer)

    def pack(batch: dict[str, list[Any]]) -> dict[str, list[list[int]]]:
        columns = [dict(zip(batch, row, strict=True)) for row in zip(*batch.values(), strict=True)]
        ids = loaded([text_of(record) for record in columns], add_special_tokens=False)["input_ids"]
        flat = [token for document in ids for token in document]
        count = len(flat) // MAX_LENGTH
        return {"input_ids": [flat[at * MAX_LENGTH : (at + 1) * MAX_LENGTH] for at in range(count)]}

    data = datasets.load_dataset("json", data_files=corpus, split="train", streaming=True)
    return data.map(pack, batched=True, batch_size=1000, remove_columns=data.column_names).repeat(None)


def rows_measured(make: Callable[[], Peer]) -> dict[str, float]:
    """The figures of a peer: a stream, then another that resumes from its state."""
    started = time.perf_counter()
    peer = make()
    for _ in range(BATCH):
        next(peer.rows)
    first = time.perf_counter() - started
    # A peer that ends, though it was told to go on, has no state to resume from afterwards.
    state = peer.state()
    tokens, count, began, used = 0, 0, time.perf_counter(), processor()
    for row in peer.rows:
        tokens += len(row)
        count += 1
        if time.perf_counter() - began > 20 or count == STEADY * BATCH:
            break
    seconds, used = time.perf_counter() - began, processor() - used
    most = peak()
    started = time.perf_counter()
    next(peer.resumed(state))
    resume = time.perf_counter() - started
    return {
        "first": first,
        "rate": tokens / seconds,
        "work": tokens / max(used, 1e-9),
        "fill": tokens / max(count * MAX_LENGTH, 1),
        "state": len(zlib.compress(pickle.dumps(state))),
        "resume": resume,
        "peak": most,
    }


def datasets_stream(corpus: str, tokenizer: str, threads: int) -> dict[str, float]:
    """Hugging Face `datasets`, tokenizing and packing in `map`, in the workers of torchdata's `StatefulDataLoader`."""
    from torchdata.stateful_dataloader import StatefulDataLoader

    data = mapped(corpus, tokenizer)

    def start() -> tuple[Any, Callable[[], Iterator[list[int]]]]:
        # One file is one shard, so one worker reads it.
        loader = StatefulDataLoader(
            data, batch_size=BATCH, num_workers=min(threads, 1), collate_fn=list, prefetch_factor=2
        )
        return loader, lambda: (row["input_ids"] for batch in loader for row in batch)

    def resumed(state: Any) -> Iterator[list[int]]:
        loader, rows = start()
        loader.load_state_dict(state)
        return rows()

    def make() -> Peer:
        loader, rows = start()
        return Peer(rows(), loader.state_dict, resumed)

    # The work is done by the processes of the loader, whose time is not known while they run.
    return {**rows_measured(make), "work": 0.0}


def grain_stream(corpus: str, tokenizer: str, threads: int) -> dict[str, float]:  # noqa: ARG001
    """Grain: a source of texts in memory, tokenized in `map`, packed by first fit."""
    import grain
    import numpy as np
    from transformers import AutoTokenizer

    loaded = AutoTokenizer.from_pretrained(tokenizer)
    lines = Path(corpus).read_text(encoding="utf-8").splitlines()
    texts = [text_of(json.loads(line)) for line in lines]

    def encoded(text: str) -> dict[str, Any]:
        ids = loaded(text, add_special_tokens=False, truncation=True, max_length=MAX_LENGTH)["input_ids"]
        return {"input_ids": np.asarray(ids or [0], dtype=np.int32)}

    def start() -> Any:
        data = grain.MapDataset.source(texts).shuffle(seed=0).repeat().map(encoded).to_iter_dataset()
        packed = grain.experimental.FirstFitPackIterDataset(
            data, length_struct={"input_ids": MAX_LENGTH}, num_packing_bins=64
        )
        return iter(packed)

    def rows_of(rows: Any) -> Iterator[list[int]]:
        # Places without a document have the segment 0.
        return (row["input_ids"][row["input_ids_segment_ids"] > 0].tolist() for row in rows)

    def resumed(state: Any) -> Iterator[list[int]]:
        rows = start()
        rows.set_state(state)
        return rows_of(rows)

    def make() -> Peer:
        rows = start()
        return Peer(rows_of(rows), rows.get_state, resumed)

    return rows_measured(make)


def epochraft_stream(corpus: str, tokenizer: str, threads: int) -> dict[str, float]:
    """Epochraft: lines of a file, tokenized by threads, concatenated and cut."""
    from epochraft import CheckpointableDataset
    from transformers import AutoTokenizer

    loaded = AutoTokenizer.from_pretrained(tokenizer)
    data = (
        CheckpointableDataset.from_files(corpus, repeat=True, format="jsonl")
        .map(lambda record: {"text": text_of(record)})
        .tokenize(loaded, tokenizer_kwargs={"add_special_tokens": False}, max_workers=threads)
        .ensure_bos_eos(loaded)
        .concat_chunk(MAX_LENGTH)
    )

    def rows_of(rows: Any) -> Iterator[list[int]]:
        return (row["input_ids"].tolist() for row in rows)

    def make() -> Peer:
        rows = data.iter()
        return Peer(rows_of(rows), rows.state_dict, lambda state: rows_of(data.iter(state_dict=state)))

    return rows_measured(make)


MOSAIC = "MosaicML Streaming, reading packed rows"

MOSAIC_PYTHON = HERE.parents[1] / ".venv-mosaic" / "bin" / "python"
"""An environment of its own, since MosaicML Streaming refuses today's transformers."""


def packed_rows(corpus: Path, tokenizer: Path, threads: int, folder: Path) -> Path:
    """The rows of a corpus as a matrix of ids, filled up with -1."""
    import numpy as np

    import fastpack

    table = fastpack.pack_files(corpus, fastpack.Tokenizer(tokenizer), max_length=MAX_LENGTH, threads=threads)
    rows = np.full((table.num_rows, MAX_LENGTH), -1, dtype=np.int32)
    for row, ids in zip(rows, table.column("input_ids"), strict=True):
        row[: len(ids)] = ids.values.to_numpy()
    place = folder / f"{corpus.stem}.npy"
    np.save(place, rows)
    return place


def mosaic_stream(corpus: str, tokenizer: str, threads: int) -> dict[str, float]:  # noqa: ARG001
    """MosaicML Streaming: rows that were packed before, written as MDS shards, read in a shuffled order."""
    import numpy as np

    # This file has the name of the library.
    sys.path[:] = [folder for folder in sys.path if Path(folder).resolve() != HERE]
    from streaming import MDSWriter, StreamingDataLoader, StreamingDataset

    folder = tempfile.mkdtemp(dir=Path(corpus).parent)
    with MDSWriter(out=folder, columns={"input_ids": f"ndarray:int32:{MAX_LENGTH}"}) as writer:
        for row in np.load(corpus):
            writer.write({"input_ids": row})

    def start() -> Any:
        data = StreamingDataset(local=folder, shuffle=True, batch_size=BATCH)
        return StreamingDataLoader(data, batch_size=BATCH, num_workers=min(threads, 1))

    def rows_of(loader: Any) -> Iterator[Sequence[int]]:
        while True:
            for batch in loader:
                for row in batch["input_ids"]:
                    yield row[row >= 0]

    def resumed(state: Any) -> Iterator[Sequence[int]]:
        loader = start()
        loader.load_state_dict(state)
        return rows_of(loader)

    def make() -> Peer:
        loader = start()
        return Peer(rows_of(loader), loader.state_dict, resumed)

    return {**rows_measured(make), "work": 0.0}


CONTENDERS: dict[str, tuple[Callable[[str, str, int], dict[str, float]], tuple[str, ...]]] = {
    "fastpack.pack_files": (pack_files, ()),
    "fastpack.stream": (fastpack_stream, ()),
    "fastpack.stream, Unix socket": (fastpack_socket, ()),
    "datasets, `map`, StatefulDataLoader": (datasets_stream, ("datasets", "torchdata", "transformers")),
    "Grain, first fit": (grain_stream, ("grain", "transformers")),
    "Epochraft, concatenated": (epochraft_stream, ("epochraft", "transformers")),
    MOSAIC: (mosaic_stream, ()),
}


def run_alone(name: str, corpus: Path, tokenizer: Path, threads: int) -> dict[str, float] | None:
    """Runs a contender in a process of its own; `None` if what it needs is not installed, or if it does not end."""
    if any(importlib.util.find_spec(package) is None for package in CONTENDERS[name][1]):
        return None
    python = str(MOSAIC_PYTHON) if name == MOSAIC else sys.executable
    if not Path(python).exists():
        return None
    command = [python, str(HERE / "streaming.py"), "--one", name, str(corpus), str(tokenizer)]
    contender = subprocess.Popen(
        [*command, "--threads", str(threads)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
        start_new_session=True,
    )
    try:
        printed, complaint = contender.communicate(timeout=LONGEST)
    except subprocess.TimeoutExpired:
        # With the processes that it has started.
        os.killpg(contender.pid, signal.SIGKILL)
        contender.communicate()
        print(f"{name}: no end after {LONGEST} s, left out", file=sys.stderr)
        return None
    if contender.returncode:
        raise SystemExit(f"{name}: {complaint}")
    found: dict[str, float] = json.loads(printed.splitlines()[-1])
    return found


def compare(name: str, corpus: Path, tokenizer: Path, rounds: int, threads: int) -> None:
    """Runs all contenders in turn, and prints their lines of the table."""
    runs: dict[str, list[dict[str, float]]] = {contender: [] for contender in CONTENDERS}
    rows = packed_rows(corpus, tokenizer, threads, corpus.parent) if MOSAIC_PYTHON.exists() else corpus
    for number in range(rounds):
        for contender, found in runs.items():
            if number and not contender.startswith("fastpack"):
                continue
            read = rows if contender == MOSAIC else corpus
            one = run_alone(contender, read, tokenizer, threads)
            if one is not None:
                found.append(one)
    base = statistics.median(it["rate"] for it in runs["fastpack.pack_files"])
    for contender, found in runs.items():
        if not found:
            print(f"| {name} | {contender}: not installed, or without an end |||||||||", flush=True)
            continue
        of = {key: statistics.median(it[key] for it in found) for key in found[0]}
        figures = [("first", 1, 3), ("rate", 1e6, 2), ("work", 1e6, 2)]
        shown = [f"{of[key] / scale:.{digits}f}" if of.get(key) else "" for key, scale, digits in figures]
        shown.append(f"{of['rate'] / base:.2f}")
        figures = [("fill", 1, 4), ("state", 1e3, 1), ("resume", 1, 3), ("peak", 1, 0)]
        shown += [f"{of[key] / scale:.{digits}f}" if of.get(key) else "" for key, scale, digits in figures]
        print(f"| {name} | {contender} | {' | '.join(shown)} | {of['rate'] / 3000:.0f} |", flush=True)


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=float, default=27, help="size of a corpus (default: 27)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each (default: 3)")
    parser.add_argument("--threads", type=int, default=2, help="worker threads (default: 2)")
    parser.add_argument("--texts", action="append", choices=TEXTS, help="a corpus to measure (default: both)")
    parser.add_argument(
        "--any-build", action="store_true", help="to try it: no figures of a debug build are true"
    )
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        name, corpus, tokenizer = arguments.one
        print(json.dumps(CONTENDERS[name][0](corpus, tokenizer, arguments.threads)))
        return
    import fastpack._fastpack as native

    if native.build_profile != "release" and not arguments.any_build:
        raise SystemExit("the extension is a debug build: `make bench-stream` builds the right one")
    from run import data, head, machine

    shared = data()
    if shared is None:
        raise SystemExit("real texts are needed: set FASTPACK_DATA")
    print(
        f"{machine()}, {arguments.threads} threads, medians of {arguments.rounds} rounds in turn, one of peers\n"
    )
    print(
        "| texts | contender | first table, s | Mtok/s | Mtok/s a core | of pack_files | fill | state, KB | resume, s | peak, MB | GPUs fed, 7B |"
    )
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.texts or TEXTS:
            corpus = head(
                shared / "corpora" / f"{name}.jsonl", Path(folder) / f"{name}.jsonl", arguments.megabytes
            )
            compare(name, corpus, shared / "tokenizers" / "llama3", arguments.rounds, arguments.threads)


if __name__ == "__main__":
    main()
