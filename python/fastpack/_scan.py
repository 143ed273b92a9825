"""`ScanReport`: what files hold, and what packing them would come to."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fastpack.report import Count, Input, Place, input_of, labelled, page_line, read_values, whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fastpack._types import JsonValue

__all__ = ["Fit", "Lost", "Sampled", "ScanReport"]

_QUANTILES = ("min", "p50", "p90", "p99", "max")
"""The quantiles of document lengths that a printed scan shows."""

_SHOWN = 1_000
"""Records that a printed scan names for each reason."""


class Lost(NamedTuple):
    """Records that no row can hold, for one reason.

    Attributes:
        documents: How many.
        tokens: Their tokens; a record that could not be read has none.
        places: The records that could not be read, in the order of the input, up to 10,000; of documents without a
            label, the first.
    """

    documents: int
    tokens: int
    places: tuple[Place, ...]


class Fit(NamedTuple):
    """What becomes of the documents in rows of one length.

    Attributes:
        max_length: Tokens that a row holds at most.
        rows: How many rows there would be.
        fill: The part of the rows that tokens fill, from 0 to 1.
        lower_bound: Rows that no packing could do without.
        kept: What the rows would hold.
        dropped: What they would not, by reason.
        truncated: Documents that would be cut, and the tokens they would lose.
    """

    max_length: int
    rows: int
    fill: float
    lower_bound: int
    kept: Count
    dropped: dict[str, Count]
    truncated: Count

    @property
    def lost_tokens(self) -> int:
        """Tokens that no row would hold."""
        return self.truncated.tokens + sum(lost.tokens for lost in self.dropped.values())


class Sampled(NamedTuple):
    """What part of the files was read, where it stands for all of them.

    Attributes:
        records: Records that were read.
        bytes: Their bytes.
        share: Their part of the bytes of all records, from 0 to 1.
        seconds: How long reading all of them would take.
    """

    records: int
    bytes: int
    share: float
    seconds: float


class ScanReport:
    """What files hold, and what packing them would come to. Read-only; `print` shows all of it."""

    def __init__(self, values: Mapping[str, JsonValue]) -> None:
        """Takes the numbers as `to_dict` gives them."""
        self._values = dict(values)

    @classmethod
    def from_json(cls, text: str | bytes) -> ScanReport:
        """Reads what `to_dict` was written as.

        Raises:
            OptionError: It is no JSON, or not that of a scan.
        """
        return cls(read_values(text))

    def to_dict(self) -> dict[str, JsonValue]:
        """All numbers."""
        return dict(self._values)

    @property
    def inputs(self) -> list[Input]:
        """What the files were recognised as."""
        listed = self._values.get("inputs")
        return [input_of(it) for it in (listed if isinstance(listed, list) else []) if isinstance(it, dict)]

    @property
    def read(self) -> Count:
        """Records read, and the tokens in those that became documents."""
        return _count(self._mapping("read"))

    @property
    def documents(self) -> int:
        """Documents that have something to learn from."""
        return whole(self._values.get("documents"))

    @property
    def lost(self) -> dict[str, Lost]:
        """Records that no row can hold, whatever its length, by reason."""
        found = {}
        for reason, lost in self._mapping("lost").items():
            if isinstance(lost, dict):
                listed = lost.get("places")
                places = tuple(
                    _place(it) for it in (listed if isinstance(listed, list) else []) if isinstance(it, dict)
                )
                found[reason] = Lost(*_count(lost), places)
        return found

    @property
    def lengths(self) -> dict[str, float]:
        """Quantiles and mean of the lengths of the documents, in tokens."""
        return {name: _real(length) for name, length in self._mapping("lengths").items()}

    @property
    def trained_share(self) -> float:
        """The part of the tokens that carry a label, from 0 to 1."""
        return _real(self._values.get("trained_share"))

    @property
    def warnings(self) -> list[str]:
        """What a careful user should know."""
        listed = self._values.get("warnings")
        return [str(warning) for warning in listed] if isinstance(listed, list) else []

    @property
    def fits(self) -> list[Fit]:
        """What becomes of the documents, for each length of rows."""
        listed = self._values.get("fits")
        return [_fit(it) for it in (listed if isinstance(listed, list) else []) if isinstance(it, dict)]

    @property
    def sample(self) -> Sampled | None:
        """What was read, if not all: then records, tokens and rows are estimates for all, lengths those of the sample."""
        values = self._mapping("sample")
        if not values:
            return None
        return Sampled(
            records=whole(values.get("records")),
            bytes=whole(values.get("bytes")),
            share=_real(values.get("share")),
            seconds=_real(values.get("seconds")),
        )

    @property
    def seconds(self) -> float:
        """How long the scan took; packing all that it read takes as long, and the writing of its rows."""
        return _real(self._mapping("timing").get("seconds"))

    def _mapping(self, name: str) -> dict[str, JsonValue]:
        value = self._values.get(name)
        return value if isinstance(value, dict) else {}

    def __repr__(self) -> str:
        """A line; `print` shows the page."""
        return f"<fastpack.ScanReport: {self.read.documents:,} records, {self.documents:,} documents>"

    def __str__(self) -> str:
        """The page that `print` shows."""
        return "\n".join(page_line(label, value) for label, value in self._lines())

    def _lines(self) -> Iterator[tuple[str, str]]:
        yield from labelled("inputs", map(str, self.inputs))
        sample = self.sample
        if sample is not None:
            yield (
                "estimated",
                f"from {sample.records:,} records, {sample.share:.2%} of the bytes: all that is said of records, tokens and rows",
            )
        yield "records", f"{self.read.documents:,} read, {self.documents:,} become documents"
        for label, (reason, lost) in labelled("lost", self.lost.items()):
            yield label, f"{lost.documents:,} records, {lost.tokens:,} tokens: {reason}"
            for place in lost.places[:_SHOWN]:
                where = f"{place.path}:{place.line}" if place.line else place.path
                yield "", f"  {where}: {place.message}"
            if len(lost.places) > _SHOWN:
                yield (
                    "",
                    f"  and {lost.documents - _SHOWN:,} more, of which `lost` names {len(lost.places) - _SHOWN:,}",
                )
        shown = [f"{name} {self.lengths[name]:,.0f}" for name in _QUANTILES if name in self.lengths]
        yield (
            "tokens",
            f"{self.read.tokens:,}, {self.trained_share:.1%} trained; a document: {', '.join(shown)}",
        )
        for label, fit in labelled("rows", self.fits):
            share = f"{fit.lost_tokens / max(self.read.tokens, 1):.2%} of the tokens lost"
            reasons = [f"{count.documents:,} {reason}" for reason, count in fit.dropped.items()]
            if fit.truncated.documents:
                reasons.append(f"{fit.truncated.documents:,} truncated")
            why = f" ({', '.join(reasons)})" if reasons else ""
            yield label, f"{fit.rows:,} of {fit.max_length:,} tokens, fill {fit.fill:.2%}, {share}{why}"
        yield from self._roads()
        speed = _real(self._mapping("timing").get("megabytes_per_second"))
        threads = whole(self._mapping("timing").get("threads"))
        packing = "about as long" if sample is None else f"about {sample.seconds:,.2f} for all"
        yield (
            "seconds",
            f"{self.seconds:.2f} on {threads} threads, {speed:,.1f} MB/s; packing takes {packing}",
        )
        yield from labelled("warnings", self.warnings)

    def _roads(self) -> Iterator[tuple[str, str]]:
        """Which way templates, masks and tokens go."""
        template = self._values.get("template")
        if isinstance(template, dict):
            masks = {
                "marked": "it marks what the assistant writes",
                "derived": "what the assistant writes is derived from its output",
            }[str(template.get("masks"))]
            by = "transformers, in part or whole" if template.get("outside") else "fastpack"
            yield "template", f"`{template.get('name')}`, rendered by {by}; {masks}"
        reason = self._values.get("engine_reason")
        yield "engine", f"{self._values.get('engine')}{f': {reason}' if reason else ''}"


def _count(values: Mapping[str, JsonValue]) -> Count:
    return Count(whole(values.get("documents")), whole(values.get("tokens")))


def _place(values: Mapping[str, JsonValue]) -> Place:
    return Place(
        str(values.get("path")),
        whole(values.get("line")),
        str(values.get("reason")),
        str(values.get("message")),
    )


def _fit(values: Mapping[str, JsonValue]) -> Fit:
    counts = {name: values.get(name) for name in ("kept", "truncated", "dropped")}
    kept, truncated, dropped = (it if isinstance(it, dict) else {} for it in counts.values())
    return Fit(
        max_length=whole(values.get("max_length")),
        rows=whole(values.get("rows")),
        fill=_real(values.get("fill")),
        lower_bound=whole(values.get("lower_bound")),
        kept=_count(kept),
        dropped={reason: _count(it) for reason, it in dropped.items() if isinstance(it, dict)},
        truncated=_count(truncated),
    )


def _real(value: JsonValue) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
