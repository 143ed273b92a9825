"""`remote_pictures`: the native module's access to pictures in stores, on web servers and on the hub."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from fastpack import _fastpack
from fastpack.storage.filesystem import choose_filesystem
from fastpack.storage.remote_options import choose_storage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastpack.options.storage import Storage

__all__ = ["pictures_of_call", "remote_pictures", "without_remote_pictures"]

_READS_NONE: Final = ContextVar("_READS_NONE", default=False)
"""True inside of `without_remote_pictures`."""


@contextmanager
def without_remote_pictures() -> Iterator[None]:
    """Calls meanwhile read no picture from remote storage: a record that names one is a bad record.

    The records of a folder of others may name any server, so that a call which was not asked to fetch must not reach one.
    """
    before = _READS_NONE.set(True)
    try:
        yield
    finally:
        _READS_NONE.reset(before)


def pictures_of_call(storage: Storage, *, cache_dir: object = None) -> _fastpack.RemotePictures | None:
    """The access to the pictures of a call that lie elsewhere; `None` if it reads none."""
    return None if _READS_NONE.get() else remote_pictures(storage, cache_dir=cache_dir)


def remote_pictures(
    storage: Storage,
    *,
    cache_dir: object = None,
    hub: bool = False,
) -> _fastpack.RemotePictures:
    """The access to pictures that lie elsewhere. Nothing is opened before the first one is read.

    Args:
        storage: The storage of the call.
        cache_dir: The folder that holds what is kept of fetched files; a folder of the user if it is not given.
        hub: True if pictures are known to lie on the hub, so that its package is imported if nothing else has.
    """
    filesystem = choose_filesystem(storage.filesystem)
    native = choose_storage((), storage, cache_dir=cache_dir, filesystem=filesystem)
    return _fastpack.RemotePictures(native, _hub_access(wanted=hub))


def _hub_access(*, wanted: bool) -> tuple[str, dict[str, str]] | None:
    """The URL of the hub and the headers of requests to it; `None` without its package."""
    if not wanted and "huggingface_hub" not in sys.modules:
        return None
    try:
        import huggingface_hub  # noqa: PLC0415  slow to import
    except ImportError:
        return None
    token = huggingface_hub.get_token()
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return huggingface_hub.HfApi().endpoint, headers
