"""Numbers that ask for the impossible, and threads that the system refuses, end in one error or in the same rows."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys

import pytest
from campaign import campaign_only
from conftest import conversation

import fastpack
from fastpack import api
from fastpack.options import OPTIONS
from fastpack.options.value import fields_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits memory and threads as Linux does")

EXTREMES = [0, -1, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64, 10**30, 10**5000]

HEAD = """
import json, resource, sys
import fastpack, pyarrow as pa
from fastpack.cli.flags import with_values
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
tokenizer, files, out = sys.argv[1:4]
loaded = fastpack.Tokenizer(tokenizer)
records = [{"text": "a river and a boat", "label": 0}] * 5
table = pa.table({"input_ids": [[1, 2, 3]] * 5})
base = {"max_length": 64}

def call(name, options):
    functions = {option: {"filter": bool, "map": dict}[option] for option in ("filter", "map") if option in options}
    options = with_values({**base, **options, **functions}, call=name)
    if "format" in options and name in ("pack_records", "pack_table"):
        options |= {"output": out, "exists": "overwrite"}
    if name == "pack_files":
        return fastpack.pack_files(files, loaded, **options)
    if name == "pack_dir":
        return fastpack.pack_dir(files, out, tokenizer=loaded, exists="overwrite", **options)
    if name == "pack_records":
        return fastpack.pack_records(records, loaded, **options)
    if name == "pack_table":
        texts = pa.Table.from_pylist(records)
        return fastpack.pack_table(*((texts, loaded) if "objective" in options else (table,)), **options)
    if name == "stream":
        return list(fastpack.stream(files, loaded, **options))
    if name == "scan":
        return fastpack.scan(files, loaded, **options)
    if name == "plan":
        return fastpack.plan(options.pop("lengths", [5, 60, 64, 65, 200]), **options)
    if name == "repack":
        return fastpack.repack(out + "-kept", out, exists="overwrite", **options)
    if name == "Tokenizer":
        return fastpack.Tokenizer(tokenizer, **{key: options[key] for key in options if key != "max_length"})
    raise AssertionError(name)

fastpack.pack_dir(files, out + "-kept", tokenizer=loaded, max_length=64, keep_tokens=True)
sys.set_int_max_str_digits(0)
cases = json.load(sys.stdin)
sys.set_int_max_str_digits(4300)
for name, options in cases:
    print(json.dumps([name, sorted(options)]), flush=True)
    try:
        call(name, options)
        said = ["ok", "", ""]
    except fastpack.FastpackError as error:
        said = [type(error).__name__, str(error), getattr(error, "option", "")]
    except BaseException as error:
        said = ["foreign", repr(error)[:300], ""]
    print(json.dumps(said), flush=True)
