"""`Repacked`: packs the documents of packed rows anew for each epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from fastpack._fastpack import row_boundaries, row_documents
from fastpack.arguments.strategy import cuts_at_row_end
from fastpack.dataset.folder import shown_columns
from fastpack.errors import OptionError
from fastpack.options.packing import STRATEGIES
from fastpack.types import TOKEN_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from fastpack.dataset.folder import Folder
    from fastpack.types import Strategy

__all__ = ["Repacked", "check_repackable"]

_PER_DOCUMENT: Final = ("source_file", "source_row", "source_turn")


def check_repackable(folders: Sequence[Folder]) -> None:
    """Refuses rows that cannot be packed anew.

    Raises:
        OptionError: The rows are not from a folder, their tokens were not kept, they have pictures, or documents were cut at
            the ends of rows.
    """
    if not folders:
        message = "a table has no folder with kept tokens; pack_dir(keep_tokens=True) writes one"
        raise OptionError(message, "repack")
    for folder in folders:
        if not folder.keeps_tokens:
            message = f"{folder.name} keeps no tokens; pack it with keep_tokens=True"
            raise OptionError(message, "repack")
        if folder.options.get("reading.images"):
            message = f"{folder.name} has pictures, which are not gathered anew; use fastpack.repack"
            raise OptionError(message, "repack")
        if cuts_at_row_end(strategy := folder.options.get("strategy")):
            message = (
                f'{folder.name} was packed with strategy="{strategy}", which cuts documents where rows '
                "end; use fastpack.repack"
            )
            raise OptionError(message, "repack")


class Repacked:
    """New rows of the documents in packed rows. A row is gathered when it is read; nothing is written.

    Attributes:
        rows: The number of new rows.
    """

    def __init__(self, table: pa.Table) -> None:
        """Finds the documents in a table of the rows: the segments with a label. Padding has none."""
        shown = shown_columns(table.schema)
        labelled = "labels" in (shown or table.column_names)
        if shown is None:
            table = table.select(["seq_lengths", *(["labels"] if labelled else [])])
        found = row_documents(table, "{}")
        documents = np.stack([found.rows, found.numbers, found.starts, found.lengths], 1)
        self._documents = documents[found.labels > 0] if labelled else documents
        self.rows = 0

    def pack(
        self, *, max_length: int | None, strategy: Strategy, most: int | None, seed: int, epoch: int
    ) -> None:
        """Decides which documents share a row in an epoch: alike on all ranks, by the seed plus the number of the epoch."""
        from fastpack.api import plan  # noqa: PLC0415  loads the native module

        found = plan(
            self._documents[:, 3],
            max_length=max_length,
            strategy=STRATEGIES[strategy](**({} if most is None else {"max_documents": most})),
            overlong="error",
            order="shuffle",
            seed=seed + epoch,
        )
        self._offsets, self._members = found.offsets, found.members
        self.rows = len(found)

    def row(self, at: int, packed: Callable[[int], Mapping[str, object]]) -> Mapping[str, object]:
        """The columns of a new row, gathered from the packed rows."""
        members = self._members[self._offsets[at] : self._offsets[at + 1]]
        pieces = [tuple(map(int, self._documents[member])) for member in members]
        rows = [packed(row) for row, *_ in pieces]
        lengths = np.array([length for *_, length in pieces], np.int32)
        columns: dict[str, object] = {}
        for name in rows[0]:
            if name in TOKEN_COLUMNS:
                columns[name] = np.concatenate(
                    [
                        _values(row, name)[start : start + length]
                        for row, (_, _, start, length) in zip(rows, pieces, strict=True)
                    ]
                )
            elif name in _PER_DOCUMENT:
                columns[name] = np.array(
                    [_values(row, name)[number] for row, (_, number, _, _) in zip(rows, pieces, strict=True)]
                )
        positions, *_ = row_boundaries([lengths.astype(np.int64)], None, numbers=False)
        columns["position_ids"] = positions.astype(np.int32)
        return {**columns, "seq_lengths": lengths}


def _values(row: Mapping[str, object], name: str) -> npt.NDArray[np.int64]:
    return np.asarray(row[name])
