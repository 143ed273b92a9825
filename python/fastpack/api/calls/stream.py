"""`fastpack.stream`: rows while files are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastpack.api.run import stream as run
from fastpack.options.docstring import listing_options
from fastpack.options.mistakes.refusals import suggesting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fastpack.options.function import Function
    from fastpack.options.objective import Objective
    from fastpack.options.packing import BestFit, Concat, Sequential, Truncate, Unpacked
    from fastpack.options.records import Reading
    from fastpack.options.rows import Padding
    from fastpack.options.storage import Storage
    from fastpack.options.tokens import ChatTemplate, SpecialTokens
    from fastpack.options.train_on import TrainOn
    from fastpack.options.work import Ranks, Select, Weights
    from fastpack.streaming.stream import PackStream
    from fastpack.tokenizer.arguments import TokenizerArgument
    from fastpack.tokenizer.tokenizer import Tokenizer
    from fastpack.types import (
        Column,
        MaxLost,
        NamedSources,
        ObjectiveName,
        OnBadRecord,
        Overlong,
        PadTo,
        ProgressOption,
        RecordFilter,
        RecordMap,
        Records,
        Shape,
        Shares,
        Source,
        StreamLog,
        StreamStrategy,
        StrPath,
        TrainedTokens,
        Turns,
        Where,
    )

__all__ = ["stream"]


@suggesting
@listing_options
def stream(
    files: StrPath | Iterable[StrPath | Source] | Records | NamedSources | None = None,
    tokenizer: TokenizerArgument | Tokenizer | None = None,
    *,
    max_length: int | None = None,
    strategy: StreamStrategy | BestFit | Sequential | Concat | Unpacked = "best_fit",
    overlong: Overlong | Truncate | None = None,
    shuffle: bool = True,
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
    validation: float | str | None = None,
    cache_dir: StrPath | None = None,
    storage: Mapping[str, str] | Storage | None = None,
    threads: int | None = None,
    verify: int = 0,
    progress: ProgressOption = False,
    select: Where | Select | None = None,
    batch_size: int = 8,
    weights: Shares | Weights | None = None,
    ranks: Ranks | None = None,
    log: StreamLog | None = None,
    epochs: int | None = 1,
    max_steps: int | None = None,
) -> PackStream:
    """Packs files while they are being read: shuffled, shared by ranks, and resumed at the very document.

    The rows come from `lanes` that each read a part of the input and pack it alone; row `g` of a run is row `g // lanes`
    of lane `g % lanes`. So they are the same for any number of ranks and threads.

    Returns:
        An iterator of tables, which is a context manager too. Errors are raised from the loop, with their own type.
        Its threads end when it is closed or dropped; `report` has the report once it is exhausted. `state_dict()` says
        where it is, `load_state_dict()` goes on from there.

    Raises:
        OptionError: An option has a value that it cannot have.
        FastpackError: As in `pack_files`; while iterating, what concerns the data.

    Examples:
        >>> import fastpack
        >>> stream = fastpack.stream("examples/*.jsonl", "examples/tokenizer", max_length=512)
        >>> table = next(stream)
        >>> state = stream.state_dict()
        >>> rest = sum(table.num_rows for table in stream)
        >>> again = fastpack.stream("examples/*.jsonl", "examples/tokenizer", max_length=512)
        >>> again.load_state_dict(state)
        >>> sum(table.num_rows for table in again) == rest
        True
    """
    return run(locals())
