"""Functions of the caller: named by their place, and loaded by it."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from fastpack.arguments.checks import shortened
from fastpack.arguments.urls import is_meant_as_url
from fastpack.errors import OptionError

if TYPE_CHECKING:
    from types import CodeType, ModuleType

__all__ = ["function_at", "place_of", "typed_place"]


_QUOTED: Final = 150
"""The most characters of a place, or of a fault of a file, that a message quotes."""

_TYPED: Final[WeakKeyDictionary[object, str]] = WeakKeyDictionary()
"""The texts that named the functions which were loaded, so that a command can repeat them."""


def place_of(function: object) -> str:
    """The place of a function, as `file.py:name`.

    Raises:
        TypeError: It is in no file under a name.
    """
    code = getattr(function, "__code__", None)
    name = getattr(function, "__qualname__", "<")
    if code is None or "<" in name or not os.path.isfile(code.co_filename):
        raise TypeError(name)
    return f"{os.path.abspath(code.co_filename)}:{name}"  # noqa: PTH100


def function_at(text: str) -> object:
    """Loads the function named by `file.py:name` or `module:name`."""
    place, _, name = text.rpartition(":")
    if not place or is_meant_as_url(text):
        message = f"`{shortened(text, _QUOTED)}` is no function such as filters.py:good or module:good"
        raise OptionError(message, "function")
    try:
        function = getattr(_module(place), name)
    except Exception as refused:  # whatever the file of the caller raises
        message = f"`{shortened(text, _QUOTED)}` cannot be loaded: {type(refused).__name__}: {shortened(str(refused), _QUOTED)}"
        raise OptionError(message, "function") from refused
    with contextlib.suppress(TypeError):  # a callable object may be unhashable, or take no weak references
        _TYPED[function] = text
    return function


def typed_place(function: object) -> str | None:
    """The text by which `function_at` loaded a function; `None` if it did not."""
    with contextlib.suppress(TypeError):
        return _TYPED.get(function)
    return None


class _AsWritten(SourceFileLoader):
    """Loads the current text of a file. Python takes the bytecode of another text of the same second and length for its own."""

    def get_code(self, fullname: str) -> CodeType:
        """Compiles the file."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def file_of(function: object) -> str | None:
    """The file that a function was loaded from, if another process has to load it too."""
    module = sys.modules.get(str(getattr(function, "__module__", "")))
    loader = getattr(getattr(module, "__spec__", None), "loader", None)
    return str(loader.path) if isinstance(loader, _AsWritten) else None


def load_file(place: str | None) -> None:
    """Loads the functions of a file, if there is one, so that `pickle` finds them by their names."""
    if place is not None:
        _module(place)


def _module(place: str) -> ModuleType:
    if not place.endswith(".py"):
        return importlib.import_module(place)
    name = f"fastpack_functions_{Path(place).stem}"
    spec = importlib.util.spec_from_file_location(name, place, loader=_AsWritten(name, place))
    if spec is None or spec.loader is None:
        raise ImportError(place)
    module = importlib.util.module_from_spec(spec)
    # Classes such as dataclasses look up their module in `sys.modules`.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
