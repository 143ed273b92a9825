"""Helpers of the template tests: TRL's templates, conversations, and the reference renderer."""

from __future__ import annotations

import copy
import datetime as dt
import importlib.metadata
import json
from pathlib import Path
from typing import Any

import pytest

NOW = dt.datetime(2026, 3, 9, 7, 5, 4)  # noqa: DTZ001  what templates see has no zone
SPECIAL_TOKENS = {"bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>", "pad_token": "<pad>"}


def trl_templates() -> dict[str, str]:
    """The templates in TRL's wheel by name, without importing it."""
    try:
        files = importlib.metadata.files("trl") or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("trl is not installed")
    paths = [Path(str(file.locate())) for file in files if file.parent.name == "chat_templates"]
    return {path.stem: path.read_text() for path in sorted(paths) if path.suffix == ".jinja"}


# It marks nothing of the assistant's text.
UNMARKED = """{% for m in messages %}<|start|>{{ m.role }}
{{ m.content if m.content is string else m.content|map(attribute='text')|join }}\
{% for call in m.tool_calls or [] %}{{ call.function.arguments|tojson }}{% endfor %}<|end|>
{% endfor %}{% if add_generation_prompt %}<|start|>assistant
{% endif %}"""


def unfollowed(source: str) -> str:
    """Adds a use of all messages to a template that compiled programs do not support, so that it is interpreted."""
    return source.removesuffix("\n") + "{% set unread = messages|tojson %}"


def native(
    source: str, record: dict[str, Any], *, spans: bool = False, turn_ends: list[str] | None = None
) -> Any:
    """Renders with fastpack; returns the result, or its ValueError."""
    from fastpack import _fastpack

    rendered = _fastpack.render_template(
        source, list(SPECIAL_TOKENS.items()), json.dumps(record), spans, NOW.isoformat(), turn_ends or []
    )
    return rendered if spans else rendered[0]


class FixedClock(dt.datetime):
    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:  # noqa: ARG003
        return NOW


def reference(source: str, record: dict[str, Any], *, spans: bool = False) -> Any:
    """Renders as `apply_chat_template` does: drops nulls, then calls the renderer of transformers."""
    from transformers.utils import chat_template_utils

    record = copy.deepcopy(record)
    messages = [{k: v for k, v in message.items() if v is not None} for message in record["messages"]]
    chat_template_utils.datetime = FixedClock
    try:
        texts, indices = chat_template_utils.render_jinja_template(
            [messages],
            tools=record.get("tools"),
            chat_template=source,
            return_assistant_tokens_mask=spans,
            **{**SPECIAL_TOKENS, **record.get("chat_template_kwargs", {})},
        )
    finally:
        chat_template_utils.datetime = dt.datetime
    return (texts[0], indices[0]) if spans else texts[0]


