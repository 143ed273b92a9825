"""Sources of a job that ends have shares: drawn from the whole of each by the seed, reported, and counted in the ledger."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from typing import TYPE_CHECKING, Any

import pytest
from campaign import tries
from conftest import sentence
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nested import flat
from processes import RUN, kill_at_work

import fastpack
from fastpack.report.report_facts import Count

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa

SIZES = {"short": 200, "long": 90, "few": 30}
WORDS = {"short": 4, "long": 30, "few": 12}
OPTIONS: dict[str, Any] = {"max_length": 256, "columns": ["input_ids", "seq_lengths"], "overlong": "error"}


@pytest.fixture(scope="module")
def loaded(tokenizer_dir: Path) -> fastpack.Tokenizer:
    return fastpack.Tokenizer(tokenizer_dir)


def text_of(name: str, number: int) -> str:
    return f"{name} {number} {sentence(number, WORDS[name] + number % 3)}"


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("sources")
    found = {}
    for name, count in SIZES.items():
        found[name] = folder / f"{name}.jsonl"
        lines = [json.dumps({"text": text_of(name, number)}) + "\n" for number in range(count)]
        found[name].write_text("".join(lines), encoding="utf-8")
    return found


def documents_of(table: pa.Table, tokenizer: fastpack.Tokenizer) -> list[str]:
    """The texts of the documents, sorted."""
    texts = []
    for row in table.to_pylist():
        ends = list(itertools.accumulate(row["seq_lengths"]))
        parts = [
            row["input_ids"][end - length : end] for end, length in zip(ends, row["seq_lengths"], strict=True)
        ]
        texts += [tokenizer.decode(part).removesuffix("<|endoftext|>") for part in parts]
    return sorted(texts)


def tokens_of(text: str, tokenizer: fastpack.Tokenizer) -> int:
    return len(tokenizer.encode(text)) + 1


def drawn_of(texts: list[str], name: str) -> list[int]:
    return sorted(int(text.split()[1]) for text in texts if text.startswith(f"{name} "))


@given(
    weights=st.fixed_dictionaries({name: st.sampled_from([0.0, 0.1, 0.5, 1.0, 3.0]) for name in SIZES}),
    unit=st.sampled_from(["tokens", "documents"]),
    stopping=st.sampled_from(["first_exhausted", "all_exhausted"]),
    strategy=st.sampled_from(["mix", "sequential", "concat", "none"]),
    seed=st.integers(0, 3),
)
@settings(
    max_examples=tries(25, 400), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_shares_are_drawn_as_they_were_asked_for(
    weights: dict[str, float],
    unit: Any,
    stopping: Any,
    strategy: Any,
    seed: int,
    sources: dict[str, Path],
    loaded: fastpack.Tokenizer,
) -> None:
    chosen: Any = {"weights": weights, "weight_unit": unit, "stopping_strategy": stopping, "seed": seed}
    if not any(weights.values()):
        with pytest.raises(fastpack.OptionError, match="a weight above 0"):
            flat.pack_files(sources, loaded, **chosen, **OPTIONS)
        return
    options = {name: it for name, it in OPTIONS.items() if (name, strategy) != ("overlong", "concat")}
    table = flat.pack_files(sources, loaded, strategy=strategy, **chosen, **options)
    report = fastpack.Report.of(table)
    size = (lambda _: 1) if unit == "documents" else (lambda text: tokens_of(text, loaded))
    sizes = {name: [size(text_of(name, number)) for number in range(count)] for name, count in SIZES.items()}
    ratios = {name: sum(sizes[name]) / weight for name, weight in weights.items() if weight > 0}
    scale = (min if stopping == "first_exhausted" else max)(ratios.values())
    for name, weight in weights.items():
        share, wanted = report.shares[name], weight * scale
        got = share.drawn.documents if unit == "documents" else share.drawn.tokens
        assert abs(got - wanted) <= max(sizes[name]) / 2 + 1e-6, name
        assert share.asked == pytest.approx(weight / sum(weights.values()))
    drawn = sum(
        share.drawn.documents if unit == "documents" else share.drawn.tokens
        for share in report.shares.values()
    )
    for share in report.shares.values():
        got = share.drawn.documents if unit == "documents" else share.drawn.tokens
        assert share.got == pytest.approx(got / drawn)
    assert report.documents.read == report.documents.kept + report.documents.dropped
    assert report.tokens.read == report.tokens.kept + report.tokens.dropped
    assert sum(share.drawn.tokens for share in report.shares.values()) == report.tokens.kept + sum(
        count.tokens for reason, count in report.dropped.items() if reason != "not_drawn"
    )
    if strategy == "concat":
        return
    texts = documents_of(table, loaded)
    for name, size_of_source in SIZES.items():
        numbers = drawn_of(texts, name)
        assert len(numbers) == report.shares[name].drawn.documents
        times = [numbers.count(number) for number in range(size_of_source)]
        # Nothing is read again before all of it has been read.
        assert max(times) - min(times) <= 1
        if stopping == "first_exhausted":
            assert max(times) <= 1
    undrawn = report.dropped.get("not_drawn", Count(0, 0)).documents
    assert undrawn == sum(SIZES[name] - len(set(drawn_of(texts, name))) for name in SIZES)


def test_documents_are_drawn_from_the_whole_of_a_source_by_the_seed(
    sources: dict[str, Path], loaded: fastpack.Tokenizer, tmp_path: Path
) -> None:
    def drawn(path: Any, seed: int, fraction: float) -> list[int]:
        listed: Any = [{"path": path, "fraction": fraction}]
        table = flat.pack_files(sources=listed, tokenizer=loaded, seed=seed, **OPTIONS)
        [share] = fastpack.Report.of(table).shares.values()
        assert (share.asked, share.got) == (fraction, pytest.approx(fraction, abs=0.02))
        return drawn_of(documents_of(table, loaded), "short")

    found = drawn(sources["short"], 0, 0.25)
    assert len(found) == pytest.approx(50, abs=3)
    halves = [sum(number < 100 for number in found), sum(number >= 100 for number in found)]
    assert min(halves) > 12
    assert found != drawn(sources["short"], 1, 0.25)
    # A larger part holds the smaller one.
    assert set(found) <= set(drawn(sources["short"], 0, 0.6))
    # Neither files nor lines in another order change it.
    lines = sources["short"].read_text().splitlines(keepends=True)
    for number, part in enumerate((lines[150:], lines[:70][::-1], lines[70:150])):
        (tmp_path / f"{number}.jsonl").write_text("".join(part))
    assert drawn(tmp_path / "*.jsonl", 0, 0.25) == found


def test_whole_passes_are_the_rows_of_repeated_sources(
    sources: dict[str, Path], loaded: fastpack.Tokenizer
) -> None:
    for strategy in ("sequential", "mix"):
        options: Any = OPTIONS | {"strategy": strategy}
        files = {"short": sources["short"], "few": sources["few"]}
        weights: Any = {"short": 200, "few": 90}
        mixed = flat.pack_files(
            files,
            loaded,
            weights=weights,
            weight_unit="documents",
            stopping_strategy="all_exhausted",
            **options,
        )
        listed: Any = [{"path": files["short"]}, {"path": files["few"], "repeat": 3}]
        repeated = flat.pack_files(sources=listed, tokenizer=loaded, **options)
        assert mixed["input_ids"] == repeated["input_ids"]
        reports = [fastpack.Report.of(table) for table in (mixed, repeated)]
        assert reports[0].documents == reports[1].documents
        assert reports[0].tokens == reports[1].tokens


WEIGHTS = {"short": 1, "long": 2, "few": 1}
MIDDLE = fastpack.FillInMiddle(tokens=["<|start|>", "<|end|>", "<|endoftext|>"])


def test_all_calls_draw_the_same(sources: dict[str, Path], tokenizer_dir: Path, tmp_path: Path) -> None:
    options: Any = OPTIONS | {"weights": WEIGHTS, "seed": 3}
    table = flat.pack_files(sources, tokenizer_dir, **options)
    expected = fastpack.Report.of(table)
    for threads in (1, 3):
        again = flat.pack_files(sources, tokenizer_dir, threads=threads, **options)
        assert again["input_ids"] == table["input_ids"]
    report = flat.pack_dir(sources, tmp_path / "packed", tokenizer=tokenizer_dir, **options)
    assert fastpack.read(tmp_path / "packed")["input_ids"] == table["input_ids"]
    assert report.shares == expected.shares
    assert not fastpack.verify(tmp_path / "packed", tokenizer=tokenizer_dir).problems
    assert "asked" in str(report)
    # The finished job is found again; other shares are another job.
    assert flat.pack_dir(sources, tmp_path / "packed", tokenizer=tokenizer_dir, **options).rows == report.rows
    other = options | {"weights": WEIGHTS | {"few": 2}}
    with pytest.raises(fastpack.OutputError):
        flat.pack_dir(sources, tmp_path / "packed", tokenizer=tokenizer_dir, **other)
    from fastpack.cli import main

    line = ["pack", *(f"{name}={path}" for name, path in sources.items()), "-o", str(tmp_path / "cli")]
    line += [
        "-t",
        str(tokenizer_dir),
        "-m",
        "256",
        "--columns",
        "input_ids,seq_lengths",
        "--overlong",
        "error",
    ]
    assert main([*line, "--weights", json.dumps(WEIGHTS), "--seed", "3"]) == 0
    assert fastpack.read(tmp_path / "cli")["input_ids"] == table["input_ids"]
    # A manifest holds the shares.
    assert main(["pack", "--like", str(tmp_path / "packed"), "-o", str(tmp_path / "like")]) == 0
    assert fastpack.read(tmp_path / "like")["input_ids"] == table["input_ids"]


def test_a_validation_split_is_one_of_what_was_drawn(
    sources: dict[str, Path], loaded: fastpack.Tokenizer
) -> None:
    options: Any = OPTIONS | {"weights": WEIGHTS}
    whole = documents_of(flat.pack_files(sources, loaded, **options), loaded)
    train, held = flat.pack_files(sources, loaded, validation=0.2, **options)
    parts = [documents_of(table, loaded) for table in (train, held)]
    assert sorted(itertools.chain(*parts)) == whole
    assert min(map(len, parts)) > 0
    everything = flat.pack_files(list(sources.values()), loaded, validation=0.2, **OPTIONS)
    assert set(parts[1]) <= set(documents_of(everything.validation, loaded))


def test_a_killed_job_draws_the_same(sources: dict[str, Path], tokenizer_dir: Path, tmp_path: Path) -> None:
    many = tmp_path / "many.jsonl"
    many.write_text(
        "".join(json.dumps({"text": sentence(number, 60)}) + "\n" for number in range(30_000)),
        encoding="utf-8",
    )
    files = {"many": str(many), "few": str(sources["few"])}
    weights = {"many": 3, "few": 1}
    code = RUN.replace("import os", "import json, os").replace(
        "pack_dir([files]", "pack_dir(json.loads(files)"
    )
    kill_at_work(
        json.dumps(files), tokenizer_dir, tmp_path / "killed", code=code, weights=weights, shard_size="100kB"
    )
    for name in ("killed", "whole"):
        options: Any = {"max_length": 256, "weights": weights, "shard_size": "100kB"}
        flat.pack_dir(files, tmp_path / name, tokenizer=str(tokenizer_dir), **options)
    tables = [fastpack.read(tmp_path / name) for name in ("killed", "whole")]
    assert tables[0].equals(tables[1])


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"weights": {"short": 1}}, "weights"),
        ({"weights": {"short": 1, "long": 1, "few": -1}}, "weights"),
        ({"weights": {"short": 1, "long": 1, "few": math.nan}}, "weights"),
        ({"weights": {"short": 1, "long": 1, "few": True}}, "weights"),
        ({"weights": [(0, WEIGHTS)]}, "weights"),
        ({"weights": WEIGHTS, "weight_unit": "rows"}, "weights.unit"),
        ({"weights": WEIGHTS, "stopping_strategy": "never"}, "weights.stopping_strategy"),
        ({"weights": WEIGHTS, "cache_dir": "cache"}, "weights"),
        ({"weights": WEIGHTS, "objective": dataclasses.replace(MIDDLE, copies=2)}, "weights"),
        (
            {"weights": WEIGHTS, "objective": MIDDLE, "stopping_strategy": "all_exhausted"},
            "weights.stopping_strategy",
        ),
        ({"weights": WEIGHTS, "validation": 0.1, "stopping_strategy": "all_exhausted"}, "validation"),
        ({"weights": WEIGHTS, "per_file": True}, "weights"),
        ({"weights": WEIGHTS, "keep_tokens": True}, "weights"),
        ({"weights": WEIGHTS, "group_size": "1MB"}, "weights"),
    ],
    ids=str,
)
def test_what_does_not_go_with_shares_is_refused_by_name(
    options: Any, option: str, sources: dict[str, Path], tokenizer_dir: Path, tmp_path: Path
) -> None:
    with pytest.raises(fastpack.OptionError) as refused:
        flat.pack_dir(sources, tmp_path / "out", tokenizer=tokenizer_dir, max_length=256, **options)
    assert refused.value.option == option


def test_a_fraction_in_other_calls_is_refused(sources: dict[str, Path], loaded: fastpack.Tokenizer) -> None:
    listed: Any = [{"path": sources["short"], "fraction": 0.5}]
    calls: list[Callable[[], object]] = [
        lambda: flat.scan(sources=listed, tokenizer=loaded, max_length=64),
        lambda: next(flat.stream(sources=listed, tokenizer=loaded, max_length=64)),
    ]
    for call in calls:
        with pytest.raises(fastpack.OptionError, match="`fraction`"):
            call()
    for wrong in (0, 1.5, True, "half"):
        with pytest.raises(fastpack.OptionError, match="`fraction` of source 0"):
            flat.pack_files(
                sources=[{"path": sources["short"], "fraction": wrong}], tokenizer=loaded, max_length=64
            )


def test_named_sources_without_weights_are_read_as_one(
    sources: dict[str, Path], loaded: fastpack.Tokenizer
) -> None:
    named = flat.pack_files(sources, loaded, **OPTIONS)
    assert named["input_ids"] == flat.pack_files(list(sources.values()), loaded, **OPTIONS)["input_ids"]
    assert fastpack.Report.of(named).shares == {}