"""


def outcomes(cases, tokenizer_dir, corpus, tmp_path, python):
    """The outcomes of some calls, in a process with 4 GB of address space."""
    process = python("-c", HEAD, str(tokenizer_dir), str(corpus), str(tmp_path / "out"))
    sys.set_int_max_str_digits(0)
    stdout, stderr = process.communicate(json.dumps(cases), timeout=300)
    lines = [json.loads(line) for line in stdout.splitlines()]
    assert process.returncode == 0, (lines[-1:], stderr[-2000:])
    return list(zip(cases, lines[1::2], strict=True))


@pytest.fixture
def python(python):
    """As the usual one, with an input to write to."""

    def start(*arguments):
        return subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


def number_options():
    """Every option of a public call that may be a whole number."""
    for name in [*api.__all__, "Tokenizer"]:
        for option, parameter in inspect.signature(getattr(fastpack, name)).parameters.items():
            annotation = str(parameter.annotation)
            for field in fields_of(OPTIONS[option].kinds.values()) if option in OPTIONS else ():
                if re.search(r"\bint\b|\bPadTo\b", field.spelled):
                    yield name, f"{option}.{field.name}"
            if re.search(r"\bint\b|\bPadTo\b|\bValidation\b|\bMaxLost\b", annotation):
                yield name, option


def test_the_options_that_are_numbers_are_found():
    found = set(number_options())
    assert {("pack_files", "max_length"), ("plan", "order.ranks"), ("stream", "batch_size")} <= found
    assert len(found) > 60


NEEDS = {
    "order.ranks": {"order": "balanced", "padding.token_id": 0},
    "strategy.open_rows": {"strategy": "best_fit"},
    "objective.copies": {"objective": "mlm"},
    "objective.max_target_length": {"objective": "span"},
    "objective.classes": {"objective": "classification"},
    "filter.processes": {"filter": "bool", "filter.per": "record"},
    "map.processes": {"map": "dict", "map.per": "record"},
    "epochs": {"max_steps": 2},
    "ranks.lanes": {"epochs": 1},
}


def needs(name, option):
    """The arguments that an option requires, as far as the call takes them."""
    known = inspect.signature(getattr(fastpack, name)).parameters
    return {
        other: value for other, value in NEEDS.get(option, {}).items() if other.partition(".")[0] in known
    }


def test_every_number_is_taken_or_refused_by_its_name(tokenizer_dir, write_jsonl, tmp_path, python):
    corpus = write_jsonl([{"text": "a river and a boat", "label": 0}] * 5)
    cases = [
        (name, {**needs(name, option), option: value})
        for name, option in number_options()
        for value in EXTREMES
    ]
    for (name, options), (kind, said, named) in outcomes(cases, tokenizer_dir, corpus, tmp_path, python):
        case = (name, str(options)[:200], kind, said)
        assert kind in {"ok", "OptionError", "OptionTypeError", "LossError"}, case
        assert len(said) < 1000, case
        if kind.startswith("Option"):
            places = {"max_length", "lengths", "padding.token_id", "padding.to", "groups.size"}
            assert named in {*options, *places}, case


TOGETHER = [
    {"max_length": 2**31 - 1, "padding": "max_length"},
    {"max_length": 2**31 - 1, "padding": 2**31 - 1},
    {"max_length": 2**31 - 1, "strategy.align_to": 2**31 - 1},
    {"max_length": 2**31 - 1, "padding": "max_length", "columns": ["input_ids"]},
    {"max_length": 2**30, "padding": "max_length", "strategy": "sequential"},
    {"order": "balanced", "order.ranks": 2**31},
    {"order": "balanced", "order.ranks": 2**32 - 1, "order.on_remainder": "repeat"},
    {"order": "balanced", "order.ranks": 2**31, "padding": "max_length"},
]


@pytest.mark.parametrize("name", ["pack_files", "pack_dir", "pack_records", "pack_table", "stream", "repack"])
def test_sizes_that_no_memory_holds_are_refused_with_what_they_take(
    name, tokenizer_dir, write_jsonl, tmp_path, python
):
    corpus = write_jsonl([{"text": "a river and a boat"}] * 5)
    known = inspect.signature(getattr(fastpack, name)).parameters
    cases = [
        (name, {"padding.token_id": 0, **options})
        for options in TOGETHER
        if {option.partition(".")[0] for option in options} <= known.keys()
    ]
    assert cases
    for case, (kind, said, named) in outcomes(cases, tokenizer_dir, corpus, tmp_path, python):
        assert (kind, named.removesuffix(".to") in case[1]) == ("OptionError", True), (case, kind, said)
        assert re.search(r"takes [\d.]+ GB of memory", said), (case, said)


def test_plans_that_no_memory_holds_are_refused(tokenizer_dir, write_jsonl, tmp_path, python):
    corpus = write_jsonl([{"text": "a river"}])
    vast = [
        {"lengths": [2**31 - 1], "max_length": 1, "overlong": "split"},
        {"lengths": [2**31 - 1] * 3, "max_length": 1, "overlong": "split"},
        {"lengths": [2**31 - 1], "max_length": 1, "strategy": "concat"},
        {"lengths": [2**30] * 100, "max_length": 2, "strategy": "concat"},
        {"lengths": [1], "max_length": 1, "order": "balanced", "order.ranks": 2**31},
        {
            "lengths": [1],
            "max_length": 1,
            "order": "balanced",
            "order.ranks": 2**32 - 1,
            "order.on_remainder": "repeat",
        },
    ]
    cases = [("plan", options) for options in vast]
    for case, (kind, said, _) in outcomes(cases, tokenizer_dir, corpus, tmp_path, python):
        assert kind == "OptionError", (case, kind, said)
        assert re.search(r"takes [\d.]+ GB of memory|more than 4294967295 pieces", said), (case, said)
    fine = [
        {"lengths": [2**31 - 1], "max_length": 2**31 - 1},
        {"lengths": [2**31 - 1], "max_length": 2**20, "overlong": "split"},
        {"lengths": [1, 2**31 - 1], "max_length": 2**31 - 1, "strategy": "best_fit"},
        {"lengths": [2**31 - 1, 5], "max_length": 2**20, "strategy": "concat"},
        {"lengths": [1] * 1000, "max_length": 2**31 - 1, "order": "balanced", "order.ranks": 1000},
    ]
    cases = [("plan", options) for options in fine]
    for case, (kind, said, _) in outcomes(cases, tokenizer_dir, corpus, tmp_path, python):
        assert kind == "ok", (case, said)


def test_sources_that_are_repeated_without_end_give_their_first_rows(corpus, write_jsonl, tokenizer_dir):
    other = write_jsonl(map(conversation, range(50)), "other.jsonl")
    sources = [{"path": str(path), "repeat": 2**63 - 1} for path in (corpus, other)]
    with fastpack.stream(files=sources, tokenizer=tokenizer_dir, max_length=64) as stream:
        assert next(stream).num_rows == 8


THREADS = """
import os, random, resource, sys, tempfile
import fastpack, pyarrow as pa
tokenizer, files, allowed = sys.argv[1], sys.argv[2], int(sys.argv[3])
def become_somebody():
    # The limit counts the tasks of the user, in whatever runs on this kernel: so each run is a user of its own.
    for most in [2**31] * 8 + [60_000] * 8:
        try:
            return os.setuid(random.randrange(most // 2, most))
        except OSError:
            pass  # a container may know few users
    raise AssertionError("no other user")
loaded = fastpack.Tokenizer(tokenizer)
records = [{"text": "a river and a boat over the town " * 50}] * 400
table = pa.table({"input_ids": [[1, 2, 3]] * 5000})
out = tempfile.mkdtemp()
os.chmod(out, 0o777)
expected = fastpack.pack_records(records, loaded, max_length=64, threads=8)
if os.geteuid() == 0:
    become_somebody()
resource.setrlimit(resource.RLIMIT_NPROC, (allowed, allowed))
def say(work):
    try:
        print("same" if work() else "other", flush=True)
    except fastpack.FastpackError as error:
        print(type(error).__name__, isinstance(error, RuntimeError), error, flush=True)
say(lambda: fastpack.pack_records(records, loaded, max_length=64, threads=8).equals(expected))
say(lambda: fastpack.pack_dir(files, out + "/a", tokenizer=loaded, max_length=64, threads=8).rows > 0)
say(lambda: fastpack.pack_table(table, max_length=64).num_rows > 0)
say(lambda: fastpack.plan([1, 2, 3], max_length=8).tokens == 6)
say(lambda: sum(t.num_rows for t in fastpack.stream(files, loaded, max_length=64)) > 0)
say(lambda: len(loaded.encode("a river " * 100_000)) > 0)
say(lambda: len(loaded.encode_batch(["a river " * 1000] * 500)) > 0)
"""


@pytest.mark.parametrize("allowed", [1, 2, 3, 4, 6])
def test_where_the_system_refuses_threads_the_rows_are_the_same_or_one_error_says_so(
    allowed, write_jsonl, tokenizer_dir, open_folder, python
):
    path = open_folder / "data.jsonl"
    path.write_text('{"text": "a river and a boat"}\n' * 3000, encoding="utf-8")
    path.chmod(0o644)
    process = python("-c", THREADS, str(tokenizer_dir), str(path), str(allowed))
    stdout, stderr = process.communicate(timeout=120)
    lines = stdout.splitlines()
    assert len(lines) == 7, stdout + stderr
    for line in lines:
        assert line == "same" or line.startswith("ThreadError True the system starts no thread"), line
    # Whoever is not the superuser shares the limit with all else that the user runs.
    if os.geteuid() == 0 and allowed == 1:
        assert all("ulimit -u" in line for line in lines)
    if os.geteuid() == 0 and allowed >= 6:
        assert set(lines) == {"same"}


METHODS = {
    "token_id": lambda tokenizer, value: tokenizer.id_to_token(value),
    "ids": lambda tokenizer, value: tokenizer.decode([value]),
    "verify": lambda tokenizer, value: tokenizer.encode_batch(["a river"], verify=value),
}


@pytest.mark.parametrize("option", METHODS)
@pytest.mark.parametrize("value", EXTREMES, ids=lambda value: f"{value.bit_length()} bits")
def test_methods_take_a_number_or_refuse_it_by_its_name(option, value, tokenizer_dir):
    said = None
    try:
        METHODS[option](fastpack.Tokenizer(tokenizer_dir), value)
    except (fastpack.OptionError, fastpack.TokenizerError) as refused:
        said = refused
    assert getattr(said, "option", option) == option
    assert len(str(said)) < 1000


LONG = """
import resource, sys
import fastpack
resource.setrlimit(resource.RLIMIT_AS, (5 << 30, 5 << 30))
tokenizer, out = sys.argv[1:]
times = (1 << 28) // 8 + 10
with open(out, "w") as lines:
    lines.write('{"text": "')
    for _ in range(times // 1000):
        lines.write("a river " * 1000)
    lines.write("a river " * (times % 1000) + '"}\\n')
loaded = fastpack.Tokenizer(tokenizer)
without = fastpack.SpecialTokens(eos=False)
report = fastpack.pack_dir(out, out + "-packed", tokenizer=loaded, max_length=4096, special_tokens=without)
two, three = (len(loaded.encode("a river " * count)) for count in (2, 3))
print(report.engine, report.tokens.kept == two + (times - 2) * (three - two))
"""


@campaign_only
@pytest.mark.slow
def test_a_text_of_more_than_256_mebibytes_takes_the_compiled_engine_and_little_memory(
    tokenizer_dir, tmp_path
):
    command = [sys.executable, "-c", LONG, str(tokenizer_dir), str(tmp_path / "long.jsonl")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["compiled", "True"], done.stderr
