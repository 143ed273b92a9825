"""`check_fields`: the fields of a sealed manifest have the types that calls take them for."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from fastpack.arguments.checks import shown
from fastpack.errors import FastpackError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from fastpack.types import JsonValue, StrPath

__all__ = ["check_fields"]


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def _is_length(value: object) -> bool:
    return _is_number(value) and value != 0


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_time(value: object) -> bool:
    """True for a time as fastpack writes it, which has more digits than Python reads."""
    try:
        datetime.fromisoformat(str(value)[:26])
    except ValueError:
        return False
    return isinstance(value, str)


_Wanted = tuple["Callable[[object], bool]", str]

_OBJECT: Final[_Wanted] = _is_object, "an object"
_LIST: Final[_Wanted] = _is_list, "a list"
_TEXT: Final[_Wanted] = _is_text, "a text"
_NUMBER: Final[_Wanted] = _is_number, "a whole number from 0"
_LENGTH: Final[_Wanted] = _is_length, "a whole number from 1"
_TIME: Final[_Wanted] = _is_time, "a time"

_NEEDED: Final[dict[str, _Wanted]] = {
    "job": _OBJECT,
    "job.sources.[].reading": _OBJECT,
    "job.inputs.files.{}": _OBJECT,
    "job.inputs.files.{}.source": _NUMBER,
    "job.sources.[]": _OBJECT,
    "files": _LIST,
    "files.[]": _OBJECT,
    "files.[].name": _TEXT,
    "beside.[]": _OBJECT,
    "beside.[].name": _TEXT,
}
"""The fields that are there if what holds them is, and may not be null. `[]` stands for each entry of a list, `{}` for each of an object."""

_POSSIBLE: Final[dict[str, _Wanted]] = {
    "job.sources": _LIST,
    "job.sources.[].limit": _NUMBER,
    "job.sources.[].repeat": _NUMBER,
    "job.inputs": _OBJECT,
    "job.inputs.files": _OBJECT,
    "job.made_by": _OBJECT,
    "job.made_by.tokenizer": _TEXT,
    "job.made_by.template": _TEXT,
    "job.made_by.transform": _TEXT,
    "job.made_by.pad_id": _NUMBER,
    "job.token_options": _OBJECT,
    "job.token_options.reading.images": _OBJECT,
    "job.row_options": _OBJECT,
    "job.row_options.packing": _OBJECT,
    "job.row_options.packing.max_length": _LENGTH,
    "job.row_options.packing.strategy": _TEXT,
    "job.row_options.packing.order": _TEXT,
    "job.row_options.packing.order.ranks": _NUMBER,
    "job.row_options.padding.token_id": _NUMBER,
    "job.row_options.objective": _OBJECT,
    "now": _TIME,
    "recipe": _OBJECT,
    "recipe.unheld": _OBJECT,
    "tokens": _OBJECT,
    "tokens.bytes": _NUMBER,
    "tokens.blake3": _TEXT,
    "files.[].rows": _NUMBER,
    "files.[].bytes": _NUMBER,
    "files.[].blake3": _TEXT,
    "files.[].parts": _TEXT,
    "beside": _LIST,
    "beside.[].bytes": _NUMBER,
    "beside.[].blake3": _TEXT,
}
"""The fields that may be missing or null."""


def check_fields(path: StrPath, manifest: Mapping[str, JsonValue]) -> None:
    """Refuses a manifest of which a field has another type than a call takes it for: a seal tells no error from a right manifest.

    Raises:
        FastpackError: A field has another type; the message names it.
    """
    for fields, is_needed in ((_NEEDED, True), (_POSSIBLE, False)):
        for field, (is_right, wanted) in fields.items():
            for named, value in _values(manifest, field):
                if not is_right(value) and (is_needed or value is not None):
                    raise _refused(path, named, value, wanted)
    count = sum(1 for _ in _values(manifest, "job.sources.[]"))
    for named, number in _values(manifest, "job.inputs.files.{}.source"):
        if isinstance(number, int) and number >= count:
            raise _refused(path, named, number, f"one of {count:,} sources")


def _refused(path: StrPath, named: str, value: object, wanted: str) -> FastpackError:
    message = f"{path}: `{named}` is `{shown(value)}`, not {wanted}; get the folder again from where it comes"
    return FastpackError(message)


def _values(value: object, field: str) -> Iterator[tuple[str, object]]:
    """The values of a field, with their names; none where what holds it is missing, is null or is of another type."""
    yield from _below(value, field, "")


def _below(value: object, field: str, named: str) -> Iterator[tuple[str, object]]:
    if not field:
        yield named, value
        return
    step, _, rest = field.partition(".")
    if step == "[]":
        for at, each in enumerate(value if isinstance(value, list) else ()):
            yield from _below(each, rest, f"{named}[{at}]")
    elif step == "{}":
        for name, each in (value if isinstance(value, dict) else {}).items():
            yield from _below(each, rest, f"{named}[{shown(name)}]")
    elif isinstance(value, dict):
        # A name may have a point.
        whole = f"{step}.{rest}" if f"{step}.{rest}" in value else step
        rest = "" if whole != step else rest
        yield from _below(value.get(whole), rest, f"{named}.{whole}".removeprefix("."))
