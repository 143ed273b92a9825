"""Rows that hold the bytes of their pictures: the same on every way, and enough to train without any other file."""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import mds_shards
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from picture_models import model_of
from picture_records import PICTURES, answer, many, packed, picture, png, text, user, write
from PIL import Image

import fastpack
import fastpack.hf
from fastpack.dataset.pictures.references import references_of
from fastpack.errors import BatchError, OptionError, RecordError
from fastpack.torch import PackedDataset, PictureCollator

#: The option that puts pictures into rows.
EMBEDDED = fastpack.Reading(images="embed")


def without_bytes(rows):
    """Rows as they are when pictures are packed as references."""
    plain = [{name: value for name, value in row.items() if name != "images"} for row in rows]
    images = [[{name: it[name] for name in it if name != "bytes"} for it in row["images"]] for row in rows]
    return [{**row, "images": each} for row, each in zip(plain, images, strict=True)]


def contents(rows):
    """The bytes of the pictures of rows."""
    return [it["bytes"] for row in rows for it in row["images"]]


def test_rows_have_the_bytes_of_pictures_in_every_form(forms, folder_of):
    folder, records = forms
    model = folder_of("qwen2_5_vl")
    wanted = [(folder / name).read_bytes() for name in ("60x90.png", "120x50.png")]
    for form, record in records.items():
        path = write(folder, [record], f"embedded_{form.replace(' ', '_')}.jsonl")
        rows = packed(path, model, reading=EMBEDDED)
        assert contents(rows) == wanted, form
        assert without_bytes(rows) == packed(path, model), form


def test_bytes_that_no_row_could_name_are_embedded(forms, folder_of, tmp_path):
    folder, records = forms
    model = folder_of("qwen2_5_vl")
    wanted = [(folder / name).read_bytes() for name in ("60x90.png", "120x50.png")]
    record = records["column of bytes"]
    line = json.dumps(record)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(line.encode()))
    (tmp_path / "a.json").write_text(f"[{line}]")
    (tmp_path / "a.jsonl").write_text(line)
    same = fastpack.Function(lambda batch: batch, fingerprint="same")
    options = {"reading": EMBEDDED}
    assert contents(packed(tmp_path / "a.jsonl.gz", model, **options)) == wanted
    assert contents(packed(tmp_path / "a.json", model, **options)) == wanted
    assert contents(packed(tmp_path / "a.jsonl", model, map=same, **options)) == wanted
    in_memory = {"tokenizer": model, "max_length": 512, "reading": EMBEDDED, "progress": False}
    assert contents(fastpack.pack_records([record], **in_memory).to_pylist()) == wanted
    kind = pa.list_(pa.struct([("bytes", pa.binary()), ("path", pa.string())]))
    images = pa.array([[{"bytes": it, "path": None} for it in wanted]], kind)
    said = [{"role": "user", "content": "<image><image>a boat"}, {"role": "assistant", "content": "ok"}]
    table = pa.table({"messages": [said], "images": images})
    assert contents(fastpack.pack_table(table, **in_memory).to_pylist()) == wanted
    pq.write_table(table, tmp_path / "a.parquet")
    assert contents(packed(tmp_path / "a.parquet", model, **options)) == wanted


@pytest.mark.parametrize("encoding", ["bytes", "png", "list[png]", "jpeg", "list[jpeg]", "jpeg_array"])
def test_shards_of_mosaicml_hold_pictures(encoding, folder_of, tmp_path):
    is_list = encoding.startswith(("list", "jpeg_array"))
    form = "JPEG" if "jpeg" in encoding else "PNG"
    sizes = [(60, 90), (120, 50), (30, 40)]
    files = [png(*size, seed=seed, format=form) for seed, size in enumerate(sizes)]
    shown = [files[:2], files[2:], []] if is_list else [files[:1], files[1:2], files[2:]]
    said = {"role": "assistant", "content": "ok"}
    records = [
        {
            "messages": [{"role": "user", "content": "<image>" * len(pictures) + "a boat"}, said],
            "images" if is_list else "image": pictures if is_list else pictures[0],
            "other": b"no picture",
        }
        for pictures in shown
    ]
    columns = {"messages": "json", "images" if is_list else "image": encoding, "other": "bytes"}
    folder = mds_shards.write(tmp_path / "mds", [records[:2], records[2:]], columns)
    rows = packed(folder, folder_of("qwen2_5_vl"), reading=EMBEDDED)
    assert [contents([row]) for row in rows] == shown
    with pytest.raises(RecordError, match="no row can name the bytes"):
        packed(folder, folder_of("qwen2_5_vl"))


