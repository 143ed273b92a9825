"""An output folder after kills, damage, and files of others: the undisturbed bytes or one error, and nothing of others touched."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import tempfile
import time
from pathlib import Path

import pytest
from campaign import tries
from conftest import conversation
from mutations import MEMORY, SECONDS, SOAK, mutate
from processes import RUN, start
from rows import look, shards

import fastpack

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="links, limits and kills as POSIX has them"),
    pytest.mark.soak,
]

OPTIONS = {"max_length": 256, "format": fastpack.Format(shard_size="40KB"), "strategy": "sequential"}


def seeds(count):
    """The seeds of `count` cases (a quarter of them in `make test`), or of as many as `SOAK_SECONDS` allow. A failure names its seed, which `SOAK_SEED` tries alone."""
    if "SOAK_SEED" in os.environ:
        yield int(os.environ["SOAK_SEED"])
    elif SOAK == 0:
        yield from range(tries(count // 4, count))
    else:
        end = time.monotonic() + SOAK
        while time.monotonic() < end:
            yield time.time_ns()


#: A run that the system kills when one of its files grows past a limit: mostly the log of blocks.
KILLED = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
"""


@pytest.fixture
def tmp_path(tmp_path):
    """A folder in memory, where the system has one: a disk takes its time to keep the files of hundreds of cases."""
    memory = Path("/dev/shm")
    if not memory.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def tokenizer(tokenizer_dir):
    """The tokenizer, loaded once for all cases."""
    return fastpack.Tokenizer(tokenizer_dir)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A file of a dozen blocks."""
    path = tmp_path_factory.mktemp("input") / "files.jsonl"
    lines = [json.dumps(conversation(number)) for number in range(6_000)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def finished(files, tokenizer, tmp_path_factory):
    """The folder of a run that nothing disturbed, which kept its tokens."""
    folder = tmp_path_factory.mktemp("finished") / "out"
    fastpack.pack_dir([files], folder, tokenizer=tokenizer, keep_tokens=True, **OPTIONS)
    assert len(shards(folder)) > 5
    return folder


@pytest.fixture(scope="module")
def killed(files, tokenizer_dir, finished, tmp_path_factory):
    """Folders of runs of the same job that were killed: early, on the way, and late."""
    whole = (finished / "tokens.fastpack").stat().st_size
    folders = []
    for share in (0.1, 0.4, 0.7, 0.95):
        folder = tmp_path_factory.mktemp("killed") / "out"
        code = KILLED.format(limit=int(whole * share)) + RUN
        process = start(files, tokenizer_dir, folder, code=code, keep_tokens=True, threads=1, **OPTIONS)
        process.communicate()
        assert process.returncode < 0
        folders.append(folder)
    assert any(list((folder / ".fastpack").glob("train-*")) for folder in folders)
    return folders


def copy(folder, to):
    """A copy of a folder that fastpack may write to."""
    shutil.rmtree(to, ignore_errors=True)
    return Path(shutil.copytree(folder, to, symlinks=True))


def outcome(call):
    """The result of a call, or the one error that it raises, within bounds of time and memory."""
    memory, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    try:
        result = call()
    except fastpack.FastpackError as failed:
        result = failed
    assert time.monotonic() - began < SECONDS
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) << 10 < MEMORY
    assert not isinstance(result, fastpack.InternalError)
    assert not isinstance(result, Exception) or ("\n" not in str(result) and len(str(result)) < 2_000)
    return result


def spoil_one(folder, chance, below="."):
    """Spoils a file of a folder, loses it, or puts another there; returns a word for the damage."""
    path = chance.choice(sorted(path for path in (folder / below).rglob("*") if path.is_file()))
    match chance.randrange(12):
        case 0:
            path.unlink()
        case 1:
            path.unlink()
            path.symlink_to(folder.parent / "elsewhere")
        case 2:
            path.unlink()
            path.mkdir()
        case _:
            path.write_bytes(mutate(path.read_bytes(), chance))
    return path


def test_killed_and_then_changed_a_run_gives_the_undisturbed_bytes_or_one_error(
    killed, finished, files, tokenizer, tmp_path
):
    expected = shards(finished)
    refused = 0
    for seed in seeds(90):
        chance = random.Random(seed)
        out = copy(chance.choice(killed), tmp_path / "out")
        spoilt = spoil_one(out, chance, ".fastpack")
        result = outcome(
            lambda out=out: fastpack.pack_dir([files], out, tokenizer=tokenizer, keep_tokens=True, **OPTIONS)
        )
        if isinstance(result, fastpack.FastpackError):
            assert not shards(out), f"seed {seed}: {spoilt.name}"
            refused += 1
            continue
        assert shards(out) == expected, f"seed {seed}: {spoilt.name}"
        again = fastpack.repack(out, tmp_path / "again", exists="overwrite", max_length=256)
        assert again.tokens.read == result.tokens.read
    assert SOAK or refused < tries(15, 60)


def test_a_changed_manifest_or_kept_token_gives_the_undisturbed_rows_or_one_error(
    finished, files, tokenizer, tmp_path
):
    repacked = {"max_length": 128, "format": fastpack.Format(shard_size="100KB")}
    fastpack.repack(finished, tmp_path / "expected", **repacked)
    for seed in seeds(200):
        chance = random.Random(seed)
        kept = copy(finished, tmp_path / "kept")
        path = kept / chance.choice(["manifest.json", "tokens.fastpack", "report.json"])
        path.write_bytes(mutate(path.read_bytes(), chance))
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        result = outcome(lambda kept=kept: fastpack.repack(kept, tmp_path / "out", **repacked))
        if not isinstance(result, fastpack.FastpackError):
            assert shards(tmp_path / "out") == shards(tmp_path / "expected"), f"seed {seed}: {path.name}"
        again = outcome(
            lambda kept=kept: fastpack.pack_dir(
                [files], kept, tokenizer=tokenizer, keep_tokens=True, **OPTIONS
            )
        )
        if not isinstance(again, fastpack.FastpackError):
            assert shards(kept) == shards(finished), f"seed {seed}: {path.name}"


def test_a_changed_cache_gives_the_undisturbed_table_and_says_so(files, tokenizer, tmp_path):
    expected = fastpack.pack_files([files], tokenizer, max_length=128)
    cached = {"max_length": 128, "cache_dir": tmp_path / "cache"}
    fastpack.pack_files([files], tokenizer, **cached)
    for seed in seeds(200):
        chance = random.Random(seed)
        # A file cut so short that nothing shows it to be fastpack's stays, and the last folder has the tokens.
        entry = max((tmp_path / "cache").iterdir(), key=lambda path: (len(path.name), path.name))
        path = chance.choice(sorted(entry.iterdir()))
        before = path.read_bytes()
        path.write_bytes(mutate(before, chance))
        changed = path.read_bytes()
        table = outcome(lambda: fastpack.pack_files([files], tokenizer, **cached))
        assert not isinstance(table, Exception), f"seed {seed}: {path.name}: {table}"
        assert table.equals(expected), f"seed {seed}: {path.name}"
        said = [warning for warning in fastpack.Report.of(table).warnings if "made anew" in warning]
        assert len(said) == (changed != before), f"seed {seed}: {path.name}"
        assert str(entry) in "".join(said) or changed == before


#: Names that fastpack has files by, and others.
NAMES = [
    "manifest.json",
    "report.json",
    "tokens.fastpack",
    "train-00000.arrow",
    "train-00007.jsonl",
    "validation-00000.arrow",
    "state.json",
    "dataset_info.json",
    "dataset_dict.json",
    "data-00000-of-00001.arrow",
    "files.arrow",
    "files-00001.arrow",
    ".fastpack",
    "train",
    "validation",
    "notes.txt",
    "train-mine.arrow",
    ".hidden",
]


def put(path, theirs, chance):
    """Puts a foreign file, folder or link at `path`."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    match chance.randrange(7):
        case 0:
            path.symlink_to(theirs / "thesis.txt")
        case 1:
            path.symlink_to(theirs)
        case 2:
            path.symlink_to(theirs / "nowhere")
        case 3:
            os.link(theirs / "thesis.txt", path)
        case 4:
            path.mkdir()
            (path / chance.choice(["lock", "blocks", "started.json", "state.json", "notes.txt"])).write_text(
                "mine"
            )
        case _:
            path.write_text(chance.choice(["mine", "{}", '{"version": 3, "files": []}']))


