"""`ScanReport`: the records and tokens of files, and the rows that packing would give."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fastpack.arguments.plural import counted
from fastpack.report.report_facts import Count, Place, ReportFacts, count_of, places_of, real, whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastpack.types import JsonValue, StrPath

__all__ = ["Fit", "Lost", "Sampled", "ScanReport", "TurnChoice"]


class Lost(NamedTuple):
    """Records that no row can hold, for one reason.

    Attributes:
        documents: The number of records.
        tokens: The number of their tokens; a record that could not be read has none.
        places: The records that could not be read, in the order of the input, up to 10,000; of documents without a
            label, the first.
    """

    documents: int
    tokens: int
    places: tuple[Place, ...]


class Fit(NamedTuple):
    """The result of packing the documents into rows of one length.

    Attributes:
        max_length: The most tokens of a row.
        rows: The number of rows.
        fill: The share of the rows' room that tokens fill, from 0 to 1.
        lower_bound: The least number of rows that any packing needs.
        kept: The documents and tokens in the rows.
        dropped: The documents and tokens that would be dropped, by reason.
        truncated: The documents that would be truncated, and the tokens that they would lose.
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
        """The number of tokens that no row would hold."""
        return self.truncated.tokens + sum(lost.tokens for lost in self.dropped.values())


class TurnChoice(NamedTuple):
    """The documents that a choice of `turns` gives.

    Attributes:
        documents: The number of documents with at least one label.
        tokens: The number of their tokens.
        trained_tokens: The number of their tokens with a label.
        rewritten_turns: The trained turns that they have in a form that the model never writes.
    """

    documents: int
    tokens: int
    trained_tokens: int
    rewritten_turns: int


class Sampled(NamedTuple):
    """The sample of the files that was read, from which the scan estimates the whole.

    Attributes:
        records: Records that were read.
        bytes: Their bytes.
        share: Their share of the bytes of all records, from 0 to 1.
        seconds: The estimated time for reading all records, in seconds.
    """

    records: int
    bytes: int
    share: float
    seconds: float


class ScanReport(ReportFacts):
    """The records and tokens of files, and the rows that packing would give. Read-only; `print` shows all of it."""

    @property
    def read(self) -> Count:
        """The number of records read, and of the tokens in those that became documents."""
        return count_of(self._mapping("read"))

    @property
    def documents(self) -> int:
        """The number of documents with at least one label."""
        return whole(self._values.get("documents"))

    @property
    def lost(self) -> dict[str, Lost]:
        """The records that are lost at any row length, by reason."""
        found = {}
        for reason, lost in self._mapping("lost").items():
            if isinstance(lost, dict):
                found[reason] = Lost(*count_of(lost), tuple(places_of(lost.get("places"))))
        return found

    @property
    def turn_choices(self) -> dict[str, TurnChoice]:
        """The documents that each choice of `turns` gives; empty without conversations whose turns are trained."""
        found = {}
        for turns, counts in self._mapping("turn_choices").items():
            if isinstance(counts, dict):
                found[turns] = TurnChoice(*(whole(counts.get(name)) for name in TurnChoice._fields))
        return found

    @property
    def fits(self) -> list[Fit]:
        """The result of packing for each row length."""
        listed = self._values.get("fits")
        return [_fit(it) for it in (listed if isinstance(listed, list) else []) if isinstance(it, dict)]

    @property
    def sample(self) -> Sampled | None:
        """The sample, if not all was read. Then records, tokens and rows are estimates, and lengths are the sample's."""
        values = self._mapping("sample")
        if not values:
            return None
        return Sampled(
            records=whole(values.get("records")),
            bytes=whole(values.get("bytes")),
            share=real(values.get("share")),
            seconds=real(values.get("seconds")),
        )

    @property
    def seconds(self) -> float:
        """The time of the scan in seconds."""
        return real(self._mapping("timing").get("seconds"))

    @property
    def packing_seconds(self) -> float:
        """The time of the scan without that of `turn_choices`: packing takes it, and the time to write the rows."""
        return max(self.seconds - real(self._mapping("timing").get("turn_choices_seconds")), 0.0)

    @property
    def threads(self) -> int:
        """The number of threads that the scan used."""
        return whole(self._mapping("timing").get("threads"))

    @property
    def megabytes_per_second(self) -> float:
        """The speed of reading the files, in megabytes per second."""
        return real(self._mapping("timing").get("megabytes_per_second"))

    @property
    def template(self) -> str:
        """The template engine, and the source of the masks; empty without a template."""
        template = self._mapping("template")
        if not template:
            return ""
        masks = {
            "marked": "it marks what the assistant writes",
            "derived": "what the assistant writes is derived from its output",
        }[str(template.get("masks"))]
        by = "transformers, in part or whole" if template.get("outside") else "fastpack"
        return f"`{template.get('name')}`, rendered by {by}; {masks}"

    @property
    def engine(self) -> str:
        """The tokenizer engine, and the reason for it."""
        reason = self._values.get("engine_reason")
        return f"{self._values.get('engine')}{f': {reason}' if reason else ''}"

    def __repr__(self) -> str:
        """A summary on one line; `print` shows the page."""
        return f"<fastpack.ScanReport: {counted(self.read.documents, 'record')}, {counted(self.documents, 'document')}>"

    def __str__(self) -> str:
        """The page that `print` shows, wrapped at the width of a terminal."""
        from fastpack.report.display.pages import scan_page  # noqa: PLC0415  needed where it is shown

        return scan_page(self)

    def _repr_html_(self) -> str:
        """The HTML that a notebook shows."""
        from fastpack.report.display.notebook import scan_fragment  # noqa: PLC0415  needed where it is shown

        return scan_fragment(self)

    def to_html(self, path: StrPath) -> None:
        """Writes a page for a browser: one file that takes nothing from the network.

        Args:
            path: The file to write.

        Raises:
            StorageError: The file cannot be written.

        Examples:
            >>> import fastpack, tempfile, pathlib
            >>> scan = fastpack.scan("examples/chat.jsonl", "examples/tokenizer", max_length=512)
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     page = pathlib.Path(folder, "scan.html")
            ...     scan.to_html(page)
            ...     "Rows of each length" in page.read_text(encoding="utf-8")
            True
        """
        from fastpack.report.display.html_page import scan_html, write_html  # noqa: PLC0415  needed where it is written

        write_html(path, scan_html(self))


def _fit(values: Mapping[str, JsonValue]) -> Fit:
    counts = {name: values.get(name) for name in ("kept", "truncated", "dropped")}
    kept, truncated, dropped = (it if isinstance(it, dict) else {} for it in counts.values())
    return Fit(
        max_length=whole(values.get("max_length")),
        rows=whole(values.get("rows")),
        fill=real(values.get("fill")),
        lower_bound=whole(values.get("lower_bound")),
        kept=count_of(kept),
        dropped={reason: count_of(it) for reason, it in dropped.items() if isinstance(it, dict)},
        truncated=count_of(truncated),
    )
