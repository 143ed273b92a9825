"""The pages that need torch, TRL or Lightning run from top to bottom."""

from __future__ import annotations

import pytest
from page_blocks import Reader, name_of, pages_of
from page_inputs import prepare


@pytest.mark.parametrize("page", pages_of("torch"), ids=name_of)
def test_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    Reader(tmp_path).follow(page)
