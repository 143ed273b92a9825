"""`collate`: packed rows to the tensors of one batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

import numpy as np
import torch

from fastpack._fastpack import LABEL_SPANS, expand_row, row_boundaries
from fastpack.arguments.checks import check_choice, check_switch, check_type, is_series, shown, whole_number
from fastpack.errors import BatchError, FastpackError, OptionError, OptionTypeError
from fastpack.torch.losses import WeightedLabels
from fastpack.types import IMAGES, NOT_TRAINED, TOKEN_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

__all__ = ["Batch", "Mask", "PaddedTo", "collate"]

Mask: TypeAlias = Literal["documents", "flex", "padding"]
PaddedTo: TypeAlias = Literal["longest"] | int
Values: TypeAlias = "npt.NDArray[np.int64 | np.float32]"
Batch: TypeAlias = "dict[str, torch.Tensor]"
"""The keyword arguments of a model's `forward`: tensors, and a few numbers."""

_WEIGHTS: Final = ("loss_weights", "label_weights")
"""The columns of weights, in the full and the compact layout."""

_MOST: Final = 2**31 - 1
"""The most tokens of a row."""

_LARGEST: Final = 2**63 - 1
"""The greatest value of a column."""


def collate(
    rows: Sequence[Mapping[str, object]],
    *,
    padded: PaddedTo | None = None,
    mask: Mask = "documents",
    shift_labels: bool = False,
    loss_weights: bool = False,
    seq_idx: bool = False,
    pad_token_id: int = 0,
) -> Batch:
    """Makes a batch of packed rows: the keyword arguments of a model, in which no document attends to another.

    The rows are laid end to end, as one row of shape `[1, T]`, with no `attention_mask`. Each attention
    implementation of `transformers` finds the documents in that: flash attention by `cu_seq_lens_q` and
    `cu_seq_lens_k`, the others by `position_ids`. As `collate_fn` of a `DataLoader` or `data_collator` of a
    `Trainer`; options by `functools.partial`.

    Args:
        rows: Packed rows with `input_ids` and `seq_lengths`, in the full or the compact layout; `labels` and
            `loss_weights` if they have them.
        padded: Rows stay apart, as `[B, L]`: `L` is this number, or the longest row with `"longest"`. Padding has the
            label -100, and positions that count up from 0.
        mask: The attention mask of padded rows: `"documents"` is a 4-D mask, added to attention scores;
            `"flex"` a `BlockMask` of flex attention; `"padding"` the usual mask of zeros and ones, for rows that hold
            one document each.
        shift_labels: Labels stand one place before their tokens, for a model that does not shift them itself. Rows
            that were packed with `shift_labels=True` need it.
        loss_weights: Adds the weights of the labels as `loss_weights`, for a loss of your own. The `labels` carry
            them for `fastpack.torch.loss` anyway.
        seq_idx: Adds the number of each token's document, which Mamba kernels take.
        pad_token_id: The id that pads `input_ids`.

    Returns:
        `input_ids`, `labels` and `position_ids` (int64), `use_cache=False`, and where rows are laid end to end
        `cu_seq_lens_q`, `cu_seq_lens_k` (int32), `max_length_q` and `max_length_k`; where they are padded
        `attention_mask`.

    Raises:
        BatchError: Rows lack a column that others have, contradict themselves, hold what is no list of numbers of the right
            type, or have labels that are shifted already.
        OptionError: An option has a value that it cannot have, such as `padded=` less than a row.

    Examples:
        >>> from fastpack.torch import collate
        >>> batch = collate([{"input_ids": [5, 6, 7], "labels": [-100, 6, -100], "seq_lengths": [2, 1]}])
        >>> batch["position_ids"].tolist(), batch["cu_seq_lens_q"].tolist(), "attention_mask" in batch
        ([[0, 1, 0]], [0, 2, 3], False)
    """
    _check_options(padded, mask, shift_labels, loss_weights, seq_idx, pad_token_id)
    if not is_series(rows):
        message = f"must be a list of packed rows, not `{shown(rows)}`"
        raise OptionTypeError(message, "rows")
    rows = list(rows)
    lengths = [lengths_of(row, number) for number, row in enumerate(rows)]
    if not lengths:
        message = "no rows to make a batch of; give `collate` one row at least"
        raise BatchError(message)
    _refuse_pictures(rows)
    rows = [full_row(row, number) for number, row in enumerate(rows)]
    names = [name for name in TOKEN_COLUMNS if any(name in row for row in rows)]
    columns = {name: [_column(rows, name, number) for number in range(len(rows))] for name in names}
    totals = _check_lengths(columns, lengths)
    width = None if padded is None else _width_of(padded, totals)
    if width is None:
        joined = {name: _joined(name, of_rows) for name, of_rows in columns.items()}
        batch, starts, documents = end_to_end(joined, lengths, numbers=seq_idx)
    else:
        positions, starts, _, _, numbers = row_boundaries(lengths, width, numbers=True)
        batch = _side_by_side(columns, width, pad_token_id)
        if mask == "padding":
            _check_one_document(columns, lengths)
        batch |= {"position_ids": torch.from_numpy(positions).view(len(rows), width), "use_cache": False}
        documents = torch.from_numpy(numbers).view(len(rows), width)
        batch |= {"attention_mask": _mask_of(documents, mask)}
    if seq_idx:
        batch["seq_idx"] = documents.int()
    if "labels" in batch:
        _place_labels(batch, starts, shift=shift_labels)
    if not loss_weights:
        batch.pop("loss_weights", None)
    elif "loss_weights" not in batch:
        message = 'rows have no column `loss_weights`; pack with columns=[..., "loss_weights"]'
        raise BatchError(message)
    return batch


