"""Aligned documents, padding at either end, shifted labels, and the columns that say where things are."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nested import nested, place
from rows import COLUMNS, STRATEGIES, balanced, documents

import fastpack


def row_oracle(lengths, pieces, *, align, filling, side, shift):
    """A row written out: `pieces` are the numbers of its documents, `filling` the tokens that fill it up."""
    row = {name: [] for name in COLUMNS}
    cost = 0
    segments = [(number, document) for number, document in enumerate(pieces, start=1)]
    if filling:
        segments.insert(0 if side == "left" else len(segments), (0, None))
    for number, document in segments:
        ids = [] if document is None else [1000 * document + 1 + at for at in range(lengths[document])]
        room = filling if document is None else -(-len(ids) // align) * align
        labels = [-100, *ids[1:]] if ids else []
        if shift and ids:
            labels = [*labels[1:], -100]
        padding = room - len(ids)
        row["input_ids"] += [*ids, *[7] * padding]
        row["labels"] += [*labels, *[-100] * padding]
        row["position_ids"] += range(room)
        row["seq_lengths"].append(room)
        row["document_ids"] += [*[number] * len(ids), *[0] * padding]
        row["unpadded_lengths"].append(len(ids))
        row["source_file"].append(-1 if document is None else 0)
        row["source_row"].append(-1 if document is None else document + 1)
        row["source_turn"].append(-1 if document is None else 0)
        row["source_start"].append(-1 if document is None else 0)
        cost += 0 if document is None else room**2
    return {**row, "attn_cost": cost}


@given(
    lengths=st.lists(st.integers(2, 24), min_size=1, max_size=12),
    align=st.sampled_from([None, 1, 2, 4, 8]),
    pad_to=st.sampled_from([None, "max_length", 8, 24]),
    side=st.sampled_from(["left", "right"]),
    shift=st.booleans(),
)
def test_every_column_is_what_the_row_says(lengths, align, pad_to, side, shift):
    side = side if pad_to else "right"
    table = fastpack.pack_table(
        documents(*lengths),
        max_length=24,
        strategy=fastpack.Sequential(align_to=align),
        padding=fastpack.Padding(pad_to, side=side, token_id=7),
        objective=fastpack.CausalLM(shift_labels=shift),
        columns=COLUMNS,
    )
    align = align or 1
    rows, room = [[]], 0
    for document, length in enumerate(lengths):
        taken = -(-length // align) * align
        if room + taken > 24:
            rows.append([])
            room = 0
        rows[-1].append(document)
        room += taken
    multiple = {None: 1, "max_length": 24}.get(pad_to, pad_to)
    expected = []
    for row in rows:
        taken = sum(-(-lengths[document] // align) * align for document in row)
        filling = -taken % multiple
        expected.append(row_oracle(lengths, row, align=align, filling=filling, side=side, shift=shift))
    assert table.to_pylist() == expected
    report = fastpack.Report.of(table)
    assert balanced(report)
    assert report.tokens.kept == sum(lengths)
    assert report.fill == pytest.approx(sum(lengths) / (len(rows) * 24), abs=1e-6)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=40), align=st.sampled_from([2, 4, 16]))
def test_no_row_is_longer_than_it_may_be_however_documents_are_aligned(strategy, lengths, align):
    made = fastpack.plan(
        lengths, max_length=48, **nested({"strategy": strategy, "align_documents_to": align})
    )
    room = -(-made.lengths // align) * align
    for start, end in zip(made.offsets, made.offsets[1:], strict=False):
        assert room[start:end].sum() <= 48
    assert made.tokens == sum(lengths)
    assert made.lower_bound <= len(made)
    assert made.lower_bound >= -(-int(room.sum()) // 48)


def test_streams_align_as_tables_do(write_jsonl, tokenizer_dir):
    path = write_jsonl([{"text": " ".join(["word"] * (1 + at * 53 % 200))} for at in range(30)])
    options = {
        "max_length": 64,
        "strategy": fastpack.Sequential(align_to=8),
        "padding": fastpack.Padding("max_length", side="left"),
        "objective": fastpack.CausalLM(shift_labels=True),
        "columns": [*COLUMNS],
    }
    table = fastpack.pack_files(path, tokenizer_dir, **options)
    stream = fastpack.stream(path, tokenizer_dir, **options, shuffle=False, ranks=fastpack.Ranks(lanes=1))
    assert pa.concat_tables(stream).to_pylist() == table.to_pylist()
    for row in table.to_pylist():
        assert len(row["input_ids"]) == 64
        assert all(length % 8 == 0 for length in row["seq_lengths"])


def test_cu_seqlens_of_transformer_engine_follow_from_the_columns():
    columns = ["seq_lengths", "unpadded_lengths"]
    table = fastpack.pack_table(
        documents(5, 3, 9),
        max_length=32,
        strategy=fastpack.Sequential(align_to=8),
        padding=fastpack.Padding(token_id=0),
        columns=columns,
    )
    row = table.to_pylist()[0]
    assert row == {"seq_lengths": [8, 8, 16], "unpadded_lengths": [5, 3, 9]}


def test_sources_are_numbers_that_the_report_explains(write_jsonl, tokenizer_dir):
    paths = [
        write_jsonl([{"text": f"a river {name}"}, {"text": "town"}], name)
        for name in ("a.jsonl", "b/a.jsonl")
    ]
    table = fastpack.pack_files(
        paths,
        tokenizer_dir,
        max_length=64,
        strategy="none",
        columns=["input_ids", "source_file", "source_row"],
    )
    assert table["source_file"].to_pylist() == [[0], [0], [1], [1]]
    assert table["source_row"].to_pylist() == [[1], [2], [1], [2]]
    report = fastpack.Report.of(table)
    assert report.sources == [str(path) for path in paths]
    unnamed = fastpack.Report.of(fastpack.pack_files(paths, tokenizer_dir, max_length=64))
    assert unnamed.sources == []


def test_a_document_begins_and_ends_with_one_token_for_it(write_jsonl, tmp_path, tokenizer_dir):
    import json
    import shutil

    folder = tmp_path / "with-bos"
    shutil.copytree(tokenizer_dir, folder)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "bos_token": "<|start|>"}))
    records = [
        {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]},
    ]
    texts = [{"text": "a river"}, {"text": "<|start|>a town"}, {"text": "a boat<|endoftext|>"}]
    paths = [write_jsonl(records, "chat.jsonl"), write_jsonl(texts, "texts.jsonl")]
    options = {"max_length": 64, "strategy": "none"}
    plain = fastpack.pack_files(paths, folder, **options).to_pylist()
    made = fastpack.pack_files(
        paths, folder, **options, special_tokens=fastpack.SpecialTokens(eos=True, bos=True)
    ).to_pylist()
    for before, after in zip(plain, made, strict=True):
        ids = before["input_ids"]
        ids = ids if ids[0] == 1 else [1, *ids]
        assert after["input_ids"] == (ids if ids[-1] == 0 else [*ids, 0])
        assert after["labels"][0] == -100
    # The first text had none of the two, so its labels moved by one place.
    assert made[1]["labels"][2:-1] == plain[1]["labels"][1:-1]
    assert made[1]["labels"][1] == plain[1]["input_ids"][0]
    with pytest.raises(fastpack.OptionError, match="bos"):
        fastpack.pack_files(paths, tokenizer_dir, **options, special_tokens=fastpack.SpecialTokens(bos=True))


def test_ids_that_are_there_already_get_a_first_token_too(write_jsonl, tmp_path, tokenizer_dir):
    import json
    import shutil

    folder = tmp_path / "with-bos"
    shutil.copytree(tokenizer_dir, folder)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "bos_token": "<|start|>"}))
    path = write_jsonl([{"input_ids": [5, 6, 7], "labels": [-100, 6, 7]}, {"input_ids": [1, 6, 7]}])
    rows = fastpack.pack_files(
        path, folder, max_length=8, strategy="none", special_tokens=fastpack.SpecialTokens(bos=True)
    ).to_pylist()
    assert [row["input_ids"] for row in rows] == [[1, 5, 6, 7], [1, 6, 7]]
    assert rows[0]["labels"] == [-100, -100, 6, 7]


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"align_documents_to": 3}, "strategy.align_to"),
        ({"align_documents_to": 0}, "strategy.align_to"),
        ({"align_documents_to": 4}, "strategy.align_to"),
        ({"align_documents_to": 4, "pad_to": 2, "pad_token_id": 1}, "padding.to"),
        ({"padding_side": "left"}, "padding.side"),
        ({"padding_side": "top", "pad_to": 2, "pad_token_id": 1}, "padding.side"),
        ({"shift_labels": 1, "objective": "causal"}, "objective.shift_labels"),
        ({"columns": ["input_ids", "group"]}, "columns"),
        ({"columns": ["document_id"]}, "columns"),
    ],
)
def test_constraints_that_cannot_hold_are_refused_by_name(options, option):
    with pytest.raises(fastpack.OptionError) as caught:
        fastpack.pack_table(documents(3), max_length=8, **nested(options))
    assert caught.value.option == place(option)
