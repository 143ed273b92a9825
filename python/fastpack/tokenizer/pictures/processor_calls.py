"""Runs a live processor on pictures that are made here, one call at a time."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar

from fastpack.errors import FastpackError
from fastpack.tokenizer.pictures.loading import refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from PIL.Image import Image
    from torch import Tensor
    from transformers import ProcessorMixin

    from fastpack.types import JsonValue

__all__ = ["ProcessorCalls", "Size", "attempt", "noise"]

_Result = TypeVar("_Result")

_SHAPES_ALONE: Final[dict[str, JsonValue]] = {
    # A tensor of three pixels in width would be called ambiguous, by a warning.
    "input_data_format": "channels_first",
    # Lanczos would be called unfit for such a device, by another.
    "resample": 2,
    "do_rescale": False,
    "do_normalize": False,
}
"""Options with which pictures without pixels take half the time. That they change no text is tried with the rest."""

Size = tuple[int, int]
"""The width and the height of a picture, in pixels."""

_NOISE: Final = 7
"""The seed of the noise: any will do, but the same one each time."""

_PATCHES: Final = 6
"""The number of patches along a side of a picture of noise, few enough to be seen after any resizing."""


def _blank(size: Size) -> Image:
    """A black picture."""
    from PIL import Image  # noqa: PLC0415  a job without pictures does not need it

    return Image.new("RGB", size)


def noise(size: Size) -> Image:
    """A picture of random patches with random pixels in them."""
    import numpy as np  # noqa: PLC0415  importing fastpack is to cost nothing
    from PIL import Image  # noqa: PLC0415

    width, height = size
    random = np.random.default_rng(_NOISE)
    patches = random.integers(0, 256, (_PATCHES, _PATCHES, 3), dtype=np.uint8)
    rows, columns = np.arange(height) * _PATCHES // height, np.arange(width) * _PATCHES // width
    pixels = random.integers(0, 64, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(patches[rows][:, columns] ^ pixels)


def _weightless(size: Size) -> Tensor:
    """A picture with a size and no pixels, on which image processors of torchvision compute shapes alone."""
    import torch  # noqa: PLC0415  only image processors that need it are given one

    width, height = size
    return torch.empty((3, height, width), dtype=torch.uint8, device="meta")


def attempt(work: Callable[[], _Result]) -> _Result | Exception:
    """The result of work with a processor, or the exception by which the processor refuses it, of whatever kind.

    `MemoryError` and what fastpack raises pass unchanged.
    """
    try:
        return work()
    except (FastpackError, MemoryError):
        raise
    except Exception as raised:  # noqa: BLE001  each library below a processor has its own
        return raised


class ProcessorCalls:
    """Calls of a processor with the options of its image part.

    One at a time: a tokenizer of Hugging Face is set up anew by each call, which fails while another thread uses it.
    """

    def __init__(self, processor: ProcessorMixin, options: Mapping[str, JsonValue]) -> None:
        self.processor = processor
        self.options = dict(options)
        self.marker = str(processor.image_token)
        self._lock = Lock()

    def expanded(self, pictures: Sequence[object], **more: JsonValue) -> list[str]:
        """The text in the place of each picture of a conversation, with `more` options.

        Raises whatever the processor raises for pictures that it does not take.
        """
        with self._lock:
            # Nested, as `apply_chat_template` passes the pictures of a conversation: side by side they would be
            # pictures of as many conversations.
            processed = self.processor(
                text=[self.marker * len(pictures)],
                images=[list(pictures)],
                images_kwargs={**self.options, **more},
                return_text_replacement_offsets=True,
            )
        found = processed.get("text_replacement_offsets")
        if not found or [each["text"] for each in found[0]] != [self.marker] * len(pictures):
            fault = "does not tell what it writes for a picture (`text_replacement_offsets`)"
            raise refusal(
                self.processor, fault, "pass a processor that does, with transformers 5.24 or later"
            )
        return [str(each["replacement"]) for each in found[0]]

    def expanded_empty(self, sizes: Sequence[Size], *, weightless: bool) -> list[str] | Exception:
        """The text in the place of each picture of some sizes, of which none has content; or the refusal of them.

        Args:
            sizes: The sizes of the pictures of a conversation.
            weightless: True if pictures without pixels are tried first, which take milliseconds whatever their size.
        """
        if weightless:
            texts = self.expanded_weightless(sizes)
            if not isinstance(texts, Exception):
                return texts
        return attempt(lambda: self.expanded([_blank(size) for size in sizes]))

    def expanded_weightless(self, sizes: Sequence[Size]) -> list[str] | Exception:
        """The text in the place of each of some pictures without pixels, or the refusal of them."""
        return attempt(lambda: self.expanded([_weightless(size) for size in sizes], **_SHAPES_ALONE))

    def counts(self, sizes: Sequence[Size]) -> list[int]:
        """The number of tokens that the processor computes for a picture of each size, without looking at pictures."""
        with self._lock:
            counted = self.processor._get_num_multimodal_tokens(  # noqa: SLF001  transformers offers it to engines by this name
                image_sizes=[(height, width) for width, height in sizes], images_kwargs=self.options
            )
        return [int(count) for count in counted.num_image_tokens]

    def computes_counts(self) -> bool:
        """True if the processor has the method that `counts` calls."""
        return hasattr(self.processor, "_get_num_multimodal_tokens")

    def rendered(self, content: list[dict[str, object]]) -> str:
        """The text of a conversation of one message."""
        with self._lock:
            return str(self.processor.apply_chat_template([{"role": "user", "content": content}]))

    def encoded(self, content: list[dict[str, object]]) -> Mapping[str, object]:
        """The columns of a conversation of one message, pictures included."""
        with self._lock:
            columns: Mapping[str, object] = self.processor.apply_chat_template(
                [{"role": "user", "content": content}],
                tokenize=True,
                return_dict=True,
                processor_kwargs={"images_kwargs": dict(self.options)},
            )
        return columns

    def tokenized(self, text: str, *, special: bool) -> list[int]:
        """The ids of a text, with the special tokens that the tokenizer adds or without."""
        with self._lock:
            ids: list[int] = self.processor.tokenizer(text, add_special_tokens=special)["input_ids"]
        return ids

    def locked(self, work: Callable[[ProcessorMixin], object]) -> object:
        """The result of some other work with the processor."""
        with self._lock:
            return work(self.processor)
