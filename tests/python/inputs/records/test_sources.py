"""Several sources, each with settings of its own, are read as they would be alone, one after another."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from conftest import conversation, sentence
from nested import flat

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

QUESTIONS = [{"q": sentence(n, 6), "a": sentence(n + 1, 5), "text": sentence(n, 3)} for n in range(20)]
TEXTS = [{"text": sentence(n, 9)} for n in range(20)]
CHATS = [conversation(n) for n in range(20)]


@pytest.fixture
def files(write_jsonl: Callable[..., Path]) -> dict[str, Path]:
    return {
        "questions": write_jsonl(QUESTIONS, "questions.jsonl"),
        "texts": write_jsonl(TEXTS, "texts.jsonl"),
        "chats": write_jsonl(CHATS, "chats.jsonl"),
    }


def rows(tokenizer: Path, *arguments: Any, **options: Any) -> list[dict[str, Any]]:
    table = flat.pack_files(
        *arguments, tokenizer=tokenizer, **{"max_length": 4096, "strategy": "none", **options}
    )
    return table.to_pylist()


def test_sources_give_the_rows_that_each_gives_alone(files, tokenizer_dir):
    settings: list[dict[str, Any]] = [
        {
            "path": files["questions"],
            "fields": {"question": "q", "answer": "a"},
            "prompt": "Q: {question} A: ",
        },
        {"path": [files["texts"]]},
        {"path": str(files["chats"])},
        {"path": files["questions"], "shape": "text"},
    ]
    alone = [
        row
        for source in settings
        for row in rows(tokenizer_dir, source["path"], **{k: v for k, v in source.items() if k != "path"})
    ]
    for threads in (1, 3):
        assert rows(tokenizer_dir, files=settings, threads=threads) == alone


def test_a_source_leaves_to_the_call_what_it_does_not_say(files, tokenizer_dir):
    fields: Any = {"question": "q", "answer": "a"}
    expected = rows(
        tokenizer_dir, files["questions"], reading=fastpack.Reading(fields=fields, prompt="chatml")
    )
    source: Any = {"path": files["questions"]}
    assert (
        rows(tokenizer_dir, files=[source], reading=fastpack.Reading(fields=fields, prompt="chatml"))
        == expected
    )
    # A shape of its own does not go with the fields of another.
    own: Any = {"path": files["questions"], "shape": "text", "prompt": None}
    texts = rows(tokenizer_dir, files["questions"], reading="text")
    assert rows(tokenizer_dir, files=[own], reading=fastpack.Reading(fields=fields, prompt="chatml")) == texts


@pytest.mark.parametrize("limit", [1, 7, 20, 25, 1000])
@pytest.mark.parametrize("repeat", [1, 3])
def test_limit_takes_the_first_records_and_repeat_reads_them_again(limit, repeat, files, tokenizer_dir):
    texts, chats = rows(tokenizer_dir, files["texts"]), rows(tokenizer_dir, files["chats"])
    both = (texts + chats)[:limit]
    source: Any = {"path": [files["texts"], files["chats"]], "limit": limit, "repeat": repeat}
    other: Any = {"path": files["questions"], "shape": "text", "limit": 2}
    expected = both * repeat + rows(tokenizer_dir, files["questions"], reading="text")[:2]
    for threads in (1, 2):
        assert rows(tokenizer_dir, files=[source, other], threads=threads) == expected


@pytest.mark.parametrize("name", ["blank lines", "array", "table"])
def test_a_limit_counts_records_in_every_container(name, tmp_path, tokenizer_dir):
    pa = pytest.importorskip("pyarrow")
    if name == "blank lines":
        path = tmp_path / "a.jsonl"
        path.write_text("\n\n".join(map(json.dumps, TEXTS)))
    elif name == "array":
        path = tmp_path / "a.json"
        path.write_text(json.dumps(TEXTS))
    else:
        path = tmp_path / "a.arrow"
        table = pa.Table.from_pylist(TEXTS)
        with pa.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=3)
    assert rows(tokenizer_dir, files=[{"path": path, "limit": 8}]) == rows(tokenizer_dir, path)[:8]


def test_a_limited_source_is_accounted_for_and_named_in_the_report(files, tokenizer_dir):
    seen: list[fastpack.Progress] = []
    source: Any = {"path": [files["texts"], files["chats"]], "limit": 5, "repeat": 2}
    table = fastpack.pack_files(files=[source], tokenizer=tokenizer_dir, max_length=512, progress=seen.append)
    report = fastpack.Report.of(table)
    assert report.documents == (10, 10, 0)
    assert [str(it) for it in report.inputs] == ["1 jsonl: text (text), the first 5, 2 times"]
    size = files["texts"].stat().st_size + files["chats"].stat().st_size
    assert seen[-1].bytes == seen[-1].total_bytes == 2 * size


def test_streams_and_folders_take_sources(files, tokenizer_dir, tmp_path):
    sources: Any = [{"path": files["texts"], "limit": 3, "repeat": 2}, {"path": files["chats"], "limit": 4}]
    options: Any = {"files": sources, "tokenizer": tokenizer_dir, "max_length": 256}
    expected = fastpack.pack_files(strategy="sequential", **options).to_pylist()
    stream = fastpack.stream(strategy="sequential", shuffle=False, ranks=fastpack.Ranks(lanes=1), **options)
    assert [row for table in stream for row in table.to_pylist()] == expected
    first = fastpack.pack_dir(output=tmp_path / "out", **options)
    assert fastpack.pack_dir(output=tmp_path / "out", **options) == first
    sources[0]["limit"] = 4
    with pytest.raises(fastpack.OutputError):
        fastpack.pack_dir(output=tmp_path / "out", **options)


def test_the_command_line_takes_sources_as_json_or_in_a_file(files, tokenizer_dir, tmp_path):
    from fastpack.cli import main

    sources = json.dumps([{"path": str(files["texts"]), "limit": 3}])
    (tmp_path / "sources.json").write_text(sources)
    for number, given in enumerate([sources, str(tmp_path / "sources.json")]):
        out = tmp_path / str(number)
        flags = ["--sources", given, "-o", str(out), "-t", str(tokenizer_dir), "-m", "512"]
        assert main(["pack", *flags]) == 0
        assert json.loads((out / "report.json").read_text())["documents"]["read"] == 3


def test_a_file_is_refused_twice_but_for_another_reading(files, tokenizer_dir):
    same: Any = [{"path": files["texts"]}, {"path": files["texts"], "limit": 2}]
    with pytest.raises(fastpack.OptionError, match="named twice"):
        rows(tokenizer_dir, files=same)


WRONG: list[tuple[Any, str]] = [
    ([], "at least one file"),
    ([{"shape": "text"}], "takes records"),
    ([{"path": "a.jsonl"}, {"records": 3}], "source 1 is"),
    ([{"path": "a.jsonl"}, {"path": "b.jsonl", "weight": 2}], "source 1 has `weight`"),
    ([{"path": "a.jsonl", "limit": 0}], "`limit` of source 0 must be a whole number from 1"),
    ([{"path": "a.jsonl", "repeat": 1.5}], "`repeat` of source 0 must be"),
    ([{"path": "a.jsonl", "shape": "texts"}], "`shape` of source 0 must be one of"),
    ([{"path": "a.jsonl", "fields": {"text": ""}}], "`fields` of source 0 names a field without a name"),
    ([{"path": "a.jsonl", "prompt": 7}], "`prompt` of source 0 must be"),
]


@pytest.mark.parametrize(("sources", "said"), WRONG)
def test_a_source_that_cannot_be_used_is_refused(sources, said, tokenizer_dir):
    with pytest.raises(fastpack.OptionError, match=said) as caught:
        rows(tokenizer_dir, files=sources)
    assert caught.value.option == "files"


def test_paths_stand_beside_sources_and_one_is_needed(files, tokenizer_dir):
    both = rows(tokenizer_dir, [files["texts"], {"path": files["chats"], "limit": 3}])
    assert both == rows(tokenizer_dir, files["texts"]) + rows(tokenizer_dir, files["chats"])[:3]
    with pytest.raises(fastpack.OptionError, match="must name at least one file"):
        rows(tokenizer_dir)
    with pytest.raises(fastpack.OptionError, match="`tokenizer`: must be given"):
        fastpack.pack_files(files["texts"], max_length=8)
