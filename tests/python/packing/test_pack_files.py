"""`pack_files` and `pack_table`: their arguments and their rows."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from conftest import conversation
from rows import STRATEGIES
from template_helpers import unfollowed

import fastpack


def documents_of(table):
    """The documents of all rows as (ids, labels), in row order."""
    found = []
    for row in table.to_pylist():
        start = 0
        for length in row["seq_lengths"]:
            part = slice(start, start + length)
            found.append((row["input_ids"][part], row["labels"][part]))
            start += length
        assert start == len(row["input_ids"])
    return found


def test_every_document_is_in_exactly_one_row(corpus, tokenizer_dir):
    alone = fastpack.pack_files(corpus, tokenizer_dir, max_length=512, strategy="none")
    packed = fastpack.pack_files(corpus, tokenizer_dir, max_length=512)
    assert sorted(documents_of(packed)) == sorted(documents_of(alone))
    assert len(documents_of(packed)) == 200


def test_no_row_is_longer_than_max_length(corpus, tokenizer_dir):
    table = fastpack.pack_files(corpus, tokenizer_dir, max_length=300)
    assert max(map(len, table["input_ids"].to_pylist())) <= 300


@pytest.mark.parametrize(("engine", "road"), [("compiled", str), ("interpreted", unfollowed)])
def test_ids_and_masks_are_those_of_transformers(engine, road, corpus, tokenizer_dir):
    transformers = pytest.importorskip("transformers")
    reference = transformers.AutoTokenizer.from_pretrained(tokenizer_dir)
    template = road(reference.chat_template)
    table = fastpack.pack_files(
        corpus, tokenizer_dir, max_length=4096, strategy="none", chat_template=template
    )
    assert fastpack.Report.of(table).template_engine == engine
    expected = []
    for line in corpus.read_text(encoding="utf-8").splitlines():
        encoded = reference.apply_chat_template(
            json.loads(line)["messages"],
            tokenize=True,
            return_dict=True,
            return_assistant_tokens_mask=True,
        )
        ids, masks = encoded["input_ids"], encoded["assistant_masks"]
        labels = [token if mask else -100 for token, mask in zip(ids, masks, strict=True)]
        expected.append((ids, [-100, *labels[1:]]))
    assert documents_of(table) == expected


def test_the_first_label_of_each_document_is_masked(corpus, tokenizer_dir):
    table = fastpack.pack_files(corpus, tokenizer_dir, max_length=512, train_on="all")
    for ids, labels in documents_of(table):
        assert labels == [-100, *ids[1:]]


def test_positions_restart_in_each_document(corpus, tokenizer_dir):
    table = fastpack.pack_files(corpus, tokenizer_dir, max_length=512)
    for row in table.to_pylist():
        expected = [position for length in row["seq_lengths"] for position in range(length)]
        assert row["position_ids"] == expected


def test_columns_are_those_asked_for_in_their_order(corpus, tokenizer_dir):
    table = fastpack.pack_files(corpus, tokenizer_dir, max_length=512, columns=["seq_lengths", "input_ids"])
    assert table.column_names == ["seq_lengths", "input_ids"]


def test_sequential_rows_keep_the_input_order(corpus, tokenizer_dir):
    alone = fastpack.pack_files(corpus, tokenizer_dir, max_length=512, strategy="none")
    packed = fastpack.pack_files(corpus, tokenizer_dir, max_length=512, strategy="sequential")
    assert documents_of(packed) == documents_of(alone)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_threads_do_not_change_the_output(strategy, corpus, tokenizer_dir):
    tables = [
        fastpack.pack_files(corpus, tokenizer_dir, max_length=256, strategy=strategy, threads=threads)
        for threads in (1, 2, 8)
    ]
    assert tables[0].equals(tables[1], check_metadata=True)
    assert tables[0].equals(tables[2], check_metadata=True)


def test_a_text_ends_with_one_end_of_text(write_jsonl, tokenizer_dir):
    path = write_jsonl([{"text": "the river"}])
    ids = fastpack.pack_files(path, tokenizer_dir, max_length=64)["input_ids"].to_pylist()[0]
    assert ids.count(0) == 1
    assert ids[-1] == 0


@pytest.mark.parametrize(("eos", "ends"), [(True, [0]), (False, []), ("auto", [])])
def test_eos_decides_how_a_conversation_ends(eos, ends, write_jsonl, tokenizer_dir):
    path = write_jsonl([conversation(1)])
    plain = fastpack.pack_files(
        path, tokenizer_dir, max_length=512, special_tokens=fastpack.SpecialTokens(eos=False)
    )
    table = fastpack.pack_files(
        path, tokenizer_dir, max_length=512, special_tokens=fastpack.SpecialTokens(eos=eos)
    )
    assert table["input_ids"].to_pylist()[0] == plain["input_ids"].to_pylist()[0] + ends


def test_overlong_documents_are_dropped_and_counted(corpus, tokenizer_dir):
    table = fastpack.pack_files(corpus, tokenizer_dir, max_length=100)
    report = fastpack.Report.of(table)
    lost = report.dropped["too_long"]
    assert lost.documents > 0
    assert report.documents.read == 200 == report.documents.kept + lost.documents
    assert report.tokens.read == report.tokens.kept + lost.tokens
    assert report.tokens.kept == sum(map(len, table["input_ids"].to_pylist()))
    assert any("99 %" in warning for warning in report.warnings)


def test_overlong_documents_are_truncated_and_counted(corpus, tokenizer_dir):
    table = fastpack.pack_files(corpus, tokenizer_dir, max_length=100, overlong="truncate", train_on="all")
    report = fastpack.Report.of(table)
    assert report.documents.kept == 200
    assert report.truncated.documents > 0
    assert report.tokens.read == report.tokens.kept + report.truncated.tokens


def test_overlong_documents_can_be_an_error(corpus, tokenizer_dir):
    with pytest.raises(fastpack.RecordError) as caught:
        fastpack.pack_files(corpus, tokenizer_dir, max_length=100, overlong="error")
    assert caught.value.reason == "too_long"
    assert caught.value.line > 0


@pytest.mark.parametrize(
    "record",
    [
        {"conversation": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]},
        {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]},
        {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]},
    ],
)
def test_shapes_of_conversations_give_the_same_ids(record, write_jsonl, tokenizer_dir):
    expected = fastpack.pack_files(
        write_jsonl(
            [{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}],
            "x.jsonl",
        ),
        tokenizer_dir,
        max_length=64,
    )
    table = fastpack.pack_files(write_jsonl([record]), tokenizer_dir, max_length=64)
    assert table["input_ids"].to_pylist() == expected["input_ids"].to_pylist()


def test_fields_can_be_named(write_jsonl, tokenizer_dir):
    path = write_jsonl([{"body": "the river"}])
    table = fastpack.pack_files(
        path, tokenizer_dir, max_length=64, reading=fastpack.Reading(fields={"text": "body"})
    )
    assert table.num_rows == 1


def test_bom_and_crlf_are_accepted(write_jsonl, tokenizer_dir):
    plain = write_jsonl([{"text": "the river"}, {"text": "a boat"}], "plain.jsonl")
    odd = write_jsonl([b'\xef\xbb\xbf{"text": "the river"}\r', b'{"text": "a boat"}\r'], "odd.jsonl")
    tables = [fastpack.pack_files(path, tokenizer_dir, max_length=64) for path in (plain, odd)]
    assert tables[0]["input_ids"].to_pylist() == tables[1]["input_ids"].to_pylist()


@pytest.mark.parametrize("form", ["list", "glob", "braces", "folder"])
def test_forms_of_input_name_the_same_files(form, write_jsonl, tokenizer_dir, tmp_path):
    paths = [
        write_jsonl([{"text": f"the {word}"}], f"part-{number}.jsonl") for number, word in enumerate("abc")
    ]
    files = {
        "list": paths,
        "glob": tmp_path / "part-*.jsonl",
        "braces": str(tmp_path / "part-{0..2}.jsonl"),
        "folder": tmp_path,
    }[form]
    expected = fastpack.pack_files(paths, tokenizer_dir, max_length=64, strategy="sequential")
    table = fastpack.pack_files(files, tokenizer_dir, max_length=64, strategy="sequential")
    assert table.equals(expected)


def test_folders_are_read_deep_only_if_asked(write_jsonl, tokenizer_dir, tmp_path):
    write_jsonl([{"text": "the river"}], "a.jsonl")
    write_jsonl([{"text": "a boat"}], "deep/b.jsonl")
    reports = [
        fastpack.Report.of(
            fastpack.pack_files(
                tmp_path, tokenizer_dir, max_length=64, reading=fastpack.Reading(recursive=recursive)
            )
        )
        for recursive in (False, True)
    ]
    assert [report.documents.read for report in reports] == [1, 2]


def test_kinds_of_tokenizer_arguments_give_the_same_ids(corpus, tokenizer_dir):
    transformers = pytest.importorskip("transformers")
    arguments = [
        str(tokenizer_dir),
        fastpack.Tokenizer(tokenizer_dir),
        transformers.AutoTokenizer.from_pretrained(tokenizer_dir),
    ]
    first, *others = [fastpack.pack_files(corpus, it, max_length=512) for it in arguments]
    assert all(other.equals(first) for other in others)


def test_a_bare_tokenizer_packs_text(write_jsonl, tokenizer_dir):
    from tokenizers import Tokenizer

    path = write_jsonl([{"text": "the river"}])
    file = tokenizer_dir / "tokenizer.json"
    expected = Tokenizer.from_file(str(file)).encode("the river").ids
    for tokenizer in (file, Tokenizer.from_file(str(file))):
        table = fastpack.pack_files(
            path, tokenizer, max_length=64, special_tokens=fastpack.SpecialTokens(eos=False)
        )
        assert table["input_ids"].to_pylist() == [expected]


def test_a_chat_template_can_be_a_text_or_a_file(corpus, tokenizer_dir, bare_tokenizer_dir):
    path = tokenizer_dir / "chat_template.jinja"
    expected = fastpack.pack_files(corpus, tokenizer_dir, max_length=512)
    for template in (path, str(path), path.read_text(encoding="utf-8")):
        table = fastpack.pack_files(corpus, bare_tokenizer_dir, max_length=512, chat_template=template)
        assert table.equals(expected)


def test_a_chat_template_can_be_a_name(corpus, tokenizer_dir, bare_tokenizer_dir, tmp_path):
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((bare_tokenizer_dir / name).read_bytes())
    extra = tmp_path / "additional_chat_templates"
    extra.mkdir()
    template = (tokenizer_dir / "chat_template.jinja").read_text(encoding="utf-8")
    (extra / "brief.jinja").write_text(template, encoding="utf-8")
    expected = fastpack.pack_files(corpus, tokenizer_dir, max_length=512)
    table = fastpack.pack_files(corpus, tmp_path, max_length=512, chat_template="brief")
    assert table.equals(expected)


def test_template_variables_reach_the_template(write_jsonl, bare_tokenizer_dir):
    path = write_jsonl([{"messages": [{"role": "user", "content": "a"}]}])
    template = "{{ prefix }}{{ messages[0]['content'] }}"
    tokenizer = fastpack.Tokenizer(bare_tokenizer_dir)
    table = fastpack.pack_files(
        path,
        tokenizer,
        max_length=64,
        train_on="all",
        chat_template=fastpack.ChatTemplate(template, variables={"prefix": "the "}),
    )
    assert tokenizer.decode(table["input_ids"].to_pylist()[0]) == "the a"


def test_the_report_of_a_table_has_no_clock(corpus, tokenizer_dir):
    report = fastpack.Report.of(fastpack.pack_files(corpus, tokenizer_dir, max_length=512))
    assert report.seconds is None
    assert report.stages == {}


def test_a_table_of_documents_is_packed():
    documents = pa.table({"input_ids": [[1, 2, 3], [4, 5], [6, 7, 8, 9]]})
    packed = fastpack.pack_table(documents, max_length=6, strategy="sequential")
    assert packed["input_ids"].to_pylist() == [[1, 2, 3, 4, 5], [6, 7, 8, 9]]
    assert packed["labels"].to_pylist() == [[-100, 2, 3, -100, 5], [-100, 7, 8, 9]]
    assert packed["seq_lengths"].to_pylist() == [[3, 2], [4]]


def test_a_table_brings_its_labels():
    documents = pa.table({"input_ids": [[1, 2, 3]], "labels": [[-100, -100, 3]]})
    packed = fastpack.pack_table(documents, max_length=6)
    assert packed["labels"].to_pylist() == [[-100, -100, 3]]


def test_progress_is_told_to_a_callable(long_corpus, tokenizer_dir):
    seen: list[fastpack.Progress] = []
    fastpack.pack_files(long_corpus, tokenizer_dir, max_length=2048, progress=seen.append)
    assert seen[-1].bytes == seen[-1].total_bytes == long_corpus.stat().st_size
    assert seen[-1].documents == 10_000
    assert {reading.phase for reading in seen} <= {"tokenize", "plan", "write"}


def test_an_error_in_the_progress_callable_ends_the_call(big_corpus, tokenizer_dir):
    def fail(_reading):
        message = "enough"
        raise LookupError(message)

    with pytest.raises(LookupError, match="enough"):
        fastpack.pack_files(big_corpus, tokenizer_dir, max_length=2048, progress=fail)
