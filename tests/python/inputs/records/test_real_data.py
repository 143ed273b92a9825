"""Real tokenizers and corpora give the ids of transformers, document by document.

They are looked for in `$FASTPACK_DATA`, else in `../shared/data` beside the checkout; they are no part of the
project. `FASTPACK_DOCUMENTS` says how many documents of each corpus are compared (60 by default, 200 in `make campaign`, 0 for all).
"""

from __future__ import annotations

import itertools
import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from campaign import campaign_only, tries
from conftest import DATA
from template_helpers import unfollowed

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

transformers = pytest.importorskip("transformers", reason="transformers needs Python 3.11")

TOKENIZERS = ("bert", "gpt2", "llama3", "mistral-v1", "o200k", "qwen")
TEXTS = ("text-en.jsonl", "text-multi.jsonl", "c4-demo.jsonl")
DOCUMENTS = int(os.environ.get("FASTPACK_DOCUMENTS", tries("60", "200"))) or None

pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="no real data: set FASTPACK_DATA to a folder with tokenizers/ and corpora/"
)


@pytest.fixture(scope="module", params=TOKENIZERS)
def tokenizer(request: pytest.FixtureRequest) -> tuple[Path, Any]:
    """A folder, and the tokenizer that transformers loads from it."""
    folder = DATA / "tokenizers" / request.param
    return folder, transformers.AutoTokenizer.from_pretrained(folder)


def lines(corpus: str) -> list[bytes]:
    """The first documents of a corpus."""
    with (DATA / "corpora" / corpus).open("rb") as file:
        return [line.rstrip(b"\n") for line in itertools.islice(file, DOCUMENTS)]


def packed(path: Path, folder: Path, **options: Any) -> list[list[int]]:
    """The ids of each document, nothing added."""
    table = fastpack.pack_files(
        path,
        folder,
        max_length=10_000_000,
        strategy="none",
        train_on="all",
        special_tokens=fastpack.SpecialTokens(eos=False),
        **options,
    )
    return table["input_ids"].to_pylist()


@pytest.mark.parametrize("corpus", TEXTS)
@pytest.mark.timeout(600)
def test_texts_have_the_ids_of_transformers(
    corpus: str, tokenizer: tuple[Path, Any], write_jsonl: Callable[..., Path]
) -> None:
    folder, reference = tokenizer
    documents = lines(corpus)
    expected = [reference(json.loads(line)["text"])["input_ids"] for line in documents]
    assert packed(write_jsonl(documents), folder) == [ids for ids in expected if len(ids) > 1]


@pytest.mark.parametrize("road", [str, unfollowed], ids=["compiled", "interpreted"])
@pytest.mark.timeout(600)
def test_conversations_have_the_ids_of_transformers(
    road: Callable[[str], str], tokenizer: tuple[Path, Any], write_jsonl: Callable[..., Path]
) -> None:
    folder, reference = tokenizer
    if not reference.chat_template:
        pytest.skip(f"{folder.name} has no chat template")
    template = road(reference.chat_template)
    kept, expected = [], []
    for line in lines("chat.jsonl"):
        try:
            expected.append(reference.apply_chat_template(json.loads(line)["messages"])["input_ids"])
        except Exception:  # the template refuses the conversation: fastpack must too
            with pytest.raises(fastpack.RecordError) as refused:
                packed(write_jsonl([line]), folder, chat_template=template)
            assert refused.value.reason == "template"
            continue
        kept.append(line)
    assert packed(write_jsonl(kept), folder, chat_template=template) == expected


SEEN = {
    "alpaca.json": ("json", "instruction"),
    "c4-demo.jsonl": ("jsonl", "text"),
    "chat.jsonl": ("jsonl", "conversations"),
    "gsm8k-train.jsonl": ("jsonl", "question_answer"),
    "sharegpt-tools.jsonl": ("jsonl", "conversations"),
    "text-en.jsonl": ("jsonl", "text"),
    "text-multi.jsonl": ("jsonl", "text"),
}


@pytest.mark.parametrize("corpus", SEEN)
@pytest.mark.parametrize("name", ["llama3", pytest.param("qwen", marks=campaign_only)])
@pytest.mark.timeout(600)
def test_every_corpus_packs_and_its_shape_is_named(corpus: str, name: str, tmp_path: Path) -> None:
    path = DATA / "corpora" / corpus
    report = fastpack.pack_dir(path, tmp_path / "rows", tokenizer=DATA / "tokenizers" / name, max_length=4096)
    assert [(it.format, it.shape) for it in report.inputs] == [SEEN[corpus]]
    assert report.documents.kept > 0
    assert set(report.dropped) <= {"too_long", "no_trained_token"}
    assert report.documents.kept + report.documents.dropped == report.documents.read
