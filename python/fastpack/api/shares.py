"""The shares of the sources of a job (a stream has its own): `weights`, and the `fraction` of a source."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from fastpack.arguments.checks import shown
from fastpack.errors import OptionError, OptionTypeError
from fastpack.options.native import value_in
from fastpack.options.work import Weights
from fastpack.records.reiterable import gives_records
from fastpack.records.sources import listed_sources, named_sources, weights_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    NativeShares: TypeAlias = Sequence[tuple[str, float | None, float]]

__all__ = ["shared_sources"]


def shared_sources(arguments: Mapping[str, Any]) -> tuple[Mapping[str, Any], NativeShares | None]:  # type: ignore[explicit-any]  # as a call has them
    """The arguments with their sources as a list, and the shares of the sources if not all of them is taken once."""
    files, weights = arguments["files"], value_in(arguments, Weights).shares
    names: list[str] = []
    if isinstance(files, Mapping):
        _refuse_records(files)
        names, files = named_sources(files)
    listed = listed_sources(files)
    if weights is not None:
        _check_weights(weights, names, listed)
    if listed is None:
        return arguments, None
    fractions = [_fraction(number, source.get("fraction")) for number, source in enumerate(listed)]
    plain = [{name: it for name, it in source.items() if name != "fraction"} for source in listed]
    arguments = {**arguments, "files": plain}
    if weights is None and all(fraction == 1 for fraction in fractions):
        return arguments, None
    shares = dict(weights) if isinstance(weights, Mapping) else {}
    names = names or [_name(number, source) for number, source in enumerate(listed)]
    return arguments, [
        (name, None if weights is None else float(shares[name]), fraction)
        for name, fraction in zip(names, fractions, strict=True)
    ]


def _refuse_records(files: Mapping[object, object]) -> None:
    """Refuses a source that gives records."""
    for name, source in files.items():
        if gives_records(source) or (isinstance(source, Mapping) and "records" in source):
            message = f"names `{name}`, which gives records; `stream` takes these, and `pack_records` packs an iterable"
            raise OptionTypeError(message, "files")


def _check_weights(
    weights: object, names: Sequence[str], sources: Sequence[Mapping[str, object]] | None
) -> None:
    """Refuses weights that are none of the named sources."""
    try:
        weights_of(weights, names)
    except OptionError:
        raise
    except ValueError as refused:
        message = f"must be {refused}, not `{shown(weights)}`"
        raise OptionError(message, "weights") from refused
    if any(source.get("repeat") not in {None, 1} for source in sources or ()):
        message = "is given beside `weights`, which say how often a source comes; leave one of them out"
        raise OptionError(message, "repeat")


def _fraction(number: int, fraction: object) -> float:
    """The part of a source that is drawn."""
    if fraction is None:
        return 1.0
    if isinstance(fraction, bool) or not isinstance(fraction, (int, float)) or not 0 < fraction <= 1:
        message = (
            f"`fraction` of source {number} must be a number above 0 and at most 1, not `{shown(fraction)}`"
        )
        raise OptionError(message, "files")
    return float(fraction)


def _name(number: int, source: Mapping[str, object]) -> str:
    """The name of a source in the report: its path, if it has one."""
    path = source.get("path")
    return os.fspath(path) if isinstance(path, (str, os.PathLike)) else f"source {number}"