@pytest.mark.parametrize("encoding", ["pil", "list[pil]"])
def test_shards_of_mosaicml_hold_pixels(encoding, folder_of, tmp_path):
    pixels = np.random.default_rng(3).integers(0, 256, (90, 60, 4), dtype=np.uint8)
    whole = Image.fromarray(pixels)
    shown = [whole.convert(mode) for mode in ("L", "LA", "RGB", "RGBA", "CMYK", "I;16")]
    said = {"role": "assistant", "content": "ok"}
    messages = [{"role": "user", "content": "<image>a boat"}, said]
    is_list = encoding.startswith("list")
    values = [mds_shards.pil(it) for it in shown]
    records = [{"messages": messages, "photo": [it] if is_list else it} for it in values]
    columns = {"messages": "json", "photo": encoding}
    folder = mds_shards.write(tmp_path / "mds", [records], columns)
    named = fastpack.Reading(images="embed", fields={"images": "photo"})
    rows = packed(folder, folder_of("qwen2_5_vl"), reading=named)
    for row, pil in zip(rows, shown, strict=True):
        [content] = contents([row])
        found = Image.open(io.BytesIO(content))
        assert (found.mode, found.size) == (pil.mode, pil.size)
        assert found.tobytes() == pil.tobytes()
    palette = mds_shards.pil(whole.convert("P"))
    for number, (value, wanted) in enumerate(
        [(palette, "a picture whose mode is none of L, LA"), (values[0][:-1], "a picture that is cut off")]
    ):
        records = [{"messages": messages, "photo": [value] if is_list else value}]
        folder = mds_shards.write(tmp_path / f"mds{number}", [records], columns)
        with pytest.raises(RecordError, match=wanted):
            packed(folder, folder_of("qwen2_5_vl"), reading=named)


def test_a_list_of_pictures_in_a_shard_that_is_cut_off_is_a_bad_record(folder_of, tmp_path):
    record = {
        "messages": [{"role": "user", "content": "<image>a boat"}, {"role": "assistant", "content": "ok"}],
        "images": [png(60, 90)],
    }
    columns = {"messages": "json", "images": "list[png]"}
    folder = mds_shards.write(tmp_path / "mds", [[record]], columns)
    shard = folder / "shard.00000.mds"
    content = bytearray(shard.read_bytes())
    at = content.index(b"\x89PNG") - 4
    for size in (0xFFFFFFFF, len(png(60, 90)) + 1):
        content[at : at + 4] = size.to_bytes(4, "little")
        shard.write_bytes(content)
        with pytest.raises(RecordError, match='"images" holds pictures that are cut off'):
            packed(folder, folder_of("qwen2_5_vl"), reading=EMBEDDED)


@pytest.fixture(scope="module")
def embedded(folder_of, tmp_path_factory):
    """Records of files and of bytes, and the rows that they become in memory."""
    folder = tmp_path_factory.mktemp("embedded")
    records = list(many(folder))
    for record in records[::2]:
        for message in record["messages"]:
            for part in message["content"]:
                if part["type"] == "image":
                    content = Path(part.pop("path")).read_bytes()
                    part["base64"] = base64.b64encode(content).decode()
    path = write(folder, records)
    rows = packed(path, folder_of("qwen2_5_vl"), max_length=256, strategy="mix", reading=EMBEDDED)
    sizes = {(it["width"], it["height"]): it["bytes"] for row in rows for it in row["images"]}
    assert sizes == {(width, height): png(width, height) for width, height in sizes}
    return path, rows


@pytest.mark.parametrize("kind", ["arrow", "parquet", "jsonl", "compact"])
@pytest.mark.parametrize("memory", ["1GB", "1MB"])
def test_every_format_holds_the_same_bytes(kind, memory, embedded, folder_of, tmp_path):
    path, rows = embedded
    form = fastpack.Format("arrow", layout="compact") if kind == "compact" else fastpack.Format(kind)
    out = tmp_path / "rows"
    fastpack.pack_dir(
        path,
        out,
        tokenizer=folder_of("qwen2_5_vl"),
        reading=EMBEDDED,
        max_length=256,
        format=form,
        memory=memory,
        keep_tokens=True,
        threads=3,
        progress=False,
    )
    assert fastpack.read(out).to_pylist() == rows
    assert [references_of(row["images"]) for row in PackedDataset(out)] == [
        references_of(row["images"]) for row in rows
    ]
    found = fastpack.verify(out, pictures=True)
    assert (found.ok, found.made_again > 0, found.pictures > 0) == (True, True, True)
    loaded = fastpack.hf.load(out)
    assert [references_of(row["images"]) for row in loaded] == [references_of(row["images"]) for row in rows]
    fastpack.repack(out, tmp_path / "again", max_length=512, progress=False)
    wanted = packed(path, folder_of("qwen2_5_vl"), max_length=512, strategy="mix", reading=EMBEDDED)
    assert fastpack.read(tmp_path / "again").to_pylist() == wanted


