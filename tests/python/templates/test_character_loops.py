"""Loops over the characters of a text: the render of transformers, by the interpreter and by recorded programs."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from campaign import tries
from hypothesis import given, settings
from hypothesis import strategies as st
from template_helpers import native, reference
from test_template_replay import replayed

Record = dict[str, Any]

# Questions of a loop about a character: the same for all of them, different, or with an answer that an earlier turn left behind.
ASKED = st.sampled_from(
    [
        "c.type == 'text'",
        "c['type'] == 'image'",
        "c['text']",
        "c.image is defined",
        "c is string",
        "c is mapping",
        "'image' in c",
        "'im' not in c",
        "c == 'text'",
        "c != 'image'",
        "c in ['image', 'video']",
        "not c.type",
        "c == 'a'",
        "'a' in c",
        "c in ['a', 'bc']",
        "c < 'b'",
        "c.upper() == 'A'",
        "c['count'] is defined",
        "loop.first",
        "loop.index > 1",
        "ns.n > 1",
        "ns.n == 0",
        "rest|first == 1",
        "c.type or ns.n",
        "true",
    ]
)
DONE = st.sampled_from(
    [
        "",
        "x",
        "{{ c.text }}",
        "{{ c }}",
        "{{ c.type|default('d') }}",
        "{% set ns.n = ns.n + 1 %}",
        "{% set c = c.type %}{{ c }}",
        "{% set found = true %}{{ found }}",
        "{% break %}",
        "{% continue %}",
        "{{ rest|first }}",
        "{% generation %}g{% endgeneration %}",
        "{{ loop.index }}",
        "{% for d in m.content %}{% if d.type %}!{% endif %}{% endfor %}",
        "{% for c in 'ab' %}{{ c }}{% endfor %}",
        "{{ m.content }}",
        "{% set s %}{{ c.text }}s{% endset %}{{ s }}",
    ]
)
BODIES = st.one_of(
    st.tuples(ASKED, DONE, DONE).map(
        lambda it: (
            f"{{% if {it[0]} %}}{it[1]}{{% elif c.type == 'text' %}}{{{{ c.text }}}}{{% else %}}{it[2]}{{% endif %}}"
        )
    ),
    st.tuples(DONE, DONE).map("".join),
)
LOOPS = st.tuples(
    BODIES, st.sampled_from(["", " if c.type == 'text'", " if c.type != 'x'", " if c == 'a'"])
).map(lambda it: f"{{% for c in m.content{it[1]} %}}{it[0]}{{% else %}}none{{% endfor %}}")
CHOSEN = st.sampled_from(
    [
        "{% for c in m.content|selectattr('type', 'equalto', 'image') %}i{% endfor %}",
        "{% for c in m.content|rejectattr('type', 'equalto', 'text') %}t{% endfor %}",
        "{{ m.content|selectattr('type')|list|length }}",
        "{{ m.content[0]['type'] }}{% if m.content[0].type == 'image' %}i{% else %}o{% endif %}",
        "{{ m.content[-1].text }}{{ m.content[1] is defined }}",
    ]
)
SOURCES = st.lists(st.one_of(LOOPS, LOOPS, CHOSEN), min_size=1, max_size=2).map(
    lambda parts: (
        "{% set ns = namespace(n=0) %}{% set rest = [1, 2, 3]|map('string') %}"
        f"{{% for m in messages %}}{{{{ m.role }}}}:{''.join(parts)}|{{{{ ns.n }}}};{{% endfor %}}"
    )
)
TEXTS = st.sampled_from(["", "a", "b", "ab", "ba a", "é🎉", "image", "text", " \n", "x" * 50])
CONTENTS = st.one_of(
    TEXTS, TEXTS, TEXTS.map(lambda text: [{"type": "text", "text": text}, {"type": "thinking"}])
)
RECORDS = st.lists(
    st.lists(CONTENTS, min_size=2, max_size=2).map(
        lambda pair: {
            "messages": [
                {"role": role, "content": content}
                for role, content in zip(("user", "assistant"), pair, strict=True)
            ]
        }
    ),
    min_size=1,
    max_size=6,
)


def rendered(render: Any, source: str, record: Record) -> str | None:
    try:
        return str(render(source, record))
    except Exception:  # whatever it is that refuses the record
        return None


@settings(max_examples=tries(150, 10_000), deadline=None)
@given(SOURCES, RECORDS)
def test_loops_over_texts_render_as_in_transformers(source: str, records: list[Record]) -> None:
    expected = [rendered(reference, source, record) for record in records]
    assert [rendered(native, source, record) for record in records] == expected
    for text, found in zip(expected, replayed(source, records, spans=False), strict=True):
        if found is not None:
            assert found[0] == text


# As in SmolVLM, in Llama 3.2 Vision, in LLaVA, and in the templates of Mistral that compare whole messages.
WALKING = {
    "walks": "{% for m in messages %}{{ m.role|capitalize }}{{ ':' if m.content[0].type == 'image' else ': ' }}"
    "{% for c in m.content %}{% if c.type == 'text' %}{{ c.text }}{% elif c.type == 'image' %}<i>{% endif %}"
    "{% endfor %}<end>{% endfor %}",
    "searches": "{% set ns = namespace(any=false) %}{% for m in messages %}{% for c in m.content %}"
    "{% if c.type == 'image' %}{% set ns.any = true %}{% endif %}{% endfor %}{% endfor %}"
    "{% for m in messages %}{{ ns.any }}{{ m.content if m.content is string else m.content[0].text }}{% endfor %}",
    "chooses": "{% for m in messages %}{% for c in m.content|selectattr('type', 'equalto', 'image') %}<i>{% endfor %}"
    "{% for c in m.content|selectattr('type', 'equalto', 'text') %}{{ c.text }}{% endfor %};{% endfor %}",
    "asks first": "{% for m in messages %}{% for c in m.content if c.type == 'text' %}{{ c.text }}"
    "{% else %}none{% endfor %};{% endfor %}",
    "compares": "{% set users = messages|selectattr('role', 'equalto', 'user')|list %}"
    "{% for m in messages %}{% if m == users[-1] %}!{% endif %}{{ m.content }}{% endfor %}",
}


@pytest.mark.parametrize("name", WALKING)
def test_templates_that_walk_through_texts_are_replayed(name: str) -> None:
    texts = ["a river", "a", "b", "image", "b", "long " * 40]
    records = [
        {"messages": [{"role": role, "content": text} for role in ("user", "assistant", "user")]}
        for text in texts
    ]
    others = [
        {"messages": [{"role": "user", "content": one}, {"role": "user", "content": other}]}
        for one, other in itertools.product(texts, texts)
    ]
    parts = [{"messages": [{"role": "user", "content": [{"type": "text", "text": text}]}]} for text in texts]
    for records_of_one_kind in (records, others, parts):
        given = [*records_of_one_kind, *records_of_one_kind]
        found = replayed(WALKING[name], given, spans=False)
        for record, replay in zip(given, found, strict=True):
            assert replay is not None
            assert replay[0] == reference(WALKING[name], record) == native(WALKING[name], record)


def test_conversations_that_are_all_different_are_not_recorded_for_ever() -> None:
    source = "{% for m in messages %}{{ m.role }}{{ m.content }}{% endfor %}"
    kinds = itertools.islice(itertools.product(("user", "assistant"), repeat=10), 1000)
    different = [{"messages": [{"role": role, "content": "a"} for role in roles]} for roles in kinds]
    found = replayed(source, different, spans=False)
    recorded = sum(text is not None for text in found)
    assert 40 < recorded < 120
    # Conversations that come again are replayed, and pay for more to be recorded.
    again = replayed(source, [*different[:20] * 100, *different], spans=False)
    assert sum(text is not None for text in again) > 2000 + recorded
