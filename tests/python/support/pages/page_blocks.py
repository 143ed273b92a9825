"""The blocks of the pages that a reader can copy, and the runner that follows a page from top to bottom."""

from __future__ import annotations

import contextlib
import doctest
import io
import json
import os
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]

LEFT_OUT = {
    ("README.md", "$ make demo"): "builds fastpack and runs these tests",
    ("CONTRIBUTING.md", "$ make help"): "runs these tests",
    ("docs/start/install.md", "$ pip install ."): "builds fastpack for 5 to 15 minutes",
    (
        "docs/how-to/remote.md",
        "from fastpack.torch import PackedDataset",
    ): "needs torch beside a bucket; `test_remote_rows.py` runs the calls",
    (
        "docs/how-to/show.md",
        "import fastpack.wandb",
    ): "needs an account; `test_wandb.py` runs the calls offline",
}
"""The blocks that no test runs, by page and first line, with the reasons."""

PICTURES = {"docs/architecture.md", "docs/reference/files.md"}
"""The pages whose blocks of text are drawings, and not the output of the block before them."""

TORCH = re.compile(r"\b(torch|trl|lightning|accelerate|torchdata|Trainer)\b")
QUOTED = re.compile(r"(?://|#) ((?:rust|python)/[\w/.]+)\n")
"""The first line of a block that is a part of a file of the repository."""

