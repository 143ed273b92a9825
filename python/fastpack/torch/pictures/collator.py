"""`PictureCollator`: packed rows with pictures to the tensors of one batch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import torch

from fastpack.arguments.checks import check_switch, check_type, is_series, reason_of, shown
from fastpack.dataset.packed_files import RemoteAccess
from fastpack.dataset.pictures.files import PictureFiles
from fastpack.errors import BatchError, OptionTypeError
from fastpack.runtime.ranks import rank_of
from fastpack.torch.collation import collate, full_row, lengths_of
from fastpack.torch.pictures.documents import documents_of, pictures_of_row
from fastpack.torch.pictures.masks import document_masks_of
from fastpack.torch.pictures.packed import folders_in, packed_processor
from fastpack.torch.pictures.positions import rope_index_of
from fastpack.torch.pictures.processing import PictureProcessing, joined
from fastpack.types import IMAGES, NOT_TRAINED

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    from PIL.Image import Image
    from transformers import PreTrainedConfig, ProcessorMixin

    from fastpack.dataset.folder import Folder
    from fastpack.dataset.pictures.references import PictureReference
    from fastpack.options.storage import Storage
    from fastpack.torch.collation import Batch
    from fastpack.torch.pictures.processing import Values
    from fastpack.types import StrPath

__all__ = ["PictureCollator"]

Lengths: TypeAlias = "npt.NDArray[np.int64]"
"""The lengths of documents, or a number for each token."""

_OF_FLASH: Final = ("cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k")
"""The arguments of flash attention that `collate` makes. Models pass them to their vision part too, whose boundaries differ."""


class PictureCollator:
    """Makes a batch of packed rows with pictures: opens the pictures, and runs the processor on those of each document.

    As `collate_fn` of a `DataLoader`, whose workers then open the pictures, or `data_collator` of a `Trainer` or of
    TRL's `SFTTrainer` (with the settings of `fastpack.hf.sft_config(images=True)`). Rows are laid end to end, as by
    `collate`, and each attention implementation finds the documents by `position_ids`.

    Examples:
        >>> from fastpack.torch import PackedDataset, PictureCollator
        >>> rows = PackedDataset("packed")  # doctest: +SKIP
        >>> collator = PictureCollator("model", model, packed=rows)  # doctest: +SKIP
        >>> loader = DataLoader(rows, batch_size=2, collate_fn=collator, num_workers=4)  # doctest: +SKIP
    """

    def __init__(
        self,
        processor: StrPath | ProcessorMixin,
        model: torch.nn.Module | PreTrainedConfig,
        *,
        packed: object = None,
        processor_kwargs: Mapping[str, object] | None = None,
        moved: Mapping[StrPath, StrPath] | None = None,
        fetch: bool | None = None,
        stand_in: bool | None = None,
        shift_labels: bool = False,
        loss_weights: bool = False,
        seq_idx: bool = False,
        storage: Mapping[str, str] | Storage | None = None,
    ) -> None:
        """Loads a processor.

        Args:
            processor: The folder of a model with its processor, or a live processor.
            model: The model that is trained, or its configuration: it says how positions are made. Its weights are not
                kept.
            packed: The packed folder of the rows, its `PackedDataset` or its data set of `fastpack.hf.load`. The
                processor has to be configured as the folder's manifest says, which also names the fields in which records
                hold pictures, where these are not the usual ones.
            processor_kwargs: Options of the image processor that the rows were packed with; those in the manifest of
                `packed` if not given.
            moved: Folders of pictures that lie elsewhere now: the path of each when the rows were packed, and its path
                now; either may be a URL.
            fetch: True if pictures on web servers are fetched; if not given, those of rows in `packed` that were packed with
                `Images(fetch=True)` are.
            stand_in: Adds a small grey picture, as a document without labels, to a batch without pictures, so that each
                rank runs the vision part of the model, as DDP and FSDP need; the gradients of that part are then zero
                rather than missing. If not given, it is added where a run has several ranks.
            shift_labels: As in `collate`.
            loss_weights: As in `collate`.
            seq_idx: As in `collate`.
            storage: Options of remote storage, or a `Storage`, for pictures in stores; those that the rows are read with if
                not given.

        Raises:
            OptionError: The processor does not serve, or is another one than the rows were packed with.
            InputNotFoundError: There is no such folder.
        """
        for option, value in {
            "shift_labels": shift_labels,
            "loss_weights": loss_weights,
            "seq_idx": seq_idx,
        }.items():
            check_switch(option, value)
        check_type("moved", moved, (Mapping, type(None)), "a mapping of folders to folders")
        check_type("fetch", fetch, (bool, type(None)), "True, False or None")
        check_type("stand_in", stand_in, (bool, type(None)), "True, False or None")
        folders = folders_in(packed)
        recorded = [packed_processor(folder) for folder in folders]
        if processor_kwargs is None and recorded:
            options = recorded[0].get("options")
            processor_kwargs = options if isinstance(options, dict) else None
        self._processing = PictureProcessing(processor, processor_kwargs)
        for folder in folders:
            self.check_folder(folder)
        self._rope_index = rope_index_of(model)
        self._masks = document_masks_of(model, self._processing.token_columns)
        access = None if storage is None else RemoteAccess.of("PictureCollator", storage)
        self._files = PictureFiles(folders, moved=moved, fetch=fetch, access=access)
        self._collate = partial(
            collate, shift_labels=shift_labels, loss_weights=loss_weights, seq_idx=seq_idx
        )
        if stand_in is None:
            # Of the process that makes the collator: worker processes know nothing of ranks.
            stand_in = rank_of(None, None).world_size > 1
        self._stand_in = self._processing.stand_in() if stand_in else None

    def check_folder(self, folder: Folder) -> None:
        """Refuses a folder whose rows were packed with another processor, or with other options of it.

        Raises:
            OptionError: They were.
        """
        self._processing.check_configuration(packed_processor(folder), folder.name)

    def __call__(self, rows: Sequence[Mapping[str, object]]) -> Batch:
        """Makes a batch.

        Args:
            rows: Packed rows with `input_ids`, `seq_lengths`, `images`, and the columns that the processor returns for
                each token, such as `mm_token_type_ids`.

        Returns:
            What `collate` returns but for the arguments of flash attention, which takes `position_ids`; what the
            processor returns of pictures, such as `pixel_values` and `image_grid_thw`; and its columns of tokens. For a
            model whose positions have three dimensions, `position_ids` are [4, 1, T]: the first ones count the tokens of
            each document, the others are those of the model. For a model whose own masks of packed rows are wrong, as those
            of Gemma 3 are in transformers 5.24, `attention_mask` has the right one for each kind of layers.

        Raises:
            BatchError: A picture cannot be opened, or has another size than when it was packed; or as in `collate`.
        """
        if not is_series(rows):
            message = f"must be a list of packed rows, not `{shown(rows)}`"
            raise OptionTypeError(message, "rows")
        lengths = [lengths_of(row, number) for number, row in enumerate(rows)]
        rows = [full_row(row, number) for number, row in enumerate(rows)]
        per_document = [
            values for number, row in enumerate(rows) for values in self._of_row(row, lengths[number], number)
        ]
        if self._stand_in and rows and not any(per_document):
            values, tokens = self._stand_in
            rows.append(self._placeholder_row(tokens, rows[0]))
            lengths.append(np.array(rows[-1]["seq_lengths"], np.int64))
            per_document.append(values)
        batch = self._collate([_without_pictures(row) for row in rows])
        for name in _OF_FLASH:
            batch.pop(name, None)
        for name in self._processing.token_columns:
            batch[name] = torch.from_numpy(
                np.concatenate([_tokens(row, name, at) for at, row in enumerate(rows)])
            )[None]
        of_documents = np.concatenate(lengths)
        if self._masks is not None:
            batch["attention_mask"] = self._masks.of_batch(batch, of_documents.tolist())
        if self._rope_index is not None:
            rope = self._rope_positions(batch, of_documents, per_document)
            batch["position_ids"] = torch.cat([batch["position_ids"][None], rope])
        return batch | joined([values for values in per_document if values])

    def _of_row(self, row: Mapping[str, object], lengths: Lengths, number: int) -> list[Values]:
        """The tensors of the pictures of each document of a row; none for a document without pictures."""
        ids = _tokens(row, "input_ids", number)
        placeholder = self._processing.placeholder
        documents = documents_of(pictures_of_row(row, number), ids, lengths, placeholder, number)
        per_document: list[Values] = []
        for references, end, length in zip(documents, lengths.cumsum(), lengths, strict=True):
            places = int((ids[end - length : end] == placeholder).sum())
            per_document.append(self._of_document(references, places, number) if references else {})
        return per_document

    def _of_document(self, references: Sequence[PictureReference], places: int, number: int) -> Values:
        """The tensors of the pictures of a document of row `number`, whose tokens have this number of `places`."""
        pictures = [self._opened(reference, number) for reference in references]
        named = f"the {references[0]}" + (f" and {len(references) - 1} more" if len(references) > 1 else "")
        try:
            values, tokens = self._processing.of_document(pictures)
        except MemoryError:
            raise
        except Exception as raised:
            message = f"row {number} of the batch: the processor cannot process {named}: {reason_of(raised)}"
            raise BatchError(message) from raised
        needed = int((tokens["input_ids"] == self._processing.placeholder).sum())
        if needed != places:
            message = (
                f"row {number} of the batch: the processor makes {needed:,} tokens of {named}, but the row has "
                f"{places:,}; give the processor and the options that the rows were packed with"
            )
            raise BatchError(message)
        return values

    def _opened(self, reference: PictureReference, number: int) -> Image:
        """A picture of row `number`."""
        try:
            return self._files.opened(reference)
        except ValueError as refused:
            message = f"row {number} of the batch: {refused}"
            raise BatchError(message) from refused.__cause__

    def _placeholder_row(self, tokens: Values, row: Mapping[str, object]) -> dict[str, object]:
        """A row of one document without labels that shows the picture that stands in."""
        ids = tokens["input_ids"][0].numpy()
        columns: dict[str, object] = {"input_ids": ids, "seq_lengths": [len(ids)]}
        fills = {"labels": NOT_TRAINED, "loss_weights": 0.0}
        columns |= {name: np.full(len(ids), fill) for name, fill in fills.items() if name in row}
        return columns | {name: tokens[name][0].numpy() for name in self._processing.token_columns}

    def _rope_positions(self, batch: Batch, lengths: Lengths, per_document: Sequence[Values]) -> torch.Tensor:
        """The positions in three dimensions of the documents of a batch, [3, 1, T], each document alone."""
        columns = {name: batch[name] for name in ("input_ids", *self._processing.token_columns)}
        positions = []
        for values, end, length in zip(per_document, lengths.cumsum(), lengths, strict=True):
            if values and self._rope_index is not None:
                tokens = {name: column[:, end - length : end] for name, column in columns.items()}
                positions.append(self._rope_index.of_document(tokens | values))
            else:
                positions.append(torch.arange(length).expand(3, -1))
        return torch.cat(positions, 1)[:, None]


def _without_pictures(row: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in row.items() if name != IMAGES}


def _tokens(row: Mapping[str, object], name: str, number: int) -> Lengths:
    """A column of a row that has a whole number for each token.

    Raises:
        BatchError: The row has no such column, or another number of values.
    """
    if name not in row:
        message = (
            f"row {number} of the batch has no column `{name}`, which the processor returns for each token; pack with "
            "`reading.images` and the processor of the model"
        )
        raise BatchError(message)
    values = np.asarray(row[name], np.int64)
    if len(values) != len(np.asarray(row["input_ids"])):
        message = f"row {number} of the batch has other tokens in `{name}` than in `input_ids`; something has cut it"
        raise BatchError(message)
    return values
