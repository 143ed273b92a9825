"""`hf_layout=True`: a folder that `datasets.load_from_disk` maps, with the promises of every folder."""

from __future__ import annotations

import json

import datasets
import pyarrow as pa
import pytest
from conftest import conversation
from processes import kill_at_work

import fastpack

OPTIONS = {"max_length": 256, "format": fastpack.Format(shard_size="2MB", hf_layout=True)}


def files(folder):
    """All files of a folder by their paths in it, but for the two that tell of the run."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    names = {str(path.relative_to(folder)): path.read_bytes() for path in paths}
    del names["report.json"], names["manifest.json"]
    return names


def same_rows(dataset, table):
    return dataset.data.table.cast(table.schema).equals(table)


@pytest.fixture(scope="module")
def undisturbed(long_corpus, tokenizer_dir, tmp_path_factory):
    """The folder of a run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    fastpack.pack_dir(long_corpus, folder, tokenizer=tokenizer_dir, **OPTIONS)
    return folder


def test_it_loads_as_the_rows_of_pack_files_from_several_shards(undisturbed, long_corpus, tokenizer_dir):
    names = sorted(files(undisturbed))
    count = len(names) - 2
    assert count > 2
    assert names == [
        *(f"data-{number:05}-of-{count:05}.arrow" for number in range(count)),
        "dataset_info.json",
        "state.json",
    ]
    loaded = datasets.load_from_disk(undisturbed)
    table = fastpack.pack_files(long_corpus, tokenizer_dir, max_length=256)
    assert same_rows(loaded, table)
    assert loaded.features == datasets.Features.from_arrow_schema(table.schema)


def test_it_is_mapped_and_not_read(undisturbed):
    before = pa.total_allocated_bytes()
    loaded = datasets.load_from_disk(undisturbed, keep_in_memory=False)
    assert loaded.data.nbytes > 1_000_000
    assert pa.total_allocated_bytes() - before < 100_000


def test_its_files_are_those_that_datasets_saves(undisturbed, tmp_path):
    loaded = datasets.load_from_disk(undisturbed)
    shards = len(list(undisturbed.glob("data-*")))
    loaded.save_to_disk(tmp_path / "saved", num_shards=shards)
    assert set(files(undisturbed)) == {path.name for path in (tmp_path / "saved").iterdir()}
    ours, theirs = (
        [json.loads((folder / name).read_bytes()) for name in ("state.json", "dataset_info.json")]
        for folder in (undisturbed, tmp_path / "saved")
    )
    # `datasets` draws a fingerprint whenever it saves, and calls `List` what its older releases know as `Sequence`.
    assert [len(state.pop("_fingerprint")) for state in (ours[0], theirs[0])] == [16, 16]
    for info in (ours[1], theirs[1]):
        info["features"] = datasets.Features.from_dict(info["features"])
    assert ours == theirs


def test_documents_set_aside_are_a_split_of_a_dict(corpus, tokenizer_dir, tmp_path):
    options = {
        "tokenizer": tokenizer_dir,
        "max_length": 256,
        "validation": 20,
    }
    as_dataset = fastpack.Format(shard_size=20_000, hf_layout=True)
    report = fastpack.pack_dir(corpus, tmp_path / "hf", format=as_dataset, **options)
    fastpack.pack_dir(corpus, tmp_path / "plain", format=fastpack.Format(shard_size=20_000), **options)
    loaded = datasets.load_from_disk(tmp_path / "hf")
    assert isinstance(loaded, datasets.DatasetDict)
    assert list(loaded) == ["train", "validation"]
    assert len(list((tmp_path / "hf/train").glob("data-*"))) > 1
    for split, dataset in loaded.items():
        shards = sorted((tmp_path / "plain").glob(f"{split}-*"))
        table = pa.concat_tables(pa.ipc.open_stream(shard).read_all() for shard in shards)
        assert same_rows(dataset, table)
        assert dataset.num_rows == report.splits[split].rows


def test_a_row_of_a_split_is_shown_in_words(corpus, tokenizer_dir, tmp_path, python):
    options = {
        "tokenizer": tokenizer_dir,
        "max_length": 256,
        "validation": 20,
        "format": fastpack.Format(hf_layout=True),
    }
    fastpack.pack_dir(corpus, tmp_path / "out", **options)
    shard = tmp_path / "out/train/data-00000-of-00001.arrow"
    said, complaint = python("-m", "fastpack", "inspect", str(shard)).communicate()
    assert complaint == ""
    assert "assistant" in said


