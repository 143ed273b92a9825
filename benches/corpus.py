"""Makes the benchmark conversations: seeded, so that every run of every machine reads the same bytes.

    python benches/corpus.py OUT.jsonl --megabytes 20 --seed 0 [--agentic]

The words are invented from syllables and drawn by Zipf's law, so that a tokenizer meets few words often and many
words seldom, as in text. It is no language: where real text is at hand, prefer it.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

SYLLABLES = [
    a + b
    for a in ("b", "c", "d", "f", "g", "l", "m", "n", "p", "r", "s", "st", "t", "th", "v")
    for b in "aeiou"
]
ENDINGS = ["", "", "n", "r", "s", "t", "nd", "ng", "ing", "ed", "tion", "ly"]
WORDS = 40_000


def vocabulary(draw: random.Random) -> list[str]:
    """Invent words, the frequent ones short."""
    words: dict[str, None] = {}
    while len(words) < WORDS:
        syllables = 1 + min(int(len(words) / WORDS * 3 + draw.random() * 1.5), 4)
        words["".join(draw.choices(SYLLABLES, k=syllables)) + draw.choice(ENDINGS)] = None
    return list(words)


def paragraph(draw: random.Random, words: list[str], length: int) -> str:
    """Write about `length` words, with sentences, numbers and now and then a line of code."""
    # The inverse of Zipf's distribution: rank is WORDS to the power of a uniform number.
    drawn = [words[int(WORDS ** draw.random()) - 1] for _ in range(length)]
    out: list[str] = []
    for at, word in enumerate(drawn):
        if at % 12 == 0:
            out.append(word.capitalize())
        elif draw.random() < 0.02:
            out.append(str(draw.randrange(10_000)))
        elif draw.random() < 0.08:
            out.append(word + ",")
        elif at % 12 == 11:
            out.append(word + ".")
        else:
            out.append(word)
    text = " ".join(out)
    if draw.random() < 0.1:
        text += f"\n\n```python\n{drawn[0]} = {drawn[-1]}(x, {draw.randrange(100)})\n```"
    return text


def conversation(draw: random.Random, words: list[str]) -> dict[str, object]:
    """Make one record: 1 to 4 exchanges whose lengths are lognormal, as those of people are."""
    messages = []
    if draw.random() < 0.2:
        messages.append({"role": "system", "content": paragraph(draw, words, 20)})
    for _ in range(draw.choice((1, 1, 1, 2, 3, 4))):
        messages.append(
            {"role": "user", "content": paragraph(draw, words, 1 + int(draw.lognormvariate(2.8, 0.8)))}
        )
        messages.append(
            {"role": "assistant", "content": paragraph(draw, words, 1 + int(draw.lognormvariate(4.2, 0.9)))}
        )
    return {"messages": messages}


TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": {
                    key: {"type": kind, "description": f"The {key}."} for key, kind in keys.items()
                },
                "required": list(keys)[:1],
            },
        },
    }
    for name, description, keys in (
        ("search", "Searches the web.", {"query": "string", "count": "integer"}),
        ("read_file", "Reads a file.", {"path": "string", "from_line": "integer"}),
        ("run_command", "Runs a command.", {"command": "string"}),
        ("weather", "Gives the weather.", {"city": "string", "days": "integer"}),
    )
]
"""The tools of agentic conversations."""


def call(draw: random.Random, words: list[str], number: int) -> dict[str, Any]:
    """Make a call of one of the tools."""
    function = draw.choice(TOOLS)["function"]
    given = {
        key: draw.randrange(1, 100) if kind["type"] == "integer" else paragraph(draw, words, 3)
        for key, kind in function["parameters"]["properties"].items()
    }
    return {
        "id": f"call{number:05}",
        "type": "function",
        "function": {"name": function["name"], "arguments": given},
    }


def chat(draw: random.Random, words: list[str], *, turns: int) -> dict[str, Any]:
    """Make one record of so many answers of the assistant, without tools and reasoning."""
    messages = [
        {"role": role, "content": paragraph(draw, words, 1 + int(draw.lognormvariate(typical, 0.8)))}
        for _ in range(turns)
        for role, typical in (("user", 3.0), ("assistant", 4.2))
    ]
    return {"messages": messages}


def agentic(draw: random.Random, words: list[str], *, turns: int | None = None) -> dict[str, Any]:
    """Make one record of steps with tools and answers, most with reasoning: `turns` of the assistant, or 2 to 12."""
    messages: list[dict[str, Any]] = []

    def said(role: str, typical: float, **more: Any) -> None:
        length = 1 + int(draw.lognormvariate(typical, 0.8))
        messages.append({"role": role, "content": paragraph(draw, words, length), **more})

    def thought(share: float) -> dict[str, str]:
        length = 1 + int(draw.lognormvariate(3.8, 0.8))
        return {"reasoning_content": paragraph(draw, words, length)} if draw.random() < share else {}

    if draw.random() < 0.5:
        said("system", 3.5)
    reasons = draw.choice((0.0, 1.0, 1.0, 0.6))
    steps, number = turns or draw.randint(2, 12), 0
    said("user", 3.2)
    while steps > 1:
        calls = []
        for _ in range(draw.choice((1, 1, 1, 2))):
            number += 1
            calls.append(call(draw, words, number))
        said("assistant", 1.5, **thought(reasons), tool_calls=calls)
        if draw.random() < 0.6:
            messages[-1]["content"] = ""
        for one in calls:
            said("tool", 4.0, tool_call_id=one["id"], name=one["function"]["name"])
        steps -= 1
        if steps > 2 and draw.random() < 0.3:
            said("assistant", 3.8, **thought(reasons))
            said("user", 2.5)
            steps -= 1
    said("assistant", 4.2, **thought(reasons))
    return {"messages": messages, "tools": TOOLS}


def write(path: Path, *, megabytes: float, seed: int, made: Callable[..., object] = conversation) -> None:
    """Write conversations to `path` until it holds `megabytes` (10**6 bytes)."""
    draw = random.Random(seed)
    words = vocabulary(draw)
    wanted = int(megabytes * 1e6)
    with path.open("w", encoding="utf-8") as file:
        while wanted > 0:
            line = json.dumps(made(draw, words), ensure_ascii=False) + "\n"
            wanted -= len(line.encode())
            file.write(line)


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--megabytes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--agentic", action="store_true", help="with tools, reasoning and many steps")
    arguments = parser.parse_args()
    made = agentic if arguments.agentic else conversation
    write(arguments.out, megabytes=arguments.megabytes, seed=arguments.seed, made=made)


if __name__ == "__main__":
    main()
