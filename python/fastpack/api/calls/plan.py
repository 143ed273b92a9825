"""`fastpack.plan`.

Written by `make signatures` from `fastpack/options/`: change that, not this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastpack.api.run import plan as run
from fastpack.options.mistakes.hints import suggesting

if TYPE_CHECKING:
    from fastpack import _fastpack
    from fastpack.options.packing import Balanced, Packing, Truncate
    from fastpack.types import Lengths, Order, Overlong, Strategy

__all__ = ["plan"]


@suggesting
def plan(
    lengths: Lengths,
    *,
    max_length: int | None = None,
    strategy: Strategy | Packing = "mix",
    overlong: Overlong | Truncate | None = None,
    order: Order | Balanced | None = None,
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
            objectives `preference`, `generation`, `classification` and `multi_label`. A word stands for the value
            with its defaults; `Concat(drop_last=True)` and the others have options of their own.
        overlong: As in `pack_files`, where a length of unknown kind counts as a conversation without turns.
        order: The order of the rows: `shuffle`; `input`, by the first document in each; or that of a `Balanced`,
            groups of rows that cost as much attention, one for each rank. If not given, rows of `mix`, `best_fit`
            and `heap` are shuffled.
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
            "order": order,
            "seed": seed,
        }
    )
