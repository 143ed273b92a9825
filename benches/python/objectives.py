"""Measures the objectives beside the causal one, and `mlm` beside `datasets.map` with a collator, in one run.

    python benches/python/objectives.py [--megabytes 40] [--peer-megabytes 4] [--rounds 5] [--threads 2]

Real texts are used where `$FASTPACK_DATA` (or `../shared/data` beside the checkout) has them; else texts of the seeded
corpus. Objectives of other records have the same texts: with a label, or cut in three as a prompt with two answers. The
tokenizer is a byte-level BPE with tokens added for each objective. Each measurement has a tokenizer that has seen nothing. The peer tokenizes and groups texts by `datasets.map`, and masks batches of 32 rows by
`DataCollatorForLanguageModeling` with NumPy.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import fastpack
import fastpack._fastpack as native

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from run import data, head, machine, train  # noqa: E402
from texts import texts_of  # noqa: E402

import corpus  # noqa: E402

LENGTH = 512
OBJECTIVES: dict[str, dict[str, Any]] = {
    "causal": {},
    "mlm": {},
    "mlm, whole words": {"objective": fastpack.MaskedLM(whole_words=True)},
    "span": {"objective": fastpack.SpanCorruption(max_target_length=128)},
    "fim": {},
    "classification": {"objective": fastpack.Classification(2), "overlong": "truncate"},
    "multi_label": {"objective": fastpack.MultiLabel(2), "overlong": "truncate"},
    "preference": {"overlong": "truncate"},
    "generation": {"overlong": "truncate"},
    "custom": {"objective": fastpack.Custom(lambda documents: documents.select(["input_ids", "labels"]))},
}


def record_of(text: str, objective: str) -> dict[str, Any]:
    """A text as a record of an objective."""
    if objective == "preference":
        third = len(text) // 3
        return {"prompt": text[:third], "chosen": text[third : 2 * third], "rejected": text[2 * third :]}
    label = len(text) % 2
    return {"text": text, "labels": [label]} if objective == "multi_label" else {"text": text, "label": label}


def records(lines: Path, objective: str, out: Path) -> Path:
    """The texts of a file as records of an objective."""
    with lines.open(encoding="utf-8") as texts, out.open("w", encoding="utf-8") as file:
        for line in texts:
            record = record_of(json.loads(line)["text"], objective)
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
    return out


def tokenizer_at(folder: Path, out: Path) -> Path:
    """A tokenizer with the tokens that objectives need."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    sentinels = [f"<extra_id_{number}>" for number in range(100)]
    parts = ["<fim_prefix>", "<fim_suffix>", "<fim_middle>"]
    tokenizer.add_special_tokens(
        {
            "mask_token": "<mask>",
            "pad_token": "<pad>",
            "eos_token": tokenizer.eos_token or "<|endoftext|>",
            "extra_special_tokens": sentinels + parts,
        }
    )
    tokenizer.save_pretrained(out)
    return out


def pack(lines: Path, tokenizer: Path, threads: int, name: str) -> tuple[float, int]:
    """The seconds of packing, and the tokens read."""
    options = {"objective": name, **OBJECTIVES[name]}
    fresh = fastpack.Tokenizer(tokenizer, threads=threads)
    started = time.perf_counter()
    table = fastpack.pack_files(lines, fresh, max_length=LENGTH, threads=threads, **options)
    return time.perf_counter() - started, fastpack.Report.of(table).tokens.read


def peer(lines: Path, tokenizer: Path, scratch: Path) -> tuple[float, int]:
    """The seconds of `datasets.map` and a collator, and the tokens of their rows."""
    from datasets import disable_progress_bars, load_dataset
    from transformers import AutoTokenizer, DataCollatorForLanguageModeling

    disable_progress_bars()
    loaded = AutoTokenizer.from_pretrained(tokenizer)
    collator = DataCollatorForLanguageModeling(loaded, return_tensors="np", seed=1)

    def tokenize(batch: dict[str, list[str]]) -> dict[str, list[list[int]]]:
        return {"input_ids": loaded(batch["text"])["input_ids"]}

    def group(batch: dict[str, list[list[int]]]) -> dict[str, list[list[int]]]:
        ids = [token for document in batch["input_ids"] for token in document]
        return {"input_ids": [ids[at : at + LENGTH] for at in range(0, len(ids) - LENGTH + 1, LENGTH)]}

    started = time.perf_counter()
    rows = load_dataset("json", data_files=str(lines), split="train", cache_dir=str(scratch))
    rows = rows.map(tokenize, batched=True, remove_columns=rows.column_names)
    rows = rows.map(group, batched=True)
    tokens = 0
    for at in range(0, len(rows), 32):
        batch = collator([{"input_ids": ids} for ids in rows[at : at + 32]["input_ids"]])
        tokens += batch["input_ids"].size
    return time.perf_counter() - started, tokens


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=float, default=40, help="size of the corpus (default: 40)")
    parser.add_argument("--peer-megabytes", type=float, default=4, help="size for the peer (default: 4)")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each (default: 5)")
    parser.add_argument("--threads", type=int, default=2, help="worker threads (default: 2)")
    arguments = parser.parse_args()
    if native.build_profile != "release":
        raise SystemExit("the extension is a debug build: `make bench-objectives` builds the right one")
    shared = data()
    with tempfile.TemporaryDirectory(dir=HERE.parents[1]) as name:
        scratch = Path(name)
        if shared is None:
            seeded = scratch / "chats.jsonl"
            corpus.write(seeded, megabytes=arguments.megabytes, seed=0)
            lines, model = texts_of(seeded, scratch / "texts.jsonl"), train(seeded, scratch / "model")
        else:
            corpus_file = shared / "corpora" / "text-en.jsonl"
            lines = head(corpus_file, scratch / "texts.jsonl", arguments.megabytes)
            model = shared / "tokenizers" / "gpt2"
        tokenizer = tokenizer_at(model, scratch / "tokenizer")
        of_records = {
            objective: records(lines, objective, scratch / f"{objective}.jsonl")
            for objective in ["classification", "multi_label", "preference"]
        }
        few = head(lines, scratch / "few.jsonl", arguments.peer_megabytes)
        speeds: dict[str, list[float]] = {objective: [] for objective in OBJECTIVES}
        theirs = []
        for turn in range(arguments.rounds):
            # The first run behind the peer takes up to a half longer, whatever it packs; it is not counted.
            pack(lines, tokenizer, arguments.threads, "causal")
            for objective, found in speeds.items():
                file = of_records.get(objective, lines)
                seconds, tokens = pack(file, tokenizer, arguments.threads, objective)
                found.append(tokens / seconds / 1e6)
            seconds, tokens = peer(few, tokenizer, scratch / f"cache{turn}")
            theirs.append(tokens / seconds / 1e6)
    print(f"{machine()}, {arguments.threads} threads, medians of {arguments.rounds} rounds in turn\n")
    print("| objective | million tokens a second | of causal | times `datasets.map` and a collator |")
    print("|---|---:|---:|---:|")
    medians = {objective: statistics.median(found) for objective, found in speeds.items()}
    slow = statistics.median(theirs)
    for objective, speed in medians.items():
        ratio = f"{speed / slow:.0f}" if objective == "mlm" else ""
        print(f"| {objective} | {speed:.1f} | {speed / medians['causal']:.2f} | {ratio} |")
    print(f"| `datasets.map` and a collator (`mlm`) | {slow:.2f} | | 1 |")


if __name__ == "__main__":
    main()
