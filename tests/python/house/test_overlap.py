"""Rows of strategies that never look back: written while documents still arrive, and the same as any others."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest
from campaign import campaign_only
from conftest import conversation
from nested import nested
from processes import OPTIONS, RUN, kill_at_work
from rows import shards

import fastpack

IN_ORDER = ["sequential", "concat", "none"]


@pytest.mark.parametrize("strategy", IN_ORDER)
@pytest.mark.parametrize("kept", ["memory", "folder"])
def test_rows_are_written_while_records_are_still_read(strategy, kept, tokenizer_dir, tmp_path):
    out, there = tmp_path / "out", []

    def records():
        for number in range(6_000):
            yield {"text": f"{number} " * 300}
        there.extend(path.name for path in (out / ".fastpack").glob("train-*"))

    output = {"output": out, "format": fastpack.Format("arrow", shard_size="1MB")} if kept == "folder" else {}
    fastpack.pack_records(records(), tokenizer_dir, max_length=256, strategy=strategy, **output)
    assert bool(there) == (kept == "folder")


def test_rows_that_depend_on_all_lengths_are_not(tokenizer_dir, tmp_path):
    out, there = tmp_path / "out", []

    def records():
        for number in range(4_000):
            yield {"text": f"{number} " * 300}
        there.extend((out / ".fastpack").glob("train-*"))

    options = {"strategy": "concat", "order": "shuffle"}
    fastpack.pack_records(
        records(),
        tokenizer_dir,
        output=out,
        format=fastpack.Format("arrow", shard_size="1MB"),
        max_length=256,
        **options,
    )
    assert not there


@pytest.mark.parametrize("strategy", IN_ORDER)
@pytest.mark.parametrize("align", [None, 8], ids=["", "aligned"])
def test_rows_are_those_that_plan_makes(strategy, align, corpus, tokenizer_dir):
    options = {
        "max_length": 256,
        **nested({"strategy": strategy, "max_documents_per_pack": 3, "align_documents_to": align}),
    }
    alone = fastpack.pack_files(corpus, tokenizer_dir, max_length=1 << 20, strategy="none")
    documents = [np.array(ids) for ids in alone["input_ids"].to_pylist()]
    # Except in `concat`, a document longer than a row is dropped.
    documents = [ids for ids in documents if strategy == "concat" or len(ids) <= 256]
    plan = fastpack.plan([len(ids) for ids in documents], **options)
    packed = fastpack.pack_files(corpus, tokenizer_dir, **options)
    assert packed.num_rows == len(plan.offsets) - 1
    for row, begin, end in zip(packed.to_pylist(), plan.offsets[:-1], plan.offsets[1:], strict=True):
        at = 0
        for piece in range(begin, end):
            ids = documents[plan.members[piece]][plan.starts[piece] :][: plan.lengths[piece]]
            assert row["input_ids"][at : at + len(ids)] == ids.tolist()
            at += -(-len(ids) // (align or 1)) * (align or 1)
        assert at == len(row["input_ids"])


@pytest.mark.parametrize("strategy", IN_ORDER)
def test_threads_change_no_byte(strategy, corpus, tokenizer_dir, tmp_path):
    options = OPTIONS | {"strategy": strategy, "format": fastpack.Format(shard_size="20KB")}
    for threads in (1, 2, 8):
        out = tmp_path / str(threads)
        fastpack.pack_dir(corpus, out, tokenizer=tokenizer_dir, threads=threads, **options)
    assert shards(tmp_path / "1") == shards(tmp_path / "2") == shards(tmp_path / "8")


def test_no_rows_are_a_table_with_all_columns(write_jsonl, tokenizer_dir):
    path = write_jsonl([{"text": "a long text " * 20}])
    packed = fastpack.pack_files(path, tokenizer_dir, max_length=8, strategy="concat")
    dropped = {"strategy": "sequential", "overlong": "drop", "max_lost": "100%"}
    nothing = fastpack.pack_files(path, tokenizer_dir, max_length=8, **dropped)
    assert nothing.num_rows == 0
    assert nothing.schema.names == packed.schema.names


def test_a_tail_that_is_dropped_is_counted_by_documents_that_begin_in_it(write_jsonl, tokenizer_dir):
    path = write_jsonl([{"text": "word " * 50}, {"text": "a"}, {"text": "b"}])
    alone = fastpack.pack_files(path, tokenizer_dir, max_length=256, strategy="none")
    first, *others = map(len, alone["input_ids"].to_pylist())
    room = first - 1
    packed = fastpack.pack_files(
        path, tokenizer_dir, max_length=room, strategy=fastpack.Concat(drop_last=True)
    )
    report = fastpack.Report.of(packed)
    assert packed.num_rows == 1
    assert report.dropped == {"tail": (2, 1 + sum(others))}
    assert report.documents == (3, 1, 2)


def test_what_is_lost_is_looked_at_before_anything_is_in_place(write_jsonl, tokenizer_dir, tmp_path):
    path = write_jsonl([{"text": "word " * 50}, {"text": "a"}])
    options = {"tokenizer": tokenizer_dir, "max_length": 8, "strategy": "sequential", "overlong": "drop"}
    with pytest.raises(fastpack.LossError):
        fastpack.pack_dir(path, tmp_path / "out", max_lost=0, **options)
    assert shards(tmp_path / "out") == {}
    report = fastpack.pack_dir(path, tmp_path / "out", **options)
    assert report.documents == (2, 1, 1)


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
@pytest.mark.parametrize(
    "strategy", ["sequential", *(pytest.param(it, marks=campaign_only) for it in IN_ORDER[1:])]
)
def test_killed_with_rows_written_and_records_to_come_it_goes_on_to_the_same_bytes(
    strategy, big_corpus, tokenizer_dir, tmp_path
):
    options = {"strategy": strategy, "format": fastpack.Format(shard_size="200KB")}
    out = tmp_path / "out"
    written = RUN.replace("reading.documents", 'os.path.exists(out + "/.fastpack/shards")')
    kill_at_work(big_corpus, tokenizer_dir, out, code=written, **options)
    assert (out / ".fastpack/shards").stat().st_size > 0
    assert not shards(out)
    report = fastpack.pack_dir(big_corpus, out, tokenizer=tokenizer_dir, **(OPTIONS | options))
    assert 0 < report.resumed_documents < report.documents.read
    fastpack.pack_dir(big_corpus, tmp_path / "whole", tokenizer=tokenizer_dir, **(OPTIONS | options))
    assert shards(out) == shards(tmp_path / "whole")


def test_what_is_lost_is_met_first_where_it_stands_first(write_jsonl, tokenizer_dir):
    asked = {"role": "user", "content": "word " * 30}
    # One has nothing to learn from, the other nothing that fits into a row.
    losses = [{"messages": [asked]}, {"messages": [asked, {"role": "assistant", "content": "a"}]}]
    for order in (losses, losses[::-1]):
        path = write_jsonl([*order, conversation(1)])
        for strategy in ("mix", "sequential"):
            options = {"max_length": 16, "overlong": "truncate", "strategy": strategy, "max_lost": 0}
            with pytest.raises(fastpack.LossError, match=r"no_trained_token: [^;]*jsonl:1"):
                fastpack.pack_files(path, tokenizer_dir, **options)


@pytest.mark.alone
def test_many_small_files_take_no_longer_each_than_few(tokenizer_dir, tmp_path):
    # Each is a run of documents of its own, and all of them wait for one row.
    for number in range(4_000):
        (tmp_path / f"{number}.jsonl").write_text('{"text": "a"}\n' * 100)
    options = {"max_length": 1 << 20, "strategy": "concat", "threads": 1}

    def seconds(files):
        return min(timed(lambda: fastpack.pack_files(files, tokenizer_dir, **options)) for _ in range(2))

    paths = sorted(tmp_path.glob("*.jsonl"))
    assert seconds(paths) < 60 * seconds(paths[:200])


def timed(work):
    began = time.process_time()
    work()
    return time.process_time() - began
