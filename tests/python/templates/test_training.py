"""Messages say how much they count, options which ends of turns do, and both reach the rows as they were said."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from conftest import conversation, sentence
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

import fastpack

COLUMNS = ("input_ids", "labels", "loss_weights", "seq_lengths")
WITH_END = (
    "{% for message in messages %}<|start|>{{ message['role'] }}\n"
    "{% generation %}{{ message['content'] }}<|end|>{% endgeneration %}\n{% endfor %}"
)
DERIVED = (
    "{% for message in messages %}<|start|>{{ message['role'] }}\n{{ message['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)
END_OUTSIDE = (
    "{% for message in messages %}<|start|>{{ message['role'] }}\n"
    "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] }}{% endgeneration %}"
    "{% else %}{{ message['content'] }}{% endif %}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)


def turn(role: str, content: str, **flags: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **flags}


def pack(path: Path, tokenizer: Path, **options: Any) -> Any:
    given: Any = {"max_length": 4096, "strategy": "none", "columns": COLUMNS, "max_lost": "100%", **options}
    return fastpack.pack_files(path, tokenizer, **given)


def weighed(table: Any, tokenizer: Path) -> list[list[tuple[float, str]]]:
    """For each row the texts that are trained, with their weights."""
    decoder = fastpack.Tokenizer(tokenizer)
    found = []
    for row in table.to_pylist():
        runs: list[tuple[float, list[int]]] = []
        for token, label, weight in zip(row["input_ids"], row["labels"], row["loss_weights"], strict=True):
            assert (label != -100) == (weight > 0)
            if weight and runs and runs[-1][0] == weight:
                runs[-1][1].append(token)
            elif weight:
                runs.append((weight, [token]))
            elif runs and runs[-1][0]:
                runs.append((0.0, []))
        found.append([(round(weight, 6), decoder.decode(ids)) for weight, ids in runs if weight])
    return found


THREE = [turn("user", "a"), turn("assistant", "one"), turn("user", "b"), turn("assistant", "two")]


@pytest.mark.parametrize("template", [None, DERIVED])
@pytest.mark.parametrize(
    ("first", "second", "turns", "expected"),
    [
        ({"train": False}, {}, "auto", [(1.0, "two<|end|>")]),
        ({"train": None}, {}, "auto", [(1.0, "one<|end|>"), (1.0, "two<|end|>")]),
        ({"weight": 0}, {}, "whole", [(1.0, "two<|end|>")]),
        ({"weight": 0.25}, {}, "auto", [(0.25, "one<|end|>"), (1.0, "two<|end|>")]),
        ({"weight": 0.5}, {"weight": 2}, "auto", [(0.5, "one<|end|>"), (2.0, "two<|end|>")]),
        ({"train": True, "weight": 3.0}, {}, "auto", [(3.0, "one<|end|>"), (1.0, "two<|end|>")]),
        ({"train": False, "weight": 3.0}, {}, "auto", [(1.0, "two<|end|>")]),
        ({"train": True}, {}, "last", [(1.0, "one<|end|>"), (1.0, "two<|end|>")]),
        ({}, {"train": False}, "last", []),
    ],
)
def test_a_message_says_how_much_it_counts(
    first, second, turns, expected, template, write_jsonl, tokenizer_dir
):
    messages = [THREE[0], {**THREE[1], **first}, THREE[2], {**THREE[3], **second}]
    table = pack(write_jsonl([{"messages": messages}]), tokenizer_dir, turns=turns, chat_template=template)
    assert weighed(table, tokenizer_dir) == ([expected] if expected else [])


def test_with_all_a_flag_takes_its_turn_out(write_jsonl, tokenizer_dir):
    path = write_jsonl([{"messages": [THREE[0], {**THREE[1], "train": False}, *THREE[2:]]}])
    [runs] = weighed(pack(path, tokenizer_dir, train_on="all"), tokenizer_dir)
    assert [weight for weight, _ in runs] == [1.0, 1.0]
    assert "one" not in runs[0][1] + runs[1][1]
    assert runs[1][1].endswith("two<|end|>\n")


def test_a_prompt_and_its_completion_heed_flags_too(write_jsonl, tokenizer_dir):
    prompt = [turn("user", "a"), turn("assistant", "one", weight=0.5), turn("user", "b")]
    path = write_jsonl([{"prompt": prompt, "completion": [turn("assistant", "two", weight=0.75)]}])
    table = pack(path, tokenizer_dir, chat_template=DERIVED)
    assert weighed(table, tokenizer_dir) == [[(0.5, "one<|end|>"), (0.75, "two<|end|>"), (1.0, "\n")]]


BAD_FLAGS: list[tuple[dict[str, Any], str, str]] = [
    ({"train": "no"}, "messages[1].train", "wrong_type"),
    ({"weight": "much"}, "messages[1].weight", "wrong_type"),
    ({"weight": -1}, "messages[1].weight", "wrong_type"),
    ({"weight": 1e39}, "messages[1].weight", "wrong_type"),
]


@pytest.mark.parametrize(("flags", "place", "reason"), BAD_FLAGS)
def test_a_flag_that_is_none_is_refused(flags, place, reason, write_jsonl, tokenizer_dir):
    path = write_jsonl([{"messages": [turn("user", "a"), turn("assistant", "b", **flags)]}])
    with pytest.raises(fastpack.RecordError) as caught:
        pack(path, tokenizer_dir)
    assert place in str(caught.value)
    assert caught.value.reason == reason


def test_only_what_the_assistant_says_can_ask_to_be_trained(write_jsonl, tokenizer_dir):
    with pytest.raises(fastpack.RecordError, match="asks to be trained") as caught:
        pack(write_jsonl([{"messages": [turn("user", "a", train=True), THREE[1]]}]), tokenizer_dir)
    assert caught.value.reason == "unmaskable"
    quiet = write_jsonl([{"messages": [turn("user", "a", train=False, weight=0), THREE[1]]}])
    assert weighed(pack(quiet, tokenizer_dir), tokenizer_dir) == [[(1.0, "one<|end|>")]]


def test_a_weight_without_a_column_is_refused_not_lost(write_jsonl, tokenizer_dir):
    path = write_jsonl([{"messages": THREE[:2]}, {"messages": [THREE[0], {**THREE[1], "weight": 0.3}]}])
    with pytest.raises(fastpack.OptionError, match=r'0.3 that .*:2 gives; add "loss_weights"') as caught:
        pack(path, tokenizer_dir, columns=("input_ids", "labels"))
    assert caught.value.option == "columns"
    # Whole ones are labels, or none.
    path = write_jsonl([{"messages": [THREE[0], {**THREE[1], "weight": 0}, *THREE[2:]]}])
    assert pack(path, tokenizer_dir, columns=("input_ids", "labels")).num_rows == 1


@pytest.mark.parametrize("template", [None, DERIVED, END_OUTSIDE])
@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ("turn", [(1.0, "one<|end|>"), (1.0, "two<|end|>")]),
        ("last", [(1.0, "one"), (1.0, "two<|end|>")]),
        ("none", [(1.0, "one"), (1.0, "two")]),
    ],
)
def test_the_ends_of_turns_are_trained_as_asked(ends, expected, template, write_jsonl, tokenizer_dir):
    table = pack(
        write_jsonl([{"messages": THREE}]),
        tokenizer_dir,
        special_tokens=fastpack.SpecialTokens(train_on_eos=ends),
        chat_template=template,
    )
    assert weighed(table, tokenizer_dir) == [expected]


def test_without_a_word_the_ends_are_those_that_the_template_marks(write_jsonl, tokenizer_dir):
    path = write_jsonl([{"messages": THREE}])
    assert weighed(pack(path, tokenizer_dir, chat_template=END_OUTSIDE), tokenizer_dir) == [
        [(1.0, "one"), (1.0, "two")]
    ]


def test_the_last_end_is_that_of_the_last_trained_turn(write_jsonl, tokenizer_dir):
    path = write_jsonl([{"messages": [*THREE[:3], {**THREE[3], "train": False}]}])
    assert weighed(
        pack(path, tokenizer_dir, special_tokens=fastpack.SpecialTokens(train_on_eos="last")), tokenizer_dir
    ) == [[(1.0, "one<|end|>")]]


@pytest.mark.parametrize(
    ("ends", "trained"), [("turn", " 4<|endoftext|>"), ("last", " 4<|endoftext|>"), ("none", " 4")]
)
def test_the_end_of_an_answer_is_an_end_too(ends, trained, write_jsonl, tokenizer_dir):
    for answer in (" 4", " 4<|endoftext|>"):
        path = write_jsonl([{"prompt": "2 + 2 =", "completion": answer}])
        table = pack(path, tokenizer_dir, special_tokens=fastpack.SpecialTokens(train_on_eos=ends))
        assert weighed(table, tokenizer_dir) == [[(1.0, trained)]]
        assert (
            fastpack.Tokenizer(tokenizer_dir).decode(table["input_ids"][0].as_py()).endswith("4<|endoftext|>")
        )


def test_ends_are_no_question_where_all_is_trained(write_jsonl, tokenizer_dir):
    with pytest.raises(fastpack.OptionError, match="trains every token") as caught:
        pack(
            write_jsonl([{"messages": THREE}]),
            tokenizer_dir,
            train_on="all",
            special_tokens=fastpack.SpecialTokens(train_on_eos="last"),
        )
    assert caught.value.option == "special_tokens.train_on_eos"


weights = st.one_of(st.none(), st.sampled_from([0, 0.25, 0.5, 1, 2]))


@given(flags=st.lists(st.lists(weights, min_size=1, max_size=4), min_size=1, max_size=12))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_weights_travel_with_their_tokens_through_packing_and_streams(flags, write_jsonl, tokenizer_dir):
    records = [
        {
            "messages": [
                message
                for at, weight in enumerate(listed)
                for message in (
                    turn("user", sentence(number + at, 4)),
                    turn("assistant", sentence(number * 5 + at, 6), weight=weight),
                )
            ]
        }
        for number, listed in enumerate(flags)
    ]
    path = write_jsonl(records)
    alone = pack(path, tokenizer_dir).to_pylist()
    documents = sorted(
        (tuple(row["input_ids"]), tuple(row["labels"]), tuple(row["loss_weights"])) for row in alone
    )
    options: Any = {"max_length": 256, "columns": COLUMNS, "overlong": "drop", "max_lost": "100%"}
    tables = [
        fastpack.pack_files(path, tokenizer_dir, strategy=strategy, **options)
        for strategy in ("mix", "best_fit", "sequential")
    ]
    tables.append(
        pa.concat_tables([*fastpack.stream(path, tokenizer_dir, **options)]) if alone else tables[0]
    )
    tables.append(fastpack.pack_table(pack(path, tokenizer_dir), **options))
    short = [document for document in documents if len(document[0]) <= 256]
    for table in tables:
        found = []
        for row in table.to_pylist():
            start = 0
            for length in row["seq_lengths"]:
                cut = slice(start, start + length)
                found.append(tuple(tuple(row[name][cut]) for name in ("input_ids", "labels", "loss_weights")))
                start += length
        assert sorted(found) == short


def test_padding_weighs_nothing_and_a_split_keeps_the_weights(write_jsonl, tokenizer_dir):
    path = write_jsonl([{"messages": [turn("user", "a"), turn("assistant", sentence(1, 60), weight=0.5)]}])
    [whole] = pack(path, tokenizer_dir)["loss_weights"].to_pylist()
    table = pack(
        path,
        tokenizer_dir,
        max_length=32,
        overlong="split",
        padding=fastpack.Padding("max_length", token_id=0),
    )
    split = [weight for row in table.to_pylist() for weight in row["loss_weights"][: row["seq_lengths"][0]]]
    assert len(split) == len(whole)
    # The first token of a piece has no label.
    assert all(
        a == b or (b == 0 and at % 32 == 0) for at, (a, b) in enumerate(zip(whole, split, strict=True))
    )
    assert table["loss_weights"][-1].as_py()[-1] == 0


def test_weights_are_written_and_read_again(write_jsonl, tokenizer_dir, tmp_path):
    datasets = pytest.importorskip("datasets")
    path = write_jsonl([{"messages": [THREE[0], {**THREE[1], "weight": 0.25}]}])
    expected = pack(path, tokenizer_dir).to_pylist()
    for kind in ("arrow", "jsonl"):
        out = tmp_path / kind
        fastpack.pack_dir(
            path,
            out,
            tokenizer=tokenizer_dir,
            max_length=4096,
            strategy="none",
            columns=COLUMNS,
            format=kind,
        )
        [file] = out.glob("train-*")
        if kind == "arrow":
            found = datasets.Dataset.from_file(str(file))
            assert found.features["loss_weights"].feature.dtype == "float32"
            assert found.to_list() == expected
        else:
            assert [json.loads(line) for line in file.read_text().splitlines()] == expected
        again = fastpack.pack_files(file, tokenizer_dir, max_length=4096, strategy="none", columns=COLUMNS)
        assert again.to_pylist() == expected


@pytest.mark.parametrize("wrong", [[0.5], [0.5, -1.0], [0.5, None], ["a", "b"]])
def test_weights_that_are_none_are_refused(wrong, write_jsonl, tokenizer_dir):
    with pytest.raises(fastpack.RecordError, match="loss_weights"):
        pack(write_jsonl([{"input_ids": [5, 6], "loss_weights": wrong}]), tokenizer_dir)
    if wrong != ["a", "b"]:
        with pytest.raises(fastpack.RecordError, match="<table>:1: `loss_weights"):
            fastpack.pack_table(pa.table({"input_ids": [[5, 6]], "loss_weights": [wrong]}), max_length=8)


def test_tokens_that_straddle_a_boundary_are_counted_and_trained(write_jsonl, tokenizer_dir):
    reference = Tokenizer.from_file(str(tokenizer_dir / "tokenizer.json"))
    pairs = [(f"{sentence(n, 5)}{' ' * (n % 2)}", f"{sentence(n + 3, 4)}") for n in range(60)]
    straddling = sum(
        start < len(prompt) < end
        for prompt, completion in pairs
        for start, end in reference.encode(prompt + completion).offsets
    )
    records = [{"prompt": prompt, "completion": completion} for prompt, completion in pairs]
    assert 0 < straddling < len(pairs)
    report = fastpack.Report.of(pack(write_jsonl(records), tokenizer_dir))
    assert report.straddling_tokens == straddling
    assert f"{straddling} straddle a boundary" in str(report)


def trl_functions() -> dict[str, Any]:
    """`tokenize_fn` and `add_eos` of TRL's SFTTrainer, as its file has them; the file itself needs torch."""
    trl = pytest.importorskip("importlib.util").find_spec("trl")
    if trl is None:
        pytest.skip("trl needs Python 3.11")
    root = Path(trl.submodule_search_locations[0])
    wanted = {"tokenize_fn", "add_eos", "_tokenize", "common_prefix_length", "is_conversational"}
    names: dict[str, Any] = {"json": json, "Any": Any, "ProcessorMixin": type("ProcessorMixin", (), {})}
    for file in ("trainer/utils.py", "trainer/sft_trainer.py", "data_utils.py"):
        tree = ast.parse((root / file).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name in wanted and node.name not in names:
                node.returns = None
                for argument in [*node.args.args, *node.args.kwonlyargs, *filter(None, [node.args.kwarg])]:
                    argument.annotation = None
                exec(compile(ast.Module([node], []), file, "exec"), names)
    assert wanted <= names.keys()
    return names


def test_labels_of_prompts_and_completions_are_those_of_trls_own_code(write_jsonl, tokenizer_dir):
    transformers = pytest.importorskip("transformers")
    trl = trl_functions()
    reference = transformers.AutoTokenizer.from_pretrained(tokenizer_dir)
    chats = [conversation(number)["messages"] for number in range(40)]
    plain = [{"prompt": sentence(n, 9) + "\n" * (n % 2), "completion": sentence(n + 1, 7)} for n in range(40)]
    talked = [{"prompt": chat[:-1], "completion": chat[-1:]} for chat in chats]
    compared = 0
    for records, template in ((plain, None), (talked, DERIVED)):
        table = pack(write_jsonl(records), tokenizer_dir, chat_template=template)
        found = list(zip(table["input_ids"].to_pylist(), table["labels"].to_pylist(), strict=True))
        assert len(found) == len(records)
        for record, (ids, labels) in zip(records, found, strict=True):
            given = dict(record)
            if template is None:
                given = trl["add_eos"](given, reference.eos_token, "text")
                before = reference(given["prompt"])["input_ids"]
                if reference(given["prompt"] + given["completion"])["input_ids"][: len(before)] != before:
                    continue  # a token straddles
            output = trl["tokenize_fn"](given, reference, "text", False, template)
            mask = output["completion_mask"]
            assert ids == output["input_ids"]
            assert labels == [token if one else -100 for token, one in zip(ids, mask, strict=True)]
            compared += 1
    assert compared > 50
