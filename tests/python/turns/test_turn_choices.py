"""A scan tells the results of each choice of `turns`, a report the cost of splitting, and a row the turn of a document."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from campaign import tries
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rows import table_of
from test_turn_laws import defined
from turn_conversations import conversations
from turn_packing import ALONE, Loaded, Record, load
from turn_rule import Rule, _Chat, without_nulls
from turn_templates import KINDS, Kind

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["load"]

pytest.importorskip("transformers")

CHOICES = ["auto", "each", "last", "whole"]
SOME = [
    "keeps reasoning",
    "drops earlier reasoning",
    "channels",
    "ends before the next",
    "prompt opens a thought",
]
MOST = settings(
    max_examples=tries(1, 60),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
RECORDS = st.lists(conversations(parts=True), min_size=6, max_size=6)


def written(records: list[Record], folder: Path) -> Path:
    path = folder / "records.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def made(path: Path, tokenizer: fastpack.Tokenizer, turns: str) -> pa.Table:
    columns: Any = ["input_ids", "labels", "source_row", "source_turn"]
    return fastpack.pack_files(path, tokenizer, columns=columns, **{**ALONE, "turns": turns})


@pytest.mark.parametrize("name", SOME)
@MOST
@given(records=RECORDS, eos=st.booleans())
def test_a_scan_counts_what_each_choice_of_turns_packs(
    name: str, records: list[Record], eos: bool, load: Callable[[Kind], Loaded], tmp_path: Path
) -> None:
    tokenizer, _ = load(KINDS[name])
    path = written(records, tmp_path)
    more: Any = {
        "strategy": "none",
        "chat_template": ALONE["chat_template"],
        "special_tokens": fastpack.SpecialTokens(eos=eos),
    }
    expected = {}
    for turns in CHOICES:
        table = fastpack.pack_files(
            path,
            tokenizer,
            columns=["input_ids", "labels"],
            **{**ALONE, "turns": turns, "special_tokens": fastpack.SpecialTokens(eos=eos)},
        )
        labels = [label for row in table["labels"].to_pylist() for label in row]
        expected[turns] = (table.num_rows, len(labels), sum(label != -100 for label in labels))
    for turns in CHOICES:
        scan = fastpack.scan(path, tokenizer, max_length=1 << 16, turns=turns, **more)
        assert {choice: counts[:3] for choice, counts in scan.turn_choices.items()} == expected, turns
        assert list(scan.turn_choices) == CHOICES
        assert scan.turn_choices[turns][0] == scan.documents


def rewritten(record: Record, rule: Rule) -> tuple[int, int]:
    """The turns of a conversation, and those that the text of the whole has otherwise than the model writes them."""
    chat = _Chat(rule, without_nulls(record["messages"]), record.get("tools"))
    try:
        whole, turns = chat.text(chat.messages), [turn for turn in chat.turns() if turn.said]
    except Exception:
        return 0, 0
    return len(turns), sum(not whole.startswith(turn.text) for turn in turns)


@pytest.mark.parametrize("name", SOME)
@MOST
@given(records=RECORDS, turns=st.sampled_from(["auto", "each"]))
def test_a_report_tells_what_splitting_costs(
    name: str, records: list[Record], turns: str, load: Callable[[Kind], Loaded], tmp_path: Path
) -> None:
    tokenizer, rule = load(KINDS[name])
    path = written(records, tmp_path)
    report = fastpack.Report.of(made(path, tokenizer, turns))
    split = report.split_conversations
    several = [record for record in records if len(defined(record, rule, turns)) > 1]
    counts = [rewritten(record, rule) for record in several]
    assert (split.records, split.turns) == (len(several), sum(turn for turn, _ in counts))
    assert split.rewritten_turns == sum(wrong for _, wrong in counts)
    for turns_of, tokens in (("last", split.last_tokens), ("whole", split.whole_tokens)):
        # If the last turn is context, `last` trains nothing.
        if not several or not all(defined(record, rule, "last") for record in several):
            continue
        table = made(written(several, tmp_path), tokenizer, turns_of)
        wanted = sum(map(len, table["input_ids"].to_pylist()))
        # If the template rewrites the last turn, the tokens of the whole are estimated.
        assert (abs(tokens - wanted) <= 0.2 * wanted) if turns_of == "whole" else tokens == wanted, (
            turns_of,
            tokens,
            wanted,
        )
    more = split.tokens - split.whole_tokens
    assert any("more than turns=" in it for it in report.warnings) == (
        2 * more > report.tokens.read - more and split.records > 0
    )
    assert ("more than by `whole`" in str(report).replace("\n", " ")) == bool(split.records) or split.records


def numbers(record: Record, rule: Rule, turns: str) -> list[int]:
    """The number of the last trained turn of each document by the rule."""
    speaking = [at for at, message in enumerate(record["messages"]) if message["role"] == "assistant"]
    try:
        documents = rule.documents(record["messages"], record.get("tools"), turns)
    except Exception:
        return []
    labelled = [document for document in documents if rule.labelled([document])]
    return [speaking.index(document.messages[-1]) + 1 for document in labelled]


@pytest.mark.parametrize("name", SOME)
@MOST
@given(records=RECORDS, turns=st.sampled_from(["auto", "each", "last"]))
def test_rows_tell_of_which_turn_a_document_is(
    name: str, records: list[Record], turns: str, load: Callable[[Kind], Loaded], tmp_path: Path
) -> None:
    tokenizer, rule = load(KINDS[name])
    rows = made(written(records, tmp_path), tokenizer, turns).to_pylist()
    found = [(row["source_row"][0], row["source_turn"][0]) for row in rows]
    expected = [(at, turn) for at, record in enumerate(records, 1) for turn in numbers(record, rule, turns)]
    assert found == expected


@pytest.mark.parametrize("turns", CHOICES)
def test_every_call_tells_the_turn_of_a_document(
    turns: str, load: Callable[[Kind], Loaded], tmp_path: Path
) -> None:
    tokenizer, _ = load(KINDS["drops earlier reasoning"])
    talk = [
        {"role": role, "content": f"{role} {turn}", "reasoning_content": f"thought {turn}"}
        for turn in range(3)
        for role in ("user", "assistant")
    ]
    records: list[Record] = [{"messages": talk[: 2 * turn]} for turn in (1, 2, 3, 1)]
    records[1] = {"messages": [*talk[:3], {**talk[3], "train": False}]}
    path = written(records, tmp_path)
    options: Any = {"tokenizer": tokenizer, **ALONE, "turns": turns}
    columns: Any = ["input_ids", "source_file", "source_row", "source_turn"]

    def told(tables: list[pa.Table]) -> list[tuple[int, int]]:
        rows = [row for table in tables for row in table.to_pylist()]
        return [(row["source_row"][0], row["source_turn"][0]) for row in rows]

    alone = told([fastpack.pack_files(path, columns=columns, **options)])
    wanted = {
        "auto": [(1, 1), (2, 1), (3, 1), (3, 2), (3, 3), (4, 1)],
        "each": [(1, 1), (2, 1), (3, 1), (3, 2), (3, 3), (4, 1)],
        "last": [(1, 1), (3, 3), (4, 1)],
        "whole": [(1, 1), (2, 1), (3, 3), (4, 1)],
    }
    assert alone == wanted[turns]
    table = pa.Table.from_pylist(records)
    assert told([fastpack.pack_table(table, columns=columns, **options)]) == alone
    assert told([fastpack.pack_records(iter(records), columns=columns, **options)]) == alone
    for _ in range(2):
        cached = fastpack.pack_files(path, columns=columns, cache_dir=tmp_path / "cache", **options)
        assert told([cached]) == alone
    streamed = fastpack.stream(
        path, epochs=1, shuffle=False, ranks=fastpack.Ranks(lanes=1), columns=columns, **options
    )
    assert told(list(streamed)) == alone
    folders: dict[str, Any] = {"plain": {}, "kept": {"keep_tokens": True}, "groups": {"groups": 64}}
    for folder, more in folders.items():
        fastpack.pack_dir(path, tmp_path / folder, columns=columns, **options, **more)
        assert sorted(told([table_of(tmp_path / folder)])) == alone
    fastpack.repack(
        tmp_path / "kept",
        tmp_path / "again",
        columns=columns,
        max_length=1 << 16,
        strategy="none",
        max_lost="100%",
    )
    assert told([table_of(tmp_path / "again")]) == alone
    compact = fastpack.pack_files(path, columns=columns, **options, padding=64)
    assert [row["source_turn"] for row in compact.to_pylist()] == [[turn, -1] for _, turn in alone]


def test_records_that_are_no_conversations_have_no_turn(tokenizer_dir: Path) -> None:
    records = [{"text": "a river"}, {"text": "a boat"}]
    table = fastpack.pack_records(
        records, tokenizer_dir, max_length=64, columns=["input_ids", "source_turn"], strategy="sequential"
    )
    assert table["source_turn"].to_pylist() == [[0, 0]]


def test_pages_show_the_choices(load: Callable[[Kind], Loaded], tmp_path: Path) -> None:
    tokenizer, _ = load(KINDS["drops earlier reasoning"])
    talk = [
        {"role": role, "content": f"{role} {turn}", "reasoning_content": f"thought {turn}"}
        for turn in range(3)
        for role in ("user", "assistant")
    ]
    path = written([{"messages": talk}] * 4, tmp_path)
    scan = fastpack.scan(path, tokenizer, max_length=512)
    page = " ".join(str(scan).split())
    assert scan.turn_choices["whole"].rewritten_turns == 8
    for turns, choice in scan.turn_choices.items():
        assert f"{turns}: {choice.documents} documents of {choice.tokens:,} tokens" in page
        for html in (scan._repr_html_(), _html(scan, tmp_path)):
            assert f"<td>{turns}</td>" in html
            assert f">{choice.tokens:,}</td>" in html
    sentence = "trains 8 of 12 turns in a form that the model never writes"
    report = fastpack.Report.of(fastpack.pack_files(path, tokenizer, max_length=512))
    for shown in (scan, report):
        assert sentence in " ".join(str(shown).split())
        assert sentence in shown._repr_html_()
        assert any(sentence.replace("trains", "and trains") in it for it in shown.warnings)


def _html(scan: fastpack.ScanReport, folder: Path) -> str:
    scan.to_html(folder / "scan.html")
    return (folder / "scan.html").read_text(encoding="utf-8")
