"""`StreamDataset`: each rank its own rows of a stream, each document once, also across a resume."""

from __future__ import annotations

import itertools
import json
import pickle
import random
import subprocess
import sys
import tempfile

import pytest
from nested import flat
from ranks import run_ranks
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

import fastpack
from fastpack import BatchError, FastpackError, OptionError
from fastpack.torch import StreamDataset, collate

DOCUMENTS = 720


@pytest.fixture
def files(tmp_path):
    """Files of documents, whose tokens are their numbers; small ones, for the vocabulary of the models."""
    (tmp_path / "files").mkdir()
    numbers = iter(range(DOCUMENTS))
    for name in range(3):
        lines = []
        for number in itertools.islice(numbers, DOCUMENTS // 3):
            # Two tokens tell one document from all others: the model knows few.
            ids = [3 + number % 90, 3 + number // 90] + [3 + number % 90] * (number % 5)
            lines.append(json.dumps({"input_ids": ids}))
        (tmp_path / "files" / f"{name}.jsonl").write_text("\n".join(lines))
    return tmp_path / "files"


def stream_of(files, **options):
    given = {
        "max_length": 24,
        "batch_size": 3,
        "lanes": 12,
        "strategy": fastpack.BestFit(open_rows=4),
        "epochs": None,
        "threads": 1,
        "seed": 5,
        **options,
    }
    return flat.stream(f"{files}/*.jsonl", **given)


def documents_of(rows):
    """The documents of rows, by their numbers."""
    found = []
    for row in rows:
        at = 0
        for length in row["seq_lengths"]:
            first, second = (int(token) - 3 for token in row["input_ids"][at : at + 2])
            found.append(first + 90 * second)
            at += length
    return found


def taken(dataset, rows):
    """The documents of the next `rows` rows."""
    loop = iter(dataset)
    found = documents_of(itertools.islice(loop, rows))
    loop.close()
    return found


def test_one_rank_reads_every_document_once(files):
    dataset = StreamDataset(stream_of(files, epochs=1))
    assert sorted(documents_of(dataset)) == list(range(DOCUMENTS))
    assert sorted(documents_of(dataset)) == list(range(DOCUMENTS))  # the next epoch


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_share_the_documents(files, ranks):
    alone = taken(StreamDataset(stream_of(files)), 12)
    shared = [
        taken(
            StreamDataset(stream_of(files, batch_size=3 if ranks == 2 else 1), rank=rank, world_size=ranks),
            12 // ranks,
        )
        for rank in range(ranks)
    ]
    assert sorted(itertools.chain.from_iterable(shared)) == sorted(alone)
    assert len(set(alone)) == len(alone)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("batch", [2, 3, 4])
@pytest.mark.parametrize("steps", [1, 4])
def test_a_stateful_loader_goes_on_at_the_very_row(files, workers, batch, steps):
    """Batches need not be tables of the stream."""

    def loader():
        return StatefulDataLoader(
            StreamDataset(stream_of(files)), batch_size=batch, num_workers=workers, collate_fn=collate
        )

    expected = [each["input_ids"].tolist() for each in itertools.islice(loader(), steps + 3)]
    first = loader()
    loop = iter(first)
    got = [next(loop)["input_ids"].tolist() for _ in range(steps)]
    state = json.loads(json.dumps(first.state_dict())) if not workers else first.state_dict()
    second = loader()
    second.load_state_dict(state)
    got += [each["input_ids"].tolist() for each in itertools.islice(second, 3)]
    assert got == expected


def test_a_state_of_two_ranks_is_gone_on_with_by_one(files):
    ranks = [StreamDataset(stream_of(files), rank=rank, world_size=2) for rank in range(2)]
    before = []
    for dataset in ranks:
        loop = iter(dataset)
        before += documents_of(itertools.islice(loop, 6))
    states = [dataset.state_dict() for dataset in ranks]
    merged = fastpack.merge_state_dicts(states)
    alone = StreamDataset(stream_of(files, batch_size=6))
    alone.load_state_dict(merged)
    after = taken(alone, 12)
    assert sorted([*before, *after]) == sorted(taken(StreamDataset(stream_of(files, batch_size=6)), 24))


def test_a_state_that_one_rank_saved_alone_is_refused_by_the_others(files):
    """As a trainer leaves it that saves on rank 0, without `gather=True`."""
    first = StreamDataset(stream_of(files), rank=0, world_size=2)
    assert taken(first, 6)
    state = first.state_dict()
    second = StreamDataset(stream_of(files), rank=1, world_size=2)
    for other in (second, StreamDataset(stream_of(files, batch_size=6))):
        other.load_state_dict(state)
        with pytest.raises(OptionError, match=r"has no lane 1, .*merge_state_dicts"):
            taken(other, 1)


def test_a_loop_that_is_dropped_loses_nothing(files):
    """As `CheckCallback` does, which draws a batch before a trainer begins."""
    dataset = StreamDataset(stream_of(files))
    first = taken(dataset, 4)
    assert taken(dataset, 4) == first
    dataset.load_state_dict(json.loads(json.dumps(dataset.state_dict())))
    second = taken(dataset, 4)
    assert taken(dataset, 4) == second
    assert not set(first) & set(second)


class Failing:
    """A filter that raises at some of its calls."""

    def __init__(self, failures):
        self.failures, self.calls = failures, 0

    def __call__(self, batch):
        self.calls += 1
        if self.calls in self.failures:
            raise self.failures[self.calls]
        return [True] * batch.num_rows


def next_of(loop, expected):
    """The next row, and the error that came in its place; neither at the end."""
    try:
        return next(loop, None), None
    except expected as error:
        return None, error


def test_an_error_comes_again_at_each_row(files):
    whole = documents_of(StreamDataset(stream_of(files, epochs=1)))
    for call in (1, 20):
        failing = fastpack.Function(Failing({call: ValueError("a filter")}), fingerprint="v1")
        loop = iter(StreamDataset(stream_of(files, epochs=1, filter=failing)))
        rows, errors = [], []
        while len(errors) < 3:
            row, error = next_of(loop, ValueError)
            assert row is not None or error is not None
            rows += [] if row is None else [row]
            errors += [] if error is None else [error]
        assert {str(error) for error in errors} == {"a filter"}
        assert len({id(error) for error in errors}) == 3
        found = documents_of(rows)
        assert found == whole[: len(found)]
        assert found or call == 1
        loop.close()
        assert next(loop, None) is None


def test_an_error_at_the_end_of_a_stream_begins_nothing_again(files):
    def log(stats):
        raise ValueError(stats.tokens)

    loop = iter(StreamDataset(stream_of(files, epochs=1, log=log)))
    with pytest.raises(ValueError, match=r"\d"):
        list(loop)
    assert next(loop, None) is None


@pytest.mark.parametrize("seed", range(6))
def test_an_interrupt_loses_no_row(files, seed):
    whole = documents_of(StreamDataset(stream_of(files, epochs=1)))
    draw = random.Random(seed)
    interrupts = {draw.randint(1, 36): KeyboardInterrupt() for _ in range(draw.randint(1, 4))}
    dataset = StreamDataset(stream_of(files, epochs=1, filter=Failing(interrupts)))
    loop, rows, interrupted = iter(dataset), [], 0
    while (found := next_of(loop, KeyboardInterrupt)) != (None, None):
        row, error = found
        interrupted += error is not None
        rows += [] if row is None else [row]
    assert documents_of(rows) == whole
    assert interrupted


def test_a_data_set_is_pickled(files):
    dataset = StreamDataset(stream_of(files))
    again = pickle.loads(pickle.dumps(dataset))
    assert taken(again, 6) == taken(dataset, 6)


def test_several_workers_are_refused(files):
    loader = DataLoader(StreamDataset(stream_of(files)), batch_size=2, num_workers=2, collate_fn=collate)
    with pytest.raises(BatchError, match=r"2 workers would give the same rows: .* num_workers=0 or 1"):
        next(iter(loader))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_of_the_stream_itself_is_refused(files, workers):
    with pytest.raises(
        TypeError, match=r"a stream has no length; give a DataLoader `fastpack\.torch\.StreamDataset"
    ):
        next(iter(DataLoader(stream_of(files), num_workers=workers)))


@pytest.mark.parametrize("processes", [1, 2])
def test_a_loader_that_accelerate_shares_is_refused(files, processes):
    from accelerate.data_loader import prepare_data_loader

    loader = DataLoader(StreamDataset(stream_of(files)), batch_size=2, collate_fn=collate)
    prepared = prepare_data_loader(
        loader,
        num_processes=processes,
        process_index=0,
        put_on_device=processes == 1,
        dispatch_batches=processes == 1,
        device="cpu" if processes == 1 else None,
    )
    with pytest.raises(BatchError, match=r"leave the loader out of `accelerator.prepare`"):
        next(iter(prepared))


def test_arguments_that_contradict_are_refused(files):
    with pytest.raises(OptionError, match="`rank`: goes with `world_size`"):
        StreamDataset(stream_of(files), rank=1)
    with pytest.raises(OptionError, match="`state_dict`: has no `blake3`"):
        StreamDataset(stream_of(files)).load_state_dict({"step": 3})
    with pytest.raises(OptionError, match="`gather`"):
        StreamDataset(stream_of(files), gather=1)
    begun = stream_of(files)
    next(begun)
    with pytest.raises(FastpackError, match="has started"):
        StreamDataset(begun)
    begun.close()


def test_a_mesh_says_the_rank(files):
    class Mesh:
        ndim, mesh_dim_names = 1, ("dp",)

        def get_local_rank(self):
            return 1

        def size(self):
            return 2

        def get_group(self):
            return None

    expected = taken(StreamDataset(stream_of(files), rank=1, world_size=2), 6)
    assert taken(StreamDataset(stream_of(files), mesh=Mesh()), 6) == expected
    Mesh.ndim, Mesh.mesh_dim_names = 2, ("dp", "tp")
    with pytest.raises(
        OptionError, match="one dimension, the data-parallel one, not 2: take one of `dp`, `tp`"
    ):
        StreamDataset(stream_of(files), mesh=Mesh())


def run(files, kind, steps, out, ranks, **environment):
    return run_ranks("train_stream.py", files, kind, steps, out, ranks=ranks, timeout=280, **environment)


def trained(out):
    """The first tokens of the documents that each rank trained, a list a step."""
    return [
        [json.loads(line) for line in path.read_text().splitlines()]
        for path in sorted(out.glob("trained-*.jsonl"))
    ]


@pytest.mark.parametrize("kind", ["trainer", "accelerate", "lightning"])
def test_two_ranks_train_each_document_once_also_across_a_resume(files, tmp_path, kind):
    """Six steps at once, and three and three: the same documents on each rank, those of one rank with both shares."""
    for name, parts in (("whole", [6]), ("parts", [3, 6])):
        for steps in parts:
            done = run(files, kind, steps, tmp_path / name, 2)
            assert done.returncode == 0, done.stderr[-3000:]
    whole, parts = trained(tmp_path / "whole"), trained(tmp_path / "parts")
    assert [len(rank) for rank in whole] == [6, 6]
    assert parts == whole
    rows = itertools.islice(iter(StreamDataset(stream_of(files, batch_size=6))), 24)
    expected = [int(row["input_ids"][end - length]) for row in rows for end, length in ends(row)]
    assert sorted(itertools.chain.from_iterable(itertools.chain.from_iterable(whole))) == sorted(expected)


@pytest.mark.parametrize(("ranks", "batch"), [(1, 4), (1, 3), (3, 2)])
def test_a_trainer_resumes_with_other_ranks_and_batches(files, tmp_path, ranks, batch):
    """Three steps of two ranks, and three of others: the documents of the first rows, each once."""
    for count, rows, steps in ((2, 2, 3), (ranks, batch, 6)):
        done = run(files, "trainer", steps, tmp_path / "out", count, BATCH=str(rows), TABLE="2")
        assert done.returncode == 0, done.stderr[-3000:]
    found = itertools.chain.from_iterable(itertools.chain.from_iterable(trained(tmp_path / "out")))
    first = itertools.islice(iter(StreamDataset(stream_of(files, batch_size=6))), 3 * (4 + ranks * batch))
    expected = [int(row["input_ids"][end - length]) for row in first for end, length in ends(row)]
    assert sorted(found) == sorted(expected)


def test_a_checkpoint_that_was_changed_since_is_refused(files, tmp_path):
    done = run(files, "trainer", 3, tmp_path / "out", 1)
    assert done.returncode == 0, done.stderr[-3000:]
    [path] = (tmp_path / "out").rglob("fastpack_stream.json")
    text = path.read_text()
    at = next(at for at in range(len(text) // 2, len(text)) if text[at].isdigit())
    path.write_text(text[:at] + str((int(text[at]) + 1) % 10) + text[at + 1 :])
    before = trained(tmp_path / "out")
    done = run(files, "trainer", 6, tmp_path / "out", 1)
    assert done.returncode != 0
    assert "changed" in done.stderr
    assert trained(tmp_path / "out") == before


def ends(row):
    return zip(itertools.accumulate(map(int, row["seq_lengths"])), map(int, row["seq_lengths"]), strict=True)


def test_a_trainer_without_the_callback_is_refused(files, tmp_path):
    done = run(files, "trainer", 2, tmp_path / "out", 1, BARE="1")
    assert done.returncode != 0
    assert "callbacks=[fastpack.torch.StreamCallback()]" in done.stderr


def test_lightning_without_a_length_is_refused(files, tmp_path):
    done = run(files, "lightning", 2, tmp_path / "out", 1, ENDLESS="1")
    assert done.returncode != 0
    assert "give fastpack.stream `max_steps`" in done.stderr


def test_a_stream_of_so_many_steps_has_a_length(files):
    dataset = StreamDataset(stream_of(files, max_steps=4), rank=1, world_size=2)
    assert len(dataset) == 12 == sum(1 for _ in dataset)
    with pytest.raises(TypeError, match="without `max_steps` has no length"):
        len(StreamDataset(stream_of(files)))


@pytest.mark.parametrize("on_end", ["pad", "repeat", "drop", None])
@pytest.mark.parametrize(("ranks", "batch_size"), [(1, 3), (2, 3), (3, 2), (5, 1)])
def test_a_counted_stream_has_a_length(files, tmp_path, on_end, ranks, batch_size):
    for rank in range(ranks):
        stream = stream_of(
            files,
            epochs=2,
            batch_size=batch_size,
            cache_dir=tmp_path / "counts",
            on_end=on_end,
            padding=fastpack.Padding(token_id=0),
        )
        dataset = StreamDataset(stream, rank=rank, world_size=ranks)
        with pytest.raises(TypeError, match=r"until its rows are counted: give `cache_dir` and `epochs`"):
            len(dataset)
        assert stream.estimate().counted
        assert len(dataset) == sum(1 for _ in dataset) > 20
        assert len(pickle.loads(pickle.dumps(dataset))) == len(dataset)
    # The ranks read the one count of the stream.
    assert len(list((tmp_path / "counts").glob("stream-*.json"))) == 1


def test_lightning_resumes_a_counted_stream_at_the_very_row(files, tmp_path):
    for name, parts in (("whole", [6]), ("parts", [3, 6])):
        for steps in parts:
            done = run(files, "lightning", steps, tmp_path / name, 2, COUNTED="1")
            assert done.returncode == 0, done.stderr[-3000:]
    assert trained(tmp_path / "parts") == trained(tmp_path / "whole")
    assert [len(rank) for rank in trained(tmp_path / "whole")] == [6, 6]


@pytest.mark.parametrize("max_steps", [2, 1000])
def test_a_counted_stream_ends_at_the_first_of_its_ends(files, tmp_path, max_steps):
    stream = stream_of(
        files,
        epochs=1,
        cache_dir=tmp_path / "counts",
        max_steps=max_steps,
        padding=fastpack.Padding(token_id=0),
    )
    stream.index()
    dataset = StreamDataset(stream, rank=1, world_size=2)
    assert len(dataset) == sum(1 for _ in dataset)
    assert (len(dataset) == 6) == (max_steps == 2)


def test_a_length_from_a_sample_is_none(files):
    stream = stream_of(files, epochs=1)
    assert not stream.estimate().counted
    with pytest.raises(TypeError, match="has no length"):
        len(StreamDataset(stream))


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_of_a_counted_stream_knows_its_batches(files, tmp_path, workers):
    stream = stream_of(files, epochs=1, cache_dir=tmp_path / "counts")
    stream.estimate()
    loader = DataLoader(StreamDataset(stream), batch_size=4, num_workers=workers, collate_fn=collate)
    assert len(loader) == sum(1 for _ in loader)


def test_a_trainer_that_is_checked_trains_the_same(files, tmp_path):
    for name, environment in (("plain", {}), ("checked", {"CHECKED": "1"})):
        done = run(files, "trainer", 4, tmp_path / name, 1, **environment)
        assert done.returncode == 0, done.stderr[-3000:]
    assert trained(tmp_path / "checked") == trained(tmp_path / "plain")


# A stream that another process makes.


@pytest.fixture
def address(files):
    """The address of a server of `stream_of(files)`."""
    with tempfile.TemporaryDirectory(prefix="fp-") as folder:
        place = f"unix:{folder}/s"
        options = "-m 24 --batch-size 3 --ranks.lanes 12 --strategy best_fit --strategy.open-rows 4 --epochs 0 --threads 1 --seed 5"
        command = [sys.executable, "-m", "fastpack", "stream", f"{files}/*.jsonl", *options.split()]
        with subprocess.Popen([*command, "--to", place], stderr=subprocess.PIPE) as server:
            assert b"serving" in server.stderr.readline()
            yield place
            server.terminate()


def test_a_stream_of_another_process_has_no_length(address):
    with pytest.raises(
        TypeError, match="another process makes is not known here; give the trainer `max_steps`"
    ):
        len(StreamDataset(fastpack.connect(address, rank=0, world_size=1)))


def run_served(script, *arguments):
    """The lines that a process of its own prints: gRPC does not survive a fork, and other tests have started it here."""
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


LOADER = """
import itertools, json, sys
import fastpack
from fastpack.torch import StreamDataset, collate
from torchdata.stateful_dataloader import StatefulDataLoader

def batches_of(start):
    return StatefulDataLoader(
        StreamDataset(fastpack.connect(sys.argv[1])),
        batch_size=4,
        num_workers=0 if start is None else 1,
        multiprocessing_context=start,
        collate_fn=collate,
    )

if __name__ == "__main__":
    start = json.loads(sys.argv[2])
    loader = batches_of(start)
    loop = iter(loader)
    for _ in range(5):
        print(json.dumps(next(loop)["input_ids"].tolist()))
    state = loader.state_dict()
    del loop, loader  # a rank has one connection
    loader = batches_of(start)
    loader.load_state_dict(state)
    for batch in itertools.islice(loader, 3):
        print(json.dumps(batch["input_ids"].tolist()))
"""


@pytest.mark.parametrize("start", [None, "fork", "spawn"])
def test_a_loader_of_a_served_stream_has_its_rows_and_goes_on_at_the_very_row(files, address, start):
    """The worker makes the connection."""
    loader = DataLoader(StreamDataset(stream_of(files)), batch_size=4, collate_fn=collate)
    expected = [each["input_ids"].tolist() for each in itertools.islice(loader, 8)]
    assert [json.loads(line) for line in run_served(LOADER, address, json.dumps(start))] == expected


def test_a_loop_over_a_served_stream_begins_where_one_over_the_stream_does(files, address):
    local, served = StreamDataset(stream_of(files)), StreamDataset(fastpack.connect(address))
    for rows in (5, 4):
        assert taken(served, rows) == taken(local, rows)
        served.load_state_dict(json.loads(json.dumps(served.state_dict())))
        local.load_state_dict(local.state_dict())
    assert taken(pickle.loads(pickle.dumps(served)), 4) == taken(local, 4)


def test_ranks_share_the_documents_of_a_served_stream(files, address):
    ranks = [StreamDataset(fastpack.connect(address), rank=rank, world_size=2) for rank in range(2)]
    loops = [iter(dataset) for dataset in ranks]
    shared = [documents_of(itertools.islice(loop, 6)) for loop in loops]
    alone = taken(StreamDataset(stream_of(files, batch_size=6)), 12)
    assert sorted(itertools.chain.from_iterable(shared)) == sorted(alone)
    for loop in loops:
        loop.close()


FORKED = """
import multiprocessing, sys
import fastpack

def take(address):
    try:
        next(fastpack.connect(address))
    except fastpack.FastpackError as refused:
        print(refused, flush=True)

connection = fastpack.connect(sys.argv[1], rank=0, world_size=2)
next(connection)
child = multiprocessing.get_context("fork").Process(target=take, args=(sys.argv[1],))
child.start()
child.join(30)
print(child.exitcode, fastpack.state_of(next(connection))["step"])
"""


def test_a_child_of_a_process_that_has_connected_is_refused_by_name(address):
    said, codes = run_served(FORKED, address)
    assert "gRPC does not survive a fork" in said
    assert codes == "0 2"


LEFT = """
import sys
import fastpack
from fastpack.torch import StreamDataset

source = sys.argv[1]
rows = fastpack.connect(source) if source.startswith("unix:") else fastpack.stream(source, max_length=24, epochs=None)
loop = iter(StreamDataset(rows))
next(loop)
print("ends")
"""


@pytest.mark.parametrize("where", ["here", "another process"])
def test_a_process_says_nothing_of_a_loop_that_it_leaves_early(where, files, request):
    source = str(files) if where == "here" else request.getfixturevalue("address")
    done = subprocess.run(
        [sys.executable, "-c", LEFT, source], capture_output=True, text=True, check=False, timeout=100
    )
    assert (done.returncode, done.stdout) == (0, "ends\n"), done.stderr[-3000:]
    assert "Exception ignored" not in done.stderr
