"""`fastpack.export`: rows in the formats of other trainers hold the same tokens."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow.parquet as pq
import pytest

import fastpack


@pytest.fixture
def folder(corpus, tokenizer_dir, tmp_path):
    """A packed folder with a validation split."""
    fastpack.pack_dir(
        corpus, tmp_path / "packed", tokenizer=tokenizer_dir, max_length=256, validation=10, progress=False
    )
    return tmp_path / "packed"


def documents_of(rows):
    """The documents of rows."""
    return [
        row["input_ids"][end - length : end]
        for row in rows
        for end, length in zip(np.cumsum(row["seq_lengths"]), row["seq_lengths"], strict=True)
    ]


def megatron_documents(path):
    """The documents of Megatron's files, as its layout says: header, sizes, pointers, documents."""
    index = path.with_suffix(".idx").read_bytes()
    assert index[:9] == b"MMIDIDX\x00\x00"
    version, kind, sequences, documents = struct.unpack_from("<QBQQ", index, 9)
    assert version == 1
    at = 9 + 25
    sizes = np.frombuffer(index, np.int32, sequences, at)
    pointers = np.frombuffer(index, np.int64, sequences, at + 4 * sequences)
    indices = np.frombuffer(index, np.int64, documents, at + 12 * sequences)
    assert len(index) == at + 12 * sequences + 8 * documents
    assert indices.tolist() == list(range(sequences + 1))
    dtype = {4: np.int32, 8: np.uint16}[kind]
    tokens = path.with_suffix(".bin").read_bytes()
    return [
        np.frombuffer(tokens, dtype, size, pointer).tolist()
        for size, pointer in zip(sizes, pointers, strict=True)
    ]


@pytest.mark.parametrize("split", ["train", "validation"])
def test_megatrons_files_hold_each_document(folder, tmp_path, split):
    written = fastpack.export(folder, tmp_path / "tokens", format="megatron", split=split)
    assert written == [tmp_path / "tokens.bin", tmp_path / "tokens.idx"]
    rows = fastpack.read(folder, split=split).to_pylist()
    assert megatron_documents(tmp_path / "tokens") == documents_of(rows)
    assert written[0].stat().st_size == 2 * sum(len(row["input_ids"]) for row in rows)


def test_tokens_above_16_bits_have_32_in_megatrons_files(tmp_path):
    records = [{"input_ids": [70_000, 5, at]} for at in range(20)]
    fastpack.pack_records(records, max_length=16, output=tmp_path / "packed", progress=False)
    fastpack.export(tmp_path / "packed", tmp_path / "tokens", format="megatron")
    assert sorted(megatron_documents(tmp_path / "tokens")) == sorted(
        record["input_ids"] for record in records
    )


def test_rows_of_megatron_bridge_have_masks_and_starts(folder, tmp_path):
    fastpack.export(folder, tmp_path / "rows", format="megatron_bridge")
    found = pq.read_table(tmp_path / "rows.parquet").to_pylist()
    assert found == [
        {
            "input_ids": row["input_ids"],
            "loss_mask": [int(label != -100) for label in row["labels"]],
            "seq_start_id": [0, *np.cumsum(row["seq_lengths"])[:-1].tolist()],
        }
        for row in fastpack.read(folder).to_pylist()
    ]


def test_numpy_has_all_values_and_where_rows_begin(folder, tmp_path):
    fastpack.export(folder, tmp_path / "rows", format="numpy")
    rows = fastpack.read(folder).to_pylist()
    with np.load(tmp_path / "rows.npz") as found:
        for name, offsets in (
            ("input_ids", "row_offsets"),
            ("labels", "row_offsets"),
            ("seq_lengths", "seq_offsets"),
        ):
            pieces = np.split(found[name], found[offsets][1:-1])
            assert [piece.tolist() for piece in pieces] == [row[name] for row in rows]


def test_nothing_is_written_over_and_nothing_left_behind(folder, tmp_path):
    fastpack.export(folder, tmp_path / "rows", format="numpy")
    with pytest.raises(fastpack.OutputError, match="is there already; remove it"):
        fastpack.export(folder, tmp_path / "rows", format="numpy")
    with pytest.raises(fastpack.OptionError, match='`format`: must be one of "megatron"'):
        fastpack.export(folder, tmp_path / "rows", format="nemo")
    assert not list(tmp_path.glob(".*.part"))


def test_a_missing_column_is_named(tmp_path):
    fastpack.pack_records(
        [{"input_ids": [1, 2]}],
        max_length=8,
        output=tmp_path / "packed",
        columns=["input_ids", "seq_lengths"],
        progress=False,
    )
    with pytest.raises(fastpack.FastpackError, match="has no column `labels`, which this format needs"):
        fastpack.export(tmp_path / "packed", tmp_path / "rows", format="numpy")
