"""Files that were spoilt at random, and the only allowed results: rows, or one error.

Run as a program it repeats a case: `python tests/python/support/files/mutations.py test_mutations:spoil_input 17`.
"""

from __future__ import annotations

import faulthandler
import importlib
import itertools
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable

TESTS = Path(__file__).parents[2]

MEMORY = 500 << 20
"""Bytes that a case may take beyond those of the process before the first one."""

SECONDS = 10
"""Seconds that a case may take."""

SOAK = float(os.environ.get("SOAK_SECONDS", "0"))
"""The seconds for which each kind of file is tried; if 0, a number of cases is tried instead."""

NUMBERS = [
    0,
    1,
    -1,
    2,
    7,
    255,
    256,
    -8,
    1 << 15,
    (1 << 31) - 1,
    -(1 << 31),
    1 << 32,
    1 << 40,
    (1 << 63) - 1,
    -(1 << 63),
]
"""Numbers that a length or an offset must not be taken for."""


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Mutates bytes: flips bits, cuts, doubles or removes a part, or overwrites bytes with a number."""
    spoilt = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        chance.choice(WAYS)(spoilt, chance.randrange(len(spoilt) + 1), chance)
        if len(spoilt) > 8 * len(data):
            break
    return bytes(spoilt)


def length_from(spoilt: bytearray, at: int, chance: random.Random) -> int:
    """Draws the number of bytes after an offset that a mutation changes."""
    return min(chance.choice([1, 2, 4, 8, 64, 1000]), len(spoilt) - at)


def flip(spoilt: bytearray, _: int, chance: random.Random) -> None:
    for _ in range(chance.choice([1, 1, 3, 16]) if spoilt else 0):
        spoilt[chance.randrange(len(spoilt))] ^= 1 << chance.randrange(8)


def cut(spoilt: bytearray, at: int, _: random.Random) -> None:
    del spoilt[at:]


def double(spoilt: bytearray, at: int, chance: random.Random) -> None:
    part = bytes(spoilt[at : at + length_from(spoilt, at, chance)])
    spoilt[at:at] = chance.choice([part, bytes(spoilt)])


def take_out(spoilt: bytearray, at: int, chance: random.Random) -> None:
    del spoilt[at : at + length_from(spoilt, at, chance)]


def put_number(spoilt: bytearray, at: int, chance: random.Random) -> None:
    size = chance.choice([1, 2, 4, 4, 8, 8])
    at -= at % size if chance.random() < 0.7 else 0
    number = chance.choice([*NUMBERS, len(spoilt), len(spoilt) + 1, chance.randrange(1 << 20)])
    order: Any = chance.choice(["little", "little", "big"])
    spoilt[at : at + size] = (number % (1 << 8 * size)).to_bytes(size, order)


def put_digits(spoilt: bytearray, at: int, chance: random.Random) -> None:
    spoilt[at : at + 1] = str(chance.choice(NUMBERS)).encode()


def put_same(spoilt: bytearray, at: int, chance: random.Random) -> None:
    length = length_from(spoilt, at, chance)
    spoilt[at : at + length] = bytes([chance.choice([0, 0xFF, 0x20, 0x30])]) * length


WAYS = [flip, flip, cut, double, take_out, put_number, put_digits, put_same]
"""The mutations of a file at an offset."""


def survive(case: str, count: int) -> None:
    """Tries `count` cases in a process of their own, or as many as `SOAK_SECONDS` allow.

    Args:
        case: `module:function` of a function that takes a seed and an empty folder, and fails where something is wrong.
        count: How many.
    """
    first = time.time_ns() // 1000 if SOAK else 0
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.run(
            [sys.executable, __file__, case, str(first), str(count), str(SOAK), folder],
            cwd=folder,
            env=os.environ
            | {
                "MALLOC_ARENA_MAX": "1",
                "PYTHONPATH": os.pathsep.join(
                    [str(TESTS), *(str(it) for it in TESTS.glob("**/") if it != TESTS)]
                ),
                "HF_HUB_OFFLINE": "1",
            },
            capture_output=True,
            text=True,
            check=False,
            errors="replace",
        )
    said = process.stdout.split()
    seed = said[-1] if said else "none"
    again = f"{sys.executable} {__file__} {case} {seed}"
    assert process.returncode == 0, f"{again}\nended with {process.returncode}\n{process.stderr[-4000:]}"
    assert process.stderr == "", f"{again}\nor one before it wrote {process.stderr[-4000:]}"


def main(case: str, first: str, count: str = "1", seconds: str = "0", folder: str | None = None) -> None:
    """Tries cases one after another, and says the seed of each before it."""
    module, name = case.split(":")
    function = getattr(importlib.import_module(module), name)
    home = Path(folder or tempfile.mkdtemp())
    try_each(function, seeds(int(first), int(count), float(seconds)), home)


def seeds(first: int, count: int, seconds: float) -> Iterable[int]:
    """Yields `count` seeds, or as many as there is time for."""
    if not seconds:
        return range(first, first + count)
    end = time.monotonic() + seconds
    return itertools.takewhile(lambda _: time.monotonic() < end, itertools.count(first))


def try_each(function: Callable[[int, Path], None], numbers: Iterable[int], home: Path) -> None:
    """Calls a function with each seed, in a folder of its own, within the bounds of time and memory."""
    warm = home / "warm"
    warm.mkdir()
    function(0, warm)
    bound_memory()
    for seed in numbers:
        print(seed, flush=True)
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        with tempfile.TemporaryDirectory(dir=home) as folder:
            function(seed, Path(folder))
        faulthandler.cancel_dump_traceback_later()


def bound_memory() -> None:
    """Lets the process take no more than it has and `MEMORY`."""
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        most = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


if __name__ == "__main__":
    main(*sys.argv[1:])
