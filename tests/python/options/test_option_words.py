"""The words of options: spelled in the core, and said by the types of Python."""

from __future__ import annotations

import re
import typing

import pytest

from fastpack import _fastpack, types
from fastpack.options import OPTIONS
from fastpack.options.value import fields_of

WORDS = _fastpack.option_words()

# The type of the words, where it is not that of the option: `order="balanced"` lacks the ranks, and words name the keys of a dict.
TYPES = {"order": "OrderKind", "reading.fields": "Part"}


def literal(option):
    """The words that the type of an option names."""
    holder, _, inner = option.partition(".")
    if inner:
        spelled = {field.name: field.spelled for field in fields_of(OPTIONS[holder].kinds.values())}[inner]
        spelled = TYPES.get(option, spelled)
    else:
        spelled = TYPES.get(option, OPTIONS[option].type)
    names = re.findall(r"\w+", spelled)
    known = [getattr(types, name) for name in names if hasattr(types, name)]
    return [
        word for kind in known if typing.get_origin(kind) is typing.Literal for word in typing.get_args(kind)
    ]


@pytest.mark.parametrize("option", sorted(WORDS))
def test_a_type_names_the_words_of_the_core(option):
    assert sorted(literal(option)) == sorted(WORDS[option])


def test_every_option_whose_type_is_words_has_them_of_the_core():
    worded = {name for name in OPTIONS if literal(name)}
    # Words beside booleans and numbers, and words of Python alone.
    python = {name for name in worded - WORDS.keys() if name != "padding"}
    # Words of a field, which the core has by the name of the field; and words of Python alone.
    assert python == {"exists", "reading"}
