"""`StreamDataset` takes single rows: any loader, any number of ranks before and after, each row once, the same global batches."""

from __future__ import annotations

import itertools
import json
import random
import threading
from collections import Counter

import pytest
from campaign import tries
from nested import flat
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

import fastpack
from fastpack import BatchError, OptionError
from fastpack.streaming.stream import PackStream, ranked
from fastpack.torch import StreamDataset

DOCUMENTS = 700
LANES = 12

RANKS = [1, 2, 3, 4, 5, 6, 7, 8, 24]
"""Numbers of ranks: those that do not divide the lanes share lanes."""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files of documents, whose tokens are their numbers."""
    folder = tmp_path_factory.mktemp("files")
    for name in range(3):
        lines = [
            json.dumps({"input_ids": [number + 1] * (2 + number % 5)}) for number in range(name, DOCUMENTS, 3)
        ]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    return folder


def stream_of(files, **options):
    given = {
        "max_length": 24,
        "lanes": LANES,
        "strategy": fastpack.BestFit(open_rows=4),
        "epochs": None,
        "threads": 1,
        "seed": 5,
    }
    given["padding"] = fastpack.Padding(token_id=0)
    return flat.stream(f"{files}/*.jsonl", **{**given, **options})


def ids_of(rows):
    """The ids of rows, as a loader's batch."""
    return [tuple(map(int, row["input_ids"])) for row in rows]


@pytest.fixture(scope="module")
def expected(files):
    """The rows of the run, in order."""
    with stream_of(files, batch_size=5) as stream:
        tables = itertools.islice(stream, 200)
        return [tuple(ids) for table in tables for ids in table["input_ids"].to_pylist()]


def state_in(loader):
    """The state of the data set in that of its loader."""
    state = loader.state_dict()
    if "_snapshot" in state:
        state = state["_snapshot"]["_worker_snapshots"]["worker_0"]
    return state["dataset_state"]


LOADERS = ("none", "plain", "stateful", "worker", "living worker")


class Rank:
    """A rank with a loader of some kind."""

    def __init__(self, files, kind, size, state, rank, ranks, **options):
        self.dataset = StreamDataset(stream_of(files, **options), rank=rank, world_size=ranks)
        if state is not None:
            self.dataset.load_state_dict(state)
        self.kind, self.size = kind, size
        if kind == "plain":
            self.loader = DataLoader(self.dataset, batch_size=size, collate_fn=ids_of)
        elif kind != "none":
            self.loader = StatefulDataLoader(
                self.dataset,
                batch_size=size,
                collate_fn=ids_of,
                num_workers="worker" in kind,
                persistent_workers="living" in kind,
            )
        self.loop = iter(self.dataset if kind == "none" else self.loader)

    def batch(self):
        """The next batch, which is empty at the end."""
        if self.kind == "none":
            return ids_of(itertools.islice(self.loop, self.size))
        return next(self.loop, [])

    def state(self):
        state = self.dataset.state_dict() if self.kind in {"none", "plain"} else state_in(self.loader)
        return json.loads(json.dumps(state))


def global_batch(batches):
    """The rows of a step in the order of the run: the first of each rank, then the second."""
    rows = itertools.chain.from_iterable(itertools.zip_longest(*batches))
    return [row for row in rows if row is not None]


@pytest.mark.parametrize("seed", range(tries(24, 400)))
def test_each_row_comes_once_whatever_loads_it_and_wherever_it_stops(files, expected, seed):
    """Phases of other numbers of ranks, batches, tables and loaders; the rows of each step are the next of the run."""
    lot = random.Random(seed)
    kinds = LOADERS[:3] if seed % 4 else LOADERS
    state, at = None, 0
    for _ in range(3):
        ranks, size, kind = lot.choice(RANKS), lot.randrange(1, 6), lot.choice(kinds)
        options = {"batch_size": lot.randrange(1, 9)}
        group = [Rank(files, kind, size, state, rank, ranks, **options) for rank in range(ranks)]
        for _ in range(lot.randrange(6)):
            step = global_batch([rank.batch() for rank in group])
            assert step == expected[at : at + len(step)], (seed, ranks, size, kind)
            assert len(step) == ranks * size
            at += len(step)
        state = fastpack.merge_state_dicts([rank.state() for rank in group])


@pytest.mark.parametrize("seed", range(tries(12, 200)))
def test_a_finite_run_ends_with_each_document_once_on_any_ranks(files, tmp_path, seed):
    lot = random.Random(seed)
    state, trained = None, []
    for phase in range(3):
        ranks, size = lot.choice(RANKS), lot.randrange(1, 6)
        options = {"batch_size": lot.randrange(1, 9), "epochs": 1, "cache_dir": tmp_path}
        kind = lot.choice(LOADERS[:3])
        group = [Rank(files, kind, size, state, rank, ranks, **options) for rank in range(ranks)]
        for _ in itertools.count() if phase == 2 else range(lot.randrange(6)):
            batches = [rank.batch() for rank in group]
            assert len({len(batch) for batch in batches}) == 1
            trained += global_batch(batches)
            if len(batches[0]) < size:
                assert documents_of(trained) == list(range(1, DOCUMENTS + 1))
                return
        state = fastpack.merge_state_dicts([rank.state() for rank in group])


