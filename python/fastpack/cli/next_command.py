"""The command to type after another one."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from fastpack._fastpack import one_line
from fastpack.arguments.functions import typed_place
from fastpack.arguments.urls import is_url
from fastpack.cli.flags import FLAGS
from fastpack.options import OPTIONS
from fastpack.options.storage import Storage
from fastpack.options.value import Value, nondefault_fields

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fastpack.report.scan import ScanReport

__all__ = ["after_pack", "after_scan"]

_OUTPUT: Final = "packed"
"""The folder of a command that has still to be run."""

_HANDLED: Final = frozenset(
    {"files", "tokenizer", "max_length", "sample", "progress", "storage.token", "storage.options"}
)
"""The options of a scan that are spelled here, mean nothing when files are packed, or are secret."""

_COUNTED: Final = frozenset(
    {
        "empty",
        "filtered",
        "no_trained_token",
        "not_drawn",
        "remainder",
        "tail",
        "too_long",
        "too_many_pictures",
        "truncated",
    }
)
"""The reasons that are counted whatever `on_bad_record` is. At a record with another one, packing stops unless it skips."""

_YES_NO: Final = {True: "yes", False: "no"}
"""The spelling of truths in flags that take words."""


def after_scan(arguments: Mapping[str, object], scan: ScanReport) -> str:
    """The command that packs the scanned files, into the shortest rows that lose nothing; empty if it is not known.

    It skips bad records if there are any: a scan counts them, and packing would stop at the first.
    """
    fits = sorted(scan.fits, key=lambda fit: (fit.lost_tokens, fit.max_length))
    files = arguments.get("files")
    if (
        not scan.documents
        or not fits
        or not isinstance(files, list)
        or not all(isinstance(file, str) for file in files)
    ):
        return ""
    words = ["fastpack", "pack", *files, "-o", _OUTPUT]
    if isinstance(arguments.get("tokenizer"), str):
        words += ["-t", str(arguments["tokenizer"])]
    words += ["-m", str(fits[0].max_length)]
    flags = {flag.option: flag for group in FLAGS.values() for flag in group}
    for name, value in _plain(arguments):
        if name in _HANDLED:
            continue
        flag = flags.get(name)
        if callable(value):
            value = typed_place(value)  # noqa: PLW2901  the words of the command line, in place of their meaning
        if flag is None or not isinstance(value, (str, int, float)):
            return ""
        if flag.switch or flag.on:
            words.append(flag.spelled(value))
        else:
            words += [
                flag.names[-1],
                _YES_NO.get(value, str(value)) if isinstance(value, bool) else str(value),
            ]
    if scan.lost.keys() - _COUNTED:
        words += ["--on-bad-record", "skip"]
    return _copied(words)


def _plain(arguments: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """The options of a call, each field of a value as the flag that gives it."""
    for name, value in arguments.items():
        if not isinstance(value, Value):
            yield name, value
            continue
        if len(OPTIONS[name].kinds) > 1:
            yield name, value.kind
        for field in nondefault_fields(value):
            yield name if field == value.plain else f"{name}.{field}", getattr(value, field)


def after_pack(arguments: Mapping[str, object]) -> str:
    """The command that shows a row of the folder that was packed; empty if it takes credentials, which are not shown."""
    if is_url(str(arguments["output"])) and _has_options(arguments.get("storage")):
        return ""
    return _copied(["fastpack", "inspect", str(arguments["output"]), "--row", "0"])


def _has_options(storage: object) -> bool:
    return bool(storage.options if isinstance(storage, Storage) else storage)


def _copied(words: Sequence[str]) -> str:
    """A command as it is typed; empty if a terminal would show it otherwise, as it does with control characters."""
    command = shlex.join(words)
    return command if one_line(command) == command else ""
