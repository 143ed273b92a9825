"""`fastpack.hf.pack_dataset` gives the same as TRL's function of this name."""

from __future__ import annotations

import datasets
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpack import OptionError
from fastpack.hf import pack_dataset

STRATEGIES = ["bfd", "bfd_split", "wrapped"]


@pytest.fixture(scope="module")
def theirs(trl_data_utils):
    return trl_data_utils.pack_dataset


def columns_of(lengths, kinds):
    """Columns of lists of some lengths; each value tells its document and place."""
    columns = {"input_ids": [[100 * at + place for place in range(size)] for at, size in enumerate(lengths)]}
    if "mask" in kinds:
        columns["attention_mask"] = [
            [(at + place) % 2 for place in range(size)] for at, size in enumerate(lengths)
        ]
    if "weight" in kinds:
        columns["weight"] = [[at + place / 8 for place in range(size)] for at, size in enumerate(lengths)]
    if "word" in kinds:
        columns["word"] = [[f"{at}-{place}" for place in range(size)] for at, size in enumerate(lengths)]
    return columns


lengths = st.lists(st.integers(0, 30), min_size=1, max_size=40).filter(any)


@settings(max_examples=60)
@given(
    lengths=lengths,
    seq_length=st.integers(1, 24),
    strategy=st.sampled_from(STRATEGIES),
    kinds=st.sets(st.sampled_from(["mask", "weight", "word"])),
)
def test_a_batch_gives_the_rows_of_trl_in_their_order(theirs, lengths, seq_length, strategy, kinds):
    dataset = datasets.Dataset.from_dict(columns_of(lengths, kinds))
    ours, expected = pack_dataset(dataset, seq_length, strategy), theirs(dataset, seq_length, strategy)
    assert ours.to_dict() == expected.to_dict()
    assert ours.features == expected.features


@settings(max_examples=15)
@given(lengths=lengths, strategy=st.sampled_from(STRATEGIES), size=st.integers(1, 9))
def test_batches_of_a_size_give_the_rows_of_trl(theirs, lengths, strategy, size):
    dataset = datasets.Dataset.from_dict(columns_of([length + 1 for length in lengths], {"mask"}))
    given = {"batch_size": size}
    assert (
        pack_dataset(dataset, 16, strategy, given).to_dict() == theirs(dataset, 16, strategy, given).to_dict()
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("form", [None, "numpy", "arrow", "pandas"])
def test_the_format_is_kept(theirs, strategy, form):
    dataset = datasets.Dataset.from_dict(columns_of([5, 3, 9, 1], {"mask"}))
    for shown in (dataset.with_format(form), dataset.with_format(form, columns=["input_ids"])):
        ours, expected = pack_dataset(shown, 8, strategy), theirs(shown, 8, strategy)
        assert ours.format == expected.format
        assert ours.with_format(None).to_dict() == expected.with_format(None).to_dict()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_streams_and_dicts_of_data_sets_are_packed_too(theirs, strategy):
    dataset = datasets.Dataset.from_dict(columns_of([5, 3, 9, 1, 7], {"mask"}))
    stream = dataset.to_iterable_dataset()
    assert list(pack_dataset(stream, 8, strategy)) == list(theirs(stream, 8, strategy))
    both = datasets.DatasetDict({"train": dataset, "test": dataset.select([0, 2])})
    ours, expected = pack_dataset(both, 8, strategy), theirs(both, 8, strategy)
    assert isinstance(ours, datasets.DatasetDict)
    assert {name: split.to_dict() for name, split in ours.items()} == {
        name: split.to_dict() for name, split in expected.items()
    }
    streams = datasets.IterableDatasetDict({"train": stream})
    assert isinstance(pack_dataset(streams, 8, strategy), datasets.IterableDatasetDict)


def test_rows_are_fewer_than_where_each_thousand_is_packed_alone(theirs):
    random = np.random.default_rng(0)
    ids = [[1] * int(size) for size in random.integers(20, 60, 5000)]
    dataset = datasets.Dataset.from_dict({"input_ids": ids})
    ours, expected = pack_dataset(dataset, 64), theirs(dataset, 64)
    assert sum(map(len, ours["input_ids"])) == sum(map(len, expected["input_ids"]))
    assert len(ours) < len(expected)


@pytest.mark.parametrize("selected", [[3, 1, 0], range(1, 4)])
def test_a_selection_and_a_slice_are_packed_as_they_are_trl_6669(theirs, selected):
    dataset = datasets.Dataset.from_dict(columns_of([5, 3, 9, 1, 7], {"mask"})).select(selected)
    for strategy in STRATEGIES:
        assert pack_dataset(dataset, 8, strategy).to_dict() == theirs(dataset, 8, strategy).to_dict()


def test_a_length_above_a_power_of_two_trl_3887(theirs):
    dataset = datasets.Dataset.from_dict(columns_of([33, 32, 1, 17, 16, 1], {}))
    assert pack_dataset(dataset, 33).to_dict() == theirs(dataset, 33).to_dict()


def test_values_of_documents_become_lists_of_a_row():
    columns = {
        "input_ids": [[1, 2, 3], [4, 5, 6, 7, 8], [9], []],
        "source": ["a", "b", "c", "d"],
        "score": [1, 2, 3, 4],
    }
    packed = pack_dataset(datasets.Dataset.from_dict(columns), 4, "bfd_split")
    assert packed.to_dict() == {
        "input_ids": [[4, 5, 6, 7], [1, 2, 3, 8], [9]],
        "source": [["b"], ["a", "b"], ["c"]],
        "score": [[2], [1, 2], [3]],
        "seq_lengths": [[4], [3, 1], [1]],
    }


@pytest.mark.parametrize(
    ("columns", "options", "error", "message"),
    [
        (
            {"text": ["a"]},
            {},
            TypeError,
            "needs a column of lists, such as `input_ids`; the data set has `text`",
        ),
        (
            {"input_ids": [[1], [2, 3]], "labels": [[1], [2]]},
            {},
            ValueError,
            "row 1: column `labels` has 1 values, but `input_ids` 2",
        ),
        (
            {"input_ids": [[1]]},
            {"strategy": "ffd"},
            ValueError,
            '`strategy`: must be one of "bfd", "bfd_split"',
        ),
        (
            {"input_ids": [[1]]},
            {"seq_length": 0},
            OptionError,
            "`seq_length`: must be a whole number from 1 on",
        ),
        ({"input_ids": [[1]]}, {"seq_length": "8"}, TypeError, "`seq_length`: must be a number of tokens"),
        (
            {"input_ids": [[1]], "file": ["a"]},
            {"strategy": "wrapped"},
            TypeError,
            "cuts documents, which `file` has one value for each of",
        ),
    ],
)
def test_what_cannot_be_packed_is_refused(columns, options, error, message):
    with pytest.raises(error, match=message):
        pack_dataset(datasets.Dataset.from_dict(columns), **{"seq_length": 8, **options})
