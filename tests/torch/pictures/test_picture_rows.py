"""Rows of conversations with pictures: the ids, types and pictures are those of the processor, and no picture is cut."""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import re
import subprocess
import sys
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from picture_models import FAMILIES, model_of
from picture_records import (
    PICTURES,
    answer,
    many,
    messages_of,
    packed,
    part_of,
    picture,
    png,
    text,
    user,
    write,
)
from PIL import Image

import fastpack
from fastpack import _fastpack
from fastpack.dataset.pictures.files import PictureFiles
from fastpack.dataset.pictures.references import references_of
from fastpack.errors import LossError, OptionError, RecordError
from fastpack.report.display.rows import picture_line
from fastpack.torch import PictureCollator

VARIANTS = [(name, variant) for name, family in FAMILIES.items() for variant in family.options]


SIZES = st.tuples(st.integers(20, 120), st.integers(20, 120))
WORDS = st.sampled_from(["a river", "the boat\n", " é", "", "two\n\nlines", "<b>日本</b>"])
PARTS = st.lists(st.one_of(SIZES, WORDS), min_size=1, max_size=4)
TURNS = st.lists(st.tuples(PARTS, WORDS.filter(str.strip)), min_size=1, max_size=3)


def by_processor(processor, messages, options, **given):
    made = processor.apply_chat_template(
        messages,
        tokenize=True,
        return_dict=True,
        return_tensors="pt",
        processor_kwargs={"images_kwargs": options},
        **given,
    )
    return {name: made[name][0].tolist() for name in made if name.endswith("ids")}


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
@given(conversations=st.lists(TURNS, min_size=3, max_size=3))
@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rows_are_those_of_the_processor(name, variant, conversations, folder_of, processor_of, tmp_path):
    options = FAMILIES[name].options[variant]
    records = [{"messages": messages_of(turns, tmp_path)} for turns in conversations]
    rows = packed(
        write(tmp_path, records),
        folder_of(name),
        reading=fastpack.Reading(images=fastpack.Images(processor_kwargs=options or None)),
    )
    assert len(rows) == len(records)
    for row, record, turns in zip(rows, records, conversations, strict=True):
        wanted = by_processor(processor_of(name), record["messages"], options)
        assert row["input_ids"] == wanted["input_ids"]
        for column in wanted.keys() - {"input_ids"}:
            assert row[column] == wanted[column], column
        sizes = [part for parts, _ in turns for part in parts if not isinstance(part, str)]
        if name == "llava":  # whose template writes the pictures of a message before its texts
            assert sorted((it["width"], it["height"]) for it in row["images"]) == sorted(sizes)
        else:
            assert [(it["width"], it["height"]) for it in row["images"]] == sizes
        assert [it["number"] for it in row["images"]] == list(range(len(sizes)))
        assert {(it["pictures"], it["document"]) for it in row["images"]} <= {(len(sizes), 0)}


MODES = ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK"]
ENDINGS_OF = {"P": ["png", "gif"], "RGB": ["png", "jpeg", "webp"], "RGBA": ["png", "webp"], "CMYK": ["jpeg"]}


@pytest.mark.parametrize("name", FAMILIES)
def test_pictures_of_every_mode_give_the_rows_of_the_processor(name, folder_of, processor_of, tmp_path):
    """Palettes, alpha, grey, and pictures one pixel wide or high, in each format that holds them."""
    records = []
    for at, mode in enumerate(MODES):
        for width, height in [(60, 40), (1, 30), (30, 1)]:
            picture = Image.open(io.BytesIO(png(width, height, seed=at))).convert(mode)
            # Of these the processor opens files; TIFF and BMP it does not.
            for ending in ENDINGS_OF.get(mode, ["png"]):
                path = tmp_path / f"{mode}-{width}x{height}.{ending}"
                picture.save(path)
                records.append(
                    {"messages": [user({"type": "image", "path": str(path)}, text("a")), answer("b")]}
                )
    taken = []
    for record in records:
        try:
            wanted = by_processor(processor_of(name), record["messages"], {})["input_ids"]
        except ValueError:  # the processor takes no picture of this shape
            wanted = None
        taken.append(wanted)
    rows = packed(
        write(tmp_path, records), folder_of(name), on_bad_record="skip", columns=["input_ids", "source_row"]
    )
    found = {row["source_row"][0]: row["input_ids"] for row in rows}
    for at, wanted in enumerate(taken):
        if wanted is not None:
            assert found[at + 1] == wanted, records[at]["messages"][0]["content"][0]
    assert sum(wanted is not None for wanted in taken) >= len(MODES)


def common(some, others):
    """The number of ids that two lists begin with alike."""
    return next(
        (at for at, (one, other) in enumerate(zip(some, others, strict=False)) if one != other), len(some)
    )


def labels_behind_prompts(processor, messages, ids, **given):
    """The labels of a conversation: of each turn of the assistant, what the model has to generate behind the prompt."""
    wanted = [-100] * len(ids)
    for at in (at for at, message in enumerate(messages) if message["role"] == "assistant"):
        before = by_processor(processor, messages[:at], {}, add_generation_prompt=True, **given)["input_ids"]
        behind = by_processor(processor, messages[: at + 1], {}, **given)["input_ids"]
        # A token that reaches from the header into the turn is trained.
        start, decode = common(before, behind), processor.tokenizer.decode
        assert start == len(before) or len(decode(behind[: start + 1])) > len(decode(before))
        assert ids[: len(behind)] == behind
        stop = len(behind)
        while not processor.tokenizer.decode(behind[stop - 1]).strip():  # behind the end of the turn
            stop -= 1
        wanted[start:stop] = behind[start:stop]
    return wanted


@pytest.mark.parametrize("name", FAMILIES)
@given(turns=TURNS)
@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_trained_stands_behind_the_prompt(name, turns, folder_of, processor_of, tmp_path):
    messages = messages_of(turns, tmp_path)
    [row] = packed(write(tmp_path, [{"messages": messages}]), folder_of(name))
    assert row["labels"] == labels_behind_prompts(processor_of(name), messages, row["input_ids"])


#: Calls as JSON, and results inside turns of the user, as in templates of published models that call tools.
WITH_TOOLS = """
{%- macro shown(content) -%}
{%- for part in content -%}
{%- if part.type == 'image' -%}PICTURE{%- else -%}{{- part.text -}}{%- endif -%}
{%- endfor -%}
{%- endmacro -%}
{%- for message in messages -%}
{%- if message.role == 'tool' -%}
{{- '<|im_start|>user\n<tool_response>\n' + shown(message.content) + '\n</tool_response><|im_end|>\n' -}}
{%- else -%}
{{- '<|im_start|>' + message.role + '\n' + shown(message.content) -}}
{%- for call in message.tool_calls or [] -%}
{{- '<tool_call>' + call.function | tojson + '</tool_call>' -}}
{%- endfor -%}
{{- '<|im_end|>\n' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}
"""

