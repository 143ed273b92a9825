"""A named pipe where a file was meant is refused, and nothing waits for its other end."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from conftest import conversation

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes as POSIX has them")

SECONDS = 60
"""Far more than a refusal takes, beside any load."""

FILES = "pack_files(data, tokenizer, max_length=256"

CALLS = {
    "input": "pack_files(pipe, tokenizer, max_length=256)",
    "input of a glob": "pack_files(str(folder / 'pipe*'), tokenizer, max_length=256)",
    "input of a stream": "list(fastpack.stream(pipe, tokenizer, max_length=256))",
    "input of scan": "scan(pipe, tokenizer)",
    "input of reindex": "reindex(pipe, output=folder / 'again')",
    "tokenizer": "pack_files(data, pipe, max_length=256)",
    "a Tokenizer": "Tokenizer(pipe)",
    "chat_template": f"{FILES}, chat_template=str(pipe))",
    "prompt": f"{FILES}, reading=fastpack.Reading(prompt=str(pipe)))",
    "output": "pack_dir(data, pipe, tokenizer=tokenizer, max_length=256)",
    "output of reindex": "reindex(data, output=pipe)",
    "cache_dir": "pack_dir(data, folder / 'out', tokenizer=tokenizer, max_length=256, cache_dir=pipe)",
    "cache_dir of a stream": "list(fastpack.stream(data, tokenizer, max_length=256, cache_dir=pipe))",
    "a folder of rows": "read(pipe)",
    "a folder to verify": "verify(pipe)",
    "a row of": "inspect(pipe)",
}
"""The calls, by the place of the pipe."""

PLACED = {
    "tokenizer.json": "Tokenizer(folder)",
    "manifest.json": "read(folder)",
    "dataset_info.json": "pack_files(folder, tokenizer, max_length=256)",
    "state.json": "pack_files(folder, tokenizer, max_length=256)",
    "index.json": "pack_files(folder, tokenizer, max_length=256)",
}
"""The call that meets a pipe of this name in a folder."""

CODE = """
import pathlib, sys
import fastpack
from fastpack import *
folder, data, tokenizer, pipe = map(pathlib.Path, sys.argv[1:5])
try:
    CALL
except (fastpack.FastpackError, OSError) as refused:
    print(type(refused).__name__, refused)
"""


def refusal(call: str, folder: Path, data: Path, tokenizer: Path, pipe: Path) -> str:
    """The output of a call in a process of its own."""
    code = CODE.replace("CALL", call)
    process = subprocess.run(
        [sys.executable, "-c", code, str(folder), str(data), str(tokenizer), str(pipe)],
        check=False,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


@pytest.mark.parametrize("place", CALLS)
def test_a_pipe_in_place_of_a_file_or_folder_is_refused(
    place: str, write_jsonl: Callable[..., Path], tokenizer_dir: Path, tmp_path: Path
) -> None:
    data = write_jsonl([conversation(number) for number in range(20)], "data.jsonl")
    folder = tmp_path / "folder"
    folder.mkdir()
    os.mkfifo(folder / "pipe.jsonl")
    assert "pipe.jsonl" in refusal(CALLS[place], folder, data, tokenizer_dir, folder / "pipe.jsonl")


@pytest.mark.parametrize("name", PLACED)
def test_a_pipe_among_the_files_of_a_folder_is_not_waited_for(
    name: str, write_jsonl: Callable[..., Path], tokenizer_dir: Path, tmp_path: Path
) -> None:
    data = write_jsonl([conversation(number) for number in range(20)], "folder/data.jsonl")
    os.mkfifo(data.parent / name)
    refusal(PLACED[name], data.parent, data, tokenizer_dir, data.parent / name)


def test_a_pipe_in_a_cache_is_not_waited_for(
    write_jsonl: Callable[..., Path], tokenizer_dir: Path, tmp_path: Path
) -> None:
    """Every file that a call keeps in its folders is a pipe when the call is made again."""
    data = write_jsonl([conversation(number) for number in range(20)], "data.jsonl")
    cache = tmp_path / "cache"
    calls = [
        "pack_dir(data, folder / 'out', tokenizer=tokenizer, max_length=256, cache_dir=folder / 'cache')",
        "list(fastpack.stream(data, tokenizer, max_length=256, ranks=Ranks(rank=0, world_size=2, on_end='pad'), cache_dir=folder / 'cache'))",
    ]
    for call in calls:
        assert not refusal(call, tmp_path, data, tokenizer_dir, cache)
        for path in [*cache.rglob("*"), *(tmp_path / "out").rglob("*")]:
            if path.is_file():
                path.unlink()
                os.mkfifo(path)
        refusal(call, tmp_path, data, tokenizer_dir, cache)
