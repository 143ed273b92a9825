"""`field_hint`: the fields that a record without known ones probably means."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from fastpack import _fastpack
from fastpack.arguments.checks import nearest
from fastpack.arguments.message import Message, Setting
from fastpack.options.mistakes.foreign_names import FOREIGN_WORDS

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["field_hint"]

_CLOSE = 0.8
"""The likeness from which on a name is a misspelling: `mesages`, `answers`. At 0.6 `version` is taken for `conversation`."""

_ABOUT = frozenset({"id", "ids", "name", "source", "type", "model", "language", "length"})
"""Last words of fields that tell about a text, and do not hold it."""


def field_hint(message: str, configured: object = None) -> str:
    """A hint for a record without known fields, made from the field names in an error of the core and the `fields` that were given.

    It names all fields that a shape needs and the record has under other names, so that following it reads the record. Without
    such a shape it is empty.
    """
    wanted, _, listed = message.rpartition(", found ")
    fields = dict(configured) if isinstance(configured, Mapping) else {}
    found = re.findall(r"`([^`]+)`", listed.partition(";")[0])
    if "the objective `preference`" in message:
        return ""
    hints = [
        {**hint, **_needless_prompt_field(parts, {*found} - {*hint.values()}, fields)}
        for parts in _fastpack.required_fields().values()
        if parts and _is_wanted(parts, wanted) and (hint := _named(parts, found, fields))
    ]
    hint = min(hints, key=len, default=None)
    return Message("did you mean `", Setting("reading.fields", {**fields, **hint}), "`?") if hint else ""


_REQUESTS = ("prompt_completion", "instruction", "question_answer")
"""The shapes whose first field is a request."""


def _needless_prompt_field(
    parts: Sequence[Sequence[str]], left: set[str], fields: Mapping[str, str]
) -> dict[str, str]:
    """The field of a prompt beside answers that are preferred and not, which need none."""
    if parts[0][0] != "chosen" or "prompt" in {*left, *fields}:
        return {}
    shapes = _fastpack.required_fields()
    requests = {name for shape in _REQUESTS for name in shapes[shape][0]}
    found = next((field for field in sorted(left) if field.strip().lower() in requests), None)
    return {"prompt": found} if found else {}


_NAMES_ALONE = re.compile(r"expected (?:`[^`]+`(?:, | or |$))+")
"""The beginning of an error that names the parts of each shape of an objective, and nothing else."""


def _is_wanted(parts: Sequence[Sequence[str]], wanted: str) -> bool:
    """True if the error expects a shape: by the names of its parts, or in words."""
    names_alone = _NAMES_ALONE.search(wanted)
    if names_alone and names_alone.end() == len(wanted):
        listed = [re.findall(r"`([^`]+)`", shape) for shape in names_alone[0].split(" or ")]
        return [names[0] for names in parts] in listed
    if "question and an answer" in wanted and parts[0][0] == "question":
        return True
    # A prompt alone is a record of rows of prompts.
    is_prompt = [names[0] for names in parts] == ["prompt"]
    return all(f"`{names[0]}`" in wanted for names in parts) and not (is_prompt and "`completion`" in wanted)


def _named(
    parts: Sequence[Sequence[str]], found: Sequence[str], fields: Mapping[str, str]
) -> dict[str, str] | None:
    """The fields of a record that its parts have under other names; `None` if the record lacks a part, or all are named."""
    hint: dict[str, str] = {}
    for part, *others in parts:
        if part in fields:
            continue
        left = [field for field in found if field not in {*fields.values(), *hint.values()}]
        if any(name in left for name in (part, *others)):
            continue
        field = next((field for field in left if _means(field, part, others)), None)
        if field is None:
            return None
        hint[part] = field
    return hint or None


def _means(field: str, part: str, others: Sequence[str]) -> bool:
    """True if a field probably holds a part: by its spelling, another tool's word, or a word of its name."""
    plain = field.strip().lower()
    # `input` beside `output`, without an instruction, is the instruction.
    names = [part, *others, *(("input",) if part == "instruction" else ())]
    foreign = FOREIGN_WORDS["reading.fields"].get(plain)
    if foreign == part or nearest(plain, names, likeness=_CLOSE):
        return True
    words = re.split(r"[^a-z0-9]+", plain)
    return foreign is None and words[-1] not in _ABOUT and not set(names).isdisjoint(words)
