"""A folder from others runs nothing and fetches nothing: its manifest, report and tokenizer only name code."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sealing import seal_again

import fastpack
import fastpack.hf
from fastpack.cli import main

PLANTED = """
from pathlib import Path
Path(__file__).with_suffix(".ran").touch()
def f(batch):
    return [True] * len(batch)
"""

REFUSED = "{% set c = cycler('a', 'b') %}{% for m in messages %}{{ c.next() }}{{ m.content }}{% endfor %}"
"""A template that fastpack refuses and `transformers` renders."""

FUNCTIONS = ("filter", "map")


@pytest.fixture
def folder(corpus, tokenizer_dir, tmp_path):
    """A packed folder, as it was made."""
    packed = tmp_path / "packed"
    fastpack.pack_dir(corpus, packed, tokenizer=tokenizer_dir, max_length=256, progress=False)
    return packed


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A folder on the module search path, and the present one, with code under names that something could import."""
    place = tmp_path / "planted"
    place.mkdir()
    for name in ("canary", "json", "transformers", "sitecustomize", "torch"):
        (place / f"{name}.py").write_text(PLANTED)
    (place / "canary.pth").write_text("import canary\n")
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.chdir(place)
    yield place
    sys.modules.pop("canary", None)


def ran(place):
    """The names of the planted files that ran."""
    return sorted(path.stem for path in place.glob("*.ran"))


def rewrite(folder, change):
    """Changes the manifest of a folder, as whoever sends the folder could."""
    seal_again(folder, change)


def command(*arguments):
    """Runs a command line in this process."""
    with contextlib.suppress(SystemExit):
        main([str(argument) for argument in arguments])


def everything_that_reads(folder, to, tokenizer):
    """All ways to open a packed folder."""
    html = to / "page.html"
    return {
        "verify": lambda: fastpack.verify(folder),
        "verify with a tokenizer": lambda: fastpack.verify(folder, tokenizer=tokenizer),
        "inspect": lambda: str(fastpack.inspect(folder)),
        "read": lambda: fastpack.read(folder),
        "load": lambda: fastpack.hf.load(folder),
        "report": lambda: fastpack.Report.of(folder).to_html(html, packed=folder),
        "status": lambda: fastpack.status(folder),
        "repack": lambda: fastpack.repack(folder, to / "repacked", max_length=128, progress=False),
        "export": lambda: fastpack.export(folder, to / "exported", format="megatron"),
        "the same job": lambda: fastpack.pack_dir(
            folder.parent / "none.jsonl", folder, tokenizer=tokenizer, max_length=256, progress=False
        ),
        "--like": lambda: command("pack", "--like", folder, "-o", to / "like"),
        "--like --dry-run": lambda: command("pack", "--like", folder, "-o", to / "like", "--dry-run"),
        "fastpack verify": lambda: command("verify", folder),
        "fastpack inspect": lambda: command("inspect", folder),
        "fastpack report": lambda: command("report", folder, "--card"),
        "fastpack repack": lambda: command("repack", "-i", folder, "-o", to / "repacked", "-m", "128"),
        "fastpack status": lambda: command("status", folder),
    }


@pytest.mark.parametrize("place", ["recipe", "unheld", "source", "without transform"])
def test_no_function_that_a_manifest_names_is_loaded(place, folder, planted, tokenizer_dir, tmp_path, capsys):
    for written in ("canary:f", f"{planted}/canary.py:f", "canary.py:f"):

        def plant(manifest, written=written):
            named = dict.fromkeys(FUNCTIONS, {"function": written} if written == "canary:f" else written)
            recipe = manifest["recipe"]
            if place == "unheld":
                recipe["unheld"] = named
            elif place == "source":
                recipe["files"] = [{"path": path, **named} for path in manifest["job"]["inputs"]["files"]]
            else:
                recipe |= named | {"objective": {"kind": "custom", "function": written}}
            if place == "recipe":
                manifest["job"]["made_by"]["transform"] = 'filter named "v1" map has no fingerprint'

        rewrite(folder, plant)
        shutil.copytree(planted, folder, dirs_exist_ok=True)
        for name, call in everything_that_reads(folder, tmp_path, tokenizer_dir).items():
            with contextlib.suppress(fastpack.FastpackError):
                call()
            assert not ran(planted), name
            assert not ran(folder), name
    capsys.readouterr()


