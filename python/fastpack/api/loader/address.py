"""`Address`: where a server is; and `Listener`: the socket on which it listens, with the proof that the socket is its own."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import stat
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

from fastpack.errors import FastpackError, OptionError, OutputError, StorageError

if TYPE_CHECKING:
    from fastpack._types import JsonValue

__all__ = ["Address", "Listener"]

_LONGEST: Final = 107 if sys.platform.startswith("linux") else 103
"""The most bytes of a socket's path."""

_QUIET: Final = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 20, "TCP_KEEPCNT": 3}
"""Seconds without traffic before the system asks whether the other machine is there, between questions, and their number."""

_MOST: Final = 4096
"""The most bytes of a lock that are read."""


class Address(NamedTuple):
    """The address of a server.

    Attributes:
        family: The family of its socket.
        place: What a socket binds or connects to.
    """

    family: socket.AddressFamily
    place: str | tuple[str, int]

    @classmethod
    def of(cls, text: object, option: str) -> Address:
        """Reads `unix:PATH` or `tcp://HOST:PORT`."""
        if isinstance(text, str) and "\0" not in text and _is_encodable(text):
            if text.startswith("unix:") and len(text) > len("unix:") and hasattr(socket, "AF_UNIX"):
                path = text.removeprefix("unix:")
                length = len(os.fsencode(path))
                if length > _LONGEST:
                    message = f"has a path of {length:,} bytes, and that of a socket has at most {_LONGEST}; choose a shorter one"
                    raise OptionError(message, option)
                return cls(socket.AF_UNIX, path)
            host, colon, port = text.removeprefix("tcp://").rpartition(":")
            decimal = port.isascii() and port.isdecimal() and len(port) <= len(str(1 << 16))
            if text.startswith("tcp://") and host and colon and decimal and int(port) < 1 << 16:
                return cls(socket.AF_INET, (host, int(port)))
        message = f"must be unix:PATH or tcp://HOST:PORT, not `{text}`"
        raise OptionError(message, option)

    def open(self) -> socket.socket:
        """A socket of the family. One of TCP notices a machine that has gone."""
        opened = socket.socket(self.family, socket.SOCK_STREAM)
        if self.family == socket.AF_INET:
            _tune(opened)
        return opened


def _is_encodable(text: str) -> bool:
    """Whether the system takes an address: as a path, or as the name of a host."""
    try:
        os.fsencode(text)
        if text.startswith("tcp://"):
            text.removeprefix("tcp://").rpartition(":")[0].encode("idna")
    except UnicodeError:
        return False
    return True


