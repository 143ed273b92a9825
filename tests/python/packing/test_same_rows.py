"""The same records give the same rows by every call: wherever they lie, however the job is cut, from a recipe or from Python."""

from __future__ import annotations

import functools
import random
from typing import TYPE_CHECKING, Any

import fsspec
import pyarrow as pa
from campaign import tries
from containers import CONTAINERS, lines
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from json_columns import JSON, table
from nested import flat
from rows import table_of
from template_helpers import UNMARKED
from test_json_columns import ARGUMENTS, FILES, conversation
from web_server import serving

import fastpack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest

PHASES = set(Phase) - {Phase.shrink, Phase.explain}
"""Not to look for a smaller example, which takes minutes: a try makes folders and asks servers."""

Records = list[dict[str, Any]]

OPTIONS: dict[str, Any] = {
    "max_length": 256,
    "strategy": "sequential",
    "overlong": "split",
    "chat_template": UNMARKED,
    "train_on": "all",
    "columns": ["input_ids", "labels", "seq_lengths"],
}

FORMS = ["jsonl", "jsonl.zst", "json", "cbor", *FILES]
"""The forms of the records: containers, and tables with columns of type JSON."""


def content(form: str, records: Records) -> bytes:
    if form in FILES:
        return FILES[form](table(records, {"messages": pa.list_(JSON), "kind": pa.string()}))
    return CONTAINERS[form](records)


def put(place: str, name: str, path: Path, request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """The name of a file in some storage, and the options that read it there."""
    if place == "S3":
        client, store = request.getfixturevalue("client"), request.getfixturevalue("store")
        bucket = f"same-{random.Random(str(path)).randrange(10**12)}"
        client.create_bucket(Bucket=bucket)
        client.put_object(Bucket=bucket, Key=name, Body=path.read_bytes())
        return f"s3://{bucket}/{name}", {"storage": store}
    if place == "filesystem":
        return str(path), {"storage": fastpack.Storage(filesystem=fsspec.filesystem("file"))}
    return str(path), {}


def calls(file: str, more: dict[str, Any], records: Records, path: Path) -> Iterator[tuple[str, Any]]:
    """The calls that pack a file, or the records of it."""
    options = OPTIONS | more
    yield "pack_files", functools.partial(fastpack.pack_files, file, **options)

    def in_folder(name: str, **given: Any) -> pa.Table:
        flat.pack_dir(**{"files": file, "output": path / name, **options, **given})
        return table_of(path / name)

    yield "pack_dir", functools.partial(in_folder, "dir")
    yield "a group", functools.partial(in_folder, "group", group_size="1GB")
    if "filesystem" not in more:
        recipe = path / "recipe.toml"
        written = {"files": file, "chat_template": UNMARKED, "max_length": 256, "strategy": "sequential"}
        said = [f"{name} = {fastpack_toml(value)}" for name, value in written.items()]
        recipe.write_text("\n".join([*said, 'overlong = "split"', 'train_on = "all"']))
        yield (
            "a recipe",
            lambda tokenizer: in_folder("recipe", **fastpack.load_config(recipe), tokenizer=tokenizer),
        )
        recipes = path / "sources.toml"
        recipes.write_text("\n".join([f"files = [{{path = {fastpack_toml(file)}}}]", *said[1:]]))
        yield (
            "sources",
            lambda tokenizer: in_folder("sources", **fastpack.load_config(recipes), tokenizer=tokenizer),
        )
    yield (
        "stream",
        lambda tokenizer: pa.concat_tables(
            flat.stream(
                file, tokenizer, ranks=fastpack.Ranks(lanes=1), shuffle=False, batch_size=2, **options
            )
        ),
    )
    yield "pack_records", lambda tokenizer: flat.pack_records(iter(records), tokenizer, **OPTIONS)


def fastpack_toml(value: object) -> str:
    """A value of a recipe; a text is one of TOML between three quotes, as it is."""
    return f"'''{value}'''" if isinstance(value, str) else str(value)


@settings(max_examples=tries(6, 90), suppress_health_check=list(HealthCheck), phases=PHASES)
@given(
    form=st.sampled_from(FORMS),
    place=st.sampled_from(["disk", "web", "S3", "filesystem"]),
    arguments=st.lists(
        st.dictionaries(st.sampled_from("abc"), ARGUMENTS, max_size=3), min_size=1, max_size=7
    ),
)
def test_the_same_records_give_the_same_rows(
    form: str,
    place: str,
    arguments: list[dict[str, Any]],
    tokenizer_dir: Path,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> None:
    folder = tmp_path_factory.mktemp("same")
    records: Records = [{**conversation(at, each), "kind": "x"} for at, each in enumerate(arguments)]
    (folder / "lines.jsonl").write_bytes(lines(records))
    wanted = flat.pack_files(folder / "lines.jsonl", tokenizer_dir, **OPTIONS).to_pylist()
    name = f"a.{form.rpartition('.')[2] if form in FILES else form}"
    there = folder / "there"
    there.mkdir()
    (there / name).write_bytes(content(form, records))
    file, more = put(place, name, there / name, request)
    with serving(there) as server:
        if place == "web":
            file = f"{server.url}/{name}"
        for call, pack in calls(file, more, records, folder):
            assert pack(tokenizer=tokenizer_dir).to_pylist() == wanted, call
