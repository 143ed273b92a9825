"""`CheckCallback`: checks a `Trainer` with one of its batches before the first step."""

from __future__ import annotations

import random
import sys
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import torch

from fastpack.dataset.folder import Folder
from fastpack.errors import BatchError
from fastpack.hf.trainers import check_settings, folders_of, is_ours
from fastpack.torch.checking.checks import check
from fastpack.torch.collation import full_row
from fastpack.torch.packed_dataset import PackedDataset
from fastpack.torch.pictures import PictureCollator
from fastpack.types import NOT_TRAINED

try:
    from transformers import TrainerCallback
except ImportError as missing:
    _MESSAGE = "fastpack.torch.CheckCallback needs `transformers`: pip install transformers"
    raise ImportError(_MESSAGE) from missing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from transformers import Trainer, TrainerControl, TrainerState, TrainingArguments

    from fastpack.torch.collation import Batch, Values
    from fastpack.types import StrPath

__all__ = ["CheckCallback", "calling_trainer"]

_ORDERED: Final = ("SequentialSampler", "PackSampler")
"""Samplers that keep the order of rows or the groups of rows."""


class CheckCallback(TrainerCallback):  # type: ignore[misc]  # transformers is no dependency of the type check
    """Stops a `Trainer` whose settings, batches or model would mix documents, before its first step.

    At the beginning of `train()` it looks at the settings, draws a batch from `get_train_dataloader()`, compares its
    tokens, labels, boundaries and weights with the rows that the batch is made of and the options that their folder was
    packed with, and runs `check` on the model. Random states are as before afterwards, so training is the same with and
    without it.

    Raises:
        BatchError: From `train()`; the message names what to set.
    """

    def __init__(self, folder: StrPath | None = None) -> None:
        """Sets the packed folder of the rows.

        Args:
            folder: The packed folder; if not given, the one that a `PackedDataset` or a data set of
                `fastpack.hf.load` was read from.
        """
        self._folder = None if folder is None else Folder(folder)

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002  as a Trainer calls it
        **others: object,  # noqa: ARG002  likewise
    ) -> None:
        """Checks the trainer at the start of training.

        Raises:
            BatchError: Documents would mix, or the trained tokens would not be those of the rows.
        """
        trainer = calling_trainer()
        folders = [self._folder] if self._folder else _folders_of(trainer.train_dataset)
        check_settings(trainer.args, trainer.data_collator, folders)
        if isinstance(trainer.data_collator, PictureCollator):
            for folder in folders:
                trainer.data_collator.check_folder(folder)
        if (
            state.global_step
            and hasattr(trainer.train_dataset, "load_state_dict")
            and not args.ignore_data_skip
        ):
            message = (
                "the stream was resumed where it stopped, and the Trainer would skip as many batches once more; pass "
                "ignore_data_skip=True"
            )
            raise BatchError(message)
        batch, rows = _drawn(trainer, folders)
        lengths = [_lengths_of(row, number) for number, row in enumerate(rows)]
        _check_contents(batch, rows, lengths, trainer.data_collator)
        if any("loss_weights" in row for row in rows) and trainer.compute_loss_func is None:
            message = (
                "these rows have `loss_weights`, which the model's own loss does not use; pass "
                "compute_loss_func=fastpack.torch.loss to the Trainer"
            )
            raise BatchError(message)
        try:
            check(trainer.model_wrapped, batch, seq_lengths=lengths)
        except BatchError as refused:
            if is_ours(trainer.data_collator):
                raise
            message = f"{_named(trainer.data_collator)} made a batch that fails the check: {refused}"
            raise BatchError(message) from refused


def calling_trainer() -> Trainer:
    """The trainer that called the callback, from the call stack: `transformers` does not pass it."""
    frame = sys._getframe(1)  # noqa: SLF001  a documented function of CPython
    while frame is not None:
        caller = frame.f_locals.get("self")
        if hasattr(caller, "get_train_dataloader") and hasattr(caller, "data_collator"):
            return caller
        frame = frame.f_back  # type: ignore[assignment]  # none above the first
    message = (
        "CheckCallback works in a `transformers.Trainer`; in a loop of your own, call fastpack.torch.check"
    )
    raise BatchError(message)


def _folders_of(dataset: object) -> list[Folder]:
    """The folders that a data set was read from."""
    if isinstance(dataset, PackedDataset):
        return dataset.folders
    return folders_of(dataset)


def _drawn(trainer: Trainer, folders: Sequence[Folder]) -> tuple[Batch, list[Mapping[str, object]]]:
    """Draws the first batch of the trainer; also returns the rows in it."""
    collator, calls = trainer.data_collator, []

    def recorded(rows: list[Mapping[str, object]]) -> Batch:
        calls.append(list(rows))
        try:
            batch: Batch = collator(rows)
        except Exception as failed:
            if is_ours(collator):
                raise
            message = f"{_named(collator)} cannot take packed rows; pass data_collator=fastpack.torch.collate"
            raise BatchError(message) from failed
        return batch

    # Worker processes would record the rows in their own memory.
    alone = {
        "dataloader_num_workers": 0,
        "dataloader_prefetch_factor": None,
        "dataloader_persistent_workers": False,
    }
    args, prepared = trainer.args, trainer.accelerator._dataloaders  # noqa: SLF001  where it keeps what it prepared
    before, known = {name: getattr(args, name) for name in alone}, len(prepared)
    with _same_random_states():
        try:
            trainer.data_collator = recorded
            _set(args, alone)
            loader = trainer.get_train_dataloader()
            _check_order(loader, folders)
            batch = next(iter(loader), None)
            if hasattr(loader, "end"):
                loader.end()
        finally:
            trainer.data_collator = collator
            _set(args, before)
            del prepared[known:]
    if batch is None:
        message = "the train_dataset of the Trainer has no rows; look at `dropped` in the report of the packed folder"
        raise BatchError(message)
    return dict(batch), [full_row(row, number) for number, row in enumerate(calls[0])]


