"""`set_epoch` and `PackSampler`: other packs each epoch, the same on all ranks; groups stay together."""

from __future__ import annotations

import pickle
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
from conftest import documents, pack
from pace import paced
from torch.utils.data import DataLoader

import fastpack
from fastpack import OptionError
from fastpack.torch import PackedDataset, PackSampler, collate


@pytest.fixture
def kept(tmp_path):
    """A folder that keeps its tokens, packed from a file."""
    columns = documents(80)
    path = tmp_path / "ids.jsonl"
    import json

    lines = [
        json.dumps({"input_ids": ids, "labels": labels})
        for ids, labels in zip(columns["input_ids"], columns["labels"], strict=True)
    ]
    path.write_text("\n".join(lines))
    fastpack.pack_dir(path, tmp_path / "kept", max_length=64, keep_tokens=True, progress=False)
    return tmp_path / "kept"


def documents_of(dataset):
    """All documents of all rows, sorted."""
    found = []
    for row in dataset:
        for end, length in zip(np.cumsum(row["seq_lengths"]), row["seq_lengths"], strict=True):
            found.append(
                tuple(
                    zip(
                        row["input_ids"][end - length : end].tolist(),
                        row["labels"][end - length : end].tolist(),
                        strict=True,
                    )
                )
            )
    return sorted(found)


def as_lists(dataset):
    return [{name: np.asarray(value).tolist() for name, value in row.items()} for row in dataset]


def test_each_epoch_has_the_same_documents_in_other_rows(kept):
    plain = PackedDataset(kept)
    dataset = PackedDataset(kept, repack=True)
    epochs = []
    for epoch in range(3):
        dataset.set_epoch(epoch)
        assert documents_of(dataset) == documents_of(plain)
        assert all(len(row["input_ids"]) <= 64 for row in dataset)
        epochs.append(as_lists(dataset))
    assert epochs[0] != epochs[1] != epochs[2]
    for row in dataset:
        positions = [place for length in row["seq_lengths"] for place in range(length)]
        assert row["position_ids"].tolist() == positions
    collate([dataset[0], dataset[1]])


def test_an_epoch_is_the_same_on_all_ranks_and_when_it_comes_again(kept):
    one, other = PackedDataset(kept, repack=True), PackedDataset(kept, repack=True)
    for dataset, epochs in ((one, [0, 1, 2]), (other, [2])):
        for epoch in epochs:
            dataset.set_epoch(epoch)
    assert as_lists(one) == as_lists(other)
    assert as_lists(pickle.loads(pickle.dumps(one))) == as_lists(one)
    assert as_lists(PackedDataset(kept, repack=True, seed=1)) != as_lists(PackedDataset(kept, repack=True))


def test_a_data_set_that_is_packed_anew_is_pickled_without_its_tokens(kept):
    dataset = PackedDataset(kept, repack=True)
    tokens = sum(len(row["input_ids"]) for row in dataset)
    # Of each document: where it lies, four numbers; and in which row it is.
    assert len(pickle.dumps(dataset)) < 5000 + 80 * 48 < 12 * tokens


def test_the_documents_of_many_rows_are_found_at_once(tmp_path):
    columns = {"input_ids": [[5, 6, 7]] * 200_000}
    pack(columns, max_length=8, output=tmp_path / "many", keep_tokens=True)
    with paced() as machine:
        started = time.perf_counter()
        dataset = PackedDataset(tmp_path / "many", repack=True)
        took = time.perf_counter() - started
    assert took < 3 * machine.slowness
    assert len(dataset) == 100_000
    assert sum(len(dataset[at]["seq_lengths"]) for at in range(0, 100_000, 1000)) == 200


def test_rows_of_one_document_each_need_no_length(tmp_path):
    columns = {"input_ids": [[5, 6, 7], [8, 9], [4] * 90]}
    pack(columns, max_length=None, strategy="none", output=tmp_path / "rows", keep_tokens=True)
    dataset = PackedDataset(tmp_path / "rows", repack=True)
    assert sorted(len(row["input_ids"]) for row in dataset) == [2, 3, 90]


