"""A replacement that is a fixed frame around a computed number of one token."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fastpack.tokenizer.pictures.processor_calls import Size

__all__ = ["PictureFrame", "frame_of"]


class PictureFrame(NamedTuple):
    """The text in the place of a picture, but for how often its token is repeated.

    Attributes:
        before: The text before the first token.
        token: The token that is repeated.
        after: The text after the last one.
        surplus: The tokens in the text beyond the computed number; negative where that number counts the frame too.
    """

    before: str
    token: str
    after: str
    surplus: int

    def text(self, count: int) -> str | None:
        """The text for a computed number of tokens; `None` for a number that leaves no token, which nothing has shown."""
        repeats = count + self.surplus
        return f"{self.before}{self.token * repeats}{self.after}" if repeats > 0 else None


def frame_of(
    texts: Mapping[Size, str | None], counts: Mapping[Size, int | None], tokens: Iterable[str]
) -> PictureFrame | None:
    """The frame in which `counts` gives the `texts` of all sizes; `None` if there is none.

    Args:
        texts: The text for a picture of each size, `None` for a size that the processor refuses.
        counts: The computed number of tokens for each size, `None` for one that is refused.
        tokens: The tokens that may be repeated.
    """
    if any((texts[size] is None) != (counts[size] is None) for size in texts):
        return None
    known = [(text, counts[size] or 0) for size, text in texts.items() if text is not None]
    text, count = max(known, key=lambda each: len(each[0]), default=("", 0))
    frames = [_frame(text, count, token) for token in tokens if token and token in text]
    # The token that is repeated most comes first.
    frames.sort(key=lambda frame: frame.surplus, reverse=True)
    return next(
        (frame for frame in frames if all(frame.text(each) == wanted for wanted, each in known)), None
    )


def _frame(text: str, count: int, token: str) -> PictureFrame:
    """The frame of a text around the longest run of a token."""
    longest = max(re.finditer(f"(?:{re.escape(token)})+", text), key=lambda found: len(found.group()))
    repeats = len(longest.group()) // len(token)
    return PictureFrame(text[: longest.start()], token, text[longest.end() :], repeats - count)
