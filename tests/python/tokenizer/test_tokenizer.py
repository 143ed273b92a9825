"""`fastpack.Tokenizer`: ids, characters, text and chats equal those of `tokenizers` and `transformers`."""

from __future__ import annotations

import json
import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
import tokenizers

import fastpack

TEXTS = [
    "",
    "a river",
    " the river  is wide\n",
    "na\u00efve caf\u00e9, \u4f60\u597d \U0001f600\U0001f3fd!",
    "<|start|>user\nhello<|end|>\n",
    "a" * 3000,
]


@pytest.fixture
def tokenizer(tokenizer_dir):
    return fastpack.Tokenizer(tokenizer_dir)


@pytest.fixture
def backend(tokenizer_dir):
    return tokenizers.Tokenizer.from_file(str(tokenizer_dir / "tokenizer.json"))


def parts(ids, offsets):
    return [ids[start:end].tolist() for start, end in pairwise(offsets)]


@pytest.mark.parametrize("add_special_tokens", [True, False])
def test_ids_equal_the_backend(tokenizer, backend, add_special_tokens):
    expected = [backend.encode(text, add_special_tokens=add_special_tokens).ids for text in TEXTS]
    ids, offsets = tokenizer.encode_batch(TEXTS, add_special_tokens=add_special_tokens)
    assert (ids.dtype, offsets.dtype) == (np.int32, np.int64)
    assert parts(ids, offsets) == expected
    for text, want in zip(TEXTS, expected, strict=True):
        assert tokenizer.encode(text, add_special_tokens=add_special_tokens).tolist() == want


@pytest.mark.parametrize("pre_tokenizer", [True, False], ids=["trimmed", "untrimmed"])
def test_characters_equal_the_backend(tokenizer_dir, tmp_path, pre_tokenizer):
    """HF cuts spaces off the characters of a token where `trim_offsets` says so."""
    values = json.loads((tokenizer_dir / "tokenizer.json").read_text(encoding="utf-8"))
    values["post_processor"] = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": pre_tokenizer,
        "use_regex": False,
    }
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(values), encoding="utf-8")
    expected = tokenizers.Tokenizer.from_file(str(path)).encode_batch(TEXTS)
    ids, offsets, characters = fastpack.Tokenizer(path).encode_batch(TEXTS, return_offsets=True)
    assert parts(ids, offsets) == [encoding.ids for encoding in expected]
    assert characters.shape == (len(ids), 2)
    want = [list(range_) for encoding in expected for range_ in encoding.offsets]
    assert characters.tolist() == want


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_arrow_strings_are_read_where_they_lie(tokenizer, kind):
    whole = pa.array(["left out", *TEXTS], kind).slice(1)
    chunks = pa.chunked_array([whole.slice(0, 2), whole.slice(2)])
    expected = tokenizer.encode_batch(TEXTS)
    for given in (whole, chunks):
        for got, want in zip(tokenizer.encode_batch(given), expected, strict=True):
            np.testing.assert_array_equal(got, want)


def test_polars_series_and_iterators_are_taken(tokenizer):
    polars = pytest.importorskip("polars")
    expected = tokenizer.encode_batch(TEXTS)
    for given in (polars.Series(TEXTS), iter(TEXTS), tuple(TEXTS), np.array(TEXTS, dtype=object)):
        for got, want in zip(tokenizer.encode_batch(given), expected, strict=True):
            np.testing.assert_array_equal(got, want)


def test_ids_do_not_depend_on_threads_or_cache(tokenizer_dir):
    texts = [f"river {number} {'boat ' * (number % 7)}" for number in range(5000)]
    expected = fastpack.Tokenizer(tokenizer_dir, threads=1).encode_batch(texts)
    for threads, cache_size in [(2, "32MB"), (8, 0), (3, "1KB")]:
        other = fastpack.Tokenizer(tokenizer_dir, threads=threads, cache_size=cache_size)
        for got, want in zip(other.encode_batch(texts, verify=50), expected, strict=True):
            np.testing.assert_array_equal(got, want)


def test_no_text_gives_no_id(tokenizer):
    ids, offsets, characters = tokenizer.encode_batch([], return_offsets=True)
    assert (ids.tolist(), offsets.tolist(), characters.shape) == ([], [0], (0, 2))


def test_decoding_turns_back(tokenizer, backend):
    for text in TEXTS:
        ids = tokenizer.encode(text)
        want = backend.decode(ids.tolist(), skip_special_tokens=False)
        assert tokenizer.decode(ids) == tokenizer.decode(ids.tolist()) == want
    assert tokenizer.vocab_size == backend.get_vocab_size()
    assert tokenizer.id_to_token(5) == backend.id_to_token(5)


