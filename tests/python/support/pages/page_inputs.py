"""The surroundings of the pages of the documentation: models of the hub, files, and servers, all of them local."""

from __future__ import annotations

import importlib.util
import json
import shutil

from page_blocks import ROOT

CHAT_TEMPLATE = (
    "{%- for message in messages %}{{- '<|start|>' + message.role + '\n' }}"
    "{%- if message.role == 'assistant' and message.reasoning_content and loop.last %}"
    "{{- '<think>' + message.reasoning_content + '</think>' }}{%- endif %}"
    "{{- message.content or '' }}"
    "{%- for call in message.tool_calls or [] %}{{- '<call>' + (call.function | tojson) + '</call>' }}{%- endfor %}"
    "{{- '<|end|>\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|start|>assistant\n' }}{%- endif %}"
)
"""Drops the reasoning of earlier turns, and prints calls, as Qwen 3 does."""

TOKENS = {
    "Qwen/Qwen3-0.6B": ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"],
    "google-t5/t5-small": [f"<extra_id_{number}>" for number in range(100)],
    "google-bert/bert-base-uncased": ["[MASK]", "[CLS]", "[SEP]"],
}
"""The models of the hub that pages name, with the tokens that they add to those of `examples/tokenizer`."""


def prepare(folder):
    """Lays models under their names on the hub, and the files of the repository, into a folder."""
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / "chats").mkdir()
    shutil.copy(ROOT / "examples" / "chat.jsonl", folder / "chats")
    for name, tokens in TOKENS.items():
        _tokenizer(folder / name, tokens)
        if importlib.util.find_spec("torch"):
            _model(folder / name)
    chat = folder / "Qwen/Qwen3-0.6B"
    (chat / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")
    # The tests of `fastpack.torch` have processors; those without torch run no page that needs one.
    if importlib.util.find_spec("picture_models"):
        _model_of_pictures(folder / "Qwen/Qwen2.5-VL-3B-Instruct")


def _tokenizer(folder, tokens):
    """The tokenizer of `examples` with more tokens."""
    shutil.copytree(ROOT / "examples" / "tokenizer", folder)
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text("utf-8"))
    first = 1 + max(
        [*tokenizer["model"]["vocab"].values(), *(token["id"] for token in tokenizer["added_tokens"])]
    )
    like = tokenizer["added_tokens"][0]
    tokenizer["added_tokens"] += [
        like | {"id": first + at, "content": content} for at, content in enumerate(tokens)
    ]
    path.write_text(json.dumps(tokenizer), "utf-8")
    names = {"[MASK]": "mask_token", "[CLS]": "cls_token", "[SEP]": "sep_token"}
    settings = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
    settings |= {names[token]: token for token in tokens if token in names}
    settings.setdefault("pad_token", settings["eos_token"])
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")


def _model(folder):
    """A model of two layers and random weights, of the kind that the name says."""
    import transformers

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 4608}
    if "bert" in folder.name:
        config = transformers.BertConfig(**sizes, intermediate_size=64)
        transformers.BertForMaskedLM(config).save_pretrained(folder)
    elif "t5" in folder.name:
        config = transformers.T5Config(
            vocab_size=4608, d_model=32, d_ff=64, d_kv=16, num_layers=2, num_heads=2, decoder_start_token_id=0
        )
        transformers.T5ForConditionalGeneration(config).save_pretrained(folder)
    else:
        config = transformers.Qwen3Config(**sizes, intermediate_size=64, num_key_value_heads=2, head_dim=16)
        transformers.Qwen3ForCausalLM(config).save_pretrained(folder)


def _model_of_pictures(folder):
    """A small Qwen2.5-VL with random weights, and its processor."""
    import picture_models
    import transformers

    picture_models.save_processor("qwen2_5_vl", folder)
    processor = transformers.AutoProcessor.from_pretrained(folder)
    picture_models.model_of("qwen2_5_vl", processor).save_pretrained(folder)
