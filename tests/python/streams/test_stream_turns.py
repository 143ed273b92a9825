"""A conversation that becomes several documents is streamed as it is packed, stopped and resumed anywhere."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from campaign import tries
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nested import flat

import fastpack

if TYPE_CHECKING:
    from pathlib import Path

REWRITES = (
    "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' and loop.last %}<think>{% endif %}"
    "{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
"""A template that writes the last turn otherwise than the turns before it."""


@pytest.fixture(scope="module")
def chats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    chance, path = random.Random(4), tmp_path_factory.mktemp("chats") / "chats.jsonl"
    lines = []
    for number in range(60):
        messages: list[dict[str, Any]] = []
        for turn in range(chance.randrange(1, 6)):
            words = " ".join(
                chance.choices(["a", "boat", "river", "quiet", "under"], k=chance.randrange(1, 9))
            )
            messages.append({"role": "user", "content": f"{number} {turn} {words}"})
            messages.append({"role": "assistant", "content": words[::-1]})
        lines.append(json.dumps({"messages": messages}) + "\n")
    path.write_text("".join(lines), encoding="utf-8")
    return path


def rows(tables: list[Any]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    found = (row for table in tables for row in table.to_pylist())
    return [(tuple(row["input_ids"]), tuple(row["labels"])) for row in found]


@settings(
    max_examples=tries(12, 400), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    lanes=st.sampled_from([1, 2, 3]),
    turns=st.sampled_from(["auto", "auto", "each", "last", "whole"]),
    strategy=st.sampled_from(["best_fit", "sequential", "concat", "none"]),
    shuffle=st.booleans(),
    stop=st.integers(0, 40),
)
def test_a_stream_that_stops_between_the_turns_of_a_record_goes_on_there(
    chats: Path, tokenizer_dir: Path, lanes: int, turns: Any, strategy: Any, shuffle: bool, stop: int
) -> None:
    options: dict[str, Any] = {
        "max_length": 96,
        "batch_size": 2,
        "chat_template": REWRITES,
        "lanes": lanes,
        "turns": turns,
        "strategy": strategy,
        "shuffle": shuffle,
        "max_lost": "100%",
    }
    if strategy != "concat":
        options["overlong"] = "split"
    whole = list(flat.stream(chats, tokenizer_dir, **options))
    first = flat.stream(chats, tokenizer_dir, **options)
    before = [table for _, table in zip(range(stop), first, strict=False)]
    state = json.loads(json.dumps(first.state_dict()))
    first.close()
    second = flat.stream(chats, tokenizer_dir, **options)
    second.load_state_dict(state)
    assert rows([*before, *second]) == rows(whole)


@pytest.mark.parametrize(
    ("turns", "documents"), [("auto", None), ("each", None), ("last", 60), ("whole", 60)]
)
def test_a_stream_has_the_documents_of_a_table(
    chats: Path, tokenizer_dir: Path, turns: Any, documents: int | None
) -> None:
    options: dict[str, Any] = {
        "max_length": 4096,
        "chat_template": REWRITES,
        "turns": turns,
        "strategy": "none",
    }
    table = flat.pack_files(chats, tokenizer_dir, **options)
    stream = flat.stream(chats, tokenizer_dir, **options, lanes=1, shuffle=False)
    assert rows(list(stream)) == rows([table])
    messages = [json.loads(line)["messages"] for line in chats.read_text(encoding="utf-8").splitlines()]
    every = sum(message["role"] == "assistant" for turn in messages for message in turn)
    report = fastpack.Report.of(table)
    assert report.documents.kept == (documents or every)
    split = report.split_conversations
    several = sum(len(turn) > 2 for turn in messages)
    if turns in ("auto", "each"):
        assert (split.records, split.rewritten_turns) == (several, every - len(messages))
        assert split.documents == split.records + split.rewritten_turns
        assert split.tokens > split.last_tokens == split.whole_tokens > 0
        assert split.turns == split.documents
    else:
        assert split.records == 0
