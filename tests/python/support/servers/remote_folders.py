"""Packed folders in remote storage of every kind, by servers on the loopback address."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cloud_stores import cloud
from web_server import serving

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KINDS = ["s3", "gs", "az", "https"]


@dataclass
class Remote:
    """A folder at a URL, and the options that open it."""

    url: str
    options: dict[str, object]
    put: Callable[[str, bytes], None]
    requests: list[object] = field(default_factory=list)
    server: object = None


def tree(folder: Path) -> dict[str, bytes]:
    """The files of a folder by their names."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@contextmanager
def of_cloud(kind, folder, delay=0.0):
    with cloud(kind, delay=delay) as store:
        remote = Remote(store.url("packed"), {"storage": store.options}, lambda *_: None)
        remote.server, remote.requests = store.server, store.server.requests
        remote.put = lambda name, content: store.server.put("bucket", f"packed/{name}", content)
        for name, content in tree(folder).items():
            remote.put(name, content)
        store.server.requests.clear()
        yield remote


@contextmanager
def of_web(folder, at, faults=None):
    for name, content in tree(folder).items():
        path = at / "packed" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    with serving(at, faults) as server:

        def put(name, content):
            (at / "packed" / name).write_bytes(content)
            server.etags.clear()

        yield Remote(f"{server.url}/packed", {}, put, server.requests, server)
