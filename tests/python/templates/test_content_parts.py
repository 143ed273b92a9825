"""Contents in parts: of any type as the template sees them in transformers, lists as they are, joined only where refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from campaign import tries
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nested import nested
from template_helpers import NOW, reference

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Record = dict[str, Any]

# Treatments of a list by a template: walks through it, prints it, refuses it, joins it to a text, or takes its first part.
WALKED = (
    "{% for p in m.content %}{% if p.type == 'text' or p is string %}{{ p.text or p }}"
    "{% elif p.type == 'thinking' %}<t>{{ p.thinking }}</t>{% else %}<{{ p.type }}:{{ p|tojson }}>{% endif %}{% endfor %}"
)
WAYS = {
    "walked": f"{{% if m.content is string %}}{{{{ m.content }}}}{{% else %}}{WALKED}{{% endif %}}",
    "printed": "{{ m.content }}",
    "added": "{{ '' + m.content }}",
    "refused": "{% if m.content is not string %}{{ raise_exception('a text') }}{% endif %}{{ m.content }}",
    "trimmed": "{{ m.content|trim }}",
    "first": "{{ m.content if m.content is string else m.content[0].text }}",
    "as json": "{{ m.content|tojson }}",
}


def template(user: str, assistant: str) -> str:
    """Prints users and assistants in these ways."""
    return (
        "{% for m in messages %}<|start|>{{ m.role }}\n{% if m.role == 'user' %}"
        f"{WAYS[user]}{{% else %}}{{% generation %}}{WAYS[assistant]}<|end|>{{% endgeneration %}}"
        "{% endif %}\n{% endfor %}"
    )


def text(words: str) -> Record:
    return {"type": "text", "text": words}


WORDS = st.sampled_from(["river", " a boat ", "Ж\n", "", "it's", "<|end|>"])
TEXTS = st.one_of(
    st.lists(st.one_of(WORDS.map(text), WORDS, WORDS.map(lambda words: {"text": words})), max_size=3),
    st.lists(WORDS.map(text), min_size=1, max_size=3),
)
OTHERS = st.one_of(
    WORDS.map(lambda words: {"type": "thinking", "thinking": words}),
    WORDS.map(lambda words: {"type": "thinking", "thinking": [text(words)], "closed": True}),
    WORDS.map(lambda words: {"type": "reasoning", "text": words}),
    WORDS.map(lambda words: {"type": "refusal", "refusal": words}),
    WORDS.map(lambda words: {"type": "tool_use", "name": words, "input": {"n": 2**70}}),
    WORDS.map(lambda words: {"type": "tool_reference", "name": words}),
    WORDS.map(lambda words: {"type": "document", "document": {"data": words}}),
)
CONTENTS = st.one_of(WORDS, TEXTS, st.lists(st.one_of(WORDS.map(text), OTHERS), min_size=1, max_size=3))
CHATS = st.lists(st.tuples(CONTENTS, CONTENTS), min_size=1, max_size=2).map(
    lambda turns: [
        {"role": role, "content": content}
        for pair in turns
        for role, content in zip(("user", "assistant"), pair, strict=True)
    ]
)


def joined(messages: list[Record]) -> list[Record]:
    """The messages with contents joined that are nothing but texts."""

    def words(part: Any) -> str | None:
        if isinstance(part, str):
            return part
        if set(part) <= {"type", "text"} and part.get("type", "text") == "text":
            return part.get("text")
        return None

    def text_of(content: Any) -> Any:
        texts = [words(part) for part in content] if isinstance(content, list) else [None]
        return content if None in texts else "".join(str(text) for text in texts)

    return [{**message, "content": text_of(message["content"])} for message in messages]


def whole(source: str, messages: list[Record]) -> str | None:
    """The render of transformers, if there is one."""
    try:
        return str(reference(source, {"messages": messages}))
    except Exception:  # whatever it is that a template refuses
        return None


def rendered(source: str, messages: list[Record]) -> tuple[str | None, bool]:
    """The render of transformers, of the messages as they are, or of those with joined texts; and which of them."""
    made = whole(source, messages)
    if made is not None:
        return made, False
    made = whole(source, joined(messages))
    return made, made is not None


def rows(messages: list[Record], tokenizer: Path, source: str, **options: Any) -> tuple[Any, fastpack.Report]:
    table = fastpack.pack_records(
        [{"messages": messages}] * 2,
        tokenizer,
        max_length=4096,
        strategy="none",
        chat_template=fastpack.ChatTemplate(source, now=NOW),
        train_on="all",
        **options,
    )
    return table["input_ids"].to_pylist(), fastpack.Report.of(table)


@settings(
    max_examples=tries(60, 2000), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(user=st.sampled_from(sorted(WAYS)), assistant=st.sampled_from(sorted(WAYS)), messages=CHATS)
def test_lists_are_rendered_as_in_transformers_and_joined_where_it_refuses_them(
    user: str, assistant: str, messages: list[Record], tokenizer_dir: Path
) -> None:
    source = template(user, assistant)
    expected, is_joined = rendered(source, messages)
    tokenizer = fastpack.Tokenizer(tokenizer_dir)
    if expected is None:
        with pytest.raises(fastpack.OptionError):
            tokenizer.apply_chat_template(messages, chat_template=source, tokenize=False)
        with pytest.raises(fastpack.RecordError):
            rows(messages, tokenizer_dir, source)
        return
    assert tokenizer.apply_chat_template(messages, chat_template=source, tokenize=False) == expected
    ids = tokenizer.encode(expected, add_special_tokens=False).tolist()
    assert tokenizer.apply_chat_template(messages, chat_template=source)["input_ids"].tolist() == ids
    found, report = rows(messages, tokenizer_dir, source)
    assert found == [ids, ids]
    assert report.joined_parts.records == 2 * is_joined
    masked = tokenizer.apply_chat_template(messages, chat_template=source, return_assistant_tokens_mask=True)
    assert masked["input_ids"].tolist() == ids


LISTS = [
    {"role": "user", "content": [text("a river"), text(" and a boat")]},
    {"role": "assistant", "content": [text("it "), text("walks")]},
]


@pytest.mark.parametrize(
    ("ways", "is_joined"),
    [
        (("added", "printed"), True),
        (("printed", "added"), True),
        (("printed", "as json"), False),
        (("walked", "walked"), False),
    ],
)
def test_every_call_renders_the_same_text_of_a_list(
    ways: tuple[str, str],
    is_joined: bool,
    tokenizer_dir: Path,
    write_jsonl: Callable[..., Path],
    tmp_path: Path,
) -> None:
    source = template(*ways)
    expected, told = rendered(source, LISTS)
    assert told == is_joined
    assert expected is not None
    path = write_jsonl([{"messages": LISTS}])
    tokenizer = fastpack.Tokenizer(tokenizer_dir)
    ids = tokenizer.encode(expected, add_special_tokens=False).tolist()
    options: dict[str, Any] = {"max_length": 512, "chat_template": fastpack.ChatTemplate(source, now=NOW)}
    for engine in ("jinja", "python"):
        engines = {"template_engine": "python"} if engine == "python" else {}
        named = nested(engines, {"chat_template": source})
        assert tokenizer.apply_chat_template(LISTS, tokenize=False, **named) == expected
        table = fastpack.pack_files(path, tokenizer_dir, strategy="none", **nested(engines, options))
        assert table["input_ids"].to_pylist() == [ids]
        assert fastpack.Report.of(table).joined_parts.records == is_joined
    folder = fastpack.pack_dir(path, tmp_path / "out", tokenizer=tokenizer_dir, **options)
    assert folder.joined_parts.records == is_joined
    assert folder.tokens.kept == len(ids)
    scanned = fastpack.scan(path, tokenizer_dir, **options)
    assert scanned.joined_parts.records == is_joined
    assert scanned.read.tokens == len(ids)
    stream = fastpack.stream(path, tokenizer_dir, batch_size=1, epochs=1, strategy="none", **options)
    assert [row for table in stream for row in table["input_ids"].to_pylist()] == [ids]
    preferred = [
        {"prompt": LISTS[:1], "chosen": LISTS[1:], "rejected": [{"role": "assistant", "content": "no"}]}
    ]
    table = fastpack.pack_records(
        preferred, tokenizer_dir, objective="preference", strategy="none", **options
    )
    assert fastpack.Report.of(table).joined_parts.records == is_joined


def test_a_part_that_the_template_leaves_out_is_counted_by_its_type(tokenizer_dir: Path) -> None:
    source = template("walked", "first")
    said = [text("so"), {"type": "thinking", "thinking": "why"}, {"type": "thinking", "thinking": " "}]
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": said}]
    for more in ("", "{% set unread = messages|tojson %}"):
        _, report = rows(messages, tokenizer_dir, source + more)
        assert {field: noted.records for field, noted in report.left_out.items()} == {
            "thinking in assistant content": 2
        }
        assert "thinking in assistant content" in "".join(report.warnings)


@pytest.mark.parametrize(
    "kind", ["image", "image_url", "input_image", "audio", "input_audio", "video", "file"]
)
def test_a_part_that_is_no_text_is_refused_by_its_type(kind: str, tokenizer_dir: Path) -> None:
    messages = [
        {"role": "user", "content": [{"type": kind, "x": "y"}]},
        {"role": "assistant", "content": "b"},
    ]
    remedy = "pictures are packed with" if "image" in kind else "fastpack packs text and pictures"
    with pytest.raises(fastpack.RecordError, match=f"of type `{kind}`; {remedy}"):
        rows(messages, tokenizer_dir, template("walked", "walked"))


BIG = st.one_of(
    st.integers(-(2**200), 2**200), st.sampled_from([2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 10**40])
)
PRINTED = "{{ v }} {{ v + 1 }} {{ v|tojson }} {{ v > 5 }} {{ -v }} {{ [v, {'a': v}] }} {{ '%d' % v }} {{ v == 2**63 }} {{ v // 7 }} {{ v % 7 }} {{ v // -3 }} {{ v % -3 }} {{ v * v }} {{ 3**70 - v }}"


@settings(
    max_examples=tries(40, 1000), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(number=BIG)
def test_integers_of_any_size_are_exact(number: int, tokenizer_dir: Path) -> None:
    tokenizer = fastpack.Tokenizer(tokenizer_dir)
    call = {"type": "function", "function": {"name": "f", "arguments": {"n": number, "in": [number]}}}
    messages: list[Record] = [{"role": "assistant", "content": "", "tool_calls": [call]}]
    tools = [{"type": "function", "function": {"name": "f", "maximum": number}}]
    source = f"{{{{ messages|tojson }}}}{{{{ tools|tojson }}}}{{{{ messages[0].tool_calls }}}}{PRINTED}"
    expected = reference(
        source, {"messages": messages, "tools": tools, "chat_template_kwargs": {"v": number}}
    )
    found = tokenizer.apply_chat_template(
        messages,
        tools=tools,
        chat_template=fastpack.ChatTemplate(source, variables={"v": number}),
        tokenize=False,
    )
    assert found == expected
    record = {"messages": messages, "tools": tools, "chat_template_kwargs": {"v": number}}
    table = fastpack.pack_records(
        [record], tokenizer_dir, max_length=8192, chat_template=source, train_on="all"
    )
    assert table["input_ids"].to_pylist() == [tokenizer.encode(expected, add_special_tokens=False).tolist()]
    assert json.loads(json.dumps(record)) == record


def test_a_call_written_as_text_is_read_as_in_a_file(tokenizer_dir: Path) -> None:
    called = {"from": "function_call", "value": '{"name": "f", "arguments": {}}'}
    messages = [{"from": "human", "value": "a"}, called]
    for source in ("{% for m in messages %}{{ m.content }}{% endfor %}", "{{ messages[1].tool_calls }}"):
        found, _ = rows(messages, tokenizer_dir, source)
        chat = fastpack.Tokenizer(tokenizer_dir).apply_chat_template(messages, chat_template=source)
        assert found[0] == chat["input_ids"].tolist()
