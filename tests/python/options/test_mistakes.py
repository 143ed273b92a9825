"""Mistakes of people who use fastpack for the first time: their words, and the answers."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from nested import FIELDS, nested

import fastpack
from fastpack.options import OPTIONS
from fastpack.options.mistakes.foreign_names import (
    FOREIGN_COMMANDS,
    FOREIGN_NAMES,
    FOREIGN_OPTIONS,
    FOREIGN_WORDS,
    OPTION_ADVICE,
)
from fastpack.options.value import fields_of, required_of

MESSAGES = [{"role": "user", "content": "the river"}, {"role": "assistant", "content": "a boat"}]

WORDS = [
    # the argument, and the answer
    ({"strategy": "bfd"}, 'did you mean "best_fit"?'),
    ({"strategy": "wrapped"}, 'did you mean "concat"?'),
    ({"strategy": "ffd"}, 'did you mean "mix"?'),
    ({"strategy": "bestfit"}, 'did you mean "best_fit"?'),
    ({"strategy": "sequental"}, 'did you mean "sequential"?'),
    ({"strategy": "greedy"}, 'did you mean "sequential"?'),
    ({"train_on": "completions"}, 'did you mean "completion"?'),
    ({"train_on": "last_assistant"}, '`turns="last"` trains the last turn alone'),
    ({"train_on": "assistant_only"}, 'did you mean "assistant"?'),
    ({"train_on": "asistant"}, 'did you mean "assistant"?'),
    ({"train_on_eos": False}, 'did you mean "none"?'),
    ({"overlong": "trunc"}, 'did you mean "truncate"?'),
    ({"overlong": "skip"}, 'did you mean "drop"?'),
    ({"order": "shuffled"}, 'did you mean "shuffle"?'),
    ({"order": "sorted"}, 'did you mean "input"?'),
    ({"template_engine": "jinja"}, 'did you mean "python"?'),
    ({"on_bad_record": "ignore"}, 'did you mean "skip"?'),
    ({"shape": "chat"}, 'did you mean "conversations"?'),
    ({"shape": "sharegpt"}, 'did you mean "conversations"?'),
    ({"shape": "conversation"}, 'did you mean "conversations"?'),
    ({"fields": {"message": "dialog"}}, 'did you mean "messages"?'),
    ({"fields": {"response": "a"}}, 'did you mean "completion"?'),
    ({"columns": ["input_id"]}, 'did you mean "input_ids"?'),
    ({"columns": ["input_ids", "segment_ids"]}, 'did you mean "document_ids"?'),
    ({"columns": ["cu_seqlens"]}, "`fastpack.torch.collate` makes `cu_seq_lens`"),
    ({"prompt": "alpaka"}, 'did you mean "alpaca"?'),
    ({"padding": "max"}, 'did you mean "max_length"?'),
    ({"padding": "longest"}, "batches are not padded here"),
    ({"chat_template": "chatml"}, 'reading=Reading(prompt="chatml")'),
    ({"eos": "yes"}, "True is meant?"),
    ({"objective": "dpo"}, 'did you mean "preference"?'),
    ({"objective": "kto"}, '`Preference(form="kto")` is meant?'),
    ({"max_length": "4096"}, "give the number itself, 4096"),
    ({"max_length": "4k"}, "give the number itself, 4096"),
    ({"max_length": 4096.0}, "give a whole number, 4096"),
]

KEYWORDS = [
    ({"max_lenght": 512}, "did you mean `max_length`?"),
    ({"seq_length": 512}, "did you mean `max_length`?"),
    ({"max_seq_length": 512}, "did you mean `max_length`?"),
    ({"block_size": 512}, "did you mean `max_length`?"),
    ({"packing_strategy": "bfd"}, "did you mean `strategy`?"),
    ({"num_proc": 4}, "did you mean `threads`?"),
    ({"random_state": 4}, "did you mean `seed`?"),
    ({"eval_size": 0.1}, "did you mean `validation`?"),
    ({"colums": ["input_ids"]}, "did you mean `columns`?"),
    ({"packing": True}, "rows are always packed"),
    ({"pad_to": 8}, "did you mean `padding`?"),
    ({"padding_side": "left"}, "`padding` takes `Padding(side=...)`"),
    ({"truncation_side": "left"}, "`overlong` takes `Truncate(side=...)`"),
    ({"balance_ranks": 8}, "`order` takes `Balanced(ranks, on_remainder=...)`"),
    ({"drop_last": True}, "`drop_last` is a field of `strategy`: strategy=Concat(drop_last=...)"),
    ({"align_to": 8}, "`align_to` is a field of `strategy`: strategy=Mix(align_to=...)"),
    (
        {"ranks": 8},
        "`ranks` is a field of `order`: order=Balanced(ranks=...); `ranks` is an option of `stream`",
    ),
    ({"fields": {"text": "body"}}, "`fields` is a field of `reading`: reading=Reading(fields=...)"),
    ({"roles": ["tool"]}, "`roles` is a field of `train_on`: train_on=TrainOn(roles=...)"),
    ({"fetch": True}, "`fetch` is a field of `reading.images`: reading=Reading(images=Images(fetch=...))"),
    ({"side": "left"}, "`side` is a field of `overlong` and `padding`: overlong=Truncate(side=...)"),
    ({"align_documents_to": 8}, "`strategy` takes a value such as `Mix(align_to=...)`"),
    ({"dataset_text_field": "body"}, '`reading=Reading(fields={"text": "..."})` names the field'),
    ({"assistant_only_loss": True}, '`train_on="assistant"`'),
    ({"return_tensors": "pt"}, "`fastpack.torch.collate` makes tensors"),
    ({"output": "packed/"}, "`output` is an option of `pack_dir`"),
    ({"output_dir": "packed/"}, "`output` is an option of `pack_dir`"),
    ({"format": "parquet"}, "`format` is an option of `pack_dir`"),
]


@pytest.mark.parametrize(("given", "told"), WORDS, ids=repr)
def test_a_word_of_another_tool_is_answered_with_ours(given, told, corpus, tokenizer_dir):
    with pytest.raises(fastpack.OptionError) as caught:
        fastpack.pack_files(corpus, tokenizer_dir, **nested({"max_length": 256} | given))
    assert told in str(caught.value)
    name = next(iter(given))
    assert caught.value.option in {name, FIELDS.get(name), FIELDS.get(name, "").removesuffix(".source")}


@pytest.mark.parametrize(
    ("word", "ours"),
    [
        ("all_exhausted", "repeat"),
        ("first_exhausted", "stop"),
        ("all_exhausted_without_replacement", "drop"),
    ],
)
def test_the_end_of_a_mix_by_the_words_of_datasets_is_answered_with_ours(word, ours, corpus, tokenizer_dir):
    with pytest.raises(fastpack.OptionError) as caught:
        fastpack.stream(
            {"a": corpus}, tokenizer_dir, max_length=64, weights=fastpack.Weights({"a": 1}, on_exhausted=word)
        )
    assert f'did you mean "{ours}"?' in str(caught.value)
    assert caught.value.option == "weights.on_exhausted"


@pytest.mark.parametrize(("given", "told"), KEYWORDS, ids=repr)
def test_a_keyword_of_another_tool_is_answered_with_ours(given, told, corpus, tokenizer_dir):
    with pytest.raises(fastpack.OptionTypeError) as caught:
        fastpack.pack_files(corpus, tokenizer_dir, **({"max_length": 256} | given))
    assert told in str(caught.value)
    assert caught.value.option == next(iter(given))


#: Fields of two options, one of which is of `stream`. Their own answer names both.
BOTH = ("rank", "world_size")


def test_a_keyword_that_is_a_field_of_a_value_is_answered_with_its_option(corpus, tokenizer_dir):
    known = inspect.signature(fastpack.pack_dir).parameters
    held = {
        (option, field.name)
        for option in known
        if option in OPTIONS
        for field in fields_of(OPTIONS[option].kinds.values())
        if field.name not in {*known, *BOTH} and (not field.calls or "pack_dir" in field.calls)
    }
    assert {
        ("strategy", "align_to"),
        ("order", "ranks"),
        ("reading", "fields"),
        ("train_on", "roles"),
    } <= held
    for option, field in sorted(held):
        with pytest.raises(fastpack.OptionTypeError) as caught:
            fastpack.pack_dir(corpus, "out", tokenizer_dir, max_length=256, **{field: 8})
        holders, _, spelling = str(caught.value).partition(f"`{field}` is a field of ")[2].partition(": ")
        assert f"`{option}`" in holders
        assert f"{field}=...)" in spelling
        kinds = OPTIONS[option].kinds.values()
        for needed in {name for kind in kinds if kind.__name__ in spelling for name in required_of(kind)}:
            assert f"{needed}=..." in spelling


SPELLINGS = [
    # the options, the one that is refused, and the right spelling
    ({"order": "balanced"}, "order.ranks", "must be given: order=Balanced(ranks=...)"),
    ({"columns": ["input_ids", "group"]}, "columns", "which only order=Balanced(ranks=...) makes"),
    (
        {"padding": fastpack.Padding(side="left")},
        "padding.side",
        'give padding=Padding(to="max_length", side="left"), or leave it out',
    ),
    (
        {"special_tokens": fastpack.SpecialTokens(bos=True, eos=True)},
        "special_tokens.bos",
        "is True, but the tokenizer names no `bos_token`; leave it out, or give the tokenizer one",
    ),
]


@pytest.mark.parametrize(("given", "option", "told"), SPELLINGS, ids=repr)
def test_an_option_that_lacks_another_is_answered_with_both(given, option, told, corpus, tokenizer_dir):
    with pytest.raises(fastpack.OptionError) as caught:
        fastpack.pack_files(corpus, tokenizer_dir, max_length=256, **given)
    assert caught.value.option == option
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("padding", "spelled"),
    [
        ("max_length", 'padding=Padding(to="max_length", token_id=0)'),
        (8, "padding=Padding(to=8, token_id=0)"),
    ],
)
def test_padding_without_a_tokenizer_is_told_where_its_id_goes(padding, spelled):
    rows = pa.table({"input_ids": [[1, 2, 3]]})
    with pytest.raises(fastpack.OptionError) as caught:
        fastpack.pack_table(rows, max_length=64, padding=padding)
    assert str(caught.value).endswith(f"give it, such as {spelled}")


def test_a_value_that_was_given_is_not_offered_again(corpus, tokenizer_dir):
    with pytest.raises(fastpack.OptionError) as caught:
        fastpack.pack_files(
            corpus, tokenizer_dir, max_length=256, special_tokens=fastpack.SpecialTokens(bos=True)
        )
    assert "meant" not in str(caught.value)


OWN_FIELDS = [
    # the objective, the fields of a record, and those that the hint names
    (
        "preference",
        ("question", "good", "bad"),
        {"chosen": "good", "rejected": "bad", "prompt": "question"},
    ),
    ("preference", ("prompt", "preferred", "bad"), {"chosen": "preferred", "rejected": "bad"}),
    ("classification", ("text", "sentiment"), {"label": "sentiment"}),
    ("classification", ("body", "category"), {"text": "body", "label": "category"}),
    ("multi_label", ("text", "tags"), {"label": "tags"}),
]


@pytest.mark.parametrize(("objective", "fields", "named"), OWN_FIELDS, ids=repr)
def test_fields_of_ones_own_are_named_for_the_objective(objective, fields, named, tokenizer_dir):
    record = {field: ["a"] if field == "tags" else "a" for field in fields}
    given = {"max_length": 64, "objective": objective}
    with pytest.raises(fastpack.RecordError) as caught:
        fastpack.pack_records([record], tokenizer_dir, **given)
    hint = re.search(r"did you mean `reading=Reading\(fields=(.*)\)`\?$", str(caught.value))
    assert hint is not None
    assert json.loads(hint[1]) == named
    reading = fastpack.Reading(fields=named)
    table = fastpack.pack_records([record], tokenizer_dir, reading=reading, **given)
    assert table.num_rows == 1
    assert not any("is not read" in warning for warning in fastpack.Report.of(table).warnings)


def test_a_field_that_none_of_the_record_stands_for_gives_no_hint(tokenizer_dir):
    for fields in (("body", "other"), ("text", "other")):
        with pytest.raises(fastpack.RecordError) as caught:
            fastpack.pack_records(
                [dict.fromkeys(fields, "a")], tokenizer_dir, max_length=64, objective="classification"
            )
        assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"strategy": "best-fit"}, {"strategy": "best_fit"}),
        ({"strategy": "Best Fit"}, {"strategy": "best_fit"}),
        ({"turns": "LAST"}, {"turns": "last"}),
        ({"columns": ["input-ids", "seq_lengths"]}, {"columns": ["input_ids", "seq_lengths"]}),
        ({"reading": "Conversations"}, {"reading": "conversations"}),
    ],
    ids=repr,
)
def test_words_are_taken_with_dashes_and_capitals(given, meant, corpus, tokenizer_dir):
    tables = [fastpack.pack_files(corpus, tokenizer_dir, max_length=256, **it) for it in (given, meant)]
    assert tables[0].equals(tables[1])


def wrong_things(corpus, tokenizer_dir, folder):
    """Calls with the wrong thing in the right place, each with the answer."""
    table = pa.table({"text": ["a"]})
    pack_files, pack_table, pack_records = fastpack.pack_files, fastpack.pack_table, fastpack.pack_records
    near = corpus.with_name(corpus.name.replace(".jsonl", ".json"))
    (folder / "empty").mkdir()
    return [
        (lambda **it: pack_files(tokenizer_dir, corpus, **it), f"`{corpus}` holds records, not a tokenizer"),
        (lambda **it: pack_files(corpus, corpus, **it), "the files come first, then the tokenizer"),
        (
            lambda **it: pack_files(pd.DataFrame({"text": ["a"]}), tokenizer_dir, **it),
            "`pack_table` takes tables",
        ),
        (
            lambda **it: pack_files(pl.DataFrame({"text": ["a"]}), tokenizer_dir, **it),
            "`pack_table` takes tables",
        ),
        (lambda **it: pack_files(table, tokenizer_dir, **it), "`pack_table` takes tables"),
        (lambda **it: pack_files([{"text": "a"}], tokenizer_dir, **it), "`pack_records` takes records"),
        (lambda **it: pack_files("org/some_chats", tokenizer_dir, **it), "hf://datasets/org/some_chats"),
        (lambda **it: pack_files(near, tokenizer_dir, **it), f"did you mean `{corpus}`?"),
        (lambda **it: pack_files(corpus, **it), "only records that are ids need none"),
        (lambda **_: pack_files(corpus, tokenizer_dir, 512), "as in `max_length=512`"),
        (lambda **_: pack_files(corpus, tokenizer_dir), "invalid option `max_length`: must be given"),
        (lambda **it: pack_files(corpus, folder / "empty", **it), "tokenizer.json: is missing"),
        (lambda **it: pack_table(pl.LazyFrame({"text": ["a"]}), tokenizer_dir, **it), "`.collect()` it"),
        (lambda **it: pack_files(pl.LazyFrame({"text": ["a"]}), tokenizer_dir, **it), "`.collect()` it"),
        (lambda **it: pack_table(str(corpus), tokenizer_dir, **it), "use `pack_files`"),
        (lambda **it: pack_table([{"text": "a"}], tokenizer_dir, **it), "`pack_records` takes iterables"),
        (lambda **it: pack_records({"text": "a"}, tokenizer_dir, **it), "put the one record into a list"),
        (lambda **it: pack_records(["a"], tokenizer_dir, **it), '{"text": "..."}'),
        (
            lambda **it: pack_records([{"messages": [{"author": "user", "text": "a"}]}], tokenizer_dir, **it),
            "the message has the keys `author`, `text`, where `role` and `content`",
        ),
        (
            lambda **it: pack_records(
                [{"messages": [{"role": "assistent", "content": "a"}]}], tokenizer_dir, **it
            ),
            "`assistant` is meant?",
        ),
        (
            lambda **it: pack_records([{"mesages": MESSAGES}], tokenizer_dir, **it),
            'did you mean `reading=Reading(fields={"messages": "mesages"})`?',
        ),
        (lambda **it: fastpack.pack_dir(corpus, tokenizer_dir, **it), "the output comes second"),
        (lambda **it: fastpack.pack_dir(corpus, tokenizer=tokenizer_dir, **it), "`output`: must be given"),
        (lambda **_: fastpack.Report.of(table), "carries no report"),
        (lambda **_: fastpack.Report.of(folder / "empty"), "holds no report.json"),
        (lambda **_: fastpack.inspect(table), "no packed row: it has no `input_ids`"),
    ]


@pytest.mark.parametrize("number", range(26))
def test_the_wrong_thing_in_the_right_place_is_named(number, corpus, tokenizer_dir, tmp_path):
    call, told = wrong_things(corpus, tokenizer_dir, tmp_path)[number]
    with pytest.raises(fastpack.FastpackError) as caught:
        call(max_length=256)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_stream_is_told_the_same_when_it_starts(tokenizer_dir, write_jsonl):
    path = write_jsonl([{"mesages": MESSAGES}])
    stream = fastpack.stream(path, tokenizer_dir, max_length=256)
    with pytest.raises(fastpack.RecordError, match=r"did you mean `reading=Reading\(fields=") as caught:
        next(stream)
    assert (caught.value.path, caught.value.line) == (str(path), 1)


def test_every_wrong_thing_is_tried(corpus, tokenizer_dir, tmp_path):
    assert len(wrong_things(corpus, tokenizer_dir, tmp_path)) == 26


@pytest.mark.parametrize(
    ("name", "meant"), [("pack", "pack_files"), ("pack_file", "pack_files"), ("tokeniser", "Tokenizer")]
)
def test_a_name_that_the_package_does_not_have_is_answered_with_one_that_it_has(name, meant):
    with pytest.raises(AttributeError, match=f"did you mean '{meant}'"):
        getattr(fastpack, name)


COMMAND_LINES = [
    (["pak"], "did you mean `pack`?"),
    (["preprocess", "x"], "did you mean `pack`?"),
    (["stats", "x"], "did you mean `report`?"),
    (
        ["chat.jsonl", "-o", "out"],
        "`chat.jsonl` is a file, no command; did you mean `fastpack pack chat.jsonl ...`?",
    ),
    (["pack", "chat.jsonl", "-o", "out", "--max-lenght", "5"], "did you mean `--max-length`?"),
    (["pack", "chat.jsonl", "-o", "out", "-m", "8", "--max-seq-length", "5"], "did you mean `--max-length`?"),
    (["pack", "chat.jsonl", "-o", "out", "-m", "8", "--num-workers", "5"], "did you mean `--threads`?"),
    (["pack", "chat.jsonl", "-o", "out", "-m", "8", "--packing"], "rows are always packed"),
    (["pack", "chat.jsonl", "-o", "out", "-m", "8", "--strategy", "bfd"], 'did you mean "best_fit"?'),
    (["pack", "chat.jsonl", "-o", "out", "-m", "eight"], "no number of tokens such as 4096 or 4k"),
    (
        ["pack", "chat.jsonl", "-o", "out", "-m", "8", "--storage.aws_region", "x"],
        """options of a store are given as JSON, `--storage '{"aws_region": "eu-west-1"}'`""",
    ),
    (
        ["pack", "chat.jsonl", "-o", "out", "-m", "8", "--storage", "aws_region=x"],
        """must be a JSON object such as '{"aws_region": "eu-west-1"}'""",
    ),
    (
        ["pack", "chat.jsonl", "-o", "out", "-m", "8", "--storage.revison", "x"],
        "did you mean `--storage.revision`?",
    ),
    (["pack", "chat.jsonl", "-o", "out", "-m", "8", "--token-id", "0"], "did you mean `--padding.token-id`?"),
    (["scan", "chat.jsonl", "--tokeniser", "x"], "did you mean `--tokenizer`?"),
    (["inspect", "a", "b"], "`b` is one argument too many"),
    (["completion", "powershell"], "must be one of bash, zsh, fish"),
]


@pytest.mark.parametrize(("arguments", "told"), COMMAND_LINES, ids=[" ".join(it) for it, _ in COMMAND_LINES])
def test_a_wrong_command_line_is_answered_with_the_right_one(arguments, told, tmp_path):
    (tmp_path / "chat.jsonl").write_text(json.dumps({"messages": MESSAGES}) + "\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "fastpack", *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert told in done.stderr


def test_names_of_other_tools_stand_for_names_that_exist():
    words = {option: fastpack_words(option) for option in FOREIGN_WORDS}
    assert set(FOREIGN_OPTIONS.values()) <= set(OPTIONS)
    assert not {*FOREIGN_OPTIONS} & set(OPTIONS)
    # A stream shuffles by a word of its own; to the other calls it is told where theirs is.
    assert {*OPTION_ADVICE} & set(OPTIONS) == {"shuffle"}
    assert set(FOREIGN_NAMES.values()) <= set(fastpack.__all__)
    for option, foreign in FOREIGN_WORDS.items():
        assert set(foreign.values()) <= set(words[option]), option
        assert not set(foreign) & set(words[option]), option


def fastpack_words(option):
    from fastpack.options.mistakes.suggestions import words_of
    from fastpack.options.value import fields_of, words_in

    holder, _, inner = option.partition(".")
    if not inner:
        return words_of(option, "pack_dir")
    fields = {field.name: field for field in fields_of(OPTIONS[holder].kinds.values())}
    return words_in(fields[inner].type)


def test_commands_of_other_tools_stand_for_commands_that_exist():
    from fastpack.cli.commands import COMMANDS

    assert set(FOREIGN_COMMANDS.values()) <= set(COMMANDS)
    assert not set(FOREIGN_COMMANDS) & set(COMMANDS)


def test_pairs_of_preferences_without_their_objective_are_told_its_name(write_jsonl, tokenizer_dir):
    path = write_jsonl([{"prompt": "a", "chosen": "b", "rejected": "c"}])
    with pytest.raises(
        fastpack.RecordError, match=r"; pairs of preferences take the objective `preference`$"
    ):
        fastpack.pack_files(path, tokenizer_dir, max_length=64)
    assert "take the objective `preference`" in str(fastpack.scan(path, tokenizer_dir, max_length=64))


def test_weights_without_named_sources_are_told_the_form_of_files(write_jsonl, tokenizer_dir):
    path = write_jsonl([{"text": "a"}])
    for call in (fastpack.pack_files, fastpack.stream):
        with pytest.raises(
            fastpack.OptionError, match=r"`files` has none: make it a dict, such as \{.web.: PATH"
        ):
            call([path], tokenizer_dir, weights={"web": 1.0, "code": 2.0}, max_length=64)


def test_a_hint_about_fields_repeats_none_that_was_given(write_jsonl, tokenizer_dir):
    path = write_jsonl([{"query": "a", "reply": "b"}])
    for fields in ({"prompt": "query"}, {"completion": "reply"}):
        with pytest.raises(fastpack.RecordError) as refused:
            fastpack.pack_files(path, tokenizer_dir, max_length=64, reading=fastpack.Reading(fields=fields))
        hint = re.search(r"did you mean `reading=Reading\(fields=(.*)\)`", str(refused.value))
        assert hint is None or fields.items() < json.loads(hint[1]).items()


def test_a_record_without_a_field_of_its_shape_names_all_that_it_needs(write_jsonl, tokenizer_dir):
    path = write_jsonl([{"query": "a", "response": "b"}])
    reading = fastpack.Reading(fields={"prompt": "query"})
    with pytest.raises(
        fastpack.RecordError, match="expected `query` and `completion`, the fields of the shape"
    ):
        fastpack.pack_files(path, tokenizer_dir, max_length=64, reading=reading)


def test_a_record_that_is_broken_names_what_leaves_it_out(write_jsonl, tokenizer_dir, tmp_path):
    hint = r'; on_bad_record="skip" leaves such records out, and counts them$'
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"text": "a"}\n{"text": \n')
    with pytest.raises(fastpack.RecordError, match=hint):
        fastpack.pack_files(broken, tokenizer_dir, max_length=64)
    with pytest.raises(fastpack.RecordError, match=hint):
        next(fastpack.stream(broken, tokenizer_dir, max_length=64))
    table = fastpack.pack_files(broken, tokenizer_dir, max_length=64, on_bad_record="skip", max_lost="100%")
    assert fastpack.Report.of(table).dropped["invalid_json"].documents == 1
    chat = write_jsonl([{"messages": [{"role": "user", "content": "a"}]}])
    with pytest.raises(fastpack.RecordError, match=hint):
        fastpack.pack_files(chat, tokenizer_dir, max_length=64, chat_template="{{ raise_exception('no') }}")


def test_a_dict_of_sources_is_sent_to_the_calls_that_take_it(write_jsonl, tokenizer_dir):
    path = write_jsonl([{"text": "a"}])
    taken = "`files`: is a dict of sources, which `stream`, `pack_files` and `pack_dir` take"
    with pytest.raises(fastpack.OptionTypeError, match=taken):
        fastpack.scan({"a": path}, tokenizer_dir, max_length=64)
    with pytest.raises(fastpack.OptionTypeError, match="names `a`, which gives records"):
        fastpack.pack_files({"a": list}, tokenizer_dir, max_length=64)


@pytest.mark.parametrize("call", [fastpack.pack_files, fastpack.stream])
def test_weights_name_the_sources_that_lack_one(call, write_jsonl, tokenizer_dir):
    path = write_jsonl([{"text": "a"}])
    reason = "`'c'` has no weight, `'boats'` is no source"
    with pytest.raises(fastpack.OptionError, match=reason):
        call({"a": path, "c": path}, tokenizer_dir, max_length=64, weights={"a": 1, "boats": 2})


def test_a_scan_says_once_what_all_records_of_a_file_lack(write_jsonl, tokenizer_dir):
    path = write_jsonl([{"query_text": f"how many boats {number}", "reply": "seven"} for number in range(40)])
    scan = fastpack.scan(path, tokenizer_dir, max_length=64)
    page = str(scan)
    assert page.count("name others with `reading.fields`") == 20
    assert f"and 20 more of {path} with the same fault, which `lost` names" in " ".join(page.split())
    assert len(scan.lost["no_content"].places) == 40
    # What cannot be packed is not said to lose nothing, and no command packs it.
    assert "no record becomes a document" in page
    assert "0.00% of the tokens lost" not in page
    done = subprocess.run(
        [sys.executable, "-m", "fastpack", "scan", str(path), "-t", tokenizer_dir, "-m", "64"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "next" not in done.stdout.split()


def test_half_a_surrogate_pair_in_one_record_names_how_to_leave_it_out(tmp_path, tokenizer_dir):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a \\ud800"}\n{"text": "b"}\n')
    with pytest.raises(fastpack.RecordError, match=r'on_bad_record="skip" leaves such records out'):
        fastpack.pack_files(path, tokenizer_dir, max_length=64)
