"""`validation`: documents set aside before packing, each in exactly one split, the same ones in every run."""

from __future__ import annotations

import json
import shutil

import datasets
import pytest
from conftest import conversation
from processes import kill_at_work
from rows import balanced, table_of

import fastpack

COLUMNS = ["input_ids", "labels", "source_file", "source_row"]


def pack(files, folder, tokenizer_dir, **options):
    options = {"max_length": 256, "columns": COLUMNS, **options}
    return fastpack.pack_dir(files, folder, tokenizer=tokenizer_dir, **options)


def shards(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name[0] in "tv"}


def documents(folder, split):
    """The documents of a split by file and line, sorted."""
    return sorted(
        place
        for row in table_of(folder, split).to_pylist()
        for place in zip(row["source_file"], row["source_row"], strict=True)
    )


@pytest.fixture
def files(write_jsonl):
    """Two files of conversations, some longer than 64 tokens."""
    return [
        write_jsonl(map(conversation, range(150)), "a.jsonl"),
        write_jsonl(map(conversation, range(150, 200)), "b.jsonl"),
    ]


@pytest.mark.parametrize(
    ("validation", "least", "most"),
    [(1, 1, 1), (30, 30, 30), (199, 199, 199), (0.25, 30, 70), ("1%", 0, 7), (0.0001, 0, 1)],
)
def test_every_document_is_in_exactly_one_split(validation, least, most, files, tokenizer_dir, tmp_path):
    pack(files, tmp_path / "all", tokenizer_dir)
    report = pack(files, tmp_path / "out", tokenizer_dir, validation=validation)
    train, held = (documents(tmp_path / "out", split) for split in ("train", "validation"))
    aside = len(held)
    assert least <= aside <= most
    assert sorted(train + held) == documents(tmp_path / "all", "train")
    assert report.splits["validation"].documents == (aside, aside, 0)


def test_a_split_has_the_rows_that_its_documents_have_alone(files, tokenizer_dir, tmp_path):
    pack(files, tmp_path / "out", tokenizer_dir, validation=20, max_length=128)
    lines = [path.read_bytes().splitlines(keepends=True) for path in files]
    for split in ("train", "validation"):
        alone = [tmp_path / f"{split}-{number}.jsonl" for number in range(2)]
        places = documents(tmp_path / "out", split)
        # Documents too long for a row are in none, and make no difference to the others.
        for number, path in enumerate(alone):
            path.write_bytes(b"".join(lines[number][row - 1] for file, row in places if file == number))
        expected = fastpack.pack_files(alone, tokenizer_dir, max_length=128, columns=["input_ids", "labels"])
        found = [
            {name: row[name] for name in ("input_ids", "labels")}
            for row in table_of(tmp_path / "out", split).to_pylist()
        ]
        assert found == expected.to_pylist()


def test_the_seed_decides_which_documents_and_nothing_else_does(files, tokenizer_dir, tmp_path):
    def aside(name, **options):
        pack(files, tmp_path / name, tokenizer_dir, **{"validation": 20, **options})
        return set(documents(tmp_path / name, "validation"))

    first = aside("first")
    assert aside("seed", seed=1) != first
    assert aside("strategy", strategy="sequential", max_length=512) == first
    assert aside("fewer", validation=10) < first


def test_threads_and_memory_do_not_change_a_byte(files, tokenizer_dir, tmp_path):
    for name, options in {"1": {}, "2": {}, "8": {"memory": 0}}.items():
        pack(files, tmp_path / name, tokenizer_dir, validation=0.1, threads=int(name), **options)
    assert shards(tmp_path / "1") == shards(tmp_path / "2") == shards(tmp_path / "8")
    assert set(shards(tmp_path / "1")) == {"train-00000.arrow", "validation-00000.arrow"}


def test_each_split_has_its_ledger_and_both_together_have_one(files, write_jsonl, tokenizer_dir, tmp_path):
    options = {"max_length": 64, "strategy": fastpack.Concat(drop_last=True), "on_bad_record": "skip"}
    for strategy in (
        {},
        {"strategy": "mix"},
        {"strategy": "mix", "overlong": "truncate"},
    ):
        mine = options | strategy
        bad = write_jsonl([b"{no json"], "bad.jsonl")
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        report = pack([*files, bad], folder, tokenizer_dir, validation=50, **mine)
        whole = fastpack.Report.of(fastpack.pack_files([*files, bad], tokenizer_dir, **mine))
        train, held = report.splits["train"], report.splits["validation"]
        assert all(map(balanced, (report, train, held)))
        assert (train.documents.read, held.documents.read) == (150, 50)
        assert report.documents.read == whole.documents.read == 201
        assert report.tokens.read == whole.tokens.read == train.tokens.read + held.tokens.read
        for name in ("kept", "dropped"):
            lost = sum(getattr(it.documents, name) for it in (train, held))
            assert lost == getattr(report.documents, name) - (name == "dropped")
        assert report.rows == train.rows + held.rows
        assert report.trained_tokens == train.trained_tokens + held.trained_tokens
        assert report.steps_per_epoch == train.steps_per_epoch
        if mine["strategy"] == "mix":
            assert (report.documents, report.tokens, report.dropped, report.truncated, report.lengths) == (
                whole.documents,
                whole.tokens,
                whole.dropped,
                whole.truncated,
                whole.lengths,
            )
        assert "validation: " in str(report)


