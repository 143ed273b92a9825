"""Makes the arguments of the native module from the arguments of a call.

A call gives its arguments by name. `fastpack.options` defines which of them belong together, and the default of each
that the call does not have.
"""

from __future__ import annotations

import errno
import os
from datetime import datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final, NoReturn

from fastpack import _fastpack
from fastpack.arguments.checks import check_switch, check_type, folder_of
from fastpack.arguments.message import Message, Setting
from fastpack.arguments.urls import is_url
from fastpack.errors import OptionError, OutputError
from fastpack.options import OPTIONS, default, group_of
from fastpack.options.objective import objective_of
from fastpack.options.option import (
    INPUTS,
    MODEL,
    OUTPUT,
    PACKED_OBJECTIVES,
    PACKING,
    READING,
    RUN,
)
from fastpack.options.rows import CAUSAL_COLUMNS
from fastpack.records.sources import choose_inputs, choose_reading
from fastpack.records.transform import transform, warn_of_unknown
from fastpack.runtime.memory_limit import available_memory
from fastpack.runtime.threads import available_threads, is_one_of_many
from fastpack.storage.filesystem import choose_filesystem
from fastpack.storage.remote_options import choose_storage, staged
from fastpack.tokenizer.arguments import check_access, choose_template
from fastpack.tokenizer.call import TOKEN_TYPES, names_of
from fastpack.tokenizer.tokenizer import pretrained
from fastpack.types import Splits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from fastpack.records.transform import NativeTransform
    from fastpack.runtime.ranks import Rank
    from fastpack.tokenizer.arguments import NativeTemplate

__all__ = [
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
]


def _taken(group: str, given: Mapping[str, object]) -> SimpleNamespace:
    """The options of one group, with the values of the caller or the defaults."""
    return SimpleNamespace(
        **{option.name: given.get(option.name, option.default) for option in group_of(group)}
    )


def native_packing(given: Mapping[str, object]) -> _fastpack.PackOptions:
    """Makes the packing options."""
    return _fastpack.PackOptions(**vars(_taken(PACKING, given)))


def native_options(
    given: Mapping[str, object],
    shares: Sequence[tuple[str, float | None, float]] | None = None,
    stopping: str | None = None,
) -> _fastpack.Options:
    """Makes the options of a run, of which the sources have shares if documents are drawn."""
    run = _taken(RUN, given)
    run.columns = _columns(given)
    check_type(
        "now", run.now, (datetime, type(None)), "a datetime.datetime such as datetime(2026, 1, 31, 12)"
    )
    resolved = {
        "now": run.now and run.now.replace(tzinfo=None),
        "threads": available_threads() if run.threads is None else run.threads,
    }
    objective = native_objective(given)
    packs = objective_of(given).kind in PACKED_OBJECTIVES
    packing = native_packing(given if packs else _row_each(given))
    drawn = {
        "sources": shares,
        "weight_unit": given.get("weight_unit", "tokens") if shares is not None else "tokens",
        "stopping_strategy": default("stopping_strategy") if stopping is None else stopping,
    }
    return _fastpack.Options(packing=packing, objective=objective, **vars(run) | resolved | drawn)


def _columns(given: Mapping[str, object]) -> object:
    """The columns of the rows; `None` for those of the objective.

    Rows of `mlm` have `token_type_ids` where a call of the tokenizer returns them, because the model reads them.
    """
    run, model = _taken(RUN, given), _taken(MODEL, given)
    if run.columns is not None or objective_of(given).kind != "mlm" or model.tokenizer is None:
        return run.columns
    loaded = pretrained(model.tokenizer, revision=model.revision, token=model.token)
    if TOKEN_TYPES not in names_of(loaded.call):
        return None
    [inputs, *others] = CAUSAL_COLUMNS
    padded = given.get("pad_to") not in {None, "nothing"}
    return [inputs, TOKEN_TYPES, *others, *(["attention_mask"] if padded else [])]


def _row_each(given: Mapping[str, object]) -> Mapping[str, object]:
    """The options of an objective whose rows hold one document each: the strategy is `none` where it is not chosen."""
    usual = {OPTIONS["strategy"].in_call(call).default for call in ("pack_files", "stream")}
    return {**given, "strategy": "none"} if given.get("strategy") in usual else given


def native_objective(given: Mapping[str, object]) -> _fastpack.ObjectiveOptions:
    """Makes the training objective; refuses options that mean nothing under it."""
    objective = objective_of(given)
    for option in OPTIONS.values():
        value = given.get(option.name, option.default)
        if option.objectives and objective.kind not in option.objectives and not option.is_default(value):
            heed = ", ".join(f'"{name}"' for name in option.objectives)
            meant = Setting("objective", objective.kind)
            message = Message("means nothing with ", meant, f"; leave it out, or use it with {heed}")
            raise OptionError(message, option.name)
    return _fastpack.ObjectiveOptions(objective)


