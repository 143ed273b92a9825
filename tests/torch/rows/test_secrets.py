"""A secret in a URL, or in the options of storage, is told by no data set, and travels in a pickle only where the caller gave it as a value."""

from __future__ import annotations

import pickle
import random
import warnings
from itertools import islice

import pytest
from campaign import tries
from canary import CANARY, everything_in, urls
from conftest import documents, pack
from remote_folders import of_web

import fastpack
from fastpack.torch import PackedDataset, PackSampler, StreamDataset

OF_ENVIRONMENT = "c4n4ryOfTheEnvironment"

QUICK = {"max_retries": "0", "connect_timeout": "1s", "timeout": "1s"}


@pytest.fixture
def packed(tmp_path, monkeypatch):
    """A packed folder in the working folder, and secrets in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "AZURE_STORAGE_ACCOUNT_KEY"):
        monkeypatch.setenv(name, OF_ENVIRONMENT)
    pack(documents(40), output=tmp_path / "packed")
    return tmp_path / "packed"


def rows_of_stream(url):
    records = fastpack.stream(url, max_length=64, storage=fastpack.Storage(options=QUICK))
    return list(islice(StreamDataset(records), 2))


CALLS = {
    "folder": lambda url: PackedDataset(url, storage=QUICK)[0],
    "several folders": lambda url: PackedDataset("packed", url, storage=QUICK)[0],
    "cache": lambda url: PackedDataset("packed", cache_dir=url)[0],
    "split": lambda url: PackedDataset("packed", split=url),
    "stream": rows_of_stream,
    "state of a stream": lambda url: StreamDataset(
        fastpack.stream("data.jsonl", max_length=64)
    ).load_state_dict({url: url, "version": url}),
    "remainder of a sampler": lambda url: PackSampler(PackedDataset("packed"), on_remainder=url),
}


@pytest.mark.parametrize("call", sorted(CALLS))
def test_no_data_set_tells_a_secret(call, packed, tmp_path):
    (tmp_path / "data.jsonl").write_text('{"input_ids": [1, 2, 3]}\n')
    told = {}
    for name, url in urls().items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                CALLS[call](url)
            except Exception as error:
                told[name] = everything_in(error)
    # A cache of rows that lie on this machine is not made.
    assert told or call == "cache"
    assert not [(name, text) for name, text in told.items() if CANARY in text]
    assert CANARY not in "\n".join(str(path) for path in tmp_path.rglob("*"))


def test_a_pickle_of_rows_holds_a_secret_only_for_the_storage_that_it_opens(packed, tmp_path):
    with of_web(packed, tmp_path / "web") as web:
        for options, is_in in (({}, False), ({"aws_secret_access_key": CANARY}, True)):
            storage = fastpack.Storage(options=options)
            rows = PackedDataset(web.url, storage=storage, cache_dir=tmp_path / "rows")
            sent = pickle.dumps(rows)
            assert (CANARY.encode() in sent) is is_in
            assert OF_ENVIRONMENT.encode() not in sent
            assert CANARY not in repr(rows)
            assert pickle.loads(sent)[0].keys() == rows[0].keys()
    local = PackedDataset(packed, storage=fastpack.Storage(options={"aws_secret_access_key": CANARY}))
    assert CANARY.encode() not in pickle.dumps(local)


def test_a_pickle_of_a_stream_holds_a_secret_only_for_the_storage_that_it_opens(packed, tmp_path):
    (tmp_path / "data.jsonl").write_text('{"input_ids": [1, 2, 3]}\n' * 9)
    for options, is_in in (({}, False), ({"aws_secret_access_key": CANARY}, True)):
        rows = StreamDataset(
            fastpack.stream("data.jsonl", max_length=64, storage=fastpack.Storage(options=options))
        )
        sent = pickle.dumps(rows)
        assert (CANARY.encode() in sent) is is_in
        assert OF_ENVIRONMENT.encode() not in sent
        assert CANARY not in repr(rows)
        again = pickle.loads(sent)
        assert [row["input_ids"].tolist() for row in again] == [row["input_ids"].tolist() for row in rows]
        assert CANARY not in str(again.state_dict())


SECRETS = {
    "nothing": lambda: None,
    "a dict": lambda: {"aws_secret_access_key": CANARY},
    "options": lambda: fastpack.Storage(options={"azure_storage_account_key": CANARY, **QUICK}),
    "no secret": lambda: QUICK,
}
"""What the caller gives as `storage`."""

IN_MEMORY = ("a table", "dicts")
"""Sources that are in no folder."""


def source_of(name, web):
    """The rows of a source, on this disk, in memory, or on a server, whose URL may have a password."""
    table = fastpack.read("packed")
    return {
        "a folder": "packed",
        "two folders": ["packed", "packed"],
        "a table": table,
        "dicts": table.to_pylist(),
        "a server": web,
        "a server with a password": web.replace("://", f"://user:{CANARY}@"),
        "both": ["packed", web],
    }[name]


SOURCES = ["a folder", "two folders", *IN_MEMORY, "a server", "a server with a password", "both"]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("seed", range(tries(1, 20)))
def test_a_pickle_of_rows_holds_a_secret_only_where_the_caller_gave_it_and_it_opens_a_server(
    seed, secret, source, packed, tmp_path
):
    """Whether rows were read or not, for some columns or all, and of a pickle that came out of a pickle."""
    chance = random.Random(f"{source} {secret} {seed}")
    with of_web(packed, tmp_path / "web") as web:
        columns = chance.choice([None, ["input_ids", "seq_lengths"], ["input_ids", "labels", "seq_lengths"]])
        given = {"storage": SECRETS[secret](), "cache_dir": tmp_path / "rows", "columns": columns}
        if source in IN_MEMORY:
            given = {"columns": columns} if secret == "nothing" else {"columns": columns, "storage": None}
        rows = PackedDataset(source_of(source, web.url), **given)
        for moment in chance.choices(["read", "pickle", "nothing"], k=3):
            if moment == "read":
                rows[chance.randrange(len(rows))]
            elif moment == "pickle":
                rows = pickle.loads(pickle.dumps(rows))
        sent = pickle.dumps(rows)
        is_remote = source in ("a server", "a server with a password", "both")
        is_given = secret in ("a dict", "options") or "password" in source
        # A worker opens the server with it.
        assert (CANARY.encode() in sent) is (is_given and is_remote)
        assert OF_ENVIRONMENT.encode() not in sent
        again = pickle.loads(sent)
        assert CANARY not in repr(rows) + repr(again)
        assert {name: list(value) for name, value in again[0].items()} == {
            name: list(value) for name, value in rows[0].items()
        }


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("seed", range(tries(2, 40)))
def test_a_pickle_of_a_stream_of_rows_holds_a_secret_only_where_the_caller_gave_it(
    seed, secret, packed, tmp_path
):
    """At the beginning and behind any row, for any rank, and with the state of another."""
    chance = random.Random(f"{secret} {seed}")
    (tmp_path / "data.jsonl").write_text('{"input_ids": [1, 2, 3]}\n' * chance.choice([4, 40]))
    storage = SECRETS[secret]()
    given = {} if storage is None else {"storage": storage}
    world = chance.choice([1, 2])
    stream = fastpack.stream("data.jsonl", max_length=64, epochs=None, ranks=fastpack.Ranks(lanes=4), **given)
    rank = chance.randrange(world)
    rows = StreamDataset(stream, rank=rank, world_size=world)
    if chance.random() < 0.7:
        list(islice(rows, chance.randint(1, 9)))
    if chance.random() < 0.5:
        other = StreamDataset(stream, rank=rank, world_size=world)
        other.load_state_dict(rows.state_dict())
        rows = other
    sent = pickle.dumps(rows)
    is_given = secret in ("a dict", "options")
    assert (CANARY.encode() in sent) is is_given
    assert OF_ENVIRONMENT.encode() not in sent
    again = pickle.loads(sent)
    assert CANARY not in repr(rows) + repr(again) + str(again.state_dict()) + str(rows.state_dict())
