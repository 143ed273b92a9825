"""Files that are appended to a folder give the rows of one job over all of them, and no token is made twice."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from conftest import conversation, sentence, write_chats
from processes import FILTERED, RUN, at_work, everything, kill, start

import fastpack

if TYPE_CHECKING:
    from pathlib import Path

OPTIONS: dict[str, Any] = {"max_length": 256, "format": fastpack.Format(shard_size="20kB")}


def same_output(one: Path, other: Path) -> None:
    """Both folders hold the same rows in the same files, and both are well."""
    for split in ("train", "validation"):
        names = [sorted(path.name for path in folder.glob(f"{split}-*")) for folder in (one, other)]
        assert names[0] == names[1]
        for name in names[0]:
            assert (one / name).read_bytes() == (other / name).read_bytes(), name
    for folder in (one, other):
        assert not fastpack.verify(folder).problems
        assert not [path.name for path in folder.parent.iterdir() if path.name.startswith(f"{folder.name}.")]


@pytest.mark.parametrize("strategy", ["mix", "sequential"])
@pytest.mark.parametrize("validation", [None, 0.1, 25])
def test_appended_files_give_the_rows_of_one_job(
    strategy: Any, validation: Any, parts: list[Path], tokenizer_dir: Path, tmp_path: Path
) -> None:
    options = OPTIONS | {"strategy": strategy, "validation": validation}
    grown, whole = tmp_path / "grown", tmp_path / "whole"
    fastpack.pack_dir(parts[:1], grown, tokenizer=tokenizer_dir, keep_tokens=True, **options)
    trained = set(map(tuple, documents(grown, "train"))) if validation else set()
    for path in parts[1:]:
        report = fastpack.pack_dir(path, grown, tokenizer=tokenizer_dir, exists="append", **options)
        assert report.appended_files == 1
        assert "appended" in str(report)
    expected = fastpack.pack_dir(parts, whole, tokenizer=tokenizer_dir, keep_tokens=True, **options)
    same_output(grown, whole)
    assert (report.documents, report.tokens, report.rows) == (
        expected.documents,
        expected.tokens,
        expected.rows,
    )
    assert [it.named for it in report.inputs] == [it.named for it in expected.inputs]
    if validation:
        # Documents that were trained on are not validated later.
        assert not trained & set(map(tuple, documents(grown, "validation")))
    # It is the finished job over all files, whichever call asks for it.
    again = fastpack.pack_dir(parts, grown, tokenizer=tokenizer_dir, keep_tokens=True, **options)
    assert again.rows == expected.rows
    repacked = fastpack.repack(
        grown, tmp_path / "repacked", max_length=128, **({"validation": validation} if validation else {})
    )
    assert repacked.documents.read == expected.documents.read


def documents(folder: Path, split: str) -> list[list[int]]:
    table = fastpack.read(folder, split=split)
    found = []
    for row in table.to_pylist():
        end = 0
        for length in row["seq_lengths"]:
            found.append(row["input_ids"][end : end + length])
            end += length
    return found


def test_a_file_that_is_there_already_is_not_read_again(
    parts: list[Path], tokenizer_dir: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "grown"
    first = fastpack.pack_dir(parts[:2], folder, tokenizer=tokenizer_dir, keep_tokens=True, **OPTIONS)
    before = (folder / "manifest.json").read_bytes()
    report = fastpack.pack_dir(parts[:2], folder, tokenizer=tokenizer_dir, exists="append", **OPTIONS)
    assert (report.appended_files, report.rows) == (0, first.rows)
    assert (folder / "manifest.json").read_bytes() == before
    pattern = tmp_path / "data" / "*.jsonl"
    report = fastpack.pack_dir(pattern, folder, tokenizer=tokenizer_dir, exists="append", **OPTIONS)
    assert report.appended_files == 1
    # No old file is needed any more.
    parts[0].unlink()
    extra = write_chats(tmp_path, "extra", range(300, 310))
    report = fastpack.pack_dir(extra, folder, tokenizer=tokenizer_dir, exists="append", **OPTIONS)
    assert report.documents.read == 310


def test_a_folder_that_is_not_there_is_packed(parts: list[Path], tokenizer_dir: Path, tmp_path: Path) -> None:
    report = fastpack.pack_dir(
        parts[:1], tmp_path / "new", tokenizer=tokenizer_dir, exists="append", **OPTIONS
    )
    fastpack.pack_dir(parts[1], tmp_path / "new", tokenizer=tokenizer_dir, exists="append", **OPTIONS)
    assert report.documents.read == 200
    assert len(documents(tmp_path / "new", "train")) == 230


def test_other_options_and_changed_files_are_refused_by_name(
    parts: list[Path], tokenizer_dir: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "grown"
    fastpack.pack_dir(parts[:1], folder, tokenizer=tokenizer_dir, keep_tokens=True, **OPTIONS)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def append(files: Any, **more: Any) -> None:
        given = OPTIONS | more
        fastpack.pack_dir(files, folder, tokenizer=tokenizer_dir, exists="append", **given)

    for more, named in (
        ({"max_length": 128}, "max_length"),
        ({"train_on": "all"}, "train_on"),
        ({"seed": 5}, "seed"),
        ({"strategy": "sequential"}, "strategy"),
    ):
        with pytest.raises(fastpack.OutputError, match=f"differs in `{named}`"):
            append(parts[1], **more)
    for more in (
        {"format": fastpack.Format(per_file=True)},
        {"groups": "1MB"},
        {"cache_dir": tmp_path / "cache"},
        {"groups": fastpack.Groups(rank=0, world_size=1)},
    ):
        with pytest.raises(fastpack.OptionError) as refused:
            append(parts[1], **more)
        assert refused.value.option == "exists"
    parts[0].write_text(parts[0].read_text().replace("e", "a", 1) + json.dumps(conversation(7)) + "\n")
    with pytest.raises(fastpack.OptionError, match="has changed since it was packed") as refused:
        append(parts[:2])
    assert str(parts[0]) in str(refused.value)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_folder_without_tokens_is_refused(parts: list[Path], tokenizer_dir: Path, tmp_path: Path) -> None:
    folder = tmp_path / "packed"
    fastpack.pack_dir(parts[:1], folder, tokenizer=tokenizer_dir, **OPTIONS)
    with pytest.raises(fastpack.OutputError, match="keep_tokens=True"):
        fastpack.pack_dir(parts[1], folder, tokenizer=tokenizer_dir, exists="append", **OPTIONS)


def folder_beside(folder: Path, **call: Any) -> Path:
    """The folder in which an append makes the new output: a call that fails leaves it."""
    broken = folder.parent / "broken.jsonl"
    broken.write_text("{")
    with pytest.raises(fastpack.RecordError):
        fastpack.pack_dir(broken, folder, **call)
    [beside] = folder.parent.glob(f"{folder.name}.append-*")
    shutil.rmtree(beside)
    return beside


def test_folders_of_others_with_such_names_stay(
    parts: list[Path], tokenizer_dir: Path, tmp_path: Path
) -> None:
    """Another job's output, files of the user, an empty folder and a link, under names that could be taken for ours."""
    folder = tmp_path / "grown"
    given: dict[str, Any] = {"tokenizer": tokenizer_dir, "keep_tokens": True, **OPTIONS}
    fastpack.pack_dir(parts[:1], folder, **given)
    names = ["grown.append", "grown.append-0123456789abcdef", "grown.append-x"]
    for name in names:
        fastpack.pack_dir(parts[2:3], tmp_path / name, **given)
    (tmp_path / "grown.append-fedcba9876543210").mkdir()
    (tmp_path / "grown.append-aaaaaaaaaaaaaaaa").symlink_to(tmp_path / "grown.append-x")
    before = sorted(path.name for path in tmp_path.iterdir())
    for files in (parts[:1], parts[1]):
        fastpack.pack_dir(files, folder, exists="append", **given)
        assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert not any(fastpack.verify(tmp_path / name).problems for name in names)


