"""The options of the public functions, in one table.

From it come the options in the docstrings of functions, the flags of the command line, the tables of options on the site and what
is handed to the native module. The signatures in `fastpack/api/calls/` are written by hand; `test_signatures.py` compares them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fastpack.options.objective import OBJECTIVE_OPTIONS
from fastpack.options.option import REQUIRED, Option
from fastpack.options.output import OUTPUT_OPTIONS
from fastpack.options.packing import PACKING_OPTIONS
from fastpack.options.records import RECORD_OPTIONS
from fastpack.options.rows import ROW_OPTIONS
from fastpack.options.storage import STORAGE_OPTIONS
from fastpack.options.tokens import TOKEN_OPTIONS
from fastpack.options.work import WORK_OPTIONS

if TYPE_CHECKING:
    from typing import Any

__all__ = ["GROUPS", "OPTIONS", "default", "group_of", "options_of"]

GROUPS: Final[dict[str, tuple[Option, ...]]] = {
    "rows": (*PACKING_OPTIONS, *ROW_OPTIONS),
    "the training objective": OBJECTIVE_OPTIONS,
    "tokens and labels": TOKEN_OPTIONS,
    "records": RECORD_OPTIONS,
    "files that are written": OUTPUT_OPTIONS,
    "storage": STORAGE_OPTIONS,
    "how the work is done": WORK_OPTIONS,
}
"""All options, by the titles under which help and docs list them."""

OPTIONS: Final[dict[str, Option]] = {option.name: option for options in GROUPS.values() for option in options}
"""All options, by their names."""


def options_of(call: str) -> list[Option]:
    """The options that a function takes, as it has them."""
    return [option.in_call(call) for option in OPTIONS.values() if call in option.calls]


def group_of(group: str) -> list[Option]:
    """The options that the native module takes together."""
    return [option for option in OPTIONS.values() if option.group == group]


def default(name: str) -> Any:  # type: ignore[explicit-any]  # noqa: ANN401  as each option has it
    """The default of an option that has one."""
    found = OPTIONS[name].default
    if found is REQUIRED:
        raise KeyError(name)
    return found
