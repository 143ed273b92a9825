"""A secret in a URL, or in the options of storage, is told by no data set, and travels in a pickle only where the caller gave it as a value."""

from __future__ import annotations

import pickle
import warnings
from itertools import islice

import pytest
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
