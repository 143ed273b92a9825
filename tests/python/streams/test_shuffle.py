"""`shuffle` puts documents in an order drawn from the seed, the same one by every road."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import fastpack

DOCUMENTS = 200
OPTIONS = {"max_length": 24, "seed": 5}


@pytest.fixture
def records():
    """Each of one word that no other has, said as often as its number asks for."""
    return [{"text": f"w{number} " * (1 + number % 7)} for number in range(DOCUMENTS)]


@pytest.fixture
def files(records, write_jsonl):
    return write_jsonl(records)


def ids(table):
    return table["input_ids"].to_pylist()


@pytest.mark.parametrize("kind", [fastpack.Sequential, fastpack.Concat, fastpack.Unpacked])
def test_every_road_has_the_same_order(kind, records, files, tokenizer_dir, tmp_path):
    options = {**OPTIONS, "strategy": kind(shuffle=True)}
    expected = ids(fastpack.pack_files(files, tokenizer_dir, **options))
    assert expected != ids(fastpack.pack_files(files, tokenizer_dir, **{**options, "strategy": kind()}))
    for threads in (1, 3):
        assert ids(fastpack.pack_files(files, tokenizer_dir, threads=threads, **options)) == expected
    assert ids(fastpack.pack_records(records, tokenizer_dir, **options)) == expected
    assert ids(fastpack.pack_table(pa.Table.from_pylist(records), tokenizer_dir, **options)) == expected
    fastpack.pack_dir(
        files, tmp_path / "a", tokenizer=tokenizer_dir, keep_tokens=True, format="jsonl", **options
    )
    fastpack.repack(tmp_path / "a", tmp_path / "b", format="jsonl", **options)
    for folder in ("a", "b"):
        lines = (tmp_path / folder / "train-00000.jsonl").read_text().splitlines()
        assert [json.loads(line)["input_ids"] for line in lines] == expected


@pytest.mark.parametrize("kind", [fastpack.Sequential, fastpack.Concat, fastpack.Unpacked])
def test_no_document_is_lost_or_torn(kind):
    lengths = [1 + number % 50 for number in range(1000)]
    options = {
        "max_length": 16,
        "strategy": kind(shuffle=True),
        "overlong": None if kind is fastpack.Concat else "split",
    }
    for seed in (0, 1):
        plan = fastpack.plan(lengths, seed=seed, **options)
        pieces = list(zip(plan.members.tolist(), plan.starts.tolist(), plan.lengths.tolist(), strict=True))
        order = list(dict.fromkeys(document for document, _, _ in pieces))
        assert sorted(order) == list(range(1000))
        assert order != sorted(order)
        for document in (0, 17, 49, 999):
            of_it = [(start, length) for member, start, length in pieces if member == document]
            assert [start for start, _ in of_it] == sorted(start for start, _ in of_it)
            assert sum(length for _, length in of_it) == lengths[document]
    first, second = (fastpack.plan(lengths, seed=seed, **options) for seed in (0, 1))
    assert first.members.tolist() != second.members.tolist()


def test_a_topic_no_longer_fills_rows_alone():
    """Files sorted by topic give rows of one topic; shuffled, hardly any row has only one of ten."""
    lengths, topic = [4] * 4000, [number // 400 for number in range(4000)]

    def alone(plan):
        rows = [plan.members[begin:end] for begin, end in zip(plan.offsets, plan.offsets[1:], strict=False)]
        return sum(len({topic[document] for document in row}) == 1 for row in rows) / len(rows)

    assert alone(fastpack.plan(lengths, max_length=32, strategy="sequential")) == 1
    assert alone(fastpack.plan(lengths, max_length=32, strategy=fastpack.Sequential(shuffle=True))) < 0.01


@pytest.mark.parametrize("kind", [fastpack.Mix, fastpack.BestFit, fastpack.Heap])
def test_a_strategy_with_an_order_of_its_own_has_no_such_option(kind):
    with pytest.raises(TypeError, match="shuffle"):
        kind(shuffle=True)


def test_a_stream_shuffles_by_an_option_of_its_own(files, tokenizer_dir):
    with pytest.raises(fastpack.OptionError, match=r"`strategy\.shuffle`"):
        fastpack.stream(files, tokenizer_dir, max_length=8, strategy=fastpack.Concat(shuffle=True))
    with pytest.raises(fastpack.OptionTypeError, match=r"`shuffle`.*strategy=Sequential\(shuffle=\.\.\.\)"):
        fastpack.pack_files(files, tokenizer_dir, max_length=8, shuffle=True)
