"""One walk through everything that a run in remote storage needs, from files in a bucket to rows that were trained on."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter

import pytest
from cloud_stores import cloud
from places import SUPPORT
from small_models import VOCABULARY

import fastpack

COLUMNS = ["input_ids", "labels", "position_ids", "seq_lengths", "source_file", "source_row"]

LENGTH = 64


def put_documents(store, name, count, lot):
    """Writes documents of random ids into the bucket."""
    ids = [[lot.randrange(3, VOCABULARY) for _ in range(lot.randrange(2, 25))] for _ in range(count)]
    text = "".join(json.dumps({"input_ids": each}) + "\n" for each in ids)
    store.server.put("bucket", f"data/{name}.jsonl", text.encode())
    return store.url(f"data/{name}.jsonl")


def trained(output):
    """The rows that a rank has trained, by their places in the order of the run."""
    # A killed rank leaves a line without an end.
    lines = output.read_text().split("\n")[:-1] if output.exists() else []
    return {place: [tuple(document) for document in documents] for place, documents in map(json.loads, lines)}


def start(remote, ranks, begin, folder, pause):
    """Starts the ranks of a run, which share a cache, as those of one machine do."""
    for rank in range(ranks):
        given = json.dumps([*remote, str(folder / f"cache-{ranks}")])
        arguments = [given, rank, ranks, begin, folder / f"trained-{ranks}-{rank}.jsonl", pause]
        yield subprocess.Popen([sys.executable, SUPPORT / "train_remote.py", *map(str, arguments)])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_from_files_in_a_bucket_to_each_document_once(tmp_path):
    lot = random.Random(5)
    with cloud("gs") as store:
        chats = [put_documents(store, f"chats-{at}", count, lot) for at, count in enumerate((300, 60))]
        code = put_documents(store, "code", 200, lot)
        storage = fastpack.Storage(store.options)
        given = {"max_length": LENGTH, "progress": False}

        # More data without beginning again.
        grown, whole = tmp_path / "grown", tmp_path / "whole"
        fastpack.pack_dir(chats[0], grown, keep_tokens=True, storage=storage, **given)
        report = fastpack.pack_dir(chats[1], grown, exists="append", storage=storage, **given)
        assert (report.appended_files, report.documents.read) == (1, 360)
        fastpack.pack_dir(chats, whole, keep_tokens=True, storage=storage, **given)
        assert fastpack.read(grown) == fastpack.read(whole)

        # Shares of two sources, looked at and then packed into the bucket.
        drawn = fastpack.Weights({"chats": 2, "code": 1}, unit="documents")
        scanned = fastpack.scan([*chats, code], storage=storage, **given)
        assert scanned.documents == 560
        packed = store.url("packed")
        options = {
            "columns": COLUMNS,
            "strategy": "best_fit",
            "format": fastpack.Format(shard_size="6KB"),
            "storage": fastpack.Storage(store.options, work_dir=tmp_path / "work"),
        }
        report = fastpack.pack_dir({"chats": chats, "code": code}, packed, weights=drawn, **options, **given)
        assert report.shares["code"].got == pytest.approx(1 / 3, abs=0.01)

        # The bucket holds the rows that were packed.
        assert fastpack.verify(packed, storage=storage).problems == ()
        table = fastpack.read(packed, cache_dir=tmp_path / "cache", storage=storage)
        expected = Counter(
            document
            for row in table.to_pylist()
            for document in zip(row["source_file"], row["source_row"], strict=True)
        )
        assert set(expected.values()) == {1}

        # Two ranks train from there, with a cache of two shards, until they are killed.
        shards = [len(it) for name, it in store.server.listing("bucket", "packed/train-").items()]
        assert len(shards) > 10
        most = 2 * max(shards)
        ranks = list(start((packed, store.options, most), 2, 0, tmp_path, 0.05))
        outputs = [tmp_path / f"trained-2-{rank}.jsonl" for rank in range(2)]
        while min(len(trained(output)) for output in outputs) < 8:
            assert all(rank.poll() is None for rank in ranks)
            time.sleep(0.05)
        for rank in ranks:
            rank.kill()
            rank.wait()
        # A checkpoint is of a step that all ranks have made: a further step of one is done again.
        steps = min(len(trained(output)) for output in outputs)
        done = {place: it for output in outputs for place, it in trained(output).items() if place < 2 * steps}
        assert 0 < len(done) < table.num_rows

        # Three ranks go on.
        for rank in list(start((packed, store.options, most), 3, len(done), tmp_path, 0)):
            assert rank.wait() == 0
        held = [path.stat().st_size for path in (tmp_path / "cache-3").rglob("*.arrow")]
        assert 0 < sum(held) <= most
        for rank in range(3):
            done |= trained(tmp_path / f"trained-3-{rank}.jsonl")
        assert sorted(done) == list(range(table.num_rows))
        assert Counter(document for row in done.values() for document in row) == expected
