"""`fastpack.pack_table`: a table that is in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from fastpack.api.run import pack_table as run
from fastpack.options.docstring import listing_options
from fastpack.options.mistakes.refusals import suggesting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from typing_extensions import Unpack

    from fastpack.api.calls.arguments import FolderArguments, RowArguments
    from fastpack.options.function import Function
    from fastpack.options.objective import Objective
    from fastpack.options.output import Exists, Format
    from fastpack.options.packing import Balanced, Packing, Truncate
    from fastpack.options.records import Reading
    from fastpack.options.rows import Padding
    from fastpack.options.storage import Storage
    from fastpack.options.tokens import ChatTemplate, SpecialTokens
    from fastpack.options.train_on import TrainOn
    from fastpack.report.report import Report
    from fastpack.tokenizer.arguments import TokenizerArgument
    from fastpack.tokenizer.tokenizer import Tokenizer
    from fastpack.types import (
        ArrowTable,
        Existing,
        FormatName,
        MaxLost,
        ObjectiveName,
        OnBadRecord,
        Order,
        Overlong,
        PadTo,
        ProgressOption,
        RecordFilter,
        RecordMap,
        Shape,
        Splits,
        Strategy,
        StrPath,
        TrainedTokens,
        Turns,
        Validation,
    )

__all__ = ["pack_table"]


@overload
def pack_table(
    table: ArrowTable,
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    output: StrPath,
    validation: Validation | None = None,
    columns: Sequence[str] | None = None,
    **options: Unpack[FolderArguments],
) -> Report: ...
@overload
def pack_table(
    table: ArrowTable,
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    output: None = None,
    validation: None = None,
    columns: Sequence[str] | None = None,
    **options: Unpack[RowArguments],
) -> pa.Table: ...
@overload
def pack_table(
    table: ArrowTable,
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    output: None = None,
    validation: Validation,
    columns: Sequence[str] | None = None,
    **options: Unpack[RowArguments],
) -> Splits: ...
@suggesting
@listing_options
def pack_table(
    table: ArrowTable,
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    max_length: int | None = None,
    strategy: Strategy | Packing = "mix",
    overlong: Overlong | Truncate | None = None,
    order: Order | Balanced | None = None,
    seed: int = 0,
    padding: PadTo | Padding | None = None,
    columns: Sequence[str] | None = None,
    objective: ObjectiveName | Objective = "causal",
    train_on: TrainedTokens | TrainOn = "auto",
    turns: Turns = "auto",
    special_tokens: SpecialTokens | None = None,
    chat_template: StrPath | ChatTemplate | None = None,
    reading: Shape | Reading | None = None,
    filter: RecordFilter | Function[bool] | None = None,
    map: RecordMap | Function[dict[str, object]] | None = None,
    on_bad_record: OnBadRecord = "error",
    max_lost: MaxLost | None = None,
    output: StrPath | None = None,
    format: FormatName | Format = "arrow",
    validation: Validation | None = None,
    keep_tokens: bool = False,
    exists: Existing | Exists = "error",
    cache_dir: StrPath | None = None,
    storage: Mapping[str, str] | Storage | None = None,
    memory: int | str | None = None,
    threads: int | None = None,
    verify: int = 0,
    progress: ProgressOption = None,
) -> pa.Table | Splits | Report:
    """Packs the rows of a table that is in memory, without a copy of it, into a table or a folder.

    A row is a record as in a file, of any of the shapes that files have; lists of messages are lists of structs, or
    JSON text. Rows that are ids need no tokenizer: `input_ids`, and `labels`, `assistant_masks` or `completion_mask` if
    not all of them are trained; `loss_weights` if they do not count alike; `attention_mask` if rows are filled up.

    Args:
        table: A `pyarrow.Table`, a `datasets.Dataset`, whose selection and order hold, or anything else that
            hands over Arrow by `__arrow_c_stream__`: `polars`, `duckdb`, `pandas`.

    Returns:
        With `output` the report, which the folder holds as `report.json`; else a table, or `Splits` of two, as
        `pack_files` returns it. Errors about a record name `<table>` and the row, from 1.

    Raises:
        OptionError: An option has a value that it cannot have, or needs a tokenizer or an `output`.
        OutputError: As in `pack_dir`.
        FastpackError: As in `pack_files`.

    Examples:
        >>> import fastpack, pyarrow as pa
        >>> documents = pa.table({"input_ids": [[1, 2, 3], [4, 5]]})
        >>> fastpack.pack_table(documents, max_length=8)["input_ids"].to_pylist()
        [[1, 2, 3, 4, 5]]
        >>> texts = pa.table({"text": ["a river", "a boat"]})
        >>> fastpack.pack_table(texts, "examples/tokenizer", max_length=16).num_rows
        1
    """
    return run(locals())