def end_to_end(
    columns: Mapping[str, Values], lengths: Sequence[npt.NDArray[np.int64]], *, numbers: bool = False
) -> tuple[Batch, npt.NDArray[np.int64], torch.Tensor]:
    """A batch of rows that are laid end to end, of columns that it keeps; where documents begin; and the `numbers` of these."""
    positions, starts, ends, longest, of_tokens = row_boundaries(lengths, None, numbers=numbers)
    batch: Batch = {name: torch.from_numpy(values)[None] for name, values in columns.items()}
    cumulative = torch.from_numpy(ends)
    batch |= {"position_ids": torch.from_numpy(positions)[None], "use_cache": False}
    batch |= {"cu_seq_lens_q": cumulative, "cu_seq_lens_k": cumulative.clone()}
    batch |= {"max_length_q": longest, "max_length_k": longest}
    return batch, starts, torch.from_numpy(of_tokens)[None]


def _check_options(
    padded: object,
    mask: object,
    shift_labels: object,
    loss_weights: object,
    seq_idx: object,
    pad_token_id: object,
) -> None:
    is_int = isinstance(padded, (int, np.integer)) and not isinstance(padded, bool)
    is_number = is_int and 0 < int(padded) <= _MOST  # type: ignore[call-overload]  # the line above has looked
    if not (padded is None or (isinstance(padded, str) and padded == "longest") or is_number):
        message = f'must be a number of tokens or "longest", not `{shown(padded)}`'
        raise OptionError(message, "padded")
    whole_number("pad_token_id", pad_token_id, -_MOST)
    check_choice("mask", mask, Mask)
    if padded is None and mask != get_args(Mask)[0]:
        message = f'rows that are laid end to end have none; `"{mask}"` needs `padded`'
        raise OptionError(message, "mask")
    switches = {"shift_labels": shift_labels, "loss_weights": loss_weights, "seq_idx": seq_idx}
    for option, value in switches.items():
        check_switch(option, value)


def _refuse_pictures(rows: Sequence[Mapping[str, object]]) -> None:
    """Refuses rows with pictures, whose tokens alone would be trained on."""
    for number, row in enumerate(rows):
        pictures = row.get(IMAGES)
        if pictures is not None and len(pictures):  # type: ignore[arg-type]  # a list
            message = (
                f"row {number} of the batch has pictures in `{IMAGES}`, which `collate` does not open; use a "
                "fastpack.torch.PictureCollator"
            )
            raise BatchError(message)


