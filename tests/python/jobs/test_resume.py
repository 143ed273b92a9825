"""`pack_dir` stopped on the way, by whatever: the next run goes on, and writes the bytes of one that nothing stopped."""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import signal
import subprocess
import time

import pyarrow as pa
import pytest
from campaign import tries
from processes import OPTIONS, RUN, at_work, kill, kill_at_work, start
from pyarrow import parquet
from rows import shards, table_of

import fastpack

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and limits as POSIX has them")


@pytest.fixture(scope="module")
def undisturbed(long_corpus, tokenizer_dir, tmp_path_factory):
    """The folder of a run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    fastpack.pack_dir(long_corpus, folder, tokenizer=tokenizer_dir, **OPTIONS)
    assert len(shards(folder)) > 2
    return folder


@pytest.fixture
def unfinished(long_corpus, tokenizer_dir, tmp_path):
    """A folder in which a run of the same job was killed."""
    kill_at_work(long_corpus, tokenizer_dir, tmp_path / "out", threads=1)
    assert (tmp_path / "out/.fastpack/blocks").stat().st_size > 0
    return tmp_path / "out"


def test_killed_at_any_moment_it_goes_on_to_the_same_bytes(long_corpus, tokenizer_dir, undisturbed, tmp_path):
    chance = random.Random(20)
    began = time.monotonic()
    start(long_corpus, tokenizer_dir, tmp_path / "timed").communicate()
    seconds = time.monotonic() - began
    kills, finished = 0, 0
    while kills < tries(6, 20):
        out = tmp_path / f"out{finished}"
        process = start(long_corpus, tokenizer_dir, out, threads=chance.choice([1, 2, 8]))
        try:
            process.communicate(timeout=chance.uniform(0.3, 1.0) * seconds)
        except subprocess.TimeoutExpired:
            kill(process)
            kills += 1
        else:
            assert shards(out) == shards(undisturbed)
            finished += 1
    out = tmp_path / f"out{finished}"
    fastpack.pack_dir(long_corpus, out, tokenizer=tokenizer_dir, **OPTIONS)
    assert shards(out) == shards(undisturbed)
    assert not (out / ".fastpack").exists()


def test_an_unfinished_run_goes_on_to_the_same_bytes(unfinished, long_corpus, tokenizer_dir, undisturbed):
    fastpack.pack_dir(long_corpus, unfinished, tokenizer=tokenizer_dir, **OPTIONS)
    assert shards(unfinished) == shards(undisturbed)


def unlisted(work):
    """The shards in a work folder that its list does not name."""
    listed = (work / "shards").read_bytes().count(b"\n") if (work / "shards").exists() else 0
    return sorted(path.name for path in work.glob("train-*"))[listed:]


def test_killed_with_several_shards_unfinished_it_goes_on_to_the_same_bytes(
    big_corpus, tokenizer_dir, tmp_path
):
    small = {**OPTIONS, "format": fastpack.Format(shard_size="1MB")}
    fastpack.pack_dir(big_corpus, tmp_path / "undisturbed", tokenizer=tokenizer_dir, **small)
    killed = 0
    for attempt in range(40):
        out = tmp_path / f"out{attempt}"
        work = out / ".fastpack"
        process = start(big_corpus, tokenizer_dir, out, threads=8, **small)
        # The list is read first, so a shard that is listed meanwhile is not taken for an unfinished one.
        while process.poll() is None and not (work.exists() and len(unlisted(work)) > 2):
            time.sleep(0.001)
        kill(process)
        if not work.exists() or len(unlisted(work)) < 3:
            continue
        killed += 1
        assert (work / "shards.begun").exists()
        foreign = work / "train-00999.arrow"
        foreign.write_text("mine")
        with pytest.raises(fastpack.OutputError, match=r"train-00999\.arrow"):
            fastpack.pack_dir(big_corpus, out, tokenizer=tokenizer_dir, **small)
        assert foreign.read_text() == "mine"
        foreign.unlink()
        fastpack.pack_dir(big_corpus, out, tokenizer=tokenizer_dir, **small)
        assert shards(out) == shards(tmp_path / "undisturbed")
        assert not work.exists()
        if killed == tries(2, 10):
            return
    pytest.fail(f"{killed} of 40 runs were killed with several unfinished shards")


def test_what_is_done_is_not_done_again(big_corpus, tokenizer_dir, tmp_path):
    # So large that work is left when a run reports progress for the first time.
    kill_at_work(big_corpus, tokenizer_dir, tmp_path / "out", threads=1)
    report = fastpack.pack_dir(big_corpus, tmp_path / "out", tokenizer=tokenizer_dir, **OPTIONS)
    assert 0 < report.resumed_documents < report.documents.read
    assert f"{report.resumed_documents:,} documents were tokenized before" in str(report)


def test_a_block_whose_bytes_are_spoilt_is_done_again(unfinished, long_corpus, tokenizer_dir, undisturbed):
    log = unfinished / ".fastpack/blocks"
    whole = bytearray(log.read_bytes())
    whole[len(whole) // 3] ^= 1
    log.write_bytes(bytes(whole))
    fastpack.pack_dir(long_corpus, unfinished, tokenizer=tokenizer_dir, **OPTIONS)
    assert shards(unfinished) == shards(undisturbed)


@pytest.mark.parametrize(
    ("limit", "file"), [(300_000, "blocks"), (9_000_000, "train-00000.arrow")], ids=["blocks", "shard"]
)
def test_a_full_disk_is_one_error_and_a_later_run_finishes(
    limit, file, long_corpus, tokenizer_dir, undisturbed, tmp_path
):
    out = tmp_path / "out"
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n{RUN}"
    said, _ = start(
        long_corpus, tokenizer_dir, out, code=limited, format=fastpack.Format(shard_size="1GB")
    ).communicate()
    *_, last = said.splitlines()
    assert last.startswith("StorageError")
    assert last.endswith(f"{out / '.fastpack' / file}'")
    assert not shards(out)
    fastpack.pack_dir(
        long_corpus, out, tokenizer=tokenizer_dir, **(OPTIONS | {"format": fastpack.Format(shard_size="1GB")})
    )
    assert table_of(out) == table_of(undisturbed)


@pytest.fixture
def interrupted(open_folder, long_corpus, tokenizer_dir):
    """A folder in which a run was killed, and its input, where somebody without privileges may read and write."""
    files = open_folder / "files.jsonl"
    files.write_bytes(long_corpus.read_bytes())
    kill_at_work(files, tokenizer_dir, open_folder / "out", threads=1)
    for path in (open_folder / "out", *(open_folder / "out").rglob("*")):
        path.chmod(0o666 if path.is_file() else 0o777)
    return open_folder / "out", files


@pytest.mark.parametrize("denied", [".", ".fastpack"], ids=["output folder", "work folder"])
def test_a_folder_that_cannot_be_written_to_is_one_error_and_a_later_run_finishes(
    denied, interrupted, tokenizer_dir, undisturbed, without_privileges
):
    out, files = interrupted
    with everything_allowed():
        loaded = fastpack.Tokenizer(tokenizer_dir)
        (out / denied).chmod(0o555)
    with pytest.raises(fastpack.AccessError) as refused:
        fastpack.pack_dir(files, out, tokenizer=loaded, **OPTIONS)
    assert refused.value.filename.startswith(str(out))
    with everything_allowed():
        assert [path.name for path in out.iterdir()] == [".fastpack"]
        (out / denied).chmod(0o777)
    fastpack.pack_dir(files, out, tokenizer=loaded, **OPTIONS)
    with everything_allowed():
        assert shards(out) == shards(undisturbed)
        assert not (out / ".fastpack").exists()


@contextlib.contextmanager
def everything_allowed():
    """Goes back to who runs the tests."""
    user = os.geteuid()
    os.seteuid(os.getuid())
    yield
    os.seteuid(user)


def test_four_processes_do_one_job_though_two_of_them_are_killed(big_corpus, tokenizer_dir, tmp_path, python):
    out = tmp_path / "out"
    ranks = {"WORLD_SIZE": "4"}
    processes = [start(big_corpus, tokenizer_dir, out, environment=ranks, pause=True) for _ in range(4)]
    for _ in range(2):
        working = at_work(next_at_work(processes))
        kill(working)
        processes.remove(working)
    at_work(next_at_work(processes)).send_signal(signal.SIGCONT)
    said = [process.communicate()[0].splitlines()[-1] for process in processes]
    report = fastpack.pack_dir(big_corpus, out, tokenizer=tokenizer_dir, **OPTIONS)
    assert said == [f"rows {report.rows}"] * 2
    fastpack.pack_dir(big_corpus, tmp_path / "alone", tokenizer=tokenizer_dir, **OPTIONS)
    assert shards(out) == shards(tmp_path / "alone")


def next_at_work(processes):
    """The process that has said that it is working: one alone can."""
    ready, _, _ = select.select([process.stdout for process in processes], [], [])
    return next(process for process in processes if process.stdout is ready[0])


def test_those_that_wait_fail_as_the_one_that_works(write_jsonl, tokenizer_dir, tmp_path):
    text = {"text": "the old river keeps the town " * 50}
    files = write_jsonl([*[text] * 20_000, b"{"])
    processes = [start(files, tokenizer_dir, tmp_path / "out") for _ in range(3)]
    said = {process.communicate()[0].splitlines()[-1] for process in processes}
    assert len(said) == 1
    assert said.pop().startswith(f"RecordError {files}:20001: ")
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_without_waiting_a_second_run_is_refused(big_corpus, tokenizer_dir, tmp_path):
    working = at_work(start(big_corpus, tokenizer_dir, tmp_path / "out", pause=True))
    with pytest.raises(
        fastpack.OutputError, match=r"another run is writing here; pass exists=Exists\(wait=True\)"
    ):
        fastpack.pack_dir(
            big_corpus,
            tmp_path / "out",
            tokenizer=tokenizer_dir,
            exists=fastpack.Exists(wait=False),
            **OPTIONS,
        )
    kill(working)


def test_ranks_that_overwrite_do_a_job_once(corpus, tokenizer_dir, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    folder = tmp_path / "out"
    fastpack.pack_dir(corpus, folder, tokenizer=tokenizer_dir, max_length=128, exists="overwrite")
    fastpack.pack_dir(corpus, folder, tokenizer=tokenizer_dir, max_length=256, exists="overwrite")
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    fastpack.pack_dir(corpus, folder, tokenizer=tokenizer_dir, max_length=256, exists="overwrite")
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_a_changed_input_is_refused_and_named(unfinished, long_corpus, tokenizer_dir):
    stat = long_corpus.stat()
    os.utime(long_corpus, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    try:
        with pytest.raises(fastpack.OutputError) as refused:
            fastpack.pack_dir(long_corpus, unfinished, tokenizer=tokenizer_dir, **OPTIONS)
    finally:
        os.utime(long_corpus, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert f"`{long_corpus}.modified`" in str(refused.value)


def test_content_that_changed_behind_the_back_of_the_clock_is_refused(long_corpus, tokenizer_dir, tmp_path):
    files = tmp_path / "files.jsonl"
    files.write_bytes(long_corpus.read_bytes())
    stat = files.stat()
    kill_at_work(files, tokenizer_dir, tmp_path / "out", threads=1)
    files.write_bytes(files.read_bytes().replace(b"river", b"rover", 1))
    os.utime(files, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(fastpack.OutputError, match="has changed since this job began") as refused:
        fastpack.pack_dir(files, tmp_path / "out", tokenizer=tokenizer_dir, **OPTIONS)
    assert refused.value.filename == str(files)
    fastpack.pack_dir(files, tmp_path / "out", tokenizer=tokenizer_dir, **OPTIONS)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"max_length": 512}, "`max_length` (256 there, 512 here)"),
        ({"train_on": "all", "seed": 3}, "`seed` (0 there, 3 here), `train_on`"),
        ({"format": fastpack.Format(shard_size="3MB")}, "`format.shard_size` (2000000 there, 3000000 here)"),
    ],
)
def test_changed_options_are_refused_and_named(change, named, unfinished, long_corpus, tokenizer_dir):
    before = {path: path.read_bytes() for path in (unfinished / ".fastpack").iterdir()}
    with pytest.raises(fastpack.OutputError) as refused:
        fastpack.pack_dir(long_corpus, unfinished, tokenizer=tokenizer_dir, **(OPTIONS | change))
    assert named in str(refused.value)
    before.pop(unfinished / ".fastpack/lock", None)
    assert {path: path.read_bytes() for path in (unfinished / ".fastpack").iterdir()} == before


def test_a_lost_input_is_one_error_and_a_later_run_finishes(
    long_corpus, tokenizer_dir, undisturbed, tmp_path
):
    files = tmp_path / "files.jsonl"
    os.link(long_corpus, files)
    kill_at_work(files, tokenizer_dir, tmp_path / "out", threads=1)
    files.unlink()
    with pytest.raises(fastpack.InputNotFoundError) as lost:
        fastpack.pack_dir(files, tmp_path / "out", tokenizer=tokenizer_dir, **OPTIONS)
    assert lost.value.filename == str(files)
    os.link(long_corpus, files)
    fastpack.pack_dir(files, tmp_path / "out", tokenizer=tokenizer_dir, **OPTIONS)
    assert shards(tmp_path / "out") == shards(undisturbed)


def test_templates_see_the_day_on_which_the_job_began(write_jsonl, tokenizer_dir, tmp_path):
    template = (
        "{{ strftime_now('%Y-%m-%d %H') }}{% for message in messages %}{{ message.content }}{% endfor %}"
    )
    options = {"chat_template": template, "train_on": "all", "threads": 1, "columns": ["input_ids"]}
    message = {"role": "user", "content": "the old river keeps the town " * 20}
    files = write_jsonl([{"messages": [message]}] * 20_000)
    out = tmp_path / "out"
    east, west = {"TZ": "EAST-12"}, {"TZ": "WEST+12"}
    kill_at_work(files, tokenizer_dir, out, environment=east, strategy="none", **options)
    began = json.loads((out / ".fastpack/started.json").read_bytes())["now"]
    said, _ = start(files, tokenizer_dir, out, environment=west, strategy="none", **options).communicate()
    assert said.splitlines()[-1] == "rows 20000"
    assert json.loads((out / "manifest.json").read_bytes())["now"] == began
    rows = set()
    for path in out.glob("train-*.arrow"):
        with pa.OSFile(str(path), "rb") as source:
            for batch in pa.ipc.open_stream(source):
                rows |= {tuple(ids) for ids in batch.column("input_ids").to_pylist()}
    assert len(rows) == 1
    text = fastpack.Tokenizer(tokenizer_dir).decode(rows.pop())
    assert text.startswith(f"{began[:10]} {began[11:13]}the old river")


def test_an_interrupted_run_goes_on(big_corpus, tokenizer_dir, tmp_path):
    process = at_work(start(big_corpus, tokenizer_dir, tmp_path / "out", pause=True))
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGCONT)
    process.communicate()
    assert process.returncode != 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {".fastpack"}
    assert (tmp_path / "out/.fastpack/blocks").stat().st_size > 0


def test_the_manifest_knows_the_content_of_the_inputs(undisturbed, long_corpus, tokenizer_dir, tmp_path):
    fastpack.pack_dir(long_corpus, tmp_path / "out", tokenizer=tokenizer_dir, threads=1, **OPTIONS)
    content = [
        json.loads((folder / "manifest.json").read_bytes())["content"]
        for folder in (undisturbed, tmp_path / "out")
    ]
    assert content[0] == content[1]
    assert set(content[0]) == {str(long_corpus)}


@pytest.mark.parametrize("memory", [0, "1MB", "1GB"])
def test_memory_does_not_change_a_byte(memory, long_corpus, tokenizer_dir, undisturbed, tmp_path):
    fastpack.pack_dir(long_corpus, tmp_path / "out", tokenizer=tokenizer_dir, memory=memory, **OPTIONS)
    assert shards(tmp_path / "out") == shards(undisturbed)


@pytest.mark.parametrize("strategy", ["concat", "best_fit", "sequential", "none"])
def test_memory_changes_no_strategy(strategy, write_jsonl, tokenizer_dir, tmp_path):
    words = ["the", "old", "river", "keeps", "the", "quiet", "town", "and", "a", "green", "boat"]
    files = write_jsonl({"text": " ".join(words[: 1 + at % 11] * (1 + at % 97))} for at in range(3_000))
    folders = []
    for memory in (0, "1GB"):
        options = OPTIONS | {"strategy": strategy, "memory": memory}
        fastpack.pack_dir(files, tmp_path / str(memory), tokenizer=tokenizer_dir, **options)
        folders.append(shards(tmp_path / str(memory)))
    assert folders[0] == folders[1]


@pytest.mark.parametrize("memory", ["much", -1, True, "-5"])
def test_memory_that_is_none_is_refused(memory, tmp_path):
    with pytest.raises(fastpack.OptionError, match="memory"):
        fastpack.pack_dir("x", tmp_path / "out", tokenizer="x/y/z", max_length=8, memory=memory)


def test_tables_are_resumed_as_lines_are(tokenizer_dir, tmp_path):
    texts = ["the old river keeps the town " * (1 + at % 49) for at in range(20_000)]
    files = tmp_path / "files.parquet"
    parquet.write_table(pa.table({"text": texts}), files)
    kill_at_work(files, tokenizer_dir, tmp_path / "out", threads=1)
    fastpack.pack_dir(files, tmp_path / "out", tokenizer=tokenizer_dir, **OPTIONS)
    fastpack.pack_dir(files, tmp_path / "alone", tokenizer=tokenizer_dir, **OPTIONS)
    assert shards(tmp_path / "out") == shards(tmp_path / "alone")
