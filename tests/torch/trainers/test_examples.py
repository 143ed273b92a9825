"""The scripts of `examples/` train, and their loss falls; of rewards, none is a loss that falls within two steps."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from places import ROOT

REWARDED = "examples/train_grpo.py"

SCRIPTS = sorted({str(path.relative_to(ROOT)) for path in ROOT.glob("examples/**/train_*.py")} - {REWARDED})


def printed(script, folder):
    done = subprocess.run(
        [sys.executable, script],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("script", SCRIPTS)
def test_an_example_trains(script, tmp_path):
    said = printed(script, tmp_path)
    losses = [float(found) for found in re.findall(r"'?\bloss'?:? '?(\d+\.\d+)", said)]
    assert len(losses) >= 3, said
    assert losses[-1] < losses[0]


def test_the_example_of_rewards_takes_two_steps(tmp_path):
    said = printed(REWARDED, tmp_path)
    # The rewards of the answers to a prompt differ, so that the model learns from both steps.
    for name in ("reward_std", "grad_norm"):
        found = [float(value) for value in re.findall(rf"'{name}': '([-.e\d]+)'", said)]
        assert len(found) == 2, said
        assert min(found) > 0, said
    # Prompts that are longer than `max_length` are none of them: 4 prompts with answers of 16 tokens each.
    tokens = [int(value) for value in re.findall(r"'num_tokens': '(\d+)'", said)]
    assert all(step <= 4 * (64 + 16) for step in (tokens[0], tokens[1] - tokens[0])), said
