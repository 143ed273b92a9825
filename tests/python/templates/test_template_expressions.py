"""Expressions over generated values: fastpack and the sandbox of transformers render alike."""

from __future__ import annotations

import unicodedata
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from campaign import tries
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from template_helpers import native, outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

# Warnings of Python about the code that jinja2 makes of a template are for the eyes of its author.
pytestmark = [
    pytest.mark.filterwarnings("ignore::SyntaxWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

TEXTS = st.one_of(
    st.sampled_from(
        [
            "",
            "a",
            "items",
            "keys",
            "x",
            " a b ",
            "\n\nA\r\nb\x0bc\x1cd\x85",
            "</think>x</think>",
            "1",
            "-12",
            "ß",
            "ǅ",
            "Σς",
            "日本 🎉",
            "'",
            "\"'",
            "\\",
            "a.b",
        ]
    ),
    st.text(st.sampled_from("abAB \n\t.,<>&'\"é1\x1d\xa0"), max_size=6),
)
NUMBERS = st.one_of(
    st.integers(-5, 5),
    st.sampled_from([2**63 - 1, -(2**63), 2**63, 10**25]),
    st.floats(allow_nan=True),
    st.sampled_from([0.1, 1e16, 1e-5, 123456789012345680.0, -0.0, 1e22]),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=5,
)

ATOMS = st.sampled_from(
    [
        "a",
        "b",
        "c",
        "missing",
        "none",
        "true",
        "false",
        "0",
        "1",
        "-1",
        "2",
        "7",
        "1.5",
        "'a'",
        "'items'",
        "''",
        "[]",
        "[a]",
        "[1, b]",
        "{}",
        "{'a': b}",
        "(a, b)",
        "(1,)",
        "range(3)",
        "ns",
        "ns.x",
        "m(a)",
        "m(b, y=a)",
        "m(*[a, b])",
        "m(*b)",
        "m(**{'x': a})",
        "m(a, **c)",
        "{0: a, 512: b}",
        "{true: a, 1: b, none: c}",
        "{a: 1, 'a': 2}",
        "dict(x=a)",
        "dict(c, y=b)",
        "'%s=%s'",
        "'{}|{}'",
        "'%d%%'",
        "[3, 1, 2, 1]",
        "['b', 'B', 'a']",
        "[{'a': 2, 'x': 1}, {'a': 1}, {'a': 2, 'x': 0}]",
        "'\\n\\x41\\u00e9\\101\\q'",
        "'a' 'b'",
    ]
)
BINARY = st.sampled_from(
    ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or", "**"]
)
UNARY = st.sampled_from(["-", "+", "not "])
POSTFIX = st.sampled_from(
    [
        ".items", ".x", ".a", ".keys()", ".items()", ".values()", ".get('a')", ".get('a', 1)", ".get(b)", "['a']", "['items']", "[0]", "[-1]", "[b]", "[1:]", "[:-1]", "[::-1]",
        "[b:]", "[:2]", "[::2]", "[-3:-1]", "[5:1:-2]", ".strip()", ".lstrip()", ".rstrip('\\n')", ".strip('ab')", ".split()", ".split('a')", ".split(' ', 1)", ".split('</think>')[-1]", ".rsplit('a', 1)",
        ".split(none, 1)", ".splitlines()", ".startswith('a')", ".startswith(('a', ' '))", ".endswith('b')", ".upper()", ".lower()", ".title()", ".capitalize()",
        ".replace('a', 'xx')", ".replace('a', '', 1)", ".find('b')", ".count('a')", ".removeprefix('a')", ".removesuffix('b')", ".append(1)", ".append", ".update", ".join(['x', 'y'])", ".join(b)", ".real", ".0", "()",
        "|tojson", "|tojson(indent=2)", "|tojson(ensure_ascii=true)", "|tojson(sort_keys=true)", "|tojson(separators=(',', ':'))", "|trim", "|trim('a')", "|length", "|string", "|safe",
        "|items|list", "|items", "|default('d')", "|default('d', true)", "|default(none)", "|join", "|join(', ')", "|join('-', attribute='a')", "|list", "|upper", "|lower", "|capitalize", "|title",
        "|replace('a', 'b')", "|replace('', 'b')", "|dictsort", "|map('upper')|list", "|map('trim')|join(',')", "|map(attribute='a')|list", "|map(attribute='a', default='z')|list", "|select|list",
        "|select('string')|list", "|reject('none')|list", "|reject('equalto', 'a')|list", "|selectattr('a')|list", "|selectattr('a', 'equalto', 1)|list", "|selectattr('a', 'defined')|list", "|rejectattr('a')|list",
        "|sort(reverse=true)", "|sort(attribute='a')", "|sort(attribute='a,x', reverse=true)", "|sort(true, true)", "|unique|list", "|unique(attribute='a')|list", "|unique(true)|join", "|min", "|max", "|min(attribute='a')",
        "|max(true)", "|sum", "|sum(attribute='a')", "|sum(start=1)", "|abs", "|float", "|float(1)", "|round", "|round(0, 'floor')", "|round(method='ceil')", "|int(7)", "|int(none)", "|format(a, b)", "|format(a)", "|format", "|e", "|escape|length",
        "|dictsort(reverse=true)", "|dictsort(by='value')", "|dictsort(true)", "|map('replace', 'a', 'b')|list", "|map('default', 'd')|list", "|map('int', 3)|list", ".format(a, b)", ".format(x=a)", ".format()", ".rfind('a')", ".rfind('')", ".index('a')",
        ".zfill(3)", ".ljust(3)", ".rjust(3, '*')", ".partition('a')", ".rpartition('a')", ".isdigit()", ".isalpha()", ".isalnum()", ".isspace()", ".isupper()", ".islower()", ".isnumeric()", "._x", "|first", "|last", "|reverse|list", "|reverse", "|sort", "|int", "|indent", "|indent(2, true)", "|indent(1, blank=true)", "|count",
        " is defined", " is undefined", " is none", " is true", " is false", " is boolean", " is integer", " is float", " is number", " is string", " is mapping", " is iterable",
        " is sequence", " is odd", " is even", " is divisibleby 2", " is eq b", " is in [1, 'a', none]", " is not none", " is lt(3)", " is not string",
    ]
)  # fmt: skip


def _combine(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, BINARY, inner).map(lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"),
        st.tuples(inner, BINARY, inner).map(" ".join),
        st.tuples(UNARY, inner).map("".join),
        st.tuples(inner, POSTFIX).map("".join),
        st.tuples(inner, POSTFIX).map(lambda parts: f"({parts[0]}){parts[1]}"),
        st.tuples(inner, inner, inner).map(lambda parts: f"({parts[0]} if {parts[1]} else {parts[2]})"),
        st.tuples(inner, inner).map(lambda parts: f"({parts[0]} if {parts[1]})"),
    )


EXPRESSIONS = st.one_of(
    st.tuples(ATOMS, POSTFIX).map("".join),
    st.tuples(ATOMS, BINARY, ATOMS).map(" ".join),
    st.recursive(ATOMS, _combine, max_leaves=4),
)
PRELUDE = "{%- set ns = namespace(x=1) %}{%- macro m(x, y='d') %}<{{ x }}{{ y }}>{% endmacro %}{%- macro n(x) %}({{ caller() }}{{ x }}){% endmacro %}"
SHAPES = st.sampled_from(
    [
        "{{ %s }}",
        "{%% if %s %%}yes{%% else %%}no{%% endif %%}",
        "{%% for v in %s %%}{{ v }}{{ loop.index }}{{ loop.last }},{%% else %%}none{%% endfor %%}",
        "{%% for v in %s if v %%}{{ v }}{{ loop.length }}{{ loop.revindex }}{{ loop.previtem }}|{{ loop.nextitem }},{%% endfor %%}",
        "{%% for k, v in %s %%}{{ k }}={{ v }}{%% if loop.first %%}{%% continue %%}{%% endif %%};{%% else %%}none{%% endfor %%}",
        "{%% set x = %s %%}{%% set ns.x = x %%}{{ ns.x }}{{ ns.x is defined }}",
        "{%% set x %%} {{ %s }}\n{%% endset %%}[{{ x }}]{{ x|length }}",
        "{{ m(%s) }}",
        "{%% for k, v in (%s)|dictsort %%}{{ k }}={{ v }};{%% endfor %%}",
        "{%% call n(%s) %%}[{{ a }}]{%% endcall %%}",
        "{%% if a %%}{{ (%s)|from_json }}{%% else %%}{{ a|from_json if a }}-{%% endif %%}",
    ]
)
SEEN: Counter[str] = Counter()


def tried(source: str, record: dict[str, Any]) -> tuple[str, str]:
    """The outcome of a template, counted."""
    kind, reason = outcome(source, record)
    SEEN[kind] += 1
    return kind, reason


@pytest.fixture
def most_rendered() -> Iterator[None]:
    """Holds a test to templates that both engines render, since a law of refusals alone says nothing."""
    SEEN.clear()
    yield
    assert SEEN["identical"] > SEEN["refused"], SEEN


@pytest.mark.usefixtures("most_rendered")
@settings(max_examples=tries(400, 1500), deadline=None, suppress_health_check=list(HealthCheck))
@given(EXPRESSIONS, SHAPES, VALUES, VALUES, VALUES)
@example("(none[1:] if a else a)", "{{ %s }}", None, None, None)
@example(r"'\d'", "{{ %s }}", None, None, None)
def test_no_expression_renders_differently(expression: str, shape: str, a: Any, b: Any, c: Any) -> None:
    source = PRELUDE + shape % expression
    record = {
        "messages": [{"role": "user", "content": "x"}],
        "chat_template_kwargs": {"a": a, "b": b, "c": c},
    }
    kind, reason = tried(source, record)
    assert kind != "DIFFERENT", f"{source}\n{a!r} {b!r} {c!r}\n{reason}"


WORDS = st.sampled_from(["x", "y", "z"])
FILTERS = st.sampled_from(
    ["trim", "upper | trim", "indent(2)", "replace('t', 'T')", "length", "safe", "list | last"]
)
# Statements that need other templates, and forms that no chat template uses.
UNREACHED = [
    "{% include 'a' %}",
    "{% include y ignore missing without context %}",
    "{% import 'a' as x %}",
    "{% import 'a' as y with context %}",
    "{% from 'a' import x, z as y %}",
    "{% from 'a' import x with context %}",
    "{% extends 'a' %}",
    "{% block b %}{{ y }}{% set x = 1 %}{% endblock %}",
    "{% block b scoped %}{{ y }}{% endblock b %}",
    "{% for v in [1, 2] recursive %}{{ v }}{% set x = 1 %}{% endfor %}",
    "{% for v in [1, [2]] recursive %}{% if v is iterable %}{{ loop(v) }}{% endif %}{% else %}{{ y }}{% endfor %}",
    "{% for v in [1] %}{% macro x(a) %}{{ a }}{% endmacro %}{{ x(v) }}{% endfor %}",
]

BLOCKS = st.deferred(
    lambda: st.lists(
        st.one_of(
            st.sampled_from(
                [
                    " ",
                    "\n",
                    "  \n\t",
                    "text",
                    "\n\n",
                    "{{ x }}",
                    "{{- y -}}",
                    "{{ z }} ",
                    "{# c #}",
                    "{#- c -#}\n",
                    "{% raw %} {{ x }} {% endraw %}\n",
                    "{{ ns.v }}",
                    "{{ m() }}",
                    "{{ n(x) }}",
                    "{{ x is defined }}",
                    "{{ loop is defined }}",
                ]
            ),
            st.tuples(WORDS, st.sampled_from(["1", "x", "y", "z ~ 'q'", "ns.v"])).map(
                lambda p: "{%% set %s = %s %%}" % p
            ),
            WORDS.map(lambda w: "{%% set ns.v = %s %%}\n" % w),
            st.tuples(
                st.sampled_from(["{%", "{%-", "{%+"]),
                st.sampled_from(["%}", "-%}", "+%}", "%}\n"]),
                WORDS,
                BLOCKS,
                BLOCKS,
            ).map(lambda p: f"{p[0]} if {p[2]} {p[1]}{p[3]}{p[0]} elif x {p[1]}{p[4]}{p[0]} endif {p[1]}"),
            st.tuples(WORDS, BLOCKS, BLOCKS).map(
                lambda p: "{%% if %s %%}%s{%% else %%}%s{%% endif %%}\n" % p
            ),
            st.tuples(WORDS, BLOCKS).map(
                lambda p: "  {%% for %s in [1, 2] %%}%s{{ loop.index }}\n {%%- endfor %%}" % p
            ),
            st.tuples(WORDS, BLOCKS).map(
                lambda p: (
                    "{%% for v in 'ab' if %s %%}%s{%% if loop.first %%}{%% continue %%}{%% endif %%}.{%% else %%}E{%% endfor %%}"
                    % p
                )
            ),
            st.tuples(WORDS, WORDS, BLOCKS).map(lambda p: "{%% with %s = %s %%}%s{%% endwith %%}" % p),
            st.tuples(WORDS, BLOCKS).map(lambda p: "{%% set %s %%}%s{%% endset %%}" % p),
            st.tuples(WORDS, FILTERS, BLOCKS).map(lambda p: "{%% set %s | %s %%}%s{%% endset %%}" % p),
            st.tuples(FILTERS, BLOCKS).map(lambda p: "{%% filter %s %%}%s{%% endfilter %%}" % p),
            st.tuples(FILTERS, WORDS, BLOCKS).map(
                lambda p: "{%% filter %s | replace('t', %s) %%}%s{%% endfilter %%}" % p
            ),
            BLOCKS.map(lambda b: "{%% generation %%}%s{%% endgeneration %%}\n" % b),
            st.tuples(WORDS, BLOCKS).map(lambda p: "{%% macro m(a=%s) %%}%s{{ a }}{%% endmacro %%}\n" % p),
            BLOCKS.map(lambda b: "{%% macro n(x, y) %%}%s{%% endmacro %%}" % b),
            BLOCKS.map(lambda b: "{%% macro c(x) %%}%s{{ caller(x) }}{%% endmacro %%}" % b),
            st.tuples(WORDS, BLOCKS).map(lambda p: "{%% call(a=%s) c(y) %%}%s{{ a }}{%% endcall %%}\n" % p),
            BLOCKS.map(lambda b: "{%% call c('q') %%}%s{%% endcall %%}" % b),
            st.tuples(WORDS, st.sampled_from(UNREACHED)).map(
                lambda p: "{%% if not %s %%}a{%% else %%}%s{%% endif %%}" % p
            ),
        ),
        max_size=4,
    ).map("".join)
)


@pytest.mark.usefixtures("most_rendered")
@settings(max_examples=tries(80, 300), deadline=None, suppress_health_check=list(HealthCheck))
@given(BLOCKS, st.sampled_from([None, 0, "X"]), st.sampled_from([None, "Y"]))
def test_no_arrangement_of_blocks_renders_differently(body: str, x: Any, y: Any) -> None:
    source = "{% set ns = namespace(v=0) %}" + body
    record = {
        "messages": [{"role": "user", "content": "x"}],
        "chat_template_kwargs": {"x": x} if y is None else {"x": x, "y": y},
    }
    kind, reason = tried(source, record)
    assert kind != "DIFFERENT", f"{source}\n{reason}"


@pytest.mark.parametrize(
    "source",
    [
        "{% filter trim %}  a{{ x }}  {% endfilter %}|",
        "{%- filter upper | replace('A', x) -%} ab {%- endfilter -%}",
        "{% filter replace('a', x) %}{% set x = 'w' %}ba{% endfilter %}{{ x }}",
        "{% for v in [1, 2, 3] %}{% filter trim %} {{ v }}{% if v == 2 %}{% break %}{% endif %} {% endfilter %},{% endfor %}",
        "{% filter trim %}{% set y | upper %} a{{ x }} {% endset %}[{{ y }}]  {% endfilter %}",
        "{% set ns = namespace() %}{% set ns.y | trim | upper %} {{ x }}q {% endset %}{{ ns.y }}",
        "{% set y | length %}{{ x }}abc{% endset %}{{ y + 1 }}",
        "{% macro m() %}{% filter indent(3) %}a\n{{ x }}{% endfilter %}{% endmacro %}{{ m() }}",
        "{% for c in x %}{% filter upper %}{{ c.text }}s{% endfilter %}{% endfor %}",
    ],
)
@pytest.mark.parametrize("x", ["X", " text\n", ""])
def test_filters_of_blocks_render_alike(source: str, x: str) -> None:
    record = {"messages": [{"role": "user", "content": "x"}], "chat_template_kwargs": {"x": x}}
    assert outcome(source, record) == ("identical", "")


@pytest.mark.parametrize(
    "source",
    [
        "{% filter length %}abc{% endfilter %}",
        "{% filter | trim %}abc{% endfilter %}",
        "{% filter trim %}abc{% endset %}",
        "{% filter nothing %}abc{% endfilter %}",
    ],
)
def test_filters_of_blocks_that_jinja_refuses_are_refused(source: str) -> None:
    kind, _ = outcome(source, {"messages": [{"role": "user", "content": "x"}]})
    assert kind == "both refuse"


@pytest.mark.parametrize("source", UNREACHED)
def test_a_statement_of_rare_form_fails_only_where_it_is_reached(source: str) -> None:
    record = {"messages": [{"role": "user", "content": "x"}], "chat_template_kwargs": {"y": "Y"}}
    before = "{% for m in messages %}{{ m.content }}{{ x is defined }}{{ y }}{% endfor %}"
    unreached = before + "{% if messages | length > 1 %}" + source + "{% endif %}{{ x is defined }}{{ y }}"
    assert outcome(unreached, record) == ("identical", "")
    kind, _ = outcome(before + source, record)
    assert kind in {"both refuse", "refused"}


@pytest.mark.parametrize(
    "source",
    [
        "{% include %}",
        "{% import 'a' %}",
        "{% from 'a' import _b %}",
        "{% block x %}{% endfor %}",
        "{% do y %}",
        "{% extends 'a' with %}",
    ],
)
def test_a_statement_that_jinja_cannot_read_refuses_the_template(source: str) -> None:
    record = {"messages": [{"role": "user", "content": "x"}]}
    kind, _ = outcome("{% if false %}" + source + "{% endif %}", record)
    assert kind == "both refuse"


EDGES = [0, 1, 2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 + 1, 10**25, 10**400]


@pytest.mark.parametrize(
    "integer",
    [sign * edge for edge in EDGES for sign in (1, -1)],
    ids=lambda it: f"{it:.3g}" if abs(it) < 1e300 else "huge",
)
def test_integers_and_floats_are_compared_exactly(integer: int) -> None:
    near = [
        float(edge) + more for edge in (integer, *EDGES) if abs(edge) < 2**1000 for more in (-0.5, 0.0, 1.0)
    ]
    floats = [*sorted({*near, *(-number for number in near)}), float("inf"), float("-inf"), float("nan")]
    shown = "{% for b in floats %}{{ [a == b, b == a, a < b, a <= b, a > b, b >= a, a != b, a in [b]] }}{% endfor %}"
    record = {
        "messages": [{"role": "user", "content": "x"}],
        "chat_template_kwargs": {"a": integer, "floats": floats},
    }
    assert outcome(shown, record) == ("identical", "")


def test_a_list_prints_each_character_as_python_does() -> None:
    """Characters of Unicode 15 and later are refused: older Pythons escape them."""
    refused = []
    blocks = [range(first, first + 64) for first in range(0, 0x110000, 64)]
    for block in blocks if tries(False, True) else blocks[: 0x3200 // 64] + blocks[0xD800 // 64 :: 16]:
        characters = [chr(code) for code in block if not 0xD800 <= code < 0xE000]

        def printed(texts: list[str]) -> str:
            record = {"messages": [{"role": "user", "content": texts}]}
            try:
                return str(native("{{ messages[0].content }}", record))
            except ValueError as error:
                if "that holds the character" in str(error):
                    return ""
                raise

        if characters and printed(characters) != repr(characters):
            refused += [it for it in characters if (found := printed([it])) != repr([it]) and not found]
            others = [it for it in characters if it not in refused]
            assert printed(others) == repr(others)
    assert len(refused) < 16_000
    if unicodedata.unidata_version == "14.0.0":
        assert {unicodedata.category(it) for it in refused} == {"Cn"}
