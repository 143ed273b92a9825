"""The types that signatures name, and the label of untrained tokens."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import (
    TYPE_CHECKING,
    Final,
    Literal,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypedDict,
    runtime_checkable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from fastpack.streaming.stats import StreamStats

__all__ = [
    "IMAGES",
    "NOT_TRAINED",
    "TOKEN_COLUMNS",
    "ArrowArray",
    "ArrowStream",
    "ArrowTable",
    "BackendTokenizer",
    "Bos",
    "Color",
    "Column",
    "Compression",
    "DocumentFunction",
    "Eos",
    "Examples",
    "Existing",
    "Fields",
    "Files",
    "FormatName",
    "FsspecFileSystem",
    "HubDataset",
    "ImageChoice",
    "JsonValue",
    "Layout",
    "Lengths",
    "MaxLost",
    "NamedPrompt",
    "NamedSources",
    "ObjectiveName",
    "OnBadRecord",
    "OnEnd",
    "OnExhausted",
    "OnRemainder",
    "Order",
    "OrderKind",
    "Overlong",
    "PadTo",
    "Part",
    "PreferenceForm",
    "Progress",
    "ProgressOption",
    "Prompt",
    "RecordFilter",
    "RecordMap",
    "RecordSource",
    "Records",
    "Shape",
    "Shares",
    "Side",
    "Source",
    "SpecialInText",
    "Splits",
    "StoppingStrategy",
    "StrPath",
    "Strategy",
    "StreamLog",
    "StreamStrategy",
    "TemplateEngine",
    "Texts",
    "TrainOnEos",
    "TrainedTokens",
    "TransformersTokenizer",
    "Turns",
    "Validation",
    "WeightUnit",
    "Where",
]

IMAGES: Final = "images"
"""The column of the pictures of a row."""

NOT_TRAINED: Final = -100
"""The label of a token that is not trained: the `ignore_index` of `torch.nn.CrossEntropyLoss`."""

TOKEN_COLUMNS: Final = ("input_ids", "labels", "loss_weights")
"""The columns with a value for each token that batches are made of."""

StrPath: TypeAlias = str | os.PathLike[str]
Files: TypeAlias = StrPath | Iterable[StrPath]
Records: TypeAlias = (
    "Callable[[], Iterable[Mapping[str, JsonValue]]] | Iterable[Mapping[str, JsonValue]] | HubDataset"
)
Part: TypeAlias = Literal[
    "messages",
    "tools",
    "system",
    "prompt",
    "completion",
    "instruction",
    "input",
    "output",
    "question",
    "answer",
    "text",
    "input_ids",
    "labels",
    "attention_mask",
    "assistant_masks",
    "loss_weights",
    "history",
    "loss_mask",
    "images",
    "chosen",
    "rejected",
    "label",
    "sentence1",
    "sentence2",
]
Fields: TypeAlias = Mapping[Part, str]
Shape: TypeAlias = Literal[
    "conversations",
    "prompt_completion",
    "instruction",
    "question_answer",
    "text",
    "tokens",
    "preference",
    "unpaired_preference",
    "prompt",
    "labelled_text",
    "labelled_pair",
]
NamedPrompt: TypeAlias = Literal[
    "alpaca",
    "chatml",
    "vicuna",
    "qa",
    "wizardmath-cot",
    "deepseekmath",
    "deepseekmath-tool",
    "xwinmath",
    "mammoth2-cot",
    "llama3-math",
]
Prompt: TypeAlias = NamedPrompt | StrPath | Mapping[str, str]
Examples: TypeAlias = "Sequence[tuple[str, str]]"
Lengths: TypeAlias = "Sequence[int] | npt.NDArray[np.int32] | npt.NDArray[np.uint32] | npt.NDArray[np.int64]"
Texts: TypeAlias = "Iterable[str] | ArrowArray | ArrowStream"
ArrowTable: TypeAlias = "pa.Table | pa.RecordBatch | pa.RecordBatchReader | ArrowStream | HubDataset"
RecordFilter: TypeAlias = "Callable[[pa.RecordBatch], pa.BooleanArray | pa.ChunkedArray[pa.BooleanScalar] | npt.NDArray[np.bool_] | Sequence[bool]]"
RecordMap: TypeAlias = "Callable[[pa.RecordBatch], pa.RecordBatch | pa.Table | ArrowStream]"
DocumentFunction: TypeAlias = "Callable[[pa.RecordBatch], pa.RecordBatch | pa.Table | ArrowStream]"
JsonValue: TypeAlias = "Mapping[str, JsonValue] | list[JsonValue] | str | int | float | bool | None"

Strategy: TypeAlias = Literal["mix", "best_fit", "heap", "sequential", "concat", "none"]
OnExhausted: TypeAlias = Literal["repeat", "stop", "drop"]
WeightUnit: TypeAlias = Literal["tokens", "documents", "rows"]
StoppingStrategy: TypeAlias = Literal["first_exhausted", "all_exhausted"]
OnEnd: TypeAlias = Literal["pad", "drop", "repeat"]
StreamLog: TypeAlias = "Callable[[StreamStats], object]"
AllReduce: TypeAlias = "Callable[[int], int]"
Where: TypeAlias = "Mapping[str, object]"
Shares: TypeAlias = "Mapping[str, float] | Sequence[tuple[int, Mapping[str, float]]]"
NamedSources: TypeAlias = "Mapping[str, Files | Source | Records | RecordSource]"
StreamStrategy: TypeAlias = Literal["sequential", "concat", "none", "best_fit"]
Overlong: TypeAlias = Literal["drop", "truncate", "trim", "split", "error"]
Order: TypeAlias = Literal["shuffle", "input"]
OrderKind: TypeAlias = Literal["shuffle", "input", "balanced"]
OnRemainder: TypeAlias = Literal["pad", "drop", "repeat"]
Side: TypeAlias = Literal["left", "right"]
PadTo: TypeAlias = Literal["max_length"] | int
TrainedTokens: TypeAlias = Literal["auto", "all", "assistant", "completion"]
Turns: TypeAlias = Literal["auto", "each", "last", "whole"]
TrainOnEos: TypeAlias = Literal["turn", "last", "none"]
SpecialInText: TypeAlias = Literal["encode", "split", "error"]
Eos: TypeAlias = Literal["auto"] | bool
TemplateEngine: TypeAlias = Literal["native", "python"]
Bos: TypeAlias = Literal["auto"] | bool
MaxLost: TypeAlias = str | float

RankOption: TypeAlias = int | Literal["auto"]
Validation: TypeAlias = str | float
OnBadRecord: TypeAlias = Literal["error", "skip"]
ImageChoice: TypeAlias = Literal["reference", "embed"]
Column: TypeAlias = Literal[
    "input_ids",
    "labels",
    "position_ids",
    "seq_lengths",
    "loss_weights",
    "document_ids",
    "unpadded_lengths",
    "source_file",
    "source_row",
    "source_turn",
    "source_start",
    "attn_cost",
    "group",
    "attention_mask",
    "token_type_ids",
    "mm_token_type_ids",
    "images",
    "target_seq_lengths",
    "decoder_attention_mask",
    "prompt_ids",
    "chosen_ids",
    "rejected_ids",
    "completion_ids",
    "label",
]
ObjectiveName: TypeAlias = Literal[
    "causal",
    "mlm",
    "span",
    "fim",
    "preference",
    "generation",
    "classification",
    "multi_label",
    "custom",
]
PreferenceForm: TypeAlias = Literal["dpo", "reward", "kto"]
Appending: TypeAlias = Literal["append", "append_rows"]
Existing: TypeAlias = Literal["error", "overwrite", Appending]
FormatName: TypeAlias = Literal["arrow", "jsonl", "msgpack_arrays", "parquet"]
Layout: TypeAlias = Literal["full", "compact"]
Color: TypeAlias = Literal["auto", "always", "never"]
Compression: TypeAlias = Literal["none", "lz4", "snappy", "zstd"]


class _FilesOfSource(TypedDict):
    path: Files


class Source(_FilesOfSource, total=False):
    """Files that are read with the same settings. A missing setting comes from the call.

    Attributes:
        path: The files, as `pack_files` takes them.
        shape: The shape of the records, such as `conversations`.
        fields: The fields that hold their parts.
        prompt: The prompt format that makes text of requests.
        examples: Few-shot examples, placed before each request: requests with their answers.
        separator: The text that separates documents in a text file.
        limit: The most records that are read, from the first file on.
        repeat: The number of times that the files are read.
        fraction: The part of them that is drawn, from 0 to 1, by `seed`.
    """

    shape: Shape | None
    fields: Fields | None
    prompt: Prompt | None
    examples: Examples | None
    separator: str | None
    limit: int | None
    repeat: int
    fraction: float | None


class _RequiredRecords(TypedDict):
    records: Records


class RecordSource(_RequiredRecords, total=False):
    """Records that Python gives anew for each epoch of a stream. A missing setting comes from the call.

    Attributes:
        records: A function that returns an iterator of records, or an object whose `__iter__` starts anew.
        fingerprint: A name of the records, another one whenever they change.
        shape: The shape of the records, such as `conversations`.
        fields: The fields that hold their parts.
        prompt: The prompt format that makes text of requests.
        examples: Few-shot examples, placed before each request: requests with their answers.
    """

    fingerprint: str | None
    shape: Shape | None
    fields: Fields | None
    prompt: Prompt | None
    examples: Examples | None


class ArrowArray(Protocol):
    """An Arrow array of any library, such as `pyarrow.Array`."""

    def __arrow_c_array__(self, requested_schema: object = ...) -> tuple[object, object]:
        """Hands the array over."""


class ArrowStream(Protocol):
    """Arrow arrays of any library, such as `pyarrow.ChunkedArray` or `polars.Series`."""

    def __arrow_c_stream__(self, requested_schema: object = ...) -> object:
        """Hands the arrays over."""


class HubDataset(Protocol):
    """A `datasets.Dataset`."""

    @property
    def format(self) -> Mapping[str, JsonValue]:
        """The format of its rows, and the columns that it shows."""

    def with_format(self, type: str, columns: JsonValue = None) -> HubDataset:  # noqa: A002
        """Returns the same rows in another format."""

    def iter(self, batch_size: int) -> Iterator[pa.Table]:
        """Yields its selected rows as tables of `batch_size` rows."""


class Progress(NamedTuple):
    """The progress of a run, as a `progress=` callable gets it.

    Attributes:
        phase: `tokenize`, `plan` or `write`.
        bytes: Input bytes that are done.
        total_bytes: Input bytes in all, 0 while unknown.
        documents: Documents that are tokenized.
        tokens: Tokens in these documents.
        rows: Rows that are written or returned.
    """

    phase: str
    bytes: int
    total_bytes: int
    documents: int
    tokens: int
    rows: int


class Splits(NamedTuple):
    """The training and the validation rows, each a table; packing in memory with `validation=` returns it.

    Both tables carry the report of the whole run.

    Attributes:
        train: The rows to train on.
        validation: The rows of the documents that are set aside.
    """

    train: pa.Table
    validation: pa.Table

    def _repr_html_(self) -> str:
        """The HTML that a notebook shows."""
        from fastpack.report.display.notebook import splits_fragment  # noqa: PLC0415  needed where it is shown

        return splits_fragment(self)


ProgressOption: TypeAlias = bool | Callable[[Progress], object] | None


@runtime_checkable
class BackendTokenizer(Protocol):
    """A live `tokenizers.Tokenizer`."""

    @property
    def encode_special_tokens(self) -> bool:
        """True if special tokens in a text are encoded as text."""

    def to_str(self, pretty: bool = ...) -> str:
        """Serialises the tokenizer."""


class FsspecFileSystem(Protocol):
    """A filesystem of `fsspec`."""

    @property
    def protocol(self) -> str | tuple[str, ...]:
        """The names of its kind."""

    @property
    def root_marker(self) -> str:
        """The path of its uppermost folder."""

    def info(self, path: str) -> object:
        """The facts of a file or folder."""

    def find(self, path: str, *, detail: bool) -> object:
        """The files below a folder, with their facts."""

    def cat_file(self, path: str, start: int | None = ..., end: int | None = ...) -> bytes:
        """The bytes of a range of a file."""

    def _strip_protocol(self, path: str) -> str: ...


@runtime_checkable
class TransformersTokenizer(Protocol):
    """A live `transformers` tokenizer that has a `tokenizers` backend."""

    @property
    def backend_tokenizer(self) -> BackendTokenizer:
        """The tokenizer that makes the ids."""

    @property
    def special_tokens_map(self) -> Mapping[str, object]:
        """Named special tokens."""

    @property
    def chat_template(self) -> str | Mapping[str, str] | None:
        """The chat template, or several by name."""
