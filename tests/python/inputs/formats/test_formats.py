"""The files of every format, read by the libraries that people read them with."""

from __future__ import annotations

import datasets
import msgpack
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nested import flat, nested, place
from rows import COLUMNS

import fastpack
from fastpack import cli

FORMATS = ["arrow", "jsonl", "parquet"]
ARRAYS = ["input_ids", "labels", "position_ids"]
OPTIONS = {"max_length": 256, "padding": 8}


@pytest.fixture
def table(corpus, tokenizer_dir):
    """The rows, as a table."""
    return flat.pack_files(corpus, tokenizer_dir, **OPTIONS, columns=COLUMNS)


@pytest.fixture
def write(corpus, tokenizer_dir, tmp_path):
    """Writes the rows in a format; returns the shards."""

    def written(name, *, folder="out", **options):
        options = {**OPTIONS, "columns": COLUMNS, **options}
        flat.pack_dir(corpus, tmp_path / folder, tokenizer=tokenizer_dir, format=name, **options)
        return sorted((tmp_path / folder).glob("train-*"))

    return written


@pytest.fixture(autouse=True)
def quiet(tmp_path, monkeypatch):
    """No bars, and a cache of its own."""
    datasets.disable_progress_bars()
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("compression", [None, "none", "lz4", "snappy", "zstd"])
def test_parquet_is_read_by_pyarrow_polars_and_datasets(write, table, compression):
    (shard,) = write("parquet", compression=compression)
    assert shard.name == "train-00000.parquet"
    assert pq.read_table(shard).to_pylist() == table.to_pylist()
    assert pl.read_parquet(shard).to_dicts() == table.to_pylist()
    loaded = datasets.load_dataset("parquet", data_files=str(shard), split="train")
    assert loaded.to_list() == table.to_pylist()
    assert loaded.features["input_ids"].feature.dtype == "int32"
    codec = pq.ParquetFile(shard).metadata.row_group(0).column(0).compression
    assert codec == {None: "ZSTD", "none": "UNCOMPRESSED", "lz4": "LZ4"}.get(
        compression, str(compression).upper()
    )


@pytest.mark.parametrize("compression", [None, "none", "lz4", "zstd"])
def test_arrow_is_read_by_datasets_and_by_load_dataset(write, table, compression):
    (shard,) = write("arrow", compression=compression)
    assert datasets.Dataset.from_file(str(shard)).to_list() == table.to_pylist()
    loaded = datasets.load_dataset("arrow", data_files=str(shard), split="train")
    assert loaded.to_list() == table.to_pylist()
    assert loaded.features["attn_cost"].dtype == "int64"


def test_jsonl_is_read_by_load_dataset(write, table):
    (shard,) = write("jsonl")
    loaded = datasets.load_dataset("json", data_files=str(shard), split="train")
    assert loaded.to_list() == table.to_pylist()


def test_msgpack_arrays_are_those_of_collate(write, table):
    (shard,) = write("msgpack_arrays", columns=ARRAYS)
    assert shard.name == "train-00000.msgpack"
    rows = msgpack.unpackb(shard.read_bytes())
    assert shard.read_bytes()[5:] == b"".join(map(msgpack.packb, rows))  # the shortest form of every number
    assert rows == [[*(row[name] for name in ARRAYS), len(row["input_ids"])] for row in table.to_pylist()]


def test_the_manifest_has_the_hash_of_msgpack_arrays(write):
    import json
    import subprocess

    (shard,) = write("msgpack_arrays", columns=ARRAYS)
    (file,) = json.loads((shard.parent / "manifest.json").read_text())["files"]
    assert file["bytes"] == shard.stat().st_size
    if subprocess.run(["which", "b3sum"], capture_output=True, check=False).returncode == 0:
        digest = subprocess.run(["b3sum", "--no-names", shard], capture_output=True, text=True, check=True)
        assert file["blake3"] == digest.stdout.strip()


@pytest.mark.parametrize("name", [*FORMATS, "msgpack_arrays"])
def test_bytes_depend_on_nothing_but_the_job(write, name):
    options = {"shard_size": "30KB"}
    if name == "msgpack_arrays":
        options["columns"] = ARRAYS
    one = write(name, folder="one", threads=1, **options)
    four = write(name, folder="four", threads=4, **options)
    assert len(one) > 1
    assert [path.name for path in one] == [path.name for path in four]
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in four]


