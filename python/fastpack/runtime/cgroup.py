"""Finds the folders that hold the limits of this process's control group."""

from __future__ import annotations

from pathlib import Path

__all__ = ["ROOT", "folders"]

ROOT = Path("/sys/fs/cgroup")


def folders() -> list[Path]:
    """The folders of this process's cgroup v2 and of its parents; empty where there is no such group."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        own = next(line[3:] for line in lines if line.startswith("0::"))
    except (OSError, StopIteration):
        return []
    return [ROOT / folder.lstrip("/") for folder in [own, *map(str, Path(own).parents)]]
