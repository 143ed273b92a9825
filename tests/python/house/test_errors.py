"""Bad input gets a clear error of a fitting type, and nothing is lost."""

from __future__ import annotations

import os
import pickle
import re
import sys

import numpy as np
import pytest
from conftest import conversation
from nested import flat, place

import fastpack

GOOD = conversation(1)


def chat(**message):
    return {"messages": [message, {"role": "assistant", "content": "b"}]}


def nested(depth):
    return b'{"text": "a", "x": ' + b"[" * depth + b"]" * depth + b"}"


BAD = {
    "broken JSON": (b'{"text": "a"', "invalid_json"),
    "a NUL byte": (b'{"text": "a\x00b"}', "invalid_json"),
    "a trailing comma": (b'{"text": "a",}', "invalid_json"),
    "two values": (b'{"text": "a"} {"text": "b"}', "invalid_json"),
    "invalid UTF-8": (b'{"text": "\xff"}', "invalid_utf8"),
    "half a surrogate pair": (b'{"text": "\\ud800"}', "lone_surrogate"),
    "nesting without end": (nested(100_000), "too_deep"),
    "a bare number": (b"7", "not_an_object"),
    "a bare string": (b'"text"', "not_an_object"),
    "a list": (b"[]", "not_an_object"),
    "no known field": ({"prompt": "a"}, "no_content"),
    "text that is a number": ({"text": 7}, "wrong_type"),
    "messages that are a string": ({"messages": "a"}, "invalid_json"),
    "messages that are JSON text of a number": ({"messages": "7"}, "wrong_type"),
    "a message that is a string": ({"messages": ["a"]}, "wrong_type"),
    "content that is a number": (chat(role="user", content=7), "wrong_type"),
    "tools that are a number": ({**GOOD, "tools": 7}, "wrong_type"),
    "an unknown role": ({"conversations": [{"from": "alien", "value": "a"}]}, "unknown_role"),
    "an image": (
        chat(role="user", content=[{"type": "image_url", "image_url": {"url": "x"}}]),
        "not_text",
    ),
    "nothing to learn": ({"messages": [{"role": "user", "content": "a"}]}, "no_trained_token"),
}


def beside(line):
    """A good record of the shape that a bad one has."""
    if isinstance(line, dict) and "text" in line:
        return {"text": "the river"}
    if isinstance(line, dict) and "conversations" in line:
        return {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}
    return GOOD


