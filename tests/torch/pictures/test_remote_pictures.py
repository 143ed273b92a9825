"""Pictures on web servers, in stores and on the hub: packed by their first bytes, embedded whole, opened in training."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import huggingface_hub
import pyarrow as pa
import pytest
import torch
from cloud_stores import Refused, cloud
from fsspec.implementations.memory import MemoryFileSystem
from picture_models import model_of
from picture_records import PICTURES, answer, packed, picture, png, text, user, write
from PIL import Image
from sealing import seal_again
from web_server import Faults, serving

import fastpack
from fastpack.dataset.pictures.files import PictureFiles
from fastpack.dataset.pictures.references import references_of
from fastpack.errors import BatchError, LossError, RecordError, StorageError
from fastpack.torch import PackedDataset, PictureCollator

#: The option that packs pictures of web servers too.
FETCHED = fastpack.Reading(images=fastpack.Images(fetch=True))

#: The same, with their bytes in the rows.
EMBEDDED = fastpack.Reading(images=fastpack.Images(fetch=True, embed=True))

#: No request is tried again, and none waits long.
IMPATIENT = {"max_retries": "0", "timeout": "300ms", "connect_timeout": "300ms"}

SIZES = [(60, 90), (120, 50), (200, 180), (33, 40)]


def record(*urls):
    return {
        "messages": [user(*({"type": "image", "url": url} for url in urls), text("a boat")), answer("ok")]
    }


def without_paths(rows):
    """Rows without the places of their pictures."""
    return [
        {**row, "images": [{name: it[name] for name in it if name != "path"} for it in row["images"]]}
        for row in rows
    ]


@pytest.fixture
def pictures(tmp_path):
    """A folder of pictures that are larger than their headers."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    return [picture(folder, *size) for size in SIZES]


@pytest.fixture
def web(pictures):
    with serving(pictures[0].parent) as server:
        yield server


def asked(server):
    """The requests for each file."""
    return Counter(path.lstrip("/") for _, path, _ in server.requests)


def test_rows_of_a_web_server_are_those_of_files(web, pictures, folder_of, tmp_path):
    here = [
        record(*(f"file://{path}" for path in pictures)),
        record(*(f"file://{it}" for it in pictures[:2])),
    ]
    urls = [f"{web.url}/{path.name}" for path in pictures]
    there = [record(*urls), record(*urls[:2])]
    wanted = packed(write(tmp_path, here, "here.jsonl"), folder_of("qwen2_5_vl"))
    rows = packed(write(tmp_path, there, "there.jsonl"), folder_of("qwen2_5_vl"), reading=FETCHED)
    assert without_paths(rows) == without_paths(wanted)
    assert [it["path"] for row in rows for it in row["images"]] == [*urls, *urls[:2]]


def test_each_header_is_fetched_once(web, pictures, folder_of, tmp_path):
    for number, (width, height) in enumerate(SIZES):
        path = pictures[0].parent / f"{number}.jpg"
        path.write_bytes(png(width, height, format="JPEG", quality=98))
        assert path.stat().st_size > 4096 or number == 3
    urls = [f"{web.url}/{number}.jpg" for number in range(len(SIZES))]
    for threads in (1, 4):
        web.requests.clear()
        path = write(tmp_path, [record(*urls), record(*urls[:2])] * 3)
        rows = packed(path, folder_of("qwen2_5_vl"), reading=FETCHED, threads=threads)
        assert [(it["width"], it["height"]) for it in rows[0]["images"]] == SIZES
        assert asked(web) == Counter(f"{number}.jpg" for number in range(len(SIZES)))
        assert {span for _, _, span in web.requests} == {"bytes=0-4095"}


def test_pictures_of_web_servers_are_fetched_on_request_alone(web, pictures, folder_of, tmp_path):
    path = write(tmp_path, [record(f"{web.url}/{pictures[0].name}")])
    with pytest.raises(RecordError, match=r"data.jsonl:1: .*fetched only if `reading\.images\.fetch` is set"):
        packed(path, folder_of("qwen2_5_vl"))
    assert not web.requests
    assert packed(path, folder_of("qwen2_5_vl"), reading=fastpack.Reading(images={"fetch": True}))


