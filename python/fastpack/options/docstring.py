"""`listing_options`: adds the options that a public function takes to its docstring.

A docstring in the source says what the function does. What an option decides is said once, in the table of options.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from fastpack.options import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["listing_options"]

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")

WIDTH: Final = 110
"""Characters of a line of help, as in the source."""


def listing_options(function: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """Puts the options of a function into the `Args` of its docstring, in the order of its signature.

    Without a docstring, as `python -OO` has it, nothing is added.
    """
    if function.__doc__:
        about, returns, rest = inspect.cleandoc(function.__doc__).partition("\n\nReturns:\n")
        title = "" if "\n\nArgs:\n" in about else "\n\nArgs:"
        options = [
            OPTIONS[name].in_call(function.__name__)
            for name in inspect.signature(function).parameters
            if name in OPTIONS
        ]
        listed = "".join(_entry(option.name, option.doc) for option in options)
        function.__doc__ = f"{about}{title}{listed}{returns}{rest}"
    return function


@functools.cache
def _entry(name: str, doc: str) -> str:
    """The lines of an option. Most functions share them; `textwrap` would take ten times as long, 6 ms for all of them."""
    lines = [f"    {name}:"]
    for word in doc.split():
        if len(lines[-1]) + 1 + len(word) <= WIDTH:
            lines[-1] += f" {word}"
        else:
            lines.append(f"        {word}")
    return "".join(f"\n{line}" for line in lines)
