"""Token ids, special tokens and chat templates of model folders equal those of transformers' AutoTokenizer."""

from __future__ import annotations

import json
import os
import random
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from campaign import tries
from conftest import DATA

os.environ["HF_HUB_OFFLINE"] = "1"

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer

import fastpack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SEED = 20261121

SENTENCES = [
    "The quick brown fox doesn't jump over the lazy dog, because it's asleep.",
    "Packing 1024 tokens into 32 rows costs 0.75 ms; that is 3% of the time.",
    "def pack(rows):\n\treturn [row for row in rows if row]\n",
    "Zürich, Łódź und São Paulo: naïve café, coöperate, ﬁle, Ⅷ, x².",
    "日本語の文章と中文文本以及한국어 문장.",
    "Привет, мир! Γειά σου Κόσμε. שלום עולם. مرحبا بالعالم",
    "emoji 😀👍🏽 and 👩‍👧 families, flags 🇨🇭",
]
FRAGMENTS = [
    *" \n\t\r\u00a0\u200b\u3000aAbzÉñ1290!?.,'\"`-_/<>[]|▁Ġ中字日本한국😀\u0301\u0327ﬁⅧ²ÅßİIſ",
    "e\u0301",
    "  ",
    "the",
    "'s",
    "``",
    "''",
    "<s>",
    "</s>",
    "<unk>",
    "<pad>",
    "<mask>",
    " <mask>",
    "[MASK]",
    "[CLS]",
    "[SEP]",
    "[UNK]",
    "<|endoftext|>",
    "<|im_end|>",
    "<bos>",
    "<eos>",
    "<extra_id_0>",
    "<extra_id_99>",
    "<eop>",
    "▁<PRE>",
    "<image>",
    "<sep>",
    "<cls>",
    "<s>NOTUSED",
]

BYTE_LEVEL_CLASSES = [
    "BlenderbotTokenizer",
    "CodeGenTokenizer",
    "CohereTokenizer",
    "DebertaTokenizer",
    "GPT2Tokenizer",
    "GPTNeoXTokenizerFast",
    "LlamaTokenizerFast",
    "Qwen2Tokenizer",
    "Qwen3_5Tokenizer",
    "RobertaTokenizer",
    "BartTokenizer",
    "LongformerTokenizerFast",
    "CLIPTokenizer",
    "BloomTokenizerFast",
    "PreTrainedTokenizerFast",
    "PreTrainedTokenizer",
    "TokenizersBackend",
    "NobodysTokenizerFast",
    "ParakeetTokenizer",
    "WhisperTokenizer",
    "NougatTokenizer",
    "LayoutLMv3Tokenizer",
    "MarkupLMTokenizer",
    "LukeTokenizer",
    "EsmcTokenizer",
]
PIECE_CLASSES = [
    "LlamaTokenizer",
    "LlamaTokenizerFast",
    "CodeLlamaTokenizer",
    "GemmaTokenizer",
    "GemmaTokenizerFast",
    "Phi3TokenizerFast",
    "PreTrainedTokenizerFast",
    "OpenAIGPTTokenizer",
    "HerbertTokenizerFast",
    "NllbTokenizer",
    "ReformerTokenizerFast",
    "SeamlessM4TTokenizer",
    "Siglip2Tokenizer",
    "Tipsv2Tokenizer",
]
WORD_CLASSES = [
    "BertTokenizer",
    "BertTokenizerFast",
    "DistilBertTokenizer",
    "MobileBertTokenizer",
    "FunnelTokenizer",
    "MPNetTokenizer",
    "ElectraTokenizerFast",
    "ConvBertTokenizer",
    "DPRContextEncoderTokenizer",
    "DPRQuestionEncoderTokenizerFast",
    "DPRReaderTokenizer",
    "DPRReaderTokenizerFast",
    "LayoutLMv2Tokenizer",
    "SplinterTokenizer",
    "TokenizersBackend",
]
UNIGRAM_CLASSES = [
    "AlbertTokenizer",
    "BarthezTokenizer",
    "CamembertTokenizer",
    "DebertaV2Tokenizer",
    "RemBertTokenizer",
    "T5Tokenizer",
    "T5TokenizerFast",
    "XLMRobertaTokenizer",
    "XLNetTokenizer",
    "MT5TokenizerFast",
    "PreTrainedTokenizerFast",
    "LlamaTokenizer",
    "BigBirdTokenizer",
    "FNetTokenizer",
    "LasrTokenizer",
    "LayoutXLMTokenizer",
    "MBart50Tokenizer",
    "MBartTokenizerFast",
    "PegasusTokenizer",
    "UdopTokenizer",
    "VideoPrismTokenizer",
    "XGLMTokenizer",
]
REFUSED = [
    "ByT5Tokenizer",
    "MarianTokenizer",
    "MistralCommonBackend",
    "RoFormerTokenizer",
]
# Classes that take words with boxes, or pages: their engine is asked itself.
LAYOUTS = ("LayoutLMv2", "LayoutLMv3", "LayoutXLM", "MarkupLM", "Udop")