PICTURES_IN_TURNS = {
    "qwen2_5_vl": "<|vision_start|><|image_pad|><|vision_end|>",
    "qwen3_vl": "<|vision_start|><|image_pad|><|vision_end|>",
    "internvl": "<IMG_CONTEXT>\n",
}


@pytest.mark.parametrize("name", PICTURES_IN_TURNS)
@given(
    turns=st.lists(
        st.tuples(PARTS, st.lists(PARTS, max_size=2), WORDS.filter(str.strip)), min_size=1, max_size=3
    )
)
@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_results_of_tools_may_show_pictures(name, turns, folder_of, processor_of, tmp_path):
    messages, sizes = [], []
    for asked, results, said in turns:
        messages.append(user(*(part_of(part, tmp_path) for part in asked)))
        for number, result in enumerate(results):
            function = {"name": "look", "arguments": {"at": f"the river {number}"}}
            calls = [{"type": "function", "function": function}]
            messages.append({"role": "assistant", "content": [text("")], "tool_calls": calls})
            messages.append({"role": "tool", "content": [part_of(part, tmp_path) for part in result]})
        messages.append(answer(said))
        sizes += [part for parts in (asked, *results) for part in parts if not isinstance(part, str)]
    template = WITH_TOOLS.replace("PICTURE", PICTURES_IN_TURNS[name])
    [row] = packed(write(tmp_path, [{"messages": messages}]), folder_of(name), chat_template=template)
    processor = processor_of(name)
    wanted = by_processor(processor, messages, {}, chat_template=template)
    assert {column: row[column] for column in wanted} == wanted
    assert row["labels"] == labels_behind_prompts(
        processor, messages, row["input_ids"], chat_template=template
    )
    assert [(it["width"], it["height"]) for it in row["images"]] == sizes


def test_all_forms_of_pictures_give_the_same_rows(forms, folder_of, processor_of):
    folder, records = forms
    made = {}
    for form, record in records.items():
        path = write(folder, [record], f"{form.replace(' ', '_')}.jsonl")
        [made[form]] = packed(path, folder_of("qwen2_5_vl"))
    wanted = made["path"]
    messages = records["image"]["messages"]
    assert wanted["input_ids"] == by_processor(processor_of("qwen2_5_vl"), messages, {})["input_ids"]
    for form, row in made.items():
        assert row["input_ids"] == wanted["input_ids"], form
        if form != "prompt":  # of which all of the completion is trained
            assert row["labels"] == wanted["labels"], form
        sizes = [(it["number"], it["width"], it["height"]) for it in row["images"]]
        assert sizes == [(0, 60, 90), (1, 120, 50)], form
        is_held = form in {"base64", "data url", "image_url", "column of bytes"}
        here = str(folder / f"{form.replace(' ', '_')}.jsonl")
        places = [(it["path"], it["row"]) for it in row["images"]]
        files = [(str(folder / "60x90.png"), 0), (str(folder / "120x50.png"), 0)]
        assert places == ([(here, 1)] * 2 if is_held else files), form


