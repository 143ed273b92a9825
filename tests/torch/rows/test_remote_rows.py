"""Training on packed folders in remote storage: the rows of the folder, each shard fetched by who needs it, in a bounded cache."""

from __future__ import annotations

import itertools
import multiprocessing
import pickle
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from conftest import documents, pack
from hypothesis import given, settings
from hypothesis import strategies as st
from pace import paced
from remote_folders import of_web
from torch.utils.data import DataLoader
from web_server import Faults

import fastpack
from fastpack.dataset.folder import Folder
from fastpack.dataset.packed_files import RemoteFiles
from fastpack.torch import PackedDataset, PackSampler, collate
from fastpack.torch.reading.shard_windows import ShardWindows, windowed


@pytest.fixture
def packed(tmp_path):
    """A folder of about 20 shards."""
    pack(documents(600), output=tmp_path / "packed", format=fastpack.Format(shard_size=4000))
    assert len(Folder(tmp_path / "packed").shards) > 12
    return tmp_path / "packed"


@pytest.fixture
def web(packed, tmp_path):
    with of_web(packed, tmp_path / "web") as found:
        yield found


def sizes_of(folder):
    return [shard.file.bytes for shard in Folder(folder).shards]


def asked(web):
    """The shards that were fetched, with how often."""
    # A file of the test is larger than the first bytes, which tell the size.
    fetched = [Path(path).name for _, path, span in web.requests if span != "bytes=0-4095"]
    return Counter(name for name in fetched if name.endswith(".arrow"))


def cached_bytes(cache):
    """The bytes of the shards in a cache, at a time when none comes or goes."""
    while (found := shards_in(cache)) != shards_in(cache):
        pass
    return sum(found.values())


def shards_in(cache):
    found = {}
    for path in cache.rglob("*.arrow"):
        with suppress(FileNotFoundError):
            found[path] = path.stat().st_size
    return found


def values(row):
    return {name: np.asarray(value).tolist() for name, value in row.items()}


def test_rows_are_those_of_the_folder(web, packed, tmp_path):
    local = PackedDataset(packed)
    remote = PackedDataset(web.url, cache_dir=tmp_path / "cache")
    assert len(remote) == len(local)
    for at in [0, len(local) - 1, -1, 7, *range(0, len(local), 5)]:
        assert values(remote[at]) == values(local[at])
    assert remote.table == local.table
    with pytest.raises(IndexError):
        remote[len(local)]


@pytest.mark.parametrize(
    "options", [{"layout": "compact"}, {"name": "parquet"}, {"columns": ["input_ids", "seq_lengths"]}]
)
def test_rows_of_other_layouts_and_formats_are_too(options, tmp_path):
    columns = options.pop("columns", None)
    form = fastpack.Format(shard_size=4000, **options)
    pack(documents(100), output=tmp_path / "packed", format=form, columns=columns)
    with of_web(tmp_path / "packed", tmp_path / "web") as web:
        local, remote = (
            PackedDataset(tmp_path / "packed"),
            PackedDataset(web.url, cache_dir=tmp_path / "cache"),
        )
        assert [values(remote[at]) for at in range(len(local))] == [
            values(local[at]) for at in range(len(local))
        ]


def test_nothing_is_fetched_before_a_row_is_read_and_then_its_shard(web, packed, tmp_path):
    remote = PackedDataset(web.url, cache_dir=tmp_path / "cache")
    assert not asked(web)
    remote[len(remote) - 1]
    assert sorted(asked(web)) == [Folder(packed).shards[-1].name]


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_of_a_loader_give_all_rows(start, web, packed, tmp_path):
    most = sum(sizes_of(packed)) - min(sizes_of(packed))
    remote = PackedDataset(web.url, cache_dir=tmp_path / "cache", storage=fastpack.Storage(block_cache=most))
    sampler = PackSampler(remote)
    loader = DataLoader(
        remote,
        batch_size=4,
        sampler=sampler,
        num_workers=2,
        collate_fn=collate,
        multiprocessing_context=start,
    )
    found = sum(int((batch["labels"] != -100).sum()) for batch in loader)
    local = DataLoader(PackedDataset(packed), batch_size=4, collate_fn=collate)
    assert found == sum(int((batch["labels"] != -100).sum()) for batch in local)
    assert set(asked(web).values()) == {1}


