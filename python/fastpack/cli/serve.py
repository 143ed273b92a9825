"""The actions of `fastpack stream` and `fastpack index`: a stream for other processes, and the count of its rows."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any, Final

from fastpack.cli.sources import with_named_sources
from fastpack.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastpack.cli.flags import Function
    from fastpack.streaming.stream import PackStream

__all__ = ["index", "stream"]

_LONGEST_FOLDER: Final = 64
"""The most bytes of the path of a folder in which a folder with a socket is made."""


def index(function: Function, parsed: dict[str, object]) -> object:
    """Counts the rows of each lane, and keeps their number."""
    opened: PackStream = function(**with_named_sources(parsed))  # type: ignore[assignment]  # fastpack.stream
    size = opened.index()
    return {"rows": size.rows, "tokens": size.tokens, "steps": size.steps}


def stream(function: Function, parsed: dict[str, object]) -> object:
    """Serves a stream until its ranks have had all tables, or its trainer ends."""
    to, trainer = parsed.pop("to", None), parsed.pop("trainer", None)
    files = {name: parsed.pop(name, None) for name in ("state", "certificate", "key")}
    options = with_named_sources(parsed)
    if to == "-" and trainer is None and set(files.values()) == {None}:
        _write(function(**options))  # type: ignore[arg-type]  # fastpack.stream
        return None
    if not isinstance(to, str) and not isinstance(trainer, list):
        reason = "must be given: `unix:PATH`, `tcp://HOST:PORT`, `tls://HOST:PORT`, or `-` for standard output; or a command after `--`"
        raise OptionError(reason, "to")
    if to == "-":
        reason = "is standard output, which has no state, certificate or trainer; serve at `unix:PATH`"
        raise OptionError(reason, "to")
    from fastpack.streaming.server import StreamServer  # noqa: PLC0415  few command lines serve

    # The arguments with their defaults, as the function was given them.
    arguments = function(**options).arguments()  # type: ignore[attr-defined]  # fastpack.stream
    with contextlib.ExitStack() as stack:
        address = to if isinstance(to, str) else f"unix:{_short_folder(stack)}/stream"
        named = {name: path for name, path in files.items() if isinstance(path, str)}
        with StreamServer(arguments, address, **named) as server:
            if isinstance(trainer, list):
                code = _run(trainer, server.address)
                server.close()
                server.check()
                raise SystemExit(code)
            sys.stderr.write(f"fastpack: serving at {server.address}\n")
            sys.stderr.flush()
            server.wait()
    return None


def _short_folder(stack: contextlib.ExitStack) -> str:
    """A folder for a socket, whose path must be short, which that of temporary files may not be."""
    usual = tempfile.gettempdir()
    above = None if len(os.fsencode(usual)) <= _LONGEST_FOLDER else "/tmp"  # noqa: S108  `mkdtemp` makes a folder in it
    return stack.enter_context(tempfile.TemporaryDirectory(prefix="fastpack-", dir=above))


def _write(tables: PackStream) -> None:
    """Writes the tables to standard output as an Arrow IPC stream, without states."""
    import pyarrow as pa  # noqa: PLC0415  importing fastpack is to cost nothing

    writer = None
    out: Any = sys.stdout.buffer  # type: ignore[explicit-any]  # what pyarrow calls an IOBase
    with tables, contextlib.ExitStack() as closing:
        for table in tables:
            plain = table.replace_schema_metadata(None)
            if writer is None:
                writer = closing.enter_context(pa.ipc.new_stream(out, plain.schema))
            writer.write_table(plain)
    out.flush()


def _run(command: Sequence[str], address: str) -> int:
    """Runs the trainer with the address in its environment, and returns its exit code."""
    from fastpack.streaming.serving.messages import ADDRESS  # noqa: PLC0415

    try:
        process = subprocess.Popen(list(command), env=os.environ | {ADDRESS: address})  # noqa: S603  what the user typed
    except OSError as failed:
        reason = f"cannot run `{command[0]}`: {failed.strerror}"
        raise OptionError(reason, "trainer") from failed
    try:
        code = process.wait()
    except BaseException:
        with contextlib.suppress(OSError):
            process.send_signal(signal.SIGTERM)
        process.wait()
        raise
    return code if code >= 0 else 128 - code
