"""`suggesting`: adds suggestions to the errors of public functions about unknown options and words."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, ParamSpec, TypeVar, get_args

from fastpack.arguments.checks import shown
from fastpack.arguments.message import Message, Setting
from fastpack.arguments.strategy import one_document_a_row
from fastpack.errors import OptionError, OptionTypeError, RecordError
from fastpack.options import OPTIONS, options_of
from fastpack.options.mistakes.record_fields import field_hint
from fastpack.options.mistakes.suggestions import (
    option_hint,
    spelled_as_ours,
    word_hint,
    words_of,
)
from fastpack.options.native import value_in
from fastpack.options.objective import KINDS, Objective, objective_of
from fastpack.options.option import PACKED_OBJECTIVES
from fastpack.options.records import Reading
from fastpack.options.value import fields_of, refuse_fields, required_of, with_field, word_of, words_in
from fastpack.types import Strategy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["suggesting", "with_hint"]

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


def suggesting(function: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """Wraps a function: its errors about an unknown keyword or word suggest the nearest one.

    Words may also be spelled as on a command line: `best-fit` is `best_fit`.
    """
    parameters = inspect.signature(function).parameters
    name = function.__name__

    @functools.wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
        _refuse_misplaced(name, parameters, args, kwargs)
        for option, value in kwargs.items():
            words = () if option in _FREE else words_of(option, name)
            if words and isinstance(value, (str, list, tuple)):
                kwargs[option] = spelled_as_ours(value, words)
            refuse_fields(name, value)
        _refuse_packing(kwargs)
        try:
            return function(*args, **kwargs)
        except (OptionError, RecordError) as refused:
            hinted = with_hint(refused, name, kwargs)
            if hinted is refused:
                raise
            raise hinted from refused.__cause__

    return call


def with_hint(
    refused: OptionError | RecordError, name: str, arguments: Mapping[str, object]
) -> OptionError | RecordError:
    """An error of the function `name` with the word or field that was probably meant; the same one if none is near."""
    if isinstance(refused, RecordError):
        hint = _record_hint(refused, name, arguments)
        if not hint:
            return refused
        return RecordError(Message(str(refused), "; ", hint), refused.path, refused.line, refused.reason)
    if isinstance(refused.reason, Message) and (spelled := _with_required(refused.reason)) != refused.reason:
        refused = type(refused)(spelled, refused.option)
    place = _places(name).get(refused.option)
    if place is not None:
        return with_hint(type(refused)(refused.reason, place), name, arguments)
    hints = [
        _carrying_hint(refused, name, arguments),
        word_hint(refused.option, *_value_and_words(refused.option, name, arguments)),
    ]
    hint = "; ".join(filter(None, hints))
    if not hint or "did you mean" in refused.reason:
        return refused
    return type(refused)(Message(refused.reason, "; ", hint), refused.option)


def _carrying_hint(refused: OptionError, name: str, arguments: Mapping[str, object]) -> str:
    """The call whose rows carry fields of records, where a call whose rows do not is asked for one; else empty."""
    asks = refused.option == "columns" and name not in ("pack_files", "pack_table")
    if not asks or objective_of(arguments).kind in PACKED_OBJECTIVES:
        return ""
    return "rows in memory carry fields of their records: `pack_files`"


def _with_required(message: Message) -> Message:
    """A message in which a word whose value needs a field is that value: `order=Balanced(ranks=...)` for `order="balanced"`."""

    def spelled(part: str | Setting) -> str | Setting:
        if not isinstance(part, Setting) or part.option not in OPTIONS or not isinstance(part.value, str):
            return part
        kind = OPTIONS[part.option].kinds.get(part.value)
        needed = required_of(kind) if kind else []
        return with_field(part.option, kind, needed[0]) if kind and needed else part

    return Message(*map(spelled, message.parts))


def _value_and_words(option: str, name: str, arguments: Mapping[str, object]) -> tuple[object, Sequence[str]]:
    """The given value of an option or of a field, and the words that it takes."""
    holder, _, field = option.partition(".")
    if option in OPTIONS and option in OPTIONS[option].kinds:
        plain = getattr(arguments.get(option), OPTIONS[option].kinds[option].plain, None)
        return arguments.get(option) if plain is None else plain, words_of(option, name)
    if not field or holder not in OPTIONS:
        return arguments.get(option), words_of(option, name)
    kinds = OPTIONS[holder].kinds
    found = next((it for it in fields_of(kinds.values()) if it.name == field), None)
    value = arguments.get(holder)
    return getattr(value, field, None), words_in(found.type) if found else ()


@functools.cache
def _places(name: str) -> dict[str, str]:
    """The places of the fields of values that one option of a function takes.

    Checks that several functions share name a field alone, since it lies in another value in each.
    """
    options = {option.name: option for option in options_of(name)}
    holders = [kind for option in options.values() if (kind := option.kinds.get(option.name))]
    return {
        field.name: kind.option if field.name == kind.plain else f"{kind.option}.{field.name}"
        for kind in holders
        for field in fields_of([kind])
        if field.name not in options
    }


def _record_hint(refused: RecordError, name: str, arguments: Mapping[str, object]) -> str:
    """The remedy for a record that cannot be read."""
    if refused.reason == "no_content":
        return field_hint(str(refused), value_in(arguments, Reading).fields)
    is_skipped = arguments.get("on_bad_record") not in {None, "error"} or not words_of("on_bad_record", name)
    if refused.reason not in _OF_ONE_RECORD or is_skipped or "on_bad_record" in str(refused):
        return ""
    return Message(Setting("on_bad_record", "skip"), " leaves such records out, and counts them")


_OF_ONE_RECORD = frozenset({"invalid_json", "invalid_utf8", "lone_surrogate", "template"})
"""Faults of single records among many that are right."""


def _refuse_packing(arguments: Mapping[str, object]) -> None:
    """Refuses a packing strategy that is given for an objective whose rows hold one document each.

    Further in, a strategy that was given can no longer be told from the default.
    """
    objective, strategy = arguments.get("objective", "causal"), word_of(arguments.get("strategy"))
    kind = objective.kind if isinstance(objective, Objective) else objective
    one_each = isinstance(kind, str) and kind in KINDS and kind not in PACKED_OBJECTIVES
    if one_each and strategy in get_args(Strategy) and not one_document_a_row(strategy):
        message = Message(
            f'is "{strategy}", but with ',
            Setting("objective", kind),
            ' each document has a row of its own: leave it out, or pass "none"',
        )
        raise OptionError(message, "strategy")


_FREE = frozenset({"chat_template"})
"""Options that take free text besides some words."""


def _refuse_misplaced(
    name: str,
    parameters: Mapping[str, inspect.Parameter],
    args: Sequence[object],
    keywords: Mapping[str, object],
) -> None:
    """Refuses keywords that a function does not have, too many values without one, and one that is missing."""
    for option in keywords:
        if option not in parameters:
            hint = option_hint(option, parameters, name)
            reason = Message(f"{name} has none of that name{'; ' if hint else ''}", hint)
            raise OptionTypeError(reason, option)
    positional = [it.name for it in parameters.values() if it.kind is it.POSITIONAL_OR_KEYWORD]
    if len(args) > len(positional):
        taken = " and ".join(f"`{option}`" for option in positional)
        message = (
            f"{name} takes {taken} without a keyword; name all others, as in "
            f"`max_length={shown(args[len(positional)])}`"
        )
        raise OptionTypeError(message, "max_length")
    if "max_length" in parameters and "max_length" not in keywords:
        required = parameters["max_length"].default is inspect.Parameter.empty
        if required:
            message = "must be given, the tokens that a row holds at most, such as 4096"
            raise OptionTypeError(message, "max_length")
