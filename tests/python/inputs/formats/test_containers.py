"""Every container gives the rows of the same records in JSON Lines, and says where it is broken."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import pathlib
import re
import tempfile
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from campaign import tries
from conftest import conversation, sentence
from containers import CONTAINERS, ROADS, SEPARATOR, TEXT_FILES, cbor, lines, pack_by, sequence, zstd
from hypothesis import given, settings
from hypothesis import strategies as st
from nested import flat

import fastpack

if TYPE_CHECKING:
    from pathlib import Path

CONVERSATIONS = [conversation(number) for number in range(60)]
TEXTS = [{"text": sentence(number, 5 + number)} for number in range(60)]


def pack(path: Path, tokenizer: Path, **options: Any) -> pa.Table:
    return flat.pack_files(path, tokenizer, **{"max_length": 512, "max_lost": "100%", **options})


def rows(path: Path, tokenizer: Path, **options: Any) -> dict[str, list[Any]]:
    return pack(path, tokenizer, **options).to_pydict()


@pytest.mark.parametrize("records", [CONVERSATIONS, TEXTS], ids=["conversations", "texts"])
@pytest.mark.parametrize("container", CONTAINERS)
def test_a_container_gives_the_rows_of_json_lines(container, records, tmp_path, tokenizer_dir):
    (tmp_path / "expected.jsonl").write_bytes(lines(records))
    path = tmp_path / f"data.{container}"
    path.write_bytes(CONTAINERS[container](records))
    expected = rows(tmp_path / "expected.jsonl", tokenizer_dir)
    for threads in (1, 3):
        assert rows(path, tokenizer_dir, threads=threads) == expected


@pytest.mark.parametrize(
    "container",
    [
        name
        for name in CONTAINERS
        # A text whose columns are in no line of JSON is known by its name alone.
        if "csv" not in name and "tsv" not in name
    ],
)
def test_a_container_is_recognised_by_its_content(container, tmp_path, tokenizer_dir):
    (tmp_path / "expected.jsonl").write_bytes(lines(TEXTS))
    path = tmp_path / "data"
    path.write_bytes(CONTAINERS[container](TEXTS))
    assert rows(path, tokenizer_dir) == rows(tmp_path / "expected.jsonl", tokenizer_dir)


@pytest.mark.parametrize("container", CONTAINERS)
def test_all_bytes_of_a_container_are_accounted_for(container, tmp_path, tokenizer_dir):
    path = tmp_path / f"data.{container}"
    path.write_bytes(CONTAINERS[container](TEXTS))
    seen: list[fastpack.Progress] = []
    pack(path, tokenizer_dir, progress=seen.append)
    assert seen[-1].bytes == seen[-1].total_bytes == path.stat().st_size


words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
ids = st.lists(st.integers(0, 399), min_size=2, max_size=9)


def chats(who: str, said: str, system: str, user: str, assistant: str) -> st.SearchStrategy[list[Any]]:
    """Conversations of one to four turns, some with a system text before them."""

    def turns(start: str | None, pairs: list[tuple[str, str]]) -> list[dict[str, str]]:
        before = [] if start is None else [(system, start)]
        spoken = [turn for asked, told in pairs for turn in ((user, asked), (assistant, told))]
        return [{who: role, said: text} for role, text in [*before, *spoken]]

    return st.builds(turns, st.none() | words, st.lists(st.tuples(words, words), min_size=1, max_size=4))


def half_trained(ids: list[int]) -> dict[str, list[int]]:
    asked = len(ids) // 2
    return {"input_ids": ids, "labels": [-100] * asked + ids[asked:]}


anything = st.one_of(
    [
        st.lists(record, min_size=1, max_size=6)
        for record in (
            st.fixed_dictionaries({"messages": chats("role", "content", "system", "user", "assistant")}),
            st.fixed_dictionaries({"conversations": chats("from", "value", "system", "human", "gpt")}),
            st.fixed_dictionaries({"prompt": words, "completion": words}),
            st.fixed_dictionaries({"instruction": words, "input": st.just("") | words, "output": words}),
            st.fixed_dictionaries({"question": words, "answer": words}),
            st.fixed_dictionaries({"text": words}),
            ids.map(half_trained),
        )
    ]
)


@given(records=anything)
@settings(max_examples=tries(12, 40), deadline=None)
def test_any_records_give_the_same_rows_by_every_road(records, tokenizer_dir):
    expected = rows_by("jsonl", records, tokenizer_dir)
    for road in ROADS:
        assert rows_by(road, records, tokenizer_dir) == expected, road


def rows_by(road: str, records: list[Any], tokenizer: Path) -> dict[str, list[Any]]:
    with tempfile.TemporaryDirectory() as folder:
        return pack_by(road, records, pathlib.Path(folder), tokenizer, max_length=512).to_pydict()


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.txt.gz"])
def test_a_file_of_text_is_one_document(name, tmp_path, tokenizer_dir, write_jsonl):
    text = "the river\n\n  a boat\r\n"
    data = b"\xef\xbb\xbf" + text.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    assert rows(tmp_path / name, tokenizer_dir) == rows(write_jsonl([{"text": text}]), tokenizer_dir)


def test_texts_beside_records_are_passed_over(tmp_path, tokenizer_dir, write_jsonl):
    write_jsonl(TEXTS)
    (tmp_path / "README.md").write_text("about the data", encoding="utf-8")
    report = fastpack.Report.of(pack(tmp_path, tokenizer_dir))
    assert report.documents.read == len(TEXTS)
    assert any("README.md" in warning for warning in report.warnings)


def test_a_saved_dataset_is_read_in_its_own_order(tmp_path, tokenizer_dir, write_jsonl):
    datasets = pytest.importorskip("datasets")
    folder = tmp_path / "saved"
    datasets.Dataset.from_list(TEXTS).save_to_disk(folder, num_shards=12)
    state = json.loads((folder / "state.json").read_text())
    state["_data_files"].reverse()
    (folder / "state.json").write_text(json.dumps(state))
    again = datasets.load_from_disk(folder)
    expected = rows(write_jsonl(again.to_list()), tokenizer_dir, strategy="sequential")
    assert again[0] != TEXTS[0]
    assert rows(folder, tokenizer_dir, strategy="sequential") == expected


def test_a_saved_dataset_of_splits_asks_for_one(tmp_path, tokenizer_dir):
    datasets = pytest.importorskip("datasets")
    split = datasets.Dataset.from_list(TEXTS)
    datasets.DatasetDict({"train": split, "test": split}).save_to_disk(tmp_path / "saved")
    with pytest.raises(fastpack.OptionError, match=re.escape(str(tmp_path / "saved" / "train"))):
        pack(tmp_path / "saved", tokenizer_dir)
    assert pack(tmp_path / "saved" / "train", tokenizer_dir).num_rows > 0


COMPRESSIONS = {"gz": gzip.compress, "zst": zstd, "bz2": bz2.compress, "xz": lzma.compress}
LINE_FORMATS = ["jsonl", "json", "csv", "tsv", "cbor", "index.jsonl", *TEXT_FILES]


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("name", LINE_FORMATS)
def test_a_compressed_file_gives_the_rows_of_the_plain_one(name, compression, tmp_path, tokenizer_dir):
    plain = tmp_path / f"data.{name}"
    plain.write_bytes((CONTAINERS | TEXT_FILES)[name](TEXTS))
    options = {"separator": SEPARATOR} if name in TEXT_FILES else {}
    expected = rows(plain, tokenizer_dir, **options)
    assert sum(map(len, expected["seq_lengths"])) == len(TEXTS)
    half = plain.stat().st_size // 2
    parts = (plain.read_bytes()[:half], plain.read_bytes()[half:])
    path = tmp_path / f"data.{name}.{compression}"
    path.write_bytes(b"".join(map(COMPRESSIONS[compression], parts)))
    assert rows(path, tokenizer_dir, **options) == expected


# How many lines stand before the first record.
LINES_BEFORE = {"jsonl": 0, "csv": 1, "cbor": 0}


@pytest.mark.parametrize("kind", LINES_BEFORE)
@pytest.mark.parametrize("name", COMPRESSIONS)
@pytest.mark.parametrize("damage", ["truncated", "no such data"])
def test_a_damaged_file_is_named_with_line_and_offset(name, kind, damage, tmp_path, tokenizer_dir):
    compress, data = COMPRESSIONS[name], CONTAINERS[kind](TEXTS)
    within = len(CONTAINERS[kind](TEXTS[:20])) + 9
    second = compress(data[within:])
    wrong = second[: len(second) // 2] if damage == "truncated" else b"this is no member of the file"
    path = tmp_path / f"data.{kind}.{name}"
    path.write_bytes(compress(data[:within]) + wrong)
    with pytest.raises(fastpack.RecordError, match=r"at byte \d+ of the file") as caught:
        pack(path, tokenizer_dir)
    assert (caught.value.path, caught.value.reason) == (str(path), "damaged")
    report = fastpack.Report.of(pack(path, tokenizer_dir, on_bad_record="skip"))
    assert {reason: lost.documents for reason, lost in report.dropped.items()} == {"damaged": 1}
    [place] = report.places
    kept = report.documents.kept
    assert place.line == caught.value.line == kept + 1 + (LINES_BEFORE[kind] if kept else 0)
    # The decoder of xz returns its last bytes in the very call that fails.
    assert kept >= 20 or name == "xz"


@pytest.mark.parametrize(
    "kind",
    [
        "jsonl",
        "csv",
        "cbor",
    ],
)
@pytest.mark.parametrize("name", ["gz", "zst", "bz2"])
def test_a_record_that_ends_where_the_damage_begins_is_kept(name, kind, tmp_path, tokenizer_dir):
    path = tmp_path / f"data.{kind}.{name}"
    path.write_bytes(COMPRESSIONS[name](CONTAINERS[kind](TEXTS[:20])) + b"this is no member of the file")
    report = fastpack.Report.of(pack(path, tokenizer_dir, on_bad_record="skip"))
    assert report.documents == (21, 20, 1)
    assert [place.line for place in report.places] == [LINES_BEFORE[kind] + 21]


@pytest.mark.parametrize("name", ["gz", "bz2", "xz"])  # a frame of zstd may have no checksum
def test_corrupt_data_is_never_taken_for_good(name, tmp_path, tokenizer_dir):
    data = COMPRESSIONS[name](lines(TEXTS))
    middle = len(data) // 2
    corrupt = bytes(255 - byte for byte in data[middle : middle + 8])
    path = tmp_path / f"data.jsonl.{name}"
    path.write_bytes(data[:middle] + corrupt + data[middle + 8 :])
    with pytest.raises(fastpack.RecordError) as caught:
        pack(path, tokenizer_dir)
    assert caught.value.path == str(path)
    report = fastpack.Report.of(pack(path, tokenizer_dir, on_bad_record="skip"))
    assert report.dropped["damaged"].documents == 1


@pytest.mark.parametrize("container", ["parquet", "arrow", "stream.arrow"])
@pytest.mark.parametrize("kept", [0.0, 0.3, 0.6, 0.99])
def test_a_table_that_breaks_off_is_damaged(container, kept, tmp_path, tokenizer_dir):
    path = tmp_path / f"data.{container}"
    data = CONTAINERS[container](TEXTS)
    path.write_bytes(data[: int(len(data) * kept)] if kept else b"nothing of the kind")
    report = fastpack.Report.of(pack(path, tokenizer_dir, on_bad_record="skip"))
    assert report.dropped["damaged"].documents == 1
    assert report.places[0].line == report.documents.kept + 1


def test_a_compressed_table_that_is_read_from_its_end_is_refused(tmp_path, tokenizer_dir):
    path = tmp_path / "data.parquet.gz"
    path.write_bytes(gzip.compress(CONTAINERS["parquet"](TEXTS)))
    with pytest.raises(fastpack.OptionError, match="decompress it"):
        pack(path, tokenizer_dir)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_line_of_cells_is_named_as_it_stands_in_the_file(newline, tmp_path, tokenizer_dir):
    path = tmp_path / "data.csv"
    text = '\ufefftext,more\n\n"a\nriver",1\n\n\n"the ""old""\n\nboat",2\na,b,c\na town,3'
    path.write_bytes(text.replace("\n", newline).encode())
    report = fastpack.Report.of(pack(path, tokenizer_dir, on_bad_record="skip"))
    assert report.documents == (4, 3, 1)
    [place] = report.places
    assert (place.line, place.reason, place.message) == (10, "wrong_type", "3 cells under 2 names")


@pytest.mark.parametrize(
    ("text", "line", "kept"),
    [
        ('text\na river\n\n"a\nboat\na town\n', 4, 1),
        ('text\n"a boat', 2, 0),
        ('text\n"a ""boat""\n', 2, 0),
        ('text,more\na,b\na,"', 3, 1),
        ('"text\na river\n', 1, 0),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_quotes_that_do_not_close_are_damage(text, line, kept, newline, tmp_path, tokenizer_dir):
    path = tmp_path / "a.csv"
    path.write_bytes(text.replace("\n", newline).encode())
    with pytest.raises(fastpack.RecordError, match="quote") as caught:
        pack(path, tokenizer_dir)
    assert (caught.value.line, caught.value.reason) == (line, "damaged")
    report = fastpack.Report.of(pack(path, tokenizer_dir, on_bad_record="skip"))
    assert report.documents == (kept + 1, kept, 1)


def test_a_compressed_table_that_is_cut_off_within_quotes_is_named_with_line_and_offset(
    tmp_path, tokenizer_dir
):
    path = tmp_path / "a.csv.gz"
    lines = "".join(f'"line {number} of\nit"\n' for number in range(5_000))
    path.write_bytes(gzip.compress(f"text\n{lines}".encode())[:6_000])
    with pytest.raises(fastpack.RecordError, match=r"at byte \d+ of the file: incomplete") as caught:
        pack(path, tokenizer_dir)
    report = fastpack.Report.of(pack(path, tokenizer_dir, on_bad_record="skip"))
    assert [place.reason for place in report.places] == ["damaged"]
    # Two lines each, behind the first.
    assert caught.value.line == report.places[0].line == 2 * report.documents.kept + 2


def test_quotes_that_close_at_the_end_are_whole(tmp_path, tokenizer_dir):
    path = tmp_path / "a.csv"
    for end in ('"a boat\n"', '"a ""boat"""', '"a"\n\n\n', "a\r\n", "a"):
        path.write_text(f"text\nthe town\n{end}", newline="")
        assert fastpack.Report.of(pack(path, tokenizer_dir)).documents.kept == 2


