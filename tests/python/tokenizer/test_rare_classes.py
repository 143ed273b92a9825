"""Tokenizers of rare classes, which an installed transformers builds, and the table of those that fastpack builds."""

from __future__ import annotations

import json
import os
import re
from importlib.metadata import PackageNotFoundError
from typing import TYPE_CHECKING, Any

import pytest
from conftest import DATA, ROOT

os.environ["HF_HUB_OFFLINE"] = "1"

pytest.importorskip("transformers")

import transformers
from test_tokenizer_ids import assert_equal, byte_level, pieces, texts, unigram, words, write
from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES, tokenizer_class_from_name
from usual_classes import rows

import fastpack
from fastpack.tokenizer import build_with_transformers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PAGE = ROOT / "docs" / "topics" / "tokenizing.md"
RARE = "DebertaV2Tokenizer"


def listed() -> list[str]:
    """The rows of the table in the documentation."""
    return re.findall(r"^\| `\w+Tokenizer`.*\| \d+ \|.*\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def usual_classes() -> set[str]:
    return {name for row in listed() for name in re.findall(r"`(\w+Tokenizer)`", row)}


@pytest.fixture
def without_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr(build_with_transformers, "version", version)


@pytest.fixture
def rare(tmp_path: Path) -> Path:
    """A folder of a class that fastpack has no rules for."""
    write(tmp_path / "rare", unigram().to_str(), {"tokenizer_config.json": {}}, RARE)
    return tmp_path / "rare"


@pytest.fixture
def files(write_jsonl: Callable[..., Path]) -> Path:
    return write_jsonl([{"text": "the quick brown fox"} for _ in range(40)])


def built_by(out: Path) -> dict[str, str] | None:
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    found: dict[str, str] | None = manifest["job"]["made_by"].get("built_by")
    return found


def test_the_table_is_what_its_command_prints() -> None:
    if not DATA.is_dir():
        pytest.skip(f"no real data: set FASTPACK_DATA (looked in {DATA})")
    wanted = rows(DATA)
    assert listed() == wanted, "\n".join(["the table is:", *wanted])


@pytest.mark.usefixtures("without_transformers")
def test_the_classes_of_the_table_need_no_transformers_and_no_others_do_without(tmp_path: Path) -> None:
    engines = [made().to_str() for made in (byte_level, pieces, words, unigram)]
    names = {str(name).removesuffix("Fast") for name in TOKENIZER_MAPPING_NAMES.values()} | {
        tokenizer_class_from_name(str(name)).__name__ for name in TOKENIZER_MAPPING_NAMES.values() if name
    }
    read, foreign = set(), set()
    for name in sorted(names | usual_classes() | {"NobodysTokenizer"}):
        for number, engine in enumerate(engines):
            folder = tmp_path / f"{name}-{number}"
            write(folder, engine, {"tokenizer_config.json": {}}, name)
            said = ""
            try:
                fastpack.Tokenizer(folder)
                read.add(name)
            except fastpack.TokenizerError as refused:
                said = str(refused)
            if "pip install transformers" in said:
                foreign.add(name)
    assert not read & foreign
    assert RARE in foreign
    assert "MarianTokenizer" in foreign
    built = {name for name in read if getattr(transformers, name, None) is not None}
    kept = {getattr(transformers, name).__name__ for name in built}
    # Classes without rules of their own take `tokenizer.json` as it is.
    assert kept - {"TokenizersBackend", "ParakeetTokenizer"} == usual_classes()
    assert "NobodysTokenizer" in read


@pytest.mark.usefixtures("without_transformers")
def test_without_transformers_the_error_names_class_folder_and_remedy(rare: Path) -> None:
    with pytest.raises(fastpack.TokenizerError) as refused:
        fastpack.Tokenizer(rare)
    assert f"tokenizer class `{RARE}` of `{rare}`" in str(refused.value)
    assert str(refused.value).endswith("pip install transformers")


@pytest.mark.parametrize("found", ["4.57.1", "6.0.0"])
def test_another_major_version_is_refused(rare: Path, monkeypatch: pytest.MonkeyPatch, found: str) -> None:
    monkeypatch.setattr(build_with_transformers, "version", lambda _: found)
    with pytest.raises(fastpack.TokenizerError, match=rf"`{RARE}`.*{found} is installed.*transformers==5"):
        fastpack.Tokenizer(rare)


def test_code_of_the_folder_never_runs(rare: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    (rare / "own.py").write_text(f"open({str(ran)!r}, 'w').close()\nclass Own: pass\n", encoding="utf-8")
    for number, config in enumerate(
        [
            {"tokenizer_class": RARE, "auto_map": {"AutoTokenizer": ["own.Own", "own.Own"]}},
            {"tokenizer_class": "Own", "auto_map": {"AutoTokenizer": ["own.Own", "own.Own"]}},
        ]
    ):
        (rare / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
        if number:
            with pytest.raises(fastpack.TokenizerError, match="auto_map"):
                fastpack.Tokenizer(rare)
        else:
            assert_equal(rare, texts(5))
    assert not ran.exists()


def test_special_tokens_that_are_split_equal_transformers(rare: Path) -> None:
    config = {"tokenizer_class": RARE, "split_special_tokens": True}
    (rare / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    assert_equal(rare, texts(20))


def test_a_class_that_changes_texts_by_python_code_is_refused(
    rare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tokenizer_class_from_name(RARE)
    plain = made._encode_plus
    monkeypatch.setattr(
        made, "_encode_plus", lambda self, text, *given, **named: plain(self, text.upper(), *given, **named)
    )
    with pytest.raises(fastpack.TokenizerError, match=f"`{RARE}`.*Python code"):
        fastpack.Tokenizer(rare)


def test_a_folder_that_transformers_cannot_load_is_refused_with_its_reason(tmp_path: Path) -> None:
    write(tmp_path / "rare", byte_level().to_str(), {"tokenizer_config.json": {}}, RARE)
    with pytest.raises(fastpack.TokenizerError, match=rf"`{RARE}`.*transformers {transformers.__version__}"):
        fastpack.Tokenizer(tmp_path / "rare")


def test_the_manifest_names_what_transformers_built(
    rare: Path, files: Path, tokenizer_dir: Path, tmp_path: Path
) -> None:
    found = []
    for number, letter in enumerate("aab"):
        config = {"tokenizer_class": RARE, "additional_special_tokens": [f"<{letter}>"]}
        (rare / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
        fastpack.pack_dir(files, tmp_path / str(number), tokenizer=rare, max_length=64)
        found.append(built_by(tmp_path / str(number)))
    assert {each["transformers"] for each in found if each} == {transformers.__version__}
    assert all(each and re.fullmatch("[0-9a-f]{64}", each["tokenizer_json"]) for each in found)
    assert found[0] == found[1] != found[2]
    fastpack.pack_dir(files, tmp_path / "usual", tokenizer=tokenizer_dir, max_length=64)
    assert built_by(tmp_path / "usual") is None


@pytest.mark.parametrize("groups", [None, fastpack.Groups(size=400)], ids=["whole", "groups"])
def test_a_job_of_another_version_is_another_job(
    rare: Path, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, groups: fastpack.Groups | None
) -> None:
    options: dict[str, Any] = {"tokenizer": rare, "max_length": 64, "groups": groups}
    report = fastpack.pack_dir(files, tmp_path / "out", **options)
    assert fastpack.pack_dir(files, tmp_path / "out", **options) == report
    monkeypatch.setattr(build_with_transformers, "version", lambda _: "5.99.0")
    with pytest.raises(fastpack.OutputError, match=r"differs in `version of transformers` .*5\.99\.0"):
        fastpack.pack_dir(files, tmp_path / "out", **options)


def test_ranks_of_other_versions_are_told_apart(
    rare: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = []
    for rank, found in enumerate(["5.24.0", "5.99.0"]):
        monkeypatch.setattr(build_with_transformers, "version", lambda _, found=found: found)
        ranks = fastpack.Ranks(rank=rank, world_size=2, lanes=2)
        with fastpack.stream(files, rare, max_length=16, batch_size=1, epochs=None, ranks=ranks) as stream:
            next(stream)
            states.append(stream.state_dict())
    with pytest.raises(fastpack.OptionError, match="`version of transformers`"):
        fastpack.merge_state_dicts(states)
    with fastpack.stream(files, rare, max_length=16, batch_size=1, epochs=None, ranks=ranks) as stream:
        stream.load_state_dict(states[0])
        with pytest.raises(fastpack.OptionError, match="`version of transformers`"):
            next(stream)
