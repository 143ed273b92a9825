"""Packed folders of random documents, for the tests that train."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["WANDB_DISABLED"] = "true"

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import settings
from nested import flat
from places import PYTHONPATH
from small_models import VOCABULARY

# The processes that tests start find the package as this one does.
os.environ["PYTHONPATH"] = PYTHONPATH

# The same examples in every run but that of `make campaign`.
settings.register_profile(
    "fastpack",
    deadline=None,
    max_examples=40,
    derandomize="FASTPACK_CAMPAIGN" not in os.environ,
)
settings.load_profile("fastpack")

torch.set_num_threads(1)


def documents(count, *, longest=24, seed=0, weighted=False):
    """Documents of random ids, of which the second half is trained."""
    random = np.random.default_rng(seed)
    ids = [
        random.integers(3, VOCABULARY, length).tolist() for length in random.integers(2, longest + 1, count)
    ]
    labels = [[-100] * (len(each) // 2) + each[len(each) // 2 :] for each in ids]
    columns = {"input_ids": ids, "labels": labels}
    if weighted:
        columns["loss_weights"] = [
            [0.0 if label == -100 else float(random.choice([0.25, 0.5, 2.0])) for label in each]
            for each in labels
        ]
    return columns


def table_of(columns):
    types = {"loss_weights": pa.list_(pa.float32())}
    return pa.table({name: pa.array(values, types.get(name)) for name, values in columns.items()})


def pack(columns, /, *, max_length=64, output=None, **options):
    """Documents packed in memory, or into a folder."""
    if "loss_weights" in columns and "columns" not in options:
        options["columns"] = ["input_ids", "labels", "position_ids", "seq_lengths", "loss_weights"]
    return flat.pack_table(table_of(columns), max_length=max_length, output=output, progress=False, **options)


@pytest.fixture
def rows():
    """Packed rows as lists."""
    return pack(documents(12)).to_pylist()


@pytest.fixture
def folder(tmp_path):
    """A folder of packed rows, in several shards."""
    pack(documents(60), output=tmp_path / "packed", shard_size=4000)
    return tmp_path / "packed"


@pytest.fixture
def weighted_folder(tmp_path):
    """A folder of packed rows with weights."""
    pack(documents(40, weighted=True), output=tmp_path / "weighted")
    return tmp_path / "weighted"