def _named(collator: object) -> str:
    """The name of a collator, for a message."""
    while isinstance(collator, partial):
        collator = collator.func
    return f"`{getattr(collator, '__name__', type(collator).__name__)}`, the collator of this Trainer,"


def _set(args: TrainingArguments, values: Mapping[str, object]) -> None:
    for name, value in values.items():
        setattr(args, name, value)


@contextmanager
def _same_random_states() -> Iterator[None]:
    """Restores the random states that drawing a batch changes."""
    states = random.getstate(), np.random.get_state()  # noqa: NPY002  the state that samplers draw from
    on_devices = torch.get_rng_state(), torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002  as above
        torch.set_rng_state(on_devices[0])
        if on_devices[1]:
            torch.cuda.set_rng_state_all(on_devices[1])


def _check_order(loader: object, folders: Sequence[Folder]) -> None:
    """Refuses a sampler that shuffles rows of balanced groups."""
    balanced = any(folder.options.get("order") == "balanced" for folder in folders)
    sampler = getattr(loader, "batch_sampler", None)
    while hasattr(sampler, "batch_sampler") or hasattr(sampler, "sampler"):
        sampler = getattr(sampler, "batch_sampler", None) or getattr(sampler, "sampler", None)
    name = type(sampler).__name__
    if balanced and sampler is not None and name not in _ORDERED:
        message = (
            f"the rows were packed with order=Balanced(...), and `{name}` shuffles them out of their groups; pass "
            'train_sampling_strategy="sequential", or use fastpack.torch.PackSampler'
        )
        raise BatchError(message)


def _lengths_of(row: Mapping[str, object], number: int) -> list[int]:
    """The lengths of the documents in a row that was passed to a collator."""
    ids = np.asarray(row.get("input_ids", []))
    if "seq_lengths" in row:
        lengths = [int(length) for length in np.asarray(row["seq_lengths"])]
    elif "position_ids" in row:
        starts = np.flatnonzero(np.asarray(row["position_ids"]) == 0)
        lengths = [int(length) for length in np.diff([*starts, len(ids)])]
    else:
        has = ", ".join(f"`{name}`" for name in row)
        message = (
            f"row {number} of the first batch has only {has}, so nothing says where its documents begin; pass "
            "remove_unused_columns=False to the Trainer, with data_collator=fastpack.torch.collate"
        )
        raise BatchError(message)
    if sum(lengths) != len(ids):
        message = (
            f"row {number} of the first batch has {len(ids):,} tokens, but its documents come to {sum(lengths):,}: "
            "something cut it; pass max_length=None to a TRL trainer"
        )
        raise BatchError(message)
    return lengths


def _check_contents(
    batch: Batch, rows: Sequence[Mapping[str, object]], lengths: Sequence[Sequence[int]], collator: object
) -> None:
    """Refuses a batch that holds other tokens, labels or weights than its rows."""
    flat = len(batch["input_ids"]) == 1
    for name, fill in (("input_ids", None), ("labels", NOT_TRAINED), ("loss_weights", 0)):
        found = batch.get(name)
        if name == "loss_weights":
            found = getattr(batch.get("labels"), "loss_weights", None)
        if found is None or name not in rows[0]:
            continue
        if name == "labels" and found.dtype != torch.int64:
            message = (
                f"{_named(collator)} makes labels of {found.dtype}, which no loss takes; pass "
                "data_collator=fastpack.torch.collate"
            )
            raise BatchError(message)
        expected = [np.array(row[name]) for row in rows]
        if name == "labels":
            for values, documents in zip(expected, lengths, strict=True):
                values[np.cumsum([0, *documents[:-1]])] = NOT_TRAINED
        lines = [np.concatenate(expected)] if flat else expected
        batch_lines = [np.asarray(line.cpu()) for line in found.as_subclass(torch.Tensor)]
        if len(lines) != len(batch_lines) or not all(map(partial(_is_same, fill=fill), lines, batch_lines)):
            message = (
                f"column `{name}` of the first batch is not that of its rows: {_named(collator)} made others; pass "
                "data_collator=fastpack.torch.collate"
            )
            raise BatchError(message)


def _is_same(expected: Values, line: Values, *, fill: float | None) -> bool:
    """True if a line of a batch equals that of a row, possibly padded or shifted by one place."""
    size = len(expected)
    same = np.array_equal(line[:size], expected) and (fill is None or bool((line[size:] == fill).all()))
    shifted = fill is not None and np.array_equal(line[: size - 1], expected[1:])
    return same or shifted
