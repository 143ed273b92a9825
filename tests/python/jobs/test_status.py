"""The state of a job without groups: how far a killed one came, and that a finished one has nothing to do."""

from __future__ import annotations

import gzip
import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from conftest import sentence
from processes import kill, start

import fastpack
from fastpack.cli import main

if TYPE_CHECKING:
    from pathlib import Path

OPTIONS: dict[str, Any] = {"max_length": 256, "format": fastpack.Format(shard_size="200kB")}

#: A run that stops itself once it has written some shards.
STOPPED = """
import os, pickle, signal, sys, fastpack
files, tokenizer, out, options, _ = sys.argv[1:]
options = pickle.loads(bytes.fromhex(options))
def say(reading):
    shards = [name for name in os.listdir(out + "/.fastpack") if name.startswith("train-")]
    if len(shards) > 4:
        print("working", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
fastpack.pack_dir(files.split(os.pathsep), out, tokenizer=tokenizer, progress=say, **options)
"""


def write(path: Path, numbers: range) -> Path:
    text = "".join(json.dumps({"text": f"{number} {sentence(number, 40)}"}) + "\n" for number in numbers)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


def killed(files: list[Path], tokenizer_dir: Path, out: Path) -> None:
    """Kills a job that has written some shards, and not all."""
    out.mkdir()
    named = os.pathsep.join(map(str, files))
    process = start(named, tokenizer_dir, out, code=STOPPED, **OPTIONS, strategy="sequential")
    assert process.stdout.readline() == "working\n", process.communicate()
    kill(process)


@pytest.mark.parametrize("name", ["b.jsonl", "b.jsonl.gz"])
def test_a_killed_job_says_how_far_it_came(name: str, tokenizer_dir: Path, tmp_path: Path) -> None:
    first = write(tmp_path / "a.jsonl", range(2_000))
    files = [first, write(tmp_path / name, range(2_000, 60_000))]
    out = tmp_path / "out"
    killed(files, tokenizer_dir, out)
    status = fastpack.status(out)
    assert status.state == "stopped"
    assert status.documents is not None
    assert status.share is not None
    assert status.shards is not None
    assert 2_000 <= status.documents < 60_000
    assert 4 <= status.shards < 1_000
    sizes = [path.stat().st_size for path in files]
    if name == "b.jsonl":
        # The documents are alike in size.
        assert abs(status.share - status.documents / 60_000) < 0.05
    else:
        assert status.share == pytest.approx(sizes[0] / sum(sizes), abs=1e-3)
    page = str(status)
    assert f"{status.documents:,} documents tokenized, at least {status.share:.0%} of the inputs" in page
    assert "the same call resumes it" in page
    assert status.to_dict()["documents"] == status.documents
    # Another process goes on, and all is done.
    given = {"tokenizer": tokenizer_dir, "strategy": "sequential", **OPTIONS}
    assert fastpack.pack_dir(files, out, **given).documents.read == 60_000
    done = fastpack.status(out)
    assert (done.state, done.documents, done.share, done.shards) == ("finished", None, None, None)


def test_a_share_is_not_told_where_files_are_read_in_part(tokenizer_dir: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", range(60_000))
    out = tmp_path / "out"
    out.mkdir()
    code = STOPPED.replace("files.split(os.pathsep)", '[{"path": files, "limit": 59_000}]')
    process = start(file, tokenizer_dir, out, code=code, **OPTIONS, strategy="sequential")
    assert process.stdout.readline() == "working\n", process.communicate()
    kill(process)
    status = fastpack.status(out)
    assert status.share is None
    assert (status.documents or 0) > 0
    assert "tokenized, " in str(status)
    assert "of the inputs" not in str(status)


def test_a_finished_job_says_that_nothing_was_packed(
    tokenizer_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = write(tmp_path / "a.jsonl", range(50)), tmp_path / "out"

    def pack(**more: Any) -> fastpack.Report:
        return fastpack.pack_dir(file, out, tokenizer=tokenizer_dir, **(OPTIONS | more))

    first = pack(keep_tokens=True)
    assert not first.finished_before
    assert "nothing was packed" not in str(first)
    again = pack(keep_tokens=True)
    assert again.finished_before
    assert "finished here before; nothing was packed" in str(again)
    assert again == first
    assert pack(exists="append").finished_before
    assert not pack(exists="overwrite").finished_before
    assert not fastpack.Report.of(out).finished_before

    grouped = tmp_path / "grouped"
    for wanted in (False, True):
        report = fastpack.pack_dir(file, grouped, tokenizer=tokenizer_dir, groups="1kB", **OPTIONS)
        assert report.finished_before is wanted

    line = ["pack", str(file), "-o", str(tmp_path / "line"), "-t", str(tokenizer_dir), "-m", "256"]
    for wanted in (False, True):
        assert main(line) == 0
        assert ("nothing was packed" in capsys.readouterr().out) is wanted