CLUSTER = re.compile(r"^\s*(import|from) (ray|datatrove|pyspark)\b", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced or indented block of a page."""

    page: Path
    line: int
    kind: str
    title: str
    text: str

    @property
    def name(self) -> str:
        """The page and the line of the block."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def key(self) -> tuple[str, str]:
        """The page and the first line of the block."""
        return str(self.page.relative_to(ROOT)), self.text.partition("\n")[0]

    @property
    def left_out(self) -> tuple[str, str] | None:
        """The entry of `LEFT_OUT` for the block, if there is one."""
        page, first = self.key
        return next((key for key in LEFT_OUT if key[0] == page and first.startswith(key[1])), None)

    @property
    def runs(self) -> bool:
        """True if a test runs the block."""
        return self.left_out is None


def blocks_of(page):
    """All blocks of a page, in order: fences of any kind, inside of lists too, and indented code."""
    lines = page.read_text(encoding="utf-8").splitlines()
    at, listed = 0, False
    while at < len(lines):
        line = lines[at]
        fence = re.match(r"( *)(`{3,}|~{3,})(.*)", line)
        if fence:
            indent, marks, info = fence.groups()
            end = next(
                number
                for number in range(at + 1, len(lines))
                if re.fullmatch(f" *{marks[0]}{{{len(marks)},}}", lines[number])
            )
            body = "\n".join(text.removeprefix(indent) for text in lines[at + 1 : end]) + "\n"
            title = re.search(r'title="([^"]*)"', info)
            kind = info.split(maxsplit=1)[0] if info.strip() else ""
            yield Block(page, at + 2, kind, title[1] if title else "", body)
            at = end + 1
        elif line.startswith("    ") and not listed and not lines[at - 1].strip():
            end = at
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            text = textwrap.dedent("\n".join(lines[at:end])).strip("\n") + "\n"
            yield Block(page, at + 1, "indented", "", text)
            at = end
        else:
            if line.strip():
                listed = bool(re.match(r" *([*+-]|\d+\.) ", line)) or (listed and line.startswith(" "))
            at += 1


def place_of(page):
    """The tests that run a page: `main`, `torch` or `cluster`."""
    code = "".join(
        block.text
        for block in blocks_of(page)
        if block.runs and block.kind in {"python", "indented", "console"}
    )
    if CLUSTER.search(code):
        return "cluster"
    return "torch" if TORCH.search(code) else "main"


def pages_of(place):
    """The pages with blocks that run in a place."""
    return [
        page for page in PAGES if place_of(page) == place and any(block.runs for block in blocks_of(page))
    ]


def name_of(page):
    """The name of a page, for the identity of a test."""
    return page.stem


class Reader:
    """A reader who follows a page in a folder, and keeps the names that the blocks define.

    Args:
        folder: The folder to work in, with all that the page may take for granted.
        hosts: Addresses of the page, each with that of its stand-in.
        environment: Variables of the environment for commands.
    """

    def __init__(self, folder, hosts=None, environment=None):
        self.folder = folder
        self.hosts = hosts or {}
        self.names = {"__name__": "__main__"}
        self.printed = ""
        commands = folder / ".commands"
        commands.mkdir()
        for name, line in COMMANDS.items():
            command = commands / name
            command.write_text(f"#!/bin/sh\n{line.format(python=sys.executable)}\n", encoding="utf-8")
            command.chmod(0o755)
        self.environment = os.environ | {
            "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "python"),
            "PYTHONWARNINGS": "ignore",
            "COLUMNS": "80",
            **(environment or {}),
        }

    def follow(self, page):
        """Does as each block of the page says, and compares the shown results."""
        for block in blocks_of(page):
            if not block.runs:
                continue
            text = block.text
            for host, instead in self.hosts.items():
                text = text.replace(host, instead)
            try:
                self.one(block, text)
            except Exception as error:
                error.add_note(f"in {block.name}") if hasattr(error, "add_note") else None
                raise

    def one(self, block, text):
        """Does as one block says."""
        if ">>> " in text:
            self.doctest(block, text)
        elif QUOTED.match(text):
            quoted(text)
        elif block.title:
            file = self.folder / block.title
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        elif block.kind == "python":
            self.python(block, text)
        elif block.kind == "console":
            self.console(block, text)
        elif block.kind == "text":
            if str(block.page.relative_to(ROOT)) not in PICTURES:
                same(block, text, self.printed)
        elif block.kind == "jsonl":
            records(text)
        else:
            message = f"{block.name}: no test runs a block of the kind `{block.kind}`"
            raise AssertionError(message)

    def python(self, block, text):
        """Runs lines of Python, and keeps their output."""
        code = compile("\n" * (block.line - 1) + text, str(block.page), "exec")
        with contextlib.redirect_stdout(io.StringIO()) as shown:
            exec(code, self.names)
        self.printed = shown.getvalue()

    def doctest(self, block, text):
        """Runs lines of Python with prompts."""
        test = doctest.DocTestParser().get_doctest(text, {}, block.name, str(block.page), block.line - 1)
        test.globs = self.names
        said = io.StringIO()
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
        runner.run(test, out=said.write, clear_globs=False)
        assert not runner.failures, said.getvalue()

    def console(self, block, text):
        """Runs the lines with a `$` in a shell, and compares the lines behind them."""
        for line, shown in commands_of(text):
            done = subprocess.run(
                ["bash", "-c", f"set -e; {line}"],
                capture_output=True,
                text=True,
                cwd=self.folder,
                env=self.environment,
                check=False,
                timeout=200,
            )
            assert done.returncode == 0, (line, done.stdout[-2000:], done.stderr[-3000:])
            self.printed = done.stdout
            if shown.strip():
                same(block, shown, done.stdout)


COMMANDS = {
    "fastpack": 'exec {python} -m fastpack "$@"',
    "python": 'exec {python} "$@"',
    "torchrun": 'exec {python} -m torch.distributed.run "$@"',
    # Slurm on one machine: as many tasks as it is asked for, three at most.
    "srun": """shift; tasks=$(( $1 < 3 ? $1 : 3 )); shift
for task in $(seq 0 $(( tasks - 1 ))); do
    SLURM_PROCID=$task SLURM_NTASKS=$tasks SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=$tasks "$@" & tasks_ids="$tasks_ids $!"
done
for id in $tasks_ids; do wait $id || exit 1; done""",
}
"""The commands of a reader's shell."""


def commands_of(text):
    """The commands of a console block, with the output of each."""
    found = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append([line[2:], ""])
        elif found and found[-1][0].endswith("\\"):
            found[-1][0] = f"{found[-1][0]}\n{line}"
        elif found:
            found[-1][1] += f"{line}\n"
        else:
            message = f"a console block begins with `$ `, not `{line}`"
            raise AssertionError(message)
    return found


def same(block, shown, printed):
    """Compares the text of a page with the output; `...` stands for anything."""
    pattern = re.escape(shown.strip()).replace(re.escape("..."), ".*?")
    pattern = re.sub(r"(\\?[ \n])+", r"\\s+", pattern)
    assert re.fullmatch(pattern, printed.strip(), flags=re.DOTALL), f"{block.name}: printed\n{printed}"


def records(text):
    """Packs each line as a record of its own."""
    import fastpack

    for line in text.splitlines():
        table = fastpack.pack_records(
            [json.loads(line)], ROOT / "examples" / "tokenizer", max_length=512, progress=False
        )
        assert table.num_rows == 1, line


def quoted(text):
    """Finds the lines in the file that the first line names; `...` in a comment stands for lines between."""
    name, lines = QUOTED.match(text)[1], QUOTED.sub("", text, count=1)
    file = (ROOT / name).read_text(encoding="utf-8")
    at = 0
    for part in re.split(r"\n *(?://|#) \.\.\.\n", lines):
        found = file.find(part.strip("\n"), at)
        assert found >= 0, f"{name} has no longer\n{part}"
        at = found + len(part.strip("\n"))
