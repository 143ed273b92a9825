"""`validation` means the same records in every call: by their content, in any form and place."""

from __future__ import annotations

import csv
import json
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from campaign import tries
from conftest import conversation, sentence
from nested import flat

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    Records = list[dict[str, Any]]

ROWS: dict[str, Any] = {"max_length": 4096, "strategy": "none"}


def texts(number: int) -> dict[str, Any]:
    return {"text": f"{number} {sentence(number, 3 + number % 9)}"}


def conversations(number: int) -> dict[str, Any]:
    made = dict(conversation(number))
    tools = [{"name": f"tool {number % 5}", "parameters": {"x": number % 3, "y": None}}]
    messages = [{**message, "name": "Ada" if number % 5 == 0 else None} for message in made["messages"]]
    return {"messages": messages, "tools": tools if number % 4 else None}


def share_gpt(number: int) -> dict[str, Any]:
    names = {"user": "human", "assistant": "gpt"}
    messages = conversation(number)["messages"]
    return {
        "messages": [{"from": names.get(it["role"], it["role"]), "value": it["content"]} for it in messages]
    }


def instructions(number: int) -> dict[str, Any]:
    return {
        "instruction": f"say {number}",
        "input": sentence(number, 4) if number % 2 else "",
        "output": "yes",
    }


def ids(number: int) -> dict[str, Any]:
    return {"input_ids": [1 + (number * at) % 90 for at in range(1, 3 + number % 11)] + [number % 400]}


SHAPES: list[Callable[[int], dict[str, Any]]] = [texts, conversations, share_gpt, instructions, ids]


def lines(path: Path, records: Records) -> Path:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return path


def shuffled(record: Any, chance: random.Random) -> Any:
    """The same record with its keys in another order, and without nulls."""
    if isinstance(record, list):
        return [shuffled(item, chance) for item in record]
    if not isinstance(record, dict):
        return record
    items = [(key, shuffled(value, chance)) for key, value in record.items() if value is not None]
    return dict(chance.sample(items, len(items)))


def documents(tables: Iterable[pa.Table]) -> Counter[tuple[int, ...]]:
    found = Counter(tuple(ids) for table in tables for ids in table["input_ids"].to_pylist())
    # A rank of a stream fills its last table with rows of padding.
    return Counter({ids: count for ids, count in found.items() if len(set(ids)) > 1 or len(ids) > 1})


def of_folder(folder: Path, split: str) -> Counter[tuple[int, ...]]:
    return documents([fastpack.read(folder, split=split).select(["input_ids"])])


