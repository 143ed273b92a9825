"""`Service`: the server of Arrow Flight that carries the messages between a stream's server and its ranks.

gRPC starts with it, and does not survive a fork, so nothing here is imported before a process serves.
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import os
import socket
import ssl
import stat
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import flight

from fastpack.arguments.checks import shown
from fastpack.errors import FastpackError, OptionError, StorageError
from fastpack.streaming.serving.address import Address, SocketFolder
from fastpack.streaming.serving.messages import HEADER, token_header

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Service"]

_PATIENCE: Final = 10.0
"""Seconds for a client to send the secret, and for calls to end."""

_GRACE: Final = 0.2
"""Seconds in which clients may end their calls before their connections are cut."""

_LOOK: Final = 0.5
"""Seconds between two checks of the connected clients."""

_STRANGERS: Final = 64
"""The most connections that have not said the secret yet. For further ones the eldest are closed."""

_OPEN: Final = Path("/dev/fd")
"""The open files of this process, on Linux and macOS."""


class _SecretCheck(flight.ServerMiddlewareFactory):
    """Refuses calls without the secret before anything of them is read."""

    def __init__(self, token: str | None, reason: str) -> None:
        self._header, self._reason = None if token is None else token_header(token).encode(), reason

    def start_call(self, info: flight.CallInfo, headers: dict[str, list[str] | list[bytes]]) -> None:  # noqa: ARG002
        tokens = [value.encode() if isinstance(value, str) else value for value in headers.get(HEADER, [])]
        if self._header is not None and not (
            len(tokens) == 1 and hmac.compare_digest(tokens[0], self._header)
        ):
            raise flight.FlightUnauthenticatedError(self._reason)


class Service(flight.FlightServerBase):
    """Serves calls of `DoExchange`, each by a function in a thread of its own. It listens from its beginning to `end`."""

    def __init__(
        self,
        to: Address,
        token: str | None,
        reason: str,
        exchange: Callable[[flight.MetadataRecordBatchReader, flight.MetadataRecordBatchWriter], None],
        *,
        certificate: str | None = None,
        key: str | None = None,
    ) -> None:
        """Listens.

        Args:
            to: The address.
            token: The secret that clients must know.
            reason: The error for clients that do not know it.
            exchange: Serves a call to its end, by its reader and its writer.
            certificate: The file of the certificate of `tls://`.
            key: The file of its key.

        Raises:
            OptionError: The certificate or the key is none.
            OutputError: Another server listens there, or something of others is there.
            StorageError: The system refuses.
        """
        pair = _pair(to, certificate, key)
        self._exchange, self._known, self._ended = exchange, list[str](), threading.Event()
        self._folder: SocketFolder | None = None
        try:
            if to.scheme == "unix":
                self._folder = SocketFolder(to.host)
            else:
                to.try_out(listens=True, seconds=_PATIENCE)
            self._bound = "" if self._folder is None else self._folder.bound
            super().__init__(
                to.location(self._bound),
                tls_certificates=pair,
                middleware={"secret": _SecretCheck(token, reason)},
            )
            if self._folder is not None:
                self._folder.publish()
        except (OSError, pa.ArrowException) as failed:
            if self._folder is not None:
                self._folder.release()
            if isinstance(failed, FastpackError):
                raise
            number, text = (failed.errno, failed.strerror) if isinstance(failed, OSError) else (None, None)
            raise StorageError(number or errno.EADDRNOTAVAIL, text or shown(str(failed)), str(to)) from failed
        self.address = to._replace(port=max(0, self.port))
        """The address, with the port that the system chose for port 0."""
        if self._folder is None:
            threading.Thread(target=self._watch, daemon=True, name="fastpack-watch").start()

    def do_exchange(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,  # noqa: ARG002
        reader: flight.MetadataRecordBatchReader,
        writer: flight.MetadataRecordBatchWriter,
    ) -> None:
        """Serves a call of a client that knows the secret."""
        peer = unquote(context.peer())
        self._known.append(peer)
        try:
            self._exchange(reader, writer)
        finally:
            self._known.remove(peer)

    def end(self) -> None:
        """Ends all calls, and removes the socket.

        Flight has no way to end a call whose client does not answer, and would wait for it (apache/arrow issue 43819), so
        connections are cut.
        """
        if self._ended.is_set():
            return
        self._ended.set()
        ending = threading.Thread(target=self.shutdown, daemon=True, name="fastpack-end")
        ending.start()
        ending.join(_GRACE)
        until = time.monotonic() + _PATIENCE
        while ending.is_alive() and time.monotonic() < until:
            for peer, _ in self._connected():
                with peer, contextlib.suppress(OSError):
                    peer.shutdown(socket.SHUT_RDWR)
            ending.join(_GRACE)
        if self._folder is not None:
            self._folder.release()

    def _watch(self) -> None:
        """Cuts the connections of strangers: those of more than `_PATIENCE` seconds, and the eldest of more than `_STRANGERS`."""
        since: dict[str, float] = {}
        while not self._ended.wait(_LOOK):
            now, connected = time.monotonic(), list(self._connected())
            since = {name: since.get(name, now) for _, name in connected if name not in self._known}
            surplus = sorted(since, key=lambda name: since[name])[: max(0, len(since) - _STRANGERS)]
            for peer, name in connected:
                with peer, contextlib.suppress(OSError):
                    if name in surplus or now - since.get(name, now) > _PATIENCE:
                        peer.shutdown(socket.SHUT_RDWR)

    def _connected(self) -> Iterator[tuple[socket.socket, str]]:
        """The sockets of clients, each once more, and the name that Flight has for the client."""
        own = f"{self.address.host}/{self._bound}"
        for entry in list(_OPEN.iterdir()) if _OPEN.is_dir() else ():
            with contextlib.suppress(OSError):
                number = int(entry.name)
                if not stat.S_ISSOCK(os.fstat(number).st_mode):
                    continue
                peer = socket.socket(fileno=os.dup(number))
                with contextlib.ExitStack() as closing:
                    closing.push(peer)
                    here, there = peer.getsockname(), peer.getpeername()
                    if here == own if self._folder is not None else here[1:2] == (self.address.port,):
                        closing.pop_all()
                        yield peer, _name_of(there)


def _name_of(peer: object) -> str:
    """The name of a client over TCP, as gRPC has it."""
    if not isinstance(peer, tuple):
        return ""
    host, port, *_ = peer
    host = host.removeprefix("::ffff:")  # gRPC listens by IPv6 for both
    return f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"


def _pair(address: Address, certificate: str | None, key: str | None) -> list[tuple[str, str]] | None:
    """The certificate and the key, as Flight takes them."""
    for option, path in (("certificate", certificate), ("key", key)):
        if (path is not None) != (address.scheme == "tls"):
            wanted = "must be given, as a file of PEM, to serve at tls://HOST:PORT"
            raise OptionError(wanted if path is None else "goes with an address of tls://HOST:PORT", option)
    if certificate is None or key is None:
        return None
    try:
        # gRPC does not tell which of the two files is wrong. Without a password OpenSSL would ask for one.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
        return [(address.certificates(certificate), Path(key).read_text(encoding="ascii"))]
    except (OSError, ValueError) as refused:
        if isinstance(refused, FastpackError):
            raise
        message = f"holds no certificate of PEM that goes with `key`: {shown(str(refused))}"
        raise OptionError(message, "certificate") from refused
