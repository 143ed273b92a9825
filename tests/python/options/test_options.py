"""An option of a wrong type or value is refused by name, before any work."""

from __future__ import annotations

from datetime import date

import numpy as np
import pyarrow as pa
import pytest
from nested import nested, place

import fastpack


class BytesPath:
    """A path of bytes, as `os.scandir(b".")` gives them."""

    def __fspath__(self):
        return b"data.jsonl"


SWITCHES = ["recursive", "per_file", "keep_tokens", "wait", "shift_labels"]
NO_SWITCH = [None, 0, 1, "yes", b"", [], float("nan")]
NO_PATH = [True, 7, 1.5, b"data", [], {}, BytesPath(), np.array("data"), "half \ud800 of a pair"]
WRONG = {
    **{name: [it for it in NO_SWITCH if it is not None] for name in SWITCHES},
    "files": [
        *NO_PATH,
        {"train": 7},
        {7: "a.jsonl"},
        {"a.jsonl", "b.jsonl"},
        ["a.jsonl", 7],
        pa.table({"text": ["a"]}),
    ],
    "output": [None, "", *NO_PATH],
    "chat_template": NO_PATH,
    "prompt": [it for it in NO_PATH if it != {}],
    "template_engine": ["jinja", 7, b"native", np.array(["native", "python"])],
    "now": [True, 0, "noon", date(2026, 1, 31), np.array([1, 2])],
    "progress": [0, 1, "yes", "", [], np.array([True, False])],
    "revision": [True, 7, b"main", ["main"]],
    "token": [7, b"secret", ["secret"]],
    "sources": [[], {}, [7], [{}], [{"path": None}], [{"path": "a.jsonl", "weight": 2}]],
}


@pytest.mark.parametrize("option", WRONG)
def test_an_option_of_a_wrong_type_is_refused_by_name(option, corpus, tokenizer_dir, tmp_path):
    good = {"files": corpus, "output": tmp_path / "out", "tokenizer": tokenizer_dir, "max_length": 256}
    if option == "sources":
        del good["files"]
    wanted = {"sources": "files", "chat_template": "chat_template", "weights": "weights"}.get(
        option, place(option)
    )
    for value in WRONG[option]:
        with pytest.raises(fastpack.OptionError) as caught:
            fastpack.pack_dir(**nested(good | {option: value}))
        assert caught.value.option.removesuffix(".source") == wanted
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("folder", ["", *NO_PATH])
def test_a_folder_is_a_path_that_names_one(folder, corpus, tokenizer_dir, tmp_path):
    with pytest.raises(fastpack.OptionError, match="invalid option `source`"):
        fastpack.repack(folder, tmp_path / "out", max_length=64)
    with pytest.raises(fastpack.OptionError, match="invalid option `cache_dir`"):
        fastpack.pack_files(corpus, tokenizer_dir, max_length=64, cache_dir=folder)


def test_a_message_shows_a_large_value_in_part(tokenizer_dir):
    table = pa.table({"text": ["a river"] * 1000})
    with pytest.raises(fastpack.OptionTypeError, match="`pack_table` takes tables") as caught:
        fastpack.pack_files(table, tokenizer_dir, max_length=64)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_tokenizer_whose_name_no_path_can_have_is_not_found(corpus):
    with pytest.raises(fastpack.InputNotFoundError):
        fastpack.pack_files(corpus, "x" * 10_000, max_length=64)
    with pytest.raises(fastpack.OptionError, match="invalid option `tokenizer`"):
        fastpack.pack_files(corpus, BytesPath(), max_length=64)


def test_whole_numbers_of_numpy_are_numbers(corpus, tokenizer_dir):
    found = fastpack.scan(corpus, tokenizer_dir, max_length=np.int64(256), threads=np.int32(1))
    several = fastpack.scan(corpus, tokenizer_dir, max_length=np.array([128, 256]))
    assert [fit.max_length for fit in found.fits] == [256]
    assert [fit.max_length for fit in several.fits] == [128, 256]


@pytest.mark.parametrize("max_length", [None, 1.5, "256", b"256", [], [256, None], {}, np.array(["a"])])
def test_the_lengths_of_a_scan_are_numbers(max_length, corpus, tokenizer_dir):
    with pytest.raises(fastpack.OptionError, match="invalid option `max_length`"):
        fastpack.scan(corpus, tokenizer_dir, max_length=max_length)


@pytest.mark.parametrize(
    "lengths", [[3, [4]], [3, "a"], [3, None], [3, 1.5], "345", 7, None, [2**70], [3, -1]]
)
def test_the_lengths_of_a_plan_are_numbers(lengths):
    with pytest.raises(fastpack.OptionError):
        fastpack.plan(lengths, max_length=8)


@pytest.mark.parametrize("records", [7, None, "text", b"text", {"text": "a"}, np.array(7)])
def test_records_are_an_iterable_of_dicts(records, tokenizer_dir):
    with pytest.raises(fastpack.OptionTypeError, match="invalid option `records`"):
        fastpack.pack_records(records, tokenizer_dir, max_length=64)


