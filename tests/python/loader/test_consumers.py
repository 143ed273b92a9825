"""Rows in the hands of other libraries: collators of transformers, TRL's packing, loaders of data sets."""

from __future__ import annotations

import datasets
import numpy as np
import pyarrow as pa
import pytest
from conftest import conversation

import fastpack

COLUMNS = ["input_ids", "labels", "position_ids", "seq_lengths", "document_ids"]


@pytest.fixture
def collator():
    """The collator of transformers that flattens a batch of documents."""
    transformers = pytest.importorskip("transformers")
    return transformers.DataCollatorWithFlattening(
        return_tensors="np", return_flash_attn_kwargs=True, return_seq_idx=True
    )


def documents_of(row):
    """The documents of a row, each as a sample."""
    ends = np.cumsum(row["seq_lengths"])
    return [
        {"input_ids": row["input_ids"][end - length : end], "labels": row["labels"][end - length : end]}
        for end, length in zip(ends, row["seq_lengths"], strict=True)
    ]


@pytest.mark.parametrize("strategy", ["mix", "best_fit", "concat"])
@pytest.mark.parametrize(
    "padding", [{}, {"padding": 64}, {"strategy": fastpack.Mix(align_to=16), "padding": "max_length"}]
)
def test_a_row_is_what_transformers_makes_of_its_documents(
    corpus, tokenizer_dir, collator, strategy, padding
):
    options = {"max_length": 256, "strategy": strategy, **padding, "columns": COLUMNS}
    for row in fastpack.pack_files(corpus, tokenizer_dir, **options).to_pylist():
        made = collator(documents_of(row))
        assert made["input_ids"].tolist() == [row["input_ids"]]
        assert made["labels"].tolist() == [row["labels"]]
        assert made["position_ids"].tolist() == [row["position_ids"]]
        assert made["cu_seq_lens_q"].tolist() == [0, *np.cumsum(row["seq_lengths"])]
        assert made["max_length_q"] == max(row["seq_lengths"])
        seen = [
            (sequence, document)
            for sequence, document in zip(made["seq_idx"][0], row["document_ids"], strict=True)
            if document
        ]
        assert all(sequence + 1 == document for sequence, document in seen)


def test_boundaries_are_where_positions_do_not_go_up_by_one(corpus, tokenizer_dir):
    """The rules by which transformers finds documents: a step other than 1, or the least position."""
    options = {"max_length": 256, "padding": 64, "strategy": fastpack.Mix(align_to=8)}
    for row in fastpack.pack_files(corpus, tokenizer_dir, **options).to_pylist():
        positions = np.array(row["position_ids"])
        starts = np.cumsum([0, *row["seq_lengths"][:-1]]).tolist()
        assert [0, *(np.flatnonzero(np.diff(positions) != 1) + 1)] == starts
        assert np.flatnonzero(positions == 0).tolist() == starts
        assert [row["labels"][start] for start in starts] == [-100] * len(starts)
        assert sum(row["seq_lengths"]) == len(row["input_ids"])


def test_rows_of_best_fit_hold_what_those_of_trl_hold(corpus, tokenizer_dir, trl_data_utils):
    options = {"max_length": 256, "overlong": "truncate"}
    single = fastpack.pack_files(corpus, tokenizer_dir, **options, strategy="none")
    tokens = pa.table({"input_ids": single["input_ids"], "labels": single["labels"]})
    packed = trl_data_utils._pack_bfd(tokens, 256)
    columns = ["input_ids", "labels", "seq_lengths"]
    theirs = sorted(zip(*(packed[name].to_pylist() for name in columns), strict=True))
    made = fastpack.pack_files(corpus, tokenizer_dir, **options, strategy="best_fit", columns=columns)
    assert sorted(zip(*(made[name].to_pylist() for name in columns), strict=True)) == theirs


