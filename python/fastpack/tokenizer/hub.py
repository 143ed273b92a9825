"""Tokenizers and processors by their name on the Hugging Face hub, through `huggingface_hub`."""

from __future__ import annotations

import errno
from pathlib import Path

from fastpack.errors import InputNotFoundError, TokenizerError
from fastpack.storage.hub_errors import hub_errors_as

__all__ = ["cached_tokenizer", "download_processor", "download_tokenizer"]

_TOKENIZER_FILES = (
    "added_tokens.json",
    "additional_chat_templates/*.jinja",
    "chat_template.jinja",
    "chat_template.json",
    "config.json",
    "generation_config.json",
    "merges.txt",
    "sentencepiece.bpe.model",
    "sentencepiece.model",
    "special_tokens_map.json",
    "spiece.model",
    "spm.model",
    "tekken.json",
    "tiktoken.model",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
)
"""The files that `AutoTokenizer` reads; weights are not downloaded."""

_PROCESSOR_FILES = (
    *_TOKENIZER_FILES,
    "preprocessor_config.json",
    "processor_config.json",
    "video_preprocessor_config.json",
)
"""The files that `AutoProcessor` reads."""


def download_tokenizer(name: str, *, revision: str | None, token: str | bool | None) -> Path:
    """Fetches the tokenizer files of `name` into the hub's cache, or finds them there.

    Args:
        name: `organisation/name`, or a bare name.
        revision: A branch, tag or commit.
        token: An access token, `True` for the stored one, `False` for none.

    Returns:
        The folder that holds them.

    Raises:
        InputNotFoundError: The hub has no such name, or cannot be reached and the cache does not have it.
        TokenizerError: `huggingface_hub` is not installed.
    """
    return _download(name, _TOKENIZER_FILES, revision=revision, token=token)


def download_processor(name: str, *, revision: str | None, token: str | bool | None) -> Path:
    """Fetches the files of a model's processor, as `download_tokenizer` does those of its tokenizer."""
    return _download(name, _PROCESSOR_FILES, revision=revision, token=token)


def _download(name: str, files: tuple[str, ...], *, revision: str | None, token: str | bool | None) -> Path:
    try:
        import huggingface_hub  # noqa: PLC0415  slow to import, and needed for hub names only
    except ImportError:
        message = (
            f"`{name}` is no file or folder here, and looking it up on the hub needs the package "
            "`huggingface_hub`"
        )
        raise TokenizerError(message) from None

    def refusal(said: str) -> InputNotFoundError:
        reason = f"no file or folder here, and not to be had from the hub ({said})"
        return InputNotFoundError(errno.ENOENT, reason, name)

    with hub_errors_as(refusal):
        folder = huggingface_hub.snapshot_download(
            name, revision=revision, token=token, allow_patterns=list(files)
        )
    return Path(folder)


def cached_tokenizer(name: str) -> Path | None:
    """The folder of `name` in the hub's cache; `None` if it is not there. Nothing is asked of the network."""
    try:
        import huggingface_hub  # noqa: PLC0415  slow to import, and needed for hub names only

        folder = huggingface_hub.snapshot_download(
            name, token=False, local_files_only=True, allow_patterns=list(_TOKENIZER_FILES)
        )
    except (ImportError, OSError, ValueError):
        return None
    return Path(folder)
