"""Every `next` of a stream ends: whatever is dropped, in every lane, for every end, order, mixture and number of ranks."""

from __future__ import annotations

import gzip
import itertools
import json
import random
import re
import warnings
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from campaign import tries
from conftest import ROOT
from nested import flat

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TOKENIZER = ROOT / "examples" / "tokenizer"
LENGTH = 16
STEPS = 10
PAD = 9_999
BLOCK = 400
"""More records than are read ahead, in blocks that were made when a lane ended."""

Row = tuple[int, ...]


class BudgetError(Exception):
    """More was read than the steps of a run need."""


class Trial(NamedTuple):
    """The documents of each source and the options of a stream."""

    sources: dict[str, list[dict[str, Any]]]
    options: dict[str, Any]
    functions: bool
    split: bool
    """True if each kind of documents has a file of its own, which one lane reads: another in each pass, if it is shuffled."""


def documents(rng: random.Random, first: int) -> list[dict[str, Any]]:
    """Some documents, of which some kinds are dropped: before they are packed, or by the packer."""
    kinds = rng.choice(
        [
            ["long"],
            ["left_out"],
            ["empty"],
            ["short", "long"],
            ["short"],
            ["short", "left_out", "long", "empty"],
        ]
    )
    count = rng.choice([0, 1, 3, 8, 40])
    likely = rng.choice([0.02, 0.3, 0.9])
    made = []
    for number in range(first, first + count):
        kind = rng.choice(kinds) if rng.random() < likely else kinds[0]
        length = {"long": LENGTH + 4, "empty": 0}.get(kind, rng.randint(1, LENGTH))
        made.append({"input_ids": [number] * length, "kind": kind})
    return made


def trial_of(seed: int) -> Trial:
    rng = random.Random(seed)
    mixed = rng.random() < 0.35
    sources = {name: documents(rng, first) for name, first in (("a", 1), ("b", 1000))[: 1 + mixed]}
    epochs = rng.choice([None, None, 1, 2])
    options: dict[str, Any] = {
        "lanes": rng.choice([2, 4, 8]),
        "epochs": epochs,
        "on_end": rng.choice([None, "pad", "repeat", "drop"]) if epochs else None,
        "shuffle": rng.random() < 0.5,
        "strategy": rng.choice(["none", "none", "sequential", "concat", "best_fit"]),
        "where": {"kind": ["short", "long", "empty"]},
        "threads": 2,
    }
    if options["strategy"] == "concat":
        options["drop_last"] = rng.random() < 0.5
    else:
        options["overlong"] = "drop"
    if mixed:
        options["weights"] = {"a": 1, "b": rng.choice([1, 3])}
        options["on_exhausted"] = rng.choice(["repeat", "stop", "drop"])
    return Trial(sources, options, functions=rng.random() < 0.2, split=rng.random() < 0.5)


class Counting:
    """A source that counts the records that are read of it, and stops a run that reads too many."""

    def __init__(self, records: list[dict[str, Any]], most: int) -> None:
        self.records, self.left = records, most

    def __call__(self) -> Iterator[dict[str, Any]]:
        for record in self.records:
            self.left -= 1
            if self.left < 0:
                raise BudgetError
            yield record


class Watch:
    """A `filter` that counts the rows of the batches that it is given, and stops a run that reads too many."""

    def __init__(self, most: int) -> None:
        self.left = most

    def __call__(self, batch: pa.RecordBatch) -> list[bool]:
        self.left -= batch.num_rows
        if self.left < 0:
            raise BudgetError
        return [True] * batch.num_rows


