"""Control tokens in texts of users and tools become those tokens, are encoded as text, or refuse the record, on every road."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from campaign import tries
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from template_helpers import unfollowed
from test_control_tokens import CONTROLS, TALKS, message
from test_loss_mask import DERIVED, OPTIONS, ROADS, by_records

import fastpack

if TYPE_CHECKING:
    from pathlib import Path

Record = dict[str, Any]

transformers = pytest.importorskip("transformers")

SPLIT: Record = {**OPTIONS, "special_tokens": fastpack.SpecialTokens(in_text="split")}


def is_given(role: str) -> bool:
    return role in ("user", "tool")


def sanitized(tokenizer: Any, messages: list[Record]) -> list[int]:
    """The ids that `transformers` gives with the control tokens of users and tools as ordinary text."""
    from transformers.utils.chat_template_utils import (
        _get_control_token_patterns,
        encode_marked_chat,
        mark_control_tokens,
    )

    special = [token.content for token in tokenizer.added_tokens_decoder.values() if token.special]
    pattern, _ = _get_control_token_patterns(tuple(special))
    marked = [
        {**m, "content": mark_control_tokens(m["content"], pattern)} if is_given(m["role"]) else m
        for m in messages
    ]
    return encode_marked_chat(
        tokenizer, tokenizer.apply_chat_template(marked, chat_template=DERIVED, tokenize=False)
    )


def talk(parts: list[tuple[str, str, bool]]) -> Record:
    return {"messages": [*(message(r, t, False) for r, t, _ in parts), message("assistant", "yes", False)]}


@given(talks=st.lists(TALKS, min_size=1, max_size=4), follows=st.booleans())
@settings(
    max_examples=tries(8, 300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_split_gives_the_ids_of_transformers_on_every_road(
    talks: list[list[tuple[str, str, bool]]], follows: bool, tokenizer_dir: Path, tmp_path: Path
) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(tokenizer_dir)
    records = [talk(parts) for parts in talks]
    template = DERIVED if follows else unfollowed(DERIVED)
    encoded = by_records(records, tokenizer_dir, tmp_path, **OPTIONS)
    for road in ROADS:
        rows = road(records, tokenizer_dir, tmp_path, **{**SPLIT, "chat_template": template}).to_pylist()
        for row, plain, record in zip(rows, encoded.to_pylist(), records, strict=True):
            assert row["input_ids"] == sanitized(tokenizer, record["messages"]), road
            assert tokenizer.decode(row["input_ids"]) == tokenizer.decode(plain["input_ids"])
            trained, other = ([label for label in it["labels"] if label != -100] for it in (row, plain))
            assert trained == other


@given(talks=st.lists(TALKS, min_size=1, max_size=4))
@settings(
    max_examples=tries(5, 100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_all_ways_are_one_where_no_text_has_a_control_token(
    talks: list[list[tuple[str, str, bool]]], tokenizer_dir: Path, tmp_path: Path
) -> None:
    clean = [
        [(r, t if not is_given(r) else "a".join(t.split("|")), p) for r, t, p in parts] for parts in talks
    ]
    records = [talk(parts) for parts in clean]
    expected = by_records(records, tokenizer_dir, tmp_path, **OPTIONS)
    for way in ("encode", "split", "error"):
        for road in ROADS:
            assert road(
                records,
                tokenizer_dir,
                tmp_path,
                **OPTIONS,
                special_tokens=fastpack.SpecialTokens(in_text=way),
            ).equals(expected)


BAD: Record = {"messages": [message("user", "a<|end|>b", False), message("assistant", "c", False)]}
GOOD: Record = {"messages": [message("user", "a", False), message("assistant", "c", False)]}


def test_error_refuses_the_record_by_name(tokenizer_dir: Path, tmp_path: Path) -> None:
    for road in ROADS:
        with pytest.raises(fastpack.RecordError) as caught:
            road(
                [GOOD, BAD],
                tokenizer_dir,
                tmp_path,
                **OPTIONS,
                special_tokens=fastpack.SpecialTokens(in_text="error"),
            )
        assert "has a control token of the tokenizer" in str(caught.value)
        kept = road(
            [GOOD, BAD],
            tokenizer_dir,
            tmp_path,
            **OPTIONS,
            special_tokens=fastpack.SpecialTokens(in_text="error"),
            on_bad_record="skip",
        )
        assert kept.num_rows == 1


def test_requests_in_words_are_split_too(tokenizer_dir: Path, tmp_path: Path) -> None:
    tokenizer = fastpack.Tokenizer(tokenizer_dir)
    record = {"instruction": "a<|end|>b", "output": "c"}
    for template, prompt in ((DERIVED, None), (None, "alpaca")):
        options = {**OPTIONS, "chat_template": template, "reading": fastpack.Reading(prompt=prompt)}
        [plain] = by_records([record], tokenizer_dir, tmp_path, **options).to_pylist()
        [split] = by_records(
            [record],
            tokenizer_dir,
            tmp_path,
            **options,
            special_tokens=fastpack.SpecialTokens(in_text="split"),
        ).to_pylist()
        ends = [list(row["input_ids"]).count(tokenizer.encode("<|end|>")[0]) for row in (plain, split)]
        assert ends[0] - ends[1] == 1
        assert tokenizer.decode(split["input_ids"]) == tokenizer.decode(plain["input_ids"])
        with pytest.raises(fastpack.RecordError):
            by_records(
                [record],
                tokenizer_dir,
                tmp_path,
                **options,
                special_tokens=fastpack.SpecialTokens(in_text="error"),
            )


def test_live_tokenizers_streams_folders_and_scans_split_too(tokenizer_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "talks.jsonl"
    path.write_text(json.dumps(BAD) + "\n" + json.dumps(GOOD) + "\n")
    expected = by_records([BAD, GOOD], tokenizer_dir, tmp_path, **SPLIT)
    live = transformers.AutoTokenizer.from_pretrained(tokenizer_dir)
    assert by_records([BAD, GOOD], live, tmp_path, **SPLIT).equals(expected)
    options: Any = {
        "max_length": 512,
        "chat_template": DERIVED,
        "special_tokens": fastpack.SpecialTokens(in_text="split"),
    }
    tokens = sum(len(row["input_ids"]) for row in expected.to_pylist())
    found = fastpack.scan(path, live, **options)
    assert found.read.tokens == tokens
    packed = fastpack.pack_dir(path, tmp_path / "packed", tokenizer=tokenizer_dir, **options)
    assert packed.tokens.kept == tokens
    stream = fastpack.stream(path, tokenizer_dir, epochs=1, **options)
    list(stream)
    assert stream.report is not None
    assert stream.report.tokens.kept == tokens


@pytest.mark.parametrize("control", CONTROLS)
def test_split_texts_hold_no_control_token(control: str, tokenizer_dir: Path, tmp_path: Path) -> None:
    record = {
        "messages": [
            message("tool", f"{control} {control}{control}", False),
            message("assistant", "c", False),
        ]
    }
    token = fastpack.Tokenizer(tokenizer_dir).encode(control)[0]
    good = {"messages": [message("tool", "x", False), message("assistant", "c", False)]}
    [bad, own] = by_records([record, good], tokenizer_dir, tmp_path, **SPLIT).to_pylist()
    assert list(bad["input_ids"]).count(token) == list(own["input_ids"]).count(token)


def test_compared_answers_are_refused_by_name(tokenizer_dir: Path, tmp_path: Path) -> None:
    user, answer = [message("user", "a<|end|>", False)], [message("assistant", "b", False)]
    record = {"prompt": user, "chosen": answer, "rejected": [message("assistant", "c", False)]}
    options = {"max_length": 512, "objective": "preference", "chat_template": DERIVED}
    for way in ("split", "error"):
        with pytest.raises(fastpack.RecordError) as caught:
            by_records(
                [record],
                tokenizer_dir,
                tmp_path,
                **options,
                special_tokens=fastpack.SpecialTokens(in_text=way),
            )
        assert "special_tokens.in_text" in str(caught.value)
