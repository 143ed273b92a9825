"""The options that public functions share: their defaults, and what the native module makes of them.

A function passes its `locals()` here. So an option stands in its signature, in a group below and in the native module, and
nowhere between. Signatures take their defaults from the groups; an option that a function does not have is at its default.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Final, NoReturn

from fastpack import _fastpack
from fastpack._budget import available_memory
from fastpack._checks import check_switch, check_type, folder_of
from fastpack._sources import choose_inputs, choose_reading
from fastpack._threads import available_threads, is_one_of_many
from fastpack._tokenizer import TEMPLATE_ENGINE, check_access, choose_template
from fastpack._transform import transform
from fastpack._types import Splits
from fastpack.errors import OptionError
from fastpack.tokenizer import pretrained

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from typing_extensions import Self

    from fastpack._tokenizer import NativeTemplate, TokenizerArgument
    from fastpack._transform import NativeTransform
    from fastpack._types import (
        Bos,
        Column,
        Compression,
        Eos,
        Examples,
        Fields,
        Files,
        Format,
        JsonValue,
        Keep,
        MaxLost,
        OnBadRecord,
        OnRemainder,
        Order,
        Overlong,
        PadTo,
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
        Validation,
    )
    from fastpack.tokenizer import Tokenizer

__all__ = [
    "Inputs",
    "Model",
    "Output",
    "Packing",
    "Reading",
    "Run",
    "native_folder",
    "native_inputs",
    "native_model",
    "native_options",
    "native_output",
    "native_packing",
    "native_reading",
    "native_validation",
    "tables",
]


@dataclass(frozen=True, kw_only=True)
class _Group:
    """Options that belong together, each with its default."""

    @classmethod
    def of(cls, given: Mapping[str, object]) -> Self:
        """Those that are among the arguments of a call."""
        return cls(**{option.name: given[option.name] for option in fields(cls) if option.name in given})


@dataclass(frozen=True, kw_only=True)
class Packing(_Group):
    """How documents become rows."""

    max_length: int
    strategy: Strategy = "mix"
    overlong: Overlong | None = None
    keep: Keep = "start"
    tail: Tail = "keep"
    max_documents_per_pack: int | None = None
    align_documents_to: int | None = None
    order: Order | None = None
    world_size: int | None = None
    on_remainder: OnRemainder = "pad"
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Run(_Group):
    """What documents and rows hold, what may be lost, and how the work is done."""

    pad_to: PadTo | None = None
    padding_side: Side = "right"
    pad_token_id: int | None = None
    train_on: TrainOn = "auto"
    shift_labels: bool = False
    train_on_eos: TrainOnEos | None = None
    eos: Eos = "auto"
    bos: Bos = "auto"
    columns: Sequence[Column] = ("input_ids", "labels", "position_ids", "seq_lengths")
    on_bad_record: OnBadRecord = "error"
    max_lost: MaxLost | None = None
    now: datetime | None = None
    verify: int = 0
    threads: int | None = None


@dataclass(frozen=True, kw_only=True)
class Reading(_Group):
    """What records mean."""

    shape: Shape | None = None
    fields: Fields | None = None
    prompt: Prompt | None = None
    examples: Examples | None = None
    separator: str | None = None


@dataclass(frozen=True, kw_only=True)
class Inputs(_Group):
    """Where records come from."""

    files: Files | None = None
    sources: Sequence[Source] | None = None
    recursive: bool = False


@dataclass(frozen=True, kw_only=True)
class Model(_Group):
    """What makes tokens of records."""

    tokenizer: TokenizerArgument | Tokenizer | None = None
    chat_template: StrPath | None = None
    chat_template_kwargs: Mapping[str, JsonValue] | None = None
    template_engine: TemplateEngine = TEMPLATE_ENGINE
    filter: RecordFilter | None = None
    filter_fingerprint: str | None = None
    map: RecordMap | None = None
    map_fingerprint: str | None = None
    revision: str | None = None
    token: str | bool | None = None


@dataclass(frozen=True, kw_only=True)
class Output(_Group):
    """Where rows are written, and how."""

    output: StrPath | None = None
    format: Format = "arrow"
    compression: Compression | None = None
    per_file: bool = False
    hf_layout: bool = False
    validation: Validation | None = None
    shard_size: int | str = "512MB"
    memory: int | str | None = None
    keep_tokens: bool = False
    overwrite: bool = False
    wait: bool = True


def native_packing(given: Mapping[str, object]) -> _fastpack.PackOptions:
    """The options of packing alone."""
    return _fastpack.PackOptions(**vars(Packing.of(given)))


def native_options(given: Mapping[str, object]) -> _fastpack.Options:
    """The options of a run."""
    run = Run.of(given)
    check_type(
        "now", run.now, (datetime, type(None)), "a datetime.datetime such as datetime(2026, 1, 31, 12)"
    )
    resolved = {
        "now": run.now and run.now.replace(tzinfo=None),
        "threads": available_threads() if run.threads is None else run.threads,
    }
    return _fastpack.Options(packing=native_packing(given), **vars(run) | resolved)


def native_inputs(given: Mapping[str, object]) -> _fastpack.Inputs:
    """The files or sources that are read."""
    inputs = Inputs.of(given)
    return choose_inputs(inputs.files, inputs.sources, vars(Reading.of(given)), recursive=inputs.recursive)


def native_reading(given: Mapping[str, object]) -> _fastpack.Source:
    """How records are looked at that lie in no file."""
    return choose_reading(vars(Reading.of(given)))


def native_model(
    given: Mapping[str, object],
) -> tuple[_fastpack.Pretrained | None, NativeTemplate, NativeTransform]:
    """The tokenizer if there is one, the chat template, and the functions that records pass before."""
    model = Model.of(given)
    loaded = None
    if model.tokenizer is None:
        check_access(model.revision, model.token)
    else:
        loaded = pretrained(model.tokenizer, revision=model.revision, token=model.token)
    template = choose_template(
        model.chat_template, loaded, kwargs=model.chat_template_kwargs, engine=model.template_engine
    )
    if loaded is None:
        _refuse_without_tokenizer(given)
    # What is kept on disk is found again by what the functions are.
    kept = given.get("output") is not None or given.get("cache_dir") is not None
    functions = transform(
        filter=model.filter,
        map=model.map,
        fingerprints={"filter": model.filter_fingerprint, "map": model.map_fingerprint},
        identified=kept,
        shared=is_one_of_many(),
    )
    return loaded, template, functions


def native_output(given: Mapping[str, object]) -> _fastpack.Output:
    """The folder that is written."""
    output = Output.of(given)
    if output.output is None:
        _refuse_missing("output")
    for switch in ("per_file", "hf_layout", "keep_tokens", "overwrite", "wait"):
        check_switch(switch, getattr(output, switch))
    options = vars(output) | {"memory": available_memory() if output.memory is None else output.memory}
    folder = folder_of("output", options.pop("output"))
    return _fastpack.Output(dir=folder, shared=is_one_of_many(), **options)


def native_folder(given: Mapping[str, object]) -> _fastpack.Output | None:
    """The folder that is written, if one is; without one, options of it are refused."""
    if given["output"] is not None:
        return native_output(given)
    defaults = {option.name: option.default for option in fields(Output)}
    del defaults["validation"]
    for option, default in defaults.items():
        if given.get(option, default) != default:
            message = f"invalid option `{option}`: needs `output`, the folder to write"
            raise OptionError(message, option)
    return None


def native_validation(given: Mapping[str, object]) -> _fastpack.Validation | None:
    """How many documents are set aside, where the rows stay in memory."""
    validation = Output.of(given).validation
    return None if validation is None else _fastpack.Validation(validation)


def tables(made: tuple[pa.Table, pa.Table | None]) -> pa.Table | Splits:
    """What a run in memory came to: a table, or one for each split."""
    train, validation = made
    return train if validation is None else Splits(train, validation)


def _refuse_without_tokenizer(given: Mapping[str, object]) -> None:
    """Refuses options that only a tokenizer can follow, where there is none."""
    for option, neutral in _FOR_TOKENIZERS.items():
        if given.get(option) not in neutral:
            message = (
                f"invalid option `{option}`: needs a tokenizer; records that are ids are taken as they are"
            )
            raise OptionError(message, option)


_FOR_TOKENIZERS: Final[dict[str, tuple[object, ...]]] = {
    "eos": (Run.eos, False, None),
    "bos": (Run.bos, None),
    "train_on_eos": (None,),
    "verify": (Run.verify, None),
    "chat_template": (None,),
    "chat_template_kwargs": (None,),
    "template_engine": (Model.template_engine, None),
    "prompt": (None,),
    "examples": (None,),
    "revision": (None,),
    "token": (None,),
}
"""Options that say how text becomes tokens, each with what asks for nothing."""


def _refuse_missing(option: str) -> NoReturn:
    """Refuses to go on without an option that has a default only because `files` before it has one."""
    message = f"invalid option `{option}`: must be given"
    raise OptionError(message, option)