def opened(
    trial: Trial, folder: Path, rank: int = 0, world_size: int = 1, batch: int = 2
) -> fastpack.PackStream:
    passes = 1 if trial.options["strategy"] == "none" else 4 * LENGTH
    whole = sum(map(len, trial.sources.values()))
    # One pass of the lanes for each table, those ahead included, and the blocks that are read ahead of them.
    budget = (STEPS + 4) * passes * (whole + 1) + BLOCK
    options = dict(trial.options)
    files: dict[str, Any]
    if trial.functions:
        files = {name: Counting(records, 3 * budget) for name, records in trial.sources.items()}
        for name in files:
            options.setdefault("weights", {name: 1})
    else:
        write_all = split if trial.split else write
        files = {name: write_all(folder, name, records) for name, records in trial.sources.items()}
        options |= {"filter": fastpack.Function(Watch(budget), fingerprint="v1")}
    if world_size > 1 and options["epochs"]:
        options["cache_dir"] = folder / "counts"
    return flat.stream(
        files, max_length=LENGTH, padding=fastpack.Padding("max_length", token_id=PAD), batch_size=batch,
        rank=rank, world_size=world_size, **options,
    )  # fmt: skip


def write(folder: Path, name: str, records: list[dict[str, Any]]) -> Path:
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def split(folder: Path, name: str, records: list[dict[str, Any]]) -> str:
    """Files that are read as a whole, each of records of one kind."""
    for kind in {record["kind"] for record in records} or {"none"}:
        lines = [json.dumps(record) + "\n" for record in records if record["kind"] == kind]
        (folder / f"{name}-{kind}.jsonl.gz").write_bytes(gzip.compress("".join(lines).encode(), mtime=0))
    return str(folder / f"{name}-*.jsonl.gz")


class Run(NamedTuple):
    """The rows of each table, their states, and the error that ended the run, if any."""

    tables: list[list[Row]]
    states: list[Any]
    end: str


def rows_of(table: pa.Table) -> list[Row]:
    return [tuple(token for token in row if token != PAD) for row in table["input_ids"].to_pylist()]


def run(stream: fastpack.PackStream, steps: int = STEPS) -> Run:
    tables, states, end = [], [], ""
    with stream:
        for _ in range(steps):
            try:
                table = next(stream)
            except StopIteration:
                end = "end"
                break
            except fastpack.FastpackError as failed:
                end = f"{type(failed).__name__}: {failed}"
                break
            tables.append(rows_of(table))
            states.append(stream.state_dict())
    return Run(tables, states, end)


def full(tables: list[list[Row]]) -> list[Row]:
    return [row for table in tables for row in table if row]


def without_rows(trial: Trial) -> list[str]:
    """The sources of a mixture of which every document is dropped, or which have none. The first token of a document has no label."""
    kept = {"short", "long"} if trial.options["strategy"] == "concat" else {"short"}

    def is_kept(record: dict[str, Any]) -> bool:
        return record["kind"] in kept and len(record["input_ids"]) > 1

    return [name for name, records in trial.sources.items() if not any(map(is_kept, records))]


def check_sources(trial: Trial, alone: Run) -> None:
    """A source of a mixture without rows is refused by name, unless the others go on without it; one with rows only in lanes without."""
    refused = re.match(r"OptionError: .*`weights`: source `[ab]` .* has a share, but ", alone.end)
    assert bool(refused) is alone.end.startswith("OptionError"), alone.end
    if trial.options.get("on_exhausted", "drop") == "drop":
        assert not refused, alone.end
    elif without_rows(trial):
        assert refused, alone.end
    elif refused:
        assert re.search(r"lane \d of [248] .*; take fewer lanes", alone.end), alone.end


def check_end(trial: Trial, end: str) -> None:
    """Who has no rows is told how much was lost, and what would be right."""
    if "LossError" in end:
        assert re.search(r"none of \d+ documents?|there is no document", end), end
        assert re.search(
            r"(`max_length`|`ranks\.lanes`|`filter` and `select`|records|max_lost=\S+ allows it)", end
        ), end
    if trial.options["epochs"] is None and len(without_rows(trial)) == len(trial.sources):
        assert "LossError" in end or "`weights`: source" in end, end


