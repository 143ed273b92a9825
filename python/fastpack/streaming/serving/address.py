"""`Address`: where a server is; and `SocketFolder`: the folder of its socket, with the proof that the folder is its own."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import re
import secrets
import socket
import stat
import sys
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

from fastpack.arguments.checks import local_path, shown
from fastpack.errors import OptionError, OutputError

__all__ = ["Address", "SocketFolder"]

_SOCKET: Final = "socket"
"""The name of the socket in its folder."""

_LONGEST: Final = (107 if sys.platform.startswith("linux") else 103) - len("/01234567")
"""The most bytes of the path of a folder in which a socket is bound: that of a socket, without its name."""


class Address(NamedTuple):
    """The address of a server.

    Attributes:
        scheme: `unix`, `tcp` or `tls`.
        host: The host; of `unix` the path of the folder.
        port: The port.
    """

    scheme: str
    host: str
    port: int = 0

    @classmethod
    def of(cls, text: object, option: str) -> Address:
        """Reads `unix:PATH`, `tcp://HOST:PORT` or `tls://HOST:PORT`."""
        address = cls._parsed(text) if isinstance(text, str) and _is_encodable(text) else None
        if address is None:
            message = f"must be unix:PATH or tcp://HOST:PORT, or tls://HOST:PORT where it leaves this machine, not `{text}`"
            raise OptionError(message, option)
        length = len(os.fsencode(address.host))
        if address.scheme == "unix" and length > _LONGEST:
            message = f"has a path of {length:,} bytes, and that of a socket's folder has at most {_LONGEST}; choose a shorter one"
            raise OptionError(message, option)
        if address.scheme == "tcp" and not _is_this_machine(address.host):
            message = f"leaves this machine unencrypted at `{text}`; give `tls://HOST:PORT`, with a certificate and its key on the server"
            raise OptionError(message, option)
        return address

    @classmethod
    def _parsed(cls, text: str) -> Address | None:
        """The address in a text; `None` if it has none."""
        scheme, _, rest = text.partition(":")
        if scheme == "unix" and rest and hasattr(socket, "AF_UNIX"):
            return cls(scheme, os.path.abspath(rest))  # noqa: PTH100  a path as the socket has it
        found = re.fullmatch(r"//(.+):([0-9]{1,5})", rest, re.DOTALL)
        if scheme not in {"tcp", "tls"} or found is None or int(found[2]) >= 1 << 16:
            return None
        return cls(scheme, found[1], int(found[2]))

    def __str__(self) -> str:
        """The address, as `of` reads it."""
        return f"unix:{self.host}" if self.scheme == "unix" else f"{self.scheme}://{self.host}:{self.port}"

    def location(self, name: str = _SOCKET) -> str:
        """The URI by which Flight knows the address, or the socket of a name in the folder."""
        if self.scheme == "unix":
            return f"grpc+unix://{quote(quote(os.fsencode(f'{self.host}/{name}')))}"  # Arrow decodes it, and gRPC once more
        return f"grpc+{self.scheme}://{self.host}:{self.port}"

    def certificates(self, path: object) -> str:
        """The text of a file of certificates that vouch for the server at the address.

        Raises:
            OptionError: It is no file of certificates, or the address needs none.
        """
        file = local_path("certificate", path, "the path of a file")
        if self.scheme != "tls":
            message = "goes with an address of tls://HOST:PORT"
            raise OptionError(message, "certificate")
        try:
            return Path(file).read_text(encoding="ascii")
        except (OSError, UnicodeError) as failed:
            message = f"is no file of PEM: `{file}`: {shown(str(failed))}"
            raise OptionError(message, "certificate") from failed

    def try_out(self, *, listens: bool, seconds: float) -> None:
        """Connects, or listens, without gRPC: its errors are long.

        Raises:
            OSError: Nobody listens there, or nobody can.
        """
        if self.scheme == "unix":
            with socket.socket(socket.AF_UNIX) as peer:
                peer.settimeout(seconds)
                peer.connect(f"{self.host}/{_SOCKET}")
            return
        place = self.host.strip("[]"), self.port
        if not listens:
            socket.create_connection(place, seconds).close()
            return
        family, kind, *_, bound = socket.getaddrinfo(*place, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            peer.bind(bound)
            peer.listen()


def _is_encodable(text: str) -> bool:
    """True if an address can be a path, or the name of a host, for the system."""
    try:
        if "\0" in text:
            return False
        os.fsencode(text)
        if not text.startswith("unix:"):
            text.partition("://")[2].rpartition(":")[0].encode("idna")
    except UnicodeError:
        return False
    return True


def _is_this_machine(host: str) -> bool:
    """True if a host is on the loopback of this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class SocketFolder:
    """A folder of mode 700 that a server makes, and holds locked while it lives. In it lies the socket.

    An empty file beside the socket has a name by which a later server knows the socket that a killed one left. Nothing else
    is removed: gRPC would remove any socket of the name that it binds, and when it ends once more, so it binds another name.
    """

    def __init__(self, path: str) -> None:
        """Makes the folder, or takes that of a server that was killed.

        Raises:
            OutputError: A server listens there, or what is there is none of fastpack's.
            OSError: The system refuses.
        """
        self._path = path
        self._mark: str | None = None
        self.bound = secrets.token_hex(4)
        """The name that gRPC binds."""
        while True:
            is_new = False
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o700)  # noqa: PTH102  a path as the socket has it
                is_new = True
            self._folder = self._locked()
            if self._is_there():
                break
            os.close(self._folder)  # the server before has removed it meanwhile
        found = [] if is_new else os.listdir(self._folder)  # noqa: PTH208  that of the open folder
        if not is_new and set(found) != {_SOCKET, self._mark_of_socket()}:
            os.close(self._folder)
            raise self._in_the_way()
        for name in found:
            os.unlink(name, dir_fd=self._folder)

    def _locked(self) -> int:
        """The open folder, locked."""
        import fcntl  # noqa: PLC0415  where there are Unix sockets

        try:
            folder = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as failed:
            raise self._in_the_way() if failed.errno in {errno.ENOTDIR, errno.ELOOP} else failed  # noqa: B904
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as held:
            os.close(folder)
            message = "has a server that listens already"
            raise OutputError(errno.EADDRINUSE, message, self._path) from held
        return folder

    def _is_there(self) -> bool:
        """True if the path still names the open folder."""
        with contextlib.suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(self._folder), os.lstat(self._path))
        return False

    def _mark_of_socket(self) -> str | None:
        """The name of the mark of the socket: its inode and its time, as the number of an inode is used again."""
        with contextlib.suppress(FileNotFoundError):
            found = os.stat(_SOCKET, dir_fd=self._folder, follow_symlinks=False)
            if stat.S_ISSOCK(found.st_mode):
                return f"{_SOCKET}-{found.st_ino}-{found.st_mtime_ns}"
        return None

    def publish(self) -> None:
        """Gives the socket that gRPC has bound its name, and notes which one it is."""
        os.rename(self.bound, _SOCKET, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        self._mark = self._mark_of_socket()
        if self._mark is not None:
            os.close(os.open(self._mark, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=self._folder))

    def release(self) -> None:
        """Removes the socket that was made, and the folder, unless others have put something there."""
        with contextlib.suppress(OSError):
            if self._mark is not None:
                if self._mark_of_socket() == self._mark:
                    os.unlink(_SOCKET, dir_fd=self._folder)
                os.unlink(self._mark, dir_fd=self._folder)
        with contextlib.suppress(OSError):
            if self._is_there():
                os.rmdir(self._path)  # noqa: PTH106  a path as the socket has it
        os.close(self._folder)

    def _in_the_way(self) -> OutputError:
        message = "is in the way of the socket's folder, and no server of fastpack has left it; remove it, or choose another path"
        return OutputError(errno.EEXIST, message, self._path)