def test_nothing_is_written(kept):
    before = {path.name: path.stat().st_mtime_ns for path in kept.iterdir()}
    PackedDataset(kept, repack=True).set_epoch(3)
    assert {path.name: path.stat().st_mtime_ns for path in kept.iterdir()} == before


def test_padding_is_no_document(kept, tmp_path):
    fastpack.repack(
        kept,
        tmp_path / "padded",
        max_length=64,
        padding=fastpack.Padding("max_length", token_id=0),
        progress=False,
    )
    rows = fastpack.read(tmp_path / "padded")
    dataset = PackedDataset(rows)
    from fastpack.torch.reading.repacking import Repacked

    found = Repacked(rows)
    found.pack(max_length=64, strategy="mix", most=None, seed=0, epoch=0)
    again = [found.row(at, dataset.__getitem__) for at in range(found.rows)]
    assert documents_of(again) == documents_of(PackedDataset(kept))


def test_a_folder_without_kept_tokens_is_refused(folder):
    with pytest.raises(
        OptionError, match=r"`repack`: .*packed keeps no tokens; pack it with keep_tokens=True"
    ):
        PackedDataset(folder, repack=True)
    with pytest.raises(OptionError, match="keep_tokens=True"):
        PackedDataset(fastpack.read(folder), repack=True)


def test_without_repack_all_epochs_have_the_same_rows(kept, folder):
    for source in (kept, folder):
        dataset = PackedDataset(source)
        before = as_lists(dataset)
        dataset.set_epoch(3)
        assert as_lists(dataset) == before


@pytest.fixture
def balanced(tmp_path):
    """Rows in groups of four."""
    pack(
        documents(150),
        output=tmp_path / "balanced",
        order=fastpack.Balanced(4, on_remainder="drop"),
        columns=["input_ids", "labels", "seq_lengths", "group"],
    )
    return PackedDataset(tmp_path / "balanced")


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_step_of_all_ranks_is_one_group(balanced, ranks):
    samplers = [PackSampler(balanced, num_replicas=ranks, rank=rank) for rank in range(ranks)]
    read = [list(sampler) for sampler in samplers]
    assert [len(rows) for rows in read] == [len(sampler) for sampler in samplers]
    assert sorted(row for rows in read for row in rows) == list(range(len(balanced)))
    together = np.array(read).T.reshape(-1, 4)
    groups = [{int(balanced[row]["group"]) for row in step} for step in together.tolist()]
    assert all(len(group) == 1 for group in groups)


def test_groups_come_in_another_order_each_epoch_and_rows_of_ranks_fit(balanced):
    samplers = [PackSampler(balanced, num_replicas=2, rank=rank) for rank in range(2)]
    orders = []
    for epoch in range(2):
        for sampler in samplers:
            sampler.set_epoch(epoch)
        orders.append([list(sampler) for sampler in samplers])
    assert orders[0] != orders[1]
    assert list(PackSampler(balanced, shuffle=False)) == list(range(len(balanced)))


def test_ranks_that_cannot_share_groups_are_refused(balanced):
    with pytest.raises(
        OptionError, match=r"3 ranks cannot share groups of 4 rows equally; pack with order=Balanced\(3\)"
    ):
        PackSampler(balanced, num_replicas=3, rank=0)
    with pytest.raises(OptionError, match="rank 5 of 4 ranks"):
        PackSampler(balanced, num_replicas=4, rank=5)


