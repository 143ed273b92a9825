"""Makes the arguments of the native module from the arguments of a call.

A call gives its arguments by name. `fastpack.options` defines which of them belong together, and the default of each
that the call does not have.
"""

from __future__ import annotations

import dataclasses
import errno
import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar, get_args

from fastpack import _fastpack
from fastpack.arguments.checks import check_switch, folder_of
from fastpack.arguments.message import Message, Setting
from fastpack.arguments.urls import is_url
from fastpack.errors import OptionError, OutputError
from fastpack.options import OPTIONS, group_of
from fastpack.options.objective import objective_of
from fastpack.options.option import (
    FOLDER_CALLS,
    MODEL,
    PACKED_OBJECTIVES,
    PACKING,
    RUN,
)
from fastpack.options.output import Exists, Format, Groups
from fastpack.options.records import Reading
from fastpack.options.rows import CAUSAL_COLUMNS
from fastpack.options.storage import Storage
from fastpack.options.tokens import ChatTemplate
from fastpack.options.value import Value, heeded_by
from fastpack.options.work import Weights
from fastpack.records.filter_and_map import transform
from fastpack.records.function_fingerprints import warn_of_unknown
from fastpack.records.sources import choose_inputs, choose_reading
from fastpack.runtime.default_threads import available_threads, is_one_of_many, local_ranks
from fastpack.runtime.document_memory import available_memory
from fastpack.storage.filesystem import choose_filesystem
from fastpack.storage.remote_options import choose_storage, staged
from fastpack.storage.remote_pictures import pictures_of_call
from fastpack.tokenizer.arguments import check_access, choose_template
from fastpack.tokenizer.call import TOKEN_TYPES, names_of
from fastpack.tokenizer.pictures.native import CallProcessor, native_images, texts_of
from fastpack.tokenizer.tokenizer import pretrained
from fastpack.types import Appending, Splits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from fastpack.options.objective import Objective
    from fastpack.options.records import Images
    from fastpack.records.filter_and_map import NativeTransform
    from fastpack.runtime.ranks import Rank
    from fastpack.tokenizer.arguments import NativeTemplate
    from fastpack.tokenizer.pictures.processor import PictureProcessor

__all__ = [
    "images_of",
    "native_folder",
    "native_inputs",
    "native_model",
    "native_objective",
    "native_options",
    "native_output",
    "native_packing",
    "native_reading",
    "native_validation",
    "tables",
    "value_in",
    "with_processor",
]

V = TypeVar("V", bound=Value)


_PROCESSOR: Final = "processor"
"""The key of the processor that the parts of a call share."""


def _option_values(group: str, arguments: Mapping[str, object]) -> SimpleNamespace:
    """The options of one group, with the values of the caller or the defaults."""
    return SimpleNamespace(**{option.name: option.value_in(arguments) for option in group_of(group)})


def value_in(arguments: Mapping[str, object], kind: type[V]) -> V:
    """The value that a call has for the option whose only values are of this kind."""
    value = OPTIONS[kind.option].value_in(arguments)
    assert isinstance(value, kind)  # noqa: S101  no other value is taken
    return value


def native_packing(arguments: Mapping[str, object]) -> _fastpack.PackOptions:
    """Makes the packing options."""
    return _fastpack.PackOptions(**vars(_option_values(PACKING, arguments)))


def native_options(
    arguments: Mapping[str, object],
    shares: Sequence[tuple[str, float | None, float]] | None = None,
) -> _fastpack.Options:
    """Makes the options of a run; its sources have shares if documents are drawn."""
    run = _option_values(RUN, arguments)
    run.columns = _columns(arguments)
    images, processor = images_of(arguments), processor_of(arguments)
    resolved = {
        "chat_template": value_in(arguments, ChatTemplate),
        "images": images and processor and native_images(images, processor, _remote_pictures(arguments)),
        "shares": None if shares is None else (value_in(arguments, Weights), shares),
        "threads": available_threads() if run.threads is None else run.threads,
    }
    objective = native_objective(arguments)
    packs = objective_of(arguments).kind in PACKED_OBJECTIVES
    packing = native_packing(arguments if packs else _row_each(arguments))
    return _fastpack.Options(packing=packing, objective=objective, **vars(run) | resolved)


def images_of(arguments: Mapping[str, object]) -> Images | None:
    """The pictures of a call, if it takes any."""
    return value_in(arguments, Reading).images  # type: ignore[return-value]  # `Reading` makes one of a word


def with_processor(arguments: Mapping[str, Any]) -> dict[str, Any]:  # type: ignore[explicit-any]  # as a call has them
    """The arguments of a call, with a processor of pictures that its parts share once it is loaded."""
    return {**arguments, _PROCESSOR: CallProcessor()}