def test_shifted_labels_are_what_a_loss_that_does_not_shift_compares_with(corpus, tokenizer_dir):
    plain = fastpack.pack_files(corpus, tokenizer_dir, max_length=256, strategy="sequential")
    shifted = fastpack.pack_files(
        corpus,
        tokenizer_dir,
        max_length=256,
        strategy="sequential",
        objective=fastpack.CausalLM(shift_labels=True),
    )
    for before, after in zip(plain["labels"].to_pylist(), shifted["labels"].to_pylist(), strict=True):
        # transformers' own shift: `nn.functional.pad(labels, (0, 1), value=-100)[..., 1:]`.
        assert after == [*before[1:], -100]


def test_rows_are_a_data_set_that_maps_filters_and_trains_by_step(write_jsonl, tokenizer_dir, tmp_path):
    path = write_jsonl(map(conversation, range(120)))
    options = {"order": fastpack.Balanced(4, on_remainder="repeat")}
    columns = ["input_ids", "labels", "seq_lengths", "attn_cost", "group"]
    fastpack.pack_dir(
        path, tmp_path / "out", tokenizer=tokenizer_dir, max_length=128, **options, columns=columns
    )
    loaded = datasets.Dataset.from_file(str(tmp_path / "out" / "train-00000.arrow"))
    assert len(loaded) % 4 == 0
    steps = loaded.with_format("numpy")
    assert (steps["group"][:].reshape(-1, 4) == np.arange(len(loaded) // 4)[:, None]).all()
    one_rank = loaded.shard(num_shards=4, index=1, contiguous=False)
    assert one_rank["group"] == list(range(len(loaded) // 4))
    dear = loaded.filter(lambda cost: cost > 0, input_columns="attn_cost")
    assert len(dear) == len(loaded)


@pytest.mark.parametrize("keep_tokens", [False, True])
@pytest.mark.parametrize("validation", [None, 20])
@pytest.mark.parametrize("container", ["arrow", "parquet"])
def test_load_dataset_reads_all_shards_of_a_folder(
    container, validation, keep_tokens, corpus, tokenizer_dir, tmp_path
):
    options = {"tokenizer": tokenizer_dir, "max_length": 256, "validation": validation}
    folder = tmp_path / "packed"
    fastpack.pack_dir(
        corpus,
        folder,
        **options,
        format=fastpack.Format(container, shard_size=20_000),
        keep_tokens=keep_tokens,
    )
    assert len(list(folder.glob("train-*"))) > 2
    loaded = datasets.load_dataset(str(folder), cache_dir=str(tmp_path / "cache"))
    made = fastpack.pack_files(corpus, **options)
    expected = {"train": made} if validation is None else made._asdict()
    assert {name: split.to_list() for name, split in loaded.items()} == {
        name: table.to_pylist() for name, table in expected.items()
    }


def test_efficiency_is_tokens_over_room_axolotl_3848(corpus, tokenizer_dir):
    table = fastpack.pack_files(corpus, tokenizer_dir, max_length=256)
    report = fastpack.Report.of(table)
    tokens = sum(map(len, table["input_ids"].to_pylist()))
    assert report.fill == pytest.approx(tokens / (table.num_rows * 256), abs=1e-6)
    assert report.fill <= 1


def test_a_seed_is_heeded_megatron_bridge_4891():
    lengths = np.random.default_rng(0).integers(1, 64, 500)
    for strategy in ("mix", "best_fit", "heap", "concat"):
        one, again, other = (
            fastpack.plan(
                lengths, max_length=64, strategy=strategy, order="shuffle", seed=seed
            ).members.tolist()
            for seed in (1, 1, 2)
        )
        assert one == again != other


def test_rows_in_flight_are_neither_lost_nor_repeated_torchtitan_3008(corpus, tokenizer_dir):
    strategy = fastpack.BestFit(open_rows=5)
    with fastpack.stream(corpus, tokenizer_dir, max_length=256, strategy=strategy, batch_size=3) as stream:
        streamed = [ids for table in stream for ids in table["input_ids"].to_pylist()]
        report = stream.report
    assert report is not None
    assert sum(map(len, streamed)) == report.tokens.kept == report.tokens.read
