"""The options that decide how documents become rows, seen in the rows and in the ledger."""

from __future__ import annotations

import pyarrow as pa
import pytest
from nested import flat, nested, place
from rows import balanced, documents

import fastpack


@pytest.fixture
def texts(write_jsonl):
    """Texts of 1 to 200 words."""
    return write_jsonl([{"text": " ".join(["word"] * (1 + at * 53 % 200))} for at in range(30)])


def test_text_that_is_too_long_is_split_and_nothing_is_lost(texts, tokenizer_dir):
    whole = fastpack.pack_files(texts, tokenizer_dir, max_length=4096, strategy="none")
    table = fastpack.pack_files(texts, tokenizer_dir, max_length=32, strategy="none")
    report = fastpack.Report.of(table)
    assert balanced(report)
    assert report.documents.kept == whole.num_rows
    lost = report.dropped.get("no_trained_token", fastpack.report.report.Count(0, 0))
    assert report.tokens.read == report.tokens.kept + lost.tokens
    expected = [
        part
        for ids in whole["input_ids"].to_pylist()
        for part in (ids[start : start + 32] for start in range(0, len(ids), 32))
        if len(part) > 1  # the label of a first token is never trained
    ]
    assert table["input_ids"].to_pylist() == expected
    assert lost.tokens == sum(map(len, whole["input_ids"].to_pylist())) - sum(map(len, expected))


def test_conversations_that_are_too_long_are_dropped_trl_5075(write_jsonl, tokenizer_dir):
    turns = [{"role": "user", "content": "a " * 90}, {"role": "assistant", "content": "b " * 90}]
    paths = [write_jsonl([{"messages": turns}], "chat.jsonl"), write_jsonl([{"text": "c"}], "text.jsonl")]
    report = fastpack.Report.of(fastpack.pack_files(paths, tokenizer_dir, max_length=32))
    assert report.dropped["too_long"].documents == 1
    split = fastpack.Report.of(fastpack.pack_files(paths, tokenizer_dir, max_length=32, overlong="split"))
    assert split.documents.kept == 2
    assert balanced(split)


def test_the_first_label_of_each_piece_is_untrained(texts, tokenizer_dir):
    for row in fastpack.pack_files(texts, tokenizer_dir, max_length=64, strategy="concat").to_pylist():
        starts = [at for at, position in enumerate(row["position_ids"]) if position == 0]
        assert [row["labels"][start] for start in starts] == [-100] * len(starts)
        lengths = [end - start for start, end in zip(starts, [*starts[1:], len(row["labels"])], strict=True)]
        assert row["seq_lengths"] == lengths
        others = [at for at in range(len(row["labels"])) if at not in starts]
        assert [row["labels"][at] for at in others] == [row["input_ids"][at] for at in others]


def test_concat_is_the_input_cut_into_rows():
    table = fastpack.pack_table(documents(5, 3, 9), max_length=4, strategy="concat")
    assert table["input_ids"].to_pylist() == [
        [1, 2, 3, 4],
        [5, 1001, 1002, 1003],
        [2001, 2002, 2003, 2004],
        [2005, 2006, 2007, 2008],
        [2009],
    ]
    assert table["seq_lengths"].to_pylist() == [[4], [1, 3], [4], [4], [1]]
    assert fastpack.Report.of(table).documents == (3, 3, 0)


def test_a_tail_that_is_dropped_is_counted():
    table = flat.pack_table(documents(5, 3, 3, 2, 2), max_length=4, strategy="concat", drop_last=True)
    report = fastpack.Report.of(table)
    assert table["seq_lengths"].to_pylist() == [[4], [1, 3], [3, 1]]
    assert report.dropped == {"tail": (1, 3)}
    assert report.documents == (5, 4, 1)
    assert balanced(report)


def test_truncation_keeps_the_end_verl_6372():
    options = {"max_length": 4, "overlong": "truncate", "strategy": "none"}
    start = fastpack.pack_table(documents(6, 2), **options)
    end = fastpack.pack_table(documents(6, 2), **options | {"overlong": fastpack.Truncate(side="left")})
    assert start["input_ids"].to_pylist() == [[1, 2, 3, 4], [1001, 1002]]
    assert end["input_ids"].to_pylist() == [[3, 4, 5, 6], [1001, 1002]]
    assert fastpack.Report.of(end).truncated == (1, 2)


def test_a_piece_without_a_label_is_dropped_and_counted_trl_6668():
    rows = pa.table({"input_ids": [[1, 2, 3, 4, 5, 6, 7, 8]], "labels": [[-100] * 5 + [6, 7, 8]]})
    table = fastpack.pack_table(rows, max_length=4, overlong="split")
    assert table["input_ids"].to_pylist() == [[5, 6, 7, 8]]
    report = fastpack.Report.of(table)
    assert report.dropped == {"no_trained_token": (0, 4)}
    assert report.documents == (1, 1, 0)
    assert balanced(report)


