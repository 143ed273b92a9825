"""Texts that are formatted already: the tokens that begin and end a text stand there once, whoever writes them.

The reference is `transformers`: the ids of the text alone, between the tokens that its tokenizer puts around texts, without
those that the text has itself.
"""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from campaign import tries
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nested import flat

import fastpack

if TYPE_CHECKING:
    from pathlib import Path

transformers = pytest.importorskip("transformers")

BEGIN, END, SEPARATOR = "<|start|>", "<|endoftext|>", "<|end|>"
IDS = {END: 0, BEGIN: 1, SEPARATOR: 2}

FRAMES = {
    "none": ([], []),
    "begin": ([BEGIN], []),
    "begin and end": ([BEGIN], [END]),
    "end": ([], [END]),
    "another before the begin": ([SEPARATOR, BEGIN], [END, SEPARATOR]),
    "another behind the begin": ([BEGIN, SEPARATOR], [SEPARATOR]),
}
"""The tokens that a tokenizer puts before and behind a text."""

TEXTS = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["", "", BEGIN, BEGIN * 2, "\n" + BEGIN, END]),
        st.sampled_from(["the river", "a", f"a{END}b", f"old{BEGIN} town", " "]),
        st.sampled_from(["", "", END, f"{END}\n", f"{END} \n\n", f"{END}{END}", "\n", f"{SEPARATOR}\n"]),
    ),
)
CHOICES: Any = st.sampled_from(["auto", True, False])


