"""`Reiterable`: records that a Python object gives anew for each epoch of a stream."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Final, Protocol, cast, runtime_checkable

from fastpack.arguments.checks import check_type, is_series
from fastpack.arguments.failures import each_of, noted
from fastpack.errors import OptionError, OptionTypeError

if TYPE_CHECKING:
    from fastpack.types import JsonValue

__all__ = ["Reiterable", "gives_records"]

_WANTED: Final = "a function that returns an iterator of records, or an object whose `__iter__` starts anew"

_INEXACT: Final = ("BufferShuffledExamplesIterable",)
"""Parts of an `IterableDataset` whose records are lost when its state is loaded: those in a shuffle buffer."""


@runtime_checkable
class _Stateful(Protocol):
    """An iterable that tells its place."""

    def state_dict(self) -> object: ...

    def load_state_dict(self, state_dict: object) -> None: ...


def gives_records(value: object) -> bool:
    """True if a value of `files` gives records, and not the paths of files.

    An iterable of unknown kind is asked for its first item.
    """
    if isinstance(value, (str, bytes, PathLike, Mapping, list, tuple)):
        return False
    if callable(value) or _is_dataset(value) or isinstance(value, _Stateful):
        return True
    if not is_series(value) or hasattr(type(value), "__arrow_c_stream__"):
        return False
    with noted("while fastpack read `files`"):
        iterator = iter(value)
        return iterator is not value and isinstance(next(iterator, None), Mapping)


class Reiterable:
    """A source of records that can be read from its beginning as often as it is needed.

    The native module calls `begin` and `place`.
    """

    def __init__(self, source: object, *, name: str, fingerprint: object = None) -> None:
        """Checks the source; `name` is that of its records in errors."""
        check_type(
            "fingerprint", fingerprint, (str, type(None)), 'a text that names the records, such as "v1"'
        )
        if not callable(source) and not is_series(source):
            message = f"must be {_WANTED}, not a `{type(source).__qualname__}`"
            raise OptionTypeError(message, "records")
        if isinstance(source, Iterator):
            message = f"is a `{type(source).__qualname__}`, which gives its records only once; give {_WANTED}"
            raise OptionTypeError(message, "records")
        self.name = name
        self._source = source
        self._fingerprint = cast("str | None", fingerprint)
        self._own: object = None
        """The iterable that is read; a copy where another reader would change it."""
        self._initial: object = None
        """The state of a `_Stateful` at its beginning."""
        self._loaded = False
        self._last: object = None

    @property
    def known_as(self) -> str | None:
        """The identity of the records, where it is known."""
        if self._fingerprint is not None:
            return f"named {self._fingerprint}"
        fingerprint = getattr(self._source, "_fingerprint", None)
        return f"datasets:{fingerprint}" if _is_dataset(self._source) and fingerprint else None

    @property
    def kind(self) -> str:
        """The name of a function or class, or the description of a data set: it tells records without an identity apart."""
        if _is_dataset(self._source):
            return repr(self._source)
        return getattr(self._source, "__qualname__", type(self._source).__qualname__)

    def begin(self, epoch: int, place: str | None) -> Iterator[Mapping[str, JsonValue]]:
        """The records of an epoch, those after a place if one is given."""
        with noted(self._reading):
            iterator = self._iterator(epoch, place)
        return each_of(iterator, self._reading)

    def _iterator(self, epoch: int, place: str | None) -> Iterator[Mapping[str, JsonValue]]:
        own = self._opened()
        set_epoch = getattr(own, "set_epoch", None)
        if callable(set_epoch):
            set_epoch(epoch)
        if isinstance(own, _Stateful) and _is_exact(own):
            if place is not None:
                own.load_state_dict(json.loads(place))
                self._loaded = True
            elif self._loaded:
                own.load_state_dict(self._initial)
                self._loaded = False
        iterator = iter(cast("Iterable[Mapping[str, JsonValue]]", own))
        if iterator is own and not callable(self._source):
            message = (
                f"gives the records of `{self.name}` only once: its `__iter__` returns itself; give {_WANTED}"
            )
            raise OptionError(message, "records")
        if iterator is self._last:
            message = f"gives the records of `{self.name}` only once: the same iterator again; give {_WANTED}"
            raise OptionError(message, "records")
        self._last = iterator
        return iterator

    def _opened(self) -> object:
        """The iterable to read: a new one from the caller's function, or the same object each time."""
        if callable(self._source) and not _is_dataset(self._source):
            self._own = cast("Callable[[], object]", self._source)()
            self._loaded = False
            if not isinstance(self._own, Iterable):
                message = f"must be {_WANTED}; `{self.name}` returns a `{type(self._own).__qualname__}`"
                raise OptionTypeError(message, "records")
        elif self._own is None:
            self._own = _copied(self._source)
            if isinstance(self._own, _Stateful):
                self._initial = self._own.state_dict()
        return self._own

    @property
    def _reading(self) -> str:
        """The place of exceptions of the source."""
        return f"while fastpack read the records of `{self.name}`"

    def place(self) -> str | None:
        """The place after the records so far; `None` for a source that does not tell it, or not in values of JSON."""
        if not isinstance(self._own, _Stateful) or not _is_exact(self._own):
            return None
        with noted(self._reading):
            state = self._own.state_dict()
        try:
            text = json.dumps(state)
        except (TypeError, ValueError):
            return None
        return text if json.loads(text) == state else None


def _is_dataset(source: object) -> bool:
    """True if a source is a data set of `datasets`."""
    datasets = sys.modules.get("datasets")
    return datasets is not None and isinstance(source, (datasets.Dataset, datasets.IterableDataset))


def _copied(source: object) -> object:
    """A data set of `datasets` for one reader alone: its place would be that of its last reader. Others as they are."""
    datasets = sys.modules.get("datasets")
    if datasets is None or not _is_dataset(source):
        return source
    if isinstance(source, datasets.Dataset):
        return source.to_iterable_dataset()
    return copy.deepcopy(source)


def _is_exact(source: object) -> bool:
    """True if all records after a place come when its state is loaded."""
    part = getattr(source, "_ex_iterable", None)
    return not _is_dataset(source) or part is None or _has_no_buffer(part)


def _has_no_buffer(part: object) -> bool:
    if type(part).__name__ in _INEXACT:
        return False
    inner = getattr(part, "ex_iterable", None)
    several = getattr(part, "ex_iterables", None) or []
    return all(_has_no_buffer(it) for it in [*several, *([] if inner is None else [inner])])
