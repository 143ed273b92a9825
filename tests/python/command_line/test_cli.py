"""The command line: flags, exit codes, one line for an error, and rows in words."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import fastpack
from fastpack import cli


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "fastpack", *map(str, arguments)], capture_output=True, text=True, check=False
    )


def actions(command):
    commands = next(action for action in cli.parser()._actions if action.dest == "command")
    return commands.choices[command]._actions


BESIDE = {"verbose", "sources", "help", "config", "like", "paths", "html", "json", "dry_run", "max_lost"}
"""The arguments of commands that are not options of their functions."""


OBJECTS = {"filesystem"}
"""The options whose values are objects, which no text names."""


@pytest.mark.parametrize(
    ("command", "function"),
    [("pack", fastpack.pack_dir), ("repack", fastpack.repack), ("scan", fastpack.scan)],
)
def test_every_option_of_the_function_is_a_flag(command, function):
    flags = {action.dest.partition(".")[0] for action in actions(command)} - BESIDE
    assert flags == set(inspect.signature(function).parameters) - BESIDE - OBJECTS


def test_required_flags_are_the_options_without_a_default():
    required = {action.dest for action in actions("pack") if action.required}
    parameters = inspect.signature(fastpack.pack_dir).parameters.values()
    # `output` has a default only because `files` before it has one.
    assert required == {"output", *(it.name for it in parameters if it.default is inspect.Parameter.empty)}


def test_the_letters_are_those_of_collate():
    letters = {
        flag: action.dest
        for action in actions("pack")
        for flag in action.option_strings
        if not flag.startswith("--")
    }
    expected = {"-i": "files", "-o": "output", "-t": "tokenizer", "-m": "max_length", "-f": "format"}
    assert expected.items() <= letters.items()


def test_packing_prints_the_report(corpus, tokenizer_dir, tmp_path):
    done = run("pack", "-i", corpus, "-o", tmp_path / "out", "-t", tokenizer_dir, "-m", 256, "-f", "arrow")
    assert (done.returncode, done.stderr) == (0, "")
    report = fastpack.Report.from_json((tmp_path / "out" / "report.json").read_bytes())
    *page, following = done.stdout.splitlines()
    assert page == str(report).splitlines()
    assert following.startswith("next ")


def test_flags_mean_what_the_options_mean(corpus, tokenizer_dir, tmp_path):
    flags = "--overlong truncate --train-on all --special-tokens.eos yes --columns labels,input_ids --strategy none --threads 2"
    done = run("pack", "-i", corpus, "-o", tmp_path / "cli", "-t", tokenizer_dir, "-m", 64, *flags.split())
    assert done.returncode == 0, done.stderr
    fastpack.pack_dir(
        corpus,
        tmp_path / "api",
        tokenizer=tokenizer_dir,
        max_length=64,
        overlong="truncate",
        train_on="all",
        special_tokens=fastpack.SpecialTokens(eos=True),
        columns=["labels", "input_ids"],
        strategy="none",
    )
    shards = [(tmp_path / name / "train-00000.arrow").read_bytes() for name in ("cli", "api")]
    assert shards[0] == shards[1]


def test_bad_data_is_one_line_and_code_1(write_jsonl, tokenizer_dir, tmp_path):
    path = write_jsonl([{"text": "a"}, b"{"])
    done = run("pack", "-i", path, "-o", tmp_path / "out", "-t", tokenizer_dir, "-m", 64)
    assert done.returncode == 1
    assert done.stderr.startswith(f"fastpack: {path}:2: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_a_missing_file_is_one_line_and_code_1(tokenizer_dir, tmp_path):
    done = run("pack", "-i", "nowhere.jsonl", "-o", tmp_path / "out", "-t", tokenizer_dir, "-m", 64)
    assert done.returncode == 1
    assert "nowhere.jsonl" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["pack"],
        ["pack", "-i", "a", "-o", "b", "-t", "c", "-m", "x"],
        ["pack", "-i", "a", "-o", "b", "-t", "c", "-m", "8", "-f", "xml"],
        ["pack", "-i", "a", "-o", "b", "-t", "c", "-m", "8", "--chat-template.variables", "{"],
        ["pack", "-i", "a", "-o", "b", "-t", "c", "-m", "8", "--unheard-of"],
        ["unheard-of"],
    ],
)
def test_a_wrong_command_line_is_code_2(arguments):
    done = run(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_version_and_help_are_code_0():
    assert run("--version").stdout == f"fastpack {fastpack.__version__}\n"
    for arguments in (["--help"], ["pack", "--help"], ["inspect", "--help"]):
        done = run(*arguments)
        assert done.returncode == 0
        assert "exit codes:" in done.stdout or "more flags:" in done.stdout


@pytest.mark.parametrize("form", ["arrow", "jsonl"])
def test_inspect_shows_a_row_in_words(form, write_jsonl, tokenizer_dir, tmp_path):
    path = write_jsonl(
        [
            {
                "messages": [
                    {"role": "user", "content": "the river"},
                    {"role": "assistant", "content": "a boat"},
                ]
            },
        ]
        * 2
    )
    fastpack.pack_dir(path, tmp_path / "out", tokenizer=tokenizer_dir, max_length=256, format=form)
    done = run("inspect", tmp_path / "out" / f"train-00000.{form}", "--row", 0, "-t", tokenizer_dir)
    assert done.returncode == 0, done.stderr
    assert "2 documents" in done.stdout.splitlines()[0]
    assert done.stdout.count("<|start|>user\nthe river<|end|>\n<|start|>assistant\n«a boat<|end|>»") == 2


def test_tokenizer_says_what_it_is(tokenizer_dir):
    done = run("tokenizer", tokenizer_dir)
    assert (done.returncode, done.stderr) == (0, "")
    lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines() if not line.startswith(" "))
    tokenizer = fastpack.Tokenizer(tokenizer_dir)
    assert lines["engine"] == "compiled"
    assert lines["model"] == tokenizer.components["model"]
    assert lines["vocabulary"] == f"{tokenizer.vocab_size:,} tokens"
    assert "MB/s" in lines["speed"]


def test_inspect_colours_trained_tokens(corpus, tokenizer_dir, tmp_path):
    fastpack.pack_dir(corpus, tmp_path / "out", tokenizer=tokenizer_dir, max_length=256)
    file = tmp_path / "out" / "train-00000.arrow"
    assert "\x1b[32m" in run("inspect", file, "-t", tokenizer_dir, "--color", "always").stdout
    assert "\x1b[" not in run("inspect", file, "-t", tokenizer_dir).stdout


def test_inspect_shows_ids_where_no_tokenizer_is_known(tmp_path):
    row = {"input_ids": [5, 6, 7], "labels": [-100, 6, 7], "seq_lengths": [3]}
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    assert "5 «6 7»" in run("inspect", path).stdout


def test_inspect_names_the_rows_that_there_are(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"input_ids": [5]}\n', encoding="utf-8")
    done = run("inspect", path, "--row", 4)
    assert done.returncode == 2
    assert "rows 0 to 0" in done.stderr


def test_errors_name_flags(corpus, tokenizer_dir, tmp_path):
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    (tmp_path / "folder" / "mine").touch()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    given = {"-i": corpus, "-o": tmp_path / "out", "-t": tokenizer_dir, "-m": 256}
    for changed, code, message in [
        ({"-i": ""}, 2, "invalid option `--input`: holds an empty path"),
        ({"-i": tmp_path / "folder"}, 2, "; --reading.recursive looks into its folders"),
        ({"-o": ""}, 2, "invalid option `--output`: must name a folder"),
        ({"-o": tmp_path / "folder"}, 1, "pass --exists overwrite to write next to them"),
        ({"-o": tmp_path / "dangling"}, 1, "dangling: not a directory"),
        ({"-t": ""}, 2, "invalid option `--tokenizer`: must name a folder"),
        ({"-m": 0}, 2, "invalid option `--max-length`: must be a whole number"),
        (
            {"--reading.fields": "messages="},
            2,
            "invalid option `--reading.fields`: names a field without a name",
        ),
    ]:
        done = run("pack", *(part for pair in (given | changed).items() for part in pair))
        assert (done.returncode, done.stderr.count("\n")) == (code, 1), done.stderr
        assert message in done.stderr


def test_a_wrong_command_line_is_one_line():
    for arguments in ([], ["pack"], ["inspect"], ["unheard-of"]):
        done = run(*arguments)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert "--help" in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is always full")
def test_a_full_standard_output_is_named(corpus, tokenizer_dir, tmp_path):
    command = [sys.executable, "-m", "fastpack", "pack", "-i", corpus, "-o", tmp_path / "out", "-m", "256"]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [*command, "-t", tokenizer_dir], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr == "fastpack: standard output: No space left on device\n"


def test_inspect_says_what_it_cannot_show(tmp_path):
    files = {
        "report.json": "{}",
        "list.jsonl": "[1]\n",
        "text.jsonl": '{"input_ids": "abc"}\n',
        "broken.jsonl": "{\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    for path, message in [
        ("/dev/null", "is no file that can be looked into"),
        (tmp_path / "nothing", "no such file"),
        (tmp_path / "report.json", "rows in `.json` files are not read"),
        (tmp_path / "list.jsonl", "cannot be read as jsonl"),
        (tmp_path / "text.jsonl", "row 0: no packed row"),
        (tmp_path / "broken.jsonl", "cannot be read as jsonl"),
    ]:
        done = run("inspect", path)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
        assert message in done.stderr


def test_functions_are_named_by_their_file(corpus, tokenizer_dir, tmp_path):
    functions = tmp_path / "choose.py"
    # A dataclass looks for its module by name.
    functions.write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass Every:\n    step: int = 2\n"
        "def few(batch):\n    return [at % Every().step == 0 for at in range(len(batch))]\n"
    )
    out = tmp_path / "out"
    arguments = ["pack", "-i", str(corpus), "-o", str(out), "-t", str(tokenizer_dir), "-m", "512"]
    done = run(*arguments, "--filter", f"{functions}:few")
    assert done.returncode == 0, done.stderr
    assert json.loads((out / "report.json").read_text())["dropped"]["filtered"]["documents"] == 100
    for wrong in ("few", f"{functions}:many", "no_such_module:few"):
        refused = run(*arguments, "--filter", wrong)
        assert (refused.returncode, wrong in refused.stderr) == (2, True), refused.stderr


def test_a_scan_takes_sources_in_place_of_files(corpus, tokenizer_dir, tmp_path):
    (tmp_path / "sources.json").write_text(json.dumps([{"path": str(corpus), "limit": 7}]), encoding="utf-8")
    done = run("scan", "--sources", tmp_path / "sources.json", "-t", tokenizer_dir, "-m", 256)
    assert done.returncode == 0, done.stderr
    assert "7 read" in done.stdout


def test_an_error_names_the_argument_of_the_command_at_hand(tokenizer_dir):
    assert "invalid option `files`" in run("scan", "", "-t", tokenizer_dir).stderr
    assert (
        "invalid option `--input`" in run("pack", "-i", "", "-o", "out", "-t", tokenizer_dir, "-m", 8).stderr
    )


def test_a_file_of_sources_is_named_by_its_path(tokenizer_dir, tmp_path):
    (tmp_path / "sources.json").write_text("{}", encoding="utf-8")
    done = run("scan", "--sources", tmp_path / "sources.json", "-t", tokenizer_dir)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert f"`{tmp_path / 'sources.json'}` holds no JSON list" in done.stderr


def test_an_unknown_colour_is_refused(tmp_path):
    done = run("inspect", tmp_path, "--color", "green")
    assert done.returncode == 2
    assert 'invalid option `--color`: must be one of "auto", "always", "never"' in done.stderr


def test_json_nested_without_end_is_a_wrong_command_line(corpus, tokenizer_dir):
    nested = '{"a":' * 20_000 + "1" + "}" * 20_000
    done = run("scan", corpus, "-t", tokenizer_dir, "--chat-template.variables", nested)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)


@pytest.mark.parametrize(
    ("flag", "word", "words"),
    [("--special-tokens.eos", "maybe", "auto, yes, no"), ("--special-tokens.bos", "True", "auto, yes")],
)
def test_a_flag_says_which_words_it_takes(flag, word, words):
    done = run("pack", "-i", "a", "-o", "b", "-t", "c", "-m", 8, flag, word)
    assert (done.returncode, f"`{word}` is none of {words}" in done.stderr) == (2, True), done.stderr
