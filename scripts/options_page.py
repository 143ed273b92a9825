"""The tables of all options on the site, written from `fastpack/options/`."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Final

from fastpack import api
from fastpack.options import GROUPS
from fastpack.options.option import PACKING_CALLS, REQUIRED
from fastpack.options.value import fields_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastpack.options.option import Option

__all__ = ["PLACE", "tables"]

PLACE: Final = "<!-- On the site, the tables of all options stand here. -->"
"""The line of `docs/reference/options.md` that the tables replace, with all that follows."""


def tables() -> str:
    """The options by their groups, each group followed by the options in values."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    for title, options in GROUPS.items():
        yield f"### {title[0].upper()}{title[1:]}"
        yield ""
        yield "| option | default | taken by | |"
        yield "|---|---|---|---|"
        for option in options:
            short = option.flag.spelling.split()[0] if option.flag else ""
            flag = f"<br>`{short}`" if re.fullmatch("-[a-z]", short) else ""
            there = [f"In `{call}`: {differs.doc}" for call, differs in option.differs.items() if differs.doc]
            about = _cell(" ".join([option.doc, *there]))
            yield f"| `{option.name}`{flag} | {_default(option.default)} | {_taken_by(option)} | {about} |"
        yield ""
        for option in options:
            if option.owns_kinds:
                yield from _values(option)


def _values(option: Option) -> Iterator[str]:
    """The options in the values of an option."""
    yield f"A value of `{option.name}` has options of its own:"
    yield ""
    yield "| value | word | its option | default | |"
    yield "|---|---|---|---|---|"
    for word, kind in option.kinds.items():
        first = f"`{kind.__name__}` | `{word}`"
        for field in fields_of([kind]):
            yield f"| {first} | `{field.name}` | {_default(field.default)} | {_cell(field.doc)} |"
            first = " | "
        if not fields_of([kind]):
            yield f"| {first} | | | |"
    yield ""


def _default(default: object) -> str:
    """A default as the cell of a table."""
    if default in {REQUIRED, dataclasses.MISSING}:
        return "must be given"
    return f"`{default!r}`".replace("'", '"')


def _taken_by(option: Option) -> str:
    """The functions that take an option; the four that pack records have one name."""
    names = [name for name in api.__all__ if name in option.calls]
    if set(names) >= PACKING_CALLS:
        names = ["pack_*", *(name for name in names if name not in PACKING_CALLS)]
    return ", ".join(f"`{name}`" for name in names)


def _cell(text: str) -> str:
    """A text as the cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")
