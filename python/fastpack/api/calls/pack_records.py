"""`fastpack.pack_records`: an iterable of records."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from fastpack.api.run import pack_records as run
from fastpack.options.docstring import listing_options
from fastpack.options.mistakes.refusals import suggesting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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
        Column,
        Existing,
        FormatName,
        JsonValue,
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

__all__ = ["pack_records"]


@overload
def pack_records(
    records: Iterable[Mapping[str, JsonValue]],
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    output: StrPath,
    validation: Validation | None = None,
    columns: Sequence[Column] | None = None,
    **options: Unpack[FolderArguments],
) -> Report: ...
@overload
def pack_records(
    records: Iterable[Mapping[str, JsonValue]],
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    output: None = None,
    validation: None = None,
    columns: Sequence[Column] | None = None,
    **options: Unpack[RowArguments],
) -> pa.Table: ...
@overload
def pack_records(
    records: Iterable[Mapping[str, JsonValue]],
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    output: None = None,
    validation: Validation,
    columns: Sequence[Column] | None = None,
    **options: Unpack[RowArguments],
) -> Splits: ...
@suggesting
@listing_options
def pack_records(
    records: Iterable[Mapping[str, JsonValue]],
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    max_length: int | None = None,
    strategy: Strategy | Packing = "mix",
    overlong: Overlong | Truncate | None = None,
    order: Order | Balanced | None = None,
    seed: int = 0,
    padding: PadTo | Padding | None = None,
    columns: Sequence[Column] | None = None,
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
    """Packs records that Python makes, into a table or a folder: a list of dicts, a generator, an iterable or map-style data set.

    This is the one call in which the interpreter touches each record: it takes about as long as `json.dumps` of all
    of them. Files and tables are read without it.

    Args:
        records: The records, each of them a dict of what JSON can hold, arrays and numbers of `numpy` among it. A
            field that holds something else by itself, such as a date, is left out. They are taken on the thread
            of this call, some at a time, and their exceptions reach the caller as they are. Of a map-style data
            set, with a length and items by number, these are the items; tensors are lists.

    Returns:
        With `output` the report, which the folder holds as `report.json`; else a table, or `Splits` of two, as
        `pack_files` returns it. Errors about a record name `<records>` and its number, from 1.

    Raises:
        OptionTypeError: `records` is no iterable of dicts.
        OutputError: As in `pack_dir`.
        FastpackError: As in `pack_files`.

    Examples:
        >>> import fastpack
        >>> texts = ({"text": f"The river has {number} boats."} for number in range(20))
        >>> table = fastpack.pack_records(texts, "examples/tokenizer", max_length=512)
        >>> fastpack.Report.of(table).documents.kept
        20
    """
    return run(locals())