def test_tables_hold_pictures_as_datasets_keeps_them(folder_of, tmp_path):
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    said = [user({"type": "image", "text": None}, text("a boat")), answer("the river")]
    for record in said:
        record["content"] = [{"type": it["type"], "text": it.get("text")} for it in record["content"]]
    table = pa.table(
        {
            "messages": [said, said],
            "images": pa.array(
                [[{"bytes": png(60, 90), "path": None}], [{"bytes": png(90, 30), "path": "x"}]],
                pa.list_(kind),
            ),
        }
    )
    pq.write_table(table, tmp_path / "data.parquet", row_group_size=1)
    with pa.OSFile(str(tmp_path / "data.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table, max_chunksize=1)
    for name in ("data.parquet", "data.arrow"):
        rows = packed(tmp_path / name, folder_of("qwen2_5_vl"))
        places = [(it["path"], it["row"], it["width"], it["height"]) for row in rows for it in row["images"]]
        here = str(tmp_path / name)
        assert places == [(here, 1, 60, 90), (here, 2, 90, 30)]
    with pytest.raises(RecordError, match="no row can name the bytes"):
        fastpack.pack_table(table, tokenizer=folder_of("qwen2_5_vl"), max_length=512, reading=PICTURES)


@pytest.mark.parametrize("turn", range(1, 9))
def test_a_turned_picture_has_the_size_that_it_is_shown_in(turn, folder_of, processor_of, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = turn
    path = tmp_path / "turned.jpg"
    path.write_bytes(png(90, 40, format="JPEG", exif=exif.tobytes()))
    messages = [user({"type": "image", "path": str(path)}, text("a boat")), answer("the river")]
    [row] = packed(write(tmp_path, [{"messages": messages}]), folder_of("qwen2_5_vl"))
    [seen] = row["images"]
    assert (seen["width"], seen["height"]) == ((40, 90) if turn > 4 else (90, 40))
    assert row["input_ids"] == by_processor(processor_of("qwen2_5_vl"), messages, {})["input_ids"]


BAD = {
    "missing": ({"type": "image", "path": "none.png"}, "none.png`: No such file"),
    "no picture": ({"type": "image", "path": "data.jsonl"}, "no picture"),
    "folder": ({"type": "image", "path": "."}, "it is no file"),
    "pipe": ({"type": "image", "path": "pipe"}, "it is no file"),
    "cut": ({"type": "image", "path": "cut.png"}, "cut.png"),
    "far": ({"type": "image", "url": "https://example.org/a.png"}, "only if `reading.images.fetch`"),
    "no base64": ({"type": "image", "base64": "****"}, "no base64"),
    "without a file": ({"type": "image"}, "is a picture without"),
    "thin": ({"type": "image", "path": "thin.png"}, "takes no picture of 1 x 900 pixels"),
    "video": ({"type": "video", "path": "a.mp4"}, "is of type `video`; fastpack packs text and pictures"),
    "audio": ({"type": "input_audio"}, "is of type `input_audio`"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_picture_is_refused_by_name(case, folder_of, tmp_path):
    part, reason = BAD[case]
    (tmp_path / "cut.png").write_bytes(png(60, 90)[:20])
    (tmp_path / "thin.png").write_bytes(png(1, 900))
    os.mkfifo(tmp_path / "pipe")
    good = user({"type": "image", "path": str(picture(tmp_path, 60, 90))}, text("a boat"))
    records = [{"messages": [good, answer("ok")]}, {"messages": [user(part, text("a boat")), answer("ok")]}]
    path = write(tmp_path, records)
    with pytest.raises(RecordError, match=reason) as refused:
        packed(path, folder_of("qwen2_5_vl"))
    assert f"{path}:2: " in str(refused.value)
    assert len(packed(path, folder_of("qwen2_5_vl"), on_bad_record="skip")) == 1


def test_a_marker_in_a_text_is_no_picture(folder_of, tmp_path):
    said = user(text("look at <|image_pad|> this"))
    path = write(tmp_path, [{"messages": [said, answer("ok")]}])
    with pytest.raises(RecordError, match="the token of a picture, and there is none"):
        packed(path, folder_of("qwen2_5_vl"))


def test_pictures_without_the_option_are_refused(forms, folder_of):
    folder, records = forms
    with pytest.raises(RecordError, match=r"pictures are packed with `reading\.images`"):
        packed(write(folder, [records["path"]]), folder_of("qwen2_5_vl"), reading=None)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"strategy": "concat"}, "cuts documents inside pictures"),
        ({"objective": "mlm"}, 'means nothing with objective="mlm"'),
        ({"reading": {"images": "shown"}}, "images"),
        ({"reading": {"images": {"processor_kwargs": {"max_pixel": 3}}}}, "max_pixel"),
    ],
)
def test_what_pictures_cannot_go_with_is_refused(options, reason, forms, folder_of):
    folder, records = forms
    path = write(folder, [records["path"]])
    with pytest.raises(OptionError, match=reason):  # noqa: PT012  the option refuses, or the call
        given = {"reading": fastpack.Reading(**options["reading"])} if "reading" in options else options
        packed(path, folder_of("qwen2_5_vl"), **given)


def test_a_tokenizer_without_a_processor_is_refused(forms, tmp_path):
    folder, records = forms
    with pytest.raises(OptionError, match="processor"):
        packed(write(folder, [records["path"]]), "examples/tokenizer")


@pytest.mark.parametrize(
    "cut", [fastpack.Truncate(side="left"), "truncate", "split", "trim", "drop"], ids=str
)
@given(turns=st.lists(TURNS, min_size=4, max_size=4), max_length=st.integers(12, 80))
@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_picture_is_cut(cut, turns, max_length, folder_of, processor_of, tmp_path):
    path = write(tmp_path, [{"messages": messages_of(it, tmp_path)} for it in turns])
    token = processor_of("qwen2_5_vl").image_token_id
    begin, close = processor_of("qwen2_5_vl").tokenizer.convert_tokens_to_ids(
        ["<|vision_start|>", "<|vision_end|>"]
    )
    lengths = {
        (it["width"], it["height"]): by_processor(
            processor_of("qwen2_5_vl"), [user(part_of((it["width"], it["height"]), tmp_path))], {}
        )["input_ids"].count(token)
        for row in packed(path, folder_of("qwen2_5_vl"))
        for it in row["images"]
    }
    rows = packed(path, folder_of("qwen2_5_vl"), max_length=max_length, strategy="mix", overlong=cut)
    for row in rows:
        assert len(row["input_ids"]) <= max_length
        assert row["input_ids"].count(token) == sum(
            lengths[it["width"], it["height"]] for it in row["images"]
        )
        assert [it == token for it in row["input_ids"]] == [it == 1 for it in row["mm_token_type_ids"]]
        ends = np.cumsum(row["seq_lengths"])
        for at, (end, length) in enumerate(zip(ends, row["seq_lengths"], strict=True)):
            ids = row["input_ids"][end - length : end]
            assert ids.count(begin) == ids.count(close) == sum(it["document"] == at for it in row["images"])


def test_every_road_gives_the_same_pictures(folder_of, tmp_path):
    model, path = folder_of("qwen2_5_vl"), write(tmp_path, many(tmp_path))
    options = {"max_length": 256, "strategy": "mix"}
    rows = packed(path, model, **options)
    assert packed(path, model, threads=3, **options) == rows
    common = {"tokenizer": model, "reading": PICTURES, "max_length": 256, "progress": False}
    for form in ("arrow", "parquet", "jsonl"):
        fastpack.pack_dir(path, tmp_path / form, format=form, keep_tokens=True, memory="1MB", **common)
        assert fastpack.read(tmp_path / form).to_pylist() == rows
    assert fastpack.verify(tmp_path / "arrow", tokenizer=model)
    compact = fastpack.Format("arrow", layout="compact")
    fastpack.pack_dir(path, tmp_path / "compact", format=compact, **common)
    assert fastpack.read(tmp_path / "compact").to_pylist() == rows
    fastpack.repack(tmp_path / "arrow", tmp_path / "again", max_length=512, progress=False)
    assert fastpack.read(tmp_path / "again").to_pylist() == packed(
        path, model, **{**options, "max_length": 512}
    )
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert fastpack.pack_records(records, **common).to_pylist() == rows
    assert fastpack.pack_table(pa.Table.from_pylist(records), **common).to_pylist() == rows


def test_a_stream_goes_on_with_its_pictures(folder_of, tmp_path):
    model, path = folder_of("qwen2_5_vl"), write(tmp_path, many(tmp_path))
    options = {"tokenizer": model, "reading": PICTURES, "max_length": 256, "batch_size": 4}
    whole = [table.to_pylist() for table in fastpack.stream(path, **options)]
    assert sum(len(row["images"]) for rows in whole for row in rows) > 60
    stream = fastpack.stream(path, **options)
    first = [next(stream).to_pylist() for _ in range(3)]
    state = json.loads(json.dumps(stream.state_dict()))
    resumed = fastpack.stream(path, **options)
    resumed.load_state_dict(state)
    assert first + [table.to_pylist() for table in resumed] == whole
    other = fastpack.stream(
        path,
        **{
            **options,
            "reading": fastpack.Reading(
                images=fastpack.Images(
                    processor_kwargs={"size": {"shortest_edge": 784, "longest_edge": 7840}}
                )
            ),
        },
    )
    other.load_state_dict(state)
    with pytest.raises(OptionError, match="images"):
        next(other)


def test_the_report_counts_pictures(folder_of, processor_of, tmp_path):
    path = write(tmp_path, many(tmp_path))
    usual = {"max_length": 256, "reading": PICTURES, "progress": False}
    table = fastpack.pack_files(path, folder_of("qwen2_5_vl"), **usual)
    report, rows = fastpack.Report.of(table), table.to_pylist()
    token = processor_of("qwen2_5_vl").image_token_id
    assert report.pictures == sum(len(row["images"]) for row in rows)
    shown = sum(row["input_ids"].count(token) for row in rows)
    assert report.picture_tokens == shown + 2 * report.pictures  # the marks around each picture
    assert f"pictures     {report.pictures} of {report.picture_tokens:,} tokens" in str(report)
    scanned = fastpack.scan(path, folder_of("qwen2_5_vl"), **usual)
    assert scanned.fits[0].kept.tokens == report.tokens.kept
    assert (scanned.pictures, scanned.picture_tokens) == (report.pictures, report.picture_tokens)
    assert f"pictures     {report.pictures} of {report.picture_tokens:,} tokens" in str(scanned)
    sizes = [it["width"] * it["height"] for row in rows for it in row["images"]]
    for facts in (report, scanned):
        assert facts.picture_pixels == pytest.approx(np.mean(sizes))
        assert facts.most_picture_pixels == max(sizes)
        assert f"{max(sizes) / 1e6:,.2f} at most" in str(facts)


LIMITS = st.tuples(st.none() | st.integers(1, 4), st.none() | st.integers(12, 60)).filter(any)


@pytest.mark.parametrize("strategy", ["mix", "best_fit", "heap", "sequential", "none"])
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    limits=LIMITS,
    overlong=st.sampled_from(["drop", "split", "truncate", "trim"]),
    conversations=st.lists(TURNS, min_size=3, max_size=8),
)
def test_no_row_shows_more_pictures_than_it_may(
    strategy, limits, overlong, conversations, folder_of, processor_of, tmp_path
):
    most, most_tokens = limits
    images = fastpack.Images(max_images_per_pack=most, max_image_tokens_per_pack=most_tokens)
    records = [{"messages": messages_of(turns, tmp_path)} for turns in conversations]
    path, model = write(tmp_path, records), folder_of("qwen2_5_vl")
    usual = {"max_length": 600, "progress": False, "max_lost": "100%", "overlong": overlong}
    given_limits = {**usual, "reading": fastpack.Reading(images=images), "strategy": strategy}
    try:
        table = fastpack.pack_files(path, model, **given_limits)
    except LossError:
        assert overlong in ("drop", "trim") or most_tokens is not None
        return
    report, rows = fastpack.Report.of(table), table.to_pylist()
    token = processor_of("qwen2_5_vl").image_token_id
    pictures = [len(row["images"]) for row in rows]
    tokens = [row["input_ids"].count(token) + 2 * len(row["images"]) for row in rows]
    assert all(most is None or count <= most for count in pictures)
    assert all(most_tokens is None or count <= most_tokens for count in tokens)
    assert sum(tokens) == sum(row["input_ids"].count(token) for row in rows) + 2 * sum(pictures)
    assert report.picture_fill == (most and pytest.approx(sum(pictures) / (most * len(rows)), abs=1e-3))
    assert report.picture_token_fill == (
        most_tokens and pytest.approx(sum(tokens) / (most_tokens * len(rows)), abs=1e-3)
    )
    assert report.lower_bound <= len(rows)
    assert report.lower_bound >= max(
        -(-sum(pictures) // most) if most else 0, -(-sum(tokens) // most_tokens) if most_tokens else 0
    )


def test_limits_of_pictures_hold_on_every_road(folder_of, tmp_path):
    path, model = write(tmp_path, many(tmp_path)), folder_of("qwen2_5_vl")
    reading = fastpack.Reading(images=fastpack.Images(max_images_per_pack=3, max_image_tokens_per_pack=40))
    options = {"max_length": 512, "reading": reading}
    table = fastpack.pack_files(path, model, progress=False, **options)
    most = max(len(row["images"]) for row in table.to_pylist())
    free = fastpack.pack_files(path, model, progress=False, **{**options, "reading": PICTURES})
    assert most <= 3 < max(len(row["images"]) for row in free.to_pylist())
    fastpack.pack_dir(path, tmp_path / "rows", tokenizer=model, progress=False, **options)
    assert fastpack.read(tmp_path / "rows").to_pylist() == table.to_pylist()
    assert fastpack.verify(tmp_path / "rows", sample=0)
    problems, _ = _fastpack.check_rows(table, json.dumps({"reading.images.max_images_per_pack": most - 1}))
    assert [message for _, message in problems] == [
        f"column `images` has more than {most - 1} pictures, the `max_images_per_pack` of these rows"
    ]
    fastpack.pack_dir(path, tmp_path / "kept", tokenizer=model, keep_tokens=True, progress=False, **options)
    fastpack.repack(tmp_path / "kept", tmp_path / "again", max_length=512, progress=False)
    assert fastpack.read(tmp_path / "again").to_pylist() == table.to_pylist()
    scanned = fastpack.scan(path, model, progress=False, **options)
    assert scanned.fits[0].rows == table.num_rows
    assert scanned.fits[0].lower_bound == fastpack.Report.of(table).lower_bound
    stream = fastpack.stream(path, model, batch_size=4, **options)
    first = [next(stream).to_pylist() for _ in range(3)]
    resumed = fastpack.stream(path, model, batch_size=4, **options)
    resumed.load_state_dict(json.loads(json.dumps(stream.state_dict())))
    rest = [batch.to_pylist() for batch in resumed]
    whole = fastpack.stream(path, model, batch_size=4, **options)
    assert first + rest == [batch.to_pylist() for batch in whole]
    shown = [len(row["images"]) for batch in first + rest for row in batch]
    assert max(shown) <= 3
    assert sum(shown) == sum(len(row["images"]) for row in table.to_pylist())
    assert (
        resumed.report.picture_fill
        == whole.report.picture_fill
        == pytest.approx(sum(shown) / (3 * len(shown)))
    )


@pytest.mark.parametrize("memory", ["1GB", "1MB"])
def test_documents_that_groups_share_keep_their_pictures_and_turns(memory, folder_of, tmp_path):
    model = folder_of("qwen2_5_vl")
    paths = [write(tmp_path, many(tmp_path, 5 + at), f"{at}.jsonl") for at in range(4)]
    options = {
        "tokenizer": model,
        "max_length": 256,
        "order": fastpack.Balanced(5),
        "turns": "each",
        "reading": PICTURES,
        "columns": ["input_ids", "labels", "seq_lengths", "source_file", "source_row", "source_turn"],
        "progress": False,
        "memory": memory,
    }
    found = []
    for name, groups in {"groups": fastpack.Groups("10KB"), "whole": None}.items():
        fastpack.pack_dir(paths, tmp_path / name, groups=groups, **options)
        documents = []
        for row in fastpack.read(tmp_path / name).to_pylist():
            ends = np.cumsum(row["seq_lengths"])
            for at, (end, length) in enumerate(zip(ends, row["seq_lengths"], strict=True)):
                shown = [(it["path"], it["width"]) for it in row["images"] if it["document"] == at]
                origin = [row[name][at] for name in ("source_file", "source_row", "source_turn")]
                documents.append((*origin, row["input_ids"][end - length : end], shown))
        found.append(sorted(documents))
    assert found[0] == found[1]


def test_a_document_with_too_many_pictures_may_be_an_error(folder_of, tmp_path):
    shown = [part_of(size, tmp_path) for size in ((60, 90), (120, 50), (30, 40))]
    path = write(tmp_path, [{"messages": [user(*shown, text("boats")), answer("ok")]}])
    limited = fastpack.Reading(images=fastpack.Images(max_images_per_pack=2))
    said = r"data.jsonl:1: .*the document has 3 pictures of \d+ tokens, more than `reading.images` allows in a row"
    with pytest.raises(RecordError, match=said):
        packed(path, folder_of("qwen2_5_vl"), reading=limited, overlong="error", strategy="mix")


@pytest.mark.parametrize("name", ["max_images_per_pack", "max_image_tokens_per_pack"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "many", True, 2**31])
def test_limits_of_pictures_are_counts(name, value, forms, folder_of):
    folder, records = forms
    path = write(folder, [records["path"]], "limits.jsonl")
    with pytest.raises(OptionError, match=f"reading.images.{name}"):
        packed(
            path, folder_of("qwen2_5_vl"), reading=fastpack.Reading(images=fastpack.Images(**{name: value}))
        )


def test_a_pipe_is_no_picture(forms, folder_of, tmp_path):
    folder, records = forms
    (row,) = packed(write(folder, [records["path"]], "pipe.jsonl"), folder_of("qwen2_5_vl"))
    os.mkfifo(tmp_path / "pipe")
    given = {**row["images"][0], "path": str(tmp_path / "pipe")}
    for each in (given, {**given, "row": 1}):
        with pytest.raises(ValueError, match="is no regular file"):
            PictureFiles().opened(references_of([each])[0])


def test_verify_opens_every_picture(forms, folder_of, tmp_path):
    folder, records = forms
    model = folder_of("qwen2_5_vl")
    path = write(folder, [records["path"], records["base64"], records["column of bytes"]], "verified.jsonl")
    out = tmp_path / "rows"
    fastpack.pack_dir(path, out, tokenizer=model, max_length=512, reading=PICTURES, progress=False)
    found = fastpack.verify(out, pictures=True)
    assert (found.ok, found.pictures) == (True, 6)
    assert fastpack.verify(out).pictures == 0
    spoilt = folder / "60x90.png"
    content = spoilt.read_bytes()
    try:
        spoilt.write_bytes(content[: len(content) // 2])
        assert fastpack.verify(out, sample=0).ok
        (problem,) = fastpack.verify(out, sample=0, pictures=True).problems
        assert re.search(r"train-00000.arrow, row 0: the picture `.*60x90.png` cannot be opened: ", problem)
        spoilt.write_bytes(png(61, 90))
        (problem,) = fastpack.verify(out, sample=0, pictures=True).problems
        assert "60x90.png` has 61 x 90 pixels, but had 60 x 90 when it was packed" in problem
    finally:
        spoilt.write_bytes(content)


@pytest.mark.parametrize("url", ["file://{}", "file://localhost{}"])
def test_urls_of_files_may_have_escapes(url, folder_of, tmp_path):
    there = tmp_path / "a folder, 100%"
    there.mkdir()
    path = picture(there, 60, 90)
    source = url.format(quote(str(path)))
    messages = [user({"type": "image", "url": source}, text("a boat")), answer("ok")]
    (row,) = packed(write(tmp_path, [{"messages": messages}]), folder_of("qwen2_5_vl"))
    assert [each["path"] for each in row["images"]] == [str(path)]


def test_inspect_names_the_pictures_of_each_document(forms, folder_of):
    folder, records = forms
    path = write(
        folder, [records["path"], records["base64"], {"messages": [user(text("a boat")), answer("ok")]}]
    )
    table = fastpack.pack_files(
        path, folder_of("qwen2_5_vl"), max_length=512, reading=PICTURES, progress=False
    )
    row = fastpack.inspect(table, tokenizer=folder_of("qwen2_5_vl"))
    shown = {tuple(map(picture_line, document.pictures)) for document in row.documents}
    files = (f"picture 0: {folder / '60x90.png'}, 60 x 90", f"picture 1: {folder / '120x50.png'}, 120 x 50")
    held = (f"picture 0: {path}:2, 60 x 90", f"picture 1: {path}:2, 120 x 50")
    assert shown == {files, held, ()}
    assert all(line in str(row) for line in (*files, *held))
    page = row._repr_html_()
    assert all(line in page for line in (*files, *held))
    small = re.findall(r'<img src="data:image/jpeg;base64,([^"]+)" width="(\d+)" height="(\d+)"', page)
    assert sorted(tuple(sides) for _, *sides in small) == 2 * [("60", "90")] + 2 * [("96", "40")]
    for content, *sides in small:
        assert Image.open(io.BytesIO(base64.b64decode(content))).size == tuple(map(int, sides))
    assert sorted(len(each.get("pictures", [])) for each in row.to_dict()["documents"]) == [0, 2, 2]


def test_bytes_that_no_row_can_name_are_refused(forms, folder_of, tmp_path):
    _, records = forms
    model, record = folder_of("qwen2_5_vl"), records["column of bytes"]
    lines = json.dumps(record)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    (tmp_path / "a.json").write_text(f"[{lines}]")
    for name in ("a.jsonl.gz", "a.json"):
        with pytest.raises(RecordError, match="no row can name the bytes"):
            packed(tmp_path / name, model)
    with pytest.raises(RecordError, match="no row can name the bytes"):
        packed(
            write(tmp_path, [record]), model, map=fastpack.Function(lambda batch: batch, fingerprint="same")
        )
    column = pa.array([[png(60, 90)]], pa.list_(pa.binary()))
    said = [{"role": "user", "content": "<image>a boat"}, {"role": "assistant", "content": "ok"}]
    pq.write_table(pa.table({"messages": [said], "images": column}), tmp_path / "a.parquet")
    assert len(packed(tmp_path / "a.parquet", model)[0]["images"]) == 1
    with pytest.raises(RecordError, match="bytes of pictures, which `map` cannot pass on"):
        packed(tmp_path / "a.parquet", model, map=fastpack.Function(lambda batch: batch, fingerprint="same"))


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        (
            "{% for m in messages %}{{ m.role }}: {{ m.content if m.content is string else 'x' }}\n{% endfor %}",
            "writes no",
        ),
        (
            "{% for m in messages %}{{ m.role }}: {% if m.role == 'user' %}<|image_pad|>{% endif %}\n{% endfor %}",
            "1 times for 2 pictures",
        ),
    ],
)
def test_a_template_that_leaves_pictures_out_is_refused(template, reason, forms, folder_of):
    folder, records = forms
    [asked, said] = records["path"]["messages"]
    [first, second, words] = asked["content"]
    messages = [{"role": "system", "content": [first]}, user(second, words), said]
    path = write(folder, [{"messages": messages}], "system.jsonl")
    with pytest.raises(RecordError, match=reason):
        packed(path, folder_of("qwen2_5_vl"), chat_template=template)


def test_marks_are_places_and_columns_fill_them(forms, folder_of, tmp_path):
    folder, records = forms
    model, names = folder_of("qwen2_5_vl"), records["column"]["images"]
    wanted = packed(write(folder, [records["path"]]), model)[0]["input_ids"]
    listed = {"images": names, "messages": [user(text("<image>\n<image>\na boat")), answer("the river")]}
    assert packed(write(folder, [listed]), model)[0]["input_ids"] == wanted
    for empty in ([], None):
        unshown = {"images": empty, "messages": [user(text("<image>\na boat")), answer("ok")]}
        with pytest.raises(RecordError, match=r"is a picture without|`images` is null"):
            packed(write(folder, [unshown]), model)
    without = {"images": [], "messages": [user(text("<image>\na boat")), answer("ok")]}
    with pytest.raises(RecordError, match="is a picture without"):
        packed(write(folder, [without]), model)
    alone = {"messages": [{"role": "user", "content": {"type": "image", "path": names[0]}}, answer("ok")]}
    with pytest.raises(RecordError, match="write it as a list of parts"):
        packed(write(folder, [alone]), model)
    with pytest.raises(RecordError, match="pictures beside texts"):
        packed(write(folder, [{"text": "a boat", "image": names[0]}]), model)


def test_tables_may_have_no_picture_in_a_row_and_keep_paths_as_categories(forms, folder_of):
    _, records = forms
    model, [first, _] = folder_of("qwen2_5_vl"), records["image"]["messages"][0]["content"][:2]
    said = [{"role": "user", "content": "<image>a boat"}, {"role": "assistant", "content": "ok"}]
    usual = {"max_length": 512, "strategy": "none", "reading": PICTURES, "progress": False}
    table = pa.table({"messages": [said], "image": pa.array([first["image"]]).dictionary_encode()})
    assert len(fastpack.pack_table(table, tokenizer=model, **usual).to_pylist()[0]["images"]) == 1
    plain = [{**it, "content": "a boat"} if it["role"] == "user" else it for it in said]
    table = pa.Table.from_pylist([{"messages": plain, "images": None}])
    assert fastpack.pack_table(table, tokenizer=model, **usual).to_pylist()[0]["images"] == []
    table = pa.Table.from_pylist([{"messages": said, "images": [{"bytes": None, "path": first["image"]}]}])
    assert len(fastpack.pack_table(table, tokenizer=model, **usual).to_pylist()[0]["images"]) == 1


def test_the_validation_split_looks_at_pictures(folder_of, tmp_path):
    def record(number):
        name = picture(tmp_path, 30 + number, 40).name
        said = [{"role": "user", "content": "<image>what is it?"}, {"role": "assistant", "content": "a boat"}]
        return {"images": [name], "messages": said}

    path = write(tmp_path, map(record, range(40)))
    splits = fastpack.pack_files(
        path, folder_of("qwen2_5_vl"), max_length=256, reading=PICTURES, validation=0.3, progress=False
    )
    assert 0 < sum(len(row["images"]) for row in splits.validation.to_pylist()) < 40


def test_a_cache_of_tokens_is_refused(forms, folder_of, tmp_path):
    folder, records = forms
    with pytest.raises(OptionError, match="pictures, whose files may change"):
        packed(write(folder, [records["path"]]), folder_of("qwen2_5_vl"), cache_dir=tmp_path / "cache")


def test_a_stream_holds_out_the_same_records_whatever_it_selects(folder_of, tmp_path):
    """Records that differ in their pictures alone are told apart wherever a split is made."""

    def record(number):
        name = picture(tmp_path, 30 + number, 40).name
        said = [{"role": "user", "content": "<image>what is it?"}, {"role": "assistant", "content": "a boat"}]
        return {"images": [name], "lang": "en", "messages": said}

    path = write(tmp_path, map(record, range(40)))
    usual = {"tokenizer": folder_of("qwen2_5_vl"), "max_length": 256, "reading": PICTURES, "validation": 0.3}

    def shown(stream):
        return sorted(it["path"] for table in stream for row in table.to_pylist() for it in row["images"])

    for select in (None, {"lang": "en"}):
        stream = fastpack.stream(path, select=select, **usual)
        train, held_out = shown(stream), shown(stream.validation)
        assert len(train) + len(held_out) == len({*train, *held_out}) == 40
        assert 0 < len(held_out) < 40


@pytest.mark.parametrize("way", ["flags", "file"])
def test_the_command_line_packs_pictures(way, folder_of, tmp_path):
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    name = picture(pictures, 60, 90).name
    path = write(
        tmp_path, [{"messages": [user({"type": "image", "path": name}, text("a boat")), answer("ok")]}]
    )
    given = ["--reading.images", json.dumps({"folder": str(pictures)})]
    if way == "file":
        (tmp_path / "job.toml").write_text('[reading]\nimages = { folder = "pictures" }\n')
        given = ["--config", str(tmp_path / "job.toml")]
    out = tmp_path / "packed"
    called = [sys.executable, "-m", "fastpack", "pack", str(path), "-o", str(out)]
    usual = ["-t", str(folder_of("qwen2_5_vl")), "-m", "256"]
    subprocess.run([*called, *usual, *given], check=True, capture_output=True, timeout=200)
    [row] = fastpack.read(out).to_pylist()
    assert [(it["path"], it["width"]) for it in row["images"]] == [(str(pictures / name), 60)]
    assert fastpack.verify(out, tokenizer=folder_of("qwen2_5_vl"))
    recipe = json.loads((out / "manifest.json").read_text())["recipe"]
    assert recipe["reading"] == {"images": {"kind": "reference", "folder": str(pictures)}}
    like = [*called[:4], str(path), "-o", str(tmp_path / "like"), "--like", str(out)]
    subprocess.run(like, check=True, capture_output=True, timeout=200)
    assert fastpack.read(tmp_path / "like").to_pylist() == [row]


def kept(path, folder, output):
    return fastpack.pack_dir(
        path,
        output,
        tokenizer=folder,
        reading=PICTURES,
        max_length=256,
        keep_tokens=True,
        progress=False,
    )


WRITINGS = {
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"more"),
    "as long, later": lambda path: os.utime(path, ns=(0, path.stat().st_mtime_ns + 1_000_000)),
    "earlier": lambda path: os.utime(path, ns=(0, path.stat().st_mtime_ns - 10**9)),
}


