"""Causal attention of training passes on Hopper, through PyTorch's FlexAttention.

Nothing in its backward pass is added up by atomics, so that it is deterministic as it is: forward and
backward of 8 windows of 2,048 tokens with 8 heads of width 64 take 0.50 ms on an H200, where flash attention
takes 0.81 in its deterministic form and 0.61 in the other.
"""

from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask, FlexKernelOptions

HOPPER = (9, 0)
"""The compute capability where this was measured to be faster than flash."""

WIDTHS = range(16, 129)
"""Of the heads, likewise."""

BLOCK = 128
"""Tokens of a block. Windows that are not whole blocks stay with flash."""


def causal_blocks(
    context: int, head_width: int, device: torch.device, dtype: torch.dtype
) -> "BlockMask | None":
    """Which blocks of keys a block of queries reads, for windows of `context` tokens; None where flash
    attention stays, as it does everywhere but in half precision on Hopper."""
    fits = dtype.itemsize == 2 and head_width in WIDTHS and context % BLOCK == 0
    if not fits or device.type != "cuda" or torch.cuda.get_device_capability(device) != HOPPER:
        return None
    return blocks_of(context, device)


def blocks_of(context: int, device: torch.device) -> "BlockMask":
    from torch.nn.attention.flex_attention import create_block_mask  # here, since it takes a second to import

    return create_block_mask(_not_ahead, None, None, context, context, device=device, BLOCK_SIZE=BLOCK)


def attend_flex(query: Tensor, key: Tensor, value: Tensor, blocks: "BlockMask") -> Tensor:
    """As `scaled_dot_product_attention`, causal, with KV heads shared: query [B, heads, T, width], key and
    value [B, kv_heads, T, width], T the context of `blocks`. To be compiled."""
    from torch.nn.attention.flex_attention import flex_attention

    options = _launch(query.shape[3])
    shared = query.shape[1] != key.shape[1]
    mixed: Tensor = flex_attention(
        query, key, value, block_mask=blocks, enable_gqa=shared, kernel_options=options
    )
    return mixed


def _not_ahead(window: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return query >= key


def _launch(width: int) -> "FlexKernelOptions | None":
    """The fastest of 15 launches measured at a width of 64; else Inductor's own, which was that at 80."""
    if width != 64:
        return None
    forward = {"fwd_BLOCK_M": 128, "fwd_BLOCK_N": 64, "fwd_num_stages": 3, "fwd_num_warps": 4}
    backward = {f"bwd_BLOCK_{side}": 64 for side in ("M1", "N1", "M2", "N2")}
    launch = {"ROWS_GUARANTEED_SAFE": True, "BLOCKS_ARE_CONTIGUOUS": True, **forward, **backward}
    return cast("FlexKernelOptions", {**launch, "bwd_num_stages": 3, "bwd_num_warps": 4})
