"""A changed byte of a packed folder, or of a stopped job, is never used: it is found by `verify`, made again, or refused by name."""

from __future__ import annotations

import json
import random
import shutil

import pytest
from campaign import tries
from conftest import conversation
from rows import shards

import fastpack
from fastpack import _fastpack
from fastpack.api.options import native_inputs, native_model, native_options, native_output
from fastpack.options import options_of
from fastpack.recipes import recipe_of

OPTIONS = {"max_length": 256, "shard_size": "20KB", "progress": False}

FINISHED = {
    "plain": {"keep_tokens": True},
    "parquet": {"format": "parquet"},
    "lines": {"format": "jsonl"},
    "compact": {"layout": "compact"},
    "hub": {"hf_layout": True, "validation": 10, "keep_tokens": True},
    "files": {"per_file": True},
    "groups": {"group_size": "10KB", "keep_tokens": True},
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
        return fastpack.pack_dir(inputs, folder, tokenizer=tokenizer, **OPTIONS, **options)

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
    "rows": {"group_size": "10KB"},
    "tokens": {"group_size": "10KB", "keep_tokens": True},
    "splits": {"group_size": "10KB", "validation": 10},
    "splits with tokens": {"group_size": "10KB", "validation": 10, "keep_tokens": True},
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