@pytest.mark.parametrize("file_format", ["parquet", "arrow", "jsonl"])
def test_datasets_finds_both_splits(file_format, files, tokenizer_dir, tmp_path):
    report = pack(
        files,
        tmp_path / "out",
        tokenizer_dir,
        validation=20,
        format=fastpack.Format(file_format, shard_size="20KB"),
        max_length=128,
    )
    loaded = datasets.load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))
    assert {name: split.num_rows for name, split in loaded.items()} == {
        name: split.rows for name, split in report.splits.items()
    }
    assert len(list((tmp_path / "out").glob("train-*"))) > 1


def test_killed_on_the_way_it_goes_on_to_the_same_bytes(long_corpus, tokenizer_dir, tmp_path):
    options = {"validation": 0.4, "format": fastpack.Format(shard_size="300KB"), "max_length": 256}
    kill_at_work(long_corpus, tokenizer_dir, tmp_path / "out", threads=1, **options)
    again = fastpack.pack_dir(long_corpus, tmp_path / "out", tokenizer=tokenizer_dir, **options)
    expected = fastpack.pack_dir(long_corpus, tmp_path / "alone", tokenizer=tokenizer_dir, **options)
    assert shards(tmp_path / "out") == shards(tmp_path / "alone")
    assert again.splits == expected.splits
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    assert fastpack.pack_dir(long_corpus, tmp_path / "out", tokenizer=tokenizer_dir, **options) == again
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()} == before


def test_shards_that_are_whole_are_not_written_again(long_corpus, tokenizer_dir, tmp_path):
    options = {"validation": 0.4, "format": fastpack.Format(shard_size="300KB"), "max_length": 256}
    pack(long_corpus, tmp_path / "alone", tokenizer_dir, **options)
    work = unplaced(tmp_path / "unplaced", long_corpus, tokenizer_dir, options)
    lines = (work / "shards").read_text().splitlines(keepends=True)
    names = [json.loads(line)["name"] for line in lines]
    assert names == sorted(names)
    first = names.index("validation-00000.arrow")
    # As a run leaves it that was killed so many shards into the job.
    for whole in (1, first - 1, first, first + 1, len(names) - 1):
        folder = tmp_path / f"killed-{whole}"
        shutil.copytree(work.parent, folder)
        (folder / ".fastpack/shards").write_text("".join(lines[:whole]))
        for name in ["manifest.json", "report.json", *names[whole:]]:
            (folder / ".fastpack" / name).unlink()
        nodes = {name: (folder / ".fastpack" / name).stat().st_ino for name in names[:whole]}
        pack(long_corpus, folder, tokenizer_dir, **options)
        assert shards(folder) == shards(tmp_path / "alone")
        assert {name: (folder / name).stat().st_ino for name in names[:whole]} == nodes


def unplaced(folder, files, tokenizer_dir, options):
    """The work folder of a run that wrote all and placed nothing, since somebody put something in its way."""

    def put(_):
        if (folder / ".fastpack/started.json").exists():
            (folder / "manifest.json").mkdir(exist_ok=True)

    with pytest.raises(fastpack.StorageError, match="has come to lie there while this ran") as refused:
        pack(files, folder, tokenizer_dir, progress=put, **options)
    assert refused.value.filename == str(folder / "manifest.json")
    (folder / "manifest.json").rmdir()
    return folder / ".fastpack"


def test_another_validation_is_another_job(files, tokenizer_dir, tmp_path):
    pack(files, tmp_path / "out", tokenizer_dir, validation=20)
    for other in (21, 0.1, None):
        with pytest.raises(fastpack.OutputError, match="differs in `validation`"):
            pack(files, tmp_path / "out", tokenizer_dir, validation=other)
    pack(files, tmp_path / "out", tokenizer_dir, exists="overwrite")
    assert set(shards(tmp_path / "out")) == {"train-00000.arrow"}


