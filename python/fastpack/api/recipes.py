"""Recipes: the options of a job, read from a TOML file or from the manifest of a packed folder."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastpack.arguments.checks import SECRET_OPTIONS, folder_of, local_path, nearest, regular_file, shown
from fastpack.arguments.failures import about
from fastpack.arguments.functions import function_at, place_of
from fastpack.arguments.urls import is_url
from fastpack.dataset.manifest import MANIFEST, manifest_of
from fastpack.dataset.packed_files import LocalFiles
from fastpack.errors import InputNotFoundError, OptionError
from fastpack.options import OPTIONS, options_of
from fastpack.options.train_on import TrainOn, train_on_of
from fastpack.options.value import Value, fields_of, from_table, to_table
from fastpack.records.transform import FUNCTIONS
from fastpack.storage.remote_options import public

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from fastpack.types import JsonValue, StrPath

__all__ = ["load_config", "load_manifest", "options_of_manifest", "recipe_of"]

_OBJECTS: Final = frozenset({"filesystem"})
"""Options that are objects of Python."""

_OF_ONE_CALL: Final = frozenset({"append", "output", "overwrite", "progress", "rank", "world_size"})
"""Options that belong to one call: a repeated job must not inherit them, and no manifest holds them."""

_PATHS: Final = frozenset({"files", "output", "cache_dir", "work_dir"})
"""Options that are always paths, even of files that do not exist."""

_NAMES: Final = frozenset({"tokenizer", "chat_template", "prompt"})
"""Options that are paths if a file or a folder of that name exists."""

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
    return {name: _held(place, name, value) for name, value in held.items()}


def load_manifest(folder: StrPath) -> dict[str, Any]:  # type: ignore[explicit-any]  # as each option has it
    """The options of the job that packed a folder, as keyword arguments of `pack_dir`.

    `output`, `overwrite` and `progress` belong to one call, and are not among them. Functions are only named: whoever
    wrote the folder chose the names, so nothing is loaded by them.

    Args:
        folder: A folder that `pack_dir` wrote.

    Returns:
        The options that were given. Functions, and what JSON cannot hold, such as a live tokenizer, are described under
        `unheld`, by name.

    Raises:
        OptionError: The manifest has no recipe, or is not one that fastpack wrote.
        InputNotFoundError: The folder has no manifest.
        FastpackError: The manifest has changed since fastpack wrote it, or cannot be read.
    """
    place = Path(folder_of("like", folder)) / MANIFEST
    if not place.exists():
        raise InputNotFoundError(errno.ENOENT, "no manifest of a packed folder", str(place))
    return options_of_manifest(place, manifest_of(LocalFiles(place.parent)))


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
    for name in recipe:
        if name in _OF_ONE_CALL:
            raise _refused(place, name, "belongs to one call, which no manifest decides")
    options = {name: _held(place, name, value) for name, value in recipe.items()}
    return {**options, _UNHELD: unheld} if unheld else options


def recipe_of(given: Mapping[str, object]) -> str:
    """The options of a call that are not at their defaults, as JSON for the manifest."""
    recipe: dict[str, object] = {}
    unheld: dict[str, str] = {}
    on_filesystem = given.get("filesystem") is not None
    for name, value in given.items():
        option = OPTIONS.get(name)
        if option is None or name in SECRET_OPTIONS | _OF_ONE_CALL or option.is_default(value):
            continue
        try:
            # Paths on a filesystem are no paths of this machine.
            written = (
                value if on_filesystem and name in {"files", "sources"} else _written_option(name, value)
            )
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
    return {key: _written("files" if key == "path" else key, part) for key, part in source.items()}


def _written(name: str, value: object) -> object:
    """Converts a value for a recipe: paths become absolute, functions become their file and name."""
    if name in FUNCTIONS and not isinstance(value, Value):
        return place_of(value)
    if name in _PATHS or (isinstance(value, (str, os.PathLike)) and name in _NAMES):
        return _each_path(value, lambda path: _absolute(path, always=name in _PATHS))
    if name == "sources" and isinstance(value, (list, tuple)):
        return [_written_source(source) for source in value]
    if isinstance(value, TrainOn):
        return value.given()
    if isinstance(value, Value):
        return to_table(value)
    return value.isoformat() if isinstance(value, datetime) else value


def _held(place: Path, name: str, value: object) -> object:
    """Converts the value of an option in a file to an argument of a call."""
    known = {option.name for option in options_of("pack_dir")}
    if name not in known:
        near = nearest(name, known)
        raise _refused(place, name, "is no option" + (f"; did you mean `{near}`?" if near else ""))
    if name in SECRET_OPTIONS:
        raise _refused(
            place,
            name,
            "must not stand in a file; set environment variables such as HF_TOKEN, or pass it to the call",
        )
    if name in _OBJECTS:
        raise _refused(place, name, "is an object of Python, which a file cannot hold; pass it to the call")
    base = place.parent.absolute()
    if name in FUNCTIONS and isinstance(value, str):
        return _loaded(base, value)
    if name in _PATHS or (isinstance(value, str) and name in _NAMES):
        return _each_path(value, lambda path: _beside(base, path, always=name in _PATHS))
    if name == "sources" and isinstance(value, list):
        return [_held_source(place, number, source) for number, source in enumerate(value)]
    return _held_value(place, name, value)


def _functions_in(name: str, value: object) -> dict[str, str]:
    """The places of the functions in a table of an option's own options, by their keys."""
    if not isinstance(value, Mapping):
        return {}
    functions = [field.name for field in fields_of(OPTIONS[name].kinds.values()) if field.is_function]
    return {key: place for key in functions if isinstance(place := value.get(key), str)}


