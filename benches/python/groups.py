"""How the work around groups grows with their number: listing inputs, asking for the state, putting the output together.

    python benches/python/groups.py --groups 10000

Packs one tiny file a group. All groups are packed first, by two processes; then what is measured is done once.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import fastpack

ROOT = Path(__file__).parents[2]
TOKENIZER = ROOT / "examples" / "tokenizer"
OPTIONS = {"max_length": 64, "group_size": 1, "threads": 1, "progress": False}

WORK = """
import sys, fastpack
files, out, tokenizer, rank = sys.argv[1:]
try:
    fastpack.pack_dir(files, out, tokenizer=tokenizer, max_length=64, group_size=1, threads=1, progress=False,
                      max_lost=0, rank=int(rank), world_size=2)
except fastpack.LossError:
    pass
"""


def timed(what, function):
    """Prints the seconds that a function takes, those of the processor apart, and returns its result."""
    began, worked = time.perf_counter(), time.process_time()
    result = function()
    taken, worked = time.perf_counter() - began, time.process_time() - worked
    print(f"| {what} | {taken:.2f} | {worked:.2f} |", flush=True)
    return result


def main():
    """Packs the groups, and measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=10_000)
    groups = parser.parse_args().groups
    with tempfile.TemporaryDirectory() as folder:
        files, out = Path(folder, "files"), Path(folder, "out")
        files.mkdir()
        for number in range(groups):
            # Rows have no room for one document, so that a limit on losses stops the job before its end.
            text = "boat " * (500 if number == 0 else 10 + number % 7)
            line = f'{{"messages": [{{"role": "user", "content": "hi"}}, {{"role": "assistant", "content": "{text}"}}]}}\n'
            Path(files, f"part-{number:06}.jsonl").write_text(line, encoding="utf-8")
        print("| work | seconds | of the processor |\n|---|---|---|")

        def pack_groups():
            arguments = [sys.executable, "-c", WORK, str(files), str(out), str(TOKENIZER)]
            processes = [subprocess.Popen([*arguments, str(rank)]) for rank in range(2)]
            assert [process.wait() for process in processes] == [0, 0]

        timed(f"pack {groups:,} groups, two processes", pack_groups)
        timed("list inputs", lambda: list_inputs(files, out))
        status = timed("status", lambda: fastpack.status(out))
        assert status.steps[0].done == status.steps[0].groups == groups, status
        report = timed(
            "list inputs and put the output together",
            lambda: fastpack.pack_dir(files, out, tokenizer=str(TOKENIZER), **OPTIONS),
        )
        assert report.documents.read == groups
        timed("status of the finished job", lambda: fastpack.status(out))
        timed(
            "the same call again", lambda: fastpack.pack_dir(files, out, tokenizer=str(TOKENIZER), **OPTIONS)
        )


def list_inputs(files, out):
    """Lists the inputs, and cuts them into groups."""
    from fastpack import _fastpack
    from fastpack.api.options import native_inputs, native_output
    from fastpack.options import options_of

    given = {option.name: option.default for option in options_of("pack_dir")}
    given |= {**OPTIONS, "files": str(files), "output": str(out)}
    return _fastpack.list_groups(native_inputs(given), native_output(given))


if __name__ == "__main__":
    main()
