"""Trains the small tokenizer beside it on the example texts: `python examples/make_tokenizer.py`.

It is a byte-level BPE of 2048 entries with a ChatML-like template that marks what the assistant writes. The same
texts and the same version of `tokenizers` (0.23) give the same file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
VOCABULARY = 2048
SPECIAL = ["<|endoftext|>", "<|start|>", "<|end|>"]


def texts() -> Iterator[str]:
    """Every string that the example files hold."""
    for path in sorted(HERE.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield from strings(json.loads(line))


def strings(value: object) -> Iterator[str]:
    """The strings inside a JSON value, and tools as templates write them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield json.dumps(value)
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def main() -> None:
    """Trains the tokenizer and writes its files."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts(), trainer)
    folder = HERE / "tokenizer"
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|endoftext|>",
        "pad_token": "<|endoftext|>",
        "clean_up_tokenization_spaces": False,
        "model_max_length": 4096,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