def to_characters(text: str, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Byte ranges as ranges of characters."""
    data = text.encode()
    return [(len(data[:start].decode()), len(data[:end].decode())) for start, end in spans]


def outcome(source: str, record: dict[str, Any]) -> tuple[str, str]:
    """Compares the two renderers on a record: `identical`, `both refuse`, `refused` or `DIFFERENT`, and the reason."""
    try:
        expected = reference(source, record)
    except Exception as error:  # any failure of the reference is a refusal
        expected, reason = None, f"{type(error).__name__}: {error}"
    try:
        found = native(source, record)
    except ValueError as error:
        return ("both refuse", str(error)) if expected is None else ("refused", str(error))
    if expected is None:
        return "DIFFERENT", f"rendered {found!r} where transformers fails: {reason}"
    if found == expected:
        return "identical", ""
    at = next(
        (i for i, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b),
        min(len(found), len(expected)),
    )
    return "DIFFERENT", f"at {at}: {found[at - 20 : at + 40]!r} instead of {expected[at - 20 : at + 40]!r}"


def _tool(name: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(properties)[:1]}
    return {
        "type": "function",
        "function": {"name": name, "description": f"Does {name}.", "parameters": parameters},
    }


TOOLS = [
    _tool(
        "weather",
        city={"type": "string", "description": "Größe <b>&'\""},
        days={"type": "integer", "default": 1e-6},
    ),
    _tool(
        "find",
        items={"type": "array", "items": {"type": "string", "enum": ["a", "ü"]}},
        keys={"type": ["string", "null"]},
    ),
]
ODD_TOOL = {
    "type": "function",
    "function": {
        "name": "odd",
        "description": "日本語 🎉",
        "parameters": {
            "type": "object",
            "properties": {
                "items": {"type": "object", "properties": {"get": {"type": "number", "minimum": 1e22}}}
            },
            "required": [],
        },
        "return": {"type": "string"},
    },
}


def _call(name: str, arguments: Any, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


def _user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _assistant(text: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


_ODD = {
    "x": 1e-6,
    "y": 1e22,
    "z": [1.0, -0.0, 1.5e300, True, None],
    "items": {"keys": "<a&b>'\""},
    "é": "日本 \n\t",
}
_FLOATS = {"nan": float("nan"), "inf": float("inf"), "minus": float("-inf"), "big": 2**80, "neg": -(2**70)}

CONVERSATIONS: dict[str, dict[str, Any]] = {
    "plain": {"messages": [_user("Hello"), _assistant("Hi there.")]},
    "system": {"messages": [{"role": "system", "content": "Be kind."}, _user("Hello"), _assistant("Hi.")]},
    "multi-turn": {
        "messages": [_user("a"), _assistant("b"), _user("c"), _assistant("d"), _user("e"), _assistant("f")]
    },
    "unicode": {
        "messages": [_user("日本語 🎉 e\u0301 \u00a0\u2028x\x1c"), _assistant("Größe ß \u200d ﬁ \x85end")]
    },
    "html": {"messages": [_user("<b>&amp; 'x' \"y\"</b>"), _assistant("<i>&</i>")]},
    "blanks": {"messages": [_user("  \n padded \t\n"), _assistant("\n\n  padded\x1f \x0b")]},
    "empty": {"messages": [_user(""), _assistant("")]},
    "single user": {"messages": [_user("Hello")]},
    "prompt": {"messages": [_user("Hello")], "chat_template_kwargs": {"add_generation_prompt": True}},
    "two users": {"messages": [_user("a"), _user("b"), _assistant("c")]},
    "assistant first": {"messages": [_assistant("c"), _user("a")]},
    "system only": {"messages": [{"role": "system", "content": "s"}]},
    "missing content": {"messages": [_user("a"), {"role": "assistant"}]},
    "null content": {"messages": [_user("a"), _assistant(None), _user(None), _assistant("b")]},
    "no role": {"messages": [{"content": "a"}, _assistant("b")]},
    "odd role": {"messages": [{"role": "critic", "content": "a"}, _assistant("b")]},
    "developer": {"messages": [{"role": "developer", "content": "rules"}, _user("a"), _assistant("b")]},
    "reasoning": {
        "messages": [
            _user("a"),
            _assistant("b", reasoning_content="because"),
            _user("c"),
            _assistant("d", reasoning="why\n"),
        ]
    },
    "thinking": {
        "messages": [
            _user("a"),
            _assistant("b", thinking="hm"),
            _user("c"),
            _assistant("d", thinking="\nhm hm\n"),
        ]
    },
    "inline thinking": {
        "messages": [
            _user("a"),
            _assistant("<think>\nx\n</think>\n\nb"),
            _user("c"),
            _assistant("<think>y</think>d"),
        ]
    },
    "think off": {
        "messages": [_user("a"), _assistant("b")],
        "chat_template_kwargs": {"enable_thinking": False, "add_generation_prompt": True},
    },
    "parts": {
        "messages": [
            _user([{"type": "text", "text": "Look "}, {"type": "image"}]),
            _assistant([{"type": "text", "text": "Yes."}]),
        ]
    },
    "image url": {
        "messages": [
            _user([{"type": "image", "image": "x.png"}, {"type": "text", "text": "?"}]),
            _assistant("A cat."),
        ]
    },
    "number content": {"messages": [_user(3), _assistant(1e-6)]},
    "float content": {"messages": [_user("a"), _assistant([1e22, float("nan")])]},
    "dict content": {"messages": [_user({"a": 1}), _assistant({"b": [1.0, "x'y"]})]},
    "tools": {"messages": [_user("a"), _assistant("b")], "tools": TOOLS},
    "tools and system": {
        "messages": [{"role": "system", "content": "s"}, _user("a"), _assistant("b")],
        "tools": TOOLS,
    },
    "odd tool": {"messages": [_user("a"), _assistant("b")], "tools": [ODD_TOOL]},
    "no tools": {"messages": [_user("a"), _assistant("b")], "tools": []},
    "bare tool": {"messages": [_user("a"), _assistant("b")], "tools": [TOOLS[0]["function"]]},
}
for _name, _arguments in {
    "dict": {"city": "Bonn", "days": 2},
    "string": '{"city": "Bonn", "days": 2}',
    "odd": _ODD,
    "floats": _FLOATS,
    "empty": {},
}.items():
    for _content in ("", None, "Let me look."):
        CONVERSATIONS[f"call {_name} {_content!r}"] = {
            "messages": [
                _user("What is the weather?"),
                _assistant(_content, tool_calls=[_call("weather", _arguments, id="call00001")]),
                {"role": "tool", "name": "weather", "tool_call_id": "call00001", "content": "22 °C <&>"},
                _assistant("It is warm."),
            ],
            "tools": TOOLS,
        }
CONVERSATIONS["two calls"] = {
    "messages": [
        {"role": "system", "content": "s"},
        _user("a"),
        _assistant(
            "",
            reasoning_content="r",
            tool_calls=[
                _call("weather", {"city": "x"}, id="a"),
                _call("find", {"items": ["<", "ü"]}, id="b"),
            ],
        ),
        {"role": "tool", "tool_call_id": "a", "name": "weather", "content": {"temperature": 1e-7}},
        {"role": "tool", "tool_call_id": "b", "name": "find", "content": "[1, 2]"},
        _assistant("done"),
        _user("more"),
        _assistant("bye", reasoning_content="rr"),
    ],
    "tools": TOOLS,
}
CONVERSATIONS["flat call"] = {
    "messages": [
        _user("a"),
        _assistant(None, tool_calls=[{"name": "weather", "arguments": {"city": "x"}}]),
        {"role": "tool", "content": "y"},
    ],
    "tools": TOOLS,
}
