"""The default number of threads of a call."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fastpack.runtime import cgroup

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["available_threads", "is_one_of_many", "local_ranks"]


def available_threads() -> int:
    """The number of cores that affinity and cgroup quota allow, divided by the ranks of this machine."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota()
    if quota is not None:
        cores = min(cores, quota)
    return max(1, cores // local_ranks())


def local_ranks() -> int:
    """The number of ranks on this machine, as torchrun tells it; 1 if it does not."""
    ranks = os.environ.get("LOCAL_WORLD_SIZE", "")
    return max(1, int(ranks)) if ranks.isdecimal() else 1


def is_one_of_many() -> bool:
    """True if other ranks, which `torchrun` or Slurm started, run the same script."""
    ranks = [os.environ.get(name, "") for name in ("WORLD_SIZE", "SLURM_NTASKS")]
    return any(count.isdecimal() and int(count) > 1 for count in ranks)


def _quota() -> int | None:
    """The number of cores that the cgroup of this process may use, rounded down but at least 1; `None` without a limit."""
    limits = [limit for limit in (_quota_v2(), _quota_v1()) if limit is not None]
    return max(1, int(min(limits))) if limits else None


def _quota_v2() -> float | None:
    return min(filter(None, map(_limit, cgroup.folders())), default=None)


def _limit(folder: Path) -> float | None:
    try:
        quota, period = (folder / "cpu.max").read_text(encoding="utf-8").split()
        return float(quota) / float(period)
    except (OSError, ValueError):
        return None  # the root has no such file, and `max` is no limit


def _quota_v1() -> float | None:
    try:
        quota = int((cgroup.ROOT / "cpu/cpu.cfs_quota_us").read_text(encoding="utf-8"))
        period = int((cgroup.ROOT / "cpu/cpu.cfs_period_us").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return quota / period if quota > 0 and period > 0 else None
