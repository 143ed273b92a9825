"""Fields that a chat template leaves out, prompts that are formatted already, and answers that are ended already, are told."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from campaign import tries
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from template_helpers import SPECIAL_TOKENS, UNMARKED, reference, trl_templates, unfollowed

import fastpack
from fastpack import cli

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

Record = dict[str, Any]

# It prints the texts of users and the assistant, and nothing else of a record.
SPOKEN = """{% for m in messages %}{% if m.role == 'user' or m.role == 'assistant' %}<|start|>{{ m.role }}
{% generation %}{{ m.content | trim }}<|end|>{% endgeneration %}
{% endif %}{% if m.tool_calls and not m.content %}a call{% endif %}{% endfor %}"""
HEADERS = SPOKEN.replace("{% generation %}", "").replace("{% endgeneration %}", "")
# The text of every message is computed, and only some of it is printed.
CHANGED = """{% macro said(m) %}{{ m.role ~ ': ' ~ m.content|upper }}{% endmacro %}\
{% set ns = namespace(kept='') %}{% for m in messages %}{% set text = said(m) %}\
{% if m.role != 'system' %}{% set ns.kept = ns.kept + text + '<|end|>' %}{% endif %}{% endfor %}{{ ns.kept }}"""

TOOLS = [{"type": "function", "function": {"name": "find", "description": "Finds.", "parameters": {}}}]
CALLS = [{"type": "function", "function": {"name": "find", "arguments": {"text": "river"}}}]


def turn(role: str, content: str | None, **more: Any) -> Record:
    return {"role": role, "content": content, **more}


@pytest.fixture
def records() -> list[Record]:
    """Twelve records: a system text in every second, tools and calls in every third, and reasoning in every fourth."""

    def record(at: int) -> Record:
        answer = turn("assistant", f"answer {at}")
        if at % 4 == 0:
            answer["reasoning_content"] = f"because {at}"
        messages = [turn("user", f"question {at}"), answer]
        if at % 2 == 0:
            messages.insert(0, turn("system", f"rules {at}"))
        if at % 3 == 0:
            messages.insert(-1, turn("assistant", "", tool_calls=CALLS))
        return {"messages": messages, **({"tools": TOOLS} if at % 3 == 0 else {})}

    return [record(at) for at in range(12)]


EXPECTED = {"system content": 6, "tools": 4, "tool_calls": 4, "reasoning_content": 3}


def counts(report: fastpack.Report | fastpack.ScanReport) -> dict[str, int]:
    return {field: noted.records for field, noted in report.left_out.items()}


def of_records(records: Iterable[Record], tokenizer: Path, **options: Any) -> fastpack.Report:
    return fastpack.Report.of(fastpack.pack_records(records, tokenizer, max_length=512, **options))


def streamed(path: Path, tokenizer: Path, template: str) -> fastpack.Report:
    stream = fastpack.stream(path, tokenizer, max_length=512, batch_size=1, chat_template=template)
    list(stream)
    assert stream.report is not None
    return stream.report


ROADS: dict[str, Callable[[Path, Path, Path, str], fastpack.Report | fastpack.ScanReport]] = {
    "records": lambda path, tok, _, template: of_records(
        map(json.loads, path.read_text().splitlines()), tok, chat_template=template
    ),
    "table": lambda path, tok, _, template: fastpack.Report.of(
        fastpack.pack_table(
            pa.Table.from_pylist([json.loads(line) for line in path.read_text().splitlines()]),
            tok,
            max_length=512,
            chat_template=template,
        )
    ),
    "files": lambda path, tok, _, template: fastpack.Report.of(
        fastpack.pack_files(path, tok, max_length=512, chat_template=template, threads=2)
    ),
    "folder": lambda path, tok, out, template: fastpack.pack_dir(
        path, out, tokenizer=tok, max_length=512, chat_template=template
    ),
    "kept tokens": lambda path, tok, out, template: (
        fastpack.pack_dir(path, out, tokenizer=tok, max_length=512, chat_template=template, keep_tokens=True)
        and fastpack.repack(out, out.with_name("again"), max_length=256)
    ),
    "scan": lambda path, tok, _, template: fastpack.scan(path, tok, max_length=512, chat_template=template),
    "stream": lambda path, tok, _, template: streamed(path, tok, template),
}


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize(
    "template",
    [SPOKEN, HEADERS, unfollowed(SPOKEN), unfollowed(HEADERS)],
    ids=["programs", "headers", "interpreted", "interpreted headers"],
)
def test_fields_that_a_template_leaves_out_are_counted_on_every_road(
    road: str, template: str, records: list[Record], write_jsonl, tokenizer_dir: Path, tmp_path: Path
) -> None:
    path = write_jsonl(records, "talks.jsonl")
    report = ROADS[road](path, tokenizer_dir, tmp_path / "packed", template)
    assert counts(report) == EXPECTED
    said = [warning for warning in report.warnings if "leaves `" in warning]
    assert len(said) == len(EXPECTED)


def test_the_first_places_are_named(records: list[Record], write_jsonl, tokenizer_dir: Path) -> None:
    path = write_jsonl(records, "talks.jsonl")
    report = fastpack.Report.of(
        fastpack.pack_files(path, tokenizer_dir, max_length=512, chat_template=SPOKEN)
    )
    assert report.left_out["tools"].places == (f"{path}:1", f"{path}:4", f"{path}:7")
    assert report.left_out["system content"].places == (f"{path}:1", f"{path}:3", f"{path}:5")
    assert any(f"`tools` out of the text of 4 records, first at {path}:1" in it for it in report.warnings)
    assert "tools of 4 records" in str(report)


def test_pages_show_the_fields(
    records: list[Record], write_jsonl, tokenizer_dir: Path, tmp_path: Path
) -> None:
    path = write_jsonl(records, "talks.jsonl")
    report = fastpack.Report.of(
        fastpack.pack_files(path, tokenizer_dir, max_length=512, chat_template=SPOKEN)
    )
    report.to_html(tmp_path / "report.html")
    scan = fastpack.scan(path, tokenizer_dir, max_length=512, chat_template=SPOKEN)
    scan.to_html(tmp_path / "scan.html")
    pages = [(tmp_path / name).read_text("utf-8") for name in ("report.html", "scan.html")]
    for page in [*pages, report._repr_html_(), scan._repr_html_()]:
        table = page[page.index("left out of the text") :]
        assert "tool_calls" in table
        assert f"{path}:1" in table


def test_the_template_that_prints_all_leaves_nothing_out(
    records: list[Record], write_jsonl, tokenizer_dir: Path
) -> None:
    spoken = [{"messages": [m for m in it["messages"] if "tool_calls" not in m]} for it in records]
    for it in spoken:
        for message in it["messages"]:
            message.pop("reasoning_content", None)
    report = fastpack.Report.of(
        fastpack.pack_files(write_jsonl(spoken), tokenizer_dir, max_length=512, chat_template=UNMARKED,
                            train_on="all")
    )  # fmt: skip
    assert report.left_out == {}
    assert report.formatted_prompts.records == report.ended_answers.records == 0
    assert report.warnings == []


@pytest.mark.parametrize("template", [CHANGED, unfollowed(CHANGED)], ids=["programs", "interpreted"])
def test_what_is_computed_and_not_printed_is_left_out(template: str, tokenizer_dir: Path) -> None:
    talk = {"messages": [turn("system", "rules"), turn("user", "a"), turn("assistant", "b")]}
    report = of_records([talk, talk], tokenizer_dir, chat_template=template, train_on="all")
    assert counts(report) == {"system content": 2}


def test_fields_of_no_account_are_counted_without_a_warning(tokenizer_dir: Path) -> None:
    talk = {"messages": [turn("user", "a", id="x1"), turn("assistant", "b", model="m")]}
    report = of_records([talk], tokenizer_dir, chat_template=SPOKEN)
    assert counts(report) == {"id": 1, "model": 1}
    assert report.warnings == []


def test_blank_and_null_values_are_not_counted(tokenizer_dir: Path) -> None:
    talk = {
        "messages": [
            turn("system", "  \n"),
            turn("user", "a", reasoning_content=""),
            turn("assistant", "b", tool_calls=[], thinking=None),
        ],
        "tools": [],
    }
    assert counts(of_records([talk], tokenizer_dir, chat_template=SPOKEN)) == {}


def test_the_counts_do_not_depend_on_threads(records: list[Record], write_jsonl, tokenizer_dir: Path) -> None:
    path = write_jsonl(records * 400, "talks.jsonl")
    one, many = (
        fastpack.Report.of(
            fastpack.pack_files(path, tokenizer_dir, max_length=512, chat_template=SPOKEN, threads=threads)
        )
        for threads in (1, 4)
    )
    assert one.left_out == many.left_out
    assert counts(one) == {field: 400 * count for field, count in EXPECTED.items()}


def test_a_resumed_stream_counts_all(records: list[Record], write_jsonl, tokenizer_dir: Path) -> None:
    path = write_jsonl(records * 20, "talks.jsonl")

    def stream() -> fastpack.PackStream:
        return fastpack.stream(path, tokenizer_dir, max_length=64, batch_size=2, chat_template=SPOKEN, seed=3)

    first = stream()
    for _ in itertools.islice(first, 3):
        pass
    second = stream()
    second.load_state_dict(first.state_dict())
    list(second)
    assert second.report is not None
    assert counts(second.report) == {field: 20 * count for field, count in EXPECTED.items()}


# --- compared with transformers: a value was printed if one of its words is in the text ---

# They join the reasoning and the answer, and split the result: its parts count as made of both.
JOINED = {name for name in trl_templates() if name.startswith("nemotron_3")}

SLOTS = st.sampled_from(["system", "tools", "tool_calls", "reasoning_content", "name", "parts"])


def spoken_record(slots: set[str], turns: int) -> tuple[Record, list[tuple[str, list[str]]]]:
    """A record in which every word occurs once, and the words of each value by the name of its field."""
    numbers = itertools.count()

    def word(words: list[str]) -> str:
        words.append(f"qz{next(numbers)}zq")
        return words[-1]

    values: list[tuple[str, list[str]]] = []

    def field(name: str) -> list[str]:
        values.append((name, []))
        return values[-1][1]

    messages: list[Record] = []
    if "system" in slots:
        messages.append(turn("system", word(field("system content"))))
    for at in range(turns):
        asked = word(field("user content"))
        messages.append(turn("user", asked))
        if "parts" in slots and at == 0:
            messages[-1]["content"] = [{"type": "text", "text": asked}]
        if "tool_calls" in slots and at == 0:
            said = field("tool_calls")
            call = {"name": word(said), "arguments": {"text": word(said)}}
            messages.append(turn("assistant", "", tool_calls=[{"type": "function", "function": call}]))
            messages.append(turn("tool", word(field("tool content"))))
        answer = turn("assistant", word(field("assistant content")))
        if "reasoning_content" in slots:
            answer["reasoning_content"] = word(field("reasoning_content"))
        if "name" in slots:
            answer["name"] = word(field("name"))
        messages.append(answer)
    record: Record = {"messages": messages}
    if "tools" in slots:
        said = field("tools")
        tool = {"name": word(said), "description": word(said)}
        text = {"type": "string", "description": word(said)}
        tool["parameters"] = {"type": "object", "properties": {"text": text}, "required": ["text"]}
        record["tools"] = [{"type": "function", "function": tool}]
    return record, values


@pytest.mark.parametrize("name", [*trl_templates(), "changed"])
@settings(
    max_examples=tries(4, 40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(slots=st.sets(SLOTS), turns=st.integers(1, 3))
def test_what_is_left_out_is_what_transformers_does_not_print(
    name: str, slots: set[str], turns: int, bare_tokenizer_dir: Path
) -> None:
    source = CHANGED if name == "changed" else trl_templates()[name]
    record, values = spoken_record(slots, turns)
    try:
        text = reference(source, record).lower()
    except Exception:
        return
    expected = {field for field, words in values if not any(word in text for word in words)}
    for template in (source, unfollowed(source)):
        options = {
            "chat_template": fastpack.ChatTemplate(template, variables=SPECIAL_TOKENS),
            "train_on": "all",
            "max_length": 4096,
        }
        report = fastpack.Report.of(
            fastpack.pack_records([record, record], bare_tokenizer_dir, **options, max_lost="100%")
        )
        found = set(report.left_out)
        least = expected - {"reasoning_content"} if name in JOINED else expected
        assert least <= found <= expected, (report.template_engine, text)
        assert all(noted.records == 2 for noted in report.left_out.values())


# --- prompts that are formatted already, and answers that end in an end-of-text token ---

FORMATTED = [
    "Below is an instruction.\n\n### Instruction:\nAdd.\n\n### Response:",
    "<|im_start|>user\nAdd.<|im_end|>\n<|im_start|>assistant\n",
    "[INST] Add. [/INST]",
    "\n\nHuman: Add.\n\nAssistant:",
    "<|start|>user\nAdd.",
]


@pytest.mark.parametrize("template", [SPOKEN, HEADERS, unfollowed(SPOKEN)])
@pytest.mark.parametrize("prompt", FORMATTED)
def test_a_prompt_that_is_formatted_already_is_told(
    prompt: str, template: str, write_jsonl, tokenizer_dir
) -> None:
    def talk(content: Any) -> Record:
        return {"messages": [turn("user", content), turn("assistant", "Done.")]}

    records = [talk("Add."), talk(prompt), talk([{"type": "text", "text": prompt}])]
    path = write_jsonl(records, "talks.jsonl")
    template = template.replace(
        "m.content | trim", "(m.content if m.content is string else m.content[0].text) | trim"
    )
    for road in ("files", "scan", "records", "stream"):
        report = ROADS[road](path, tokenizer_dir, path, template)
        assert report.formatted_prompts.records == 2
        assert [it for it in report.warnings if "formatted already" in it]


def test_a_request_that_is_formatted_already_is_told_where_it_is_wrapped(write_jsonl, tokenizer_dir) -> None:
    asked = {"instruction": FORMATTED[0], "output": "Done."}
    report = of_records([asked], tokenizer_dir)
    assert report.formatted_prompts.records == 1
    assert (
        of_records(
            [asked], tokenizer_dir, reading=fastpack.Reading(prompt="alpaca")
        ).formatted_prompts.records
        == 1
    )
    joined = {"prompt": FORMATTED[0], "completion": "Done."}
    assert of_records([joined], tokenizer_dir).formatted_prompts.records == 0


@pytest.mark.parametrize("template", [SPOKEN, HEADERS, unfollowed(SPOKEN)])
def test_an_answer_that_is_ended_already_is_told(template: str, write_jsonl, tokenizer_dir) -> None:
    talks = [
        {"messages": [turn("user", "Add.<|endoftext|>"), turn("assistant", f"Done.{end}")]}
        for end in ("", "<|endoftext|>", "<|endoftext|>\n", "<|endoftext|>.", "</s>")
    ]
    path = write_jsonl(talks, "talks.jsonl")
    for road in ("files", "scan", "records", "table", "stream"):
        report = ROADS[road](path, tokenizer_dir, path, template)
        assert report.ended_answers.records == 2, road
        assert [it for it in report.warnings if "end-of-text token" in it]


def test_scan_on_the_command_line_tells_them(
    records: list[Record],
    write_jsonl,
    tokenizer_dir: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = write_jsonl(records, "talks.jsonl")
    template = tmp_path / "spoken.jinja"
    template.write_text(SPOKEN, encoding="utf-8")
    arguments = ["scan", str(path), "-t", str(tokenizer_dir), "-m", "512", "--chat-template", str(template)]
    assert cli.main(arguments) == 0
    said = capsys.readouterr()
    assert "tool_calls of 4 records" in said.out
    assert cli.main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["left_out"]["tools"]["records"] == 4