def test_a_url_is_shown_without_its_query_and_refused_with_a_user(web, folder_of, tmp_path):
    path = write(tmp_path, [record(f"{web.url}/none.png?key=s3cr3t")])
    with pytest.raises(RecordError, match=r"none.png`: No such file") as refused:
        packed(path, folder_of("qwen2_5_vl"), reading=FETCHED)
    assert "s3cr3t" not in str(refused.value)
    named = web.url.replace("//", "//me:s3cr3t@")
    with pytest.raises(RecordError, match="has a user or a password") as refused:
        packed(write(tmp_path, [record(f"{named}/a.png")]), folder_of("qwen2_5_vl"), reading=FETCHED)
    assert "s3cr3t" not in str(refused.value)
    assert not any("Authorization" in str(it) for it in web.requests)


def test_a_query_is_a_part_of_the_place(web, pictures, folder_of, tmp_path):
    url = f"{web.url}/{pictures[0].name}?version=3"
    [row] = packed(write(tmp_path, [record(url)]), folder_of("qwen2_5_vl"), reading=FETCHED)
    assert row["images"][0]["path"] == url
    assert {path for _, path, _ in web.requests} == {f"/{pictures[0].name}?version=3"}


def test_a_long_header_is_fetched_as_far_as_it_reaches(web, pictures, folder_of, tmp_path):
    folder = pictures[0].parent
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "a" * 50_000  # the turn, and a long description before the size
    noise = Image.open(pictures[2])
    noise.resize((900, 700)).save(folder / "long.jpg", exif=exif, quality=98)
    noise.resize((900, 700)).save(folder / "long.tif", compression="tiff_deflate")
    found = packed(
        write(tmp_path, [record(f"{web.url}/long.jpg"), record(f"{web.url}/long.tif")]),
        folder_of("qwen2_5_vl"),
        reading=FETCHED,
    )
    assert [(it["width"], it["height"]) for row in found for it in row["images"]] == [(700, 900), (900, 700)]
    whole = sum((folder / name).stat().st_size for name in ("long.jpg", "long.tif"))
    assert web.bytes < min(whole, 250_000) / 2


@pytest.mark.parametrize("scheme", ["gs", "az"])
def test_pictures_of_stores_lie_beside_the_file_that_names_them(scheme, pictures, folder_of, tmp_path):
    model = folder_of("qwen2_5_vl")
    names = [f"../img/{path.name}" for path in pictures]
    parts = [{"type": "image", "path": name} for name in names[:2]]
    records = [
        {"messages": [user(*parts, text("a boat")), answer("ok")]},
        {"images": names[2:], "messages": [user({"type": "image"}, {"type": "image"}), answer("ok")]},
    ]
    with cloud(scheme) as store:
        for path in pictures:
            store.server.put("bucket", f"img/{path.name}", path.read_bytes())
        content = "".join(json.dumps(it) + "\n" for it in records).encode()
        store.server.put("bucket", "data/chats.jsonl", content)
        options = {"storage": store.options}
        rows = packed(store.url("data/chats.jsonl"), model, **options)
        held = packed(
            store.url("data/chats.jsonl"), model, reading=fastpack.Reading(images="embed"), **options
        )
        folder = fastpack.Reading(images=fastpack.Images(folder=store.url("img")))
        named = [record_of_paths([path.name for path in pictures])]
        by_folder = packed(write(tmp_path, named, "local.jsonl"), model, reading=folder, **options)
    urls = [store.url(f"img/{path.name}") for path in pictures]
    assert [it["path"] for row in rows for it in row["images"]] == urls
    assert [(it["width"], it["height"]) for row in rows for it in row["images"]] == SIZES
    assert [it["path"] for row in by_folder for it in row["images"]] == urls
    assert [it["bytes"] for row in held for it in row["images"]] == [it.read_bytes() for it in pictures]


