"""Recipes: the options of a job, read from a TOML file or from the manifest of a packed folder."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastpack.arguments.checks import folder_of, local_path, regular_file, shown
from fastpack.arguments.failures import about
from fastpack.arguments.functions import function_at, place_of
from fastpack.arguments.message import Message
from fastpack.arguments.urls import is_url
from fastpack.dataset.manifest import MANIFEST, manifest_of
from fastpack.dataset.packed_files import LocalFiles, RemoteAccess, files_of
from fastpack.errors import InputNotFoundError, OptionError
from fastpack.options import OPTIONS, options_of
from fastpack.options.mistakes.suggestions import option_hint
from fastpack.options.value import (
    Value,
    fields_of,
    from_table,
    marked,
    names_of,
    paths_of,
    to_table,
)
from fastpack.records.filter_and_map import FUNCTIONS
from fastpack.storage.remote_options import public

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from fastpack.options.storage import Storage
    from fastpack.types import JsonValue, StrPath

__all__ = ["load_config", "load_manifest", "options_of_manifest", "recipe_of"]

_WHY_ONE_CALL: Final = "belongs to one call, which no manifest decides"

_NAMED: Final = 100
"""The most characters of the name of an option in a message; a file may hold any."""

_UNHELD: Final = "unheld"
"""The entry of a recipe that describes the options which it cannot hold, by name."""


def load_config(path: StrPath) -> dict[str, Any]:  # type: ignore[explicit-any]  # as each option has it
    r"""The options that a TOML file holds, as keyword arguments of `pack_dir`.

    Keys are the names of options. Paths are relative to the file; functions such as `filter` are written `file.py:name`.

    Args:
        path: The file.

    Returns:
        The options.

    Raises:
        OptionError: The file is no TOML, holds a key that is no option, or an access token.
        InputNotFoundError: There is no such file.
        StorageError: It cannot be read.

    Examples:
        >>> import fastpack, tempfile, pathlib
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     recipe = pathlib.Path(folder, "recipe.toml")
        ...     _ = recipe.write_text('files = "chats/*.jsonl"\nmax_length = 4096\n')
        ...     options = fastpack.load_config(recipe)
        >>> options["max_length"], pathlib.Path(options["files"]).name
        (4096, '*.jsonl')
    """
    named = local_path("config", path, "the path of a file")
    with about(named, "cannot be read"):
        place = regular_file(named)
        content = place.read_bytes()
    try:
        held = tomllib.loads(content.decode())
    except (ValueError, RecursionError) as refused:
        raise _refused(place, None, f"is no TOML: {refused}") from refused
    return {name: _argument_of(place, name, value) for name, value in held.items()}


def load_manifest(  # type: ignore[explicit-any]  # as each option has it
    folder: StrPath, storage: Mapping[str, str] | Storage | None = None
) -> dict[str, Any]:
    """The options of the job that packed a folder, as keyword arguments of `pack_dir`.

    `output`, `exists` and `progress` belong to one call, and are not among them. Functions are only named: whoever
    wrote the folder chose the names, so nothing is loaded by them.

    Args:
        folder: A folder that `pack_dir` wrote, also a URL of one in remote storage.
        storage: Options of remote storage, or a `Storage`, as for `pack_dir`.

    Returns:
        The options that were given. Functions, and what JSON cannot hold, such as a live tokenizer, are described under
        `unheld`, by name.

    Raises:
        OptionError: The manifest has no recipe, or is not one that fastpack wrote.
        InputNotFoundError: The folder has no manifest.
        FastpackError: The manifest has changed since fastpack wrote it, or cannot be read.
    """
    named = folder_of("like", folder, takes_urls=True)
    access = RemoteAccess.of("pack_dir", storage)
    files = files_of("like", named, access) if is_url(named) else LocalFiles(Path(named))
    place, manifest = files.shown(MANIFEST), manifest_of(files)
    if not manifest and files.content(MANIFEST) is None:
        raise InputNotFoundError(errno.ENOENT, "no manifest of a packed folder", place)
    return options_of_manifest(Path(place), manifest)


def options_of_manifest(place: Path, manifest: Mapping[str, JsonValue]) -> dict[str, Any]:  # type: ignore[explicit-any]  # as each option has it
    """The options that the manifest at `place` says, as `load_manifest` returns them.

    Raises:
        OptionError: The manifest has no recipe, or is not one that fastpack wrote.
    """
    recipe = manifest.get("recipe")
    if not isinstance(recipe, dict):
        raise _refused(place, None, "does not say how the folder was packed; only folders of pack_dir do")
    recipe = dict(recipe)
    described = recipe.pop(_UNHELD, {})
    unheld = {
        str(name): str(kind) for name, kind in (described if isinstance(described, dict) else {}).items()
    }
    for name in list(recipe):
        held = recipe[name]
        is_place = name in FUNCTIONS and isinstance(held, str)
        functions = [held] if is_place else list(_functions_in(name, held).values())
        if functions:
            unheld[name] = f"the function `{functions[0]}`"
            del recipe[name]
    for name, held in recipe.items():
        if name in OPTIONS and OPTIONS[name].once:
            raise _refused(place, name, _WHY_ONE_CALL)
        if isinstance(held, dict) and name in OPTIONS:
            once = [marked(kind, "once") & held.keys() for kind in OPTIONS[name].kinds.values()]
            for key in frozenset().union(*once):
                raise _refused(place, f"{name}.{key}", _WHY_ONE_CALL)
    options = {name: _argument_of(place, name, value) for name, value in recipe.items()}
    return {**options, _UNHELD: unheld} if unheld else options


def recipe_of(arguments: Mapping[str, object]) -> str:
    """The options of a call that are not at their defaults, as JSON for the manifest."""
    recipe: dict[str, object] = {}
    unheld: dict[str, str] = {}
    on_filesystem = getattr(arguments.get("storage"), "filesystem", None) is not None
    for name, value in arguments.items():
        option = OPTIONS.get(name)
        if option is None or option.once or option.is_default(value):
            continue
        try:
            if name in option.kinds:
                value = option.value_in(arguments)  # noqa: PLW2901  the value that was meant
                if isinstance(value, Value) and not to_table(_of_files(value)):
                    continue
            # Paths on a filesystem are no paths of this machine.
            written = value if on_filesystem and name == "files" else _written_option(name, value)
            recipe[name] = json.loads(json.dumps(written, allow_nan=False))
        except (TypeError, ValueError, RecursionError):
            unheld[name] = f"a {type(value).__qualname__}"
    return json.dumps({**recipe, _UNHELD: unheld} if unheld else recipe)


def _written_option(name: str, value: object) -> object:
    """Converts an option for a recipe."""
    if name == "files" and isinstance(value, Mapping):
        return {key: _written_source(source) for key, source in value.items()}
    return _written(name, value)


def _written_source(source: object) -> object:
    """Converts a source: its paths, or these with settings of its own."""
    if not isinstance(source, Mapping):
        return _written("files", source)
    return {key: _written_setting(key, part) for key, part in source.items()}


def _written_setting(key: str, part: object) -> object:
    """Converts a setting of a source: its paths, and its prompt where that is one."""
    if key == "prompt":
        return _each_path(part, lambda path: _absolute(path, always=False))
    return _written("files" if key == "path" else key, part)


def _written(name: str, value: object) -> object:
    """Converts a value for a recipe: paths become absolute, functions become their file and name."""
    if name in FUNCTIONS and not isinstance(value, Value):
        return place_of(value)
    if isinstance(value, Mapping) and name == "files":
        return _written_source(value)
    how = OPTIONS[name].has_path if name in OPTIONS else ""
    if how == "always" or (how and isinstance(value, (str, os.PathLike))):
        return _each_path(value, lambda path: _absolute(path, always=how == "always"))
    if isinstance(value, Value):
        return to_table(_with_paths(_of_files(value), _absolute))
    return value.isoformat() if isinstance(value, datetime) else value


def _argument_of(place: Path, name: str, value: object) -> object:
    """Converts the value of an option in a file to an argument of a call."""
    known = {option.name for option in options_of("pack_dir")}
    if name not in known:
        hint = option_hint(name, known, "pack_dir")
        raise _refused(place, name, Message("is no option", "; " if hint else "", hint))
    base = place.parent.absolute()
    if name in FUNCTIONS and isinstance(value, str):
        return _loaded(place, name, value)
    if name == "files" and isinstance(value, list) and any(isinstance(file, dict) for file in value):
        return [_source_argument_of(place, number, source) for number, source in enumerate(value)]
    how = OPTIONS[name].has_path
    if how == "always" or (how and isinstance(value, str)):
        return _each_path(value, lambda path: _resolve_path(base, path, always=how == "always"))
    return _plain_argument_of(place, name, value)


def _functions_in(name: str, value: object) -> dict[str, str]:
    """The places of the functions in a table of an option's own options, by their keys."""
    if not isinstance(value, Mapping) or name not in OPTIONS:
        return {}
    functions = [field.name for field in fields_of(OPTIONS[name].kinds.values()) if field.is_function]
    return {key: place for key in functions if isinstance(place := value.get(key), str)}


