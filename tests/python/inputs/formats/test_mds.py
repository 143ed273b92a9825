"""MDS shards as inputs: written here by the published format, and read with the rows that the same records have as lines."""

from __future__ import annotations

import contextlib
import json
import random

import numpy as np
import pytest
from conftest import conversation
from mds_shards import shard, write

import fastpack

OPTIONS = {"max_length": 256, "columns": ["input_ids", "labels", "source_row"]}


def same(folder, lines, tokenizer_dir, **options):
    """True if the rows are those of the records as lines."""
    expected = fastpack.pack_files(lines, tokenizer_dir, **{**OPTIONS, **options})
    found = fastpack.pack_files(folder, tokenizer_dir, **{**OPTIONS, **options})
    assert found.to_pylist() == expected.to_pylist()
    assert fastpack.Report.of(found).documents == fastpack.Report.of(expected).documents
    return True


@pytest.mark.parametrize("kept", ["raw", "zstd", "both"])
def test_conversations_as_json_are_read(kept, tmp_path, write_jsonl, tokenizer_dir):
    records = [{"messages": conversation(number)["messages"], "number": number} for number in range(90)]
    folder = write(
        tmp_path / "mds",
        [records],
        {"messages": "json", "number": "int"},
        compression=None if kept == "raw" else "zstd",
        raw=kept != "zstd",
    )
    assert same(folder, write_jsonl(records), tokenizer_dir)
    report = fastpack.Report.of(fastpack.pack_files(folder, tokenizer_dir, max_length=256))
    assert report.inputs[0].format == ("mds.zst" if kept == "zstd" else "mds")


def test_prompts_in_columns_of_all_kinds_are_read(tmp_path, write_jsonl, tokenizer_dir):
    numbers = random.Random(3)
    records = [
        {
            "prompt": f"What costs {number} boats? “naïve” 日本語\n",
            "completion": ' A river, \\ and "more".' * numbers.randint(1, 5),
            "a": number - 5,
            "b": number / 8,
            "c": number % 200,
            "d": 2**70 + number,
            "e": [number, number + 1],
            "image": b"\x00\xff" * number,
        }
        for number in range(60)
    ]
    columns = {
        "prompt": "str",
        "completion": "str",
        "a": "int16",
        "b": "float32",
        "c": "uint8",
        "d": "str_int",
        "e": "ndarray:int64:2",
        "image": "bytes",
    }
    folder = write(tmp_path / "mds", [records[:25], records[25:]], columns)
    lines = [
        write_jsonl(
            [{"prompt": it["prompt"], "completion": it["completion"]} for it in part], f"{name}.jsonl"
        )
        for name, part in (("a", records[:25]), ("b", records[25:]))
    ]
    assert same(folder, lines, tokenizer_dir)


@pytest.mark.parametrize("encoding", ["ndarray", "ndarray:int32", "ndarray:uint16", "ndarray:int64:12"])
def test_ids_in_arrays_are_read(encoding, tmp_path, write_jsonl):
    records = [{"input_ids": np.arange(number, number + 12, dtype="uint16")} for number in range(1, 40)]
    folder = write(tmp_path / "mds", [records], {"input_ids": encoding})
    lines = write_jsonl([{"input_ids": it["input_ids"].tolist()} for it in records])
    assert same(folder, lines, None)


def test_a_shard_is_cut_into_blocks(tmp_path, write_jsonl, tokenizer_dir):
    records = [{"text": "the river and the boat " * 40 + str(number)} for number in range(2500)]
    folder = write(tmp_path / "mds", [records], {"text": "str"})
    assert (folder / "shard.00000.mds").stat().st_size > 2_000_000
    assert same(folder, write_jsonl(records), tokenizer_dir, threads=2)


def test_a_stream_reads_shards(tmp_path, write_jsonl, tokenizer_dir):
    records = [{"text": f"the river and the boat {number}"} for number in range(200)]
    folder = write(tmp_path / "mds", [records[:80], records[80:]], {"text": "str"})
    lines = [write_jsonl(records[:80], "a.jsonl"), write_jsonl(records[80:], "b.jsonl")]
    rows = [
        [
            row
            for table in fastpack.stream(
                files,
                tokenizer_dir,
                max_length=64,
                shuffle=False,
                ranks=fastpack.Ranks(lanes=1),
                batch_size=1,
            )
            for row in table["input_ids"].to_pylist()
        ]
        for files in (folder, lines)
    ]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("cut", [0, 3, 50, 120, -1, -200])
def test_a_shard_that_is_cut_off_is_an_error_with_its_record(cut, tmp_path, tokenizer_dir):
    records = [{"text": f"the river and the boat {number}"} for number in range(20)]
    folder = write(tmp_path / "mds", [records], {"text": "str"})
    path = folder / "shard.00000.mds"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(fastpack.RecordError, match=r"shard.00000.mds:\d+: ") as caught:
        fastpack.pack_files(folder, tokenizer_dir, max_length=64)
    assert caught.value.reason == "damaged"
    if cut in {-1, -200}:
        report = fastpack.Report.of(
            fastpack.pack_files(folder, tokenizer_dir, max_length=64, on_bad_record="skip")
        )
        assert report.documents.kept == caught.value.line - 1


def test_spoilt_shards_never_crash(tmp_path, tokenizer_dir):
    chance = random.Random(5)
    records = [{"messages": conversation(number)["messages"], "n": number} for number in range(12)]
    whole = shard(records, {"messages": "json", "n": "int"})
    path = tmp_path / "shard.mds"
    for _ in range(150):
        spoilt = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            spoilt[chance.randrange(min(len(whole), 700))] = chance.randrange(256)
        path.write_bytes(bytes(spoilt))
        # Whatever is wrong with it is an error with a name, or a record that is left out.
        with contextlib.suppress(fastpack.FastpackError):
            fastpack.pack_files(path, tokenizer_dir, max_length=256, on_bad_record="skip", max_lost="100%")


def test_a_record_that_is_invalid_is_counted_alone(tmp_path, tokenizer_dir):
    good = [{"messages": conversation(number)["messages"]} for number in range(9)]
    content = bytearray(shard(good, {"messages": "json"}))
    at = content.rindex(b'[{"role"')
    content[at : at + 1] = b"<"
    path = tmp_path / "shard.mds"
    path.write_bytes(bytes(content))
    with pytest.raises(
        fastpack.RecordError, match=r'shard.mds:9: the column "messages" holds a value that is not JSON'
    ):
        fastpack.pack_files(path, tokenizer_dir, max_length=256)
    table = fastpack.pack_files(path, tokenizer_dir, max_length=256, on_bad_record="skip")
    assert fastpack.Report.of(table).documents == (9, 8, 1)


def test_an_index_leads_to_no_file_elsewhere(tmp_path, tokenizer_dir):
    folder = write(tmp_path / "mds", [[{"text": "a river"}]], {"text": "str"})
    index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    index["shards"][0]["raw_data"]["basename"] = "../elsewhere.mds"
    (folder / "index.json").write_text(json.dumps(index), encoding="utf-8")
    with pytest.raises(fastpack.OptionError, match=r"index\.json` names `\.\./elsewhere\.mds`"):
        fastpack.pack_files(folder, tokenizer_dir, max_length=64)