def test_names_of_columns_must_differ(tmp_path, tokenizer_dir):
    (tmp_path / "a.csv").write_text("text,text\na,b\n")
    with pytest.raises(fastpack.RecordError, match="names `text` twice") as caught:
        pack(tmp_path / "a.csv", tokenizer_dir)
    assert caught.value.line == 1


@pytest.mark.parametrize("container", ["parquet", "arrow", "stream.arrow"])
def test_a_row_is_named_by_its_number(container, tmp_path, tokenizer_dir):
    records = [*TEXTS[:25], {"text": None}, *TEXTS[25:]]
    path = tmp_path / f"data.{container}"
    path.write_bytes(CONTAINERS[container](records))
    with pytest.raises(fastpack.RecordError) as caught:
        pack(path, tokenizer_dir, fields={"text": "text"})
    assert (caught.value.line, caught.value.reason) == (26, "wrong_type")


def test_a_value_of_an_array_is_named_by_its_first_line(tmp_path, tokenizer_dir):
    path = tmp_path / "data.json"
    path.write_text('[\n{"text": "a river"},\n{\n"text": 7\n}\n]')
    with pytest.raises(fastpack.RecordError) as caught:
        pack(path, tokenizer_dir, fields={"text": "text"})
    assert (caught.value.line, caught.value.reason) == (3, "wrong_type")


