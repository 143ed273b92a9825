"""Measures what packing buys in training: the same documents padded and packed, and the file formats of rows.

    python benches/python/training/training.py [--plot FILE.svg]

Each way of training runs in a process of its own, on one thread. Time is CPU time, so that other work on the machine
counts little; peak memory is that of the process.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import fastpack
from fastpack.torch import PackedDataset, collate, count_trained, loss

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Row = Mapping[str, object]

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[2] / "examples"
WAYS = {
    "packed": "packed",
    "longest": "padded to the longest of the batch",
    "max": "padded to the row length",
}


@dataclass(frozen=True)
class Case:
    """Documents, and a model that trains on them.

    Attributes:
        name: The name in a table.
        row: Tokens of a packed row.
        rows: Packed rows of a step; the other ways train on the documents of these.
        steps: Steps that are measured, after one that is not.
        hidden: Width of the model.
        layers: Layers of the model.
        vocabulary: Tokens that the model knows.
        ways: How the documents reach the model.
    """

    name: str
    row: int
    rows: int
    steps: int
    hidden: int
    layers: int
    vocabulary: int
    ways: tuple[str, ...]


CHATS = Case("chats", 1024, 4, 60, 128, 3, 2048, ("packed", "longest"))
LONG = Case("mean 512, longest 4,096", 4096, 1, 6, 128, 2, 512, ("packed", "longest", "max"))


def chats() -> Path:
    """Real conversations where there are any, else those of the examples."""
    real = HERE.parents[3] / "shared/data/corpora/chat.jsonl"
    return real if real.is_file() else EXAMPLES / "chat.jsonl"


def pack_chats(case: Case, folder: str) -> None:
    """Packs conversations."""
    fastpack.pack_dir(
        chats(), folder, tokenizer=EXAMPLES / "tokenizer", max_length=case.row, progress=False, max_lost=None
    )


def pack_lengths(case: Case, folder: str) -> None:
    """Packs random ids in documents of mean 512 and at most 4,096 tokens."""
    random = np.random.default_rng(0)
    lengths = random.exponential(1, case.steps * case.row // 512 - 1)
    lengths = lengths * (case.steps - 1) * case.row / lengths.sum()
    lengths = np.append(np.clip(lengths, 2, case.row).astype(int), case.row)
    ids = [random.integers(3, case.vocabulary, length, np.int32) for length in lengths]
    table = pa.table({"input_ids": ids, "labels": ids})
    fastpack.pack_table(table, max_length=case.row, output=folder, progress=False)


def documents_of(rows: list[Row]) -> list[Row]:
    """The documents of packed rows, as rows of one document each."""
    found: list[Row] = []
    for row in rows:
        ends = np.cumsum(np.asarray(row["seq_lengths"]))
        for start, end in zip([0, *ends[:-1]], ends, strict=True):
            part = {name: np.asarray(row[name])[start:end] for name in ("input_ids", "labels")}
            found.append({**part, "seq_lengths": np.array([end - start])})
    return found


def batches(case: Case, way: str, folder: str) -> Iterator[tuple[Mapping[str, torch.Tensor], int]]:
    """The batches of all steps, and the first one before them, each with its number of tokens without padding."""
    dataset = PackedDataset(folder)
    for step in [0, *range(case.steps)]:
        rows = [
            dataset[step * case.rows + at] for at in range(case.rows) if step * case.rows + at < len(dataset)
        ]
        if way == "packed":
            # Rows apart: without flash attention, rows end to end would attend over the whole batch, and mask most.
            batch = collate(rows, padded=case.row)
        else:
            width = "longest" if way == "longest" else case.row
            batch = collate(documents_of(rows), padded=width, mask="padding")
        yield batch, sum(len(np.asarray(row["input_ids"])) for row in rows)


def train(case: Case, way: str, folder: str) -> dict[str, object]:
    """Trains a model, and measures it."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=case.vocabulary,
            hidden_size=case.hidden,
            intermediate_size=3 * case.hidden,
            num_hidden_layers=case.layers,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=case.row,
        )
    )
    # With a smaller eps, Adam makes steps of the rounding errors of gradients near 0, and any two runs drift apart.
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, eps=1e-4)
    losses, seconds, positions, tokens = [], 0.0, 0, 0
    for step, (batch, real) in enumerate(batches(case, way, folder)):
        labels = batch["labels"]
        inputs = {name: value for name, value in batch.items() if name != "labels"}
        start = time.process_time()
        found = loss(model(**inputs), labels, count_trained([batch]))
        found.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step:
            seconds += time.process_time() - start
            positions += batch["input_ids"].numel()
            tokens += real
        losses.append(float(found.detach()))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"losses": losses, "seconds": seconds, "positions": positions, "tokens": tokens, "peak": peak}


