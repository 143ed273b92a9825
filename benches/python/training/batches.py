"""Measures how fast packed rows become tensors: `collate`, beside lists and the default collator."""

from __future__ import annotations

import statistics
import tempfile
import time

import numpy as np
import pyarrow as pa
import torch
from transformers import default_data_collator

import fastpack
import fastpack.hf
from fastpack.torch import PackedDataset, collate

TOKENS = 8_000_000
ROW = 4096
ROUNDS = 5


def packed(folder: str) -> None:
    """Rows of random documents, padded to one length so that the default collator takes them."""
    random = np.random.default_rng(0)
    lengths = random.geometric(1 / 500, TOKENS // 500)
    ids = random.integers(0, 128_000, lengths.sum(), np.int32)
    offsets = pa.array(np.concatenate([[0], lengths.cumsum()]), pa.int32())
    column = pa.ListArray.from_arrays(offsets, ids)
    fastpack.pack_table(
        pa.table({"input_ids": column, "labels": column}),
        max_length=ROW,
        output=folder,
        padding=fastpack.Padding("max_length", token_id=0),
        progress=False,
    )


def speed(make, rows: int) -> float:
    """Tokens a second of one core, in millions: the median of some rounds."""
    seconds = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for first in range(0, rows, 4):
            batch = make(range(first, min(first + 4, rows)))
            assert isinstance(batch["input_ids"], torch.Tensor)
        seconds.append(time.process_time() - start)
    return rows * ROW / statistics.median(seconds) / 1e6


def main() -> None:
    """Prints a table."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        packed(f"{folder}/packed")
        ours, theirs = PackedDataset(f"{folder}/packed"), fastpack.hf.load(f"{folder}/packed")
        table, few = fastpack.read(f"{folder}/packed"), min(64, len(ours))
        tensors = theirs.with_format("torch", columns=["input_ids", "labels", "position_ids"])
        ways = {
            "`PackedDataset` and `collate`": (lambda at: collate([ours[i] for i in at]), len(ours)),
            '`PackedDataset` and `collate(padded=4096, mask="documents")`': (
                lambda at: collate([ours[i] for i in at], padded=ROW),
                few,
            ),
            "`hf.load` and `collate`": (lambda at: collate([theirs[i] for i in at]), few),
            "`to_pylist` and `torch.tensor`": (
                lambda at: {
                    name: torch.tensor(values)
                    for name, values in table.slice(at[0], len(at))
                    .select(["input_ids", "labels", "position_ids"])
                    .to_pydict()
                    .items()
                },
                few,
            ),
            "`datasets` as torch, default collator": (
                lambda at: default_data_collator([tensors[i] for i in at]),
                few,
            ),
        }
        print("| rows to tensors, four rows of 4096 a batch | Mtok/s |\n|---|---:|")
        for name, (make, rows) in ways.items():
            print(f"| {name} | {speed(make, rows):,.2f} |", flush=True)


if __name__ == "__main__":
    main()
