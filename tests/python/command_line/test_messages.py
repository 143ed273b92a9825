"""Messages quote the input on one line of bounded length, whatever it holds."""

from __future__ import annotations

import json
import os
import pickle
import unicodedata
from pathlib import Path

import pyarrow as pa
import pytest
from conftest import conversation
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import fastpack
from fastpack.arguments.message import Message, Setting
from fastpack.cli import main
from fastpack.cli.commands import COMMANDS
from fastpack.cli.messages import spelled
from fastpack.cli.parser import flags_of

MOST = 1500
REPOSITORY = Path(__file__).parents[3]
EXAMPLES = REPOSITORY / "examples"

ODD = st.one_of(
    st.text(min_size=1),
    st.text(alphabet="\x00\n\r\t\x1b\x7f\x85\u2028\u2029\u202e\ud800a`'\"", min_size=1),
    st.builds(lambda text, times: text * times, st.text(min_size=1, max_size=3), st.integers(1, 300_000)),
)
"""Texts with line ends, control characters and half surrogate pairs, and texts of up to a million characters."""

HUGE = "\x1b[31m\n" * 200_000


def assert_bounded(text):
    assert len(text) <= MOST
    bad = {unicodedata.name(char, hex(ord(char))) for char in text if unicodedata.category(char) in BREAKING}
    assert not bad


BREAKING = {"Cc", "Zl", "Zp"}


def encodable(text):
    return text.encode(errors="replace").decode()


def packed(record, tokenizer, **options):
    return fastpack.pack_records([record], tokenizer, max_length=64, **options)


def chat(odd):
    return {"messages": [{"role": "user", "content": odd}, {"role": "assistant", "content": "b"}]}


PLACES = {
    "a key": lambda odd, tok, _: packed({odd: "x"}, tok),
    "a role": lambda odd, tok, _: packed({"conversations": [{"from": odd, "value": "x"}]}, tok),
    "a role of a message": lambda odd, tok, _: packed({"messages": [{"role": odd, "content": "x"}]}, tok),
    "a key of a message": lambda odd, tok, _: packed({"messages": [{odd: "x"}]}, tok),
    "a type of content": lambda odd, tok, _: packed(chat([{"type": odd, odd: odd}]), tok),
    "what a template raises": lambda odd, tok, _: packed(
        chat("x"),
        tok,
        train_on="all",
        chat_template=fastpack.ChatTemplate(
            "{{ raise_exception(messages[0].content ~ x) }}", variables={"x": odd}
        ),
    ),
    "a name in a template": lambda odd, tok, _: packed(
        chat("x"), tok, chat_template="{{ messages }}{{ '" + odd.replace("'", "") + "' | " + odd + " }}"
    ),
    "a strategy": lambda odd, tok, _: packed(chat("x"), tok, strategy=odd),
    "a column": lambda odd, tok, _: packed(chat("x"), tok, columns=[odd]),
    "a field": lambda odd, tok, _: packed(chat("x"), tok, reading=fastpack.Reading(fields={odd: odd})),
    "a field of a part": lambda odd, tok, _: packed(
        chat("x"), tok, reading=fastpack.Reading(fields={"messages": odd})
    ),
    "a shape": lambda odd, tok, _: packed(chat("x"), tok, reading=odd),
    "a prompt": lambda odd, tok, _: packed(
        {"prompt": "a", "completion": "b"}, tok, reading=fastpack.Reading(prompt="{" + odd + "}")
    ),
    "a share": lambda odd, tok, _: packed(chat("x"), tok, max_lost=odd),
    "a chat template": lambda odd, tok, _: packed(chat("x"), tok, chat_template=odd),
    "a tokenizer": lambda odd, *_: packed(chat("x"), odd),
    "a file": lambda odd, tok, _: fastpack.pack_files(odd, tok, max_length=64),
    "a pattern": lambda odd, tok, _: fastpack.pack_files(f"{odd}/*.jsonl", tok, max_length=64),
    "an output": lambda odd, tok, _: fastpack.pack_records(
        [chat("x")], tok, max_length=64, output="/dev/null/" + odd
    ),
    "a shard size": lambda odd, tok, path: fastpack.pack_records(
        [chat("x")], tok, max_length=64, output=path / "out", format=fastpack.Format(shard_size=odd)
    ),
    "a column of a table": lambda odd, *_: fastpack.pack_table(
        pa.table({encodable(odd): [[1]]}), max_length=64
    ),
    "a line": lambda odd, tok, path: fastpack.pack_files(
        written(path / "line.jsonl", encodable(odd)), tok, max_length=64
    ),
    "a class of tokenizers": lambda odd, tok, path: fastpack.Tokenizer(classed(path / "classed", odd, tok)),
    "a report": lambda odd, *_: fastpack.Report.from_json(odd),
    "the row of a table that is no list": lambda odd, *_: fastpack.pack_table(
        pa.table({"input_ids": [encodable(odd)]}), max_length=64
    ),
}


def written(path, text):
    path.write_text(text, encoding="utf-8", newline="")
    return path


def classed(folder, name, tokenizer):
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_bytes((tokenizer / "tokenizer.json").read_bytes())
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": name}), encoding="utf-8")
    return folder


