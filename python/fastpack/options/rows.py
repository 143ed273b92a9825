"""The options of the rows that are made: their padding, labels and columns."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Final

from fastpack.options.option import PADDED_OBJECTIVES, ROW_CALLS, RUN, CallDifferences, Flag, Option
from fastpack.options.value import Value
from fastpack.types import PadTo, Side  # noqa: TC001  the types of fields are looked at

__all__ = ["CAUSAL_COLUMNS", "ROW_OPTIONS", "Padding"]

CAUSAL_COLUMNS: Final = ("input_ids", "labels", "position_ids", "seq_lengths")
"""The columns of rows of the causal objective, unless others are chosen."""


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Padding(Value):
    """Rows are filled up: `padding="max_length"` is `padding=Padding("max_length")`.

    The names are those of the tokenizers of transformers.

    Args:
        to: The length to which rows are filled up: `max_length`, or a multiple that divides it. If not given, rows are not filled
            up, and the id is that of rows of nothing but padding.
        side: The end of a row at which it is filled up: `right`, or `left`, where its entry in `seq_lengths` comes
            first.
        token_id: The id to fill up with; the tokenizer's `pad_token`, else its `eos_token`, if not given. Without a
            tokenizer it must be given.

    Raises:
        OptionError: A value is none that the option takes.

    Examples:
        >>> import fastpack
        >>> fastpack.Padding(128, token_id=0)
        Padding(to=128, token_id=0)
    """

    option: ClassVar[str] = "padding"
    kind: ClassVar[str] = "padding"
    plain: ClassVar[str] = "to"

    to: PadTo | None = None
    _: dataclasses.KW_ONLY
    side: Side = "right"
    token_id: int | None = None


ROW_OPTIONS: Final[tuple[Option, ...]] = (
    Option(
        "padding",
        "PadTo | Padding | None",
        None,
        ROW_CALLS,
        (
            "The length to which rows are filled up: `max_length`, or a multiple that divides it. Padding has no labels, "
            "positions of its own from 0, and one last entry in `seq_lengths`. A `Padding` has a side and an id too."
        ),
        group=RUN,
        flag=Flag(
            "--padding",
            "what rows are filled up to: max_length, or a multiple that divides it",
            metavar="LENGTH",
            type="tokens_or_text",
            unset="no padding",
        ),
        objectives=PADDED_OBJECTIVES,
        kinds={Padding.kind: Padding},
    ),
    Option(
        "columns",
        "Sequence[Column] | None",
        None,
        ROW_CALLS,
        (
            "The columns of the rows, in their order. If not given, those of the `objective`: `input_ids`, `labels`, "
            "`position_ids` and `seq_lengths` for `causal`. Further ones: `document_ids`, `loss_weights`, "
            "`unpadded_lengths`, `source_file`, `source_row`, `source_turn`, `source_start`, `attn_cost`, and `group` "
            'with `Balanced`. The page "What a row is" says what each holds, and which other objectives have.'
        ),
        group=RUN,
        differs={
            "pack_files": CallDifferences(
                type="Sequence[Column | str] | None",
                doc=(
                    "The columns of the rows, in their order. If not given, those of the `objective`: `input_ids`, `labels`, "
                    "`position_ids` and `seq_lengths` for `causal`. Further ones: `document_ids`, `loss_weights`, "
                    "`unpadded_lengths`, `source_file`, `source_row`, `source_turn`, `source_start`, `attn_cost`, and `group` "
                    'with `Balanced`. The page "What a row is" says what each holds, and which other objectives have. Where '
                    "rows hold one document each, as with `generation`, any field of the records is carried too, as the file "
                    "has it, from JSON Lines without compression, Parquet and Arrow on the local disk: a prompt as messages, "
                    "the answer that a reward compares."
                ),
            ),
            "pack_table": CallDifferences(
                type="Sequence[str] | None",
                doc=(
                    "As in `pack_files`, and further columns of the table, which rows in memory carry: a column of lists "
                    "as long as `input_ids` becomes a list as long as those of the row, any other column a list with an "
                    "entry for each document; both are null for padding. Where rows hold one document each, as with "
                    "`generation`, any column is carried as it is."
                ),
            ),
        },
        flag=Flag(
            "--columns",
            "columns of the rows, separated by commas",
            metavar="NAMES",
            type="comma_list",
            unset="those of the objective",
        ),
    ),
)
