"""Folders without a `tokenizer.json` give the same as transformers' AutoTokenizer from their other files."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import random
from typing import TYPE_CHECKING, Any

import pytest
from campaign import tries

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TIKTOKEN_CACHE_DIR"] = ""

pytest.importorskip("sentencepiece")
pytest.importorskip("tiktoken")

import sentencepiece
from test_tokenizer_ids import VARIANTS, assert_equal, byte_level, corpus, expected, texts
from transformers import AutoTokenizer

import fastpack

if TYPE_CHECKING:
    from pathlib import Path

FILES = {
    "tokenizer.model": ["LlamaTokenizer", "GemmaTokenizer", None, "CodeLlamaTokenizer"],
    "spiece.model": ["T5TokenizerFast", "AlbertTokenizer"],
    "sentencepiece.bpe.model": ["XLMRobertaTokenizerFast", "NllbTokenizer"],
}
"""Classes that read each file, where the folder has no other; transformers builds the last of each."""


SENTENCE_PIECE = {
    "unigram": {"kind": "unigram"},
    "unigram-bytes": {"kind": "unigram", "byte_fallback": True, "vocab_size": 800},
    "pairs": {"kind": "bpe", "normalization_rule_name": "identity", "byte_fallback": True, "vocab_size": 800},
    "pairs-plain": {"kind": "bpe", "pad_id": 0, "eos_id": 1, "bos_id": 2, "unk_id": 3},
}


def write(folder: Path, name: str | None, files: dict[str, Any]) -> None:
    folder.mkdir(parents=True)
    config = files.get("tokenizer_config.json", {})
    if name is not None:
        config = {**config, "tokenizer_class": name}
    for file, content in {**files, "tokenizer_config.json": config}.items():
        path = folder / file
        path.parent.mkdir(exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


def compare(folder: Path, documents: list[str]) -> bool:
    """True if transformers makes a tokenizer of the folder; then fastpack's has to be the same."""
    try:
        theirs = AutoTokenizer.from_pretrained(folder)
        expected(theirs, documents[:1], True)
    except Exception:
        # transformers cannot load the folder: fastpack need not either, but has to say so with its own words.
        with contextlib.suppress(fastpack.TokenizerError, fastpack.InputNotFoundError):
            fastpack.Tokenizer(folder)
        return False
    try:
        expected(theirs, documents, True)
    except Exception:
        return False
    assert_equal(folder, documents)
    return True


@pytest.mark.parametrize("trained", SENTENCE_PIECE)
def test_folders_with_a_sentencepiece_file_equal_transformers(trained: str, tmp_path: Path) -> None:
    options = {"vocab_size": 520, **SENTENCE_PIECE[trained]}
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus()),
        model_writer=written,
        model_type=options.pop("kind"),
        hard_vocab_limit=False,
        user_defined_symbols=["<sep>", "<image>"],
        control_symbols=["[CLS]", "[SEP]"],
        minloglevel=2,
        **options,
    )
    documents = texts(tries(20, 40))
    compared = set()
    variants = ["plain", "named", "decoder", "legacy"]
    for file, classes in FILES.items():
        for place, name in enumerate(classes):
            # `plain`, and in `make test` one other in turn.
            for variant in tries(["plain", variants[1 + place % 3]], variants):
                folder = tmp_path / f"{name}-{variant}"
                write(folder, name, {**VARIANTS[variant], file: written.getvalue()})
                if compare(folder, documents):
                    compared.add(name)
    wanted = {name for names in FILES.values() for name in names}
    pairs = {"LlamaTokenizer", "GemmaTokenizer", "CodeLlamaTokenizer", "NllbTokenizer"}
    assert compared >= (wanted - pairs if trained.startswith("unigram") else pairs | {None}), (
        wanted - compared
    )


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@pytest.mark.parametrize("blanks", [True, False], ids=["usual", "as-written"])
def test_a_folder_without_a_class_encodes_as_sentencepiece(kind: str, blanks: bool, tmp_path: Path) -> None:
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus()),
        model_writer=written,
        model_type=kind,
        vocab_size=800,
        byte_fallback=blanks,
        hard_vocab_limit=False,
        add_dummy_prefix=blanks,
        remove_extra_whitespaces=blanks,
        user_defined_symbols=["<sep>", "a.b", "<image>", "a"] if blanks else [],
        control_symbols=["[CLS]", "[SEP]"],
        minloglevel=2,
    )
    added = {
        # Two pieces swap their names, and one has another's, which stays.
        "5": {"content": "[SEP]", "special": True},
        "4": {"content": "[CLS]", "special": True},
        "3": {"content": "<s>", "special": True},
        "900": {"content": "<new>", "special": False, "normalized": True},
    }
    documents = [
        *texts(tries(20, 200)),
        "  a  b  ",
        "▁a ▁b",
        "xa.bx<sep> <image>a",
        "a\n  b",
        "<new> <new>[SEP] c",
    ]
    for number, config in enumerate([{}, {"legacy": False}, {"added_tokens_decoder": added}]):
        folder = tmp_path / str(number)
        write(folder, None, {"tokenizer_config.json": config, "tokenizer.model": written.getvalue()})
        assert compare(folder, documents)


