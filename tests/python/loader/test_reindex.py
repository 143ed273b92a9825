"""Files that are written again have the rows of the originals, and a stream enters them in the middle."""

from __future__ import annotations

import base64
import bz2
import gzip
import itertools
import json
import lzma
import random
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from campaign import tries

import fastpack
from fastpack.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

OPTIONS: dict[str, Any] = {"max_length": 64, "strategy": "none", "ranks": fastpack.Ranks(lanes=6)}


def zstd(data: bytes) -> bytes:
    return pa.Codec("zstd").compress(data, asbytes=True)


COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "jsonl": bytes,
    "jsonl.gz": gzip.compress,
    "jsonl.bz2": bz2.compress,
    "jsonl.xz": lzma.compress,
    "jsonl.zst": zstd,
}


def noise(size: int, seed: int) -> str:
    """A text that compression does not make much smaller."""
    return base64.b64encode(random.Random(seed).randbytes(size)).decode()


RECORDS: list[dict[str, Any]] = [
    {"input_ids": [number, *range(1 + number % 7)], "noise": noise(3_000 + 40 * (number % 90), number)}
    for number in range(500)
]
"""About 3 MB, of ids that need no tokenizer."""


@pytest.fixture(scope="module")
def lines() -> bytes:
    # The last line has no newline, and one line in the middle is longer than a frame.
    texts = [json.dumps(record) for record in RECORDS]
    texts[200] = json.dumps({"input_ids": [200, 1], "noise": noise(1_000_000, 200)})
    return "\n".join(texts).encode()


@pytest.fixture(scope="module")
def packed(lines: bytes, tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    path = tmp_path_factory.mktemp("plain") / "a.jsonl"
    path.write_bytes(lines)
    columns = ["input_ids", "labels", "source_row"]
    return fastpack.pack_files(path, max_length=64, strategy="none", columns=columns)


def ids_of(tables: Iterable[pa.Table]) -> list[tuple[int, ...]]:
    return [tuple(ids) for table in tables for ids in table["input_ids"].to_pylist()]


def write_table(path: Path, rows: int) -> None:
    columns = {name: pa.array([it[name] for it in RECORDS]) for name in ("input_ids", "noise")}
    table = pa.table(columns | {"noise": columns["noise"].dictionary_encode()})
    table = table.replace_schema_metadata({"author": "nobody"})
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=rows)
        return
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)