@pytest.mark.parametrize("writing", WRITINGS)
def test_a_file_that_was_written_after_its_tokens_were_kept_is_named(writing, folder_of, tmp_path):
    path = picture(tmp_path, 60, 90)
    data = write(tmp_path, [{"messages": messages_of([([(60, 90), "a boat"], "ok")], tmp_path)}])
    kept(data, folder_of("qwen2_5_vl"), tmp_path / "rows")
    fastpack.repack(tmp_path / "rows", tmp_path / "same", max_length=512, progress=False)
    WRITINGS[writing](path)
    with pytest.raises(
        RecordError, match=r"data.jsonl:1: the picture `.*60x90.png`: it was written since it was tokenized"
    ):
        fastpack.repack(tmp_path / "rows", tmp_path / "again", max_length=512, progress=False)
    assert not (tmp_path / "again").exists()
    path.unlink()
    # Kept tokens may be packed where the pictures are not; training says which one is missing.
    rows = fastpack.repack(tmp_path / "rows", tmp_path / "again", max_length=512, progress=False)
    assert rows.pictures == 1


def columns_of(folder, name):
    """Conversations whose pictures stand in a column of this name, as paths, objects and bytes."""
    first, second = picture(folder, 60, 90), picture(folder, 120, 50)
    said = [{"role": "user", "content": "<image>a boat"}, {"role": "assistant", "content": "the river"}]
    encoded = base64.b64encode(second.read_bytes()).decode()
    for shown in (str(first), [str(second)], {"path": str(first)}, [{"bytes": encoded}]):
        yield {"messages": said, name: shown, "id": "7"}