def test_the_switches_of_a_tokenizer_are_true_or_false(tokenizer_dir):
    tokenizer = fastpack.Tokenizer(tokenizer_dir)
    messages = [{"role": "user", "content": "a"}]
    for call, option in [
        (lambda value: tokenizer.encode("a", add_special_tokens=value), "add_special_tokens"),
        (lambda value: tokenizer.encode_batch(["a"], add_special_tokens=value), "add_special_tokens"),
        (lambda value: tokenizer.encode_batch(["a"], return_offsets=value), "return_offsets"),
        (lambda value: tokenizer.apply_chat_template(messages, tokenize=value), "tokenize"),
        (
            lambda value: tokenizer.apply_chat_template(messages, return_assistant_tokens_mask=value),
            "return_assistant_tokens_mask",
        ),
    ]:
        for value in NO_SWITCH:
            with pytest.raises(fastpack.OptionTypeError, match=f"invalid option `{option}`"):
                call(value)


def test_an_id_that_no_token_has_has_no_content(tokenizer_dir):
    tokenizer = fastpack.Tokenizer(tokenizer_dir)
    assert [tokenizer.id_to_token(it) for it in (-1, tokenizer.vocab_size, 2**64)] == [None] * 3
    assert tokenizer.id_to_token(np.int64(0)) == "<|endoftext|>"
    for wrong in ("0", None, 1.5, np.array([1, 2])):
        with pytest.raises(fastpack.OptionTypeError, match="invalid option `token_id`"):
            tokenizer.id_to_token(wrong)


@pytest.mark.parametrize("kind", [fastpack.Report, fastpack.ScanReport])
@pytest.mark.parametrize("text", ["", "x", "7", "[]", None, b"\xff"])
def test_what_is_no_report_is_refused(kind, text):
    with pytest.raises(fastpack.OptionError, match="invalid option `text`"):
        kind.from_json(text)


def test_a_report_is_of_a_table():
    with pytest.raises(fastpack.OptionTypeError, match="invalid option `table`"):
        fastpack.Report.of(7)


def test_a_path_may_begin_at_home(corpus, tokenizer_dir, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    options = {"tokenizer": tokenizer_dir, "max_length": 256}
    report = fastpack.pack_dir(f"~/{corpus.name}", "~/out", keep_tokens=True, **options)
    again = fastpack.repack("~/out", "~/again", max_length=256)
    table = fastpack.pack_files(f"~/{corpus.name}", cache_dir="~/cache", **options)
    assert report.rows == again.rows == table.num_rows
    assert {"out", "again", "cache"} <= {path.name for path in tmp_path.iterdir()}


def test_more_than_a_machine_has_is_refused(tokenizer_dir):
    for threads in (1025, 2**62, 2**63):
        with pytest.raises(fastpack.OptionError, match="`threads`: must be a whole number from 1 to 1024"):
            fastpack.Tokenizer(tokenizer_dir, threads=threads).encode_batch(["a", "b"])
    for size in (2**63, "2GiB", 2**30 + 1):
        with pytest.raises(fastpack.OptionError, match=r'`cache_size`: must be .* up to "1GiB"'):
            fastpack.Tokenizer(tokenizer_dir, cache_size=size)


def test_values_that_hold_themselves_are_refused(corpus, tokenizer_dir):
    held, messages = {}, [{"role": "user", "content": []}]
    held["held"] = held
    messages[0]["content"].append(messages)
    deep = "no deeper than 200 lists and dicts"
    with pytest.raises(fastpack.OptionError, match=f"`chat_template.variables`: must be nested {deep}"):
        fastpack.pack_files(
            corpus, tokenizer_dir, max_length=64, chat_template=fastpack.ChatTemplate(variables=held)
        )
    with pytest.raises(fastpack.OptionError, match=f"`messages`: must be nested {deep}"):
        fastpack.Tokenizer(tokenizer_dir).apply_chat_template(messages)
    with pytest.raises(fastpack.OptionError, match=f"`tools`: must be nested {deep}"):
        fastpack.Tokenizer(tokenizer_dir).apply_chat_template(messages[:0], tools=[held])


def test_numbers_of_numpy_are_numbers_in_a_template(corpus, tokenizer_dir):
    def packed(number):
        template = "{% for message in messages %}{{ message.content * times }}{% endfor %}"
        kwargs = {"times": number}
        options = {"chat_template": fastpack.ChatTemplate(template, variables=kwargs), "train_on": "all"}
        return fastpack.pack_files(corpus, tokenizer_dir, max_length=4096, **options)

    assert packed(np.int32(2)) == packed(2)


def test_a_message_shows_the_beginning_of_a_value(corpus, tokenizer_dir):
    with pytest.raises(fastpack.OptionError) as refused:
        fastpack.pack_files(corpus, tokenizer_dir, max_length="9" * 10_000)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("misspelt", "meant"), [("max_lenght", "max_length"), ("chat_templat", "chat_template")]
)
def test_a_misspelt_keyword_is_refused_with_the_option_that_was_meant(misspelt, meant):
    with pytest.raises(fastpack.OptionTypeError, match=f"`{misspelt}`: .*did you mean `{meant}`") as refused:
        fastpack.pack_files("a.jsonl", **{"max_length": 8, misspelt: 8})
    assert isinstance(refused.value, TypeError)
    with pytest.raises(fastpack.OptionTypeError, match=r"`zzz`: pack_files has none of that name$"):
        fastpack.pack_files("a.jsonl", max_length=8, zzz=1)


def test_an_array_where_a_folder_is_needed_is_refused_by_name(tokenizer_dir):
    table = pa.table({"text": ["a"]})
    with pytest.raises(fastpack.OptionError, match="`memory`: needs `output`"):
        fastpack.pack_table(table, tokenizer_dir, max_length=8, memory=np.array([1, 2]))
