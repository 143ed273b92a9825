"""`TrainOn`: the roles and the parts of their turns that carry a label."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence  # noqa: TC003  the types of fields are looked at
from typing import ClassVar, Final

from fastpack.arguments.checks import check_switch, is_series, nearest, shown
from fastpack.errors import OptionError
from fastpack.options.value import Value

__all__ = ["TrainOn"]

_ROLES: Final = ("assistant", "developer", "ipython", "model", "observation", "system", "tool", "user")
"""Usual roles, for those that are misspelt."""


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class TrainOn(Value):
    """The roles whose messages are trained, and the parts of the assistant's turns that are context.

    What is context stands in the rows as it does otherwise: masks change the labels alone. `TrainOn()` is the same
    as `"assistant"`. The names are those of NeMo Automodel, where it has one.

    Args:
        roles: The role whose messages carry a label, or several, such as `("assistant", "tool")`. Of another role than
            the assistant's, the text after the header of the role is trained, with the end of the message.
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

    option: ClassVar[str] = "train_on"
    kind: ClassVar[str] = "assistant"

    roles: Sequence[str] = ("assistant",)
    _: dataclasses.KW_ONLY
    mask_reasoning_content: bool = False
    mask_tool_calls: bool = False
    mask_generation_prompt: bool = True
    drop_history_reasoning_content: bool = False

    def check(self) -> None:
        """Refuses what a field cannot be, by the name of the field."""
        object.__setattr__(self, "roles", _roles_of(self.roles))
        for field in dataclasses.fields(self)[1:]:
            check_switch(f"train_on.{field.name}", getattr(self, field.name))


def _roles_of(roles: object) -> tuple[str, ...]:
    """The roles, each once."""
    entries = [roles] if isinstance(roles, str) else list(roles) if is_series(roles) else []
    listed = [role for role in entries if isinstance(role, str) and role.strip()]
    if not listed or len(listed) < len(entries):
        message = f'must be a role, or a list of roles such as ["assistant", "tool"], not `{shown(roles)}`'
        raise OptionError(message, "train_on.roles")
    for role in listed:
        near = None if role in _ROLES else nearest(role, _ROLES)
        if near:
            message = f"has no role `{shown(role)}`; did you mean `{near}`?"
            raise OptionError(message, "train_on.roles")
    return tuple(dict.fromkeys(listed))