def inputs_of(records, name, folder):
    """The records as each kind of input that may hold them."""
    yield "lines", write(folder, records, f"{name}.jsonl")
    (folder / f"{name}.json").write_text(json.dumps(records))
    yield "list", folder / f"{name}.json"
    kind = pa.list_(pa.struct([("bytes", pa.binary()), ("path", pa.string())]))
    shown = [record[name] for record in records]
    shown = [it if isinstance(it, list) else [it] for it in shown]
    shown = [{"path": it[0]} if isinstance(it[0], str) else it[0] for it in shown]
    shown = [{"bytes": base64.b64decode(it["bytes"])} if "bytes" in it else it for it in shown]
    columns = {
        "messages": [record["messages"] for record in records],
        name: pa.array([[it] for it in shown], kind),
    }
    pq.write_table(pa.table({**columns, "id": ["7"] * len(records)}), folder / f"{name}.parquet")
    yield "parquet", folder / f"{name}.parquet"
    yield "table", pa.table(columns)
    yield "records", records


def rows_of(given, model, reading):
    options = {"max_length": 512, "strategy": "none", "reading": reading, "progress": False}
    if isinstance(given, pa.Table):
        return placeless(fastpack.pack_table(given, tokenizer=model, **options))
    if isinstance(given, list):
        return placeless(fastpack.pack_records(given, tokenizer=model, **options))
    return placeless(fastpack.pack_files(given, model, **options))