def test_workers_that_are_forked_while_a_shard_is_fetched_give_all_rows(packed, tmp_path):
    """The workers inherit the open files of the thread that fetches, and with them its locks."""

    def waits_for_the_fork(handler, file, number, start, end):
        if end - start != 4096:
            asked_of.append(file.name)
            is_forked.wait(0 if len(asked_of) == 1 else 60)
        return False

    asked_of, is_forked = [], threading.Event()
    with of_web(packed, tmp_path / "web", Faults(odd=waits_for_the_fork, only=".arrow")) as web:
        remote = PackedDataset(web.url, cache_dir=tmp_path / "cache")
        options = {"collate_fn": collate, "num_workers": 2, "multiprocessing_context": "fork", "timeout": 60}
        loader = DataLoader(remote, batch_size=4, sampler=PackSampler(remote), **options)
        assert values(remote[0])
        until = time.monotonic() + 60
        while len(asked_of) < 2:
            assert time.monotonic() < until
            time.sleep(0.01)
        batches = iter(loader)
        is_forked.set()
        assert len(list(batches)) == len(loader)
        assert all(values(remote[at]) for at in range(len(remote)))
    assert set(Counter(asked_of).values()) == {1}


@contextmanager
def forked(work):
    """A process that is forked from this one, does some work, and ends with the context."""
    fork = multiprocessing.get_context("fork")
    is_done, is_over = fork.Event(), fork.Event()

    def run():
        kept = work()
        is_done.set()
        is_over.wait(60)
        del kept

    process = fork.Process(target=run)
    process.start()
    try:
        assert is_done.wait(60)
        yield
    finally:
        is_over.set()
        process.join()


def bounded(web, tmp_path, most):
    storage = fastpack.Storage(block_cache=most)
    return PackedDataset(web.url, cache_dir=tmp_path / "cache", storage=storage)


def test_a_shard_that_its_reader_has_left_is_not_kept_by_a_process_that_was_forked_meanwhile(
    web, packed, tmp_path
):
    remote = bounded(web, tmp_path, max(sizes_of(packed)))
    assert values(remote[0])
    with forked(lambda: None), paced() as machine:
        since = time.monotonic()
        assert values(remote[remote.shards.ends[0]])
        assert time.monotonic() - since < 10 * machine.slowness


def test_a_shard_that_a_forked_process_reads_stays_when_its_parent_leaves_it(web, packed, tmp_path):
    remote = bounded(web, tmp_path, 2 * max(sizes_of(packed)))
    assert values(remote[0])
    with forked(lambda: values(remote[0])):
        for end in remote.shards.ends[:5]:
            assert values(remote[end])
        web.requests.clear()
        assert values(bounded(web, tmp_path, 2 * max(sizes_of(packed)))[0])
        assert not asked(web)


