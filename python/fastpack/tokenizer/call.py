"""The result of a tokenizer call: ids, masks and types of texts, truncated and padded as in transformers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from fastpack.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastpack.types import JsonValue, TransformersTokenizer

__all__ = [
    "CallDefaults",
    "Frame",
    "Tensors",
    "TokenizedRow",
    "around",
    "arranged",
    "as_tensors",
    "cut",
    "cut_to",
    "defaults",
    "framed",
    "live_defaults",
    "names_of",
    "padded_to",
]

Tensors: TypeAlias = Literal["np", "pt"]

_NAMES: Final = ("input_ids", "attention_mask")
"""The keys in the result of most tokenizer classes."""

TOKEN_TYPES: Final = "token_type_ids"  # noqa: S105  no password
"""The key of the number of the text that each token of a pair counts to."""

_WITH_TYPES: Final = {"BertTokenizer"}
"""Classes that fastpack builds whose calls return `token_type_ids` too."""

_LEFT: Final = {"CohereTokenizer", "GemmaTokenizer", "LlamaTokenizer"}
"""Classes that fastpack builds that pad on the left."""

_ENDLESS: Final = 10**20
"""A `model_max_length` above this means no limit, as in transformers."""

_SAMPLES: Final = ("a", "1", "the", ".", "b c")
"""Texts for finding special tokens. Every useful tokenizer has ids for at least one of them."""

Frame: TypeAlias = list[tuple["int | None", int, int]]
"""The parts of a row: the text that stands there (0 or 1) or `None`, the id of a token of the tokenizer's own, and the type."""


class TokenizedRow(NamedTuple):
    """The ids of a row, and their types."""

    ids: list[int]
    types: list[int]


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


def names_of(call: str) -> tuple[str, ...]:
    """The keys in the result of a call of a loaded tokenizer; `call` is as in `defaults`."""
    values: dict[str, JsonValue] = json.loads(call)
    listed, name = values.get("model_input_names"), str(values.get("class", ""))
    if isinstance(listed, list):
        return tuple(str(entry) for entry in listed)
    return (*_NAMES, TOKEN_TYPES) if name in _WITH_TYPES else _NAMES


def defaults(call: str) -> CallDefaults:
    """The defaults of a loaded tokenizer; `call` is the JSON of them that the native module keeps."""
    values: dict[str, JsonValue] = json.loads(call)
    name = str(values.get("class", ""))
    names = names_of(call)
    length = values.get("model_max_length")
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
    pairs: bool,
    known: CallDefaults,
) -> int | None:
    """The length to which texts are truncated, by the rules of transformers; `None` if they are not."""
    if max_length is not None and not pads and truncation is None:
        truncation = True
    words = ["longest_first", "only_first", *(["only_second"] if pairs else []), "do_not_truncate"]
    if truncation not in {None, False, True, *words}:
        listed = ", ".join(f"'{word}'" for word in words)
        message = f"must be True, False or one of {listed}, not `{truncation}`"
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
        message = f"must be True, False, 'longest', 'max_length' or 'do_not_pad', not `{padding}`"
        raise OptionError(message, "padding")
    length = known.max_length if max_length is None else max_length
    return False if length is None else length


def around(encode: Callable[[str, bool], list[int]]) -> tuple[list[int], list[int]] | None:
    """The special ids that a tokenizer adds before and after a text; the flag of `encode` turns them on or off.

    `None` if no sample tells them, because its ids occur among the special ones too.
    """
    for text in _SAMPLES:
        bare, framed = encode(text, False), encode(text, True)
        starts = [
            start
            for start in range(len(framed) - len(bare) + 1)
            if bare and framed[start : start + len(bare)] == bare
        ]
        if len(starts) == 1:
            return framed[: starts[0]], framed[starts[0] + len(bare) :]
    return None


def cut(
    texts: list[list[int]], frame: Frame, length: int | None, side: str, truncation: bool | str | None
) -> list[list[int]]:
    """The ids of one text, or of two, truncated so that they have `length` ids with those of the frame."""
    if length is None:
        return texts
    added = sum(text is None for text, _, _ in frame)
    room = length - added
    if room < 0:
        message = f"{length} has no room for the {added} tokens that the tokenizer adds"
        raise OptionError(message, "max_length")
    lengths = [len(ids) for ids in texts]
    surplus = sum(lengths) - room
    if surplus <= 0:
        return texts
    if truncation == "only_second" and len(texts) == 1:
        message = "`only_second` cuts nothing of a text without a pair; pass 'longest_first'"
        raise OptionError(message, "truncation")
    if room == 0 or len(texts) == 1:
        kept = [0] * len(texts) if room == 0 else [room]
    elif truncation in {"only_first", "only_second"}:
        which = 0 if truncation == "only_first" else 1
        kept = list(lengths)
        kept[which] -= surplus
        if kept[which] <= 0:
            message = (
                f"`{truncation}` would leave nothing of that text; pass "
                f"'longest_first', or a `max_length` above {length}"
            )
            raise OptionError(message, "truncation")
    else:
        shorter = min(lengths)
        if shorter <= room - shorter:
            kept = [min(count, room - shorter) for count in lengths]
        else:
            halves = [room // 2, room // 2 + room % 2]
            kept = halves if lengths[0] <= lengths[1] else halves[::-1]
    return [
        ids if len(ids) <= count else ids[len(ids) - count :] if side == "left" else ids[:count]
        for ids, count in zip(texts, kept, strict=True)
    ]


def framed(texts: list[list[int]], frame: Frame) -> TokenizedRow:
    """The ids of one text, or of two, with the tokens around them, and their types."""
    ids: list[int] = []
    types: list[int] = []
    for text, token, kind in frame:
        part = [token] if text is None else texts[text]
        ids += part
        types += [kind] * len(part)
    return TokenizedRow(ids, types)


def arranged(
    rows: list[TokenizedRow], length: Literal[False] | int | None, pad: int, known: CallDefaults
) -> dict[str, list[list[int]]]:
    """The columns of a call: ids, masks and types, padded to a length."""
    if length is None:
        length = max((len(row.ids) for row in rows), default=0)
    columns: dict[str, list[list[int]]] = {
        name: []
        for name in ("input_ids", "token_type_ids", "attention_mask")
        if name in known.names or name == "input_ids"
    }
    for row in rows:
        fill = max(0, length - len(row.ids)) if length is not False else 0
        parts = {
            "input_ids": (row.ids, pad),
            "token_type_ids": (row.types, 0),
            "attention_mask": ([1] * len(row.ids), 0),
        }
        for name, column in columns.items():
            values, filler = parts[name]
            filling = [filler] * fill
            column.append([*filling, *values] if known.padding_side == "left" else [*values, *filling])
    return columns


def as_tensors(columns: dict[str, list[list[int]]], kind: Tensors) -> dict[str, object]:
    """The columns as arrays or tensors of int64."""
    if kind not in {"np", "pt"}:
        message = f"must be 'np' or 'pt', not `{kind}`"
        raise OptionError(message, "return_tensors")
    if any(len({len(row) for row in column}) > 1 for column in columns.values()):
        message = (
            "the texts have different lengths; pass `padding=True`, and `truncation=True` with a `max_length`"
        )
        raise OptionError(message, "return_tensors")
    import numpy as np  # noqa: PLC0415  a job needs none

    arrays = {name: np.array(column, dtype=np.int64) for name, column in columns.items()}
    if kind == "np":
        return dict(arrays)
    import torch  # noqa: PLC0415  only who asks for tensors needs it

    return {name: torch.from_numpy(array) for name, array in arrays.items()}
