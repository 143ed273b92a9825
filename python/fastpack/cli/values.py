"""Parsers for the values of flags: names, pairs, JSON, times, functions."""

from __future__ import annotations

import collections.abc
import functools
import json
import re
from argparse import ArgumentTypeError
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal, get_args, get_origin

from fastpack.arguments import functions
from fastpack.arguments.checks import regular_file
from fastpack.errors import OptionError
from fastpack.options.train_on import TrainOn
from fastpack.options.value import Value, from_table, parts_of

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["VALUES", "of_type", "unquoted"]


def unquoted(parse: Callable[[str], object], example: str = "") -> Callable[[str], object]:
    """The parser of a value that no message quotes, as it may be a secret."""

    def parsed(text: str) -> object:
        try:
            return parse(text)
        except (ArgumentTypeError, ValueError):
            wanted = parse.__name__.replace("_", " ")
            such = f" such as '{example}'" if example else ""
            message = (
                f"must be a {wanted.replace('json', 'JSON')}{such}; "
                "what is given may be a secret, and is not shown"
            )
            raise ArgumentTypeError(message) from None

    return parsed


def of_type(wanted: object) -> Callable[[str], object]:
    """The parser of a text for a type of Python, such as `float | Sequence[float]`."""
    return functools.partial(_parsed, wanted)


def _parsed(wanted: object, text: str) -> object:
    """The value of a type that a text stands for. Of several types the narrowest that fits is taken."""
    kinds = [kind for kind in parts_of(wanted) if kind is not type(None)]
    if text.startswith("{") and any(isinstance(kind, type) and issubclass(kind, Value) for kind in kinds):
        return json_object(text)
    words = [word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]
    meanings: dict[str, object] = {word: word for word in words if isinstance(word, str)}
    if bool in kinds or True in words:
        meanings |= {"yes": True, "no": False} if bool in kinds else {"yes": True}
    if text in meanings:
        return meanings[text]
    if meanings and not {int, str} & {*kinds}:
        message = f"`{text}` is none of {', '.join(meanings)}"
        raise ArgumentTypeError(message)
    return _parser_of(kinds, text)(text)


def _parser_of(kinds: list[object], text: str) -> Callable[[str], object]:
    """The parser of a text that is no word of its type."""
    lists = [kind for kind in kinds if get_origin(kind) is collections.abc.Sequence]
    numbers = text[:1].isdecimal() or not (lists or str in kinds)
    parsers = [
        (datetime in kinds, moment),
        (str not in kinds and any(get_origin(kind) is collections.abc.Mapping for kind in kinds), table),
        (any(get_args(kind) == (object,) for kind in lists), json_list),
        (collections.abc.Callable in kinds, function_at),
        (int in kinds and str in kinds, count_or_text),
        (int in kinds and numbers, token_count),
        (float in kinds and "," not in text, _number),
        (bool(lists) and float in [it for kind in lists for it in get_args(kind)], _numbers),
        (bool(lists), comma_list),
    ]
    return next((parser for fits, parser in parsers if fits), str)


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(_number(each) for each in comma_list(text))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        message = f"`{text}` is no number"
        raise ArgumentTypeError(message) from None


def table(text: str) -> object:
    """Parses `{"a": "x"}` or `a=x,b=y`."""
    return json_object(text) if text.lstrip().startswith("{") else pairs(text)


def comma_list(text: str) -> tuple[str, ...]:
    """Parses `a,b`."""
    return tuple(name.strip() for name in text.split(","))


def pairs(text: str) -> dict[str, str]:
    """Parses `a=x,b=y`."""
    found = [pair.partition("=") for pair in text.split(",")]
    if not all(equals for _, equals, _ in found):
        message = f"`{text}` is no list of PART=FIELD"
        raise ArgumentTypeError(message)
    return {part.strip(): field.strip() for part, _, field in found}


def count_or_text(text: str) -> str | int:
    """Parses `1000`; any other text, such as a word or a share, is returned unchanged."""
    return int(text) if text.isdecimal() else text


