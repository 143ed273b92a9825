"""A release: the sdist holds all that building needs, licences are written down, and no unfit wheel is passed or published."""

from __future__ import annotations

import json
import os
import platform as this_machine
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest
import yaml
from conftest import ROOT
from test_site import script

import fastpack


def test_the_sdist_holds_what_building_needs(tmp_path):
    maturin = shutil.which("maturin", path=f"{sys.prefix}/bin")
    if maturin is None or shutil.which("cargo") is None:
        pytest.skip("maturin and cargo make the sdist")
    subprocess.run([maturin, "sdist", "--out", tmp_path], cwd=ROOT, check=True, capture_output=True)
    [built] = tmp_path.glob("fastpack_train-*.tar.gz")
    with tarfile.open(built) as held:
        names = {name.partition("/")[2] for name in held.getnames()}
        held.extractall(tmp_path, filter="data")
    assert {"Cargo.lock", "pyproject.toml", "README.md", "LICENSE", "THIRD_PARTY_LICENSES.txt"} <= names
    assert {"python/fastpack/__init__.py", "rust/python/src/lib.rs", "rust/core/src/lib.rs"} <= names
    assert not any(name.endswith(".so") for name in names)
    [unpacked] = (path for path in tmp_path.iterdir() if path.is_dir())
    # The manifests and the lock fit together, so that `pip install` gets as far as compiling.
    command = ["cargo", "metadata", "--offline", "--locked", "--format-version", "1"]
    done = subprocess.run(command, cwd=unpacked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_licences_are_those_of_the_crates_that_are_linked_in():
    if shutil.which("cargo") is None:
        pytest.skip("cargo names the crates")
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "licences.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


VERSION = fastpack.__version__
LICENCES = {"LICENSE": b"terms", "THIRD_PARTY_LICENSES.txt": b"terms"}
BILL = {"sboms/fastpack.cyclonedx.json": json.dumps({"components": [{"name": "arrow"}]}).encode()}
HERE, ELSEWHERE = (
    f"manylinux_2_17_{machine}.manylinux2014_{machine}" for machine in (this_machine.machine(), "riscv64")
)


def wheel_in(folder, files, *, platform=HERE, version=VERSION):
    """A wheel of some files beside its metadata, and no code."""
    folder.mkdir(exist_ok=True)
    built = folder / f"fastpack_train-{version}-cp310-abi3-{platform}.whl"
    with zipfile.ZipFile(built, "w") as held:
        for name, content in files.items():
            held.writestr(f"fastpack_train-{version}.dist-info/{name}", content)
    return built


def ran(script, *arguments, **environment):
    """The output of a script, and its exit code."""
    return subprocess.run(
        [sys.executable, ROOT / "scripts" / script, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )


def test_a_wheel_with_its_licences_and_bill_of_materials_passes(tmp_path):
    done = ran("try_built.py", "--look", wheel_in(tmp_path, LICENCES | BILL))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (LICENCES, "lacks its bill of materials (`sboms/*.cyclonedx.json`): it has none"),
        (
            LICENCES | {"sboms/fastpack.cyclonedx.json": b'{"components": []}'},
            "lacks its bill of materials (`sboms/*.cyclonedx.json`): it has one that lists no component",
        ),
        (BILL | {"LICENSE": b"terms"}, "lacks THIRD_PARTY_LICENSES.txt"),
        (LICENCES | BILL | {"data": bytes(10_000_000)}, "bytes, and may have 10,000,000"),
    ],
)
@pytest.mark.parametrize("looked", [["--look"], []])
def test_a_wheel_that_lacks_something_or_is_too_large_fails(tmp_path, files, message, looked):
    built = wheel_in(tmp_path, files)
    done = ran("try_built.py", *looked, built)
    assert done.returncode == 1
    assert f"{built.name} " in done.stderr
    assert message in done.stderr


def test_a_wheel_of_another_machine_is_looked_over_and_said_to_be_untried(tmp_path):
    done = ran("try_built.py", wheel_in(tmp_path, LICENCES | BILL, platform=ELSEWHERE))
    assert done.returncode == 0, done.stderr
    assert "not tried: " in done.stdout
    assert "is for another machine than this" in done.stdout
    assert ran("try_built.py", wheel_in(tmp_path, LICENCES, platform=ELSEWHERE)).returncode == 1


