"""`fastpack.read` and `fastpack.hf.load`: the rows of a folder, whatever lies beside its shards."""

from __future__ import annotations

import json
import shutil

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nested import nested
from sealing import seal_again

import fastpack
import fastpack.hf


@pytest.fixture
def pack(corpus, tokenizer_dir, tmp_path):
    """Packs the corpus into a folder, and gives the folder and the rows of `pack_files`."""

    def packed(name="packed", **options):
        folder = tmp_path / name
        fastpack.pack_dir(
            corpus,
            folder,
            tokenizer=tokenizer_dir,
            max_length=256,
            progress=False,
            **nested({"shard_size": 20_000}, options),
        )
        unpacked = {key: value for key, value in options.items() if key in {"validation", "columns"}}
        return folder, fastpack.pack_files(corpus, tokenizer_dir, max_length=256, progress=False, **unpacked)

    return packed


@pytest.mark.parametrize(
    "options", [{}, {"format": "parquet"}, {"format": "jsonl"}, {"format": fastpack.Format(hf_layout=True)}]
)
def test_the_rows_of_all_shards_are_those_of_pack_files(pack, options):
    columns = ["input_ids", "labels", "seq_lengths", "source_row", "attn_cost"]
    folder, rows = pack(columns=columns, **options)
    read = fastpack.read(folder)
    assert len(fastpack.read(folder).to_batches()) >= 1
    assert read.to_pylist() == rows.to_pylist()
    assert read.column_names == columns
    assert [str(field.type) for field in read.schema] == [str(field.type) for field in rows.schema]
    loaded = fastpack.hf.load(folder)
    assert loaded.to_list() == rows.to_pylist()


@pytest.mark.parametrize("options", [{}, {"format": fastpack.Format(hf_layout=True)}])
def test_each_split_has_its_rows(pack, options):
    folder, splits = pack(validation=20, **options)
    assert fastpack.read(folder).to_pylist() == splits.train.to_pylist()
    assert fastpack.read(folder, split="validation").to_pylist() == splits.validation.to_pylist()
    loaded = fastpack.hf.load(folder)
    assert {name: split.to_list() for name, split in loaded.items()} == {
        "train": splits.train.to_pylist(),
        "validation": splits.validation.to_pylist(),
    }
    assert fastpack.hf.load(folder, split="validation").to_list() == splits.validation.to_pylist()


def test_what_datasets_leaves_beside_the_shards_is_no_row(pack):
    folder, rows = pack()
    mapped = fastpack.hf.load(folder).map(lambda row: {"size": len(row["input_ids"])}, num_proc=1)
    assert sum(mapped["size"]) == sum(map(len, rows["input_ids"].to_pylist()))
    shutil.copy(folder / "train-00000.arrow", folder / "cache-0123456789abcdef.arrow")
    assert list(folder.glob("cache-*.arrow"))
    assert fastpack.read(folder).to_pylist() == rows.to_pylist()
    assert fastpack.hf.load(folder).to_list() == rows.to_pylist()


def test_arrow_shards_are_mapped_and_not_copied(pack):
    folder, _ = pack()
    before = pa.total_allocated_bytes()
    table = fastpack.read(folder)
    assert table.nbytes > 50_000
    assert pa.total_allocated_bytes() - before < 1000


def test_some_columns_are_read(pack):
    folder, rows = pack()
    read = fastpack.read(folder, columns=["seq_lengths", "input_ids"])
    assert read.column_names == ["seq_lengths", "input_ids"]
    assert read["input_ids"].to_pylist() == rows["input_ids"].to_pylist()


def test_folders_of_other_tools_are_read(pack, tmp_path):
    _, rows = pack()
    datasets.Dataset(rows).save_to_disk(tmp_path / "saved", num_shards=2)
    assert fastpack.read(tmp_path / "saved").to_pylist() == rows.to_pylist()
    splits = {"train": datasets.Dataset(rows), "validation": datasets.Dataset(rows[:3])}
    datasets.DatasetDict(splits).save_to_disk(tmp_path / "splits")
    assert fastpack.read(tmp_path / "splits", split="validation").to_pylist() == rows[:3].to_pylist()
    (tmp_path / "plain").mkdir()
    pq.write_table(rows, tmp_path / "plain" / "rows.parquet")
    assert fastpack.read(tmp_path / "plain").to_pylist() == rows.to_pylist()


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(fastpack.InputNotFoundError, match="no such folder of packed rows") as missing:
        fastpack.read(tmp_path / "nowhere")
    assert missing.value.filename == str(tmp_path / "nowhere")


def test_a_folder_without_packed_rows_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("none")
    with pytest.raises(fastpack.FastpackError, match=r"holds no packed rows: no `manifest.json`"):
        fastpack.read(tmp_path)