def measured(case: Case, pack: Callable[[Case, str], None]) -> dict[str, dict[str, object]]:
    """The figures of each way of training, in a process of its own."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        pack(case, folder)
        for way in case.ways:
            job = json.dumps({"case": asdict(case), "way": way, "folder": folder})
            done = subprocess.run(
                [sys.executable, __file__, "--job", job], capture_output=True, text=True, check=True
            )
            found[way] = json.loads(done.stdout.splitlines()[-1])
    return found


def print_case(case: Case, found: Mapping[str, Mapping[str, float]]) -> None:
    """A table of the ways of training."""
    print(f"\n{case.name}: rows of {case.row:,} tokens, {case.rows} rows a step, {case.steps} steps\n")
    print("| the same documents | padding | real tokens/s | against packed | peak memory, MB |")
    print("|---|---:|---:|---:|---:|")
    best = found["packed"]["tokens"] / found["packed"]["seconds"]
    for way, it in found.items():
        speed = it["tokens"] / it["seconds"]
        padding = 1 - it["tokens"] / it["positions"]
        print(
            f"| {WAYS[way]} | {padding:.1%} | {speed:,.0f} | {best / speed:.2f}× slower | {it['peak']:,.0f} |"
        )


def print_prediction(case: Case, found: Mapping[str, Mapping[str, float]]) -> None:
    """The waste and the gain that the lengths alone predict, beside the measured ones."""
    padded, packed = found["max"], found["packed"]
    mean = padded["tokens"] / (padded["positions"] / case.row)
    waste = 1 - mean / case.row
    gain = (padded["seconds"] / padded["tokens"]) / (packed["seconds"] / packed["tokens"])
    print("\n| padded to the row length | predicted from the lengths | measured |\n|---|---:|---:|")
    print(f"| padding | {waste:.1%} | {1 - padded['tokens'] / padded['positions']:.1%} |")
    print(f"| time of a real token, against packed | {case.row / mean:.1f}× | {gain:.1f}× |")


def formats() -> None:
    """A table of the file formats: seconds to write, bytes, and seconds until all rows were tensors."""
    print(
        "\n| rows as | from kept tokens to files, s | bytes a token | to tensors, s |\n|---|---:|---:|---:|",
        flush=True,
    )
    ways: dict[str, dict[str, str]] = {
        "`arrow`": {"format": "arrow"},
        '`arrow`, `layout="compact"`': {"format": fastpack.Format("arrow", layout="compact")},
        "`parquet`": {"format": "parquet"},
        '`parquet`, `layout="compact"`': {"format": fastpack.Format("parquet", layout="compact")},
        "`jsonl`": {"format": "jsonl"},
    }
    with tempfile.TemporaryDirectory() as place:
        kept = Path(place, "kept")
        fastpack.pack_dir(
            chats(),
            kept,
            tokenizer=EXAMPLES / "tokenizer",
            max_length=4096,
            keep_tokens=True,
            progress=False,
            max_lost=None,
        )
        for name, way in ways.items():
            folder = Path(place, "".join(way.values()))
            start = time.process_time()
            report = fastpack.repack(kept, folder, max_length=4096, progress=False, **way)
            write = time.process_time() - start
            size = sum(path.stat().st_size for path in folder.glob("train-*"))
            start = time.process_time()
            read_all(folder)
            seconds = time.process_time() - start
            print(
                f"| {name} | {write:.2f} | {size / report.tokens.kept:.2f} | {seconds:.2f} |",
                flush=True,
            )


def read_all(folder: Path) -> None:
    """Makes tensors of all rows, four at a time."""
    rows = PackedDataset(folder)
    for first in range(0, len(rows), 4):
        collate([rows[at] for at in range(first, min(first + 4, len(rows)))])


def plot(found: Mapping[str, Mapping[str, list[float]]], path: Path) -> None:
    """The losses of the same documents, by step and by seconds."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "fastpack"
    import matplotlib.pyplot as plt

    figure, (by_step, by_time) = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True, layout="constrained")
    styles = {"packed": ("-", 3.5, "#7aa6d8"), "longest": ("--", 1.3, "#b5302a")}
    for way, it in found.items():
        line, width, color = styles[way]
        losses = it["losses"][1:]
        by_step.plot(range(1, len(losses) + 1), losses, line, linewidth=width, color=color, label=WAYS[way])
        seconds = np.linspace(0, it["seconds"], len(losses) + 1)[1:]
        by_time.plot(seconds, losses, line, linewidth=width, color=color, label=WAYS[way])
    by_step.set(xlabel="step", ylabel="loss")
    by_time.set(xlabel="seconds of CPU")
    by_step.legend(frameon=False)
    for axes in (by_step, by_time):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Prints the tables, and draws the plot."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    parser.add_argument("--plot", type=Path, help="the file of the plot")
    arguments = parser.parse_args()
    if arguments.job:
        job = json.loads(arguments.job)
        case = Case(**{**job["case"], "ways": tuple(job["case"]["ways"])})
        print(json.dumps(train(case, job["way"], job["folder"])))
        return
    print(f"{chats().name}, one thread, CPU time; torch {torch.__version__}")
    for case, pack in ((CHATS, pack_chats), (LONG, pack_lengths)):
        found = measured(case, pack)
        print_case(case, found)
        if case is LONG:
            print_prediction(case, found)
        else:
            losses = [it["losses"] for it in found.values()]
            difference = max(abs(one - other) for one, other in zip(*losses, strict=True))
            print(
                f"\nlosses of the two ways lie at most {difference:.1e} apart; the last is {losses[0][-1]:.3f}"
            )
            if arguments.plot:
                plot(found, arguments.plot)
        sys.stdout.flush()
    formats()


if __name__ == "__main__":
    main()