def lengths_of(row: Mapping[str, object], number: int) -> npt.NDArray[np.int64]:
    """The lengths of the documents of a row."""
    check_type("rows", row, Mapping, "packed rows, which map columns to values")
    if "input_ids" not in row:
        has = ", ".join(f"`{name}`" for name in row)
        message = f"row {number} of the batch has no column `input_ids`; it has {has or 'no columns'}"
        raise BatchError(message)
    if "seq_lengths" not in row:
        message = (
            f"row {number} of the batch has no column `seq_lengths`, which says where its documents begin; "
            "pass remove_unused_columns=False where a Trainer has removed it (a fastpack.torch.PackedDataset needs no "
            "such option), or pack with `seq_lengths` among the columns"
        )
        raise BatchError(message)
    lengths = np.ascontiguousarray(_array(row["seq_lengths"], "seq_lengths", number), np.int64)
    if len(lengths) and not 0 <= int(lengths.min()) <= int(lengths.max()) <= _MOST:
        wrong = int(lengths[(lengths < 0) | (lengths > _MOST)][0])
        message = f"row {number} of the batch has the length {wrong} in `seq_lengths`; a document has 0 tokens or more"
        raise BatchError(message)
    return lengths


def full_row(row: Mapping[str, object], number: int) -> Mapping[str, object]:
    """A row in the full layout: one in the compact layout is expanded.

    Raises:
        BatchError: Runs of labels overlap or leave the row.
    """
    spans = next((name for name in LABEL_SPANS if name in row), None)
    if spans is None:
        return row
    ids, lengths, runs = (
        np.ascontiguousarray(_array(row[name], name, number), np.int64)
        for name in ("input_ids", "seq_lengths", spans)
    )
    weights = (
        np.ascontiguousarray(_array(row[_WEIGHTS[1]], _WEIGHTS[1], number), np.float32)
        if _WEIGHTS[1] in row
        else None
    )
    try:
        labels, positions, weights = expand_row(ids, lengths, runs, spans == LABEL_SPANS[1], weights)
    except FastpackError as broken:
        message = f"row {number} of the batch: {broken}; something has cut or padded the row"
        raise BatchError(message) from broken
    full = {name: value for name, value in row.items() if name not in {spans, _WEIGHTS[1]}}
    full |= {"labels": labels, "position_ids": positions}
    return full if weights is None else {**full, _WEIGHTS[0]: weights}


def _column(rows: Sequence[Mapping[str, object]], name: str, number: int) -> Values:
    """The values of a column of a row; arrays and tensors are not copied."""
    row = rows[number]
    if name not in row:
        other = next(other for other, row in enumerate(rows) if name in row)
        message = f"row {number} of the batch has no column `{name}`, which row {other} has"
        raise BatchError(message)
    return _array(row[name], name, number)


def _array(values: object, name: str, number: int) -> Values:
    """The values of a column of a row as an array of numbers.

    Raises:
        BatchError: They are no list of numbers of the type that the column has.
    """
    try:
        if isinstance(values, torch.Tensor):
            there = values.detach().cpu()
            values = (there.float() if there.is_floating_point() else there).numpy()
        found = values if isinstance(values, np.ndarray) else np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as refused:
        raise _no_numbers(values, name, number) from refused
    weighs = name in _WEIGHTS
    if not found.size and found.ndim == 1:
        return found.astype(np.float32 if weighs else np.int64)
    if found.ndim != 1 or found.dtype.kind not in ("iuf" if weighs else "iu"):
        raise _no_numbers(values, name, number)
    if weighs and not np.isfinite(found).all():
        message = f"row {number} of the batch has a weight in `{name}` that is not finite"
        raise BatchError(message)
    if found.dtype == np.uint64 and found.max() > _LARGEST:
        message = (
            f"row {number} of the batch has {found.max()} in `{name}`, more than 64 bits with a sign hold"
        )
        raise BatchError(message)
    return found


def _no_numbers(values: object, name: str, number: int) -> BatchError:
    """The error about values that are no list of numbers."""
    kind = "numbers" if name in _WEIGHTS else "whole numbers of 64 bits"
    message = f"row {number} of the batch has no list of {kind} in `{name}`, but `{shown(values)}`"
    return BatchError(message)


def _check_lengths(
    columns: Mapping[str, Sequence[Values]], lengths: Sequence[npt.NDArray[np.int64]]
) -> list[int]:
    """Refuses rows whose columns have different lengths; returns the tokens of each row."""
    totals = [int(documents.sum()) for documents in lengths]
    for name, rows in columns.items():
        for number, (values, total) in enumerate(zip(rows, totals, strict=True)):
            if len(values) != total:
                message = (
                    f"row {number} of the batch has {len(values):,} values in `{name}`, but its `seq_lengths` come to "
                    f"{total:,}; something has cut or padded the row: set max_length=None in a TRL trainer"
                )
                raise BatchError(message)
    return totals


