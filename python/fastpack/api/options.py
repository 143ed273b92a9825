"""What the native module takes, made of the arguments of a call.

A call hands over its arguments by their names; `fastpack.options` says which of them belong together, and what stands for
one that the call does not have.
"""

from __future__ import annotations

import errno
import os
from datetime import datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final, NoReturn

from fastpack import _fastpack
from fastpack._budget import available_memory
from fastpack._checks import check_switch, check_type, folder_of
from fastpack._sources import choose_inputs, choose_reading
from fastpack._threads import available_threads, is_one_of_many
from fastpack._tokenizer import check_access, choose_template
from fastpack._transform import transform
from fastpack._types import Splits
from fastpack.errors import OptionError, OutputError
from fastpack.options import default, group_of
from fastpack.options.option import INPUTS, MODEL, OUTPUT, PACKING, READING, RUN
from fastpack.tokenizer import pretrained

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from fastpack._tokenizer import NativeTemplate
    from fastpack._transform import NativeTransform

__all__ = [
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


def _taken(group: str, given: Mapping[str, object]) -> SimpleNamespace:
    """The options that the native module takes together: as the caller gave them, or at their defaults."""
    return SimpleNamespace(
        **{option.name: given.get(option.name, option.default) for option in group_of(group)}
    )


def native_packing(given: Mapping[str, object]) -> _fastpack.PackOptions:
    """The options of packing alone."""
    return _fastpack.PackOptions(**vars(_taken(PACKING, given)))


def native_options(given: Mapping[str, object]) -> _fastpack.Options:
    """The options of a run."""
    run = _taken(RUN, given)
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
    inputs = _taken(INPUTS, given)
    return choose_inputs(
        inputs.files, inputs.sources, vars(_taken(READING, given)), recursive=inputs.recursive
    )


def native_reading(given: Mapping[str, object]) -> _fastpack.Source:
    """How records are looked at that lie in no file."""
    return choose_reading(vars(_taken(READING, given)))


def native_model(
    given: Mapping[str, object],
) -> tuple[_fastpack.Pretrained | None, NativeTemplate, NativeTransform]:
    """The tokenizer if there is one, the chat template, and the functions that records pass before."""
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


def native_output(given: Mapping[str, object], *, recipe: str | None = None) -> _fastpack.Output:
    """The folder that is written; `recipe` is the call that its manifest holds."""
    output = _taken(OUTPUT, given)
    if output.output is None:
        _refuse_missing("output")
    for switch in ("per_file", "hf_layout", "keep_tokens", "overwrite", "wait"):
        check_switch(switch, getattr(output, switch))
    options = vars(output) | {"memory": available_memory() if output.memory is None else output.memory}
    folder = folder_of("output", options.pop("output"))
    if not output.overwrite:
        _refuse_tokenizer(folder)
    return _fastpack.Output(dir=folder, shared=is_one_of_many(), recipe=recipe, **options)


def _refuse_tokenizer(folder: str) -> None:
    """Refuses to write to a tokenizer's folder, which is in the place of the output if it comes second."""
    if os.path.isfile(f"{folder}/tokenizer.json"):
        reason = (
            "holds a tokenizer; the output comes second and the tokenizer by its name, as in "
            "`pack_dir(files, output, tokenizer=...)`"
        )
        raise OutputError(errno.EEXIST, reason, folder)


def native_folder(given: Mapping[str, object]) -> _fastpack.Output | None:
    """The folder that is written, if one is; without one, options of it are refused."""
    if given.get("output") is not None:
        return native_output(given)
    for option in group_of(OUTPUT):
        if option.name != "validation" and not option.is_default(given.get(option.name, option.default)):
            message = f"invalid option `{option.name}`: needs `output`, the folder to write"
            raise OptionError(message, option.name)
    return None


def native_validation(given: Mapping[str, object]) -> _fastpack.Validation | None:
    """How many documents are set aside, where the rows stay in memory."""
    validation = _taken(OUTPUT, given).validation
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
    "eos": (default("eos"), False, None),
    "bos": (default("bos"), None),
    "train_on_eos": (None,),
    "verify": (default("verify"), None),
    "chat_template": (None,),
    "chat_template_kwargs": (None,),
    "template_engine": (default("template_engine"), None),
    "prompt": (None,),
    "examples": (None,),
    "revision": (None,),
    "token": (None,),
}
"""Options that say how text becomes tokens, each with what asks for nothing."""


def _refuse_missing(option: str) -> NoReturn:
    """Refuses to go on without an option that has a default only because `files` before it has one."""
    message = (
        f"invalid option `{option}`: must be given, as the folder to write; `pack_files` returns a table"
    )
    raise OptionError(message, option)
