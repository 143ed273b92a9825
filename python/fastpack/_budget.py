"""How much memory a call may fill with documents by default."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from fastpack import _cgroup

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["available_memory"]

#: The rest is for the page cache, which makes reading back fast, and for the trainer beside.
_SHARE: Final = 4

#: What a machine is taken to have that does not say: 8 GiB.
_UNKNOWN: Final = 8 << 30


def available_memory() -> int:
    """A quarter of the memory, in bytes, that this machine and the control group of this process have."""
    limits = [folder / "memory.max" for folder in _cgroup.folders()]
    limits.append(_cgroup.ROOT / "memory" / "memory.limit_in_bytes")
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
