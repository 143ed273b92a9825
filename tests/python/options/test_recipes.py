"""A job as a file, and a finished job once more."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fastpack
from fastpack.options import OPTIONS, options_of
from fastpack.options.value import KIND, fields_of

FILTER = "def short(batch):\n    return [len(text) < 40 for text in batch['text'].to_pylist()]\n"


@pytest.fixture
def place(tmp_path, tokenizer_dir):
    """A folder with data, a function and a recipe beside them."""
    home = tmp_path / "home"
    (home / "data").mkdir(parents=True)
    lines = [
        json.dumps({"text": f"the river has {number} boats " * (1 + number % 3)}) for number in range(60)
    ]
    (home / "data" / "a.jsonl").write_text("\n".join(lines))
    (home / "filters.py").write_text(FILTER)
    (home / "recipe.toml").write_text(
        f"""
files = ["data/*.jsonl"]
output = "packed"
tokenizer = "{tokenizer_dir.as_posix()}"
max_length = 64
strategy = "sequential"
filter = {{function = "filters.py:short", fingerprint = "v1"}}
columns = ["input_ids", "labels"]
chat_template = {{now = 2026-01-31T12:00:00}}
"""
    )
    return home


def test_an_option_of_paths_is_one_in_files_of_options():
    """Its paths in a file are relative to the file, and those in a manifest absolute."""
    takes_paths = re.compile("StrPath|TokenizerArgument")
    named = {option.name for option in OPTIONS.values() if takes_paths.search(option.type)}
    assert {option.name for option in OPTIONS.values() if option.has_path} == named


def run(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "fastpack", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
    )


def shards(folder):
    return {path.name: path.read_bytes() for path in Path(folder).glob("train-*")}


def test_a_config_is_the_call_that_it_spells_wherever_it_is_read(place, tmp_path, tokenizer_dir, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = fastpack.load_config(place / "recipe.toml")
    report = fastpack.pack_dir(**options)
    assert report.dropped["filtered"].documents == 40
    by_hand = tmp_path / "by-hand"
    fastpack.pack_dir(
        place / "data" / "*.jsonl",
        by_hand,
        tokenizer=tokenizer_dir,
        max_length=64,
        strategy="sequential",
        filter=options["filter"],
        columns=["input_ids", "labels"],
    )
    assert shards(place / "packed") == shards(by_hand)


def test_flags_win_over_the_config(place, tmp_path):
    done = run("pack", "--config", place / "recipe.toml", "-o", tmp_path / "out", "-m", "32", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    job = json.loads((tmp_path / "out" / "manifest.json").read_bytes())["job"]
    assert job["row_options"]["packing"]["max_length"] == 32
    assert job["row_options"]["packing"]["strategy"] == "sequential"
    assert not (place / "packed").exists()


def test_a_finished_job_is_repeated_from_its_folder(place, tmp_path):
    assert run("pack", "--config", place / "recipe.toml", cwd=tmp_path).returncode == 0
    chosen = ["--filter", f"{place}/filters.py:short", "--filter.fingerprint", "v1"]
    done = run("pack", "--like", place / "packed", "-o", tmp_path / "again", *chosen, cwd="/")
    assert (done.returncode, done.stderr) == (0, "")
    assert shards(tmp_path / "again") == shards(place / "packed") != {}
    shorter = run("pack", "--like", place / "packed", "-o", tmp_path / "short", "-m", "16", *chosen, cwd="/")
    assert shorter.returncode == 0
    assert shards(tmp_path / "short") != shards(place / "packed")


def test_a_repeated_job_needs_another_folder(place, tmp_path):
    assert run("pack", "--config", place / "recipe.toml", cwd=tmp_path).returncode == 0
    done = run("pack", "--like", place / "packed", "--filter", f"{place}/filters.py:short", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "`--output`: must be given" in done.stderr


def test_a_repeated_job_overwrites_nothing_unless_it_is_told_to(place, tmp_path, tokenizer_dir):
    finished, other = tmp_path / "finished", tmp_path / "other"
    for folder, length in ((finished, 64), (other, 32)):
        fastpack.pack_dir(
            place / "data",
            folder,
            tokenizer=tokenizer_dir,
            max_length=length,
            exists="overwrite",
            progress=False,
        )
    recipe = json.loads((finished / "manifest.json").read_bytes())["recipe"]
    assert not {"output", "exists", "progress"} & set(recipe)
    done = run("pack", "--like", finished, "-o", other, cwd=tmp_path)
    assert done.returncode != 0
    assert "--exists overwrite" in done.stderr


def test_what_no_manifest_holds_is_refused_by_name(place, tmp_path, tokenizer_dir):
    live = fastpack.Tokenizer(tokenizer_dir)
    fastpack.pack_dir(
        place / "data",
        tmp_path / "out",
        tokenizer=live,
        max_length=64,
        filter=lambda batch: [True] * len(batch),
    )
    done = run(
        "pack", "--like", tmp_path / "out", "-o", tmp_path / "again", "-t", tokenizer_dir, cwd=tmp_path
    )
    assert done.returncode == 2
    assert "`--filter`: was a function in" in done.stderr
    done = run("pack", "--like", tmp_path / "out", "-o", tmp_path / "again", cwd=tmp_path)
    assert "`--tokenizer`: was a Tokenizer in" in done.stderr


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("max_lenght = 8", "`max_lenght`: .*recipe.toml: is no option; did you mean `max_length`"),
        ('storage = {token = "hf_secret"}', "`storage.token`: .*recipe.toml: must not stand in a file"),
        ('filter = "nowhere.py:short"', "cannot be loaded"),
        ("max_length = ", "is no TOML"),
    ],
)
def test_a_config_that_cannot_be_followed_is_refused(line, said, tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(f"{line}\n")
    with pytest.raises(fastpack.OptionError, match=said):
        fastpack.load_config(recipe)


def test_an_access_token_is_never_in_a_manifest(place, tmp_path, tokenizer_dir):
    fastpack.pack_dir(
        place / "data",
        tmp_path / "out",
        tokenizer=tokenizer_dir,
        max_length=64,
        storage=fastpack.Storage(token="hf_very_secret"),
    )
    assert b"hf_very_secret" not in b"".join(path.read_bytes() for path in (tmp_path / "out").iterdir())


def test_a_folder_without_a_recipe_is_refused(tmp_path):
    (tmp_path / "manifest.json").write_text("{}")
    done = run("pack", "--like", tmp_path, "-o", tmp_path / "out", cwd=tmp_path)
    assert done.returncode == 2
    assert "does not say how the folder was packed" in done.stderr


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("max_lenght = 8", "is no option; did you mean `max_length`"),
        ("[max_length]\ntokens = 8", "`max_length`"),
        ('files = [{path = "data/a.jsonl"}, 3]', "entry 1 is `3`"),
        ('files = [{path = "data/a.jsonl"}, ["data/b.jsonl"]]', "entry 1"),
        ('files = [{path = "data/a.jsonl", limt = 3}]', "source 0 has `limt`"),
        ('files = [{path = "data/a.jsonl", fields = {txt = "text"}}]', "`fields` of source 0"),
        ('files = [{path = "data/a.jsonl", prompt = {systm = "x"}}]', "`prompt` of source 0"),
        ('[reading.fields]\ntxt = "text"', "`reading.fields`"),
        ('[reading.prompt]\nsystm = "x"', "`reading.prompt`"),
        ("[columns]\ninput_ids = true", "`columns`"),
        ('columns = ["input_ids", "inpt_ids"]', "inpt_ids"),
        ('columns = ["input_ids", ["labels"]]', "`columns`"),
        ('files = ["data/a.jsonl", ["data/a.jsonl"]]', "`files`"),
        ('filter = ["filters.py:short", "filters.py:short"]', "`filter`"),
        ('chat_template = ["a", "b"]', "`chat_template`"),
        ("[chat_template.now]\nyear = 2026", "`chat_template.now`"),
        ('storage = {options = {region = "x"}}', "must not stand in a file"),
        ("unheld = {x = 1}", "option `unheld`"),
    ],
)
def test_a_value_that_is_not_used_is_an_error_at_every_level(lines, said, place, tokenizer_dir, monkeypatch):
    monkeypatch.chdir(place)
    (place / "data" / "b.jsonl").write_text('{"text": "b"}')
    named = lines.partition("=")[0].strip(" []\n").partition("]")[0]
    given = {"files": '"data/a.jsonl"', "output": '"packed"', "tokenizer": f'"{tokenizer_dir.as_posix()}"'}
    given["max_length"] = "64"
    if named == "sources":
        del given["files"]
    given.pop(named, None)
    recipe = "".join(f"{name} = {value}\n" for name, value in given.items()) + lines
    (place / "recipe.toml").write_text(recipe)
    with pytest.raises((fastpack.OptionError, fastpack.OptionTypeError)) as refused:
        fastpack.pack_dir(**fastpack.load_config(place / "recipe.toml"))
    assert said in str(refused.value)
    assert not (place / "packed").exists()


def unused():
    """A table or a list that nothing reads, in place of each option, beside each of its words, and in place of each field of its values."""
    for option in options_of("pack_dir"):
        forms = ["{zzz = 1}", "{zzz = {a = 1}}", "[{zzz = 1}]", "[[1]]"]
        forms += [f'{{{KIND} = "{word}", zzz = 1}}' for word in option.kinds]
        for field in fields_of(option.kinds.values()):
            forms += [f"{{{field.name} = {value}}}" for value in ("{zzz = 1}", "[{zzz = 1}]", "[[1]]")]
        yield from ((option.name, form) for form in forms)


def test_no_option_and_no_field_takes_a_value_that_nothing_reads(place, monkeypatch):
    monkeypatch.chdir(place)
    (place / "ids.jsonl").write_text('{"input_ids": [1, 2, 3]}\n')
    given = {"files": '"ids.jsonl"', "output": '"packed"', "max_length": "64", "progress": "false"}
    taken = []
    tried = list(unused())
    for name, form in tried:
        values = {**given, name: form}
        recipe = "".join(f"{key} = {value}\n" for key, value in values.items())
        (place / "recipe.toml").write_text(recipe)
        try:
            fastpack.pack_dir(**fastpack.load_config(place / "recipe.toml"))
        except fastpack.FastpackError:
            continue
        shutil.rmtree(place / "packed", ignore_errors=True)
        taken.append((name, form))
    assert len(tried) > 300
    assert taken == []


def test_a_prompt_of_a_source_is_relative_to_the_file(place, tmp_path, tokenizer_dir, monkeypatch):
    (place / "data" / "asked.jsonl").write_text('{"instruction": "go", "output": "gone"}')
    (place / "prompt.txt").write_text("Do: {instruction}\n")
    (place / "recipe.toml").write_text(
        f"""
output = "packed"
tokenizer = "{tokenizer_dir.as_posix()}"
max_length = 64
files = [{{path = "data/asked.jsonl", prompt = "prompt.txt"}}]
"""
    )
    monkeypatch.chdir(tmp_path)
    fastpack.pack_dir(**fastpack.load_config(place / "recipe.toml"))
    by_hand = tmp_path / "by-hand"
    fastpack.pack_dir(
        place / "data" / "asked.jsonl",
        by_hand,
        tokenizer=tokenizer_dir,
        max_length=64,
        reading=fastpack.Reading(prompt="Do: {instruction}\n"),
    )
    assert shards(place / "packed") == shards(by_hand) != {}
