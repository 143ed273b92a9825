"""`SharedNumbers`: whole numbers that a process shares with the workers of its data loaders."""

from __future__ import annotations

import multiprocessing
import os

import torch
from torch.utils.data import get_worker_info

__all__ = ["SharedNumbers"]


class SharedNumbers:
    """Whole numbers in shared memory, 0 at first: set by the process of a loader, seen by its living workers.

    A worker is a process that a `DataLoader` started. All other processes that get a copy, such as ranks, have numbers of
    their own, so that they do not disturb each other.
    """

    def __init__(self, count: int) -> None:
        """Makes so many numbers."""
        self._numbers = _shared([0] * count)
        self._owner = os.getpid()

    def __getitem__(self, at: int) -> int:
        """A number: in a worker, that of the process which started it."""
        self._own()
        return int(self._numbers[at])

    def __setitem__(self, at: int, number: int) -> None:
        """Sets a number, in this process and in those that share it."""
        self._own()
        self._numbers[at] = number

    def _own(self) -> None:
        """Copies the numbers in a process that is not the loader's."""
        parent = multiprocessing.parent_process()
        is_shared = get_worker_info() is not None and parent is not None and parent.pid == self._owner
        if self._owner != os.getpid() and not is_shared:
            self._numbers = _shared(self._numbers.tolist())
            self._owner = os.getpid()


def _shared(numbers: list[int]) -> torch.Tensor:
    tensor = torch.tensor(numbers, dtype=torch.int64)
    try:
        return tensor.share_memory_()
    except (OSError, RuntimeError):
        # A machine that cannot share memory cannot have workers of loaders either.
        return tensor
