"""Files on a filesystem of `fsspec` give the rows of local files, or one clear error."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from conftest import conversation, sentence
from containers import CONTAINERS, lines
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    import pyarrow as pa

CONVERSATIONS = [conversation(number) for number in range(60)]


def rows(files: Any, tokenizer: Any, **options: Any) -> dict[str, list[Any]]:
    options = {"max_length": 512, "max_lost": "100%", **options}
    return fastpack.pack_files(files, tokenizer, **options).to_pydict()


def ids_of(tables: Iterable[pa.Table]) -> list[tuple[int, ...]]:
    return [tuple(ids) for table in tables for ids in table["input_ids"].to_pylist()]


class Own(MemoryFileSystem):
    """A filesystem in memory, with files of its own."""

    protocol = "own"
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self.store: dict[str, Any] = {}
        self.pseudo_dirs = [""]
        self.failing: Callable[[str], object] = lambda _: None
        self.told = {"created": lambda _: 1_700_000_000.5}
        self.listed = self.bytes = 0

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return super()._strip_protocol(path.removeprefix("own://") if isinstance(path, str) else path)

    def _told(self, info: dict[str, Any]) -> dict[str, Any]:
        info = {name: value for name, value in info.items() if name != "created"}
        return info | {name: tell(info["name"]) for name, tell in self.told.items()}

    def info(self, path: str, **options: Any) -> Any:
        return self._told(super().info(path, **options))

    def find(self, *args: Any, **options: Any) -> Any:
        self.listed += 1
        found = super().find(*args, **options)
        return {path: self._told(info) for path, info in found.items()}

    def cat_file(self, path: str, *args: Any, **options: Any) -> bytes:
        self.failing(path)
        read: bytes = super().cat_file(path, *args, **options)
        self.bytes += len(read)
        return read


@pytest.fixture
def own() -> Own:
    return Own()


@pytest.fixture
def tree(tmp_path: Path, own: Own) -> Path:
    """Files in folders, here and on the filesystem."""
    folder = tmp_path / "tree"
    names = ["a/0.jsonl", "a/1.jsonl", "a/b/2.jsonl", "a/b/c/3.jsonl", "a/.hidden.jsonl", "a/README.md"]
    for number, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(lines([{"text": f"{number} {sentence(number, 30)}"}]))
        own.pipe(f"/{name}", path.read_bytes())
    return folder


def texts(path: Path, count: int = 3000) -> Path:
    path.write_bytes(lines([{"text": f"{number} {sentence(number, 40)}"} for number in range(count)]))
    return path


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_container_gives_the_same_rows_from_a_filesystem(
    container: str, tmp_path: Path, tokenizer_dir: Path, own: Own
) -> None:
    path = tmp_path / f"data.{container}"
    path.write_bytes(CONTAINERS[container](CONVERSATIONS))
    own.pipe(f"/folder/data.{container}", path.read_bytes())
    expected = rows(path, tokenizer_dir)
    assert (
        rows(f"/folder/data.{container}", tokenizer_dir, storage=fastpack.Storage(filesystem=own)) == expected
    )
    assert (
        rows(f"own://folder/data.{container}", tokenizer_dir, storage=fastpack.Storage(filesystem=own))
        == expected
    )
    assert rows(path, tokenizer_dir, storage=fastpack.Storage(filesystem=LocalFileSystem())) == expected
    inside = DirFileSystem(str(tmp_path), LocalFileSystem())
    assert rows(f"data.{container}", tokenizer_dir, storage=fastpack.Storage(filesystem=inside)) == expected


@pytest.mark.parametrize("pattern", ["a/*.jsonl", "a/**/*.jsonl", "a/{0,1}.jsonl", "a/b/[23].jsonl"])
def test_globs_and_brace_lists_are_those_of_local_paths(
    pattern: str, tree: Path, tokenizer_dir: Path, own: Own
) -> None:
    assert rows(f"/{pattern}", tokenizer_dir, storage=fastpack.Storage(filesystem=own)) == rows(
        f"{tree}/{pattern}", tokenizer_dir
    )


@pytest.mark.parametrize("recursive", [False, True])
def test_a_folder_is_listed_once_and_searched_as_a_local_one(
    recursive: bool, tree: Path, tokenizer_dir: Path, own: Own
) -> None:
    expected = rows(tree / "a", tokenizer_dir, reading=fastpack.Reading(recursive=recursive))
    assert (
        rows(
            "/a",
            tokenizer_dir,
            storage=fastpack.Storage(filesystem=own),
            reading=fastpack.Reading(recursive=recursive),
        )
        == expected
    )
    assert own.listed == 1
    if recursive:
        assert (
            rows(
                "/",
                tokenizer_dir,
                storage=fastpack.Storage(filesystem=own),
                reading=fastpack.Reading(recursive=True),
            )
            == expected
        )


def test_sources_lie_on_the_filesystem_too(tree: Path, tokenizer_dir: Path, own: Own) -> None:
    sources: list[Any] = [{"path": "/a/1.jsonl", "repeat": 2}, {"path": "/a/0.jsonl"}]
    local = [source | {"path": f"{tree}{source['path']}"} for source in sources]
    found = rows(sources, tokenizer_dir, storage=fastpack.Storage(filesystem=own))
    assert found == rows(local, tokenizer_dir)


def test_a_job_is_known_again_and_the_manifest_tells_nothing_of_the_filesystem(
    tmp_path: Path, tokenizer_dir: Path, own: Own
) -> None:
    own.password = "very-secret"  # type: ignore[attr-defined]
    own.pipe("/x.jsonl", texts(tmp_path / "x.jsonl").read_bytes())
    options: dict[str, Any] = {
        "tokenizer": tokenizer_dir,
        "max_length": 512,
        "storage": fastpack.Storage(filesystem=own),
    }
    first = fastpack.pack_dir("/x.jsonl", tmp_path / "packed", **options)
    before = own.bytes
    assert fastpack.pack_dir("/x.jsonl", tmp_path / "packed", **options) == first
    assert own.bytes - before < 10_000
    text = (tmp_path / "packed" / "manifest.json").read_text()
    assert "very-secret" not in text
    manifest = json.loads(text)
    assert list(manifest["job"]["inputs"]["files"]) == ["own:///x.jsonl"]
    assert manifest["recipe"]["files"] == "/x.jsonl"
    assert manifest["recipe"]["unheld"] == {"storage": "a Storage"}
    own.told["created"] = lambda _: 1_700_000_001
    with pytest.raises(fastpack.OutputError):
        fastpack.pack_dir("/x.jsonl", tmp_path / "packed", **options)


def test_verify_says_that_it_does_not_read_inputs_of_a_filesystem(
    tmp_path: Path, tokenizer_dir: Path, own: Own
) -> None:
    own.pipe("/x.jsonl", texts(tmp_path / "x.jsonl").read_bytes())
    out = tmp_path / "packed"
    fastpack.pack_dir(
        "/x.jsonl", out, tokenizer=tokenizer_dir, max_length=512, storage=fastpack.Storage(filesystem=own)
    )
    found = fastpack.verify(out)
    assert (found.problems, found.made_again) == ((), 0)
    assert found.notes == ("1 input in remote storage, from which `verify` reads nothing",)


def test_an_etag_knows_a_file_whose_time_has_changed(tmp_path: Path, tokenizer_dir: Path, own: Own) -> None:
    own.pipe("/x.jsonl", texts(tmp_path / "x.jsonl", 50).read_bytes())
    own.told["ETag"] = lambda _: '"one"'
    options: dict[str, Any] = {
        "tokenizer": tokenizer_dir,
        "max_length": 512,
        "storage": fastpack.Storage(filesystem=own),
    }
    fastpack.pack_dir("/x.jsonl", tmp_path / "packed", **options)
    manifest = json.loads((tmp_path / "packed" / "manifest.json").read_bytes())
    assert manifest["job"]["inputs"]["files"]["own:///x.jsonl"]["etag"] == '"one"'
    own.told["ETag"] = lambda _: '"two"'
    with pytest.raises(fastpack.OutputError):
        fastpack.pack_dir("/x.jsonl", tmp_path / "packed", **options)


def test_a_filesystem_without_etag_and_time_gives_files_that_are_not_known_again(
    tmp_path: Path, tokenizer_dir: Path, own: Own
) -> None:
    own.told = {}
    own.pipe("/x.jsonl", texts(tmp_path / "x.jsonl", 50).read_bytes())
    options: dict[str, Any] = {
        "tokenizer": tokenizer_dir,
        "max_length": 512,
        "storage": fastpack.Storage(filesystem=own),
    }
    report = fastpack.pack_dir("/x.jsonl", tmp_path / "packed", **options)
    assert any("not resumed" in warning and "x.jsonl" in warning for warning in report.warnings)
    with pytest.raises(fastpack.OutputError):
        fastpack.pack_dir("/x.jsonl", tmp_path / "packed", **options)


@pytest.mark.parametrize("name", ["x.jsonl", "x.parquet", "x.jsonl.gz"])
def test_a_stream_resumes_at_every_table(name: str, tmp_path: Path, tokenizer_dir: Path, own: Own) -> None:
    path = tmp_path / name
    path.write_bytes(CONTAINERS[name[2:]](CONVERSATIONS))
    own.pipe(f"/{name}", path.read_bytes())
    options: dict[str, Any] = {
        "max_length": 512,
        "batch_size": 2,
        "storage": fastpack.Storage(filesystem=own),
    }
    with fastpack.stream(f"/{name}", tokenizer_dir, **options) as stream:
        tables = list(stream)
    local = fastpack.stream(path, tokenizer_dir, max_length=512, batch_size=2)
    assert ids_of(tables) == ids_of(local)
    for number, table in enumerate(tables[:-1]):
        again = fastpack.stream(f"/{name}", tokenizer_dir, **options)
        again.load_state_dict(fastpack.state_of(table))
        assert ids_of(again) == ids_of(tables[number + 1 :])


def test_a_stream_that_is_left_early_ends(tmp_path: Path, tokenizer_dir: Path, own: Own) -> None:
    own.pipe("/x.jsonl", texts(tmp_path / "x.jsonl").read_bytes())
    for _ in range(5):
        stream = fastpack.stream(
            "/x.jsonl", tokenizer_dir, max_length=512, storage=fastpack.Storage(filesystem=own)
        )
        assert next(iter(stream)).num_rows
        stream.close()


def test_a_stream_is_pickled_with_its_filesystem(tmp_path: Path, tokenizer_dir: Path) -> None:
    path = texts(tmp_path / "x.jsonl", 100)
    stream = fastpack.stream(
        str(path),
        tokenizer_dir,
        max_length=64,
        batch_size=2,
        ranks=fastpack.Ranks(lanes=2),
        storage=fastpack.Storage(filesystem=LocalFileSystem()),
    )
    again = pickle.loads(pickle.dumps(stream))
    assert [table.to_pylist() for table in again] == [table.to_pylist() for table in stream]


def test_functions_of_the_caller_run_while_files_are_read(
    tmp_path: Path, tokenizer_dir: Path, own: Own
) -> None:
    path = texts(tmp_path / "x.jsonl")
    own.pipe("/x.jsonl", path.read_bytes())

    def keep(rows: pa.RecordBatch) -> Any:
        import pyarrow.compute as pc

        return pc.ends_with(rows["text"], "a")

    expected = rows(path, tokenizer_dir, filter=keep)
    assert rows("/x.jsonl", tokenizer_dir, filter=keep, storage=fastpack.Storage(filesystem=own)) == expected


def test_scan_and_reindex_read_from_the_filesystem(tmp_path: Path, tokenizer_dir: Path, own: Own) -> None:
    path = texts(tmp_path / "x.jsonl")
    own.pipe("/in/x.jsonl", path.read_bytes())
    scanned = fastpack.scan("/in/x.jsonl", tokenizer_dir, storage=fastpack.Storage(filesystem=own))
    assert scanned.documents == fastpack.scan(path, tokenizer_dir).documents
    fastpack.reindex("/in/x.jsonl", tmp_path / "again", storage=fastpack.Storage(filesystem=own))
    assert rows(tmp_path / "again", tokenizer_dir) == rows(path, tokenizer_dir)


def test_groups_read_from_the_filesystem(tmp_path: Path, tokenizer_dir: Path, own: Own) -> None:
    for number in range(4):
        own.pipe(f"/in/{number}.jsonl", texts(tmp_path / f"{number}.jsonl", 100).read_bytes())
    options: dict[str, Any] = {"tokenizer": tokenizer_dir, "max_length": 512, "groups": "1KB"}
    found = fastpack.pack_dir("/in", tmp_path / "one", storage=fastpack.Storage(filesystem=own), **options)
    local = fastpack.pack_dir(f"{tmp_path}/[0-3].jsonl", tmp_path / "two", **options)
    assert found.documents == local.documents
    assert found.rows == local.rows


def test_a_missing_file_is_named(tokenizer_dir: Path, own: Own) -> None:
    with pytest.raises(fastpack.InputNotFoundError, match="No such file") as caught:
        rows("/none.jsonl", tokenizer_dir, storage=fastpack.Storage(filesystem=own))
    assert isinstance(caught.value, FileNotFoundError)
    assert caught.value.filename == "own:///none.jsonl"
    with pytest.raises(fastpack.OptionError, match="matches no file"):
        rows("/none*.jsonl", tokenizer_dir, storage=fastpack.Storage(filesystem=own))


def test_a_filesystem_that_tells_no_size_is_refused_with_the_file(tokenizer_dir: Path, own: Own) -> None:
    own.pipe("/x.jsonl", lines(CONVERSATIONS))
    own.told["size"] = lambda _: None
    with pytest.raises(fastpack.StorageError, match="does not tell the size") as caught:
        rows("/x.jsonl", tokenizer_dir, storage=fastpack.Storage(filesystem=own))
    assert caught.value.filename == "own:///x.jsonl"


@pytest.mark.parametrize("change", [lambda data: data[:-20], lambda data: data + b'{"text": "more"}\n'])
def test_a_file_that_changes_after_it_was_listed_ends_the_run(
    change: Callable[[bytes], bytes], tmp_path: Path, tokenizer_dir: Path, own: Own
) -> None:
    data = texts(tmp_path / "x.jsonl").read_bytes()
    own.pipe("/x.jsonl", data)
    asked: list[str] = []

    def fail(path: str) -> None:
        asked.append(path)
        own.pipe("/x.jsonl", change(data))

    own.failing = fail
    with pytest.raises(fastpack.StorageError, match="changed while it was read"):
        rows("/x.jsonl", tokenizer_dir, storage=fastpack.Storage(filesystem=own))
    assert asked


def test_ctrl_c_inside_the_filesystem_ends_the_call(tokenizer_dir: Path, own: Own) -> None:
    own.pipe("/x.jsonl", lines(CONVERSATIONS))

    def interrupt(path: str) -> None:
        raise KeyboardInterrupt

    own.failing = interrupt
    with pytest.raises(KeyboardInterrupt):
        rows("/x.jsonl", tokenizer_dir, storage=fastpack.Storage(filesystem=own))
    with pytest.raises(KeyboardInterrupt):
        list(
            fastpack.stream(
                "/x.jsonl", tokenizer_dir, max_length=512, storage=fastpack.Storage(filesystem=own)
            )
        )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_is_refused_the_stream_and_can_read_by_its_own(
    tmp_path: Path, tokenizer_dir: Path
) -> None:
    path = texts(tmp_path / "x.jsonl")
    code = """