def placeless(table):
    """Rows without the records that held their pictures."""
    rows = table.to_pylist()
    for row in rows:
        row["images"] = [{**it, "path": None, "row": None} for it in row["images"]]
    return rows


def test_pictures_stand_in_a_column_that_is_named(folder_of, tmp_path):
    model = folder_of("qwen2_5_vl")
    usual = fastpack.Reading(images="embed")
    named = fastpack.Reading(images="embed", fields={"images": "photo"})
    records = list(columns_of(tmp_path, "photo"))
    wanted = rows_of(list(columns_of(tmp_path, "images")), model, usual)
    assert [len(row["images"]) for row in wanted] == [1] * len(records)
    for kind, records_given in inputs_of(records, "photo", tmp_path):
        assert rows_of(records_given, model, named) == wanted, kind
        # A picture in the messages is not packed as the text `<image>`.
        with pytest.raises(
            RecordError, match=r"`photo` seems to hold them: name it, `fields=\{\"images\": \"photo\"\}`"
        ):
            rows_of(records_given, model, usual)
    path = write(tmp_path, records)
    with fastpack.stream(
        path, model, max_length=512, strategy="none", batch_size=1, shuffle=False, epochs=1, reading=named
    ) as tables:
        assert [row for table in tables for row in placeless(table)] == wanted
    # With `map`, a table of Arrow holds the records on their way.
    same = fastpack.Function(lambda batch: batch, fingerprint="same")
    mapped = fastpack.pack_files(
        path, model, max_length=512, strategy="none", reading=named, map=same, progress=False
    )
    assert placeless(mapped) == wanted


