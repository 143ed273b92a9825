"""The default memory limit for the documents of a call."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from fastpack.runtime import cgroup

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["available_memory"]

#: The rest is for the page cache, which makes reading back fast, and for a trainer on the same machine.
_SHARE: Final = 4

#: The assumed memory of a machine that does not report it: 8 GiB.
_UNKNOWN: Final = 8 << 30


def available_memory() -> int:
    """Returns a quarter of the memory of this machine, or of its control group if that has less, in bytes."""
    limits = [folder / "memory.max" for folder in cgroup.folders()]
    limits.append(cgroup.ROOT / "memory" / "memory.limit_in_bytes")
    found = filter(None, [_physical(), *map(_limit, limits)])
    return min(found, default=_UNKNOWN) // _SHARE


def _physical() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None  # such as on Windows


def _limit(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None  # the root has no such file, and `max` is no limit
