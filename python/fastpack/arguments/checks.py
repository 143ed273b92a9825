"""Checks of option values in Python. Errors name the option and the valid values."""

from __future__ import annotations

import difflib
import errno
import os
import stat
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args

from fastpack._fastpack import without_secrets
from fastpack.arguments.failures import noted
from fastpack.arguments.urls import collapsed_scheme, is_mistyped_url, is_wrapped_url, scheme_of
from fastpack.errors import OptionError, OptionTypeError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from typing_extensions import TypeIs

    from fastpack.types import StrPath

__all__ = [
    "check_choice",
    "check_switch",
    "check_text",
    "check_type",
    "folder_of",
    "is_series",
    "local_path",
    "nearest",
    "path_of",
    "reason_of",
    "refuse_collapsed",
    "regular_file",
    "shortened",
    "shown",
    "whole_number",
    "whole_numbers",
]

_REMEDIES: Final = {
    "output": "write to this machine, and copy the result there",
    "html": "write to this machine, and copy the page there",
    "path": "write to this machine, and copy the page there",
    "root": "write to this machine, and copy the folder there",
    "cache_dir": "name a folder of this machine",
    "work_dir": "name a folder of this machine",
    "state": "name a file of this machine",
}
"""Remedies for options that write or keep files and were given a URL. All other options read, and are told to copy."""

#: The most characters of a value that a message quotes: enough to recognise it.
_SHOWN: Final = 100

#: The most characters of another library's reason in a message.
_REASON: Final = 200


def check_choice(option: str, value: object, literal: object, where: str = "") -> None:
    """Refuses a value that is not one of the words of a `Literal`."""
    words = get_args(literal)
    if not (isinstance(value, str) and value in words):
        choices = ", ".join(f'"{word}"' for word in words)
        message = f"must be one of {choices}{where}, not `{shown(value)}`"
        raise OptionError(message, option)


def check_type(
    option: str, value: object, types: type | tuple[type, ...], wanted: str, *, secret: bool = False
) -> None:
    """Refuses a value of another type; of a `secret` one the message has the type alone."""
    if not isinstance(value, types):
        named = f"a `{type(value).__qualname__}`" if secret else f"`{shown(value)}`"
        message = f"must be {wanted}, not {named}"
        raise OptionTypeError(message, option)


def check_switch(option: str, value: object) -> None:
    """Refuses a value that is not a boolean."""
    check_type(option, value, bool, "True or False")


def whole_number(option: str, value: object, least: int) -> int:
    """The value of an option that is a whole number of 63 bits, from `least` on; refuses others."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not least <= int(value) < 1 << 63:
        message = f"must be a whole number from {least} on, not `{shown(value)}`"
        raise OptionError(message, option)
    return int(value)


def whole_numbers(option: str, values: object) -> npt.NDArray[np.int64]:
    """The values of an option as int64, in one dimension; refuses those that a cast would change."""
    import numpy as np  # noqa: PLC0415  importing fastpack is to cost nothing

    if hasattr(values, "detach"):
        values = values.detach().cpu()  # a tensor of a device, which numpy does not read
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, OverflowError) as refused:
        message = f"must be whole numbers in one dimension, not `{shown(values)}`"
        raise OptionError(message, option) from refused
    if np.ma.isMaskedArray(values) or (
        array.dtype.kind == "u" and array.size and array.max() > np.iinfo(np.int64).max
    ):
        message = "must not be masked, and must fit 64 bits with a sign"
        raise OptionError(message, option)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        message = (
            "must be whole numbers in one dimension, not an array of "
            f"{array.dtype} with {array.ndim} dimensions"
        )
        raise OptionError(message, option)
    return np.ascontiguousarray(array, dtype=np.int64)


def path_of(option: str, value: object, wanted: str) -> str:
    """The text of a path; refuses other types, such as bytes, and texts that cannot name a file."""
    check_type(option, value, (str, os.PathLike), wanted)
    path: object = os.fspath(value)  # type: ignore[call-overload]  # the line above has looked
    check_type(option, path, str, wanted)
    check_text(option, str(path))
    if is_mistyped_url(str(path)):
        message = f"`{shown(value)}` is neither a path nor a URL; a URL begins with its scheme and two slashes, such as https://"
        raise OptionError(message, option)
    return str(path)


def check_text(option: str, text: str, *, secret: bool = False) -> None:
    """Refuses a text that UTF-8 cannot write; a `secret` one is not quoted."""
    try:
        text.encode()
    except UnicodeEncodeError:
        named = "a text" if secret else f"`{shown(text)}`"
        message = f"{named} holds half of a surrogate pair; give a text that UTF-8 can write"
        raise OptionError(message, option) from None


def is_series(value: object) -> TypeIs[Iterable[object]]:
    """True if a value is an ordered collection: not a text, a dict or a set."""
    if isinstance(value, (str, bytes, bytearray, os.PathLike, Mapping, AbstractSet)):
        return False
    try:
        with noted("while fastpack asked an iterable for its items"):
            iter(value)  # type: ignore[call-overload]  # which is the question
    except TypeError:
        return False
    return True


def folder_of(option: str, value: object, *, takes_urls: bool = False) -> str:
    """The text of a folder's path; a leading `~` is the home of the user. Refuses a URL unless these are taken."""
    wanted = "the path of a folder"
    if takes_urls:
        path = os.path.expanduser(path_of(option, value, wanted))
        refuse_collapsed(option, path)
        _refuse_wrapped(option, path)
    else:
        path = local_path(option, value, wanted)
    if not path:
        message = "must name a folder"
        raise OptionError(message, option)
    return path


