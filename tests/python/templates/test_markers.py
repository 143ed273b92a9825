"""A template whose markers the tokenizer cuts is warned of, wherever it renders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from chat_families import FAMILIES
from template_helpers import unfollowed
from tokenizers import Tokenizer

import fastpack

if TYPE_CHECKING:
    from pathlib import Path

CHATML = next(family for family in FAMILIES if family.name == "chatml").template(trims=False, prompts=True)
MESSAGES = [
    {"role": "user", "content": "<|question|> [INST]"},
    {"role": "assistant", "content": "<|answer|>"},
]


def cut(report: Any) -> list[str]:
    """The warnings about markers."""
    return [warning for warning in report.warnings if "no token" in warning]


def warning(tokenizer: Path, marker: str) -> str:
    """The warning about a marker, its tokens as the reference has them."""
    tokens = Tokenizer.from_file(str(tokenizer / "tokenizer.json")).encode(marker).tokens
    listed = ", ".join(f"`{token}`" for token in tokens)
    return f"the chat template writes `{marker}`, which is no token of this tokenizer but {len(tokens)}: {listed}"


@pytest.mark.parametrize("template", [CHATML, unfollowed(CHATML)], ids=["compiled", "interpreted"])
def test_a_template_whose_markers_are_cut_is_warned_of_on_every_road(
    template: str, tokenizer_dir: Path, write_jsonl: Any, tmp_path: Path
) -> None:
    expected = [warning(tokenizer_dir, marker) for marker in ("<|im_start|>", "<|im_end|>")]
    path = write_jsonl([{"messages": MESSAGES}] * 3)
    given: Any = {"tokenizer": tokenizer_dir, "max_length": 256, "chat_template": template}
    table = pa.Table.from_pylist([{"messages": MESSAGES}])
    made = [
        fastpack.Report.of(fastpack.pack_files(path, **given)),
        fastpack.Report.of(fastpack.pack_files(path, **given, cache_dir=tmp_path / "cache")),
        fastpack.Report.of(fastpack.pack_files(path, **given, cache_dir=tmp_path / "cache")),
        fastpack.pack_dir(path, tmp_path / "packed", **given),
        fastpack.pack_dir(path, tmp_path / "packed", **given),
        fastpack.Report.of(fastpack.pack_table(table, **given)),
        fastpack.Report.of(fastpack.pack_records([{"messages": MESSAGES}], **given)),
        fastpack.scan(path, tokenizer=tokenizer_dir, chat_template=template),
    ]
    for report in made:
        assert cut(report) == expected
        assert all(marker in str(report) for marker in ("<|im_start|>", "<|im_end|>"))


def test_a_template_whose_markers_are_tokens_is_not_warned_of(tokenizer_dir: Path, write_jsonl: Any) -> None:
    path = write_jsonl([{"messages": MESSAGES}])
    table = fastpack.pack_files(path, tokenizer_dir, max_length=256)
    assert cut(fastpack.Report.of(table)) == []


def test_texts_are_not_warned_of_for_a_template_that_they_do_not_need(
    tokenizer_dir: Path, write_jsonl: Any
) -> None:
    path = write_jsonl([{"text": "the river <|im_start|>"}])
    table = fastpack.pack_files(path, tokenizer_dir, max_length=256, chat_template=CHATML)
    assert cut(fastpack.Report.of(table)) == []


def test_no_more_than_eight_markers_are_named_each_in_one_line(tokenizer_dir: Path, write_jsonl: Any) -> None:
    markers = [f"<|{'x' * at}_{at}|>" for at in range(1, 45)]
    template = "".join(markers) + CHATML
    path = write_jsonl([{"messages": MESSAGES}])
    table = fastpack.pack_files(path, tokenizer_dir, max_length=10_000, chat_template=template)
    warned = cut(fastpack.Report.of(table))
    assert len(warned) == 9
    assert warned[-1] == (
        f"the chat template writes {len(markers) + 2 - 8} more such texts that are no tokens of this tokenizer"
    )
    assert all(len(line) < 400 and "\n" not in line for line in warned)