def count_or_none(text: str) -> int | None:
    """Parses `3`; `0` is `None`, no limit."""
    if not text.isdecimal():
        message = f"`{text}` is no number"
        raise ArgumentTypeError(message)
    return int(text) or None


def count_or_list(text: str) -> tuple[str, ...] | int:
    """Parses a count such as `3`, or `a,b`."""
    return int(text) if text.isdecimal() else comma_list(text)


def tokens_or_text(text: str) -> str | int:
    """Parses a count such as `128` or `4k`; a text that does not begin with a digit is returned unchanged."""
    return token_count(text) if text[:1].isdecimal() else text


def auto_yes_no(text: str) -> str | bool:
    """Parses `auto`, `yes` or `no`."""
    meanings: dict[str, str | bool] = {"auto": "auto", "yes": True, "no": False}
    if text not in meanings:
        message = f"`{text}` is none of {', '.join(meanings)}"
        raise ArgumentTypeError(message)
    return meanings[text]


def moment(text: str) -> datetime:
    """Parses `2026-01-31T12:00`."""
    try:
        return datetime.fromisoformat(text)
    except ValueError as refused:
        message = f"`{text}` is no time such as 2026-01-31T12:00"
        raise ArgumentTypeError(message) from refused


def train_on(text: str) -> object:
    """Parses a word, or `{"roles": ["assistant", "tool"]}`."""
    if not text.lstrip().startswith("{"):
        return text
    try:
        return from_table(TrainOn.option, json_object(text), {TrainOn.kind: TrainOn})
    except OptionError as refused:
        raise ArgumentTypeError(refused.reason) from refused


def json_object(text: str) -> dict[str, object]:
    """Parses `{"a": 1}`."""
    value = _json(text)
    if isinstance(value, dict):
        return value
    message = f"`{text}` is no JSON object"
    raise ArgumentTypeError(message)


def json_list(text: str) -> list[object]:
    """Parses `["a", 1]`."""
    value = _json(text)
    if isinstance(value, list):
        return value
    message = f"`{text}` is no JSON list"
    raise ArgumentTypeError(message)


def json_list_or_file(text: str) -> list[object]:
    """Parses `["a", 1]`, or the content of the file at a path."""
    try:
        value = json.loads(
            text if text.lstrip().startswith("[") else regular_file(text).read_text(encoding="utf-8")
        )
    except (OSError, RecursionError, ValueError) as refused:
        message = f"`{text}` is neither a JSON list nor a file of one: {refused}"
        raise ArgumentTypeError(message) from refused
    if not isinstance(value, list):
        message = f"`{text}` holds no JSON list"
        raise ArgumentTypeError(message)
    return value


def function_at(text: str) -> object:
    """Loads the function named by `file.py:name` or `module:name`."""
    try:
        return functions.function_at(text)
    except OptionError as refused:
        raise ArgumentTypeError(refused.reason) from refused


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (RecursionError, ValueError) as refused:
        message = f"`{text}` is no JSON: {refused}"
        raise ArgumentTypeError(message) from refused


def token_count(text: str) -> int:
    """Parses `4096`, `4_096`, `4,096`, or `4k`, which is 4096."""
    found = re.fullmatch(r"(\d+)([kK]?)", text.strip().replace("_", "").replace(",", ""))
    if found is None:
        message = f"`{text}` is no number of tokens such as 4096 or 4k"
        raise ArgumentTypeError(message)
    return int(found[1]) * (1024 if found[2] else 1)


VALUES: Final[dict[str, Callable[[str], object]]] = {
    "int": int,
    **{
        parser.__name__: parser
        for parser in (
            auto_yes_no,
            comma_list,
            count_or_list,
            count_or_none,
            count_or_text,
            function_at,
            json_list,
            json_list_or_file,
            json_object,
            moment,
            pairs,
            token_count,
            tokens_or_text,
            train_on,
        )
    },
}
"""The parsers, by their names in the table of options."""
