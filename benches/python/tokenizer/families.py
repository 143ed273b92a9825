"""Small tokenizers of the families that have no published one here, trained on the texts that are measured."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TEXTS = 4000
"""Texts that a tokenizer is trained on."""

SIZE = 32_000
"""Tokens of a trained tokenizer."""

CLIP = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"


def texts(files: list[Path]) -> Iterator[str]:
    """The first texts of each file, cut to a length that the trainers take."""
    for file in files:
        with file.open(encoding="utf-8") as lines:
            for line in islice(lines, TEXTS):
                record: dict[str, Any] = json.loads(line)
                yield str(record.get("text", record))[:4000]


def unigram(iterator: Iterator[str]) -> Tokenizer:
    """XLM-R's and T5's kind."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    steps = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    special = ["<unk>", "<s>", "</s>"]
    trainer = trainers.UnigramTrainer(
        vocab_size=SIZE, unk_token="<unk>", special_tokens=special, show_progress=False
    )
    tokenizer.train_from_iterator(iterator, trainer)
    file = json.loads(tokenizer.to_str())
    # SentencePiece, which trained the published ones, writes scores of 32 bits.
    file["model"]["vocab"] = [[piece, float(np.float32(score))] for piece, score in file["model"]["vocab"]]
    return Tokenizer.from_str(json.dumps(file))


def clip(iterator: Iterator[str]) -> Tokenizer:
    """CLIP's kind: words that end in `</w>`, in byte letters."""
    tokenizer = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    steps = [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    tokenizer.normalizer = normalizers.Sequence(steps)
    cut = pre_tokenizers.Split(Regex(CLIP), behavior="removed", invert=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([cut, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=SIZE, initial_alphabet=alphabet, end_of_word_suffix="</w>", show_progress=False
    )
    tokenizer.train_from_iterator(iterator, trainer)
    return tokenizer


def nllb(iterator: Iterator[str]) -> Tokenizer:
    """NLLB's kind: pieces that write a blank as `▁`, without byte fallback."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=SIZE, special_tokens=["<unk>"], show_progress=False)
    tokenizer.train_from_iterator(iterator, trainer)
    return tokenizer


def words(iterator: Iterator[str]) -> Tokenizer:
    """Whole words, each of which is a token."""
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.WordLevelTrainer(vocab_size=SIZE, special_tokens=["<unk>"], show_progress=False)
    tokenizer.train_from_iterator(iterator, trainer)
    return tokenizer


FAMILIES: dict[str, Callable[[Iterator[str]], Tokenizer]] = {
    "unigram": unigram,
    "clip": clip,
    "nllb": nllb,
    "words": words,
}


def train_families(files: list[Path], scratch: Path) -> Iterator[tuple[str, Path]]:
    """Trains one tokenizer of each family, and names its file."""
    for name, train in FAMILIES.items():
        path = scratch / f"{name}.json"
        train(texts(files)).save(str(path))
        yield name, path
