"""Live tokenizers of `transformers` and `tokenizers`, as the caller gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from fastpack._fastpack import Pretrained
from fastpack.errors import TokenizerError
from fastpack.tokenizer.call import live_defaults

if TYPE_CHECKING:
    from fastpack.types import BackendTokenizer, TransformersTokenizer

__all__ = ["from_tokenizers", "from_transformers", "parts_of", "splits_special_tokens"]

Parts: TypeAlias = tuple[str, list[tuple[str, str]], list[tuple[str, str]], str]
"""The parts of a tokenizer: its JSON, special tokens and chat templates by name, and the defaults of its calls."""


def from_tokenizers(tokenizer: BackendTokenizer) -> Pretrained:
    """Takes a live `tokenizers.Tokenizer`."""
    _refuse_split(tokenizer.encode_special_tokens)
    return Pretrained.from_json(_written(tokenizer), [], [], "{}")


def from_transformers(tokenizer: TransformersTokenizer) -> Pretrained:
    """Takes a live tokenizer of transformers that has a `tokenizers` backend."""
    _refuse_split(splits_special_tokens(tokenizer))
    return Pretrained.from_json(*parts_of(tokenizer))


def splits_special_tokens(tokenizer: TransformersTokenizer) -> bool:
    """True if special tokens in a text are encoded as text."""
    return tokenizer.backend_tokenizer.encode_special_tokens or bool(
        getattr(tokenizer, "split_special_tokens", False)
    )


def parts_of(tokenizer: TransformersTokenizer) -> Parts:
    """The parts of a live tokenizer."""
    special_tokens = [
        (name, content) for name, content in tokenizer.special_tokens_map.items() if isinstance(content, str)
    ]
    templates = tokenizer.chat_template
    if templates is None:
        named = []
    elif isinstance(templates, Mapping):
        named = list(templates.items())
    else:
        named = [("default", templates)]
    return _written(tokenizer.backend_tokenizer), special_tokens, named, live_defaults(tokenizer)


def _refuse_split(splits: bool) -> None:
    """Refuses a live tokenizer whose special tokens in a text are encoded as text."""
    if splits:
        message = (
            "the tokenizer encodes special tokens as text (`encode_special_tokens`, which `transformers` calls "
            "`split_special_tokens`), which fastpack does not; switch it off"
        )
        raise TokenizerError(message)


def _written(backend: BackendTokenizer) -> str:
    """The JSON of a live tokenizer; refuses one that JSON does not fully describe."""
    try:
        return backend.to_str()
    except Exception as refused:  # the crate raises nothing narrower
        message = f"the tokenizer cannot be written as JSON: {refused}; a part of it is Python code"
        raise TokenizerError(message) from refused
