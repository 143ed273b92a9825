"""Training on several ranks, as processes of their own that speak through gloo."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from ranks import run_ranks
from small_models import model_of

import fastpack


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_step_of_all_ranks_is_that_of_the_documents_one_by_one(folder, tmp_path, ranks):
    """Two rows a rank under accumulation: their loss and gradients are over all labels of the step."""
    done = run_ranks("one_step.py", folder, tmp_path / "out", ranks=ranks)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(next(line for line in done.stdout.splitlines() if line.startswith('{"loss"')))
    model = model_of("llama")
    before = model.lm_head.weight.detach().clone()
    rows = fastpack.read(folder).to_pylist()[: 2 * ranks]
    trained = sum(label != -100 for row in rows for label in row["labels"])
    total = 0.0
    for row in rows:
        for end, length in zip(np.cumsum(row["seq_lengths"]), row["seq_lengths"], strict=True):
            ids, labels = (torch.tensor([row[name][end - length : end]]) for name in ("input_ids", "labels"))
            alone = model(input_ids=ids, labels=labels, num_items_in_batch=trained).loss
            alone.backward()
            total += alone.item()
    assert found["loss"] == pytest.approx(total, abs=1e-4)
    expected = before - 0.5 * model.lm_head.weight.grad
    moved = (expected - before).abs().max()
    assert (torch.tensor(found["weight"]).reshape(expected.shape) - expected).abs().max() < 1e-4 * moved
