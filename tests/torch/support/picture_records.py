"""Records with pictures, and their rows, for the tests of pictures."""

from __future__ import annotations

import base64
import io
import json

import numpy as np
from PIL import Image

import fastpack


def png(width, height, seed=0, **saved):
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    written = io.BytesIO()
    Image.fromarray(pixels).save(written, **{"format": "PNG", **saved})
    return written.getvalue()


def picture(folder, width, height):
    path = folder / f"{width}x{height}.png"
    if not path.exists():
        path.write_bytes(png(width, height))
    return path


def write(folder, records, name="data.jsonl"):
    path = folder / name
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


#: The option that packs pictures.
PICTURES = fastpack.Reading(images="reference")


def packed(path, folder, **options):
    usual = {
        "max_length": 16384,
        "strategy": "none",
        "reading": PICTURES,
        "progress": False,
        "max_lost": "100%",
    }
    return fastpack.pack_files(path, folder, **{**usual, **options}).to_pylist()


def user(*parts):
    return {"role": "user", "content": list(parts)}


def text(said):
    return {"type": "text", "text": said}


def answer(said):
    return {"role": "assistant", "content": [text(said)]}


def part_of(part, folder):
    if isinstance(part, str):
        return text(part)
    return {"type": "image", "path": str(picture(folder, *part))}


def messages_of(turns, folder):
    messages = []
    for parts, said in turns:
        messages += [user(*(part_of(part, folder) for part in parts)), answer(said)]
    return messages


def forms_of(folder):
    """The same conversation with two pictures in every form."""
    first, second = picture(folder, 60, 90), picture(folder, 120, 50)
    whole = [base64.b64encode(path.read_bytes()).decode() for path in (first, second)]
    blank, asked, said = {"type": "image"}, text("a boat"), answer("the river")

    def parts(one, two):
        return {"messages": [user(one, two, asked), said]}

    def of(key, values):
        return parts(*({"type": "image", key: value} for value in values))

    names = [first.name, second.name]
    paths = [str(first), str(second)]
    urls = [f"data:image/png;base64,{it}" for it in whole]
    plain = [{"from": "human", "value": "<image>\n<image>\na boat"}, {"from": "gpt", "value": "the river"}]
    return {
        "path": of("path", names),
        "url of a file": of("url", [f"file://{path}" for path in paths]),
        "image": of("image", paths),
        "base64": of("base64", whole),
        "data url": of("url", urls),
        "image_url": parts(*({"type": "image_url", "image_url": {"url": url}} for url in urls)),
        "column": {"images": names, **parts(blank, blank)},
        "column of objects": {"images": [{"path": name} for name in names], **parts(blank, blank)},
        "column of bytes": {"images": [{"bytes": it, "path": None} for it in whole], **parts(blank, blank)},
        "column, no parts": {"images": names, "messages": [{"role": "user", "content": "a boat"}, said]},
        "marks": {"images": names, "conversations": plain},
        "prompt": {"images": names, "prompt": [user(blank, blank, asked)], "completion": [said]},
    }


def many(folder, count=60):
    random = np.random.default_rng(0)
    for _ in range(count):
        turns = [
            (
                [
                    tuple(int(it) for it in random.integers(20, 120, 2)),
                    "a river " * int(random.integers(1, 9)),
                ],
                "the boat " * int(random.integers(1, 5)),
            )
            for _ in range(random.integers(1, 3))
        ]
        yield {"messages": messages_of(turns, folder)}
