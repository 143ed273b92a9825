"""Tells URLs from paths."""

from __future__ import annotations

import os
import re
from typing import Final

__all__ = ["collapsed_scheme", "is_meant_as_url", "is_mistyped_url", "is_url", "is_wrapped_url", "scheme_of"]

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
"""The beginning of a URL."""

_COLLAPSED: Final = re.compile(r"(s3a?|gc?s|azure|az|abfss?|https?|hf):/(?!/)", re.IGNORECASE)
"""A URL with one slash."""

_SCHEMES: Final = "https?|s3a?|gs|gcs|az|azure|abfss?|hf|ftps?|sftp|tcp"
"""Schemes of URLs that a path does not begin with by chance."""

_MISTYPED: Final = re.compile(
    rf"\s+(?:{_SCHEMES}):[/\\]|\s*(?:{_SCHEMES}):\\|\s*https?:(?:///|[^/\\\s]*@)", re.IGNORECASE
)
"""The beginning of a text that was meant as a URL, with a space before it, or with no slashes or other ones."""

_WRAPPED: Final = re.compile(rf"://|[^\w/\\.-](?:{_SCHEMES}):(?:[/\\]|[^/\\\s]*@)", re.IGNORECASE)
"""A URL, or a text that was meant as one, behind something else, such as the quote of a JSON text."""


def is_url(text: str) -> bool:
    """Tells URLs from paths."""
    return bool(_URL.match(text))


def scheme_of(text: str) -> str | None:
    """The scheme of a URL; `None` for a path."""
    found = _URL.match(text)
    return found[1] if found else None


def collapsed_scheme(text: str) -> str | None:
    """The scheme of a URL with one slash, which is no path that exists; `None` for a path."""
    found = None if os.path.lexists(text) else _COLLAPSED.match(text)
    return found[1] if found else None


def is_wrapped_url(text: str) -> bool:
    """True if a URL lies within a text that does not begin with one."""
    return scheme_of(text) is None and _WRAPPED.search(text) is not None


def is_meant_as_url(text: str) -> bool:
    """True for a URL, however it is written, and for a text with one in it."""
    stripped = text.lstrip()
    return (
        bool(scheme_of(stripped) or collapsed_scheme(stripped))
        or is_mistyped_url(text)
        or is_wrapped_url(text)
    )


def is_mistyped_url(text: str) -> bool:
    """Tells mistyped URLs from paths. A mistyped URL that is taken for a path leaves its password in the name of a folder."""
    return _MISTYPED.match(text) is not None