def test_killed_it_goes_on_to_the_same_bytes(undisturbed, long_corpus, tokenizer_dir, tmp_path):
    kill_at_work(long_corpus, tokenizer_dir, tmp_path / "out", threads=1, format=OPTIONS["format"])
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".fastpack"]
    fastpack.pack_dir(long_corpus, tmp_path / "out", tokenizer=tokenizer_dir, **OPTIONS)
    assert files(tmp_path / "out") == files(undisturbed)


def test_run_again_it_returns_its_report(undisturbed, long_corpus, tokenizer_dir):
    before = {path: path.stat().st_mtime_ns for path in undisturbed.rglob("*")}
    fastpack.pack_dir(long_corpus, undisturbed, tokenizer=tokenizer_dir, **OPTIONS)
    assert {path: path.stat().st_mtime_ns for path in undisturbed.rglob("*")} == before


def test_a_file_that_is_lost_is_found_missing(corpus, tokenizer_dir, tmp_path):
    options = {"tokenizer": tokenizer_dir, "max_length": 256, "format": fastpack.Format(hf_layout=True)}
    fastpack.pack_dir(corpus, tmp_path / "out", **options)
    (tmp_path / "out/state.json").unlink()
    with pytest.raises(fastpack.OutputError, match=r'`state\.json` is missing; pass exists="overwrite"'):
        fastpack.pack_dir(corpus, tmp_path / "out", **options)


def test_files_of_others_survive_that_are_called_alike(corpus, tokenizer_dir, tmp_path):
    options = {"tokenizer": tokenizer_dir, "max_length": 256}
    (tmp_path / "out").mkdir()
    (tmp_path / "out/state.json").write_text("mine")
    fastpack.pack_dir(corpus, tmp_path / "out", exists="overwrite", **options)
    assert (tmp_path / "out/state.json").read_text() == "mine"


def test_kept_tokens_are_packed_into_one(corpus, tokenizer_dir, tmp_path):
    fastpack.pack_dir(
        corpus,
        tmp_path / "kept",
        tokenizer=tokenizer_dir,
        max_length=256,
        keep_tokens=True,
        format=fastpack.Format(hf_layout=True),
    )
    report = fastpack.repack(
        tmp_path / "kept", tmp_path / "again", max_length=512, format=fastpack.Format(hf_layout=True)
    )
    loaded = datasets.load_from_disk(tmp_path / "again")
    assert loaded.num_rows == report.rows
    assert same_rows(loaded, fastpack.pack_files(corpus, tokenizer_dir, max_length=512))


def test_no_rows_are_a_dataset_too(write_jsonl, tokenizer_dir, tmp_path):
    empty = write_jsonl([], "empty.jsonl")
    fastpack.pack_dir(
        empty,
        tmp_path / "out",
        tokenizer=tokenizer_dir,
        max_length=256,
        format=fastpack.Format(hf_layout=True),
    )
    loaded = datasets.load_from_disk(tmp_path / "out")
    assert loaded.num_rows == 0
    assert "input_ids" in loaded.features


def test_it_is_read_again_as_an_input(write_jsonl, tokenizer_dir, tmp_path):
    files = write_jsonl(map(conversation, range(30)))
    options = {"tokenizer": tokenizer_dir, "max_length": 64, "strategy": "none"}
    fastpack.pack_dir(
        files,
        tmp_path / "out",
        format=fastpack.Format(hf_layout=True),
        columns=["input_ids", "labels"],
        **options,
    )
    read = fastpack.pack_dir(tmp_path / "out", tmp_path / "again", **options)
    assert read.documents.read == datasets.load_from_disk(tmp_path / "out").num_rows


@pytest.mark.parametrize(
    "other",
    [{"name": "parquet"}, {"name": "jsonl"}, {"per_file": True}],
    ids=["parquet", "jsonl", "per_file"],
)
def test_what_does_not_go_with_it_is_refused(other, corpus, tokenizer_dir, tmp_path):
    with pytest.raises(fastpack.OptionError, match=r"hf_layout.*leave one of them out") as refused:
        fastpack.pack_dir(
            corpus,
            tmp_path / "out",
            tokenizer=tokenizer_dir,
            max_length=256,
            format=fastpack.Format(hf_layout=True, **other),
        )
    assert refused.value.option == "format.hf_layout"
    assert not (tmp_path / "out").exists()
