"""Reads the arguments for inputs: files, sources with their own settings, and prompts."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import re
from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from fastpack import _fastpack
from fastpack.arguments.checks import is_series, nearest, path_of, refuse_collapsed, shown
from fastpack.arguments.failures import each_of
from fastpack.arguments.message import Message
from fastpack.errors import InputNotFoundError, OptionError, OptionTypeError
from fastpack.records.reiterable import Reiterable, gives_records
from fastpack.types import NamedPrompt, RecordSource, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from fastpack.options.records import Reading
    from fastpack.storage.filesystem import FileSystem
    from fastpack.types import Files

__all__ = ["choose_inputs", "choose_reading", "listed_sources", "named_sources", "weights_of"]

_NAMED = 3
"""The most sources that a message names."""

_ONCE = 1
"""The default of `repeat` of a source."""

_WANTED = (
    "a path, a pattern or a list of these (`pack_table` takes tables, `pack_records` iterables of records)"
)
"""The valid values of `files`, for messages."""


def choose_inputs(
    files: Files | Sequence[Source] | None,
    reading: Reading,
    *,
    filesystem: FileSystem | None,
    storage: Callable[[Sequence[str]], _fastpack.StorageOptions],
) -> _fastpack.Inputs:
    """Makes the inputs of files, or of a list of sources. What a source does not say of reading comes from the call.

    With a `filesystem`, all paths and patterns are on it. `storage` makes the options of remote storage for the paths and
    patterns of all sources.
    """
    if files is None:
        message = "must name at least one file"
        raise OptionError(message, "files")
    sources = listed_sources(files)
    listed = [{"path": files}] if sources is None else _checked(sources)
    for number, source in enumerate(listed):
        if source.get("fraction") is not None:
            message = f"source {number} has `fraction`, by which `pack_files` and `pack_dir` draw; other calls have none"
            raise OptionError(message, "files")
    named: list[str] = []
    native = [
        _native(source, reading, None if sources is None else number, named, filesystem)
        for number, source in enumerate(listed)
    ]
    return _fastpack.Inputs(sources=native, recursive=reading.recursive, storage=storage(named))


def listed_sources(files: object) -> list[Mapping[str, object]] | None:
    """The sources that a list has, each as a dict; `None` for files that are read alike."""
    if not isinstance(files, (list, tuple)):
        return None
    if not any(isinstance(file, Mapping) and file.keys() & {"path", "records"} for file in files):
        return None
    return [file if isinstance(file, Mapping) else {"path": file} for file in files]


def named_sources(files: object) -> tuple[list[str], object]:
    """The names of the sources if they have any, and the files with sources as a list."""
    if not isinstance(files, Mapping):
        if files is not None and gives_records(files):
            return [], [_source("records", files)]
        listed = listed_sources(files)
        if listed is None:
            return [], files
        return [], [_source(f"records {number}", source) for number, source in enumerate(listed)]
    if not files or not all(isinstance(name, str) for name in files):
        message = "must name at least one source, by texts"
        raise OptionError(message, "files")
    return list(files), [_source(name, source) for name, source in files.items()]


def _source(name: str, source: object) -> Mapping[str, object]:
    """A source as a dict, with its records checked if it gives any."""
    if gives_records(source):
        return {"records": Reiterable(source, name=name)}
    if isinstance(source, Mapping):
        records = source.get("records")
        if records is None:
            return source
        return {**source, "records": Reiterable(records, name=name, fingerprint=source.get("fingerprint"))}
    return {"path": source}


def weights_of(weights: object, names: Sequence[str]) -> list[float]:
    """The weights of the sources with these names, in their order.

    Raises:
        OptionError: They have other names.
        ValueError: They are not a dict of a number for each of the names.
    """
    wanted = "a dict of a weight for each source that `files` names"
    if isinstance(weights, Mapping) and weights and not names:
        example = next(map(str, weights))
        message = f"gives weights by names, and `files` has none: make it a dict, such as {{{shown(example)}: PATH, ...}} (NAME=FILE on a command line)"
        raise OptionError(message, "weights")
    if not isinstance(weights, Mapping) or not names:
        raise ValueError(wanted)
    without = [f"`{shown(name)}` has no weight" for name in names if name not in weights]
    without += [f"`{shown(name)}` is no source" for name in weights if name not in names]
    if without:
        message = f"must be {wanted}: {', '.join(without[:_NAMED])}"
        raise OptionError(message, "weights")
    if not all(isinstance(it, Real) and not isinstance(it, bool) for it in weights.values()):
        raise ValueError(wanted)
    try:
        return [float(weights[name]) for name in names]
    except OverflowError:  # of a whole number that no float holds
        raise ValueError(wanted) from None


def choose_reading(reading: Reading) -> _fastpack.Source:
    """Makes the reading settings of records in memory."""
    return _native({"path": ()}, reading, None, [])


def _nearest_path(path: str) -> str | None:
    """The existing path nearest in spelling to a path with one wrong part; `None` if there is none."""
    folder, name = os.path.split(path)
    if not name or (folder and not os.path.isdir(folder)):
        above = _nearest_path(folder) if name and folder != path else None
        found = f"{above}/{name}" if above else None
        return found if found and os.path.exists(found) else None
    try:
        near = nearest(name, [it.name for it in Path(folder or ".").iterdir()])
    except (OSError, ValueError):
        return None
    return (f"{folder.rstrip('/')}/{near}" if folder else near) if near else None


def _checked(sources: Sequence[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """Checks that each source has a `path` or records, and that all its keys are known."""
    known = (*Source.__required_keys__, *sorted(Source.__optional_keys__))
    wanted = f"must be a list of dicts with a `path` and what of {', '.join(known[1:])} they need"
    listed: list[Mapping[str, object]] = []
    for number, source in enumerate(sources):
        if isinstance(source.get("records"), Reiterable):
            listed.append(_checked_records(source, number))
            continue
        if source.get("path") is None:
            message = f"{wanted}; source {number} is `{shown(source)}`"
            raise OptionError(message, "files")
        for name in source:
            if name not in known:
                message = f"source {number} has `{name}`, none of {', '.join(known)}"
                raise OptionError(message, "files")
        listed.append(source)
    return listed


def _checked_records(source: Mapping[str, object], number: int) -> Mapping[str, object]:
    """Checks that a source of records has no setting of files."""
    for name in source:
        if name not in RecordSource.__required_keys__ | RecordSource.__optional_keys__:
            taken = ", ".join(sorted(RecordSource.__optional_keys__))
            message = f"source {number} has `{name}` beside `records`; records take none but {taken}"
            raise OptionError(message, "files")
    return source


def _native(
    source: Mapping[str, object],
    reading: Reading,
    number: int | None,
    named: list[str],
    filesystem: FileSystem | None = None,
) -> _fastpack.Source:
    """Makes a source; the call says what it does not, `shape` and `fields` together. Adds its paths to `named`."""
    own = {name: value for name, value in source.items() if value is not None}
    if own.keys() & {"shape", "fields"}:
        own = {"shape": None, "fields": None, **own}
    records = own.get("records")
    patterns = [] if isinstance(records, Reiterable) else _patterns(own["path"], filesystem)
    named += patterns
    try:
        names = [field.name for field in dataclasses.fields(reading)]
        settings: dict[str, Any] = {name: own[name] for name in names if name in own}  # type: ignore[explicit-any]  # it is checked
        read_as = dataclasses.replace(reading, **settings)
        return _fastpack.Source(
            patterns=patterns,
            reading=dataclasses.replace(read_as, prompt=_prompt(read_as.prompt)),
            # The core looks at each of these.
            limit=own.get("limit"),  # type: ignore[arg-type]
            repeat=own.get("repeat", _ONCE),  # type: ignore[arg-type]
            records=(records.name, records.known_as, records.kind, records)
            if isinstance(records, Reiterable)
            else None,
        )
    except OptionError as refused:
        if number is None:
            raise
        message = Message(f"`{refused.option.rpartition('.')[2]}` of source {number} ", refused.reason)
        raise OptionError(message, "files") from refused


def _patterns(files: object, filesystem: FileSystem | None) -> list[str]:
    """Paths and patterns as a list of texts; a leading `~` is the home of the user. Names of a filesystem, if there is one."""
    _refuse_data(files)
    if isinstance(files, Mapping):
        message = (
            "is a dict of sources, which `stream`, `pack_files` and `pack_dir` take; give their paths as a list, or a list "
            "of dicts"
        )
        raise OptionTypeError(message, "files")
    listed = each_of(files, "while fastpack read `files`") if is_series(files) else [files]
    patterns = []
    for file in listed:
        if isinstance(file, Mapping):
            message = (
                f"is a `{type(files).__qualname__}` of records, which gives them only once; `pack_records` takes it, and "
                "`stream` takes the function that makes it"
            )
            raise OptionTypeError(message, "files")
        patterns.append(path_of("files", file, _WANTED))
    if filesystem is not None:
        return [filesystem.name_of(pattern) if pattern else pattern for pattern in patterns]
    patterns = [os.path.expanduser(pattern) for pattern in patterns]
    for pattern in patterns:
        _refuse_missing(pattern)
        refuse_collapsed("files", pattern)
    return patterns


def _refuse_data(files: object) -> None:
    """Refuses data given in place of paths; the message names the function for it."""
    kind = type(files)
    if kind.__name__ == "LazyFrame":
        message = "is a LazyFrame; `.collect()` it, and give the table to `pack_table`"
        raise OptionTypeError(message, "files")
    if kind.__name__ in _HELD_BY_DATASETS:
        message = (
            f"is a {kind.__name__}; give one split of it to `pack_table`, or an iterable of "
            "its records to `pack_records`"
        )
        raise OptionTypeError(message, "files")
    if hasattr(kind, "__arrow_c_stream__") or hasattr(kind, "__dataframe__") or kind.__name__ == "Dataset":
        library = kind.__module__.partition(".")[0]
        message = f"is a `{library}.{kind.__name__}`; `pack_table` takes tables"
        raise OptionTypeError(message, "files")
    first = files[0] if isinstance(files, (list, tuple)) and files else None
    if isinstance(first, Mapping):
        message = "must be a path, a pattern or a list of these; `pack_records` takes records"
        raise OptionTypeError(message, "files")


_HELD_BY_DATASETS = ("DatasetDict", "IterableDataset", "IterableDatasetDict")
"""Types of `datasets` that are neither files nor one table."""

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]*[A-Za-z0-9_-]")
"""`organisation/name`, the form of data set names on the hub."""

_SUFFIX = re.compile(r"\.[A-Za-z]\w{1,8}$")
"""The suffix of a file name."""


def _refuse_missing(pattern: str) -> None:
    """Refuses the path of a missing file where a better suggestion than the core's is known."""
    if not pattern or "://" in pattern or set(pattern) & set("*?[{") or os.path.lexists(pattern):
        return
    near = _nearest_path(pattern)
    if near:
        reason = f"No such file or directory; did you mean `{near}`?"
        raise InputNotFoundError(errno.ENOENT, reason, pattern)
    if (
        _HUB_NAME.fullmatch(pattern)
        and not _SUFFIX.search(pattern)
        and not os.path.lexists(pattern.partition("/")[0])
    ):
        reason = f"No such file or directory; a data set on the hub is named `hf://datasets/{pattern}`"
        raise InputNotFoundError(errno.ENOENT, reason, pattern)


