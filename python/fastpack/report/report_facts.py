"""`ReportFacts`: the values that the reports of a run and of a scan share."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from fastpack._fastpack import REPORT_KEY, one_line
from fastpack.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from typing_extensions import Self

    from fastpack.types import JsonValue

__all__ = [
    "Count",
    "Input",
    "Noted",
    "Place",
    "ReportFacts",
    "SplitConversations",
    "carried_report",
    "count_of",
    "places_of",
    "real",
    "whole",
]


class Count(NamedTuple):
    """A number of documents, and of the tokens in them."""

    documents: int
    tokens: int


class Place(NamedTuple):
    """A record that was left out: its place and the reason."""

    path: str
    line: int
    reason: str
    message: str


class Noted(NamedTuple):
    """A number of records, and the places of the first of them.

    Attributes:
        records: The number of records.
        places: The places of the first of them: `file:line`, and the index of the message for what is said of one, as in
            `chats.jsonl:3, message 2`.
    """

    records: int
    places: tuple[str, ...]


class SplitConversations(NamedTuple):
    """Conversations that became several documents: the chat template rewrites earlier turns, or `turns` is `"each"`.

    Attributes:
        records: The number of conversations.
        places: The places of the first of them: `file:line`.
        documents: Their documents.
        tokens: The tokens of these documents.
        last_tokens: The tokens that `turns="last"` makes of these conversations.
        whole_tokens: The tokens that `turns="whole"` makes of them: estimated from the bytes where the template rewrites
            the last turn too.
        turns: Their trained turns.
        rewritten_turns: The turns that `turns="whole"` would train in a form that the model never writes.
    """

    records: int
    places: tuple[str, ...]
    documents: int
    tokens: int
    last_tokens: int
    whole_tokens: int
    turns: int
    rewritten_turns: int


class Input(NamedTuple):
    """Input files with the same format, shape and settings.

    Attributes:
        files: The number of files.
        format: The container and its compression, such as `jsonl.gz`.
        shape: The shape of their records.
        fields: The fields that were read.
        prompt: The template or prompt that makes text of the records; empty for texts and ids.
        repeat: The number of times that they were read.
        limit: The most records that were read each time, if limited.
        names: The paths of the first files.
    """

    files: int
    format: str
    shape: str
    fields: tuple[str, ...]
    prompt: str
    repeat: int = 1
    limit: int | None = None
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        """A line of the printed report."""
        by = f", by {self.prompt}" if self.prompt else ""
        first = f", the first {self.limit:,}" if self.limit else ""
        times = f", {self.repeat:,} times" if self.repeat > 1 else ""
        fields = one_line(", ".join(self.fields))
        return f"{self.files:,} {self.format}: {self.shape} ({fields}){one_line(by)}{first}{times}"

    @property
    def named(self) -> str:
        """The line with the paths of the first files."""
        more = self.files - len(self.names)
        listed = [*self.names, *([f"and {more:,} more"] if more else [])]
        return f"{self}: {', '.join(listed)}" if self.names else str(self)


class ReportFacts:
    """The counts and settings of a report as attributes, read from its JSON. Read-only."""

    def __init__(self, values: Mapping[str, JsonValue]) -> None:
        """Takes the values that `to_dict` returns."""
        self._values = dict(values)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Reads the JSON of `to_dict`, such as the text of a `report.json`.

        Raises:
            OptionError: The text is not JSON, or not an object.
        """
        return cls(_read_values(text))

    def to_dict(self) -> dict[str, JsonValue]:
        """All values, as in `report.json`."""
        return dict(self._values)

    @property
    def inputs(self) -> list[Input]:
        """The recognised formats and shapes of the files."""
        listed = self._values.get("inputs")
        return [
            _input_of(entry)
            for entry in (listed if isinstance(listed, list) else [])
            if isinstance(entry, dict)
        ]

    @property
    def pictures(self) -> int:
        """The number of pictures in all documents that were read."""
        return whole(self._mapping("pictures").get("pictures"))

    @property
    def picture_tokens(self) -> int:
        """The number of their tokens, the marks around them included."""
        return whole(self._mapping("pictures").get("tokens"))

    @property
    def picture_pixels(self) -> float:
        """The mean number of their pixels; 0 without pictures."""
        return whole(self._mapping("pictures").get("pixels")) / max(self.pictures, 1)

    @property
    def most_picture_pixels(self) -> int:
        """The number of pixels of the largest of them; 0 without pictures."""
        return whole(self._mapping("pictures").get("most_pixels"))

    @property
    def left_out(self) -> dict[str, Noted]:
        """The records with a field that is missing in the text, by field: `tools`, `system content`, `choices`."""
        fields = self._mapping("left_out").items()
        return {field: _noted_of(noted) for field, noted in fields if isinstance(noted, dict)}

    @property
    def formatted_prompts(self) -> Noted:
        """The records with a prompt that is formatted already, and was wrapped again."""
        return _noted_of(self._mapping("formatted_prompts"))

    @property
    def ended_answers(self) -> Noted:
        """The records with an answer that ends in an end-of-text token, before the chat template ends the turn."""
        return _noted_of(self._mapping("ended_answers"))

    @property
    def joined_parts(self) -> Noted:
        """The records with content in lists of texts that the chat template refuses, so that the texts were joined."""
        return _noted_of(self._mapping("joined_parts"))

    @property
    def control_tokens(self) -> Noted:
        """The records with a control token of the tokenizer, such as `<|im_end|>`, in a text of a user or a tool."""
        return _noted_of(self._mapping("control_tokens"))

    @property
    def last_reasoning_left_out(self) -> Noted:
        """The records whose text lacks reasoning of the last turn, in a field or cut out of the content."""
        return _noted_of(self._mapping("last_reasoning_left_out"))

    @property
    def earlier_reasoning_left_out(self) -> Noted:
        """The records whose texts lack reasoning of an earlier turn, in a field or cut out of the content."""
        return _noted_of(self._mapping("earlier_reasoning_left_out"))

    @property
    def calls_left_out(self) -> Noted:
        """The records whose text lacks a call of a tool."""
        return _noted_of(self._mapping("calls_left_out"))

    @property
    def other_openings(self) -> Noted:
        """The records with a turn whose trained text begins elsewhere than the generation prompt ends."""
        return _noted_of(self._mapping("other_openings"))

    @property
    def unended_turns(self) -> Noted:
        """The records with a trained turn that no token and no text ends."""
        return _noted_of(self._mapping("unended_turns"))

    @property
    def untrained_turns(self) -> Noted:
        """The records with a turn of the assistant without any trained token, though the turn was to be trained."""
        return _noted_of(self._mapping("untrained_turns"))

    @property
    def encoded_arguments(self) -> Noted:
        """The records with arguments of calls in JSON text that the chat template encodes a second time."""
        return _noted_of(self._mapping("encoded_arguments"))

    @property
    def printed_as_python(self) -> Noted:
        """The records with content, or arguments of calls, that the chat template prints as Python writes objects and lists."""
        return _noted_of(self._mapping("printed_as_python"))

    @property
    def dropped_reasoning(self) -> Noted:
        """The conversations whose reasoning of earlier turns was removed, because `train_on` asks for it."""
        return _noted_of(self._mapping("dropped_reasoning"))

    @property
    def split_conversations(self) -> SplitConversations:
        """The conversations that became several documents, by `turns`."""
        return _split_of(self._mapping("split_conversations"))

    @property
    def lengths(self) -> dict[str, float]:
        """Quantiles and mean of the lengths of the documents, in tokens."""
        return {name: real(length) for name, length in self._mapping("lengths").items()}

    @property
    def trained_share(self) -> float:
        """The share of the tokens in rows that carry a label, from 0 to 1."""
        return real(self._values.get("trained_share"))

    @property
    def warnings(self) -> list[str]:
        """Warnings about the inputs and the options."""
        listed = self._values.get("warnings")
        return [str(warning) for warning in listed] if isinstance(listed, list) else []

    def _mapping(self, name: str) -> dict[str, JsonValue]:
        value = self._values.get(name)
        return value if isinstance(value, dict) else {}

    def __eq__(self, other: object) -> bool:
        """Compares all values."""
        return isinstance(other, ReportFacts) and type(other) is type(self) and self._values == other._values

    def __hash__(self) -> int:
        """Equal reports have equal hashes."""
        return hash(json.dumps(self._values, sort_keys=True))


