"""Compiled programs render a chat template as the interpreter does, whatever the conversation was read from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from conftest import sentence
from containers import CONTAINERS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nested import nested
from template_helpers import CONVERSATIONS, NOW, TOOLS, UNMARKED, trl_templates, unfollowed

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TEMPLATES = ["unmarked", "gemma", "glm4moe_training", "phi3", "qwen2_5_training", "qwen3", "qwen3_training"]

CHOICES: list[dict[str, Any]] = [
    {},
    {"train_on": "assistant"},
    {"train_on": "all"},
    {"turns": "last"},
    {"special_tokens": fastpack.SpecialTokens(train_on_eos="turn")},
    {"special_tokens": fastpack.SpecialTokens(train_on_eos="last")},
    {"special_tokens": fastpack.SpecialTokens(train_on_eos="none"), "overlong": "trim"},
    {"overlong": "trim"},
]


def source_of(template: str) -> str:
    """A template by the name that it has here."""
    return UNMARKED if template == "unmarked" else trl_templates()[template]


def said(number: int) -> str:
    """Some text, with blanks around it and thoughts in it now and then."""
    return [sentence(number, 5), f"\n {sentence(number, 3)}\t", "<think>\nso\n</think>\n\nyes", ""][
        number % 4
    ]


def asked(number: int) -> list[dict[str, Any]]:
    """A prompt of one, two or three messages."""
    system = [{"role": "system", "content": said(number + 3)}]
    before = [{"role": "user", "content": "a"}, {"role": "assistant", "content": said(number + 2)}]
    more: list[list[dict[str, Any]]] = [[], system, before]
    return [*more[number % 3], {"role": "user", "content": said(number)}]


def answered(number: int) -> list[dict[str, Any]]:
    """A completion of one message or three."""
    last = {"role": "assistant", "content": said(number + 1)}
    call = {"type": "function", "function": {"name": "find", "arguments": {"items": [said(number)]}}}
    tool = {"role": "tool", "name": "find", "content": said(number + 2)}
    return (
        [{"role": "assistant", "content": "", "tool_calls": [call]}, tool, last]
        if number % 5 == 4
        else [last]
    )


RECORDS: dict[str, list[dict[str, Any]]] = {
    "instructions": [
        {"instruction": said(n), "input": said(n + 2), "output": said(n + 1) or "x", "system": said(n + 3)}
        for n in range(24)
    ],
    "questions": [{"question": said(n), "answer": said(n + 1) or "x"} for n in range(24)],
    "completions": [{"prompt": asked(n), "completion": answered(n)} for n in range(24)],
    "completions with tools": [
        {"prompt": asked(n), "completion": answered(n), "tools": TOOLS[: 1 + n % 2]} for n in range(24)
    ],
    "completions with weights": [
        {"prompt": asked(n), "completion": [{**answered(3)[0], "weight": n % 3 / 2}]} for n in range(24)
    ],
    "conversations with a system": [
        {"messages": [{"role": "user", "content": said(n)}, *answered(n)], "system": said(n + 2)}
        for n in range(24)
    ],
}


def packed(records: list[dict[str, Any]], tokenizer: Path, template: str, **options: Any) -> pa.Table:
    """The rows, bad records left out."""
    return fastpack.pack_records(
        records,
        tokenizer,
        max_length=4096,
        chat_template=fastpack.ChatTemplate(template, now=NOW),
        on_bad_record="skip",
        max_lost="100%",
        columns=["input_ids", "labels", "loss_weights"],
        **options,
    )


@pytest.mark.parametrize("kind", RECORDS)
@pytest.mark.parametrize("template", TEMPLATES)
def test_records_of_any_shape_are_the_same_on_both_roads(
    kind: str, template: str, tokenizer_dir: Path
) -> None:
    source, records = source_of(template), RECORDS[kind]
    for options in CHOICES:
        compiled = packed(records, tokenizer_dir, source, **options)
        assert compiled.equals(packed(records, tokenizer_dir, unfollowed(source), **options)), options
        # A template with marks shows the assistant's text; the completion of a prompt shows always.
        assert compiled.num_rows > 0 or options, kind


def test_completions_alone_are_the_same_on_both_roads(tokenizer_dir: Path) -> None:
    records = RECORDS["completions"]
    for source in map(source_of, TEMPLATES):
        compiled = packed(records, tokenizer_dir, source, train_on="completion")
        assert compiled.equals(packed(records, tokenizer_dir, unfollowed(source), train_on="completion"))


@pytest.mark.parametrize("options", [{}, {"special_tokens": fastpack.SpecialTokens(train_on_eos="turn")}])
def test_a_conversation_without_a_prompt_has_no_completion_on_either_road(
    options: dict[str, Any], corpus: Path, tokenizer_dir: Path
) -> None:
    for source in (UNMARKED, unfollowed(UNMARKED)):
        with pytest.raises(fastpack.RecordError, match="no completion"):
            fastpack.pack_files(
                corpus, tokenizer_dir, max_length=512, chat_template=source, train_on="completion", **options
            )


TEXTS = st.one_of(
    st.sampled_from(
        ["", " ", "x", " padded\t\n", "<think>\nwhy\n</think>\n\nso", "a</think>b", "<|end|>\n<|start|>"]
    ),
    st.text(st.sampled_from("ab \n\t<>|/think\u00a0é🎉\x85\x1c"), max_size=12),
)
ROLES = st.sampled_from(["user", "assistant", "user", "assistant", "system", "tool"])
SPOKEN = st.lists(
    st.builds(lambda role, text: {"role": role, "content": text}, ROLES, TEXTS), min_size=1, max_size=3
)
DRAWN = st.one_of(
    st.lists(
        st.builds(
            lambda ask, about, say: {"instruction": ask, "input": about, "output": say}, TEXTS, TEXTS, TEXTS
        ),
        min_size=1,
        max_size=6,
    ),
    st.lists(
        st.builds(lambda prompt, completion: {"prompt": prompt, "completion": completion}, SPOKEN, SPOKEN),
        min_size=1,
        max_size=6,
    ),
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(TEMPLATES), DRAWN, st.sampled_from(CHOICES))
def test_records_replay_as_they_render(
    tokenizer_dir: Path, template: str, records: list[dict[str, Any]], options: dict[str, Any]
) -> None:
    source = source_of(template)
    compiled = packed(records, tokenizer_dir, source, **options)
    assert compiled.equals(packed(records, tokenizer_dir, unfollowed(source), **options))


def reported(path: Path, tokenizer: Path, out: Path, **options: Any) -> fastpack.Report:
    """The report of a run over a file."""
    return fastpack.pack_dir(
        path,
        out,
        tokenizer=tokenizer,
        max_length=512,
        **nested({"now": NOW}, options),
    )


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("kind", ["instructions", "questions", "completions", "plain"])
def test_records_of_every_container_are_compiled(
    kind: str, container: str, tokenizer_dir: Path, tmp_path: Path
) -> None:
    if kind == "completions" and {"csv", "tsv"} & set(container.split(".")):
        pytest.skip("a cell holds a text, which is a prompt as it stands")
    records = RECORDS.get(kind, [CONVERSATIONS["multi-turn"], CONVERSATIONS["system"]])
    path = tmp_path / f"data.{container}"
    path.write_bytes(CONTAINERS[container](records))
    report = reported(path, tokenizer_dir, tmp_path / "out", chat_template=UNMARKED)
    assert report.template_engine == "compiled"
    assert (report.compiled_conversations, report.interpreted_conversations) == (len(records), 0)


def test_the_report_counts_the_conversations_of_each_road(
    tokenizer_dir: Path, write_jsonl: Callable[..., Path], tmp_path: Path
) -> None:
    plain = [{"messages": [*asked(0), *answered(number)]} for number in range(4)]
    # A value that no program can be asked for again, since it is equal to nothing.
    odd = {"messages": [{"role": "user", "content": "a", "score": float("nan")}, *answered(0)]}
    path = write_jsonl([*plain, odd])
    report = reported(path, tokenizer_dir, tmp_path / "some", chat_template=UNMARKED)
    assert (report.compiled_conversations, report.interpreted_conversations) == (4, 1)
    assert "4 of 5 conversations were put into text by compiled programs" in str(report)
    # It depends on the threads of a run, so that no table carries it.
    table = fastpack.pack_files(path, tokenizer_dir, max_length=512, chat_template=UNMARKED)
    told = fastpack.Report.of(table)
    assert (told.compiled_conversations, told.interpreted_conversations) == (None, None)
    slow = reported(path, tokenizer_dir, tmp_path / "none", chat_template=unfollowed(UNMARKED))
    assert (slow.compiled_conversations, slow.interpreted_conversations) == (0, 5)
    assert (slow.template_engine, "compiled programs" in str(slow)) == ("interpreted", False)


def test_texts_are_no_conversations(
    tokenizer_dir: Path, write_jsonl: Callable[..., Path], tmp_path: Path
) -> None:
    path = write_jsonl([{"prompt": "a", "completion": "b"}, {"prompt": "c", "completion": "d"}])
    report = reported(path, tokenizer_dir, tmp_path / "out")
    assert (report.compiled_conversations, report.interpreted_conversations) == (0, 0)
    assert report.template_engine == ""


def test_rows_of_a_table_are_the_same_on_both_roads(tokenizer_dir: Path) -> None:
    for kind in ("instructions", "questions"):
        table = pa.Table.from_pylist(json.loads(json.dumps(RECORDS[kind])))
        tables = [
            fastpack.pack_table(table, tokenizer=tokenizer_dir, max_length=512, chat_template=source)
            for source in (UNMARKED, unfollowed(UNMARKED))
        ]
        assert tables[0].equals(tables[1])


@pytest.mark.parametrize("lists", [pa.list_, pa.large_list, pa.list_view])
@pytest.mark.parametrize(
    "texts",
    [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())],
    ids=str,
)
@pytest.mark.parametrize("names", [("role", "content"), ("from", "value")], ids="/".join)
def test_rows_say_what_lines_say_whatever_their_types(
    names: tuple[str, str],
    texts: pa.DataType,
    lists: Callable[[pa.DataType], pa.DataType],
    tokenizer_dir: Path,
    tmp_path: Path,
    write_jsonl: Callable[..., Path],
) -> None:
    records = []
    for number in range(12):
        messages = [dict(zip(names, message.values(), strict=True)) for message in asked(number)]
        last = {names[0]: "assistant", names[1]: said(number + 1)}
        # Fields of some records are null in the others.
        records.append({"messages": [*messages, last | ({"weight": 0.5} if number % 3 == 2 else {})]})
    # A null among the messages, and none at all: rows are refused as lines are.
    records += [{"messages": [None, *records[0]["messages"]]}, {"messages": []}, {"messages": None}]
    message = pa.struct([(names[0], texts), (names[1], texts), ("weight", pa.float64())])
    schema = pa.schema([("noise", pa.int64()), ("messages", lists(message)), ("tools", pa.null())])
    rows = [{"noise": 1, "tools": None} | record for record in records]
    with pa.ipc.new_stream(tmp_path / "rows.arrow", schema) as writer:
        for start in range(0, len(rows), 4):
            writer.write_table(pa.Table.from_pylist(rows[start : start + 4], schema=schema))
    packed = []
    for path in (write_jsonl(records), tmp_path / "rows.arrow"):
        table = fastpack.pack_files(
            path,
            tokenizer_dir,
            max_length=4096,
            chat_template=UNMARKED,
            on_bad_record="skip",
            columns=["input_ids", "labels", "loss_weights", "source_row"],
        )
        report = json.loads(table.schema.metadata[b"fastpack"])
        packed.append((table.to_pydict(), report["dropped"]))
    assert packed[0] == packed[1]
    assert packed[0][0]["input_ids"]
