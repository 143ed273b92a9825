"""Makes the options of remote storage: credentials, the block cache, and the files of data sets of the hub."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fastpack import _fastpack
from fastpack.arguments.checks import check_text, folder_of, shown
from fastpack.arguments.urls import is_url
from fastpack.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastpack.options.storage import Storage
    from fastpack.storage.filesystem import FileSystem

__all__ = ["cache_folder", "choose_storage", "is_url", "public", "staged"]


def public(path: str) -> str:
    """A path, or a URL without its user, its query and its fragment, which may be secrets."""
    scheme, found, rest = path.partition("://")
    if not found or not is_url(path):
        return path
    if scheme.lower() in {"http", "https"}:
        rest = re.split("[?#]", rest)[0]
    host, slash, key = rest.partition("/")
    if not scheme.lower().startswith("abfs"):
        host = host.rpartition("@")[2]
    return f"{scheme}://{host}{slash}{key}"


def staged(url: str, work_dir: object) -> str:
    """The folder of the local disk in which a job works whose output is at a URL."""
    base = _folder_of_user() / "jobs" if work_dir is None else Path(folder_of("work_dir", work_dir))
    name = hashlib.sha256(url.rstrip("/").encode()).hexdigest()[:32]
    return str(base / f"fastpack-{name}")


def choose_storage(
    patterns: Iterable[str],
    storage: Storage,
    *,
    cache_dir: object = None,
    filesystem: FileSystem | None = None,
    folder: str | None = None,
) -> _fastpack.StorageOptions:
    """Makes the options of remote storage for some paths and patterns.

    Args:
        patterns: The paths, URLs and patterns of the inputs.
        storage: The storage of the call.
        cache_dir: The folder that holds what is kept of fetched files; a folder of the user if it is not given.
        filesystem: The filesystem of `fsspec` that holds the inputs, if there is one.
        folder: The URL of a packed folder that is read, if there is one.
    """
    of_hub = () if filesystem else [pattern for pattern in patterns if pattern.lower().startswith("hf://")]
    resolved = {pattern: _files_of_hub(pattern) for pattern in of_hub}
    if folder is not None and folder.lower().startswith("hf://"):
        resolved[folder] = _files_in_hub(folder)
    return _fastpack.StorageOptions(
        storage=dataclasses.replace(storage, options=_texts(storage.options)),
        cache=None if storage.block_cache is None else cache_folder(cache_dir),
        given=resolved,
        filesystem=filesystem,
    )


def _files_of_hub(pattern: str) -> list[tuple[str, str, dict[str, str]]]:
    """The files of a data set of the hub: name, URL and headers of each."""
    from fastpack.storage.hub_datasets import files_of_hub  # noqa: PLC0415  needed for names of the hub only

    return files_of_hub(pattern)


def _files_in_hub(folder: str) -> list[tuple[str, str, dict[str, str]]]:
    """All files of a folder of a data set of the hub, likewise."""
    from fastpack.storage.hub_datasets import files_in_folder  # noqa: PLC0415  needed for names of the hub only

    return files_in_folder(folder)


def _texts(options: object) -> dict[str, str]:
    """The storage options as texts. Their values may be secrets, which no message shows."""
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        message = f"must be a dict of texts, not `{type(options).__name__}`"
        raise OptionError(message, "storage.options")
    texts: dict[str, str] = {}
    for name, value in options.items():
        if not isinstance(name, str) or not isinstance(value, (str, int, float, bool)):
            message = f"must be a dict of texts; the value of `{shown(name)}` is a `{type(value).__name__}`"
            raise OptionError(message, "storage.options")
        check_text("storage.options", name)
        if isinstance(value, str):
            check_text("storage.options", value, secret=True)
        texts[name.lower()] = str(value).lower() if isinstance(value, bool) else str(value)
    return texts


def cache_folder(cache_dir: object) -> str:
    """The folder of the block cache: the one of the call, or one of the user."""
    if cache_dir is not None:
        return folder_of("cache_dir", cache_dir)
    return str(_folder_of_user())


def _folder_of_user() -> Path:
    """The folder of the user for files that can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "fastpack"
