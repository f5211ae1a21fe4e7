"""A transformer whose sublayers read their residual stream by delta attention residuals (arXiv 2605.18855):

    x_s = p + gate_s · Σ_i a_i δ_i,        p ← p + f_s(x_s)

p is the running sum of the embedding and all outputs f, and what the head reads. The sources δ of site s are
a vector of its own, the embedding, and the outputs before s, or their sums over whole blocks. Each of
`routing_heads` slices of the width has its own softmax a over depth, of <query, key_weight · δ / rms(δ)>.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import GenerationMixin, PreTrainedModel
from transformers.cache_utils import DynamicCache
from transformers.modeling_outputs import CausalLMOutputWithPast

from .configuration_headcount import HeadcountConfig
from .rotary_headcount import rotary_angles, rotate

_CACHE = "cache" if "cache" in CausalLMOutputWithPast.__dataclass_fields__ else "past_key_values"
"""What this version of transformers calls keys and values of earlier tokens."""


class HeadcountRMSNorm(nn.Module):
    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), self.eps)


class HeadcountAttention(nn.Module):
    def __init__(self, config: HeadcountConfig, layer: int) -> None:
        super().__init__()
        self.layer, self.width = layer, config.head_dim
        heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.q_proj = nn.Linear(config.hidden_size, heads * self.width, bias=config.qkv_bias)
        self.k_proj = nn.Linear(config.hidden_size, kv_heads * self.width, bias=config.qkv_bias)
        self.v_proj = nn.Linear(config.hidden_size, kv_heads * self.width, bias=config.qkv_bias)
        self.o_proj = nn.Linear(heads * self.width, config.hidden_size, bias=False)
        self.q_norm = HeadcountRMSNorm(self.width, config.rms_norm_eps) if config.qk_norm else nn.Identity()
        self.k_norm = HeadcountRMSNorm(self.width, config.rms_norm_eps) if config.qk_norm else nn.Identity()

    def forward(self, x: Tensor, rotation: Tensor, allowed: Tensor | None, cache: Any, read: int) -> Tensor:
        """x: [B, T, hidden_size], normed. allowed: [B, 1, T, read], which of the `read` tokens each may see;
        none where that is itself and all before it."""
        by_head = (*x.shape[:2], -1, self.width)
        query = rotate(self.q_norm(self.q_proj(x).view(by_head)), rotation).transpose(1, 2)
        key = rotate(self.k_norm(self.k_proj(x).view(by_head)), rotation).transpose(1, 2)
        value = self.v_proj(x).view(by_head).transpose(1, 2)
        if cache is not None:
            key, value = (part[:, :, :read] for part in cache.update(key, value, self.layer))
        causal = allowed is None and query.shape[2] > 1
        mixed = F.scaled_dot_product_attention(
            query, key, value, attn_mask=allowed, is_causal=causal, enable_gqa=True
        )
        output: Tensor = self.o_proj(mixed.transpose(1, 2).flatten(2))
        return output


class HeadcountMLP(nn.Module):
    def __init__(self, config: HeadcountConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return output


class History:
    """The running sum and the sources so far, each source with its 1/rms."""

    def __init__(self, config: HeadcountConfig, embedding: Tensor) -> None:
        self.eps, self.block_size = config.rms_norm_eps, config.routing_block_size
        self.total = self.boundary = embedding
        self.sources, self.norms = [embedding], [inverse_rms(embedding, self.eps)]
        self.outputs = 0

    def write(self, output: Tensor) -> None:
        self.total = self.total + output
        self.outputs += 1
        if self.outputs % self.block_size == 0:
            source = output if self.block_size == 1 else self.total - self.boundary
            self.sources.append(source)
            self.norms.append(inverse_rms(source, self.eps))
            self.boundary = self.total


class HeadcountRouting(nn.Module):
    """One site's read. Gates are of one dimension, since FSDP takes no parameter without one."""

    logit_scale: nn.Parameter | None

    def __init__(self, config: HeadcountConfig) -> None:
        super().__init__()
        self.heads, self.scale = config.routing_heads, config.routing_logit_scale
        self.query = nn.Parameter(torch.zeros(config.hidden_size))
        self.key_weight = nn.Parameter(torch.ones(config.hidden_size))
        self.null = nn.Parameter(torch.zeros(config.hidden_size))
        self.gate = nn.Parameter(torch.zeros(1))
        learned = nn.Parameter(torch.ones(self.heads)) if config.routing_learned_scales else None
        self.register_parameter("logit_scale", learned)

    def forward(self, history: History) -> Tensor:
        total = history.total
        exact = exact_dtype(total.dtype)
        null = self.null.to(total.dtype).expand_as(total)
        sources = [null, *history.sources]
        norms = torch.stack([inverse_rms(null, history.eps), *history.norms])
        query: Tensor = self.query
        if self.logit_scale is not None:
            query = (query.view(self.heads, -1) * self.logit_scale.unsqueeze(-1)).flatten()
        query = query.to(exact) * self.key_weight.to(exact)
        if self.scale != 1:
            query = query * self.scale
        slices = query.to(total.dtype).to(exact).view(self.heads, -1)
        values = [source.to(exact).view(*source.shape[:-1], *slices.shape) for source in sources]
        logits = torch.stack([(value * slices).sum(-1) for value in values]) * norms
        weights = torch.softmax(logits, dim=0).unsqueeze(-1)
        mixed = values[0] * weights[0]
        for value, weight in zip(values[1:], weights[1:], strict=True):
            mixed = torch.addcmul(mixed, value, weight)
        routed = mixed.flatten(-2).to(total.dtype)
        x: Tensor = total + self.gate.to(routed.dtype) * routed
        return x