def test_a_function_of_a_manifest_is_named_and_asked_for(folder, planted, tmp_path, capsys):
    rewrite(folder, lambda manifest: manifest["recipe"].update(filter="canary:f"))
    assert main(["pack", "--like", str(folder), "-o", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert f"`--filter`: was the function `canary:f` in `{folder}`" in said
    assert said.count("\n") == 1
    again = [
        "pack",
        "--like",
        str(folder),
        "-o",
        str(tmp_path / "out"),
        "--filter",
        "canary.py:f",
        "--no-progress",
    ]
    assert main(again) == 0
    assert ran(planted) == ["canary"]


@pytest.mark.parametrize("option", ["output", "exists", "progress", "groups.rank", "groups.world_size"])
def test_a_manifest_decides_nothing_that_belongs_to_one_call(option, folder, tmp_path, capsys):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "kept").write_text("theirs")
    value = {"output": str(theirs), "exists": "overwrite"}.get(option, 1)
    holder, _, field = option.partition(".")
    given = {holder: {"size": "1GB", field: value} if field else value}
    rewrite(folder, lambda manifest: manifest["recipe"].update(given))
    assert main(["pack", "--like", str(folder), "-o", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert f"{option.replace('_', '-')}`: {folder}/manifest.json: belongs to one call" in said
    assert sorted(path.name for path in theirs.iterdir()) == ["kept"]
    assert not (tmp_path / "out").exists()


def test_verify_compares_documents_of_functions_that_it_is_given(corpus, tokenizer_dir, tmp_path):
    folder = tmp_path / "packed"
    given = {"filter": some, "map": same}
    options = {"tokenizer": tokenizer_dir, "max_length": 256, "progress": False}
    fastpack.pack_dir(corpus, folder, **options, **given)
    found = fastpack.verify(folder)
    assert (found.problems, found.made_again) == ((), 0)
    [note] = found.notes
    assert note == (
        "all documents of the inputs, as they went through `filter` and `map`, which a manifest only names: pass the same again"
    )
    one = fastpack.verify(folder, filter=some)
    assert (one.problems, one.made_again, "through `map`," in one.notes[0]) == ((), 0, True)
    both = fastpack.verify(folder, **given)
    assert (both.problems, both.notes, both.made_again > 0) == ((), (), True)
    other = fastpack.verify(folder, filter=same, map=same)
    assert other.problems
    wrong = fastpack.verify(folder, filter=others, map=same)
    assert wrong.problems


def some(batch):
    """Every other record."""
    return [at % 2 == 0 for at in range(len(batch))]


def others(batch):
    """The records in between."""
    return [at % 2 == 1 for at in range(len(batch))]


def same(batch):
    """All that comes."""
    return batch


@pytest.mark.parametrize("name", ["evil/name", "evil", "http://127.0.0.1:9/tokenizer"])
def test_a_tokenizer_that_a_report_names_is_not_fetched(name, folder, monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr("fastpack.tokenizer.hub.download_tokenizer", lambda *_, **__: asked.append(name))
    monkeypatch.setattr(
        "fastpack.tokenizer.arguments.download_tokenizer", lambda *_, **__: asked.append(name)
    )
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setattr("fastpack.dataset.verification._Findings._recorded", lambda _: name)
    report = json.loads((folder / "report.json").read_bytes())
    (folder / "report.json").write_text(json.dumps({**report, "tokenizer": name}))
    found = fastpack.verify(folder)
    assert found.made_again == 0
    assert not fastpack.inspect(folder).has_text
    assert not asked


def test_the_process_that_renders_templates_imports_nothing_of_the_present_folder(
    planted, corpus, tokenizer_dir, tmp_path
):
    # A console script has its own folder first on the search path, not the present one.
    script = tmp_path / "bin" / "packs.py"
    script.parent.mkdir()
    script.write_text(
        "import sys, fastpack\n"
        "fastpack.pack_files(sys.argv[1], sys.argv[2], max_length=256, train_on='all', "
        "chat_template=fastpack.ChatTemplate(sys.argv[3], engine='python'), progress=False)\n"
    )
    (planted / "torch.py").unlink()
    done = subprocess.run(
        [sys.executable, str(script), str(corpus), str(tokenizer_dir), REFUSED],
        cwd=planted,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert ran(planted) == []


def test_a_tokenizer_folder_that_names_code_runs_none(planted, tokenizer_dir, corpus, tmp_path):
    theirs = tmp_path / "theirs"
    shutil.copytree(tokenizer_dir, theirs)
    shutil.copytree(planted, theirs, dirs_exist_ok=True)
    for file in ("tokenizer_config.json", "config.json"):
        path = theirs / file
        held = json.loads(path.read_text()) if path.exists() else {}
        held |= {
            "auto_map": {"AutoTokenizer": ["canary.f", "canary.f"], "AutoConfig": "canary.f"},
            "tokenizer_class": "canary.f",
            "trust_remote_code": True,
        }
        path.write_text(json.dumps(held))
    with contextlib.suppress(fastpack.FastpackError):
        fastpack.pack_files(corpus, theirs, max_length=256, progress=False)
    with contextlib.suppress(fastpack.FastpackError):
        fastpack.Tokenizer(theirs)
    assert ran(planted) == ran(theirs) == []


def test_nothing_trusts_code_of_others():
    words = ("trust_remote_code", "pickle.load", "torch.load", "eval(", "exec(", "allow_pickle", "marshal")
    root = Path(fastpack.__file__).parent
    found = {
        (path.name, word)
        for path in root.rglob("*.py")
        for word in words
        if word in path.read_text(encoding="utf-8")
    }
    # `model.eval()` of torch, and `trust_remote_code=False`.
    assert found == {
        ("passes.py", "eval("),
        ("build_with_transformers.py", "trust_remote_code"),
        ("loading.py", "trust_remote_code"),
    }
