"""The keyword arguments that functions share which return one thing or another: for the types of these alone.

An overload takes them as `**options`, so that only what decides about the return stands in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from fastpack._types import (
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
        Source,
        Strategy,
        StrPath,
        Tail,
        TemplateEngine,
        TrainOn,
        TrainOnEos,
    )

__all__ = ["FileArguments", "OutputArguments", "RecordArguments"]


class RecordArguments(TypedDict, total=False):
    """How records become rows; each as in `pack_files`."""

    strategy: Strategy
    overlong: Overlong | None
    keep: Keep
    tail: Tail
    max_documents_per_pack: int | None
    align_documents_to: int | None
    order: Order | None
    world_size: int | None
    on_remainder: OnRemainder
    seed: int
    pad_to: PadTo | None
    padding_side: Side
    pad_token_id: int | None
    train_on: TrainOn
    shift_labels: bool
    train_on_eos: TrainOnEos | None
    eos: Eos
    bos: Bos
    columns: Sequence[Column]
    chat_template: StrPath | None
    chat_template_kwargs: Mapping[str, JsonValue] | None
    template_engine: TemplateEngine
    shape: Shape | None
    fields: Fields | None
    prompt: Prompt | None
    examples: Examples | None
    filter: RecordFilter | None
    filter_fingerprint: str | None
    map: RecordMap | None
    map_fingerprint: str | None
    on_bad_record: OnBadRecord
    max_lost: MaxLost | None
    now: datetime | None
    verify: int
    threads: int | None
    progress: ProgressOption
    revision: str | None
    token: str | bool | None


class FileArguments(RecordArguments, total=False):
    """Those, and what only files have."""

    separator: str | None
    sources: Sequence[Source] | None
    recursive: bool
    cache_dir: StrPath | None


class OutputArguments(RecordArguments, total=False):
    """Those of records, and how a folder is written; each as in `pack_dir`."""

    format: Format
    compression: Compression | None
    hf_layout: bool
    shard_size: int | str
    memory: int | str | None
    keep_tokens: bool
    overwrite: bool
    wait: bool
