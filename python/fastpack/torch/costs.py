"""`cost`: the cost of a sequence in training a model, from its config."""

from __future__ import annotations

from typing import Any

from fastpack.errors import OptionError

__all__ = ["cost"]


def cost(config: object) -> tuple[float, float]:
    """The multiplications that a model does for a token, and for a pair of tokens of a sequence, in a forward pass.

    A matrix of `n` weights costs `n` for each token. Attention costs a product of a query with a key, and of a weight with a value,
    for each pair of tokens of which the second is not later: `heads * (key width + value width) / 2`. A layer whose window is
    narrower than the context costs this for each token of its window instead. Of experts count those that a token is sent to and the
    shared ones. A backward pass costs twice a forward pass, which changes no ratio.

    The weights are those of a decoder of `transformers` with this config: grouped queries (`num_key_value_heads`), latent attention
    (`kv_lora_rank`), mixtures of experts (`num_experts_per_tok`), sliding windows (`sliding_window` with `layer_types`). The head is
    counted, the embedding is a look-up.

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
    layers, hidden = read.needed("num_hidden_layers"), read.needed("hidden_size")
    heads = read.needed("num_attention_heads")
    width = read.get("head_dim") or hidden // heads
    if rank := read.get("kv_lora_rank"):
        keys = (read.get("qk_nope_head_dim") or width) + (read.get("qk_rope_head_dim") or 0)
        values = read.get("v_head_dim") or width
        queries_rank = read.get("q_lora_rank")
        queries = queries_rank * (hidden + heads * keys) if queries_rank else hidden * heads * keys
        rope = read.get("qk_rope_head_dim") or 0
        attention = (
            queries + hidden * (rank + rope) + rank * heads * (keys - rope + values) + heads * values * hidden
        )
    else:
        keys = values = width
        key_heads = read.get("num_key_value_heads") or heads
        attention = hidden * width * (2 * heads + 2 * key_heads)
    pair = heads * (keys + values) / 2
    linear, quadratic = float(hidden * (read.get("vocab_size") or 0)), 0.0
    for layer in range(layers):
        linear += attention + _feed_forward(read, layer, hidden)
        if window := _window(read, layer):
            linear += 2 * pair * window
        else:
            quadratic += pair
    return linear, quadratic


def _feed_forward(read: _Config, layer: int, hidden: int) -> float:
    """The weights of the feed-forward network of a layer that a token is multiplied by: three matrices, as gated ones have."""
    dense = 3 * hidden * (read.get("intermediate_size") or 4 * hidden)
    experts = read.get("num_experts") or read.get("num_local_experts") or read.get("n_routed_experts")
    if not experts or layer < (read.get("first_k_dense_replace") or 0):
        return dense
    every = read.get("decoder_sparse_step") or 1
    if (layer + 1) % every or layer in (read.listed("mlp_only_layers") or []):
        return dense
    inner = read.get("moe_intermediate_size") or read.get("intermediate_size") or 4 * hidden
    shared = (read.get("n_shared_experts") or 0) * inner + (read.get("shared_expert_intermediate_size") or 0)
    return 3 * hidden * (inner * (read.get("num_experts_per_tok") or 1) + shared) + hidden * experts


def _window(read: _Config, layer: int) -> int | None:
    """The tokens that a layer attends to, if these are not all."""
    window = read.get("sliding_window")
    kinds = read.listed("layer_types")
    if not window or read.value("use_sliding_window") is False:
        return None
    if kinds is None:
        return window
    return window if layer < len(kinds) and "sliding" in str(kinds[layer]) else None


class _Config:
    """The values of a config by name."""

    def __init__(self, config: object) -> None:
        text = config.get("text_config") if isinstance(config, dict) else getattr(config, "text_config", None)
        self._config: Any = config if text is None else text  # type: ignore[explicit-any]  # any model's

    def value(self, name: str) -> object:
        config = self._config
        return config.get(name) if isinstance(config, dict) else getattr(config, name, None)

    def get(self, name: str) -> int | None:
        value = self.value(name)
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None

    def listed(self, name: str) -> list[object] | None:
        value = self.value(name)
        return list(value) if isinstance(value, (list, tuple)) else None

    def needed(self, name: str) -> int:
        value = self.get(name)
        if value is None:
            message = f"must have `{name}`, as the config of a decoder has"
            raise OptionError(message, "config")
        return value