@pytest.mark.parametrize("seed", range(tries(10, 200)))
def test_ranks_that_share_lanes_count_what_one_rank_counts(files, tmp_path, seed):
    """The reports of all ranks together, stopped or not, and the state that is joined at the end."""
    lot = random.Random(seed)
    options = {"epochs": 1, "cache_dir": tmp_path, "max_length": 8}
    options |= {"overlong": lot.choice(["drop", "truncate"]), "min_document_tokens": 3, "max_lost": "100%"}
    options |= {"strategy": lot.choice(["best_fit", "sequential"])}
    options |= {"padding": fastpack.Padding("max_length", token_id=0)} if lot.random() < 0.5 else {}
    whole = counts_of(run_to_end(files, [1], lot, **options)[0])
    ended, state = run_to_end(files, [lot.choice(RANKS) for _ in range(lot.randrange(1, 4))], lot, **options)
    assert counts_of(ended) == whole
    assert state is not None


def run_to_end(files, worlds, lot, **options):
    """The streams of the ranks of the last phase, at their end, and their joined state."""
    state = None
    for phase, ranks in enumerate(worlds):
        streams = [
            PackStream(
                {**ranked(stream_of(files, **options, batch_size=2)._arguments, rank, ranks), "by_row": True}
            )
            for rank in range(ranks)
        ]
        for stream in streams:
            if state is not None:
                stream.load_state_dict(state)
        last = phase == len(worlds) - 1
        for _ in itertools.count() if last else range(lot.randrange(3)):
            tables = [next(stream, None) for stream in streams]
            assert len({table is None for table in tables}) == 1
            if tables[0] is None:
                break
        state = fastpack.merge_state_dicts([stream.state_dict() for stream in streams])
        if not last:
            for stream in streams:
                stream.close()
    return streams, state


def counts_of(streams):
    """The counts of the reports of all ranks together."""
    found = Counter()
    for stream in streams:
        report = stream.report.to_dict()
        for name in ("rows", "trained_tokens"):
            found[name] += report[name]
        found["rows"] -= stream.stats().padding
        for name in ("documents", "tokens", "truncated"):
            found.update({f"{name} {key}": value for key, value in report[name].items()})
        for reason, count in report["dropped"].items():
            found.update({f"{reason} {key}": value for key, value in count.items()})
    return +found


def test_the_state_of_one_of_ranks_that_share_lanes_is_refused_to_others(files):
    """It has all lanes and would give the right rows, but the counts of one rank."""
    ranks = [Rank(files, "none", 2, None, rank, 5) for rank in range(5)]
    for rank in ranks:
        rank.batch()
    alone = ranks[1].state()
    with pytest.raises(OptionError, match=r"`state`: is of rank 1 of 5 alone; join the states"):
        Rank(files, "none", 2, alone, 0, 5).batch()
    with pytest.raises(OptionError, match=r"`state`: has no rank 0; join the states of all 5 ranks"):
        fastpack.merge_state_dicts([rank.state() for rank in ranks[1:]])
    with pytest.raises(OptionError, match=r"`state`: is of the same rank twice"):
        fastpack.merge_state_dicts([ranks[0].state(), ranks[0].state()])
    again = Rank(files, "none", 2, alone, 1, 5)
    assert again.batch() == ranks[1].batch()


def documents_of(rows):
    """The numbers of the documents in rows, those of padding left out."""
    found = []
    for row in rows:
        found += [number for number, _ in itertools.groupby(row) if number]
    return sorted(found)