def processor_of(arguments: Mapping[str, object]) -> PictureProcessor | None:
    """The processor of the pictures of a call, if it takes any."""
    images = images_of(arguments)
    if images is None:
        return None
    storage = value_in(arguments, Storage)
    tokenizer = _option_values(MODEL, arguments).tokenizer
    of_call = arguments.get(_PROCESSOR)
    processor = of_call if isinstance(of_call, CallProcessor) else CallProcessor()
    return processor.load(images, tokenizer, revision=storage.revision, token=storage.token)


def _remote_pictures(arguments: Mapping[str, object]) -> _fastpack.RemotePictures | None:
    """The access to the pictures of a call that lie elsewhere; `None` if it reads none."""
    return pictures_of_call(value_in(arguments, Storage), cache_dir=arguments.get("cache_dir"))


def _columns(arguments: Mapping[str, object]) -> object:
    """The columns of the rows; `None` for those of the objective.

    Rows of `mlm` have `token_type_ids` where a call of the tokenizer returns them, because the model reads them.
    """
    run, model, storage = (
        _option_values(RUN, arguments),
        _option_values(MODEL, arguments),
        value_in(arguments, Storage),
    )
    if run.columns is not None or objective_of(arguments).kind != "mlm" or model.tokenizer is None:
        return run.columns
    loaded = pretrained(model.tokenizer, revision=storage.revision, token=storage.token)
    if TOKEN_TYPES not in names_of(loaded.call):
        return None
    [inputs, *others] = CAUSAL_COLUMNS
    padded = run.padding is not None and run.padding.to is not None
    return [inputs, TOKEN_TYPES, *others, *(["attention_mask"] if padded else [])]


def _row_each(arguments: Mapping[str, object]) -> Mapping[str, object]:
    """The options of an objective whose rows hold one document each: the strategy is `none` where it is not chosen."""
    usual = {OPTIONS["strategy"].in_call(call).default for call in ("pack_files", "stream")}
    strategy = arguments.get("strategy")
    return {**arguments, "strategy": "none"} if isinstance(strategy, str) and strategy in usual else arguments


def native_objective(arguments: Mapping[str, object]) -> _fastpack.ObjectiveOptions:
    """Makes the training objective; refuses options that mean nothing under it."""
    objective = objective_of(arguments)
    for option in OPTIONS.values():
        value = arguments.get(option.name, option.default)
        if not option.is_default(value):
            _refuse_unheeded(option.name, option.objectives, objective)
        for field, objectives in heeded_by(value):
            _refuse_unheeded(f"{option.name}.{field}", objectives, objective)
    return _fastpack.ObjectiveOptions(objective)


def _refuse_unheeded(option: str, objectives: Sequence[str], objective: Objective) -> None:
    """Refuses an option that means nothing under an objective."""
    if objectives and objective.kind not in objectives:
        heed = ", ".join(f'"{name}"' for name in objectives)
        meant = Setting("objective", objective.kind)
        message = Message("means nothing with ", meant, f"; leave it out, or use it with {heed}")
        raise OptionError(message, option)


def native_inputs(arguments: Mapping[str, object]) -> _fastpack.Inputs:
    """Makes the inputs: files or sources."""
    held = value_in(arguments, Storage)
    filesystem = choose_filesystem(held.filesystem)

    def storage(patterns: Sequence[str]) -> _fastpack.StorageOptions:
        return choose_storage(patterns, held, cache_dir=arguments.get("cache_dir"), filesystem=filesystem)

    return choose_inputs(
        arguments.get("files"),  # type: ignore[arg-type]  # it looks at what they are
        value_in(arguments, Reading),
        filesystem=filesystem,
        storage=storage,
    )


def native_reading(arguments: Mapping[str, object]) -> _fastpack.Source:
    """Makes the reading settings of records in memory."""
    return choose_reading(value_in(arguments, Reading))


def native_model(
    arguments: Mapping[str, object], *, resumes: bool = False
) -> tuple[_fastpack.Pretrained | None, NativeTemplate, NativeTransform]:
    """Makes the tokenizer if there is one, the chat template, and the functions of the caller.

    A function without a fingerprint is warned of where the run cannot be resumed for it; of a stream, which `resumes` from a
    state, at its first table.
    """
    model, storage = _option_values(MODEL, arguments), value_in(arguments, Storage)
    loaded = None
    if model.tokenizer is None:
        check_access(storage.revision, storage.token)
    else:
        loaded = pretrained(model.tokenizer, revision=storage.revision, token=storage.token)
    rendering = value_in(arguments, ChatTemplate)
    template = choose_template(rendering.source, loaded, kwargs=rendering.variables, engine=rendering.engine)
    processor = processor_of(arguments)
    if processor is not None and rendering.source is None:
        template = (("processor", processor.chat_template), *template[1:])
    if loaded is None:
        _refuse_without_tokenizer(arguments)
    unknown = None
    if resumes:
        unknown = (
            "no stream resumes from the states of this one, unless load_state_dict is given strict=False"
        )
    elif arguments.get("output") is not None or arguments.get("cache_dir") is not None:
        unknown = "this run cannot be resumed, and no cache is used"
    functions = transform(
        arguments,
        pictures=None if processor is None else texts_of(processor),
        unknown=unknown,
        shared=is_one_of_many(),
    )
    if not resumes:
        warn_of_unknown(functions.warnings)
    return loaded, template, functions


