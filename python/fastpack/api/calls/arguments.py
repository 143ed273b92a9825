"""The keyword arguments of overloads, for the types of these alone.

Written by `make signatures` from `fastpack/options/`: change that, not this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from fastpack.options.function import Function
    from fastpack.options.objective import Objective
    from fastpack.options.train_on import TrainOn
    from fastpack.types import (
        Bos,
        Column,
        Compression,
        Eos,
        Examples,
        Fields,
        Format,
        FsspecFileSystem,
        JsonValue,
        Layout,
        MaxLost,
        ObjectiveName,
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
        SpecialInText,
        StoppingStrategy,
        Strategy,
        StrPath,
        TemplateEngine,
        TrainedTokens,
        TrainOnEos,
        Turns,
        WeightUnit,
    )

__all__ = ["FileArguments", "OutputArguments", "RecordArguments"]


class RecordArguments(TypedDict, total=False):
    """How records become rows; each as in `pack_records`."""

    max_length: int | None
    strategy: Strategy
    overlong: Overlong | None
    truncation_side: Side
    drop_last: bool
    shuffle: bool
    max_documents_per_pack: int | None
    align_documents_to: int | None
    order: Order | None
    balance_ranks: int | None
    on_remainder: OnRemainder
    seed: int
    pad_to: PadTo | None
    padding_side: Side
    pad_token_id: int | None
    shift_labels: bool
    columns: Sequence[Column] | None
    objective: ObjectiveName | Objective
    train_on: TrainedTokens | TrainOn
    turns: Turns
    train_on_eos: TrainOnEos | None
    special_in_text: SpecialInText
    decode_arguments: bool
    eos: Eos
    bos: Bos
    chat_template: StrPath | None
    chat_template_kwargs: Mapping[str, JsonValue] | None
    template_engine: TemplateEngine
    now: datetime | None
    revision: str | None
    token: str | bool | None
    storage_options: Mapping[str, str] | None
    shape: Shape | None
    fields: Fields | None
    prompt: Prompt | None
    examples: Examples | None
    filter: RecordFilter | Function[bool] | None
    map: RecordMap | Function[dict[str, object]] | None
    on_bad_record: OnBadRecord
    max_lost: MaxLost | None
    cache_dir: StrPath | None
    threads: int | None
    verify: int
    progress: ProgressOption


class FileArguments(TypedDict, total=False):
    """How files become rows; each as in `pack_files`."""

    max_length: int | None
    strategy: Strategy
    overlong: Overlong | None
    truncation_side: Side
    drop_last: bool
    shuffle: bool
    max_documents_per_pack: int | None
    align_documents_to: int | None
    order: Order | None
    balance_ranks: int | None
    on_remainder: OnRemainder
    seed: int
    pad_to: PadTo | None
    padding_side: Side
    pad_token_id: int | None
    shift_labels: bool
    columns: Sequence[Column] | None
    objective: ObjectiveName | Objective
    train_on: TrainedTokens | TrainOn
    turns: Turns
    train_on_eos: TrainOnEos | None
    special_in_text: SpecialInText
    decode_arguments: bool
    eos: Eos
    bos: Bos
    chat_template: StrPath | None
    chat_template_kwargs: Mapping[str, JsonValue] | None
    template_engine: TemplateEngine
    now: datetime | None
    revision: str | None
    token: str | bool | None
    sources: Sequence[Source] | None
    recursive: bool
    storage_options: Mapping[str, str] | None
    filesystem: FsspecFileSystem | None
    block_cache: int | str | None
    shape: Shape | None
    fields: Fields | None
    prompt: Prompt | None
    examples: Examples | None
    separator: str | None
    filter: RecordFilter | Function[bool] | None
    map: RecordMap | Function[dict[str, object]] | None
    on_bad_record: OnBadRecord
    max_lost: MaxLost | None
    cache_dir: StrPath | None
    threads: int | None
    verify: int
    progress: ProgressOption
    weights: Mapping[str, float] | None
    weight_unit: WeightUnit
    stopping_strategy: StoppingStrategy


class OutputArguments(TypedDict, total=False):
    """How records become rows in a folder; each as in `pack_records`."""

    max_length: int | None
    strategy: Strategy
    overlong: Overlong | None
    truncation_side: Side
    drop_last: bool
    shuffle: bool
    max_documents_per_pack: int | None
    align_documents_to: int | None
    order: Order | None
    balance_ranks: int | None
    on_remainder: OnRemainder
    seed: int
    pad_to: PadTo | None
    padding_side: Side
    pad_token_id: int | None
    shift_labels: bool
    columns: Sequence[Column] | None
    objective: ObjectiveName | Objective
    train_on: TrainedTokens | TrainOn
    turns: Turns
    train_on_eos: TrainOnEos | None
    special_in_text: SpecialInText
    decode_arguments: bool
    eos: Eos
    bos: Bos
    chat_template: StrPath | None
    chat_template_kwargs: Mapping[str, JsonValue] | None
    template_engine: TemplateEngine
    now: datetime | None
    revision: str | None
    token: str | bool | None
    storage_options: Mapping[str, str] | None
    shape: Shape | None
    fields: Fields | None
    prompt: Prompt | None
    examples: Examples | None
    filter: RecordFilter | Function[bool] | None
    map: RecordMap | Function[dict[str, object]] | None
    on_bad_record: OnBadRecord
    max_lost: MaxLost | None
    work_dir: StrPath | None
    format: Format
    layout: Layout
    compression: Compression | None
    hf_layout: bool
    shard_size: int | str
    keep_tokens: bool
    overwrite: bool
    wait: bool
    cache_dir: StrPath | None
    memory: int | str | None
    threads: int | None
    verify: int
    progress: ProgressOption
