"""Packed rows in a PyTorch training loop: data sets, batches, losses, and checks that documents stay apart.

Needs `torch`, which `pip install fastpack[torch]` brings; `import fastpack` alone never loads it.
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401  tells of the missing extra before anything else fails
except ImportError as missing:
    _MESSAGE = "fastpack.torch needs `torch`: pip install 'fastpack[torch]'"
    raise ImportError(_MESSAGE) from missing

from fastpack.torch.batches import collate
from fastpack.torch.losses import WeightedLabels, count_trained, loss
from fastpack.torch.rows import PackedDataset, Row

__all__ = ["PackedDataset", "Row", "WeightedLabels", "collate", "count_trained", "loss"]
