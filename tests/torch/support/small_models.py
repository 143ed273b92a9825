"""Models of two layers and random weights, in the shapes of those that are trained."""

from __future__ import annotations

import torch
import transformers

VOCABULARY = 97

_COMMON = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    # Far from uniform attention, so that a document that is seen by mistake is noticed.
    "initializer_range": 0.3,
}

CONFIGS = {
    "llama": lambda: transformers.LlamaConfig(**_COMMON),
    "qwen2": lambda: transformers.Qwen2Config(**_COMMON),
    "qwen3": lambda: transformers.Qwen3Config(**_COMMON, head_dim=8),
    "mistral": lambda: transformers.MistralConfig(**_COMMON, sliding_window=24),
    "gemma": lambda: transformers.GemmaConfig(**_COMMON, head_dim=8),
    "gemma2": lambda: transformers.Gemma2Config(**_COMMON, head_dim=8, sliding_window=24),
    "gemma3": lambda: transformers.Gemma3TextConfig(**_COMMON, head_dim=8, sliding_window=24),
    "gpt2": lambda: transformers.GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=256,
        initializer_range=0.3,
        bos_token_id=1,
        eos_token_id=2,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    ),
    "opt": lambda: transformers.OPTConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        ffn_dim=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=256,
        word_embed_proj_dim=32,
        init_std=0.3,
        dropout=0.0,
    ),
    "falcon": lambda: transformers.FalconConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        initializer_range=0.3,
        alibi=True,
    ),
    "bloom": lambda: transformers.BloomConfig(
        vocab_size=VOCABULARY, hidden_size=32, n_layer=2, n_head=4, initializer_range=0.3
    ),
    "mpt": lambda: transformers.MptConfig(
        vocab_size=VOCABULARY, d_model=32, n_layers=2, n_heads=4, initializer_range=0.3, max_seq_len=256
    ),
    "mamba": lambda: transformers.MambaConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, state_size=4, initializer_range=0.3
    ),
    "mamba2": lambda: transformers.Mamba2Config(
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=2,
        state_size=8,
        num_heads=8,
        head_dim=8,
        n_groups=1,
        chunk_size=16,
        initializer_range=0.3,
    ),
    "rwkv": lambda: transformers.RwkvConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, context_length=256
    ),
    "gpt_oss": lambda: transformers.GptOssConfig(
        **_COMMON,
        head_dim=8,
        num_local_experts=2,
        num_experts_per_tok=1,
        sliding_window=24,
    ),
}


def model_of(name: str, attention: str = "sdpa", seed: int = 0):
    """A model with random weights."""
    config = CONFIGS[name]()
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention)
    return model.float().eval()
