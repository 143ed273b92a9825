"""Tries a processor on a few pictures: on what the text in a picture's place depends, and whether it can be computed.

Trials, not lists of names: a processor of tomorrow, or one with other options, is served as it is.
"""

from __future__ import annotations

from enum import Enum
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from fastpack.arguments.checks import reason_of, shown
from fastpack.errors import OptionError
from fastpack.tokenizer.pictures.frame_around_tokens import PictureFrame, frame_of
from fastpack.tokenizer.pictures.loading import refusal
from fastpack.tokenizer.pictures.processor_calls import ProcessorCalls, attempt, noise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastpack.tokenizer.pictures.processor_calls import Size

__all__ = ["PicturesInText", "ReplacementForm", "try_processor"]

_USUAL: Final[tuple[Size, ...]] = (
    (224, 224),
    (640, 480),
    (333, 517),
    (900, 300),
    (290, 1000),
    (1600, 1200),
)
"""Sizes of photographs and screens, and oblong ones that tiles and crops are made for."""

_ODD: Final[tuple[Size, ...]] = (
    (7, 5),
    (1, 1),
    # A picture of this height or width may be taken for one whose channels come first.
    (3, 1),
    (1, 3),
    (40, 3),
    (3, 40),
    # Resized in proportion, these may lose their last pixel; some processors refuse them.
    (1, 150),
    (150, 1),
    (1, 1000),
    (2000, 2),
)
"""Sizes at the edges."""

_SIZES: Final = _USUAL + _ODD

_LARGE: Final[tuple[Size, ...]] = ((10_000, 300), (300, 10_000), (8_000, 1_000), (4_000, 3_000))
"""Sizes that limits of tiles and crops are reached with; tried without noise, which takes long."""

_MORE: Final = 24
"""The number of random sizes, of 1 to 3,000 pixels a side, on which a frame is tried besides."""


class PicturesInText(Enum):
    """The part of the number of pictures in the text of each picture of a conversation."""

    NOTHING = "nothing"
    """The text is the same in any company."""
    SOLE = "sole"
    """A sole picture has another text than one of several."""
    EACH = "each"
    """Each number gives another text."""

    def of(self, pictures: int) -> int:
        """The number that stands for `pictures`: the least one with the same texts."""
        if self is PicturesInText.NOTHING:
            return 1
        return min(pictures, 2) if self is PicturesInText.SOLE else pictures


class ReplacementForm(NamedTuple):
    """The form of a processor's replacements.

    Attributes:
        number: The part that the number of pictures has.
        weightless: True if pictures without pixels do for blank ones.
        frame: The frame of a sole picture's replacement, if it can be computed.
    """

    number: PicturesInText
    weightless: bool
    frame: PictureFrame | None


def try_processor(runs: ProcessorCalls) -> ReplacementForm:
    """Finds the form of a processor's replacements.

    Raises:
        OptionError: They depend on the pixels, or on the other pictures of the conversation.
    """
    sole = {size: _first(attempt(partial(runs.expanded, [noise(size)]))) for size in _SIZES}
    taken = [size for size in _SIZES if sole[size] is not None]
    if not set(_USUAL) & set(taken):
        raise _takes_none(runs)
    # An image processor of torchvision takes pictures without pixels, but perhaps more sizes or fewer.
    weightless = not isinstance(runs.expanded_weightless(_USUAL[:1]), Exception) and all(
        _empty(runs, size, weightless=True) == sole[size] for size in _SIZES
    )
    for size in _SIZES:
        if _empty(runs, size, weightless=False) != sole[size]:
            fault = f"writes other texts for a blank picture of {_named(size)} than for noise"
            raise refusal(runs.processor, fault, _FITTING)
    few = [size for size in _USUAL if size in taken] + [size for size in _ODD if size in taken][:3]
    by_number = {number: _among(runs, few, number, weightless=weightless) for number in (2, 3, 4)}
    if attempt(lambda: runs.expanded([noise(size) for size in few[:3]])) != [
        by_number[3][size] for size in few[:3]
    ]:
        fault = "writes other texts for several blank pictures than for noise"
        raise refusal(runs.processor, fault, _FITTING)
    if any(by_number[number] != by_number[2] for number in (3, 4)):
        return ReplacementForm(PicturesInText.EACH, weightless, None)
    number = (
        PicturesInText.NOTHING
        if all(by_number[2][size] == sole[size] for size in few)
        else PicturesInText.SOLE
    )
    frame = _frame(runs, sole)
    if frame is not None:
        more = {size: _empty(runs, size, weightless=weightless) for size in _more()}
        if _frame(runs, {**sole, **more}) != frame:
            frame = None
    return ReplacementForm(number, weightless, frame)


def _more() -> list[Size]:
    """The sizes on which only the frame is tried."""
    chance = Random(_MORE)  # noqa: S311  the same sizes each time
    return [*_LARGE, *((_side(chance), _side(chance)) for _ in range(_MORE))]


def _side(chance: Random) -> int:
    """A side of a random size: half of all are below 55 pixels."""
    return int(3000 ** chance.random())


_FITTING: Final = "pass a processor whose texts follow from the sizes of the pictures alone"


def _named(size: Size) -> str:
    return f"{size[0]} x {size[1]} pixels"


def _first(texts: list[str] | Exception) -> str | None:
    """The text of a conversation's first picture; `None` if the processor refuses its size."""
    return None if isinstance(texts, Exception) else texts[0]


def _empty(runs: ProcessorCalls, size: Size, *, weightless: bool) -> str | None:
    """The text for a sole picture without content."""
    return _first(runs.expanded_empty([size], weightless=weightless))


def _takes_none(runs: ProcessorCalls) -> OptionError:
    """The error about a processor that takes no picture, or takes none with these options."""
    result = attempt(lambda: runs.expanded([noise(_USUAL[0])]))
    reason = reason_of(result) if isinstance(result, Exception) else "it refuses all sizes"
    if runs.options and _empty(ProcessorCalls(runs.processor, {}), _USUAL[0], weightless=False):
        named = type(runs.processor).__name__
        message = f"`{named}` takes no picture with {shown(runs.options)}: {reason}"
        return OptionError(message, "reading.images.processor_kwargs")
    return refusal(runs.processor, f"takes no picture: {reason}")


def _among(runs: ProcessorCalls, sizes: Sequence[Size], number: int, *, weightless: bool) -> dict[Size, str]:
    """The text for a picture of each size among `number` pictures, whichever they are and wherever it stands."""
    texts: dict[Size, str] = {}
    for first in range(len(sizes)):
        group = [sizes[(first + each) % len(sizes)] for each in range(number)]
        expanded = runs.expanded_empty(group, weightless=weightless)
        if isinstance(expanded, Exception):
            fault = f"takes pictures one by one, but not {number} of them: {reason_of(expanded)}"
            raise refusal(runs.processor, fault, _FITTING) from expanded
        for size, text in zip(group, expanded, strict=True):
            if texts.setdefault(size, text) != text:
                fault = (
                    f"writes other texts for the same picture of {_named(size)} "
                    "among other pictures, or in another place"
                )
                raise refusal(runs.processor, fault, _FITTING)
    return texts


def _frame(runs: ProcessorCalls, texts: Mapping[Size, str | None]) -> PictureFrame | None:
    """The frame of replacements whose tokens the processor can count without a picture."""
    if not runs.computes_counts():
        return None
    results = {size: attempt(partial(runs.counts, [size])) for size in texts}
    counts = {size: None if isinstance(count, Exception) else count[0] for size, count in results.items()}
    return frame_of(texts, counts, [runs.marker, *runs.processor.tokenizer.get_added_vocab()])
