"""An extension of `mkdocstrings`: the options in the docstrings of the functions that take them.

They are added where a function is imported, and `mkdocstrings` reads the source alone.
"""

from __future__ import annotations

import inspect

import griffe

from fastpack import api


class Options(griffe.Extension):
    """Gives the public functions the docstrings that `help` shows."""

    def on_function(self, *, func: griffe.Function, **_: object) -> None:
        """Takes the docstring of the function itself."""
        if func.docstring and func.name in api.__all__ and func.path.startswith("fastpack.api.calls."):
            func.docstring.value = inspect.getdoc(getattr(api, func.name)) or ""
