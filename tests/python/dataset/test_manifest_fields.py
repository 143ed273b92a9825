"""A manifest that is sealed and says something else than fastpack writes is refused by name, and so are rows with a column twice."""

from __future__ import annotations

import copy
import itertools
import json
import random
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from campaign import tries
from conftest import ROOT, conversation
from sealing import seal_again

import fastpack
import fastpack.hf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TOKENIZER = ROOT / "examples" / "tokenizer"

WRONG: list[Any] = [None, 7, -1, 0, 1 << 70, "x", "", [], {}, [[]], [{}], [None], [1.5], True, 1.5]
"""Values that stand in the place of those of a manifest."""

CALLS: dict[str, Callable[[Path, Path], object]] = {
    "inspect": lambda folder, _: fastpack.inspect(folder)._repr_html_(),
    "read": lambda folder, _: fastpack.read(folder),
    "verify": lambda folder, _: fastpack.verify(folder, tokenizer=TOKENIZER, sample=4),
    "status": lambda folder, _: fastpack.status(folder),
    "load": lambda folder, _: fastpack.hf.load(folder),
    "export": lambda folder, out: fastpack.export(folder, out / "rows", format="numpy"),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("whole")
    data = home / "data.jsonl"
    data.write_text("".join(json.dumps(conversation(at)) + "\n" for at in range(12)))
    options: dict[str, Any] = {"tokenizer": TOKENIZER, "max_length": 128, "progress": False}
    fastpack.pack_dir(data, home / "packed", keep_tokens=True, **options)
    return home / "packed"


@pytest.fixture
def packed(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "packed")
    return tmp_path / "packed"


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """All places in a manifest but those of counts."""
    named = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in named:
        if place or name not in {"blake3", "version", "counts"}:
            yield (*place, name)
            yield from places(inner, (*place, name))


def put(manifest: dict[str, Any], place: tuple[Any, ...], wrong: Any) -> None:
    inner: Any = manifest
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = copy.deepcopy(wrong)


def named_or_well(call: Callable[[], object], folder: Path, said: object) -> str | None:
    """The message of the error of a call, if it fails."""
    try:
        call()
    except (fastpack.InternalError, fastpack.LedgerError) as error:
        raise AssertionError(said) from error
    except fastpack.FastpackError as error:
        told = f"{error} {getattr(error, 'filename', '')}"
        assert "\n" not in told, said
        assert str(folder) in told or "`" in told, said
        return told
    except Exception as error:
        message = f"{said}: {type(error).__name__} {error}"
        raise AssertionError(message) from error
    return None


@pytest.mark.parametrize("call", CALLS)
def test_every_field_of_a_sealed_manifest_may_be_wrong(call: str, packed: Path, tmp_path: Path) -> None:
    text = (packed / "manifest.json").read_bytes()
    cases = list(itertools.product(places(json.loads(text)), WRONG))
    for number, (place, wrong) in enumerate(
        random.Random(3).sample(cases, min(len(cases), tries(150, 10**6)))
    ):
        (packed / "manifest.json").write_bytes(text)
        seal_again(packed, lambda manifest, place=place, wrong=wrong: put(manifest, place, wrong))
        out = tmp_path / f"out-{number}"
        out.mkdir()
        named_or_well(lambda out=out: CALLS[call](packed, out), packed, (call, place, wrong))


@pytest.mark.parametrize(
    ("place", "wrong", "said"),
    [
        (("job", "sources"), [{}], r"`job.sources\[0\].reading` is `None`, not an object"),
        (("job", "sources"), [None], r"`job.sources\[0\]` is `None`, not an object"),
        (("job", "sources"), [1.5], r"`job.sources\[0\]` is `1.5`, not an object"),
        (("job", "sources"), [], r"`job.inputs.files\[.*data.jsonl.*\].source` is `0`, not one of 0 sources"),
        (("now",), "x", r"`now` is `'x'`, not a time"),
        (("job", "row_options", "packing"), 0, r"`job.row_options.packing` is `0`, not an object"),
        (("job", "row_options", "packing", "max_length"), 0, r"`job.row_options.packing.max_length` is `0`"),
    ],
)
@pytest.mark.parametrize("call", ["inspect", "read", "verify"])
def test_a_sealed_manifest_with_a_wrong_field_is_refused_by_name(
    call: str, place: tuple[Any, ...], wrong: Any, said: str, packed: Path, tmp_path: Path
) -> None:
    seal_again(packed, lambda manifest: put(manifest, place, wrong))
    with pytest.raises(fastpack.FastpackError, match=rf"manifest.json: {said}"):
        CALLS[call](packed, tmp_path)


def twice(table: pa.Table) -> pa.Table:
    """A table with a column twice."""
    return table.append_column("input_ids", table["input_ids"])


@pytest.mark.parametrize("form", ["arrow", "parquet"])
@pytest.mark.parametrize("call", ["inspect", "read", "verify", "load", "export"])
def test_a_shard_with_a_column_twice_is_refused_by_name(
    call: str, form: str, packed: Path, tmp_path: Path
) -> None:
    [shard] = packed.glob("*.arrow")
    table = twice(pa.ipc.open_stream(shard.read_bytes()).read_all())
    if form == "parquet":
        shard.unlink()
        place = shard.with_suffix(".parquet")
        pq.write_table(table, place)
    else:
        place = shard
        with pa.OSFile(str(place), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    seal_again(
        packed,
        lambda manifest: manifest["files"][0].update(name=place.name, bytes=None, blake3=None),
    )
    said = rf"{place.name} has 2 columns `'input_ids'`"
    if call == "verify":
        [problem] = fastpack.verify(packed, sample=0).problems
        assert "has 2 columns `'input_ids'`" in problem
        assert place.name in problem
        return
    with pytest.raises(fastpack.FastpackError, match=said):
        CALLS[call](packed, tmp_path)


def test_a_table_with_a_column_twice_is_refused(packed: Path) -> None:
    with pytest.raises(fastpack.FastpackError, match="the table has 2 columns `'input_ids'`"):
        fastpack.inspect(twice(fastpack.read(packed)))


def test_a_row_with_fewer_labels_than_tokens_is_refused_by_name() -> None:
    table = pa.table({"input_ids": [[5, 6, 7]], "labels": [[5, 6]], "seq_lengths": [[3]]})
    with pytest.raises(fastpack.FastpackError, match=r"row 0: .*label"):
        fastpack.inspect(table).to_dict()
