"""Measures conversations of tools and reasoning beside TRL, and beside a loop that applies the rule with transformers.

    python benches/python/templates/turns.py [--megabytes 10] [--rounds 3] [--only NAME ...] [--limit 1000]

The conversations are seeded: 2 to 12 steps, with calls, results and reasoning. fastpack and the loop make the
documents in which each turn stands behind what the model sees there, by the template that models are published with.
TRL tokenizes each conversation once, with the masks of its own template of the family. The peers take `--limit`
conversations, and what they take a second of one processor is compared, so that work beside it matters little. Each
contender is a process of its own, in turn; medians.

A second table compares fastpack with itself on conversations of 8 turns: by templates that mark their turns, where one
search of one text finds them, and by the published ones, where each turn is what stands behind its prompt.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

HERE = Path(__file__).resolve().parent
sys.path[:0] = [
    str(HERE.parents[1]),
    str(HERE.parent),
    str(HERE),
    *map(str, (HERE.parents[2] / "tests" / "python").glob("support/**/")),
]

import corpus  # noqa: E402

MAX_LENGTH = 16384

#: Templates that models are published with, by the names of TRL's files; TRL's own are `NAME_training`.
FAMILIES = ["qwen2_5", "qwen3", "glm4moe", "gptoss"]

#: Templates that keep earlier turns, so that a conversation is one document by either template.
KEEPING = ["qwen2_5", "glm4moe", "cohere2", "deepseekv3", "gemma3", "llama3", "phi3_5"]

#: Turns of the assistant in the conversations of the second table.
TURNS = 8


def records(path: str, limit: int) -> list[dict[str, Any]]:
    """The first conversations of a file."""
    with Path(path).open(encoding="utf-8") as lines:
        return [json.loads(line) for line in itertools.islice(lines, limit)]


def fastpack_packs(path: str, folder: str, _limit: int) -> dict[str, float]:
    """Pack whole files on one thread: read, render, tokenize, mask, pack."""
    import fastpack

    loaded = fastpack.Tokenizer(folder)
    started = time.process_time()
    table = fastpack.pack_files(
        path,
        loaded,
        max_length=MAX_LENGTH,
        threads=1,
        progress=False,
        on_bad_record="skip",
        overlong="drop",
        max_lost="100%",
    )
    seconds = time.process_time() - started
    report = fastpack.Report.of(table)
    dropped = sum(count.documents for count in report.dropped.values())
    return {
        "seconds": seconds,
        "documents": report.documents.kept,
        "dropped": dropped,
        "tokens": report.tokens.kept,
        "trained": report.trained_tokens,
    }


def trl(path: str, folder: str, limit: int) -> dict[str, float]:
    """Render and tokenize as TRL's trainer does, with the masks of its template; nothing is packed."""
    from jinja2.exceptions import TemplateError
    from transformers import AutoTokenizer

    loaded = AutoTokenizer.from_pretrained(folder)
    started = time.process_time()
    tokens = trained = 0
    read = records(path, limit)
    refused = 0
    for record in read:
        try:
            encoded = loaded.apply_chat_template(
                record["messages"],
                tools=record["tools"],
                tokenize=True,
                return_dict=True,
                return_assistant_tokens_mask=True,
            )
        except TemplateError:
            refused += 1
            continue
        tokens += len(encoded["input_ids"])
        trained += sum(encoded["assistant_masks"][1:])
    seconds = time.process_time() - started
    documents = len(read) - refused
    return {
        "seconds": seconds,
        "documents": documents,
        "dropped": refused,
        "tokens": tokens,
        "trained": trained,
    }


def turn_texts(loaded: Any, messages: list[Any], tools: list[Any]) -> list[tuple[str, int]]:
    """The text up to each turn, behind what the model sees there, and where the turn begins."""
    turns = []
    for at, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        history = loaded.apply_chat_template(messages[:at], tools=tools, tokenize=False)
        prompt = loaded.apply_chat_template(
            messages[:at], tools=tools, tokenize=False, add_generation_prompt=True
        )
        text = loaded.apply_chat_template(messages[: at + 1], tools=tools, tokenize=False).rstrip()
        if not text.startswith(prompt):
            _, _, reply = text.rpartition(prompt[len(history) :])
            text = prompt + reply
        turns.append((text, len(prompt)))
    return turns


def rule_loop(path: str, folder: str, limit: int) -> dict[str, float]:
    """Render each turn and the prompt before it, drop texts that another continues, tokenize and mask by offsets.

    It is what a careful script does: two renders a turn, and the past as the prompt has it where the template writes
    it otherwise once the turn is there.
    """
    from jinja2.exceptions import TemplateError
    from transformers import AutoTokenizer

    loaded = AutoTokenizer.from_pretrained(folder)
    started = time.process_time()
    documents = tokens = trained = 0
    read = records(path, limit)
    refused = 0
    for record in read:
        try:
            turns = turn_texts(loaded, record["messages"], record["tools"])
        except TemplateError:
            refused += 1
            continue
        texts: dict[str, list[tuple[int, int]]] = {}
        for text, start in reversed(turns):
            home = next((known for known in texts if known.startswith(text)), text)
            texts.setdefault(home, []).append((start, len(text)))
        for text, spans in texts.items():
            encoded = loaded(text, add_special_tokens=False, return_offsets_mapping=True)
            offsets = encoded["offset_mapping"]
            labels = [any(begin < end and start < last for start, end in spans) for begin, last in offsets]
            documents += 1
            tokens += len(encoded["input_ids"])
            trained += sum(labels[1:])
    seconds = time.process_time() - started
    return {
        "seconds": seconds,
        "documents": documents,
        "dropped": refused,
        "tokens": tokens,
        "trained": trained,
    }