def test_the_engine_says_what_forced_it(tokenizer_dir, tmp_path):
    compiled = fastpack.Tokenizer(tokenizer_dir)
    assert (compiled.engine, compiled.reason) == ("compiled", None)
    values = json.loads((tokenizer_dir / "tokenizer.json").read_text(encoding="utf-8"))
    pattern = {"Regex": "a(?=bc)"}
    values["normalizer"] = {"type": "Replace", "pattern": pattern, "content": "b"}
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(values), encoding="utf-8")
    reference = fastpack.Tokenizer(path)
    assert reference.engine == "reference"
    assert "normalizer Replace with pattern `a(?=bc)`" in reference.reason


def test_a_pickle_loads_the_same_tokenizer_from_its_path(tokenizer_dir, monkeypatch):
    monkeypatch.chdir(tokenizer_dir.parent)
    pickled = pickle.dumps(fastpack.Tokenizer(tokenizer_dir.name, threads=1, cache_size="1MB"))
    monkeypatch.chdir("/")
    again = pickle.loads(pickled)
    want = fastpack.Tokenizer(tokenizer_dir)
    for text in TEXTS:
        assert again.encode(text).tolist() == want.encode(text).tolist()
    assert again.chat_templates == want.chat_templates


def test_a_pickle_of_a_live_tokenizer_has_its_content(backend):
    again = pickle.loads(pickle.dumps(fastpack.Tokenizer(backend)))
    for text in TEXTS:
        assert again.encode(text).tolist() == backend.encode(text).ids


def test_a_pickle_notices_another_tokenizer_at_its_path(tokenizer_dir, tmp_path):
    path = tmp_path / "tokenizer.json"
    values = json.loads((tokenizer_dir / "tokenizer.json").read_text(encoding="utf-8"))
    path.write_text(json.dumps(values), encoding="utf-8")
    pickled = pickle.dumps(fastpack.Tokenizer(path))
    values["normalizer"] = {"type": "Lowercase"}
    path.write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(fastpack.TokenizerError, match="has changed since"):
        pickle.loads(pickled)


@pytest.fixture
def slow_tokenizer(tokenizer_dir, tmp_path):
    """The path of a tokenizer that no compiled engine knows."""
    values = json.loads((tokenizer_dir / "tokenizer.json").read_text(encoding="utf-8"))
    values["normalizer"] = {"type": "Replace", "pattern": {"Regex": r"(a)\1"}, "content": "b"}
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(values), encoding="utf-8")
    return path


def test_the_slow_engine_is_named_with_its_reason_and_its_price(slow_tokenizer, write_jsonl, tmp_path):
    said = repr(fastpack.Tokenizer(slow_tokenizer))
    assert "reference engine, 20 to 80 times slower" in said
    assert "normalizer Replace with pattern `(a)\\1`" in said
    path = write_jsonl([{"text": "a river"}])
    scan = fastpack.scan(path, slow_tokenizer)
    report = fastpack.pack_dir(path, tmp_path / "out", tokenizer=slow_tokenizer, max_length=8)
    for warnings in (scan.warnings, report.warnings):
        assert [
            warning for warning in warnings if "20 to 80 times as long" in warning and r"(a)\1" in warning
        ]


def test_the_components_are_those_of_the_file(tokenizer_dir):
    path = tokenizer_dir / "tokenizer.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    components = fastpack.Tokenizer(path).components
    assert list(components) == ["normalizer", "pre_tokenizer", "model", "post_processor", "decoder"]
    assert components["model"].startswith(values["model"]["type"])
    for name, component in components.items():
        part = values[name] or {"type": "none"}
        steps = next(
            (part[key] for key in ("normalizers", "pretokenizers", "processors", "decoders") if key in part),
            [part],
        )
        assert all(step["type"] in component for step in steps)


def test_a_folder_with_a_tekken_file_is_read_from_its_tokenizer_json(tokenizer_dir, tmp_path, monkeypatch):
    folder = tmp_path / "mistral"
    shutil.copytree(tokenizer_dir, folder)
    (folder / "tekken.json").write_text("{}", encoding="utf-8")
    (folder / "config.json").write_text('{"model_type": "mistral"}', encoding="utf-8")
    assert (
        fastpack.Tokenizer(folder).encode("a").tolist()
        == fastpack.Tokenizer(tokenizer_dir).encode("a").tolist()
    )
    monkeypatch.setattr("fastpack.tokenizer.arguments.find_spec", lambda name: name)
    with pytest.raises(fastpack.TokenizerError, match="MistralCommonBackend"):
        fastpack.Tokenizer(folder)


def test_a_pipeline_takes_one(tokenizer, tokenizer_dir, corpus):
    packed = fastpack.pack_files(corpus, tokenizer, max_length=256)
    assert packed.equals(fastpack.pack_files(corpus, tokenizer_dir, max_length=256))
    assert fastpack.Tokenizer(tokenizer).encode("a").tolist() == tokenizer.encode("a").tolist()


def test_many_threads_share_one(tokenizer):
    expected = tokenizer.encode_batch(TEXTS)[0]
    with ThreadPoolExecutor(4) as pool:
        for ids, _ in pool.map(lambda _: tokenizer.encode_batch(TEXTS), range(200)):
            np.testing.assert_array_equal(ids, expected)


