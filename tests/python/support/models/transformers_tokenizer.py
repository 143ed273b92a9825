"""The tokenizers of transformers, each loaded once by a test process."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


@functools.cache
def transformers_tokenizer(folder: Path, **options: Any) -> Any:
    """The tokenizer that `AutoTokenizer` makes of a folder."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, **options)
