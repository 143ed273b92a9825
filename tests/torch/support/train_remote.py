"""Trains on rows in remote storage, as one of several ranks: where they lie, rank, ranks, row to begin at, output, pause.

Where the rows lie is JSON: the URL, the options of the storage, the bytes of the cache, and its folder.

The rows come in the order of two lanes, whatever the number of ranks. Behind each step a line is added to OUTPUT: the place of its
row in this order, and the documents of the row, as pairs of file and record.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch
from small_models import model_of

import fastpack
from fastpack.torch import PackedDataset, PackSampler, collate

LANES = 2


def main(remote: str, rank: int, ranks: int, begin: int, output: str, pause: float) -> None:
    url, options, most, cache = json.loads(remote)
    packed = PackedDataset(url, storage=fastpack.Storage(options, block_cache=most), cache_dir=cache)
    sampler = PackSampler(packed, num_replicas=ranks, rank=rank, lanes=LANES, window=1, seed=3)
    # The rows of a step lie one behind the other in the order that all numbers of ranks share; the last step is filled up.
    own = [(step * ranks + rank, at) for step, at in enumerate(sampler)]
    model = model_of("llama")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for place, index in own:
        if not begin <= place < len(packed):
            continue
        row = packed[index]
        documents = [
            [int(row[name][at]) for name in ("source_file", "source_row")]
            for at in range(len(row["source_row"]))
        ]
        loss = model(**collate([row])).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        with Path(output).open("a") as file:
            file.write(json.dumps([place, documents]) + "\n")
        time.sleep(pause)


if __name__ == "__main__":
    remote, rank, ranks, begin, output, pause = sys.argv[1:]
    main(remote, int(rank), int(ranks), int(begin), output, float(pause))