MESSAGES = [
    {"role": "system", "content": "be kind"},
    {"role": "user", "content": "a river?"},
    {"role": "assistant", "content": "a boat!"},
]


def test_a_chat_is_what_a_run_packs(tokenizer, write_jsonl):
    path = write_jsonl([{"messages": MESSAGES}])
    row = fastpack.pack_files(path, tokenizer, max_length=256, strategy="none").to_pylist()[0]
    chat = tokenizer.apply_chat_template(MESSAGES, return_assistant_tokens_mask=True)
    assert chat["input_ids"].tolist() == row["input_ids"]
    trained = [int(label != -100) for label in row["labels"]]
    assert chat["assistant_masks"].tolist() == trained
    assert list(tokenizer.apply_chat_template(MESSAGES)) == ["input_ids"]


def test_a_chat_is_what_transformers_renders(tokenizer, tokenizer_dir):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(tokenizer_dir)
    for prompt in (False, True):
        want = theirs.apply_chat_template(MESSAGES, tokenize=False, add_generation_prompt=prompt)
        kwargs = {"add_generation_prompt": prompt}
        assert (
            tokenizer.apply_chat_template(
                MESSAGES, tokenize=False, chat_template=fastpack.ChatTemplate(variables=kwargs)
            )
            == want
        )
        ids = theirs.apply_chat_template(MESSAGES, add_generation_prompt=prompt)["input_ids"]
        chat = tokenizer.apply_chat_template(MESSAGES, chat_template=fastpack.ChatTemplate(variables=kwargs))
        assert chat["input_ids"].tolist() == ids


def test_a_chat_sees_its_tools(tokenizer):
    source = "{% for tool in tools %}{{ tool|tojson }}{% endfor %}"
    tools = [{"name": "f", "deep": {"x": [1, 2.5, None, True]}}]
    text = tokenizer.apply_chat_template(MESSAGES, tools=tools, chat_template=source, tokenize=False)
    assert text == json.dumps(tools[0])


@pytest.mark.parametrize(
    ("texts", "error", "said"),
    [
        ("one text", TypeError, "`texts`: must be a list of str, not str"),
        (7, TypeError, "`texts`: must be a list of str, not int"),
        (["a", 3], TypeError, "number 1 must be a str, not int"),
        (["a", "\ud800"], ValueError, "number 1 holds half of a surrogate pair"),
        (pa.array([1, 2]), TypeError, "must hold strings, not Int64"),
        (pa.chunked_array([["a"], ["b", None]]), ValueError, "number 2 is null"),
    ],
)
def test_what_is_no_text_is_refused(tokenizer, texts, error, said):
    with pytest.raises(error, match=said) as caught:
        tokenizer.encode_batch(texts)
    assert isinstance(caught.value, fastpack.OptionError)
    assert caught.value.option == "texts"


def test_one_text_that_is_no_text_is_refused(tokenizer):
    with pytest.raises(TypeError, match="`text`: must be a str, not bytes"):
        tokenizer.encode(b"bytes")
    with pytest.raises(ValueError, match="half of a surrogate pair"):
        tokenizer.encode("\udc00")


@pytest.mark.parametrize(
    ("option", "value"), [("cache_size", "much"), ("cache_size", -1), ("threads", 0), ("verify", -1)]
)
def test_an_option_that_cannot_be_is_refused(tokenizer_dir, option, value):
    given = {} if option == "verify" else {option: value}
    with pytest.raises(fastpack.OptionError, match=f"`{option}`") as caught:
        fastpack.Tokenizer(tokenizer_dir, **given).encode_batch(["a"], verify=value if not given else 0)
    assert caught.value.option == option


@pytest.mark.parametrize("ids", [[-1], ["a"], [2**40], 7])
def test_what_is_no_id_is_refused(tokenizer, ids):
    with pytest.raises(fastpack.OptionError, match="`ids`: must be a list or array of ids"):
        tokenizer.decode(ids)


def test_a_chat_that_a_template_refuses_says_why(tokenizer):
    with pytest.raises(fastpack.OptionError, match="line 1: no system") as caught:
        tokenizer.apply_chat_template(MESSAGES, chat_template="{{ raise_exception('no system') }}")
    assert caught.value.option == "messages"
    with pytest.raises(fastpack.OptionError, match="holds no message"):
        tokenizer.apply_chat_template([])
    with pytest.raises(fastpack.OptionError, match=r"messages\[0\].role"):
        tokenizer.apply_chat_template([{"content": "x"}])


def test_verified_runs_give_the_same_rows(tokenizer, corpus):
    expected = fastpack.pack_files(corpus, tokenizer, max_length=256)
    for threads in (1, 3):
        assert fastpack.pack_files(corpus, tokenizer, max_length=256, verify=1000, threads=threads).equals(
            expected
        )
