"""`fastpack pack --dry-run`: describes a job and estimates its size."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import fastpack
from fastpack._fastpack import bytes_of_rows
from fastpack.arguments.checks import folder_of
from fastpack.arguments.strategy import one_document_a_row
from fastpack.options import options_of
from fastpack.options.native import native_options, native_output, value_in
from fastpack.options.output import Format
from fastpack.options.rows import CAUSAL_COLUMNS
from fastpack.options.storage import Storage
from fastpack.options.value import word_of
from fastpack.report.display.pages import labelled
from fastpack.report.display.terminal import page

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fastpack.types import JsonValue

__all__ = ["JobDescription", "foreseen"]

_SAMPLE: Final = 2_000
"""The number of records from which sizes are estimated: a second of work at most."""

_LONGEST: Final = 2**31 - 1
"""The most tokens of a document: the length of rows that hold any."""


class JobDescription(NamedTuple):
    """The description of a job.

    Attributes:
        scan: The scan of a sample of the inputs.
        output: The folder.
        state: The present content of the folder.
        bytes: The estimated size of the shards in bytes, before compression.
        format: The format of the shards.
        tokenizer: The tokenizer.
        any_length: True if each row is as long as its document.
    """

    scan: fastpack.ScanReport
    output: str
    state: str
    bytes: int
    format: str
    tokenizer: str
    any_length: bool

    def to_dict(self) -> dict[str, JsonValue]:
        """The description as JSON values."""
        return {**self._asdict(), "scan": self.scan.to_dict()}

    def __str__(self) -> str:
        """The page that is printed."""
        return page(self._lines())

    def _lines(self) -> Iterator[tuple[str, str]]:
        fit = self.scan.fits[0]
        yield from labelled("inputs", (it.named for it in self.scan.inputs))
        yield "tokenizer", self.tokenizer
        yield "records", f"about {self.scan.read.documents:,}, of which {fit.kept.documents:,} would be kept"
        yield "tokens", f"about {self.scan.read.tokens:,}, of which {fit.lost_tokens:,} would be lost"
        unread = [(reason, lost.documents) for reason, lost in self.scan.lost.items()]
        dropped = [(reason, lost.documents) for reason, lost in fit.dropped.items()]
        for label, (reason, documents) in labelled("lost", [*unread, *dropped]):
            yield label, f"{documents:,} documents: {reason}"
        yield (
            "rows",
            f"about {fit.rows:,}, each as long as its document"
            if self.any_length
            else f"about {fit.rows:,} of {fit.max_length:,} tokens, {fit.fill:.2%} full",
        )
        yield "output", f"{self.output}: {self.state}"
        yield "", f"about {self.bytes / 1e6:,.1f} MB of {self.format}, before compression"
        if self.scan.sample is not None:
            yield "seconds", f"about {self.scan.sample.seconds:,.2f}"
        yield from labelled("warnings", self.scan.warnings)
        yield "", "a dry run: nothing was written"


def foreseen(arguments: Mapping[str, object]) -> JobDescription:
    """Describes the job of `pack_dir` with these options. It checks all options, and writes nothing."""
    native_options(arguments)
    output = folder_of("output", arguments["output"], takes_urls=True)
    native_output(arguments)
    form = value_in(arguments, Format)
    taken = {option.name for option in options_of("scan")}
    known = {name: value for name, value in arguments.items() if name in taken}
    if isinstance(storage := known.get("storage"), Storage):
        known["storage"] = dataclasses.replace(storage, work_dir=None)
    any_length = (
        one_document_a_row(word_of(arguments.get("strategy"))) and arguments.get("max_length") is None
    )
    if any_length:
        known["max_length"] = _LONGEST
    scan = fastpack.scan(**known, sample=_SAMPLE)  # type: ignore[arg-type]  # as `pack_dir` takes them
    columns = cast("Sequence[str]", arguments.get("columns") or CAUSAL_COLUMNS)
    tokens = (
        scan.fits[0].kept.tokens
        if arguments.get("padding") is None
        else scan.fits[0].rows * scan.fits[0].max_length
    )
    return JobDescription(
        scan=scan,
        output=output,
        state=_state(Path(output)),
        bytes=bytes_of_rows(list(columns), form, tokens),
        format=form.name,
        tokenizer=str(arguments.get("tokenizer") or "none; the records are ids"),
        any_length=any_length,
    )


def _state(folder: Path) -> str:
    """Describes the content of a folder, and the effect of the job on it."""
    if not folder.exists():
        return "would be made"
    if (folder / ".fastpack").is_dir():
        return "holds a job that was stopped, which goes on if it is the same"
    if (folder / "manifest.json").is_file():
        return "holds a finished job; the same job would return its report, another needs --exists overwrite"
    if any(folder.iterdir()):
        return "holds other files, so the job needs --exists overwrite"
    return "is empty"
