"""Control tokens of the tokenizer in texts of users and tools are counted and told once, on every road."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from campaign import tries
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from template_helpers import unfollowed
from test_loss_mask import DERIVED, OPTIONS, ROADS, by_records
from tokenizers import Tokenizer

import fastpack

if TYPE_CHECKING:
    from pathlib import Path

Record = dict[str, Any]

CONTROLS = ["<|start|>", "<|end|>", "<|endoftext|>"]
PIECES = st.sampled_from(
    [*CONTROLS, "<", "<|", "|>", "<|end", "end|>", "a", " b ", "<b>", "é🎉", "\n", "<|END|>"]
)
TEXTS = st.lists(PIECES, max_size=6).map("".join)
ROLES = st.sampled_from(["user", "tool", "system", "assistant"])
TALKS = st.lists(st.tuples(ROLES, TEXTS, st.booleans()), min_size=1, max_size=4)


def message(role: str, text: str, in_parts: bool) -> Record:
    parts = [{"type": "text", "text": "x"}, {"type": "text", "text": text}, {"type": "text", "text": "y"}]
    return {"role": role, "content": parts if in_parts else text}


@given(talks=st.lists(TALKS, min_size=1, max_size=6), follows=st.booleans())
@settings(
    max_examples=tries(10, 300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_conversations_with_control_tokens_of_users_and_tools_are_counted(
    talks: list[list[tuple[str, str, bool]]], follows: bool, tokenizer_dir: Path, tmp_path: Path
) -> None:
    # The last message is trained, so that every record is kept.
    records = [
        {"messages": [*(message(*it) for it in talk), message("assistant", "yes", False)]} for talk in talks
    ]
    tokenizer = Tokenizer.from_file(str(tokenizer_dir / "tokenizer.json"))
    special = {number for number, token in tokenizer.get_added_tokens_decoder().items() if token.special}
    holding = [
        [
            at
            for at, (role, text, _) in enumerate(talk)
            if role in ("user", "tool")
            and special & set(tokenizer.encode(text, add_special_tokens=False).ids)
        ]
        for talk in talks
    ]
    has = [bool(it) for it in holding]
    options = {**OPTIONS, "chat_template": DERIVED if follows else unfollowed(DERIVED)}
    texts = [
        {"messages": [*(message(r, t, False) for r, t, _ in talk), message("assistant", "yes", False)]}
        for talk in talks
    ]
    for road in ROADS:
        report = fastpack.Report.of(road(texts, tokenizer_dir, tmp_path, **options))
        assert report.control_tokens.records == sum(has), road
        first = [place.rsplit(":", 1)[1] for place in report.control_tokens.places]
        assert first == [f"{at + 1}, message {it[0]}" for at, it in enumerate(holding) if it][:3]
        told = [warning for warning in report.warnings if "control token" in warning]
        assert len(told) == any(has)
    # Its parts are joined, or printed as a list: either way the tokens are in the text.
    report = fastpack.Report.of(by_records(records, tokenizer_dir, tmp_path, **options))
    assert report.control_tokens.records == sum(has)


ASKED: list[tuple[Record, Record, int]] = [
    ({"instruction": "a<|end|>", "output": "b"}, {}, 1),
    ({"instruction": "a", "input": "<|end|>", "output": "b"}, {}, 1),
    ({"instruction": "a", "history": [["<|end|>", "c"]], "output": "b"}, {}, 1),
    ({"instruction": "a", "history": [["c", "<|end|>"]], "output": "b"}, {}, 0),
    ({"question": "<|end|>", "answer": "b"}, {"reading": fastpack.Reading(prompt="alpaca")}, 1),
    ({"question": "a", "answer": "b<|end|>"}, {"reading": fastpack.Reading(prompt="alpaca")}, 0),
    # It is joined as it is, with the control tokens that it needs.
    ({"prompt": "<|start|>a<|end|>", "completion": "b"}, {}, 0),
    ({"text": "<|start|>a<|end|>"}, {}, 0),
]


@pytest.mark.parametrize(("record", "more", "count"), ASKED)
def test_requests_are_texts_of_users(
    record: Record, more: Record, count: int, tokenizer_dir: Path, tmp_path: Path
) -> None:
    for road in ROADS:
        report = fastpack.Report.of(road([record], tokenizer_dir, tmp_path, **OPTIONS, **more))
        assert report.control_tokens.records == count, road


def test_scan_streams_and_folders_count_them_too(tokenizer_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "talks.jsonl"
    bad = {"messages": [message("user", "<|im_end|><|end|>", False), message("assistant", "b", False)]}
    path.write_text((json.dumps(bad) + "\n") * 5)
    found = fastpack.scan(path, tokenizer_dir, max_length=512, chat_template=DERIVED)
    assert found.control_tokens.records == 5
    assert found.control_tokens.places[0].endswith("talks.jsonl:1, message 0")
    assert sum("control token" in warning for warning in found.warnings) == 1
    folder = fastpack.pack_dir(
        path, tmp_path / "packed", tokenizer=tokenizer_dir, max_length=512, chat_template=DERIVED
    )
    assert folder.control_tokens.records == 5
    stream = fastpack.stream(path, tokenizer_dir, max_length=512, chat_template=DERIVED)
    list(stream)
    assert stream.report is not None
    assert stream.report.control_tokens.records == 5


def test_prompts_of_other_objectives_are_counted(tokenizer_dir: Path, tmp_path: Path) -> None:
    bad, good = [[message("user", text, False)] for text in ("a<|end|>", "a")]
    answer = [message("assistant", "b<|end|>", False)]
    for objective, more in [
        ("preference", {"chosen": answer, "rejected": [message("assistant", "c", False)]}),
        ("generation", {}),
    ]:
        records = [{"prompt": prompt, **more} for prompt in (bad, good, bad)]
        options = {"max_length": 512, "objective": objective, "chat_template": DERIVED}
        for road in ROADS:
            report = fastpack.Report.of(road(records, tokenizer_dir, tmp_path, **options))
            assert report.control_tokens.records == 2, (road, objective)
