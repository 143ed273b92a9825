"""Live tokenizers of `transformers` and `tokenizers`, and those that `transformers` builds of folders of rare classes."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Final, TypeAlias

from fastpack._fastpack import Encoders, Pretrained
from fastpack.arguments.checks import reason_of
from fastpack.errors import TokenizerError
from fastpack.tokenizer.call import live_defaults
from fastpack.types import BackendTokenizer, TransformersTokenizer

if TYPE_CHECKING:
    from fastpack.types import StrPath

__all__ = ["build", "from_tokenizers", "from_transformers"]

_Parts: TypeAlias = tuple[str, list[tuple[str, str]], list[tuple[str, str]], str]
"""The parts of a tokenizer: its JSON, special tokens and chat templates by name, and the defaults of its calls."""

_MAJOR: Final = "5"
"""The major version of transformers whose tokenizers fastpack takes."""

_PROBES: Final = ("a", "The 2 boats: don't  stop.\n", "Zürich 日本 😀", "<s> x</s> <mask> ", "")
"""Texts of which the class, asked itself, has to make the ids that its engine makes."""

_REMEDY: Final = "pass the bare tokenizer.json, or a live tokenizer"


def from_tokenizers(tokenizer: BackendTokenizer) -> Pretrained:
    """Takes a live `tokenizers.Tokenizer`."""
    _refuse_split(tokenizer.encode_special_tokens)
    return Pretrained.from_json(_written(tokenizer), [], [], "{}")


def from_transformers(tokenizer: TransformersTokenizer) -> Pretrained:
    """Takes a live tokenizer of transformers that has a `tokenizers` backend."""
    _refuse_split(_splits(tokenizer))
    return Pretrained.from_json(*_parts(tokenizer))


def build(folder: StrPath, hub_name: str | None, class_name: str) -> Pretrained:
    """Asks the installed transformers for the tokenizer of a folder whose class fastpack has no rules for.

    Args:
        folder: The model folder.
        hub_name: Its name on the hub, if it was downloaded.
        class_name: The class that `AutoTokenizer` chooses.

    Raises:
        TokenizerError: transformers 5 is not installed, or cannot build it without Python code that makes ids.
    """
    where = f"tokenizer class `{class_name}` of `{hub_name or folder}`"
    built_by = _version(where)
    try:
        from transformers import AutoTokenizer  # noqa: PLC0415  slow to import, and needed for rare classes only

        # The code of a folder runs for nobody who has not asked for it, nor is a question put to a terminal.
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except MemoryError:
        raise
    except Exception as raised:
        message = f"{where} cannot be built by transformers {built_by}: {reason_of(raised)}; {_REMEDY}"
        raise TokenizerError(message) from raised
    if not isinstance(tokenizer, TransformersTokenizer):
        message = f"{where} makes ids by Python code, which fastpack does not run; {_REMEDY}"
        raise TokenizerError(message)
    wanted = _probe_ids(tokenizer)
    pretrained = Pretrained.from_built(folder, hub_name, _parts(tokenizer), _splits(tokenizer), built_by)
    encoders = Encoders(pretrained, "1MB")
    if wanted is not None and wanted != [encoders.encode(text, True).tolist() for text in _PROBES]:
        message = f"{where} changes texts or ids by Python code, which fastpack does not run; {_REMEDY}"
        raise TokenizerError(message)
    return pretrained


def _version(where: str) -> str:
    """The version of transformers, which has to be one that fastpack knows; `where` names the tokenizer."""
    try:
        found = version("transformers")
    except PackageNotFoundError:
        message = f"{where} is for transformers to build, which is not installed: pip install transformers"
        raise TokenizerError(message) from None
    if found.split(".", 1)[0] != _MAJOR:
        message = (
            f"{where} is for transformers {_MAJOR} to build, and {found} is installed: "
            f"pip install 'transformers=={_MAJOR}.*'"
        )
        raise TokenizerError(message)
    return found


def _probe_ids(tokenizer: TransformersTokenizer) -> list[list[int]] | None:
    """The ids that the class makes of the probes; `None` for one that takes boxes or pages with a text.

    Some classes set their template at the first call, so that this comes before their engine is read.
    """
    try:
        return [list(tokenizer(text)["input_ids"]) for text in _PROBES]  # type: ignore[operator]
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001  each class refuses in its own way
        return None


def _splits(tokenizer: TransformersTokenizer) -> bool:
    """True if special tokens in a text are encoded as text."""
    return tokenizer.backend_tokenizer.encode_special_tokens or bool(
        getattr(tokenizer, "split_special_tokens", False)
    )


def _parts(tokenizer: TransformersTokenizer) -> _Parts:
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
