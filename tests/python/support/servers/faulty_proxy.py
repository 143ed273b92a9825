"""A proxy on the loopback address that loses requests and answers between a client and a server."""

from __future__ import annotations

import http.client
import random
import threading
from contextlib import contextmanager

from loopback import LoopbackServer, SilentHandler, running


class Proxy(LoopbackServer):
    """Passes requests on to `host:port`. A share of `faults` of them goes wrong, drawn with the seed."""

    def __init__(self, host, port, *, seed, faults):
        self.there = host, port
        self.chances = random.Random(seed)
        self.faults = faults
        self.lock = threading.Lock()
        self.lost = 0
        self.broken = ""
        super().__init__(Handler)

    def fault(self, command, path):
        """The fault of the next request, if any: always one for paths with `broken`."""
        if self.broken and self.broken in path:
            return "status"
        with self.lock:
            if self.chances.random() >= self.faults:
                return ""
            self.lost += 1
            return self.chances.choice(["status", "before", "after", "cut"])

    def before_reset(self):
        """The bytes passed on before a connection is lost."""


class KillingProxy(Proxy):
    """Kills `process` at its `at`-th request, before the server has seen it (`done` false) or once it has done it."""

    def __init__(self, host, port, *, at, done):
        super().__init__(host, port, seed=0, faults=0)
        self.at, self.done, self.seen = at, done, []
        self.process = None

    def fault(self, command, path):
        with self.lock:
            self.seen.append(f"{command} {path}")
            if len(self.seen) != self.at:
                return ""
        return "after" if self.done else "before"

    def before_reset(self):
        self.process.kill()
        self.process.wait()


class Handler(SilentHandler):
    def pass_on(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        fault = self.server.fault(self.command, self.path)
        if fault == "before":
            self.server.before_reset()
            return self.reset()
        if fault == "status":
            self.send_response(503)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return None
        there = http.client.HTTPConnection(*self.server.there, timeout=60)
        there.request(self.command, self.path, body, dict(self.headers.items()))
        answer = there.getresponse()
        content = answer.read()
        there.close()
        if fault == "after":
            self.server.before_reset()
            return self.reset()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in {"connection", "content-length", "transfer-encoding", "date", "server"}:
                self.send_header(name, value)
        size = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(content))
        self.send_header("Content-Length", size or "0")
        self.end_headers()
        if fault == "cut" and len(content) > 1:
            self.wfile.write(content[: len(content) // 2])
            return self.reset()
        self.wfile.write(content)
        return None

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = pass_on  # noqa: N815  the names that the library asks for


@contextmanager
def losing(url, *, seed, faults):
    """A proxy before the server at `url` for a while."""
    with running(Proxy(*address(url), seed=seed, faults=faults)) as proxy:
        yield proxy


@contextmanager
def killing(url, *, at=0, done=False):
    """A proxy before the server at `url` that kills a process at its `at`-th request."""
    with running(KillingProxy(*address(url), at=at, done=done)) as proxy:
        yield proxy


def address(url):
    host, _, port = url.removeprefix("http://").partition(":")
    return host, int(port)
