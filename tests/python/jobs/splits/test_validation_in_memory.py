"""`validation` where rows stay in memory: two tables, of the documents that `pack_dir` sets aside."""

from __future__ import annotations

import os
import sys

import pyarrow as pa
import pytest
from conftest import conversation
from rows import balanced, table_of

import fastpack

COLUMNS = ["input_ids", "labels", "source_file", "source_row"]


@pytest.fixture
def files(write_jsonl):
    """Two files of conversations, some longer than 64 tokens."""
    return [
        write_jsonl(map(conversation, range(150)), "a.jsonl"),
        write_jsonl(map(conversation, range(150, 200)), "b.jsonl"),
    ]


@pytest.fixture
def pack(tokenizer_dir):
    def run(files, **options):
        options = {"max_length": 256, "columns": COLUMNS, "validation": 20, **options}
        return fastpack.pack_files(files, tokenizer_dir, **options)

    return run


@pytest.fixture
def packed(tokenizer_dir, tmp_path):
    """Packs into a folder, and gives the rows of each split."""

    def run(files, **options):
        folder = tmp_path / f"packed-{len(list(tmp_path.iterdir()))}"
        options = {"max_length": 256, "columns": COLUMNS, "validation": 20, **options}
        report = fastpack.pack_dir(files, folder, tokenizer=tokenizer_dir, **options)
        rows = tuple(table_of(folder, split).to_pylist() for split in ("train", "validation"))
        return rows, report

    return run


def rows(splits):
    return tuple(table.to_pylist() for table in splits)


def timeless(report):
    """A report without the parts that only files on disk, or only memory, can have."""
    return {key: value for key, value in report.to_dict().items() if key != "timing"}


@pytest.mark.parametrize("validation", [1, 20, 199, 0.25, "1%", 1e-9])
def test_the_rows_are_those_of_pack_dir(validation, files, pack, packed):
    expected, report = packed(files, validation=validation)
    splits = pack(files, validation=validation)
    assert rows(splits) == expected
    assert timeless(fastpack.Report.of(splits)) == timeless(report)


@pytest.mark.parametrize(
    "options", [{"strategy": "concat"}, {"seed": 7, "max_length": 64}, {"order": "input"}]
)
def test_so_they_are_with_other_options(options, files, pack, packed):
    assert rows(pack(files, **options)) == packed(files, **options)[0]


def test_threads_change_nothing(files, pack):
    one, eight = (pack(files, threads=threads) for threads in (1, 8))
    assert one == eight


def test_without_it_a_table_is_returned(files, pack):
    assert isinstance(pack(files, validation=None), pa.Table)


def test_both_tables_carry_the_report_of_both(files, pack):
    splits = pack(files)
    assert isinstance(splits, fastpack.Splits)
    train, validation = splits
    report = fastpack.Report.of(train)
    assert report == fastpack.Report.of(validation) == fastpack.Report.of(splits)
    assert {name: split.rows for name, split in report.splits.items()} == {
        "train": train.num_rows,
        "validation": validation.num_rows,
    }
    assert report.rows == train.num_rows + validation.num_rows
    assert report.splits["validation"].documents.read == 20
    assert all(map(balanced, (report, *report.splits.values())))
    assert train.schema == validation.schema


def test_a_cache_changes_nothing(files, pack, tmp_path):
    cache = tmp_path / "cache"
    expected = rows(pack(files))
    # Made by a call that sets nothing aside, by one that does, and found by one with other rows.
    for options in ({"validation": None, "max_length": 64}, {}, {}):
        found = pack(files, cache_dir=cache, **options)
    assert rows(found) == expected
    assert rows(pack(files, cache_dir=cache, validation=30, seed=3)) == rows(
        pack(files, validation=30, seed=3)
    )
    assert len(list(cache.iterdir())) == 1


def test_a_cache_of_renamed_files_changes_nothing(files, pack, tmp_path):
    expected = rows(pack(files))
    pack(files, cache_dir=tmp_path / "cache")
    # The first in the order of names is now the last.
    renamed = [files[0].rename(tmp_path / "z.jsonl"), files[1]]
    assert rows(pack(renamed, cache_dir=tmp_path / "cache")) == expected


