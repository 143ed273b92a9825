"""Small processors, tokenizers and chat templates in the shapes of published families that see pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import torch
import transformers
from tokenizers import Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from transformers import PreTrainedTokenizerFast, ProcessorMixin

_TEXTS: Final = [
    "What is in the picture? The boat on the river, and a row of trees behind it.\n\n",
    "user assistant system tool\nUSER: ASSISTANT: User: Assistant:\n\n\n",
    "Here is the original image and here are some crops to help you see better\n\n" * 2,
]
"""The texts of the vocabulary. It has tokens of several line breaks, which merge across the edges of pictures."""


def tokenizer_of(
    special: dict[str, str], *, others: tuple[str, ...] = (), adds_bos: bool = False
) -> PreTrainedTokenizerFast:
    """A small byte-level tokenizer.

    Args:
        special: Special tokens by the names of their attributes.
        others: More special tokens.
        adds_bos: True if it writes `bos_token` before each text, unless told otherwise.
    """
    backend = Tokenizer(BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.train_from_iterator(
        _TEXTS,
        BpeTrainer(
            vocab_size=330,
            special_tokens=[*dict.fromkeys([*special.values(), *others])],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            max_token_length=4,
            show_progress=False,
        ),
    )
    if adds_bos:
        bos = special["bos_token"]
        backend.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, backend.token_to_id(bos))]
        )
    usual = {"bos_token", "eos_token", "pad_token", "unk_token"}
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        extra_special_tokens={name: token for name, token in special.items() if name not in usual},
        **{name: token for name, token in special.items() if name in usual},
    )


_IM_TURNS: Final = """\
{%- for message in messages -%}
{%- set role = 'user' if message.role == 'tool' else message.role -%}
{{- '<|im_start|>' + role + '\n' -}}
{%- if message.role == 'tool' %}{{ '<tool_response>\n' }}{% endif -%}
{%- if message.content is string -%}
{{- message.content -}}
{%- else -%}
{%- for part in message.content -%}
{%- if part.type == 'image' %}{{ 'IMAGE' }}{% elif part.type == 'text' %}{{ part.text }}{% endif -%}
{%- endfor -%}
{%- endif -%}
{%- if message.role == 'tool' %}{{ '\n</tool_response>' }}{% endif -%}
{{- '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif -%}
"""
"""Turns of Qwen and its line; `IMAGE` stands for the family's image token."""

_GEMMA: Final = """\
{{- bos_token -}}
{%- for message in messages -%}
{%- set role = 'model' if message.role == 'assistant' else 'user' -%}
{{- '<start_of_turn>' + role + '\n' -}}
{%- if message.content is string -%}
{{- message.content | trim -}}
{%- else -%}
{%- for part in message.content -%}
{%- if part.type == 'image' %}{{ '<start_of_image>' }}{% elif part.type == 'text' %}{{ part.text | trim }}{% endif -%}
{%- endfor -%}
{%- endif -%}
{{- '<end_of_turn>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif -%}
"""

_LLAVA: Final = """\
{%- for message in messages -%}
{%- set name = 'ASSISTANT' if message.role == 'assistant' else 'USER' -%}
{{- name + ': ' -}}
{%- if message.content is string -%}
{{- message.content -}}
{%- else -%}
{%- for part in message.content if part.type == 'image' %}{{ '<image>\n' }}{% endfor -%}
{%- for part in message.content if part.type == 'text' %}{{ part.text }}{% endfor -%}
{%- endif -%}
{{- eos_token if message.role == 'assistant' else ' ' -}}
{%- endfor -%}
{%- if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif -%}
"""
"""Turns of LLaVA, where the pictures of a message come before its texts."""

_SMOLVLM: Final = """\
{{- '<|im_start|>' -}}
{%- for message in messages -%}
{{- message.role | capitalize -}}
{%- if message.content is string -%}
{{- ': ' + message.content -}}
{%- else -%}
{{- ':' if message.content and message.content[0].type == 'image' else ': ' -}}
{%- for part in message.content -%}
{%- if part.type == 'image' %}{{ '<image>' }}{% elif part.type == 'text' %}{{ part.text }}{% endif -%}
{%- endfor -%}
{%- endif -%}
{{- '<end_of_utterance>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt %}{{ 'Assistant:' }}{% endif -%}
"""

_MISTRAL: Final = """\
{{- bos_token -}}
{%- for message in messages -%}
{%- set closing = eos_token if message.role == 'assistant' else '[/INST]' -%}
{%- if message.role != 'assistant' %}{{ '[INST]' }}{% endif -%}
{%- if message.content is string -%}
{{- message.content -}}
{%- else -%}
{%- for part in message.content -%}
{%- if part.type == 'image' %}{{ '[IMG]' }}{% elif part.type == 'text' %}{{ part.text }}{% endif -%}
{%- endfor -%}
{%- endif -%}
{{- closing -}}
{%- endfor -%}
"""


def _turns(image: str) -> str:
    return _IM_TURNS.replace("IMAGE", image)


_QWEN_TOKENS: Final = {
    "eos_token": "<|im_end|>",
    "pad_token": "<|endoftext|>",
    "image_token": "<|image_pad|>",
    "video_token": "<|video_pad|>",
    "vision_start_token": "<|vision_start|>",
    "vision_end_token": "<|vision_end|>",
}

_QWEN_SIZES: Final = {"shortest_edge": 4 * 28 * 28, "longest_edge": 24 * 28 * 28}


def _qwen2_5_vl() -> ProcessorMixin:
    return transformers.Qwen2_5_VLProcessor(
        transformers.Qwen2VLImageProcessor(size=_QWEN_SIZES),
        tokenizer_of(_QWEN_TOKENS, others=("<|im_start|>",)),
        transformers.Qwen2VLVideoProcessor(),
        chat_template=_turns("<|vision_start|><|image_pad|><|vision_end|>"),
    )


def _qwen3_vl() -> ProcessorMixin:
    return transformers.Qwen3VLProcessor(
        transformers.Qwen2VLImageProcessor(
            patch_size=16, size={"shortest_edge": 4 * 32 * 32, "longest_edge": 24 * 32 * 32}
        ),
        tokenizer_of(_QWEN_TOKENS, others=("<|im_start|>",)),
        transformers.Qwen3VLVideoProcessor(),
        chat_template=_turns("<|vision_start|><|image_pad|><|vision_end|>"),
    )


def _gemma3() -> ProcessorMixin:
    return transformers.Gemma3Processor(
        transformers.Gemma3ImageProcessor(size={"height": 28, "width": 28}),
        tokenizer_of(
            {
                "bos_token": "<bos>",
                "eos_token": "<eos>",
                "pad_token": "<pad>",
                "image_token": "<image_soft_token>",
                "boi_token": "<start_of_image>",
                "eoi_token": "<end_of_image>",
            },
            others=("<start_of_turn>", "<end_of_turn>"),
            adds_bos=True,
        ),
        chat_template=_GEMMA,
        image_seq_length=4,
    )


def _llava() -> ProcessorMixin:
    return transformers.LlavaProcessor(
        transformers.CLIPImageProcessor(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}),
        tokenizer_of(
            {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "image_token": "<image>"},
            adds_bos=True,
        ),
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=_LLAVA,
    )


_PINPOINTS: Final = [[28 * rows, 28 * columns] for rows in range(1, 4) for columns in range(1, 4)]


def _llava_onevision() -> ProcessorMixin:
    return transformers.LlavaOnevisionProcessor(
        transformers.LlavaOnevisionImageProcessor(
            size={"height": 28, "width": 28}, image_grid_pinpoints=_PINPOINTS
        ),
        tokenizer_of(
            {
                "eos_token": "<|im_end|>",
                "pad_token": "<|endoftext|>",
                "image_token": "<image>",
                "video_token": "<video>",
            },
            others=("<|im_start|>",),
        ),
        transformers.LlavaOnevisionVideoProcessor(),
        num_image_tokens=4,
        vision_feature_select_strategy="full",
        chat_template=_turns("<image>\n"),
    )


def _internvl() -> ProcessorMixin:
    return transformers.InternVLProcessor(
        transformers.GotOcr2ImageProcessor(size={"height": 28, "width": 28}, min_patches=1, max_patches=6),
        tokenizer_of(
            {
                "eos_token": "<|im_end|>",
                "pad_token": "<|endoftext|>",
                "start_image_token": "<img>",
                "end_image_token": "</img>",
                "context_image_token": "<IMG_CONTEXT>",
                "video_token": "<video>",
            },
            others=("<|im_start|>",),
        ),
        transformers.InternVLVideoProcessor(),
        image_seq_length=4,
        chat_template=_turns("<IMG_CONTEXT>\n"),
    )


def _smolvlm() -> ProcessorMixin:
    tiles = tuple(f"<row_{row}_col_{column}>" for row in range(1, 5) for column in range(1, 5))
    return transformers.SmolVLMProcessor(
        transformers.SmolVLMImageProcessor(
            size={"longest_edge": 4 * 28}, max_image_size={"longest_edge": 28}, do_image_splitting=True
        ),
        tokenizer_of(
            {
                "bos_token": "<|im_start|>",
                "eos_token": "<end_of_utterance>",
                "pad_token": "<|im_end|>",
                "image_token": "<image>",
                "fake_image_token": "<fake_token_around_image>",
                "global_image_token": "<global-img>",
                "end_of_utterance_token": "<end_of_utterance>",
            },
            others=tiles,
        ),
        transformers.SmolVLMVideoProcessor(
            size={"longest_edge": 28}, max_image_size={"longest_edge": 28}, num_frames=2, fps=1
        ),
        image_seq_len=4,
        chat_template=_SMOLVLM,
    )


def _mistral3() -> ProcessorMixin:
    return transformers.PixtralProcessor(
        transformers.PixtralImageProcessor(size={"longest_edge": 112}, patch_size=14),
        tokenizer_of(
            {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"},
            others=("[IMG]", "[IMG_BREAK]", "[IMG_END]", "[INST]", "[/INST]"),
            adds_bos=True,
        ),
        patch_size=14,
        spatial_merge_size=2,
        chat_template=_MISTRAL,
    )


class Family(NamedTuple):
    """A family of models.

    Attributes:
        make: Makes the processor.
        options: Options of its image part, by the names of the variants that are tested.
    """

    make: Callable[[], ProcessorMixin]
    options: dict[str, dict[str, object]]


FAMILIES: Final = {
    "qwen2_5_vl": Family(_qwen2_5_vl, {"": {}, "limited": {"max_pixels": 6 * 28 * 28}}),
    "qwen3_vl": Family(_qwen3_vl, {"": {}}),
    # The processor's own 256 goes before the 16 of its image processor.
    "gemma3": Family(
        _gemma3, {"": {}, "pan_and_scan": {"do_pan_and_scan": True, "pan_and_scan_min_crop_size": 16}}
    ),
    "llava": Family(_llava, {"": {}}),
    "llava_onevision": Family(_llava_onevision, {"": {}}),
    "internvl": Family(_internvl, {"": {}, "one_patch": {"crop_to_patches": False}}),
    "smolvlm": Family(_smolvlm, {"": {}, "whole": {"do_image_splitting": False}}),
    "mistral3": Family(_mistral3, {"": {}}),
}


def save_processor(name: str, folder: Path) -> Path:
    """Saves the processor of a family into a folder; a second call finds it there."""
    if not (folder / "tokenizer.json").exists():
        FAMILIES[name].make().save_pretrained(folder)
    return folder


_TEXT: Final = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 4096,
    # Far from uniform attention, so that a document that is seen by mistake is noticed.
    "initializer_range": 0.3,
}

_VISION: Final = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "image_size": 28,
    "patch_size": 14,
}