def corpus() -> list[str]:
    """The corpus on which the small tokenizers are trained."""
    rng = random.Random(SEED)
    return [" ".join(rng.choices(SENTENCES, k=3)) for _ in range(200)]


def byte_level() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        corpus(),
        trainers.BpeTrainer(
            vocab_size=700,
            show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            special_tokens=["<|endoftext|>", "<s>", "</s>", "<unk>", "<pad>", "[CLS]", "[SEP]"],
        ),
    )
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    return tokenizer


def pieces() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Fuse()
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokenizer.train_from_iterator(
        corpus(),
        trainers.BpeTrainer(vocab_size=900, show_progress=False, special_tokens=special, max_token_length=12),
    )
    file = json.loads(tokenizer.to_str())
    file["added_tokens"] = file["added_tokens"][:3]
    tokenizer = Tokenizer.from_str(json.dumps(file))
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


def words() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(
        corpus(),
        trainers.WordPieceTrainer(
            vocab_size=700, show_progress=False, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        ),
    )
    return tokenizer


def unigram() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(
        corpus(),
        trainers.UnigramTrainer(
            vocab_size=500,
            show_progress=False,
            unk_token="<unk>",
            special_tokens=["<pad>", "</s>", "<s>", "<unk>", "[CLS]", "[SEP]", "[MASK]"],
        ),
    )
    return tokenizer


MODELS = {
    "bytes": (byte_level, BYTE_LEVEL_CLASSES),
    "pieces": (pieces, PIECE_CLASSES),
    "words": (words, WORD_CLASSES),
    "unigram": (unigram, UNIGRAM_CLASSES),
}


def added(content: str, **fields: bool) -> dict[str, Any]:
    return {
        "__type": "AddedToken",
        "content": content,
        "lstrip": False,
        "rstrip": False,
        "single_word": False,
        "normalized": False,
        **fields,
    }


VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {"tokenizer_config.json": {}},
    "named": {
        "tokenizer_config.json": {
            "bos_token": "<s>",
            "eos_token": "</s>",
            "pad_token": None,
            "image_token": "<image>",
            "additional_special_tokens": ["<|im_end|>", "<eop>"],
            "add_bos_token": True,
            "add_eos_token": True,
            "chat_template": [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}],
        }
    },
    "decoder": {
        "tokenizer_config.json": {
            "added_tokens_decoder": {
                "3": {
                    "content": "<unk>",
                    "lstrip": False,
                    "normalized": True,
                    "rstrip": False,
                    "single_word": False,
                    "special": True,
                },
                "9000": {
                    "content": "<image>",
                    "lstrip": True,
                    "normalized": False,
                    "rstrip": True,
                    "single_word": False,
                    "special": True,
                },
                "9001": {
                    "content": "the",
                    "lstrip": False,
                    "normalized": True,
                    "rstrip": False,
                    "single_word": True,
                    "special": False,
                },
            },
            "bos_token": added("<s>", lstrip=True),
            "eos_token": "<|im_end|>",
            "unk_token": "<unk>",
            "extra_special_tokens": {"image_token": "<image>"},
            "add_prefix_space": True,
            "legacy": True,
            "do_lower_case": False,
            "chat_template": "{{ bos_token }}",
        },
        "chat_template.jinja": "from the file\r\n",
        "additional_chat_templates/rag.jinja": "rag",
    },
    "legacy": {
        "tokenizer_config.json": {
            "add_prefix_space": False,
            "split_special_tokens": True,
            "keep_accents": True,
            "strip_accents": False,
        },
        "special_tokens_map.json": {
            "eos_token": {
                "content": "</s>",
                "lstrip": False,
                "normalized": True,
                "rstrip": True,
                "single_word": False,
            },
            "mask_token": "<mask>",
            "extra_special_tokens": ["<eop>"],
        },
        "added_tokens.json": {"<|im_end|>": 9000, "<eop>": 9001},
    },
    "llama_model": {"config.json": {"model_type": "llama"}, "tokenizer_config.json": {}},
    "qwen2_model": {"config.json": {"model_type": "qwen2"}, "tokenizer_config.json": {}},
    "dpr_model": {
        "config.json": {"model_type": "dpr"},
        "tokenizer_config.json": {"do_lower_case": False},
    },
    "phi3_model": {"config.json": {"model_type": "phi3"}, "tokenizer_config.json": {}},
    "mistral_model": {
        "config.json": {"model_type": "mistral"},
        "tokenizer_config.json": {"fix_mistral_regex": True},
    },
    "unknown_model": {
        "config.json": {"model_type": "internlm2"},
        "tokenizer_config.json": {"auto_map": {"AutoTokenizer": ["own.Own", None]}},
    },
}


def write(folder: Path, tokenizer: str, files: dict[str, Any], name: str | None) -> None:
    folder.mkdir(parents=True)
    (folder / "tokenizer.json").write_text(tokenizer, encoding="utf-8")
    for file, content in files.items():
        path = folder / file
        path.parent.mkdir(exist_ok=True)
        if file == "tokenizer_config.json" and name is not None:
            text = json.dumps({**content, "tokenizer_class": name})
        else:
            text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text, encoding="utf-8")


def trained_folders(root: Path) -> Iterator[Path]:
    """One folder for each small tokenizer, class and variant of the files around it."""
    for model, (train, classes) in MODELS.items():
        tokenizer = train().to_str()
        for place, name in enumerate([*classes, None]):
            # In `make test` each class has some of the variants, and all classes together have all of them.
            for variant, files in list(VARIANTS.items())[place % tries(4, 1) :: tries(4, 1)]:
                folder = root / f"{model}-{name}-{variant}"
                write(folder, tokenizer, files, name)
                yield folder


def texts(count: int) -> list[str]:
    rng = random.Random(SEED)
    fuzz = ["".join(rng.choices(FRAGMENTS, k=rng.randint(1, 30))) for _ in range(count)]
    return ["", " ", "  ", "\n", "a", " a", "a ", "</s>", *SENTENCES, *fuzz]


def expected(
    tokenizer: Any, documents: list[str], add_special_tokens: bool
) -> tuple[list[list[int]], dict[str, str], Any]:
    """The result of a tokenizer of transformers; raises its exceptions."""
    if type(tokenizer).__name__.startswith(LAYOUTS):
        encodings = tokenizer._tokenizer.encode_batch(documents, add_special_tokens=add_special_tokens)
        ids = [encoding.ids for encoding in encodings]
    else:
        ids = tokenizer(documents, add_special_tokens=add_special_tokens)["input_ids"]
    templates = tokenizer.chat_template
    if not isinstance(templates, dict):
        templates = {} if templates is None else {"default": templates}
    return ids, tokenizer.special_tokens_map, templates