def _loaded(place: Path, option: str, function: str) -> object:
    """The function that an option of the file at `place` names, relative to its folder."""
    is_file = function.rpartition(":")[0].endswith(".py")
    try:
        return function_at(str(place.parent.absolute() / function) if is_file else function)
    except OptionError as refused:
        raise _refused(place, option, refused.reason) from refused.__cause__


def _plain_argument_of(place: Path, name: str, value: object) -> object:
    """Converts a value that is no path, function or source."""
    if OPTIONS[name].kinds and isinstance(value, dict):
        _refuse_fields(place, name, value)
        loaded = {key: _loaded(place, f"{name}.{key}", at) for key, at in _functions_in(name, value).items()}
        try:
            built = from_table(name, {**value, **loaded}, OPTIONS[name].kinds)
            base = place.parent.absolute()
            return _with_paths(built, lambda path, always: _resolve_path(base, path, always=always))
        except OptionError as refused:
            raise _refused(place, refused.option, refused.reason) from None
    if any(kind.plain in marked(kind, "secret") for kind in OPTIONS[name].kinds.values()):
        _refuse_fields(place, name, {kind.plain: value for kind in OPTIONS[name].kinds.values()})
    return value


def _refuse_fields(place: Path, name: str, table: Mapping[str, object]) -> None:
    """Refuses the fields of an option's value that no file may hold: secrets, and objects of Python."""
    for kind in OPTIONS[name].kinds.values():
        functions = {field.name for field in fields_of([kind]) if field.is_function}
        for key in table:
            if key in marked(kind, "secret"):
                why = "must not stand in a file; set environment variables such as HF_TOKEN, or pass it to the call"
                raise _refused(place, f"{name}.{key}", why)
            if key in marked(kind, "live") and not (key in functions and isinstance(table[key], str)):
                why = "is an object of Python, which a file cannot hold; pass it to the call"
                raise _refused(place, f"{name}.{key}", why)


