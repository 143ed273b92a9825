"""Suggestions for unknown options and words."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, get_args

from fastpack import types
from fastpack.arguments.checks import nearest
from fastpack.arguments.message import Message
from fastpack.options import OPTIONS
from fastpack.options.mistakes.foreign_names import (
    FOREIGN_OPTIONS,
    INSTEAD,
    MOVED,
    OPTION_ADVICE,
    meant_word,
)
from fastpack.options.value import fields_of, is_kind, parts_of, spelled_as_word, with_field

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fastpack.arguments.message import Setting
    from fastpack.options.value import Kind

__all__ = ["nearest_option", "option_hint", "spelled_as_ours", "word_hint", "words_of"]


def nearest_option(name: str, known: Iterable[str]) -> str | None:
    """The option that an unknown name probably means: one that another tool calls so, or the nearest spelling."""
    listed = list(known)
    plain = name.replace("-", "_").lower()
    foreign = FOREIGN_OPTIONS.get(plain)
    if plain in listed or foreign in listed:
        return plain if plain in listed else foreign
    return nearest(plain, listed)


def option_hint(name: str, known: Iterable[str], call: str) -> str:
    """A hint for an unknown keyword of a function; empty if no option is near."""
    plain, listed = name.replace("-", "_").lower(), list(known)
    is_advised = plain in OPTION_ADVICE and plain not in MOVED
    field = "" if is_advised else _field_hint(plain, listed, call)
    if field:
        elsewhere = _functions_with_option(plain, listed)
        return Message(field, "; " if elsewhere else "", elsewhere)
    if plain in OPTION_ADVICE:
        elsewhere = _functions_with_option(MOVED.get(plain, "").partition(".")[0], listed)
        return Message(OPTION_ADVICE[plain], "; " if elsewhere else "", elsewhere)
    elsewhere = _functions_with_option(plain if plain in OPTIONS else FOREIGN_OPTIONS.get(plain, ""), listed)
    if elsewhere:
        return elsewhere
    meant = nearest_option(name, listed)
    if meant:
        return f"did you mean `{meant}`?"
    return OPTION_ADVICE.get(nearest(plain, OPTION_ADVICE) or "", "")


def _field_hint(name: str, known: Iterable[str], call: str) -> str:
    """The sentence that a name is a field of the value of some options of a call; empty if it is none."""
    found: dict[str, Setting] = {}
    for option in known:
        for kind in _kinds_of(option, call):
            if _heeds(kind, name, call):
                found.setdefault(option, with_field(option, kind, name))
            for field in fields_of([kind]):
                inner = next(
                    (it for it in parts_of(field.type) if is_kind(it) and _heeds(it, name, call)), None
                )
                if inner is not None:
                    within = f"{inner.__name__}({name}=...)"
                    setting = with_field(option, kind, field.name, within)
                    found.setdefault(
                        f"{option}.{field.name}", setting._replace(option=f"{setting.option}.{name}")
                    )
    if not found:
        return ""
    *others, last = (f"`{place}`" for place in found)
    holders = f"{', '.join(others)} and {last}" if others else last
    return Message(f"`{name}` is a field of {holders}: ", next(iter(found.values())))


def _kinds_of(option: str, call: str) -> Iterator[Kind]:
    """The kinds of values with fields of their own that an option takes in a call."""
    if option not in OPTIONS:
        return
    kinds = OPTIONS[option].kinds.values()
    named = {*re.findall(r"\b[A-Z]\w+", OPTIONS[option].in_call(call).type)}
    yield from (kind for kind in kinds if not named.isdisjoint(base.__name__ for base in kind.__mro__))


def _heeds(kind: Kind, name: str, call: str) -> bool:
    """True if a kind of values has a field of this name, and the call heeds it."""
    return any(it.name == name and (not it.calls or call in it.calls) for it in fields_of([kind]))


def _functions_with_option(option: str, known: Sequence[str]) -> str:
    """The functions that have an option that is not known; empty if it is known, or is none."""
    if option not in OPTIONS or option in known:
        return ""
    takers = ", ".join(f"`{call}`" for call in sorted(OPTIONS[option].calls))
    instead = INSTEAD.get(option)
    return f"`{option}` is an option of {takers}" + (f"; {instead}" if instead else "")


@functools.cache
def words_of(option: str, call: str) -> tuple[str, ...]:
    """The words that an option takes in a call; for a list or a dict, those of its entries or keys."""
    if option not in OPTIONS:
        return ()
    named = re.findall(r"\b[A-Z]\w+", OPTIONS[option].in_call(call).type)
    words = [word for name in named for word in _literals(getattr(types, name, None))]
    # A value that cannot be without options has a word on the command line and in TOML alone.
    kinds = OPTIONS[option].kinds.items()
    words += [word for word, kind in kinds if kind.__name__ in named and word not in {*words, option}]
    return tuple(words)


def _literals(annotation: object) -> Iterator[str]:
    for part in get_args(annotation):
        if isinstance(part, str):
            yield part
        else:
            yield from _literals(part)


def spelled_as_ours(value: object, words: tuple[str, ...]) -> object:
    """Normalises the spelling of words: `best_fit` for `best-fit` or `Best Fit`. Other values are returned unchanged."""
    if type(value) in {list, tuple}:
        return type(value)(spelled_as_word(each, words) for each in value)  # type: ignore[attr-defined,call-arg]  # a list
    return spelled_as_word(value, words)


def word_hint(option: str, value: object, words: Iterable[str]) -> str:
    """A hint for an invalid value of an option that takes words; empty if no word is near."""
    listed = list(words)
    if not listed and OPTIONS.get(option) and "int" in OPTIONS[option].type:
        return _number_hint(value)
    return meant_word(option, value, listed)


def _number_hint(value: object) -> str:
    """A hint with the whole number that a text or a float means."""
    if isinstance(value, str):
        found = re.fullmatch(r"(\d{1,10})([kK]?)", value.strip().replace("_", "").replace(",", ""))
        if found:
            return f"give the number itself, {int(found[1]) * (1024 if found[2] else 1)}"
    if isinstance(value, float) and value.is_integer():
        return f"give a whole number, {int(value)}"
    return ""
