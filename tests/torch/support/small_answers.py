"""Answers of reinforcement learning, and a model that packs nothing together."""

from __future__ import annotations

import numpy as np
import torch


def sequences_of(lengths, seed=0, vocabulary=50):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(vocabulary, (length,), generator=generator) for length in lengths]


class Model(torch.nn.Module):
    """A recurrent model that begins anew at each sequence, as attention within documents does."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.embed = torch.nn.Embedding(50, 8, dtype=torch.float64)
        self.mix = torch.nn.Linear(16, 8, dtype=torch.float64)
        self.head = torch.nn.Linear(8, 50, dtype=torch.float64)

    def forward(self, input_ids, position_ids):
        outputs = []
        for row, places in zip(input_ids, position_ids, strict=True):
            hidden = torch.zeros(8, dtype=torch.float64)
            for token, place in zip(self.embed(row), places, strict=True):
                hidden = torch.tanh(self.mix(torch.cat([token, hidden * (place != 0)])))
                outputs.append(hidden)
        return self.head(torch.stack(outputs)).unflatten(0, input_ids.shape)


def answers():
    rng = np.random.default_rng(4)
    lengths = rng.integers(3, 14, 12).tolist()
    ids = sequences_of(lengths, seed=2)
    masks = [torch.tensor([0] + [1] * (length - 1)) for length in lengths]
    masks[3] = torch.zeros(lengths[3], dtype=torch.int64)  # an answer of which nothing is trained
    masks[5][2] = 0  # the result of a tool
    return (
        {
            "input_ids": ids,
            "loss_mask": masks,
            "advantages": [
                torch.full((length,), float(rng.normal()), dtype=torch.float64) for length in lengths
            ],
            "old": [-3 * torch.from_numpy(rng.random(length)) for length in lengths],
        },
        lengths,
        [at // 4 for at in range(12)],
    )


def clipped(told, old, advantages):
    ratio = (told - old).exp()
    return -torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
