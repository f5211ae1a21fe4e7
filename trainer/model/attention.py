"""Causal self-attention with grouped KV heads and rotary positions."""

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from headcount.trainer.compilation import compiled
from headcount.trainer.config import ModelConfig
from headcount.trainer.errors import UserError
from headcount.trainer.model.flex import attend_flex
from headcount.trainer.model.layers import Linear, RMSNorm, Working, rms_norm
from headcount.trainer.model.products import WorkingMatrices
from headcount.trainer.model.rotary import rotate

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask


class KeyValueCache:
    """Keys and values of the tokens so far, of every visit to an attention sublayer in the order of a pass.

    After the first pass, which may be of many tokens, a pass is of one.
    """

    def __init__(self) -> None:
        self.tokens = 0
        self._visits: list[tuple[Tensor, Tensor]] = []
        self._visit = 0

    def begin_pass(self, tokens: int) -> None:
        """Before each pass, of so many tokens more."""
        if self.tokens and tokens != 1:
            raise ValueError(f"a pass after the first takes one token, not {tokens}")
        self.tokens += tokens
        self._visit = 0

    def extend(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """All keys and values [B, tokens so far, kv_heads, width], given this pass's."""
        if self._visit < len(self._visits):
            earlier_key, earlier_value = self._visits[self._visit]
            key, value = torch.cat((earlier_key, key), dim=1), torch.cat((earlier_value, value), dim=1)
            self._visits[self._visit] = key, value
        else:
            self._visits.append((key, value))
        self._visit += 1
        return key, value


class Attention(nn.Module):
    """Query head i reads KV head i // (heads / kv_heads). Logits are scaled by 1/√(head width).

    Queries and keys are normed head by head, one weight for all heads, before they are rotated; or not, by
    `config.qk_norm`.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads, self.kv_heads = config.heads, config.kv_heads
        self.head_width = config.width_of_head
        width, kv_width = config.heads * self.head_width, config.kv_heads * self.head_width
        bias = config.qkv_bias == "learned"
        self.norm = RMSNorm(config.d_model, config.norm_eps)
        self.query = Linear(config.d_model, width, bias)
        self.key = Linear(config.d_model, kv_width, bias)
        self.value = Linear(config.d_model, kv_width, bias)
        normed = config.qk_norm == "per_head"
        self.query_norm = RMSNorm(self.head_width, config.norm_eps) if normed else None
        self.key_norm = RMSNorm(self.head_width, config.norm_eps) if normed else None
        self.output = Linear(width, config.d_model)
        self.working: Working | None = None
        self.blocks: BlockMask | None = None
        self.cache: KeyValueCache | None = None

    def forward(self, x: Tensor, rotation: Tensor, place: Tensor | None = None) -> Tensor:
        """x: [B, T, d_model], the raw read of the residual stream. rotation: of `rotary_angles`. place: where
        the output may be computed, of the same shape.
        """
        x = self.norm(x)
        if self.working is None or not torch.is_grad_enabled():
            return self.mix(*self.project(x, x, x), rotation)
        split = compiled(split_and_rotate) if self.working.compiled else split_and_rotate
        query, key, value = split(
            self._joint(x),
            rotation,
            self.query_norm.weight if self.query_norm else None,
            self.key_norm.weight if self.key_norm else None,
            self.norm.eps,
            (self.heads, self.kv_heads, self.head_width),
        )
        return self._combine(query, key, value, place)

    def speed_up(self, matrices: WorkingMatrices, compile: bool, blocks: "BlockMask | None") -> None:
        """blocks: of `causal_blocks`, if training passes are to go through FlexAttention."""
        joint = matrices.matrix(self.query.weight, self.key.weight, self.value.weight)
        self.working = Working(joint, compile)
        self.blocks = blocks

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
        turn = (
            compiled(rotate) if self.working and self.working.compiled and torch.is_grad_enabled() else rotate
        )
        if self.query_norm is not None and self.key_norm is not None:
            query, key = self.query_norm(query), self.key_norm(key)
        return self._combine(turn(query, rotation), turn(key, rotation), value)

    def _joint(self, x: Tensor) -> Tensor:
        """Queries, keys and values side by side."""
        assert self.working is not None
        joint = self.working.product(x)
        biases: list[Tensor] = [p.bias for p in (self.query, self.key, self.value) if p.bias is not None]
        return joint + torch.cat(biases).to(x.dtype) if biases else joint

    def _combine(self, query: Tensor, key: Tensor, value: Tensor, place: Tensor | None = None) -> Tensor:
        if self.cache is not None:
            key, value = self.cache.extend(key, value)
        query, key, value = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
        if self.blocks is not None and torch.is_grad_enabled():
            mixed = compiled(attend_flex)(query, key, value, self.blocks)
        else:
            mixed = _attend(query, key, value)
        output: Tensor = self.output(mixed.transpose(1, 2).flatten(2), place)
        return output

    def _by_head(self, projection: Linear, x: Tensor, heads: int) -> Tensor:
        if x.dim() == 4:
            weight = projection.weight.to(x.dtype).view(self.kv_heads, -1, x.shape[-1])
            projected = torch.einsum("btgd,god->btgo", x, weight)
            if projection.bias is not None:
                projected = projected + projection.bias.to(x.dtype).view(self.kv_heads, -1)
        else:
            projected = projection(x)
        return projected.reshape(*x.shape[:2], heads, self.head_width)


def split_and_rotate(
    joint: Tensor,
    rotation: Tensor,
    query_weight: Tensor | None,
    key_weight: Tensor | None,
    eps: float,
    heads: tuple[int, int, int],
) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value as `_attend` takes them, of their products side by side, [B, T, all widths].
    heads: query heads, KV heads, and their width."""
    by_head = joint.view(*joint.shape[:2], -1, heads[2])
    query, key, value = torch.split(by_head, [heads[0], heads[1], heads[1]], dim=2)
    if query_weight is not None and key_weight is not None:
        query, key = rms_norm(query, query_weight, eps), rms_norm(key, key_weight, eps)
    return rotate(query, rotation), rotate(key, rotation), value.contiguous()


def _attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """[B, heads, T, width]. On a GPU, half precision takes the flash kernel or fails, and full precision the
    plain one: others differ from run to run, and a silent change of kernel would change bits and speed.
    A single query is the last token's, which reads every key.

    Raises `UserError` where the flash kernel does not take these heads.
    """
    causal = query.shape[2] > 1
    if not query.is_cuda:
        return F.scaled_dot_product_attention(query, key, value, is_causal=causal, enable_gqa=True)
    backend = SDPBackend.MATH
    if query.element_size() == 2:
        check_flash(query, key, value)
        backend = SDPBackend.FLASH_ATTENTION
    with sdpa_kernel(backend):
        return F.scaled_dot_product_attention(query, key, value, is_causal=causal, enable_gqa=True)


def check_flash(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Raise `UserError` unless the flash kernel takes [B, heads, T, width] on these tensors' device."""
    parameters = torch.backends.cuda.SDPAParams(query, key, value, None, 0.0, True, True)
    if not torch.backends.cuda.can_use_flash_attention(parameters):
        raise UserError(
            f"flash attention cannot run on {query.device} with {query.shape[1]} heads of width "
            f"{query.shape[3]} and {key.shape[1]} KV heads in {str(query.dtype).removeprefix('torch.')}; "
            "it needs an NVIDIA GPU from Ampere on, and a width of at most 256: set model.heads"
        )