def _tune(peer: socket.socket) -> None:
    """Lets the system ask whether the other machine is there while nothing is sent, and send acknowledgements at once."""
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _QUIET.items():
        if hasattr(socket, name):
            peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class Listener:
    """A socket that listens.

    Attributes:
        address: Its address, as clients connect to it.
    """

    def __init__(self, address: Address, to: str) -> None:
        """Binds and listens.

        Raises:
            OutputError: Another server listens there, or something of others is there.
            StorageError: The system refuses.
        """
        self._socket = address.open()
        self._lock: _Lock | None = None
        try:
            if address.family == socket.AF_INET:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                self._socket.bind(address.place)
                host, port = self._socket.getsockname()
                self.address = f"tcp://{host}:{port}"
            else:
                self._lock = _Lock(str(address.place))
                self._lock.remove_own()
                before = os.umask(0o177)
                try:
                    self._socket.bind(address.place)
                finally:
                    os.umask(before)
                self._lock.record()
                self.address = f"unix:{address.place}"
            self._socket.listen()
        except OSError as failed:
            self.close()
            if isinstance(failed, FastpackError):
                raise
            raise StorageError(failed.errno, failed.strerror or str(failed), to) from failed

    def accept(self) -> socket.socket:
        """The next connection."""
        peer, _ = self._socket.accept()
        if peer.family == socket.AF_INET:
            _tune(peer)
        return peer

    def close(self) -> None:
        """Ends the listening, and removes the socket."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()


class _Lock:
    """The file beside a socket that a server holds locked as long as it lives, and that names the socket it made.

    What it names may be removed, by its server and by the next one; nothing else is.
    """

    def __init__(self, path: str) -> None:
        """Takes the lock.

        Raises:
            OutputError: A server holds it, or the file is none of fastpack's.
        """
        self._socket, self._path = path, f"{path}.lock"
        self._own: JsonValue = None
        while True:
            self._file, is_new = self._opened()
            try:
                found = self._taken()
                is_there = _identity(os.fstat(self._file)) == _identity_at(self._path)
                if is_there and not is_new and found is None:
                    raise _in_the_way(self._path)  # noqa: TRY301  the file is closed for each reason
            except BaseException:
                os.close(self._file)
                raise
            if is_there:
                break
            os.close(self._file)  # the server before has removed it meanwhile
        self._own = None if found is None else found.get("socket")
        self._write()

    def _opened(self) -> tuple[int, bool]:
        """The open file, and whether it was made."""
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        while True:
            with contextlib.suppress(FileExistsError):
                return os.open(self._path, flags | os.O_CREAT | os.O_EXCL, 0o600), True
            with contextlib.suppress(FileNotFoundError):
                try:
                    file = os.open(self._path, flags)
                except OSError as failed:
                    if failed.errno in {errno.ELOOP, errno.ENXIO, errno.EISDIR}:
                        raise _in_the_way(self._path) from failed
                    raise
                if not stat.S_ISREG(os.fstat(file).st_mode):
                    os.close(file)
                    raise _in_the_way(self._path)
                return file, False

    def _taken(self) -> dict[str, JsonValue] | None:
        """Locks the file; returns what is in it, `None` if that is none of fastpack's."""
        import fcntl  # noqa: PLC0415  where there are Unix sockets

        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as held:
            message = "has a server that listens already"
            raise OutputError(errno.EADDRINUSE, message, self._socket) from held
        try:
            found = json.loads(os.pread(self._file, _MOST, 0))
        except (ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) and found.get("fastpack") == "stream server" else None

    def _write(self) -> None:
        content = json.dumps({"fastpack": "stream server", "socket": self._own}).encode()
        os.pwrite(self._file, content, 0)
        os.ftruncate(self._file, len(content))

    def remove_own(self) -> None:
        """Removes the socket of a server that was killed.

        Raises:
            OutputError: Something else is there.
        """
        found = _identity_at(self._socket)
        if found is None:
            return
        if found != self._own:
            raise _in_the_way(self._socket)
        os.unlink(self._socket)  # noqa: PTH108  a path as the socket has it

    def record(self) -> None:
        """Notes the socket that was made."""
        self._own = _identity_at(self._socket)
        self._write()

    def release(self) -> None:
        """Removes the socket that was made, and the file."""
        with contextlib.suppress(OSError):
            if self._own is not None and _identity_at(self._socket) == self._own:
                os.unlink(self._socket)  # noqa: PTH108  a path as the socket has it
        with contextlib.suppress(OSError):
            if _identity(os.fstat(self._file)) == _identity_at(self._path):
                os.unlink(self._path)  # noqa: PTH108  a path as the socket has it
        os.close(self._file)


def _identity(found: os.stat_result) -> list[JsonValue]:
    """What no other file has: a number that is used again has another time."""
    time = found.st_mtime_ns if stat.S_ISSOCK(found.st_mode) else 0
    return [found.st_dev, found.st_ino, time]


def _identity_at(path: str) -> JsonValue:
    """The identity of what lies at a path, if anything does."""
    try:
        return _identity(os.lstat(path))
    except FileNotFoundError:
        return None


def _in_the_way(path: str) -> OutputError:
    message = "is in the way of the socket, and no server of fastpack has left it; remove it, or choose another path"
    return OutputError(errno.EEXIST, message, path)
