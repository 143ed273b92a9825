"""The plain-Python oracle of packing: slow, obvious, and written from the documentation."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Row = list[int]
"""The documents that share a row, in their order."""


def best_fit(lengths: Sequence[int], max_length: int) -> list[Row]:
    """Longest first, each into the row that it fills best.

    Equal lengths keep their order; of equally good rows, the one wins that has had its room for longest.
    """
    rows: list[Row] = []
    space: list[int] = []
    since: list[int] = []
    for now, document in enumerate(_longest_first(lengths)):
        length = lengths[document]
        fitting = [row for row in range(len(rows)) if space[row] >= length]
        if fitting:
            best = min(fitting, key=lambda row: (space[row], since[row]))
        else:
            best = len(rows)
            rows.append([])
            space.append(max_length)
            since.append(now)
        rows[best].append(document)
        space[best] -= length
        since[best] = now
    return rows


def heap(lengths: Sequence[int], max_length: int) -> list[Row]:
    """Longest first, into the one open row."""
    return _next_fit(_longest_first(lengths), lengths, max_length)


def sequential(lengths: Sequence[int], max_length: int) -> list[Row]:
    """In input order, into the one open row."""
    return _next_fit(range(len(lengths)), lengths, max_length)


def none(lengths: Sequence[int], max_length: int) -> list[Row]:
    """A row for each document."""
    return [[document] for document in range(len(lengths))]


def first_fit(lengths: Sequence[int], max_length: int, most: int | None = None) -> list[Row]:
    """Longest first, each into the first row with room: the bound on every plan of `mix`."""
    rows: list[Row] = []
    space: list[int] = []
    for document in _longest_first(lengths):
        length = lengths[document]
        first = next(
            (
                row
                for row in range(len(rows))
                if space[row] >= length and (most is None or len(rows[row]) < most)
            ),
            len(rows),
        )
        if first == len(rows):
            rows.append([])
            space.append(max_length)
        rows[first].append(document)
        space[first] -= length
    return rows


def stretches(
    lengths: Sequence[int], max_length: int, strategy: object, overlong: object, truncation_side: object
) -> list[tuple[int, int, int]]:
    """The packed stretch of each document: its number, the first token and the token after the last."""
    kept = []
    for document, length in enumerate(lengths):
        if length <= max_length or strategy == "concat" or overlong == "split":
            kept.append((document, 0, length))
        elif overlong == "truncate":
            start = length - max_length if truncation_side == "left" else 0
            kept.append((document, start, start + max_length))
    return kept


def _longest_first(lengths: Sequence[int]) -> list[int]:
    return sorted(range(len(lengths)), key=lambda document: -lengths[document])


def _next_fit(order: Iterable[int], lengths: Sequence[int], max_length: int) -> list[Row]:
    rows: list[Row] = []
    for document in order:
        if not rows or sum(lengths[member] for member in rows[-1]) + lengths[document] > max_length:
            rows.append([])
        rows[-1].append(document)
    return rows


STRATEGIES = {"best_fit": best_fit, "heap": heap, "sequential": sequential, "none": none}


def assemble(
    rows: Iterable[Row], ids: Sequence[list[int]], trained: Sequence[list[bool]]
) -> list[dict[str, list[int]]]:
    """The columns of each row; a document's first token never carries a label."""
    return [
        {
            "input_ids": [token for document in row for token in ids[document]],
            "labels": [
                token if trained[document][position] and position > 0 else -100
                for document in row
                for position, token in enumerate(ids[document])
            ],
            "position_ids": [position for document in row for position in range(len(ids[document]))],
            "seq_lengths": [len(ids[document]) for document in row],
        }
        for row in rows
    ]
