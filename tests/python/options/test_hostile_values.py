"""Values of options that are made of odd objects: refused in one line, or held as plain texts, numbers and lists."""

from __future__ import annotations

import collections
import enum
import json
import pickle
import types
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import fastpack
from fastpack.options import OPTIONS
from fastpack.options.value import from_table, to_table


class Silent:
    """An object whose `repr` fails."""

    def __repr__(self):
        raise RuntimeError


class Unequal:
    """An object that cannot be compared."""

    __hash__ = None

    def __eq__(self, _other):
        raise RuntimeError


class Word(str):
    """A text that cannot be compared."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, _other):
        raise RuntimeError


class Name(str, enum.Enum):
    """Words as members of an enumeration."""

    PARQUET = "parquet"
    BEST_FIT = "best_fit"


def deep(made, depth=5000):
    """A list or a dict inside lists or dicts."""
    for _ in range(depth):
        made = {"a": made} if isinstance(made, dict) else [made]
    return made


def cycle():
    """A list that holds itself."""
    listed = []
    listed.append(listed)
    return listed


REFUSED = [
    (fastpack.Mix, "align_to", deep([])),
    (fastpack.Sequential, "shuffle", cycle()),
    (fastpack.Truncate, "side", cycle()),
    (fastpack.Format, "compression", deep([])),
    (fastpack.Format, "layout", deep({})),
    (fastpack.Format, "name", {"a": 1}),
    (fastpack.Format, "layout", np.arange(3)),
    (fastpack.Exists, "then", Unequal()),
    (fastpack.Exists, "then", {}),
    (fastpack.Exists, "then", Word("erase")),
    (fastpack.Ranks, "on_end", collections.UserDict(a=1)),
    (fastpack.Weights, "unit", types.MappingProxyType({})),
    (fastpack.Reading, "shape", {"text": "a"}),
    (fastpack.Reading, "fields", np.arange(3)),
    (fastpack.Padding, "side", Silent()),
    (fastpack.Concat, "drop_last", Silent()),
    (fastpack.Concat, "drop_last", np.True_),
    (fastpack.MaskedLM, "probability", np.True_),
    (fastpack.MaskedLM, "probability", 10**5000),
    (fastpack.MaskedLM, "probability", Fraction(10**5000)),
    (fastpack.SpanCorruption, "mean_noise_span_length", "12"),
    (fastpack.SpanCorruption, "mean_noise_span_length", b"ab"),
    (fastpack.SpanCorruption, "mean_gap_length", "12"),
    (fastpack.SpanCorruption, "noise_density", ["0.2"]),
    (fastpack.Custom, "fingerprint", Silent()),
]


@pytest.mark.parametrize(
    ("kind", "field", "given"),
    REFUSED,
    ids=[f"{it[0].__name__}.{it[1]}-{type(it[2]).__name__}" for it in REFUSED],
)
def test_what_a_field_cannot_be_is_refused_in_one_line(kind, field, given):
    with pytest.raises(fastpack.OptionError) as refused:
        kind(**{field: given})
    assert refused.value.option == f"{kind.option}.{field}"
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 500


PLAIN = [
    (fastpack.Format(Name.PARQUET), fastpack.Format("parquet")),
    (fastpack.Format(np.str_("jsonl")), fastpack.Format("jsonl")),
    (fastpack.Format(Word("jsonl")), fastpack.Format("jsonl")),
    (fastpack.Format(" PARQUET "), fastpack.Format("parquet")),
    (fastpack.Truncate(side="Left"), fastpack.Truncate(side="left")),
    (fastpack.Reading("Question-Answer"), fastpack.Reading("question_answer")),
    (fastpack.Padding(np.int64(128), token_id=np.array(3)), fastpack.Padding(128, token_id=3)),
    (fastpack.BestFit(open_rows=pa.scalar(8)), fastpack.BestFit(open_rows=8)),
    (fastpack.MaskedLM(probability=np.float32(0.5)), fastpack.MaskedLM(probability=0.5)),
    (fastpack.MaskedLM(probability=Fraction(1, 2)), fastpack.MaskedLM(probability=0.5)),
    (fastpack.Classification(np.array(["a", "b"])), fastpack.Classification(["a", "b"])),
    (fastpack.Classification(pa.array(["a", "b"])), fastpack.Classification(["a", "b"])),
    (fastpack.Classification(collections.UserList(["a", "b"])), fastpack.Classification(["a", "b"])),
    (
        fastpack.SpanCorruption(noise_density=np.array([0.25, 0.5]), mean_noise_span_length=pa.array([3, 8])),
        fastpack.SpanCorruption(noise_density=[0.25, 0.5], mean_noise_span_length=[3, 8]),
    ),
    (
        fastpack.ChatTemplate(variables=collections.UserDict(a=1)),
        fastpack.ChatTemplate(variables={"a": 1}),
    ),
]


@pytest.mark.parametrize(("odd", "plain"), PLAIN, ids=repr)
def test_texts_and_numbers_of_other_libraries_are_plain_in_the_value(odd, plain):
    assert (odd, repr(odd), hash(odd)) == (plain, repr(plain), hash(plain))
    again = json.loads(json.dumps(to_table(odd)))
    assert from_table(odd.option, again, OPTIONS[odd.option].kinds) == plain
    assert pickle.loads(pickle.dumps(odd)) == plain


def test_equal_values_hash_alike_whatever_their_dicts_hold():
    first = fastpack.ChatTemplate(variables={"a": 1, "b": True})
    second = fastpack.ChatTemplate(variables={"a": 1.0, "b": 1})
    assert first == second
    assert hash(first) == hash(second)
    for odd in ({None: 1, "a": 2}, {(1, 2): 3}, deep({})):
        hash(fastpack.ChatTemplate(variables=odd))


def test_a_value_does_not_change_with_what_it_was_made_of():
    wanted = {"lang": ["en"], "score": (0.5, None)}
    select = fastpack.Select(wanted)
    wanted["lang"].append("de")
    wanted["more"] = 1
    assert select.where == {"lang": ["en"], "score": (0.5, None)}
    variables = {"of": {"a": [1]}}
    template = fastpack.ChatTemplate(variables=variables)
    variables["of"]["a"].append(2)
    assert template.variables == {"of": {"a": [1]}}


@pytest.mark.parametrize("option", ["strategy", "overlong", "order"])
@pytest.mark.parametrize(
    "given", [cycle(), deep([]), Silent(), Unequal()], ids=["cycle", "deep", "silent", "unequal"]
)
def test_an_option_of_an_odd_object_is_refused_by_its_name(option, given):
    with pytest.raises(fastpack.OptionError) as refused:
        fastpack.plan([1, 2], max_length=8, **{option: given})
    assert refused.value.option == option
    assert "\n" not in str(refused.value)


def test_a_word_may_be_a_member_of_an_enumeration():
    words = [
        fastpack.plan([1, 2], max_length=8, strategy=it)
        for it in (Name.BEST_FIT, Word("best_fit"), "best_fit")
    ]
    assert len({tuple(plan.members.tolist()) for plan in words}) == 1


@pytest.mark.parametrize(
    ("option", "given", "named"),
    [
        ("select", {"\ud800": 1}, "select.where"),
        ("storage", {"\ud800": "a"}, "storage.options"),
        ("storage", {"region": "a\ud800"}, "storage.options"),
        ("weights", "", "weights"),
        ("weights", [], "weights"),
        ("weights", [("0", {"a": 1})], "weights"),
        ("weights", {"a": 10**400}, "weights"),
        ("objective", deep([]), "objective"),
        ("objective", 10**5000, "objective"),
        ("objective", Silent(), "objective"),
        ("ranks", fastpack.Ranks(rank=Unequal(), world_size=2), "ranks.rank"),
        ("ranks", fastpack.Ranks(rank="auto", world_size=Unequal()), "ranks.world_size"),
    ],
    ids=lambda it: it if isinstance(it, str) and it.isascii() else type(it).__name__,
)
def test_a_stream_refuses_an_odd_object_by_the_place_of_its_option(option, given, named, tmp_path):
    texts = tmp_path / "a.jsonl"
    texts.write_text('{"text": "a river"}\n')
    with pytest.raises(fastpack.OptionError) as refused:
        fastpack.stream({"a": texts}, "examples/tokenizer", max_length=16, **{option: given})
    place = {"select.where": {"select", "select.where"}, "storage.options": {"storage", "storage.options"}}
    assert refused.value.option in place.get(named, {named})
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 500


def test_what_is_called_too_often_without_a_name_is_quoted_in_one_line():
    with pytest.raises(fastpack.OptionError) as refused:
        fastpack.plan([1], Silent())
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize(
    ("option", "value"), [("groups", len), ("format", len), ("reading", fastpack.Reading(separator=len))]
)
def test_a_function_in_place_of_a_value_leaves_no_folder(option, value, tmp_path):
    with pytest.raises(fastpack.OptionError) as refused:
        fastpack.pack_dir(
            "examples/chat.jsonl",
            tmp_path / "o",
            tokenizer="examples/tokenizer",
            max_length=64,
            **{option: value},
        )
    assert refused.value.option.startswith(option)
    assert not (tmp_path / "o").exists()