def local_path(option: str, value: object, wanted: str) -> str:
    """The text of a path of this machine; a leading `~` is the home of the user. Refuses a URL, which names no such path."""
    path = os.path.expanduser(path_of(option, value, wanted))
    # The rest of the URL may be a secret.
    scheme = scheme_of(path) or collapsed_scheme(path)
    if scheme:
        remedy = _REMEDIES.get(option, "copy it to this machine, and name the copy")
        message = f"must be a path of this machine, not a URL, `{scheme}://`; {remedy}"
        raise OptionError(message, option)
    _refuse_wrapped(option, path)
    return path


def _refuse_wrapped(option: str, path: str) -> None:
    """Refuses text around a URL, such as JSON: a folder of that name would hold its secrets."""
    if is_wrapped_url(path):
        message = "has a URL in it, but does not begin with its scheme; give the URL alone"
        raise OptionError(message, option)


def refuse_collapsed(option: str, path: str) -> None:
    """Refuses a URL that went through `pathlib`, which leaves one slash of two."""
    scheme = collapsed_scheme(path)
    if scheme:
        message = f"has lost a slash of {scheme}://; give URLs as texts, not as `pathlib.Path`, unlike `{shown(path)}`"
        raise OptionError(message, option)


def shown(value: object) -> str:
    """Quotes a value for a message, on one line of bounded length, without the secrets of URLs."""
    try:
        # A password that is cut in its middle is no longer known as one.
        text = " ".join(without_secrets(repr(value)).split())
    except RecursionError:
        text = f"a deeply nested {type(value).__qualname__}"
    except ValueError:  # of more digits than Python writes
        text = f"a vast {type(value).__qualname__}"
    except Exception:  # noqa: BLE001  whatever the `__repr__` of a caller raises: the message is about the option
        text = f"a {type(value).__qualname__} without a repr"
    return shortened(text, _SHOWN)


def reason_of(raised: BaseException) -> str:
    """The first line of another library's reason, shortened."""
    lines = str(raised).strip().splitlines()
    return shortened(lines[0].strip() if lines else type(raised).__name__, _REASON)


def shortened(text: str, most: int) -> str:
    """A text of at most so many characters, and dots if it was cut."""
    return text if len(text) <= most else f"{text[:most]}..."


def nearest(name: str, known: Iterable[str], *, likeness: float = 0.6) -> str | None:
    """The known name with the spelling nearest to `name`; `None` if none is so like it, from 0 to 1."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=likeness)), None)


def regular_file(path: StrPath) -> Path:
    """Returns the path of a regular file; refuses a pipe or a device, which could block.

    Raises:
        OSError: It is one, or is not there.
    """
    mode = os.stat(path).st_mode  # noqa: PTH116  a path of any kind
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.EINVAL, "is no regular file", os.fspath(path))
    return Path(path)