def test_a_cache_of_one_file_read_twice_is_not_that_of_two_alike(files, pack, tmp_path):
    fields = [{"shape": "conversations"}, {"fields": {"messages": "messages"}}]
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(files[0].read_bytes())

    def sources(*paths):
        return [{"path": path, **how} for path, how in zip(paths, fields, strict=True)]

    for paths in ((files[0], files[0]), (files[0], copy)):
        given = sources(*paths)
        cached = pack(given, validation=40, cache_dir=tmp_path / "cache")
        assert rows(cached) == rows(pack(given, validation=40))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere names of files are text")
def test_names_that_are_no_text_are_told_apart_or_refused(pack, files, tmp_path):
    for folder, names in {"apart": (b"a\xff", b"b\xfe"), "alike": (b"a\xff", b"a\xfe")}.items():
        (tmp_path / folder).mkdir()
        for name, file in zip(names, files, strict=True):
            file_name = os.fsencode(tmp_path / folder) + b"/" + name + b".jsonl"
            os.link(file, file_name)
    expected = rows(pack(tmp_path / "apart"))
    for _ in range(2):
        assert rows(pack(tmp_path / "apart", cache_dir=tmp_path / "cache")) == expected
    with pytest.raises(
        fastpack.OptionError, match=r"how two files are shown .* rename one of them"
    ) as refused:
        pack(tmp_path / "alike", cache_dir=tmp_path / "cache")
    assert refused.value.option == "files"


def test_a_table_and_records_are_split_as_their_file_is(files, tokenizer_dir, packed):
    (_, validation), _ = packed(files[0])
    options = {"max_length": 256, "columns": COLUMNS, "validation": 20}
    records = list(map(conversation, range(150)))
    for made in (
        fastpack.pack_table(pa.Table.from_pylist(records), tokenizer_dir, **options),
        fastpack.pack_records(iter(records), tokenizer_dir, **options),
    ):
        assert made.validation.to_pylist() == validation


def test_rows_that_are_tokens_are_split(packed, write_jsonl):
    documents = [{"input_ids": [number + 1] * (2 + number % 7)} for number in range(60)]
    train, validation = fastpack.pack_table(
        pa.Table.from_pylist(documents), max_length=16, columns=COLUMNS, validation=10
    )
    held = sorted(row for rows in validation["source_row"].to_pylist() for row in rows)
    kept = sorted(row for rows in train["source_row"].to_pylist() for row in rows)
    assert len(held) == 10
    assert sorted(held + kept) == list(range(1, 61))
    (_, expected), _ = packed(write_jsonl(documents), validation=10, max_length=16)
    assert sorted(row for packed_row in expected for row in packed_row["source_row"]) == held


@pytest.mark.parametrize("validation", [200, 201, 10**15])
def test_more_documents_than_leave_one_to_train_on_are_refused(validation, files, pack):
    with pytest.raises(fastpack.OptionError, match=f"sets aside {validation} of 200 documents") as caught:
        pack(files, validation=validation)
    assert caught.value.option == "validation"


def test_of_nothing_nothing_can_be_set_aside(write_jsonl, pack):
    with pytest.raises(fastpack.OptionError, match="there are no documents to set aside") as caught:
        pack(write_jsonl([]), validation=0.1)
    assert caught.value.option == "validation"


def test_a_split_without_a_row_is_a_table_without_rows(write_jsonl, pack):
    long, short = ({"text": "the river " * times} for times in (40, 2))
    sides = set()
    for seed in range(8):
        splits = pack(write_jsonl([long, short]), validation=1, max_length=8, overlong="drop", seed=seed)
        assert sorted(table.num_rows for table in splits) == [0, 1]
        assert splits.train.column_names == splits.validation.column_names == COLUMNS
        sides.add(splits.train.num_rows)
    assert sides == {0, 1}


@pytest.mark.parametrize("validation", [0, 1.0, -0.1, True, "many", [1], 2**64])
def test_what_is_neither_a_number_nor_a_share_is_refused_before_any_work(validation, files):
    for pack, given in (
        (fastpack.pack_files, files),
        (fastpack.pack_table, pa.table({"text": ["a"]})),
        (fastpack.pack_records, [{"text": "a"}]),
    ):
        with pytest.raises(fastpack.OptionError, match="a number of documents, or a share") as caught:
            pack(given, "x/y/z", max_length=256, validation=validation)
        assert caught.value.option == "validation"
