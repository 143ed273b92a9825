"""Every error that leaves a public call is one of fastpack's own, on one line, and names the file or the option, whatever lies in a file.

`fastpack.wandb` is among them. `fastpack.ray` is not: Ray is in the environment of `make test-cluster` alone, starts a cluster of
processes for each call, and hands to tasks the calls that are tried here. Its own arguments are tried in tests/cluster/test_ray.py.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import json
import os
import random
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from campaign import tries
from conftest import ROOT, conversation
from mutations import mutate, survive
from nested import nested
from sealing import seal_again

import fastpack
import fastpack.hf
import fastpack.wandb
from fastpack.api import recipes
from fastpack.options.value import Value

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(os.name != "posix", reason="links and pipes as POSIX has them"),
]

TOKENIZER = ROOT / "examples" / "tokenizer"

FAULTS_OF_OURS = (fastpack.InternalError, fastpack.LedgerError, fastpack.VerificationError)
"""Exceptions that no file may lead to."""

FOLDERS: list[dict[str, Any]] = [
    {"keep_tokens": True},
    {"format": "parquet"},
    {"format": "jsonl"},
    {"format": fastpack.Format(layout="compact")},
    {"format": fastpack.Format(hf_layout=True), "validation": 8},
    {
        "format": fastpack.Format(per_file=True),
        "columns": ["input_ids", "labels", "position_ids", "seq_lengths", "loss_weights", "source_file"],
    },
]


@functools.cache
def loaded() -> fastpack.Tokenizer:
    return fastpack.Tokenizer(TOKENIZER)


def packed(home: Path, chance: random.Random) -> Path:
    """A packed folder, which is copied from one that is made once."""
    number = chance.randrange(len(FOLDERS))
    whole = home.parent / f"whole-{os.getpid()}-{number}"
    if not whole.exists():
        data = home.parent / f"data-{os.getpid()}.jsonl"
        data.write_text("".join(json.dumps(conversation(at)) + "\n" for at in range(40)))
        made = whole.with_name(f"{whole.name}-made")
        fastpack.pack_dir(
            data,
            made,
            tokenizer=loaded(),
            max_length=64,
            progress=False,
            **nested({"shard_size": "4KB"}, FOLDERS[number]),
        )
        made.rename(whole)
    shutil.copytree(whole, home / "packed")
    return home / "packed"


def spoil(path: Path, chance: random.Random, others: list[Path]) -> None:
    """Spoils a file: cuts it, changes bytes, or has something else in its place."""
    content = path.read_bytes()
    way = chance.choice(
        [
            "cut",
            "mutate",
            "mutate",
            "mutate",
            "gone",
            "folder",
            "empty",
            "foreign",
            "other",
            "link",
            "nowhere",
            "unreadable",
            "pipe",
            "twice",
        ]
    )
    if way == "twice":
        with contextlib.suppress(pa.ArrowException, OSError):
            name_twice(path)
    elif way in {"cut", "empty"}:
        path.write_bytes(content[: chance.randrange(len(content) or 1) if way == "cut" else 0])
    elif way == "mutate":
        path.write_bytes(mutate(content, chance))
    elif way == "foreign":
        path.write_bytes(
            chance.choice(
                [
                    b"no rows at all",
                    b"{}",
                    b"[1]",
                    b"null",
                    b"\xff\xfe\x00",
                    b"ARROW1",
                    b"PAR1PAR1",
                    b"[" * 99_999,
                ]
            )
        )
    elif way == "other":
        there = [other for other in others if other.is_file() and not other.is_symlink()]
        path.write_bytes(chance.choice(there).read_bytes() if there else b"")
    else:
        path.unlink()
        if way == "folder":
            path.mkdir()
        elif way in {"link", "nowhere", "unreadable"}:
            # Nobody can open a link to itself, not even root.
            to = {"link": ROOT / "pyproject.toml", "nowhere": path.parent / "nowhere"}.get(way, path)
            path.symlink_to(to)
        elif way == "pipe":
            os.mkfifo(path)


def name_twice(path: Path) -> None:
    """Gives the rows of a file a column of a name that they have."""
    if path.suffix not in {".arrow", ".parquet"}:
        return
    with pa.OSFile(str(path)) as file:
        table = (
            pq.read_table(file) if path.suffix == ".parquet" else pa.ipc.open_stream(file.read()).read_all()
        )
    table = table.append_column(table.column_names[0], table.column(0))
    if path.suffix == ".parquet":
        pq.write_table(table, path)
        return
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def spoilt_folder(home: Path, chance: random.Random) -> Path:
    """A packed folder of which some file is spoilt, sometimes with a manifest that says that it must be so."""
    folder = packed(home, chance)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for _ in range(chance.choice([1, 1, 2])):
        path = chance.choice(files)
        if path.is_file() and not path.is_symlink():
            spoil(path, chance, files)
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        if chance.random() < 0.5 and (folder / "manifest.json").is_file():
            seal_again(
                folder,
                functools.partial(change_manifest, chance) if chance.random() < 0.6 else lambda _: None,
            )
    return folder


def change_manifest(chance: random.Random, manifest: dict[str, Any]) -> None:
    """Has a manifest say something else."""
    wrong = chance.choice(
        [
            *(None, 0, 7, -1, 1 << 70, True, 1.5),
            *("", "x", "../x", "/etc/passwd", "a/b/c"),
            *([], {}, [[]], [{}], [None], [1.5]),
        ]
    )
    place = manifest
    for _ in range(chance.randrange(4)):
        inner = [
            value
            for value in (place.values() if isinstance(place, dict) else place)
            if isinstance(value, (dict, list)) and value
        ]
        if not inner:
            break
        place = chance.choice(inner)
    if isinstance(place, dict):
        place[chance.choice(sorted(place))] = wrong
    else:
        place[chance.randrange(len(place))] = wrong


def spoilt_data(home: Path, chance: random.Random) -> Path:
    path = home / "data.jsonl"
    path.write_text("".join(json.dumps(conversation(at)) + "\n" for at in range(8)))
    spoil(path, chance, [ROOT / "pyproject.toml"])
    return path


def spoilt_config(home: Path, chance: random.Random) -> Path:
    path = home / "recipe.toml"
    lines = [
        "max_length = 64",
        "files = 'x.jsonl'",
        "chat_template = {now = 2024-01-01}",
        "files = [{path = 'a'}]",
        "filter = 'f.py:g'",
        "map = 'json:x'",
    ]
    path.write_text("\n".join(chance.sample(lines, 3)))
    if chance.random() < 0.7:
        spoil(path, chance, [ROOT / "pyproject.toml"])
    return path


def spoilt_tokenizer(home: Path, chance: random.Random) -> Any:
    if chance.random() < 0.8:
        return loaded()
    shutil.copytree(TOKENIZER, home / "tokenizer", dirs_exist_ok=True)
    files = sorted((home / "tokenizer").iterdir())
    spoil(chance.choice(files), chance, files)
    return home / "tokenizer"


def output(home: Path, chance: random.Random) -> Path:
    """A place to write to: mostly free, else a file, a folder of somebody else, or one that cannot be."""
    place = home / "out"
    way = chance.choice(["free", "free", "file", "folder", "below a file", "link"])
    if way == "folder":
        place.mkdir()
        (place / "thesis.txt").write_text("mine")
        (home / "out.parquet").mkdir()
    elif way in {"file", "below a file"}:
        place.write_text("mine")
    elif way == "link":
        place.symlink_to(home / "nowhere" / "at all")
    return place / "deeper" if way == "below a file" else place


class Run:
    """Stands for a run of Weights & Biases: logs nothing, and has a folder that is spoilt as an artifact."""

    def __init__(self, home: Path, chance: random.Random) -> None:
        self.home, self.chance = home, chance
        self.summary: dict[str, Any] = {}

    def log_artifact(self, artifact: Any, **_: Any) -> Any:
        return artifact

    def use_artifact(self, *_: Any, **__: Any) -> Run:
        return self

    def download(self, *_: Any, **__: Any) -> str:
        return str(spoilt_folder(self.home, self.chance))


def spoilt_inputs(home: Path, chance: random.Random) -> Any:
    """Files of records that `fastpack.wandb.log` shows."""
    if chance.random() < 0.3:
        return None
    place = home / "inputs"
    place.mkdir()
    if chance.random() < 0.5:
        return spoilt_data(place, chance)
    path = place / chance.choice(["rows.parquet", "rows.arrow"])
    pq.write_table(pa.table({"text": ["a", None]}), path)
    spoil(path, chance, [ROOT / "pyproject.toml"])
    return chance.choice([path, [path], str(path)])


#: The argument for a parameter of this name.
GIVEN: dict[str, Callable[[Path, random.Random], Any]] = {
    "address": lambda home, _: f"unix:{home / 'no socket'}",
    "config": spoilt_config,
    "files": spoilt_data,
    "folder": spoilt_folder,
    "format": lambda _, chance: chance.choice(["megatron", "megatron_bridge", "numpy"]),
    "inputs": spoilt_inputs,
    "lengths": lambda _, chance: chance.choice([[1, 2, 3], [-1], ["x"], [1 << 70], [1.5], None, [[1]]]),
    "max_length": lambda _, chance: chance.choice([64, 64, 64, 0, "x"]),
    "name": lambda *_: "packed:latest",
    "output": output,
    "packed": spoilt_folder,
    "path": lambda home, chance: chance.choice([spoilt_config, output])(home, chance),
    "records": lambda _, chance: [
        conversation(1),
        *([chance.choice([{}, 7, None, {"text": 3}])] * chance.randrange(2)),
    ],
    "rank": lambda *_: 0,
    "run": Run,
    "world_size": lambda *_: 1,
    "row": lambda _, chance: chance.choice([0, -1, 10**9]),
    "seq_length": lambda *_: 64,
    "source": spoilt_folder,
    "split": lambda _, chance: chance.choice(["train", "train", "validation", "x"]),
    "state_dicts": lambda _, chance: chance.choice([[], [{}], [{"x": 1}, {}], None]),
    "table": lambda home, chance: chance.choice(
        [spoilt_folder, lambda *_: pa.table({"text": ["a", None]}), lambda *_: 7]
    )(home, chance),
    "text": lambda _, chance: mutate(b'{"rows": 1, "tokens": {"read": 3}}', chance),
    "tokenizer": spoilt_tokenizer,
}

REQUIRED = {"inputs", "max_length", "row", "run", "split", "tokenizer"}
"""Parameters that are given though they have a default."""


def public() -> dict[str, Callable[..., Any]]:
    """The public functions, and the public functions of classes that make one of them of files, by name."""
    found: dict[str, Callable[..., Any]] = {"recipes.load_manifest": recipes.load_manifest}
    for module in (fastpack, fastpack.hf):
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isfunction(value):
                found[name] = value
            elif inspect.isclass(value) and not issubclass(value, BaseException):
                for inner, method in inspect.getmembers(value, inspect.ismethod):
                    if not inner.startswith("_"):
                        found[f"{name}.{inner}"] = method
    found["Tokenizer"] = fastpack.Tokenizer
    found |= {f"wandb.{name}": getattr(fastpack.wandb, name) for name in fastpack.wandb.__all__}
    return found


#: Functions that take no file, and are tried elsewhere.
ELSEWHERE = {"pack_dataset", "sft_config"}

FUNCTIONS = sorted(public().keys() - ELSEWHERE)


def given_to(function: Callable[..., Any], home: Path, chance: random.Random) -> dict[str, Any]:
    arguments = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name.startswith("_") or parameter.kind in {parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL}:
            continue
        if parameter.default is parameter.empty or name in REQUIRED or name in {"files", "output"}:
            arguments[name] = GIVEN[name](home, chance)
    return arguments


def call(function: Callable[..., Any], arguments: dict[str, Any], home: Path, chance: random.Random) -> None:
    """Calls a function, and uses its result: all its texts, and its methods."""
    result = function(**arguments)
    if isinstance(result, fastpack.PackStream):
        with result:
            if chance.random() < 0.5:
                call_method(result, home, chance)
            list(result)
            result.state_dict(), result.stats()
    else:
        repr(result), str(result)
        if hasattr(result, "_repr_html_"):
            result._repr_html_()
        call_method(result, home, chance)


def page(home: Path, chance: random.Random) -> Path:
    """A place to write a page to, beside those that the function was given."""
    (home / "pages").mkdir()
    return output(home / "pages", chance)


#: The public methods of what functions return, and the arguments of each call.
METHODS: dict[type, list[tuple[str, Callable[[Path, random.Random], tuple[Any, ...]]]]] = {
    fastpack.Report: [("to_html", lambda *given: (page(*given),)), ("to_dict", lambda *_: ())],
    fastpack.ScanReport: [("to_html", lambda *given: (page(*given),)), ("to_dict", lambda *_: ())],
    fastpack.PackStream: [
        ("estimate", lambda *_: ()),
        ("index", lambda *_: ()),
        ("arguments", lambda *_: ()),
        (
            "load_state_dict",
            lambda _, chance: (chance.choice([None, {}, [], 7, {"version": 1}, {"x": "y"}]),),
        ),
    ],
    fastpack.JobStatus: [("to_dict", lambda *_: ())],
    fastpack.Reindexed: [("to_dict", lambda *_: ())],
    fastpack.PackedRow: [("to_dict", lambda *_: ()), ("without_text", lambda *_: ())],
    fastpack.Tokenizer: [
        ("encode", lambda _, chance: (chance.choice(["text", "\ud800", 7, None, b"x"]),)),
        ("encode_batch", lambda _, chance: (chance.choice([["a", "b"], ["a", None], "text", 7, []]),)),
        ("decode", lambda _, chance: (chance.choice([[1, 2], [-1], [1 << 40], ["a"], None, 7, [10**6]]),)),
        ("id_to_token", lambda _, chance: (chance.choice([0, -1, 10**6, 1 << 40, "a", None]),)),
        (
            "apply_chat_template",
            lambda _, chance: (chance.choice([[], [{}], [7], None, "x", [{"role": 3}]]),),
        ),
    ],
}


#: Public methods that are called with each object, that raise what a test asks for, or that are tried elsewhere.
OTHER_METHODS = {
    "PackStream": {"close", "state_dict", "stats"},
    "PackedRow": {"stretches"},
    "StepPlan": {"micro_batches"},
    "StreamConnection": {"close", "load_state_dict", "state_dict", "unused"},
    "Verification": {"raise_for_problems"},
}


def test_every_public_method_is_tried():
    missing = {}
    for name in fastpack.__all__:
        kind = getattr(fastpack, name)
        if not inspect.isclass(kind) or issubclass(kind, (BaseException, Value)):
            continue
        own = {it for it, value in vars(kind).items() if inspect.isfunction(value) and not it.startswith("_")}
        missing[name] = own - {it for it, _ in METHODS.get(kind, [])} - OTHER_METHODS.get(name, set())
    assert {name: methods for name, methods in missing.items() if methods} == {}


def call_method(result: object, home: Path, chance: random.Random) -> None:
    """Calls a method of an object that a function has returned."""
    methods = METHODS.get(type(result))
    if methods:
        name, arguments_of = chance.choice(methods)
        getattr(result, name)(*arguments_of(home, chance))


def try_public_call(seed: int, home: Path) -> None:
    """Calls a public function with files that are spoilt."""
    chance = random.Random(seed)
    name = chance.choice(FUNCTIONS)
    function = public()[name]
    arguments = given_to(function, home, chance)
    try:
        call(function, arguments, home, chance)
    except FAULTS_OF_OURS:
        raise
    except fastpack.FastpackError as error:
        complaint = fault_of(error, home)
        if complaint:
            message = f"{complaint} of {name}({arguments}): {type(error).__name__} {error}"
            raise AssertionError(message) from error
    except MemoryError:
        pass
    except Exception as error:
        message = f"{name}({arguments}): {type(error).__name__} {error}"
        raise AssertionError(message) from error


def fault_of(error: fastpack.FastpackError, home: Path) -> str:
    """The fault of an error; empty if there is none."""
    said = f"{error} {getattr(error, 'filename', '')}"
    if "\n" in said or len(said) > 2_000:
        return "not one line"
    named = (
        hasattr(error, "option")
        or hasattr(error, "line")
        or str(home) in said
        or "`" in said
        or str(ROOT) in said
    )
    return "" if named else "nothing named"


def test_every_public_function_is_tried():
    for name, function in public().items():
        parameters = inspect.signature(function).parameters.values()
        wanted = [it.name for it in parameters if it.default is it.empty and it.kind is not it.VAR_KEYWORD]
        assert name in ELSEWHERE or set(wanted) <= GIVEN.keys(), f"say in GIVEN what {name} is given"
    assert len(FUNCTIONS) > 15


def test_errors_of_public_calls_are_of_fastpack_and_name_the_file(monkeypatch, tmp_path):
    monkeypatch.setenv("WANDB_SILENT", "true")
    for name in ("CACHE", "CONFIG", "DATA"):
        monkeypatch.setenv(f"WANDB_{name}_DIR", str(tmp_path))
    survive("test_named_errors:try_public_call", tries(60, 5_000))


def try_command(seed: int, home: Path) -> None:
    """Runs a command line over a spoilt folder or file."""
    from fastpack.cli.main import main

    chance = random.Random(seed)
    folder = str(spoilt_folder(home, chance))
    data, out = str(spoilt_data(home, chance)), str(output(home, chance))
    lines = [
        ["inspect", folder],
        ["inspect", folder, "--json", "--row", "-1"],
        ["inspect", folder, "--html", out],
        ["verify", folder, "--sample", "3"],
        ["report", folder],
        ["report", folder, "--html", out],
        ["report", folder, "--card"],
        ["repack", "-i", folder, "-o", out, "-m", "64"],
        ["status", folder],
        ["scan", data, "-t", str(TOKENIZER)],
        ["scan", data, "-t", str(TOKENIZER), "--html", out],
        ["pack", data, "-o", out, "-t", str(TOKENIZER), "-m", "64"],
        ["pack", "--like", folder, "-o", out],
        ["pack", "--like", folder, "-o", out, "--dry-run"],
        ["pack", "--config", str(spoilt_config(home, chance)), "-o", out, "--dry-run"],
        ["stream", data, "-t", str(TOKENIZER), "-m", "64"],
        ["reindex", data, "-o", out],
        ["tokenizer", str(spoilt_tokenizer(home, chance)) if chance.random() < 0.3 else folder],
    ]
    line = chance.choice(lines)
    told, shown = io.StringIO(), io.StringIO()
    shown.buffer = io.BytesIO()  # type: ignore[attr-defined]  # as the real one has it
    try:
        with contextlib.redirect_stderr(told), contextlib.redirect_stdout(shown):
            code = main(line)
    except (Exception, SystemExit) as error:
        message = f"{line}: {type(error).__name__} {error} {told.getvalue()}"
        raise AssertionError(message) from error
    said = [
        it for it in told.getvalue().split("\n") if it.startswith("fastpack: ") and "no -m given" not in it
    ]
    assert len(said) == (code != 0), (line, code, told.getvalue())
    assert all(len(it) < 2_000 for it in said), (line, said)
    assert not any("please report" in it for it in said), (line, said)


def test_errors_of_commands_are_one_line():
    survive("test_named_errors:try_command", tries(20, 3_000))