@pytest.mark.parametrize("place", PLACES)
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(odd=HUGE)
@example(odd="\n\x1b\u2028" + "é" * 3000)
@given(odd=ODD)
def test_an_error_is_one_bounded_line(place, odd, tokenizer_dir, tmp_path):
    try:
        PLACES[place](odd, tokenizer_dir, tmp_path)
    except fastpack.FastpackError as error:
        said = [str(error), *map(str, vars(error).values())]
        raised = [text for text in said if text not in {getattr(error, "path", ""), "None"}]
    except (UnicodeError, ValueError):
        return  # what Python says of a value that is no text
    else:
        return
    for text in raised:
        assert_bounded(text)


SKIPPED = {
    "a key": lambda odd: {odd: "x"},
    "a role": lambda odd: {"conversations": [{"from": odd, "value": "x"}]},
    "a type": lambda odd: chat([{"type": odd}]),
}


@pytest.mark.parametrize("place", SKIPPED)
def test_reports_of_skipped_records_are_pages_of_bounded_lines(place, write_jsonl, tokenizer_dir, capsys):
    good = {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}
    beside = conversation(1) if place == "a type" else good
    path = write_jsonl([beside, SKIPPED[place](HUGE), SKIPPED[place]("\n\u2028")], "a\nb.jsonl")
    table = fastpack.pack_files(path, tokenizer_dir, max_length=512, on_bad_record="skip")
    report = fastpack.Report.of(table)
    assert report.documents.dropped == 2
    for message in [place.message for place in report.places] + report.warnings:
        assert_bounded(message)
    scanned = fastpack.scan(path, tokenizer_dir, max_length=64)
    for page in (str(report), str(scanned)):
        assert "a\\nb.jsonl" in page
        for line in page.split("\n"):
            assert_bounded(line)


def test_the_command_line_says_one_bounded_line(tmp_path, tokenizer_dir, capsys):
    arguments = ["-t", str(tokenizer_dir), "-m", "64", "-o", str(tmp_path / "out")]
    lines = []
    for extra in (
        ["-i", f"{tmp_path}/a\n\x1bb.jsonl"],
        ["-i", "x" * 50_000],
        ["-i", "x", "--strategy", HUGE],
    ):
        try:
            code = main(["pack", *arguments, *extra])
        except SystemExit as ended:
            code = ended.code
        said = capsys.readouterr().err
        assert code
        assert said.endswith("\n")
        assert_bounded(said[:-1])
        lines.append(said)
    assert "a\\n\\x1bb.jsonl" in lines[0]


def test_an_os_error_of_a_long_path_is_bounded_and_keeps_the_path(tmp_path):
    path = str(tmp_path) + "/x\n" * 1000
    with pytest.raises(fastpack.FastpackError) as caught:
        fastpack.Tokenizer(path)
    assert_bounded(str(caught.value))
    assert getattr(caught.value, "filename", path) == path


def test_a_message_keeps_what_would_be_right(write_jsonl, tokenizer_dir):
    path = write_jsonl([{"conversations": [{"from": HUGE, "value": "x"}]}])
    with pytest.raises(fastpack.RecordError) as caught:
        fastpack.pack_files(path, tokenizer_dir, max_length=64)
    assert str(caught.value).startswith(f"{path}:1: ")
    assert "…" in str(caught.value)
    plain = write_jsonl([{"conversations": [{"from": "alien", "value": "x"}]}], "plain.jsonl")
    with pytest.raises(fastpack.RecordError) as short:
        fastpack.pack_files(plain, tokenizer_dir, max_length=64)
    assert str(caught.value)[-20:] == str(short.value)[-20:]
    assert os.linesep not in str(caught.value)


def test_a_message_names_options_as_its_reader_types_them(tmp_path, capsys):
    packed = tmp_path / "packed"
    packed.mkdir()
    (packed / "mine.txt").touch()
    given = {"output": packed, "tokenizer": EXAMPLES / "tokenizer", "max_length": 512}
    with pytest.raises(fastpack.OutputError, match='pass exists="overwrite" to write next to them') as caught:
        fastpack.pack_dir(EXAMPLES / "chat.jsonl", **given)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    typed = ["pack", EXAMPLES / "chat.jsonl", "-o", packed, "-t", EXAMPLES / "tokenizer", "-m", 512]
    assert main([str(it) for it in typed]) == 1
    assert "pass --exists overwrite to write next to them" in capsys.readouterr().err


def test_options_side_by_side_in_a_message_are_given_together():
    message = Message("give ", Setting("padding.to", 64), Setting("padding.side", "left"), ", or none")
    assert message == 'give padding=Padding(to=64, side="left"), or none'
    assert pickle.loads(pickle.dumps(message)) == message
    flags = flags_of(COMMANDS["pack"])
    assert spelled(message, flags) == "give --padding 64 --padding.side left, or none"
    others = Message(Setting("order", "input"), Setting("seed", 1))
    assert (others, spelled(others, flags)) == ('order="input", seed=1', "--order input --seed 1")


def test_text_that_is_quoted_is_no_option(tmp_path, capsys):
    """A file may be called as a keyword argument; only the settings of an error become flags."""
    name = tmp_path / "overwrite=True.jsonl"
    name.write_text('{"text": 1}\n', encoding="utf-8")
    typed = ["pack", name, "-o", tmp_path / "out", "-t", EXAMPLES / "tokenizer", "-m", 512]
    assert main([str(it) for it in typed]) == 1
    assert "overwrite=True.jsonl:1" in capsys.readouterr().err
