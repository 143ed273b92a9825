"""`cost`: the cost of a sequence in training a model, from its config."""

from __future__ import annotations

from typing import Any, Final

from fastpack.errors import OptionError

__all__ = ["cost"]


_TWO_MATRICES: Final = frozenset(
    [
        "bloom",
        "codegen",
        "falcon",
        "gpt2",
        "gpt_bigcode",
        "gpt_neo",
        "gpt_neox",
        "gpt_neox_japanese",
        "gptj",
        "mpt",
        "nemotron",
        "opt",
        "persimmon",
        "phi",
        "starcoder2",
        "xglm",
    ]
)
"""The `model_type` of decoders whose feed-forward network has no gate: nothing else in a config tells it."""


def cost(config: object) -> tuple[float, float]:
    """The multiplications that a model does for a token, and for a pair of tokens of a sequence, in a forward pass.

    A matrix of `n` weights costs `n` for each token (Kaplan et al. 2020, arXiv:2001.08361, section 2.1). Attention costs a product of
    a query with a key, and of a weight with a value, for each pair of tokens of which the second is not later:
    `heads * (key width + value width) / 2`. A layer with a sliding window costs twice this for each token of its window instead, as a
    token attends to so many (Jiang et al. 2023, arXiv:2310.06825, section 2); one with chunks, once for each token of a chunk.
    That is the cost of long sequences: one that is shorter than a window costs less. A layer of linear attention
    costs three products of the size of its state for each token (Yang et al. 2024, arXiv:2412.06464, section 3). Of experts count
    those that a token is sent to and the shared ones. A backward pass costs twice a forward pass, which changes no ratio.

    The weights are those of a decoder of `transformers` with this config: grouped queries (`num_key_value_heads`), latent attention
    (`kv_lora_rank`), mixtures of experts (`num_experts_per_tok`), sliding windows (`sliding_window` with `layer_types`), linear
    attention (`linear_num_value_heads`), feed-forward networks of three matrices or, by `model_type`, of two. The head is counted, the
    embedding is a look-up.

    Args:
        config: The config of a model of `transformers`, or an object or dict with its names. That of a model with pictures has the one
            of its text in `text_config`.

    Returns:
        The two numbers that `fastpack.plan_step(cost=)` takes.

    Raises:
        OptionError: It lacks what a decoder has.

    Examples:
        >>> from fastpack.torch import cost
        >>> sizes = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 14336}
        >>> linear, quadratic = cost(sizes | {"num_key_value_heads": 8, "vocab_size": 128256})
        >>> round(linear / quadratic)
        57256
    """
    read = _Config(config)
    layers, hidden = read.needed("num_hidden_layers", "n_layer"), read.needed("hidden_size", "n_embd")
    attention, pair = _attention(read, hidden)
    linear, quadratic = float(hidden * (read.get("vocab_size") or 0)), 0.0
    for layer in range(layers):
        linear += _feed_forward(read, layer, hidden)
        kind = read.kind(layer)
        if "linear" in kind:
            linear += _linear_attention(read, hidden) or attention
            continue
        linear += attention
        window, chunk = _window(read, kind), read.get("attention_chunk_size") if "chunk" in kind else None
        if window or chunk:
            linear += pair * (2 * (window or 0) + (chunk or 0))
        else:
            quadratic += pair
    return linear, quadratic


def _attention(read: _Config, hidden: int) -> tuple[float, float]:
    """The weights of the attention of a layer, and its cost for a pair of tokens."""
    heads = read.needed("num_attention_heads", "n_head")
    width = read.get("head_dim") or hidden // heads
    rank = read.get("kv_lora_rank")
    if not rank:
        key_heads = read.get("num_key_value_heads", "num_kv_heads") or heads
        if read.value("multi_query") is True and not read.value("new_decoder_architecture"):
            key_heads = 1
        # Models with layers of linear attention have gates in their other layers: a second matrix as that of the queries.
        query_heads = heads * (2 if read.get("linear_num_value_heads") else 1)
        return hidden * width * (heads + query_heads + 2 * key_heads), float(heads * width)
    rope = read.get("qk_rope_head_dim") or 0
    keys, values = (read.get("qk_nope_head_dim") or width) + rope, read.get("v_head_dim") or width
    queries_rank = read.get("q_lora_rank")
    queries = queries_rank * (hidden + heads * keys) if queries_rank else hidden * heads * keys
    latent = hidden * (rank + rope) + rank * heads * (keys - rope + values)
    return queries + latent + heads * values * hidden, heads * (keys + values) / 2


