"""Files that grew at their ends: a folder with kept tokens gets the rows of one job over the files as they are now."""

from __future__ import annotations

import gzip
import json
import os
import random
import signal
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from campaign import tries
from conftest import conversation, sentence
from processes import RUN, at_work, kill, start

import fastpack

if TYPE_CHECKING:
    from pathlib import Path

OPTIONS: dict[str, Any] = {"max_length": 256, "format": fastpack.Format(shard_size="200kB")}
COLUMNS = ["input_ids", "labels", "position_ids", "seq_lengths", "source_file", "source_row"]


def lines(numbers: range, words: int = 40) -> str:
    return "".join(json.dumps({"text": f"{number} {sentence(number, words)}"}) + "\n" for number in numbers)


def grow(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


@pytest.fixture
def pack(tokenizer_dir: Path) -> Any:
    def pack(files: Any, folder: Path, **more: Any) -> fastpack.Report:
        given = OPTIONS | {"keep_tokens": True} | more
        return fastpack.pack_dir(files, folder, tokenizer=tokenizer_dir, **given)

    return pack


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Three files of several blocks each, which are of 256 KiB, and a short one."""
    (tmp_path / "data").mkdir()
    paths = [tmp_path / "data" / f"{name}.jsonl" for name in "abcd"]
    for at, path in enumerate(paths):
        path.write_text(lines(range(at * 10_000, at * 10_000 + (30 if at == 1 else 3_000))))
    return paths


def content(folder: Path) -> dict[str, bytes]:
    """The files of rows and the kept tokens."""
    names = [path for path in folder.iterdir() if path.suffix in (".arrow", ".fastpack") and path.is_file()]
    return {path.name: path.read_bytes() for path in names}


def is_one_job(grown: Path, whole: Path) -> None:
    """Both folders hold the same bytes and the same hashes of inputs, and both are well."""
    assert content(grown) == content(whole)
    assert any(name.endswith(".fastpack") for name in content(grown))
    jobs = [json.loads((folder / "manifest.json").read_text()) for folder in (grown, whole)]
    assert jobs[0]["content"] == jobs[1]["content"]
    for folder in (grown, whole):
        assert not fastpack.verify(folder).problems
        assert not [path.name for path in folder.parent.iterdir() if path.name.startswith(f"{folder.name}.")]


@pytest.mark.parametrize("strategy", ["mix", "sequential"])
@pytest.mark.parametrize("validation", [None, 0.1, 25])
def test_files_that_grew_give_the_rows_of_one_job(
    strategy: Any, validation: Any, files: list[Path], pack: Any, tmp_path: Path
) -> None:
    options = {"strategy": strategy, "validation": validation, "columns": COLUMNS}
    grown, whole = tmp_path / "grown", tmp_path / "whole"
    pack(files[:3], grown, **options)
    grow(files[0], lines(range(50_000, 52_000)))
    grow(files[1], lines(range(53_000, 53_010)))
    report = pack(files, grown, exists="append", **options)
    expected = pack(files, whole, **options)
    assert report.appended_files == 3
    for name in ("documents", "tokens", "rows", "lengths", "splits"):
        assert getattr(report, name) == getattr(expected, name), name
    assert [(it.files, it.named) for it in report.inputs] == [(it.files, it.named) for it in expected.inputs]
    facts = json.loads((grown / "report.json").read_text())
    assert facts["bytes"] == sum(path.stat().st_size for path in files)
    is_one_job(grown, whole)
    # It is the finished job over the files, whichever call asks for it.
    assert pack(files, grown, **options).rows == expected.rows
    # Once more, the last one too, and a touched file is no new one.
    os.utime(files[1], ns=(1, 1))
    grow(files[3], lines(range(60_000, 60_001)))
    assert pack(files, grown, exists="append", **options).appended_files == 1
    pack(files, whole, exists="overwrite", **options)
    is_one_job(grown, whole)


def test_a_file_that_was_empty_and_one_without_a_last_newline_grow(pack: Any, tmp_path: Path) -> None:
    empty, open_end, grown, whole = (tmp_path / name for name in ("a.jsonl", "b.jsonl", "grown", "whole"))
    empty.write_text("")
    open_end.write_text("\ufeff" + lines(range(30)).rstrip("\n"))
    pack([empty, open_end], grown)
    grow(empty, lines(range(40, 50)))
    grow(open_end, "\n\n" + lines(range(30, 40)))
    assert pack([empty, open_end], grown, exists="append").documents.read == 50
    pack([empty, open_end], whole)
    is_one_job(grown, whole)


def test_only_the_last_block_of_an_old_file_is_tokenized_again(
    files: list[Path], pack: Any, tmp_path: Path
) -> None:
    seen: list[int] = []

    def count(documents: pa.Table) -> pa.Table:
        seen.append(documents.num_rows)
        return documents.select(["input_ids", "labels"])

    given = {"objective": fastpack.Custom(count, fingerprint="count")}
    pack(files[:3], tmp_path / "grown", **given)
    assert sum(seen) == 6_030
    seen.clear()
    grow(files[0], lines(range(50_000, 50_100)))
    pack(files[:3], tmp_path / "grown", exists="append", **given)
    # A block has some 1,000 of these lines.
    assert 100 <= sum(seen) <= 1_500


def test_lines_of_another_shape_are_refused_as_by_one_job(pack: Any, tmp_path: Path) -> None:
    file, grown, whole = (tmp_path / name for name in ("a.jsonl", "grown", "whole"))
    file.write_text(lines(range(200)))
    pack(file, grown)
    before = content(grown)
    grow(file, json.dumps(conversation(1)) + "\n")
    with pytest.raises(fastpack.RecordError, match=r"a\.jsonl:201: .* must have one shape") as refused:
        pack(file, grown, exists="append")
    with pytest.raises(fastpack.RecordError) as expected:
        pack(file, whole)
    assert str(refused.value) == str(expected.value)
    assert content(grown) == before


def test_a_change_before_its_old_end_is_refused(files: list[Path], pack: Any, tmp_path: Path) -> None:
    folder = tmp_path / "grown"
    pack(files[:2], folder)
    before, text = content(folder), files[0].read_bytes()
    for at in (20, len(text) // 2, len(text) - 20):
        changed = text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :]
        files[0].write_bytes(changed + lines(range(70_000, 70_100)).encode())
        with pytest.raises(fastpack.OptionError, match="which has changed since it was packed") as refused:
            pack(files[:2], folder, exists="append")
        assert (refused.value.option, str(files[0]) in str(refused.value)) == ("exists", True)
    assert content(folder) == before


@pytest.mark.parametrize("exists", ["append", "append_rows"])
def test_a_last_line_that_was_continued_is_refused(exists: str, pack: Any, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"text": "one two"}\n{"text": "three"}')
    pack(file, tmp_path / "grown", keep_tokens=exists == "append")
    grow(file, ' \n{"text": "four"}\n')
    with pytest.raises(fastpack.OptionError, match="whose last line was continued since it was packed"):
        pack(file, tmp_path / "grown", exists=exists, keep_tokens=exists == "append")


def grown_table(path: Path, count: int) -> None:
    texts = [sentence(number, 9) for number in range(count)]
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"text": texts}), path)
    elif path.suffix == ".csv":
        path.write_text("text\n" + "".join(f"{text}\n" for text in texts))
    elif path.suffix == ".json":
        path.write_text(json.dumps([{"text": text} for text in texts]))
    elif path.suffix == ".txt":
        path.write_text("\n".join(texts))
    else:
        path.write_bytes(gzip.compress(lines(range(count)).encode(), mtime=0))


@pytest.mark.parametrize("exists", ["append", "append_rows"])
@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.json", "a.txt", "a.jsonl.gz"])
def test_a_file_that_is_not_read_from_its_middle_is_refused_by_its_format(
    name: str, exists: str, pack: Any, tmp_path: Path
) -> None:
    file, folder = tmp_path / name, tmp_path / "grown"
    given = {"keep_tokens": exists == "append"}
    grown_table(file, 50)
    pack(file, folder, **given)
    grown_table(file, 80)
    ending = name.removeprefix("a.")
    with pytest.raises(
        fastpack.OptionError, match=rf"has grown since .* not `{ending}`; put what is new into a file"
    ):
        pack(file, folder, exists=exists, **given)


APPEND = RUN.replace("pack_dir([files], out,", 'pack_dir([files], out, exists="append",')


@pytest.mark.parametrize("case", range(tries(2, 20)))
def test_a_killed_call_is_resumed(case: int, tokenizer_dir: Path, pack: Any, tmp_path: Path) -> None:
    file, folder, whole = (tmp_path / name for name in ("a.jsonl", "grown", "whole"))
    file.write_text(lines(range(6_000)))
    pack(file, folder)
    before = content(folder)
    grow(file, lines(range(6_000, 30_000)))
    pack(file, whole)
    chance = random.Random(case)
    for _ in range(2):
        options = OPTIONS | {"keep_tokens": True}
        process = start(file, tokenizer_dir, folder, code=APPEND, pause=True, **options)
        if process.stdout.readline() != "working\n":
            process.communicate(timeout=300)
            assert process.returncode == 0
            break
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        process.send_signal(signal.SIGCONT)
        time.sleep(chance.uniform(0, 0.4))
        kill(process)
        assert content(folder) in (before, content(whole))
        # The input has grown, which is the only thing to say about the old folder.
        assert all("has changed since it was packed" in it for it in fastpack.verify(folder).problems)
    pack(file, folder, exists="append")
    is_one_job(folder, whole)


def test_a_file_that_grew_again_after_a_killed_call_is_packed_as_it_is_now(
    tokenizer_dir: Path, pack: Any, tmp_path: Path
) -> None:
    file, folder, whole = (tmp_path / name for name in ("a.jsonl", "grown", "whole"))
    file.write_text(lines(range(6_000)))
    pack(file, folder)
    grow(file, lines(range(6_000, 20_000)))
    process = start(file, tokenizer_dir, folder, code=APPEND, pause=True, **OPTIONS, keep_tokens=True)
    kill(at_work(process))
    grow(file, lines(range(20_000, 20_100)))
    assert pack(file, folder, exists="append").documents.read == 20_100
    pack(file, whole)
    is_one_job(folder, whole)
