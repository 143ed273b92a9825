"""`PictureProcessor` writes, from the sizes of pictures alone, the texts whose ids a live processor makes of the pictures."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from picture_models import FAMILIES, save_processor
from picture_records import messages_of, write
from PIL import Image
from places import ROOT

import fastpack
from fastpack.errors import FastpackError, InputNotFoundError, OptionError, TokenizerError
from fastpack.tokenizer.pictures import PictureError, PictureProcessor
from fastpack.tokenizer.pictures.processor_trials import try_processor

if TYPE_CHECKING:
    import torch

TOKENIZER = ROOT / "examples" / "tokenizer"

VARIANTS = [(name, variant) for name, family in FAMILIES.items() for variant in family.options]


@cache
def loaded(name, variant=""):
    return PictureProcessor.load(FAMILIES[name].make(), FAMILIES[name].options[variant])


def noise(size, seed=0):
    width, height = size
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def conversation(parts):
    """One message of the user, with a text for each `str` and a picture of noise for each size."""
    content = [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {"type": "image", "image": noise(part, seed)}
        for seed, part in enumerate(parts)
    ]
    return [{"role": "user", "content": content}]


def by_processor(pictures, messages):
    return pictures.processor.apply_chat_template(
        messages, tokenize=True, return_dict=True, processor_kwargs={"images_kwargs": pictures.options}
    )


def by_sizes(pictures, messages):
    """The ids of a conversation, without a look into its pictures."""
    text = pictures.processor.apply_chat_template(messages)
    sizes = [part["image"].size for each in messages for part in each["content"] if part["type"] == "image"]
    begun, *pieces = text.split(pictures.marker)
    texts = [pictures.replacement(*size, len(sizes)) for size in sizes]
    expanded = begun + "".join(made + piece for made, piece in zip(texts, pieces, strict=True))
    bos = pictures.tokenizer.bos_token
    special = pictures.adds_special_tokens and not (bos and expanded.startswith(bos))
    return pictures.tokenizer(expanded, add_special_tokens=special)["input_ids"]


def as_lists(value):
    return value.tolist() if hasattr(value, "tolist") else value


def assert_equal(pictures, messages):
    """Checks ids and token types, or that both ways refuse a picture."""
    try:
        expected = by_processor(pictures, messages)
    except Exception:
        with pytest.raises(PictureError, match="takes no picture of"):
            by_sizes(pictures, messages)
        return
    ids = by_sizes(pictures, messages)
    assert ids == as_lists(expected["input_ids"])[0]
    columns = {name for name in expected if name.endswith("token_type_ids")}
    assert set(pictures.token_types) == columns
    for name, types in pictures.token_types.items():
        assert [types.get(token, 0) for token in ids] == as_lists(expected[name])[0]


SIDES = st.one_of(st.integers(1, 8), st.integers(1, 400))
PICTURES = st.one_of(
    st.tuples(SIDES, SIDES),
    st.tuples(st.just(1), st.integers(1, 900)),
    st.tuples(st.integers(1, 900), st.just(1)),
)
TEXTS = st.sampled_from(["\n\n", "\n", " ", "the boat", "a row of trees\n", "é", "\n\n\nx"])


@st.composite
def part_lists(draw):
    """Parts of a message: up to four pictures among texts."""
    parts = draw(st.lists(PICTURES, max_size=4)) + draw(st.lists(TEXTS, min_size=1, max_size=3))
    return draw(st.permutations(parts))


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_ids_and_token_types_equal_the_processors(name, variant):
    pictures = loaded(name, variant)

    @settings(max_examples=8)
    @given(part_lists())
    def law(parts):
        assert_equal(pictures, conversation(parts))

    law()


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
@pytest.mark.parametrize("size", [(1, 1), (1, 190), (1, 3000), (3000, 1), (3, 5), (5, 3), (2000, 1500)])
def test_odd_sizes_are_expanded_or_refused_as_by_the_processor(name, variant, size):
    assert_equal(loaded(name, variant), conversation([size, "\n\n"]))


@pytest.mark.parametrize("name", FAMILIES)
def test_pictures_of_several_turns_count_as_those_of_one_conversation(name):
    turns = [*conversation(["\n", (90, 40)]), *conversation(["ok"]), *conversation([(40, 90), (33, 1), "x"])]
    turns[1]["role"] = "assistant"
    assert_equal(loaded(name), turns)


def test_a_processor_of_pillow_alone_is_served():
    processor = FAMILIES["gemma3"].make()
    processor.image_processor = transformers.Gemma3ImageProcessorPil(size={"height": 28, "width": 28})
    pictures = PictureProcessor.load(processor, FAMILIES["gemma3"].options["pan_and_scan"])
    for parts in ([(300, 40), "x"], ["x", (40, 3), (3, 40), (1, 1)]):
        assert_equal(pictures, conversation(parts))


@pytest.mark.parametrize("name", ["qwen2_5_vl", "qwen3_vl", "gemma3", "llava", "llava_onevision", "internvl"])
def test_a_sole_picture_of_most_families_is_counted_and_not_processed(name):
    """The other two write other tokens between those of a picture: SmolVLM its tiles, Mistral its rows."""
    processor = FAMILIES[name].make()
    pictures = PictureProcessor.load(processor, {})
    expected = loaded(name).replacement(123, 77, 1)
    processor.image_processor = _Closed(processor.image_processor)
    assert pictures.replacement(123, 77, 1) == expected


class _Closed:
    """An image processor that processes nothing more."""

    def __init__(self, image_processor):
        self._image_processor = image_processor

    def __getattr__(self, name):
        return getattr(self._image_processor, name)

    def __call__(self, *_, **__):
        raise AssertionError


def test_onevision_tiles_only_the_sole_picture_of_a_conversation():
    pictures = loaded("llava_onevision")
    sole, pair, three = (pictures.replacement(200, 90, number).count("<image>") for number in (1, 2, 3))
    assert sole > pair == three == 5


def test_pan_and_scan_adds_crops():
    plain, scanned = (loaded("gemma3", variant).replacement(200, 50, 1) for variant in ("", "pan_and_scan"))
    assert plain.count("<start_of_image>") == 1
    assert scanned.count("<start_of_image>") == 5


def test_several_sizes_at_once_give_the_same_texts_and_the_errors():
    pictures = PictureProcessor.load(FAMILIES["qwen2_5_vl"].make(), {})
    sizes = [(100, 50), (1, 900), (60, 60), (100, 50)]
    made = pictures.replacements(sizes, 2)
    assert [made[index] for index in (0, 2, 3)] == [
        loaded("qwen2_5_vl").replacement(*sizes[index], 2) for index in (0, 2, 3)
    ]
    assert isinstance(made[1], PictureError)
    assert "1 x 900 pixels" in str(made[1])


@pytest.mark.parametrize("name", ["qwen2_5_vl", "smolvlm"])
def test_threads_get_the_texts_that_one_thread_gets(name):
    sizes = [(width, height) for width in range(20, 60, 9) for height in (11, 50)] * 2
    fresh = PictureProcessor.load(FAMILIES[name].make(), {})
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda size: fresh.replacement(*size, 1), sizes))
    assert made == [loaded(name).replacement(*size, 1) for size in sizes]


@pytest.mark.parametrize("size", [(0, 5), (5, -1), (100_000, 100_000)])
@pytest.mark.parametrize("name", ["llava", "smolvlm"])
def test_a_size_that_no_picture_of_pillow_has_is_refused(name, size):
    with pytest.raises(PictureError, match=f"takes no picture of {size[0]} x {size[1]} pixels"):
        loaded(name).replacement(*size, 1)


def test_a_folder_gives_what_the_live_processor_gives(tmp_path):
    saved = PictureProcessor.load(save_processor("gemma3", tmp_path / "model"), {"do_pan_and_scan": True})
    live = PictureProcessor.load(FAMILIES["gemma3"].make(), {"do_pan_and_scan": True})
    assert saved.chat_template == live.chat_template == (tmp_path / "model/chat_template.jinja").read_text()
    assert saved.marker == live.marker == "<start_of_image>"
    assert saved.token_types == live.token_types
    assert saved.configuration == live.configuration
    assert saved.fingerprint == live.fingerprint
    assert json.loads(json.dumps(saved.configuration)) == saved.configuration


def test_the_fingerprint_differs_by_options_and_settings():
    processor = FAMILIES["qwen2_5_vl"].make()
    processor.image_processor.image_mean = [0.5, 0.5, 0.5]
    fingerprints = {
        loaded("qwen2_5_vl").fingerprint,
        loaded("qwen2_5_vl", "limited").fingerprint,
        PictureProcessor.load(processor, {}).fingerprint,
    }
    assert len(fingerprints) == 3


def test_the_template_named_default_is_the_one_of_several():
    processor = FAMILIES["llava"].make()
    template = processor.chat_template
    processor.chat_template = {"tools": "no", "default": template}
    assert PictureProcessor.load(processor, None).chat_template == template
    processor.chat_template = {"tools": "no", "other": template}
    refused(processor, "tokenizer", "`tools`, `other`, and none named `default`")


def test_a_processor_that_adds_no_special_tokens_says_so():
    processor = FAMILIES["llava"].make()
    assert loaded("llava").adds_special_tokens
    processor.text_kwargs = {"add_special_tokens": False}
    pictures = PictureProcessor.load(processor, None)
    assert not pictures.adds_special_tokens
    assert_equal(pictures, conversation([(50, 60), "x"]))


def test_a_live_processor_is_tried_once_a_call_and_again_in_the_next(tmp_path, monkeypatch):
    tried = []

    def counted(runs):
        tried.append(runs)
        return try_processor(runs)

    monkeypatch.setattr("fastpack.tokenizer.pictures.processor.try_processor", counted)
    path = write(tmp_path, [{"messages": messages_of([([(60, 40), "a boat"], "ok")], tmp_path)}])
    processor = FAMILIES["qwen2_5_vl"].make()
    images = fastpack.Images()
    options = {"reading": fastpack.Reading(images=images), "progress": False, "max_length": 512}
    calls = [
        lambda: fastpack.pack_files(path, processor, **options),
        lambda: fastpack.pack_dir(path, tmp_path / "rows", tokenizer=processor, **options),
        lambda: fastpack.pack_records(map(json.loads, path.open()), processor, **options),
        lambda: fastpack.scan(path, processor, **{**options, "max_length": [256, 512]}),
        lambda: list(fastpack.stream(path, processor, **options, epochs=1)),
    ]
    for number, call in enumerate(calls, 1):
        call()
        assert len(tried) == number
    [few] = fastpack.pack_files(path, processor, **options).to_pylist()
    processor.image_processor.size = {"shortest_edge": 64 * 28 * 28, "longest_edge": 99 * 28 * 28}
    [many] = fastpack.pack_files(path, processor, **options).to_pylist()
    assert len(many["input_ids"]) > len(few["input_ids"])


def refused(model, option, said, options=None, **access):
    """Checks that a processor is refused by one bounded line."""
    with pytest.raises(OptionError) as raised:
        PictureProcessor.load(model, options, **access)
    assert raised.value.option == option
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 600


def test_a_model_without_pictures_is_refused():
    refused(TOKENIZER, "tokenizer", "has no image processor; pass the folder of a model that sees pictures")
    refused(5, "tokenizer", "`int` has no image processor")


def test_a_place_without_a_processor_is_refused(tmp_path):
    refused(TOKENIZER / "tokenizer.json", "tokenizer", "is a file, which has no processor of pictures")
    refused(tmp_path, "tokenizer", "cannot be loaded")
    refused("", "tokenizer", "must name a folder or a model on the hub")
    with pytest.raises(InputNotFoundError, match="no/such/folder"):
        PictureProcessor.load("no/such/folder", None)
    with pytest.raises(TokenizerError, match="is a URL"):
        PictureProcessor.load("https://huggingface.co/some/model", None)


def test_a_name_on_the_hub_is_fetched_with_its_processor(tmp_path, monkeypatch):
    asked = []

    def download(name, **given):
        asked.append((name, given))
        return save_processor("llava", tmp_path / "model")

    monkeypatch.setattr("fastpack.tokenizer.pictures.loading.download_processor", download)
    pictures = PictureProcessor.load("some/model", None, revision="v1", token="secret")
    assert asked == [("some/model", {"revision": "v1", "token": "secret"})]
    assert pictures.fingerprint == loaded("llava").fingerprint


def test_a_revision_of_what_has_none_is_refused(tmp_path):
    folder = save_processor("llava", tmp_path / "model")
    refused(folder, "revision", "which is on this disk", revision="main")
    refused(FAMILIES["llava"].make(), "revision", "loaded already", revision="main")


def test_a_processor_that_lacks_a_part_is_refused():
    processor = FAMILIES["llava"].make()
    processor.image_token = None
    refused(processor, "tokenizer", "has no `image_token`")
    processor = FAMILIES["llava"].make()
    processor.tokenizer.chat_template, processor.chat_template = processor.chat_template, None
    refused(processor, "tokenizer", "has no chat template, its tokenizer alone has one")


def test_a_template_without_pictures_is_refused():
    processor = FAMILIES["llava"].make()
    processor.chat_template = "{% for message in messages %}{{ message.role }}{% endfor %}"
    refused(processor, "tokenizer", "writes `<image>` 0 times; give it a template")
    processor.chat_template = "{{ raise_exception('never') }}"
    refused(processor, "tokenizer", "cannot render a conversation: never")


def test_options_that_the_image_processor_does_not_take_are_refused():
    processor = FAMILIES["qwen2_5_vl"].make()
    refused(processor, "reading.images.processor_kwargs", "did you mean `max_pixels`?", {"max_pixel": 5})
    refused(
        processor,
        "reading.images.processor_kwargs",
        "`'colour'` is no option of `Qwen2VLImageProcessor`",
        {"colour": 5},
    )
    refused(
        processor,
        "reading.images.processor_kwargs",
        "takes no picture with {'max_pixels': 'many'}",
        {"max_pixels": "many"},
    )
    refused(
        processor,
        "reading.images.processor_kwargs",
        "must have values that JSON can write",
        {"max_pixels": object()},
    )
    refused(processor, "reading.images.processor_kwargs", "must be a mapping", [("max_pixels", 5)])


class Shown(NamedTuple):
    """A picture among others: its pixels, its place, and the number of pictures."""

    pixels: torch.Tensor
    place: int
    number: int


class _Changed(transformers.LlavaProcessor):
    """A processor whose texts follow a rule."""

    def replace_image_token(self, image_inputs, image_idx, **_):
        pixels = image_inputs["pixel_values"]
        shown = Shown(pixels[image_idx], image_idx, len(pixels))
        return self.image_token * (4 + int(self.rule(shown)))


def changed(rule):
    base = FAMILIES["llava"].make()
    kind = type("Changed", (_Changed,), {"rule": staticmethod(rule)})
    return kind(
        base.image_processor,
        base.tokenizer,
        patch_size=14,
        vision_feature_select_strategy="default",
        chat_template=base.chat_template,
    )


def test_a_processor_whose_texts_depend_on_pixels_is_refused():
    processor = changed(lambda shown: shown.pixels.std() > 0.5)
    refused(processor, "tokenizer", "writes other texts for a blank picture of")


def test_a_processor_whose_texts_depend_on_pixels_of_several_pictures_is_refused():
    processor = changed(lambda shown: shown.number > 1 and shown.pixels.std() > 0.5)
    refused(processor, "tokenizer", "writes other texts for several blank pictures than for noise")


def test_a_processor_whose_texts_depend_on_the_place_is_refused():
    processor = changed(lambda shown: shown.place)
    refused(processor, "tokenizer", "among other pictures, or in another place")


def test_a_number_of_pictures_that_matters_is_kept():
    pictures = PictureProcessor.load(changed(lambda shown: shown.number), None)
    assert [pictures.replacement(30, 40, number).count("<image>") for number in (1, 2, 5)] == [5, 6, 9]


def test_a_processor_that_takes_no_picture_is_refused():
    processor = changed(lambda shown: shown.number / 0)
    refused(processor, "tokenizer", "`Changed` takes no picture: division by zero")


class _Silent(transformers.LlavaProcessor):
    """A processor that does not tell its replacements."""

    def __call__(self, *given, return_text_replacement_offsets=False, **named):
        return super().__call__(*given, **named)


def test_a_processor_that_does_not_tell_its_texts_is_refused():
    processor = FAMILIES["llava"].make()
    processor.__class__ = _Silent
    refused(processor, "tokenizer", "does not tell what it writes for a picture (`text_replacement_offsets`)")


class _Typed(transformers.LlavaProcessor):
    """A processor with one more column: whether a token is in the first half, or two numbers for each token."""

    numbers = 1

    def __call__(self, *given, **named):
        made = super().__call__(*given, **named)
        length = len(made["input_ids"][0])
        halves = [int(2 * index < length) for index in range(length)]
        made["halves"] = [halves if self.numbers == 1 else [[half] * self.numbers for half in halves]]
        return made


def test_a_column_that_is_no_function_of_the_id_is_refused():
    processor = FAMILIES["llava"].make()
    processor.__class__ = _Typed
    refused(processor, "tokenizer", "returns `halves`, which is no function of the token's id alone")
    processor.numbers = 2
    refused(processor, "tokenizer", "returns more than one number for each token in `halves`")


class _Upper(transformers.LlavaProcessor):
    """A processor that changes the text before it tokenizes."""

    def get_text_with_replacements(self, text, *given, **named):
        return super().get_text_with_replacements(
            [each.replace("first", "last") for each in text], *given, **named
        )


def test_a_processor_that_tokenizes_another_text_is_refused():
    processor = FAMILIES["llava"].make()
    processor.__class__ = _Upper
    refused(processor, "tokenizer", "tokenizes a conversation otherwise than its tokenizer does")


def test_the_error_about_a_picture_is_one_of_fastpack():
    with pytest.raises(FastpackError) as raised:
        loaded("qwen2_5_vl").replacement(1, 201, 1)
    assert isinstance(raised.value, ValueError)
    assert raised.value.reason == (
        "`Qwen2_5_VLProcessor` takes no picture of 1 x 201 pixels: "
        "absolute aspect ratio must be smaller than 200, got 201.0"
    )