@pytest.mark.parametrize("on_remainder", ["repeat", "pad"])
@pytest.mark.parametrize("rows", [1, 3, 4, 7, 10, 11])
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_all_rows_are_read_and_all_ranks_read_as_many(balanced, rows, ranks, on_remainder):
    """Rows behind the last whole group come last; the rows that fill the last step up are counted."""
    dataset = PackedDataset(balanced.table.slice(0, rows))
    options = {"num_replicas": ranks, "on_remainder": on_remainder}
    samplers = [PackSampler(dataset, rank=rank, **options) for rank in range(ranks)]
    read = [list(sampler) for sampler in samplers]
    assert {len(each) for each in read} == {len(samplers[0])} == {-(-rows // ranks)}
    filled = samplers[0].filled
    assert filled == ranks * len(samplers[0]) - rows
    flat = np.array(read, dtype=object).T.reshape(-1).tolist()
    assert sorted(flat[:rows]) == list(range(rows))
    assert sorted(flat[:rows][rows // 4 * 4 :]) == list(range(rows // 4 * 4, rows))
    if on_remainder == "repeat":
        assert flat[rows:] == [flat[at % rows] for at in range(filled)]
    for at in flat[rows:] if on_remainder == "pad" else []:
        blank, real = dataset[at], dataset[0]
        assert list(blank) == list(real)
        assert set(blank["labels"]) == {-100}
        assert set(blank["input_ids"]) == {0}
        assert blank["seq_lengths"].tolist() == real["seq_lengths"].tolist()
        assert not (collate([blank])["labels"] != -100).any()
        assert pickle.loads(pickle.dumps(at)).__class__ is at.__class__


def test_a_sampler_follows_the_rows_of_the_epoch(kept):
    dataset = PackedDataset(kept, repack=True)
    sampler = PackSampler(dataset, num_replicas=1, rank=0)
    for epoch in range(3):
        dataset.set_epoch(epoch)
        sampler.set_epoch(epoch)
        assert sorted(sampler) == list(range(len(dataset)))


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_that_live_on_follow_the_epoch(kept, context):
    """`set_epoch` in the process of the loader reaches them."""
    dataset = PackedDataset(kept, repack=True)
    loader = DataLoader(
        dataset,
        batch_size=3,
        num_workers=2,
        collate_fn=list,
        persistent_workers=True,
        multiprocessing_context=context,
        sampler=PackSampler(dataset, shuffle=False),
    )
    for epoch in (0, 3, 1):
        dataset.set_epoch(epoch)
        own = PackedDataset(kept, repack=True)
        own.set_epoch(epoch)
        assert as_lists(row for batch in loader for row in batch) == as_lists(own)


def test_a_copy_in_another_rank_keeps_its_own_epoch(kept):
    dataset = PackedDataset(kept, repack=True)
    before = as_lists(dataset)
    with ProcessPoolExecutor(1, get_context("fork")) as pool:
        pool.submit(dataset.set_epoch, 5).result()
        assert as_lists(dataset) == before
        dataset.set_epoch(5)
        assert pool.submit(as_lists, dataset).result() == as_lists(dataset)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"num_replicas": 0}, "num_replicas"),
        ({"num_replicas": 2.0}, "num_replicas"),
        ({"rank": -1}, "rank"),
        ({"shuffle": 1}, "shuffle"),
        ({"seed": -1}, "seed"),
        ({"on_remainder": "drop"}, "on_remainder"),
        ({"dataset": [1, 2]}, "dataset"),
    ],
)
def test_the_options_of_a_sampler_are_refused_by_name(balanced, options, name):
    with pytest.raises(OptionError, match=f"invalid option `{name}`"):
        PackSampler(**{"dataset": balanced, **options})
    for each in (balanced, PackSampler(balanced)):
        with pytest.raises(OptionError, match="invalid option `epoch`"):
            each.set_epoch(-1)


def test_rows_without_groups_are_shared_as_they_lie(folder):
    dataset = PackedDataset(folder)
    read = [list(PackSampler(dataset, num_replicas=3, rank=rank, shuffle=False)) for rank in range(3)]
    assert read[1][:3] == [1, 4, 7]