@pytest.mark.parametrize("on_end", ["pad", "drop"])
@pytest.mark.parametrize("seed", range(tries(2, 40)))
def test_ranks_that_ask_each_other_end_at_the_row_that_a_count_tells(files, tmp_path, on_end, seed):
    lot = random.Random(seed)
    ranks, batch = lot.choice([2, 3, 4, 5, 8]), lot.randrange(1, 9)
    options = {"batch_size": batch, "epochs": 1, "on_end": on_end}
    barrier, numbers = threading.Barrier(ranks), [0] * ranks
    found = [[] for _ in range(ranks)]

    def train(rank):
        def greatest(number):
            numbers[rank] = number
            barrier.wait()
            most = max(numbers)
            barrier.wait()
            return most

        given = stream_of(files, **options, all_reduce=greatest)
        found[rank] = ids_of(StreamDataset(given, rank=rank, world_size=ranks))

    threads = [threading.Thread(target=train, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counted = [
        ids_of(StreamDataset(stream_of(files, **options, cache_dir=tmp_path), rank=rank, world_size=ranks))
        for rank in range(ranks)
    ]
    assert found == counted
    if on_end == "pad":
        assert documents_of(global_batch(found)) == list(range(1, DOCUMENTS + 1))


def test_the_number_of_steps_says_how_many_rows_the_run_has(files, expected):
    """`max_steps` tables of `batch_size` rows for each rank, of whatever number of ranks has begun."""
    first = [Rank(files, "none", 3, None, rank, 2, batch_size=6, max_steps=4) for rank in range(2)]
    rows = global_batch([rank.batch() for rank in first])
    state = fastpack.merge_state_dicts([rank.state() for rank in first])
    last = [Rank(files, "none", 99, state, rank, 3, batch_size=4, max_steps=4) for rank in range(3)]
    rows += global_batch([rank.batch() for rank in last])
    assert rows == expected[: 2 * 6 * 4]


def test_states_of_other_rows_are_refused(files):
    ranks = [Rank(files, "none", 2 + rank, None, rank, 2, batch_size=4) for rank in range(2)]
    for rank in ranks:
        rank.batch()
    with pytest.raises(OptionError, match=r"`state`: is of several steps, 2 and 3; save the states"):
        fastpack.merge_state_dicts([rank.state() for rank in ranks])
    unbegun = StreamDataset(stream_of(files), rank=1, world_size=2).state_dict()
    with pytest.raises(OptionError, match=r"`state`: is of several steps: some are of the beginning"):
        fastpack.merge_state_dicts([ranks[0].state(), unbegun])


@pytest.mark.parametrize("state", [None, {}, [], "state", {"stream": None}, {"stream": None, "rows": 0}])
def test_what_is_no_state_is_refused_by_name(files, state):
    with pytest.raises(OptionError, match="invalid option `state_dict`"):
        StreamDataset(stream_of(files)).load_state_dict(state)


def test_an_edited_state_is_refused(files):
    dataset = StreamDataset(stream_of(files))
    for state in (dataset.state_dict(), Rank(files, "none", 3, None, 0, 1).state()):
        state["stream"] = {} if state["stream"] is None else None
        with pytest.raises(OptionError, match=r"`state_dict`: was changed since it was saved"):
            dataset.load_state_dict(state)


def test_a_state_before_the_first_row_is_the_beginning(files, expected):
    dataset = StreamDataset(stream_of(files))
    beginning = dataset.state_dict()
    loop = iter(dataset)
    assert ids_of(itertools.islice(loop, 5)) == expected[:5]
    dataset.load_state_dict(beginning)
    assert ids_of(itertools.islice(dataset, 5)) == expected[:5]


def test_the_place_of_a_worker_is_not_taken_for_the_beginning(files):
    dataset = StreamDataset(stream_of(files))
    loader = DataLoader(dataset, batch_size=2, num_workers=1, collate_fn=ids_of)
    next(iter(loader))
    with pytest.raises(BatchError, match=r"the worker of a DataLoader reads the rows ahead, .*num_workers=0"):
        dataset.state_dict()
    next(iter(dataset))
    dataset.state_dict()


def test_a_state_that_living_workers_do_not_know_is_refused(files):
    dataset = StreamDataset(stream_of(files, epochs=1))
    loader = DataLoader(dataset, batch_size=9, num_workers=1, collate_fn=ids_of, persistent_workers=True)
    whole = list(itertools.chain.from_iterable(loader))
    assert list(itertools.chain.from_iterable(loader)) == whole
    dataset.load_state_dict(Rank(files, "none", 3, None, 0, 1, epochs=1).state())
    with pytest.raises(BatchError, match=r"a state was loaded after the worker .*persistent_workers=False"):
        next(iter(loader))


def test_the_epoch_after_a_resumed_one_is_whole_where_a_worker_reads(files):
    first = Rank(files, "none", 7, None, 0, 1, epochs=1)
    begun = first.batch()
    dataset = StreamDataset(stream_of(files, epochs=1))
    dataset.load_state_dict(first.state())
    loader = DataLoader(dataset, batch_size=4, num_workers=1, collate_fn=ids_of)
    rest, next_epoch = (list(itertools.chain.from_iterable(loader)) for _ in range(2))
    assert begun + rest == next_epoch


def test_what_could_not_be_joined_is_refused_before_the_first_row(files):
    dataset = StreamDataset(stream_of(files), rank=0, world_size=2, gather=True)
    with pytest.raises(BatchError, match=r"the states of 2 ranks cannot be joined: torch.distributed has 1"):
        iter(dataset)
    alone = StreamDataset(stream_of(files), rank=0, world_size=1, gather=True)
    loader = DataLoader(alone, batch_size=2, num_workers=1, collate_fn=ids_of)
    with pytest.raises(BatchError, match=r"cannot be joined in the worker of a DataLoader"):
        next(iter(loader))


def test_the_rows_do_not_depend_on_the_tables(files, expected):
    """Nor do the lanes, where they are not given."""
    runs = [
        ids_of(itertools.islice(StreamDataset(stream_of(files, lanes=None, batch_size=size)), 90))
        for size in (1, 3, 8, 100)
    ]
    assert all(run == runs[0] for run in runs)
