"""The options of packing, and of the columns of rows."""

from __future__ import annotations

from typing import Final

from fastpack.options.option import (
    EVERY_CALL,
    LABELLED_OBJECTIVES,
    ORDERING_CALLS,
    PACKED_OBJECTIVES,
    PACKING,
    PADDED_OBJECTIVES,
    PIECE_CALLS,
    ROW_CALLS,
    RUN,
    Differs,
    Flag,
    Option,
)

__all__ = ["CAUSAL_COLUMNS", "ROW_OPTIONS"]

CAUSAL_COLUMNS: Final = ("input_ids", "labels", "position_ids", "seq_lengths")
"""The columns of rows of the causal objective, unless others are chosen."""

ROW_OPTIONS: Final[tuple[Option, ...]] = (
    Option(
        "max_length",
        "int | None",
        None,
        EVERY_CALL,
        'Tokens that a row holds at most. Only `strategy="none"` needs none: then a row is as long as its document.',
        group=PACKING,
        differs={
            "scan": Differs(
                type="int | Sequence[int]",
                default=(2048, 4096, 8192, 16384, 32768),
                doc="The lengths of rows to try, one or several.",
            ),
        },
        flag=Flag("-m --max-length", "tokens that a row holds at most", metavar="TOKENS", type="token_count"),
    ),
    Option(
        "strategy",
        "Strategy",
        "mix",
        EVERY_CALL,
        (
            "How documents are put together. `mix`: the longest, then others at random, then what fills the row to "
            "the last token; `best_fit`: longest first, each into the row that it fills best; `heap`: longest first, "
            "into the one open row; `sequential`: in input order, into the one open row; `concat`: end to end in "
            "input order, cut where a row ends; `none`: a row per document, as all rows are of the objectives "
            "`preference`, `generation`, `classification` and `multi_label`."
        ),
        group=PACKING,
        differs={
            "stream": Differs(
                type="StreamStrategy",
                default="best_fit",
                doc=(
                    "How each lane puts documents together: `best_fit` over `open_packs` rows; or `sequential`, "
                    "`concat` or `none`, which give the rows of `pack_files` with `shuffle=False, lanes=1`."
                ),
            ),
        },
        flag=Flag("-s --strategy", "how documents are put together", words="Strategy", common=True),
    ),
    Option(
        "overlong",
        "Overlong | None",
        None,
        EVERY_CALL,
        (
            "What happens to a document longer than a row: `drop` and count it; `truncate` it and count what is cut "
            "off; `trim` a conversation, which cuts it after the last turn of the assistant that fits and drops what "
            "cannot be trimmed; `split` it into pieces that are documents of their own from then on; or `error`. If "
            "not given, text is split, and conversations and ids are dropped."
        ),
        group=PACKING,
        differs={
            "plan": Differs(
                doc="As in `pack_files`, where a length of unknown kind counts as a conversation without turns."
            ),
            "repack": Differs(doc="As in `pack_files`; `trim` only where the tokens were kept with it."),
        },
        flag=Flag(
            "--overlong",
            "documents longer than a row",
            words="Overlong",
            unset="split texts, drop the others",
            common=True,
        ),
    ),
    Option(
        "truncation_side",
        "Side",
        "right",
        EVERY_CALL,
        "The end at which `truncate` cuts a document: at the `right` its last tokens go, at the `left` its first.",
        group=PACKING,
        flag=Flag("--truncation-side", "end at which a document is truncated", words="Side"),
        objectives=("causal", "mlm", "custom", "generation", *LABELLED_OBJECTIVES),
    ),
    Option(
        "drop_last",
        "bool",
        False,
        PIECE_CALLS,
        "Whether `concat` drops its last row, and counts it, if it is not full.",
        group=PACKING,
        flag=Flag("--drop-last", "drop the last row of concat if it is not full", switch=True),
        objectives=PACKED_OBJECTIVES,
    ),
    Option(
        "shuffle",
        "bool",
        False,
        PIECE_CALLS,
        (
            "Whether documents are put in an order drawn from `seed` before `sequential`, `concat` and `none` take them: "
            "files that are sorted by topic give rows of many topics. The other strategies draw an order of their own. "
            "Rows come once all documents are read."
        ),
        group=PACKING,
        differs={
            "stream": Differs(
                default=True,
                doc=(
                    "Whether records are read in an order drawn from `seed`, another one in each epoch: files, "
                    "stretches of files, and records in them. `False` is the order of the input."
                ),
            ),
        },
        flag=Flag("--shuffle", "put documents in an order drawn from the seed", switch=True),
    ),
    Option(
        "max_documents_per_pack",
        "int | None",
        None,
        EVERY_CALL,
        "Documents that a row holds at most, each piece of one counted.",
        group=PACKING,
        flag=Flag(
            "--max-documents-per-pack",
            "documents that a row holds at most",
            metavar="N",
            type="int",
            unset="no limit",
        ),
        objectives=PACKED_OBJECTIVES,
    ),
    Option(
        "align_documents_to",
        "int | None",
        None,
        PIECE_CALLS,
        (
            "Pads every document to a multiple of this many tokens, for context and tensor parallel training. It must "
            "divide `max_length`. This padding has no labels, its positions count on, and `seq_lengths` includes it."
        ),
        group=PACKING,
        flag=Flag(
            "--align-documents-to",
            "what the length of each document in a row is a multiple of, as context parallel training wants it",
            metavar="N",
            type="int",
            unset="1",
        ),
        objectives=("causal", "mlm", "fim", "custom"),
    ),
    Option(
        "order",
        "Order | None",
        None,
        ORDERING_CALLS,
        (
            "The order of the rows: `shuffle`; `input`, by the first document in each; or `balanced`, groups of "
            "`balance_ranks` rows that cost as much attention, one for each rank. If not given, rows of `mix`, "
            "`best_fit` and `heap` are shuffled."
        ),
        group=PACKING,
        flag=Flag(
            "--order",
            "order of the rows, if not the strategy's own",
            words="Order",
            unset="shuffle for mix, best_fit and heap, else input",
        ),
    ),
    Option(
        "balance_ranks",
        "int | None",
        None,
        ORDERING_CALLS,
        "The ranks that share the rows of `balanced`.",
        group=PACKING,
        flag=Flag(
            "--balance-ranks",
            "ranks that share the rows of --order balanced",
            metavar="RANKS",
            type="int",
            unset="none",
        ),
    ),
    Option(
        "on_remainder",
        "OnRemainder",
        "pad",
        ORDERING_CALLS,
        (
            "What happens where ranks cannot share the rows of `balanced` equally: `pad` adds rows of nothing but "
            "padding, `drop` drops the last and counts them, `repeat` repeats rows and counts them."
        ),
        group=PACKING,
        flag=Flag("--on-remainder", "rows that they cannot share equally", words="OnRemainder"),
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
    Option(
        "pad_to",
        "PadTo | None",
        None,
        ROW_CALLS,
        (
            "What a row is filled up to: `max_length`, or a multiple that divides it. Padding has no labels, "
            "positions of its own from 0, and one last entry in `seq_lengths`."
        ),
        group=RUN,
        flag=Flag(
            "--pad-to",
            "what rows are filled up to: max_length, or a multiple that divides it",
            metavar="LENGTH",
            type="tokens_or_text",
            unset="no padding",
        ),
        objectives=PADDED_OBJECTIVES,
    ),
    Option(
        "padding_side",
        "Side",
        "right",
        ROW_CALLS,
        (
            "The end of a row at which it is filled up: `right`, or `left`, where its entry in `seq_lengths` comes "
            "first."
        ),
        group=RUN,
        flag=Flag("--padding-side", "end of a row at which it is filled up", words="Side"),
        objectives=PADDED_OBJECTIVES,
    ),
    Option(
        "pad_token_id",
        "int | None",
        None,
        ROW_CALLS,
        (
            "The id to fill up with; the tokenizer's `pad_token`, else its `eos_token`, if not given. Without a "
            "tokenizer it must be given."
        ),
        group=RUN,
        flag=Flag(
            "--pad-token-id",
            "id to fill up with, if not the tokenizer's own",
            metavar="ID",
            type="int",
            unset="the tokenizer's own",
        ),
        objectives=PADDED_OBJECTIVES,
    ),
    Option(
        "shift_labels",
        "bool",
        False,
        ROW_CALLS,
        (
            "Whether each label stands one place before its token, where it is predicted; for trainers that do not "
            "shift labels themselves, as those of `transformers` and TRL do."
        ),
        group=RUN,
        flag=Flag("--shift-labels", "put each label one place before its token", switch=True),
        objectives=("causal", "fim"),
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
            'with `balanced`. The page "What a row is" says what each holds, and which other objectives have.'
        ),
        group=RUN,
        differs={
            "pack_table": Differs(
                type="Sequence[str] | None",
                doc=(
                    "As in `pack_files`, and further columns of the table, which rows in memory carry: a column of lists "
                    "as long as `input_ids` becomes a list as long as those of the row, any other column a list with an "
                    "entry for each document; both are null for padding."
                ),
            )
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
