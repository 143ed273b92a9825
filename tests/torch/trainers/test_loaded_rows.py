"""Rows of `fastpack.hf.load`, and of all that `datasets` makes of them, refuse an `SFTTrainer` that would mix their documents."""

from __future__ import annotations

import pickle
from inspect import isfunction, signature

import datasets
import pytest
from conftest import documents, pack
from datasets.distributed import split_dataset_by_node
from small_models import model_of
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

import fastpack.hf
from fastpack import BatchError
from fastpack.hf.trainers import folders_of
from fastpack.torch import CheckCallback, collate


@pytest.fixture(scope="module")
def tokenizer():
    backend = Tokenizer(models.WordLevel({"<pad>": 0, "<s>": 1, "</s>": 2}, unk_token="</s>"))
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", eos_token="</s>")


@pytest.fixture
def trainer(tmp_path, tokenizer):
    """Makes an `SFTTrainer`."""

    def made(dataset, *, config=SFTConfig, data_collator=None, **given):
        args = config(
            output_dir=str(tmp_path / "out"),
            max_steps=2,
            report_to=[],
            use_cpu=True,
            bf16=False,
            save_strategy="no",
            disable_tqdm=True,
            **given,
        )
        return SFTTrainer(
            model_of("llama"),
            args=args,
            train_dataset=dataset,
            processing_class=tokenizer,
            data_collator=data_collator,
        )

    return made


PACKING = {"packing": True, "max_length": 64}

UNFIT = [
    ({}, "padding_free=True, as fastpack.hf.sft_config does"),
    (PACKING, "packing=True packs packed rows again"),
]
"""Settings of a trainer, and what refuses them."""


@pytest.mark.parametrize("layout", ["full", "compact"])
def test_loaded_rows_refuse_an_sft_trainer_that_would_mix_them(tmp_path, trainer, layout):
    pack(documents(40), output=tmp_path / "rows", layout=layout)
    rows = fastpack.hf.load(tmp_path / "rows")
    for given, message in (
        *UNFIT,
        ({"padding_free": True, "max_length": 4}, "max_length=4 cuts rows"),
        (
            {"dataset_kwargs": {"skip_prepare_dataset": True}},
            "padding_free=True, as fastpack.hf.sft_config does",
        ),
    ):
        with pytest.raises(BatchError, match=message):
            trainer(rows, **given)
    trainer(rows, config=fastpack.hf.sft_config).train()
    assert pickle.loads(pickle.dumps(rows))[0] == rows[0]


def test_labels_that_are_shifted_already_refuse_a_trainer_whose_model_shifts_them(tmp_path, trainer):
    pack(documents(40), output=tmp_path / "rows", objective=fastpack.CausalLM(shift_labels=True))
    rows = fastpack.hf.load(tmp_path / "rows")
    with pytest.raises(BatchError, match="shifted already"):
        trainer(rows, config=fastpack.hf.sft_config)


def same(batch):
    """A function for `map`."""
    return batch


