"""The ways from conversations to packed rows that are measured, each run in a process of its own.

    python benches/python/contenders.py NAME CORPUS.jsonl TOKENIZER_DIR TEMPLATE.jinja

Prints one line of JSON: seconds without loading the tokenizer, tokens, trained tokens and rows.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

MAX_LENGTH = 4096
PROCESSES = 2


def load_transformers(tokenizer: str, template: str) -> Any:
    """Load the tokenizer with the template on it."""
    from transformers import AutoTokenizer

    loaded = AutoTokenizer.from_pretrained(tokenizer)
    loaded.chat_template = Path(template).read_text(encoding="utf-8")
    return loaded


def load_trl() -> Any:
    """Load the packing module of TRL's wheel by path: the package itself imports torch."""
    package = importlib.util.find_spec("trl")
    assert package is not None
    assert package.origin is not None
    spec = importlib.util.spec_from_file_location(
        "trl_data_utils", Path(package.origin).parent / "data_utils.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def fastpack_threads(corpus: str, tokenizer: str, template: str, threads: int) -> dict[str, float]:
    """Pack with fastpack: read, render, tokenize, mask, pack, write."""
    import fastpack

    loaded = fastpack.Tokenizer(tokenizer)
    with tempfile.TemporaryDirectory() as out:
        started = time.perf_counter()
        report = fastpack.pack_dir(
            corpus,
            out,
            tokenizer=loaded,
            chat_template=template,
            max_length=MAX_LENGTH,
            train_on="assistant",
            threads=threads,
            progress=False,
        )
        seconds = time.perf_counter() - started
    return {
        "seconds": seconds,
        "tokens": report.tokens.kept,
        "trained": report.trained_tokens,
        "rows": report.rows,
    }


def fastpack_1(corpus: str, tokenizer: str, template: str) -> dict[str, float]:
    """Pack with fastpack on one thread."""
    return fastpack_threads(corpus, tokenizer, template, 1)


def fastpack_2(corpus: str, tokenizer: str, template: str) -> dict[str, float]:
    """Pack with fastpack on two threads."""
    return fastpack_threads(corpus, tokenizer, template, 2)


def transformers_loop(corpus: str, tokenizer: str, template: str) -> dict[str, float]:
    """Render, tokenize and mask record by record, as most scripts do; nothing is packed or written."""
    loaded = load_transformers(tokenizer, template)
    started = time.perf_counter()
    tokens = trained = 0
    with Path(corpus).open(encoding="utf-8") as lines:
        for line in lines:
            encoded = loaded.apply_chat_template(
                json.loads(line)["messages"],
                tokenize=True,
                return_dict=True,
                return_assistant_tokens_mask=True,
            )
            tokens += len(encoded["input_ids"])
            trained += sum(encoded["assistant_masks"][1:])
    return {"seconds": time.perf_counter() - started, "tokens": tokens, "trained": trained, "rows": 0}


def trl_pack(corpus: str, tokenizer: str, template: str) -> dict[str, float]:
    """Do what TRL's trainer does: `map` the template with masks on two processes, then `pack_dataset`, then save."""
    import datasets

    datasets.disable_progress_bars()
    trl = load_trl()
    loaded = load_transformers(tokenizer, template)

    def encode(record: dict[str, Any]) -> dict[str, list[int]]:
        encoded = loaded.apply_chat_template(
            record["messages"], tokenize=True, return_dict=True, return_assistant_tokens_mask=True
        )
        return {"input_ids": encoded["input_ids"], "assistant_masks": encoded["assistant_masks"]}

    with tempfile.TemporaryDirectory() as out:
        started = time.perf_counter()
        dataset = datasets.Dataset.from_json(corpus, cache_dir=f"{out}/cache")
        dataset = dataset.map(encode, remove_columns=dataset.column_names, num_proc=PROCESSES)
        dataset = dataset.filter(
            lambda rows: [len(ids) <= MAX_LENGTH for ids in rows["input_ids"]],
            batched=True,
            num_proc=PROCESSES,
        )
        packed = trl.pack_dataset(dataset, MAX_LENGTH, "bfd", {"num_proc": PROCESSES})
        packed.save_to_disk(f"{out}/packed")
        seconds = time.perf_counter() - started
        table = packed.with_format("arrow")[:]
        masks = table["assistant_masks"].combine_chunks().flatten().to_numpy()
    return {"seconds": seconds, "tokens": len(masks), "trained": int(masks.sum()), "rows": len(packed)}


CONTENDERS = {
    "fastpack, 1 thread": fastpack_1,
    "fastpack, 2 threads": fastpack_2,
    "transformers loop": transformers_loop,
    "TRL, 2 processes": trl_pack,
}


if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    print(json.dumps(CONTENDERS[name](*arguments)))
