"""The keyword arguments that the overloads of a function share.

What decides the type of the result, and `columns`, whose names differ, stand in the overloads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastpack.options.function import Function
    from fastpack.options.objective import Objective
    from fastpack.options.output import Exists, Format
    from fastpack.options.packing import Balanced, Packing, Truncate
    from fastpack.options.records import Reading
    from fastpack.options.rows import Padding
    from fastpack.options.storage import Storage
    from fastpack.options.tokens import ChatTemplate, SpecialTokens
    from fastpack.options.train_on import TrainOn
    from fastpack.options.work import Weights
    from fastpack.types import (
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
        Strategy,
        StrPath,
        TrainedTokens,
        Turns,
    )

__all__ = ["FileArguments", "FolderArguments", "RowArguments"]


class RowArguments(TypedDict, total=False):
    """How records become rows in memory."""

    max_length: int | None
    strategy: Strategy | Packing
    overlong: Overlong | Truncate | None
    order: Order | Balanced | None
    seed: int
    padding: PadTo | Padding | None
    objective: ObjectiveName | Objective
    train_on: TrainedTokens | TrainOn
    turns: Turns
    special_tokens: SpecialTokens | None
    chat_template: StrPath | ChatTemplate | None
    reading: Shape | Reading | None
    filter: RecordFilter | Function[bool] | None
    map: RecordMap | Function[dict[str, object]] | None
    on_bad_record: OnBadRecord
    max_lost: MaxLost | None
    cache_dir: StrPath | None
    storage: Mapping[str, str] | Storage | None
    threads: int | None
    verify: int
    progress: ProgressOption


class FileArguments(RowArguments, total=False):
    """How files become rows in memory."""

    weights: Mapping[str, float] | Weights | None


class FolderArguments(RowArguments, total=False):
    """How records become rows in a folder."""

    format: FormatName | Format
    keep_tokens: bool
    exists: Existing | Exists
    memory: int | str | None
