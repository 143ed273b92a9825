"""The options of packing: what shares a row, in which order, and what is longer than one."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar, Final

from fastpack.options.option import (
    EVERY_CALL,
    LABELLED_OBJECTIVES,
    ORDERING_CALLS,
    PACKED_OBJECTIVES,
    PACKING,
    PIECE_CALLS,
    CallDifferences,
    Flag,
    Option,
)
from fastpack.options.value import Value, option_field
from fastpack.types import OnRemainder, Side  # noqa: TC001  the types of fields are looked at

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "PACKING_OPTIONS",
    "STRATEGIES",
    "Balanced",
    "BestFit",
    "Concat",
    "Heap",
    "Mix",
    "Packing",
    "Sequential",
    "Truncate",
    "Unpacked",
]


@dataclasses.dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Packing(Value):
    """A packing strategy: the base of all.

    Args:
        align_to: Pads every document to a multiple of this many tokens, for context and tensor parallel training. It must
            divide `max_length`. This padding has no labels, its positions count on, and `seq_lengths` includes it.
    """

    option: ClassVar[str] = "strategy"

    align_to: int | None = option_field(None, objectives=("causal", "mlm", "fim", "custom"))


@dataclasses.dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Filled(Packing):
    """A strategy whose rows hold several documents.

    Args:
        align_to: As in `Mix`.
        max_documents: As in `Mix`.
    """

    max_documents: int | None = option_field(None, objectives=PACKED_OBJECTIVES)


@dataclasses.dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Mix(Filled):
    """The longest document, then others at random, then one or two that fill the row to the last token: `strategy="mix"`.

    Args:
        align_to: Pads every document to a multiple of this many tokens, for context and tensor parallel training. It must
            divide `max_length`. This padding has no labels, its positions count on, and `seq_lengths` includes it.
        max_documents: Documents that a row holds at most, each piece of one counted.

    Raises:
        OptionError: A value is none that the option takes.

    Examples:
        >>> import fastpack
        >>> fastpack.Mix(max_documents=8)
        Mix(max_documents=8)
    """

    kind: ClassVar[str] = "mix"


@dataclasses.dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class BestFit(Filled):
    """Longest first, each into the row that it fills best: `strategy="best_fit"`.

    Args:
        align_to: As in `Mix`.
        max_documents: As in `Mix`.
        open_rows: Rows that a stream keeps open in each lane; more of them fill better and come later. Other calls keep
            all open.

    Raises:
        OptionError: A value is none that the option takes.

    Examples:
        >>> import fastpack
        >>> fastpack.BestFit(open_rows=32)
        BestFit(open_rows=32)
    """

    kind: ClassVar[str] = "best_fit"

    open_rows: int = 16


@dataclasses.dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Heap(Filled):
    """Longest first, into the one open row: `strategy="heap"`.

    Args:
        align_to: As in `Mix`.
        max_documents: As in `Mix`.

    Raises:
        OptionError: A value is none that the option takes.

    Examples:
        >>> import fastpack
        >>> fastpack.Heap(align_to=16)
        Heap(align_to=16)
    """

    kind: ClassVar[str] = "heap"


@dataclasses.dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Sequential(Filled):
    """In input order, into the one open row: `strategy="sequential"`.

    Args:
        align_to: As in `Mix`.
        max_documents: As in `Mix`.
        shuffle: Whether documents are taken in an order drawn from `seed`: files that are sorted by topic give rows of
            many topics. Rows come once all documents are read. A stream shuffles by an option of its own.

    Raises:
        OptionError: A value is none that the option takes.

    Examples:
        >>> import fastpack
        >>> fastpack.Sequential(shuffle=True)
        Sequential(shuffle=True)
    """

    kind: ClassVar[str] = "sequential"

    shuffle: bool = option_field(False, calls=ORDERING_CALLS)


@dataclasses.dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Concat(Filled):
    """End to end in input order, cut where a row ends: `strategy="concat"`.

    Args:
        align_to: As in `Mix`.
        max_documents: As in `Mix`.
        shuffle: As in `Sequential`.
        drop_last: Whether the last row is dropped, and counted, if it is not full.

    Raises:
        OptionError: A value is none that the option takes.

    Examples:
        >>> import fastpack
        >>> fastpack.Concat(drop_last=True)
        Concat(drop_last=True)
    """

    kind: ClassVar[str] = "concat"

    shuffle: bool = option_field(False, calls=ORDERING_CALLS)
    drop_last: bool = option_field(False, objectives=PACKED_OBJECTIVES)


@dataclasses.dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Unpacked(Packing):
    """A row per document: `strategy="none"`.

    Args:
        align_to: As in `Mix`.
        shuffle: As in `Sequential`.

    Raises:
        OptionError: A value is none that the option takes.

    Examples:
        >>> import fastpack
        >>> fastpack.Unpacked(align_to=16)
        Unpacked(align_to=16)
    """

    kind: ClassVar[str] = "none"

    shuffle: bool = option_field(False, calls=ORDERING_CALLS)


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Truncate(Value):
    """Cuts documents that are longer than a row: `overlong="truncate"`.

    Args:
        side: The end at which a document is cut: at the `right` its last tokens go, at the `left` its first.

    Raises:
        OptionError: A value is none that the option takes.

    Examples:
        >>> import fastpack
        >>> fastpack.Truncate(side="left")
        Truncate(side='left')
    """

    option: ClassVar[str] = "overlong"
    kind: ClassVar[str] = "truncate"

    side: Side = option_field(
        "right", objectives=("causal", "mlm", "custom", "generation", *LABELLED_OBJECTIVES)
    )


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Balanced(Value):
    """Groups of rows that cost as much attention, one row for each rank: `order=Balanced(8)`.

    Args:
        ranks: The ranks that share the rows.
        on_remainder: What happens where they cannot share them equally: `pad` adds rows of nothing but padding, `drop`
            drops the last and counts them, `repeat` repeats rows and counts them. `multi_label`, `preference` and `generation`
            take `drop` or `repeat` alone, since they would train on rows of padding.

    Raises:
        OptionError: A value is none that the option takes.

    Examples:
        >>> import fastpack
        >>> fastpack.Balanced(8, on_remainder="drop")
        Balanced(ranks=8, on_remainder='drop')
    """

    option: ClassVar[str] = "order"
    kind: ClassVar[str] = "balanced"

    ranks: int
    on_remainder: OnRemainder = "pad"


STRATEGIES: Final[Mapping[str, type[Packing]]] = {
    kind.kind: kind for kind in (Mix, BestFit, Heap, Sequential, Concat, Unpacked)
}
"""The strategies by their words."""

PACKING_OPTIONS: Final[tuple[Option, ...]] = (
    Option(
        "max_length",
        "int | None",
        None,
        EVERY_CALL,
        'Tokens that a row holds at most. Only `strategy="none"` needs none: then a row is as long as its document.',
        group=PACKING,
        differs={
            "scan": CallDifferences(
                type="int | Sequence[int]",
                default=(2048, 4096, 8192, 16384, 32768),
                doc="The lengths of rows to try, one or several.",
            ),
        },
        flag=Flag("-m --max-length", "tokens that a row holds at most", metavar="TOKENS", type="token_count"),
    ),
    Option(
        "strategy",
        "Strategy | Packing",
        "mix",
        EVERY_CALL,
        (
            "How documents are put together. `mix`: the longest, then others at random, then one or two that fill "
            "the row to the last token; `best_fit`: longest first, each into the row that it fills best; `heap`: longest first, "
            "into the one open row; `sequential`: in input order, into the one open row; `concat`: end to end in "
            "input order, cut where a row ends; `none`: a row per document, as all rows are of the objectives "
            "`preference`, `generation`, `classification` and `multi_label`. A word stands for "
            "the value with its defaults; `Concat(drop_last=True)` and the others have options of their own."
        ),
        group=PACKING,
        differs={
            "stream": CallDifferences(
                type="StreamStrategy | BestFit | Sequential | Concat | Unpacked",
                default="best_fit",
                doc=(
                    "How each lane puts documents together: `best_fit` over the open rows of a `BestFit`; or `sequential`, "
                    "`concat` or `none`, which give the rows of `pack_files` with `shuffle=False, lanes=1`."
                ),
            ),
        },
        flag=Flag("-s --strategy", "how documents are put together", words="Strategy", common=True),
        kinds=STRATEGIES,
    ),
    Option(
        "overlong",
        "Overlong | Truncate | None",
        None,
        EVERY_CALL,
        (
            "What happens to a document longer than a row: `drop` and count it; `truncate` it and count what is cut "
            "off, at either end by a `Truncate`; `trim` a conversation, which cuts it after the last turn of the "
            "assistant that fits and drops other documents; `split` it into pieces that are documents of their own from then on; or `error`. If "
            "not given, text is split, and conversations and ids are dropped."
        ),
        group=PACKING,
        differs={
            "plan": CallDifferences(
                doc="As in `pack_files`, where a length of unknown kind counts as a conversation without turns."
            ),
            "repack": CallDifferences(
                doc="As in `pack_files`; `trim` only where the tokens were kept with it."
            ),
        },
        flag=Flag(
            "--overlong",
            "documents longer than a row",
            words="Overlong",
            unset="split texts, drop the others",
            common=True,
        ),
        kinds={Truncate.kind: Truncate},
    ),
    Option(
        "shuffle",
        "bool",
        True,
        frozenset({"stream"}),
        (
            "Whether records are read in an order drawn from `seed`, another one in each epoch: files, stretches of files, and "
            "records in them. `False` is the order of the input."
        ),
        flag=Flag("--shuffle", "read records in an order drawn from the seed", switch=True),
    ),
    Option(
        "order",
        "Order | Balanced | None",
        None,
        ORDERING_CALLS,
        (
            "The order of the rows: `shuffle`; `input`, by the first document in each; or that of a `Balanced`, groups of "
            "rows that cost as much attention, one for each rank. If not given, rows of `mix`, `best_fit` and `heap` are "
            "shuffled."
        ),
        group=PACKING,
        flag=Flag(
            "--order",
            "order of the rows, if not the strategy's own",
            words="OrderKind",
            unset="shuffle for mix, best_fit and heap, else input",
        ),
        kinds={Balanced.kind: Balanced},
    ),
    Option(
        "seed",
        "int",
        0,
        PIECE_CALLS,
        "Random seed. The same seed gives the same rows.",
        group=PACKING,
        flag=Flag("--seed", "random seed", metavar="N", type="int"),
    ),
)
