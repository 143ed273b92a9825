"""Measures conversations with pictures: packed beside `datasets.map` with the processor, and trained packed beside padded.

    python benches/python/training/pictures.py [--conversations 10000] [--rounds 3] [--steps 30]

The conversations are seeded, each with one or two JPEG files of a size of its own. fastpack reads the headers of the files;
`datasets.map`, with two processes, opens them, as the processor of Qwen2.5-VL asks, and keeps ids alone. Each is a process of its
own, from the files to rows on disk, by the clock from where the processor is loaded, and from its beginning. Training is a small Qwen2.5-VL with random weights on one
thread, a step over the same conversations each time; opening and processing the pictures counts.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

HERE = Path(__file__).resolve().parent
sys.path[:0] = [
    str(HERE.parents[1]),
    str(HERE.parent),
    str(HERE),
    str(HERE.parents[2] / "tests" / "torch" / "support"),
]

import corpus  # noqa: E402

PROCESSES = 2
MAX_LENGTH = 4096

#: Tokens of a packed row in training, and the most that a conversation has.
TRAIN_LENGTH = 2048


def save_picture(path: Path, size: tuple[int, int], seed: int) -> None:
    """Writes a JPEG with some structure, so that it takes as many bytes as a photo of the web."""
    from PIL import Image

    small = Image.frombytes("RGB", (24, 24), random.Random(seed).randbytes(24 * 24 * 3))
    small.resize(size, Image.Resampling.BICUBIC).save(path, quality=85)


def make(
    folder: Path, count: int, sides: tuple[int, int], spread: float = 0.8
) -> tuple[Path, list[tuple[int, int]]]:
    """Writes conversations with pictures whose sides lie between two lengths; returns the file and the sizes.

    The lengths of the answers are log-normal with this `spread`.
    """
    draw = random.Random(0)
    words = corpus.vocabulary(draw)
    pictures = folder / "pictures"
    pictures.mkdir()
    sizes: list[tuple[int, int]] = []
    data = folder / "data.jsonl"
    with data.open("w", encoding="utf-8") as lines:
        for _ in range(count):
            parts: list[dict[str, str]] = []
            for _ in range(1 if draw.random() < 0.7 else 2):
                parts.append({"type": "image", "path": f"pictures/{len(sizes)}.jpg"})
                sizes.append((draw.randint(*sides), draw.randint(*sides)))
            question = corpus.paragraph(draw, words, draw.randint(8, 40))
            answer = corpus.paragraph(draw, words, int(draw.lognormvariate(4, spread)))
            parts.append({"type": "text", "text": question})
            messages = [{"role": "user", "content": parts}, {"role": "assistant", "content": answer}]
            lines.write(json.dumps({"messages": messages}) + "\n")
    paths = [pictures / f"{number}.jpg" for number in range(len(sizes))]
    with ProcessPoolExecutor() as pool:
        list(pool.map(save_picture, paths, sizes, range(len(sizes)), chunksize=64))
    return data, sizes


def save_processor(tokenizer: Path, folder: Path) -> None:
    """Writes the processor of Qwen2.5-VL as it is published, with this tokenizer and a plain template."""
    import picture_models
    from transformers import AutoTokenizer, Qwen2VLImageProcessor

    small = picture_models.FAMILIES["qwen2_5_vl"].make()
    names = ("image_token", "video_token", "vision_start_token", "vision_end_token")
    tokens = {name: getattr(small.tokenizer, name) for name in names}
    small.tokenizer = AutoTokenizer.from_pretrained(tokenizer, extra_special_tokens=tokens)
    small.image_processor = Qwen2VLImageProcessor()
    small.save_pretrained(folder)


def fastpack_packs(data: str, processor: str, out: str) -> dict[str, float]:
    """Packs rows that name the pictures."""
    import fastpack

    options: dict[str, Any] = {
        "max_length": MAX_LENGTH,
        "reading": fastpack.Reading(images="reference"),
        "progress": False,
        "overlong": "drop",
        "max_lost": "100%",
    }
    with Path(data).open(encoding="utf-8") as lines:
        first = Path(data).with_name("first.jsonl")
        first.write_text(next(lines), encoding="utf-8")
    fastpack.pack_files(first, processor, **options)
    began = time.perf_counter()
    report = fastpack.pack_dir(data, out, tokenizer=processor, threads=PROCESSES, **options)
    seconds = time.perf_counter() - began
    return {"documents": report.documents.read, "tokens": report.tokens.read, "seconds": seconds}


def encoded(row: dict[str, str], processor: Any, folder: Path) -> dict[str, Any]:
    """The ids of a conversation, as a script for a trainer makes them."""
    messages = json.loads(row["text"])["messages"]
    for part in messages[0]["content"]:
        if part["type"] == "image":
            part["path"] = str(folder / part["path"])
    columns = processor.apply_chat_template(messages, tokenize=True, return_dict=True)
    return {"input_ids": columns["input_ids"][0]}


def datasets_map(data: str, processor: str, out: str) -> dict[str, float]:
    """Maps the processor over the conversations."""
    import torch
    from datasets import Dataset
    from transformers import AutoProcessor

    torch.set_num_threads(1)
    loaded = AutoProcessor.from_pretrained(processor)
    began = time.perf_counter()
    with Path(data).open(encoding="utf-8") as lines:
        texts = list(lines)
    rows = Dataset.from_dict({"text": texts})
    function = partial(encoded, processor=loaded, folder=Path(data).parent)
    mapped = rows.map(function, num_proc=PROCESSES, remove_columns=["text"])
    mapped.save_to_disk(out)
    seconds = time.perf_counter() - began
    return {"documents": len(mapped), "tokens": sum(map(len, mapped["input_ids"])), "seconds": seconds}


def small_model(processor: Any) -> Any:
    """A Qwen2.5-VL of some 10 million weights, so that its work outweighs what Python does around it."""
    import picture_models
    import torch
    from transformers import AutoModelForImageTextToText

    config = picture_models.model_of("qwen2_5_vl", processor).config
    config.text_config.update(
        {
            "hidden_size": 256,
            "intermediate_size": 1024,
            "num_hidden_layers": 4,
            "head_dim": 64,
            "layer_types": ["full_attention"] * 4,
        }
    )
    config.text_config.rope_parameters["mrope_section"] = [8, 12, 12]
    config.vision_config.out_hidden_size = 256
    torch.manual_seed(0)
    return AutoModelForImageTextToText.from_config(config, attn_implementation="sdpa").float().train()


def padded(packed: dict[str, Any], lengths: list[int], pad: int) -> dict[str, Any]:
    """The conversations of a packed batch as rows of their own, padded to the longest."""
    from torch.nn.utils.rnn import pad_sequence

    fills = {"input_ids": pad, "labels": -100, "mm_token_type_ids": 0}
    rows = {
        name: pad_sequence(packed[name][0].split(lengths), batch_first=True, padding_value=fill)
        for name, fill in fills.items()
    }
    ones = [packed["input_ids"].new_ones(length) for length in lengths]
    pictures = {name: packed[name] for name in ("pixel_values", "image_grid_thw") if name in packed}
    return {**rows, **pictures, "attention_mask": pad_sequence(ones, batch_first=True)}


def train(way: str, data: str, processor: str, steps: int) -> dict[str, float]:
    """Trains on conversations, packed or padded: processor seconds for the pictures and for the model."""
    import torch
    from transformers import AutoProcessor

    import fastpack
    from fastpack.torch import PictureCollator

    torch.set_num_threads(1)
    loaded = AutoProcessor.from_pretrained(processor)
    model = small_model(loaded)
    table = fastpack.pack_files(
        data,
        tokenizer=processor,
        max_length=TRAIN_LENGTH,
        reading=fastpack.Reading(images="reference"),
        progress=False,
        overlong="drop",
        max_lost="100%",
    )
    collator = PictureCollator(loaded, model)
    seconds = {"pictures": 0.0, "model": 0.0}
    documents = tokens = places = 0
    for number, row in enumerate(table.slice(0, steps + 1).to_pylist()):
        began = time.process_time()
        batch = collator([row])
        if way == "padded":
            batch = padded(batch, row["seq_lengths"], loaded.tokenizer.pad_token_id)
        collated = time.process_time()
        model(**batch).loss.backward()
        model.zero_grad()
        ended = time.process_time()
        if number:  # the first one warms up
            seconds["pictures"] += collated - began
            seconds["model"] += ended - collated
            documents += len(row["seq_lengths"])
            tokens += len(row["input_ids"])
            places += batch["input_ids"].numel()
    return {"documents": documents, "tokens": tokens, "places": places, **seconds}


def measure(*arguments: str) -> tuple[float, dict[str, float]]:
    """Runs this program in a process of its own; returns its seconds, and what it prints."""
    began = time.perf_counter()
    command = [sys.executable, __file__, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(arguments)} failed:\n{done.stderr[-3000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return seconds, found


def tokenizer_of(scratch: Path) -> Path:
    """The folder of a real tokenizer where there is one, else of one that is trained on seeded conversations."""
    from run import data
    from run import train as trained

    shared = data()
    if shared is not None:
        return shared / "tokenizers" / "qwen"
    corpus.write(scratch / "chats.jsonl", megabytes=5, seed=0)
    return trained(scratch / "chats.jsonl", scratch / "trained on seeded chats")


def compare_packing(scratch: Path, conversations: int, rounds: int) -> None:
    """Prints how fast conversations with pictures become ids."""
    from run import machine

    folder = scratch / "large"
    folder.mkdir()
    data, sizes = make(folder, conversations, (300, 1100))
    tokenizer = tokenizer_of(scratch)
    processor = scratch / "processor"
    save_processor(tokenizer, processor)
    megabytes = sum(path.stat().st_size for path in (folder / "pictures").iterdir()) / 1e6
    print(
        f"{machine()}, {conversations:,} conversations with {len(sizes):,} JPEG files of {megabytes:,.0f} MB and "
        f"{len(set(sizes)):,} sizes, tokenizer {tokenizer.name}\n"
    )
    print(
        "| contender | conversations | tokens | seconds | pictures a second | times `datasets.map` "
        "| seconds with loading | times |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    peer = measure("--contender", DATASETS, str(data), str(processor), str(scratch / "mapped"))
    runs = [
        measure("--contender", FASTPACK, str(data), str(processor), str(scratch / f"packed{number}"))
        for number in range(rounds)
    ]
    ours = sorted(runs, key=lambda run: run[1]["seconds"])[rounds // 2]
    for name, (whole, counts) in {FASTPACK: ours, DATASETS: peer}.items():
        seconds = counts["seconds"]
        print(
            f"| {name} | {counts['documents']:,} | {counts['tokens']:,} | {seconds:.1f} | {len(sizes) / seconds:,.0f} "
            f"| {peer[1]['seconds'] / seconds:.1f} | {whole:.1f} | {peer[0] / whole:.1f} |",
            flush=True,
        )


def compare_training(scratch: Path, steps: int) -> None:
    """Prints how fast conversations are trained on."""
    import picture_models

    folder = scratch / "small"
    folder.mkdir()
    data, _ = make(folder, 40 * steps, (60, 200), 1.5)
    processor = picture_models.save_processor("qwen2_5_vl", scratch / "small_processor")
    print(f"\n{steps} steps of rows of {TRAIN_LENGTH:,} tokens, seconds of the processor\n")
    print(
        "| conversations | number | tokens | places with padding | pictures | model | tokens a second of the model |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|")
    for way in ("padded", "packed"):
        _, counts = measure("--train", way, str(data), str(processor), str(steps))
        print(
            f"| {way} | {counts['documents']:,} | {counts['tokens']:,} | {counts['places']:,} | {counts['pictures']:.1f} "
            f"| {counts['model']:.1f} | {counts['tokens'] / counts['model']:,.0f} |",
            flush=True,
        )


FASTPACK, DATASETS = "fastpack, 2 threads", f"`datasets.map`, {PROCESSES} processes"
CONTENDERS = {FASTPACK: fastpack_packs, DATASETS: datasets_map}


def main() -> None:
    """Runs as a program."""
    match sys.argv[1:]:
        case ["--contender", name, *arguments]:
            print(json.dumps(CONTENDERS[name](*arguments)))
            return
        case ["--train", way, data, processor, steps]:
            print(json.dumps(train(way, data, processor, int(steps))))
            return
    import fastpack._fastpack as native

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--conversations", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3, help="runs of fastpack, whose median is printed")
    parser.add_argument("--steps", type=int, default=30, help="steps of training")
    parser.add_argument(
        "--any-build", action="store_true", help="measure a build that is not for release too"
    )
    arguments = parser.parse_args()
    if native.build_profile != "release" and not arguments.any_build:
        raise SystemExit("the extension is a debug build: `make bench-pictures` builds the right one")
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        compare_packing(scratch, arguments.conversations, arguments.rounds)
        compare_training(scratch, arguments.steps)


if __name__ == "__main__":
    main()
