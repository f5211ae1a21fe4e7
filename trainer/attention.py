"""Causal self-attention with grouped KV heads, normed queries and keys, and rotary positions."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from headcount.trainer.config import ModelConfig
from headcount.trainer.layers import Linear, RMSNorm


class Attention(nn.Module):
    """Query head i reads KV head i // (heads / kv_heads). Logits are scaled by 1/√(head width).

    Queries and keys are normed head by head, one weight for all heads, before they are rotated.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads, self.kv_heads = config.heads, config.kv_heads
        self.head_width = config.d_model // config.heads
        kv_width = config.kv_heads * self.head_width
        self.norm = RMSNorm(config.d_model, config.norm_eps)
        self.query = Linear(config.d_model, config.d_model)
        self.key = Linear(config.d_model, kv_width)
        self.value = Linear(config.d_model, kv_width)
        self.query_norm = RMSNorm(self.head_width, config.norm_eps)
        self.key_norm = RMSNorm(self.head_width, config.norm_eps)
        self.output = Linear(config.d_model, config.d_model)

    def forward(self, x: Tensor, rotation: Tensor) -> Tensor:
        """x: [B, T, d_model], the raw read of the residual stream. rotation: of `rotary_angles`."""
        x = self.norm(x)
        return self.mix(*self.project(x, x, x), rotation)

    def project(self, for_query: Tensor, for_key: Tensor, for_value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Query [B, T, heads, width], key and value [B, T, kv_heads, width] of normed inputs [B, T, d_model].

        Inputs may also be [B, T, kv_heads, d_model]: then KV head g and the query heads that read it are
        projected from input g.
        """
        return (
            self._by_head(self.query, for_query, self.heads),
            self._by_head(self.key, for_key, self.kv_heads),
            self._by_head(self.value, for_value, self.kv_heads),
        )

    def mix(self, query: Tensor, key: Tensor, value: Tensor, rotation: Tensor) -> Tensor:
        """Attention over what `project` gave, and the output projection: [B, T, d_model]."""
        query = rotate(self.query_norm(query), rotation)
        key = rotate(self.key_norm(key), rotation)
        mixed = _attend(query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2))
        output: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return output

    def _by_head(self, projection: Linear, x: Tensor, heads: int) -> Tensor:
        if x.dim() == 4:
            weight = projection.weight.to(x.dtype).view(self.kv_heads, -1, x.shape[-1])
            projected = torch.einsum("btgd,god->btgo", x, weight)
        else:
            projected = projection(x)
        return projected.reshape(*x.shape[:2], heads, self.head_width)


def rotary_angles(context: int, head_width: int, theta: float) -> Tensor:
    """Cosine and sine of position times frequency: [2, context, 1, head_width / 2], float64.

    Frequency i is theta^(−2i / head_width) (Su et al. 2021, arXiv 2104.09864).
    """
    frequencies = theta ** (-torch.arange(0, head_width, 2, dtype=torch.float64) / head_width)
    angles = torch.outer(torch.arange(context, dtype=torch.float64), frequencies).unsqueeze(1)
    return torch.stack((angles.cos(), angles.sin()))


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Turn the pair (i, i + width/2) of each head by its position's angle i. x: [B, T, heads, width]."""
    cos, sin = rotation[:, : x.shape[1]]
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def _attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """[B, heads, T, width]. On a GPU, half precision must take the flash kernel and full precision the plain
    one: the others differ from run to run, and a silent change of kernel would change bits and speed."""
    if not query.is_cuda:
        return F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
    backend = SDPBackend.FLASH_ATTENTION if query.element_size() == 2 else SDPBackend.MATH
    with sdpa_kernel(backend):
        return F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