import os, sys, fastpack
from fsspec.implementations.local import LocalFileSystem
path, tokenizer = sys.argv[1:]
options = {"max_length": 512, "storage": fastpack.Storage(filesystem=LocalFileSystem())}
stream = iter(fastpack.stream(path, tokenizer, **options))
next(stream)
if child := os.fork():
    _, status = os.waitpid(child, 0)
    assert status == 0, status
    assert next(stream).num_rows
else:
    try:
        next(stream)
    except fastpack.FastpackError as refused:
        assert "forked" in str(refused)
        assert fastpack.pack_files(path, tokenizer, **options).num_rows
        os._exit(0)
    os._exit(1)
"""
    done = subprocess.run([sys.executable, "-c", code, path, tokenizer_dir], timeout=60, check=False)
    assert done.returncode == 0


def test_what_is_no_filesystem_is_refused(tokenizer_dir: Path, own: Own) -> None:
    with pytest.raises(fastpack.OptionTypeError, match="filesystem of `fsspec`"):
        rows("/x.jsonl", tokenizer_dir, storage=fastpack.Storage(filesystem="s3"))
    own.asynchronous = True
    with pytest.raises(fastpack.OptionError, match="asynchronous"):
        rows("/x.jsonl", tokenizer_dir, storage=fastpack.Storage(filesystem=own))


def test_text_cannot_name_a_filesystem(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('files = "x"\nstorage = {filesystem = "s3"}\n')
    with pytest.raises(fastpack.OptionError, match="object of Python"):
        fastpack.load_config(recipe)
    command = [sys.executable, "-m", "fastpack", "pack", "x.jsonl", "--storage.filesystem", "s3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "in Python" in done.stderr
