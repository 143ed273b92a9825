"""Packing while files are being read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fastpack import _fastpack
from fastpack._checks import check_choice
from fastpack._progress import watcher
from fastpack._types import StreamStrategy
from fastpack.api.options import Model, Packing, Run, native_inputs, native_model, native_options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from fastpack._tokenizer import TokenizerArgument
    from fastpack._types import (
        Bos,
        Column,
        Eos,
        Examples,
        Fields,
        Files,
        JsonValue,
        Keep,
        MaxLost,
        OnBadRecord,
        Overlong,
        PadTo,
        ProgressOption,
        Prompt,
        RecordFilter,
        RecordMap,
        Shape,
        Side,
        Source,
        StrPath,
        Tail,
        TemplateEngine,
        TrainOn,
        TrainOnEos,
    )
    from fastpack.tokenizer import Tokenizer

__all__ = ["stream"]

_STRATEGY: Final = "sequential"
_BATCH_SIZE: Final = 8
_OPEN_PACKS: Final = 64


def stream(
    files: Files | None = None,
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    max_length: int,
    batch_size: int = _BATCH_SIZE,
    strategy: StreamStrategy = _STRATEGY,
    open_packs: int = _OPEN_PACKS,
    overlong: Overlong | None = None,
    keep: Keep = Packing.keep,
    tail: Tail = Packing.tail,
    max_documents_per_pack: int | None = None,
    align_documents_to: int | None = None,
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
    separator: str | None = None,
    sources: Sequence[Source] | None = None,
    filter: RecordFilter | None = None,
    filter_fingerprint: str | None = None,
    map: RecordMap | None = None,
    map_fingerprint: str | None = None,
    on_bad_record: OnBadRecord = Run.on_bad_record,
    max_lost: MaxLost | None = None,
    recursive: bool = False,
    now: datetime | None = None,
    verify: int = Run.verify,
    threads: int | None = None,
    progress: ProgressOption = False,
    revision: str | None = None,
    token: str | bool | None = None,
) -> _fastpack.PackStream:
    """Packs files while they are being read: the first table comes at once, memory stays constant.

    Options that are not listed here are as in `pack_files`.

    Args:
        tokenizer: As in `pack_files`.
        max_length: Tokens that a row holds at most.
        batch_size: Rows of a table; the last may have fewer.
        strategy: `sequential`, `concat` or `none`, which give the rows of `pack_files`; or `best_fit` over
            `open_packs` rows.
        open_packs: Rows that `best_fit` keeps open; more of them fill better and come later.
        max_lost: As in `pack_files`, but it is at its end, when all is counted, that a stream fails.
        progress: As in `pack_files`, but no bar unless asked for.

    Returns:
        An iterator of tables, which is a context manager too. Errors are raised from the loop, with their own
        type. Its threads end when it is closed or dropped; `report` has the report once it is exhausted.

    Raises:
        OptionError: An option has a value that it cannot have.
        FastpackError: As in `pack_files`; while iterating, what concerns the data.

    Examples:
        >>> import fastpack
        >>> rows = 0
        >>> for table in fastpack.stream(
        ...     "examples/*.jsonl", "examples/tokenizer", max_length=512
        ... ):
        ...     rows += table.num_rows
        >>> rows > 0
        True
    """
    given = locals()
    check_choice("strategy", strategy, StreamStrategy, " in a stream")
    options = native_options(given)
    inputs = native_inputs(given)
    model = native_model(given)
    return _fastpack.PackStream(inputs, options, *model, batch_size, open_packs, watcher(progress))