def test_a_shard_is_not_fetched_again_by_a_thread_that_falls_behind_its_reader(
    web, packed, tmp_path, monkeypatch
):
    def late(files, listed):
        if threading.current_thread().name == "fastpack-shards":
            # The reader has read two shards more, unless it waits for this thread.
            is_behind.wait(0.2)
        return hold(files, listed)

    hold, is_behind = RemoteFiles.hold, threading.Event()
    monkeypatch.setattr(RemoteFiles, "hold", late)
    remote = bounded(web, tmp_path, 2 * max(sizes_of(packed)))
    for at in PackSampler(remote, num_replicas=1, rank=0, window=1):
        assert values(remote[at])
        if len(asked(web)) >= 4:
            is_behind.set()
    assert set(asked(web).values()) == {1}


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_each_rank_fetches_the_shards_that_it_trains_on_and_each_once(ranks, web, packed, tmp_path):
    """The ranks are machines: each has a cache of its own, of two shards."""
    most = 2 * max(sizes_of(packed))
    seen, counts = [], Counter()
    for rank in range(ranks):
        web.requests.clear()
        remote = PackedDataset(
            web.url, cache_dir=tmp_path / f"cache{rank}", storage=fastpack.Storage(block_cache=most)
        )
        sampler = PackSampler(remote, num_replicas=ranks, rank=rank, window=1)
        own = list(sampler)
        shards = np.searchsorted(remote.shards.ends, own, side="right").tolist()
        visits = Counter(shard for shard, _ in itertools.groupby(shards))
        for at in own:
            assert values(remote[at])
            assert cached_bytes(tmp_path / f"cache{rank}") <= most
        seen += own
        # The last rows, and those that fill up, may lie in a shard that the cache no longer holds.
        fetched = asked(web)
        assert all(fetched[Folder(packed).shards[shard].name] <= visits[shard] for shard in visits)
        assert sum(fetched.values()) <= sum(visits.values())
        counts += fetched
    rows = len(PackedDataset(packed))
    assert set(seen) == set(range(rows))
    assert len(seen) == -(-rows // ranks) * ranks
    # A shard at the seam of two lanes is fetched by both, and the last rows and those that fill up lie anywhere.
    assert sum(counts.values()) <= len(sizes_of(packed)) + 3 * ranks


def test_the_order_is_that_of_other_ranks_with_the_same_lanes(web, packed, tmp_path):
    """A run on two ranks that goes on with three has read each row once."""
    remote = PackedDataset(
        web.url, cache_dir=tmp_path / "cache", storage=fastpack.Storage(block_cache=4 * max(sizes_of(packed)))
    )
    orders = []
    for ranks in (1, 2, 3):
        samplers = [
            PackSampler(remote, num_replicas=ranks, rank=rank, lanes=2, window=2, seed=3)
            for rank in range(ranks)
        ]
        each = list(zip(*samplers, strict=True))
        orders.append([row for step in each for row in step][: len(remote)])
    assert orders[0] == orders[1] == orders[2]
    assert sorted(orders[0]) == list(range(len(remote)))


def test_a_full_shuffle_over_a_cache_that_is_too_small_is_refused(web, packed, tmp_path):
    options = {
        "cache_dir": tmp_path / "cache",
        "storage": fastpack.Storage(block_cache=3 * max(sizes_of(packed))),
    }
    remote = PackedDataset(web.url, **options)
    with pytest.raises(fastpack.OptionError, match=r"sampler=fastpack\.torch\.PackSampler\(dataset\)"):
        list(DataLoader(remote, batch_size=4, shuffle=True, collate_fn=collate))
    assert sum(asked(web).values()) < len(remote) / 2
    # In order, and by the sampler, all is read, in any number of epochs.
    for sampler in (None, PackSampler(PackedDataset(web.url, **options))):
        remote = PackedDataset(web.url, **options) if sampler is None else sampler._dataset
        for _ in range(3):
            assert len(list(DataLoader(remote, batch_size=4, sampler=sampler, collate_fn=collate))) > 1


def test_a_full_shuffle_over_a_cache_that_holds_all_is_fine(web, tmp_path):
    remote = PackedDataset(web.url, cache_dir=tmp_path / "cache")
    for _ in range(2):
        assert len(list(DataLoader(remote, batch_size=4, shuffle=True, collate_fn=collate))) > 1
    assert set(asked(web).values()) == {1}


def test_training_starts_when_the_first_shard_is_there(packed, tmp_path):
    def hangs(handler, file, number, start, end):
        if len(asked_of) >= 2 and end - start != 4096:
            time.sleep(30)
        if end - start != 4096:
            asked_of.append(file.name)
        return False

    asked_of = []
    with of_web(packed, tmp_path / "web", Faults(odd=hangs, only=".arrow")) as web:
        remote = PackedDataset(web.url, cache_dir=tmp_path / "cache")
        sampler = PackSampler(remote, num_replicas=1, rank=0)
        with paced() as machine:
            since = time.monotonic()
            first = next(iter(DataLoader(remote, batch_size=2, sampler=sampler, collate_fn=collate)))
            took = time.monotonic() - since
        assert took < 10 * machine.slowness
        assert len(first["input_ids"])


def test_shards_come_before_their_rows_are_read(web, packed, tmp_path):
    remote = PackedDataset(
        web.url, cache_dir=tmp_path / "cache", storage=fastpack.Storage(block_cache=8 * max(sizes_of(packed)))
    )
    sampler = PackSampler(remote, window=2, num_replicas=1, rank=0)
    assert values(remote[next(iter(sampler))])
    until = time.monotonic() + 20
    while len(asked(web)) < 3:
        assert time.monotonic() < until
        time.sleep(0.01)
    assert len(remote.shards._open) == 1


def test_a_folder_that_was_overwritten_is_not_read_by_workers_that_start_later(web, packed, tmp_path):
    remote = PackedDataset(web.url, cache_dir=tmp_path / "cache")
    kept = pickle.dumps(remote)
    assert values(pickle.loads(kept)[0]) == values(remote[0])
    pack(documents(50, seed=1), output=tmp_path / "other")
    for path in (tmp_path / "other").iterdir():
        web.put(path.name, path.read_bytes())
    with pytest.raises(fastpack.FastpackError, match="was overwritten since"):
        pickle.loads(kept)


def test_balanced_groups_stay_together(tmp_path):
    pack(
        documents(200),
        output=tmp_path / "packed",
        format=fastpack.Format(shard_size=4000),
        order=fastpack.Balanced(2),
        padding=fastpack.Padding(token_id=0),
    )
    with of_web(tmp_path / "packed", tmp_path / "web") as web:
        options = {
            "cache_dir": tmp_path / "cache",
            "storage": fastpack.Storage(block_cache=4 * max(sizes_of(tmp_path / "packed"))),
        }
        remote = PackedDataset(web.url, **options)
        first, second = (list(PackSampler(remote, num_replicas=2, rank=rank)) for rank in range(2))
        whole = len(remote) // 2
        assert all(
            other == one + 1 and one % 2 == 0 for one, other in zip(first[:whole], second, strict=False)
        )
        assert sorted({*first, *second}) == list(range(len(remote)))


def test_rows_of_padding_fill_the_last_step(web, packed, tmp_path):
    remote = PackedDataset(web.url, cache_dir=tmp_path / "cache")
    ranks = next(ranks for ranks in (2, 3, 5, 7) if len(remote) % ranks)
    sampler = PackSampler(remote, num_replicas=ranks, rank=ranks - 1, on_remainder="pad")
    rows = [remote[at] for at in sampler]
    assert set(np.asarray(rows[-1]["labels"]).tolist()) == {-100}


def test_a_cache_that_is_too_small_for_the_ranks_of_a_machine_is_refused(web, packed, tmp_path):
    remote = PackedDataset(
        web.url, cache_dir=tmp_path / "cache", storage=fastpack.Storage(block_cache=2 * max(sizes_of(packed)))
    )
    with pytest.raises(fastpack.OptionError, match="8 ranks of a machine read one each"):
        PackSampler(remote, num_replicas=8, rank=0)
    PackSampler(remote, num_replicas=2, rank=0)


def test_a_window_over_a_folder_of_this_machine_mixes_its_shards(packed):
    local = PackedDataset(packed)
    order = list(PackSampler(local, window=1, num_replicas=1, rank=0))
    assert sorted(order) == list(range(len(local)))
    ends = np.cumsum([shard.rows for shard in Folder(packed).shards])
    shards = np.searchsorted(ends, order, side="right")
    assert int((np.diff(shards) != 0).sum()) == len(ends) - 1
    with pytest.raises(fastpack.OptionError, match="needs folders of `pack_dir`"):
        PackSampler(PackedDataset(fastpack.read(packed)), window=2)


@settings(max_examples=100)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=12),
    st.integers(1, 4),
    st.integers(1, 5),
    st.integers(1, 6),
    st.integers(0, 5),
)
def test_an_order_has_each_row_once_and_needs_a_window_of_shards(counts, size, lanes, window, seed):
    ends = np.cumsum(counts).tolist()
    lanes = lanes if size == 1 else 1
    order = windowed(ends, size=size, lanes=lanes, window=window, random=np.random.default_rng(seed))
    assert sorted(order.tolist()) == list(range(ends[-1]))
    again = windowed(ends, size=size, lanes=lanes, window=window, random=np.random.default_rng(seed))
    assert order.tolist() == again.tolist()
    each = ends[-1] // size // lanes
    for lane in range(lanes):
        first = order[: each * lanes * size].reshape(-1, size)[lane::lanes, 0]
        shards = np.searchsorted(ends, first, side="right").tolist()
        needed = set()
        for at, shard in enumerate(shards):
            # Shards that are begun and not ended are within a window.
            needed.add(shard)
            ended = {one for one in needed if one not in shards[at:]}
            assert len(needed - ended) <= window
        assert len(set(shards[: shards.count(shards[0])])) <= 1 if shards else True


@settings(max_examples=100)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=12),
    st.integers(1, 4),
    st.integers(1, 5),
    st.integers(1, 3),
    st.integers(0, 5),
)
def test_shards_are_fetched_ahead_only_if_their_rows_come_later(counts, ranks, lanes, window, seed):
    ends = np.cumsum(counts).tolist()
    for rank in range(ranks):
        plan = ShardWindows(ends, size=1, lanes=lanes, window=window, seed=seed, share=(rank, ranks))
        order = plan.rows()
        own = np.concatenate([order, order[: -len(order) % ranks]])[rank::ranks].tolist()
        shards = np.searchsorted(ends, own, side="right").tolist()
        for place, (row, shard) in enumerate(zip(own, shards, strict=True)):
            is_in_lane = place * ranks + rank < len(order) // lanes * lanes
            if shards.index(shard) == place or not is_in_lane:
                assert set(plan.after(shard, row)) <= set(shards[place + 1 :])
