"""The number of trials of a test: a few in `make test`, many in `make campaign`."""

from __future__ import annotations

import os
from typing import TypeVar

import pytest

T = TypeVar("T")

CAMPAIGN = os.environ.get("FASTPACK_CAMPAIGN") == "1"
"""True if this is a run of `make campaign`."""

campaign_only = pytest.mark.skipif(not CAMPAIGN, reason="`make campaign` tries it")
"""A test or a case of it that takes long, beside a shorter one that shows the same."""


def tries(few: T, many: T) -> T:
    """The cases to try, or their number: `few` in `make test`, `many` in `make campaign`."""
    return many if CAMPAIGN else few