def test_streams_and_groups_hold_the_same_bytes(embedded, folder_of, tmp_path):
    path, rows = embedded
    common = {"tokenizer": folder_of("qwen2_5_vl"), "reading": EMBEDDED, "max_length": 256}
    whole = [table.to_pylist() for table in fastpack.stream(path, batch_size=4, **common)]
    assert sorted(it for rows_of in whole for it in contents(rows_of)) == sorted(contents(rows))
    stream = fastpack.stream(path, batch_size=4, **common)
    first = [next(stream).to_pylist() for _ in range(3)]
    state = json.loads(json.dumps(stream.state_dict()))
    resumed = fastpack.stream(path, batch_size=4, **common)
    resumed.load_state_dict(state)
    assert first + [table.to_pylist() for table in resumed] == whole
    lines = path.read_text().splitlines(keepends=True)
    for number in range(4):
        (path.parent / f"part-{number}.jsonl").write_text("".join(lines[number::4]))
    fastpack.pack_dir(
        path.parent / "part-*.jsonl",
        tmp_path / "groups",
        groups="1KB",
        order=fastpack.Balanced(ranks=2),
        progress=False,
        **common,
    )
    assert sorted(contents(fastpack.read(tmp_path / "groups").to_pylist())) == sorted(contents(rows))


@pytest.mark.parametrize("workers", [0, 2])
def test_rows_train_without_their_files(workers, folder_of, processor_of, tmp_path):
    there = tmp_path / "there"
    there.mkdir()
    path = write(there, many(there, 8))
    common = {"tokenizer": folder_of("qwen2_5_vl"), "max_length": 512, "progress": False}
    fastpack.pack_dir(path, tmp_path / "named", reading=PICTURES, **common)
    fastpack.pack_dir(path, tmp_path / "held", reading=EMBEDDED, **common)
    processor = processor_of("qwen2_5_vl")
    model = model_of("qwen2_5_vl", processor)

    def batches(name):
        rows = PackedDataset(tmp_path / name)
        collator = PictureCollator(processor, model, packed=rows)
        return list(torch.utils.data.DataLoader(rows, 2, collate_fn=collator, num_workers=workers))

    wanted = batches("named")
    shutil.rmtree(there)
    with pytest.raises(BatchError, match="cannot be opened"):
        batches("named")
    for found, batch in zip(batches("held"), wanted, strict=True):
        assert found.keys() == batch.keys()
        tensors = {name for name, value in batch.items() if isinstance(value, torch.Tensor)}
        assert {"pixel_values", "input_ids"} <= tensors
        assert all(torch.equal(found[name], batch[name]) for name in tensors)


SAME_LENGTH = len(png(60, 90))

CHANGES = {
    "longer": (png(60, 90) + b"more", f"it has {SAME_LENGTH + 4} bytes, but had {SAME_LENGTH}"),
    "another": (png(30, 40).ljust(SAME_LENGTH, b"\0"), "it has 30 x 40 pixels, but had 60 x 90 pixels"),
    "none": (bytes(SAME_LENGTH), "no picture"),
    "gone": (None, "No such file"),
    "a pipe": (None, "it has 0 bytes"),
}


@pytest.mark.parametrize(("kind", "change"), CHANGES.items())
def test_a_file_that_changed_behind_its_tokens_is_named(kind, change, folder_of, tmp_path):
    path = picture(tmp_path, 60, 90)
    messages = [user({"type": "image", "path": str(path)}, text("a boat")), answer("ok")]
    data = write(tmp_path, [{"messages": messages}])
    fastpack.pack_dir(
        data,
        tmp_path / "rows",
        tokenizer=folder_of("qwen2_5_vl"),
        reading=EMBEDDED,
        max_length=256,
        keep_tokens=True,
        progress=False,
    )
    content, said = change
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    elif kind == "a pipe":
        os.mkfifo(path)
    with pytest.raises(RecordError, match=rf"data.jsonl:1: the picture `.*60x90.png`: .*{said}"):
        fastpack.repack(tmp_path / "rows", tmp_path / "again", max_length=512, progress=False)
    assert not (tmp_path / "again").exists()


