"""Makes what the scripts beside it need: pictures of one colour, questions about them, and a small model with its processor."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import transformers
from PIL import Image

if TYPE_CHECKING:
    from transformers import PreTrainedModel, ProcessorMixin

TOKENIZER = Path(__file__).parents[1] / "tokenizer"
COLOURS = ("red", "green", "blue", "white")
MARKS = {
    "image_token": "<|image_pad|>",
    "video_token": "<|video_pad|>",
    "vision_start_token": "<|vision_start|>",
    "vision_end_token": "<|vision_end|>",
}
TEMPLATE = """\
{%- for message in messages -%}
{{- '<|start|>' + message.role + '\n' -}}
{%- if message.content is string -%}
{{- message.content -}}
{%- else -%}
{%- for part in message.content -%}
{{- '<|vision_start|><|image_pad|><|vision_end|>' if part.type == 'image' else part.text -}}
{%- endfor -%}
{%- endif -%}
{{- '<|end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<|start|>assistant\n' }}{% endif -%}
"""


def conversations(folder: Path) -> Path:
    """Writes pictures, and a file of conversations that names them; a third of them show none."""
    lines = []
    for number, (colour, side) in enumerate(product(COLOURS, (28, 56, 84))):
        Image.new("RGB", (side, 56), colour).save(folder / f"{number}.png")
        question = [
            {"type": "image", "path": f"{number}.png"},
            {"type": "text", "text": "Which colour is it?"},
        ]
        lines.append(
            [{"role": "user", "content": question}, {"role": "assistant", "content": f"It is {colour}."}]
        )
        if number % 2:
            greeting = {"role": "user", "content": f"Say {colour}."}
            lines.append([greeting, {"role": "assistant", "content": f"{colour.title()}."}])
    path = folder / "conversations.jsonl"
    path.write_text("".join(json.dumps({"messages": each}) + "\n" for each in lines), encoding="utf-8")
    return path


def small_model(folder: Path) -> tuple[ProcessorMixin, PreTrainedModel]:
    """A small Qwen2.5-VL with random weights, and its processor, which is saved to the folder too."""
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(TOKENIZER / "tokenizer.json"),
        eos_token="<|end|>",  # noqa: S106  a token of text
        pad_token="<|endoftext|>",  # noqa: S106  likewise
        extra_special_tokens=MARKS,
    )
    processor = transformers.Qwen2_5_VLProcessor(
        transformers.Qwen2VLImageProcessor(size={"shortest_edge": 56 * 56, "longest_edge": 112 * 112}),
        tokenizer,
        transformers.Qwen2VLVideoProcessor(),
        chat_template=TEMPLATE,
    )
    processor.save_pretrained(folder)
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_hidden_layers": 2}
    rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}
    vision = {"depth": 2, "hidden_size": 64, "intermediate_size": 128, "num_heads": 4, "out_hidden_size": 64}
    torch.manual_seed(0)
    config = transformers.Qwen2_5_VLConfig(
        text_config={
            **sizes,
            "num_key_value_heads": 2,
            "vocab_size": len(tokenizer),
            "rope_parameters": rope,
            "pad_token_id": tokenizer.pad_token_id,
            "bos_token_id": None,
            "eos_token_id": tokenizer.eos_token_id,
        },
        vision_config={**vision, "window_size": 56, "fullatt_block_indexes": [1]},
        **{f"{name}_id": tokenizer.convert_tokens_to_ids(mark) for name, mark in MARKS.items()},
    )
    return processor, transformers.Qwen2_5_VLForConditionalGeneration(config)
