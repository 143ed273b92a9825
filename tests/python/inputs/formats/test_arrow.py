"""The tables and files as others read them."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import fastpack


@pytest.fixture
def packed(corpus, tokenizer_dir, tmp_path):
    """An arrow shard, and the rows it holds."""
    fastpack.pack_dir(corpus, tmp_path / "out", tokenizer=tokenizer_dir, max_length=256)
    rows = fastpack.pack_files(corpus, tokenizer_dir, max_length=256).to_pylist()
    return tmp_path / "out" / "train-00000.arrow", rows


def test_columns_are_lists_of_int32(corpus, tokenizer_dir):
    table = fastpack.pack_files(corpus, tokenizer_dir, max_length=256)
    assert set(table.schema.types) == {pa.list_(pa.int32())}
    assert table.validate(full=True) is None
    assert all(column.null_count == 0 for column in table.columns)


def test_the_metadata_names_the_features(corpus, tokenizer_dir):
    table = fastpack.pack_files(corpus, tokenizer_dir, max_length=256)
    features = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]
    assert list(features) == table.column_names


def test_pyarrow_reads_a_shard(packed):
    path, rows = packed
    with pa.OSFile(str(path), "rb") as source:
        assert pa.ipc.open_stream(source).read_all().to_pylist() == rows


def test_datasets_reads_a_shard(packed):
    datasets = pytest.importorskip("datasets")
    path, rows = packed
    dataset = datasets.Dataset.from_file(str(path))
    assert list(dataset) == rows
    assert dataset.column_names == ["input_ids", "labels", "position_ids", "seq_lengths"]


def test_polars_reads_a_shard(packed):
    polars = pytest.importorskip("polars")
    path, rows = packed
    assert polars.read_ipc_stream(path).to_dicts() == rows


def test_duckdb_reads_a_shard(packed):
    duckdb = pytest.importorskip("duckdb")
    path, rows = packed
    with pa.OSFile(str(path), "rb") as source:
        shard = pa.ipc.open_stream(source).read_all()
    with duckdb.connect() as connection:
        connection.register("shard", shard)
        counted = connection.execute("select count(*), sum(len(input_ids)) from shard").fetchone()
    assert counted == (len(rows), sum(len(row["input_ids"]) for row in rows))


def test_polars_and_pandas_take_a_table(corpus, tokenizer_dir):
    polars = pytest.importorskip("polars")
    table = fastpack.pack_files(corpus, tokenizer_dir, max_length=256)
    assert polars.from_arrow(table).height == table.num_rows
    assert len(table.to_pandas()) == table.num_rows