COLUMNS = {
    "large": pa.large_string(),
    "view": pa.string_view(),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_texts_of_every_arrow_type_are_read(kind, tmp_path, tokenizer_dir, write_jsonl):
    texts = [record["text"] for record in TEXTS]
    path = tmp_path / "data.arrow"
    array = pa.array(texts).cast(COLUMNS[kind])
    table = pa.table({"text": array, "when": pa.array([0] * len(texts), pa.timestamp("s"))})
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table)
    assert rows(path, tokenizer_dir) == rows(write_jsonl(TEXTS), tokenizer_dir)


def test_indefinite_lengths_and_tags_of_cbor_are_read(tmp_path, tokenizer_dir, write_jsonl):
    pieces = b"\x7f" + cbor("a ri") + cbor("ver") + b"\xff"
    record = b"\xd9\xd9\xf7\xbf" + cbor("text") + pieces + cbor("when") + b"\xc1" + cbor(1700000000) + b"\xff"
    (tmp_path / "a.cbor").write_bytes(record + cbor({"text": "a boat", "raw": b"\x00\xff", 3: 4} | {}))
    (tmp_path / "b.cbor").write_bytes(record + cbor({"text": "a boat", "raw": b"\x00\xff"}))
    with pytest.raises(fastpack.RecordError, match="as a name") as caught:
        pack(tmp_path / "a.cbor", tokenizer_dir)
    assert caught.value.line == 2
    expected = rows(write_jsonl([{"text": "a river"}, {"text": "a boat"}]), tokenizer_dir)
    assert rows(tmp_path / "b.cbor", tokenizer_dir) == expected


