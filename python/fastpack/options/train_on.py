"""`TrainOn`: the roles and the parts of their turns that carry a label."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

from fastpack.arguments.checks import is_series, nearest, shown
from fastpack.errors import OptionError

__all__ = ["TrainOn", "train_on_of"]

_ROLES: Final = ("assistant", "developer", "ipython", "model", "observation", "system", "tool", "user")
"""Usual roles, for those that are misspelt."""


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class TrainOn:
    """The roles whose messages are trained, and the parts of the assistant's turns that are context.

    What is context stands in the rows as it does otherwise: masks change the labels alone. `TrainOn()` is the same
    as `"assistant"`. The names are those of NeMo Automodel, where it has one.

    Args:
        roles: The roles whose messages carry a label, such as `("assistant", "tool")`. Of another role than the
            assistant's, the text behind the header of the role is trained, with the end of the message.
        mask_reasoning_content: Whether reasoning is context, in a field or inline, with the marks around it.
        mask_tool_calls: Whether the calls of tools are context, with the markup around them.
        mask_generation_prompt: Whether the generation prompt before a turn is context. The model never generates it.
        drop_history_reasoning_content: Whether the reasoning of turns before the last message of a user is removed
            from the messages, for chat templates that would keep it.

    Raises:
        OptionError: A value is none that the option takes.

    Examples:
        >>> import fastpack
        >>> fastpack.TrainOn(mask_reasoning_content=True)
        TrainOn(mask_reasoning_content=True)
    """

    roles: Sequence[str] = ("assistant",)
    _: dataclasses.KW_ONLY
    mask_reasoning_content: bool = False
    mask_tool_calls: bool = False
    mask_generation_prompt: bool = True
    drop_history_reasoning_content: bool = False

    def __post_init__(self) -> None:
        """Checks the values."""
        object.__setattr__(self, "roles", _roles_of(self.roles))
        for name in _NAMES:
            value = getattr(self, name)
            if name != "roles" and not isinstance(value, bool):
                message = f"`{name}` must be True or False, not `{shown(value)}`"
                raise OptionError(message, "train_on")

    def __repr__(self) -> str:
        """The call that makes it."""
        given = ", ".join(f"{name}={value!r}" for name, value in self.given().items())
        return f"TrainOn({given})"

    def given(self) -> dict[str, object]:
        """The values that are not the defaults, as JSON, TOML and the command line hold them."""
        fields = (
            (field.name, field.default, getattr(self, field.name)) for field in dataclasses.fields(self)
        )
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, default, value in fields
            if value != default
        }


_NAMES: Final = tuple(field.name for field in dataclasses.fields(TrainOn))


def train_on_of(value: object) -> object:
    """A `TrainOn` of a table of TOML or an object of JSON; any other value is returned unchanged."""
    if not isinstance(value, Mapping):
        return value
    for name in value:
        if name not in _NAMES:
            near = nearest(str(name), _NAMES)
            message = f"has no `{shown(name)}`" + (f"; did you mean `{near}`?" if near else "")
            raise OptionError(message, "train_on")
    return TrainOn(**value)


def _roles_of(roles: object) -> tuple[str, ...]:
    """The roles, each once."""
    given = list(roles) if is_series(roles) else []
    listed = [role for role in given if isinstance(role, str) and role.strip()]
    if not listed or len(listed) < len(given):
        message = f'`roles` must be a list of roles such as ["assistant", "tool"], not `{shown(roles)}`'
        raise OptionError(message, "train_on")
    for role in listed:
        near = None if role in _ROLES else nearest(role, _ROLES)
        if near:
            message = f"has no role `{shown(role)}`; did you mean `{near}`?"
            raise OptionError(message, "train_on")
    return tuple(dict.fromkeys(listed))
