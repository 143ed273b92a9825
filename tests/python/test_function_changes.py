"""A change that changes what a function returns changes its identity, or it has none: each way that code can change."""

from __future__ import annotations

import ast
import builtins
import copy
import copyreg
import json
import re
import sys
from itertools import islice
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpack._identity import UnfollowedError, identity

BATCH = pa.record_batch({"text": ["a river", "the town", "boat"], "score": [1, 2, 3]})

CHANGES = {
    name: (module, before, after)
    for name, before, after, module in re.findall(
        r"^=== (.+)\n- (.*)\n\+ (.*)\n((?:(?!===).*\n)+)",
        Path(__file__).with_name("function_changes.txt").read_text(encoding="utf-8"),
        flags=re.MULTILINE,
    )
}
"""The module of a filter, a part of it, and the text that replaces this part."""


@pytest.fixture(params=CHANGES)
def around(request, monkeypatch, tmp_path):
    """The results of a function for the filter before and after a change."""
    monkeypatch.chdir(tmp_path)
    text, before, after = CHANGES[request.param]
    assert before in text

    def made(use):
        results = []
        for source in (text, text.replace(before, after)):
            with monkeypatch.context() as patch:
                protect(patch)
                results.append(use(load(source, patch).good))
        return results

    return made


def protect(patch):
    """Undoes what a case does to others."""
    patch.setattr(json, "loads", json.loads)
    patch.setattr(json, "_default_decoder", json._default_decoder)
    patch.setattr(json.JSONDecoder, "decode", json.JSONDecoder.decode)
    patch.setattr(builtins, "ascii", ascii)
    patch.setattr(copyreg, "dispatch_table", copyreg.dispatch_table.copy())
    patch.setattr(copy, "dispatch_table", copyreg.dispatch_table, raising=False)
    patch.setenv("FASTPACK_TEST", "")


def load(text, patch):
    """Runs the modules that `text` holds, the last first, and returns the first, which has no name there."""
    main, *others = text.split("# module ")
    for other in reversed(others):
        name, _, source = other.partition("\n")
        module = run(name, source, patch)
        package, _, last = name.rpartition(".")
        if package:
            patch.setattr(sys.modules[package], last, module, raising=False)
    return run("filters", main, patch)


def run(name, source, patch):
    module = ModuleType(name)
    patch.setitem(sys.modules, name, module)
    exec(compile(source, f"{name}.py", "exec"), vars(module))
    return module


def told(function):
    try:
        return identity(function)
    except UnfollowedError:
        return None


def test_all_cases_are_read():
    text = Path(__file__).with_name("function_changes.txt").read_text(encoding="utf-8")
    assert len(CHANGES) == text.count("\n=== ") > 100


def test_a_change_of_the_result_changes_the_identity_or_there_is_none(around):
    before, after = around(told)
    assert before is None or before != after
    first, second = around(lambda function: repr(function(BATCH)))
    assert first != second, "the case changes nothing"


plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5)
values = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=12)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=12)
    ),
    max_leaves=30,
)


def holding(value):
    return lambda _batch: value


@settings(max_examples=50)
@given(one=values, other=values)
def test_functions_are_alike_as_far_as_what_they_hold_is(one, other):
    again = eval(repr(one), {"inf": float("inf"), "nan": float("nan")})
    assert told(holding(again)) == told(holding(one)) is not None
    assert (told(holding(one)) == told(holding(other))) == (repr(one) == repr(other))


def edits(function):
    """Changes to the code of a function, each done and undone: to its numbers, texts and comparisons."""
    for node in ast.walk(function):
        if isinstance(node, ast.Constant) and type(node.value) in {int, float, str}:
            value = node.value
            node.value = value + ("s" if isinstance(value, str) else 1)
            yield f"{value!r} in line {node.lineno}"
            node.value = value
        if isinstance(node, ast.Compare):
            operators = node.ops
            node.ops = [ast.NotEq() for _ in operators]
            yield f"a comparison in line {node.lineno}"
            node.ops = operators


def test_each_edit_of_a_function_changes_its_identity(monkeypatch):
    tree = ast.parse(Path(__file__).with_name("followed_functions.txt").read_text(encoding="utf-8"))

    def told_of(name):
        return told(vars(run("filters", tree, monkeypatch))[name])

    edited = 0
    for function in [node for node in tree.body if isinstance(node, ast.FunctionDef)]:
        before = told_of(function.name)
        # Each third: all of them take a dozen seconds.
        for edit in islice(edits(function), None, None, 3):
            edited += 1
            assert told_of(function.name) != before, f"{edit} of `{function.name}`"
        assert told_of(function.name) == before
    assert edited > 30
