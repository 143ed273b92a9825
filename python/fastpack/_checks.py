"""What options may be, where the native module does not look: errors name the option, and what would be right."""

from __future__ import annotations

from typing import get_args

from fastpack.errors import OptionError

__all__ = ["check_choice"]


def check_choice(option: str, value: object, literal: object, where: str = "") -> None:
    """Refuses what is none of the words of a `Literal`."""
    words = get_args(literal)
    if not (isinstance(value, str) and value in words):
        choices = ", ".join(f'"{word}"' for word in words)
        message = f"invalid option `{option}`: must be one of {choices}{where}, not `{value!r}`"
        raise OptionError(message, option)
