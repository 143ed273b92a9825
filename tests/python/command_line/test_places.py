"""Options inside options, on the command line and in TOML: refused by their place, with the one that was meant."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import fastpack
from fastpack.api.recipes import options_of_manifest
from fastpack.cli.flags import FLAGS
from fastpack.cli.main import main

ROOT = Path(__file__).parents[3]
BASE = f'files = "{ROOT}/examples/chat.jsonl"\ntokenizer = "{ROOT}/examples/tokenizer"\nmax_length = 64\n'
BEFORE = [
    line.split("|")[1:3]
    for line in (ROOT / "docs/reference/options-of-before.md").read_text().splitlines()
    if line.startswith("| `") and not line.startswith(("| `shuffle=`", "| `sources=`"))
]
"""The table of options of before, but `shuffle`, which `stream` still has, and `sources`, which the command line has."""


def refusal(capsys, *typed):
    """The line that refuses a command line."""
    try:
        code = main([*map(str, typed)])
    except SystemExit as ended:
        code = ended.code
    lines = capsys.readouterr().err.splitlines()
    assert code == 2
    assert len(lines) == 1
    assert len(lines[0]) < 500
    return lines[0]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--padding.sied", "left"], "did you mean `--padding.side`?"),
        (["--paddin.side", "left"], "did you mean `--padding.side`?"),
        (["--strategy.open_rows", "3"], "did you mean `--strategy.open-rows`?"),
        (["--format.name", "parquet"], "did you mean `--format`?"),
        (["--overlong", "drop", "--overlong.side", "left"], "`--overlong.side`: is no option of"),
        (["--order", "shuffle", "--order.ranks", "2"], 'it is one of "balanced"'),
        (["--rank", "0"], "did you mean `--groups.rank`?"),
        (["--balance-ranks", "2"], "did you mean `--order.ranks`?"),
        (["--whole-word-mask"], "did you mean `--objective.whole-words` with `--objective mlm`?"),
        (["--overwrite"], "--exists overwrite"),
    ],
)
def test_a_flag_that_is_none_is_refused_with_the_one_that_was_meant(flags, said, capsys, tmp_path):
    line = refusal(capsys, "pack", "a.jsonl", "-o", tmp_path / "o", "-m", 64, *flags)
    assert said in line
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("compresion = 'zstd'", "`compresion`: .*`Format\\(compression=...\\)`"),
        ("[format]\nfoo = 1", "`format.foo`: .*it has `name`, `compression`"),
        ("[order]\nkind = 'shuffle'\nranks = 2", 'order.ranks`: .*it is one of "balanced"'),
        ("filter = 'nope.py:f'", "`--filter`: .*cannot be loaded"),
        ("[filter]\nfunction = 'nope.py:f'", "`filter.function`: .*cannot be loaded"),
        ("[objective]\nkind = 'custom'\nfunction = 'os:nope'", "objective.function`: .*cannot be loaded"),
        (f"{'a' * 100_000} = 1", "`a{100}`: .*is no option"),
    ],
)
def test_a_key_of_a_recipe_is_refused_by_its_place(text, said, capsys, tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(f"{BASE}{text}\n")
    assert re.search(said, refusal(capsys, "pack", "--config", recipe, "-o", tmp_path / "o"))
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("text", ["strategy = 'Best-Fit'", "[strategy]\nkind = 'Best-Fit'"])
def test_a_word_is_spelled_alike_in_a_table_and_alone(text, tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(f"{BASE}{text}\n")
    made = fastpack.pack_files(**fastpack.load_config(recipe))
    assert made == fastpack.pack_files(**{**fastpack.load_config(recipe), "strategy": "best_fit"})


@pytest.mark.parametrize(("before", "now"), BEFORE, ids=[row[0].strip() for row in BEFORE])
def test_an_option_of_before_is_answered_alike_in_python_toml_and_flags(before, now, capsys, tmp_path):
    name = re.search(r"`(\w+)=`", before)[1]
    holder = re.search(r"`(\w+)=", now)[1]
    field = re.search(r"[A-Z]\w+\((?:function, )?(\w+)=", now)
    held = f"{field[1]}=" if field else holder
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(f"{BASE}{name} = 3\n")
    with pytest.raises(fastpack.OptionError) as of_file:
        fastpack.load_config(recipe)
    with pytest.raises(fastpack.OptionError) as of_call:
        fastpack.stream("a.jsonl", max_length=64, **{name: 3})
    for refused in (of_file, of_call):
        assert holder in str(refused.value)
        assert held in str(refused.value) or name in {"filter_fingerprint", "map_fingerprint", "pad_to"}
    of_stream = holder in {"ranks", "select"}
    command = ["stream", "--to", "-"] if of_stream else ["pack", "-o", tmp_path / "o"]
    line = refusal(capsys, *command, "a.jsonl", "-m", 64, f"--{name.replace('_', '-')}=3")
    spellings = {flag.names[-1] for flags in FLAGS.values() for flag in flags}
    meant = re.search(r"`(--[\w.-]+)`\?|`(--[\w-]+) ", line)
    of_python = {"filesystem"}
    assert "an option of the function in Python" in line if name in of_python else meant is not None
    assert meant is None or (meant[1] or meant[2]) in spellings


@pytest.mark.parametrize("name", ["where", "skip", "lanes"])
def test_an_option_of_before_that_a_function_has_not_is_answered_with_those_that_have(name):
    with pytest.raises(fastpack.OptionError, match="is an option of `stream`"):
        fastpack.pack_files("a.jsonl", max_length=64, **{name: 3})


@pytest.mark.parametrize("held", [{}, {"a": 1}, 1, "x", None])
def test_a_manifest_with_an_option_that_is_none_is_refused(held, tmp_path):
    with pytest.raises(fastpack.OptionError, match="is no option") as refused:
        options_of_manifest(tmp_path / "manifest.json", {"recipe": {"bogus": held}})
    assert refused.value.option == "bogus"


@pytest.mark.parametrize("read", [fastpack.read, fastpack.inspect, fastpack.verify, fastpack.Report.of])
def test_a_filesystem_that_is_none_is_refused_by_its_place(read, tmp_path):
    with pytest.raises(fastpack.OptionError) as refused:
        read(tmp_path, storage=fastpack.Storage(filesystem="sftp"))
    assert refused.value.option == "storage.filesystem"
