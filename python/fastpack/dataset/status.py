"""`status`: the state of a job in a folder, and of its groups."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from fastpack import _fastpack
from fastpack.arguments.checks import folder_of
from fastpack.arguments.urls import is_url
from fastpack.dataset.packed_files import RemoteAccess, RemoteFiles
from fastpack.options.storage import Storage, storage_of
from fastpack.storage.remote_options import choose_storage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastpack.types import JsonValue, StrPath

__all__ = ["GroupCount", "JobStatus", "status"]


_READ_ONLY: Final = ("https://", "http://", "hf://")
"""The beginnings of URLs of folders that hold nothing but finished jobs."""


class GroupCount(NamedTuple):
    """The number of groups in each state of a step.

    Attributes:
        step: `rows`, or before it `tokens`, where a number of documents is set aside for validation.
        groups: All groups.
        done: The groups that have finished the step.
        running: The groups that a process works on.
        stopped: The groups that a process began, and ended before it had finished them. Another run resumes them.
        failed: The stopped groups that ended with an error.
        waiting: The groups that no process has begun.
    """

    step: str
    groups: int
    done: int
    running: int
    stopped: int
    failed: int
    waiting: int


class JobStatus(NamedTuple):
    """The state of a job in a folder; `print` shows it.

    Attributes:
        state: `finished`, `running` or `stopped`.
        started: When the job began, as ISO 8601 without a zone; `None` for a finished one.
        files: The number of input files.
        bytes: Their bytes, counted once for each reading.
        documents: The documents whose tokens are made; `None` for a finished job, one with groups, and one in a bucket.
        share: The share of the bytes of the inputs whose tokens are made, at least: files that are done, and of a file that is not
            what is known; `None` where `documents` is, and where sources have a limit, a share, or are repeated.
        shards: The shards that are written; `None` where `documents` is.
        steps: The groups in each step, in the order of the steps; empty for a job without groups.
        failed: The errors of groups that failed, by the number of the group: the first 20.
    """

    state: str
    started: str | None
    files: int
    bytes: int
    documents: int | None
    share: float | None
    shards: int | None
    steps: tuple[GroupCount, ...]
    failed: dict[int, str]

    def to_dict(self) -> dict[str, JsonValue]:
        """The state as JSON values."""
        steps: list[JsonValue] = [dict(step._asdict()) for step in self.steps]
        failed: dict[str, JsonValue] = {str(group): error for group, error in self.failed.items()}
        return {**self._asdict(), "steps": steps, "failed": failed}

    def __str__(self) -> str:
        """The page that `print` shows."""
        from fastpack.report.display.pages import status_page  # noqa: PLC0415  needed where it is shown

        return status_page(self)


def status(folder: StrPath, *, storage: Mapping[str, str] | Storage | None = None) -> JobStatus:
    """The state of the job in a folder: its progress, running, stopped or failed.

    Any process may ask, while others work.

    Args:
        folder: The `output` of `pack_dir`; also a URL of one in remote storage.
        storage: Options of remote storage, or a `Storage`, as for `pack_dir`.

    Returns:
        The state; `print` it.

    Raises:
        OutputError: The folder holds no job.
        InputNotFoundError: There is no such folder.

    Examples:
        >>> import fastpack, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     report = fastpack.pack_dir(
        ...         "examples/*.jsonl",
        ...         folder,
        ...         tokenizer="examples/tokenizer",
        ...         max_length=512,
        ...         groups="1KB",
        ...     )
        ...     found = fastpack.status(folder)
        >>> found.state, found.steps[0].done == found.steps[0].groups > 1
        ('finished', True)
    """
    name = folder_of("folder", folder, takes_urls=True)
    options, native = storage_of(storage, "status").options, None
    if is_url(name):
        native = choose_storage((), Storage(options))
        if name.lower().startswith(_READ_ONLY):
            return _parse_status(RemoteFiles(name, RemoteAccess(options)).status())
    return _parse_status(_fastpack.status(name, native))


def _parse_status(text: str) -> JobStatus:
    found = json.loads(text)
    steps = tuple(GroupCount(**step) for step in found.pop("steps"))
    return JobStatus(**{**found, "steps": steps, "failed": dict(found["failed"])})
