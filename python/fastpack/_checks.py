"""What options may be, where the native module does not look: errors name the option, and what would be right."""

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

#: Characters of a value that a message shows: enough to know it again.
_SHOWN: Final = 100


def check_choice(option: str, value: object, literal: object, where: str = "") -> None:
    """Refuses what is none of the words of a `Literal`."""
    words = get_args(literal)
    if not (isinstance(value, str) and value in words):
        choices = ", ".join(f'"{word}"' for word in words)
        message = f"invalid option `{option}`: must be one of {choices}{where}, not `{shown(value)}`"
        raise OptionError(message, option)


def check_type(option: str, value: object, types: type | tuple[type, ...], wanted: str) -> None:
    """Refuses what is of none of some types."""
    if not isinstance(value, types):
        message = f"invalid option `{option}`: must be {wanted}, not `{shown(value)}`"
        raise OptionTypeError(message, option)


def check_switch(option: str, value: object) -> None:
    """Refuses what is neither true nor false."""
    check_type(option, value, bool, "True or False")


def path_of(option: str, value: object, wanted: str) -> str:
    """The text of a path; refuses what has none, such as bytes, and what no file can be called."""
    check_type(option, value, (str, os.PathLike), wanted)
    path: object = os.fspath(value)  # type: ignore[call-overload]  # the line above has looked
    check_type(option, path, str, wanted)
    try:
        str(path).encode()
    except UnicodeEncodeError as refused:
        message = f"invalid option `{option}`: `{shown(value)}` holds half of a surrogate pair"
        raise OptionError(message, option) from refused
    return str(path)


def is_series(value: object) -> TypeIs[Iterable[object]]:
    """Whether something holds values in an order of their own, as no text does, no dict, and no set."""
    if isinstance(value, (str, bytes, bytearray, os.PathLike, Mapping, AbstractSet)):
        return False
    try:
        iter(value)  # type: ignore[call-overload]  # which is the question
    except TypeError:
        return False
    return True


def folder_of(option: str, value: object) -> str:
    """The text of the path of a folder; a `~` at its beginning is the home of the user."""
    path = os.path.expanduser(path_of(option, value, "the path of a folder"))
    if not path:
        message = f"invalid option `{option}`: must name a folder"
        raise OptionError(message, option)
    return path


def shown(value: object) -> str:
    """A value in a message, in one line of bearable length."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is spelled most like another, if one is."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1)), None)


def regular_file(path: StrPath) -> Path:
    """The path of a file that is no pipe or device, which would be waited for.

    Raises:
        OSError: It is one, or is not there.
    """
    mode = os.stat(path).st_mode  # noqa: PTH116  a path of any kind
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.EINVAL, "is no regular file", os.fspath(path))
    return Path(path)
