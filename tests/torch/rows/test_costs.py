"""`cost`: what a token and a pair of tokens cost in a model, beside the weights of the models of transformers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

import fastpack
from fastpack.torch import cost


def test_the_cost_of_models():
    dense = {
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "vocab_size": 100,
    }
    linear, quadratic = cost(dense)
    assert (linear, quadratic) == (2 * (4 * 64 * 64 + 3 * 64 * 128) + 64 * 100, 2 * 64)
    grouped = cost(dense | {"num_key_value_heads": 1})
    assert grouped == (linear - 2 * 2 * 64 * 16 * 3, quadratic)
    window = cost(dense | {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]})
    assert window == (linear + 2 * 64 * 8, quadratic / 2)
    experts = cost(dense | {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32})
    assert experts == (linear - 2 * 3 * 64 * 128 + 2 * (3 * 64 * 64 + 64 * 8), quadratic)
    with pytest.raises(fastpack.OptionError, match="num_hidden_layers"):
        cost({})


LINEAR_ATTENTION = {
    "num_key_value_heads": 2,
    "head_dim": 16,
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 8,
}

DECODERS = {
    "LlamaConfig": {"num_key_value_heads": 2, "intermediate_size": 96},
    "Qwen3Config": {"num_key_value_heads": 2, "intermediate_size": 96, "head_dim": 24},
    "MixtralConfig": {"num_key_value_heads": 2, "num_local_experts": 8, "num_experts_per_tok": 2},
    "Qwen3MoeConfig": {
        "num_key_value_heads": 2,
        "num_experts": 8,
        "num_experts_per_tok": 3,
        "moe_intermediate_size": 40,
        "mlp_only_layers": [1],
        "head_dim": 16,
    },
    "DeepseekV3Config": {
        "num_key_value_heads": 4,
        "q_lora_rank": 24,
        "kv_lora_rank": 20,
        "qk_nope_head_dim": 12,
        "qk_rope_head_dim": 8,
        "v_head_dim": 10,
        "n_routed_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 40,
        "n_shared_experts": 1,
        "first_k_dense_replace": 1,
        "n_group": 2,
        "topk_group": 1,
    },
    "Qwen2MoeConfig": {
        "num_key_value_heads": 2,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 40,
        "shared_expert_intermediate_size": 48,
    },
    "GraniteMoeSharedConfig": {
        "num_key_value_heads": 2,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "shared_intermediate_size": 48,
    },
    "Llama4TextConfig": {
        "num_key_value_heads": 2,
        "head_dim": 16,
        "intermediate_size": 96,
        "intermediate_size_mlp": 128,
        "num_local_experts": 8,
        "num_experts_per_tok": 1,
        "interleave_moe_layer_step": 2,
        "attention_chunk_size": 32,
    },
    "Qwen3NextConfig": LINEAR_ATTENTION
    | {
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 40,
        "shared_expert_intermediate_size": 48,
    },
    "Qwen3_5TextConfig": LINEAR_ATTENTION | {"intermediate_size": 96},
    "Gemma2Config": {"num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 96, "sliding_window": 8},
    "PhiConfig": {"intermediate_size": 96},
    "GPTNeoXConfig": {"intermediate_size": 96},
    "GPT2Config": {"n_inner": 96},
    "GPTBigCodeConfig": {"n_inner": 96},
    "Starcoder2Config": {"num_key_value_heads": 2, "intermediate_size": 96},
    "NemotronConfig": {"num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 96},
    "OPTConfig": {"ffn_dim": 96, "word_embed_proj_dim": 64},
    "FalconConfig": {"multi_query": True, "ffn_hidden_size": 96},
}

OF_TOKENS = {
    "Qwen3NextConfig": 2 * 3 * 4 * 16 * 8,  # the products with the states of two layers
    "Qwen3_5TextConfig": 2 * 3 * 4 * 16 * 8,
    "Gemma2Config": 2 * 8 * 2 * 64,  # the pairs in the windows of two layers
    "Llama4TextConfig": 2 * 32 * 64,  # the pairs in the chunks of two layers, half of which are later
}
"""The cost of a token without the weights."""

OF_PAIRS = {
    "DeepseekV3Config": 3 * 4 * (12 + 8 + 10) / 2,
    "Qwen3Config": 3 * 4 * 2 * 24 / 2,
    **dict.fromkeys(("Qwen3NextConfig", "Qwen3_5TextConfig", "Llama4TextConfig"), 64),
    "Gemma2Config": 64,
}
"""The cost of a pair of tokens in the layers of full attention."""


@pytest.mark.parametrize("name", DECODERS)
def test_a_token_costs_the_weights_that_it_is_multiplied_by(name):
    transformers = pytest.importorskip("transformers")
    if not hasattr(transformers, name):
        pytest.skip("a later version has it")
    sizes = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 100}
    config = getattr(transformers, name)(
        **sizes, **kinds_of_layers(name), **DECODERS[name], tie_word_embeddings=False
    )
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    of_expert = DECODERS[name].get("num_experts_per_tok", 8) / 8
    of_experts = (".experts.", "block_sparse_moe.input_linear", "block_sparse_moe.output_linear")
    looked_up = ("embed_tokens", "embed_positions", "embed_in", "wte", "wpe", "word_embeddings")
    wanted = sum(
        parameter.numel() * (of_expert if any(word in key for word in of_experts) else 1)
        for key, parameter in model.named_parameters()
        if parameter.ndim > 1 and not any(word in key for word in looked_up)
    )
    linear, quadratic = cost(config)
    assert linear == wanted + OF_TOKENS.get(name, 0)
    assert quadratic == OF_PAIRS.get(name, 3 * 64)
    assert cost(SimpleNamespace(text_config=config)) == (linear, quadratic)
    assert cost({"text_config": config.to_dict()}) == (linear, quadratic)


def kinds_of_layers(name):
    """The attention of three layers, of which one is full."""
    kind = {
        "Qwen3NextConfig": "linear",
        "Qwen3_5TextConfig": "linear",
        "Gemma2Config": "sliding",
        "Llama4TextConfig": "chunked",
    }
    return {"layer_types": [f"{kind[name]}_attention"] * 2 + ["full_attention"]} if name in kind else {}