def assert_equal(folder: Path, documents: list[str]) -> None:
    tokenizer = fastpack.Tokenizer(folder)
    theirs = AutoTokenizer.from_pretrained(folder)
    for add_special_tokens in (True, False):
        ids, special_tokens, templates = expected(theirs, documents, add_special_tokens)
        got, offsets = tokenizer.encode_batch(documents, add_special_tokens=add_special_tokens)
        for document, want, start, end in zip(documents, ids, offsets[:-1], offsets[1:], strict=True):
            assert got[start:end].tolist() == want, (folder.name, document)
        assert list(tokenizer.special_tokens.items()) == list(special_tokens.items()), folder.name
        assert tokenizer.chat_templates == templates, folder.name


@pytest.mark.parametrize("model", MODELS)
def test_ids_of_every_class_equal_transformers(model: str, tmp_path: Path) -> None:
    documents = texts(tries(30, 60))
    compared = 0
    for folder in trained_folders(tmp_path):
        if not folder.name.startswith(model):
            shutil.rmtree(folder)
            continue
        try:
            theirs = AutoTokenizer.from_pretrained(folder)
            expected(theirs, documents[:1], True)
        except Exception:
            continue  # transformers cannot load it: nothing to equal
        try:
            expected(theirs, documents, True)
        except Exception:
            with pytest.raises(ValueError, match="cannot encode"):
                fastpack.Tokenizer(folder).encode_batch(documents)
            continue
        assert_equal(folder, documents)
        compared += 1
    assert compared >= tries(8, 20)


@pytest.mark.parametrize("model", MODELS)
def test_characters_of_every_class_equal_transformers(model: str, tmp_path: Path) -> None:
    documents = [
        *texts(tries(30, 80)),
        "é" * 5,
        "a\u0301 b\u0301",
        "  two  blanks  ",
        "\u3000 wide",
        "ﬁ ﬀ x",
        "▁ meta▁",
    ]
    compared = 0
    for folder in trained_folders(tmp_path):
        if not folder.name.startswith(model):
            shutil.rmtree(folder)
            continue
        try:
            theirs = AutoTokenizer.from_pretrained(folder)
            expected(theirs, documents, True)
            theirs(documents[0])  # some classes set their template at the first call
        except Exception:
            continue
        backend = theirs._tokenizer
        backend.no_padding()
        backend.no_truncation()
        ours = fastpack.Tokenizer(folder)
        for add_special_tokens in (True, False):
            ids, offsets, characters = ours.encode_batch(
                documents, add_special_tokens=add_special_tokens, return_offsets=True
            )
            for document, start, end in zip(documents, offsets[:-1], offsets[1:], strict=True):
                want = backend.encode(document, add_special_tokens=add_special_tokens)
                assert ids[start:end].tolist() == want.ids, (folder.name, document)
                got = [tuple(pair) for pair in characters[start:end].tolist()]
                assert got == want.offsets, (folder.name, document, want.tokens)
        compared += 1
    assert compared >= tries(8, 20)


