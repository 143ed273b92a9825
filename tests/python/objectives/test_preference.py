"""Preference pairs and judged answers: their ids are those that the trainers of TRL 1.16 prepare."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import json
import logging
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from conftest import DATA, sentence
from nested import flat, nested, place
from processes import kill_at_work, start
from rows import balanced, table_of
from transformers_tokenizer import transformers_tokenizer

import fastpack

datasets = pytest.importorskip("datasets")
transformers = pytest.importorskip("transformers")

TEMPLATE = (
    "{%- if tools %}{{- '<|start|>tools\n' + (tools | tojson) + '<|end|>\n' }}{%- endif %}"
    "{%- for message in messages %}"
    "{{- '<|start|>' + message['role'] + '\n' + message['content'] + '<|end|>\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|start|>assistant\n' + (thought or '') }}{%- endif %}"
)
"""A template with tools, and a generation prompt that may hold more than the turns of conversations do."""


def user(number):
    return {"role": "user", "content": sentence(number, 3 + number % 7)}


def assistant(number):
    return {"role": "assistant", "content": sentence(number * 5 + 1, 2 + number % 9)}


def pairs_of_texts(number):
    return {
        "prompt": f"{sentence(number, 6)} ",
        "chosen": sentence(number + 1, 4),
        "rejected": sentence(number * 3 + 2, 1 + number % 8),
    }


def pairs_of_messages(number):
    context = [
        user(number + turn) if turn % 2 == 0 else assistant(number + turn)
        for turn in range(1 + 2 * (number % 3))
    ]
    return {"prompt": context, "chosen": [assistant(number)], "rejected": [assistant(number + 7)]}


def implicit(record):
    return {name: record["prompt"] + record[name] for name in ("chosen", "rejected")}


def judged(record, number):
    return {"prompt": record["prompt"], "completion": record["chosen"], "label": number % 3 == 0}


SHAPES = {
    "texts": [pairs_of_texts(number) for number in range(40)],
    "messages": [pairs_of_messages(number) for number in range(40)],
    "implicit texts": [implicit(pairs_of_texts(number)) for number in range(40)],
    "implicit messages": [implicit(pairs_of_messages(number)) for number in range(40)],
    "tools": [
        pairs_of_messages(number) | {"tools": json.dumps([{"type": "function", "function": {"name": "see"}}])}
        for number in range(10)
    ],
    "keyword arguments": [
        pairs_of_messages(number) | {"chat_template_kwargs": {"thought": "<think>"}} for number in range(10)
    ],
    "texts that end": [
        {"prompt": "a river", "chosen": " old<|endoftext|>", "rejected": " small"},
        {"prompt": "", "chosen": "the town", "rejected": "the boat"},
    ],
    "merged ends": [{"prompt": "the riv", "chosen": "er", "rejected": "et"}],
    "one begins with the other": [{"chosen": "the river sees", "rejected": "the river sees the town"}],
}
"""Every shape of preference records in the docs of TRL, and their edges."""


@pytest.fixture(scope="module")
def folder(tokenizer_dir, tmp_path_factory):
    """The tokenizer with a template that has a generation prompt."""
    made = tmp_path_factory.mktemp("prompting")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (made / name).write_bytes((tokenizer_dir / name).read_bytes())
    (made / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    return made


def prepared(trl_data_utils, name, folder, records, **arguments):
    """The records after `_prepare_dataset` of a trainer of TRL: its own code, run without torch."""
    found = importlib.util.find_spec("trl").submodule_search_locations[0]
    source = ast.parse((Path(found) / "trainer" / f"{name}_trainer.py").read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(source) if isinstance(node, ast.FunctionDef)]
    function = next(node for node in functions if node.name == "_prepare_dataset")
    names = vars(trl_data_utils) | {
        "json": json,
        "global_then_local_main_first": contextlib.nullcontext,
        "logger": SimpleNamespace(
            warning_once=logging.getLogger("trl").debug, warning=logging.getLogger("trl").debug
        ),
        "get_dataset_column_names": lambda dataset: dataset.column_names,
        "DPOConfig": object,
        "KTOConfig": object,
        "RewardConfig": object,
    }
    exec(compile(ast.Module([function], []), name, "exec"), names)  # the code of TRL itself
    tokenizer = transformers_tokenizer(folder)
    trainer = SimpleNamespace(
        _tokenizer=tokenizer, calculate_KL=False, undesirable_weight=1.0, desirable_weight=1.0
    )
    given = SimpleNamespace(
        dataset_num_proc=None, max_length=None, truncation_mode="keep_start", per_device_train_batch_size=8
    )
    for option, value in arguments.items():
        setattr(given, option, value)
    dataset = datasets.Dataset.from_list(records)
    return names["_prepare_dataset"](trainer, dataset, tokenizer, given, "train")


def packed(folder, records, form="dpo", **options):
    return fastpack.pack_records(records, folder, objective=fastpack.Preference(form), **options)


@pytest.mark.parametrize("shape", SHAPES)
def test_pairs_have_the_ids_that_the_dpo_trainer_prepares(trl_data_utils, folder, shape):
    records = SHAPES[shape]
    rows = packed(folder, records)
    wanted = prepared(trl_data_utils, "dpo", folder, records)
    assert rows.column_names == ["prompt_ids", "chosen_ids", "rejected_ids"]
    for name in rows.column_names:
        assert rows[name].to_pylist() == wanted[name], name


@pytest.mark.parametrize("shape", SHAPES)
def test_pairs_have_the_ids_that_the_reward_trainer_prepares(trl_data_utils, folder, shape):
    records = SHAPES[shape]
    rows = packed(folder, records, form="reward")
    wanted = prepared(trl_data_utils, "reward", folder, records)
    assert rows.column_names == ["chosen_ids", "rejected_ids"]
    for name in rows.column_names:
        assert rows[name].to_pylist() == wanted[name], name


@pytest.mark.parametrize("shape", ["texts", "messages", "tools", "texts that end", "merged ends"])
def test_judged_answers_have_the_ids_that_the_kto_trainer_prepares(trl_data_utils, folder, shape):
    records = [
        {name: value for name, value in record.items() if name == "tools"} | judged(record, number)
        for number, record in enumerate(SHAPES[shape])
    ]
    rows = packed(folder, records, form="kto")
    wanted = prepared(trl_data_utils, "kto", folder, records)
    assert rows.column_names == ["prompt_ids", "completion_ids", "label"]
    for name in rows.column_names:
        assert rows[name].to_pylist() == wanted[name], name
    assert rows.schema.field("label").type == pa.bool_()


def test_a_prompt_that_is_a_text_beside_messages_repeats_what_they_begin_with(trl_data_utils, folder):
    records = [
        implicit(pairs_of_messages(number)) | {"prompt": user(number)["content"]} for number in range(10)
    ]
    rows = packed(folder, records)
    extracted = [trl_data_utils.maybe_extract_prompt(record) for record in records]
    wanted = prepared(trl_data_utils, "dpo", folder, extracted)
    for name in rows.column_names:
        assert rows[name].to_pylist() == wanted[name], name


@pytest.mark.skipif(not DATA.is_dir(), reason="real tokenizers are not here")
@pytest.mark.parametrize("model", ["qwen", "llama3", "mistral-v1"])
def test_pairs_of_real_tokenizers_have_the_ids_of_trl(trl_data_utils, model):
    folder = DATA / "tokenizers" / model
    tokenizer = fastpack.Tokenizer(folder)
    has_template = bool(transformers_tokenizer(folder).chat_template)
    for shape in ["texts", "implicit texts", *(["messages", "implicit messages"] if has_template else [])]:
        rows = packed(tokenizer, SHAPES[shape])
        wanted = prepared(trl_data_utils, "dpo", folder, SHAPES[shape])
        for name in rows.column_names:
            assert rows[name].to_pylist() == wanted[name], (shape, name)


def test_pairs_that_are_too_long_are_dropped_and_counted(folder):
    records = SHAPES["messages"]
    whole = packed(folder, records).to_pylist()

    def length(row):
        return len(row["prompt_ids"]) + max(len(row["chosen_ids"]), len(row["rejected_ids"]))

    limit = sorted(map(length, whole))[20]
    rows = packed(folder, records, max_length=limit, max_lost=1.0)
    assert rows.to_pylist() == [row for row in whole if length(row) <= limit]
    report = fastpack.Report.of(rows)
    dropped = report.to_dict()["dropped"]["too_long"]
    assert dropped["documents"] == sum(length(row) > limit for row in whole)
    assert dropped["tokens"] == sum(sum(map(len, row.values())) for row in whole if length(row) > limit)
    balanced(report)


def test_answers_are_truncated_as_the_collator_of_trl_keeps_the_start(folder):
    records = SHAPES["texts"] + SHAPES["texts"][:3]
    whole = packed(folder, records).to_pylist()
    for limit in range(8, 40, 3):
        kept = [row for row in whole if len(row["prompt_ids"]) < limit]
        if not kept:
            continue
        rows = packed(folder, records, max_length=limit, overlong="truncate", max_lost=1.0)
        wanted = [
            {name: (row["prompt_ids"] + row[name])[:limit] for name in ("chosen_ids", "rejected_ids")}
            for row in kept
        ]
        found = [
            {name: row["prompt_ids"] + row[name] for name in ("chosen_ids", "rejected_ids")}
            for row in rows.to_pylist()
        ]
        assert found == wanted, limit
        balanced(fastpack.Report.of(rows))


def test_a_pair_that_is_too_long_is_an_error_where_asked_for(folder, write_jsonl):
    path = write_jsonl(SHAPES["messages"])
    with pytest.raises(fastpack.RecordError, match=r"data\.jsonl:1: .*more than") as refused:
        fastpack.pack_files(path, folder, objective="preference", max_length=3, overlong="error")
    assert len(str(refused.value)) < 400


def test_every_way_gives_the_same_rows(folder, write_jsonl, tmp_path):
    records = SHAPES["messages"]
    path = write_jsonl(records)
    options = {"objective": "preference", "max_length": 60, "max_lost": 1.0}
    wanted = fastpack.pack_files(path, folder, **options, threads=1).to_pylist()
    assert 0 < len(wanted) < len(records)
    for threads in (2, 8):
        assert fastpack.pack_files(path, folder, **options, threads=threads).to_pylist() == wanted
    assert fastpack.pack_records(iter(records), folder, **options).to_pylist() == wanted
    assert fastpack.pack_table(pa.Table.from_pylist(records), folder, **options).to_pylist() == wanted
    for kept in (False, True):
        fastpack.pack_dir(path, tmp_path / f"out{kept}", tokenizer=folder, **options, keep_tokens=kept)
        assert table_of(tmp_path / f"out{kept}").to_pylist() == wanted
    fastpack.repack(tmp_path / "outTrue", tmp_path / "again", **options)
    assert table_of(tmp_path / "again").to_pylist() == wanted
    streamed = flat.stream(path, folder, **options, shuffle=False, lanes=1)
    assert [row for table in streamed for row in table.to_pylist()] == wanted
    cached = [flat.pack_files(path, folder, **options, cache_dir=tmp_path / "cache") for _ in range(2)]
    assert [table.to_pylist() for table in cached] == [wanted, wanted]


def test_a_folder_of_pairs_is_verified(folder, write_jsonl, tmp_path):
    path = write_jsonl(SHAPES["messages"])
    for form in ("dpo", "reward"):
        out = tmp_path / form
        fastpack.pack_dir(
            path,
            out,
            tokenizer=folder,
            objective=fastpack.Preference(form),
            max_length=64,
            max_lost=1.0,
        )
        found = fastpack.verify(out)
        assert found.problems == ()
        rows = table_of(out)
        assert found.rows == found.documents == rows.num_rows > 0
        assert found.tokens == sum(len(ids) for name in rows.column_names for ids in rows[name].to_pylist())


TURN = [{"role": "assistant", "content": "four"}]


@pytest.mark.parametrize(
    ("record", "options", "said"),
    [
        (
            {"prompt": "2 + 2?", "chosen": TURN, "rejected": [user(1)]},
            {},
            "`prompt` is a text, but `chosen` is a list of messages",
        ),
        (
            {"prompt": [user(1)], "chosen": "four", "rejected": "five"},
            {},
            "`prompt` is a list of messages, but `chosen` is a text",
        ),
        (
            {"prompt": "2 + 2?", "completion": TURN, "label": True},
            {"form": "kto"},
            "`prompt` is a text, but `completion` is a list of messages",
        ),
        (
            {"prompt": [user(1)], "completion": "four", "label": True},
            {"form": "kto"},
            "`prompt` is a list of messages, but `completion` is a text",
        ),
    ],
)
def test_a_text_with_messages_is_refused_with_both_names_and_the_remedy(folder, record, options, said):
    with pytest.raises(fastpack.RecordError) as refused:
        packed(folder, [record], **options)
    assert refused.value.reason == "wrong_type"
    assert f"{said}; give both as texts, or both as lists of messages" in str(refused.value)


def test_a_row_shows_a_document_for_each_answer(folder):
    records = SHAPES["messages"]
    row = fastpack.inspect(packed(folder, records), 3)
    [wanted] = packed(folder, records[3:4]).to_pylist()
    assert [document.input_ids for document in row.documents] == [wanted["prompt_ids"]] * 2
    assert [document.labels for document in row.documents] == [wanted["chosen_ids"], wanted["rejected_ids"]]
    assert all(document.has_targets for document in row.documents)
    names = ("prompt_ids", "chosen_ids", "rejected_ids")
    assert row.tokens == sum(len(wanted[name]) for name in names)
    counted = row.to_dict()["documents"]
    assert [it["tokens"] for it in counted] == [
        len(wanted["prompt_ids"] + wanted[name]) for name in names[1:]
    ]
    rewarded = fastpack.inspect(packed(folder, records, form="reward"), 3)
    assert [document.input_ids for document in rewarded.documents] == [
        wanted["prompt_ids"] + wanted[name] for name in ("chosen_ids", "rejected_ids")
    ]
    unpaired = [judged(record, number) for number, record in enumerate(SHAPES["texts"])]
    columns = ["prompt_ids", "completion_ids", "label", "source_row"]
    table = packed(folder, unpaired, form="kto", columns=columns)
    [document] = fastpack.inspect(table, 3).documents
    assert (document.label, document.line) == (True, 4)
    judged_row = table.to_pylist()[3]
    judged_ids = judged_row["prompt_ids"] + judged_row["completion_ids"]
    assert fastpack.inspect(table, 3).tokens == document.tokens == len(judged_ids)
    assert ", label True" in str(fastpack.inspect(table, 3))


def test_formats_that_are_written_by_row_have_truths(folder, write_jsonl, tmp_path):
    records = [judged(record, number) for number, record in enumerate(SHAPES["texts"])]
    path = write_jsonl(records)
    options = {"objective": fastpack.Preference("kto")}
    wanted = fastpack.pack_files(path, folder, **options).to_pylist()
    fastpack.pack_dir(path, tmp_path / "out", tokenizer=folder, format="jsonl", **options)
    [shard] = (tmp_path / "out").rglob("*.jsonl")
    assert [json.loads(line) for line in shard.read_text().splitlines()] == wanted


def test_kept_tokens_are_packed_again_for_another_length_and_another_trainer(folder, write_jsonl, tmp_path):
    path = write_jsonl(SHAPES["messages"])
    fastpack.pack_dir(path, tmp_path / "kept", tokenizer=folder, objective="preference", keep_tokens=True)
    for form in ("dpo", "reward"):
        options = {"objective": fastpack.Preference(form), "max_length": 50, "overlong": "truncate"}
        fastpack.repack(tmp_path / "kept", tmp_path / form, **options)
        assert (
            table_of(tmp_path / form).to_pylist() == fastpack.pack_files(path, folder, **options).to_pylist()
        )
    with pytest.raises(fastpack.OptionError, match="kept") as refused:
        fastpack.repack(tmp_path / "kept", tmp_path / "other", max_length=64)
    assert refused.value.option == "objective"


@pytest.mark.parametrize("objective", ["preference", "generation"])
def test_killed_at_work_it_resumes_to_the_same_rows(folder, tmp_path, objective):
    path = tmp_path / "pairs.jsonl"
    lines = [json.dumps(pairs_of_messages(number)) for number in range(2000)]
    path.write_text("\n".join(lines * 5), encoding="utf-8")
    kill_at_work(path, folder, tmp_path / "out", threads=1, objective=objective)
    again = start(path, folder, tmp_path / "out", objective=objective)
    said, wrong = again.communicate(timeout=300)
    assert said.startswith("rows 10000"), (said, wrong)
    wanted = fastpack.pack_files(path, folder, objective=objective, max_length=256)
    assert table_of(tmp_path / "out").to_pylist() == wanted.to_pylist()


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"prompt": "a", "chosen": "b"}, "`rejected`"),
        ({"prompt": "a", "chosen": "b", "rejected": 3}, "`rejected` must be a string"),
        ({"prompt": "a", "chosen": "b", "rejected": [user(1)]}, "`rejected` must be a string"),
        ({"chosen": [user(1)], "rejected": [user(2)]}, "give it as `prompt`"),
        ({"chosen": "the ", "rejected": "a town"}, "give the prompt as `prompt`"),
        ({"messages": [user(1)]}, "`chosen`"),
    ],
)
def test_a_record_that_is_no_pair_is_an_error_with_its_line_or_a_counted_skip(
    folder, write_jsonl, record, said
):
    good = pairs_of_messages(1) if isinstance(record.get("chosen"), list) else pairs_of_texts(1)
    path = write_jsonl([good, record])
    with pytest.raises(fastpack.RecordError) as refused:
        fastpack.pack_files(path, folder, objective="preference")
    assert "data.jsonl:2" in str(refused.value)
    assert said in str(refused.value)
    rows = fastpack.pack_files(path, folder, objective="preference", on_bad_record="skip", max_lost=1.0)
    assert rows.num_rows == 1
    report = fastpack.Report.of(rows)
    assert sum(count["documents"] for count in report.to_dict()["dropped"].values()) == 1
    balanced(report)


@pytest.mark.parametrize("label", ["good", 2, None])
def test_a_judgement_is_true_or_false(folder, label):
    with pytest.raises(fastpack.RecordError, match="label"):
        packed(folder, [{"prompt": "a", "completion": "b", "label": label}], form="kto")


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"train_on": "all"}, "train_on"),
        ({"strategy": "concat"}, "strategy"),
        ({"strategy": "mix"}, "strategy"),
        ({"strategy": "best_fit"}, "strategy"),
        ({"overlong": "split"}, "overlong"),
        ({"padding": 8}, "padding"),
        ({"columns": ["input_ids"]}, "columns"),
        ({"shape": "text"}, "shape"),
        ({"fields": {"messages": "said"}}, "fields"),
        ({"overlong": fastpack.Truncate(side="left")}, "truncation_side"),
    ],
)
def test_an_option_that_means_nothing_is_refused_before_any_work(folder, options, option):
    def none():
        yield pytest.fail("a record was read")

    with pytest.raises(fastpack.OptionError) as refused:
        packed(folder, none(), **nested(options, {"max_length": 64}))
    assert refused.value.option == place(option)
