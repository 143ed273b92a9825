"""Rows of new files that follow those of a folder, whose shards stay the same files."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
import signal
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from campaign import tries
from conftest import conversation, sentence, write_chats
from processes import RUN, at_work, kill, start

import fastpack
from fastpack.dataset.folder import Folder

if TYPE_CHECKING:
    from pathlib import Path

OPTIONS: dict[str, Any] = {"max_length": 256, "format": fastpack.Format(shard_size="20kB")}

COLUMNS = ["input_ids", "labels", "position_ids", "seq_lengths", "source_file", "source_row"]


@pytest.fixture
def pack(tokenizer_dir: Path) -> Any:
    def pack(files: Any, folder: Path, **more: Any) -> fastpack.Report:
        return fastpack.pack_dir(files, folder, tokenizer=tokenizer_dir, **(OPTIONS | more))

    return pack


@pytest.fixture
def append(pack: Any) -> Any:
    def append(files: Any, folder: Path, **more: Any) -> fastpack.Report:
        return pack(files, folder, exists="append_rows", **more)

    return append


def shards(folder: Path) -> dict[bytes, int]:
    """The files of rows by what they hold, each with its number on the disk."""
    names = [file["name"] for file in json.loads((folder / "manifest.json").read_text())["files"]]
    return {(folder / name).read_bytes(): (folder / name).stat().st_ino for name in names}


def is_well(folder: Path) -> None:
    assert not fastpack.verify(folder).problems
    assert not [path.name for path in folder.parent.iterdir() if path.name.startswith(f"{folder.name}.")]
    assert not (folder / ".fastpack").exists()


def content(folder: Path) -> dict[str, bytes]:
    """All files but the lock of a run that was killed."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def origins(folder: Path, split: str | None = None) -> list[tuple[int, int]]:
    """The file and line of each document."""
    table = fastpack.read(folder, split=split) if split else fastpack.read(folder)
    rows = table.select(["source_file", "source_row"]).to_pylist()
    return [it for row in rows for it in zip(row["source_file"], row["source_row"], strict=True)]


FORMATS = [
    fastpack.Format("arrow", shard_size="20kB"),
    fastpack.Format("arrow", shard_size="20kB", layout="compact"),
    fastpack.Format("arrow", shard_size="20kB", hf_layout=True),
    fastpack.Format("parquet", shard_size="20kB"),
    fastpack.Format("jsonl", shard_size="20kB"),
]


@pytest.mark.parametrize("strategy", ["mix", "best_fit", "sequential", "concat", "none"])
@pytest.mark.parametrize("validation", [None, 0.1])
@pytest.mark.parametrize("form", FORMATS, ids=lambda it: f"{it.name}-{it.layout}-{it.hf_layout}")
def test_the_rows_of_each_part_follow_those_before(
    strategy: Any, validation: Any, form: Any, parts: list[Path], pack: Any, append: Any, tmp_path: Path
) -> None:
    options = {"strategy": strategy, "validation": validation, "format": form}
    grown = tmp_path / "grown"
    alone = [pack(path, tmp_path / f"alone-{at}", **options) for at, path in enumerate(parts)]
    pack(parts[0], grown, **options)
    for path in parts[1:]:
        before = shards(grown)
        report = append(path, grown, **options)
        assert report.appended_files == 1
        now = shards(grown)
        assert before.items() <= now.items()
        assert len(now) > len(before)
        is_well(grown)
    for split in ["train", "validation"] if validation else ["train"]:
        each = [fastpack.read(tmp_path / f"alone-{at}", split=split) for at in range(3)]
        rows = fastpack.read(grown, split=split)
        assert rows.equals(pa.concat_tables(each).cast(rows.schema))
    whole = pack(parts, tmp_path / "whole", **options)
    assert report.rows == sum(it.rows for it in alone)
    for name in ("documents", "tokens"):
        total = getattr(report, name)
        for field in ("read", "kept", "dropped"):
            assert getattr(total, field) == sum(getattr(getattr(it, name), field) for it in alone)
        assert total.read == total.kept + total.dropped == getattr(whole, name).read
    assert report.trained_tokens == sum(it.trained_tokens for it in alone)
    assert report.lengths == whole.lengths
    assert report.lower_bound <= report.rows
    assert [it.named for it in report.inputs] == [it.named for it in whole.inputs]
    if validation:
        assert report.splits["validation"].rows == sum(it.splits["validation"].rows for it in alone)