def test_repack_sets_the_same_documents_aside(files, tokenizer_dir, tmp_path):
    pack(files, tmp_path / "kept", tokenizer_dir, validation=20, keep_tokens=True)
    again = {"max_length": 512, "columns": COLUMNS}
    fastpack.repack(tmp_path / "kept", tmp_path / "again", validation=20, **again)
    assert documents(tmp_path / "again", "validation") == documents(tmp_path / "kept", "validation")
    pack(files, tmp_path / "expected", tokenizer_dir, validation=20, max_length=512)
    assert shards(tmp_path / "again") == shards(tmp_path / "expected")
    with pytest.raises(
        fastpack.OptionError, match="with validation=20, and would all be trained on"
    ) as caught:
        fastpack.repack(tmp_path / "kept", tmp_path / "none", **again)
    assert caught.value.option == "validation"
    assert not (tmp_path / "none").exists()


def test_a_record_that_is_read_twice_is_in_one_split(files, tokenizer_dir, tmp_path):
    sources = [{"path": str(files[0]), "repeat": 2}, {"path": str(files[1])}]
    pack(sources, tmp_path / "out", tokenizer_dir, validation=40)
    train, held = (documents(tmp_path / "out", split) for split in ("train", "validation"))
    assert 39 <= len(held) <= 40
    assert len(train) + len(held) == 350
    assert not set(train) & set(held)
    with pytest.raises(fastpack.OptionError, match="read more often") as caught:
        pack(sources[:1], tmp_path / "one", tokenizer_dir, validation=1)
    assert caught.value.option == "validation"


def test_losses_are_measured_over_both_splits(files, tokenizer_dir, tmp_path):
    with pytest.raises(fastpack.LossError, match="of 200 documents"):
        pack(files, tmp_path / "out", tokenizer_dir, validation=20, max_length=64, max_lost="1%")
    assert not (tmp_path / "out").exists()


def test_a_split_without_a_row_has_a_file_without_rows(write_jsonl, tokenizer_dir, tmp_path):
    long, short = ({"text": "the river " * times} for times in (40, 2))
    sides = set()
    for seed in range(8):
        file = write_jsonl([long, short])
        folder = tmp_path / str(seed)
        options = {"max_length": 8, "overlong": "drop", "seed": seed, "format": "arrow"}
        report = pack(file, folder, tokenizer_dir, validation=1, **options)
        sizes = {split: table_of(folder, split).num_rows for split in ("train", "validation")}
        assert sorted(sizes.values()) == [0, 1]
        assert sizes == {name: split.rows for name, split in report.splits.items()}
        assert pack(file, folder, tokenizer_dir, validation=1, **options) == report
        sides.add(sizes["train"])
    assert sides == {0, 1}


@pytest.mark.parametrize("validation", [200, 201, 10**15])
def test_more_documents_than_leave_one_to_train_on_are_refused(validation, files, tokenizer_dir, tmp_path):
    with pytest.raises(fastpack.OptionError, match=f"sets aside {validation} of 200 documents") as caught:
        pack(files, tmp_path / "out", tokenizer_dir, validation=validation)
    assert caught.value.option == "validation"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "validation", [0, -1, 0.0, 1.0, 1.5, -0.1, float("nan"), True, "many", "0%", [1], 2**64]
)
def test_what_is_neither_a_number_nor_a_share_is_refused(validation, tmp_path):
    with pytest.raises(fastpack.OptionError, match="a number of documents, or a share") as caught:
        pack("nowhere.jsonl", tmp_path / "out", "x/y/z", validation=validation)
    assert caught.value.option == "validation"


def test_an_output_for_each_input_has_no_splits(files, tokenizer_dir, tmp_path):
    with pytest.raises(fastpack.OptionError, match="per_file=True") as caught:
        pack(files, tmp_path / "out", tokenizer_dir, format=fastpack.Format(per_file=True), validation=20)
    assert caught.value.option == "validation"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("flag", "given"), [("20", 20), ("0.1", 0.1), ("10%", 0.1)])
def test_the_command_line_takes_numbers_and_shares(flag, given, files, tokenizer_dir, tmp_path, capsys):
    from fastpack import cli

    arguments = ["pack", "-i", *map(str, files), "-o", str(tmp_path / "out"), "-t", str(tokenizer_dir)]
    assert cli.main([*arguments, "-m", "256", "--validation", flag]) == 0
    assert "splits" in capsys.readouterr().out
    report = fastpack.Report.from_json((tmp_path / "out/report.json").read_bytes())
    _, held = fastpack.pack_files(files, tokenizer_dir, max_length=256, validation=given)
    assert report.splits["validation"].rows == held.num_rows
