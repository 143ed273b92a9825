"""`repack`: tokens that were kept, packed once more, against files packed once more."""

from __future__ import annotations

import shutil

import pytest
from rows import shards

import fastpack


def timeless(report):
    return {name: value for name, value in report.to_dict().items() if name != "timing"}


@pytest.fixture
def files(write_jsonl):
    """Conversations and texts, some longer than a row, and a record that is none."""
    words = ["the", "old", "river", "keeps", "the", "quiet", "town", "and", "a", "green", "boat"]
    texts = [{"text": " ".join(words[: 1 + at % 11] * (1 + at % 37))} for at in range(300)]
    said = [
        {
            "messages": [
                {"role": "user", "content": "the river " * (1 + at % 50)},
                {"role": "assistant", "content": "a boat " * (1 + at % 70)},
            ]
        }
        for at in range(300)
    ]
    return [write_jsonl([*texts, b"{"], "text.jsonl"), write_jsonl(said, "chat.jsonl")]


@pytest.fixture
def kept(files, tokenizer_dir, tmp_path):
    """A folder with the tokens of the files, packed into rows of 64."""
    folder = tmp_path / "kept"
    options = {"max_length": 64, "keep_tokens": True, "on_bad_record": "skip"}
    fastpack.pack_dir(files, folder, tokenizer=tokenizer_dir, **options)
    return folder


def pack(files, folder, tokenizer, **options):
    return fastpack.pack_dir(files, folder, tokenizer=tokenizer, on_bad_record="skip", **options)


@pytest.mark.parametrize(
    "options",
    [
        {"max_length": 64},
        {"max_length": 512, "seed": 7},
        {"max_length": 100, "strategy": "best_fit", "overlong": fastpack.Truncate(side="left")},
        {"max_length": 128, "strategy": fastpack.Concat(drop_last=True), "columns": ["input_ids", "labels"]},
        {"max_length": 256, "padding": "max_length", "strategy": "sequential", "format": "jsonl"},
        {"max_length": 256, "memory": 0, "format": fastpack.Format(shard_size="100KB"), "threads": 2},
    ],
    ids=lambda options: " ".join(f"{name}={value}" for name, value in options.items()),
)
def test_the_rows_are_those_of_packing_the_files(options, kept, files, tokenizer_dir, tmp_path):
    again = fastpack.repack(kept, tmp_path / "again", **options)
    expected = pack(files, tmp_path / "expected", tokenizer_dir, **options)
    assert shards(tmp_path / "again") == shards(tmp_path / "expected")
    assert timeless(again) == timeless(expected)


def test_what_was_dropped_for_its_length_comes_back(kept, files, tokenizer_dir, tmp_path):
    before = fastpack.Report.from_json((kept / "report.json").read_bytes())
    after = fastpack.repack(kept, tmp_path / "again", max_length=1024)
    assert before.dropped["too_long"].documents > 0
    assert "too_long" not in after.dropped
    assert after.documents.read == before.documents.read


def test_the_input_files_are_not_needed(kept, files, tmp_path):
    for path in files:
        path.unlink()
    assert fastpack.repack(kept, tmp_path / "again", max_length=128).rows > 0


def test_a_second_run_returns_the_report(kept, tmp_path):
    first = fastpack.repack(kept, tmp_path / "again", max_length=128)
    assert fastpack.repack(kept, tmp_path / "again", max_length=128) == first
    with pytest.raises(fastpack.OutputError, match=r"`max_length` \(128 there, 256 here\)"):
        fastpack.repack(kept, tmp_path / "again", max_length=256)


def test_other_tokens_are_another_job(kept, files, tokenizer_dir, tmp_path):
    pack(
        files,
        tmp_path / "other",
        tokenizer_dir,
        max_length=64,
        keep_tokens=True,
        special_tokens=fastpack.SpecialTokens(eos=False),
    )
    fastpack.repack(kept, tmp_path / "again", max_length=128)
    with pytest.raises(fastpack.OutputError, match="`tokens`"):
        fastpack.repack(tmp_path / "other", tmp_path / "again", max_length=128)


def test_a_folder_without_tokens_is_refused(files, tokenizer_dir, tmp_path):
    pack(files, tmp_path / "out", tokenizer_dir, max_length=64)
    with pytest.raises(
        fastpack.OutputError, match="holds no tokens; a job with keep_tokens=True keeps them"
    ) as refused:
        fastpack.repack(tmp_path / "out", tmp_path / "again", max_length=128)
    assert refused.value.filename == str(tmp_path / "out")
    with pytest.raises(fastpack.InputNotFoundError):
        fastpack.repack(tmp_path / "nowhere", tmp_path / "again", max_length=128)
    assert not (tmp_path / "again").exists()


def test_the_folder_of_the_tokens_is_refused(kept):
    before = {path: path.stat().st_mtime_ns for path in kept.iterdir()}
    with pytest.raises(fastpack.OutputError, match="write to a folder of its own"):
        fastpack.repack(kept, kept, max_length=128, exists="overwrite")
    assert {path: path.stat().st_mtime_ns for path in kept.iterdir()} == before


def test_damaged_tokens_are_refused(kept, tmp_path):
    tokens = kept / "tokens.fastpack"
    bytes_ = bytearray(tokens.read_bytes())
    bytes_[len(bytes_) // 2] ^= 1
    tokens.write_bytes(bytes_)
    with pytest.raises(fastpack.OutputError, match="is damaged"):
        fastpack.repack(kept, tmp_path / "again", max_length=128)
    tokens.write_bytes(bytes_[:-1])
    with pytest.raises(fastpack.OutputError, match="has changed"):
        fastpack.repack(kept, tmp_path / "again", max_length=128)


def test_the_tokens_stay_when_the_job_is_run_again(kept, files, tokenizer_dir, tmp_path):
    pack(files, kept, tokenizer_dir, max_length=64, keep_tokens=True)
    with pytest.raises(fastpack.OutputError, match=r"`keep_tokens` \(true there, false here\)"):
        pack(files, kept, tokenizer_dir, max_length=64)
    pack(files, kept, tokenizer_dir, max_length=64, exists="overwrite")
    assert not (kept / "tokens.fastpack").exists()


def test_the_folder_can_be_moved(kept, tmp_path):
    first = fastpack.repack(kept, tmp_path / "first", max_length=128)
    shutil.move(kept, tmp_path / "moved")
    second = fastpack.repack(tmp_path / "moved", tmp_path / "second", max_length=128)
    assert timeless(second) == timeless(first)
