"""`fastpack.plan`: lengths alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastpack.api.run import plan as run
from fastpack.options.docstring import listing_options
from fastpack.options.mistakes.refusals import suggesting

if TYPE_CHECKING:
    from fastpack import _fastpack
    from fastpack.options.packing import Balanced, Packing, Truncate
    from fastpack.types import Lengths, Order, Overlong, Strategy

__all__ = ["plan"]


@suggesting
@listing_options
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
    return run(locals())
