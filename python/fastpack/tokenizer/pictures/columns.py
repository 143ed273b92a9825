"""Encodes whole conversations with a processor: compares its ids with its tokenizer's, and finds the types of tokens."""

from __future__ import annotations

from itertools import chain, takewhile
from typing import TYPE_CHECKING, Final, NamedTuple

from fastpack.arguments.checks import reason_of
from fastpack.tokenizer.pictures.loading import refusal
from fastpack.tokenizer.pictures.processor_calls import attempt, noise

if TYPE_CHECKING:
    from collections.abc import Mapping

    from transformers import ProcessorMixin

    from fastpack.tokenizer.pictures.processor_calls import ProcessorCalls, Size

__all__ = ["EncodedConversation", "adds_special_tokens", "delimiters", "token_types", "try_conversations"]

_KNOWN: Final = frozenset({"input_ids", "attention_mask"})
"""The columns that fastpack makes itself."""

_CONVERSATIONS: Final[tuple[tuple[Size | str, ...], ...]] = (
    ("a text alone",),
    ("first", (640, 480), "\n\nand then"),
    ((224, 224), (900, 300), "\n\nafter both\n", (333, 517)),
)
"""The parts of conversations: texts, and pictures of a size."""


_TEMPLATE: Final = 'give it a template that writes the image token once for each part `{"type": "image"}`'
"""The remedy for a chat template without pictures."""


class EncodedConversation(NamedTuple):
    """A conversation as the processor encodes it.

    Attributes:
        text: The rendered text with its markers replaced.
        ids: The ids.
        columns: All columns.
    """

    text: str
    ids: list[int]
    columns: Mapping[str, object]


def try_conversations(runs: ProcessorCalls) -> list[EncodedConversation]:
    """Encodes conversations without a picture, with one, and with several.

    Raises:
        OptionError: The template writes something else than one marker for each picture.
    """
    return [_trial(runs, parts) for parts in _CONVERSATIONS]


def delimiters(runs: ProcessorCalls) -> tuple[str, str]:
    """The texts that the template writes before and behind the marker of each picture, and nowhere without one."""
    first, last = (dict[str, object](type="text", text=letter) for letter in "AB")
    picture = dict[str, object](type="image", image=noise((64, 64)))
    one, two = (runs.rendered([first, *[picture] * count, last]) for count in (1, 2))
    [before, behind] = one.split(runs.marker)
    _, between, _ = two.split(runs.marker)
    opening = _shared(between[::-1], before[::-1])[::-1]
    return opening, _shared(between[: len(between) - len(opening)], behind)


def _shared(one: str, other: str) -> str:
    """The text that both begin with."""
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return "".join(character for character, _ in alike)


def adds_special_tokens(runs: ProcessorCalls, trials: list[EncodedConversation]) -> bool:
    """True if the tokenizer's special tokens are added to a text that does not begin with `bos_token`.

    Raises:
        OptionError: The ids of a conversation are not those that the tokenizer has for its text.
    """
    bos = runs.processor.tokenizer.bos_token
    for adds in (True, False):
        if all(
            trial.ids == runs.tokenized(trial.text, special=adds and not (bos and trial.text.startswith(bos)))
            for trial in trials
        ):
            return adds
    fault = "tokenizes a conversation otherwise than its tokenizer does"
    raise refusal(runs.processor, fault, "pass a processor without such settings of its text part")


def _trial(runs: ProcessorCalls, parts: tuple[Size | str, ...]) -> EncodedConversation:
    sizes = [part for part in parts if not isinstance(part, str)]
    content: list[dict[str, object]] = [
        {"type": "text", "text": part} if isinstance(part, str) else {"type": "image", "image": noise(part)}
        for part in parts
    ]
    text = attempt(lambda: runs.rendered(content))
    if isinstance(text, Exception):
        raise refusal(runs.processor, f"cannot render a conversation: {reason_of(text)}", _TEMPLATE) from text
    written = text.count(runs.marker)
    if written != len(sizes):
        fault = (
            f"renders {len(sizes)} pictures by a chat template that writes `{runs.marker}` {written} times"
        )
        raise refusal(runs.processor, fault, _TEMPLATE)
    columns = attempt(lambda: runs.encoded(content))
    if isinstance(columns, Exception):
        fault = f"cannot process a conversation of {len(sizes)} pictures: {reason_of(columns)}"
        raise refusal(runs.processor, fault) from columns
    replaced = runs.expanded([noise(size) for size in sizes]) if sizes else []
    pieces = text.split(runs.marker)
    expanded = pieces[0] + "".join(chain.from_iterable(zip(replaced, pieces[1:], strict=True)))
    return EncodedConversation(expanded, _listed(columns["input_ids"])[0], columns)


def token_types(runs: ProcessorCalls, trials: list[EncodedConversation]) -> dict[str, dict[int, int]]:
    """The columns that a processor returns for each token besides ids and mask: the type of each id that has one.

    Raises:
        OptionError: A column is no function of the id alone.
    """
    names = dict.fromkeys(name for trial in trials for name in trial.columns if name not in _KNOWN)
    return {name: _types(runs, name, trials) for name in names if _is_for_each_token(name, trials)}


def _is_for_each_token(name: str, trials: list[EncodedConversation]) -> bool:
    """True if a column has the length of each conversation that has the column."""
    shapes = [(_shape(each.columns[name]), len(each.ids)) for each in trials if name in each.columns]
    return all(shape[:2] == (1, length) for shape, length in shapes)


def _types(runs: ProcessorCalls, name: str, trials: list[EncodedConversation]) -> dict[int, int]:
    found: dict[int, int] = {}
    for _, ids, columns in trials:
        if name not in columns:
            continue
        if len(_shape(columns[name])) != 2:  # noqa: PLR2004  one conversation, its tokens
            fault = f"returns more than one number for each token in `{name}`"
            raise refusal(runs.processor, fault)
        for token, kind in zip(ids, _listed(columns[name])[0], strict=True):
            if found.setdefault(token, kind) != kind:
                fault = f"returns `{name}`, which is no function of the token's id alone"
                raise refusal(runs.processor, fault)
    declared = runs.locked(_declared)
    if isinstance(declared, dict) and all(declared.get(token, 0) == kind for token, kind in found.items()):
        # Of ids, too, that no trial has shown, such as the marks of further tiles.
        return declared
    return {token: kind for token, kind in found.items() if kind}


def _declared(processor: ProcessorMixin) -> dict[int, int] | None:
    """The modality of each id that is no text's, as the processor declares it."""
    ids = list(range(len(processor.tokenizer)))
    try:
        kinds = processor.create_mm_token_type_ids([ids])[0]
    except Exception:  # noqa: BLE001  a processor of old has no such method, or another one
        return None
    return {token: int(kind) for token, kind in zip(ids, kinds, strict=True) if kind}


def _shape(value: object) -> tuple[int, ...]:
    """The shape of an array, or of nested lists."""
    shape = getattr(value, "shape", None)
    if shape is not None:
        return tuple(int(each) for each in shape)
    if not isinstance(value, (list, tuple)):
        return ()
    return (len(value), *(_shape(value[0]) if value else ()))


def _listed(value: object) -> list[list[int]]:
    """An array of two dimensions, or nested lists, as lists."""
    listed: list[list[int]] = value.tolist() if hasattr(value, "tolist") else value  # type: ignore[assignment]
    return listed
