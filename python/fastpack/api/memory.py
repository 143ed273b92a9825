"""Packing what is in memory: tables, data sets, and records that Python makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from fastpack import _fastpack
from fastpack._memory import rows_of, values_of
from fastpack._progress import watching
from fastpack.api.options import (
    Model,
    Output,
    Packing,
    Run,
    native_folder,
    native_model,
    native_options,
    native_reading,
    native_validation,
    tables,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    import pyarrow as pa
    from typing_extensions import Unpack

    from fastpack._fastpack import Records
    from fastpack._tokenizer import TokenizerArgument
    from fastpack._types import (
        ArrowTable,
        Bos,
        Column,
        Compression,
        Eos,
        Examples,
        Fields,
        Format,
        JsonValue,
        Keep,
        MaxLost,
        OnBadRecord,
        OnRemainder,
        Order,
        Overlong,
        PadTo,
        ProgressOption,
        Prompt,
        RecordFilter,
        RecordMap,
        Shape,
        Side,
        Splits,
        Strategy,
        StrPath,
        Tail,
        TemplateEngine,
        TrainOn,
        TrainOnEos,
        Validation,
    )
    from fastpack.api.arguments import OutputArguments, RecordArguments
    from fastpack.report import Report
    from fastpack.tokenizer import Tokenizer

__all__ = ["pack_records", "pack_table"]


@overload
def pack_table(
    table: ArrowTable,
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    max_length: int,
    output: StrPath,
    validation: Validation | None = None,
    **options: Unpack[OutputArguments],
) -> Report: ...
@overload
def pack_table(
    table: ArrowTable,
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    max_length: int,
    output: None = None,
    validation: None = None,
    **options: Unpack[RecordArguments],
) -> pa.Table: ...
@overload
def pack_table(
    table: ArrowTable,
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    max_length: int,
    output: None = None,
    validation: Validation,
    **options: Unpack[RecordArguments],
) -> Splits: ...
def pack_table(
    table: ArrowTable,
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    max_length: int,
    output: StrPath | None = None,
    validation: Validation | None = None,
    format: Format = Output.format,
    compression: Compression | None = None,
    hf_layout: bool = False,
    shard_size: int | str = Output.shard_size,
    memory: int | str | None = None,
    keep_tokens: bool = False,
    overwrite: bool = False,
    wait: bool = Output.wait,
    strategy: Strategy = Packing.strategy,
    overlong: Overlong | None = None,
    keep: Keep = Packing.keep,
    tail: Tail = Packing.tail,
    max_documents_per_pack: int | None = None,
    align_documents_to: int | None = None,
    order: Order | None = None,
    world_size: int | None = None,
    on_remainder: OnRemainder = Packing.on_remainder,
    seed: int = Packing.seed,
    pad_to: PadTo | None = None,
    padding_side: Side = Run.padding_side,
    pad_token_id: int | None = None,
    train_on: TrainOn = Run.train_on,
    shift_labels: bool = False,
    train_on_eos: TrainOnEos | None = None,
    eos: Eos = Run.eos,
    bos: Bos = Run.bos,
    columns: Sequence[Column] = Run.columns,
    chat_template: StrPath | None = None,
    chat_template_kwargs: Mapping[str, JsonValue] | None = None,
    template_engine: TemplateEngine = Model.template_engine,
    shape: Shape | None = None,
    fields: Fields | None = None,
    prompt: Prompt | None = None,
    examples: Examples | None = None,
    filter: RecordFilter | None = None,
    filter_fingerprint: str | None = None,
    map: RecordMap | None = None,
    map_fingerprint: str | None = None,
    on_bad_record: OnBadRecord = Run.on_bad_record,
    max_lost: MaxLost | None = None,
    now: datetime | None = None,
    verify: int = Run.verify,
    threads: int | None = None,
    progress: ProgressOption = None,
    revision: str | None = None,
    token: str | bool | None = None,
) -> pa.Table | Splits | Report:
    """Packs the rows of a table that is in memory, without a copy of it, into a table or a folder.

    A row is a record as in a file, of any of the shapes that files have; lists of messages are lists of structs, or
    JSON text. Rows that are ids need no tokenizer: `input_ids`, and `labels`, `assistant_masks` or `completion_mask` if
    not all of them are trained; `loss_weights` if they do not count alike; `attention_mask` if rows are filled up.

    Options that are not listed here are as in `pack_files`, those of a folder as in `pack_dir`.

    Args:
        table: A `pyarrow.Table`, a `datasets.Dataset`, whose selection and order hold, or anything else that
            hands over Arrow by `__arrow_c_stream__`: `polars`, `duckdb`, `pandas`.
        tokenizer: As in `pack_files`.
        output: A folder to write, as `pack_dir` writes it: whole or not at all. If not given, rows stay in memory. A `pa.Table`
            is known again by its content, and a `datasets.Dataset` by its fingerprint: the same job on them returns its
            report at once, and goes on where it was stopped. Of other tables nobody knows whether they are the same
            before they are read: the job starts anew, and what it has finished is refused unless `overwrite` is set.

    Returns:
        With `output` the report, which the folder holds as `report.json`; else a table, or `Splits` of two, as `pack_files`
        returns it. Errors about a record name `<table>` and the row, from 1.

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
    return _pack(rows_of(table), locals(), progress)


