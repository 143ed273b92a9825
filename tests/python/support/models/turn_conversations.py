"""Conversations with tools and reasoning in all the ways in which records hold them, for hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from turn_templates import Kind, with_macros

Message = dict[str, Any]

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Gives the weather.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "description": "The city."}},
                "required": ["city"],
            },
        },
    }
]

EDGES = [
    "é",
    "e\u0301",
    "日本",
    "🙂",
    "👩\u200d👧",
    "\u00a0",
    "\u2028",
    "ß",
    " ",
    "\n",
    "\t",
    "x",
    "0",
    "1",
    "\U000f0000",
    "\ufeff",
    "\u200b",
    "\u202e",
    "\u0301",
]
MIDDLES = ["river", "the old town", "2 + 2", "It is sunny.", "naïve", "a\n\nb", "city", "{", '"q"', "Zz"]

WORDS = st.tuples(st.sampled_from(["", *EDGES]), st.sampled_from(MIDDLES), st.sampled_from(["", *EDGES])).map(
    "".join
)


@st.composite
def contents(draw: st.DrawFn, *, parts: bool) -> Any:
    """Words, nothing, or a list of parts."""
    form = draw(st.sampled_from(["words"] * 6 + ["empty", "blank", "null"] + ["parts"] * parts))
    if form == "parts":
        return [{"type": "text", "text": draw(WORDS)} for _ in range(draw(st.integers(1, 2)))]
    return {"words": draw(WORDS), "empty": "", "blank": " ", "null": None}[form]


@st.composite
def answers(draw: st.DrawFn, *, parts: bool, field: str) -> Message:
    """A message of the assistant, perhaps with its reasoning."""
    message = {"role": "assistant", "content": draw(contents(parts=parts))}
    form = draw(st.sampled_from(["none", "none", "field", "inline", "empty"]))
    if form == "field":
        message[field] = draw(WORDS)
    elif form == "empty":
        message[field] = draw(st.sampled_from(["", None]))
    elif form == "inline" and isinstance(message["content"], str):
        between = draw(st.sampled_from(["", "\n", "\n\n"]))
        message["content"] = (
            f"<think>{between[:1]}{draw(WORDS)}{between[:1]}</think>{between}{message['content']}"
        )
    return message


@st.composite
def conversations(draw: st.DrawFn, *, parts: bool = False) -> dict[str, Any]:
    """A record: exchanges of a user and the assistant with steps of tools, and now and then something odd."""
    field = draw(st.sampled_from(["reasoning_content", "reasoning_content", "reasoning", "thinking"]))
    has_tools = draw(st.booleans())
    as_text = draw(st.booleans())
    messages: list[Message] = []
    if draw(st.integers(0, 3)) == 0:
        messages.append({"role": "system", "content": draw(WORDS)})
    number = 0
    for _ in range(draw(st.integers(1, 3))):
        messages.append({"role": "user", "content": draw(contents(parts=parts))})
        for _ in range(draw(st.integers(0, 2)) if has_tools else 0):
            step = draw(answers(parts=parts, field=field))
            if draw(st.booleans()):
                step["content"] = draw(st.sampled_from(["", None]))
            calls: list[Any] = []
            for _ in range(draw(st.sampled_from([1, 1, 1, 2]))):
                number += 1
                city = draw(st.sampled_from(["Rome", "Łódź", "東京"]))
                arguments = f'{{"city": "{city}"}}' if as_text else {"city": city}
                function = {"name": "weather", "arguments": arguments}
                calls.append({"id": f"abcdefgh{number}", "type": "function", "function": function})
            messages.append({**step, "tool_calls": calls})
            for call in calls:
                result = {"role": "tool", "tool_call_id": call["id"], "name": "weather"}
                messages.append({**result, "content": draw(contents(parts=parts))})
        if has_tools and draw(st.integers(0, 7)) == 0:
            continue  # The results have no answer.
        messages.append(draw(answers(parts=parts, field=field)))
        if draw(st.integers(0, 7)) == 0:
            messages.append(draw(answers(parts=parts, field=field)))
    if draw(st.integers(0, 5)) == 0:
        messages.append({"role": "user", "content": draw(WORDS)})
    return {"messages": messages, **({"tools": TOOLS} if has_tools else {})}


def features(record: dict[str, Any]) -> set[str]:
    """The features of a conversation for which the laws of turns have to hold."""
    found = {"tools"} if record.get("tools") else set()
    for before, message in zip([{}, *record["messages"]], record["messages"], strict=False):
        role, content = message["role"], message["content"]
        calls = message.get("tool_calls", [])
        found |= (
            {f"{len(calls)} calls", f"arguments as {type(calls[0]['function']['arguments']).__name__}"}
            if calls
            else set()
        )
        found |= {f"reasoning in {field}" for field in FIELDS if message.get(field)}
        found |= {"no reasoning in a field" for field in FIELDS if not message.get(field, "words")}
        found |= {"a run of the assistant"} if before.get("role") == role == "assistant" else set()
        form = {str: "text", list: "parts", type(None): "null"}[type(content)]
        found.add(f"{role}: {form if content or content is None else 'empty'}")
        texts = [part["text"] for part in content] if isinstance(content, list) else [content or ""]
        found |= {"inline reasoning"} if "</think>" in texts[0] else set()
        found |= {f"begins with {edge!r}" for edge in EDGES for text in texts if text.startswith(edge)}
        found |= {f"ends with {edge!r}" for edge in EDGES for text in texts if text.endswith(edge)}
    found.add(f"ends with {record['messages'][-1]['role']}")
    return found


FIELDS = ("reasoning_content", "reasoning", "thinking")
"""The fields of reasoning."""

FEATURES = {
    *("tools", "1 calls", "2 calls", "arguments as str", "arguments as dict", "a run of the assistant"),
    *(f"reasoning in {field}" for field in FIELDS),
    *("no reasoning in a field", "inline reasoning"),
    *(
        f"{role}: {form}"
        for role in ("user", "assistant", "tool")
        for form in ("text", "empty", "null", "parts")
    ),
    *(f"{at} with {edge!r}" for at in ("begins", "ends") for edge in EDGES),
    *(f"ends with {role}" for role in ("user", "assistant", "tool")),
}
"""All of them."""

THOUGHTS = {
    "never": "false",
    "always": "t",
    "behind the last user": "t and loop.index0 > n.user",
    "in the last message": "t and loop.last",
    "empty in the last message": "t and loop.index0 > n.user or loop.last",
    "in every turn": "true",
}
"""When a template prints the reasoning `t` of a message."""


@st.composite
def kinds(draw: st.DrawFn) -> Kind:
    """A template put together of usual treatments of headers, reasoning, calls and ends."""
    opens = draw(
        st.sampled_from(["<|start|>ROLE\n", "<|start|>ROLE<|sep|>", "<|ROLE|>\n", "ROLE: ", "\n### ROLE:\n"])
    )
    closes = draw(st.sampled_from(["<|end|>\n", "<|end|>", " <|end|>\n\n", "\n", "</s>"]))
    header = opens.replace("ROLE", "{{ m.role }}").replace("\n", "{{ '\\n' }}")
    asks = opens.replace("ROLE", "assistant") + draw(
        st.sampled_from(["", "", "", "<think>\n", "<think>", "\n", " ", "It is so:\n", "<thought>"])
    )
    around = draw(
        st.sampled_from([("<think>\n", "\n</think>\n\n"), ("<think>", "</think>"), ("[THINK]", "[/THINK]")])
    )
    thought = draw(st.sampled_from(sorted(THOUGHTS)))
    words = draw(st.sampled_from(["said(m)", "said(m) | trim", "said(m).split('</think>')[-1]"]))
    calls = draw(
        st.sampled_from(["{{ calls(m, '<tool_call>', '</tool_call>') }}", "{{ calls(m, '\n', '') }}", ""])
    )
    prompt = draw(
        st.sampled_from([f"{{% if add_generation_prompt %}}{{{{ {asks!r} }}}}{{% endif %}}"] * 4 + [""])
    )
    last = draw(st.sampled_from(["", "", "", "{% if not add_generation_prompt %}<|eos|>{% endif %}"]))
    begin = draw(st.sampled_from(["", "<|bos|>"]))
    source = (
        begin + "{%- set n = namespace(user=-1) -%}{%- for m in messages -%}{%- if m.role == 'user' -%}"
        "{%- set n.user = loop.index0 -%}{%- endif -%}{%- endfor -%}"
        "{% for m in messages %}{% set t = m.reasoning_content or m.reasoning or m.thinking or '' %}"
        + header
        + f"{{% if m.role == 'assistant' and ({THOUGHTS[thought]}) %}}{{{{ {around[0]!r} ~ t ~ {around[1]!r} }}}}{{% endif %}}"
        f"{{{{ {words} }}}}{calls}{{{{ {closes!r} }}}}{{% endfor %}}{prompt}{last}"
    )
    stops = [stop for stop in (closes.strip(), "<|eos|>") if stop in source and stop]
    return Kind(with_macros(source), tuple(stops) or ("<|eos|>",))
