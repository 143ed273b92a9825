"""Measures how long templates take beside jinja2, conversation by conversation, for all templates of TRL.

    python benches/python/templates/templates.py [--conversations 2000] [--rounds 3] [--only NAME ...]

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
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent), str(HERE)]

from run import machine, templates  # noqa: E402

import corpus  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = datetime.now().astimezone().strftime("%Y-%m-%dT%H:%M:%S")
SPECIAL_TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


def seconds(contenders: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The median CPU seconds of each call, made in turn: other work on the machine meets all of them alike."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            started = time.process_time()
            run()
            times[name].append(time.process_time() - started)
    return {name: statistics.median(of) for name, of in times.items()}


def oracle(source: str) -> Callable[[dict[str, Any]], str]:
    """The render of a record by jinja2, in the sandbox that transformers renders in."""
    from transformers.utils.chat_template_utils import _compile_jinja_template

    compiled = _compile_jinja_template(source)
    return lambda record: compiled.render(messages=record["messages"], tools=None, **SPECIAL_TOKENS)


def taken(source: str, lines: list[str]) -> list[str]:
    """The conversations that a template takes: some refuse a system prompt."""
    rendered = oracle(source)
    kept = []
    for line in lines:
        try:
            rendered(json.loads(line))
        except Exception:  # noqa: BLE001  whatever it is that a template refuses
            continue
        kept.append(line)
    return kept


def ways(source: str, lines: list[str]) -> dict[str, Callable[[], Any]]:
    """The ways from conversations, and from lines, to texts."""
    rendered = oracle(source)
    records = [json.loads(line) for line in lines]
    conversations = native.Conversations(lines)
    tokens = list(SPECIAL_TOKENS.items())

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
    parser.add_argument("--only", nargs="+", default=[], help="templates to measure", metavar="NAME")
    arguments = parser.parse_args()
    if native.build_profile != "release":
        raise SystemExit("the extension is a debug build: `make bench-templates` builds the right one")
    draw = corpus.random.Random(0)
    words = corpus.vocabulary(draw)
    records = [corpus.conversation(draw, words) for _ in range(arguments.conversations)]
    lines = [json.dumps(record) for record in records]
    print(
        f"{machine()}, {len(lines):,} conversations, CPU time, medians of {arguments.rounds} rounds in turn\n"
    )
    print(
        "| template | rendering, jinja2, µs | interpreted | with reading, jinja2, µs | interpreted | compiled |"
    )
    print("|---|---:|---:|---:|---:|---:|")
    for path in sorted(templates().glob("*.jinja")):
        if arguments.only and path.stem not in arguments.only:
            continue
        source = path.read_text(encoding="utf-8")
        kept = taken(source, lines)
        if not kept:
            print(f"| {path.stem} | takes none of them | | | | |")
            continue
        contenders = ways(source, kept)
        wanted = contenders["jinja2"]()
        took = seconds(contenders, arguments.rounds)
        served = sum(
            text == expected for text, expected in zip(contenders["compiled"](), wanted, strict=True)
        )
        alone = took["fastpack renders"] / took["jinja2 renders"]
        read, replayed = (took[name] / took["jinja2"] for name in ("interpreted", "compiled"))
        last = f"{replayed:.0%}" if served == len(wanted) else f"{served} of {len(wanted)}"
        rendering, reading = (took[name] / len(kept) * 1e6 for name in ("jinja2 renders", "jinja2"))
        first = f"| {path.stem} | {rendering:.1f} | {alone:.0%} "
        print(f"{first}| {reading:.1f} | {read:.0%} | {last} |", flush=True)


if __name__ == "__main__":
    main()
