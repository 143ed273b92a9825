"""Jobs with groups that several processes pack: their inputs, and the output of one process that theirs is compared with."""

from __future__ import annotations

import json

import pytest
from conftest import conversation, listing
from nested import flat
from processes import FILTERED, OPTIONS, everything

import fastpack

GROUP = 300_000
"""Bytes of a group of the files below."""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A folder with twelve files of conversations, of different sizes."""
    folder = tmp_path_factory.mktemp("inputs")
    for number in range(12):
        count = 25 + 7 * (number % 5)
        lines = [json.dumps(conversation(100 * number + record)) for record in range(count)]
        text = "\n".join(lines) + "\n"
        (folder / f"part-{number:02}.jsonl").write_text(10 * text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def alone(inputs, tokenizer_dir, tmp_path_factory):
    """A function that packs a job in one process, for each choice of options once, and returns its output folder."""
    root, folders = tmp_path_factory.mktemp("alone"), {}

    def pack(**options):
        name = repr(options)
        if name not in folders:
            folders[name] = root / str(len(folders))
            given = {**OPTIONS, "group_size": GROUP, "threads": 1, **options}
            if FILTERED.items() <= options.items():
                given["filter"] = fastpack.Function(everything, fingerprint="everything")
            flat.pack_dir([inputs], folders[name], tokenizer=tokenizer_dir, **given)
        return folders[name]

    return pack


def packed_files(client, bucket):
    """The content of each file of the output in a bucket."""
    return {key.removeprefix("packed/"): content for key, content in listing(client, bucket).items()}


def is_the_same(found, folder):
    """True if an output has the files of a folder, and nothing else; times and recipes apart."""
    here = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert found.keys() == here.keys()
    for name in found.keys() - {"manifest.json", "report.json"}:
        assert found[name] == here[name], name
    reports = [json.loads(files["report.json"]) for files in (found, here)]
    manifests = [json.loads(files["manifest.json"]) for files in (found, here)]
    for report, manifest in zip(reports, manifests, strict=True):
        del report["timing"]
        for entry in manifest["beside"]:
            if entry["name"] == "report.json":
                entry.clear()
        for unequal in ("recipe", "now", "blake3"):
            manifest.pop(unequal, None)
    assert reports[0] == reports[1]
    assert manifests[0] == manifests[1]
    return True


def ended(processes):
    """The output of processes at their end: the same for all."""
    said = [process.communicate() for process in processes]
    assert len({words for words, _ in said}) == 1, said
    assert said[0][0].startswith("rows "), said
    return said[0][0]


def left(work):
    """The files that are left on the local disk, but for locks."""
    return [path for path in work.rglob("*") if path.is_file() and path.suffix != ".lock"]