WORKING = {
    "fastpack/__init__.py": """
import os
__version__ = "of the trial"
class Report:
    kept = 30
    def of(table):
        return Report()
    documents = property(lambda self: self)
class Table:
    num_rows = 7
def pack_files(file, tokenizer, *, max_length):
    assert os.path.exists(file) and os.path.exists(tokenizer)
    return Table()
def main():
    pass
""",
    f"fastpack_train-{VERSION}.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n",
    f"fastpack_train-{VERSION}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: fastpack-train\nVersion: {VERSION}\n",
    f"fastpack_train-{VERSION}.dist-info/entry_points.txt": "[console_scripts]\nfastpack = fastpack:main\n",
    f"fastpack_train-{VERSION}.dist-info/RECORD": "",
}
"""A wheel that can be installed without an index, with all that a trial calls."""


@pytest.mark.parametrize("kept", [30, 29])
def test_a_wheel_is_packed_with_in_a_clean_environment(tmp_path, kept):
    built = wheel_in(tmp_path, LICENCES | BILL)
    with zipfile.ZipFile(built, "a") as held:
        for name, content in WORKING.items():
            held.writestr(name, content.replace("kept = 30", f"kept = {kept}"))
    done = ran("try_built.py", "--python", sys.executable, built)
    assert (done.returncode == 0) == (kept == 30), done.stderr
    assert (f"{sys.executable}: of the trial 7 rows\n" in done.stdout) == (kept == 30)


@pytest.mark.parametrize(
    ("platform", "system", "machine"),
    [
        ("manylinux_2_17_x86_64.manylinux2014_x86_64", "Linux", "x86_64"),
        ("manylinux_2_17_aarch64.manylinux2014_aarch64", "Linux", "aarch64"),
        ("macosx_11_0_arm64", "Darwin", "arm64"),
        ("macosx_10_12_x86_64", "Darwin", "x86_64"),
        ("win_amd64", "Windows", "AMD64"),
    ],
)
def test_a_wheel_runs_on_its_own_machine_alone(platform, system, machine):
    runs = script("try_built").runs_here(f"fastpack_train-0.1.0-cp310-abi3-{platform}.whl")
    assert runs == ((system, machine) == (this_machine.system(), this_machine.machine()))


def test_every_python_at_hand_is_tried_and_those_missing_are_named(tmp_path, monkeypatch, capsys):
    try_built = script("try_built")
    kept = tmp_path / "home" / ".pyenv" / "versions" / "3.13.0" / "bin"
    path = tmp_path / "path"
    for folder, name, code in ((path, "python3.10", 0), (path, "python3.12", 1), (kept, "python3.13", 0)):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"#!/bin/sh\nexit {code}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(try_built.sys, "version_info", (3, 14, 0))
    assert try_built.pythons() == [str(path / "python3.10"), str(kept / "python3.13"), sys.executable]
    assert capsys.readouterr().out == "not tried: no Python 3.11, 3.12 on this machine\n"


@pytest.fixture
def uploads(tmp_path):
    """An environment with a twine that writes down how it is called."""
    (tmp_path / "twine.py").write_text(
        "import os, sys\n"
        "with open(os.environ['CALLS'], 'a') as calls:\n"
        "    print(os.environ['TWINE_USERNAME'], os.environ['TWINE_PASSWORD'], *sys.argv[1:], file=calls)\n"
        "sys.exit('broken' in os.environ['TWINE_PASSWORD'])\n"
    )
    return {
        "PYTHONPATH": str(tmp_path),
        "CALLS": str(tmp_path / "calls"),
        "TWINE_PASSWORD": "pypi-secret",
    }


def test_wheels_and_the_sdist_of_the_version_are_uploaded(tmp_path, uploads):
    dist = tmp_path / "dist"
    built = [wheel_in(dist, LICENCES | BILL, platform=platform) for platform in (HERE, ELSEWHERE)]
    built.append(dist / f"fastpack_train-{VERSION}.tar.gz")
    built[-1].touch()
    done = ran("publish.py", dist, **uploads)
    assert (done.returncode, done.stderr) == (0, "")
    files = " ".join(map(str, sorted(built)))
    assert (tmp_path / "calls").read_text() == (
        f"__token__ pypi-secret check --strict {files}\n"
        f"__token__ pypi-secret upload --non-interactive {files}\n"
    )
    assert "pypi-secret" not in done.stdout


