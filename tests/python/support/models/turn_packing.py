"""Fixtures and helpers of the tests of turns: templates with their tokenizers and rules, and the documents of each record."""

from __future__ import annotations

import functools
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from campaign import CAMPAIGN
from conftest import DATA
from nested import nested
from template_helpers import NOW, FixedClock, trl_templates
from turn_parts import PartRule
from turn_templates import Kind, kind_of, write_folder

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pyarrow as pa

__all__ = [
    "ALONE",
    "COLUMNS",
    "Loaded",
    "Record",
    "Row",
    "by_record",
    "fixed_time",
    "load",
    "packed",
    "published",
]

Record = dict[str, Any]
Row = tuple[list[int], list[int]]
Loaded = tuple[fastpack.Tokenizer, PartRule]

COLUMNS: Any = ["input_ids", "labels", "source_row"]
ALONE: Any = {
    "max_length": 1 << 16,
    "strategy": "none",
    "max_lost": "100%",
    "on_bad_record": "skip",
    "chat_template": fastpack.ChatTemplate(now=NOW),
}
"""Every document is a row, and records that a template refuses are left out."""


@pytest.fixture(autouse=True, scope="module")
def fixed_time() -> Iterator[None]:
    """Lets templates see the same time in fastpack and in transformers."""
    from transformers.utils import chat_template_utils

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chat_template_utils, "datetime", FixedClock)
        yield


def published() -> dict[str, Kind]:
    """TRL's templates and those at hand that mark no turns; `make campaign` takes all of them."""
    sources = trl_templates()
    for path in sorted((DATA / "templates").glob("*.jinja")) if CAMPAIGN else []:
        sources[path.stem] = path.read_text(encoding="utf-8")
    return {name: kind_of(source) for name, source in sources.items() if "endgeneration" not in source}


@pytest.fixture(scope="session")
def load(tokenizer_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Kind], Loaded]:
    """Gives a tokenizer with the tokens of a template, and the rule for it."""
    from transformers import AutoTokenizer

    @functools.cache
    def made(kind: Kind) -> Loaded:
        folder = write_folder(tokenizer_dir, tmp_path_factory.mktemp("turns") / "model", kind)
        return fastpack.Tokenizer(folder), PartRule(AutoTokenizer.from_pretrained(folder), list(kind.stops))

    return made


def by_record(table: pa.Table, records: list[Record]) -> list[list[Row]]:
    """The documents of each record in a table of one document a row."""
    found: dict[int, list[Row]] = defaultdict(list)
    for row in table.to_pylist():
        (number,) = row["source_row"] if isinstance(row["source_row"], list) else [row["source_row"]]
        found[number - 1].append((row["input_ids"], row["labels"]))
    return [found[number] for number in range(len(records))]


def packed(records: list[Record], tokenizer: fastpack.Tokenizer, **options: Any) -> list[list[Row]]:
    """The documents that fastpack makes of each record; none if no document is left."""
    table = fastpack.pack_records(records, tokenizer, columns=COLUMNS, **nested(options, ALONE))
    return by_record(table, records)
