"""The rules of a packing strategy, as the native module knows them."""

from __future__ import annotations

from typing import Final

from fastpack import _fastpack

__all__ = ["cuts_at_row_end", "one_document_a_row"]

_RULES: Final = _fastpack.strategy_rules()


def cuts_at_row_end(strategy: object) -> bool:
    """True if documents are cut where a row ends."""
    return strategy in _RULES["cuts_at_row_end"]


def one_document_a_row(strategy: object) -> bool:
    """True if each document has a row of its own."""
    return strategy in _RULES["one_document_a_row"]
