"""The rules of packed rows: the core and plain Python find the same ones broken."""

from __future__ import annotations

import json
import random

import pyarrow as pa
import pytest
from campaign import tries
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fastpack
from fastpack._fastpack import check_rows, document_hashes, first_restart, row_boundaries, row_documents

COLUMNS = ["input_ids", "labels", "position_ids", "seq_lengths", "loss_weights", "document_ids"]


def packed(seed, *, shift, dropped):
    """Rows of random documents, without some columns."""
    chance = random.Random(seed)
    lengths = [chance.randint(1, 30) for _ in range(chance.randint(1, 12))]
    # A document of one token trains nothing, and without another there would be no row.
    ids = [[chance.randrange(90) for _ in range(length)] for length in [*lengths, 2]]
    table = fastpack.pack_table(
        pa.table({"input_ids": pa.array(ids, pa.list_(pa.int32()))}),
        max_length=40,
        columns=COLUMNS,
        objective=fastpack.CausalLM(shift_labels=shift),
        overlong="split",
        progress=False,
    )
    return table.drop_columns(dropped)


def spoilt(table, seed):
    """The rows with one value changed, added or taken away."""
    chance = random.Random(seed)
    name = chance.choice(table.column_names)
    rows = table[name].to_pylist()
    row = chance.choice(rows)
    at = chance.randrange(len(row))
    change = chance.choice(["set", "set", "set", "pop", "insert"])
    value = chance.choice([-3, -100, 0, 1, 5, row[at]])
    if change == "set":
        row[at] = value
    elif change == "pop":
        row.pop(at)
    else:
        row.insert(at, value)
    at = table.column_names.index(name)
    return table.set_column(at, name, pa.array(rows, table[name].type))


def broken(row, shift, most):
    """The columns with a broken rule in a row, by the description of the columns in `docs/topics/packing.md`."""
    ids, lengths = row["input_ids"], row.get("seq_lengths")
    found = set()
    if any(token < 0 for token in ids) or len(ids) > most:
        found.add("input_ids")
    uneven = {name for name in row if name not in {"input_ids", "seq_lengths"} and len(row[name]) != len(ids)}
    found |= uneven
    if lengths is None and "position_ids" not in row:
        return found | {"neither"}
    if lengths is not None and (min(lengths, default=1) < 1 or sum(lengths) != len(ids)):
        found.add("seq_lengths")
        if sum(lengths) != len(ids):
            return found
    if uneven:
        return found
    positions = row.get("position_ids")
    if positions and positions[0] != 0:
        return found | {"position_ids"}
    starts = (
        [sum(lengths[:at]) for at in range(len(lengths))]
        if lengths is not None
        else [at for at, position in enumerate(positions) if position == 0]
    )
    documents = [range(*ends) for ends in zip(starts, [*starts[1:], len(ids)], strict=True)]
    expected = [at - document.start for document in documents for at in document]
    if positions is not None and positions != expected:
        found.add("position_ids")
    return found | broken_labels(row, documents, shift)


def broken_labels(row, documents, shift):
    """The columns about labels with a broken rule in a row."""
    ids, labels, weights = row["input_ids"], row.get("labels"), row.get("loss_weights")
    if labels is None:
        return set()
    wrong = [
        labels[at] != -100
        and (
            at == (document[-1] if shift else document[0]) or [labels[at]] != ids[at + shift : at + shift + 1]
        )
        for document in documents
        for at in document
    ]
    unfit = [
        weight < 0 or (label == -100 and weight != 0)
        for weight, label in zip(weights or [], labels, strict=False)
    ]
    return {name for name, faults in (("labels", wrong), ("loss_weights", unfit)) if any(faults)}