def test_all_spellings_of_the_option_are_one():
    wanted = fastpack.Reading(images=fastpack.Images(embed=True))
    for given in ("embed", {"kind": "embed"}, {"embed": True}, {"kind": "reference", "embed": True}):
        assert fastpack.Reading(images=given) == wanted
    limited = fastpack.Images(embed=True, max_images_per_pack=2)
    assert fastpack.Reading(images={"kind": "embed", "max_images_per_pack": 2}).images == limited
    assert eval(repr(wanted), {"Reading": fastpack.Reading, "Images": fastpack.Images}) == wanted
    with pytest.raises(OptionError, match=r"reading\.images\.embed"):
        fastpack.Images(embed="yes")


def test_the_command_line_embeds_pictures(embedded, folder_of, tmp_path):
    path, rows = embedded
    command = [sys.executable, "-m", "fastpack", "pack", str(path), "--output", str(tmp_path / "rows")]
    command += ["--tokenizer", str(folder_of("qwen2_5_vl")), "--max-length", "256", "--strategy", "mix"]
    command += ["--reading.images", "embed", "--no-progress"]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    assert fastpack.read(tmp_path / "rows").to_pylist() == rows


def test_inspect_shows_embedded_pictures_and_prints_no_bytes(embedded, folder_of, tmp_path):
    path, _ = embedded
    table = fastpack.pack_files(
        path, folder_of("qwen2_5_vl"), max_length=512, reading=EMBEDDED, progress=False
    )
    row = fastpack.inspect(table, tokenizer=folder_of("qwen2_5_vl"))
    assert any(document.pictures for document in row.documents)
    assert "<img src=" in row._repr_html_()
    assert json.dumps(row.to_dict())
    assert "PNG" not in repr(row.documents)


def test_rows_that_hold_no_picture_as_written_are_refused():
    [row] = [
        {
            "path": "a",
            "row": 0,
            "number": 0,
            "pictures": 1,
            "document": 0,
            "width": 5,
            "height": 5,
            "file_bytes": 0,
        }
    ]
    assert references_of([{**row, "bytes": base64.b64encode(b"ab").decode()}])[0].content == b"ab"
    assert references_of([row])[0].content is None
    for bytes_ in ("no base64!", 3.5, ["a"]):
        with pytest.raises(ValueError, match="holds no pictures as fastpack writes them"):
            references_of([{**row, "bytes": bytes_}])


def test_a_bad_picture_is_a_bad_record(folder_of, tmp_path):
    messages = [user({"type": "image", "base64": "bm9uZQ=="}, text("a boat")), answer("ok")]
    with pytest.raises(RecordError, match="picture"):
        packed(write(tmp_path, [{"messages": messages}]), folder_of("qwen2_5_vl"), reading=EMBEDDED)


PEAK = """
import json, resource, sys
import fastpack
model, small, files, output, format = sys.argv[1:]
options = {"max_length": 1024, "reading": fastpack.Reading(images="embed"), "progress": False}
fastpack.pack_files(small, model, **options)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
fastpack.pack_dir(files, output, tokenizer=model, format=format, memory="64MB", **options)
print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("form", "most"), [("arrow", 250), ("parquet", 400)])
@pytest.mark.parametrize("held", [False, True])
def test_memory_is_bounded_however_large_the_pictures_are(held, form, most, folder_of, tmp_path):
    # Files of 700 KB that are small pictures: 420 MB in rows of 15 MB. Parquet holds a row group several times as it encodes it.
    lines = []
    for number in range(600):
        content = png(60 + number % 50, 60, seed=number % 20).ljust(700_000, b"\0")
        path = tmp_path / f"{number % 50}.png"
        path.write_bytes(content)
        shown = {"base64": base64.b64encode(content).decode()} if held else {"path": str(path)}
        said = [user({"type": "image", **shown}, text("what")), answer("the boat " * (number % 30 + 1))]
        lines.append(json.dumps({"messages": said}))
    (tmp_path / "small.jsonl").write_text(lines[0])
    (tmp_path / "files.jsonl").write_text("\n".join(lines))
    given = [
        folder_of("qwen2_5_vl"),
        tmp_path / "small.jsonl",
        tmp_path / "files.jsonl",
        tmp_path / "rows",
        form,
    ]
    done = subprocess.run(
        [sys.executable, "-c", PEAK, *map(str, given)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    kilobytes = json.loads(done.stdout)
    assert kilobytes < (64 + most) << 10
    assert len(contents(fastpack.read(tmp_path / "rows").slice(0, 3).to_pylist())) > 20
