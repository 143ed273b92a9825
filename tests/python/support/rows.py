"""Rows to look at: documents that tell where they come from, plans and folders as lists, reports that balance."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

STRATEGIES = ["mix", "best_fit", "heap", "sequential", "concat", "none"]

COLUMNS = [
    "input_ids",
    "labels",
    "position_ids",
    "seq_lengths",
    "document_ids",
    "unpadded_lengths",
    "source_file",
    "source_row",
    "source_turn",
    "source_start",
    "attn_cost",
]
"""The columns that rows of every kind can have, and that a tokenized table has."""


def documents(*lengths):
    """A table of documents whose tokens tell where they come from: a hundred times the number, and the place."""
    ids = [list(range(1000 * at + 1, 1000 * at + 1 + length)) for at, length in enumerate(lengths)]
    return pa.table({"input_ids": ids})


def balanced(report):
    lost = sum(count.tokens for count in report.dropped.values()) + report.truncated.tokens
    documents = report.documents.kept + sum(count.documents for count in report.dropped.values())
    return report.tokens.read == report.tokens.kept + lost and report.documents.read == documents


def members(plan):
    """The documents of each row of a plan."""
    return [part.tolist() for part in np.split(plan.members, plan.offsets[1:-1])] if len(plan) else []


def shards(folder):
    """The bytes of each shard, by its name."""
    return {path.name: path.read_bytes() for path in folder.glob("train-*")}


def table_of(folder, split="train"):
    """The rows of all shards of a folder."""
    tables = []
    for path in sorted(folder.glob(f"{split}-*.arrow")):
        with pa.OSFile(str(path), "rb") as source:
            tables.append(pa.ipc.open_stream(source).read_all())
    return pa.concat_tables(tables)


def look(path):
    """The content at `path`: the bytes of a file, the target of a link, or all content of a folder."""
    if path.is_symlink():
        return ("link", path.readlink())
    if path.is_dir():
        return {inside.name: look(inside) for inside in path.iterdir()}
    return path.read_bytes() if path.exists() else None
