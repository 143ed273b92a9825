"""The scripts of `examples/` train, and their loss falls."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "script", sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("examples/**/train_*.py"))
)
def test_an_example_trains(script, tmp_path):
    done = subprocess.run(
        [sys.executable, script],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": "python", "TMPDIR": str(tmp_path), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    losses = [float(found) for found in re.findall(r"'?\bloss'?:? '?(\d+\.\d+)", done.stdout)]
    assert len(losses) >= 3, done.stdout
    assert losses[-1] < losses[0]