def _linear_attention(read: _Config, hidden: int) -> float | None:
    """The weights of a layer of linear attention, and the products with its state; `None` if the config does not say."""
    heads, keys = read.get("linear_num_value_heads"), read.get("linear_key_head_dim")
    width, key_heads = read.get("linear_value_head_dim"), read.get("linear_num_key_heads")
    if not (heads and keys and width and key_heads):
        return None
    of_keys, of_values = key_heads * keys, heads * width
    convolved = (2 * of_keys + of_values) * (read.get("linear_conv_kernel_dim") or 0)
    # Queries, keys, values, a gate, the output; and two numbers for each head.
    matrices = hidden * (2 * of_keys + 3 * of_values + 2 * heads)
    return matrices + convolved + 3 * heads * keys * width


def _feed_forward(read: _Config, layer: int, hidden: int) -> float:
    """The weights of the feed-forward network of a layer that a token is multiplied by."""
    matrices = 2 if read.value("model_type") in _TWO_MATRICES else 3
    inner = read.get("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size") or 4 * hidden
    experts = read.get("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
    if not experts or not _has_experts(read, layer):
        return matrices * hidden * (read.get("intermediate_size_mlp") or inner)
    of_expert = read.get("moe_intermediate_size") or inner
    of_shared = read.get("shared_expert_intermediate_size") or 0
    shared = of_shared + (read.get("shared_intermediate_size") or 0)
    shared += (read.get("n_shared_experts", "moe_num_shared_experts") or 0) * of_expert
    if read.get("intermediate_size_mlp"):
        shared += of_expert  # Llama 4, which has one shared expert
    chosen = read.get("num_experts_per_tok", "moe_k") or 1
    gates = experts + (1 if of_shared else 0)
    return matrices * hidden * (of_expert * chosen + shared) + hidden * gates


def _has_experts(read: _Config, layer: int) -> bool:
    """True if the feed-forward network of a layer is a mixture of experts."""
    with_experts = read.listed("moe_layers")
    if with_experts is not None:
        return layer in with_experts
    first = read.get("first_k_dense_replace", "moe_layer_start_index") or 0
    every = read.get("decoder_sparse_step", "interleave_moe_layer_step") or 1
    return layer >= first and (layer + 1) % every == 0 and layer not in (read.listed("mlp_only_layers") or [])


def _window(read: _Config, kind: str) -> int | None:
    """The tokens that a layer of this kind attends to, if these are not all."""
    if read.value("use_sliding_window") is False or (kind and "sliding" not in kind):
        return None
    return read.get("sliding_window")


class _Config:
    """The values of a config by name."""

    def __init__(self, config: object) -> None:
        text = config.get("text_config") if isinstance(config, dict) else getattr(config, "text_config", None)
        self._config: Any = config if text is None else text  # type: ignore[explicit-any]  # any model's

    def value(self, name: str) -> object:
        config = self._config
        return config.get(name) if isinstance(config, dict) else getattr(config, name, None)

    def get(self, *names: str) -> int | None:
        """The first number above 0 that has one of these names."""
        values = map(self.value, names)
        return next(
            (it for it in values if isinstance(it, int) and not isinstance(it, bool) and it > 0), None
        )

    def kind(self, layer: int) -> str:
        """The kind of a layer in `layer_types`; empty without these."""
        kinds = self.listed("layer_types")
        return "" if kinds is None else str(kinds[layer]) if layer < len(kinds) else "full_attention"

    def listed(self, name: str) -> list[object] | None:
        value = self.value(name)
        return list(value) if isinstance(value, (list, tuple)) else None

    def needed(self, *names: str) -> int:
        value = self.get(*names)
        if value is None:
            message = f"must have `{names[0]}`, as the config of a decoder has"
            raise OptionError(message, "config")
        return value