def test_files_of_others_stay_as_they_are(files, tokenizer, finished, killed, tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    for name in ("thesis.txt", *NAMES[:4], "lock", "blocks"):
        (theirs / name).write_text(f"mine: {name}")
    for seed in seeds(200):
        chance = random.Random(seed)
        out = tmp_path / "out"
        shutil.rmtree(out, ignore_errors=True)
        match chance.randrange(4):
            case 0:
                out.mkdir()
            case 1:
                copy(chance.choice(killed), out)
            case _:
                copy(finished, out)
        names = chance.sample(NAMES, chance.choice([1, 1, 2, 3]))
        for name in names:
            put(out / name, theirs, chance)
        if chance.random() < 0.2 and (out / ".fastpack").is_dir() and ".fastpack" not in names:
            names.append(".fastpack/notes.txt")
            (out / names[-1]).write_text("mine")
        before = {name: look(out / name) for name in names}, look(theirs)
        options = OPTIONS | {
            "exists": "overwrite" if chance.random() < 0.7 else "error",
            "keep_tokens": chance.random() < 0.5,
        }
        options |= chance.choice(
            [
                {},
                {"format": fastpack.Format(hf_layout=True)},
                {"format": fastpack.Format(hf_layout=True), "validation": 20},
                {"format": fastpack.Format(per_file=True)},
            ]
        )
        result = outcome(
            lambda out=out, options=options: fastpack.pack_dir([files], out, tokenizer=tokenizer, **options)
        )
        after = {name: look(out / name) for name in names}, look(theirs)
        # The folder of a split may have files of ours beside those of others.
        for old, new in zip(before[0].values(), after[0].values(), strict=True):
            if isinstance(old, dict) and isinstance(new, dict):
                for name in new.keys() - old.keys():
                    del new[name]
        assert after == before, f"seed {seed}: {names}, {options}, {result!r:.300}"