@pytest.mark.parametrize("ending", COMPRESSIONS)
def test_reindexed_lines_are_the_bytes_of_the_original_and_have_its_rows(
    ending: str, lines: bytes, packed: pa.Table, tmp_path: Path
) -> None:
    path = tmp_path / "in" / f"a.{ending}"
    path.parent.mkdir()
    path.write_bytes(COMPRESSIONS[ending](lines))
    (done,) = fastpack.reindex(path, tmp_path / "out").files
    assert done.path == str(tmp_path / "out" / "a.jsonl.zst")
    assert done.parts >= 4
    with pa.input_stream(done.path, compression="zstd") as stream:
        assert stream.read() == lines
    columns = ["input_ids", "labels", "source_row"]
    in_order = OPTIONS | {"columns": columns, "shuffle": False, "ranks": fastpack.Ranks(lanes=1)}
    streamed = pa.concat_tables(fastpack.stream(done.path, **in_order))
    assert streamed.replace_schema_metadata() == packed.replace_schema_metadata()
    shuffled = fastpack.stream(done.path, **OPTIONS, columns=columns)
    rows = sorted((row["source_row"], row["input_ids"]) for table in shuffled for row in table.to_pylist())
    assert rows == [(row["source_row"], row["input_ids"]) for row in packed.to_pylist()]


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_reindexed_tables_have_small_groups_and_the_rows_of_the_original(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    write_table(path, 500)
    (done,) = fastpack.reindex(path, tmp_path / "out").files
    assert done.parts >= 3
    if name.endswith("parquet"):
        metadata = pq.read_metadata(done.path)
        assert metadata.num_row_groups == done.parts
        assert metadata.metadata[b"author"] == b"nobody"
    plain = OPTIONS | {"shuffle": False, "ranks": fastpack.Ranks(lanes=1)}
    assert ids_of(fastpack.stream(done.path, **plain)) == ids_of(fastpack.stream(path, **plain))


@pytest.mark.parametrize("with_table", [True, False], ids=["with a seek table", "without"])
def test_frames_cut_anywhere_hold_every_document_once_and_resume_anywhere(
    with_table: bool, lines: bytes, packed: pa.Table, tmp_path: Path
) -> None:
    drawn = random.Random(3)
    cuts = [0, *sorted(drawn.sample(range(len(lines)), 40)), len(lines)]
    texts = [lines[start:end] for start, end in itertools.pairwise(cuts)]
    frames = [zstd(text) for text in texts]
    data = b"".join(frames)
    if with_table:
        sizes = [
            number for frame, text in zip(frames, texts, strict=True) for number in (len(frame), len(text))
        ]
        table = b"".join(number.to_bytes(4, "little") for number in [*sizes, len(frames)])
        table += b"\0" + 0x8F92EAB1.to_bytes(4, "little")
        data += 0x184D2A5E.to_bytes(4, "little") + len(table).to_bytes(4, "little") + table
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(data)
    wanted = sorted(ids_of([packed]))
    options = OPTIONS | {"batch_size": 60}
    tables = list(fastpack.stream(path, **options))
    assert sorted(ids_of(tables)) == wanted
    for number in (0, 3, 6):
        again = fastpack.stream(path, **options)
        again.load_state_dict(fastpack.state_of(tables[number]))
        assert ids_of(again) == ids_of(tables[number + 1 :])
    shares = []
    for rank in range(3):
        options = OPTIONS | {
            "epochs": None,
            "ranks": fastpack.Ranks(lanes=6, rank=rank, world_size=3),
            "batch_size": 2,
        }
        with fastpack.stream(path, **options) as stream:
            shares.append(set(ids_of(itertools.islice(stream, 10))))
    assert all(len(share) > 15 for share in shares)
    assert not any(one & other for one, other in itertools.combinations(shares, 2))


def test_records_of_frames_are_counted_and_named_by_their_line(
    lines: bytes, packed: pa.Table, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    all_lines = lines.split(b"\n")
    path.write_bytes(lines.replace(all_lines[416], b"{broken"))
    (done,) = fastpack.reindex(path, tmp_path / "out").files
    with pytest.raises(fastpack.RecordError, match=r"a\.jsonl\.zst:417:"):
        list(fastpack.stream(done.path, **OPTIONS))
    chosen = OPTIONS | {"select": fastpack.Select(skip=100, take=200, stride=3)}
    found = sorted(ids_of(fastpack.stream(done.path, **chosen)))
    assert found == sorted(ids_of([packed])[100:300:3])


def test_compressed_files_that_are_entered_slowly_are_warned_of(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(
        gzip.compress(json.dumps({"input_ids": [1, 2], "noise": noise(5_000_000, 1)}).encode(), 1)
    )
    stream = fastpack.stream(path, **OPTIONS)
    assert len(list(stream)) == 1
    assert stream.report is not None
    (warning,) = (warning for warning in stream.report.warnings if "reindex" in warning)
    assert str(path) in warning
    small = tmp_path / "b.jsonl.gz"
    small.write_bytes(gzip.compress(b'{"input_ids": [1, 2]}\n'))
    stream = fastpack.stream(small, **OPTIONS)
    assert len(list(stream)) == 1
    assert stream.report is not None
    assert not any("reindex" in warning for warning in stream.report.warnings)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.csv", "text\nwords\n", "a quote far before a line break"),
        ("a.tsv", "text\nwords\n", "a quote far before a line break"),
        ("a.txt", "words\n", "its separator may stand anywhere"),
        ("a.json", '[{"text": "words"}]', "in an array"),
    ],
)
def test_a_format_that_is_not_entered_says_why_and_what_is(
    name: str, content: str, why: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    with pytest.raises(fastpack.OptionError, match=f"{why}.*JSON Lines, Parquet or Arrow"):
        fastpack.reindex(path, tmp_path / "out")


def test_files_that_cannot_be_written_again_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    table = tmp_path / "a.csv"
    table.write_text("text\nwords\n")
    with pytest.raises(
        fastpack.OptionError, match=r"a\.csv` is csv, which a stream reads from its beginning"
    ):
        fastpack.reindex(table, tmp_path / "out")
    damaged = tmp_path / "a.jsonl.gz"
    damaged.write_bytes(gzip.compress(b'{"text": "words"}\n' * 5)[:-9])
    with pytest.raises(fastpack.RecordError, match=r"a\.jsonl\.gz"):
        fastpack.reindex(damaged, tmp_path / "out")
    assert not any((tmp_path / "out").iterdir())
    whole = tmp_path / "b.jsonl"
    whole.write_text('{"text": "words"}\n')
    fastpack.reindex(whole, tmp_path / "out")
    with pytest.raises(fastpack.OutputError, match="is there already"):
        fastpack.reindex(whole, tmp_path / "out")
    for name in ("c.jsonl", "c.jsonl.gz"):
        text = whole.read_bytes()
        (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    with pytest.raises(fastpack.OptionError, match="would both be written"):
        fastpack.reindex(str(tmp_path / "c.*"), tmp_path / "new")


def test_the_command_line_writes_files_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one/a.jsonl", "two/a.jsonl"):
        path = tmp_path / name
        path.parent.mkdir()
        path.write_text('{"text": "words"}\n')
    assert main(["reindex", str(tmp_path / "*" / "a.jsonl"), "-o", str(tmp_path / "out")]) == 0
    assert "2 files: 36 bytes became" in capsys.readouterr().out
    assert (tmp_path / "out/one/a.jsonl.zst").exists()
    assert (tmp_path / "out/two/a.jsonl.zst").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="files without a name are of Linux")
@pytest.mark.parametrize("seed", range(tries(4, 100)))
def test_a_killed_call_leaves_whole_files_and_nothing_else(seed: int, tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    for number in range(4):
        record = json.dumps({"text": f"{number} " + "words and more words " * 40})
        (source / f"{number}.jsonl").write_text(f"{record}\n" * 30_000)
    script = "import sys, fastpack\nprint(1, flush=True)\nfastpack.reindex(sys.argv[1], sys.argv[2], progress=False)\n"
    call = [sys.executable, "-c", script, str(source), str(out)]
    with subprocess.Popen(call, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(random.Random(seed).uniform(0.01, 0.3))
        process.kill()
    left = sorted(path.name for path in out.iterdir()) if out.exists() else []
    assert left == [f"{number}.jsonl.zst" for number in range(len(left))]