CBOR_FAULTS = {
    "cut off": (cbor({"text": "a long boat"})[:-3], "the file ends within the item", "invalid_cbor"),
    "no item": (b"\x1c", "not CBOR", "invalid_cbor"),
    "no object": (cbor(["text"]), "expected an object", "not_an_object"),
    "no text": (cbor({"text": 7}), "must be a string", "wrong_type"),
    "bytes": (cbor({"text": b"a"}), "no JSON", "wrong_type"),
    "bad text": (b"\xa1" + cbor("text") + b"\x62\xff\xff", "is not UTF-8", "invalid_utf8"),
    "bad text elsewhere": (b"\xa1" + cbor("note") + b"\x62\xff\xff", "is not UTF-8", "invalid_utf8"),
    "bad name": (b"\xa1\x62\xff\xff" + cbor("text"), "is not UTF-8", "invalid_utf8"),
    "a break": (b"\xa1\xff", "a break where nothing is to end", "invalid_cbor"),
    "a broken text": (b"\xa1" + cbor("text") + b"\x7f\x01\xff", "in pieces that are none", "invalid_cbor"),
    "a number without end": (b"\x1f", "without an end", "invalid_cbor"),
    "deep": (cbor({"text": json.loads("[" * 300 + "]" * 300)}), "nested deeper", "too_deep"),
}


