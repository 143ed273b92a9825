"""The description of a tokenizer: its engine, its components, its tokens, and its speed on this machine."""

from __future__ import annotations

import random
import time
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

from fastpack._fastpack import one_line
from fastpack.report.display.pages import labelled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastpack.tokenizer.tokenizer import Tokenizer
    from fastpack.types import JsonValue

__all__ = ["TokenizerFacts", "facts_of"]

_TEXTS: Final = 200
"""The number of texts that are encoded to measure the speed."""

_TOKENS: Final = 1_000
"""The number of tokens in each of these texts."""

_SEED: Final = 1
"""The random seed of the texts, which are the same each time."""

_TEMPLATE_CHARACTERS: Final = 60
"""Characters of the first line of a chat template that are shown."""


class TokenizerFacts(NamedTuple):
    """The description that `fastpack tokenizer` prints.

    Attributes:
        lines: Labels and values; a line without a label belongs to the one before it.
    """

    lines: tuple[tuple[str, str], ...]

    def to_dict(self) -> dict[str, JsonValue]:
        """The values, by their labels."""
        found: dict[str, list[str]] = {}
        for label, value in self.lines:
            found.setdefault(label or next(reversed(found), ""), []).append(value)
        return {label: values[0] if len(values) == 1 else [*values] for label, values in found.items()}

    def __str__(self) -> str:
        """The page."""
        return "\n".join(f"{label:<15} {one_line(value)}" for label, value in self.lines)


def facts_of(tokenizer: Tokenizer) -> TokenizerFacts:
    """Describes a tokenizer. Its speed is measured, which takes about a second."""
    return TokenizerFacts(tuple(_facts(tokenizer)))


def _facts(tokenizer: Tokenizer) -> Iterator[tuple[str, str]]:
    reason = tokenizer.reason
    yield "engine", tokenizer.engine + (f": {reason}" if reason else "")
    for name, component in tokenizer.components.items():
        yield name.replace("_", "-"), component
    yield "vocabulary", f"{tokenizer.vocab_size:,} tokens"
    special = [f"{name} `{content}`" for name, content in tokenizer.special_tokens.items()]
    yield from labelled("special", special or ["none are named"])
    templates = [
        f"`{name}`, {len(source):,} characters: {source.strip().splitlines()[0][:_TEMPLATE_CHARACTERS]}"
        for name, source in tokenizer.chat_templates.items()
        if source.strip()
    ]
    yield from labelled("template", templates or ["none"])
    yield "speed", _speed(tokenizer)


def _speed(tokenizer: Tokenizer) -> str:
    """The speed on one core, in megabytes of text per second. The texts consist of its tokens, mostly of low ids."""
    texts = _texts(tokenizer)
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    rates = []
    for _ in range(2):
        start = time.perf_counter()
        tokenizer.encode_batch(texts, add_special_tokens=False)
        rates.append(megabytes / (time.perf_counter() - start))
    first, again = rates
    return (
        f"{first:,.1f} MB/s at first sight, {again:,.1f} when seen before, on one core: "
        f"{megabytes:.1f} MB of text made of its tokens"
    )


def _texts(tokenizer: Tokenizer) -> list[str]:
    chance = random.Random(_SEED)  # noqa: S311  the texts are only measured with
    special = set(tokenizer.special_tokens.values())
    ids = [number for number in range(tokenizer.vocab_size) if tokenizer.id_to_token(number) not in special]
    weights = list(accumulate(1 / (rank + 10) for rank in range(len(ids))))
    return [
        tokenizer.decode(chance.choices(ids, cum_weights=weights, k=_TOKENS)).replace("\ufffd", " ")
        for _ in range(_TEXTS)
    ]
