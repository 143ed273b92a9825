"""The work of earlier packers, in one call each, and the faults of theirs that must not come back.

Named are `collate` (wheynelau), DART-Math (hkust-nlp) and the packing recipe of Weights & Biases (tcapelle/llm_recipes).
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import pickle
import random
import shutil
from typing import TYPE_CHECKING, Any

import msgpack
import numpy as np
import pytest
from campaign import tries
from conftest import conversation, sentence
from prompts import ALPACA, ALPACA_INPUT

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tokenizers import Tokenizer

IGNORED = -100
END = "<|endoftext|>"


@pytest.fixture(scope="module")
def tokenizer(tokenizer_dir: Path) -> Tokenizer:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(tokenizer_dir / "tokenizer.json"))


@pytest.fixture(scope="module")
def encode(tokenizer: Tokenizer) -> Callable[[str], list[int]]:
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


@pytest.fixture
def loaded(tokenizer_dir: Path) -> fastpack.Tokenizer:
    return fastpack.Tokenizer(tokenizer_dir)


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


def example(record: dict[str, str]) -> str:
    """Prompt, answer and one end-of-text token."""
    prompt = (ALPACA_INPUT if record["input"] else ALPACA).format(**record)
    return prompt + record["output"] + END


def cut(documents: list[list[int]], size: int) -> list[list[int]]:
    """End to end, and cut into rows."""
    flat = [token for ids in documents for token in ids]
    return [flat[at : at + size] for at in range(0, len(flat), size)]


def starts(documents: list[list[int]]) -> set[int]:
    """The start offsets of concatenated documents, and their total length."""
    return {0, *itertools.accumulate(map(len, documents))}


def test_the_alpaca_recipe_is_one_call(tmp_path, tokenizer_dir, tokenizer):
    """An array of rows is packed end to end into rows of 1024, a thousand documents apart for validation.

    Three things differ from the recipe: which documents are set aside (ours are drawn by a hash, its are the last of a
    shuffle); labels stand at their own tokens, not one before; and the first token of a row or of a document in it has
    none, where the recipe trains it on the end of the document before, and wants a 1025th token for the end of a row.
    """
    total = tries(8_000, 52_000)
    records = [
        {"instruction": f"Add {n}.", "input": "a boat" if n % 3 else "", "output": f"It is {n * 7}."}
        for n in range(total)
    ]
    path = tmp_path / "alpaca.json"
    path.write_text("[\n" + ",\n".join(map(json.dumps, records)) + "\n]", encoding="utf-8")
    splits = fastpack.pack_files(
        path,
        tokenizer_dir,
        max_length=1024,
        validation=1000,
        strategy="concat",
        reading=fastpack.Reading(prompt="alpaca"),
        train_on="all",
        columns=["input_ids", "labels", "seq_lengths", "source_row"],
    )
    seen: list[int] = []
    for table, count in zip(splits, (total - 1000, 1000), strict=True):
        # A document that two rows share comes in two pieces; the array begins on the first line.
        lines = dict.fromkeys(line for row in table["source_row"].to_pylist() for line in row)
        places = [line - 2 for line in lines]
        assert len(places) == count
        assert places == sorted(places)
        seen += places
        documents = [it.ids for it in tokenizer.encode_batch_fast([example(records[at]) for at in places])]
        ids = np.fromiter(itertools.chain.from_iterable(documents), np.int32)
        labels = ids.copy()
        labels[::1024] = IGNORED
        labels[sorted(starts(documents))[:-1]] = IGNORED
        lengths = [min(1024, len(ids) - at) for at in range(0, len(ids), 1024)]
        for name, expected in (("input_ids", ids), ("labels", labels)):
            column = table[name].combine_chunks()
            assert column.value_lengths().to_pylist() == lengths
            assert np.array_equal(column.flatten(), expected)
    assert sorted(seen) == list(range(total))


def test_the_rows_of_the_alpaca_recipe_are_reproduced(write_jsonl, tokenizer_dir, encode):
    """Its rows have one token more, which is a label alone, and labels one place before; its tail is dropped."""
    records = alpaca(200)
    documents = [encode(example(record)) for record in records]
    recipe = [{"input_ids": row[:-1], "labels": row[1:]} for row in cut(documents, 1025) if len(row) == 1025]
    table = fastpack.pack_files(
        write_jsonl(records),
        tokenizer_dir,
        max_length=1025,
        strategy=fastpack.Concat(drop_last=True),
        reading=fastpack.Reading(prompt="alpaca"),
        train_on="all",
        objective=fastpack.CausalLM(shift_labels=True),
        columns=["input_ids", "labels"],
    )
    begun = starts(documents)
    for number, (row, expected) in enumerate(zip(table.to_pylist(), recipe, strict=True)):
        assert row["input_ids"][:-1] == expected["input_ids"]
        # No label is predicted across the boundary of two documents.
        labels = [
            IGNORED if number * 1025 + at + 1 in begun else label
            for at, label in enumerate(expected["labels"])
        ]
        assert row["labels"] == [*labels, IGNORED]


def test_003_labels_are_shifted_only_when_asked(write_jsonl, tokenizer_dir):
    """Labels that are shifted already, given to a model that shifts them itself, are two places off."""
    path = write_jsonl([{"text": sentence(n, 9)} for n in range(20)])
    plain, shifted = (
        fastpack.pack_files(path, tokenizer_dir, max_length=64, **options).to_pylist()
        for options in ({}, {"objective": fastpack.CausalLM(shift_labels=True)})
    )
    for row, moved in zip(plain, shifted, strict=True):
        assert row["input_ids"] == moved["input_ids"]
        assert all(
            label in {IGNORED, token} for token, label in zip(row["input_ids"], row["labels"], strict=True)
        )
        assert moved["labels"] == [*row["labels"][1:], IGNORED]


def test_003_a_prompt_that_is_masked_keeps_its_ids_and_padding_is_told(write_jsonl, tokenizer_dir, encode):
    """`collate_and_pad(mask_prompt=True)` writes -100 over the ids, and gives no mask of the padding."""
    records = alpaca(12)
    table = fastpack.pack_files(
        write_jsonl(records),
        tokenizer_dir,
        max_length=512,
        strategy="none",
        reading=fastpack.Reading(prompt="alpaca"),
        padding="max_length",
        columns=["input_ids", "labels", "document_ids"],
    )
    for row, record in zip(table.to_pylist(), records, strict=True):
        ids = encode(example(record))
        answered = len(encode(record["output"] + END))
        room = 512 - len(ids)
        assert row["input_ids"] == ids + ids[-1:] * room
        assert row["labels"] == [IGNORED] * (len(ids) - answered) + ids[-answered:] + [IGNORED] * room
        assert row["document_ids"] == [1] * len(ids) + [0] * room


@pytest.mark.parametrize("strategy", ["concat", "mix", "sequential"])
def test_003_documents_that_share_a_row_are_told_apart(strategy, write_jsonl, tokenizer_dir):
    """All four ways of packing let a document attend to those before it, and predict the first token of the next."""
    path = write_jsonl([{"text": sentence(n, 3 + n % 9)} for n in range(60)])
    columns: Any = ["input_ids", "labels", "position_ids", "seq_lengths", "document_ids"]
    table = fastpack.pack_files(path, tokenizer_dir, max_length=128, strategy=strategy, columns=columns)
    for row in table.to_pylist():
        lengths = row["seq_lengths"]
        assert sum(lengths) == len(row["input_ids"])
        assert row["position_ids"] == [at for length in lengths for at in range(length)]
        assert row["document_ids"] == [n for n, length in enumerate(lengths, 1) for _ in range(length)]
        first = [label for label, at in zip(row["labels"], row["position_ids"], strict=True) if at == 0]
        assert first == [IGNORED] * len(lengths)
    assert max(map(len, table["seq_lengths"].to_pylist())) > 1


def test_003_the_last_row_and_its_tail_are_kept_and_dropped_only_when_asked(write_jsonl, tokenizer_dir):
    """`pad_packing` never gives out the last row, `standard_packing` loses the tail."""
    path = write_jsonl(alpaca(3))
    options: Any = {
        "max_length": 64,
        "reading": fastpack.Reading(prompt="alpaca"),
        "train_on": "all",
    }
    kept = fastpack.Report.of(fastpack.pack_files(path, tokenizer_dir, strategy="concat", **options))
    assert (kept.tokens.read, kept.tokens.dropped) == (kept.tokens.kept, 0)
    dropped = fastpack.Report.of(
        fastpack.pack_files(path, tokenizer_dir, strategy=fastpack.Concat(drop_last=True), **options)
    )
    assert dropped.dropped["tail"].tokens == kept.tokens.kept % 64


def test_003_an_answer_ends_with_one_end_of_text(write_jsonl, tokenizer_dir):
    """The article appends the text of the token and its id."""
    path = write_jsonl(
        [{"instruction": "a", "output": "b<|endoftext|>"}, {"instruction": "a", "output": "b"}]
    )
    table = fastpack.pack_files(
        path, tokenizer_dir, max_length=512, strategy="none", reading=fastpack.Reading(prompt="alpaca")
    )
    first, second = table["input_ids"].to_pylist()
    assert first == second
    assert first.count(first[-1]) == 1


def test_003_an_overlong_document_is_no_longer_row(write_jsonl, tokenizer_dir):
    """`pad_packing` gives out a row of padding, then one that is too long."""
    path = write_jsonl([{"text": sentence(1, 60)}, {"text": sentence(2, 4)}])
    for overlong in ("drop", "truncate", "split"):
        table = fastpack.pack_files(
            path,
            tokenizer_dir,
            max_length=32,
            overlong=overlong,
            padding=fastpack.Padding("max_length", token_id=0),
        )
        assert all(len(ids) == 32 for ids in table["input_ids"].to_pylist())
        assert all(any(label != IGNORED for label in labels) for labels in table["labels"].to_pylist())


def test_003_padding_is_never_trained_though_it_is_the_end_of_text(write_jsonl, tokenizer_dir):
    """Padding with the end-of-text token and without -100 trains on padding."""
    path = write_jsonl([{"text": "a boat"}])
    table = fastpack.pack_files(path, tokenizer_dir, max_length=32, padding="max_length")
    [row] = table.to_pylist()
    real = row["seq_lengths"][0]
    assert set(row["input_ids"][real:]) == {row["input_ids"][real - 1]}
    assert set(row["labels"][real:]) == {IGNORED}
    assert row["labels"][real - 1] != IGNORED


def test_003_a_prompt_and_its_answer_are_tokenized_together(write_jsonl, tokenizer_dir, encode):
    """Apart they give other tokens, or a second token that begins a text."""
    records = [{"instruction": sentence(n, 3), "output": sentence(n, 5)} for n in range(20)]
    table = fastpack.pack_files(
        write_jsonl(records),
        tokenizer_dir,
        max_length=512,
        strategy="none",
        reading=fastpack.Reading(prompt="{instruction}{output}"),
    )
    expected = [encode(f"{it['instruction']}{it['output']}<|endoftext|>") for it in records]
    assert table["input_ids"].to_pylist() == expected


# --- collate


def collate(documents: list[list[int]], max_length: int) -> list[list[int]]:
    """Its packing for Arrow, with the last row given out: longest first into the one open row.

    Rows of numbers of documents; a document that is too long has a row alone, and is cut.
    """
    rows: list[list[int]] = []
    room = 0
    for document, ids in sorted(enumerate(documents), key=lambda numbered: -len(numbered[1])):
        if rows and len(ids) <= room:
            rows[-1].append(document)
            room -= len(ids)
        else:
            rows.append([document])
            room = max_length - min(len(ids), max_length)
    return rows


def read_arrow(path: Path) -> list[dict[str, Any]]:
    datasets = pytest.importorskip("datasets")
    return datasets.Dataset.from_file(str(path)).to_list()  # type: ignore[no-any-return]


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def read_arrays(path: Path) -> list[dict[str, Any]]:
    names = ["input_ids", "labels", "position_ids", "length"]
    return [dict(zip(names, row, strict=True)) for row in msgpack.unpackb(path.read_bytes())]


COLLATE_FORMATS: dict[str, Callable[[Path], list[dict[str, Any]]]] = {
    "arrow": read_arrow,
    "jsonl": read_jsonl,
    "msgpack_arrays": read_arrays,
}


@pytest.mark.parametrize("kind", COLLATE_FORMATS)
def test_the_output_of_collate_is_reproduced(kind, write_jsonl, tokenizer_dir, tmp_path, encode):
    """Its rows: all tokens trained but the first of each document, positions that begin anew, its formats.

    Its rows come longest document first, ties as threads have them; ours by the document of each that was read first.
    Its `length` stands in MessagePack, as it had it, and is the sum of our `seq_lengths` elsewhere.
    """
    chats = [conversation(n) for n in range(150)]
    path = write_jsonl([{"conversation": chat["messages"]} for chat in chats], "in/a.jsonl")
    columns = ["input_ids", "labels", "position_ids"]
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
        columns=columns if kind == "msgpack_arrays" else [*columns, "seq_lengths"],
        format=kind,
    )
    [file] = out.glob("train-*")
    found = COLLATE_FORMATS[kind](file)
    template = "<|start|>{role}\n{content}<|end|>\n"
    documents = [encode("".join(template.format(**turn) for turn in chat["messages"])) for chat in chats]  # type: ignore[attr-defined]
    rows = collate(documents, 128)
    assert max(map(len, documents)) > 128
    for row in found:
        row["length"] = sum(row.pop("seq_lengths")) if "seq_lengths" in row else row["length"]
    expected = []
    for row in sorted(rows, key=min):
        samples = [documents[document][:128] for document in row]
        expected.append(
            {
                "input_ids": [token for ids in samples for token in ids],
                "labels": [token if at else IGNORED for ids in samples for at, token in enumerate(ids)],
                "position_ids": [at for ids in samples for at in range(len(ids))],
                "length": sum(map(len, samples)),
            }
        )
    assert found == expected


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
    assert report.tokens.kept == sum(min(lengths[document], 10) for row in expected for document in row)
    table = fastpack.pack_files(path, tokenizer_dir, max_length=10, strategy="heap", overlong="truncate")
    found = sorted(map(sorted, table["seq_lengths"].to_pylist()))
    assert found == sorted(sorted(min(lengths[document], 10) for document in row) for row in expected)


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


def test_000_folders_are_made_however_deep(write_jsonl, tokenizer_dir, tmp_path):
    """The output folder is made where the folder above it is there, and nowhere else."""
    out = tmp_path / "not" / "there" / "yet"
    fastpack.pack_dir(write_jsonl([{"text": "a boat"}]), out, tokenizer=tokenizer_dir, max_length=16)
    assert (out / "train-00000.arrow").is_file()


def test_000_inputs_of_one_name_do_not_overwrite_each_other(write_jsonl, tokenizer_dir, tmp_path):
    """An output is named after its input, without the folder and the ending."""
    files = [
        write_jsonl([{"text": sentence(n, 5)} for n in range(count)], name)
        for count, name in ((3, "x/a.jsonl"), (5, "y/a.jsonl"), (7, "y/a.json"))
    ]
    options: Any = {"tokenizer": tokenizer_dir, "max_length": 64, "strategy": "none"}
    options["format"] = fastpack.Format("jsonl", per_file=True)
    report = fastpack.pack_dir(files[:2], tmp_path / "out", **options)
    assert report.documents == (8, 8, 0)
    assert sorted(len(read_jsonl(path)) for path in (tmp_path / "out").glob("*.jsonl")) == [3, 5]
    # Outputs with the same name are refused before anything is written.
    with pytest.raises(fastpack.OptionError, match="`y-a` is that of another file; rename one"):
        fastpack.pack_dir(files, tmp_path / "other", **options)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("kind", ["arrow", "jsonl", "parquet"])
def test_000_a_file_that_cannot_be_written_is_one_error_that_names_it(
    kind, write_jsonl, tokenizer_dir, python, tmp_path
):
    """A failed write ends a thread in a panic; the run goes on, and leaves half a file."""
    path = write_jsonl([{"text": sentence(n, 90)} for n in range(400)])
    out = tmp_path / "out"
    run = f"""
