"""A manifest that was changed and sealed again, as only fastpack does it: for rows that are wrong though no file has changed since."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from fastpack._fastpack import content_hash, hash_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any


def seal_again(folder: Path, change: Callable[[dict[str, Any]], object] = lambda _: None) -> None:
    """Writes the manifest of a folder with the sizes and hashes that its files have now, and with a change."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_bytes())
    del manifest["blake3"]
    for file in [*manifest["files"], *manifest.get("beside", [])]:
        place = folder / file["name"]
        if place.is_file():
            file["bytes"], file["blake3"] = place.stat().st_size, content_hash(str(place))
    change(manifest)
    path.write_bytes(sealed(manifest))


def sealed(manifest: dict[str, Any]) -> bytes:
    """The text of a manifest without its hash, with it."""
    rest = json.dumps(manifest, indent=2).removeprefix("{\n") + "\n"
    return f'{{\n  "blake3": "{hash_of(rest.encode())}",\n{rest}'.encode()
