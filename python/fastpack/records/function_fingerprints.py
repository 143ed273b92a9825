"""Fingerprints of the caller's functions: a job or stream with a function that has none cannot be resumed, and no cache is used."""

from __future__ import annotations

import json
import sys
import warnings
from typing import TYPE_CHECKING, Final

from fastpack.arguments.message import Message, Setting
from fastpack.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastpack.options.function import Function

__all__ = ["OBJECTIVE", "identities_of", "refuse_state_of_unknown", "warn_of_unknown"]

OBJECTIVE: Final = "objective.function"
"""The option of the function of the objective `Custom`."""


def warn_of_unknown(messages: Sequence[str]) -> None:
    """Warns the caller of fastpack, by the messages of `identities_of`."""
    level, frame = 1, sys._getframe(1)  # noqa: SLF001  `skip_file_prefixes` came with Python 3.12
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("fastpack."):
        level, frame = level + 1, frame.f_back
    for warning in messages:
        warnings.warn(warning, stacklevel=level + 1)


def refuse_state_of_unknown(functions: Mapping[str, Function[object] | None]) -> None:
    """Refuses a state if a function without a fingerprint may have made it."""
    unknown = _without_fingerprint(functions)
    if unknown:
        named = ", ".join(f"`{option}`" for option in unknown)
        message = Message(
            f"may be of another {named}, which has no fingerprint; name the function with ",
            _named(unknown[0]),
            " in both runs, or resume with strict=False",
        )
        raise OptionError(message, "state")


def _without_fingerprint(functions: Mapping[str, Function[object] | None]) -> list[str]:
    """The options whose functions have no fingerprint."""
    return [option for option, it in functions.items() if it is not None and it.fingerprint is None]


def identities_of(
    functions: Mapping[str, Function[object] | None], unknown: str, *, shared: bool
) -> tuple[list[str], list[str]]:
    """The identity of each function, and a warning for each without a fingerprint."""
    unnamed = _without_fingerprint(functions)
    if shared and unnamed:
        message = Message(
            "has no fingerprint, so ranks cannot tell whether they share one job; name the function with ",
            _named(unnamed[0]),
            ", and rename it whenever it changes",
        )
        raise OptionError(message, unnamed[0])
    identity = [
        f"{option} has no fingerprint"
        if option in unnamed
        else f"{option} named {json.dumps(it.fingerprint)}"
        for option, it in functions.items()
        if it is not None
    ]
    warned = [
        f"`{option}` has no fingerprint: {unknown}; name the function with {_named(option)}, and rename it "
        "whenever it changes"
        for option in unnamed
    ]
    return identity, warned


def _named(option: str) -> Setting:
    """The setting that names the function of an option."""
    if option == OBJECTIVE:
        return Setting("objective.fingerprint", "v1", 'objective=Custom(..., fingerprint="v1")')
    return Setting(f"{option}.fingerprint", "v1", f'{option}=Function(..., fingerprint="v1")')
