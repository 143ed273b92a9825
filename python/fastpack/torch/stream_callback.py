"""`StreamCallback`: lets a `Trainer` train on a stream, and saves the state of the stream in checkpoints."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from torch.utils.data import DataLoader

from fastpack.errors import BatchError
from fastpack.torch.callback import calling_trainer
from fastpack.torch.streams import StreamDataset

try:
    from transformers import TrainerCallback
except ImportError as missing:
    _MESSAGE = "fastpack.torch.StreamCallback needs `transformers`: pip install transformers"
    raise ImportError(_MESSAGE) from missing

if TYPE_CHECKING:
    from transformers import Trainer, TrainerControl, TrainerState, TrainingArguments

__all__ = ["StreamCallback"]

_FILE: Final = "fastpack_stream.json"
"""The file in a checkpoint that holds the state of the stream."""


class StreamCallback(TrainerCallback):  # type: ignore[misc]  # transformers is no dependency of the type check
    """Lets a `Trainer` train on a `StreamDataset`: each rank on its own rows, each document once, also across a resume.

    The loader of the trainer is a plain `DataLoader`, since Accelerate would share the rows of a rank among all ranks
    once more. Checkpoints hold the state of all ranks in `fastpack_stream.json`, and `resume_from_checkpoint` resumes
    from there. All ranks must save at the same steps, as `Trainer` does.

    Raises:
        BatchError: The `train_dataset` is no `StreamDataset`, or a checkpoint has no state of a stream.
    """

    def on_init_end(
        self,
        args: TrainingArguments,
        state: TrainerState,  # noqa: ARG002  as a Trainer calls it
        control: TrainerControl,  # noqa: ARG002  likewise
        **given: object,  # noqa: ARG002  likewise
    ) -> None:
        """Sets the loader of the trainer."""
        trainer = calling_trainer()
        if not isinstance(trainer.train_dataset, StreamDataset):
            kind = type(trainer.train_dataset).__qualname__
            message = (
                f"StreamCallback needs a fastpack.torch.StreamDataset as `train_dataset`, not a `{kind}`"
            )
            raise BatchError(message)
        # The stream resumes at its own state, so the trainer must not skip batches.
        args.ignore_data_skip = True
        self._dataset = trainer.train_dataset
        trainer.get_train_dataloader = partial(_loader, trainer)

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002  as a Trainer calls it
        **given: object,  # noqa: ARG002  likewise
    ) -> None:
        """Resumes the stream from the checkpoint.

        Raises:
            BatchError: The checkpoint has no state of a stream.
        """
        if not state.global_step:
            return
        folder = _resumed_from() or Path(args.output_dir, f"checkpoint-{state.global_step}")
        try:
            self._dataset.load_state_dict(json.loads((folder / _FILE).read_bytes()))
        except FileNotFoundError as missing:
            message = f"{folder / _FILE} is not there: the checkpoint was saved without StreamCallback"
            raise BatchError(message) from missing

    def on_save(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002  as a Trainer calls it
        **given: object,  # noqa: ARG002  likewise
    ) -> None:
        """Writes the state of all ranks into the checkpoint."""
        gathered = self._dataset.gathered_state()
        if state.is_world_process_zero:
            folder = Path(args.output_dir, f"checkpoint-{state.global_step}")
            (folder / _FILE).write_text(json.dumps(gathered))


def _loader(trainer: Trainer) -> DataLoader[object]:
    """The batches of this rank."""
    args = trainer.args
    return DataLoader(
        trainer.train_dataset, batch_size=args.per_device_train_batch_size, collate_fn=trainer.data_collator
    )


def _resumed_from() -> Path | None:
    """The checkpoint given to `Trainer.train`, from the call stack: callbacks do not get it."""
    frame = sys._getframe(1)  # noqa: SLF001  a documented function of CPython
    while frame is not None:
        named = frame.f_locals.get("resume_from_checkpoint")
        if isinstance(named, str):
            return Path(named)
        frame = frame.f_back  # type: ignore[assignment]  # none above the first
    return None