DERIVED = {
    "add_column": lambda rows: rows.add_column("number", list(range(len(rows)))),
    "add_item": lambda rows: rows.add_item(rows[0]),
    "cast": lambda rows: rows.cast(rows.features),
    "cast_column": lambda rows: rows.cast_column("labels", datasets.List(datasets.Value("int64"))),
    "class_encode_column": lambda rows: rows.add_column("kind", ["a"] * len(rows)).class_encode_column(
        "kind"
    ),
    "filter": lambda rows: rows.filter(lambda row: len(row["input_ids"]) > 1),
    "flatten": lambda rows: rows.flatten(),
    "flatten_indices": lambda rows: rows.shuffle(seed=1).flatten_indices(),
    "map": lambda rows: rows.map(same),
    "remove_columns": lambda rows: rows.remove_columns("position_ids"),
    "rename_column": lambda rows: rows.rename_column("position_ids", "positions"),
    "rename_columns": lambda rows: rows.rename_columns({"position_ids": "positions"}),
    "repeat": lambda rows: rows.repeat(2),
    "select": lambda rows: rows.select([3, 1, 2]),
    "select_columns": lambda rows: rows.select_columns(["input_ids", "labels"]),
    "shard": lambda rows: rows.shard(2, 1),
    "shuffle": lambda rows: rows.shuffle(seed=3),
    "skip": lambda rows: rows.skip(2),
    "sort": lambda rows: rows.add_column("number", list(range(len(rows)))).sort("number", reverse=True),
    "take": lambda rows: rows.take(3),
    "to_iterable_dataset": lambda rows: rows.to_iterable_dataset(num_shards=2),
    "train_test_split": lambda rows: rows.train_test_split(0.5, seed=1)["test"],
    "with_format": lambda rows: rows.with_format("numpy"),
    # By another way than a method.
    "in place": lambda rows: rows.set_format("torch") or rows,
    "map in processes": lambda rows: rows.map(same, num_proc=2),
    "map of whole batches": lambda rows: rows.map(same, batched=True, batch_size=4),
    "contiguous": lambda rows: rows.select(range(3)),
    "a dict of splits": lambda rows: datasets.DatasetDict(train=rows).map(same).shuffle(seed=1)["train"],
    "concatenated with itself": lambda rows: datasets.concatenate_datasets([rows, rows.shuffle(seed=1)]),
    "interleaved": lambda rows: datasets.interleave_datasets([rows, rows.shuffle(seed=1)]),
    "of a node": lambda rows: split_dataset_by_node(rows, rank=0, world_size=2),
    "pickled": lambda rows: pickle.loads(pickle.dumps(rows)),
    "a stream, mapped": lambda rows: rows.to_iterable_dataset().map(same).filter(bool).shuffle(seed=1),
    "one after another": lambda rows: (
        rows.shuffle(seed=1).map(same).select(range(4)).train_test_split(0.5)["train"]
    ),
}
"""Data sets that `datasets` makes of ours, by the method that makes them."""

NOT_TRIED = {
    "align_labels_with_mapping": "renumbers a column of classes, which packed rows lack; it is a `map`",
    "formatted_as": "a context that gives no data set",
    "with_transform": "a data set with a transform can be no other way prepared: `TRANSFORMED` tries it",
    "batch": "makes rows of rows, which no trainer takes; it is a `map`",
}


def test_every_method_that_gives_a_data_set_is_tried():
    kinds = {"Dataset", "DatasetDict", "IterableDataset", "Self"}
    methods = {
        name
        for name, value in vars(datasets.Dataset).items()
        if isfunction(value)
        and not name.startswith("_")
        and (
            kinds & set(str(signature(value).return_annotation).replace("datasets.", "").strip("'\"").split())
        )
    }
    assert len(methods) >= 20
    assert methods - DERIVED.keys() - NOT_TRIED.keys() == set()


@pytest.mark.parametrize("name", DERIVED)
def test_what_datasets_makes_of_loaded_rows_refuses_as_they_do(folder, trainer, name):
    rows = DERIVED[name](fastpack.hf.load(folder))
    for given, message in UNFIT:
        with pytest.raises(BatchError, match=message):
            trainer(rows, **given)


def test_rows_of_folders_that_were_packed_alike_are_guarded_together(tmp_path, trainer):
    for name, seed in (("a", 1), ("b", 2)):
        pack(documents(20, seed=seed), output=tmp_path / name)
    parts = [fastpack.hf.load(tmp_path / name) for name in ("a", "b")]
    both = datasets.concatenate_datasets(parts)
    assert len(both) == sum(map(len, parts))
    for given, message in (*UNFIT, ({"padding_free": True, "max_length": 4}, "max_length=4 cuts rows")):
        with pytest.raises(BatchError, match=message):
            trainer(both, **given)