@pytest.fixture(scope="module")
def folders(tokenizer_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The tokenizer with a token that begins a text, and with each of the frames."""
    made = {}
    for name, (before, after) in FRAMES.items():
        folder = made[name] = tmp_path_factory.mktemp("framed") / "tokenizer"
        shutil.copytree(tokenizer_dir, folder)
        config = json.loads((folder / "tokenizer_config.json").read_text())
        (folder / "tokenizer_config.json").write_text(json.dumps({**config, "bos_token": BEGIN}))
        special = lambda token: {"SpecialToken": {"id": token, "type_id": 0}}  # noqa: E731
        single = [*map(special, before), {"Sequence": {"id": "A", "type_id": 0}}, *map(special, after)]
        tokenizer = json.loads((folder / "tokenizer.json").read_text())
        tokenizer["post_processor"] = {
            "type": "TemplateProcessing",
            "single": single,
            "pair": [*single, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {
                token: {"id": token, "ids": [number], "tokens": [token]} for token, number in IDS.items()
            },
        }
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    return made


def once(tokenizer: Any, text: str, bos: Any, eos: Any) -> list[int]:
    """The ids that are due by definition."""
    own = tokenizer(text, add_special_tokens=False)["input_ids"]
    framed = tokenizer(text)["input_ids"]
    [start] = [at for at in range(len(framed)) if framed[at : at + len(own)] == own][:1]
    before, after = framed[:start], framed[start + len(own) :]
    begins, ends = text.startswith(BEGIN), text.rstrip().endswith(END)
    if begins and before[-1:] == [IDS[BEGIN]]:
        del before[-1]
    if not begins and bos is False:
        before = [it for it in before if it != IDS[BEGIN]]
    if ends and after[:1] == [IDS[END]]:
        del after[0]
    ids = [*before, *own, *after]
    if bos is True and ids[0] != IDS[BEGIN]:
        ids.insert(0, IDS[BEGIN])
    if eos is not False and not ends and ids[-1] != IDS[END]:
        ids.append(IDS[END])
    return [int(it) for it in ids]


def packed(records: list[Any], tokenizer: Any, **options: Any) -> list[dict[str, Any]]:
    given: Any = {"max_length": 512, "strategy": "none", "max_lost": "100%", **options}
    rows: list[dict[str, Any]] = flat.pack_records(records, tokenizer, **given).to_pylist()
    return rows


@pytest.mark.parametrize("frame", FRAMES)
@given(texts=st.lists(TEXTS, min_size=1, max_size=6), bos=CHOICES, eos=CHOICES)
@settings(
    max_examples=tries(12, 400), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_texts_begin_and_end_once(
    frame: str, texts: list[str], bos: Any, eos: Any, folders: dict[str, Path]
) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folders[frame])
    given: Any = {"bos": bos, "eos": eos}
    expected = [once(tokenizer, text, bos, eos) for text in texts]
    expected = [ids for ids in expected if len(ids) > 1]
    rows = packed([{"text": text} for text in texts], folders[frame], **given)
    assert [row["input_ids"] for row in rows] == expected
    live = packed([{"text": text} for text in texts], tokenizer, **given)
    assert [row["input_ids"] for row in live] == expected
    asked = [{"prompt": text[: len(text) // 2], "completion": text[len(text) // 2 :]} for text in texts]
    rows = packed([record for record in asked if record["completion"].strip()], folders[frame], **given)
    wanted = [
        once(tokenizer, text, bos, eos)
        for text, record in zip(texts, asked, strict=True)
        if record["completion"].strip()
    ]
    assert [row["input_ids"] for row in rows] == [ids for ids in wanted if len(ids) > 1]


@pytest.mark.parametrize("frame", FRAMES)
def test_a_completion_alone_is_trained_with_its_end(frame: str, folders: dict[str, Path]) -> None:
    decoder = fastpack.Tokenizer(folders[frame])
    for prompt in (f"{BEGIN}the river", "the river"):
        for completion in (" a boat", f" a boat{END}", f" a boat{END}\n"):
            [row] = packed([{"prompt": prompt, "completion": completion}], folders[frame])
            trained = decoder.decode([it for it in row["labels"] if it >= 0])
            due = completion if END in completion else completion + END
            assert trained == due


def test_the_end_before_a_line_end_is_trained_as_asked(folders: dict[str, Path]) -> None:
    decoder = fastpack.Tokenizer(folders["none"])
    for asked, trained in (("turn", f"river{END}\n"), ("none", "river")):
        [row] = packed([{"text": f"the river{END}\n"}], folders["none"], train_on_eos=asked)
        assert decoder.decode([it for it in row["labels"] if it >= 0]).endswith(trained)


def test_a_conversation_whose_template_ends_it_has_one_end(folders: dict[str, Path]) -> None:
    template = (
        "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% else %}"
        "{% generation %}{{ m.content + eos_token + '\n' }}{% endgeneration %}{% endif %}{% endfor %}"
    )
    record = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
    rows = [
        packed([record], folders["begin"], chat_template=template, eos=eos) for eos in ("auto", True, False)
    ]
    assert rows[0] == rows[1] == rows[2]
    assert rows[0][0]["input_ids"].count(IDS[END]) == 1


@pytest.mark.parametrize("frame", ["none", "begin", "begin and end"])
def test_compared_texts_begin_once(frame: str, folders: dict[str, Path]) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folders[frame])
    for prompt in (f"{BEGIN}the river ", "the river "):
        for bos in ("auto", True, False):
            record = {"prompt": prompt, "chosen": f"a{END}\n", "rejected": "b"}
            options: Any = {"objective": "preference", "bos": bos}
            [row] = packed([record], folders[frame], **options)
            chosen, rejected = ([*row["prompt_ids"], *row[f"{it}_ids"]] for it in ("chosen", "rejected"))
            assert chosen == once(tokenizer, f"{prompt}a{END}\n", bos, "auto")
            assert rejected == once(tokenizer, f"{prompt}b{END}", bos, "auto")


def test_classified_texts_begin_as_asked(folders: dict[str, Path]) -> None:
    for frame, (before, after) in FRAMES.items():
        own = fastpack.Tokenizer(folders[frame]).encode("a", add_special_tokens=False)
        for bos in ("auto", True, False):
            first = [IDS[it] for it in before if bos is not False or it != BEGIN]
            first = [IDS[BEGIN], *first] if bos is True and first[:1] != [IDS[BEGIN]] else first
            options: Any = {"objective": fastpack.Classification(classes=["x", "y"]), "bos": bos}
            [row] = packed([{"text": "a", "label": 0}], folders[frame], **options)
            assert row["input_ids"] == [*first, *map(int, own), *(IDS[it] for it in after)], (frame, bos)


def test_the_tokens_of_streams_folders_and_scans_are_the_same(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    path = tmp_path / "texts.jsonl"
    texts = [f"{BEGIN}the river{END}\n", "the town"]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    folder = folders["begin and end"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    for bos in ("auto", False):
        expected = [once(tokenizer, text, bos, "auto") for text in texts]
        options: Any = {"max_length": 64, "bos": bos}
        table = flat.pack_files(path, folder, strategy="none", **options)
        assert table["input_ids"].to_pylist() == expected
        flat.pack_dir(path, tmp_path / f"packed-{bos}", tokenizer=folder, strategy="none", **options)
        assert fastpack.read(tmp_path / f"packed-{bos}")["input_ids"].to_pylist() == expected
        stream = flat.stream(path, folder, epochs=1, strategy="none", **options)
        rows = [row for batch in stream for row in batch.to_pylist()]
        assert [row["input_ids"] for row in rows] == expected
    scanned = flat.scan(path, folder, max_length=64).read.tokens
    assert scanned == sum(len(once(tokenizer, text, "auto", "auto")) for text in texts)