@pytest.mark.parametrize("strategy", ["mix", "best_fit", "heap", "sequential", "concat"])
def test_a_row_holds_no_more_documents_than_it_may(strategy):
    table = fastpack.pack_table(
        documents(*[3] * 11), max_length=64, **nested({"strategy": strategy, "max_documents_per_pack": 4})
    )
    assert sorted(map(len, table["seq_lengths"].to_pylist())) == [3, 4, 4]


def test_rows_are_filled_up_with_what_nothing_learns_from_axolotl_2739():
    options = {"max_length": 8, "strategy": "sequential"}
    table = fastpack.pack_table(
        documents(5, 2, 8), **options, padding=fastpack.Padding("max_length", token_id=9)
    )
    assert table.to_pylist() == [
        {
            "input_ids": [1, 2, 3, 4, 5, 1001, 1002, 9],
            "labels": [-100, 2, 3, 4, 5, -100, 1002, -100],
            "position_ids": [0, 1, 2, 3, 4, 0, 1, 0],
            "seq_lengths": [5, 2, 1],
        },
        {
            "input_ids": list(range(2001, 2009)),
            "labels": [-100, *range(2002, 2009)],
            "position_ids": list(range(8)),
            "seq_lengths": [8],
        },
    ]
    report = fastpack.Report.of(table)
    assert (report.tokens.kept, report.fill) == (15, pytest.approx(15 / 16))
    by_four = fastpack.pack_table(
        documents(5), **options, padding=fastpack.Padding(4, token_id=9)
    ).to_pylist()[0]
    assert by_four["position_ids"] == [0, 1, 2, 3, 4, 0, 1, 2]
    assert by_four["seq_lengths"] == [5, 3]
    assert by_four["labels"][5:] == [-100] * 3


def test_rows_of_files_and_streams_are_filled_up_alike(texts, tokenizer_dir):
    options = {"max_length": 64, "strategy": "sequential", "padding": 16}
    table = fastpack.pack_files(texts, tokenizer_dir, **options)
    streamed = pa.concat_tables(
        fastpack.stream(texts, tokenizer_dir, **options, shuffle=False, ranks=fastpack.Ranks(lanes=1))
    )
    assert streamed.to_pylist() == table.to_pylist()
    assert {len(ids) % 16 for ids in table["input_ids"].to_pylist()} == {0}


@pytest.mark.parametrize("strategy", ["mix", "concat", "best_fit"])
@pytest.mark.parametrize("threads", [2, 8])
def test_a_seed_decides_whatever_the_threads(strategy, threads, texts, tokenizer_dir):
    def packed(**options):
        return fastpack.pack_files(texts, tokenizer_dir, max_length=64, strategy=strategy, **options)

    assert packed(threads=1, seed=5).equals(packed(threads=threads, seed=5), check_metadata=True)
    if strategy != "concat":
        assert packed(seed=5) != packed(seed=6)


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"pad_to": 3}, "padding.to"),
        ({"pad_to": "longest"}, "padding.to"),
        ({"pad_to": True}, "padding.to"),
        ({"pad_to": "max_length"}, "padding.to"),
        ({"pad_to": 4, "pad_token_id": 2**31}, "padding.token_id"),
        ({"pad_to": 4, "pad_token_id": -1}, "padding.token_id"),
        ({"max_documents_per_pack": 0}, "strategy.max_documents"),
        ({"seed": -1}, "seed"),
        ({"seed": True}, "seed"),
        ({"truncation_side": "up", "overlong": "truncate"}, "overlong.side"),
        ({"drop_last": True, "strategy": "mix"}, "strategy.drop_last"),
        ({"strategy": "concat", "overlong": "drop"}, "overlong"),
    ],
)
def test_options_that_cannot_hold_are_refused_by_name(options, option):
    with pytest.raises(fastpack.OptionError) as caught:
        fastpack.pack_table(documents(3), max_length=8, **nested(options))
    assert caught.value.option == place(option)


def test_rows_of_one_document_need_no_longest_length(texts, tokenizer_dir):
    rows = fastpack.pack_files(texts, tokenizer_dir, strategy="none")
    bounded = fastpack.pack_files(texts, tokenizer_dir, strategy="none", max_length=4096)
    assert rows.to_pylist() == bounded.to_pylist()
    report = fastpack.Report.of(rows)
    assert (report.max_length, report.fill, report.lower_bound) == (None, 1.0, report.rows)
    plan = fastpack.plan([3, 5], strategy="none")
    assert (plan.max_length, plan.fill, plan.lower_bound) == (None, 1.0, 2)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "max_length"),
        ({"strategy": "concat"}, "max_length"),
        ({"strategy": "none", "padding": "max_length"}, "padding.to"),
    ],
)
def test_all_other_rows_need_a_longest_length(options, named):
    with pytest.raises(fastpack.OptionError, match=f"invalid option `{named}`"):
        fastpack.pack_table(documents(3), **options)


def test_rows_of_any_length_are_filled_up_to_a_multiple():
    table = fastpack.pack_table(documents(5, 9), strategy="none", padding=fastpack.Padding(8, token_id=0))
    assert [len(row) for row in table["input_ids"].to_pylist()] == [8, 16]