def write_lists(folder: Path) -> None:
    """Puts a vocabulary and merges as lists in the place of `tokenizer.json`."""
    model = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    (folder / "tokenizer.json").unlink()
    if "merges" in model:
        (folder / "vocab.json").write_text(json.dumps(model["vocab"]), encoding="utf-8")
        lines = ["#version: 0.2", *(" ".join(pair) for pair in model["merges"])]
        (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    else:
        tokens = sorted(model["vocab"], key=model["vocab"].get)
        (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")


@pytest.mark.parametrize("model", ["bytes", "words"])
def test_ids_of_folders_with_lists_equal_transformers(model: str, tmp_path: Path) -> None:
    documents = texts(40)
    train, classes = MODELS[model]
    tokenizer = train().to_str()
    compared = set()
    for name in [*classes, "OpenAIGPTTokenizer", "HerbertTokenizer"]:
        for variant in ("plain", "named", "legacy"):
            folder = tmp_path / f"{name}-{variant}"
            write(folder, tokenizer, VARIANTS[variant], name)
            write_lists(folder)
            try:
                fastpack.Tokenizer(folder)
            except fastpack.TokenizerError:
                continue  # refused by name
            try:
                expected(AutoTokenizer.from_pretrained(folder), documents, True)
            except Exception:
                continue  # transformers cannot encode them
            assert_equal(folder, documents)
            compared.add(name)
    assert len(compared) >= 8
    wanted = {"bytes": {"CohereTokenizer", "LukeTokenizer"}, "words": {"BertTokenizer", "ConvBertTokenizer"}}
    assert compared >= wanted[model]


def test_a_null_for_add_prefix_space_equals_transformers(tmp_path: Path) -> None:
    for number, value in enumerate((None, False, True)):
        files = {"tokenizer_config.json": {"add_prefix_space": value}}
        write(tmp_path / str(number), unigram().to_str(), files, "XLMRobertaTokenizer")
        assert_equal(tmp_path / str(number), texts(20))


@pytest.mark.parametrize(
    "name", ["DPRReaderTokenizerFast", "DPRContextEncoderTokenizerFast", "BertTokenizerFast"]
)
def test_a_class_that_the_model_configuration_names_equals_transformers(name: str, tmp_path: Path) -> None:
    file = json.loads(words().to_str()) | {"normalizer": {"type": "NFC"}}
    config = {"tokenizer_class": name}
    for number, files in enumerate(({"config.json": config}, {"tokenizer_config.json": config})):
        write(tmp_path / str(number), json.dumps(file), files, None)
        assert_equal(tmp_path / str(number), texts(10))


@pytest.mark.parametrize("name", ["LukeTokenizer", "GPT2Tokenizer", "PreTrainedTokenizerFast"])
@pytest.mark.parametrize("mapped", [False, True])
def test_added_tokens_that_the_configuration_writes_as_objects_equal_transformers(
    name: str, mapped: bool, tmp_path: Path
) -> None:
    named = {"sep_token": added("xthe"), "extra_special_tokens": [added("yx"), "xx"]}
    files = {
        "tokenizer_config.json": {**named, "split_special_tokens": True},
        "added_tokens.json": {"the": 700, "xthe": 701, "yx": 702, "x": 703, "xx": 704},
    }
    if mapped:
        token = {key: value for key, value in added("xthe").items() if key != "__type"}
        files["special_tokens_map.json"] = {"sep_token": token}
    file = json.loads(byte_level().to_str()) | {"added_tokens": []}
    write(tmp_path / "model", json.dumps(file), files, name)
    if name == "LukeTokenizer":
        write_lists(tmp_path / "model")
    assert_equal(tmp_path / "model", ["xthe the", "yx x", "axxb xthey", *texts(10)])


@pytest.mark.parametrize("model_type", ["EvollaModel", "evolla", "gpt-sw3", "mlcd"])
def test_a_model_type_is_looked_up_as_it_is_written(model_type: str, tmp_path: Path) -> None:
    files = {"config.json": {"model_type": model_type}, "tokenizer_config.json": {}}
    write(tmp_path / "model", words().to_str(), files, "BertTokenizer")
    assert_equal(tmp_path / "model", texts(10))


CALLS: list[dict[str, Any]] = [
    {},
    {"padding": True},
    {"padding": "longest", "return_tensors": "np"},
    {"padding": "max_length", "max_length": 40, "truncation": True, "return_tensors": "np"},
    {"padding": "max_length", "max_length": 6},
    {"truncation": True, "max_length": 7},
    {"max_length": 5},
    {"truncation": "only_first", "max_length": 9, "add_special_tokens": False},
    {"truncation": True},
    {"padding": "max_length"},
    {"truncation": False, "max_length": 5},
    {"padding": "do_not_pad", "truncation": "longest_first", "max_length": 4},
]
CALLED = {
    "bytes": [
        "GPT2Tokenizer",
        "RobertaTokenizer",
        "DebertaTokenizer",
        "CohereTokenizer",
        "PreTrainedTokenizerFast",
    ],
    "pieces": ["LlamaTokenizer", "GemmaTokenizer", "Tipsv2Tokenizer", "NllbTokenizer"],
    "words": ["BertTokenizer", "DistilBertTokenizer", "ConvBertTokenizer", "MPNetTokenizer"],
    "unigram": ["T5Tokenizer", "XLNetTokenizer", "AlbertTokenizer", "FNetTokenizer", "XGLMTokenizer"],
}
SIDES: list[dict[str, Any]] = [
    {"pad_token": "<pad>"},
    {
        "pad_token": "[PAD]",
        "padding_side": "left",
        "truncation_side": "left",
        "model_max_length": 12,
        "model_input_names": ["input_ids", "token_type_ids"],
    },
    {"pad_token": None, "padding_side": "right", "model_max_length": 1e30},
]


@pytest.mark.parametrize("model", CALLED)
def test_a_call_gives_what_the_call_of_transformers_gives(model: str, tmp_path: Path) -> None:
    documents = [text for text in texts(6) if text]
    tokenizer = MODELS[model][0]().to_str()
    compared = 0
    for name in CALLED[model]:
        for number, settings in enumerate(SIDES):
            folder = tmp_path / f"{name}-{number}"
            write(folder, tokenizer, {"tokenizer_config.json": settings}, name)
            theirs = AutoTokenizer.from_pretrained(folder)
            for ours in (fastpack.Tokenizer(folder), fastpack.Tokenizer(theirs)):
                for options in CALLS:
                    for given in (documents, documents[0], [documents[1]]):
                        try:
                            want = theirs(given, **options)
                        except ValueError:
                            with pytest.raises(fastpack.OptionError):
                                ours(given, **options)
                            continue
                        got = ours(given, **options)
                        assert set(got) == set(want), (name, settings, options)
                        for key, column in got.items():
                            same = (
                                np.array_equal(column, want[key]) and column.dtype == want[key].dtype
                                if "return_tensors" in options
                                else column == want[key]
                            )
                            assert same, (name, settings, options, key, given, column, want[key])
                        compared += 1
    assert compared > 500


PAIR_CALLS: list[dict[str, Any]] = [
    {},
    {"padding": True, "return_tensors": "np"},
    {"padding": "max_length", "max_length": 40, "truncation": True},
    *({"truncation": True, "max_length": length} for length in range(6, 30, 3)),
    {"truncation": "only_first", "max_length": 25},
    {"truncation": "only_second", "max_length": 25},
    {"add_special_tokens": False, "truncation": True, "max_length": 11},
    {"add_special_tokens": False},
]


@pytest.mark.parametrize("model", MODELS)
def test_a_call_with_pairs_gives_what_the_call_of_transformers_gives(model: str, tmp_path: Path) -> None:
    train, classes = MODELS[model]
    tokenizer = train().to_str()
    documents = [text for text in texts(8) if text.strip()]
    pairs = documents[::-1]
    compared = 0
    for place, name in enumerate(classes):
        for number, settings in enumerate(
            (
                {
                    "pad_token": "<pad>",
                    "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
                },
                {
                    "pad_token": "<pad>",
                    "add_bos_token": True,
                    "truncation_side": "left",
                    "padding_side": "left",
                    "src_lang": "en_XX",
                },
            )
        ):
            if (place + number) % tries(2, 1):
                continue
            folder = tmp_path / f"{name}-{number}"
            write(folder, tokenizer, {"tokenizer_config.json": settings}, name)
            try:
                theirs = AutoTokenizer.from_pretrained(folder)
                theirs(documents[0])
            except Exception:
                continue
            if type(theirs).__name__.startswith(LAYOUTS):
                continue  # they take boxes or pages
            ours = fastpack.Tokenizer(folder)
            for options in PAIR_CALLS[place % tries(3, 1) :: tries(3, 1)]:
                for given in (
                    (documents, pairs),
                    (documents[0], pairs[0]),
                    (documents[0], ""),
                    ([documents[0]], [""]),
                ):
                    try:
                        want = theirs(*given, **options)
                    except Exception:
                        with pytest.raises((fastpack.OptionError, fastpack.TokenizerError)):
                            ours(*given, **options)
                        continue
                    got = ours(*given, **options)
                    assert set(got) == set(want), (name, options)
                    for key, column in got.items():
                        assert np.array_equal(
                            np.array(column, dtype=object), np.array(want[key], dtype=object)
                        ), (name, settings, options, key, column, want[key])
                    compared += 1
    assert compared > tries(20, 100)


@pytest.mark.parametrize(
    ("model", "name", "settings", "changes"),
    [
        ("words", "BertTokenizer", {"max_len": 6}, {}),
        ("words", "BertTokenizer", {"max_len": 6, "model_max_length": 9}, {}),
        ("bytes", "GPT2Tokenizer", {"model_input_names": ["attention_mask"]}, {}),
        (
            "pieces",
            "LlamaTokenizer",
            {},
            {
                "padding": {
                    "strategy": {"Fixed": 12},
                    "direction": "Right",
                    "pad_to_multiple_of": None,
                    "pad_id": 0,
                    "pad_type_id": 0,
                    "pad_token": "<unk>",
                },
                "truncation": {
                    "direction": "Left",
                    "max_length": 9,
                    "strategy": "LongestFirst",
                    "stride": 0,
                },
            },
        ),
        ("bytes", "CLIPTokenizer", {"unk_token": "a", "bos_token": "a", "eos_token": "a"}, {}),
    ],
    ids=["max-len", "both-lengths", "names", "sides", "same-token"],
)
def test_a_call_takes_its_defaults_from_where_transformers_takes_them(
    model: str, name: str, settings: dict[str, Any], changes: dict[str, Any], tmp_path: Path
) -> None:
    file = json.dumps(json.loads(MODELS[model][0]().to_str()) | changes)
    write(tmp_path / "model", file, {"tokenizer_config.json": {"pad_token": "<pad>", **settings}}, name)
    theirs, ours = AutoTokenizer.from_pretrained(tmp_path / "model"), fastpack.Tokenizer(tmp_path / "model")
    documents = ["a", "the quick brown fox jumps", "aa", "x the a"]
    for options in CALLS:
        if "return_tensors" not in options:
            assert ours(documents, **options) == dict(theirs(documents, **options)), options


def test_tensors_of_texts_of_different_lengths_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "model", byte_level().to_str(), {"tokenizer_config.json": {}}, "GPT2Tokenizer")
    tokenizer = fastpack.Tokenizer(tmp_path / "model")
    for options, named in [
        ({"return_tensors": "np"}, "return_tensors"),
        ({"return_tensors": "tf"}, "return_tensors"),
        ({"padding": "widest"}, "padding"),
        ({"truncation": "only_second"}, "truncation"),
        ({"text_pair": "a"}, "text_pair"),
        ({"text_pair": ["a"]}, "text_pair"),
        ({"text_pair": ["a", "b"], "truncation": "only_second", "max_length": 2}, "truncation"),
    ]:
        with pytest.raises(fastpack.OptionError, match=named):
            tokenizer(["a", "the river"], **options)


@pytest.mark.parametrize("name", REFUSED)
def test_unknown_classes_are_refused_by_name(name: str, tmp_path: Path) -> None:
    write(tmp_path / "model", byte_level().to_str(), {"tokenizer_config.json": {}}, name)
    with pytest.raises(ValueError, match=name):
        fastpack.Tokenizer(tmp_path / "model")


@pytest.mark.parametrize("name", ["llama3", "qwen", "gpt2", "o200k", "mistral-v1", "bert"])
def test_ids_of_real_tokenizers_equal_transformers(name: str) -> None:
    folder = DATA / "tokenizers" / name
    if not folder.is_dir():
        pytest.skip(f"no real tokenizers: set FASTPACK_DATA (looked in {DATA})")
    documents = texts(tries(80, 300))
    for corpus_file in ("text-en.jsonl", "text-multi.jsonl", "chat.jsonl"):
        with (DATA / "corpora" / corpus_file).open(encoding="utf-8") as lines:
            documents += [line[:2000] for line, _ in zip(lines, range(tries(12, 40)), strict=False)]
    assert_equal(folder, documents)
