"""`fastpack.plan`.

Written by `make signatures` from `fastpack/options/`: change that, not this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastpack.api.run import plan as run
from fastpack.options.hints import suggesting

if TYPE_CHECKING:
    from fastpack import _fastpack
    from fastpack.types import Lengths, OnRemainder, Order, Overlong, Side, Strategy

__all__ = ["plan"]


@suggesting
def plan(
    lengths: Lengths,
    *,
    max_length: int | None = None,
    strategy: Strategy = "mix",
    overlong: Overlong | None = None,
    truncation_side: Side = "right",
    drop_last: bool = False,
    shuffle: bool = False,
    max_documents_per_pack: int | None = None,
    align_documents_to: int | None = None,
    order: Order | None = None,
    balance_ranks: int | None = None,
    on_remainder: OnRemainder = "pad",
    seed: int = 0,
) -> _fastpack.Plan:
    """Packs lengths alone: which documents share a row, and in which order.

    Args:
        lengths: The length of each document, in tokens.
        max_length: Tokens that a row holds at most. Only `strategy="none"` needs none: then a row is as long as
            its document.
        strategy: How documents are put together. `mix`: the longest, then others at random, then what fills the
            row to the last token; `best_fit`: longest first, each into the row that it fills best; `heap`:
            longest first, into the one open row; `sequential`: in input order, into the one open row; `concat`:
            end to end in input order, cut where a row ends; `none`: a row per document, as all rows are of the
            objectives `preference`, `generation`, `classification` and `multi_label`.
        overlong: As in `pack_files`, where a length of unknown kind counts as a conversation without turns.
        truncation_side: The end at which `truncate` cuts a document: at the `right` its last tokens go, at the
            `left` its first.
        drop_last: Whether `concat` drops its last row, and counts it, if it is not full.
        shuffle: Whether documents are put in an order drawn from `seed` before `sequential`, `concat` and `none`
            take them: files that are sorted by topic give rows of many topics. The other strategies draw an order
            of their own. Rows come once all documents are read.
        max_documents_per_pack: Documents that a row holds at most, each piece of one counted.
        align_documents_to: Pads every document to a multiple of this many tokens, for context and tensor parallel
            training. It must divide `max_length`. This padding has no labels, its positions count on, and
            `seq_lengths` includes it.
        order: The order of the rows: `shuffle`; `input`, by the first document in each; or `balanced`, groups of
            `balance_ranks` rows that cost as much attention, one for each rank. If not given, rows of `mix`,
            `best_fit` and `heap` are shuffled.
        balance_ranks: The ranks that share the rows of `balanced`.
        on_remainder: What happens where ranks cannot share the rows of `balanced` equally: `pad` adds rows of
            nothing but padding, `drop` drops the last and counts them, `repeat` repeats rows and counts them.
        seed: Random seed. The same seed gives the same rows.

    Returns:
        The plan, as numpy arrays: row `r` holds the pieces `offsets[r]` to `offsets[r + 1]`, and piece `p` is
        `lengths[p]` tokens of document `members[p]`, from its token `starts[p]` on. `dropped` names the documents
        that are in no row; `fill` is from 0 to 1, and `lower_bound` counts the rows that no packing of these pieces
        can do without.

    Raises:
        OptionError: An option has a value that it cannot have, or a length is below 1 or above what can be cut
            (2**31 - 1).

    Examples:
        >>> import fastpack
        >>> found = fastpack.plan([5, 3, 7, 2], max_length=8, order="input")
        >>> found.offsets.tolist(), found.members.tolist()
        ([0, 2, 3, 4], [0, 1, 2, 3])
    """
    return run(
        {
            "lengths": lengths,
            "max_length": max_length,
            "strategy": strategy,
            "overlong": overlong,
            "truncation_side": truncation_side,
            "drop_last": drop_last,
            "shuffle": shuffle,
            "max_documents_per_pack": max_documents_per_pack,
            "align_documents_to": align_documents_to,
            "order": order,
            "balance_ranks": balance_ranks,
            "on_remainder": on_remainder,
            "seed": seed,
        }
    )
