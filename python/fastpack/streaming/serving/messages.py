"""The messages of the loader process: JSON beside the record batches of a `DoExchange` of Arrow Flight.

A message is a list: its kind and its content. That of a table has bytes behind it. The client begins with `hello`. The server answers

* with `pulse` at once, and again while it waits for the client,
* with `welcome`,
* for each table with record batches and, beside the last one, `table`: the name of the connection, the step, and the metadata of the
  schema, in which the state is,
* with `end` or `error`.

The client answers each table that it took with `acknowledged`: the name of the connection and the step.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from typing import TYPE_CHECKING, Any, Final

import fastpack.errors as known
from fastpack.arguments.checks import shown
from fastpack.errors import FastpackError
from fastpack.streaming.serving.protocol import LARGEST, Hello, StreamPosition, Welcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from fastpack.types import JsonValue

__all__ = [
    "ADDRESS",
    "HEADER",
    "PIECE",
    "TOKEN",
    "ForeignError",
    "content_of",
    "error_message",
    "error_of",
    "hello_of",
    "message_of",
    "metadata_of",
    "read_message",
    "table_message",
    "token_header",
    "welcome_of",
]

ADDRESS: Final = "FASTPACK_STREAM"
"""The environment variable with the address of the server."""

TOKEN: Final = "FASTPACK_STREAM_TOKEN"  # noqa: S105  the name of a variable
"""The environment variable with the secret that server and clients share."""

HEADER: Final = "authorization"
"""The header of a call that tells that the client knows the secret."""

PIECE: Final = 64 << 20
"""Bytes of a record batch, beyond which a table is sent in several: gRPC takes less than 2 GiB at once."""

_LONGEST: Final = 1 << 16
"""The most characters of an error's argument."""


class ForeignError(FastpackError):
    """The other end sent something else than a message."""

    def __init__(self) -> None:
        """Has always the same message."""
        super().__init__("the other end of the connection is no fastpack stream")


def token_header(token: str) -> str:
    """The value of the header for a secret: its hash, since a secret may be long or hold any letter."""
    return f"Bearer {hashlib.sha256(os.fsencode(token)).hexdigest()}"


def message_of(kind: str, *content: object) -> bytes:
    """A message."""
    return json.dumps([kind, *content]).encode()


def table_message(connection: str, step: int, metadata: Mapping[bytes, bytes]) -> bytes:
    """The message of a table. The metadata is behind it as it is, since to quote a state takes as long as to send the table."""
    sizes = [(key.decode(), len(value)) for key, value in metadata.items()]
    return b"\n".join([message_of("table", connection, step, sizes), b"".join(metadata.values())])


def metadata_of(sizes: list[Any], values: bytes) -> dict[bytes, bytes]:  # type: ignore[explicit-any]  # of JSON
    """The metadata of a schema."""
    ends = itertools.accumulate(size for _, size in sizes)
    return {str(key).encode(): values[end - size : end] for (key, size), end in zip(sizes, ends, strict=True)}


def read_message(message: pa.Buffer) -> tuple[str, list[Any]]:  # type: ignore[explicit-any]  # of JSON, and bytes
    """The kind and the content of a message.

    Raises:
        ForeignError: It is none.
    """
    try:
        if message.size > LARGEST:
            raise ValueError  # noqa: TRY301  one message for all
        text, _, behind = message.to_pybytes().partition(b"\n")
        kind, *content = json.loads(text)
        return str(kind), [*content, behind] if behind else content
    except (ValueError, TypeError, RecursionError) as refused:
        raise ForeignError from refused


def content_of(content: list[JsonValue], *types: type | tuple[type, ...]) -> list[Any]:  # type: ignore[explicit-any]
    """The content, if it has these types; numbers are whole ones from 0.

    Raises:
        ForeignError: It has others.
    """
    for value, expected in itertools.zip_longest(content, types, fillvalue=()):
        fits = isinstance(value, expected) and (not isinstance(value, bool) or expected is bool)
        if not fits or (isinstance(value, int) and value < 0):
            raise ForeignError
    return content


def hello_of(content: list[JsonValue]) -> Hello:
    """The `Hello` of a message.

    Raises:
        ForeignError: It is none.
    """
    hello = Hello(*content_of(content, str, int, int, int, (list, type(None)), bool, bool))
    return hello if hello.place is None else hello._replace(place=_place_of(hello.place))  # type: ignore[arg-type]  # a list


def welcome_of(content: list[JsonValue]) -> Welcome:
    """The `Welcome` of a message.

    Raises:
        ForeignError: It is none.
    """
    connection, place = content_of(content, str, list)
    return Welcome(connection, _place_of(place))


def _place_of(content: list[JsonValue]) -> StreamPosition:
    """A place, as JSON has it."""
    return StreamPosition(*content_of(content, int, (str, type(None))))


def error_message(error: BaseException) -> bytes:
    """An error as a message: its class and arguments."""
    arguments: list[object] = list(error.args)
    if isinstance(error, OSError):
        arguments = [error.errno, error.strerror, error.filename]
    arguments = [it[:_LONGEST] if isinstance(it, str) else it for it in arguments]
    try:
        return message_of("error", type(error).__name__, arguments)
    except (TypeError, ValueError):
        return message_of("error", type(error).__name__, [str(error)[:_LONGEST]])


def error_of(content: list[JsonValue]) -> FastpackError:
    """The error of a message, with its class where it is one of fastpack's."""
    kind, arguments = content_of(content, str, list)
    found: type[FastpackError] | None = getattr(known, kind, None) if kind in known.__all__ else None
    try:
        if found is not None:
            return found(*arguments)
    except TypeError:
        pass
    return FastpackError(f"{shown(kind)}: {arguments}")
