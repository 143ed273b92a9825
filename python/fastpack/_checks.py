"""Checks of option values in Python. Errors name the option and the valid values."""

from __future__ import annotations

import difflib
import errno
import os
import stat
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args

from fastpack.errors import OptionError, OptionTypeError

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from fastpack._types import StrPath

__all__ = [
    "check_choice",
    "check_switch",
    "check_type",
    "folder_of",
    "is_series",
    "nearest",
    "path_of",
    "regular_file",
    "shown",
]

#: The most characters of a value that a message quotes: enough to recognise it.
_SHOWN: Final = 100


def check_choice(option: str, value: object, literal: object, where: str = "") -> None:
    """Refuses a value that is not one of the words of a `Literal`."""
    words = get_args(literal)
    if not (isinstance(value, str) and value in words):
        choices = ", ".join(f'"{word}"' for word in words)
        message = f"must be one of {choices}{where}, not `{shown(value)}`"
        raise OptionError(message, option)


def check_type(option: str, value: object, types: type | tuple[type, ...], wanted: str) -> None:
    """Refuses a value of another type."""
    if not isinstance(value, types):
        message = f"must be {wanted}, not `{shown(value)}`"
        raise OptionTypeError(message, option)


def check_switch(option: str, value: object) -> None:
    """Refuses a value that is not a boolean."""
    check_type(option, value, bool, "True or False")


def path_of(option: str, value: object, wanted: str) -> str:
    """The text of a path; refuses other types, such as bytes, and texts that cannot name a file."""
    check_type(option, value, (str, os.PathLike), wanted)
    path: object = os.fspath(value)  # type: ignore[call-overload]  # the line above has looked
    check_type(option, path, str, wanted)
    try:
        str(path).encode()
    except UnicodeEncodeError as refused:
        message = f"`{shown(value)}` holds half of a surrogate pair"
        raise OptionError(message, option) from refused
    return str(path)


def is_series(value: object) -> TypeIs[Iterable[object]]:
    """Whether a value is an ordered collection: not a text, a dict or a set."""
    if isinstance(value, (str, bytes, bytearray, os.PathLike, Mapping, AbstractSet)):
        return False
    try:
        iter(value)  # type: ignore[call-overload]  # which is the question
    except TypeError:
        return False
    return True


def folder_of(option: str, value: object) -> str:
    """The text of a folder's path; a leading `~` is the home of the user."""
    path = os.path.expanduser(path_of(option, value, "the path of a folder"))
    if not path:
        message = "must name a folder"
        raise OptionError(message, option)
    return path


def shown(value: object) -> str:
    """Quotes a value for a message, on one line of bounded length."""
    try:
        text = " ".join(repr(value).split())
    except RecursionError:
        text = f"a deeply nested {type(value).__qualname__}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name with the spelling nearest to `name`; `None` if none is near."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1)), None)


def regular_file(path: StrPath) -> Path:
    """Returns the path of a regular file; refuses a pipe or a device, which could block.

    Raises:
        OSError: It is one, or is not there.
    """
    mode = os.stat(path).st_mode  # noqa: PTH116  a path of any kind
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.EINVAL, "is no regular file", os.fspath(path))
    return Path(path)
