"""`PictureProcessor`: the text in the place of a picture, and the types of its tokens, as a live processor makes them."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final

from fastpack.arguments.checks import reason_of
from fastpack.errors import FastpackError
from fastpack.tokenizer.pictures.columns import (
    adds_special_tokens,
    delimiters,
    token_types,
    try_conversations,
)
from fastpack.tokenizer.pictures.loading import load_processor, options_of, refusal
from fastpack.tokenizer.pictures.processor_calls import ProcessorCalls, attempt
from fastpack.tokenizer.pictures.processor_trials import PicturesInText, try_processor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from transformers import PreTrainedTokenizerFast, ProcessorMixin

    from fastpack.tokenizer.pictures.processor_calls import Size
    from fastpack.types import JsonValue, StrPath

__all__ = ["PictureError", "PictureProcessor", "configuration_of"]

_NO_SETTINGS: Final = frozenset(
    {
        "_name_or_path",
        "auto_map",
        "feature_extractor_type",
        "image_processor_type",
        "name_or_path",
        "processor_class",
        "transformers_version",
    }
)
"""Keys of a configuration that change no number: where it came from, and which version wrote it."""

_MOST_CHARACTERS: Final = 1 << 25
"""The most characters of the texts that are kept."""


class PictureError(FastpackError, ValueError):
    """The processor takes no picture of this size.

    Attributes:
        reason: Its size, and why.
    """

    def __init__(self, reason: str) -> None:
        """Keeps the reason."""
        super().__init__(reason)
        (self.reason,) = self.args


class PictureProcessor:
    """A live processor, asked for no more than the sizes of pictures.

    Its methods may be called from several threads.

    Attributes:
        processor: The live processor.
        options: The options of its image part.
        marker: The image token, which the chat template writes once for each picture and the processor replaces.
        delimiters: The texts that the template writes before and behind the marker of each picture.
        chat_template: The template that `processor.apply_chat_template` renders with.
        adds_special_tokens: True if a rendered text, of a conversation without pictures too, gets the special tokens of
            the tokenizer; one that begins with `bos_token` never does.
        token_types: The columns that the processor returns for each token besides ids and mask, by their names: the
            type of each id that has another one than 0.
        configuration: The settings that decide the tokens and pixels of a picture, as JSON.
        fingerprint: A digest of them.
    """

    processor: ProcessorMixin
    options: dict[str, JsonValue]
    marker: str
    delimiters: tuple[str, str]
    chat_template: str
    adds_special_tokens: bool
    token_types: dict[str, dict[int, int]]
    configuration: dict[str, JsonValue]
    fingerprint: str

    def __init__(self, processor: ProcessorMixin, options: Mapping[str, object] | None) -> None:
        """Tries a loaded processor; `load` takes a folder too."""
        self.processor = processor
        self.options = options_of(processor, options, "reading.images.processor_kwargs")
        self.chat_template = _template_of(processor)
        self._runs = ProcessorCalls(processor, self.options)
        self.marker = self._runs.marker
        findings = try_processor(self._runs)
        self._number, self._frame = findings.number, findings.frame
        self._weightless = findings.weightless
        self.depends_on_number = findings.number is not PicturesInText.NOTHING
        trials = try_conversations(self._runs)
        self.delimiters = delimiters(self._runs)
        self.adds_special_tokens = adds_special_tokens(self._runs, trials)
        self.token_types = token_types(self._runs, trials)
        self.configuration = configuration_of(processor, self.options)
        written = json.dumps(self.configuration, sort_keys=True, separators=(",", ":"))
        self.fingerprint = hashlib.sha256(written.encode()).hexdigest()
        self._texts: dict[tuple[int, int, int], str] = {}
        # One copy of each text: many sizes share one, of thousands of tokens.
        self._shared: dict[str, str] = {}

    @classmethod
    def load(
        cls,
        model: StrPath | ProcessorMixin,
        options: Mapping[str, object] | None,
        revision: str | None = None,
        token: str | bool | None = None,
    ) -> PictureProcessor:
        """Loads a processor, and tries whether the sizes of pictures tell their tokens.

        Args:
            model: A model's folder, its name on the hub, or a live processor.
            options: Options of the processor's image part, such as `max_pixels` or `do_pan_and_scan`.
            revision: A branch, tag or commit on the hub.
            token: An access token of the hub, `True` for the stored one, `False` for none.

        Raises:
            OptionError: The processor lacks a part that pictures need, does not know an option, or depends on more
                than the sizes of pictures.
            InputNotFoundError: There is no such folder or name.
        """
        return cls(load_processor(model, revision=revision, token=token), options)

    @property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        """The live tokenizer."""
        return self.processor.tokenizer

    def replacement(self, width: int, height: int, pictures: int) -> str:
        """The text in the place of the marker.

        Args:
            width: The picture's width in pixels, after its turn.
            height: Its height.
            pictures: The number of pictures in the conversation.

        Raises:
            PictureError: The processor takes no picture of this size.
        """
        number = self._number.of(pictures)
        key = (width, height, number)
        text = self._texts.get(key)
        if text is None:
            written = self._computed([(width, height)], number)[0] or self._processed((width, height), number)
            text = self._texts[key] = self._shared.setdefault(written, written)
        return text

    def replacements(self, sizes: Sequence[Size], pictures: int) -> list[str | PictureError]:
        """The texts of pictures of several sizes: `replacement` of each, or the error that it raises.

        Where texts are computed, a hundred sizes take little longer than one.
        """
        number = self._number.of(pictures)
        if sum(map(len, self._shared)) > _MOST_CHARACTERS:
            self._texts, self._shared = {}, {}
        missing = [size for size in dict.fromkeys(sizes) if (*size, number) not in self._texts]
        for size, text in zip(missing, self._computed(missing, number), strict=True):
            if text is not None:
                self._texts[(*size, number)] = self._shared.setdefault(text, text)
        return [self._text_or_error(size, pictures) for size in sizes]

    def _text_or_error(self, size: Size, pictures: int) -> str | PictureError:
        try:
            return self.replacement(*size, pictures)
        except PictureError as refused:
            return refused

    def _computed(self, sizes: Sequence[Size], number: int) -> list[str | None]:
        """The texts that follow from computed numbers of tokens; `None` for all if they cannot be computed together."""
        frame = self._frame
        if frame is None or number > 1 or not sizes or any(map(_fault, sizes)):
            return [None] * len(sizes)
        counts = attempt(lambda: self._runs.counts(sizes))
        if isinstance(counts, Exception):  # of which size, and why, a picture tells
            return [None] * len(sizes)
        return [frame.text(count) for count in counts]

    def _processed(self, size: Size, number: int) -> str:
        """The text that the processor writes for a picture without content."""
        reason = _fault(size)
        result = (
            PictureError(reason)
            if reason
            else self._runs.expanded_empty([size] * number, weightless=self._weightless)
        )
        if isinstance(result, list):
            return result[0]
        named = type(self.processor).__name__
        message = f"`{named}` takes no picture of {size[0]} x {size[1]} pixels: {reason_of(result)}"
        raise PictureError(message) from result


def _fault(size: Size) -> str | None:
    """The reason why Pillow opens no picture of a size, whatever the processor."""
    from PIL import Image  # noqa: PLC0415  a job without pictures does not need it

    width, height = size
    if width < 1 or height < 1:
        return "it has no pixels"
    limit = Image.MAX_IMAGE_PIXELS
    if limit is not None and width * height > 2 * limit:
        return f"Pillow opens pictures of at most {2 * limit} pixels"
    return None


def _template_of(processor: ProcessorMixin) -> str:
    """The template that `apply_chat_template` renders with; refuses a processor that has none."""
    template = getattr(processor, "chat_template", None)
    if isinstance(template, dict):
        named, template = template, template.get("default")
        if template is None:
            fault = f"has chat templates {', '.join(f'`{name}`' for name in named)}, and none named `default`"
            raise refusal(processor, fault, "name one of them so")
    if template is None:
        held = getattr(processor.tokenizer, "chat_template", None) is not None
        fault = "has no chat template" + (", its tokenizer alone has one" if held else "")
        raise refusal(processor, fault, "give it one (`processor.chat_template`) that writes the image token")
    return str(template)


def configuration_of(processor: ProcessorMixin, options: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """The settings of a processor but for its tokenizer, its template and its other media."""
    parts = {"tokenizer", "image_processor", "video_processor", "feature_extractor", "audio_processor"}
    settings: dict[str, JsonValue] = json.loads(processor.to_json_string())
    image: dict[str, JsonValue] = json.loads(processor.image_processor.to_json_string())
    return {
        "processor": type(processor).__name__,
        "settings": {
            name: value for name, value in settings.items() if name not in parts and name not in _NO_SETTINGS
        },
        "image_processor": type(processor.image_processor).__name__,
        "image_settings": {name: value for name, value in image.items() if name not in _NO_SETTINGS},
        "options": options,
    }