import resource, fastpack
tokenizer = fastpack.Tokenizer({str(tokenizer_dir)!r})
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    fastpack.pack_dir({str(path)!r}, {str(out)!r}, tokenizer=tokenizer, max_length=512, format={kind!r})
except OSError as failed:
    print(type(failed).__name__, failed.filename)
"""
    pytest.importorskip("resource", reason="the size of files has a limit on POSIX alone")
    said, failure = python("-c", run).communicate()
    assert said.startswith(f"StorageError {out}"), failure
    assert not list(out.glob("train-*"))


def test_000_a_place_that_is_no_folder_is_one_error_that_names_it(write_jsonl, tokenizer_dir, tmp_path):
    """Whatever goes wrong at the output is a panic."""
    path = write_jsonl([{"text": "a boat"}])
    file = tmp_path / "file"
    file.write_text("mine")
    for out in (file, file / "out"):
        with pytest.raises(fastpack.StorageError) as caught:
            fastpack.pack_dir(path, out, tokenizer=tokenizer_dir, max_length=16)
        assert str(caught.value.filename).startswith(str(file))
    assert file.read_text() == "mine"


def test_000_an_input_that_cannot_be_read_is_one_error_that_names_it(open_folder, loaded, without_privileges):
    """Whatever goes wrong at the input is a panic."""
    path = open_folder / "data.jsonl"
    for missing, error in ((True, fastpack.InputNotFoundError), (False, fastpack.AccessError)):
        if not missing:
            path.write_text('{"text": "a"}\n', encoding="utf-8")
            path.chmod(0)
        with pytest.raises(error) as caught:
            fastpack.pack_dir(path, open_folder / "out", tokenizer=loaded, max_length=8)
        assert caught.value.filename == str(path)
        assert not (open_folder / "out").exists()


# --- DART-Math


MATH: Any = {"max_length": 256, "reading": fastpack.Reading(prompt="alpaca"), "overlong": "truncate"}
FIRST = [{"query": sentence(n, 6), "response": sentence(n + 1, 8)} for n in range(40)]
SECOND = [
    {"problem": sentence(n, 4), "solution": sentence(n + 2, 400 if n % 9 == 0 else 5)} for n in range(30)
]


@pytest.fixture
def math_sources(write_jsonl: Callable[..., Path]) -> Any:
    """Two data sets with fields of their own; some answers of the second are longer than a row."""
    return [
        {"path": write_jsonl(FIRST, "a.jsonl"), "fields": {"question": "query", "answer": "response"}},
        {"path": write_jsonl(SECOND, "b.jsonl"), "fields": {"question": "problem", "answer": "solution"}},
    ]


@pytest.fixture(scope="module")
def samples(encode: Callable[[str], list[int]]) -> list[tuple[list[int], list[int]]]:
    """Ids and labels of each sample: the prompt masked, and cut to the length of a row before all else."""
    made = []
    for request, answer in (record.values() for record in [*FIRST, *SECOND]):
        prompt = ALPACA.format(instruction=request)
        ids, asked = encode(prompt + answer + END), encode(prompt)
        assert ids[: len(asked)] == asked
        labels = [IGNORED] * len(asked) + ids[len(asked) :]
        made.append((ids[: MATH["max_length"]], labels[: MATH["max_length"]]))
    return made


@pytest.mark.parametrize("side", ["right", "left"])
def test_make_supervised_dset_is_one_call(side, math_sources, samples, tokenizer_dir):
    """Data sets with fields of their own, prompts masked, cut, packed in order up to the length, padded, numbered.

    Its mask of a row, the number of each sample from 1 and 0 for padding, is our `document_ids`.
    """
    size = MATH["max_length"]
    table = fastpack.pack_files(
        files=math_sources,
        tokenizer=tokenizer_dir,
        strategy="sequential",
        padding=fastpack.Padding("max_length", side=side, token_id=0),
        columns=["input_ids", "labels", "document_ids"],
        **MATH,
    )
    assert sum(len(ids) == size for ids, _ in samples) == 4
    rows: list[dict[str, list[int]]] = []
    for ids, labels in samples:
        if not rows or len(rows[-1]["input_ids"]) + len(ids) > size:
            rows.append({"input_ids": [], "labels": [], "attention_mask": []})
        number = max(rows[-1]["attention_mask"], default=0) + 1
        for name, values in zip(rows[-1], (ids, labels, [number] * len(ids)), strict=True):
            rows[-1][name] += values
    padding = {"input_ids": 0, "labels": IGNORED, "attention_mask": 0}
    for row in rows:
        room = size - len(row["input_ids"])
        for name, value in padding.items():
            row[name] = row[name] + [value] * room if side == "right" else [value] * room + row[name]
    found = table.rename_columns(["input_ids", "labels", "attention_mask"])
    assert found.to_pylist() == rows


def test_make_supervised_dset_shuffles_the_same_samples(math_sources, samples, tokenizer_dir):
    """Its order is that of `random`, ours one of our own: in both, each sample is in one row, as it was."""
    table = fastpack.pack_files(
        files=math_sources,
        tokenizer=tokenizer_dir,
        strategy="mix",
        seed=42,
        columns=["input_ids", "labels", "seq_lengths"],
        **MATH,
    )
    found = []
    for row in table.to_pylist():
        ends = list(itertools.accumulate(row["seq_lengths"]))
        assert ends[-1] <= MATH["max_length"]
        for start, end in itertools.pairwise([0, *ends]):
            found.append((row["input_ids"][start:end], row["labels"][start:end]))
    assert sorted(found) == sorted(samples)
    assert found != samples


def test_002_all_data_sets_are_packed(write_jsonl, tokenizer_dir):
    """Of several data paths, only the last is packed."""
    sources: Any = [
        {"path": write_jsonl([{"text": sentence(n, 5)} for n in range(count)], f"{count}.jsonl")}
        for count in (2, 3)
    ]
    table = fastpack.pack_files(files=sources, tokenizer=tokenizer_dir, max_length=512)
    assert fastpack.Report.of(table).documents == (5, 5, 0)


def test_002_the_end_of_text_is_kept_though_it_pads(write_jsonl, tokenizer_dir):
    """If the padding is the end-of-text token, their mask drops that, and with left padding the first token."""
    path = write_jsonl([{"question": "a", "answer": "b"}, {"question": "c d", "answer": "e"}])
    alone = fastpack.pack_files(
        path, tokenizer_dir, max_length=256, strategy="none", reading=fastpack.Reading(prompt="alpaca")
    )
    for side in ("left", "right"):
        padded = fastpack.pack_files(
            path,
            tokenizer_dir,
            max_length=256,
            strategy="none",
            reading=fastpack.Reading(prompt="alpaca"),
            padding=fastpack.Padding("max_length", side=side),
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
        fastpack.pack_files(
            path,
            tokenizer_dir,
            max_length=128,
            overlong="truncate",
            reading=fastpack.Reading(prompt="alpaca"),
        )
    )
    assert report.documents.kept == 1
    assert report.dropped["no_trained_token"].documents == 1


def test_002_an_unknown_prompt_is_refused(write_jsonl, tokenizer_dir):
    """It is silently taken for `alpaca`."""
    with pytest.raises(fastpack.OptionError, match="must be one of"):
        fastpack.pack_files(
            write_jsonl([{"question": "a", "answer": "b"}]),
            tokenizer_dir,
            max_length=64,
            reading=fastpack.Reading(prompt="alpacca"),
        )


def test_002_no_group_is_empty(write_jsonl, tokenizer_dir):
    """A first sample that is too long leaves an empty group before it."""
    path = write_jsonl([{"input_ids": [5] * length} for length in (8, 2, 2)])
    for overlong, expected in (("truncate", [[4], [2, 2]]), ("drop", [[2, 2]])):
        table = fastpack.pack_files(
            path, tokenizer_dir, max_length=4, strategy="sequential", overlong=overlong
        )
        assert table["seq_lengths"].to_pylist() == expected


def test_002_the_seed_alone_decides_and_no_other_generator_is_touched(write_jsonl, tokenizer_dir):
    """`shuffle_seed=None` shuffles all the same, a seed twice, and the generator of the process is seeded anew."""
    path = write_jsonl([{"text": sentence(n, 3 + n % 9)} for n in range(200)])

    def order(**options: Any) -> list[list[int]]:
        table = fastpack.pack_files(path, tokenizer_dir, max_length=64, columns=["source_row"], **options)
        return table["source_row"].to_pylist()  # type: ignore[return-value]

    random.seed(7)
    before = random.getstate(), repr(np.random.get_state())  # noqa: NPY002  it is the one of the process
    first, again, other = (order(seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    for seed in (1, 2):
        flat = [line for row in order(strategy="sequential", seed=seed) for line in row]
        assert flat == list(range(1, 201))
    assert (random.getstate(), repr(np.random.get_state())) == before  # noqa: NPY002


CACHED = {
    "max_length": 256,
    "reading": fastpack.Reading(fields={"question": "q", "answer": "a"}, prompt="alpaca"),
}
OTHERWISE: dict[str, dict[str, Any]] = {
    "fields": {"reading": dataclasses.replace(CACHED["reading"], fields={"question": "a", "answer": "q"})},
    "prompt": {"reading": dataclasses.replace(CACHED["reading"], prompt="qa")},
    "examples": {"reading": dataclasses.replace(CACHED["reading"], examples=[("1 + 1?", "2")])},
    "max_length": {"max_length": 48, "overlong": "truncate", "max_lost": "100%"},
    "train_on": {"train_on": "all"},
    "tokenizer": {},
}


@pytest.mark.parametrize("change", OTHERWISE)
def test_002_tokens_that_are_kept_are_those_of_the_same_options(change, write_jsonl, tokenizer_dir, tmp_path):
    """Neither prompt, fields nor length are in the name of its cache, and of the tokenizer only the name."""
    path = write_jsonl([{"q": sentence(n, 6), "a": sentence(n + 1, 7)} for n in range(40)])
    tokenizer = tmp_path / "tokenizer"
    shutil.copytree(tokenizer_dir, tokenizer)
    cache = tmp_path / "cache"
    kept = fastpack.pack_files(path, tokenizer, cache_dir=cache, **CACHED)
    if change == "tokenizer":
        document = json.loads((tokenizer / "tokenizer.json").read_text())
        document["model"]["merges"] = document["model"]["merges"][:20]
        (tokenizer / "tokenizer.json").write_text(json.dumps(document))
    options = CACHED | OTHERWISE[change]
    found = fastpack.pack_files(path, tokenizer, cache_dir=cache, **options)
    assert found["input_ids"] != kept["input_ids"] or found["labels"] != kept["labels"]
    assert found.equals(fastpack.pack_files(path, tokenizer, **options))


def test_002_a_cache_holds_no_code(write_jsonl, tokenizer_dir, tmp_path):
    """Its cache is a pickle, with the tokenizer inside."""
    fastpack.pack_files(
        write_jsonl([{"text": "a boat"}]), tokenizer_dir, max_length=16, cache_dir=tmp_path / "cache"
    )
    files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert files
    for path in files:
        with pytest.raises(pickle.UnpicklingError), path.open("rb") as file:
            pickle.load(file)


def test_002_a_prompt_can_be_a_dict(write_jsonl, tokenizer_dir):
    """A dict is in the signature, and raises a TypeError."""
    path = write_jsonl(FIRST)
    qa = {
        "sys_prompt": "",
        "query_prompt": "User:\n",
        "prompt_after_query": "\n\n",
        "resp_prompt": "Assistant:\n",
        "prompt_before_resp": "",
        "delim": "\n\n",
    }
    named, given = (
        fastpack.pack_files(
            path,
            tokenizer_dir,
            max_length=128,
            reading=fastpack.Reading(prompt=prompt),
            columns=["input_ids", "labels"],
        )
        for prompt in ("qa", qa)
    )
    assert given.equals(named)
    assert fastpack.Tokenizer(tokenizer_dir).decode(given["input_ids"][0].as_py()).startswith("User:\n")


def test_002_rows_are_padded_only_when_asked_and_only_so_far(write_jsonl, tokenizer_dir):
    """Every row is padded to the full length."""
    path = write_jsonl([{"text": sentence(n, 3 + n % 9)} for n in range(60)])

    def lengths(**options: Any) -> list[int]:
        table = fastpack.pack_files(path, tokenizer_dir, max_length=96, strategy="none", **options)
        return [len(ids) for ids in table["input_ids"].to_pylist()]

    real = lengths()
    assert len(set(real)) > 1
    assert lengths(padding=32) == [-(-length // 32) * 32 for length in real]
    assert lengths(padding="max_length") == [96] * len(real)


# --- functionary, from which DART-Math took its packing


def test_002_a_document_as_long_as_a_row_is_packed(write_jsonl, tokenizer_dir):
    """It asserts that rows are shorter than the text that it reads, and pads to the longer of both lengths."""
    path = write_jsonl([{"input_ids": [5 + n] * length} for n, length in enumerate((16, 9, 7, 3))])
    options: Any = {
        "max_length": 16,
        "strategy": "sequential",
        "padding": fastpack.Padding("max_length", token_id=0),
    }
    table = fastpack.pack_files(path, tokenizer_dir, **options)
    assert table["seq_lengths"].to_pylist() == [[16], [9, 7], [3, 13]]
    assert {len(ids) for ids in table["input_ids"].to_pylist()} == {16}


@pytest.mark.parametrize("side", ["left", "right"])
def test_002_a_mask_of_blocks_leaves_padding_out_on_either_side(side, write_jsonl, tokenizer_dir):
    """Its dense mask puts the blocks at the left, wherever the padding is."""
    lengths = [5, 4, 3, 6]
    path = write_jsonl(
        [{"input_ids": list(range(20 * n, 20 * n + length))} for n, length in enumerate(lengths, 1)]
    )
    table = fastpack.pack_files(
        path,
        tokenizer_dir,
        max_length=16,
        strategy="sequential",
        padding=fastpack.Padding("max_length", side=side, token_id=0),
        columns=["input_ids", "position_ids", "seq_lengths", "document_ids"],
    )
    for row in table.to_pylist():
        ids, documents = np.array(row["input_ids"]), np.array(row["document_ids"])
        seen = (documents[:, None] == documents) & (documents > 0) & np.tri(16, dtype=bool)
        of_documents = ids // 20
        expected = (of_documents[:, None] == of_documents) & (ids > 0) & np.tri(16, dtype=bool)
        assert (seen == expected).all()
        # The boundaries say the same as the numbers: the padding is one more stretch, where it stands.
        stretches = np.repeat(np.arange(len(row["seq_lengths"])), row["seq_lengths"])
        assert (np.diff(stretches) != 0).tolist() == (np.diff(documents) != 0).tolist()


def test_002_the_header_of_an_answer_is_trained_if_it_is_asked_for(write_jsonl, tokenizer_dir):
    """`keep_assistant_prefix` is worked out, and then not handed on."""
    chats = [conversation(n) for n in range(20)]
    path = write_jsonl(chats)
    decode = fastpack.Tokenizer(tokenizer_dir).decode
    header = "<|start|>assistant\n"
    for train_on, is_trained in (("assistant", False), ("all", True)):
        table = fastpack.pack_files(
            path, tokenizer_dir, max_length=2048, strategy="none", train_on=train_on, overlong="error"
        )
        for labels in table["labels"].to_pylist():
            text = decode([label for label in labels if label != IGNORED])
            assert (header in text) is is_trained


def test_002_nothing_of_transformers_is_patched(python, tokenizer_dir, write_jsonl, tmp_path):
    """`monkey_patch_for_model_with_name` changes the model's module, and ends the process wherever it is called."""
    path = write_jsonl([{"text": "a boat"}])
    run = f"""
import sys, fastpack
fastpack.pack_files({str(path)!r}, {str(tokenizer_dir)!r}, max_length=16, strategy="sequential")
print(sorted({{"torch", "transformers"}} & set(sys.modules)))
"""
    assert python("-c", run).communicate()[0] == "[]\n"