def _text(processor: ProcessorMixin, **settings: object) -> dict[str, object]:
    tokenizer = processor.tokenizer
    return {
        **_TEXT,
        "vocab_size": len(tokenizer),
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        **settings,
    }


def _qwen_ids(processor: ProcessorMixin) -> dict[str, int]:
    return {
        name: processor.tokenizer.convert_tokens_to_ids(_QWEN_TOKENS[name.removesuffix("_id")])
        for name in ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
    }


def _qwen2_5_vl_config(processor: ProcessorMixin) -> transformers.PreTrainedConfig:
    rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]}
    return transformers.Qwen2_5_VLConfig(
        text_config=_text(processor, rope_parameters=rope),
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_heads": 4,
            "out_hidden_size": 32,
            "patch_size": 14,
            "window_size": 56,
            "fullatt_block_indexes": [1],
        },
        **_qwen_ids(processor),
    )


def _qwen3_vl_config(processor: ProcessorMixin) -> transformers.PreTrainedConfig:
    rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}
    return transformers.Qwen3VLConfig(
        text_config=_text(processor, rope_parameters=rope),
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_heads": 4,
            "out_hidden_size": 32,
            "patch_size": 16,
            "num_position_embeddings": 64,
            "deepstack_visual_indexes": [0],
        },
        **_qwen_ids(processor),
    )


