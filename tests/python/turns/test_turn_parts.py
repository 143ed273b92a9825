"""Roles and parts of turns are trained as a `TrainOn` says, and the tokens stay those of `train_on="assistant"`."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from campaign import tries
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nested import flat
from rows import table_of
from template_helpers import unfollowed
from turn_conversations import TOOLS, conversations, kinds
from turn_packing import ALONE, COLUMNS, Loaded, Record, by_record, fixed_time, load, packed, published
from turn_templates import KINDS, Kind, write_folder

import fastpack
from fastpack import TrainOn

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from turn_parts import PartRule

pytest.importorskip("transformers")

__all__ = ["fixed_time", "load"]

CHOICES = {
    "reasoning": TrainOn(mask_reasoning_content=True),
    "calls": TrainOn(mask_tool_calls=True),
    "both": TrainOn(mask_reasoning_content=True, mask_tool_calls=True),
    "tools": TrainOn(roles=["tool"]),
    "roles": TrainOn(roles=["assistant", "tool", "user"]),
    "prompt": TrainOn(mask_generation_prompt=False),
    "all": TrainOn(
        roles=["assistant", "tool", "system"],
        mask_reasoning_content=True,
        mask_tool_calls=True,
        mask_generation_prompt=False,
    ),
    "dropped": TrainOn(drop_history_reasoning_content=True),
    "dropped and masked": TrainOn(mask_reasoning_content=True, drop_history_reasoning_content=True),
}
KEEPING = [name for name in CHOICES if "dropped" not in name]


def defined(record: Record, rule: PartRule, turns: str, train_on: TrainOn) -> list[Any]:
    """The documents by the rule; none if the template or the rule refuses the conversation."""
    try:
        documents = rule.parted(record["messages"], record.get("tools"), turns, train_on)
    except Exception:
        return []
    return rule.labelled(documents)


def compare(records: list[Record], loaded: Loaded, names: list[str], turns: str) -> int:
    """Holds fastpack against the rule; returns the number of documents."""
    tokenizer, rule = loaded
    made = 0
    for name in names:
        train_on: Any = CHOICES[name]
        if turns == "last" and set(train_on.roles) != {"assistant"}:
            continue
        found = packed(records, tokenizer, turns=turns, train_on=train_on)
        for record, rows in zip(records, found, strict=True):
            expected = defined(record, rule, turns, train_on)
            made += len(expected)
            assert rows == expected, (name, turns, json.dumps(record, ensure_ascii=False))
    return made


SOME = st.lists(conversations(parts=True), min_size=3, max_size=3)
TURNS = st.sampled_from(["auto", "auto", "each", "last"])
MOST = settings(max_examples=tries(1, 60), suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("name", KINDS)
@MOST
@given(records=SOME, turns=TURNS)
def test_parts_of_turns_are_trained_as_defined(
    name: str, records: list[Record], turns: str, load: Callable[[Kind], Loaded]
) -> None:
    compare(records, load(KINDS[name]), list(CHOICES), turns)


@settings(max_examples=tries(4, 1000), suppress_health_check=list(HealthCheck))
@given(
    kind=st.sampled_from(list(published().values())),
    records=st.lists(conversations(), min_size=3, max_size=3),
    turns=TURNS,
)
def test_parts_of_turns_of_published_templates_are_trained_as_defined(
    kind: Kind, records: list[Record], turns: str, load: Callable[[Kind], Loaded]
) -> None:
    compare(records, load(kind), list(CHOICES), turns)


@settings(max_examples=tries(3, 600), suppress_health_check=list(HealthCheck))
@given(kind=kinds(), records=SOME, turns=TURNS)
def test_parts_of_turns_of_random_templates_are_trained_as_defined(
    kind: Kind, records: list[Record], turns: str, load: Callable[[Kind], Loaded]
) -> None:
    compare(records, load(kind), list(CHOICES), turns)


CALL = {"id": "abcdefgh1", "type": "function", "function": {"name": "weather", "arguments": {"city": "Rome"}}}
AGENTIC: Record = {
    "messages": [
        {"role": "user", "content": "Weather in Rome?"},
        {"role": "assistant", "content": "", "reasoning_content": "I ask.", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "abcdefgh1", "name": "weather", "content": "sunny"},
        {"role": "assistant", "content": "Sunny.", "reasoning_content": "It says so."},
        {"role": "user", "content": "Sure?"},
        {"role": "assistant", "content": "<think>\nAm I?\n</think>\n\nYes."},
    ],
    "tools": TOOLS,
}


def stretches(rows: list[Any], tokenizer: fastpack.Tokenizer) -> list[list[str]]:
    """The trained stretches of each document."""
    documents = []
    for ids, labels in rows:
        found: list[list[int]] = []
        for before, token, label in zip([-100, *labels], ids, labels, strict=False):
            if label != -100 and before == -100:
                found.append([])
            if label != -100:
                found[-1].append(token)
        documents.append([tokenizer.decode(stretch) for stretch in found])
    return documents


def trained(name: str, train_on: Any, load: Callable[[Kind], Loaded], turns: str = "auto") -> list[list[str]]:
    """The trained stretches of the agentic conversation under a kind of template."""
    tokenizer, _ = load(KINDS[name])
    return stretches(packed([AGENTIC], tokenizer, turns=turns, train_on=train_on)[0], tokenizer)


CALLED = '{"name": "weather", "arguments": {"city": "Rome"}}'


def test_reasoning_is_context_with_its_marks(load: Callable[[Kind], Loaded]) -> None:
    masked = TrainOn(mask_reasoning_content=True)
    called = f"<tool_call>{CALLED}</tool_call><|end|>"
    assert trained("keeps reasoning", masked, load) == [[called, "Sunny.<|end|>", "Yes.<|end|>"]]
    assert trained("drops earlier reasoning", masked, load) == [[called, "Sunny.<|end|>"], ["Yes.<|end|>"]]
    channels = trained("channels", masked, load)
    assert channels[0] == [
        f"<|channel|>commentary<|message|>{CALLED}<|call|>",
        "<|channel|>final<|message|>Sunny.<|return|>",
    ]


def test_an_empty_thought_is_reasoning(load: Callable[[Kind], Loaded]) -> None:
    tokenizer, _ = load(KINDS["empty thought in the last turn alone"])
    record = {"messages": [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Yes."}]}
    whole = packed([record], tokenizer, train_on="assistant")[0]
    assert stretches(whole, tokenizer) == [["<think>\n\n</think>\n\nYes.<|end|>"]]
    masked = packed([record], tokenizer, train_on=TrainOn(mask_reasoning_content=True))[0]
    assert stretches(masked, tokenizer) == [["Yes.<|end|>"]]


def test_calls_are_context_with_their_markup(load: Callable[[Kind], Loaded]) -> None:
    masked = TrainOn(mask_tool_calls=True)
    assert trained("keeps reasoning", masked, load)[0][:3] == [
        "<think>I ask.</think>",
        "<|end|>",
        "<think>It says so.</think>Sunny.<|end|>",
    ]


def test_messages_of_tools_are_trained_with_what_ends_them(load: Callable[[Kind], Loaded]) -> None:
    assert trained("plain", TrainOn(roles=["tool"]), load) == [["sunny<|end|>"]]
    both = trained("plain", TrainOn(roles=["assistant", "tool"]), load)
    assert both == [
        [
            f"<tool_call>{CALLED}</tool_call><|end|>",
            "sunny<|end|>",
            "Sunny.<|end|>",
            "<think>\nAm I?\n</think>\n\nYes.<|end|>",
        ]
    ]


def test_what_the_generation_prompt_supplies_is_trained_on_request(load: Callable[[Kind], Loaded]) -> None:
    found = trained("channels", TrainOn(mask_generation_prompt=False), load)
    assert [stretch[:18] for document in found for stretch in document] == ["<|start|>assistant"] * 3
    assert "<think>" in trained("always thinks", TrainOn(mask_generation_prompt=False), load)[0][0]


def test_reasoning_of_earlier_turns_is_dropped_and_counted(load: Callable[[Kind], Loaded]) -> None:
    tokenizer, _ = load(KINDS["keeps reasoning"])
    options: Any = {**ALONE, "train_on": TrainOn(drop_history_reasoning_content=True)}
    for turns, expected in {"auto": 2, "each": 3, "last": 1, "whole": 1}.items():
        table = fastpack.pack_records([AGENTIC], tokenizer, turns=turns, columns=COLUMNS, **options)
        assert fastpack.Report.of(table).dropped_reasoning.records == 1
        assert table.num_rows == expected
        last = tokenizer.decode(table["input_ids"][-1].as_py())
        assert "I ask." not in last
        assert "It says so." not in last
        assert "Am I?" in last
    rows = by_record(fastpack.pack_records([AGENTIC], tokenizer, columns=COLUMNS, **options), [AGENTIC])[0]
    called = f"<think>I ask.</think><tool_call>{CALLED}</tool_call><|end|>"
    assert stretches(rows, tokenizer) == [
        [called, "<think>It says so.</think>Sunny.<|end|>"],
        ["<think>\nAm I?\n</think>\n\nYes.<|end|>"],
    ]
    plain = {"messages": AGENTIC["messages"][-2:]}
    table = fastpack.pack_records([plain], tokenizer, columns=COLUMNS, **options)
    assert not fastpack.Report.of(table).dropped_reasoning.records


MARKS_APART = Kind(
    "{% set n = namespace(user=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set n.user = loop.index0 %}"
    "{% endif %}{% endfor %}{% for m in messages %}<|start|>{{ m.role }}\n{% if m.role == 'assistant' %}"
    "{% if m.reasoning_content and loop.index0 > n.user %}"
    "{% generation %}<think>{{ m.reasoning_content }}</think>{% endgeneration %}{% endif %}"
    "{% if m.content %}{% generation %}{{ m.content }}<|end|>{% endgeneration %}{% else %}<|end|>{% endif %}\n"
    "{% else %}{{ m.content }}<|end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}",
    ("<|end|>",),
)
"""A template that marks the thought and the answer of a turn apart, and drops the thoughts of earlier turns."""


def test_stretches_that_a_template_marks_apart_belong_to_their_message(
    load: Callable[[Kind], Loaded],
) -> None:
    tokenizer, _ = load(MARKS_APART)
    messages: list[Any] = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "one", "reasoning_content": "r"},
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": "two", "reasoning_content": "s"},
    ]

    def trained(messages: list[Any], train_on: Any = "assistant", **options: Any) -> list[list[str]]:
        rows = packed([{"messages": messages}], tokenizer, train_on=train_on, **options)[0]
        return stretches(rows, tokenizer)

    before, one = "<think>r</think>", "one<|end|>"
    thought, answer = "<think>s</think>", "two<|end|>"
    assert trained(messages) == [[before + one], [thought + answer]]
    assert trained(messages, turns="whole") == [[one, thought + answer]]
    assert trained([{**messages[1], "train": False} if at == 1 else m for at, m in enumerate(messages)]) == [
        [thought + answer]
    ]
    opened = "<|start|>assistant\n"
    prompt = TrainOn(mask_generation_prompt=False)
    assert trained(messages, prompt) == [[opened + before + one], [opened + thought + answer]]
    assert trained(messages, prompt, turns="whole") == [[opened + one, opened + thought + answer]]
    masked = TrainOn(mask_reasoning_content=True)
    assert trained(messages, masked) == [[one], [answer]]
    assert trained(messages, masked, turns="whole") == [[one, answer]]
    both = TrainOn(mask_reasoning_content=True, mask_generation_prompt=False)
    assert trained(messages, both) == [[opened, one], [opened, answer]]
    assert trained(messages, both, turns="whole") == [[opened + one, opened, answer]]


def test_a_message_with_two_marked_stretches_beside_one_with_none(load: Callable[[Kind], Loaded]) -> None:
    tokenizer, _ = load(MARKS_APART)

    def trained(*flags: dict[str, bool], **options: Any) -> list[list[str]]:
        messages: list[Any] = [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "one", "reasoning_content": "r", **flags[0]},
            {"role": "tool", "content": "b"},
            {"role": "assistant", "content": "", **flags[1]},
        ]
        record = {"messages": messages}
        once, again = packed([record] * 2, tokenizer, **options)
        interpreted = packed([record], tokenizer, chat_template=unfollowed(MARKS_APART.source), **options)
        assert once == again == interpreted[0]
        return stretches(once, tokenizer)

    assert trained({}, {}) == [["<think>r</think>one<|end|>"]]
    assert trained({}, {"train": False}) == [["<think>r</think>one<|end|>"]]
    assert trained({"train": False}, {}) == []
    assert trained({}, {}, turns="last") == []


def test_what_a_template_marks_behind_all_messages_belongs_to_the_last(
    load: Callable[[Kind], Loaded],
) -> None:
    source = (
        "{% for m in messages %}<|start|>{{ m.role }}\n{% if m.role == 'assistant' %}"
        "{% generation %}{{ m.content }}<|end|>{% endgeneration %}{% else %}{{ m.content }}<|end|>{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|start|>assistant\n{% elif messages[-1].role == 'assistant' %}"
        "{% generation %}<|eos|>{% endgeneration %}{% endif %}"
    )
    tokenizer, _ = load(Kind(source, ("<|end|>", "<|eos|>")))
    messages: list[Any] = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "one"},
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": "two"},
    ]

    def trained(messages: list[Any], **options: Any) -> list[list[str]]:
        return stretches(packed([{"messages": messages}], tokenizer, **options)[0], tokenizer)

    first, second = "one<|end|>", "two<|end|><|eos|>"
    assert trained(messages) == [[first, second]]
    opened = "<|start|>assistant\n"
    prompt = TrainOn(mask_generation_prompt=False)
    assert trained(messages, train_on=prompt) == [[opened + first, opened + second]]
    assert trained([*messages[:3], {**messages[3], "train": False}]) == [[first]]
    assert trained(messages, turns="last") == [[second]]
    assert trained(messages[:3]) == [[first]]


def test_reasoning_that_cannot_be_told_is_refused_by_name(load: Callable[[Kind], Loaded]) -> None:
    tokenizer, _ = load(KINDS["plain"])
    for content in (
        "<think>one</think>two<think>three</think>four",
        "<think>without an end",
        "a</think>b</think>c",
    ):
        record = {"messages": [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": content}]}
        for train_on in (TrainOn(mask_reasoning_content=True),):
            with pytest.raises(
                fastpack.RecordError, match="reasoning, calls and answer in message 1"
            ) as refused:
                fastpack.pack_records([record], tokenizer, max_length=64, train_on=train_on)
            assert refused.value.reason == "unmaskable"
        assert packed([record], tokenizer, train_on=TrainOn(mask_tool_calls=True))[0]


def test_a_call_that_a_template_writes_as_text_is_refused_where_calls_are_masked(tokenizer_dir: Path) -> None:
    call = {"from": "function_call", "value": '{"name": "add", "arguments": {"x": 1}}'}
    record = {"conversations": [{"from": "human", "value": "Add."}, call]}
    texts = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ eos_token }}{% endfor %}"
    options: Any = {"max_length": 64, "chat_template": texts}
    for train_on in ("assistant", TrainOn(mask_reasoning_content=True)):
        assert fastpack.pack_records([record], tokenizer_dir, train_on=train_on, **options).num_rows == 1
    with pytest.raises(fastpack.RecordError, match="is a call that the chat template writes") as refused:
        fastpack.pack_records([record], tokenizer_dir, train_on=TrainOn(mask_tool_calls=True), **options)
    assert refused.value.reason == "unmaskable"


@settings(max_examples=tries(2, 100), suppress_health_check=list(HealthCheck))
@given(
    kind=st.sampled_from(list(KINDS.values())), records=SOME, turns=st.sampled_from(["auto", "each", "whole"])
)
def test_the_tokens_are_those_of_the_assistant(
    kind: Kind, records: list[Record], turns: str, load: Callable[[Kind], Loaded]
) -> None:
    tokenizer, _ = load(kind)
    whole = packed(records, tokenizer, turns=turns, train_on="assistant")
    assert packed(records, tokenizer, turns=turns, train_on=TrainOn()) == whole
    for name in KEEPING:
        for rows, others in zip(
            packed(records, tokenizer, turns=turns, train_on=CHOICES[name]), whole, strict=True
        ):
            # A document without a trained token is none.
            assert [ids for ids, _ in rows] == [ids for ids, _ in others if ids in [own for own, _ in rows]]
            for ids, labels in rows:
                for label, token in zip(labels, ids, strict=True):
                    assert label in (-100, token)
                if "mask" in repr(CHOICES[name]) and "roles" not in repr(CHOICES[name]) and name != "prompt":
                    known = next(all_labels for own, all_labels in others if own == ids)
                    assert all(label in (-100, seen) for label, seen in zip(labels, known, strict=True))


@pytest.mark.parametrize("name", ["reasoning", "all", "dropped"])
def test_every_function_trains_the_same_parts(
    name: str, load: Callable[[Kind], Loaded], write_jsonl: Callable[..., Path], tmp_path: Path
) -> None:
    tokenizer, _ = load(KINDS["keeps reasoning"])
    train_on: Any = CHOICES[name]
    records = [{**AGENTIC, "messages": AGENTIC["messages"][:end]} for end in (2, 4, 6)] * 3
    path = write_jsonl(records)
    alone = packed(records, tokenizer, train_on=train_on)
    options: Any = {"tokenizer": tokenizer, "train_on": train_on, **ALONE}
    assert by_record(fastpack.pack_files(path, columns=COLUMNS, **options), records) == alone
    table = fastpack.pack_table(pa.Table.from_pylist(records), columns=COLUMNS, **options)
    assert by_record(table, records) == alone
    fastpack.pack_dir(path, tmp_path / "out", columns=COLUMNS, **options)
    assert by_record(table_of(tmp_path / "out"), records) == alone
    streamed = flat.stream(path, epochs=1, shuffle=False, lanes=1, columns=COLUMNS, **options)
    assert by_record(pa.concat_tables(streamed), records) == alone
    scanned = flat.scan(path, max_length=1 << 16, strategy="none", tokenizer=tokenizer, train_on=train_on)
    assert scanned.documents == sum(map(len, alone))


def test_a_value_is_a_frozen_dataclass() -> None:
    value = TrainOn(roles=["assistant", "tool", "tool"], mask_tool_calls=True)
    assert repr(value) == "TrainOn(roles=('assistant', 'tool'), mask_tool_calls=True)"
    assert eval(repr(value)) == value == pickle.loads(pickle.dumps(value))
    assert hash(value) != hash(TrainOn())
    assert not hasattr(value, "__dict__")
    with pytest.raises(AttributeError):
        value.mask_tool_calls = False  # type: ignore[misc]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"roles": {"tool": 1}}, "`train_on.roles`: must be a role, or a list of roles"),
        ({"roles": []}, "`train_on.roles`: must be a role, or a list of roles"),
        ({"roles": ["assistent"]}, "did you mean `assistant`"),
        ({"mask_tool_calls": 1}, "`train_on.mask_tool_calls`: must be True or False"),
    ],
)
def test_a_wrong_value_is_refused(given: Any, message: str) -> None:
    with pytest.raises(fastpack.OptionError, match=message):
        TrainOn(**given)


def test_a_job_is_written_in_a_file_and_on_the_command_line_and_repeated(
    tokenizer_dir: Path, write_jsonl: Callable[..., Path], tmp_path: Path
) -> None:
    from fastpack.api.recipes import load_manifest
    from fastpack.cli.main import main

    place = str(write_folder(tokenizer_dir, tmp_path / "model", KINDS["keeps reasoning"]))
    tokenizer = fastpack.Tokenizer(place)
    path = write_jsonl([AGENTIC])
    value = TrainOn(roles=["assistant", "tool"], mask_reasoning_content=True)
    wanted = packed([AGENTIC], tokenizer, train_on=value)

    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        'train_on = {roles = ["assistant", "tool"], mask_reasoning_content = true}\n', encoding="utf-8"
    )
    assert fastpack.load_config(recipe)["train_on"] == value
    recipe.write_text('train_on = {rolls = ["tool"]}\n', encoding="utf-8")
    with pytest.raises(fastpack.OptionError, match="did you mean `roles`"):
        fastpack.load_config(recipe)

    columns = ",".join(COLUMNS)
    common = ["--max-length", "65536", "--strategy", "none", "--columns", columns, "--max-lost", "100%"]
    text = '{"roles": ["assistant", "tool"], "mask_reasoning_content": true}'
    arguments = [
        "pack",
        "-i",
        str(path),
        "-o",
        str(tmp_path / "one"),
        "-t",
        place,
        "--train-on",
        text,
        *common,
    ]
    assert main(arguments) == 0
    assert by_record(table_of(tmp_path / "one"), [AGENTIC]) == wanted
    assert load_manifest(tmp_path / "one")["train_on"] == value
    assert main(["pack", "--like", str(tmp_path / "one"), "-o", str(tmp_path / "two")]) == 0
    assert by_record(table_of(tmp_path / "two"), [AGENTIC]) == wanted
    manifest = json.loads((tmp_path / "two" / "manifest.json").read_text(encoding="utf-8"))
    assert '"mask_reasoning_content": true' in json.dumps(manifest["job"])


def test_another_value_is_another_job(
    load: Callable[[Kind], Loaded], write_jsonl: Callable[..., Path], tmp_path: Path
) -> None:
    tokenizer, _ = load(KINDS["keeps reasoning"])
    path = write_jsonl([AGENTIC])
    options: Any = {"tokenizer": tokenizer, "max_length": 512}
    fastpack.pack_dir(path, tmp_path / "out", train_on=TrainOn(mask_tool_calls=True), **options)
    with pytest.raises(fastpack.OutputError, match="train_on"):
        fastpack.pack_dir(path, tmp_path / "out", train_on="assistant", **options)
    stream = fastpack.stream(path, train_on=TrainOn(mask_tool_calls=True), epochs=1, **options)
    next(iter(stream))
    state = stream.state_dict()
    for value in (TrainOn(mask_reasoning_content=True), "assistant"):
        other = fastpack.stream(path, train_on=value, epochs=1, **options)
        other.load_state_dict(state)
        with pytest.raises(fastpack.OptionError, match="`train_on"):
            next(iter(other))
    same = fastpack.stream(path, train_on=TrainOn(mask_tool_calls=True), epochs=1, **options)
    same.load_state_dict(state)
    assert not list(same)


def test_a_record_without_turns_does_not_tell_their_parts(load: Callable[[Kind], Loaded]) -> None:
    tokenizer, _ = load(KINDS["plain"])
    masked = TrainOn(mask_reasoning_content=True)
    for record in (
        {"text": "words"},
        {"input_ids": [1, 2], "labels": [1, 2]},
        {"prompt": "a", "completion": "b"},
    ):
        with pytest.raises(fastpack.RecordError) as refused:
            fastpack.pack_records([record], tokenizer, max_length=64, train_on=masked)
        assert refused.value.reason == "unmaskable"


def test_the_last_turn_has_no_other_role() -> None:
    with pytest.raises(fastpack.OptionError, match="the last turn of the assistant alone"):
        fastpack.pack_records(
            [AGENTIC], "examples/tokenizer", max_length=64, turns="last", train_on=TrainOn(roles=["tool"])
        )


def test_the_assistant_is_trained_by_either_name(tokenizer_dir: Path) -> None:
    tokenizer = fastpack.Tokenizer(tokenizer_dir)
    for own in ("assistant", "model"):
        talk = [{"role": "user", "content": "Hi."}, {"role": own, "content": "Yes."}]
        template = (
            "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ eos_token }}{% endfor %}"
            f"{{% if add_generation_prompt %}}<|{own}|>{{% endif %}}"
        )

        def rows(train_on: Any, turns: str = "auto", talk: Any = talk, template: str = template) -> list[Any]:
            options: Any = {"chat_template": template, "turns": turns, "train_on": train_on}
            return packed([{"messages": talk}], tokenizer, **options)[0]

        for name in ("assistant", "model"):
            assert rows(TrainOn(roles=[name])) == rows("assistant")
            assert rows(TrainOn(roles=[name]), "last") == rows("assistant", "last")
            both = stretches(rows(TrainOn(roles=["user", name])), tokenizer)
            assert [stretch.split("<")[0] for stretch in both[0]] == ["Hi.", "Yes."]
