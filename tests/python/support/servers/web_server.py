"""A web server on the loopback address that serves files by ranges, and fails when it is told to."""

from __future__ import annotations

import email.utils
import hashlib
import random
import re
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from loopback import LoopbackServer, SilentHandler, running

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class Faults:
    """The faults of a server. Each is a share of the requests, drawn with the seed.

    `changes` is the number of a request after which every file has another etag. `odd` may answer a request for a file by
    itself: it takes the handler, the file, the number of the request, and the first and last byte that are asked for, and
    says whether it did.
    """

    seed: int = 0
    status: float = 0.0
    statuses: tuple = (429, 500, 502, 503)
    cut: float = 0.0
    reset: float = 0.0
    delay: float = 0.0
    retry_after: str | None = "0"
    changes: int | None = None
    ranges: bool = True
    etags: bool = True
    times: bool = True
    always: int | None = None
    odd: Callable[..., bool] | None = None
    only: str = ""
    chances: random.Random = field(init=False)

    def __post_init__(self):
        self.chances = random.Random(self.seed)


class Server(LoopbackServer):
    """Files of a folder, with the requests that were made."""

    def __init__(self, folder, faults=None):
        self.folder = Path(folder)
        self.faults = faults or Faults()
        self.requests = []
        self.bytes = 0
        self.token = None
        self.pages = {}
        self.etags = {}
        self.lock = threading.Lock()
        super().__init__(Handler)

    def etag(self, file):
        """The etag of a file: a hash of its bytes."""
        with self.lock:
            if file not in self.etags:
                self.etags[file] = hashlib.md5(file.read_bytes()).hexdigest()
            return self.etags[file]


class Handler(SilentHandler):
    def answer_after_body(self):
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.answer()

    def answer(self):
        server, faults = self.server, self.server.faults
        path = self.path.partition("?")[0]
        with server.lock:
            # The draw for a request depends on its number alone.
            server.requests.append((self.command, self.path, self.headers.get("Range")))
            number = len(server.requests)
            chance = [faults.chances.random() for _ in range(4)]
            status = faults.chances.choice(faults.statuses)
        if faults.delay:
            time.sleep(faults.delay)
        if faults.only not in path:
            chance = [1.0] * 4
        file = server.folder / path.lstrip("/")
        page = next((page for form, page in server.pages.items() if re.fullmatch(form, self.path)), None)
        if faults.always and faults.only in path:
            self.fail(faults.always)
        elif chance[0] < faults.status:
            self.fail(status)
        elif chance[1] < faults.reset:
            self.reset()
        elif page:
            self.send_page(page(self))
        elif server.token and self.headers.get("Authorization") != server.token:
            self.fail(401)
        elif file.is_file():
            self.send_file(file, number, cut=chance[2] < faults.cut, where=chance[3])
        else:
            self.fail(404)

    do_GET = do_HEAD = answer  # noqa: N815  the names that the library asks for
    do_POST = do_PUT = answer_after_body  # noqa: N815

    def send_file(self, file, number, *, cut, where):  # noqa: C901  a case for each fault
        faults = self.server.faults
        size = file.stat().st_size
        etag = self.server.etag(file)
        if faults.changes is not None and number > faults.changes:
            etag += "changed"
        etag = f'"{etag}"'
        wanted = self.headers.get("If-Match")
        if faults.etags and wanted not in {None, etag}:
            self.fail(412)
            return
        start, end, status = 0, size, 200
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked and faults.ranges:
            start = int(asked[1])
            end = min(int(asked[2]) + 1, size) if asked[2] else size
            if start >= size:
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{size}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            status = 206
        if faults.odd and faults.only in self.path and faults.odd(self, file, number, start, end):
            return
        with file.open("rb") as opened:
            opened.seek(start)
            body = opened.read(end - start)
        self.send_response(status)
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
        if faults.etags:
            self.send_header("ETag", etag)
        if faults.times:
            self.send_header("Last-Modified", email.utils.formatdate(1_700_000_000, usegmt=True))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if cut and len(body) > 1:
            self.wfile.write(body[: max(1, int(len(body) * where))])
            self.reset()
            return
        self.wfile.write(body)
        with self.server.lock:
            self.server.bytes += len(body)

    def send_bytes(self, status, body, **headers):
        """An answer with these headers, with `_` for `-` in their names, and a length unless one is given."""
        self.send_response(status)
        for name, value in {"Content_Length": str(len(body)), **headers}.items():
            if value is not None:
                self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_page(self, answer):
        status, headers, body = answer
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def fail(self, status):
        self.send_response(status)
        if self.server.faults.retry_after is not None and status in {429, 503}:
            self.send_header("Retry-After", self.server.faults.retry_after)
        self.send_header("Content-Length", "0")
        self.end_headers()


@contextmanager
def serving(folder, faults=None):
    """Serves a folder for a while."""
    with running(Server(folder, faults)) as server:
        yield server