@pytest.mark.parametrize(
    ("line", "reason"),
    [BAD[name] for name in BAD if name != "nothing to learn"],
    ids=[name for name in BAD if name != "nothing to learn"],
)
def test_a_bad_record_is_named_by_file_line_and_reason(line, reason, write_jsonl, tokenizer_dir):
    path = write_jsonl([beside(line), line])
    with pytest.raises(fastpack.RecordError) as caught:
        fastpack.pack_files(path, tokenizer_dir, max_length=512)
    assert (caught.value.path, caught.value.line, caught.value.reason) == (str(path), 2, reason)
    assert str(caught.value).startswith(f"{path}:2: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("line", "reason"), BAD.values(), ids=BAD)
def test_a_skipped_record_is_counted_by_reason(line, reason, write_jsonl, tokenizer_dir):
    path = write_jsonl([beside(line), line, beside(line)])
    table = fastpack.pack_files(path, tokenizer_dir, max_length=512, on_bad_record="skip")
    report = fastpack.Report.of(table)
    assert {reason: count.documents for reason, count in report.dropped.items()} == {reason: 1}
    assert report.documents == (3, 2, 1)


def test_the_report_names_the_first_ten_places(write_jsonl, tokenizer_dir):
    path = write_jsonl([GOOD, *[b"{"] * 12])
    table = fastpack.pack_files(path, tokenizer_dir, max_length=512, on_bad_record="skip")
    report = fastpack.Report.of(table)
    assert report.dropped["invalid_json"].documents == 12
    assert [(place.path, place.line) for place in report.places] == [
        (str(path), line) for line in range(2, 12)
    ]


def test_json_is_read_as_python_reads_it(write_jsonl, tokenizer_dir):
    path = write_jsonl(
        [b'{"text": "a", "x": [NaN, Infinity, -Infinity, 1e400, 123456789012345678901234567890]}']
    )
    assert fastpack.pack_files(path, tokenizer_dir, max_length=64).num_rows == 1


def test_a_line_of_100_megabytes_is_read(tmp_path, tokenizer_dir):
    path = tmp_path / "long.jsonl"
    with path.open("wb") as lines:
        lines.write(b'{"text": "a river", "ignored": "' + b"a " * 50_000_000 + b'"}\n{"text": "a boat"}\n')
    table = fastpack.pack_files(path, tokenizer_dir, max_length=512)
    assert fastpack.Report.of(table).documents == (2, 2, 0)


def test_an_empty_file_has_no_rows(write_jsonl, tokenizer_dir):
    table = fastpack.pack_files(write_jsonl([]), tokenizer_dir, max_length=512)
    assert table.num_rows == 0
    assert table.column_names == ["input_ids", "labels", "position_ids", "seq_lengths"]


def test_an_empty_folder_is_an_error(tmp_path, tokenizer_dir):
    with pytest.raises(fastpack.FastpackError, match=re.escape(str(tmp_path))):
        fastpack.pack_files(tmp_path, tokenizer_dir, max_length=512)


def test_a_missing_file_is_file_not_found(tmp_path, tokenizer_dir):
    path = tmp_path / "nowhere.jsonl"
    with pytest.raises(fastpack.InputNotFoundError) as caught:
        fastpack.pack_files(path, tokenizer_dir, max_length=512)
    assert isinstance(caught.value, FileNotFoundError)
    assert caught.value.filename == str(path)


def test_a_forbidden_file_is_a_permission_error(open_folder, loaded, without_privileges):
    path = open_folder / "data.jsonl"
    path.write_text('{"text": "a"}\n', encoding="utf-8")
    path.chmod(0)
    with pytest.raises(fastpack.AccessError) as caught:
        fastpack.pack_files(path, loaded, max_length=8)
    assert isinstance(caught.value, PermissionError)
    assert caught.value.filename == str(path)


def test_a_read_only_folder_is_a_permission_error(open_folder, loaded, without_privileges):
    path = open_folder / "data.jsonl"
    path.write_text('{"text": "a river"}\n', encoding="utf-8")
    out = open_folder / "out"
    out.mkdir()
    out.chmod(0o555)
    with pytest.raises(fastpack.AccessError) as caught:
        fastpack.pack_dir(path, out, tokenizer=loaded, max_length=8)
    assert caught.value.filename.startswith(str(out))
    out.chmod(0o755)
    assert list(out.iterdir()) == []
    assert fastpack.pack_dir(path, out, tokenizer=loaded, max_length=8).rows == 1


@pytest.fixture
def loaded(tokenizer_dir):
    return fastpack.Tokenizer(tokenizer_dir)


def test_files_of_the_same_stem_are_both_packed(write_jsonl, tokenizer_dir):
    paths = [write_jsonl([GOOD], f"{folder}/same.jsonl") for folder in "ab"]
    report = fastpack.Report.of(fastpack.pack_files(paths, tokenizer_dir, max_length=512))
    assert report.documents.kept == 2


def test_a_conversation_needs_a_template(write_jsonl, bare_tokenizer_dir):
    with pytest.raises(fastpack.FastpackError, match="chat_template"):
        fastpack.pack_files(write_jsonl([GOOD]), bare_tokenizer_dir, max_length=512)


def test_a_template_that_raises_is_a_fault_of_the_record(write_jsonl, tokenizer_dir):
    template = "{{ raise_exception('roles must alternate') }}"
    with pytest.raises(fastpack.RecordError, match="roles must alternate") as caught:
        fastpack.pack_files(
            write_jsonl([GOOD]), tokenizer_dir, max_length=512, chat_template=template, train_on="all"
        )
    assert caught.value.reason == "template"


def test_a_template_that_loops_for_ever_is_stopped(write_jsonl, tokenizer_dir):
    template = "{% for a in range(9999999) %}{% for b in range(9999999) %}{% endfor %}{% endfor %}"
    with pytest.raises(fastpack.FastpackError):
        fastpack.pack_files(
            write_jsonl([GOOD]), tokenizer_dir, max_length=512, chat_template=template, train_on="all"
        )


def test_a_construct_that_is_not_known_is_refused_by_line(write_jsonl, tokenizer_dir):
    template = "{{ messages[0]['content'] }}\n{{ messages | frobnicate }}"
    with pytest.raises(fastpack.TemplateError, match="frobnicate") as caught:
        fastpack.pack_files(write_jsonl([GOOD]), tokenizer_dir, max_length=512, chat_template=template)
    assert caught.value.line == 2
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("template", ["nowhere.jinja", "tool_use"])
def test_a_template_that_is_nowhere_is_refused(template, corpus, tokenizer_dir):
    with pytest.raises(fastpack.OptionError, match=template) as caught:
        fastpack.pack_files(corpus, tokenizer_dir, max_length=512, chat_template=template)
    assert caught.value.option == "chat_template"


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("max_length", 0, "from 1 to"),
        ("max_length", -1, "from 1 to"),
        ("max_length", "8", "from 1 to"),
        ("max_length", True, "from 1 to"),
        ("max_length", 2**31, "2147483648"),
        ("strategy", "best", '"mix", "best_fit", "heap", "sequential", "concat", "none"'),
        ("overlong", "cut", '"drop", "truncate", "trim", "split", "error"'),
        ("train_on", "user", '"auto", "all", "assistant"'),
        ("eos", "yes", '"auto", True or False'),
        ("on_bad_record", "ignore", '"error", "skip"'),
        ("columns", ["ids"], '"input_ids"'),
        ("columns", [], "at least one"),
        ("columns", ["labels", "labels"], "twice"),
        ("fields", {"chat": "x"}, "messages"),
        ("fields", {"messages": "x", "text": "y"}, "of `conversations` and of `text`"),
        ("shape", "chat", '"conversations", "prompt_completion"'),
        ("prompt", "llama", "must be one of"),
        ("threads", 0, "from 1 to"),
    ],
)
def test_an_option_is_refused_before_any_work(option, value, said):
    options = {"max_length": 512, option: value}
    with pytest.raises(fastpack.OptionError) as caught:
        flat.pack_files("nowhere.jsonl", "no/such/tokenizer", **options)
    assert caught.value.option == place(option)
    assert said in str(caught.value)


