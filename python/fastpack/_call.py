"""The result of a tokenizer call: ids, masks and types of texts, truncated and padded as in transformers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from fastpack.errors import OptionError, TokenizerError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastpack._types import JsonValue, TransformersTokenizer

__all__ = [
    "CallDefaults",
    "Tensors",
    "arranged",
    "as_tensors",
    "cut",
    "cut_to",
    "defaults",
    "frame",
    "live_defaults",
    "padded_to",
]

Tensors: TypeAlias = Literal["np", "pt"]

_NAMES: Final = ("input_ids", "attention_mask")
"""The keys in the result of most tokenizer classes."""

_WITH_TYPES: Final = {
    "BertTokenizer",
    "ConvBertTokenizer",
    "DPRContextEncoderTokenizer",
    "DPRContextEncoderTokenizerFast",
    "DPRQuestionEncoderTokenizer",
    "DPRQuestionEncoderTokenizerFast",
    "DebertaTokenizer",
    "DebertaV2Tokenizer",
    "LayoutLMv2Tokenizer",
    "MarkupLMTokenizer",
}
"""Classes whose calls return `token_type_ids` too."""

_LEFT: Final = {
    "CodeLlamaTokenizer",
    "CohereTokenizer",
    "GemmaTokenizer",
    "LlamaTokenizer",
    "Siglip2Tokenizer",
    "XLNetTokenizer",
}
"""Classes that pad on the left."""

_LENGTHS: Final = {"LayoutLMv2Tokenizer": 512, "Tipsv2Tokenizer": 64}
"""Classes with a fixed maximum length, in tokens."""

_ENDLESS: Final = 10**20
"""A `model_max_length` above this means no limit, as in transformers."""

_SAMPLES: Final = ("a", "1", "the", ".", "b c")
"""Texts for finding special tokens. Every useful tokenizer has ids for at least one of them."""


class CallDefaults(NamedTuple):
    """The settings of a tokenizer that decide the result of a call.

    Attributes:
        names: The keys of the result.
        padding_side: The side on which rows are padded, `left` or `right`.
        truncation_side: The side on which texts are truncated.
        max_length: The most tokens of a text, if the model has a limit.
    """

    names: tuple[str, ...]
    padding_side: str
    truncation_side: str
    max_length: int | None


def defaults(call: str) -> CallDefaults:
    """The defaults of a loaded tokenizer; `call` is the JSON of them that the native module keeps."""
    values: dict[str, JsonValue] = json.loads(call)
    name = str(values.get("class", ""))
    names: tuple[str, ...] = _NAMES
    if name in _WITH_TYPES:
        names = (*_NAMES, "token_type_ids")
    elif name == "FNetTokenizer":
        names = ("input_ids", "token_type_ids")
    listed = values.get("model_input_names")
    if isinstance(listed, list):
        names = tuple(str(entry) for entry in listed)
    length = values.get("model_max_length")
    if length is None:
        length = _LENGTHS.get(name)
    if name == "XLNetTokenizer" and "token_type_ids" in names:
        message = (
            "the folder asks for `token_type_ids` (`model_input_names`), which `XLNetTokenizer` has of three kinds, and "
            "fastpack gives none of these; leave them out"
        )
        raise TokenizerError(message)
    bounded = isinstance(length, (int, float)) and length <= _ENDLESS
    return CallDefaults(
        names,
        str(values.get("padding_side") or ("left" if name in _LEFT else "right")),
        str(values.get("truncation_side") or "right"),
        int(length) if bounded else None,  # type: ignore[arg-type]
    )


def live_defaults(tokenizer: TransformersTokenizer) -> str:
    """The defaults of a live tokenizer, as JSON for the native module to keep."""
    names = ("model_input_names", "model_max_length", "padding_side", "truncation_side")
    values = {name: getattr(tokenizer, name, None) for name in names}
    return json.dumps({"class": type(tokenizer).__name__, **values})


def cut_to(
    truncation: bool | str | None,
    max_length: int | None,
    *,
    pads: bool,
    known: CallDefaults,
) -> int | None:
    """The length to which texts are truncated, by the rules of transformers; `None` if they are not."""
    if max_length is not None and not pads and truncation is None:
        truncation = True
    if truncation not in {None, False, True, "longest_first", "only_first", "do_not_truncate"}:
        message = (
            "invalid option `truncation`: must be True, False, 'longest_first', 'only_first' or "
            f"'do_not_truncate', not `{truncation}`"
        )
        raise OptionError(message, "truncation")
    if truncation in {None, False, "do_not_truncate"}:
        return None
    return known.max_length if max_length is None else max_length


def padded_to(
    padding: bool | str, max_length: int | None, known: CallDefaults
) -> Literal[False] | int | None:
    """The length to which rows are padded: `None` for the length of the longest, `False` for no padding."""
    if padding is False or padding == "do_not_pad":
        return False
    if padding is True or padding == "longest":
        return None
    if padding != "max_length":
        message = (
            "invalid option `padding`: must be True, False, 'longest', 'max_length' or 'do_not_pad', "
            f"not `{padding}`"
        )
        raise OptionError(message, "padding")
    length = known.max_length if max_length is None else max_length
    return False if length is None else length


def frame(encode: Callable[[str, bool], list[int]]) -> tuple[list[int], list[int]]:
    """The special ids that a tokenizer adds before and after a text; the flag of `encode` turns them on or off."""
    framed: list[int] = []
    for text in _SAMPLES:
        bare, framed = encode(text, False), encode(text, True)
        for start in range(len(framed) - len(bare) + 1):
            if bare and framed[start : start + len(bare)] == bare:
                return framed[:start], framed[start + len(bare) :]
    return framed, []


def cut(ids: list[int], around: tuple[list[int], list[int]], length: int | None, side: str) -> list[int]:
    """The ids of a text between the special ids `around` it, truncated to `length` in all."""
    before, behind = around
    if length is not None:
        room = length - len(before) - len(behind)
        if room < 0:
            message = (
                f"invalid option `max_length`: {length} has no room for the "
                f"{len(before) + len(behind)} tokens that the tokenizer adds"
            )
            raise OptionError(message, "max_length")
        if len(ids) > room:
            ids = ids[len(ids) - room :] if side == "left" else ids[:room]
    return [*before, *ids, *behind]


def arranged(
    rows: list[list[int]], length: Literal[False] | int | None, pad: int, known: CallDefaults
) -> dict[str, list[list[int]]]:
    """The columns of a call: ids, masks and types, padded to a length."""
    if length is None:
        length = max(map(len, rows), default=0)
    columns: dict[str, list[list[int]]] = {
        name: [] for name in ("input_ids", "token_type_ids", "attention_mask") if name in known.names
    }
    for row in rows:
        fill = max(0, length - len(row)) if length is not False else 0
        parts = {
            "input_ids": (row, pad),
            "token_type_ids": ([0] * len(row), 0),
            "attention_mask": ([1] * len(row), 0),
        }
        for name, column in columns.items():
            values, filler = parts[name]
            filling = [filler] * fill
            column.append([*filling, *values] if known.padding_side == "left" else [*values, *filling])
    return columns


def as_tensors(columns: dict[str, list[list[int]]], kind: Tensors) -> dict[str, object]:
    """The columns as arrays or tensors of int64."""
    if kind not in {"np", "pt"}:
        message = f"invalid option `return_tensors`: must be 'np' or 'pt', not `{kind}`"
        raise OptionError(message, "return_tensors")
    if any(len({len(row) for row in column}) > 1 for column in columns.values()):
        message = (
            "invalid option `return_tensors`: the texts have different lengths; pass `padding=True`, and "
            "`truncation=True` with a `max_length`"
        )
        raise OptionError(message, "return_tensors")
    arrays = {name: np.array(column, dtype=np.int64) for name, column in columns.items()}
    if kind == "np":
        return dict(arrays)
    import torch  # noqa: PLC0415  only who asks for tensors needs it

    return {name: torch.from_numpy(array) for name, array in arrays.items()}
