"""What earlier packers do, in one call each, and the faults of theirs that must not come back.

Named are `collate` (wheynelau), DART-Math (hkust-nlp) and the packing recipe of Weights & Biases (tcapelle/llm_recipes).
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from conftest import conversation, sentence
from prompts import ALPACA, ALPACA_INPUT

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

IGNORED = -100


@pytest.fixture(scope="module")
def encode(tokenizer_dir: Path) -> Callable[[str], list[int]]:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(tokenizer_dir / "tokenizer.json"))
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def alpaca(count: int) -> list[dict[str, str]]:
    return [
        {
            "instruction": sentence(n, 5 + n % 7),
            "input": sentence(n, 4) if n % 3 else "",
            "output": sentence(n * 2, 9),
        }
        for n in range(count)
    ]


# --- the recipe of Weights & Biases


def recipe(records: list[dict[str, str]], encode: Callable[[str], list[int]], size: int) -> list[list[int]]:
    """Prompt, answer and one end-of-text token each, end to end, cut into rows."""
    flat: list[int] = []
    for record in records:
        prompt = (ALPACA_INPUT if record["input"] else ALPACA).format(**record)
        flat += encode(prompt + record["output"] + "<|endoftext|>")
    return [flat[at : at + size] for at in range(0, len(flat), size)]


def test_the_alpaca_recipe_is_one_call(tmp_path, tokenizer_dir, encode):
    """An array of 52,000 rows is packed end to end, the last thousand apart, as the recipe does."""
    records = [record for record in alpaca(520) for _ in range(100)]
    random.Random(42).shuffle(records)
    (tmp_path / "alpaca.json").write_text(json.dumps(records[:-1000]), encoding="utf-8")
    (tmp_path / "eval.json").write_text(json.dumps(records[-1000:]), encoding="utf-8")
    for name, part in (("alpaca.json", records[:-1000]), ("eval.json", records[-1000:])):
        table = fastpack.pack_files(
            tmp_path / name,
            tokenizer_dir,
            max_length=1024,
            strategy="concat",
            prompt="alpaca",
            train_on="all",
        )
        # A row of the table is made of its pieces; their end-to-end text is that of the recipe, its tail included.
        assert table["input_ids"].to_pylist() == recipe(part, encode, 1024)
        report = fastpack.Report.of(table)
        assert report.documents == (len(part), len(part), 0)


def test_003_the_last_row_and_its_tail_are_kept_and_dropped_only_when_asked(write_jsonl, tokenizer_dir):
    """`pad_packing` never gives out the last row, `standard_packing` loses the tail."""
    path = write_jsonl(alpaca(3))
    options: Any = {"max_length": 64, "strategy": "concat", "prompt": "alpaca", "train_on": "all"}
    kept = fastpack.Report.of(fastpack.pack_files(path, tokenizer_dir, **options))
    assert (kept.tokens.read, kept.tokens.dropped) == (kept.tokens.kept, 0)
    dropped = fastpack.Report.of(fastpack.pack_files(path, tokenizer_dir, tail="drop", **options))
    assert dropped.dropped["tail"].tokens == kept.tokens.kept % 64


def test_003_an_answer_ends_with_one_end_of_text(write_jsonl, tokenizer_dir):
    """The article appends the text of the token and its id."""
    path = write_jsonl(
        [{"instruction": "a", "output": "b<|endoftext|>"}, {"instruction": "a", "output": "b"}]
    )
    table = fastpack.pack_files(path, tokenizer_dir, max_length=512, strategy="none", prompt="alpaca")
    first, second = table["input_ids"].to_pylist()
    assert first == second
    assert first.count(first[-1]) == 1


def test_003_an_overlong_document_is_no_longer_row(write_jsonl, tokenizer_dir):
    """`pad_packing` gives out a row of padding, then one that is too long."""
    path = write_jsonl([{"text": sentence(1, 60)}, {"text": sentence(2, 4)}])
    for overlong in ("drop", "truncate", "split"):
        table = fastpack.pack_files(
            path, tokenizer_dir, max_length=32, overlong=overlong, pad_to="max_length", pad_token_id=0
        )
        assert all(len(ids) == 32 for ids in table["input_ids"].to_pylist())
        assert all(any(label != IGNORED for label in labels) for labels in table["labels"].to_pylist())


def test_003_padding_is_never_trained_though_it_is_the_end_of_text(write_jsonl, tokenizer_dir):
    """Padding with the end-of-text token and without -100 trains on padding."""
    path = write_jsonl([{"text": "a boat"}])
    table = fastpack.pack_files(path, tokenizer_dir, max_length=32, pad_to="max_length")
    [row] = table.to_pylist()
    real = row["seq_lengths"][0]
    assert set(row["input_ids"][real:]) == {row["input_ids"][real - 1]}
    assert set(row["labels"][real:]) == {IGNORED}
    assert row["labels"][real - 1] != IGNORED


def test_003_a_prompt_and_its_answer_are_tokenized_together(write_jsonl, tokenizer_dir, encode):
    """Apart they give other tokens, or a second token that begins a text."""
    records = [{"instruction": sentence(n, 3), "output": sentence(n, 5)} for n in range(20)]
    table = fastpack.pack_files(
        write_jsonl(records), tokenizer_dir, max_length=512, strategy="none", prompt="{instruction}{output}"
    )
    expected = [encode(f"{it['instruction']}{it['output']}<|endoftext|>") for it in records]
    assert table["input_ids"].to_pylist() == expected


# --- collate


def collate(documents: list[list[int]], max_length: int) -> list[list[list[int]]]:
    """Its packing for Arrow, with the last row given out: longest first into the one open row, what is too long cut."""
    rows: list[list[list[int]]] = []
    room = 0
    for ids in sorted(documents, key=len, reverse=True):
        if rows and len(ids) <= room:
            rows[-1].append(ids)
            room -= len(ids)
        else:
            rows.append([ids[:max_length]])
            room = max_length - len(rows[-1][0])
    return rows


def test_the_output_of_collate_is_reproduced(write_jsonl, tokenizer_dir, tmp_path, encode):
    """Its rows: all tokens trained but the first of each document, positions that begin anew, its format."""
    chats = [conversation(n) for n in range(150)]
    path = write_jsonl([{"conversation": chat["messages"]} for chat in chats], "in/a.jsonl")
    out = tmp_path / "out"
    fastpack.pack_dir(
        path.parent,
        out,
        tokenizer=tokenizer_dir,
        max_length=128,
        strategy="heap",
        order="input",
        overlong="truncate",
        train_on="all",
        columns=["input_ids", "labels", "position_ids"],
        format="jsonl",
    )
    [file] = out.glob("train-*.jsonl")
    found = [json.loads(line) for line in file.read_text().splitlines()]
    template = "<|start|>{role}\n{content}<|end|>\n"
    documents = [encode("".join(template.format(**turn) for turn in chat["messages"])) for chat in chats]  # type: ignore[attr-defined]
    expected = [
        {
            "input_ids": [token for ids in row for token in ids],
            "labels": [token if at else IGNORED for ids in row for at, token in enumerate(ids)],
            "position_ids": [at for ids in row for at in range(len(ids))],
        }
        for row in collate(documents, 128)
    ]
    assert sorted(found, key=str) == sorted(expected, key=str)


COLLATE_LENGTHS = [[3], [4] * 5, [7, 6, 3, 4], [12, 10, 3], []]


@pytest.mark.parametrize("lengths", COLLATE_LENGTHS)
@pytest.mark.parametrize("kind", ["arrow", "jsonl"])
def test_000_no_row_is_lost_too_long_or_empty_in_any_format(
    lengths, kind, write_jsonl, tokenizer_dir, tmp_path
):
    """The Arrow writer loses the last row of each file, the other gives out rows too long, and an empty one."""
    path = write_jsonl([{"input_ids": list(range(5, 5 + length))} for length in lengths])
    out = tmp_path / "out"
    report = fastpack.pack_dir(
        path, out, tokenizer=tokenizer_dir, max_length=10, strategy="heap", overlong="truncate", format=kind
    )
    expected = collate([list(range(length)) for length in lengths], 10)
    assert report.rows == len(expected)
    assert report.tokens.kept == sum(len(ids) for row in expected for ids in row)
    table = fastpack.pack_files(path, tokenizer_dir, max_length=10, strategy="heap", overlong="truncate")
    found = sorted(map(sorted, table["seq_lengths"].to_pylist()))
    assert found == sorted(sorted(map(len, row)) for row in expected)


def test_000_a_format_that_is_none_is_an_error_before_any_work(write_jsonl, tokenizer_dir, tmp_path):
    """All work is done, nothing is written, and the exit code is 0."""
    with pytest.raises(fastpack.OptionError):
        fastpack.pack_dir(
            write_jsonl([{"text": "a"}]),
            tmp_path / "out",
            tokenizer=tokenizer_dir,
            max_length=8,
            format="msg",  # type: ignore[arg-type]
        )
    assert not (tmp_path / "out").exists()


def test_000_a_bad_line_is_named_or_counted_and_ends_nothing_else(write_jsonl, tokenizer_dir):
    """One bad line, or a blank one, kills the run."""
    good = json.dumps({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})
    path = write_jsonl([good.encode(), b"", b"{", good.encode()])
    with pytest.raises(fastpack.RecordError) as caught:
        fastpack.pack_files(path, tokenizer_dir, max_length=64)
    assert caught.value.line == 3
    report = fastpack.Report.of(fastpack.pack_files(path, tokenizer_dir, max_length=64, on_bad_record="skip"))
    assert report.documents == (3, 2, 1)


def test_000_equal_lengths_keep_their_order_whatever_the_threads(write_jsonl, tokenizer_dir):
    """Ties come in the order of threads."""
    path = write_jsonl([{"input_ids": [5 + n % 300] * (3 + n % 2)} for n in range(600)])
    tables = [
        fastpack.pack_files(path, tokenizer_dir, max_length=16, strategy="heap", threads=threads).to_pylist()
        for threads in (1, 4, 4)
    ]
    assert tables[0] == tables[1] == tables[2]


# --- DART-Math


def test_make_supervised_dset_is_one_call(write_jsonl, tokenizer_dir, encode):
    """Several data sets with fields of their own, prompts masked, packed in order up to the length, padded."""
    first = [{"query": sentence(n, 6), "response": sentence(n + 1, 8)} for n in range(40)]
    second = [{"problem": sentence(n, 4), "solution": sentence(n + 2, 5)} for n in range(30)]
    size = 256
    sources: Any = [
        {"path": write_jsonl(first, "a.jsonl"), "fields": {"question": "query", "answer": "response"}},
        {"path": write_jsonl(second, "b.jsonl"), "fields": {"question": "problem", "answer": "solution"}},
    ]
    table = fastpack.pack_files(
        sources=sources,
        tokenizer=tokenizer_dir,
        max_length=size,
        strategy="sequential",
        prompt="alpaca",
        pad_to="max_length",
        pad_token_id=0,
    )
    pairs = [tuple(record.values()) for record in [*first, *second]]
    samples = []
    for request, answer in pairs:
        prompt = ALPACA.format(instruction=request)
        ids, asked = encode(prompt + answer + "<|endoftext|>"), encode(prompt)
        assert ids[: len(asked)] == asked
        samples.append((ids, [IGNORED] * len(asked) + ids[len(asked) :]))
    rows: list[dict[str, list[int]]] = []
    for ids, labels in samples:
        if not rows or len(rows[-1]["input_ids"]) + len(ids) > size:
            rows.append({"input_ids": [], "labels": [], "seq_lengths": []})
        rows[-1]["input_ids"] += ids
        rows[-1]["labels"] += labels
        rows[-1]["seq_lengths"].append(len(ids))
    for row in rows:
        room = size - len(row["input_ids"])
        row["input_ids"] += [0] * room
        row["labels"] += [IGNORED] * room
        row["seq_lengths"] += [room] if room else []
    assert table.select(["input_ids", "labels", "seq_lengths"]).to_pylist() == rows


def test_002_all_data_sets_are_packed(write_jsonl, tokenizer_dir):
    """Of several data paths, only the last is packed."""
    sources: Any = [
        {"path": write_jsonl([{"text": sentence(n, 5)} for n in range(count)], f"{count}.jsonl")}
        for count in (2, 3)
    ]
    table = fastpack.pack_files(sources=sources, tokenizer=tokenizer_dir, max_length=512)
    assert fastpack.Report.of(table).documents == (5, 5, 0)


def test_002_the_end_of_text_is_kept_though_it_pads(write_jsonl, tokenizer_dir):
    """Where the padding is the end-of-text token, the mask drops that, and with left padding the first token."""
    path = write_jsonl([{"question": "a", "answer": "b"}, {"question": "c d", "answer": "e"}])
    alone = fastpack.pack_files(path, tokenizer_dir, max_length=256, strategy="none", prompt="alpaca")
    for side in ("left", "right"):
        padded = fastpack.pack_files(
            path,
            tokenizer_dir,
            max_length=256,
            strategy="none",
            prompt="alpaca",
            pad_to="max_length",
            padding_side=side,
        )
        for before, after in zip(
            alone["input_ids"].to_pylist(), padded["input_ids"].to_pylist(), strict=True
        ):
            real = after[-len(before) :] if side == "left" else after[: len(before)]
            assert real == before
            assert len(after) == 256


def test_002_a_prompt_that_fills_the_row_leaves_no_sample_without_a_label(write_jsonl, tokenizer_dir):
    """Truncated prompts leave samples whose labels are all -100."""
    path = write_jsonl([{"question": sentence(1, 200), "answer": "b"}, {"question": "c", "answer": "d"}])
    report = fastpack.Report.of(
        fastpack.pack_files(path, tokenizer_dir, max_length=128, overlong="truncate", prompt="alpaca")
    )
    assert report.documents.kept == 1
    assert report.dropped["no_trained_token"].documents == 1


def test_002_an_unknown_prompt_is_refused(write_jsonl, tokenizer_dir):
    """It is silently taken for `alpaca`."""
    with pytest.raises(fastpack.OptionError, match="must be one of"):
        fastpack.pack_files(
            write_jsonl([{"question": "a", "answer": "b"}]), tokenizer_dir, max_length=64, prompt="alpacca"
        )


def test_002_no_group_is_empty(write_jsonl, tokenizer_dir):
    """A first sample that is too long leaves an empty group before it."""
    path = write_jsonl([{"input_ids": [5] * length} for length in (8, 2, 2)])
    for overlong, expected in (("truncate", [[4], [2, 2]]), ("drop", [[2, 2]])):
        table = fastpack.pack_files(
            path, tokenizer_dir, max_length=4, strategy="sequential", overlong=overlong
        )
        assert table["seq_lengths"].to_pylist() == expected