def _width_of(padded: PaddedTo, totals: Sequence[int]) -> int:
    """The tokens of each padded row."""
    longest = max(totals)
    width = longest if padded == "longest" else int(padded)
    if longest > width:
        message = f"a row has {longest:,} tokens, more than {width:,}"
        raise OptionError(message, "padded")
    return width


def _joined(name: str, rows: Sequence[Values]) -> Values:
    """Concatenates the values of all rows in one pass."""
    weighs = name == "loss_weights"
    # Numbers of 64 bits without a sign are known to fit.
    return np.concatenate(rows, dtype=np.float32 if weighs else np.int64, casting="unsafe")


def _side_by_side(columns: Mapping[str, Sequence[Values]], width: int, pad_token_id: int) -> Batch:
    """Pads the columns of all rows to one length."""
    fills = {"input_ids": pad_token_id, "labels": NOT_TRAINED, "loss_weights": 0}
    batch: Batch = {}
    for name, rows in columns.items():
        matrix = np.full((len(rows), width), fills[name], np.float32 if name == "loss_weights" else np.int64)
        for line, values in zip(matrix, rows, strict=True):
            line[: len(values)] = values
        batch[name] = torch.from_numpy(matrix)
    return batch


def _mask_of(documents: torch.Tensor, mask: Mask) -> object:
    """The attention mask of padded rows, of the given kind, by the number of each token's document."""
    if mask == "padding":
        return (documents == 0).long()
    if mask == "flex":
        return _flex_mask(documents)
    rows, width = documents.shape
    seen = (documents[:, :, None] == documents[:, None, :]).tril_()
    return torch.full((rows, 1, width, width), torch.finfo(torch.float32).min).masked_fill_(
        seen[:, None], 0.0
    )


def _check_one_document(
    columns: Mapping[str, Sequence[Values]], lengths: Sequence[npt.NDArray[np.int64]]
) -> None:
    """Refuses rows of several documents; padding without labels at the end of a row is not counted."""
    for number, documents in enumerate(lengths):
        behind = columns["labels"][number][documents[0] :] if "labels" in columns else documents[1:]
        if len(documents) > 1 and (behind != NOT_TRAINED).any():
            message = (
                f"row {number} of the batch holds {len(documents)} documents, which a mask of zeros and ones makes one; "
                'pass mask="documents", or pack with strategy="none"'
            )
            raise BatchError(message)


def _flex_mask(documents: torch.Tensor) -> object:
    from torch.nn.attention.flex_attention import create_block_mask  # noqa: PLC0415  slow to import

    def sees(row: torch.Tensor, _head: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return (query >= key) & (documents[row, query] == documents[row, key])

    rows, width = documents.shape
    return create_block_mask(sees, rows, None, width, width, device=str(documents.device))


def _place_labels(batch: Batch, starts: npt.NDArray[np.int64], *, shift: bool) -> None:
    """Places each label at its token, or with `shift` one place earlier, together with its weight."""
    ids, labels = batch["input_ids"], batch["labels"]
    weights = batch.get("loss_weights")
    other = labels.numpy() != ids.numpy()
    other &= labels.numpy() != NOT_TRAINED
    were_shifted = bool(other.any()) and are_shifted(ids, labels)
    if were_shifted and not shift:
        message = (
            "the labels of these rows are shifted already, and a model of `transformers` shifts them once more; "
            "pack without `shift_labels`, or pass shift_labels=True to `collate` for a model that does not shift them"
        )
        raise BatchError(message)
    if not were_shifted:
        # The first token of a document has no label: no earlier token of the document predicts it.
        labels.numpy().reshape(-1)[starts] = NOT_TRAINED
        if shift:
            labels = _shifted(labels, NOT_TRAINED)
            weights = None if weights is None else _shifted(weights, 0)
    batch["labels"] = labels
    if weights is not None:
        batch["labels"] = WeightedLabels.of(labels, weights)
        batch["loss_weights"] = weights


def _shifted(values: torch.Tensor, fill: float) -> torch.Tensor:
    """Values one place to the left."""
    return torch.nn.functional.pad(values[..., 1:], (0, 1), value=fill)


def are_shifted(ids: torch.Tensor, labels: torch.Tensor) -> bool:
    """True if labels are shifted: each is the next token."""
    trained = labels[..., :-1] != NOT_TRAINED
    return bool((labels[..., :-1] == ids[..., 1:])[trained].all()) and bool(
        (labels[..., -1] == NOT_TRAINED).all()
    )