@pytest.fixture(scope="module")
def ranks() -> list[bytes]:
    """Byte-level tokens in the order of their ranks."""
    tokens = json.loads(byte_level().to_str())["model"]["vocab"]
    letters = {letter: byte for byte, letter in byte_letters().items()}
    spelled = sorted(tokens, key=tokens.get)
    made = [
        bytes(letters[letter] for letter in token) for token in spelled if all(c in letters for c in token)
    ]
    return sorted(made, key=len)[:256] + [token for token in made if len(token) > 1]


def byte_letters() -> dict[int, str]:
    """The letter of each byte in byte-level vocabularies."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {
        **{byte: chr(byte) for byte in printable},
        **{byte: chr(256 + at) for at, byte in enumerate(others)},
    }


def tiktoken_file(ranks: list[bytes]) -> bytes:
    return b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(ranks))


@pytest.mark.parametrize("file", ["tiktoken.model", "tokenizer.model"])
def test_folders_with_a_tiktoken_file_equal_transformers(
    file: str, ranks: list[bytes], tmp_path: Path
) -> None:
    settings: dict[str, dict[str, Any]] = {
        "plain": {},
        "named": {"bos_token": "<|begin|>", "eos_token": "<|end|>", "add_bos_token": True},
        "bare": {"bos_token": "<|begin|>", "add_bos_token": False},
        "extra": {"extra_special_tokens": ["<|one|>", "<|two|>", "the", "<|one|>"], "eos_token": "<|two|>"},
        "decoder": {
            "added_tokens_decoder": {
                str(len(ranks) + 2): {"content": "<|late|>", "special": True},
                str(len(ranks)): {"content": "<|first|>", "special": True},
            },
            "additional_special_tokens": ["<|late|>", "<|more|>"],
        },
    }
    documents = [
        *texts(60),
        "<|one|>a <|two|><|late|>the<|first|><|reserved_token_600|> <|begin|>x",
        "12345 don'T",
    ]
    for name in (
        "LlamaTokenizer",
        "CodeLlamaTokenizer",
        "GemmaTokenizer",
        "GPT2Tokenizer",
        "PreTrainedTokenizerFast",
    ):
        for variant, config in settings.items():
            folder = tmp_path / f"{name}-{variant}"
            write(folder, name, {"tokenizer_config.json": config, file: tiktoken_file(ranks)})
            assert compare(folder, documents), folder.name


def test_folders_with_a_tekken_file_equal_transformers(ranks: list[bytes], tmp_path: Path) -> None:
    documents = [*texts(60), "<s>[INST]a[/INST]</s><SPECIAL_7> 12345"]
    special = [
        {"rank": at, "token_str": text, "is_control": True}
        for at, text in enumerate(["<unk>", "<s>", "</s>", "[INST]"])
    ]
    random.Random(1).shuffle(special)
    configs: list[dict[str, Any]] = [
        {},
        {"default_num_special_tokens": 10},
        {"default_num_special_tokens": 10, "default_vocab_size": 400},
    ]
    for number, config in enumerate(configs):
        tekken = {
            "config": {"pattern": r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+", **config},
            "vocab": [
                {"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
                for rank, token in enumerate(ranks)
            ],
            "special_tokens": special,
        }
        for variant, settings in {"plain": {}, "named": {"bos_token": "<s>", "eos_token": "</s>"}}.items():
            for name in ("PreTrainedTokenizerFast", None, "LlamaTokenizer"):
                folder = tmp_path / f"{name}-{variant}-{number}"
                write(folder, name, {"tokenizer_config.json": settings, "tekken.json": tekken})
                assert compare(folder, documents), folder.name


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        (
            "tokenizer.model",
            b"no model\n",
            "tokenizer.model: is neither a SentencePiece model nor a tiktoken file: line 1",
        ),
        ("tiktoken.model", b"YQ== 0\nYg== x\n", "line 2 must be a token in base64 and its rank"),
        ("tiktoken.model", b"YQ== 0\nYQ== 1\n", "line 2 lists a token twice"),
        ("tekken.json", b"{", "tekken.json"),
        ("tekken.json", b'{"config": {"pattern": "a"}, "vocab": []}', "has no `special_tokens`"),
        ("spiece.model", b"\xff", "spiece.model: is neither a SentencePiece model"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(file: str, content: bytes, said: str, tmp_path: Path) -> None:
    name = "T5Tokenizer" if file == "spiece.model" else "LlamaTokenizer"
    write(tmp_path / "model", name, {file: content})
    with pytest.raises(fastpack.TokenizerError) as raised:
        fastpack.Tokenizer(tmp_path / "model")
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_two_files_of_which_either_could_be_meant_are_refused(ranks: list[bytes], tmp_path: Path) -> None:
    write(
        tmp_path / "model", "LlamaTokenizer", {"tokenizer.model": b"", "tiktoken.model": tiktoken_file(ranks)}
    )
    with pytest.raises(fastpack.TokenizerError, match=r"beside `tiktoken\.model`"):
        fastpack.Tokenizer(tmp_path / "model")


def test_the_engine_of_a_converted_folder_is_the_compiled_one(ranks: list[bytes], tmp_path: Path) -> None:
    write(tmp_path / "model", "LlamaTokenizer", {"tiktoken.model": tiktoken_file(ranks)})
    assert fastpack.Tokenizer(tmp_path / "model").engine == "compiled"
    assert AutoTokenizer.from_pretrained(tmp_path / "model").is_fast
