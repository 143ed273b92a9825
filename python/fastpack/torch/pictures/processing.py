"""`PictureProcessing`: the tensors that a processor makes of the pictures of documents, one document at a time."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import torch

from fastpack.arguments.checks import reason_of, shown
from fastpack.errors import OptionError
from fastpack.tokenizer.pictures.loading import load_processor, options_of, refusal
from fastpack.tokenizer.pictures.processor import configuration_of
from fastpack.tokenizer.pictures.processor_calls import attempt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from PIL.Image import Image
    from transformers import ProcessorMixin

    from fastpack.types import JsonValue, StrPath

__all__ = ["PictureProcessing", "Values"]

Values: TypeAlias = "dict[str, torch.Tensor]"
"""The tensors of a processor, by the names of the model's arguments."""

_TRIED: Final = (((60, 40),), ((40, 90), (30, 30)), ((90, 90),))
"""The sizes of pictures in the documents on which joining is tried: one and several, of unlike sizes."""

_SMALL: Final = (16, 32, 64, 224)
"""The sides of small pictures; the one with the fewest tokens is the placeholder."""

_GREY: Final = (127, 127, 127)
"""The colour of a picture without content. SmolVLM takes one whose values are all 0 for none."""


class PictureProcessing:
    """A processor that makes the inputs of a model's vision part.

    Attributes:
        placeholder: The id of the tokens of pictures.
        token_columns: The columns that the processor returns for each token besides ids and mask.
        configuration: The settings that decide the tokens and pixels of a picture.
    """

    placeholder: int
    token_columns: list[str]
    configuration: dict[str, JsonValue]

    def __init__(self, processor: StrPath | ProcessorMixin, options: Mapping[str, object] | None) -> None:
        """Loads a processor, and tries whether its tensors can be joined.

        Raises:
            OptionError: The processor does not serve.
        """
        self.processor = load_processor(processor, revision=None, token=None)
        self._options = options_of(self.processor, options, "processor_kwargs")
        self._marker = str(self.processor.image_token)
        tokenizer = self.processor.tokenizer
        named = getattr(self.processor, "image_token_id", None)
        self.placeholder = tokenizer.convert_tokens_to_ids(self._marker) if named is None else int(named)
        self.configuration = configuration_of(self.processor, self._options)
        text = self.processor(text=["a"], return_tensors="pt")
        self._of_text = set(text)
        usual = {"input_ids", "attention_mask"}
        self.token_columns = [
            name for name in text if name not in usual and text[name].shape == text["input_ids"].shape
        ]
        self._try_joining()

    def of_document(self, pictures: Sequence[Image]) -> tuple[Values, Values]:
        """The tensors of the pictures of one document: those of their pixels, and those of the tokens in their places.

        Raises whatever the processor raises.
        """
        return self._process([list(pictures)])

    def _process(self, documents: list[list[Image]]) -> tuple[Values, Values]:
        processed = self.processor(
            # Nested: side by side, pictures would be those of as many conversations.
            text=[self._marker * len(pictures) for pictures in documents],
            images=documents,
            images_kwargs=self._options,
            return_tensors="pt",
            padding=len(documents) > 1,
        )
        pixels = {name: value for name, value in processed.items() if name not in self._of_text}
        return pixels, {name: processed[name] for name in self._of_text if name in processed}

    def stand_in(self) -> tuple[Values, Values]:
        """A small picture without content as a document of its own: its pixels, and its tokens.

        Raises:
            OptionError: The processor takes no small picture.
        """
        tried = [attempt(partial(self.of_document, [_blank((side, side))])) for side in _SMALL]
        found = [each for each in tried if not isinstance(each, Exception)]
        if not found:
            raise refusal(self.processor, f"takes no picture of {_SMALL[-1]} x {_SMALL[-1]} pixels")
        return min(found, key=lambda each: each[1]["input_ids"].numel())

    def _try_joining(self) -> None:
        """Refuses a processor whose tensors of several documents are not those of each, joined."""
        documents = [[_blank(size) for size in sizes] for sizes in _TRIED]
        try:
            together, _ = self._process(documents)
            alone = [self.of_document(pictures)[0] for pictures in documents]
        except Exception as raised:
            raise refusal(self.processor, f"cannot process pictures: {reason_of(raised)}") from raised
        joined_values = joined(alone)
        for name, value in together.items():
            if not isinstance(value, torch.Tensor):
                fault = f"returns `{name}` as {type(value).__name__}, not as a tensor"
                raise refusal(self.processor, fault)
            if (
                name not in joined_values
                or joined_values[name].shape != value.shape
                or not torch.equal(joined_values[name], value)
            ):
                fault = f"returns `{name}` of several conversations otherwise than of each alone"
                raise refusal(self.processor, fault)

    def check_configuration(self, packed: Mapping[str, JsonValue], where: str) -> None:
        """Refuses rows that were packed with another processor, or with other options of it.

        Raises:
            OptionError: A setting differs; the message names it.
        """
        for name in {**packed, **self.configuration}:
            ours, theirs, setting = self.configuration.get(name), packed.get(name), name
            if ours == theirs:
                continue
            if isinstance(ours, dict) and isinstance(theirs, dict):
                setting = next(key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key))
                ours, theirs = ours.get(setting), theirs.get(setting)
            message = (
                f"has `{setting}` {shown(ours)}, but the rows in {where} were packed with {shown(theirs)}; give the "
                "processor and the options that they were packed with"
            )
            raise OptionError(message, "processor")


def joined(documents: Sequence[Values]) -> Values:
    """The tensors of several documents as one batch: one after the other, with zeros up to the largest."""
    names = dict.fromkeys(name for values in documents for name in values)
    return {name: _joined([values[name] for values in documents if name in values]) for name in names}


def _joined(values: Sequence[torch.Tensor]) -> torch.Tensor:
    shapes = {tuple(value.shape[1:]) for value in values}
    if len(shapes) == 1:
        return torch.cat(list(values))
    largest = [max(sides) for sides in zip(*shapes, strict=True)]
    padded = values[0].new_zeros(sum(map(len, values)), *largest)
    start = 0
    for value in values:
        places = tuple(slice(side) for side in value.shape[1:])
        padded[(slice(start, start + len(value)), *places)] = value
        start += len(value)
    return padded


def _blank(size: tuple[int, int]) -> Image:
    from PIL import Image  # noqa: PLC0415  importing fastpack.torch needs no Pillow

    return Image.new("RGB", size, _GREY)
