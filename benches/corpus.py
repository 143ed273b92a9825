"""Makes the benchmark conversations: seeded, so that every run of every machine reads the same bytes.

    python benches/corpus.py OUT.jsonl --megabytes 20 --seed 0

The words are invented from syllables and drawn by Zipf's law, so that a tokenizer meets few words often and many
words seldom, as in text. It is no language: where real text is at hand, prefer it.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

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


def write(path: Path, *, megabytes: float, seed: int) -> None:
    """Write conversations to `path` until it holds `megabytes` (10**6 bytes)."""
    draw = random.Random(seed)
    words = vocabulary(draw)
    wanted = int(megabytes * 1e6)
    with path.open("w", encoding="utf-8") as file:
        while wanted > 0:
            line = json.dumps(conversation(draw, words), ensure_ascii=False) + "\n"
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
    arguments = parser.parse_args()
    write(arguments.out, megabytes=arguments.megabytes, seed=arguments.seed)


if __name__ == "__main__":
    main()
