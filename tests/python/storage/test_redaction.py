"""A secret is told nowhere but to its own server: a canary stands in every place that could take one.

The places come from the table of options, so that a new option is tried too.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import io
import json
import pickle
import random
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
from campaign import tries
from canary import CANARY, NOWHERE, everything_in, urls
from hypothesis import given, settings
from hypothesis import strategies as st
from nested import flat
from web_server import serving

import fastpack
import fastpack.hf
import fastpack.wandb
from fastpack._fastpack import one_line, without_secrets
from fastpack.cli import main
from fastpack.cli.parser import parser
from fastpack.options import OPTIONS, options_of
from fastpack.options.option import EVERY_CALL
from fastpack.options.value import KIND, fields_of, from_table, names_of

SECRETS = ("storage", "storage.options", "storage.token", "token")

QUICK = {"max_retries": "0", "connect_timeout": "1s", "timeout": "1s"}
"""Options of storage that has no time to answer."""

WRONG_SECRETS = (
    CANARY,
    CANARY.encode(),
    [CANARY],
    {CANARY},
    [("aws_secret_access_key", CANARY)],
    {"aws_secret_access_key": CANARY.encode()},
    {"aws_secret_access_key": [CANARY]},
    {"aws_secret_access_key": {"a": CANARY}},
    {b"aws_secret_access_key": CANARY},
    {"timeout": CANARY},
    {"connect_timeout": CANARY},
    {"max_retries": CANARY},
    {"aws_region": f"{CANARY}\n", "aws_secret_access_key": f"{CANARY}\n"},
    {"aws_endpoint": f"https://user:{CANARY}@[", "aws_access_key_id": CANARY},
    {"azure_storage_account_key": CANARY, "google_service_account_key": CANARY},
)
"""Secrets where they belong, in values of a wrong type or form."""

HOME = {"pack_table": "table", "pack_records": "records", "plan": "lengths", "repack": "source"}
"""The data argument of calls that read no files."""


def values_of(name):
    """The values that an option is given."""
    if name in SECRETS:
        yield from WRONG_SECRETS
        return
    for url in urls().values():
        yield url
        yield [url]
    for url in random.Random(name).sample([*urls().values()], 4):
        yield {url: url}
        yield {"path": url}
        yield Path(url)
        yield [{"path": url}]
        yield url.encode()
        yield (url, 1)


@pytest.fixture
def place(tmp_path, monkeypatch, corpus):
    """A folder in which everything happens, with a small input."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{NOWHERE}")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_REGION", "x")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    lines = corpus.read_text(encoding="utf-8").splitlines()[:4]
    (tmp_path / "data.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path


def arguments_of(call, place, tokenizer_dir):
    """Arguments of a call that has all that it needs."""
    given = {
        "files": str(place / "data.jsonl"),
        "tokenizer": str(tokenizer_dir),
        "max_length": 256,
        "output": str(place / "out"),
        "progress": False,
        "threads": 1,
        "storage": QUICK,
    }
    taken = {option.name for option in options_of(call)}
    rest = {name: value for name, value in given.items() if name in taken and name != "files"}
    if call not in {"pack_dir", "repack"}:
        rest.pop("output", None)
    data = {
        "pack_table": [{"text": "a"}],
        "pack_records": [{"text": "a"}],
        "plan": [1, 2, 3],
        "repack": str(place / "kept"),
    }
    if call in HOME:
        return {HOME[call]: data[call], **rest}
    return {"files": given["files"], **rest}


def places_in(call):
    """The options of a call, and the fields of their values."""
    for option in options_of(call):
        yield option.name
        yield from (f"{option.name}.{field.name}" for field in fields_of(option.kinds.values()))


def given_at(where, value):
    """The argument that gives a value to an option, or to a field of its value."""
    name, _, field = where.partition(".")
    if not field:
        return {name: value}
    kinds = OPTIONS[name].kinds
    (word, *_) = [word for word, kind in kinds.items() if field in names_of(kind)]
    base = {"options": QUICK} if name == "storage" else {}
    return {name: from_table(name, {KIND: word, **base, field: value}, kinds)}


def names_below(folder):
    """The names of all files and folders."""
    return "\n".join(str(path.relative_to(folder)) for path in folder.rglob("*"))


def contents_below(folder):
    """The contents of all files."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return "\n".join(path.read_bytes().decode("latin-1") for path in files)


@pytest.mark.parametrize("call", sorted(EVERY_CALL))
def test_no_option_of_any_call_tells_a_secret(call, place, tokenizer_dir):
    function = getattr(fastpack, call)
    chance = random.Random(call)
    told = []
    for where in places_in(call):
        values = list(values_of(where))
        few = values if where in (*SECRETS, "files", "tokenizer", "output") else chance.sample(values, 2)
        for value in tries(few, values):
            arguments = arguments_of(call, place, tokenizer_dir)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    made = function(**arguments | given_at(where, value))
                    if call == "stream":
                        with made:
                            next(iter(made), None)
                except Exception as error:
                    if CANARY in everything_in(error):
                        told.append((where, value, everything_in(error)))
        if CANARY in names_below(place):
            told.append((where, "names a file", names_below(place)))
            break
    assert not told, (len(told), told[0])


NO_RUN = SimpleNamespace(use_artifact=lambda *_, **__: SimpleNamespace(download=lambda root: root))
"""Stands for a run of Weights & Biases, which these calls do not come to use."""

OTHERS = {
    "inspect": lambda url: fastpack.inspect(url, storage=QUICK),
    "inspect with a tokenizer": lambda url: fastpack.inspect(
        flat.pack_records([{"input_ids": [1, 2]}], max_length=8), tokenizer=url
    ),
    "read": lambda url: fastpack.read(url, storage=QUICK),
    "read to": lambda url: fastpack.read("s3://bucket/x", cache_dir=url),
    "load": fastpack.hf.load,
    "verify": lambda url: fastpack.verify(url, storage=QUICK),
    "status": lambda url: fastpack.status(url, storage=QUICK),
    "export": lambda url: fastpack.export(url, "exported", format="megatron", storage=QUICK),
    "export to": lambda url: fastpack.export("packed", url, format="megatron"),
    "reindex": lambda url: fastpack.reindex(url, output="reindexed", storage=QUICK),
    "reindex to": lambda url: fastpack.reindex("data.jsonl", output=url, storage=QUICK),
    "Report.of": lambda url: fastpack.Report.of(url, storage=QUICK),
    "Report.from_json": fastpack.Report.from_json,
    "load_config": fastpack.load_config,
    "connect": lambda url: fastpack.connect(url, rank=0, world_size=1),
    "wandb.log": lambda url: fastpack.wandb.log(url, NO_RUN),
    "wandb.log inputs": lambda url: fastpack.wandb.log("packed", NO_RUN, inputs=url),
    "wandb.use to": lambda url: fastpack.wandb.use("packed:latest", NO_RUN, root=url),
    "Tokenizer": fastpack.Tokenizer,
    "Tokenizer.revision": lambda url: fastpack.Tokenizer("a/b", revision=url),
    "load_state_dict": lambda url: flat.stream("data.jsonl", max_length=8, tokenizer=None).load_state_dict(
        {"version": url, url: url}
    ),
}
"""Calls that take a path, an address or a name, beside those of the table."""


def raised_by(call, url):
    """All texts of the exception of a call, if it raises one."""
    try:
        call(url)
    except Exception as error:
        return everything_in(error)
    return ""


@pytest.mark.parametrize("call", sorted(OTHERS))
def test_no_other_call_tells_a_secret(call, place):
    said = {name: raised_by(OTHERS[call], url) for name, url in urls().items()}
    told = [(name, text) for name, text in said.items() if CANARY in text]
    assert not told, (len(told), told[0])
    assert CANARY not in names_below(place)


@pytest.fixture
def one_parser(monkeypatch):
    """Makes the parser once: there are many command lines."""
    monkeypatch.setattr(sys.modules["fastpack.cli.parser"], "parser", functools.cache(parser))


def command(*arguments):
    """All that a command line prints."""
    out, err = io.StringIO(), io.StringIO()
    out.buffer = io.BytesIO()  # as the real one has it, for rows
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), contextlib.suppress(SystemExit):
        main([str(argument) for argument in arguments])
    return out.getvalue() + err.getvalue() + out.buffer.getvalue().decode("latin-1")


def flags_of(name):
    """The flags of a command that take a value."""
    [commands] = [action for action in parser()._actions if action.dest == "command"]
    for action in commands.choices[name]._actions:
        if action.option_strings and action.nargs != 0 and "--no-" not in action.option_strings[-1]:
            yield action.option_strings[-1]


COMMANDS = [
    *("pack", "repack", "scan", "stream", "index", "reindex"),
    *("inspect", "verify", "report", "status", "tokenizer"),
]


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_line_tells_a_secret(name, place, tokenizer_dir, one_parser):
    needed = {
        "pack": ["data.jsonl", "-o", "out", "-t", tokenizer_dir, "-m", "256", "--no-progress"],
        "scan": ["data.jsonl", "-t", tokenizer_dir, "-m", "256"],
        "stream": ["data.jsonl", "-t", tokenizer_dir, "-m", "256"],
        "index": ["data.jsonl", "-t", tokenizer_dir, "-m", "256"],
        "repack": ["-i", "kept", "-o", "out", "-m", "256"],
        "reindex": ["data.jsonl", "-o", "reindexed"],
    }.get(name, ["packed"])
    chance = random.Random(name)
    told = []
    quick = ["--storage", '{"max_retries": "0", "connect_timeout": "1s"}']
    for flag in [*flags_of(name), None]:
        values = [*urls().values(), *(json.dumps({"path": url}) for url in urls().values())]
        for url in tries(chance.sample(values, 1), values):
            wrong = [f"{{{url}", f'["{url}"]', f"key={CANARY}", f'{{"timeout": "{CANARY}"}}']
            value = chance.choice(wrong) if flag == "--storage" else url
            own = (
                quick
                if name in {"pack", "scan", "stream", "index", "status", "reindex"} and flag != "--storage"
                else []
            )
            said = command(name, *needed, *own, *([flag, value] if flag else [value]))
            if CANARY in said:
                told.append((flag, value, said))
    for url in tries(chance.sample([*urls().values()], 4), [*urls().values()]):
        own = quick if name != "tokenizer" else []
        said = command(url) + command(name, f"--{url}") + command(name, url, url, *own)
        if CANARY in said:
            told.append((None, url, said))
    assert not told, (len(told), told[0])
    assert CANARY not in names_below(place)


def test_no_recipe_tells_a_secret(place):
    told = []
    for option in options_of("pack_dir"):
        for value in tries(random.Random(option.name).sample([*urls().values()], 3), [*urls().values()]):
            for text in (
                json.dumps(value),
                f"[{json.dumps(value)}]",
                json.dumps(value)[:-1],
                f"{{path = {json.dumps(value)}}}",
            ):
                recipe = place / "recipe.toml"
                recipe.write_text(f"{option.name} = {text}\n")
                try:
                    fastpack.load_config(recipe)
                except Exception as error:
                    if CANARY in everything_in(error):
                        told.append((option.name, text, everything_in(error)))
    assert not told, (len(told), told[0])


@pytest.mark.parametrize("option", ["filter", "map"])
def test_no_function_that_is_a_url_tells_a_secret(option, place):
    for url in urls().values():
        (place / "recipe.toml").write_text(f"{option} = {json.dumps(url)}\n")
        with pytest.raises(fastpack.OptionError) as failed:
            fastpack.load_config(place / "recipe.toml")
        assert CANARY not in everything_in(failed.value)


def test_what_a_job_leaves_holds_no_secret(place, tokenizer_dir):
    (place / "web").mkdir()
    (place / "web/0.jsonl").write_bytes((place / "data.jsonl").read_bytes())
    left = place / "left"
    with serving(place / "web") as server:
        host = server.url.removeprefix("http://")
        for form in ("http://user:{0}@{1}/0.jsonl?sig={0}", "HTTP://{0}@{1}/0.jsonl#{0}"):
            url = form.format(CANARY, host)
            for files in ({"files": url}, {"sources": [{"path": url}]}):
                options = {"tokenizer": tokenizer_dir, "max_length": 256, "token": CANARY, "overwrite": True}
                options["storage_options"] = {"aws_secret_access_key": CANARY}
                options["cache_dir"] = left / "cache"
                report = flat.pack_dir(
                    **files, **options, output=left / "out", block_cache="1GB", progress=False
                )
                assert CANARY not in str(report) + json.dumps(report.to_dict())
                with flat.stream(
                    **{"files" if isinstance(it, str) else "sources": it for it in files.values()},
                    **{name: value for name, value in options.items() if name != "overwrite"},
                ) as rows:
                    table = next(iter(rows))
                    said = [repr(rows), str(rows.state_dict()), str(rows.stats()), str(table.schema.metadata)]
                    assert CANARY not in "\n".join(said)
                assert json.loads((left / "out/manifest.json").read_bytes())["recipe"]
                assert CANARY not in contents_below(left) + names_below(left), form
        assert any(CANARY in path for _, path, _ in server.requests), "the server is asked with the signature"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_signed_url_is_told_to_no_other_server(status, place, tokenizer_dir):
    (place / "web").mkdir()
    (place / "web/0.jsonl").write_bytes((place / "data.jsonl").read_bytes())
    with serving(place / "web") as first, serving(place / "web") as other:
        heard = []

        def sends_on(_):
            return status, {"Location": f"{other.url}/0.jsonl"}, b""

        def listens(handler):
            heard.append(f"{handler.path} {handler.headers}")
            return 200, {"ETag": '"1"'}, (place / "data.jsonl").read_bytes()

        first.pages = {r"/0\.jsonl.*": sends_on, r"/bucket/.*": sends_on}
        other.pages = {".*": listens}
        url = f"http://user:{CANARY}@{first.url.removeprefix('http://')}/0.jsonl?sig={CANARY}"
        flat.pack_files(url, tokenizer_dir, max_length=256, progress=False)
        assert heard
        assert CANARY not in "\n".join(heard)
        assert "referer" not in "\n".join(heard).lower()
        heard.clear()
        options = {
            "aws_endpoint": first.url,
            "aws_allow_http": "true",
            "aws_region": "x",
            "max_retries": "0",
            "aws_access_key_id": CANARY,
            "aws_secret_access_key": CANARY,
            "aws_session_token": CANARY,
        }
        with pytest.raises((fastpack.FastpackError, OSError)):
            flat.pack_files(
                "s3://bucket/0.jsonl", tokenizer_dir, max_length=256, storage_options=options, progress=False
            )
        assert heard == []


WORKER = """
import pickle, sys
for table in pickle.load(sys.stdin.buffer):
    print(table.num_rows)
"""


def test_a_pickle_holds_a_secret_only_for_the_storage_that_it_opens(place, tokenizer_dir, monkeypatch):
    (place / "web").mkdir()
    (place / "web/0.jsonl").write_bytes((place / "data.jsonl").read_bytes())
    of_environment = "c4n4ryOfTheEnvironment"
    for name in ("AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "AZURE_STORAGE_ACCOUNT_KEY"):
        monkeypatch.setenv(name, of_environment)
    with serving(place / "web") as server:
        server.token = f"Basic {base64.b64encode(f'user:{CANARY}'.encode()).decode()}"
        host = server.url.removeprefix("http://")
        options = {
            "tokenizer": str(tokenizer_dir),
            "max_length": 256,
            "storage_options": {"max_retries": "0"},
        }
        with pytest.raises(fastpack.AccessError):
            flat.pack_files(server.url + "/0.jsonl", **options)
        rows = flat.stream(f"http://user:{CANARY}@{host}/0.jsonl", **options)
        sent = pickle.dumps(rows)
        assert CANARY.encode() in sent
        assert of_environment.encode() not in sent
        spawned = subprocess.run([sys.executable, "-c", WORKER], input=sent, capture_output=True, check=False)
        assert (spawned.returncode, spawned.stderr) == (0, b"")
        with rows:
            assert spawned.stdout.split() == [str(table.num_rows).encode() for table in rows]
            assert CANARY not in json.dumps(rows.state_dict()) + repr(rows) + repr(rows.report)
    flat.pack_dir(
        place / "data.jsonl", place / "out", token=CANARY, storage_options={"aws_secret_access_key": CANARY},
        tokenizer=tokenizer_dir, max_length=256, progress=False,
    )  # fmt: skip
    for made in (
        fastpack.Tokenizer(tokenizer_dir, token=CANARY),
        fastpack.Report.of(place / "out"),
        fastpack.inspect(place / "out"),
        flat.scan(place / "data.jsonl", tokenizer_dir, max_length=256, token=CANARY, progress=False),
    ):
        sent = b""
        # An object with the native side of a tokenizer cannot be pickled at all.
        with contextlib.suppress(TypeError):
            sent = pickle.dumps(made)
        assert CANARY.encode() not in sent


RIGHT_SECRETS = {
    "storage": {"aws_secret_access_key": CANARY},
    "storage.options": {"aws_secret_access_key": CANARY},
    "storage.token": CANARY,
}
"""Secrets where they belong, in values that are taken."""

OF_ENVIRONMENT = "s3cr3tOfTheEnvironment"

ENVIRONMENT = (
    *(
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_ACCESS_KEY_ID",
        "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
    ),
    *("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_KEY", "GOOGLE_SERVICE_ACCOUNT_KEY", "WANDB_API_KEY"),
)
"""Variables of the environment that hold secrets."""


@pytest.mark.parametrize("where", sorted(places_in("stream")))
def test_a_pickle_of_a_stream_holds_a_secret_only_in_the_value_in_which_the_caller_gave_it(
    where, place, tokenizer_dir, monkeypatch
):
    """Whatever the option: not in another value, nor in what the stream made of it, and none of the environment."""
    for name in ENVIRONMENT:
        monkeypatch.setenv(name, OF_ENVIRONMENT)
    values = list(values_of(where)) if where not in RIGHT_SECRETS else [RIGHT_SECRETS[where]]
    if where not in ("files", "tokenizer", *RIGHT_SECRETS):
        values = tries(random.Random(where).sample(values, 3), values)
    held = []
    for value in values:
        arguments = arguments_of("stream", place, tokenizer_dir) | given_or_refused(where, value)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                rows = fastpack.stream(**arguments)
                sent = pickle.dumps(rows)
            except (fastpack.FastpackError, TypeError, ValueError):
                continue
        assert OF_ENVIRONMENT.encode() not in sent
        assert CANARY not in repr(rows) + str(rows)
        state = rows.__getstate__()
        arguments = state.pop("given")
        owner = where.partition(".")[0]
        others = {name: it for name, it in arguments.items() if name != owner}
        assert CANARY.encode() not in pickle.dumps([state, others]), where
        held.append(CANARY.encode() in sent)
        again = pickle.loads(sent)
        assert pickle.dumps(again.__getstate__()) == pickle.dumps(rows.__getstate__())
        assert CANARY not in repr(again)
    if where in RIGHT_SECRETS:
        assert held == [True]


def given_or_refused(where, value):
    """The argument that gives a value to an option; as it is where a field refuses it."""
    try:
        return given_at(where, value)
    except (fastpack.FastpackError, TypeError, ValueError):
        return {}


@settings(max_examples=tries(200, 20_000))
@given(
    st.text(max_size=6),
    st.sampled_from(["http", "https", "HTTPS", "hf", "s3", "sftp", "foo+bar"]),
    st.integers(1, 3),
    st.from_regex(r"[a-z][!-~]{0,12}", fullmatch=True),
    st.integers(0, 40),
)
def test_any_password_is_taken_out_of_any_text(before, scheme, slashes, password, padding):
    url = f"{scheme}:{'/' * slashes}user:{'x' * padding}{CANARY}{password}@host/key"
    text = f"{before} `{url}`"
    for said in (without_secrets(text), one_line(text), str(fastpack.OptionError(text, "files"))):
        assert CANARY not in said
    assert "host/key" in without_secrets(text)


def test_an_exception_without_a_secret_keeps_its_arguments():
    name = "/tmp/\udcff at https://host:80/a@b"
    error = fastpack.InputNotFoundError(2, "no such file", name)
    assert (error.filename, error.errno, error.args[1]) == (name, 2, "no such file")


def test_every_call_has_a_case():
    public = {name for name in fastpack.__all__ if callable(getattr(fastpack, name)) and name.islower()}
    cased = {*EVERY_CALL, *(name.partition(" ")[0].partition(".")[0] for name in OTHERS)}
    without_text = {"merge_state_dicts", "plan_step", "state_of"}
    assert public - cased - without_text == set()
    [commands] = [action for action in parser()._actions if action.dest == "command"]
    assert commands.choices.keys() - {*COMMANDS, "completion"} == set()
    marked = {name for name, option in OPTIONS.items() if option.flag and option.flag.secret}
    for name, option in OPTIONS.items():
        marked |= {f"{name}.{field.name}" for field in fields_of(option.kinds.values()) if field.secret}
    # `token` is one of functions that are not in the table.
    assert set(SECRETS) == {*marked, "token"}
