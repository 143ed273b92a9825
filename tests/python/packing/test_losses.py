"""`max_lost`: a run that loses more than it may fails, says why and where, and leaves nothing."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastpack
from fastpack import cli


@pytest.fixture
def conversations(write_jsonl):
    """Ten conversations, the third too long for a row of 64 tokens, and a line that is no JSON."""

    def talk(words):
        return {
            "messages": [
                {"role": "user", "content": "a river"},
                {"role": "assistant", "content": " ".join(["town"] * words)},
            ]
        }

    records = [talk(200 if at == 2 else 5) for at in range(10)]
    return write_jsonl([*records, b"{no json"], "talks.jsonl")


def test_a_run_that_loses_more_than_it_may_says_why_and_where(conversations, tokenizer_dir):
    with pytest.raises(fastpack.LossError) as caught:
        fastpack.pack_files(conversations, tokenizer_dir, max_length=64, on_bad_record="skip", max_lost="10%")
    message = str(caught.value)
    assert message.startswith("2 of 11 documents and ")
    assert 'more than max_lost="10%": ' in message
    assert f"too_long: 1 document, {caught.value.tokens} tokens, first at {conversations}:3" in message
    assert f"invalid_json: 1 document, 0 tokens, first at {conversations}:11" in message
    assert caught.value.documents == 2


def test_a_share_of_the_tokens_counts_where_few_documents_are_lost(conversations, tokenizer_dir):
    options = {"max_length": 64, "on_bad_record": "skip"}
    report = fastpack.Report.of(fastpack.pack_files(conversations, tokenizer_dir, **options))
    documents = report.documents.dropped / report.documents.read
    tokens = report.tokens.dropped / report.tokens.read
    assert documents < tokens
    with pytest.raises(fastpack.LossError):
        fastpack.pack_files(conversations, tokenizer_dir, **options, max_lost=(documents + tokens) / 2)
    assert fastpack.pack_files(conversations, tokenizer_dir, **options, max_lost=tokens).num_rows


def test_what_is_cut_off_counts_as_lost(conversations, tokenizer_dir):
    with pytest.raises(fastpack.LossError, match=r"truncated: 1 document, \d+ tokens, first at .*:3$"):
        fastpack.pack_files(
            conversations,
            tokenizer_dir,
            max_length=64,
            on_bad_record="skip",
            overlong="truncate",
            max_lost="15%",
        )


def test_nothing_is_left_of_a_folder(conversations, tokenizer_dir, tmp_path):
    options = {"tokenizer": tokenizer_dir, "max_length": 64, "on_bad_record": "skip"}
    with pytest.raises(fastpack.LossError):
        fastpack.pack_dir(conversations, tmp_path / "out", **options, max_lost=0)
    assert not (tmp_path / "out").exists()


def test_a_finished_job_is_measured_too(conversations, tokenizer_dir, tmp_path):
    options = {"tokenizer": tokenizer_dir, "max_length": 64, "on_bad_record": "skip"}
    report = fastpack.pack_dir(conversations, tmp_path / "out", **options)
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    with pytest.raises(fastpack.LossError, match=r"2 of 11 documents .* too_long: 1 document"):
        fastpack.pack_dir(conversations, tmp_path / "out", **options, max_lost=0.05)
    assert fastpack.pack_dir(conversations, tmp_path / "out", **options, max_lost="100%") == report
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


def test_a_stream_fails_at_its_end(conversations, tokenizer_dir):
    stream = fastpack.stream(
        conversations, tokenizer_dir, max_length=64, on_bad_record="skip", max_lost=0, batch_size=1
    )
    assert next(stream).num_rows == 1
    with pytest.raises(fastpack.LossError):
        list(stream)


def test_what_a_filter_leaves_out_is_not_lost(conversations, tokenizer_dir):
    def chosen(batch):
        return [False] * batch.num_rows

    options = {"max_length": 64, "on_bad_record": "skip", "filter": chosen}
    report = fastpack.Report.of(fastpack.pack_files(conversations, tokenizer_dir, **options, max_lost="100%"))
    assert report.dropped["filtered"].documents == 10
    with pytest.raises(fastpack.LossError, match=r"^1 of 1 document and 0 of 0 tokens"):
        fastpack.pack_files(conversations, tokenizer_dir, **options, max_lost="99%")


def test_the_command_line_ends_with_a_code_of_its_own(conversations, tokenizer_dir, tmp_path, capsys):
    arguments = ["pack", "-i", conversations, "-o", tmp_path / "out", "-t", tokenizer_dir, "-m", "64"]
    arguments += ["--on-bad-record", "skip", "--max-lost", "0.1%"]
    assert cli.main([str(argument) for argument in arguments]) == 3
    said = capsys.readouterr().err
    assert said.startswith("fastpack: 2 of 11 documents")
    assert "more than --max-lost 0.1%" in said
    assert not (tmp_path / "out").exists()


@given(lengths=st.lists(st.integers(2, 12), min_size=1, max_size=30), percent=st.integers(0, 1000))
def test_a_run_fails_if_and_only_if_more_is_lost(lengths, percent):
    table = pa.table({"input_ids": [list(range(length)) for length in lengths]})
    lost = [length for length in lengths if length > 8]
    # Whole numbers: thousandths of documents and of tokens.
    fails = len(lost) * 1000 > percent * len(lengths) or sum(lost) * 1000 > percent * sum(lengths)
    try:
        fastpack.pack_table(table, max_length=8, max_lost=f"{percent // 10}.{percent % 10}%")
    except fastpack.LossError:
        assert fails
    else:
        assert not fails


@pytest.mark.parametrize("share", ["0,1%", "two", -0.1, 1.5, "101%", True, float("nan"), b"1%"])
def test_what_is_no_share_is_refused(share):
    with pytest.raises(fastpack.OptionError, match=r'max_lost.*"0\.1%" or 0\.001'):
        fastpack.pack_table(pa.table({"input_ids": [[1, 2]]}), max_length=8, max_lost=share)


def test_a_run_that_reads_records_and_keeps_none_fails(tokenizer_dir, tmp_path):
    records = [
        {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b c d"}]}
    ] * 3
    with pytest.raises(fastpack.LossError, match="none of 3 documents is kept: too_long: 3") as failed:
        fastpack.pack_records(records, tokenizer_dir, max_length=2, output=tmp_path / "out")
    assert failed.value.documents == 3
    assert not (tmp_path / "out").exists()
    with pytest.raises(fastpack.LossError, match="is kept"):
        fastpack.pack_records(records, tokenizer_dir, max_length=2, strategy="sequential")
    kept = fastpack.pack_records(records, tokenizer_dir, max_length=2, max_lost="100%")
    assert "no document was kept" in fastpack.Report.of(kept).warnings


@pytest.mark.parametrize(("overlong", "verb"), [("drop", "dropped"), ("truncate", "cut")])
def test_warnings_count_tokens_and_name_the_option_that_keeps_them(overlong, verb):
    table = pa.table({"input_ids": [list(range(10))] * 99 + [list(range(500))]})
    report = fastpack.Report.of(fastpack.pack_table(table, max_length=20, overlong=overlong))
    lost = report.tokens.dropped / report.tokens.read
    [warning] = report.warnings
    assert warning.startswith(f"{lost:.1%}".replace("%", " %") + " of the tokens are lost")
    assert f"1 document (1.0 %) was {verb}" in warning
    assert "a `max_length` of 500 would hold 99 % of the tokens" in warning
    assert 'an `overlong` of "split" keeps all' in warning
    split = fastpack.pack_table(table, max_length=20, overlong="split")
    assert fastpack.Report.of(split).tokens.dropped == 0