CONTENDERS = {
    "fastpack": fastpack_packs,
    "TRL, masks": trl,
    "loop of the rule": rule_loop,
}


def measure(name: str, corpus: Path, folder: Path, limit: int) -> dict[str, float]:
    """Run one contender once, in a process of its own."""
    command = [sys.executable, __file__, "--contender", name, str(corpus), str(folder), str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{name} failed:\n{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def folders(family: str, base: Path, scratch: Path) -> tuple[Path, Path]:
    """Model folders with the published template of a family and with TRL's own."""
    from template_helpers import trl_templates
    from turn_templates import kind_of, write_folder

    sources = trl_templates()
    published = kind_of(sources[family])
    unmarked = write_folder(base, scratch / family, published)
    marked = write_folder(base, scratch / f"{family}_training", published)
    (marked / "chat_template.jinja").write_text(sources[f"{family}_training"], encoding="utf-8")
    return unmarked, marked


def cost_of_turns(base: Path, scratch: Path, megabytes: float, rounds: int, families: list[str]) -> None:
    """Print what finding each turn behind its prompt costs, beside turns that a template marks."""
    print(f"\n{TURNS} turns a conversation, medians of {rounds} rounds in turn\n")
    print(
        "| template | conversations | documents, published | marked: conversations a second "
        "| published: conversations a second | costs |"
    )
    print("|---|---|---:|---:|---:|---:|")
    kinds = {"chats": corpus.chat, "steps of tools": corpus.agentic}
    for kind, make in kinds.items():
        conversations = scratch / f"{make.__name__}.jsonl"
        corpus.write(conversations, megabytes=megabytes, seed=0, made=functools.partial(make, turns=TURNS))
        count = sum(1 for _ in conversations.open(encoding="utf-8"))
        for family in families:
            published, marked = folders(family, base, scratch)
            runs: dict[Path, list[dict[str, float]]] = {marked: [], published: []}
            for _, folder in itertools.product(range(rounds), runs):
                runs[folder].append(measure("fastpack", conversations, folder, count))
            before, after = (statistics.median(run["seconds"] for run in of) for of in runs.values())
            documents = runs[published][0]["documents"] / count
            print(
                f"| {family} | {kind} | {documents:.2f} | {count / before:,.0f} | {count / after:,.0f} "
                f"| {after / before:.2f} |",
                flush=True,
            )


def main() -> None:
    """Run as a program."""
    if sys.argv[1:2] == ["--contender"]:
        _, _, name, corpus_path, folder, limit = sys.argv
        print(json.dumps(CONTENDERS[name](corpus_path, folder, int(limit))))
        return
    from run import data, machine, train

    import fastpack._fastpack as native

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=int, default=400, help="conversations that the peers take")
    parser.add_argument("--only", nargs="+", help="families to measure", metavar="NAME")
    parser.add_argument(
        "--any-build", action="store_true", help="measure a build that is not for release too"
    )
    arguments = parser.parse_args()
    if native.build_profile != "release" and not arguments.any_build:
        raise SystemExit("the extension is a debug build: `make bench-turns` builds the right one")
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        chats = scratch / "agentic.jsonl"
        corpus.write(chats, megabytes=arguments.megabytes, seed=0, made=corpus.agentic)
        shared = data()
        if shared is not None:
            base = shared / "tokenizers" / "qwen"
        else:
            corpus.write(scratch / "chats.jsonl", megabytes=5, seed=0)
            base = train(scratch / "chats.jsonl", scratch / "trained on seeded chats")
        count = sum(1 for _ in chats.open(encoding="utf-8"))
        print(
            f"{machine()}, {count:,} conversations of 2 to 12 steps, tokenizer {base.name}, medians of "
            f"{arguments.rounds} rounds in turn\n"
        )
        print(
            "| template | contender | kept | documents | tokens | trained | conversations a second of one processor | times TRL | times the loop |"
        )
        print("|---|---|---:|---:|---:|---:|---:|---:|---:|")
        for family in arguments.only or FAMILIES:
            published, marked = folders(family, base, scratch)
            limits = {
                name: count if name.startswith("fastpack") else min(count, arguments.limit)
                for name in CONTENDERS
            }
            runs: dict[str, list[dict[str, float]]] = {name: [] for name in CONTENDERS}
            for _, name in itertools.product(range(arguments.rounds), CONTENDERS):
                used = marked if name == "TRL, masks" else published
                runs[name].append(measure(name, chats, used, limits[name]))
            speeds = {
                name: limits[name] / statistics.median(run["seconds"] for run in of)
                for name, of in runs.items()
            }
            for name, of in runs.items():
                run, limit = of[0], limits[name]
                print(
                    f"| {family} | {name} | {1 - run['dropped'] / limit:.1%} "
                    f"| {run['documents'] / limit:.2f} | {run['tokens'] / limit:,.0f} | {run['trained'] / limit:,.0f} "
                    f"| {speeds[name]:,.0f} | {speeds[name] / speeds['TRL, masks']:.1f} "
                    f"| {speeds[name] / speeds['loop of the rule']:.1f} |",
                    flush=True,
                )
        cost_of_turns(base, scratch, arguments.megabytes, arguments.rounds, arguments.only or KEEPING)


if __name__ == "__main__":
    main()
