"""Measures how long templates take beside jinja2, conversation by conversation, for all templates of TRL.

    python benches/python/templates.py [--conversations 2000] [--rounds 3]

Rendering alone starts at conversations that are read, dicts for jinja2, in the sandbox that transformers renders in,
and fastpack's own values for its interpreter, and ends with texts where each made them. The interpreter is to take at
most a third of jinja2's time. The whole way starts at the lines of a file and ends with texts in Python, and compiled
programs take it too.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastpack._fastpack as native

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from run import machine, templates  # noqa: E402

import corpus  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = datetime.now().astimezone().strftime("%Y-%m-%dT%H:%M:%S")
SPECIAL_TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


def seconds(run: Callable[[], object], rounds: int) -> float:
    """The median time of a call."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def ways(source: str, lines: list[str]) -> dict[str, Callable[[], Any]]:
    """The ways from conversations, and from lines, to texts."""
    from transformers.utils.chat_template_utils import _compile_jinja_template

    compiled = _compile_jinja_template(source)
    records = [json.loads(line) for line in lines]
    conversations = native.Conversations(lines)
    tokens = list(SPECIAL_TOKENS.items())

    def rendered(record: dict[str, Any]) -> str:
        return compiled.render(messages=record["messages"], tools=None, **SPECIAL_TOKENS)

    def replayed(interpret: bool) -> list[str | None]:
        found = native.replay_template(source, tokens, lines, False, NOW, [], interpret)
        return [text and text[0] for text in found]

    return {
        "jinja2 renders": lambda: [rendered(record) for record in records],
        "fastpack renders": lambda: conversations.render(source, tokens, NOW),
        "jinja2": lambda: [rendered(json.loads(line)) for line in lines],
        "interpreted": lambda: replayed(True),
        "compiled": lambda: replayed(False),
    }


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--conversations", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if native.build_profile != "release":
        raise SystemExit("the extension is a debug build: `make bench-templates` builds the right one")
    draw = corpus.random.Random(0)
    words = corpus.vocabulary(draw)
    records = [corpus.conversation(draw, words) for _ in range(arguments.conversations)]
    lines = [json.dumps(record) for record in records]
    print(f"{machine()}, {len(lines):,} conversations, medians of {arguments.rounds} rounds\n")
    print(
        "| template | rendering, jinja2, µs | interpreted | with reading, jinja2, µs | interpreted | compiled |"
    )
    print("|---|---:|---:|---:|---:|---:|")
    for path in sorted(templates().glob("*.jinja")):
        contenders = ways(path.read_text(encoding="utf-8"), lines)
        try:
            wanted = contenders["jinja2"]()
        except Exception as refused:  # noqa: BLE001  some templates refuse a system prompt
            print(f"| {path.stem} | {type(refused).__name__} | | | | |")
            continue
        took = {name: seconds(run, arguments.rounds) / len(lines) * 1e6 for name, run in contenders.items()}
        served = sum(
            text == expected for text, expected in zip(contenders["compiled"](), wanted, strict=True)
        )
        alone = took["fastpack renders"] / took["jinja2 renders"]
        read, replayed = (took[name] / took["jinja2"] for name in ("interpreted", "compiled"))
        last = f"{replayed:.0%}" if served == len(wanted) else f"{served} of {len(wanted)}"
        first = f"| {path.stem} | {took['jinja2 renders']:.1f} | {alone:.0%} "
        print(f"{first}| {took['jinja2']:.1f} | {read:.0%} | {last} |", flush=True)


if __name__ == "__main__":
    main()
