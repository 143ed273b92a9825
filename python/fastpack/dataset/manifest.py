"""`manifest_of`: the manifest of a packed folder, which is used only as fastpack wrote it, and the files that it lists."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from fastpack._fastpack import content_hash, first_outside, is_sealed, tokens_hash
from fastpack.arguments.checks import regular_file, shown
from fastpack.arguments.failures import about
from fastpack.errors import FastpackError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from fastpack.types import JsonValue

__all__ = [
    "MANIFEST",
    "REPORT",
    "TOKENS",
    "ListedFile",
    "files_beside",
    "is_of_fastpack",
    "json_of",
    "manifest_of",
    "refuse_outside",
    "report_of",
]

MANIFEST: Final = "manifest.json"
"""The name of the manifest."""

REPORT: Final = "report.json"
"""The name of the report."""

TOKENS: Final = "tokens.fastpack"
"""The name of the file of kept tokens."""

_BEGIN: Final = b'{\n  "blake3": "'
"""The beginning of a file that fastpack has sealed."""


class ListedFile(NamedTuple):
    """A file that a manifest lists.

    Attributes:
        name: The name in the folder.
        bytes: The size; `None` where the manifest says none.
        blake3: The hash, in hexadecimal; `None` where the manifest says none.
    """

    name: str
    bytes: int | None
    blake3: str | None

    def change(self, folder: Path) -> str | None:
        """The difference between the file in a folder and its entry in the manifest; `None` if there is none.

        Raises:
            FastpackError: It cannot be read.
        """
        path = folder / self.name
        if not path.is_file():
            return "the manifest lists this file, which is not there"
        with about(path, "cannot be read"):
            size = path.stat().st_size
        if self.bytes is not None and size != self.bytes:
            return (
                f"has {size:,} bytes, but {self.bytes:,} by the manifest: it has changed since it was written"
            )
        if self.blake3 is None:
            return None
        found = tokens_hash(str(path)) if self.name == TOKENS else content_hash(str(path))
        if found != self.blake3:
            return "has another hash than the manifest says: it has changed since it was written"
        return None


def manifest_of(folder: Path) -> dict[str, JsonValue]:
    """The content of `manifest.json` in a folder; empty where there is none.

    Raises:
        FastpackError: It cannot be read, has changed since fastpack wrote it, or lists a file outside the folder.
    """
    path = folder / MANIFEST
    if path.exists() or path.is_symlink():
        refuse_outside(folder, [MANIFEST], MANIFEST)
    text = _content(path)
    if text is None:
        return {}
    begins, is_whole = text.startswith(_BEGIN), is_sealed(text)
    decoded = _decoded(path, text)
    # It names every input, so memory holds its text once.
    del text
    manifest = _object(path, decoded)
    del decoded
    if not (begins or is_of_fastpack(manifest)):
        return manifest
    if not is_whole:
        message = f"{path} has changed since fastpack wrote it; pack again, or get the folder again from where it comes"
        raise FastpackError(message)
    listed = [*_names(path, manifest), *(file.name for file in files_beside(manifest))]
    refuse_outside(folder, listed, MANIFEST)
    return manifest


def is_of_fastpack(manifest: Mapping[str, JsonValue]) -> bool:
    """Tells manifests of fastpack from those of other programs."""
    job, files = manifest.get("job"), manifest.get("files")
    return isinstance(job, dict) and isinstance(files, list) and "fastpack" in job


def files_beside(manifest: Mapping[str, JsonValue]) -> Iterator[ListedFile]:
    """The files that a manifest lists beside the shards: the report, kept tokens, and what describes the shards to others."""
    listed = manifest.get("beside")
    for entry in listed if isinstance(listed, list) else []:
        if isinstance(entry, dict) and isinstance(entry.get("name"), str):
            yield _listed(str(entry["name"]), entry)
    tokens = manifest.get("tokens")
    if isinstance(tokens, dict):
        yield _listed(TOKENS, tokens)


def report_of(folder: Path) -> bytes | None:
    """The text of the report in a folder; `None` where there is none.

    Raises:
        FastpackError: It has changed since fastpack wrote it, or cannot be read.
    """
    path = folder / REPORT
    if not path.exists():
        return None
    for file in files_beside(manifest_of(folder)):
        change = file.change(folder) if file.name == REPORT else None
        if change:
            message = f"{path}: {change}; pack again"
            raise FastpackError(message)
    return _content(path)


def json_of(path: Path) -> dict[str, JsonValue] | None:
    """The object in a JSON file; `None` if there is no such file.

    Raises:
        FastpackError: The file holds something else, or cannot be read.
    """
    text = _content(path)
    return None if text is None else _object(path, _decoded(path, text))


def refuse_outside(folder: Path, names: Iterable[str], listed_by: str) -> None:
    """Refuses names of files that lie outside a folder, by themselves or through a link. `listed_by` is the file with the names.

    Raises:
        FastpackError: One does.
    """
    with about(folder, "cannot be read"):
        name = first_outside(str(folder), list(names))
    if name is not None:
        source = folder / listed_by
        what = "is a link" if name == listed_by else f"names `{shown(name)}`, which leads"
        message = f"{source} {what} out of the folder; a packed folder is read whole: copy the file into it"
        raise FastpackError(message)


def _listed(name: str, entry: Mapping[str, JsonValue]) -> ListedFile:
    size, hashed = entry.get("bytes"), entry.get("blake3")
    return ListedFile(name, size if isinstance(size, int) else None, str(hashed) if hashed else None)


def _names(path: Path, manifest: Mapping[str, JsonValue]) -> Iterator[str]:
    """The names of the shards in a manifest."""
    files = manifest.get("files")
    for file in files if isinstance(files, list) else []:
        if not isinstance(file, dict) or not isinstance(file.get("name"), str):
            message = f"{path} lists a shard without a name; pack again"
            raise FastpackError(message)
        yield str(file["name"])


def _content(path: Path) -> bytes | None:
    """The bytes of a regular file; `None` if there is none."""
    with about(path, "cannot be read"):
        try:
            return regular_file(path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None


def _decoded(path: Path, text: bytes) -> str:
    with about(path, "cannot be read", "pack again"):
        return text.decode(json.detect_encoding(text), "surrogatepass")


def _object(path: Path, text: str) -> dict[str, JsonValue]:
    with about(path, "cannot be read", "pack again"):
        value = json.loads(text)
    if not isinstance(value, dict):
        message = f"{path} holds no JSON object; pack again"
        raise FastpackError(message)
    return value
