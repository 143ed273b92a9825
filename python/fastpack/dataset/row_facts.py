"""Facts about the rows of a packed folder beyond its report: lengths, fill, shares of sources, and rows as text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import numpy as np

from fastpack import _fastpack
from fastpack.arguments.strategy import cuts_at_row_end
from fastpack.dataset.inspection import inspect
from fastpack.dataset.packed_files import RemoteAccess, RemoteFiles
from fastpack.errors import FastpackError
from fastpack.options.native import native_packing
from fastpack.options.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt
    import pyarrow as pa

    from fastpack.dataset.folder import Folder
    from fastpack.dataset.inspection import PackedRow
    from fastpack.report.report import Report
    from fastpack.types import FsspecFileSystem, Overlong

    Numbers = npt.NDArray[np.int64]

__all__ = ["RowFacts", "RowLengthFacts", "facts_of"]

_SHOWN_ROWS: Final = 3

_PLANNED: Final = 1_000_000
"""The most documents, evenly spread, that are planned for each other row length: 30 ms for each length."""

_SOURCES: Final = 12
"""The most sources that are shown by name."""


_BOUNDS: Final[Mapping[str, tuple[Overlong, ...]]] = {"error": ("drop",), "trim": ("truncate", "drop")}
"""The choices that lose the least and the most, for those that no plan of lengths follows."""

_TOO_LONG: Final = "too_long"
"""The reason of documents that were left out because no row has room for them."""


class RowLengthFacts(NamedTuple):
    """The result of packing into rows of another length.

    Attributes:
        max_length: The most tokens of a row.
        rows: The number of rows of the documents in these rows.
        lost: The least share of the tokens that rows of this length lose of documents that are longer, with what these rows lost of them.
        at_most: The greatest share: of documents that these rows left out or cut the lengths are not known, nor where `trim` cuts others.
        padding: The share of the rows' room that no token fills.
    """

    max_length: int
    rows: int
    lost: float
    at_most: float
    padding: float


class RowFacts(NamedTuple):
    """Facts about the rows of a folder.

    Attributes:
        folder: The folder.
        lengths: The length of each document.
        fills: The share of each row that documents fill.
        counts: The number of documents in each row.
        sources: The tokens of each source, by its name, the largest first; empty if the rows have no origins.
        too_long: The documents that these rows left out as too long, and their tokens.
        costs: The results of packing into rows of other lengths.
        rows: Some rows as text.
    """

    folder: Folder
    lengths: Numbers
    fills: npt.NDArray[np.float64]
    counts: Numbers
    sources: list[tuple[str, int]]
    too_long: tuple[int, int]
    costs: list[RowLengthFacts]
    rows: list[PackedRow]


def facts_of(packed: Folder, report: Report) -> RowFacts:
    """Computes the facts of a folder."""
    split = packed.splits[0]
    table = packed.read_stored(split)
    lengths, counts, files = _documents(table, packed)
    ends = counts.cumsum()
    sums = np.diff(np.append(0, lengths.cumsum())[np.append(0, ends)])
    most = report.max_length or int(sums.max(initial=1))
    dropped = report.dropped.get(_TOO_LONG)
    too_long = (dropped.documents, dropped.tokens) if dropped else (0, 0)
    return RowFacts(
        folder=packed,
        lengths=lengths,
        fills=sums / most,
        counts=counts,
        sources=_shares(lengths, files, report.sources),
        too_long=too_long,
        costs=list(_costs(lengths, most, packed, report)),
        rows=list(_rows(packed, split, table.num_rows)),
    )


def _documents(table: pa.Table, packed: Folder) -> tuple[Numbers, Numbers, Numbers]:
    """The lengths of all documents without padding, the number in each row, and their files."""
    options = dict(packed.options)
    if options.get("padding.token_id") is None:
        options["padding.token_id"] = packed.of_job("made_by").get("pad_id")
    found = _fastpack.row_documents(table, json.dumps(options))
    keep = found.unpadded > 0
    counts = np.bincount(found.rows[keep], minlength=table.num_rows).astype(np.int64)
    return found.unpadded[keep], counts, found.files[keep]


def _shares(lengths: Numbers, files: Numbers, names: list[str]) -> list[tuple[str, int]]:
    if not names or not (files >= 0).any():
        return []
    tokens = np.bincount(files[files >= 0], weights=lengths[files >= 0], minlength=len(names)).astype(
        np.int64
    )
    order = np.argsort(-tokens, kind="stable")
    shown = [(names[at], int(tokens[at])) for at in order[:_SOURCES]]
    rest = int(tokens[order[_SOURCES:]].sum())
    return [*shown, *([(f"and {len(names) - _SOURCES:,} more", rest)] if rest else [])]


def _overlong(packed: Folder, report: Report) -> tuple[Overlong | None, ...]:
    """The choices about documents that are longer than a row by which the job loses the least and the most of them; one if it is known."""
    chosen = packed.options.get("overlong")
    if isinstance(chosen, str):
        return _BOUNDS.get(chosen, (cast("Overlong", chosen),))
    if cuts_at_row_end(packed.options.get("strategy")):
        return (None,)
    # Texts are split by default, also those that a prompt other than the chat template makes.
    are_texts = {each.shape == "text" or each.prompt not in {"", "chat_template"} for each in report.inputs}
    if len(are_texts) != 1:
        return ("split", "drop")
    return ("split",) if are_texts == {True} else ("drop",)


def _costs(lengths: Numbers, most: int, packed: Folder, report: Report) -> Iterator[RowLengthFacts]:
    """The results of packing the documents into rows of a quarter to four times the length `most`.

    They stand for all tokens that the job kept. Others were longer than a row, or cut off, and are in no row: shorter rows lose them,
    longer ones may.
    """
    dropped = report.dropped.get(_TOO_LONG)
    left_out = (dropped.tokens if dropped else 0) + report.truncated.tokens
    chosen = np.ascontiguousarray(lengths[:: max(1, len(lengths) // _PLANNED)], dtype=np.int64)
    held, kept = int(chosen.sum()), report.tokens.kept
    total = kept + left_out
    strategy = packed.options.get("strategy") or "mix"
    for length in (most // 4, most // 2, most, most * 2, most * 4):
        if length < 1 or not held or not total:
            continue
        try:
            found = [
                _fastpack.plan(
                    chosen, native_packing({"max_length": length, "strategy": strategy, "overlong": how})
                )
                for how in _overlong(packed, report)
            ]
        except FastpackError:
            continue
        lost = [(held - each.tokens) / held * kept for each in found]
        known = min(lost) + (left_out if length <= most else 0)
        # The longest document of the job has room in longer rows.
        at_most = max(lost) + (left_out if length < report.lengths.get("max", 0) else 0)
        yield RowLengthFacts(
            length, len(found[0]), known / total, max(known, at_most) / total, 1 - found[0].fill
        )


def _rows(packed: Folder, split: str, count: int) -> Iterator[PackedRow]:
    """The first, the middle and the last row."""
    files = packed.files
    where, access = (
        (files.url, files.access) if isinstance(files, RemoteFiles) else (files.path, RemoteAccess())
    )
    filesystem = cast("FsspecFileSystem | None", access.filesystem)  # what was opened is taken again
    storage = Storage(access.storage_options, filesystem=filesystem, block_cache=access.block_cache)
    for number in sorted({0, count // 2, count - 1} if count else ())[:_SHOWN_ROWS]:
        yield inspect(where, number, split=split, storage=storage, cache_dir=access.cache_dir)
