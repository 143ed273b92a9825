"""The pages of the documentation: command lines run, and what is written by commands is up to date."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import ROOT

import fastpack

PAGES = [
    page
    for page in [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
    if "```console" in page.read_text(encoding="utf-8")
]


def test_there_are_pages_with_command_lines():
    assert {"first-steps", "fine-tune"} <= {page.stem for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_command_lines_of_a_page_run(page, tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    blocks = re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for line in "".join(blocks).splitlines():
        program, *arguments = shlex.split(line.removeprefix("$ "))
        assert program == "fastpack", line
        done = subprocess.run(
            [sys.executable, "-m", "fastpack", *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=os.environ | {"COLUMNS": "80"},
            check=False,
        )
        assert done.returncode == 0, (line, done.stderr)


# Blocks that need what no test of this folder has. The torch ones run in `tests/torch`, those of Ray and its like in
# `tests/cluster`; `test_buckets.py`, `test_web.py` and `test_hub_files.py` start stores of their own.
ELSEWHERE = (
    "fastpack.connect(",
    "ray",
    "datatrove",
    "pyspark",
    "s3://",
    "torch",
    "trl",
    "Trainer",
    "wandb",
    "PackedDataset",
)

# Values that the text around a block names, and what a page leaves to the reader.
GIVEN = """
import fastpack
tokenizer = "org/name"
files = paths = ["data/talks.jsonl"]
queries, responses = ["question"], ["answer"]
paths = ["data/questions.jsonl"] if "make_supervised_dset" in PAGE else paths
"""
LEFT = {
    # A stream without an end would not end in a test either.
    "epochs=None": "epochs=1, lanes=8",
    "fastpack.stream(...)": (
        'fastpack.stream({"web": "data/web-*.jsonl", "code": "data/code/*.parquet"}, "path/or/org-name", '
        'weights={"web": 0.7, "code": 0.3}, max_length=4096, batch_size=8, epochs=1, lanes=8)'
    ),
    "merge_state_dicts(states)": "merge_state_dicts([state])",
}


def _with_sentinels(folder):
    """A tokenizer with the sentinels of T5."""
    shutil.copytree(ROOT / "examples" / "tokenizer", folder)
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text("utf-8"))
    first = max([*tokenizer["model"]["vocab"].values(), *(it["id"] for it in tokenizer["added_tokens"])]) + 1
    like = tokenizer["added_tokens"][0]
    tokenizer["added_tokens"] += [
        like | {"id": first + at, "content": f"<extra_id_{at}>"} for at in range(100)
    ]
    path.write_text(json.dumps(tokenizer), "utf-8")


def _inputs(folder):
    """The files and folders that pages name, in a folder."""
    chats = [json.loads(line) for line in (ROOT / "examples" / "chat.jsonl").read_text("utf-8").splitlines()]
    questions = [{"question": f"Which {at}?", "answer": f"That {at}."} for at in range(2_000)]
    (folder / "examples").symlink_to(ROOT / "examples")
    for name in ("org/name", "org/model", "path/or/org-name", "gpt2"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(ROOT / "examples" / "tokenizer")
    _with_sentinels(folder / "t5")
    (folder / "data" / "code").mkdir(parents=True)
    (folder / "texts").mkdir()

    def lines(name, records):
        text = "".join(json.dumps(record) + "\n" for record in records)
        (folder / name).write_text(text, encoding="utf-8")
        return text

    lines("data/web-0.jsonl", chats * 20)
    lines("data/questions.jsonl", questions[:40])
    lines("data/talks.jsonl", chats)
    lines("texts/questions.jsonl", [{"text": it["question"]} for it in questions[:40]])
    pq.write_table(
        pa.table({"text": [f"code {at}" for at in range(400)]}),
        folder / "data/code/0.parquet",
        row_group_size=20,
    )
    instructions = [{"instruction": it["question"], "output": it["answer"]} for it in questions]
    (folder / "alpaca_gpt4_data.json").write_text(json.dumps(instructions, indent=1), encoding="utf-8")
    with gzip.open(folder / "dump.json.gz", "wt", encoding="utf-8") as file:
        file.write(lines("chat.jsonl", chats))
    fastpack.pack_dir(
        "chat.jsonl", "packed", tokenizer="org/name", max_length=512, format="parquet", progress=False
    )


def _blocks():
    for page in [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]:
        text = page.read_text(encoding="utf-8")
        blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
        here = [block for block in blocks if ">>>" not in block and not any(it in block for it in ELSEWHERE)]
        if here:
            yield pytest.param(text, here, id=page.stem)


@pytest.mark.parametrize(("text", "blocks"), list(_blocks()))
def test_the_code_blocks_of_a_page_run(text, blocks, tmp_path, monkeypatch):
    """Those with prompts (`>>>`) are doctests, which run with the modules' own."""
    monkeypatch.chdir(tmp_path)
    _inputs(tmp_path)
    known = {"PAGE": text}
    exec(GIVEN, known)
    for number, block in enumerate(blocks):
        for words, instead in LEFT.items():
            block = block.replace(words, instead)  # noqa: PLW2901  what is left to the reader
        for name in ("out", "packed"):
            block = block.replace(f'"{name}/", token', f'"{name}-{number}/", token')  # noqa: PLW2901
        exec(compile(block, f"block {number + 1}", "exec"), known)


def test_the_chart_shows_the_measured_tables():
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "chart.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_text_beside_the_chart_has_its_numbers():
    """Readers without eyes, and those of a page without pictures, are told the same."""
    bars = re.findall(r">(\d+)×<", (ROOT / "docs" / "ratios.svg").read_text(encoding="utf-8"))
    ratios = [int(bar) for bar in bars if bar != "1"]
    told = re.search(
        r"!\[.*?(\d+) to (\d+) times.*?(\d+) to (\d+) times", (ROOT / "README.md").read_text("utf-8")
    )
    assert told
    packing, tokenizing = ratios[:2], ratios[2:]
    expected = [min(packing), max(packing), min(tokenizing), max(tokenizing)]
    assert [int(number) for number in told.groups()] == expected


def test_every_public_name_is_on_the_page():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    shown = {place.rpartition(".")[2] for place in re.findall(r"::: (\S+)", page)}
    # Shown as a whole with the modules and classes that they belong to, or made by what is shown.
    elsewhere = {"Progress", "Splits", "Plan", "Verification", "__version__"}
    errors = {name for name in fastpack.__all__ if name.endswith("Error")}
    assert set(fastpack.__all__) - elsewhere - errors <= shown
    assert "errors" in shown
