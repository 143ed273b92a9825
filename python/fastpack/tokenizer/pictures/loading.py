"""Reads the arguments for a processor: a model's folder, a name on the hub or a live processor, and its options."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from fastpack.arguments.checks import check_type, nearest, path_of, reason_of, shown
from fastpack.errors import OptionError
from fastpack.tokenizer.arguments import check_access, hub_name, refuse_revision
from fastpack.tokenizer.hub import download_processor

if TYPE_CHECKING:
    from transformers import ProcessorMixin

    from fastpack.types import JsonValue, StrPath

__all__ = ["load_processor", "options_of", "refusal"]

_WANTED: Final = "pass the folder of a model that sees pictures, or its live `AutoProcessor`"


def refusal(processor: object, fault: str, remedy: str = _WANTED) -> OptionError:
    """The error about a processor that cannot be used; it names the processor's class."""
    return OptionError(f"`{type(processor).__name__}` {fault}; {remedy}", "tokenizer")


def load_processor(
    model: StrPath | ProcessorMixin, *, revision: str | None, token: str | bool | None
) -> ProcessorMixin:
    """Loads the processor of an argument, and refuses one that lacks a part that pictures need."""
    check_access(revision, token)
    if isinstance(model, (str, os.PathLike)):
        processor = _from_path(model, revision=revision, token=token)
    else:
        refuse_revision(revision, "a processor that is loaded already")
        processor = model
    if getattr(processor, "image_processor", None) is None:
        raise refusal(processor, "has no image processor")
    if getattr(processor, "tokenizer", None) is None:
        raise refusal(processor, "has no tokenizer")
    if not getattr(processor, "image_token", None):
        raise refusal(processor, "has no `image_token` that stands for a picture in its texts")
    return processor


def _from_path(name: StrPath, *, revision: str | None, token: str | bool | None) -> ProcessorMixin:
    try:
        import PIL  # noqa: F401, PLC0415  a job without pictures needs neither
        from transformers import AutoProcessor  # noqa: PLC0415
    except ImportError as missing:
        message = f"conversations with pictures need `{missing.name}`: pip install 'fastpack-train[vision]'"
        raise OptionError(message, "tokenizer") from None
    folder: StrPath = os.path.expanduser(path_of("tokenizer", name, "a model's folder or a name on the hub"))
    if not folder:
        message = f"must name a folder or a model on the hub; {_WANTED}"
        raise OptionError(message, "tokenizer")
    if os.path.exists(folder):
        refuse_revision(revision, f"`{shown(name)}`, which is on this disk")
        if not os.path.isdir(folder):
            message = f"`{shown(name)}` is a file, which has no processor of pictures; {_WANTED}"
            raise OptionError(message, "tokenizer")
    else:
        folder = download_processor(hub_name(name), revision=revision, token=token)
    try:
        # The code of a folder runs for nobody who has not asked for it, nor is a question put to a terminal.
        return AutoProcessor.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except MemoryError:
        raise
    except Exception as raised:
        message = f"the processor of `{shown(name)}` cannot be loaded: {reason_of(raised)}; {_WANTED}"
        raise OptionError(message, "tokenizer") from raised


def options_of(
    processor: ProcessorMixin, options: Mapping[str, object] | None, option: str
) -> dict[str, JsonValue]:
    """The options of a processor's image part; refuses those that it does not know, and values that JSON has not.

    Args:
        processor: The live processor.
        options: The options, if any are given.
        option: The argument that they were given as, for messages.
    """
    if options is None:
        return {}
    check_type(option, options, Mapping, "a mapping of options of the image processor")
    known = _known_options(processor)
    for name in options:
        if name not in known:
            near = nearest(str(name), known)
            remedy = f"did you mean `{near}`?" if near else f"it knows {', '.join(sorted(known))}"
            named = type(processor.image_processor).__name__
            message = f"`{shown(name)}` is no option of `{named}`; {remedy}"
            raise OptionError(message, option)
    try:
        kept: dict[str, JsonValue] = json.loads(json.dumps(dict(options), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as refused:
        message = f"must have values that JSON can write, for the manifest: {reason_of(refused)}"
        raise OptionError(message, option) from refused
    return kept


def _known_options(processor: ProcessorMixin) -> set[str]:
    """The names that transformers takes for the image part of a call."""
    declared = [
        getattr(processor.image_processor, "valid_kwargs", None),
        getattr(getattr(processor, "valid_processor_kwargs", None), "__annotations__", {}).get(
            "images_kwargs"
        ),
    ]
    return {name for each in declared for name in getattr(each, "__annotations__", {})}