def _gemma3_config(processor: ProcessorMixin) -> transformers.PreTrainedConfig:
    tokenizer = processor.tokenizer
    return transformers.Gemma3Config(
        text_config=_text(processor, sliding_window=64),
        vision_config={**_VISION, "model_type": "siglip_vision_model", "vision_use_head": False},
        mm_tokens_per_image=4,
        boi_token_index=tokenizer.boi_token_id,
        eoi_token_index=tokenizer.eoi_token_id,
        image_token_id=tokenizer.image_token_id,
    )


def _llava_config(processor: ProcessorMixin) -> transformers.PreTrainedConfig:
    return transformers.LlavaConfig(
        text_config={**_text(processor), "model_type": "llama"},
        vision_config={**_VISION, "model_type": "clip_vision_model"},
        image_token_id=processor.image_token_id,
        vision_feature_layer=-1,
    )


def _llava_onevision_config(processor: ProcessorMixin) -> transformers.PreTrainedConfig:
    return transformers.LlavaOnevisionConfig(
        text_config={**_text(processor), "model_type": "qwen2"},
        vision_config={**_VISION, "model_type": "siglip_vision_model", "vision_use_head": False},
        image_token_id=processor.image_token_id,
        video_token_id=processor.video_token_id,
        image_grid_pinpoints=_PINPOINTS,
        vision_feature_layer=-1,
    )


