"""Rows in the compact layout are those of the full layout, bit for bit, whatever they were packed with."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import rows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nested import flat, nested

import fastpack
from fastpack.dataset.folder import Folder

COLUMNS = [*rows.COLUMNS, "loss_weights"]


@st.composite
def documents(draw: st.DrawFn) -> pa.Table:
    """Documents of ids with labels and weights in runs of any kind."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    largest = draw(st.sampled_from([90, 65_535, 65_536, 2**31 - 1]))
    columns: dict[str, list[list[float]]] = {"input_ids": [], "labels": [], "loss_weights": []}
    lengths = draw(st.lists(st.integers(1, 40), max_size=25))
    # The first documents are kept whatever the options are, so that some can be set aside.
    for number, length in enumerate([4, 4, 4, *lengths]):
        ids = random.integers(0, largest, length, endpoint=True).tolist()
        trained = random.random(length) < (draw(st.sampled_from([0.1, 0.5, 1.0])) if number > 2 else 1)
        weights = random.choice([0.25, 1.0, 2.0], length)
        columns["input_ids"].append(ids)
        columns["labels"].append([token if each else -100 for token, each in zip(ids, trained, strict=True)])
        columns["loss_weights"].append(np.where(trained, weights, 0).tolist())
    types = {"loss_weights": pa.list_(pa.float32())}
    return pa.table({name: pa.array(lists, types.get(name)) for name, lists in columns.items()})


@st.composite
def options(draw: st.DrawFn) -> dict[str, object]:
    """Options that go together."""
    align = draw(st.sampled_from([None, None, 4, 16]))
    strategy = draw(st.sampled_from(["mix", "best_fit", "sequential", "concat", "none"]))
    pad_to = draw(st.sampled_from([None, "max_length", 16]))
    balanced = draw(st.booleans())
    chosen = draw(st.permutations(COLUMNS))[: draw(st.integers(0, len(COLUMNS) - 1))]
    columns = [*chosen, *(name for name in ["loss_weights"] if name not in chosen)]
    return {
        "max_length": 48,
        "strategy": strategy,
        "overlong": None if strategy == "concat" else draw(st.sampled_from(["drop", "truncate", "split"])),
        "align_documents_to": None if pad_to == 16 and align == 4 else align,
        "pad_to": pad_to,
        "padding_side": draw(st.sampled_from(["left", "right"])) if pad_to else "right",
        "pad_token_id": draw(st.sampled_from([0, 70_000])),
        "objective": fastpack.CausalLM(shift_labels=draw(st.booleans())),
        "columns": [*columns, *(["group"] if balanced else [])],
        "order": "balanced" if balanced else None,
        "balance_ranks": 2 if balanced else None,
        "shard_size": draw(st.sampled_from([400, "512MB"])),
        "validation": draw(st.sampled_from([None, 2])),
    }


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(documents(), options(), st.sampled_from(["arrow", "parquet"]))
def test_compact_rows_are_full_rows(tmp_path_factory, table, options, kind):
    folder = tmp_path_factory.mktemp("packed")
    tables = {}
    for layout in ("full", "compact"):
        output = folder / layout
        made = nested({**options, "layout": layout, "format": kind})
        fastpack.pack_table(table, output=output, progress=False, **made)
        tables[layout] = {split: fastpack.read(output, split=split) for split in Folder(output).splits}
        if {"input_ids", "seq_lengths"} <= set(options["columns"]):
            assert fastpack.verify(output).problems == ()
    assert tables["full"].keys() == tables["compact"].keys()
    for split, full in tables["full"].items():
        assert tables["compact"][split].schema.equals(full.schema)
        assert tables["compact"][split].equals(full)


@pytest.fixture
def folders(corpus, tokenizer_dir, tmp_path):
    """Packs the corpus in both layouts."""

    def packed(**options):
        for layout in ("full", "compact"):
            flat.pack_dir(
                corpus,
                tmp_path / layout,
                layout=layout,
                **{"tokenizer": tokenizer_dir, "max_length": 256, "progress": False, **options},
            )
        return tmp_path / "full", tmp_path / "compact"

    return packed


