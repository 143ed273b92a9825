"""A stream enters MDS shards at any record: its lanes share a shard, and a resumed stream reads no more than it needs."""

from __future__ import annotations

import itertools
import struct
from pathlib import Path

import pytest
from conftest import sentence
from containers import lines
from mds_shards import shard, write
from web_server import serving

import fastpack

TEXTS = [f"{number} {sentence(number, 3 + number % 50)}" for number in range(600)]
RECORDS = [{"text": text, "number": number} for number, text in enumerate(TEXTS)]
COLUMNS = {"text": "str", "number": "int"}
SMALL = {"max_length": 4096, "strategy": "none", "columns": ["input_ids", "source_row"], "shuffle": False}


@pytest.fixture(scope="module")
def loaded(tokenizer_dir):
    return fastpack.Tokenizer(tokenizer_dir)


@pytest.fixture
def folder(tmp_path):
    """The records in three shards."""
    return write(tmp_path / "mds", [RECORDS[:250], RECORDS[250:251], RECORDS[251:]], COLUMNS)


@pytest.fixture
def same_lines(tmp_path):
    """The records in three files of lines."""
    paths = []
    for name, records in (("0", RECORDS[:250]), ("1", RECORDS[250:251]), ("2", RECORDS[251:])):
        paths.append(tmp_path / f"{name}.jsonl")
        paths[-1].write_bytes(lines(records))
    return paths


def rows_of(tables):
    return [row for table in tables for row in table.to_pylist()]


def documents(tables):
    """The documents with the numbers of their records, in any order."""
    return sorted((*row["source_row"], *row["input_ids"]) for row in rows_of(tables))


@pytest.mark.parametrize("limit", [None, 40])
@pytest.mark.parametrize(
    "more",
    [{}, {"select": fastpack.Select(skip=100, take=300)}, {"select": fastpack.Select(stride=7)}],
    ids=str,
)
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("lanes", [1, 3, 16])
def test_the_records_of_shards_are_those_of_lines_whatever_the_lanes(
    lanes, shuffle, more, limit, folder, same_lines, loaded
):
    options = {**SMALL, **more, "ranks": fastpack.Ranks(lanes=lanes), "shuffle": shuffle}
    found, expected = (
        list(
            fastpack.stream(
                {"all": {"path": files, **({"limit": limit} if limit else {})}}, loaded, **options
            )
        )
        for files in (folder, same_lines)
    )
    assert documents(found) == documents(expected)
    if lanes == 1 and not shuffle:
        assert rows_of(found) == rows_of(expected)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("where", ["local", "web"])
def test_a_stream_of_shards_resumes_at_every_table(where, shuffle, folder, loaded):
    options = {
        **SMALL,
        "ranks": fastpack.Ranks(lanes=5),
        "shuffle": shuffle,
        "strategy": "concat",
        "max_length": 256,
    }
    with serving(folder) as server:
        files = [f"{server.url}/shard.0000{number}.mds" for number in range(3)]
        files = folder if where == "local" else files
        tables = list(fastpack.stream(files, loaded, batch_size=8, **options))
        assert len(tables) > 5
        for number, table in enumerate(tables[:-1]):
            again = fastpack.stream(files, loaded, batch_size=8, **options)
            again.load_state_dict(fastpack.state_of(table))
            assert rows_of(again) == rows_of(tables[number + 1 :])


def test_a_shard_is_shared_by_many_ranks(tmp_path, loaded):
    folder = write(tmp_path / "one", [RECORDS], COLUMNS)
    found = []
    for rank in range(6):
        options = {
            **SMALL,
            "ranks": fastpack.Ranks(rank=rank, world_size=6, lanes=12),
            "batch_size": 2,
            "epochs": None,
        }
        with fastpack.stream(folder, loaded, **options) as stream:
            found.append(set(documents(itertools.islice(stream, 15))))
    assert all(len(of_rank) == 30 for of_rank in found)
    for one, other in itertools.combinations(found, 2):
        assert not one & other


