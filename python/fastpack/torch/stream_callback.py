"""`StreamCallback`: lets a `Trainer` train on a stream, and saves the state of the stream in checkpoints."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from torch.utils.data import DataLoader

from fastpack.errors import BatchError, OptionError, OutputError, StorageError
from fastpack.storage.removal import Temporary
from fastpack.torch.callback import calling_trainer
from fastpack.torch.streams import StreamDataset

try:
    from transformers import TrainerCallback
except ImportError as missing:
    _MESSAGE = "fastpack.torch.StreamCallback needs `transformers`: pip install transformers"
    raise ImportError(_MESSAGE) from missing

if TYPE_CHECKING:
    from transformers import Trainer, TrainerControl, TrainerState, TrainingArguments

    from fastpack.streaming.states import StateDict

__all__ = ["StreamCallback"]

_SEALED: Final = b'{"blake3":'
"""The beginning of a saved state."""

_FILE: Final = "fastpack_stream.json"
"""The file in a checkpoint that holds the state of the stream."""


class StreamCallback(TrainerCallback):  # type: ignore[misc]  # transformers is no dependency of the type check
    """Lets a `Trainer` train on a `StreamDataset`: each rank on its own rows, each document once, also across a resume.

    The loader of the trainer is a plain `DataLoader`, since Accelerate would share the rows of a rank among all ranks
    once more. Checkpoints hold the state of all ranks in `fastpack_stream.json`, and `resume_from_checkpoint` resumes
    from there. All ranks must save at the same steps, as `Trainer` does.

    Raises:
        BatchError: The `train_dataset` is no `StreamDataset`, the states of its ranks cannot be joined, or a checkpoint has no
            state of a stream; before the first step.
    """

    def on_init_end(
        self,
        args: TrainingArguments,
        state: TrainerState,  # noqa: ARG002  as a Trainer calls it
        control: TrainerControl,  # noqa: ARG002  likewise
        **others: object,  # noqa: ARG002  likewise
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
        **others: object,  # noqa: ARG002  likewise
    ) -> None:
        """Resumes the stream from the checkpoint, and joins the states of all ranks once, so that no save can fail later.

        Raises:
            BatchError: The checkpoint has no state of a stream, or the states of all ranks cannot be joined.
        """
        if state.global_step:
            folder = _resumed_from() or Path(args.output_dir, f"checkpoint-{state.global_step}")
            _load(self._dataset, folder / _FILE)
        self._dataset.check_gathering(together=True)

    def on_save(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002  as a Trainer calls it
        **others: object,  # noqa: ARG002  likewise
    ) -> None:
        """Writes the state of all ranks into the checkpoint: whole, or not at all.

        Raises:
            BatchError: The ranks are at different rows.
            StorageError: The file cannot be written.
        """
        gathered = self._dataset.gathered_state()
        if state.is_world_process_zero or (args.save_on_each_node and state.is_local_process_zero):
            _save(gathered, Path(args.output_dir, f"checkpoint-{state.global_step}") / _FILE)


def _load(dataset: StreamDataset, file: Path) -> None:
    """Resumes a data set from a file in a checkpoint.

    Raises:
        BatchError: The file is not there, cannot be read, or holds no state that the stream can resume from.
    """
    try:
        dataset.load_state_dict(json.loads(file.read_bytes()))
    except FileNotFoundError as missing:
        message = f"{file} is not there: the checkpoint was saved without StreamCallback"
        raise BatchError(message) from missing
    except OSError as refused:
        message = f"{file} cannot be read: {refused.strerror or refused}"
        raise BatchError(message) from refused
    except OptionError as refused:
        message = f"{file} holds a state that {refused.reason}"
        raise BatchError(message) from refused
    except (ValueError, RecursionError) as refused:
        message = f"{file} is no JSON, so it was changed since it was saved: {refused}"
        raise BatchError(message) from refused


def _save(state: StateDict, file: Path) -> None:
    """Writes a state, whole or not at all, over one that was saved there before.

    Raises:
        OutputError: Another file lies there.
        StorageError: It cannot be written.
    """
    try:
        with Temporary(file) as new:
            new.path.write_text(json.dumps(state, separators=(",", ":")), encoding="utf-8")
            new.write_over(lambda begin: begin.startswith(_SEALED))
    except OutputError:
        raise
    except OSError as refused:
        raise StorageError(
            refused.errno, f"{refused.strerror}; the state of the stream", str(file)
        ) from refused


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