def test_the_folder_keeps_its_access_and_a_link_stays_one(
    parts: list[Path], tokenizer_dir: Path, tmp_path: Path
) -> None:
    real, folder = tmp_path / "real", tmp_path / "grown"
    given: dict[str, Any] = {"tokenizer": tokenizer_dir, "keep_tokens": True, **OPTIONS}
    fastpack.pack_dir(parts[:1], real, **given)
    folder.symlink_to(real)
    real.chmod(0o700)
    for path in real.iterdir():
        if path.is_file():
            path.chmod(0o600)
    fastpack.pack_dir(parts[1], folder, exists="append", **given)
    assert folder.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in real.iterdir() if path.is_file()} == {0o600}
    assert fastpack.Report.of(real).documents.read == fastpack.Report.of(folder).documents.read == 230


@pytest.mark.parametrize("exists", ["append", "append_rows"])
def test_a_shard_of_others_is_refused_by_name(
    exists: Any, parts: list[Path], tokenizer_dir: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "grown"
    kept = exists == "append"
    given: dict[str, Any] = {"tokenizer": tokenizer_dir, "keep_tokens": kept, **OPTIONS}
    fastpack.pack_dir(parts[:1], folder, **given)
    (folder / "train-00077.arrow").write_text("mine")
    with pytest.raises(fastpack.OutputError, match=r"did not write: `train-00077\.arrow`; move them away"):
        fastpack.pack_dir(parts[1], folder, exists=exists, **given)
    assert (folder / "train-00077.arrow").read_text() == "mine"
    assert len(list(tmp_path.glob("grown*"))) == 1


@pytest.mark.parametrize("exists", ["append", "append_rows"])
@pytest.mark.parametrize(
    "name",
    [
        "notes.txt",
        "train-00017.arrow",
        "groups/notes.txt",
        "groups/00000-rows/train-00017.arrow",
        "state/notes.txt",
    ],
)
def test_a_file_of_others_in_the_work_folder_is_refused_by_name_and_stays(
    exists: Any, name: str, parts: list[Path], tokenizer_dir: Path, tmp_path: Path
) -> None:
    """It went away with the old output, to a folder beside the new one, and every later append failed."""
    folder = tmp_path / "grown"
    given: dict[str, Any] = {"tokenizer": tokenizer_dir, "keep_tokens": exists == "append", **OPTIONS}
    fastpack.pack_dir(parts[:1], folder, **given)
    theirs = folder / ".fastpack" / name
    theirs.parent.mkdir(parents=True)
    theirs.write_text("mine")
    (folder / "notes.txt").write_text("mine too")
    shards = {path.name: path.read_bytes() for path in folder.glob("train-*")}
    with pytest.raises(
        fastpack.OutputError, match=r"`\.fastpack/.*did not write.*move `\.fastpack` away"
    ) as refused:
        fastpack.pack_dir(parts[1], folder, exists=exists, **given)
    assert refused.value.filename == str(folder)
    assert (theirs.read_text(), (folder / "notes.txt").read_text()) == ("mine", "mine too")
    assert {path.name: path.read_bytes() for path in folder.glob("train-*")} == shards
    assert not list(tmp_path.glob("grown.append*"))
    shutil.rmtree(folder / ".fastpack")
    assert fastpack.pack_dir(parts[1], folder, exists=exists, **given).appended_files == 1


@pytest.mark.parametrize("exists", ["append", "append_rows"])
def test_a_manifest_that_is_a_link_to_nowhere_is_refused_by_name(
    exists: Any, parts: list[Path], tokenizer_dir: Path, tmp_path: Path
) -> None:
    """The folder was said to hold no output."""
    folder = tmp_path / "grown"
    given: dict[str, Any] = {"tokenizer": tokenizer_dir, "keep_tokens": exists == "append", **OPTIONS}
    fastpack.pack_dir(parts[:1], folder, **given)
    (folder / "manifest.json").unlink()
    (folder / "manifest.json").symlink_to("nowhere")
    with pytest.raises(fastpack.OutputError, match=r"`manifest\.json` that is not as fastpack wrote it"):
        fastpack.pack_dir(parts[1], folder, exists=exists, **given)
    assert (folder / "manifest.json").is_symlink()


def change(shard: Path, *, keep_time: bool) -> bytes:
    """Changes a shard at its size."""
    times = (shard.stat().st_atime_ns, shard.stat().st_mtime_ns)
    content = shard.read_bytes()[::-1]
    with shard.open("r+b") as file:
        file.write(content)
    if keep_time:
        os.utime(shard, ns=times)
    return content


@pytest.mark.parametrize("exists", ["append", "append_rows"])
def test_a_shard_that_was_changed_at_its_size_is_refused_by_name(
    exists: Any, parts: list[Path], tokenizer_dir: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "grown"
    given: dict[str, Any] = {"tokenizer": tokenizer_dir, "keep_tokens": exists == "append", **OPTIONS}
    fastpack.pack_dir(parts[:1], folder, **given)
    shard = folder / "train-00001.arrow"
    whole = shard.read_bytes()
    changed = change(shard, keep_time=False)
    with pytest.raises(
        fastpack.OutputError, match=r"shards have changed since .*: `train-00001\.arrow`; put them back"
    ) as refused:
        fastpack.pack_dir(parts[1], folder, exists=exists, **given)
    assert refused.value.filename == str(folder)
    assert shard.read_bytes() == changed
    assert not list(tmp_path.glob("grown.append*"))
    shard.write_bytes(whole)
    assert fastpack.pack_dir(parts[1], folder, exists=exists, **given).warnings == []


def test_a_shard_that_was_changed_at_its_size_and_time_stays_and_a_warning_names_it(
    parts: list[Path], tokenizer_dir: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "grown"
    given: dict[str, Any] = {"tokenizer": tokenizer_dir, "keep_tokens": True, **OPTIONS}
    fastpack.pack_dir(parts[:1], folder, **given)
    changed = change(folder / "train-00001.arrow", keep_time=True)
    report = fastpack.pack_dir(parts[1], folder, exists="append", **given)
    [beside] = tmp_path.glob("grown.append*")
    [warning] = report.warnings
    assert f"`{beside / 'train-00001.arrow'}`" in warning
    assert {path.name: path.read_bytes() for path in beside.iterdir()} == {"train-00001.arrow": changed}
    assert not fastpack.verify(folder).problems
    assert fastpack.pack_dir(parts[2], folder, exists="append", **given).warnings == []


def test_files_of_others_where_the_new_output_is_made_are_refused_by_name(
    parts: list[Path], tokenizer_dir: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "grown"
    given: dict[str, Any] = {"tokenizer": tokenizer_dir, "keep_tokens": True, "exists": "append", **OPTIONS}
    fastpack.pack_dir(parts[:1], folder, **given)
    beside = folder_beside(folder, **given)
    beside.mkdir()
    (beside / "notes.txt").write_text("mine")
    with pytest.raises(fastpack.OutputError, match=r"did not write: `notes\.txt`; move them away") as refused:
        fastpack.pack_dir(parts[1], folder, **given)
    assert refused.value.filename == str(beside)
    assert [path.name for path in beside.iterdir()] == ["notes.txt"]
    (beside / "notes.txt").unlink()
    assert fastpack.pack_dir(parts[1], folder, **given).appended_files == 1
    assert not beside.exists()


def test_files_of_others_stay(parts: list[Path], tokenizer_dir: Path, tmp_path: Path) -> None:
    folder = tmp_path / "grown"
    fastpack.pack_dir(parts[:1], folder, tokenizer=tokenizer_dir, keep_tokens=True, **OPTIONS)
    (folder / "notes.txt").write_text("mine")
    fastpack.pack_dir(parts[1], folder, tokenizer=tokenizer_dir, exists="append", **OPTIONS)
    assert (folder / "notes.txt").read_text() == "mine"
    assert not list(tmp_path.glob("grown.append*"))


def test_no_other_run_writes_the_folder_meanwhile(
    parts: list[Path], tokenizer_dir: Path, tmp_path: Path
) -> None:
    folder, whole = tmp_path / "grown", tmp_path / "whole"
    given: dict[str, Any] = {"tokenizer": tokenizer_dir, "keep_tokens": True, **OPTIONS}
    appends: list[bool] = []
    refused: list[str] = []

    def keep(table: pa.Table) -> pa.Array[pa.BooleanScalar]:
        if appends:
            appends.clear()
            for then in ("overwrite", "append"):
                with pytest.raises(fastpack.OutputError, match="another run is writing here") as busy:
                    fastpack.pack_dir(parts[2], folder, exists=fastpack.Exists(then, wait=False), **given)
                refused.append(str(busy.value))
        return pa.array([True] * table.num_rows)

    filtered = given | {"filter": fastpack.Function(keep, fingerprint="all")}
    fastpack.pack_dir(parts[:1], folder, **filtered)
    appends.append(True)
    fastpack.pack_dir(parts[1], folder, exists="append", **filtered)
    assert len(refused) == 2
    fastpack.pack_dir(parts[:2], whole, **filtered)
    same_output(folder, whole)


APPEND = RUN.replace("pack_dir([files], out,", 'pack_dir([files], out, exists="append",')


def test_a_killed_append_leaves_the_old_folder_whole_and_is_resumed(
    tokenizer_dir: Path, tmp_path: Path
) -> None:
    old, new = (tmp_path / f"{name}.jsonl" for name in ("old", "new"))
    for path, count in ((old, 3_000), (new, 6_000)):
        lines = [
            json.dumps({"text": f"{path.stem} {sentence(number, 40)}"}) + "\n" for number in range(count)
        ]
        path.write_text("".join(lines), encoding="utf-8")
    folder, whole = tmp_path / "grown", tmp_path / "whole"
    # The run stops within its first block, however soon it would have ended.
    options: dict[str, Any] = {
        "max_length": 256,
        "format": fastpack.Format(shard_size="2MB"),
        "filter": fastpack.Function(everything, fingerprint="everything"),
    }
    fastpack.pack_dir([old], folder, tokenizer=str(tokenizer_dir), keep_tokens=True, **options)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    opened = fastpack.read(folder)
    kill(at_work(start(new, tokenizer_dir, folder, code=APPEND, pause=True, **FILTERED)))
    # The lock of the killed run may lie there.
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    assert not fastpack.verify(folder).problems
    said, wrong = start(new, tokenizer_dir, folder, code=APPEND, **FILTERED).communicate(timeout=300)
    assert said.startswith("rows"), (said, wrong)
    fastpack.pack_dir([old, new], whole, tokenizer=str(tokenizer_dir), keep_tokens=True, **options)
    same_output(folder, whole)
    assert opened.num_rows < fastpack.read(folder).num_rows


def test_an_append_that_was_killed_before_the_exchange_or_after_it_is_finished(
    parts: list[Path], tokenizer_dir: Path, tmp_path: Path
) -> None:
    folder, whole, old = tmp_path / "grown", tmp_path / "whole", tmp_path / "old"
    given: dict[str, Any] = {"tokenizer": tokenizer_dir, "keep_tokens": True, **OPTIONS}
    fastpack.pack_dir(parts[:1], folder, **given)
    fastpack.pack_dir(parts[:2], whole, **given)
    shutil.copytree(folder, old)
    beside = folder_beside(folder, exists="append", **given)
    # Killed when all was made and nothing exchanged.
    shutil.copytree(whole, beside)
    fastpack.pack_dir(parts[1], folder, exists="append", **given)
    same_output(folder, whole)
    # Killed when the old output was at the other place.
    shutil.copytree(old, beside)
    (beside / "notes.txt").write_text("mine")
    fastpack.pack_dir(parts[1], folder, exists="append", **given)
    same_output(folder, whole)
    assert (folder / "notes.txt").read_text() == "mine"
    shutil.copytree(old, beside)
    fastpack.pack_dir(parts[2], folder, exists="append", **given)
    assert not beside.exists()
    assert len(documents(folder, "train")) == 300


def test_the_command_line_appends(parts: list[Path], tokenizer_dir: Path, tmp_path: Path) -> None:
    from fastpack.cli import main

    folder, whole = tmp_path / "grown", tmp_path / "whole"
    line = ["-t", str(tokenizer_dir), "-m", "256", "--format.shard-size", "20kB"]
    for path in parts:
        assert main(["pack", str(path), "-o", str(folder), *line, "--exists", "append"]) == 0
    assert main(["pack", *map(str, parts), "-o", str(whole), *line, "--keep-tokens"]) == 0
    same_output(folder, whole)
    assert main(["pack", "--like", str(folder), "-o", str(tmp_path / "like")]) == 0
    same_output(tmp_path / "like", whole)