def native_output(
    arguments: Mapping[str, object],
    *,
    recipe: str | None = None,
    turn: Rank | None = None,
    appends: bool = False,
) -> _fastpack.Output:
    """Makes the output options.

    Args:
        arguments: The arguments of the call.
        recipe: The call as JSON, for the manifest.
        turn: The number of this process among those that share the job, if there are several.
        appends: True if the call can append to the output.
    """
    if arguments.get("output") is None:
        _refuse_missing("output")
    exists, storage = value_in(arguments, Exists), value_in(arguments, Storage)
    if exists.then in get_args(Appending) and not appends:
        message = f"is `{exists.then}`, which `pack_dir` alone takes; use `error` or `overwrite`"
        raise OptionError(message, "exists")
    keep_tokens, memory = arguments.get("keep_tokens", False), arguments.get("memory")
    check_switch("keep_tokens", keep_tokens)
    folder = folder_of("output", arguments["output"], takes_urls=True)
    remote = None
    if is_url(folder):
        remote = (folder, choose_storage((), dataclasses.replace(storage, block_cache=None)))
        folder = staged(folder, storage.work_dir)
    else:
        if storage.work_dir is not None:
            folder_of("work_dir", storage.work_dir)
        if exists.then != "overwrite":
            _refuse_tokenizer(folder)
    return _fastpack.Output(
        dir=folder,
        format=value_in(arguments, Format),
        exists=exists,
        groups=value_in(arguments, Groups),
        turn=None if turn is None else (turn.rank, turn.world_size),
        validation=arguments.get("validation"),  # type: ignore[arg-type]  # the native module checks it
        keep_tokens=keep_tokens is True,
        shared=is_one_of_many(),
        memory=_memory_of(turn) if memory is None else memory,  # type: ignore[arg-type]  # likewise
        recipe=recipe,
        remote=remote,
    )


def _memory_of(turn: Rank | None) -> int:
    """The default of `memory`: processes that pack groups at the same time share what a machine has."""
    several = turn is not None and turn.world_size > 1
    return available_memory() // (local_ranks() if several else 1)


def _refuse_tokenizer(folder: str) -> None:
    """Refuses a tokenizer's folder as output: the tokenizer was given as the second argument."""
    if os.path.isfile(f"{folder}/tokenizer.json"):
        reason = (
            "holds a tokenizer; the output comes second and the tokenizer by its name, as in "
            "`pack_dir(files, output, tokenizer=...)`"
        )
        raise OutputError(errno.EEXIST, reason, folder)


def native_folder(arguments: Mapping[str, object]) -> _fastpack.Output | None:
    """Makes the output options if there is an `output`; without one, options that need it are refused."""
    if arguments.get("output") is not None:
        return native_output(arguments)
    for option in OPTIONS.values():
        if option.calls <= FOLDER_CALLS and not option.is_default(arguments.get(option.name, option.default)):
            message = "needs `output`, the folder to write"
            raise OptionError(message, option.name)
    if value_in(arguments, Storage).work_dir is not None:
        message = "needs `output`, the folder to write"
        raise OptionError(message, "storage.work_dir")
    return None


def native_validation(arguments: Mapping[str, object]) -> _fastpack.Validation | None:
    """Makes the size of the validation split of a run in memory."""
    validation: Any = arguments.get("validation")  # type: ignore[explicit-any]  # the native module reads it
    return None if validation is None else _fastpack.Validation(validation)


def tables(splits: tuple[pa.Table, pa.Table | None]) -> pa.Table | Splits:
    """The result of a run in memory: a table, or one for each split."""
    train, validation = splits
    return train if validation is None else Splits(train, validation)


def _refuse_without_tokenizer(arguments: Mapping[str, object]) -> None:
    """Refuses options that need a tokenizer if there is none."""
    for option in OPTIONS.values():
        for field, taken in option.values_without_tokenizer.items():
            value = option.value_in(arguments)
            if (getattr(value, field, taken[0]) if field else value) not in taken:
                message = "needs a tokenizer; records that are ids are taken as they are"
                is_plain = isinstance(value, Value) and field == value.plain
                raise OptionError(
                    message, f"{option.name}.{field}" if field and not is_plain else option.name
                )


def _refuse_missing(option: str) -> NoReturn:
    """Refuses a missing required option. It has a default in the signature because `files` before it has one."""
    message = "must be given, as the folder to write; `pack_files` returns a table"
    raise OptionError(message, option)