def _prompt(prompt: object) -> str | dict[str, str] | None:
    """The prompt: the name of a known one, a text, or a dict of parts; the last two may come from a file."""
    if prompt is None:
        return None
    if isinstance(prompt, Mapping):
        return dict(prompt)
    written = path_of("prompt", prompt, "the name of a prompt, a text or a path")
    if written in get_args(NamedPrompt) or "{" in written:
        return written
    path = os.path.expanduser(written)
    if os.path.isfile(path):  # unlike Path.is_file, false for a text too long to be a path
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as refused:
            message = f"`{written}` cannot be read: {refused}"
            raise OptionError(message, "prompt") from refused
        return _parts(written, text) if path.endswith(".json") else text
    known = ", ".join(f'"{name}"' for name in get_args(NamedPrompt))
    message = (
        f"must be one of {known}, a text with places such as {{instruction}}, or a "
        f"file of one, not `{shown(written)}`"
    )
    raise OptionError(message, "prompt")


def _parts(path: str, text: str) -> dict[str, str]:
    """Reads the parts of a prompt from the text of a JSON file."""
    try:
        parts = json.loads(text)
    except (RecursionError, ValueError) as refused:
        message = f"`{path}` is no JSON: {refused}"
        raise OptionError(message, "prompt") from refused
    if not isinstance(parts, dict):
        message = f"`{path}` must hold an object of the parts of a prompt"
        raise OptionError(message, "prompt")
    return parts