def native_inputs(given: Mapping[str, object]) -> _fastpack.Inputs:
    """Makes the inputs: files or sources."""
    inputs = _taken(INPUTS, given)
    filesystem = choose_filesystem(inputs.filesystem)

    def storage(patterns: Sequence[str]) -> _fastpack.StorageOptions:
        return choose_storage(
            patterns,
            inputs.storage_options,
            block_cache=inputs.block_cache,
            cache_dir=given.get("cache_dir"),
            filesystem=filesystem,
        )

    return choose_inputs(
        inputs.files,
        inputs.sources,
        vars(_taken(READING, given)),
        recursive=inputs.recursive,
        filesystem=filesystem,
        storage=storage,
    )


def native_reading(given: Mapping[str, object]) -> _fastpack.Source:
    """Makes the reading settings of records in memory."""
    return choose_reading(vars(_taken(READING, given)))


def native_model(
    given: Mapping[str, object], *, resumes: bool = False
) -> tuple[_fastpack.Pretrained | None, NativeTemplate, NativeTransform]:
    """Makes the tokenizer if there is one, the chat template, and the functions of the caller.

    A function without a fingerprint is warned of where the run cannot be resumed for it; of a stream, which `resumes` from a
    state, at its first table.
    """
    model = _taken(MODEL, given)
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
    unknown = None
    if resumes:
        unknown = (
            "no stream resumes from the states of this one, unless load_state_dict is given strict=False"
        )
    elif given.get("output") is not None or given.get("cache_dir") is not None:
        unknown = "this run cannot be resumed, and no cache is used"
    functions = transform(given, unknown=unknown, shared=is_one_of_many())
    if not resumes:
        warn_of_unknown(functions)
    return loaded, template, functions


def native_output(
    given: Mapping[str, object], *, recipe: str | None = None, turn: Rank | None = None
) -> _fastpack.Output:
    """Makes the output options.

    Args:
        given: The arguments of the call.
        recipe: The call as JSON, for the manifest.
        turn: The number of this process among those that share the job, if there are several.
    """
    output = _taken(OUTPUT, given)
    if output.output is None:
        _refuse_missing("output")
    for switch in ("per_file", "hf_layout", "keep_tokens", "overwrite", "wait"):
        check_switch(switch, getattr(output, switch))
    options = vars(output) | {"memory": available_memory() if output.memory is None else output.memory}
    folder, work_dir = folder_of("output", options.pop("output"), takes_urls=True), options.pop("work_dir")
    remote = None
    if is_url(folder):
        storage = choose_storage((), given.get("storage_options"), block_cache=None, cache_dir=None)
        remote, folder = (folder, storage), staged(folder, work_dir)
    elif not output.overwrite:
        _refuse_tokenizer(folder)
    place = None if turn is None else (turn.rank, turn.world_size)
    return _fastpack.Output(
        dir=folder, shared=is_one_of_many(), recipe=recipe, turn=place, remote=remote, **options
    )


def _refuse_tokenizer(folder: str) -> None:
    """Refuses a tokenizer's folder as output: the tokenizer was given as the second argument."""
    if os.path.isfile(f"{folder}/tokenizer.json"):
        reason = (
            "holds a tokenizer; the output comes second and the tokenizer by its name, as in "
            "`pack_dir(files, output, tokenizer=...)`"
        )
        raise OutputError(errno.EEXIST, reason, folder)


def native_folder(given: Mapping[str, object]) -> _fastpack.Output | None:
    """Makes the output options if there is an `output`; without one, options that need it are refused."""
    if given.get("output") is not None:
        return native_output(given)
    for option in group_of(OUTPUT):
        if option.name != "validation" and not option.is_default(given.get(option.name, option.default)):
            message = "needs `output`, the folder to write"
            raise OptionError(message, option.name)
    return None


def native_validation(given: Mapping[str, object]) -> _fastpack.Validation | None:
    """Makes the size of the validation split of a run in memory."""
    validation = _taken(OUTPUT, given).validation
    return None if validation is None else _fastpack.Validation(validation)


def tables(made: tuple[pa.Table, pa.Table | None]) -> pa.Table | Splits:
    """The result of a run in memory: a table, or one for each split."""
    train, validation = made
    return train if validation is None else Splits(train, validation)


def _refuse_without_tokenizer(given: Mapping[str, object]) -> None:
    """Refuses options that need a tokenizer if there is none."""
    for option, neutral in _FOR_TOKENIZERS.items():
        if given.get(option) not in neutral:
            message = "needs a tokenizer; records that are ids are taken as they are"
            raise OptionError(message, option)


_FOR_TOKENIZERS: Final[dict[str, tuple[object, ...]]] = {
    "eos": (default("eos"), False, None),
    "bos": (default("bos"), False, None),
    "turns": (default("turns"), None),
    "train_on_eos": (None,),
    "special_in_text": (default("special_in_text"), None),
    "decode_arguments": (default("decode_arguments"), None),
    "verify": (default("verify"), None),
    "chat_template": (None,),
    "chat_template_kwargs": (None,),
    "template_engine": (default("template_engine"), None),
    "prompt": (None,),
    "examples": (None,),
    "revision": (None,),
    "token": (None,),
}
"""Options that need a tokenizer, each with the values that ask for nothing."""


def _refuse_missing(option: str) -> NoReturn:
    """Refuses a missing required option. It has a default in the signature because `files` before it has one."""
    message = "must be given, as the folder to write; `pack_files` returns a table"
    raise OptionError(message, option)
