"""Ids and characters of tokenizers with unusual parts equal those of `tokenizers`."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
import tokenizers
from tokenizers import models

import fastpack

if TYPE_CHECKING:
    from pathlib import Path

TRIM = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
PAIR = {"cls": ["<s>", 1], "sep": ["</s>", 2]}
BERT = {"type": "BertProcessing", **PAIR}
ROBERTA = {"type": "RobertaProcessing", **PAIR, "trim_offsets": True, "add_prefix_space": False}
TEMPLATE = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
}
NFC = {"type": "NFC"}
BLANKS = {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "}
SPACES = {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}


def steps(*processors: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "processors": list(processors)}


def unigram(vocab: list[tuple[str, float]]) -> dict[str, Any]:
    return {"type": "Unigram", "unk_id": 0, "vocab": vocab, "byte_fallback": False}


LETTERS = [
    (letter, -2.0) for letter in ["<unk>", "<s>", "</s>", " ", "a", "b", "t", "h", "e", " the", "\u2581"]
]


def write(path: Path, model: dict[str, Any], **parts: Any) -> Path:
    file = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": None,
        "model": model,
    }
    path.write_text(json.dumps(file | parts), encoding="utf-8")
    return path


def compare(path: Path, texts: list[str]) -> None:
    """Compares ids and characters, with and without special tokens."""
    theirs, ours = tokenizers.Tokenizer.from_file(str(path)), fastpack.Tokenizer(path)
    assert ours.engine == "compiled"
    for special in (True, False):
        ids, offsets, characters = ours.encode_batch(texts, add_special_tokens=special, return_offsets=True)
        for text, (start, end) in zip(texts, pairwise(offsets), strict=True):
            want = theirs.encode(text, add_special_tokens=special)
            assert ids[start:end].tolist() == want.ids, text
            assert [tuple(it) for it in characters[start:end].tolist()] == want.offsets, text


def token(content: str, number: int, *, lstrip: bool = False) -> dict[str, Any]:
    flags = {"single_word": False, "rstrip": False, "normalized": True, "special": False}
    return {"id": number, "content": content, "lstrip": lstrip, **flags}


@pytest.mark.parametrize(
    "processor",
    [TRIM, ROBERTA, steps(TRIM, BERT), steps(BERT, TRIM), steps(TEMPLATE, TRIM), steps(TEMPLATE, TRIM, TRIM)],
    ids=["trim", "roberta", "trim-bert", "bert-trim", "template-trim", "template-trim-trim"],
)
def test_blanks_are_left_out_of_characters_as_tokenizers_leaves_them_out(processor, tmp_path):
    texts = [
        "  a",
        "   a",
        " a",
        "a  b",
        "\n\u0145\u023c",
        "h\t",
        "\u2028   ",
        "the \u0085a",
        " e\u0301 b",
        "a \u00e9",
        "b\u2581the",
    ]
    path = tmp_path / "tokenizer.json"
    added = [token("\u00e9", 11, lstrip=True), token("\u2581the", 12)]
    for normalizer in (None, NFC, BLANKS, SPACES):
        for listed in ([], added):
            compare(
                write(
                    path,
                    unigram(LETTERS),
                    normalizer=normalizer,
                    post_processor=processor,
                    added_tokens=listed,
                ),
                texts,
            )


def test_scores_of_a_file_are_those_that_tokenizers_reads(tmp_path):
    pieces = ["<unk>", "\u2581", "a", "aa", "aaa", "aaaa", "aaaaa", "b", "ab", "ba", "aab", "abab"]
    texts = ["a" * length for length in range(1, 40)] + ["ab" * length for length in range(1, 20)]
    changed = 0
    for seed in range(150):
        made = random.Random(seed)
        vocab = [(piece, -made.random() * 12) for piece in pieces]
        path = write(tmp_path / "tokenizer.json", unigram(vocab))
        (tmp_path / "tokenizer_config.json").write_text(
            '{"tokenizer_class": "PreTrainedTokenizerFast"}', encoding="utf-8"
        )
        theirs = tokenizers.Tokenizer.from_file(str(path))
        # A live tokenizer has the scores as they are written.
        live = tokenizers.Tokenizer(models.Unigram(vocab, 0, False))
        file, folder, exact = (fastpack.Tokenizer(it) for it in (path, tmp_path, live))
        for text in texts:
            want, other = theirs.encode(text).ids, live.encode(text).ids
            assert file.encode(text).tolist() == folder.encode(text).tolist() == want, (seed, text)
            assert exact.encode(text).tolist() == other, (seed, text)
            changed += want != other
    assert changed > 0


def test_letters_of_bytes_fall_back_to_byte_tokens_as_tokenizers_has_it(tmp_path):
    letters = ["a", "b", "t", "h", "e", "th", "the", "\u00c3", "\u0120"]
    texts = ["a the", "\u00e9", "xa", " ", "a\u0301b", "\u4e2d the\n"]
    path = tmp_path / "tokenizer.json"
    for unknown in (None, "<unk>"):
        for known in (letters, letters[:-1]):
            listed = [*known, "<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
            model = {
                "type": "BPE",
                "vocab": {token: number for number, token in enumerate(listed)},
                "merges": [["t", "h"], ["th", "e"]],
                "unk_token": unknown,
                "byte_fallback": True,
            }
            for split in (True, False):
                step = {
                    "type": "ByteLevel",
                    "add_prefix_space": False,
                    "trim_offsets": True,
                    "use_regex": split,
                }
                compare(write(path, model, pre_tokenizer=step), texts)
