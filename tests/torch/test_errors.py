"""Whatever `fastpack.torch` and `fastpack.hf` are given, what they raise is an error of fastpack that names the option."""

from __future__ import annotations

import datasets
import pytest
import torch
from conftest import documents, pack

import fastpack
import fastpack.hf
from fastpack import FastpackError
from fastpack.torch import PackedDataset, PackSampler, StreamDataset, collate, count_trained, loss

WRONG = (
    None,
    5,
    -1,
    2.5,
    float("nan"),
    True,
    "text",
    b"bytes",
    [],
    [5],
    [[]],
    {},
    {"a": 1},
    2**70,
    object(),
    {1, 2},
)

LONGEST = 2000
"""The most characters of a message."""


def rows_of():
    return pack(documents(6)).to_pylist()


def batch_of():
    return collate(rows_of())


CALLS = {
    "collate": (
        collate,
        {
            "rows": rows_of,
            "padded": None,
            "mask": "documents",
            "shift_labels": False,
            "loss_weights": False,
            "seq_idx": False,
            "pad_token_id": 0,
        },
    ),
    "count_trained": (count_trained, {"batches": lambda: [batch_of()]}),
    "loss": (
        loss,
        {
            "outputs": lambda: torch.zeros(1, 3, 7),
            "labels": lambda: torch.zeros(1, 3, dtype=torch.int64),
            "loss_weights": None,
            "shift": True,
        },
    ),
    "PackedDataset": (
        PackedDataset,
        {
            "source": lambda: pack(documents(6)),
            "split": "train",
            "columns": None,
            "max_length": None,
            "repack": False,
        },
    ),
    "PackedDataset of tokens": (
        PackedDataset,
        {
            "source": lambda: [{"input_ids": [1, 2]}],
            "max_length": 8,
            "strategy": "mix",
            "overlong": None,
            "seed": 0,
        },
    ),
    "PackSampler": (
        PackSampler,
        {
            "dataset": lambda: PackedDataset(pack(documents(6))),
            "num_replicas": None,
            "rank": None,
            "shuffle": True,
            "seed": 0,
            "on_remainder": "repeat",
        },
    ),
    "StreamDataset": (
        StreamDataset,
        {
            "stream": lambda: fastpack.stream("examples/*.jsonl", "examples/tokenizer", max_length=512),
            "rank": None,
            "world_size": None,
            "mesh": None,
            "gather": False,
        },
    ),
    "hf.load": (fastpack.hf.load, {"folder": "nowhere", "split": None}),
    "hf.pack_dataset": (
        fastpack.hf.pack_dataset,
        {
            "dataset": lambda: datasets.Dataset.from_dict({"input_ids": [[1, 2]]}),
            "seq_length": 4,
            "strategy": "bfd",
            "map_kwargs": None,
        },
    ),
}


def fault_of(call, *args, **given):
    """What is wrong about the error that a call raises, if anything."""
    try:
        call(*args, **given)
    except FastpackError as refused:
        text = str(refused)
        return text if "\n" in text or len(text) > LONGEST else None
    except Exception as raw:
        return repr(raw)
    return None


@pytest.mark.parametrize("name", CALLS)
def test_wrong_values_are_refused_by_our_errors(name):
    """Each option in turn gets each of the wrong values, some of which it may take."""
    call, usual = CALLS[name]
    found = []
    for option in usual:
        for value in WRONG:
            given = {each: make() if callable(make) else make for each, make in usual.items()}
            found.append((option, value, fault_of(call, **{**given, option: value})))
    assert [fault for fault in found if fault[-1]] == []


def test_methods_refuse_by_our_errors():
    stream = fastpack.stream("examples/*.jsonl", "examples/tokenizer", max_length=512)
    dataset, rows = StreamDataset(stream), PackedDataset(pack(documents(6)))
    methods = (dataset.load_state_dict, rows.set_epoch, PackSampler(rows).set_epoch)
    found = [(method, value, fault_of(method, value)) for method in methods for value in WRONG]
    assert [fault for fault in found if fault[-1]] == []


def test_a_spoilt_folder_is_named(folder):
    """Cut, empty, foreign and missing shards; a split and columns that are not there."""
    shard = min(folder.glob("*.arrow"))
    whole = shard.read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"text", None):
        shard.unlink(missing_ok=True)
        if content is not None:
            shard.write_bytes(content)
        for read in (PackedDataset, fastpack.hf.load):
            with pytest.raises(FastpackError, match=shard.name) as refused:
                read(folder)
            assert "\n" not in str(refused.value)
    shard.write_bytes(whole)
    for options, said in (({"split": "test"}, "test"), ({"columns": ["nothing"]}, "nothing")):
        with pytest.raises(FastpackError, match=said):
            PackedDataset(folder, **options)
