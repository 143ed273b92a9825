"""`fastpack verify`: the faults of a packed folder are named by file, row and column."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sealing import seal_again

import fastpack
from fastpack.dataset import verification

WEIGHTED = ["input_ids", "labels", "position_ids", "seq_lengths", "document_ids", "loss_weights"]

OWN_TEMPLATE = "{% for message in messages %}{{ message['role'] }}: {{ message['content'] | upper if shout else message['content'] }}\n{% endfor %}"


@pytest.fixture
def pack(corpus, tokenizer_dir, tmp_path):
    """Packs the corpus into a folder."""

    def packed(**options):
        folder = tmp_path / "packed"
        options = {"tokenizer": tokenizer_dir, "max_length": 256, "progress": False, **options}
        fastpack.pack_dir(corpus, folder, **options)
        return folder

    return packed


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"format": "parquet", "padding": "max_length"},
        {"format": "jsonl", "strategy": fastpack.BestFit(align_to=16)},
        {"format": fastpack.Format(shard_size=20_000, hf_layout=True), "validation": 10},
        {"objective": fastpack.CausalLM(shift_labels=True), "strategy": "sequential"},
        {"overlong": "truncate", "max_length": 32},
        {"overlong": "split", "max_length": 32, "train_on": "all", "columns": WEIGHTED},
        {"order": fastpack.Balanced(4), "padding": "max_length", "columns": WEIGHTED},
        {"turns": "last", "columns": ["input_ids", "labels", "position_ids"]},
        {"columns": ["input_ids", "seq_lengths"]},
        {"special_tokens": fastpack.SpecialTokens(eos=True)},
        {"special_tokens": fastpack.SpecialTokens(eos=False)},
        {"chat_template": OWN_TEMPLATE, "train_on": "all"},
        {"chat_template": fastpack.ChatTemplate(OWN_TEMPLATE, variables={"shout": True}), "train_on": "all"},
        {"chat_template": fastpack.ChatTemplate(engine="python")},
        {"strategy": "none", "max_length": None},
        {
            "objective": fastpack.CausalLM(shift_labels=True),
            "special_tokens": fastpack.SpecialTokens(eos=True),
            "overlong": "split",
            "max_length": 32,
        },
    ],
)
def test_what_pack_dir_writes_is_well(pack, options):
    folder = pack(**options)
    found = fastpack.verify(folder)
    assert found.problems == ()
    assert found.notes == ()
    assert found.rows == fastpack.Report.from_json((folder / "report.json").read_bytes()).rows
    assert found.made_again > 30
    assert str(found).endswith("all is well")


def test_rows_of_concat_are_checked_and_their_tokens_are_not(pack):
    found = fastpack.verify(pack(strategy="concat"))
    assert found.problems == ()
    assert found.made_again == 0
    assert 'not compared: strategy="concat" cuts documents' in str(found)


def test_a_sample_of_none_makes_nothing_again(pack):
    found = fastpack.verify(pack(), sample=0)
    assert (found.problems, found.made_again) == ((), 0)


def test_a_byte_that_changed_is_noticed(pack):
    folder = pack()
    shard = folder / "train-00000.arrow"
    spoilt = bytearray(shard.read_bytes())
    spoilt[len(spoilt) // 2] ^= 1
    shard.write_bytes(spoilt)
    assert "has another hash than the manifest says" in fastpack.verify(folder).problems[0]
    shard.write_bytes(spoilt[:-8])
    assert "bytes by the manifest" not in fastpack.verify(folder).problems[0]
    assert (
        f"{shard}: has {len(spoilt) - 8:,} bytes, but {len(spoilt):,}" in fastpack.verify(folder).problems[0]
    )


@pytest.mark.parametrize("level", ["schema", "field"])
def test_metadata_that_is_no_text_is_named(pack, level):
    folder = pack(format="parquet")
    shard = folder / "train-00000.parquet"
    table = pq.read_table(shard)
    spoilt = {b"key": b"\x93"}
    if level == "schema":
        table = table.replace_schema_metadata(spoilt)
    else:
        fields = [field.with_metadata(spoilt) for field in table.schema]
        table = pa.Table.from_arrays(table.columns, schema=pa.schema(fields))
    pq.write_table(table, shard)
    listed = fastpack.verify(folder).problems
    assert all(problem.startswith(str(shard)) for problem in listed)
    assert "cannot be read as parquet: 'utf-8' codec can't decode byte 0x93" in listed[-1]
    (folder / "manifest.json").unlink()
    with pytest.raises(fastpack.FastpackError, match="parquet cannot be read as parquet"):
        fastpack.read(folder)


def test_a_file_that_is_missing_is_named(pack):
    folder = pack(format=fastpack.Format(shard_size=20_000))
    (folder / "train-00001.arrow").unlink()
    problems = fastpack.verify(folder).problems
    assert problems[0].startswith(f"{folder / 'train-00001.arrow'}: the manifest lists this file")


def test_an_input_that_changed_or_went_is_named(pack, corpus):
    folder = pack()
    os.utime(corpus, ns=(1, 1))
    assert fastpack.verify(folder).problems == (f"the input {corpus} has changed since it was packed",)
    corpus.unlink()
    found = fastpack.verify(folder)
    assert found.problems == (f"the input {corpus} is not there any more",)
    assert found.notes == ("none of the recorded inputs is there as it was",)


def test_an_input_from_before_1970_is_made_again(tokenizer_dir, tmp_path):
    (tmp_path / "old.jsonl").write_text('{"text": "the river"}\n')
    os.utime(tmp_path / "old.jsonl", ns=(-(10**18), -(10**18)))
    fastpack.pack_dir(
        tmp_path / "old.jsonl", tmp_path / "packed", tokenizer=tokenizer_dir, max_length=64, progress=False
    )
    found = fastpack.verify(tmp_path / "packed", tokenizer=tokenizer_dir)
    assert (found.problems, found.made_again) == ((), 1)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_an_input_whose_name_is_no_unicode_is_noted(tokenizer_dir, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / os.fsdecode(b"caf\xe9.jsonl")).write_text('{"text": "the river"}\n')
    fastpack.pack_dir(
        tmp_path / "in", tmp_path / "packed", tokenizer=tokenizer_dir, max_length=64, progress=False
    )
    found = fastpack.verify(tmp_path / "packed", tokenizer=tokenizer_dir)
    assert (found.problems, found.made_again) == ((), 0)
    assert found.notes[0] == f"the input {tmp_path}/in/caf\ufffd.jsonl, whose name is no UTF-8"


def test_another_tokenizer_is_noticed(pack, bare_tokenizer_dir, tokenizer_dir, tmp_path):
    folder = pack()
    other = tmp_path / "other"
    shutil.copytree(tokenizer_dir, other)
    template = (other / "chat_template.jinja").read_text()
    (other / "chat_template.jinja").write_text(template.replace("<|start|>", "<|start|> "))
    assert fastpack.verify(folder, tokenizer=other).problems == (
        "the chat template given is not the one that the rows were packed with",
    )


def with_tokens_of_another_run(folder):
    """The rows of a folder whose manifest and hashes fit, but whose third token is another."""
    table = fastpack.read(folder)
    columns = {name: table[name].to_pylist() for name in table.column_names}
    row = next(row for row, labels in enumerate(columns["labels"]) if labels[2] == -100)
    columns["input_ids"][row][2] += 1
    return pa.table({name: pa.array(values, table[name].type) for name, values in columns.items()})


def test_tokens_that_are_made_otherwise_today_are_noticed(pack):
    folder = pack(format="parquet")
    pq.write_table(with_tokens_of_another_run(folder), folder / "train-00000.parquet")
    seal_again(folder)
    found = fastpack.verify(folder, sample=1000)
    assert len(found.problems) == 1
    assert "no row has document" in found.problems[0]


def spoilt(column, change):
    """A change of one column of a table of rows."""

    def spoil(table):
        values = table[column].to_pylist()
        change(values)
        at = table.column_names.index(column)
        return table.set_column(at, column, pa.array(values, table[column].type))

    return spoil


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda table: table.drop_columns("input_ids"), "no column `input_ids`, only `labels`, "),
        (
            lambda table: table.drop_columns(["seq_lengths", "position_ids"]),
            "row 0: neither `seq_lengths` nor `position_ids` says",
        ),
        (
            spoilt("labels", lambda rows: rows[2].pop()),
            r"row 2: column `labels` has 255 values, but `input_ids` 256",
        ),
        (
            spoilt("input_ids", lambda rows: rows[1].__setitem__(4, -3)),
            "row 1: column `input_ids` has the token -3",
        ),
        (
            spoilt("seq_lengths", lambda rows: rows[3].__setitem__(0, rows[3][0] + 1)),
            "row 3: column `seq_lengths` comes to 257, but `input_ids` has 256 tokens",
        ),
        (
            spoilt("seq_lengths", lambda rows: rows[0].__setitem__(slice(2), [sum(rows[0][:2])])),
            "row 0: column `position_ids` does not restart where `seq_lengths` says",
        ),
        (
            spoilt("seq_lengths", lambda rows: rows[1].append(0)),
            "row 1: column `seq_lengths` has 0, which is no length",
        ),
        (
            spoilt("position_ids", lambda rows: rows[2].__setitem__(1, 7)),
            "row 2: column `position_ids` does not restart where",
        ),
        (
            spoilt("position_ids", lambda rows: rows[2].__setitem__(0, 1)),
            "row 2: column `position_ids` begins at 1, not at 0",
        ),
        (
            spoilt("labels", lambda rows: rows[1].__setitem__(0, 5)),
            "row 1: column `labels` has 5 at the first token of a document, where -100 belongs",
        ),
        (
            spoilt("labels", lambda rows: rows[1].__setitem__(3, 399)),
            r"row 1: column `labels` has 399 where the token is \d+, and not -100",
        ),
        (
            spoilt("loss_weights", lambda rows: rows[0].__setitem__(0, 0.5)),
            "row 0: column `loss_weights` has 0.5 for the label -100",
        ),
        (
            spoilt("loss_weights", lambda rows: rows[0].__setitem__(0, float("nan"))),
            "row 0: column `loss_weights` has nan",
        ),
        (
            lambda table: table.set_column(1, "labels", pa.array(["a"] * len(table))),
            "column `labels` is string, which packed rows have as lists of numbers",
        ),
        (
            lambda table: pa.table(
                {
                    **dict(zip(table.column_names, table, strict=True)),
                    "input_ids": [*table["input_ids"].to_pylist()[:-1], None],
                }
            ),
            "column `input_ids` is list<.*>, which .* without nulls",
        ),
    ],
)
def test_rows_that_are_broken_are_named_by_file_row_and_column(pack, tmp_path, spoil, said):
    table = fastpack.read(pack(padding="max_length", columns=WEIGHTED))
    (tmp_path / "others").mkdir()
    path = tmp_path / "others" / "rows.parquet"
    pq.write_table(spoil(table), path)
    found = fastpack.verify(tmp_path / "others")
    assert any(re.search(said, problem) for problem in found.problems), found.problems
    assert all(str(path) in problem for problem in found.problems)


def test_a_row_longer_than_max_length_is_named(pack):
    folder = pack(format="parquet")
    table = fastpack.read(folder)
    longer = pa.concat_tables([table.slice(0, 1), table])
    merged = {
        name: [first + second]
        for name, (first, second, *_) in zip(
            table.column_names, (column.to_pylist() for column in longer), strict=True
        )
    }
    pq.write_table(pa.table(merged).cast(table.schema), folder / "train-00000.parquet")
    seal_again(folder)
    assert "column `input_ids` has more than 256 tokens, the `max_length` of these rows" in str(
        fastpack.verify(folder)
    )


def test_shards_with_different_columns_are_named(pack, tmp_path):
    table = fastpack.read(pack())
    (tmp_path / "others").mkdir()
    pq.write_table(table, tmp_path / "others" / "a.parquet")
    pq.write_table(table.drop_columns("labels"), tmp_path / "others" / "b.parquet")
    problems = fastpack.verify(tmp_path / "others").problems
    assert len(problems) == 1
    assert "b.parquet: column `labels` is missing, but list" in problems[0]


def test_what_trl_packs_is_read(corpus, tokenizer_dir, tmp_path, trl_data_utils):
    single = fastpack.pack_files(corpus, tokenizer_dir, max_length=256, strategy="none", progress=False)
    rows = trl_data_utils._pack_bfd(
        pa.table({"input_ids": single["input_ids"], "labels": single["labels"]}), 256
    )
    (tmp_path / "trl").mkdir()
    pq.write_table(rows, tmp_path / "trl" / "rows.parquet")
    found = fastpack.verify(tmp_path / "trl")
    assert found.problems == ()
    assert found.documents == single.num_rows
    assert "no manifest.json" in found.notes[0]


def test_rows_with_positions_alone_are_read(pack, tmp_path):
    table = fastpack.read(pack())
    (tmp_path / "positions").mkdir()
    pq.write_table(table.drop_columns("seq_lengths"), tmp_path / "positions" / "rows.parquet")
    found = fastpack.verify(tmp_path / "positions")
    assert found.problems == ()
    assert found.documents == sum(map(len, table["seq_lengths"].to_pylist()))


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "fastpack", "verify", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_the_command_exits_with_0_where_all_is_well_and_1_otherwise(pack, tokenizer_dir):
    folder = pack()
    well = run(folder, "-t", tokenizer_dir, "--sample", "20")
    assert (well.returncode, well.stderr) == (0, "")
    assert well.stdout.endswith("all is well\n")
    (folder / "train-00000.arrow").unlink()
    broken = run(folder)
    assert broken.returncode == 1
    assert "wrong: " in broken.stdout
    assert broken.stderr == f"fastpack: {folder}: 1 problem, listed above\n"
    nowhere = run(folder / "nowhere")
    assert nowhere.returncode == 1
    assert nowhere.stderr == f"fastpack: {folder / 'nowhere'}: no such folder of packed rows\n"


def test_ids_need_no_tokenizer(tmp_path):
    ids = np.random.default_rng(0).integers(3, 90, (40, 20)).tolist()
    pq.write_table(pa.table({"input_ids": ids}), tmp_path / "ids.parquet")
    fastpack.pack_dir(tmp_path / "ids.parquet", tmp_path / "packed", max_length=64, progress=False)
    found = fastpack.verify(tmp_path / "packed", sample=40)
    assert (found.problems, found.made_again) == ((), 40)


def test_a_folder_without_a_recipe_is_noted(pack):
    folder = pack()
    seal_again(folder, lambda manifest: manifest.pop("recipe"))
    found = fastpack.verify(folder)
    assert (found.problems, found.made_again) == ((), 0)
    assert "does not say how the folder was packed" in found.notes[0]


def test_an_option_that_no_recipe_holds_is_noted(pack):
    folder = pack(chat_template=fastpack.ChatTemplate(variables={"shout": True}))
    unheld = {"unheld": {"chat_template": "a Template"}}
    seal_again(folder, lambda manifest: manifest["recipe"].update(unheld))
    found = fastpack.verify(folder)
    assert (found.problems, found.made_again) == ((), 0)
    assert "`chat_template` was a Template, which no manifest holds" in found.notes[0]


@pytest.mark.parametrize(
    "options",
    [
        {"reading": fastpack.Reading(prompt="alpaca")},
        {"reading": fastpack.Reading(prompt="vicuna", examples=[("One?", "Two.")])},
        {"reading": fastpack.Reading(prompt="Q: {instruction}\nA: {output}")},
        {
            "reading": fastpack.Reading(
                fields={"question": "instruction", "answer": "output"}, prompt="wizardmath-cot"
            )
        },
    ],
)
def test_inputs_with_a_prompt_are_made_again(options, write_jsonl, tokenizer_dir, tmp_path):
    asked = write_jsonl([{"instruction": f"Which {at}?", "output": f"That {at}."} for at in range(9)])
    folder = tmp_path / "packed"
    fastpack.pack_dir(asked, folder, tokenizer=tokenizer_dir, max_length=256, progress=False, **options)
    found = fastpack.verify(folder)
    assert (found.problems, found.notes, found.made_again) == ((), (), 9)


def test_each_source_is_made_again_by_its_own_prompt(write_jsonl, tokenizer_dir, tmp_path):
    asked = [{"instruction": f"Which {at}?", "output": f"That {at}."} for at in range(9)]
    one, other = write_jsonl(asked, "one.jsonl"), write_jsonl(asked, "other.jsonl")
    folder = tmp_path / "packed"
    fastpack.pack_dir(
        files=[{"path": one, "prompt": "vicuna"}, {"path": other}],
        output=folder,
        tokenizer=tokenizer_dir,
        reading=fastpack.Reading(prompt="alpaca"),
        max_length=256,
        progress=False,
    )
    found = fastpack.verify(folder)
    assert (found.problems, found.notes, found.made_again) == ((), (), 18)


def test_a_verification_with_problems_is_false_and_raises_the_first(pack):
    folder = pack(format=fastpack.Format(shard_size=20_000))
    found = fastpack.verify(folder, sample=0)
    assert found.ok
    assert found
    found.raise_for_problems()
    shards = sorted(folder.glob("*.arrow"))
    assert len(shards) > 2
    for number, more in enumerate(["", " (and 1 more)", " (and 2 more)"]):
        shards[number].unlink()
        wrong = fastpack.verify(folder, sample=0)
        assert not wrong.ok
        assert not wrong
        with pytest.raises(fastpack.FastpackError) as refused:
            wrong.raise_for_problems()
        assert str(refused.value) == f"{folder}: {wrong.problems[0]}{more}"


CHANGE_NO_DOCUMENT = {
    "where rows go, and how they are stored": {"output", "format", "keep_tokens", "exists", "cache_dir"},
    "which documents are packed, and which are set aside": {
        "validation",
        "weights",
        "max_lost",
        "on_bad_record",
    },
    "how documents become rows": {"max_length", "order", "seed", "columns"},
    "how the work is done": {"groups", "memory", "threads", "verify", "progress"},
    "given to `verify` itself": {"tokenizer", "filter", "map", "storage"},
}
"""The options that change no token and no label of a document, or that `verify` takes for itself."""


def test_each_option_is_known_to_decide_the_documents_or_not():
    """An option that is new is compared by `verify`, or is listed above."""
    compared = {*verification._SAME, *verification._IN_PART, *verification._OF_SOURCES}
    others = set().union(*CHANGE_NO_DOCUMENT.values())
    assert not compared & others
    assert compared | others == inspect.signature(fastpack.pack_dir).parameters.keys()
