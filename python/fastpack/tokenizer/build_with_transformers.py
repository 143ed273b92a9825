"""`build`: asks an installed `transformers` for the tokenizer of a folder of a rare class."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Final

from fastpack._fastpack import Encoders, Pretrained
from fastpack.arguments.checks import reason_of
from fastpack.errors import TokenizerError
from fastpack.tokenizer.live_tokenizers import parts_of, splits_special_tokens
from fastpack.types import TransformersTokenizer

if TYPE_CHECKING:
    from fastpack.types import StrPath

__all__ = ["build"]

_MAJOR: Final = "5"
"""The major version of transformers whose tokenizers fastpack takes."""

_PROBES: Final = ("a", "The 2 boats: don't  stop.\n", "Zürich 日本 😀", "<s> x</s> <mask> ", "")
"""Texts for which the class and its engine must give the same ids."""

_REMEDY: Final = "pass the bare tokenizer.json, or a live tokenizer"


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
    pretrained = Pretrained.from_built(
        folder, hub_name, parts_of(tokenizer), splits_special_tokens(tokenizer), built_by
    )
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
