"""Texts and pairs of texts with labels: their ids and token types are those of `tokenizer(text, pair)` of transformers."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from conftest import DATA, sentence
from nested import place
from processes import kill_at_work, start
from rows import balanced, table_of
from transformers_tokenizer import transformers_tokenizer

import fastpack

transformers = pytest.importorskip("transformers")

NAMES = ["negative", "neutral", "positive"]


def texts(count):
    return [{"text": sentence(number, 1 + number % 23), "label": number % 3} for number in range(count)]


def pairs(count):
    return [
        {
            "sentence1": sentence(number, number * 7 % 19),
            "sentence2": sentence(number + 5, 1 + number * 5 % 23),
            "label": number % 2,
        }
        for number in range(count)
    ]


def several(count):
    return [
        {"sentence": sentence(number, 1 + number % 9), "labels": [at for at in range(3) if number >> at & 1]}
        for number in range(count)
    ]


SHAPES = {"texts": texts(80), "pairs": pairs(80)}


def framed(tokenizer_dir, made, template):
    """The tokenizer of the tests with tokens around its texts."""
    from tokenizers import Tokenizer, processors

    tokenizer = Tokenizer.from_file(str(tokenizer_dir / "tokenizer.json"))
    tokenizer.add_special_tokens(["[CLS]", "[SEP]"])
    special = [(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    single, pair = template
    tokenizer.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=special)
    tokenizer.save(str(made / "tokenizer.json"))
    config = json.loads((tokenizer_dir / "tokenizer_config.json").read_text())
    config |= {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": "[SEP]",
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
    }
    (made / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return made


TEMPLATES = {
    "bert": ("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1"),
    "xlnet": ("$A [SEP] [CLS]:2", "$A [SEP] $B:1 [SEP]:1 [CLS]:2"),
    "roberta": ("[CLS] $A [SEP]", "[CLS] $A [SEP] [SEP] $B [SEP]"),
    "reversed": ("[CLS] $A [SEP]", "[CLS] $B:1 [SEP]:1 $A [SEP]"),
}


@pytest.fixture(scope="module", params=TEMPLATES)
def folder(request, tokenizer_dir, tmp_path_factory):
    """A tokenizer that puts tokens around one text or two."""
    return framed(tokenizer_dir, tmp_path_factory.mktemp("framed"), TEMPLATES[request.param])


@pytest.fixture(scope="module")
def bert(tokenizer_dir, tmp_path_factory):
    return framed(tokenizer_dir, tmp_path_factory.mktemp("framed"), TEMPLATES["bert"])


def encoded(folder, record, *, side="right", **options):
    """The encoding of a record by `transformers`."""
    tokenizer = transformers_tokenizer(folder, truncation_side=side)
    given = [record[name] for name in ("text", "sentence", "sentence1", "sentence2") if name in record]
    made = tokenizer(*given, **options, return_token_type_ids=True)
    return made["input_ids"], made["token_type_ids"]


LABELLED = {"classification": fastpack.Classification, "multi_label": fastpack.MultiLabel}


def packed(folder, records, **options):
    return fastpack.pack_records(records, folder, **{"objective": "classification"} | options)


def both(table):
    """The ids and token types of rows."""
    return list(zip(table["input_ids"].to_pylist(), table["token_type_ids"].to_pylist(), strict=True))


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_are_what_transformers_makes_of_texts_and_pairs(folder, shape):
    records = SHAPES[shape]
    rows = packed(folder, records)
    assert rows.column_names == ["input_ids", "token_type_ids", "labels"]
    assert both(rows) == [encoded(folder, record) for record in records]
    assert rows["labels"].to_pylist() == [record["label"] for record in records]
    assert rows.schema.field("labels").type == pa.int64()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("side", ["right", "left"])
def test_texts_are_truncated_as_transformers_cuts_the_longest_first(folder, shape, side):
    records = SHAPES[shape]
    for limit in (5, 6, 7, 12, 13, 20, 33):
        rows = packed(folder, records, max_length=limit, overlong=fastpack.Truncate(side=side))
        wanted = [encoded(folder, record, side=side, truncation=True, max_length=limit) for record in records]
        assert both(rows) == wanted, limit
        report = fastpack.Report.of(rows)
        balanced(report)
        lost = sum(len(encoded(folder, record)[0]) for record in records) - sum(len(ids) for ids, _ in wanted)
        assert report.truncated.tokens == lost


@pytest.mark.skipif(not DATA.is_dir(), reason="real tokenizers are not here")
@pytest.mark.parametrize("model", ["bert", "qwen", "llama3", "mistral-v1"])
def test_rows_of_real_tokenizers_are_what_transformers_makes(model):
    folder = DATA / "tokenizers" / model
    tokenizer = fastpack.Tokenizer(folder)
    for shape, records in SHAPES.items():
        wanted = [encoded(folder, record) for record in records]
        assert both(packed(tokenizer, records)) == wanted, shape


def test_texts_that_are_too_long_are_dropped_and_counted(bert):
    records = SHAPES["pairs"]
    lengths = [len(encoded(bert, record)[0]) for record in records]
    limit = sorted(lengths)[40]
    rows = packed(bert, records, max_length=limit, max_lost=1.0)
    assert both(rows) == [
        encoded(bert, record) for record, length in zip(records, lengths, strict=True) if length <= limit
    ]
    report = fastpack.Report.of(rows)
    assert report.dropped["too_long"].tokens == sum(length for length in lengths if length > limit)
    balanced(report)


@pytest.mark.parametrize("side", ["right", "left"])
def test_rows_are_padded_to_a_length_with_a_mask(bert, side):
    tokenizer = transformers_tokenizer(bert, padding_side=side)
    records = SHAPES["pairs"]
    longest = max(len(encoded(bert, record)[0]) for record in records)
    rows = packed(bert, records, max_length=longest, padding=fastpack.Padding("max_length", side=side))
    assert rows.column_names == ["input_ids", "token_type_ids", "labels", "attention_mask"]
    for row, record in zip(rows.to_pylist(), records, strict=True):
        wanted = tokenizer(record["sentence1"], record["sentence2"], padding="max_length", max_length=longest)
        assert {name: row[name] for name in wanted} == dict(wanted)
        assert row["labels"] == record["label"]


def test_the_report_names_the_objective(bert):
    report = fastpack.Report.of(packed(bert, SHAPES["texts"]))
    assert (report.objective, report.to_dict()["objective"]) == ("classification", "classification")
    assert "for classification" in str(report)
    causal = fastpack.Report.of(fastpack.pack_records([{"text": "a river"}], bert, max_length=8))
    assert (causal.objective, "objective" in causal.to_dict()) == ("causal", False)


def test_rows_of_a_group_have_similar_lengths(bert):
    rows = packed(
        bert,
        SHAPES["texts"],
        max_length=64,
        order=fastpack.Balanced(8, on_remainder="drop"),
        columns=["input_ids", "labels", "group", "source_row"],
    ).to_pylist()
    assert len(rows) == 80
    lengths = [len(row["input_ids"]) for row in rows]
    spreads = [max(lengths[at : at + 8]) - min(lengths[at : at + 8]) for at in range(0, 80, 8)]
    assert [row["group"] for row in rows] == [at // 8 for at in range(80)]
    assert sum(spreads) <= max(lengths)
    for row in rows:
        assert row["labels"] == SHAPES["texts"][row["source_row"][0] - 1]["label"]


@pytest.mark.parametrize(
    ("objective", "record"),
    [
        ("multi_label", {"text": "a river", "labels": ["wet"]}),
        ("preference", {"prompt": "a", "chosen": "river", "rejected": "stone"}),
        ("generation", {"prompt": "a river"}),
    ],
)
def test_rows_of_padding_that_would_be_trained_are_refused(bert, objective, record):
    def packed_for(ranks, on_remainder):
        order = fastpack.Balanced(ranks, on_remainder=on_remainder)
        return fastpack.pack_records([record] * 3, bert, objective=objective, max_length=32, order=order)

    with pytest.raises(fastpack.OptionError, match=r"`order\.on_remainder`: must be .drop. or .repeat. with"):
        packed_for(2, "pad")
    assert packed_for(2, "drop").num_rows == 2
    assert packed_for(2, "repeat").num_rows == 4


def test_labels_are_numbers_or_names_of_classes(bert):
    named = [record | {"label": NAMES[record["label"]]} for record in SHAPES["texts"]]
    wanted = packed(bert, SHAPES["texts"])
    assert packed(bert, named, objective=fastpack.Classification(NAMES)).equals(wanted)
    assert packed(bert, SHAPES["texts"], objective=fastpack.Classification(NAMES)).equals(wanted)
    assert packed(bert, SHAPES["texts"], objective=fastpack.Classification(3)).equals(wanted)


def test_several_labels_are_numbers_or_names_or_truths(bert):
    records = several(40)
    truths = [[float(at in record["labels"]) for at in range(3)] for record in records]
    forms = {
        "numbers": [record["labels"] for record in records],
        "names": [[NAMES[at] for at in record["labels"]] for record in records],
        "booleans": [[value == 1.0 for value in each] for each in truths],
        "floats": truths,
        "zeros and ones": [[int(value) for value in each] for each in truths],
    }
    for form, labels in forms.items():
        given = [
            {"sentence": it["sentence"], "labels": each} for it, each in zip(records, labels, strict=True)
        ]
        rows = packed(bert, given, objective=fastpack.MultiLabel(NAMES))
        assert rows["labels"].to_pylist() == truths, form
        assert rows.schema.field("labels").type == pa.list_(pa.float32())
        assert both(rows) == [encoded(bert, record) for record in records]


@pytest.mark.parametrize("objective", ["classification", "multi_label"])
def test_classes_that_are_not_given_are_found_and_numbered_in_their_order(
    bert, write_jsonl, tmp_path, objective
):
    records = several(60) if objective == "multi_label" else pairs(60)
    names = ["ä", "no", "yes"] if objective == "multi_label" else ["no", "ä"]
    for record in records:
        if objective == "multi_label":
            record["labels"] = [names[at] for at in record["labels"]]
        else:
            record["label"] = names[record["label"]]
    path = write_jsonl(records)
    options = {"objective": objective, "max_length": 24, "overlong": "truncate"}
    wanted = fastpack.pack_files(
        path, bert, **options | {"objective": LABELLED[objective](sorted(names))}
    ).to_pylist()
    for threads in (1, 8):
        found = fastpack.pack_files(path, bert, **options, threads=threads)
        assert found.to_pylist() == wanted
        assert fastpack.Report.of(found).classes == sorted(names)
    assert "0 no, 1 " in str(fastpack.Report.of(found))
    assert fastpack.pack_records(iter(records), bert, **options).to_pylist() == wanted
    assert fastpack.pack_table(pa.Table.from_pylist(records), bert, **options).to_pylist() == wanted
    cached = [fastpack.pack_files(path, bert, **options, cache_dir=tmp_path / "cache") for _ in range(2)]
    assert [table.to_pylist() for table in cached] == [wanted, wanted]
    out = tmp_path / "out"
    # With a byte of memory, documents are read back from the disk.
    fastpack.pack_dir(path, out, tokenizer=bert, **options, keep_tokens=True, memory=1)
    fastpack.repack(out, tmp_path / "again", **options)
    for folder in (out, tmp_path / "again"):
        assert table_of(folder).to_pylist() == wanted
        assert fastpack.Report.of(folder).classes == sorted(names)
        assert fastpack.verify(folder).problems == ()
    [document] = fastpack.inspect(out, 1).documents
    labels = records[1]["labels"] if objective == "multi_label" else [records[1]["label"]]
    assert list(document.classes) == sorted(labels)
    assert f"({', '.join(sorted(labels))})" in str(fastpack.inspect(out, 1))


def test_classes_are_found_where_one_number_is_theirs_in_all_rows(bert, write_jsonl, tmp_path):
    path = write_jsonl([{"text": "a river", "label": "good"}, {"text": "a boat", "label": 1}])
    with pytest.raises(fastpack.OptionError, match=r"data.jsonl:1 has a name, and .*data.jsonl:2") as refused:
        fastpack.pack_files(path, bert, objective="classification")
    assert refused.value.option == "objective.classes"
    options = {"objective": "classification", "tokenizer": bert}
    for more in ({"format": fastpack.Format(per_file=True)}, {"groups": "1GB"}):
        with pytest.raises(fastpack.RecordError, match=r"`objective\.classes` does not name the classes"):
            fastpack.pack_dir(path, tmp_path / "out", **options, **more)
        with pytest.raises(fastpack.OptionError, match="classes"):
            fastpack.pack_dir(path, tmp_path / "out", **options | {"objective": "multi_label"}, **more)
    with pytest.raises(fastpack.RecordError, match=r"`objective\.classes` does not name the classes"):
        list(
            fastpack.stream(
                path, bert, objective="classification", shuffle=False, ranks=fastpack.Ranks(lanes=1)
            )
        )


@pytest.mark.parametrize("objective", ["classification", "multi_label"])
def test_every_way_gives_the_same_rows(bert, write_jsonl, tmp_path, objective):
    records = several(60) if objective == "multi_label" else pairs(60)
    path = write_jsonl(records)
    options = {"objective": LABELLED[objective](NAMES), "max_length": 24, "overlong": "truncate"}
    wanted = fastpack.pack_files(path, bert, **options, threads=1).to_pylist()
    assert len(wanted) == len(records)
    for threads in (2, 8):
        again = fastpack.pack_files(path, bert, **options, threads=threads)
        assert again.to_pylist() == wanted
    assert fastpack.pack_records(iter(records), bert, **options).to_pylist() == wanted
    table = pa.Table.from_pylist(records)
    assert fastpack.pack_table(table, bert, **options).to_pylist() == wanted
    for kept in (False, True):
        out = tmp_path / f"out{kept}"
        fastpack.pack_dir(path, out, tokenizer=bert, **options, keep_tokens=kept)
        assert table_of(out).to_pylist() == wanted
        assert fastpack.verify(out).problems == ()
    for form in ("jsonl", "parquet"):
        out = tmp_path / form
        fastpack.pack_dir(path, out, tokenizer=bert, **options, format=form)
        assert fastpack.verify(out).problems == ()
    fastpack.repack(tmp_path / "outTrue", tmp_path / "again", **options | {"objective": objective})
    assert table_of(tmp_path / "again").to_pylist() == wanted
    streamed = fastpack.stream(path, bert, **options, shuffle=False, ranks=fastpack.Ranks(lanes=1))
    assert [row for table in streamed for row in table.to_pylist()] == wanted
    cached = [fastpack.pack_files(path, bert, **options, cache_dir=tmp_path / "cache") for _ in range(2)]
    assert [table.to_pylist() for table in cached] == [wanted, wanted]


@pytest.mark.parametrize("objective", ["classification", "multi_label"])
def test_killed_at_work_it_resumes_to_the_same_rows(bert, tmp_path, objective):
    path = tmp_path / "pairs.jsonl"
    records = [record | {"label": ["no", "yes"][record["label"]]} for record in pairs(2000)]
    if objective == "multi_label":
        records = [record | {"label": [record["label"]]} for record in records]
    lines = [json.dumps(record) for record in records]
    path.write_text("\n".join(lines * 5), encoding="utf-8")
    options = {"objective": objective}
    kill_at_work(path, bert, tmp_path / "out", threads=1, **options)
    again = start(path, bert, tmp_path / "out", **options)
    said, wrong = again.communicate(timeout=300)
    assert said.startswith("rows 10000"), (said, wrong)
    wanted = fastpack.pack_files(path, bert, max_length=256, **options)
    assert table_of(tmp_path / "out").to_pylist() == wanted.to_pylist()


@pytest.mark.parametrize(
    ("record", "options", "said"),
    [
        ({"text": "a"}, {}, "`label`"),
        ({"text": "a", "label": ["x", "x"]}, {"objective": "multi_label"}, "the class `x` twice"),
        ({"text": "a", "label": [2]}, {"objective": "multi_label"}, "`objective.classes` is not given"),
        (
            {"text": "a", "label": "good"},
            {"objective": fastpack.Classification(NAMES)},
            "`objective.classes` names `negative`, `neutral`",
        ),
        ({"text": "a", "label": 3}, {"objective": fastpack.Classification(NAMES)}, "from 0 to 2"),
        ({"text": "a", "label": -1}, {}, "from 0 to"),
        ({"text": "a", "label": 1.5}, {}, "the number or the name of a class"),
        ({"text": "a", "label": [1]}, {}, "multi_label"),
        ({"text": ["a"], "label": 1}, {}, "`text` must be a string"),
        ({"text": "a", "label": 1}, {"objective": fastpack.MultiLabel(3)}, "a list of classes"),
        ({"text": "a", "label": [4]}, {"objective": fastpack.MultiLabel(3)}, "from 0 to 2"),
        ({"text": "a", "label": [2, 2]}, {"objective": fastpack.MultiLabel(3)}, "the class 2 twice"),
        ({"text": "a", "label": [1.0]}, {"objective": fastpack.MultiLabel(3)}, "each of the 3 classes"),
        ({"text": "a", "label": [0.5, 0.0, 1.0]}, {"objective": fastpack.MultiLabel(3)}, "a 0 or a 1"),
        ({"text": "a", "label": [0, 1]}, {"objective": fastpack.MultiLabel(2)}, "write true and false"),
    ],
)
def test_a_record_without_a_right_label_is_an_error_with_its_line_or_a_counted_skip(
    bert, write_jsonl, record, options, said
):
    options = {"objective": "classification"} | options
    several = options["objective"] == "multi_label" or isinstance(options["objective"], fastpack.MultiLabel)
    good = {"text": "the river", "label": [2] if several else 1}
    if options == {"objective": "multi_label"}:
        good["label"] = ["x"]
    if options["objective"] == fastpack.MultiLabel(2):
        good["label"] = [True, False]
    path = write_jsonl([good, record])
    with pytest.raises(fastpack.RecordError) as refused:
        fastpack.pack_files(path, bert, **options)
    assert "data.jsonl:2" in str(refused.value)
    assert said in str(refused.value)
    rows = fastpack.pack_files(path, bert, **options, on_bad_record="skip", max_lost=1.0)
    assert rows.num_rows == 1
    balanced(fastpack.Report.of(rows))


def test_a_text_without_a_character_is_dropped_and_one_of_a_pair_is_not(bert):
    records = [{"text": "", "label": 1}, {"text": "a river", "label": 0}]
    assert packed(bert, records, max_lost=1.0)["labels"].to_pylist() == [0]
    pair = {"sentence1": "", "sentence2": "a river", "label": 1}
    assert both(packed(bert, [pair])) == [encoded(bert, pair)]
    lacking = {"sentence1": "a river", "sentence2": "", "label": 1}
    batch = transformers_tokenizer(bert)(["a river"], [""], return_token_type_ids=True)
    assert both(packed(bert, [lacking])) == [(batch["input_ids"][0], batch["token_type_ids"][0])]


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"train_on": "all"}, "train_on"),
        ({"special_tokens": fastpack.SpecialTokens(eos=True)}, "eos"),
        ({"strategy": "heap"}, "strategy"),
        ({"strategy": "mix"}, "strategy"),
        ({"strategy": "best_fit"}, "strategy"),
        ({"overlong": "split"}, "overlong"),
        ({"columns": ["loss_weights"]}, "columns"),
        ({"reading": "text"}, "shape"),
    ],
)
def test_an_option_that_means_nothing_is_refused_before_any_work(bert, options, option):
    def none():
        yield pytest.fail("a record was read")

    with pytest.raises(fastpack.OptionError) as refused:
        packed(bert, none(), **{"max_length": 64} | options)
    assert refused.value.option == place(option)


def test_other_fields_can_be_named(bert):
    renamed = [{"a": it["sentence1"], "b": it["sentence2"], "y": it["label"]} for it in SHAPES["pairs"]]
    fields = {"sentence1": "a", "sentence2": "b", "label": "y"}
    assert packed(bert, renamed, reading=fastpack.Reading(fields=fields)).equals(
        packed(bert, SHAPES["pairs"])
    )
    stars = [{"text": record["text"], "stars": record["label"]} for record in SHAPES["texts"]]
    for part in ("label", "labels"):
        assert packed(bert, stars, reading=fastpack.Reading(fields={part: "stars"})).equals(
            packed(bert, SHAPES["texts"])
        )


def test_the_objective_decides_between_shapes_that_share_fields(bert):
    record = {"text": "a river", "label": 1, "prompt": "a", "completion": "b", "messages": []}
    assert both(packed(bert, [record])) == [encoded(bert, {"text": "a river"})]


def test_a_row_is_the_only_token_of_a_text_or_none(bert):
    """A row that holds the tokens around a text alone says nothing."""
    rows = packed(bert, SHAPES["texts"], max_length=3, overlong="truncate")
    assert {len(row) for row in rows["input_ids"].to_pylist()} == {3}
    none = packed(bert, SHAPES["texts"], max_length=2, overlong="truncate", max_lost=1.0)
    assert none.num_rows == 0


def test_a_row_shows_its_text_and_its_label(bert, write_jsonl, tmp_path):
    rows = packed(bert, SHAPES["pairs"])
    for number in (0, 1, -1):
        row = fastpack.inspect(rows, number)
        [document] = row.documents
        record = SHAPES["pairs"][number]
        assert document.input_ids == encoded(bert, record)[0]
        assert (document.label, document.labels, document.trained) == (record["label"], [], 0)
        assert f", label {record['label']}" in str(row)
        assert row.to_dict()["documents"][0]["label"] == record["label"]
    many = packed(bert, several(8), objective=fastpack.MultiLabel(NAMES))
    [document] = fastpack.inspect(many, 5).documents
    assert document.label == (1.0, 0.0, 1.0)
    assert ", label 0, 2" in str(fastpack.inspect(many, 5))
    assert ", label none" in str(fastpack.inspect(many, 0))
    options = {"objective": fastpack.MultiLabel(NAMES), "format": "jsonl"}
    fastpack.pack_dir(write_jsonl(several(8)), tmp_path / "out", tokenizer=bert, **options)
    [document] = fastpack.inspect(tmp_path / "out" / "train-00000.jsonl", 5).documents
    assert (document.label, document.labels, document.classes) == (
        (1.0, 0.0, 1.0),
        [],
        ("negative", "positive"),
    )


def test_a_folder_is_verified_by_the_rules_of_its_objective(bert, write_jsonl, tmp_path):
    cases = {
        "classification": ([1, -4, 0], "has -4, which is no class"),
        "multi_label": (
            [[1.0, 0.0, 0.0], [0.5, 0.0, 0.0], [0.0, 0.0, 1.0]],
            "has 0.5, which is neither 0 nor 1",
        ),
    }
    for objective, (labels, said) in cases.items():
        records = several(3) if objective == "multi_label" else pairs(3)
        out = tmp_path / objective
        options = {"objective": LABELLED[objective](NAMES)}
        fastpack.pack_dir(write_jsonl(records), out, tokenizer=bert, max_length=64, **options)
        found = fastpack.verify(out)
        wanted = [len(encoded(bert, record)[0]) for record in records]
        assert (found.problems, found.documents, found.tokens) == ((), 3, sum(wanted))
        rows = table_of(out)
        at = rows.column_names.index("labels")
        broken = rows.set_column(at, rows.schema.field("labels"), pa.array(labels, rows.schema.types[at]))
        with (
            pa.OSFile(str(out / "train-00000.arrow"), "wb") as sink,
            pa.ipc.new_stream(sink, rows.schema) as to,
        ):
            to.write_table(broken)
        problems = fastpack.verify(out).problems
        assert any("row 1" in problem and said in problem for problem in problems), problems