@pytest.mark.parametrize("tokenizer", ["no/such/tokenizer", "./nowhere", "no-such-organisation/no-such-name"])
def test_a_missing_tokenizer_is_file_not_found(tokenizer):
    with pytest.raises(fastpack.InputNotFoundError) as caught:
        fastpack.Tokenizer(tokenizer)
    assert caught.value.filename == tokenizer


def test_an_object_that_is_no_tokenizer_is_refused():
    with pytest.raises(fastpack.TokenizerError, match=r"builtins\.int"):
        fastpack.Tokenizer(7)


def test_a_file_that_is_no_tokenizer_is_refused(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(fastpack.TokenizerError):
        fastpack.Tokenizer(path)


def test_a_hub_name_without_the_hub_package_names_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(fastpack.TokenizerError, match="huggingface_hub"):
        fastpack.Tokenizer("organisation/name")


@pytest.mark.parametrize("name", [name for name in fastpack.__all__ if name.endswith("Error")])
def test_all_errors_derive_from_one(name):
    assert issubclass(getattr(fastpack, name), fastpack.FastpackError)


@pytest.mark.parametrize(
    "error",
    [
        fastpack.RecordError("a:1: b", "a", 1, "invalid_json"),
        fastpack.OptionError("bad", "strategy"),
        fastpack.TemplateError("bad", "default", 3, "why"),
        fastpack.OutputError(17, "full", "out"),
    ],
)
def test_errors_survive_pickling(error):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_an_input_in_the_output_folder_is_never_replaced(write_jsonl, tokenizer_dir):
    path = write_jsonl([conversation(number) for number in range(9)], "train-00000.jsonl")
    before = path.read_bytes()
    with pytest.raises(fastpack.OutputError, match="holds the input"):
        fastpack.pack_dir(
            path, path.parent, tokenizer=tokenizer_dir, max_length=64, format="jsonl", exists="overwrite"
        )
    assert path.read_bytes() == before


def test_a_tokenizer_that_encodes_special_tokens_as_text_is_refused(write_jsonl, tokenizer_dir):
    from tokenizers import Tokenizer

    live = Tokenizer.from_file(str(tokenizer_dir / "tokenizer.json"))
    live.encode_special_tokens = True
    with pytest.raises(fastpack.TokenizerError, match="split_special_tokens"):
        fastpack.pack_files(write_jsonl([{"text": "a <|end|> b"}]), live, max_length=64)


def test_a_tokenizer_with_python_code_in_it_is_refused(write_jsonl, tokenizer_dir):
    from tokenizers import Tokenizer, pre_tokenizers

    live = Tokenizer.from_file(str(tokenizer_dir / "tokenizer.json"))
    live.pre_tokenizer = pre_tokenizers.PreTokenizer.custom(object())
    with pytest.raises(fastpack.TokenizerError, match="cannot be written as JSON"):
        fastpack.pack_files(write_jsonl([{"text": "a"}]), live, max_length=64)


def test_pipes_are_refused_by_name_and_passed_over_in_folders(tmp_path, write_jsonl, tokenizer_dir):
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(fastpack.OptionError, match=r"pipe\.jsonl` is no regular file"):
        fastpack.pack_files(tmp_path / "pipe.jsonl", tokenizer_dir, max_length=64)
    write_jsonl([conversation(1)], "data.jsonl")
    assert fastpack.pack_files(tmp_path, tokenizer_dir, max_length=256).num_rows == 1


def test_more_threads_than_sense_are_refused(corpus, tokenizer_dir):
    with pytest.raises(fastpack.OptionError, match="from 1 to 1024"):
        fastpack.pack_files(corpus, tokenizer_dir, max_length=64, threads=10**6)


@pytest.mark.parametrize("table", [None, {"input_ids": [[1]]}, [[1]]])
def test_what_is_no_table_is_refused(table):
    with pytest.raises(fastpack.OptionError, match="__arrow_c_stream__"):
        fastpack.pack_table(table, max_length=4)


def test_half_a_surrogate_in_template_variables_is_refused(corpus, tokenizer_dir):
    with pytest.raises(fastpack.OptionError, match=r"chat_template\.variables"):
        fastpack.pack_files(
            corpus,
            tokenizer_dir,
            max_length=64,
            chat_template=fastpack.ChatTemplate(variables={"x": "\ud800"}),
        )


@pytest.mark.parametrize("lengths", [np.array([5, 2**63], np.uint64), np.ma.array([5, 3], mask=[1, 0])])
def test_lengths_that_a_cast_would_change_are_refused(lengths):
    with pytest.raises(fastpack.OptionError, match="lengths"):
        fastpack.plan(lengths, max_length=8)


@pytest.mark.parametrize(
    ("option", "options"),
    [
        ("files", {"files": 123}),
        ("files", {"files": [{"text": "a record"}]}),
        ("chat_template", {"chat_template": 5}),
    ],
)
def test_a_value_of_a_wrong_type_is_named(option, options, corpus, tokenizer_dir):
    given = {"files": corpus, "tokenizer": tokenizer_dir, "max_length": 16} | options
    with pytest.raises(fastpack.OptionTypeError, match=f"invalid option `{option}`: must be ") as caught:
        fastpack.pack_files(**given)
    assert caught.value.option == option