@pytest.mark.filterwarnings("ignore:lane .* rows of padding")
@pytest.mark.parametrize("seed", range(tries(60, 4000)))
def test_every_next_ends_and_lanes_alone_decide_which_rows_are_padding(seed: int, tmp_path: Path) -> None:
    trial = trial_of(seed)
    alone = run(opened(trial, tmp_path))
    check_sources(trial, alone)
    if "LossError" in alone.end:
        assert not full(alone.tables)
        assert "lanes" in alone.end or trial.options["epochs"], alone.end
    if trial.options["epochs"] is None and not alone.end:
        assert full(alone.tables), "a run without end has rows, or fails"
    # A rank has at each step the rows that one process has there; where that one passes over a lane, a rank pads.
    world = 2 if trial.options["lanes"] > 2 else 1
    ranks = [run(opened(trial, tmp_path, rank, world, 2 // world)) for rank in range(world)]
    for ended in [alone, *ranks]:
        check_end(trial, ended.end)
    if world > 1 and not any(rank.end.startswith(("Option", "Loss")) for rank in ranks):
        steps = [list(itertools.chain(*step)) for step in zip(*(rank.tables for rank in ranks), strict=False)]
        shared, own = full(steps), full(alone.tables)
        common = min(len(shared), len(own))
        assert shared[:common] == own[:common]
    # The state after each table goes on as the run did, padding included.
    for at in range(0, len(alone.states), 3):
        again = opened(trial, tmp_path)
        again.load_state_dict(alone.states[at])
        later = run(again, STEPS - at - 1)
        assert later.tables == alone.tables[at + 1 :], at
        assert later.end == alone.end or "LossError" in later.end, at
        if later.states:
            assert later.states[-1]["counts"].get("padded") == alone.states[-1]["counts"].get("padded")


def ids(number: int, length: int) -> dict[str, Any]:
    return {"input_ids": [number] * length}


def one_long(write_jsonl: Callable[..., Path]) -> Path:
    """300 short documents and a long one, in lanes of which one has only the long one."""
    records = [ids(1 + number, 10) for number in range(300)]
    return write_jsonl([*records[:150], ids(500, 12_000), *records[150:]])


OPTIONS: dict[str, Any] = {
    "max_length": 512,
    "overlong": "drop",
    "lanes": 64,
    "batch_size": 64,
    "padding": fastpack.Padding(token_id=0),
}


@pytest.mark.parametrize("options", [{"epochs": None}, {"epochs": 1, "on_end": "repeat"}], ids=str)
def test_a_lane_whose_only_document_is_dropped_holds_padding(
    options: dict[str, Any], write_jsonl: Callable[..., Path]
) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        stream = flat.stream(one_long(write_jsonl), max_steps=4, **OPTIONS, **options)
        tables = list(stream)
    padding = [
        [at for at, row in enumerate(table["labels"].to_pylist()) if set(row) == {-100}] for table in tables
    ]
    assert padding
    assert len(padding[0]) == 1
    assert all(lanes == padding[0] for lanes in padding)
    assert stream.report is not None
    assert any("rows are padding" in warning for warning in stream.report.warnings)
    assert stream.stats().padding == len(tables)
    if options["epochs"] is None:
        assert len(tables) == 4
        [warning] = told
        assert f"lane {padding[0][0]} of 64 dropped all its documents" in str(warning.message)


def test_a_rank_without_rows_fails_with_counts_and_remedy(write_jsonl: Callable[..., Path]) -> None:
    long = write_jsonl([ids(number, 600) for number in range(128)])
    for ranks in ({}, {"rank": 1, "world_size": 2, "batch_size": 32}):
        with pytest.raises(
            fastpack.LossError, match=r"none of \d+ documents in the \d+ lanes.*too_long.*`max_length`"
        ):
            next(flat.stream(long, epochs=None, **OPTIONS | ranks))
    empty = write_jsonl([], "empty.jsonl")
    for ranks in ({}, {"rank": 1, "world_size": 2, "batch_size": 32}):
        with pytest.raises(
            fastpack.LossError, match=r"no document in the .* lanes of this rank; take fewer `ranks.lanes`"
        ):
            next(flat.stream(empty, epochs=None, **OPTIONS | ranks))


REMEDIES = {
    "too_long": "take a larger `max_length`",
    "filtered": "let `filter` and `select` keep more",
    "empty": "mend the records",
}
"""Each reason for dropping a document of the law, with its remedy, in their order."""


def lost_by(reason: str, number: int, chance: random.Random) -> dict[str, Any]:
    """A record that is dropped for this reason."""
    length = {"too_long": LENGTH + chance.randint(1, 9), "empty": 0}.get(reason, chance.randint(2, LENGTH))
    return {**ids(number, length), "note": "drop" if reason == "filtered" else "keep"}


@pytest.mark.parametrize("seed", range(tries(25, 1000)))
def test_ranks_without_rows_tell_the_counts_of_their_lanes_and_all_remedies(
    seed: int, write_jsonl: Callable[..., Path]
) -> None:
    """Whatever the lanes of a rank have, for any number of ranks: all of them together tell each document once."""
    chance = random.Random(seed)
    lanes, reasons = chance.choice([1, 2, 4, 8]), chance.sample(sorted(REMEDIES), chance.randint(1, 3))
    world = chance.choice([it for it in (1, 2, 4, 8) if lanes % it == 0])
    records = [lost_by(chance.choice(reasons), at, chance) for at in range(chance.choice([1, 3, 20, 300]))]
    some = chance.random() < 0.3
    if some:
        records.insert(chance.randrange(len(records) + 1), {**ids(7, LENGTH), "note": "keep"})
    # One that reads files, and one that takes what a function gives.
    path = write_jsonl(records)
    files: Any = path if chance.random() < 0.8 else lambda: iter(records)
    shuffle = chance.random() < 0.5
    told: Counter[str] = Counter()
    for rank in range(world):
        stream = flat.stream(
            files, max_length=LENGTH, strategy="none", overlong="drop", where={"note": "keep"}, pad_token_id=PAD,
            epochs=None, lanes=lanes, batch_size=lanes // world, rank=rank, world_size=world,
            shuffle=shuffle, seed=seed, threads=2,
        )  # fmt: skip
        with stream, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                assert any(rows_of(next(stream))), "a rank has rows, or fails"
            except fastpack.LossError as lost:
                said, documents = str(lost), lost.documents
            else:
                assert some
                continue
        own = f"{lanes // world} lane{'s' if lanes > world else ''} of this rank"
        counts = {
            reason: int(count) for reason, count in re.findall(r"(\w+): (\d+) documents?, \d+ token", said)
        }
        told += Counter(counts)
        assert documents == sum(counts.values())
        if not counts:
            assert said == (
                f"there is no document in the {own}; take fewer `ranks.lanes`, or name files with records"
            )
            continue
        assert said.startswith(
            f"none of {documents} document{'s' if documents > 1 else ''} in the {own} is kept"
        )
        remedies = [remedy for reason, remedy in REMEDIES.items() if reason in counts]
        remedies += ["take fewer `ranks.lanes`"] if world > 1 else []
        assert said.endswith(f"; {', or '.join(remedies)}")
    dropped = Counter(
        "filtered" if record["note"] == "drop" else "empty" if not record["input_ids"] else "too_long"
        for record in records
        if record["note"] == "drop" or len(record["input_ids"]) not in range(1, LENGTH + 1)
    )
    if some:
        assert not told - dropped
    else:
        assert told == dropped


def empty_gz(path: Path) -> None:
    path.write_bytes(gzip.compress(b""))


def empty_parquet(path: Path) -> None:
    pq.write_table(pa.table({"input_ids": pa.array([], pa.list_(pa.int32()))}), path)


def empty_arrow(path: Path) -> None:
    table = pa.table({"input_ids": pa.array([], pa.list_(pa.int32()))})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


EMPTY: dict[str, Callable[[Path], object]] = {
    "nothing.jsonl": lambda path: path.write_bytes(b""),
    "newlines.jsonl": lambda path: path.write_bytes(b"\n\n \n"),
    "list.json": lambda path: path.write_bytes(b"[]"),
    "nothing.jsonl.gz": empty_gz,
    "header.csv": lambda path: path.write_bytes(b"text\n"),
    "no_rows.parquet": empty_parquet,
    "no_rows.arrow": empty_arrow,
}


@pytest.mark.parametrize("name", EMPTY)
@pytest.mark.parametrize("seed", range(tries(2, 60)))
def test_an_endless_run_over_files_without_records_is_an_error(name: str, seed: int, tmp_path: Path) -> None:
    """No container, number of files, lanes or ranks gives a run of no tables."""
    chance = random.Random(f"{name} {seed}")
    for number in range(chance.choice([1, 1, 3])):
        EMPTY[name](tmp_path / f"{number}-{name}")
    lanes = chance.choice([1, 2, 8])
    world = chance.choice([it for it in (1, 2, 8) if lanes % it == 0])
    for rank in range(world):
        stream = flat.stream(
            str(tmp_path / f"*{name}"), max_length=LENGTH, pad_token_id=PAD, epochs=None, lanes=lanes,
            strategy=chance.choice(["none", "concat", "best_fit"]), batch_size=lanes // world, rank=rank,
            world_size=world, shuffle=chance.random() < 0.5, threads=1, columns=["input_ids", "labels"],
            **({} if name != "header.csv" else {"tokenizer": TOKENIZER}),
        )  # fmt: skip
        for _ in range(2):
            with pytest.raises(
                fastpack.LossError, match=r"there is no document in the .* of this rank; take fewer"
            ):
                next(stream)
        stream.close()


def drops_long(record: dict[str, Any]) -> bool:
    return len(record["input_ids"]) < 4


DROPS_LONG = fastpack.Function(drops_long, per="record", fingerprint="1")


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({"filter": DROPS_LONG}, "let `filter` and `select` keep more"),
        ({"select": fastpack.Select({"note": "b"})}, "let `filter` and `select` keep more"),
        ({"select": fastpack.Select(min_tokens=400)}, "let `filter` and `select` keep more"),
        ({"max_length": 8}, "take a larger `max_length`"),
    ],
    ids=["filter", "select", "tokens", "length"],
)
def test_the_remedy_fits_the_reason_for_which_all_is_dropped(
    options: dict[str, Any], remedy: str, write_jsonl: Callable[..., Path]
) -> None:
    path = write_jsonl([{**ids(number, 30), "note": "a"} for number in range(128)])
    for ranks, more in (
        ({}, ""),
        ({"rank": 1, "world_size": 2, "batch_size": 32}, ", or take fewer `ranks.lanes`"),
    ):
        with pytest.raises(fastpack.LossError, match=rf"; {remedy}{more}$"):
            next(flat.stream(path, epochs=None, **OPTIONS | {"overlong": "drop"} | options | ranks))


@pytest.mark.parametrize(
    ("options", "count", "remedy", "epochs"),
    [
        ({"overlong": "drop", "max_length": 4}, 100_000, "take a larger `max_length`", 1),
        ({"filter": DROPS_LONG}, 1_000_000, "let `filter` and `select` keep more", None),
    ],
    ids=["length", "filter"],
)
def test_an_endless_source_of_which_all_is_dropped_is_given_up(
    options: dict[str, Any], count: int, remedy: str, epochs: int | None, write_jsonl: Callable[..., Path]
) -> None:
    def bad() -> Iterator[dict[str, Any]]:
        yield {"input_ids": [1, 2, 3]}
        while True:
            yield {"input_ids": [1, 2, 3, 4, 5, 6, 7, 8]}

    call = {**OPTIONS, "epochs": epochs, **options, "lanes": 1, "batch_size": 1}
    stream = flat.stream(bad, **call)
    with pytest.raises(
        fastpack.LossError, match=rf"none of the last \d+ documents .* lane 0 of 1 .*; {remedy}$"
    ) as lost:
        next(stream)
    assert count <= lost.value.documents < count + 1000
    good = write_jsonl([ids(number, 3) for number in range(1, 400)], "good.jsonl")
    mix = {**call, "weights": {"good": 1, "bad": 1}}
    with pytest.raises(fastpack.OptionError, match=r"source `bad` .* of it; ") as refused:
        list(itertools.islice(flat.stream({"good": good, "bad": bad}, **mix), 20))
    assert refused.value.option == "weights"
    dropped = flat.stream({"good": good, "bad": bad}, on_exhausted="drop", **mix)
    assert next(dropped).num_rows == 1


def test_a_source_of_which_all_is_dropped_is_as_one_without_records(write_jsonl: Callable[..., Path]) -> None:
    files = {
        "short": write_jsonl([ids(number, 10) for number in range(1, 400)], "short.jsonl"),
        "long": write_jsonl([ids(number, 600) for number in range(1, 400)], "long.jsonl"),
    }
    mix: dict[str, Any] = {
        "weights": {"short": 1, "long": 1},
        "epochs": None,
        **OPTIONS,
        "lanes": 4,
        "batch_size": 4,
    }
    with pytest.raises(fastpack.OptionError, match=r"dropped every document of it.*`max_length`") as refused:
        list(itertools.islice(flat.stream(files, **mix), 200))
    assert refused.value.option == "weights"
    dropped = list(itertools.islice(flat.stream(files, on_exhausted="drop", **mix), 20))
    assert all(row for table in dropped for row in table["labels"].to_pylist())


class Drops:
    """A `filter` that drops rows as the test says now, and counts the rows that it is given."""

    def __init__(self) -> None:
        self.dropped: set[int] = set()
        self.read = 0

    def __call__(self, batch: pa.RecordBatch) -> list[bool]:
        self.read += batch.num_rows
        return [kind not in self.dropped for kind in batch["kind"].to_pylist()]


CHANCES = 64
"""The passes without a packed document after which a lane is not read again that has packed some before."""

AHEAD = 4
"""The tables that are made ahead."""


@pytest.mark.filterwarnings("ignore:lane .* rows of padding")
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("seed", range(tries(8, 600)))
def test_one_next_reads_at_most_one_pass_of_each_lane(
    seed: int, *, shuffle: bool, write_jsonl: Callable[..., Path]
) -> None:
    """A state machine over lanes: kinds of documents are dropped and come back between any two steps."""
    chance = random.Random(seed)
    lanes, kinds = chance.choice([2, 4, 8]), 3
    count = chance.choice([8, 40, 120, 400])
    records = [{**ids(1 + at, 4), "kind": chance.randrange(kinds)} for at in range(count)]
    world = chance.choice([1, 2])
    drops = Drops()
    stream = flat.stream(
        write_jsonl(records), max_length=LENGTH, strategy="none", padding=fastpack.Padding(token_id=PAD), epochs=None, lanes=lanes,
        batch_size=lanes // world, rank=world - 1, world_size=world, shuffle=shuffle, seed=seed, threads=2,
        filter=fastpack.Function(drops, fingerprint="v1"),
    )  # fmt: skip
    with stream:
        for step in range(1, 40):
            if chance.random() < 0.4:
                drops.dropped = set(chance.sample(range(kinds), chance.choice([0, 1, 2, 3, 3])))
            try:
                table = next(stream)
            except fastpack.LossError:
                break
            finally:
                # Tables are made ahead, and blocks are read ahead of them.
                assert drops.read <= (step + AHEAD + 1) * count + BLOCK, step
            # One process passes over lanes that never had a document.
            assert 0 < table.num_rows <= lanes // world


@pytest.mark.parametrize("seed", range(tries(12, 600)))
def test_one_next_of_a_finite_run_reads_each_lane_to_the_end_of_its_epochs_at_most(
    seed: int, tmp_path: Path, write_jsonl: Callable[..., Path]
) -> None:
    """The same state machine, for every end of a finite run, a mixture and ranks; `repeat` begins the epochs anew."""
    chance = random.Random(seed)
    lanes, kinds = chance.choice([2, 4, 8]), 3
    count = chance.choice([8, 40, 120, 400])
    mixed = chance.random() < 0.4
    world = chance.choice([1, 2])
    epochs = chance.choice([1, 2, 5])
    drops = Drops()
    sources = {
        name: write_jsonl([{**ids(1 + at, 4), "kind": chance.randrange(kinds)} for at in range(count)], name)
        for name in ("a.jsonl", "b.jsonl")[: 1 + mixed]
    }
    options: dict[str, Any] = {"cache_dir": tmp_path / "counts"} if world > 1 else {}
    passes = epochs
    if mixed:
        on_exhausted = chance.choice(["drop", "stop", "repeat"])
        options |= {"weights": dict.fromkeys(sources, 1), "on_exhausted": on_exhausted}
        # A source that is repeated has as many passes to come back.
        passes += CHANCES if on_exhausted == "repeat" else 0
    stream = flat.stream(
        sources if mixed else sources["a.jsonl"], max_length=LENGTH, strategy="none", pad_token_id=PAD,
        epochs=epochs, on_end=chance.choice(["pad", "repeat", "drop", *[None] * (world == 1)]), lanes=lanes,
        batch_size=lanes // world, rank=world - 1, world_size=world, shuffle=chance.random() < 0.5, seed=seed,
        threads=2, filter=fastpack.Function(drops, fingerprint="v1"), **options,
    )  # fmt: skip
    # The lanes are counted by one run over all epochs, where several ranks need to know the end.
    whole = passes * count * len(sources)
    with stream:
        for step in range(1, 100):
            if chance.random() < 0.4:
                drops.dropped = set(chance.sample(range(kinds), chance.choice([0, 1, 2, 3, 3])))
            try:
                next(stream)
            except (StopIteration, fastpack.FastpackError):
                break
            finally:
                assert drops.read <= (step + AHEAD + 2) * whole + BLOCK, step


@pytest.mark.filterwarnings("ignore:lane .* rows of padding")
@pytest.mark.parametrize("seed", range(tries(4, 100)))
def test_a_lane_without_a_packed_document_in_a_pass_holds_padding_until_it_packs_one(
    seed: int, write_jsonl: Callable[..., Path]
) -> None:
    chance = random.Random(seed)
    drops = Drops()
    path = write_jsonl([{**ids(1 + at, 4), "kind": 0} for at in range(40)])
    options: dict[str, Any] = {
        "max_length": LENGTH,
        "strategy": "none",
        "lanes": 4,
        "batch_size": 4,
        "padding": fastpack.Padding(token_id=PAD),
        "epochs": None,
        "shuffle": chance.random() < 0.5,
        "filter": fastpack.Function(drops, fingerprint="v1"),
        "threads": 1,
    }

    def tables(stream: fastpack.PackStream) -> Iterator[list[Row]]:
        return (rows_of(table) for table in stream)

    with flat.stream(path, **options) as stream:
        taken = [next(tables(stream)) for _ in range(chance.randrange(1, 8))]
        drops.dropped = {0}
        with pytest.warns(UserWarning, match=r"has packed no document in a whole pass, so rows of padding"):
            # The warning comes with the table behind.
            dry = list(itertools.islice((table for table in tables(stream) if not any(table)), 2))
        assert dry == [[()] * 4] * 2
        state = stream.state_dict()
        back = chance.random() < 0.5
        drops.dropped = set() if back else {0}
        for opened in (stream, flat.stream(path, **options)):
            if opened is not stream:
                opened.load_state_dict(state)
            later: list[list[Row]] = []
            try:
                later.extend(itertools.islice(tables(opened), CHANCES + 1))
            except fastpack.LossError:
                assert not back
                assert len(later) < CHANCES
                assert not any(row for table in later for row in table)
            else:
                # Some steps were made ahead before the documents came back.
                assert back
                assert all(row for table in later[AHEAD + 1 :] for row in table)
            opened.close()
    assert all(row for row in taken[0])