def stored_type(folder, name="input_ids"):
    return Folder(folder).read_stored("train").schema.field(name).type.value_type


def test_ids_take_16_bits_where_the_tokenizer_allows(folders):
    full, compact = folders(keep_tokens=True)
    assert stored_type(compact) == pa.uint16()
    again = compact.parent / "again"
    flat.repack(compact, again, max_length=64, layout="compact", progress=False)
    assert stored_type(again) == pa.uint16()
    flat.repack(full, compact.parent / "others", max_length=64, progress=False)
    assert fastpack.read(again).equals(fastpack.read(compact.parent / "others"))


def test_ids_take_32_bits_where_no_tokenizer_says_how_large_they_are(tmp_path):
    table = pa.table({"input_ids": [[1, 2, 3], [4, 5]]})
    flat.pack_table(table, max_length=8, output=tmp_path / "packed", layout="compact", progress=False)
    assert stored_type(tmp_path / "packed") == pa.uint32()


def test_a_padding_id_that_16_bits_do_not_hold_takes_32(folders):
    full, compact = folders(padding=fastpack.Padding("max_length", token_id=70_000))
    assert stored_type(compact) == pa.uint32()
    assert fastpack.read(full).equals(fastpack.read(compact))


def test_an_id_that_the_tokenizer_does_not_have_is_refused(tokenizer_dir, tmp_path):
    table = pa.table({"input_ids": [[1, 2, 3], [4, 70_000]]})
    with pytest.raises(
        fastpack.OptionError, match=r"`format.layout`: is \"compact\".* <table>:2 has the id 70000"
    ):
        flat.pack_table(
            table,
            tokenizer=tokenizer_dir,
            max_length=8,
            output=tmp_path / "packed",
            layout="compact",
            progress=False,
        )


def test_a_token_takes_about_two_bytes(folders):
    full, compact = folders(train_on="all", max_length=2048)
    tokens = sum(map(len, fastpack.read(full)["input_ids"].to_pylist()))
    sizes = [(folder / "train-00000.arrow").stat().st_size / tokens for folder in (full, compact)]
    assert sizes[0] > 12
    assert sizes[1] < 2.6  # the documents of the corpus are short: their lengths and runs are the rest


def test_an_output_for_each_input_is_compact_too(folders):
    full, compact = folders(per_file=True)
    assert stored_type(compact) == pa.uint16()
    assert fastpack.read(full).equals(fastpack.read(compact))


def test_columns_are_chosen_by_their_names_in_the_full_layout(folders):
    full, compact = folders()
    columns = ["position_ids", "labels"]
    assert fastpack.read(compact, columns=columns).equals(fastpack.read(full, columns=columns))
    with pytest.raises(
        fastpack.OptionError, match="no column `'label_spans'`; it has `input_ids`, `labels`, `position_ids`"
    ):
        fastpack.read(compact, columns=["label_spans"])


def test_a_row_is_shown_as_in_the_full_layout(folders, tokenizer_dir):
    for kind in ("arrow", "parquet"):
        shown = []
        for folder in folders(format=kind, overwrite=True):
            done = subprocess.run(
                [sys.executable, "-m", "fastpack", "inspect", f"train-00000.{kind}", "--row", "2"],
                capture_output=True,
                text=True,
                check=True,
                cwd=folder,
            )
            shown.append(done.stdout)
        assert shown[0] == shown[1]
        assert "document 1" in shown[0]


def test_exports_are_those_of_the_full_layout(folders, tmp_path):
    exports = []
    for folder in folders():
        fastpack.export(folder, tmp_path / f"{folder.name}-export", format="numpy")
        exports.append(dict(np.load(tmp_path / f"{folder.name}-export.npz")))
    assert all(np.array_equal(values, exports[1][name]) for name, values in exports[0].items())


