"""Packed rows in a PyTorch training loop: data sets, batches, losses, and checks that documents stay apart.

Needs `torch`, which `pip install fastpack-train[torch]` brings; `import fastpack` alone never loads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    import torch as _torch  # noqa: F401  tells of the missing extra before anything else fails
except ImportError as missing:
    _MESSAGE = "fastpack.torch needs `torch`: pip install 'fastpack-train[torch]'"
    raise ImportError(_MESSAGE) from missing

from fastpack.torch.checking.checks import check
from fastpack.torch.collation import collate
from fastpack.torch.costs import cost
from fastpack.torch.log_probs import token_log_probs
from fastpack.torch.losses import WeightedLabels, count_trained, loss
from fastpack.torch.pack_sampler import PackSampler
from fastpack.torch.packed_dataset import PackedDataset
from fastpack.torch.reading.columns import Row
from fastpack.torch.results_in_order import restore
from fastpack.torch.steps import MicroBatch, Step, pack_step
from fastpack.torch.streams import StreamDataset

if TYPE_CHECKING:
    from fastpack.torch.callback import CheckCallback
    from fastpack.torch.pictures import PictureCollator
    from fastpack.torch.stream_callback import StreamCallback

__all__ = [
    "CheckCallback",
    "MicroBatch",
    "PackSampler",
    "PackedDataset",
    "PictureCollator",
    "Row",
    "Step",
    "StreamCallback",
    "StreamDataset",
    "WeightedLabels",
    "check",
    "collate",
    "cost",
    "count_trained",
    "loss",
    "pack_step",
    "restore",
    "token_log_probs",
]


def __getattr__(name: str) -> object:
    """Loads what needs `transformers` where it is used."""
    if name == "CheckCallback":
        from fastpack.torch.callback import CheckCallback  # noqa: PLC0415  slow to import

        return CheckCallback
    if name == "PictureCollator":
        from fastpack.torch.pictures import PictureCollator  # noqa: PLC0415  likewise

        return PictureCollator
    if name == "StreamCallback":
        from fastpack.torch.stream_callback import StreamCallback  # noqa: PLC0415  likewise

        return StreamCallback
    message = f"module 'fastpack.torch' has no attribute {name!r}"
    raise AttributeError(message)