def read_by_this_process():
    """The bytes that this process has read of files and connections."""
    told = dict(line.split(": ") for line in Path("/proc/self/io").read_text(encoding="ascii").splitlines())
    return int(told["rchar"])


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="counts bytes by /proc")
@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("where", ["local", "web"])
def test_a_stream_that_resumes_near_the_end_of_a_shard_does_not_read_its_beginning(
    where, lanes, tmp_path, loaded
):
    texts = [{"text": f"{number} " + "the river and the boat " * 200} for number in range(5000)]
    folder = write(tmp_path / "large", [texts], {"text": "str"})
    size = (folder / "shard.00000.mds").stat().st_size
    assert size > 20_000_000
    options = {
        "max_length": 2048,
        "shuffle": False,
        "ranks": fastpack.Ranks(lanes=lanes),
        "strategy": "concat",
        "batch_size": 64,
    }
    with serving(folder) as server:
        files = f"{server.url}/shard.00000.mds" if where == "web" else folder
        tables = list(fastpack.stream(files, loaded, **options))
        state = fastpack.state_of(tables[-3])
        expected = [row for table in tables[-2:] for row in table["input_ids"].to_pylist()]
        before, sent = read_by_this_process(), server.bytes
        again = fastpack.stream(files, loaded, **options)
        again.load_state_dict(state)
        found = [row for table in again for row in table["input_ids"].to_pylist()]
        read = server.bytes - sent if where == "web" else read_by_this_process() - before
    assert found == expected
    # The extents that were begun, and the tables that are left.
    assert read < size / 4, f"{read} of {size} bytes"


def test_a_shard_of_zstd_is_read_by_one_lane_and_resumes(tmp_path, loaded):
    folder = write(tmp_path / "mds", [RECORDS], COLUMNS, compression="zstd", raw=False)
    options = {**SMALL, "ranks": fastpack.Ranks(lanes=3), "batch_size": 50}
    tables = list(fastpack.stream(folder, loaded, **options))
    assert documents(tables) == documents(
        fastpack.stream(folder, loaded, **{**SMALL, "ranks": fastpack.Ranks(lanes=1)})
    )
    for number in (0, 5, len(tables) - 2):
        again = fastpack.stream(folder, loaded, **options)
        again.load_state_dict(fastpack.state_of(tables[number]))
        assert rows_of(again) == rows_of(tables[number + 1 :])


@pytest.mark.parametrize("spoil", ["cut", "offsets", "columns", "empty"])
def test_a_stream_names_the_record_of_a_damaged_shard(spoil, tmp_path, loaded):
    content = bytearray(shard(RECORDS, COLUMNS))
    if spoil == "cut":
        content = content[:-100]
    elif spoil == "offsets":
        content[4:8] = struct.pack("<I", 1 << 31)
    elif spoil == "columns":
        content[content.index(b"column_names")] = ord("x")
    else:
        content = bytearray()
    path = tmp_path / "shard.mds"
    path.write_bytes(bytes(content))
    with pytest.raises(fastpack.RecordError, match=r"shard\.mds:\d+: ") as caught:
        list(fastpack.stream(path, loaded, **SMALL, ranks=fastpack.Ranks(lanes=4)))
    assert caught.value.line == (len(RECORDS) if spoil == "cut" else 1)


def test_a_record_of_a_later_extent_is_named_by_its_number(tmp_path, loaded):
    content = bytearray(shard([{"text": text} for text in TEXTS], {"text": "str"}))
    at = content.index(TEXTS[450].encode())
    content[at] = 0xFF
    path = tmp_path / "shard.mds"
    path.write_bytes(bytes(content))
    with pytest.raises(fastpack.RecordError, match=r"shard\.mds:451: .*not UTF-8"):
        list(fastpack.stream(path, loaded, **SMALL, ranks=fastpack.Ranks(lanes=4)))
    stream = fastpack.stream(path, loaded, **SMALL, ranks=fastpack.Ranks(lanes=4), on_bad_record="skip")
    assert len(rows_of(stream)) == len(TEXTS) - 1


def test_a_shard_without_records_is_passed_over(tmp_path, loaded):
    folder = write(tmp_path / "mds", [[], RECORDS[:20], []], COLUMNS)
    assert len(rows_of(fastpack.stream(folder, loaded, **SMALL, ranks=fastpack.Ranks(lanes=2)))) == 20


def test_a_shard_that_is_entered_anywhere_is_not_written_again(folder, tmp_path):
    with pytest.raises(
        fastpack.OptionError, match=r"`.*shard\.00000\.mds` is entered at any record as it is"
    ):
        fastpack.reindex(folder, tmp_path / "again")