@pytest.mark.parametrize(
    ("others", "message"),
    [
        (
            {"fastpack_train-0.0.9.tar.gz": b""},
            f"is of fastpack-train 0.0.9, and the project is fastpack-train {VERSION}",
        ),
        (
            {f"fastpack-{VERSION}.tar.gz": b""},
            f"is of fastpack {VERSION}, and the project is fastpack-train {VERSION}",
        ),
        ({"notes.txt": b""}, "notes.txt is neither a wheel nor an sdist"),
    ],
)
def test_other_files_than_those_of_the_version_are_not_uploaded(tmp_path, uploads, others, message):
    wheel_in(tmp_path / "dist", LICENCES | BILL)
    for name, content in others.items():
        (tmp_path / "dist" / name).write_bytes(content)
    done = ran("publish.py", tmp_path / "dist", **uploads)
    assert done.returncode == 1
    assert message in done.stderr
    assert not (tmp_path / "calls").exists()


def test_an_unfit_wheel_no_wheel_and_no_token_are_not_uploaded(tmp_path, uploads):
    dist = tmp_path / "dist"
    dist.mkdir()
    assert "there is no wheel in the folder" in ran("publish.py", dist, **uploads).stderr
    wheel_in(dist, LICENCES)
    assert "lacks its bill of materials" in ran("publish.py", dist, **uploads).stderr
    wheel_in(dist, LICENCES | BILL)
    assert "TWINE_PASSWORD is not set" in ran("publish.py", dist, **uploads | {"TWINE_PASSWORD": ""}).stderr
    assert not (tmp_path / "calls").exists()
    done = ran("publish.py", dist, **uploads | {"TWINE_PASSWORD": "broken"})
    assert done.returncode == 1
    assert len((tmp_path / "calls").read_text().splitlines()) == 1


def test_make_builds_a_wheel_of_another_target_and_tries_what_runs_here():
    def recipe(*arguments):
        command = ["make", "--dry-run", "wheel", *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    crossed = recipe("TARGET=aarch64-unknown-linux-gnu")
    assert "--zig --compatibility manylinux2014 --target aarch64-unknown-linux-gnu --out dist" in crossed
    for each in (crossed, recipe()):
        assert "python scripts/try_built.py dist/*.whl" in each
    assert "--target" not in recipe()


def test_the_workflow_looks_over_tries_and_attests_each_wheel():
    path = ROOT / ".github" / "workflows" / "wheels.yml"
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    assert "UNTRIED" in path.read_text(encoding="utf-8").partition("name: wheels")[0]

    def steps(job, field):
        return [step[field] for step in jobs[job]["steps"] if field in step]

    assert "python scripts/try_built.py --look dist/*.whl" in steps("wheel", "run")
    built = {row["target"] for row in jobs["wheel"]["strategy"]["matrix"]["include"]}
    trials = jobs["trial"]["strategy"]["matrix"]
    assert {row["target"] for row in trials["built"]} == built
    assert trials["python"] == [f"3.{minor}" for minor in script("try_built").MINORS]
    assert "python scripts/try_built.py --python python dist/*.whl" in steps("trial", "run")
    assert set(jobs["attest"]["needs"]) == {"trial", "sdist"}
    assert jobs["attest"]["permissions"] == {"contents": "read", "id-token": "write", "attestations": "write"}
    assert any(used.startswith("actions/attest-build-provenance@") for used in steps("attest", "uses"))


DEFAULTS = """
import fastpack
from fastpack.options import OPTIONS

for option in OPTIONS.values():
    option.value_in({})
print(fastpack.Reading())
"""


def test_options_are_resolved_by_every_python_at_hand(capsys):
    pythons = script("try_built").pythons()
    if not [python for python in pythons if python != sys.executable]:
        pytest.skip(f"no other Python on this machine: {capsys.readouterr().out}")
    for python in pythons:
        done = subprocess.run(
            [python, "-c", DEFAULTS],
            env={"PYTHONPATH": str(ROOT / "python"), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.stdout, done.stderr) == ("Reading()\n", ""), python
