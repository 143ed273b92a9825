"""Errors of the Hugging Face hub, and of the connection to it, as fastpack's own."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from fastpack.errors import FastpackError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["hub_errors_as"]


@contextmanager
def hub_errors_as(refusal: Callable[[str], FastpackError]) -> Iterator[None]:
    """Raises an error of the hub as the one that `refusal` makes of its first line. Needs `huggingface_hub`."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError  # noqa: PLC0415  slow to import

    # A lost connection has the same base as an answer that refuses: it is of the HTTP client that the hub's package uses. Where a file
    # is downloaded, it becomes a missing local file.
    of_client = cast("type[Exception]", HfHubHTTPError.__mro__[1])
    try:
        yield
    except FastpackError:
        raise
    except (HFValidationError, of_client, OSError) as refused:
        lines = str(refused).strip().splitlines()
        raise refusal(lines[0] if lines else type(refused).__name__) from refused
