"""`in_flags`: the message of an error in one line, with options as flags."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastpack._fastpack import one_line
from fastpack.arguments.message import Message, Setting
from fastpack.errors import OptionError
from fastpack.options import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fastpack.options.option import Flag

__all__ = ["in_flags", "spelled"]


def in_flags(failed: BaseException, flags: Iterable[Flag]) -> str:
    """The message of an error on one line: `--keep-tokens` where Python has `keep_tokens=True`."""
    by_option = {flag.option: flag for flag in flags if flag.names[-1].startswith("-")}
    if isinstance(failed, OptionError):
        flag = by_option.get(failed.option)
        name = flag.names[-1] if flag else failed.option
        return one_line(f"invalid option `{name}`: {spelled(failed.reason, by_option.values())}")
    if isinstance(failed, OSError) and failed.strerror:
        message = spelled(failed.strerror, by_option.values())
        return one_line(f"{failed.filename}: {message}" if failed.filename else message)
    message = failed.args[0] if failed.args and isinstance(failed.args[0], Message) else str(failed)
    return one_line(spelled(message, by_option.values()))


def spelled(message: str, flags: Iterable[Flag]) -> str:
    """A message with its settings as flags; those without a flag as keyword arguments."""
    if not isinstance(message, Message):
        return message
    by_option = {flag.option: flag for flag in flags}

    def spell(setting: Setting) -> str:
        flag = _flag_of(setting.option, by_option)
        return flag.spelled(setting.value) if flag else str(setting)

    return message.worded(spell)


def _flag_of(option: str, by_option: Mapping[str, Flag]) -> Flag | None:
    """The flag that sets an option. A field that its option stands for has that one's, as `padding.to` has `--padding`."""
    holder, _, field = option.partition(".")
    kinds = OPTIONS[holder].kinds.values() if holder in OPTIONS else ()
    is_plain = bool(field) and any(kind.plain == field for kind in kinds)
    return by_option.get(option) or (by_option.get(holder) if is_plain else None)