@pytest.mark.parametrize("fault", CBOR_FAULTS)
def test_an_item_that_is_wrong_is_named_by_its_number(fault, tmp_path, tokenizer_dir):
    data, said, reason = CBOR_FAULTS[fault]
    path = tmp_path / "a.cbor"
    path.write_bytes(sequence(TEXTS[:20]) + data)
    with pytest.raises(fastpack.RecordError, match=said) as caught:
        pack(path, tokenizer_dir)
    assert (caught.value.line, caught.value.reason) == (21, reason)
    report = fastpack.Report.of(pack(path, tokenizer_dir, on_bad_record="skip"))
    assert report.documents == (21, 20, 1)


@pytest.mark.parametrize("bad", [b"\x62\xff\xff", b"\x7f\x62\xff\xff\xff", b"\x82\x01\x62\xff\xff"])
def test_a_text_that_is_not_utf8_is_one_bad_record(bad, tmp_path, tokenizer_dir, write_jsonl):
    broken = b"\xa2" + cbor("text") + bad + cbor("n") + cbor([1, {"a": b"\x00"}])
    path = tmp_path / "a.cbor"
    path.write_bytes(sequence(TEXTS[:5]) + broken + sequence(TEXTS[5:9]) + broken + sequence(TEXTS[9:]))
    table = pack(path, tokenizer_dir, on_bad_record="skip")
    assert fastpack.Report.of(table).dropped == {"invalid_utf8": (2, 0)}
    assert [place.line for place in fastpack.Report.of(table).places] == [6, 11]
    assert table.to_pydict() == rows(write_jsonl(TEXTS), tokenizer_dir)


def test_large_items_cross_blocks(tmp_path, tokenizer_dir, write_jsonl):
    records = [{"text": sentence(n, 30 + (n % 3) * 40_000)} for n in range(12)]
    (tmp_path / "a.cbor").write_bytes(sequence(records))
    assert rows(tmp_path / "a.cbor", tokenizer_dir) == rows(write_jsonl(records), tokenizer_dir)


def test_only_lines_that_say_nothing_else_are_passed_over_as_an_index(tmp_path, tokenizer_dir):
    lines = [
        '{"index":{"_id":"1"}}',
        '{"text":"a"}',
        '{"index":{"_id":"2"},"text":"b"}',
        ' { "index" : {"_id": "3"} } ',
        '{"index":{"_id":"4"}} x',
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(lines))
    report = fastpack.Report.of(pack(path, tokenizer_dir, on_bad_record="skip"))
    assert (report.documents, [place.line for place in report.places]) == ((3, 2, 1), [5])
    # A file that does not begin with one has none.
    path.write_text("\n".join(lines[1:2] + lines[:1]))
    with pytest.raises(fastpack.RecordError) as caught:
        pack(path, tokenizer_dir)
    assert caught.value.line == 2


SEPARATED = "a river\n\n  a boat\n\n\n\n \n\nthe old town\n"