def _loaded(base: Path, place: str) -> object:
    """The function at a place that is relative to a folder."""
    return function_at(str(base / place) if place.rpartition(":")[0].endswith(".py") else place)


def _held_value(place: Path, name: str, value: object) -> object:
    """Converts a value that is no path, function or source."""
    if OPTIONS[name].kinds and isinstance(value, dict):
        loaded = {key: _loaded(place.parent.absolute(), at) for key, at in _functions_in(name, value).items()}
        try:
            return from_table(name, {**value, **loaded}, OPTIONS[name].kinds)
        except OptionError as refused:
            raise _refused(place, refused.option, refused.reason) from None
    if name == "train_on":
        try:
            return train_on_of(value)
        except OptionError as refused:
            raise _refused(place, name, refused.reason) from None
    if name == "now" and isinstance(value, str):
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            raise _refused(place, name, f"`{shown(value)}` is no time such as 2026-01-31T12:00") from None
    return value


def _held_source(place: Path, number: int, source: object) -> dict[str, object]:
    """Converts a source in a file: its paths, and its prompt, are relative to the file."""
    if not isinstance(source, dict):
        why = f"must be a list of tables with a `path`; entry {number} is `{shown(source)}`"
        raise _refused(place, "sources", why)
    of_option = {"path": "files", "prompt": "prompt"}
    return {
        key: _held(place, of_option[key], part) if key in of_option else part for key, part in source.items()
    }


def _each_path(value: object, change: Callable[[str], str]) -> object:
    if isinstance(value, (str, os.PathLike)):
        return change(os.fspath(value))
    return [_each_path(path, change) for path in value] if isinstance(value, (list, tuple)) else value


def _absolute(path: str, *, always: bool) -> str:
    if is_url(path):
        return public(path)
    return os.path.abspath(path) if always or os.path.exists(path) else path  # noqa: PTH100  as written


def _beside(base: Path, path: str, *, always: bool) -> str:
    if is_url(path):
        return path
    return (
        str(base / path) if always or os.path.exists(base / path) else path
    )  # false for a text too long for a path


def _refused(place: Path, name: str | None, why: str) -> OptionError:
    return OptionError(f"{place}: {why}", name or "config")
