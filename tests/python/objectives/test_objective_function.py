"""`objective=Custom(function)`: rows of documents from a function of the caller."""

from __future__ import annotations

import json
import textwrap

import numpy as np
import pyarrow as pa
import pytest
from nested import place
from processes import RUN, kill_at_work, start
from rows import shards

import fastpack

COLUMNS = ["input_ids", "labels", "loss_weights", "token_type_ids", "seq_lengths", "source_row"]

LINES = 400


def mirror(documents):
    """Each document followed by itself backwards, which alone is learned: half of it less where the key is odd."""
    rows = documents.to_pylist()
    ids = [row["input_ids"] + row["input_ids"][::-1] for row in rows]
    weights = [1.0 if row["key"] % 2 else 0.5 for row in rows]
    return pa.table(
        {
            "labels": [[-100] * (len(each) // 2) + each[len(each) // 2 :] for each in ids],
            "input_ids": pa.array(ids, pa.large_list(pa.int64())),
            "token_type_ids": [[0] * (len(each) // 2) + [1] * (len(each) // 2) for each in ids],
            "loss_weights": [[weight] * len(each) for weight, each in zip(weights, ids, strict=True)],
        }
    )


def unchanged(documents):
    """The documents as they are, as in the causal objective."""
    return documents.select(["input_ids", "labels", "loss_weights"])


MIRROR = fastpack.Custom(mirror, fingerprint="mirror")
FUNCTION = {"objective": MIRROR, "max_length": 512, "columns": COLUMNS}


def split(table):
    """Each document of some rows: its record, and its part of each column."""
    for row in table.to_pylist():
        ends = np.cumsum(row["seq_lengths"])
        for record, start_, end in zip(row["source_row"], [0, *ends], ends, strict=False):
            if record >= 0:
                yield record, [row[name][start_:end] for name in COLUMNS[:4]]


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    chance = np.random.default_rng(4)
    words = [f"word{at}" for at in range(300)]
    file = tmp_path_factory.mktemp("lines") / "texts.jsonl"
    texts = [" ".join(chance.choice(words, 3 + at % 20)) for at in range(LINES)]
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def wanted(lines, tokenizer_dir):
    """The result of the function for each document, computed from the ids of causal rows."""
    rows = fastpack.pack_files(
        lines, tokenizer_dir, strategy="none", max_length=256, columns=["input_ids", "source_row"]
    )
    found = []
    for row in rows.to_pylist():
        ids, [record] = row["input_ids"], row["source_row"]
        back = ids[::-1]
        found.append((record, ids + back, [-100] * len(ids) + back, [0] * len(ids) + [1] * len(ids)))
    return sorted(found)


def without_weights(documents):
    return sorted((record, ids, labels, types) for record, [ids, labels, _, types] in documents)


def test_every_road_gives_what_the_function_makes(lines, tokenizer_dir, wanted, tmp_path):
    first = sorted(split(fastpack.pack_files(lines, tokenizer_dir, **FUNCTION)))
    assert without_weights(first) == wanted
    for _, [_, labels, weights, _] in first:
        half = len(labels) // 2
        assert weights[:half] == [0] * half
        assert set(weights[half:]) in ({1.0}, {0.5})
    assert {weights[-1] for _, [_, _, weights, _] in first} == {0.5, 1.0}
    records = [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]
    roads = [
        fastpack.pack_records(records, tokenizer_dir, **FUNCTION),
        fastpack.pack_table(pa.Table.from_pylist(records), tokenizer_dir, **FUNCTION),
    ]
    for strategy in ["best_fit", "heap", "sequential", "none"]:
        for threads in [1, 2, 8]:
            options = {"strategy": strategy, "threads": threads}
            roads.append(fastpack.pack_files(lines, tokenizer_dir, **options, **FUNCTION))
    roads += [
        fastpack.pack_files(lines, tokenizer_dir, cache_dir=tmp_path / "cache", **FUNCTION) for _ in range(2)
    ]
    out = tmp_path / "out"
    fastpack.pack_dir(lines, out, tokenizer=tokenizer_dir, keep_tokens=True, memory=1, **FUNCTION)
    roads.append(fastpack.read(out))
    kept = FUNCTION | {"objective": "custom"}
    fastpack.repack(out, tmp_path / "again", tokenizer=tokenizer_dir, strategy="sequential", **kept)
    roads.append(fastpack.read(tmp_path / "again"))
    fastpack.pack_dir(lines, tmp_path / "groups", tokenizer=tokenizer_dir, groups="2KB", **FUNCTION)
    roads.append(fastpack.read(tmp_path / "groups"))
    stream = fastpack.stream(lines, tokenizer_dir, batch_size=4, ranks=fastpack.Ranks(lanes=4), **FUNCTION)
    roads.append(pa.concat_tables(stream))
    for table in roads:
        assert sorted(split(table)) == first
    for checked in [out, tmp_path / "groups"]:
        assert fastpack.verify(checked, tokenizer=tokenizer_dir).problems == ()


def test_the_ledger_counts_the_tokens_that_the_function_returns(lines, tokenizer_dir, wanted):
    report = fastpack.Report.of(fastpack.pack_files(lines, tokenizer_dir, **FUNCTION))
    made = sum(len(ids) for _, ids, _, _ in wanted)
    assert (report.objective, report.documents.kept, report.tokens.kept) == ("custom", LINES, made)
    assert report.trained_tokens == made // 2


def test_unchanged_documents_are_the_rows_of_the_causal_objective(corpus, tokenizer_dir):
    options = {"max_length": 256, "strategy": "sequential", "columns": COLUMNS}
    causal = fastpack.pack_files(corpus, tokenizer_dir, **options)
    same = fastpack.pack_files(corpus, tokenizer_dir, objective=fastpack.Custom(unchanged), **options)
    assert same.to_pydict() == causal.to_pydict()
    assert -100 in causal["labels"].to_pylist()[0]


@pytest.mark.parametrize("strategy", ["sequential", "concat"])
def test_a_part_that_begins_inside_a_document_has_no_label_for_its_first_token(
    strategy, lines, tokenizer_dir
):
    options = {"max_length": 24, "strategy": strategy, "columns": [*COLUMNS, "source_start"]}
    causal = fastpack.pack_files(lines, tokenizer_dir, **options)
    assert any(start_ for row in causal["source_start"].to_pylist() for start_ in row)
    same = fastpack.pack_files(lines, tokenizer_dir, objective=fastpack.Custom(unchanged), **options)
    assert same.to_pydict() == causal.to_pydict()


def test_padding_has_no_label_weight_or_type(lines, tokenizer_dir):
    made = fastpack.pack_files(lines, tokenizer_dir, padding="max_length", **FUNCTION).to_pylist()
    padded = [row for row in made if row["source_row"][-1] == -1]
    assert padded
    for row in padded:
        room = row["seq_lengths"][-1]
        assert row["labels"][-room:] == [-100] * room
        assert row["loss_weights"][-room:] == row["token_type_ids"][-room:] == [0] * room


def test_a_stream_resumed_anywhere_gives_the_same_rows(lines, tokenizer_dir):
    options = {"batch_size": 4, "ranks": fastpack.Ranks(lanes=4), "epochs": 2, **FUNCTION}
    tables = list(fastpack.stream(lines, tokenizer_dir, **options))
    for at in [0, len(tables) // 2, len(tables) - 2]:
        again = fastpack.stream(lines, tokenizer_dir, **options)
        again.load_state_dict(fastpack.state_of(tables[at]))
        assert [table.to_pydict() for table in again] == [table.to_pydict() for table in tables[at + 1 :]]


def test_another_function_is_another_job(lines, tokenizer_dir, tmp_path):
    options = {"tokenizer": tokenizer_dir, "max_length": 256, "columns": COLUMNS}
    other = {"objective": fastpack.Custom(unchanged, fingerprint="unchanged")}
    named = {"objective": MIRROR}
    first = fastpack.pack_dir(lines, tmp_path / "out", **named, **options)
    again = fastpack.pack_dir(lines, tmp_path / "out", **named, **options)
    assert again.to_dict() == first.to_dict()
    with pytest.raises(fastpack.OutputError):
        fastpack.pack_dir(lines, tmp_path / "out", **other, **options)
    cached = {"cache_dir": tmp_path / "cache", **options}
    tables = [fastpack.pack_files(lines, **function, **cached) for function in [named, other, named]]
    assert tables[0].equals(tables[2])
    assert tables[0]["input_ids"] != tables[1]["input_ids"]
    stream = fastpack.stream(lines, **named, **options)
    state = fastpack.state_of(next(iter(stream)))
    other = fastpack.stream(lines, **other, **options)
    other.load_state_dict(state)
    with pytest.raises(fastpack.FastpackError, match="objective"):
        next(iter(other))


def test_a_killed_run_goes_on_to_the_same_bytes(lines, tokenizer_dir, tmp_path):
    (tmp_path / "made.py").write_text(
        textwrap.dedent(
            """
            import pyarrow as pa

            def doubled(documents):
                ids = [row + row for row in documents["input_ids"].to_pylist()]
                return pa.table({"input_ids": ids, "labels": ids})
            """
        ),
        encoding="utf-8",
    )
    many = tmp_path / "many.jsonl"
    many.write_text(lines.read_text(encoding="utf-8") * 20, encoding="utf-8")
    how = {
        "format": fastpack.Format(shard_size="200KB"),
        "environment": {"PYTHONPATH": str(tmp_path)},
        "code": "import made\n"
        + RUN.replace("progress=say", "progress=say, objective=fastpack.Custom(made.doubled)"),
    }
    start(many, tokenizer_dir, tmp_path / "whole", **how).communicate()
    kill_at_work(many, tokenizer_dir, tmp_path / "killed", threads=1, **how)
    assert not shards(tmp_path / "killed")
    start(many, tokenizer_dir, tmp_path / "killed", threads=2, **how).communicate()
    assert shards(tmp_path / "killed") == shards(tmp_path / "whole") != {}


IDS = [[1, 2]]


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (None, "must return a pyarrow.RecordBatch, not a `NoneType`"),
        ({"input_ids": IDS}, "must return `labels`"),
        ({"labels": IDS}, "must return `input_ids`"),
        ({"input_ids": IDS * 2, "labels": IDS * 2}, "a row for each document that it is given, 1 and not 2"),
        ({"input_ids": IDS, "labels": IDS, "scores": IDS}, "not `scores`"),
        ({"input_ids": [1], "labels": IDS}, "lists of Int32 without nulls as `input_ids`, not Int64"),
        ({"input_ids": [[1.5, 2]], "labels": IDS}, "lists of Int32 without nulls as `input_ids`"),
        ({"input_ids": [[1, None]], "labels": IDS}, "lists of Int32 without nulls as `input_ids`"),
        (
            {"input_ids": pa.array([None], pa.list_(pa.int32())), "labels": IDS},
            "without nulls as `input_ids`",
        ),
        ({"input_ids": [[1, 2**40]], "labels": IDS}, "lists of Int32 without nulls as `input_ids`"),
        (
            {"input_ids": pa.array([[]], pa.list_(pa.int32())), "labels": IDS},
            "no token for the document of .*:1",
        ),
        ({"input_ids": IDS, "labels": [[1, 2, 3]]}, "3 `labels` and 2 `input_ids` .*:1"),
        ({"input_ids": [[1, -2]], "labels": IDS}, "-2 among `input_ids`"),
        ({"input_ids": IDS, "labels": [[-100, -1]]}, "-1 among `labels`, .* -100"),
        ({"input_ids": IDS, "labels": IDS, "token_type_ids": [[0, -1]]}, "-1 among `token_type_ids`"),
        (
            {"input_ids": IDS, "labels": IDS, "loss_weights": [[1.0, float("nan")]]},
            "NaN among `loss_weights`",
        ),
        ({"input_ids": IDS, "labels": IDS, "loss_weights": [[1.0, 0.5]]}, "loss_weights"),
    ],
)
def test_what_the_function_must_not_return_is_refused_by_name(returned, said):
    table = pa.table({"input_ids": [[5, 6]]})

    def broken(_):
        return returned and pa.table(returned)

    with pytest.raises(fastpack.FastpackError, match=said) as refused:
        fastpack.pack_table(table, objective=fastpack.Custom(broken), max_length=8)
    assert len(str(refused.value)) < 400


def test_an_exception_of_the_function_reaches_the_caller(lines, tokenizer_dir):
    def failing(_):
        message = "out of cheese"
        raise RuntimeError(message)

    for call in (
        fastpack.pack_files,
        lambda *given, **options: next(iter(fastpack.stream(*given, **options))),
    ):
        with pytest.raises(RuntimeError, match="out of cheese"):
            call(lines, tokenizer_dir, objective=fastpack.Custom(failing), max_length=64)


@pytest.mark.parametrize(
    ("options", "option", "said"),
    [
        ({"objective": "custom"}, "objective.function", "must be given"),
        ({**FUNCTION, "overlong": "trim"}, "overlong", "without turns"),
    ],
)
def test_what_the_objective_lacks_or_cannot_heed_is_refused_by_name(
    options, option, said, lines, tokenizer_dir
):
    with pytest.raises(fastpack.OptionError, match=said) as refused:
        fastpack.pack_files(lines, tokenizer_dir, **{"max_length": 64, **options})
    assert refused.value.option == place(option)


def test_tokens_that_a_function_made_serve_no_other_objective(lines, tokenizer_dir, tmp_path):
    fastpack.pack_dir(lines, tmp_path / "kept", tokenizer=tokenizer_dir, keep_tokens=True, **FUNCTION)
    with pytest.raises(fastpack.OptionError, match="what a function made"):
        fastpack.repack(tmp_path / "kept", tmp_path / "again", max_length=64)