def test_what_was_trained_on_is_never_validated(
    parts: list[Path], pack: Any, append: Any, tmp_path: Path
) -> None:
    folder, options = tmp_path / "grown", {"validation": 0.2, "columns": COLUMNS}
    pack(parts[0], folder, **options)
    trained, held = origins(folder, "train"), origins(folder, "validation")
    # The same records in another file are on the sides that they were on.
    again = tmp_path / "again.jsonl"
    again.write_bytes(parts[0].read_bytes())
    append(again, folder, **options)
    assert origins(folder, "train") == trained + [(1, row) for _, row in trained]
    assert origins(folder, "validation") == held + [(1, row) for _, row in held]
    # A file with one record is on one side.
    for number in range(300, 306):
        append(write_chats(tmp_path, f"one-{number}", range(number, number + 1)), folder, **options)
    is_well(folder)
    assert sorted(origins(folder, "train") + origins(folder, "validation")) == sorted(
        [(file, row + 1) for file in (0, 1) for row in range(200)] + [(file, 1) for file in range(2, 8)]
    )


def test_a_touched_file_is_not_new_and_a_changed_one_is_refused(
    parts: list[Path], pack: Any, append: Any, tmp_path: Path
) -> None:
    for exists, folder in (("append", tmp_path / "tokens"), ("append_rows", tmp_path / "rows")):
        options: dict[str, Any] = {"keep_tokens": True} if exists == "append" else {}
        first = pack(parts[:2], folder, **options)
        os.utime(parts[0], ns=(1, 1_000_000_000))
        report = pack(parts[:2], folder, exists=exists)
        assert (report.appended_files, report.rows) == (0, first.rows)
        report = pack(parts, folder, exists=exists)
        assert report.appended_files == 1
        is_well(folder)
        before = content(folder)
        text = parts[0].read_text()
        parts[0].write_text(text.replace("e", "a", 1))
        with pytest.raises(fastpack.OptionError, match="has changed since it was packed") as refused:
            pack(parts, folder, exists=exists)
        assert (refused.value.option, str(parts[0]) in str(refused.value)) == ("exists", True)
        parts[0].write_text(text[: len(text) // 2])
        with pytest.raises(fastpack.OptionError, match="has changed since it was packed"):
            pack(parts, folder, exists=exists)
        parts[0].write_text(text)
        os.utime(parts[0], ns=(1, 1_000_000_000))
        assert content(folder) == before
        is_well(folder)


@pytest.mark.parametrize("form", FORMATS[:3], ids=repr)
def test_who_has_the_folder_open_keeps_its_rows_in_other_processes(
    form: fastpack.Format, parts: list[Path], pack: Any, append: Any, tmp_path: Path
) -> None:
    """A worker that is started later opens the shards that there were, and no others."""
    folder = tmp_path / "packed"
    pack(parts[:2], folder, format=form)
    opened = Folder(folder)
    rows, before = opened.read("train"), pickle.dumps(opened)
    append(parts, folder, format=form)
    assert Folder(folder).read("train").num_rows > rows.num_rows
    for pickled in (before, pickle.dumps(opened)):
        assert pickle.loads(pickled).read("train") == rows
        assert len(pickle.loads(pickled).shards) == len(opened.shards)


@pytest.mark.parametrize("validation", [None, 0.1])
def test_a_file_that_grew_is_new_from_there(
    validation: Any, parts: list[Path], pack: Any, append: Any, tmp_path: Path
) -> None:
    folder, options = tmp_path / "grown", {"columns": COLUMNS, "validation": validation}
    pack(parts[:2], folder, **options)
    size = parts[0].stat().st_size
    write_chats(tmp_path / "data", "part-0", range(300, 340), how="a")
    before = shards(folder)
    report = append(parts, folder, **options)
    assert before.items() <= shards(folder).items()
    facts = json.loads((folder / "report.json").read_text())
    assert (report.appended_files, facts["files"]) == (2, 3)
    assert facts["bytes"] == sum(path.stat().st_size for path in parts)
    assert sum(it.files for it in report.inputs) == 3
    lines = [(0, row + 1) for row in range(240)] + [(1, row + 1) for row in range(30)]
    lines += [(2, row + 1) for row in range(70)]
    found = origins(folder, "train") + (origins(folder, "validation") if validation else [])
    assert sorted(found) == lines
    # Once more: the lines before it are told from the parts in which they were read.
    write_chats(tmp_path / "data", "part-0", range(340, 345), how="a")
    os.utime(parts[1])
    assert append(parts, folder, **options).documents.read == 345
    is_well(folder)
    assert append(parts, folder, **options).appended_files == 0
    os.utime(parts[0], ns=(1, 1))
    assert append(parts, folder, **options).appended_files == 0
    # A change before the first of the places from which it was read is found.
    text, written = parts[0].read_bytes(), parts[0].stat().st_mtime_ns
    for at in (100, size + 100, len(text) - 100):
        parts[0].write_bytes(text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :] + b"\n")
        with pytest.raises(fastpack.OptionError, match="has changed since it was packed"):
            append(parts, folder, **options)
    assert append(parts[1:], folder, **options).appended_files == 0
    parts[0].write_bytes(text)
    os.utime(parts[0], ns=(written, written))


def test_a_last_line_without_its_end_may_be_ended_and_not_continued(
    pack: Any, append: Any, tmp_path: Path
) -> None:
    folder, file = tmp_path / "grown", tmp_path / "a.jsonl"
    text = "".join(json.dumps(conversation(number)) + "\n" for number in range(30))
    file.write_bytes("\ufeff".encode() + text.rstrip("\n").encode())
    pack(file, folder, columns=COLUMNS)
    with file.open("a") as opened:
        opened.write("\n\n" + text)
    append(file, folder, columns=COLUMNS)
    assert sorted(origins(folder)) == [(0, row + 1) for row in (*range(30), *range(31, 61))]
    is_well(folder)


def test_what_does_not_go_with_it_is_refused_by_name(
    parts: list[Path], pack: Any, append: Any, tokenizer_dir: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "grown"
    pack(parts[0], folder)
    before = content(folder)
    for more, named in (
        ({"max_length": 128}, "max_length"),
        ({"train_on": "all"}, "train_on"),
        ({"seed": 5}, "seed"),
        ({"validation": 0.1}, "validation"),
        ({"format": "parquet"}, "format"),
    ):
        with pytest.raises(fastpack.OutputError, match=f"differs in .*`{named}`"):
            append(parts[1], folder, **more)
    for more, named in (
        ({"format": fastpack.Format(per_file=True)}, "format.per_file"),
        ({"groups": "1MB"}, "groups"),
        ({"groups": fastpack.Groups(rank=0, world_size=1)}, "groups"),
        ({"cache_dir": tmp_path / "cache"}, "cache_dir"),
        ({"keep_tokens": True}, "keep_tokens"),
        ({"validation": 20}, "give a share, such as 0.01"),
        ({"columns": ["input_ids", "group"], "order": fastpack.Balanced(ranks=2)}, "the column `group`"),
    ):
        with pytest.raises(fastpack.OptionError, match="is `append_rows`, which cannot go with") as refused:
            append(parts[1], folder, **more)
        assert refused.value.option == "exists"
        assert named in str(refused.value)
    for source, named in (
        ({"path": str(parts[1]), "limit": 3}, "one source"),
        ({"path": str(parts[1]), "repeat": 2}, "one source"),
        ({"path": str(parts[1]), "fraction": 0.5}, "one source"),
    ):
        with pytest.raises(fastpack.OptionError, match=named):
            append([source], folder)
    with pytest.raises(fastpack.OptionError, match="needs a folder of the local disk"):
        append(parts[1], "s3://bucket/folder")
    with pytest.raises(fastpack.OptionError, match="`pack_dir` alone takes"):
        fastpack.repack(folder, tmp_path / "other", max_length=128, exists="append_rows")
    assert content(folder) == before
    is_well(folder)

    kept, memory, groups = (tmp_path / name for name in ("kept", "memory", "groups"))
    pack(parts[0], kept, keep_tokens=True)
    with pytest.raises(fastpack.OutputError, match='exists="append" makes these alone'):
        append(parts[1], kept)
    fastpack.pack_records(
        [conversation(number) for number in range(30)], tokenizer_dir, output=memory, **OPTIONS
    )
    with pytest.raises(fastpack.OptionError, match="not from records in memory or kept tokens"):
        append(parts[1], memory)
    pack(parts, groups, groups="10kB")
    with pytest.raises(fastpack.OutputError, match="keeps no counts"):
        append(parts[1], groups)
    fastpack.repack(kept, tmp_path / "again", **OPTIONS)
    with pytest.raises(fastpack.OptionError, match="not from records in memory or kept tokens"):
        append(parts[1], tmp_path / "again")
    (tmp_path / "empty").mkdir()
    with pytest.raises(fastpack.OutputError, match="holds no finished output"):
        append(parts[1], tmp_path / "empty")


def test_the_folder_is_that_of_no_other_call(
    parts: list[Path], pack: Any, append: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "grown"
    append(parts[0], folder)
    append(parts[1], folder)
    # Its rows are others than those of one job over all files.
    with pytest.raises(fastpack.OutputError, match="differs in `exists`"):
        pack(parts[:2], folder)
    with pytest.raises(fastpack.OutputError, match=r'holds no tokens.*exists="append_rows"'):
        pack(parts[2], folder, exists="append")
    with pytest.raises(fastpack.OutputError, match="holds no tokens"):
        fastpack.repack(folder, tmp_path / "repacked", max_length=128)
    assert append(parts, folder).appended_files == 1
    assert fastpack.read(folder).num_rows == fastpack.Report.of(folder).rows
    pack(parts[:2], folder, exists="overwrite")
    is_well(folder)


def test_a_shard_that_is_missing_or_shorter_is_named(
    parts: list[Path], pack: Any, append: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "grown"
    pack(parts[0], folder)
    shard = folder / "train-00001.arrow"
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(
        fastpack.OutputError, match=r"cannot be appended to: `train-00001\.arrow` has changed"
    ):
        append(parts[1], folder)
    shard.unlink()
    with pytest.raises(fastpack.OutputError, match="is missing"):
        append(parts[1], folder)


def test_files_of_others_stay(parts: list[Path], pack: Any, append: Any, tmp_path: Path) -> None:
    folder = tmp_path / "grown"
    pack(parts[0], folder)
    (folder / "notes.txt").write_text("mine")
    append(parts[1], folder)
    assert (folder / "notes.txt").read_text() == "mine"
    assert not list(tmp_path.glob("grown.append*"))


def test_a_functions_records_are_compared_as_it_made_them(
    parts: list[Path], append: Any, tmp_path: Path
) -> None:
    def short(table: pa.Table) -> pa.Array[pa.BooleanScalar]:
        return pa.array([len(str(row)) < 400 for row in table.to_pylist()])

    folder, options = tmp_path / "grown", {"filter": fastpack.Function(short, fingerprint="short")}
    append(parts[0], folder, **options)
    write_chats(tmp_path / "data", "part-0", range(400, 420), how="a")
    os.utime(parts[0])
    report = append(parts[:2], folder, **options)
    assert (report.appended_files, report.documents.read) == (2, 250)
    assert report.dropped["filtered"].documents > 0
    is_well(folder)


def test_the_lock_keeps_others_away(
    parts: list[Path], pack: Any, append: Any, tokenizer_dir: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "grown"
    pack(parts[0], folder)
    long = tmp_path / "long.jsonl"
    long.write_text("".join(json.dumps({"text": sentence(number, 40)}) + "\n" for number in range(6_000)))
    first = at_work(start(long, tokenizer_dir, folder, code=APPEND, pause=True, **OPTIONS))
    for exists in ("append_rows", "append", "overwrite"):
        with pytest.raises(fastpack.OutputError, match="another run is writing here"):
            pack(parts[2], folder, exists=fastpack.Exists(exists, wait=False))
    second = start(parts[2], tokenizer_dir, folder, code=APPEND, **OPTIONS)
    time.sleep(0.2)
    assert second.poll() is None
    first.send_signal(signal.SIGCONT)
    for process in (first, second):
        said, wrong = process.communicate(timeout=300)
        assert said.startswith("rows"), (said, wrong)
    is_well(folder)
    assert fastpack.Report.of(folder).documents.read == 200 + 6_000 + 70


APPEND = RUN.replace("pack_dir([files], out,", 'pack_dir([files], out, exists="append_rows",')


@pytest.mark.parametrize("case", range(tries(6, 60)))
def test_killed_anywhere_the_old_folder_stays_whole_and_the_next_call_resumes(
    case: int, tokenizer_dir: Path, tmp_path: Path
) -> None:
    old, new = (tmp_path / f"{name}.jsonl" for name in ("old", "new"))
    # The first run is killed where its first documents are told of, and must not be at its end by then.
    for path, count in ((old, 2_000), (new, 8_000 if case else 60_000)):
        lines = [
            json.dumps({"text": f"{path.stem} {sentence(number, 40)}"}) + "\n" for number in range(count)
        ]
        path.write_text("".join(lines), encoding="utf-8")
    folder, whole = tmp_path / "grown", tmp_path / "whole"
    options: dict[str, Any] = {
        "max_length": 256,
        "format": fastpack.Format(shard_size="200kB"),
        "validation": 0.1 if case % 2 else None,
        "strategy": "sequential" if case % 3 else "mix",
    }
    for path in (folder, whole):
        fastpack.pack_dir([old], path, tokenizer=str(tokenizer_dir), **options)
    before = content(folder)
    opened = fastpack.read(folder)
    rows = opened.to_pydict() if not case else None
    fastpack.pack_dir([new], whole, tokenizer=str(tokenizer_dir), exists="append_rows", **options)
    chance = random.Random(case)
    for _ in range(4):
        process = start(new, tokenizer_dir, folder, code=APPEND, pause=True, **options)
        line = process.stdout.readline()
        if line.startswith("rows"):
            # The tokens and shards of the killed runs were all that it needed.
            assert process.wait(timeout=300) == 0
            process.communicate()
            break
        assert line == "working\n"
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        process.send_signal(signal.SIGCONT)
        time.sleep(chance.uniform(0, 0.5) if case else 0)
        kill(process)
        assert not fastpack.verify(folder).problems
        if content(folder) != before:
            # It was killed after the exchange.
            assert case
            assert same_rows(folder, whole)
            break
    if rows is not None:
        assert opened.to_pydict() == rows
    said, wrong = start(new, tokenizer_dir, folder, code=APPEND, **options).communicate(timeout=300)
    assert said.startswith("rows"), (said, wrong)
    assert same_rows(folder, whole)
    is_well(folder)


def same_rows(one: Path, other: Path) -> bool:
    return list(shards(one)) == list(shards(other))


def test_a_call_that_was_killed_at_the_exchange_is_finished(
    parts: list[Path], pack: Any, append: Any, tmp_path: Path
) -> None:
    folder, whole = tmp_path / "grown", tmp_path / "whole"
    for path in (folder, whole):
        pack(parts[0], path)
    old = tmp_path / "old"
    shutil.copytree(folder, old)
    append(parts[1], whole)
    beside = (
        tmp_path
        / f"grown.append-{json.loads((whole / 'manifest.json').read_text())['job']['appended_to'][:16]}"
    )
    # Killed when all was made and nothing exchanged.
    shutil.copytree(whole, beside)
    append(parts[1], folder)
    assert same_rows(folder, whole)
    is_well(folder)
    # Killed when the old output was at the other place, whole or without the shards that both have.
    for gone in ([], ["train-00000.arrow", "train-00001.arrow"]):
        shutil.copytree(old, beside)
        for name in gone:
            (beside / name).unlink()
        append(parts[1], folder)
        assert same_rows(folder, whole)
        is_well(folder)


@pytest.mark.parametrize("inside", [[], [".fastpack"], [".fastpack", ".fastpack/lock"]], ids=str)
def test_what_a_killed_removal_has_left_is_removed(
    inside: list[str], parts: list[Path], pack: Any, append: Any, tmp_path: Path
) -> None:
    """The process was killed after the manifest of the replaced output was gone."""
    folder = tmp_path / "grown"
    pack(parts[0], folder)
    append(parts[1], folder)
    replaced = json.loads((folder / "manifest.json").read_text())["replaced"][:16]
    left, of_others = (tmp_path / f"grown.append-{name}" for name in (replaced, "f" * 16))
    for path in (left, of_others):
        path.mkdir()
        for name in inside:
            (path / name).touch() if name.endswith("lock") else (path / name).mkdir()
    append(parts[2], folder)
    assert not left.exists()
    assert of_others.exists()
    left = tmp_path / f"grown.append-{json.loads((folder / 'manifest.json').read_text())['replaced'][:16]}"
    left.mkdir()
    (left / "notes.txt").write_text("mine", encoding="utf-8")
    append(parts[2], folder)
    assert [path.name for path in left.iterdir()] == ["notes.txt"]


def test_the_command_line_and_a_file_of_options_append(
    parts: list[Path], append: Any, tokenizer_dir: Path, tmp_path: Path
) -> None:
    from fastpack.cli import main

    folder, listed, called = tmp_path / "grown", tmp_path / "listed", tmp_path / "called"
    line = ["-t", str(tokenizer_dir), "-m", "256", "--format.shard-size", "20kB"]
    job = tmp_path / "job.toml"
    job.write_text('exists = "append_rows"\n')
    for path in parts:
        assert main(["pack", str(path), "-o", str(folder), *line, "--exists", "append_rows"]) == 0
        assert main(["pack", str(path), "-o", str(listed), *line, "--config", str(job)]) == 0
        append(path, called)
    assert same_rows(folder, called)
    assert same_rows(listed, called)
