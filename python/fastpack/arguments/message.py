"""Messages that name options with their values: in Python `keep_tokens=True`, on the command line `--keep-tokens`."""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from typing_extensions import Self

__all__ = ["Message", "Setting"]


class Setting(NamedTuple):
    """An option with a value, in a message.

    Attributes:
        option: The name of the option.
        value: The value.
        call: How Python spells it, where that is no keyword argument.
    """

    option: str
    value: object
    call: str = ""

    def __str__(self) -> str:
        """The setting as a keyword argument."""
        return _together([self])

    @property
    def held(self) -> str:
        """The value as Python writes it."""
        return json.dumps(self.value) if isinstance(self.value, (str, dict, list)) else str(self.value)

    @property
    def field(self) -> str:
        """The field of the option's value that it sets; empty if it sets the option itself."""
        return "" if self.call else self.option.partition(".")[2]


def _together(settings: Sequence[Setting]) -> str:
    """Settings as keyword arguments. Fields of one option are given together: `padding=Padding(to=64, side="left")`."""
    option = settings[0].option.partition(".")[0]
    if all(it.field and it.option.startswith(f"{option}.") for it in settings):
        kind = "".join(part.title() for part in option.split("_"))
        # The other fields of weights mean nothing without shares.
        shares = "..., " if option == "weights" else ""
        return f"{option}={kind}({shares}{', '.join(f'{it.field}={it.held}' for it in settings)})"
    if len(settings) > 1:
        return ", ".join(map(str, settings))
    return settings[0].call or f"{option}={settings[0].held}"


def _joined(parts: Iterable[str | Setting], spell: Callable[[Sequence[Setting]], str]) -> str:
    """The text of a message, with settings side by side as `spell` writes them together."""
    texts = []
    for are_settings, run in groupby(parts, key=lambda part: isinstance(part, Setting)):
        side_by_side = list(run)
        settings = [part for part in side_by_side if isinstance(part, Setting)]
        texts.append(spell(settings) if are_settings else "".join(map(str, side_by_side)))
    return "".join(texts)


class Message(str):
    """The text of a message, with settings as keyword arguments.

    Attributes:
        parts: The texts and settings that it consists of, by which `worded` spells it anew.
    """

    __slots__ = ("parts",)

    parts: tuple[str | Setting, ...]

    def __new__(cls, *parts: str | Setting) -> Self:
        """Joins texts, settings and other messages."""
        flat = [part for each in parts for part in (each.parts if isinstance(each, Message) else (each,))]
        message = super().__new__(cls, _joined(flat, _together))
        message.parts = tuple(flat)
        return message

    def __reduce__(self) -> tuple[type[Message], tuple[str | Setting, ...]]:
        """Pickles the parts."""
        return type(self), self.parts

    def mapped(self, change: Callable[[str], str]) -> Message:
        """The message with each of its texts changed, and those of its settings."""
        return Message(
            *(
                part._replace(value=change(part.value) if isinstance(part.value, str) else part.value)
                if isinstance(part, Setting)
                else change(part)
                for part in self.parts
            )
        )

    def worded(self, spell: Callable[[Setting], str]) -> str:
        """The text, with each setting as `spell` writes it."""
        return _joined(self.parts, lambda settings: " ".join(map(spell, settings)))
