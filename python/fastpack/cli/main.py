"""`main`: runs a command line, and reports errors in one line."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from typing import TYPE_CHECKING, Final, NoReturn

from fastpack.cli.actions import FailedOutput
from fastpack.cli.commands import COMMANDS
from fastpack.cli.flags import ALL, with_values
from fastpack.cli.messages import in_flags
from fastpack.cli.parser import LOST, USAGE, flags_of, parse, parser
from fastpack.cli.printing import write
from fastpack.errors import FastpackError, LossError, OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    from fastpack.options.option import Flag

__all__ = ["main"]

_OK: Final = 0
_FAILED: Final = 1
_INTERRUPTED: Final = 128 + signal.SIGINT
_TERMINATED: Final = 128 + signal.SIGTERM


class _Terminated(BaseException):
    """Raised at SIGTERM: unwinds like Ctrl-C, so that the run cleans up."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code."""
    flags: list[Flag] = []
    try:
        signal.signal(signal.SIGTERM, _terminate)
        if "_ARGCOMPLETE" in os.environ:
            _complete()
        options = parse(sys.argv[1:] if arguments is None else arguments)
        command = COMMANDS[str(options.pop("command"))]
        flags = flags_of(command)
        as_json = bool(options.pop("json", False))
        function = command.function()
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            if "config" not in options and "like" not in options:
                options = with_values(options, call=function.__name__)
            if "sources" in options:
                options = _with_sources(options)
            shown = command.act(function, options) if command.act else function(**options)
        if isinstance(shown, FailedOutput):
            write(shown.shown, as_json=as_json)
            raise shown.error
        write(shown, as_json=as_json)
    except BrokenPipeError:
        return _OK  # the reader, such as `head`, has seen enough
    except (FastpackError, OSError) as failed:
        return _complain(in_flags(failed, flags), _exit_code(failed))
    except KeyboardInterrupt:
        return _complain("interrupted", _INTERRUPTED)
    except _Terminated:
        return _complain("terminated", _TERMINATED)
    return _OK


def _with_sources(options: dict[str, object]) -> dict[str, object]:
    """The options with files that have options of their own behind the others."""
    others = {name: value for name, value in options.items() if name not in {"sources", "paths", "files"}}
    listed = [options.get(name) for name in ("paths", "files", "sources")]
    return {**others, "files": [file for files in listed if isinstance(files, list) for file in files]}


def _complete() -> None:
    """Completes the command line for a shell."""
    try:
        import argcomplete  # noqa: PLC0415  an extra, and for shells alone
    except ImportError:
        return
    argcomplete.autocomplete(parser(complete=False, topic=ALL))


def _exit_code(failed: BaseException) -> int:
    if isinstance(failed, OptionError):
        return USAGE
    return LOST if isinstance(failed, LossError) else _FAILED


def _complain(message: str, code: int) -> int:
    """Prints an error in one line."""
    sys.stderr.write(f"fastpack: {message}\n")
    return code


def _warn(message: Warning | str, *_of: object, **_at: object) -> None:
    """Prints a warning in one line, without the place in the code."""
    sys.stderr.write(f"fastpack: warning: {message}\n")


def _terminate(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise _Terminated
