"""`fastpack.pack_files`: files into tables in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from fastpack.api.run import pack_files as run
from fastpack.options.docstring import listing_options
from fastpack.options.mistakes.refusals import suggesting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa
    from typing_extensions import Unpack

    from fastpack.api.calls.arguments import FileArguments
    from fastpack.options.function import Function
    from fastpack.options.objective import Objective
    from fastpack.options.packing import Balanced, Packing, Truncate
    from fastpack.options.records import Reading
    from fastpack.options.rows import Padding
    from fastpack.options.storage import Storage
    from fastpack.options.tokens import ChatTemplate, SpecialTokens
    from fastpack.options.train_on import TrainOn
    from fastpack.options.work import Weights
    from fastpack.tokenizer.arguments import TokenizerArgument
    from fastpack.tokenizer.tokenizer import Tokenizer
    from fastpack.types import (
        Column,
        MaxLost,
        NamedSources,
        ObjectiveName,
        OnBadRecord,
        Order,
        Overlong,
        PadTo,
        ProgressOption,
        RecordFilter,
        RecordMap,
        Shape,
        Source,
        Splits,
        Strategy,
        StrPath,
        TrainedTokens,
        Turns,
        Validation,
    )

__all__ = ["pack_files"]


@overload
def pack_files(
    files: StrPath | Iterable[StrPath | Source] | NamedSources | None = None,
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    validation: None = None,
    columns: Sequence[Column | str] | None = None,
    **options: Unpack[FileArguments],
) -> pa.Table: ...
@overload
def pack_files(
    files: StrPath | Iterable[StrPath | Source] | NamedSources | None = None,
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    validation: Validation,
    columns: Sequence[Column | str] | None = None,
    **options: Unpack[FileArguments],
) -> Splits: ...
@suggesting
@listing_options
def pack_files(
    files: StrPath | Iterable[StrPath | Source] | NamedSources | None = None,
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    max_length: int | None = None,
    strategy: Strategy | Packing = "mix",
    overlong: Overlong | Truncate | None = None,
    order: Order | Balanced | None = None,
    seed: int = 0,
    padding: PadTo | Padding | None = None,
    columns: Sequence[Column | str] | None = None,
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
    validation: Validation | None = None,
    cache_dir: StrPath | None = None,
    storage: Mapping[str, str] | Storage | None = None,
    threads: int | None = None,
    verify: int = 0,
    progress: ProgressOption = None,
    weights: Mapping[str, float] | Weights | None = None,
) -> pa.Table | Splits:
    """Packs files of conversations, requests or text into one table, or one to train on and one to validate.

    Returns:
        A table with a row per pack. Each column is a list of int32: `input_ids`; `labels`, unshifted and -100 where
        not trained; `position_ids`, from 0 in each document; `seq_lengths`, a length per document; but `loss_weights`
        of float32, 0 where not trained. The schema metadata holds the timeless part of the report:
        `Report.of(table)`. With `validation`, `Splits` of two such tables, `train` and `validation`, which unpack as
        a pair; the report of both counts both, and has one of each as `splits`.

    Raises:
        OptionError: An option has a value that it cannot have.
        RecordError: A record is not what it must be; has `path`, `line` and `reason`.
        TemplateError: The chat template cannot be used.
        TokenizerError: The tokenizer cannot be used.
        InputNotFoundError: A file is not there.
        VerificationError: The ids of a document that was verified differ.
        LossError: More is lost than `max_lost` allows.

    Examples:
        >>> import fastpack
        >>> table = fastpack.pack_files(
        ...     "examples/chat.jsonl", "examples/tokenizer", max_length=512
        ... )
        >>> row = table.slice(0, 1).to_pydict()
        >>> sum(row["seq_lengths"][0]) == len(row["input_ids"][0]) <= 512
        True
        >>> row["labels"][0][0]
        -100
        >>> train, held_out = fastpack.pack_files(
        ...     "examples/chat.jsonl", "examples/tokenizer", max_length=512, validation=0.1
        ... )
        >>> fastpack.Report.of(train).splits["validation"].rows == held_out.num_rows
        True
    """
    return run(locals())
