"""A stream that is resumed behind a picture that was changed refuses its state by the name of the picture."""

from __future__ import annotations

import itertools
import json

import pytest
from cloud_stores import cloud
from picture_records import answer, png, text, user, write

import fastpack
from fastpack.errors import OptionError, RecordError

RECORDS = 40

LENGTH = 80


def record(name):
    return {"messages": [user({"type": "image", "url": name}, text("a boat")), answer("ok")]}


@pytest.fixture
def folder(tmp_path):
    """Records with a picture each, and one without in their middle."""
    for number in range(RECORDS):
        (tmp_path / f"{number}.png").write_bytes(png(60, 90, seed=number))
    write(tmp_path, [record(f"{number}.png") for number in range(RECORDS)])
    return tmp_path


def streamed(path, folder_of, state=None, images="reference", strict=True, **options):
    options = {
        "max_length": LENGTH,
        "epochs": 1,
        "shuffle": False,
        "batch_size": 1,
        "ranks": fastpack.Ranks(lanes=1),
        **options,
    }
    stream = fastpack.stream(
        path, folder_of("qwen2_5_vl"), reading=fastpack.Reading(images=images), seed=3, **options
    )
    if state is not None:
        stream.load_state_dict(state, strict=strict)
    return stream


def begun(path, folder_of, tables=5, **options):
    """The state of a stream after some tables, and its next tables."""
    stream = streamed(path, folder_of, **options)
    list(itertools.islice(stream, tables))
    state = json.loads(json.dumps(stream.state_dict()))
    rest = [table.to_pylist() for table in stream]
    assert len(rest) > 1
    return state, rest


def shown(tables):
    return {
        int(it["path"].rpartition("/")[2].removesuffix(".png")) for row in tables for it in row[0]["images"]
    }


OPTIONS = {
    "in order": {},
    "embedded": {"images": "embed"},
    "shuffled": {"shuffle": True},
    "endless": {"epochs": None, "max_steps": 40},
    "split": {"max_length": 25, "overlong": "split"},
}


@pytest.mark.parametrize("case", OPTIONS)
def test_a_state_goes_on_with_the_same_pictures(case, folder, folder_of):
    state, rest = begun(folder / "data.jsonl", folder_of, **OPTIONS[case])
    # A copy of a file has another time.
    for number in range(RECORDS):
        (folder / f"{number}.png").touch()
    again = streamed(folder / "data.jsonl", folder_of, state, **OPTIONS[case])
    assert [table.to_pylist() for table in again] == rest


@pytest.mark.parametrize("way", ["other size", "other bytes"])
@pytest.mark.parametrize("case", [name for name in OPTIONS if name != "split"])
def test_a_state_behind_changed_pictures_is_refused_by_name(case, way, folder, folder_of):
    state, _ = begun(folder / "data.jsonl", folder_of, **OPTIONS[case])
    for number in range(RECORDS):
        changed = png(60, 30) if way == "other size" else png(60, 90, seed=number) + b"more"
        (folder / f"{number}.png").write_bytes(changed)
    stream = streamed(folder / "data.jsonl", folder_of, state, **OPTIONS[case])
    with pytest.raises(
        OptionError, match=r"picture `.*\d+\.png` of the record at .*data\.jsonl:\d+ was changed"
    ) as refused:
        next(stream)
    assert refused.value.option == "state"
    free = streamed(folder / "data.jsonl", folder_of, state, **OPTIONS[case], strict=False)
    assert next(free).num_rows == 1


def test_each_picture_that_is_read_again_is_compared(folder, folder_of):
    state, rest = begun(folder / "data.jsonl", folder_of)
    again = shown(rest)
    assert 5 < len(again) < RECORDS
    for number in range(RECORDS):
        path = folder / f"{number}.png"
        before = path.read_bytes()
        path.write_bytes(png(30, 90))
        stream = streamed(folder / "data.jsonl", folder_of, state)
        if number in again:
            with pytest.raises(
                OptionError, match=rf"picture `.*/{number}\.png` of the record at .*:{number + 1} was"
            ):
                next(stream)
        else:
            assert [table.to_pylist() for table in stream] == rest
        path.write_bytes(before)


@pytest.mark.parametrize("bad", ["error", "skip"])
def test_a_picture_that_is_missing_now_is_named(bad, folder, folder_of):
    state, rest = begun(folder / "data.jsonl", folder_of, on_bad_record=bad)
    for number in sorted(shown(rest)):
        path = folder / f"{number}.png"
        before = path.read_bytes()
        path.unlink()
        stream = streamed(folder / "data.jsonl", folder_of, state, on_bad_record=bad)
        with pytest.raises((OptionError, RecordError), match=rf"{number}\.png") as refused:
            list(stream)
        assert f"data.jsonl:{number + 1}" in str(refused.value)
        path.write_bytes(before)


def test_a_picture_that_changed_in_its_store_at_the_same_size_is_named(folder_of, tmp_path):
    with cloud("gs") as store:
        for number in range(RECORDS):
            store.server.put("bucket", f"{number}.png", png(60, 90))
        path = write(tmp_path, [record(store.url(f"{number}.png")) for number in range(RECORDS)])
        options = {"storage": store.options}
        state, rest = begun(path, folder_of, **options)
        again = [table.to_pylist() for table in streamed(path, folder_of, state, **options)]
        assert again == rest
        number = max(shown(rest))
        # Of as many bytes: the ETag alone tells.
        store.server.put("bucket", f"{number}.png", png(60, 90))
        with pytest.raises(OptionError, match=rf"picture `gs://bucket/{number}\.png` of the record at"):
            next(streamed(path, folder_of, state, **options))