@overload
def pack_records(
    records: Iterable[Mapping[str, JsonValue]],
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    max_length: int,
    output: StrPath,
    validation: Validation | None = None,
    **options: Unpack[OutputArguments],
) -> Report: ...
@overload
def pack_records(
    records: Iterable[Mapping[str, JsonValue]],
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    max_length: int,
    output: None = None,
    validation: None = None,
    **options: Unpack[RecordArguments],
) -> pa.Table: ...
@overload
def pack_records(
    records: Iterable[Mapping[str, JsonValue]],
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    max_length: int,
    output: None = None,
    validation: Validation,
    **options: Unpack[RecordArguments],
) -> Splits: ...
def pack_records(
    records: Iterable[Mapping[str, JsonValue]],
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    max_length: int,
    output: StrPath | None = None,
    validation: Validation | None = None,
    format: Format = Output.format,
    compression: Compression | None = None,
    hf_layout: bool = False,
    shard_size: int | str = Output.shard_size,
    memory: int | str | None = None,
    keep_tokens: bool = False,
    overwrite: bool = False,
    wait: bool = Output.wait,
    strategy: Strategy = Packing.strategy,
    overlong: Overlong | None = None,
    keep: Keep = Packing.keep,
    tail: Tail = Packing.tail,
    max_documents_per_pack: int | None = None,
    align_documents_to: int | None = None,
    order: Order | None = None,
    world_size: int | None = None,
    on_remainder: OnRemainder = Packing.on_remainder,
    seed: int = Packing.seed,
    pad_to: PadTo | None = None,
    padding_side: Side = Run.padding_side,
    pad_token_id: int | None = None,
    train_on: TrainOn = Run.train_on,
    shift_labels: bool = False,
    train_on_eos: TrainOnEos | None = None,
    eos: Eos = Run.eos,
    bos: Bos = Run.bos,
    columns: Sequence[Column] = Run.columns,
    chat_template: StrPath | None = None,
    chat_template_kwargs: Mapping[str, JsonValue] | None = None,
    template_engine: TemplateEngine = Model.template_engine,
    shape: Shape | None = None,
    fields: Fields | None = None,
    prompt: Prompt | None = None,
    examples: Examples | None = None,
    filter: RecordFilter | None = None,
    filter_fingerprint: str | None = None,
    map: RecordMap | None = None,
    map_fingerprint: str | None = None,
    on_bad_record: OnBadRecord = Run.on_bad_record,
    max_lost: MaxLost | None = None,
    now: datetime | None = None,
    verify: int = Run.verify,
    threads: int | None = None,
    progress: ProgressOption = None,
    revision: str | None = None,
    token: str | bool | None = None,
) -> pa.Table | Splits | Report:
    """Packs records that Python makes, into a table or a folder: a list of dicts, a generator, an iterable or map-style data set.

    This is the one call in which the interpreter touches each record: it takes about as long as `json.dumps` of all
    of them. Files and tables are read without it.

    Options that are not listed here are as in `pack_files`, those of a folder as in `pack_dir`.

    Args:
        records: The records, each of them a dict of what JSON can hold, arrays and numbers of `numpy` among it. A
            field that holds something else by itself, such as a date, is left out. They are taken on the
            thread of this call, some at a time, and their exceptions reach the caller as they are. Of a map-style
            data set, with a length and items by number, these are the items; tensors are lists.
        tokenizer: As in `pack_files`.
        output: A folder to write, as `pack_dir` writes it: whole or not at all. If not given, rows stay in memory. Nobody knows
            whether records are the same as others before they are made: a job that was stopped starts anew, one that has
            finished is refused unless `overwrite` is set, and of several ranks one alone is to call this.

    Returns:
        With `output` the report, which the folder holds as `report.json`; else a table, or `Splits` of two, as `pack_files`
        returns it. Errors about a record name `<records>` and its number, from 1.

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
    return _pack(values_of(records), locals(), progress)


def _pack(
    records: Records, given: Mapping[str, object], progress: ProgressOption
) -> pa.Table | Splits | Report:
    """Packs records into the folder that a call names, or else into tables."""
    options, aside, folder = native_options(given), native_validation(given), native_folder(given)
    model = native_model(given)
    reading = native_reading(given)
    with watching(progress) as callback:
        if folder is not None:
            return _fastpack.write_records(records, reading, folder, options, *model, callback)
        return tables(_fastpack.pack_records(records, reading, options, *model, aside, callback))
