"""`StreamStats` and `StreamEstimate`: the counts of a stream so far, and the size of one of its epochs."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["StreamEstimate", "StreamStats"]


class StreamStats(NamedTuple):
    """The counts of a stream so far.

    Attributes:
        step: The number of tables.
        rows: The number of rows of this rank.
        tokens: The number of tokens in these rows, without padding.
        fill: The share of the rows' room that tokens fill, from 0 to 1.
        shares: The share of each weighted source among the packed tokens, from 0 to 1.
        dropped: The number of dropped documents, by reason.
        wait_seconds: The time that this process waited for tables, in seconds.
        queue_depth: The number of tables that are made and wait to be taken, from 0 to 3: at 0 the trainer waits for rows,
            above it rows wait for the trainer.
        tokens_per_second: The tokens that this process took in a second, since it asked for its first table.
        padding: The number of rows of padding, in the place of lanes that give none.
    """

    step: int
    rows: int
    tokens: int
    fill: float
    shares: dict[str, float]
    dropped: dict[str, int]
    wait_seconds: float
    queue_depth: int
    tokens_per_second: float
    padding: int


class StreamEstimate(NamedTuple):
    """The size of one epoch of a stream.

    Attributes:
        rows: The number of rows of all ranks.
        tokens: The number of tokens in these rows, without padding.
        steps: The number of tables that each rank takes.
        counted: True if all rows were counted; otherwise a sample of the records was read.
    """

    rows: int
    tokens: int
    steps: int
    counted: bool