def carried_report(table: pa.Table) -> bytes | None:
    """The JSON of the report of the run that made a table; `None` if the table carries none."""
    return (getattr(table.schema, "metadata", None) or {}).get(REPORT_KEY.encode())


def _read_values(text: str | bytes) -> dict[str, JsonValue]:
    try:
        values = json.loads(text)
    except (TypeError, ValueError) as refused:
        message = f"must be the JSON of a report: {refused}"
        raise OptionError(message, "text") from refused
    if not isinstance(values, dict):
        message = f"must be the JSON of a report, which is an object, not a `{type(values).__qualname__}`"
        raise OptionError(message, "text")
    return values


def places_of(listed: JsonValue) -> list[Place]:
    """Reads the places of records that were left out."""
    return [
        Place(str(it.get("path")), whole(it.get("line")), str(it.get("reason")), str(it.get("message")))
        for it in (listed if isinstance(listed, list) else [])
        if isinstance(it, dict)
    ]


def count_of(counts: Mapping[str, JsonValue]) -> Count:
    """Reads a number of documents, and of their tokens."""
    return Count(*(whole(counts.get(name)) for name in Count._fields))


def _input_of(entry: Mapping[str, JsonValue]) -> Input:
    """Reads an entry of `inputs` in a report."""
    fields, names = entry.get("fields"), entry.get("names")
    return Input(
        files=whole(entry.get("files")),
        format=str(entry.get("format", "")),
        shape=str(entry.get("shape") or ""),
        fields=tuple(map(str, fields)) if isinstance(fields, list) else (),
        prompt=str(entry.get("prompt") or ""),
        repeat=whole(entry.get("repeat")) or 1,
        limit=whole(entry.get("limit")) or None,
        names=tuple(map(str, names)) if isinstance(names, list) else (),
    )


def _noted_of(entry: Mapping[str, JsonValue]) -> Noted:
    """Reads a number of records with their first places."""
    places = entry.get("places")
    return Noted(whole(entry.get("records")), tuple(map(str, places)) if isinstance(places, list) else ())


def _split_of(entry: Mapping[str, JsonValue]) -> SplitConversations:
    """Reads the conversations that became several documents."""
    counts = (whole(entry.get(name)) for name in SplitConversations._fields[2:])
    return SplitConversations(*_noted_of(entry), *counts)


def whole(value: JsonValue) -> int:
    """A whole number in a report; 0 if it is missing."""
    return value if isinstance(value, int) else 0


def real(value: JsonValue) -> float:
    """A number in a report; 0 if it is missing."""
    return float(value) if isinstance(value, (int, float)) else 0.0