@pytest.mark.parametrize("name", FORMATS)
def test_shards_of_every_format_hold_all_rows_in_their_order(write, table, name):
    readers = {
        "arrow": lambda path: pa.ipc.open_stream(path).read_all().to_pylist(),
        "jsonl": lambda path: pl.read_ndjson(path).to_dicts(),
        "parquet": lambda path: pq.read_table(path).to_pylist(),
    }
    shards = write(name, shard_size="30KB")
    assert len(shards) > 2
    assert [row for shard in shards for row in readers[name](shard)] == table.to_pylist()


def test_row_groups_are_small_enough_to_stream(tmp_path):
    # 2.4 million tokens of four columns: some 29 MB, in groups of 16 MiB.
    ids = pa.ListArray.from_arrays(
        pa.array(range(0, 2_400_001, 800), type=pa.int32()), pa.array([5] * 2_400_000, type=pa.int32())
    )
    source = tmp_path / "in.parquet"
    pq.write_table(pa.table({"input_ids": ids}), source)
    tokenizer = "examples/tokenizer"
    flat.pack_dir(source, tmp_path / "out", tokenizer=tokenizer, max_length=800, format="parquet")
    file = pq.ParquetFile(tmp_path / "out" / "train-00000.parquet")
    assert file.num_row_groups == 2
    assert sum(file.metadata.row_group(at).num_rows for at in range(2)) == 3000


@pytest.mark.parametrize("name", [*FORMATS, "msgpack_arrays"])
def test_a_job_without_rows_is_a_file_without_rows(write_jsonl, tokenizer_dir, tmp_path, name):
    path = write_jsonl([])
    options = {"tokenizer": tokenizer_dir, "max_length": 8, "format": name, "columns": ARRAYS}
    flat.pack_dir(path, tmp_path / "out", **options)
    (shard,) = (tmp_path / "out").glob("train-*")
    empty = {
        "arrow": lambda: pa.ipc.open_stream(shard).read_all().num_rows,
        "jsonl": lambda: len(shard.read_bytes()),
        "msgpack_arrays": lambda: len(msgpack.unpackb(shard.read_bytes())),
        "parquet": lambda: pq.read_table(shard).num_rows,
    }
    assert empty[name]() == 0


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"format": "jsonl", "compression": "zstd"}, "format.compression"),
        ({"format": "arrow", "compression": "snappy"}, "format.compression"),
        ({"format": "msgpack_arrays", "compression": "lz4", "columns": ARRAYS}, "format.compression"),
        ({"format": "parquet", "compression": "brotli"}, "format.compression"),
        ({"format": "msgpack_arrays"}, "columns"),
        ({"format": "csv"}, "format.name"),
    ],
)
def test_what_a_format_cannot_do_is_refused_by_name(corpus, tokenizer_dir, tmp_path, options, option):
    with pytest.raises(fastpack.OptionError) as caught:
        flat.pack_dir(corpus, tmp_path / "out", tokenizer=tokenizer_dir, max_length=64, **nested(options))
    assert caught.value.option == place(option)
    assert not (tmp_path / "out").exists()


def test_shards_of_another_format_are_replaced(write):
    write("parquet")
    assert [path.name for path in write("arrow", overwrite=True)] == ["train-00000.arrow"]
    assert [path.name for path in write("jsonl", overwrite=True)] == ["train-00000.jsonl"]


def test_inspect_shows_rows_of_parquet_as_of_arrow(write, capsys):
    shown = []
    for name in ("arrow", "parquet", "jsonl"):
        (shard,) = write(name, folder=name)
        assert cli.main(["inspect", str(shard), "--row", "2"]) == 0
        shown.append(capsys.readouterr().out.replace(str(shard), ""))
    assert len(set(shown)) == 1
    (shard,) = write("msgpack_arrays", folder="msgpack", columns=ARRAYS)
    assert cli.main(["inspect", str(shard)]) == 1
    assert "msgpack.unpackb" in capsys.readouterr().err
