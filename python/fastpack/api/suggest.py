"""`suggesting`: names the option that a misspelt keyword may have been meant for."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from fastpack._checks import nearest
from fastpack.errors import OptionTypeError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["suggesting"]

Given = ParamSpec("Given")
Returned = TypeVar("Returned")


def suggesting(function: Callable[Given, Returned]) -> Callable[Given, Returned]:
    """The same function, which refuses a keyword that it does not have with the one that is spelled most like it."""
    known = inspect.signature(function).parameters

    @functools.wraps(function)
    def call(*args: Given.args, **kwargs: Given.kwargs) -> Returned:
        unknown = next((name for name in kwargs if name not in known), None)
        if unknown is None:
            return function(*args, **kwargs)
        near = nearest(unknown, known)
        meant = f"; did you mean `{near}`?" if near else ""
        message = f"invalid option `{unknown}`: {function.__name__} has none of that name{meant}"
        raise OptionTypeError(message, unknown)

    return call