def test_compact_rows_stay_expanded_and_guarded_when_they_are_concatenated(tmp_path, trainer):
    for name, seed in (("a", 1), ("b", 2)):
        pack(documents(20, seed=seed), output=tmp_path / name, layout="compact")
    parts = [fastpack.hf.load(tmp_path / name) for name in ("a", "b")]
    both = datasets.concatenate_datasets(parts)
    assert list(both) == [row for part in parts for row in part]
    with pytest.raises(BatchError, match="padding_free=True"):
        trainer(both, dataset_kwargs={"skip_prepare_dataset": True})


def test_rows_of_folders_with_other_options_name_all_their_folders(tmp_path):
    for name, length in (("a", 64), ("b", 48)):
        pack(documents(20), max_length=length, output=tmp_path / name)
    both = datasets.concatenate_datasets([fastpack.hf.load(tmp_path / name) for name in ("a", "b")])
    assert [folder.options["max_length"] for folder in folders_of(both)] == [64, 48]


def test_saved_rows_are_guarded_where_load_reads_them(folder, trainer, tmp_path):
    fastpack.hf.load(folder).shuffle(seed=1).save_to_disk(tmp_path / "saved")
    rows = fastpack.hf.load(tmp_path / "saved")
    for given, message in UNFIT:
        with pytest.raises(BatchError, match=message):
            trainer(rows, **given)


def test_rows_that_are_derived_train_with_settings_that_fit(folder, trainer):
    rows = fastpack.hf.load(folder).map(same).shuffle(seed=1)
    trainer(rows, config=fastpack.hf.sft_config).train()
    trainer(rows, data_collator=collate, max_length=None, dataset_kwargs={"skip_prepare_dataset": True})


def test_settings_are_looked_at_for_each_trainer(folder, trainer):
    rows = fastpack.hf.load(folder)
    trainer(rows, data_collator=collate, max_length=None)
    with pytest.raises(BatchError, match="padding_free=True"):
        trainer(rows, max_length=None)


def saved(folder):
    fastpack.hf.load(folder).save_to_disk(folder / "saved")
    return datasets.load_from_disk(folder / "saved")


def with_rows_of_other_options(folder):
    pack(documents(20), max_length=48, output=folder / "other")
    return datasets.concatenate_datasets([fastpack.hf.load(folder), fastpack.hf.load(folder / "other")])


def with_other_rows(folder):
    rows = fastpack.hf.load(folder)
    other = datasets.Dataset.from_dict(rows[:4], features=rows.features)
    return datasets.concatenate_datasets([other, rows])


def of_values(folder):
    return datasets.Dataset.from_dict(fastpack.hf.load(folder).to_dict())


@pytest.mark.parametrize("made_of", [saved, with_rows_of_other_options, with_other_rows, of_values])
@pytest.mark.parametrize(("given", "message"), UNFIT)
def test_the_callback_finds_the_mistake_where_nothing_guards_rows(folder, trainer, made_of, given, message):
    unguarded = trainer(made_of(folder), **given)
    unguarded.add_callback(CheckCallback())
    with pytest.raises(BatchError, match=message):
        unguarded.train()


def test_rows_without_their_description_are_not_guarded(folder, trainer):
    rows = fastpack.hf.load(folder).shuffle(seed=1)
    rows.info.description = ""
    trainer(rows)


def test_what_is_made_of_rows_and_packed_no_more_is_left_alone(folder, trainer):
    texts = fastpack.hf.load(folder).map(lambda _: {"text": "</s>"}, remove_columns=["input_ids", "labels"])
    trainer(texts.select_columns(["text"])).train()


def test_loading_rows_changes_nothing_of_other_data_sets(folder, trainer):
    fastpack.hf.load(folder)
    trainer(datasets.Dataset.from_dict({"input_ids": [[3, 4, 5]] * 8}), **PACKING).train()