def test_a_text_is_a_text_where_no_column_seems_to_hold_pictures(folder_of, tmp_path):
    record = next(columns_of(tmp_path, "photo")) | {"photo": "a name", "other": 5, "more": ["x.txt"]}
    [row] = rows_of([record], folder_of("qwen2_5_vl"), fastpack.Reading(images="reference"))
    assert row["images"] == []


def test_a_column_of_pictures_is_named_only_where_pictures_are_read(folder_of, tmp_path):
    path = write(tmp_path, [{"messages": [user(text("a")), answer("b")]}])
    model, fields = folder_of("qwen2_5_vl"), {"images": "photo"}
    named = fastpack.Reading(fields=fields)
    reason = (
        r"names the field of `images`, and pictures are not read; add reading=Reading\(images=\"reference\"\)"
    )
    with pytest.raises(OptionError, match=reason):
        fastpack.pack_files(path, model, max_length=512, reading=named)
    with pytest.raises(OptionError, match=reason):
        fastpack.pack_files([{"path": path, "fields": fields}], model, max_length=512)
    with pytest.raises(OptionError, match=reason):
        next(fastpack.stream(path, model, max_length=512, reading=named))
    with pytest.raises(OptionError, match=reason):
        fastpack.scan(path, model, max_length=512, reading=named)