@settings(max_examples=tries(60, 4000), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    st.integers(0, 2**32),
    st.booleans(),
    st.booleans(),
    st.lists(st.sampled_from(COLUMNS[1:]), max_size=2, unique=True),
)
def test_broken_rules_are_those_of_plain_python(seed, shift, spoil, dropped):
    table = packed(seed, shift=shift, dropped=dropped)
    table = spoilt(table, seed) if spoil else table
    options = json.dumps({"max_length": 40, "objective.shift_labels": shift})
    problems, counts = check_rows(table, options)
    expected = [broken(row, shift, 40) for row in table.to_pylist()]
    names = {name for found in expected for name in found}
    said = {what.split("`")[1] if not what.startswith("neither") else "neither" for _, what in problems}
    assert said == names
    for row, what in problems:
        name = "neither" if what.startswith("neither") else what.split("`")[1]
        assert name in expected[row]
        assert any(name in found for found in expected[row : row + 1])
    assert (counts is None) == ({"seq_lengths", "position_ids"} <= set(dropped))
    assert counts is None or counts[1] == sum(map(len, table["input_ids"].to_pylist()))
    # Rows are checked as a whole, wherever their batches end.
    cut = pa.Table.from_batches(
        [batch for at in range(0, len(table), 2) for batch in table.slice(at, 2).to_batches()]
    )
    assert check_rows(cut, options) == (problems, counts)


@settings(max_examples=tries(40, 4000), deadline=None)
@given(st.lists(st.lists(st.integers(0, 9), max_size=6), min_size=1, max_size=4), st.booleans())
def test_boundaries_are_those_of_plain_python(rows, padded):
    import numpy as np

    width = max(map(sum, rows)) + 2 if padded else None
    lists = (
        [[*row, width - sum(row)] for row in rows] if padded else [[length for row in rows for length in row]]
    )
    arrays = [np.array(row, np.int64) for row in rows]
    positions, starts, ends, longest, numbers = row_boundaries(arrays, width, numbers=True)
    assert positions.tolist() == [at for row in lists for length in row for at in range(length)]
    assert numbers.tolist() == [n for row in lists for n, length in enumerate(row) for _ in range(length)]
    assert starts.tolist() == [
        at for at, position in enumerate(positions.tolist()) if position == 0 or at % (width or 1 << 60) == 0
    ]
    lengths = [length for row in lists for length in row if length]
    assert ends.tolist() == np.cumsum([0, *lengths]).tolist()
    assert longest == max(lengths, default=0)


def test_documents_are_found_by_lengths_or_else_by_positions():
    table = packed(3, shift=False, dropped=[])
    found = [row_documents(each, "{}") for each in (table, table.drop_columns(["seq_lengths"]))]
    lengths = table["seq_lengths"].to_pylist()
    assert found[0].lengths.tolist() == [length for row in lengths for length in row]
    assert found[0].rows.tolist() == [number for number, row in enumerate(lengths) for _ in row]
    labels = [[label != -100 for label in row] for row in table["labels"].to_pylist()]
    at = zip(found[0].rows, found[0].starts, found[0].lengths, strict=True)
    assert found[0].labels.tolist() == [sum(labels[row][start : start + length]) for row, start, length in at]
    for name in ("rows", "numbers", "starts", "lengths", "labels"):
        assert getattr(found[0], name).tolist() == getattr(found[1], name).tolist()
    assert first_restart(table.select(["position_ids"])) == next(
        number for number, row in enumerate(lengths) if len(row) > 1
    )
    assert first_restart(pa.table({"position_ids": [[0, 1], [0]]})) is None


def test_a_hash_of_a_document_depends_on_its_tokens_and_labels_alone():
    table = packed(5, shift=False, dropped=[])
    wide = table.cast(
        pa.schema(
            [
                pa.field(
                    field.name, pa.list_(pa.int64()) if field.name in {"input_ids", "labels"} else field.type
                )
                for field in table.schema
            ]
        )
    )
    hashes = document_hashes(table)
    assert hashes == document_hashes(wide) == document_hashes(table.drop_columns(["seq_lengths"]))
    assert len(set(hashes)) == len(hashes) == sum(map(len, table["seq_lengths"].to_pylist()))
    assert set(hashes).isdisjoint(document_hashes(table.drop_columns(["labels"])))


@pytest.mark.parametrize("size", [pa.list_, pa.large_list])
def test_lists_of_every_width_are_read(size):
    rows = [[5, 6, 7], [8, 9]]
    table = pa.table(
        {
            "input_ids": pa.array(rows, size(pa.uint16())),
            "seq_lengths": pa.array([[3], [1, 1]], size(pa.int64())),
        }
    )
    assert check_rows(table, "{}") == ([], (3, 5))
