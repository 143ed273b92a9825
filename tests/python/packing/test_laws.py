"""Laws that hold for every strategy, constraint, order and length, however hostile."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from nested import flat, nested
from rows import STRATEGIES, balanced

import fastpack

GIANT = 2**31 - 1


@st.composite
def jobs(draw: st.DrawFn) -> tuple[list[int], dict[str, object]]:
    """Lengths that packers trip over, and options that go together."""
    align = draw(st.sampled_from([None, 1, 2, 8]))
    max_length = (align or 1) * draw(st.sampled_from([1, 2, 3, 8, 64, 65]))
    strategy = draw(st.sampled_from(STRATEGIES))
    overlong = (
        None if strategy == "concat" else draw(st.sampled_from([None, "drop", "truncate", "trim", "split"]))
    )
    kinds = [1, 2, max(1, max_length // 2), max_length // 2 + 1, max(1, max_length - 1), max_length]
    kinds += [max_length + 1, 3 * max_length]
    kinds += [] if strategy == "concat" or overlong == "split" else [GIANT]
    one_kind = st.sampled_from(kinds).flatmap(lambda kind: st.lists(st.just(kind), max_size=60))
    lengths = draw(st.lists(st.sampled_from(kinds), max_size=60) | one_kind)
    ranks = draw(st.none() | st.integers(1, 5))
    order = "balanced" if ranks else draw(st.sampled_from([None, "input", "shuffle"]))
    return lengths, {
        "max_length": max_length,
        "strategy": strategy,
        "overlong": overlong,
        "truncation_side": draw(st.sampled_from(["left", "right"])) if overlong == "truncate" else "right",
        "drop_last": strategy == "concat" and draw(st.booleans()),
        "max_documents_per_pack": draw(st.none() | st.integers(1, 4)),
        "align_documents_to": align,
        "order": order,
        "balance_ranks": ranks,
        "on_remainder": draw(st.sampled_from(["pad", "drop", "repeat"])),
        "seed": draw(st.integers(0, 3)),
    }


def rooms(lengths: list[int], align: object) -> list[int]:
    return [-(-length // (align or 1)) * (align or 1) for length in lengths]


@settings(max_examples=400)
@given(jobs())
def test_every_kept_token_is_in_one_row_and_rows_hold_what_they_may(job):
    lengths, options = job
    made = fastpack.plan(lengths, **nested(options))
    pieces = list(zip(made.members.tolist(), made.starts.tolist(), made.lengths.tolist(), strict=True))
    rows = [pieces[start:end] for start, end in zip(made.offsets, made.offsets[1:], strict=False)]
    most = options["max_documents_per_pack"] or len(pieces)
    for row in rows:
        assert (
            sum(rooms([length for *_, length in row], options["align_documents_to"])) <= options["max_length"]
        )
        assert len(row) <= most
    kept = set()
    for row in {tuple(row) for row in rows if row}:  # a row that is repeated is there once more, as it is
        for document, start, length in row:
            stretch = {(document, token) for token in range(start, min(start + length, start + 4096))}
            assert not kept & stretch
            kept |= stretch
    assert made.tokens == len(kept)
    stretches = reference.stretches(
        lengths, options["max_length"], options["strategy"], options["overlong"], options["truncation_side"]
    )
    wanted = {(document, token) for document, start, end in stretches for token in range(start, end)}
    assert kept <= wanted
    if not options["drop_last"] and not (options["balance_ranks"] and options["on_remainder"] == "drop"):
        assert kept == wanted
    packed = {document for document, _ in kept}
    assert made.dropped.tolist() == sorted(set(range(len(lengths))) - packed)
    assert len(made) % (options["balance_ranks"] or 1) == 0


@settings(max_examples=200)
@given(jobs())
def test_mix_needs_no_more_rows_than_first_fit_decreasing(job):
    lengths, options = job
    options = {**options, "strategy": "mix", "drop_last": False, "order": "input", "balance_ranks": None}
    cut = reference.stretches(
        lengths, options["max_length"], "mix", options["overlong"], options["truncation_side"]
    )
    pieces = [
        min(end, at + options["max_length"]) - at
        for _, start, end in cut
        for at in range(start, end, options["max_length"])
    ]
    made = fastpack.plan(lengths, **nested(options))
    taken = rooms(pieces, options["align_documents_to"])
    bound = reference.first_fit(taken, options["max_length"], options["max_documents_per_pack"])
    assert made.lower_bound <= len(made) <= len(bound)


@settings(max_examples=100)
@given(jobs(), st.sampled_from([None, "max_length"]))
def test_books_balance_and_threads_change_nothing(job, pad_to):
    lengths, options = job
    lengths = [min(length, 200) for length in lengths]
    ids = pa.array([list(range(length)) for length in lengths], type=pa.list_(pa.int32()))
    table = pa.table({"input_ids": ids})
    options = {**options, "pad_to": pad_to, "pad_token_id": 0, "max_lost": "100%"}
    one, four = (fastpack.pack_table(table, **nested(options), threads=threads) for threads in (1, 4))
    assert one.equals(four, check_metadata=True)
    report = fastpack.Report.of(one)
    assert balanced(report)
    assert report.rows == one.num_rows
    assert report.documents.read == len(lengths)
    assert report.tokens.read == sum(lengths)
    tokens = sum(map(len, one["input_ids"].to_pylist()))
    assert tokens >= report.tokens.kept + report.repeated.tokens
    if pad_to:
        assert tokens == one.num_rows * options["max_length"]
    elif options["align_documents_to"] in {None, 1}:
        # Rows of nothing but padding hold a token each.
        filled = sum(not any(label != -100 for label in row) for row in one["labels"].to_pylist())
        assert tokens <= report.tokens.kept + report.repeated.tokens + filled


def test_sums_beyond_32_bits_are_sums():
    lengths = np.full(9, GIANT)
    for strategy in STRATEGIES:
        made = fastpack.plan(lengths, max_length=GIANT, strategy=strategy)
        assert (len(made), made.tokens, made.lower_bound) == (9, 9 * GIANT, 9)
    balanced_rows = flat.plan(
        lengths, max_length=GIANT, order="balanced", balance_ranks=2, on_remainder="repeat"
    )
    assert (len(balanced_rows), balanced_rows.tokens) == (10, 9 * GIANT)