def record_of_paths(names):
    return {"messages": [user(*({"type": "image", "path": name} for name in names)), answer("ok")]}


def test_records_in_memory_name_pictures_of_stores(pictures, folder_of):
    with cloud("az") as store:
        store.put(pictures[0].parent)
        records = [record(store.url(path.name)) for path in pictures]
        usual = {"tokenizer": folder_of("qwen2_5_vl"), "max_length": 4096, "progress": False}
        rows = fastpack.pack_records(
            records, reading=fastpack.Reading(images="embed"), storage=store.options, **usual
        ).to_pylist()
    found = sorted(it["bytes"] for row in rows for it in row["images"])
    assert found == sorted(it.read_bytes() for it in pictures)


def test_pictures_of_the_hub_are_read_by_its_address(pictures, folder_of, tmp_path, monkeypatch):
    place = tmp_path / "hub" / "datasets" / "org" / "boats" / "resolve" / ("a" * 40) / "img"
    place.mkdir(parents=True)
    shutil.copy(pictures[0], place / "a.png")
    with serving(tmp_path / "hub") as hub:
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", hub.url)
        url = f"hf://datasets/org/boats@{'a' * 40}/img/a.png"
        [row] = packed(write(tmp_path, [record(url)]), folder_of("qwen2_5_vl"))
        assert row["images"][0]["path"] == url
        opened = PictureFiles().opened(references_of(row["images"])[0])
        assert opened.size == SIZES[0]
        for other in ("hf://datasets/org", "HF://org/model/a.png"):
            with pytest.raises(RecordError, match="hf://datasets/ORG/NAME"):
                packed(write(tmp_path, [record(other)]), folder_of("qwen2_5_vl"))


def test_several_pictures_are_fetched_at_a_time(pictures, folder_of, tmp_path):
    folder = pictures[0].parent
    for number in range(8):
        # So small that one request fetches it whole.
        (folder / f"{number}.jpg").write_bytes(png(30 + number, 30, format="JPEG"))
    together = threading.Barrier(4, timeout=20)

    def wait_for_others(*_):
        together.wait()
        return False

    with serving(folder, Faults(odd=wait_for_others)) as server:
        records = [record(f"{server.url}/{number}.jpg") for number in range(8)]
        path = write(tmp_path, records)
        assert len(packed(path, folder_of("qwen2_5_vl"), reading=FETCHED, threads=1)) == 8
        rows = packed(
            write(tmp_path, [record(*(f"{server.url}/{number}.jpg" for number in range(8)))]),
            folder_of("qwen2_5_vl"),
            reading=EMBEDDED,
            threads=1,
        )
    assert len(rows[0]["images"]) == 8


def endless(handler, *_):
    """Redirects to itself."""
    handler.send_bytes(302, b"", Location=handler.path)
    return True


def silent(handler, *_):
    """Never answers."""
    handler.server.ended.wait(20)
    return True


def closed(handler, *_):
    handler.reset()
    return True


