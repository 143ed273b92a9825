"""`sampled_epoch`: the rows and tokens of an epoch of a stream, from a sample of its records."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from fastpack import _fastpack
from fastpack.arguments.strategy import one_document_a_row
from fastpack.errors import OptionError
from fastpack.options.native import native_inputs, native_model, native_options, value_in, with_processor
from fastpack.options.rows import CAUSAL_COLUMNS
from fastpack.options.value import nondefault_fields, word_of
from fastpack.options.work import Select, Weights
from fastpack.records.sources import listed_sources, named_sources
from fastpack.report.scan import ScanReport

if TYPE_CHECKING:
    from typing import Any

__all__ = ["sampled_epoch"]


class _SourceSize(NamedTuple):
    """The estimated size of a source."""

    documents: float
    tokens: float
    rows: float


def sampled_epoch(arguments: Mapping[str, Any], sample: int) -> tuple[int, int]:  # type: ignore[explicit-any]
    """The rows and tokens of an epoch, from about so many records of each source."""
    chosen = [f"select.{name}" for name in nondefault_fields(value_in(arguments, Select))]
    for name in [*chosen, *(["validation"] if arguments["validation"] else [])]:
        message = "leaves records out, so a sample of all records cannot tell the size of an epoch; give `cache_dir` and `epochs`, so that the rows are counted"
        raise OptionError(message, name)
    mixture = value_in(arguments, Weights)
    weights = mixture.shares
    _, files = named_sources(arguments["files"])
    listed = listed_sources(files)
    if any("records" in source for source in listed or ()):
        message = "gives records as they come, of which no sample tells how many there are; give `cache_dir` and `epochs`, so that the rows are counted"
        raise OptionError(message, "files")
    if weights is None or listed is None:
        size = _size({**arguments, "files": files}, sample)
        return math.ceil(size.rows), round(size.tokens)
    if not isinstance(weights, Mapping):
        schedule = list(weights)
        if len(schedule) > 1:
            message = "change during the run, so no epoch is like another"
            raise OptionError(message, "weights")
        weights = schedule[0][1]
    sizes = [_size({**arguments, "files": [source]}, sample) for source in listed]
    # The number of readings of each source, by the unit of the weights.
    per_unit = [
        weights[name] / max(getattr(size, mixture.unit), 1e-9)
        for name, size in zip(arguments["files"], sizes, strict=True)
    ]
    times = [share for share in per_unit if share > 0]
    ends = {"repeat": 1 / min(times), "stop": 1 / max(times)}
    end = ends.get(mixture.on_exhausted)
    read = [float(share > 0) if end is None else end * share for share in per_unit]
    rows = sum(size.rows * share for size, share in zip(sizes, read, strict=True))
    return math.ceil(rows), round(sum(size.tokens * share for size, share in zip(sizes, read, strict=True)))


def _size(arguments: Mapping[str, Any], sample: int) -> _SourceSize:  # type: ignore[explicit-any]
    """The size of some files, packed into rows of the length asked for."""
    arguments = with_processor(arguments)
    # The epochs of a stream are none of an objective.
    scanned = {
        **arguments,
        "epochs": 1,
        "on_bad_record": "skip",
        "columns": [*CAUSAL_COLUMNS, "loss_weights"],
    }
    options = native_options(scanned)
    length = arguments["max_length"] or (1 << 30)
    found = _fastpack.scan(
        native_inputs(arguments), [length], sample, options, *native_model(arguments), None
    )
    report = ScanReport.from_json(found)
    fit = report.fits[0]
    rows = fit.kept.documents if one_document_a_row(word_of(arguments["strategy"])) else fit.rows
    return _SourceSize(float(fit.kept.documents), float(fit.kept.tokens), float(rows))
