"""Configuration of a transformer whose residual stream is read by delta attention residuals."""

from typing import Any

from transformers import PreTrainedConfig


class HeadcountConfig(PreTrainedConfig):  # type: ignore[misc]
    """A pre-norm transformer with RMSNorm, SwiGLU, grouped KV heads and rotary positions.

    qk_norm: whether queries and keys are normed, head by head. qkv_bias: whether they and the values have a
    bias. routing: `delta`, or `none` for the plain residual stream. routing_heads: slices of the width, each
    with its own softmax over depth. routing_block_size: sublayers whose outputs are one source.
    routing_logit_scale: factor on every logit; with routing_learned_scales each head of a site has its own.
    """

    model_type = "headcount"
    keys_to_ignore_at_inference = ["past_key_values", "cache"]  # noqa: RUF012

    def __init__(
        self,
        vocab_size: int = 256,
        hidden_size: int = 64,
        intermediate_size: int = 192,
        num_hidden_layers: int = 2,
        num_attention_heads: int = 4,
        num_key_value_heads: int = 2,
        head_dim: int = 16,
        max_position_embeddings: int = 128,
        rms_norm_eps: float = 1e-6,
        initializer_range: float = 0.02,
        rope_parameters: dict[str, Any] | None = None,
        qk_norm: bool = True,
        qkv_bias: bool = False,
        routing: str = "delta",
        routing_heads: int = 1,
        routing_block_size: int = 1,
        routing_logit_scale: float = 1.0,
        routing_learned_scales: bool = False,
        tie_word_embeddings: bool = True,
        use_cache: bool = True,
        **more: Any,
    ) -> None:
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.intermediate_size = intermediate_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.num_key_value_heads = num_key_value_heads
        self.head_dim = head_dim
        self.max_position_embeddings = max_position_embeddings
        self.rms_norm_eps = rms_norm_eps
        self.initializer_range = initializer_range
        self.rope_parameters = rope_parameters or {"rope_type": "default", "rope_theta": 10_000.0}
        self.qk_norm = qk_norm
        self.qkv_bias = qkv_bias
        self.routing = routing
        self.routing_heads = routing_heads
        self.routing_block_size = routing_block_size
        self.routing_logit_scale = routing_logit_scale
        self.routing_learned_scales = routing_learned_scales
        self.use_cache = use_cache
        super().__init__(tie_word_embeddings=tie_word_embeddings, **more)