@pytest.mark.parametrize(
    "given",
    [
        {"format": "jsonl"},
        {"format": "msgpack_arrays", "columns": ["input_ids", "labels", "position_ids"]},
        {"hf_layout": True},
    ],
)
def test_other_formats_are_refused(corpus, tokenizer_dir, tmp_path, given):
    with pytest.raises(fastpack.OptionError, match=r"invalid option `format.layout`: is \"compact\", "):
        flat.pack_dir(
            corpus, tmp_path / "out", tokenizer=tokenizer_dir, max_length=64, layout="compact", **given
        )
    assert not (tmp_path / "out").exists()


def test_a_table_in_memory_has_no_layout(corpus, tokenizer_dir):
    table = flat.pack_files(corpus, tokenizer_dir, max_length=64, progress=False)
    with pytest.raises(fastpack.OptionError, match=r"`format`: needs `output`"):
        flat.pack_table(table.select(["input_ids"]), max_length=64, layout="compact")


def test_another_layout_is_another_job(folders, corpus, tokenizer_dir):
    _, compact = folders()
    with pytest.raises(fastpack.OutputError, match=r"`format\.layout`"):
        flat.pack_dir(corpus, compact, tokenizer=tokenizer_dir, max_length=256, progress=False)


@pytest.mark.parametrize("shift", [False, True])
def test_compact_rows_are_no_documents(folders, tmp_path, shift):
    _, compact = folders(objective=fastpack.CausalLM(shift_labels=shift))
    for call in (
        lambda: flat.pack_files(compact / "train-00000.arrow", max_length=512, progress=False),
        lambda: flat.pack_table(Folder(compact).read_stored("train"), max_length=512, progress=False),
    ):
        with pytest.raises(fastpack.RecordError, match="a packed row in the compact layout"):
            call()


def spoilt(folder, tmp_path, **columns):
    """The rows of a folder as Parquet, with columns of other values."""
    table = Folder(folder).read_stored("train")
    for name, change in columns.items():
        lists = change(table[name].to_pylist())
        field = table.schema.field(name)
        table = table.set_column(table.column_names.index(name), field, pa.array(lists, field.type))
    (tmp_path / "spoilt").mkdir()
    pq.write_table(table, tmp_path / "spoilt" / "rows.parquet")
    return tmp_path / "spoilt"


@pytest.mark.parametrize(
    ("column", "change", "said"),
    [
        ("label_spans", lambda row: row[:-1], "row 1: column `label_spans` has a run without an end"),
        (
            "label_spans",
            lambda row: [*row[:-1], 100_000],
            "row 1: column `label_spans` has runs that overlap or leave the row",
        ),
        ("label_spans", lambda row: row[::-1], "row 1: column `label_spans` has runs that overlap"),
        ("label_spans", lambda row: [-2, *row[1:]], "row 1: column `label_spans` has runs that overlap"),
        ("label_weights", lambda row: row[1:], r"row 1: column `label_weights` has \d+ values for \d+ runs"),
        ("seq_lengths", lambda row: row[1:], r"row 1: column `seq_lengths` comes to \d+, but `input_ids`"),
        ("label_spans", lambda _: None, "column `label_spans` has nulls"),
    ],
)
def test_rows_that_contradict_themselves_are_named(folders, tmp_path, column, change, said):
    _, compact = folders(columns=["input_ids", "labels", "loss_weights"])
    spoil = {column: lambda rows: [rows[0], change(rows[1]), *rows[2:]]}
    folder = spoilt(compact, tmp_path, **spoil)
    with pytest.raises(fastpack.FastpackError, match=said):
        fastpack.read(folder)
    assert any(str(folder / "rows.parquet") in problem for problem in fastpack.verify(folder).problems)


def test_the_manifest_names_the_layout(folders):
    _, compact = folders()
    assert json.loads((compact / "manifest.json").read_bytes())["job"]["output"]["format.layout"] == "compact"