def test_records_in_memory_hold_bytes(folder_of, tmp_path):
    model, file = folder_of("qwen2_5_vl"), png(60, 90)
    embedded = fastpack.Reading(images="embed")
    asked = [{"role": "user", "content": "<image>a boat"}, {"role": "assistant", "content": "ok"}]
    parts = [{"type": "image", "bytes": file}, text("a boat")]
    shown = [{"role": "user", "content": parts}, asked[1]]
    records = [
        {"messages": asked, "image": file},
        {"messages": asked, "images": [file]},
        {"messages": asked, "images": [{"bytes": file, "path": None}]},
        {"messages": shown},
    ]
    for at, record in enumerate(records):
        [row] = rows_of([record], model, embedded)
        assert [it["bytes"] for it in row["images"]] == [file], at
        with fastpack.stream(
            lambda record=record: iter([record]),
            model,
            max_length=512,
            strategy="none",
            batch_size=1,
            epochs=1,
            reading=embedded,
        ) as tables:
            assert [row for table in tables for row in placeless(table)] == [row], at
    # Its pixels alone would not tell what the file was.
    pillow = {"messages": asked, "image": Image.open(io.BytesIO(file))}
    for reading in (embedded, PICTURES):
        with pytest.raises(RecordError, match="`image` must be a path, a URL, or an object"):
            rows_of([pillow], model, reading)
    # Where no picture is read, neither costs anything.
    assert fastpack.pack_records(
        [{"text": "a boat", "image": pillow["image"]}], model, max_length=64
    ).num_rows


def test_parts_of_messages_in_tables_hold_pictures(folder_of, tmp_path):
    model = folder_of("qwen2_5_vl")
    files = [png(60, 90), png(120, 50)]
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    part = pa.struct([("type", pa.string()), ("text", pa.string()), ("image", image)])
    message = pa.struct([("role", pa.string()), ("content", pa.list_(part))])
    parts = [{"type": "image", "image": {"bytes": it}} for it in files]
    said = [{"role": "user", "content": [*parts, text("a boat")]}, answer("ok")]
    table = pa.table({"messages": pa.array([said], pa.list_(message))})
    pq.write_table(table, tmp_path / "a.parquet")
    for held in (table, tmp_path / "a.parquet"):
        [row] = rows_of(held, model, fastpack.Reading(images="embed"))
        assert [it["bytes"] for it in row["images"]] == files
    # By reference, the row names the record, in which training finds the bytes again.
    [row] = packed(tmp_path / "a.parquet", model)
    opened = PictureFiles()
    for reference, file in zip(references_of(row["images"]), files, strict=True):
        assert opened.opened(reference).tobytes() == Image.open(io.BytesIO(file)).tobytes()


def test_requests_with_pictures_become_conversations(forms, folder_of):
    folder, records = forms
    model, names = folder_of("qwen2_5_vl"), records["column"]["images"]
    asked = "<image><image>a boat"
    said = [{"role": "user", "content": asked}, {"role": "assistant", "content": "ok"}]
    wanted = packed(write(folder, [{"messages": said, "images": names}]), model)
    for record in (
        {"instruction": asked, "input": "", "output": "ok", "images": names},
        {"instruction": "<image>", "input": "<image>a boat", "output": "ok", "images": names},
        {"question": asked, "answer": "ok", "images": names},
        {"question": "a boat", "answer": "ok", "images": names},
    ):
        [row] = packed(write(folder, [record]), model)
        assert [it["path"] for it in row["images"]] == [it["path"] for it in wanted[0]["images"]]
        if record.get("input") != "<image>a boat":  # whose line break is a token of its own
            assert row["input_ids"] == wanted[0]["input_ids"]
    with pytest.raises(RecordError, match="pictures beside texts"):
        packed(write(folder, [{"prompt": asked, "completion": "ok", "images": names}]), model)
    reading = fastpack.Reading(images="reference", prompt="alpaca")
    with pytest.raises(RecordError, match="pictures beside texts"):
        packed(
            write(folder, [{"instruction": asked, "output": "ok", "images": names}]), model, reading=reading
        )
    with pytest.raises(RecordError, match="`image` is null"):
        packed(write(folder, [{"instruction": asked, "output": "ok", "image": None}]), model)


@pytest.mark.parametrize("cut", [fastpack.Truncate(side="left"), "truncate", "split", "trim"], ids=str)
@given(turns=st.lists(TURNS, min_size=4, max_size=4), max_length=st.integers(40, 120))
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_left_of_a_document_has_the_tokens_of_its_own_pictures(
    cut, turns, max_length, folder_of, processor_of, tmp_path
):
    """A picture of LLaVA-OneVision has other tokens alone than in company, so a cut leaves all or none."""
    path = write(tmp_path, [{"messages": messages_of(it, tmp_path)} for it in turns])
    whole = packed(path, folder_of("llava_onevision"))
    numbers = {it["pictures"] for row in whole for it in row["images"]}
    rows = packed(path, folder_of("llava_onevision"), max_length=max_length, strategy="mix", overlong=cut)
    processor = processor_of("llava_onevision")
    collator = PictureCollator(processor, model_of("llava_onevision", processor))
    for row in rows:
        collator([row])
    shown = [(it["document"], it["pictures"]) for row in rows for it in row["images"]]
    assert {number for _, number in shown} <= numbers


def test_documents_with_too_many_pictures_are_told_as_such(forms, folder_of):
    folder, records = forms
    limited = fastpack.Reading(images=fastpack.Images(max_images_per_pack=1))
    path = write(folder, [records["path"]] * 3)
    table = fastpack.pack_files(
        path, folder_of("qwen2_5_vl"), max_length=512, reading=limited, max_lost="100%", progress=False
    )
    report = fastpack.Report.of(table)
    assert list(report.dropped) == ["too_many_pictures"]
    assert not any("longer than a row" in warning for warning in report.warnings)


@pytest.mark.parametrize("turn", range(1, 9))
@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "CMYK", "I;16", "P"])
def test_turned_tiffs_are_read_in_the_size_that_they_were_packed_with(turn, mode, folder_of, tmp_path):
    image = Image.open(io.BytesIO(png(90, 60))).convert("L" if mode == "I;16" else mode).convert(mode)
    exif = Image.Exif()
    exif[0x0112] = turn
    image.save(tmp_path / "a.tiff", exif=exif)
    shown = [user({"type": "image", "path": "a.tiff"}, text("a boat")), answer("ok")]
    [row] = packed(write(tmp_path, [{"messages": shown}]), folder_of("qwen2_5_vl"))
    [reference] = references_of(row["images"])
    size = PictureFiles().opened(reference).size
    assert size == (reference.width, reference.height) == ((60, 90) if turn > 4 else (90, 60))