@pytest.mark.parametrize("name", ["a.txt", "a.md.gz"])
@pytest.mark.parametrize("separator", ["\n\n", "old", "\n", "日本"])
def test_texts_are_split_at_the_separator(separator, name, tmp_path, tokenizer_dir, write_jsonl):
    text = SEPARATED * 3
    data = b"\xef\xbb\xbf" + text.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    expected = [{"text": part} for part in text.split(separator) if part.strip()]
    found = rows(tmp_path / name, tokenizer_dir, separator=separator)
    assert found == rows(write_jsonl(expected), tokenizer_dir)


def test_a_separator_is_found_across_blocks_and_lines_are_counted(tmp_path, tokenizer_dir, write_jsonl):
    texts = [f"{sentence(n, 9)}\n" * (n % 50 * 40 + 1) for n in range(60)]
    (tmp_path / "a.txt").write_text("<|end of text|>\n".join(texts))
    expected = rows(write_jsonl([{"text": text} for text in texts]), tokenizer_dir)
    assert rows(tmp_path / "a.txt", tokenizer_dir, separator="<|end of text|>\n") == expected
    (tmp_path / "b.txt").write_bytes(b"a\nb\n--\nc\n--\nd\xff\n--\n")
    with pytest.raises(fastpack.RecordError, match="UTF-8") as caught:
        pack(tmp_path / "b.txt", tokenizer_dir, separator="--\n")
    assert caught.value.line == 6


def test_a_separator_needs_a_text(tmp_path, tokenizer_dir, write_jsonl):
    for separator, said in (("", "at least one character"), ("x", "there is none"), (3, "must be a text")):
        with pytest.raises(fastpack.OptionError, match=said) as caught:
            pack(write_jsonl(TEXTS), tokenizer_dir, separator=separator)
        assert caught.value.option == "reading.separator"


@pytest.mark.parametrize("change", ["longer", "shorter", "other"])
def test_a_file_that_changes_while_it_is_read_is_named(change, write_jsonl, tokenizer_dir):
    path = write_jsonl([{"text": sentence(n, 40)} for n in range(8_000)])

    def spoil(batch: Any) -> Any:
        data = path.read_bytes()
        path.write_bytes(
            {"longer": data + b"{", "shorter": data[: len(data) * 2 // 3], "other": b" " * len(data)}[change]
        )
        return [True] * batch.num_rows

    with pytest.raises(fastpack.StorageError, match="changed while it was read") as caught:
        pack(path, tokenizer_dir, filter=spoil, threads=1)
    assert caught.value.filename == str(path)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_file_may_change_once_it_was_read(threads, write_jsonl, tokenizer_dir):
    first, second = (
        write_jsonl([{"text": f"{name} {sentence(n, 40)}"} for n in range(4_000)], f"{name}.jsonl")
        for name in ("first", "second")
    )
    expected = pack([first, second], tokenizer_dir, threads=threads)

    def grow(batch: Any) -> Any:
        if batch["text"][-1].as_py().startswith("second"):
            first.write_bytes(first.read_bytes() + b"{")
        return [True] * batch.num_rows

    assert pack([first, second], tokenizer_dir, filter=grow, threads=threads) == expected


def test_what_is_no_text_by_its_name_is_none_where_another_shape_was_named(tmp_path, tokenizer_dir):
    path = tmp_path / "train.dat"
    path.write_text("q,a\na river,a boat\n")
    assert fastpack.Report.of(pack(path, tokenizer_dir)).inputs[0].format == "txt"
    with pytest.raises(
        fastpack.OptionError, match="begins as a text, and not as records of the shape `question_answer`"
    ):
        pack(path, tokenizer_dir, fields={"question": "q", "answer": "a"})
    named = path.rename(tmp_path / "train.csv")
    assert (
        fastpack.Report.of(pack(named, tokenizer_dir, fields={"question": "q", "answer": "a"})).documents.kept
        == 1
    )


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "arrow", "cbor"])
def test_a_second_shape_is_seen_in_every_container(kind, tmp_path, tokenizer_dir):
    records = [{"text": "a river", "prompt": "a boat", "answer": None}] * 150
    records.append({"text": "a river", "prompt": "a boat", "answer": "a town"})
    path = tmp_path / f"data.{kind}"
    path.write_bytes(CONTAINERS[kind](records))
    with pytest.raises(fastpack.RecordError, match="question_answer") as caught:
        pack(path, tokenizer_dir)
    assert (caught.value.line, caught.value.reason) == (151, "other_shape")