class HeadcountLayer(nn.Module):
    def __init__(self, config: HeadcountConfig, layer: int) -> None:
        super().__init__()
        self.input_layernorm = HeadcountRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = HeadcountAttention(config, layer)
        self.post_attention_layernorm = HeadcountRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = HeadcountMLP(config)
        self.attention_routing = HeadcountRouting(config) if config.routing == "delta" else None
        self.mlp_routing = HeadcountRouting(config) if config.routing == "delta" else None

    def forward(
        self, history: History, rotation: Tensor, allowed: Tensor | None, cache: Any, read: int
    ) -> None:
        x = history.total if self.attention_routing is None else self.attention_routing(history)
        history.write(self.self_attn(self.input_layernorm(x), rotation, allowed, cache, read))
        x = history.total if self.mlp_routing is None else self.mlp_routing(history)
        history.write(self.mlp(self.post_attention_layernorm(x)))


class HeadcountPreTrainedModel(PreTrainedModel):  # type: ignore[misc]
    config_class = HeadcountConfig
    base_model_prefix = "model"
    _no_split_modules = ["HeadcountLayer"]  # noqa: RUF012
    _supports_sdpa = True
    _keep_in_fp32_modules_strict = {"attention_routing", "mlp_routing"}  # noqa: RUF012

    def _init_weights(self, module: nn.Module) -> None:
        """By functions of `torch.nn.init` alone, which transformers holds back from what was loaded: a gate
        that is set in another way could be zero again."""
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=self.config.initializer_range)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, HeadcountRMSNorm):
            nn.init.ones_(module.weight)
        elif isinstance(module, HeadcountRouting):
            for start in (module.key_weight, module.logit_scale):
                if start is not None:
                    nn.init.ones_(start)
            for start in (module.query, module.null, module.gate):
                nn.init.zeros_(start)


class HeadcountModel(HeadcountPreTrainedModel):
    def __init__(self, config: HeadcountConfig) -> None:
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(HeadcountLayer(config, n) for n in range(config.num_hidden_layers))
        self.norm = HeadcountRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_init()

    def forward(
        self, embedding: Tensor, attention_mask: Tensor | None, position_ids: Tensor | None, cache: Any
    ) -> Tensor:
        """The normed states [B, T, hidden_size] of the tokens after those in `cache`."""
        earlier = int(cache.get_seq_length()) if cache is not None else 0
        tokens = embedding.shape[1]
        if position_ids is None:
            position_ids = torch.arange(earlier, earlier + tokens, device=embedding.device).unsqueeze(0)
        rotation = rotary_angles(position_ids, self.config).to(embedding.dtype)
        allowed = _allowed(attention_mask, earlier, tokens, embedding.device)
        history = History(self.config, embedding)
        for layer in self.layers:
            layer(history, rotation, allowed, cache, earlier + tokens)
        states: Tensor = self.norm(history.total)
        return states


class HeadcountForCausalLM(HeadcountPreTrainedModel, GenerationMixin):  # type: ignore[misc]
    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}  # noqa: RUF012

    def __init__(self, config: HeadcountConfig) -> None:
        super().__init__(config)
        self.model = HeadcountModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        cache: Any = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int = 0,
        **more: Any,
    ) -> CausalLMOutputWithPast:
        """attention_mask: [B, tokens so far], 0 for padding. logits_to_keep: of the last tokens; 0 is all."""
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("expected either input_ids or inputs_embeds")
        embedding = self.model.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        cache = cache if cache is not None else past_key_values
        if cache is None and (self.config.use_cache if use_cache is None else use_cache):
            cache = DynamicCache()
        states = self.model(embedding, attention_mask, position_ids, cache)
        logits = self.lm_head(states[:, -logits_to_keep:])
        loss: Tensor | None = None
        if labels is not None:
            loss = self.loss_function(logits=logits, labels=labels, vocab_size=self.config.vocab_size, **more)
        return CausalLMOutputWithPast(loss=loss, logits=logits, **{_CACHE: cache})


def inverse_rms(source: Tensor, eps: float) -> Tensor:
    """1/rms of each vector: [..., 1], in the precision of the softmax."""
    norm = torch.linalg.vector_norm(source.to(exact_dtype(source.dtype)), dim=-1, keepdim=True)
    inverse: Tensor = (norm.square() / source.shape[-1] + eps).rsqrt()
    return inverse


def exact_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def _allowed(mask: Tensor | None, earlier: int, tokens: int, device: torch.device) -> Tensor | None:
    """[B, 1, tokens, earlier + tokens]: each token sees itself, and what is before it and no padding."""
    if (
        mask is not None and mask.dim() == 4
    ):  # of a caller that made it whole, as generate does for some caches
        return (mask if mask.dtype == torch.bool else mask == 0)[..., : earlier + tokens]
    if (mask is None or bool(mask.all())) and (earlier == 0 or tokens == 1):
        return None
    rows = torch.arange(earlier, earlier + tokens, device=device)[:, None]
    columns = torch.arange(earlier + tokens, device=device)
    allowed = (columns < rows)[None, None]
    if mask is not None:
        allowed = allowed & mask[:, None, None, : earlier + tokens].bool()
    return allowed | (columns == rows)
