"""Reads the arguments for a tokenizer and a chat template."""

from __future__ import annotations

import errno
import json
import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from fastpack._fastpack import Pretrained
from fastpack.arguments.checks import check_choice, check_type, path_of, shown
from fastpack.arguments.failures import about
from fastpack.arguments.urls import is_url
from fastpack.errors import InputNotFoundError, OptionError, TokenizerError
from fastpack.tokenizer.build_with_transformers import build
from fastpack.tokenizer.hub import cached_tokenizer, download_tokenizer
from fastpack.tokenizer.live_tokenizers import from_tokenizers, from_transformers
from fastpack.tokenizer.render_process import command
from fastpack.types import BackendTokenizer, StrPath, TemplateEngine, TransformersTokenizer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastpack.types import JsonValue

__all__ = [
    "NativeTemplate",
    "TokenizerArgument",
    "check_access",
    "choose_template",
    "hub_name",
    "load",
    "recorded_tokenizer",
    "refuse_revision",
]

NativeTemplate: TypeAlias = "tuple[tuple[str, str] | None, Mapping[str, JsonValue] | None, list[str] | None]"
"""A template's name and text, its variables, and the command of the process that renders templates the core refuses."""

TokenizerArgument: TypeAlias = StrPath | BackendTokenizer | TransformersTokenizer | Pretrained

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
"""`organisation/name` or a bare name; anything else can only be a path."""

_NO_REVISION: Final = re.compile(r"[\s:?*\[\\~^]")
"""A character that no branch and no tag has."""

_DATA: Final = (".jsonl", ".csv", ".tsv", ".txt", ".md", ".parquet", ".arrow", ".gz", ".zst", ".bz2", ".xz")
"""Suffixes of files that are records, never tokenizers."""

_LOOKED_AT: Final = 1 << 16
"""The bytes of a file that are read to tell records from a tokenizer."""

_JINJA = re.compile(r"\{\{|\{%|\{#|\n")
"""Characters that occur in the text of a template, and not in a path or a name."""


def check_access(revision: str | None, token: str | bool | None) -> None:
    """Refuses an invalid `revision` or `token`."""
    check_type("revision", revision, (str, type(None)), "a branch, a tag or a commit")
    if revision is not None and _NO_REVISION.search(revision):
        message = f"must be a branch, a tag or a commit, not `{shown(revision)}`"
        raise OptionError(message, "revision")
    check_type("token", token, (str, bool, type(None)), "an access token, True, or False", secret=True)


def load(tokenizer: TokenizerArgument, *, revision: str | None, token: str | bool | None) -> Pretrained:
    """Loads the tokenizer of an argument; a loaded one is returned unchanged."""
    check_access(revision, token)
    if not isinstance(tokenizer, (str, os.PathLike)):
        refuse_revision(revision, "a tokenizer that is loaded already")
    if isinstance(tokenizer, Pretrained):
        return tokenizer
    if isinstance(tokenizer, (str, os.PathLike)):
        try:
            return _from_path(tokenizer, revision=revision, token=token)
        except TokenizerError as refused:
            # The core names the file in the folder.
            named = str(tokenizer)
            if named in str(refused):
                raise
            message = f"{named}: {refused}"
            raise TokenizerError(message) from refused
    if isinstance(tokenizer, TransformersTokenizer):
        return from_transformers(tokenizer)
    inner = getattr(tokenizer, "tokenizer", None)
    if isinstance(inner, TransformersTokenizer):  # a processor
        return from_transformers(inner)
    if isinstance(tokenizer, BackendTokenizer):
        return from_tokenizers(tokenizer)
    message = (
        f"a `{type(tokenizer).__module__}.{type(tokenizer).__qualname__}` is no tokenizer that fastpack "
        "can use; it takes a folder, a `tokenizer.json`, a hub name, a `tokenizers.Tokenizer`, or a "
        "`transformers` tokenizer with a `tokenizers` backend"
    )
    raise TokenizerError(message)


def recorded_tokenizer(name: str) -> StrPath | None:
    """The place of the tokenizer that a file names: on this disk, or in the hub's cache; `None` if it is in neither.

    A folder may be from others, so that nothing is fetched for a name that it holds.
    """
    if os.path.exists(os.path.expanduser(name)):
        return name
    return cached_tokenizer(name) if _HUB_NAME.fullmatch(name) else None


