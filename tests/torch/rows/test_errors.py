"""With any argument, `fastpack.torch` and `fastpack.hf` raise an error of fastpack that names the option."""

from __future__ import annotations

import tempfile
import traceback

import datasets
import pytest
import torch
import transformers
from conftest import documents, pack
from picture_models import FAMILIES
from small_models import model_of

import fastpack
import fastpack.hf
import fastpack.torch
from fastpack import FastpackError
from fastpack.torch import (
    CheckCallback,
    PackedDataset,
    PackSampler,
    StreamCallback,
    StreamDataset,
    WeightedLabels,
    check,
    collate,
    cost,
    count_trained,
    loss,
    pack_step,
    restore,
    token_log_probs,
)

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


def configured(**settings):
    """`sft_config`; TRL refuses other settings by a TypeError or a ValueError, as its docs say."""
    folder = tempfile.gettempdir()
    try:
        return fastpack.hf.sft_config(output_dir=folder, report_to=[], use_cpu=True, bf16=False, **settings)
    except FastpackError:
        raise
    except (TypeError, ValueError) as refused:
        is_ours = "fastpack" in traceback.extract_tb(refused.__traceback__)[-1].filename
        said = "TRL's own"
        raise (AssertionError if is_ours else FastpackError)(said) from refused


def plan_of():
    return fastpack.plan_step([3, 1], max_length=4)


CALLS = {
    "pack_step": (
        pack_step,
        {
            "columns": lambda: {"input_ids": [[1, 2, 3], [4]], "values": [[1.0, 2.0, 3.0], [4.0]]},
            "plan": plan_of,
            "rank": 0,
            "attention_mask": None,
            "lengths": None,
            "shifted": (),
            "completion_only": (),
            "weights": None,
            "groups": None,
            "constant": None,
            "world_size": 1,
            "all_reduce_sum": None,
            "padded": None,
            "pad_token_id": 0,
        },
    ),
    "pack_step of weights": (
        pack_step,
        {
            "columns": lambda: {"input_ids": [[1, 2, 3], [4]]},
            "plan": plan_of,
            "weights": "group",
            "groups": lambda: [1, 2],
            "world_size": 1,
            "all_reduce_sum": lambda: list,
        },
    ),
    "restore": (
        restore,
        {"plan": plan_of, "values": lambda: [[torch.zeros(1, 4)]], "of": "tokens", "form": "list"},
    ),
    "token_log_probs": (
        token_log_probs,
        {
            "logits": lambda: torch.zeros(1, 3, 7),
            "batch": lambda: collate([{"input_ids": [1, 2, 3], "seq_lengths": [3]}]),
            "chunk": 2,
            "temperature": 1.0,
            "entropy": False,
        },
    ),
    "cost": (cost, {"config": lambda: {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}}),
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
            "storage": None,
            "cache_dir": None,
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
            "window": None,
            "lanes": None,
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
    "check": (check, {"model": lambda: model_of("llama"), "batch": batch_of, "seq_lengths": None}),
    "CheckCallback": (CheckCallback, {"folder": None}),
    "StreamCallback": (StreamCallback, {}),
    "WeightedLabels.of": (
        WeightedLabels.of,
        {
            "labels": lambda: torch.zeros(1, 3, dtype=torch.int64),
            "weights": lambda: torch.ones(1, 3),
        },
    ),
    "hf.sft_config": (
        configured,
        {
            "padding_free": True,
            "packing": False,
            "max_length": None,
            "remove_unused_columns": False,
            "dataset_kwargs": None,
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


#: Public names without a call of their own: the type of a row, which `PackedDataset` makes, and the types of `pack_step`. The
#: collator of pictures tries a processor whenever it is made, so it has a test of its own below.
TYPES = {"Row", "MicroBatch", "Step", "PictureCollator"}


def test_every_public_name_is_tried():
    names = {*fastpack.torch.__all__, *(f"hf.{name}" for name in fastpack.hf.__all__)}
    assert {name.split(" ")[0].removesuffix(".of") for name in CALLS} == names - TYPES


def fault_of(call, *args, **given):
    """The fault of the error that a call raises, if there is one."""
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


def test_a_collator_of_pictures_refuses_by_our_errors():
    processor = FAMILIES["llava"].make()
    config = transformers.LlavaConfig()
    options = ("processor_kwargs", "moved", "packed", "stand_in", "shift_labels", "loss_weights", "seq_idx")
    found = [
        (option, value, fault_of(fastpack.torch.PictureCollator, processor, config, **{option: value}))
        for option in options
        for value in (7, "x", object())
    ]
    others = [(7, config), ("none", config), (processor, 7), (processor, None)]
    found += [(each, "", fault_of(fastpack.torch.PictureCollator, *each)) for each in others]
    assert [fault for fault in found if fault[-1]] == []


def test_methods_refuse_by_our_errors():
    stream = fastpack.stream("examples/*.jsonl", "examples/tokenizer", max_length=512)
    dataset, rows = StreamDataset(stream), PackedDataset(pack(documents(6)))
    methods = (dataset.load_state_dict, rows.set_epoch, PackSampler(rows).set_epoch)
    found = [(method, value, fault_of(method, value)) for method in methods for value in WRONG]
    assert [fault for fault in found if fault[-1]] == []


def spoilt(path):
    """Damages of a file: cut, empty, another's text, another folder's, gone, unreadable, or a folder."""
    whole = path.read_bytes()
    yield from (whole[: len(whole) // 2], whole[:-1], b"", b"text", b"{}", whole + b"x", whole[::-1])
    yield from (None, "unreadable", "folder", "link")


def put(path, content, elsewhere):
    """Leaves a content, or something else, in place of a file."""
    if path.is_dir():
        path.rmdir()
    path.unlink(missing_ok=True)
    if content == "folder":
        path.mkdir()
    elif content == "link":
        path.symlink_to(elsewhere)
    elif content == "unreadable":
        path.symlink_to(path)  # of itself: no user can read it
    elif content is not None:
        path.write_bytes(content)


#: Functions that read a packed folder, whole.
READERS = {
    "PackedDataset": lambda folder: list(PackedDataset(folder)),
    "PackedDataset in other rows": lambda folder: list(PackedDataset(folder, repack=True)),
    "hf.load": lambda folder: list(fastpack.hf.load(folder)),
    "CheckCallback": CheckCallback,
}


@pytest.mark.parametrize("name", READERS)
def test_whatever_became_of_the_files_of_a_folder_is_an_error_of_ours_or_none(name, folder, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"of somebody else")
    found = []
    for path in sorted(it for it in folder.rglob("*") if it.is_file()):
        whole = path.read_bytes()
        for content in spoilt(path):
            put(path, content, elsewhere)
            fault = fault_of(READERS[name], folder)
            if fault:
                found.append((path.name, content if content is None else content[:20], fault))
        put(path, whole, elsewhere)
    assert found == []


#: Other parts are the model's own: its errors pass.
@pytest.mark.parametrize("option", ["input_ids", "labels", "position_ids", "cu_seq_lens_q", "seq_lengths"])
def test_check_refuses_wrong_parts_of_a_batch_by_our_errors(option):
    values = [*WRONG, torch.zeros(0), torch.zeros(1, 1), torch.full((1, 1), float("nan")), torch.ones(3)]
    model = model_of("llama")
    found = [(value, fault_of(check, model, {**batch_of(), option: value})) for value in values]
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
