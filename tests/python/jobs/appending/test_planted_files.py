"""Files of somebody else, under every name that could come up, stay through appends and repacks, or are named."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from campaign import tries
from conftest import write_chats
from rows import look

import fastpack

if TYPE_CHECKING:
    from collections.abc import Iterator

SHARDS = fastpack.Format(shard_size=3000)
LAYOUTS: list[dict[str, Any]] = [
    {"format": SHARDS},
    {"format": SHARDS, "validation": 0.2},
    {"format": fastpack.Format(shard_size=3000, hf_layout=True)},
]

NAMES = [
    "train-00000.arrow",
    "train-00001.arrow",
    "train-00007.arrow",
    "train-00077.arrow",
    "validation-00000.arrow",
    "data-00000-of-00001.arrow",
    "dataset_info.json",
    "state.json",
    "manifest.json",
    "report.json",
    "tokens.fastpack",
    "notes.txt",
    "train/notes.txt",
    ".train-00000.arrow.new",
]
IN_WORK = ["notes.txt", "blocks", "lock", "started.json", "state/notes.txt", "groups/notes.txt", *NAMES[:4]]


BESIDE = "out.append-HASH"
"""Stands for the folder in which an append makes the new output."""


class Begun(NamedTuple):
    """A finished folder that a call is given, with its options."""

    folder: Path
    options: dict[str, Any]
    beside: str
    """The name of the folder in which an append makes the new output, behind that of the output."""


@pytest.fixture(scope="module")
def tokenizer(tokenizer_dir: Path) -> fastpack.Tokenizer:
    """The tokenizer, loaded once for all trials."""
    return fastpack.Tokenizer(tokenizer_dir)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three files of conversations, and one that is broken."""
    folder = tmp_path_factory.mktemp("inputs")
    ranges = [range(25), range(25, 40), range(40, 50)]
    found = [write_chats(folder, f"part-{at}", numbers) for at, numbers in enumerate(ranges)]
    (folder / "broken.jsonl").write_text("{")
    return [*found, folder / "broken.jsonl"]


@pytest.fixture(scope="module")
def begun(
    files: list[Path], tokenizer: fastpack.Tokenizer, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[Begun]]:
    """Finished folders for each call."""
    found: dict[str, list[Begun]] = {}
    for exists in ("append", "append_rows"):
        for layout in LAYOUTS:
            for grown in (False, True):
                folder = tmp_path_factory.mktemp("begun") / "out"
                options = {"tokenizer": tokenizer, "max_length": 256, **layout}
                if exists == "append":
                    options["keep_tokens"] = True
                fastpack.pack_dir(files[0], folder, **options)
                options["exists"] = exists
                if grown:
                    fastpack.pack_dir(files[1], folder, **options)
                with pytest.raises(fastpack.RecordError):
                    fastpack.pack_dir(files[3], folder, **options)
                [beside] = folder.parent.glob("out.*")
                shutil.rmtree(beside)
                found.setdefault(exists, []).append(Begun(folder, options, beside.name.removeprefix("out")))
    for at, layout in enumerate(LAYOUTS):
        folder = tmp_path_factory.mktemp("begun") / "out"
        fastpack.repack(found["append"][2 * at].folder, folder, max_length=128, **layout)
        found.setdefault("repack", []).append(Begun(folder, layout, ".append-fedcba9876543210"))
    return found


