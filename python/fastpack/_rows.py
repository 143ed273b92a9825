"""The rules for packed rows, checked on whole tables at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastpack._types import NOT_TRAINED
from fastpack.errors import FastpackError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt

    from fastpack._types import JsonValue

    Numbers = npt.NDArray[np.int64]

__all__ = [
    "Counts",
    "Documents",
    "Lists",
    "broken_rows",
    "counts_of",
    "documents_of",
    "lists_of",
    "objective_of",
]

_PER_TOKEN: Final = ("labels", "position_ids", "document_ids", "loss_weights")
"""The columns that have a value for each token."""

_ROW_EACH: Final = ("generation", "classification", "multi_label")
"""The objectives whose rows hold a document each, and say nothing of where it begins."""

_ANSWERS: Final = ("prompt_ids", "chosen_ids", "rejected_ids", "completion_ids")
"""The columns of a prompt and its answers."""


class Lists(NamedTuple):
    """A column of lists: all values, concatenated, and the offsets of the rows."""

    values: Numbers
    ends: Numbers

    def row_of(self, at: int) -> int:
        """The row of the value at an index."""
        return int(np.searchsorted(self.ends, at, side="right"))


class Counts(NamedTuple):
    """The documents of a table, and their tokens."""

    documents: int
    tokens: int


class Documents(NamedTuple):
    """The documents of a table: their tokens, concatenated, and the start of each."""

    ids: Numbers
    labels: Numbers | None
    starts: Numbers
    lengths: Numbers


def lists_of(table: pa.Table, name: str) -> Lists | None:
    """A column of lists of numbers; `None` if the table does not have it.

    Raises:
        FastpackError: It holds something else.
    """
    if name not in table.column_names:
        return None
    column = table[name].combine_chunks()
    is_list = isinstance(column, (pa.ListArray, pa.LargeListArray))
    values = column.flatten() if isinstance(column, (pa.ListArray, pa.LargeListArray)) else column
    numeric = pa.types.is_integer(values.type) or (
        name == "loss_weights" and pa.types.is_floating(values.type)
    )
    if not is_list or not numeric or column.null_count or values.null_count:
        message = (
            f"column `{name}` is {column.type}, which packed rows have as lists of numbers, without nulls"
        )
        raise FastpackError(message)
    ends = np.cumsum(pc.list_value_length(column).to_numpy(), dtype=np.int64)
    return Lists(values.to_numpy(), ends)


def documents_of(table: pa.Table) -> Documents | None:
    """The documents of rows by `seq_lengths`, or else by `position_ids`; `None` if both columns are missing."""
    ids = lists_of(table, "input_ids")
    if ids is None:
        return None
    labels, lengths, positions = (lists_of(table, name) for name in ("labels", "seq_lengths", "position_ids"))
    if lengths is not None:
        found = lengths.values.astype(np.int64)
        starts = found.cumsum() - found
    elif positions is not None:
        starts = np.flatnonzero(positions.values == 0)
        found = np.diff(np.append(starts, len(ids.values)))
    else:
        return None
    return Documents(ids.values, None if labels is None else labels.values, starts, found)


def counts_of(table: pa.Table, options: Mapping[str, JsonValue]) -> Counts | None:
    """The documents of rows and their tokens; `None` if no column says where documents begin.

    Args:
        table: Rows of one file.
        options: The options that they were packed with, as far as they are known.
    """
    objective = objective_of(options)
    if objective == "preference" or objective in _ROW_EACH:
        names = [name for name in ("input_ids", *_ANSWERS) if name in table.column_names]
        columns = [column for column in (lists_of(table, name) for name in names) if column is not None]
        return Counts(table.num_rows, sum(len(column.values) for column in columns))
    documents = documents_of(table)
    return None if documents is None else Counts(len(documents.lengths), len(documents.ids))


def objective_of(options: Mapping[str, JsonValue]) -> str:
    """The objective among the options of a manifest, which leaves the causal one out."""
    found = options.get("objective")
    if isinstance(found, str):
        return found
    return next(iter(found), "causal") if isinstance(found, dict) else "causal"


def broken_rows(table: pa.Table, options: Mapping[str, JsonValue]) -> Iterator[tuple[int, str]]:
    """The first row that breaks each rule, and a message about it.

    Args:
        table: Rows of one file.
        options: The options that they were packed with, as far as they are known.

    Raises:
        FastpackError: A column holds no lists of numbers.
    """
    objective = objective_of(options)
    if objective == "preference":
        yield from _broken_answers(table, options)
        return
    ids = lists_of(table, "input_ids")
    if ids is None:
        has = ", ".join(f"`{name}`" for name in table.column_names)
        message = f"no column `input_ids`, only {has or 'no columns'}: these are no packed rows"
        raise FastpackError(message)
    if not len(table):
        return
    yield from _first(ids.values < 0, ids, lambda at: f"column `input_ids` has the token {ids.values[at]}")
    most = options.get("max_length")
    sizes_of_rows = np.diff(ids.ends, prepend=0)
    if isinstance(most, int) and (sizes_of_rows > most).any():
        yield (
            int((sizes_of_rows > most).argmax()),
            f"column `input_ids` has more than max_length={most} tokens",
        )
    if objective not in _ROW_EACH:
        yield from _broken_packs(table, ids, objective, options)
        return
    for name in ("attention_mask", "token_type_ids"):
        yield from _broken_lengths(table, name, ids)
    if "labels" in table.column_names:
        yield from _broken_classes(table, several=objective == "multi_label")


def _broken_packs(
    table: pa.Table, ids: Lists, objective: str, options: Mapping[str, JsonValue]
) -> Iterator[tuple[int, str]]:
    """Broken rules for rows that can hold several documents."""
    same = True
    for name in _PER_TOKEN:
        # The labels of spans belong to the targets, not to the tokens.
        column = None if objective == "span" and name == "labels" else lists_of(table, name)
        if column is None:
            continue
        for broken in _broken_lengths(table, name, ids):
            same = False
            yield broken
    yield from _broken_boundaries(table, ids, same=same)
    documents = documents_of(table)
    if objective == "span":
        yield from _broken_targets(table, options)
    elif objective in {"mlm", "function"}:
        yield from _broken_numbers(table)
    elif same and documents is not None and documents.lengths.sum() == len(ids.values):
        yield from _broken_labels(table, ids, documents, options)


def _broken_lengths(table: pa.Table, name: str, ids: Lists) -> Iterator[tuple[int, str]]:
    """The first row in which a column has not as many values as tokens."""
    column = lists_of(table, name)
    if column is None:
        return
    wrong = np.flatnonzero(column.ends != ids.ends)
    if len(wrong):
        sizes = [np.diff(each.ends, prepend=0)[wrong[0]] for each in (column, ids)]
        yield int(wrong[0]), f"column `{name}` has {sizes[0]} values, but `input_ids` {sizes[1]}"


def _broken_classes(table: pa.Table, *, several: bool) -> Iterator[tuple[int, str]]:
    """Labels of rows that are no class, or no truth for each class.

    Raises:
        FastpackError: They are of another type.
    """
    column = table["labels"].combine_chunks()
    kind = column.type
    if several:
        # JSON Lines do not tell 1 from 1.0.
        right = pa.types.is_list(kind) and (
            pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type)
        )
    else:
        right = pa.types.is_integer(kind)
    if not right or column.null_count:
        wanted = "a list of truths" if several else "an integer"
        message = f"column `labels` is {kind}, where rows of this objective have {wanted}, without nulls"
        raise FastpackError(message)
    if not several:
        classes = column.to_numpy()
        wrong = np.flatnonzero((classes < 0) & (classes != NOT_TRAINED))
        if len(wrong):
            yield int(wrong[0]), f"column `labels` has {classes[wrong[0]]}, which is no class"
        return
    sizes = pc.list_value_length(column).to_numpy()
    wrong = np.flatnonzero((sizes != sizes.max()) & (sizes > 0))
    if len(wrong):
        yield int(wrong[0]), f"column `labels` has {sizes[wrong[0]]} values, others have {sizes.max()}"
    truths = pc.list_flatten(column).to_numpy()
    wrong = np.flatnonzero((truths != 0) & (truths != 1))
    if len(wrong):
        row = int(np.searchsorted(sizes.cumsum(), wrong[0], side="right"))
        yield row, f"column `labels` has {truths[wrong[0]]}, which is neither 0 nor 1"


def _broken_answers(table: pa.Table, options: Mapping[str, JsonValue]) -> Iterator[tuple[int, str]]:
    """Broken rules for prompts with answers."""
    prompts = lists_of(table, "prompt_ids")
    before = 0 if prompts is None else np.diff(prompts.ends, prepend=0)
    most = options.get("max_length")
    for name in _ANSWERS:
        found = lists_of(table, name)
        if found is None:
            continue
        for at in np.flatnonzero(found.values < 0)[:1]:
            yield found.row_of(int(at)), f"column `{name}` has the token {found.values[at]}"
        sizes = np.diff(found.ends, prepend=0) + (0 if name == "prompt_ids" else before)
        if isinstance(most, int) and (sizes > most).any():
            yield int((sizes > most).argmax()), f"column `{name}` has more than max_length={most} tokens"


def _broken_numbers(table: pa.Table) -> Iterator[tuple[int, str]]:
    """Labels that are neither tokens nor -100."""
    labels = lists_of(table, "labels")
    if labels is not None:
        wrong = (labels.values < 0) & (labels.values != NOT_TRAINED)
        yield from _first(
            wrong, labels, lambda at: f"column `labels` has {labels.values[at]}, which is no token"
        )


def _broken_targets(table: pa.Table, options: Mapping[str, JsonValue]) -> Iterator[tuple[int, str]]:
    """Broken rules for the targets of spans."""
    yield from _broken_numbers(table)
    labels, lengths = lists_of(table, "labels"), lists_of(table, "target_seq_lengths")
    if labels is None:
        return
    sizes = np.diff(labels.ends, prepend=0)
    most = options.get("max_target_length")
    if isinstance(most, int) and (sizes > most).any():
        yield int((sizes > most).argmax()), f"column `labels` has more than max_target_length={most} tokens"
    if lengths is not None:
        totals = np.concatenate([[0], lengths.values.cumsum(dtype=np.int64)])[lengths.ends]
        wrong = np.flatnonzero(np.diff(totals, prepend=0) != sizes)
        if len(wrong):
            row = int(wrong[0])
            yield row, f"column `target_seq_lengths` does not come to the {sizes[row]} tokens of `labels`"


def _broken_boundaries(table: pa.Table, ids: Lists, *, same: bool) -> Iterator[tuple[int, str]]:
    """Broken rules for `seq_lengths` and `position_ids`."""
    lengths, positions = lists_of(table, "seq_lengths"), lists_of(table, "position_ids")
    if lengths is None and positions is None:
        yield 0, "neither `seq_lengths` nor `position_ids` says where documents begin"
        return
    if lengths is not None:
        yield from _first(
            lengths.values < 1,
            lengths,
            lambda at: f"column `seq_lengths` has {lengths.values[at]}, which is no length",
        )
        totals = np.concatenate([[0], lengths.values.cumsum(dtype=np.int64)])[lengths.ends]
        wrong = np.flatnonzero(np.diff(totals, prepend=0) != np.diff(ids.ends, prepend=0))
        if len(wrong):
            row = int(wrong[0])
            sizes = [int(np.diff(each, prepend=0)[row]) for each in (totals, ids.ends)]
            yield row, f"column `seq_lengths` comes to {sizes[0]:,}, but `input_ids` has {sizes[1]:,} tokens"
            return
    if positions is None or not same:
        return
    documents = documents_of(table)
    if documents is None:
        return
    first = np.flatnonzero(np.concatenate([[True], np.diff(ids.ends) > 0]))
    begins = np.concatenate([[0], ids.ends[:-1]])[first]
    expected = np.arange(len(ids.values)) - np.repeat(documents.starts, documents.lengths)
    at_begin = positions.values[begins] != 0
    if at_begin.any():
        at = int(begins[np.flatnonzero(at_begin)[0]])
        yield ids.row_of(at), f"column `position_ids` begins at {positions.values[at]}, not at 0"
        return
    what = "restart where `seq_lengths` says" if lengths is not None else "count up by 1"
    yield from _first(
        positions.values != expected, positions, lambda _: f"column `position_ids` does not {what}"
    )


def _broken_labels(
    table: pa.Table, ids: Lists, documents: Documents, options: Mapping[str, JsonValue]
) -> Iterator[tuple[int, str]]:
    """Broken rules for `labels` and `loss_weights`."""
    labels = lists_of(table, "labels")
    if labels is None:
        return
    trained = labels.values != NOT_TRAINED
    targets = np.append(ids.values[1:], NOT_TRAINED) if options.get("shift_labels") else ids.values
    wrong = trained & (labels.values != targets)
    untrained = documents.starts + (documents.lengths - 1 if options.get("shift_labels") else 0)
    where = "last" if options.get("shift_labels") else "first"
    at_edge = np.zeros(len(ids.values), bool)
    at_edge[untrained[documents.lengths > 0]] = True
    yield from _first(
        at_edge & trained,
        labels,
        lambda at: (
            f"column `labels` has {labels.values[at]} at the {where} token of a document, where -100 belongs"
        ),
    )
    yield from _first(
        wrong & ~at_edge,
        labels,
        lambda at: f"column `labels` has {labels.values[at]} where the token is {targets[at]}, and not -100",
    )
    weights = lists_of(table, "loss_weights")
    if weights is not None:
        yield from _first(
            ~np.isfinite(weights.values) | (weights.values < 0) | (~trained & (weights.values != 0)),
            weights,
            lambda at: f"column `loss_weights` has {weights.values[at]} for the label {labels.values[at]}",
        )


def _first(broken: npt.NDArray[np.bool_], column: Lists, says: _Says) -> Iterator[tuple[int, str]]:
    """The first row with a broken value, and the message about it."""
    if broken.any():
        at = int(broken.argmax())
        yield column.row_of(at), says(at)


if TYPE_CHECKING:
    from collections.abc import Callable

    _Says = Callable[[int], str]
