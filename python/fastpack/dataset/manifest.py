"""`manifest_of`: the manifest of a packed folder, which is used only as fastpack wrote it, and the files that it lists."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from fastpack._fastpack import MANIFEST_VERSION, content_hash, hash_of, is_sealed, tokens_hash
from fastpack.arguments.checks import shown
from fastpack.arguments.failures import about
from fastpack.dataset.manifest_fields import check_fields
from fastpack.dataset.packed_files import ListedFile, file_in
from fastpack.errors import FastpackError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from fastpack.dataset.packed_files import PackedFiles
    from fastpack.types import JsonValue, StrPath

__all__ = [
    "MANIFEST",
    "NOT_THERE",
    "REPORT",
    "TOKENS",
    "change_of",
    "is_of_fastpack",
    "json_of",
    "manifest_of",
    "non_shard_files",
    "report_of",
]

MANIFEST: Final = "manifest.json"
"""The name of the manifest."""

REPORT: Final = "report.json"
"""The name of the report."""

TOKENS: Final = "tokens.fastpack"
"""The name of the file of kept tokens."""

NOT_THERE: Final = "the manifest lists this file, which is not there"
"""The difference of a file that is not there."""

_BEGIN: Final = b'{\n  "blake3": "'
"""The beginning of a file that fastpack has sealed."""

_LONGEST_NAME: Final = 300
"""More bytes than the name of a file has, with the folder of its split: file systems take 255."""


def change_of(files: PackedFiles, file: ListedFile) -> str | None:
    """The difference between a file and its entry in the manifest; `None` if there is none.

    Raises:
        FastpackError: It cannot be read.
    """
    with files.copy_of(file) as path:
        return _change(path, file)


def _change(path: Path, file: ListedFile) -> str | None:
    with about(path, "cannot be read"):
        if not path.is_file():
            return NOT_THERE
        size = path.stat().st_size
    hashed = tokens_hash if file.name == TOKENS else content_hash
    return _difference(file, size, lambda: hashed(str(path)))


def _difference(file: ListedFile, size: int, hashed: Callable[[], str | None]) -> str | None:
    """The difference between a file of this size and hash and its entry in the manifest."""
    if file.bytes is not None and size != file.bytes:
        return f"has {size:,} bytes, but {file.bytes:,} by the manifest: it has changed since it was written"
    if file.blake3 is not None and hashed() != file.blake3:
        return "has another hash than the manifest says: it has changed since it was written"
    return None


def manifest_of(files: PackedFiles) -> dict[str, JsonValue]:
    """The content of `manifest.json` among the files of a folder; empty where there is none.

    Raises:
        FastpackError: It cannot be read, has changed since fastpack wrote it, is of another version, lists a file outside
            the folder, or has a field of another type than fastpack writes.
    """
    path = files.shown(MANIFEST)
    text = files.content(MANIFEST)
    if text is None:
        return {}
    starts_as_ours, is_whole = text.startswith(_BEGIN), is_sealed(text)
    decoded = _decoded(path, text)
    # It names every input, so memory holds its text once.
    del text
    manifest = _object(path, decoded)
    del decoded
    if not (starts_as_ours or is_of_fastpack(manifest)):
        return manifest
    if not is_whole:
        message = f"{path} has changed since fastpack wrote it; pack again, or get the folder again from where it comes"
        raise FastpackError(message)
    version = manifest.get("version")
    if version != MANIFEST_VERSION:
        message = (
            f"{path} is of another version of fastpack: it has the version {shown(version)}, and this one reads "
            f"{MANIFEST_VERSION}; pack again, or use that version"
        )
        raise FastpackError(message)
    listed = [*_names(path, manifest), *(file.name for file in non_shard_files(manifest))]
    for name in listed:
        if len(name.encode(errors="surrogatepass")) > _LONGEST_NAME:
            message = f"{path} names {shown(name)}, which is too long for a file; get the folder again from where it comes"
            raise FastpackError(message)
    files.refuse_outside(listed, MANIFEST)
    check_fields(path, manifest)
    return manifest


def is_of_fastpack(manifest: Mapping[str, JsonValue]) -> bool:
    """Tells manifests of fastpack from those of other programs."""
    job, files = manifest.get("job"), manifest.get("files")
    return isinstance(job, dict) and isinstance(files, list) and "fastpack" in job


def non_shard_files(manifest: Mapping[str, JsonValue]) -> Iterator[ListedFile]:
    """The files that a manifest lists beside the shards: the report, kept tokens, and descriptions of the shards for others."""
    listed = manifest.get("beside")
    for entry in listed if isinstance(listed, list) else []:
        if isinstance(entry, dict) and isinstance(entry.get("name"), str):
            yield _listed(str(entry["name"]), entry)
    tokens = manifest.get("tokens")
    if isinstance(tokens, dict):
        yield _listed(TOKENS, tokens)


def report_of(files: PackedFiles) -> bytes | None:
    """The text of the report among the files of a folder; `None` where there is none.

    Raises:
        FastpackError: It has changed since fastpack wrote it, or cannot be read.
    """
    text = files.content(REPORT)
    if text is None:
        return None
    for file in non_shard_files(manifest_of(files)):
        change = _difference(file, len(text), lambda: hash_of(text)) if file.name == REPORT else None
        if change:
            message = f"{files.shown(REPORT)}: {change}; pack again"
            raise FastpackError(message)
    return text


def json_of(path: Path) -> dict[str, JsonValue] | None:
    """The object in a JSON file; `None` if there is no such file.

    Raises:
        FastpackError: The file holds something else, or cannot be read.
    """
    text = file_in(path)
    return None if text is None else _object(path, _decoded(path, text))


def _listed(name: str, entry: Mapping[str, JsonValue]) -> ListedFile:
    size, hashed = entry.get("bytes"), entry.get("blake3")
    return ListedFile(name, size if isinstance(size, int) else None, str(hashed) if hashed else None)


def _names(path: StrPath, manifest: Mapping[str, JsonValue]) -> Iterator[str]:
    """The names of the shards in a manifest."""
    files = manifest.get("files")
    for file in files if isinstance(files, list) else []:
        if not isinstance(file, dict) or not isinstance(file.get("name"), str):
            message = f"{path} lists a shard without a name; pack again"
            raise FastpackError(message)
        yield str(file["name"])


def _decoded(path: StrPath, text: bytes) -> str:
    with about(path, "cannot be read", "pack again"):
        return text.decode(json.detect_encoding(text), "surrogatepass")


def _object(path: StrPath, text: str) -> dict[str, JsonValue]:
    with about(path, "cannot be read", "pack again"):
        value = json.loads(text)
    if not isinstance(value, dict):
        message = f"{path} holds no JSON object; pack again"
        raise FastpackError(message)
    return value
