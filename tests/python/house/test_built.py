"""The contents of a release: the sdist holds all that building needs, and the licences of linked crates are written down."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile

import pytest
from conftest import ROOT


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