def _internvl_config(processor: ProcessorMixin) -> transformers.PreTrainedConfig:
    return transformers.InternVLConfig(
        text_config={**_text(processor), "model_type": "qwen2"},
        vision_config={
            **_VISION,
            "model_type": "internvl_vision",
            "image_size": [28, 28],
            "patch_size": [7, 7],
        },
        image_token_id=processor.image_token_id,
        image_seq_length=4,
        downsample_ratio=0.5,
    )


def _smolvlm_config(processor: ProcessorMixin) -> transformers.PreTrainedConfig:
    return transformers.SmolVLMConfig(
        text_config={**_text(processor), "model_type": "llama"},
        vision_config={**_VISION, "patch_size": 7},
        image_token_id=processor.image_token_id,
        scale_factor=2,
    )


def _mistral3_config(processor: ProcessorMixin) -> transformers.PreTrainedConfig:
    return transformers.Mistral3Config(
        text_config={**_text(processor), "model_type": "mistral"},
        vision_config={**_VISION, "model_type": "pixtral", "image_size": 112, "head_dim": 8},
        image_token_index=processor.image_token_id,
        spatial_merge_size=2,
        vision_feature_layer=-1,
    )


_CONFIGS: Final = {
    "qwen2_5_vl": _qwen2_5_vl_config,
    "qwen3_vl": _qwen3_vl_config,
    "gemma3": _gemma3_config,
    "llava": _llava_config,
    "llava_onevision": _llava_onevision_config,
    "internvl": _internvl_config,
    "smolvlm": _smolvlm_config,
    "mistral3": _mistral3_config,
}


def model_of(name: str, processor: ProcessorMixin, attention: str = "sdpa") -> transformers.PreTrainedModel:
    """A model of a family with random weights, for the ids of its processor."""
    torch.manual_seed(0)
    config = _CONFIGS[name](processor)
    model = transformers.AutoModelForImageTextToText.from_config(config, attn_implementation=attention)
    return model.float().eval()
