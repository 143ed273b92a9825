"""`reindex`: files written again so that a stream can enter them in the middle."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fastpack import _fastpack
from fastpack._fastpack import one_line
from fastpack.arguments.checks import folder_of
from fastpack.arguments.plural import counted
from fastpack.errors import OptionError
from fastpack.options.native import native_inputs
from fastpack.options.records import Reading
from fastpack.options.storage import Storage, storage_of
from fastpack.runtime.progress import watching
from fastpack.storage.hub_commit import is_of_hub
from fastpack.storage.remote_options import cache_folder, choose_storage, is_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastpack.types import Files, JsonValue, ProgressOption, StrPath

__all__ = ["Reindexed", "ReindexedFile", "reindex"]


class ReindexedFile(NamedTuple):
    """A file that was written again.

    Attributes:
        source: The file that was read.
        path: The file that was written.
        bytes_read: The bytes of the file that was read.
        bytes_written: The bytes of the file that was written.
        parts: The frames, row groups or record batches of the file that was written.
    """

    source: str
    path: str
    bytes_read: int
    bytes_written: int
    parts: int


class Reindexed(NamedTuple):
    """The result of `reindex`; `print` shows it.

    Attributes:
        files: The files, in the order in which they were read.
    """

    files: tuple[ReindexedFile, ...]

    def to_dict(self) -> dict[str, JsonValue]:
        """The result as JSON values."""
        return {"files": [dict(file._asdict()) for file in self.files]}

    def __str__(self) -> str:
        """A line for each file, and the sums."""
        lines = [
            f"{one_line(str(file.source))} -> {one_line(str(file.path))}: {counted(file.parts, 'part')}, "
            f"{file.bytes_read:,} bytes became {file.bytes_written:,}"
            for file in self.files
        ]
        read, written = (
            sum(sizes)
            for sizes in zip(*((it.bytes_read, it.bytes_written) for it in self.files), strict=True)
        )
        return "\n".join([*lines, f"{counted(len(self.files), 'file')}: {read:,} bytes became {written:,}"])


def reindex(
    files: Files,
    output: StrPath,
    *,
    recursive: bool = False,
    storage: Mapping[str, str] | Storage | None = None,
    progress: ProgressOption = None,
) -> Reindexed:
    """Writes files again so that a stream can enter them in the middle.

    JSON Lines, whatever they are compressed with, become zstd files of frames of about 1 MiB that end at newlines, with a
    seek table at the end; other programs read them as any zstd file. Parquet and Arrow files get row groups and record
    batches of about 1 MiB. Records, their order and their lines stay, so streams and `pack_files` make the same documents
    of them. Each file appears in the folder when it is whole.

    Args:
        files: Files, folders, globs and brace lists, as for `pack_files`.
        output: The folder to write to, also one of a bucket. Files keep their places below their common folder.
        recursive: True if the folders inside a folder are read too.
        storage: Options of remote storage, or a `Storage`, as for `pack_files`.
        progress: A bar, or a function of a `fastpack.Progress`, as for `pack_files`.

    Returns:
        The files with their sizes.

    Raises:
        OptionError: A file is of a format that a stream reads as a whole: an array of JSON, CSV, CBOR, text or MDS.
        OutputError: A file is there already.
        RecordError: A file is damaged.
        InputNotFoundError: There is no such file.

    Examples:
        >>> import fastpack, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     done = fastpack.reindex("examples/chat.jsonl", folder)
        ...     again = fastpack.pack_files(folder, "examples/tokenizer", max_length=512)
        >>> again == fastpack.pack_files("examples/chat.jsonl", "examples/tokenizer", max_length=512)
        True
    """
    there = storage_of(storage, "reindex")
    arguments = {
        "files": files,
        "reading": Reading(recursive=recursive),
        "storage": there,
    }
    inputs, folder = native_inputs(arguments), folder_of("output", output, takes_urls=True)
    with ExitStack() as stack:
        remote = None
        if is_url(folder):
            if is_of_hub(folder):
                message = "is on the hub, which takes whole folders; write to a folder, and upload it"
                raise OptionError(message, "output")
            # Each file is written here, and goes on from here.
            native = choose_storage((), Storage(there.options))
            remote, folder = (folder, native), stack.enter_context(_temporary_folder())
        done = _fastpack.reindex(inputs, folder, remote, stack.enter_context(watching(progress)))
    return Reindexed(tuple(map(ReindexedFile._make, done)))


def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder for a while, on the disk of the caches: that for temporary files is in memory on some machines."""
    above = Path(cache_folder(None))
    above.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(prefix="reindex-", dir=above)