def plant(path: Path, chances: random.Random) -> None:
    """Puts something of somebody else at a path: a link, a folder, or a file, maybe of the size, or size and time, of that which is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = chances.random()
    if kind < 0.2:
        path.unlink(missing_ok=True)
        if kind < 0.1:
            path.symlink_to(chances.choice(["nowhere", "../theirs/thesis.txt", "../theirs"]))
        else:
            path.mkdir()
            (path / "notes.txt").write_text("mine")
        return
    content, times = b"of somebody else %d" % chances.randrange(10**6), None
    if path.is_file() and chances.random() < 0.7:
        found = path.stat()
        content = chances.randbytes(found.st_size)
        times = (found.st_atime_ns, found.st_mtime_ns) if chances.random() < 0.3 else None
        with path.open("r+b") as file:
            file.write(content)
    else:
        path.unlink(missing_ok=True)
        path.write_bytes(content)
    if times is not None:
        os.utime(path, ns=times)


def is_older(path: Path, than: Path) -> bool:
    return path.is_file() and than.is_file() and path.stat().st_mtime_ns < than.stat().st_mtime_ns


def under(folder: Path) -> Iterator[str]:
    return (str(path.relative_to(folder)) for path in sorted(folder.rglob("*")) if path.is_file())


@pytest.mark.parametrize("call", ["append", "append_rows", "repack"])
@pytest.mark.parametrize("seed", range(tries(20, 1_000)))
def test_files_of_others_stay_where_they_are_or_are_named(
    seed: int,
    call: Any,
    begun: dict[str, list[Begun]],
    files: list[Path],
    tmp_path: Path,
) -> None:
    chances = random.Random(f"{call} {seed}")
    whole, options, beside = chances.choice(begun[call])
    out, theirs = tmp_path / "out", tmp_path / "theirs"
    shutil.copytree(whole, out)
    theirs.mkdir()
    (theirs / "thesis.txt").write_text("mine")
    kept = tmp_path / "kept"
    if call == "repack":
        shutil.copytree(begun["append"][0].folder, kept)
    elif chances.random() < 0.3:
        with pytest.raises(fastpack.RecordError):
            fastpack.pack_dir(files[3], out, **options)
    names = [f"out/{name}" for name in {*under(out), *NAMES}]
    names += [f"out/.fastpack/{name}" for name in IN_WORK]
    names += [f"{BESIDE}/{name}" for name in {*NAMES, *(f".fastpack/{it}" for it in IN_WORK)}]
    names += [f"out.append-0123456789abcdef/{name}" for name in NAMES]
    names += [f"kept/{name}" for name in under(kept)]
    if (tmp_path / f"out{beside}").exists():
        # Files of the work of this job are its own by their names.
        names = [name for name in names if not name.startswith(f"{BESIDE}/.fastpack/")]
    planted = {}
    for name in chances.sample(sorted(names), chances.choice([1, 1, 2, 4])):
        place = name.replace(BESIDE, f"out{beside}")
        plant(tmp_path / place, chances)
        planted[place] = look(tmp_path / place)
    older = {name for name in planted if is_older(tmp_path / name, out / "manifest.json")}
    exists = chances.choice(["overwrite", "overwrite", "error"]) if call == "repack" else call
    said = refusal = ""
    try:
        if call == "repack":
            report = fastpack.repack(kept, out, max_length=64, exists=exists, **options)
        else:
            report = fastpack.pack_dir(files[chances.choice([1, 2])], out, **options)
        said = " ".join(report.warnings)
    except fastpack.FastpackError as refused:
        refusal = str(refused)
    # A folder is named in place of what is in it, and of many files some.
    words = {part for name in planted for part in Path(name).parts} - {"out", "kept", ".fastpack"}
    words |= {"` and 4 more"}
    assert not refusal or exists == "error" or any(word in refusal for word in words), refusal
    for name, content in planted.items():
        if look(tmp_path / name) == content:
            continue
        if call == "append_rows" and name in older and not refusal:
            # Whoever keeps the size and the time of a shard has it taken over as it is. `verify` tells.
            assert content in {file.read_bytes() for file in out.iterdir() if file.is_file()}, name
            assert fastpack.verify(out).problems
            continue
        moved = tmp_path / name.replace("out/", f"out{beside}/", 1)
        assert look(moved) == content, name
        assert f"`{moved}`" in said, (name, said)
    assert look(theirs) == {"thesis.txt": b"mine"}
