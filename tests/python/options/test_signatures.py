"""The signatures and docstrings of the public functions, which are written by hand, agree with the table of options."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import typing
from pathlib import Path

import pytest

import fastpack
from fastpack import api
from fastpack.api.calls import arguments
from fastpack.options import options_of
from fastpack.options.option import REQUIRED

PLACE = Path(api.__file__).parent / "calls"

POSITIONAL = {
    "pack_dir": ["files", "output"],
    "pack_files": ["files", "tokenizer"],
    "pack_records": ["records", "tokenizer"],
    "pack_table": ["table", "tokenizer"],
    "plan": ["lengths"],
    "repack": ["source", "output"],
    "scan": ["files", "tokenizer"],
    "stream": ["files", "tokenizer"],
}
"""The arguments that need no keyword."""

ABOUT = {"records", "table", "lengths", "source"}
"""The arguments that are no options."""

OF_FOLDERS = {"exists", "format", "keep_tokens", "memory"}
"""The options that mean nothing without a folder to write."""


def parameters_of(function):
    return dict(inspect.signature(function).parameters)


def words(text):
    return " ".join(text.split())


@pytest.mark.parametrize("name", api.__all__)
def test_a_signature_has_the_options_of_the_table_with_their_types_and_defaults(name):
    written = {
        option: (it.annotation, it.default)
        for option, it in parameters_of(getattr(api, name)).items()
        if option not in ABOUT
    }
    wanted = {
        option.name: (option.type, inspect.Parameter.empty if option.default is REQUIRED else option.default)
        for option in options_of(name)
    }
    assert written == wanted
    # True is 1, and False is 0.
    assert {option: type(default) for option, (_, default) in written.items()} == {
        option: type(default) for option, (_, default) in wanted.items()
    }


@pytest.mark.parametrize("name", api.__all__)
def test_a_signature_has_the_order_of_the_table(name):
    parameters = parameters_of(getattr(api, name)).values()
    positional = [it.name for it in parameters if it.kind is it.POSITIONAL_OR_KEYWORD]
    assert positional == POSITIONAL[name]
    keywords = [option.name for option in options_of(name) if option.name not in positional]
    assert [it.name for it in parameters if it.kind is it.KEYWORD_ONLY] == keywords
    assert len(parameters) == len(positional) + len(keywords)


@pytest.mark.parametrize("name", api.__all__)
def test_the_help_of_a_function_tells_every_option(name):
    function = getattr(fastpack, name)
    told = inspect.getdoc(function)
    assert re.findall(r"^(\w+):$", told, re.MULTILINE) == ["Args", "Returns", "Raises", "Examples"]
    listed = told.partition("\nArgs:\n")[2].partition("\n\n")[0]
    assert re.findall(r"^ {4}(\w+): ", listed, re.MULTILINE) == list(parameters_of(function))
    for option in options_of(name):
        assert words(f"{option.name}: {option.doc}") in words(listed), option.name
    assert max(map(len, listed.splitlines())) <= 110


@pytest.mark.parametrize("name", api.__all__)
def test_what_an_option_decides_is_not_said_again_in_the_source(name):
    source = words((PLACE / f"{name}.py").read_text(encoding="utf-8"))
    assert [option.name for option in options_of(name) if words(option.doc)[:60] in source] == []


def test_without_docstrings_functions_have_none():
    code = "import fastpack; print(fastpack.pack_dir.__doc__)"
    done = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="overloads are forgotten before Python 3.11")
@pytest.mark.parametrize("name", ["pack_files", "pack_records", "pack_table"])
def test_overloads_have_the_options_of_their_function(name):
    function = getattr(api, name)
    wanted = {option: it.annotation for option, it in parameters_of(function).items()}
    for overload in typing.get_overloads(function):
        parameters = parameters_of(overload)
        kind = getattr(arguments, re.fullmatch(r"Unpack\[(\w+)\]", parameters.pop("options").annotation)[1])
        shared = {key: named.__forward_arg__ for key, named in kind.__annotations__.items()}
        assert not shared.keys() & parameters.keys()
        given = shared | {option: it.annotation for option, it in parameters.items()}
        # Options that decide the type of the result have narrower types.
        deciding = {"output", "validation"}
        assert {key: spelled for key, spelled in given.items() if key not in deciding} == {
            key: wanted[key] for key in given if key not in deciding
        }
        assert all(given[key] in {wanted[key], *wanted[key].split(" | ")} for key in deciding & given.keys())
        in_memory = name != "pack_files" and given["output"] == "None"
        assert wanted.keys() - given.keys() == (OF_FOLDERS if in_memory else set())


OTHERWISE = {
    # A scan compares lengths.
    ("max_length", "scan"),
    # No stream sees all lengths before it fills rows, and a training script draws its own bar.
    ("strategy", "stream"),
    ("progress", "stream"),
    # A step fails where an answer is too long, and plans for one rank unless there are more.
    ("overlong", "plan_step"),
    ("ranks", "plan_step"),
    # A scan reads all records, and a verification some documents.
    ("sample", "verify"),
}
"""The keywords and the functions in which their defaults are others than elsewhere."""


def test_a_keyword_has_the_same_default_in_all_functions_but_those_that_say_why():
    functions = {name: getattr(fastpack, name) for name in fastpack.__all__}
    functions = {name: it for name, it in functions.items() if inspect.isfunction(it)}
    defaults = {}
    for name, function in functions.items():
        for keyword, parameter in inspect.signature(function).parameters.items():
            # What must be given has no default.
            if parameter.default is not parameter.empty and (keyword, name) not in OTHERWISE:
                defaults.setdefault(keyword, {}).setdefault(repr(parameter.default), []).append(name)
    assert {keyword: found for keyword, found in defaults.items() if len(found) > 1} == {}
    assert all(keyword in inspect.signature(functions[name]).parameters for keyword, name in OTHERWISE)
