"""`kept_tokens`: the folder of kept tokens that `repack` reads."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fastpack.arguments.checks import folder_of
from fastpack.arguments.urls import is_url
from fastpack.dataset.folder import Folder
from fastpack.dataset.manifest import MANIFEST, manifest_of, non_shard_files
from fastpack.dataset.packed_files import LocalFiles, RemoteAccess, RemoteFiles
from fastpack.errors import FastpackError, OptionError
from fastpack.options.native import value_in
from fastpack.options.storage import Storage
from fastpack.storage.remote_options import cache_folder, public

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fastpack.types import JsonValue

__all__ = ["kept_tokens"]


@contextmanager
def kept_tokens(arguments: Mapping[str, object]) -> Iterator[tuple[str, bool]]:
    """The folder `source` of a call, on this machine: of one in remote storage, the kept tokens are fetched for a while.

    The second value is true if rows of these tokens hold the bytes of pictures, which lie in their files.

    Raises:
        OptionError: The output is the folder itself.
        FastpackError: A folder in remote storage holds no rows that fastpack packed.
    """
    source = folder_of("source", arguments["source"], takes_urls=True)
    if not is_url(source):
        # Refuses links that lead out of the folder, shards too.
        yield source, _embeds_pictures(manifest_of(LocalFiles(Path(source))))
        return
    if public(source).rstrip("/") == public(str(arguments["output"])).rstrip("/"):
        message = "holds the tokens that are packed; write to a folder of its own"
        raise OptionError(message, "output")
    storage = value_in(arguments, Storage)
    folder = Folder(source, access=RemoteAccess(storage.options))
    if not isinstance(folder.files, RemoteFiles):
        message = f"{folder.name} is no folder in remote storage"
        raise FastpackError(message)
    # It may be large, and the folder for temporary files is in memory on some machines.
    above = str(storage.work_dir or cache_folder(None))
    Path(above).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kept-", dir=above) as fetched:
        manifest = folder.files.content(MANIFEST) or b""
        Path(fetched, MANIFEST).write_bytes(manifest)
        for file in non_shard_files(folder.manifest):
            path = Path(fetched, file.name)
            path.parent.mkdir(exist_ok=True)
            folder.files.copy(file, path)
        yield fetched, _embeds_pictures(folder.manifest)


def _embeds_pictures(manifest: Mapping[str, JsonValue]) -> bool:
    """True if rows of the kept tokens of a job hold the bytes of pictures."""
    found: object = manifest
    for name in ("job", "token_options", "reading.images"):
        found = found.get(name) if isinstance(found, dict) else None
    return isinstance(found, dict) and found.get("embed") is True
