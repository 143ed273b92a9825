"""The implementations of the public functions, each with its arguments as a mapping."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias, get_args

from fastpack import _fastpack
from fastpack.api.carried_columns import carried_columns, pack_carrying
from fastpack.api.carried_fields import carried_fields, pack_carrying_fields
from fastpack.api.recipes import load_manifest, recipe_of
from fastpack.api.repack_source import kept_tokens
from fastpack.api.shares import shared_sources
from fastpack.arguments.checks import check_choice, folder_of, is_series, whole_numbers
from fastpack.arguments.urls import is_url
from fastpack.errors import OptionError
from fastpack.options.native import (
    images_of,
    native_folder,
    native_inputs,
    native_model,
    native_options,
    native_output,
    native_packing,
    native_reading,
    native_validation,
    tables,
    value_in,
    with_processor,
)
from fastpack.options.objective import objective_of
from fastpack.options.output import Exists, Groups
from fastpack.options.rows import CAUSAL_COLUMNS
from fastpack.options.storage import Storage
from fastpack.options.value import word_of
from fastpack.records.memory import rows_of, values_of
from fastpack.records.sources import listed_sources
from fastpack.report.scan import ScanReport
from fastpack.runtime.progress import watching
from fastpack.runtime.ranks import rank_of
from fastpack.storage.hub_commit import committed, is_of_hub
from fastpack.storage.remote_pictures import remote_pictures
from fastpack.streaming.stream import PackStream
from fastpack.tokenizer.arguments import check_access
from fastpack.tokenizer.tokenizer import pretrained
from fastpack.types import Appending, StreamStrategy

if TYPE_CHECKING:
    from typing import Any

    import pyarrow as pa

    from fastpack.report.report import Report
    from fastpack.types import Splits, StrPath

KeywordArguments: TypeAlias = "Mapping[str, Any]"  # type: ignore[explicit-any]  # the native module checks what they are

__all__ = [
    "pack_dir",
    "pack_files",
    "pack_records",
    "pack_table",
    "plan",
    "repack",
    "scan",
    "stream",
]


def pack_files(arguments: KeywordArguments) -> pa.Table | Splits:
    """Packs files into tables."""
    fields = carried_fields(arguments)
    return pack_carrying_fields(arguments, fields, _pack_files) if fields else _pack_files(arguments)


def _pack_files(arguments: KeywordArguments) -> pa.Table | Splits:
    """Packs files into tables of packed columns alone."""
    arguments, shares = shared_sources(with_processor(arguments))
    options = native_options(arguments, shares)
    inputs = native_inputs(arguments)
    aside = native_validation(arguments)
    model = native_model(arguments)
    cache = _cache(arguments)
    with watching(arguments["progress"]) as callback:
        return tables(_fastpack.pack_files(inputs, options, *model, aside, cache, callback))


def pack_dir(arguments: KeywordArguments) -> Report:
    """Packs files into a folder."""
    if is_of_hub(arguments["output"]):
        return committed(arguments, pack_dir)
    appends = value_in(arguments, Exists).then in get_args(Appending)
    recipe = _recipe_of_all(arguments) if appends else recipe_of(arguments)
    arguments, shares = shared_sources(with_processor(arguments))
    options = native_options(arguments, shares)
    inputs = native_inputs(arguments)
    groups, turn = value_in(arguments, Groups), None
    if groups != Groups():
        turn = rank_of(groups.rank, groups.world_size)
    destination = native_output(arguments, recipe=recipe, turn=turn, appends=True)
    model = native_model(arguments)
    with watching(arguments["progress"]) as callback:
        return _fastpack.pack_dir(inputs, destination, options, *model, _cache(arguments), callback)


def _recipe_of_all(arguments: KeywordArguments) -> str:
    """The recipe of a job to whose files others are appended."""
    appending = value_in(arguments, Exists).then
    if isinstance(arguments["files"], Mapping) or listed_sources(arguments["files"]) is not None:
        message = f"is `{appending}`, which takes one source; name one in `files`"
        raise OptionError(message, "exists")
    if is_url(folder_of("output", arguments["output"], takes_urls=True)):
        message = f"is `{appending}`, which needs a folder of the local disk as `output`"
        raise OptionError(message, "exists")
    for option in ("cache_dir", "groups"):
        if arguments[option] is not None:
            message = f"is `{appending}`, which cannot go with `{option}`; leave one of them out"
            raise OptionError(message, "exists")
    try:
        before = load_manifest(arguments["output"]).get("files")
    except (FileNotFoundError, OptionError):
        # One that was not packed from files is refused by its manifest.
        before = None
    each = [files for files in (before, arguments["files"]) if files is not None]
    listed = [file for files in each for file in (files if is_series(files) else [files])]
    keep_tokens = appending == "append" or arguments["keep_tokens"]
    return recipe_of({**arguments, "files": listed, "keep_tokens": keep_tokens})


def pack_table(arguments: KeywordArguments) -> pa.Table | Splits | Report:
    """Packs the rows of a table."""
    if is_of_hub(arguments["output"]):
        return committed(arguments, pack_table)
    carried = carried_columns(arguments)
    if carried:
        return pack_carrying(arguments, carried, lambda changed: _pack(rows_of(changed["table"]), changed))
    return _pack(rows_of(arguments["table"]), arguments)


def pack_records(arguments: KeywordArguments) -> pa.Table | Splits | Report:
    """Packs an iterable of records."""
    if is_of_hub(arguments["output"]):
        return committed(arguments, pack_records)
    return _pack(values_of(arguments["records"]), arguments)


def _pack(records: _fastpack.Records, arguments: KeywordArguments) -> pa.Table | Splits | Report:
    """Packs records into the folder `output`, or else into tables."""
    arguments = with_processor(arguments)
    options, aside, folder = native_options(arguments), native_validation(arguments), native_folder(arguments)
    model = native_model(arguments)
    reading, cache = native_reading(arguments), _cache(arguments)
    with watching(arguments["progress"]) as callback:
        if folder is not None:
            return _fastpack.write_records(records, reading, folder, options, *model, cache, callback)
        return tables(_fastpack.pack_records(records, reading, options, *model, aside, cache, callback))


def _refuse_decided_options(arguments: KeywordArguments) -> None:
    """Refuses options that were decided when the tokens were made."""
    objective = objective_of(arguments)
    for name in ("classes", "function"):
        if getattr(objective, name, None) is not None:
            message = "was decided when the kept tokens were made; leave it out"
            raise OptionError(message, f"objective.{name}")


def _cache(arguments: KeywordArguments) -> StrPath | None:
    """The folder of the token cache, if one is given."""
    folder = arguments["cache_dir"]
    if folder is not None and images_of(arguments) is not None:
        message = "keeps tokens of pictures, whose files may change; leave it out, or `images`"
        raise OptionError(message, "cache_dir")
    return None if folder is None else folder_of("cache_dir", folder)


def stream(arguments: KeywordArguments) -> PackStream:
    """Makes a stream over files."""
    check_choice("strategy", word_of(arguments["strategy"]), StreamStrategy, " in a stream")
    return PackStream(arguments)


def scan(arguments: KeywordArguments) -> ScanReport:
    """Reads files and packs nothing."""
    arguments, max_length = with_processor(arguments), arguments["max_length"]
    lengths: list[int] = list(max_length) if is_series(max_length) else [max_length]  # type: ignore[arg-type]
    if not lengths:
        message = "must name at least one length"
        raise OptionError(message, "max_length")
    # A scan makes no rows, so it needs no columns.
    scanned = {**arguments, "on_bad_record": "skip", "columns": [*CAUSAL_COLUMNS, "loss_weights"]}
    options = [native_options({**scanned, "max_length": length}) for length in lengths]
    inputs = native_inputs(arguments)
    model = native_model(arguments)
    with watching(arguments["progress"]) as callback:
        found = _fastpack.scan(inputs, lengths, arguments["sample"], options[0], *model, callback)
    return ScanReport.from_json(found)


def plan(arguments: KeywordArguments) -> _fastpack.Plan:
    """Packs lengths."""
    return _fastpack.plan(whole_numbers("lengths", arguments["lengths"]), native_packing(arguments))


def repack(arguments: KeywordArguments) -> Report:
    """Packs the kept tokens of a folder into another folder."""
    if is_of_hub(arguments["output"]):
        return committed(arguments, repack)
    _refuse_decided_options(arguments)
    options = native_options(arguments)
    named, storage, loaded = arguments["tokenizer"], value_in(arguments, Storage), None
    if named is None:
        check_access(storage.revision, storage.token)
    else:
        loaded = pretrained(named, revision=storage.revision, token=storage.token)
    destination = native_output(arguments)
    with kept_tokens(arguments) as (kept, embeds), watching(arguments["progress"]) as callback:
        pictures = remote_pictures(Storage(storage.options), hub=True) if embeds else None
        return _fastpack.repack(kept, destination, options, loaded, pictures, callback)
