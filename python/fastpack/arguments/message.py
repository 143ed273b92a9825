"""Messages that name options with their values: in Python `keep_tokens=True`, on the command line `--keep-tokens`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

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
        if self.call:
            return self.call
        value = self.value
        held = json.dumps(value) if isinstance(value, (str, dict, list)) else value
        option, _, field = self.option.partition(".")
        if field:
            kind = "".join(part.title() for part in option.split("_"))
            return f"{option}={kind}({field}={held})"
        return f"{option}={held}"


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
        message = super().__new__(cls, "".join(map(str, flat)))
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
        return "".join(spell(part) if isinstance(part, Setting) else part for part in self.parts)
