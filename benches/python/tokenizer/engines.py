"""The engines that turn text into ids, each measured in a process of its own.

    python benches/python/tokenizer/engines.py ENGINE TOKENIZER.json TEXTS.jsonl THREADS

Prints one line of JSON: MB/s of the first texts that a fresh engine sees (cold), MB/s of texts that it has not seen
after it has seen others (held out), tokens, a digest of ids, and the seconds that loading the tokenizer again takes. With one thread the process is pinned to one
core, and its CPU time counts; with more, the wall.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import numpy.typing as npt

    Encode = Callable[[Any], npt.NDArray[np.uint32]]

SAMPLE = 500
"""Texts whose ids are compared with those of Hugging Face."""

EVERY = {"tokenizers": 8}
"""Engines that are so slow that only one in so many texts is measured. What Hugging Face remembers are 10,000 words, which a
few MB fill."""


def tokenizers(path: str, _threads: int) -> Encode:
    """Hugging Face, without offsets."""
    import numpy as np
    from tokenizers import Tokenizer

    loaded = Tokenizer.from_file(path)

    def encode(texts: list[str]) -> npt.NDArray[np.uint32]:
        encodings = loaded.encode_batch_fast(texts, add_special_tokens=False)
        return np.concatenate([np.array(encoding.ids, dtype=np.uint32) for encoding in encodings])

    return encode


def fastpack(path: str, threads: int) -> Encode:
    """Fastpack, from a list of `str`."""
    import fastpack

    loaded = fastpack.Tokenizer(path, threads=threads)
    return lambda texts: loaded.encode_batch(texts, add_special_tokens=False)[0].view("uint32")


def fastpack_arrow(path: str, threads: int) -> Encode:
    """Fastpack, from an Arrow array, which those have who read Parquet."""
    return fastpack(path, threads)


def gigatoken(path: str, threads: int) -> Encode:
    """Gigatoken, into an awkward array."""
    import awkward
    import gigatoken
    import numpy as np

    loaded = gigatoken.Tokenizer(path)

    def encode(texts: list[str]) -> npt.NDArray[np.uint32]:
        ids = loaded.encode_batch(texts, parallel=threads > 1)
        return np.asarray(awkward.to_numpy(awkward.flatten(ids)), dtype=np.uint32)

    return encode


def fastokens(path: str, _threads: int) -> Encode:
    """Fastokens, into a flat buffer."""
    import fastokens
    import numpy as np

    loaded = fastokens.Tokenizer.from_file(path)

    def encode(texts: list[str]) -> npt.NDArray[np.uint32]:
        ids, _ = loaded.encode_batch_flat(texts, add_special_tokens=False)
        return np.frombuffer(ids, np.uint32)

    return encode


ENGINES: dict[str, Callable[[str, int], Encode]] = {
    "tokenizers": tokenizers,
    "fastpack": fastpack,
    "fastpack, Arrow": fastpack_arrow,
    "gigatoken": gigatoken,
    "fastokens": fastokens,
}


def arrow(texts: list[str]) -> Any:
    """The texts as an Arrow array."""
    import pyarrow as pa

    return pa.array(texts)


CONVERTERS: dict[str, Callable[[list[str]], Any]] = {"fastpack, Arrow": arrow}
"""The input of an engine that takes no list, made before the clock starts."""


def read(path: str) -> list[str]:
    """The texts of a corpus; a conversation is one text, with a header before each message."""

    def text(record: dict[str, Any]) -> str:
        if "text" in record:
            return record["text"]
        return "".join(
            f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n"
            for message in record["messages"]
        )

    with Path(path).open(encoding="utf-8") as lines:
        return [text(json.loads(line)) for line in lines]


def main() -> None:
    """Run as a program."""
    engine, tokenizer, corpus, threads = sys.argv[1:]
    os.environ["RAYON_NUM_THREADS"] = threads
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if threads != "1" else "false"
    clock = time.perf_counter
    if threads == "1":
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        clock = time.process_time
    texts = read(corpus)
    ENGINES[engine](tokenizer, int(threads))
    started = time.perf_counter()
    encode = ENGINES[engine](tokenizer, int(threads))
    load = time.perf_counter() - started
    convert = CONVERTERS.get(engine, list)
    encode(convert(["a"]))

    def measure(part: list[str]) -> tuple[float, int]:
        size = sum(len(text.encode()) for text in part)
        texts = convert(part)
        start = clock()
        ids = encode(texts)
        return size / 1e6 / (clock() - start), len(ids)

    step = 2 * EVERY.get(engine, 1)
    cold, first = measure(texts[::step])
    held_out, second = measure(texts[1::step])
    digest = hashlib.blake2b(encode(convert(texts[:SAMPLE])).tobytes()).hexdigest()
    measured = {"cold": cold, "held_out": held_out, "tokens": first + second, "load": load}
    print(json.dumps({**measured, "digest": digest}))


if __name__ == "__main__":
    main()