def _of_files(value: Value) -> Value:
    """A value without the fields that belong to one call."""
    return dataclasses.replace(value, **dict.fromkeys(marked(type(value), "once")))  # type: ignore[type-var]  # a dataclass


def _with_paths(value: Value, change: Callable[..., str]) -> Value:  # type: ignore[explicit-any]  # called with a name
    """A value with its paths changed, also those of values in it."""
    held_values = {name: getattr(value, name) for name in names_of(type(value))}
    inner = {name: _with_paths(held, change) for name, held in held_values.items() if isinstance(held, Value)}
    changed: dict[str, object] = {
        name: change(os.fspath(held), always=how == "always")
        for name, how in paths_of(type(value)).items()
        if isinstance(held := getattr(value, name), (str, os.PathLike))
    }
    changed |= {name: held for name, held in inner.items() if held is not held_values[name]}
    return dataclasses.replace(value, **changed) if changed else value  # type: ignore[type-var]  # a dataclass


def _source_argument_of(place: Path, number: int, source: object) -> dict[str, object]:
    """Converts a source in a file: its paths, and its prompt, are relative to the file."""
    if isinstance(source, str):
        return {"path": _resolve_path(place.parent.absolute(), source, always=True)}
    if not isinstance(source, dict):
        why = f"must be a list of paths and of tables with a `path`; entry {number} is `{shown(source)}`"
        raise _refused(place, "files", why)
    base, held = place.parent.absolute(), dict(source)
    if "path" in held:
        held["path"] = _each_path(held["path"], lambda path: _resolve_path(base, path, always=True))
    if isinstance(held.get("prompt"), str):
        held["prompt"] = _resolve_path(base, held["prompt"], always=False)
    return held


def _each_path(value: object, change: Callable[[str], str]) -> object:
    if isinstance(value, (str, os.PathLike)):
        return change(os.fspath(value))
    if isinstance(value, Mapping):
        return _written("files", value)
    return [_each_path(path, change) for path in value] if isinstance(value, (list, tuple)) else value


def _absolute(path: str, *, always: bool) -> str:
    if is_url(path):
        return public(path)
    return os.path.abspath(path) if always or os.path.exists(path) else path  # noqa: PTH100  as written


def _resolve_path(base: Path, path: str, *, always: bool) -> str:
    if is_url(path):
        return path
    return (
        str(base / path) if always or os.path.exists(base / path) else path
    )  # false for a text too long for a path


def _refused(place: Path, name: str | None, why: str) -> OptionError:
    return OptionError(Message(f"{place}: ", why), name[:_NAMED] if name else "config")