FAULTS = {
    "missing": ("none.png", {}, "No such file"),
    "no picture": ("text.png", {}, "no picture"),
    "cut in its header": ("cut.jpg", {}, "ends inside its header"),
    "empty": ("empty.png", {}, "picture"),
    "refused": ("60x90.png", {"always": 403}, "the server answers 403"),
    "not asked for well": ("60x90.png", {"always": 400}, "the server answers 400"),
    "large, without ranges": ("large.png", {"ranges": False}, "the server sends no ranges"),
    "redirected without end": ("60x90.png", {"odd": endless}, "redirect"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_picture_of_a_server_is_a_bad_record(fault, pictures, folder_of, tmp_path):
    name, faults, said = FAULTS[fault]
    folder = pictures[0].parent
    (folder / "text.png").write_text("a picture, as if")
    (folder / "cut.jpg").write_bytes(b"\xff\xd8\xff\xe1\x40\x00")
    (folder / "empty.png").write_bytes(b"")
    (folder / "large.png").write_bytes(png(60, 90).ljust(5 << 20, b"\0"))
    usual = {"reading": FETCHED, "storage": IMPATIENT}
    with serving(folder, Faults(**faults, only=name)) as server:
        good = record(f"{server.url}/120x50.png")
        path = write(tmp_path, [good, record(f"{server.url}/{name}"), good])
        with pytest.raises(RecordError, match=rf"data.jsonl:2: the picture `.*{name}`: .*{said}") as refused:
            packed(path, folder_of("qwen2_5_vl"), **usual)
        assert refused.value.reason == "picture"
        assert len(packed(path, folder_of("qwen2_5_vl"), on_bad_record="skip", **usual)) == 2
        with pytest.raises(LossError, match="picture"):
            packed(path, folder_of("qwen2_5_vl"), on_bad_record="skip", max_lost="10%", **usual)


def test_a_small_picture_needs_no_ranges(pictures, folder_of, tmp_path):
    with serving(pictures[0].parent, Faults(ranges=False)) as server:
        urls = [f"{server.url}/{path.name}" for path in pictures]
        [row] = packed(write(tmp_path, [record(*urls)]), folder_of("qwen2_5_vl"), reading=FETCHED)
    assert [(it["width"], it["height"]) for it in row["images"]] == SIZES


def test_a_redirect_is_followed(pictures, folder_of, tmp_path):
    def elsewhere(handler, file, *_):
        if file.name == "60x90.png":
            handler.send_bytes(302, b"", Location="/120x50.png")
            return True
        return False

    with serving(pictures[0].parent, Faults(odd=elsewhere)) as server:
        url = f"{server.url}/60x90.png"
        [row] = packed(write(tmp_path, [record(url)]), folder_of("qwen2_5_vl"), reading=FETCHED)
    assert (row["images"][0]["path"], row["images"][0]["width"]) == (url, 120)


@pytest.mark.parametrize("lost", [silent, closed])
def test_a_lost_connection_ends_the_run_by_name(lost, pictures, folder_of, tmp_path):
    with serving(pictures[0].parent, Faults(odd=lost)) as server:
        server.ended = threading.Event()
        path = write(tmp_path, [record(f"{server.url}/60x90.png?key=s3cr3t")])
        usual = {"reading": FETCHED, "storage": IMPATIENT, "on_bad_record": "skip"}
        with pytest.raises(StorageError, match=r"60x90.png") as failed:
            packed(path, folder_of("qwen2_5_vl"), **usual)
        server.ended.set()
    assert "s3cr3t" not in str(failed.value)
    with pytest.raises(StorageError, match=r"60x90.png"):
        packed(path, folder_of("qwen2_5_vl"), **usual)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
@pytest.mark.parametrize("reading", [FETCHED, EMBEDDED])
def test_a_server_that_is_out_of_order_ends_the_run_by_name(reading, status, pictures, folder_of, tmp_path):
    faults = Faults(always=status, retry_after=None, only="60x90.png")
    with serving(pictures[0].parent, faults) as server:
        path = write(tmp_path, [record(f"{server.url}/{name}.png") for name in ("120x50", "60x90")])
        usual = {"reading": reading, "storage": IMPATIENT, "on_bad_record": "skip"}
        with pytest.raises(
            StorageError, match=rf"60x90.png.*the server answers {status}|{status}.*60x90.png"
        ):
            packed(path, folder_of("qwen2_5_vl"), **usual)
        server.faults.always = None
        assert len(packed(path, folder_of("qwen2_5_vl"), **usual)) == 2


@pytest.mark.parametrize("kind", ["gs", "az"])
def test_a_store_that_is_out_of_order_ends_the_run_by_name(kind, folder_of, tmp_path):
    with cloud(kind) as store:
        store.server.put("bucket", "a.png", png(60, 90))
        path = write(tmp_path, [record(store.url("a.png"))])
        storage = {**store.options, "max_retries": "0"}
        usual = {"storage": storage, "on_bad_record": "skip"}
        assert len(packed(path, folder_of("qwen2_5_vl"), **usual)) == 1

        def fails(*_):
            raise Refused(503, "SlowDown")

        store.server.before = fails
        with pytest.raises(StorageError, match=r"a\.png"):
            packed(path, folder_of("qwen2_5_vl"), **usual)


class Out(MemoryFileSystem):
    """A filesystem that raises what it is told where a picture is read."""

    protocol = "out"
    cachable = False

    def __init__(self):
        super().__init__()
        self.store, self.pseudo_dirs = {}, [""]
        self.raising, self.raised = "", None

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.removeprefix("out://"))

    def _fail(self, method, path):
        if method == self.raising and path.endswith(".png"):
            raise self.raised

    def info(self, path, **options):
        self._fail("info", path)
        return super().info(path, **options)

    def cat_file(self, path, *args, **options):
        self._fail("cat_file", path)
        return super().cat_file(path, *args, **options)


class OwnError(Exception):
    """An exception of the caller."""


@pytest.mark.parametrize("method", ["info", "cat_file"])
@pytest.mark.parametrize(
    "kind", [MemoryError, SystemExit, ConnectionResetError, TimeoutError, OSError, PermissionError, OwnError]
)
def test_what_a_filesystem_raises_for_a_picture_passes_unchanged(kind, method, folder_of, tmp_path):
    files = Out()
    files.pipe("/in/a.png", png(60, 90))
    lines = write(tmp_path, [record("a.png"), record("none.png")])
    files.pipe("/in/data.jsonl", lines.read_bytes())
    usual = {"storage": fastpack.Storage(filesystem=files), "on_bad_record": "skip"}
    # That there is no such file is said of the picture.
    assert len(packed("/in/data.jsonl", folder_of("qwen2_5_vl"), **usual)) == 1
    files.raising, files.raised = method, kind("it is the caller's")
    with pytest.raises(BaseException, match="it is the caller's") as caught:
        packed("/in/data.jsonl", folder_of("qwen2_5_vl"), **usual)
    assert caught.value is files.raised


def test_a_picture_that_changed_in_its_store_is_not_embedded(folder_of, tmp_path):
    with cloud("gs") as store:
        store.server.put("bucket", "a.png", png(60, 90))
        path = write(tmp_path, [record(store.url("a.png"))])
        fastpack.pack_dir(
            path,
            tmp_path / "rows",
            tokenizer=folder_of("qwen2_5_vl"),
            reading=fastpack.Reading(images="embed"),
            max_length=256,
            keep_tokens=True,
            progress=False,
            storage=store.options,
        )
        again = {"max_length": 512, "progress": False, "storage": store.options}
        fastpack.repack(tmp_path / "rows", tmp_path / "same", **again)
        # Of as many bytes and the same size: the etag alone tells.
        store.server.put("bucket", "a.png", png(60, 90))
        with pytest.raises(
            RecordError, match=r"data.jsonl:1: the picture `gs://bucket/a.png`: it was written since"
        ):
            fastpack.repack(tmp_path / "rows", tmp_path / "again", **again)
        store.server.put("bucket", "a.png", png(60, 90) + b"more")
        with pytest.raises(RecordError, match="but had"):
            fastpack.repack(tmp_path / "rows", tmp_path / "again", **again)
        store.server.buckets["bucket"].clear()
        with pytest.raises(RecordError, match="No such file"):
            fastpack.repack(tmp_path / "rows", tmp_path / "again", **again)
    assert [it["bytes"] for row in fastpack.read(tmp_path / "same").to_pylist() for it in row["images"]] == [
        png(60, 90)
    ]


def pack_here_and_there(pictures, url, folder_of, tmp_path, **options):
    """The same rows, of pictures on this machine and of those below a URL."""
    usual = {"tokenizer": folder_of("qwen2_5_vl"), "max_length": 700, "progress": False}
    here = [record(f"file://{path}") for path in pictures]
    there = [record(f"{url}/{path.name}") for path in pictures]
    fastpack.pack_dir(write(tmp_path, here, "here.jsonl"), tmp_path / "here", reading=PICTURES, **usual)
    fastpack.pack_dir(write(tmp_path, there, "there.jsonl"), tmp_path / "there", **usual, **options)


def batches(rows, collator, workers=0, context=None):
    loader = torch.utils.data.DataLoader(
        rows, 1, collate_fn=collator, num_workers=workers, multiprocessing_context=context
    )
    return [{name: value for name, value in batch.items() if torch.is_tensor(value)} for batch in loader]


def assert_same(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        assert one.keys() == other.keys()
        assert "pixel_values" in one
        assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(("workers", "context"), [(0, None), (2, "fork"), (2, "spawn")])
def test_training_opens_pictures_of_web_servers(
    workers, context, web, pictures, folder_of, processor_of, tmp_path
):
    pack_here_and_there(pictures, web.url, folder_of, tmp_path, reading=FETCHED)
    model, processor = model_of("qwen2_5_vl", processor_of("qwen2_5_vl")).config, processor_of("qwen2_5_vl")
    here, there = PackedDataset(tmp_path / "here"), PackedDataset(tmp_path / "there")
    collator = PictureCollator(processor, model, packed=there)
    # The storage is open when the workers are made.
    collator([there[0]])
    wanted = batches(here, PictureCollator(processor, model, packed=here))
    assert_same(batches(there, collator, workers, context), wanted)
    assert_same(batches(there, pickle.loads(pickle.dumps(collator))), wanted)
    moved = {web.url: pictures[0].parent}
    web.requests.clear()
    assert_same(batches(there, PictureCollator(processor, model, packed=there, moved=moved)), wanted)
    assert not web.requests


def test_training_fetches_from_web_servers_only_what_a_job_asked_for(
    web, pictures, folder_of, processor_of, tmp_path
):
    pack_here_and_there(pictures, web.url, folder_of, tmp_path, reading=FETCHED)
    processor = processor_of("qwen2_5_vl")
    model, there = model_of("qwen2_5_vl", processor).config, PackedDataset(tmp_path / "there")
    web.requests.clear()
    for known in (None, tmp_path / "here"):
        with pytest.raises(BatchError, match=r"row 0 of the batch: .*packed with `reading\.images\.fetch`"):
            PictureCollator(processor, model, packed=known)([there[0]])
    assert not web.requests
    # Rows without a folder are trained where the call says so.
    asked = PictureCollator(processor, model, fetch=True)([there[0]])
    wanted = PictureCollator(processor, model, packed=there)([there[0]])
    assert torch.equal(asked["pixel_values"], wanted["pixel_values"])
    with pytest.raises(BatchError, match="on request"):
        PictureCollator(processor, model, packed=there, fetch=False)([there[0]])
    pictures[0].unlink()
    sizes = [{it["width"] for it in row["images"]} for row in there]
    refused = [there[at] for at, widths in enumerate(sizes) if SIZES[0][0] in widths]
    with pytest.raises(
        BatchError, match=r"row 0 of the batch: .*60x90.png` cannot be opened: .*No such file"
    ):
        PictureCollator(processor, model, packed=there)(refused)


def test_training_opens_pictures_of_stores_with_the_options_of_the_rows_or_its_own(
    pictures, folder_of, processor_of, tmp_path
):
    processor = processor_of("qwen2_5_vl")
    model = model_of("qwen2_5_vl", processor).config
    with cloud("az") as store:
        store.put(pictures[0].parent)
        options = {"storage": store.options, "reading": PICTURES}
        pack_here_and_there(pictures, store.url().rstrip("/"), folder_of, tmp_path, **options)
        here, there = PackedDataset(tmp_path / "here"), PackedDataset(tmp_path / "there")
        wanted = batches(here, PictureCollator(processor, model, packed=here))
        own = PictureCollator(processor, model, packed=there, storage=store.options)
        assert_same(batches(there, own), wanted)
        for path in (tmp_path / "there").rglob("*"):
            if path.is_file():
                store.server.put("bucket", str(path.relative_to(tmp_path)), path.read_bytes())
        rows = PackedDataset(store.url("there"), storage=store.options, cache_dir=tmp_path / "cache")
        assert_same(batches(rows, PictureCollator(processor, model, packed=rows)), wanted)
        with pytest.raises(BatchError, match="cannot be opened"):
            PictureCollator(processor, model, packed=there)([there[0]])
        found = fastpack.verify(tmp_path / "there", pictures=True, sample=0, storage=store.options)
        assert (found.pictures, found.problems) == (len(pictures), ())
        store.server.requests.clear()
        row = fastpack.inspect(tmp_path / "there", storage=store.options)
        assert "picture 0: not fetched" in row._repr_html_()
        assert "<img src=" not in row._repr_html_()
        assert not store.server.requests
        row = fastpack.inspect(tmp_path / "there", fetch=True, storage=store.options)
        assert "<img src=" in row._repr_html_()


@pytest.mark.parametrize("place", ["web", "store"])
def test_verify_asks_no_server_that_a_folder_of_others_names(place, web, pictures, folder_of, tmp_path):
    """Rows without `images` do not tell that the records of the inputs, which are packed again, name servers."""
    here = write(tmp_path, [record(f"file://{path}") for path in pictures])
    options = {"tokenizer": folder_of("qwen2_5_vl"), "max_length": 700, "progress": False, "reading": FETCHED}
    with cloud("gs") as store:
        store.put(pictures[0].parent)
        fastpack.pack_dir(here, tmp_path / "rows", **options)
        where = web.url if place == "web" else store.url().rstrip("/")
        here.write_text("".join(json.dumps(record(f"{where}/{path.name}")) + "\n" for path in pictures))
        stat = here.stat()

        def name_servers(manifest):
            [entry] = manifest["job"]["inputs"]["files"].values()
            entry.update(size=stat.st_size, modified=stat.st_mtime_ns)

        for shard in (tmp_path / "rows").glob("*.arrow"):
            table = pa.ipc.open_stream(shard.read_bytes()).read_all().drop_columns(["images"])
            with pa.OSFile(str(shard), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
        seal_again(tmp_path / "rows", name_servers)
        web.requests.clear()
        store.server.requests.clear()
        call = {"tokenizer": folder_of("qwen2_5_vl"), "storage": store.options}
        found = fastpack.verify(tmp_path / "rows", **call)
        assert not web.requests
        assert not store.server.requests
        assert (found.problems, found.made_again) == ((), 0)
        assert "4 documents of the sample, whose pictures are not on this machine" in found.notes[0]
        assert fastpack.verify(tmp_path / "rows", pictures=True, **call).made_again == 4
        assert web.requests or store.server.requests


def test_a_signed_url_of_a_picture_is_shown_without_its_query(web, pictures, folder_of, tmp_path):
    url = f"{web.url}/{pictures[0].name}?sig=CANARY"
    fastpack.pack_dir(
        write(tmp_path, [record(url)]),
        tmp_path / "rows",
        tokenizer=folder_of("qwen2_5_vl"),
        max_length=700,
        progress=False,
        reading=FETCHED,
    )
    row = fastpack.inspect(tmp_path / "rows")
    [document] = row.documents
    assert document.pictures[0].path == url
    for shown in (
        document,
        document.pictures,
        row.to_dict(),
        str(row),
        row._repr_html_(),
        *document.pictures,
    ):
        assert pictures[0].name in str(shown)
        assert "CANARY" not in str(shown)
    line = [sys.executable, "-m", "fastpack", "inspect", str(tmp_path / "rows")]
    for flags in ([], ["--json"], ["--html", str(tmp_path / "row.html")]):
        told = subprocess.run([*line, *flags], capture_output=True, text=True, check=True)
        assert "CANARY" not in told.stdout + told.stderr
    assert "CANARY" not in (tmp_path / "row.html").read_text()


def test_a_mistyped_url_of_a_picture_is_shown_without_its_query(folder_of, tmp_path):
    for url in ("https:/host/a.png?sig=CANARY", "https:/me:CANARY@host/a.png"):
        path = write(tmp_path, [record(url)])
        with pytest.raises(RecordError, match=r"host/a\.png") as refused:
            packed(path, folder_of("qwen2_5_vl"), reading=FETCHED)
        assert "CANARY" not in str(refused.value)


def test_verify_and_inspect_fetch_from_web_servers_if_the_job_did(web, pictures, folder_of, tmp_path):
    pack_here_and_there(pictures, web.url, folder_of, tmp_path, reading=FETCHED)
    found = fastpack.verify(tmp_path / "there", pictures=True, sample=100, tokenizer=folder_of("qwen2_5_vl"))
    assert (found.pictures, found.problems, found.made_again) == (len(pictures), (), len(pictures))
    web.requests.clear()
    plain = fastpack.verify(tmp_path / "there", tokenizer=folder_of("qwen2_5_vl"))
    assert (plain.problems, plain.made_again) == ((), 0)
    assert "pass pictures=True to fetch them" in plain.notes[0]
    assert not web.requests
    shown = fastpack.inspect(tmp_path / "there")._repr_html_()
    assert "<img src=" not in shown
    assert "picture 0: not fetched" in shown
    assert not web.requests
    assert "<img src=" in fastpack.inspect(tmp_path / "there", fetch=True)._repr_html_()
    pictures[1].write_bytes(png(121, 50))
    web.etags.clear()
    [problem] = fastpack.verify(tmp_path / "there", pictures=True, sample=0).problems
    assert "120x50.png` has 121 x 50 pixels, but had 120 x 50" in problem
    table = fastpack.read(tmp_path / "there")
    assert "<img src=" not in fastpack.inspect(table)._repr_html_()
    assert "<img src=" in fastpack.inspect(table, fetch=True)._repr_html_()
    manifest = json.loads(Path(tmp_path / "there" / "manifest.json").read_text())
    assert manifest["job"]["token_options"]["reading.images"]["fetch"] is True


@pytest.mark.parametrize("changes", [False, True])
def test_a_job_that_lost_its_server_resumes_unless_a_picture_was_written_since(
    changes, web, pictures, folder_of, tmp_path
):
    here = [record(f"file://{path}") for path in pictures[:2]]
    files = [
        write(tmp_path, here, "a.jsonl"),
        write(tmp_path, [record(f"{web.url}/{pictures[2].name}")], "b.jsonl"),
    ]
    options = {
        "tokenizer": folder_of("qwen2_5_vl"),
        "max_length": 700,
        "reading": FETCHED,
        "storage": IMPATIENT,
        "threads": 1,
        "progress": False,
    }
    web.faults.odd = closed
    with pytest.raises(StorageError, match=r"200x180\.png"):
        fastpack.pack_dir(files, tmp_path / "rows", **options)
    web.faults.odd = None
    if not changes:
        report = fastpack.pack_dir(files, tmp_path / "rows", **options)
        assert (report.pictures, report.resumed_documents) == (3, 2)
        return
    os.utime(pictures[1], ns=(0, pictures[1].stat().st_mtime_ns + 1_000_000))
    with pytest.raises(RecordError, match=r"a.jsonl:2: the picture `.*120x50.png`: it was written since"):
        fastpack.pack_dir(files, tmp_path / "rows", **options)
    report = fastpack.pack_dir(files, tmp_path / "rows", exists="overwrite", **options)
    assert (report.pictures, report.resumed_documents) == (3, 0)
