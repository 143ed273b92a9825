"""Runs the tests with processes, sockets, clocks or limits again and again beside a load on all cores, and counts the failures of each.

`make repeat-tests` runs all of them thirty times, `make repeat-tests TIMES=3 TESTS="tests/python/storage/test_web.py"` some of them three times. A
test that fails here by chance depends on what runs beside it, which is a defect of the test.
"""

from __future__ import annotations

import argparse
import ast
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

TESTS = Path(__file__).parents[1] / "tests" / "python"

SENSITIVE = {
    *("multiprocessing", "resource", "select", "signal", "socket", "subprocess", "threading", "time"),
    *("cloud_stores", "faulty_proxy", "loopback", "pace", "processes", "web_server"),
}
"""Modules of tests that depend on processes, sockets, clocks or limits."""


def imported(path: Path) -> set[str]:
    """The modules that a file imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


def burn() -> None:
    """Keeps a core busy until the process is ended."""
    while True:
        sum(range(100_000))


def run(tests: list[str], marks: str) -> tuple[int, list[str]]:
    """Runs tests once. Returns how many ran, and the names of those that failed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
        subprocess.run([*command, "-m", marks, *tests], check=False, stdout=subprocess.DEVNULL)
        if not report.exists():
            return 0, ["pytest itself"]
        cases = list(ET.parse(report).iter("testcase"))  # noqa: S314  pytest wrote it
    wrong = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    return len(cases), [f"{case.get('classname')}::{case.get('name')}" for case in wrong]


def main() -> int:
    """Runs as a program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "tests", nargs="*", help="files or names of tests; all that depend on the machine if not given"
    )
    parser.add_argument("--times", type=int, default=30)
    parser.add_argument("--load", type=int, default=os.cpu_count(), help="busy processes beside the tests")
    parser.add_argument("--marks", default="not alone", help="the marks of the tests, as pytest's -m")
    arguments = parser.parse_args()
    files = (path for path in sorted(TESTS.rglob("test_*.py")) if imported(path) & SENSITIVE)
    tests = arguments.tests or [os.path.relpath(path) for path in files]
    load = [multiprocessing.Process(target=burn, daemon=True) for _ in range(arguments.load)]
    failed: Counter[str] = Counter()
    for process in load:
        process.start()
    try:
        for number in range(1, arguments.times + 1):
            begun = time.monotonic()
            ran, wrong = run(tests, arguments.marks)
            failed.update(wrong)
            took = time.monotonic() - begun
            print(
                f"{number} of {arguments.times}: {ran} tests in {took:.0f} s, {len(wrong)} failed", flush=True
            )
    finally:
        for process in load:
            process.terminate()
    for name, count in failed.most_common():
        print(f"{name} failed {count} of {arguments.times} times")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
