"""`TokenPlaces`: where the tokens of the sequences of a micro-batch stand, and the columns that are laid out so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from fastpack.step.columns import Array, TokenColumn
    from fastpack.step.plan import StepPlan

__all__ = ["TokenPlaces"]


@dataclass(frozen=True, slots=True, eq=False)
class TokenPlaces:
    """The places of the tokens of the sequences of a micro-batch.

    Attributes:
        members: The sequences (int64).
        lengths: The tokens of each (int64).
        starts: The first token of each (int64).
        gaps: The padding behind each, which aligns the next; one of padding alone where there is no sequence (int64).
        total: The tokens of all, with this padding.
    """

    members: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    gaps: npt.NDArray[np.int64]
    total: int

    @classmethod
    def of(cls, plan: StepPlan, members: npt.NDArray[np.int64]) -> TokenPlaces:
        """The places of sequences that share a micro-batch."""
        multiple = plan.align_to
        lengths = plan.lengths[members]
        gaps = -lengths % multiple if len(members) else np.array([multiple])
        ends = np.cumsum(lengths + gaps) if len(members) else gaps
        return cls(members, lengths, (ends - lengths - gaps)[: len(members)], gaps, int(ends[-1]))

    def seq_lengths(self) -> npt.NDArray[np.int64]:
        """The lengths of the documents of the row: sequences, and the padding behind them."""
        if not len(self.members):
            return self.gaps
        documents = np.stack([self.lengths, self.gaps], axis=1).ravel()
        return documents[documents > 0]

    def documents(self) -> npt.NDArray[np.bool_]:
        """True if a token is one of a sequence, not padding."""
        if not len(self.members):
            return np.zeros(self.total, dtype=bool)
        within = np.tile(np.array([True, False]), len(self.members))
        return np.repeat(within, np.stack([self.lengths, self.gaps], axis=1).ravel())

    def sums(self, values: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """The number of tokens of each sequence for which a value is true; that of padding must be false."""
        if not len(self.members):
            return np.zeros(0, dtype=np.int64)
        ends = np.append(self.starts[1:], self.total)
        counts = map(
            np.count_nonzero, map(values.__getitem__, map(slice, self.starts.tolist(), ends.tolist()))
        )
        return np.fromiter(counts, dtype=np.int64, count=len(self.members))

    def spread(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The value of each sequence at each of its tokens and the padding behind them."""
        return np.repeat(values, self.lengths + self.gaps) if len(self.members) else np.zeros(self.total)

    def lay(
        self,
        column: TokenColumn,
        whole: npt.NDArray[np.int64],
        width: int | None = None,
        *,
        fill: float = 0,
        dtype: npt.DTypeLike | None = None,
    ) -> Array:
        """The values of a column at the places of their tokens, in `width` places; the others hold `fill`.

        A sequence with fewer values than its `whole` tokens has those of its last tokens.
        """
        pieces = column.of(self.members.tolist())
        kept = self.lengths.tolist()
        laid: Array = np.empty((width or self.total, *column.empty.shape[1:]), dtype or column.empty.dtype)
        if self.total == sum(kept) and [len(piece) for piece in pieces] == kept:
            np.concatenate(pieces, out=laid[: self.total], casting="unsafe")
            laid[self.total :] = fill
            return laid
        laid[:] = fill
        places = zip(pieces, whole[self.members].tolist(), kept, self.starts.tolist(), strict=True)
        for piece, tokens, length, start in places:
            before = tokens - len(piece)
            if before < length:
                laid[start + before : start + length] = piece[: length - before]
        return laid