def _from_path(name: StrPath, *, revision: str | None, token: str | bool | None) -> Pretrained:
    written = path_of("tokenizer", name, "a folder, a tokenizer.json or a name on the hub")
    if not written:
        message = "must name a folder, a tokenizer.json or a name on the hub"
        raise OptionError(message, "tokenizer")
    path = os.path.expanduser(written)
    if os.path.exists(path):
        refuse_revision(revision, f"`{shown(written)}`, which is on this disk")
    if os.path.isdir(path):  # unlike Path.is_dir, false for what is too long to be a path
        _check_mistral(path)
        return _from_folder(path, None)
    if os.path.exists(path):
        _refuse_records(path)
        return Pretrained.from_file(path)
    hub = hub_name(name)
    return _from_folder(download_tokenizer(hub, revision=revision, token=token), hub)


def _from_folder(folder: StrPath, hub_name: str | None) -> Pretrained:
    read = Pretrained.from_dir(folder, hub_name)
    return build(folder, hub_name, read) if isinstance(read, str) else read


def hub_name(name: StrPath) -> str:
    """The name on the hub of a model that is not on this disk; refuses a text that can be none."""
    written = os.fspath(name)
    if isinstance(name, str) and _HUB_NAME.fullmatch(name):
        return name
    if is_url(written):
        message = f"`{shown(written)}` is a URL; a tokenizer is a model's folder, a tokenizer.json or a name on the hub"
        raise TokenizerError(message)
    raise InputNotFoundError(errno.ENOENT, "no such tokenizer file or folder", written)


def refuse_revision(revision: str | None, place: str) -> None:
    """Refuses a revision of a tokenizer that has none: it would be ignored."""
    if revision is not None:
        message = f"names a version on the hub, and means nothing for {place}; leave it out"
        raise OptionError(message, "revision")


def _check_mistral(folder: str) -> None:
    """Refuses a folder that transformers would load with mistral-common, if that is installed."""
    if os.path.isfile(f"{folder}/tekken.json") and find_spec("mistral_common") is not None:
        message = (
            "`MistralCommonBackend` is no class that fastpack can use: the folder has a `tekken.json`, which "
            "transformers prefers where mistral-common is installed; pass the bare tokenizer.json, or a live tokenizer"
        )
        raise TokenizerError(message)


def _refuse_records(path: str) -> None:
    """Refuses a file of records in place of a tokenizer: the arguments were swapped."""
    if not os.path.isfile(path):
        return  # which the core says better
    with about(path, "cannot be read"), Path(path).open("rb") as file:
        begin = file.read(_LOOKED_AT)
    first = begin.lstrip()
    is_data = path.endswith(_DATA) or begin[:6] in {b"PAR1", b"ARROW1"} or not first.startswith(b"{")
    if not is_data:
        line = first.split(b"\n", 1)[0]
        try:
            is_data = isinstance(json.loads(line), dict) and b'"model"' not in first
        except (ValueError, RecursionError):
            is_data = False
    if is_data:
        message = (
            f"`{path}` holds records, not a tokenizer: the files come first, then the tokenizer, as in "
            "`pack_files(files, tokenizer, ...)`; a tokenizer is a model's folder, a tokenizer.json, or a hub name"
        )
        raise TokenizerError(message)


def choose_template(
    chat_template: StrPath | None,
    tokenizer: Pretrained | None,
    *,
    kwargs: Mapping[str, JsonValue] | None,
    engine: TemplateEngine,
) -> NativeTemplate:
    """The chat template in the form that the native module takes."""
    check_choice("chat_template.engine", engine, TemplateEngine)
    return _template(chat_template, tokenizer), kwargs, command() if engine == "python" else None


def _template(chat_template: StrPath | None, tokenizer: Pretrained | None) -> tuple[str, str] | None:
    """The name and text of the template in `chat_template`; `None` for the tokenizer's own.

    As in `transformers`, the name of one of the tokenizer's templates comes first.
    """
    if chat_template is None:
        return None
    wanted = "a Jinja text, a file, or the name of one of the tokenizer's templates"
    written = path_of("chat_template", chat_template, wanted)
    named = dict(tokenizer.chat_templates) if tokenizer else {}
    if written in named:
        return written, named[written]
    if _JINJA.search(written):
        return "chat_template", written
    path = os.path.expanduser(written)
    if os.path.isfile(path):  # unlike Path.is_file, false for a text too long to be a path
        try:
            return os.path.basename(path), Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as refused:
            message = f"`{written}` cannot be read: {refused}"
            raise OptionError(message, "chat_template") from refused
    known = ", ".join(f"`{name}`" for name in named) or "none"
    message = (
        f"`{shown(written)}` is no Jinja text, no file, and no template of the tokenizer (it has {known})"
    )
    raise OptionError(message, "chat_template")
