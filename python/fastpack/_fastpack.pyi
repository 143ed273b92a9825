"""Types of the native module, sorted like its `lib.rs`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Final, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastpack.options.objective import Objective
from fastpack.options.output import Exists, Format, Groups
from fastpack.options.packing import Balanced, Packing, Truncate
from fastpack.options.records import Reading
from fastpack.options.rows import Padding
from fastpack.options.storage import Storage
from fastpack.options.tokens import ChatTemplate, SpecialTokens
from fastpack.options.train_on import TrainOn
from fastpack.options.value import Value
from fastpack.options.work import Ranks, Select, Weights
from fastpack.records.filter_and_map import NativeTransform
from fastpack.report.report import Report
from fastpack.runtime.progress import NativeProgress
from fastpack.tokenizer.arguments import NativeTemplate
from fastpack.tokenizer.pictures.native import NativeImages
from fastpack.types import JsonValue

__all__ = [
    "COMPACT_KEY",
    "COMPUTED_COLUMNS",
    "LABEL_SPANS",
    "MANIFEST_VERSION",
    "PLACES_KEY",
    "REPORT_KEY",
    "STATE_KEY",
    "CompactRows",
    "Conversations",
    "Encoders",
    "HeldFile",
    "Inputs",
    "ObjectiveOptions",
    "Options",
    "Output",
    "PackOptions",
    "Plan",
    "Pretrained",
    "Records",
    "RemoteFolder",
    "RemotePictures",
    "RowDocuments",
    "Source",
    "StorageOptions",
    "StreamOptions",
    "StreamTables",
    "Validation",
    "__version__",
    "block_cache_size",
    "build_profile",
    "bytes_of_rows",
    "check_rows",
    "check_state",
    "check_value",
    "content_hash",
    "count_stream",
    "document_hashes",
    "expand_row",
    "expand_rows",
    "first_outside",
    "first_restart",
    "first_state",
    "hash_of",
    "held_picture",
    "inspect_row",
    "is_beginning",
    "is_sealed",
    "line_fault",
    "list_groups",
    "merge_states",
    "one_line",
    "open_state",
    "option_words",
    "pack_dir",
    "pack_files",
    "pack_group",
    "pack_records",
    "padding_values",
    "plan",
    "plan_step",
    "printable",
    "reindex",
    "render_template",
    "repack",
    "replay_template",
    "required_fields",
    "row_boundaries",
    "row_documents",
    "scan",
    "seal_state",
    "shown_columns",
    "state_after_row",
    "status",
    "strategy_rules",
    "template_engine_reason",
    "tokens_hash",
    "without_secrets",
    "write_records",
]

@final
class Conversations:
    def __new__(cls, records_json: Sequence[str]) -> Conversations: ...
    def render(self, source: str, special_tokens: Sequence[tuple[str, str]], now_iso: str) -> int: ...

@final
class Encoders:
    def __new__(cls, pretrained: Pretrained, cache_size: int | str) -> Encoders: ...
    def encode(self, text: str, add_special_tokens: bool) -> npt.NDArray[np.int32]: ...
    def encode_batch(
        self,
        texts: Sequence[object],
        add_special_tokens: bool,
        return_offsets: bool,
        verify: int,
        threads: int,
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int32] | None]: ...
    def render(
        self,
        conversation: tuple[Sequence[Mapping[str, JsonValue]], Sequence[Mapping[str, JsonValue]] | None],
        chat_template: NativeTemplate,
    ) -> str: ...
    def chat(
        self,
        conversation: tuple[Sequence[Mapping[str, JsonValue]], Sequence[Mapping[str, JsonValue]] | None],
        chat_template: NativeTemplate,
        mask: bool,
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]: ...

@final
class Inputs:
    def __new__(cls, *, sources: Sequence[Source], recursive: bool, storage: StorageOptions) -> Inputs: ...

@final
class RemoteFolder:
    def __new__(cls, url: str, storage: StorageOptions) -> RemoteFolder: ...
    def read(self, name: str) -> bytes | None: ...
    def status(self) -> str: ...
    def hold(
        self,
        files: Sequence[tuple[str, int, str, str]],
        dir: str | PathLike[str],
        most: int | str | None,
    ) -> list[HeldFile | None]: ...
    def copy(self, name: str, bytes: int, path: str | PathLike[str]) -> None: ...

@final
class RemotePictures:
    def __new__(
        cls, storage: StorageOptions, hub: tuple[str, Mapping[str, str]] | None
    ) -> RemotePictures: ...
    def read(self, url: str) -> bytes: ...

@final
class HeldFile:
    @property
    def path(self) -> Path: ...
    def release(self) -> None: ...

def block_cache_size(dir: str | PathLike[str], most: int | str | None) -> int: ...

@final
class StorageOptions:
    def __new__(
        cls,
        *,
        storage: Storage,
        cache: str | PathLike[str] | None,
        given: Mapping[str, Sequence[tuple[str, str, Mapping[str, str]]]],
        filesystem: object,
    ) -> StorageOptions: ...

@final
class Source:
    def __new__(
        cls,
        *,
        patterns: Sequence[str | PathLike[str]],
        reading: Reading,
        limit: int | None,
        repeat: int,
        records: tuple[str, str | None, str, object] | None,
    ) -> Source: ...

@final
class ObjectiveOptions:
    def __new__(cls, value: Objective) -> ObjectiveOptions: ...

@final
class Options:
    def __new__(
        cls,
        *,
        packing: PackOptions,
        objective: ObjectiveOptions,
        padding: Padding,
        train_on: str | TrainOn,
        turns: str,
        special_tokens: SpecialTokens,
        chat_template: ChatTemplate,
        on_bad_record: str,
        max_lost: str | float | None,
        columns: Sequence[str] | None,
        verify: int,
        threads: int,
        images: NativeImages | None,
        shares: tuple[Weights, Sequence[tuple[str, float | None, float]]] | None,
    ) -> Options: ...

@final
class Output:
    def __new__(
        cls,
        *,
        dir: str | PathLike[str],
        format: Format,
        exists: Exists,
        groups: Groups,
        turn: tuple[int, int] | None,
        validation: str | float | None,
        keep_tokens: bool,
        shared: bool,
        memory: int | str,
        recipe: str | None,
        remote: tuple[str, StorageOptions] | None,
    ) -> Output: ...

@final
class Validation:
    def __new__(cls, validation: str | float) -> Validation: ...

def line_fault(path: str) -> str | None: ...
def list_groups(inputs: Inputs, output: Output) -> tuple[list[int], list[str]]: ...
def pack_group(
    inputs: Inputs,
    output: Output,
    options: Options,
    tokenizer: Pretrained | None,
    chat_template: NativeTemplate,
    transform: NativeTransform,
    group: int,
    step: int,
) -> Report: ...
def reindex(
    inputs: Inputs,
    output: str | PathLike[str],
    remote: tuple[str, StorageOptions] | None,
    progress: NativeProgress | None,
) -> list[tuple[str, str, int, int, int]]: ...
def status(folder: str, storage: StorageOptions | None) -> str: ...
def content_hash(path: str) -> str: ...
def first_outside(folder: str, names: list[str]) -> str | None: ...
def hash_of(bytes: bytes) -> str: ...
def is_sealed(text: bytes) -> bool: ...
def tokens_hash(path: str) -> str | None: ...
def held_picture(record: bytes | pa.RecordBatch, readings: list[str], number: int) -> bytes: ...
def one_line(message: str) -> str: ...
def printable(text: str) -> str: ...
def without_secrets(text: str) -> str: ...
def pack_dir(
    inputs: Inputs,
    output: Output,
    options: Options,
    tokenizer: Pretrained | None,
    chat_template: NativeTemplate,
    transform: NativeTransform,
    cache_dir: str | PathLike[str] | None,
    progress: NativeProgress | None,
) -> Report: ...
def pack_files(
    inputs: Inputs,
    options: Options,
    tokenizer: Pretrained | None,
    chat_template: NativeTemplate,
    transform: NativeTransform,
    validation: Validation | None,
    cache_dir: str | PathLike[str] | None,
    progress: NativeProgress | None,
) -> tuple[pa.Table, pa.Table | None]: ...
def pack_records(
    records: Records,
    reading: Source,
    options: Options,
    tokenizer: Pretrained | None,
    chat_template: NativeTemplate,
    transform: NativeTransform,
    validation: Validation | None,
    cache_dir: str | PathLike[str] | None,
    progress: NativeProgress | None,
) -> tuple[pa.Table, pa.Table | None]: ...

@final
class PackOptions:
    def __new__(
        cls,
        *,
        max_length: int | None,
        strategy: Packing,
        overlong: str | Truncate | None,
        order: str | Balanced | None,
        seed: int,
    ) -> PackOptions: ...

@final
class Plan:
    def __len__(self) -> int: ...
    @property
    def offsets(self) -> npt.NDArray[np.int64]: ...
    @property
    def members(self) -> npt.NDArray[np.int64]: ...
    @property
    def starts(self) -> npt.NDArray[np.int32]: ...
    @property
    def lengths(self) -> npt.NDArray[np.int32]: ...
    @property
    def dropped(self) -> npt.NDArray[np.int64]: ...
    @property
    def tokens(self) -> int: ...
    @property
    def fill(self) -> float: ...
    @property
    def lower_bound(self) -> int: ...
    @property
    def max_length(self) -> int | None: ...

def check_value(option: str, value: Value) -> None: ...
def option_words() -> dict[str, list[str]]: ...
def required_fields() -> dict[str, list[list[str]]]: ...
def strategy_rules() -> dict[str, list[str]]: ...
def plan(lengths: npt.NDArray[np.int64], options: PackOptions) -> Plan: ...
def plan_step(
    lengths: npt.NDArray[np.int64],
    packing: PackOptions,
    *,
    groups: npt.NDArray[np.uint32] | None,
    kinds: tuple[npt.NDArray[np.uint32], int] | None,
    ranks: int,
    multiple_of: int,
    cost: tuple[float, float],
    pyramid: bool,
    mini_batches: int,
    seed: int | None,
    by_groups: bool,
    agree: Callable[[int], int] | None,
) -> tuple[
    npt.NDArray[np.int64],
    npt.NDArray[np.int64],
    npt.NDArray[np.int64],
    npt.NDArray[np.float64],
    npt.NDArray[np.int64],
    npt.NDArray[np.int64],
    tuple[float, float, float],
]: ...

@final
class Pretrained:
    @staticmethod
    def from_built(
        path: str | PathLike[str],
        hub_name: str | None,
        parts: tuple[str, Sequence[tuple[str, str]], Sequence[tuple[str, str]], str],
        splits_special_tokens: bool,
        transformers: str,
    ) -> Pretrained: ...
    @staticmethod
    def from_dir(path: str | PathLike[str], hub_name: str | None) -> Pretrained | str: ...
    @staticmethod
    def from_file(path: str | PathLike[str]) -> Pretrained: ...
    @staticmethod
    def from_json(
        json: str,
        special_tokens: Sequence[tuple[str, str]],
        chat_templates: Sequence[tuple[str, str]],
        call: str,
    ) -> Pretrained: ...
    @property
    def chat_templates(self) -> list[tuple[str, str]]: ...
    @property
    def special_tokens(self) -> list[tuple[str, str]]: ...
    @property
    def special_contents(self) -> list[str]: ...
    @property
    def vocab_size(self) -> int: ...
    @property
    def call(self) -> str: ...
    @property
    def engine_reason(self) -> str | None: ...
    @property
    def fingerprint(self) -> str: ...
    def components(self) -> list[tuple[str, str]]: ...
    def frame(self, pair: bool, special: bool) -> list[tuple[int | None, int, int]]: ...
    def id_to_token(self, id: int) -> str | None: ...
    def token_to_id(self, token: str) -> int | None: ...
    def decode(self, ids: Sequence[int] | npt.NDArray[np.int32]) -> str: ...

@final
class Records:
    @staticmethod
    def table(table: pa.Table) -> Records: ...
    @staticmethod
    def batches(batches: Iterator[pa.RecordBatch | str], known_as: str | None) -> Records: ...
    @staticmethod
    def values(values: Iterator[Mapping[str, JsonValue]]) -> Records: ...

def repack(
    source: str | PathLike[str],
    output: Output,
    options: Options,
    tokenizer: Pretrained | None,
    pictures: RemotePictures | None,
    progress: NativeProgress | None,
) -> Report: ...
def render_template(
    source: str,
    special_tokens: Sequence[tuple[str, str]],
    record_json: str,
    spans: bool,
    now_iso: str,
    turn_ends: Sequence[str],
) -> tuple[str, list[tuple[int, int]] | None]: ...
def replay_template(
    source: str,
    special_tokens: Sequence[tuple[str, str]],
    records_json: Sequence[str],
    spans: bool,
    now_iso: str,
    turn_ends: Sequence[str],
    interpret: bool,
) -> list[tuple[str, list[tuple[int, int]] | None] | None]: ...

@final
class CompactRows:
    def __new__(cls, batch: pa.RecordBatch) -> CompactRows: ...
    def values(self, column: str, row: int) -> npt.NDArray[np.int32 | np.float32]: ...

@final
class RowDocuments:
    @property
    def rows(self) -> npt.NDArray[np.int64]: ...
    @property
    def numbers(self) -> npt.NDArray[np.int64]: ...
    @property
    def starts(self) -> npt.NDArray[np.int64]: ...
    @property
    def lengths(self) -> npt.NDArray[np.int64]: ...
    @property
    def unpadded(self) -> npt.NDArray[np.int64]: ...
    @property
    def labels(self) -> npt.NDArray[np.int64]: ...
    @property
    def files(self) -> npt.NDArray[np.int64]: ...

def bytes_of_rows(columns: Sequence[str], format: Format, tokens: int) -> int: ...
def check_rows(table: pa.Table, options: str) -> tuple[list[tuple[int, str]], tuple[int, int] | None]: ...
def document_hashes(table: pa.Table) -> list[int]: ...
def expand_row(
    ids: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    spans: npt.NDArray[np.int64],
    shifted: bool,
    weights: npt.NDArray[np.float32] | None,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.float32] | None]: ...
def expand_rows(table: pa.Table, columns: Sequence[str]) -> pa.Table: ...
def first_restart(table: pa.Table) -> int | None: ...
def inspect_row(
    table: pa.Table,
) -> list[tuple[int, list[int], list[int], int, int, bool, int | list[float] | None]]: ...
def padding_values(token: int) -> list[tuple[str, int]]: ...
def row_boundaries(
    rows: Sequence[npt.NDArray[np.int64]], width: int | None, numbers: bool
) -> tuple[
    npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int32], int, npt.NDArray[np.int64]
]: ...
def row_documents(table: pa.Table, options: str) -> RowDocuments: ...
def shown_columns(names: Sequence[str], said: bytes | None) -> list[str] | None: ...
def scan(
    inputs: Inputs,
    max_lengths: Sequence[int],
    sample: int | None,
    options: Options,
    tokenizer: Pretrained | None,
    chat_template: NativeTemplate,
    transform: NativeTransform,
    progress: NativeProgress | None,
) -> str: ...
def template_engine_reason(
    source: str,
    special_tokens: Sequence[tuple[str, str]],
    now_iso: str,
    turn_ends: Sequence[str],
) -> str | None: ...
def write_records(
    records: Records,
    reading: Source,
    output: Output,
    options: Options,
    tokenizer: Pretrained | None,
    chat_template: NativeTemplate,
    transform: NativeTransform,
    cache_dir: str | PathLike[str] | None,
    progress: NativeProgress | None,
) -> Report: ...

@final
class StreamOptions:
    def __new__(
        cls,
        *,
        batch_size: int,
        strategy: Packing,
        shuffle: bool,
        epochs: int | None,
        select: Select,
        weights: Weights,
        ranks: Ranks,
        rank: int,
        world_size: int,
        rank_source: str | None,
        max_steps: int | None,
        names: Sequence[str],
        shares: Sequence[tuple[int, Sequence[float]]],
        cache_dir: str | None,
        agreed: bool,
        by_row: bool,
        validation: float | str | None,
        held_out: bool,
    ) -> StreamOptions: ...

def count_stream(
    inputs: Inputs,
    options: Options,
    tokenizer: Pretrained | None,
    chat_template: NativeTemplate,
    transform: NativeTransform,
    packing: StreamOptions,
    progress: NativeProgress | None,
) -> tuple[list[int], int, int]: ...
def seal_state(kind: str, state: str) -> str: ...
def open_state(kind: str, state: str) -> str: ...
def check_state(state: str) -> None: ...
def is_beginning(state: str) -> bool: ...
def first_state(options: Options | None, packing: StreamOptions | None) -> str: ...
def merge_states(states: Sequence[str]) -> str: ...
def state_after_row(state: str, places: str, row: int) -> str: ...

@final
class StreamTables:
    def __new__(
        cls,
        inputs: Inputs,
        options: Options,
        tokenizer: Pretrained | None,
        chat_template: NativeTemplate,
        transform: NativeTransform,
        packing: StreamOptions,
        state: str | None,
        strict: bool,
        all_reduce: Callable[[int], int] | None,
        progress: NativeProgress | None,
    ) -> StreamTables: ...
    def __iter__(self) -> StreamTables: ...
    def __next__(self) -> pa.Table: ...
    def close(self) -> None: ...
    @property
    def failed(self) -> bool: ...
    @property
    def passes(self) -> bool: ...
    @property
    def report(self) -> Report | None: ...
    @property
    def waiting(self) -> int: ...
    @property
    def warning(self) -> str | None: ...

COMPACT_KEY: Final[str]
LABEL_SPANS: Final[list[str]]
MANIFEST_VERSION: Final[int]
COMPUTED_COLUMNS: Final[list[str]]
PLACES_KEY: Final[str]
REPORT_KEY: Final[str]
STATE_KEY: Final[str]
__version__: Final[str]
build_profile: Final[str]
