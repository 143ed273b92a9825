"""A changed byte of a packed folder, or of a stopped job, is never used: it is found by `verify`, made again, or refused by name."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil

import pytest
from campaign import campaign_only, tries
from conftest import conversation, listing
from nested import nested
from rows import shards
from sealing import seal_again

import fastpack
import fastpack.hf
from fastpack import _fastpack
from fastpack.api import recipes
from fastpack.api.recipes import recipe_of
from fastpack.dataset.folder import Folder
from fastpack.options import options_of
from fastpack.options.native import native_inputs, native_model, native_options, native_output

OPTIONS = {"max_length": 256, "format": fastpack.Format(shard_size="20KB"), "progress": False}

FINISHED = {
    "plain": {"keep_tokens": True},
    "parquet": {"format": "parquet"},
    "lines": {"format": "jsonl"},
    "compact": {"format": fastpack.Format(layout="compact")},
    "hub": {"format": fastpack.Format(hf_layout=True), "validation": 10, "keep_tokens": True},
    "files": {"format": fastpack.Format(per_file=True)},
    "groups": {"groups": "10KB", "keep_tokens": True},
}
"""Options of jobs whose folders hold files of different kinds."""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Six small files of conversations."""
    folder = tmp_path_factory.mktemp("inputs")
    for number in range(6):
        lines = [json.dumps(conversation(100 * number + record)) for record in range(25)]
        (folder / f"part-{number:02}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def tokenizer(tokenizer_dir):
    return fastpack.Tokenizer(tokenizer_dir)


@pytest.fixture(scope="module")
def pack(inputs, tokenizer):
    def call(folder, **options):
        return fastpack.pack_dir(inputs, folder, tokenizer=tokenizer, **nested(options, OPTIONS))

    return call


def files_of(folder):
    """The files below a folder, without empty ones, which have no byte to change."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)


def flip(path, chance):
    """Changes one bit of a file. Bits at the beginning and the end are changed more often than others."""
    content = bytearray(path.read_bytes())
    near = min(len(content), 80)
    at = chance.choice(
        [chance.randrange(len(content)), chance.randrange(near), len(content) - 1 - chance.randrange(near)]
    )
    content[at] ^= 1 << chance.randrange(8)
    path.write_bytes(content)
    return at


def is_one_line(error):
    return "\n" not in str(error) and len(str(error)) < 2_000


@pytest.mark.parametrize("kind", FINISHED)
def test_verify_names_every_file_of_which_a_byte_has_changed(kind, pack, tmp_path):
    whole = tmp_path / "whole"
    pack(whole, **FINISHED[kind])
    assert fastpack.verify(whole, sample=0).problems == ()
    chance = random.Random(kind)
    missed = []
    files = files_of(whole)
    chance.shuffle(files)
    # Files that are no shards first: there are few of them.
    files.sort(key=lambda path: path.name.startswith(("train-", "validation-")))
    for number in range(tries(min(8, len(files)), 300)):
        folder = tmp_path / f"folder-{number}"
        shutil.copytree(whole, folder)
        name = files[number % len(files)].relative_to(whole)
        at = flip(folder / name, chance)
        try:
            said = fastpack.verify(folder, sample=0).problems
        except fastpack.FastpackError as error:
            said = [str(error)]
        if not any(str(folder / name) in problem and is_one_line(problem) for problem in said):
            missed.append((str(name), at, said))
        shutil.rmtree(folder)
    assert not missed, f"{len(missed)} of {number + 1}: {missed[:5]}"


STOPPED = {
    "rows": {"groups": "10KB"},
    "tokens": {"groups": "10KB", "keep_tokens": True},
    "splits": {"groups": "10KB", "validation": 10},
    "splits with tokens": {"groups": "10KB", "validation": 10, "keep_tokens": True},
}
"""Options of jobs of groups. Where documents are set aside, groups have two steps."""


def pack_groups(folder, inputs, tokenizer, options, *, last):
    """Packs the groups of a job, in the last step so many of them, and leaves the rest to another run."""
    defaults = {option.name: option.default for option in options_of("pack_dir")}
    given = {**defaults, **OPTIONS, **options, "files": inputs, "output": folder, "tokenizer": tokenizer}
    job = native_inputs(given), native_output(given, recipe=recipe_of(given))
    sizes, steps = _fastpack.list_groups(*job)
    for number, step in enumerate(steps):
        for group in range(len(sizes) if step != steps[-1] else last):
            _fastpack.pack_group(*job, native_options(given), *native_model(given), group, number)


@pytest.mark.parametrize("kind", STOPPED)
def test_no_changed_byte_of_a_packed_group_is_used(kind, pack, inputs, tokenizer, tmp_path):
    options = STOPPED[kind]
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    pack(whole, **options)
    wanted = contents(whole)
    pack_groups(stopped, inputs, tokenizer, options, last=4)
    files = [path.relative_to(stopped) for path in files_of(stopped / ".fastpack")]
    assert any(path.name.startswith(("train-", "tokens.fastpack")) for path in files)
    chance = random.Random(kind)
    chance.shuffle(files)
    files.sort(key=lambda path: path.suffix not in {".arrow", ".fastpack"})
    wrong = []
    for number in range(tries(3, 20 * len(files))):
        folder = tmp_path / f"folder-{number}"
        shutil.copytree(stopped, folder)
        name = files[number % len(files)]
        at = flip(folder / name, chance)
        try:
            pack(folder, **options)
        except fastpack.FastpackError as error:
            if str(folder) not in str(error) or name.name not in str(error) or not is_one_line(error):
                wrong.append((str(name), at, str(error)))
        else:
            if contents(folder) != wanted:
                wrong.append((str(name), at, "other files"))
        shutil.rmtree(folder)
    assert not wrong, f"{len(wrong)} of {number + 1}: {wrong[:5]}"


@pytest.mark.parametrize("kind", ["rows", pytest.param("splits with tokens", marks=campaign_only)])
def test_no_changed_object_of_a_packed_group_is_used(
    kind, inputs, tokenizer, store, client, bucket, tmp_path
):
    options = {**STOPPED[kind], "storage": fastpack.Storage(store, work_dir=tmp_path / "work")}
    output = f"s3://{bucket}/packed"
    fastpack.pack_dir(inputs, tmp_path / "whole", tokenizer=tokenizer, **OPTIONS, **STOPPED[kind])
    pack_groups(output, inputs, tokenizer, options, last=4)
    packed = [key for key in listing(client, bucket) if "/groups/" in key]
    chance = random.Random(kind)
    of_rows = [key for key in packed if key.endswith(".arrow")]
    others = [key for key in packed if key.endswith(("tokens.fastpack", "split_hashes"))]
    for key in [*chance.sample(of_rows, 3), *chance.sample(others, min(len(others), 2))]:
        content = bytearray(client.get_object(Bucket=bucket, Key=key)["Body"].read())
        content[chance.randrange(len(content))] ^= 1
        client.put_object(Bucket=bucket, Key=key, Body=bytes(content))
    fastpack.pack_dir(inputs, output, tokenizer=tokenizer, **nested(options, OPTIONS))
    made = {key.removeprefix("packed/"): content for key, content in listing(client, bucket).items()}
    wanted = contents(tmp_path / "whole")
    assert {name: made[name] for name in wanted if name != "repacked"} == {
        name: content for name, content in wanted.items() if name != "repacked"
    }


def contents(folder):
    """The bytes of the shards; of the tokens the rows that are packed of them, since blocks may lie there in another order."""
    found = {**shards(folder), **{path.name: path.read_bytes() for path in folder.glob("validation-*")}}
    if (folder / "tokens.fastpack").is_file():
        assert fastpack.verify(folder, sample=0).problems == ()
        again = folder.with_name(f"{folder.name}-again")
        set_aside = {"validation": 10} if any(name.startswith("validation") for name in found) else {}
        fastpack.repack(folder, again, max_length=512, progress=False, **set_aside)
        found["repacked"] = b"".join(shards(again).values())
        shutil.rmtree(again)
    return found


def verified(folder):
    """Verifies a folder; raises its first problem."""
    for problem in fastpack.verify(folder, sample=0).problems:
        raise fastpack.FastpackError(problem)


READERS = {
    "read": lambda folder, _: fastpack.read(folder),
    "inspect": lambda folder, _: fastpack.inspect(folder),
    "export": lambda folder, out: fastpack.export(folder, out, format="numpy"),
    "verify": lambda folder, _: verified(folder),
    "repack": lambda folder, out: fastpack.repack(folder, out, max_length=512, progress=False),
    "report": lambda folder, _: fastpack.Report.of(folder),
    "load": lambda folder, _: fastpack.hf.load(folder),
    "like": lambda folder, _: recipes.load_manifest(folder),
    "pickled": lambda folder, _: pickle.loads(pickle.dumps(Folder(folder, sized=False))),
}
"""All that reads a packed folder on this disk."""

OUTSIDE = [
    "../elsewhere.arrow",
    "{outside}/elsewhere.arrow",
    "train/../../elsewhere.arrow",
    "inside-link",
    "out/elsewhere.arrow",
]
"""Names of a file outside the folder: by their path, and through links to a file and to a folder."""


@pytest.fixture(scope="module")
def kept(pack, tmp_path_factory):
    """A folder with kept tokens."""
    folder = tmp_path_factory.mktemp("kept") / "packed"
    pack(folder, keep_tokens=True)
    return folder


@pytest.mark.skipif(os.name != "posix", reason="links as POSIX has them")
@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("reader", READERS)
def test_a_manifest_that_names_a_file_outside_its_folder_is_refused(reader, name, kept, tmp_path):
    folder, outside = tmp_path / "packed", tmp_path
    shutil.copytree(kept, folder)
    shutil.move(folder / "train-00000.arrow", outside / "elsewhere.arrow")
    (folder / "inside-link").symlink_to(outside / "elsewhere.arrow")
    (folder / "out").symlink_to(outside)
    seal_again(folder, lambda manifest: manifest["files"][0].update(name=name.format(outside=outside)))
    with pytest.raises(fastpack.FastpackError, match=r"manifest.json|leads out of the folder"):
        READERS[reader](folder, tmp_path / "made")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("listed", ["files", "beside"])
@pytest.mark.parametrize("reader", READERS)
def test_a_manifest_that_names_what_no_file_can_be_called_is_refused_on_one_short_line(
    reader, listed, kept, tmp_path
):
    folder = tmp_path / "packed"
    shutil.copytree(kept, folder)
    seal_again(folder, lambda manifest: manifest[listed][0].update(name="x" * 100_000))
    with pytest.raises(fastpack.FastpackError, match=r"manifest.json") as refused:
        READERS[reader](folder, tmp_path / "made")
    assert len(str(refused.value)) < 1_000


@pytest.mark.skipif(os.name != "posix", reason="links as POSIX has them")
@pytest.mark.parametrize("name", ["manifest.json", "report.json", "tokens.fastpack", "train-00000.arrow"])
@pytest.mark.parametrize("reader", READERS)
def test_a_file_that_is_a_link_out_of_the_folder_is_refused(reader, name, kept, tmp_path):
    folder = tmp_path / "packed"
    shutil.copytree(kept, folder)
    shutil.move(folder / name, tmp_path / name)
    (folder / name).symlink_to(tmp_path / name)
    if (reader, name) == ("repack", "manifest.json"):
        return  # a folder of links to what `repack` reads is refused by the files that the manifest lists
    with pytest.raises(fastpack.FastpackError, match=r"out of the folder"):
        READERS[reader](folder, tmp_path / "made")


@pytest.mark.skipif(os.name != "posix", reason="links as POSIX has them")
@pytest.mark.parametrize("reader", READERS)
def test_a_folder_in_the_cache_of_the_hub_is_read(reader, kept, tmp_path):
    blobs, folder = tmp_path / "hub" / "blobs", tmp_path / "hub" / "snapshots" / "5f0c" / "packed"
    shutil.copytree(kept, blobs)
    folder.mkdir(parents=True)
    for path in blobs.iterdir():
        (folder / path.name).symlink_to(os.path.relpath(path, folder))
    READERS[reader](folder, tmp_path / "made")


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", ["manifest.json", "report.json"])
def test_no_changed_byte_of_a_manifest_or_report_is_used(reader, name, kept, tmp_path):
    chance = random.Random(f"{reader} {name}")
    missed = []
    for number in range(tries(3, 200)):
        folder = tmp_path / f"packed-{number}"
        shutil.copytree(kept, folder)
        at = flip(folder / name, chance)
        try:
            READERS[reader](folder, tmp_path / "made")
        except fastpack.FastpackError as error:
            if name not in str(error):
                missed.append((at, str(error)))
        else:
            if name == "manifest.json" or reader in {"report", "verify", "repack"}:
                missed.append((at, "used"))
        shutil.rmtree(folder)
        shutil.rmtree(tmp_path / "made", ignore_errors=True)
        (tmp_path / "made.npz").unlink(missing_ok=True)
    assert not missed, f"{len(missed)} of {number + 1}: {missed[:5]}"


def test_a_pickled_folder_that_was_overwritten_since_is_refused(kept, pack, tmp_path):
    folder = tmp_path / "packed"
    shutil.copytree(kept, folder)
    pickled = pickle.dumps(Folder(folder))
    assert pickle.loads(pickled).read("train").num_rows > 0
    pack(folder, keep_tokens=True, exists="overwrite")
    assert pickle.loads(pickled).read("train").num_rows > 0, "the same rows"
    pack(folder, seed=7, strategy=fastpack.Sequential(shuffle=True), exists="overwrite")
    with pytest.raises(fastpack.FastpackError, match=r"it was overwritten since"):
        pickle.loads(pickled)


def test_a_pickled_folder_of_another_tool_that_was_overwritten_since_is_refused(kept, tmp_path):
    shutil.copy(kept / "train-00000.arrow", tmp_path / "rows.arrow")
    pickled = pickle.dumps(Folder(tmp_path))
    assert pickle.loads(pickled).read("train").num_rows > 0
    os.utime(tmp_path / "rows.arrow", ns=(1, 1))
    with pytest.raises(fastpack.FastpackError, match=r"it was overwritten since"):
        pickle.loads(pickled)


@pytest.mark.parametrize("version", [1, 4, 99])
def test_the_output_of_another_version_is_refused_by_its_version(
    version, tokenizer_dir, write_jsonl, tmp_path
):
    """Its manifest is whole, so nobody is told that it has changed."""
    folder, path = tmp_path / "out", write_jsonl([{"text": "one two three"}] * 9)
    options = {"tokenizer": tokenizer_dir, "max_length": 16}
    fastpack.pack_dir(path, folder, keep_tokens=True, **options)
    seal_again(folder, lambda manifest: manifest.update(version=version))
    before = {it.name: it.read_bytes() for it in folder.iterdir()}
    writes = [
        lambda: fastpack.pack_dir(path, folder, keep_tokens=True, **options),
        lambda: fastpack.pack_dir(path, folder, exists="overwrite", **options),
    ]
    reads = [
        lambda: fastpack.pack_dir(path, folder, exists="append", **options),
        lambda: fastpack.repack(folder, tmp_path / "again", max_length=8),
        lambda: fastpack.read(folder),
        lambda: fastpack.verify(folder),
        lambda: fastpack.inspect(folder),
        lambda: recipes.load_manifest(folder),
        lambda: fastpack.hf.load(folder),
    ]
    said = f"another version.*has the version {version}, and this one"
    for call in writes:
        with pytest.raises(fastpack.OutputError, match=said):
            call()
    for call in reads:
        with pytest.raises(fastpack.FastpackError, match=said):
            call()
    assert {it.name: it.read_bytes() for it in folder.iterdir()} == before


def test_what_another_version_left_of_a_job_is_refused_by_its_version(tokenizer_dir, write_jsonl, tmp_path):
    folder, path = tmp_path / "out", write_jsonl([{"text": "one two three"}] * 9)
    options = {"tokenizer": tokenizer_dir, "max_length": 16}
    fastpack.pack_dir(path, folder, **options)
    work = folder / ".fastpack"
    work.mkdir()
    seal_again(folder, lambda manifest: manifest.update(version=4, files=[], beside=[]))
    (folder / "manifest.json").rename(work / "started.json")
    for exists in ("error", "overwrite"):
        with pytest.raises(fastpack.OutputError, match=r"another version.*started\.json` has the version 4"):
            fastpack.pack_dir(path, folder, exists=exists, **options)
    assert (work / "started.json").exists()