def test_a_split_or_column_that_is_not_there_is_named_beside_those_that_are(pack):
    folder, _ = pack()
    with pytest.raises(fastpack.OptionError, match="has no split `'test'`; it has `train`") as refused:
        fastpack.read(folder, split="test")
    assert refused.value.option == "split"
    with pytest.raises(fastpack.OptionError, match=r"no column `'tokens'`; it has `input_ids`, `labels`"):
        fastpack.read(folder, columns=["tokens"])


def test_shards_with_other_columns_are_named_with_the_column(pack, tmp_path):
    folder, rows = pack(format="parquet")
    shards = sorted(folder.glob("*.parquet"))
    pq.write_table(rows.drop_columns("labels"), shards[1])
    seal_again(folder)
    with pytest.raises(
        fastpack.FastpackError, match=r"train-00001.parquet: column `labels` is missing, but list<.*> in"
    ):
        fastpack.read(folder)


@pytest.mark.parametrize("spoil", [lambda _: b"", lambda text: text[:1000], lambda _: b"no arrow at all"])
def test_a_shard_that_is_no_arrow_is_named(pack, spoil):
    folder, _ = pack()
    shard = folder / "train-00001.arrow"
    shard.write_bytes(spoil(shard.read_bytes()))
    with pytest.raises(fastpack.FastpackError, match=r"train-00001.arrow: has .* bytes, but"):
        fastpack.read(folder)
    seal_again(folder)
    with pytest.raises(fastpack.FastpackError, match=r"train-00001.arrow cannot be read as arrow"):
        fastpack.read(folder)


def test_a_shard_that_has_changed_is_named(pack):
    folder, _ = pack(format="parquet")
    shard = sorted(folder.glob("*.parquet"))[1]
    pq.write_table(pq.read_table(shard)[:-1], shard)
    with pytest.raises(
        fastpack.FastpackError,
        match=r"train-00001.parquet: has .* bytes, but .* by the manifest: it has changed",
    ):
        fastpack.read(folder)
    with pytest.raises(fastpack.FastpackError, match=r"train-00001.parquet: has .* bytes.* it has changed"):
        fastpack.hf.load(folder)
    seal_again(folder)
    with pytest.raises(
        fastpack.FastpackError, match=r"train-00001.parquet: has .* rows, but .* it has changed"
    ):
        fastpack.hf.load(folder)


def test_a_shard_that_is_missing_is_named(pack):
    folder, _ = pack()
    (folder / "train-00001.arrow").unlink()
    with pytest.raises(fastpack.InputNotFoundError, match="no such file of packed rows"):
        fastpack.read(folder)


def test_a_manifest_that_is_no_json_is_named(pack):
    folder, _ = pack()
    (folder / "manifest.json").write_text("{")
    with pytest.raises(fastpack.FastpackError, match=r"manifest.json cannot be read"):
        fastpack.read(folder)
    (folder / "manifest.json").write_text(json.dumps([1]))
    with pytest.raises(fastpack.FastpackError, match=r"manifest.json holds no JSON object"):
        fastpack.read(folder)


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (b"null", "line 1 is no row, which is an object"),
        (b'{"input_ids": [1]}\nnull\n', "line 2 is no row"),
        (b'{"input_ids": [1]} null\n', "line 1 is no row"),
        (b"[1]\n", "line 1 is no row"),
        (b'"{"\n', "line 1 is no row"),
        (b'{"input_ids": ' + b"[" * 99_999 + b"]" * 99_999 + b"}\n", "line 1 nests deeper than 16 levels"),
        (b'{"a":' * 17 + b"1" + b"}" * 17, "line 1 nests deeper than 16 levels"),
    ],
)
def test_lines_that_are_no_rows_are_refused_by_their_number(lines, fault, pack):
    folder, _ = pack(format="jsonl")
    shard = folder / "train-00000.jsonl"
    shard.write_bytes(lines)
    seal_again(folder)
    for read in (fastpack.read, fastpack.inspect):
        with pytest.raises(fastpack.FastpackError, match=fault):
            read(folder)
    assert not fastpack.verify(folder)


def test_brackets_in_texts_of_lines_are_no_nesting(tmp_path):
    text = '[{"' * 40 + "\\"
    fastpack.pack_records([{"input_ids": [1, 2]}], max_length=4, output=tmp_path / "rows", format="jsonl")
    [shard] = (tmp_path / "rows").glob("*.jsonl")
    row = json.loads(shard.read_text())
    shard.write_text(" \t" + json.dumps({**row, "note": text}) + "\n\n")
    seal_again(tmp_path / "rows")
    assert fastpack.read(tmp_path / "rows")["input_ids"].to_pylist() == [row["input_ids"]]
