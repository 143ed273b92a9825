"""`fastpack.wandb`, offline: the logged parts of a packed folder, and the requests that bring one back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from conftest import ROOT

import fastpack

wandb = pytest.importorskip("wandb", reason="wandb is not installed")

CHAT = ROOT / "examples" / "chat.jsonl"


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wandb") / "chats"
    fastpack.pack_dir(CHAT, folder, tokenizer=ROOT / "examples" / "tokenizer", max_length=512, validation=5)
    return folder


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_ARTIFACT_DIR", str(tmp_path / "artifacts"))
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("WANDB_CACHE_DIR", str(tmp_path / "cache"))
    with wandb.init(mode="offline", project="test", dir=str(tmp_path)) as active:
        yield active


@pytest.mark.filterwarnings("ignore")
def test_a_folder_is_logged_with_its_manifest_tables_and_numbers(run, packed):
    artifact = fastpack.wandb.log(packed, run, inputs=CHAT, rows=2)
    names = set(artifact.manifest.entries)
    shards = {path.name for path in packed.glob("*.arrow")}
    assert shards | {"manifest.json", "report.json"} <= names
    assert {"train_rows.table.json", "validation_rows.table.json", "inputs/chat.jsonl.table.json"} <= names
    assert artifact.metadata["max_seq_len"] == 512
    assert artifact.metadata["model_id"].endswith("tokenizer")
    assert run.summary["fastpack/rows"] == fastpack.Report.of(packed).rows


@pytest.mark.filterwarnings("ignore")
def test_tables_hold_the_text_of_rows_and_of_inputs(run, packed):
    entries = fastpack.wandb.log(packed, run, inputs=[CHAT], rows=2).manifest.entries
    rows = json.loads(Path(entries["train_rows.table.json"].local_path).read_text(encoding="utf-8"))
    assert len(rows["data"]) == 2
    assert rows["data"][0][rows["columns"].index("text")] == str(fastpack.inspect(packed, 0))
    inputs = json.loads(Path(entries["inputs/chat.jsonl.table.json"].local_path).read_text(encoding="utf-8"))
    assert inputs["data"][0] == [1, CHAT.read_text(encoding="utf-8").splitlines()[0]]


class Recorded:
    """A run that answers as wandb's does, from a folder."""

    def __init__(self, folder):
        self.folder = folder
        self.asked = []

    def use_artifact(self, name, type):  # noqa: A002
        self.asked.append((name, type))
        return self

    def download(self, root):
        return str(self.folder)


def test_a_folder_is_brought_back_by_its_name(packed):
    run = Recorded(packed)
    folder = fastpack.wandb.use("chats:latest", run)
    assert run.asked == [("chats:latest", "dataset")]
    assert fastpack.read(folder).num_rows == fastpack.read(packed).num_rows


def test_an_artifact_without_rows_is_refused(tmp_path):
    with pytest.raises(fastpack.FastpackError, match="holds no packed rows"):
        fastpack.wandb.use("other:latest", Recorded(tmp_path))


@pytest.mark.filterwarnings("ignore")
def test_inputs_that_cannot_be_shown_are_named_with_the_reason(run, packed, tmp_path):
    with pytest.raises(fastpack.FastpackError, match=r"none\.jsonl cannot be shown: No such file"):
        fastpack.wandb.log(packed, run, inputs=tmp_path / "none.jsonl")
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(fastpack.FastpackError, match=r"bytes\.jsonl cannot be shown: it holds no text"):
        fastpack.wandb.log(packed, run, inputs=tmp_path / "bytes.jsonl")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("manifest", [True, False])
@pytest.mark.parametrize("is_folder", [True, False])
def test_a_shard_that_is_no_file_is_refused_by_name(is_folder, manifest, run, packed, tmp_path):
    """Without a manifest it was an error of `wandb`."""
    folder = shutil.copytree(packed, tmp_path / "packed")
    [shard] = folder.glob("train-*.arrow")
    shard.unlink()
    if is_folder:
        shard.mkdir()
    else:
        shard.symlink_to(tmp_path / "nowhere")
    if not manifest:
        (folder / "manifest.json").unlink()
    with pytest.raises(fastpack.FastpackError, match=r"train-00000\.arrow"):
        fastpack.wandb.log(folder, run)
