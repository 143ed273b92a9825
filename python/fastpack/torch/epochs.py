"""`Repacked`: the documents of packed rows in other rows, from epoch to epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from fastpack._types import NOT_TRAINED
from fastpack.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from fastpack._folder import Folder
    from fastpack._types import Strategy

__all__ = ["Repacked", "check_repackable"]

_PER_TOKEN: Final = ("input_ids", "labels", "loss_weights")

_PER_DOCUMENT: Final = ("source_file", "source_row")


def check_repackable(folders: Sequence[Folder]) -> None:
    """Refuses what cannot be packed anew each epoch.

    Raises:
        OptionError: The rows are no folder's, their tokens were not kept, or documents were cut where rows end.
    """
    if not folders:
        message = "invalid option `repack`: a table has no folder with kept tokens; pack_dir(keep_tokens=True) writes one"
        raise OptionError(message, "repack")
    for folder in folders:
        if not folder.keeps_tokens:
            message = f"invalid option `repack`: {folder.path} keeps no tokens; pack it with keep_tokens=True"
            raise OptionError(message, "repack")
        if folder.options.get("strategy") == "concat":
            message = (
                f'invalid option `repack`: {folder.path} was packed with strategy="concat", which cuts documents where rows '
                "end; use fastpack.repack"
            )
            raise OptionError(message, "repack")


class Repacked:
    """The documents of some rows in other rows, gathered when a row is asked for; nothing is written.

    Attributes:
        rows: How many rows there are.
    """

    def __init__(
        self, source: Sequence[Mapping[str, object]], lengths: Sequence[npt.NDArray[np.int64]]
    ) -> None:
        """Finds the documents: all segments of rows that have a label, which padding has not."""
        self._source = source
        found = []
        for row, documents in enumerate(lengths):
            labels = np.asarray(source[row].get("labels", ()))
            start = 0
            for number, length in enumerate(documents):
                trained = labels[start : start + length] != NOT_TRAINED
                if not len(labels) or trained.any():
                    found.append((row, number, start, length))
                start += length
        self._documents = np.array(found, np.int64).reshape(-1, 4)
        self.rows = 0

    def pack(self, *, max_length: int, strategy: Strategy, most: int | None, seed: int) -> None:
        """Decides which documents share a row."""
        from fastpack.api import plan  # noqa: PLC0415  loads the native module

        found = plan(
            self._documents[:, 3],
            max_length=max_length,
            strategy=strategy,
            max_documents_per_pack=most,
            overlong="error",
            order="shuffle",
            seed=seed,
        )
        self._offsets, self._members = found.offsets, found.members
        self.rows = len(found)

    def row(self, at: int) -> Mapping[str, object]:
        """The columns of a row."""
        members = self._members[self._offsets[at] : self._offsets[at + 1]]
        pieces = [tuple(map(int, self._documents[member])) for member in members]
        rows = [self._source[row] for row, *_ in pieces]
        lengths = np.array([length for *_, length in pieces], np.int32)
        made: dict[str, object] = {}
        for name in rows[0]:
            if name in _PER_TOKEN:
                made[name] = np.concatenate(
                    [
                        _values(row, name)[start : start + length]
                        for row, (_, _, start, length) in zip(rows, pieces, strict=True)
                    ]
                )
            elif name in _PER_DOCUMENT:
                made[name] = np.array(
                    [_values(row, name)[number] for row, (_, number, _, _) in zip(rows, pieces, strict=True)]
                )
        starts = np.cumsum(lengths) - lengths
        made["position_ids"] = (np.arange(lengths.sum()) - np.repeat(starts, lengths)).astype(np.int32)
        return {**made, "seq_lengths": lengths}


def _values(row: Mapping[str, object], name: str) -> npt.NDArray[np.int64]:
    return np.asarray(row[name])