def held_out(shape: Callable[[int], Any], seed: int, folder: Path, tokenizer: Any) -> dict[str, Any]:
    """The documents that each call holds out, and those that it trains on."""
    chance = random.Random(seed)
    records = [shape(number) for number in range(60)]
    records += chance.sample(records, 10)
    chance.shuffle(records)
    share = chance.choice([0.1, 0.3, "50%"])
    options: dict[str, Any] = {**ROWS, "validation": share, "seed": seed}
    folder.mkdir()
    whole = lines(folder / "whole.jsonl", records)
    moved = chance.sample(records, len(records))
    parts = folder / "parts"
    parts.mkdir()
    for number in range(4):
        part = [{**shuffled(it, chance), "unread": number} for it in moved[number::4]]
        lines(parts / f"{number}.jsonl", part)
    pq.write_table(pa.Table.from_pylist(records), folder / "whole.parquet", row_group_size=13)
    train, held = flat.pack_files(whole, tokenizer, **options)
    found = {"files": (documents([held]), documents([train]))}

    def packed(name: str, made: Any) -> None:
        found[name] = (documents([made.validation]), documents([made.train]))

    packed("other places", flat.pack_files(parts, tokenizer, **options))
    packed("parquet", flat.pack_files(folder / "whole.parquet", tokenizer, **options))
    packed("table", flat.pack_table(pa.Table.from_pylist(moved), tokenizer, **options))
    packed("records", flat.pack_records(iter(moved), tokenizer, **options))
    packed("cache", flat.pack_files(whole, tokenizer, cache_dir=folder / "cache", **options))
    size = sum(path.stat().st_size for path in parts.iterdir()) // 3
    for name, more in {"folder": {"keep_tokens": True}, "groups": {"group_size": size}}.items():
        flat.pack_dir(parts, folder / name, tokenizer=tokenizer, **options, **more)
        found[name] = (of_folder(folder / name, "validation"), of_folder(folder / name, "train"))
    flat.repack(folder / "folder", folder / "again", **options)
    found["repack"] = (of_folder(folder / "again", "validation"), of_folder(folder / "again", "train"))
    if shape is texts:
        with (folder / "whole.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerows([["text", "other"], *([it["text"], "x"] for it in moved)])
        packed("csv", flat.pack_files(folder / "whole.csv", tokenizer, **options))
    for name, world, files in (
        ("stream", 1, whole),
        ("ranks", 4, parts),
        ("rows", 1, folder / "whole.parquet"),
    ):
        streams = [
            flat.stream(
                files, tokenizer, epochs=1, batch_size=4, rank=rank, world_size=world,
                cache_dir=folder / "counts" if world > 1 else None, **options,
            )
            for rank in range(world)
        ]  # fmt: skip
        held_rows = documents(table for it in streams for table in it.validation)
        found[name] = (held_rows, documents(table for it in streams for table in it))
    return found


@pytest.mark.parametrize("shape", SHAPES, ids=lambda it: it.__name__)
def test_every_call_holds_the_same_records_out(
    shape: Callable[[int], Any], tokenizer_dir: Path, tmp_path: Path
) -> None:
    tokenizer = fastpack.Tokenizer(tokenizer_dir)
    for seed in range(tries(1, 40)):
        found = held_out(shape, seed, tmp_path / str(seed), tokenizer)
        held, train = found["files"]
        assert not set(held) & set(train)
        wrong = [name for name, other in found.items() if other != (held, train)]
        assert not wrong, (seed, wrong)


@pytest.mark.parametrize("wanted", [1, 12, 29])
def test_a_number_holds_the_same_records_out_in_every_call(
    wanted: int, tokenizer_dir: Path, tmp_path: Path
) -> None:
    records = [texts(number) for number in range(40)]
    records += records[:10]
    options: dict[str, Any] = {**ROWS, "validation": wanted, "seed": wanted}
    train, held = flat.pack_files(lines(tmp_path / "a.jsonl", records), tokenizer_dir, **options)
    expected = (documents([held]), documents([train]))
    assert wanted - 1 <= held.num_rows <= wanted
    warnings = fastpack.Report.of(train).warnings
    told = (
        f"{held.num_rows} documents are set aside for validation, not {wanted}: equal records stay together"
    )
    assert (told in warnings) == (held.num_rows < wanted)
    parts = tmp_path / "parts"
    parts.mkdir()
    for number in range(4):
        lines(parts / f"{number}.jsonl", records[number::4])
    for name, more in {"folder": {}, "groups": {"group_size": 700, "keep_tokens": True}}.items():
        report = flat.pack_dir(parts, tmp_path / name, tokenizer=tokenizer_dir, **options, **more)
        of_splits = tuple(of_folder(tmp_path / name, split) for split in ("validation", "train"))
        assert of_splits == expected, name
        assert (told in report.warnings) == (held.num_rows < wanted)
    flat.repack(tmp_path / "groups", tmp_path / "again", **options)
    assert of_folder(tmp_path / "again", "validation") == expected[0]
    table = flat.pack_table(pa.Table.from_pylist(records[::-1]), tokenizer_dir, **options)
    assert documents([table.validation]) == expected[0]
    for world in (1, 4):
        streams = [
            flat.stream(
                tmp_path / "a.jsonl", tokenizer_dir, epochs=1, batch_size=4, rank=rank, world_size=world,
                cache_dir=tmp_path / f"counts-{world}", **options,
            )
            for rank in range(world)
        ]  # fmt: skip
        sides = [it.validation for it in streams]
        held_rows = documents(table for it in sides for table in it)
        assert (held_rows, documents(table for it in streams for table in it)) == expected
        for report in (streams[0].report, sides[0].report):
            assert report is not None
            assert (told in report.warnings) == (held.num_rows < wanted)
    with pytest.raises(fastpack.OptionError, match="which are counted first; give `cache_dir`") as refused:
        flat.stream(tmp_path / "a.jsonl", tokenizer_dir, epochs=1, **options)
    assert refused.value.option == "validation"


def test_a_stream_tells_a_share_that_holds_nothing_or_everything(tokenizer_dir: Path, tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", [texts(0), texts(1)])
    for share, said in ((1e-9, "none"), (1 - 1e-9, "all")):
        stream = flat.stream(path, tokenizer_dir, epochs=1, validation=share, **ROWS)
        for each in (stream, stream.validation):
            list(each)
            assert each.report is not None
            assert f"`validation` holds {said} of the records out that were read" in each.report.warnings
    with pytest.raises(
        fastpack.OptionError, match="sets aside 2 of 2 documents, which leaves none to train on"
    ):
        flat.pack_files(path, tokenizer_dir, validation=1 - 1e-9, **ROWS)
    train, held = flat.pack_files(path, tokenizer_dir, validation=1e-9, **ROWS)
    assert (train.num_rows, held.num_rows) == (2, 0)
    assert (
        "the share 0.000000001 of `validation` sets none of 2 documents aside"
        in fastpack.Report.of(train).warnings
    )


def test_all_turns_of_a_record_are_on_one_side(tokenizer_dir: Path, tmp_path: Path) -> None:
    records = [conversation(number) for number in range(80)]
    places: dict[str, Any] = {
        "columns": ["input_ids", "source_row"],
        "turns": "each",
        "max_length": 4096,
        "strategy": "none",
    }
    files = lines(tmp_path / "a.jsonl", records)
    train, held = flat.pack_files(files, tokenizer_dir, validation=0.3, **places)
    rows = [set(table["source_row"].combine_chunks().flatten().to_pylist()) for table in (train, held)]
    assert rows[1]
    assert not rows[0] & rows[1]
